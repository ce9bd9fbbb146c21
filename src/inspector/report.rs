//! Reports of the inspector to the recorder's loop.

use std::sync::Arc;

use iocrec_log::event::{Address, CallSiteId, Container, ThreadId};

use crate::ca::servers::Server;
use crate::ioc::clients::Client;
use crate::ioc::copies::ForkedCopy;
use crate::ioc::records::WalkError;
use crate::ioc::stack::{self, Place};
use crate::ioc::IocProcess;
use crate::linux::ending::Ending;
use crate::linux::reader::budget::Refused;
use crate::linux::{container, process, user};
use crate::probes::not_probed::NotProbed;
use crate::probes::probe::Hold;

/// Why an IOC has ended though its program still runs.
pub const DATABASE_GONE: &str = "its record database was taken away, or replaced by another";

/// A finding about a process.
#[derive(Debug)]
pub struct Report {
    /// Process id; 0 if the finding is about no single process.
    pub pid: u32,
    /// Start of the process as [`process::start`] gives it, since process ids are reused.
    pub start: u64,
    /// The finding.
    pub finding: Finding,
}

/// A finding.
#[derive(Debug)]
pub enum Finding {
    /// The process is an IOC, and its probes are in place.
    Ioc {
        /// The IOC.
        ioc: Arc<IocProcess>,
        /// Description of the process by /proc.
        process: ProcessInfo,
        /// Number of probes.
        placed: usize,
        /// Functions that are not probed, and why.
        not_probed: Vec<NotProbed>,
        /// Finds out how it ends, since before its probes were placed.
        ending: Ending,
    },
    /// The IOC's layout or identity has changed.
    Changed(Arc<IocProcess>),
    /// Some of the IOC's records.
    Records(Vec<FoundRecord>),
    /// No more records follow.
    AllRecords {
        /// Number of nodes that the IOC's record lists claim to have.
        claimed: u64,
        /// Number of records and aliases that were reported.
        found: u64,
        /// Why records are missing, if some are.
        outcome: Result<(), WalkError>,
    },
    /// Everything that must be reported before the IOC's hits are recorded has been reported.
    Ready,
    /// The IOC's process routines were probed.
    ProcessRoutines {
        /// Number of probes that the IOC has now.
        placed: usize,
        /// Functions that are not probed, and why.
        not_probed: Vec<NotProbed>,
    },
    /// The debugger is gone that kept functions from being probed, or the process that held up all probes; they were placed.
    NoDebugger {
        /// Number of probes that the IOC has now.
        placed: usize,
        /// Functions that are not probed, and why.
        not_probed: Vec<NotProbed>,
    },
    /// The IOC's probes were gone.
    ProbesGone {
        /// Their state now.
        hold: Hold,
        /// Monotonic time when they were last known to be in place, nanoseconds; 0 if they were not.
        until: u64,
        /// Number of probes that the IOC has now.
        placed: usize,
    },
    /// The record database is gone, though the process lives: see [`DATABASE_GONE`].
    DatabaseGone,
    /// The process was forked from an IOC and runs none of its own.
    Copy {
        /// What it is.
        copy: ForkedCopy,
        /// The program that it ran before it was looked at, as [`process::image`] gives it.
        image: Option<(u64, u64)>,
    },
    /// The process does not answer, or an inspection costs too much.
    Unanswered(Refused),
    /// The process answers again.
    AnswersAgain,
    /// Channel Access servers on this machine.
    Servers(Vec<CaServer>),
    /// Those among some IOCs.
    ServersAmong(Vec<CaServer>),
    /// Clients of the IOC.
    Clients(Vec<ServedClient>),
    /// The clients that a thread of the IOC serves: at most one, unless the IOC's tables changed while they were read.
    ThreadClients {
        /// The thread's id in the log.
        thread: ThreadId,
        /// Monotonic time of the thread's first hit, nanoseconds.
        time: u64,
        /// The clients.
        clients: Vec<ServedClient>,
    },
    /// The function at a call site.
    CallSite {
        /// The call site's id in the log.
        id: CallSiteId,
        /// Name of the function; empty if unknown.
        function: String,
        /// Name of the file that the function is in; empty if unknown.
        file: String,
    },
    /// The functions of a crash.
    Crash {
        /// Its number.
        number: u32,
        /// Where the thread stood, which may be in no file; `None` if that is not known.
        place: Option<Place>,
        /// Return addresses on its stack.
        frames: Vec<stack::Found>,
    },
}

/// A record of an IOC, or an alias of one.
#[derive(Clone, Debug)]
pub struct FoundRecord {
    /// Address of its dbCommon.
    pub address: u64,
    /// Name.
    pub name: String,
    /// Record type.
    pub rtype: String,
    /// Whether the name is an alias.
    pub alias: bool,
    /// Its enum strings, if the record type has such fields.
    pub states: Vec<String>,
    /// Address of its dbRecordNode.
    pub node: u64,
}

/// A process that serves Channel Access.
#[derive(Debug)]
pub struct CaServer {
    /// Process id and ports.
    pub server: Server,
    /// Start of the process, as in [`Report::start`].
    pub start: u64,
    /// Its description by /proc; `None` if it is an IOC that was inspected.
    pub process: Option<ProcessInfo>,
}

/// A client of an IOC.
#[derive(Debug)]
pub struct ServedClient {
    /// The address at which the IOC serves it.
    pub server: Address,
    /// The client.
    pub client: Client,
}

/// Description of a process by /proc.
#[derive(Clone, Debug)]
pub struct ProcessInfo {
    /// Command line, complete.
    pub command: Vec<String>,
    /// Path of its program.
    pub exe: String,
    /// Its working directory.
    pub cwd: String,
    /// Name of the user that it runs as.
    pub user: String,
    /// The container that it runs in, without the number of the IOC; `None` if none is known.
    pub container: Option<Container>,
}

impl ProcessInfo {
    /// Reads it from /proc. Anything that cannot be read is empty.
    pub fn of(pid: u32) -> ProcessInfo {
        ProcessInfo {
            command: process::command(pid),
            exe: process::link(pid, "exe"),
            cwd: process::link(pid, "cwd"),
            user: user::user(pid),
            container: container::container(pid),
        }
    }
}
