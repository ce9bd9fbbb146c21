//! Destination of the answer: standard output, or the file given with `-o`.
//!
//! Guarantees: a log is never written to, whatever name is used for the file; nothing is written into a log's
//! directory; and an existing file stays as it is until everything is written, since the output goes to a file beside
//! it, under another name, which then replaces it; a signal leaves nothing of that. No file is replaced, no mode taken over, and nothing handed over,
//! because another user has put a link, a file or a pipe in a directory for all, such as /tmp. What goes to a file whose
//! name ends in `.gz` is packed with gzip.

use crate::failure::{Conflict, Failure, UsageError};
use crate::terminal::{self, progress};
use crate::unfinished::Unfinished;
use flate2::write::GzEncoder;
use flate2::Compression;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

/// File name extension of a segment.
const SEGMENT: &str = ".iocrec";

/// File name extension of what is packed with gzip.
const PACKED: &str = ".gz";

/// Destination of the answer.
pub enum Destination {
    /// Standard output.
    Standard {
        /// Standard output.
        out: io::Stdout,
        /// Whether it may be seen on a terminal: it is one, or a pager's pipe.
        seen: bool,
    },
    /// A device or a pipe.
    Device(File),
    /// A file.
    Beside(Beside),
    /// A file or device that gets the bytes packed with gzip.
    Packed {
        /// Packs, and writes there.
        encoder: GzEncoder<Box<Destination>>,
        /// Whether there was anything to pack: an empty answer leaves an existing file as it is.
        written: bool,
    },
}

/// A file being written beside the one that it will replace.
pub struct Beside {
    file: File,
    own: PathBuf,
    to: PathBuf,
    written: bool,
    _unfinished: Unfinished,
}

impl Destination {
    /// Opens the file given with `-o`, if any; one named `.gz` is packed. `logs` are the logs that will be read.
    pub fn open(named: Option<&Path>, logs: &[PathBuf]) -> Result<Destination, Failure> {
        let Some(path) = named else { return Ok(Destination::standard()) };
        let plain = Destination::named("-o", path, logs)?;
        if !path.to_string_lossy().ends_with(PACKED) {
            return Ok(plain);
        }
        // measured with gzip on 164 MB of traces: the best level takes twice the time for 2 % fewer bytes
        let encoder = GzEncoder::new(Box::new(plain), Compression::default());
        Ok(Destination::Packed { encoder, written: false })
    }

    /// Refuses a name that is empty, and `-`: only `-o` of an answer takes that for standard output.
    pub fn check_name(option: &'static str, path: &Path) -> Result<(), UsageError> {
        match path.to_str() {
            Some("") => Err(UsageError::EmptyOutput(option)),
            // of follow, with the space that keeps it from being an option
            Some("-" | " -") => Err(UsageError::Dash(option)),
            _ => Ok(()),
        }
    }

    /// Opens the file given with this option.
    pub fn named(option: &'static str, path: &Path, logs: &[PathBuf]) -> Result<Destination, Failure> {
        Destination::check_name(option, path)?;
        let failed = |error| Failure::output(error, Some(path));
        check_owner(path).map_err(failed)?;
        let about = match fs::metadata(path) {
            Ok(about) => Some(about),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(failed(error)),
        };
        // Follow a symbolic link to its target, so that the link stays. A dangling one is replaced.
        let to = match &about {
            Some(about) if about.is_file() => target(path, about).map_err(failed)?,
            Some(_) => path.canonicalize().unwrap_or_else(|_| path.to_owned()),
            None => path.to_owned(),
        };
        if let Some(conflict) = conflict(&to, about.as_ref(), logs) {
            return Err(UsageError::OutputInLog { option, file: path.to_owned(), conflict }.into());
        }
        match about {
            Some(about) if about.is_dir() => Err(failed(io::ErrorKind::IsADirectory.into())),
            Some(about) if !about.is_file() => {
                OpenOptions::new().write(true).open(path).map(Destination::Device).map_err(failed)
            }
            about => Beside::create(to, about).map(Destination::Beside).map_err(failed),
        }
    }

    /// Checks that this option does not name a directory of a log, or one that would be in it.
    pub fn check_directory(option: &'static str, path: &Path, logs: &[PathBuf]) -> Result<(), UsageError> {
        Destination::check_name(option, path)?;
        let to = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        // a file in it would be as wrong
        let within = to.join("_");
        let conflict =
            conflict(&to, fs::metadata(path).ok().as_ref(), logs).or_else(|| conflict(&within, None, logs));
        conflict.map_or(Ok(()), |conflict| {
            Err(UsageError::OutputInLog { option, file: path.to_owned(), conflict })
        })
    }

    /// Checks that this option names no file of a log, nor one that would be in its directory.
    pub fn check_file(option: &'static str, path: &Path, logs: &[PathBuf]) -> Result<(), UsageError> {
        Destination::check_name(option, path)?;
        let to = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        conflict(&to, fs::metadata(path).ok().as_ref(), logs).map_or(Ok(()), |conflict| {
            Err(UsageError::OutputInLog { option, file: path.to_owned(), conflict })
        })
    }

    /// Checks that no two of these options name one file: what is written to it first would be lost. A device takes both, and a
    /// directory several files.
    pub fn check_apart(named: &[(&'static str, Option<&Path>)]) -> Result<(), UsageError> {
        let mut before: Vec<(&'static str, PathBuf)> = Vec::new();
        for (option, path) in named {
            let Some(path) = *path else { continue };
            if fs::metadata(path).is_ok_and(|about| !about.is_file()) {
                continue;
            }
            let place = place(path);
            if let Some((first, _)) = before.iter().find(|(_, other)| *other == place) {
                return Err(UsageError::OneFile { options: [*first, *option], file: path.to_owned() });
            }
            before.push((*option, place));
        }
        Ok(())
    }

    fn standard() -> Destination {
        let out = terminal::standard();
        Destination::Standard { seen: !is_stored(&out), out }
    }

    /// Whether it is a terminal.
    pub fn is_terminal(&self) -> bool {
        matches!(self, Destination::Standard { out, .. } if out.is_terminal())
    }

    /// Finishes the output. `whole`: it is complete; otherwise it replaces the file only if it is not empty.
    pub fn close(self, whole: bool) -> io::Result<()> {
        match self {
            Destination::Standard { mut out, .. } => out.flush(),
            Destination::Device(mut file) => file.flush(),
            Destination::Beside(beside) if whole || beside.written => fs::rename(&beside.own, &beside.to),
            Destination::Beside(_) => Ok(()),
            Destination::Packed { encoder, written } if whole || written => encoder.finish()?.close(true),
            Destination::Packed { .. } => Ok(()),
        }
    }
}

impl Write for Destination {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Destination::Standard { out, seen } => {
                if *seen {
                    progress::end();
                }
                out.write(bytes)
            }
            Destination::Device(file) => file.write(bytes),
            Destination::Beside(beside) => {
                beside.written = true;
                beside.file.write(bytes)
            }
            Destination::Packed { encoder, written } => {
                *written |= !bytes.is_empty();
                encoder.write(bytes)
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Destination::Standard { out, .. } => out.flush(),
            Destination::Device(file) | Destination::Beside(Beside { file, .. }) => file.flush(),
            Destination::Packed { encoder, .. } => encoder.flush(),
        }
    }
}

impl Beside {
    /// Creates it. `like`: metadata of the existing file.
    fn create(to: PathBuf, like: Option<Metadata>) -> io::Result<Beside> {
        if like.is_some() {
            // A file without write permission is not replaced either.
            OpenOptions::new().write(true).open(&to)?;
        }
        let create = |more: &str| {
            let own = to.with_file_name(format!(".iocreplay-{}{more}.part", std::process::id()));
            let mut options = OpenOptions::new();
            options.write(true).create_new(true);
            #[cfg(unix)]
            if like.is_some() {
                // whoever opened it before it has the mode of the existing file could read what comes later
                std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
            }
            options.open(&own).map(|file| (own, file))
        };
        // a second file in the same directory
        let (own, file) = create("").or_else(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => create("-2"),
            _ => Err(error),
        })?;
        let _unfinished = Unfinished::new(&own);
        let beside = Beside { file, own, to, written: false, _unfinished };
        if let Some(like) = like {
            beside.file.set_permissions(permissions(&like, &beside.file.metadata()?))?;
        }
        Ok(beside)
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        // Already renamed if all went well.
        let _ = fs::remove_file(&self.own);
    }
}

/// Refuses a symbolic link or a pipe of another user in a directory for all, such as /tmp: a link may lead to any file, and a pipe
/// is waited for until he reads it. Most kernels are set to refuse links, too (proc_sys_fs(5), protected_symlinks).
#[cfg(unix)]
fn check_owner(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::{FileTypeExt, MetadataExt};
    /// The sticky bit, and others may write.
    const SHARED: u32 = 0o1002;
    let Ok(there) = fs::symlink_metadata(path) else { return Ok(()) };
    let kind = there.file_type();
    if !kind.is_symlink() && !kind.is_fifo() {
        return Ok(());
    }
    let parent = path.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."));
    let around = fs::metadata(parent)?;
    let is_foreign = ![around.uid(), rustix::process::geteuid().as_raw()].contains(&there.uid());
    if is_foreign && around.mode() & SHARED == SHARED {
        let user = there.uid();
        return Err(io::Error::other(match kind.is_symlink() {
            true => format!("it is a symbolic link of user {user}, who may let it lead anywhere"),
            false => format!("it is a pipe of user {user}, who would get what is written"),
        }));
    }
    Ok(())
}

#[cfg(not(unix))]
fn check_owner(_: &Path) -> io::Result<()> {
    Ok(())
}

/// The path, without links, of the file to which a path leads. It must be what the kernel finds there: that does not follow
/// every link, while their texts can always be read.
fn target(path: &Path, about: &Metadata) -> io::Result<PathBuf> {
    let to = path.canonicalize()?;
    match identity(&fs::symlink_metadata(&to)?) == identity(about) {
        true => Ok(to),
        false => Err(io::Error::other("another file was put there meanwhile")),
    }
}

/// Where a file is or will be, without links, as far as its directory exists.
fn place(path: &Path) -> PathBuf {
    let beside = || {
        let parent = path.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."));
        Some(parent.canonicalize().ok()?.join(path.file_name()?))
    };
    path.canonicalize().ok().or_else(beside).unwrap_or_else(|| path.to_owned())
}

/// The permissions for what replaces a file: no more than to read and write it, and of another user's nothing that lets others
/// change it.
#[cfg(unix)]
fn permissions(like: &Metadata, own: &Metadata) -> fs::Permissions {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    let kept = if like.uid() == own.uid() { 0o777 } else { 0o755 };
    fs::Permissions::from_mode(like.mode() & kept)
}

#[cfg(not(unix))]
fn permissions(like: &Metadata, _: &Metadata) -> fs::Permissions {
    like.permissions()
}

/// The conflict if a file must not be written: it belongs to a log, or would.
fn conflict(to: &Path, about: Option<&Metadata>, logs: &[PathBuf]) -> Option<Conflict> {
    let is_segment = |path: &Path| path.to_string_lossy().ends_with(SEGMENT);
    let own = about.and_then(identity);
    let same = |other: &Path| {
        let other_is = fs::metadata(other).ok().as_ref().and_then(identity);
        own.is_some() && own == other_is || other.canonicalize().is_ok_and(|other| other == to)
    };
    if logs.iter().any(|log| !log.is_dir() && same(log)) {
        return Some(Conflict::IsSegment);
    }
    let within = logs.iter().flat_map(|log| [log.clone()].into_iter().chain(entries(log)));
    let here = |parent: &Path| if parent == Path::new("") { PathBuf::from(".") } else { parent.to_owned() };
    let into = to.parent().and_then(|parent| here(parent).canonicalize().ok());
    for directory in within.filter(|path| path.is_dir()) {
        let mut segments = entries(&directory).filter(|path| is_segment(path)).peekable();
        if segments.peek().is_some() && into.is_some() && directory.canonicalize().ok() == into {
            let over = about.is_some() && is_segment(to);
            return Some(if over { Conflict::IsSegment } else { Conflict::InDirectory });
        }
        if own.is_some() && segments.any(|segment| same(&segment)) {
            return Some(Conflict::IsSegment);
        }
    }
    match (is_segment(to), about) {
        (false, _) => None,
        (true, Some(_)) => Some(Conflict::IsSegment),
        (true, None) => Some(Conflict::NamedLikeSegment),
    }
}

/// Whether what is written there is seen only later, if at all: in a file, or in /dev/null.
#[cfg(unix)]
fn is_stored(out: &io::Stdout) -> bool {
    use std::os::fd::AsFd;
    use std::os::unix::fs::FileTypeExt;
    let about = out.as_fd().try_clone_to_owned().and_then(|own| File::from(own).metadata());
    about.is_ok_and(|about| about.is_file() || about.file_type().is_char_device() && !out.is_terminal())
}

#[cfg(not(unix))]
fn is_stored(_: &io::Stdout) -> bool {
    false
}

fn entries(directory: &Path) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path())
}

/// Identity of a file, the same for all its names.
#[cfg(unix)]
fn identity(about: &Metadata) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    Some((about.dev(), about.ino()))
}

#[cfg(not(unix))]
fn identity(_: &Metadata) -> Option<(u64, u64)> {
    None
}
