//! Shell patterns for record, PV and host names: `*`, `?`, `[a-z]`, `[!x]`. They are here because they must
//! mean the same to the recorder and the reader.
//!
//! A pattern without any of these matches only itself. The steps of a match are at most the product of the lengths of
//! pattern and text.

/// A pattern.
pub struct Glob(Vec<char>);

impl Glob {
    /// Makes a pattern from the user's text.
    pub fn new(pattern: &str) -> Self {
        Glob(pattern.chars().collect())
    }

    /// Whether all of `text` matches.
    pub fn matches(&self, text: &str) -> bool {
        let text: Vec<char> = text.chars().collect();
        let (mut p, mut t) = (0, 0);
        // The point to return to after the last `*`: its position, and the start of the text that it has not consumed.
        let mut star: Option<(usize, usize)> = None;
        while let Some(&c) = text.get(t) {
            let step = match self.0.get(p) {
                Some('*') => {
                    star = Some((p, t));
                    p += 1;
                    continue;
                }
                Some('?') => Some(1),
                Some('[') => self.set(p, c),
                Some(&own) => (own == c).then_some(1),
                None => None,
            };
            match (step, star) {
                (Some(length), _) => {
                    p += length;
                    t += 1;
                }
                (None, Some((place, from))) => {
                    star = Some((place, from + 1));
                    p = place + 1;
                    t = from + 1;
                }
                (None, None) => return false,
            }
        }
        self.0.iter().skip(p).all(|&c| c == '*')
    }

    /// Matches the set that begins at `p`. Returns its length in the pattern. A `[` that is never closed matches
    /// itself.
    fn set(&self, p: usize, c: char) -> Option<usize> {
        let inside = self.0.get(p + 1..)?;
        let negated = inside.first() == Some(&'!');
        let members = inside.get(usize::from(negated)..)?;
        let Some(end) = members.iter().skip(1).position(|&m| m == ']').map(|i| i + 1) else {
            return (c == '[').then_some(1);
        };
        let members = members.get(..end)?;
        let mut found = false;
        let mut i = 0;
        while let Some(&low) = members.get(i) {
            match (members.get(i + 1), members.get(i + 2)) {
                (Some('-'), Some(&high)) => {
                    found |= (low..=high).contains(&c);
                    i += 3;
                }
                _ => {
                    found |= low == c;
                    i += 1;
                }
            }
        }
        (found != negated).then_some(2 + usize::from(negated) + end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        for (pattern, text, expected) in [
            ("T:SP", "T:SP", true),
            ("T:SP", "T:SP2", false),
            ("T:*", "T:SP", true),
            ("*SP", "T:SP", true),
            ("*:*:b", "a:a:b:c:b", true),
            ("T:?P", "T:SP", true),
            ("T:?P", "T:P", false),
            ("T[0-9]", "T5", true),
            ("T[!0-9]", "T5", false),
            ("T[!0-9]", "Tx", true),
            ("T[]x]", "T]", true),
            ("T[", "T[", true),
            ("T[", "Tx", false),
            ("", "", true),
            ("*", "", true),
            ("", "x", false),
        ] {
            assert_eq!(Glob::new(pattern).matches(text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn many_stars_do_not_take_for_ever() {
        assert!(!Glob::new(&format!("{}b", "a*".repeat(40))).matches(&"a".repeat(4000)));
    }
}
