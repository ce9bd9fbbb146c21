//! `iocreplay at`

use super::command::{Command, Outcome};
use super::options::{
    by_place, by_pv, moment, no_log_as_time, reading, time_zone, with_aliases, ByPlace, ByPv, Reading,
    TimeZone,
};
use crate::answers::states;
use crate::answers::states::state::FieldState;
use crate::answers::states::to_setting::setting;
use crate::failure::{Failure, UsageError};
use crate::filter::Filter;
use crate::model::setting::LeftOut;
use crate::nothing_found::{explain, Kind};
use crate::out::Out;
use crate::output::at::{known, AtRow, FORMATS};
use crate::output::settings::{Chosen, Heading, SettingsFormat};
use crate::terminal::Terminal;
use crate::time::{Boundary, Zone};
use crate::words::counted;
use iocrec_cli::command;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

command! {
    /// Show the values of all PVs at a time, each with its age and alarm, and those that are not known.
    #[argh(subcommand, name = "at")]
    pub struct At {
        /// output format: text (default), jsonl, csv, or one that restores the values: caput (a script), autosave, burt,
        /// phoebus-snapshot, phoebus-configuration
        #[argh(option, default = "Chosen::Rows(&FORMATS[0])", from_str_fn(parse_format))]
        pub format: Chosen<AtRow>,
        /// the time, written like --since
        #[argh(positional, arg_name = "time")]
        pub time: String,
    } with by_pv: ByPv, by_place: ByPlace, time_zone: TimeZone, reading: Reading
}

fn parse_format(name: &str) -> Result<Chosen<AtRow>, String> {
    Chosen::find(&FORMATS, name).map_err(|error| error.to_string())
}

impl Command for At {
    fn reading(&self) -> Reading {
        self.into()
    }

    fn operands(&self) -> &'static str {
        "TIME "
    }

    fn check(&self) -> Result<(), UsageError> {
        no_log_as_time(&[self.time.as_str()], "at TIME")
    }

    fn run(&self, out: &mut Out) -> Result<Outcome, Failure> {
        let zone = TimeZone::from(self).zone();
        let logs = ByPlace::from(self).open(&self.reading())?;
        let filter = ByPv::from(self).add_to(ByPlace::from(self).filter_of(&logs));
        let filter = with_aliases(&logs, filter);
        let time = moment(&zone, &self.time, Boundary::End, &logs)?;
        let state = states::at(&logs, &filter, time);
        let (left_out, is_full) = (state.chains_left_out(), state.is_full());
        let fields = state.into_fields(&filter);
        if fields.is_empty() {
            let filter = Filter { until: Some(time.saturating_add(1)), ..filter };
            Terminal.report(&explain(Kind::Values, &logs.without_notices(), &filter, false, &zone));
        } else {
            summarize(&fields, left_out, is_full, &zone.format(time, 3));
        }
        match self.format {
            Chosen::Rows(format) => {
                let mut writer = (format.writer)(&zone);
                writer.begin(out)?;
                let (set_back, leaps) = (logs.set_back(), logs.leaps().into_iter());
                let leaps: HashMap<String, Rc<[(i64, i64)]>> =
                    leaps.map(|(host, of)| (host, of.into_iter().collect())).collect();
                let none: Rc<[(i64, i64)]> = Rc::from([]);
                for field in fields {
                    let host = &*field.key.0.host;
                    let is_known = !set_back.contains_key(host);
                    let leaps = is_known.then(|| Rc::clone(leaps.get(host).unwrap_or(&none)));
                    writer.write(out, &AtRow { time, field, leaps })?;
                }
                writer.end(out)?;
            }
            Chosen::Settings(format) => restore(out, format, &fields, time, &zone)?,
        }
        Ok(Outcome::from(&logs))
    }
}

/// Writes a file that restores values, and reports those that it leaves out.
pub fn restore(
    out: &mut Out,
    format: &SettingsFormat,
    fields: &[FieldState],
    time: i64,
    zone: &Zone,
) -> Result<(), Failure> {
    let settings: Vec<_> = fields.iter().map(setting).collect();
    let title = format!("Values at {}", zone.format(time, 3));
    let left_out = (format.write)(out, &Heading { title: &title, time, zone }, &settings)?;
    report_left_out(&left_out);
    Ok(())
}

/// Reports how many values are known.
fn summarize(fields: &[FieldState], left_out: u64, is_full: bool, time: &str) {
    let count = |is: &str| fields.iter().filter(|field| known(field) == is).count();
    let (doubt, unknown) = (count("doubt"), count("no"));
    if doubt > 0 || unknown > 0 {
        let sure = count("yes");
        let are = |count: usize| if count == 1 { "is" } else { "are" };
        Terminal.report(&format_args!(
            "of {} at {time}, {sure} {} known, {doubt} may have changed since last seen, {unknown} {} unknown",
            counted(fields.len() as u64, "PV"),
            are(sure),
            are(unknown)
        ));
    }
    if left_out > 0 {
        Terminal.report(&format_args!(
            "chain sampling left out {} before that time: records that process only in such chains may have other values",
            counted(left_out, "chain")
        ));
    }
    if is_full {
        Terminal.report(&"there are more PVs than fit in memory; choose some with --pv");
    }
}

/// Values left out for the same reason that are named; the others are counted.
const NAMED: usize = 5;

/// Reports what is left out: by reason, so that a common one does not hide the others.
pub fn report_left_out(all: &[LeftOut]) {
    let mut reasons: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for left_out in all {
        reasons.entry(left_out.reason.to_string()).or_default().push(&left_out.pv);
    }
    for (reason, pvs) in reasons {
        match pvs.len().checked_sub(NAMED + 1) {
            None => pvs.iter().for_each(|pv| Terminal.report(&format_args!("{pv} is left out: {reason}"))),
            Some(_) => {
                let named: Vec<&str> = pvs.iter().take(NAMED).copied().collect();
                let count = pvs.len();
                Terminal
                    .report(&format_args!("{count} PVs are left out, {} ...: {reason}", named.join(", ")));
            }
        }
    }
}
