//! JSON that may stand inside a page: `<` is written `\u003c`, and nothing that a terminal or an editor would obey.

use iocrec_log::escape::push_json;
use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};
use std::io::{self, Write};

struct InPage;

impl Formatter for InPage {
    fn write_string_fragment<W: ?Sized + Write>(&mut self, writer: &mut W, part: &str) -> io::Result<()> {
        for (place, part) in part.split('<').enumerate() {
            if place > 0 {
                writer.write_all(b"\\u003c")?;
            }
            if iocrec_log::escape::is_safe(part) {
                writer.write_all(part.as_bytes())?;
            } else {
                let mut escaped = String::new();
                push_json(&mut escaped, part);
                writer.write_all(escaped.as_bytes())?;
            }
        }
        Ok(())
    }
}

/// An object as JSON for a page.
///
/// # Errors
/// If it can't be written as JSON; none of ours.
pub fn in_page(object: &impl Serialize) -> io::Result<String> {
    let mut bytes = Vec::new();
    object.serialize(&mut Serializer::with_formatter(&mut bytes, InPage))?;
    String::from_utf8(bytes).map_err(|_| io::ErrorKind::InvalidData.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn nothing_ends_the_script_and_everything_comes_back() {
        let value = json!({"</script><b>": ["<!--", "\u{2028}\u{202e}", 1.5, null, "a\"\\\n"]});
        let text = in_page(&value).unwrap();
        assert!(!text.contains('<') && iocrec_log::escape::is_safe(&text), "{text}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
    }
}
