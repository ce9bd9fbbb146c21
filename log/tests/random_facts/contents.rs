//! What a block says of itself is true of it: nothing in it goes unsaid, and what is left out is what was not wanted.

use crate::common::disk::Disk;
use crate::common::{self, assert_same, read_segment, SECOND};
use crate::facts;
use iocrec_log::event::*;
use iocrec_log::reader::{About, Block, Choice, Damage, Segment, Shape};
use iocrec_log::writer::{Options, Writer};
use iocrec_testing::chance::{fuzz, Random};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Cursor, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

/// A log with a block each second.
fn write(seconds: impl IntoIterator<Item = Vec<Fact>>) -> Vec<u8> {
    let disk = Disk::default();
    let mut writer = Writer::open(disk.clone(), Options::default(), 1).unwrap();
    let mut now = SECOND;
    for facts in seconds {
        for (number, fact) in (0..).zip(facts) {
            writer.push(Event { time: now + number * 1000, fact });
        }
        now += 2 * SECOND;
        writer.tick(now);
    }
    writer.close(now);
    assert_eq!(writer.status().lost, 0);
    let mut segments = disk.segments();
    assert_eq!(segments.len(), 1);
    segments.remove(0).1
}

fn process(thread: u32, record: u32) -> Fact {
    Fact::Process(Process { thread, sp: -64, site: 1, record, active: false })
}

fn complete(thread: u32, record: u32, value: f64, severity: u16) -> Fact {
    let (value, status) = (Value::Double(value), severity);
    Fact::Complete(Complete { thread, sp: -80, site: 2, record, value, severity, status })
}

/// A scan of records, with noise for values.
fn scan(thread: u32, records: impl IntoIterator<Item = u32>, random: &mut Random) -> Vec<Fact> {
    let noise = |random: &mut Random| random.below(1 << 30) as f64 / 7.0;
    records
        .into_iter()
        .flat_map(|record| [process(thread, record), complete(thread, record, noise(random), 0)])
        .collect()
}

fn put(thread: u32, record: u32, kind: PutKind, site: u32) -> Fact {
    let (requested, old) = (Value::Double(1.0), Value::Double(0.0));
    Fact::from(Put {
        thread,
        sp: -9,
        site,
        kind,
        record,
        field: None,
        dbf: Dbf::Double,
        count: 1,
        requested,
        old,
    })
}

fn message(circuit: u32, channel: u32) -> Fact {
    let (notify, dbr, count, ioid, length, payload) = (true, 6, 1, 5, 8, vec![0; 8]);
    Fact::CaPut(CaPut { circuit, channel, notify, dbr, count, ioid, length, payload })
}

fn abouts(bytes: &[u8]) -> Vec<Result<About, Damage>> {
    let mut segment = Segment::read(Cursor::new(bytes.to_vec()), Path::new("a segment")).unwrap();
    std::iter::from_fn(|| segment.next_about()).collect()
}

fn chosen(bytes: &[u8], choose: impl Fn(&About) -> Choice + Send + 'static) -> Vec<Result<Block, Damage>> {
    let mut segment = Segment::read(Cursor::new(bytes.to_vec()), Path::new("a segment")).unwrap();
    segment.choose(choose);
    std::iter::from_fn(|| segment.next_block()).collect()
}

/// What a fact refers to.
#[derive(Default)]
struct Refers {
    thread: Option<u32>,
    record: Option<u32>,
    circuit: Option<u32>,
    channel: Option<u32>,
    put: Option<(PutKind, u32)>,
    link_put: bool,
}

fn refers(fact: &Fact) -> Refers {
    let hit = |thread, record| Refers { thread: Some(thread), record, ..Refers::default() };
    match fact {
        Fact::Process(hit_) | Fact::RsetProcess(hit_) => hit(hit_.thread, Some(hit_.record)),
        Fact::Complete(of) => hit(of.thread, Some(of.record)),
        Fact::Put(of) => Refers { put: Some((of.kind, of.site)), ..hit(of.thread, Some(of.record)) },
        Fact::Cause(of) => hit(of.thread, of.record),
        Fact::CaLinkPut(of) => Refers { link_put: true, ..hit(of.thread, of.record) },
        Fact::CaClientPut(of) => hit(of.thread, None),
        Fact::CaPut(of) => {
            Refers { circuit: Some(of.circuit), channel: Some(of.channel), ..Refers::default() }
        }
        Fact::CaAnswer(of) => Refers { circuit: Some(of.circuit), ..Refers::default() },
        Fact::PactCheck(of) => Refers { record: Some(of.record), ..Refers::default() },
        Fact::FieldValue(of) => Refers { record: Some(of.record), ..Refers::default() },
        Fact::Snapshot(of) => Refers { record: Some(of.record), ..Refers::default() },
        Fact::Properties(of) => Refers { record: Some(of.record), ..Refers::default() },
        _ => Refers::default(),
    }
}

/// Everything in the block is said of it.
#[track_caller]
fn assert_true(about: &About, events: &[Event]) {
    assert_eq!(about.count as usize, events.len());
    let classes = about.classes.expect("the writer notes classes");
    let mut counts: BTreeMap<u16, u32> = BTreeMap::new();
    for Event { time, fact } in events {
        assert!((about.first..=about.last).contains(time));
        *counts.entry(fact.number()).or_default() += 1;
        let said = match fact {
            Fact::CaPut(_) | Fact::CaAnswer(_) => classes.network(),
            Fact::Put(put) if put.kind == PutKind::Put => classes.writes(),
            Fact::Put(_) => classes.puts(),
            Fact::Process(_) | Fact::RsetProcess(_) => classes.processing(),
            Fact::Complete(of) => classes.processing() && (of.severity == 0 || classes.alarms()),
            Fact::Cause(_) => classes.causes(),
            Fact::CaLinkPut(_) | Fact::CaClientPut(_) => classes.link_puts(),
            Fact::PactCheck(_) | Fact::FieldValue(_) => classes.readings(),
            Fact::Snapshot(_) | Fact::Properties(_) | Fact::SnapshotEnd(_) => classes.snapshots(),
            Fact::PvaPut(_) | Fact::PvaAnswer(_) | Fact::PvaMonitor(_) => classes.network(),
            Fact::PvaMessage(_) => classes.notes(),
            Fact::ConsoleLine(_) | Fact::ErrlogCall(_) | Fact::Resources(_) | Fact::IoUse(_) => {
                classes.health()
            }
            fact => match fact.class() {
                Class::Definition | Class::End => about.defines && classes.definitions(),
                Class::Note | Class::Storage => classes.notes(),
                Class::Hit => classes.others(),
            },
        };
        assert!(said, "{fact:?} is not said: {classes:?}");
    }
    let Some(contents) = &about.contents else { return };
    assert!(contents.counts.iter().copied().eq(counts));
    for Event { fact, .. } in events {
        let Refers { thread, record, circuit, channel, put, link_put } = refers(fact);
        assert!(record.is_none_or(|record| contents.may_hold_record(record)), "{fact:?}");
        assert!(thread.is_none_or(|thread| contents.may_hold_thread(thread)), "{fact:?}");
        assert!(channel.is_none_or(|channel| contents.may_hold_channel(channel)), "{fact:?}");
        let circuits = contents.circuits.as_ref();
        let listed = |circuit| circuits.is_none_or(|all| all.iter().any(|(of, _)| *of == circuit));
        assert!(circuit.is_none_or(listed), "{fact:?}");
        let (Some(thread), Some(threads)) = (thread, &contents.threads) else { continue };
        let of = threads.iter().find(|of| of.thread == thread).unwrap();
        assert!(record.is_none_or(|record| of.records.may_hold(record)), "{fact:?}");
        assert!(!link_put || of.link_puts);
        if let (Some((kind, site)), Some(record)) = (put, record) {
            assert!(of.put_to.may_hold(record));
            match kind {
                PutKind::Put => assert!(of.sites.as_ref().is_none_or(|sites| sites.contains(&site))),
                _ => assert!(of.puts),
            }
        }
    }
}

/// Checks all blocks of a segment, and returns how many have a list of contents.
#[track_caller]
fn check(bytes: &[u8]) -> usize {
    let abouts: Vec<About> = abouts(bytes).into_iter().map(Result::unwrap).collect();
    let blocks: Vec<Block> = read_segment(bytes).unwrap().into_iter().map(Result::unwrap).collect();
    assert_eq!(abouts.len(), blocks.len());
    for (about, block) in abouts.iter().zip(&blocks) {
        assert_eq!(
            (about.offset, about.length, about.sequence),
            (block.offset, block.length, block.sequence)
        );
        assert_true(about, &block.events);
    }
    abouts.iter().filter(|about| about.contents.is_some()).count()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn nothing_goes_unsaid(events in facts::events(1..400), every in 1..400usize) {
        let seconds: Vec<Vec<Fact>> =
            events.chunks(every).map(|some| some.iter().map(|event| event.fact.clone()).collect()).collect();
        check(&write(seconds));
    }

    /// What is left out is exactly what was not wanted, and the rest is as if all had been read.
    #[test]
    fn what_is_wanted_is_all_there(events in facts::events(1..400), threads in 0..64u32, records in 0..64u32) {
        let bytes = write([events.into_iter().map(|event| event.fact).collect()]);
        let wants = move |shape: &Shape| {
            let one_of = |number: Option<u32>, of: u32| number.is_some_and(|number| of >> (number % 6) & 1 == 1);
            one_of(shape.thread, threads) || one_of(shape.record, records) || shape.circuit == Some(3)
        };
        let all = read_segment(&bytes).unwrap();
        let some = chosen(&bytes, move |_| Choice::Only(Arc::new(wants)));
        for (all, some) in all.into_iter().zip(some) {
            let (all, some) = (all.unwrap(), some.unwrap());
            let mut left_out: BTreeMap<u16, u32> = BTreeMap::new();
            let mut rest = some.events.as_slice();
            for event in &all.events {
                if rest.first().is_some_and(|first| common::bytes(first) == common::bytes(event)) {
                    rest = &rest[1..];
                } else {
                    *left_out.entry(event.fact.number()).or_default() += 1;
                    let Refers { thread, record, circuit, put, .. } = refers(&event.fact);
                    let shape = Shape { kind: event.fact.number(), thread, circuit, record, put, site: None };
                    prop_assert!((14..=19).contains(&event.fact.number()) && !wants(&shape), "{event:?}");
                }
            }
            prop_assert!(rest.is_empty());
            prop_assert!(some.left_out.counts.iter().copied().eq(left_out));
        }
    }
}

/// Of a scan with noise, any records' hits have the values that they have where all are read, wherever in the block they
/// first come, and whatever is passed over before and after.
#[test]
fn some_records_of_a_scan_have_their_values() {
    fuzz(20, |random: &mut Random| {
        let mut seconds: Vec<Vec<Fact>> = Vec::new();
        for _ in 0..2 {
            let begin = random.below(300) as u32;
            let mut facts = scan(1, begin..700, random);
            (0..3).for_each(|_| facts.extend(scan(1, 0..700, random)));
            seconds.push(facts);
        }
        let bytes = write(seconds);
        let all = read_segment(&bytes).unwrap();
        let every: Vec<u32> = (0..700).step_by(90).collect();
        for wanted in [vec![0], vec![699, 350], vec![0, 1, 2], every] {
            let wants = wanted.clone();
            let some = chosen(&bytes, move |_| {
                let wants = wants.clone();
                Choice::Only(Arc::new(move |shape: &Shape| {
                    shape.record.is_some_and(|record| wants.contains(&record))
                }))
            });
            for (all, some) in all.iter().zip(some) {
                let is_wanted = |event: &&Event| {
                    matches!(event.fact.class(), Class::Storage | Class::Definition)
                        || refers(&event.fact).record.is_some_and(|record| wanted.contains(&record))
                };
                let expected = all.as_ref().unwrap().events.iter().filter(is_wanted).map(common::bytes);
                let some = some.unwrap();
                assert!(some.events.iter().map(common::bytes).eq(expected), "{wanted:?}");
            }
        }
    });
}

/// A file that counts the bytes that are read of it.
struct Counted {
    file: Cursor<Vec<u8>>,
    read: Arc<AtomicUsize>,
}

impl Read for Counted {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let count = self.file.read(into)?;
        self.read.fetch_add(count, Ordering::Relaxed);
        Ok(count)
    }
}

impl Seek for Counted {
    fn seek(&mut self, to: SeekFrom) -> std::io::Result<u64> {
        self.file.seek(to)
    }
}

/// Blocks that nobody wants are not read, and those between them are as if all were read.
#[test]
fn blocks_that_are_skipped_are_not_read() {
    let mut random = Random(7);
    let mut facts = || (0..4).flat_map(|_| scan(1, 0..700, &mut random)).collect::<Vec<Fact>>();
    let mut bytes = write((0..20).map(|_| facts()));
    let all: Vec<Block> = read_segment(&bytes).unwrap().into_iter().map(Result::unwrap).collect();
    let large = all.iter().filter(|block| block.length > 12 << 10).count();
    assert_eq!(large, 20);
    let blocks = |bytes: &[u8], prepare: &dyn Fn(&mut Segment<Counted>)| {
        let read = Arc::new(AtomicUsize::new(0));
        let file = Counted { file: Cursor::new(bytes.to_vec()), read: Arc::clone(&read) };
        let mut segment = Segment::read(file, Path::new("a segment")).unwrap();
        prepare(&mut segment);
        let found: Vec<_> = std::iter::from_fn(|| segment.next_block()).collect();
        (found, read.load(Ordering::Relaxed))
    };
    let (found, read) = blocks(&bytes, &|segment| segment.only_definitions());
    assert!(found.len() < large && read < bytes.len() / 2, "{read} of {}", bytes.len());
    let (found, read) = blocks(&bytes, &|segment| segment.choose(|_| Choice::Skip));
    assert!(read < bytes.len() / 2, "{read} of {}", bytes.len());
    assert_eq!(found.len(), all.len());
    for (found, all) in found.iter().map(|found| found.as_ref().unwrap()).zip(&all) {
        assert_eq!((found.offset, found.length, found.sequence), (all.offset, all.length, all.sequence));
        assert!(found.keyframe || found.passed && found.events.is_empty());
    }
    let skips = |about: &About| if about.sequence.is_multiple_of(2) { Choice::Skip } else { Choice::Read };
    let (found, _) = blocks(&bytes, &|segment| segment.choose(skips));
    for (found, all) in found.iter().map(|found| found.as_ref().unwrap()).zip(&all) {
        if !found.passed {
            assert_same(&found.events, &all.events);
        }
    }
    // what was checked once is not read once more
    let checked = Arc::new(AtomicUsize::new(0));
    let pass = |segment: &mut Segment<Counted>| {
        segment.remember(&checked);
        segment.choose(|_| Choice::Pass);
    };
    let ((first, read), (second, read_again)) = (blocks(&bytes, &pass), blocks(&bytes, &pass));
    assert!(read >= bytes.len() && read_again < bytes.len() / 2, "{read}, {read_again} of {}", bytes.len());
    assert_eq!(checked.load(Ordering::Relaxed), bytes.len());
    for (first, second) in first.iter().zip(&second) {
        let [first, second] = [first, second].map(|found| found.as_ref().unwrap());
        assert_eq!((first.offset, first.passed, &first.about), (second.offset, second.passed, &second.about));
    }
    assert_eq!(first.len(), second.len());
    // what is skipped is not checked
    let last = all.iter().rfind(|block| block.length > 12 << 10).unwrap();
    let middle = usize::try_from(last.offset + last.length / 2).unwrap();
    bytes[middle] ^= 1;
    let damaged = |choose: fn(&About) -> Choice| {
        blocks(&bytes, &|segment| segment.choose(choose)).0.iter().filter(|found| found.is_err()).count()
    };
    assert_eq!((damaged(|_| Choice::Skip), damaged(|_| Choice::Pass), damaged(|_| Choice::Read)), (0, 1, 1));
    checked.store(0, Ordering::Relaxed);
    let found = blocks(&bytes, &pass).0;
    assert_eq!(
        (found.iter().filter(|found| found.is_err()).count(), checked.load(Ordering::Relaxed)),
        (1, 0)
    );
}

/// Large blocks list their contents, however their records are numbered, in no more than a 64th of their bytes.
#[test]
fn large_blocks_list_their_contents() {
    fuzz(10, |random: &mut Random| {
        let below = [3_000, 100_000, 4_000_000_000][random.below(3)];
        let records: BTreeSet<u32> = (0..400).map(|_| random.below(below) as u32).collect();
        let seconds: Vec<Vec<Fact>> = (0..3)
            .map(|second| {
                let mut facts = scan(1, records.iter().copied(), random);
                facts.extend(scan(2, 5000..5600 + random.below(800) as u32, random));
                facts.extend([message(7, 30 + second), put(3, 9000 + second, PutKind::PutField, 4)]);
                facts.push(put(3, 9100, PutKind::Put, 5));
                facts
            })
            .collect();
        let bytes = write(seconds);
        assert_eq!(check(&bytes), 3);
        for about in abouts(&bytes).into_iter().map(Result::unwrap) {
            let Some(contents) = &about.contents else { continue };
            let threads = contents.threads.as_ref().unwrap();
            assert_eq!(threads.iter().map(|of| of.thread).collect::<Vec<_>>(), [1, 2, 3]);
            assert!(threads[1].records.numbers().is_some(), "in a row: exact");
            assert_eq!(threads[2].sites, Some(vec![5]));
            let circuits = contents.circuits.as_ref().unwrap();
            assert_eq!((circuits.len(), circuits[0].0), (1, 7));
            let others = (0..1000).filter(|number| threads[2].records.may_hold(10_000 + number)).count();
            assert!(others < 100, "{others} of 1000 records that the client's thread never touched");
        }
        let without: usize = bytes.len();
        let frames: u64 = abouts(&bytes).iter().flatten().map(|about| about.length / 64 + 1).sum();
        assert!(frames as usize * 64 <= without + 64 * 8);
    });
}

/// A block that is passed over is checked all the same: what is damaged in it is reported as if it had been read.
#[test]
fn damage_is_found_in_what_is_passed_over() {
    let mut random = Random(5);
    let seconds: Vec<Vec<Fact>> = (0..4).map(|_| scan(1, 0..600, &mut random)).collect();
    let bytes = write(seconds);
    fuzz(200, |random: &mut Random| {
        let mut bytes = bytes.clone();
        for _ in 0..=random.below(2) {
            let place = 160 + random.below(bytes.len() - 160);
            bytes[place] ^= 1 << random.below(8);
        }
        let damage = |found: Vec<Result<Block, Damage>>| -> Vec<String> {
            found.into_iter().filter_map(Result::err).map(|damage| format!("{damage:?}")).collect()
        };
        let (read, passed) = (read_segment(&bytes).unwrap(), chosen(&bytes, |_| Choice::Pass));
        assert!(passed.iter().flatten().all(|block| block.passed && block.events.is_empty()));
        assert_eq!(damage(read), damage(passed));
    });
}

/// A list of contents that is damaged is as good as none, and one that is not is as it was.
#[test]
fn damaged_lists_are_not_believed() {
    let bytes = write([scan(1, 0..900, &mut Random(3))]);
    let good: Vec<About> = abouts(&bytes).into_iter().map(Result::unwrap).collect();
    let place = good.iter().find(|about| about.contents.is_some()).unwrap();
    let length = u32::from_le_bytes(bytes[place.offset as usize + 56..][..4].try_into().unwrap()) as usize;
    assert!(length > 16);
    let mut refused = 0;
    for at in 0..8 + length {
        let mut bytes = bytes.clone();
        bytes[place.offset as usize + 52 + at] ^= 1 << (at % 8);
        for (about, good) in abouts(&bytes).into_iter().map(Result::unwrap).zip(&good) {
            refused += usize::from(good.contents.is_some() && about.contents.is_none());
            assert!(about.contents.is_none() || about.contents == good.contents);
        }
    }
    assert_eq!(refused, 8 + length);
}

/// Old segments say nothing of themselves, so everything in them is read.
#[test]
fn old_segments_say_nothing() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v1-attached.iocrec");
    let bytes = std::fs::read(path).unwrap();
    let abouts = abouts(&bytes);
    assert!(abouts.len() > 2);
    for about in abouts.into_iter().map(Result::unwrap) {
        assert!(about.classes.is_none() && about.contents.is_none());
    }
    let all: Vec<Event> = read_segment(&bytes).unwrap().into_iter().flat_map(|b| b.unwrap().events).collect();
    let some = chosen(&bytes, |about| match about.classes {
        Some(_) => Choice::Pass,
        None => Choice::Only(Arc::new(|_: &Shape| true)),
    });
    assert_same(&some.into_iter().flat_map(|b| b.unwrap().events).collect::<Vec<_>>(), &all);
}
