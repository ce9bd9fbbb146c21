//! How many more files this program may open.
//!
//! Without a descriptor nothing can be told: an IOC whose files in /proc can't be opened looks as if it had ended, and the log
//! can't begin a segment. So what may need many of them, probes and what watches processes, asks first, and leaves some for
//! all else.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

/// Descriptors that are left for all else, or a fourth if fewer may be open: the log, the control socket, packets of a dozen
/// network namespaces, readers, and the files of the processes that are inspected.
const RESERVE: u64 = 256;

/// How many files may be open at the same time (RLIMIT_NOFILE); 0 if unknown.
#[allow(clippy::useless_conversion)] // on some machines it is 32 bits wide
pub fn limit() -> u64 {
    let mut files = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the call writes the struct, which outlives it.
    match unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut files) } {
        0 => u64::from(files.rlim_cur),
        _ => 0,
    }
}

/// Whether that is too few to find and probe even one IOC: the recorder has some 60 of its own, an IOC up to 130, and the files
/// of a process are open while it is inspected.
pub fn are_few() -> bool {
    (1..256).contains(&limit())
}

/// Descriptors that threads are about to open.
static CLAIMED: AtomicU64 = AtomicU64::new(0);

/// The right to open so many files, until it is dropped: by then they are open, and are counted as such.
#[derive(Debug)]
pub struct Claim(u64);

/// Claims so many descriptors; `None` if there are too few.
pub fn claim(count: u64) -> Option<Claim> {
    let claimed = CLAIMED.fetch_add(count, Ordering::Relaxed);
    let claim = Claim(count);
    have_room_for(claimed.saturating_add(count)).then_some(claim)
}

impl Drop for Claim {
    fn drop(&mut self) {
        CLAIMED.fetch_sub(self.0, Ordering::Relaxed);
    }
}

/// Whether so many more files may be opened, and some are left after that.
pub fn have_room_for(count: u64) -> bool {
    let limit = limit();
    let left = limit - RESERVE.min(limit / 4);
    // the kernel gives out the lowest number that is free, so those below it are in use
    // SAFETY: a constant string; the descriptor is this function's own.
    let lowest = unsafe {
        let lowest = libc::open(c"/".as_ptr(), libc::O_PATH | libc::O_CLOEXEC);
        libc::close(lowest);
        lowest
    };
    u64::try_from(lowest).is_ok_and(|lowest| lowest.saturating_add(count) <= left)
}

/// Whether something could not be done for want of descriptors or memory: that tells nothing of what it was asked about.
pub fn is_want(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM))
}

/// Does something on a thread that may open no file, as where the limit is reached. `None` if this machine can't show that.
#[cfg(test)]
pub fn without_any<R: Send>(work: impl FnOnce() -> R + Send) -> Option<R> {
    /// CLOSE_RANGE_UNSHARE of linux/close_range.h.
    const UNSHARE: libc::c_uint = 2;
    /// More take long to open.
    const MOST: u64 = 1 << 20;
    let alone = || {
        if limit() > MOST {
            return None;
        }
        // SAFETY: numbers only. The thread gets descriptors of its own before it closes those that it had.
        if unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, UNSHARE) } != 0 {
            return None;
        }
        // SAFETY: a constant string, and a descriptor of this thread; all are closed when it ends.
        unsafe {
            let first = libc::open(c"/".as_ptr(), libc::O_PATH | libc::O_CLOEXEC);
            while libc::dup(first) >= 0 {}
        }
        Some(work())
    };
    match std::thread::scope(|scope| scope.spawn(alone).join()) {
        Ok(done) => done,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wanting() {
        for (errno, expected) in [
            (libc::EMFILE, true),
            (libc::ENFILE, true),
            (libc::ENOMEM, true),
            (libc::ENOENT, false),
            (libc::ESRCH, false),
            (libc::EACCES, false),
            (libc::EIO, false),
        ] {
            assert_eq!(is_want(&io::Error::from_raw_os_error(errno)), expected, "{errno}");
        }
    }

    #[test]
    fn there_is_room_up_to_the_limit() {
        assert!(limit() > 0);
        assert!(have_room_for(1));
        assert!(!have_room_for(limit()));
    }

    #[test]
    fn what_is_claimed_is_not_there_for_others() {
        let most = limit() / 2;
        let first = claim(most);
        assert!(first.is_some());
        assert!(claim(most).is_none());
        drop(first);
        assert!(claim(most).is_some());
    }
}
