//! Logs that are small on the disk and huge when they are read: memory stays within its bound, work ends, and both say
//! so. What a recorder writes is far from either.

mod common;

use common::{iocreplay, outcome, segments, write_events, MS, SECOND};
use iocrec_log::event::*;
use std::fs;
use std::path::Path;

/// Bytes of headers (docs/format.md).
const SEGMENT: usize = 160;
const BLOCK: usize = 52;
/// The bound of everything that a command holds.
const MOST: u64 = 256 << 20;

/// The blocks of a segment.
fn blocks(bytes: &[u8]) -> Vec<&[u8]> {
    let mut rest = &bytes[SEGMENT..];
    let mut blocks = Vec::new();
    while rest.len() >= BLOCK {
        let stored = u32::from_le_bytes(rest[20..24].try_into().unwrap()) as usize;
        let (block, after) = rest.split_at(BLOCK + stored);
        blocks.push(block);
        rest = after;
    }
    blocks
}

/// A block with another number, and rightly so.
fn renumbered(block: &[u8], number: u32) -> Vec<u8> {
    let mut block = block.to_vec();
    block[8..12].copy_from_slice(&number.to_le_bytes());
    let crc = crc32fast::hash(&block[..48]);
    block[48..52].copy_from_slice(&crc.to_le_bytes());
    block
}

/// Writes a log of these facts, and then makes the block with the most events in it come so many times.
fn write_repeated(directory: &Path, facts: Vec<(u64, Fact)>, times: u32) {
    write_events(directory, "box1", 7, facts);
    let file = segments(directory).remove(0);
    let bytes = fs::read(&file).unwrap();
    let events = |block: &[u8]| u32::from_le_bytes(block[24..28].try_into().unwrap());
    let all = blocks(&bytes);
    let largest =
        all.iter().position(|block| events(block) == all.iter().map(|block| events(block)).max().unwrap());
    let largest = largest.unwrap();
    let mut bomb: Vec<u8> = bytes[..SEGMENT].to_vec();
    let repeated = std::iter::repeat_n(&all[largest], times as usize);
    for (number, block) in all[..largest].iter().chain(repeated).enumerate() {
        bomb.extend(renumbered(block, number as u32));
    }
    fs::write(&file, bomb).unwrap();
}

fn process(n: u64) -> Fact {
    Fact::Process(Process { thread: 1, sp: -100, site: 1, record: 1 + (n % 2) as u32, active: false })
}

/// Facts of which a block is next to nothing.
fn kinds() -> Vec<(&'static str, Fact)> {
    let value = Value::Double(1.0);
    let (thread, sp, site, record) = (1, -100, 1, 1);
    let put = |kind| {
        let (requested, old) = (value.clone(), value.clone());
        Fact::Put(Put {
            thread,
            sp,
            site,
            kind,
            record,
            field: Some(1),
            dbf: Dbf::Double,
            count: 1,
            requested,
            old,
        })
    };
    let ca_put = |notify| {
        let payload = vec![0; 8];
        Fact::CaPut(CaPut { circuit: 1, channel: 1, notify, dbr: 6, count: 1, ioid: 1, length: 8, payload })
    };
    let cause = |kind| Fact::Cause(Cause { thread, sp, site, kind, object: 9, record: Some(1) });
    vec![
        ("process", process(0)),
        (
            "complete",
            Fact::Complete(Complete {
                thread,
                sp,
                site,
                record,
                value: value.clone(),
                severity: 0,
                status: 0,
            }),
        ),
        ("put", put(PutKind::Put)),
        ("put-field", put(PutKind::PutField)),
        ("notify", put(PutKind::Notify)),
        ("ca-put", ca_put(false)),
        ("ca-put-notify", ca_put(true)),
        (
            "answer",
            Fact::CaAnswer(CaAnswer { circuit: 1, ioid: 1, notify: true, status: 1, text: String::new() }),
        ),
        ("scan-once", cause(CauseKind::ScanOnce)),
        ("callback", cause(CauseKind::CallbackRequest)),
        ("end", Fact::ChannelEnd(77)),
        ("serves", Fact::Serves(Serves { thread: 1, circuit: 1 })),
    ]
}

#[test]
fn make_bombs() {
    let Ok(to) = std::env::var("BOMBS") else { return };
    for (name, fact) in kinds() {
        let facts = (0..40_000).map(|_| (SECOND, fact.clone())).collect();
        write_repeated(&Path::new(&to).join(name), facts, 1160);
        let facts = (0..40_000).map(|n| (SECOND + n * MS / 40, fact.clone())).collect();
        write_repeated(&Path::new(&to).join(format!("{name}-over-time")), facts, 1160);
    }
}
