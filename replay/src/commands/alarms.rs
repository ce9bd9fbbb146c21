//! `iocreplay alarms`

use super::command::{Command, Outcome};
use super::options::{
    by_place, by_pv, by_who, growing, reading, selection, since, time_zone, until, with_aliases, ByPlace,
    ByPv, ByWho, Chosen, Growing, Reading, Since, TimeZone, Until,
};
use crate::failure::{Failure, UsageError};
use crate::filter::Filter;
use crate::follow::{follow, Timed};
use crate::model::alarms::{Alarm, AlarmLine, Place, Until as Lasted, What};
use crate::nothing_found::{explain, Kind};
use crate::out::Out;
use crate::output::alarms::FORMATS;
use crate::output::format::{self, Format};
use crate::shown_names::own_name;
use crate::terminal::Terminal;
use crate::words::counted;
use crate::Logs;
use iocrec_cli::command;
use std::collections::HashMap;

/// Records whose last alarm is remembered with --follow; a bound for hostile logs.
const MAX_RECORDS: usize = 500_000;

/// The last alarm of each record, in a log that is followed: a later pass begins in the middle, and does not know it.
#[derive(Default)]
pub struct Known(HashMap<String, Alarm>);

impl From<Vec<(String, Alarm)>> for Known {
    fn from(known: Vec<(String, Alarm)>) -> Self {
        Known(known.into_iter().collect())
    }
}

impl Known {
    /// Whether a line tells more than that the alarm of a record is as it was.
    pub fn is_news(&mut self, line: &AlarmLine) -> bool {
        let (What::Change, Some(to)) = (line.what, line.to) else { return true };
        let before = if self.0.len() < MAX_RECORDS || self.0.contains_key(&line.name()) {
            self.0.insert(line.name(), to)
        } else {
            None
        };
        line.from.is_some() || before != Some(to)
    }

    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = (&str, Alarm)> {
        self.0.iter().map(|(name, alarm)| (name.as_str(), *alarm))
    }
}

command! {
    /// Show how alarms changed: from which severity to which, when, why, how long it lasted, who acknowledged; and at
    /// the end, what is still in alarm. A record that flaps (its alarm rises to the same severity for the third time
    /// within 60 s) is summed up in a line until its alarm has been steady for 60 s.
    #[argh(subcommand, name = "alarms")]
    pub struct Alarms {
        /// output format: text (default), jsonl (a JSON object for each change) or csv
        #[argh(option, default = "&FORMATS[0]", from_str_fn(parse_format))]
        pub format: &'static Format<AlarmLine>,
        /// only changes from or to this severity or a higher one: MINOR, MAJOR or INVALID
        #[argh(option, default = "epics::alarm::NO_ALARM", from_str_fn(parse_severity), arg_name = "severity")]
        pub severity: u16,
        /// also show each change of a record that flaps, and the alarm that records have until they first process
        #[argh(switch)]
        pub all: bool,
    } with since: Since, until: Until, by_pv: ByPv, by_who: ByWho,
        by_place: ByPlace, growing: Growing, time_zone: TimeZone, reading: Reading
}

fn parse_format(name: &str) -> Result<&'static Format<AlarmLine>, String> {
    format::find(&FORMATS, name).map_err(|error| error.to_string())
}

fn parse_severity(name: &str) -> Result<u16, String> {
    let severities = epics::alarm::MINOR..=epics::alarm::INVALID;
    let named = |severity: &u16| {
        epics::alarm::severity_name(*severity).is_some_and(|known| known.eq_ignore_ascii_case(name))
    };
    let mut found = severities.filter(named);
    found.next().ok_or_else(|| format!("unknown severity '{name}'; choose MINOR, MAJOR or INVALID"))
}

impl Command for Alarms {
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
        let chosen: Chosen = (self.into(), self.into(), self.into(), self.into(), self.into());
        let filter = with_aliases(&logs, selection(&zone, &logs, &chosen)?);
        logs.report_recorded_twice(&filter);
        let mut writer = (self.format.writer)(&zone);
        if self.follow {
            writer.begin(out)?;
            return self.follow(filter, &mut |line| match line {
                Some(line) => Ok(writer.write(out, line)?),
                None => Ok(out.flush()?),
            });
        }
        let alarms = logs.alarms(&filter).at_least(self.severity);
        let (mut is_empty, mut unprocessed, mut since) = (true, 0_u64, "never processed");
        writer.begin(out)?;
        for line in if self.all { alarms.with_all() } else { alarms } {
            if line.unprocessed && !self.all {
                unprocessed += 1;
                if line.until == Some(Lasted::Gap) {
                    since = "had not processed when last seen";
                }
                continue;
            }
            is_empty = false;
            writer.write(out, &line)?;
        }
        writer.end(out)?;
        if unprocessed > 0 {
            Terminal.report(&format_args!(
                "not shown: {} that {since}, with the alarm that records begin with; --all shows them",
                counted(unprocessed, "record")
            ));
        }
        if is_empty {
            let logs = logs.without_notices();
            Terminal.report(&explain(Kind::Alarms, &logs, &filter, false, &zone));
        }
        Ok(Outcome::from(&logs))
    }
}

impl Alarms {
    /// Follows the log: each change as it comes, without summaries, since nobody knows yet what will flap.
    fn follow(
        &self,
        filter: Filter,
        write: &mut dyn FnMut(Option<&AlarmLine>) -> Result<(), Failure>,
    ) -> Result<Outcome, Failure> {
        let reading = self.reading();
        let mut known = Known::default();
        let rows = |logs: &Logs, filter: &Filter, each: &mut dyn FnMut(AlarmLine) -> Result<(), Failure>| {
            let wanted = |line: &AlarmLine| {
                matches!(line.what, What::Change | What::Acknowledged) && (self.all || !line.unprocessed)
            };
            logs.alarms(filter).at_least(self.severity).with_all().filter(wanted).try_for_each(each)
        };
        let write = |line: Option<&AlarmLine>| {
            let Some(line) = line else { return write(None) };
            if known.is_news(line) {
                write(Some(line))?;
            }
            Ok(())
        };
        follow(&reading.logs, filter, || ByPlace::from(self).open_again(&reading), rows, write)
            .map(|()| Outcome::Complete)
    }
}

impl Timed for AlarmLine {
    fn time(&self) -> i64 {
        self.time
    }

    fn even(&self) -> i64 {
        self.time.saturating_sub(self.ahead)
    }

    fn name(&self) -> String {
        let Place { host, ioc, record, .. } = &self.place;
        // others of its name may come to light while the log grows
        [host, own_name(ioc), record].join("\n")
    }
}
