//! Measures the speed and memory of reading a log, on one thread and on all threads.
//!
//!     cargo run --release -p iocrec-log --example reading [MEGABYTES [scanning|mixture|losses|flood|crowd|loops]]
//!
//! Writes a log of that size (1,000 MB by default) into a temporary directory. Prints Markdown, with the peak memory of
//! each stage. benches/reading measures iocreplay with such a log.

mod load;

use iocrec_log::reader::{find, Ahead, Segment};
use load::Load;
use std::collections::VecDeque;
use std::error::Error;
use std::path::PathBuf;
use std::time::Instant;

/// Number of segments open at a time: the one whose events are counted, and those ahead of it.
const AHEAD: usize = 4;

/// Resets the peak memory of the process.
fn forget_peak() {
    // 5: "reset the peak resident set size", proc(5). Without it, peaks count from the start of the process.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

/// Peak memory of the process, MiB.
fn peak() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kibibytes = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<f64>().ok());
    kibibytes.map_or_else(|| "not known".into(), |size| format!("{:.1}", size / 1024.0))
}

/// Prints a row of the table.
fn row(what: &str, events: u64, megabytes: u64, begun: Instant) {
    let seconds = begun.elapsed().as_secs_f64();
    let (rate, speed) = (events as f64 / seconds / 1e6, megabytes as f64 / seconds);
    println!("| {what} | {seconds:.1} | {rate:.1} | {speed:.0} | {} |", peak());
    forget_peak();
}

fn main() -> Result<(), Box<dyn Error>> {
    let megabytes: u64 = std::env::args().nth(1).map_or(Ok(1000), |number| number.parse())?;
    let load = std::env::args().nth(2).map_or(Some(Load::Mixture), |name| Load::named(&name));
    let load = load.ok_or("a load is scanning, mixture, losses, flood, crowd or loops")?;
    let directory = tempfile::tempdir()?;
    let begun = Instant::now();
    let events = load::write(directory.path(), megabytes * 1_000_000, load)?;
    println!("{megabytes} MB, {events} events.\n");
    println!("| | s | M events/s | MB/s | peak memory, MiB |\n|---|---|---|---|---|");
    row("written", events, megabytes, begun);
    let files: VecDeque<PathBuf> = find(directory.path())?.into_iter().map(|file| file.path).collect();

    let begun = Instant::now();
    let mut read = 0;
    for path in &files {
        let mut segment = Segment::open(path)?;
        while let Some(block) = segment.next_block() {
            read += block?.events.len() as u64;
        }
    }
    row("read on one thread", read, megabytes, begun);

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
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    row(&format!("read on all threads ({threads} CPUs)"), again, megabytes, begun);
    (read == again && read >= events).then_some(()).ok_or_else(|| "not all was read".into())
}
