//! What a crash of the recorder and a power cut cost: no more than the contract says. The disk is frozen at every
//! operation, recovered, read, and written to again.

mod common;

use common::disk::Disk;
use common::{assert_same, bytes, noise_mark, read_all, read_segment, SECOND};
use iocrec_log::event::{Event, Fact, Record};
use iocrec_log::writer::{Options, Pin, State, Writer, MIN_DISK, MIN_SEGMENT};
use proptest::collection::vec;
use proptest::prelude::*;
use std::time::Duration;

/// The events of all segments, keyframes and the writer's own notes left out. Damage is passed over, as a reader
/// does.
fn read_sound(disk: &Disk) -> Vec<Event> {
    let segments = disk.segments();
    let segments = segments.iter().filter_map(|(_, bytes)| read_segment(bytes).ok());
    let blocks = segments.flatten().flatten().filter(|block| !block.keyframe);
    let own = |event: &Event| {
        matches!(event.fact, Fact::Loss(_) | Fact::Pinned(_) | Fact::Unpinned(_) | Fact::SegmentEnd(_))
    };
    blocks.flat_map(|block| block.events).filter(|event| !own(event)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// `steps`: how long until the next event, and how large it is. The tick comes ten times a second.
    #[test]
    fn kill_and_power_cut(
        steps in vec((0..SECOND, 0..3000usize), 1..150),
        segment in 65_536..200_000u64,
        torn in any::<u64>(),
    ) {
        let disk = Disk::default();
        let options = Options { segment: Some(segment), level: 1, ..Options::default() };
        let (flush, sync) = (SECOND, 5 * SECOND);
        let mut writer = Writer::open(disk.clone(), options, 1).unwrap();
        let (mut now, mut seed, mut events) = (SECOND, 5, vec![]);
        for (wait, size) in steps {
            for _ in 0..wait / (SECOND / 10) {
                now += SECOND / 10;
                writer.tick(now);
            }
            // A definition too: so there is something in keyframes.
            let (id, name) = (events.len() as u32, format!("r{now}"));
            let record = Fact::from(Record { id, ioc: 1, address: now, name, rtype: "ai".into() });
            for event in [Event { time: now, fact: record }, noise_mark(now, size, &mut seed)] {
                events.push(event.clone());
                writer.push(event);
            }
        }
        // Killed: nothing is called any more.
        let stored = writer.status().stored;
        drop(writer);
        let read = read_all(&disk);
        assert_same(&read, &events[..read.len()]);
        prop_assert_eq!(read.len() as u64, stored);
        for lost in &events[read.len()..] {
            prop_assert!(lost.time + flush + SECOND / 10 >= now, "lost an event {} ns old", now - lost.time);
        }

        // The power fails: this much of the unsynced bytes was written.
        let mut torn = torn;
        disk.cut_power(|| {
            torn = torn.rotate_right(1);
            torn & 1 == 1
        });
        let read: Vec<_> = read_sound(&disk).iter().map(bytes).collect();
        let mut there = read.iter().peekable();
        for event in &events {
            if there.next_if(|found| **found == bytes(event)).is_none() {
                let age = now - event.time;
                prop_assert!(age <= sync + SECOND / 10, "lost an event {age} ns old");
            }
        }
        prop_assert!(there.next().is_none(), "something that was not recorded, or in another order");
    }
}

const STEP: u64 = SECOND / 10;
const FLUSH: u64 = SECOND;
const SYNC: u64 = 5 * SECOND;

/// What a run was doing when the disk was frozen.
#[derive(Clone, Debug, Default)]
struct Moment {
    now: u64,
    /// Events pushed so far.
    events: Vec<Event>,
    /// Marks that were reported as stored.
    marks: Vec<(u64, String)>,
}

/// What the disk was when an operation began.
struct Frozen {
    disk: Disk,
    at: Moment,
}

/// Steps of a run, a tenth of a second each.
const STEPS: u32 = 105;

/// What happens in each step.
fn script() -> Vec<[Event; 3]> {
    let mut seed = 11;
    let step = |step: u32| {
        let time = SECOND + u64::from(step + 1) * STEP;
        let record = Record { id: step, ioc: 1, address: time, name: format!("r{step}"), rtype: "ai".into() };
        let record = Event { time, fact: Fact::from(record) };
        [record, noise_mark(time, 4000, &mut seed), noise_mark(time, 4000, &mut seed)]
    };
    (0..STEPS).map(step).collect()
}

/// Records the script: some twenty segments, two marks and a pin. With `stop`, until that operation of the disk.
fn record(script: &[[Event; 3]], options: &Options, stop: Option<u64>) -> (Disk, Moment, Option<Frozen>) {
    let disk = Disk::default().reserving();
    disk.set_wall(1_700_000_000 * SECOND as i64);
    let mut writer = Writer::open(disk.clone(), options.clone(), 1).unwrap();
    disk.watch_cap(options.max_disk);
    if let Some(stop) = stop {
        disk.freeze_at(stop);
    }
    let mut at = Moment { now: SECOND, ..Moment::default() };
    for (step, events) in script.iter().enumerate() {
        at.now += STEP;
        disk.set_wall((1_700_000_000 * SECOND + at.now) as i64);
        let before = at.clone();
        for event in events {
            at.events.push(event.clone());
            writer.push(event.clone());
        }
        if step % 60 == 40 {
            let text = format!("mark {step}");
            writer.mark(at.now, &text).unwrap();
            at.events.push(Event { time: at.now, fact: Fact::Mark(text.clone()) });
            at.marks.push((at.now, text));
        }
        if step == 70 {
            writer.pin(Pin::Auto, at.now, "noticed");
        }
        writer.tick(at.now);
        if let Some(disk) = disk.frozen() {
            // In the midst of this step: what came before it counts.
            return (disk.copy(), at.clone(), Some(Frozen { disk, at: before }));
        }
    }
    writer.close(at.now);
    assert_eq!((&writer.status().state, writer.status().lost), (&State::Ok, 0));
    (disk, at, None)
}

/// What a recovered disk must hold: everything but the last `interval`, as far as older segments were not deleted
/// for the cap; nothing that was not recorded; nothing twice.
fn check(disk: &Disk, at: &Moment, all: &[Event], interval: u64, small: bool, context: &str) -> Vec<Event> {
    let read = read_sound(disk);
    // Times never fall, and few events have the same.
    let place = |event: &Event| {
        let begin = all.partition_point(|other| other.time < event.time);
        let place = all.iter().skip(begin).take(4).position(|other| other == event);
        begin + place.unwrap_or_else(|| panic!("{context}: not recorded: {event:?}"))
    };
    let places: Vec<usize> = read.iter().map(place).collect();
    assert!(places.windows(2).all(|pair| pair[0] < pair[1]), "{context}: out of order or twice");
    let due = at.events.iter().filter(|event| event.time + interval + STEP < at.now).count();
    if small {
        // More is due than the cap lets be kept; a segment of the newest is always there.
        let newest = places.iter().filter(|place| **place + 80 >= at.events.len()).count();
        assert!(
            newest >= 16 || at.events.len() < 60,
            "{context}: {newest} of {}: {places:?}",
            at.events.len()
        );
    } else {
        let missing = (0..due).find(|place| places.get(*place) != Some(place));
        assert_eq!(missing, None, "{context}: of {due} events that are due: {places:?}");
    }
    read
}

/// Goes on writing after a recovery: everything that was there stays, new events are there, the cap holds.
fn write_on(disk: &Disk, options: &Options, before: &[Event], at: &Moment, context: &str) {
    let mut writer = Writer::open(disk.clone(), options.clone(), 2).unwrap();
    disk.watch_cap(options.max_disk);
    let mut seed = 99;
    for number in 1..4 {
        let event = noise_mark(at.now + number * SECOND, 500, &mut seed);
        writer.push(event);
        writer.tick(at.now + number * SECOND);
    }
    writer.close(at.now + 5 * SECOND);
    assert_eq!(writer.status().lost, 0, "{context}");
    let after = read_sound(disk);
    let deleted = writer.status().deleted > 0;
    assert!(
        deleted || after.len() == before.len() + 3,
        "{context}: {} and 3, then {}",
        before.len(),
        after.len()
    );
    assert_eq!(after.iter().filter(|event| event.time > at.now).count(), 3, "{context}");
}

fn frozen_everywhere(options: &Options) {
    let script = script();
    let (disk, end, _) = record(&script, options, None);
    let small = options.max_disk == MIN_DISK;
    let operations = disk.operations();
    println!(
        "{operations} operations, {:?}",
        disk.segments().iter().map(|(name, _)| name).collect::<Vec<_>>()
    );
    assert!(operations > 100, "only {operations} operations");
    let mut random = 1_u64;
    for operation in 1..operations {
        let (_, _, frozen) = record(&script, options, Some(operation));
        let Some(Frozen { disk, at }) = frozen else { continue };
        let killed = disk.copy();
        let read =
            check(&killed, &at, &end.events, FLUSH, small, &format!("killed at operation {operation}"));
        write_on(&killed, options, &read, &at, &format!("killed at operation {operation}"));
        // None of the unsynced bytes are there, all of them, and anything between.
        for way in 0..4 {
            let context = format!("power cut at operation {operation}, way {way}");
            let cut = disk.copy();
            cut.cut_power(|| {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                match way {
                    0 => false,
                    1 => true,
                    way => random % 4 < way - 1,
                }
            });
            assert!(cut.taken() <= options.max_disk, "{context}");
            let read = check(&cut, &at, &end.events, SYNC, small, &context);
            // A mark that was reported as stored is there, and the time around it is kept, as far as there is room.
            for (time, text) in &at.marks {
                let there =
                    read.iter().any(|event| event.time == *time && event.fact == Fact::Mark(text.clone()));
                assert!(there || small, "{context}: {text} is not there");
                let kept = cut.segments().iter().any(|(name, _)| name.ends_with("-mark.iocrec"));
                assert!(kept || small, "{context}: nothing is kept for {text}");
            }
            write_on(&cut, options, &read, &at, &context);
        }
    }
}

#[test]
fn frozen_at_every_operation() {
    frozen_everywhere(&crash_options(4 << 20));
}

/// With a cap that makes it delete all the time.
#[test]
fn frozen_at_every_operation_with_a_small_cap() {
    frozen_everywhere(&crash_options(MIN_DISK));
}

fn crash_options(max_disk: u64) -> Options {
    let (pin_before, pin_after) = (Duration::from_secs(2), Duration::from_secs(1));
    Options { max_disk, segment: Some(MIN_SEGMENT), level: 1, pin_before, pin_after, ..Options::default() }
}

/// An idle recorder neither writes nor syncs.
#[test]
fn idle_costs_nothing() {
    let disk = Disk::default();
    let mut writer = Writer::open(disk.clone(), Options::default(), 1).unwrap();
    writer.push(noise_mark(SECOND, 10, &mut 1));
    for second in 2..30 {
        writer.tick(second * SECOND);
    }
    let (operations, syncs) = (disk.operations(), disk.syncs());
    assert_eq!(syncs, 2, "of the segment, and of its name");
    for second in 30..1000 {
        writer.tick(second * SECOND);
    }
    assert_eq!(disk.operations(), operations);
}
