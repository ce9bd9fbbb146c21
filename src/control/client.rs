//! The client's end, for `iocrec mark` and `iocrec status`: finds a directory's recorder and asks it.

use std::fs::{File, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fmt, thread};

use nix::errno::Errno;

use crate::control::name::{is_trusted, name_of, other_names, reach};
use crate::control::request::{Reply, Request, TIMEOUT};
use crate::control::server::NameHolder;
use crate::directory::{self, Holder, HolderKind};

/// Attempts to reach a busy recorder, and the pause between them.
const ATTEMPTS: u32 = 20;
const PAUSE: Duration = Duration::from_millis(100);

/// Why there is no reply. Displays as a line that names the directory and what to do.
#[derive(Debug)]
pub enum AskError {
    /// No recorder writes to the directory.
    NotRunning(PathBuf),
    /// The directory cannot be examined.
    Directory {
        /// The directory.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// An untrusted process has the name of the recorder's socket.
    Impostor {
        /// The directory.
        path: PathBuf,
        /// The process, for people.
        who: String,
    },
    /// A recorder writes to the directory, but cannot be reached from here.
    Unreachable {
        /// The directory.
        path: PathBuf,
        /// The recorder, or the process that has locked the directory, if it can be seen.
        holder: Option<Holder>,
        /// Why.
        error: Errno,
    },
    /// The recorder hangs up on this user, or on everybody, since it ends.
    Silent(PathBuf),
    /// The recorder could not be asked, or has not answered in time.
    Io {
        /// The directory.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
}

impl fmt::Display for AskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AskError::NotRunning(path) => {
                write!(f, "no recorder writes to {}; start one with iocrec record", path.display())
            }
            AskError::Directory { path, error } => {
                write!(f, "{}: {error}; name the directory of a log", path.display())
            }
            AskError::Impostor { path, who } => write!(
                f,
                "{who} has the socket name of the recorder of {}, and is not trusted; run this as root, in the \
                 recorder's network namespace",
                path.display()
            ),
            AskError::Unreachable { path, holder, error } => {
                let path = path.display();
                match holder {
                    Some(holder) if holder.kind == HolderKind::Recorder => {
                        write!(f, "a recorder, {holder}, writes to {path}")?;
                    }
                    Some(holder) => {
                        write!(f, "no recorder answers for {path}, which {holder} has locked")?;
                    }
                    None => write!(f, "a recorder writes to {path}")?,
                }
                write!(
                    f,
                    ", but it cannot be asked: {}; run this in its network namespace (outside of the container)",
                    io::Error::from(*error)
                )
            }
            AskError::Silent(path) => write!(
                f,
                "the recorder of {} {}",
                path.display(),
                match nix::unistd::geteuid().is_root() {
                    true => "has hung up: it is ending; try again",
                    false => "does not answer this user; run this as root",
                }
            ),
            AskError::Io { path, error } if error.kind() == io::ErrorKind::WouldBlock => write!(
                f,
                "the recorder of {} has not answered in {} s; check whether it was stopped (SIGSTOP), or its disk \
                 hangs",
                path.display(),
                TIMEOUT.as_secs()
            ),
            AskError::Io { path, error } => write!(
                f,
                "the recorder of {} does not answer: {error}; check whether its disk hangs",
                path.display()
            ),
        }
    }
}

impl std::error::Error for AskError {}

/// Sends a request to the recorder that writes to a directory.
///
/// # Errors
/// There is no recorder, or it does not reply.
pub fn ask(directory: &Path, request: &Request) -> Result<Reply, AskError> {
    let mut stream = find(directory)?;
    let mut reply = String::new();
    let asked = stream
        .set_read_timeout(Some(TIMEOUT))
        .and_then(|()| stream.write_all(request.encode().as_bytes()))
        .and_then(|()| stream.shutdown(std::net::Shutdown::Write))
        .and_then(|()| stream.read_to_string(&mut reply));
    let path = directory.to_owned();
    match (asked, Reply::decode(&reply)) {
        (Ok(_), Some(reply)) => Ok(reply),
        (Ok(_), None) => Err(AskError::Silent(path)),
        // it hangs up on a user that it does not trust before it reads the request
        (Err(error), _) if has_hung_up(&error) => Err(AskError::Silent(path)),
        (Err(error), _) => Err(AskError::Io { path, error }),
    }
}

fn has_hung_up(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe)
}

/// Connects to the recorder of a directory, if a trusted one can be reached.
fn find(directory: &Path) -> Result<UnixStream, AskError> {
    let path = directory.to_owned();
    let (name, owner) = match name_of(directory) {
        Ok(found) => found,
        Err(error) => return Err(AskError::Directory { path, error }),
    };
    let first = reach_patiently(&name);
    let impostor = match first {
        Ok(stream) if is_trusted(&stream, owner) => return Ok(stream),
        Ok(_) => true,
        Err(_) => false,
    };
    let others = other_names(&name);
    let found = others.iter().filter_map(|other| reach(other).ok()).find(|stream| is_trusted(stream, owner));
    if let Some(stream) = found {
        return Ok(stream);
    }
    // whether there is one can't be told of a directory that can't be opened
    let handle = match File::open(directory) {
        Ok(handle) => handle,
        Err(error) => return Err(AskError::Directory { path, error }),
    };
    let mut holders = directory::holders(&handle);
    // a recorder comes first
    holders.sort_by_key(|holder| holder.kind != HolderKind::Recorder);
    let holder = holders.into_iter().next();
    let is_locked = matches!(handle.try_lock_shared(), Err(TryLockError::WouldBlock));
    let has_recorder = holder.as_ref().is_some_and(|holder| holder.kind == HolderKind::Recorder);
    if impostor && (has_recorder || holder.is_none() && is_locked) {
        return Err(AskError::Impostor { path, who: NameHolder::of(&name, owner).text });
    }
    if !is_locked {
        return Err(AskError::NotRunning(path));
    }
    Err(AskError::Unreachable { path, holder, error: first.err().unwrap_or(Errno::ECONNREFUSED) })
}

/// Connects to a recorder that may be busy.
fn reach_patiently(name: &str) -> Result<UnixStream, Errno> {
    for _ in 0..ATTEMPTS {
        match reach(name) {
            Err(Errno::EAGAIN) => thread::sleep(PAUSE),
            other => return other,
        }
    }
    Err(Errno::EAGAIN)
}
