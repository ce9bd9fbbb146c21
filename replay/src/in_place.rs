//! Files that are opened by paths at which they were made before. In another user's directory he may have put something else
//! there meanwhile: a link that leads anywhere, or a pipe that nobody reads.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::path::Path;

/// Opens the file at this path to append to it.
///
/// # Errors
/// It can't be opened, or is no regular file.
pub fn append(path: &Path) -> io::Result<File> {
    let about = fs::symlink_metadata(path)?;
    if !about.is_file() {
        return other();
    }
    // for reading, too: a pipe that is put there just now would be waited for
    let file = OpenOptions::new().read(true).append(true).open(path)?;
    match is_one(&about, &file.metadata()?) {
        true => Ok(file),
        false => other(),
    }
}

fn other() -> io::Result<File> {
    Err(io::Error::other("another file was put there meanwhile"))
}

/// Opens a file that is there to be locked, or makes it.
///
/// # Errors
/// It can't be made or opened, or is no regular file.
pub fn lockable(path: &Path) -> io::Result<File> {
    match File::create_new(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => append(path),
        made => made,
    }
}

#[cfg(unix)]
fn is_one(one: &Metadata, other: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

#[cfg(not(unix))]
fn is_one(_: &Metadata, _: &Metadata) -> bool {
    true
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn no_link_is_followed() {
        let directory = tempfile::tempdir().unwrap();
        let [lock, link, other] = ["lock", "link", "other"].map(|name| directory.path().join(name));
        std::os::unix::fs::symlink(&other, &link).unwrap();
        assert!(lockable(&link).is_err() && !other.exists(), "nothing is made there");
        for _ in 0..2 {
            lockable(&lock).unwrap();
        }
        fs::write(&other, "theirs").unwrap();
        assert!(lockable(&link).is_err() && append(&link).is_err());
        assert!(append(&other).is_ok() && fs::read(&other).unwrap() == b"theirs");
    }
}
