//! A child that does nothing, on which the recorder tries whether it learns how processes end.
//!
//! The child makes no system call but those here, holds no memory, and dumps no core. It ends with its parent.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::poll::{poll, PollFd, PollFlags, PollTimeout};

/// Longest wait for the child to begin, milliseconds.
const BEGIN: u16 = 1000;

/// Words that lie on the child's stack.
pub const MARK: [u64; 2] = [0x696f_6372_6563_2121, 0x7374_6163_6b20_6d61];

/// A child. Dropping it kills it.
#[derive(Debug)]
pub struct Victim {
    pid: libc::pid_t,
    is_reaped: bool,
}

impl Victim {
    /// Makes the child.
    ///
    /// # Errors
    /// The system refuses, or the child does not begin.
    pub fn start() -> io::Result<Victim> {
        let (begun, begins) = pipe()?;
        // SAFETY: the child makes plain system calls on numbers and its own stack, and never returns.
        let pid = match unsafe { libc::fork() } {
            -1 => return Err(io::Error::last_os_error()),
            0 => wait_for_death(begins.as_raw_fd()),
            pid => pid,
        };
        let victim = Victim { pid, is_reaped: false };
        drop(begins);
        let mut polled = [PollFd::new(begun.as_fd(), PollFlags::POLLIN)];
        while poll(&mut polled, PollTimeout::from(BEGIN)) == Err(Errno::EINTR) {}
        match polled[0].revents() {
            Some(events) if events.contains(PollFlags::POLLIN) => Ok(victim),
            _ => Err(io::ErrorKind::TimedOut.into()),
        }
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.pid.cast_unsigned()
    }

    /// Sends it a signal that ends it, and reaps it; returns its wait status.
    ///
    /// # Errors
    /// The system refuses.
    pub fn kill(mut self, signal: i32) -> io::Result<i32> {
        self.end(signal)
    }

    fn end(&mut self, signal: i32) -> io::Result<i32> {
        let mut status = 0;
        self.is_reaped = true;
        // SAFETY: the child is not reaped yet, so the number is its own; waitpid writes one int.
        unsafe {
            if libc::kill(self.pid, signal) != 0 {
                return Err(io::Error::last_os_error());
            }
            while libc::waitpid(self.pid, &raw mut status, 0) < 0 {
                if Errno::last() != Errno::EINTR {
                    return Err(io::Error::last_os_error());
                }
            }
        }
        Ok(status)
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        if !self.is_reaped {
            let _ = self.end(libc::SIGKILL);
        }
    }
}

fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    use std::os::fd::FromRawFd;
    let mut ends = [0; 2];
    // SAFETY: pipe2 writes two descriptors, which nobody else owns.
    unsafe {
        if libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok((OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])))
    }
}

/// The child.
#[inline(never)]
fn wait_for_death(begins: i32) -> ! {
    let mark = std::hint::black_box(MARK);
    // SAFETY: plain system calls; the mask and the byte live until they return.
    unsafe {
        // no core, and no handler of the parent's
        libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0);
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0);
        libc::signal(libc::SIGQUIT, libc::SIG_DFL);
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
        libc::write(begins, (&raw const mark).cast(), 1);
    }
    loop {
        // SAFETY: no pointers are passed.
        unsafe { libc::pause() };
        std::hint::black_box(&mark);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_ends_as_asked() {
        let status = Victim::start().unwrap().kill(libc::SIGQUIT).unwrap();
        assert_eq!((libc::WIFSIGNALED(status), libc::WTERMSIG(status)), (true, libc::SIGQUIT));
        assert!(!libc::WCOREDUMP(status));
        let dropped = Victim::start().unwrap();
        let pid = dropped.pid();
        drop(dropped);
        assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
    }
}
