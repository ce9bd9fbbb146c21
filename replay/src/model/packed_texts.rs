//! Very many short texts in one piece of memory: a name of 18 letters takes 22 bytes, and 64 where it is shared.

use crate::room;

/// Texts by number: 0, 1, 2 and so on, in the order in which they were added.
#[derive(Default)]
pub struct PackedTexts {
    /// All of them, one after the other, and the end of each.
    letters: String,
    ends: Vec<u32>,
}

impl PackedTexts {
    /// Adds a text. Those beyond the first 4 GB are empty.
    pub fn push(&mut self, text: &str) {
        if u32::try_from(self.letters.len() + text.len()).is_ok() {
            // as the ends have it: a text that doubles would leave a megabyte unused
            if self.letters.capacity() - self.letters.len() < text.len() {
                self.letters.reserve_exact(text.len().max(self.letters.len() / 8));
            }
            self.letters.push_str(text);
        }
        room::for_one_more(&mut self.ends);
        self.ends.push(u32::try_from(self.letters.len()).unwrap_or(u32::MAX));
    }

    /// The text with this number.
    pub fn get(&self, number: usize) -> Option<&str> {
        let begin = number.checked_sub(1).map_or(Some(&0), |before| self.ends.get(before))?;
        self.letters.get(*begin as usize..*self.ends.get(number)? as usize)
    }

    /// Number of texts.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// All texts, in the order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        (0..self.len()).map(|number| self.get(number).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_eighth_of_their_memory_is_unused_at_most() {
        let mut texts = PackedTexts::default();
        for number in 0..10_000 {
            texts.push(&format!("LINAC:MAG{number:06}:CUR"));
            assert!(texts.letters.capacity() <= texts.letters.len() / 8 * 9 + 32);
        }
    }

    #[test]
    fn texts_are_found_by_their_numbers() {
        let mut texts = PackedTexts::default();
        let all = ["LINAC:MAG000001:CUR", "", "é", ""];
        all.into_iter().for_each(|text| texts.push(text));
        assert_eq!(texts.iter().collect::<Vec<_>>(), all);
        assert_eq!((texts.len(), texts.get(2), texts.get(4)), (4, Some("é"), None));
    }
}
