//! Rows on their way to files, many at a time.
//!
//! A file is written under a name of its own beside the one that it gets when it is whole. What is in memory is bounded, and
//! so is the number of files that are begun; none is open for longer than it takes to write a part of it.

use super::encoder::{Appended, Encoder, Row};
use super::schema::{Of, Table};
use super::Format;
use crate::unfinished::Unfinished;
use std::collections::{BTreeSet, HashMap};
use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

/// Bytes of rows that are held in memory. The reader itself takes some 25 MiB of the 64 that there are.
const MOST: usize = 8 << 20;
/// Files that are begun at the same time: those of one run, and more for each further one.
const BEGUN: usize = 128;
const BEGUN_OF_RUN: usize = 10;
const MOST_RUNS: usize = 256;

/// Directories between that of the tables and a file: its table, host and date.
const WITHIN: usize = 3;

/// What a file is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// The table.
    pub of: Of,
    /// The number of the run.
    pub run: usize,
    /// The segment.
    pub segment: u32,
    /// The day, counted from 1970-01-01.
    pub day: i64,
    /// The number of the host.
    pub host: u32,
}

/// A file that can't be written.
#[derive(Debug)]
pub struct Unwritten {
    /// The file.
    pub file: PathBuf,
    /// The reason.
    pub error: io::Error,
}

/// A file that is begun.
struct Sheet {
    encoder: Encoder,
    own: PathBuf,
    to: PathBuf,
    /// The number of the row that was last added, of those of all files.
    used: u64,
    _unfinished: Unfinished,
}

/// All files that are begun.
pub struct Sheets {
    format: Format,
    begun: HashMap<Key, Sheet, foldhash::fast::FixedState>,
    limit: usize,
    size: usize,
    count: u64,
    /// How many files were closed for a key.
    closed: HashMap<Key, u32>,
    /// The names of files that were written.
    pub written: Vec<PathBuf>,
}

impl Sheets {
    /// For the files of this many runs.
    pub fn new(format: Format, runs: usize) -> Sheets {
        let limit = BEGUN + BEGUN_OF_RUN * runs.min(MOST_RUNS);
        let (begun, closed, written) = (HashMap::default(), HashMap::new(), Vec::new());
        Sheets { format, begun, limit, size: 0, count: 0, closed, written }
    }

    /// Adds a row; `push` adds its cells. `path`: the file's for that part of it.
    ///
    /// # Errors
    /// If a file can't be written.
    pub fn add(
        &mut self,
        key: Key,
        path: impl Fn(u32) -> PathBuf,
        push: impl FnOnce(&mut Row),
    ) -> Result<(), Unwritten> {
        self.count += 1;
        if !self.begun.contains_key(&key) {
            self.make_room(key)?;
            let part = self.closed.get(&key).copied().unwrap_or(0);
            let sheet = Sheet::begin(self.format, key.of.table(), path(part))?;
            self.size += sheet.encoder.size(); // the heading of CSV
            self.begun.insert(key, sheet);
        }
        let Some(sheet) = self.begun.get_mut(&key) else { return Ok(()) };
        sheet.used = self.count;
        let before = sheet.encoder.size();
        sheet.encoder.add(push);
        self.size += sheet.encoder.size() - before;
        if sheet.encoder.is_full() {
            self.size -= sheet.encoder.size();
            sheet.flush()?;
        }
        if self.size > MOST {
            let largest = self.begun.values_mut().max_by_key(|sheet| (sheet.encoder.size(), sheet.used));
            if let Some(sheet) = largest {
                self.size -= sheet.encoder.size();
                sheet.flush()?;
                sheet.encoder.release();
            }
        }
        Ok(())
    }

    /// Closes files to which nothing more will come: those of segments two before; and, if there are too many, the one that was
    /// not used for the longest time.
    fn make_room(&mut self, next: Key) -> Result<(), Unwritten> {
        let is_past = |key: &Key| {
            key.of == next.of && key.run == next.run && key.segment.saturating_add(1) < next.segment
        };
        let mut past: Vec<Key> = self.begun.keys().copied().filter(is_past).collect();
        past.sort();
        if self.begun.len() >= self.limit && past.is_empty() {
            let oldest = self.begun.iter().min_by_key(|(_, sheet)| sheet.used);
            past.extend(oldest.map(|(key, _)| *key));
        }
        past.into_iter().try_for_each(|key| self.close(key))
    }

    fn close(&mut self, key: Key) -> Result<(), Unwritten> {
        let Some(sheet) = self.begun.remove(&key) else { return Ok(()) };
        self.size -= sheet.encoder.size();
        *self.closed.entry(key).or_default() += 1;
        self.written.push(sheet.to.clone());
        sheet.finish()
    }

    /// Closes all files.
    ///
    /// # Errors
    /// If one can't be written.
    pub fn finish(&mut self) -> Result<(), Unwritten> {
        let mut keys: Vec<Key> = self.begun.keys().copied().collect();
        keys.sort();
        keys.into_iter().try_for_each(|key| self.close(key))
    }

    /// The numbers of the hosts of which files of this run were closed.
    pub fn hosts(&self, run: usize) -> BTreeSet<u32> {
        self.closed.keys().filter(|key| key.run == run).map(|key| key.host).collect()
    }
}

/// Refuses a symbolic link of another user in place of the last so many directories of a path: of a directory that another
/// user may write to, it may lead anywhere.
#[cfg(unix)]
pub(super) fn check_links(directory: &Path, last: usize) -> io::Result<()> {
    use std::os::unix::fs::MetadataExt;
    let own = [0, rustix::process::geteuid().as_raw()];
    let is_foreign = |path: &&Path| {
        fs::symlink_metadata(path).is_ok_and(|about| about.is_symlink() && !own.contains(&about.uid()))
    };
    match directory.ancestors().take(last).find(is_foreign) {
        Some(link) => Err(io::Error::other(format!("{} is a symbolic link of another user", link.display()))),
        None => Ok(()),
    }
}

#[cfg(not(unix))]
pub(super) fn check_links(_: &Path, _: usize) -> io::Result<()> {
    Ok(())
}

/// Creates a file that is not there, with no foreign link in place of the last so many directories of its path. Another user may
/// put one there after a look, so it is looked once more when the file is there, and before anything is written to it.
pub(super) fn create(path: &Path, last: usize) -> io::Result<fs::File> {
    let file = OpenOptions::new().write(true).create_new(true).open(path)?;
    let directory = path.parent().unwrap_or(Path::new("."));
    match check_links(directory, last) {
        Ok(()) => Ok(file),
        Err(error) => {
            let _ = fs::remove_file(path);
            Err(error)
        }
    }
}

impl Sheet {
    fn begin(format: Format, table: &'static Table, to: PathBuf) -> Result<Sheet, Unwritten> {
        let unwritten = |error| Unwritten { file: to.clone(), error };
        let directory = to.parent().unwrap_or(Path::new("."));
        check_links(directory, WITHIN).map_err(unwritten)?;
        fs::create_dir_all(directory).map_err(|error| Unwritten { file: directory.to_owned(), error })?;
        let name = to.file_name().unwrap_or_default().to_string_lossy();
        let own = to.with_file_name(format!(".{name}.{}.part", std::process::id()));
        let file = create(&own, WITHIN).map_err(unwritten)?;
        let _unfinished = Unfinished::new(&own);
        let below = Appended::to(own.clone(), &file);
        match below.and_then(|below| Encoder::new(format, table, below)) {
            Ok(encoder) => Ok(Sheet { encoder, own, to, used: 0, _unfinished }),
            Err(error) => {
                let _ = fs::remove_file(&own);
                Err(unwritten(error))
            }
        }
    }

    /// Writes what is in memory.
    fn flush(&mut self) -> Result<(), Unwritten> {
        self.encoder.flush().map_err(|error| Unwritten { file: self.to.clone(), error })
    }

    /// Writes the rest, and gives the file its name.
    fn finish(mut self) -> Result<(), Unwritten> {
        let named = self.encoder.finish().and_then(|()| fs::rename(&self.own, &self.to));
        named.map_err(|error| Unwritten { file: self.to.clone(), error })
    }
}

impl Drop for Sheet {
    fn drop(&mut self) {
        // Already renamed if all went well.
        let _ = fs::remove_file(&self.own);
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::{lchown, symlink};

    /// A link that came after the first look, just before the file was created.
    #[test]
    fn nothing_is_created_behind_a_link_that_came_late() {
        let place = tempfile::tempdir().unwrap();
        let [victim, link] = ["victim", "link"].map(|name| place.path().join(name));
        fs::create_dir(&victim).unwrap();
        symlink(&victim, &link).unwrap();
        let file = link.join("host/2026-01-01.part");
        fs::create_dir(link.join("host")).unwrap();
        assert!(create(&file, WITHIN).is_ok(), "one's own link is followed");
        fs::remove_file(&file).unwrap();
        // only root may give a link away
        if lchown(&link, Some(1234), None).is_ok() {
            assert!(create(&file, WITHIN).is_err());
            assert_eq!(fs::read_dir(victim.join("host")).unwrap().count(), 0);
        }
    }
}
