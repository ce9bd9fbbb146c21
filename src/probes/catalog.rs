//! The functions of EPICS Base and of the C library to probe, with the BPF program of each and its importance.

use crate::bpf::contract;
use crate::bpf::shared::Program;
use crate::ioc::functions::Function;

/// What a probe is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Puts.
    Puts,
    /// Processing and requests for it.
    Processing,
    /// What the IOC prints.
    Console,
    /// What it dies of.
    End,
}

/// The purposes for which probes are wanted.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// Puts.
    pub puts: bool,
    /// Processing and requests for it.
    pub process: bool,
    /// What the IOC prints.
    pub console: bool,
}

impl Wanted {
    /// Whether probes of this purpose are wanted.
    pub fn has(self, purpose: Purpose) -> bool {
        match purpose {
            Purpose::Puts => self.puts,
            Purpose::Processing => self.process,
            Purpose::Console => self.console,
            Purpose::End => true,
        }
    }
}

/// A planned probe.
#[derive(Debug)]
pub struct Spec {
    /// The function to probe.
    pub function: Function,
    /// The program to run there.
    pub program: Program,
    /// Whether puts or processing are missed without it, or it is hit once in a life, so that it is placed whatever its
    /// cost. The others are left out if the kernel would single-step them.
    pub core: bool,
    /// What it is for.
    pub purpose: Purpose,
}

const fn spec(function: Function, program: Program, core: bool, purpose: Purpose) -> Spec {
    Spec { function, program, core, purpose }
}

/// Replaces `dbProcess` if that has no symbol.
pub static PROCESS_ROUTINE: Spec =
    spec(Function::RsetProcess, contract::PROCESS_ROUTINE, true, Purpose::Processing);

/// All others.
pub static CATALOG: [Spec; 22] = [
    spec(Function::DbProcess, contract::DB_PROCESS, true, Purpose::Processing),
    spec(Function::RecGblFwdLink, contract::REC_GBL_FWD_LINK, true, Purpose::Processing),
    spec(Function::DbPut, contract::DB_PUT, true, Purpose::Puts),
    spec(Function::DbPutField, contract::DB_PUT_FIELD, true, Purpose::Puts),
    spec(Function::DbProcessNotify, contract::DB_PROCESS_NOTIFY, true, Purpose::Puts),
    spec(Function::DbCaPutLinkCallback, contract::DB_CA_PUT_LINK_CALLBACK, false, Purpose::Puts),
    spec(Function::CallbackRequest, contract::CALLBACK_REQUEST, false, Purpose::Processing),
    spec(Function::CallbackRequestDelayed, contract::CALLBACK_REQUEST_DELAYED, false, Purpose::Processing),
    spec(Function::CallbackRequestProcess, contract::CALLBACK_REQUEST_PROCESS, false, Purpose::Processing),
    spec(
        Function::CallbackRequestProcessDelayed,
        contract::CALLBACK_REQUEST_PROCESS_DELAYED,
        false,
        Purpose::Processing,
    ),
    spec(Function::ScanOnce, contract::SCAN_ONCE, false, Purpose::Processing),
    spec(Function::ScanIoRequest, contract::SCAN_IO_REQUEST, false, Purpose::Processing),
    spec(Function::PostEvent, contract::POST_EVENT, false, Purpose::Processing),
    spec(Function::CaArrayPut, contract::CA_ARRAY_PUT, false, Purpose::Puts),
    spec(Function::CaArrayPutCallback, contract::CA_ARRAY_PUT, false, Purpose::Puts),
    spec(Function::Write, contract::LIBC_WRITE, false, Purpose::Console),
    spec(Function::Writev, contract::LIBC_WRITEV, false, Purpose::Console),
    spec(Function::ErrlogVprintf, contract::ERRLOG_VPRINTF, false, Purpose::Console),
    spec(Function::ErrlogSevVprintf, contract::ERRLOG_SEV_VPRINTF, false, Purpose::Console),
    spec(Function::ErrPrintf, contract::ERR_PRINTF, false, Purpose::Console),
    spec(Function::Exit, contract::LIBC_EXIT, true, Purpose::End),
    spec(Function::EpicsAssert, contract::EPICS_ASSERT, true, Purpose::End),
];
