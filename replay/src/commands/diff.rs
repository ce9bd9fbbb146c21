//! `iocreplay diff`

use super::at::{report_left_out, restore};
use super::command::{Command, Outcome};
use super::options::{
    by_place, by_pv, by_who, moment, no_log_as_time, reading, time_zone, with_aliases, ByPlace, ByPv, ByWho,
    Reading, TimeZone,
};
use crate::answers::states;
use crate::answers::states::state::FieldState;
use crate::failure::{Failure, UsageError};
use crate::filter::Filter;
use crate::model::obstacle::Obstacle;
use crate::model::setting::LeftOut;
use crate::nothing_found::{explain, mismatch, Kind};
use crate::out::Out;
use crate::output::diff::{DiffRow, Difference, FORMATS};
use crate::output::settings::Chosen;
use crate::terminal::Terminal;
use crate::time::Boundary;
use iocrec_cli::command;
use std::cmp::Ordering;
use std::collections::HashSet;
use std::rc::Rc;

command! {
    /// Show which PVs had other values at one time than at another: from what to what, how often they changed, and the
    /// cause of the last change. With --user or --client, only those to whose last change a put of theirs led.
    #[argh(subcommand, name = "diff")]
    pub struct Diff {
        /// output format: text (default), jsonl, csv, or one that restores the values of the first time: caput (a
        /// script), autosave, burt, phoebus-snapshot, phoebus-configuration
        #[argh(option, default = "Chosen::Rows(&FORMATS[0])", from_str_fn(parse_format))]
        pub format: Chosen<DiffRow>,
        /// the first time, written like --since
        #[argh(positional, arg_name = "time")]
        pub first: String,
        /// the second time
        #[argh(positional, arg_name = "time")]
        pub second: String,
    } with by_pv: ByPv, by_who: ByWho, by_place: ByPlace, time_zone: TimeZone, reading: Reading
}

fn parse_format(name: &str) -> Result<Chosen<DiffRow>, String> {
    Chosen::find(&FORMATS, name).map_err(|error| error.to_string())
}

impl Command for Diff {
    fn reading(&self) -> Reading {
        self.into()
    }

    fn operands(&self) -> &'static str {
        "TIME TIME "
    }

    fn check(&self) -> Result<(), UsageError> {
        no_log_as_time(&[self.first.as_str(), self.second.as_str()], "diff TIME TIME")
    }

    fn run(&self, out: &mut Out) -> Result<Outcome, Failure> {
        let zone = TimeZone::from(self).zone();
        let logs = ByPlace::from(self).open(&self.reading())?;
        let filter = ByPlace::from(self).filter_of(&logs);
        let filter = ByWho::from(self).add_to(ByPv::from(self).add_to(filter));
        logs.report_recorded_twice(&filter);
        let filter = with_aliases(&logs, filter);
        let first = moment(&zone, &self.first, Boundary::End, &logs)?;
        let second = moment(&zone, &self.second, Boundary::End, &logs)?;
        if first > second {
            let [first, second] = [first, second].map(|time| zone.format(time, 3));
            Terminal.report(&format_args!("{second} is before {first}: taking it as the first time"));
        }
        let (first, second) = (first.min(second), first.max(second));
        let (before, after) = states::between(&logs, &filter, first, second);
        let before = before.into_fields(&filter);
        let mut rows = Rows::of(before, after.into_fields(&filter));
        let shown = |row: &DiffRow| {
            let is_other =
                matches!(row.difference(), Difference::Changed | Difference::Unknown | Difference::Ended);
            is_other && filter.led_to(row.origin())
        };
        let theirs = if filter.asks_who() { rows.how_many(shown) } else { rows.rows.len() };
        let asked = Filter { since: Some(first), until: Some(second.saturating_add(1)), ..filter.clone() };
        let quiet = logs.without_notices();
        let said = match theirs {
            0 => Some(explain(Kind::Values, &quiet, &asked, false, &zone)),
            _ => mismatch(&quiet, &asked, &zone),
        };
        said.iter().for_each(|line| Terminal.report(line));
        if !rows.rows.is_empty() {
            summarize(&count(&mut rows));
        }
        if filter.asks_who() && theirs > 0 {
            let verb = if theirs == 1 { "is" } else { "are" };
            let whose = "the last change of which had a put by --user and --client as its cause";
            Terminal.report(&format_args!("{theirs} of them {verb} shown, {whose}"));
        }
        let rows = rows.into_rows().filter(shown);
        match self.format {
            Chosen::Rows(format) => {
                let mut writer = (format.writer)(&zone);
                writer.begin(out)?;
                for row in rows {
                    writer.write(out, &row)?;
                }
                writer.end(out)?;
            }
            Chosen::Settings(format) => {
                let (fields, unknown) = restorable(rows);
                restore(out, format, &fields, first, &zone)?;
                report_left_out(&unknown);
            }
        }
        Ok(Outcome::from(&logs))
    }
}

/// The fields of the first time, and those that were not known to exist then.
fn restorable(rows: impl Iterator<Item = DiffRow>) -> (Vec<FieldState>, Vec<LeftOut>) {
    let (mut fields, mut unknown) = (Vec::new(), Vec::new());
    for row in rows {
        match (row.before, row.after) {
            (Some(field), _) => fields.push(field),
            (None, Some(field)) => {
                let reason = Obstacle::UnknownAtFirst;
                unknown.push(LeftOut { pv: field.pv(), reason });
            }
            (None, None) => {}
        }
    }
    (fields, unknown)
}

/// The fields of both times, joined by host, IOC and name: a restarted IOC is another process. Where several processes
/// of an IOC's name are side by side, each stands for itself.
///
/// There may be very many, so rows are made one at a time.
struct Rows {
    before: Vec<Option<FieldState>>,
    after: Vec<Option<FieldState>>,
    /// The places of each row's fields in these, in order of their names.
    rows: Vec<(Option<u32>, Option<u32>)>,
}

type Name = (Rc<str>, Rc<str>, (u64, u32), Rc<str>, Rc<str>);

impl Rows {
    fn of(before: Vec<FieldState>, after: Vec<FieldState>) -> Rows {
        let several: HashSet<(Rc<str>, Rc<str>)> = before
            .iter()
            .chain(&after)
            .filter(|field| field.is_namesake)
            .map(|FieldState { key: (process, ..), .. }| (Rc::clone(&process.host), Rc::clone(&process.ioc)))
            .collect();
        let name = |field: &FieldState| -> Name {
            let (process, record, name) = &field.key;
            let place = (Rc::clone(&process.host), Rc::clone(&process.ioc));
            let own = if several.contains(&place) { (process.start, process.pid) } else { (0, 0) };
            (place.0, place.1, own, Rc::clone(record), Rc::clone(name))
        };
        let (before_order, after_order) = (by_name(&before, name), by_name(&after, name));
        let mut rows = Vec::with_capacity(before_order.len().max(after_order.len()));
        let (mut first, mut second) =
            (before_order.into_iter().peekable(), after_order.into_iter().peekable());
        let field = |fields: &[FieldState], place: u32| fields.get(place as usize).map(name);
        loop {
            let order = match (first.peek(), second.peek()) {
                (Some(a), Some(b)) => field(&before, *a).cmp(&field(&after, *b)),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (None, None) => break,
            };
            rows.push((
                if order.is_le() { first.next() } else { None },
                if order.is_ge() { second.next() } else { None },
            ));
        }
        let (before, after) = [before, after].map(|fields| fields.into_iter().map(Some).collect()).into();
        Rows { before, after, rows }
    }

    /// Looks at each row.
    fn each(&mut self, mut look: impl FnMut(&DiffRow)) {
        for (before, after) in std::mem::take(&mut self.rows) {
            let row = self.take((before, after));
            look(&row);
            for (fields, place, field) in
                [(&mut self.before, before, row.before), (&mut self.after, after, row.after)]
            {
                let slot = place.and_then(|place| fields.get_mut(place as usize));
                slot.into_iter().zip(field).for_each(|(slot, field)| *slot = Some(field));
            }
            self.rows.push((before, after));
        }
    }

    /// How many rows are such.
    fn how_many(&mut self, is_such: impl Fn(&DiffRow) -> bool) -> usize {
        let mut count = 0;
        self.each(|row| count += usize::from(is_such(row)));
        count
    }

    fn take(&mut self, (before, after): (Option<u32>, Option<u32>)) -> DiffRow {
        let take = |fields: &mut [Option<FieldState>], place: Option<u32>| {
            place.and_then(|place| fields.get_mut(place as usize)?.take())
        };
        DiffRow { before: take(&mut self.before, before), after: take(&mut self.after, after) }
    }

    /// The rows, in order.
    fn into_rows(mut self) -> impl Iterator<Item = DiffRow> {
        std::mem::take(&mut self.rows).into_iter().map(move |places| self.take(places))
    }
}

/// The places of these fields in the order of their names; of several of one name the last.
fn by_name(fields: &[FieldState], name: impl Fn(&FieldState) -> Name) -> Vec<u32> {
    let named = |place: &u32| fields.get(*place as usize).map(&name);
    let mut places: Vec<u32> = (0..fields.len() as u32).rev().collect();
    places.sort_by_key(named);
    places.dedup_by(|a, b| named(a) == named(b));
    places
}

/// How many rows are different in each way.
fn count(rows: &mut Rows) -> [usize; Difference::ALL.len()] {
    let mut counts = [0; Difference::ALL.len()];
    rows.each(|row| {
        let is = row.difference();
        let slots = counts.iter_mut().zip(Difference::ALL);
        slots.filter(|(_, other)| *other == is).for_each(|(count, _)| *count += 1);
    });
    counts
}

/// Reports how many PVs are not shown, and why.
fn summarize(counts: &[usize; Difference::ALL.len()]) {
    let count = |is: Difference| {
        let of = counts.iter().zip(Difference::ALL).filter(|(_, other)| *other == is);
        of.map(|(count, _)| *count).sum::<usize>()
    };
    let (changed, unknown) = (count(Difference::Changed), count(Difference::Unknown));
    let mut parts = vec![format!("{changed} of {} PVs had another value", counts.iter().sum::<usize>())];
    for (count, verb, words) in [
        (unknown, "are ", "unknown at one of the times"),
        (count(Difference::Ended), "are ", "gone: the IOC has ended"),
        (count(Difference::Back), "", "changed and had the same value again"),
        (count(Difference::Anew), "", "had the same value in an IOC that was started anew"),
        (count(Difference::Doubtful), "", "had the same value, but may have changed unseen"),
        (count(Difference::Nothing), "are ", "unknown at both times"),
    ] {
        let verb = if count == 1 && verb == "are " { "is " } else { verb };
        if count > 0 {
            parts.push(format!("{count} {verb}{words}"));
        }
    }
    Terminal.report(&parts.join(", "));
}
