//! `iocreplay records`

use super::command::{Command, Outcome};
use super::options::{by_place, by_pv, listing, reading, ByPlace, ByPv, Listing, Reading};
use crate::answers::inventory::Inventory;
use crate::failure::Failure;
use crate::nothing_found::{explain, Kind};
use crate::out::Out;
use crate::output;
use crate::output::records::Written;
use crate::terminal::Terminal;
use crate::time::Zone;
use iocrec_cli::command;

command! {
    /// List the records of the IOCs that were recorded: type, aliases, enum strings.
    #[argh(subcommand, name = "records")]
    pub struct Records {} with listing: Listing, by_pv: ByPv, by_place: ByPlace, reading: Reading
}

impl Command for Records {
    fn reading(&self) -> Reading {
        self.into()
    }

    fn run(&self, out: &mut Out) -> Result<Outcome, Failure> {
        let logs = ByPlace::from(self).open(&self.reading())?;
        let filter = ByPv::from(self).add_to(ByPlace::from(self).filter_of(&logs));
        let shape = Listing::from(self).shape();
        let mut written = Written::default();
        for run in logs.runs() {
            let found = Inventory::read(run, logs.notices());
            output::records::write(out, &found, &filter, shape, &mut written)?;
        }
        if written.is_empty() {
            Terminal.report(&explain(Kind::Records, &logs.without_notices(), &filter, false, &Zone::utc()));
        }
        Ok(Outcome::from(&logs))
    }
}
