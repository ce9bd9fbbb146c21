//! The way to a log directory: each name of its path is looked up in the directory to which the names before it have
//! led, by that directory's descriptor, and symbolic links are followed by hand.
//!
//! Root makes, writes and deletes in the log's directory. Another user who may write to a directory on the way could put
//! a symbolic link there at any moment, and so choose where. Directories may belong to anybody: without links a path
//! leads to nothing but what that user may move there. Links may belong to root or to the recorder's user. One of
//! another user is followed only
//!
//! - out of a directory of root or of the recorder's user to which nobody else may write, so that nobody exchanges it;
//! - or to a directory of the link's owner, unless any user may write to the one that the link is in.
//!
//! (`rules` refuses more links that stand for the log's directory itself.) Whose a link of a file system is that a process
//! serves (FUSE), only that process says: it counts as a link of the user who has mounted that.
//!
//! What is looked at is what is used, so it does not matter when something is exchanged.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path};

use iocrec_log::storage::{DirectoryError, DIRECTORY_MODE};
use nix::errno::Errno;
use nix::fcntl::{openat, OFlag, AT_FDCWD};
use nix::sys::stat::{fstat, mkdirat, Mode};
use nix::sys::statfs::{fstatfs, FUSE_SUPER_MAGIC, PROC_SUPER_MAGIC};

use crate::directory::holder::{is_trusted, mount_of, path_of};
use crate::directory::rules::{RuleError, GROUP_WRITES, OTHERS_WRITE};

/// Symbolic links in a path that are followed: as many as the kernel follows (path_resolution(7)).
const LINKS: u32 = 40;
/// Opens a place in the file system for nothing but to look from there; a link itself, not what it leads to.
const PLACE: OFlag = OFlag::O_PATH.union(OFlag::O_NOFOLLOW).union(OFlag::O_CLOEXEC);
/// The same for a directory only.
const DIRECTORY: OFlag = PLACE.union(OFlag::O_DIRECTORY);

/// Opens a directory, and makes it if it is missing. Also returns whether it was made.
///
/// # Errors
/// It can't be made or opened, it is no directory, or the way leads through a link that must not be followed.
pub(super) fn open(path: &Path) -> Result<(File, bool), DirectoryError> {
    let failed = |doing: &'static str, error: io::Error| {
        // not the system's, but the refusal of a link
        if error.get_ref().is_some() {
            return DirectoryError::refused(error);
        }
        DirectoryError::Io { path: path.to_owned(), doing, source: error }
    };
    let mut names = path.components();
    // an empty path is nothing, not this directory
    let name = names.next_back().map_or(OsStr::new(""), Component::as_os_str);
    let mut links = LINKS;
    let parent = walk(AT_FDCWD, names.as_path(), &mut links).map_err(|error| failed("make", error))?;
    let (place, made) = match step(parent.as_fd(), name, &mut links) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => match make(parent.as_fd(), name) {
            // somebody else has made it meanwhile, or it is a link that leads nowhere
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                (step(parent.as_fd(), name, &mut links).map_err(|_| error), false)
            }
            made => (made, true),
        },
        found => (found, false),
    };
    let place = place.map_err(|error| match error.kind() {
        io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => {
            DirectoryError::NotADirectory(path.to_owned())
        }
        _ => failed("make", error),
    })?;
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let handle = openat(place.as_fd(), OsStr::new("."), flags, Mode::empty());
    Ok((handle.map_err(|error| failed("open", error.into()))?.into(), made))
}

/// The directory to which a path leads now, for nothing but to look at it.
///
/// # Errors
/// There is none, or the way leads through a link that must not be followed.
pub fn place(path: &Path) -> io::Result<OwnedFd> {
    let mut links = LINKS;
    walk(AT_FDCWD, path, &mut links)
}

/// The directory to which a path leads.
fn walk(from: BorrowedFd<'_>, path: &Path, links: &mut u32) -> io::Result<OwnedFd> {
    // an absolute path is open to who may not search `from`, such as root's home
    let start = if path.is_absolute() { "/" } else { "." };
    let mut at = openat(from, OsStr::new(start), DIRECTORY, Mode::empty())?;
    for name in path.components() {
        at = step(at.as_fd(), name.as_os_str(), links)?;
    }
    Ok(at)
}

/// The directory with a name, or the one to which a link of that name leads.
fn step(at: BorrowedFd<'_>, name: &OsStr, links: &mut u32) -> io::Result<OwnedFd> {
    match openat(at, name, DIRECTORY, Mode::empty()) {
        Err(Errno::ENOTDIR | Errno::ELOOP) => follow(at, name, links),
        found => Ok(found?),
    }
}

/// Makes a directory. No link that comes in its place is followed, since the mode of what was made is changed later.
fn make(at: BorrowedFd<'_>, name: &OsStr) -> io::Result<OwnedFd> {
    mkdirat(at, name, Mode::from_bits_truncate(DIRECTORY_MODE))?;
    Ok(openat(at, name, DIRECTORY, Mode::empty())?)
}

/// The directory to which a link leads, unless its owner must not choose that.
fn follow(at: BorrowedFd<'_>, name: &OsStr, links: &mut u32) -> io::Result<OwnedFd> {
    let link = openat(at, name, PLACE, Mode::empty())?;
    let (about, around) = (fstat(link.as_fd())?, fstat(at)?);
    if about.st_mode & libc::S_IFMT != libc::S_IFLNK {
        return Err(Errno::ENOTDIR.into());
    }
    *links = links.checked_sub(1).ok_or(Errno::ELOOP)?;
    let file_system = fstatfs(link.as_fd())?.filesystem_type();
    let found = if file_system == PROC_SUPER_MAGIC {
        // the kernel's own, which nobody exchanges; /proc/PID/root and others lead elsewhere than their text says
        openat(at, name, DIRECTORY.difference(OFlag::O_NOFOLLOW), Mode::empty())?
    } else {
        walk(at, Path::new(&target(&link)?), links)?
    };
    let server = if file_system == FUSE_SUPER_MAGIC { mounted_by(&mount_of(link.as_raw_fd())) } else { 0 };
    let owner = if is_trusted(server) { about.st_uid } else { server };
    let is_kept = is_trusted(server) && is_trusted(around.st_uid) && around.st_mode & GROUP_WRITES == 0;
    if is_trusted(owner)
        || around.st_mode & OTHERS_WRITE == 0 && (is_kept || fstat(found.as_fd())?.st_uid == owner)
    {
        return Ok(found);
    }
    Err(io::Error::other(RuleError::ForeignLink { path: path_of(&File::from(link)), owner }))
}

/// The user who has mounted a file system that a process serves, by its line of mountinfo; nobody's number if it does not say.
fn mounted_by(mount: &str) -> u32 {
    // the options of the file system are last; the source before them may be of the user's choice
    let mut words = mount.rsplit(' ');
    let options = words.next().unwrap_or_default();
    // the host of a virtual machine serves it, and only root mounts it: the options do not say that
    if words.nth(1) == Some("virtiofs") {
        return 0;
    }
    options.split(',').find_map(|option| option.strip_prefix("user_id=")?.parse().ok()).unwrap_or(u32::MAX)
}

/// The text of a link.
fn target(link: &OwnedFd) -> io::Result<OsString> {
    let mut text = vec![0_u8; libc::PATH_MAX as usize];
    // SAFETY: the empty name, which ends with a NUL, stands for the descriptor itself; the kernel writes no more bytes
    // than the buffer has.
    let length =
        unsafe { libc::readlinkat(link.as_raw_fd(), c"".as_ptr(), text.as_mut_ptr().cast(), text.len()) };
    text.truncate(usize::try_from(length).map_err(|_| io::Error::last_os_error())?);
    Ok(OsString::from_vec(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directory::Guard;
    use crate::not_run::{not_run, Needs};
    use iocrec_log::storage::{Directory, Storage};
    use std::fs::{self, create_dir, set_permissions, Permissions};
    use std::os::unix::fs::{chown, lchown, symlink, MetadataExt, PermissionsExt};
    use std::path::PathBuf;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::Barrier;

    /// Another user.
    const OTHER: u32 = 1234;

    fn top() -> (tempfile::TempDir, PathBuf) {
        let top = tempfile::tempdir().unwrap();
        let path = top.path().canonicalize().unwrap();
        (top, path)
    }

    fn set(path: &Path, mode: u32) {
        set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    fn line(path: &Path) -> String {
        open(path).unwrap_err().to_string()
    }

    /// Asserts that a path leads to a directory that is there.
    #[track_caller]
    fn leads_to(path: &Path, place: &Path) {
        let (directory, made) = open(path).unwrap();
        let (found, there) = (directory.metadata().unwrap(), fs::metadata(place).unwrap());
        assert!(!made, "{}", path.display());
        assert_eq!((found.dev(), found.ino()), (there.dev(), there.ino()), "{}", path.display());
    }

    #[test]
    fn usual_paths() {
        for path in [".", "..", "/", "/.", "src/..", "./src/directory"] {
            leads_to(Path::new(path), Path::new(path));
        }
        leads_to(&std::env::temp_dir(), &std::env::temp_dir());
        let (_top, top) = top();
        let log = top.join("log");
        let (directory, made) = open(&log).unwrap();
        assert!(made && directory.metadata().unwrap().mode() & 0o777 & !0o750 == 0);
        leads_to(&log, &log);
        create_dir(log.join("inner")).unwrap();
        symlink("log", top.join("one")).unwrap();
        symlink("./one/inner/../", top.join("two")).unwrap();
        symlink(top.join("two"), log.join("three")).unwrap();
        leads_to(&top.join("one"), &log);
        leads_to(&log.join("three"), &log);
        leads_to(&top.join("two/three/./inner/.."), &log);
        assert!(open(&top.join("two/new")).unwrap().1);
        assert!(log.join("new").is_dir());
    }

    #[test]
    fn what_two_make_at_once() {
        let (_top, top) = top();
        for round in 0..200 {
            let (log, both) = (top.join(round.to_string()), Barrier::new(2));
            let makes = || {
                both.wait();
                open(&log).unwrap().1
            };
            let made = std::thread::scope(|scope| {
                let other = scope.spawn(makes);
                [makes(), other.join().unwrap()]
            });
            assert_ne!(made[0], made[1], "one of them makes it, and both have it");
        }
    }

    #[test]
    fn what_leads_nowhere() {
        let (_top, top) = top();
        let path = |name: &str| top.join(name);
        fs::write(path("file"), "").unwrap();
        symlink("file", path("to-file")).unwrap();
        symlink("missing", path("dangling")).unwrap();
        symlink("circle", path("circle")).unwrap();
        for name in ["file", "to-file", "dangling"] {
            let line = line(&path(name));
            assert!(
                line.ends_with(&format!("{name} is not a directory; name a directory for the log")),
                "{line}"
            );
        }
        assert!(!path("missing").exists());
        for (name, words) in [
            ("missing/log", "make its parent directory first"),
            ("dangling/log", "make its parent directory first"),
            ("file/log", "Not a directory"),
            ("circle", "Too many levels"),
            ("circle/log", "Too many levels"),
        ] {
            let line = line(&path(name));
            assert!(
                line.starts_with(&format!("can't make {}", top.display())) && line.contains(words),
                "{line}"
            );
        }
        assert!(line(Path::new("")).starts_with("can't make "), "it is not this directory");
        // as many links as the kernel follows
        create_dir(path("0")).unwrap();
        for number in 1..=LINKS + 1 {
            symlink((number - 1).to_string(), path(&number.to_string())).unwrap();
        }
        leads_to(&path(&LINKS.to_string()), &path("0"));
        assert!(line(&path(&(LINKS + 1).to_string())).contains("Too many levels"));
    }

    /// The text of such a link may name nothing, or something else.
    #[test]
    fn links_of_the_kernel() {
        let (_top, top) = top();
        let path = top.join("log");
        create_dir(&path).unwrap();
        let kept = File::open(&path).unwrap();
        fs::remove_dir(&path).unwrap();
        let link = format!("/proc/self/fd/{}", kept.as_raw_fd());
        leads_to(Path::new(&link), Path::new(&link));
        leads_to(Path::new("/proc/self/cwd/src"), Path::new("src"));
    }

    #[test]
    fn links_of_other_users() {
        let (_top, top) = top();
        let (theirs, secret, link) = (top.join("theirs"), top.join("secret"), top.join("link"));
        let way = theirs.join("way");
        for path in [&theirs, &secret, &secret.join("log")] {
            create_dir(path).unwrap();
            set(path, 0o755);
        }
        symlink(&secret, &way).unwrap();
        symlink(&way, &link).unwrap();
        if lchown(&way, Some(OTHER), None).is_err() {
            return not_run("directory::way::links_of_other_users", Needs::Root);
        }
        let refused = || {
            for path in [way.clone(), way.join("log"), way.join("new"), link.join("log"), link.join("new")] {
                let line = line(&path);
                let words =
                    format!("{} is a symbolic link of user {OTHER}, who may let it lead", way.display());
                assert!(line.starts_with(&words), "{line}");
            }
            assert_eq!(fs::read_dir(&secret).unwrap().count(), 1, "it made something there");
        };
        chown(&theirs, Some(OTHER), None).unwrap();
        refused();
        let keeper = || Box::new(Guard::new(|_| {}));
        let error = Directory::open_kept(&way.join("new"), keeper()).unwrap_err().to_string();
        assert!(error.contains("is a symbolic link of user"), "{error}");
        // a link of root's in their directory
        lchown(&way, Some(0), None).unwrap();
        leads_to(&link.join("log"), &secret.join("log"));
        // nobody else can exchange it
        lchown(&way, Some(OTHER), None).unwrap();
        chown(&theirs, Some(0), None).unwrap();
        leads_to(&link.join("log"), &secret.join("log"));
        for mode in [0o775, 0o777, 0o1777] {
            set(&theirs, mode);
            refused();
        }
        // to what is their own
        chown(&secret, Some(OTHER), None).unwrap();
        refused();
        chown(&theirs, Some(OTHER), None).unwrap();
        set(&theirs, 0o755);
        leads_to(&way, &secret);
        leads_to(&link.join("log"), &secret.join("log"));
        assert!(open(&link.join("new")).unwrap().1);
        assert!(secret.join("new").is_dir());
    }

    #[test]
    fn who_has_mounted_what_a_process_serves() {
        let by = |source: &str, options: &str| {
            mounted_by(&format!("36 35 0:43 / /mnt/a rw,nosuid shared:7 - fuse.x {source} {options}"))
        };
        assert_eq!(by("host:/vol", "rw,user_id=0,group_id=0,allow_other"), 0);
        assert_eq!(by("rw,user_id=0", "rw,user_id=1234,group_id=0,allow_other"), OTHER);
        for unknown in ["rw", "rw,user_id=", "rw,user_id=-1"] {
            assert!(!is_trusted(by("x", unknown)), "{unknown}");
        }
        assert!(!is_trusted(mounted_by("")));
        assert_eq!(mounted_by("36 35 0:43 / /mnt/a rw,relatime shared:7 - virtiofs virtiofs rw"), 0);
        assert!(!is_trusted(mounted_by("36 35 0:43 / /mnt/a rw - fuse.virtiofs virtiofs rw")));
        assert!(!is_trusted(mounted_by("36 35 0:43 / /mnt/a rw - fuse virtiofs rw")));
        let own = File::open(".").unwrap();
        assert!(mount_of(own.as_raw_fd()).split(' ').nth(4).is_some_and(|place| place.starts_with('/')));
    }

    /// A directory on the way is exchanged for a link while the log is written.
    #[test]
    fn a_link_put_there_later() {
        let (_top, top) = top();
        let (theirs, secret) = (top.join("theirs"), top.join("secret"));
        let way = theirs.join("way");
        for path in [&theirs, &way, &secret] {
            create_dir(path).unwrap();
            set(path, 0o755);
        }
        if chown(&theirs, Some(OTHER), None).is_err() {
            return not_run("directory::way::a_link_put_there_later", Needs::Root);
        }
        let mut directory = Directory::open_kept(&way.join("log"), Box::new(Guard::new(|_| {}))).unwrap();
        fs::rename(&way, theirs.join("moved")).unwrap();
        symlink(&secret, &way).unwrap();
        lchown(&way, Some(OTHER), None).unwrap();
        let error = directory.settle().unwrap_err().to_string();
        assert!(error.contains("is a symbolic link of user"), "{error}");
        assert!(!secret.join("log").exists(), "it made something there");
        fs::remove_file(&way).unwrap();
        fs::rename(theirs.join("moved"), &way).unwrap();
        assert!(!directory.settle().unwrap(), "it is the same directory again");
    }

    /// A name that is a directory and a link by turns.
    #[test]
    fn exchanged_all_the_time() {
        let (_top, top) = top();
        let (theirs, secret) = (top.join("theirs"), top.join("secret"));
        let (way, moved, link) = (theirs.join("way"), theirs.join("moved"), theirs.join("link"));
        for path in [&theirs, &way, &secret] {
            create_dir(path).unwrap();
            set(path, 0o755);
        }
        symlink(&secret, &link).unwrap();
        let is_root = [&theirs, &way, &link].into_iter().all(|path| lchown(path, Some(OTHER), None).is_ok());
        if !is_root {
            return not_run("directory::way::exchanged_all_the_time", Needs::Root);
        }
        let ends = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !ends.load(Ordering::Relaxed) {
                    for (from, to) in [(&way, &moved), (&link, &way), (&way, &link), (&moved, &way)] {
                        let _ = fs::rename(from, to);
                    }
                }
            });
            for _ in 0..2000 {
                let _ = open(&way.join("log"));
            }
            ends.store(true, Ordering::Relaxed);
        });
        assert!(!secret.join("log").exists(), "it made something there");
        assert!(way.join("log").is_dir(), "it made nothing where it may");
    }
}
