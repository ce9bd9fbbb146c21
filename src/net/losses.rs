//! Counts losses and reports them without flooding the log.
//!
//! Everything is counted. A kind of loss is reported at once if it was not reported recently, else once per interval, with
//! everything that has accumulated since the last report.

use iocrec_log::event::{Event, Fact, Loss, LossSource};

use crate::net::packet::End;

/// Least time between two reports of one kind, nanoseconds.
const INTERVAL: u64 = 1_000_000_000;
/// The same for streams of which nothing is understood, and nothing of interest is lost.
const FOREIGN_INTERVAL: u64 = 600_000_000_000;

/// A protocol's kinds of losses.
pub trait Kind: Copy + PartialEq + 'static {
    /// All of them.
    const ALL: &'static [Self];

    /// What is lost, behind its number.
    fn what(self) -> &'static str;

    /// Whether these are streams that are not understood at all: they go on for as long as somebody sends them.
    fn is_foreign(self) -> bool;
}

#[derive(Debug)]
struct Tally<K> {
    kind: K,
    count: u64,
    since: u64,
    reported: Option<u64>,
    circuit: Option<(End, End)>,
    several: bool,
}

/// Losses not yet reported.
#[derive(Debug)]
pub struct Losses<K> {
    tallies: Vec<Tally<K>>,
}

impl<K: Kind> Default for Losses<K> {
    fn default() -> Losses<K> {
        let none = |kind| Tally { kind, count: 0, since: 0, reported: None, circuit: None, several: false };
        Losses { tallies: K::ALL.iter().copied().map(none).collect() }
    }
}

impl<K: Kind> Losses<K> {
    /// Counts a loss on the circuit between `client` and `server`.
    pub fn add(&mut self, kind: K, count: u64, time: u64, client: impl Into<End>, server: impl Into<End>) {
        let (client, server) = (client.into(), server.into());
        let Some(tally) = self.tallies.iter_mut().find(|tally| tally.kind == kind).filter(|_| count > 0)
        else {
            return;
        };
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
        for tally in &mut self.tallies {
            let interval = if tally.kind.is_foreign() { FOREIGN_INTERVAL } else { INTERVAL };
            tally.report_after(interval, now, out);
        }
    }

    /// Reports everything.
    pub fn finish(&mut self, now: u64, out: &mut Vec<Event>) {
        self.tallies.iter_mut().for_each(|tally| tally.report_after(0, now, out));
    }
}

impl<K: Kind> Tally<K> {
    fn report_after(&mut self, interval: u64, now: u64, out: &mut Vec<Event>) {
        let due = self.reported.is_none_or(|last| now.saturating_sub(last) >= interval);
        let Some((client, server)) = self.circuit.filter(|_| self.count > 0 && due) else { return };
        let others = if self.several { ", and on other circuits" } else { "" };
        let loss = Loss {
            source: LossSource::Stream,
            count: std::mem::take(&mut self.count),
            since: self.since,
            cause: format!("{}: client {client}, server {server}{others}", self.kind.what()),
        };
        self.reported = Some(now);
        out.push(Event { time: now, fact: Fact::Loss(loss) });
    }
}
