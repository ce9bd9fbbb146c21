//! Keeps a log directory for one recorder.

use std::fs::{File, TryLockError};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use iocrec_log::storage::{DirectoryError, Keeper};

use crate::directory::holder::{holders, is_trusted, Holder, HolderKind};
use crate::directory::lock::{self, LockError};
use crate::directory::rules::{self, RuleError};
use crate::directory::way;

/// Longest wait for a recorder that is being killed. The kernel removes its probes one after the other, a grace period
/// each; it releases the lock before or after.
const PATIENCE: Duration = Duration::from_secs(5);
/// Interval between attempts to take the lock meanwhile. A process that only checks the lock has it for less.
const INTERVAL: Duration = Duration::from_millis(50);
/// Calls of `tend` between checks of the rules: about ten seconds.
const RULES_INTERVAL: u32 = 10;

/// Keeps a directory for this recorder.
pub struct Guard {
    /// Gets lines for people.
    warn: fn(&str),
    /// The last lines, which are not repeated.
    warned: Vec<String>,
    /// Whether to wait for a recorder that is ending. At the start only: later the log's thread would be held up.
    waits: bool,
    /// Lock taken because another process has the directory's lock.
    substitute: Option<Substitute>,
    /// Owner of the first directory; no other user's directory may replace it.
    owner: Option<u32>,
    /// Calls of `tend`.
    calls: u32,
    path: PathBuf,
}

/// Locks in place of the directory's: the file, if it could be made, and its directory.
type Substitute = Option<(File, File)>;

impl std::fmt::Debug for Guard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Guard").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Guard {
    /// A guard without a directory. `warn` gets lines for people.
    pub fn new(warn: fn(&str)) -> Guard {
        Guard {
            warn,
            warned: Vec::new(),
            waits: true,
            substitute: None,
            owner: None,
            calls: 0,
            path: PathBuf::new(),
        }
    }

    /// Reports lines to people, except those of the last time.
    fn warn(&mut self, lines: Vec<String>) {
        for line in lines.iter().filter(|line| !self.warned.contains(line)) {
            (self.warn)(line);
        }
        self.warned = lines;
    }

    /// Locks the directory, or the file if a stranger has locked the directory. Returns lines for people.
    fn lock(&mut self, path: &Path, directory: &File) -> Result<Vec<String>, LockError> {
        let begin = Instant::now();
        let patience = if std::mem::replace(&mut self.waits, false) { PATIENCE } else { INTERVAL };
        loop {
            match directory.try_lock() {
                Ok(()) => return lock::check_free(path, directory).map(|()| Vec::new()),
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(error)) => return Err(LockError::Io(path.to_owned(), error)),
            }
            let holders = holders(directory);
            let recorder = holders.iter().find(|holder| holder.kind == HolderKind::Recorder);
            let are_strangers =
                !holders.is_empty() && holders.iter().all(|holder| holder.kind == HolderKind::Stranger);
            if are_strangers {
                return self.lock_substitute(path, directory, &holders);
            }
            let waited = begin.elapsed();
            // iocrec status takes the lock for a moment, too
            if recorder.is_some() && waited >= INTERVAL || waited >= patience {
                return Err(LockError::held(path, recorder.or(holders.first())));
            }
            sleep(INTERVAL);
        }
    }

    /// Locks the file, since strangers have locked the directory.
    fn lock_substitute(
        &mut self,
        path: &Path,
        directory: &File,
        strangers: &[Holder],
    ) -> Result<Vec<String>, LockError> {
        let who: Vec<String> = strangers.iter().map(ToString::to_string).collect();
        let mut line = format!(
            "{} is locked by {}, which is not a recorder; recording continues without that lock",
            path.display(),
            who.join(" and ")
        );
        let substitute = match lock::lock_file(directory, true) {
            Ok(Some(file)) => directory.try_clone().ok().map(|directory| (file, directory)),
            Ok(None) => return Err(LockError::held(path, None)),
            Err(error) => {
                line += &format!("; another recorder would not be kept off ({}: {error})", lock::NAME);
                None
            }
        };
        self.substitute = Some(substitute);
        // a recorder that came in between saw no file yet, but is visible now
        let holders = holders(directory);
        if let Some(recorder) = holders.iter().find(|holder| holder.kind == HolderKind::Recorder) {
            self.substitute = None;
            return Err(LockError::held(path, Some(recorder)));
        }
        Ok(vec![line])
    }

    fn remove_substitute(&mut self) {
        if let Some(Some((_, directory))) = self.substitute.take() {
            lock::remove(&directory);
        }
    }
}

impl Keeper for Guard {
    fn open(&mut self, path: &Path) -> Result<(File, bool), DirectoryError> {
        way::open(path)
    }

    fn admit(&mut self, path: &Path, directory: &File) -> Result<(), DirectoryError> {
        self.remove_substitute();
        path.clone_into(&mut self.path);
        let mut lines = rules::check(path, directory).map_err(DirectoryError::refused)?;
        let owner = directory.metadata().map_or(0, |metadata| metadata.uid());
        if let Some(before) = self.owner.filter(|&before| owner != before && !is_trusted(owner)) {
            return Err(DirectoryError::refused(RuleError::NewOwner {
                path: path.to_owned(),
                owner,
                before,
            }));
        }
        lines.extend(self.lock(path, directory).map_err(DirectoryError::refused)?);
        self.owner.get_or_insert(owner);
        self.warn(lines);
        Ok(())
    }

    fn tend(&mut self, directory: &File) {
        self.calls += 1;
        if self.calls.is_multiple_of(RULES_INTERVAL) {
            // a violation is reported, but recording continues
            if let Err(error) = rules::check(&self.path, directory) {
                self.warn(vec![error.to_string()]);
            }
        }
        if self.substitute.is_some() && directory.try_lock().is_ok() {
            self.remove_substitute();
            let line = format!("{}: the recorder has the lock now", self.path.display());
            self.warn(vec![line]);
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.remove_substitute();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directory::lock::NAME;
    use std::process::Command;

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
        // this process is not a recorder
        let mut one = guard();
        let handle = open(path);
        one.admit(path, &handle).unwrap();
        assert!(path.join(NAME).exists());
        assert_eq!(std::fs::metadata(path.join(NAME)).unwrap().mode() & 0o777, 0o600);
        // but it keeps another one off
        let error = guard().admit(path, &open(path)).unwrap_err().to_string();
        assert!(error.contains("another recorder"), "{error}");
        drop(theirs);
        let error = guard().admit(path, &open(path)).unwrap_err().to_string();
        assert!(error.contains("another recorder"), "{error}");
        one.tend(&handle);
        assert!(!path.join(NAME).exists(), "it leaves something behind");
        assert!(open(path).try_lock().is_err(), "it has taken the directory's lock");
        drop((one, handle));
        guard().admit(path, &open(path)).unwrap();
    }

    /// The directory was copied by links (cp -al), as backups do, while a stranger had locked it.
    #[test]
    fn a_recorder_s_file_has_a_second_name() {
        let top = tempfile::tempdir().unwrap();
        let (path, program) = (top.path().join("log"), top.path().join("iocrec-other"));
        std::fs::create_dir(&path).unwrap();
        std::os::unix::fs::symlink("/bin/sleep", &program).unwrap();
        let lock = File::create(path.join(NAME)).unwrap();
        lock.try_lock().unwrap();
        let mut recorder = Command::new(&program).arg("60").stdin(lock).spawn().unwrap();
        std::fs::hard_link(path.join(NAME), top.path().join("copy")).unwrap();
        let theirs = open(&path);
        theirs.try_lock().unwrap();
        let admitted = guard().admit(&path, &open(&path));
        let names = std::fs::metadata(path.join(NAME)).unwrap().nlink();
        recorder.kill().and_then(|()| recorder.wait()).unwrap();
        let error = admitted.unwrap_err().to_string();
        assert!(error.contains("another recorder"), "{error}");
        assert_eq!(names, 2, "it has its lock");
    }

    /// Files left by a killed recorder, and files of others in their place.
    #[test]
    fn files_that_are_there() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        std::fs::write(path.join(NAME), "").unwrap();
        guard().admit(path, &open(path)).unwrap();
        assert!(!path.join(NAME).exists());
        let victim = path.join("victim");
        std::fs::write(&victim, "x").unwrap();
        std::os::unix::fs::symlink(&victim, path.join(NAME)).unwrap();
        let theirs = open(path);
        theirs.try_lock().unwrap();
        let mut one = guard();
        one.admit(path, &open(path)).unwrap();
        assert!(std::fs::symlink_metadata(path.join(NAME)).unwrap().is_file());
        drop(one);
        assert!(!path.join(NAME).exists());
        // a second name of a file that other programs lock
        std::fs::hard_link(&victim, path.join(NAME)).unwrap();
        let used = File::options().write(true).open(&victim).unwrap();
        used.try_lock().unwrap();
        let mut one = guard();
        one.admit(path, &open(path)).unwrap();
        assert_eq!(std::fs::metadata(path.join(NAME)).unwrap().nlink(), 1);
        drop((one, used));
        std::fs::hard_link(&victim, path.join(NAME)).unwrap();
        let mut one = guard();
        one.admit(path, &open(path)).unwrap();
        open(&victim).try_lock().unwrap();
        drop(one);
        assert_eq!(std::fs::read(victim).unwrap(), b"x");
    }
}
