//! What runs most: how often records process, how long that takes, how long their chains are.
//!
//! The time of a record is that between `dbProcess` and `recGblFwdLink`, less that of the records that it processed
//! meanwhile. It includes the probes' own cost, about a microsecond for each record, and the time that the thread waited
//! for a processor. An asynchronous record, and a chain with one, is counted but not timed: its thread did other things
//! meanwhile.

use super::base_types::has_processed;
use super::chain::{Chain, Outcome, ProcessSpan, Span, SpanKind, Trigger};
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
    counts: Counts,
    /// The shortest; 0 if there is none.
    min: u64,
    max: u64,
}

/// Steps and how often each was taken, in order: there are some 1,500 at most. There may be one of these for each of a
/// hundred thousand chains, most with one step, for which memory of its own is too much.
#[derive(Clone, Debug, Default)]
enum Counts {
    #[default]
    None,
    One(u16, u64),
    More(Vec<(u16, u64)>),
}

impl Counts {
    fn add(&mut self, step: u16) {
        match self {
            Counts::None => *self = Counts::One(step, 1),
            Counts::One(known, count) if *known == step => *count += 1,
            Counts::One(known, count) => {
                let mut both = vec![(*known, *count), (step, 1)];
                both.sort_unstable();
                *self = Counts::More(both);
            }
            Counts::More(all) => match all.binary_search_by_key(&step, |(known, _)| *known) {
                Ok(place) => {
                    if let Some((_, count)) = all.get_mut(place) {
                        *count += 1;
                    }
                }
                Err(place) => all.insert(place, (step, 1)),
            },
        }
    }

    fn iter(&self) -> impl Iterator<Item = (u16, u64)> + '_ {
        let (one, more) = match self {
            Counts::None => (None, [].as_slice()),
            Counts::One(step, count) => (Some((*step, *count)), [].as_slice()),
            Counts::More(all) => (None, all.as_slice()),
        };
        one.into_iter().chain(more.iter().copied())
    }
}

impl Durations {
    /// Adds one, in nanoseconds.
    pub fn add(&mut self, nanoseconds: u64) {
        let is_first = matches!(self.counts, Counts::None);
        self.counts.add(((nanoseconds.max(1) as f64).log2() * STEPS) as u16);
        self.min = if is_first { nanoseconds } else { self.min.min(nanoseconds) };
        self.max = self.max.max(nanoseconds);
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.counts.iter().map(|(_, count)| count).sum()
    }

    /// The longest, nanoseconds.
    pub fn max(&self) -> Option<u64> {
        (!matches!(self.counts, Counts::None)).then_some(self.max)
    }

    /// The one that `share` of them do not exceed, to 3 %, nanoseconds.
    pub fn quantile(&self, share: f64) -> Option<u64> {
        let wanted = (share * self.count() as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (step, count) in self.counts.iter() {
            seen += count;
            if seen >= wanted {
                let middle = ((f64::from(step) + 0.5) / STEPS).exp2();
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

/// The same, with what the chains have in common.
struct Alike {
    of: OfChain,
    /// Number of the record that they begin with.
    record: u32,
    began: Began,
}

// there may be a hundred thousand
const _: () = assert!(size_of::<Alike>() <= 72);

/// What began a chain.
#[derive(Clone, Copy)]
enum Began {
    Process(Trigger),
    Put,
    Link,
}

impl Began {
    /// The kind of cause; part of the output.
    fn name(self) -> &'static str {
        match self {
            Began::Process(trigger) => trigger.name(),
            Began::Put => "put",
            Began::Link => "CA link",
        }
    }
}

/// Activity of records and chains.
#[derive(Default)]
pub struct Activity {
    /// By number of the record.
    records: Vec<OfRecord>,
    /// By number of the record that a chain begins with, and the kind of cause.
    chains: Vec<Alike>,
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
            if record >= self.records.capacity() {
                let more = record + 1 - self.records.len();
                self.records.reserve_exact(more + self.records.len() / 8);
            }
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
        self.chains.iter().map(|alike| (alike.record as usize, alike.began.name(), &alike.of))
    }

    fn take_chain(&mut self, chain: &Chain, naming: &mut Naming) {
        let Some(root) = chain.root() else { return };
        let (record, began) = match &root.kind {
            SpanKind::Process(process) => (Some(process.record), Began::Process(process.trigger)),
            SpanKind::Put(put) => (put.record, Began::Put),
            SpanKind::Link(link) => (link.record, Began::Link),
        };
        let context = chain.run.context();
        let processed = |span: &&Span| matches!(&span.kind, SpanKind::Process(process) if has_processed(&context, process));
        let processed = chain.spans.iter().filter(processed).count() as u64;
        drop(context);
        let Some(record) = record.filter(|_| processed > 0) else { return };
        let Ok(record) = u32::try_from(naming.of(chain, root, record)) else { return };
        let kind = began.name();
        let is = |known: &Alike| known.record == record && known.began.name() == kind;
        let place = self.found.find((record, kind), |place| self.chains.get(place).is_some_and(is));
        if place.is_none() {
            if self.chains.len() >= MAX_CHAINS {
                return;
            }
            let keys = self.chains.iter().map(|alike| (alike.record, alike.began.name()));
            self.found.add((record, kind), keys);
            room::for_one_more(&mut self.chains);
            self.chains.push(Alike { of: OfChain::default(), record, began });
        }
        let place = place.unwrap_or(self.chains.len() - 1);
        let Some(Alike { of, .. }) = self.chains.get_mut(place) else { return };
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
        // those of one length are in no memory of their own
        assert_eq!(durations.count(), 1001);
        let mut same = Durations::default();
        (0..5).for_each(|_| same.add(7000));
        assert!(matches!(same.counts, Counts::One(_, 5)) && same.quantile(1.0) == Some(7000));
        same.add(10);
        assert_eq!((same.quantile(0.1), same.max(), same.count()), (Some(10), Some(7000), 6));
        assert!(near(same.quantile(0.9), 7000.0));
        // of one, each is that one
        let mut one = Durations::default();
        one.add(3_310_001);
        assert_eq!([0.5, 0.99].map(|share| one.quantile(share)), [Some(3_310_001); 2]);
    }
}
