//! Directories that are deleted, moved, replaced and made again while they are written to, and segments that are: every
//! event is in some log or is counted as lost, and the log says how many those are.
#![cfg(unix)]

mod common;

use common::disk::{Disk, Faults};
use common::{noise_mark, read_all, split_losses, SECOND};
use iocrec_log::event::{Event, Fact};
use iocrec_log::reader::{find, Segment};
use iocrec_log::storage::{Astray, Directory, Storage, Stored};
use iocrec_log::writer::{Options, State, Writer, MIN_SEGMENT};
use proptest::prelude::*;
use std::collections::HashSet;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{symlink, PermissionsExt};
use std::path::{Path, PathBuf};

/// Texts of marks in a directory's segments, without keyframes, and the number of losses that they report.
fn read(directory: &Path, texts: &mut HashSet<String>) -> u64 {
    let mut told = 0;
    for file in find(directory).unwrap_or_default() {
        let Ok(mut segment) = Segment::open(&file.path) else { continue };
        while let Some(block) = segment.next_block() {
            let events = block.map(|block| if block.keyframe { Vec::new() } else { block.events });
            for event in events.unwrap_or_default() {
                match event.fact {
                    Fact::Mark(text) => assert!(texts.insert(text), "an event is there twice"),
                    Fact::Loss(loss) => told += loss.count,
                    _ => {}
                }
            }
        }
    }
    told
}

fn options() -> Options {
    Options { max_disk: 4 << 20, segment: Some(MIN_SEGMENT), level: 1, ..Options::default() }
}

/// A writer into a real directory, and what was pushed.
struct World {
    parent: tempfile::TempDir,
    path: PathBuf,
    writer: Writer<Directory>,
    now: u64,
    pushed: u64,
    seed: u64,
    /// Directories that it was moved to.
    others: Vec<PathBuf>,
}

impl World {
    fn new() -> World {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("log");
        let writer = Writer::open(Directory::open(&path).unwrap(), options(), 1).unwrap();
        World { parent, path, writer, now: SECOND, pushed: 0, seed: 1, others: Vec::new() }
    }

    /// Half a second each.
    fn record(&mut self, beats: u64) {
        for _ in 0..beats {
            for number in 0..4 {
                self.writer.push(noise_mark(self.now + number, 900, &mut self.seed));
                self.pushed += 1;
            }
            self.now += SECOND / 2;
            self.writer.tick(self.now);
        }
    }

    fn other(&mut self) -> PathBuf {
        let other = self.parent.path().join(format!("other{}", self.others.len()));
        self.others.push(other.clone());
        other
    }

    fn newest(&self) -> Option<PathBuf> {
        let files = fs::read_dir(&self.path).ok()?.flatten().map(|file| file.path());
        files.filter(|path| path.extension().is_some_and(|extension| extension == "iocrec")).max()
    }

    fn lines(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.writer.take_notice()).collect()
    }

    /// Ends; what can be read in all places.
    fn end(&mut self) -> (u64, u64) {
        self.writer.close(self.now);
        let mut texts = HashSet::new();
        let mut told = read(&self.path, &mut texts);
        for other in &self.others {
            told += read(other, &mut texts);
        }
        let status = self.writer.status();
        assert_eq!(status.state, State::Ok);
        assert_eq!(status.stored + status.lost, self.pushed);
        (texts.len() as u64, told)
    }
}

#[test]
fn moved_away() {
    let mut world = World::new();
    world.record(6);
    let other = world.other();
    fs::rename(&world.path, &other).unwrap();
    world.record(6);
    let lines = world.lines();
    let [line] = &lines[..] else { panic!("{lines:?}") };
    assert!(line.contains("was moved away") && line.ends_with("0 events were lost"), "{line}");
    assert_eq!(world.end(), (world.pushed, 0));
    assert_eq!(world.writer.status().lost, 0);
    let mut texts = HashSet::new();
    read(&other, &mut texts);
    assert!(texts.len() >= 24, "what was in memory belongs to what was before: {}", texts.len());
    let mode = fs::metadata(&world.path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777 & !0o750, 0, "{mode:o}");
}

#[test]
fn deleted() {
    let mut world = World::new();
    world.record(40); // several segments
    assert!(world.writer.status().segments > 2);
    fs::remove_dir_all(&world.path).unwrap();
    world.record(6);
    let lines = world.lines();
    let [line] = &lines[..] else { panic!("{lines:?}") };
    assert!(line.contains("was deleted; recording goes on"), "{line}");
    let (found, told) = world.end();
    assert_eq!((found + told, told), (world.pushed, world.writer.status().lost));
    // what came before the next look may have gone with it
    assert!((160..=168).contains(&told), "{told}");
}

/// Somebody deletes the files, and lets the directory be.
#[test]
fn emptied() {
    let mut world = World::new();
    world.record(10);
    let found = |world: &World| fs::read_dir(&world.path).unwrap().count();
    fs::read_dir(&world.path).unwrap().flatten().for_each(|file| fs::remove_file(file.path()).unwrap());
    world.record(4);
    assert!(found(&world) > 0, "it writes on into a file without a name");
    let lines = world.lines().concat();
    assert!(lines.contains("was deleted while it was written"), "{lines}");
    let (found, told) = world.end();
    assert_eq!((found + told, told), (world.pushed, world.writer.status().lost));
}

#[test]
fn the_open_segment_is_moved_or_cut() {
    let mut world = World::new();
    world.record(4);
    fs::create_dir(world.other()).unwrap();
    let newest = world.newest().unwrap();
    fs::rename(&newest, world.others[0].join(newest.file_name().unwrap())).unwrap();
    world.record(4);
    assert!(world.lines().concat().contains("was moved away while it was written"));
    fs::OpenOptions::new().write(true).open(world.newest().unwrap()).unwrap().set_len(0).unwrap();
    world.record(4);
    assert!(world.lines().concat().contains("was cut short by another program"));
    let (found, told) = world.end();
    assert!(told > 0);
    assert_eq!((found + told, told), (world.pushed, world.writer.status().lost));
}

/// Replaced by something that can't be used, again and again; and the parent is removed.
#[test]
fn what_cannot_be_used_is_waited_for() {
    let mut world = World::new();
    world.record(4);
    let other = world.other();
    fs::rename(&world.path, other).unwrap();
    fs::write(&world.path, "a file").unwrap();
    world.record(20);
    let lines = world.lines();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[0].contains("is no longer a directory"), "{lines:?}");
    assert!(lines[1].starts_with("storing paused: ") && lines[1].contains("not a directory"), "{lines:?}");
    fs::remove_file(&world.path).unwrap();
    world.record(4);
    let lines = world.lines();
    assert!(lines.len() == 1 && lines[0].starts_with("storing again; "), "{lines:?}");
    // another recorder is faster
    let other = world.other();
    fs::rename(&world.path, other).unwrap();
    let faster = Directory::open(&world.path).unwrap();
    world.record(4);
    let lines = world.lines().concat();
    assert!(lines.contains("another recorder is writing to"), "{lines}");
    drop(faster);
    world.record(4);
    assert_eq!(world.writer.status().state, State::Ok);
    // the parent is away for a while
    let parent = world.parent.path().with_extension("away");
    fs::rename(world.parent.path(), &parent).unwrap();
    world.record(10);
    let lines = world.lines().concat();
    assert!(lines.contains("make its parent directory first"), "{lines}");
    fs::rename(parent, world.parent.path()).unwrap();
    world.record(4);
    let (found, told) = world.end();
    assert_eq!((found + told, told), (world.pushed, world.writer.status().lost));
    assert!(told > 20 * 4);
}

/// The name is a symbolic link that comes to lead elsewhere.
#[test]
fn a_link_that_leads_elsewhere() {
    let mut world = World::new();
    let (one, two) = (world.other(), world.other());
    fs::create_dir(&two).unwrap();
    fs::rename(&world.path, &one).unwrap();
    symlink(&one, &world.path).unwrap();
    world.record(4);
    assert_eq!(world.lines(), [""; 0], "it is the same directory");
    fs::remove_file(&world.path).unwrap();
    symlink(&two, &world.path).unwrap();
    world.record(4);
    assert!(world.lines().concat().contains("is another directory now"));
    world.writer.close(world.now);
    let mut texts = HashSet::new();
    assert_eq!(read(&one, &mut texts) + read(&two, &mut texts), 0);
    assert_eq!(texts.len() as u64, world.pushed);
}

/// The name is a symbolic link that leads to itself.
#[test]
fn a_link_that_leads_in_a_circle() {
    let mut world = World::new();
    world.record(4);
    let other = world.other();
    fs::rename(&world.path, other).unwrap();
    symlink(&world.path, &world.path).unwrap();
    world.record(6);
    let lines = world.lines().concat();
    assert!(lines.contains("was moved away") && lines.contains("storing paused"), "{lines}");
    fs::remove_file(&world.path).unwrap();
    world.record(4);
    assert_eq!(world.writer.status().state, State::Ok);
    let (found, told) = world.end();
    assert_eq!((found + told, told), (world.pushed, world.writer.status().lost));
}

/// Links in the directory lead nowhere.
#[test]
fn planted_links_are_left_alone() {
    let parent = tempfile::tempdir().unwrap();
    let (path, victim) = (parent.path().join("log"), parent.path().join("victim"));
    fs::write(&victim, [7; 5000]).unwrap();
    fs::create_dir(&path).unwrap();
    symlink(&victim, path.join("20200101T000000Z-0000000000.iocrec")).unwrap();
    symlink(&victim, path.join(".iocrec-trial")).unwrap();
    let mut directory = Directory::open(&path).unwrap();
    assert_eq!(directory.list().unwrap(), vec![]);
    symlink(&victim, path.join("new")).unwrap();
    directory.create("new", 0).unwrap_err();
    directory.trim("new").unwrap_err();
    fs::hard_link(&victim, path.join("20200101T000000Z-0000000001.iocrec")).unwrap();
    directory.trim("20200101T000000Z-0000000001.iocrec").unwrap_err();
    assert_eq!(fs::read(&victim).unwrap(), [7; 5000]);
}

#[derive(Clone, Debug)]
enum Step {
    Record(u64),
    Move,
    Delete,
    /// Moved, and an empty one is made in its place.
    Replace,
    DeleteNewest,
    /// Moved, with something else in its place for this long.
    Block(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..12u64).prop_map(Step::Record),
        1 => Just(Step::Move),
        1 => Just(Step::Delete),
        1 => Just(Step::Replace),
        1 => Just(Step::DeleteNewest),
        1 => (0..8u64).prop_map(Step::Block),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// In any order, at any moment.
    #[test]
    fn every_event_is_there_or_counted(steps in proptest::collection::vec(step(), 1..12)) {
        let mut world = World::new();
        for step in steps {
            match step {
                Step::Record(beats) => world.record(beats),
                Step::Move => {
                    let other = world.other();
                    let _ = fs::rename(&world.path, other);
                }
                Step::Delete => {
                    // deleted a moment after a look, since one that was moved and then deleted is not counted
                    world.record(3);
                    let _ = fs::remove_dir_all(&world.path);
                }
                Step::Replace => {
                    let other = world.other();
                    let _ = fs::rename(&world.path, other);
                    let _ = fs::create_dir(&world.path);
                }
                Step::DeleteNewest => {
                    world.record(3);
                    if let Some(newest) = world.newest() {
                        fs::remove_file(newest).unwrap();
                    }
                }
                Step::Block(beats) => {
                    let other = world.other();
                    let _ = fs::rename(&world.path, other);
                    fs::write(&world.path, "").unwrap();
                    world.record(beats);
                    fs::remove_file(&world.path).unwrap();
                }
            }
        }
        world.record(4);
        // Losses that a deleted log reported are reported again.
        let (found, told) = world.end();
        let status = world.writer.status();
        prop_assert_eq!(found, status.stored, "{:?}", status);
        prop_assert_eq!(told, status.lost, "{:?}", status);
    }
}

/// A disk in whose place another one comes.
struct Moving {
    here: Disk,
    /// What has come, and whether it took the open file along.
    there: std::rc::Rc<std::cell::RefCell<Option<(Disk, bool)>>>,
    /// Its unit of allocation, and that of what comes.
    units: (u64, u64),
}

impl Storage for Moving {
    fn list(&mut self) -> io::Result<Vec<Stored>> {
        self.here.list()
    }
    fn unit(&self) -> u64 {
        self.units.0
    }
    fn create(&mut self, name: &str, reserve: u64) -> io::Result<()> {
        self.here.create(name, reserve)
    }
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.here.append(bytes)
    }
    fn sync(&mut self) -> io::Result<()> {
        self.here.sync()
    }
    fn finish(&mut self) -> io::Result<()> {
        self.here.finish()
    }
    fn trim(&mut self, name: &str) -> io::Result<()> {
        self.here.trim(name)
    }
    fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        self.here.rename(from, to)
    }
    fn remove(&mut self, name: &str) -> io::Result<()> {
        self.here.remove(name)
    }
    fn sync_names(&mut self) -> io::Result<()> {
        self.here.sync_names()
    }
    fn wall_clock(&self) -> i64 {
        self.here.wall_clock()
    }
    fn astray(&mut self, _: u64) -> Option<Astray> {
        let there = self.there.borrow();
        there.as_ref().map(|(_, lost)| Astray { reason: "it is elsewhere".into(), lost: *lost })
    }
    fn settle(&mut self) -> io::Result<bool> {
        let moved = self.there.borrow_mut().take();
        moved.map_or(Ok(false), |(there, _)| {
            (self.here, self.units.0) = (there, self.units.1);
            Ok(true)
        })
    }
}

/// The disk fails at any operation around the moment at which another one comes into its place: a stale file system.
#[test]
fn another_disk_at_every_operation() {
    let run = |faults: Option<Faults>| {
        let (one, two) = (Disk::default(), Disk::default());
        let there = std::rc::Rc::default();
        let units = (4096, 4096);
        let moving = Moving { here: one.clone(), there: std::rc::Rc::clone(&there), units };
        let mut writer = Writer::open(moving, options(), 1).unwrap();
        let (mut seed, mut pushed) = (1, 0);
        let mut load = |writer: &mut Writer<Moving>, beats: std::ops::Range<u64>| {
            for beat in beats {
                writer.push(noise_mark(beat * SECOND / 2, 900, &mut seed));
                pushed += 1;
                writer.tick(beat * SECOND / 2 + 10);
            }
        };
        load(&mut writer, 2..30);
        let before = one.operations();
        one.set_faults(faults.map(|faults| Faults { first: before + faults.first, ..faults }));
        load(&mut writer, 30..60);
        *there.borrow_mut() = Some((two.clone(), false));
        load(&mut writer, 60..90);
        writer.close(100 * SECOND);
        let status = writer.status().clone();
        let operations = one.operations() - before;
        (one, two, status, pushed, operations)
    };
    let operations = run(None).4;
    assert!(operations > 20);
    for first in 0..operations {
        for count in [1, u64::MAX] {
            let context = format!("{count} from {first}");
            let (one, two, status, pushed, _) = run(Some(Faults { first, count, kind: ErrorKind::Other }));
            assert_eq!(status.state, State::Ok, "{context}");
            assert_eq!(status.stored + status.lost, pushed, "{context}");
            let (found, told) = split_losses([read_all(&one), read_all(&two)].concat());
            let found = found.into_iter().filter(|event: &Event| matches!(event.fact, Fact::Mark(_))).count();
            // What can't be known to be stored is counted, so some may be there and be counted.
            assert!(
                found as u64 >= status.stored && told == status.lost,
                "{context} {found} {told} {status:?}"
            );
        }
    }
}

/// A file system that gives space in larger pieces: what files take of it is counted in those.
#[test]
fn another_unit() {
    const LARGE: u64 = 65536;
    let there = std::rc::Rc::default();
    let (here, units) = (Disk::default(), (4096, LARGE));
    let moving = Moving { here, there: std::rc::Rc::clone(&there), units };
    let mut writer = Writer::open(moving, options(), 1).unwrap();
    let mut seed = 1;
    writer.push(noise_mark(SECOND, 900, &mut seed));
    writer.tick(2 * SECOND);
    assert_ne!(writer.status().taken % LARGE, 0);
    *there.borrow_mut() = Some((Disk::default(), false));
    writer.tick(4 * SECOND);
    writer.push(noise_mark(4 * SECOND, 900, &mut seed));
    writer.tick(6 * SECOND);
    let (taken, lost) = (writer.status().taken, writer.status().lost);
    // the directory, the segment, and what belongs to it
    assert!(taken >= 3 * LARGE && taken % LARGE == 0 && lost == 0, "{taken} {lost}");
}
