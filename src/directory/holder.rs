//! Finds the processes that have locked a directory or hold a socket. Neither shows them itself, so /proc is searched.
//!
//! Files that others own are never opened or waited for: `fdinfo` and the links of descriptors are the kernel's own
//! text, while a file that a descriptor leads to might be on a file server that never answers.

use std::fmt;
use std::fs::{read_link, File};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::sys::stat::{major, minor};
use nix::unistd::geteuid;

use crate::linux::process as proc;

/// Bit of SIGKILL in the masks of /proc/PID/status.
const SIGKILL: u64 = 1 << 8;
/// PF_EXITING in the flags of /proc/PID/stat (linux/sched.h).
const EXITING: u64 = 4;

/// Kind of a holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HolderKind {
    /// A recorder of root, of this user or of the directory's owner.
    Recorder,
    /// Such a recorder, or an unknown process, that is being killed or has ended.
    Ending,
    /// Any other process.
    Stranger,
}

/// A process that has a lock or a socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Process id.
    pub pid: u32,
    /// Id of the user that it runs as; `None` if unknown.
    pub uid: Option<u32>,
    /// Name; empty if unknown. The process may have chosen it itself.
    pub name: String,
    /// Kind of process.
    pub kind: HolderKind,
}

/// `process 12 (cat) of user 1000`. (The user's name is not looked up: that may read files that are the user's own.)
impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {}", self.pid)?;
        if !self.name.is_empty() {
            write!(f, " ({})", self.name)?;
        }
        self.uid.map_or(Ok(()), |uid| write!(f, " of user {uid}"))
    }
}

/// Whether a user is root, or the user that we run as.
pub fn is_trusted(uid: u32) -> bool {
    uid == 0 || uid == geteuid().as_raw()
}

/// Describes a process. The user `owner` is trusted, too.
pub fn process(pid: u32, owner: u32) -> Holder {
    let status = proc::text(format!("/proc/{pid}/status")).unwrap_or_default();
    // all of them: a program that runs as another user may have inherited the lock
    let uids = proc::user_ids(&status);
    let trusted = uids.is_some_and(|uids| uids.iter().all(|&uid| is_trusted(uid) || uid == owner));
    let name = proc::thread_name(pid, pid).chars().flat_map(char::escape_debug).collect::<String>();
    let program = proc::link(pid, "exe");
    let is_recorder = pid != std::process::id()
        && (name.starts_with("iocrec")
            || program.rsplit('/').next().is_some_and(|file| file.starts_with("iocrec")));
    let kind = match (uids.is_none() || is_ending(pid, &status), trusted && is_recorder) {
        // nothing is known any more of a process that has ended
        (true, true) => HolderKind::Ending,
        (true, false) if uids.is_none() || trusted && program.is_empty() => HolderKind::Ending,
        (false, true) => HolderKind::Recorder,
        _ => HolderKind::Stranger,
    };
    Holder { pid, uid: uids.map(|[_, effective, ..]| effective), name, kind }
}

/// Whether a process is about to end, regardless of its own actions.
fn is_ending(pid: u32, status: &str) -> bool {
    let pending = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
    };
    if (pending("SigPnd:") | pending("ShdPnd:")) & SIGKILL != 0 {
        return true;
    }
    let stat = proc::text(format!("/proc/{pid}/stat")).unwrap_or_default();
    // state and flags are fields 3 and 9; the name, field 2, may hold blanks and brackets
    let mut fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_ascii_whitespace();
    let state = fields.next();
    let flags: u64 = fields.nth(5).and_then(|flags| flags.parse().ok()).unwrap_or(0);
    matches!(state, Some("Z" | "X")) || flags & EXITING != 0
}

/// The path of an open file, for people and for comparison; empty if unknown.
pub(super) fn path_of(file: &File) -> PathBuf {
    read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).unwrap_or_default()
}

/// The processes that have locked a directory; none if they cannot be seen.
pub fn holders(directory: &File) -> Vec<Holder> {
    let Ok(about) = directory.metadata() else { return Vec::new() };
    let files = names_of(directory, about.dev(), about.ino());
    let is_ours =
        |line: &str| line.contains("FLOCK") && files.iter().any(|file| line.contains(file.as_str()));
    let locks = proc::text("/proc/locks").unwrap_or_default();
    let who_locked = |line: &str| {
        // number: FLOCK ADVISORY WRITE pid device:inode start end; blocked ones begin with an arrow (proc(5))
        (is_ours(line) && !line.contains("->"))
            .then(|| line.split_ascii_whitespace().nth(4)?.parse().ok())
            .flatten()
    };
    let listed: Vec<u32> = locks.lines().filter_map(who_locked).collect();
    // the process that locked it may have ended and left the descriptor to a child
    let has = |pid: u32| {
        fdinfo(pid).iter().any(|path| proc::text(path).is_ok_and(|text| text.lines().any(is_ours)))
    };
    let mut found: Vec<u32> = listed.iter().copied().filter(|&pid| has(pid)).collect();
    if found.is_empty() {
        found = proc::pids().unwrap_or_default().into_iter().filter(|&pid| has(pid)).collect();
    }
    if found.is_empty() {
        found = listed.into_iter().filter(|&pid| pid > 0).collect();
    }
    if found.is_empty() {
        // an overlay's files have other numbers in the kernel's lists
        let path = path_of(directory);
        let has = |pid: &u32| locked_by_path(*pid, &path);
        found = proc::pids().unwrap_or_default().into_iter().filter(has).collect();
    }
    found.into_iter().map(|pid| process(pid, about.uid())).collect()
}

/// The kernel's names for a file in its list of locks: ` fe:01:1234 `. The device is that of the file's file system,
/// which is not always the one that stat(2) reports (btrfs, overlayfs).
fn names_of(file: &File, device: u64, inode: u64) -> Vec<String> {
    let name = |major: u64, minor: u64| format!(" {major:02x}:{minor:02x}:{inode} ");
    let mut names = vec![name(major(device) as u64, minor(device) as u64)];
    let mount = mount_of(file.as_raw_fd());
    let of_mount = mount.split(' ').nth(2).and_then(|device| device.split_once(':'));
    if let Some((Ok(major), Ok(minor))) = of_mount.map(|(major, minor)| (major.parse(), minor.parse())) {
        names.push(name(major, minor));
    }
    names
}

/// The line of mountinfo about the mount that an open file is on; empty if it is unknown.
pub(super) fn mount_of(file: RawFd) -> String {
    let info = proc::text(format!("/proc/self/fdinfo/{file}")).unwrap_or_default();
    let mount = info.lines().find_map(|line| line.strip_prefix("mnt_id:")).map(str::trim);
    let mounts = proc::text("/proc/self/mountinfo").unwrap_or_default();
    let is_it = |line: &&str| line.split(' ').next() == mount;
    mounts.lines().find(is_it).unwrap_or_default().to_owned()
}

/// Whether a process has a lock on the file with that path.
fn locked_by_path(pid: u32, path: &Path) -> bool {
    fdinfo(pid).iter().any(|info| {
        let Some(number) = info.file_name() else { return false };
        let link = PathBuf::from(format!("/proc/{pid}/fd")).join(number);
        read_link(link).is_ok_and(|found| found == path)
            && proc::text(info).is_ok_and(|text| {
                text.lines().any(|line| line.starts_with("lock:") && line.contains("FLOCK"))
            })
    })
}

/// The kernel's descriptions of a process's descriptors.
fn fdinfo(pid: u32) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/fdinfo")).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

/// The process that has a socket with that abstract name; `None` if it cannot be seen.
pub fn of_socket(name: &str, owner: u32) -> Option<Holder> {
    let sockets = proc::text("/proc/net/unix").ok()?;
    let wanted = PathBuf::from(format!("socket:[{}]", inode_of(&sockets, name)?));
    let has = |pid: &u32| {
        let links = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        links.into_iter().any(|link| read_link(link.path()).is_ok_and(|file| file == wanted))
    };
    proc::pids().ok()?.into_iter().find(has).map(|pid| process(pid, owner))
}

/// The inode of the socket with that abstract name in the text of /proc/net/unix. `None` if there are several: the names in
/// it may hold line feeds, and so look like lines of other sockets.
fn inode_of<'a>(sockets: &'a str, name: &str) -> Option<&'a str> {
    // address: references protocol flags type state inode @name
    let mut found = sockets.lines().filter_map(|line| {
        let (rest, found) = line.rsplit_once(" @")?;
        (found == name).then(|| rest.rsplit_once(' ').map(|(_, inode)| inode))?
    });
    found.next().filter(|_| found.next().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_looks_like_a_line() {
        let own = "0000: 00000002 00000000 00010000 0001 01 1234 @iocrec/1/2\n";
        let forged = "0000: 00000002 00000000 00010000 0001 01 99 @x\n0: 2 0 10000 0001 01 77 @iocrec/1/2\n"
            .to_owned();
        assert_eq!(inode_of(own, "iocrec/1/2"), Some("1234"));
        assert_eq!(inode_of(own, "iocrec/1/3"), None);
        assert_eq!(inode_of(&(forged.clone() + own), "iocrec/1/2"), None);
        assert_eq!(inode_of(&(own.to_owned() + &forged), "iocrec/1/2"), None);
    }
}
