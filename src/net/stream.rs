//! Puts one direction of a TCP connection back into order.
//!
//! A [`Stream`] takes segments as they were captured: late, twice, cut differently the second time,
//! overlapping, or not at all. It hands on each byte once and in order. What is missing is waited for
//! until the receiver says that it has it (then it was not captured and will not come again), until
//! too much has piled up behind it, or until it has taken too long; then it is a hole. The time that
//! goes with a byte is that of the segment that made it available: no earlier than the bytes before
//! it, however late a hole is given up.

use std::collections::VecDeque;

/// Segments that lie further than this from what is expected are not of this stream as we know it.
/// More than any window in use on machines that speak Channel Access.
const FARTHEST: i32 = 64 << 20;

/// A part of the stream, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// Bytes of one segment.
    Bytes {
        /// The bytes.
        bytes: &'a [u8],
        /// They begin the segment.
        starts: bool,
        /// They end it.
        ends: bool,
    },
    /// So many bytes were not captured.
    Lost(u32),
    /// A segment of so many bytes of which the capture kept only the headers.
    OnlyHeaders(u32),
    /// The stream is over.
    End,
}

/// What a segment brings.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'a> {
    /// When it was captured.
    pub time: u64,
    /// Sequence number of its first byte.
    pub sequence: u32,
    /// Its bytes, as far as they were captured.
    pub bytes: &'a [u8],
    /// Its true length.
    pub length: u32,
    /// The capture kept only the headers, on purpose.
    pub only_headers: bool,
    /// It ends the stream.
    pub fin: bool,
}

/// Where the pieces go, each with its time.
pub type Pieces<'a> = dyn FnMut(u64, Piece) + 'a;

/// A segment that came before the one that it follows.
#[derive(Debug)]
struct Waiting {
    time: u64,
    sequence: u32,
    bytes: Vec<u8>,
    length: u32,
    only_headers: bool,
    fin: bool,
}

/// One direction of a connection. See the module.
#[derive(Debug, Default)]
pub struct Stream {
    /// Sequence number of the SYN, where it was seen.
    first: Option<u32>,
    /// Sequence number of the next byte.
    next: Option<u32>,
    /// In order of their sequence numbers.
    waiting: VecDeque<Waiting>,
    /// Memory that `waiting` holds.
    buffered: usize,
    /// Time of the last byte handed on.
    clock: u64,
    /// Where the last segment ended that was too far away.
    far: Option<u32>,
    over: bool,
}

impl Stream {
    /// The stream begins behind this SYN.
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

    /// Its end was reached.
    pub fn is_over(&self) -> bool {
        self.over
    }

    /// Bytes of memory held by segments that wait.
    pub fn buffered(&self) -> usize {
        self.buffered
    }

    /// How far a sequence number lies ahead of what is expected; 0 when nothing is.
    pub fn ahead(&self, sequence: u32) -> i32 {
        self.next.map_or(0, |next| sequence.wrapping_sub(next) as i32)
    }

    /// Takes a segment; no more than `limit` bytes are buffered.
    pub fn segment(&mut self, arrival: Arrival, limit: usize, out: &mut Pieces) {
        if self.over {
            return;
        }
        let next = *self.next.get_or_insert(arrival.sequence);
        let ahead = arrival.sequence.wrapping_sub(next) as i32;
        if !(-FARTHEST..=FARTHEST).contains(&ahead) {
            return self.far(arrival, out);
        }
        self.far = None;
        if ahead <= 0 {
            self.hand_on(arrival, out);
            self.catch_up(out);
        } else {
            self.wait(arrival);
            while self.buffered > limit {
                self.skip(out);
            }
        }
    }

    /// The receiver has said that it has all bytes before this one: those that are missing here
    /// will not be sent again.
    pub fn acknowledged(&mut self, sequence: u32, out: &mut Pieces) {
        while let Some(first) = self.waiting.front() {
            let had = sequence.wrapping_sub(first.sequence) as i32;
            if !(0..=FARTHEST).contains(&had) {
                return;
            }
            self.skip(out);
        }
    }

    /// Gives up what has been waited for since before `time`.
    pub fn give_up_before(&mut self, time: u64, out: &mut Pieces) {
        while self.waiting.front().is_some_and(|first| first.time < time) {
            self.skip(out);
        }
    }

    /// Gives up all that is missing.
    pub fn flush(&mut self, out: &mut Pieces) {
        while !self.waiting.is_empty() {
            self.skip(out);
        }
    }

    /// A segment from far away. One may be a stray; a second that follows it means that we missed
    /// a great deal.
    fn far(&mut self, arrival: Arrival, out: &mut Pieces) {
        let follows = self.far == Some(arrival.sequence);
        self.far = Some(arrival.sequence.wrapping_add(arrival.length));
        if follows {
            self.flush(out);
            let missed = self.next.map_or(0, |next| arrival.sequence.wrapping_sub(next));
            self.clock = self.clock.max(arrival.time);
            out(self.clock, Piece::Lost(missed));
            self.far = None;
            self.next = Some(arrival.sequence);
            self.hand_on(arrival, out);
        }
    }

    /// Keeps a segment until what is missing before it has come.
    fn wait(&mut self, arrival: Arrival) {
        let behind = |w: &Waiting| w.sequence.wrapping_sub(arrival.sequence) as i32;
        let at = self.waiting.partition_point(|w| behind(w) < 0);
        let known = self.waiting.get(at).is_some_and(|w| {
            behind(w) == 0
                && w.length >= arrival.length
                && w.bytes.len() >= arrival.bytes.len()
                && w.fin >= arrival.fin
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
                    only_headers: arrival.only_headers,
                    fin: arrival.fin,
                },
            );
        }
    }

    /// Hands on what can be of those that wait.
    fn catch_up(&mut self, out: &mut Pieces) {
        while !self.over && self.waiting.front().is_some_and(|first| self.ahead(first.sequence) <= 0) {
            if let Some(first) = self.take_first() {
                self.hand_on(first.arrival(), out);
            }
        }
        if self.over {
            self.waiting.clear();
            self.buffered = 0;
        }
    }

    /// Gives up what is missing before the first of those that wait.
    fn skip(&mut self, out: &mut Pieces) {
        if let Some(first) = self.waiting.front() {
            let missed = self.ahead(first.sequence);
            self.clock = self.clock.max(first.time);
            if missed > 0 {
                out(self.clock, Piece::Lost(missed as u32));
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

    /// Hands on what is new of a segment that begins where the next byte is expected, or before.
    fn hand_on(&mut self, arrival: Arrival, out: &mut Pieces) {
        let known = self.ahead(arrival.sequence).min(0).unsigned_abs();
        if known > arrival.length {
            return;
        }
        let new = arrival.length - known;
        self.clock = self.clock.max(arrival.time);
        self.next = Some(arrival.sequence.wrapping_add(arrival.length));
        if new > 0 && arrival.only_headers {
            out(self.clock, Piece::OnlyHeaders(new));
        } else if new > 0 {
            let bytes = arrival.bytes.get(known as usize..).unwrap_or_default();
            let missing = new - bytes.len().min(new as usize) as u32;
            if !bytes.is_empty() {
                out(self.clock, Piece::Bytes { bytes, starts: known == 0, ends: missing == 0 });
            }
            if missing > 0 {
                out(self.clock, Piece::Lost(missing));
            }
        }
        if arrival.fin {
            self.over = true;
            out(self.clock, Piece::End);
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
            only_headers: self.only_headers,
            fin: self.fin,
        }
    }
}
