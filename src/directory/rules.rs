//! Rules for the owner of a log directory, and for the users who may write to it.
//!
//! Whoever can write to the directory can forge and delete the recording; whoever can write to its parent can replace
//! the directory.

use std::fs::{metadata, symlink_metadata, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::{fmt, io};

use nix::fcntl::AtFlags;
use nix::sys::stat::fstatat;

use crate::directory::holder::is_trusted;

/// Others may write (S_IWOTH).
pub(super) const OTHERS_WRITE: u32 = 0o002;
/// Members of its group may write (S_IWGRP).
pub(super) const GROUP_WRITES: u32 = 0o020;
/// Only their owner may delete files (S_ISVTX).
const STICKY: u32 = 0o1000;

/// Why a directory must not be used. Displays as a line that says what to do.
#[derive(Debug)]
pub(super) enum RuleError {
    /// It cannot be examined.
    Io(PathBuf, io::Error),
    /// Any user may write to it.
    AnyUserWrites {
        path: PathBuf,
        /// Permissions.
        mode: u32,
        /// User id.
        owner: u32,
    },
    /// It belongs to a user, and any user may make such a directory in its parent.
    AnyUserMade { path: PathBuf, owner: u32 },
    /// The path is, or leads through, a symbolic link of a user who could point it anywhere.
    ForeignLink { path: PathBuf, owner: u32 },
    /// Its owner is not that of the directory that was there when recording began.
    NewOwner { path: PathBuf, owner: u32, before: u32 },
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RuleError::Io(path, error) => write!(f, "{}: {error}", path.display()),
            RuleError::AnyUserWrites { path, mode, owner } => {
                let path = path.display();
                write!(
                    f,
                    "any user may write to {path} (mode {mode:o}, owner {owner}) and so change the log; {}",
                    remedy(&path)
                )
            }
            RuleError::AnyUserMade { path, owner } => write!(
                f,
                "{} belongs to user {owner}, and any user may make such a directory there; chown it to the \
                 recorder's user, or name another directory",
                path.display()
            ),
            RuleError::ForeignLink { path, owner } => write!(
                f,
                "{} is a symbolic link of user {owner}, who may let it lead anywhere; name the directory itself",
                path.display()
            ),
            RuleError::NewOwner { path, owner, before } => write!(
                f,
                "{} belongs to user {owner} now, but belonged to user {before} when recording began; chown it \
                 back, or restart the recorder",
                path.display()
            ),
        }
    }
}

impl std::error::Error for RuleError {}

fn remedy(path: &std::path::Display) -> String {
    format!("chmod o-w {path}, or name another directory")
}

/// Checks a directory. Returns lines that people should read about it.
///
/// # Errors
/// It must not be used.
pub(super) fn check(path: &Path, directory: &File) -> Result<Vec<String>, RuleError> {
    let shown = path.display();
    let about = directory.metadata().map_err(|error| RuleError::Io(path.to_owned(), error))?;
    let (mode, owner) = (about.mode(), about.uid());
    let ours = is_trusted(owner);
    let mut lines = Vec::new();
    if mode & OTHERS_WRITE != 0 {
        if !(mode & STICKY != 0 && ours) {
            return Err(RuleError::AnyUserWrites { path: path.to_owned(), mode: mode & 0o7777, owner });
        }
        lines.push(format!(
            "any user may add files to {shown}, which a reader may take for parts of the log; {}",
            remedy(&shown)
        ));
    }
    // both where its name says it is, and where it really is: its descriptor knows, whatever the path leads to by now
    let parent = match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
        None => path,
    };
    let anyone_made = metadata(parent).is_ok_and(|parent| parent.mode() & OTHERS_WRITE != 0)
        || fstatat(directory, "..", AtFlags::empty()).is_ok_and(|parent| parent.st_mode & OTHERS_WRITE != 0);
    if anyone_made && !ours {
        return Err(RuleError::AnyUserMade { path: path.to_owned(), owner });
    }
    // a user's link may lead only to the user's own directory
    match symlink_metadata(path) {
        Ok(link)
            if link.file_type().is_symlink()
                && !is_trusted(link.uid())
                && (anyone_made || link.uid() != owner) =>
        {
            return Err(RuleError::ForeignLink { path: path.to_owned(), owner: link.uid() });
        }
        _ => {}
    }
    if mode & GROUP_WRITES != 0 {
        lines.push(format!(
            "members of group {} may write to {shown} and so change the log; chmod g-w {shown} if they should not",
            about.gid()
        ));
    }
    if !ours {
        lines.push(format!("{shown} belongs to user {owner}, who may change the log"));
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::not_run::{not_run, Needs};
    use std::fs::{create_dir, set_permissions, Permissions};
    use std::os::unix::fs::{chown, symlink, PermissionsExt};

    fn checked(path: &Path) -> Result<Vec<String>, RuleError> {
        check(path, &File::open(path).unwrap())
    }

    fn set(path: &Path, mode: u32) {
        set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn modes() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("log");
        create_dir(&path).unwrap();
        for fine in [0o700, 0o750, 0o755, 0o2750] {
            set(&path, fine);
            assert!(checked(&path).unwrap().is_empty(), "{fine:o}");
        }
        for wrong in [0o777, 0o757, 0o702] {
            set(&path, wrong);
            let line = checked(&path).unwrap_err().to_string();
            assert!(line.contains("any user may write") && line.contains("chmod o-w "), "{line}");
        }
        set(&path, 0o1777);
        let lines = checked(&path).unwrap();
        assert!(lines.len() == 2 && lines[0].contains("chmod o-w"), "{lines:?}");
        set(&path, 0o770);
        let lines = checked(&path).unwrap();
        assert!(lines.len() == 1 && lines[0].contains("chmod g-w"), "{lines:?}");
    }

    #[test]
    fn owners() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("log");
        create_dir(&path).unwrap();
        if chown(&path, Some(1234), None).is_err() {
            return not_run("directory::rules::owners", Needs::Root);
        }
        let lines = checked(&path).unwrap();
        assert!(lines.len() == 1 && lines[0].contains("belongs to user 1234"), "{lines:?}");
        set(&path, 0o1777);
        assert!(checked(&path).is_err(), "its owner may delete what is in it");
        set(&path, 0o755);
        // as in /tmp
        set(parent.path(), 0o1777);
        let line = checked(&path).unwrap_err().to_string();
        assert!(line.contains("belongs to user 1234") && line.contains("chown"), "{line}");
        // whatever the path leads to while it is looked at
        let inner = tempfile::tempdir().unwrap();
        let elsewhere = inner.path().join("log");
        create_dir(&elsewhere).unwrap();
        let line = check(&elsewhere, &File::open(&path).unwrap()).unwrap_err().to_string();
        assert!(line.contains("any user may make such a directory"), "{line}");
        let (own, link) = (parent.path().join("own"), parent.path().join("link"));
        create_dir(&own).unwrap();
        symlink(&own, &link).unwrap();
        assert!(check(&link, &File::open(&own).unwrap()).unwrap().is_empty());
        std::os::unix::fs::lchown(&link, Some(1234), None).unwrap();
        let line = check(&link, &File::open(&own).unwrap()).unwrap_err().to_string();
        assert!(line.contains("symbolic link of user 1234"), "{line}");
    }
}
