//! Whose a log directory may be, and who may write to it.
//!
//! Who can write to the directory can forge and delete what was recorded; who can write to the one that it is in can put
//! another one in its place.

use std::fs::{metadata, symlink_metadata, File};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::directory::holder::is_trusted;

/// Others may write (S_IWOTH).
const OTHERS_WRITE: u32 = 0o002;
/// Members of its group may (S_IWGRP).
const GROUP_WRITES: u32 = 0o020;
/// Files may only be deleted by their owner (S_ISVTX).
const STICKY: u32 = 0o1000;

/// What people should know about a directory that may be used.
///
/// # Errors
/// It must not be: why, and what to do.
pub fn check(path: &Path, directory: &File) -> Result<Vec<String>, String> {
    let shown = path.display();
    let about = directory.metadata().map_err(|error| format!("{shown}: {error}"))?;
    let (mode, owner) = (about.mode(), about.uid());
    let ours = is_trusted(owner);
    let mut lines = Vec::new();
    if mode & OTHERS_WRITE != 0 {
        let remedy = format!("chmod o-w {shown}, or name another directory");
        if !(mode & STICKY != 0 && ours) {
            return Err(format!(
                "any user may write to {shown} (mode {:o}, owner {owner}) and so change the log; {remedy}",
                mode & 0o7777
            ));
        }
        lines.push(format!(
            "any user may add files to {shown}, which a reader may take for parts of the log; {remedy}"
        ));
    }
    // Where the directory came from, by its name, and where it is.
    let anyone_made = [Some(path.to_owned()), path.canonicalize().ok()].into_iter().flatten().any(|path| {
        let parent = match path.parent() {
            Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
            Some(parent) => parent,
            None => &path,
        };
        metadata(parent).is_ok_and(|parent| parent.mode() & OTHERS_WRITE != 0)
    });
    if anyone_made && !ours {
        return Err(format!(
            "{shown} belongs to user {owner}, and any user may make such a directory there; \
             chown it to the recorder's user, or name another directory"
        ));
    }
    // A user's link leads to what is the user's own, or it might lead anywhere.
    match symlink_metadata(path) {
        Ok(link)
            if link.file_type().is_symlink()
                && !is_trusted(link.uid())
                && (anyone_made || link.uid() != owner) =>
        {
            return Err(format!(
                "{shown} is a symbolic link of user {}, who may let it lead anywhere; name the directory itself",
                link.uid()
            ));
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

    fn checked(path: &Path) -> Result<Vec<String>, String> {
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
            assert_eq!(checked(&path), Ok(vec![]), "{fine:o}");
        }
        for wrong in [0o777, 0o757, 0o702] {
            set(&path, wrong);
            let line = checked(&path).unwrap_err();
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
        let line = checked(&path).unwrap_err();
        assert!(line.contains("belongs to user 1234") && line.contains("chown"), "{line}");
        let (own, link) = (parent.path().join("own"), parent.path().join("link"));
        create_dir(&own).unwrap();
        symlink(&own, &link).unwrap();
        assert_eq!(check(&link, &File::open(&own).unwrap()), Ok(vec![]));
        std::os::unix::fs::lchown(&link, Some(1234), None).unwrap();
        let line = check(&link, &File::open(&own).unwrap()).unwrap_err();
        assert!(line.contains("symbolic link of user 1234"), "{line}");
    }
}
