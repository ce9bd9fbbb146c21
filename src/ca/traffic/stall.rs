//! Clients that take nothing: their window is closed while the server has something to send.

use iocrec_log::event::{CircuitId, ClientStalled, Event, Fact};

use super::circuit::Circuit;
use super::SECOND;

/// Time from which on a client's closed window is noted, and between further notes. A closed window is said again only
/// when the server tries to send more.
const STALL: u64 = SECOND;
const STALL_NOTES: u64 = 30 * SECOND;

/// A client's window that is closed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stall {
    since: u64,
    /// When it was last seen closed.
    last: u64,
    /// Time of the last note; 0: none yet.
    noted: u64,
}

impl Circuit {
    /// The client's window is closed, or open again.
    pub(super) fn window(&mut self, id: CircuitId, time: u64, is_closed: bool, out: &mut Vec<Event>) {
        let stall = match (&mut self.stall, is_closed) {
            (None, false) => return,
            (stall @ None, true) => {
                *stall = Some(Stall { since: time, last: time, noted: 0 });
                return;
            }
            (Some(stall), _) => stall,
        };
        if is_closed {
            stall.last = stall.last.max(time);
        }
        let lasts = stall.last.saturating_sub(stall.since) >= STALL;
        let is_due = stall.noted == 0 || time.saturating_sub(stall.noted) >= STALL_NOTES;
        if lasts && (is_due || !is_closed) {
            stall.noted = time;
            let Stall { since, last, .. } = *stall;
            let until = if is_closed { last } else { time };
            let fact = ClientStalled { circuit: id, since, until, is_over: !is_closed };
            out.push(Event { time, fact: Fact::ClientStalled(fact) });
        }
        if !is_closed {
            self.stall = None;
        }
    }
}
