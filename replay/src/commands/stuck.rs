//! `iocreplay stuck`

use super::command::{Command, Outcome};
use super::options::{
    by_place, by_pv, reading, report_begins, since, time, time_zone, until, with_aliases, ByPlace, ByPv,
    Reading, Since, TimeZone, Until,
};
use crate::answers::hangs::Hang;
use crate::failure::Failure;
use crate::filter::Filter;
use crate::nothing_found::{explain, Kind};
use crate::out::Out;
use crate::output::format::{self, Format};
use crate::output::stuck::FORMATS;
use crate::terminal::Terminal;
use crate::time::Boundary;
use iocrec_cli::command;

command! {
    /// List the threads of IOCs that stood still though they should have run: since when and how long, what they waited
    /// for, who held it, and the records at both ends; those that spun in a record; periodic scans that came too late; and
    /// queues of callbacks that filled or overflowed. With --pv, only those that name such records.
    #[argh(subcommand, name = "stuck")]
    pub struct StuckThreads {
        /// output format: text (default), jsonl (a JSON object for each) or csv
        #[argh(option, default = "&FORMATS[0]", from_str_fn(parse_format))]
        pub format: &'static Format<Hang>,
    } with since: Since, until: Until, by_pv: ByPv, by_place: ByPlace, time_zone: TimeZone, reading: Reading
}

fn parse_format(name: &str) -> Result<&'static Format<Hang>, String> {
    format::find(&FORMATS, name).map_err(|error| error.to_string())
}

impl Command for StuckThreads {
    fn reading(&self) -> Reading {
        self.into()
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
        let filter = with_aliases(&logs, filter);
        logs.report_recorded_twice(&filter);
        let rows = logs.hangs(&filter);
        let mut writer = (self.format.writer)(&zone);
        writer.begin(out)?;
        for row in &rows {
            writer.write(out, row)?;
        }
        writer.end(out)?;
        if rows.is_empty() {
            Terminal.report(&explain(Kind::Stuck, &logs.without_notices(), &filter, false, &zone));
        }
        Ok(Outcome::from(&logs))
    }
}
