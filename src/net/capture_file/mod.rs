//! Reads capture files: pcap and pcapng, plain or packed with gzip, from a file or a pipe.
//!
//! The formats are those that tcpdump, dumpcap and Wireshark write: pcap with times in microseconds or nanoseconds, and
//! pcapng with several sections and interfaces, each with its own link type and unit of time; both in either byte
//! order. Packets are handed out one at a time, in the order of the file, and never wait for those after them: what a
//! live `tcpdump -w -` has written into a pipe is seen at once.
//!
//! Promises: no input causes a panic; memory stays below some MiB, whatever lengths the input claims; everything before
//! a fault is handed out, and a fault names the place where it lies.
//!
//! No crate: `pcap-parser` 0.17 makes the agent some 35 kB larger (as measured once, on x86-64), and neither unpacks gzip
//! nor reads from pipes that pause; both would be left to do here.

mod block;
mod error;
mod gzip;
mod input;
pub mod link;
mod pcap;
mod pcapng;
mod ticks;

pub use error::{FileError, Problem};

use std::ops::Range;
use std::os::fd::RawFd;

use input::{Fill, Input};
use pcap::Pcap;
use pcapng::Pcapng;

/// Longest packet that is believed, bytes. tcpdump keeps at most 256 KiB of one; segments that the network stack joins
/// (BIG TCP) reach 512 KiB. A larger number is a damaged length.
const LONGEST: usize = 1 << 20;
/// Pieces of the input (at most 128 KiB) without a packet after which the caller gets its turn: some milliseconds of work.
/// Packed, a file of some MB may hold gigabytes of blocks that are passed over.
const IDLE: u32 = 32;

/// A packet as it was captured.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// Nanoseconds since 1970-01-01 UTC by the capturing machine's clock; `None` if the file does not say.
    pub wall: Option<i64>,
    /// The link type, which says what the bytes begin with ([`link`]).
    pub link: u16,
    /// From the link's header on, as far as it was kept.
    pub bytes: &'a [u8],
    /// Its length before it was cut.
    pub length: usize,
    /// Packets before it that the capturing program says it lost since the last report.
    pub dropped: u64,
    /// The interface's number in the file, or on the machine, if the file says either; to tell them apart.
    pub interface: u32,
}

/// What comes next in a file.
#[derive(Debug)]
pub enum Next<'a> {
    /// A packet.
    Packet(Packet<'a>),
    /// The capturing program says that it lost this number of packets since the last report.
    Dropped(u64),
    /// Nothing has come yet; the file is a pipe that is still open.
    Wait,
    /// Much has been read without finding a packet; there is more.
    Nothing,
    /// The end, in good order.
    End,
}

/// A step of a format's parser through the bytes that are there.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    /// At least this number of bytes is needed.
    Need(usize),
    /// This number of bytes is of no interest.
    Skip(u64),
    /// A block without a packet: its length, and the number of packets that it says were lost.
    Block(usize, u64),
    /// A packet.
    Packet(Record),
}

/// A packet's place and properties.
#[derive(Debug, PartialEq, Eq)]
struct Record {
    /// Length of its block.
    used: usize,
    /// Its bytes, within the block.
    data: Range<usize>,
    length: u32,
    link: u16,
    wall: Option<i64>,
    dropped: u64,
    interface: u32,
}

#[derive(Debug)]
enum Format {
    /// Nothing has been read yet.
    Unknown,
    Pcap(Pcap),
    Pcapng(Pcapng),
}

impl Format {
    fn step(&mut self, bytes: &[u8]) -> Result<Step, Problem> {
        match self {
            // one file behind the other, by cat
            Format::Pcap(pcap) if pcap.begins_again(bytes) => {
                *self = Format::Unknown;
                self.step(bytes)
            }
            Format::Pcap(pcap) => pcap.step(bytes),
            Format::Pcapng(pcapng) => pcapng.step(bytes),
            Format::Unknown => {
                let Some(magic) = bytes.first_chunk() else { return Ok(Step::Need(4)) };
                if *magic == pcapng::MAGIC {
                    *self = Format::Pcapng(Pcapng::default());
                    return self.step(bytes);
                }
                let Some(variant) = pcap::variant(*magic) else { return Err(Problem::foreign(bytes)) };
                let Some(header) = bytes.first_chunk() else { return Ok(Step::Need(pcap::HEADER)) };
                *self = Format::Pcap(Pcap::new(variant, header)?);
                Ok(Step::Block(pcap::HEADER, 0))
            }
        }
    }
}

/// An open capture file. See the module.
#[derive(Debug)]
pub struct CaptureFile {
    name: String,
    input: Input,
    format: Format,
    /// Bytes still to be skipped, and where they began.
    skip: u64,
    skip_from: u64,
    packets: u64,
}

impl CaptureFile {
    /// Opens a file; `-` is standard input.
    ///
    /// # Errors
    /// The file can't be opened.
    pub fn open(path: &str) -> Result<CaptureFile, FileError> {
        let name = if path == "-" { "standard input" } else { path };
        let input = Input::open(path).map_err(|error| FileError::new(name, Problem::Open(error)))?;
        Ok(CaptureFile {
            name: name.into(),
            input,
            format: Format::Unknown,
            skip: 0,
            skip_from: 0,
            packets: 0,
        })
    }

    /// Its name, for people.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A descriptor that polls as readable when more can be read.
    pub fn raw_fd(&self) -> RawFd {
        self.input.raw_fd()
    }

    /// Whether it is something whose end is not known yet, such as a pipe.
    pub fn is_pipe(&self) -> bool {
        self.input.is_pipe()
    }

    /// Bytes read so far, and the bytes of the file, if that is known.
    pub fn progress(&self) -> (u64, Option<u64>) {
        self.input.progress()
    }

    /// Packets handed out so far.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// The next packet.
    ///
    /// # Errors
    /// The file can't be read, is no capture, is damaged or cut off here. Everything before has been handed out.
    pub fn read(&mut self) -> Result<Next<'_>, FileError> {
        match self.find() {
            Ok(Found::Packet(record)) => {
                self.packets += 1;
                let block = self.input.take(record.used);
                let bytes = block.get(record.data.clone()).unwrap_or_default();
                Ok(Next::Packet(Packet {
                    wall: record.wall,
                    link: record.link,
                    bytes,
                    // some programs claim less than they kept
                    length: (record.length as usize).max(record.data.len()),
                    dropped: record.dropped,
                    interface: link::interface(record.link, bytes).unwrap_or(record.interface),
                }))
            }
            Ok(Found::Dropped(count)) => Ok(Next::Dropped(count)),
            Ok(Found::Wait) => Ok(Next::Wait),
            Ok(Found::Nothing) => Ok(Next::Nothing),
            Ok(Found::End) => Ok(Next::End),
            Err(problem) => {
                // places are those in the unpacked data
                let packed = if self.input.is_packed() { " (unpacked)" } else { "" };
                Err(FileError::new(&format!("{}{packed}", self.name), problem))
            }
        }
    }

    fn find(&mut self) -> Result<Found, Problem> {
        let mut pieces = 0;
        loop {
            self.skip -= self.input.skip(self.skip);
            let step = match self.skip {
                0 => {
                    let at = self.input.position();
                    self.format.step(self.input.available()).map_err(|problem| problem.at(at))?
                }
                _ => Step::Need(1),
            };
            match step {
                Step::Need(bytes) => match self.input.fill(bytes)? {
                    Fill::More if pieces >= IDLE => return Ok(Found::Nothing),
                    Fill::More => pieces += 1,
                    Fill::Wait => return Ok(Found::Wait),
                    Fill::End => return self.end().map(|()| Found::End),
                },
                Step::Skip(bytes) => (self.skip, self.skip_from) = (bytes, self.input.position()),
                Step::Block(used, dropped) => {
                    self.input.take(used);
                    if dropped > 0 {
                        return Ok(Found::Dropped(dropped));
                    }
                }
                Step::Packet(record) => return Ok(Found::Packet(record)),
            }
        }
    }

    /// Judges the end of the input.
    fn end(&self) -> Result<(), Problem> {
        let rest = self.input.available();
        let begun = !matches!(self.format, Format::Unknown);
        match (rest.len(), begun) {
            (0, false) if !self.input.is_cut() => Err(Problem::Empty),
            (1.., false) if !pcap::could_begin(rest) => Err(Problem::foreign(rest)),
            (0, true) if self.skip == 0 && !self.input.is_cut() => {
                if self.packets == 0 {
                    return Err(Problem::NoPackets);
                }
                Ok(())
            }
            _ if self.skip > 0 => Err(Problem::Cut { at: self.skip_from }),
            _ => Err(Problem::Cut { at: self.input.position() }),
        }
    }
}

/// What [`CaptureFile::find`] found.
enum Found {
    Packet(Record),
    Dropped(u64),
    Wait,
    Nothing,
    End,
}
