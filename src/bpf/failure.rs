//! A failure of the kernel or libbpf, before its reason is sought.

use std::fmt::{self, Display, Formatter};
use std::io;

use iocrec_log::event::Tier;

/// The step that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Making the maps of this tier, or asking the kernel whether it has BPF at all.
    Maps(Tier),
    /// Loading a program.
    Program,
    /// Preparing to wait for several buffers.
    Epoll,
    /// Opening the buffers for hits.
    Buffers,
    /// Placing a probe in an IOC.
    Probe,
    /// Placing a probe in iocrec itself.
    OwnProbe,
}

/// The answer of libbpf or the kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Failure {
    /// System error number.
    pub errno: i32,
    /// First line of libbpf's complaint, for display only; may be empty.
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
