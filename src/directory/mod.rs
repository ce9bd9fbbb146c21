//! Whether a directory may hold a log, and that it has one recorder: what the log's own crate leaves to the system.
//!
//! The lock is an advisory one (flock) on the directory itself: it leaves nothing behind, and a full or read-only disk
//! can't refuse it. Who may open the directory may lock it, though, without being a recorder. So
//! who has it is looked for in /proc:
//!
//! - a recorder that lives: the directory is its;
//! - a recorder that is being killed: it is waited for, `PATIENCE`;
//! - anybody else: that is said, with process and user, and recording goes on. Other recorders are then kept off by a lock
//!   on a file of mode 0600, which only root and the recorder's user can open, until the directory's own can be had.

mod holder;
mod rules;

use std::fs::{File, TryLockError};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use iocrec_log::storage::{DirectoryError, Keeper};
use nix::errno::Errno;
use nix::fcntl::{openat, OFlag};
use nix::sys::stat::Mode;
use nix::unistd::{unlinkat, UnlinkatFlags};

pub use holder::{holders, of_socket, process, Holder, Sort};

/// How long a recorder that is being killed is waited for. The kernel takes out its probes one after the other, a grace
/// period each; the lock goes before or after.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often the lock is tried meanwhile; and how long somebody may look whether it is there.
const BEAT: Duration = Duration::from_millis(50);
/// How often it is looked whether others may write to the directory by now, calls of `tend`: about ten seconds.
const RULES: u32 = 10;
/// Name of the file that is locked while somebody else has the directory's lock. Not a segment's.
const LOCK: &str = ".iocrec-lock";

/// Keeps a directory for this recorder. Lines for people go to `say`.
pub struct Guard {
    say: fn(&str),
    /// What was said last, not to be said again.
    said: Vec<String>,
    /// One that is ending is waited for: at the start only, since later the log's thread would stand still.
    waits: bool,
    /// Somebody else has the directory's lock; the file that is locked in its place, if it could be had, and its directory.
    instead: Option<Option<(File, File)>>,
    /// Whose the first directory was: no other user's comes into its place.
    owner: Option<u32>,
    /// Calls until the rules are looked at again.
    beats: u32,
    path: PathBuf,
}

impl std::fmt::Debug for Guard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Guard").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Guard {
    /// One that has no directory yet.
    pub fn new(say: fn(&str)) -> Guard {
        Guard {
            say,
            said: Vec::new(),
            waits: true,
            instead: None,
            owner: None,
            beats: 0,
            path: PathBuf::new(),
        }
    }

    /// Says these lines, but for those that were said the last time.
    fn tell(&mut self, lines: Vec<String>) {
        for line in lines.iter().filter(|line| !self.said.contains(line)) {
            (self.say)(line);
        }
        self.said = lines;
    }

    /// Locks the directory, or finds out who has.
    fn lock(&mut self, path: &Path, directory: &File) -> Result<Vec<String>, DirectoryError> {
        let begin = Instant::now();
        let patience = if std::mem::replace(&mut self.waits, false) { PATIENCE } else { BEAT };
        loop {
            match directory.try_lock() {
                Ok(()) => return locked(path, directory).map(|()| Vec::new()),
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(error)) => return Err(cannot_lock(path, &error)),
            }
            let holders = holders(directory);
            let recorder = holders.iter().find(|holder| holder.sort == Sort::Recorder);
            let strangers = !holders.is_empty() && holders.iter().all(|holder| holder.sort == Sort::Stranger);
            if strangers {
                return self.go_on_beside(path, directory, &holders);
            }
            let waited = begin.elapsed();
            // iocrec status looks at the lock, too, for a moment
            if recorder.is_some() && waited >= BEAT || waited >= patience {
                return Err(held(path, recorder.or(holders.first())));
            }
            sleep(BEAT);
        }
    }

    /// Others have locked the directory, and are no recorders.
    fn go_on_beside(
        &mut self,
        path: &Path,
        directory: &File,
        holders: &[Holder],
    ) -> Result<Vec<String>, DirectoryError> {
        let who: Vec<String> = holders.iter().map(Holder::in_words).collect();
        let mut line = format!(
            "{} is locked by {}, which is no recorder: recording goes on without that lock",
            path.display(),
            who.join(" and ")
        );
        let instead = match lock_file(directory, true) {
            Ok(Some(file)) => directory.try_clone().ok().map(|directory| (file, directory)),
            Ok(None) => return Err(held(path, None)),
            Err(error) => {
                line += &format!("; another recorder would not be kept off ({LOCK}: {error})");
                None
            }
        };
        self.instead = Some(instead);
        // a recorder that came in between saw no file yet, but is seen now
        if let Some(recorder) =
            crate::directory::holders(directory).iter().find(|holder| holder.sort == Sort::Recorder)
        {
            self.instead = None;
            return Err(held(path, Some(recorder)));
        }
        Ok(vec![line])
    }

    /// Gives up the file that is locked in place of the directory.
    fn forget_file(&mut self) {
        if let Some(Some((_, directory))) = self.instead.take() {
            // It may be gone with its directory.
            let _ = unlinkat(&directory, LOCK, UnlinkatFlags::NoRemoveDir);
        }
    }
}

impl Keeper for Guard {
    fn admit(&mut self, path: &Path, directory: &File) -> Result<(), DirectoryError> {
        self.forget_file();
        path.clone_into(&mut self.path);
        let mut lines = rules::check(path, directory).map_err(DirectoryError::refused)?;
        let owner = directory.metadata().map_or(0, |about| about.uid());
        match self.owner {
            Some(before) if owner != before && !holder::is_trusted(owner) => {
                return Err(DirectoryError::refused(format!(
                    "{} belongs to user {owner} now, and belonged to user {before} when recording began; \
                     chown it back, or start the recorder anew",
                    path.display()
                )));
            }
            _ => {}
        }
        lines.extend(self.lock(path, directory)?);
        self.owner.get_or_insert(owner);
        self.tell(lines);
        Ok(())
    }

    fn tend(&mut self, directory: &File) {
        self.beats += 1;
        if self.beats.is_multiple_of(RULES) {
            // whatever they say by now, nothing is lost for it
            if let Err(line) = rules::check(&self.path, directory) {
                self.tell(vec![line]);
            }
        }
        if self.instead.is_some() && directory.try_lock().is_ok() {
            self.forget_file();
            let line = format!("{}: the lock is the recorder's own now", self.path.display());
            self.tell(vec![line]);
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.forget_file();
    }
}

/// The directory is locked: is there no recorder that could not lock it before?
fn locked(path: &Path, directory: &File) -> Result<(), DirectoryError> {
    match lock_file(directory, false) {
        Ok(Some(_)) => {
            let _ = unlinkat(directory, LOCK, UnlinkatFlags::NoRemoveDir);
            Ok(())
        }
        Ok(None) => Err(held(path, None)),
        // It is not there, or can't be looked at.
        Err(_) => Ok(()),
    }
}

/// Opens and locks the file in place of the directory; `None` if a recorder has it locked.
fn lock_file(directory: &File, make: bool) -> io::Result<Option<File>> {
    let flags = OFlag::O_RDWR | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    let new = OFlag::O_CREAT | OFlag::O_EXCL;
    let owner = directory.metadata()?.uid();
    // what others have put there is removed once
    for _ in 0..2 {
        let opened = match openat(directory, LOCK, flags, Mode::empty()) {
            Err(Errno::ENOENT) if make => {
                openat(directory, LOCK, flags | new, Mode::from_bits_truncate(0o600))
            }
            other => other,
        };
        let file = match opened {
            Ok(opened) => File::from(opened),
            Err(Errno::ELOOP | Errno::EISDIR | Errno::ENXIO) => {
                unlinkat(directory, LOCK, UnlinkatFlags::NoRemoveDir)?;
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        let about = file.metadata()?;
        if !about.is_file() || !(holder::is_trusted(about.uid()) || about.uid() == owner) {
            unlinkat(directory, LOCK, UnlinkatFlags::NoRemoveDir)?;
            continue;
        }
        return match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        };
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

fn held(path: &Path, by: Option<&Holder>) -> DirectoryError {
    let path = path.display();
    DirectoryError::refused(match by {
        Some(holder) if holder.sort == Sort::Ending => format!(
            "{} is ending, and still has the lock of {path}; try again, and see what it waits for if that goes on",
            holder.in_words()
        ),
        Some(holder) => format!(
            "another recorder is writing to {path}: {}; stop it or name another directory",
            holder.in_words()
        ),
        None => format!(
            "another recorder is writing to {path}, or another process that can't be seen from here has locked it; \
             stop it or name another directory"
        ),
    })
}

fn cannot_lock(path: &Path, error: &io::Error) -> DirectoryError {
    let path = path.display();
    DirectoryError::refused(match error.raw_os_error() {
        // flock(2): over NFS a lock needs a file that is open for writing, which a directory can't be
        Some(libc::EBADF | libc::ENOLCK | libc::EOPNOTSUPP | libc::ENOSYS) => format!(
            "{path} can't be locked: {error}; its file system (NFS?) has no locks of directories: choose a directory on a local disk"
        ),
        _ => format!("can't lock {path}: {error}; check the file system or choose another directory"),
    })
}

/// The descriptor's number.
fn number(file: &File) -> i32 {
    file.as_raw_fd()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guard() -> Guard {
        Guard::new(|_| {})
    }

    fn open(path: &Path) -> File {
        File::open(path).unwrap()
    }

    #[test]
    fn a_stranger_does_not_keep_a_recorder_off() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        let theirs = open(path);
        theirs.try_lock().unwrap();
        // this process is no recorder
        let mut one = guard();
        let handle = open(path);
        one.admit(path, &handle).unwrap();
        assert!(path.join(LOCK).exists());
        assert_eq!(std::fs::metadata(path.join(LOCK)).unwrap().mode() & 0o777, 0o600);
        // but it keeps off another one
        let error = guard().admit(path, &open(path)).unwrap_err().to_string();
        assert!(error.contains("another recorder"), "{error}");
        drop(theirs);
        let error = guard().admit(path, &open(path)).unwrap_err().to_string();
        assert!(error.contains("another recorder"), "{error}");
        one.tend(&handle);
        assert!(!path.join(LOCK).exists(), "it leaves something behind");
        assert!(open(path).try_lock().is_err(), "it has taken the directory's lock");
        drop((one, handle));
        guard().admit(path, &open(path)).unwrap();
    }

    /// What a killed recorder has left, and what others have put in its place.
    #[test]
    fn files_that_are_there() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        std::fs::write(path.join(LOCK), "").unwrap();
        guard().admit(path, &open(path)).unwrap();
        assert!(!path.join(LOCK).exists());
        let victim = path.join("victim");
        std::fs::write(&victim, "x").unwrap();
        std::os::unix::fs::symlink(&victim, path.join(LOCK)).unwrap();
        let theirs = open(path);
        theirs.try_lock().unwrap();
        let mut one = guard();
        one.admit(path, &open(path)).unwrap();
        assert!(std::fs::symlink_metadata(path.join(LOCK)).unwrap().is_file());
        drop(one);
        assert!(!path.join(LOCK).exists());
        assert_eq!(std::fs::read(victim).unwrap(), b"x");
    }
}
