//! IOCs, their threads and their code.

use crate::event::ids::*;
use crate::event::life::{allocated, owned_by_ioc, texts, Ended, OwnedBy, Whole};
use serde::{Deserialize, Serialize};
use std::mem::size_of;

/// A process that is an IOC or serves Channel Access.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ioc {
    /// Its number.
    pub id: IocId,
    /// Process id in the recorder's pid namespace.
    pub pid: u32,
    /// Start time of the process, nanoseconds after boot (/proc/PID/stat, field 22).
    pub start: u64,
    /// Name: the environment's IOC or IOCNAME, else the start-up script's or program's name.
    pub name: String,
    /// Path of the executable.
    pub exe: String,
    /// Working directory.
    pub cwd: String,
    /// Command line.
    pub command: Vec<String>,
    /// EPICS Base version; empty where unknown or not EPICS Base.
    pub base_version: String,
    /// TCP ports on which it serves Channel Access.
    pub ca_ports: Vec<u16>,
    /// Source of its record code.
    pub linkage: Linkage,
    /// Probes that are not in place, or the reason why there are none, for people.
    pub not_probed: Vec<String>,
    /// User that the process runs as: the name, or the number if there is no name.
    pub user: String,
    /// TCP ports on which it serves PV Access.
    pub pva_ports: Vec<u16>,
    /// Environment variables, with their current values, that describe it (IOC, TOP, ARCH, ENGINEER, LOCATION,
    /// IOCSH_STARTUP_SCRIPT) or its Channel Access and PV Access (EPICS_CA*, EPICS_PVA*): name and value.
    pub environment: Vec<(String, String)>,
}

/// In [`Ioc::not_probed`]: its records' processing is not recorded, as the operator wished. These sentences never change.
pub const NO_PROCESSING: &str = "processing: not recorded (--no-process)";
/// The same of puts inside it.
pub const NO_PUTS: &str = "puts: not recorded (--no-puts)";
/// The same of what it prints.
pub const NO_CONSOLE: &str = "console: not recorded (--no-console)";

impl Ioc {
    /// Whether the recorder was told not to record processing.
    pub fn leaves_out_processing(&self) -> bool {
        self.not_probed.iter().any(|line| line == NO_PROCESSING)
    }
}

impl Whole for Ioc {
    const OWNED_BY: OwnedBy = OwnedBy::Run;

    fn key(&self) -> u32 {
        self.id
    }

    fn ended_by(ended: Ended) -> Option<u32> {
        match ended {
            Ended::Ioc(ioc) => Some(ioc),
            _ => None,
        }
    }

    fn heap(&self) -> usize {
        let own = [&self.name, &self.exe, &self.cwd, &self.base_version, &self.user];
        let own = own.iter().map(|text| allocated(text.len())).sum::<usize>();
        let pairs =
            self.environment.iter().map(|(name, value)| allocated(name.len()) + allocated(value.len()));
        own + texts(&self.command)
            + texts(&self.not_probed)
            + allocated(self.environment.len() * size_of::<(String, String)>())
            + pairs.sum::<usize>()
            + allocated(2 * self.ca_ports.len())
            + allocated(2 * self.pva_ports.len())
    }
}

/// Source of an IOC's record code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Linkage {
    /// A shared libdbCore (3.14: libdbIoc).
    Shared,
    /// The executable itself.
    Static,
    /// None: it does not contain EPICS Base.
    Foreign,
}

/// The end of an IOC.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct IocEnd {
    /// The IOC.
    pub ioc: IocId,
    /// The manner of its end, for people; empty where not known.
    pub how: String,
}

/// A thread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Thread {
    /// Its number.
    pub id: ThreadId,
    /// Its IOC.
    pub ioc: IocId,
    /// Kernel thread id.
    pub tid: u32,
    /// Name (/proc/PID/task/TID/comm): `CAS-client`, `scan-0.1`, `cbLow` ...
    pub name: String,
    /// Stack pointer at the thread's first hit; `sp` of hits is relative to it.
    pub stack: u64,
}

impl Whole for Thread {
    owned_by_ioc!();

    fn heap(&self) -> usize {
        allocated(self.name.len())
    }
}

/// A caller of a probed function, found from the return address.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CallSite {
    /// Its number; never 0.
    pub id: CallSiteId,
    /// Its IOC.
    pub ioc: IocId,
    /// Return address.
    pub address: u64,
    /// Function that contains the address; empty where no symbol covers it.
    pub function: String,
    /// File name of the library or program.
    pub module: String,
}

impl Whole for CallSite {
    owned_by_ioc!();

    fn heap(&self) -> usize {
        allocated(self.function.len()) + allocated(self.module.len())
    }
}

/// An IOC's hits are recorded from `since` on. Between `from` and `since` is a gap: nothing was seen of the IOC.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attached {
    /// The IOC.
    pub ioc: IocId,
    /// Beginning of the gap, monotonic: the start of its process, or the last time at which its hits were recorded.
    pub from: u64,
    /// End of the gap, monotonic: from then on its probes were in place and its hits were taken.
    pub since: u64,
    /// Why there was a gap, for people; empty if the process is older than the recorder's run.
    pub cause: String,
}

impl Whole for Attached {
    const OWNED_BY: OwnedBy = OwnedBy::Run;

    fn key(&self) -> u32 {
        self.ioc
    }

    fn ended_by(ended: Ended) -> Option<u32> {
        match ended {
            Ended::Ioc(ioc) | Ended::Recording(ioc) => Some(ioc),
            _ => None,
        }
    }

    fn heap(&self) -> usize {
        allocated(self.cause.len())
    }
}

/// From `since` on an IOC's hits are no longer recorded, though it lives. Lasts until the next [`Attached`] or its end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Detached {
    /// The IOC.
    pub ioc: IocId,
    /// Monotonic time since which hits may be missing.
    pub since: u64,
    /// Why, for people; empty if the recorder was stopped.
    pub cause: String,
}
