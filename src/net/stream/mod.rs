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

mod again;
mod arrival;
mod doubt;

use std::collections::VecDeque;

use again::{Sent, REMEMBERED};
use arrival::Waiting;
pub use arrival::{Arrival, Evidence, Gap, Piece, Pieces, Verdict};
use doubt::Doubt;

/// Distance from the expected sequence number up to which one segment with evidence is believed. Senders have no more
/// than a window under way: 64 KiB without scaling, rarely more than a megabyte. Beyond it, the capture must have missed
/// a great deal.
const NEAR: i32 = 1 << 20;
/// Highest distance of an acknowledgement that releases waiting segments, and of what is sent again long after.
const MAX_DISTANCE: i32 = 64 << 20;

/// Time within which segments overtake each other, nanoseconds.
const OVERTAKING: u64 = 50_000_000;

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
    /// Whether `next` and `sent` are those of a copy of the connection, and nothing has shown yet that it was one.
    resumed: bool,
    /// Where it was when missing bytes were given up by time, and the receiver has not said that it has them.
    left: Option<u32>,
    doubt: Option<Doubt>,
    /// Whether it went on far away, on evidence that may have been anybody's: the sender may come back.
    leapt: bool,
    over: bool,
}

impl Stream {
    /// The stream begins after this SYN.
    pub fn start(&mut self, syn: u32) {
        *self = Stream { first: Some(syn), next: Some(syn.wrapping_add(1)), ..Stream::default() };
    }

    /// The stream goes on where that of a copy of its connection has come to. A copy is easily forged, so what comes of
    /// the bytes before must be what the copy has passed on; else the stream begins there.
    pub fn resume(&mut self, copy: &Stream) {
        (self.next, self.sent, self.turn, self.resumed) =
            (copy.next, copy.sent, copy.turn, copy.next.is_some());
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

    /// Whether what comes next has this sequence number. The end of the stream counts like a byte.
    pub fn is_next(&self, sequence: u32) -> bool {
        self.next.is_some_and(|next| sequence == next || self.over && sequence == next.wrapping_add(1))
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

    /// Bytes beyond the expected one that the other side says it has received; 0 if the end was reached, which counts
    /// like a byte.
    pub fn received_beyond(&self) -> u32 {
        let beyond = self.acknowledged.map_or(0, |acknowledged| self.ahead(acknowledged));
        match u32::try_from(beyond) {
            Ok(beyond) if beyond <= MAX_DISTANCE.unsigned_abs() && !self.over => beyond,
            _ => 0,
        }
    }

    /// Takes a segment; buffers no more than `limit` bytes.
    pub fn segment(&mut self, arrival: Arrival, limit: usize, out: &mut Pieces) -> Verdict {
        if self.over {
            return Verdict::Taken;
        }
        if self.left == Some(arrival.sequence) && arrival.evidence == Evidence::Sure && !arrival.refused {
            // they come now: what came before them was not the sender's
            self.next = self.left.take();
        }
        let mut next = *self.next.get_or_insert(arrival.sequence);
        let is_old = (arrival.sequence.wrapping_sub(next) as i32) < 0;
        if self.resumed && !arrival.refused && arrival.evidence >= Evidence::Likely {
            if is_old && !self.has_sent(&arrival) {
                next = arrival.sequence;
                self.next = Some(next);
            }
            self.resumed = is_old && next != arrival.sequence;
        }
        let ahead = arrival.sequence.wrapping_sub(next) as i32;
        // What waits may have been anybody's: then it isn't known which bytes the receiver takes.
        let changed = self.waiting.iter().any(|waiting| waiting.differs(&arrival));
        let verdict = if changed { Verdict::Changed } else { Verdict::Taken };
        if ahead == 0 && !arrival.refused {
            self.doubt = None;
            let since = arrival.time.saturating_sub(OVERTAKING);
            self.waiting.iter_mut().for_each(|waiting| waiting.early |= waiting.time < since);
            self.hand_on(arrival, out);
            self.catch_up(out);
            return verdict;
        }
        let passes = (arrival.follows && !arrival.refused)
            || arrival.evidence >= Evidence::Likely && u64::from(ahead.unsigned_abs()) <= arrival.unneeded;
        if ahead > 0 && self.waiting.is_empty() && passes {
            self.pass_over(arrival.sequence, arrival.time, arrival.cause(), out);
            self.hand_on(arrival, out);
            return Verdict::Taken;
        }
        // bytes that nobody needs may have been left out
        let beyond =
            ahead.saturating_sub(i32::try_from(arrival.unneeded).unwrap_or(i32::MAX).min(ahead.max(0)));
        // if all was seen from its beginning on, what lies before has been passed on
        let behind = if self.first.is_some() && !self.leapt { MAX_DISTANCE } else { NEAR };
        let is_near = arrival.leaps || (-behind..=NEAR).contains(&beyond);
        let new = i64::from(ahead) + i64::from(arrival.length) + i64::from(arrival.fin);
        if is_near && new <= 0 {
            return self.again(&arrival);
        }
        if arrival.evidence != Evidence::Sure || !is_near || arrival.refused {
            return self.doubt(arrival, out);
        }
        if ahead < 0 {
            let verdict = self.again(&arrival);
            self.hand_on(arrival, out);
            self.catch_up(out);
            return verdict;
        }
        self.wait(arrival);
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
        if self.left.is_some_and(|left| sequence.wrapping_sub(left) as i32 > 0) {
            self.left = None;
        }
        while let Some(first) = self.waiting.front() {
            let had = sequence.wrapping_sub(first.sequence) as i32;
            if !(0..=MAX_DISTANCE).contains(&had) {
                return;
            }
            self.skip(out);
        }
    }

    /// Gives up missing bytes awaited since before `time`. Unless `all`, the stream's end, and what its sender has not come
    /// to, wait until the receiver acknowledges them: time makes neither true.
    pub fn give_up_before(&mut self, time: u64, all: bool, out: &mut Pieces) {
        let is_due = |first: &Waiting| first.time < time && (all || !first.early && !first.fin);
        while self.waiting.front().is_some_and(is_due) {
            self.left = self.left.or(self.next);
            self.skip(out);
        }
    }

    /// Gives up all missing bytes; unless `all`, believes neither in the stream's end behind them nor in what its sender has
    /// not come to.
    pub fn flush(&mut self, all: bool, out: &mut Pieces) {
        while let Some(first) = self.waiting.front_mut() {
            first.fin &= all;
            if all || !first.early {
                self.skip(out);
            } else if let Some(first) = self.take_first() {
                out(self.clock, Piece::Gap { length: first.length, cause: Gap::Lost });
            }
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

    /// Keeps a segment until the bytes before it have come.
    fn wait(&mut self, arrival: Arrival) {
        let behind = |w: &Waiting| w.sequence.wrapping_sub(arrival.sequence) as i32;
        let at = self.waiting.partition_point(|w| behind(w) < 0);
        let there = self.waiting.get(at).filter(|w| behind(w) == 0);
        // Of two that begin at the same place the longer one counts, as in Linux.
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
                    early: false,
                },
            );
        }
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
            if let Some(place) = arrival.place.and_then(|place| place.checked_sub(arrival.length)) {
                out(self.clock, Piece::Bytes { bytes: &[], starts: false, ends: false, place: Some(place) });
            }
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
}
