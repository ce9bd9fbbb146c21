//! Wakes a thread that waits for descriptors: another thread rings, and the bell's descriptor becomes readable.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// A bell (eventfd(2)). Without a descriptor to spare it makes no sound; whoever waits for it looks now and then anyway.
#[derive(Debug)]
pub struct Bell(Option<OwnedFd>);

impl Bell {
    /// A bell that nobody has rung.
    pub fn new() -> Bell {
        // SAFETY: eventfd takes two numbers and returns a new descriptor or an error.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        // SAFETY: the descriptor is open and nobody else owns it.
        Bell((fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Makes the descriptor readable until the next [`Bell::hear`]. Never waits.
    pub fn ring(&self) {
        let one = 1u64;
        if let Some(fd) = &self.0 {
            // SAFETY: eight bytes are read from a live number. It fails only if it has rung 2^64 times.
            unsafe { libc::write(fd.as_raw_fd(), (&raw const one).cast(), size_of::<u64>()) };
        }
    }

    /// Notes that it has rung: the descriptor is no longer readable. Call this before looking at what it announces.
    pub fn hear(&self) {
        let mut count = 0u64;
        if let Some(fd) = &self.0 {
            // SAFETY: at most eight bytes are written to a live number. It fails if nobody has rung.
            unsafe { libc::read(fd.as_raw_fd(), (&raw mut count).cast(), size_of::<u64>()) };
        }
    }

    /// The same, borrowed.
    pub fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        self.0.as_ref().map(AsFd::as_fd)
    }

    /// The descriptor that becomes readable.
    pub fn descriptor(&self) -> Option<RawFd> {
        self.0.as_ref().map(AsRawFd::as_raw_fd)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::poll::{poll, PollFd, PollFlags, PollTimeout};

    fn is_readable(bell: &Bell) -> bool {
        let mut polled = [PollFd::new(bell.as_fd().unwrap(), PollFlags::POLLIN)];
        poll(&mut polled, PollTimeout::ZERO).unwrap() == 1
    }

    #[test]
    fn rings_until_it_is_heard() {
        let bell = Bell::new();
        assert!(!is_readable(&bell));
        bell.hear();
        bell.ring();
        bell.ring();
        assert!(is_readable(&bell) && bell.descriptor().is_some());
        bell.hear();
        assert!(!is_readable(&bell));
        Bell(None).ring();
        Bell(None).hear();
    }
}
