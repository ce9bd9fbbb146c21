//! What /proc tells of a process: its mappings, where it came from, its threads' names.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use nix::errno::Errno;

use crate::linux::memory::printable;
use crate::linux::{reader, FileId};

/// What is asked of the kernel at once. A file of /proc has no length, and a short read makes the kernel write it
/// anew: the standard library's first reads, of 32 bytes, had it walk through all sockets seven times for a
/// table of two.
const AT_ONCE: usize = 16 << 10;
/// More of a file is not read: 8 MiB are 50,000 sockets or mappings.
const LONGEST: u64 = 8 << 20;

/// What is in a file of /proc, or in one that a process has.
///
/// # Errors
/// It is not there or may not be read.
pub fn contents(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let path = path.as_ref();
    if let Some(read) = (!is_at_hand(path)).then(|| reader::contents(path, LONGEST)).flatten() {
        return read;
    }
    let mut bytes = Vec::with_capacity(AT_ONCE);
    fs::File::open(path)?.take(LONGEST).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Does the kernel give it out whatever the process is at? These files of /proc need no lock of the process's memory,
/// and none of its pages.
fn is_at_hand(path: &Path) -> bool {
    const NAMES: [&str; 8] = ["stat", "statm", "status", "comm", "tcp", "tcp6", "udp", "udp6"];
    path.file_name().and_then(|name| name.to_str()).is_some_and(|name| NAMES.contains(&name))
}

/// The same as text; processes' names may hold anything.
///
/// # Errors
/// As of [`contents`].
pub fn text(path: impl AsRef<Path>) -> io::Result<String> {
    contents(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// A file mapped into a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// First address.
    pub start: u64,
    /// Behind the last.
    pub end: u64,
    /// Offset in the file.
    pub offset: u64,
    /// May be executed.
    pub executable: bool,
    /// Which file.
    pub file: FileId,
    /// Path as the process sees it; ends in ` (deleted)` where the file is gone.
    pub path: String,
}

/// The files mapped by a process, in the order of addresses.
///
/// # Errors
/// The process is gone or may not be looked at.
pub fn mappings(pid: u32) -> io::Result<Vec<Mapping>> {
    let mut text = contents(format!("/proc/{pid}/maps"))?;
    if text.is_empty() {
        text = contents(directory(pid).join("maps"))?;
    }
    Ok(text.split(|&byte| byte == b'\n').filter_map(|line| mapping(&printable(line))).collect())
}

/// `start-end perms offset major:minor inode   path` (proc(5)); `None` for what is no file.
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
    /// A path that leads to this very file, whatever has happened to its name and whichever mount
    /// namespace it is in, as long as the process lives.
    pub fn open_path(&self, pid: u32) -> PathBuf {
        directory(pid).join(format!("map_files/{:x}-{:x}", self.start, self.end))
    }
}

/// Where a process's memory is that its objects may lie in: private, writable, of no file; in the order of
/// addresses.
pub fn writable(pid: u32) -> Vec<(u64, u64)> {
    let text = text(directory(pid).join("maps")).unwrap_or_default();
    let range = |line: &str| {
        // start-end perms offset device inode path (proc(5))
        let mut words = line.split_ascii_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        let permissions = words.next()?;
        let anonymous = words.nth(2)? == "0";
        let hex = |text| u64::from_str_radix(text, 16).ok();
        (permissions == "rw-p" && anonymous).then_some((hex(start)?, hex(end)?))
    };
    text.lines().filter_map(range).collect()
}

/// Numbers of the processes there are.
///
/// # Errors
/// /proc cannot be read.
pub fn pids() -> io::Result<Vec<u32>> {
    let entries = fs::read_dir("/proc").map_err(|e| io::Error::new(e.kind(), format!("/proc: {e}")))?;
    Ok(entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect())
}

/// Start of a process, nanoseconds after boot. With the pid it names the process for ever.
pub fn start(pid: u32) -> Option<u64> {
    let text = text(format!("/proc/{pid}/stat")).ok()?;
    // field 22; the name, field 2, may hold blanks and brackets
    let ticks: u64 = text.rsplit_once(')')?.1.split_ascii_whitespace().nth(19)?.parse().ok()?;
    // SAFETY: sysconf has no preconditions.
    let hertz = u64::try_from(unsafe { libc::sysconf(libc::_SC_CLK_TCK) }).ok().filter(|&hertz| hertz > 0)?;
    Some(ticks.saturating_mul(1_000_000_000 / hertz))
}

/// Where the code and the stack of the program begin that a process runs: another pair where it has become
/// another program (exec), or the same one anew. `None` if that cannot be told.
pub fn image(pid: u32) -> Option<(u64, u64)> {
    let text = text(directory(pid).join("stat")).ok()?;
    // fields 26 and 28 (proc(5)), zero for who may not know
    let mut fields = text.rsplit_once(')')?.1.split_ascii_whitespace();
    let code = fields.nth(23)?.parse().ok()?;
    let stack = fields.nth(1)?.parse().ok()?;
    ((code, stack) != (0, 0)).then_some((code, stack))
}

/// Size of a process's address space, pages: it changes with everything that is loaded.
pub fn size(pid: u32) -> Option<u64> {
    text(format!("/proc/{pid}/statm")).ok()?.split(' ').next()?.parse().ok()
}

/// Name of a thread; empty if it is gone.
pub fn thread_name(pid: u32, tid: u32) -> String {
    let name = contents(format!("/proc/{pid}/task/{tid}/comm")).unwrap_or_default();
    printable(name.strip_suffix(b"\n").unwrap_or(&name))
}

/// Does a debugger (ptrace) follow a process?
pub fn is_debugged(pid: u32) -> bool {
    let status = text(directory(pid).join("status")).unwrap_or_default();
    let tracer = status.lines().find_map(|line| line.strip_prefix("TracerPid:"));
    tracer.is_some_and(|tracer| tracer.trim() != "0")
}

/// The kernel's numbers of a process's threads; none if it is gone.
pub fn threads(pid: u32) -> Vec<u32> {
    let entries = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// The thread that shows what all threads of a process share: its memory, descriptors, namespaces. It is the
/// first, whose number is the process's, and another one where the first has ended: epicsThreadExitMain
/// ends it alone, and /proc/PID is empty then.
pub fn living(pid: u32) -> u32 {
    living_in(Path::new("/proc"), pid)
}

/// The same with /proc elsewhere.
pub fn living_in(proc: &Path, pid: u32) -> u32 {
    let ended = |tid: u32| {
        // the state follows the name, which may hold blanks and brackets
        let stat = contents(proc.join(tid.to_string()).join("stat")).unwrap_or_default();
        let name_end = stat.iter().rposition(|&byte| byte == b')');
        let state = name_end.and_then(|end| stat.get(end + 2).copied());
        !state.is_some_and(|state| state != b'Z' && state != b'X')
    };
    if !ended(pid) {
        return pid;
    }
    let threads = fs::read_dir(proc.join(pid.to_string()).join("task")).into_iter().flatten().flatten();
    let mut threads = threads.filter_map(|thread| thread.file_name().to_str()?.parse().ok());
    threads.find(|&tid| tid != pid && !ended(tid)).unwrap_or(pid)
}

/// Directory in /proc of the thread that shows what a process's threads share.
pub fn directory(pid: u32) -> PathBuf {
    format!("/proc/{}", living(pid)).into()
}

/// Inode number of a process's network namespace; 0 where the kernel has but one.
///
/// # Errors
/// It is gone or may not be looked at.
pub fn namespace(pid: u32) -> Result<u64, Errno> {
    // asked once a second of each IOC: the first thread mostly lives
    let link = |directory: &Path| fs::read_link(directory.join("ns/net"));
    match link(Path::new(&format!("/proc/{pid}"))).or_else(|_| link(&directory(pid))) {
        // net:[4026531840]
        Ok(target) => {
            let inode =
                target.to_str().and_then(|text| text.strip_prefix("net:[")?.strip_suffix(']')?.parse().ok());
            inode.ok_or(Errno::ENODATA)
        }
        Err(_) if !Path::new("/proc/self/ns/net").is_symlink() => Ok(0),
        Err(error) => Err(Errno::from_raw(error.raw_os_error().unwrap_or_default())),
    }
}

/// The command line, word by word.
pub fn command(pid: u32) -> Vec<String> {
    let line = contents(directory(pid).join("cmdline")).unwrap_or_default();
    let line = line.strip_suffix(b"\0").unwrap_or(&line);
    line.split(|&byte| byte == 0).map(printable).collect()
}

/// Where a link such as /proc/PID/exe leads; empty where it cannot be told.
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

    /// An IOC whose thread is called in Latin-1 is one, too.
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
        assert!(pids().unwrap().contains(&pid));
        assert!(start(pid).unwrap() > 0);
        assert!(size(pid).unwrap() > 0);
        let (code, stack) = image(pid).unwrap();
        let local = 0;
        assert!(code < this_process as *const () as u64 && stack > &raw const local as u64 - (1 << 40));
        assert_eq!(image(pid), image(pid));
        assert_eq!(image(u32::MAX), None);
        assert_eq!(size(u32::MAX), None);
        assert!(!command(pid).is_empty());
        assert!(mappings(pid).unwrap().iter().any(|mapping| mapping.executable));
        assert_eq!(start(u32::MAX), None);
        assert_eq!(living(pid), pid);
        assert_eq!(living(u32::MAX), u32::MAX, "not there");
    }
}
