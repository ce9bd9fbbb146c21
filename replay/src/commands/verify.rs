//! `iocreplay verify`

use super::command::{Command, Outcome};
use super::options::{json, reading, time_zone, Json, Reading, TimeZone};
use crate::failure::Failure;
use crate::found::find_all;
use crate::out::Out;
use crate::output;
use crate::output::rows::Shape;
use iocrec_cli::command;
use iocrec_log::reader;

command! {
    /// Read every byte of the logs and list what is damaged or missing: where, why, and which time is lost with it. Exit
    /// code 0 if everything is as the recorder wrote it, else 1.
    #[argh(subcommand, name = "verify")]
    pub struct Verify {} with json: Json, time_zone: TimeZone, reading: Reading
}

impl Command for Verify {
    fn reading(&self) -> Reading {
        self.into()
    }

    /// Damage is the answer here, so it is not reported on standard error as well.
    fn run(&self, out: &mut Out) -> Result<Outcome, Failure> {
        let zone = TimeZone::from(self).zone();
        let mut found = find_all(&self.logs, self.no_limit);
        let (reading, offsets) = (self.reading(), self.reading().offsets());
        if !offsets.is_empty() {
            reading.check_hosts(&found.set_right(&offsets))?;
        }
        let runs = found.runs.into_iter().map(|(run, files)| (run, reader::verify(&files)));
        let (runs, unreadable): (Vec<_>, _) = (runs.collect(), found.unreadable);
        match Json::from(self).shape() {
            Some(Shape::Text) => output::verify::text(out, &runs, &unreadable, &zone)?,
            Some(shape) => output::verify::rows(out, &runs, &unreadable, shape, &zone)?,
            None => output::verify::json(out, &runs, &unreadable, &zone)?,
        }
        out.flush()?;
        match output::verify::is_sound(&runs, &unreadable) {
            true => Ok(Outcome::Complete),
            false => Err(Failure::Reported),
        }
    }
}
