//! `iocreplay io`

use super::command::{Command, Outcome};
use super::options::{
    by_place, listing, reading, report_begins, since, time, time_zone, until, ByPlace, Listing, Reading,
    Since, TimeZone, Until,
};
use crate::answers::files::Files;
use crate::destination::Destination;
use crate::failure::{Failure, UsageError};
use crate::filter::Filter;
use crate::nothing_found::{explain, Kind};
use crate::out::Out;
use crate::output::io::darshan::{jobs, Job};
use crate::output::io::{heading, Row, FORMATS};
use crate::output::rows::Shape;
use crate::terminal::Terminal;
use crate::time::Boundary;
use iocrec_cli::command;
use std::io::Write;
use std::path::{Path, PathBuf};

command! {
    /// Show what the IOCs did with files, sockets and devices: calls, bytes, errors, and the longest read, write, sync
    /// and wait for each file or peer. This is recorded with iocrec record --io.
    #[argh(subcommand, name = "io")]
    pub struct Io {
        /// write a log for Darshan's tools: into this file, or if it is a directory, one for each process
        #[argh(option, arg_name = "path")]
        pub darshan: Option<PathBuf>,
        /// write what darshan-parser would print of such a log: into this file, or into a directory likewise
        #[argh(option, arg_name = "path")]
        pub darshan_text: Option<PathBuf>,
    } with listing: Listing, since: Since, until: Until, by_place: ByPlace, time_zone: TimeZone, reading: Reading
}

impl Command for Io {
    fn reading(&self) -> Reading {
        self.into()
    }

    fn check(&self) -> Result<(), UsageError> {
        let for_darshan = self.darshan.is_some() || self.darshan_text.is_some();
        let listed = [("--format", self.format.is_some()), ("--json", self.json)];
        match listed.into_iter().find(|(_, is_given)| for_darshan && *is_given) {
            Some((option, _)) => Err(UsageError::Rejected(format!(
                "--darshan and --darshan-text write files instead of a list; leave them or {option} out"
            ))),
            None => Destination::check_apart(&[
                ("-o", self.reading().file()),
                ("--darshan", self.darshan.as_deref()),
                ("--darshan-text", self.darshan_text.as_deref()),
            ]),
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
        let for_darshan = self.darshan.is_some() || self.darshan_text.is_some();
        if for_darshan && (filter.since.is_some() || filter.until.is_some()) {
            let line = "Darshan counts a file from its opening on: leave --since and --until out";
            return Err(UsageError::Rejected(line.into()).into());
        }
        let files = logs.files(&filter);
        if files.left_out > 0 {
            Terminal.report(&"these logs hold more opens than are kept here; choose a time or an IOC");
        }
        if files.opens.is_empty() {
            Terminal.report(&explain(Kind::Files, &logs.without_notices(), &filter, false, &zone));
        } else if for_darshan {
            self.for_darshan(&files)?;
        } else {
            let shape = Listing::from(self).shape();
            let name = match shape {
                Shape::Text => "text",
                Shape::Csv => "csv",
                Shape::JsonLines => "jsonl",
            };
            let format = FORMATS.iter().find(|format| format.name == name).unwrap_or(&FORMATS[0]);
            let mut writer = (format.writer)(&zone);
            if shape == Shape::Text {
                heading(out)?;
            }
            writer.begin(out)?;
            for named in &files.by_name() {
                writer.write(out, &Row::from(named))?;
            }
            writer.end(out)?;
        }
        Ok(Outcome::from(&logs))
    }
}

impl Io {
    fn for_darshan(&self, files: &Files) -> Result<(), Failure> {
        let jobs = jobs(files);
        let missing: usize = jobs.iter().map(|job| job.not_whole).sum();
        if missing > 0 {
            Terminal.report(&format!(
                "{missing} {} not in it: not all of what was done with {} is in the log",
                if missing == 1 { "file is" } else { "files are" },
                if missing == 1 { "it" } else { "them" },
            ));
        }
        if let Some(path) = &self.darshan {
            self.write(&jobs, "--darshan", path, "darshan", &|job| job.bytes())?;
        }
        if let Some(path) = &self.darshan_text {
            self.write(&jobs, "--darshan-text", path, "txt", &|job| job.text().into_bytes())?;
        }
        Ok(())
    }

    /// Writes each process into a file of a directory, or the only one into a file, which must not be one of the logs.
    fn write(
        &self,
        jobs: &[Job],
        option: &'static str,
        path: &Path,
        ending: &str,
        bytes: &dyn Fn(&Job) -> Vec<u8>,
    ) -> Result<(), Failure> {
        let logs = self.reading().logs;
        let write = |path: &Path, job: &Job| {
            let failed = |error| Failure::output(error, Some(path));
            let mut destination = Destination::named(option, path, &logs)?;
            let written = destination.write_all(&bytes(job));
            destination.close(written.is_ok()).map_err(failed)?;
            written.map_err(failed)
        };
        if path.is_dir() {
            let name = |job: &Job| path.join(format!("{}.{ending}", job.file_name()));
            return jobs.iter().try_for_each(|job| write(&name(job), job));
        }
        match jobs {
            [job] => write(path, job),
            jobs => Err(UsageError::Rejected(format!(
                "these logs hold the files of {} processes, and Darshan's a single one: name a directory, or choose \
                 a process with --ioc",
                jobs.len()
            ))
            .into()),
        }
    }
}
