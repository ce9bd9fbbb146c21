//! The secret of a run: from it and an original follows the replacement, always the same, and nobody without it can tell
//! which original a replacement stands for, or try out guesses.
//!
//! Its functions keep no table: a log with any number of names takes no more memory than one with few.

use std::hash::{BuildHasher, Hasher, RandomState};

/// Letters of a replaced name: 32 of them, without those that look alike.
const LETTERS: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";
/// Letters of a token: 50 bits, so that among a million names two are the same with a probability of 1 to 2000.
const TOKEN: usize = 10;
/// Lengths at which fields and probes cut texts: strings of 40 bytes with their end, and what probes read of longer ones
/// (`bpf/hits.h`).
const CUTS: [usize; 3] = [39, 152, 400];
/// Rounds of a permutation: with four and a good function nothing of the input is to be seen (Luby and Rackoff).
const ROUNDS: u64 = 4;

/// A secret that is new in each run of the program.
#[derive(Clone, Default)]
pub struct Secret {
    /// Keys of 128 bits from the system, for SipHash: a keyed function made so that its keys can't be found from its
    /// results.
    keys: RandomState,
}

impl Secret {
    /// A number that follows from these bytes. `of`: what they are, so that equal bytes of two kinds get different ones.
    pub fn number(&self, of: &str, bytes: &[u8], round: u64) -> u64 {
        let mut hasher = self.keys.build_hasher();
        hasher.write_u64(round);
        hasher.write_usize(of.len());
        hasher.write(of.as_bytes());
        hasher.write(bytes);
        hasher.finish()
    }

    /// A name that stands for these bytes: `of`, a dash, ten letters.
    pub fn token(&self, of: &str, bytes: &[u8]) -> String {
        let mut number = self.number(of, bytes, 0);
        let mut token = format!("{of}-");
        for _ in 0..TOKEN {
            token.push(char::from(LETTERS[(number % 32) as usize]));
            number /= 32;
        }
        token
    }

    /// Letters of the same length that stand for a text. Zeros stay where they are: they end texts. Up to each of [`CUTS`]
    /// they follow from the text up to there alone: what is left of a text that was cut is the beginning of the whole one.
    pub fn letters(&self, of: &str, text: &[u8]) -> Vec<u8> {
        let mut letters = Vec::with_capacity(text.len());
        for end in CUTS.into_iter().filter(|cut| *cut < text.len()).chain([text.len()]) {
            // once over all of it for each cut: a long text may not cost the square of its length
            let seed = self.number(of, text.get(..end).unwrap_or(text), 1).to_le_bytes();
            for (place, byte) in text.iter().enumerate().take(end).skip(letters.len()) {
                letters.push(match byte {
                    0 => 0,
                    _ => LETTERS[(self.number(of, &seed, 2 + place as u64) % 32) as usize],
                });
            }
        }
        letters
    }

    /// Bytes of the same length that stand for others.
    pub fn bytes(&self, of: &str, bytes: &[u8]) -> Vec<u8> {
        let seed = self.number(of, bytes, 1).to_le_bytes();
        (0..bytes.len()).map(|place| self.number(of, &seed, 2 + place as u64) as u8).collect()
    }

    /// Another number from `first` to `last` (inclusive) for one of them: different ones for different numbers.
    pub fn permuted(&self, of: &str, number: u64, first: u64, last: u64) -> u64 {
        let Some(place) = number.checked_sub(first).filter(|_| number <= last) else { return number };
        let span = last - first;
        // An even number of bits that holds all places; each half has half of them.
        let half = (64 - span.leading_zeros()).div_ceil(2).max(1);
        let mask = (1u64 << half) - 1;
        let mut place = place;
        // A permutation of 2^(2 half) numbers; it is applied until it comes to one of the range, which takes four tries on
        // the average, since the range is more than a quarter of them. Where it began is in the range, so it ends.
        loop {
            let (mut left, mut right) = (place >> half & mask, place & mask);
            for round in 0..ROUNDS {
                let bytes = right.to_le_bytes();
                (left, right) = (right, left ^ self.number(of, &bytes, round << 8 | u64::from(half)) & mask);
            }
            place = left << half | right;
            if place <= span {
                return first + place;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn a_permutation_gives_each_number_of_a_range_once() {
        let secret = Secret::default();
        for (first, last) in [(0, 0), (5, 6), (16, 127), (128, 255), (1 << 63, (1 << 63) + 300)] {
            let all: HashSet<u64> =
                (first..=last).map(|number| secret.permuted("number", number, first, last)).collect();
            assert_eq!(all.len() as u64, last - first + 1);
            assert!(all.iter().all(|number| (first..=last).contains(number)));
        }
        assert!(secret.permuted("number", u64::MAX, 1 << 63, u64::MAX) >= 1 << 63);
        assert_eq!(secret.permuted("number", 5, 16, 127), 5, "what is not in the range stays");
    }

    #[test]
    fn two_secrets_differ_and_one_is_always_the_same() {
        let (one, other) = (Secret::default(), Secret::default());
        assert_eq!(one.token("pv", b"A"), one.token("pv", b"A"));
        assert_ne!(one.token("pv", b"A"), one.token("pv", b"B"));
        assert_ne!(one.token("pv", b"A"), other.token("pv", b"A"));
        assert_ne!(one.number("pv", b"A", 0), one.number("host", b"A", 0));
        assert_eq!(one.letters("text", b"ab\0c").get(2), Some(&0));
    }

    #[test]
    fn what_is_left_of_a_cut_text_is_its_beginning() {
        let secret = Secret::default();
        let text: Vec<u8> = (0..1000u32).map(|number| b'a' + (number % 23) as u8).collect();
        let whole = secret.letters("text", &text);
        for cut in CUTS {
            assert_eq!(secret.letters("text", &text[..cut]), whole[..cut]);
        }
        let mut other = text.clone();
        other[999] = b'!';
        assert_ne!(secret.letters("text", &other)[400..450], whole[400..450]);
    }
}
