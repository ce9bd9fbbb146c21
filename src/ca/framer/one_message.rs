//! Single messages: gathered, judged by their headers, passed on or held back.

use super::{Framer, Framing, Held, NotFramed, Open, Sink};
use crate::ca::message::{
    self, is_text, plausible, Header, Plausibility, CLIENT_NAME, CREATE_CHAN, ERROR, HEADER, HOST_NAME,
    LAST_COMMAND, SEARCH, WRITE, WRITE_NOTIFY,
};
use crate::net::protocol::Side;

/// Payload bytes to keep of a CREATE_CHAN, SEARCH, CLIENT_NAME or HOST_NAME. Servers accept no longer names (RSRV: 512 bytes
/// for users and hosts; PV names are far shorter).
const KEPT_NAME: u32 = 512;

/// Payload bytes to keep of an ERROR: a header and its text.
const KEPT_ERROR: u32 = 512;

/// Maximum number of messages held back until a framing is confirmed. Blank messages beyond it are not held: they are
/// no evidence and carry no information.
pub(super) const MAX_HELD: usize = 8;

impl Framer {
    /// Takes some of these bytes, at least one, and returns their number. If they can't be framed, takes none.
    pub(super) fn advance(&mut self, time: u64, rest: &[u8], sink: &mut Sink) -> Result<usize, NotFramed> {
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
    pub(super) fn close(&mut self, time: u64, sink: &mut Sink) -> Result<(), NotFramed> {
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
    pub(super) fn took(&mut self, bytes: u64) {
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
            // RSRV reckons with 32 bits: it takes less of such a message, and finds no more behind that
            Framing::Certain => header.command <= LAST_COMMAND && header.size < u32::MAX - HEADER as u32,
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

    /// Number of payload bytes to keep of this message.
    pub(super) fn keep(&self, header: &Header) -> usize {
        let most = match (self.side, header.command) {
            (Side::Client, WRITE | WRITE_NOTIFY) => self.put_payload,
            (Side::Client, CREATE_CHAN | CLIENT_NAME | HOST_NAME | SEARCH) => KEPT_NAME,
            (Side::Server, ERROR) => KEPT_ERROR,
            _ => 0,
        };
        header.size.min(most) as usize
    }
}
