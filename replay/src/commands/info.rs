//! `iocreplay info`

use super::command::{Command, Outcome};
use super::options::{json, reading, time_zone, Json, Reading, TimeZone};
use crate::answers::summary::RunSummary;
use crate::failure::Failure;
use crate::out::Out;
use crate::output;
use iocrec_cli::command;

command! {
    /// Show what the logs hold (hosts, IOCs, time span, counts) and what is missing (losses, gaps, damage).
    #[argh(subcommand, name = "info")]
    pub struct Info {} with json: Json, time_zone: TimeZone, reading: Reading
}

impl Command for Info {
    fn reading(&self) -> Reading {
        self.into()
    }

    fn run(&self, out: &mut Out) -> Result<Outcome, Failure> {
        let zone = TimeZone::from(self).zone();
        let logs = self.reading().open(None)?;
        let read = |run: &Vec<_>| RunSummary::read_with(run, logs.notices(), &zone, logs.uses_index());
        let runs: Vec<RunSummary> = logs.runs().iter().map(read).collect();
        match Json::from(self).shape() {
            Some(shape) => output::info::write(out, &runs, &logs.host_clocks(), shape)?,
            None => output::info::json(out, &runs, &logs.host_clocks())?,
        }
        Ok(Outcome::from(&logs))
    }
}
