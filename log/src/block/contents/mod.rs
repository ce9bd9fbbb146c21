//! What a block holds, in few bytes at its front: a reader that looks for something need not unpack the others.
//!
//! The flags of a block's header name the classes of its facts. A large block also begins with a *list of contents*: how
//! many facts of each kind there are, and which threads and circuits, with which records and channels, they concern.
//! It is a skippable frame of zstd, so readers that don't know it pass over it. Promises: it never leaves out what the
//! block holds; it is at most a 64th of the block's length. docs/format.md has the bytes.

mod set;

pub use set::Set;

use super::batch::Batch;
use super::template::{Owner, Template};
use super::varint;
use crate::event::{Fact, PutKind};
use crate::format::{
    FLAG_ALARMS, FLAG_CAUSES, FLAG_CLASSES, FLAG_DEFINES, FLAG_HEALTH, FLAG_LINK_PUTS, FLAG_NETWORK,
    FLAG_NOTES, FLAG_OTHERS, FLAG_PROCESSING, FLAG_PUTS, FLAG_READINGS, FLAG_SNAPSHOTS, FLAG_WRITES,
};
use std::collections::BTreeMap;

/// First bytes of the frame: one of zstd's numbers for frames that a decoder skips.
const MAGIC: [u8; 4] = [0x5E, 0x2A, 0x4D, 0x18];
/// The frame's header: magic and length.
pub(crate) const FRAME_HEADER: usize = 8;
/// Its checksum, at its end.
const CHECKSUM: usize = 4;
/// Layout of the frame, its first byte.
const LAYOUT: u8 = 1;
/// A block's list of contents takes at most one part in this many of the block, for which space is set aside.
pub(super) const SHARE: usize = 64;
/// Maximum length of a frame that is read, header included: four times what a writer writes.
pub(crate) const MAX_FRAME: usize = 16 << 10;
/// Bytes of a thread's sets up to which they are always exact, if there is room at all.
const SMALL: usize = 32;
/// Call sites of puts that are listed for a thread: it has one or two.
const MAX_SITES: usize = 8;

/// The kinds of facts that a block holds: flags of its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Classes(u16);

impl Classes {
    /// `None` if the writer did not note them: then the block may hold anything.
    pub(crate) fn of(flags: u16) -> Option<Classes> {
        (flags & FLAG_CLASSES != 0).then_some(Classes(flags))
    }

    fn any(self, flags: u16) -> bool {
        self.0 & (flags | FLAG_OTHERS) != 0
    }

    /// Definitions or ends.
    pub fn definitions(self) -> bool {
        self.any(FLAG_DEFINES)
    }

    /// Puts that reached `dbPutField` or `dbProcessNotify`.
    pub fn puts(self) -> bool {
        self.any(FLAG_PUTS)
    }

    /// `dbPut`, which links call too.
    pub fn writes(self) -> bool {
        self.any(FLAG_WRITES)
    }

    /// Puts on the network, and their answers.
    pub fn network(self) -> bool {
        self.any(FLAG_NETWORK)
    }

    /// Processing.
    pub fn processing(self) -> bool {
        self.any(FLAG_PROCESSING)
    }

    /// Requests for processing.
    pub fn causes(self) -> bool {
        self.any(FLAG_CAUSES)
    }

    /// Puts of CA links.
    pub fn link_puts(self) -> bool {
        self.any(FLAG_LINK_PUTS)
    }

    /// What the recorder read in the IOC's memory: fields after puts, PACT.
    pub fn readings(self) -> bool {
        self.any(FLAG_READINGS)
    }

    /// Values and properties of records, read from the IOC's memory.
    pub fn snapshots(self) -> bool {
        self.any(FLAG_SNAPSHOTS)
    }

    /// What IOCs said, and what they used.
    pub fn health(self) -> bool {
        self.any(FLAG_HEALTH)
    }

    /// Notes, and the writer's own.
    pub fn notes(self) -> bool {
        self.any(FLAG_NOTES)
    }

    /// Records that completed with an alarm.
    pub fn alarms(self) -> bool {
        self.any(FLAG_ALARMS)
    }

    /// Whether it holds kinds that this list does not describe, so that it may concern anything.
    pub fn others(self) -> bool {
        self.any(0)
    }
}

/// What a thread did in a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadContents {
    /// The thread.
    pub thread: u32,
    /// The records in its hits.
    pub records: Set,
    /// The records that it put to.
    pub put_to: Set,
    /// Whether it called `dbPutField` or `dbProcessNotify`.
    pub puts: bool,
    /// Whether it put through a CA link.
    pub link_puts: bool,
    /// The callers of `dbPut`; `None` if too many.
    pub sites: Option<Vec<u32>>,
}

/// What a block holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// Kinds of facts, by their number, and how many there are of each. They make up the block.
    pub counts: Vec<(u16, u32)>,
    /// Its threads; `None` if they are too many to be listed.
    pub threads: Option<Vec<ThreadContents>>,
    /// Its circuits, with the channels of their puts; `None` likewise.
    pub circuits: Option<Vec<(u32, Set)>>,
    /// Records in facts that belong to no thread.
    pub records: Set,
}

/// Flags of a thread.
const THREAD_PUTS: u64 = 1;
const THREAD_LINK_PUTS: u64 = 2;
const THREAD_WRITES: u64 = 4;
const THREAD_SITES: u64 = 8;

/// The class of a kind, as a flag of the header. Definitions have their own flag.
fn class(number: u16) -> u16 {
    match number {
        14 | 15 | 44..=46 => FLAG_NETWORK,
        16 => 0, // by its function
        17 | 18 | 31 => FLAG_PROCESSING,
        19 => FLAG_CAUSES,
        20 | 67 => FLAG_LINK_PUTS,
        21 | 22 | 30 | 32..=34 | 47 | 75 | 77 | 78 | 84..=86 | 90 => FLAG_NOTES,
        28 | 38 => FLAG_READINGS,
        39..=41 => FLAG_SNAPSHOTS,
        74 | 76 | 80 | 88 => FLAG_HEALTH,
        _ => FLAG_OTHERS,
    }
}

/// The flags for a batch's classes.
pub(super) fn classes(batch: &Batch) -> u16 {
    let mut flags = FLAG_CLASSES;
    for (number, count) in (0_u16..).zip(batch.kinds()) {
        let defines = Fact::KINDS.get(usize::from(number)).is_some_and(|kind| kind.class.defines());
        if *count > 0 && !defines {
            flags |= class(number);
        }
    }
    for template in &batch.templates {
        flags |= match template {
            Template::Put { kind: PutKind::Put, .. } => FLAG_WRITES,
            Template::Put { .. } => FLAG_PUTS,
            Template::Complete { severity: 1.., .. } => FLAG_ALARMS,
            _ => 0,
        };
    }
    flags
}

/// What is gathered of a thread.
#[derive(Default)]
struct Gathered {
    records: Vec<u32>,
    put_to: Vec<u32>,
    sites: Vec<u32>,
    puts: bool,
    link_puts: bool,
}

/// A number that a fact without a template refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Reference {
    /// A thread's hit, and its record.
    Hit { thread: u32, record: Option<u32>, link_put: bool },
    /// A record alone.
    Record(u32),
    /// A circuit.
    Circuit(u32),
    /// A circuit and one of its channels.
    Channel(u32, u32),
}

impl Reference {
    /// What such a fact refers to. Definitions and notes are always read, and need none.
    pub fn of(fact: &Fact) -> Option<Reference> {
        Some(match fact {
            Fact::RsetProcess(hit) => {
                Reference::Hit { thread: hit.thread, record: Some(hit.record), link_put: false }
            }
            Fact::CaLinkPut(hit) => Reference::Hit { thread: hit.thread, record: hit.record, link_put: true },
            Fact::CaClientPut(hit) => Reference::Hit { thread: hit.thread, record: None, link_put: false },
            Fact::ConsoleLine(line) => Reference::Hit { thread: line.thread, record: None, link_put: false },
            Fact::ErrlogCall(call) => Reference::Hit { thread: call.thread, record: None, link_put: false },
            Fact::GivingUp(end) => Reference::Hit { thread: end.thread, record: None, link_put: false },
            Fact::PactCheck(check) => Reference::Record(check.record),
            Fact::FieldValue(held) => Reference::Record(held.record),
            Fact::Snapshot(found) => Reference::Record(found.record),
            Fact::Properties(of) => Reference::Record(of.record),
            Fact::CaAnswer(answer) => Reference::Circuit(answer.circuit),
            Fact::PvaPut(put) => Reference::Channel(put.circuit, put.channel),
            Fact::PvaAnswer(answer) => Reference::Circuit(answer.circuit),
            Fact::PvaMonitor(monitor) => Reference::Channel(monitor.circuit, monitor.channel),
            _ => return None,
        })
    }
}

impl Contents {
    /// Those of a batch, as a frame of at most `room` bytes. Empty if there is no room for one.
    pub(super) fn frame(batch: &Batch, room: usize) -> Vec<u8> {
        let most = room.min(MAX_FRAME / 4);
        let mut out = MAGIC.to_vec();
        out.extend([0; 4]);
        out.push(LAYOUT);
        let kinds: Vec<(u64, u32)> =
            (0..).zip(batch.kinds().iter().copied()).filter(|(_, count)| *count > 0).collect();
        varint::put(&mut out, kinds.len() as u64);
        for (number, count) in kinds {
            varint::put(&mut out, number);
            varint::put(&mut out, count.into());
        }
        let Some(mut room) = most.checked_sub(out.len() + CHECKSUM + 3) else { return Vec::new() };
        let (threads, circuits, mut records) = gather(batch);
        // First the circuits and the records without a thread, which are few; a third each at most.
        let mut part = Vec::new();
        put_circuits(circuits, room / 3, &mut part);
        let set = Set::of(&mut records).within(&records, room.saturating_sub(part.len()) / 2);
        set.put(&mut part);
        room = room.saturating_sub(part.len());
        put_threads(threads, room, &mut out);
        out.extend(part);
        let length = (out.len() - FRAME_HEADER + CHECKSUM) as u32;
        if let Some(place) = out.get_mut(MAGIC.len()..FRAME_HEADER) {
            place.copy_from_slice(&length.to_le_bytes());
        }
        let crc = crate::checksum::checksum(out.get(FRAME_HEADER..).unwrap_or_default());
        out.extend(crc.to_le_bytes());
        if out.len() <= most {
            out
        } else {
            Vec::new()
        }
    }

    /// The length of the frame that begins with these bytes, its header included; `None` if they begin another.
    pub(crate) fn frame_length(bytes: &[u8]) -> Option<usize> {
        let (magic, rest) = bytes.split_first_chunk::<4>()?;
        let length = u32::from_le_bytes(*rest.first_chunk()?);
        let length = usize::try_from(length).ok()?.checked_add(FRAME_HEADER)?;
        (*magic == MAGIC && length <= MAX_FRAME).then_some(length)
    }

    /// Reads a frame; `None` if it is damaged, or if this version doesn't know its layout.
    pub(crate) fn read(frame: &[u8]) -> Option<Contents> {
        let (content, crc) = frame.get(FRAME_HEADER..)?.split_last_chunk::<CHECKSUM>()?;
        if crate::checksum::checksum(content) != u32::from_le_bytes(*crc) {
            return None;
        }
        let (&LAYOUT, mut rest) = content.split_first()? else { return None };
        let rest = &mut rest;
        let count = varint::take(rest)?;
        let mut counts = Vec::new();
        for _ in 0..count {
            let kind = u16::try_from(varint::take(rest)?).ok()?;
            counts.push((kind, u32::try_from(varint::take(rest)?).ok()?));
        }
        let threads = take_list(rest, take_thread)?;
        let circuits = take_list(rest, |rest| {
            let circuit = u32::try_from(varint::take(rest)?).ok()?;
            Some((circuit, Set::take(rest)?))
        })?;
        let records = Set::take(rest)?;
        // A later recorder may append more.
        Some(Contents { counts, threads, circuits, records })
    }

    /// Whether it may hold a hit or another fact that concerns the record.
    pub fn may_hold_record(&self, record: u32) -> bool {
        self.records.may_hold(record)
            || self
                .threads
                .as_ref()
                .is_none_or(|threads| threads.iter().any(|thread| thread.records.may_hold(record)))
    }

    /// Whether it may hold a hit in the thread.
    pub fn may_hold_thread(&self, thread: u32) -> bool {
        self.threads.as_ref().is_none_or(|threads| threads.iter().any(|of| of.thread == thread))
    }

    /// Whether it may hold a put to the channel.
    pub fn may_hold_channel(&self, channel: u32) -> bool {
        self.circuits
            .as_ref()
            .is_none_or(|circuits| circuits.iter().any(|(_, channels)| channels.may_hold(channel)))
    }
}

type Threads = BTreeMap<u32, Gathered>;
type Circuits = BTreeMap<u32, Vec<u32>>;

/// What a batch refers to: threads, circuits, and records without a thread.
fn gather(batch: &Batch) -> (Threads, Circuits, Vec<u32>) {
    let (mut threads, mut circuits, mut records) = (Threads::new(), Circuits::new(), Vec::new());
    for &(template, record) in &batch.shapes {
        let Some(template) = batch.templates.get(template as usize) else { continue };
        match template.owner() {
            Owner::Thread(thread) => {
                let thread = threads.entry(thread).or_default();
                if !matches!(template, Template::Cause { named: false, .. }) {
                    thread.records.push(record);
                }
                if let Template::Put { kind, .. } = template {
                    thread.put_to.push(record);
                    thread.puts |= *kind != PutKind::Put;
                    if *kind == PutKind::Put {
                        thread.sites.extend(template.site());
                    }
                }
            }
            Owner::Circuit(circuit) => {
                let channels = circuits.entry(circuit).or_default();
                if matches!(template, Template::CaPut { .. }) {
                    channels.push(record);
                }
            }
        }
    }
    for reference in batch.references() {
        match *reference {
            Reference::Hit { thread, record, link_put } => {
                let thread = threads.entry(thread).or_default();
                thread.records.extend(record);
                thread.link_puts |= link_put;
            }
            Reference::Record(record) => records.push(record),
            Reference::Circuit(circuit) => _ = circuits.entry(circuit).or_default(),
            Reference::Channel(circuit, channel) => circuits.entry(circuit).or_default().push(channel),
        }
    }
    (threads, circuits, records)
}

/// Appends circuits: one more than their number, and each with its channels; or 0 if there is no room.
fn put_circuits(circuits: Circuits, room: usize, out: &mut Vec<u8>) {
    let mut part = Vec::new();
    varint::put(&mut part, 1 + circuits.len() as u64);
    for (circuit, mut channels) in circuits {
        varint::put(&mut part, circuit.into());
        Set::of(&mut channels).put(&mut part);
        if part.len() > room {
            return varint::put(out, 0);
        }
    }
    out.extend(part);
}

/// Appends threads likewise. The records of all of them share the room: what has too many gets a filter.
fn put_threads(threads: Threads, room: usize, out: &mut Vec<u8>) {
    let mut heads: Vec<(u64, Vec<u8>, Gathered, Set)> = Vec::new();
    let mut used = 3;
    for (number, mut thread) in threads {
        thread.sites.sort_unstable();
        thread.sites.dedup();
        let writes = !thread.sites.is_empty();
        let listed = writes && thread.sites.len() <= MAX_SITES;
        let flags = [
            (thread.puts, THREAD_PUTS),
            (thread.link_puts, THREAD_LINK_PUTS),
            (writes, THREAD_WRITES),
            (listed, THREAD_SITES),
        ];
        let flags = flags.into_iter().filter(|(is, _)| *is).map(|(_, flag)| flag).sum();
        let mut head = Vec::new();
        varint::put(&mut head, number.into());
        varint::put(&mut head, flags);
        if listed {
            varint::put(&mut head, thread.sites.len() as u64);
            thread.sites.iter().for_each(|site| varint::put(&mut head, (*site).into()));
        }
        // at least: the records are any, and so are those put to
        used += head.len() + 2;
        let records = Set::of(&mut thread.records);
        heads.push((flags, head, thread, records));
    }
    let Some(mut left) = room.checked_sub(used) else { return varint::put(out, 0) };
    varint::put(out, 1 + heads.len() as u64);
    // The small sets come first and are exact; the large ones share what is left in proportion.
    let mut total: usize =
        heads.iter().map(|(_, _, thread, _)| thread.records.len() + thread.put_to.len()).sum();
    let mut order: Vec<usize> = (0..heads.len()).collect();
    order.sort_by_key(|place| heads.get(*place).map(|(_, _, _, set)| set.length()));
    let mut done: Vec<(Set, Set)> = vec![(Set::Any, Set::Any); heads.len()];
    for place in order {
        let Some((_, _, thread, records)) = heads.get_mut(place) else { continue };
        let put_to = Set::of(&mut thread.put_to);
        let own = thread.records.len() + thread.put_to.len();
        let whole = records.length() + put_to.length();
        let share = (left * own).checked_div(total).unwrap_or(0);
        let share = if whole <= SMALL { whole.min(left) } else { share.min(left) };
        let for_puts = if put_to.is_empty() || whole <= share { put_to.length() } else { share / 2 };
        let put_to = put_to.within(&thread.put_to, for_puts);
        let records = std::mem::take(records).within(&thread.records, share.saturating_sub(put_to.length()));
        left = left.saturating_sub(put_to.length() + records.length());
        total = total.saturating_sub(own);
        if let Some(place) = done.get_mut(place) {
            *place = (records, put_to);
        }
    }
    for ((flags, head, ..), (records, put_to)) in heads.into_iter().zip(done) {
        out.extend(head);
        records.put(out);
        if flags & (THREAD_PUTS | THREAD_WRITES) != 0 {
            put_to.put(out);
        }
    }
}

/// A list with one more than its number before it; `Some(None)` if it was too long to be written.
fn take_list<T>(rest: &mut &[u8], mut one: impl FnMut(&mut &[u8]) -> Option<T>) -> Option<Option<Vec<T>>> {
    let Some(count) = varint::take(rest)?.checked_sub(1) else { return Some(None) };
    // Each has at least two bytes.
    (count <= rest.len() as u64).then_some(())?;
    (0..count).map(|_| one(rest)).collect::<Option<Vec<T>>>().map(Some)
}

fn take_thread(rest: &mut &[u8]) -> Option<ThreadContents> {
    let thread = u32::try_from(varint::take(rest)?).ok()?;
    let flags = varint::take(rest)?;
    let sites = if flags & THREAD_SITES != 0 {
        let count = varint::take(rest)?;
        (count <= rest.len() as u64).then_some(())?;
        let sites = (0..count).map(|_| u32::try_from(varint::take(rest)?).ok());
        Some(sites.collect::<Option<Vec<u32>>>()?)
    } else {
        (flags & THREAD_WRITES == 0).then(Vec::new)
    };
    let records = Set::take(rest)?;
    let put_to = if flags & (THREAD_PUTS | THREAD_WRITES) != 0 { Set::take(rest)? } else { Set::default() };
    let (puts, link_puts) = (flags & THREAD_PUTS != 0, flags & THREAD_LINK_PUTS != 0);
    Some(ThreadContents { thread, records, put_to, puts, link_puts, sites })
}
