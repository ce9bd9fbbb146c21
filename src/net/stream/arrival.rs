//! What a stream takes and passes on.

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
    /// Whether its receiver must drop it, wherever it lies.
    pub refused: bool,
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
pub(super) struct Waiting {
    pub(super) time: u64,
    pub(super) sequence: u32,
    pub(super) bytes: Vec<u8>,
    pub(super) length: u32,
    pub(super) elided: bool,
    pub(super) fin: bool,
    pub(super) place: Option<u32>,
    pub(super) follows: bool,
    /// Whether the stream has gone on before it for a while: the sender has not come to it yet, whoever sent it.
    pub(super) early: bool,
}

impl Arrival<'_> {
    /// Why bytes before or in it are missing that do not matter.
    pub(super) fn cause(&self) -> Gap {
        if self.follows {
            Gap::Unseen
        } else {
            Gap::Elided
        }
    }
}

impl Waiting {
    /// Whether a segment has other bytes than this one where both have some.
    pub(super) fn differs(&self, arrival: &Arrival) -> bool {
        let behind = arrival.sequence.wrapping_sub(self.sequence) as i32;
        let skip = |bytes: &'_ [u8], by: i32| bytes.len().min(by.max(0).unsigned_abs() as usize);
        let (from, to) = (skip(&self.bytes, behind), skip(arrival.bytes, behind.saturating_neg()));
        let (own, others) = (self.bytes.get(from..), arrival.bytes.get(to..));
        own.into_iter().flatten().zip(others.into_iter().flatten()).any(|(a, b)| a != b)
    }

    pub(super) fn arrival(&self) -> Arrival<'_> {
        Arrival {
            time: self.time,
            sequence: self.sequence,
            bytes: &self.bytes,
            length: self.length,
            elided: self.elided,
            fin: self.fin,
            // it was believed when it came
            evidence: Evidence::Sure,
            refused: false,
            place: self.place,
            follows: self.follows,
            unneeded: 0,
            leaps: false,
        }
    }
}
