//! Causes of record processing, and the number of records that each processes.
//!
//! `cargo run -p iocreplay --example chains -- LOG...`

use iocreplay::model::chain::{Chain, SpanKind};
use iocreplay::{Filter, Logs};
use std::collections::BTreeMap;
use std::error::Error;
use std::path::PathBuf;

/// Name of a chain's cause.
fn cause(chain: &Chain) -> &'static str {
    match chain.root().map(|root| &root.kind) {
        Some(SpanKind::Put(_)) => "put",
        Some(SpanKind::Process(process)) => process.trigger.name(),
        Some(SpanKind::Link(_)) => "CA link",
        None => "nothing",
    }
}

/// For each cause, the number of chains and of records that they processed.
pub fn causes(logs: &Logs) -> BTreeMap<&'static str, (usize, usize)> {
    let mut causes: BTreeMap<&'static str, (usize, usize)> = BTreeMap::new();
    for chain in logs.chains(&Filter::default()) {
        let processed = chain.spans.iter().filter(|span| matches!(span.kind, SpanKind::Process(_))).count();
        let (chains, records) = causes.entry(cause(&chain)).or_default();
        *chains += 1;
        *records += processed;
    }
    causes
}

#[allow(dead_code)] // a test takes the figures
fn main() -> Result<(), Box<dyn Error>> {
    let logs: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    for (cause, (chains, records)) in causes(&Logs::open(&logs)?) {
        println!("{cause:<12} {chains:>8} chains, {records:>8} records processed");
    }
    Ok(())
}
