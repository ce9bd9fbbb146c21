//! `iocreplay values`

use super::command::{Command, Outcome};
use super::operands::{Operands, Usage};
use super::options::{
    by_place, patterns, reading, since, time, time_zone, until, ByPlace, Reading, Since, TimeZone, Until,
};
use crate::failure::{Failure, UsageError};
use crate::filter::Filter;
use crate::model::history::ValueLine;
use crate::nothing_found::{explain, Kind};
use crate::out::Out;
use crate::output::format::{self, Format};
use crate::output::values::FORMATS;
use crate::terminal::Terminal;
use crate::time::Boundary;
use iocrec_cli::command;

command! {
    /// Show every value that PVs had, with time, alarm and cause.
    #[argh(subcommand, name = "values")]
    pub struct Values {
        /// output format: text (default), jsonl (a JSON object for each value) or csv
        #[argh(option, default = "&FORMATS[0]", from_str_fn(parse_format))]
        pub format: &'static Format<ValueLine>,
        /// records, or record.FIELD, with * ? [a-z]; a record alone is its VAL
        #[argh(positional, arg_name = "pv...")]
        pub pv: String,
    } with since: Since, until: Until, by_place: ByPlace, time_zone: TimeZone, reading: Reading
}

fn parse_format(name: &str) -> Result<&'static Format<ValueLine>, String> {
    format::find(&FORMATS, name).map_err(|error| error.to_string())
}

impl Values {
    fn divided(&self) -> Operands {
        Operands::new(std::slice::from_ref(&self.pv), &self.logs)
    }
}

impl Command for Values {
    fn reading(&self) -> Reading {
        Reading { logs: self.divided().logs, ..self.into() }
    }

    fn operands(&self) -> &'static str {
        "PV... "
    }

    fn check(&self) -> Result<(), UsageError> {
        self.divided().check(Usage { command: "values", name: "PV", most: usize::MAX })
    }

    fn run(&self, out: &mut Out) -> Result<Outcome, Failure> {
        let zone = TimeZone::from(self).zone();
        let logs = self.reading().open()?;
        let filter = Filter {
            since: time(&zone, &self.since, Boundary::Start, &logs)?,
            until: time(&zone, &self.until, Boundary::End, &logs)?,
            pv: patterns(&self.divided().names),
            ..ByPlace::from(self).filter()
        };
        let mut writer = (self.format.writer)(&zone);
        let mut is_empty = true;
        writer.begin(out)?;
        let named = |line: &ValueLine| line.unseen.is_some() || line.is_named(&filter.pv);
        for line in logs.values(&filter).with_gaps().filter(named) {
            is_empty = false;
            writer.write(out, &line)?;
        }
        writer.end(out)?;
        if is_empty {
            Terminal.report(&explain(Kind::Values, &logs.without_notices(), &filter, false, &zone));
        }
        Ok(Outcome::from(&logs))
    }
}
