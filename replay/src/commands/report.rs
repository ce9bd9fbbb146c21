//! `iocreplay report`

use super::command::{Command, Outcome};
use super::options::{
    by_place, by_pv, by_who, named_file, reading, selection, since, time_zone, until, with_aliases, ByPlace,
    ByPv, ByWho, Chosen, Reading, Since, TimeZone, Until,
};
use crate::failure::{Failure, UsageError};
use crate::nothing_found::{explain, Kind};
use crate::out::Out;
use crate::output::{self, caput::shell};
use crate::terminal::{self, Terminal};
use iocrec_cli::command;
use std::io::IsTerminal;
use std::path::PathBuf;

command! {
    /// Write a report: one HTML page that needs nothing else, with what ended, who wrote what before, which records went
    /// into alarm, and what the logs can't say. With --pv, --exclude, --user or --client it is limited to these, and says so.
    #[argh(subcommand, name = "report")]
    pub struct Report {} with since: Since, until: Until, by_pv: ByPv, by_who: ByWho, by_place: ByPlace,
        time_zone: TimeZone, reading: Reading
}

impl Command for Report {
    fn reading(&self) -> Reading {
        self.into()
    }

    /// Nobody reads HTML on a terminal.
    fn check(&self) -> Result<(), UsageError> {
        let is_printed = named_file(self.output.as_deref()).is_none() && !self.logs.is_empty();
        match is_printed && terminal::standard().is_terminal() {
            true => Err(UsageError::ReportToTerminal),
            false => Ok(()),
        }
    }

    fn run(&self, out: &mut Out) -> Result<Outcome, Failure> {
        let zone = TimeZone::from(self).zone();
        let logs = ByPlace::from(self).open(&self.reading())?;
        let chosen: Chosen = (self.into(), self.into(), self.into(), self.into(), self.into());
        let filter = with_aliases(&logs, selection(&zone, &logs, &chosen)?);
        logs.report_mixed();
        logs.report_recorded_twice(&filter);
        let report = output::report::make(&logs, &filter, &zone);
        if report.is_empty {
            let logs = logs.without_notices();
            Terminal.report(&explain(Kind::Chains, &logs, &filter, false, &zone));
        }
        output::report::write(out, report, self.line())?;
        Ok(Outcome::from(&logs))
    }
}

impl Report {
    /// The command line that makes this report, as a shell takes it.
    fn line(&self) -> String {
        let options = [
            ("--since", &self.since),
            ("--until", &self.until),
            ("--user", &self.user),
            ("--client", &self.client),
            ("--ioc", &self.ioc),
            ("--pod", &self.pod),
            ("--host", &self.host),
        ];
        let options = options.into_iter().filter_map(|(name, value)| Some([name, value.as_deref()?]));
        let names = [("--pv", &self.pv), ("--exclude", &self.exclude)];
        let names =
            names.into_iter().flat_map(|(name, globs)| globs.iter().map(move |glob| [name, glob.as_str()]));
        let switches = [("--utc", self.utc), ("--no-limit", self.no_limit)];
        let switches = switches.into_iter().filter_map(|(name, is_given)| is_given.then_some(name));
        let paths = |paths: &[PathBuf]| -> Vec<String> {
            paths.iter().map(|path| shell::word(&path.to_string_lossy())).collect()
        };
        let mut line = vec!["iocreplay report".to_owned()];
        line.extend(options.chain(names).flatten().chain(switches).map(shell::word));
        line.extend(Some(self.reading().offsets().to_string()).filter(|offsets| !offsets.is_empty()));
        line.extend(paths(&self.logs));
        if let Some(output) = &self.output {
            line.push("-o".to_owned());
            line.extend(paths(std::slice::from_ref(output)));
        }
        line.join(" ")
    }
}
