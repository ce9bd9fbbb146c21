//! Makes TCP segments and packets for tests, and reads facts back.

pub use crate::messages::*;
pub use crate::packets::*;
use iocrec::ca::{Decoder, Limits, SERVICE};
pub use iocrec::net::protocol::Decoder as _;
use iocrec::net::served::Served;
use iocrec::net::service::Ports;
use iocrec_log::event::{Address, Event, Fact};

pub const CLIENT: Address = Address { ip: 0x0a00_0001, port: 40001 };
pub const SERVER: Address = Address { ip: 0x0a00_0002, port: 5064 };

/// Says which ports are servers', in the only network namespace.
pub fn serve(decoder: &mut Decoder, ports: &[u16]) {
    let ports = Ports::of(&SERVICE, ports);
    decoder.set_served(0, vec![Served { ports, ..Served::default() }], &mut Vec::new());
}

/// A decoder, one connection's sequence numbers, and the facts so far.
pub struct Wire {
    pub decoder: Decoder,
    pub time: u64,
    pub client: Address,
    pub server: Address,
    /// Next sequence numbers: client's, server's.
    pub seq: [u32; 2],
    pub out: Vec<Event>,
}

impl Wire {
    pub fn new() -> Wire {
        Wire::with(Limits::default())
    }

    pub fn with(limits: Limits) -> Wire {
        let mut decoder = Decoder::new(limits);
        serve(&mut decoder, &[SERVER.port]);
        Wire { decoder, time: 1000 * MS, client: CLIENT, server: SERVER, seq: [1000, 5000], out: Vec::new() }
    }

    /// With the three packets of a connection's opening.
    pub fn open() -> Wire {
        let mut w = Wire::new();
        w.handshake();
        w
    }

    /// Goes on with another connection of this port, with numbers of its own, far from those of others.
    pub fn use_port(&mut self, port: u16) {
        self.client.port = port;
        self.seq = [u32::from(port) << 20 | 1; 2];
    }

    pub fn handshake(&mut self) {
        let [c, s] = self.seq;
        self.raw(true, c.wrapping_sub(1), None, SYN, b"");
        self.raw(false, s.wrapping_sub(1), Some(c), SYN, b"");
        self.raw(true, c, Some(s), 0, b"");
    }

    /// A segment. Like every one of an open connection, it acknowledges what the other side has sent, unless told
    /// otherwise.
    pub fn raw(&mut self, from_client: bool, seq: u32, ack: Option<u32>, flags: u8, payload: &[u8]) {
        let ack = self.acknowledged(from_client, ack, flags);
        let (from, to) = if from_client { (self.client, self.server) } else { (self.server, self.client) };
        let p = packet(from, to, seq, ack, flags, payload);
        self.time += MS;
        self.decoder.packet(0, self.time, &p, p.len(), &mut self.out);
    }

    /// The client acknowledges, and opens its window, or closes it.
    pub fn window(&mut self, is_closed: bool) {
        let p = bare(self.client, self.server, self.seq, is_closed);
        self.time += MS;
        self.decoder.packet(0, self.time, &p, p.len(), &mut self.out);
    }

    /// What a segment acknowledges if nothing else is told: what the other side has sent.
    pub fn acknowledged(&self, from_client: bool, told: Option<u32>, flags: u8) -> Option<u32> {
        told.or((flags & (SYN | RST) == 0).then_some(self.seq[usize::from(from_client)]))
    }

    /// The next bytes of a direction, in order, in one segment.
    pub fn send(&mut self, from_client: bool, payload: &[u8]) {
        let side = usize::from(!from_client);
        let seq = self.seq[side];
        self.raw(from_client, seq, None, 0, payload);
        self.seq[side] = seq.wrapping_add(payload.len() as u32);
    }

    pub fn client(&mut self, payload: &[u8]) {
        self.send(true, payload);
    }

    pub fn server(&mut self, payload: &[u8]) {
        self.send(false, payload);
    }

    /// Bytes that nobody captures.
    pub fn lose(&mut self, from_client: bool, length: u32) {
        let side = usize::from(!from_client);
        self.seq[side] = self.seq[side].wrapping_add(length);
    }

    /// Lets time pass.
    pub fn wait(&mut self, ms: u64) {
        self.time += ms * MS;
        self.decoder.tick(self.time, &mut self.out);
    }

    /// Lets time pass until nothing more comes of what was captured, and ends.
    pub fn finish(&mut self) {
        self.wait(2000);
        self.wait(2000);
        self.decoder.finish(self.time, &mut self.out);
    }

    /// The facts since last asked, in short words.
    pub fn facts(&mut self) -> Vec<String> {
        self.out.drain(..).map(|e| words(&e.fact)).collect()
    }
}

/// A client's acknowledgement, which opens its window, or closes it.
pub fn bare(client: Address, server: Address, [own, other]: [u32; 2], is_closed: bool) -> Vec<u8> {
    let mut p = packet(client, server, own, Some(other), 0, b"");
    if is_closed {
        p[34..36].copy_from_slice(&[0, 0]);
    }
    p
}

/// A fact in short words.
pub fn words(fact: &Fact) -> String {
    let id = |v: Option<u32>| v.map_or("-".into(), |v| v.to_string());
    match fact {
        Fact::Circuit(c) => {
            format!("circuit {} {:?} user={} host={} minor={}", c.id, c.origin, c.user, c.host, c.minor)
        }
        Fact::CircuitEnd(c) => format!("end of circuit {c}"),
        Fact::Channel(c) => format!(
            "channel {} on {} {:?} cid={} sid={} pv={} dbr={} count={}",
            c.id,
            c.circuit,
            c.origin,
            id(c.cid),
            id(c.sid),
            c.pv,
            id(c.dbr.map(Into::into)),
            id(c.count)
        ),
        Fact::ChannelEnd(c) => format!("end of channel {c}"),
        Fact::CircuitForgotten(c) => format!("forgotten: circuit {c}"),
        Fact::ChannelForgotten(c) => format!("forgotten: channel {c}"),
        Fact::CaPut(p) => format!(
            "{} on {} channel {} dbr={} count={} ioid={} length={} {:02x?}",
            if p.notify { "put with answer" } else { "put" },
            p.circuit,
            p.channel,
            p.dbr,
            p.count,
            p.ioid,
            p.length,
            p.payload
        ),
        Fact::CaAnswer(a) => {
            format!(
                "answer on {} ioid={} notify={} status={} {}",
                a.circuit, a.ioid, a.notify, a.status, a.text
            )
        }
        Fact::Loss(l) => format!("loss {} {}", l.count, l.cause),
        other => format!("{other:?}"),
    }
}
