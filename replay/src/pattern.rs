//! Patterns for names.

use iocrec_log::glob::Glob;

/// A pattern for a whole name, with `*`, `?`, `[a-z]` and `[!a-z]`.
pub struct Pattern {
    text: String,
    glob: Glob,
}

impl Pattern {
    /// The pattern as written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// A pattern that matches this name and no other.
    pub fn literally(name: &str) -> Pattern {
        let mut text = String::with_capacity(name.len());
        for letter in name.chars() {
            match letter {
                '*' | '?' | '[' => text.extend(['[', letter, ']']),
                letter => text.push(letter),
            }
        }
        Pattern::from(text.as_str())
    }

    /// Whether it matches the whole name. A name always matches itself: `SLIT[1]:GAP` is one, too.
    pub fn matches(&self, name: &str) -> bool {
        self.glob.matches(name) || self.text == name
    }
}

impl Clone for Pattern {
    fn clone(&self) -> Self {
        Pattern::from(self.text.as_str())
    }
}

impl From<&str> for Pattern {
    fn from(text: &str) -> Self {
        Pattern { text: text.to_owned(), glob: Glob::new(text) }
    }
}
