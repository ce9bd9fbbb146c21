//! The client of a reader process: it sends a request and waits for the reply until a deadline.
//!
//! A reader that misses its deadline is killed, and a new one is started for the next request. A reader that waits in a
//! file system whose server has taken the request can't be killed; it is *stuck* until that server answers or dies. The
//! number of stuck readers is limited, in all and per user, so that nobody can fill the machine with them.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::linux::proc;
use crate::linux::reader::budget::Refused;
use crate::linux::reader::child;
use crate::linux::reader::inherited::Inherited;
use crate::linux::reader::shared::{Buffer, Request, Shared};

/// Maximum number of stuck readers.
const MAX_STUCK: usize = 8;
/// Maximum number of stuck readers that were reading processes of one user.
const MAX_STUCK_OF_USER: usize = 2;
/// Extra time for a reader that is runnable but got no CPU: a busy machine is no fault of the process.
const STARVATION_ALLOWANCE: Duration = Duration::from_secs(2);
/// Looks at the state of a reader until its deadline.
const LOOKS: u32 = 25;
/// Time between checks of a late reader's state.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Time to wait for a killed reader; it ends at once if it can.
const KILL_GRACE: Duration = Duration::from_millis(20);
/// Descriptors that other threads may open between finding the highest and the fork.
const SLACK: RawFd = 64;

/// A reader that was abandoned and has not ended.
struct Stuck {
    reader: libc::pid_t,
    /// The owner of the process that it was reading.
    user: Option<u32>,
}

static STUCK: Mutex<Vec<Stuck>> = Mutex::new(Vec::new());

/// Length of [`STUCK`], as of the last check.
static STUCK_COUNT: AtomicUsize = AtomicUsize::new(0);

/// Number of stuck readers.
pub fn stuck() -> usize {
    if STUCK_COUNT.load(Ordering::Relaxed) == 0 {
        return 0;
    }
    let mut stuck = STUCK.lock().unwrap_or_else(PoisonError::into_inner);
    stuck.retain(|stuck| !has_ended(stuck.reader));
    STUCK_COUNT.store(stuck.len(), Ordering::Relaxed);
    stuck.len()
}

/// Whether processes of this user may be read, given the stuck readers.
pub fn may_ask(user: Option<u32>) -> bool {
    if stuck() == 0 {
        return true;
    }
    let stuck = STUCK.lock().unwrap_or_else(PoisonError::into_inner);
    stuck.len() < MAX_STUCK && stuck.iter().filter(|stuck| stuck.user == user).count() < MAX_STUCK_OF_USER
}

/// The same for an IOC that has answered so far: it leaves some readers for processes that were not tried yet.
pub fn may_ask_ioc(user: Option<u32>) -> bool {
    may_ask(user) || stuck() + 2 < MAX_STUCK
}

/// Waits for a child without blocking; true if it has ended.
fn has_ended(pid: libc::pid_t) -> bool {
    // SAFETY: a child of ours; no status is requested.
    unsafe { libc::waitpid(pid, std::ptr::null_mut(), libc::WNOHANG) != 0 }
}

/// A reader process.
#[derive(Debug)]
pub struct ReaderProcess {
    pid: libc::pid_t,
    socket: OwnedFd,
    shared: Shared,
    /// Time for which it was seen to wait in requests, and not for a CPU.
    waited: Duration,
}

/// Why a request has no reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReaderError {
    /// The reader missed its deadline.
    Timeout,
    /// The reader has died: somebody killed it.
    Died,
}

impl ReaderProcess {
    /// Starts a reader process.
    ///
    /// # Errors
    /// Too many readers are stuck, or the system has no process to spare.
    pub fn start() -> io::Result<ReaderProcess> {
        if stuck() >= MAX_STUCK {
            return Err(Refused::TooManyStuck.into());
        }
        let shared = Shared::new().ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))?;
        let mut ends: [RawFd; 2] = [-1; 2];
        let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
        // SAFETY: the call writes two descriptors.
        if unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()) } < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: just opened, and nobody else owns them.
        let [ours, theirs] = ends.map(|end| unsafe { OwnedFd::from_raw_fd(end) });
        let highest = highest().unwrap_or(1024).saturating_add(SLACK);
        let parent = std::process::id() as libc::pid_t;
        let buffer = shared.pointer();
        let inherited = Inherited::by_a_child(buffer as usize);
        // SAFETY: the child only makes system calls on its stack and the buffer, and never returns.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => child::serve(theirs.as_raw_fd(), highest, buffer, &inherited, parent),
            pid => Ok(ReaderProcess { pid, socket: ours, shared, waited: Duration::ZERO }),
        }
    }

    /// The buffer for the request's parameters and the reply's bytes.
    pub fn buffer(&mut self) -> &mut Buffer {
        self.shared.buffer()
    }

    /// Sends a request and waits for its reply, at most for `deadline`. The inner error is the system's.
    ///
    /// # Errors
    /// There is no reply; abandon the reader.
    pub fn request(
        &mut self,
        request: Request,
        deadline: Duration,
    ) -> Result<io::Result<(usize, Option<OwnedFd>)>, ReaderError> {
        let request = request as u32;
        // SAFETY: the buffer has the given length.
        let sent = unsafe {
            let bytes = (&raw const request).cast();
            libc::send(self.socket.as_raw_fd(), bytes, size_of::<u32>(), libc::MSG_NOSIGNAL)
        };
        if sent < 0 {
            return Err(ReaderError::Died);
        }
        let begin = Instant::now();
        loop {
            let passed = begin.elapsed();
            let look = deadline / LOOKS;
            let left = if passed < deadline { look.min(deadline - passed) } else { POLL_INTERVAL };
            let mut polled = libc::pollfd { fd: self.socket.as_raw_fd(), events: libc::POLLIN, revents: 0 };
            let milliseconds = left.as_micros().div_ceil(1000).min(i32::MAX as u128) as i32;
            // SAFETY: one structure.
            match unsafe { libc::poll(&raw mut polled, 1, milliseconds) } {
                1.. => return self.reply(),
                // or a signal interrupted the wait
                _ if begin.elapsed() < deadline => {
                    if !self.is_running() {
                        self.waited += left;
                    }
                }
                // it could run, but the machine does not let it
                _ if begin.elapsed() < deadline + STARVATION_ALLOWANCE && self.is_running() => {}
                _ => return Err(ReaderError::Timeout),
            }
        }
    }

    /// Time for which requests since the last call have waited for something else than a CPU.
    pub fn take_waited(&mut self) -> Duration {
        std::mem::take(&mut self.waited)
    }

    /// Whether it runs or waits for a CPU.
    fn is_running(&self) -> bool {
        let stat = proc::text(format!("/proc/{}/stat", self.pid)).unwrap_or_default();
        stat.rsplit_once(')').is_some_and(|(_, fields)| fields.trim_start().starts_with('R'))
    }

    fn reply(&self) -> Result<io::Result<(usize, Option<OwnedFd>)>, ReaderError> {
        #[repr(C, align(8))]
        struct Control([u8; 64]);
        let mut control = Control([0; 64]);
        let mut reply: child::Reply = 0;
        let mut bytes = libc::iovec { iov_base: (&raw mut reply).cast(), iov_len: size_of::<child::Reply>() };
        // SAFETY: an all-zero msghdr is valid; everything it points to lives until recvmsg returns, and has the given
        // length. The header that CMSG_FIRSTHDR returns lies in the control buffer.
        let (have, descriptor) = unsafe {
            let mut message: libc::msghdr = std::mem::zeroed();
            message.msg_iov = &raw mut bytes;
            message.msg_iovlen = 1;
            message.msg_control = (&raw mut control).cast();
            message.msg_controllen = size_of::<Control>() as _;
            let have = libc::recvmsg(self.socket.as_raw_fd(), &raw mut message, libc::MSG_CMSG_CLOEXEC);
            let header =
                if have > 0 { libc::CMSG_FIRSTHDR(&raw const message) } else { std::ptr::null_mut() };
            let passed = !header.is_null()
                && (*header).cmsg_level == libc::SOL_SOCKET
                && (*header).cmsg_type == libc::SCM_RIGHTS;
            let descriptor = passed
                .then(|| OwnedFd::from_raw_fd(libc::CMSG_DATA(header).cast::<RawFd>().read_unaligned()));
            (have, descriptor)
        };
        if have != size_of::<child::Reply>() as isize {
            return Err(ReaderError::Died);
        }
        Ok(match usize::try_from(reply) {
            Ok(much) => Ok((much, descriptor)),
            Err(_) => Err(io::Error::from_raw_os_error(i32::try_from(-reply).unwrap_or(libc::EIO))),
        })
    }

    /// Kills the reader. If it does not end, it counts as stuck reading a process of this user.
    pub fn abandon(self, user: Option<u32>) {
        // SAFETY: a child of ours that has not been reaped.
        unsafe { libc::kill(self.pid, libc::SIGKILL) };
        let begin = Instant::now();
        while !has_ended(self.pid) {
            if begin.elapsed() >= KILL_GRACE {
                let mut stuck = STUCK.lock().unwrap_or_else(PoisonError::into_inner);
                stuck.push(Stuck { reader: self.pid, user });
                STUCK_COUNT.store(stuck.len(), Ordering::Relaxed);
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// The highest descriptor of this process.
fn highest() -> Option<RawFd> {
    let numbers = std::fs::read_dir("/proc/self/fd").ok()?.flatten();
    numbers.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).max()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes that this process has resident.
    fn resident(pid: libc::pid_t) -> usize {
        let statm = proc::contents(format!("/proc/{pid}/statm").as_ref()).unwrap();
        let text = String::from_utf8(statm).unwrap();
        text.split(' ').nth(1).unwrap().parse::<usize>().unwrap() << 12
    }

    /// What lets a reader wait may always give way just before the deadline.
    #[test]
    fn a_reader_that_waits_and_answers_is_noticed() {
        use nix::sys::signal::{kill, Signal};
        let mut reader = ReaderProcess::start().unwrap();
        let pid = nix::unistd::Pid::from_raw(reader.pid);
        kill(pid, Signal::SIGSTOP).unwrap();
        let waker = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(900));
            kill(pid, Signal::SIGCONT).unwrap();
        });
        reader.buffer().length = 0;
        let answer = reader.request(Request::Close, Duration::from_secs(5));
        waker.join().unwrap();
        assert!(answer.is_ok(), "{answer:?}");
        assert!(reader.take_waited() >= Duration::from_millis(200));
        assert_eq!(reader.take_waited(), Duration::ZERO);
        reader.abandon(None);
    }

    #[test]
    fn a_reader_holds_none_of_the_recorder_s_memory() {
        const MUCH: usize = 64 << 20;
        let much = vec![7_u8; MUCH];
        let mut reader = ReaderProcess::start().unwrap();
        let path = b"/proc/self/comm\0";
        let buffer = reader.buffer();
        buffer.path[..path.len()].copy_from_slice(path);
        buffer.length = 4096;
        let answer = reader.request(Request::Contents, Duration::from_secs(20)).unwrap().unwrap();
        assert_eq!(&reader.buffer().data[..answer.0], b"iocrec-reader\n");
        let (own, reader_s) = (resident(std::process::id() as libc::pid_t), resident(reader.pid));
        assert!(own > MUCH, "{own}: the memory is in use, {}", much[MUCH / 2]);
        assert!(reader_s < own - MUCH * 9 / 10, "{reader_s} of {own} bytes");
        reader.abandon(None);
    }
}
