//! Segments with too little evidence.

use super::arrival::{Arrival, Evidence, Gap, Piece, Pieces, Verdict};
use super::{Stream, NEAR};

/// Evidence that is needed to follow a chain of segments to another place: two sure ones, or three likely ones.
const NEEDED: u32 = 12;

/// Without evidence: this number of segments that follow each other ...
const NEEDED_SEGMENTS: u32 = 8;

/// ... in this time at least, while nothing came that was expected.
const NEEDED_TIME: u64 = 30_000_000_000;

/// Segments without enough evidence that follow each other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Doubt {
    /// Sequence number of the next byte.
    pub(super) next: u32,
    pub(super) since: u64,
    pub(super) segments: u32,
    pub(super) evidence: u32,
}

impl Stream {
    /// Takes a segment with too little evidence. One may be anybody's; but if more follow it, the stream may have gone
    /// on there, and we missed a great deal.
    pub(super) fn doubt(&mut self, arrival: Arrival, out: &mut Pieces) -> Verdict {
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
        self.flush(true, out);
        if !(-NEAR..=0).contains(&self.ahead(arrival.sequence)) {
            let missed = self.next.map_or(0, |next| arrival.sequence.wrapping_sub(next));
            self.clock = self.clock.max(arrival.time);
            out(self.clock, Piece::Gap { length: missed, cause: Gap::Lost });
            self.next = Some(arrival.sequence);
            self.leapt = true;
        }
        self.hand_on(arrival, out);
        self.catch_up(out);
        Verdict::Taken
    }
}
