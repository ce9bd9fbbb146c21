//! A real file system that runs full. Needs root, to mount one.

mod common;

use common::{noise_mark, SECOND};
use iocrec_log::event::{Fact, LossSource};
use iocrec_log::reader::{find, Segment};
use iocrec_log::storage::Directory;
use iocrec_log::writer::{Options, State, Writer};
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;

/// A tmpfs of one MiB, unmounted when dropped.
struct Small<'a>(&'a Path);

impl Small<'_> {
    fn mount(path: &Path) -> Option<Small<'_>> {
        let output =
            Command::new("mount").args(["-t", "tmpfs", "-o", "size=1m", "iocrec-test"]).arg(path).output();
        match output {
            Ok(output) if output.status.success() => Some(Small(path)),
            other => {
                let why = format!("NOT RUN: a disk that runs full: mounting a tmpfs needs root: {other:?}");
                // where every test has to run, as in CI, this is a failure
                let all = |name, value: &str| std::env::var(name).is_ok_and(|found| found == value);
                assert!(!all("CI", "true") && !all("IOCREC_REQUIRE_ALL", "1"), "{why}");
                // past the test runner, which would swallow what a passing test prints
                let _ = writeln!(std::io::stderr(), "{why}");
                None
            }
        }
    }
}

impl Drop for Small<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0).status();
    }
}

#[test]
fn a_real_disk_runs_full() {
    let root = tempfile::tempdir().unwrap();
    let Some(small) = Small::mount(root.path()) else { return };
    let log = small.0.join("log");
    // Somebody else's file takes two thirds of it; the cap would allow more than is left.
    let other = small.0.join("other");
    fs::write(&other, vec![1; 700_000]).unwrap();
    let options = Options { max_disk: 900_000, segment: Some(100_000), ..Options::default() };
    let mut writer = Writer::open(Directory::open(&log).unwrap(), options, 1).unwrap();
    let (mut seed, mut pushed) = (1, 0);
    let mut push = |writer: &mut Writer<Directory>, seconds: std::ops::Range<u64>| {
        for second in seconds {
            for number in 0..10 {
                writer.push(noise_mark(second * SECOND + number, 4000, &mut seed));
            }
            pushed += 10;
            writer.tick(second * SECOND + SECOND / 2);
        }
        pushed
    };
    push(&mut writer, 1..60);
    let status = writer.status().clone();
    let State::Paused { reason } = &status.state else { panic!("{status:?}") };
    assert!(reason.contains("No space left on device"), "{reason}");
    assert!(status.lost > 0 && status.stored > 20, "{status:?}");
    assert!(writer.take_notice().is_some());

    fs::remove_file(&other).unwrap();
    let pushed = push(&mut writer, 60..75);
    writer.close(76 * SECOND);
    let status = writer.status().clone();
    assert_eq!((&status.state, status.stored + status.lost), (&State::Ok, pushed));

    let (mut read, mut told, mut on_disk) = (0, 0, 0);
    for file in find(&log).unwrap() {
        on_disk += file.size;
        let mut segment = Segment::open(&file.path).unwrap();
        while let Some(block) = segment.next_block() {
            for event in block.map(|block| block.events).unwrap_or_default() {
                match event.fact {
                    Fact::Loss(loss) if loss.source == LossSource::Storage => told += loss.count,
                    _ => read += 1,
                }
            }
        }
    }
    assert!(read > 100 && on_disk <= 900_000 && status.on_disk == on_disk);
    assert_eq!(told, status.lost);
}
