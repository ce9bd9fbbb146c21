//! Chains of processing: chains of spans.
//!
//! A [`Chain`] is what one cause set off: a put from outside, a scan, an event. Its spans are in the
//! order in which they began to exist; parents come before their children, the root is the first.
//! A CA link leads on to the chain of the put that it made, in the same IOC or in another.

use super::run::Run;
use super::value;
use iocrec_log::event::{
    CallSiteId, CauseKind, ChannelId, CircuitId, Dbf, FieldId, PutKind, RecordId, ScanListId, ThreadId, Value,
};
use std::rc::Rc;

/// What one cause set off.
pub struct Chain {
    /// The run that saw it.
    pub run: Rc<Run>,
    /// The spans, the root first. Never empty.
    pub spans: Vec<Span>,
    /// Given out before it was seen to end: an asynchronous record took too long, or the log ends.
    pub open: bool,
    /// Rises in the order in which the run saw chains begin. It gives the order where times are equal, as they are for
    /// messages that came together.
    pub serial: u64,
}

impl Chain {
    /// The cause of all.
    pub fn root(&self) -> Option<&Span> {
        self.spans.first()
    }

    /// For each span the numbers of its children, in the order of time.
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
    /// Where it began; `None` for a put that was seen on the network only.
    pub thread: Option<ThreadId>,
    /// Monotonic time of its beginning.
    pub start: u64,
    /// Monotonic time of its end; `start` where not known.
    pub end: u64,
    /// What it is.
    pub kind: SpanKind,
}

impl Span {
    /// What it takes in memory, in spans: one that holds an array counts for several.
    pub fn weight(&self) -> usize {
        let values = match &self.kind {
            SpanKind::Put(put) => {
                let after = put.after.as_ref().map_or(0, |after| value::heap(&after.value));
                value::heap(&put.requested) + value::heap(&put.old) + after
            }
            SpanKind::Process(ProcessSpan { outcome: Outcome::Completed(completed), .. }) => {
                value::heap(&completed.value)
            }
            SpanKind::Process(_) => 0,
            SpanKind::Link(link) => value::heap(&link.value) + link.pv.len(),
        };
        1 + values / size_of::<Span>()
    }
}

/// What a span is.
pub enum SpanKind {
    /// A put to a record's field.
    Put(PutSpan),
    /// The processing of a record.
    Process(ProcessSpan),
    /// A put through a CA link.
    Link(LinkSpan),
}

/// A put.
pub struct PutSpan {
    /// The outermost function that it was seen in; `None`: seen on the network only.
    pub kind: Option<PutKind>,
    /// Who called that function.
    pub site: CallSiteId,
    /// Record; `None`: seen on the network only.
    pub record: Option<RecordId>,
    /// Field, where known.
    pub field: Option<FieldId>,
    /// Type of the request.
    pub dbf: Dbf,
    /// Element count of the request.
    pub count: u32,
    /// What was asked for.
    pub requested: Value,
    /// What the field held before.
    pub old: Value,
    /// What the field was seen to hold after it, beside the value at the end of the record's processing.
    pub after: Option<Box<After>>,
    /// `dbPut` was reached, which writes the field if it does not refuse.
    pub wrote: bool,
    /// When it was, monotonic time: a record is locked then, so of its puts this is the order in which they were
    /// carried out.
    pub written: Option<u64>,
    /// It is no put: `dbProcessNotify` was asked to process the record, and to write nothing (a record with
    /// `Async Soft Channel` reads so).
    pub only_processes: bool,
    /// The message that asked for it.
    pub packet: Option<Box<Packet>>,
}

/// What a field held some time after a put to it: read from the IOC's memory, or found by the next put.
#[derive(Clone, Debug, PartialEq)]
pub struct After {
    /// Its value; never unknown.
    pub value: Value,
    /// Nothing was recorded between the put and this that may have changed the field: no other put to it, and no
    /// processing of its record but what the put itself set off.
    pub alone: bool,
}

/// A WRITE or WRITE_NOTIFY.
pub struct Packet {
    /// Monotonic time.
    pub time: u64,
    /// Circuit that it came on.
    pub circuit: CircuitId,
    /// Its channel.
    pub channel: ChannelId,
    /// With callback?
    pub notify: bool,
    /// DBR type, the protocol's number.
    pub dbr: u16,
    /// The server's answer.
    pub answer: Option<Answer>,
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
    /// What made it process.
    pub trigger: Trigger,
    /// What became of it.
    pub outcome: Outcome,
    /// What happened between start and end of an asynchronous record.
    pub phases: Vec<Phase>,
    /// The scan list that it was processed for, where known.
    pub list: Option<ScanListId>,
    /// Who asked for that.
    pub asked: Option<Asked>,
    /// It was processed for a CP link, in the thread of the CA links or asked for by it.
    pub for_link: bool,
}

/// Who asked for an event or for I/O Intr.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// Monotonic time.
    pub time: u64,
    /// In this thread.
    pub thread: ThreadId,
    /// Caller of `postEvent` or `scanIoRequest`; 0 where not known.
    pub site: CallSiteId,
}

/// What became of a record's processing.
pub enum Outcome {
    /// Not seen to end.
    Open,
    /// The record was active already: nothing was done.
    Active,
    /// It did not complete and yet was not active when it was to process the next time: the record was
    /// disabled (or had nothing to pass on, as a compress record that still collects).
    Skipped,
    /// The record was disabled (DISA equalled DISV): nothing was done.
    Disabled,
    /// It was still active (PACT) when the recorder looked, and not seen to complete.
    Waiting,
    /// Done.
    Completed(Completed),
    /// All that was recorded is that `rset->process` was entered: the IOC has no symbols that
    /// would show what called it, or when it returned.
    Entered {
        /// The record was active already, and went on with what it had begun.
        again: bool,
    },
}

/// The end of a record's processing.
pub struct Completed {
    /// The value field then.
    pub value: Value,
    /// Alarm severity (0 to 3).
    pub severity: u16,
    /// Alarm status.
    pub status: u16,
}

/// A moment in the processing of an asynchronous record.
pub struct Phase {
    /// Monotonic time.
    pub time: u64,
    /// Thread.
    pub thread: ThreadId,
    /// What happened; `None`: the record went on, in another thread, and completed.
    pub asked: Option<CauseKind>,
}

/// A put through a CA link.
pub struct LinkSpan {
    /// The record that the link belongs to, where known.
    pub record: Option<RecordId>,
    /// Target as the link names it.
    pub pv: String,
    /// What is sent.
    pub value: Value,
    /// Looked for what it set off already?
    pub resolved: bool,
    /// What it set off.
    pub target: Option<Box<Chain>>,
}

/// What made a record process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// A put to it from outside.
    Put,
    /// Another record's OUT link.
    Out,
    /// Another record's INP link.
    Input,
    /// A link of a fanout or sequence record.
    Fanout,
    /// Another record's forward link.
    Forward,
    /// Its SCAN period.
    Scan,
    /// An event.
    Event,
    /// I/O Intr.
    IoInterrupt,
    /// I/O Intr that the Python code which hosts the IOC asked for: the `set()` of softioc's input records.
    Python,
    /// A callback.
    Callback,
    /// `scanOnce`: a CP link, or a put while it was active.
    Once,
    /// A CP or CPP link, in the thread of the CA links.
    CpLink,
    /// PINI.
    Pini,
    /// `dbtr` in the IOC shell.
    Shell,
    /// Only its end was seen.
    Completion,
    /// Another record, but it is not known which link.
    Link,
    /// Not known.
    Unknown,
}

impl Trigger {
    /// A word for it; part of the output formats.
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
