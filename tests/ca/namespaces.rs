//! The same addresses and ports in several network namespaces, and circuits that pass through one to another.

use crate::wire::*;
use iocrec::ca::{Decoder, Limits, SERVICE};
use iocrec::linux::sockets::LocalAddress;
use iocrec::net::served::{Listener, Served};
use iocrec::net::service::Ports;
use iocrec::net::Namespace;
use iocrec_log::event::{Address, CircuitEnds, Event, Fact};

const HOST: Namespace = 100;
const LEFT: Namespace = 101;
const RIGHT: Namespace = 102;

fn served(namespace: Namespace, ip: [u8; 4], owner: u32) -> Served {
    let address = Address::new(ip.into(), SERVER.port);
    Served {
        namespace,
        ports: Ports::of(&SERVICE, &[SERVER.port]),
        listeners: vec![Listener { address, owner: Some(owner) }],
        local: vec![LocalAddress { ip: address.ip, bits: 32 }, LocalAddress { ip: 0x7f00_0000, bits: 8 }],
        captured: Some(0),
        ..Served::default()
    }
}

struct Net {
    decoder: Decoder,
    out: Vec<Event>,
    time: u64,
}

impl Net {
    fn new(served: Vec<Served>) -> Net {
        let mut decoder = Decoder::new(Limits::default());
        decoder.report_ends();
        decoder.set_served(0, served, &mut Vec::new());
        Net { decoder, out: Vec::new(), time: 1000 * MS }
    }

    /// A packet from the client, as one namespace sees it, later than all before.
    fn sees(&mut self, namespace: Namespace, server: Address, seq: u32, flags: u8, payload: &[u8]) {
        self.time += MS;
        self.saw(namespace, server, seq, flags, payload);
    }

    /// The same at the time of the one before.
    fn saw(&mut self, namespace: Namespace, server: Address, seq: u32, flags: u8, payload: &[u8]) {
        let packet = packet(CLIENT, server, seq, (flags != SYN).then_some(1), flags, payload);
        self.decoder.packet(namespace, self.time, &packet, packet.len(), &mut self.out);
    }

    /// A client connects and puts.
    fn puts(&mut self, namespaces: &[Namespace], server: Address) {
        let bytes = [version(), put(false, 7, 1, &[1.0])].concat();
        for &namespace in namespaces {
            self.sees(namespace, server, 999, SYN, b"");
            self.sees(namespace, server, 1000, 0, &bytes);
        }
    }

    /// The circuits of the puts, with their ends.
    fn of_puts(&self) -> Vec<CircuitEnds> {
        let ends = |circuit: u32| {
            self.out.iter().find_map(|event| match &event.fact {
                Fact::CircuitEnds(ends) if ends.circuit == circuit => Some(*ends),
                _ => None,
            })
        };
        let puts = self.out.iter().filter_map(|event| match &event.fact {
            Fact::CaPut(put) => Some(put.circuit),
            _ => None,
        });
        puts.map(|circuit| ends(circuit).expect("whose it is")).collect()
    }
}

fn at(ip: [u8; 4]) -> Address {
    Address::new(ip.into(), SERVER.port)
}

#[test]
fn one_address_in_two_namespaces_is_two_servers() {
    let local = [127, 0, 0, 1];
    let mut net =
        Net::new(vec![served(HOST, [10, 9, 0, 1], 1), served(LEFT, local, 2), served(RIGHT, local, 3)]);
    net.puts(&[LEFT, RIGHT], at(local));
    let ends: Vec<_> = net.of_puts().iter().map(|ends| (ends.namespace, ends.server)).collect();
    assert_eq!(ends, [(LEFT, Some(2)), (RIGHT, Some(3))]);
    let ids = [LEFT, RIGHT].map(|namespace| net.decoder.circuit(namespace, CLIENT, at(local)));
    assert!(ids[0].is_some() && ids[1].is_some() && ids[0] != ids[1]);
    assert_eq!(net.decoder.circuit(HOST, CLIENT, at(local)), None);
    // a server's memory tells of a circuit in a namespace that is not known yet
    net.decoder.seed(104, net.time, CLIENT, at(local), "", "", 13, &[], &mut net.out);
    // one goes away, and its number comes to be another's
    net.decoder.set_served(net.time, vec![served(RIGHT, local, 3)], &mut net.out);
    let ended = |event: &Event| matches!(event.fact, Fact::CircuitEnd(id) if Some(id) == ids[0]);
    assert!(net.out.iter().any(ended));
    assert_eq!(net.decoder.circuit(LEFT, CLIENT, at(local)), None);
    assert!(net.decoder.circuit(104, CLIENT, at(local)).is_some());
}

#[test]
fn what_passes_through_counts_where_the_server_is() {
    let mut net = Net::new(vec![served(HOST, [10, 9, 0, 1], 1), served(LEFT, [10, 9, 0, 2], 2)]);
    for order in [[HOST, LEFT], [LEFT, HOST]] {
        net.out.clear();
        let server = at([10, 9, 0, 2]);
        net.puts(&order, server);
        let ends: Vec<_> = net.of_puts().iter().map(|ends| (ends.namespace, ends.server)).collect();
        assert_eq!(ends, [(LEFT, Some(2))], "{order:?}");
        assert_eq!(net.decoder.home(HOST, server), LEFT);
        net.sees(LEFT, server, 1040, RST, b"");
    }
    // of a third machine nobody knows more than what passes
    net.out.clear();
    net.puts(&[HOST], at([10, 9, 0, 3]));
    let ends: Vec<_> = net.of_puts().iter().map(|ends| (ends.namespace, ends.server)).collect();
    assert_eq!(ends, [(HOST, None)]);
}

/// A namespace that cannot be captured, or not yet, leaves its circuits to those that see them; also if the server's memory
/// told of the circuit before, or meanwhile.
#[test]
fn a_circuit_moves_to_the_namespace_of_its_server_when_that_is_captured() {
    for told in [None, Some(false), Some(true)] {
        moves(told);
    }
}

/// `told`: whether the server's memory told of the circuit before its first packet.
fn moves(told: Option<bool>) {
    let shut = Served { captured: None, ..served(LEFT, [10, 9, 0, 2], 2) };
    let mut net = Net::new(vec![served(HOST, [10, 9, 0, 1], 1), shut]);
    let server = at([10, 9, 0, 2]);
    let tells = |net: &mut Net, when: bool| {
        if told == Some(when) {
            net.decoder.seed(LEFT, net.time, CLIENT, server, "", "", 13, &[], &mut net.out);
        }
    };
    tells(&mut net, true);
    net.puts(&[HOST], server);
    assert_eq!(net.of_puts().len(), 1);
    tells(&mut net, false);
    // the first two were taken where they passed before the server's namespace was known to be captured; what is captured
    // there from before comes afterwards
    let length = u32::try_from(put(false, 7, 1, &[2.0]).len()).unwrap();
    let first = 1000 + u32::try_from(version().len()).unwrap() + length;
    let sees = |net: &mut Net, namespace, number: u32| {
        net.saw(namespace, server, first + number * length, 0, &put(false, 7, 1, &[f64::from(number)]));
    };
    net.time += MS;
    sees(&mut net, HOST, 0);
    net.time += MS;
    net.decoder.set_captured(net.time, &[HOST, LEFT]);
    net.time -= MS;
    sees(&mut net, LEFT, 0);
    for (number, order) in [(1, [HOST, LEFT]), (2, [LEFT, HOST]), (3, [HOST, LEFT])] {
        net.time += MS;
        order.into_iter().for_each(|namespace| sees(&mut net, namespace, number));
    }
    let ends = net.of_puts();
    let namespaces: Vec<_> = ends.iter().map(|ends| ends.namespace).collect();
    assert_eq!(namespaces, [HOST, HOST, LEFT, LEFT, LEFT], "each put once, {told:?}");
    assert_eq!(net.decoder.circuit(HOST, CLIENT, server), None);
}

/// One connection before and after its addresses were changed: the packets of both.
fn translated(first: Address, server: Address, behind: Address, server_behind: Address) -> Vec<[Packet; 2]> {
    let talk = |client, server| {
        let mut talk = Talk::open(client, server, 1448);
        talk.say(true, &[version(), named(20, 0, 0, "operator")].concat());
        talk.say(true, &named(18, 5, 13, "A"));
        talk.say(false, &message(18, 6, 1, 5, 7, b""));
        for number in 0..4 {
            talk.say(true, &put(false, 7, 1, &[f64::from(number)]));
        }
        talk.end()
    };
    talk(first, server).into_iter().zip(talk(behind, server_behind)).map(|(a, b)| [a, b]).collect()
}

/// The number of puts that a decoder without namespaces finds, as in a captured file.
fn puts_in(packets: impl Iterator<Item = Packet>) -> usize {
    let mut w = Wire::new();
    for (time, packet) in packets {
        w.decoder.packet(0, time, &packet, packet.len(), &mut w.out);
    }
    w.out.iter().filter(|event| matches!(event.fact, Fact::CaPut(_))).count()
}

/// A router's packets show a connection before and after it changed their addresses: each put counts once, wherever the
/// capture begins.
#[test]
fn what_a_router_changes_counts_once() {
    let behind = Address { ip: 0xc0a8_0001, ..CLIENT };
    let published = Address { ip: 0xc0a8_0002, port: SERVER.port };
    for (client, server) in [(behind, SERVER), (CLIENT, published), (behind, published)] {
        let both = translated(CLIENT, SERVER, client, server);
        for from in 0..4 {
            // the opening has two segments; the answer comes the other way
            let seen = both[from..].iter().flat_map(|[inner, outer]| {
                let answers = inner.1[12..16] == SERVER.ip.to_be_bytes();
                if answers {
                    [outer.clone(), inner.clone()]
                } else {
                    [inner.clone(), outer.clone()]
                }
            });
            assert_eq!(puts_in(seen), 4, "{client:?} {server:?} from {from}");
        }
    }
}

/// Devices without chance begin with the same numbers each time: what does not pass at the same time is not the same.
#[test]
fn equal_numbers_at_another_time_are_another_connection() {
    let later = Address { ip: 0xc0a8_0001, ..CLIENT };
    let both = translated(CLIENT, SERVER, later, SERVER);
    let (first, second): (Vec<_>, Vec<_>) = both.into_iter().map(|[first, second]| (first, second)).unzip();
    let second = second.into_iter().map(|(time, packet)| (time + 300 * MS, packet));
    assert_eq!(puts_in(first.into_iter().chain(second)), 8);
}

/// A client that may send packets with any address hides no put of its own: it lets what is remembered of its opening be
/// pushed out, and then sends an answer with the same numbers to another client, as if both were copies of one.
#[test]
fn a_client_hides_no_put_behind_another_connection() {
    let server = at([10, 9, 0, 1]);
    let mut net = Net::new(vec![served(HOST, [10, 9, 0, 1], 1), served(LEFT, [10, 9, 0, 2], 2)]);
    let other = Address { ip: 0x0a0a_0001, ..CLIENT };
    let send = |net: &mut Net, packet: Vec<u8>| {
        net.time += MS / 100;
        net.decoder.packet(HOST, net.time, &packet, packet.len(), &mut net.out);
    };
    send(&mut net, packet(CLIENT, server, 999, None, SYN, b""));
    send(&mut net, packet(server, CLIENT, 4999, Some(1000), SYN, b""));
    for number in 0..3000 {
        send(
            &mut net,
            packet(server, Address { port: 1 + number, ..other }, number.into(), Some(7), SYN, b""),
        );
    }
    send(&mut net, packet(server, other, 4999, Some(1000), SYN, b""));
    // what comes on the other connection
    send(&mut net, packet(other, server, 1000, Some(5000), 0, &version()));
    let mut next = 1000;
    for bytes in [version(), put(false, 7, 1, &[1.0]), put(false, 7, 1, &[2.0])] {
        send(&mut net, packet(CLIENT, server, next, Some(5000), 0, &bytes));
        next += u32::try_from(bytes.len()).unwrap();
    }
    let ends: Vec<_> = net.of_puts().iter().map(|ends| ends.server).collect();
    assert_eq!(ends, [Some(1), Some(1)]);
}

/// The same, but what is forged is a connection without an opening that passes through, and is ahead of the client's.
#[test]
fn a_client_hides_no_put_behind_what_another_connection_has_told() {
    let server = at([10, 9, 0, 1]);
    let mut net = Net::new(vec![served(HOST, [10, 9, 0, 1], 1), served(LEFT, [10, 9, 0, 2], 2)]);
    let send = |net: &mut Net, from, to, seq, ack, bytes: &[u8]| {
        net.time += MS / 100;
        let packet = packet(from, to, seq, Some(ack), 0, bytes);
        net.decoder.packet(HOST, net.time, &packet, packet.len(), &mut net.out);
    };
    let (other, behind) = (Address { ip: 0x0a0a_0001, ..CLIENT }, at([10, 10, 0, 2]));
    // its first bytes are the client's
    send(&mut net, other, behind, 1000, 5000, &version());
    send(&mut net, behind, other, 5000, 1016, &version());
    send(&mut net, other, behind, 1016, 5016, &[put(false, 7, 1, &[0.0; 8]), vec![0; 60_000]].concat());
    send(&mut net, CLIENT, server, 1000, 5000, &version());
    let mut next = 1016;
    for number in 0..3 {
        let bytes = put(false, 7, 1, &[f64::from(number)]);
        send(&mut net, CLIENT, server, next, 5000, &bytes);
        next += u32::try_from(bytes.len()).unwrap();
    }
    let servers: Vec<_> = net.of_puts().iter().map(|ends| ends.server).collect();
    assert_eq!(servers.iter().filter(|server| **server == Some(1)).count(), 3, "{servers:?}");
}

/// What a copy has told is not told again where the connection counts from then on.
#[test]
fn what_was_told_where_it_passed_is_not_told_again() {
    let mut net = Net::new(vec![served(HOST, [10, 9, 0, 1], 1), served(LEFT, [10, 9, 0, 2], 2)]);
    let (published, server) = (at([10, 10, 0, 2]), at([10, 9, 0, 2]));
    let first = put(false, 7, 1, &[1.0]);
    let next = 1016 + u32::try_from(first.len()).unwrap();
    let mut send = |namespace, from, to, seq, ack, bytes: &[u8]| {
        net.time += MS / 100;
        let packet = packet(from, to, seq, Some(ack), 0, bytes);
        net.decoder.packet(namespace, net.time, &packet, packet.len(), &mut net.out);
    };
    send(HOST, CLIENT, published, 1000, 5000, &version());
    send(HOST, published, CLIENT, 5000, 1016, &version());
    send(HOST, CLIENT, published, 1016, 5016, &first);
    // the first that is captured there
    send(LEFT, CLIENT, server, 1016, 5016, &first);
    send(LEFT, CLIENT, server, next, 5016, &put(false, 7, 1, &[2.0]));
    let places: Vec<_> = net.of_puts().iter().map(|ends| ends.namespace).collect();
    assert_eq!(places, [HOST, LEFT]);
}

/// Many clients of a published port, each with `puts` puts in turn at these times in milliseconds, captured where they pass
/// through and where the server is; `opened`: from their openings on. Returns how many puts each namespace has.
fn published(clients: u16, puts: &[u64], opened: bool) -> [usize; 2] {
    let mut net = Net::new(vec![served(HOST, [10, 9, 0, 1], 1), served(LEFT, [10, 9, 0, 2], 2)]);
    let ways = [(HOST, at([10, 10, 0, 2])), (LEFT, at([10, 9, 0, 2]))];
    // the way of a client's packet; a server's is the other way round
    let pass = |net: &mut Net, client: u16, (seq, ack, flags): (u32, Option<u32>, u8), bytes: &[u8]| {
        net.time += MS / 1000;
        let client = Address { port: client, ..CLIENT };
        let is_answer = flags == SYN && ack.is_some();
        for at in 0..2 {
            let (namespace, server) = ways[if is_answer { 1 - at } else { at }];
            let (from, to) = if is_answer { (server, client) } else { (client, server) };
            let packet = packet(from, to, seq, ack, flags, bytes);
            net.decoder.packet(namespace, net.time, &packet, packet.len(), &mut net.out);
        }
    };
    let place = |client: u16| u32::from(client) << 20;
    let bytes = put(false, 7, 1, &[1.0]);
    for client in (1..=clients).filter(|_| opened) {
        pass(&mut net, client, (place(client) - 1, None, SYN), b"");
        pass(&mut net, client, (4999, Some(place(client)), SYN), b"");
        pass(&mut net, client, (place(client), Some(5000), 0), &version());
    }
    let begin = net.time;
    for (number, time) in (0..).zip(puts) {
        net.time = begin + time * MS;
        for client in 1..=clients {
            let next = place(client) + 16 + number * u32::try_from(bytes.len()).unwrap();
            pass(&mut net, client, (next, Some(5000), 0), &bytes);
        }
    }
    let places: Vec<_> = net.of_puts().iter().map(|ends| ends.namespace).collect();
    [HOST, LEFT].map(|namespace| places.iter().filter(|of| **of == namespace).count())
}

#[test]
fn each_put_of_many_clients_of_a_published_port_counts_once() {
    assert_eq!(published(1200, &[100, 200], true), [0, 2400]);
    // of those joined at once the first is told where it is seen first
    assert_eq!(published(100, &[100, 200, 300], false), [100, 200]);
}

/// More than can be compared at once are compared later: then each put counts once, where the server is.
#[test]
fn what_was_not_compared_at_once_is_compared_later() {
    let times: Vec<u64> = (1..=12).map(|second| second * 1000).collect();
    let [early, all] = [9, 12].map(|rounds| published(1200, &times[..rounds], false));
    assert_eq!((all[0] - early[0], all[1] - early[1]), (0, 3 * 1200));
}
