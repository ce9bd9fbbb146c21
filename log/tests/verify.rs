//! `verify` finds everything that happened to a run's files, and says where, and which time is missing.

mod common;

use common::disk::{Disk, Faults};
use common::{is_end, noise_mark, read_segment, SECOND};
use iocrec_log::event::*;
use iocrec_log::format::FIRST_BLOCK;
use iocrec_log::reader::{find, verify, Block, Cause, Fault, Finding, Findings};
use iocrec_log::writer::{Options, Writer, MIN_SEGMENT};
use std::fs;
use std::path::PathBuf;
use std::time::Duration;
use tempfile::TempDir;

/// What the wall clock showed at monotonic time 0.
const WALL: i64 = 1_790_000_000_000_000_000;
const SEGMENTS: usize = 3;

/// A run of three small segments: a disk error ends each but the last, without a loss.
fn run() -> Vec<(String, Vec<u8>)> {
    let disk = Disk::default();
    disk.set_wall(WALL);
    let mut writer = Writer::open(disk.clone(), Options::default(), 7).unwrap();
    let mut now = SECOND;
    let host = Host {
        name: "box".into(),
        kernel: "6.1".into(),
        arch: "armv7l".into(),
        boot_id: String::new(),
        recorder: "0.1.0".into(),
        utc_offset: 0,
    };
    writer.push(Event { time: now, fact: Fact::from(host) });
    writer.push(Event { time: now, fact: Fact::Clock(Clock { wall: WALL + now as i64 }) });
    for segment in 0..SEGMENTS {
        for block in 0..3_u32 {
            for hit in 0..3_u32 {
                let (thread, sp, site, record) = (1, -64, 1, hit);
                let process = Process { thread, sp, site, record, active: false };
                writer.push(Event { time: now, fact: Fact::Process(process) });
                let value = Value::Double(f64::from(block) / 3.0);
                let complete = Complete { thread, sp, site, record, value, severity: 0, status: 0 };
                now += 1234;
                writer.push(Event { time: now, fact: Fact::Complete(complete) });
            }
            now += 2 * SECOND;
            writer.tick(now);
        }
        if segment + 1 < SEGMENTS {
            writer.push(Event { time: now, fact: Fact::Mark(format!("end of segment {segment}")) });
            now += 10 * SECOND;
            let first = disk.operations() + 1; // appending goes well, syncing does not
            disk.set_faults(Some(Faults { first, count: 1, kind: std::io::ErrorKind::Other }));
            writer.tick(now);
            disk.set_faults(None);
            now += 60 * SECOND;
            writer.tick(now);
        }
    }
    writer.close(now);
    assert_eq!(writer.status().lost, 0);
    let segments = disk.segments();
    assert_eq!(segments.len(), SEGMENTS);
    segments
}

/// A run of small segments that were closed when they were full, and whose last one was closed at the end, or not.
fn full_run(close: bool) -> Vec<(String, Vec<u8>)> {
    let disk = Disk::default();
    disk.set_wall(WALL);
    let options = Options { segment: Some(MIN_SEGMENT), level: 1, ..Options::default() };
    let mut writer = Writer::open(disk.clone(), options, 7).unwrap();
    let (mut now, mut seed) = (SECOND, 1);
    writer.push(Event { time: now, fact: Fact::Clock(Clock { wall: WALL + now as i64 }) });
    while disk.segments().len() <= SEGMENTS {
        for _ in 0..2 {
            // Later than the last tick, as what a segment is closed for always is.
            now += SECOND / 2;
            writer.push(noise_mark(now, 4000, &mut seed));
        }
        writer.tick(now);
    }
    if close {
        writer.close(now);
    }
    assert_eq!(writer.status().lost, 0);
    disk.segments()
}

/// The run in a directory.
struct Stored {
    directory: TempDir,
    segments: Vec<(String, Vec<u8>)>,
}

impl Stored {
    fn new() -> Stored {
        Stored::of(run())
    }

    fn of(segments: Vec<(String, Vec<u8>)>) -> Stored {
        let stored = Stored { directory: tempfile::tempdir().unwrap(), segments };
        (0..stored.segments.len()).for_each(|number| stored.put(number, &stored.segments[number].1));
        stored
    }

    fn path(&self, number: usize) -> PathBuf {
        self.directory.path().join(&self.segments[number].0)
    }

    fn put(&self, number: usize, bytes: &[u8]) {
        fs::write(self.path(number), bytes).unwrap();
    }

    fn verify(&self) -> Findings {
        verify(&find(self.directory.path()).unwrap())
    }

    fn blocks(&self, number: usize) -> Vec<Block> {
        read_segment(&self.segments[number].1).unwrap().into_iter().map(Result::unwrap).collect()
    }
}

#[track_caller]
fn one(found: &Findings) -> &Finding {
    let [finding] = &found.list[..] else { panic!("{:?}", found.list) };
    assert_eq!(found.count, 1);
    finding
}

/// The missing time of a finding includes those of all events of a block.
#[track_caller]
fn assert_gone(finding: &Finding, block: &Block) {
    let times = block.events.iter().map(|event| WALL + event.time as i64);
    let (from, to) = (finding.from.unwrap(), finding.to.unwrap());
    assert!(times.clone().all(|time| from <= time && time <= to), "{finding:?}: {block:?}");
    // Not much more: the recorder's pause between two segments is the longest time without events.
    assert!(to - from < 80 * SECOND as i64, "{finding:?}");
}

#[test]
fn a_sound_run() {
    let found = Stored::new().verify();
    assert!(found.is_sound() && found.list.is_empty(), "{:?}", found.list);
    assert_eq!((found.segments, found.first_segment), (SEGMENTS, 0));
    assert_eq!(found.host.as_ref().unwrap().name, "box");
    // The interruptions are reported.
    assert_eq!(found.losses.len(), SEGMENTS - 1);
    let (first, last) = found.span.unwrap();
    assert!(first == WALL + SECOND as i64 && last > first + 120 * SECOND as i64);
}

#[test]
fn every_bit_flipped() {
    let stored = Stored::new();
    let whole = &stored.segments[1].1;
    let blocks = stored.blocks(1);
    for bit in 0..whole.len() * 8 {
        let place = bit as u64 / 8;
        let mut flipped = whole.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        stored.put(1, &flipped);
        let found = stored.verify();
        assert!(!found.is_sound(), "bit {bit}");
        let finding = one(&found);
        assert_eq!(finding.segment, stored.path(1));
        assert!((finding.offset..finding.offset + finding.length).contains(&place), "bit {bit}: {finding:?}");
        match blocks.iter().find(|block| (block.offset..block.offset + block.length).contains(&place)) {
            Some(block) if block.keyframe => {}
            Some(block) => assert_gone(finding, block),
            None => {
                assert!(place < FIRST_BLOCK as u64);
                assert_eq!((finding.from, finding.to), (None, None), "bit {bit}");
            }
        }
    }
}

#[test]
fn truncated_at_every_byte() {
    let stored = Stored::new();
    for number in [1, 2] {
        let whole = &stored.segments[number].1;
        let blocks = stored.blocks(number);
        for length in 0..whole.len() {
            stored.put(number, &whole[..length]);
            let found = stored.verify();
            let at_an_end = length == FIRST_BLOCK
                || blocks.iter().any(|block| block.offset + block.length == length as u64);
            if at_an_end {
                continue; // as if the recorder had been stopped there
            }
            let (last, headed) = (number + 1 == SEGMENTS, length >= FIRST_BLOCK / 2);
            let finding = found.list.iter().rfind(|finding| finding.segment == stored.path(number)).unwrap();
            assert_eq!(finding.segment, stored.path(number));
            match &finding.fault {
                Fault::Unfinished => assert!(last && headed, "{length}"),
                Fault::Damage(Cause::Cut) => assert!(headed && !last, "{length}"),
                Fault::Unreadable(_) => assert!(!headed, "{length}"),
                fault => panic!("cut at {length}: {fault:?}"),
            }
            assert_eq!(found.is_sound(), last && headed, "cut at {length}: {finding:?}");
        }
        stored.put(number, whole);
    }
}

#[test]
fn cut_between_two_blocks() {
    let stored = Stored::of(full_run(true));
    assert!(stored.segments.len() > SEGMENTS);
    let found = stored.verify();
    assert!(found.is_sound() && found.list.is_empty(), "{:?}", found.list);
    for (number, (_, whole)) in stored.segments.iter().enumerate() {
        let blocks = stored.blocks(number);
        assert!(blocks.len() >= 4);
        for (place, block) in blocks.iter().enumerate() {
            stored.put(number, &whole[..block.offset as usize]);
            let found = stored.verify();
            let finding = one(&found);
            assert_eq!((&finding.segment, finding.offset), (&stored.path(number), block_end(&blocks, place)));
            if number + 1 == stored.segments.len() {
                // It may as well have been killed there.
                assert_eq!((&finding.fault, found.is_sound()), (&Fault::Open, true));
                continue;
            }
            assert_eq!((&finding.fault, found.is_sound()), (&Fault::Short, false), "{number}, {place}");
            assert_eq!(finding.blocks as usize, blocks.len() - place);
            if (number, place) == (0, 0) {
                assert_eq!(finding.from, None); // there is nothing before it
                continue;
            }
            let gone = blocks[place..].iter().filter(|block| !block.keyframe && !is_end(block));
            gone.for_each(|block| assert_gone(finding, block));
            // Not beyond what was in it: the next segment's first event is later.
            let next = stored.blocks(number + 1).into_iter().find(|block| !block.keyframe).unwrap();
            assert!(finding.to.unwrap() < WALL + next.events[0].time as i64);
        }
        stored.put(number, whole);
    }
}

/// Where the last block before one ends, if there is any.
fn block_end(blocks: &[Block], place: usize) -> u64 {
    place.checked_sub(1).map_or(0, |before| blocks[before].offset + blocks[before].length)
}

/// A damaged end is one finding, with all blocks that are missing.
#[test]
fn cut_within_a_block_of_a_closed_segment() {
    let stored = Stored::of(full_run(true));
    let whole = &stored.segments[1].1;
    let blocks = stored.blocks(1);
    let bounds: Vec<usize> = blocks.iter().map(|block| block.offset as usize).collect();
    for length in (FIRST_BLOCK..whole.len()).step_by(211).filter(|length| !bounds.contains(length)) {
        stored.put(1, &whole[..length]);
        let found = stored.verify();
        let gone = blocks.iter().filter(|block| (block.offset + block.length) as usize > length).count();
        assert_eq!((&one(&found).fault, one(&found).blocks), (&Fault::Damage(Cause::Cut), gone as u32));
    }
    let last = blocks.last().unwrap().offset as usize;
    for place in last..whole.len() {
        let mut flipped = whole.clone();
        flipped[place] ^= 0x10;
        stored.put(1, &flipped);
        assert_eq!(one(&stored.verify()).blocks, 1, "{place}");
    }
}

#[test]
fn a_recorder_that_was_killed() {
    let found = Stored::of(full_run(false)).verify();
    assert_eq!((&one(&found).fault, found.is_sound()), (&Fault::Open, true));
}

#[test]
fn blocks_removed_swapped_repeated_and_garbage() {
    let stored = Stored::new();
    let whole = &stored.segments[1].1;
    let blocks = stored.blocks(1);
    let pieces: Vec<&[u8]> =
        blocks.iter().map(|block| &whole[block.offset as usize..][..block.length as usize]).collect();
    assert!(pieces.len() >= 4);
    let head = &whole[..FIRST_BLOCK];
    let verify = |parts: &[&[u8]]| {
        stored.put(1, &[&[head], parts].concat().concat());
        stored.verify()
    };

    let found = verify(&[&pieces[..1], &pieces[2..]].concat());
    assert_eq!((&one(&found).fault, one(&found).blocks), (&Fault::Damage(Cause::Missing), 1));
    assert_gone(one(&found), &blocks[1]);
    assert!(!found.is_sound());

    let found = verify(&[&pieces[..2], &pieces[1..]].concat());
    assert_eq!((&one(&found).fault, one(&found).blocks), (&Fault::Damage(Cause::Repeated), 0));
    assert_eq!((one(&found).from, found.is_sound()), (None, false));

    let mut swapped = pieces.clone();
    swapped.swap(1, 2);
    let found = verify(&swapped);
    assert_eq!(found.list.len(), 2, "{:?}", found.list);
    assert_gone(&found.list[0], &blocks[1]);

    let other = &stored.segments[0].1[stored.blocks(0)[1].offset as usize..];
    let found = verify(&[&pieces[..], &[other]].concat());
    assert!(
        found.list.iter().all(|finding| finding.fault == Fault::Damage(Cause::Stray)),
        "{:?}",
        found.list
    );
    assert!(!found.is_sound() && !found.list.is_empty());

    let found = verify(&[&pieces[..], &[&[0x55; 777]]].concat());
    assert_eq!(one(&found).fault, Fault::Damage(Cause::Garbage));
    assert_eq!((one(&found).offset, one(&found).length), (whole.len() as u64, 777));
}

/// Packets are read before the hits of their time, so the times of two blocks overlap.
#[test]
fn what_is_missing_between_blocks_that_overlap_ends_after_it_began() {
    let disk = Disk::default();
    disk.set_wall(WALL);
    let options = Options { flush: Duration::ZERO, ..Options::default() };
    let mut writer = Writer::open(disk.clone(), options, 7).unwrap();
    writer.push(Event { time: SECOND, fact: Fact::Clock(Clock { wall: WALL + SECOND as i64 }) });
    let mark = |time| Event { time, fact: Fact::Mark("overlaps".into()) };
    let (early, late) = (2 * SECOND, 2 * SECOND + 500);
    for (events, now) in [([early - 500, late], 3 * SECOND), ([early, late + 500], 4 * SECOND)] {
        events.into_iter().for_each(|time| writer.push(mark(time)));
        writer.tick(now);
    }
    writer.close(5 * SECOND);
    let stored = Stored::of(disk.segments());
    let bytes = &stored.segments[0].1;
    let is_second = |block: &&Block| block.events.iter().any(|event| event.time == early);
    let blocks = stored.blocks(0);
    let place = blocks.iter().find(is_second).expect("the block of the hits").offset as usize;
    stored.put(0, &[&bytes[..place], &[0x55; 100], &bytes[place..]].concat());

    let found = stored.verify();
    assert_eq!(one(&found).fault, Fault::Damage(Cause::Garbage));
    let times = (WALL + early as i64, WALL + late as i64);
    assert_eq!((one(&found).from, one(&found).to), (Some(times.0), Some(times.1)));
}

#[test]
fn segments_removed_repeated_and_exchanged() {
    let stored = Stored::new();
    fs::remove_file(stored.path(1)).unwrap();
    // The segment before it was abandoned after an error of the disk.
    let gap = |found: &Findings| {
        let [open, gap] = &found.list[..] else { panic!("{:?}", found.list) };
        assert_eq!((&open.fault, &open.segment, gap.segments), (&Fault::Open, &stored.path(0), 1));
        gap.clone()
    };
    let found = stored.verify();
    assert_eq!(gap(&found).fault, Fault::Segments);
    let (from, to) = (gap(&found).from.unwrap(), gap(&found).to.unwrap());
    for block in stored.blocks(1).iter().filter(|block| !block.keyframe) {
        assert!(block.events.iter().all(|event| (from..=to).contains(&(WALL + event.time as i64))));
    }
    assert!(!found.is_sound());

    // If all segments before it are pinned for a mark, the recorder has made room.
    let kept = stored.path(0).to_str().unwrap().replace(".iocrec", "-mark.iocrec");
    fs::rename(stored.path(0), &kept).unwrap();
    let found = stored.verify();
    assert_eq!(found.list.last().map(|finding| &finding.fault), Some(&Fault::MadeRoom));
    assert!(found.is_sound());
    fs::rename(&kept, stored.path(0)).unwrap();

    // Of the oldest, which the recorder deletes, only the number is known.
    fs::remove_file(stored.path(0)).unwrap();
    let found = stored.verify();
    assert!(found.is_sound() && found.first_segment == 2);

    // Names say nothing: the segments are known by their headers.
    let stored = Stored::new();
    stored.put(0, &stored.segments[2].1);
    stored.put(2, &stored.segments[0].1);
    assert!(stored.verify().is_sound());

    let stored = Stored::new();
    fs::write(stored.directory.path().join("copy.iocrec"), &stored.segments[1].1).unwrap();
    let found = stored.verify();
    assert_eq!((&one(&found).fault, found.is_sound()), (&Fault::Twice, true));
}
