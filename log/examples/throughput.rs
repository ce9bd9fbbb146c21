//! Measures the speed of writing and reading the log, and the disk space of a process hit.
//!
//!     cargo run --release -p iocrec-log --example throughput [LEVEL]
//!
//! The load is synthetic but realistic: records are scanned ten times a second in chains of four, microseconds apart
//! with jitter; half of their values are noisy doubles, a quarter counters, a quarter constant. A process hit is two
//! events (dbProcess and recGblFwdLink entered). The bytes include headers and keyframes.

#[allow(dead_code)] // the other examples write whole logs with it
mod load;

use iocrec_log::event::{CallSite, Complete, Event, Fact, Process, Record, Thread, Value};
use iocrec_log::reader::{self, Segment};
use iocrec_log::storage::Directory;
use iocrec_log::writer::{Options, Writer};
use load::{machine, Noise};
use std::error::Error;
use std::time::{Duration, Instant};

const SECOND: u64 = 1_000_000_000;
const SCANS_PER_SECOND: u64 = 10;
const CHAIN: u32 = 4;

fn below(noise: &mut Noise, limit: u64) -> u64 {
    noise.next() % limit
}

/// A reading with electrical noise: all bits of the fraction except the upper ones are random.
fn reading(noise: &mut Noise, about: f64) -> f64 {
    about * (1.0 + (noise.next() as f64 / u64::MAX as f64 - 0.5) * 1e-3)
}

fn definitions(records: u32) -> Vec<Fact> {
    let mut facts = machine();
    facts.push(Fact::Thread(Thread {
        id: 1,
        ioc: 1,
        tid: 4250,
        name: "scan-0.1".into(),
        stack: 0x7f00_1234_5678,
    }));
    for (id, function) in [(1, "scanList"), (2, "processTarget"), (3, "process")] {
        let (function, module) = (function.into(), "libdbCore.so.3.23".into());
        facts.push(Fact::from(CallSite {
            id,
            ioc: 1,
            address: 0x7f00_4567_8000 + u64::from(id),
            function,
            module,
        }));
    }
    facts.extend((0..records).map(|id| {
        Fact::from(Record {
            id,
            ioc: 1,
            address: 0x55aa_0000_0000 + u64::from(id) * 1216,
            name: format!("LINAC:BPM{:04}:X{}", id / CHAIN, id % CHAIN),
            rtype: ["ai", "calc", "ao", "longin"][id as usize % 4].into(),
        })
    }));
    facts
}

/// One scan of all records. The events are in the order of time.
fn scan(out: &mut Vec<Event>, mut time: u64, records: u32, turn: u64, noise: &mut Noise) {
    for head in (0..records).step_by(CHAIN as usize) {
        for depth in 0..CHAIN {
            let (record, sp) = (head + depth, -112 - 480 * i64::from(depth));
            time += 1500 + below(noise, 2000);
            let site = 1 + u32::from(depth > 0);
            let process = Process { thread: 1, sp, site, record, active: false };
            out.push(Event { time, fact: Fact::Process(process) });
            time += 1200 + below(noise, 900);
            let value = match record % 4 {
                0 | 1 => Value::Double(reading(noise, f64::from(record) + 3.7)),
                2 => Value::Int((turn + u64::from(record)) as i64),
                _ => Value::Double(12.5),
            };
            let complete =
                Complete { thread: 1, sp: sp - 160, site: 3, record, value, severity: 0, status: 0 };
            out.push(Event { time, fact: Fact::Complete(complete) });
        }
        time += below(noise, 3000);
    }
}

fn run(level: i32, records: u32, seconds: u64) -> Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let mut noise = Noise(0x9E37_79B9_7F4A_7C15);
    let mut load = Vec::new();
    for turn in 0..seconds * SCANS_PER_SECOND {
        scan(&mut load, SECOND + turn * SECOND / SCANS_PER_SECOND, records, turn, &mut noise);
    }
    let (events, hits) = (load.len() as u64, load.len() as u64 / 2);

    let options = Options { level, max_disk: 1 << 30, ..Options::default() };
    let mut writer = Writer::open(Directory::open(directory.path())?, options, 1)?;
    for fact in definitions(records) {
        writer.push(Event { time: SECOND, fact });
    }
    let begun = Instant::now();
    let mut beat = SECOND;
    for event in load {
        if event.time >= beat {
            beat = event.time + SECOND / 10;
            writer.tick(event.time);
        }
        writer.push(event);
    }
    writer.close(SECOND * (seconds + 1));
    let writing = begun.elapsed();
    let memory = writer.packing_memory();
    let status = writer.status().clone();

    let begun = Instant::now();
    let mut read = 0;
    for file in reader::find(directory.path())? {
        let mut segment = Segment::open(&file.path)?;
        while let Some(block) = segment.next_block() {
            read += block?.events.len() as u64;
        }
    }
    let reading = begun.elapsed();
    if read < events || status.lost > 0 {
        return Err(format!("wrote {events} events, lost {}, read {read}", status.lost).into());
    }

    let per_second = |time: Duration| events as f64 / time.as_secs_f64() / 1e6;
    println!(
        "level {level:2}, {:6} hits/s: {:5.2} B a process hit; written {:4.1} M events/s ({:.2} us each), \
         read {:4.1} M events/s; packing holds {} KiB",
        hits / seconds,
        status.written as f64 / hits as f64,
        per_second(writing),
        1.0 / per_second(writing),
        per_second(reading),
        memory >> 10,
    );
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let level = std::env::args().nth(1).map(|level| level.parse()).transpose()?;
    let level = level.unwrap_or(Options::default().level);
    run(level, 2000, 20)?;
    run(level, 10, 60)
}
