//! Changes segments at random: their bytes, or what is in their blocks, with all lengths and checksums made
//! right again, so that what is behind these is reached.

use std::time::{Duration, Instant};

const HEADERS: usize = 160;
const BLOCK_HEADER: usize = 52;
const COLUMNS: usize = 17;

/// splitmix64: what it gives depends on the seed alone.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }
}

/// Runs a test so many times, each with its own random numbers; with FUZZ_SECONDS in the environment, for so long
/// and with other numbers each time. Says which numbers it were when the test panics.
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

/// A block: its header, and its body unpacked.
#[derive(Clone)]
pub struct Piece {
    pub header: Vec<u8>,
    pub body: Vec<u8>,
}

/// A segment's headers and blocks.
#[derive(Clone)]
pub struct Pieces {
    pub head: Vec<u8>,
    pub blocks: Vec<Piece>,
}

fn field(header: &[u8], at: usize) -> usize {
    u32::from_le_bytes(header[at..at + 4].try_into().unwrap()) as usize
}

impl Pieces {
    /// Of a sound segment.
    pub fn of(segment: &[u8]) -> Pieces {
        let (head, mut rest) = segment.split_at(HEADERS);
        let mut blocks = Vec::new();
        while !rest.is_empty() {
            let (header, behind) = rest.split_at(BLOCK_HEADER);
            let (body, behind) = behind.split_at(field(header, 20));
            let body = zstd::bulk::decompress(body, field(header, 16)).unwrap();
            blocks.push(Piece { header: header.to_vec(), body });
            rest = behind;
        }
        Pieces { head: head.to_vec(), blocks }
    }

    /// The segment, lengths and checksums right.
    pub fn segment(&self) -> Vec<u8> {
        let mut out = self.head.clone();
        for Piece { header, body } in &self.blocks {
            let stored = zstd::bulk::compress(body, 1).unwrap();
            let mut header = header.clone();
            header[16..20].copy_from_slice(&(body.len() as u32).to_le_bytes());
            header[20..24].copy_from_slice(&(stored.len() as u32).to_le_bytes());
            header[44..48].copy_from_slice(&crc32fast::hash(&stored).to_le_bytes());
            let crc = crc32fast::hash(&header[..48]).to_le_bytes();
            header[48..].copy_from_slice(&crc);
            out.extend(header);
            out.extend(stored);
        }
        out
    }

    /// Changes what is in some of the blocks.
    pub fn mutate(&mut self, random: &mut Random) {
        for _ in 0..=random.below(3) {
            let number = random.below(self.blocks.len());
            let block = &mut self.blocks[number];
            match random.below(8) {
                0 => mutate(random, &mut block.body),
                // Flags, encoding, count, times: what a reader goes by. Not the tag and the number.
                1 => block.header[[12, 14, 24, 25, 28, 35, 36, 43][random.below(8)]] ^= 1 << random.below(8),
                _ if block.header[14] == 2 => mutate_column(random, &mut block.body),
                _ => mutate(random, &mut block.body),
            }
        }
    }
}

/// Changes one column of a body in encoding 2; the others stay where they are.
fn mutate_column(random: &mut Random, body: &mut Vec<u8>) {
    let mut rest = body.as_slice();
    let lengths: Vec<usize> = (0..COLUMNS).map_while(|_| varint(&mut rest)).collect();
    if lengths.len() < COLUMNS || lengths.iter().sum::<usize>() != rest.len() {
        return mutate(random, body); // was changed before
    }
    let mut columns: Vec<Vec<u8>> = Vec::new();
    for length in lengths {
        let (column, behind) = rest.split_at(length);
        columns.push(column.to_vec());
        rest = behind;
    }
    let number = random.below(COLUMNS);
    mutate(random, &mut columns[number]);
    let mut out = Vec::new();
    for column in &columns {
        let mut length = column.len();
        while length >= 128 {
            out.push(length as u8 | 128);
            length >>= 7;
        }
        out.push(length as u8);
    }
    *body = [out, columns.concat()].concat();
}

fn varint(bytes: &mut &[u8]) -> Option<usize> {
    let mut number = 0;
    for shift in [0, 7, 14, 21] {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= usize::from(byte & 127) << shift;
        if *byte < 128 {
            return Some(number);
        }
    }
    None
}
