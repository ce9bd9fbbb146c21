//! Alarms over time: a fold that takes the alarm states of records in order of time, and gives their changes.
//!
//! - The alarm of a record is known when it has processed, and when the recorder has read it. Between, it stays as it
//!   is, for all that EPICS Base does; if something may have been missed in between, the next change says so.
//! - A record flaps from the third time within [`FLAP_WINDOW`] on that its alarm rises to the same severity, until its
//!   alarm stays as it is for that long. While it flaps, its changes are counted instead of given, unless all are
//!   wanted.
//! - Changes are given in order of time, each with how long the new alarm lasted. So they are held while alarms last,
//!   up to [`Alarms::holding`]; beyond that they are given before that is known. Where nobody asks how long
//!   ([`Alarms::without_durations`]), they are given at once.

use super::open_chains::LIMIT;
use super::origins::{Cause, Inputs};
use super::putlog::PutLine;
use super::small_value::SmallValue;
use super::span_ids::Ids;
use crate::room;
use crate::time::SECOND;
use iocrec_log::event::Value;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::num::NonZeroU64;
use std::rc::Rc;
use std::vec;

/// Rises to the same severity within [`FLAP_WINDOW`] that make a record flap, as ISA-18.2 counts chattering alarms.
pub const FLAPS: usize = 3;
/// See [`FLAPS`], in nanoseconds.
pub const FLAP_WINDOW: i64 = 60 * SECOND as i64;
/// Severities, for which rises are counted.
const SEVERITIES: usize = 4;
/// An alarm that was read is known by then to come of processing that had begun before, if it does: no processing that lasts
/// longer than [`LIMIT`] is seen to end.
const READ: i64 = (LIMIT + 5 * SECOND) as i64;
/// Lines held by default.
const HELD: usize = 20_000;

/// Severity and status.
pub type Alarm = (u16, u16);

/// What a line says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// The alarm changed.
    Change,
    /// It changed again and again: a summary.
    Flapping,
    /// It was acknowledged, or whether it has to be was set.
    Acknowledged,
    /// It still lasts at the end.
    Still,
}

impl What {
    /// Its name; part of the output formats.
    pub fn name(self) -> &'static str {
        match self {
            What::Change => "change",
            What::Flapping => "flapping",
            What::Acknowledged => "acknowledged",
            What::Still => "still",
        }
    }
}

/// What the duration of an alarm was ended by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// The record left the alarm.
    Left,
    /// The log ends; the alarm lasts.
    LogEnd,
    /// The IOC ended.
    IocEnd,
    /// Something may have been missed after that time.
    Gap,
    /// The record was disabled, and its alarm with it.
    Disabled,
    /// It was not over when the line was given.
    Later,
}

impl Until {
    /// Its name; part of the output formats.
    pub fn name(self) -> &'static str {
        match self {
            Until::Left => "left",
            Until::LogEnd => "log_end",
            Until::IocEnd => "ioc_end",
            Until::Gap => "gap",
            Until::Disabled => "disabled",
            Until::Later => "later",
        }
    }
}

/// How an alarm is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Source {
    /// The record has processed.
    #[default]
    Process,
    /// The recorder read it; it may have been so earlier.
    Snapshot,
}

impl Source {
    /// `process` or `snapshot`.
    pub fn name(self) -> &'static str {
        match self {
            Source::Process => "process",
            Source::Snapshot => "snapshot",
        }
    }
}

/// A record and where it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Host; empty if unknown.
    pub host: Rc<str>,
    /// IOC; empty if unknown.
    pub ioc: Rc<str>,
    /// Record.
    pub record: Rc<str>,
    /// Number of the process in [`Processes`](crate::answers::processes::Processes), if known.
    pub process: Option<usize>,
}

/// A line about an alarm.
#[derive(Clone, Debug)]
pub struct AlarmLine {
    /// What it says.
    pub what: What,
    /// Wall-clock time, nanoseconds since 1970 UTC; of a summary, that of its first change.
    pub time: i64,
    /// The machine's clock then, ahead of `time`: see [`AlarmLine::shown`].
    pub ahead: i64,
    /// The record.
    pub place: Place,
    /// The alarm before, if known.
    pub from: Option<Alarm>,
    /// The alarm since then; of a summary, the last.
    pub to: Option<Alarm>,
    /// The record's value.
    pub value: Value,
    /// The enum string that it stands for.
    pub text: Option<Box<str>>,
    /// What began the chain of the change.
    pub cause: Option<Rc<Cause>>,
    /// What the inputs tell, if no put began it.
    pub inputs: Vec<Inputs>,
    /// How the new alarm is known.
    pub source: Source,
    /// How long it lasted at least, in nanoseconds; of a summary, from the first change to the last. `None` if it is no
    /// alarm, and if it was not over.
    pub lasted: Option<i64>,
    /// What ended it.
    pub until: Option<Until>,
    /// What may have been missed before, so that the change may have been another or earlier; of an alarm at the end, what
    /// may have been missed since it was last seen.
    pub gap: Option<Rc<str>>,
    /// Why it was not seen for a while, so that it may have been over in between.
    pub unseen: Option<Rc<str>>,
    /// Number of changes of a summary.
    pub changes: u64,
    /// How often it rose to this severity in the last [`FLAP_WINDOW`], this time included, up to [`FLAPS`]; of a
    /// summary, how often the severity rose.
    pub rises: usize,
    /// Whether the record has never processed: its alarm is the one that every record begins with.
    pub unprocessed: bool,
    /// The put of an acknowledgement.
    pub put: Option<Rc<PutLine>>,
    /// The ids of the span in which it changed, or of that put, if they were asked for.
    pub span: Option<Box<Ids>>,
}

/// A state of a record's alarm, as it becomes known.
pub struct State {
    /// Wall-clock time.
    pub time: i64,
    /// The machine's clock then, ahead of `time`: not 0 where it was set back later.
    pub ahead: i64,
    /// Begin of the processing that shows it; `time` if it was read.
    pub begun: i64,
    /// The alarm; `None`: unknown from then on, because the record was disabled.
    pub alarm: Option<Alarm>,
    /// The record's value.
    pub value: Value,
    /// The enum string that it stands for.
    pub text: Option<Box<str>>,
    /// What began the chain.
    pub cause: Option<Rc<Cause>>,
    /// What the inputs tell.
    pub inputs: Vec<Inputs>,
    /// How it is known.
    pub source: Source,
    /// When the alarm before was last seen.
    pub seen: Option<i64>,
    /// What may have been missed since then.
    pub gap: Option<Rc<str>>,
    /// Whether the record has never processed.
    pub unprocessed: bool,
    /// The ids of the span that shows it, if they were asked for.
    pub span: Option<Box<Ids>>,
}

/// The end of what a log tells of a record's alarm.
pub struct Ending {
    /// When.
    pub time: i64,
    /// Why.
    pub until: Until,
    /// What may have been missed after it, for [`Until::Gap`].
    pub gap: Option<Rc<str>>,
}

impl AlarmLine {
    /// With its time as the machine's clock had it, instead of its place in the order of time: that is `ahead` before it
    /// then.
    pub fn shown(self) -> AlarmLine {
        AlarmLine { time: self.time.saturating_add(self.ahead), ..self }
    }
}

/// What is known of a record.
#[derive(Default)]
struct Known {
    alarm: Option<Alarm>,
    unprocessed: bool,
    /// Whether it is in [`Alarms::flapping`].
    is_queued: bool,
    since: i64,
    ahead: i64,
    value: SmallValue,
    text: Option<Box<str>>,
    cause: Option<Rc<Cause>>,
    acknowledged: Option<Rc<PutLine>>,
    /// The serial number of the line of the present alarm.
    line: Serial,
    rises: Rises,
    /// While it flaps: the serial number of the line of the summary, and the time of the last change.
    summary: Serial,
    last_change: i64,
}

// there may be a hundred thousand, in one piece of memory
const _: () = assert!(size_of::<Option<Known>>() <= 128);

impl Known {
    /// While it flaps: the serial number of the line of the summary, and the time of the last change.
    fn flapping(&self) -> Option<(u64, i64)> {
        Some((self.summary.get()?, self.last_change))
    }

    fn flaps(&mut self, summary: u64, last_change: i64) {
        (self.summary, self.last_change) = (Serial::of(summary), last_change);
    }
}

/// The serial number of a line, if there is one.
#[derive(Clone, Copy, Default)]
struct Serial(Option<NonZeroU64>);

impl Serial {
    fn of(serial: u64) -> Serial {
        Serial(NonZeroU64::new(serial.saturating_add(1)))
    }

    fn get(self) -> Option<u64> {
        Some(self.0?.get() - 1)
    }
}

/// Severities and times of the last rises, at most [`FLAPS`] to each severity.
enum Rises {
    /// Those of nearly all records.
    Few { count: u8, severities: [u8; FLAPS], times: [i64; FLAPS] },
    #[allow(clippy::box_collection)] // two words fewer for every record
    More(Box<Vec<(u16, i64)>>),
}

impl Default for Rises {
    fn default() -> Self {
        Rises::Few { count: 0, severities: [0; FLAPS], times: [0; FLAPS] }
    }
}

impl Rises {
    fn all(&self) -> impl Iterator<Item = (u16, i64)> + '_ {
        let (count, severities, times, more) = match self {
            Rises::Few { count, severities, times } => (*count, *severities, *times, [].as_slice()),
            Rises::More(all) => (0, [0; FLAPS], [0; FLAPS], all.as_slice()),
        };
        let few = severities.into_iter().map(u16::from).zip(times).take(usize::from(count));
        few.chain(more.iter().copied())
    }

    /// Those that are given here, in their order. Their severities are below [`SEVERITIES`].
    fn of(mut rises: impl Iterator<Item = (u16, i64)>) -> Rises {
        let (mut count, mut severities, mut times) = (0, [0; FLAPS], [0; FLAPS]);
        for (place, (severity, time)) in rises.by_ref().take(FLAPS).enumerate() {
            let severity = u8::try_from(severity).unwrap_or(u8::MAX);
            if let (Some(of), Some(at)) = (severities.get_mut(place), times.get_mut(place)) {
                (*of, *at) = (severity, time);
                count += 1;
            }
        }
        let few = Rises::Few { count, severities, times };
        match rises.next() {
            Some(more) => Rises::More(Box::new(few.all().chain([more]).chain(rises).collect())),
            None => few,
        }
    }
}

struct Held {
    /// Boxed: a queue passes through all of its room.
    line: Box<AlarmLine>,
    /// Whether nothing more can be learned for it.
    settled: bool,
}

/// An alarm that lasts at the end: its line is made of this and of what is known of its record when it is given, since
/// there may be very many.
struct Still {
    number: usize,
    place: Place,
    lasted: i64,
    until: Until,
    gap: Option<Rc<str>>,
}

/// The alarms of all records.
pub struct Alarms {
    records: Vec<Option<Known>>,
    held: VecDeque<Held>,
    /// What comes after all that is held.
    still: vec::IntoIter<Still>,
    /// Serial number of the first held.
    first: u64,
    most: usize,
    /// Whether changes of records that flap are given one by one.
    all: bool,
    /// Whether it is told how long alarms last.
    durations: bool,
    /// Records whose summary is held, each once, by a time of the last change that may have been followed by others; the
    /// earliest first. Those that are quiet again may be in it, too.
    flapping: BinaryHeap<Reverse<(i64, usize)>>,
}

impl Alarms {
    /// An empty one. `all`: gives all changes, also of records that flap.
    pub fn new(all: bool) -> Self {
        let (records, held, flapping) = (Vec::new(), VecDeque::new(), BinaryHeap::new());
        let still = Vec::new().into_iter();
        Alarms { records, held, still, first: 0, most: HELD, all, durations: true, flapping }
    }

    /// Gives changes without how long alarms lasted and what ended them, as soon as the rest is known.
    pub fn without_durations(self) -> Self {
        Alarms { durations: false, ..self }
    }

    /// Holds at most this many lines.
    pub fn holding(self, most: usize) -> Self {
        Alarms { most, ..self }
    }

    /// Takes the next state of the record with this number, in order of time. `place` tells which one that is.
    pub fn take(&mut self, number: usize, place: impl FnOnce() -> Place, state: State) {
        while self.records.len() <= number {
            room::for_one_more(&mut self.records);
            self.records.push(None);
        }
        let Some(entry) = self.records.get_mut(number) else { return };
        let mut known = entry.take().unwrap_or_default();
        self.step(number, &mut known, place, state);
        if let Some(entry) = self.records.get_mut(number) {
            *entry = Some(known);
        }
    }

    /// The alarm of the record with this number, as far as it is known.
    pub fn alarm(&self, number: usize) -> Option<Alarm> {
        self.records.get(number)?.as_ref()?.alarm
    }

    fn step(&mut self, number: usize, known: &mut Known, place: impl FnOnce() -> Place, state: State) {
        let Some(alarm) = state.alarm else {
            self.leave(known, state.time, Until::Disabled, &state);
            (known.alarm, known.line) = (None, Serial::default());
            return;
        };
        if known.alarm == Some(alarm) {
            // The recorder read the alarm while the record was being processed, which then set it.
            let durations = self.durations;
            if let Some(held) = known.line.get().and_then(|line| self.at(line)) {
                let line = &mut held.line;
                let by_processing = state.source == Source::Process && line.source == Source::Snapshot;
                if by_processing && state.begun <= line.time {
                    (line.source, line.cause, line.gap) = (Source::Process, state.cause.clone(), None);
                    line.inputs = state.inputs;
                    line.span = state.span;
                }
                // a record processes once at a time, so what comes later had not begun
                held.settled |= by_processing && !durations;
            }
            known.unprocessed &= state.unprocessed;
            (known.value, known.text) = (state.value.into(), state.text);
            return;
        }
        let until = if state.gap.is_some() { Until::Gap } else { Until::Left };
        self.leave(known, state.time, until, &state);
        let from = known.alarm;
        // That a record loses the alarm that all begin with is no news.
        let began = known.unprocessed && alarm.0 == 0 && !self.all;
        let is_news = from.is_some() && !began || alarm.0 > 0 && !state.unprocessed;
        let rises = if is_news { rises(known, from, alarm, state.time) } else { 0 };
        known.line = Serial::default();
        if is_news {
            let line = AlarmLine {
                what: What::Change,
                time: state.time,
                ahead: state.ahead,
                place: place(),
                from,
                to: Some(alarm),
                value: state.value.clone(),
                text: state.text.clone(),
                cause: state.cause.clone(),
                inputs: state.inputs,
                source: state.source,
                lasted: None,
                until: None,
                gap: state.gap,
                unseen: None,
                changes: 1,
                rises,
                unprocessed: false,
                put: None,
                span: state.span,
            };
            self.add(number, known, line);
        }
        (known.alarm, known.since, known.acknowledged) = (Some(alarm), state.time, None);
        known.ahead = state.ahead;
        known.unprocessed = state.unprocessed;
        // the cause is asked for at the end, if the alarm still lasts
        known.cause = state.cause.filter(|_| alarm.0 > 0);
        (known.value, known.text) = (state.value.into(), state.text);
    }

    /// Adds a change, to a summary if the record flaps.
    fn add(&mut self, number: usize, known: &mut Known, line: AlarmLine) {
        let time = line.time;
        if !self.all {
            if let Some((summary, last)) = known.flapping() {
                let quiet = time.saturating_sub(last) > FLAP_WINDOW;
                match self.line(summary).filter(|_| !quiet) {
                    Some(whole) => {
                        whole.changes += 1;
                        whole.lasted = Some(time.saturating_sub(whole.time));
                        (whole.to, whole.value, whole.text) = (line.to, line.value, line.text);
                        whole.gap = whole.gap.take().or(line.gap);
                        whole.rises += usize::from(line.rises > 0);
                        known.last_change = time;
                        return;
                    }
                    None => {
                        self.settle(summary);
                        known.summary = Serial::default();
                    }
                }
            }
            if line.rises >= FLAPS {
                let line = AlarmLine { what: What::Flapping, lasted: Some(0), rises: 1, ..line };
                known.flaps(self.hold(line, false), time);
                if !std::mem::replace(&mut known.is_queued, true) {
                    self.flapping.push(Reverse((time, number)));
                }
                return;
            }
        }
        let lasts = line.to.is_some_and(|to| to.0 > 0);
        let is_whole = !lasts || !self.durations && line.source == Source::Process;
        let serial = self.hold(line, is_whole);
        known.line = if lasts { Serial::of(serial) } else { Serial::default() };
    }

    /// The present alarm of a record is over.
    fn leave(&mut self, known: &mut Known, time: i64, until: Until, state: &State) {
        let Some(serial) = known.line.get() else { return };
        known.line = Serial::default();
        let over = match until {
            Until::Gap => state.seen.unwrap_or(time).max(known.since),
            _ => time,
        };
        if let Some(line) = self.line(serial) {
            line.lasted = Some(over.saturating_sub(line.time).max(0));
            line.until = Some(until);
        }
        self.settle(serial);
    }

    /// Takes an acknowledgement, in order of time. `lasts`: whether the record still has the alarm that was seen last.
    pub fn acknowledge(&mut self, number: Option<usize>, place: Place, put: PutLine, lasts: bool) {
        let put = Rc::new(put);
        let known = number.and_then(|number| self.records.get_mut(number)?.as_mut());
        let (mut alarm, mut value, mut text) = (None, Value::Unknown, None);
        if let Some(known) = known {
            if lasts {
                (alarm, value) = (known.alarm, known.value.value());
                text = known.text.clone();
            }
            if put.acknowledges == Some("ACKS") {
                known.acknowledged = Some(Rc::clone(&put));
            }
        }
        let line = AlarmLine {
            what: What::Acknowledged,
            time: put.even,
            ahead: put.time.saturating_sub(put.even),
            place,
            from: alarm,
            to: alarm,
            value,
            text,
            cause: None,
            inputs: Vec::new(),
            source: Source::Process,
            lasted: None,
            until: None,
            gap: None,
            unseen: None,
            changes: 0,
            rises: 0,
            unprocessed: false,
            span: put.span.map(Box::new),
            put: Some(put),
        };
        self.hold(line, true);
    }

    /// Gives the next line, in order of time: if it is settled, or if more are held than allowed.
    pub fn next_line(&mut self, now: i64) -> Option<AlarmLine> {
        let Some(first) = self.held.front() else { return self.next_still() };
        if !first.settled {
            // Who flapped is quiet again.
            let over = |last: i64| now.saturating_sub(last) > FLAP_WINDOW;
            while self.flapping.peek().is_some_and(|Reverse((last, _))| over(*last)) {
                let Some(Reverse((_, number))) = self.flapping.pop() else { break };
                let Some(known) = self.records.get_mut(number).and_then(Option::as_mut) else { continue };
                match known.flapping() {
                    Some((_, last)) if !over(last) => self.flapping.push(Reverse((last, number))),
                    flapping => {
                        (known.summary, known.is_queued) = (Serial::default(), false);
                        flapping.into_iter().for_each(|(summary, _)| self.settle(summary));
                    }
                }
            }
        }
        let first = self.held.front()?;
        let is_old = !self.durations && now.saturating_sub(first.line.time) > READ;
        if !first.settled && !is_old && self.held.len() <= self.most {
            return None;
        }
        self.first += 1;
        let Held { mut line, settled } = self.held.pop_front()?;
        if !settled && line.what == What::Change {
            line.until = Some(Until::Later);
        }
        Some(*line)
    }

    /// Ends the log. `end` gives the last moment of which the log tells something about a record's alarm, `place` which
    /// record a number means. Call [`Alarms::next_line`] for the rest: what is still held, then the alarms that last.
    pub fn finish(&mut self, place: impl Fn(usize) -> Place, end: impl Fn(usize, &Place) -> Ending) {
        let mut still = Vec::new();
        for (number, entry) in self.records.iter_mut().enumerate() {
            let Some(known) = entry.as_ref().filter(|known| known.alarm.is_some_and(|alarm| alarm.0 > 0))
            else {
                *entry = None;
                continue;
            };
            let place = place(number);
            let Ending { time, until, gap } = end(number, &place);
            let lasted = time.saturating_sub(known.since).max(0);
            let line = known.line.get().and_then(|serial| {
                let held = usize::try_from(serial.checked_sub(self.first)?).ok()?;
                self.held.get_mut(held)
            });
            if let Some(held) = line {
                (held.line.lasted, held.line.until) = (Some(lasted), Some(until));
            }
            room::for_one_more(&mut still);
            still.push(Still { number, place, lasted, until, gap });
        }
        self.held.iter_mut().for_each(|held| held.settled = true);
        // The worst first.
        let of = |still: &Still| {
            let known = self.records.get(still.number).and_then(Option::as_ref);
            known.map(|known| (Reverse(known.alarm.map(|alarm| alarm.0)), known.since))
        };
        still.sort_by(|a, b| of(a).cmp(&of(b)).then_with(|| a.place.record.cmp(&b.place.record)));
        self.still = still.into_iter();
    }

    /// The line of the next alarm that lasts at the end.
    fn next_still(&mut self) -> Option<AlarmLine> {
        let Still { number, place, lasted, until, gap } = self.still.next()?;
        let known = self.records.get_mut(number)?.take()?;
        Some(AlarmLine {
            what: What::Still,
            time: known.since,
            ahead: known.ahead,
            place,
            from: None,
            to: known.alarm,
            value: known.value.value(),
            text: known.text,
            cause: known.cause,
            inputs: Vec::new(),
            source: Source::Process,
            lasted: Some(lasted),
            until: Some(until),
            gap,
            unseen: None,
            changes: 0,
            rises: 0,
            unprocessed: known.unprocessed,
            put: known.acknowledged,
            span: None,
        })
    }

    fn hold(&mut self, line: AlarmLine, settled: bool) -> u64 {
        self.held.push_back(Held { line: Box::new(line), settled });
        self.first + self.held.len() as u64 - 1
    }

    fn at(&mut self, serial: u64) -> Option<&mut Held> {
        let place = usize::try_from(serial.checked_sub(self.first)?).ok()?;
        self.held.get_mut(place)
    }

    fn line(&mut self, serial: u64) -> Option<&mut AlarmLine> {
        self.at(serial).map(|held| &mut *held.line)
    }

    fn settle(&mut self, serial: u64) {
        if let Some(held) = self.at(serial) {
            held.settled = true;
        }
    }
}

/// Notes that the alarm rises, if it does. Returns how often it rose to this severity in the time of [`FLAP_WINDOW`].
fn rises(known: &mut Known, from: Option<Alarm>, to: Alarm, time: i64) -> usize {
    if to.0 <= from.map_or(0, |from| from.0) {
        return 0;
    }
    if usize::from(to.0) >= SEVERITIES {
        return 0;
    }
    let recent = || known.rises.all().filter(|(_, rise)| time.saturating_sub(*rise) <= FLAP_WINDOW);
    let count = recent().filter(|(severity, _)| *severity == to.0).count();
    // Enough to know that it flaps.
    let first = recent().position(|(severity, _)| severity == to.0).filter(|_| count >= FLAPS);
    let kept = recent().enumerate().filter(|(place, _)| Some(*place) != first).map(|(_, rise)| rise);
    known.rises = Rises::of(kept.chain([(to.0, time)]));
    (count + 1).min(FLAPS)
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: i64 = SECOND as i64;
    const NONE: Alarm = (0, 0);
    const HIGH: Alarm = (1, 4);
    const HIHI: Alarm = (2, 3);
    const LOLO: Alarm = (2, 5);
    const UDF: Alarm = (3, 17);

    fn state(time: i64, alarm: Alarm) -> State {
        State {
            time,
            ahead: 0,
            begun: time,
            alarm: Some(alarm),
            value: Value::Unknown,
            text: None,
            cause: None,
            inputs: Vec::new(),
            source: Source::Process,
            seen: Some(time - 1),
            gap: None,
            unprocessed: false,
            span: None,
        }
    }

    fn place(record: &str) -> Place {
        Place { record: record.into(), ..Place::default() }
    }

    fn lines(alarms: &mut Alarms, now: i64) -> Vec<String> {
        std::iter::from_fn(|| alarms.next_line(now)).map(|line| sketch(&line)).collect()
    }

    fn sketch(line: &AlarmLine) -> String {
        let name = |alarm: Option<Alarm>| {
            alarm.map_or("?".into(), |(severity, status)| format!("{severity}/{status}"))
        };
        let (what, until) = (line.what.name(), line.until.map_or("-", Until::name));
        let lasted = line.lasted.map_or("-".to_owned(), |lasted| format!("{:.1}", lasted as f64 / S as f64));
        let gap = if line.gap.is_some() { " gap" } else { "" };
        format!(
            "{} {} {what} {}>{} {lasted} {until} x{}{gap}",
            line.time / S,
            line.place.record,
            name(line.from),
            name(line.to),
            line.changes
        )
    }

    fn ending(time: i64, until: Until) -> Ending {
        Ending { time, until, gap: None }
    }

    /// The lines of these states of a record `A`, with the log's end at 100 s.
    fn told(all: bool, states: Vec<State>) -> Vec<String> {
        let mut alarms = Alarms::new(all);
        states.into_iter().for_each(|state| alarms.take(0, || place("A"), state));
        alarms.finish(|_| place("A"), |_, _| ending(100 * S, Until::LogEnd));
        lines(&mut alarms, 100 * S)
    }

    #[test]
    fn an_alarm_lasts_until_the_record_leaves_it() {
        let states = [(1, NONE), (2, HIGH), (3, HIGH), (5, HIHI), (9, LOLO), (10, NONE)];
        let lines = told(false, states.map(|(time, alarm)| state(time * S, alarm)).into());
        let expected = [
            "2 A change 0/0>1/4 3.0 left x1",
            "5 A change 1/4>2/3 4.0 left x1",
            "9 A change 2/3>2/5 1.0 left x1",
            "10 A change 2/5>0/0 - - x1",
        ];
        assert_eq!(lines, expected);
    }

    /// Only what may still turn out to be another cause's is held, and what comes after it.
    #[test]
    fn without_durations_changes_come_at_once() {
        let mut alarms = Alarms::new(true).without_durations();
        alarms.take(0, || place("A"), state(S, NONE));
        alarms.take(0, || place("A"), state(2 * S, HIGH));
        assert_eq!(lines(&mut alarms, 2 * S), ["2 A change 0/0>1/4 - - x1"]);
        // it was read while the record was being processed
        let read = |time| State { source: Source::Snapshot, ..state(time, HIHI) };
        alarms.take(1, || place("B"), read(3 * S));
        alarms.take(0, || place("A"), state(4 * S, NONE));
        assert!(lines(&mut alarms, 4 * S).is_empty());
        alarms.take(1, || place("B"), State { begun: 2 * S, ..state(5 * S, HIHI) });
        let line = alarms.next_line(5 * S).expect("it has processed");
        assert_eq!((line.place.record.as_ref(), line.source), ("B", Source::Process));
        assert_eq!(lines(&mut alarms, 5 * S), ["4 A change 1/4>0/0 - - x1"]);
        // or it was not, as shows in the end
        alarms.take(2, || place("C"), read(6 * S));
        assert!(lines(&mut alarms, 6 * S + READ).is_empty());
        let line = alarms.next_line(6 * S + READ + 1).expect("nothing changes it");
        assert_eq!((line.place.record.as_ref(), line.source), ("C", Source::Snapshot));
    }

    #[test]
    fn what_was_before_the_first_sight_is_not_known() {
        assert!(told(false, vec![state(S, NONE)]).is_empty(), "no alarm at first sight is no news");
        let lines = told(false, vec![state(S, HIHI)]);
        assert_eq!(lines, ["1 A change ?>2/3 99.0 log_end x1", "1 A still ?>2/3 99.0 log_end x0"]);
        let mut alarms = Alarms::new(false);
        alarms.take(0, || place("A"), state(S, HIHI));
        alarms.finish(|_| place("A"), |_, _| ending(4 * S, Until::IocEnd));
        assert_eq!(
            lines_of(alarms),
            ["1 A change ?>2/3 3.0 ioc_end x1", "1 A still ?>2/3 3.0 ioc_end x0"],
            "it did not last longer than its IOC"
        );
    }

    fn lines_of(mut alarms: Alarms) -> Vec<String> {
        lines(&mut alarms, 0)
    }

    #[test]
    fn a_gap_cuts_an_alarm_and_marks_the_change_after_it() {
        let gap = Some("17 hits lost".into());
        let seen = Some(5 * S);
        let after = State { gap, seen, ..state(60 * S, NONE) };
        let lines = told(false, vec![state(S, NONE), state(2 * S, HIGH), after]);
        assert_eq!(lines, ["2 A change 0/0>1/4 3.0 gap x1", "60 A change 1/4>0/0 - - x1 gap"]);
    }

    #[test]
    fn a_disabled_record_has_an_unknown_alarm() {
        let disabled = State { alarm: None, ..state(4 * S, NONE) };
        let lines = told(false, vec![state(S, NONE), state(2 * S, HIGH), disabled, state(6 * S, HIGH)]);
        assert_eq!(
            lines,
            [
                "2 A change 0/0>1/4 2.0 disabled x1",
                "6 A change ?>1/4 94.0 log_end x1",
                "6 A still ?>1/4 94.0 log_end x0"
            ]
        );
    }

    #[test]
    fn a_record_that_flaps_is_summed_up() {
        let mut states = vec![state(0, NONE)];
        for n in 0..10 {
            states.push(state((1 + 2 * n) * S, HIHI));
            states.push(state((2 + 2 * n) * S, NONE));
        }
        // It has been quiet for longer than a minute.
        states.push(state(90 * S, HIHI));
        states.push(state(91 * S, NONE));
        let each = |states: &[State]| -> Vec<State> {
            states.iter().map(|s| state(s.time, s.alarm.unwrap())).collect()
        };
        let lines = told(false, each(&states));
        assert_eq!(lines.len(), 7, "{lines:?}");
        assert_eq!(lines[3], "4 A change 2/3>0/0 - - x1");
        assert_eq!(lines[4], "5 A flapping 0/0>0/0 15.0 - x16", "from the third rise on");
        assert_eq!(lines[5], "90 A change 0/0>2/3 1.0 left x1");
        assert_eq!(told(true, states).len(), 22, "all if all are wanted");
    }

    /// Two alarms, each with a worse one on top, are no flapping.
    #[test]
    fn rises_count_by_severity() {
        let states = [(0, NONE), (1, HIGH), (2, HIHI), (3, NONE), (4, HIGH), (5, LOLO), (6, NONE)];
        let lines = told(false, states.map(|(time, alarm)| state(time * S, alarm)).into());
        assert!(lines.len() == 6 && lines.iter().all(|line| line.contains(" change ")), "{lines:?}");
    }

    #[test]
    fn what_the_recorder_reads_shows_an_alarm_but_no_cause() {
        let read = |time, alarm| State { source: Source::Snapshot, ..state(time, alarm) };
        let lines = told(false, vec![read(S, HIHI), state(3 * S, NONE)]);
        assert_eq!(lines, ["1 A change ?>2/3 2.0 left x1", "3 A change 2/3>0/0 - - x1"]);
        // The record was processing when it was read: its processing is the cause.
        let mut alarms = Alarms::new(false);
        let cause: Rc<Cause> = Rc::new(Cause { text: "scan".into(), ..Cause::default() });
        alarms.take(0, || place("A"), state(S, NONE));
        alarms.take(0, || place("A"), read(2 * S, HIHI));
        let by = State { begun: 2 * S - 5, cause: Some(cause), ..state(2 * S + 5, HIHI) };
        alarms.take(0, || place("A"), by);
        alarms.finish(|_| place("A"), |_, _| ending(3 * S, Until::LogEnd));
        let line = alarms.next_line(0).unwrap();
        assert_eq!(
            (line.source, line.cause.as_ref().map(|cause| cause.text.text())),
            (Source::Process, Some("scan".into()))
        );
    }

    /// Every record has the alarm UDF until it processes for the first time.
    #[test]
    fn the_first_alarm_of_all_records_is_no_news() {
        let read = |time, alarm| State { source: Source::Snapshot, unprocessed: true, ..state(time, alarm) };
        assert!(told(false, vec![read(S, UDF), state(2 * S, NONE)]).is_empty());
        assert_eq!(told(true, vec![read(S, UDF), state(2 * S, NONE)]), ["2 A change 3/17>0/0 - - x1"]);
        assert_eq!(
            told(false, vec![read(S, UDF), state(2 * S, HIHI)])[0],
            "2 A change 3/17>2/3 98.0 log_end x1"
        );
        let mut alarms = Alarms::new(false);
        alarms.take(0, || place("A"), read(S, UDF));
        alarms.finish(|_| place("A"), |_, _| ending(2 * S, Until::LogEnd));
        let line = alarms.next_line(0).unwrap();
        assert!(line.unprocessed && line.what == What::Still);
    }

    #[test]
    fn no_more_is_held_than_allowed() {
        let mut alarms = Alarms::new(false).holding(3);
        let mut given = Vec::new();
        for n in 0..10_usize {
            let name = format!("R{n}");
            let at = n as i64 * S;
            alarms.take(n, || place(&name), state(at, HIHI));
            given.extend(lines(&mut alarms, at));
            assert!(alarms.held.len() <= 3);
        }
        assert_eq!(given.len(), 7);
        assert_eq!(given[0], "0 R0 change ?>2/3 - later x1", "how long it lasts is not known yet");
        // What left is found, what was given is not touched.
        alarms.take(0, || place("R0"), state(11 * S, NONE));
        alarms.finish(|_| place("A"), |_, _| ending(12 * S, Until::LogEnd));
        let rest = lines(&mut alarms, 12 * S);
        assert!(rest.contains(&"11 R0 change 2/3>0/0 - - x1".to_owned()), "{rest:?}");
        assert_eq!(rest.iter().filter(|line| line.contains(" still ")).count(), 9);
    }
}
