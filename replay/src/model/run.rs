//! A recorder's run: the definitions that its hits refer to.

use super::asked::Ask;
use super::caller;
use super::client::Outputs;
use super::fetched::InputLinks;
use super::identities::Identities;
use super::links::Links;
use super::numbered::Numbered;
use super::peers::Peers;
use super::properties::Kept;
use super::shared_texts::SharedTexts;
use crate::reading::runs::course::Course;
use crate::reading::runs::set::{SetLater, Step};
use crate::shown_names::UNNAMED;
use iocrec_log::context::{Budget, Context, RecordRef};
use iocrec_log::event::{
    Address, CaClientPut, ChannelId, Circuit, CircuitId, Dbf, Event, Fact, FieldId, Ioc, IocEnd, IocId,
    Properties, RecordId, ThreadId,
};
use std::cell::{Cell, Ref, RefCell};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::net::Ipv4Addr;
use std::rc::Rc;
use std::sync::Arc;

/// Arrays whose room is remembered; a bound for hostile logs.
const MAX_ROOMS: usize = 100_000;

/// Channels of IOCs as clients that are found by their addresses; a bound for hostile logs.
const MAX_CHANNELS: usize = 200_000;

/// A pair of clocks, and the monotonic times for which it counts.
#[derive(Clone, Copy)]
struct Pair {
    noted: u64,
    wall: i64,
    next: u64,
    /// How often definitions had come or ended when it was looked up.
    changes: u64,
}

/// One run of one recorder on one host. Everything read from it shares it: chains look names up in it when they are
/// printed, and it is dropped with the last of them.
#[derive(Default)]
pub struct Run {
    context: RefCell<Context>,
    links: RefCell<Links>,
    input_links: RefCell<InputLinks>,
    properties: RefCell<Kept>,
    /// The most elements that arrays can have (NELM).
    rooms: RefCell<Numbered<RecordId, u32>>,
    changes: Cell<u64>,
    /// The pair of clocks that was used last.
    pair: Cell<Option<Pair>>,
    meanings: Cell<u64>,
    /// The links that write over Channel Access.
    outputs: RefCell<Outputs>,
    /// By IOC and address, the numbers of the channels of IOCs as clients.
    client_channels: RefCell<HashMap<(IocId, u64), u32>>,
    /// Who clients were before they said to be somebody else.
    identities: RefCell<Identities>,
    /// Texts that puts have in common.
    texts: RefCell<SharedTexts>,
    /// All runs that are read together, and the number of this one among them.
    peers: RefCell<Option<(Rc<Peers>, usize)>>,
    /// Where its clock was set back.
    course: RefCell<Course>,
    /// Whether it has segments before the first that is there.
    lacks_beginning: Cell<bool>,
    /// IOCs whose definitions are held.
    held: RefCell<HashMap<IocId, Held>>,
}

/// How often an IOC is held, and its end, which has not taken effect.
#[derive(Default)]
struct Held {
    count: usize,
    end: Option<(u64, IocEnd)>,
}

/// Keeps what is known of an IOC and its records in its run, also after its end, for who looks names up late.
pub struct HeldIoc {
    run: Rc<Run>,
    ioc: IocId,
}

impl Drop for HeldIoc {
    fn drop(&mut self) {
        self.run.release(self.ioc);
    }
}

impl Run {
    /// A run, with the time when its clock was set if that was later.
    pub fn new(set: Option<SetLater>) -> Run {
        Run::with(set, Context::default())
    }

    /// The same, with definitions that share a memory budget with those of other runs.
    pub fn sharing(set: Option<SetLater>, budget: &Arc<Budget>) -> Run {
        Run::with(set, Context::sharing(budget))
    }

    fn with(set: Option<SetLater>, mut context: Context) -> Run {
        set.inspect(|set| set.apply_to(&mut context));
        Run { context: RefCell::new(context), ..Run::default() }
    }

    /// Tells it the runs that are read together with it, and its number among them.
    pub fn is_one_of(&self, peers: &Rc<Peers>, number: usize) {
        *self.peers.borrow_mut() = Some((Rc::clone(peers), number));
    }

    /// The runs that are read together, and the number of this one.
    pub fn peers(&self) -> Option<(Rc<Peers>, usize)> {
        self.peers.borrow().clone()
    }

    /// The links of an IOC that write to a PV over Channel Access, as `RECORD.FIELD`.
    pub fn writers(&self, ioc: IocId, pv: &str) -> Vec<String> {
        self.outputs.borrow().of(&self.context.borrow(), ioc, pv)
    }

    /// Whether the recorder leaves out chains of records that begin many.
    pub fn is_sampled(&self) -> bool {
        self.context().chain_sampling().is_some_and(|sampling| sampling.chains > 0)
    }

    /// Notes that a thread asked libca to put.
    pub fn asks_to_put(&self, time: u64, put: &CaClientPut) {
        let Some((peers, number)) = self.peers() else { return };
        let context = self.context();
        let Some(thread) = context.thread(put.thread) else { return };
        let Some(wall) = context.wall(time) else { return };
        let id = self.client_channels.borrow().get(&(thread.ioc, put.channel)).copied();
        let channel = id.and_then(|id| context.in_force().client_channels.get(id));
        let channel = channel.map(|channel| (channel.cid, channel.pv.as_str()));
        let is_sampled = self.is_sampled();
        let by_sequencer = caller::is_sequencer(&context, put.site);
        let ask = Ask { time: wall, thread: &thread.name, channel, by_sequencer, is_sampled };
        peers.asks(number, thread.ioc, &ask);
    }

    /// Notes that hits were lost between two times.
    pub fn lost_hits(&self, since: u64, until: u64) {
        let Some((peers, number)) = self.peers() else { return };
        let context = self.context();
        peers.lost(number, context.wall(since).unwrap_or(i64::MIN), context.wall(until).unwrap_or(i64::MAX));
    }

    /// Notes that the log may lack what was between two times.
    pub fn lacks(&self, since: u64, until: u64) {
        let Some((peers, number)) = self.peers() else { return };
        let context = self.context();
        peers.lacks(number, context.wall(since).unwrap_or(i64::MIN), context.wall(until).unwrap_or(i64::MAX));
    }

    /// Notes the properties of records.
    pub fn note(&self, event: &Event) {
        match &event.fact {
            Fact::Properties(properties) => {
                self.properties.borrow_mut().add(self.wall(event.time), properties);
            }
            Fact::FieldValue(held) => {
                if let Some(field) = self.context().field(held.field) {
                    if field.dbf == Dbf::InLink {
                        let of = (field.id, field.name.as_str());
                        self.input_links.borrow_mut().add(held.record, of, &held.value);
                    }
                    self.properties.borrow_mut().changed(self.wall(event.time), &field.name, held);
                }
            }
            _ => {}
        }
    }

    /// The properties that a record had at a wall-clock time, as far as events up to the latest one tell; `None` if the log
    /// has none yet.
    pub fn properties(&self, record: RecordId, wall: i64) -> Option<Rc<Properties>> {
        self.properties.borrow().of(record, wall)
    }

    /// Notes the most elements that a record's array can have. That never changes.
    pub fn has_room(&self, record: RecordId, elements: u32) {
        let mut rooms = self.rooms.borrow_mut();
        if rooms.len() < MAX_ROOMS || rooms.contains_key(&record) {
            *rooms.entry(record).or_default() = elements;
        }
    }

    /// The most elements that a record's array can have; `None` if the log does not hold that yet.
    pub fn room(&self, record: RecordId) -> Option<u32> {
        self.rooms.borrow().get(&record).copied()
    }

    /// Notes that a record has this CP link at that time. All of its links come with the same time.
    pub fn has_link(&self, time: u64, record: RecordId, field: FieldId, link: &[u8]) {
        self.links.borrow_mut().add(time, record, field, link);
    }

    /// Notes that a link of a record is changed: its links are unknown from then on.
    pub fn link_changes(&self, time: u64, record: RecordId) {
        self.links.borrow_mut().change(time, record);
        self.input_links.borrow_mut().change(record);
    }

    /// The input links of records that are no constants.
    pub fn input_links(&self) -> Ref<'_, InputLinks> {
        self.input_links.borrow()
    }

    /// A put changes the names of a record's states; they are read later.
    pub fn states_change(&self, time: u64, record: RecordId) {
        self.context.borrow_mut().has_renamed_states(record, time);
    }

    /// The only CP link that a record had at a time: its field and its source. `None` if it had several, or if that is
    /// unknown.
    pub fn cp_link(&self, time: u64, record: RecordId) -> Option<(FieldId, String)> {
        self.links.borrow().only(time, record)
    }

    /// All CP links that a record had at a time: fields and sources. None if they are not known.
    pub fn cp_links(&self, time: u64, record: RecordId) -> Vec<(FieldId, String)> {
        self.links.borrow().all(time, record)
    }

    /// Holds an IOC until the answer is dropped.
    pub fn hold(self: &Rc<Run>, ioc: IocId) -> HeldIoc {
        self.held.borrow_mut().entry(ioc).or_default().count += 1;
        HeldIoc { run: Rc::clone(self), ioc }
    }

    fn release(&self, ioc: IocId) {
        let mut held = self.held.borrow_mut();
        let Some(of) = held.get_mut(&ioc) else { return };
        of.count = of.count.saturating_sub(1);
        if of.count > 0 {
            return;
        }
        let end = held.remove(&ioc).and_then(|of| of.end);
        drop(held);
        // who is just reading the context needs no room in it
        let is_free = self.context.try_borrow_mut().is_ok();
        if let Some((time, end)) = end.filter(|_| is_free) {
            self.apply(time, &Fact::IocEnd(end));
        }
    }

    /// Whether an end waits until the IOC is no longer held.
    fn defers(&self, time: u64, fact: &Fact) -> bool {
        let mut held = self.held.borrow_mut();
        match fact {
            Fact::IocEnd(end) => match held.get_mut(&end.ioc) {
                Some(of) => of.end = Some((time, end.clone())),
                None => return false,
            },
            // the number is another one's now
            Fact::Ioc(ioc) => {
                held.get_mut(&ioc.id).into_iter().for_each(|of| of.end = None);
                return false;
            }
            _ => return false,
        }
        true
    }

    /// Applies a fact. Apply ends late, when no chain refers to the ended definitions any more.
    pub fn apply(&self, time: u64, fact: &Fact) {
        if self.defers(time, fact) {
            return;
        }
        if let Fact::Circuit(circuit) = fact {
            self.identities.borrow_mut().note(time, self.context().circuit(circuit.id), circuit);
        }
        if let Fact::Channel(channel) = fact {
            self.identities.borrow_mut().has_channel(channel.id);
        }
        self.context.borrow_mut().apply(time, fact);
        if let Fact::OutputLinks(of) = fact {
            self.outputs.borrow_mut().note(of);
        }
        if let Fact::ClientChannel(of) = fact {
            let mut channels = self.client_channels.borrow_mut();
            if channels.len() < MAX_CHANNELS {
                channels.insert((of.ioc, of.address), of.id);
            }
        }
        self.changes.set(self.changes.get() + 1);
        if !is_of_network(fact) {
            self.meanings.set(self.meanings.get() + 1);
        }
    }

    /// Rises whenever a definition comes or ends that can change what hits mean: one of a thread, function, record ...,
    /// not one of a client or of the clock, of which many come all the time.
    pub fn meanings(&self) -> u64 {
        self.meanings.get()
    }

    /// User and host that the client of a circuit said to have at a time, when a put came on this channel; `None` if it said
    /// nothing.
    pub fn identity(&self, time: u64, channel: Option<ChannelId>, circuit: &Circuit) -> [Option<Rc<str>>; 2] {
        let identities = self.identities.borrow();
        let (user, host) = identities.at(time, channel, circuit);
        let mut texts = self.texts.borrow_mut();
        [user, host].map(|text| texts.share(text))
    }

    /// A text that many puts have in common; `None` if it is empty.
    pub fn share(&self, text: &str) -> Option<Rc<str>> {
        self.texts.borrow_mut().share(text)
    }

    /// The addresses of client and server of an open circuit, as [`Context::addresses`] has them.
    pub fn addresses(&self, circuit: CircuitId) -> [Option<Rc<str>>; 2] {
        self.texts.borrow_mut().addresses(&self.context(), circuit)
    }

    /// The definitions.
    pub fn context(&self) -> Ref<'_, Context> {
        self.context.borrow()
    }

    /// Wall-clock time, nanoseconds since 1970 UTC, of a monotonic time; the monotonic time itself if the run never
    /// recorded the wall clock.
    pub fn wall(&self, time: u64) -> i64 {
        let fits =
            |pair: &Pair| (pair.noted..pair.next).contains(&time) && pair.changes == self.changes.get();
        if let Some(pair) = self.pair.get().filter(fits) {
            return pair.wall.saturating_add(time.wrapping_sub(pair.noted) as i64);
        }
        self.pair.set(self.context().clocks_at(time).map(|(noted, wall, next)| Pair {
            noted,
            wall,
            next,
            changes: self.changes.get(),
        }));
        self.context().wall(time).unwrap_or_else(|| i64::try_from(time).unwrap_or(i64::MAX))
    }

    /// The place of a monotonic time in the order of time: as [`Run::wall`], but never earlier than what came before, also
    /// where the machine's clock was set back.
    pub fn even(&self, time: u64) -> i64 {
        self.course.borrow().even(time, self.wall(time))
    }

    /// Tells it that it has segments before the first that is there.
    pub fn has_lost_beginning(&self) {
        self.lacks_beginning.set(true);
    }

    /// Whether it has.
    pub fn lacks_beginning(&self) -> bool {
        self.lacks_beginning.get()
    }

    /// Tells it where its clock was set back.
    pub fn runs_in(&self, course: Course) {
        *self.course.borrow_mut() = course;
    }

    /// Notes a step of its clock.
    pub fn clock_steps(&self, time: u64, step: Step) {
        self.course.borrow().note(time, step);
    }

    /// Name of the host; empty if unknown.
    pub fn host(&self) -> String {
        self.context().host().map(|host| host.name.clone()).unwrap_or_default()
    }
}

/// Whether a definition or end concerns only clients, or the clock.
fn is_of_network(fact: &Fact) -> bool {
    matches!(
        fact,
        Fact::Clock(_)
            | Fact::Circuit(_)
            | Fact::CircuitEnds(_)
            | Fact::CircuitProcess(_)
            | Fact::CircuitEnd(_)
            | Fact::CircuitForgotten(_)
            | Fact::Channel(_)
            | Fact::ChannelEnd(_)
            | Fact::ChannelForgotten(_)
            | Fact::ServerThread(_)
    )
}

/// Name of a record, or its number if the log does not hold the name.
pub fn record_name(context: &Context, record: RecordId) -> String {
    let mut name = String::new();
    push_name_of(&mut name, context.record(record), record);
    name
}

/// Appends what [`record_name`] returns for a record and its number.
pub fn push_name_of(text: &mut String, record: Option<RecordRef>, number: RecordId) {
    match record {
        Some(record) => text.push_str(record.name),
        None => _ = write!(text, "{UNNAMED}{number}"),
    }
}

/// Whether the value field of this record's type means anything. In records that only process others it stays 0.
pub fn has_value(context: &Context, record: RecordId) -> bool {
    type_has_value(context.record(record).map_or("", |record| record.rtype))
}

/// Whether the value field of records of this type means anything.
pub fn type_has_value(rtype: &str) -> bool {
    !matches!(rtype, "fanout" | "seq" | "sseq")
}

/// Name of a field, if known.
pub fn field_name(context: &Context, field: Option<FieldId>) -> Option<&str> {
    context.field(field?).map(|field| field.name.as_str())
}

/// The IOC that a thread belongs to.
pub fn ioc_of_thread(context: &Context, thread: ThreadId) -> Option<&Ioc> {
    context.ioc(context.thread(thread)?.ioc)
}

/// The recorded IOC that a circuit leads to. The recorder notes the owner of the server's socket. In a log of an older
/// recorder it is known only if a single IOC listened on the port, and on the address if it has one.
pub fn ioc_of_circuit(context: &Context, circuit: CircuitId) -> Option<&Ioc> {
    if let Some(ends) = context.circuit_ends(circuit) {
        return context.ioc(ends.server?);
    }
    let server = context.circuit(circuit)?.server;
    let mut fitting = context.iocs().filter(|ioc| can_serve(ioc, server));
    fitting.next().filter(|_| fitting.next().is_none())
}

/// Whether an IOC's server can have this address, by its ports and its environment.
pub fn can_serve(ioc: &Ioc, server: Address) -> bool {
    let addresses = ioc.environment.iter().find(|(name, _)| name == "EPICS_CAS_INTF_ADDR_LIST");
    let ip = Ipv4Addr::from(server.ip);
    let listens = addresses.is_none_or(|(_, list)| {
        let addresses: Vec<Ipv4Addr> = list
            .split_ascii_whitespace()
            .map_while(|word| word.split(':').next().and_then(|address| address.parse().ok()))
            .collect();
        // host names and 0.0.0.0 may stand for any address
        addresses.len() < list.split_ascii_whitespace().count()
            || addresses.is_empty()
            || addresses.iter().any(|address| *address == ip || address.is_unspecified())
    });
    listens && ioc.ca_ports.contains(&server.port)
}

#[cfg(test)]
mod tests {
    use super::*;
    use iocrec_log::event::{Circuit, CircuitEnds, Linkage, Origin};

    fn ioc(id: u32, interfaces: Option<&str>) -> Ioc {
        let list = |list: &str| ("EPICS_CAS_INTF_ADDR_LIST".to_owned(), list.to_owned());
        Ioc {
            id,
            pid: 100 + id,
            start: 1,
            name: format!("ioc{id}"),
            exe: String::new(),
            cwd: String::new(),
            command: vec![],
            base_version: String::new(),
            ca_ports: vec![5064],
            linkage: Linkage::Shared,
            not_probed: vec![],
            user: String::new(),
            pva_ports: vec![],
            environment: interfaces.map(list).into_iter().collect(),
        }
    }

    /// The owner of a circuit to this address, with these IOCs and these recorded ends.
    fn whose(iocs: &[Ioc], server: [u8; 4], ends: Option<Option<u32>>) -> Option<u32> {
        let mut context = Context::default();
        iocs.iter().for_each(|ioc| context.apply(0, &Fact::from(ioc.clone())));
        let (client, server) = (Address { ip: 1, port: 40000 }, Address::new(server.into(), 5064));
        let (user, host) = (String::new(), String::new());
        let circuit = Circuit { id: 1, client, server, user, host, minor: 13, origin: Origin::Opened };
        context.apply(1, &Fact::from(circuit));
        if let Some(server) = ends {
            let ends = CircuitEnds { circuit: 1, namespace: 7, server, client: None };
            context.apply(2, &Fact::CircuitEnds(ends));
        }
        ioc_of_circuit(&context, 1).map(|ioc| ioc.id)
    }

    #[test]
    fn a_port_alone_tells_nothing_where_two_have_it() {
        let two = [ioc(1, Some("127.0.0.1")), ioc(2, Some("127.0.0.2"))];
        let (first, second, third) = ([127, 0, 0, 1], [127, 0, 0, 2], [127, 0, 0, 3]);
        assert_eq!(whose(&two, first, Some(Some(2))), Some(2), "the socket's owner is certain");
        assert_eq!(whose(&two, first, Some(None)), None, "the recorder did not know");
        assert_eq!(whose(&two[..1], second, Some(None)), None, "though one alone has the port");
        // logs that don't record the owner
        assert_eq!((whose(&two, first, None), whose(&two, second, None)), (Some(1), Some(2)));
        assert_eq!(whose(&two, third, None), None);
        let vague = [ioc(1, None), ioc(2, Some("127.0.0.2"))];
        assert_eq!((whose(&vague, first, None), whose(&vague, second, None)), (Some(1), None));
        assert_eq!(whose(&vague[..1], third, None), Some(1), "one alone");
        for any in ["", "0.0.0.0", "ioc-host", "127.0.0.9 ioc-host"] {
            assert_eq!(whose(&[ioc(1, Some(any))], third, None), Some(1), "{any:?}");
        }
    }
}
