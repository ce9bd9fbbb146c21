//! A failure of the kernel's or libbpf's, before anybody has asked for its reason.

use std::fmt::{self, Display, Formatter};
use std::io;

use iocrec_log::event::Tier;

/// What was being done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The maps of this tier were made, or the kernel was asked whether it has BPF at all.
    Maps(Tier),
    /// A program was loaded.
    Program,
    /// Waiting for several buffers was prepared.
    Epoll,
    /// The buffers for hits were opened.
    Buffers,
    /// A probe was placed in an IOC.
    Probe,
    /// A probe was placed in iocrec itself.
    OwnProbe,
}

/// What libbpf or the kernel answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Failure {
    /// The system's number of the error.
    pub errno: i32,
    /// The first line of what libbpf complained of, for people only; may be empty.
    pub complaint: String,
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure { errno: error.raw_os_error().unwrap_or(libc::EINVAL), complaint: String::new() }
    }
}

impl Display for Failure {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let error = io::Error::from_raw_os_error(self.errno);
        match self.complaint.as_str() {
            "" => error.fmt(f),
            complaint => write!(f, "{error} ({complaint})"),
        }
    }
}
