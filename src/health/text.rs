//! The texts of /proc that the beat reads. Any bytes may come; what isn't as proc(5) says is `None`.

/// What the scheduler has counted for a thread since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Time that it has run, nanoseconds. The kernel adds to it at ticks and switches, so it may lag by 10 ms.
    pub run: u64,
    /// Time that it has waited for a CPU though it could run, nanoseconds. A wait is added when it ends.
    pub waiting: u64,
    /// How often it has got a CPU.
    pub times: u64,
}

/// Parses a schedstat: `run waiting times`. A kernel that does not count writes zeros, which no thread has that runs.
pub fn counts(text: &[u8]) -> Option<Counts> {
    let mut words = words(text);
    let counts = Counts { run: words.next()??, waiting: words.next()??, times: words.next()?? };
    (counts != Counts::default()).then_some(counts)
}

/// The numbers of a text; `None` for a word that is none.
fn words(text: &[u8]) -> impl Iterator<Item = Option<u64>> + '_ {
    let words = text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    words.map(|word| std::str::from_utf8(word).ok()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedstat() {
        assert_eq!(counts(b"12 34 5\n"), Some(Counts { run: 12, waiting: 34, times: 5 }));
        for wrong in
            [&b""[..], b"0 0 0\n", b"1 2", b"1 2 x", b"-1 2 3", b"1 \xff 3", b"99999999999999999999 0 1"]
        {
            assert_eq!(counts(wrong), None, "{wrong:?}");
        }
    }
}
