//! A real directory, for one recorder at a time: the recorder holds an advisory lock (flock) on the directory itself,
//! which the kernel releases whenever and however the process ends.
//!
//! All access goes through the directory's descriptor. So all files are in the locked directory, whatever happens to
//! its name meanwhile, and no symbolic link leads elsewhere. The name is [checked](Storage::astray) repeatedly; if it
//! denotes another directory, the recorder [follows](Storage::settle) the name.

mod error;
mod files;

pub use error::DirectoryError;
pub(crate) use files::{open_directory, open_to_read};

use super::{nanoseconds_since_1970, Astray, Storage, Stored};
use crate::name::{Pin, SegmentName};
use nix::unistd::geteuid;
use std::fmt;
use std::fs::{self, DirBuilder, File, Metadata, Permissions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Name of a file that is made and deleted to test that the directory is writable. Not a segment's name.
const TRIAL: &str = ".iocrec-trial";
/// Mode of a new directory. It is not world-readable because a log names users and hosts and holds the values they
/// wrote.
pub const DIRECTORY_MODE: u32 = 0o750;

/// Bounds of the unit of allocation: at least a page of 4096 bytes, at most a FAT cluster. Network file systems report
/// a megabyte, which is not their unit.
const UNIT: (u64, u64) = (4096, 65536);
/// Time for which another process may hold the lock just to check it.
const LOOK: Duration = Duration::from_millis(50);
/// Size of a block in `st_blocks`, in bytes, whatever the file system's block size (stat(2)).
const STAT_BLOCK: u64 = 512;

/// Preallocates bytes for a file without changing its length. An error of kind `Unsupported` means that the file system
/// can't.
pub type Reserve = fn(&File, u64) -> io::Result<()>;

/// Another wall clock than the system's, nanoseconds since 1970 UTC: that of the events of a log about the past.
pub struct WallClock(pub Box<dyn Fn() -> i64 + Send>);

impl fmt::Debug for WallClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WallClock")
    }
}

/// Decides whether a directory may be used, and keeps other recorders out. The lock is released when the directory's
/// handle is closed.
pub trait Keeper: fmt::Debug + Send {
    /// Opens a directory, and makes it with [`DIRECTORY_MODE`] if it is missing. Also returns whether it was made.
    ///
    /// # Errors
    /// If it can't be made or opened, or if the way to it must not be taken.
    fn open(&mut self, path: &Path) -> Result<(File, bool), DirectoryError> {
        open(path)
    }

    /// Checks and locks an open directory.
    ///
    /// # Errors
    /// If it must not be used, or somebody else uses it.
    fn admit(&mut self, path: &Path, directory: &File) -> Result<(), DirectoryError>;

    /// Called about once a second while the directory is in use.
    fn tend(&mut self, _directory: &File) {}
}

/// Admits any directory that is not locked.
#[derive(Debug)]
struct Anyone;

impl Keeper for Anyone {
    fn admit(&mut self, path: &Path, directory: &File) -> Result<(), DirectoryError> {
        let locked = match directory.try_lock() {
            Err(TryLockError::WouldBlock) => {
                // Somebody may just be checking the lock.
                std::thread::sleep(LOOK);
                directory.try_lock()
            }
            other => other,
        };
        match locked {
            Ok(()) => Ok(()),
            Err(TryLockError::WouldBlock) => Err(DirectoryError::Locked(path.to_owned())),
            Err(TryLockError::Error(error)) => Err(DirectoryError::io("lock", path, error)),
        }
    }
}

/// A directory that holds segments.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    reserve: Option<Reserve>,
    wall_clock: Option<WallClock>,
    keeper: Box<dyn Keeper>,
    /// The directory itself: holds the lock, and is synced after names change.
    handle: File,
    /// Its mode when it was first opened. A directory made in its place gets the same mode.
    mode: u32,
    /// Whether it is not the one that was last used successfully.
    other: bool,
    /// The open file and its name.
    open: Option<(String, File)>,
}

impl Directory {
    /// Opens a directory for the log. Makes it (mode 0750) if it is missing and its parent exists.
    ///
    /// # Errors
    /// If it can't be made, is not a directory, can't be written to, or another recorder uses it.
    pub fn open(path: &Path) -> Result<Self, DirectoryError> {
        Self::open_kept(path, Box::new(Anyone))
    }

    /// The same, with a keeper that decides whether the directory may be used.
    ///
    /// # Errors
    /// Those of [`open`](Self::open), and those of the keeper.
    pub fn open_kept(path: &Path, mut keeper: Box<dyn Keeper>) -> Result<Self, DirectoryError> {
        // with a slash at its end, a link would count as what it leads to
        let path = path.components().as_path();
        let (handle, _) = keeper.open(path)?;
        keeper.admit(path, &handle)?;
        let mode = handle.metadata().map_or(DIRECTORY_MODE, |about| about.mode());
        let directory = Directory {
            path: path.to_owned(),
            reserve: None,
            wall_clock: None,
            keeper,
            handle,
            mode,
            other: false,
            open: None,
        };
        directory.try_out().map_err(|error| DirectoryError::io("write to", path, error))?;
        Ok(directory)
    }

    /// Preallocates with this function. Systems differ, so the caller provides it.
    pub fn reserving(self, reserve: Reserve) -> Self {
        Directory { reserve: Some(reserve), ..self }
    }

    /// Dates segments by this clock.
    pub fn dated(self, clock: WallClock) -> Self {
        Directory { wall_clock: Some(clock), ..self }
    }

    /// The directory's path as given.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Permission bits don't show whether a directory can be written to (root, read-only mounts,
    /// access control lists); a trial file does. One left behind by a crash does no harm.
    fn try_out(&self) -> io::Result<()> {
        match files::remove(&self.handle, TRIAL) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        match files::create(&self.handle, TRIAL) {
            Ok(_) => files::remove(&self.handle, TRIAL),
            // The recorder waits until a full file system has space again.
            Err(error) if error.kind() == io::ErrorKind::StorageFull => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn current(&mut self) -> io::Result<&mut File> {
        let open = self.open.as_mut().map(|(_, file)| file);
        open.ok_or_else(|| io::Error::other("no file is open"))
    }

    fn make(&self, name: &str, bytes: u64) -> io::Result<File> {
        let file = files::create(&self.handle, name)?;
        let reserved = self.reserve.map_or(Ok(()), |reserve| reserve(&file, bytes));
        match reserved {
            Err(error) if error.kind() != io::ErrorKind::Unsupported => {
                // If it can't be deleted either, the next listing finds it, empty.
                let _ = files::remove(&self.handle, name);
                Err(error)
            }
            _ => Ok(file),
        }
    }

    /// What happened to the directory, if anything. `deleted`: the open file was deleted, so a missing directory was
    /// deleted too (some file systems don't report the deletion of a directory).
    fn moved(&self, deleted: bool) -> Option<String> {
        let path = self.path.display();
        let here = match self.handle.metadata() {
            Ok(here) => here,
            Err(error) => return Some(format!("{path}: {error}")),
        };
        match fs::metadata(&self.path) {
            Ok(found) if is_same(&found, &here) => None,
            Ok(found) if !found.is_dir() => Some(format!("{path} is no longer a directory")),
            Ok(_) if here.nlink() == 0 || deleted => {
                Some(format!("{path} was deleted, and somebody made it anew"))
            }
            Ok(found) if found.dev() != here.dev() => {
                Some(format!("{path} is on another file system now; what was recorded is in the one before"))
            }
            Ok(_) => Some(format!("{path} is another directory now; what was recorded was moved away")),
            Err(error) if is_missing(&error) && (here.nlink() == 0 || deleted) => {
                Some(format!("{path} was deleted"))
            }
            Err(error) if is_missing(&error) => {
                Some(format!("{path} was moved away or unmounted, with what was recorded"))
            }
            // Unknown.
            Err(_) => None,
        }
    }

    /// What happened to the open file, and whether its content is lost.
    fn open_moved(&self, length: u64) -> Option<(String, bool)> {
        let (name, file) = self.open.as_ref()?;
        let about = file.metadata().ok()?;
        if about.nlink() == 0 {
            return Some((format!("{name} was deleted while it was written"), true));
        }
        if about.len() < length {
            return Some((format!("{name} was cut short by another program while it was written"), true));
        }
        match files::identity(&self.handle, name) {
            Ok(found) if found == (about.dev(), about.ino()) => None,
            Ok(_) => Some((format!("{name} was replaced while it was written"), false)),
            Err(error) if is_missing(&error) => {
                Some((format!("{name} was moved away while it was written"), false))
            }
            Err(_) => None,
        }
    }
}

/// Opens a directory, and makes it if it is missing, wherever its path leads. Also returns whether it was made.
fn open(path: &Path) -> Result<(File, bool), DirectoryError> {
    let made = match DirBuilder::new().mode(DIRECTORY_MODE).create(path) {
        Ok(()) => true,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
        Err(error) if path.is_dir() => {
            drop(error); // for example, a mount point on a read-only parent
            false
        }
        Err(error) => return Err(DirectoryError::io("make", path, error)),
    };
    if !path.is_dir() {
        return Err(DirectoryError::NotADirectory(path.to_owned()));
    }
    // what was made is no link; but whoever may write to the parent may put one in its place, and its mode is changed later
    let opened = if made { files::open_made(path) } else { files::open_directory(path) };
    let handle = opened.map_err(|error| DirectoryError::io("open", path, error))?;
    Ok((handle, made))
}

fn is_same(one: &Metadata, other: &Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

/// Whether the error means that there is no such file. Links that lead in a circle lead to none.
fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
        || error.raw_os_error() == Some(libc::ELOOP)
}

/// Frees the space behind a file's end. Its bytes and times do not change.
fn trim(file: &File) -> io::Result<()> {
    let about = file.metadata()?;
    let needed = about.len().next_multiple_of(UNIT.0);
    if about.blocks().saturating_mul(STAT_BLOCK) > needed {
        file.set_len(about.len())?;
        file.set_modified(about.modified()?)?;
    }
    Ok(())
}

/// Facts about a segment's file that can be had without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Bytes that it takes on the disk.
    pub taken: u64,
    /// Whether it is pinned, that is, kept when older ones are deleted.
    pub pinned: bool,
}

/// The segments in a directory, recognized by name, whoever writes to it.
///
/// # Errors
/// If it can't be listed.
pub fn segments(path: &Path) -> io::Result<Vec<Segment>> {
    let files = list(&files::open_directory(path)?)?.into_iter();
    let segment = |file: Stored| {
        let name = SegmentName::parse(&file.name)?;
        Some(Segment { taken: file.taken, pinned: name.pin != Pin::No })
    };
    Ok(files.filter_map(segment).collect())
}

/// The names of the segments in an open directory, the oldest first.
pub(crate) fn names(directory: &File) -> io::Result<Vec<SegmentName>> {
    let files = list(directory)?.into_iter();
    let mut names: Vec<SegmentName> = files.filter_map(|file| SegmentName::parse(&file.name)).collect();
    names.sort_unstable();
    Ok(names)
}

/// The files of root, of this user and of the directory's owner. Files of others are never taken for the recorder's,
/// even where others may create files.
fn list(directory: &File) -> io::Result<Vec<Stored>> {
    let owners = [0, geteuid().as_raw(), directory.metadata()?.uid()];
    let mut stored = Vec::new();
    files::each(directory, |name, about| {
        if owners.contains(&about.owner) {
            stored.push(Stored {
                name: name.to_owned(),
                length: about.length,
                taken: about.blocks.saturating_mul(STAT_BLOCK),
                modified: about.modified,
            });
        }
    })?;
    Ok(stored)
}

impl Storage for Directory {
    fn list(&mut self) -> io::Result<Vec<Stored>> {
        list(&self.handle)
    }

    fn unit(&self) -> u64 {
        self.handle.metadata().map_or(UNIT.0, |about| about.blksize().clamp(UNIT.0, UNIT.1))
    }

    fn wall_clock(&self) -> i64 {
        self.wall_clock.as_ref().map_or_else(|| nanoseconds_since_1970(SystemTime::now()), |clock| clock.0())
    }

    fn own_size(&mut self) -> u64 {
        let taken = self.handle.metadata().map_or(0, |about| about.blocks().saturating_mul(STAT_BLOCK));
        taken.max(self.unit())
    }

    fn create(&mut self, name: &str, reserve: u64) -> io::Result<()> {
        self.open = None;
        let file = self.make(name, reserve)?;
        self.open = Some((name.to_owned(), file));
        Ok(())
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.current()?.write_all(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.current()?.sync_data()
    }

    fn finish(&mut self) -> io::Result<()> {
        self.open.take().map_or(Ok(()), |(_, file)| trim(&file))
    }

    fn trim(&mut self, name: &str) -> io::Result<()> {
        trim(&files::open(&self.handle, name)?)
    }

    fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        files::rename(&self.handle, from, to)?;
        if let Some((name, _)) = self.open.as_mut().filter(|(name, _)| name == from) {
            to.clone_into(name);
        }
        Ok(())
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        if self.open.as_ref().is_some_and(|(open, _)| open == name) {
            self.open = None; // or it would keep its space
        }
        files::remove(&self.handle, name)
    }

    fn sync_names(&mut self) -> io::Result<()> {
        self.handle.sync_all()
    }

    fn astray(&mut self, length: u64) -> Option<Astray> {
        self.keeper.tend(&self.handle);
        let file = self.open_moved(length);
        let lost = match &file {
            Some((_, lost)) => *lost,
            None => self.open.is_none() && self.handle.metadata().is_ok_and(|here| here.nlink() == 0),
        };
        let directory = self.moved(lost);
        let reason = directory.or_else(|| Some(format!("{}: {}", self.path.display(), file?.0)))?;
        Some(Astray { reason, lost })
    }

    fn settle(&mut self) -> io::Result<bool> {
        self.open = None;
        let failed = |error: DirectoryError| io::Error::new(error.kind(), error);
        let (handle, made) = self.keeper.open(&self.path).map_err(failed)?;
        let before = self.handle.metadata();
        let same = handle.metadata().is_ok_and(|about| before.is_ok_and(|before| is_same(&about, &before)));
        if made {
            // Those who could read the old directory can read this one. If this fails, fewer people can.
            let _ = handle.set_permissions(Permissions::from_mode(self.mode & 0o7775));
        }
        if same {
            // After an error, if the disk was away for a while, a handle may be dead although a new one works.
            let _ = self.handle.unlock();
        }
        self.keeper.admit(&self.path, &handle).map_err(failed)?;
        self.handle = handle;
        self.other |= !same;
        self.try_out().map_err(|error| failed(DirectoryError::io("write to", &self.path, error)))?;
        Ok(std::mem::take(&mut self.other))
    }
}
