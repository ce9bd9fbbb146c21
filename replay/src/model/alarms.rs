//! Alarms over time: a fold that takes the alarm states of records in order of time, and gives their changes.
//!
//! - The alarm of a record is known when it has processed, and when the recorder has read it. Between, it stays as it
//!   is, for all that EPICS Base does; if something may have been missed in between, the next change says so.
//! - A record flaps from the third time within [`FLAP_WINDOW`] on that its alarm rises to the same severity, until its
//!   alarm stays as it is for that long. While it flaps, its changes are counted instead of given, unless all are
//!   wanted.
//! - Changes are given in order of time, each with how long the new alarm lasted. So they are held while alarms last,
//!   up to [`Alarms::holding`]; beyond that they are given before that is known.

use super::origins::Cause;
use super::putlog::PutLine;
use crate::time::SECOND;
use iocrec_log::event::Value;
use std::collections::VecDeque;
use std::rc::Rc;

/// Rises to the same severity within [`FLAP_WINDOW`] that make a record flap, as ISA-18.2 counts chattering alarms.
pub const FLAPS: usize = 3;
/// See [`FLAPS`], in nanoseconds.
pub const FLAP_WINDOW: i64 = 60 * SECOND as i64;
/// Severities, for which rises are counted.
const SEVERITIES: usize = 4;
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The record has processed.
    Process,
    /// The recorder read it; it may have been so earlier.
    Snapshot,
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
    /// Number of the process in [`Processes`](crate::processes::Processes), if known.
    pub process: Option<usize>,
}

/// A line about an alarm.
#[derive(Clone, Debug)]
pub struct AlarmLine {
    /// What it says.
    pub what: What,
    /// Wall-clock time, nanoseconds since 1970 UTC; of a summary, that of its first change.
    pub time: i64,
    /// The record.
    pub place: Place,
    /// The alarm before, if known.
    pub from: Option<Alarm>,
    /// The alarm since then; of a summary, the last.
    pub to: Option<Alarm>,
    /// The record's value.
    pub value: Value,
    /// The enum string that it stands for.
    pub text: Option<String>,
    /// What began the chain of the change.
    pub cause: Option<Rc<Cause>>,
    /// How the new alarm is known.
    pub source: Source,
    /// How long it lasted at least, in nanoseconds; of a summary, from the first change to the last. `None` if it is no
    /// alarm, and if it was not over.
    pub lasted: Option<i64>,
    /// What ended it.
    pub until: Option<Until>,
    /// What may have been missed before, so that the change may have been another or earlier.
    pub gap: Option<Rc<str>>,
    /// Number of changes of a summary.
    pub changes: u64,
    /// How often it rose to this severity in the last [`FLAP_WINDOW`], this time included, up to [`FLAPS`]; of a
    /// summary, how often the severity rose.
    pub rises: usize,
    /// Whether the record has never processed: its alarm is the one that every record begins with.
    pub unprocessed: bool,
    /// The put of an acknowledgement.
    pub put: Option<Rc<PutLine>>,
}

/// A state of a record's alarm, as it becomes known.
pub struct State {
    /// Wall-clock time.
    pub time: i64,
    /// Begin of the processing that shows it; `time` if it was read.
    pub begun: i64,
    /// The alarm; `None`: unknown from then on, because the record was disabled.
    pub alarm: Option<Alarm>,
    /// The record's value.
    pub value: Value,
    /// The enum string that it stands for.
    pub text: Option<String>,
    /// What began the chain.
    pub cause: Option<Rc<Cause>>,
    /// How it is known.
    pub source: Source,
    /// When the alarm before was last seen.
    pub seen: Option<i64>,
    /// What may have been missed since then.
    pub gap: Option<Rc<str>>,
    /// Whether the record has never processed.
    pub unprocessed: bool,
}

/// What is known of a record.
struct Known {
    place: Place,
    alarm: Option<Alarm>,
    since: i64,
    value: Value,
    text: Option<String>,
    cause: Option<Rc<Cause>>,
    acknowledged: Option<Rc<PutLine>>,
    unprocessed: bool,
    /// The serial number of the line of the present alarm.
    line: Option<u64>,
    /// Times of the last rises to each severity.
    rises: Option<Box<[VecDeque<i64>; SEVERITIES]>>,
    /// While it flaps: the line of the summary, and the time of the last change.
    flapping: Option<(u64, i64)>,
}

impl Known {
    fn new(place: Place) -> Self {
        Known {
            place,
            alarm: None,
            since: 0,
            value: Value::Unknown,
            text: None,
            cause: None,
            acknowledged: None,
            unprocessed: false,
            line: None,
            rises: None,
            flapping: None,
        }
    }
}

struct Held {
    line: AlarmLine,
    /// Whether nothing more can be learned for it.
    settled: bool,
}

/// The alarms of all records.
pub struct Alarms {
    records: Vec<Option<Box<Known>>>,
    held: VecDeque<Held>,
    /// Serial number of the first held.
    first: u64,
    most: usize,
    /// Whether changes of records that flap are given one by one.
    all: bool,
    /// Records whose summary is held.
    flapping: Vec<usize>,
}

impl Alarms {
    /// An empty one. `all`: gives all changes, also of records that flap.
    pub fn new(all: bool) -> Self {
        let (records, held, flapping) = (Vec::new(), VecDeque::new(), Vec::new());
        Alarms { records, held, first: 0, most: HELD, all, flapping }
    }

    /// Holds at most this many lines.
    pub fn holding(self, most: usize) -> Self {
        Alarms { most, ..self }
    }

    /// Takes the next state of the record with this number, in order of time. `place` is asked for once.
    pub fn take(&mut self, number: usize, place: impl FnOnce() -> Place, state: State) {
        if self.records.len() <= number {
            self.records.resize_with(number + 1, || None);
        }
        let Some(entry) = self.records.get_mut(number) else { return };
        let mut known = match entry.take() {
            Some(known) => known,
            None => Box::new(Known::new(place())),
        };
        self.step(number, &mut known, state);
        if let Some(entry) = self.records.get_mut(number) {
            *entry = Some(known);
        }
    }

    fn step(&mut self, number: usize, known: &mut Known, state: State) {
        let Some(alarm) = state.alarm else {
            self.leave(known, state.time, Until::Disabled, &state);
            (known.alarm, known.line) = (None, None);
            return;
        };
        if known.alarm == Some(alarm) {
            // The recorder read the alarm while the record was being processed, which then set it.
            if let Some(line) = known.line.and_then(|line| self.line(line)) {
                let by_processing = state.source == Source::Process && line.source == Source::Snapshot;
                if by_processing && state.begun <= line.time {
                    (line.source, line.cause, line.gap) = (Source::Process, state.cause.clone(), None);
                }
            }
            known.unprocessed &= state.unprocessed;
            (known.value, known.text) = (state.value, state.text);
            return;
        }
        let until = if state.gap.is_some() { Until::Gap } else { Until::Left };
        self.leave(known, state.time, until, &state);
        let from = known.alarm;
        // That a record loses the alarm that all begin with is no news.
        let began = known.unprocessed && alarm.0 == 0 && !self.all;
        let is_news = from.is_some() && !began || alarm.0 > 0 && !state.unprocessed;
        let rises = if is_news { rises(known, from, alarm, state.time) } else { 0 };
        known.line = None;
        if is_news {
            let line = AlarmLine {
                what: What::Change,
                time: state.time,
                place: known.place.clone(),
                from,
                to: Some(alarm),
                value: state.value.clone(),
                text: state.text.clone(),
                cause: state.cause.clone(),
                source: state.source,
                lasted: None,
                until: None,
                gap: state.gap,
                changes: 1,
                rises,
                unprocessed: false,
                put: None,
            };
            self.add(number, known, line);
        }
        (known.alarm, known.since, known.acknowledged) = (Some(alarm), state.time, None);
        known.unprocessed = state.unprocessed;
        (known.value, known.text, known.cause) = (state.value, state.text, state.cause);
    }

    /// Adds a change, to a summary if the record flaps.
    fn add(&mut self, number: usize, known: &mut Known, line: AlarmLine) {
        let time = line.time;
        if !self.all {
            if let Some((summary, last)) = known.flapping {
                let quiet = time.saturating_sub(last) > FLAP_WINDOW;
                match self.line(summary).filter(|_| !quiet) {
                    Some(whole) => {
                        whole.changes += 1;
                        whole.lasted = Some(time.saturating_sub(whole.time));
                        (whole.to, whole.value, whole.text) = (line.to, line.value, line.text);
                        whole.gap = whole.gap.take().or(line.gap);
                        whole.rises += usize::from(line.rises > 0);
                        known.flapping = Some((summary, time));
                        return;
                    }
                    None => {
                        self.settle(summary);
                        known.flapping = None;
                        self.flapping.retain(|flaps| *flaps != number);
                    }
                }
            }
            if line.rises >= FLAPS {
                let line = AlarmLine { what: What::Flapping, lasted: Some(0), rises: 1, ..line };
                known.flapping = Some((self.hold(line, false), time));
                self.flapping.push(number);
                return;
            }
        }
        let lasts = line.to.is_some_and(|to| to.0 > 0);
        let serial = self.hold(line, !lasts);
        known.line = Some(serial).filter(|_| lasts);
    }

    /// The present alarm of a record is over.
    fn leave(&mut self, known: &mut Known, time: i64, until: Until, state: &State) {
        let Some(serial) = known.line.take() else { return };
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

    /// Takes an acknowledgement, in order of time.
    pub fn acknowledge(&mut self, number: Option<usize>, place: Place, put: PutLine) {
        let put = Rc::new(put);
        let known = number.and_then(|number| self.records.get_mut(number)?.as_mut());
        let (mut alarm, mut value, mut text) = (None, Value::Unknown, None);
        if let Some(known) = known {
            (alarm, value, text) = (known.alarm, known.value.clone(), known.text.clone());
            if put.acknowledges == Some("ACKS") {
                known.acknowledged = Some(Rc::clone(&put));
            }
        }
        let line = AlarmLine {
            what: What::Acknowledged,
            time: put.time,
            place,
            from: alarm,
            to: alarm,
            value,
            text,
            cause: None,
            source: Source::Process,
            lasted: None,
            until: None,
            gap: None,
            changes: 0,
            rises: 0,
            unprocessed: false,
            put: Some(put),
        };
        self.hold(line, true);
    }

    /// Gives the next line, in order of time: if it is settled, or if more are held than allowed.
    pub fn next_line(&mut self, now: i64) -> Option<AlarmLine> {
        let first = self.held.front()?;
        if !first.settled {
            // Who flapped is quiet again.
            let over = |known: &Known| match known.flapping {
                Some((_, last)) => now.saturating_sub(last) > FLAP_WINDOW,
                None => false,
            };
            let records = &mut self.records;
            let mut quiet = Vec::new();
            self.flapping.retain(|number| {
                let Some(Some(known)) = records.get_mut(*number) else { return false };
                let over = over(known);
                quiet.extend(known.flapping.take_if(|_| over));
                !over
            });
            quiet.into_iter().for_each(|(summary, _)| self.settle(summary));
        }
        let first = self.held.front()?;
        if !first.settled && self.held.len() <= self.most {
            return None;
        }
        self.first += 1;
        let Held { mut line, settled } = self.held.pop_front()?;
        if !settled && line.what == What::Change {
            line.until = Some(Until::Later);
        }
        Some(line)
    }

    /// Ends the log. `end` gives the last moment of which the log tells something about a process, and whether the
    /// process ended then. Call [`Alarms::next_line`] for the rest: what is still held, then the alarms that last.
    pub fn finish(&mut self, end: impl Fn(&Place) -> (i64, bool)) {
        let mut still = Vec::new();
        for known in self.records.iter_mut().flatten() {
            let Some(alarm) = known.alarm.filter(|alarm| alarm.0 > 0) else { continue };
            let (time, ended) = end(&known.place);
            let lasted = Some(time.saturating_sub(known.since).max(0));
            let until = Some(if ended { Until::IocEnd } else { Until::LogEnd });
            let line = known.line.and_then(|serial| {
                let place = usize::try_from(serial.checked_sub(self.first)?).ok()?;
                self.held.get_mut(place)
            });
            if let Some(held) = line {
                (held.line.lasted, held.line.until) = (lasted, until);
            }
            still.push(AlarmLine {
                what: What::Still,
                time: known.since,
                place: known.place.clone(),
                from: None,
                to: Some(alarm),
                value: known.value.clone(),
                text: known.text.take(),
                cause: known.cause.take(),
                source: Source::Process,
                lasted,
                until,
                gap: None,
                changes: 0,
                rises: 0,
                unprocessed: known.unprocessed,
                put: known.acknowledged.take(),
            });
        }
        self.held.iter_mut().for_each(|held| held.settled = true);
        // The worst first.
        still.sort_by_key(|line| {
            (std::cmp::Reverse(line.to.map(|to| to.0)), line.time, Rc::clone(&line.place.record))
        });
        self.held.extend(still.into_iter().map(|line| Held { line, settled: true }));
    }

    fn hold(&mut self, line: AlarmLine, settled: bool) -> u64 {
        self.held.push_back(Held { line, settled });
        self.first + self.held.len() as u64 - 1
    }

    fn at(&mut self, serial: u64) -> Option<&mut Held> {
        let place = usize::try_from(serial.checked_sub(self.first)?).ok()?;
        self.held.get_mut(place)
    }

    fn line(&mut self, serial: u64) -> Option<&mut AlarmLine> {
        self.at(serial).map(|held| &mut held.line)
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
    let Some(times) = known.rises.get_or_insert_default().get_mut(usize::from(to.0)) else { return 0 };
    while times.front().is_some_and(|first| time.saturating_sub(*first) > FLAP_WINDOW) {
        times.pop_front();
    }
    // Enough to know that it flaps.
    if times.len() >= FLAPS {
        times.pop_front();
    }
    times.push_back(time);
    times.len()
}
