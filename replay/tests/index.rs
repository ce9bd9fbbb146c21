//! An index never hides an event: every question has the same answer with it and without, whatever the log. Asked here of
//! the library, in much detail, and of every command that iocreplay has.

mod common;
#[path = "../../log/tests/common/mutate.rs"]
#[allow(dead_code)] // only the repacking
mod mutate;

use common::every::every;
use common::{definitions, happenings, segments, CLIENT, MS, SCAN, SECOND, WALL};
use iocrec_log::event::*;
use iocrec_log::reader::{find, About, Segment, SegmentFile};
use iocrec_log::storage::{Clocked, Directory};
use iocrec_log::writer::{Options, Writer};
use iocrec_testing::chance::{fuzz, mutate as change, Random};
use iocreplay::model::selection::{Interest, Selection};
use iocreplay::model::silence::Sayings;
use iocreplay::out::Out;
use iocreplay::output::traces;
use iocreplay::output::why::Why;
use iocreplay::scan::{Blocks, Part, Scan};
use iocreplay::summary::RunSummary;
use iocreplay::time::Zone;
use iocreplay::{Chain, Filter, Logs, OpenOptions, Recent, ValueLine};
use mutate::Pieces;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// Lists of contents in all blocks, however small.
fn options() -> Options {
    Options { contents_share: 1, segment: Some(32 << 10), ..Options::default() }
}

/// A writer of a log, and the time. The log is the same each time, to the byte: a seed says what was damaged.
struct Log {
    writer: Writer<Clocked<Directory>>,
    /// The wall clock, and what it was at the time 0.
    wall: Rc<Cell<i64>>,
    begin: i64,
    now: u64,
    ticked: u64,
}

impl Log {
    fn new(directory: &Path) -> Log {
        Log::begun(directory, WALL)
    }

    /// Of a machine whose wall clock was this at the time 0.
    fn begun(directory: &Path, begin: i64) -> Log {
        let wall = Rc::new(Cell::new(begin));
        let storage = Clocked { storage: Directory::open(directory).unwrap(), wall: Rc::clone(&wall) };
        Log { writer: Writer::open(storage, options(), 1).unwrap(), wall, begin, now: 0, ticked: 0 }
    }

    fn push(&mut self, time: u64, fact: Fact) {
        self.now = self.now.max(time);
        self.wall.set(self.begin.saturating_add_unsigned(self.now));
        self.writer.push(Event { time, fact });
    }

    /// Ends a block.
    fn flush(&mut self) {
        self.ticked = self.ticked.max(self.now) + 2 * SECOND;
        self.writer.tick(self.ticked);
    }

    fn close(mut self) {
        self.writer.close(self.now);
        assert_eq!(self.writer.status().lost, 0);
    }
}

/// Everything that these logs answer.
fn answers(log: &Path, without_index: bool) -> Vec<String> {
    let notices = Rc::new(RefCell::new(Vec::new()));
    let told = Rc::clone(&notices);
    let options = OpenOptions::new()
        .without_index(without_index)
        .on_notice(move |notice| told.borrow_mut().push(format!("{notice:?}")));
    let Ok(logs) = options.open([log]) else { return Vec::new() };
    assert_eq!(logs.uses_index(), !without_index);
    let mut all = Vec::new();
    let of_some = Filter { pv: vec!["*SP*".into()], exclude: vec!["*MAG1*".into()], ..Filter::default() };
    let of_one = Filter { user: Some("nobody".into()), ..Filter::default() };
    let since = Filter { since: middle(&logs), ..Filter::default() };
    let until = Filter { until: middle(&logs), ..Filter::default() };
    let of_names = Filter { pv: vec!["P:52".into(), "P:33".into(), "T:SP".into()], ..Filter::default() };
    for filter in [Filter::default(), since, until, of_some, of_one, of_names] {
        all.extend(logs.puts(&filter).map(|put| format!("{put:?}")));
        all.push("with links".into());
        all.extend(logs.puts(&filter).with_links().map(|put| format!("{put:?}")));
    }
    all.extend(sayings(&logs));
    for name in ["P:12", "P:13", "P:33.VAL", "P:51", "T:CALC.A", "GUEST:R0"] {
        let filter = Filter { pv: vec![name.into()], ..Filter::default() };
        for line in logs.values(&filter).with_gaps() {
            let text = |value: &Option<std::rc::Rc<str>>| value.as_deref().map(str::to_owned);
            let roots = line.origin.as_ref().map(|origin| {
                let root = |chain: &Chain| chain.root().map(|root| (root.start, root.thread));
                (root(&origin.chain), origin.last().and_then(|(chain, ..)| root(chain)), origin.path.len())
            });
            let ValueLine { time, value, alarm, inexact, source, .. } = &line;
            all.push(format!(
                "{} {time} {value:?} {alarm:?} {inexact} {source:?} {roots:?} {:?}",
                line.pv(),
                text(&line.root)
            ));
        }
    }
    for name in ["P:12", "P:33.VAL", "P:51", "T:SP", "GUEST:R0"] {
        all.extend(chains(&logs, name));
    }
    for run in logs.runs() {
        let summary = RunSummary::read_with(run, logs.notices(), &Zone::utc(), logs.uses_index());
        all.extend(serde_json::to_string_pretty(&summary).unwrap().lines().map(str::to_owned));
    }
    all.extend(notices.take());
    all
}

/// The chains that have a PV, as rows of all that they hold.
fn chains(logs: &Logs, name: &str) -> Vec<String> {
    let filter = Filter { pv: vec![name.into()], ..Filter::default() };
    let format = traces::FORMATS.iter().find(|format| format.name == "jsonl").unwrap();
    let (zone, mut below) = (Zone::utc(), Vec::new());
    let mut out = Out::new(&mut below);
    let mut writer = (format.writer)(&zone);
    writer.begin(&mut out).unwrap();
    logs.chains(&filter).for_each(|chain| writer.write(&mut out, &chain).unwrap());
    writer.end(&mut out).unwrap();
    out.flush().unwrap();
    String::from_utf8(below).unwrap().lines().map(str::to_owned).collect()
}

/// What the IOCs said.
fn sayings(logs: &Logs) -> Vec<String> {
    let since = Filter { since: middle(logs), ..Filter::default() };
    let until = Filter { until: middle(logs), ..Filter::default() };
    let rows = |filter: Filter| logs.console(&filter).map(|row| format!("{row:?}")).collect::<Vec<_>>();
    [Filter::default(), since, until].into_iter().flat_map(rows).collect()
}

/// A time within the logs.
fn middle(logs: &Logs) -> Option<i64> {
    let last = logs.runs().first()?.last()?;
    Some(last.header?.created_wall.saturating_add(SECOND as i64))
}

/// Why each PV changed, as far as the last part of the logs tells it, and by everything.
fn reasons(log: &Path) -> usize {
    let Ok(logs) = Logs::open([log]) else { return 0 };
    let (zone, all) = (Zone::utc(), Filter::default());
    let mut told = 0;
    let records = (10..60)
        .map(|id| format!("P:{id}"))
        .chain(["T:SP", "T:CALC", "R:FAR", "GUEST:R0"].map(str::to_owned));
    for record in records {
        let Some(recent) = Recent::find(&logs, &record, &all) else { continue };
        let quiet = logs.without_notices();
        let mut search = Why::new(&record, &all);
        quiet.replay_recent(&recent, &record).for_each(|chain| search.take(chain));
        if !quiet.is_complete() || !search.is_certain(recent.sure) {
            continue;
        }
        told += 1;
        let keys = |search: Why| {
            let mut answer = serde_json::to_value(search.answer(&zone).unwrap()).unwrap();
            let answer = answer.as_object_mut().unwrap();
            // These are about what was read.
            for key in ["count", "before_known", "values_unknown"] {
                assert!(answer.remove(key).is_some());
            }
            let others = answer.remove("others").unwrap();
            (answer.clone(), others.as_array().unwrap().clone())
        };
        let mut whole = Why::new(&record, &all);
        logs.without_notices().replay(&all).for_each(|chain| whole.take(chain));
        let ((part, others), (whole, all_others)) = (keys(search), keys(whole));
        assert_eq!(part, whole, "{record}");
        // an IOC that had such a record only before what was read is not looked for
        assert!(others.iter().all(|other| all_others.contains(other)), "{record}: {others:?} {all_others:?}");
    }
    told
}

#[track_caller]
fn assert_same(log: &Path) -> usize {
    let (with, without) = (answers(log, false), answers(log, true));
    for (with, without) in with.iter().zip(&without) {
        assert_eq!(with, without);
    }
    assert_eq!(with.len(), without.len());
    with.len()
}

/// What the blocks of a log say of themselves.
fn abouts(log: &Path) -> Vec<About> {
    let segments = find(log).unwrap();
    let blocks = |path: PathBuf| {
        let mut segment = Segment::open(&path).unwrap();
        std::iter::from_fn(move || segment.next_about()).filter_map(Result::ok).collect::<Vec<_>>()
    };
    segments.into_iter().flat_map(|segment| blocks(segment.path)).collect()
}

/// The logs that recorders wrote, of all kinds of machines.
fn recorded() -> Vec<PathBuf> {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let travelled = fs::read_dir(tests.join("travelled")).unwrap().map(|machine| machine.unwrap().path());
    let mut logs: Vec<PathBuf> =
        travelled.chain([tests.join("plant")]).map(|machine| machine.join("log")).collect();
    logs.sort();
    logs
}

/// Writes a log anew, with lists of contents in its blocks.
fn write_anew(old: &Path, directory: &Path) {
    let files = find(old).unwrap();
    let of_first = files.iter().find_map(|file| file.header);
    let begin = of_first.map_or(WALL, |header| header.created_wall.saturating_sub_unsigned(header.created));
    let mut log = Log::begun(directory, begin);
    for file in files {
        let mut segment = Segment::open(&file.path).unwrap();
        while let Some(block) = segment.next_block() {
            block.unwrap().events.into_iter().for_each(|event| log.push(event.time, event.fact));
            log.flush();
        }
    }
    log.close();
}

/// Logs of all kinds of machines, as they are and with lists of contents.
#[test]
fn logs_that_have_travelled() {
    for old in recorded() {
        assert!(assert_same(&old) > 30);
        let directory = tempfile::tempdir().unwrap();
        write_anew(&old, directory.path());
        assert!(abouts(directory.path()).iter().filter(|about| about.contents.is_some()).count() > 5);
        assert!(assert_same(directory.path()) > 30);
    }
}

/// A plant in which everything happens at once, at random: scans, callbacks, puts from outside with their messages,
/// puts of links, readings, losses. In half of the logs clients put to records that nothing else processes, in threads of
/// known purpose, so that much can be left out.
fn plant(random: &mut Random, directory: &Path) {
    let mut log = Log::new(directory);
    for fact in definitions("box1") {
        log.push(0, fact);
    }
    let names =
        ["scan-0.1", "scan-1", "cbLow", "scanOnce", "CAS-client", "_main_", "dbCaLink", "PVXTCP", "x"];
    for (id, name) in (10..).zip(names.iter().take(4 + random.below(6))) {
        log.push(0, Fact::Thread(Thread { id, ioc: 1, tid: id, name: (*name).into(), stack: 1 << 40 }));
    }
    for id in 10..60 {
        let (name, rtype) = (format!("P:{id}"), ["ao", "calc", "bo"][id as usize % 3].into());
        log.push(0, Fact::from(Record { id, ioc: 1, address: u64::from(id) * 64, name, rtype }));
    }
    for (id, function) in [(11, "scanList"), (12, "dbDbPutValue"), (13, ""), (14, "onceTask"), (15, "dbpf")] {
        let (function, module) = (function.into(), "libdbCore.so".into());
        log.push(0, Fact::from(CallSite { id, ioc: 1, address: 1, function, module }));
    }
    let mut time = SECOND;
    let story = happenings();
    // Each record has a thread in which it mostly is.
    let (stray, tame) = (random.below(30), random.below(2) == 0);
    let stray = if tame { 0 } else { stray };
    // Only scans and clients: then chains can be left out, too.
    let quiet = tame && random.below(3) > 0;
    for turn in 0..100 + random.below(400) {
        time += [1000, 100_000, 20 * MS, SECOND, 3 * SECOND][random.below(5)];
        if random.below(40) == 0 && !quiet {
            story.iter().for_each(|(at, fact)| log.push(time + at, fact.clone()));
            time += 3 * SECOND;
        }
        let mut record = 10 + random.below(30) as u32;
        let thread = if random.below(30) < stray {
            10 + random.below(9) as u32
        } else {
            10 + record % if quiet { 2 } else { 3 }
        };
        let outer = 1 + random.below(2) as u32;
        if random.below(20) == 0 {
            let (record, kind) =
                (if tame { 50 } else { 30 } + record % 5, [PutKind::PutField, PutKind::Put][random.below(2)]);
            log.push(time, put(outer, -1000, kind, record, 1, random));
            log.push(time + 100, put(outer, -1200, PutKind::Put, record, 0, random));
            log.push(time + 200, process(outer, -1200, 0, record));
            log.push(time + 300, complete(outer, -1300, record, random));
        }
        let mut sp = -100;
        for _ in 0..1 + random.below(4) {
            time += 10 + random.below(3000) as u64;
            let site = if quiet && sp == -100 { 11 } else { 11 + random.below(4) as u32 };
            log.push(time, process(thread, sp, site, record));
            let some = 1000 * random.below(3) as u64;
            match random.below(12) {
                0 => log.push(time + some, put(thread, sp - 50, PutKind::Put, record + 1, 12, random)),
                1 => log.push(time + some, cause(thread, sp - 50, record, random)),
                2 if !tame && random.below(4) == 0 => {
                    log.push(time + some, put(thread, sp, PutKind::Put, record, 15, random))
                }
                _ => {}
            }
            if random.below(10) > 0 {
                let done = if random.below(9) == 0 && !tame { 12 } else { thread };
                log.push(time + 3000, complete(done, sp - 80, record, random));
            }
            sp -= 200;
            record = 10 + (record + 7) % 30;
        }
        if random.below(15) == 0 {
            let value = Value::Double(random.below(9) as f64);
            log.push(time + 400 * MS, Fact::FieldValue(FieldValue { record, field: 1, value }));
        }
        if random.below(60) == 0 {
            let (source, count, cause) = (LossSource::Hits, 3, "full".into());
            log.push(time, Fact::Loss(Loss { source, count, since: time - 1000, cause }));
        }
        if turn % 7 == 0 {
            log.flush();
        }
    }
    log.close();
}

/// A plant that works for half an hour, and rarely says something: within records, of which some never complete, and beside
/// them.
fn taciturn(random: &mut Random, directory: &Path) {
    let mut log = Log::new(directory);
    for fact in definitions("box1") {
        log.push(0, fact);
    }
    for (id, name) in (10..).zip(["scan-0.1", "scan-1", "cbLow", "errlog"]) {
        log.push(0, Fact::Thread(Thread { id, ioc: 1, tid: id, name: name.into(), stack: 1 << 40 }));
    }
    for id in 10..60 {
        let (name, rtype) = (format!("P:{id}"), "ao".into());
        log.push(0, Fact::from(Record { id, ioc: 1, address: u64::from(id) * 64, name, rtype }));
    }
    let mut time = SECOND;
    let often = [20, 60, 150][random.below(3)];
    for turn in 0..500 {
        time += [20 * MS, SECOND, 3 * SECOND, 10 * SECOND][random.below(4)];
        let (thread, mut record, mut sp) = (10 + random.below(3) as u32, 10 + random.below(40) as u32, -100);
        let depth = 1 + random.below(4);
        let within = if random.below(often) == 0 { random.below(depth + 1) } else { usize::MAX };
        let mut open = Vec::new();
        for level in 0..depth {
            time += 1000;
            log.push(time, process(thread, sp, 11, record));
            open.push((record, sp - 80));
            if level == within {
                say(&mut log, time + 10, (thread, sp - 60), random);
            }
            (record, sp) = (10 + (record + 7) % 40, sp - 200);
        }
        for (record, sp) in open.into_iter().rev() {
            // one that waits may be done a while later
            time += [1000, 1000, 1000, SECOND, 80 * SECOND][random.below(if within < depth { 5 } else { 4 })];
            if random.below(8) > 0 {
                log.push(time, complete(thread, sp, record, random));
            }
        }
        if within == depth {
            say(&mut log, time + 10, (thread, -50), random);
        }
        if turn % 3 == 0 {
            log.flush();
        }
    }
    log.close();
}

/// An IOC says something of some kind.
fn say(log: &mut Log, time: u64, (thread, sp): (u32, i64), random: &mut Random) {
    let text = format!("it is {time}");
    let line = |thread| {
        let (output, text) = ([Output::Error, Output::Pipe][thread as usize % 2], text.clone());
        Fact::from(ConsoleLine { thread, sp, output, text, cut: 0, is_ended: true })
    };
    match random.below(5) {
        0 | 1 => log.push(time, line(thread)),
        2 => {
            let call = ErrlogCall { thread, sp, site: 13, severity: Some(2), format: "it is %d".into() };
            log.push(time, Fact::from(call));
            log.push(time + 5 * MS, line(13)); // by the thread errlog
        }
        3 => {
            log.push(time, Fact::ConsoleLeftOut(ConsoleLeftOut { ioc: 1, lines: 3, writes: 3, since: time }))
        }
        _ => {
            let (how, file, expression) = (GaveUp::EpicsAssert, "a.c".into(), "a > 0".into());
            log.push(time, Fact::from(GivingUp { thread, sp, site: 13, how, file, line: 7, expression }));
        }
    }
}

/// Most of such a log is not read, and what was said is told as if all were, with the records.
#[test]
fn what_a_taciturn_plant_says() {
    let (mut rows, mut passed, mut read) = (0, 0, 0);
    fuzz(15, |random: &mut Random| {
        let directory = tempfile::tempdir().unwrap();
        taciturn(random, directory.path());
        let open = |without_index| {
            let logs = OpenOptions::new().without_index(without_index).open([directory.path()]).unwrap();
            sayings(&logs)
        };
        let (with, without) = (open(false), open(true));
        assert_eq!(with, without);
        rows += with.len();
        let files = find(directory.path()).unwrap();
        let sayings = Sayings::of(&files, Blocks::All).expect("blocks say what they hold");
        for part in Scan::new(&files, Blocks::All).choosing(sayings.choose()) {
            let Part::Block(block) = part else { continue };
            let is_passed = block.passed || !block.left_out.counts.is_empty();
            *(if is_passed { &mut passed } else { &mut read }) += 1;
        }
    });
    println!("{rows} rows, {passed} blocks passed over or read in part, {read} read");
    assert!(std::env::var("FUZZ_SEED").is_ok() || rows > 100 && passed > 300 && read > 300);
}

fn put(thread: u32, sp: i64, kind: PutKind, record: u32, site: u32, random: &mut Random) -> Fact {
    let (requested, old) = (Value::Double(random.below(9) as f64), Value::Double(random.below(9) as f64));
    let (field, dbf, count) = (Some(1), Dbf::Double, 1);
    Fact::from(Put { thread, sp, site, kind, record, field, dbf, count, requested, old })
}

fn process(thread: u32, sp: i64, site: u32, record: u32) -> Fact {
    Fact::Process(Process { thread, sp, site, record, active: false })
}

fn complete(thread: u32, sp: i64, record: u32, random: &mut Random) -> Fact {
    let value = Value::Double(random.below(9) as f64);
    Fact::Complete(Complete { thread, sp, site: 0, record, value, severity: 0, status: 0 })
}

fn cause(thread: u32, sp: i64, record: u32, random: &mut Random) -> Fact {
    use CauseKind::*;
    let kind = [CallbackRequest, CallbackRequestProcess, CallbackRequestDelayed, ScanOnce][random.below(4)];
    let named = !matches!(kind, CallbackRequest | CallbackRequestDelayed);
    let (object, record) = (random.below(3) as u64, named.then_some(record));
    Fact::Cause(Cause { thread, sp, site: 0, kind, object, record })
}

/// The number of blocks that a selection does not read, or only in part.
fn passed_over(files: &[SegmentFile], selection: Selection) -> usize {
    let parts = Scan::new(files, Blocks::All).choosing(selection.choose());
    let is_passed = |part: &Part| match part {
        Part::Block(block) => block.passed || !block.left_out.counts.is_empty(),
        _ => false,
    };
    parts.filter(is_passed).count()
}

/// A log in which a client puts to T:SP, by an alias, which is done a while later in another thread; and to P:60, which is
/// scanned together with P:61. `server`: the thread that carries out its puts. `has_group`: whether a client of PVAccess has a
/// channel to what looks like a field of T:SP, and is none.
fn put_and_scanned(directory: &Path, is_known: bool, server: u32, has_group: bool) {
    let mut log = Log::new(directory);
    definitions("box1").into_iter().for_each(|fact| log.push(0, fact));
    let thread = Thread { id: PVA_SERVER, ioc: 1, tid: 1009, name: "PVXTCP".into(), stack: 1 << 40 };
    log.push(0, Fact::Thread(thread));
    for (id, name) in [(60, "P:60"), (61, "P:61")] {
        let (name, rtype) = (name.into(), "ao".into());
        log.push(0, Fact::from(Record { id, ioc: 1, address: u64::from(id) * 64, name, rtype }));
    }
    if is_known {
        log.push(0, Fact::Alias(Alias { record: 1, name: "T:NICK".into() }));
    }
    let (pv, origin) = ("T:NICK".into(), Origin::Opened);
    let (cid, sid, dbr, count) = (Some(9), Some(9), Some(6), Some(1));
    log.push(0, Fact::from(Channel { id: 9, circuit: 1, cid, sid, pv, dbr, count, origin }));
    if has_group {
        let [client, server] = [41_009, 5075].map(|port| Address::new(Ipv4Addr::new(10, 0, 0, 9), port));
        let (user, host, minor) = ("erin".to_owned(), String::new(), 0);
        let circuit = Circuit { id: 9, client, server, user, host, minor, origin: Origin::Opened };
        log.push(0, Fact::from(circuit));
        let (method, client_ip, server_ip) = (String::new(), Vec::new(), Vec::new());
        let pva = PvaCircuit { circuit: 9, version: 2, method, client_ip, server_ip };
        log.push(0, Fact::from(pva));
        log.push(
            0,
            Fact::CircuitEnds(CircuitEnds { circuit: 9, namespace: 0, server: Some(1), client: None }),
        );
        let (pv, origin, dbr, count) = ("T:SP.GRP".into(), Origin::Opened, None, None);
        log.push(0, Fact::from(Channel { id: 10, circuit: 9, cid, sid, pv, dbr, count, origin }));
    }
    let callback = 4;
    for turn in 0..20 {
        let (time, value) = (u64::from(turn + 1) * 20 * SECOND, f64::from(turn));
        let record = if turn % 2 == 0 { 1 } else { 60 };
        if record == 1 {
            log.push(time, common::ca_put(1, 9, false, turn, value));
        }
        for (after, kind, sp) in [(100, PutKind::PutField, -1000), (110, PutKind::Put, -1200)] {
            let put = common::put(kind, server, sp, 1, (record, 1), value - 1.0, value);
            log.push(time + after * 1000, put);
        }
        log.push(time + 120_000, process(server, -1200, 0, record));
        match record {
            1 => log.push(time + 500 * MS, common::complete(callback, -300, 1, value, 0)),
            _ => log.push(time + 130_000, common::complete(server, -1300, record, value, 0)),
        }
        log.flush();
        for (after, record) in [(5, 60), (10, 61)] {
            log.push(time + after * SECOND, process(SCAN, -100, 2, record));
            log.push(time + after * SECOND + MS, common::complete(SCAN, -200, record, value, 0));
            log.flush();
        }
    }
    log.close();
}

/// A thread that serves PVAccess.
const PVA_SERVER: u32 = 9;

/// Of the puts to T:SP nothing is asked of the scans, as long as the alias is known, and in a thread of Channel Access: by
/// PVAccess, P:60 may be in a group with it, and a group may be called T:SP.GRP. They are told as if everything had been read.
#[test]
fn puts_by_their_pvs() {
    let cases =
        [(false, CLIENT, false), (true, CLIENT, false), (true, PVA_SERVER, false), (true, CLIENT, true)];
    for (is_known, server, has_group) in cases {
        let directory = tempfile::tempdir().unwrap();
        put_and_scanned(directory.path(), is_known, server, has_group);
        let puts = |name: &str, without_index| {
            let logs = OpenOptions::new().without_index(without_index).open([directory.path()]).unwrap();
            let filter = Filter { pv: vec![name.into()], ..Filter::default() };
            let told: Vec<String> = logs.puts(&filter).map(|put| format!("{put:?}")).collect();
            told
        };
        for name in ["T:NICK", "T:SP", "P:60", "P:60.VAL"] {
            let told = puts(name, false);
            assert_eq!(told, puts(name, true), "{name}");
            assert!(told.len() >= 10, "{name}: {told:?}");
        }
        assert!(puts("P:61", false).is_empty());
        let files = find(directory.path()).unwrap();
        let passed = |interest| {
            let selection = Selection::of(&files, Blocks::All, &interest).expect("all threads are known");
            passed_over(&files, selection)
        };
        let to = |name: &str| Interest::PutsTo(vec![name.into()]);
        let of_all = passed(Interest::Puts);
        assert_eq!(passed(to("P:60")), of_all);
        // the blocks with P:61 alone
        let without_scans = |name| passed(to(name)) >= of_all + 20;
        assert_eq!(without_scans("T:SP"), server == CLIENT && !has_group);
        assert_eq!(without_scans("T:NICK"), server == CLIENT && is_known);
    }
}

/// A log in which a client puts to P:60, which is scanned too, and another thread scans P:70 alone.
fn put_and_scanned_apart(directory: &Path) {
    const APART: u32 = 50;
    let mut log = Log::new(directory);
    definitions("box1").into_iter().for_each(|fact| log.push(0, fact));
    let thread = Thread { id: APART, ioc: 1, tid: 1050, name: "scan-1".into(), stack: 1 << 40 };
    log.push(0, Fact::Thread(thread));
    for (id, name) in [(60, "P:60"), (70, "P:70")] {
        let (name, rtype) = (name.into(), "ao".into());
        log.push(0, Fact::from(Record { id, ioc: 1, address: u64::from(id) * 64, name, rtype }));
    }
    for turn in 0..20_u32 {
        let (time, value) = (u64::from(turn + 1) * 20 * SECOND, f64::from(turn));
        for (after, kind, sp) in [(100, PutKind::PutField, -1000), (110, PutKind::Put, -1200)] {
            log.push(time + after * 1000, common::put(kind, CLIENT, sp, 1, (60, 1), value - 1.0, value));
        }
        log.push(time + 120_000, process(CLIENT, -1200, 0, 60));
        log.push(time + 130_000, common::complete(CLIENT, -1300, 60, value, 0));
        log.flush();
        for (after, thread, record) in [(5, SCAN, 60), (10, APART, 70)] {
            log.push(time + after * SECOND, process(thread, -100, 2, record));
            log.push(time + after * SECOND + MS, common::complete(thread, -200, record, value, 0));
            log.flush();
        }
    }
    log.close();
}

/// The chains of a record are those that they are if everything is read, and what has nothing to do with it is not read.
#[test]
fn chains_by_their_pvs() {
    let directory = tempfile::tempdir().unwrap();
    put_and_scanned_apart(directory.path());
    for (name, least) in [("P:60", 40), ("P:70", 20), ("P:80", 0)] {
        let told = |without_index| {
            chains(&OpenOptions::new().without_index(without_index).open([directory.path()]).unwrap(), name)
        };
        let found = told(false);
        assert_eq!(found, told(true), "{name}");
        assert!(found.len() >= least && (least > 0 || found.is_empty()), "{name}: {found:?}");
    }
    let files = find(directory.path()).unwrap();
    let selection = Selection::of(&files, Blocks::All, &Interest::Chains(vec!["P:60".into()]));
    let passed = passed_over(&files, selection.expect("all threads are known"));
    assert!(passed >= 20, "{passed}: the blocks with P:70 alone");
    // a link's put may have set off something in a thread that has nothing to do with the record
    let linked = tempfile::tempdir().unwrap();
    let mut log = Log::new(linked.path());
    definitions("box1").into_iter().for_each(|fact| log.push(0, fact));
    happenings().into_iter().for_each(|(time, fact)| log.push(time, fact));
    log.close();
    let told = |without_index| {
        chains(&OpenOptions::new().without_index(without_index).open([linked.path()]).unwrap(), "T:SP")
    };
    assert_eq!(told(false), told(true));
    assert!(told(false).iter().any(|row| row.contains("R:FAR")), "what its link led to");
}

#[test]
fn plants_at_random() {
    let (mut answered, mut selected, mut passed, mut told, mut parts) = (0, 0, 0, 0, 0);
    fuzz(15, |random: &mut Random| {
        let directory = tempfile::tempdir().unwrap();
        plant(random, directory.path());
        answered += assert_same(directory.path());
        told += reasons(directory.path());
        let files = find(directory.path()).unwrap();
        let one = Interest::Records(vec!["P:12".into()]);
        parts += u32::from(Selection::of(&files, Blocks::All, &one).is_some());
        let Some(selection) = Selection::of(&files, Blocks::All, &Interest::Puts) else { return };
        selected += 1;
        passed += passed_over(&files, selection);
    });
    println!("{answered} answers, {selected} selections, {passed} blocks passed over or read in part, {told} reasons, {parts} selections for a record");
    // Or it is not the index that was tried.
    assert!(
        std::env::var("FUZZ_SEED").is_ok() || answered > 1000 && selected > 5 && passed > 100 && told > 50
    );
}

/// Damages a segment of a sound log, or takes the lists of contents out of it.
fn damage(random: &mut Random, log: &Path) {
    let files = segments(log);
    let file = &files[random.below(files.len())];
    let mut bytes = fs::read(file).unwrap();
    match random.below(3) {
        0 => change(random, &mut bytes),
        1 => bytes.truncate(random.below(bytes.len())),
        _ => bytes = Pieces::of(&bytes).segment(),
    }
    fs::write(file, bytes).unwrap();
}

/// Segments that were damaged, or whose blocks were changed and have right checksums: there flags and lists are as they
/// were, or are missing.
#[test]
fn plants_that_were_damaged() {
    fuzz(15, |random: &mut Random| {
        let directory = tempfile::tempdir().unwrap();
        plant(random, directory.path());
        damage(random, directory.path());
        assert_same(directory.path());
        reasons(directory.path());
    });
}

/// In the environment, it lets every command read everything.
const WITHOUT_INDEX: &str = "IOCREPLAY_WITHOUT_INDEX";
/// Of each log one command in so many is asked, others of the next one: all of them on all would take many minutes.
const EACH: usize = 12;

/// What a command answers: its exit code, what it prints, and the files that it writes.
type Answer = (Option<i32>, String, BTreeMap<PathBuf, Vec<u8>>);

/// Every command that asks something of a log, about the PV `@PV` and the time `@TIME`.
fn commands() -> Vec<Vec<String>> {
    let mut all = every("log", "@PV", "@TIME");
    // these copy a log, or check it
    all.retain(|words| !["redact", "verify"].contains(&words[0].as_str()));
    let of_pvs = [
        "puts",
        "puts --all",
        "undo --since 1990-01-01",
        "traces",
        "alarms",
        "top",
        "graph",
        "profile",
        "clients",
    ];
    for words in of_pvs {
        all.push(words.split(' ').chain(["--pv", "@PV", "log"]).map(str::to_owned).collect());
    }
    all
}

/// An answer without the times since which a damaged part is missing: where hits before it are not read, the time is that of
/// what was read last, which is earlier.
fn since_unread(printed: &str) -> String {
    const SINCE: &str = "missing or damaged since ";
    let mut parts = printed.split(SINCE);
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |all, part| all + SINCE + part.split_once(';').map_or(part, |(_, rest)| rest))
}

/// Asks a log in a directory.
fn asked(here: &Path, words: &[String], without_index: bool) -> Answer {
    let mut command = common::iocreplay(words);
    if without_index {
        command.env(WITHOUT_INDEX, "1");
    }
    let output = command.current_dir(here).output().unwrap();
    let printed = since_unread(&String::from_utf8_lossy(&output.stdout));
    // each report has a number of its own
    let nonce = printed.split("'nonce-").nth(1).and_then(|rest| rest.split('\'').next()).map(str::to_owned);
    let printed = match (words[0].as_str(), nonce) {
        ("why", _) => reason(&printed),
        (_, Some(nonce)) => printed.replace(&nonce, ""),
        _ => printed,
    };
    let mut files = BTreeMap::new();
    let is_export = |option: &String| ["--parquet", "--ndjson", "--csv"].contains(&option.as_str());
    let directory = words.iter().position(is_export).and_then(|option| words.get(option + 1));
    if let Some(directory) = directory.map(Path::new).filter(|directory| directory.exists()) {
        take_files(directory, &mut files);
        fs::remove_dir_all(directory).unwrap();
    }
    (output.status.code(), printed, files)
}

/// An answer of why, without what is about the part of the log that was read. As text and CSV it can't be told from the
/// rest.
fn reason(printed: &str) -> String {
    let Ok(serde_json::Value::Object(mut answer)) = serde_json::from_str(printed) else {
        return String::new();
    };
    for key in ["count", "counted_since", "before_known", "values_unknown"] {
        answer.remove(key);
    }
    serde_json::to_string_pretty(&answer).unwrap()
}

fn take_files(directory: &Path, files: &mut BTreeMap<PathBuf, Vec<u8>>) {
    for path in fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            take_files(&path, files);
        } else {
            let content = fs::read(&path).unwrap();
            files.insert(path, content);
        }
    }
}

/// The name of a record in a log, of one that was put to if there is one.
fn a_record(log: &Path) -> Option<String> {
    let logs = Logs::open([log]).ok()?;
    let all = Filter::default();
    let put = logs.puts(&all).find_map(|put| put.record);
    let found = put.or_else(|| logs.values(&all).next().map(|line| line.record.to_string()));
    found.filter(|name| !name.starts_with('-') && !name.contains('\0'))
}

/// Asks the log in a directory by one command in `each`, with the index and without it. Returns the bytes of the answers.
fn assert_answered_alike(here: &Path, commands: &[Vec<String>], turn: usize, each: usize) -> usize {
    let pv = a_record(&here.join("log")).unwrap_or_else(|| "*".to_owned());
    let time = ["-2s", "2261-01-01", "-5s"][turn % 3];
    let mut bytes = 0;
    for words in commands.iter().skip(turn % each).step_by(each) {
        let word = |word: &String| match word.as_str() {
            "@PV" => pv.clone(),
            "@TIME" => time.to_owned(),
            word => word.to_owned(),
        };
        let words: Vec<String> = words.iter().map(word).collect();
        let (code, printed, files) = asked(here, &words, false);
        let (code_without, printed_without, files_without) = asked(here, &words, true);
        assert_eq!(code, code_without, "{words:?}");
        for (line, without) in printed.lines().zip(printed_without.lines()) {
            assert_eq!(line, without, "{words:?}");
        }
        assert!(printed == printed_without, "{words:?}: one goes on where the other ends");
        assert!(files.keys().eq(files_without.keys()), "{words:?}");
        let differing = files.iter().find(|(name, content)| files_without.get(*name) != Some(*content));
        assert_eq!(differing.map(|(name, _)| name), None, "{words:?}");
        bytes += printed.len() + files.values().map(Vec::len).sum::<usize>();
    }
    bytes
}

/// Puts segments into the log of a directory, which has no others then.
fn copy(segments: &[PathBuf], here: &Path) {
    let log = emptied(here);
    for file in segments {
        fs::copy(file, log.join(file.file_name().unwrap())).unwrap();
    }
}

/// The log of a directory, without segments.
fn emptied(here: &Path) -> PathBuf {
    let log = here.join("log");
    if log.exists() {
        fs::remove_dir_all(&log).unwrap();
    }
    fs::create_dir(&log).unwrap();
    log
}

fn golden() -> Vec<PathBuf> {
    segments(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../log/tests/golden"))
}

#[test]
fn every_command_on_golden_logs() {
    let (here, commands) = (tempfile::tempdir().unwrap(), commands());
    let mut bytes = 0;
    for (turn, file) in golden().into_iter().enumerate() {
        // this one has lists of contents
        let each = if file.ends_with("v1-contents.iocrec") { EACH / 4 } else { EACH };
        copy(&[file], here.path());
        bytes += assert_answered_alike(here.path(), &commands, turn, each);
    }
    assert!(bytes > 100_000, "{bytes}");
}

#[test]
fn every_command_on_logs_that_have_travelled() {
    let (here, commands) = (tempfile::tempdir().unwrap(), commands());
    let mut bytes = 0;
    for (turn, log) in recorded().into_iter().enumerate() {
        copy(&segments(&log), here.path());
        bytes += assert_answered_alike(here.path(), &commands, turn, EACH);
        write_anew(&log, &emptied(here.path()));
        bytes += assert_answered_alike(here.path(), &commands, turn, EACH / 2);
    }
    assert!(bytes > 100_000, "{bytes}");
}

/// Logs of all these kinds, and plants at random, that were damaged.
#[test]
fn every_command_on_logs_that_were_damaged() {
    let (here, commands) = (tempfile::tempdir().unwrap(), commands());
    let (golden, recorded) = (golden(), recorded());
    fuzz(8, |random: &mut Random| {
        match random.below(4) {
            0 => copy(&[golden[random.below(golden.len())].clone()], here.path()),
            1 => copy(&segments(&recorded[random.below(recorded.len())]), here.path()),
            2 => write_anew(&recorded[random.below(recorded.len())], &emptied(here.path())),
            _ => plant(random, &emptied(here.path())),
        }
        damage(random, &here.path().join("log"));
        assert_answered_alike(here.path(), &commands, random.below(100), EACH);
    });
}
