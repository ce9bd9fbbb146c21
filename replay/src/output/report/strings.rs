//! The page's table of strings: each text once, cut to a length and harmless to show.

use foldhash::fast::RandomState;
use iocrec_log::escape;
use serde::{Serialize, Serializer};
use std::hash::BuildHasher;

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

/// Place in the table where no text is.
const FREE: Text = Text::MAX;

/// All texts, in the order of their numbers. The first is empty.
///
/// A flood has a text for each put, most of them a few letters long: so they stand one after the other in one piece of
/// memory, and are found by a table of their numbers alone.
pub struct Strings {
    /// All texts, one after the other, and the end of each.
    letters: String,
    ends: Vec<u32>,
    /// Numbers of texts, each at the place of its hash or after it; free places are [`FREE`]. Its length is a power of
    /// two, and a quarter of it at least is free.
    places: Vec<Text>,
    hasher: RandomState,
}

impl Default for Strings {
    fn default() -> Self {
        let places = vec![FREE; 64];
        let mut strings =
            Strings { letters: String::new(), ends: Vec::new(), places, hasher: RandomState::default() };
        strings.insert("");
        strings
    }
}

impl Strings {
    /// About its size in memory, bytes.
    pub fn size(&self) -> usize {
        self.letters.len() + self.ends.len() * (size_of::<u32>() + size_of::<Text>())
    }

    /// The number of a text from a log. Characters that can't be shown are written as `\n`, `\x1b`, `\u{202e}`.
    pub fn add(&mut self, text: &str) -> Text {
        if let Some(number) = self.find(text) {
            return number;
        }
        let mut shown = String::new();
        let cut = text.char_indices().nth(MAX_LETTERS).map(|(at, _)| at);
        escape::push(&mut shown, text.get(..cut.unwrap_or(text.len())).unwrap_or_default());
        if cut.is_some() {
            shown.push('…');
        }
        if self.letters.len() + shown.len() > MAX_BYTES && text != LEFT_OUT {
            return self.add(LEFT_OUT);
        }
        self.find(&shown).unwrap_or_else(|| self.insert(&shown))
    }

    /// A text of the table.
    pub fn get(&self, number: Text) -> &str {
        let Ok(number) = usize::try_from(number) else { return "" };
        let end = |number: usize| usize::try_from(*self.ends.get(number)?).ok();
        let begin = number.checked_sub(1).map_or(Some(0), end);
        let text = begin.zip(end(number));
        text.and_then(|(begin, end)| self.letters.get(begin..end)).unwrap_or_default()
    }

    /// The place of a text: that of its number, or the free one where it would be.
    fn place(&self, text: &str) -> usize {
        let last = self.places.len().wrapping_sub(1);
        // the lower digits suffice: they choose a place
        let mut place = self.hasher.hash_one(text) as usize & last;
        while self.places.get(place).is_some_and(|number| *number != FREE && self.get(*number) != text) {
            place = (place + 1) & last;
        }
        place
    }

    fn find(&self, text: &str) -> Option<Text> {
        self.places.get(self.place(text)).copied().filter(|number| *number != FREE)
    }

    /// Adds a text that is not in the table.
    fn insert(&mut self, text: &str) -> Text {
        if (self.ends.len() + 1) * 4 > self.places.len() * 3 {
            self.find_anew(2 * self.places.len());
        }
        let number = Text::try_from(self.ends.len()).unwrap_or(FREE);
        let place = self.place(text);
        self.letters.push_str(text);
        self.ends.push(u32::try_from(self.letters.len()).unwrap_or(u32::MAX)); // not beyond MAX_BYTES
        self.places.get_mut(place).into_iter().for_each(|free| *free = number);
        number
    }

    /// Makes the table of places anew, with so many.
    fn find_anew(&mut self, places: usize) {
        self.places = Vec::new();
        self.places.resize(places, FREE);
        for number in 0..self.ends.len() {
            let number = Text::try_from(number).unwrap_or(FREE);
            let place = self.place(self.get(number));
            self.places.get_mut(place).into_iter().for_each(|free| *free = number);
        }
    }

    /// Number of texts.
    pub fn count(&self) -> usize {
        self.ends.len()
    }

    /// Drops all texts but the first and those that are wanted, by their numbers, in the memory that they have. Returns
    /// the new number of each; 0 for those that were dropped.
    pub fn keep(&mut self, wanted: &[bool]) -> Vec<Text> {
        let mut numbers: Vec<Text> = vec![0; self.ends.len()];
        let mut letters = std::mem::take(&mut self.letters).into_bytes();
        let (mut begin, mut length) = (0, 0);
        let mut kept: u32 = 0;
        for (number, of) in numbers.iter_mut().enumerate() {
            let Some(end) = self.ends.get(number).and_then(|end| usize::try_from(*end).ok()) else { break };
            if number == 0 || wanted.get(number) == Some(&true) {
                letters.copy_within(begin..end, length);
                length += end - begin;
                let place = usize::try_from(kept).ok().and_then(|kept| self.ends.get_mut(kept));
                place.into_iter().for_each(|end| *end = u32::try_from(length).unwrap_or(u32::MAX));
                *of = kept;
                kept += 1;
            }
            begin = end;
        }
        letters.truncate(length);
        // whole texts, so it is still UTF-8
        self.letters = String::from_utf8(letters).unwrap_or_default();
        self.ends.truncate(usize::try_from(kept).unwrap_or(usize::MAX));
        self.find_anew((self.ends.len() * 2).next_power_of_two().max(64));
        numbers
    }
}

/// Some texts of a table, in a table of their own.
pub struct Selected {
    all: Strings,
    some: Strings,
    /// For each text of `all`, its number in `some`, or [`FREE`].
    numbers: Vec<Text>,
}

impl Selected {
    /// None yet but the empty one.
    pub fn of(all: Strings) -> Self {
        let numbers = vec![FREE; all.ends.len()];
        Selected { all, some: Strings::default(), numbers }
    }

    /// Takes a text by its number in the whole table. Returns its number here.
    pub fn number(&mut self, text: Text) -> Text {
        let place = usize::try_from(text).ok().and_then(|place| self.numbers.get_mut(place));
        let Some(number) = place.filter(|_| text > 0) else { return 0 };
        if *number == FREE {
            *number = self.some.insert(self.all.get(text));
        }
        *number
    }

    /// The texts that were taken.
    pub fn into_strings(self) -> Strings {
        self.some
    }
}

/// A list of all, in the order of their numbers.
impl Serialize for Strings {
    fn serialize<To: Serializer>(&self, to: To) -> Result<To::Ok, To::Error> {
        to.collect_seq((0..self.ends.len()).map(|number| self.get(Text::try_from(number).unwrap_or(FREE))))
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
    fn each_of_many_is_found_again() {
        let mut strings = Strings::default();
        let text = |number: u32| format!("{}", number * 7);
        for number in 0..20_000 {
            assert_eq!(strings.add(&text(number)), number + 1);
        }
        for number in (0..20_000).rev() {
            assert_eq!(strings.add(&text(number)), number + 1);
            assert_eq!(strings.get(number + 1), text(number));
        }
        assert!(strings.places.len() <= 1 << 15, "{}", strings.places.len());
    }

    #[test]
    fn some_texts_are_selected() {
        let mut strings = Strings::default();
        let numbers: Vec<Text> = (0..1000).map(|number| strings.add(&format!("{number}\n"))).collect();
        let mut some = Selected::of(strings);
        assert_eq!(some.number(0), 0);
        let chosen: Vec<Text> = numbers.iter().rev().step_by(10).map(|text| some.number(*text)).collect();
        assert_eq!((some.number(numbers[999]), some.number(Text::MAX)), (1, 0));
        let strings = some.into_strings();
        assert_eq!(chosen, (1..=100).collect::<Vec<Text>>());
        assert_eq!((strings.get(0), strings.get(1), strings.get(100)), ("", r"999\n", r"9\n"));
    }

    #[test]
    fn those_that_are_not_wanted_are_dropped() {
        let mut strings = Strings::default();
        let text = |number: u32| format!("é{}", number * 7);
        (0..5000).for_each(|number| _ = strings.add(&text(number)));
        let wanted: Vec<bool> = (0..strings.count()).map(|number| number % 10 == 1).collect();
        let size = strings.size();
        let numbers = strings.keep(&wanted);
        assert!(strings.size() < size / 8 && strings.count() == 501, "{}", strings.count());
        for number in (0..5000).step_by(10) {
            let new = numbers[number as usize + 1];
            assert_eq!(strings.get(new), text(number));
            assert_eq!(strings.add(&text(number)), new, "it is found");
        }
        assert_eq!((numbers[0], numbers[2], strings.get(0)), (0, 0, ""));
        let another = strings.add(&text(1));
        assert_eq!((another, strings.get(another)), (501, &*text(1)), "it was dropped");
        assert_eq!(strings.keep(&[]).iter().max(), Some(&0));
        assert_eq!((strings.count(), strings.add("")), (1, 0));
    }

    #[test]
    fn the_table_is_bounded() {
        let mut strings = Strings::default();
        for number in 0..100_000 {
            strings.add(&format!("{number}{}", "x".repeat(150)));
        }
        assert!(strings.letters.len() <= MAX_BYTES + LEFT_OUT.len(), "{}", strings.letters.len());
        let left_out = strings.add(&"another".repeat(28));
        assert_eq!(strings.get(left_out), LEFT_OUT);
    }
}
