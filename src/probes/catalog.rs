//! Which function of EPICS Base gets which BPF program, and what is lost without it.

use crate::bpf::contract;
use crate::bpf::shared::Program;
use crate::ioc::functions::Function;

/// A probe as it is planned.
#[derive(Debug)]
pub struct Spec {
    /// Where it goes.
    pub function: Function,
    /// What runs there.
    pub program: Program,
    /// Without it puts or processing are missed, so it is placed whatever it costs. The others say why something
    /// happened, and are left out where the kernel would single-step them.
    pub core: bool,
    /// It is for puts, else for processing and what asks for it.
    pub puts: bool,
}

const fn spec(function: Function, program: Program, core: bool, puts: bool) -> Spec {
    Spec { function, program, core, puts }
}

/// In place of `dbProcess` where that has no symbol.
pub static PROCESS_ROUTINE: Spec = spec(Function::RsetProcess, contract::PROCESS_ROUTINE, true, false);

/// All others.
pub static CATALOG: [Spec; 13] = [
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
];
