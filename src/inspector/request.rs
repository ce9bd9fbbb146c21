//! Requests of the recorder's loop to the inspector.

use std::collections::HashSet;
use std::sync::Arc;

use iocrec_log::event::{CallSiteId, ThreadId};

use crate::ioc::IocProcess;

/// A fact that the loop needs. One [`Finding`](super::Finding) of the same name answers each request.
#[derive(Debug)]
pub enum Request {
    /// All Channel Access servers on this machine.
    Servers {
        /// Processes known to be IOCs.
        iocs: HashSet<u32>,
        /// Whether to search even if no socket has begun or ceased to listen since the last search. Otherwise the answer
        /// is empty.
        at_once: bool,
        /// TCP ports that servers of PVAccess have named in answers to searches.
        answered: Vec<u16>,
        /// Unless it is empty, no other process that is not an IOC is looked at.
        only: Vec<u32>,
    },
    /// Those of these IOCs that are Channel Access servers; no other process is inspected.
    ServersAmong {
        /// The IOCs.
        iocs: Vec<u32>,
    },
    /// The clients of an IOC.
    Clients {
        /// The IOC.
        ioc: Arc<IocProcess>,
        /// TCP ports that it serves.
        ports: Vec<u16>,
    },
    /// The client that a thread of an IOC serves.
    ThreadClients {
        /// The IOC.
        ioc: Arc<IocProcess>,
        /// The thread's id in the log.
        thread: ThreadId,
        /// The thread's id in the kernel.
        tid: u32,
        /// Monotonic time of the thread's first hit, nanoseconds.
        time: u64,
        /// TCP ports that the IOC serves.
        ports: Vec<u16>,
    },
    /// The function that holds a return address.
    CallSite {
        /// The IOC.
        ioc: Arc<IocProcess>,
        /// The call site's id in the log.
        id: CallSiteId,
        /// The return address.
        address: u64,
    },
    /// The functions in which a thread has crashed, and those that have called them.
    Crash {
        /// The IOC, which may have ended.
        ioc: Arc<IocProcess>,
        /// Number of the crash.
        number: u32,
        /// The instruction at which the thread stood; 0 if unknown.
        ip: u64,
        /// A part of its stack.
        stack: Vec<u8>,
        /// Bytes from the stack pointer to it.
        from: u32,
    },
}

impl Request {
    /// The one process that must be read for the answer, if there is one.
    pub(super) fn ioc(&self) -> Option<&Arc<IocProcess>> {
        match self {
            Request::Servers { .. } | Request::ServersAmong { .. } => None,
            Request::Clients { ioc, .. }
            | Request::ThreadClients { ioc, .. }
            | Request::CallSite { ioc, .. }
            | Request::Crash { ioc, .. } => Some(ioc),
        }
    }
}
