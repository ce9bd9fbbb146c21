//! Processes that were forked from an IOC and run none of their own: a worker of Python's multiprocessing, or a child of
//! system() that has yet to execute its program.
//!
//! Such a child has a copy of the IOC's memory, with its records and the number of its port, and its sockets too, but of its
//! threads only the one that forked. An IOC whose Channel Access server has been started has threads to scan records,
//! carry out callbacks and serve clients. They have names since EPICS Base 3.15. Of older IOCs, and of those without a server,
//! as before iocInit, a copy is told by its only thread, by the program, of which it has started none, and by its parent, which
//! has the same database.
//!
//! Promises: a process that has one thread of EPICS is no copy, nor is one of which that is not known.

use std::fmt;

use crate::ioc::module::addresses;
use crate::ioc::process::IocProcess;
use crate::linux::memory::Memory;
use crate::linux::process;

/// Names of threads that live as long as an IOC does (dbScan.c, callback.c, caservertask.c, taskwd.c, errlog.c), or their
/// beginnings. One is enough.
const THREADS: [&str; 8] = ["scanOnce", "scan-", "cbLow", "cbMedium", "cbHigh", "CAS-", "taskwd", "errlog"];

/// Threads that an IOC has besides the first: three for callbacks, eight for scans, three of the server, and more. A process
/// with as many is no copy, whatever they are called.
const FEWEST: usize = 12;

/// PF_FORKNOEXEC (linux/sched.h): a process was forked, and has started no program since.
const FORKED: u64 = 0x40;

/// A process that was forked from an IOC and runs none of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForkedCopy {
    /// Its parent, if it still has one.
    pub parent: Option<u32>,
}

impl fmt::Display for ForkedCopy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.parent {
            Some(parent) => write!(f, "it is a child of process {parent}, forked from an IOC")?,
            None => f.write_str("it was forked from an IOC")?,
        }
        f.write_str(", and runs none of its own: it has the IOC's memory, but none of its threads")
    }
}

/// Whether an IOC's memory is that of another process that it was forked from.
pub fn copy(ioc: &IocProcess) -> Option<ForkedCopy> {
    is_copy(ioc).then(|| ForkedCopy { parent: process::parent(ioc.pid) })
}

fn is_copy(ioc: &IocProcess) -> bool {
    let mut ports = addresses(&ioc.modules, "ca_server_port").filter_map(|at| ioc.memory.bytes(at));
    let has_served = ports.any(|port| u16::from_ne_bytes(port) != 0);
    let threads = process::threads(ioc.pid);
    if !has_served || ioc.abi.is_3_14() {
        let is_forked = || process::flags(ioc.pid).is_some_and(|flags| flags & FORKED != 0);
        return threads.len() == 1 && is_forked() && (has_served || has_its_parents_database(ioc));
    }
    // the first thread has the name of the one that forked, which may be any of these
    let others = || threads.iter().filter(|&&thread| thread != ioc.pid);
    let is_epics = |name: String| THREADS.iter().any(|epics| name.starts_with(epics));
    let mut names = others().map(|&thread| process::thread_name(ioc.pid, thread));
    !threads.is_empty() && others().count() < FEWEST && !names.any(is_epics)
}

/// Whether a process's parent has the same record database in the same place.
fn has_its_parents_database(ioc: &IocProcess) -> bool {
    let Some(parent) = process::parent(ioc.pid) else { return false };
    let of_parent = Memory::of(parent, ioc.memory.width());
    let mut variables = ioc.database.into_iter().chain(addresses(&ioc.modules, "pdbbase"));
    variables.any(|variable| {
        let base = ioc.memory.pointer(variable).filter(|&base| base != 0);
        base.is_some() && of_parent.pointer(variable) == base
    })
}
