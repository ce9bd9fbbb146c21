//! A process as /proc shows it: mappings, command line, links, and all of [`proc`].
//!
//! The thread's reader process, if it has one, reads the files that may block ([`crate::linux::reader`]).

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

pub use crate::linux::proc::{
    directory, exists, flags, group_and_user_id, image, is_debugged, known_start, living, living_in,
    namespace, parent, pids, sharer, sharer_of, size, start, thread_name, threads, user_id, user_ids,
    user_of_network,
};
use crate::linux::text::printable;
use crate::linux::{proc, reader};

/// The content of a file, of /proc or elsewhere.
///
/// # Errors
/// The file does not exist, may not be read, or its reader process did not answer in time.
pub fn contents(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let path = path.as_ref();
    if proc::never_blocks(path) {
        return proc::contents(path);
    }
    reader::contents(path, proc::MAX_FILE).unwrap_or_else(|| proc::contents(path))
}

/// The same as text; processes' names may hold any bytes.
///
/// # Errors
/// As for [`contents`].
pub fn text(path: impl AsRef<Path>) -> io::Result<String> {
    contents(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// A file as the kernel shows it in /proc/PID/maps: device and inode.
pub type FileId = (u64, u64);

/// A file mapped into a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// First address.
    pub start: u64,
    /// The address after the last.
    pub end: u64,
    /// Offset in the file.
    pub offset: u64,
    /// Whether it may be executed.
    pub executable: bool,
    /// The file.
    pub file: FileId,
    /// Path as the process sees it; ends in ` (deleted)` if the file has been deleted.
    pub path: String,
}

/// The files mapped by a process, in the order of addresses.
///
/// # Errors
/// The process has ended or may not be read.
pub fn mappings(pid: u32) -> io::Result<Vec<Mapping>> {
    let mut text = contents(format!("/proc/{pid}/maps"))?;
    if text.is_empty() {
        text = contents(directory(pid).join("maps"))?;
    }
    Ok(text.split(|&byte| byte == b'\n').filter_map(|line| mapping(&printable(line))).collect())
}

/// Parses `start-end perms offset major:minor inode   path` (proc(5)); `None` for a mapping without a file.
pub(super) fn mapping(line: &str) -> Option<Mapping> {
    let mut words = line.splitn(6, ' ');
    let (start, end) = words.next()?.split_once('-')?;
    let permissions = words.next()?;
    let offset = words.next()?;
    let (major, minor) = words.next()?.split_once(':')?;
    let inode: u64 = words.next()?.parse().ok()?;
    let path = words.next()?.trim_start();
    let hex = |text| u64::from_str_radix(text, 16).ok();
    (inode != 0 && path.starts_with('/')).then_some(Mapping {
        start: hex(start)?,
        end: hex(end)?,
        offset: hex(offset)?,
        executable: permissions.contains('x'),
        file: (hex(major)? << 32 | hex(minor)?, inode),
        path: path.to_string(),
    })
}

impl Mapping {
    /// A path that leads to this very file, whatever has happened to its name and whichever mount namespace it is in,
    /// as long as the process is alive.
    pub fn open_path(&self, pid: u32) -> PathBuf {
        directory(pid).join(format!("map_files/{:x}-{:x}", self.start, self.end))
    }
}

/// The mappings that may hold a process's objects: private, writable, without a file; first address and the address
/// after the last, in the order of addresses.
pub fn writable(pid: u32) -> Vec<(u64, u64)> {
    ranges(pid, |permissions, is_anonymous| permissions == "rw-p" && is_anonymous)
}

/// The mappings that may be executed, as [`writable`].
pub fn executable(pid: u32) -> Vec<(u64, u64)> {
    ranges(pid, |permissions, _| permissions.contains('x'))
}

/// The mappings that are wanted by their permissions and by whether they are of no file.
fn ranges(pid: u32, is_wanted: impl Fn(&str, bool) -> bool) -> Vec<(u64, u64)> {
    let text = text(directory(pid).join("maps")).unwrap_or_default();
    let range = |line: &str| {
        // start-end perms offset device inode path (proc(5))
        let mut words = line.split_ascii_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        let permissions = words.next()?;
        let is_anonymous = words.nth(2)? == "0";
        let hex = |text| u64::from_str_radix(text, 16).ok();
        is_wanted(permissions, is_anonymous).then_some((hex(start)?, hex(end)?))
    };
    text.lines().filter_map(range).collect()
}

/// Whether this program is in the first PID namespace, whose numbers the kernel itself uses. True if /proc does not
/// show it.
pub fn is_first_pid_namespace() -> bool {
    /// PROC_PID_INIT_INO of linux/proc_ns.h.
    const FIRST: &str = "pid:[4026531836]";
    fs::read_link("/proc/self/ns/pid").map_or(true, |namespace| namespace.as_os_str() == FIRST)
}

/// Longest command line that is read, bytes. Linux allows megabytes, which may be as many arguments: they would take a hundred
/// times as much memory, and fit into no block of a log.
const MAX_COMMAND: usize = 8 << 10;

/// The command line, as a list of arguments. Of one that is too long, whole arguments and `...`.
pub fn command(pid: u32) -> Vec<String> {
    let path = directory(pid).join("cmdline");
    let most = MAX_COMMAND as u64 + 1;
    let line = reader::contents(&path, most).unwrap_or_else(|| proc::contents(&path)).unwrap_or_default();
    words(&line)
}

fn words(line: &[u8]) -> Vec<String> {
    let some = line.get(..MAX_COMMAND).filter(|some| some.len() < line.len());
    // part of a word might be part of a secret, and not look like one
    let whole = some.map(|some| some.iter().rposition(|&byte| byte == 0).and_then(|end| some.get(..end)));
    let line = whole.map_or(line.strip_suffix(b"\0").unwrap_or(line), Option::unwrap_or_default);
    let words = line.split(|&byte| byte == 0).map(printable);
    words.chain(some.map(|_| "...".to_string())).collect()
}

/// The target of a link such as /proc/PID/exe; empty if it can't be read.
pub fn link(pid: u32, name: &str) -> String {
    let path = directory(pid).join(name);
    reader::link(&path)
        .unwrap_or_else(|| fs::read_link(&path))
        .map(|path| path.to_string_lossy().into_owned())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_lines() {
        assert_eq!(words(b"softIoc\0-d\0a b.db\0"), ["softIoc", "-d", "a b.db"]);
        assert_eq!(words(b"a process may change it"), ["a process may change it"]);
        assert_eq!(words(&[0; 1 << 20]).len(), MAX_COMMAND + 1, "no more than that");
        let long = [b"ioc\0-d\0".as_slice(), &[b'x'; MAX_COMMAND]].concat();
        assert_eq!(words(&long), ["ioc", "-d", "..."], "whole words");
        assert_eq!(words(&[b'x'; MAX_COMMAND]), ["x".repeat(MAX_COMMAND)]);
    }

    #[test]
    fn a_line_of_maps() {
        let line =
            "7f00-8f00 r-xp 00001000 fe:01 1234                       /usr/lib/with blank.so (deleted)";
        let mapping = mapping(line).unwrap();
        assert_eq!((mapping.start, mapping.end, mapping.offset), (0x7f00, 0x8f00, 0x1000));
        assert!(mapping.executable);
        assert_eq!(mapping.file, (0xfe << 32 | 1, 1234));
        assert_eq!(mapping.path, "/usr/lib/with blank.so (deleted)");
        assert_eq!(super::mapping("7f00-8f00 rw-p 00000000 00:00 0"), None);
        assert_eq!(super::mapping("7f00-8f00 rw-p 00000000 00:00 0      [heap]"), None);
        assert_eq!(super::mapping("garbage"), None);
    }

    /// An IOC with a thread name in Latin-1 is an IOC, too.
    #[test]
    fn a_name_that_is_no_text() {
        let thread = std::thread::spawn(|| {
            // SAFETY: the name ends in a zero byte, and is copied.
            let set = unsafe { libc::prctl(libc::PR_SET_NAME, c"m\xfcll".as_ptr()) };
            (set, text("/proc/thread-self/stat"), contents("/proc/thread-self/comm"))
        });
        let (set, stat, name) = thread.join().unwrap();
        assert_eq!(set, 0);
        assert!(stat.unwrap().contains("(m\u{fffd}ll)"));
        assert_eq!(name.unwrap(), b"m\xfcll\n");
        assert!(contents("/proc/nobody").is_err());
    }

    #[test]
    fn this_process() {
        let pid = std::process::id();
        assert!(!command(pid).is_empty());
        assert!(mappings(pid).unwrap().iter().any(|mapping| mapping.executable));
    }
}
