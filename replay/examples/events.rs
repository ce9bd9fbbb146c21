//! Number of times that each record was processed, and its highest alarm severity: directly from the events.
//!
//! `cargo run -p iocreplay --example events -- LOG...`

use iocreplay::event::Fact;
use iocreplay::{Logs, OpenOptions};
use std::collections::BTreeMap;
use std::error::Error;
use std::path::PathBuf;

/// For each record, the number of completions and the highest severity.
pub fn completions(logs: &Logs) -> BTreeMap<String, (u64, u16)> {
    let mut records: BTreeMap<String, (u64, u16)> = BTreeMap::new();
    for event in logs.events() {
        let Fact::Complete(complete) = &event.event.fact else { continue };
        let context = event.run.context();
        let Some(record) = context.record(complete.record) else { continue };
        let (count, severity) = records.entry(record.name.to_owned()).or_default();
        *count += 1;
        *severity = complete.severity.max(*severity);
    }
    records
}

#[allow(dead_code)] // a test takes the figures
fn main() -> Result<(), Box<dyn Error>> {
    let logs: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let logs = OpenOptions::new().on_notice(|notice| eprintln!("{notice}")).open(&logs)?;
    for (record, (count, severity)) in completions(&logs) {
        println!("{record:<32} {count:>8} times, severity at most {severity}");
    }
    Ok(())
}
