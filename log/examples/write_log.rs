//! Writes a synthetic log, to measure its readers (benches/reading).
//!
//!     cargo run --release -p iocrec-log --example write_log DIR MEGABYTES scanning|mixture|losses|flood|crowd|loops
//!
//! Prints the number of its events.

mod load;

use load::Load;
use std::error::Error;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [directory, megabytes, load] = arguments.as_slice() else {
        return Err("usage: write_log DIR MEGABYTES scanning|mixture|losses|flood|crowd|loops".into());
    };
    let load = Load::named(load).ok_or("a load is scanning, mixture, losses, flood, crowd or loops")?;
    std::fs::create_dir_all(directory)?;
    let events = load::write(Path::new(directory), megabytes.parse::<u64>()? * 1_000_000, load)?;
    println!("{events}");
    Ok(())
}
