//! Disks that fail: at every operation, in every way, for a while or for good.

mod common;

use common::disk::{Disk, Faults};
use common::{noise_mark, read_all, split_losses, SECOND};
use iocrec_log::event::{Event, Fact, Record};
use iocrec_log::reader::Segment;
use iocrec_log::writer::{Options, Pin, State, Writer, MIN_DISK, MIN_SEGMENT};
use std::io::{Cursor, ErrorKind};
use std::path::Path;

const KINDS: [ErrorKind; 3] = [ErrorKind::StorageFull, ErrorKind::Other, ErrorKind::ReadOnlyFilesystem];

/// Pushes events for 40 seconds, half a second a tick. Gives the number pushed.
fn load(writer: &mut Writer<Disk>, size: usize) -> u64 {
    let mut seed = 77;
    let mut pushed = 0;
    for beat in 2..80u64 {
        let now = beat * SECOND / 2;
        let record =
            Record { id: beat as u32, ioc: 1, address: beat, name: format!("r{beat}"), rtype: "ai".into() };
        writer.push(Event { time: now, fact: Fact::from(record) });
        for number in 0..5 {
            writer.push(noise_mark(now + number, size, &mut seed));
        }
        pushed += 6;
        writer.tick(now + 10);
    }
    pushed
}

/// `keep`: nothing needs to be deleted, so that all that is stored can be read at the end.
fn run(keep: bool, faults: Faults) -> (Disk, Writer<Disk>, u64) {
    run_with(keep, faults, 700)
}

/// The same with events of this size.
fn run_with(keep: bool, faults: Faults, size: usize) -> (Disk, Writer<Disk>, u64) {
    let disk = Disk::default();
    let max_disk = if keep { 64 << 20 } else { MIN_DISK };
    let options = Options { max_disk, segment: Some(64 << 10), level: 1, ..Options::default() };
    let mut writer = Writer::open(disk.clone(), options, 1).unwrap();
    disk.watch_cap(max_disk);
    disk.set_faults(Some(Faults { first: faults.first.saturating_add(disk.operations()), ..faults }));
    let pushed = load(&mut writer, size);
    (disk, writer, pushed)
}

#[test]
fn at_every_operation() {
    let (disk, _, _) = run(true, Faults { first: u64::MAX, count: 0, kind: ErrorKind::Other });
    let operations = disk.operations();
    assert!(operations > 50);
    for kind in KINDS {
        for first in 0..operations {
            for count in [1, 2, 7] {
                let (disk, mut writer, pushed) = run(true, Faults { first, count, kind });
                if disk.failed() < count {
                    // It would have failed at the end: that the recorder can't come back from then
                    // is another test's.
                    disk.set_faults(None);
                }
                writer.close(1000 * SECOND);
                let context = format!("{kind:?}, {count} failures from operation {first}");
                let status = writer.status();
                assert_eq!(status.state, State::Ok, "{context}");
                assert_eq!(status.stored + status.lost, pushed, "{context}");
                let (read, lost) = split_losses(read_all(&disk));
                if status.deleted_early == 0 {
                    assert_eq!((read.len() as u64, lost), (status.stored, status.lost), "{context}");
                } else {
                    // Where the disk seems full for good, old segments make room for new ones.
                    assert!(kind == ErrorKind::StorageFull && lost <= status.lost, "{context}");
                }
                assert_eq!((status.on_disk, status.taken >= disk.taken()), (disk.used(), true), "{context}");
                assert!(status.lost == 0 || writer.take_notice().is_some(), "{context}");
            }
        }
    }
}

/// The disk is full for a moment, perhaps just as a segment begins: that one is begun again, and readers miss none.
#[test]
fn segments_are_numbered_without_gaps() {
    let kind = ErrorKind::StorageFull;
    let (disk, _, _) = run_with(true, Faults { first: u64::MAX, count: 0, kind }, 2000);
    assert!(disk.segments().len() >= 4);
    let mut begun_again = 0;
    for first in 0..disk.operations() {
        let (disk, mut writer, _) = run_with(true, Faults { first, count: 1, kind }, 2000);
        disk.set_faults(None);
        writer.close(1000 * SECOND);
        if std::iter::from_fn(|| writer.take_notice()).any(|line| line.starts_with("storing paused: ")) {
            continue;
        }
        // an older segment made room
        begun_again += writer.status().deleted_early;
        let segments = disk.segments();
        let number = |(name, bytes): &(String, Vec<u8>)| {
            Segment::read(Cursor::new(bytes), Path::new(name)).unwrap().header().sequence
        };
        let numbers: Vec<u32> = segments.iter().map(number).collect();
        assert!(numbers.windows(2).all(|pair| pair[1] == pair[0] + 1), "operation {first}: {numbers:?}");
    }
    assert!(begun_again > 0);
}

/// The disk fails for a moment. A segment that has nothing but its beginning then is deleted, and its number is the next one's.
#[test]
fn segments_are_numbered_without_gaps_where_storing_paused() {
    let mut paused = 0;
    for kind in KINDS {
        let (disk, _, _) = run(true, Faults { first: u64::MAX, count: 0, kind });
        // a second failure, at whatever the first one led to
        for (first, count) in (0..disk.operations()).flat_map(|first| [(first, 1), (first, 2)]) {
            let (disk, mut writer, _) = run(true, Faults { first, count, kind });
            disk.set_faults(None);
            writer.close(1000 * SECOND);
            paused += u32::from(writer.status().lost > 0);
            let segments = disk.segments();
            let number = |(name, bytes): &(String, Vec<u8>)| {
                let segment = Segment::read(Cursor::new(bytes), Path::new(name)).ok()?;
                Some(segment.header().sequence)
            };
            let numbers: Vec<u32> = segments.iter().filter_map(number).collect();
            let without_gaps = numbers.windows(2).all(|pair| pair[1] == pair[0] + 1);
            assert!(without_gaps, "{kind:?} at operation {first}, {count}: {numbers:?}");
        }
    }
    assert!(paused > 0);
}

/// The disk refuses to rename just as a mark pins what was recorded, and the recorder ends before it tries again.
#[test]
fn a_pin_that_could_not_be_named_is_named_at_the_end() {
    let mut refused = 0;
    for first in 0..12 {
        let disk = Disk::default();
        let mut writer = Writer::open(disk.clone(), Options::default(), 1).unwrap();
        load(&mut writer, 700);
        let (first, kind) = (disk.operations() + first, ErrorKind::Other);
        disk.set_faults(Some(Faults { first, count: 1, kind }));
        let is_stored = writer.mark(41 * SECOND, "here").is_ok();
        disk.set_faults(None);
        let notices: Vec<String> = std::iter::from_fn(|| writer.take_notice()).collect();
        writer.close(42 * SECOND);
        if is_stored && notices.iter().any(|line| line.starts_with("renaming a pinned segment: ")) {
            refused += 1;
            let segments = disk.segments();
            assert!(segments.iter().all(|(name, _)| name.ends_with("-mark.iocrec")), "{notices:?}");
        }
    }
    assert!(refused > 0);
}

/// The same with a cap that makes it delete: the rest is sound, and never too much.
#[test]
fn at_every_operation_with_a_small_cap() {
    let (disk, _, _) = run(false, Faults { first: u64::MAX, count: 0, kind: ErrorKind::Other });
    for first in 0..disk.operations() {
        for count in [1, 4] {
            let (disk, mut writer, pushed) = run(false, Faults { first, count, kind: ErrorKind::Other });
            disk.set_faults(None);
            writer.close(1000 * SECOND);
            let status = writer.status();
            assert_eq!((status.stored + status.lost, &status.state), (pushed, &State::Ok));
            assert!(!split_losses(read_all(&disk)).0.is_empty());
        }
    }
}

/// A disk that fails for ever: counted, one line, few tries, and what was stored before stays.
#[test]
fn for_good() {
    for kind in KINDS {
        let (disk, mut writer, pushed) = run(true, Faults { first: 30, count: u64::MAX, kind });
        let failed = disk.failed();
        assert!((3..40).contains(&failed), "{failed} tries in 40 s");
        let line = writer.take_notice().unwrap();
        assert!(
            line.starts_with("storing paused: ") && line.ends_with("counted until it works again"),
            "{line}"
        );
        // Another when the reason is another.
        while let Some(line) = writer.take_notice() {
            assert!(line.starts_with("storing paused: "), "{line}");
        }
        writer.close(50 * SECOND);
        let status = writer.status();
        assert!(matches!(status.state, State::Paused { .. }));
        assert_eq!(status.stored + status.lost, pushed);
        assert_eq!(split_losses(read_all(&disk)).0.len() as u64, status.stored);
    }
}

/// A disk that runs full and is freed again: full means full, not one operation. What is new makes way for what is
/// old as far as there is anything, and no litter is left.
#[test]
fn a_full_disk() {
    for (capacity, reserving) in (0..200_000).step_by(1511).flat_map(|size| [(size, false), (size, true)]) {
        let context = format!("{capacity} bytes, reserving: {reserving}");
        let disk = if reserving { Disk::default().reserving() } else { Disk::default() };
        let options = Options { segment: Some(MIN_SEGMENT), level: 1, ..Options::default() };
        let mut writer = Writer::open(disk.clone(), options, 1).unwrap();
        disk.set_capacity(Some(capacity));
        let mut pushed = load(&mut writer, 700);
        assert!(disk.used() <= capacity, "{context}");
        let status = writer.status().clone();
        let paused = matches!(status.state, State::Paused { .. });
        // With room for two segments and what they are reckoned with, it goes on as with a smaller cap.
        let enough = 3 * (MIN_SEGMENT + 4096);
        assert!(!paused || capacity < enough && status.lost > 0, "{context} {status:?}");
        assert!(!(reserving && capacity >= enough) || status.lost == 0, "{context} {status:?}");
        assert!(capacity < enough || status.lost < 150, "{context} {status:?}");
        let (segments, most) = (disk.segments().len() as u64, capacity / MIN_SEGMENT + 1);
        assert!(segments <= most, "{context}: {segments} segments");
        disk.set_capacity(None);
        writer.tick(1000 * SECOND);
        assert_eq!(writer.status().state, State::Ok, "{context}");
        writer.push(noise_mark(1000 * SECOND, 100, &mut 5));
        pushed += 1;
        writer.close(1001 * SECOND);
        let status = writer.status();
        assert_eq!(status.stored + status.lost, pushed, "{context}");
        let (read, lost) = split_losses(read_all(&disk));
        assert!(!read.is_empty(), "{context}");
        if status.deleted_early == 0 {
            assert_eq!((read.len() as u64, lost), (status.stored, status.lost), "{context}");
        }
    }
}

/// What is deleted does not become free: others take it at once, or the file system is slow to give it. The rest is kept.
#[test]
fn little_is_deleted_in_vain() {
    let disk = Disk::default().reserving();
    let options = Options { segment: Some(MIN_SEGMENT), level: 1, ..Options::default() };
    let mut writer = Writer::open(disk.clone(), options, 1).unwrap();
    load(&mut writer, 2000);
    let before = disk.segments().len();
    assert!(before >= 12, "{before}");
    disk.set_capacity(Some(0));
    let mut seed = 5;
    for second in 41..71 {
        for number in 0..20 {
            writer.push(noise_mark(second * SECOND + number, 2000, &mut seed));
        }
        writer.tick(second * SECOND + SECOND / 2);
    }
    let status = writer.status().clone();
    assert!(matches!(status.state, State::Paused { .. }) && status.lost > 0, "{status:?}");
    let gone = before.saturating_sub(disk.segments().len());
    assert!((1..=4).contains(&gone), "{gone} of {before}: {status:?}");
    disk.set_capacity(None);
    writer.close(110 * SECOND);
    assert_eq!(writer.status().state, State::Ok);
}

/// The disk is full for some seconds, and again within the minute. By then deleting helps.
#[test]
fn a_disk_that_was_freed_and_filled_again() {
    let disk = Disk::default().reserving();
    let options = Options { segment: Some(MIN_SEGMENT), level: 1, ..Options::default() };
    let mut writer = Writer::open(disk.clone(), options, 1).unwrap();
    load(&mut writer, 2000);
    let mut seed = 5;
    let mut run = |writer: &mut Writer<Disk>, seconds: std::ops::Range<u64>| {
        for second in seconds {
            for number in 0..20 {
                writer.push(noise_mark(second * SECOND + number, 2000, &mut seed));
            }
            writer.tick(second * SECOND + SECOND / 2);
        }
        writer.status().clone()
    };
    disk.set_capacity(Some(0));
    assert!(matches!(run(&mut writer, 41..44).state, State::Paused { .. }));
    disk.set_capacity(None);
    let before = run(&mut writer, 44..60);
    assert_eq!(before.state, State::Ok);
    disk.set_capacity(Some(disk.taken()));
    let after = run(&mut writer, 60..90);
    assert_eq!((&after.state, after.lost), (&State::Ok, before.lost));
    assert!(after.deleted_early > before.deleted_early, "{after:?}");
}

/// A segment without a block is deleted after an error, and the next one gets its number. A power cut that undoes the one
/// must not leave the other.
#[test]
fn a_power_cut_leaves_no_number_twice() {
    let disk = Disk::default();
    let mut writer = Writer::open(disk.clone(), Options::default(), 1).unwrap();
    writer.push(noise_mark(SECOND, 100, &mut 5));
    // its new name is synced
    writer.pin(Pin::Death, SECOND, "a crash");
    writer.tick(SECOND + 1);
    let before = disk.segments();
    assert_eq!(before.len(), 1);
    disk.set_faults(Some(Faults { first: disk.operations(), count: 1, kind: ErrorKind::Other }));
    writer.tick(3 * SECOND);
    assert!(matches!(writer.status().state, State::Paused { .. }));
    assert!(disk.segments().is_empty());
    writer.tick(5 * SECOND);
    assert_eq!(writer.status().state, State::Ok);
    assert!(disk.segments().len() == 1 && disk.segments()[0].0 != before[0].0);
    let mut changes = 0;
    disk.cut_power(|| {
        changes += 1;
        changes > 1
    });
    assert!(disk.segments().len() <= 1, "both have one number");
}

/// Directories that can't be listed, or brought below the cap, are refused with a line.
#[test]
fn at_the_start() {
    let disk = Disk::default();
    disk.put("20250101T000000Z-0000000000.iocrec", vec![0; 300_000]);
    let options = Options { max_disk: 200_000, ..Options::default() };
    for (first, begin) in [(0, "can't list the log directory: "), (1, "the log is over --max-disk and ")] {
        disk.set_faults(Some(Faults { first: disk.operations() + first, count: 1, kind: ErrorKind::Other }));
        let error = Writer::open(disk.clone(), options.clone(), 1).err().unwrap().to_string();
        assert!(error.starts_with(begin) && !error.contains('\n'), "{error}");
    }
}

/// A loss is reported again if the report was not yet on the disk when that failed, and is gone.
#[test]
fn a_report_that_is_lost() {
    let disk = Disk::default();
    let options = Options { max_disk: MIN_DISK, level: 1, ..Options::default() };
    let mut writer = Writer::open(disk.clone(), options, 1).unwrap();
    let mut seed = 1;
    // one of them is too large, and lost
    for size in [10, 300_000, 20] {
        writer.push(noise_mark(SECOND, size, &mut seed));
    }
    // the report is written, but not synced
    writer.tick(5 * SECOND / 2);
    assert_eq!((writer.status().lost, split_losses(read_all(&disk)).1), (1, 1));
    let (name, _) = disk.segments().pop().unwrap();
    disk.set_faults(Some(Faults { first: disk.operations(), count: 1, kind: ErrorKind::Other }));
    writer.push(noise_mark(3 * SECOND, 10, &mut seed));
    writer.tick(9 * SECOND / 2);
    assert!(matches!(writer.status().state, State::Paused { .. }));
    disk.set_faults(None);
    disk.lose(&name);
    writer.tick(8 * SECOND);
    assert_eq!(writer.status().state, State::Ok);
    writer.close(9 * SECOND);
    let status = writer.status();
    assert_eq!((status.stored, status.lost), (0, 4));
    assert_eq!(split_losses(read_all(&disk)).1, 4);
}
