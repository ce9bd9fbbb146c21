//! Log directories that are moved, deleted, recreated or covered by other file systems, and file systems that die: each put
//! is in some log, or counted as lost.

use crate::rig::{self, json_lines, run, wait_until, Client, Delays, Ioc, Needs, Rig, Running, IOCREC};
use serde_json::{json, Value};
use std::collections::BTreeSet;
use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::Duration;

const PORT: u16 = 5074;
/// What the recorders here are started with as --sync.
const SYNC: Duration = Duration::from_secs(1);

/// A recorder of an IOC, and a client that puts increasing numbers to it.
struct World {
    rig: Rig,
    _ioc: Ioc,
    client: Client,
    recorder: Running,
    log: String,
    put: i64,
    /// Directories to which logs were moved.
    others: Vec<String>,
}

impl World {
    /// Starts everything; `name` is the IOC's.
    fn new(rig: Rig, name: &str) -> World {
        let ioc = rig.ioc(name, PORT, "puts.db", &[]);
        let client = rig.client("libca", &[PORT], &[]);
        let log = rig.path("disk/log");
        fs::create_dir_all(rig.path("disk")).expect("a directory");
        let pid = ioc.pid_argument();
        let recorder =
            rig.agent(&["record", "--dir", &log, "--pid", &pid, "--flush", "200ms", "--sync", "1s"]);
        let mut world = World { rig, _ioc: ioc, client, recorder, log, put: 0, others: Vec::new() };
        wait_until("it records", || {
            world.client.put("PUT:READY", 6, json!(1), true);
            std::thread::sleep(Duration::from_millis(100));
            numbers(&world.log, "PUT:READY").0.contains(&1)
        });
        world
    }

    /// Puts `count` times, with callback.
    fn put(&mut self, count: i64) {
        for _ in 0..count {
            self.client.put("PUT:LONG", 5, json!(self.put), true);
            self.put += 1;
        }
    }

    /// Puts until the recorder has printed `text` on stderr that often.
    fn put_until_reported(&mut self, text: &str, times: usize) {
        wait_until(&format!("it reports {text}: {}", self.recorder.errors()), || {
            self.put(5);
            self.recorder.errors().matches(text).count() >= times
        });
    }

    fn other(&mut self, name: &str) -> String {
        let other = self.rig.path(name);
        self.others.push(other.clone());
        other
    }

    /// The report of `iocrec status` for the log's directory.
    fn status(&self) -> Value {
        let output = run(Command::new(IOCREC).args(["status", "--dir", &self.log, "--json"]));
        serde_json::from_slice(&output.stdout).unwrap_or_default()
    }

    /// Checks that `iocrec status` and `mark` reach this recorder by its --dir.
    fn is_reached(&self) {
        wait_until("iocrec status finds the recorder", || {
            let about = self.status();
            about["running"] == json!(true) && about["pid"] == json!(self.recorder.pid())
        });
        let marked = run(Command::new(IOCREC).args(["mark", "--dir", &self.log, "here"]));
        assert!(marked.status.success(), "{}", String::from_utf8_lossy(&marked.stderr));
    }

    /// Stops the recorder; returns the numbers in all logs, and the events that the current log counts as lost.
    fn end(&mut self) -> (BTreeSet<i64>, u64) {
        let ended = self.recorder.stop();
        assert!(ended.success(), "{}", self.recorder.errors());
        let (mut found, lost) = numbers(&self.log, "PUT:LONG");
        for other in &self.others {
            found.extend(numbers(other, "PUT:LONG").0);
        }
        (found, lost)
    }

    fn missing(&self, found: &BTreeSet<i64>) -> Vec<i64> {
        (0..self.put).filter(|number| !found.contains(number)).collect()
    }
}

/// The numbers put to a PV according to a log, and the events that it counts as lost on the disk.
fn numbers(log: &str, pv: &str) -> (BTreeSet<i64>, u64) {
    let puts = run(Command::new(rig::iocreplay()).args(["puts", log, "--format", "jsonl", "--pv", pv]));
    let numbers = json_lines(&puts.stdout)
        .iter()
        .filter_map(|put| put["requested"].as_f64())
        .map(|v| v as i64)
        .collect();
    let info = run(Command::new(rig::iocreplay()).args(["info", log, "--json"]));
    let info: Value = serde_json::from_slice(&info.stdout).unwrap_or_default();
    let losses =
        info["runs"].as_array().into_iter().flatten().filter_map(|run| run["losses"].as_array()).flatten();
    let lost =
        losses.filter(|loss| loss["source"] == "storage").filter_map(|loss| loss["count"].as_u64()).sum();
    (numbers, lost)
}

fn mount(arguments: &[&str]) {
    let output = run(Command::new("mount").args(arguments));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn unmount(path: &str) {
    let output = run(Command::new("umount").args(["-l", path]));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The directory is moved, and covered by another file system, which is unmounted again: nothing is lost.
#[test]
fn moved_and_covered() {
    let Some(rig) = Rig::new("moved") else { return };
    rig::enter_private_mounts();
    let mut world = World::new(rig, "moved");
    let mode = |path: &str| fs::metadata(path).expect("it is there").permissions().mode() & 0o7777;
    fs::set_permissions(&world.log, fs::Permissions::from_mode(0o2755)).expect("its mode is changed");
    world.put(50);
    let other = world.other("first");
    fs::rename(&world.log, &other).expect("it is moved");
    world.put_until_reported("moved away", 1);
    assert_eq!(mode(&world.log), 0o750, "as it was when the recorder began");
    world.is_reached();
    world.put(50);
    // another directory in its place
    let other = world.other("second");
    fs::rename(&world.log, &other).expect("it is moved");
    fs::create_dir(&world.log).expect("a new one");
    world.put_until_reported("recording goes on", 2);
    world.is_reached();
    world.put(50);
    // covered, and uncovered again
    let log = world.log.clone();
    rig::mount_small(&log, "size=4m,mode=755");
    world.put_until_reported("another file system", 1);
    world.is_reached();
    world.put(50);
    let kept = world.other("kept");
    fs::create_dir(&kept).expect("a directory");
    mount(&["--bind", &log, &kept]);
    unmount(&log);
    world.put_until_reported("another file system", 2);
    world.is_reached();
    world.put(50);
    let (found, lost) = world.end();
    assert_eq!(world.missing(&found), Vec::<i64>::new(), "{}", world.recorder.errors());
    assert_eq!(lost, 0);
    assert!(numbers(&kept, "PUT:LONG").0.len() > 50, "what was recorded in the file system that covered it");
    unmount(&kept);
    let lines = world.recorder.errors();
    assert_eq!(lines.matches("recording goes on").count(), 4, "{lines}");
}

/// The directory, its files and the open file are deleted during puts: the log counts the lost events.
#[test]
fn deleted_and_made_anew() {
    let Some(rig) = Rig::new("deleted") else { return };
    let mut world = World::new(rig, "deleted");
    world.put(50);
    fs::remove_dir_all(&world.log).expect("it is deleted");
    world.put_until_reported("was deleted", 1);
    world.is_reached();
    let (before, lost_before) = numbers(&world.log, "PUT:LONG");
    assert!(lost_before >= 50, "{lost_before}: {}", world.recorder.errors());
    assert!(!before.contains(&49));
    world.put(50);
    // rm -rf followed by mkdir, as an installation script does
    fs::remove_dir_all(&world.log).expect("it is deleted");
    fs::create_dir(&world.log).expect("a new one");
    world.put_until_reported("recording goes on", 2);
    world.is_reached();
    world.put(50);
    let moment = world.put;
    wait_until("the last put is in the log", || numbers(&world.log, "PUT:LONG").0.contains(&(moment - 1)));
    // rm DIR/*
    for file in fs::read_dir(&world.log).expect("the log").flatten() {
        fs::remove_file(file.path()).expect("a file is deleted");
    }
    world.put_until_reported("was deleted while it was written", 1);
    world.put(50);
    let (found, lost) = world.end();
    let missing = world.missing(&found);
    // the current log counts what was deleted last, at least two events for each put
    let last: Vec<i64> = missing.iter().copied().filter(|&number| number >= moment - 50).collect();
    assert!(last.len() >= 50 && last.len() as u64 <= lost, "{} puts of {lost} lost events", last.len());
    assert!((world.put - 50..world.put).all(|number| found.contains(&number)));
}

/// The recorder reports a directory that it cannot use, and waits until it can.
#[test]
fn a_place_that_cannot_be_used() {
    let Some(rig) = Rig::new("no-place") else { return };
    let mut world = World::new(rig, "no-place");
    world.put(50);
    let other = world.other("first");
    fs::rename(&world.log, &other).expect("it is moved");
    fs::write(&world.log, "").expect("a file");
    world.put_until_reported("is no longer a directory", 1);
    wait_until("it reports the pause", || world.recorder.errors().contains("storing paused"));
    fs::remove_file(&world.log).expect("the file goes");
    world.put_until_reported("storing again", 1);
    // a directory that anybody may write to
    let other = world.other("second");
    fs::rename(&world.log, &other).expect("it is moved");
    fs::create_dir(&world.log).expect("a new one");
    fs::set_permissions(&world.log, fs::Permissions::from_mode(0o777)).expect("its mode is changed");
    world.put_until_reported("any user may write to", 1);
    wait_until("it still answers", || {
        world.status()["paused"].as_str().is_some_and(|reason| reason.contains("chmod o-w"))
    });
    fs::set_permissions(&world.log, fs::Permissions::from_mode(0o750)).expect("its mode is changed");
    world.put_until_reported("storing again", 2);
    world.is_reached();
    world.put(50);
    // the whole tree is away
    let (disk, away) = (world.rig.path("disk"), world.rig.path("away"));
    fs::rename(&disk, &away).expect("it is moved");
    world.put_until_reported("make its parent directory first", 1);
    fs::rename(&away, &disk).expect("it is moved back");
    world.put_until_reported("storing again", 3);
    world.put(50);
    let (found, lost) = world.end();
    let missing = world.missing(&found);
    assert!(!missing.is_empty() && missing.len() as u64 <= lost, "{} missing, {lost} lost", missing.len());
    assert!((world.put - 50..world.put).all(|number| found.contains(&number)));
}

#[test]
fn without_a_place_at_the_end_it_fails() {
    let Some(rig) = Rig::new("no-end") else { return };
    let mut world = World::new(rig, "no-end");
    world.put(20);
    let other = world.other("first");
    fs::rename(&world.log, other).expect("it is moved");
    fs::write(&world.log, "").expect("a file");
    world.put(20);
    let ended = world.recorder.stop();
    let errors = world.recorder.errors();
    assert_eq!(ended.code(), Some(1), "{errors}");
    assert!(errors.lines().last().is_some_and(|line| line.contains("were not stored")), "{errors}");
}

/// An ext4 file system at `disk`, in an image, where the machine can have one. The paths of both.
fn with_a_disk(name: &str, test: &str) -> Option<(Rig, String, String)> {
    let rig = Rig::new(name)?;
    rig::enter_private_mounts();
    let (image, disk) = (rig.path("image"), rig.path("disk"));
    fs::create_dir(&disk).expect("a directory");
    fs::File::create(&image).and_then(|file| file.set_len(16 << 20)).expect("an image");
    let made = run(Command::new("mkfs.ext4").args(["-q", &image]));
    let mounted = run(Command::new("mount").args(["-o", "loop", &image, &disk]));
    if !made.status.success() || !mounted.status.success() {
        let error = String::from_utf8_lossy(&mounted.stderr);
        rig::not_run(test, Needs::Kernel(format!("ext4 in an image: {}", error.trim())));
        return None;
    }
    Some((rig, image, disk))
}

/// A file system that lets each write wait (FIFREEZE), as a server or a card that does not answer, until this is dropped.
struct Frozen(fs::File);

impl Frozen {
    fn new(path: &str) -> Frozen {
        const FIFREEZE: libc::c_ulong = 0xc004_5877;
        let directory = fs::File::open(path).expect("the file system");
        // SAFETY: the request takes no argument.
        let done = unsafe { libc::ioctl(directory.as_raw_fd(), FIFREEZE as _, 0) };
        assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
        Frozen(directory)
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        const FITHAW: libc::c_ulong = 0xc004_5878;
        // SAFETY: the request takes no argument.
        unsafe { libc::ioctl(self.0.as_raw_fd(), FITHAW as _, 0) };
    }
}

/// A disk that does not answer for a while: the IOC answers meanwhile, `iocrec status` says what is wrong, and each put is
/// in the log afterwards.
#[test]
fn a_file_system_that_hangs() {
    let Some((rig, _, disk)) = with_a_disk("hangs", "a_file_system_that_hangs") else { return };
    let mut world = World::new(rig, "hangs");
    world.put(50);
    let frozen = Frozen::new(&disk);
    wait_until("iocrec status says that the disk hangs", || {
        world.put(5);
        std::thread::sleep(Duration::from_millis(100));
        let about = world.status();
        about["storing"] == json!(false)
            && about["paused"].as_str().is_some_and(|text| text.contains("has not answered"))
    });
    drop(frozen);
    wait_until("it stores again", || world.status()["storing"] == json!(true));
    world.put(50);
    let (found, lost) = world.end();
    assert_eq!((world.missing(&found), lost), (Vec::new(), 0), "{}", world.recorder.errors());
    unmount(&disk);
}

/// A file system fails every access, is unmounted, and comes back, like a disk that was pulled.
#[test]
fn a_file_system_that_dies() {
    let Some((rig, image, disk)) = with_a_disk("dies", "a_file_system_that_dies") else { return };
    let mut world = World::new(rig, "dies");
    world.put(50);
    // all of that is on the disk before it dies: in the file, and one period of --sync later in the file system
    wait_until("the last put is in the log", || numbers(&world.log, "PUT:LONG").0.contains(&49));
    let delays = Delays::measure();
    std::thread::sleep(SYNC * 2);
    std::thread::sleep(delays.total());
    let died = shut_down(&disk);
    assert!(died, "{}", std::io::Error::last_os_error());
    world.put_until_reported("storing paused", 1);
    unmount(&disk);
    // the mount point is a directory as well, and gets the log meanwhile
    world.put_until_reported("storing again", 1);
    world.put(50);
    let below = world.rig.path("below");
    fs::create_dir(&below).expect("a directory");
    mount(&["--bind", &disk, &below]);
    world.others.push(format!("{below}/log"));
    wait_until("the loop device is free", || {
        let again = run(Command::new("mount").args(["-o", "loop", &image, &disk]));
        again.status.success() && fs::write(format!("{disk}/trial"), "x").is_ok() || {
            let _ = run(Command::new("umount").args(["-l", &disk]));
            false
        }
    });
    world.put_until_reported("another file system", 1);
    world.is_reached();
    world.put(50);
    let (found, lost) = world.end();
    let missing = world.missing(&found);
    let errors = world.recorder.errors();
    assert!((0..50).all(|number| found.contains(&number)), "what was synced is there: {missing:?} {errors}");
    // two logs count losses: the one below the mount point, and this one
    let below_lost = numbers(&format!("{below}/log"), "PUT:LONG").1;
    assert!(missing.len() as u64 <= lost + below_lost, "{missing:?}, {lost} + {below_lost} lost; {errors}");
    assert!((world.put - 50..world.put).all(|number| found.contains(&number)));
    unmount(&disk);
    unmount(&below);
}

/// Makes every access to an ext4 file system fail (EXT4_IOC_SHUTDOWN, without writing anything more).
fn shut_down(path: &str) -> bool {
    const SHUTDOWN: libc::c_ulong = 0x8004_587d;
    static WITHOUT_LOG: u32 = 2;
    let directory = fs::File::open(path).expect("the file system");
    // SAFETY: the argument is a number that outlives the call.
    unsafe { libc::ioctl(directory.as_raw_fd(), SHUTDOWN as _, &raw const WITHOUT_LOG) == 0 }
}
