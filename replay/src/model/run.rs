//! A recorder's run: the definitions that its hits refer to.

use super::clock::SetLater;
use iocrec_log::context::Context;
use iocrec_log::event::{Address, CircuitId, Fact, FieldId, Ioc, RecordId, ThreadId};
use std::cell::{Ref, RefCell};
use std::net::Ipv4Addr;

/// One run of one recorder on one host. Shared by what was read from it: chains look names up in it
/// when they are printed, and it goes when the last of them is gone.
#[derive(Default)]
pub struct Run {
    context: RefCell<Context>,
}

impl Run {
    /// A run whose clock was set later, or not.
    pub fn new(set: Option<SetLater>) -> Run {
        let mut context = Context::default();
        set.inspect(|set| set.tell(&mut context));
        Run { context: RefCell::new(context) }
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

/// The recorded IOC that a circuit leads to. The recorder says whose the server's socket was; a log of one that did not
/// say that tells it only where one IOC alone listened on the port, and on the address if it says on which.
pub fn ioc_of_circuit(context: &Context, circuit: CircuitId) -> Option<&Ioc> {
    if let Some(ends) = context.circuit_ends(circuit) {
        return context.ioc(ends.server?);
    }
    let server = context.circuit(circuit)?.server;
    let mut fitting = context.iocs().filter(|ioc| can_serve(ioc, server));
    fitting.next().filter(|_| fitting.next().is_none())
}

/// Can an IOC's server be at this address, as far as its ports and its environment tell?
pub fn can_serve(ioc: &Ioc, server: Address) -> bool {
    let addresses = ioc.environment.iter().find(|(name, _)| name == "EPICS_CAS_INTF_ADDR_LIST");
    let ip = Ipv4Addr::from(server.ip);
    let listens = addresses.is_none_or(|(_, list)| {
        let addresses: Vec<Ipv4Addr> = list
            .split_ascii_whitespace()
            .map_while(|word| word.split(':').next().and_then(|address| address.parse().ok()))
            .collect();
        // names of hosts, and 0.0.0.0, may stand for any
        addresses.len() < list.split_ascii_whitespace().count()
            || addresses.is_empty()
            || addresses.iter().any(|address| *address == ip || address.is_unspecified())
    });
    listens && ioc.ca_ports.contains(&server.port)
}
