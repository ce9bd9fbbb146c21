//! `iocreplay undo`

use super::at::report_left_out;
use super::command::{Command, Outcome};
use super::options::{
    begins_after, by_place, by_pv, by_who, listing, moment, reading, time, time_zone, until, with_aliases,
    ByPlace, ByPv, ByWho, Listing, Reading, TimeZone, Until,
};
use crate::answers::undo::{plan, Plan};
use crate::failure::Failure;
use crate::filter::Filter;
use crate::nothing_found::{explain, Kind};
use crate::out::Out;
use crate::output;
use crate::output::rows::Shape;
use crate::terminal::Terminal;
use crate::time::Boundary;
use iocrec_cli::command;

command! {
    /// Make a shell script that puts back what was written. The script shows what it would do; called with --yes, it
    /// does it. With --format jsonl or csv, list what it would put back instead.
    #[argh(subcommand, name = "undo")]
    pub struct Undo {
        /// undo what was written at this time or later; written as elsewhere: ISO 8601, -10m, 10:03, yesterday
        #[argh(option, arg_name = "time")]
        pub since: String,
    } with listing: Listing, until: Until, by_pv: ByPv, by_who: ByWho, by_place: ByPlace, time_zone: TimeZone, reading: Reading
}

impl Command for Undo {
    fn reading(&self) -> Reading {
        self.into()
    }

    fn run(&self, out: &mut Out) -> Result<Outcome, Failure> {
        let zone = TimeZone::from(self).zone();
        let logs = ByPlace::from(self).open(&self.reading())?;
        let filter = ByWho::from(self).add_to(ByPv::from(self).add_to(ByPlace::from(self).filter_of(&logs)));
        let filter = with_aliases(&logs, filter);
        let since = moment(&zone, &self.since, Boundary::Start, &logs)?;
        let until = time(&zone, &self.until, Boundary::End, &logs)?;
        let filter = Filter { since: Some(since), until, ..filter };
        logs.report_recorded_twice(&filter);
        let plan = plan(&logs, &filter);
        let until = until.map_or(String::new(), |until| format!(" until {}", zone.format(until, 3)));
        let who = [("user", &self.user), ("client", &self.client)].into_iter();
        let who: String =
            who.filter_map(|(what, name)| Some(format!(", by {what} {}", name.as_ref()?))).collect();
        // what was written before is not known: the script must not seem to put it back
        let begins = begins_after(&zone, &logs, &filter, since);
        let held = begins.as_ref().map_or(String::new(), |begins| format!(" ({begins})"));
        let what = format!("since {}{held}{until}{who}", zone.format(since, 3));
        if let Some(begins) = begins {
            Terminal.report(&format_args!("{begins}: what was written before is not undone"));
        }
        if plan.fields.is_empty() && plan.unchanged == 0 {
            let logs = logs.without_notices();
            match plan.refused {
                0 => Terminal.report(&explain(Kind::Puts, &logs, &filter, false, &zone)),
                _ => report(&plan),
            }
        } else {
            report(&plan);
        }
        let left_out = match Listing::from(self).shape() {
            Shape::Text => output::undo::write(out, &plan, &what, &zone),
            shape => output::undo::rows(out, &plan, shape, &zone),
        };
        report_left_out(&left_out?);
        Ok(Outcome::from(&logs))
    }
}

/// Reports puts that need no line in the script.
fn report(plan: &Plan) {
    for (count, of_one, of_more) in [
        (
            plan.refused,
            "put was refused: there is nothing to undo",
            "puts were refused: there is nothing to undo",
        ),
        (
            plan.acknowledgements,
            "acknowledgement of an alarm can't be undone",
            "acknowledgements of alarms can't be undone",
        ),
        (plan.unchanged, "PV has the value that it had before", "PVs have the value that they had before"),
        (
            plan.unnamed,
            "put went to a record or field that the log does not name: it is not undone",
            "puts went to records or fields that the log does not name: they are not undone",
        ),
    ] {
        if count > 0 {
            let words = if count == 1 { of_one } else { of_more };
            Terminal.report(&format_args!("{count} {words}"));
        }
    }
    if plan.full {
        Terminal.report(&"there are more PVs than fit in memory; choose some with --pv");
    }
}
