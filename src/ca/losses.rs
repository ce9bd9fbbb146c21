//! Counts losses and reports them without flooding the log.
//!
//! Every byte is counted. A kind of loss is reported at once if it was not reported recently, else once per interval,
//! with everything that has accumulated since the last report.

use iocrec_log::event::{Address, Event, Fact, Loss, LossSource};

/// Least time between two reports of one kind, nanoseconds.
const INTERVAL: u64 = 1_000_000_000;
/// The same for streams other than Channel Access, which lose nothing of interest.
const FOREIGN_INTERVAL: u64 = 600_000_000_000;

/// Kinds of losses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Bytes that were not captured.
    Gap,
    /// Bytes in which no messages could be found.
    Unframed,
    /// Bytes of other protocols on Channel Access ports.
    Foreign,
    /// Circuits that had to be forgotten while open.
    Circuits,
    /// Channels that had to be forgotten while open.
    Channels,
    /// Segments of data that are not believed.
    ForgedData,
    /// Segments that were sent again with other bytes.
    ChangedData,
    /// Resets that are not believed.
    ForgedResets,
    /// Openings of circuits that were open.
    ForgedOpenings,
}

const KINDS: [Kind; 9] = [
    Kind::Gap,
    Kind::Unframed,
    Kind::Foreign,
    Kind::Circuits,
    Kind::Channels,
    Kind::ForgedData,
    Kind::ChangedData,
    Kind::ForgedResets,
    Kind::ForgedOpenings,
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
        let Some(tally) = self.tallies.get_mut(kind as usize) else { return };
        if count == 0 {
            return;
        }
        if tally.count == 0 {
            tally.since = time;
            tally.circuit = Some((client, server));
            tally.several = false;
        }
        tally.several |= tally.circuit != Some((client, server));
        tally.count = tally.count.saturating_add(count);
    }

    /// Reports losses that are due.
    pub fn report(&mut self, now: u64, out: &mut Vec<Event>) {
        for kind in KINDS {
            let interval = if kind == Kind::Foreign { FOREIGN_INTERVAL } else { INTERVAL };
            self.report_after(kind, interval, now, out);
        }
    }

    /// Reports everything.
    pub fn finish(&mut self, now: u64, out: &mut Vec<Event>) {
        for kind in KINDS {
            self.report_after(kind, 0, now, out);
        }
    }

    fn report_after(&mut self, kind: Kind, interval: u64, now: u64, out: &mut Vec<Event>) {
        let Some(tally) = self.tallies.get_mut(kind as usize) else { return };
        let due = tally.reported.is_none_or(|last| now.saturating_sub(last) >= interval);
        let Some((client, server)) = tally.circuit.filter(|_| tally.count > 0 && due) else { return };
        let what = match kind {
            Kind::Gap => "bytes were not captured",
            Kind::Unframed => "bytes are not Channel Access messages, or their beginning was not seen",
            Kind::Foreign => "bytes of something else than Channel Access, ignored",
            Kind::Circuits => "circuits forgotten: more are open than are kept",
            Kind::Channels => "channels forgotten: more are open than are kept",
            Kind::ForgedData => {
                "TCP segments not believed: they fit neither what was sent nor what was acknowledged"
            }
            Kind::ChangedData => "TCP segments repeated with other bytes: the first ones count",
            Kind::ForgedResets => {
                "TCP resets not believed: they lack the sequence number that a reset must have"
            }
            Kind::ForgedOpenings => {
                "TCP openings of circuits that are open: nothing changes unless they are answered"
            }
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
