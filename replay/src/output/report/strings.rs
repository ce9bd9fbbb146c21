//! The page's table of strings: each text once, cut to a length and harmless to show.

use iocrec_log::escape;
use std::collections::HashMap;

/// A text from outside as it may be shown: characters that can't be shown are written as `\n`, `\x1b`, `\u{202e}`.
pub fn shown(text: &str) -> String {
    let mut shown = String::new();
    escape::push(&mut shown, text);
    shown
}

/// Number of a string in the table.
pub type Text = u32;

/// Letters kept of a text. Longer ones are values, and `iocreplay puts` shows them whole.
const MAX_LETTERS: usize = 200;
/// Bytes of all texts; a bound for logs with a name for each put. Later texts are replaced by [`LEFT_OUT`].
const MAX_BYTES: usize = 8 << 20;
/// Stands for a text that had no room.
const LEFT_OUT: &str = "(left out)";

/// All texts, in the order of their numbers. The first is empty.
pub struct Strings {
    texts: Vec<String>,
    numbers: HashMap<String, Text>,
    bytes: usize,
}

impl Default for Strings {
    fn default() -> Self {
        let mut strings = Strings { texts: Vec::new(), numbers: HashMap::new(), bytes: 0 };
        strings.add("");
        strings
    }
}

impl Strings {
    /// The number of a text from a log. Characters that can't be shown are written as `\n`, `\x1b`, `\u{202e}`.
    pub fn add(&mut self, text: &str) -> Text {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        let mut shown = String::new();
        let cut = text.char_indices().nth(MAX_LETTERS).map(|(at, _)| at);
        escape::push(&mut shown, text.get(..cut.unwrap_or(text.len())).unwrap_or_default());
        if cut.is_some() {
            shown.push('…');
        }
        if self.bytes + shown.len() > MAX_BYTES && text != LEFT_OUT {
            return self.add(LEFT_OUT);
        }
        if let Some(number) = self.numbers.get(&shown) {
            return *number;
        }
        let number = u32::try_from(self.texts.len()).unwrap_or(u32::MAX);
        self.bytes += shown.len();
        self.texts.push(shown.clone());
        self.numbers.insert(shown, number);
        number
    }

    /// A text of the table.
    pub fn get(&self, number: Text) -> &str {
        usize::try_from(number).ok().and_then(|number| self.texts.get(number)).map_or("", String::as_str)
    }

    /// All texts, in the order of their numbers.
    pub fn all(&self) -> &[String] {
        &self.texts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_text_is_held_once_and_harmless() {
        let mut strings = Strings::default();
        let first = strings.add("A\u{202e}B");
        assert_eq!(strings.get(first), r"A\u{202e}B");
        assert_eq!(strings.add("A\u{202e}B"), first);
        assert_eq!(strings.add(r"A\u{202e}B"), first);
        let long = strings.add(&"x".repeat(1000));
        assert_eq!(strings.get(long).chars().count(), MAX_LETTERS + 1);
        assert_eq!((strings.add(""), strings.get(99)), (0, ""));
    }

    #[test]
    fn the_table_is_bounded() {
        let mut strings = Strings::default();
        for number in 0..100_000 {
            strings.add(&format!("{number}{}", "x".repeat(150)));
        }
        assert!(strings.bytes <= MAX_BYTES + LEFT_OUT.len(), "{}", strings.bytes);
        let left_out = strings.add(&"another".repeat(28));
        assert_eq!(strings.get(left_out), LEFT_OUT);
    }
}
