//! What runs most: how often records process, how long that takes, how long their chains are.
//!
//! The time of a record is that between `dbProcess` and `recGblFwdLink`, less that of the records that it processed
//! meanwhile. It includes the probes' own cost, about a microsecond for each record, and the time that the thread waited
//! for a processor. An asynchronous record, and a chain with one, is counted but not timed: its thread did other things
//! meanwhile.

use super::base_types::has_processed;
use super::chain::{Chain, Outcome, ProcessSpan, Span, SpanKind};
use super::finder::Finder;
use super::naming::Naming;
use crate::filter::Filter;
use crate::room;

/// Steps for each doubling of a duration: quantiles are exact to 3 %.
const STEPS: f64 = 24.0;
/// Different chains that are told apart; a bound for hostile logs.
const MAX_CHAINS: usize = 200_000;

/// Durations, counted by length.
#[derive(Clone, Debug, Default)]
pub struct Durations {
    /// Steps and how often each was taken, in order: there are some 1,500 at most. There may be one of these for each of a
    /// hundred thousand chains, most with few steps, for which a node of a tree is too much.
    counts: Vec<(u16, u64)>,
    count: u64,
    /// The shortest; 0 if there is none.
    min: u64,
    max: u64,
}

impl Durations {
    /// Adds one, in nanoseconds.
    pub fn add(&mut self, nanoseconds: u64) {
        let step = ((nanoseconds.max(1) as f64).log2() * STEPS) as u16;
        match self.counts.binary_search_by_key(&step, |(known, _)| *known) {
            Ok(place) => {
                if let Some((_, count)) = self.counts.get_mut(place) {
                    *count += 1;
                }
            }
            Err(place) => {
                if self.counts.is_empty() {
                    self.counts.reserve_exact(1); // a vector begins with room for four
                }
                self.counts.insert(place, (step, 1));
            }
        }
        self.min = if self.count == 0 { nanoseconds } else { self.min.min(nanoseconds) };
        self.count += 1;
        self.max = self.max.max(nanoseconds);
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The longest, nanoseconds.
    pub fn max(&self) -> Option<u64> {
        (self.count > 0).then_some(self.max)
    }

    /// The one that `share` of them do not exceed, to 3 %, nanoseconds.
    pub fn quantile(&self, share: f64) -> Option<u64> {
        let wanted = (share * self.count as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (step, count) in &self.counts {
            seen += count;
            if seen >= wanted {
                let middle = ((f64::from(*step) + 0.5) / STEPS).exp2();
                return Some((middle as u64).clamp(self.min, self.max));
            }
        }
        None
    }
}

/// Activity of a record.
#[derive(Clone, Debug, Default)]
pub struct OfRecord {
    /// How often it processed, also if it was not seen to complete.
    pub count: u64,
    /// Its own time, nanoseconds.
    pub time: u64,
    /// How often its time is unknown.
    pub untimed: u64,
}

/// Activity of the chains that begin with the same record or put, for the same reason.
#[derive(Clone, Debug, Default)]
pub struct OfChain {
    /// From the beginning to the end of the last record in it.
    pub durations: Durations,
    /// Number of chains without a known duration.
    pub untimed: u64,
    /// Records processed, in all of them.
    pub records: u64,
}

/// Activity of records and chains.
#[derive(Default)]
pub struct Activity {
    /// By number of the record.
    records: Vec<OfRecord>,
    /// By number of the record that a chain begins with, and the kind of cause.
    chains: Vec<(usize, &'static str, OfChain)>,
    found: Finder,
    /// Whether each record is selected, by number, as far as that was looked at.
    wanted: Vec<Option<bool>>,
    /// Own times of a chain, whose memory is used again.
    own: Vec<Option<u64>>,
}

impl Activity {
    /// Takes a chain, and those that its CA links led to.
    pub fn take(&mut self, chain: &Chain, filter: &Filter, naming: &mut Naming) {
        self.take_chain(chain, naming);
        let mut own = std::mem::take(&mut self.own);
        own_times(chain, &mut own);
        for (number, span) in chain.spans.iter().enumerate() {
            match &span.kind {
                SpanKind::Process(process) => {
                    if !has_processed(&chain.run.context(), process) {
                        continue;
                    }
                    let is_done = matches!(process.outcome, Outcome::Completed(_));
                    let record = naming.of(chain, span, process.record);
                    if !self.wants(record, filter, naming) {
                        continue;
                    }
                    let Some(of) = self.records.get_mut(record) else { continue };
                    of.count += 1;
                    match own.get(number).copied().flatten().filter(|_| is_done) {
                        Some(time) => of.time += time,
                        None => of.untimed += 1,
                    }
                }
                SpanKind::Link(link) => {
                    if let Some(target) = &link.target {
                        self.take(target, filter, naming);
                    }
                }
                SpanKind::Put(_) => {}
            }
        }
        self.own = own;
    }

    /// Whether the record is selected. Makes room for it.
    fn wants(&mut self, record: usize, filter: &Filter, naming: &Naming) -> bool {
        if let Some(Some(wanted)) = self.wanted.get(record) {
            return *wanted;
        }
        if self.wanted.len() <= record {
            self.wanted.resize(record + 1, None);
            self.records.resize(record + 1, OfRecord::default());
        }
        let name = naming.named(record);
        let wanted = filter.field(name.record, "VAL") && filter.place(name.host, name.ioc);
        if let Some(known) = self.wanted.get_mut(record) {
            *known = Some(wanted);
        }
        wanted
    }

    /// The records that processed, by number.
    pub fn records(&self) -> impl Iterator<Item = (usize, &OfRecord)> {
        self.records.iter().enumerate().filter(|(_, of)| of.count > 0)
    }

    /// Chains: the number of the record that they begin with, and the kind of cause.
    pub fn chains(&self) -> impl Iterator<Item = (usize, &'static str, &OfChain)> {
        self.chains.iter().map(|(record, kind, of)| (*record, *kind, of))
    }

    fn take_chain(&mut self, chain: &Chain, naming: &mut Naming) {
        let Some(root) = chain.root() else { return };
        let (record, kind) = match &root.kind {
            SpanKind::Process(process) => (Some(process.record), process.trigger.name()),
            SpanKind::Put(put) => (put.record, "put"),
            SpanKind::Link(link) => (link.record, "CA link"),
        };
        let context = chain.run.context();
        let processed = |span: &&Span| matches!(&span.kind, SpanKind::Process(process) if has_processed(&context, process));
        let processed = chain.spans.iter().filter(processed).count() as u64;
        drop(context);
        let Some(record) = record.filter(|_| processed > 0) else { return };
        let record = naming.of(chain, root, record);
        let is = |known: &(usize, &str, OfChain)| known.0 == record && known.1 == kind;
        let place = self.found.find((record, kind), |place| self.chains.get(place).is_some_and(is));
        if place.is_none() {
            if self.chains.len() >= MAX_CHAINS {
                return;
            }
            self.found.add((record, kind), self.chains.iter().map(|(record, kind, _)| (*record, *kind)));
            room::for_one_more(&mut self.chains);
            self.chains.push((record, kind, OfChain::default()));
        }
        let place = place.unwrap_or(self.chains.len() - 1);
        let Some((.., of)) = self.chains.get_mut(place) else { return };
        of.records += processed;
        let timed = !chain.open && chain.spans.iter().all(is_timed);
        match chain.spans.iter().map(|span| span.end).max().filter(|_| timed) {
            Some(end) => of.durations.add(end.saturating_sub(root.start)),
            None => of.untimed += 1,
        }
    }
}

fn is_done(span: &Span) -> bool {
    matches!(&span.kind, SpanKind::Process(ProcessSpan { outcome: Outcome::Completed(_), .. }))
}

/// Whether the time between the span's start and end is that of one thread's work.
fn is_timed(span: &Span) -> bool {
    match &span.kind {
        SpanKind::Process(process) => {
            let unseen =
                matches!(process.outcome, Outcome::Open | Outcome::Waiting | Outcome::Entered { .. });
            process.phases.is_empty() && !unseen
        }
        SpanKind::Put(_) | SpanKind::Link(_) => true,
    }
}

/// For each span its duration without that of the processing below it; `None` if that is not known.
pub fn own_times(chain: &Chain, own: &mut Vec<Option<u64>>) {
    own.clear();
    let time = |span: &Span| (is_timed(span) && span.end > span.start).then(|| span.end - span.start);
    own.extend(chain.spans.iter().map(time));
    for span in chain.spans.iter().filter(|span| is_done(span) && is_timed(span)) {
        // Forward links are followed after the parent's end; what is inside of it is what it called.
        let Some(parent) = span.parent else { continue };
        let Some(of) = chain.spans.get(parent) else { continue };
        let inside = span.end.min(of.end).saturating_sub(span.start.max(of.start));
        if span.thread == of.thread {
            if let Some(Some(own)) = own.get_mut(parent) {
                *own = own.saturating_sub(inside);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_exact_to_three_percent() {
        let mut durations = Durations::default();
        assert_eq!((durations.quantile(0.5), durations.max()), (None, None));
        (1..=1000).for_each(|number| durations.add(number * 1000));
        let near = |found: Option<u64>, exact: f64| (found.unwrap() as f64 / exact - 1.0).abs() < 0.03;
        assert!(near(durations.quantile(0.5), 500_000.0), "{:?}", durations.quantile(0.5));
        assert!(near(durations.quantile(0.99), 990_000.0), "{:?}", durations.quantile(0.99));
        assert_eq!((durations.max(), durations.count()), (Some(1_000_000), 1000));
        durations.add(0);
        assert!(durations.quantile(0.0001).unwrap() <= 1);
        // of one, each is that one
        let mut one = Durations::default();
        one.add(3_310_001);
        assert_eq!([0.5, 0.99].map(|share| one.quantile(share)), [Some(3_310_001); 2]);
    }
}
