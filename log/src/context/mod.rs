//! The definitions in force: which number stands for what, at one moment of a log.
//!
//! The writer keeps one to begin each segment with (a keyframe); a reader feeds one with the events
//! that it reads and looks numbers up in it. Both get the same answers, since both apply the same
//! facts in the same order.
//!
//! Promises: numbers are keys of maps, never indices, so no number makes it allocate; what it
//! holds is bounded by [`MAX_HELD`] whatever is applied; a keyframe made from [`Context::events`] and
//! applied to an empty context gives the same answers. 10,000 records cost about half a MiB
//! (tests/context.rs measures).

mod budget;
mod records;

pub use self::budget::Budget;
use self::budget::Share;
use self::records::Records;
use crate::clock::can_be_right;
use crate::event::{
    Alias, Attached, CallSite, CallSiteId, ChainSampling, Channel, ChannelId, Circuit, CircuitEnds,
    CircuitId, Clock, EnumStrings, Event, Fact, Field, FieldId, Host, Ioc, IocId, Menu, MenuId, Record,
    RecordId, RecordScan, ScanList, ScanListId, Thread, ThreadId, TierChoice,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::mem::size_of;
use std::sync::Arc;

/// Bytes of definitions, roughly, that a context holds at most. Beyond it new definitions are
/// counted as refused and left out: a hostile log or a flood of channels must not take the machine's
/// memory. A big site's box (100,000 records, 50,000 channels) needs about 20 MiB.
pub const MAX_HELD: usize = 256 << 20;

/// How many pairs of clocks are remembered. The recorder notes one every few seconds to minutes, and
/// events are looked up near to when they were written, so a few are enough; 64 cost 1 KiB.
const MAX_CLOCKS: usize = 64;

/// Other names of a record; a bound for hostile logs, since each is compared with all.
const MAX_ALIASES: usize = 1000;
/// Bytes that a definition takes, about: to tell from what is held how many there are.
const TYPICAL: usize = 64;

/// A record, as [`Context::record`] gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordRef<'a> {
    /// Its number.
    pub id: RecordId,
    /// Whose record.
    pub ioc: IocId,
    /// Address of its dbCommon in the IOC.
    pub address: u64,
    /// Name.
    pub name: &'a str,
    /// Record type; empty where not known.
    pub rtype: &'a str,
}

/// How many bytes keeping a thing costs, as it is measured (tests/memory.rs): what the allocator adds counts, too, or
/// many small things would take twice what they may.
trait Weight: Sized {
    /// What it has on the heap.
    fn heap(&self) -> usize;

    /// All, its place in a tree included: nodes are half full when numbers rise.
    fn weight(&self) -> usize {
        2 * (size_of::<u32>() + size_of::<Self>()) + self.heap()
    }
}

/// What an allocation of so many bytes takes: nothing for none.
fn allocated(bytes: usize) -> usize {
    const LEAST: usize = 32;
    const STEP: usize = 16;
    match bytes {
        0 => 0,
        bytes => bytes.saturating_add(size_of::<usize>()).next_multiple_of(STEP).max(LEAST),
    }
}

/// A list of texts.
fn texts<'a>(texts: impl ExactSizeIterator<Item = &'a str>, each: usize) -> usize {
    allocated(texts.len() * each) + texts.map(|text| allocated(text.len())).sum::<usize>()
}

impl Weight for Ioc {
    fn heap(&self) -> usize {
        const STRING: usize = size_of::<String>();
        let own = [&self.name, &self.exe, &self.cwd, &self.base_version, &self.user];
        let own = own.iter().map(|text| allocated(text.len())).sum::<usize>();
        let pairs =
            self.environment.iter().map(|(name, value)| allocated(name.len()) + allocated(value.len()));
        own + texts(self.command.iter().map(String::as_str), STRING)
            + texts(self.not_probed.iter().map(String::as_str), STRING)
            + allocated(self.environment.len() * 2 * STRING)
            + pairs.sum::<usize>()
            + allocated(2 * self.ca_ports.len())
            + allocated(2 * self.pva_ports.len())
    }
}
impl Weight for Thread {
    fn heap(&self) -> usize {
        allocated(self.name.len())
    }
}
impl Weight for Field {
    fn heap(&self) -> usize {
        allocated(self.rtype.len()) + allocated(self.name.len())
    }
}
impl Weight for Menu {
    fn heap(&self) -> usize {
        allocated(self.name.len()) + texts(self.choices.iter().map(String::as_str), size_of::<String>())
    }
}
/// Texts of states, or other names, of a record: most records have none.
impl Weight for Box<[Box<str>]> {
    fn heap(&self) -> usize {
        texts(self.iter().map(AsRef::as_ref), size_of::<Box<str>>())
    }
}
impl Weight for ScanList {
    fn heap(&self) -> usize {
        allocated(self.name.len())
    }
}
impl Weight for CallSite {
    fn heap(&self) -> usize {
        allocated(self.function.len()) + allocated(self.module.len())
    }
}
impl Weight for Circuit {
    fn heap(&self) -> usize {
        allocated(self.user.len()) + allocated(self.host.len())
    }
}
impl Weight for Channel {
    fn heap(&self) -> usize {
        // and its place among the circuit's channels
        allocated(self.pv.len()) + 2 * size_of::<(CircuitId, ChannelId)>()
    }
}
impl Weight for Attached {
    fn heap(&self) -> usize {
        allocated(self.cause.len())
    }
}
impl Weight for CircuitEnds {
    fn heap(&self) -> usize {
        0
    }
}
impl Weight for CircuitId {
    fn heap(&self) -> usize {
        0
    }
}

/// Things by their number, and what they weigh. A tree and not a hash table: in order for keyframes,
/// no doubling of all it holds when it grows, and no numbers that can be chosen to collide.
#[derive(Clone, Debug)]
struct Table<T> {
    map: BTreeMap<u32, T>,
    weight: usize,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Table { map: BTreeMap::new(), weight: 0 }
    }
}

impl<T: Weight> Table<T> {
    fn put(&mut self, id: u32, thing: T) {
        self.weight += thing.weight();
        if let Some(old) = self.map.insert(id, thing) {
            self.weight = self.weight.saturating_sub(old.weight());
        }
    }

    fn take(&mut self, id: u32) -> Option<T> {
        let old = self.map.remove(&id)?;
        self.weight = self.weight.saturating_sub(old.weight());
        Some(old)
    }

    fn keep(&mut self, mut wanted: impl FnMut(&u32, &T) -> bool) {
        let weight = &mut self.weight;
        self.map.retain(|id, thing| {
            let stays = wanted(id, thing);
            if !stays {
                *weight = weight.saturating_sub(thing.weight());
            }
            stays
        });
    }
}

/// The definitions in force.
#[derive(Clone, Debug)]
pub struct Context {
    /// Bytes that it may hold: [`MAX_HELD`], less in tests.
    limit: usize,
    /// And its part of what a reader's contexts may hold.
    share: Share,
    host: Option<Host>,
    tier: Option<TierChoice>,
    thinning: Option<ChainSampling>,
    /// Pairs of monotonic and wall time, in the order in which they were noted: those that can be right, if there
    /// are any, else all.
    clocks: VecDeque<(u64, i64)>,
    iocs: Table<Ioc>,
    threads: Table<Thread>,
    records: Records,
    aliases: Table<Box<[Box<str>]>>,
    states: Table<Box<[Box<str>]>>,
    menus: Table<Menu>,
    scan_lists: Table<ScanList>,
    /// The list that a record is on.
    scanned: Table<ScanListId>,
    fields: Table<Field>,
    sites: Table<CallSite>,
    circuits: Table<Circuit>,
    channels: Table<Channel>,
    /// Which channels a circuit has, so that its end need not look at all of them.
    channels_of: BTreeSet<(CircuitId, ChannelId)>,
    serves: Table<CircuitId>,
    attached: Table<Attached>,
    circuit_ends: Table<CircuitEnds>,
    refused: u64,
}

impl Default for Context {
    fn default() -> Self {
        Context::with_limit(MAX_HELD)
    }
}

impl Context {
    /// One that shares what it may hold with others.
    pub fn sharing(budget: &Arc<Budget>) -> Self {
        Context { share: Share::of(budget), ..Context::default() }
    }

    fn with_limit(limit: usize) -> Self {
        Context {
            limit,
            share: Share::default(),
            host: None,
            tier: None,
            thinning: None,
            clocks: VecDeque::new(),
            iocs: Table::default(),
            threads: Table::default(),
            records: Records::default(),
            aliases: Table::default(),
            states: Table::default(),
            menus: Table::default(),
            scan_lists: Table::default(),
            scanned: Table::default(),
            fields: Table::default(),
            sites: Table::default(),
            circuits: Table::default(),
            channels: Table::default(),
            channels_of: BTreeSet::new(),
            serves: Table::default(),
            attached: Table::default(),
            circuit_ends: Table::default(),
            refused: 0,
        }
    }

    /// Takes note of a fact: a definition comes into force, an end puts it out of force, anything
    /// else changes nothing. `time` is the event's.
    pub fn apply(&mut self, time: u64, fact: &Fact) {
        match fact {
            Fact::Host(host) => self.host = Some(host.clone()),
            Fact::Clock(clock) => self.note_clock(time, clock.wall),
            Fact::Tier(tier) => self.tier = Some(tier.clone()),
            Fact::ChainSampling(thinning) => self.thinning = Some(thinning.clone()),
            Fact::Ioc(ioc) => {
                if self.has_room(ioc.weight()) {
                    self.iocs.put(ioc.id, Ioc::clone(ioc));
                }
            }
            Fact::IocEnd(end) => self.drop_ioc(end.ioc),
            Fact::Thread(thread) => {
                if self.has_room(thread.weight()) {
                    self.threads.put(thread.id, thread.clone());
                }
            }
            Fact::Record(record) => self.put_record(record),
            Fact::Alias(alias) => self.put_alias(alias),
            Fact::EnumStrings(states) => {
                let texts: Box<[Box<str>]> = states.states.iter().map(|text| text.as_str().into()).collect();
                if self.has_room(texts.weight()) {
                    self.states.put(states.record, texts);
                }
            }
            Fact::Menu(menu) => {
                if self.has_room(menu.weight()) {
                    self.menus.put(menu.id, menu.clone());
                }
            }
            Fact::ScanList(list) => {
                if self.has_room(list.weight()) {
                    self.scan_lists.put(list.id, list.clone());
                }
            }
            Fact::RecordScan(RecordScan { record, list: None }) => _ = self.scanned.take(*record),
            Fact::RecordScan(RecordScan { record, list: Some(list) }) => {
                if self.has_room(list.weight()) {
                    self.scanned.put(*record, *list);
                }
            }
            Fact::Field(field) => {
                if self.has_room(field.weight()) {
                    self.fields.put(field.id, field.clone());
                }
            }
            Fact::CallSite(site) => {
                if self.has_room(site.weight()) {
                    self.sites.put(site.id, site.clone());
                }
            }
            Fact::Circuit(circuit) => {
                if self.has_room(circuit.weight()) {
                    self.circuits.put(circuit.id, circuit.clone());
                }
            }
            Fact::CircuitEnd(id) => self.drop_circuit(*id),
            Fact::Channel(channel) => {
                if self.has_room(channel.weight()) {
                    self.drop_channel(channel.id);
                    self.channels_of.insert((channel.circuit, channel.id));
                    self.channels.put(channel.id, channel.clone());
                }
            }
            Fact::ChannelEnd(id) => self.drop_channel(*id),
            Fact::ServerThread(serves) => {
                if self.has_room(serves.circuit.weight()) {
                    self.serves.put(serves.thread, serves.circuit);
                }
            }
            Fact::Attached(attached) => {
                if self.has_room(attached.weight()) {
                    self.attached.put(attached.ioc, attached.clone());
                }
            }
            Fact::Detached(detached) => _ = self.attached.take(detached.ioc),
            Fact::CircuitEnds(ends) => {
                if self.has_room(ends.weight()) {
                    self.circuit_ends.put(ends.circuit, *ends);
                }
            }
            Fact::CaPut(_)
            | Fact::CaAnswer(_)
            | Fact::Put(_)
            | Fact::Process(_)
            | Fact::Complete(_)
            | Fact::RsetProcess(_)
            | Fact::Cause(_)
            | Fact::CaLinkPut(_)
            | Fact::PactCheck(_)
            | Fact::Loss(_)
            | Fact::ChainsLeftOut(_)
            | Fact::Pinned(_)
            | Fact::Unpinned(_)
            | Fact::SegmentEnd(_)
            | Fact::FieldValue(_)
            | Fact::Mark(_) => {}
        }
    }

    /// The definitions in force as events that make a context with the same answers: nothing refers forward. All
    /// have the time `now`, but for the latest pair of clocks, which keeps its own.
    pub fn events(&self, now: u64) -> impl Iterator<Item = Event> + '_ {
        let clock = self.clocks.back().map(|&(time, wall)| Event { time, fact: Fact::Clock(Clock { wall }) });
        let at = move |fact| Event { time: now, fact };
        let records = self.records.iter();
        let serves = self.serves.map.iter();
        let scanned = self.scanned.map.iter();
        let aliases = self.aliases.map.iter().flat_map(|(&record, names)| {
            names.iter().map(move |name| Fact::Alias(Alias { record, name: name.to_string() }))
        });
        let states = self.states.map.iter().map(|(&record, texts)| {
            let states = texts.iter().map(ToString::to_string).collect();
            Fact::EnumStrings(EnumStrings { record, states })
        });
        (self.host.iter().cloned().map(Fact::Host).map(at))
            .chain(clock)
            .chain(self.tier.iter().cloned().map(Fact::Tier).map(at))
            .chain(self.thinning.iter().cloned().map(Fact::ChainSampling).map(at))
            .chain(self.iocs.map.values().cloned().map(Fact::from).map(at))
            .chain(self.threads.map.values().cloned().map(Fact::Thread).map(at))
            .chain(records.map(Record::from).map(Fact::Record).map(at))
            .chain(aliases.map(at))
            .chain(states.map(at))
            .chain(self.menus.map.values().cloned().map(Fact::Menu).map(at))
            .chain(self.fields.map.values().cloned().map(Fact::Field).map(at))
            .chain(self.sites.map.values().cloned().map(Fact::CallSite).map(at))
            .chain(self.circuits.map.values().cloned().map(Fact::Circuit).map(at))
            .chain(self.channels.map.values().cloned().map(Fact::Channel).map(at))
            .chain(
                serves
                    .map(|(&thread, &circuit)| {
                        Fact::ServerThread(crate::event::ServerThread { thread, circuit })
                    })
                    .map(at),
            )
            .chain(self.scan_lists.map.values().cloned().map(Fact::ScanList).map(at))
            .chain(
                scanned
                    .map(|(&record, &list)| Fact::RecordScan(RecordScan { record, list: Some(list) }))
                    .map(at),
            )
            .chain(self.attached.map.values().cloned().map(Fact::Attached).map(at))
            .chain(self.circuit_ends.map.values().copied().map(Fact::CircuitEnds).map(at))
    }

    /// The facts of [`Context::events`]. The clock fact among them belongs to the time at which it
    /// was applied.
    pub fn facts(&self) -> impl Iterator<Item = Fact> + '_ {
        self.events(0).map(|event| event.fact)
    }

    /// The machine and the run.
    pub fn host(&self) -> Option<&Host> {
        self.host.as_ref()
    }

    /// The tier in use.
    pub fn tier(&self) -> Option<&TierChoice> {
        self.tier.as_ref()
    }

    /// How many chains are kept, if that was ever said.
    pub fn thinning(&self) -> Option<&ChainSampling> {
        self.thinning.as_ref()
    }

    /// All IOCs, by their number.
    pub fn iocs(&self) -> impl Iterator<Item = &Ioc> + '_ {
        self.iocs.map.values()
    }

    /// An IOC.
    pub fn ioc(&self, id: IocId) -> Option<&Ioc> {
        self.iocs.map.get(&id)
    }

    /// A thread.
    pub fn thread(&self, id: ThreadId) -> Option<&Thread> {
        self.threads.map.get(&id)
    }

    /// A record.
    pub fn record(&self, id: RecordId) -> Option<RecordRef<'_>> {
        self.records.get(id)
    }

    /// All records, by their number.
    pub fn records(&self) -> impl Iterator<Item = RecordRef<'_>> + '_ {
        self.records.iter()
    }

    /// The record that has this other name in an IOC. Looks through all other names, of which there are few.
    pub fn by_alias(&self, ioc: IocId, name: &str) -> Option<RecordRef<'_>> {
        let named = self.aliases.map.iter().filter(|(_, names)| names.iter().any(|alias| **alias == *name));
        named.filter_map(|(&record, _)| self.record(record)).find(|record| record.ioc == ioc)
    }

    /// A record's other names.
    pub fn aliases(&self, record: RecordId) -> &[Box<str>] {
        self.aliases.map.get(&record).map_or(&[], |names| names)
    }

    /// The texts of a record's states.
    pub fn states(&self, record: RecordId) -> &[Box<str>] {
        self.states.map.get(&record).map_or(&[], |texts| texts)
    }

    /// A menu.
    pub fn menu(&self, id: MenuId) -> Option<&Menu> {
        self.menus.map.get(&id)
    }

    /// A scan list.
    pub fn scan_list(&self, id: ScanListId) -> Option<&ScanList> {
        self.scan_lists.map.get(&id)
    }

    /// The list that a record is on.
    pub fn scanned(&self, record: RecordId) -> Option<&ScanList> {
        self.scan_list(*self.scanned.map.get(&record)?)
    }

    /// A field.
    pub fn field(&self, id: FieldId) -> Option<&Field> {
        self.fields.map.get(&id)
    }

    /// A site.
    pub fn site(&self, id: CallSiteId) -> Option<&CallSite> {
        self.sites.map.get(&id)
    }

    /// A circuit that is open.
    pub fn circuit(&self, id: CircuitId) -> Option<&Circuit> {
        self.circuits.map.get(&id)
    }

    /// A channel that is open.
    pub fn channel(&self, id: ChannelId) -> Option<&Channel> {
        self.channels.map.get(&id)
    }

    /// The circuit that a thread serves.
    pub fn serves(&self, thread: ThreadId) -> Option<CircuitId> {
        self.serves.map.get(&thread).copied()
    }

    /// Since when an IOC's hits are recorded; `None` while they are not, and in logs that don't tell.
    pub fn attached(&self, ioc: IocId) -> Option<&Attached> {
        self.attached.map.get(&ioc)
    }

    /// Whose the ends of an open circuit are, where that is known.
    pub fn circuit_ends(&self, circuit: CircuitId) -> Option<&CircuitEnds> {
        self.circuit_ends.map.get(&circuit)
    }

    /// Wall-clock time, nanoseconds since 1970 UTC, of a monotonic time: by the latest pair of clocks
    /// noted at or before it, else by the earliest; pairs of a wall clock that was never set don't count where there are
    /// others. `None` before the first pair is known.
    pub fn wall(&self, time: u64) -> Option<i64> {
        let before = self.clocks.iter().rev().find(|(at, _)| *at <= time);
        let &(at, wall) = before.or(self.clocks.front())?;
        Some(wall.saturating_add(time.wrapping_sub(at) as i64))
    }

    /// How many definitions were left out because of [`MAX_HELD`] or a [`Budget`].
    pub fn refused(&self) -> u64 {
        self.refused
    }

    fn held(&self) -> usize {
        let tables = [
            self.iocs.weight,
            self.threads.weight,
            self.records.weight(),
            self.aliases.weight,
            self.states.weight,
            self.menus.weight,
            self.scan_lists.weight,
            self.scanned.weight,
            self.fields.weight,
            self.sites.weight,
            self.circuits.weight,
            self.channels.weight,
            self.serves.weight,
            self.attached.weight,
            self.circuit_ends.weight,
        ];
        tables.iter().sum()
    }

    fn has_room(&mut self, weight: usize) -> bool {
        self.share.earn();
        let all = self.held().saturating_add(weight);
        let fits = all <= self.limit && self.share.take(all);
        self.refused += u64::from(!fits);
        fits
    }

    fn note_clock(&mut self, time: u64, wall: i64) {
        match self.clocks.back().map(|&(_, held)| can_be_right(held)) {
            Some(true) if !can_be_right(wall) => return,
            Some(false) if can_be_right(wall) => self.clocks.clear(),
            _ => {}
        }
        if self.clocks.len() == MAX_CLOCKS {
            self.clocks.pop_front();
        }
        self.clocks.push_back((time, wall));
    }

    fn put_record(&mut self, record: &Record) {
        match self.records.cost(record) {
            Some(cost) if self.has_room(cost) => self.records.put(record),
            Some(_) => {}
            None => self.refused += 1,
        }
    }

    fn put_alias(&mut self, alias: &Alias) {
        let known = self.aliases(alias.record);
        if known.len() >= MAX_ALIASES {
            self.refused += 1;
            return;
        }
        if known.iter().any(|name| **name == *alias.name) {
            return;
        }
        let names: Box<[Box<str>]> = known.iter().cloned().chain([alias.name.as_str().into()]).collect();
        if self.has_room(names.weight()) {
            self.aliases.put(alias.record, names);
        }
    }

    fn drop_ioc(&mut self, ioc: IocId) {
        self.iocs.take(ioc);
        self.attached.take(ioc);
        if !self.share.may_look_at(self.held() / TYPICAL) {
            return;
        }
        self.threads.keep(|_, thread| thread.ioc != ioc);
        self.records.drop_ioc(ioc);
        let records = &self.records;
        self.aliases.keep(|record, _| records.contains(*record));
        self.states.keep(|record, _| records.contains(*record));
        self.menus.keep(|_, menu| menu.ioc != ioc);
        self.scanned.keep(|record, _| records.contains(*record));
        self.scan_lists.keep(|_, list| list.ioc != ioc);
        self.fields.keep(|_, field| field.ioc != ioc);
        self.sites.keep(|_, site| site.ioc != ioc);
        let threads = &self.threads.map;
        self.serves.keep(|thread, _| threads.contains_key(thread));
        self.share.take(self.held());
    }

    fn drop_circuit(&mut self, circuit: CircuitId) {
        self.circuits.take(circuit);
        self.circuit_ends.take(circuit);
        let whole = (circuit, ChannelId::MIN)..=(circuit, ChannelId::MAX);
        let ended: Vec<ChannelId> = self.channels_of.range(whole).map(|&(_, channel)| channel).collect();
        for channel in ended {
            self.drop_channel(channel);
        }
        if self.share.may_look_at(self.serves.map.len()) {
            self.serves.keep(|_, served| *served != circuit);
        }
        self.share.take(self.held());
    }

    fn drop_channel(&mut self, id: ChannelId) {
        if let Some(channel) = self.channels.take(id) {
            self.channels_of.remove(&(channel.circuit, id));
        }
    }
}

impl From<RecordRef<'_>> for Record {
    fn from(record: RecordRef<'_>) -> Self {
        Record {
            id: record.id,
            ioc: record.ioc,
            address: record.address,
            name: record.name.to_owned(),
            rtype: record.rtype.to_owned(),
        }
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
