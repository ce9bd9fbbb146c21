//! A recorder's run: the definitions that its hits refer to.

use super::clock::SetLater;
use super::links::Links;
use iocrec_log::context::{Budget, Context};
use iocrec_log::event::{CircuitId, Fact, FieldId, Ioc, RecordId, ThreadId};
use std::cell::{Ref, RefCell};
use std::sync::Arc;

/// One run of one recorder on one host. Shared by what was read from it: chains look names up in it
/// when they are printed, and it goes when the last of them is gone.
#[derive(Default)]
pub struct Run {
    context: RefCell<Context>,
    links: RefCell<Links>,
}

impl Run {
    /// A run whose clock was set later, or not.
    pub fn new(set: Option<SetLater>) -> Run {
        Run::with(set, Context::default())
    }

    /// The same, whose definitions share what they may take with those of others.
    pub fn sharing(set: Option<SetLater>, budget: &Arc<Budget>) -> Run {
        Run::with(set, Context::sharing(budget))
    }

    fn with(set: Option<SetLater>, mut context: Context) -> Run {
        set.inspect(|set| set.tell(&mut context));
        Run { context: RefCell::new(context), links: RefCell::default() }
    }

    /// A record has, at that time, this CP link. All that it has are told with the same time.
    pub fn has_link(&self, time: u64, record: RecordId, field: FieldId, link: &[u8]) {
        self.links.borrow_mut().told(time, record, field, link);
    }

    /// A link of a record is changed: which it has from then on is not known.
    pub fn link_changes(&self, time: u64, record: RecordId) {
        self.links.borrow_mut().change(time, record);
    }

    /// The one CP link that a record had at a time: its field and its source. `None` if it had several, or it is not known.
    pub fn cp_link(&self, time: u64, record: RecordId) -> Option<(FieldId, String)> {
        self.links.borrow().only(time, record)
    }

    /// A fact comes into force. Ends are to be applied late, when no chain refers to them any more.
    pub fn apply(&self, time: u64, fact: &Fact) {
        self.context.borrow_mut().apply(time, fact);
    }

    /// The definitions.
    pub fn context(&self) -> Ref<'_, Context> {
        self.context.borrow()
    }

    /// Wall-clock time, nanoseconds since 1970 UTC, of a monotonic time; the monotonic time itself
    /// where the run never said what the wall clock showed.
    pub fn wall(&self, time: u64) -> i64 {
        self.context().wall(time).unwrap_or_else(|| i64::try_from(time).unwrap_or(i64::MAX))
    }

    /// Name of the host; empty where not known.
    pub fn host(&self) -> String {
        self.context().host().map(|host| host.name.clone()).unwrap_or_default()
    }
}

/// Name of a record, or its number where the log does not tell the name.
pub fn record_name(context: &Context, record: RecordId) -> String {
    match context.record(record) {
        Some(record) => record.name.to_owned(),
        None => format!("record #{record}"),
    }
}

/// Does the value field of such records mean anything? Those whose work is to process others have one
/// that stays 0.
pub fn has_value(context: &Context, record: RecordId) -> bool {
    let rtype = context.record(record).map_or("", |record| record.rtype);
    !matches!(rtype, "fanout" | "seq" | "sseq")
}

/// Name of a field where known.
pub fn field_name(context: &Context, field: Option<FieldId>) -> Option<&str> {
    context.field(field?).map(|field| field.name.as_str())
}

/// The IOC that a thread belongs to.
pub fn ioc_of_thread(context: &Context, thread: ThreadId) -> Option<&Ioc> {
    context.ioc(context.thread(thread)?.ioc)
}

/// The IOC of this host that a circuit leads to: the one that listens on the port. Two hosts of a
/// log directory are two runs, so a port says it, unless the circuit leads to another host.
pub fn ioc_of_circuit(context: &Context, circuit: CircuitId) -> Option<&Ioc> {
    let port = context.circuit(circuit)?.server.port;
    context.iocs().find(|ioc| ioc.ca_ports.contains(&port))
}
