//! `iocreplay iocs`

use super::command::{Command, Outcome};
use super::options::{by_place, listing, reading, time_zone, ByPlace, Listing, Reading, TimeZone};
use crate::answers::inventory::Inventory;
use crate::answers::processes::Processes;
use crate::failure::Failure;
use crate::filter::Filter;
use crate::nothing_found::{explain, Kind};
use crate::out::Out;
use crate::output;
use crate::terminal::Terminal;
use iocrec_cli::command;

command! {
    /// List the IOCs that were recorded: program, ports, how each ended, and what of it could not be recorded.
    #[argh(subcommand, name = "iocs")]
    pub struct Iocs {} with listing: Listing, by_place: ByPlace, time_zone: TimeZone, reading: Reading
}

impl Command for Iocs {
    fn reading(&self) -> Reading {
        self.into()
    }

    fn run(&self, out: &mut Out) -> Result<Outcome, Failure> {
        let zone = TimeZone::from(self).zone();
        let logs = ByPlace::from(self).open(&self.reading())?;
        let filter = Filter { pod: logs.pods(), ..ByPlace::from(self).filter() };
        let shape = Listing::from(self).shape();
        // of a single run, its own inventory knows all ends
        let processes = match logs.runs().len() {
            0 | 1 => Processes::default(),
            _ => Processes::read(&logs),
        };
        let mut count = 0;
        for (number, run) in logs.runs().iter().enumerate() {
            let found = Inventory::read(run, logs.notices());
            let of_all = (number, &processes);
            count += output::iocs::write(out, &found, of_all, &filter, shape, count == 0, &zone)?;
        }
        if count == 0 {
            Terminal.report(&explain(Kind::Iocs, &logs.without_notices(), &filter, false, &zone));
        }
        Ok(Outcome::from(&logs))
    }
}
