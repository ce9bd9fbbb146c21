//! Writes the logs of a fleet of machines (benches/fleet).
//!
//!     cargo run --release -p iocrec-log --example write_fleet DIR HOSTS SECONDS SCAN_MS PUT_MS
//!
//! Prints the number of their events.

mod fleet;

use fleet::Fleet;
use std::error::Error;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [directory, hosts, seconds, scan_ms, put_ms] = arguments.as_slice() else {
        return Err("usage: write_fleet DIR HOSTS SECONDS SCAN_MS PUT_MS".into());
    };
    let (scan_ms, put_ms) = (scan_ms.parse()?, put_ms.parse()?);
    let fleet = Fleet { hosts: hosts.parse()?, seconds: seconds.parse()?, scan_ms, put_ms };
    println!("{}", fleet::write(Path::new(directory), fleet)?);
    Ok(())
}
