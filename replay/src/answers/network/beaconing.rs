//! Beacons: servers that start, start again, and fall silent.

use super::{iocs_by_server, place, push, text, Kind, NetLine, Place, Reading, Served};
use iocrec_log::context::Context;
use iocrec_log::event::{
    Address, Beacons, BeaconsNoted, Fact, Ioc, IocId, Ip6, Linkage, PvaBeacons, Registrations,
};
use std::collections::{BTreeSet, HashMap, HashSet};

/// Servers; a bound for hostile logs.
const MAX_SERVERS: usize = 10_000;
/// IOCs that serve at one port, one after the other or in containers; likewise.
const MAX_AT_PORT: usize = 64;
/// A server that has just started sends beacons 20 ms apart, then ever more seldom: number 10 comes after some 20 s.
const YOUNG: u32 = 10;
/// The interval of PVAccess at first, nanoseconds: later ones are longer.
const PVA_INTERVAL: i64 = 15_000_000_000;
/// Time within which an IOC serves after its process has started, nanoseconds: it may wait for its devices before.
const SERVES_WITHIN: i64 = 600_000_000_000;
/// The first interval, nanoseconds; each is twice as long as the one before.
const FIRST_INTERVAL: i64 = 20_000_000;

struct Note {
    kind: Kind,
    since: i64,
    last: Option<i64>,
    beacons: Beacons,
    /// The server's address as text.
    server: String,
    is_pva: bool,
    guids: String,
    reason: &'static str,
    /// Whether a part of the log is missing after it, in which it may be told that it is over.
    may_be_over: bool,
}

/// A GUID as text. Logs are hostile: no more of it than there should be.
fn hex(guid: &[u8]) -> String {
    guid.iter().take(12).map(|byte| format!("{byte:02x}")).collect()
}

/// An address as text, with `?` for one that is not told.
fn told(reading: &Reading, address: Address) -> String {
    reading.context.address(address).unwrap_or_else(|| format!("?:{}", address.port))
}

/// The recorded IOCs by the ports at which they serve: nobody may have connected to one while it was recorded.
struct ByPort<'a> {
    context: &'a Context,
    /// Where recorded IOCs are: addresses at which one served, or was a client, and the [homes](home) of those. Others may serve
    /// at the same port elsewhere.
    own: HashMap<(u64, u32), HashSet<Option<&'a str>>>,
    /// When each started, and its number; by protocol and port.
    iocs: HashMap<(bool, u16), Vec<(i64, IocId)>>,
}

/// Where an IOC is on its host: its pod, or the container that it is in; `None` if in none. What is in another one mostly has a
/// network of its own, with the same ports.
fn home(context: &Context, ioc: IocId) -> Option<&str> {
    context.container(ioc).map(|of| if of.pod.is_empty() { of.id.as_str() } else { of.pod.as_str() })
}

impl<'a> ByPort<'a> {
    fn of(reading: &Reading<'a>) -> ByPort<'a> {
        let context = reading.context;
        let mut own: HashMap<(u64, u32), HashSet<Option<&str>>> = HashMap::new();
        for (id, circuit) in context.in_force().circuits.iter() {
            let Some(ends) = context.circuit_ends(id) else { continue };
            for (ioc, address) in [(ends.server, circuit.server), (ends.client, circuit.client)] {
                if let Some(ioc) = ioc.filter(|_| address.ip >= Ip6::END) {
                    own.entry(without_port(ends.namespace, address)).or_default().insert(home(context, ioc));
                }
            }
        }
        let mut iocs: HashMap<(bool, u16), Vec<(i64, IocId)>> = HashMap::new();
        for ioc in context.iocs() {
            let started = context.wall(ioc.start).unwrap_or(i64::MIN);
            let ports = ioc.ca_ports.iter().map(|port| (false, *port));
            for port in ports.chain(ioc.pva_ports.iter().map(|port| (true, *port))) {
                let there = iocs.entry(port).or_default();
                if there.len() < MAX_AT_PORT {
                    there.push((started, ioc.id));
                }
            }
        }
        ByPort { context, own, iocs }
    }

    /// The only one that serves there, of those that were alive, if it is where the address is.
    fn only<'b>(
        &self,
        (is_pva, namespace, server): (bool, u64, Address),
        alive: impl Fn((i64, IocId)) -> Option<(i64, &'b Ioc)>,
    ) -> Option<(i64, &'b Ioc)> {
        let homes = self.own.get(&without_port(namespace, server)).filter(|_| server.ip >= Ip6::END)?;
        let there = self.iocs.get(&(is_pva, server.port)).filter(|there| there.len() < MAX_AT_PORT)?;
        let mut alive = there.iter().filter_map(|ioc| alive(*ioc));
        let only = alive.next().filter(|_| alive.next().is_none())?;
        homes.contains(&home(self.context, only.1.id)).then_some(only)
    }
}

/// An address without its port, and the network namespace in which it is meant.
fn without_port(namespace: u64, address: Address) -> (u64, u32) {
    let (namespace, Address { ip, .. }) = place(namespace, address);
    (namespace, ip)
}

/// See the module.
#[derive(Default)]
pub struct Beaconing {
    notes: Vec<Note>,
    /// The note in `notes` of servers that are silent.
    silent: HashMap<(bool, Place), usize>,
    servers: HashMap<(bool, Place), ()>,
    /// When the processes of IOCs ended: another one may have served at their places afterwards.
    ended: HashMap<IocId, i64>,
    /// The same by process id and start: a process may go on as another IOC, with another program or the same anew.
    left: HashMap<(u32, u64), BTreeSet<i64>>,
    repeaters: Vec<(i64, i64, Registrations)>,
    left_out: u64,
}

impl Beaconing {
    pub(super) fn take(&mut self, reading: &Reading, time: u64, fact: &Fact) {
        match fact {
            Fact::Beacons(beacons) => self.beacons(reading, beacons, None),
            Fact::PvaBeacons(of) => self.beacons(reading, &of.beacons, Some(of)),
            Fact::Registrations(of) => {
                let noted = (reading.wall(of.since), reading.wall(time), *of);
                push(&mut self.repeaters, noted, &mut self.left_out);
            }
            _ => {}
        }
    }

    /// Takes the end of an IOC's process.
    pub(super) fn ioc_ended(&mut self, reading: &Reading, time: u64, ioc: IocId) {
        if let Some(of) = reading.context.ioc(ioc) {
            let ended = *self.ended.entry(ioc).or_insert_with(|| reading.wall(time));
            self.left.entry((of.pid, of.start)).or_default().insert(ended);
        }
    }

    /// The IOC that served at a place at a time, and when its program had started: the last that had by then, if it was alive.
    fn sender<'a>(&self, reading: &'a Reading, served: &Served, time: i64) -> Option<(i64, &'a Ioc)> {
        let (started, ioc) = served.range(..=time).next_back()?;
        self.alive(reading, (*started, *ioc), time)
    }

    /// An IOC that started at a time, and when its program had, if it was alive at another time.
    fn alive<'a>(
        &self,
        reading: &'a Reading,
        (started, ioc): (i64, IocId),
        time: i64,
    ) -> Option<(i64, &'a Ioc)> {
        let was_alive = started <= time && self.ended.get(&ioc).is_none_or(|ended| time <= *ended);
        let ioc = reading.context.ioc(ioc).filter(|_| was_alive)?;
        let before = self.left.get(&(ioc.pid, ioc.start)).and_then(|ends| ends.range(..time).next_back());
        Some((before.map_or(started, |ended| (*ended).max(started)), ioc))
    }

    /// `pva`: the whole fact, with PVAccess.
    fn beacons(&mut self, reading: &Reading, of: &Beacons, pva: Option<&PvaBeacons>) {
        let seen = reading.wall(of.seen);
        let server = (pva.is_some(), place(of.namespace, of.server));
        if self.servers.len() >= MAX_SERVERS && !self.servers.contains_key(&server) {
            self.left_out += 1;
            return;
        }
        let is_known = self.servers.insert(server, ()).is_some();
        // Whatever else it says, it is not silent.
        if of.noted != BeaconsNoted::Overdue && of.count > 0 {
            if let Some(note) = self.silent.remove(&server).and_then(|at| self.notes.get_mut(at)) {
                note.last = Some(seen);
            }
        }
        // The recorder began then, and knew nothing before: a server whose beacon has this number may be older. Some
        // count from 1, and a busy one is late.
        let age = match pva {
            Some(_) => PVA_INTERVAL.saturating_mul(i64::from(of.last.min(YOUNG)) + 1),
            None => FIRST_INTERVAL << (of.last.min(YOUNG) + 2),
        };
        let soon = seen.saturating_sub(reading.began) < age.max(5_000_000_000);
        let (kind, reason) = match of.noted {
            BeaconsNoted::First if of.last < YOUNG && !soon => (Kind::ServerStarted, "first_beacon"),
            BeaconsNoted::First if !is_known => (Kind::ServerSeen, "first_seen"),
            BeaconsNoted::Restarted => (Kind::ServerRestarted, "new_guid"),
            // PVAccess counts to 255, so a low number may be a later one
            BeaconsNoted::OutOfStep if pva.is_some() => (Kind::BeaconsIrregular, "numbers_skipped"),
            BeaconsNoted::OutOfStep if of.last < of.expected && of.last < YOUNG => {
                (Kind::ServerRestarted, "numbers_begin_again")
            }
            BeaconsNoted::OutOfStep if of.last > of.expected => (Kind::BeaconsIrregular, "numbers_skipped"),
            BeaconsNoted::OutOfStep => (Kind::BeaconsIrregular, "numbers_back"),
            BeaconsNoted::Early => (Kind::BeaconsIrregular, "too_early"),
            BeaconsNoted::Overdue => (Kind::BeaconsMissing, "silent"),
            BeaconsNoted::First | BeaconsNoted::InStep | BeaconsNoted::Again => return,
        };
        if kind == Kind::BeaconsMissing {
            self.silent.insert(server, self.notes.len());
        }
        let guids = pva.map_or(String::new(), |of| match of.before.is_empty() {
            true => format!("GUID {}", hex(&of.guid)),
            false => format!("GUID {} instead of {}", hex(&of.guid), hex(&of.before)),
        });
        let is_pva = pva.is_some();
        let server = told(reading, of.server);
        let may_be_over = false;
        let note =
            Note { kind, since: seen, last: None, beacons: *of, server, is_pva, guids, reason, may_be_over };
        push(&mut self.notes, note, &mut self.left_out);
    }

    /// A part of the log is missing after a time: servers that were silent by then may have sent beacons again.
    pub(super) fn missing(&mut self, since: i64) {
        for place in self.silent.values() {
            if let Some(note) = self.notes.get_mut(*place).filter(|note| note.since <= since) {
                note.may_be_over = true;
            }
        }
    }

    /// The lines, and how much was left out.
    pub(super) fn lines(mut self, reading: &Reading, end: i64) -> (Vec<NetLine>, u64) {
        let iocs = iocs_by_server(reading.context);
        let by_port = ByPort::of(reading);
        let mut lines = Vec::new();
        for mut note in std::mem::take(&mut self.notes) {
            let of = note.beacons;
            // circuits over IPv6 are found by no address
            let served = iocs.get(&place(of.namespace, of.server)).filter(|_| of.server.ip >= Ip6::END);
            let ioc = match served {
                Some(served) => self.sender(reading, served, note.since),
                None => by_port.only((note.is_pva, of.namespace, of.server), |started| {
                    self.alive(reading, started, note.since)
                }),
            };
            // anybody can send a beacon with its address, and no IOC's numbers begin again while its program runs
            let before = note.since.saturating_sub_unsigned(of.gap);
            let had_begun =
                |by: i64| ioc.is_some_and(|(started, ioc)| started <= by && ioc.linkage != Linkage::Foreign);
            if note.reason == "numbers_begin_again" && had_begun(before) {
                (note.kind, note.reason) = (Kind::BeaconsIrregular, "numbers_back");
            }
            if note.reason == "first_beacon" && had_begun(note.since.saturating_sub(SERVES_WITHIN)) {
                (note.kind, note.reason) = (Kind::ServerSeen, "first_seen");
            }
            let mut line = NetLine::new(note.kind, reading.host, note.since);
            line.servers = vec![note.server];
            line.ioc = ioc.map(|(_, ioc)| ioc.name.clone()).unwrap_or_default();
            line.is_pva = note.is_pva;
            line.reason = note.reason;
            line.last = note.last;
            line.text = match note.kind {
                _ if note.reason == "new_guid" => note.guids,
                Kind::ServerStarted | Kind::ServerSeen if note.is_pva => {
                    format!("beacon number {}, {}", of.last, note.guids)
                }
                Kind::ServerStarted | Kind::ServerSeen => format!("beacon number {}", of.last),
                Kind::BeaconsMissing => String::new(),
                _ => format!("beacon number {} instead of {}", of.last, of.expected),
            };
            if note.kind == Kind::BeaconsMissing {
                let is_unknown = note.last.is_none() && note.may_be_over;
                line.going_on = (!is_unknown).then_some(note.last.is_none());
                let last = note.last.unwrap_or(end);
                line.duration = (!is_unknown).then(|| last.saturating_sub(note.since));
            } else if of.gap > 0 {
                line.duration = i64::try_from(of.gap).ok();
            }
            lines.push(line);
        }
        for (since, last, of) in self.repeaters {
            let mut line = NetLine::new(Kind::Repeater, reading.host, since);
            line.last = Some(last);
            line.servers = vec![text(of.repeater)];
            line.count = of.requests.into();
            line.text = format!("{} confirmed", of.confirmed);
            lines.push(line);
        }
        (lines, self.left_out)
    }
}
