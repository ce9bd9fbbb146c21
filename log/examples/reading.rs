//! How fast a log is read, on one thread and on all, and how much memory that takes.
//!
//!     cargo run --release -p iocrec-log --example reading [MEGABYTES]
//!
//! Writes a log of so many megabytes (1,000 if none are told) into a temporary directory, of a mixture like that of a
//! real IOC: two scan threads with a thousand records each, half of them noisy, and a client that puts.

use iocrec_log::event::{CaAnswer, CaPut, Complete, Event, Fact, Process, Put, PutKind, Value};
use iocrec_log::reader::{find, Ahead, Segment};
use iocrec_log::storage::Directory;
use iocrec_log::writer::{Options, Writer};
use std::collections::VecDeque;
use std::error::Error;
use std::path::PathBuf;
use std::time::Instant;

const SECOND: u64 = 1_000_000_000;
/// Segments that are opened ahead of the one whose events are counted.
const AHEAD: usize = 4;

/// xorshift: good enough for noise.
fn noise(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

fn record(out: &mut Vec<Fact>, thread: u32, record: u32, turn: u64, state: &mut u64) {
    let (sp, site) = (-112, 1);
    out.push(Fact::Process(Process { thread, sp, site, record, active: false }));
    let value = match record % 4 {
        0 | 1 => Value::Double(f64::from(record) + 3.7 + noise(state) as f64 / 1e22),
        2 => Value::Int(turn as i64),
        _ => Value::Double(12.5),
    };
    out.push(Fact::Complete(Complete {
        thread,
        sp: sp - 160,
        site: 3,
        record,
        value,
        severity: 0,
        status: 0,
    }));
}

fn put(out: &mut Vec<Fact>, ioid: u32) {
    let (circuit, notify) = (1, true);
    let (old, new) = (f64::from(ioid - 1), f64::from(ioid));
    let payload = new.to_be_bytes().to_vec();
    out.push(Fact::CaPut(CaPut { circuit, channel: 1, notify, dbr: 6, count: 1, ioid, length: 8, payload }));
    out.push(Fact::Put(Put {
        thread: 3,
        sp: -480,
        site: 5,
        kind: PutKind::Put,
        record: 9000,
        field: Some(1),
        dbf: iocrec_log::event::Dbf::Double,
        count: 1,
        requested: Value::Double(new),
        old: Value::Double(old),
    }));
    out.push(Fact::CaAnswer(CaAnswer { circuit, ioid, notify, status: 1, text: String::new() }));
}

fn write(directory: &std::path::Path, bytes: u64) -> Result<u64, Box<dyn Error>> {
    let options = Options { max_disk: 2 * bytes + (64 << 20), ..Options::default() };
    let mut writer = Writer::open(Directory::open(directory)?, options, 1)?;
    let (mut state, mut time, mut events, mut turn) = (1, SECOND, 0, 0);
    let mut facts = Vec::new();
    while writer.status().written < bytes {
        turn += 1;
        for number in 0..1000 {
            record(&mut facts, 1, number, turn, &mut state);
            record(&mut facts, 2, 1000 + number, turn, &mut state);
        }
        put(&mut facts, turn as u32);
        for fact in facts.drain(..) {
            time += 800 + noise(&mut state) % 1000;
            writer.push(Event { time, fact });
            events += 1;
        }
        time += SECOND / 10;
        writer.tick(time);
    }
    writer.close(time);
    if writer.status().lost > 0 {
        return Err("events were lost".into());
    }
    Ok(events)
}

/// The most memory that the process has had, in MiB.
fn peak() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap_or("not known");
    line.trim_start_matches("VmHWM:").trim().to_owned()
}

fn main() -> Result<(), Box<dyn Error>> {
    let megabytes: u64 = std::env::args().nth(1).map_or(Ok(1000), |number| number.parse())?;
    let directory = tempfile::tempdir()?;
    let begun = Instant::now();
    let events = write(directory.path(), megabytes * 1_000_000)?;
    println!(
        "{megabytes} MB, {events} events, written in {:.1} s; peak memory {}",
        begun.elapsed().as_secs_f64(),
        peak()
    );
    let files: VecDeque<PathBuf> = find(directory.path())?.into_iter().map(|file| file.path).collect();

    let begun = Instant::now();
    let mut read = 0;
    for path in &files {
        let mut segment = Segment::open(path)?;
        while let Some(block) = segment.next_block() {
            read += block?.events.len() as u64;
        }
    }
    let rate = |read: u64, begun: Instant| read as f64 / begun.elapsed().as_secs_f64() / 1e6;
    println!("one thread: {:.1} M events/s; peak memory {}", rate(read, begun), peak());

    let begun = Instant::now();
    let (mut files, mut opened, mut again) = (files, VecDeque::new(), 0);
    while !files.is_empty() || !opened.is_empty() {
        while let Some(path) = files.pop_front() {
            opened.push_back(Ahead::open(&path, |_| {})?);
            if opened.len() == AHEAD {
                break;
            }
        }
        let Some(mut segment) = opened.pop_front() else { break };
        while let Some(block) = segment.next_block() {
            again += block?.events.len() as u64;
        }
    }
    println!("all threads: {:.1} M events/s; peak memory {}", rate(again, begun), peak());
    (read == again && read >= events).then_some(()).ok_or_else(|| "not all was read".into())
}
