//! `iocreplay health`

use super::command::{Command, Outcome};
use super::options::{
    by_place, listing, reading, report_begins, since, time, time_zone, until, ByPlace, Listing, Reading,
    Since, TimeZone, Until,
};
use super::values::svg_file;
use crate::destination::Destination;
use crate::failure::{Failure, UsageError};
use crate::filter::Filter;
use crate::nothing_found::{explain, Kind};
use crate::out::Out;
use crate::output::health::drawing::Drawings;
use crate::output::health::summary::Summary;
use crate::output::health::FORMATS;
use crate::output::plot;
use crate::output::rows::Shape;
use crate::terminal::Terminal;
use crate::time::{Boundary, Zone};
use crate::{width, Logs};
use iocrec_cli::command;
use std::path::PathBuf;

command! {
    /// Show what the IOCs used of the machine: CPU time, waiting for a CPU, memory, page faults, descriptors, threads,
    /// clients, channels, and which threads used most. As jsonl or csv, each while that was recorded.
    #[argh(subcommand, name = "health")]
    pub struct Health {
        /// draw it over time on the terminal
        #[argh(switch)]
        pub plot: bool,
        /// draw it over time into this SVG file
        #[argh(option, arg_name = "file")]
        pub svg: Option<PathBuf>,
    } with listing: Listing, since: Since, until: Until, by_place: ByPlace, time_zone: TimeZone, reading: Reading
}

impl Command for Health {
    fn reading(&self) -> Reading {
        self.into()
    }

    fn check(&self) -> Result<(), UsageError> {
        let draws = self.plot || self.svg.is_some();
        let listed = [("--format", self.format.is_some()), ("--json", self.json)];
        match listed.into_iter().find(|(_, is_given)| draws && *is_given) {
            Some((option, _)) => Err(UsageError::Drawn(option)),
            None => {
                Destination::check_apart(&[("-o", self.reading().file()), ("--svg", self.svg.as_deref())])
            }
        }
    }

    fn run(&self, out: &mut Out) -> Result<Outcome, Failure> {
        let zone = TimeZone::from(self).zone();
        let logs = ByPlace::from(self).open(&self.reading())?;
        let (since, until): (Since, Until) = (self.into(), self.into());
        let filter = Filter {
            since: time(&zone, &since.since, Boundary::Start, &logs)?,
            until: time(&zone, &until.until, Boundary::End, &logs)?,
            ..ByPlace::from(self).filter_of(&logs)
        };
        report_begins(&zone, &logs, &filter);
        logs.report_recorded_twice(&filter);
        let shape = Listing::from(self).shape();
        let is_empty = if self.plot || self.svg.is_some() {
            self.draw(out, &logs, &filter, &zone)?
        } else if shape == Shape::Text {
            self.summarize(out, &logs, &filter, &zone)?
        } else {
            self.list(out, &logs, &filter, &zone, shape)?
        };
        if is_empty {
            Terminal.report(&explain(Kind::Health, &logs.without_notices(), &filter, false, &zone));
        }
        Ok(Outcome::from(&logs))
    }
}

impl Health {
    /// Writes the tables; returns whether there is nothing.
    fn summarize(&self, out: &mut Out, logs: &Logs, filter: &Filter, zone: &Zone) -> Result<bool, Failure> {
        let mut summary = Summary::of_processes();
        for row in logs.resources(filter) {
            summary.add(&row);
        }
        summary.write(out, zone)?;
        Ok(summary.is_empty())
    }

    /// Lists the rows; returns whether there is none.
    fn list(
        &self,
        out: &mut Out,
        logs: &Logs,
        filter: &Filter,
        zone: &Zone,
        shape: Shape,
    ) -> Result<bool, Failure> {
        let name = if shape == Shape::Csv { "csv" } else { "jsonl" };
        let format = FORMATS.iter().find(|format| format.name == name).unwrap_or(&FORMATS[0]);
        let mut writer = (format.writer)(zone);
        let mut is_empty = true;
        writer.begin(out)?;
        for row in logs.resources(filter) {
            is_empty = false;
            writer.write(out, &row)?;
        }
        writer.end(out)?;
        Ok(is_empty)
    }

    /// Draws the rows; returns whether there is none.
    fn draw(&self, out: &mut Out, logs: &Logs, filter: &Filter, zone: &Zone) -> Result<bool, Failure> {
        let mut drawings = Drawings::default();
        let mut is_empty = true;
        for row in logs.resources(filter) {
            is_empty = false;
            drawings.add(&row);
        }
        if is_empty {
            return Ok(true);
        }
        let drawing = drawings.drawing(filter.since, filter.until, logs.end());
        if self.plot {
            plot::terminal::draw(out, &drawing, width::columns(), zone)?;
        }
        if let Some(file) = &self.svg {
            svg_file(file, &self.reading().logs, &drawing, zone)?;
        }
        Ok(false)
    }
}
