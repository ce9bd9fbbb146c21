//! The state at a time is the same whether all of the logs before it are read or only what is needed.

mod common;

use common::{ca_put, complete, definitions, process, put, segments, CLIENT, MS, SCAN, SECOND, WALL};
use iocrec_log::event::*;
use iocrec_log::storage::{Clocked, Directory};
use iocrec_log::writer::{Options, Writer};
use iocrec_testing::chance::{fuzz, mutate, Random};
use iocreplay::states::state::{FieldState, State};
use iocreplay::states::{self, around};
use iocreplay::{Filter, Logs, OpenOptions};
use std::cell::Cell;
use std::path::Path;
use std::rc::Rc;

/// Records of the plant: numbers from here on.
const FIRST: u32 = 20;
const RECORDS: u32 = 30;
const LENGTH: u64 = 240;

/// How a record behaves.
#[derive(Clone, Copy)]
enum Kind {
    /// Another value each time.
    Changing,
    /// The same value each time.
    Constant,
    /// Rarely another one.
    Seldom,
    /// Rarely processed at all.
    Rare,
    /// A fanout, which has no value.
    Fanout,
    /// Never processed.
    Passive,
    /// Not a number.
    Nan,
    /// Not always seen to complete, as a motor.
    Motor,
    /// Only the entry of its process routine is recorded.
    Routine,
}

const KINDS: [Kind; 9] = [
    Kind::Changing,
    Kind::Constant,
    Kind::Seldom,
    Kind::Rare,
    Kind::Fanout,
    Kind::Passive,
    Kind::Nan,
    Kind::Motor,
    Kind::Routine,
];
/// Of the callbacks.
const CB_LOW: u32 = 4;

/// A log of some minutes of scanning, with puts and snapshots, and sometimes a loss or a gap.
fn plant(random: &mut Random, directory: &Path, run: u128, begin: u64, harm: bool) {
    let wall = Rc::new(Cell::new(WALL + begin as i64));
    let storage = Clocked { storage: Directory::open(directory).unwrap(), wall: Rc::clone(&wall) };
    let options = Options { segment: Some(48 << 10), contents_share: 1, ..Options::default() };
    let mut writer = Writer::open(storage, options, run).unwrap();
    for fact in definitions("box1") {
        let fact = if let Fact::Clock(_) = fact { Fact::Clock(Clock { wall: wall.get() }) } else { fact };
        writer.push(Event { time: begin, fact });
    }
    let kinds: Vec<Kind> = (0..RECORDS).map(|_| KINDS[random.below(KINDS.len())]).collect();
    for (id, kind) in (FIRST..).zip(&kinds) {
        let rtype = match kind {
            Kind::Fanout => "fanout",
            Kind::Motor => "motor",
            _ => "ao",
        };
        let rtype = rtype.to_owned();
        let record = Record { id, ioc: 1, address: 4096, name: format!("P:{id}"), rtype };
        writer.push(Event { time: begin, fact: Fact::from(record) });
    }
    writer.push(Event {
        time: begin,
        fact: Fact::Attached(Attached { ioc: 1, from: begin, since: begin, cause: String::new() }),
    });
    let mut values: Vec<f64> = (0..RECORDS).map(f64::from).collect();
    let mut seconds = 0;
    while seconds < LENGTH {
        let now = begin + seconds * SECOND;
        let mut events = Vec::new();
        if seconds % 61 == 2 {
            for (id, value) in (FIRST..).zip(&values) {
                if random.below(20) > 0 {
                    let (record, value) = (id, Value::Double(*value));
                    let snapshot = Snapshot { record, value, severity: 0, status: 0, stamp: None };
                    events.push((now + 500 * MS, Fact::Snapshot(snapshot)));
                }
            }
        }
        for (place, kind) in kinds.iter().enumerate() {
            let (due, new) = match kind {
                Kind::Changing => (true, values[place] + 1.0),
                Kind::Constant => (true, values[place]),
                Kind::Seldom => (true, values[place] + if random.below(90) == 0 { 1.0 } else { 0.0 }),
                Kind::Rare => (random.below(70) == 0, values[place] + random.below(2) as f64),
                Kind::Fanout => (true, 0.0),
                Kind::Nan => (true, f64::NAN),
                Kind::Passive | Kind::Routine => (false, 0.0),
                Kind::Motor => (random.below(5) == 0, values[place] + random.below(2) as f64),
            };
            if let Kind::Routine = kind {
                if random.below(100) == 0 {
                    let (record, active) = (FIRST + place as u32, false);
                    let entered = Process { thread: SCAN, sp: -100, site: 0, record, active };
                    events.push((now, Fact::RsetProcess(entered)));
                }
                continue;
            }
            if !due {
                // in vain, or while it is disabled
                if random.below(400) == 0 {
                    let record = FIRST + place as u32;
                    events.push((now + place as u64 * MS, process(SCAN, -100, 2, record)));
                    if random.below(2) == 0 {
                        let disabled = random.below(2) == 0;
                        let check = PactCheck { record, active: false, disabled };
                        events.push((now + 900 * MS, Fact::PactCheck(check)));
                    }
                }
                continue;
            }
            let (id, at) = (FIRST + place as u32, now + place as u64 * MS);
            values[place] = new;
            events.push((at, process(SCAN, -100, 2, id)));
            let severity = u16::from(random.below(50) == 0);
            // some are asynchronous
            if random.below(40) == 0 {
                let kind = CauseKind::CallbackRequestProcessDelayed;
                let cause = Cause { thread: SCAN, sp: -200, site: 0, kind, object: 7, record: Some(id) };
                events.push((at + 100, Fact::Cause(cause)));
                events.push((at + 700 * MS, complete(CB_LOW, -200, id, new, severity)));
            } else if !matches!(kind, Kind::Motor) || random.below(3) == 0 {
                events.push((at + 1000, complete(SCAN, -200, id, new, severity)));
            }
        }
        if random.below(20) == 0 {
            // a put to the value or another field of a record; its message may be all that is seen of it
            let (place, at) = (random.below(RECORDS as usize), now + 800 * MS);
            let (id, new) = (FIRST + place as u32, random.below(5) as f64);
            events.push((at, ca_put(1, if id % 2 == 0 { 3 } else { 1 }, false, 100 + seconds as u32, new)));
            if random.below(3) > 0 {
                let field = if id % 2 == 0 { 2 } else { 1 };
                events.push((at + 1000, put(PutKind::PutField, CLIENT, -1000, 1, (id, field), 1.0, new)));
                events
                    .push((at + 2000, put(PutKind::Put, CLIENT, -1200, 0, (id, field), values[place], new)));
                if field == 1 && random.below(2) == 0 {
                    values[place] = new;
                    events.push((at + 3000, process(CLIENT, -1200, 0, id)));
                    events.push((at + 4000, complete(CLIENT, -1300, id, new, 0)));
                }
            }
        }
        if harm && random.below(150) == 0 {
            let (source, cause, since) = (LossSource::Hits, "full".to_owned(), now - SECOND);
            events.push((now, Fact::Loss(Loss { source, count: 3, since, cause })));
        }
        if harm && random.below(300) == 0 {
            let left = ChainsLeftOut { record: FIRST + 1, count: 3, since: now - SECOND };
            events.push((now, Fact::ChainsLeftOut(left)));
        }
        events.sort_by_key(|(time, _)| *time);
        for (time, fact) in events {
            writer.push(Event { time, fact });
        }
        seconds += if harm && random.below(100) == 0 { 30 } else { 1 };
        let now = begin + seconds * SECOND;
        wall.set(WALL + now as i64);
        writer.tick(now);
    }
    writer.close(begin + seconds * SECOND);
    assert_eq!(writer.status().lost, 0);
}

/// Everything that is known of a field.
fn told(field: &FieldState) -> String {
    let (process, record, name) = &field.key;
    let seen = field.seen.as_ref().map(|seen| {
        let changed = seen.changed.as_ref().map(|last| (last.time, last.since, format!("{:?}", last.value)));
        format!(
            "{:?} {} {:?} {:?} {} {:?} {} {changed:?} {:?} {}",
            seen.value(),
            seen.time,
            seen.source,
            seen.set(),
            seen.first,
            seen.alarm,
            seen.changes,
            seen.text(),
            seen.inexact
        )
    });
    format!("{} {record}.{name}: {:?} {seen:?}", process.ioc, field.doubt)
}

fn fields(state: State, filter: &Filter) -> Vec<String> {
    let (left_out, is_full) = (state.chains_left_out(), state.is_full());
    let mut all: Vec<String> = state.into_fields(filter).iter().map(told).collect();
    all.push(format!("{left_out} {is_full}"));
    all
}

/// Compares the states at a time with and without reading everything. Whether anything was left out.
#[track_caller]
fn compare(log: &Path, filter: &Filter, time: i64, later: i64) -> bool {
    let open = |without| OpenOptions::new().without_index(without).open([log]);
    let (Ok(short), Ok(whole)) = (open(false), open(true)) else { return false };
    let same = |short: State, whole: State| {
        let (short, whole) = (fields(short, filter), fields(whole, filter));
        for (short, whole) in short.iter().zip(&whole) {
            assert_eq!(short, whole, "at {}", time - WALL);
        }
        assert_eq!(short.len(), whole.len());
    };
    same(states::at(&short, filter, time), states::at(&whole, filter, time));
    let of = |logs: &Logs| states::between(logs, filter, time, later);
    let ((before, after), (whole_before, whole_after)) = (of(&short), of(&whole));
    same(before, whole_before);
    same(after, whole_after);
    let until = filter.until(time.saturating_add(1));
    around::states(&short, &until, &|| vec![State::at(time)]).is_some()
}

/// Some times in the log.
fn times(random: &mut Random) -> [(i64, i64); 4] {
    [(); 4].map(|()| {
        let first = random.below(260) as u64 * SECOND + random.below(1000) as u64 * MS;
        let later = first + random.below(40) as u64 * SECOND;
        (WALL + first as i64, WALL + later as i64)
    })
}

#[test]
fn what_is_left_out_changes_nothing() {
    let (mut short, mut compared) = (0, 0);
    fuzz(4, |random: &mut Random| {
        let directory = tempfile::tempdir().unwrap();
        plant(random, directory.path(), 7, SECOND, false);
        let some = Filter { pv: vec!["P:2*".into()], ..Filter::default() };
        for (time, later) in times(random) {
            for filter in [&Filter::default(), &some] {
                short += usize::from(compare(directory.path(), filter, time, later));
                compared += 1;
            }
        }
    });
    assert!(short * 4 > compared, "only {short} of {compared} times was anything left out");
}

#[test]
fn nor_with_losses_damage_and_several_runs() {
    fuzz(4, |random: &mut Random| {
        let directory = tempfile::tempdir().unwrap();
        plant(random, directory.path(), 7, SECOND, true);
        if random.below(2) == 0 {
            let harm = random.below(2) == 0;
            plant(random, directory.path(), 8, (LENGTH + 20) * SECOND, harm);
        }
        if random.below(3) == 0 {
            let files = segments(directory.path());
            let file = &files[random.below(files.len())];
            let mut bytes = std::fs::read(file).unwrap();
            mutate(random, &mut bytes);
            std::fs::write(file, bytes).unwrap();
        }
        for (time, later) in times(random) {
            compare(directory.path(), &Filter::default(), time, later);
            let after = (random.below(250) as u64 * SECOND) as i64;
            compare(directory.path(), &Filter::default(), time + after, later + after);
        }
    });
}
