//! Chains of processing: trees of spans.
//!
//! A [`Chain`] holds everything that one cause set off: a put from outside, a scan, an event. Its spans are in the
//! order in which they began to exist; parents come before their children, and the root is first. A CA link leads on to
//! the chain of the put that it made, in the same IOC or in another.

use super::pva_value::Sent;
use super::run::Run;
use super::spans::Spans;
use super::value;
use iocrec_log::event::{
    CallSiteId, CauseKind, ChannelId, CircuitId, Dbf, FieldId, PutKind, PvaKind, RecordId, ScanListId,
    ThreadId, Value,
};
use std::ops::Deref;
use std::rc::Rc;

/// Everything that one cause set off.
pub struct Chain {
    /// The run that recorded it.
    pub run: Rc<Run>,
    /// The spans, root first. Never empty.
    pub spans: Spans,
    /// Whether it was given out before its end was seen: an asynchronous record took too long, or the log ends.
    pub open: bool,
    /// Rises in the order in which the run saw chains begin. It decides the order of equal times, which messages that
    /// arrived together have.
    pub serial: u64,
}

impl Chain {
    /// The cause of the chain.
    pub fn root(&self) -> Option<&Span> {
        self.spans.first()
    }

    /// For each span, the numbers of its children in order of time.
    pub fn children(&self) -> Vec<Vec<usize>> {
        let mut children = vec![Vec::new(); self.spans.len()];
        for (number, span) in self.spans.iter().enumerate() {
            if let Some(of) = span.parent.and_then(|parent| children.get_mut(parent)) {
                of.push(number);
            }
        }
        for of in &mut children {
            of.sort_by_key(|&child| self.spans.get(child).map(|span| span.start));
        }
        children
    }
}

/// A put, a record's processing, or a put through a CA link.
pub struct Span {
    /// Number of the parent in the chain; `None` for the root.
    pub parent: Option<usize>,
    /// The thread that it began in; `None` for a put seen only on the network.
    pub thread: Option<ThreadId>,
    /// Monotonic time of its start.
    pub start: u64,
    /// Monotonic time of its end; `start` if unknown.
    pub end: u64,
    /// Its kind, with the details.
    pub kind: SpanKind,
}

impl Span {
    /// The message that requested it, if it is a put seen on the network.
    pub fn packet(&self) -> Option<&Packet> {
        match &self.kind {
            SpanKind::Put(put) => put.packet.as_deref(),
            _ => None,
        }
    }

    /// Its size in memory, in spans: a span that holds an array counts as several.
    pub fn weight(&self) -> usize {
        let values = match &self.kind {
            SpanKind::Put(put) => {
                let after = put.after.as_ref().map_or(0, |after| value::heap(&after.value));
                size_of::<PutSpan>() + value::heap(&put.requested) + value::heap(&put.old) + after
            }
            SpanKind::Process(ProcessSpan { outcome: Outcome::Completed(completed), .. }) => {
                value::heap(&completed.value)
            }
            SpanKind::Process(_) => 0,
            SpanKind::Link(link) => size_of::<LinkSpan>() + value::heap(&link.value) + link.pv.len(),
        };
        1 + values / size_of::<Span>()
    }
}

/// Kinds of spans.
pub enum SpanKind {
    /// A put to a record's field. Boxed, as the last: most spans are of records that process.
    Put(Box<PutSpan>),
    /// The processing of a record.
    Process(ProcessSpan),
    /// A put through a CA link.
    Link(Box<LinkSpan>),
}

/// A put.
pub struct PutSpan {
    /// The outermost function that it was seen in; `None` if seen only on the network.
    pub kind: Option<PutKind>,
    /// Caller of that function.
    pub site: CallSiteId,
    /// Record; `None` if seen only on the network.
    pub record: Option<RecordId>,
    /// Field, if known.
    pub field: Option<FieldId>,
    /// Type of the request.
    pub dbf: Dbf,
    /// Element count of the request.
    pub count: u32,
    /// The requested value.
    pub requested: Value,
    /// The value of the field before.
    pub old: Value,
    /// The value that the field was seen to hold afterwards, apart from the value at the end of the record's
    /// processing.
    pub after: Option<Box<After>>,
    /// Whether `dbPut` was reached, which writes the field unless it refuses.
    pub wrote: bool,
    /// Monotonic time of that. The record is locked then, so its puts were carried out in this order.
    pub written: Option<u64>,
    /// Not a put: `dbProcessNotify` was asked to process the record and to write nothing (a record with `Async Soft
    /// Channel` reads this way).
    pub only_processes: bool,
    /// Requests of several clients by PVAccess fit it, and one of them made it: it is unknown which. Each has a put of its
    /// own, so this one is none of the put log's.
    pub is_one_of_several: bool,
    /// The message that requested it.
    pub packet: Option<Box<Packet>>,
}

impl PutSpan {
    /// Whether type and count of the request are known: `dbProcessNotify` tells neither, the message and `dbPut` do.
    pub fn has_type(&self) -> bool {
        self.kind != Some(PutKind::Notify) || self.wrote || self.packet.is_some()
    }

    /// Monotonic time from which its value counts: when it was written, or else when its message came; the latest there is
    /// if neither was seen.
    pub fn time(&self) -> u64 {
        self.written.or(self.packet.as_ref().map(|packet| packet.time)).unwrap_or(u64::MAX)
    }
}

/// The value of a field some time after a put to it: read from the IOC's memory, or found by the next put.
#[derive(Clone, Debug, PartialEq)]
pub struct After {
    /// The value; never unknown.
    pub value: Value,
    /// Whether nothing recorded between the put and this reading may have changed the field: no other put to it, and no
    /// processing of its record except what the put itself set off.
    pub alone: bool,
    /// Monotonic time at which the next put wrote to the field, if it was that one which found the value. What the
    /// record shows from then on is not the result of this put.
    pub overwritten: Option<u64>,
}

/// A WRITE or WRITE_NOTIFY.
pub struct Packet {
    /// Monotonic time.
    pub time: u64,
    /// Circuit that it arrived on.
    pub circuit: CircuitId,
    /// Its channel.
    pub channel: ChannelId,
    /// Whether it is a put with callback.
    pub notify: bool,
    /// DBR type, as the protocol numbers it.
    pub dbr: u16,
    /// How many requests of its circuit came before it at the same time: one packet may hold several.
    pub nth: u16,
    /// Whether it holds a text without its end: a server reads on, into what an earlier message has left in its memory.
    pub is_endless: bool,
    /// Whether it holds only the begin of a text: the rest was not captured.
    pub is_part: bool,
    /// The server's answer.
    pub answer: Option<Answer>,
    /// Whether several requests waited with one number of the client's: which of the answers is this one's is not known.
    pub is_doubtful: bool,
    /// What PVAccess adds; `None` if it came over Channel Access.
    pub pva: Option<Box<PvaRequest>>,
}

/// What PVAccess adds to a put.
pub struct PvaRequest {
    /// What was asked for.
    pub kind: PvaKind,
    /// The value sent.
    pub sent: Sent,
    /// The values that it may be, if its type is not known.
    pub possible: Vec<Value>,
    /// The value's bytes, as far as they are kept, if its type is unknown.
    pub unread: Box<[u8]>,
    /// Whether its client broke off before its value had come: no server puts that.
    pub is_broken_off: bool,
    /// The client's options: `process`, `block`.
    pub options: Vec<(String, String)>,
    /// The value before, if the client asked for it.
    pub before: Option<Sent>,
    /// The server's status: 0 and 1 are successes, 4 means that the client did not wait. `None` if not answered.
    pub status: Option<u16>,
    /// The server's message.
    pub text: String,
    /// The value afterwards, or the result of a call, if asked for.
    pub result: Option<Sent>,
    /// Whether its channel has the name of a record: otherwise it is to a group, or to a server without records.
    pub names_record: bool,
    /// Whether it is to a group: its members' puts are parts of it.
    pub is_group: bool,
}

/// A server's answer to a put.
pub struct Answer {
    /// Monotonic time.
    pub time: u64,
    /// ECA code.
    pub status: u32,
}

/// The processing of a record.
pub struct ProcessSpan {
    /// Record.
    pub record: RecordId,
    /// The reason why it processed.
    pub trigger: Trigger,
    /// The outcome.
    pub outcome: Outcome,
    /// Steps between start and end of an asynchronous record.
    pub phases: Phases,
    /// The scan list that it was processed for, if known.
    pub list: Option<ScanListId>,
    /// The origin of that request; of a CP link that found the record active, since when it had been.
    pub asked: Option<Box<Asked>>,
    /// Whether it was processed for a CP link, in the thread of the CA links or at its request.
    pub for_link: bool,
    /// Whether the recorder looked later and found it neither active nor disabled, though it was not seen to complete.
    pub is_over: bool,
}

/// Origin of a request for an event or for I/O Intr.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// Monotonic time.
    pub time: u64,
    /// Thread that made it.
    pub thread: ThreadId,
    /// Caller of `postEvent` or `scanIoRequest`; 0 if unknown.
    pub site: CallSiteId,
}

/// Outcome of a record's processing.
pub enum Outcome {
    /// Its end was not seen. It may have none: a motor record that moves its motor returns without a forward link.
    Open,
    /// The record was already active: nothing was done.
    Active,
    /// It did not complete, and yet was not active when it next had to process: the record was disabled (or had nothing
    /// to pass on, like a compress record that is still collecting).
    Skipped,
    /// The record was disabled (DISA equalled DISV): nothing was done.
    Disabled,
    /// It was still active (PACT) when the recorder looked, and was not seen to complete.
    Waiting,
    /// Done.
    Completed(Completed),
    /// Only the entry of `rset->process` was recorded: the IOC lacks the symbols that would show its caller and its
    /// return.
    Entered {
        /// Whether the record was already active and continued the processing that it had begun.
        again: bool,
    },
}

/// The end of a record's processing.
pub struct Completed {
    /// The value field at that time.
    pub value: Value,
    /// Alarm severity (0 to 3).
    pub severity: u16,
    /// Alarm status.
    pub status: u16,
}

/// The steps between start and end of an asynchronous record. Few records have any, so none cost a pointer.
#[derive(Debug, Default)]
#[allow(clippy::box_collection)] // three words fewer in every span
pub struct Phases(Option<Box<Vec<Phase>>>);

impl Phases {
    /// Adds the next step.
    pub fn push(&mut self, phase: Phase) {
        self.0.get_or_insert_default().push(phase);
    }
}

impl<'a> IntoIterator for &'a Phases {
    type Item = &'a Phase;
    type IntoIter = std::slice::Iter<'a, Phase>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl Deref for Phases {
    type Target = [Phase];

    fn deref(&self) -> &[Phase] {
        self.0.as_ref().map_or(&[], |phases| phases)
    }
}

/// A step in the processing of an asynchronous record.
#[derive(Debug)]
pub struct Phase {
    /// Monotonic time.
    pub time: u64,
    /// Thread.
    pub thread: ThreadId,
    /// The request; `None`: the record continued in another thread and completed.
    pub asked: Option<CauseKind>,
}

/// A put through a CA link.
pub struct LinkSpan {
    /// The record that the link belongs to, if known.
    pub record: Option<RecordId>,
    /// Target as named in the link. Shared: a record that feeds itself writes to it 100,000 times a second.
    pub pv: Rc<str>,
    /// The value sent.
    pub value: Value,
    /// Whether its effect has been looked for.
    pub resolved: bool,
    /// The chain that it set off.
    pub target: Option<Box<Chain>>,
}

/// The reason why a record processed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// A put to it from outside.
    Put,
    /// Another record's OUT link.
    Out,
    /// Another record's INP link.
    Input,
    /// A link of a fanout record, or one by which a sequence record writes.
    Fanout,
    /// Another record's forward link.
    Forward,
    /// Its SCAN period.
    Scan,
    /// An event.
    Event,
    /// I/O Intr.
    IoInterrupt,
    /// I/O Intr requested by the Python code that hosts the IOC: the `set()` of softioc's input records.
    Python,
    /// A callback.
    Callback,
    /// `scanOnce`: a CP link, or a put while the record was active.
    Once,
    /// A CP or CPP link, in the thread of the CA links.
    CpLink,
    /// PINI.
    Pini,
    /// `dbtr` in the IOC shell.
    Shell,
    /// Only the end was seen.
    Completion,
    /// Another record, by an unknown link.
    Link,
    /// Unknown.
    Unknown,
}

impl Trigger {
    /// Its name; part of the output formats.
    pub fn name(self) -> &'static str {
        match self {
            Trigger::Put => "put",
            Trigger::Out => "OUT",
            Trigger::Input => "INP",
            Trigger::Fanout => "LNKn",
            Trigger::Forward => "FLNK",
            Trigger::Scan => "scan",
            Trigger::Event => "event",
            Trigger::IoInterrupt => "io_intr",
            Trigger::Python => "python",
            Trigger::Callback => "callback",
            Trigger::Once => "once",
            Trigger::CpLink => "CP",
            Trigger::Pini => "pini",
            Trigger::Shell => "dbtr",
            Trigger::Completion => "completion",
            Trigger::Link => "link",
            Trigger::Unknown => "unknown",
        }
    }
}
