//! Counts what is lost of PVAccess, and reports it without flooding the log.

use iocrec_log::event::{Address, Event, Fact, Loss, LossSource};

/// Least time between two reports of one kind, nanoseconds.
const INTERVAL: u64 = 1_000_000_000;
/// The same for streams that are not PVAccess, or encrypted.
const FOREIGN_INTERVAL: u64 = 600_000_000_000;

/// Kinds of losses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Bytes that were not captured.
    Gap,
    /// Bytes in which no messages could be found, or that could not be understood.
    Unframed,
    /// Bytes of other protocols on PVAccess ports.
    Foreign,
    /// Bytes of encrypted circuits.
    Encrypted,
    /// Circuits that had to be forgotten while open.
    Circuits,
    /// Channels and requests that had to be forgotten while open.
    Channels,
    /// Types that had to be forgotten.
    Types,
    /// TCP segments that are not what they say.
    Unbelieved,
}

const KINDS: [Kind; 8] = [
    Kind::Gap,
    Kind::Unframed,
    Kind::Foreign,
    Kind::Encrypted,
    Kind::Circuits,
    Kind::Channels,
    Kind::Types,
    Kind::Unbelieved,
];

#[derive(Debug, Default)]
struct Tally {
    count: u64,
    since: u64,
    reported: Option<u64>,
    circuit: Option<(Address, Address)>,
    several: bool,
}

/// Losses not yet reported.
#[derive(Debug, Default)]
pub struct Losses {
    tallies: [Tally; KINDS.len()],
}

impl Losses {
    /// Counts a loss on the circuit between `client` and `server`.
    pub fn add(&mut self, kind: Kind, count: u64, time: u64, client: Address, server: Address) {
        let Some(tally) = self.tallies.get_mut(kind as usize).filter(|_| count > 0) else { return };
        if tally.count == 0 {
            tally.since = time;
            tally.circuit = Some((client, server));
            tally.several = false;
        }
        tally.several |= tally.circuit != Some((client, server));
        tally.count = tally.count.saturating_add(count);
    }

    /// Reports losses that are due; with `all`, all of them.
    pub fn report(&mut self, now: u64, all: bool, out: &mut Vec<Event>) {
        for (kind, tally) in KINDS.into_iter().zip(&mut self.tallies) {
            let interval = match kind {
                _ if all => 0,
                Kind::Foreign | Kind::Encrypted => FOREIGN_INTERVAL,
                _ => INTERVAL,
            };
            let due = tally.reported.is_none_or(|last| now.saturating_sub(last) >= interval);
            let Some((client, server)) = tally.circuit.filter(|_| tally.count > 0 && due) else { continue };
            let what = match kind {
                Kind::Gap => "bytes of PVAccess were not captured",
                Kind::Unframed => "bytes are not PVAccess messages, or their beginning was not seen",
                Kind::Foreign => "bytes of something else than PVAccess, ignored",
                Kind::Encrypted => "bytes are encrypted (TLS): puts over PVAccess can't be seen in them",
                Kind::Circuits => "PVAccess circuits forgotten: more are open than are kept",
                Kind::Channels => "PVAccess channels or requests forgotten: more are open than are kept",
                Kind::Unbelieved => "TCP segments not believed: they do not fit their PVAccess circuit",
                Kind::Types => "PVAccess types forgotten: more are in use than are kept",
            };
            let others = if tally.several { ", and on other circuits" } else { "" };
            let loss = Loss {
                source: LossSource::Stream,
                count: std::mem::take(&mut tally.count),
                since: tally.since,
                cause: format!("{what}: client {client}, server {server}{others}"),
            };
            tally.reported = Some(now);
            out.push(Event { time: now, fact: Fact::Loss(loss) });
        }
    }
}
