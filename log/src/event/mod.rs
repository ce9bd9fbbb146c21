//! The events of a log: what the recorder noted, as facts.
//!
//! An [`Event`] is a time and a [`Fact`]. Facts are of two sorts. *Definitions* ([`Host`],
//! [`Ioc`], [`Thread`], [`Record`], [`Field`], [`CallSite`], [`Circuit`], [`Channel`], ...) give a
//! number to something that lasts; a later definition with the same number replaces the earlier.
//! *Hits* ([`CaPut`], [`Put`], [`Process`], ...) say that something happened, and name what it
//! happened to by these numbers. The recorder interprets nothing that a reader could interpret
//! later.
//!
//! Numbers are given by one recorder run and mean nothing outside of it. Every segment of a run
//! repeats the definitions that are in force when it begins, so that it can be read alone.
//!
//! Promises of the encoding (postcard, see docs/format.md): variants are only ever added at the end
//! of an enum, and the members of a struct never change, so logs of every version stay readable.

pub use epics::Dbf;
use serde::{Deserialize, Serialize};
use std::net::Ipv4Addr;

/// Number of an [`Ioc`].
pub type IocId = u32;
/// Number of a [`Thread`].
pub type ThreadId = u32;
/// Number of a [`Record`].
pub type RecordId = u32;
/// Number of a [`Field`].
pub type FieldId = u32;
/// Number of a [`Menu`].
pub type MenuId = u32;
/// Number of a [`ScanList`].
pub type ScanListId = u32;
/// Number of a [`CallSite`]; 0 means that the caller is not known.
pub type CallSiteId = u32;
/// Number of a [`Circuit`].
pub type CircuitId = u32;
/// Number of a [`Channel`].
pub type ChannelId = u32;

/// A fact and when it was seen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Nanoseconds of the host's CLOCK_MONOTONIC (since boot, not counting sleep). [`Clock`] facts
    /// tie it to the calendar.
    pub time: u64,
    /// What was seen.
    pub fact: Fact,
}

/// Everything that a log can say.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Fact {
    /// The machine that the recorder runs on.
    Host(Host),
    /// What the wall clock showed.
    Clock(Clock),
    /// How the recorder watches, and why not better.
    Tier(TierChoice),
    /// An IOC, or another process that serves Channel Access.
    /// (In a box, since it is twice as large as any other, and readers hold facts by the hundred thousand.)
    Ioc(Box<Ioc>),
    /// An IOC is gone.
    IocEnd(IocEnd),
    /// A thread of an IOC.
    Thread(Thread),
    /// A record of an IOC.
    Record(Record),
    /// A field of a record type in an IOC.
    Field(Field),
    /// A place in an IOC's code that calls a probed function.
    CallSite(CallSite),
    /// A Channel Access circuit: one TCP connection.
    Circuit(Circuit),
    /// A circuit was closed; its channels with it.
    CircuitEnd(CircuitId),
    /// A channel on a circuit.
    Channel(Channel),
    /// A channel was cleared.
    ChannelEnd(ChannelId),
    /// A thread of an IOC serves a circuit.
    ServerThread(ServerThread),
    /// A put seen on the network.
    CaPut(CaPut),
    /// A server's answer to a put, seen on the network.
    CaAnswer(CaAnswer),
    /// A put seen inside the IOC.
    Put(Put),
    /// `dbProcess` was entered.
    Process(Process),
    /// `recGblFwdLink` was entered: the record has finished processing.
    Complete(Complete),
    /// Something asked for processing to be done later or elsewhere.
    Cause(Cause),
    /// A record's CA link wrote to its target.
    CaLinkPut(CaLinkPut),
    /// Something was not recorded.
    Loss(Loss),
    /// The operator's note.
    Mark(String),
    /// Another name of a record.
    Alias(Alias),
    /// The choices of a menu, or of a record type's device support.
    Menu(Menu),
    /// The texts of a bi, bo, mbbi or mbbo record's states.
    EnumStrings(EnumStrings),
    /// A list of records that an IOC processes together.
    ScanList(ScanList),
    /// The list that a record is on.
    RecordScan(RecordScan),
    /// The recorder looked at a record that was not seen to complete.
    PactCheck(PactCheck),
    /// How many chains are kept from now on.
    ChainSampling(ChainSampling),
    /// Chains that were left out.
    ChainsLeftOut(ChainsLeftOut),
    /// A record type's process routine (`rset->process`) was entered, in an IOC whose `dbProcess` cannot be
    /// found. `active`: the record was active already, so it goes on with what it has begun.
    RsetProcess(Process),
    /// Segments are kept.
    Pinned(Pinned),
    /// Segments are kept no longer.
    Unpinned(Unpinned),
    /// A segment was closed with all that is in it.
    SegmentEnd(SegmentEnd),
    /// An IOC's hits are recorded from now on.
    Attached(Attached),
    /// An IOC's hits are not recorded any more, though it lives.
    Detached(Detached),
    /// Which recorded processes the ends of a circuit belong to.
    CircuitEnds(CircuitEnds),
    /// What a field held some time after a put.
    FieldValue(FieldValue),
}

impl From<Ioc> for Fact {
    fn from(ioc: Ioc) -> Self {
        Fact::Ioc(Box::new(ioc))
    }
}

/// What becomes of a fact when facts are put into order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    /// Gives a number its meaning: must come before what was pushed after it.
    Definition,
    /// Takes a number's meaning away: must come after what was pushed before it.
    End,
    /// Happened.
    Hit,
}

impl Fact {
    /// Which sort it is of.
    pub fn sort(&self) -> Sort {
        match self {
            Fact::Host(_)
            | Fact::Clock(_)
            | Fact::Tier(_)
            | Fact::Ioc(_)
            | Fact::Thread(_)
            | Fact::Record(_)
            | Fact::Field(_)
            | Fact::Alias(_)
            | Fact::Menu(_)
            | Fact::EnumStrings(_)
            | Fact::ScanList(_)
            | Fact::RecordScan(_)
            | Fact::ChainSampling(_)
            | Fact::CallSite(_)
            | Fact::Circuit(_)
            | Fact::Channel(_)
            | Fact::ServerThread(_)
            | Fact::Attached(_)
            | Fact::CircuitEnds(_) => Sort::Definition,
            Fact::IocEnd(_) | Fact::Detached(_) | Fact::CircuitEnd(_) | Fact::ChannelEnd(_) => Sort::End,
            Fact::CaPut(_)
            | Fact::CaAnswer(_)
            | Fact::Put(_)
            | Fact::Process(_)
            | Fact::RsetProcess(_)
            | Fact::Complete(_)
            | Fact::Cause(_)
            | Fact::CaLinkPut(_)
            | Fact::PactCheck(_)
            | Fact::Loss(_)
            | Fact::ChainsLeftOut(_)
            | Fact::Pinned(_)
            | Fact::Unpinned(_)
            | Fact::SegmentEnd(_)
            | Fact::FieldValue(_)
            | Fact::Mark(_) => Sort::Hit,
        }
    }
}

/// The machine and the recorder's run on it. One a run, repeated at the head of each segment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Host {
    /// Host name.
    pub name: String,
    /// Kernel release, as `uname -r`.
    pub kernel: String,
    /// Machine, as `uname -m`.
    pub arch: String,
    /// /proc/sys/kernel/random/boot_id: tells whether monotonic times can be compared.
    pub boot_id: String,
    /// Version of the recorder.
    pub recorder: String,
    /// Seconds east of UTC of the host's local time when the run began.
    pub utc_offset: i32,
}

/// A pair of clocks read together: `time` of the event and this.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Clock {
    /// Nanoseconds since 1970-01-01 UTC, by CLOCK_REALTIME.
    pub wall: i64,
}

/// How events leave the kernel (DESIGN section 6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Tier {
    /// Uprobes through one BPF ring buffer.
    Ring,
    /// Uprobes through a perf buffer a CPU.
    Perf,
    /// No uprobes: packets only.
    Packet,
}

/// The tier in use and why better ones are not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TierChoice {
    /// In use.
    pub tier: Tier,
    /// Tiers that were refused, each with its reason in words.
    pub refused: Vec<(Tier, String)>,
}

/// A process that is an IOC or serves Channel Access.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ioc {
    /// Its number.
    pub id: IocId,
    /// Process id in the recorder's pid namespace.
    pub pid: u32,
    /// Start of the process, nanoseconds after boot (/proc/PID/stat, field 22).
    pub start: u64,
    /// Name: the environment's IOC or IOCNAME, else the start-up script's or program's name.
    pub name: String,
    /// Path of the executable.
    pub exe: String,
    /// Working directory.
    pub cwd: String,
    /// Command line.
    pub command: Vec<String>,
    /// EPICS Base version; empty where unknown or not EPICS Base.
    pub base_version: String,
    /// TCP ports on which it serves Channel Access.
    pub ca_ports: Vec<u16>,
    /// Where its record code is.
    pub linkage: Linkage,
    /// Probes that are not in place, or why there are none, each in words.
    pub not_probed: Vec<String>,
    /// User that the process runs as: the name, else the number.
    pub user: String,
    /// TCP ports on which it serves PV Access.
    pub pva_ports: Vec<u16>,
    /// Those of its environment's variables, as they are now, that say what it is (IOC, TOP, ARCH,
    /// ENGINEER, LOCATION, IOCSH_STARTUP_SCRIPT) and how it serves Channel Access and PV Access
    /// (EPICS_CA*, EPICS_PVA*): name and value.
    pub environment: Vec<(String, String)>,
}

/// Where an IOC's record code comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Linkage {
    /// A shared libdbCore (3.14: libdbIoc).
    Shared,
    /// The executable itself.
    Static,
    /// No EPICS Base in it.
    Foreign,
}

/// The end of an IOC.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct IocEnd {
    /// Which.
    pub ioc: IocId,
    /// How it ended, in words; empty where not known.
    pub how: String,
}

/// A thread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Thread {
    /// Its number.
    pub id: ThreadId,
    /// Whose thread.
    pub ioc: IocId,
    /// Kernel thread id.
    pub tid: u32,
    /// Name (/proc/PID/task/TID/comm): `CAS-client`, `scan-0.1`, `cbLow` ...
    pub name: String,
    /// Stack pointer at the thread's first hit; `sp` of hits is relative to it.
    pub stack: u64,
}

/// A record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Its number.
    pub id: RecordId,
    /// Whose record.
    pub ioc: IocId,
    /// Address of its dbCommon in the IOC.
    pub address: u64,
    /// Name. Bytes that are not UTF-8 stand as `\xNN`.
    pub name: String,
    /// Record type (`ao`, `calc` ...); empty where not known.
    pub rtype: String,
}

/// A field of a record type (a dbFldDes).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Field {
    /// Its number.
    pub id: FieldId,
    /// Whose.
    pub ioc: IocId,
    /// Record type.
    pub rtype: String,
    /// Field name: `VAL`, `DRVH` ...
    pub name: String,
    /// Type of the field.
    pub dbf: Dbf,
    /// The texts of its values: the menu of a MENU field, the record type's device supports for a
    /// DEVICE field.
    pub menu: Option<MenuId>,
}

/// Another name of a record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Alias {
    /// The record.
    pub record: RecordId,
    /// The other name. A record may have several.
    pub name: String,
}

/// A menu (dbMenu), or the device supports of a record type (dbDeviceMenu).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Menu {
    /// Its number.
    pub id: MenuId,
    /// Whose.
    pub ioc: IocId,
    /// Its name (`menuScan` ...); the record type's for device supports.
    pub name: String,
    /// The text of each value, from 0 on.
    pub choices: Vec<String>,
}

/// The texts of a record's states, as they were when they were read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EnumStrings {
    /// A bi, bo, mbbi or mbbo record, or one that is like them.
    pub record: RecordId,
    /// The text of each value, from 0 on (ZNAM and ONAM, ZRST to FFST); empty ones at the end left out.
    pub states: Vec<String>,
}

/// What a [`ScanList`] waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ScanKind {
    /// A period.
    Periodic,
    /// A database event.
    Event,
    /// Device support (I/O Intr).
    IoInterrupt,
}

/// A list of records that an IOC processes one after the other (scan_list of dbScan.c): of a period, or of an
/// event or a device support's IOSCANPVT and a priority.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScanList {
    /// Its number.
    pub id: ScanListId,
    /// Whose.
    pub ioc: IocId,
    /// What it waits for.
    pub kind: ScanKind,
    /// The period as SCAN has it (`.1 second`), the event's name or number; empty for I/O Intr.
    pub name: String,
    /// Address of the CALLBACK that has it processed: [`Cause::object`] of the `callbackRequest` that asks for
    /// that. 0 for a period.
    pub callback: u64,
}

/// The list that a record is on, as it was when it was read.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecordScan {
    /// The record.
    pub record: RecordId,
    /// Its list; none any more.
    pub list: Option<ScanListId>,
}

/// A caller of a probed function, from the return address.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CallSite {
    /// Its number; never 0.
    pub id: CallSiteId,
    /// Whose code.
    pub ioc: IocId,
    /// Return address.
    pub address: u64,
    /// Function that the address lies in; empty where no symbol covers it.
    pub function: String,
    /// File name of the library or program.
    pub module: String,
}

/// A value as it lay in memory, in the field's or the request's own type.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Value {
    /// Not known.
    Unknown,
    /// An integer, enum or menu index.
    Int(i64),
    /// An unsigned 64-bit integer.
    UInt(u64),
    /// A 32-bit float.
    Float(f32),
    /// A 64-bit float.
    Double(f64),
    /// A string up to its NUL, any bytes.
    Text(Vec<u8>),
    /// An array.
    Array(Array),
}

/// The first elements of an array.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Array {
    /// Type of an element.
    pub dbf: Dbf,
    /// How many elements the array really had.
    pub count: u32,
    /// The first of them, little endian, whole elements (strings: 40 bytes each).
    pub bytes: Vec<u8>,
}

/// An IPv4 TCP address (Channel Access in EPICS Base is IPv4 only).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Address {
    /// The IP address as a number, first byte highest.
    pub ip: u32,
    /// Port.
    pub port: u16,
}

impl Address {
    /// From an address and a port.
    pub fn new(ip: Ipv4Addr, port: u16) -> Self {
        Address { ip: ip.into(), port }
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", Ipv4Addr::from(self.ip), self.port)
    }
}

/// A circuit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Circuit {
    /// Its number.
    pub id: CircuitId,
    /// The client's end.
    pub client: Address,
    /// The server's end.
    pub server: Address,
    /// The user that the client claims to be; empty where not (yet) seen.
    pub user: String,
    /// The host that the client claims to be; empty where not (yet) seen.
    pub host: String,
    /// The client's CA minor version; 0 where not seen.
    pub minor: u16,
    /// How the recorder came to know it.
    pub origin: Origin,
}

/// How a circuit or channel became known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Origin {
    /// Seen opening on the network.
    Opened,
    /// The recorder came when it was open already.
    MidStream,
    /// Read from the memory of the server or client.
    Memory,
}

/// A channel. CID and SID are per circuit and are used again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Channel {
    /// Its number.
    pub id: ChannelId,
    /// Its circuit.
    pub circuit: CircuitId,
    /// The client's id, where known.
    pub cid: Option<u32>,
    /// The server's id, once known.
    pub sid: Option<u32>,
    /// PV as the client named it; empty where never seen.
    pub pv: String,
    /// Native DBR type of the channel ([`epics::Dbr`]), where seen.
    pub dbr: Option<u16>,
    /// Native element count, where seen.
    pub count: Option<u32>,
    /// How it became known.
    pub origin: Origin,
}

/// Ties a server thread to the client that it serves.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServerThread {
    /// A CAS-client thread.
    pub thread: ThreadId,
    /// The circuit whose requests it carries out.
    pub circuit: CircuitId,
}

/// A WRITE or WRITE_NOTIFY message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CaPut {
    /// The circuit it came on.
    pub circuit: CircuitId,
    /// The channel with that SID at that time; it may have an empty name.
    pub channel: ChannelId,
    /// WRITE_NOTIFY (with callback)?
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

/// What the server said to a put.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CaAnswer {
    /// The circuit it came on.
    pub circuit: CircuitId,
    /// The put's request id.
    pub ioid: u32,
    /// Answer to a WRITE_NOTIFY; else the ERROR that a WRITE can provoke.
    pub notify: bool,
    /// ECA status code ([`epics::eca`]).
    pub status: u32,
    /// Text of an ERROR message; else empty.
    pub text: String,
}

/// Which function a put was seen in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum PutKind {
    /// `dbPut`: writes the field, no more. Every put but those to link fields gets here.
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
    /// Stack pointer, relative to [`Thread::stack`]: a lower one is a deeper frame.
    pub sp: i64,
    /// Who called.
    pub site: CallSiteId,
    /// Function.
    pub kind: PutKind,
    /// Record put to.
    pub record: RecordId,
    /// Field put to, where known.
    pub field: Option<FieldId>,
    /// Type of the request (the type of `requested`).
    pub dbf: Dbf,
    /// Element count of the request.
    pub count: u32,
    /// What was asked for.
    pub requested: Value,
    /// What the field held before.
    pub old: Value,
}

/// `dbProcess` entered, or a process routine ([`Fact::RsetProcess`]).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Process {
    /// Thread.
    pub thread: ThreadId,
    /// Stack pointer, relative to [`Thread::stack`].
    pub sp: i64,
    /// Who called.
    pub site: CallSiteId,
    /// Record.
    pub record: RecordId,
    /// The record was active (PACT) already: this call will do nothing.
    pub active: bool,
}

/// `recGblFwdLink` entered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Complete {
    /// Thread; another than that of the [`Process`] for an asynchronous record.
    pub thread: ThreadId,
    /// Stack pointer, relative to [`Thread::stack`].
    pub sp: i64,
    /// Who called.
    pub site: CallSiteId,
    /// Record.
    pub record: RecordId,
    /// Value of the record's value field now.
    pub value: Value,
    /// Alarm severity ([`epics::alarm`]).
    pub severity: u16,
    /// Alarm status ([`epics::alarm`]).
    pub status: u16,
}

/// Which function asked.
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

/// Processing asked for.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cause {
    /// Thread.
    pub thread: ThreadId,
    /// Stack pointer, relative to [`Thread::stack`].
    pub sp: i64,
    /// Who called.
    pub site: CallSiteId,
    /// Function.
    pub kind: CauseKind,
    /// The pointer that links cause to effect: a CALLBACK, scan list or event.
    pub object: u64,
    /// The record that it will process, where the arguments name one.
    pub record: Option<RecordId>,
}

/// `dbCaPutLinkCallback` entered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CaLinkPut {
    /// Thread.
    pub thread: ThreadId,
    /// Stack pointer, relative to [`Thread::stack`].
    pub sp: i64,
    /// Who called.
    pub site: CallSiteId,
    /// Record that the link belongs to, where known.
    pub record: Option<RecordId>,
    /// Target PV as the link names it.
    pub pv: String,
    /// Type of the value.
    pub dbf: Dbf,
    /// Element count.
    pub count: u32,
    /// What is sent.
    pub value: Value,
}

/// What a record was doing some time after it had begun to process and was not seen to complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PactCheck {
    /// The record.
    pub record: RecordId,
    /// PACT is set: it has yet to complete.
    pub active: bool,
    /// DISA equals DISV: it is disabled.
    pub disabled: bool,
}

/// Where something was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LossSource {
    /// Hits, between the kernel and the recorder.
    Hits,
    /// Packets, between the kernel and the recorder.
    Packets,
    /// Bytes of a circuit: a gap in what was captured, or not Channel Access.
    Stream,
    /// Something whose name could not be read from the IOC.
    Names,
    /// Events that could not be stored.
    Storage,
}

/// A loss. None is silent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Loss {
    /// Where.
    pub source: LossSource,
    /// How many (hits, packets, bytes for Stream, events).
    pub count: u64,
    /// Monotonic time before which nothing of it was lost.
    pub since: u64,
    /// In words, for people.
    pub cause: String,
}

/// How many of the chains that begin with the same record are kept. A chain is what a `dbProcess` that nothing
/// recorded has called sets off on its thread, and the completion of its asynchronous records.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChainSampling {
    /// So many; 0 if none is left out.
    pub chains: u32,
    /// In so long, nanoseconds.
    pub window: u64,
    /// Why, in words for people.
    pub cause: String,
}

/// Chains that were left out as [`ChainSampling`] says; as wholes, and not those that puts from outside began.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChainsLeftOut {
    /// The record that they began with.
    pub record: RecordId,
    /// How many.
    pub count: u64,
    /// Monotonic time at which the first of them began; the last began before the time of this event.
    pub since: u64,
}

/// From now on the segments of a span of time are kept when older ones are deleted to make room.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pinned {
    /// Begin of the span, monotonic.
    pub from: u64,
    /// Its end, mostly to come.
    pub to: u64,
    /// Why, in words, for people.
    pub cause: String,
}

/// Kept segments had more than their share of the disk, so the oldest of them are kept no longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unpinned {
    /// How many.
    pub segments: u32,
}

/// A segment of this run was closed: all that was written to it is on the disk, and nothing more will be. It says so
/// itself in its last block, if there was room; and the keyframe of the segment that follows it says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentEnd {
    /// Its number in the run.
    pub segment: u32,
    /// How many blocks it has.
    pub blocks: u32,
    /// The latest time in it, monotonic.
    pub last: u64,
}

/// An IOC's hits are recorded from `since` on. What it did between `from` and `since` was not seen: a gap.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attached {
    /// Which.
    pub ioc: IocId,
    /// Begin of the gap, monotonic: the start of its process, or the last time at which its hits were recorded.
    pub from: u64,
    /// End of the gap, monotonic: its probes were in place and its hits taken.
    pub since: u64,
    /// Why there was a gap, in words, for people; empty where the process is older than the recorder's run.
    pub cause: String,
}

/// An IOC's hits are not recorded any more from `since` on, though it lives: until the next [`Attached`], or its end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Detached {
    /// Which.
    pub ioc: IocId,
    /// Monotonic time since which hits may be missing.
    pub since: u64,
    /// Why, in words, for people.
    pub cause: String,
}

/// Which recorded processes the ends of a circuit belong to: told by the sockets that they hold, in their network
/// namespace. Addresses and ports alone don't tell that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CircuitEnds {
    /// The circuit.
    pub circuit: CircuitId,
    /// Inode number of the network namespace that it was seen in (`/proc/PID/ns/net`); 0 where not known.
    pub namespace: u64,
    /// The process that serves it, if it is recorded and known.
    pub server: Option<IocId>,
    /// The process that is its client, if that is recorded and known: an IOC's CA link or sequencer.
    pub client: Option<IocId>,
}

/// What a field held when it was read from the IOC's memory: some time after a put to it, what the put came to; without a put
/// to it in the last seconds, a link for which the record is processed when its source changes (CP), all of a record
/// with the same time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FieldValue {
    /// The record.
    pub record: RecordId,
    /// The field.
    pub field: FieldId,
    /// Its value at the time of the event; [`Value::Unknown`] where it could not be read.
    pub value: Value,
}
