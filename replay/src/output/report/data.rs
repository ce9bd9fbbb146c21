//! The page's data: columns of numbers, one table of strings, times as milliseconds from a base.
//!
//! Everything here is bounded, so that the page stays below 5 MB: the limits are those of [`super::collect`], and the
//! constants below.

use super::collect::chains::{Shown, StepKind, MAX_ALL_STEPS};
use super::collect::counts::Counts;
use super::collect::places::NONE;
use super::facts::Facts;
use super::moments::Moment;
use super::strings::{shown, Text};
use serde::Serialize;
use std::collections::{HashMap, HashSet};

/// Alarm transitions in the page: those to the worst severities first.
const MAX_ALARMS: usize = 5000;
/// PVs with a plot.
const MAX_PLOTS: usize = 40;
/// Records whose processing can be counted in a chosen time.
const MAX_COUNTED: usize = 500;
/// Bins of one record, and numbers for the bins of all: half a MB.
const MAX_BINS: usize = 2000;
const MAX_ALL_BINS: usize = 150_000;
/// Points of all plots: about 1 MB.
const MAX_POINTS: usize = 56_000;

/// See the module.
#[derive(Serialize, Default)]
pub struct Data {
    base: i64,
    offset: i32,
    days: bool,
    digits: usize,
    first: f64,
    last: f64,
    strings: Vec<String>,
    iocs: Vec<Ioc>,
    writers: Vec<(Text, u64)>,
    puts: Puts,
    alarms: Alarms,
    causes: Vec<(&'static str, Text, Text, Text, Text)>,
    records: Records,
    plots: Vec<Plot>,
    chains: Vec<Chain>,
    chain_total: u64,
    losses: Vec<Gap>,
    gaps: Vec<Gap>,
    marks: Vec<(f64, String)>,
}

/// From when to when, if known.
type Span = (Option<f64>, Option<f64>);

#[derive(Serialize)]
struct Ioc {
    name: String,
    host: String,
    end: Option<f64>,
    how: String,
    /// Times in which it was recorded; an end is null if it lasted to the end of the log.
    recorded: Vec<Span>,
    bins: Bins,
}

/// Counts: start of the first bin, width in ms, counts; a negative number stands for so many zeros.
#[derive(Serialize, Default)]
struct Bins(f64, f64, Vec<i64>);

#[derive(Serialize, Default)]
struct Puts {
    total: u64,
    time: Vec<f64>,
    pv: Vec<Text>,
    record: Vec<i64>,
    ioc: Vec<i64>,
    writer: Vec<i64>,
    from: Vec<Text>,
    address: Vec<Text>,
    old: Vec<Text>,
    new: Vec<Text>,
    asked: Vec<Text>,
    status: Vec<Text>,
    via: Vec<Text>,
    ms: Vec<Option<f64>>,
    chain: Vec<i64>,
    flags: Vec<u16>,
}

#[derive(Serialize, Default)]
struct Alarms {
    total: u64,
    time: Vec<f64>,
    record: Vec<i64>,
    from: Vec<i64>,
    to: Vec<u16>,
    status: Vec<Text>,
    value: Vec<Text>,
    cause: Vec<i64>,
    chain: Vec<i64>,
    gap: Vec<u8>,
}

#[derive(Serialize, Default)]
struct Records {
    total: usize,
    name: Vec<Text>,
    rtype: Vec<Text>,
    ioc: Vec<i64>,
    processed: Vec<u64>,
    busy_ms: Vec<f64>,
    longest_ms: Vec<f64>,
    rate: Vec<u64>,
    /// Null for records that are not counted in a chosen time.
    bins: Vec<Option<Bins>>,
}

#[derive(Serialize)]
struct Plot {
    record: i64,
    units: Text,
    states: Vec<Text>,
    seen: u64,
    thinned: bool,
    time: Vec<f64>,
    value: Vec<Option<f64>>,
}

#[derive(Serialize)]
struct Chain {
    serial: u64,
    time: f64,
    ms: f64,
    cause: i64,
    title: Text,
    ioc: i64,
    iocs: u32,
    severity: u16,
    processed: u64,
    open: bool,
    /// Steps that are not in the page.
    left_out: usize,
    parent: Vec<i64>,
    kind: Vec<u8>,
    name: Vec<Text>,
    detail: Vec<Text>,
    value: Vec<Text>,
    severities: Vec<u16>,
    /// Microseconds from the begin of the chain.
    start: Vec<f64>,
    length: Vec<Option<f64>>,
    place: Vec<i64>,
    hop: Vec<u8>,
}

#[derive(Serialize)]
struct Gap {
    from: f64,
    to: f64,
    count: u64,
    what: &'static str,
    cause: String,
    ioc: i64,
}

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
    let clock = &facts.clock;
    let gap = |missing: &super::collect::notes::Missing| Gap {
        from: clock.ms(missing.from),
        to: clock.ms(missing.to),
        count: missing.count,
        what: missing.what,
        cause: shown(&missing.cause),
        ioc: missing.ioc.map_or(-1, number),
    };
    Data {
        base: clock.base_ms(),
        offset: clock.minutes(),
        days: clock.has_days(),
        digits: clock.digits(),
        first: clock.ms(facts.span.0),
        last: clock.ms(facts.span.1),
        iocs: iocs(facts),
        writers: facts.found.puts.writers.clone(),
        puts: puts(facts, &numbers),
        alarms,
        causes,
        records,
        plots,
        chains,
        chain_total: facts.found.chains.total,
        losses: facts.losses.iter().map(gap).collect(),
        gaps: facts.gaps.iter().map(gap).collect(),
        marks: facts.marks.iter().map(|(time, text)| (clock.ms(*time), shown(text))).collect(),
        strings: facts.found.strings.all().to_vec(),
    }
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
            (count, _) => numbers.push(i64::from(*count)),
        }
    }
    let width = 2_f64.powi(i32::try_from(counts.shift()).unwrap_or(0)) / 1e6;
    Bins(facts.clock.ms(counts.start()), width, numbers)
}

/// The transitions that are shown, by their places: those to the worst severities first, then the earliest.
fn alarms_to_show(facts: &Facts) -> Vec<usize> {
    let all = &facts.found.alarms.all;
    let mut places: Vec<usize> = (0..all.len()).collect();
    if places.len() > MAX_ALARMS {
        let worst =
            |place: &usize| all.get(*place).map_or(0, |found| found.to.severity.max(found.from.unwrap_or(0)));
        places.sort_by_key(|place| (u16::MAX - worst(place), *place));
        places.truncate(MAX_ALARMS);
        places.sort_unstable();
    }
    places
}

/// The records that the page names, with their numbers there: those in alarms, puts and moments, then those that
/// processed most.
fn records_to_show(facts: &Facts, moments: &[Moment], kept: &[usize]) -> HashMap<u32, usize> {
    let all = &facts.found.places.records;
    let mut chosen: Vec<u32> = Vec::new();
    let mut seen = HashSet::new();
    let mut add = |record: u32| {
        if record != NONE && seen.insert(record) {
            chosen.push(record);
        }
    };
    let mut most: Vec<u32> = (0..u32::try_from(all.len()).unwrap_or(NONE)).collect();
    most.sort_by_key(|record| {
        all.get(index(*record)).map_or(0, |record| u64::MAX - record.processed.total())
    });
    most.into_iter().take(MAX_COUNTED).for_each(&mut add);
    let names: HashSet<&str> = moments.iter().map(|moment| moment.name.as_str()).collect();
    for (record, info) in all.iter().enumerate() {
        if names.contains(facts.found.strings.get(info.name)) {
            add(u32::try_from(record).unwrap_or(NONE));
        }
    }
    kept.iter().filter_map(|place| facts.found.alarms.all.get(*place)).for_each(|found| add(found.record));
    facts.found.puts.all.iter().for_each(|put| add(put.record));
    chosen.into_iter().enumerate().map(|(place, record)| (record, place)).collect()
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
        let Some(record) = all.get(index(record)) else { continue };
        records.name.push(record.name);
        records.rtype.push(record.rtype);
        records.ioc.push(number(record.ioc));
        records.processed.push(record.processed.total());
        records.busy_ms.push((record.busy / 1000) as f64 / 1e3);
        records.longest_ms.push((record.longest / 1000) as f64 / 1e3);
        records.rate.push(record.peak.rate());
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
        puts.ms.push(put.callback_ms.map(|ms| (ms * 1e3).round() / 1e3));
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

fn plots(facts: &Facts, moments: &[Moment], kept: &[usize], numbers: &HashMap<u32, usize>) -> Vec<Plot> {
    let all = &facts.found.places.records;
    let mut chosen: Vec<u32> = Vec::new();
    let mut seen = HashSet::new();
    let mut add = |record: u32| {
        let plot = all.get(index(record)).and_then(|record| record.plot.as_ref());
        if plot.is_some_and(super::collect::plot::Plot::is_line)
            && numbers.contains_key(&record)
            && seen.insert(record)
        {
            chosen.push(record);
        }
    };
    for moment in moments {
        let named =
            |info: &&super::collect::records::RecordInfo| facts.found.strings.get(info.name) == moment.name;
        let found = all.iter().position(|info| named(&info));
        found.and_then(|record| u32::try_from(record).ok()).into_iter().for_each(&mut add);
    }
    let alarms = kept.iter().filter_map(|place| facts.found.alarms.all.get(*place));
    alarms.filter(|found| found.to.severity >= 2).for_each(|found| add(found.record));
    facts.found.puts.all.iter().for_each(|put| add(put.record));
    let mut busy: Vec<u32> = numbers.keys().copied().collect();
    busy.sort_by_key(|record| numbers.get(record));
    busy.into_iter().for_each(&mut add);
    let mut room = MAX_POINTS;
    let mut plots = Vec::new();
    for record in chosen.into_iter().take(MAX_PLOTS) {
        let Some(info) = all.get(index(record)) else { continue };
        let Some(plot) = info.plot.clone() else { continue };
        let seen = plot.seen();
        let (points, thinned) = plot.finish();
        if points.len() > room {
            continue;
        }
        room -= points.len();
        plots.push(Plot {
            record: place_of(numbers, record),
            units: info.units,
            states: info.states.clone(),
            seen,
            thinned,
            time: points.iter().map(|point| facts.clock.ms(point.time)).collect(),
            value: points.iter().map(|point| Some(point.value).filter(|value| value.is_finite())).collect(),
        });
    }
    plots
}

fn chains(facts: &Facts, causes: &mut Causes) -> Vec<Chain> {
    let mut room = MAX_ALL_STEPS;
    facts
        .found
        .chains
        .shown()
        .map(|shown| {
            // The most notable are shown whole.
            let most = if room > MAX_ALL_STEPS / 4 { shown.steps.len() } else { shown.steps.len().min(20) };
            let most = most.min(room.max(1));
            room = room.saturating_sub(most);
            chain(facts, shown, most, causes)
        })
        .collect()
}

fn chain(facts: &Facts, shown: &Shown, most: usize, causes: &mut Causes) -> Chain {
    let mut chain = Chain {
        serial: shown.serial,
        time: facts.clock.ms(shown.time),
        ms: (shown.length / 100) as f64 / 1e4,
        cause: causes.add(facts, shown.cause),
        title: shown.title,
        ioc: number(shown.ioc),
        iocs: shown.iocs,
        severity: shown.severity,
        processed: shown.processed,
        open: shown.open,
        left_out: shown.steps.len() - most.min(shown.steps.len()),
        parent: Vec::new(),
        kind: Vec::new(),
        name: Vec::new(),
        detail: Vec::new(),
        value: Vec::new(),
        severities: Vec::new(),
        start: Vec::new(),
        length: Vec::new(),
        place: Vec::new(),
        hop: Vec::new(),
    };
    for step in shown.steps.iter().take(most) {
        chain.parent.push(step.parent.map_or(-1, i64::from));
        chain.kind.push(match step.kind {
            StepKind::Put => 0,
            StepKind::LinkPut => 1,
            StepKind::Process => 2,
            StepKind::CaLink => 3,
            StepKind::More => 4,
        });
        chain.name.push(step.name);
        chain.detail.push(step.detail);
        chain.value.push(step.value);
        chain.severities.push(step.severity);
        chain.start.push((step.start / 100) as f64 / 10.0);
        chain.length.push(step.length.map(|length| (length / 100) as f64 / 10.0));
        chain.place.push(number(step.ioc));
        chain.hop.push(u8::from(step.hop));
    }
    chain
}
