//! Puts one direction of a TCP connection back into order.
//!
//! A [`Stream`] takes segments as they were captured: late, twice, cut differently the second time, overlapping, or not
//! at all. It passes on each byte once and in order. It waits for missing bytes until the receiver acknowledges them
//! (then they were not captured and will not be sent again), until too much has piled up behind them, or until a
//! timeout; then they are a [`Gap`].
//!
//! Anybody can send segments with others' addresses. What is expected next is believed: nobody guesses 32 bits. Anything
//! else needs [`Evidence`] beside its sequence number, more if it is far away. Data without it are not delivered,
//! unless so many of them follow each other for so long that the stream must have gone on there.
//!
//! The time of a byte is that of the segment that made it available: no earlier than
//! that of the bytes before it, however late a gap is given up.

use std::collections::VecDeque;

/// Distance from the expected sequence number up to which one segment with evidence is believed. Senders have no more
/// than a window under way: 64 KiB without scaling, rarely more than a megabyte. Beyond it, the capture must have missed
/// a great deal.
const NEAR: i32 = 1 << 20;
/// Highest distance of an acknowledgement that releases waiting segments.
const MAX_DISTANCE: i32 = 64 << 20;
/// Segments remembered, to find that other bytes are sent in their place.
const REMEMBERED: usize = 4;
/// Bytes of each that are compared.
const COMPARED: usize = 512;
/// Evidence that is needed to follow a chain of segments to another place: two sure ones, or three likely ones.
const NEEDED: u32 = 12;
/// Without evidence: this number of segments that follow each other ...
const NEEDED_SEGMENTS: u32 = 8;
/// ... in this time at least, while nothing came that was expected.
const NEEDED_TIME: u64 = 30_000_000_000;

/// A part of the stream, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// Bytes of one segment.
    Bytes {
        /// The bytes.
        bytes: &'a [u8],
        /// Whether they begin the segment.
        starts: bool,
        /// Whether they end it.
        ends: bool,
        /// Number of bytes before the first header, if the socket filter knows it: some may lie behind these.
        place: Option<u32>,
    },
    /// Bytes are missing.
    Gap {
        /// Number of missing bytes.
        length: u32,
        /// Why they are missing.
        cause: Gap,
    },
    /// The stream is over.
    End,
}

/// Why bytes of a stream are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gap {
    /// They were not captured.
    Lost,
    /// The socket filter left out bytes that do not matter, by its protocol's rule.
    Elided,
    /// The socket filter left them out, or they were not captured: which of the two is not known.
    Unseen,
}

/// What speaks for a segment beside its sequence number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Evidence {
    /// Nothing.
    None,
    /// It would be right if some segments of the other side were not captured.
    Likely,
    /// It acknowledges what the other side has sent, or its time stamp is the sender's.
    Sure,
}

/// What became of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is delivered, or waits to be, or all of it was known.
    Taken,
    /// Its bytes differ from those that came in the same place before. The first ones count.
    Changed,
    /// It is not believed.
    Unbelieved,
}

/// A segment's part of the stream.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'a> {
    /// Time of capture.
    pub time: u64,
    /// Sequence number of its first byte.
    pub sequence: u32,
    /// Its bytes, as far as they were captured.
    pub bytes: &'a [u8],
    /// Its true length.
    pub length: u32,
    /// Whether the socket filter left out its payload.
    pub elided: bool,
    /// Whether it ends the stream.
    pub fin: bool,
    /// What speaks for it. It is not needed if the segment is the expected one.
    pub evidence: Evidence,
    /// Number of its bytes before the first header, if the socket filter knows it.
    pub place: Option<u32>,
    /// Whether everything that is missing before it is known not to matter.
    pub follows: bool,
    /// Number of the stream's next bytes that nobody needs: if they are missing, nothing is lost.
    pub unneeded: u64,
    /// Whether the socket filter leaves out so much of this side that no distance is too far.
    pub leaps: bool,
}

/// Receives the pieces, each with its time.
pub type Pieces<'a> = dyn FnMut(u64, Piece) + 'a;

/// A segment that waits for the bytes before it.
#[derive(Debug)]
struct Waiting {
    time: u64,
    sequence: u32,
    bytes: Vec<u8>,
    length: u32,
    elided: bool,
    fin: bool,
    place: Option<u32>,
    follows: bool,
}

/// A segment that was passed on.
#[derive(Clone, Copy, Debug, Default)]
struct Sent {
    sequence: u32,
    /// Bytes from there on that `hash` is of; 0: none.
    length: u32,
    hash: u32,
}

/// Segments without enough evidence that follow each other.
#[derive(Clone, Copy, Debug)]
struct Doubt {
    /// Sequence number of the next byte.
    next: u32,
    since: u64,
    segments: u32,
    evidence: u32,
}

/// One direction of a connection. See the module.
#[derive(Debug, Default)]
pub struct Stream {
    /// Sequence number of the SYN, if it was seen.
    first: Option<u32>,
    /// Sequence number of the next byte.
    next: Option<u32>,
    /// In order of their sequence numbers.
    waiting: VecDeque<Waiting>,
    /// Memory that `waiting` holds.
    buffered: usize,
    /// Time of the last byte passed on.
    clock: u64,
    /// Sequence number up to which the other side has received everything, as far as it has said so.
    acknowledged: Option<u32>,
    /// The last segments that were passed on.
    sent: [Sent; REMEMBERED],
    /// The place in `sent` of the next one.
    turn: u8,
    doubt: Option<Doubt>,
    over: bool,
}

/// A hash of bytes, to find by accident or ill will changed ones.
fn hash(bytes: &[u8]) -> u32 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let mix = |hash: u64, word: u64| (hash.rotate_left(23) ^ word).wrapping_mul(FACTOR);
    let (words, rest) = bytes.as_chunks::<8>();
    let hash = words.iter().fold(FACTOR, |hash, word| mix(hash, u64::from_le_bytes(*word)));
    (rest.iter().fold(hash, |hash, byte| mix(hash, u64::from(*byte) + 256)) >> 32) as u32
}

impl Stream {
    /// The stream begins after this SYN.
    pub fn start(&mut self, syn: u32) {
        *self = Stream { first: Some(syn), next: Some(syn.wrapping_add(1)), ..Stream::default() };
    }

    /// Sequence number of the SYN, if it was seen.
    pub fn first(&self) -> Option<u32> {
        self.first
    }

    /// Sequence number of the next byte, if any has been seen.
    pub fn next(&self) -> Option<u32> {
        self.next
    }

    /// Whether its end was reached.
    pub fn is_over(&self) -> bool {
        self.over
    }

    /// Bytes of memory held by waiting segments.
    pub fn buffered(&self) -> usize {
        self.buffered
    }

    /// Distance of a sequence number from the expected one, positive if ahead; 0 if none is expected.
    pub fn ahead(&self, sequence: u32) -> i32 {
        self.next.map_or(0, |next| sequence.wrapping_sub(next) as i32)
    }

    /// End of what has come, waiting segments included; `None` if nothing has.
    pub fn end(&self) -> Option<u32> {
        let waiting = self.waiting.back().map(|last| last.sequence.wrapping_add(last.length));
        match (self.next, waiting) {
            (Some(next), Some(end)) if end.wrapping_sub(next) as i32 > 0 => Some(end),
            (next, _) => next,
        }
    }

    /// The sequence number up to which the other side has received everything, as far as it has said so.
    pub fn last_acknowledged(&self) -> Option<u32> {
        self.acknowledged
    }

    /// Takes a segment; buffers no more than `limit` bytes.
    pub fn segment(&mut self, arrival: Arrival, limit: usize, out: &mut Pieces) -> Verdict {
        if self.over {
            return Verdict::Taken;
        }
        let next = *self.next.get_or_insert(arrival.sequence);
        let ahead = arrival.sequence.wrapping_sub(next) as i32;
        if ahead == 0 {
            self.doubt = None;
            self.hand_on(arrival, out);
            self.catch_up(out);
            return Verdict::Taken;
        }
        let passes = arrival.follows
            || arrival.evidence >= Evidence::Likely && u64::from(ahead.unsigned_abs()) <= arrival.unneeded;
        if ahead > 0 && self.waiting.is_empty() && passes {
            self.pass_over(arrival.sequence, arrival.time, arrival.cause(), out);
            self.hand_on(arrival, out);
            return Verdict::Taken;
        }
        let is_near = arrival.leaps || (-NEAR..=NEAR).contains(&ahead);
        let new = i64::from(ahead) + i64::from(arrival.length) + i64::from(arrival.fin);
        if is_near && new <= 0 {
            return self.again(&arrival);
        }
        if arrival.evidence != Evidence::Sure || !is_near {
            return self.doubt(arrival, out);
        }
        if ahead < 0 {
            let verdict = self.again(&arrival);
            self.hand_on(arrival, out);
            self.catch_up(out);
            return verdict;
        }
        let verdict = self.wait(arrival);
        while self.buffered > limit {
            self.skip(out);
        }
        verdict
    }

    /// The receiver has acknowledged all bytes before this one: those that are missing here will not be sent again.
    pub fn acknowledged(&mut self, sequence: u32, out: &mut Pieces) {
        if self.acknowledged.is_none_or(|before| sequence.wrapping_sub(before) as i32 > 0) {
            self.acknowledged = Some(sequence);
        }
        while let Some(first) = self.waiting.front() {
            let had = sequence.wrapping_sub(first.sequence) as i32;
            if !(0..=MAX_DISTANCE).contains(&had) {
                return;
            }
            self.skip(out);
        }
    }

    /// Gives up missing bytes awaited since before `time`.
    pub fn give_up_before(&mut self, time: u64, out: &mut Pieces) {
        while self.waiting.front().is_some_and(|first| first.time < time) {
            self.skip(out);
        }
    }

    /// Gives up all missing bytes.
    pub fn flush(&mut self, out: &mut Pieces) {
        while !self.waiting.is_empty() {
            self.skip(out);
        }
    }

    /// Passes over missing bytes before `sequence` that do not matter.
    fn pass_over(&mut self, sequence: u32, time: u64, cause: Gap, out: &mut Pieces) {
        let length = self.ahead(sequence);
        if length > 0 {
            self.clock = self.clock.max(time);
            self.next = Some(sequence);
            self.doubt = None;
            out(self.clock, Piece::Gap { length: length.unsigned_abs(), cause });
        }
    }

    /// Takes a segment all of which is known, or its known part: are its bytes the same?
    fn again(&self, arrival: &Arrival) -> Verdict {
        let same = |sent: &Sent| {
            sent.length == 0
                || sent.sequence != arrival.sequence
                || arrival.bytes.get(..sent.length as usize).is_none_or(|bytes| hash(bytes) == sent.hash)
        };
        if self.sent.iter().all(same) {
            Verdict::Taken
        } else {
            Verdict::Changed
        }
    }

    /// Takes a segment with too little evidence. One may be anybody's; but if more follow it, the stream may have gone
    /// on there, and we missed a great deal.
    fn doubt(&mut self, arrival: Arrival, out: &mut Pieces) -> Verdict {
        let evidence = match arrival.evidence {
            Evidence::Sure => NEEDED.div_ceil(2),
            Evidence::Likely => NEEDED.div_ceil(3),
            Evidence::None => 0,
        };
        let end = arrival.sequence.wrapping_add(arrival.length);
        let doubt = match self.doubt {
            // sent again
            Some(doubt) if doubt.next == end => return Verdict::Taken,
            Some(doubt) if doubt.next == arrival.sequence => Doubt {
                next: end,
                segments: doubt.segments.saturating_add(1),
                evidence: doubt.evidence.saturating_add(evidence),
                ..doubt
            },
            _ => Doubt { next: end, since: arrival.time, segments: 1, evidence },
        };
        let long =
            doubt.segments >= NEEDED_SEGMENTS && arrival.time.saturating_sub(doubt.since) >= NEEDED_TIME;
        if doubt.evidence < NEEDED && !long {
            self.doubt = Some(doubt);
            return Verdict::Unbelieved;
        }
        self.doubt = None;
        self.flush(out);
        if !(-NEAR..=0).contains(&self.ahead(arrival.sequence)) {
            let missed = self.next.map_or(0, |next| arrival.sequence.wrapping_sub(next));
            self.clock = self.clock.max(arrival.time);
            out(self.clock, Piece::Gap { length: missed, cause: Gap::Lost });
            self.next = Some(arrival.sequence);
        }
        self.hand_on(arrival, out);
        self.catch_up(out);
        Verdict::Taken
    }

    /// Keeps a segment until the bytes before it have come.
    fn wait(&mut self, arrival: Arrival) -> Verdict {
        let behind = |w: &Waiting| w.sequence.wrapping_sub(arrival.sequence) as i32;
        let at = self.waiting.partition_point(|w| behind(w) < 0);
        let there = self.waiting.get(at).filter(|w| behind(w) == 0);
        let changed = there.is_some_and(|w| w.bytes.iter().zip(arrival.bytes).any(|(a, b)| a != b));
        if changed {
            return Verdict::Changed;
        }
        let known = there.is_some_and(|w| {
            w.length >= arrival.length && w.bytes.len() >= arrival.bytes.len() && w.fin >= arrival.fin
        });
        if !known {
            self.buffered += arrival.bytes.len() + std::mem::size_of::<Waiting>();
            self.waiting.insert(
                at,
                Waiting {
                    time: arrival.time,
                    sequence: arrival.sequence,
                    bytes: arrival.bytes.to_vec(),
                    length: arrival.length,
                    elided: arrival.elided,
                    fin: arrival.fin,
                    place: arrival.place,
                    follows: arrival.follows,
                },
            );
        }
        Verdict::Taken
    }

    /// Passes on the segments that need not wait any longer.
    fn catch_up(&mut self, out: &mut Pieces) {
        while !self.over
            && self.waiting.front().is_some_and(|first| first.follows || self.ahead(first.sequence) <= 0)
        {
            if let Some(first) = self.take_first() {
                self.pass_over(first.sequence, first.time, first.arrival().cause(), out);
                self.hand_on(first.arrival(), out);
            }
        }
        if self.over {
            self.waiting.clear();
            self.buffered = 0;
        }
    }

    /// Gives up the missing bytes before the first waiting segment.
    fn skip(&mut self, out: &mut Pieces) {
        if let Some(first) = self.waiting.front() {
            let missed = self.ahead(first.sequence);
            self.clock = self.clock.max(first.time);
            if missed > 0 {
                out(self.clock, Piece::Gap { length: missed as u32, cause: Gap::Lost });
                self.next = Some(first.sequence);
            }
        }
        self.catch_up(out);
    }

    fn take_first(&mut self) -> Option<Waiting> {
        let first = self.waiting.pop_front()?;
        self.buffered = self.buffered.saturating_sub(first.bytes.len() + std::mem::size_of::<Waiting>());
        Some(first)
    }

    /// Passes on the new bytes of a segment that begins at or before the next expected byte.
    fn hand_on(&mut self, arrival: Arrival, out: &mut Pieces) {
        let known = self.ahead(arrival.sequence).min(0).unsigned_abs();
        if known > arrival.length {
            return;
        }
        let new = arrival.length - known;
        self.clock = self.clock.max(arrival.time);
        self.next = Some(arrival.sequence.wrapping_add(arrival.length));
        if new > 0 && arrival.elided {
            out(self.clock, Piece::Gap { length: new, cause: arrival.cause() });
        } else if new > 0 {
            let bytes = arrival.bytes.get(known as usize..).unwrap_or_default();
            let missing = new - bytes.len().min(new as usize) as u32;
            if !bytes.is_empty() {
                self.remember(arrival.sequence.wrapping_add(known), bytes);
                let place = arrival.place.and_then(|place| place.checked_sub(known));
                out(self.clock, Piece::Bytes { bytes, starts: known == 0, ends: missing == 0, place });
            }
            if missing > 0 {
                out(self.clock, Piece::Gap { length: missing, cause: Gap::Lost });
            }
        }
        if arrival.fin {
            self.over = true;
            out(self.clock, Piece::End);
        }
    }

    fn remember(&mut self, sequence: u32, bytes: &[u8]) {
        let bytes = bytes.get(..COMPARED).unwrap_or(bytes);
        if let Some(sent) = self.sent.get_mut(usize::from(self.turn)) {
            *sent = Sent { sequence, length: bytes.len() as u32, hash: hash(bytes) };
        }
        self.turn = (self.turn + 1) % REMEMBERED as u8;
    }
}

impl Arrival<'_> {
    /// Why bytes before or in it are missing that do not matter.
    fn cause(&self) -> Gap {
        if self.follows {
            Gap::Unseen
        } else {
            Gap::Elided
        }
    }
}

impl Waiting {
    fn arrival(&self) -> Arrival<'_> {
        Arrival {
            time: self.time,
            sequence: self.sequence,
            bytes: &self.bytes,
            length: self.length,
            elided: self.elided,
            fin: self.fin,
            // it was believed when it came
            evidence: Evidence::Sure,
            place: self.place,
            follows: self.follows,
            unneeded: 0,
            leaps: false,
        }
    }
}
