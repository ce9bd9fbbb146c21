//! How fast a log is read, on one thread and on all, and how much memory that takes.
//!
//!     cargo run --release -p iocrec-log --example reading [MEGABYTES [mixture|losses]]
//!
//! Writes a log of so many megabytes (1,000 if none are told) into a temporary directory. What iocreplay makes of
//! such a log is measured by benches/reading.

mod load;

use iocrec_log::reader::{find, Ahead, Segment};
use load::Load;
use std::collections::VecDeque;
use std::error::Error;
use std::path::PathBuf;
use std::time::Instant;

/// Segments that are opened ahead of the one whose events are counted.
const AHEAD: usize = 4;

/// The most memory that the process has had, in MiB.
fn peak() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap_or("not known");
    line.trim_start_matches("VmHWM:").trim().to_owned()
}

fn main() -> Result<(), Box<dyn Error>> {
    let megabytes: u64 = std::env::args().nth(1).map_or(Ok(1000), |number| number.parse())?;
    let load = Load::named(&std::env::args().nth(2).unwrap_or("mixture".into()))?;
    let directory = tempfile::tempdir()?;
    let begun = Instant::now();
    let events = load::write(directory.path(), megabytes * 1_000_000, load)?;
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
