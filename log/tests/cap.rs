//! The cap on disk use, checked by the simulated disk at every operation: what `du` would show, with marks and
//! pins, a largest age, full disks and failing ones.

mod common;

use common::disk::{Disk, Faults};
use common::{noise_mark, read_all, split_losses, SECOND};
use iocrec_log::event::{Channel, Event, Fact, Origin, Record};
use iocrec_log::writer::{Options, Pin, State, WriteError, Writer, MIN_DISK, MIN_SEGMENT};
use proptest::collection::vec;
use proptest::prelude::*;
use std::io::ErrorKind;
use std::time::Duration;

fn options(max_disk: u64) -> Options {
    Options { max_disk, level: 1, ..Options::default() }
}

#[derive(Clone, Debug)]
enum Step {
    /// An event of this many bytes.
    Push(usize),
    /// So many records defined, which every keyframe from then on holds.
    Define(u16),
    /// Time passes.
    Tick(u64),
    /// The wall clock is set.
    Wall(i64),
    /// An operator's mark of this many bytes.
    Mark(usize),
    /// The recorder noticed something.
    Pin,
    /// The disk has room for this many more bytes, or for any number.
    Fill(Option<u64>),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        20 => (0..2000usize).prop_map(Step::Push),
        2 => (2000..60_000usize).prop_map(Step::Push),
        1 => (60_000..400_000usize).prop_map(Step::Push),
        1 => (0..800u16).prop_map(Step::Define),
        8 => (0..3 * SECOND).prop_map(Step::Tick),
        1 => any::<i64>().prop_map(Step::Wall),
        3 => (0..300usize).prop_map(Step::Mark),
        2 => Just(Step::Pin),
        1 => proptest::option::of(0..200_000u64).prop_map(Step::Fill),
    ]
}

/// Files that are there before: segments of earlier runs, and what isn't ours.
fn earlier() -> impl Strategy<Value = Vec<(String, usize)>> {
    let word = proptest::sample::select(&["", "-auto", "-mark"][..]);
    let name = (1970..2040u64, 0..100u64, word)
        .prop_map(|(year, n, word)| format!("{year}0101T000000Z-{n:010}{word}.iocrec"));
    vec((name, 0..200_000usize), 0..6)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn never_exceeded(
        steps in vec(step(), 1..120),
        max_disk in MIN_DISK..1 << 20,
        earlier in earlier(),
        fault in proptest::option::of((0..60u64, 1..6u64)),
        pin_share in 0..=75u8,
        max_age in proptest::option::of(1..20u64),
        reserving in any::<bool>(),
        seed in 1..u64::MAX,
    ) {
        let disk = if reserving { Disk::default().reserving() } else { Disk::default() };
        for (name, size) in &earlier {
            disk.put(name, vec![7; *size]);
        }
        let options = Options {
            pin_share,
            max_age: max_age.map(Duration::from_secs),
            pin_before: Duration::from_secs(5),
            pin_after: Duration::from_secs(2),
            ..options(max_disk)
        };
        let mut writer = Writer::open(disk.clone(), options, 1).unwrap();
        disk.watch_cap(max_disk);
        disk.set_faults(fault.map(|(first, count)| Faults { first, count, kind: ErrorKind::Other }));
        let (mut now, mut seed, mut pushed, mut records) = (SECOND, seed, 0, 0);
        for step in steps {
            match step {
                Step::Push(size) => {
                    pushed += 1;
                    writer.push(noise_mark(now, size, &mut seed));
                }
                Step::Define(count) => {
                    for _ in 0..count {
                        (pushed, records) = (pushed + 1, records + 1);
                        let name = format!("{:x}", u128::from(seed).wrapping_mul(records.into()));
                        let record = Record { id: records, ioc: 1, address: 0, name, rtype: "ai".into() };
                        writer.push(Event { time: now, fact: Fact::from(record) });
                    }
                }
                Step::Tick(time) => {
                    now += time;
                    writer.tick(now);
                }
                Step::Wall(wall) => disk.set_wall(wall),
                Step::Mark(size) => {
                    let Fact::Mark(text) = noise_mark(now, size, &mut seed).fact else { unreachable!() };
                    let _ = writer.mark(now, &text);
                }
                Step::Pin => writer.pin(Pin::Auto, now, "noticed"),
                Step::Fill(free) => disk.set_capacity(free.map(|free| disk.taken() + free)),
            }
            let status = writer.status();
            prop_assert!(status.taken >= disk.taken(), "{status:?} {}", disk.taken());
        }
        disk.set_faults(None);
        disk.set_capacity(None);
        writer.close(now);
        let status = writer.status();
        // What it notes itself is counted as well.
        prop_assert!(status.stored + status.lost >= pushed);
        let open = status.pinned_share.max(max_disk / 2);
        prop_assert!(status.pinned_taken <= open, "pins take more than their share: {status:?}");
    }
}

/// As many as fit are kept, and they are the newest, whatever the wall clock did.
#[test]
fn the_oldest_go_first() {
    let disk = Disk::default();
    disk.watch_cap(64 * 1024 * 8);
    let opt = Options { segment: Some(64 * 1024 - 4096), ..options(64 * 1024 * 8) };
    let mut writer = Writer::open(disk.clone(), opt, 1).unwrap();
    let mut seed = 1;
    let count = 2000;
    for number in 0..count {
        disk.set_wall((5_000_000_000 - 1_000_000 * number as i64) * SECOND as i64 / 1000);
        writer.push(noise_mark(SECOND + number, 1000, &mut seed));
    }
    writer.close(2 * SECOND);
    let status = writer.status().clone();
    assert_eq!((status.stored, status.lost), (count, 0));
    assert!(status.deleted > 5 && status.segments >= 7, "{status:?}");
    assert_eq!(status.on_disk, disk.used());
    let read = read_all(&disk);
    assert!(read.len() > 500);
    // An unbroken stretch up to the last.
    for (place, event) in read.iter().rev().enumerate() {
        assert_eq!(event.time, SECOND + count - 1 - place as u64);
    }
}

/// Segments of an earlier run with a larger cap are deleted until they are below the new one; other files stay.
#[test]
fn earlier_segments_count_and_other_files_stay() {
    let disk = Disk::default();
    for number in 0..10 {
        disk.put(&format!("20250101T000000Z-{number:010}.iocrec"), vec![0; 50_000]);
    }
    disk.put("incident.iocrec", vec![0; 10]);
    disk.put("notes.txt", vec![0; 10]);
    // Each takes 13 pages and is reckoned with one more, 57344; the directory takes one.
    let mut writer = Writer::open(disk.clone(), options(4 * 57344 + 4096), 1).unwrap();
    assert_eq!((writer.status().segments, writer.status().on_disk), (4, 200_000));
    assert_eq!(writer.status().taken, 4 * 57344 + 4096);
    writer.push(noise_mark(1, 10, &mut 1));
    writer.close(2);
    assert!(disk.has("incident.iocrec") && disk.has("notes.txt"));
    let newest = disk.segments().into_iter().map(|(name, _)| name).rfind(|name| name.starts_with('2'));
    assert_eq!(newest.unwrap(), "20250101T000000Z-0000000010.iocrec");
}

/// A cap that can't work is refused with the least that can; the least that can does.
#[test]
fn the_least_cap() {
    let error = Writer::open(Disk::default(), options(MIN_DISK - 1), 1).err().unwrap();
    assert!(matches!(error, WriteError::DiskTooSmall(_, MIN_DISK)));
    assert_eq!(
        error.to_string(),
        "a log of at most 131071 bytes can't work here; --max-disk must be at least 131072 (128K)"
    );
    let small = Options { segment: Some(MIN_SEGMENT - 1), ..options(MIN_DISK) };
    let error = Writer::open(Disk::default(), small, 1).err().unwrap().to_string();
    assert_eq!(error, "a segment can't have 32767 bytes; it must have at least 32768");
    let greedy = Options { pin_share: 76, ..options(MIN_DISK) };
    let error = Writer::open(Disk::default(), greedy, 1).err().unwrap().to_string();
    assert_eq!(error, "pins can't have 76 percent of the log; --pin-share must be at most 75");
    // Segments that would not fit twice are made smaller.
    for segment in [None, Some(MIN_DISK), Some(1 << 30)] {
        let disk = Disk::default().reserving();
        disk.watch_cap(MIN_DISK);
        let options = Options { segment, ..options(MIN_DISK) };
        let mut writer = Writer::open(disk.clone(), options, 1).unwrap();
        let mut seed = 1;
        for number in 0..1000 {
            writer.push(noise_mark(SECOND + number, 1000, &mut seed));
        }
        writer.close(2 * SECOND);
        assert_eq!(writer.status().lost, 0);
        assert!(read_all(&disk).len() > 80, "hardly anything is kept");
    }
}

fn channels(count: u32, mut push: impl FnMut(Event)) {
    let mut seed = 9_u64;
    for id in 1..=count {
        let Fact::Mark(pv) = noise_mark(0, 60, &mut seed).fact else { continue };
        let (cid, sid, dbr, count) = (Some(id), Some(id), Some(6), Some(1));
        let channel = Channel { id, circuit: 1, cid, sid, pv, dbr, count, origin: Origin::Opened };
        push(Event { time: SECOND, fact: Fact::from(channel) });
    }
}

/// Definitions that fill more than a segment get a bigger segment.
#[test]
fn a_keyframe_bigger_than_a_segment() {
    let disk = Disk::default();
    disk.watch_cap(1 << 20);
    let mut writer = Writer::open(disk.clone(), options(1 << 20), 1).unwrap();
    channels(3000, |event| writer.push(event)); // about 110 KB packed, segments are 64 KiB
    let mut seed = 1;
    for number in 0..3000 {
        writer.push(noise_mark(SECOND + number, 1000, &mut seed));
    }
    writer.close(2 * SECOND);
    assert_eq!((writer.status().lost, &writer.status().state), (0, &State::Ok));
    assert!(writer.status().written < 5 << 20, "keyframes fill the disk: {:?}", writer.status());
    assert!(read_all(&disk).len() > 400);
}

/// Definitions that no cap can hold are a state with a reason, not a loop; when they are gone, it
/// goes on.
#[test]
fn a_keyframe_bigger_than_the_cap() {
    let disk = Disk::default();
    disk.watch_cap(MIN_DISK);
    let mut writer = Writer::open(disk.clone(), options(MIN_DISK), 1).unwrap();
    let mut pushed = 0;
    channels(6000, |event| {
        pushed += 1;
        writer.push(event);
    });
    let State::Paused { reason } = writer.status().state.clone() else { panic!("{:?}", writer.status()) };
    assert!(reason.contains("more than fit into --max-disk 131072; raise it"), "{reason}");
    assert_eq!(writer.take_notice().as_deref().map(|line| line.starts_with("storing paused: ")), Some(true));
    let tries = disk.operations();
    for second in 2..100 {
        writer.tick(second * SECOND);
    }
    assert!(disk.operations() - tries < 20, "{} operations", disk.operations() - tries);
    assert!(!disk.segments().is_empty(), "what was stored before must stay");

    writer.take_notice();
    writer.push(Event { time: 101 * SECOND, fact: Fact::CircuitEnd(1) });
    writer.tick(200 * SECOND);
    assert_eq!(writer.status().state, State::Ok);
    assert!(writer.take_notice().unwrap().starts_with("storing again; "));
    assert_eq!(writer.take_notice(), None);
    writer.push(noise_mark(201 * SECOND, 10, &mut 1));
    writer.close(202 * SECOND);
    let lost = split_losses(read_all(&disk)).1;
    assert_eq!((lost, writer.status().stored + lost), (writer.status().lost, pushed + 2));
}

/// An event that no block can hold is counted and reported, and nothing else suffers.
#[test]
fn an_event_too_large() {
    let disk = Disk::default();
    disk.watch_cap(MIN_DISK);
    let mut writer = Writer::open(disk.clone(), options(MIN_DISK), 1).unwrap();
    let mut seed = 1;
    let sizes = [10, 300_000, 20, 100_000, 70_000, 30, 40_000, 40];
    for (number, size) in sizes.into_iter().enumerate() {
        writer.push(noise_mark(SECOND + number as u64, size, &mut seed));
    }
    writer.close(2 * SECOND);
    assert_eq!((writer.status().stored, writer.status().lost), (5, 3));
    assert_eq!(split_losses(read_all(&disk)).1, 3);
    // Too large again and again must not throw the log away.
    let deleted = writer.status().deleted;
    for number in 0..100 {
        writer.push(noise_mark(3 * SECOND + number, 100_000, &mut seed));
        writer.push(noise_mark(3 * SECOND + number, 10, &mut seed));
    }
    writer.close(4 * SECOND);
    assert_eq!((writer.status().deleted, writer.status().lost), (deleted, 103));
}

/// Pins for the death of an IOC outlive pins for other things noticed later, and marks outlive both.
#[test]
fn what_is_kept_for_less_goes_first() {
    let disk = Disk::default();
    disk.watch_cap(1 << 20);
    let (pin_before, pin_after) = (Duration::from_millis(1), Duration::from_millis(1));
    let options = Options { segment: Some(MIN_SEGMENT), pin_before, pin_after, ..options(1 << 20) };
    let mut writer = Writer::open(disk.clone(), options, 1).unwrap();
    let (mut seed, mut second, mut death) = (1, 1, None);
    for step in 0..20 {
        for _ in 0..40 {
            second += 1;
            writer.push(noise_mark(second * SECOND, 1000, &mut seed));
            writer.tick(second * SECOND);
        }
        let pin = if step == 1 { Pin::Death } else { Pin::Auto };
        writer.pin(pin, second * SECOND, "a test");
        if step == 1 {
            death = disk.segments().pop().map(|(name, _)| name);
        }
        second += 1;
        writer.tick(second * SECOND);
    }
    let kept: Vec<String> = disk
        .segments()
        .into_iter()
        .map(|(name, _)| name)
        .filter(|name| name.ends_with("-auto.iocrec"))
        .collect();
    let death = death.unwrap().replace(".iocrec", "-auto.iocrec");
    assert!((3..15).contains(&kept.len()), "there must be too many: {kept:?}");
    assert_eq!(kept[0], death, "{kept:?}");
}

/// A time at which the wall clock was right, nanoseconds since 1970.
const WALL: i64 = 1_790_000_000_000_000_000;

/// Segments of an earlier run, which ended at [`WALL`]: the oldest is pinned.
fn earlier_run(disk: &Disk) -> Vec<String> {
    disk.set_wall(WALL);
    let word = |number: u32| if number == 0 { "-auto" } else { "" };
    let names: Vec<String> =
        (0..6).map(|number| format!("20260921T141320Z-{number:010}{}.iocrec", word(number))).collect();
    names.iter().for_each(|name| disk.put(name, vec![7; 50_000]));
    names
}

/// A clock that is behind says nothing of how old earlier segments are: a pin leaves them as they are.
#[test]
fn a_pin_while_the_clock_is_behind() {
    let disk = Disk::default();
    let earlier = earlier_run(&disk);
    disk.set_wall(WALL - 3_600 * SECOND as i64);
    let options = Options { segment: Some(MIN_SEGMENT), ..options(1 << 20) };
    let mut writer = Writer::open(disk.clone(), options, 1).unwrap();
    writer.push(noise_mark(SECOND, 1000, &mut 1));
    writer.tick(SECOND);
    writer.pin(Pin::Auto, SECOND, "noticed");
    writer.tick(2 * SECOND);
    assert_eq!(writer.status().pinned, 2, "the pinned one, and that of this run");
    writer.close(3 * SECOND);
    let names: Vec<String> = disk.segments().into_iter().map(|(name, _)| name).collect();
    assert!(earlier.iter().all(|name| names.contains(name)), "{names:?}");
}

/// A clock that is ahead at boot, until it is set, makes no earlier segment too old.
#[test]
fn the_largest_age_while_the_clock_is_ahead() {
    let disk = Disk::default();
    let earlier = earlier_run(&disk);
    let years = 10 * 365 * 86_400 * SECOND as i64;
    disk.set_wall(WALL + years);
    let max_age = Some(Duration::from_secs(3_600));
    let mut writer = Writer::open(disk.clone(), Options { max_age, ..options(1 << 20) }, 1).unwrap();
    let left = |disk: &Disk| earlier.iter().filter(|name| disk.has(name)).count();
    for second in 1..300 {
        writer.tick(second * SECOND);
    }
    assert_eq!(left(&disk), earlier.len());
    disk.set_wall(WALL + 400 * SECOND as i64);
    for second in 300..1_000 {
        writer.tick(second * SECOND);
    }
    assert_eq!(left(&disk), earlier.len());
    // in truth
    disk.set_wall(WALL + 4_000 * SECOND as i64);
    writer.tick(4_000 * SECOND);
    assert_eq!(left(&disk), 1, "only the pinned one stays");
}
