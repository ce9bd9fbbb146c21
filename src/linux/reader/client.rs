//! The asking side of a reader process: a question, and an answer or none in time.
//!
//! A reader that does not answer in time is killed, and whatever happens to it another one is made for the next
//! question. One that waits in a file system whose server has taken its request can't be killed: it is left to
//! itself until that server answers or goes. So that nobody fills the machine with them there may be a few, and of each
//! user fewer.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::linux::proc;
use crate::linux::reader::budget::Refused;
use crate::linux::reader::child;
use crate::linux::reader::shared::{Page, Question, Shared};

/// Readers that wait for something that does not come, at most.
const MOST_STUCK: usize = 8;
/// Of these, such as processes of one user have brought about.
const MOST_STUCK_OF_ONE: usize = 2;
/// A reader that has work and has not had a CPU for it is waited for so long: a busy machine is no reason to
/// doubt a process.
const STARVED: Duration = Duration::from_secs(2);
/// How often it is looked why there is no answer.
const LOOK: Duration = Duration::from_millis(20);
/// What a reader that was killed gets to end, which it does at once if it can.
const PARTING: Duration = Duration::from_millis(20);
/// Descriptors that other threads may open between a look at the highest and the fork.
const SLACK: RawFd = 64;

/// A reader that was given up and has not ended.
struct Stuck {
    reader: libc::pid_t,
    /// The user whose process it looked at.
    user: Option<u32>,
}

static STUCK: Mutex<Vec<Stuck>> = Mutex::new(Vec::new());

/// How many there are, as of the last look at them.
static HOW_MANY: AtomicUsize = AtomicUsize::new(0);

/// How many readers wait for something that does not come.
pub fn stuck() -> usize {
    if HOW_MANY.load(Ordering::Relaxed) == 0 {
        return 0;
    }
    let mut stuck = STUCK.lock().unwrap_or_else(PoisonError::into_inner);
    stuck.retain(|stuck| !has_ended(stuck.reader));
    HOW_MANY.store(stuck.len(), Ordering::Relaxed);
    stuck.len()
}

/// May a process of this user be asked for something, as far as readers go that others of its processes hold up?
pub fn may_ask(user: Option<u32>) -> bool {
    if stuck() == 0 {
        return true;
    }
    let stuck = STUCK.lock().unwrap_or_else(PoisonError::into_inner);
    stuck.len() < MOST_STUCK && stuck.iter().filter(|stuck| stuck.user == user).count() < MOST_STUCK_OF_ONE
}

/// The same for an IOC that has answered so far: some readers are left to those who have not been tried.
pub fn may_ask_ioc(user: Option<u32>) -> bool {
    may_ask(user) || stuck() + 2 < MOST_STUCK
}

/// Waits for a child without blocking; true if it has ended.
fn has_ended(pid: libc::pid_t) -> bool {
    // SAFETY: a child of ours; no status is asked for.
    unsafe { libc::waitpid(pid, std::ptr::null_mut(), libc::WNOHANG) != 0 }
}

/// A reader process.
#[derive(Debug)]
pub struct Reader {
    pid: libc::pid_t,
    socket: OwnedFd,
    shared: Shared,
}

/// Why a question has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoAnswer {
    /// The reader had to be given up.
    InTime,
    /// It has ended by itself: somebody has killed it.
    Ended,
}

impl Reader {
    /// Starts one.
    ///
    /// # Errors
    /// There are too many that wait in vain, or the system gives no process.
    pub fn start() -> io::Result<Reader> {
        if stuck() >= MOST_STUCK {
            return Err(Refused::Crowded.into());
        }
        let shared = Shared::new().ok_or(io::ErrorKind::OutOfMemory)?;
        let mut ends: [RawFd; 2] = [-1; 2];
        let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
        // SAFETY: two descriptors are written.
        if unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()) } < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: just opened, and nobody else's.
        let [ours, theirs] = ends.map(|end| unsafe { OwnedFd::from_raw_fd(end) });
        let highest = highest().unwrap_or(1024).saturating_add(SLACK);
        let parent = std::process::id() as libc::pid_t;
        let page = shared.pointer();
        // SAFETY: the child makes system calls on its stack and the page alone, and never returns.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => child::serve(theirs.as_raw_fd(), highest, page, parent),
            pid => Ok(Reader { pid, socket: ours, shared }),
        }
    }

    /// Where the question's words go and the answer's bytes are.
    pub fn page(&mut self) -> &mut Page {
        self.shared.page()
    }

    /// Asks, and waits so long at most. The inner error is the system's.
    ///
    /// # Errors
    /// There is no answer; the reader is of no more use.
    pub fn ask(
        &mut self,
        question: Question,
        time: Duration,
    ) -> Result<io::Result<(usize, Option<OwnedFd>)>, NoAnswer> {
        let question = question as u32;
        // SAFETY: the buffer is as long as said.
        let sent = unsafe {
            let bytes = (&raw const question).cast();
            libc::send(self.socket.as_raw_fd(), bytes, size_of::<u32>(), libc::MSG_NOSIGNAL)
        };
        if sent < 0 {
            return Err(NoAnswer::Ended);
        }
        let begin = Instant::now();
        loop {
            let passed = begin.elapsed();
            let left = if passed < time { (time - passed).min(time) } else { LOOK };
            let mut polled = libc::pollfd { fd: self.socket.as_raw_fd(), events: libc::POLLIN, revents: 0 };
            let milliseconds = left.as_micros().div_ceil(1000).min(i32::MAX as u128) as i32;
            // SAFETY: one structure.
            match unsafe { libc::poll(&raw mut polled, 1, milliseconds) } {
                1.. => return self.answer(),
                // over, or interrupted by a signal
                _ if begin.elapsed() < time => {}
                // it could go on, and the machine does not let it
                _ if begin.elapsed() < time + STARVED && self.is_running() => {}
                _ => return Err(NoAnswer::InTime),
            }
        }
    }

    /// Does it run or wait for a CPU?
    fn is_running(&self) -> bool {
        let stat = proc::text(format!("/proc/{}/stat", self.pid)).unwrap_or_default();
        stat.rsplit_once(')').is_some_and(|(_, fields)| fields.trim_start().starts_with('R'))
    }

    fn answer(&self) -> Result<io::Result<(usize, Option<OwnedFd>)>, NoAnswer> {
        #[repr(C, align(8))]
        struct Control([u8; 64]);
        let mut control = Control([0; 64]);
        let mut answer: child::Answer = 0;
        let mut bytes =
            libc::iovec { iov_base: (&raw mut answer).cast(), iov_len: size_of::<child::Answer>() };
        // SAFETY: zeroes are a valid msghdr; all that it points to lives until recvmsg returns, and is as long as
        // said. The header that CMSG_FIRSTHDR gives lies in the control buffer.
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
        if have != size_of::<child::Answer>() as isize {
            return Err(NoAnswer::Ended);
        }
        Ok(match usize::try_from(answer) {
            Ok(much) => Ok((much, descriptor)),
            Err(_) => Err(io::Error::from_raw_os_error(i32::try_from(-answer).unwrap_or(libc::EIO))),
        })
    }

    /// Gives it up while it looks at a process of this user.
    pub fn give_up(self, user: Option<u32>) {
        // SAFETY: a child of ours that was not waited for.
        unsafe { libc::kill(self.pid, libc::SIGKILL) };
        let begin = Instant::now();
        while !has_ended(self.pid) {
            if begin.elapsed() >= PARTING {
                let mut stuck = STUCK.lock().unwrap_or_else(PoisonError::into_inner);
                stuck.push(Stuck { reader: self.pid, user });
                HOW_MANY.store(stuck.len(), Ordering::Relaxed);
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
