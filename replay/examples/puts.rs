//! Writers of PVs: the put log of some IOCs as a program sees it.
//!
//! `cargo run -p iocreplay --example puts -- LOG...`

use iocreplay::value::text;
use iocreplay::{Filter, Logs};
use std::error::Error;
use std::path::PathBuf;

/// Returns a line for each put from outside the IOCs.
pub fn lines(logs: &Logs) -> Vec<String> {
    let filter = Filter::default();
    let line = |put: iocreplay::PutLine| {
        let pv = put.pv.as_deref().unwrap_or("(unnamed channel)");
        let user = put.user.as_deref().unwrap_or("?");
        format!("{pv}: {} -> {} by {user}, {}", text(&put.old), text(&put.new), put.status)
    };
    logs.puts(&filter).map(line).collect()
}

#[allow(dead_code)] // a test takes the lines
fn main() -> Result<(), Box<dyn Error>> {
    let logs: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    lines(&Logs::open(&logs)?).iter().for_each(|line| println!("{line}"));
    Ok(())
}
