//! Cuts one direction of a circuit into Channel Access messages.
//!
//! A [`Framer`] takes the stream in order: bytes in pieces of any size, and gaps. It passes on each message once it is
//! complete, with the first bytes of its payload; payloads that nobody needs, and the rest of long ones, are counted
//! and not kept, whatever size they claim.
//!
//! A stream seen from its first byte is followed by the sizes in its headers alone. A stream that is joined mid-stream,
//! or that lost bytes, is resynchronized: the start of a TCP segment is a candidate for the start of a message if its
//! header is [`plausible`](crate::ca::message::plausible), and messages are held back until the framing is confirmed: by a second header where the
//! first one requires it, or by a message that ends exactly where its segment ends. Inside a segment a header is searched
//! for, too, since most segments of a busy stream begin inside a message; there it takes more to confirm it. Candidates that fail are dropped
//! and counted as lost. So a payload that begins a segment is not taken for a put unless it was made to deceive.

mod one_message;
mod search;

use crate::ca::message::{self, Header, LONG_HEADER, WRITE, WRITE_NOTIFY};
use crate::net::protocol::Side;
use crate::net::sides::Direction;
use crate::net::stream::Gap;

/// Evidence (see [`PROOF`]) after which framing found mid-stream is trusted like framing followed from the start, so
/// that unusual messages no longer end it.
const TRUSTED_AFTER: u32 = 32;
/// Evidence that a framing is right: two consecutive well-founded messages (two points each), or more that are less
/// well founded (one point each).
const PROOF: u32 = 4;
/// Evidence that suffices if a message ends where its segment ends.
const PROOF_AT_END: u32 = 2;
/// The same for a framing that was found inside a segment: there are many places that could look like a header.
const PROOF_INSIDE: u32 = 6;
/// And if a message ends where its segment ends.
const PROOF_INSIDE_AT_END: u32 = 4;

/// Receives the messages: time, header, first bytes of the payload.
pub type Sink<'a> = dyn FnMut(u64, &Header, &[u8]) + 'a;

/// Certainty of the framing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Framing {
    /// The stream is known from its first byte, but no message has come yet.
    Start,
    /// Followed from the start, or confirmed long enough.
    Certain,
    /// Found mid-stream and confirmed; headers must be plausible until this much more evidence is in.
    Confirmed(u32),
    /// A candidate, with this much evidence.
    Candidate(u32),
    /// Unknown until the next segment starts.
    Unsynchronized,
}

/// A message whose header has arrived.
#[derive(Debug)]
struct Open {
    header: Header,
    /// Payload bytes still to come.
    left: u64,
    /// Payload bytes still to be kept.
    keep: usize,
    /// Whether a part to be kept is missing.
    damaged: bool,
    /// Whether its header is not known: the socket filter has told where it ends.
    headless: bool,
}

/// A message that waits for its framing to be confirmed.
#[derive(Debug)]
struct Held {
    time: u64,
    header: Header,
    payload: Vec<u8>,
}

/// The state of one direction. See the module.
#[derive(Debug)]
pub struct Framer {
    side: Side,
    /// Bytes to keep of a put's payload.
    put_payload: u32,
    framing: Framing,
    head: [u8; LONG_HEADER],
    head_length: usize,
    open: Option<Open>,
    kept: Vec<u8>,
    held: Vec<Held>,
    /// Evidence that the candidate needs, without and with an end where its segment ends.
    needed: (u32, u32),
    /// The place in the stream, and that of the last certain message boundary: messages have multiples of 8 bytes, so this
    /// tells where others may begin.
    at: u64,
    boundary: Option<u64>,
    /// Bytes taken in since the last message boundary, or, for a candidate, since its first byte.
    unsettled: u64,
    lost: u64,
    foreign: bool,
    /// The framing was certain until the socket filter left something out: it is again once the filter tells the place.
    lapsed: bool,
}

impl Direction for Framer {
    fn start(&mut self) {
        let new = Framer::new(self.side, self.put_payload);
        *self = Framer { framing: Framing::Start, boundary: Some(0), ..new };
    }

    fn foreign(&self) -> Option<u8> {
        self.head.first().copied().filter(|_| self.foreign)
    }

    fn take_lost(&mut self) -> u64 {
        std::mem::take(&mut self.lost)
    }

    fn unneeded(&self) -> u64 {
        let trusted = matches!(self.framing, Framing::Certain | Framing::Confirmed(_));
        self.open.as_ref().filter(|open| trusted && open.keep == 0).map_or(0, |open| open.left)
    }
}

impl Framer {
    /// A framer for a direction that is joined mid-stream.
    pub fn new(side: Side, put_payload: u32) -> Framer {
        Framer {
            side,
            put_payload,
            framing: Framing::Unsynchronized,
            head: [0; LONG_HEADER],
            head_length: 0,
            open: None,
            kept: Vec::new(),
            held: Vec::new(),
            needed: (PROOF, PROOF_AT_END),
            at: 0,
            boundary: None,
            unsettled: 0,
            lost: 0,
            foreign: false,
            lapsed: false,
        }
    }

    /// The other direction has shown that this is Channel Access.
    pub fn trust(&mut self) {
        if self.framing == Framing::Start {
            self.framing = Framing::Certain;
        }
    }

    /// Takes the next bytes of the stream, from one TCP segment. `starts` and `ends`: whether they begin and end that
    /// segment.
    pub fn bytes(&mut self, time: u64, bytes: &[u8], starts: bool, ends: bool, sink: &mut Sink) {
        let mut rest = bytes;
        let begin = self.at;
        self.at = begin.wrapping_add(bytes.len() as u64);
        self.lapsed = false;
        // A candidate from an earlier segment may turn out wrong; then the start of this segment is a candidate.
        let mut second_try = starts && matches!(self.framing, Framing::Candidate(_));
        let mut aligned = starts;
        // what was left where the last candidate was found
        let mut found_at = usize::MAX;
        while !rest.is_empty() {
            if self.framing == Framing::Unsynchronized {
                let at = begin.wrapping_add((bytes.len() - rest.len()) as u64);
                let Some(found) = self.search(rest, at, aligned, ends) else {
                    self.lost += rest.len() as u64;
                    return;
                };
                self.lost += found as u64;
                rest = rest.get(found..).unwrap_or_default();
                found_at = rest.len();
            }
            aligned = false;
            match self.advance(time, rest, sink) {
                Ok(used) => {
                    rest = rest.get(used..).unwrap_or_default();
                    if self.between_messages() && !matches!(self.framing, Framing::Candidate(_)) {
                        self.boundary = Some(begin.wrapping_add((bytes.len() - rest.len()) as u64));
                    }
                }
                Err(NotFramed) => {
                    let again = second_try && matches!(self.framing, Framing::Candidate(_));
                    second_try = false;
                    self.give_up();
                    if again {
                        self.lost = self.lost.saturating_sub((bytes.len() - rest.len()) as u64);
                        rest = bytes;
                        aligned = true;
                    } else if rest.len() == found_at {
                        // no message begins there after all, and the search would find it again, without end
                        self.lost += 1;
                        rest = rest.get(1..).unwrap_or_default();
                    }
                }
            }
        }
        let enough = |proofs| proofs >= self.needed.1;
        if ends && self.between_messages() && matches!(self.framing, Framing::Candidate(n) if enough(n)) {
            self.confirm(sink);
        }
    }

    /// The socket filter has followed the stream to here: the next header comes after this many bytes, and nothing that
    /// matters is between the bytes taken so far and the next ones. A framing that has not been lost knows better: it has
    /// seen everything in order.
    pub fn place(&mut self, before: u32, sink: &mut Sink) {
        if !matches!(self.framing, Framing::Unsynchronized | Framing::Candidate(_)) {
            return;
        }
        let next = self.open.as_ref().map_or(0, |open| open.left);
        if self.framing != Framing::Unsynchronized && self.head_length == 0 && next == u64::from(before) {
            return self.confirm(sink);
        }
        let lapsed = self.lapsed;
        self.give_up();
        self.framing = if lapsed { Framing::Certain } else { Framing::Confirmed(TRUSTED_AFTER) };
        let header =
            Header { command: message::EVENT_ADD, size: 0, dbr: 0, count: 0, p1: 0, p2: 0, long: false };
        let open = Open { header, left: before.into(), keep: 0, damaged: false, headless: true };
        self.open = (before > 0).then_some(open);
    }

    /// Gives up the framing where the socket filter may have left something out; if what is missing of the open message
    /// does not matter, nothing is lost.
    fn forget_or_give_up(&mut self) {
        let matters = |open: &Open| open.keep > 0 || open.damaged || self.keep(&open.header) > 0;
        if !self.open.as_ref().is_some_and(matters) && !matches!(self.framing, Framing::Candidate(_)) {
            self.unsettled = 0;
        }
        self.give_up();
    }

    /// The server has refused this request. If its last bytes are still to come, it is told now, and not again: RSRV refuses
    /// what is too large for it by the header alone (camessage.c).
    pub fn refused(&mut self, time: u64, request: &Header, sink: &mut Sink) {
        let is_trusted = matches!(self.framing, Framing::Certain | Framing::Confirmed(_));
        let open = self.open.as_mut().filter(|open| is_trusted && !open.headless && !open.damaged);
        let Some(open) = open.filter(|open| matches!(open.header.command, WRITE | WRITE_NOTIFY)) else {
            return;
        };
        if (Header { long: open.header.long, ..*request }) == open.header {
            sink(time, &open.header, &self.kept);
            (open.headless, open.keep) = (true, 0);
            self.unsettled = 0;
        }
    }

    /// Takes a gap in the stream.
    pub fn gap(&mut self, time: u64, length: u32, cause: Gap, sink: &mut Sink) {
        let length = u64::from(length);
        self.at = self.at.wrapping_add(length);
        match &mut self.open {
            Some(open) if open.left >= length => {
                open.left -= length;
                if open.keep > 0 {
                    open.keep = 0;
                    open.damaged = !matches!(open.header.command, WRITE | WRITE_NOTIFY);
                }
                if open.left == 0 && self.close(time, sink).is_err() {
                    self.give_up();
                    self.lost += length;
                } else {
                    self.took(length);
                }
            }
            // Such segments end where a message ends.
            None if cause == Gap::Elided
                && (self.head_length == 0 || self.framing == Framing::Unsynchronized) => {}
            // What did not pass the filter is no loss, but ends what is known of the stream.
            _ if cause == Gap::Unseen => {
                let lapsed = self.lapsed || self.framing == Framing::Certain;
                self.forget_or_give_up();
                self.lapsed = lapsed;
            }
            _ => {
                self.give_up();
                self.lost += length;
            }
        }
    }

    fn between_messages(&self) -> bool {
        self.head_length == 0 && self.open.is_none()
    }

    /// The candidate is right.
    fn confirm(&mut self, sink: &mut Sink) {
        self.framing = Framing::Confirmed(TRUSTED_AFTER);
        self.unsettled = 0;
        for held in std::mem::take(&mut self.held) {
            sink(held.time, &held.header, &held.payload);
        }
    }

    /// The framing is lost, and with it the bytes of incomplete messages.
    fn give_up(&mut self) {
        self.lost += std::mem::take(&mut self.unsettled);
        self.lapsed = false;
        self.framing = Framing::Unsynchronized;
        self.head_length = 0;
        self.open = None;
        self.kept.clear();
        self.held.clear();
    }
}

/// The bytes are not a Channel Access message.
#[derive(Debug)]
struct NotFramed;

#[cfg(test)]
#[path = "../../../tests/ca/messages.rs"]
mod messages;

#[cfg(test)]
mod tests;
