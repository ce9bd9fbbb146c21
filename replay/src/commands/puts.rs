//! `iocreplay puts`

use super::command::{Command, Outcome};
use super::options::{
    by_place, by_pv, by_who, growing, reading, since, time, time_zone, until, ByPlace, ByPv, ByWho, Growing, Reading, Since,
    TimeZone, Until,
};
use crate::failure::{Failure, UsageError};
use crate::filter::Filter;
use crate::follow::{follow, Timed};
use crate::model::putlog::PutLine;
use crate::nothing_found::{explain, Kind};
use crate::out::Out;
use crate::output::format::{self, Format};
use crate::output::puts::FORMATS;
use crate::terminal::Terminal;
use crate::time::Boundary;
use iocrec_cli::command;

command! {
    /// Show the put log: who wrote what to which PV, from where, and with what result. By default, puts from outside the
    /// IOCs.
    #[argh(subcommand, name = "puts")]
    pub struct Puts {
        /// output format: text (default), jsonl (a JSON object for each put) or csv
        #[argh(option, default = "&FORMATS[0]", from_str_fn(parse_format))]
        pub format: &'static Format<PutLine>,
        /// also show puts of database links and CA links
        #[argh(switch)]
        pub all: bool,
    } with since: Since, until: Until, by_pv: ByPv, by_who: ByWho,
        by_place: ByPlace, growing: Growing, time_zone: TimeZone, reading: Reading
}

fn parse_format(name: &str) -> Result<&'static Format<PutLine>, String> {
    format::find(&FORMATS, name).map_err(|error| error.to_string())
}

impl Timed for PutLine {
    fn time(&self) -> i64 {
        self.time
    }

    fn name(&self) -> String {
        let part = |part: &Option<String>| part.clone().unwrap_or_default();
        [part(&self.host), part(&self.ioc), part(&self.pv), part(&self.client)].join("\n")
    }
}

impl Command for Puts {
    fn reading(&self) -> Reading {
        self.into()
    }

    fn check(&self) -> Result<(), UsageError> {
        Growing::from(self).check(&self.reading())
    }

    fn run(&self, out: &mut Out) -> Result<Outcome, Failure> {
        let zone = TimeZone::from(self).zone();
        let logs = self.reading().open()?;
        let filter = ByWho::from(self).add_to(ByPv::from(self).add_to(ByPlace::from(self).filter()));
        let filter = Filter {
            since: time(&zone, &self.since, Boundary::Start, &logs)?,
            until: time(&zone, &self.until, Boundary::End, &logs)?,
            ..filter
        };
        let mut writer = (self.format.writer)(&zone);
        let mut is_empty = true;
        writer.begin(out)?;
        if self.follow {
            let reading = self.reading();
            return follow(
                &reading.logs,
                filter,
                || reading.open_again(),
                |logs, filter, each| {
                    let puts = logs.puts(filter);
                    (if self.all { puts.with_links() } else { puts }).try_for_each(each)
                },
                |put| match put {
                    Some(put) => Ok(writer.write(out, put)?),
                    None => Ok(out.flush()?),
                },
            )
            .map(|()| Outcome::Complete);
        }
        let puts = logs.puts(&filter);
        for put in if self.all { puts.with_links() } else { puts } {
            is_empty = false;
            writer.write(out, &put)?;
        }
        writer.end(out)?;
        if is_empty {
            // Parts that can't be read were reported.
            let logs = logs.without_notices();
            let only_links = !self.all && logs.puts(&filter).with_links().next().is_some();
            Terminal.report(&explain(Kind::Puts, &logs, &filter, only_links, &zone));
        }
        Ok(Outcome::from(&logs))
    }
}
