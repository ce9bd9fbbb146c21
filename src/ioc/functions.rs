//! The functions of EPICS Base that are probed, and the BPF program of each.
//!
//! Which of them each kind of put and of processing passes through was found out by experiment on
//! Base 3.14.12 to 7.0.10.

/// A probe.
#[derive(Debug, PartialEq, Eq)]
pub struct Function {
    /// Names of the function, the first that the IOC has counts: older Bases' names come later.
    pub symbols: &'static [&'static str],
    /// The program in bpf/ioc.bpf.c.
    pub program: &'static str,
    /// Without it puts or processing are missed; it is placed whatever it costs. The others say
    /// why something happened, and are left out where they would be single-stepped.
    pub core: bool,
}

impl Function {
    /// How many of its arguments the program reads, from the first on.
    pub fn arguments(&self) -> usize {
        match self.program {
            "db_put" | "db_put_field" | "db_ca_put_link_callback" => 4,
            "callback_request_process" | "callback_request_process_delayed" => 3,
            _ => 1,
        }
    }
}

/// In place of `dbProcess`, where that cannot be found: the function that processes the records of a type, whose
/// address each record type has.
pub static ROUTINE: Function =
    Function { symbols: &["rset->process"], program: "process_routine", core: true };

/// All of them.
pub static FUNCTIONS: [Function; 13] = [
    Function { symbols: &["dbProcess"], program: "db_process", core: true },
    Function { symbols: &["recGblFwdLink"], program: "rec_gbl_fwd_link", core: true },
    Function { symbols: &["dbPut"], program: "db_put", core: true },
    Function { symbols: &["dbPutField"], program: "db_put_field", core: true },
    // a put with callback does not pass through dbPutField
    Function { symbols: &["dbProcessNotify", "dbPutNotify"], program: "db_process_notify", core: true },
    Function { symbols: &["dbCaPutLinkCallback"], program: "db_ca_put_link_callback", core: false },
    Function { symbols: &["callbackRequest"], program: "callback_request", core: false },
    Function { symbols: &["callbackRequestDelayed"], program: "callback_request_delayed", core: false },
    Function {
        symbols: &["callbackRequestProcessCallback"],
        program: "callback_request_process",
        core: false,
    },
    Function {
        symbols: &["callbackRequestProcessCallbackDelayed"],
        program: "callback_request_process_delayed",
        core: false,
    },
    // where scanOnceCallback exists scanOnce is a jump to it
    Function { symbols: &["scanOnceCallback", "scanOnce"], program: "scan_once", core: false },
    Function { symbols: &["scanIoRequest"], program: "scan_io_request", core: false },
    Function { symbols: &["postEvent", "post_event"], program: "post_event", core: false },
];
