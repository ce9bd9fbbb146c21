//! Reasons why parts of an IOC are not probed. The sentences are made here, but for three that readers know; nothing parses
//! them.

use std::fmt::{self, Display, Formatter};

use iocrec_log::event::{NO_CONSOLE, NO_PROCESSING, NO_PUTS};
use object::Architecture;

use crate::ioc::functions::Function;
use crate::ioc::Unprobed;
use crate::linux::machine;
use crate::probes::attacher::ProbeError;
use crate::probes::place::Unfit;

/// A part of an IOC that is not probed, and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotProbed {
    /// Nothing of any process: the tier has no probes.
    PacketTier,
    /// Nothing of this process.
    Process(Unprobed),
    /// Nothing for now: another process keeps its memory locked, or may do so ([`neighbours`](crate::probes::neighbours)).
    HeldUp(String),
    /// Nothing for now: the kernel may keep instructions of its files from before they were changed
    /// ([`deferred_close`](crate::probes::deferred_close)).
    StillKept,
    /// Nothing for now: only so many files may be open.
    TooFewFiles(u64),
    /// Nothing for now: probes of IOCs that have ended still have the files that it needs ([`removal`](crate::probes::removal)).
    StillRemoving,
    /// The functions for processing, as the operator wished.
    NoProcessing,
    /// The functions for puts, as the operator wished.
    NoPuts,
    /// The functions for what the IOC prints, as the operator wished.
    NoConsole,
    /// None of its functions but the process routines of record types: its program is stripped.
    Stripped,
    /// None of its functions but the process routines of record types: its program has only local symbols of them, and may have
    /// copies of them.
    LocalSymbols,
    /// What it prints by musl's stdio.
    Musl,
    /// This function, whose symbol is local to its file.
    LocalSymbol(Function),
    /// This function, which has no symbol.
    NoSymbol(Function),
    /// The function of this name.
    Function(&'static str, Reason),
    /// The process routine (`rset->process`) of this record type.
    RecordType(String, Reason),
    /// The process routine at a place that passed inspection.
    Routine(Reason),
}

/// Reason why a function is not probed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The kernel would single-step its first instruction, and it only shows causes.
    SingleStepped,
    /// It is in this file, which is not EPICS Base.
    NotBase(String),
    /// It is not in any file of EPICS Base.
    NoFile,
    /// Its code is for this machine, not for the kernel's.
    OtherMachine(Architecture),
    /// The process has no code at its address.
    NoCode,
    /// This file has changed since its symbols were read.
    CodeChanged(String),
    /// The code in the process's memory differs from this file.
    CodeDiffers(String),
    /// The code in the process's memory can't be read.
    CodeUnread,
    /// A breakpoint is there and a debugger or tracer (ptrace) attached, so that it may be the debugger's: the kernel
    /// would take it for its own and overwrite it in the end.
    Debugger,
    /// The instructions at its beginning.
    Unfit(Unfit),
    /// Its file has no unwind tables, so the beginnings of functions are unknown.
    NoUnwindTables,
    /// No function begins at its address, according to the unwind tables.
    NoFunction,
    /// The probe could not be placed.
    Probe(ProbeError),
}

impl NotProbed {
    /// Adds it to others. Once: of a function in several libraries it may be the same.
    pub fn note(self, others: &mut Vec<NotProbed>) {
        if !others.contains(&self) {
            others.push(self);
        }
    }

    /// Whether it may be probed once the debugger is gone.
    pub fn is_for_debugger(&self) -> bool {
        matches!(self, NotProbed::Function(_, Reason::Debugger))
    }

    /// Whether it may be probed once there are more files that may be opened.
    pub fn is_for_files(&self) -> bool {
        matches!(self, NotProbed::TooFewFiles(_) | NotProbed::StillRemoving)
    }

    /// Whether it may be probed once the kernel has removed an earlier probe.
    pub fn is_for_earlier(&self) -> bool {
        let (NotProbed::Function(_, reason) | NotProbed::Routine(reason)) = self else { return false };
        matches!(reason, Reason::Probe(ProbeError::StillThere))
    }

    /// Whether it may be probed once something else than the IOC changes.
    pub fn may_pass(&self) -> bool {
        let passes = matches!(self, NotProbed::HeldUp(_) | NotProbed::StillKept);
        passes || self.is_for_debugger() || self.is_for_files() || self.is_for_earlier()
    }
}

impl Display for NotProbed {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let routine = Function::RsetProcess.name();
        match self {
            NotProbed::PacketTier => f.write_str("the packet tier has no probes"),
            NotProbed::Process(why) => why.fmt(f),
            NotProbed::HeldUp(why) => write!(
                f,
                "{why}: while a probe waited for one, no process of this machine could fork; iocrec tries again"
            ),
            NotProbed::StillKept => f.write_str(
                "its files may have been overwritten not long ago, and another recorder's probes may still be there: the kernel \
                 might carry out old code; iocrec tries again",
            ),
            NotProbed::TooFewFiles(limit) => write!(
                f,
                "only {limit} files may be open (RLIMIT_NOFILE), too few for its probes, too: allow 65536 (ulimit -n, LimitNOFILE); \
                 iocrec tries again"
            ),
            NotProbed::StillRemoving => f.write_str(
                "the probes of IOCs that have ended take the files that may be open (RLIMIT_NOFILE) until the kernel has removed \
                 them, one after the other (does an IOC start again and again?); iocrec tries again",
            ),
            NotProbed::NoProcessing => f.write_str(NO_PROCESSING),
            NotProbed::NoPuts => f.write_str(NO_PUTS),
            NotProbed::NoConsole => f.write_str(NO_CONSOLE),
            NotProbed::Stripped => write!(
                f,
                "its program has no symbols: puts are taken from packets alone, and {ROUTINES_ALONE}"
            ),
            NotProbed::LocalSymbols => write!(
                f,
                "its program has only local symbols of EPICS Base ({LOCAL}): puts are taken from packets alone, and \
                 {ROUTINES_ALONE}"
            ),
            NotProbed::Musl => f.write_str(
                "console: its C library (musl) writes what it prints past its own write() and writev(): not recorded",
            ),
            NotProbed::LocalSymbol(Function::DbProcess) => {
                write!(f, "{}: its symbol is local ({LOCAL}): {ROUTINES_ALONE}", Function::DbProcess.name())
            }
            NotProbed::LocalSymbol(function) => {
                write!(f, "{}: its symbol is local, calls may not pass there", function.name())
            }
            NotProbed::NoSymbol(Function::DbProcess) => {
                write!(f, "{}: no such symbol: {ROUTINES_ALONE}", Function::DbProcess.name())
            }
            NotProbed::NoSymbol(function) => write!(f, "{}: no such symbol", function.name()),
            NotProbed::Function(symbol, reason) => write!(f, "{symbol}: {reason}"),
            NotProbed::RecordType(rtype, reason) => write!(f, "{routine} of {rtype}: {reason}"),
            NotProbed::Routine(reason) => write!(f, "{routine}: {reason}"),
        }
    }
}

/// How functions come to have local symbols only, and the remedy.
const LOCAL: &str = "linked with LTO? then link it with -rdynamic, as Base does";

/// What is still recorded if `dbProcess` is missing.
const ROUTINES_ALONE: &str =
    "of processing, only entries into records' process routines are recorded, without causes or results";

impl Display for Reason {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Reason::SingleStepped => {
                f.write_str("left out, the kernel would single-step its first instruction")
            }
            Reason::NotBase(path) => write!(f, "it lies in {path}, which is not EPICS Base"),
            Reason::NoFile => f.write_str("its code is in no file of EPICS Base"),
            Reason::OtherMachine(machine) => {
                write!(f, "code for another machine than the kernel's ({})", machine::shown(*machine))
            }
            Reason::NoCode => f.write_str("the process has no code there"),
            Reason::CodeChanged(path) => write!(f, "{path} has been changed since its symbols were read"),
            Reason::CodeDiffers(path) => write!(f, "its code in memory is not that of {path}"),
            Reason::CodeUnread => f.write_str(
                "the memory of the process can't be read (kernel.yama.ptrace_scope=3, seccomp, a security module?)",
            ),
            Reason::Debugger => {
                f.write_str("a breakpoint is there, perhaps that of the debugger or tracer that is attached")
            }
            Reason::Unfit(unfit) => unfit.fmt(f),
            Reason::NoUnwindTables => f.write_str("its file does not say where functions begin"),
            Reason::NoFunction => f.write_str("no function begins there"),
            Reason::Probe(error) => error.fmt(f),
        }
    }
}

impl From<Unfit> for Reason {
    fn from(unfit: Unfit) -> Reason {
        Reason::Unfit(unfit)
    }
}

impl From<ProbeError> for Reason {
    fn from(error: ProbeError) -> Reason {
        Reason::Probe(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of two EPICS Bases in a process.
    #[test]
    fn what_is_so_in_two_libraries_is_told_once() {
        let mut told = Vec::new();
        for symbol in ["scanOnce", "scanOnce", "postEvent"] {
            NotProbed::Function(symbol, Reason::SingleStepped).note(&mut told);
        }
        let slow = |symbol| NotProbed::Function(symbol, Reason::SingleStepped);
        assert_eq!(told, [slow("scanOnce"), slow("postEvent")]);
    }

    /// An IOC whose `dbProcess` could not be probed at first would have no processing in the log for ever.
    #[test]
    fn what_the_kernel_still_removes_is_tried_again() {
        let because = |error: ProbeError| NotProbed::Function("dbProcess", error.into());
        assert!(because(ProbeError::StillThere).may_pass());
        assert!(!because(ProbeError::StillHeld).may_pass(), "other IOCs may hold it as long as they run");
        assert!(NotProbed::Routine(ProbeError::StillThere.into()).is_for_earlier(), "of a stripped one");
    }

    /// Docs and users' scripts quote these.
    #[test]
    fn sentences() {
        for (why, sentence) in [
            (NotProbed::NoSymbol(Function::ScanOnce), "scanOnceCallback: no such symbol"),
            (
                NotProbed::NoSymbol(Function::DbProcess),
                "dbProcess: no such symbol: of processing, only entries into records' process routines are recorded, \
                 without causes or results",
            ),
            (
                NotProbed::Musl,
                "console: its C library (musl) writes what it prints past its own write() and writev(): not recorded",
            ),
            // what is forbidden is not called changed
            (
                NotProbed::Function("dbPut", Reason::CodeUnread),
                "dbPut: the memory of the process can't be read (kernel.yama.ptrace_scope=3, seccomp, a security module?)",
            ),
            (NotProbed::LocalSymbol(Function::DbPut), "dbPut: its symbol is local, calls may not pass there"),
            (
                NotProbed::Stripped,
                "its program has no symbols: puts are taken from packets alone, and of processing, only entries into \
                 records' process routines are recorded, without causes or results",
            ),
            (
                NotProbed::Function("post_event", Reason::SingleStepped),
                "post_event: left out, the kernel would single-step its first instruction",
            ),
            (
                NotProbed::Function("dbPut", Unfit::Thumb.into()),
                "dbPut: Thumb code, which kernels damage when they put a probe into it",
            ),
            (
                NotProbed::RecordType("ao".into(), Reason::NotBase("libc.so.6".into())),
                "rset->process of ao: it lies in libc.so.6, which is not EPICS Base",
            ),
            (NotProbed::Routine(ProbeError::Ended.into()), "rset->process: its process has ended"),
            (
                NotProbed::HeldUp("process 7 (ls) of user 0 keeps its memory locked".into()),
                "process 7 (ls) of user 0 keeps its memory locked: while a probe waited for one, no process of this machine \
                 could fork; iocrec tries again",
            ),
        ] {
            assert_eq!(why.to_string(), sentence);
        }
    }
}
