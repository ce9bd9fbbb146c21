//! Finds the segments that a path denotes.

use super::error::ReadError;
use super::segment::{Limit, Segment};
use crate::clock::can_be_right;
use crate::event::Fact;
use crate::format::SegmentHeader;
use crate::name::{Pin, SegmentName, SUFFIX};
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicUsize;
use std::sync::Arc;
use std::{fs, io};

/// A file that is a segment, or should be one by its name.
#[derive(Clone, Debug)]
pub struct SegmentFile {
    /// Its path.
    pub path: PathBuf,
    /// Its length in bytes.
    pub size: u64,
    /// Its header; `None` if it can't be read. [`Segment::open`] gives the reason.
    pub header: Option<SegmentHeader>,
    /// Limit on its content. [`find`] divides the limit for all segments among them.
    pub limit: Limit,
    /// How those of its IOCs are to be shown that share their names with others; [`find`] knows of none.
    pub shown: Option<Arc<Shown>>,
    /// How far its machine's clock was ahead of the right time, nanoseconds: [`SegmentFile::move_clock`]. [`find`] knows
    /// of none.
    pub ahead: i64,
    /// Bytes from its beginning that were found to be sound: [`Segment::remember`].
    pub checked: Arc<AtomicUsize>,
}

/// By what IOCs are shown if not by their names: by name, process id and start.
pub type Shown = HashMap<(String, u32, u64), String>;

impl SegmentFile {
    /// Opens the segment for reading up to its limit.
    ///
    /// # Errors
    /// Those of [`Segment::open`].
    pub fn open(&self) -> Result<Segment, ReadError> {
        let mut segment = match Segment::open(&self.path) {
            Err(ReadError::NotFound(path)) => match renamed(&path) {
                Some(other) => Segment::open(&other)?,
                None => return Err(ReadError::NotFound(path)),
            },
            opened => opened?,
        };
        segment.limit(self.limit);
        Ok(segment)
    }

    /// Takes its machine's clock to be ahead by so many nanoseconds more: the header is moved back at once, readings of
    /// the clock by [`SegmentFile::set_right`].
    pub fn move_clock(&mut self, ahead: i64) {
        self.ahead = self.ahead.saturating_add(ahead);
        if let Some(header) = &mut self.header {
            header.created_wall = moved(header.created_wall, ahead);
        }
    }

    /// Moves a reading of the clock in the segment.
    pub fn set_right(&self, fact: &mut Fact) {
        if let Fact::Clock(clock) = fact {
            clock.wall = moved(clock.wall, self.ahead);
        }
    }

    /// Its pin, according to its name.
    pub fn pin(&self) -> Pin {
        let name = self.path.file_name().and_then(|name| SegmentName::parse(name.to_str()?));
        name.map_or(Pin::No, |name| name.pin)
    }
}

/// A clock's time, moved back. One that was never set is not: what it showed is replaced later.
fn moved(wall: i64, ahead: i64) -> i64 {
    if can_be_right(wall) {
        wall.saturating_sub(ahead)
    } else {
        wall
    }
}

/// Finds the segments that `path` denotes: the file itself, or the segments in the directory and its subdirectories
/// (one for each host). They are sorted by run, earliest first, and within a run in the order of writing; those that
/// can't be read come last. Renamed segments are found if their names end in `.iocrec`.
///
/// # Errors
/// If there is nothing readable.
pub fn find(path: &Path) -> Result<Vec<SegmentFile>, ReadError> {
    let about = fs::metadata(path).map_err(|error| unreadable(path, error))?;
    if !about.is_dir() {
        let header = *Segment::open(path)?.header();
        let (path, size, limit) = (path.to_owned(), about.len(), Limit::shared(1));
        let (shown, checked) = (None, Arc::default());
        return Ok(vec![SegmentFile { path, size, header: Some(header), limit, shown, ahead: 0, checked }]);
    }
    let mut files = Vec::new();
    let mut known: HashSet<_> = identity(path).into_iter().collect();
    let mut is_new = |path: &PathBuf| identity(path).is_none_or(|own| known.insert(own));
    for directory in list(path, &mut files)?.into_iter().filter(&mut is_new) {
        // Another user's directory, or lost+found: opening it gives the reason, and the others are read.
        if list(&directory, &mut files).is_err() {
            files.push(directory);
        }
    }
    files.retain(&mut is_new);
    let listed: HashSet<PathBuf> = files.iter().cloned().collect();
    if files.is_empty() {
        return Err(ReadError::NoSegments(path.to_owned()));
    }
    let limit = Limit::shared(files.len());
    let mut found = Vec::with_capacity(files.len());
    let mut first_error = None;
    for mut path in files {
        let mut opened = Segment::open(&path);
        if matches!(opened, Err(ReadError::NotFound(_))) {
            if let Some(other) = renamed(&path).filter(|other| !listed.contains(other)) {
                opened = Segment::open(&other);
                path = other;
            }
        }
        let header = match opened {
            Ok(segment) => Some(*segment.header()),
            // The recorder has since deleted it to free space.
            Err(ReadError::NotFound(_)) if path.symlink_metadata().is_err() => continue,
            Err(error) => {
                first_error.get_or_insert(error);
                None
            }
        };
        let size = fs::metadata(&path).map_or(0, |about| about.len());
        let (shown, checked) = (None, Arc::default());
        found.push(SegmentFile { path, size, header, limit, shown, ahead: 0, checked });
    }
    match first_error {
        Some(error) if found.iter().all(|file| file.header.is_none()) => Err(error),
        _ => {
            sort(&mut found);
            Ok(found)
        }
    }
}

/// Where a segment is that is no longer at this path: a recorder renames it to pin it, and again when it is not pinned any
/// more.
pub fn renamed(path: &Path) -> Option<PathBuf> {
    let name = SegmentName::parse(path.file_name()?.to_str()?)?;
    let names = [Pin::No, Pin::Auto, Pin::Mark].map(|pin| path.with_file_name(name.pinned(pin).to_string()));
    names.into_iter().find(|path| path.is_file())
}

/// The identity of a file under any of its names, so that a link to a directory does not cause it to be read twice.
#[cfg(unix)]
fn identity(path: &Path) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    fs::metadata(path).ok().map(|about| (about.dev(), about.ino()))
}

#[cfg(not(unix))]
fn identity(path: &Path) -> Option<PathBuf> {
    path.canonicalize().ok()
}

fn unreadable(path: &Path, error: io::Error) -> ReadError {
    match error.kind() {
        io::ErrorKind::NotFound => ReadError::NotFound(path.to_owned()),
        _ => ReadError::Io(path.to_owned(), error),
    }
}

/// Adds the segments in a directory to `files`. Returns the directories in it.
fn list(directory: &Path, files: &mut Vec<PathBuf>) -> Result<Vec<PathBuf>, ReadError> {
    let failed = |error| unreadable(directory, error);
    let mut directories = Vec::new();
    for entry in fs::read_dir(directory).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.is_dir() {
            directories.push(path);
        } else if path.to_string_lossy().ends_with(SUFFIX) {
            files.push(path);
        }
    }
    directories.sort();
    Ok(directories)
}

fn sort(files: &mut [SegmentFile]) {
    let mut begun: HashMap<u128, i64> = HashMap::new();
    for header in files.iter().filter_map(|file| file.header) {
        let wall = begun.entry(header.run).or_insert(header.created_wall);
        *wall = header.created_wall.min(*wall);
    }
    files.sort_by_cached_key(|file| {
        let place = file.header.map(|header| (begun.get(&header.run).copied(), header.run, header.sequence));
        (place.is_none(), place, file.path.clone())
    });
}
