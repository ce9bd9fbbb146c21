//! Makes TCP packets for tests of decoders, changes them at random, and checks what is said of circuits and channels.
#![allow(dead_code)] // not every user needs all of it

use iocrec::net::decoder::Decoder;
use iocrec::net::protocol::{Decoder as _, Protocol};
use iocrec_log::event::{Address, ChannelId, CircuitId, Event, Fact};
use iocrec_testing::chance::{mutate, Random};
use std::collections::HashSet;

pub const SYN: u8 = 2;
pub const FIN: u8 = 1;
pub const RST: u8 = 4;
pub const ACK: u8 = 16;
pub const MS: u64 = 1_000_000;

/// A packet and when it came.
pub type Packet = (u64, Vec<u8>);

/// An IPv4 packet.
pub fn packet(from: Address, to: Address, seq: u32, ack: Option<u32>, flags: u8, payload: &[u8]) -> Vec<u8> {
    let total = 40 + payload.len();
    let mut p = vec![0x45, 0];
    // Beyond 64 KiB as the network stack does it: no length.
    p.extend(u16::try_from(total).unwrap_or(0).to_be_bytes());
    p.extend([0, 0, 0, 0, 64, 6, 0, 0]);
    p.extend(from.ip.to_be_bytes());
    p.extend(to.ip.to_be_bytes());
    p.extend(from.port.to_be_bytes());
    p.extend(to.port.to_be_bytes());
    p.extend(seq.to_be_bytes());
    p.extend(ack.unwrap_or(0).to_be_bytes());
    p.extend([0x50, flags | if ack.is_some() { ACK } else { 0 }, 1, 0, 0, 0, 0, 0]);
    p.extend_from_slice(payload);
    p
}

/// The same packet over IPv6, with addresses that end like those over IPv4, behind a header of this kind, if any, that says
/// to be this long.
pub fn over_ipv6(packet: &[u8], header: Option<(u8, u8)>) -> Vec<u8> {
    const TCP: u8 = 6;
    const ROUTE: u8 = 43;
    // an option that a receiver does not know, and passes over
    const ANY: u8 = 0x1e;
    let (ip, tcp) = packet.split_at(20);
    let header = header.map(|(kind, length)| {
        let rest = vec![0; 4 + 8 * usize::from(length)];
        let begins = if kind == ROUTE { [0, 0] } else { [ANY, rest.len() as u8] };
        (kind, [&[TCP, length][..], &begins, &rest].concat())
    });
    let (next, between) = header.unwrap_or((TCP, Vec::new()));
    let mut p = vec![0x60, 0, 0, 0];
    // Beyond 64 KiB as the network stack does it: no length.
    p.extend(u16::try_from(between.len() + tcp.len()).unwrap_or(0).to_be_bytes());
    p.extend([next, 64]);
    for address in [&ip[12..16], &ip[16..20]] {
        p.extend([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        p.extend(address);
    }
    [&p, &between, tcp].concat()
}

/// What a filter passes of packets and leaves out of them, bytes.
#[derive(Default)]
pub struct Passing {
    pub all: usize,
    pub left_out: usize,
}

impl Passing {
    /// Gives a decoder as much of a packet as the filter passes.
    pub fn pass<P: Protocol>(
        &mut self,
        decoder: &mut Decoder<P>,
        time: u64,
        packet: &[u8],
        passed: u32,
        out: &mut P::Output,
    ) {
        let passed = packet.len().min(passed as usize);
        if passed > 0 {
            decoder.packet(0, time, &packet[..passed], packet.len(), out);
        }
        self.all += packet.len();
        self.left_out += packet.len() - passed;
    }
}

/// A connection from its opening on, a packet each millisecond from one second on.
pub struct Talk {
    client: Address,
    server: Address,
    /// Longest payload of a packet.
    longest: usize,
    time: u64,
    /// Next sequence numbers: client's, server's.
    seq: [u32; 2],
    packets: Vec<Packet>,
}

impl Talk {
    pub fn open(client: Address, server: Address, longest: usize) -> Talk {
        // no two connections begin with the same numbers
        let first = u32::from(client.port) << 12;
        let seq = [first + 1000, first + 5000];
        let mut talk = Talk { client, server, longest, time: 1000 * MS, seq, packets: Vec::new() };
        talk.raw(true, seq[0] - 1, None, SYN, b"");
        talk.raw(false, seq[1] - 1, Some(seq[0]), SYN, b"");
        talk
    }

    fn raw(&mut self, from_client: bool, seq: u32, ack: Option<u32>, flags: u8, payload: &[u8]) {
        let (client, server) = (self.client, self.server);
        let (from, to) = if from_client { (client, server) } else { (server, client) };
        self.time += MS;
        self.packets.push((self.time, packet(from, to, seq, ack, flags, payload)));
    }

    /// The next bytes of a side.
    pub fn say(&mut self, from_client: bool, bytes: &[u8]) {
        for part in bytes.chunks(self.longest) {
            let side = usize::from(!from_client);
            self.raw(from_client, self.seq[side], Some(self.seq[1 - side]), 0, part);
            self.seq[side] = self.seq[side].wrapping_add(part.len() as u32);
        }
    }

    /// The client ends it, and then the server.
    pub fn end(mut self) -> Vec<Packet> {
        let [client, server] = self.seq;
        self.raw(true, client, Some(server), FIN, b"");
        self.raw(false, server, Some(client.wrapping_add(1)), FIN, b"");
        self.packets
    }
}

/// How TCP sends what both say in turns: several turns of a side together, cut anywhere into segments of these lengths at most,
/// the client's and the server's.
pub fn as_tcp_sends(
    random: &mut Random,
    said: &[(bool, Vec<u8>)],
    longest: [usize; 2],
) -> Vec<(bool, Vec<u8>)> {
    let mut turns: Vec<(bool, Vec<u8>)> = Vec::new();
    for (from_client, bytes) in said {
        match turns.last_mut() {
            Some(last) if last.0 == *from_client && random.below(3) > 0 => last.1.extend(bytes),
            _ => turns.push((*from_client, bytes.clone())),
        }
    }
    let mut all = Vec::new();
    for (from_client, bytes) in turns {
        let longest = longest[usize::from(!from_client)];
        let most = [20, 300, 1448, longest][random.below(4)].max(bytes.len() / 60).min(longest);
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let (part, others) = rest.split_at((1 + random.below(2 * most)).min(most).min(rest.len()));
            all.push((from_client, part.to_vec()));
            rest = others;
        }
    }
    all
}

/// Changes what came, and in what order.
pub fn change(random: &mut Random, packets: &mut Vec<Packet>) {
    for _ in 0..=random.below(6) {
        let at = random.below(packets.len());
        match random.below(8) {
            0..=2 => mutate(random, &mut packets[at].1),
            3 => drop(packets.remove(at)),
            4 => packets.insert(at, packets[random.below(packets.len())].clone()),
            5 => {
                let with = random.below(packets.len());
                packets.swap(at, with);
            }
            // The sequence number, the flags; so that the rest is sound.
            6 => {
                let byte = [24, 25, 26, 27, 33][random.below(5)];
                if let Some(byte) = packets[at].1.get_mut(byte) {
                    *byte ^= 1 << random.below(8);
                }
            }
            _ => packets[at].0 = packets[at].0.wrapping_add(random.next() >> random.below(64)),
        }
        if packets.is_empty() {
            return;
        }
    }
}

/// Gives the decoder these packets, some of them cut, and lets time pass now and then.
pub fn decode<P: Protocol<Output = Vec<Event>>>(
    decoder: &mut Decoder<P>,
    packets: &[Packet],
    random: &mut Random,
    out: &mut Vec<Event>,
) {
    let mut now = 0;
    for (time, bytes) in packets {
        now = now.max(*time);
        let cut = if random.below(30) == 0 { random.below(bytes.len() + 1) } else { bytes.len() };
        decoder.packet(0, *time, &bytes[..cut], bytes.len(), out);
        if random.below(10) == 0 {
            decoder.tick(now, out);
        }
    }
    decoder.finish(now, out);
}

/// The circuits and channels that were said to be there.
#[derive(Default)]
pub struct Said {
    circuits: HashSet<CircuitId>,
    channels: HashSet<ChannelId>,
}

impl Said {
    /// Takes a fact; false if it is none of circuits and channels, nor a loss.
    pub fn take(&mut self, fact: &Fact) -> bool {
        match fact {
            Fact::Circuit(circuit) => _ = self.circuits.insert(circuit.id),
            Fact::CircuitClosed(closed) => assert!(self.circuits.contains(&closed.circuit)),
            Fact::CircuitEnd(id) | Fact::CircuitForgotten(id) => {
                assert!(self.circuits.remove(id), "circuit {id} ends");
            }
            Fact::Channel(channel) => {
                assert!(self.circuits.contains(&channel.circuit), "{channel:?}");
                self.channels.insert(channel.id);
            }
            Fact::ChannelClosed(closed) => assert!(self.channels.contains(&closed.channel), "{closed:?}"),
            Fact::ChannelEnd(id) | Fact::ChannelForgotten(id) => {
                assert!(self.channels.remove(id), "channel {id} ends");
            }
            Fact::Loss(_) => {}
            _ => return false,
        }
        true
    }

    pub fn has_circuit(&self, id: CircuitId) -> bool {
        self.circuits.contains(&id)
    }

    pub fn has_channel(&self, id: ChannelId) -> bool {
        self.channels.contains(&id)
    }

    pub fn circuits(&self) -> usize {
        self.circuits.len()
    }
}

/// The same connection with each packet cut in two anywhere, and some sent twice.
pub fn cut_in_two(random: &mut Random, whole: &[Packet]) -> Vec<Packet> {
    let mut cut = Vec::new();
    for (time, bytes) in whole {
        let at = 40 + random.below((bytes.len() - 40).max(1));
        if at <= 40 || at >= bytes.len() {
            cut.push((*time, bytes.clone()));
            continue;
        }
        let seq = u32::from_be_bytes(bytes[24..28].try_into().unwrap());
        for (from, to) in [(40, at), (at, bytes.len())] {
            let mut part = bytes[..40].to_vec();
            part.extend(&bytes[from..to]);
            let length = (part.len() as u16).to_be_bytes();
            part[2..4].copy_from_slice(&length);
            part[24..28].copy_from_slice(&seq.wrapping_add(from as u32 - 40).to_be_bytes());
            for _ in 0..=random.below(2) {
                cut.push((*time, part.clone()));
            }
        }
    }
    cut
}

/// The orders in which the packets of a connection may be captured: of so many that follow each other one is late, or those of
/// one side are.
pub fn orders(packets: &[Packet], count: usize) -> Vec<Vec<Packet>> {
    let is_clients = |at: usize| packets[at].1[12..16] == packets[0].1[12..16];
    let mut orders = Vec::new();
    for begin in 0..=packets.len() - count {
        let all = || begin..begin + count;
        for (late, at) in all().flat_map(|late| (late..begin + count).map(move |at| (late, at))) {
            let mut order: Vec<usize> = (0..packets.len()).collect();
            let moved = order.remove(late);
            order.insert(at, moved);
            orders.push(order);
        }
        for choice in 0..1u32 << count {
            let (clients, servers): (Vec<usize>, Vec<usize>) = all().partition(|at| is_clients(*at));
            if choice.count_ones() as usize == clients.len() {
                let (mut clients, mut servers) = (clients.into_iter(), servers.into_iter());
                let next = |bit: usize| if choice >> bit & 1 == 1 { clients.next() } else { servers.next() };
                let changed = (0..count).filter_map(next);
                orders.push((0..begin).chain(changed).chain(begin + count..packets.len()).collect());
            }
        }
    }
    orders.sort();
    orders.dedup();
    orders.into_iter().map(|order| order.into_iter().map(|at| packets[at].clone()).collect()).collect()
}
