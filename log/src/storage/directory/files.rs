//! Files, by name, in an open directory. No function follows a symbolic link or waits.

use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{openat, renameat, AtFlags, OFlag};
use nix::sys::stat::{fstatat, FileStat, Mode, SFlag};
use nix::unistd::{unlinkat, UnlinkatFlags};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Mode of new files. The umask may remove further bits.
const MODE: Mode = Mode::from_bits_truncate(0o640);

/// The system's data on a file.
pub(super) struct About {
    /// Its length, bytes.
    pub length: u64,
    /// Number of 512-byte blocks that it takes.
    pub blocks: u64,
    /// Time of the last write, nanoseconds since 1970 UTC.
    pub modified: i64,
    /// User id of its owner.
    pub owner: u32,
}

/// Opens a directory. `path` itself may be a symbolic link to it.
pub(crate) fn open_directory(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(OFlag::O_DIRECTORY.bits()).open(path)
}

/// Opens a directory that was just made. A symbolic link in its place is an error.
pub(super) fn open_made(path: &Path) -> io::Result<File> {
    let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW;
    OpenOptions::new().read(true).custom_flags(flags.bits()).open(path)
}

/// Creates a file for appending. It must not exist.
pub(super) fn create(directory: &File, name: &str) -> io::Result<File> {
    let flags = OFlag::O_WRONLY | OFlag::O_APPEND | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW;
    Ok(openat(directory, name, flags | OFlag::O_CLOEXEC, MODE)?.into())
}

/// Opens a file for writing. It must not have another name.
pub(super) fn open(directory: &File, name: &str) -> io::Result<File> {
    let flags = OFlag::O_WRONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    let file = File::from(openat(directory, name, flags, Mode::empty())?);
    let about = file.metadata()?;
    if !about.is_file() || about.nlink() != 1 {
        return Err(io::Error::other("it is not one of the recorder's own files"));
    }
    Ok(file)
}

/// Opens a file for reading.
pub(crate) fn open_to_read(directory: &File, name: &str) -> io::Result<File> {
    let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    Ok(openat(directory, name, flags, Mode::empty())?.into())
}

/// Renames a file. The new name must be free.
pub(super) fn rename(directory: &File, from: &str, to: &str) -> io::Result<()> {
    // Only one recorder writes here, so nobody creates it in between.
    match fstatat(directory, to, AtFlags::AT_SYMLINK_NOFOLLOW) {
        Err(Errno::ENOENT) => {}
        Ok(_) => return Err(io::ErrorKind::AlreadyExists.into()),
        Err(error) => return Err(error.into()),
    }
    Ok(renameat(directory, from, directory, to)?)
}

/// Deletes a file.
pub(super) fn remove(directory: &File, name: &str) -> io::Result<()> {
    Ok(unlinkat(directory, name, UnlinkatFlags::NoRemoveDir)?)
}

/// Device and inode number of the file with a name.
#[allow(clippy::unnecessary_cast, reason = "their types differ between systems")]
pub(super) fn identity(directory: &File, name: &str) -> io::Result<(u64, u64)> {
    let found = fstatat(directory, name, AtFlags::AT_SYMLINK_NOFOLLOW)?;
    Ok((found.st_dev as u64, found.st_ino as u64))
}

/// Passes all files to `show`, except those whose names are not UTF-8: they are not the recorder's.
pub(super) fn each(directory: &File, mut show: impl FnMut(&str, About)) -> io::Result<()> {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let mut entries = Dir::openat(directory, ".", flags, Mode::empty())?;
    for entry in entries.iter() {
        let entry = entry?;
        let Ok(name) = entry.file_name().to_str() else { continue };
        match fstatat(directory, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
            Ok(found) if is_file(&found) => show(name, about(&found)),
            Ok(_) => {}
            Err(Errno::ENOENT) => {} // deleted just now
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn is_file(found: &FileStat) -> bool {
    SFlag::from_bits_truncate(found.st_mode) & SFlag::S_IFMT == SFlag::S_IFREG
}

#[allow(clippy::unnecessary_cast, reason = "their types differ between systems")]
fn about(found: &FileStat) -> About {
    let seconds = (found.st_mtime as i64).max(0);
    About {
        length: u64::try_from(found.st_size as i64).unwrap_or(0),
        blocks: u64::try_from(found.st_blocks as i64).unwrap_or(0),
        modified: seconds.saturating_mul(1_000_000_000).saturating_add(found.st_mtime_nsec as i64),
        owner: found.st_uid,
    }
}
