//! How a process ended.
//!
//! A descriptor of the process (pidfd), opened while it is alive, gives the exit status afterwards on Linux 6.15 and
//! later, whoever the parent is. On older kernels only a zombie, which waits for its parent, shows it, and the process
//! connector ([`crate::linux::connector`]).

use std::fmt::{self, Display, Formatter};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use nix::errno::Errno;
use nix::poll::{poll, PollFd, PollFlags, PollTimeout};

use crate::linux::aside::aside;
use crate::linux::connector::Connector;
use crate::linux::proc;
use crate::linux::victim::Victim;

/// Watches for the end of a process.
#[derive(Debug)]
pub struct Ending {
    pid: u32,
    descriptor: Option<OwnedFd>,
}

/// What tells how processes end that are not this one's children.
#[derive(Debug)]
pub enum Ends {
    /// Their descriptors ([`Ending`]).
    Descriptors,
    /// The process connector.
    Connector(Connector),
    /// Nothing, but zombies for as long as their parents let them be; why.
    Untold(io::Error),
}

/// Longest wait for the connector's word about a child that has ended, milliseconds.
const TOLD: u16 = 200;
/// A variable for tests, which lets the connector tell where it is not needed.
const TRY: &str = "IOCREC_ENDS";

impl Ends {
    /// Finds out, by a child that it makes and kills. Call this while CAP_NET_ADMIN is held.
    pub fn open() -> Ends {
        let is_forced = std::env::var_os(TRY).is_some_and(|value| value == "connector");
        if !is_forced && Ending::is_told() {
            return Ends::Descriptors;
        }
        match Ends::tried() {
            Ok(connector) => Ends::Connector(connector),
            Err(error) => Ends::Untold(error),
        }
    }

    fn tried() -> io::Result<Connector> {
        let victim = Victim::start()?;
        let pid = victim.pid();
        let mut connector =
            Connector::open().or_else(|error| Ends::from_first_network().unwrap_or(Err(error)))?;
        connector.watch(pid);
        let status = victim.kill(libc::SIGTERM)?;
        let mut polled = [PollFd::new(connector.descriptor(), PollFlags::POLLIN)];
        while poll(&mut polled, PollTimeout::from(TOLD)) == Err(Errno::EINTR) {}
        connector.take();
        if connector.status(pid) != Some(status) {
            // it refuses without a word outside of the first PID and user namespace
            return Err(io::Error::other("the process connector tells nothing here"));
        }
        connector.forget(pid);
        Ok(connector)
    }
}

impl Ends {
    /// Opens the connector on a thread that enters the first network namespace: the kernel has it there alone. `None` if
    /// that can't be entered.
    fn from_first_network() -> Option<io::Result<Connector>> {
        let network = std::fs::File::open("/proc/1/ns/net").ok()?;
        let mut opened = None;
        aside(&mut || {
            // SAFETY: the descriptor is open. The namespace is this thread's alone, and the thread ends here.
            let entered = unsafe { libc::setns(network.as_raw_fd(), libc::CLONE_NEWNET) } == 0;
            opened = entered.then(Connector::open);
        });
        opened
    }
}

impl Display for Ends {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Ends::Descriptors => f.write_str("by descriptors of processes"),
            Ends::Connector(_) => f.write_str("by the process connector"),
            Ends::Untold(why) => write!(
                f,
                "how IOCs end is not known: that needs Linux 6.15, or CAP_NET_ADMIN in the first PID and user namespace: \
                 {why}"
            ),
        }
    }
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

    /// The wait status of the process, once it has ended, as far as this tells.
    pub fn status(&self) -> Option<i32> {
        // its parent may reap it between the two looks
        self.reaped().or_else(|| zombie(self.pid)).or_else(|| self.reaped())
    }

    /// Whether descriptors of processes tell how these ended on this kernel, tried on a child.
    pub fn is_told() -> bool {
        let tried = Victim::start().and_then(|victim| {
            let ending = Ending::expect(victim.pid());
            let status = victim.kill(libc::SIGTERM)?;
            Ok(ending.reaped() == Some(status))
        });
        tried.unwrap_or(false)
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
    let Some(fields) = fields(pid) else { return false };
    let mut fields = fields.split(' ');
    let has_ended = matches!(fields.next(), Some("Z" | "X"));
    // field 20, num_threads: those that have not ended, and the first
    has_ended
        && fields.nth(16).and_then(|threads| threads.parse::<u32>().ok()).is_some_and(|threads| threads <= 1)
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

/// Who sent a signal without a process that is known, by its `si_code`, for people.
pub fn no_process(code: i32) -> String {
    // whoever sends may choose one below 0
    match code {
        ..0 => format!("a timer, a message queue or the like (si_code {code})"),
        _ => "the kernel".into(),
    }
}

/// The name of a signal.
pub fn signal_name(number: i32) -> String {
    nix::sys::signal::Signal::try_from(number)
        .map_or_else(|_| format!("signal {number}"), |signal| signal.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;
    use std::time::{Duration, Instant};

    fn ended(script: &str, reap: bool) -> Option<i32> {
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
        let status = ending.status();
        child.wait().unwrap();
        status
    }

    #[test]
    fn zombies_tell() {
        assert_eq!(ended("exit 3", false), Some(3 << 8));
        assert_eq!(ended("kill -9 $$", false), Some(libc::SIGKILL));
    }

    #[test]
    fn the_dead_tell_where_the_kernel_can() {
        assert_eq!(ended("exit 7", true), Ending::is_told().then_some(7 << 8));
    }

    #[test]
    fn nobody() {
        assert_eq!(Ending::expect(u32::MAX).status(), None);
        assert!(!is_zombie(u32::MAX));
        assert_eq!((signal_name(11).as_str(), signal_name(40).as_str()), ("SIGSEGV", "signal 40"));
    }
}
