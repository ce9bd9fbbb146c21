//! Findings of `iocrec check`.

use std::fmt;

use iocrec_log::event::{Host, Linkage, TierChoice};

use crate::ioc::copies::ForkedCopy;
use crate::ioc::functions::Function;
use crate::ioc::records::WalkError;
use crate::ioc::{redact, LayoutError, Refusal};
use crate::linux::chosen::NotChosen;
use crate::linux::reader::budget;
use crate::linux::{process, user};
use crate::net::capture::CaptureError;
use crate::net::captures::NamespaceError;
use crate::probes::not_probed::NotProbed;

/// All findings.
pub struct Found {
    pub host: Host,
    pub tier: TierChoice,
    /// Why packets cannot be captured.
    pub no_packets: Option<CaptureError>,
    /// Why the filter of packets does not follow connections, on the ring tier.
    pub no_filter: Option<String>,
    /// Why the filter, if it does, does not tell which processes connect.
    pub no_connects: Option<String>,
    /// What is not told of the deaths of IOCs, and why.
    pub no_deaths: Vec<String>,
    /// What is not told of what IOCs use, and why.
    pub no_resources: Option<&'static str>,
    /// IOCs and servers that would be recorded.
    pub iocs: Vec<FoundIoc>,
    /// Processes that would not be recorded.
    pub not_recorded: Vec<NotRecorded>,
}

/// A process that is an IOC or a server, or looks like one, and would not be recorded.
pub struct NotRecorded {
    pub pid: u32,
    /// Its command line, without secrets.
    pub command: String,
    pub user: String,
    pub reason: Reason,
}

/// Why a process would not be recorded.
pub enum Reason {
    /// Options leave it out.
    NotChosen(NotChosen),
    /// It does not answer, or costs too much to inspect.
    Unanswered(budget::Refused),
    /// It looks like an IOC, but is not one.
    NoIoc(String),
    /// It was forked from an IOC and runs none of its own.
    Copy(ForkedCopy),
}

impl From<&Refusal> for Reason {
    fn from(refusal: &Refusal) -> Reason {
        match refusal {
            Refusal::Copy(copy) => Reason::Copy(*copy),
            _ => Reason::NoIoc(refusal.to_string()),
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::NotChosen(why) => write!(f, "it {why}"),
            Reason::Unanswered(refused) => write!(f, "{refused}; iocrec record tries again"),
            Reason::Copy(copy) => copy.fmt(f),
            Reason::NoIoc(refusal) => f.write_str(refusal),
        }
    }
}

impl NotRecorded {
    pub fn new(pid: u32, reason: Reason) -> NotRecorded {
        let command = redact::command(&process::command(pid)).join(" ");
        NotRecorded { pid, command, user: user::user(pid), reason }
    }

    /// A process that does not answer, described only by the kernel.
    pub fn unanswered(pid: u32, why: budget::Refused) -> NotRecorded {
        let user = process::user_id(pid).map(|user| user.to_string()).unwrap_or_default();
        NotRecorded { pid, command: process::thread_name(pid, pid), user, reason: Reason::Unanswered(why) }
    }
}

/// An IOC, or another Channel Access server.
pub struct FoundIoc {
    pub pid: u32,
    pub name: String,
    /// Empty if unknown.
    pub base_version: String,
    pub linkage: Linkage,
    pub ca_ports: Vec<u16>,
    pub pva_ports: Vec<u16>,
    pub user: String,
    pub records: Result<Records, NoRecords>,
    pub probes: Vec<Probe>,
    pub not_probed: Vec<NotProbed>,
    /// Why the packets of its network namespace cannot be captured, if that is not ours.
    pub no_packets: Option<NamespaceError>,
}

/// The record database of an IOC.
pub struct Records {
    /// Number of record types.
    pub types: usize,
    /// Number of records found.
    pub records: usize,
    /// Why there may be more.
    pub unread: Option<WalkError>,
}

/// Why the records are unknown.
pub enum NoRecords {
    /// They cannot be read.
    Layout(LayoutError),
    /// It is not an IOC.
    NotBase,
}

impl fmt::Display for NoRecords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoRecords::Layout(error) => error.fmt(f),
            NoRecords::NotBase => f.write_str("not found to be EPICS Base: puts are taken from packets"),
        }
    }
}

/// A probe that would be placed.
pub enum Probe {
    /// A probe in a function.
    Function {
        function: Function,
        /// Its name in this IOC.
        symbol: &'static str,
        /// Whether it would be single-stepped.
        slow: bool,
    },
    /// Probes in the process routines of record types.
    Routines {
        /// Number of record types.
        types: usize,
        /// Number of them that would be single-stepped.
        slow: usize,
    },
}

impl fmt::Display for Probe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Probe::Function { symbol, slow: false, .. } => f.write_str(symbol),
            Probe::Function { symbol, slow: true, .. } => write!(f, "{symbol} (single-stepped: slow)"),
            Probe::Routines { types, slow: 0 } => write!(f, "process routines of {types} record types"),
            Probe::Routines { types, slow } => {
                write!(f, "process routines of {types} record types ({slow} single-stepped: slow)")
            }
        }
    }
}

impl FoundIoc {
    /// Removes the probes, since the tier has none.
    pub fn remove_probes(&mut self) {
        self.probes.clear();
        self.not_probed = vec![NotProbed::PacketTier];
    }

    /// Facts that would be recorded, for people. `packets`: whether they can be captured in our own network namespace.
    pub fn recorded(&self, packets: bool) -> String {
        let packets = packets && self.no_packets.is_none();
        let has = |is_it: fn(&Probe) -> bool| self.records.is_ok() && self.probes.iter().any(is_it);
        let puts = has(|probe| {
            use Function::{DbProcessNotify, DbPut, DbPutField};
            matches!(probe, Probe::Function { function: DbPut | DbPutField | DbProcessNotify, .. })
        });
        let routines = has(|probe| matches!(probe, Probe::Routines { .. }));
        let mut what = Vec::new();
        what.extend((puts && !routines).then_some("puts and processing inside the IOC"));
        what.extend((puts && routines).then_some("puts inside the IOC"));
        what.extend(routines.then_some("which records begin to process"));
        what.extend((packets && !self.ca_ports.is_empty()).then_some("puts by packets"));
        if what.is_empty() {
            what.push("only that it exists");
        }
        what.join(", ")
    }
}
