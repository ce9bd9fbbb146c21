//! A recorder that had no processor for a while: it writes the hits of that time first, and the packets in a later block.

mod common;

use common::{ca_put, complete, definitions, process, put, run, CLIENT, MS, SECOND, WALL};
use iocrec_log::event::*;
use iocrec_log::storage::{Clocked, Directory};
use iocrec_log::writer::{Options, Writer};
use serde_json::Value as Json;
use std::cell::Cell;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

/// Hits of the put of a second, and its packet.
fn of_put(number: u64) -> (Vec<(u64, Fact)>, (u64, Fact)) {
    let (time, old, new) = (number * SECOND, number as f64 - 1.0, number as f64);
    let hits = vec![
        (time + MS, put(PutKind::PutField, CLIENT, -1000, 1, (1, 1), old, new)),
        (time + MS + 10, put(PutKind::Put, CLIENT, -1200, 0, (1, 1), old, new)),
        (time + MS + 20, process(CLIENT, -1200, 0, 1)),
        (time + MS + 30, complete(CLIENT, -1300, 1, new, 0)),
    ];
    (hits, (time, ca_put(1, 1, false, number as u32, new)))
}

/// A put each second. So many come at once: a block with their hits, and then one with their packets.
fn log(directory: &Path, seconds: u64, at_once: u64) {
    let wall = Rc::new(Cell::new(WALL));
    let storage = Clocked { storage: Directory::open(directory).unwrap(), wall: Rc::clone(&wall) };
    let mut writer = Writer::open(storage, Options::default(), 7).unwrap();
    for fact in definitions("box1") {
        writer.push(Event { time: 0, fact });
    }
    let mut begin = 1;
    while begin <= seconds {
        let end = seconds.min(begin + at_once - 1);
        let (mut hits, mut packets) = (Vec::new(), Vec::new());
        for number in begin..=end {
            let (mut of, packet) = of_put(number);
            packets.push(packet);
            hits.append(&mut of);
        }
        // late enough that the block is written
        for (events, later) in [(hits, 2), (packets, 4)] {
            for (time, fact) in events {
                writer.push(Event { time, fact });
            }
            wall.set(WALL + ((end + later) * SECOND) as i64);
            writer.tick((end + later) * SECOND);
        }
        begin = end + 1;
    }
    writer.close((seconds + 4) * SECOND);
    assert_eq!(writer.status().lost, 0);
}

/// A put each second, and a block each second with what came first of it; the rest of so many comes in a block after these.
fn log_by_second(directory: &Path, seconds: u64, at_once: u64, hits_first: bool) {
    let wall = Rc::new(Cell::new(WALL));
    let storage = Clocked { storage: Directory::open(directory).unwrap(), wall: Rc::clone(&wall) };
    let options = Options { flush: Duration::ZERO, ..Options::default() };
    let mut writer = Writer::open(storage, options, 7).unwrap();
    for fact in definitions("box1") {
        writer.push(Event { time: 0, fact });
    }
    let mut late = Vec::new();
    for number in 1..=seconds {
        let (hits, packet) = of_put(number);
        let (first, mut last) = if hits_first { (hits, vec![packet]) } else { (vec![packet], hits) };
        late.append(&mut last);
        let at_end = number % at_once == 0 || number == seconds;
        let rest = if at_end { std::mem::take(&mut late) } else { Vec::new() };
        for (events, later) in [(first, 100), (rest, 200)] {
            for (time, fact) in events {
                writer.push(Event { time, fact });
            }
            let now = number * SECOND + later * MS;
            wall.set(WALL + now as i64);
            writer.tick(now);
        }
    }
    writer.close((seconds + 1) * SECOND);
    assert_eq!(writer.status().lost, 0);
}

/// The log has 40 puts, one each second.
fn told_once_and_at_its_time(directory: &Path, name: &str) {
    let (code, out, err) = run(directory, &["puts", "--all", "--format", "jsonl", name]);
    assert_eq!(code, 0, "{err}");
    let puts: Vec<Json> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(puts.len(), 40, "{name}: {out}");
    for (put, number) in puts.iter().zip(1u32..) {
        let second = 20 + number;
        let time = format!("2026-09-21T14:{:02}:{:02}.000000000+00:00", 13 + second / 60, second % 60);
        let number = f64::from(number);
        let told = ["time", "source", "user", "status", "old", "new"].map(|key| put[key].clone());
        let happened: [Json; 6] =
            [time.into(), "both".into(), "alice".into(), "ok".into(), (number - 1.0).into(), number.into()];
        assert_eq!(told, happened, "{name}: {put:#}");
    }
}

#[test]
fn each_put_is_told_once_and_at_its_time() {
    let directory = tempfile::tempdir().unwrap();
    for at_once in [15, 40] {
        let name = format!("log{at_once}");
        log(&directory.path().join(&name), 40, at_once);
        told_once_and_at_its_time(directory.path(), &name);
    }
}

/// The other queue was read all the time, so blocks that are not late come in between.
#[test]
fn so_it_is_with_blocks_in_between() {
    let directory = tempfile::tempdir().unwrap();
    for (name, hits_first) in [("packets_late", true), ("hits_late", false)] {
        log_by_second(&directory.path().join(name), 40, 6, hits_first);
        told_once_and_at_its_time(directory.path(), name);
    }
}

/// A block of the hits is damaged, behind one that has the packets of all that time.
#[test]
fn what_is_missing_amid_others_takes_nothing_else_along() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    let wall = Rc::new(Cell::new(WALL));
    let storage = Clocked { storage: Directory::open(&log).unwrap(), wall: Rc::clone(&wall) };
    let options = Options { flush: Duration::ZERO, ..Options::default() };
    let mut writer = Writer::open(storage, options, 7).unwrap();
    for fact in definitions("box1") {
        writer.push(Event { time: 0, fact });
    }
    let (hits, packets): (Vec<_>, Vec<_>) = (1..=6).map(of_put).unzip();
    let blocks = [packets, hits[..2].concat(), hits[2..4].concat(), hits[4..].concat()];
    for (events, number) in blocks.into_iter().zip(1u64..) {
        for (time, fact) in events {
            writer.push(Event { time, fact });
        }
        let now = 7 * SECOND + number * 100 * MS;
        wall.set(WALL + now as i64);
        writer.tick(now);
    }
    writer.close(8 * SECOND);

    let mut names = std::fs::read_dir(&log).unwrap().map(|entry| entry.unwrap().path());
    let path = names.find(|path| path.extension().is_some_and(|ending| ending == "iocrec")).unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    let is_third = |at: &usize| {
        let block = &bytes[*at..];
        let is_block = block.starts_with(&[0xB7, 0x4C, 0x0F, 0xE3]);
        is_block && (3 * SECOND..4 * SECOND).contains(&u64::from_le_bytes(block[28..36].try_into().unwrap()))
    };
    let place = (0..bytes.len() - 52).find(is_third).expect("the block of the third put");
    bytes[place + 52] ^= 1;
    std::fs::write(&path, bytes).unwrap();

    let (code, out, err) = run(directory.path(), &["puts", "--all", "--format", "jsonl", "log"]);
    assert!(code == 1 && err.contains("is damaged"), "{code} {err}");
    let puts = out.lines().map(|line| serde_json::from_str::<Json>(line).unwrap());
    let told: Vec<(Json, Json)> = puts.map(|put| (put["time"].clone(), put["source"].clone())).collect();
    let happened = (1..=6).map(|number| {
        let source = if [3, 4].contains(&number) { "packet" } else { "both" };
        let time = format!("2026-09-21T14:13:2{number}.000000000+00:00");
        (Json::from(time), Json::from(source))
    });
    assert_eq!(told, happened.collect::<Vec<_>>(), "{out}");
}

/// Between two blocks that overlap are bytes that are none: the recorder took packets before the hits of their time.
#[test]
fn what_is_missing_between_blocks_that_overlap_doubles_no_put() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    let wall = Rc::new(Cell::new(WALL));
    let storage = Clocked { storage: Directory::open(&log).unwrap(), wall: Rc::clone(&wall) };
    let options = Options { flush: Duration::ZERO, ..Options::default() };
    let mut writer = Writer::open(storage, options, 7).unwrap();
    for fact in definitions("box1") {
        writer.push(Event { time: 0, fact });
    }
    let (hits, packets): (Vec<_>, Vec<_>) = (1..=4).map(of_put).unzip();
    let before = [vec![packets[0].clone()], hits[0].clone(), packets[1..3].to_vec()].concat();
    let behind = [hits[1].clone(), hits[2].clone(), vec![packets[3].clone()], hits[3].clone()].concat();
    for (events, number) in [before, behind].into_iter().zip(1u64..) {
        for (time, fact) in events {
            writer.push(Event { time, fact });
        }
        let now = 5 * SECOND + number * 100 * MS;
        wall.set(WALL + now as i64);
        writer.tick(now);
    }
    writer.close(6 * SECOND);

    let mut names = std::fs::read_dir(&log).unwrap().map(|entry| entry.unwrap().path());
    let path = names.find(|path| path.extension().is_some_and(|ending| ending == "iocrec")).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    let is_behind = |at: &usize| {
        let block = &bytes[*at..];
        let is_block = block.starts_with(&[0xB7, 0x4C, 0x0F, 0xE3]);
        is_block && (2 * SECOND..3 * SECOND).contains(&u64::from_le_bytes(block[28..36].try_into().unwrap()))
    };
    let place = (0..bytes.len() - 52).find(is_behind).expect("the block of the second put's hits");
    std::fs::write(&path, [&bytes[..place], &[0x55; 100], &bytes[place..]].concat()).unwrap();

    let (code, out, err) = run(directory.path(), &["puts", "--all", "--format", "jsonl", "log"]);
    assert!(code == 1 && err.contains("is damaged"), "{code} {err}");
    let puts = out.lines().map(|line| serde_json::from_str::<Json>(line).unwrap());
    let told: Vec<(Json, Json)> = puts.map(|put| (put["time"].clone(), put["source"].clone())).collect();
    let happened = (1..=4).map(|number| {
        let time = format!("2026-09-21T14:13:2{number}.000000000+00:00");
        (Json::from(time), Json::from("both"))
    });
    assert_eq!(told, happened.collect::<Vec<_>>(), "{out}");
}
