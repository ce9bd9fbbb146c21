//! What happens in a log that grows, of all kinds in one order: for [`follow`](crate::follow).
//!
//! The log may be a directory, or come through a pipe (`iocrec cat`): then it is received into a [`spool`], a directory
//! that is followed in its place.

use crate::live::output::syslog::Target;
use iocrec_log::stream::Position;
use kept::KeptError;
use receiver::Ending;
use spool::SpoolError;
use std::{fmt, io};

/// Why following ended.
#[derive(Debug)]
pub enum FollowError {
    /// The spool can't be used.
    Spool(SpoolError),
    /// How far it was followed can't be kept.
    Kept(KeptError),
    /// The stream ended before its end.
    Ended {
        /// How.
        ending: Ending,
        /// Where it can go on.
        position: Option<Position>,
    },
    /// Syslog can't be reached.
    Syslog(Target, io::Error),
}

impl fmt::Display for FollowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FollowError::Spool(error) => error.fmt(f),
            FollowError::Kept(error) => error.fmt(f),
            FollowError::Ended { ending: ending @ Ending::Cut, position: Some(position) } => {
                write!(f, "{ending}; go on with iocrec cat --from {position}")
            }
            FollowError::Ended { ending: ending @ Ending::Cut, position: None } => {
                write!(f, "{ending}; run iocrec cat again; with --spool DIR here it goes on where it ended")
            }
            FollowError::Ended { ending, .. } => ending.fmt(f),
            FollowError::Syslog(target, error) => {
                write!(f, "can't send to {target}: {error}; start a syslog there, or name another target")
            }
        }
    }
}

pub mod kept;
pub mod notes;
pub mod output;
pub mod receiver;
pub mod row;
pub mod signals;
pub mod spool;
pub mod telemetry;
