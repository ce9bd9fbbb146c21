//! Scans that repeat: chains made at once are those that are made hit by hit.

use super::*;
use iocreplay::model::chain::Outcome;
use iocreplay::model::run::Run;

/// A second scan thread.
const SCAN1: ThreadId = 30;
/// The scanned records.
const FIRST: RecordId = 40;
const LAST: RecordId = 60;

/// What happens between scans, or in them.
#[derive(Clone, Copy, PartialEq)]
enum Odd {
    /// Nothing.
    None,
    /// A hit of the scan is missing.
    Lost,
    /// A client writes to a scanned record, between the scan's hits or before them.
    Written,
    /// A record does not complete in the scan, but later.
    Asynchronous,
    /// A record is processed again by a request of the scan.
    Once,
    /// The stack pointers are others.
    Deeper,
    /// A value is a text.
    Text,
    /// A record is active already.
    Active,
    /// The record is on another list from now on.
    Moved,
    /// The other thread scans at the same time.
    Both,
    /// Hits are lost.
    Loss,
}

const ODDS: [Odd; 10] = [
    Odd::Lost,
    Odd::Written,
    Odd::Asynchronous,
    Odd::Once,
    Odd::Deeper,
    Odd::Text,
    Odd::Active,
    Odd::Moved,
    Odd::Both,
    Odd::Loss,
];

/// The hits of a scanned record's chain: which one it is depends on the record.
fn scan(story: &mut Story, time: &mut u64, thread: ThreadId, record: RecordId, sp: i64, v: f64) {
    let mut next = || {
        *time += 500;
        *time
    };
    let (from, link) = ("scanList", "dbScanPassive");
    match record % 4 {
        // forward links, one after the other
        0 => {
            story.process(next(), thread, sp - 100, from, record);
            story.complete(next(), thread, sp - 200, record, v);
            story.process(next(), thread, sp - 300, link, record + 1);
            story.complete(next(), thread, sp - 400, record + 1, v + 1.0);
        }
        // an input link, and a forward link
        1 => {
            story.process(next(), thread, sp - 100, from, record);
            story.process(next(), thread, sp - 150, link, record - 1);
            story.complete(next(), thread, sp - 250, record - 1, v);
            story.complete(next(), thread, sp - 200, record, v);
            story.process(next(), thread, sp - 300, "", record + 1);
            story.complete(next(), thread, sp - 400, record + 1, 7.0);
        }
        // a fanout
        2 => {
            story.process(next(), thread, sp - 100, from, FAN);
            story.process(next(), thread, sp - 200, link, record);
            story.complete(next(), thread, sp - 300, record, v);
            story.process(next(), thread, sp - 200, link, record + 1);
            story.complete(next(), thread, sp - 300, record + 1, v);
            story.complete(next(), thread, sp - 150, FAN, 0.0);
        }
        // alone
        _ => {
            story.process(next(), thread, sp - 100, from, record);
            story.complete(next(), thread, sp - 200, record, v);
        }
    }
}

/// A story of scans in which one in `odd` is odd; at the places that are returned, definitions come or go.
fn tell(seed: u64, odd: u64) -> (Story, Vec<usize>) {
    let mut state = seed;
    let mut random = move |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut story = story();
    let define = |fact: Fact| story.run.apply(0, &fact);
    define(Fact::Thread(Thread { id: SCAN1, ioc: 1, tid: 1030, name: "scan-1".into(), stack: 0 }));
    for id in FIRST..=LAST + 2 {
        let rtype = if id % 5 == 0 { "" } else { "calc" }.to_owned();
        define(Fact::from(Record { id, ioc: 1, address: 0, name: format!("S:{id}"), rtype }));
    }
    for (id, kind, callback) in [(1, ScanKind::Periodic, 0), (2, ScanKind::IoInterrupt, 77)] {
        define(Fact::ScanList(ScanList { id, ioc: 1, kind, name: format!("list {id}"), callback }));
    }
    let (mut time, mut places) = (SECOND, Vec::new());
    for turn in 0..60 {
        // each thread works through its list
        let of_scan1 = |record: &RecordId| record.is_multiple_of(5);
        let records = (FIRST..=LAST).filter(|record| !of_scan1(record));
        for record in records.chain((FIRST..=LAST).filter(of_scan1)) {
            let what = if random(odd) == 0 { ODDS[random(ODDS.len() as u64) as usize] } else { Odd::None };
            let thread = if of_scan1(&record) { SCAN1 } else { SCAN };
            let begin = story.events.len();
            let sp = if what == Odd::Deeper { -1000 * random(3) as i64 } else { 0 };
            if what == Odd::Written && random(2) == 0 {
                story.write(time, CLIENT, record, 5.0);
                time += 1000;
            }
            scan(&mut story, &mut time, thread, record, sp, f64::from(turn % 7));
            let place = begin + random((story.events.len() - begin) as u64) as usize;
            let at = story.events[place].time;
            match what {
                Odd::None | Odd::Deeper => {}
                Odd::Lost => _ = story.events.remove(place),
                Odd::Written => _ = story.write(at + 1, CLIENT, record, 3.0),
                Odd::Asynchronous => {
                    if matches!(story.events[place].fact, Fact::Complete(_)) {
                        story.events.remove(place);
                        story.complete(time + random(500 * MS), CB_LOW, -100, record, 2.0);
                    }
                }
                Odd::Once => {
                    story.cause(at + 1, thread, sp - 350, CauseKind::ScanOnce, Some(record));
                    story.process(time + MS, ONCE, -100, "onceTask", record);
                    story.complete(time + 2 * MS, ONCE, -200, record, 1.0);
                }
                Odd::Text => {
                    if let Fact::Complete(complete) = &mut story.events[place].fact {
                        complete.value = Value::Text(b"text".to_vec());
                    }
                }
                Odd::Active => {
                    if let Fact::Process(process) = &mut story.events[place].fact {
                        process.active = true;
                    }
                }
                Odd::Moved => {
                    let list = [None, Some(1), Some(2)][random(3) as usize];
                    story.push(time, Fact::RecordScan(RecordScan { record, list }));
                    places.push(story.events.len());
                }
                Odd::Both => {
                    let other = if thread == SCAN { SCAN1 } else { SCAN };
                    let mut meanwhile = at + 1;
                    scan(&mut story, &mut meanwhile, other, FIRST + 3, 0, 4.0);
                }
                Odd::Loss => {
                    let (source, since, count) = (LossSource::Hits, at, 3);
                    let cause = String::new();
                    story.push(time, Fact::Loss(Loss { source, since, count, cause }));
                }
            }
            time += 10_000;
        }
        time += 100 * MS + random(900 * MS);
    }
    story.events.sort_by_key(|event| event.time);
    (story, places)
}

/// Everything that a chain says.
fn all(chain: &Chain) -> String {
    let mut text = format!("{} {}\n", chain.serial, chain.open);
    for span in &chain.spans {
        let kind = match &span.kind {
            SpanKind::Process(of) => {
                let outcome = match &of.outcome {
                    Outcome::Completed(done) => {
                        format!("{:?} {} {}", done.value, done.severity, done.status)
                    }
                    Outcome::Open => "open".into(),
                    Outcome::Active => "active".into(),
                    Outcome::Skipped => "skipped".into(),
                    _ => "other".into(),
                };
                format!(
                    "{} {:?} {outcome} {:?} {:?} {:?} {}",
                    of.record, of.trigger, of.phases, of.list, of.asked, of.for_link
                )
            }
            SpanKind::Put(put) => {
                let (record, kind, after) = (put.record, put.kind, &put.after);
                format!("put {record:?} {kind:?} {:?} {after:?} {:?}", put.requested, put.written)
            }
            SpanKind::Link(_) => "link".into(),
        };
        let (parent, thread, start, end) = (span.parent, span.thread, span.start, span.end);
        text.push_str(&format!("  {parent:?} {thread:?} {start} {end} {kind}\n"));
    }
    text
}

/// Whether a definition that comes there may change what hits mean, or none.
fn define(run: &Run, place: usize) {
    if place.is_multiple_of(2) {
        let (id, rtype) = (FIRST + place as u32 % 20, ["calc", "fanout", ""][place % 3].to_owned());
        run.apply(0, &Fact::from(Record { id, ioc: 1, address: 0, name: format!("S:{id}"), rtype }));
    } else {
        run.apply(0, &Fact::Clock(Clock { wall: WALL }));
    }
}

/// The chains of a story, hit by hit or with those that repeat at once, and the number of hits taken at once.
fn chains(seed: u64, odd: u64, at_once: bool) -> (Vec<String>, usize, usize) {
    let (story, places) = tell(seed, odd);
    let mut engine = Engine::new(Rc::clone(&story.run));
    let (mut out, mut place, mut taken) = (Vec::new(), 0, 0);
    while let Some(event) = story.events.get(place) {
        if places.contains(&place) {
            define(&story.run, place);
        }
        // Nothing comes between events up to the next place.
        let end = places.iter().copied().filter(|other| *other > place).min().unwrap_or(usize::MAX);
        let ahead = &story.events[place..end.min(story.events.len())];
        let until = if seed.is_multiple_of(2) { u64::MAX } else { event.time + 300_000 };
        let count =
            if at_once { engine.push_scans(ahead, until, 50, |time| time % 11 != 0, &mut out) } else { 0 };
        if count == 0 {
            engine.push(event.clone(), &mut out);
        }
        taken += count;
        place += count.max(1);
    }
    engine.finish(&mut out);
    out.sort_by_key(|chain| chain.serial);
    (out.iter().map(all).collect(), taken, story.events.len())
}

#[test]
fn chains_made_at_once_are_those_made_hit_by_hit() {
    for seed in 0..60 {
        let odd = [3, 20, 200, u64::MAX][seed as usize % 4];
        let (one_by_one, ..) = chains(seed, odd, false);
        let (at_once, taken, events) = chains(seed, odd, true);
        for (one, other) in one_by_one.iter().zip(&at_once) {
            assert_eq!(one, other, "seed {seed}");
        }
        assert_eq!(one_by_one.len(), at_once.len());
        // else the test would prove nothing
        assert!(odd < 200 || taken > events / 3, "seed {seed}: {taken} of {events}");
        assert!(taken > 0, "seed {seed}");
    }
}
