//! The real directory, and the lines for what users can do wrong with one.

use iocrec_log::storage::{Directory, DirectoryError, Storage};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn files_and_their_modes() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("log");
    let mut directory = Directory::open(&path).unwrap();
    // The caller's umask may take more away, as it should.
    assert_eq!(mode(&path) & !0o750, 0);
    assert_eq!(directory.list().unwrap(), vec![]);
    directory.append(b"x").unwrap_err();
    directory.create("a", 0).unwrap();
    assert_eq!(mode(&path.join("a")) & !0o640, 0);
    directory.append(b"hello").unwrap();
    directory.append(b" there").unwrap();
    directory.sync().unwrap();
    assert_eq!(fs::read(path.join("a")).unwrap(), b"hello there");
    directory.create("a", 0).unwrap_err();
    directory.append(b"x").unwrap_err(); // a failed create leaves none open
    directory.create("b", 0).unwrap();
    fs::create_dir(path.join("c")).unwrap();
    let mut files = directory.list().unwrap();
    files.sort_by(|a, b| a.name.cmp(&b.name));
    let about: Vec<_> = files.iter().map(|file| (file.name.as_str(), file.length)).collect();
    assert_eq!(about, [("a", 11), ("b", 0)]);
    assert!(files[0].modified > 1_600_000_000_000_000_000, "{files:?}");
    directory.rename("a", "b").unwrap_err();
    directory.rename("missing", "d").unwrap_err();
    directory.rename("a", "d").unwrap();
    directory.rename("b", "e").unwrap();
    directory.append(b"still open").unwrap();
    assert_eq!(fs::read(path.join("e")).unwrap(), b"still open");
    directory.sync_names().unwrap();
    directory.remove("d").unwrap();
    directory.remove("e").unwrap();
    directory.append(b"x").unwrap_err();
    assert_eq!(directory.remove("a").unwrap_err().kind(), std::io::ErrorKind::NotFound);
    assert_eq!(directory.list().unwrap(), vec![]);
}

#[test]
fn one_recorder_at_a_time() {
    let parent = tempfile::tempdir().unwrap();
    let first = Directory::open(parent.path()).unwrap();
    let error = Directory::open(parent.path()).unwrap_err();
    assert!(matches!(error, DirectoryError::Locked(_)));
    assert_eq!(
        error.to_string(),
        format!(
            "another recorder is writing to {}; stop it or name another directory",
            parent.path().display()
        )
    );
    drop(first);
    Directory::open(parent.path()).unwrap();
    assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0, "the lock left something");
}

#[test]
fn what_is_no_directory() {
    let parent = tempfile::tempdir().unwrap();
    let file = parent.path().join("file");
    fs::write(&file, "").unwrap();
    let missing = parent.path().join("no/such");
    for (path, expected) in [
        (&file, format!("{} is not a directory; name a directory for the log", file.display())),
        (
            &missing,
            format!(
                "can't make {}: No such file or directory (os error 2); make its parent directory first",
                missing.display()
            ),
        ),
    ] {
        assert_eq!(Directory::open(path).unwrap_err().to_string(), expected);
    }
}

/// Root may write anywhere but where nothing can be written: /proc is such a place for everybody.
#[test]
fn what_cannot_be_written() {
    let error = Directory::open(Path::new("/proc/self")).unwrap_err().to_string();
    assert!(error.starts_with("can't write to /proc/self: "), "{error}");
    assert!(!error.contains('\n'));
}
