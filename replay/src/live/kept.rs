//! How far a log was followed, in a file: what was shown of it, and apart from that what a collector has taken, since that
//! may be behind. With it a later run goes on where this one ended.
//!
//! A spool has it beside its segments. For a directory that a recorder writes it is a file of its own, which knows what it is
//! of by the paths of the logs and by the recorder's runs in them: a state of another log is refused.

use crate::follow::deleted::Deleted;
use crate::follow::{self, Key, Memory, Saved};
use crate::logs::Logs;
use crate::model::alarms::Alarm;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The file in a spool.
const IN_SPOOL: &str = ".iocreplay-followed";
/// Bytes of the file: two million rows.
const MAX_BYTES: u64 = 128 << 20;

/// Why it can't be used.
#[derive(Debug)]
pub enum KeptError {
    /// The system refuses.
    Io(PathBuf, io::Error),
    /// It can't be understood.
    Damaged {
        /// The file.
        file: PathBuf,
        /// Whether it is in a spool.
        in_spool: bool,
    },
    /// It is of another log.
    OtherLog {
        /// The file.
        file: PathBuf,
        /// That log.
        log: String,
    },
    /// Another process uses it.
    Busy(PathBuf),
}

impl fmt::Display for KeptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeptError::Io(file, error) => write!(
                f,
                "can't keep in {} how far the log was followed: {error}; name another place",
                file.display()
            ),
            KeptError::Damaged { file, in_spool: true } => write!(
                f,
                "{} is damaged; delete it, and what is in the spool will be shown again",
                file.display()
            ),
            KeptError::Damaged { file, in_spool: false } => write!(
                f,
                "{} is no state of iocreplay follow, or damaged; name another file, or delete it, and all of the log is shown \
                 and sent again",
                file.display()
            ),
            KeptError::OtherLog { file, log } => {
                write!(f, "{} is the state of another log, {log}; name another file with --state", file.display())
            }
            KeptError::Busy(file) => write!(
                f,
                "another iocreplay follow uses the state {}; name another file with --state",
                file.display()
            ),
        }
    }
}

impl std::error::Error for KeptError {}

/// What was done with the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// Lines were written, and sent to syslog.
    Shown,
    /// A collector has taken it.
    Sent,
}

/// How far that has come.
#[derive(Clone, Default, Serialize, Deserialize)]
struct Part {
    hosts: Vec<Saved>,
    /// The last alarm of each record.
    alarms: Vec<(String, Alarm)>,
    /// The first segment of each run of which more may come.
    #[serde(default)]
    runs: Vec<(String, u32)>,
    /// Its host, in the same order.
    #[serde(default)]
    run_hosts: Vec<String>,
}

/// Which log it is of.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Log {
    paths: Vec<String>,
    /// The recorder's runs.
    runs: Vec<String>,
}

/// What the file holds.
#[derive(Default, Serialize, Deserialize)]
struct Followed {
    /// What was shown.
    #[serde(flatten)]
    shown: Part,
    /// `None`: as far as that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sent: Option<Part>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    log: Option<Log>,
    /// The earliest time that was asked for when it began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    since: Option<i64>,
}

/// It, for as long as the log is followed.
pub struct Kept {
    file: PathBuf,
    followed: Mutex<Followed>,
    /// The lock is held as long as it is open.
    _lock: Option<File>,
}

impl Kept {
    /// That of the spool at this path, which is locked.
    ///
    /// # Errors
    /// It can't be read.
    pub fn in_spool(path: &Path) -> Result<Kept, KeptError> {
        Kept::read(path.join(IN_SPOOL), true, None)
    }

    /// This file, for the logs at these paths.
    ///
    /// # Errors
    /// It can't be used, or is of another log.
    pub fn in_file(file: &Path, logs: &Logs, paths: &[PathBuf]) -> Result<Kept, KeptError> {
        // a link's target is replaced, not the link
        let file = file.canonicalize().unwrap_or_else(|_| file.to_owned());
        let failed = |error| KeptError::Io(file.clone(), error);
        if fs::metadata(&file).is_ok_and(|about| !about.is_file()) {
            return Err(KeptError::Damaged { file, in_spool: false });
        }
        let path = beside(&file, ".lock");
        // a pipe would not be opened until somebody reads it, and a link may lead anywhere
        if path.symlink_metadata().is_ok_and(|about| !about.is_file()) {
            return Err(failed(io::Error::other("the file .lock beside it is no regular file")));
        }
        let lock = open_lock(&path).map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(KeptError::Busy(file)),
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        let kept = Kept::read(file, false, Some(lock))?;
        let now = Log { paths: real(paths), runs: runs(logs) };
        {
            let mut followed = kept.followed();
            if let Some(log) = &followed.log {
                let is_it = log.paths == now.paths || log.runs.iter().any(|run| now.runs.contains(run));
                if !is_it {
                    let (file, log) = (kept.file.clone(), log.paths.join(" "));
                    return Err(KeptError::OtherLog { file, log });
                }
            }
            followed.log = Some(now);
        }
        // better now than when there is something to lose
        kept.save()?;
        Ok(kept)
    }

    fn read(file: PathBuf, in_spool: bool, lock: Option<File>) -> Result<Kept, KeptError> {
        let failed = |error| KeptError::Io(file.clone(), error);
        let mut text = Vec::new();
        let is_new = match File::open(&file) {
            Ok(opened) => {
                opened.take(MAX_BYTES + 1).read_to_end(&mut text).map_err(failed)?;
                false
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => true,
            Err(error) => return Err(failed(error)),
        };
        let is_long = text.len() as u64 > MAX_BYTES;
        let followed = match is_new {
            true => Some(Followed::default()),
            false => serde_json::from_slice(&text)
                .ok()
                .filter(|of: &Followed| !is_long && (in_spool || of.log.is_some())),
        };
        let Some(followed) = followed else { return Err(KeptError::Damaged { file, in_spool }) };
        Ok(Kept { file, followed: Mutex::new(followed), _lock: lock })
    }

    fn followed(&self) -> MutexGuard<'_, Followed> {
        self.followed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From where the log was followed at first; `begin` says it if that is now.
    ///
    /// # Errors
    /// Those of `begin`.
    pub fn since<E>(&self, begin: impl FnOnce() -> Result<Option<i64>, E>) -> Result<Option<i64>, E> {
        let mut followed = self.followed();
        // also if the run before did not come so far as to read anything
        if followed.shown.hosts.is_empty() {
            followed.since = begin()?;
        }
        Ok(followed.since)
    }

    /// How far that was done, the last alarm of each record by then, and the segments.
    pub fn load(&self, done: Done) -> (Memory, Vec<(String, Alarm)>, Deleted) {
        let mut followed = self.followed();
        let Part { hosts, alarms, runs, run_hosts } = match done {
            Done::Shown => followed.shown.clone(),
            Done::Sent => {
                let shown = followed.shown.clone();
                followed.sent.get_or_insert(shown).clone()
            }
        };
        (Memory::load(hosts), alarms, Deleted::load(&runs, &run_hosts))
    }

    /// Notes how far that was done. `deleted`: what it knows of the segments; `None`: as before.
    pub fn note<'a>(
        &self,
        done: Done,
        memory: &Memory,
        alarms: impl Iterator<Item = (&'a str, Alarm)>,
        deleted: Option<&Deleted>,
    ) {
        let alarms = alarms.map(|(name, alarm)| (name.to_owned(), alarm)).collect();
        let mut followed = self.followed();
        if let (Some(log), Some(deleted)) = (&mut followed.log, deleted) {
            log.runs = deleted.save().into_iter().map(|(run, _)| run).collect();
        }
        let part = match done {
            Done::Shown => &mut followed.shown,
            Done::Sent => followed.sent.get_or_insert_default(),
        };
        let (runs, run_hosts) = match deleted {
            Some(deleted) => (deleted.save(), deleted.hosts()),
            None => (std::mem::take(&mut part.runs), std::mem::take(&mut part.run_hosts)),
        };
        *part = Part { hosts: memory.save(), alarms, runs, run_hosts };
    }

    /// Notes that a collector has taken these rows, too.
    pub fn add(&self, rows: &[Key]) {
        let mut followed = self.followed();
        follow::add(&mut followed.sent.get_or_insert_default().hosts, rows);
    }

    /// Writes the file. A reader finds the old one or the new one.
    ///
    /// # Errors
    /// It can't be written.
    pub fn save(&self) -> Result<(), KeptError> {
        let failed = |error| KeptError::Io(self.file.clone(), error);
        let followed = self.followed();
        let text = serde_json::to_vec(&*followed).map_err(|error| failed(error.into()))?;
        let part = beside(&self.file, ".part");
        let write = || {
            // what a run that was killed has left, or a link that somebody has put there
            let _ = fs::remove_file(&part);
            let mut file = File::create_new(&part)?;
            file.write_all(&text)?;
            // else a machine that loses power may keep the new name and not what it names
            file.sync_data()?;
            drop(file);
            fs::rename(&part, &self.file)
        };
        write().map_err(|error| {
            // on a full disk, what is there of it is of no use
            let _ = fs::remove_file(&part);
            failed(error)
        })
    }
}

/// Opens the file that is locked, and makes it if it is not there. A link that somebody puts there meanwhile makes no file
/// elsewhere, and what it leads to is not taken for it.
fn open_lock(path: &Path) -> io::Result<File> {
    match File::create_new(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        opened => return opened,
    }
    let about = path.symlink_metadata()?;
    let lock = OpenOptions::new().write(true).open(path)?;
    match about.is_file() && is_one(&about, &lock.metadata()?) {
        true => Ok(lock),
        false => Err(io::Error::other("the file .lock beside it is no regular file")),
    }
}

#[cfg(unix)]
fn is_one(one: &fs::Metadata, other: &fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

#[cfg(not(unix))]
fn is_one(_: &fs::Metadata, _: &fs::Metadata) -> bool {
    true
}

/// A file of this name, and more.
fn beside(file: &Path, more: &str) -> PathBuf {
    let mut name = file.file_name().unwrap_or_default().to_owned();
    name.push(more);
    file.with_file_name(name)
}

/// Paths that say the same from everywhere.
fn real(paths: &[PathBuf]) -> Vec<String> {
    let path =
        |path: &PathBuf| path.canonicalize().unwrap_or_else(|_| path.clone()).to_string_lossy().into_owned();
    let mut paths: Vec<String> = paths.iter().map(path).collect();
    paths.sort();
    paths
}

/// The recorder's runs in these logs.
fn runs(logs: &Logs) -> Vec<String> {
    let first = |files: &Vec<_>| files.iter().find_map(|file: &iocrec_log::reader::SegmentFile| file.header);
    logs.runs().iter().filter_map(first).map(|header| format!("{:x}", header.run)).collect()
}
