//! Changes segments at random: their bytes, or the content of their blocks with all lengths and checksums corrected, so
//! that the code behind those checks is reached.

use iocrec_testing::chance::{mutate, Random};

const HEADERS: usize = 160;
const BLOCK_HEADER: usize = 52;
const COLUMNS: usize = 17;

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

    /// Changes the content of some blocks.
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
