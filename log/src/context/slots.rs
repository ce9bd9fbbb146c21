//! Places for values of one kind, which a tree of keys points to.
//!
//! Memory grows by a fixed number of places, so that it is never doubled, and stays until the last value is gone.

/// Values in a piece of memory. The first piece grows up to this.
const PIECE: usize = 256;

/// See the module.
#[derive(Clone, Debug)]
pub struct Slots<T> {
    pieces: Vec<Vec<Option<T>>>,
    free: Vec<u32>,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Slots { pieces: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slots<T> {
    /// The value at a place, if there is one.
    pub fn get(&self, slot: u32) -> Option<&T> {
        let slot = slot as usize;
        self.pieces.get(slot / PIECE)?.get(slot % PIECE)?.as_ref()
    }

    /// Keeps a value, and returns its place.
    pub fn put(&mut self, value: T) -> u32 {
        if let Some(slot) = self.free.pop() {
            if let Some(place) = self.place(slot) {
                *place = Some(value);
            }
            return slot;
        }
        if self.pieces.last().is_none_or(|piece| piece.len() == PIECE) {
            let begins = if self.pieces.is_empty() { 0 } else { PIECE };
            self.pieces.push(Vec::with_capacity(begins));
        }
        if let Some(piece) = self.pieces.last_mut() {
            piece.push(Some(value));
        }
        (self.len() - 1) as u32
    }

    /// Takes the value out of a place, which another one may get.
    pub fn take(&mut self, slot: u32) -> Option<T> {
        let value = self.place(slot)?.take()?;
        self.free.push(slot);
        if self.free.len() == self.len() {
            *self = Slots::default();
        }
        Some(value)
    }

    /// Number of places; all pieces but the last are full.
    fn len(&self) -> usize {
        self.pieces.last().map_or(0, |last| (self.pieces.len() - 1) * PIECE + last.len())
    }

    fn place(&mut self, slot: u32) -> Option<&mut Option<T>> {
        let slot = slot as usize;
        self.pieces.get_mut(slot / PIECE)?.get_mut(slot % PIECE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stay_where_they_were_put() {
        let mut slots = Slots::default();
        let places: Vec<u32> = (0..1000).map(|value| slots.put(value)).collect();
        for (value, &slot) in places.iter().enumerate().filter(|(value, _)| value % 3 == 0) {
            assert_eq!(slots.take(slot), Some(value));
            assert_eq!(slots.get(slot), None);
            assert_eq!(slots.take(slot), None);
        }
        let again: Vec<u32> = (0..334).map(|value| slots.put(value + 5000)).collect();
        assert!(again.iter().all(|slot| (*slot as usize) < 1000), "free places first");
        for (value, &slot) in again.iter().enumerate() {
            assert_eq!(slots.get(slot), Some(&(value + 5000)));
        }
        assert_eq!(slots.get(places[1]), Some(&1));
        for slot in 0..1000 {
            assert!(slots.take(slot).is_some());
        }
        assert_eq!((slots.len(), slots.get(0)), (0, None), "nothing is held any more");
    }
}
