//! Reasons why a recorder cannot start.

use std::fmt;

use nix::errno::Errno;

use crate::ioc::copies::ForkedCopy;
use crate::linux::chosen::NotChosen;
use crate::linux::privileges::TO_READ_OTHERS;
use crate::linux::reader::budget::Refused;
use crate::net::capture::CaptureError;

/// Nothing can be recorded at all, or nothing of the user's selection.
#[derive(Debug)]
pub enum StartError {
    /// This program's clocks are not the kernel's.
    TimeNamespace,
    /// The kernel does not identify the machine.
    Host(HostError),
    /// An interface that the user named cannot be captured.
    Capture(CaptureError),
    /// There are neither packets nor probes; the reasons, as far as known.
    NothingToRecord {
        /// Why there are no packets.
        packets: Option<CaptureError>,
        /// Why there are no probes.
        probes: Option<String>,
    },
    /// No process can be inspected: the system has no thread to spare.
    NoThread,
    /// No process that the user asked for can be recorded; this is the last of them.
    NotTraced {
        /// The process.
        pid: u32,
        /// Why not.
        reason: NotTraced,
    },
}

/// Why a process that the user asked for is not recorded.
#[derive(Debug, PartialEq, Eq)]
pub enum NotTraced {
    /// It does not answer, or costs too much to inspect.
    DoesNotAnswer(Refused),
    /// It does not exist.
    NoProcess,
    /// It exists, but /proc does not show it to this user.
    Hidden,
    /// Nothing could be read of it.
    Unread(Errno),
    /// It is not for this user to read.
    Forbidden,
    /// It has ended; its parent has yet to take its exit status.
    HasEnded,
    /// Other options leave it out.
    NotChosen(NotChosen),
    /// It was forked from an IOC and runs none of its own.
    Copy(ForkedCopy),
    /// It was not found to be an IOC or another server of Channel Access or PVAccess.
    NoIoc {
        /// Its command line, made safe to show, or its name; empty if it has ended meanwhile.
        command: String,
    },
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::TimeNamespace => f.write_str(
                "iocrec runs in a time namespace whose clocks are not the kernel's, so all times would be wrong; \
                 start it outside (nsenter --time=/proc/1/ns/time iocrec ...)",
            ),
            StartError::Host(error) => error.fmt(f),
            StartError::Capture(error) => error.fmt(f),
            StartError::NothingToRecord { packets, probes } => {
                let packets = packets.iter().map(ToString::to_string);
                let reasons: Vec<String> = packets.chain(probes.clone()).collect();
                write!(f, "nothing can be recorded: {}", reasons.join("; "))
            }
            StartError::NoThread => f.write_str(
                "no thread can be started to look for IOCs: allow more processes (ulimit -u, TasksMax=, pids.max)",
            ),
            StartError::NotTraced { pid, reason } => match reason {
                NotTraced::DoesNotAnswer(refused) => {
                    write!(f, "process {pid} is not inspected: {refused}")
                }
                NotTraced::NoProcess => {
                    write!(f, "there is no process {pid}; iocrec check lists the running IOCs")
                }
                NotTraced::Hidden => {
                    write!(f, "process {pid} is hidden from this user (hidepid of /proc); run as root")
                }
                NotTraced::Unread(errno) => {
                    write!(f, "process {pid} can't be read: {}", std::io::Error::from(*errno))
                }
                NotTraced::Forbidden => write!(f, "process {pid} can't be read: {TO_READ_OTHERS}"),
                NotTraced::HasEnded => {
                    write!(f, "process {pid} has ended; iocrec check lists the running IOCs")
                }
                NotTraced::NoIoc { command } if command.is_empty() => write!(
                    f,
                    "process {pid} was not found to be an IOC or a server, and has ended meanwhile; \
                     iocrec check lists those that run"
                ),
                NotTraced::NotChosen(why) => write!(f, "process {pid} {why}"),
                NotTraced::Copy(copy) => {
                    write!(f, "process {pid} is not recorded: {copy}; iocrec check lists the running IOCs")
                }
                NotTraced::NoIoc { command } => write!(
                    f,
                    "process {pid} ({command}) was not found to be an IOC or a server; iocrec check lists those"
                ),
            },
        }
    }
}

impl std::error::Error for StartError {}

/// uname(2) failed: this is not Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostError(pub Errno);

impl fmt::Display for HostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "uname: {}", std::io::Error::from(self.0))
    }
}

impl std::error::Error for HostError {}
