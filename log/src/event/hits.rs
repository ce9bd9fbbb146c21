//! Hits: something happened on the network or in an IOC.

use super::ids::*;
use super::value::{Dbf, Value};
use serde::{Deserialize, Serialize};

/// A WRITE or WRITE_NOTIFY message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CaPut {
    /// The circuit that it came on.
    pub circuit: CircuitId,
    /// The channel that had this SID at that time; its name may be empty.
    pub channel: ChannelId,
    /// Whether it was a WRITE_NOTIFY (with callback).
    pub notify: bool,
    /// DBR type of the request, by the protocol's number ([`epics::Dbr`]).
    pub dbr: u16,
    /// Element count of the request.
    pub count: u32,
    /// The client's request id.
    pub ioid: u32,
    /// Payload length on the wire, padding included.
    pub length: u32,
    /// The first bytes of the payload, big endian as on the wire.
    pub payload: Vec<u8>,
}

/// The server's answer to a put.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CaAnswer {
    /// The circuit that it came on.
    pub circuit: CircuitId,
    /// The put's request id.
    pub ioid: u32,
    /// Whether it answers a WRITE_NOTIFY; if not, it is the ERROR that a WRITE can provoke.
    pub notify: bool,
    /// ECA status code ([`epics::eca`]).
    pub status: u32,
    /// Text of an ERROR message; empty for other answers.
    pub text: String,
}

/// The function in which a put was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum PutKind {
    /// `dbPut`: only writes the field. Every put gets here, except puts to link fields.
    Put,
    /// `dbPutField`: a put from outside (CA WRITE, `dbpf`), which processes the record if due.
    PutField,
    /// `dbProcessNotify` (3.14: `dbPutNotify`): a put with callback. Carries no value itself.
    Notify,
}

/// A put inside the IOC.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Put {
    /// Thread.
    pub thread: ThreadId,
    /// Stack pointer, relative to [`Thread::stack`](super::Thread::stack). The lower, the deeper the frame.
    pub sp: i64,
    /// The caller.
    pub site: CallSiteId,
    /// The function.
    pub kind: PutKind,
    /// Target record.
    pub record: RecordId,
    /// Target field, where known.
    pub field: Option<FieldId>,
    /// Type of the request (the type of `requested`).
    pub dbf: Dbf,
    /// Element count of the request.
    pub count: u32,
    /// The requested value.
    pub requested: Value,
    /// The field's value before.
    pub old: Value,
}

/// `dbProcess` entered, or a process routine ([`Fact::RsetProcess`](super::Fact::RsetProcess)).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Process {
    /// Thread.
    pub thread: ThreadId,
    /// Stack pointer, relative to [`Thread::stack`](super::Thread::stack).
    pub sp: i64,
    /// The caller.
    pub site: CallSiteId,
    /// Record.
    pub record: RecordId,
    /// Whether the record was already active (PACT set); if so, this call does nothing.
    pub active: bool,
}

/// `recGblFwdLink` entered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Complete {
    /// Thread; for an asynchronous record, not the thread of its [`Process`].
    pub thread: ThreadId,
    /// Stack pointer, relative to [`Thread::stack`](super::Thread::stack).
    pub sp: i64,
    /// The caller.
    pub site: CallSiteId,
    /// Record.
    pub record: RecordId,
    /// Current value of the record's value field.
    pub value: Value,
    /// Alarm severity ([`epics::alarm`]).
    pub severity: u16,
    /// Alarm status ([`epics::alarm`]).
    pub status: u16,
}

/// The function that asked for processing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum CauseKind {
    /// `callbackRequest`.
    CallbackRequest,
    /// `callbackRequestDelayed`.
    CallbackRequestDelayed,
    /// `callbackRequestProcessCallback`.
    CallbackRequestProcess,
    /// `callbackRequestProcessCallbackDelayed`.
    CallbackRequestProcessDelayed,
    /// `scanOnce` or `scanOnceCallback`.
    ScanOnce,
    /// `scanIoRequest`.
    ScanIoRequest,
    /// `postEvent` (3.14: `post_event`).
    PostEvent,
}

/// A request for processing.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cause {
    /// Thread.
    pub thread: ThreadId,
    /// Stack pointer, relative to [`Thread::stack`](super::Thread::stack).
    pub sp: i64,
    /// The caller.
    pub site: CallSiteId,
    /// The function.
    pub kind: CauseKind,
    /// The pointer that links cause and effect: to a CALLBACK, scan list or event.
    pub object: u64,
    /// The record to be processed, where the arguments name one.
    pub record: Option<RecordId>,
}

/// `dbCaPutLinkCallback` entered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CaLinkPut {
    /// Thread.
    pub thread: ThreadId,
    /// Stack pointer, relative to [`Thread::stack`](super::Thread::stack).
    pub sp: i64,
    /// The caller.
    pub site: CallSiteId,
    /// The link's record, where known.
    pub record: Option<RecordId>,
    /// Target PV as the link names it.
    pub pv: String,
    /// Type of the value.
    pub dbf: Dbf,
    /// Element count.
    pub count: u32,
    /// The value sent.
    pub value: Value,
}

/// The state of a record some time after it began to process, if it was not seen to complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PactCheck {
    /// The record.
    pub record: RecordId,
    /// Whether PACT is set: the record has not completed yet.
    pub active: bool,
    /// Whether DISA equals DISV: the record is disabled.
    pub disabled: bool,
}

/// A field's value, read from the IOC's memory some time after a put to the field: the outcome of the put. If there was
/// no put to the field in the last seconds, the field is a link that processes the record when its source changes (CP).
/// All such links of a record have the same time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FieldValue {
    /// The record.
    pub record: RecordId,
    /// The field.
    pub field: FieldId,
    /// Its value at the time of the event; [`Value::Unknown`] if it could not be read.
    pub value: Value,
}
