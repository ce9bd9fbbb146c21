//! Ends the program: the only place for exit codes.

use std::ffi::OsString;
use std::fmt;
use std::process::ExitCode;

use crate::terminal::complain;

/// Why a command failed.
#[derive(Debug)]
pub enum Failure {
    /// Usage error: exit code 2.
    Usage(UsageError),
    /// The command failed for this reason: exit code 1.
    Failed(String),
}

/// An error in the command line.
#[derive(Debug, PartialEq, Eq)]
pub enum UsageError {
    /// An argument is not UTF-8.
    NotUtf8(OsString),
    /// argh rejects it, for this reason.
    Rejected(String),
    /// A value of an option is not valid, for this reason.
    Value(String),
    /// Nothing would be recorded: neither puts nor processing.
    NothingToRecord,
    /// The packet tier would record nothing: it sees puts only.
    NoPutsInPacketTier,
    /// A mark has no text.
    NoText,
}

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UsageError::NotUtf8(argument) => {
                write!(f, "an argument is not UTF-8: {}", argument.to_string_lossy())
            }
            UsageError::Rejected(reason) => write!(f, "{reason} (see iocrec --help)"),
            UsageError::Value(reason) => f.write_str(reason),
            UsageError::NothingToRecord => {
                f.write_str("nothing to record: leave out --no-puts or --no-process")
            }
            UsageError::NoPutsInPacketTier => {
                f.write_str("nothing to record: the packet tier sees puts only; leave out --no-puts")
            }
            UsageError::NoText => {
                f.write_str("a mark needs a text, such as iocrec mark --dir DIR \"beam lost\"")
            }
        }
    }
}

impl From<UsageError> for Failure {
    fn from(error: UsageError) -> Failure {
        Failure::Usage(error)
    }
}

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Failure {
        Failure::Failed(error.to_string())
    }
}

/// Reports a failure on standard error. Returns 0 for success, 1 for failure, 2 for a usage error.
pub fn exit(result: Result<(), Failure>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Usage(error)) => {
            complain(&error.to_string());
            ExitCode::from(2)
        }
        Err(Failure::Failed(line)) => {
            complain(&line);
            ExitCode::FAILURE
        }
    }
}
