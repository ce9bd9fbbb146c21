//! The texts of a column, each once, and by number where it comes again: as Parquet's dictionaries have them.

use foldhash::fast::RandomState;
use std::hash::BuildHasher;

/// Slots of the table at first.
const SLOTS: usize = 64;
/// A slot without a text.
const FREE: u32 = u32::MAX;

/// See the module.
pub struct Texts {
    /// By value its text's number.
    pub numbers: Vec<u32>,
    /// All texts, each after its length: as a page has them.
    pub bytes: Vec<u8>,
    /// By number, where the text is in `bytes`.
    places: Vec<(u32, u32)>,
    /// Numbers by the hash of their texts: in the slot for it, or the next free one. At most half are in use.
    slots: Vec<u32>,
    hashes: RandomState,
}

impl Texts {
    /// Without any.
    pub fn new() -> Texts {
        let hashes = RandomState::default();
        Texts { numbers: Vec::new(), bytes: Vec::new(), places: Vec::new(), slots: vec![FREE; SLOTS], hashes }
    }

    /// The number of different texts.
    pub fn count(&self) -> usize {
        self.places.len()
    }

    /// The different texts.
    pub fn each(&self) -> impl Iterator<Item = &[u8]> {
        self.places.iter().map(|place| self.at(*place))
    }

    fn at(&self, (begin, length): (u32, u32)) -> &[u8] {
        let begin = begin as usize;
        self.bytes.get(begin..begin + length as usize).unwrap_or_default()
    }

    fn is(&self, number: u32, text: &str) -> bool {
        self.places.get(number as usize).is_some_and(|place| self.at(*place) == text.as_bytes())
    }

    /// Adds a value. Returns the bytes that it takes.
    pub fn push(&mut self, text: &str) -> usize {
        // hosts, IOCs and threads come many times in a row
        if let Some(last) = self.numbers.last().copied().filter(|last| self.is(*last, text)) {
            self.numbers.push(last);
            return size_of::<u32>();
        }
        let slot = self.slot(text.as_bytes(), |number| self.is(number, text));
        match self.slots.get(slot).copied().filter(|number| *number != FREE) {
            Some(known) => {
                self.numbers.push(known);
                size_of::<u32>()
            }
            None => self.enter(slot, text),
        }
    }

    /// Adds a value that was not there yet. `slot`: the free one for it.
    fn enter(&mut self, slot: usize, text: &str) -> usize {
        // row groups are far below 4 GiB
        let (number, length) = (self.places.len() as u32, text.len() as u32);
        self.bytes.extend_from_slice(&length.to_le_bytes());
        self.places.push((self.bytes.len() as u32, length));
        self.bytes.extend_from_slice(text.as_bytes());
        self.numbers.push(number);
        self.occupy(slot, number);
        if self.places.len() * 2 > self.slots.len() {
            let count = self.slots.len() * 2;
            self.slots.clear();
            self.slots.resize(count, FREE);
            for number in 0..=number {
                let place = self.places.get(number as usize).copied().unwrap_or_default();
                self.occupy(self.slot(self.at(place), |_| false), number);
            }
        }
        // with its length, its place and its slots
        size_of::<[u32; 2]>() + size_of::<(u32, u32)>() + size_of::<[u32; 3]>() + text.len()
    }

    /// The slot for a text: of the number that `is` it, or the next free one.
    fn slot(&self, text: &[u8], is: impl Fn(u32) -> bool) -> usize {
        // there is a power of two
        let mask = self.slots.len() - 1;
        let mut slot = self.hashes.hash_one(text) as usize & mask;
        while self.slots.get(slot).is_some_and(|number| *number != FREE && !is(*number)) {
            slot = (slot + 1) & mask;
        }
        slot
    }

    fn occupy(&mut self, slot: usize, number: u32) {
        if let Some(free) = self.slots.get_mut(slot) {
            *free = number;
        }
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.numbers.clear();
        self.bytes.clear();
        self.places.clear();
        self.slots.fill(FREE); // as many as before: the next rows have as many texts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_text_is_there_once() {
        let mut texts = Texts::new();
        for round in 0..2 {
            let all: Vec<String> = (0..5000).map(|number| format!("T:{}", number * 7 % 1000)).collect();
            all.iter().for_each(|text| _ = texts.push(text));
            texts.push("");
            let different: Vec<&[u8]> = texts.each().collect();
            assert_eq!((texts.count(), different.len()), (1001, 1001), "round {round}");
            for (text, number) in all.iter().zip(&texts.numbers) {
                assert_eq!(different[*number as usize], text.as_bytes());
            }
            assert_eq!(texts.numbers[..3], [0, 1, 2], "in the order in which they came");
            assert_eq!(texts.bytes[..7], *b"\x03\0\0\0T:0");
            texts.clear();
        }
    }
}
