//! Maps with numbers and addresses as keys, cheap enough for every hit.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Hashes numbers and addresses, which no attacker chooses: multiplies each by 2^64 divided by the golden ratio (Knuth,
/// The Art of Computer Programming 3, 6.4) and folds down the well-mixed high bits.
#[derive(Default)]
pub struct AddressHasher(u64);

impl Hasher for AddressHasher {
    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 32
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(byte.into()));
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(number.into());
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0.rotate_left(5) ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

/// A map with numbers or addresses as keys.
pub type AddressMap<K, V> = HashMap<K, V, BuildHasherDefault<AddressHasher>>;
