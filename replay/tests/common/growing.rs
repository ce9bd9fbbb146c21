//! A log that grows while it is followed, and what a whole log has of each signal.

use super::collector::fields;
use super::{definitions, happenings, iocreplay, outcome, SCAN, SECOND, WALL};
use iocrec_log::event::*;
use iocrec_log::storage::{Clocked, Directory};
use iocrec_log::writer::{Options, Writer};
use std::cell::Cell;
use std::fs;
use std::path::Path;
use std::process::{Child, Stdio};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// A recorder whose log grows while a test looks.
pub struct Recorder {
    pub writer: Writer<Clocked<Directory>>,
    wall: Rc<Cell<i64>>,
}

impl Recorder {
    pub fn begin(log: &Path) -> Recorder {
        fs::create_dir_all(log).unwrap();
        let wall = Rc::new(Cell::new(WALL));
        let storage = Clocked { storage: Directory::open(log).unwrap(), wall: Rc::clone(&wall) };
        let options = Options { segment: Some(64 << 10), ..Options::default() };
        let mut writer = Writer::open(storage, options, 7).unwrap();
        definitions("box1").into_iter().for_each(|fact| writer.push(Event { time: 1, fact }));
        Recorder { writer, wall }
    }

    /// The same happenings once more, in the four seconds after those of the round before.
    pub fn go_on(&mut self, round: u64) {
        let later = round * 4 * SECOND;
        let mut facts = happenings();
        let text = format!("line {round}");
        let (sp, output) = (-100, Output::Terminal);
        facts.push((
            SECOND + 5,
            Fact::from(ConsoleLine { thread: SCAN, sp, output, text, cut: 0, is_ended: true }),
        ));
        let used = Resources {
            ioc: 1,
            period: 1_000_000,
            cpu: Some(250_000 + round),
            waiting: None,
            minor_faults: 3,
            major_faults: 0,
            resident: Some(2048 + round),
            threads: 11,
            descriptors: None,
            udp_drops: None,
            most: Vec::new(),
        };
        facts.push((4 * SECOND + 5, Fact::from(used)));
        facts
            .push((4 * SECOND + 6, Fact::ChainsLeftOut(ChainsLeftOut { record: 2, count: 5, since: later })));
        facts.sort_by_key(|(time, _)| *time);
        facts.into_iter().for_each(|(time, fact)| self.writer.push(Event { time: time + later, fact }));
        self.tick(later + 5 * SECOND);
    }

    pub fn tick(&mut self, until: u64) {
        self.wall.set(WALL + until as i64);
        self.writer.tick(until);
    }
}

/// `follow`, which does not outlive a test that fails.
pub struct Follower(pub Option<Child>);

impl Drop for Follower {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Follows the log `log` here with these options.
pub fn follow(here: &Path, options: &[&str]) -> Follower {
    let words = [&["follow", "log", "--utc", "--interval", "1"], options].concat();
    let mut command = iocreplay(words);
    let child = command.current_dir(here).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    Follower(Some(child))
}

/// SIGTERM; gives exit code and what was said.
pub fn end(mut follower: Follower) -> (i32, String) {
    let child = follower.0.take().unwrap();
    // SAFETY: kill takes no pointers; the child is not reaped, so the pid is its.
    unsafe { libc::kill(child.id() as libc::pid_t, libc::SIGTERM) };
    let (code, _, err) = outcome(child.wait_with_output().unwrap());
    (code, err)
}

#[track_caller]
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(120), "{what} does not happen");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// What a command finds in the whole log.
pub fn whole(here: &Path, command: &str) -> Vec<u8> {
    let words = [command, "log", "--format", "otlp-proto"];
    let made = iocreplay(words).current_dir(here).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    made.stdout
}

/// What the scopes of a message hold, with their resources.
pub fn lines(message: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut found = Vec::new();
    for (_, of) in fields(message) {
        let of = fields(of);
        let resource = of.iter().find(|(number, _)| *number == 1).unwrap().1;
        let scopes = of.iter().filter(|(number, _)| *number == 2).flat_map(|(_, scope)| fields(scope));
        let own = scopes.filter(|(number, _)| *number == 2);
        found.extend(own.map(|(_, line)| (resource.to_vec(), line.to_vec())));
    }
    found
}

pub fn sorted(mut lines: Vec<(Vec<u8>, Vec<u8>)>) -> Vec<(Vec<u8>, Vec<u8>)> {
    lines.sort();
    lines
}
