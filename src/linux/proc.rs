//! The files of /proc that the kernel fills in without waiting for the process: state, start, user, threads, sockets.
//!
//! These files need neither the lock of the process's memory nor any of its pages, so every thread reads them in place.
//! Files that may block (mappings, command line, memory) are read through a reader process ([`crate::linux::reader`]),
//! and are therefore in [`crate::linux::process`], above it.

use std::fs;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::sys::signal::{kill, Signal};
use nix::unistd::Pid;

use crate::linux::text::printable;

/// Where the files are.
pub const PROC: &str = "/proc";
/// Bytes of the first read. A /proc file has no length, and a short read makes the kernel format it anew: the standard
/// library's first reads, of 32 bytes, made it walk through all sockets seven times for a table of two.
const FIRST_READ: usize = 16 << 10;
/// Longest file: 8 MiB are 50,000 sockets or mappings.
pub(super) const MAX_FILE: u64 = 8 << 20;

/// The content of a file, read in place, up to `MAX_FILE`.
///
/// # Errors
/// The file does not exist or may not be read.
pub(super) fn contents(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(FIRST_READ);
    fs::File::open(path)?.take(MAX_FILE).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The same as text. A process's name may hold any bytes, so invalid UTF-8 is replaced.
///
/// # Errors
/// As for [`contents`].
pub(super) fn text(path: impl AsRef<Path>) -> io::Result<String> {
    contents(path.as_ref()).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// Whether reading this file of /proc never blocks.
pub(super) fn never_blocks(path: &Path) -> bool {
    const NAMES: [&str; 9] = ["stat", "statm", "status", "comm", "wchan", "tcp", "tcp6", "udp", "udp6"];
    path.file_name().and_then(|name| name.to_str()).is_some_and(|name| NAMES.contains(&name))
}

/// The ids of all processes.
///
/// # Errors
/// /proc cannot be read, or not to its end.
pub fn pids() -> io::Result<Vec<u32>> {
    let named = |e: io::Error| io::Error::new(e.kind(), format!("{PROC}: {e}"));
    let mut pids = Vec::new();
    for entry in fs::read_dir(PROC).map_err(named)? {
        pids.extend(entry.map_err(named)?.file_name().to_str().and_then(|name| name.parse::<u32>().ok()));
    }
    Ok(pids)
}

/// Whether there is a process of this number, though /proc may not show it to this user.
pub fn exists(pid: u32) -> bool {
    let Some(pid) = i32::try_from(pid).ok().filter(|pid| *pid > 0) else { return false };
    // no signal is sent
    kill(Pid::from_raw(pid), None::<Signal>) != Err(Errno::ESRCH)
}

/// Start time of a process, nanoseconds after boot. Together with the pid it is unique.
pub fn start(pid: u32) -> Option<u64> {
    known_start(pid).ok()
}

/// The same, with the reason for which it is unknown.
///
/// # Errors
/// ESRCH if there is no such process; anything else says nothing about the process.
pub fn known_start(pid: u32) -> Result<u64, Errno> {
    let text = text(format!("/proc/{pid}/stat")).map_err(|error| {
        match error.raw_os_error().map(Errno::from_raw) {
            // without /proc no process is there
            Some(Errno::ENOENT) if Path::new("/proc/self").exists() => Errno::ESRCH,
            Some(errno) => errno,
            None => Errno::EIO,
        }
    })?;
    // field 22; the name, field 2, may hold blanks and brackets
    let field = |text: &str| text.rsplit_once(')')?.1.split_ascii_whitespace().nth(19)?.parse().ok();
    let ticks: u64 = field(&text).ok_or(Errno::ENODATA)?;
    // SAFETY: sysconf has no preconditions.
    let hertz = u64::try_from(unsafe { libc::sysconf(libc::_SC_CLK_TCK) }).ok().filter(|&hertz| hertz > 0);
    Ok(ticks.saturating_mul(1_000_000_000 / hertz.ok_or(Errno::ENODATA)?))
}

/// The addresses at which the code and the stack of a process's program begin. The pair changes when the process
/// executes another program, or the same one again. `None` if unknown.
pub fn image(pid: u32) -> Option<(u64, u64)> {
    let text = text(directory(pid).join("stat")).ok()?;
    // fields 26 and 28 (proc(5)); zero without permission to see them
    let mut fields = text.rsplit_once(')')?.1.split_ascii_whitespace();
    let code = fields.nth(23)?.parse().ok()?;
    let stack = fields.nth(1)?.parse().ok()?;
    ((code, stack) != (0, 0)).then_some((code, stack))
}

/// Size of a process's address space, pages: it changes with every library that is loaded.
pub fn size(pid: u32) -> Option<u64> {
    text(format!("/proc/{pid}/statm")).ok()?.split(' ').next()?.parse().ok()
}

/// Whether a debugger (ptrace) is attached to a process, or may be: that can't be read.
pub fn is_debugged(pid: u32) -> bool {
    let Ok(status) = text(directory(pid).join("status")) else { return true };
    let tracer = status.lines().find_map(|line| line.strip_prefix("TracerPid:"));
    tracer.is_some_and(|tracer| tracer.trim() != "0")
}

/// The ids of a process's threads; none if it has ended.
pub fn threads(pid: u32) -> Vec<u32> {
    let entries = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// The process that a process is a child of; `None` if it has ended, or was left to the first process.
pub fn parent(pid: u32) -> Option<u32> {
    let text = text(format!("/proc/{pid}/stat")).ok()?;
    // field 4; the name, field 2, may hold blanks and brackets
    let parent = text.rsplit_once(')')?.1.split_ascii_whitespace().nth(1)?.parse().ok()?;
    (parent > 1).then_some(parent)
}

/// Name of a thread; empty if it has ended.
pub fn thread_name(pid: u32, tid: u32) -> String {
    let name = contents(format!("/proc/{pid}/task/{tid}/comm").as_ref()).unwrap_or_default();
    printable(name.strip_suffix(b"\n").unwrap_or(&name))
}

/// A live thread of a process, whose directory in /proc shows what all its threads share: memory, descriptors,
/// namespaces. It is the first thread, whose id is the process's, or another one if the first has ended:
/// epicsThreadExitMain ends it alone, and /proc/PID is then empty.
pub fn living(pid: u32) -> u32 {
    living_in(Path::new(PROC), pid)
}

/// The same with another mount point of /proc.
pub fn living_in(proc: &Path, pid: u32) -> u32 {
    let ended = |tid: u32| {
        // the state follows the name, which may hold blanks and brackets
        let stat = contents(&proc.join(tid.to_string()).join("stat")).unwrap_or_default();
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

/// Directory in /proc of a live thread of a process ([`living`]).
pub fn directory(pid: u32) -> PathBuf {
    format!("/proc/{}", living(pid)).into()
}

/// Inode number of a process's network namespace; 0 on kernels without network namespaces.
///
/// # Errors
/// The process has ended or may not be read.
pub fn namespace(pid: u32) -> Result<u64, Errno> {
    // read once a second for each IOC: the first thread is usually alive
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

/// The user whose own the network namespace of a process is, if he is not root: in it he gives himself any address, and
/// connections with any numbers. `None` where the kernel does not tell (before Linux 4.11).
pub fn user_of_network(pid: u32) -> Option<u32> {
    let owner = owner_of_network(pid);
    owner.filter(|_| is_another_users(owner))
}

/// The user as whom a process of a user counts where users have shares. In a user namespace that somebody else than root has
/// made he has thousands of users' numbers: all of those count as his own, also those of namespaces that were made in it.
pub fn sharer_of(pid: u32, user: u32) -> u32 {
    let mut users = match user {
        0 => None,
        _ => fs::File::open(directory(pid).join("ns/user")).ok().map(OwnedFd::from),
    };
    let mut sharer = user;
    // there are at most 32, one in the other
    while let Some(namespace) = users {
        match owner(namespace.as_fd()) {
            Some(maker) if is_another_users(Some(maker)) => sharer = maker,
            _ => break,
        }
        users = around(namespace.as_fd(), false);
    }
    sharer
}

/// The same for a process by its effective user; `None` if it has ended.
pub fn sharer(pid: u32) -> Option<u32> {
    user_id(pid).map(|user| sharer_of(pid, user))
}

/// Whether the owner of a user namespace is somebody else than root. In a container the first root has no number, and whoever
/// made the recorder's own network is trusted.
fn is_another_users(owner: Option<u32>) -> bool {
    owner.is_some_and(|user| user != 0 && owner != owner_of_network(std::process::id()))
}

/// The user who made the user namespace to which the network namespace of a process belongs.
fn owner_of_network(pid: u32) -> Option<u32> {
    let network = fs::File::open(directory(pid).join("ns/net")).ok()?;
    owner(around(network.as_fd(), true)?.as_fd())
}

/// The user namespace around a network namespace or, unless `network`, around a user namespace; `None` if there is none
/// within the recorder's own.
fn around(namespace: BorrowedFd<'_>, network: bool) -> Option<OwnedFd> {
    let request = if network { libc::NS_GET_USERNS } else { libc::NS_GET_PARENT };
    // SAFETY: NS_GET_USERNS and NS_GET_PARENT take nothing, and return a new descriptor or an error.
    let users = unsafe { libc::ioctl(namespace.as_raw_fd(), request) };
    // SAFETY: the descriptor is open and nobody else owns it.
    (users >= 0).then(|| unsafe { OwnedFd::from_raw_fd(users) })
}

/// The user who made a user namespace.
fn owner(users: BorrowedFd<'_>) -> Option<u32> {
    let mut owner = 0_u32;
    // SAFETY: NS_GET_OWNER_UID writes one uid_t.
    let done = unsafe { libc::ioctl(users.as_raw_fd(), libc::NS_GET_OWNER_UID, &raw mut owner) };
    (done == 0).then_some(owner)
}

/// Real, effective, saved and file system's user id in the text of /proc/PID/status (proc(5)); `None` if they are not there.
pub fn user_ids(status: &str) -> Option<[u32; 4]> {
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    let ids: Vec<u32> = line.split_ascii_whitespace().filter_map(|id| id.parse().ok()).collect();
    ids.try_into().ok()
}

/// The kernel's flags of a process, PF_ in linux/sched.h; `None` if it has ended.
pub fn flags(pid: u32) -> Option<u64> {
    let text = text(format!("/proc/{pid}/stat")).ok()?;
    // field 9; the name, field 2, may hold blanks and brackets
    text.rsplit_once(')')?.1.split_ascii_whitespace().nth(6)?.parse().ok()
}

/// Effective user id of a process; `None` if it has ended.
pub fn user_id(pid: u32) -> Option<u32> {
    group_and_user_id(pid).map(|(_, user)| user)
}

/// The process (thread group) that a thread belongs to, and its effective user id; `None` if it has ended.
pub fn group_and_user_id(tid: u32) -> Option<(u32, u32)> {
    let status = text(format!("/proc/{tid}/status")).ok()?;
    // "Tgid: number", "Uid: real effective saved filesystem" (proc(5))
    let word = |name: &str, at: usize| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_ascii_whitespace().nth(at)?.parse().ok()
    };
    Some((word("Tgid:", 0)?, word("Uid:", 1)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::not_run::{not_run, Needs};

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
        assert!(is_debugged(u32::MAX), "nobody knows");
        assert_eq!((start(u32::MAX), known_start(u32::MAX)), (None, Err(Errno::ESRCH)));
        assert_eq!(living(pid), pid);
        assert_eq!(living(u32::MAX), u32::MAX, "not there");
        let own = nix::unistd::geteuid().as_raw();
        assert_eq!(group_and_user_id(pid), Some((pid, own)));
        assert_eq!(user_id(u32::MAX), None);
    }

    #[test]
    fn whose_a_network_is() {
        use std::os::unix::process::CommandExt;
        use std::process::{Command, Stdio};
        let own = std::process::id();
        assert_eq!((user_of_network(own), user_of_network(u32::MAX)), (None, None));
        assert_eq!((sharer(own), sharer(u32::MAX)), (user_id(own), None));
        let name = "proc::whose_a_network_is";
        if owner_of_network(own).is_none() {
            return not_run(name, Needs::Kernel("NS_GET_OWNER_UID".into()));
        }
        if user_id(own) != Some(0) {
            return not_run(name, Needs::Root);
        }
        // of root, and of other users; the last one in a namespace that somebody in his own has made
        let several: [(u32, &[&str]); 3] =
            [(0, &["--net"]), (1234, &["-Un"]), (1235, &["-Ur", "unshare", "-Un"])];
        for (user, options) in several {
            let mut command = Command::new("unshare");
            command.args(options).arg("cat");
            command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
            let mut child = command.uid(user).gid(user).spawn().unwrap();
            let id = child.id();
            let is_apart = || namespace(id).is_ok_and(|at| Ok(at) != namespace(own));
            let has_begun = (0..2000).any(|_| {
                std::thread::sleep(std::time::Duration::from_millis(5));
                is_apart() || child.try_wait().unwrap().is_some()
            });
            let (is_there, whose) = (has_begun && is_apart(), user_of_network(id));
            let shares = sharer(id);
            let _ = child.kill();
            let _ = child.wait();
            if !is_there {
                return not_run(name, Needs::Kernel("namespaces for users other than root".into()));
            }
            assert_eq!((whose, shares), ((user != 0).then_some(user), Some(user)));
        }
    }

    #[test]
    fn files_that_may_block() {
        for name in ["stat", "net/tcp6", "task/1/wchan"] {
            assert!(never_blocks(Path::new(&format!("/proc/1/{name}"))), "{name}");
        }
        // that of a thread waits for a lock that a running exec holds
        for name in ["maps", "cmdline", "task/1/syscall"] {
            assert!(!never_blocks(Path::new(&format!("/proc/1/{name}"))), "{name}");
        }
    }
}
