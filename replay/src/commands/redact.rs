//! `iocreplay redact`

use super::command::{Command, Outcome};
use super::options::{reading, Reading};
use crate::destination::Destination;
use crate::failure::{Failure, UsageError};
use crate::found::find_all;
use crate::out::{line, Out};
use crate::redact::{copy, Choice, Copied, Values};
use crate::terminal::Terminal;
use crate::words::counted;
use iocrec_cli::command;
use std::path::{Path, PathBuf};

command! {
    /// Copy logs without what tells of a site: users, hosts, addresses, programs, files, texts, names of PVs, records and
    /// IOCs, and values are replaced, the same by the same. Times, chains, alarms and statuses stay. -o names a new or
    /// empty directory for the copy; without it, only count what would be copied.
    #[argh(subcommand, name = "redact")]
    pub struct Redact {
        /// keep the names of PVs, records and IOCs
        #[argh(switch)]
        pub keep_names: bool,
        /// values: replace (default; each by another, the same by the same), scale (multiply them by a secret factor), drop
        /// (they are unknown) or keep
        #[argh(option, arg_name = "how", from_str_fn(how), default = "Default::default()")]
        pub values: Values,
        /// write what was replaced by what to this new file, for you only: a JSON object on each line
        #[argh(option, arg_name = "file")]
        pub map: Option<PathBuf>,
    } with reading: Reading
}

fn how(name: &str) -> Result<Values, String> {
    let found = Values::ALL.iter().find(|(of, _)| *of == name);
    found
        .map(|(_, values)| *values)
        .ok_or_else(|| format!("unknown --values '{name}'; use replace, scale, drop or keep"))
}

/// Whether a file is in a directory, or would be; that need not be there yet.
fn is_in(file: &Path, directory: &Path) -> bool {
    let place = |path: &Path| {
        let there = path.canonicalize();
        there.or_else(|_| std::path::absolute(path)).unwrap_or_else(|_| path.to_owned())
    };
    // of a name alone the parent is empty
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    place(folder).starts_with(place(directory))
}

impl Command for Redact {
    /// The directory is no file that the answer goes to.
    fn reading(&self) -> Reading {
        Reading { output: None, ..self.into() }
    }

    fn check(&self) -> Result<(), UsageError> {
        if self.map.is_some() && self.output.is_none() {
            return Err(UsageError::MapWithoutCopy);
        }
        if !self.clock_offset.is_empty() {
            return Err(UsageError::OffsetOfCopy);
        }
        for (option, path) in [("-o", &self.output), ("--map", &self.map)] {
            match path {
                Some(path) if path.as_os_str().is_empty() => return Err(UsageError::EmptyPlace(option)),
                Some(path) => Destination::check_name(option, path)?,
                None => {}
            }
        }
        match (&self.map, &self.output) {
            (Some(map), Some(copy)) if is_in(map, copy) => Err(UsageError::MapInCopy(copy.clone())),
            _ => Ok(()),
        }
    }

    fn run(&self, out: &mut Out) -> Result<Outcome, Failure> {
        let found = find_all(&self.logs, self.no_limit);
        for log in &found.unreadable {
            Terminal.report(&log.reason);
        }
        if found.runs.is_empty() {
            return Err(Failure::Reported);
        }
        let choice = Choice { keep_names: self.keep_names, values: self.values };
        let copied = copy(&found, self.output.as_deref(), self.map.as_deref(), choice)?;
        let Copied { segments, events, newer, damaged, too_large, unmapped } = copied;
        match &self.output {
            Some(to) => line!(out, "segments: {segments}, events: {events}, copied to {}", to.display())?,
            None => {
                line!(out, "segments: {segments}, events: {events}; name a directory for the copy with -o")?
            }
        }
        for (count, one, words) in [
            (newer, "block", "of a newer version left out: a newer iocreplay redacts such"),
            (damaged, "block", "damaged or missing, and missing in the copy"),
            (too_large, "event", "left out, since no block has room for what would replace it"),
            (unmapped, "replacement", "not in the map, which has no room for more"),
        ] {
            if count > 0 {
                Terminal.report(&format_args!("{} {words}", counted(count, one)));
            }
        }
        match found.unreadable.is_empty() && newer == 0 && damaged == 0 && too_large == 0 {
            true => Ok(Outcome::Complete),
            false => Ok(Outcome::Incomplete),
        }
    }
}
