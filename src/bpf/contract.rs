//! The contract between the BPF programs (bpf/) and the agent: names, numbers, and the layout of every byte that both
//! touch.

/// A program of bpf/ioc.bpf.c.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Program {
    /// Its name in the object.
    pub name: &'static str,
    /// Arguments of the probed function that it reads, from the first on: a probe behind the function's first
    /// instruction must find them unchanged.
    pub arguments: usize,
}

/// Most arguments that a program reads.
pub const MAX_ARGUMENTS: usize = 4;

macro_rules! programs {
    ($($name:ident = $text:literal reads $arguments:literal;)*) => {
        $(
            #[doc = concat!("`", $text, "`.")]
            pub const $name: Program = Program { name: $text, arguments: $arguments };
            const _: () = assert!($arguments <= MAX_ARGUMENTS);
        )*
        /// All of them.
        pub const PROGRAMS: &[Program] = &[$($name),*];
    };
}

programs! {
    DB_PROCESS = "db_process" reads 1;
    PROCESS_ROUTINE = "process_routine" reads 1;
    REC_GBL_FWD_LINK = "rec_gbl_fwd_link" reads 1;
    DB_PUT = "db_put" reads 4;
    DB_PUT_FIELD = "db_put_field" reads 4;
    DB_PROCESS_NOTIFY = "db_process_notify" reads 1;
    DB_CA_PUT_LINK_CALLBACK = "db_ca_put_link_callback" reads 4;
    CALLBACK_REQUEST = "callback_request" reads 1;
    CALLBACK_REQUEST_DELAYED = "callback_request_delayed" reads 1;
    CALLBACK_REQUEST_PROCESS = "callback_request_process" reads 3;
    CALLBACK_REQUEST_PROCESS_DELAYED = "callback_request_process_delayed" reads 3;
    SCAN_ONCE = "scan_once" reads 1;
    SCAN_IO_REQUEST = "scan_io_request" reads 1;
    POST_EVENT = "post_event" reads 1;
}
