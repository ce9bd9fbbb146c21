//! What a crash of the recorder and a power cut cost: no more than the contract says.

mod common;

use common::disk::Disk;
use common::{assert_same, noise_mark, read_all, SECOND};
use iocrec_log::event::{Event, Fact, Record};
use iocrec_log::writer::{Options, Writer};
use proptest::collection::vec;
use proptest::prelude::*;

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
            let record = Fact::Record(Record { id, ioc: 1, address: now, name, rtype: "ai".into() });
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

        // The power goes: of what was not synced, anything may be there, up to a tear.
        disk.cut_power(|unsynced| (torn % (unsynced as u64 + 1)) as usize);
        let read = read_all(&disk);
        assert_same(&read, &events[..read.len()]);
        for lost in &events[read.len()..] {
            let age = now - lost.time;
            prop_assert!(age <= sync + SECOND / 10, "lost an event {age} ns old");
        }
    }
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
    assert_eq!(syncs, 1);
    for second in 30..1000 {
        writer.tick(second * SECOND);
    }
    assert_eq!(disk.operations(), operations);
}
