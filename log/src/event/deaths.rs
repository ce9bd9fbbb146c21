//! What kills IOCs: signals that are sent to them, and crashes.

use super::ids::*;
use super::life::{allocated, OwnedBy, Whole};
use serde::{Deserialize, Serialize};

/// Who sends a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SignalFrom {
    /// A process.
    Process,
    /// The kernel: a terminal's key, a limit, a timer.
    Kernel,
    /// The kernel, which needed memory.
    OutOfMemory,
}

/// A signal was sent to an IOC. Those that a thread causes by its own fault are [`Crash`]es.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignalSent {
    /// The IOC.
    pub ioc: IocId,
    /// The signal's number.
    pub signal: u16,
    /// `si_code` of sigaction(2).
    pub code: i32,
    /// Who sent it.
    pub from: SignalFrom,
    /// Process that sent it; 0 if the kernel did.
    pub pid: u32,
    /// Number of its real user.
    pub uid: u32,
    /// Name of that user on the recorder's machine, else the number; empty if the kernel sent it.
    pub user: String,
    /// Its name (comm), at most 15 bytes, which it may have chosen itself.
    pub program: String,
    /// Its command line without secrets; empty if it had ended, or command lines are not recorded.
    pub command: Vec<String>,
    /// Number of signals to this IOC that were sent since the last recorded one and are not in the log.
    pub left_out: u64,
}

/// A thread of an IOC got a signal that kills the IOC, or its own fault was handed to a handler.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Crash {
    /// The IOC.
    pub ioc: IocId,
    /// Number of the thread in the kernel.
    pub tid: u32,
    /// Name of the thread, at most 15 bytes.
    pub thread: String,
    /// The signal's number.
    pub signal: u16,
    /// `si_code` of sigaction(2).
    pub code: i32,
    /// The address that could not be accessed or executed; `None` if the signal has none, or it is not known.
    pub address: Option<u64>,
    /// Whether a handler of the IOC got it, which may end the IOC later or not.
    pub handled: bool,
    /// The instruction at which the thread stood; 0 if unknown.
    pub ip: u64,
    /// Its stack pointer; 0 if unknown.
    pub sp: u64,
    /// The place of that instruction, whose address is `ip` itself; 0 if unknown.
    pub site: CallSiteId,
    /// Bytes from the start of the function to `ip`; where the function is unknown, from the place where the module is
    /// loaded.
    pub offset: u64,
    /// The record that the thread had begun to process and had not completed, by its hits: it stood within that, as far as its
    /// stack pointer is known.
    pub record: Option<RecordId>,
    /// Bytes from `sp` to the first byte of the stack that could be read: not 0 if the stack had overflowed.
    pub from: u32,
    /// Bytes of the stack that were looked through.
    pub bytes: u32,
    /// Return addresses found on the stack, the innermost first. Some may be left over from calls that had returned.
    pub frames: Vec<Frame>,
    /// Records whose addresses were found on the stack.
    pub records: Vec<StackRecord>,
}

/// A record whose address was found on a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StackRecord {
    /// Bytes from the stack pointer to the place where it lies.
    pub at: u32,
    /// The record.
    pub record: RecordId,
}

/// A return address found on a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Frame {
    /// Bytes from the stack pointer to the place where it lies.
    pub at: u32,
    /// The call site with that return address.
    pub site: CallSiteId,
    /// Bytes from the start of the function to the address; where the function is unknown, from the place where the
    /// module is loaded.
    pub offset: u64,
}

impl Whole for Crash {
    const OWNED_BY: OwnedBy = OwnedBy::Ioc;

    fn key(&self) -> u32 {
        self.ioc
    }

    fn heap(&self) -> usize {
        let (frames, records) = (self.frames.as_slice(), self.records.as_slice());
        allocated(self.thread.len()) + allocated(size_of_val(frames)) + allocated(size_of_val(records))
    }

    fn owner(&self) -> u32 {
        self.ioc
    }
}
