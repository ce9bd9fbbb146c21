//! The budget of one inspection of a process: bytes and time.

use std::fmt;
use std::io;
use std::time::{Duration, Instant};

use crate::linux::descriptors::is_want;

/// Why something was not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The byte budget is spent.
    Bytes,
    /// The time budget is spent.
    Time,
    /// A read did not return in time. What it waits for is not known: a file system, a server, a lock of the kernel, or
    /// the processor of a busy machine.
    NoAnswer,
    /// The reader process died: somebody killed it, such as the kernel for lack of memory.
    Killed,
    /// Too many reader processes are stuck to start another.
    TooManyStuck,
    /// This program may open no more files, or start no more processes, or there is no memory.
    NoRoom,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refused::Bytes => "more would have to be read of it than is allowed",
            Refused::Time => "reading it takes longer than is allowed",
            Refused::NoAnswer => "a read of its memory, or of a file that it uses, did not return in time",
            Refused::Killed => "the process of iocrec that was reading it was killed",
            Refused::TooManyStuck => "too many reads of other processes have not returned",
            Refused::NoRoom => "iocrec lacks files, processes or memory (ulimit -a)",
        })
    }
}

impl std::error::Error for Refused {}

impl Refused {
    /// Whether an error tells of what this program lacks, and nothing of what it was about.
    pub fn by(error: &io::Error) -> Option<Refused> {
        is_want(error).then_some(Refused::NoRoom)
    }
}

impl From<Refused> for io::Error {
    fn from(refused: Refused) -> io::Error {
        io::Error::new(io::ErrorKind::TimedOut, refused)
    }
}

/// The bytes and time left.
#[derive(Debug)]
pub struct Budget {
    bytes: u64,
    deadline: Instant,
}

impl Budget {
    /// A budget of `bytes`, to be spent within `time` from now.
    pub fn new(bytes: u64, time: Duration) -> Budget {
        let now = Instant::now();
        Budget { bytes, deadline: now.checked_add(time).unwrap_or(now) }
    }

    /// Spends bytes that are about to be read.
    ///
    /// # Errors
    /// Fewer bytes are left, or no time.
    pub fn take(&mut self, bytes: u64) -> Result<(), Refused> {
        if Instant::now() >= self.deadline {
            return Err(Refused::Time);
        }
        self.bytes = self.bytes.checked_sub(bytes).ok_or(Refused::Bytes)?;
        Ok(())
    }

    /// The end of the time budget.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file that can't be opened for want of memory is there all the same: whoever has it mapped may be an IOC.
    #[test]
    fn want_is_not_absence() {
        let by = |errno| Refused::by(&io::Error::from_raw_os_error(errno));
        for errno in [libc::EMFILE, libc::ENFILE, libc::ENOMEM] {
            assert_eq!(by(errno), Some(Refused::NoRoom), "{errno}");
        }
        assert_eq!([libc::ENOENT, libc::EACCES, libc::ESRCH].map(by), [None; 3]);
    }

    #[test]
    fn what_is_left() {
        let mut budget = Budget::new(10, Duration::from_secs(60));
        assert_eq!(budget.take(4), Ok(()));
        assert_eq!(budget.take(7), Err(Refused::Bytes));
        assert_eq!(budget.take(6), Ok(()));
        assert_eq!(Budget::new(10, Duration::ZERO).take(0), Err(Refused::Time));
    }
}
