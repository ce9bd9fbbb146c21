//! Pushed events are read bit by bit as they were, in the promised order.

use crate::common::disk::Disk;
use crate::common::{assert_same, bytes, read_all, SECOND};
use crate::facts;
use iocrec_log::event::{Class, Event, Fact};
use iocrec_log::format::FACTS;
use iocrec_log::reader::Segment;
use iocrec_log::writer::{Options, Writer};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use std::collections::HashMap;
use std::io::Cursor;
use std::path::Path;

fn write(events: &[Event], flush_every: usize) -> Disk {
    write_with(Options::default(), events, flush_every)
}

fn write_with(options: Options, events: &[Event], flush_every: usize) -> Disk {
    let disk = Disk::default();
    let mut writer = Writer::open(disk.clone(), options, 1).unwrap();
    let mut now = 1;
    for (number, event) in events.iter().enumerate() {
        writer.push(event.clone());
        if (number + 1) % flush_every == 0 {
            now += 2 * SECOND;
            writer.tick(now);
        }
    }
    writer.close(now);
    assert_eq!((writer.status().stored, writer.status().lost), (events.len() as u64, 0));
    assert_eq!(writer.status().on_disk, disk.used());
    disk
}

fn is_end(fact: &Fact) -> bool {
    fact.class() == Class::End
}

fn is_definition(fact: &Fact) -> bool {
    fact.class() == Class::Definition
}

/// The strategies make every kind of fact, and its number in the code is its number in the encoding.
#[test]
fn every_fact_has_its_number() {
    let mut runner = TestRunner::deterministic();
    let all = facts::all();
    assert_eq!(all.len(), usize::from(FACTS));
    for (number, strategy) in all.iter().enumerate() {
        let fact = strategy.new_tree(&mut runner).unwrap().current();
        assert_eq!(usize::from(fact.number()), number);
        assert_eq!(usize::from(postcard::to_allocvec(&fact).unwrap()[0]), number);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// In order of time, what comes out is what went in.
    #[test]
    fn events_in_order(mut events in facts::events(1..60), flush_every in 1..40usize) {
        events.sort_by_key(|event| event.time);
        assert_same(&read_all(&write(&events, flush_every)), &events);
    }

    /// Rounded times are the only difference that a step makes: the order is that of the times as they were.
    #[test]
    fn times_in_steps(events in facts::events(1..60), bits in 0..21_u32, odd in any::<bool>()) {
        // An odd step counts as the next smaller power of two.
        let options = Options { time_step: (1 << bits) + u64::from(odd && bits > 0), ..Options::default() };
        let mut exact = read_all(&write(&events, usize::MAX));
        exact.iter_mut().for_each(|event| event.time &= !0 << bits);
        let rounded = write_with(options, &events, usize::MAX);
        assert_same(&read_all(&rounded), &exact);
        for (name, bytes) in rounded.segments() {
            let segment = Segment::read(Cursor::new(bytes), Path::new(&name)).unwrap();
            prop_assert_eq!(segment.header().time_step(), 1 << bits);
        }
    }

    /// Out of order, nothing is missing and the order is as promised.
    #[test]
    fn events_out_of_order(mut events in facts::events(1..60)) {
        // A block sorts, and all of them are in one. Equal events can't be distinguished: leave one.
        let mut seen = HashMap::new();
        events.retain(|event| seen.insert(bytes(event), ()).is_none());
        let place: HashMap<_, _> = events.iter().enumerate().map(|(place, event)| (bytes(event), place)).collect();
        let read = read_all(&write(&events, usize::MAX));
        prop_assert_eq!(read.len(), events.len());
        for (number, later) in read.iter().enumerate() {
            for earlier in &read[..number] {
                let overtook = place[&bytes(earlier)] > place[&bytes(later)];
                if overtook {
                    prop_assert!(!is_definition(&later.fact) || is_definition(&earlier.fact),
                        "{earlier:?} overtook the definition {later:?}");
                    prop_assert!(!is_end(&earlier.fact) && !is_end(&later.fact), "{earlier:?} and {later:?}");
                }
                let (one, other) = (place[&bytes(earlier)], place[&bytes(later)]);
                let between = &events[one.min(other)..=one.max(other)];
                let sorted = !between.iter().any(|event| is_definition(&event.fact) || is_end(&event.fact));
                prop_assert!(!sorted || earlier.time <= later.time, "{earlier:?} before {later:?}");
            }
        }
    }
}
