//! The functions of EPICS Base to probe, with the BPF program of each and its importance.

use crate::bpf::contract;
use crate::bpf::shared::Program;
use crate::ioc::functions::Function;

/// A planned probe.
#[derive(Debug)]
pub struct Spec {
    /// The function to probe.
    pub function: Function,
    /// The program to run there.
    pub program: Program,
    /// Whether puts or processing are missed without it, so that it is placed whatever its cost. The others only show
    /// causes, and are left out if the kernel would single-step them.
    pub core: bool,
    /// Whether it is for puts; otherwise it is for processing and requests for it.
    pub puts: bool,
}

const fn spec(function: Function, program: Program, core: bool, puts: bool) -> Spec {
    Spec { function, program, core, puts }
}

/// Replaces `dbProcess` if that has no symbol.
pub static PROCESS_ROUTINE: Spec = spec(Function::RsetProcess, contract::PROCESS_ROUTINE, true, false);

/// All others.
pub static CATALOG: [Spec; 15] = [
    spec(Function::DbProcess, contract::DB_PROCESS, true, false),
    spec(Function::RecGblFwdLink, contract::REC_GBL_FWD_LINK, true, false),
    spec(Function::DbPut, contract::DB_PUT, true, true),
    spec(Function::DbPutField, contract::DB_PUT_FIELD, true, true),
    spec(Function::DbProcessNotify, contract::DB_PROCESS_NOTIFY, true, true),
    spec(Function::DbCaPutLinkCallback, contract::DB_CA_PUT_LINK_CALLBACK, false, true),
    spec(Function::CallbackRequest, contract::CALLBACK_REQUEST, false, false),
    spec(Function::CallbackRequestDelayed, contract::CALLBACK_REQUEST_DELAYED, false, false),
    spec(Function::CallbackRequestProcess, contract::CALLBACK_REQUEST_PROCESS, false, false),
    spec(Function::CallbackRequestProcessDelayed, contract::CALLBACK_REQUEST_PROCESS_DELAYED, false, false),
    spec(Function::ScanOnce, contract::SCAN_ONCE, false, false),
    spec(Function::ScanIoRequest, contract::SCAN_IO_REQUEST, false, false),
    spec(Function::PostEvent, contract::POST_EVENT, false, false),
    spec(Function::CaArrayPut, contract::CA_ARRAY_PUT, false, true),
    spec(Function::CaArrayPutCallback, contract::CA_ARRAY_PUT, false, true),
];
