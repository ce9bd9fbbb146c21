//! Puts one direction of a TCP connection back into order.
//!
//! A [`Stream`] takes segments as they were captured: late, twice, cut differently the second time, overlapping, or not
//! at all. It passes on each byte once and in order. It waits for missing bytes until the receiver acknowledges them
//! (then they were not captured and will not be sent again), until too much has piled up behind them, or until a
//! timeout; then they are a [`Gap`]. The time of a byte is that of the segment that made it available: no earlier than
//! that of the bytes before it, however late a gap is given up.

use std::collections::VecDeque;

/// Segments further than this from the expected sequence number do not belong to the known stream. Larger than any
/// window in use on machines of control systems.
const MAX_DISTANCE: i32 = 64 << 20;

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
    /// Number of its bytes before the first header, if the socket filter knows it.
    pub place: Option<u32>,
    /// Whether everything that is missing before it is known not to matter.
    pub follows: bool,
    /// Number of the stream's next bytes that nobody needs: if they are missing, nothing is lost.
    pub unneeded: u64,
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
    /// End of the last segment that was too far away.
    far: Option<u32>,
    over: bool,
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

    /// Takes a segment; buffers no more than `limit` bytes.
    pub fn segment(&mut self, arrival: Arrival, limit: usize, out: &mut Pieces) {
        if self.over {
            return;
        }
        let next = *self.next.get_or_insert(arrival.sequence);
        let ahead = arrival.sequence.wrapping_sub(next) as i32;
        if self.waiting.is_empty() && ahead > 0 && (arrival.follows || ahead as u64 <= arrival.unneeded) {
            self.pass_over(arrival.sequence, arrival.time, arrival.cause(), out);
            return self.hand_on(arrival, out);
        }
        if !(-MAX_DISTANCE..=MAX_DISTANCE).contains(&ahead) {
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

    /// The receiver has acknowledged all bytes before this one: those that are missing here will not be sent again.
    pub fn acknowledged(&mut self, sequence: u32, out: &mut Pieces) {
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
            self.far = None;
            out(self.clock, Piece::Gap { length: length.unsigned_abs(), cause });
        }
    }

    /// Takes a segment from far away. One may be a stray; a second one that follows it means that we missed a great
    /// deal.
    fn far(&mut self, arrival: Arrival, out: &mut Pieces) {
        let follows = self.far == Some(arrival.sequence);
        self.far = Some(arrival.sequence.wrapping_add(arrival.length));
        if follows {
            self.flush(out);
            let missed = self.next.map_or(0, |next| arrival.sequence.wrapping_sub(next));
            self.clock = self.clock.max(arrival.time);
            out(self.clock, Piece::Gap { length: missed, cause: Gap::Lost });
            self.far = None;
            self.next = Some(arrival.sequence);
            self.hand_on(arrival, out);
        }
    }

    /// Keeps a segment until the bytes before it have come.
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
                    elided: arrival.elided,
                    fin: arrival.fin,
                    place: arrival.place,
                    follows: arrival.follows,
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
        } else if new > 0 {
            let bytes = arrival.bytes.get(known as usize..).unwrap_or_default();
            let missing = new - bytes.len().min(new as usize) as u32;
            if !bytes.is_empty() {
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
            place: self.place,
            follows: self.follows,
            unneeded: 0,
        }
    }
}
