//! The definitions in force: the meanings of numbers at one moment of a log.
//!
//! The writer keeps a context to begin each segment with a keyframe. A reader feeds a context with the events that it
//! reads and looks numbers up in it. Both get the same answers, because both apply the same facts in the same order.
//!
//! The life of a definition is described beside its struct ([`Definition`](crate::event::Definition)). This module
//! holds the stores that the table of facts names.
//!
//! Promises: numbers are keys of maps, never indices, so no number causes a large allocation; [`MAX_HELD`] bounds the
//! memory whatever is applied; a keyframe made from [`Context::events`] and applied to an empty context gives the same
//! answers, but for the enum strings of before. 10,000 records cost about half a MiB (as measured by tests/memory.rs).

mod budget;
mod clocks;
mod records;
mod renamed;
mod slots;
mod store;
mod table;

pub use self::budget::Budget;
use self::budget::Share;
pub use self::clocks::Clocks;
pub use self::records::{RecordRef, Records};
use self::renamed::Renamed;
use self::store::{Admission, Owners, Store};
pub use self::table::{Latest, Table};
use crate::event::deaths::Crash;
use crate::event::definitions::*; // all of them: the table of facts names them
use crate::event::files::IoFile;
use crate::event::life::Ended;
use crate::event::stuck::Stuck;
use crate::event::{
    for_each_fact, resources::WatchedThread, AccessRights, CallSiteId, ChannelId, CircuitId, CircuitPriority,
    Event, Fact, FieldId, IocId, MenuId, RecordId, ScanListId, ThreadId,
};
use std::net::Ipv6Addr;
use std::sync::Arc;

/// Approximate maximum size of the definitions in a context, bytes. Beyond it new definitions are left out and counted
/// as refused: a hostile log or a flood of channels must not take the machine's memory. A big site's box (100,000
/// records, 50,000 channels) needs about 20 MiB.
pub const MAX_HELD: usize = 256 << 20;

/// Approximate size of a definition, bytes, to estimate their number.
const TYPICAL: usize = 64;

/// The part of a keyframe with the definitions of one kind. This is an iterator with less code: a pointer to a real
/// iterator adds four functions per kind to the binary, this adds one.
trait Part {
    fn next_event(&mut self) -> Option<Event>;
}

impl<I: Iterator<Item = Event>> Part for I {
    fn next_event(&mut self) -> Option<Event> {
        self.next()
    }
}

/// Makes the stores of all definitions, and the operations on them.
macro_rules! stores {
    ($($(#[$doc:meta])* $number:literal $variant:ident($content:ty) $name:literal $class:ident
        $(in $store:ident: $kept:ty)?;)*) => {
        /// The definitions in force, by kind.
        #[derive(Clone, Debug, Default)]
        #[allow(missing_docs)] // the names are those of the facts
        pub struct InForce {
            $($(pub $store: $kept,)?)*
        }

        impl InForce {
            fn weight(&self) -> usize {
                0 $($(+ self.$store.weight())?)*
            }

            /// A definition comes into force, if it is admitted.
            fn begin(&mut self, time: u64, fact: &Fact, admission: &mut Admission) {
                match fact {
                    $($(Fact::$variant(definition) => <$kept>::begin(&mut self.$store, time, definition, admission),)?)*
                    _ => {}
                }
            }

            fn end(&mut self, ended: Ended) {
                $($(self.$store.end(ended);)?)*
            }

            fn end_owned(&mut self, ended: Ended, owners: &dyn Owners, share: &Share) {
                $($(self.$store.end_owned(ended, owners, share);)?)*
            }

            /// All definitions in the order of a keyframe.
            fn events(&self, now: u64) -> impl Iterator<Item = Event> + '_ {
                let mut parts: Vec<((u16, u16), Box<dyn Part + '_>)> = vec![$($({
                    let events = self.$store.again(now).map(|(time, definition)| {
                        Event { time, fact: Fact::$variant(definition.into()) }
                    });
                    (<$kept>::PLACE.unwrap_or(($number, 0)), Box::new(events))
                },)?)*];
                parts.sort_unstable_by_key(|(place, _)| *place);
                let mut parts = parts.into_iter();
                let mut part = parts.next();
                std::iter::from_fn(move || loop {
                    match part.as_mut()?.1.next_event() {
                        None => part = parts.next(),
                        event => return event,
                    }
                })
            }
        }
    };
}
for_each_fact!(stores);

impl Owners for (Table<Thread>, Records) {
    fn has_thread(&self, thread: ThreadId) -> bool {
        self.0.get(thread).is_some()
    }

    fn has_record(&self, record: RecordId) -> bool {
        self.1.contains(record)
    }
}

/// The definitions in force.
#[derive(Clone, Debug)]
pub struct Context {
    /// Maximum size in bytes: [`MAX_HELD`], less in tests.
    limit: usize,
    /// Its share of the budget of a reader's contexts.
    share: Share,
    in_force: InForce,
    renamed: Renamed,
    refused: u64,
}

impl Default for Context {
    fn default() -> Self {
        Context::with_limit(MAX_HELD)
    }
}

impl Context {
    /// A context that shares a budget with others.
    pub fn sharing(budget: &Arc<Budget>) -> Self {
        Context { share: Share::of(budget), ..Context::default() }
    }

    fn with_limit(limit: usize) -> Self {
        Context {
            limit,
            share: Share::default(),
            in_force: InForce::default(),
            renamed: Renamed::default(),
            refused: 0,
        }
    }

    /// Applies a fact: a definition comes into force, an end puts definitions out of force, any other fact changes
    /// nothing. `time` is the event's.
    pub fn apply(&mut self, time: u64, fact: &Fact) {
        if !fact.class().defines() {
            return;
        }
        if let Some(ended) = fact.ended() {
            return self.end(ended);
        }
        if let Fact::EnumStrings(of) = fact {
            let before = self.in_force.enum_strings.get(of.record).map(|strings| &**strings);
            let is_other = |before: &&[Box<str>]| {
                !before.iter().map(|text| &**text).eq(of.states.iter().map(|text| &**text))
            };
            if let Some(before) = before.filter(is_other) {
                self.renamed.note(of.record, time, before, renamed::is_unknown(&of.states));
            }
        }
        let held = self.in_force.weight();
        let mut admission =
            Admission { held, limit: self.limit, share: &mut self.share, refused: &mut self.refused };
        self.in_force.begin(time, fact, &mut admission);
    }

    /// A thread that stands still.
    pub fn stuck(&self, id: u32) -> Option<&Stuck> {
        self.in_force.stuck.get(id)
    }

    /// Ends something, and everything that belongs to it.
    fn end(&mut self, ended: Ended) {
        self.in_force.end(ended);
        // When an IOC ends, all definitions are searched for its own.
        match ended {
            Ended::Ioc(_) if self.share.may_look_at(self.held() / TYPICAL) => {}
            Ended::Circuit(_) => {}
            Ended::Ioc(_) | Ended::Recording(_) | Ended::Channel(_) | Ended::Stuck(_) | Ended::File(_) => {
                return
            }
        }
        // Owners end first; they have no such owners themselves.
        let none = (Table::default(), Records::default());
        let mut threads = std::mem::take(&mut self.in_force.threads);
        let mut records = std::mem::take(&mut self.in_force.records);
        threads.end_owned(ended, &none, &self.share);
        records.end_owned(ended, &none, &self.share);
        let owners = (threads, records);
        self.in_force.end_owned(ended, &owners, &self.share);
        (self.in_force.threads, self.in_force.records) = owners;
        let records = &self.in_force.records;
        self.renamed.keep(|record| records.contains(record));
        self.share.take(self.held());
    }

    /// The definitions in force as events that make a context with the same answers. None refers forward. All have the
    /// time `now`, except the latest pair of clocks, which keeps its own.
    pub fn events(&self, now: u64) -> impl Iterator<Item = Event> + '_ {
        self.in_force.events(now)
    }

    /// The facts of [`Context::events`]. The clock fact among them belongs to the time at which it
    /// was applied.
    pub fn facts(&self) -> impl Iterator<Item = Fact> + '_ {
        self.events(0).map(|event| event.fact)
    }

    /// All definitions in force, by kind. The methods below are shortcuts for the most common lookups.
    pub fn in_force(&self) -> &InForce {
        &self.in_force
    }

    /// The machine and the run.
    pub fn host(&self) -> Option<&Host> {
        self.in_force.host.get()
    }

    /// The tier in use.
    pub fn tier(&self) -> Option<&TierChoice> {
        self.in_force.tier.get()
    }

    /// The chain sampling, if the log states it.
    pub fn chain_sampling(&self) -> Option<&ChainSampling> {
        self.in_force.chain_sampling.get()
    }

    /// All IOCs, in the order of their numbers.
    pub fn iocs(&self) -> impl Iterator<Item = &Ioc> + '_ {
        self.in_force.iocs.values()
    }

    /// An IOC.
    pub fn ioc(&self, id: IocId) -> Option<&Ioc> {
        self.in_force.iocs.get(id)
    }

    /// A thread.
    pub fn thread(&self, id: ThreadId) -> Option<&Thread> {
        self.in_force.threads.get(id)
    }

    /// A record.
    pub fn record(&self, id: RecordId) -> Option<RecordRef<'_>> {
        self.in_force.records.get(id)
    }

    /// All records, in the order of their numbers.
    pub fn records(&self) -> impl Iterator<Item = RecordRef<'_>> + '_ {
        self.in_force.records.iter()
    }

    /// Number of records, in all IOCs.
    pub fn record_count(&self) -> usize {
        self.in_force.records.len()
    }

    /// The record that has this alias in an IOC. Searches all aliases, of which there are few.
    pub fn by_alias(&self, ioc: IocId, name: &str) -> Option<RecordRef<'_>> {
        let aliases = self.in_force.aliases.iter();
        let named = aliases.filter(|(_, names)| names.iter().any(|alias| **alias == *name));
        named.filter_map(|(record, _)| self.record(record)).find(|record| record.ioc == ioc)
    }

    /// A record's aliases.
    pub fn aliases(&self, record: RecordId) -> &[Box<str>] {
        self.in_force.aliases.get(record).map_or(&[], |names| names)
    }

    /// A record's enum strings as they were read last, indexed by value; empty if they are not known any more.
    pub fn enum_strings(&self, record: RecordId) -> &[Box<str>] {
        let strings = self.in_force.enum_strings.get(record).filter(|strings| !renamed::is_unknown(strings));
        strings.map_or(&[], |strings| strings)
    }

    /// The enum strings that a record had at a monotonic time; empty if they are not known.
    pub fn enum_strings_at(&self, record: RecordId, time: u64) -> &[Box<str>] {
        self.renamed.at(record, time).unwrap_or_else(|| self.enum_strings(record))
    }

    /// A put at this monotonic time changed a record's enum strings, which were read some time later.
    pub fn has_renamed_states(&mut self, record: RecordId, time: u64) {
        self.renamed.made_at(record, time);
    }

    /// A menu.
    pub fn menu(&self, id: MenuId) -> Option<&Menu> {
        self.in_force.menus.get(id)
    }

    /// A scan list.
    pub fn scan_list(&self, id: ScanListId) -> Option<&ScanList> {
        self.in_force.scan_lists.get(id)
    }

    /// The scan list that a record is on.
    pub fn scan_list_of(&self, record: RecordId) -> Option<&ScanList> {
        self.scan_list(*self.in_force.record_scans.get(record)?)
    }

    /// A field.
    pub fn field(&self, id: FieldId) -> Option<&Field> {
        self.in_force.fields.get(id)
    }

    /// A call site.
    pub fn call_site(&self, id: CallSiteId) -> Option<&CallSite> {
        self.in_force.call_sites.get(id)
    }

    /// A circuit that is open.
    pub fn circuit(&self, id: CircuitId) -> Option<&Circuit> {
        self.in_force.circuits.get(id)
    }

    /// The addresses of client and server of an open circuit, with their ports; `None` where unknown: a circuit over IPv6
    /// whose [`PvaCircuit`] has not come.
    pub fn addresses(&self, id: CircuitId) -> [Option<String>; 2] {
        let Some(circuit) = self.circuit(id) else { return [None, None] };
        let pva = self.in_force.pva_circuits.get(id);
        let ip6 = |bytes: &[u8]| Some(Ipv6Addr::from(*<&[u8; 16]>::try_from(bytes).ok()?));
        let text = |address: Address, bytes: Option<&[u8]>| match bytes.and_then(ip6) {
            Some(ip) => Some(format!("[{ip}]:{}", address.port)),
            None => (address.ip != 0).then(|| address.to_string()),
        };
        [
            text(circuit.client, pva.map(|pva| pva.client_ip.as_slice())),
            text(circuit.server, pva.map(|pva| pva.server_ip.as_slice())),
        ]
    }

    /// An address of a fact as text; `None` if it is one of IPv6 that is not told.
    pub fn address(&self, address: Address) -> Option<String> {
        if address.ip >= Ip6::END {
            return Some(address.to_string());
        }
        let ip =
            self.in_force.ip6.get(address.ip).and_then(|known| <[u8; 16]>::try_from(&*known.bytes).ok())?;
        Some(format!("[{}]:{}", Ipv6Addr::from(ip), address.port))
    }

    /// A channel that is open.
    pub fn channel(&self, id: ChannelId) -> Option<&Channel> {
        self.in_force.channels.get(id)
    }

    /// The circuit that a thread serves.
    pub fn circuit_of_thread(&self, thread: ThreadId) -> Option<CircuitId> {
        self.in_force.server_threads.get(thread).copied()
    }

    /// Start of the recording of an IOC's hits; `None` while they are not recorded, and in logs that don't state it.
    pub fn attached(&self, ioc: IocId) -> Option<&Attached> {
        self.in_force.attached.get(ioc)
    }

    /// The processes at the ends of an open circuit, where known.
    pub fn circuit_ends(&self, circuit: CircuitId) -> Option<&CircuitEnds> {
        self.in_force.circuit_ends.get(circuit)
    }

    /// The processes behind the client of an open circuit, where the recorder has looked.
    pub fn circuit_process(&self, circuit: CircuitId) -> Option<&CircuitProcess> {
        self.in_force.processes.get(circuit)
    }

    /// The links that write over Channel Access, with their records' numbers, as far as known.
    pub fn output_links(&self) -> impl Iterator<Item = (RecordId, &[OutputLink])> {
        self.in_force.output_links.iter().map(|(record, links)| (record, links.as_slice()))
    }

    /// One open of a file.
    pub fn io_file(&self, id: u32) -> Option<&IoFile> {
        self.in_force.io_files.get(id)
    }

    /// The name of threads in [`Resources`](crate::event::Resources).
    pub fn watched_thread(&self, id: u32) -> Option<&WatchedThread> {
        self.in_force.watched_threads.get(id)
    }

    /// The last crash of an IOC, if it had one.
    pub fn crash(&self, ioc: IocId) -> Option<&Crash> {
        self.in_force.crashes.get(ioc)
    }

    /// The container that an IOC runs in, if it is known to run in one.
    pub fn container(&self, ioc: IocId) -> Option<&Container> {
        self.in_force.containers.get(ioc)
    }

    /// The names of an IOC's threads, where known.
    pub fn thread_names(&self, ioc: IocId) -> Option<&ThreadNames> {
        self.in_force.thread_names.get(ioc)
    }

    /// Wall-clock time, nanoseconds since 1970 UTC, of a monotonic time: by the latest pair of clocks noted at or
    /// before it, or else by the earliest pair. Pairs of a wall clock that was never set count only if there are no
    /// others. `None` before the first pair is known.
    pub fn wall(&self, time: u64) -> Option<i64> {
        self.in_force.clocks.wall(time)
    }

    /// The pair of clocks that [`Context::wall`] uses for a time, monotonic and wall-clock, and the monotonic time of the
    /// next pair. `None` before the first pair.
    pub fn clocks_at(&self, time: u64) -> Option<(u64, i64, u64)> {
        self.in_force.clocks.at(time)
    }

    /// Number of definitions that were left out because of [`MAX_HELD`] or a [`Budget`].
    pub fn refused(&self) -> u64 {
        self.refused
    }

    fn held(&self) -> usize {
        self.in_force.weight()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(id: u32, name: String) -> Fact {
        Fact::from(Record { id, ioc: 1, address: 0, rtype: format!("type{id}"), name })
    }

    #[test]
    fn holds_no_more_than_its_limit() {
        let mut context = Context::with_limit(10_000);
        for id in 0..1000 {
            context.apply(0, &record(id, "x".repeat(50)));
            assert!(context.held() <= 10_000);
        }
        let held = context.records().count() as u64;
        assert!(held > 10);
        assert_eq!(context.refused(), 1000 - held);
    }

    #[test]
    fn forgets_the_weight_of_what_it_drops() {
        let mut context = Context::default();
        for turn in 0..5 {
            context.apply(0, &record(1, format!("turn {turn}")));
            context.apply(0, &Fact::CircuitEnd(turn));
        }
        context.apply(0, &Fact::IocEnd(crate::event::IocEnd { ioc: 1, how: String::new() }));
        let mut types = Records::default();
        types.put(&Record { id: 1, ioc: 1, address: 0, name: String::new(), rtype: "type1".into() });
        types.drop_ioc(1);
        assert_eq!(context.held(), types.weight());
        assert!(context.held() > 0);
    }
}
