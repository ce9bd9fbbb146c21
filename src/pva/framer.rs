//! Cuts one direction of a circuit into PVAccess messages.
//!
//! A [`Framer`] takes the stream in order: bytes in pieces of any size, and gaps. It joins the segments of a message and
//! passes it on once it is complete, with the first bytes of its payload; the rest of long ones is counted and not kept.
//!
//! A stream seen from its first byte is followed by the sizes in its headers alone. One that is joined mid-stream, or
//! that lost more than the rest of a message, is resynchronized: a header is looked for at the start of a TCP segment
//! and inside it, and believed once another follows behind its message, or nothing follows in its TCP segment.

use epics::pva::Cursor;

use crate::net::protocol::{Bytes, Side};
use crate::net::sides::{at_least, Direction};
use crate::net::stream::Gap;
use crate::pva::message::{
    Header, BIG_ENDIAN, FIRST, GET, HEADER, LAST, MAGIC, MONITOR, PUT, PUT_GET, SEGMENTS, SET_ENDIANNESS,
};

/// Payload bytes to keep, as the socket filter does (PVA_KEPT of bpf/messages.h). Types of large groups take tens of
/// kilobytes.
pub const KEPT: usize = 0xffff;
/// Those that are kept of each message where many are being put together.
pub const FEW: usize = 4 << 10;
/// Bytes before the value of a put: ids and subcommand.
const TO_VALUE: usize = 9;
/// The socket filter lets the headers of a packet pass after each 16 MiB that it leaves out, and a packet has 64 KiB, or
/// with BIG TCP more. A larger hole is none of the filter's alone.
const MOST_LEFT_OUT: u32 = 20 << 20;
/// Bytes that show whether a server's answer to a get or monitor has a type: request id and subcommand.
const TO_SUBCOMMAND: usize = 5;
/// Subcommand: prepares a request.
const INIT: u8 = 0x08;
/// Buffers of this size are not given back: most messages fit.
const SMALL: usize = 1 << 10;

/// A message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// Its header; of several segments the first one's.
    pub header: Header,
    /// Its first bytes.
    pub payload: &'a [u8],
    /// Its length.
    pub length: u64,
    /// Whether bytes before it were lost, so that it is not known which types were defined.
    pub after_loss: bool,
}

/// Receives the messages.
pub type Sink<'a> = dyn FnMut(u64, Message) + 'a;

/// Certainty of the framing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Framing {
    /// The stream is known from its first byte, but no message has come yet.
    Start,
    /// Known.
    Certain,
    /// A header was found, but what follows its message has not come yet.
    Candidate,
    /// Unknown.
    Lost,
}

/// The message that is being put together.
#[derive(Clone, Copy, Debug)]
struct Whole {
    header: Header,
    /// Payload so far.
    length: u64,
    /// Whether more is to be kept.
    keeps: bool,
    /// When its last segment that has come was complete.
    time: u64,
}

/// The state of one direction. See the module.
#[derive(Debug)]
pub struct Framer {
    side: Side,
    /// Bytes to keep of a put's value.
    put_payload: usize,
    framing: Framing,
    head: [u8; HEADER],
    head_length: usize,
    /// Bytes of the current segment still to come; `None` between segments.
    left: Option<u32>,
    /// Whether the segment completes its message.
    completes: bool,
    whole: Option<Whole>,
    kept: Vec<u8>,
    /// Time of the candidate's message, if it is complete.
    held: Option<u64>,
    /// Bytes taken in since the last boundary between messages.
    unsettled: u64,
    lost: u64,
    foreign: Option<u8>,
    /// Whether types may have been missed since the last message passed on.
    missed: bool,
    /// Whether the socket filter follows this direction: it has told a place in it.
    followed: bool,
    /// Bytes that are missing: lost, unless the filter tells the place of the next ones.
    doubtful: u64,
    /// Whether the other side takes numbers for big-endian, if it goes by the connection's order and not by each message's.
    pub order: Option<bool>,
}

impl Direction for Framer {
    fn start(&mut self) {
        *self = Framer { framing: Framing::Start, ..Framer::new(self.side, self.put_payload) };
    }

    fn foreign(&self) -> Option<u8> {
        self.foreign
    }

    fn take_lost(&mut self) -> u64 {
        std::mem::take(&mut self.lost)
    }

    fn unneeded(&self) -> u64 {
        let is_passed = self.whole.as_ref().is_some_and(|whole| !whole.keeps);
        let known = is_passed && self.framing == Framing::Certain;
        self.left.filter(|_| known).map_or(0, u64::from)
    }
}

impl Framer {
    /// A framer for a direction that is joined mid-stream.
    pub fn new(side: Side, put_payload: usize) -> Framer {
        Framer {
            side,
            put_payload,
            framing: Framing::Lost,
            head: [0; HEADER],
            head_length: 0,
            left: None,
            completes: false,
            whole: None,
            kept: Vec::new(),
            held: None,
            unsettled: 0,
            lost: 0,
            foreign: None,
            missed: false,
            followed: false,
            doubtful: 0,
            order: None,
        }
    }

    /// Bytes of memory that it holds.
    pub fn held(&self) -> usize {
        self.kept.capacity()
    }

    /// Takes the next bytes of the stream, from one TCP segment. `most`: payload bytes to keep of a message that comes in
    /// parts.
    pub fn bytes(&mut self, time: u64, piece: Bytes, most: usize, sink: &mut Sink) {
        let Bytes { bytes, starts, ends, .. } = piece;
        let doubtful = std::mem::take(&mut self.doubtful);
        self.lost += doubtful;
        self.missed |= doubtful > 0;
        let mut rest = bytes;
        // what was left where the last candidate was found
        let mut found_at = usize::MAX;
        while !rest.is_empty() {
            if self.framing == Framing::Lost {
                let starts = starts && rest.len() == bytes.len();
                let Some(skipped) = find(self.side, Bytes { bytes: rest, starts, ..piece }) else {
                    self.lost += rest.len() as u64;
                    return;
                };
                self.lost += skipped as u64;
                rest = rest.get(skipped..).unwrap_or_default();
                found_at = rest.len();
                self.framing = Framing::Candidate;
            }
            let used = self.advance(time, rest, most, sink);
            if used == 0 {
                self.give_up();
                if self.foreign.is_some() {
                    self.lost += rest.len() as u64;
                    return;
                }
                if rest.len() == found_at {
                    // none for the other side, which goes by another byte order; the search would find it again, without end
                    self.lost += 1;
                    rest = rest.get(1..).unwrap_or_default();
                }
            }
            rest = rest.get(used..).unwrap_or_default();
        }
        if ends && self.is_between() && self.framing == Framing::Candidate {
            self.confirm(sink);
        }
    }

    /// The socket filter has followed the stream to here: the next header comes after this many bytes, and nothing that
    /// matters is between the bytes taken so far and the next ones. A framing that has not been lost knows better: it has
    /// seen everything in order.
    pub fn place(&mut self, before: u32, sink: &mut Sink) {
        self.followed = true;
        self.doubtful = 0;
        if !matches!(self.framing, Framing::Lost | Framing::Candidate) {
            return;
        }
        if self.framing == Framing::Candidate && self.head_length == 0 && self.left.unwrap_or(0) == before {
            return self.confirm(sink);
        }
        let missed = self.missed;
        self.give_up();
        // what was lost before is lost, but this is not
        self.missed = missed;
        self.framing = Framing::Certain;
        self.left = (before > 0).then_some(before);
    }

    /// Takes a gap in the stream.
    pub fn gap(&mut self, time: u64, length: u32, cause: Gap, sink: &mut Sink) {
        let is_unseen = cause == Gap::Unseen;
        // what the filter left out does not matter
        let is_harmless = cause == Gap::Elided || is_unseen && length <= MOST_LEFT_OUT;
        if is_unseen && !self.followed {
            let is_needed = self.whole.as_ref().is_some_and(|whole| whole.keeps) && !self.has_enough();
            let is_inside = self.left.is_some_and(|left| left >= length);
            self.doubtful += if is_needed || !is_inside { at_least(length.into()) } else { 0 };
        }
        match self.left {
            Some(left) if left >= length => {
                self.left = Some(left - length);
                self.unsettled += u64::from(length);
                let has_enough = self.has_enough();
                if let Some(whole) = &mut self.whole {
                    whole.length += u64::from(length);
                    // what was cut off a put is not missed; a type may be
                    if whole.keeps && !has_enough && !is_harmless {
                        self.missed = true;
                        self.lost += if is_unseen { 0 } else { u64::from(length) };
                    }
                    whole.keeps = false;
                }
                self.complete(time, sink);
            }
            // Such segments end where a message ends.
            None if cause == Gap::Elided && self.head_length == 0 => {}
            // It is no loss that is counted here, but ends what is known of the stream, until the filter tells a place.
            _ if is_unseen => {
                let missed = self.missed || !is_harmless;
                if !self.is_incomplete() {
                    self.unsettled = 0;
                }
                self.give_up();
                self.missed = missed;
            }
            _ => {
                self.give_up();
                self.lost += u64::from(length);
            }
        }
    }

    /// No more comes of a message: passes it on. QSRV1 has carried it out if what it needs has come.
    pub fn end(&mut self, time: u64, sink: &mut Sink) {
        if self.framing == Framing::Certain {
            self.pass(time, sink);
        }
    }

    /// The server has answered the put of this number: if it is the one that is put together, no more of it matters.
    pub fn answered(&mut self, ioid: u32, sink: &mut Sink) {
        let is_between = self.is_between();
        // either side has a byte order of its own
        let is_it = |whole: &&Whole| {
            let behind_sid = self.kept.get(4..).unwrap_or_default();
            let own = Cursor::new(behind_sid, whole.header.is_big_endian()).u32();
            is_between && whole.header.command == PUT && own == Ok(ioid)
        };
        if let Some(time) = self.whole.as_ref().filter(is_it).map(|whole| whole.time) {
            self.end(time, sink);
        }
    }

    /// Types may have been missed.
    pub fn miss(&mut self) {
        self.missed = true;
    }

    /// Whether the message that is put together has all that is kept of it: the socket filter cuts off the rest.
    fn has_enough(&self) -> bool {
        let Some(whole) = &self.whole else { return true };
        let subcommand = self.kept.get(TO_VALUE - 1);
        let is_put = self.side == Side::Client
            && matches!(whole.header.command, PUT | PUT_GET)
            && subcommand.is_some_and(|subcommand| subcommand & INIT == 0);
        self.kept.len() >= if is_put { TO_VALUE + self.put_payload } else { KEPT }
    }

    /// Whether bytes that matter have come of a message that is not complete, or its header is.
    fn is_incomplete(&self) -> bool {
        self.framing == Framing::Candidate
            || self.whole.as_ref().is_some_and(|whole| self.wants(whole.header.command, &self.kept))
    }

    fn is_between(&self) -> bool {
        self.head_length == 0 && self.left.is_none()
    }

    /// Takes some of these bytes and returns their number; 0 if they can't be framed.
    fn advance(&mut self, time: u64, rest: &[u8], most: usize, sink: &mut Sink) -> usize {
        if let Some(left) = self.left {
            let used = usize::try_from(left).unwrap_or(usize::MAX).min(rest.len());
            self.keep(rest.get(..used).unwrap_or_default(), most);
            self.left = Some(left - used as u32);
            self.unsettled += used as u64;
            self.complete(time, sink);
            return used;
        }
        if self.head_length == 0 {
            if let Some(header) = self.header(rest) {
                return self.begin(time, header, rest, sink);
            }
        }
        // The header is split, or none: gather it.
        let used = (HEADER - self.head_length).min(rest.len());
        let end = self.head_length + used;
        if let (Some(to), Some(from)) = (self.head.get_mut(self.head_length..end), rest.get(..used)) {
            to.copy_from_slice(from);
        }
        if self.head.first() != Some(&MAGIC) {
            self.refuse();
            return 0;
        }
        self.head_length = end;
        self.unsettled += used as u64;
        if end == HEADER {
            let head = self.head;
            match self.header(&head).filter(|header| self.accepts(header)) {
                Some(header) => {
                    self.head_length = 0;
                    self.open(time, header, sink);
                    self.complete(time, sink);
                }
                None => return 0,
            }
        }
        used
    }

    /// A message's header as the other side takes it. Where the flag says otherwise, the socket filter may have gone by that,
    /// and left out what follows.
    fn header(&mut self, bytes: &[u8]) -> Option<Header> {
        let mut header = Header::parse(bytes)?;
        if !header.is_control() && self.order.is_some_and(|order| order != header.is_big_endian()) {
            header.flags ^= BIG_ENDIAN;
            header.size = header.size.swap_bytes();
            self.lost += HEADER as u64;
        }
        Some(header)
    }

    /// A message begins with these bytes: takes all of it, or its header if the rest has not come yet.
    fn begin(&mut self, time: u64, header: Header, rest: &[u8], sink: &mut Sink) -> usize {
        if !self.accepts(&header) {
            return 0;
        }
        let size = header.size as usize;
        let end = HEADER.saturating_add(size);
        let known = matches!(self.framing, Framing::Certain | Framing::Start);
        let alone = header.flags & SEGMENTS == 0 && !header.is_control() && self.whole.is_none();
        if let Some(payload) = rest.get(HEADER..end).filter(|_| known && alone) {
            self.framing = Framing::Certain;
            self.unsettled = 0;
            // nothing of it is held, however much is held of others
            let payload = payload.get(..KEPT).unwrap_or(payload);
            let after_loss = std::mem::take(&mut self.missed);
            if self.wants(header.command, payload) {
                sink(time, Message { header, payload, length: header.size.into(), after_loss });
            }
            return end;
        }
        self.open(time, header, sink);
        self.unsettled += HEADER as u64;
        self.complete(time, sink);
        HEADER
    }

    /// Whether this header can come next.
    fn accepts(&mut self, header: &Header) -> bool {
        match self.framing {
            // unknown commands and versions are skipped, as servers do
            Framing::Start | Framing::Certain => true,
            Framing::Candidate => header.is_plausible(self.side),
            Framing::Lost => false,
        }
    }

    fn refuse(&mut self) {
        if self.framing == Framing::Start {
            self.foreign = self.head.first().copied();
        }
    }

    /// A segment's header has come.
    fn open(&mut self, time: u64, header: Header, sink: &mut Sink) {
        if self.held.is_some() {
            self.confirm(sink);
        }
        if self.framing == Framing::Start {
            self.framing = Framing::Certain;
        }
        self.left = Some(header.size);
        // control messages may stand between segments
        if header.is_control() {
            self.completes = false;
            if header.command == SET_ENDIANNESS {
                self.order = self.order.map(|_| header.is_big_endian());
            }
            return;
        }
        let segment = header.flags & SEGMENTS;
        self.completes = segment == 0 || segment == LAST;
        if segment == 0 || segment == FIRST {
            self.end(time, sink);
            self.kept.clear();
            self.whole = Some(Whole { header, length: 0, keeps: true, time });
        } else if let Some(whole) = &mut self.whole {
            // pvxs goes by the last segment
            whole.header.flags = header.flags;
        }
    }

    fn keep(&mut self, bytes: &[u8], most: usize) {
        let Some(whole) = &mut self.whole else { return };
        whole.length += bytes.len() as u64;
        if !whole.keeps {
            return;
        }
        let mut rest = bytes;
        if self.side == Side::Server && matches!(whole.header.command, GET | MONITOR) {
            let missing = TO_SUBCOMMAND.saturating_sub(self.kept.len()).min(rest.len());
            let (first, others) = rest.split_at_checked(missing).unwrap_or((rest, &[]));
            self.kept.extend_from_slice(first);
            rest = others;
            whole.keeps = self.kept.get(4).is_none_or(|subcommand| subcommand & INIT != 0);
        }
        if whole.keeps {
            let room = most.saturating_sub(self.kept.len()).min(rest.len());
            self.kept.extend_from_slice(rest.get(..room).unwrap_or_default());
            whole.keeps = room == rest.len();
        }
    }

    /// Handles the end of a segment, if all of it has come.
    fn complete(&mut self, time: u64, sink: &mut Sink) {
        if self.left != Some(0) {
            return;
        }
        self.left = None;
        if self.framing != Framing::Candidate {
            self.unsettled = 0;
        }
        if !self.completes {
            self.whole.iter_mut().for_each(|whole| whole.time = time);
            return;
        }
        match self.framing {
            // the end of this segment or the next header decides
            Framing::Candidate => self.held = Some(time),
            _ => self.pass(time, sink),
        }
    }

    /// Passes on the message that is put together.
    fn pass(&mut self, time: u64, sink: &mut Sink) {
        let Some(Whole { header, length, .. }) = self.whole.take() else { return };
        if self.wants(header.command, &self.kept) {
            let after_loss = std::mem::take(&mut self.missed);
            sink(time, Message { header, payload: &self.kept, length, after_loss });
        }
        self.kept.clear();
        if self.kept.capacity() > SMALL {
            self.kept = Vec::new();
        }
    }

    /// Whether a message has anything to tell: updates and values that were asked for do not.
    fn wants(&self, command: u8, payload: &[u8]) -> bool {
        let values = self.side == Side::Server && matches!(command, GET | MONITOR);
        !values || payload.get(4).is_some_and(|subcommand| subcommand & INIT != 0)
    }

    /// The candidate is right.
    fn confirm(&mut self, sink: &mut Sink) {
        self.framing = Framing::Certain;
        self.unsettled = 0;
        if let Some(time) = self.held.take() {
            self.pass(time, sink);
        }
    }

    /// The framing is lost, and with it the bytes of incomplete messages.
    fn give_up(&mut self) {
        self.lost += std::mem::take(&mut self.unsettled);
        self.framing = Framing::Lost;
        self.head_length = 0;
        self.left = None;
        self.completes = false;
        self.whole = None;
        self.held = None;
        self.missed = true;
        self.kept = Vec::new();
    }
}

/// Where a message begins in bytes of which nothing is known.
fn find(side: Side, Bytes { bytes, starts, ends, .. }: Bytes) -> Option<usize> {
    let header = |at: usize| Header::parse(bytes.get(at..)?).filter(|header| header.is_plausible(side));
    let mut at = 0;
    loop {
        at += bytes.get(at..)?.iter().position(|byte| *byte == MAGIC)?;
        if let Some(found) = header(at) {
            let next = at.saturating_add(HEADER).saturating_add(found.size as usize);
            let follows = match next.cmp(&bytes.len()) {
                std::cmp::Ordering::Less => header(next).is_some(),
                std::cmp::Ordering::Equal => ends,
                // only the start of a segment is likely enough to be believed for so long
                std::cmp::Ordering::Greater => starts && at == 0,
            };
            if follows {
                return Some(at);
            }
        }
        at += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pva::message::FROM_SERVER;

    /// Where the server goes by the connection's byte order, such a header claims gigabytes.
    #[test]
    fn a_candidate_of_another_byte_order_is_passed_over() {
        let message = |flags: u8, size: [u8; 4]| [&[MAGIC, 2, flags, PUT][..], &size, &[0; 17]].concat();
        let other = message(0, 17_u32.to_le_bytes());
        let own = message(BIG_ENDIAN, 17_u32.to_be_bytes());
        let mut framer = Framer::new(Side::Client, 16);
        framer.order = Some(true);
        let mut told = 0;
        let bytes = [other.as_slice(), &own, &own].concat();
        let piece = Bytes { bytes: &bytes, starts: true, ends: true, place: None };
        framer.bytes(1, piece, FEW, &mut |_, _| told += 1);
        assert_eq!(told, 2);
        assert!(framer.take_lost() >= other.len() as u64);
    }

    /// Of messages that are being put together little is kept where there are many; one that comes whole takes no room.
    #[test]
    fn a_message_that_comes_whole_is_not_cut() {
        let size = 3 * FEW;
        let mut bytes = vec![MAGIC, 2, FROM_SERVER, PUT];
        bytes.extend((size as u32).to_le_bytes());
        bytes.resize(HEADER + size, 7);
        let mut framer = Framer::new(Side::Server, 16);
        framer.start();
        let mut kept = Vec::new();
        for part in [&bytes[..], &bytes[..HEADER + 1], &bytes[HEADER + 1..]] {
            let piece = Bytes { bytes: part, starts: true, ends: true, place: None };
            framer.bytes(1, piece, FEW, &mut |_, message| kept.push(message.payload.len()));
        }
        assert_eq!(kept, [size, FEW]);
    }

    /// How much was missed nobody knows.
    #[test]
    fn a_filtered_stream_that_goes_back_has_not_lost_all_numbers() {
        let bytes = [&[MAGIC, 2, FROM_SERVER, PUT][..], &9_u32.to_le_bytes(), &[0; 9]].concat();
        let mut framer = Framer::new(Side::Server, 16);
        framer.start();
        framer.gap(1, (600_u32 << 20).wrapping_neg(), Gap::Unseen, &mut |_, _| ());
        framer.bytes(1, Bytes { bytes: &bytes, starts: true, ends: true, place: None }, FEW, &mut |_, _| ());
        let lost = framer.take_lost();
        assert!(lost > 0 && lost < 1 << 20, "{lost}");
    }
}
