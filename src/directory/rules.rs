//! Rules for the owner of a log directory, and for the users who may write to it.
//!
//! Whoever can write to the directory can forge and delete the recording; whoever can write to its parent can replace
//! the directory; whoever can write to a directory further up can let the path lead anywhere, and root would make, write and
//! delete there.

use std::fs::{metadata, read_link, symlink_metadata, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::{fmt, io};

use nix::unistd::geteuid;

use crate::directory::holder::is_trusted;

/// Others may write (S_IWOTH).
const OTHERS_WRITE: u32 = 0o002;
/// Members of its group may write (S_IWGRP).
const GROUP_WRITES: u32 = 0o020;
/// Only their owner may delete files (S_ISVTX).
const STICKY: u32 = 0o1000;
/// Symbolic links in a path that are followed: as many as the kernel follows (path_resolution(7)).
const LINKS: u32 = 40;

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
    /// The path is a symbolic link of a user who could point it anywhere.
    ForeignLink { path: PathBuf, owner: u32 },
    /// Something further up in the path belongs to a user who could let the path lead anywhere.
    ForeignWay { path: PathBuf, place: PathBuf, owner: u32 },
    /// Any user may write to a directory further up.
    AnyUserWay { path: PathBuf, place: PathBuf },
    /// It was opened through a name that leads to something else now.
    Replaced(PathBuf),
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
            RuleError::ForeignWay { path, place, owner } => write!(
                f,
                "{} belongs to user {owner}, who may let {} lead anywhere; name another directory, or make one there \
                 that belongs to that user",
                place.display(),
                path.display()
            ),
            RuleError::AnyUserWay { path, place } => {
                let place = place.display();
                write!(
                    f,
                    "any user may write to {place} and so let {} lead anywhere; {}",
                    path.display(),
                    remedy(&place)
                )
            }
            RuleError::Replaced(path) => {
                write!(f, "{} was replaced while it was opened; find out by whom, and try again", path.display())
            }
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

/// Checks that no other user can let the path of a directory lead elsewhere. `owner`: the directory's owner, who may let it
/// lead to other directories of that user.
///
/// What this finds right nobody but root and that user can change afterwards. So the path still leads there when it is used.
///
/// # Errors
/// Another user can.
pub(super) fn check_way(path: &Path, owner: u32) -> Result<(), RuleError> {
    // without root's rights nobody would gain more than this user's own
    if !geteuid().is_root() {
        return Ok(());
    }
    let Some(parent) = path.parent() else { return Ok(()) };
    let mut links = LINKS;
    check_steps(path, parent, owner, &mut links)?;
    // its last name may be a link, too
    read_link(path).map_or(Ok(()), |target| check_steps(path, &parent.join(target), owner, &mut links))
}

/// Checks each directory in which a name of `way` is looked up, from the top, and where links lead.
fn check_steps(path: &Path, way: &Path, owner: u32, links: &mut u32) -> Result<(), RuleError> {
    let foreign = |place: &Path, found: u32| match is_trusted(found) || found == owner {
        true => Ok(()),
        false => Err(RuleError::ForeignWay { path: path.to_owned(), place: place.to_owned(), owner: found }),
    };
    let steps: Vec<&Path> = way.ancestors().collect();
    for step in steps.into_iter().rev() {
        let Some(parent) = step.parent() else { continue };
        let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
        let failed = |error| RuleError::Io(step.to_owned(), error);
        let about = metadata(parent).map_err(failed)?;
        let found = symlink_metadata(step).map_err(failed)?;
        foreign(parent, about.uid())?;
        if about.mode() & OTHERS_WRITE != 0 {
            if about.mode() & STICKY == 0 {
                return Err(RuleError::AnyUserWay { path: path.to_owned(), place: parent.to_owned() });
            }
            // as in /tmp: whoever made it may put something else in its place
            foreign(step, found.uid())?;
        }
        if found.file_type().is_symlink() {
            *links = links.checked_sub(1).ok_or_else(|| failed(io::ErrorKind::InvalidInput.into()))?;
            let target = read_link(step).map_err(failed)?;
            check_steps(path, &parent.join(target), owner, links)?;
        }
    }
    Ok(())
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
    check_way(path, owner)?;
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
    // both where its name says it is, and where it really is
    let anyone_made = [Some(path.to_owned()), path.canonicalize().ok()].into_iter().flatten().any(|path| {
        let parent = match path.parent() {
            Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
            Some(parent) => parent,
            None => &path,
        };
        metadata(parent).is_ok_and(|parent| parent.mode() & OTHERS_WRITE != 0)
    });
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
        // a link that was there for a moment may have led anywhere
        Ok(found)
            if !found.file_type().is_symlink()
                && (found.dev(), found.ino()) != (about.dev(), about.ino()) =>
        {
            return Err(RuleError::Replaced(path.to_owned()));
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
        let (own, link) = (parent.path().join("own"), parent.path().join("link"));
        create_dir(&own).unwrap();
        symlink(&own, &link).unwrap();
        assert!(check(&link, &File::open(&own).unwrap()).unwrap().is_empty());
        std::os::unix::fs::lchown(&link, Some(1234), None).unwrap();
        let line = check(&link, &File::open(&own).unwrap()).unwrap_err().to_string();
        assert!(line.contains("symbolic link of user 1234"), "{line}");
    }

    /// Another user who could let the path lead elsewhere: above the directory's parent, where what root makes goes.
    #[test]
    fn the_way_to_it() {
        let top = tempfile::tempdir().unwrap();
        let outer = top.path().join("outer");
        let (inner, link) = (outer.join("inner"), top.path().join("link"));
        let path = inner.join("log");
        std::fs::create_dir_all(&path).unwrap();
        if chown(&outer, Some(1234), None).is_err() {
            return not_run("directory::rules::the_way_to_it", Needs::Root);
        }
        let refused = |path: &Path, place: &Path, words: &str| {
            let made = check_way(&path.with_file_name("new"), 0).unwrap_err().to_string();
            let opened = checked(path).unwrap_err().to_string();
            for (line, path) in [(made, path.with_file_name("new")), (opened, path.to_owned())] {
                let words = format!("{} {words}", place.display());
                assert!(line.contains(&words) && line.contains(path.to_str().unwrap()), "{line}");
            }
        };
        refused(&path, &outer, "belongs to user 1234, who may let ");
        // a link of root's that leads through it
        symlink(&inner, &link).unwrap();
        refused(&link.join("log"), &outer, "belongs to user 1234, who may let ");
        // that user's own directory, but none that is to be made for root
        set(&path, 0o755);
        chown(&path, Some(1234), None).unwrap();
        assert_eq!(checked(&path).unwrap().len(), 1);
        check_way(&path, 0).unwrap_err();
        chown(&path, Some(0), None).unwrap();
        // the owner of the parent alone can put nothing but a link in its place, which is not followed
        chown(&outer, Some(0), None).unwrap();
        chown(&inner, Some(1234), None).unwrap();
        assert!(checked(&path).unwrap().is_empty());
        check_way(&inner.join("new"), 0).unwrap();
        // as in /tmp: unless that user can rename the parent
        set(&outer, 0o1777);
        refused(&path, &inner, "belongs to user 1234, who may let ");
        chown(&inner, Some(0), None).unwrap();
        assert!(checked(&path).unwrap().is_empty());
        check_way(&inner.join("new"), 0).unwrap();
        set(&outer, 0o777);
        refused(&path, &outer, "and so let ");
    }

    /// What was opened is not what has the name.
    #[test]
    fn another_directory() {
        let parent = tempfile::tempdir().unwrap();
        let (path, other) = (parent.path().join("log"), parent.path().join("other"));
        create_dir(&path).unwrap();
        create_dir(&other).unwrap();
        let line = check(&path, &File::open(&other).unwrap()).unwrap_err().to_string();
        assert!(line.contains("was replaced"), "{line}");
    }
}
