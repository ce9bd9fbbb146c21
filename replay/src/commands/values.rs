//! `iocreplay values`

use super::command::{Command, Outcome};
use super::options::{
    by_place, by_who, growing, patterns, reading, report_begins, since, time, time_zone, until, with_aliases,
    ByPlace, ByWho, Growing, Reading, Since, TimeZone, Until,
};
use crate::destination::Destination;
use crate::failure::{Failure, UsageError};
use crate::filter::Filter;
use crate::follow::{follow, Timed};
use crate::model::history::{ValueLine, ValueSource};
use crate::model::value::agrees;
use crate::nothing_found::{explain, Kind};
use crate::operands::{Operands, Usage};
use crate::out::Out;
use crate::output::format::{self, Format};
use crate::output::plot::{self, Drawing};
use crate::output::values::{databrowser, FORMATS};
use crate::shown_names::{own_name, without_pid};
use crate::terminal::Terminal;
use crate::time::{Boundary, Zone};
use crate::words::counted;
use crate::{width, Logs};
use iocrec_cli::command;
use iocrec_log::event::Value;
use std::collections::{BTreeMap, HashMap};
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// Fields whose last value is remembered with --follow; a bound for hostile logs.
const MAX_FIELDS: usize = 500_000;

command! {
    /// Show every value that PVs had, with time, alarm and cause. With --user or --client, only those to which a put of
    /// theirs led.
    #[argh(subcommand, name = "values")]
    pub struct Values {
        /// output format: text (default), jsonl (a JSON object for each value), csv, or databrowser (samples for the
        /// Data Browser of Phoebus: one PV, numbers)
        #[argh(option, default = "&FORMATS[0]", from_str_fn(parse_format))]
        pub format: &'static Format<ValueLine>,
        /// leave out PVs and records whose names match; repeatable
        #[argh(option, arg_name = "glob")]
        pub exclude: Vec<String>,
        /// draw the values on the terminal
        #[argh(switch)]
        pub plot: bool,
        /// draw the values into this SVG file
        #[argh(option, arg_name = "file")]
        pub svg: Option<PathBuf>,
        /// records, or record.FIELD, with * ? [a-z]; a record alone is its VAL
        #[argh(positional, arg_name = "pv...")]
        pub pv: String,
    } with since: Since, until: Until, by_who: ByWho, by_place: ByPlace, growing: Growing, time_zone: TimeZone,
        reading: Reading
}

fn parse_format(name: &str) -> Result<&'static Format<ValueLine>, String> {
    format::find(&FORMATS, name).map_err(|error| error.to_string())
}

/// Whether its PV is one of those that are asked for, and whoever led to it.
fn is_chosen(line: &ValueLine, filter: &Filter) -> bool {
    line.is_named(&filter.pv) && !line.is_named(&filter.exclude) && filter.led_to(line.origin.as_ref())
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

    fn follows(&self) -> bool {
        self.follow
    }

    fn check(&self) -> Result<(), UsageError> {
        Growing::from(self).check(&self.reading())?;
        let draws = self.plot || self.svg.is_some();
        if draws && self.format.name != FORMATS[0].name {
            return Err(UsageError::Drawn("--format"));
        }
        if draws && self.follow {
            return Err(UsageError::Drawn("--follow"));
        }
        let asks_who = self.user.is_some() || self.client.is_some();
        if asks_who && (draws || self.format.name == databrowser::format().name) {
            return Err(UsageError::DrawnOfSome);
        }
        Destination::check_apart(&[("-o", self.reading().file()), ("--svg", self.svg.as_deref())])?;
        Ok(self.divided().check(Usage { command: "values", name: "PV", most: usize::MAX })?)
    }

    fn run(&self, out: &mut Out) -> Result<Outcome, Failure> {
        let zone = TimeZone::from(self).zone();
        let logs = ByPlace::from(self).open(&self.reading())?;
        let filter = Filter {
            since: time(&zone, &self.since, Boundary::Start, &logs)?,
            until: time(&zone, &self.until, Boundary::End, &logs)?,
            pv: patterns(&self.divided().names),
            exclude: patterns(&self.exclude),
            ..ByWho::from(self).add_to(ByPlace::from(self).filter_of(&logs))
        };
        report_begins(&zone, &logs, &filter);
        logs.report_recorded_twice(&filter);
        let filter = with_aliases(&logs, filter);
        if self.follow {
            return self.follow(out, filter, &zone);
        }
        let named = |line: &ValueLine| line.unseen.is_some() || is_chosen(line, &filter);
        let lines = logs.values(&filter).with_gaps().filter(named);
        let is_empty = match self.plot || self.svg.is_some() {
            true => self.draw(out, lines, &logs, &filter, &zone)?,
            false => self.list(out, lines, &zone)?,
        };
        if is_empty {
            Terminal.report(&explain(Kind::Values, &logs.without_notices(), &filter, false, &zone));
        }
        Ok(Outcome::from(&logs))
    }
}

impl Timed for ValueLine {
    fn time(&self) -> i64 {
        self.time
    }

    fn even(&self) -> i64 {
        self.even
    }

    fn name(&self) -> String {
        // others of its name may come to light while the log grows
        let (host, ioc) = (self.host.to_string(), own_name(&self.ioc).to_owned());
        // what went unseen ends at a time, but not everything that does has begun at the same
        let gap = self.unseen.as_ref();
        let gap = gap.map_or(String::new(), |unseen| format!("{} {}", unseen.kind.name(), unseen.since));
        [host, ioc, self.pv(), self.source.name().to_owned(), gap].join("\n")
    }
}

/// The last value of a field, and its place in the order of time.
type Followed = (Value, i64);

/// The PV of a file of samples, while others of its IOC's name may come to light.
struct Sampled {
    host: Rc<str>,
    /// The name of its IOC, without a process id.
    ioc: String,
    /// The IOC's last process.
    pid: u32,
    pv: String,
}

impl Sampled {
    fn of(line: &ValueLine) -> Sampled {
        let pid = line.process.pid;
        Sampled {
            host: Rc::clone(&line.host),
            ioc: without_pid(&line.ioc, pid).to_owned(),
            pid,
            pv: line.pv(),
        }
    }

    /// Whether a line is one of its samples.
    fn has(&mut self, line: &ValueLine) -> bool {
        let pid = line.process.pid;
        let name = without_pid(&line.ioc, pid);
        if self.host != line.host || self.ioc != name || self.pv != line.pv() {
            return false;
        }
        // an IOC that was started anew is the same, and has the name alone as long as none of its name runs beside it
        if name == &*line.ioc {
            self.pid = pid;
        }
        self.pid == pid
    }
}

impl Values {
    /// Follows the log.
    fn follow(&self, out: &mut Out, filter: Filter, zone: &Zone) -> Result<Outcome, Failure> {
        let (reading, mut writer) = (self.reading(), (self.format.writer)(zone));
        // The last value of each field, and its place in the order of time: a later pass begins in the middle, and does not know it.
        let mut last: HashMap<(Rc<str>, Rc<str>, String), Followed> = HashMap::new();
        let is_samples = self.format.name == databrowser::format().name;
        let mut sampled: Option<Sampled> = None;
        let mut is_told = false;
        writer.begin(out)?;
        let rows = |logs: &Logs, filter: &Filter, each: &mut dyn FnMut(ValueLine) -> Result<(), Failure>| {
            let named = |line: &ValueLine| match line.unseen {
                Some(_) => !is_samples,
                None => is_chosen(line, filter),
            };
            logs.values(filter).with_gaps().filter(named).try_for_each(each)
        };
        let write = |line: Option<&ValueLine>| {
            let Some(line) = line else { return Ok(out.flush()?) };
            if line.unseen.is_some() {
                return Ok(writer.write(out, line)?);
            }
            // what is no sample chooses no PV; the writer leaves it out
            let is_sample = is_samples && databrowser::obstacle(line).is_none();
            if is_sample && !sampled.get_or_insert_with(|| Sampled::of(line)).has(line) {
                if !std::mem::replace(&mut is_told, true) {
                    Terminal.report(&"values of other PVs are left out: a file has one");
                }
                return Ok(());
            }
            let key = (Rc::clone(&line.host), Rc::clone(&line.ioc), line.pv());
            let only_seen = matches!(line.source, ValueSource::Found | ValueSource::Snapshot);
            let before = last.get(&key);
            // What was seen before that was looked at in an earlier pass, which knew more of what had been.
            let agrees = |known: &Value| agrees(known, &line.value, line.cut == Some(true)) == Some(true);
            let known = before.is_some_and(|(known, even)| line.even < *even || agrees(known));
            if !(only_seen && known) && (last.len() < MAX_FIELDS || last.contains_key(&key)) {
                last.insert(key, (line.value.clone(), line.even));
            }
            if !(only_seen && known) {
                writer.write(out, line)?;
            }
            Ok(())
        };
        follow(&reading.logs, filter, || ByPlace::from(self).open_again(&reading), rows, write)
            .map(|()| Outcome::Complete)
    }

    /// Lists the values; returns whether there are none.
    fn list(
        &self,
        out: &mut Out,
        lines: impl Iterator<Item = ValueLine>,
        zone: &Zone,
    ) -> Result<bool, Failure> {
        let mut writer = (self.format.writer)(zone);
        let is_samples = self.format.name == databrowser::format().name;
        let mut is_empty = true;
        let mut pv: Option<(Rc<str>, Rc<str>, String)> = None;
        let mut left_out: BTreeMap<&'static str, u64> = BTreeMap::new();
        writer.begin(out)?;
        for line in lines {
            is_empty &= line.unseen.is_some();
            if is_samples {
                let obstacle = databrowser::obstacle(&line).or_else(|| {
                    let own = (Rc::clone(&line.host), Rc::clone(&line.ioc), line.pv());
                    let is_other = *pv.get_or_insert_with(|| own.clone()) != own;
                    is_other.then_some("value: a file has those of one PV")
                });
                if let Some(obstacle) = obstacle {
                    *left_out.entry(obstacle).or_default() += 1;
                    continue;
                }
            }
            writer.write(out, &line)?;
        }
        writer.end(out)?;
        for (what, count) in left_out {
            let (one, why) = what.split_once(": ").unwrap_or((what, "the file can't have it"));
            Terminal.report(&format_args!("left out {}: {why}", counted(count, one)));
        }
        Ok(is_empty)
    }

    /// Draws the values; returns whether there are none.
    fn draw(
        &self,
        out: &mut Out,
        lines: impl Iterator<Item = ValueLine>,
        logs: &Logs,
        filter: &Filter,
        zone: &Zone,
    ) -> Result<bool, Failure> {
        let mut drawing = Drawing::default();
        lines.for_each(|line| drawing.add(&line));
        drawing.set_time(filter.since, filter.until, logs.end());
        drawing.remarks().iter().for_each(|remark| Terminal.report(remark));
        if drawing.drawn().next().is_none() {
            // there are values, but what was asked for is not made: the remarks said why
            return if drawing.series.is_empty() { Ok(true) } else { Err(Failure::Reported) };
        }
        if self.plot {
            plot::terminal::draw(out, &drawing, width::columns(), zone)?;
        }
        if let Some(file) = &self.svg {
            svg_file(file, &self.reading().logs, &drawing, zone)?;
        }
        Ok(false)
    }
}

/// Draws into an SVG file, which must not be one of the logs.
pub(super) fn svg_file(file: &Path, logs: &[PathBuf], drawing: &Drawing, zone: &Zone) -> Result<(), Failure> {
    let failed = |error| Failure::output(error, Some(file));
    let destination = Destination::named("--svg", file, logs)?;
    let mut below = BufWriter::new(destination);
    let drawn = plot::svg::draw(&mut Out::new(&mut below), drawing, zone);
    let destination = below.into_inner().map_err(|error| failed(error.into_error()))?;
    destination.close(drawn.is_ok()).map_err(failed)?;
    drawn.map_err(failed)
}
