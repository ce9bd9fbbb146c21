//! `iocreplay last`

use super::command::{Command, Outcome};
use super::options::{
    by_place, listing, reading, time, time_zone, until, ByPlace, Listing, Reading, TimeZone, Until,
};
use crate::answers::last::Last as Found;
use crate::failure::{Failure, UsageError};
use crate::filter::Filter;
use crate::nothing_found::{explain, Kind};
use crate::operands::{Operands, Usage};
use crate::out::Out;
use crate::output;
use crate::pattern::Pattern;
use crate::shown_names::without_pid;
use crate::terminal::Terminal;
use crate::time::Boundary;
use crate::wording::cause;
use iocrec_cli::command;
use std::rc::Rc;

command! {
    /// Show the last minute of an IOC on one screen: how it ended, what its threads were at, the last puts, alarms, rates
    /// against before, what is missing, who was connected. LOG may come after the name of an IOC, with * ? [a-z]. Of
    /// several IOCs, shows the one that ended last. What ended it is not concluded from what it did last.
    #[argh(subcommand, name = "last")]
    pub struct Last {} with until: Until, by_place: ByPlace, listing: Listing, time_zone: TimeZone, reading: Reading
}

impl Last {
    fn divided(&self) -> Operands {
        Operands::new(&[], &self.logs)
    }
}

impl Command for Last {
    fn reading(&self) -> Reading {
        Reading { logs: self.divided().logs, ..self.into() }
    }

    fn operands(&self) -> &'static str {
        "[IOC] "
    }

    fn check(&self) -> Result<(), UsageError> {
        Ok(self.divided().check(Usage { command: "last", name: "IOC", most: 1 })?)
    }

    fn run(&self, out: &mut Out) -> Result<Outcome, Failure> {
        let zone = TimeZone::from(self).zone();
        let filter = ByPlace::from(self).filter();
        let named = self.divided().names.first().map(|name| Pattern::from(name.as_str()));
        let logs = ByPlace::from(self).open_naming(&self.reading(), named.clone().or(filter.ioc.clone()))?;
        let is_named = named.is_some() || filter.ioc.is_some();
        let filter = Filter {
            until: time(&zone, &self.until, Boundary::End, &logs)?,
            ioc: named.or(filter.ioc),
            pod: logs.pods(),
            ..filter
        };
        logs.report_mixed();
        logs.report_recorded_twice(&filter);
        let Some(last) = Found::read(&logs, &filter, cause::of_root) else {
            Terminal.report(&explain(Kind::Iocs, &logs.without_notices(), &filter, false, &zone));
            return Ok(Outcome::from(&logs));
        };
        // before the log begins nothing is known, neither that nothing happened nor that nothing is missing
        let host = Rc::clone(&last.process.host);
        let is_before =
            |until: i64| !logs.begins_after(until.saturating_sub(1), |name| *name == *host).is_empty();
        if filter.until.is_some_and(is_before) {
            Terminal.report(&explain(Kind::Iocs, &logs.without_notices(), &filter, false, &zone));
            return Ok(Outcome::from(&logs));
        }
        if last.others > 0 {
            let pid = last.process.pid;
            let ioc = without_pid(&last.process.ioc, pid);
            let others = match last.others {
                1 => "another process".to_owned(),
                others => format!("a choice of {others} other processes"),
            };
            let place = if is_named { "of that name" } else { "in these logs" };
            Terminal.report(&format_args!(
                "shows {ioc}, pid {pid}, which ended or was recorded last; there is {others} {place}: iocreplay iocs lists \
                 them"
            ));
        }
        output::last::write(out, &last, Listing::from(self).shape(), &zone)?;
        Ok(Outcome::from(&logs))
    }
}
