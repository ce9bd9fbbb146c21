//! A directory that holds what came through a pipe, so that it can be read like any log.
//!
//! Its size is bounded: the oldest segments are dropped. Only files that it made itself are ever written to or deleted: a
//! directory that holds anything else is refused, and names are those of segments. A spool of one's own is kept, with how
//! far it was followed; a private one is removed at the end. Each log that takes the place of another at the sender's gets
//! a subdirectory.

use crate::in_place;
use iocrec_log::stream::{Position, SegmentName};
use std::fmt;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Marks a directory as a spool, and is locked while it is one. Not a segment's name.
const LOCK: &str = ".iocreplay-spool";
/// Segments in a spool; a bound for hostile streams of small ones.
const MAX_SEGMENTS: usize = 10_000;
/// Bytes that are compared at once.
const CHUNK: usize = 64 << 10;

/// Why a spool can't be used.
#[derive(Debug)]
pub enum SpoolError {
    /// The system refuses.
    Io(PathBuf, io::Error),
    /// The directory holds something else.
    Foreign(PathBuf),
    /// Another process uses it.
    Busy(PathBuf),
    /// Bytes before those that came are missing.
    Hole(Position, Position),
    /// A segment came a second time with other bytes.
    Differs(SegmentName),
}

impl fmt::Display for SpoolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SpoolError::Io(path, error) => {
                write!(f, "can't write to the spool {}: {error}; name another directory with --spool", path.display())
            }
            SpoolError::Foreign(path) => write!(
                f,
                "{} holds other files, and a spool deletes what is in it; name an empty or new directory with --spool",
                path.display()
            ),
            SpoolError::Busy(path) => {
                write!(f, "another iocreplay follow uses the spool {}; name another directory", path.display())
            }
            SpoolError::Hole(has, came) => write!(
                f,
                "the stream goes on at {came}, but what was received ends at {has}; start iocrec cat with --from {has}"
            ),
            SpoolError::Differs(segment) => write!(
                f,
                "{segment} came with other bytes than those that are in the spool; name another directory with --spool"
            ),
        }
    }
}

impl std::error::Error for SpoolError {}

/// A segment in it.
struct Segment {
    name: SegmentName,
    /// Number of its directory: 0 is the spool itself.
    directory: u32,
    length: u64,
}

/// A spool.
pub struct Spool {
    path: PathBuf,
    is_private: bool,
    max_bytes: u64,
    /// The oldest first.
    segments: Vec<Segment>,
    /// Number of the directory that is written to.
    directory: u32,
    bytes: u64,
    /// The lock is held as long as it is open.
    _lock: Option<File>,
}

impl Spool {
    /// Opens a directory as a spool, or makes one.
    ///
    /// # Errors
    /// It can't be used.
    pub fn open(path: &Path, max_bytes: u64) -> Result<Spool, SpoolError> {
        let failed = |error| SpoolError::Io(path.to_owned(), error);
        match builder().create(path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(failed(error)),
            _ => {}
        }
        check(path)?;
        Spool::locked(path, max_bytes, false)
    }

    /// How far the spool at this path holds the sender's log, also while another process uses it; `None`: it holds nothing,
    /// or is yet to be made.
    ///
    /// # Errors
    /// It can't be read, or is no spool.
    pub fn position_of(path: &Path) -> Result<Option<Position>, SpoolError> {
        if !path.exists() {
            return Ok(None);
        }
        check(path)?;
        let mut spool = Spool::new(path, 0, false, None);
        spool.list().map_err(|error| SpoolError::Io(path.to_owned(), error))?;
        Ok(spool.position())
    }

    fn new(path: &Path, max_bytes: u64, is_private: bool, lock: Option<File>) -> Spool {
        let (path, segments) = (path.to_owned(), Vec::new());
        Spool { path, is_private, max_bytes, segments, directory: 0, bytes: 0, _lock: lock }
    }

    /// Makes a private one, which is removed when it is dropped.
    ///
    /// # Errors
    /// There is no place for it.
    pub fn private(max_bytes: u64) -> Result<Spool, SpoolError> {
        let parent = std::env::temp_dir();
        let failed = |error| SpoolError::Io(parent.clone(), error);
        for number in 0..1000 {
            let path = parent.join(format!("iocreplay-spool-{}-{number}", std::process::id()));
            match builder().create(&path) {
                Ok(()) => return Spool::locked(&path, max_bytes, true),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(failed(error)),
            }
        }
        Err(failed(io::ErrorKind::AlreadyExists.into()))
    }

    fn locked(path: &Path, max_bytes: u64, is_private: bool) -> Result<Spool, SpoolError> {
        let failed = |error| SpoolError::Io(path.to_owned(), error);
        let lock = in_place::lockable(&path.join(LOCK)).map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(SpoolError::Busy(path.to_owned())),
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        let mut spool = Spool::new(path, max_bytes, is_private, Some(lock));
        spool.list().map_err(failed)?;
        Ok(spool)
    }

    /// Finds the segments that are there.
    fn list(&mut self) -> io::Result<()> {
        let mut directories = vec![0];
        for entry in fs::read_dir(&self.path)? {
            let name = entry?.file_name();
            let number = name.to_str().filter(|name| name.len() == DIGITS).and_then(|name| name.parse().ok());
            directories.extend(number.filter(|number: &u32| *number > 0));
        }
        directories.sort_unstable();
        for directory in directories {
            let first = self.segments.len();
            for entry in fs::read_dir(self.directory_of(directory))? {
                let entry = entry?;
                let name = entry.file_name().to_str().and_then(SegmentName::parse);
                let about = entry.metadata()?;
                if let Some(name) = name.filter(|_| about.is_file()) {
                    self.bytes += about.len();
                    self.segments.push(Segment { name, directory, length: about.len() });
                    self.directory = directory;
                }
            }
            self.segments.get_mut(first..).unwrap_or_default().sort_by_key(|segment| segment.name);
        }
        Ok(())
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it is removed at the end.
    pub fn is_private(&self) -> bool {
        self.is_private
    }

    /// How far it holds the sender's log; `None`: nothing of it.
    pub fn position(&self) -> Option<Position> {
        let last = self.segments.last()?;
        Some(Position { segment: last.name, offset: last.length })
    }

    /// From now on another log comes.
    pub fn replace(&mut self) {
        if self.segments.last().is_some_and(|last| last.directory == self.directory) {
            self.directory += 1;
        }
    }

    /// Writes bytes of a segment, as far as they are not there, and renames it if its pin has changed. Returns what was
    /// dropped to make room.
    ///
    /// # Errors
    /// They don't fit to what is there, or can't be written.
    pub fn write(
        &mut self,
        name: SegmentName,
        offset: u64,
        mut bytes: &[u8],
    ) -> Result<Vec<SegmentName>, SpoolError> {
        let directory = self.directory;
        let is_it = |one: &Segment| one.directory == directory && one.name.order() == name.order();
        let place = self.segments.iter().rposition(is_it);
        if bytes.is_empty() {
            // only its name has changed
            if let Some(place) = place {
                self.rename(place, name)?;
            }
            return Ok(Vec::new());
        }
        let place = match place {
            Some(place) => {
                self.rename(place, name)?;
                place
            }
            None if offset > 0 => {
                let has = self.position().unwrap_or(Position { segment: name, offset: 0 });
                return Err(SpoolError::Hole(has, Position { segment: name, offset }));
            }
            None => {
                let is_before = |one: &Segment| (one.directory, one.name.order()) < (directory, name.order());
                let place = self.segments.iter().rposition(is_before).map_or(0, |place| place + 1);
                self.segments.insert(place, Segment { name, directory, length: 0 });
                place
            }
        };
        let length = self.segments.get(place).map_or(0, |segment| segment.length);
        if offset > length {
            let (has, came) =
                (Position { segment: name, offset: length }, Position { segment: name, offset });
            return Err(SpoolError::Hole(has, came));
        }
        let path = self.directory_of(directory).join(name.to_string());
        let known = usize::try_from(length - offset).unwrap_or(usize::MAX).min(bytes.len());
        let (there, new) = bytes.split_at_checked(known).unwrap_or_default();
        if !there.is_empty() && !is_same(&path, offset, there).map_err(|error| self.failed(error))? {
            return Err(SpoolError::Differs(name));
        }
        bytes = new;
        if bytes.is_empty() {
            return Ok(Vec::new());
        }
        append(&path, length, bytes).map_err(|error| self.failed(error))?;
        if let Some(segment) = self.segments.get_mut(place) {
            segment.length += bytes.len() as u64;
        }
        self.bytes += bytes.len() as u64;
        Ok(self.make_room())
    }

    fn rename(&mut self, place: usize, name: SegmentName) -> Result<(), SpoolError> {
        let Some(segment) = self.segments.get_mut(place).filter(|segment| segment.name != name) else {
            return Ok(());
        };
        let before = std::mem::replace(&mut segment.name, name).to_string();
        let directory = segment.directory;
        let directory = self.directory_of(directory);
        fs::rename(directory.join(before), directory.join(name.to_string()))
            .map_err(|error| self.failed(error))
    }

    /// Drops the oldest segments, but never the one that is written.
    fn make_room(&mut self) -> Vec<SegmentName> {
        let mut dropped = Vec::new();
        while self.segments.len() > 1 && (self.bytes > self.max_bytes || self.segments.len() > MAX_SEGMENTS) {
            let oldest = self.segments.remove(0);
            self.bytes = self.bytes.saturating_sub(oldest.length);
            let directory = self.directory_of(oldest.directory);
            // what can't be deleted now is found at the next start
            let _ = fs::remove_file(directory.join(oldest.name.to_string()));
            if oldest.directory > 0 {
                // succeeds with the last segment
                let _ = fs::remove_dir(&directory);
            }
            dropped.push(oldest.name);
        }
        dropped
    }

    fn directory_of(&self, number: u32) -> PathBuf {
        match number {
            0 => self.path.clone(),
            number => self.path.join(format!("{number:0DIGITS$}")),
        }
    }

    fn failed(&self, error: io::Error) -> SpoolError {
        SpoolError::Io(self.path.clone(), error)
    }
}

/// Digits in the names of subdirectories, so that their order is that of their numbers.
const DIGITS: usize = 8;

/// Makes sure that a directory is a spool, or empty.
fn check(path: &Path) -> Result<(), SpoolError> {
    let failed = |error| SpoolError::Io(path.to_owned(), error);
    let is_ours = path.join(LOCK).symlink_metadata().is_ok_and(|about| about.is_file());
    if !is_ours && fs::read_dir(path).map_err(failed)?.next().is_some() {
        return Err(SpoolError::Foreign(path.to_owned()));
    }
    Ok(())
}

/// Directories that only their owner may read, since a log names users and hosts.
fn builder() -> DirBuilder {
    #[allow(unused_mut)] // elsewhere there are no modes
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder
}

/// Appends to a file that has this length, or makes it.
fn append(path: &Path, length: u64, bytes: &[u8]) -> io::Result<()> {
    if length > 0 {
        return in_place::append(path)?.write_all(bytes);
    }
    if let Some(parent) = path.parent().filter(|parent| !parent.is_dir()) {
        builder().create(parent)?;
    }
    // an empty file, or a link that somebody has put there
    let _ = fs::remove_file(path);
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    // as of the recorder's logs, also in a directory that everybody may read
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o640);
    options.open(path)?.write_all(bytes)
}

/// Whether a file holds these bytes there.
fn is_same(path: &Path, offset: u64, bytes: &[u8]) -> io::Result<bool> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(offset))?;
    let mut there = vec![0; CHUNK.min(bytes.len())];
    for part in bytes.chunks(CHUNK) {
        let Some(read) = there.get_mut(..part.len()) else { return Ok(false) };
        file.read_exact(read)?;
        if read != part {
            return Ok(false);
        }
    }
    Ok(true)
}

impl Drop for Spool {
    fn drop(&mut self) {
        if self.is_private {
            // what is left stays until the system cleans its temporary files
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}
