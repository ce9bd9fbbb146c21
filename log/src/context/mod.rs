//! The definitions in force: which number stands for what, at one moment of a log.
//!
//! The writer keeps one to begin each segment with (a keyframe); a reader feeds one with the events
//! that it reads and looks numbers up in it. Both get the same answers, since both apply the same
//! facts in the same order.
//!
//! How a definition lives is described beside its struct ([`Definition`](crate::event::Definition)); here are the stores
//! that the table of facts names.
//!
//! Promises: numbers are keys of maps, never indices, so no number makes it allocate; what it
//! holds is bounded by [`MAX_HELD`] whatever is applied; a keyframe made from [`Context::events`] and
//! applied to an empty context gives the same answers. 10,000 records cost about half a MiB
//! (tests/memory.rs measures).

mod budget;
mod clocks;
mod records;
mod store;
mod table;

pub use self::budget::Budget;
use self::budget::Share;
pub use self::clocks::Clocks;
pub use self::records::{RecordRef, Records};
use self::store::{Admission, Owners, Store};
pub use self::table::{Latest, Table};
use crate::event::definitions::*; // all of them: the table of facts names them
use crate::event::life::Ended;
use crate::event::{
    for_each_fact, CallSiteId, ChannelId, CircuitId, Event, Fact, FieldId, IocId, MenuId, RecordId,
    ScanListId, ThreadId,
};
use std::sync::Arc;

/// Bytes of definitions, roughly, that a context holds at most. Beyond it new definitions are left out and counted as
/// refused: a hostile log or a flood of channels must not take the machine's memory. A big site's box (100,000 records,
/// 50,000 channels) needs about 20 MiB.
pub const MAX_HELD: usize = 256 << 20;

/// Bytes that a definition takes, about: to estimate their number.
const TYPICAL: usize = 64;

/// The part of a keyframe with the definitions of one kind. It is an iterator, but smaller: a pointer to an iterator brings
/// four functions for each kind into the binary, this brings one.
trait Part {
    fn next_event(&mut self) -> Option<Event>;
}

impl<I: Iterator<Item = Event>> Part for I {
    fn next_event(&mut self) -> Option<Event> {
        self.next()
    }
}

/// Makes the stores of all definitions, and everything that is done with each of them.
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
    /// Bytes that it may hold: [`MAX_HELD`], less in tests.
    limit: usize,
    /// Its part of what a reader's contexts may hold.
    share: Share,
    in_force: InForce,
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
        Context { limit, share: Share::default(), in_force: InForce::default(), refused: 0 }
    }

    /// Applies a fact: a definition comes into force, an end puts definitions out of force, anything
    /// else changes nothing. `time` is the event's.
    pub fn apply(&mut self, time: u64, fact: &Fact) {
        if !fact.class().defines() {
            return;
        }
        if let Some(ended) = fact.ended() {
            return self.end(ended);
        }
        let held = self.in_force.weight();
        let mut admission =
            Admission { held, limit: self.limit, share: &mut self.share, refused: &mut self.refused };
        self.in_force.begin(time, fact, &mut admission);
    }

    /// Something has ended, and what belongs to it.
    fn end(&mut self, ended: Ended) {
        self.in_force.end(ended);
        // When an IOC ends, all definitions are searched for its own.
        match ended {
            Ended::Ioc(_) if self.share.may_look_at(self.held() / TYPICAL) => {}
            Ended::Circuit(_) => {}
            Ended::Ioc(_) | Ended::Recording(_) | Ended::Channel(_) => return,
        }
        // What owns others ends first; it has no such owner itself.
        let none = (Table::default(), Records::default());
        let mut threads = std::mem::take(&mut self.in_force.threads);
        let mut records = std::mem::take(&mut self.in_force.records);
        threads.end_owned(ended, &none, &self.share);
        records.end_owned(ended, &none, &self.share);
        let owners = (threads, records);
        self.in_force.end_owned(ended, &owners, &self.share);
        (self.in_force.threads, self.in_force.records) = owners;
        self.share.take(self.held());
    }

    /// The definitions in force as events that make a context with the same answers: nothing refers forward. All
    /// have the time `now`, but for the latest pair of clocks, which keeps its own.
    pub fn events(&self, now: u64) -> impl Iterator<Item = Event> + '_ {
        self.in_force.events(now)
    }

    /// The facts of [`Context::events`]. The clock fact among them belongs to the time at which it
    /// was applied.
    pub fn facts(&self) -> impl Iterator<Item = Fact> + '_ {
        self.events(0).map(|event| event.fact)
    }

    /// All definitions in force, by kind. The methods below are shortcuts for the most common questions.
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

    /// How many chains are kept, if the log says.
    pub fn chain_sampling(&self) -> Option<&ChainSampling> {
        self.in_force.chain_sampling.get()
    }

    /// All IOCs, by their number.
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

    /// All records, by their number.
    pub fn records(&self) -> impl Iterator<Item = RecordRef<'_>> + '_ {
        self.in_force.records.iter()
    }

    /// The record that has this alias in an IOC. Looks through all aliases, of which there are few.
    pub fn by_alias(&self, ioc: IocId, name: &str) -> Option<RecordRef<'_>> {
        let aliases = self.in_force.aliases.iter();
        let named = aliases.filter(|(_, names)| names.iter().any(|alias| **alias == *name));
        named.filter_map(|(record, _)| self.record(record)).find(|record| record.ioc == ioc)
    }

    /// A record's aliases.
    pub fn aliases(&self, record: RecordId) -> &[Box<str>] {
        self.in_force.aliases.get(record).map_or(&[], |names| names)
    }

    /// A record's enum strings, by the values for which they stand.
    pub fn enum_strings(&self, record: RecordId) -> &[Box<str>] {
        self.in_force.enum_strings.get(record).map_or(&[], |strings| strings)
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

    /// A channel that is open.
    pub fn channel(&self, id: ChannelId) -> Option<&Channel> {
        self.in_force.channels.get(id)
    }

    /// The circuit that a thread serves.
    pub fn circuit_of_thread(&self, thread: ThreadId) -> Option<CircuitId> {
        self.in_force.server_threads.get(thread).copied()
    }

    /// Since when an IOC's hits are recorded; `None` while they are not, and in logs that don't say.
    pub fn attached(&self, ioc: IocId) -> Option<&Attached> {
        self.in_force.attached.get(ioc)
    }

    /// Which processes the ends of an open circuit belong to, where that is known.
    pub fn circuit_ends(&self, circuit: CircuitId) -> Option<&CircuitEnds> {
        self.in_force.circuit_ends.get(circuit)
    }

    /// Wall-clock time, nanoseconds since 1970 UTC, of a monotonic time: by the latest pair of clocks
    /// noted at or before it, else by the earliest; pairs of a wall clock that was never set don't count where there are
    /// others. `None` before the first pair is known.
    pub fn wall(&self, time: u64) -> Option<i64> {
        self.in_force.clocks.wall(time)
    }

    /// How many definitions were left out because of [`MAX_HELD`] or a [`Budget`].
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
        Fact::Record(Record { id, ioc: 1, address: 0, rtype: format!("type{id}"), name })
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
