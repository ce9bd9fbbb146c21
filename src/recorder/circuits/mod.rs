//! Channel Access circuits: packets, the processes at both ends, names of channels, and the threads that serve them.
//!
//! All events from packets pass [`Circuits::hand_over`], which leaves out puts to PVs that the user does not want.

mod ended_servers;
pub mod ends;
pub mod local_clients;
pub mod places;
pub mod processes;
pub mod pva_servers;
pub mod server_threads;

use std::collections::HashSet;

use iocrec_log::event::{Address, ChannelId, CircuitId, Event, Fact, ServerThread};

use crate::ca::SeedChannel;
use crate::inspector::ServedClient;
use crate::ioc::clients::{Client, ClientChannel};
use crate::keyed::KeyedMap;
use crate::linux::version;
use crate::net::capture::{Filtering, Packet, Told};
use crate::net::checksum;
use crate::net::frames::{Frame, Strange};
use crate::net::packet::{addresses, End};
use crate::net::served::Served;
use crate::net::service::Ports;
use crate::net::Namespace;
use crate::protocols::Protocols;
use crate::recorder::circuits::ended_servers::EndedServers;
use crate::recorder::circuits::ends::EndFinder;
use crate::recorder::circuits::local_clients::LocalClients;
use crate::recorder::circuits::places::Places;
use crate::recorder::circuits::processes::ClientProcesses;
use crate::recorder::circuits::pva_servers::PvaServers;
use crate::recorder::circuits::server_threads::ServerThreads;
use crate::recorder::env::Env;
use crate::recorder::registry::Registry;

/// Longest delay between a hit and the packets that caused it, nanoseconds: the kernel may keep them for two fifths of a second
/// ([`crate::net::capture::Capture::handed_over`]). After this time only memory can name the circuit.
const PACKETS_LAG: u64 = 600_000_000;

/// Unwanted channels, or circuits that have ended, that are too few to look for those that belong together.
const FEW: usize = 1024;

/// See the module.
pub struct Circuits {
    protocols: Protocols,
    /// Channels to PVs that the user does not want, and their circuits: open ones, and some of `ended`.
    unwanted: KeyedMap<ChannelId, CircuitId>,
    /// Circuits that have ended since the channels were last looked through.
    ended: HashSet<CircuitId>,
    /// How many of either there are when they are looked through again.
    many: usize,
    /// Finds the owners of the ends.
    ends: EndFinder,
    /// Servers whose last packets may still come.
    ended_servers: EndedServers,
    /// Finds the processes of the clients on this machine.
    processes: ClientProcesses,
    /// Names of channels from clients on this machine.
    local_clients: LocalClients,
    /// Names of PVAccess channels from servers on this machine.
    pva_servers: PvaServers,
    /// The network namespaces and CA servers' ports that are recorded, as of the last look.
    places: Places,
    /// Threads that serve them.
    pub server_threads: ServerThreads,
    /// Events from packets; reused.
    events: Vec<Event>,
}

impl Default for Circuits {
    fn default() -> Circuits {
        let mut protocols = Protocols::default();
        protocols.ca.report_ends();
        protocols.pva.report_ends();
        protocols.expect_confirmation();
        Circuits {
            protocols,
            unwanted: KeyedMap::default(),
            ended: HashSet::new(),
            many: FEW,
            ends: EndFinder::default(),
            ended_servers: EndedServers::default(),
            processes: ClientProcesses::default(),
            local_clients: LocalClients::default(),
            pva_servers: PvaServers::default(),
            places: Places::default(),
            server_threads: ServerThreads::default(),
            events: Vec::new(),
        }
    }
}

impl Circuits {
    /// The circuit of Channel Access or PVAccess that is open between these ends.
    pub fn circuit(&self, namespace: Namespace, client: Address, server: Address) -> Option<CircuitId> {
        let Protocols { ca, pva, .. } = &self.protocols;
        ca.circuit(namespace, client, server)
            .or_else(|| pva.connections.find(namespace, client, server).and_then(|(circuit, _)| circuit.id()))
    }

    /// From now on expects packets that a capture has filtered in this way.
    pub fn expect_filter(&mut self, filtering: Filtering) {
        self.protocols.ca.expect_filter();
        // the stateless one lets each segment's headers pass
        if filtering == Filtering::Stateful {
            self.protocols.pva.expect_filter();
        }
    }

    /// For packets from a file: nobody knows the processes at the ends.
    pub fn of_file() -> Circuits {
        let mut protocols = Protocols::of_file();
        protocols.expect_confirmation();
        Circuits { protocols, ..Circuits::default() }
    }

    /// Sets the ports of the servers in a file, whose packets count as of this many network namespaces, from 0.
    pub fn serve(&mut self, now: u64, ports: &Ports, namespaces: Namespace) {
        let served =
            |namespace| Served { namespace, ports: ports.clone(), captured: Some(0), ..Served::default() };
        let served: Vec<Served> = (0..namespaces).map(served).collect();
        self.protocols.set_served(now, &served, &mut self.events);
    }

    /// From now on notes Channel Access beside puts.
    pub fn count_traffic(&mut self) {
        self.protocols.ca.count_traffic();
    }

    /// Takes a packet, from its network header on, that was seen in a network namespace at a monotonic time.
    pub fn packet(&mut self, namespace: Namespace, time: u64, packet: &[u8], original_length: usize) {
        self.protocols.packet(namespace, time, packet, original_length, None, &mut self.events);
    }

    /// The same for what a packet carries.
    pub fn frame(&mut self, namespace: Namespace, time: u64, frame: Frame<'_>) {
        self.protocols.frame(namespace, time, frame, None, &mut self.events);
    }

    /// The same for one that a capture has filtered. `all`: it is of all interfaces.
    pub fn captured(&mut self, namespace: Namespace, time: u64, packet: &Packet, all: bool) {
        let Packet { bytes, length, place, unverified, kind, .. } = *packet;
        let served = self.protocols.pva.connections.served(namespace);
        if served.zip(addresses(bytes)).is_some_and(|(served, ends)| served.refuses(kind, ends, all)) {
            return;
        }
        // Before Linux 4.1 the kernel does not say what the hardware has verified, and put together.
        if unverified && checksum::is_wrong(bytes) && !version::running().is_before(4, 1) {
            let segment = Frame::read(bytes, length).segment;
            return self.protocols.note_strange(Strange::Damaged, time, segment.as_ref());
        }
        self.processes.note_packet(namespace, time, bytes);
        self.protocols.packet(namespace, time, bytes, length, place, &mut self.events);
    }

    /// From now on takes what a capture of this namespace tells beside packets.
    pub fn watch_told(&mut self, namespace: Namespace, now: u64, told: Told, commands: bool) {
        if let Some(connects) = told.connects {
            self.processes.watch_connects(namespace, connects, commands);
        }
        self.protocols.ca.watch_counts(namespace, now, told.counts);
    }

    /// Takes over what was told of them: before the packets that come after it.
    pub fn take_connects(&mut self, now: u64) {
        self.processes.take_connects(now, &mut self.events);
    }

    /// Servers of PVAccess that have shown themselves since the last call, at ports of which it was a guess.
    pub fn take_shown(&mut self) -> Vec<(Namespace, End)> {
        self.protocols.pva.take_shown()
    }

    /// Takes over names of channels from clients and servers on this machine.
    pub fn name_channels(&mut self, now: u64) {
        self.local_clients.step(now, &self.places, &mut self.protocols.ca, &mut self.events);
        self.pva_servers.step(now, &self.places, &mut self.protocols.pva, &mut self.events);
    }

    /// Does the work that is due at this time.
    pub fn tick(&mut self, env: &mut Env<'_>, now: u64) {
        self.protocols.tick(now, &mut self.events);
        self.hand_over(env);
    }

    /// Whether it looks something up, or should soon.
    pub fn is_busy(&self) -> bool {
        let finds_names = self.local_clients.is_busy() || self.pva_servers.is_busy();
        self.ends.is_busy() || self.ended_servers.is_busy() || self.processes.is_busy() || finds_names
    }

    /// Takes the places of the traced processes.
    pub fn set_places(&mut self, places: Places) {
        self.ends.set_places(places);
    }

    /// The network namespaces and ports that are recorded.
    pub fn places(&self) -> &Places {
        &self.places
    }

    /// Whether those that it was given last are looked at by now: before that, none of their packets are captured.
    pub fn is_placed(&self) -> bool {
        self.ends.is_placed()
    }

    /// Sets the namespaces whose packets are captured; those that were not before, since that time.
    pub fn set_captured(&mut self, since: u64, namespaces: &[Namespace]) {
        self.protocols.set_captured(since, namespaces);
    }

    /// Finds the owners of the circuits. True if the places or servers may have changed. `at_once`:
    /// waits for the look.
    pub fn find_ends(&mut self, env: &mut Env<'_>, now: u64, at_once: bool) -> bool {
        self.processes.step(now, &self.places, !env.options.no_command_lines, &mut self.events);
        self.hand_over(env);
        self.ends.look_for(self.protocols.take_unconfirmed());
        let found = self.ends.step(now, at_once, &mut self.events);
        for (namespace, client, server) in self.ends.take_confirmed() {
            self.protocols.confirm(namespace, (client.into(), server.into()), &mut self.events);
        }
        let Some((served, places)) = found else {
            let Some(served) = self.ended_servers.expire(now) else { return false };
            self.protocols.set_served(now, &served, &mut self.events);
            return true;
        };
        self.hand_over(env);
        let served = self.ended_servers.take(now, served);
        self.protocols.set_served(now, &served, &mut self.events);
        if places != self.places {
            self.places = places;
            self.local_clients.all_are_due();
            self.pva_servers.all_are_due();
        }
        true
    }

    /// Takes over the clients read from IOCs' memory: names for channels that were opened before the recorder started.
    pub fn seed(&mut self, env: &mut Env<'_>, iocs: &mut Registry) {
        let now = env.now;
        for ioc in iocs.iter_mut() {
            let namespace = ioc.namespace.unwrap_or_default();
            for ServedClient { server, client } in std::mem::take(&mut ioc.clients) {
                let circuit = self.seed_client(namespace, now, server, &client);
                let Some(tid) = client.tid else { continue };
                match ioc.threads.id(tid) {
                    Some(thread) => {
                        let fact = Fact::ServerThread(ServerThread { thread, circuit });
                        self.server_threads.known.push(Event { time: now, fact });
                    }
                    None => _ = ioc.serving.insert(tid, circuit),
                }
            }
        }
        self.hand_over(env);
    }

    fn seed_client(&mut self, namespace: Namespace, now: u64, server: Address, client: &Client) -> CircuitId {
        let channel = |channel: &ClientChannel| SeedChannel {
            cid: Some(channel.cid),
            sid: channel.sid,
            pv: channel.pv.clone(),
            dbr: None,
            count: None,
        };
        let channels: Vec<SeedChannel> = client.channels.iter().map(channel).collect();
        let Client { address, user, host, .. } = client;
        self.protocols.ca.seed(namespace, now, *address, server, user, host, 0, &channels, &mut self.events)
    }

    /// Ties threads to circuits as these get their ids; `all`: without waiting for packets.
    pub fn tie_threads(&mut self, env: &mut Env<'_>, all: bool) {
        let now = env.monotonic();
        for unknown in std::mem::take(&mut self.server_threads.unknown) {
            let (client, namespace, server) = (unknown.client.address, unknown.namespace, unknown.server);
            let ca = &self.protocols.ca;
            // a client may have gone by now
            let open = ca.circuit(namespace, client, server).is_some();
            let then = ca.circuit_then(namespace, client, server, unknown.time);
            let waits = !all && now < unknown.noted.saturating_add(PACKETS_LAG);
            let (has_come, is_later) = ca.has_come_to(namespace, client, server, unknown.time);
            let circuit = match then {
                // the one that it served is over, perhaps with nothing known of it any more
                _ if is_later => match ca.circuit_before(namespace, client, server, unknown.time) {
                    Some(circuit) => circuit,
                    None => continue,
                },
                Some(circuit) if !open => circuit,
                // the one that seems open may be an earlier one from the same port, of which the end is still to come
                _ if waits && (then.is_none() || !has_come) => {
                    self.server_threads.unknown.push(unknown);
                    continue;
                }
                // only the server's memory knows the client of a circuit opened before its packets were captured
                Some(_) | None => self.seed_client(namespace, unknown.time, server, &unknown.client),
            };
            let fact = Fact::ServerThread(ServerThread { thread: unknown.thread, circuit });
            self.server_threads.known.push(Event { time: unknown.time, fact });
        }
        // the circuits that they name come first
        self.hand_over(env);
        self.server_threads.known.drain(..).for_each(|event| env.sink.push(event));
    }

    /// Hands the events from packets to the sink, except puts to unwanted PVs: not those on channels whose names are not known
    /// yet. The ends of their channels belong to it, since the log has the beginnings.
    pub fn hand_over(&mut self, env: &mut Env<'_>) {
        let selection = &env.options.selection;
        for event in self.events.drain(..) {
            self.local_clients.notice(&event);
            self.pva_servers.notice(&event);
            self.ends.notice(&event);
            let process = self.processes.notice(&event);
            // the channel that is used, and the one that is not unwanted any more
            let (used, wanted) = match &event.fact {
                Fact::Channel(channel) if selection.pv(&channel.pv) => (None, Some(channel.id)),
                Fact::Channel(channel) => {
                    self.unwanted.entry(channel.id).or_insert(channel.circuit);
                    (None, None)
                }
                Fact::ChannelEnd(channel) | Fact::ChannelForgotten(channel) => (None, Some(*channel)),
                Fact::CircuitEnd(circuit) | Fact::CircuitForgotten(circuit) if !self.unwanted.is_empty() => {
                    self.ended.insert(*circuit);
                    (None, None)
                }
                Fact::CaPut(put) => (Some(put.channel), None),
                Fact::PvaPut(put) => (Some(put.channel), None),
                Fact::PvaMonitor(monitor) => (Some(monitor.channel), None),
                _ => (None, None),
            };
            if used.is_some_and(|channel| self.unwanted.contains_key(&channel)) {
                continue;
            }
            wanted.map(|channel| self.unwanted.remove(&channel));
            let time = event.time;
            env.sink.push(event);
            if let Some(process) = process {
                env.sink.push(Event { time, fact: Fact::CircuitProcess(process) });
            }
        }
        if self.unwanted.len().max(self.ended.len()) >= self.many {
            let ended = std::mem::take(&mut self.ended);
            self.unwanted.retain(|_, &mut circuit| !ended.contains(&circuit));
            self.many = 2 * self.unwanted.len() + FEW;
        }
    }

    /// Gives up all waiting when recording ends.
    pub fn finish(&mut self, env: &mut Env<'_>) {
        self.tie_threads(env, true);
        self.protocols.finish(env.monotonic(), &mut self.events);
        self.hand_over(env);
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::recorder::circuits::server_threads::Unknown;
    use crate::recorder::selection::Selection;
    use crate::recorder::testing::{Bench, MILLISECOND, SECOND};
    use iocrec_log::event::{CaPut, Channel, Origin, PvaMonitor};

    fn channel(circuit: CircuitId, id: ChannelId, pv: &str) -> Fact {
        let (pv, origin) = (pv.to_owned(), Origin::Opened);
        Fact::from(Channel { id, circuit, cid: Some(1), sid: Some(1), pv, dbr: None, count: None, origin })
    }

    /// A channel that was open before the recorder began may be to any PV. What is written until its name is found is no less
    /// a put to it.
    #[test]
    fn puts_before_a_name_is_known_are_kept() {
        let put = |channel| {
            let (dbr, payload) = (5, vec![0, 0, 0, 7]);
            let (notify, count, ioid, length) = (false, 1, 1, 4);
            Fact::CaPut(CaPut { circuit: 1, channel, notify, dbr, count, ioid, length, payload })
        };
        let mut bench = Bench::new();
        bench.options.selection = Selection::new(&["T:*".into()], &[]);
        let mut circuits = Circuits::default();
        let before = [channel(1, 1, ""), channel(1, 2, ""), put(1), put(2)];
        let after = [channel(1, 1, "T:A"), channel(1, 2, "X"), put(1), put(2)];
        let facts = before.into_iter().chain(after);
        circuits.events.extend(facts.map(|fact| Event { time: 1, fact }));
        circuits.hand_over(&mut bench.env());
        let put_to = |fact: &Fact| if let Fact::CaPut(put) = fact { Some(put.channel) } else { None };
        assert_eq!(bench.facts().iter().filter_map(put_to).collect::<Vec<_>>(), [1, 2, 1]);
    }

    /// Circuits end without saying that their channels do.
    #[test]
    fn unwanted_channels_end() {
        let mut bench = Bench::new();
        bench.options.selection = Selection::new(&["T:*".into()], &[]);
        let mut circuits = Circuits::default();
        let take = |circuits: &mut Circuits, bench: &mut Bench, facts: Vec<Fact>| {
            circuits.events.extend(facts.into_iter().map(|fact| Event { time: 1, fact }));
            circuits.hand_over(&mut bench.env());
        };
        take(&mut circuits, &mut bench, vec![channel(1, 1, "X"), channel(1, 2, "T:A"), channel(1, 3, "Y")]);
        for circuit in 10..10_000 {
            let own = [2 * circuit, 2 * circuit + 1].map(|id| channel(circuit, id, "X"));
            take(&mut circuits, &mut bench, own.into());
            take(&mut circuits, &mut bench, vec![Fact::CircuitEnd(circuit)]);
        }
        assert!(circuits.unwanted.len() < 2000 && circuits.ended.len() < 2000);
        bench.sink.take();
        let monitor = |channel| Fact::PvaMonitor(PvaMonitor { circuit: 1, channel, ioid: 1, starts: true });
        take(&mut circuits, &mut bench, [1, 2, 3].map(monitor).into());
        // the log has its beginning
        take(&mut circuits, &mut bench, vec![Fact::ChannelEnd(1)]);
        let facts = bench.facts();
        assert!(
            matches!(facts.as_slice(), [Fact::PvaMonitor(of), Fact::ChannelEnd(1)] if of.channel == 2),
            "{facts:?}"
        );
    }

    /// A packet between 10.0.0.1:45000, a client, and 10.0.0.2:5064, as far as it is read: flags, numbers and payload of TCP.
    fn packet(from_client: bool, flags: u8, [sequence, acknowledged]: [u32; 2], payload: &[u8]) -> Vec<u8> {
        let length = 40 + payload.len() as u8;
        let (client, server) = (([10, 0, 0, 1], 45000_u16), ([10, 0, 0, 2], 5064));
        let (source, destination) = if from_client { (client, server) } else { (server, client) };
        let mut packet = vec![0x45, 0, 0, length, 0, 0, 0, 0, 64, 6, 0, 0];
        packet.extend([source.0, destination.0].concat());
        packet.extend([source.1.to_be_bytes(), destination.1.to_be_bytes()].concat());
        packet.extend([sequence.to_be_bytes(), acknowledged.to_be_bytes()].concat());
        packet.extend([0x50, flags, 1, 0, 0, 0, 0, 0]);
        packet.extend(payload);
        packet
    }

    /// While the end of a circuit and the beginning of the next one from the same port are still in the packets' ring, the old
    /// one seems open. It is not the one that a thread serves that has its first hit then.
    #[test]
    fn a_thread_waits_for_the_packets_of_its_circuit() {
        let mut bench = Bench::new();
        let mut circuits = Circuits::default();
        let address = Address::new(Ipv4Addr::new(10, 0, 0, 1), 45000);
        let server = Address::new(Ipv4Addr::new(10, 0, 0, 2), 5064);
        let client = |user: &str| Client {
            address,
            user: user.to_owned(),
            host: String::new(),
            tid: Some(7),
            channels: Vec::new(),
        };
        let tied = |bench: &Bench| {
            let is_tie = |fact: &&Fact| matches!(fact, Fact::ServerThread(_));
            bench.facts().iter().filter(is_tie).count()
        };
        // its opening, the answer, and its first message: VERSION
        let version = [0, 0, 0, 0, 0, 0, 0, 13, 0, 0, 0, 0, 0, 0, 0, 0];
        for (from_client, flags, numbers, payload) in [
            (true, 0x02, [100, 0], &[][..]),
            (false, 0x12, [200, 101], &[]),
            (true, 0x18, [101, 201], &version),
        ] {
            let packet = packet(from_client, flags, numbers, payload);
            circuits.packet(0, SECOND, &packet, packet.len());
        }
        let unknown =
            |thread, time| Unknown { thread, time, noted: time, client: client("x"), namespace: 0, server };
        circuits.server_threads.unknown.push(unknown(0, SECOND - MILLISECOND));
        circuits.server_threads.unknown.push(unknown(1, SECOND));
        circuits.server_threads.unknown.push(unknown(2, 2 * SECOND));
        bench.clock.monotonic.set(2 * SECOND + 50 * MILLISECOND);
        circuits.tie_threads(&mut bench.env(), false);
        assert_eq!(
            tied(&bench),
            1,
            "of these the packets have come, and the first one began its circuit earlier"
        );
        bench.clock.monotonic.set(2 * SECOND + 700 * MILLISECOND);
        circuits.tie_threads(&mut bench.env(), false);
        assert_eq!(tied(&bench), 2, "its packets would have come by now");
        circuits.server_threads.unknown.push(unknown(3, 3 * SECOND));
        bench.clock.monotonic.set(3 * SECOND);
        circuits.finish(&mut bench.env());
        assert_eq!(tied(&bench), 3, "no more packets come");
        let mut circuits = Circuits::default();
        circuits.seed_client(0, SECOND, server, &client("before"));
        circuits.server_threads.unknown.push(unknown(4, 4 * SECOND));
        bench.clock.monotonic.set(4 * SECOND);
        circuits.tie_threads(&mut bench.env(), false);
        assert_eq!(tied(&bench), 4, "no packets show the beginning of a circuit from before the capture");
    }
}
