//! Where messages begin in a stream that is joined mid-stream, or that lost bytes.

use super::{Framer, Framing, PROOF, PROOF_AT_END, PROOF_INSIDE, PROOF_INSIDE_AT_END};
use crate::ca::message::{plausible, Header, Plausibility, LAST_COMMAND, WRITE, WRITE_NOTIFY};
use crate::net::protocol::Side;

/// Longest payload of a lone message that is taken for a candidate inside a segment. A wrong one costs what it claims.
const MAX_LONE: u32 = 64 << 10;

/// Bytes of a segment that are searched for a header. Requests are few; answers mostly begin their segment, and a server
/// may send hundreds of megabytes a second.
const SEARCHED_REQUESTS: usize = 64 << 10;
const SEARCHED_ANSWERS: usize = 2 << 10;

/// Messages that a search follows from one place, so that zeros don't cost time without end.
const FOLLOWED: usize = 16;

impl Framer {
    /// Searches for a message in the rest of a segment. If there is one, returns where it begins, and is a candidate from
    /// there on. `aligned`: whether `rest` is a whole segment.
    pub(super) fn search(&mut self, rest: &[u8], at: u64, aligned: bool, ends: bool) -> Option<usize> {
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
}

/// Messages that follow each other.
#[derive(Debug, Default)]
struct Chain {
    /// What speaks for them; see [`PROOF`].
    pub(super) evidence: u32,
    /// Whether the last one ends where the segment ends.
    pub(super) is_whole: bool,
    /// Payload size of the first.
    pub(super) first: u32,
    /// Whether the first is a put with a value.
    pub(super) is_put: bool,
}
