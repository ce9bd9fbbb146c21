//! `traces --follow` of a log that grows: each chain comes once and whole, also when the recorder dies and another one
//! goes on.

mod common;

use common::{
    complete, definitions, happenings, iocreplay, process, put, run, segments, CLIENT, MS, SCAN, SECOND, WALL,
};
use iocrec_log::event::*;
use iocrec_log::storage::{Clocked, Directory};
use iocrec_log::writer::{Options, Writer};
use iocreplay::follow::deleted::Deleted;
use iocreplay::follow::{follow_until, Memory, Pace, Step, Timed};
use iocreplay::{Filter, Logs, OpenOptions, PutLine};
use std::cell::{Cell, RefCell};
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Stdio};
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const SP: u32 = 1;
const CALC: u32 = 2;
const SLOW: u32 = 3;

/// A recorder that writes at once.
struct Recorder {
    writer: Writer<Clocked<Directory>>,
    wall: Rc<Cell<i64>>,
}

impl Recorder {
    fn begin(directory: &Path, run: u128, now: u64) -> Recorder {
        Recorder::begin_on(directory, "box1", run, now, 0)
    }

    /// On a host of this name, whose clock is ahead by this.
    fn begin_on(directory: &Path, host: &str, run: u128, now: u64, ahead: i64) -> Recorder {
        std::fs::create_dir_all(directory).unwrap();
        let wall = Rc::new(Cell::new(WALL + now as i64 + ahead));
        let storage = Clocked { storage: Directory::open(directory).unwrap(), wall: Rc::clone(&wall) };
        let options = Options { segment: Some(64 << 10), ..Options::default() };
        let mut writer = Writer::open(storage, options, run).unwrap();
        for fact in definitions(host) {
            let fact = if let Fact::Clock(_) = fact { Fact::Clock(Clock { wall: wall.get() }) } else { fact };
            writer.push(Event { time: now, fact });
        }
        Recorder { writer, wall }
    }

    /// Writes what happens until then.
    fn write(&mut self, events: Vec<(u64, Fact)>, until: u64) {
        self.write_ahead(events, until, 0);
    }

    /// The same while the clock is ahead by this.
    fn write_ahead(&mut self, events: Vec<(u64, Fact)>, until: u64, ahead: i64) {
        for (time, fact) in events {
            self.writer.push(Event { time, fact });
        }
        self.writer.push(Event { time: until, fact: Fact::Mark("tick".into()) });
        self.wall.set(WALL + until as i64 + ahead);
        self.writer.tick(until + 2 * SECOND);
    }

    /// It is killed while it writes a block.
    fn die(self, directory: &Path) {
        drop(self.writer); // it is not closed
        let last = segments(directory).pop().unwrap();
        let bytes = std::fs::read(&last).unwrap();
        let mut file = std::fs::File::options().append(true).open(&last).unwrap();
        // the beginning of the segment's last block, once more
        let magic = bytes.windows(4).rposition(|bytes| bytes == iocrec_log::format::BLOCK_MAGIC).unwrap();
        file.write_all(&bytes[magic..magic + 30]).unwrap();
    }
}

/// `traces --follow`, and what it has printed so far.
struct Follower {
    child: Child,
    text: Arc<Mutex<String>>,
}

impl Follower {
    fn of(directory: &Path) -> Follower {
        Follower::asking(directory, &["traces"])
    }

    /// Of another question.
    fn asking(directory: &Path, question: &[&str]) -> Follower {
        let words = [question, &["log", "--utc", "--follow"]].concat();
        let mut child = iocreplay(words).current_dir(directory).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let text = Arc::new(Mutex::new(String::new()));
        let printed = Arc::clone(&text);
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                *printed.lock().unwrap() += &(line + "\n");
            }
        });
        Follower { child, text }
    }

    /// The chains printed so far, sorted.
    fn chains(&self) -> Vec<String> {
        chains(&self.text.lock().unwrap())
    }

    /// Waits until it has printed this.
    #[track_caller]
    fn waits_for(&self, what: &str) {
        let begun = Instant::now();
        while !self.text.lock().unwrap().contains(what) {
            assert!(
                begun.elapsed() < Duration::from_secs(120),
                "no {what} in\n{}",
                self.text.lock().unwrap()
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The chains of a text, sorted: a line that is not indented begins one.
fn chains(text: &str) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for line in text.lines() {
        match all.last_mut().filter(|_| line.starts_with(' ')) {
            Some(last) => *last += &format!("\n{line}"),
            None => all.push(line.to_owned()),
        }
    }
    all.sort();
    all
}

/// What `traces` shows of the same log.
fn whole(directory: &Path) -> Vec<String> {
    let (code, out, err) = run(directory, &["traces", "log", "--utc"]);
    assert!(code == 1 && err.contains("is cut: ") && err.lines().count() == 1, "{code}: {err}");
    chains(&out)
}

fn scanned(time: u64, record: u32, v: f64) -> [(u64, Fact); 2] {
    [(time, process(SCAN, -100, 2, record)), (time + 1000, complete(SCAN, -200, record, v, 0))]
}

#[test]
fn each_chain_comes_once_and_whole() {
    let directory = tempfile::tempdir().unwrap();
    let (here, log) = (directory.path(), directory.path().join("log"));
    let mut recorder = Recorder::begin(&log, 7, 0);
    recorder.write(happenings(), 5 * SECOND);
    let follower = Follower::of(here);
    follower.waits_for("T:SLOW");
    // A scan, whose forward link begins to process, and completes 40 s later; meanwhile there are others.
    let begun = scanned(10 * SECOND, CALC, 1.5);
    let asynchronous = [
        begun[0].clone(),
        (10 * SECOND + 500, process(SCAN, -300, 0, SLOW)),
        begun[1].clone(),
        (10 * SECOND + 2000, process(SCAN, -100, 2, SP)),
        (10 * SECOND + 3000, complete(SCAN, -200, SP, 3.25, 0)),
    ];
    recorder.write(asynchronous.to_vec(), 12 * SECOND);
    for n in 0..6 {
        recorder.write(scanned((20 + 5 * n) * SECOND, SP, 100.0 + n as f64).to_vec(), (22 + 5 * n) * SECOND);
        // so that it looks at each part
        follower.waits_for(&format!("= {}", if n == 0 { 3.25 } else { 99.0 + n as f64 }));
    }
    assert!(!follower.chains().iter().any(|chain| chain.contains("= 1.5")), "it is not over");
    recorder.write(vec![(50 * SECOND, complete(4, -300, SLOW, 4.5, 0))], 52 * SECOND);
    recorder.write(scanned(53 * SECOND, SP, 200.0).to_vec(), 58 * SECOND);
    follower.waits_for("= 4.5");
    // A chain that nobody sees the end of; then the recorder is killed.
    recorder.write(vec![(60 * SECOND, process(CLIENT, -1200, 0, SLOW))], 61 * SECOND);
    recorder.die(&log);
    follower.waits_for("= 200");
    let mut recorder = Recorder::begin(&log, 8, 70 * SECOND);
    recorder.write(scanned(71 * SECOND, CALC, 300.0).to_vec(), 72 * SECOND);
    follower.waits_for("= 300");
    recorder.write(scanned(150 * SECOND, CALC, 301.0).to_vec(), 151 * SECOND);
    follower.waits_for("= 301");
    recorder.write(scanned(152 * SECOND + MS, CALC, 302.0).to_vec(), 160 * SECOND);
    recorder.writer.close(161 * SECOND);
    follower.waits_for("= 302");
    follower.waits_for("(not seen to end)");
    // long enough that anything printed twice would have come
    std::thread::sleep(iocreplay::follow::SETTLED + Duration::from_secs(2));
    assert_eq!(follower.chains(), whole(here));
}

/// Text that does not compress, so that segments fill.
fn noise(seed: u64) -> Fact {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let letter = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        char::from(b'!' + (state % 90) as u8)
    };
    Fact::Mark((0..30_000).map(letter).collect())
}

/// What stays of a line: a follower can't know yet how long an alarm lasts.
fn kept(line: &str) -> Option<String> {
    let mut line: serde_json::Value = serde_json::from_str(line).unwrap();
    if ["still", "flapping"].iter().any(|what| line["what"] == *what) {
        return None; // summaries of the whole
    }
    let keys = line.as_object_mut().unwrap();
    ["lasted_s", "until", "gap", "unseen"].iter().for_each(|key| _ = keys.remove(*key));
    Some(line.to_string())
}

/// Segments are begun and deleted, the recorder is killed and another one goes on: each command that follows prints
/// each line once and in order, and those that it prints afterwards without following.
#[test]
fn every_question_is_followed_over_segments_and_recorders() {
    const QUESTIONS: [&[&str]; 3] = [
        &["puts", "--all", "--format", "jsonl"],
        &["values", "*", "--format", "jsonl"],
        &["alarms", "--all", "--format", "jsonl"],
    ];
    let directory = tempfile::tempdir().unwrap();
    let (here, log) = (directory.path(), directory.path().join("log"));
    let whole = |question: &[&str]| -> Vec<String> {
        let (_, out, _) = run(here, &[question, &["log", "--utc"]].concat());
        out.lines().filter_map(kept).collect()
    };
    let mut recorder = Recorder::begin(&log, 7, 0);
    recorder.write(happenings(), 5 * SECOND);
    let followers: Vec<Follower> =
        QUESTIONS.iter().map(|question| Follower::asking(here, question)).collect();
    let mut expected: Vec<Vec<String>> = vec![Vec::new(); QUESTIONS.len()];
    for n in 0..9_u64 {
        // so that a later pass begins between what was seen of one put and of the next
        let t = (10 + 60 * n) * SECOND;
        if n == 4 {
            recorder.die(&log);
            recorder = Recorder::begin(&log, 8, t - SECOND);
        }
        let value = 1000.0 + n as f64;
        let mut facts = vec![(t, noise(n)), (t + 1, noise(n + 100))];
        facts.push((t + MS, put(PutKind::PutField, CLIENT, -1000, 1, (1, 1), value - 1.0, value)));
        facts.push((t + MS + 10, put(PutKind::Put, CLIENT, -1200, 0, (1, 1), value - 1.0, value)));
        facts.push((t + MS + 20, process(CLIENT, -1200, 0, SP)));
        // its alarm lasts over two puts, and is seen again meanwhile
        let severity = (n / 2 % 2) as u16;
        facts.push((t + MS + 30, complete(CLIENT, -1300, SP, value, severity)));
        for later in 1..5 {
            let at = t + later * 2 * SECOND;
            facts.push((at, process(SCAN, -100, 2, SP)));
            facts.push((at + 1000, complete(SCAN, -200, SP, value, severity)));
        }
        facts.extend(scanned(t + 9 * SECOND, CALC, value + 0.5));
        recorder.write(facts, t + 15 * SECOND);
        followers[0].waits_for(&format!("\"new\":{value:.1}"));
        followers[1].waits_for(&format!("\"value\":{:.1}", value + 0.5));
        if n == 2 || n == 6 {
            // the followers have read all of it
            std::thread::sleep(iocreplay::follow::SETTLED + Duration::from_secs(1));
            for (lines, question) in expected.iter_mut().zip(QUESTIONS) {
                *lines = merged(lines, whole(question));
            }
            let oldest = segments(&log).first().unwrap().clone();
            std::fs::remove_file(oldest).unwrap();
        }
    }
    assert!(segments(&log).len() > 2, "{:?}", segments(&log));
    recorder.writer.close(600 * SECOND);
    std::thread::sleep(iocreplay::follow::SETTLED + Duration::from_secs(2));
    for ((follower, question), lines) in followers.iter().zip(QUESTIONS).zip(expected) {
        let lines = merged(&lines, whole(question));
        let found: Vec<String> = follower.text.lock().unwrap().lines().filter_map(kept).collect();
        assert!(found.len() > 5, "{question:?}: {found:?}");
        let lacking: Vec<_> = lines.iter().filter(|line| !found.contains(line)).collect();
        let invented: Vec<_> = found.iter().filter(|line| !lines.contains(line)).collect();
        assert!(lacking.is_empty() && invented.is_empty(), "{question:?}:\n{lacking:#?}\n{invented:#?}");
        assert_eq!(found, lines, "{question:?}");
    }
}

/// Lines, and those of a log that has grown since, and lost its beginning: what came before is known.
fn merged(lines: &[String], more: Vec<String>) -> Vec<String> {
    let time = |line: &String| serde_json::from_str::<serde_json::Value>(line).unwrap()["time"].to_string();
    let last = lines.last().map(time);
    let new = more.into_iter().filter(|line| last.as_ref().is_none_or(|last| time(line) > *last));
    lines.iter().cloned().chain(new).collect()
}

/// The log of another host comes 100 s late, and its clock is set back meanwhile.
#[test]
fn a_host_that_comes_late_and_one_whose_clock_is_set_back() {
    let directory = tempfile::tempdir().unwrap();
    let (here, log) = (directory.path(), directory.path().join("log"));
    std::fs::create_dir_all(&log).unwrap();
    let mut fast = Recorder::begin_on(&log.join("box1"), "box1", 7, 300 * SECOND, 0);
    let mut late = Recorder::begin_on(&log.join("box2"), "box2", 8, 100 * SECOND, 0);
    fast.write(scanned(301 * SECOND, CALC, 1.5).to_vec(), 302 * SECOND);
    late.write(scanned(101 * SECOND, CALC, 2.5).to_vec(), 102 * SECOND);
    let follower = Follower::of(here);
    follower.waits_for("= 1.5");
    follower.waits_for("= 2.5");
    for n in 0..4_u64 {
        fast.write(scanned((310 + 40 * n) * SECOND, CALC, 10.5 + n as f64).to_vec(), (330 + 40 * n) * SECOND);
        follower.waits_for(&format!("= {}", 10.5 + n as f64));
        late.write(scanned((110 + 40 * n) * SECOND, CALC, 20.5 + n as f64).to_vec(), (130 + 40 * n) * SECOND);
        follower.waits_for(&format!("= {}", 20.5 + n as f64));
    }
    // by an hour
    let back = 3600 * SECOND as i64;
    let t = 460 * SECOND;
    fast.wall.set(WALL + t as i64 - back);
    let mut facts = vec![(t, Fact::Clock(Clock { wall: WALL + t as i64 - back }))];
    facts.extend(scanned(461 * SECOND, CALC, 30.5));
    fast.write_ahead(facts, 470 * SECOND, -back);
    follower.waits_for("= 30.5");
    fast.write_ahead(scanned(475 * SECOND, CALC, 31.5).to_vec(), 480 * SECOND, -back);
    follower.waits_for("= 31.5");
    fast.writer.close(481 * SECOND);
    late.writer.close(291 * SECOND);
    std::thread::sleep(iocreplay::follow::SETTLED + Duration::from_secs(2));
    let chains = follower.chains();
    let mut once = chains.clone();
    once.dedup();
    assert_eq!((chains.len(), &once), (12, &chains), "each comes once");
}

/// A log of several segments, with six puts in more time than is read again.
fn write_minutes(log: &Path) {
    let mut recorder = Recorder::begin(log, 7, 0);
    for n in 0..6_u64 {
        let (t, v) = ((1 + 60 * n) * SECOND, n as f64);
        let facts = vec![
            (t, noise(n)),
            (t + 1, noise(n + 100)),
            (t + MS, put(PutKind::PutField, CLIENT, -1000, 1, (1, 1), v, v + 1.0)),
            (t + MS + 10, put(PutKind::Put, CLIENT, -1200, 0, (1, 1), v, v + 1.0)),
            (t + MS + 20, process(CLIENT, -1200, 0, SP)),
            (t + MS + 30, complete(CLIENT, -1300, SP, v + 1.0, 0)),
        ];
        recorder.write(facts, t + 15 * SECOND);
    }
    recorder.writer.close(320 * SECOND);
}

/// Segments that vanish after the log was opened and before it is read: what was returned long ago does not come again.
#[test]
fn what_vanishes_while_the_log_is_read_begins_nothing_anew() {
    for first_alone in [true, false] {
        let directory = tempfile::tempdir().unwrap();
        let (log, away) = (directory.path().join("log"), directory.path().join("away"));
        std::fs::create_dir(&away).unwrap();
        write_minutes(&log);
        let mut vanishing = segments(&log);
        assert!(vanishing.len() > 2, "{vanishing:?}");
        if first_alone {
            vanishing.truncate(1);
        }
        let move_all = |from: &Path, to: &Path| {
            for segment in &vanishing {
                let name = segment.file_name().unwrap();
                std::fs::rename(from.join(name), to.join(name)).unwrap();
            }
        };
        let logs = OpenOptions::new().open([&log]).unwrap();
        let expected: Vec<i64> = logs.puts(&Filter::default()).map(|put| put.time()).collect();
        assert_eq!(expected.len(), 6);
        let (passes, came) = (Cell::new(0), RefCell::new(Vec::new()));
        let pace = || Ok(if passes.get() < 2 { Pace::Go } else { Pace::Finish { whole: true } });
        let open = || {
            passes.set(passes.get() + 1);
            // they are missing in the second pass
            if passes.get() == 3 && !first_alone {
                move_all(&away, &log);
            }
            let logs = OpenOptions::new().open([&log]).ok();
            if passes.get() == 2 {
                move_all(&log, &away);
            }
            Ok(logs)
        };
        let rows = |logs: &Logs, filter: &Filter, each: &mut dyn FnMut(PutLine) -> io::Result<()>| {
            logs.puts(filter).try_for_each(each)
        };
        let write = |step: Step<PutLine>| {
            if let Step::Row(put, _) = step {
                came.borrow_mut().push(put.time());
            }
            Ok(())
        };
        let paths = std::slice::from_ref(&log);
        let followed: io::Result<()> =
            follow_until(paths, Filter::default(), Memory::default(), pace, open, rows, write);
        followed.unwrap();
        assert_eq!(passes.get(), 3);
        assert_eq!(*came.borrow(), expected, "first alone: {first_alone}");
    }
}

/// Once the log has passed the end of the time that is asked for, nothing more can come.
#[test]
fn it_ends_once_the_log_has_passed_the_time() {
    let directory = tempfile::tempdir().unwrap();
    let (here, log) = (directory.path(), directory.path().join("log"));
    let mut recorder = Recorder::begin(&log, 7, 0);
    recorder.write(happenings(), 5 * SECOND);
    let until = ["--until", "2026-09-21T14:13:22.050Z"];
    let mut follower = Follower::asking(here, &["puts", until[0], until[1]]);
    follower.waits_for("T:SP");
    recorder.write(Vec::new(), 40 * SECOND);
    std::thread::sleep(Duration::from_secs(5));
    assert!(follower.child.try_wait().unwrap().is_none(), "what began before that time may go on");
    recorder.write(Vec::new(), 100 * SECOND);
    let begun = Instant::now();
    let ended = loop {
        match follower.child.try_wait().unwrap() {
            Some(ended) => break ended,
            None => assert!(begun.elapsed() < Duration::from_secs(120), "it goes on"),
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    assert!(ended.success(), "{ended}");
    let (code, all, err) = run(here, &["puts", "log", "--utc", until[0], until[1]]);
    assert!(code == 0 && all.lines().count() > 1, "{err}");
    // its reader may have some lines yet to take
    follower.waits_for(&all);
    assert_eq!(*follower.text.lock().unwrap(), all);
}

/// Of every sort, in a log that grows: what `logs` shows of the same log, once.
#[test]
fn what_happens_comes_once() {
    let directory = tempfile::tempdir().unwrap();
    let (here, log) = (directory.path(), directory.path().join("log"));
    let mut recorder = Recorder::begin(&log, 7, 0);
    recorder.write(happenings(), 5 * SECOND);
    let follower = Follower::asking(here, &["logs"]);
    follower.waits_for("beam lost");
    let (text, output) = ("a line".to_owned(), Output::Terminal);
    let line = ConsoleLine { thread: SCAN, sp: -100, output, text, cut: 0, is_ended: true };
    let mut facts = vec![(10 * SECOND, Fact::from(line))];
    facts.push((11 * SECOND, process(SCAN, -100, 2, CALC)));
    facts.push((11 * SECOND + 1000, complete(SCAN, -200, CALC, 30.0, 2)));
    recorder.write(facts, 15 * SECOND);
    follower.waits_for("a line");
    let end = Fact::IocEnd(IocEnd { ioc: 2, how: "killed by SIGKILL".into() });
    recorder.write(vec![(20 * SECOND, end)], 21 * SECOND);
    recorder.writer.close(30 * SECOND);
    follower.waits_for("killed by SIGKILL");
    // long enough that anything printed twice would have come
    std::thread::sleep(iocreplay::follow::SETTLED + Duration::from_secs(2));
    let (code, out, err) = run(here, &["logs", "log", "--utc"]);
    assert_eq!(code, 0, "{err}");
    let sorted = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let all = sorted(&out);
    let begun = Instant::now();
    while follower.text.lock().unwrap().lines().count() < all.len() && begun.elapsed().as_secs() < 120 {
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(sorted(&follower.text.lock().unwrap()), all);
    for sort in ["put", "alarm", "console", "mark", "end", "loss"] {
        assert!(all.iter().any(|line| line.split("  ").nth(1) == Some(sort)), "{sort}: {all:#?}");
    }
    // chosen and in another format
    let follower = Follower::asking(here, &["logs", "--kind", "ends", "--format", "csv"]);
    follower.waits_for("killed by SIGKILL");
    let printed = follower.text.lock().unwrap().clone();
    assert_eq!(printed.lines().count(), 2, "{printed}");
}

/// From when a second IOC of its name runs, an IOC is shown with its process id, also with what it printed before.
#[test]
fn a_line_comes_once_though_another_ioc_of_the_name_begins() {
    let directory = tempfile::tempdir().unwrap();
    let (here, log) = (directory.path(), directory.path().join("log"));
    let line = |time: u64, text: &str| {
        let (text, output) = (text.to_owned(), Output::Terminal);
        (time, Fact::from(ConsoleLine { thread: SCAN, sp: -100, output, text, cut: 0, is_ended: true }))
    };
    let mut recorder = Recorder::begin(&log, 7, 0);
    recorder.write(vec![line(10 * SECOND, "first line")], 20 * SECOND);
    let follower = Follower::asking(here, &["console"]);
    follower.waits_for("first line");
    let known = definitions("box1").into_iter().find_map(|fact| match fact {
        Fact::Ioc(ioc) => Some(ioc),
        _ => None,
    });
    let mut other = known.unwrap();
    (other.id, other.pid, other.start) = (3, 300, 21_000_000_000);
    recorder.write(vec![(21 * SECOND, Fact::Ioc(other)), line(22 * SECOND, "second line")], 30 * SECOND);
    follower.waits_for("second line");
    // long enough that anything printed twice would have come
    std::thread::sleep(iocreplay::follow::SETTLED + Duration::from_secs(2));
    let text = follower.text.lock().unwrap();
    assert!(text.contains("demo pid 100"), "{text}");
    assert_eq!(text.matches("first line").count(), 1, "{text}");
}

/// Samples for the Data Browser are of the PV that has the first number, also when its IOC is started anew, and when then
/// another one of its name begins beside it.
#[test]
fn samples_go_on_with_the_pv_that_they_began_with() {
    let directory = tempfile::tempdir().unwrap();
    let (here, log) = (directory.path(), directory.path().join("log"));
    // another process called demo, with a T:SP of its own
    let begins = |id: u32, at: u64| {
        let known = definitions("box1").into_iter().find_map(|fact| match fact {
            Fact::Ioc(ioc) => Some(ioc),
            _ => None,
        });
        let ioc = Ioc { id, pid: 100 * id, start: at, ..*known.unwrap() };
        let (own, name) = (10 * id, "scan-0.1".to_owned());
        let thread = Thread { id: own, ioc: id, tid: own, name, stack: 1 << 40 };
        let record = Record { id: own, ioc: id, address: 1, name: "T:SP".into(), rtype: "ao".into() };
        [(at, Fact::from(ioc)), (at, Fact::Thread(thread)), (at, Fact::from(record))]
    };
    let scanned_in = |id: u32, at: u64, v: f64| {
        let own = 10 * id;
        [(at, process(own, -100, 0, own)), (at + 1000, complete(own, -200, own, v, 0))]
    };
    let mut recorder = Recorder::begin(&log, 7, 0);
    let first = [scanned(10 * SECOND, CALC, f64::NAN), scanned(11 * SECOND, SP, 1.5)].concat();
    recorder.write(first, 20 * SECOND);
    let follower = Follower::asking(here, &["values", "T:*", "--format", "databrowser"]);
    follower.waits_for(" 15E-1 ");
    let ended = IocEnd { ioc: 1, how: "exit status 0".into() };
    let mut anew = vec![(21 * SECOND, Fact::IocEnd(ended))];
    anew.extend(begins(3, 22 * SECOND));
    anew.extend(scanned_in(3, 23 * SECOND, 2.5));
    recorder.write(anew, 30 * SECOND);
    follower.waits_for(" 25E-1 ");
    let mut beside = begins(4, 31 * SECOND).to_vec();
    beside.extend(scanned_in(4, 32 * SECOND, 7.5));
    beside.extend(scanned_in(3, 33 * SECOND, 3.5));
    recorder.write(beside, 40 * SECOND);
    follower.waits_for(" 35E-1 ");
    let text = follower.text.lock().unwrap();
    assert!(text.starts_with("# T:SP\n") && !text.contains(" 75E-1 "), "{text}");
    assert_eq!(text.lines().count(), 4, "{text}");
}

/// What a recorder deletes while nobody follows is said by the next run with the same state, though an older segment is
/// pinned, and though another recorder has begun.
#[test]
fn what_was_deleted_between_two_runs_is_a_gap() {
    let directory = tempfile::tempdir().unwrap();
    let (here, log) = (directory.path(), directory.path().join("log"));
    let follow = || run(here, &["follow", "log", "--once", "--state", "state"]);
    let write = |recorder: &mut Recorder, rounds: std::ops::Range<u64>| {
        for n in rounds {
            let t = (10 + 10 * n) * SECOND;
            let mark = Fact::Mark(format!("round {n}"));
            recorder.write(vec![(t, noise(n)), (t + 1, noise(n + 100)), (t + 2, mark)], t + 5 * SECOND);
        }
    };
    let said =
        |gone: usize| format!("a gap: {gone} segments of the recorder of box1 gone before they were read\n");
    let mut recorder = Recorder::begin(&log, 7, 0);
    write(&mut recorder, 0..3);
    let (_, out, err) = follow();
    assert!(out.contains("round 2") && !err.contains("a gap"), "{err}");
    let before = segments(&log);
    let pinned = before[0].to_str().unwrap().replace(".iocrec", "-mark.iocrec");
    std::fs::rename(&before[0], pinned).unwrap();
    write(&mut recorder, 3..12);
    let delete = |segments: &[std::path::PathBuf]| {
        assert!(segments.len() >= 2, "{segments:?}");
        segments.iter().for_each(|segment| std::fs::remove_file(segment).unwrap());
        segments.len()
    };
    let all = segments(&log);
    let gone = delete(&all[before.len()..all.len() - 1]);
    let (_, out, err) = follow();
    assert!(out.contains("round 11") && err.contains(&said(gone)), "{gone}: {err}");
    let (_, _, err) = follow();
    assert!(!err.contains("a gap"), "it is said once: {err}");
    // all of the run is gone, and the beginning of the next one
    recorder.writer.close(200 * SECOND);
    drop(recorder);
    let old = segments(&log);
    let mut recorder = Recorder::begin(&log, 8, 205 * SECOND);
    write(&mut recorder, 20..29);
    let new = segments(&log).split_off(old.len());
    delete(&old);
    let gone = delete(&new[..new.len() - 2]);
    let (_, out, err) = follow();
    assert!(out.contains("round 28") && err.contains(&said(gone)), "{gone}: {err}");
    let anew = "a gap: the recorder of box1 has begun anew, and nothing is left of its run before";
    assert!(err.contains(anew), "{err}");
    let (_, _, err) = follow();
    assert!(!err.contains("a gap"), "it is said once: {err}");
}

/// A segment that was read, and that got more before it was deleted, is told as gone.
#[test]
fn what_came_into_a_segment_after_it_was_read_is_a_gap() {
    let directory = tempfile::tempdir().unwrap();
    let (here, log) = (directory.path(), directory.path().join("log"));
    let follow = || run(here, &["follow", "log", "--once", "--state", "state"]);
    let mark = |text: &str| Fact::Mark(text.to_owned());
    let mut recorder = Recorder::begin(&log, 7, 0);
    recorder.write(vec![(10 * SECOND, mark("this was read"))], 15 * SECOND);
    let (_, out, err) = follow();
    assert!(out.contains("this was read") && !err.contains("a gap"), "{err}");
    let first = segments(&log).pop().unwrap();
    let before = std::fs::metadata(&first).unwrap().len();
    recorder.write(vec![(20 * SECOND, mark("this was not"))], 25 * SECOND);
    assert!(std::fs::metadata(&first).unwrap().len() > before, "it went into the same segment");
    for n in 0..4 {
        let t = (30 + 10 * n) * SECOND;
        recorder.write(vec![(t, noise(n)), (t + 1, noise(n + 100))], t + 5 * SECOND);
    }
    assert!(segments(&log).len() >= 3);
    std::fs::remove_file(&first).unwrap();
    let (_, out, err) = follow();
    assert!(!out.contains("this was not"), "{out}");
    let said = "a gap: 1 segment of the recorder of box1 gone before they were read\n";
    assert!(err.contains(said), "{err}");
    let (_, _, err) = follow();
    assert!(!err.contains("a gap"), "it is said once: {err}");
}

/// What settles only after the segment of which it is was deleted is missing: that is said, also by `--follow`.
#[test]
fn what_had_not_settled_before_it_was_deleted_is_a_gap() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    let mut recorder = Recorder::begin(&log, 7, 0);
    for n in 0..4 {
        let t = 10 * SECOND + n * SECOND / 2;
        recorder.write(vec![(t, noise(n)), (t + 1, noise(n + 100))], t + SECOND / 4);
    }
    let all = segments(&log);
    assert!(all.len() >= 3, "{all:?}");
    let open = || OpenOptions::new().open([&log]).unwrap();
    let mut whole = Deleted::default();
    let mut settling = Deleted::default();
    assert!(whole.look(&open(), "read", true).is_empty() && settling.look(&open(), "read", false).is_empty());
    all[..all.len() - 1].iter().for_each(|segment| std::fs::remove_file(segment).unwrap());
    assert_eq!(whole.look(&open(), "read", true), [""; 0], "all of them was read");
    let said =
        format!("a gap: {} segments of the recorder of box1 gone before they were read", all.len() - 1);
    assert_eq!(settling.look(&open(), "read", false), [said]);
}

/// What is deleted of a run that ended long ago was read, though its last segment is pinned and stays.
#[test]
fn what_was_read_of_a_run_that_has_ended_is_no_gap() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    let mut recorder = Recorder::begin(&log, 7, 0);
    for n in 0..4 {
        let t = 10 * SECOND + n * SECOND / 2;
        recorder.write(vec![(t, noise(n)), (t + 1, noise(n + 100))], t + SECOND / 4);
    }
    recorder.writer.close(20 * SECOND);
    drop(recorder);
    let mut old = segments(&log);
    assert!(old.len() >= 3, "{old:?}");
    old.pop();
    Recorder::begin(&log, 8, 60 * SECOND).write(vec![], 65 * SECOND);
    let open = || OpenOptions::new().open([&log]).unwrap();
    let mut deleted = Deleted::default();
    assert_eq!(deleted.look(&open(), "read", false), [""; 0]);
    old.iter().for_each(|segment| std::fs::remove_file(segment).unwrap());
    assert_eq!(deleted.look(&open(), "read", false), [""; 0]);
}

/// A run's segments are away for a moment, as while a directory is moved: what was read of it before is no gap.
#[test]
fn what_was_read_of_a_run_that_was_away_is_no_gap() {
    let directory = tempfile::tempdir().unwrap();
    let (log, away) = (directory.path().join("log"), directory.path().join("away.iocrec"));
    let mut recorder = Recorder::begin(&log, 7, 0);
    for n in 0..4 {
        let t = 10 * SECOND + n * SECOND / 2;
        recorder.write(vec![(t, noise(n)), (t + 1, noise(n + 100))], t + SECOND / 4);
    }
    recorder.writer.close(20 * SECOND);
    drop(recorder);
    let mut old = segments(&log);
    let last = old.pop().unwrap();
    assert!(old.len() >= 2, "{old:?}");
    Recorder::begin(&log, 8, 60 * SECOND).write(vec![], 65 * SECOND);
    let open = || OpenOptions::new().open([&log]).unwrap();
    let mut deleted = Deleted::default();
    assert_eq!(deleted.look(&open(), "read", false), [""; 0]);
    old.iter().for_each(|segment| std::fs::remove_file(segment).unwrap());
    std::fs::rename(&last, &away).unwrap();
    assert_eq!(deleted.look(&open(), "read", false), [""; 0]);
    std::fs::rename(&away, &last).unwrap();
    assert_eq!(deleted.look(&open(), "read", false), [""; 0]);
}

/// A recorder pins segments by renaming them, at any time.
#[test]
fn segments_that_are_pinned_while_the_log_is_read_are_read() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    write_minutes(&log);
    let ends = [".iocrec", "-mark.iocrec", "-auto.iocrec", ".iocrec"];
    for (before, now) in ends.iter().zip(&ends[1..]) {
        let logs = OpenOptions::new().open([&log]).unwrap();
        for segment in segments(&log) {
            let name = segment.file_name().unwrap().to_str().unwrap().replace(before, now);
            std::fs::rename(&segment, segment.with_file_name(name)).unwrap();
        }
        assert_eq!(logs.puts(&Filter::default()).count(), 6, "{before} {now}");
        assert!(logs.is_complete(), "{before} {now}");
    }
}

/// Nothing happens any more, so nothing is written that would tell that nobody reads it.
#[test]
fn a_reader_who_goes_ends_it() {
    let directory = tempfile::tempdir().unwrap();
    common::write_log(&directory.path().join("log"), "box1", 7);
    for words in [&["puts", "log", "--follow"][..], &["follow", "log"]] {
        let mut command = iocreplay(words);
        let command = command.current_dir(directory.path()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let begun = Instant::now();
        while child.try_wait().unwrap().is_none() {
            if begun.elapsed() > Duration::from_secs(60) {
                let _ = child.kill();
                panic!("{words:?} goes on after {line}");
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        let done = child.wait_with_output().unwrap();
        assert_eq!(
            (done.status.code(), String::from_utf8_lossy(&done.stderr).as_ref()),
            (Some(0), ""),
            "{words:?}"
        );
    }
}
