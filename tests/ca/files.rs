//! Writes capture files for tests, and reads them back as `iocrec record --read` does.

use crate::packets::Packet;
use iocrec::bpf::transport::Room;
use iocrec::linux::chosen::Chosen;
use iocrec::net::capture_file::CaptureFile;
use iocrec::probes::tiers::TierRequest;
use iocrec::recorder::capture_clock::CaptureClock;
use iocrec::recorder::reading::{self, Outcome};
use iocrec::recorder::selection::Selection;
use iocrec::recorder::sink::Sink;
use iocrec::recorder::Options;
use iocrec_log::event::Event;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

/// When the packets of the tests were captured: this plus their own time.
pub const BEGIN: i64 = 1_450_000_000_000_000_000;

/// Byte orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    Little,
    Big,
}

impl Order {
    pub fn u16(self, n: u16) -> [u8; 2] {
        if self == Order::Big {
            n.to_be_bytes()
        } else {
            n.to_le_bytes()
        }
    }

    pub fn u32(self, n: u32) -> [u8; 4] {
        if self == Order::Big {
            n.to_be_bytes()
        } else {
            n.to_le_bytes()
        }
    }

    pub fn u64(self, n: u64) -> [u8; 8] {
        if self == Order::Big {
            n.to_be_bytes()
        } else {
            n.to_le_bytes()
        }
    }
}

/// Link types with the header that the tests write for each.
pub const LINKS: [(u16, &[u8]); 14] = [
    (1, b"\x02\0\0\0\0\x01\x02\0\0\0\0\x02\x08\0"),
    // one VLAN tag, two of them, and two of the old kind
    (1, b"\x02\0\0\0\0\x01\x02\0\0\0\0\x02\x81\0\0\x05\x08\0"),
    (1, b"\x02\0\0\0\0\x01\x02\0\0\0\0\x02\x88\xa8\0\x05\x81\0\0\x06\x08\0"),
    (1, b"\x02\0\0\0\0\x01\x02\0\0\0\0\x02\x91\0\0\x05\x81\0\0\x06\x08\0"),
    (113, b"\0\0\0\x01\0\x06\x02\0\0\0\0\x01\0\0\x08\0"),
    (113, b"\0\0\0\x01\0\x06\x02\0\0\0\0\x01\0\0\x81\0\0\x05\x08\0"),
    (276, b"\x08\0\0\0\0\0\0\x02\0\x01\0\x06\x02\0\0\0\0\x01\0\0"),
    (101, b""),
    (12, b""),
    (14, b""),
    (228, b""),
    (0, b"\x02\0\0\0"),
    (0, b"\0\0\0\x02"),
    (108, b"\0\0\0\x02"),
];

/// A packet behind the header of its link.
pub fn linked(header: &[u8], ip: &[u8]) -> Vec<u8> {
    [header, ip].concat()
}

/// The header of a pcap file.
pub fn pcap_header(order: Order, nano: bool, link: u16) -> Vec<u8> {
    let magic: u32 = if nano { 0xa1b2_3c4d } else { 0xa1b2_c3d4 };
    let mut file = order.u32(magic).to_vec();
    file.extend([order.u16(2), order.u16(4)].concat());
    file.extend([order.u32(0), order.u32(0), order.u32(262_144), order.u32(link.into())].concat());
    file
}

/// A packet of a pcap file, of which `kept` bytes are kept.
pub fn pcap_packet(order: Order, nano: bool, wall: i64, bytes: &[u8], kept: usize) -> Vec<u8> {
    let fraction = (wall % 1_000_000_000) as u32 / if nano { 1 } else { 1000 };
    let kept = &bytes[..kept.min(bytes.len())];
    let words = [(wall / 1_000_000_000) as u32, fraction, kept.len() as u32, bytes.len() as u32];
    [&words.map(|word| order.u32(word)).concat(), kept].concat()
}

/// A pcap file.
pub fn pcap(order: Order, nano: bool, (link, header): (u16, &[u8]), packets: &[Packet]) -> Vec<u8> {
    let mut file = pcap_header(order, nano, link);
    for (time, ip) in packets {
        file.extend(pcap_packet(order, nano, BEGIN + *time as i64, &linked(header, ip), usize::MAX));
    }
    file
}

/// A block of a pcapng file.
pub fn block(order: Order, kind: u32, body: &[u8]) -> Vec<u8> {
    let length = order.u32(12 + body.len().next_multiple_of(4) as u32);
    let mut block = [&order.u32(kind), &length, body].concat();
    block.resize(block.len().next_multiple_of(4), 0);
    block.extend(length);
    block
}

/// An option of a block.
pub fn option(order: Order, code: u16, value: &[u8]) -> Vec<u8> {
    let mut option = [&order.u16(code), &order.u16(value.len() as u16), value].concat();
    option.resize(option.len().next_multiple_of(4), 0);
    option
}

pub fn section(order: Order) -> Vec<u8> {
    let body = [&order.u32(0x1a2b_3c4d)[..], &order.u16(1), &order.u16(0), &order.u64(u64::MAX)].concat();
    block(order, 0x0a0d_0d0a, &[body, option(order, 4, b"a test")].concat())
}

pub fn interface(order: Order, link: u16, resolution: Option<u8>) -> Vec<u8> {
    let mut body = [&order.u16(link)[..], &order.u16(0), &order.u32(0)].concat();
    body.extend(option(order, 2, b"eth0"));
    body.extend(resolution.map(|resolution| option(order, 9, &[resolution])).unwrap_or_default());
    body.extend(option(order, 0, b""));
    block(order, 1, &body)
}

/// A packet on an interface at a time in its own unit.
pub fn enhanced(order: Order, interface: u32, time: u64, bytes: &[u8], kept: usize) -> Vec<u8> {
    let kept = &bytes[..kept.min(bytes.len())];
    let words = [interface, (time >> 32) as u32, time as u32, kept.len() as u32, bytes.len() as u32];
    block(order, 6, &[&words.map(|word| order.u32(word)).concat(), kept].concat())
}

/// A pcapng file with one interface; `resolution` is 9 or 6.
pub fn pcapng(order: Order, resolution: u8, (link, header): (u16, &[u8]), packets: &[Packet]) -> Vec<u8> {
    let given = (resolution != 6).then_some(resolution);
    let mut file = [section(order), interface(order, link, given)].concat();
    let unit = if resolution == 9 { 1 } else { 1000 };
    for (time, ip) in packets {
        let ticks = (BEGIN as u64 + time) / unit;
        file.extend(enhanced(order, 0, ticks, &linked(header, ip), usize::MAX));
    }
    file
}

/// A file that is deleted in the end.
pub struct Temporary(pub PathBuf);

impl Temporary {
    pub fn new(bytes: &[u8]) -> Temporary {
        let file = Temporary::name();
        std::fs::write(&file.0, bytes).expect("a temporary file");
        file
    }

    /// A path at which nothing is.
    pub fn name() -> Temporary {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        Temporary(std::env::temp_dir().join(format!("iocrec-capture-{}-{number}.pcap", std::process::id())))
    }

    pub fn path(&self) -> &str {
        self.0.to_str().expect("UTF-8")
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        drop(std::fs::remove_file(&self.0));
    }
}

/// Keeps events.
#[derive(Default)]
struct Kept(Vec<Event>);

impl Sink for Kept {
    fn push(&mut self, event: Event) {
        self.0.push(event);
    }

    fn tick(&mut self, _now: u64) {}
}

pub fn options() -> Options {
    Options {
        room: Room::default(),
        tier: TierRequest::Auto,
        interfaces: Vec::new(),
        ports: Vec::new(),
        pids: Vec::new(),
        chosen: Chosen::default(),
        selection: Selection::default(),
        no_command_lines: false,
        puts: true,
        process: true,
        console: true,
        io: false,
        console_rate: 20,
        resources: false,
        net: true,
        snapshots: None,
        duration: None,
        thin: None,
        retain: None,
    }
}

/// Reads files, each with these bytes.
pub fn read_all(options: Options, files: &[&[u8]]) -> (Vec<Event>, Outcome) {
    let files: Vec<Temporary> = files.iter().map(|bytes| Temporary::new(bytes)).collect();
    let open = files.iter().map(|file| CaptureFile::open(file.path()).expect("it opens"));
    read_open(options, open.collect())
}

pub fn read_open(options: Options, files: Vec<CaptureFile>) -> (Vec<Event>, Outcome) {
    let mut kept = Kept::default();
    let outcome = reading::read(options, files, &CaptureClock::default(), &mut kept, &mut |_| ());
    (kept.0, outcome)
}

pub fn read(bytes: &[u8]) -> (Vec<Event>, Outcome) {
    read_all(options(), &[bytes])
}
