//! How a process ended.
//!
//! A descriptor of the process (pidfd), opened while it is alive, gives the exit status afterwards on Linux 6.15 and
//! later, whoever the parent is. On older kernels only a zombie, which waits for its parent, shows it.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::linux::proc;

/// Watches for the end of a process.
#[derive(Debug)]
pub struct Ending {
    pid: u32,
    descriptor: Option<OwnedFd>,
}

/// `struct pidfd_info` of linux/pidfd.h in its first form, 64 bytes.
#[repr(C)]
#[derive(Default)]
struct PidfdInfo {
    mask: u64,
    cgroup: u64,
    ids: [u32; 11],
    exit_code: i32,
}

const _: () = assert!(size_of::<PidfdInfo>() == 64);

/// _IOWR(0xff, 11, 64 bytes), the same number on all machines but MIPS, PowerPC and SPARC.
const PIDFD_GET_INFO: u32 = 0xc040_ff0b;
/// PIDFD_INFO_EXIT: in a request, asks for the exit code; in a reply, shows that it is there.
const INFO_EXIT: u64 = 1 << 3;

impl Ending {
    /// Begins to watch a process; call it while the process is alive.
    pub fn expect(pid: u32) -> Ending {
        // SAFETY: pidfd_open takes two numbers and returns a new descriptor or an error.
        let descriptor = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
        let descriptor = i32::try_from(descriptor).ok().filter(|&descriptor| descriptor >= 0);
        // SAFETY: the descriptor is open and nobody else owns it.
        Ending { pid, descriptor: descriptor.map(|descriptor| unsafe { OwnedFd::from_raw_fd(descriptor) }) }
    }

    /// A descriptor that polls as readable when the process has ended, on kernels with pidfd.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.descriptor.as_ref().map(AsFd::as_fd)
    }

    /// How the process ended, as text, once it has.
    pub fn how(&self) -> String {
        match self.reaped().or_else(|| zombie(self.pid)) {
            Some(code) => in_words(code),
            None => "its process is gone; this kernel does not tell how it ended".into(),
        }
    }

    /// The wait status of a process that its parent has reaped.
    fn reaped(&self) -> Option<i32> {
        let descriptor = self.descriptor.as_ref()?;
        let mut info = PidfdInfo { mask: INFO_EXIT, ..PidfdInfo::default() };
        // SAFETY: PIDFD_GET_INFO writes as many bytes as its request code says, the size of `info`.
        let done = unsafe { libc::ioctl(descriptor.as_raw_fd(), PIDFD_GET_INFO as _, &raw mut info) };
        (done == 0 && info.mask & INFO_EXIT != 0).then_some(info.exit_code)
    }
}

/// Whether the process has ended but its parent has not reaped it yet. A process whose first thread has ended looks the
/// same in /proc/PID/stat, but has other threads (epicsThreadExitMain leaves an IOC so).
pub fn is_zombie(pid: u32) -> bool {
    let ended = |fields: String| matches!(fields.split(' ').next(), Some("Z" | "X"));
    fields(pid).is_some_and(ended) && proc::threads(pid).len() <= 1
}

/// The wait status of a process that its parent has not reaped.
fn zombie(pid: u32) -> Option<i32> {
    // field 52, exit_code
    is_zombie(pid).then(|| fields(pid)?.trim_end().split(' ').nth(49)?.parse().ok())?
}

/// The fields of /proc/PID/stat from the third (state) on. (The second, the name, may hold anything.)
fn fields(pid: u32) -> Option<String> {
    let stat = proc::contents(format!("/proc/{pid}/stat").as_ref()).ok()?;
    let name_end = stat.windows(2).rposition(|two| two == b") ")?;
    Some(String::from_utf8_lossy(stat.get(name_end + 2..)?).into_owned())
}

/// A wait status as text (wait(2)).
fn in_words(status: i32) -> String {
    if libc::WIFSIGNALED(status) {
        let number = libc::WTERMSIG(status);
        let name = nix::sys::signal::Signal::try_from(number)
            .map_or_else(|_| format!("signal {number}"), |signal| signal.to_string());
        let core = if libc::WCOREDUMP(status) { ", with a core dump" } else { "" };
        format!("killed by {name}{core}")
    } else {
        format!("exit status {}", libc::WEXITSTATUS(status))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;
    use std::time::{Duration, Instant};

    fn ended(script: &str, reap: bool) -> String {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("read line; {script}")]).stdin(std::process::Stdio::piped());
        let mut child = command.spawn().unwrap();
        let ending = Ending::expect(child.id());
        assert!(!is_zombie(child.id()));
        drop(child.stdin.take());
        if reap {
            child.wait().unwrap();
        } else {
            let begin = Instant::now();
            while !is_zombie(child.id()) && begin.elapsed() < Duration::from_secs(20) {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        let how = ending.how();
        child.wait().unwrap();
        how
    }

    #[test]
    fn zombies_tell() {
        assert_eq!(ended("exit 3", false), "exit status 3");
        assert_eq!(ended("kill -9 $$", false), "killed by SIGKILL");
    }

    #[test]
    fn the_dead_tell_where_the_kernel_can() {
        let how = ended("exit 7", true);
        assert!(how == "exit status 7" || how.starts_with("its process is gone"), "{how}");
    }

    #[test]
    fn nobody() {
        assert!(Ending::expect(u32::MAX).how().starts_with("its process is gone"));
        assert!(!is_zombie(u32::MAX));
        assert_eq!(in_words(libc::SIGSEGV | 0x80), "killed by SIGSEGV, with a core dump");
    }
}
