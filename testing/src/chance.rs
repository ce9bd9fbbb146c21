//! Random numbers that depend on a seed alone, tests that are repeated with many seeds, and bytes changed at random.

use std::time::{Duration, Instant};

/// A splitmix64 generator, with its seed.
pub struct Random(pub u64);

impl Random {
    /// The next number.
    #[allow(clippy::should_implement_trait)] // it never ends
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `limit`; 0 if that is 0.
    pub fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }
}

/// Runs a test `times` times, each with random numbers of its own. With FUZZ_SECONDS in the environment, runs it for
/// that long, with other numbers each time. If the test panics, prints the seed, which FUZZ_SEED repeats.
pub fn fuzz(times: u64, mut test: impl FnMut(&mut Random)) {
    struct Tell(u64);
    impl Drop for Tell {
        fn drop(&mut self) {
            if std::thread::panicking() {
                eprintln!("to have it again: FUZZ_SEED={}", self.0);
            }
        }
    }
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    if let Some(seed) = number("FUZZ_SEED") {
        return test(&mut Random(seed));
    }
    let end = number("FUZZ_SECONDS").map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let clock = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let base = if end.is_some() { clock.map_or(1, |now| now.as_nanos() as u64) } else { 1 };
    let mut done = 0;
    while end.map_or(done < times, |end| Instant::now() < end) {
        let seed = base.wrapping_add(done.wrapping_mul(0x1_0000_0001));
        let _tell = Tell(seed);
        test(&mut Random(seed));
        done += 1;
    }
    println!("{done} times");
}

/// Changes bytes in one to four places.
pub fn mutate(random: &mut Random, bytes: &mut Vec<u8>) {
    for _ in 0..=random.below(4) {
        let (at, length) = (random.below(bytes.len() + 1), 1 + random.below(12));
        let end = (at + length).min(bytes.len());
        match random.below(8) {
            0 | 1 if at < end => bytes[at] ^= 1 << random.below(8),
            2 if at < end => bytes[at] = [0, 1, 2, 5, 0x7F, 0x80, 0xFE, 0xFF][random.below(8)],
            3 => drop(bytes.drain(at..end)),
            4 => {
                let noise: Vec<u8> = (0..length).map(|_| random.next() as u8).collect();
                drop(bytes.splice(at..at, noise));
            }
            5 => drop(bytes.splice(at..at, [0xFF; 9].into_iter().chain([1]))), // the largest varint
            6 => {
                let from = random.below(bytes.len() + 1);
                let copy = bytes[from..(from + 4 * length).min(bytes.len())].to_vec();
                drop(bytes.splice(at..end, copy));
            }
            7 if random.below(20) == 0 => bytes.truncate(at),
            _ => {}
        }
    }
}
