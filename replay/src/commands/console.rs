//! `iocreplay console`

use super::command::{Command, Outcome};
use super::options::{
    by_place, by_pv, growing, reading, report_begins, since, time, time_zone, until, with_aliases, ByPlace,
    ByPv, Growing, Reading, Since, TimeZone, Until,
};
use crate::answers::console::Row;
use crate::failure::{Failure, UsageError};
use crate::filter::Filter;
use crate::follow::{follow, Timed};
use crate::nothing_found::{explain, Kind};
use crate::out::Out;
use crate::output::console::FORMATS;
use crate::output::format::{self, Format};
use crate::shown_names::own_name;
use crate::terminal::Terminal;
use crate::time::Boundary;
use crate::Logs;
use iocrec_cli::command;

command! {
    /// Show what the IOCs printed, line by line: who said it, with which severity, and which record was being processed;
    /// and how threads ended their IOCs or gave up. With --pv, only what was said while such records were processed.
    #[argh(subcommand, name = "console")]
    pub struct Console {
        /// output format: text (default), jsonl (a JSON object for each line) or csv
        #[argh(option, default = "&FORMATS[0]", from_str_fn(parse_format))]
        pub format: &'static Format<Row>,
    } with since: Since, until: Until, by_pv: ByPv, by_place: ByPlace, growing: Growing,
        time_zone: TimeZone, reading: Reading
}

fn parse_format(name: &str) -> Result<&'static Format<Row>, String> {
    format::find(&FORMATS, name).map_err(|error| error.to_string())
}

impl Command for Console {
    fn reading(&self) -> Reading {
        self.into()
    }

    fn follows(&self) -> bool {
        self.follow
    }

    fn check(&self) -> Result<(), UsageError> {
        Growing::from(self).check(&self.reading())
    }

    fn run(&self, out: &mut Out) -> Result<Outcome, Failure> {
        let zone = TimeZone::from(self).zone();
        let logs = ByPlace::from(self).open(&self.reading())?;
        let (since, until): (Since, Until) = (self.into(), self.into());
        let filter = Filter {
            since: time(&zone, &since.since, Boundary::Start, &logs)?,
            until: time(&zone, &until.until, Boundary::End, &logs)?,
            ..ByPv::from(self).add_to(ByPlace::from(self).filter_of(&logs))
        };
        report_begins(&zone, &logs, &filter);
        logs.report_recorded_twice(&filter);
        let filter = with_aliases(&logs, filter);
        let mut writer = (self.format.writer)(&zone);
        writer.begin(out)?;
        if self.follow {
            let reading = self.reading();
            let rows = |logs: &Logs, filter: &Filter, each: &mut dyn FnMut(Row) -> Result<(), Failure>| {
                logs.console(filter).try_for_each(each)
            };
            let write = |row: Option<&Row>| match row {
                Some(row) => Ok(writer.write(out, row)?),
                None => Ok(out.flush()?),
            };
            follow(&reading.logs, filter, || ByPlace::from(self).open_again(&reading), rows, write)?;
            return Ok(Outcome::Complete);
        }
        let mut is_empty = true;
        for row in logs.console(&filter) {
            is_empty = false;
            writer.write(out, &row)?;
        }
        writer.end(out)?;
        if is_empty {
            Terminal.report(&explain(Kind::Console, &logs.without_notices(), &filter, false, &zone));
        }
        Ok(Outcome::from(&logs))
    }
}

impl Timed for Row {
    fn time(&self) -> i64 {
        self.time
    }

    fn even(&self) -> i64 {
        self.even
    }

    fn name(&self) -> String {
        // others of its name may come to light while the log grows
        [&*self.host, own_name(&self.ioc), self.text.as_str()].join("\n")
    }
}
