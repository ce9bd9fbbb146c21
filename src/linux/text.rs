//! Bytes of other processes as text.

/// A name of any bytes as text: bytes that are not UTF-8 become `\xNN`. Control characters stay, as in packets;
/// printing escapes them ([`iocrec_log::escape`]).
pub fn printable(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    iocrec_log::value::push_lossy(&mut text, bytes);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_names_are_shown_byte_by_byte() {
        assert_eq!(printable(b"\xffA\n\xc3\xa9"), "\\xffA\n\u{e9}");
    }
}
