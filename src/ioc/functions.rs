//! The functions of EPICS Base by which an IOC is recognized and recorded, with the names that its versions give them;
//! and those of the C library through which its last words go.
//!
//! The functions that each kind of put and of processing passes through were found by experiment on Base 3.14.12 to
//! 7.0.10.

/// A function of EPICS Base.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Function {
    /// `dbProcess`: processing of a record is requested.
    DbProcess,
    /// `recGblFwdLink`: a record has finished processing.
    RecGblFwdLink,
    /// `dbPut`: every put to a field, from outside or from a link.
    DbPut,
    /// `dbPutField`: a put from outside.
    DbPutField,
    /// `dbProcessNotify`, in 3.14 `dbPutNotify`: a put with callback, which does not pass through `dbPutField`.
    DbProcessNotify,
    /// `dbCaPutLinkCallback`: a put through a CA link.
    DbCaPutLinkCallback,
    /// `callbackRequest`.
    CallbackRequest,
    /// `callbackRequestDelayed`.
    CallbackRequestDelayed,
    /// `callbackRequestProcessCallback`.
    CallbackRequestProcess,
    /// `callbackRequestProcessCallbackDelayed`.
    CallbackRequestProcessDelayed,
    /// `scanOnceCallback`, or `scanOnce` before it existed (since then a jump to it).
    ScanOnce,
    /// `scanIoRequest`.
    ScanIoRequest,
    /// `postEvent`, in 3.14 `post_event`.
    PostEvent,
    /// `ca_array_put` of libca: one of the IOC's threads puts as a client.
    CaArrayPut,
    /// `ca_array_put_callback`.
    CaArrayPutCallback,
    /// `errlogVprintf`: a message for the console and the log; `errlogPrintf` calls it.
    ErrlogVprintf,
    /// `errlogSevVprintf`: the same with a severity.
    ErrlogSevVprintf,
    /// `errPrintf`: the same with a status.
    ErrPrintf,
    /// `epicsAssert`: an assertion has failed. It suspends the thread.
    EpicsAssert,
    /// `write` of the C library.
    Write,
    /// `writev`, with which the C library writes its own messages.
    Writev,
    /// `exit`.
    Exit,
    /// `rset->process`: the function that processes the records of a type. It has no symbol of its own; its address is
    /// in each record type.
    RsetProcess,
}

/// The functions of the C library. They may be in a file that holds nothing of Base.
pub const OF_C_LIBRARY: [Function; 3] = [Function::Write, Function::Writev, Function::Exit];

/// All functions of Base that can have a symbol.
pub const NAMED: [Function; 19] = [
    Function::DbProcess,
    Function::RecGblFwdLink,
    Function::DbPut,
    Function::DbPutField,
    Function::DbProcessNotify,
    Function::DbCaPutLinkCallback,
    Function::CallbackRequest,
    Function::CallbackRequestDelayed,
    Function::CallbackRequestProcess,
    Function::CallbackRequestProcessDelayed,
    Function::ScanOnce,
    Function::ScanIoRequest,
    Function::PostEvent,
    Function::CaArrayPut,
    Function::CaArrayPutCallback,
    Function::ErrlogVprintf,
    Function::ErrlogSevVprintf,
    Function::ErrPrintf,
    Function::EpicsAssert,
];

impl Function {
    /// Names of its symbols. The first that an IOC has counts, since older Bases' names come later. None for
    /// [`Function::RsetProcess`].
    pub const fn symbols(self) -> &'static [&'static str] {
        match self {
            Function::DbProcess => &["dbProcess"],
            Function::RecGblFwdLink => &["recGblFwdLink"],
            Function::DbPut => &["dbPut"],
            Function::DbPutField => &["dbPutField"],
            Function::DbProcessNotify => &["dbProcessNotify", "dbPutNotify"],
            Function::DbCaPutLinkCallback => &["dbCaPutLinkCallback"],
            Function::CallbackRequest => &["callbackRequest"],
            Function::CallbackRequestDelayed => &["callbackRequestDelayed"],
            Function::CallbackRequestProcess => &["callbackRequestProcessCallback"],
            Function::CallbackRequestProcessDelayed => &["callbackRequestProcessCallbackDelayed"],
            Function::ScanOnce => &["scanOnceCallback", "scanOnce"],
            Function::ScanIoRequest => &["scanIoRequest"],
            Function::PostEvent => &["postEvent", "post_event"],
            Function::CaArrayPut => &["ca_array_put"],
            Function::CaArrayPutCallback => &["ca_array_put_callback"],
            Function::ErrlogVprintf => &["errlogVprintf"],
            Function::ErrlogSevVprintf => &["errlogSevVprintf"],
            Function::ErrPrintf => &["errPrintf"],
            Function::EpicsAssert => &["epicsAssert"],
            Function::Write => &["write"],
            Function::Writev => &["writev"],
            Function::Exit => &["exit"],
            Function::RsetProcess => &[],
        }
    }

    /// Whether it is the C library's.
    pub fn is_of_c_library(self) -> bool {
        OF_C_LIBRARY.contains(&self)
    }

    /// Its name in current Base, for display.
    pub const fn name(self) -> &'static str {
        match self.symbols() {
            [name, ..] => name,
            [] => "rset->process",
        }
    }
}

/// glibc's other name of its `write`. A library that comes between an IOC and glibc has a `write`, but not this one.
pub const OF_GLIBC: &str = "__write";

/// A private function of musl, with which its printf and the like write: it makes the system call itself, so that what they
/// print passes neither `write` nor `writev`.
pub const OF_MUSL: &str = "__stdio_write";

/// Names of all symbols that the functions of Base may have.
pub fn symbols() -> impl Iterator<Item = &'static str> {
    NAMED.iter().flat_map(|function| function.symbols()).copied()
}

/// Names of the symbols of the C library's functions.
pub fn symbols_of_c_library() -> impl Iterator<Item = &'static str> {
    OF_C_LIBRARY.iter().flat_map(|function| function.symbols()).copied()
}
