//! Damaged segments: no panic, no wrong event, no loss beyond the blocks touched, nothing unreported.

use crate::common::disk::{Disk, Faults};
use crate::common::{bytes, read_segment, SECOND};
use crate::facts;
use iocrec_log::event::{Complete, Event, Fact, Host, Process, Record, Value};
use iocrec_log::format::{FIRST_BLOCK, SEGMENT_HEADER};
use iocrec_log::reader::{Block, Cause, Damage, ReadError};
use iocrec_log::writer::{Options, Writer};
use proptest::prelude::*;

type Found = Vec<Result<Block, Damage>>;

/// A small segment: a keyframe and `blocks` blocks.
fn segment(run: u128, blocks: u64) -> Vec<u8> {
    let disk = Disk::default();
    let mut writer = Writer::open(disk.clone(), Options::default(), run).unwrap();
    // Definitions pushed before the segment begins make its keyframe: begin a second one by a failure.
    disk.set_faults(Some(Faults { first: 1, count: 1, kind: std::io::ErrorKind::Other }));
    let host = Host {
        name: format!("box {run}"),
        kernel: "6.1".into(),
        arch: "armv7l".into(),
        boot_id: "0b8c2a3e-6f52-4d8e-9b35-0f3c1d0a7e11".into(),
        recorder: "0.1.0".into(),
        utc_offset: 3600,
    };
    writer.push(Event { time: SECOND, fact: Fact::from(host) });
    disk.set_faults(None);
    for block in 0..blocks {
        let now = SECOND * 2 * (block + 2);
        writer.tick(now);
        let record =
            Record { id: 1, ioc: 1, address: 9, name: format!("r{run}:{block}"), rtype: "ai".into() };
        writer.push(Event { time: now, fact: Fact::from(record) });
        writer.push(Event { time: now + 1, fact: Fact::Mark(format!("mark {block} of {run}")) });
        for hit in 0..4 {
            let time = now + 1000 * u64::from(hit) + 2;
            let (thread, sp, site, record) = (1, -64 * i64::from(hit % 2), 1, hit % 2);
            let process = Process { thread, sp, site, record, active: false };
            writer.push(Event { time, fact: Fact::Process(process) });
            let value = Value::Double(1.5 * (block + u64::from(hit)) as f64);
            let complete = Complete { thread, sp: sp - 9, site, record, value, severity: 0, status: 0 };
            writer.push(Event { time: time + 700, fact: Fact::Complete(complete) });
        }
    }
    writer.close(SECOND * 2 * (blocks + 2));
    let mut segments = disk.segments();
    assert_eq!(segments.len(), 1);
    segments.pop().unwrap().1
}

fn blocks(found: &Found) -> Vec<&Block> {
    found.iter().filter_map(|part| part.as_ref().ok()).collect()
}

fn same(a: &Block, b: &Block) -> bool {
    a.sequence == b.sequence
        && a.keyframe == b.keyframe
        && a.events.iter().map(bytes).eq(b.events.iter().map(bytes))
}

/// Blocks and damage lie one behind the other from the first block to the end of the file.
#[track_caller]
fn assert_covered(found: &Found, length: usize) {
    let mut offset = FIRST_BLOCK as u64;
    for part in found {
        let (start, length) = match part {
            Ok(block) => (block.offset, block.length),
            Err(damage) if damage.offset < FIRST_BLOCK as u64 => continue,
            Err(damage) => (damage.offset, damage.length),
        };
        assert_eq!(start, offset, "{found:?}");
        offset += length;
    }
    assert_eq!(offset, (length as u64).max(FIRST_BLOCK as u64), "{found:?}");
}

fn lost_blocks(found: &Found) -> u32 {
    found.iter().filter_map(|part| part.as_ref().err()).map(|damage| damage.blocks).sum()
}

#[test]
fn an_intact_segment_has_no_damage() {
    let whole = segment(1, 4);
    let found = read_segment(&whole).unwrap();
    assert_covered(&found, whole.len());
    assert_eq!(blocks(&found).len(), found.len());
    assert!(found.len() >= 5);
    assert!(found[0].as_ref().unwrap().keyframe);
}

#[test]
fn truncated_at_every_byte() {
    let whole = segment(1, 4);
    let good = read_segment(&whole).unwrap();
    let ends: Vec<u64> = blocks(&good).iter().map(|block| block.offset + block.length).collect();
    for length in 0..whole.len() {
        match read_segment(&whole[..length]) {
            Ok(found) => {
                assert!(length >= SEGMENT_HEADER);
                let complete = ends.iter().filter(|end| **end <= length as u64).count();
                let read = blocks(&found);
                assert_eq!(read.len(), complete, "cut at {length}");
                assert!(read.iter().zip(blocks(&good)).all(|(a, b)| same(a, b)));
                assert_covered(&found, length);
                let at_an_end = length == FIRST_BLOCK || ends.contains(&(length as u64));
                let cut = found.iter().filter_map(|part| part.as_ref().err()).all(|d| d.cause == Cause::Cut);
                assert!(cut && (found.len() == complete) == at_an_end, "cut at {length}: {found:?}");
            }
            Err(ReadError::Empty(_)) => assert_eq!(length, 0),
            Err(ReadError::Cut(_)) => assert!((1..SEGMENT_HEADER).contains(&length)),
            Err(error) => panic!("cut at {length}: {error}"),
        }
    }
}

#[test]
fn every_bit_flipped() {
    let whole = segment(1, 3);
    let good = read_segment(&whole).unwrap();
    for bit in 0..whole.len() * 8 {
        let mut flipped = whole.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        let found = read_segment(&flipped).unwrap_or_else(|error| panic!("bit {bit}: {error}"));
        assert_covered(&found, whole.len());
        let place = (bit / 8) as u64;
        let untouched: Vec<_> = blocks(&good)
            .into_iter()
            .filter(|block| !(block.offset..block.offset + block.length).contains(&place))
            .collect();
        let read = blocks(&found);
        assert_eq!(read.len(), untouched.len(), "bit {bit}: {found:?}");
        assert!(read.iter().zip(&untouched).all(|(a, b)| same(a, b)), "bit {bit}");
        // The flip itself is reported, at its place.
        let damages: Vec<_> = found.iter().filter_map(|part| part.as_ref().err()).collect();
        let [damage] = damages[..] else { panic!("bit {bit}: {damages:?}") };
        assert!((damage.offset..damage.offset + damage.length).contains(&place), "bit {bit}: {damage}");
    }
}

#[test]
fn garbage_appended() {
    let whole = segment(1, 3);
    for garbage in [&[0_u8; 5000][..], b"\xB7\x4C\x0F\xE3", &whole[..], &whole[FIRST_BLOCK..], b"x"] {
        let found = read_segment(&[&whole, garbage].concat()).unwrap();
        assert_covered(&found, whole.len() + garbage.len());
        assert_eq!(blocks(&found).len(), blocks(&read_segment(&whole).unwrap()).len());
        assert!(found.last().unwrap().is_err());
    }
}

/// The pieces of a segment: its header, then its blocks.
fn pieces(whole: &[u8]) -> (Vec<u8>, Vec<Vec<u8>>) {
    let found = read_segment(whole).unwrap();
    let cut = |block: &Block| whole[block.offset as usize..(block.offset + block.length) as usize].to_vec();
    (whole[..FIRST_BLOCK].to_vec(), blocks(&found).into_iter().map(cut).collect())
}

#[test]
fn blocks_removed_repeated_swapped_and_strayed() {
    let whole = segment(1, 4);
    let (head, parts) = pieces(&whole);
    let join = |parts: &[&Vec<u8>]| {
        [&head[..], &parts.iter().copied().flatten().copied().collect::<Vec<u8>>()].concat()
    };
    let sequences = |found: &Found| blocks(found).iter().map(|block| block.sequence).collect::<Vec<_>>();
    let causes = |found: &Found| {
        found
            .iter()
            .filter_map(|part| part.as_ref().err())
            .map(|damage| damage.cause.clone())
            .collect::<Vec<_>>()
    };
    let [a, b, c, d, e, _] = &parts[..] else { panic!("{} blocks", parts.len()) };

    let found = read_segment(&join(&[a, b, e])).unwrap();
    assert_eq!((sequences(&found), causes(&found)), (vec![0, 1, 4], vec![Cause::Missing]));
    assert_eq!(lost_blocks(&found), 2);

    let found = read_segment(&join(&[a, b, b, c, a, d, e])).unwrap();
    assert_eq!(
        (sequences(&found), causes(&found)),
        (vec![0, 1, 2, 3, 4], vec![Cause::Repeated, Cause::Repeated])
    );

    let found = read_segment(&join(&[a, c, b, d, e])).unwrap();
    assert_eq!(
        (sequences(&found), causes(&found)),
        (vec![0, 2, 3, 4], vec![Cause::Missing, Cause::Repeated])
    );

    let (_, foreign) = pieces(&segment(2, 4));
    let found = read_segment(&join(&[a, b, &foreign[2], c, d, e])).unwrap();
    assert_eq!((sequences(&found), causes(&found)), (vec![0, 1, 2, 3, 4], vec![Cause::Stray]));

    // A piece torn out of the middle of a block and one out of a header.
    let torn = [&b[..60], &b[61..]].concat();
    let found = read_segment(&join(&[a, &torn, c, d, e])).unwrap();
    assert!(sequences(&found).ends_with(&[3, 4]), "{found:?}");
    let torn = b[7..].to_vec();
    let found = read_segment(&join(&[a, &torn, c, d, e])).unwrap();
    assert_eq!((sequences(&found), lost_blocks(&found)), (vec![0, 2, 3, 4], 1));
}

#[test]
fn lines_name_place_and_cause() {
    let mut flipped = segment(1, 1);
    let last = flipped.len() - 1;
    flipped[last] ^= 1;
    let found = read_segment(&flipped).unwrap();
    let damage = found.last().unwrap().as_ref().unwrap_err();
    assert_eq!(
        damage.to_string(),
        format!("at byte {}, {} bytes, 1 block: wrong checksum", damage.offset, damage.length)
    );
}

/// A reader that wants a time passes over other blocks, but never over a definition it may need.
#[test]
fn passes_over_other_times() {
    let disk = Disk::default();
    let mut writer = Writer::open(disk.clone(), Options::default(), 1).unwrap();
    for block in 1..=10u64 {
        let now = block * 10 * SECOND;
        if block == 2 {
            let record = Record { id: 1, ioc: 1, address: 9, name: "needed".into(), rtype: "ai".into() };
            writer.push(Event { time: now, fact: Fact::from(record) });
        }
        writer.push(Event { time: now, fact: Fact::Mark(block.to_string()) });
        writer.tick(now + 2 * SECOND);
    }
    let whole = disk.segments().remove(0).1;
    let path = std::path::Path::new("x");
    let mut reader = iocrec_log::reader::Segment::read(std::io::Cursor::new(whole), path).unwrap();
    reader.only(65 * SECOND, 80 * SECOND);
    let mut marks = Vec::new();
    let mut defined = false;
    while let Some(block) = reader.next_block() {
        for event in block.unwrap().events {
            match event.fact {
                Fact::Mark(text) => marks.push(text),
                Fact::Record(_) => defined = true,
                _ => {}
            }
        }
    }
    assert!(defined);
    assert_eq!(marks, ["2", "7", "8"]);
}

/// Bytes that look like blocks, more or less.
fn hostile() -> impl Strategy<Value = Vec<u8>> {
    let whole = segment(1, 3);
    let piece = (0..whole.len(), 0..400usize, any::<Option<(u8, u8)>>());
    let pieces = proptest::collection::vec((piece, proptest::collection::vec(any::<u8>(), 0..20)), 0..12);
    (any::<bool>(), pieces).prop_map(move |(headed, pieces)| {
        let mut out = if headed { whole[..FIRST_BLOCK].to_vec() } else { vec![] };
        for ((start, length, change), noise) in pieces {
            let end = (start + length).min(whole.len());
            let at = out.len();
            out.extend_from_slice(&whole[start..end]);
            if let Some((place, value)) = change {
                if let Some(byte) = out.get_mut(at + usize::from(place)) {
                    *byte = value;
                }
            }
            out.extend_from_slice(&noise);
        }
        out
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// Whatever the bytes are: no panic, all of them accounted for, and only true events.
    #[test]
    fn any_bytes(data in hostile()) {
        let good = read_segment(&segment(1, 3)).unwrap();
        if let Ok(found) = read_segment(&data) {
            assert_covered(&found, data.len());
            for block in blocks(&found) {
                prop_assert!(blocks(&good).iter().any(|known| same(known, block)));
            }
        }
    }

    /// The same for a segment of random facts, damaged at random.
    #[test]
    fn random_segments(events in facts::events(1..30), place in any::<proptest::sample::Index>(), flip in 1..=255u8) {
        let disk = Disk::default();
        let mut writer = Writer::open(disk.clone(), Options::default(), 1).unwrap();
        for (number, event) in events.iter().enumerate() {
            writer.push(event.clone());
            writer.tick(number as u64 * SECOND / 3);
        }
        writer.close(100 * SECOND);
        let mut data = disk.segments().remove(0).1;
        let good = read_segment(&data).unwrap();
        let place = place.index(data.len());
        data[place] ^= flip;
        let found = read_segment(&data).unwrap();
        assert_covered(&found, data.len());
        let header_hit = usize::from(place < FIRST_BLOCK);
        prop_assert_eq!(blocks(&found).len() + 1, blocks(&good).len() + header_hit);
        for block in blocks(&found) {
            prop_assert!(blocks(&good).iter().any(|known| same(known, block)));
        }
    }
}
