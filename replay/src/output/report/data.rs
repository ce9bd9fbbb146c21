//! The page's data: columns of numbers, one table of strings, times as milliseconds from a base.
//!
//! Everything here is bounded, so that the page stays below 5 MB: the limits are those of [`super::collect`], and the
//! constants below.

mod chains;
mod choice;
mod plots;
mod shape;
mod usage;

pub use self::shape::Data;

use self::chains::chains;
use self::choice::{alarms_to_show, records_to_show};
use self::plots::plots;
use self::shape::{Alarms, Bins, Gap, Ioc, Puts, Records, Span};
use super::collect::counts::Counts;
use super::collect::places::NONE;
use super::facts::Facts;
use super::moments::Moment;
use super::strings::shown;
use std::collections::HashMap;

/// Records whose processing can be counted in a chosen time.
const MAX_COUNTED: usize = 500;
/// Bins of one record, and numbers for the bins of all: half a MB.
const MAX_BINS: usize = 2000;
const MAX_ALL_BINS: usize = 150_000;

/// A number for the page: -1 for none.
fn number(number: u32) -> i64 {
    if number == NONE {
        -1
    } else {
        i64::from(number)
    }
}

fn index(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// The page's data on these facts. `moments`: what is to be seen first.
pub fn data(facts: &mut Facts, moments: &[Moment]) -> Data {
    let kept = alarms_to_show(facts);
    let numbers = records_to_show(facts, moments, &kept);
    let mut causes = Causes::default();
    let alarms = alarms(facts, &kept, &numbers, &mut causes);
    let chains = chains(facts, &mut causes);
    let plots = plots(facts, moments, &kept, &numbers);
    let causes = causes.all.iter().filter_map(|cause| facts.found.causes.get(*cause));
    let causes =
        causes.map(|cause| (cause.kind, cause.what, cause.value, cause.who, cause.through)).collect();
    let records = records(facts, &numbers);
    let (usage, lines_left_out) = usage::usage(facts);
    let clock = &facts.clock;
    let gap = |missing: &super::collect::notes::Missing| Gap {
        from: clock.ms(missing.from),
        to: clock.ms(missing.to),
        count: missing.count,
        what: missing.what,
        cause: shown(&missing.cause),
        ioc: missing.ioc.map_or(-1, number),
    };
    let mut data = Data {
        base: clock.base_ms(),
        offset: clock.minutes(),
        days: clock.has_days(),
        digits: clock.digits(),
        first: clock.ms(facts.span.0),
        last: clock.ms(facts.span.1),
        chosen: facts.limits.are_any(),
        iocs: iocs(facts),
        writers: facts.found.puts.writers.clone(),
        puts: puts(facts, &numbers),
        alarms,
        causes,
        records,
        plots,
        chains,
        usage,
        usage_left_out: (facts.usage.left_out, lines_left_out),
        chain_total: facts.found.chains.total,
        losses: facts.losses.iter().map(gap).collect(),
        gaps: facts.gaps.iter().map(gap).collect(),
        marks: facts.marks.iter().map(|(time, text)| (clock.ms(*time), shown(text))).collect(),
        strings: std::mem::take(&mut facts.found.strings),
    };
    data.drop_unused_texts();
    data
}

fn iocs(facts: &Facts) -> Vec<Ioc> {
    let clock = &facts.clock;
    let mut recorded: HashMap<usize, Vec<Span>> = HashMap::new();
    for run in &facts.runs {
        for ioc in run.inventory.context().iocs() {
            let is = |place: &super::collect::places::Place| {
                place.host == run.host()
                    && place.ioc.as_ref().is_some_and(|own| (own.pid, own.start) == (ioc.pid, ioc.start))
            };
            let Some(place) = facts.found.places.iocs.iter().position(is) else { continue };
            let spans = run.inventory.spans().recorded(ioc.id);
            let last = facts.last_of(run);
            let ms = |wall: Option<i64>| wall.map(|wall| clock.ms(wall));
            let spans = spans.map(|(from, to)| (ms(from), ms(to.or(last))));
            recorded.entry(place).or_default().extend(spans);
        }
    }
    let places = facts.found.places.iocs.iter().enumerate();
    places
        .map(|(place, ioc)| {
            let end = facts.ends.iter().find(|end| index(end.ioc) == place);
            Ioc {
                name: shown(&ioc.name),
                host: shown(&ioc.host),
                end: end.map(|end| clock.ms(end.time)),
                how: end.map_or(String::new(), |end| shown(&end.how)),
                recorded: recorded.remove(&place).unwrap_or_default(),
                bins: bins(facts, &ioc.processed, MAX_BINS),
            }
        })
        .collect()
}

/// Counts in at most so many bins.
fn bins(facts: &Facts, counts: &Counts, most: usize) -> Bins {
    let mut counts = counts.clone();
    counts.fit(most);
    let mut numbers: Vec<i64> = Vec::new();
    for count in counts.bins() {
        match (count, numbers.last_mut()) {
            (0, Some(last)) if *last < 0 => *last -= 1,
            (0, _) => numbers.push(-1),
            (count, _) => numbers.push(i64::from(count)),
        }
    }
    let width = 2_f64.powi(i32::try_from(counts.shift()).unwrap_or(0)) / 1e6;
    Bins(facts.clock.ms(counts.start()), width, numbers)
}

fn place_of(numbers: &HashMap<u32, usize>, record: u32) -> i64 {
    numbers.get(&record).and_then(|place| i64::try_from(*place).ok()).unwrap_or(-1)
}

fn records(facts: &Facts, numbers: &HashMap<u32, usize>) -> Records {
    let mut chosen: Vec<(usize, u32)> = numbers.iter().map(|(record, place)| (*place, *record)).collect();
    chosen.sort_unstable();
    let all = &facts.found.places.records;
    let mut records = Records { total: all.len(), ..Records::default() };
    let mut room = MAX_ALL_BINS;
    for (place, record) in chosen {
        let lately = facts.found.places.lately.get(index(record));
        let Some(record) = all.get(index(record)) else { continue };
        records.name.push(record.name);
        records.rtype.push(record.rtype);
        records.ioc.push(number(record.ioc));
        records.processed.push(record.processed.total());
        records.busy_ms.push((record.busy / 1000) as f64 / 1e3);
        records.longest_ms.push((record.longest / 1000) as f64 / 1e3);
        records.rate.push(lately.map_or(0, |lately| lately.peak.rate()));
        let counted = place < MAX_COUNTED && !record.processed.has_no_bins();
        records.bins.push(counted.then(|| {
            // Those that process most come first and may have the most.
            let most = (room / 100).clamp(16, MAX_BINS);
            let bins = bins(facts, &record.processed, most);
            room = room.saturating_sub(bins.2.len());
            bins
        }));
    }
    records
}

fn puts(facts: &Facts, numbers: &HashMap<u32, usize>) -> Puts {
    let mut puts = Puts { total: facts.found.puts.total, ..Puts::default() };
    for put in &facts.found.puts.all {
        puts.time.push(facts.clock.ms(put.time));
        puts.pv.push(put.pv);
        puts.record.push(place_of(numbers, put.record));
        puts.ioc.push(number(put.ioc));
        puts.writer.push(number(put.writer));
        puts.from.push(put.from);
        puts.address.push(put.address);
        puts.old.push(put.old);
        puts.new.push(put.new);
        puts.asked.push(put.asked);
        puts.status.push(put.status);
        puts.via.push(put.via);
        puts.ms.push(Some((put.callback_ms * 1e3).round() / 1e3).filter(|ms| !ms.is_nan()));
        puts.chain.push(i64::try_from(put.chain).unwrap_or(-1));
        puts.flags.push(put.flags);
    }
    puts
}

/// The causes that the page names, with their numbers there.
#[derive(Default)]
struct Causes {
    all: Vec<u32>,
    numbers: HashMap<u32, usize>,
}

impl Causes {
    fn add(&mut self, facts: &Facts, cause: u32) -> i64 {
        if facts.found.causes.get(cause).is_none() {
            return -1;
        }
        let next = self.all.len();
        let place = *self.numbers.entry(cause).or_insert_with(|| {
            self.all.push(cause);
            next
        });
        i64::try_from(place).unwrap_or(-1)
    }
}

fn alarms(facts: &mut Facts, kept: &[usize], numbers: &HashMap<u32, usize>, causes: &mut Causes) -> Alarms {
    let mut alarms = Alarms { total: facts.found.alarms.total, ..Alarms::default() };
    for place in kept {
        let Some(found) = facts.found.alarms.all.get(*place).cloned() else { continue };
        alarms.time.push(facts.clock.ms(found.time));
        alarms.record.push(place_of(numbers, found.record));
        alarms.from.push(found.from.map_or(-1, i64::from));
        alarms.to.push(found.to.severity);
        let status = crate::model::enum_strings::status_name(found.to.status);
        alarms.status.push(facts.found.strings.add(if found.to.severity == 0 { "" } else { status }));
        alarms.value.push(found.value);
        alarms.cause.push(causes.add(facts, found.cause));
        alarms.chain.push(i64::try_from(found.chain).unwrap_or(-1));
        alarms.gap.push(u8::from(found.after_gap));
    }
    alarms
}
