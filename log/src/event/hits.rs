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

/// `ca_array_put` or `ca_array_put_callback` entered in a recorded IOC: one of its threads puts as a client. That thread is
/// the one of the CA links, or a program's: a sequencer's, or Python's. The message may be sent later, when the thread
/// flushes its requests. The first recorders wrote none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CaClientPut {
    /// Thread.
    pub thread: ThreadId,
    /// Stack pointer, relative to [`Thread::stack`](super::Thread::stack).
    pub sp: i64,
    /// The caller.
    pub site: CallSiteId,
    /// Address of the channel (chid), the same for each put to it while it exists.
    pub channel: u64,
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
/// no put to the field in the last seconds, the field is an input link of the record, its device support (DTYP), or the
/// most elements of its array (NELM). Where SDIS and TSEL are among those of one time, these are all of the record's
/// input links at that time but those that are constants; else, they are those that process the record when their
/// source changes (CP).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FieldValue {
    /// The record.
    pub record: RecordId,
    /// The field.
    pub field: FieldId,
    /// Its value at the time of the event; [`Value::Unknown`] if it could not be read.
    pub value: Value,
}

/// A record's value and alarm, read from the IOC's memory without waiting for the record to process. The recorder reads
/// all records when it attaches and at the start of each segment, as far as there is room ([`SnapshotEnd`]). All members
/// were true together at the time of the event: a record that was just changing is read again, or left out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// The record.
    pub record: RecordId,
    /// Value of its value field; [`Value::Unknown`] if it has none, or none that a log can hold.
    pub value: Value,
    /// Alarm severity ([`epics::alarm`]).
    pub severity: u16,
    /// Alarm status ([`epics::alarm`]).
    pub status: u16,
    /// The record's TIME, in nanoseconds since 1970 UTC. `None` if it is zero: the record has never processed.
    pub stamp: Option<i64>,
}

/// A lower and an upper limit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// The lower limit.
    pub low: f64,
    /// The upper limit.
    pub high: f64,
}

/// An alarm limit that is in force.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct AlarmLimit {
    /// The limit.
    pub limit: f64,
    /// Alarm severity beyond it ([`epics::alarm`]); never that of no alarm.
    pub severity: u16,
}

/// Properties of a record that do not change with its value, read with its [`Snapshot`]. Written only if one of them is
/// set; a later one replaces it. Limits that an `f64` cannot hold exactly are left out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Properties {
    /// The record.
    pub record: RecordId,
    /// DESC.
    pub description: String,
    /// EGU; empty if the record has no such field.
    pub units: String,
    /// PREC, if the record has it.
    pub precision: Option<i32>,
    /// LOPR and HOPR; `None` if the record does not have them, or both are 0.
    pub display: Option<Limits>,
    /// DRVL and DRVH; `None` if the record does not have them, or both are 0.
    pub control: Option<Limits>,
    /// LOLO with LLSV; like the other three `None` if the record does not have it, or without a severity.
    pub lolo: Option<AlarmLimit>,
    /// LOW with LSV.
    pub low: Option<AlarmLimit>,
    /// HIGH with HSV.
    pub high: Option<AlarmLimit>,
    /// HIHI with HHSV.
    pub hihi: Option<AlarmLimit>,
}

/// The recorder has gone through an IOC's records, reading a [`Snapshot`] of each for which there was room. If all of
/// `taken` are in the log, and the other numbers are 0, then the values of all recorded records were known at this time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotEnd {
    /// The IOC.
    pub ioc: IocId,
    /// Monotonic time at which it began.
    pub since: u64,
    /// Number of [`Snapshot`] facts of this IOC since then.
    pub taken: u32,
    /// Number of records that were left out because they changed whenever they were read, or could not be read.
    pub unread: u32,
    /// Number of records that were left out because snapshots may take only a small part of the log. The next snapshot
    /// begins with them.
    pub left: u32,
    /// Number of records whose [`Properties`] were not looked at, for the same reason.
    pub properties_left: u32,
}

/// What a PVAccess request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum PvaKind {
    /// PUT: to write the changed fields.
    Put,
    /// PUT_GET: the same, and to send the result.
    PutGet,
    /// PROCESS: to process the record.
    Process,
    /// RPC: to call a procedure.
    Rpc,
    /// The value before a put, which most clients ask for first. Only in a [`PvaAnswer`].
    Get,
}

/// A value on its way through PVAccess, as it was sent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PvaValue {
    /// Its type ([`PvaType`](super::PvaType)), then those of the anys in it, in their order. 0 where it is not known; none
    /// if no value was sent.
    pub types: Vec<PvaTypeId>,
    /// Whether its numbers have their highest byte first.
    pub big_endian: bool,
    /// Its length.
    pub length: u32,
    /// Its first bytes: in puts, and in the values before them, first the set of changed fields.
    pub bytes: Vec<u8>,
}

/// A PVAccess client asks to write, to process or to call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PvaPut {
    /// The circuit that it came on.
    pub circuit: CircuitId,
    /// The channel that had this server's id at that time; its name may be empty.
    pub channel: ChannelId,
    /// The client's request id.
    pub ioid: u32,
    /// What it asks for.
    pub kind: PvaKind,
    /// The options that the client gave when it prepared the request (the pvRequest).
    pub options: PvaValue,
    /// The value to write, or the argument of the call.
    pub value: PvaValue,
}

/// The answer to a PVAccess request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PvaAnswer {
    /// The circuit that it came on.
    pub circuit: CircuitId,
    /// The client's request id.
    pub ioid: u32,
    /// What was asked for.
    pub kind: PvaKind,
    /// 0 OK, 1 warning (which is a success), 2 error, 3 fatal error; 4: the client gave up waiting (CANCEL_REQUEST or
    /// DESTROY_REQUEST), so that no answer will come.
    pub status: u16,
    /// The server's message.
    pub text: String,
    /// The value before, or the result of the call.
    pub value: PvaValue,
}

/// A PVAccess client starts or stops a monitor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PvaMonitor {
    /// The circuit that it came on.
    pub circuit: CircuitId,
    /// The channel.
    pub channel: ChannelId,
    /// The client's request id.
    pub ioid: u32,
    /// Whether it starts.
    pub starts: bool,
}
