//! Makes packets for tests, and reads facts back.

pub use crate::messages::*;
pub use crate::packets::*;
use iocrec::net::protocol::Decoder as _;
use iocrec::net::served::Served;
use iocrec::net::service::Ports;
use iocrec::pva::{Decoder, Limits, SERVICE};
use iocrec_log::event::{Address, Event, Fact, PvaValue};

pub const CLIENT: Address = Address { ip: 0x0a00_0001, port: 40001 };
pub const SERVER: Address = Address { ip: 0x0a00_0002, port: 5075 };

/// The server's answer.
pub fn created(cid: u32, sid: u32) -> Vec<u8> {
    message(0x40, 7, &[&cid.to_le_bytes()[..], &sid.to_le_bytes(), &[0xff]].concat())
}

/// The server's answer.
pub fn answer(command: u8, ioid: u32, subcommand: u8, rest: &[u8]) -> Vec<u8> {
    message(0x40, command, &[&ioid.to_le_bytes()[..], &[subcommand], rest].concat())
}

/// A structure with a double `value`, as a definition of type 1.
pub const SCALAR: &[u8] = b"\xfd\x01\x00\x80\x00\x01\x05value\x43";
/// The same, whole.
pub const WHOLE: &[u8] = b"\x80\x00\x01\x05value\x43";
/// Options: an empty structure.
pub const NO_OPTIONS: &[u8] = b"\x80\x00\x00";

/// A decoder, one connection's sequence numbers, and the facts so far.
pub struct Wire {
    pub decoder: Decoder,
    pub time: u64,
    /// Next sequence numbers: client's, server's.
    pub seq: [u32; 2],
    pub out: Vec<Event>,
}

pub fn serve(decoder: &mut Decoder) {
    let ports = Ports::of(&SERVICE, &[SERVER.port]);
    decoder.set_served(0, vec![Served { ports, ..Served::default() }], &mut Vec::new());
}

impl Wire {
    pub fn new() -> Wire {
        let mut decoder = Decoder::new(Limits::default());
        serve(&mut decoder);
        Wire { decoder, time: 1000 * MS, seq: [1000, 5000], out: Vec::new() }
    }

    /// With the three packets of a connection's opening.
    pub fn open() -> Wire {
        let mut w = Wire::new();
        let [c, s] = w.seq;
        w.raw(true, c.wrapping_sub(1), None, SYN, b"");
        w.raw(false, s.wrapping_sub(1), Some(c), SYN, b"");
        w
    }

    /// With a channel `T:AO` (cid 1, sid 2) and a put to it that is prepared (ioid 3).
    pub fn ready() -> Wire {
        let mut w = Wire::open();
        w.client(&identity("op", "console"));
        w.client(&create(1, "T:AO"));
        w.server(&created(1, 2));
        w.client(&request(11, 2, 3, 8, NO_OPTIONS));
        w.server(&answer(11, 3, 8, &[&[0xff], SCALAR].concat()));
        w.facts();
        w
    }

    pub fn raw(&mut self, from_client: bool, seq: u32, ack: Option<u32>, flags: u8, payload: &[u8]) {
        let (from, to) = if from_client { (CLIENT, SERVER) } else { (SERVER, CLIENT) };
        let p = packet(from, to, seq, ack, flags, payload);
        self.time += MS;
        self.decoder.packet(0, self.time, &p, p.len(), &mut self.out);
    }

    /// The next bytes of a direction, in order, in one TCP segment.
    pub fn send(&mut self, from_client: bool, payload: &[u8]) {
        let side = usize::from(!from_client);
        let seq = self.seq[side];
        self.raw(from_client, seq, Some(self.seq[1 - side]), 0, payload);
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

    /// Lets time pass: both sides acknowledge what was sent.
    pub fn wait(&mut self, ms: u64) {
        let [client, server] = self.seq;
        self.raw(true, client, Some(server), 0, b"");
        self.raw(false, server, Some(client), 0, b"");
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

fn value(value: &PvaValue) -> String {
    let order = if value.big_endian { " big" } else { "" };
    let bytes: Vec<String> = value.bytes.iter().take(24).map(|byte| format!("{byte:02x}")).collect();
    format!("{:?}{order} {} {}", value.types, value.length, bytes.concat())
}

/// Numbers of circuits and channels begin here.
const FIRST: u32 = 1 << 31;

/// A fact in short words.
pub fn words(fact: &Fact) -> String {
    match fact {
        Fact::Circuit(c) => format!("circuit {} {}@{}", c.id - FIRST, c.user, c.host),
        Fact::CircuitEnd(id) => format!("circuit {} ends", id - FIRST),
        Fact::PvaCircuit(c) => format!("pva {} v{} {}", c.circuit - FIRST, c.version, c.method),
        Fact::Channel(c) => format!("channel {} {} cid {:?} sid {:?}", c.id - FIRST, c.pv, c.cid, c.sid),
        Fact::ChannelEnd(id) => format!("channel {} ends", id - FIRST),
        Fact::ChannelForgotten(id) => format!("channel {} is forgotten", id - FIRST),
        Fact::PvaType(t) => format!("type {} of {} bytes", t.id, t.description.len()),
        Fact::PvaPut(p) => {
            let options =
                if p.options.length == 0 { String::new() } else { format!(" options {}", value(&p.options)) };
            format!("{:?} to {}: {}{options}", p.kind, p.channel - FIRST, value(&p.value))
        }
        Fact::PvaAnswer(a) => format!("{:?} answered {} {:?}: {}", a.kind, a.status, a.text, value(&a.value)),
        Fact::PvaMonitor(m) => {
            format!("monitor of {} {}", m.channel - FIRST, if m.starts { "starts" } else { "stops" })
        }
        Fact::PvaMessage(m) => {
            let channel = m.channel.map(|channel| channel - FIRST);
            format!("message {} of {channel:?}, level {}: {}", m.command, m.level, m.text)
        }
        Fact::Loss(l) => format!("lost {} {}", l.count, l.cause.split(':').next().unwrap_or_default()),
        other => format!("{other:?}"),
    }
}
