//! Real file systems that run full, by ourselves and by others, and what `du` says of the log meanwhile. Needs
//! root, to mount them.
#![cfg(target_os = "linux")]

mod common;

use common::small::{du, Small, RESERVE};
use common::{noise_mark, SECOND};
use iocrec_log::event::{Event, Fact, LossSource};
use iocrec_log::reader::{find, Segment};
use iocrec_log::storage::Directory;
use iocrec_log::writer::{Options, Pin, State, Writer};
use std::fs;
use std::io::Write;
use std::path::Path;

/// Pushes ten events of 4000 bytes a second.
struct Load {
    seed: u64,
    pushed: u64,
}

impl Load {
    fn run(
        &mut self,
        writer: &mut Writer<Directory>,
        seconds: std::ops::Range<u64>,
        mut each: impl FnMut(u64),
    ) {
        for second in seconds {
            for number in 0..10 {
                writer.push(noise_mark(second * SECOND + number, 4000, &mut self.seed));
                self.pushed += 1;
            }
            writer.tick(second * SECOND + SECOND / 2);
            each(second);
        }
    }
}

/// Events that are read, without keyframes, and losses that are reported.
fn read(log: &Path) -> (Vec<Event>, u64) {
    let (mut events, mut told) = (Vec::new(), 0);
    for file in find(log).unwrap() {
        // One that has not got its first bytes is no error.
        let Ok(mut segment) = Segment::open(&file.path) else { continue };
        while let Some(block) = segment.next_block() {
            let block = block.map(|block| if block.keyframe { Vec::new() } else { block.events });
            for event in block.unwrap_or_default() {
                match &event.fact {
                    Fact::Loss(loss) if loss.source == LossSource::Storage => told += loss.count,
                    _ => events.push(event),
                }
            }
        }
    }
    (events, told)
}

/// Takes all that is free; what it took.
fn fill(path: &Path) -> u64 {
    let mut file = fs::OpenOptions::new().append(true).create(true).open(path).unwrap();
    let before = file.metadata().unwrap().len();
    while file.write_all(&[1; 4096]).is_ok() {}
    file.metadata().unwrap().len() - before
}

fn all_lines(writer: &mut Writer<Directory>) -> Vec<String> {
    std::iter::from_fn(|| writer.take_notice()).collect()
}

/// Others fill it: from the start, in the middle, as fast as can be; and free it again.
fn runs_full(small: &Small, reserving: bool) {
    let (log, other, filler) = (small.path.join("log"), small.path.join("other"), small.path.join("filler"));
    let cap = 600_000;
    let options = Options { max_disk: cap, segment: Some(100_000), ..Options::default() };
    let open = || {
        let directory = Directory::open(&log).unwrap();
        let directory = if reserving { directory.reserving(RESERVE) } else { directory };
        Writer::open(directory, options.clone(), 1).unwrap()
    };

    // Full from the start, with nothing of ours to delete.
    fs::create_dir(&log).unwrap();
    fill(&filler);
    let mut writer = open();
    let mut load = Load { seed: 1, pushed: 0 };
    load.run(&mut writer, 1..40, |_| {});
    let status = writer.status().clone();
    let State::Paused { reason } = &status.state else { panic!("{status:?}") };
    assert!(reason.contains("No space left on device"), "{reason}");
    assert_eq!((status.stored, status.segments), (0, 0), "{status:?}");
    let lines = all_lines(&mut writer);
    assert!((1..10).contains(&lines.len()), "{} lines: {lines:?}", lines.len());

    // Freed: it stores, within 30 s, and never takes more than its cap.
    fs::remove_file(&filler).unwrap();
    fs::write(&other, vec![1; 200_000]).unwrap();
    let mut most = 0;
    load.run(&mut writer, 40..140, |_| most = most.max(du(&log)));
    let status = writer.status().clone();
    assert_eq!((&status.state, status.deleted_early), (&State::Ok, 0), "{status:?}");
    assert!(status.stored >= 700 && most <= cap && most > cap / 2, "du showed {most} bytes: {status:?}");
    assert!(all_lines(&mut writer).iter().any(|line| line.starts_with("storing again; ")));

    // Somebody takes all free space once: the log goes on as with a smaller cap.
    let lost = status.lost;
    fill(&filler);
    load.run(&mut writer, 140..200, |_| {});
    let status = writer.status().clone();
    assert_eq!(status.state, State::Ok, "{status:?}");
    // Where space can be set aside nothing is lost by that; else it may run out again and again.
    assert!(status.lost == lost || !reserving, "{status:?}");
    assert!(status.lost - lost < 500, "{status:?}");

    // Somebody takes all that becomes free, all the time. Freed again, it comes back.
    load.run(&mut writer, 200..300, |_| _ = fill(&filler));
    fs::remove_file(&filler).unwrap();
    load.run(&mut writer, 300..340, |_| {});
    writer.close(341 * SECOND);
    let status = writer.status().clone();
    assert_eq!(status.state, State::Ok);
    assert_eq!(status.stored + status.lost, load.pushed);
    let lines = all_lines(&mut writer);
    assert!(lines.len() < 30, "{} lines: {lines:?}", lines.len());
    let (events, _) = read(&log);
    assert!(events.len() >= 50 && status.taken >= du(&log) && du(&log) <= cap, "{status:?} {}", du(&log));
    drop(writer);

    // Full from the start, with the log of an earlier run on it: its oldest go at once.
    fill(&filler);
    let mut writer = open();
    load.run(&mut writer, 400..410, |_| {});
    writer.close(411 * SECOND);
    let status = writer.status().clone();
    assert!(status.deleted > 0 && status.state == State::Ok && status.stored > 50, "{status:?}");
}

#[test]
fn memory_runs_full() {
    let Some(small) = Small::in_memory(1024) else { return };
    runs_full(&small, true);
}

#[test]
fn memory_runs_full_where_nothing_can_be_set_aside() {
    let Some(small) = Small::in_memory(1024) else { return };
    runs_full(&small, false);
}

#[test]
fn ext4_runs_full() {
    let Some(small) = Small::ext4(2048) else { return };
    runs_full(&small, true);
}

/// The disk is smaller than the cap: the log has what there is, and loses nothing but its oldest.
#[test]
fn a_cap_larger_than_the_disk() {
    let Some(small) = Small::in_memory(1024) else { return };
    let log = small.path.join("log");
    let options = Options { max_disk: 10 << 20, segment: Some(100_000), ..Options::default() };
    let mut writer = Writer::open(Directory::open(&log).unwrap().reserving(RESERVE), options, 1).unwrap();
    let mut load = Load { seed: 1, pushed: 0 };
    load.run(&mut writer, 1..200, |_| {});
    writer.close(200 * SECOND);
    let status = writer.status().clone();
    assert_eq!((&status.state, status.lost), (&State::Ok, 0), "{status:?}");
    assert!(status.deleted_early > 5 && status.deleted_early == status.deleted, "{status:?}");
    assert!(du(&log) > 500_000, "{status:?}");
    let lines = all_lines(&mut writer);
    assert_eq!(lines, ["the file system is full: the oldest segments are deleted early"]);
}

/// With many small segments, pins and deletions: `du` never shows more than the cap.
#[test]
fn du_never_shows_more_than_the_cap() {
    let Some(small) = Small::ext4(8192) else { return };
    let log = small.path.join("log");
    let cap = 2 << 20;
    for (run, reserving) in [(1, true), (2, false)] {
        let directory = Directory::open(&log).unwrap();
        let directory = if reserving { directory.reserving(RESERVE) } else { directory };
        let options = Options { max_disk: cap, segment: Some(32 << 10), ..Options::default() };
        let mut writer = Writer::open(directory, options, run).unwrap();
        let mut load = Load { seed: 3, pushed: 0 };
        let mut most = 0;
        for part in 0..15 {
            load.run(&mut writer, part * 10 + 1..part * 10 + 11, |_| {
                let now = du(&log);
                most = most.max(now);
                assert!(now <= cap, "du shows {now} bytes");
            });
            writer.pin(Pin::Auto, (part * 10 + 10) * SECOND, "a test");
        }
        writer.mark(151 * SECOND, "a mark").unwrap();
        let status = writer.status().clone();
        assert!(status.taken >= du(&log) && most > cap * 8 / 10, "{status:?} {most}");
        assert_eq!((status.lost, status.deleted_early), (0, 0));
        // Not closed, as if it were killed: what it had set aside is given back by the next.
        drop(writer);
    }
}

/// A power cut on a real file system: the image is copied as it is, and what was synced is on the copy.
#[test]
fn ext4_loses_its_power() {
    let Some(small) = Small::ext4(8192) else { return };
    let log = small.path.join("log");
    let options = Options { max_disk: 2 << 20, segment: Some(100_000), ..Options::default() };
    let mut writer = Writer::open(Directory::open(&log).unwrap().reserving(RESERVE), options, 1).unwrap();
    let mut load = Load { seed: 1, pushed: 0 };
    // The directory itself must survive as well.
    let mut begin = 1;
    for cut in 0..4 {
        load.run(&mut writer, begin..begin + 7, |_| {});
        begin += 7;
        if cut == 2 {
            writer.mark(begin * SECOND, "just before").unwrap();
        }
        let copy = small.after_a_power_cut(&format!("cut{cut}"));
        let (events, _) = read(&copy.join("log"));
        let last = events.iter().map(|event| event.time).max().unwrap();
        let now = (begin - 1) * SECOND + SECOND / 2;
        assert!(now <= last + 6 * SECOND, "cut {cut}: the last event is {} ns old", now - last);
        if cut == 2 {
            assert!(events.iter().any(|event| event.fact == Fact::Mark("just before".into())));
            let pinned = fs::read_dir(copy.join("log")).unwrap().flatten();
            let pinned = pinned.filter(|file| file.file_name().to_string_lossy().contains("-mark.")).count();
            assert!(pinned > 1, "{pinned} segments are kept");
        }
    }
}
