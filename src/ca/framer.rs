//! Cuts one direction of a circuit into Channel Access messages.
//!
//! A [`Framer`] takes the stream in order: bytes in pieces of any size, and gaps. It passes on each message once it is
//! complete, with the first bytes of its payload; payloads that nobody needs, and the rest of long ones, are counted
//! and not kept, whatever size they claim.
//!
//! A stream seen from its first byte is followed by the sizes in its headers alone. A stream that is joined mid-stream,
//! or that lost bytes, is resynchronized: the start of a TCP segment is a candidate for the start of a message if its
//! header is [`plausible`], and messages are held back until the framing is confirmed: by a second header where the
//! first one requires it, or by a message that ends exactly where its segment ends. Inside a segment a header is searched
//! for, too, since most segments of a busy stream begin inside a message; there it takes more to confirm it. Candidates that fail are dropped
//! and counted as lost. So a payload that begins a segment is not taken for a put unless it was made to deceive.

use crate::ca::message::{
    self, is_text, plausible, Header, Plausibility, CLIENT_NAME, CREATE_CHAN, ERROR, HEADER, HOST_NAME,
    LAST_COMMAND, LONG_HEADER, WRITE, WRITE_NOTIFY,
};
use crate::net::protocol::Side;
use crate::net::sides::Direction;
use crate::net::stream::Gap;

/// Payload bytes to keep of a CREATE_CHAN, CLIENT_NAME or HOST_NAME. Servers accept no longer names (RSRV: 512 bytes
/// for users and hosts; PV names are far shorter).
const KEPT_NAME: u32 = 512;
/// Payload bytes to keep of an ERROR: a header and its text.
const KEPT_ERROR: u32 = 512;
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
/// Longest payload of a lone message that is taken for a candidate inside a segment. A wrong one costs what it claims.
const MAX_LONE: u32 = 64 << 10;
/// Bytes of a segment that are searched for a header. Requests are few; answers mostly begin their segment, and a server
/// may send hundreds of megabytes a second.
const SEARCHED_REQUESTS: usize = 64 << 10;
const SEARCHED_ANSWERS: usize = 2 << 10;
/// Messages that a search follows from one place, so that zeros don't cost time without end.
const FOLLOWED: usize = 16;
/// Maximum number of messages held back until a framing is confirmed. Blank messages beyond it are not held: they are
/// no evidence and carry no information.
const MAX_HELD: usize = 8;

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
        while !rest.is_empty() {
            if self.framing == Framing::Unsynchronized {
                let at = begin.wrapping_add((bytes.len() - rest.len()) as u64);
                let Some(found) = self.search(rest, at, aligned, ends) else {
                    self.lost += rest.len() as u64;
                    return;
                };
                self.lost += found as u64;
                rest = rest.get(found..).unwrap_or_default();
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
                    }
                }
            }
        }
        let enough = |proofs| proofs >= self.needed.1;
        if ends && self.between_messages() && matches!(self.framing, Framing::Candidate(n) if enough(n)) {
            self.confirm(sink);
        }
    }

    /// Searches for a message in the rest of a segment. If there is one, returns where it begins, and is a candidate from
    /// there on. `aligned`: whether `rest` is a whole segment.
    fn search(&mut self, rest: &[u8], at: u64, aligned: bool, ends: bool) -> Option<usize> {
        if aligned && self.follow(rest, ends).is_some() {
            self.framing = Framing::Candidate(0);
            self.needed = (PROOF, PROOF_AT_END);
            return Some(0);
        }
        let (first, step) = match self.boundary {
            Some(boundary) => ((boundary.wrapping_sub(at) & 7) as usize, 8),
            None => (0, 1),
        };
        let most = if self.side == Side::Client { SEARCHED_REQUESTS } else { SEARCHED_ANSWERS };
        let found = (first..rest.len().min(most)).step_by(step).find(|&place| {
            let Some(rest) = rest.get(place..) else { return false };
            // Most places are ruled out by their first bytes.
            if !matches!(rest, [0, command, ..] if u16::from(*command) <= LAST_COMMAND) {
                return false;
            }
            let Some(chain) = self.follow(rest, ends) else { return false };
            let lone = chain.is_put && chain.first <= MAX_LONE && self.side == Side::Client;
            chain.evidence >= PROOF_INSIDE || chain.is_whole && chain.evidence >= PROOF_INSIDE_AT_END || lone
        })?;
        self.framing = Framing::Candidate(0);
        self.needed = (PROOF_INSIDE, PROOF_INSIDE_AT_END);
        Some(found)
    }

    /// Follows the messages that begin here, as far as the segment goes; `None` if these can be no messages.
    fn follow(&self, mut rest: &[u8], ends: bool) -> Option<Chain> {
        let mut chain = Chain::default();
        for number in 0..FOLLOWED {
            let Some(header) = Header::parse(rest) else {
                // Less than a header: the rest is in the next segment.
                chain.is_whole = rest.is_empty() && ends;
                return Some(chain);
            };
            let plausibility = plausible(self.side, &header);
            chain.evidence += match plausibility {
                Plausibility::None => return None,
                Plausibility::Weak => 0,
                Plausibility::Fair => 1,
                Plausibility::Strong => 2,
            };
            if number == 0 {
                chain.first = header.size;
                chain.is_put = plausibility == Plausibility::Strong
                    && matches!(header.command, WRITE | WRITE_NOTIFY)
                    && header.size > 0;
            }
            let end = usize::try_from(header.size).unwrap_or(usize::MAX).saturating_add(header.bytes());
            match rest.get(end..) {
                Some(next) => rest = next,
                None => break,
            }
            if chain.evidence >= PROOF_INSIDE {
                break;
            }
        }
        Some(chain)
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

    /// Takes some of these bytes, at least one, and returns their number. If they can't be framed, takes none.
    fn advance(&mut self, time: u64, rest: &[u8], sink: &mut Sink) -> Result<usize, NotFramed> {
        if let Some(open) = &mut self.open {
            let used = usize::try_from(open.left).unwrap_or(usize::MAX).min(rest.len());
            let keep = open.keep.min(used);
            self.kept.extend_from_slice(rest.get(..keep).unwrap_or_default());
            open.keep -= keep;
            open.left -= used as u64;
            if open.left == 0 {
                self.close(time, sink)?;
            }
            self.took(used as u64);
            return Ok(used);
        }
        if self.head_length == 0 {
            if let Some(header) = Header::parse(rest) {
                return self.begin(time, header, rest, sink);
            }
        }
        // The header is split: gather it.
        let have = self.head.get(..self.head_length).unwrap_or_default();
        let want = Header::length(have).unwrap_or(HEADER).saturating_sub(have.len());
        let used = want.min(rest.len());
        let end = self.head_length + used;
        if let (Some(to), Some(from)) = (self.head.get_mut(self.head_length..end), rest.get(..used)) {
            to.copy_from_slice(from);
        }
        match self.head.get(..end).and_then(Header::parse) {
            Some(header) => {
                self.check(&header)?;
                self.head_length = 0;
                self.open(header);
                if header.size == 0 {
                    self.close(time, sink)?;
                }
            }
            None => self.head_length = end,
        }
        self.took(used as u64);
        Ok(used)
    }

    /// A message begins with these bytes: takes all of it, or its header if the rest has not come yet.
    fn begin(&mut self, time: u64, header: Header, rest: &[u8], sink: &mut Sink) -> Result<usize, NotFramed> {
        self.check(&header)?;
        let from = header.bytes();
        let size = usize::try_from(header.size).unwrap_or(usize::MAX);
        match rest.get(from..from.saturating_add(size)) {
            Some(payload) => {
                let keep = self.keep(&header).min(payload.len());
                self.settle(time, &header, payload.get(..keep).unwrap_or_default(), sink)?;
                self.took((from + size) as u64);
                Ok(from + size)
            }
            None => {
                self.open(header);
                self.took(from as u64);
                Ok(from)
            }
        }
    }

    fn open(&mut self, header: Header) {
        self.kept.clear();
        let keep = self.keep(&header);
        self.open = Some(Open { header, left: header.size.into(), keep, damaged: false, headless: false });
    }

    /// The open message's last byte has come.
    fn close(&mut self, time: u64, sink: &mut Sink) -> Result<(), NotFramed> {
        let Some(open) = self.open.take() else { return Ok(()) };
        if open.headless {
            return Ok(());
        }
        if open.damaged {
            if matches!(self.framing, Framing::Candidate(_)) {
                return Err(NotFramed);
            }
            self.lost += open.header.bytes() as u64 + u64::from(open.header.size);
            return Ok(());
        }
        let kept = std::mem::take(&mut self.kept);
        let settled = self.settle(time, &open.header, &kept, sink);
        self.kept = kept;
        settled
    }

    /// Counts bytes as taken; those of whole messages of a trusted framing are settled.
    fn took(&mut self, bytes: u64) {
        let is_candidate = matches!(self.framing, Framing::Candidate(_));
        if self.between_messages() && !is_candidate {
            self.unsettled = 0;
        } else {
            self.unsettled += bytes;
        }
    }

    /// Whether this header is possible in this state of the framing.
    fn check(&mut self, header: &Header) -> Result<(), NotFramed> {
        let plausibility = plausible(self.side, header);
        let good = match &mut self.framing {
            Framing::Start => {
                let first = plausibility != Plausibility::None
                    || (header.command == message::VERSION && header.size == 0);
                self.foreign = !first;
                first
            }
            Framing::Certain => header.command <= LAST_COMMAND,
            Framing::Confirmed(_) | Framing::Candidate(_) => plausibility != Plausibility::None,
            Framing::Unsynchronized => false,
        };
        if good {
            Ok(())
        } else {
            Err(NotFramed)
        }
    }

    /// Passes on a whole message, or holds it back while its framing is only a candidate.
    fn settle(
        &mut self,
        time: u64,
        header: &Header,
        payload: &[u8],
        sink: &mut Sink,
    ) -> Result<(), NotFramed> {
        let evidence = match plausible(self.side, header) {
            Plausibility::Strong => 2,
            Plausibility::Fair => 1,
            Plausibility::Weak | Plausibility::None => 0,
        };
        let named =
            self.side == Side::Client && matches!(header.command, CREATE_CHAN | CLIENT_NAME | HOST_NAME);
        match self.framing {
            Framing::Start => self.framing = Framing::Certain,
            Framing::Certain | Framing::Unsynchronized => {}
            Framing::Confirmed(_) | Framing::Candidate(_) if named && !is_text(payload) => {
                return Err(NotFramed)
            }
            Framing::Confirmed(0) => self.framing = Framing::Certain,
            Framing::Confirmed(left) => self.framing = Framing::Confirmed(left.saturating_sub(evidence)),
            Framing::Candidate(proofs) => {
                if evidence > 0 || self.held.len() < MAX_HELD {
                    self.held.push(Held { time, header: *header, payload: payload.to_vec() });
                }
                let proofs = proofs + evidence;
                self.framing = Framing::Candidate(proofs);
                if proofs >= self.needed.0 {
                    self.confirm(sink);
                }
                return Ok(());
            }
        }
        sink(time, header, payload);
        Ok(())
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

    /// Number of payload bytes to keep of this message.
    fn keep(&self, header: &Header) -> usize {
        let most = match (self.side, header.command) {
            (Side::Client, WRITE | WRITE_NOTIFY) => self.put_payload,
            (Side::Client, CREATE_CHAN | CLIENT_NAME | HOST_NAME) => KEPT_NAME,
            (Side::Server, ERROR) => KEPT_ERROR,
            _ => 0,
        };
        header.size.min(most) as usize
    }
}

/// Messages that follow each other.
#[derive(Debug, Default)]
struct Chain {
    /// What speaks for them; see [`PROOF`].
    evidence: u32,
    /// Whether the last one ends where the segment ends.
    is_whole: bool,
    /// Payload size of the first.
    first: u32,
    /// Whether the first is a put with a value.
    is_put: bool,
}

/// The bytes are not a Channel Access message.
#[derive(Debug)]
struct NotFramed;

#[cfg(test)]
#[path = "../../tests/ca/messages.rs"]
mod messages;

#[cfg(test)]
mod tests {
    use super::messages::{header, message, put};
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use std::cell::Cell;

    #[derive(Clone, Debug)]
    enum Input {
        Bytes(Vec<u8>, bool, bool),
        Gap(u32, Gap),
    }

    fn input() -> impl Strategy<Value = Input> {
        let bytes = prop_oneof![
            (any::<bool>(), any::<u32>()).prop_map(|(notify, ioid)| put(notify, 1, ioid, &[1.0; 5])),
            Just(message(1, 20, 1, 1, 1, &[0; 24])),
            Just(message(18, 0, 0, 1, 13, b"PV\0")),
            (0u16..30, any::<u16>()).prop_map(|(command, size)| header(command, size, 0, 1, 1, 1)),
            vec(any::<u8>(), 0..100),
            vec(0u8..3, 0..100),
            Just(message(23, 0, 0, 0, 0, b"")),
        ];
        let bytes =
            (bytes, 0usize..60, any::<bool>(), any::<bool>()).prop_map(|(mut bytes, cut, starts, ends)| {
                bytes.truncate(bytes.len().max(60) - cut);
                Input::Bytes(bytes, starts, ends)
            });
        let gap = (0u32..100, any::<bool>())
            .prop_map(|(n, lost)| Input::Gap(n, if lost { Gap::Lost } else { Gap::Elided }));
        prop_oneof![8 => bytes, 1 => gap]
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

        /// Every byte is in a message, counted as lost, or still undecided.
        #[test]
        fn no_byte_is_forgotten(inputs in vec(input(), 0..60), from_start in any::<bool>(), server in any::<bool>()) {
            let mut framer = Framer::new(if server { Side::Server } else { Side::Client }, 16);
            if from_start {
                framer.start();
            }
            let (mut fed, in_messages, mut lost) = (0u64, Cell::new(0u64), 0u64);
            for input in &inputs {
                let mut sink = |_: u64, header: &Header, payload: &[u8]| {
                    in_messages.set(in_messages.get() + header.bytes() as u64 + u64::from(header.size));
                    assert!(payload.len() as u64 <= u64::from(header.size).min(512));
                };
                match input {
                    Input::Bytes(bytes, starts, ends) => {
                        framer.bytes(0, bytes, *starts, *ends, &mut sink);
                        fed += bytes.len() as u64;
                    }
                    Input::Gap(length, cause) => {
                        let before = (framer.lost, framer.unsettled, in_messages.get());
                        framer.gap(0, *length, *cause, &mut sink);
                        // Omitted updates between messages are not a loss.
                        let passed = *cause == Gap::Elided && before == (framer.lost, framer.unsettled, in_messages.get());
                        fed += if passed { 0 } else { u64::from(*length) };
                    }
                }
                lost += framer.take_lost();
                if framer.held.len() >= MAX_HELD {
                    // From here on, blank messages are passed over.
                    return Ok(());
                }
                prop_assert_eq!(fed, in_messages.get() + lost + framer.unsettled);
            }
        }
    }
}
