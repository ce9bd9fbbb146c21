//! Values of PVs, one moment at a time.
//!
//! Chains come in the order in which they began; their values are later than that, so they wait until no earlier value
//! can come. Snapshots and what went unseen are put between them by their time.

use crate::answers::between::why;
use crate::answers::waiting::Waiting;
use crate::filter::Filter;
use crate::logs::Logs;
use crate::model::base_types::{always_forwards, collects, MAX_LOCK};
use crate::model::chain::{Chain, Outcome, ProcessSpan, SpanKind};
use crate::model::history::{each_value, root_record, Origin, ValueLine, ValueSource, Way};
use crate::model::names::{address, IocProcess, Named, Names};
use crate::model::notes::{Moment, Note, What};
use crate::model::numbered::Keyed;
use crate::model::order::OWN_SKEW;
use crate::model::quiet::Span;
use crate::model::replay::{Replay, Step};
use crate::model::run::Run;
use crate::model::selection::Interest;
use crate::model::source::Source;
use crate::model::unseen::{Kind, Unseen};
use crate::model::value::agrees;
use crate::pattern::Pattern;
use crate::recent::NOTED;
use crate::shown_names::may_follow;
use iocrec_log::context::Context;
use iocrec_log::event::{Ioc, IocId, RecordId, Value};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::rc::Rc;

impl Logs {
    /// The values that match, in order of time.
    ///
    /// ```
    /// # let log = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/travelled/x86_64-6.1/log");
    /// use iocreplay::{Filter, Logs};
    ///
    /// let filter = Filter { pv: vec!["GUEST:R0".into()], ..Filter::default() };
    /// let logs = Logs::open([log])?;
    /// let last = logs.values(&filter).last();
    /// assert!(last.is_some_and(|line| line.pv() == "GUEST:R0"));
    /// # Ok::<(), iocreplay::OpenError>(())
    /// ```
    pub fn values<'a>(&self, filter: &'a Filter) -> Values<'a> {
        Values::new(self.history(filter), filter)
    }

    /// Everything that the logs show of the values that match, in order of time: repeated ones, too, and whatever went
    /// unseen, even if that was noted a while after the filter's end.
    pub fn history<'a>(&self, filter: &'a Filter) -> History<'a> {
        let until = filter.until.map_or(i64::MAX, |until| until.saturating_add(NOTED));
        let mut sources = self.sources(filter.since, filter.until);
        if let Some(names) = filter.only_records().filter(|_| self.uses_index()) {
            let interest = Interest::Records(names);
            sources = sources.into_iter().map(|source| source.asked_for(interest.clone())).collect();
        }
        History::new(Replay::new(sources, self.until(until), self.notices()), filter)
    }

    /// The same, and all chains in the filter's time range for `tap`, which sees each before its values come.
    pub fn history_with<'a>(&self, filter: &'a Filter, tap: Tap<'a>) -> History<'a> {
        let until = filter.until.map_or(i64::MAX, |until| until.saturating_add(NOTED));
        let replay = Replay::new(self.sources(filter.since, filter.until), self.until(until), self.notices());
        History::new(replay, filter).with_tap(tap)
    }

    /// The same of these records alone, which are the filter's.
    pub fn history_of<'a>(&self, filter: &'a Filter, records: Vec<String>) -> History<'a> {
        let until = filter.until.map_or(i64::MAX, |until| until.saturating_add(NOTED));
        let interest = Interest::Records(records);
        let sources = self.sources(filter.since, filter.until).into_iter();
        let sources = sources.map(|source| source.asked_for(interest.clone())).collect();
        History::new(Replay::new(sources, self.until(until), self.notices()), filter)
    }

    /// The same without the hits in spans of each run. Also the numbers of the runs in what went unseen.
    pub fn history_without<'a>(
        &self,
        filter: &'a Filter,
        spans: Vec<Vec<Span>>,
    ) -> (History<'a>, Vec<usize>) {
        let until = filter.until.map_or(i64::MAX, |until| until.saturating_add(NOTED));
        let sources = self.sources(filter.since, filter.until).into_iter().zip(spans);
        let sources: Vec<Source> = sources
            .map(|(source, spans)| match spans.as_slice() {
                [] => source,
                _ => source.without_hits(spans),
            })
            .collect();
        let runs = sources.iter().map(|source| address(&source.run)).collect();
        (History::new(Replay::new(sources, self.until(until), self.notices()), filter), runs)
    }
}

/// Fields whose last value is remembered; a bound for hostile logs.
const MAX_FIELDS: usize = 500_000;
/// Values that wait for an earlier one; likewise.
const MAX_WAITING: usize = 500_000;
/// Records looked at for what recorders leave out, and processes for those that others followed; likewise. Beyond that, a recorder may
/// leave out what another one records.
const MAX_LOOKED: usize = 50_000_000;
/// Runs that have recorded a process before nobody did; likewise.
const MAX_BY: usize = 16;
/// Room for values of a chain that is kept for the next.
const KEPT: usize = 64;

/// Start times of processes are known in hundredths of a second, and wall clocks are set.
pub(crate) const CLOCK_STEP: i64 = 1_000_000_000;
/// Why nothing is known of a process between two recorders. The later one may have run for long before it came to it.
const NOT_ATTACHED: &str = "no recorder in the logs was attached to it";
/// The same where one was that does not record all of its records (`--only`, `--exclude`).
const LEFT_OUT: &str = "the recorder that was attached to it leaves out records";
/// How an IOC ended that ran in another process when the recorder came again.
pub(crate) const RESTARTED: &str = "restarted unseen";

/// An entry of the history.
#[derive(Clone)]
pub enum Entry {
    /// A value, or something that went unseen ([`ValueLine::unseen`]).
    Value(Box<ValueLine>),
    /// The log names this process as an IOC. Not repeated as long as it is recorded.
    Process {
        /// When: its place in the order of time.
        time: i64,
        /// The process.
        process: Rc<IocProcess>,
        /// The run that records it.
        run: Rc<Run>,
        /// Its number there.
        ioc: IocId,
    },
    /// The processing of its records is recorded from about then on.
    Attached {
        /// When that was noted: its place in the order of time.
        time: i64,
        /// The process.
        process: Rc<IocProcess>,
        /// The run that records it: a number for comparison.
        run: usize,
    },
    /// A record had to process and did not, since it was disabled: it may have a DISABLE alarm, which no hit shows.
    Disabled {
        /// When: its place in the order of time.
        time: i64,
        /// The process.
        process: Rc<IocProcess>,
        /// The record.
        record: Rc<str>,
    },
    /// A record that was active had to process so often that dbProcess gave it the alarm SCAN, unless it was INVALID: no hit shows
    /// that.
    Busy {
        /// When: its place in the order of time.
        time: i64,
        /// The process.
        process: Rc<IocProcess>,
        /// The record.
        record: Rc<str>,
    },
    /// A record began to process, and its value may have changed at any time from then on.
    Begun {
        /// When: its place in the order of time.
        time: i64,
        /// When it had completed, or was known to be done; `None` if the log does not show that.
        until: Option<i64>,
        /// Whether it was seen to complete, which shows its value.
        completed: bool,
        /// The same as wall-clock time.
        wall: i64,
        /// When the chain began, by the run's clock.
        chain: u64,
        /// The process.
        process: Rc<IocProcess>,
        /// The record.
        record: Rc<str>,
    },
}

impl Entry {
    /// Its place in the order of time; of something unseen, since when: it may have begun long before it was noted.
    pub fn time(&self) -> i64 {
        match self {
            Entry::Process { time, .. }
            | Entry::Attached { time, .. }
            | Entry::Disabled { time, .. }
            | Entry::Busy { time, .. }
            | Entry::Begun { time, .. } => *time,
            Entry::Value(line) => line.unseen.as_ref().map_or(line.even, |unseen| unseen.even.0),
        }
    }
}

/// Everything that a log shows of values, in order of time: also repeated values, and what went unseen in any IOC.
pub struct History<'a> {
    replay: Replay,
    filter: &'a Filter,
    /// The next chain to take values from.
    chain: Option<Chain>,
    /// Place in the order of time before which nothing more comes.
    settled: i64,
    ended: bool,
    waiting: Waiting<Entry>,
    count: u64,
    names: Names,
    /// The values of a chain: empty between chains, and kept, since there are millions.
    found: Vec<(ValueLine, Way)>,
    /// The processes that a run has ceased to record.
    left: HashMap<Rc<IocProcess>, Left>,
    /// IOCs recorded in each run.
    recorded: HashMap<usize, BTreeSet<Rc<IocProcess>>>,
    /// The runs that are attached to each process and record its processing.
    attached: HashMap<Rc<IocProcess>, Vec<Recorder>>,
    /// See [`MAX_LOOKED`].
    looked: usize,
    /// How often records of runs had to process since they began to and were active.
    busy: HashMap<(usize, RecordId), u8>,
    /// Is shown each chain.
    tap: Option<Tap<'a>>,
}

/// A run that is attached to a process.
#[derive(Clone)]
struct Recorder {
    run: Rc<Run>,
    /// The number of the process there.
    ioc: IocId,
    /// Since when, a place in the order of time.
    since: i64,
}

impl Recorder {
    /// Whether it was told not to record processing.
    fn leaves_out_processing(&self) -> bool {
        self.run.context().ioc(self.ioc).is_some_and(Ioc::leaves_out_processing)
    }

    /// Whether its records are known.
    fn has_records(&self) -> bool {
        self.run.context().records().any(|record| record.ioc == self.ioc)
    }
}

/// A process that a run records no more.
struct Left {
    /// Since when nobody records it, or some of its records.
    time: Moment,
    /// When it was last known.
    last: Moment,
    /// The run; held, so that no other has its number.
    run: Rc<Run>,
    /// Whether it was attached, and recorded processing.
    recorded: bool,
    /// The runs that did since somebody else recorded all of it.
    by: Vec<Recorder>,
    /// The runs that go on, and leave out records that were recorded; empty if none goes on.
    beside: Vec<usize>,
}

impl Left {
    /// Whether another run goes on that leaves out records.
    fn goes_on(&self) -> bool {
        !self.beside.is_empty()
    }
}

/// What is shown each chain from which values are taken.
pub type Tap<'a> = Box<dyn FnMut(&Chain) + 'a>;

impl<'a> History<'a> {
    pub(crate) fn new(replay: Replay, filter: &'a Filter) -> Self {
        History {
            replay: replay.with_notes(),
            filter,
            chain: None,
            settled: i64::MIN,
            ended: false,
            waiting: Waiting::default(),
            count: 0,
            names: Names::default(),
            found: Vec::new(),
            left: HashMap::new(),
            recorded: HashMap::new(),
            attached: HashMap::new(),
            looked: 0,
            busy: HashMap::new(),
            tap: None,
        }
    }

    /// Shows `tap` each chain, in the order in which they began, before its values come.
    pub fn with_tap(mut self, tap: Tap<'a>) -> Self {
        self.tap = Some(tap);
        self
    }

    fn wait(&mut self, time: i64, entry: Entry) {
        self.count += 1;
        self.waiting.insert((time, self.count), entry);
    }

    /// Takes the values of a chain.
    fn take(&mut self, chain: Chain) {
        if let Some(tap) = &mut self.tap {
            tap(&chain);
        }
        self.take_unfinished(&chain);
        let mut found = std::mem::take(&mut self.found);
        each_value(&chain, self.filter, &mut self.names, &mut |line, path| found.push((line, path.into())));
        if !found.is_empty() {
            let root = root_record(&chain, &mut self.names);
            let chain = Rc::new(chain);
            for (line, path) in found.drain(..) {
                let by_chain = line.source != ValueSource::Found;
                let origin = by_chain.then(|| Origin { chain: Rc::clone(&chain), path });
                let root = root.clone().filter(|_| by_chain);
                self.wait(line.even, Entry::Value(Box::new(ValueLine { origin, root, ..line })));
            }
            found.shrink_to(KEPT);
        }
        self.found = found;
    }

    /// Takes the records of a chain that were disabled, as far as is known: those that were not seen to complete may have been.
    /// And those whose values may have changed before the log shows them again: that were not seen to complete, or took
    /// their time.
    fn take_unfinished(&mut self, chain: &Chain) {
        let context = chain.run.context();
        for span in &chain.spans {
            let process = match &span.kind {
                SpanKind::Process(process) => process,
                SpanKind::Link(link) => {
                    if let Some(target) = &link.target {
                        self.take_unfinished(target);
                    }
                    continue;
                }
                SpanKind::Put(_) => continue,
            };
            if self.is_busy(&chain.run, process) {
                let named =
                    self.names.field(&chain.run, &context, process.record, "VAL", || None, self.filter);
                if let Some(Named { process, record, .. }) = named {
                    let time = chain.run.even(span.start);
                    self.wait(time, Entry::Busy { time, process, record });
                }
            }
            let may_be_disabled =
                matches!(process.outcome, Outcome::Disabled | Outcome::Skipped | Outcome::Open);
            let time = chain.run.even(span.start);
            let until = match &process.outcome {
                Outcome::Completed(_) => (!process.phases.is_empty()).then(|| Some(chain.run.even(span.end))),
                Outcome::Waiting => Some(None),
                // One of Base's that neither waits nor completes was disabled; if it was not, the probe can't see it complete.
                Outcome::Open | Outcome::Skipped if is_of_base(&context, process.record) => {
                    let is_over = process.is_over && !collects(&context, process);
                    is_over.then_some(Some(time.saturating_add(1)))
                }
                Outcome::Open | Outcome::Entered { .. } => Some(Some(time.saturating_add(1))),
                _ => None,
            };
            if !may_be_disabled && until.is_none() {
                continue;
            }
            let named = self.names.field(&chain.run, &context, process.record, "VAL", || None, self.filter);
            let Some(Named { process: of, record, .. }) = named else { continue };
            if may_be_disabled {
                let (process, record) = (Rc::clone(&of), Rc::clone(&record));
                self.wait(time, Entry::Disabled { time, process, record });
            }
            if let Some(until) = until {
                let completed = matches!(process.outcome, Outcome::Completed(_));
                let (wall, chain) = (chain.run.wall(span.start), chain.root().map_or(0, |root| root.start));
                self.wait(time, Entry::Begun { time, until, completed, wall, chain, process: of, record });
            }
        }
    }

    /// Whether a record that had to process was active once too often. Counts that.
    fn is_busy(&mut self, run: &Rc<Run>, process: &ProcessSpan) -> bool {
        let number = (address(run), process.record);
        if !matches!(process.outcome, Outcome::Active) {
            if !self.busy.is_empty() {
                self.busy.remove(&number);
            }
            return false;
        }
        if self.busy.len() >= MAX_FIELDS && !self.busy.contains_key(&number) {
            return false;
        }
        let calls = self.busy.entry(number).or_default();
        *calls = calls.saturating_add(1);
        *calls == MAX_LOCK + 1
    }

    /// Takes a note.
    fn note(&mut self, note: Note) {
        let Note { time, run, what } = note;
        let number = address(&run);
        let even = time.even;
        let unseen = |kind, since: Moment, process| Unseen {
            time: time.wall,
            since: since.min(time).wall,
            even: (since.min(time).even, time.even),
            open: false,
            process,
            run: number,
            record: None,
            kind,
            count: 0,
            cause: String::new(),
            is_seen_beside: false,
        };
        match what {
            What::Begin => {}
            What::Snapshot(snapshot) => {
                let line = ValueLine::of_snapshot(&run, time, &snapshot, &mut self.names, self.filter);
                if let Some(line) = line.map(|line| ValueLine { even, ..line }) {
                    self.wait(even, Entry::Value(Box::new(line)));
                }
            }
            What::Ioc(ioc) => {
                let process = self.process(&run, ioc);
                let recorded = self.recorded.entry(number).or_default();
                if recorded.len() < MAX_FIELDS && recorded.insert(Rc::clone(&process)) {
                    self.restarted(&process, time, &run);
                    self.wait(even, Entry::Process { time: even, process, run, ioc });
                }
            }
            What::End => {
                self.busy.retain(|(of, _), _| *of != number);
                for process in self.recorded.remove(&number).unwrap_or_default() {
                    let unseen = unseen(Kind::RunEnd, time, Some(Rc::clone(&process)));
                    self.unseen(Unseen { open: true, ..unseen }, &run);
                    self.is_left(process, &run, time);
                }
            }
            What::Missing { since } => self.unseen(unseen(Kind::Missing, since, None), &run),
            What::Lost { since, count, cause } => {
                self.unseen(Unseen { count, cause, ..unseen(Kind::Lost, since, None) }, &run);
            }
            What::LeftOut { record, count, since } => {
                let context = run.context();
                let named = context.record(record);
                let name = self.names.record(&run, &context, record);
                let process = named
                    .and_then(|named| context.ioc(named.ioc))
                    .map(|ioc| self.names.process(&run, &context, Some(ioc)));
                let unseen = unseen(Kind::LeftOut, since, process);
                self.unseen(Unseen { count, record: name, ..unseen }, &run);
            }
            What::Attached { ioc, since, cause } => {
                let process = self.process(&run, ioc);
                self.wait(even, Entry::Attached { time: even, process: Rc::clone(&process), run: number });
                let own = Recorder { run: Rc::clone(&run), ioc, since: even };
                let records = !own.leaves_out_processing();
                if records {
                    self.attaches(&process, &own);
                }
                let left = self.takes_over(&process, &own, records, time);
                let since = match &left {
                    Some(left) if left.recorded || cause.is_empty() => left.time,
                    // nor did the run that has ended record it until then
                    Some(left) => left.time.min(since),
                    None => since,
                };
                let is_left = left.is_some();
                let cause = match left {
                    Some(left) if left.goes_on() => LEFT_OUT.to_owned(),
                    Some(_) if run.lacks_beginning() => why(true).to_owned(),
                    Some(_) => NOT_ATTACHED.to_owned(),
                    None => cause,
                };
                if !cause.is_empty() {
                    let is_seen_beside = !is_left && self.is_seen_beside(&process, &own, since);
                    let unseen = unseen(Kind::Unrecorded, since, Some(process));
                    self.unseen(Unseen { cause, is_seen_beside, ..unseen }, &run);
                }
            }
            What::Detached { ioc, since, cause } => {
                let process = self.process(&run, ioc);
                // the run ends: the recorder takes no more hits, but its log goes on for a moment
                let kind = if cause.is_empty() { Kind::RunEnd } else { Kind::Unrecorded };
                let mut is_seen_beside = false;
                if cause.is_empty() {
                    if let Some(recorded) = self.recorded.get_mut(&number) {
                        recorded.remove(&process);
                    }
                    self.is_left(Rc::clone(&process), &run, since);
                } else {
                    let own = self.detaches(&process, number);
                    is_seen_beside = own.is_some_and(|own| self.is_seen_beside(&process, &own, since));
                }
                let unseen = unseen(kind, since, Some(process));
                self.unseen(Unseen { open: true, cause, is_seen_beside, ..unseen }, &run);
            }
            What::Ended { ioc, how } => {
                let process = self.process(&run, ioc);
                if let Some(recorded) = self.recorded.get_mut(&number) {
                    recorded.remove(&process);
                }
                if let Some(left) = self.left.remove(&process) {
                    self.were_left_out(&process, &left, time);
                }
                self.attached.remove(&process);
                let unseen = unseen(Kind::Ended, time, Some(process));
                self.unseen(Unseen { open: true, cause: how, ..unseen }, &run);
            }
        }
    }

    /// A run is attached to a process, and records its processing.
    fn attaches(&mut self, process: &Rc<IocProcess>, own: &Recorder) {
        if self.attached.len() >= MAX_FIELDS && !self.attached.contains_key(process) {
            return;
        }
        let runs = self.attached.entry(Rc::clone(process)).or_default();
        match runs.iter_mut().find(|other| Rc::ptr_eq(&other.run, &own.run)) {
            Some(known) => *known = own.clone(),
            None => runs.push(own.clone()),
        }
    }

    /// A run is attached to a process that others have left: the recorder of an earlier run may have had it, until before this one
    /// began. Takes what is over by that. What is over is not over for records that were recorded and that this one leaves out, as
    /// all do with `--no-process`; what a run leaves out it also leaves out when its probes are placed anew.
    fn takes_over(
        &mut self,
        process: &Rc<IocProcess>,
        own: &Recorder,
        records: bool,
        time: Moment,
    ) -> Option<Left> {
        let left = self.left.get(process)?;
        let goes_on = left.goes_on();
        if left.beside.contains(&address(&own.run)) || goes_on && !records {
            return None;
        }
        let (run, by) = (Rc::clone(&left.run), left.by.clone());
        let leaves_out = !records || own.has_records() && by.iter().any(|by| self.leave_out(process, by));
        if !leaves_out {
            return self.left.remove(process);
        }
        let mut beside = self.beside(process);
        if !records {
            beside.push(address(&own.run));
        }
        if goes_on {
            self.left.get_mut(process)?.beside = beside;
            return None;
        }
        let recorded = !by.is_empty();
        let next = Left { time, last: time, run, recorded, by, beside };
        self.left.insert(Rc::clone(process), next)
    }

    /// The numbers of the runs that are attached to a process.
    fn beside(&self, process: &Rc<IocProcess>) -> Vec<usize> {
        let others = self.attached.get(process).map(Vec::as_slice).unwrap_or_default();
        others.iter().map(|other| address(&other.run)).collect()
    }

    /// Whether the runs that are attached to a process leave out a record that matches, and that another one recorded.
    fn leave_out(&mut self, process: &Rc<IocProcess>, by: &Recorder) -> bool {
        let others = self.attached.get(process).map(Vec::as_slice).unwrap_or_default();
        leave_out(others, by, self.filter, &mut self.looked)
    }

    /// Whether others have been attached to a process since this time that record whatever matches of what this run does.
    fn is_seen_beside(&mut self, process: &Rc<IocProcess>, own: &Recorder, since: Moment) -> bool {
        let others = self.attached.get(process).into_iter().flatten();
        let saw = |other: &&Recorder| !Rc::ptr_eq(&other.run, &own.run) && other.since <= since.even;
        let others: Vec<Recorder> = others.filter(saw).cloned().collect();
        !others.is_empty() && !leave_out(&others, own, self.filter, &mut self.looked)
    }

    /// A run records a process no more. Unless another one is attached to it, nobody does; and nobody the records that the other
    /// one leaves out. Of those, what was not recorded begins earlier than when that one ends as well. Where nobody recorded it
    /// before, a run with `--no-process` ends nothing.
    fn is_left(&mut self, process: Rc<IocProcess>, run: &Rc<Run>, time: Moment) {
        let own = self.detaches(&process, address(run));
        let beside = self.beside(&process);
        let leaves_out = match &own {
            Some(own) => beside.is_empty() || self.leave_out(&process, own),
            None => beside.is_empty(),
        };
        if !leaves_out {
            return;
        }
        // logs of old recorders don't say that they are attached
        let records = own.is_some() || !leaves_out_processing(run, &process);
        if let Some(left) = self.left.get_mut(&process).filter(|left| !records && !left.goes_on()) {
            left.last = time;
            return;
        }
        let before = self.left.remove(&process);
        if let Some(before) = &before {
            self.were_left_out(&process, before, time);
        }
        let recorded = own.is_some();
        let mut by = before.map(|before| before.by).unwrap_or_default();
        if by.len() < MAX_BY {
            by.extend(own);
        }
        self.left.insert(process, Left { time, last: time, run: Rc::clone(run), recorded, by, beside });
    }

    /// The runs that went on when another one had ended have left out records until then.
    fn were_left_out(&mut self, process: &Rc<IocProcess>, left: &Left, until: Moment) {
        if !left.goes_on() || left.time.even >= until.even {
            return;
        }
        let unseen = Unseen {
            time: until.wall,
            since: left.time.wall.min(until.wall),
            even: (left.time.even, until.even),
            open: false,
            process: Some(Rc::clone(process)),
            run: address(&left.run),
            record: None,
            kind: Kind::Unrecorded,
            count: 0,
            cause: LEFT_OUT.to_owned(),
            is_seen_beside: false,
        };
        self.unseen(unseen, &left.run);
    }

    /// A run is attached to a process no more; with its number there, if it was.
    fn detaches(&mut self, process: &Rc<IocProcess>, run: usize) -> Option<Recorder> {
        let runs = self.attached.get_mut(process)?;
        let place = runs.iter().position(|other| address(&other.run) == run);
        let own = place.map(|place| runs.swap_remove(place));
        if runs.is_empty() {
            self.attached.remove(process);
        }
        own
    }

    /// Notes the end of processes that this one, which has the same name and host, must have followed unseen: it was
    /// started after the run that recorded them had ended.
    fn restarted(&mut self, process: &Rc<IocProcess>, time: Moment, run: &Rc<Run>) {
        if self.looked >= MAX_LOOKED {
            return;
        }
        self.looked = self.looked.saturating_add(self.left.len());
        let started = run.wall(process.start);
        let follows = |before: &IocProcess, left: Moment| {
            let same = before.host == process.host && may_follow(&before.ioc, before.pid, &process.ioc);
            let later = before.boot != process.boot || started.saturating_add(CLOCK_STEP) > left.wall;
            same && *before != **process && later
        };
        let before: Vec<_> = self
            .left
            .iter()
            .filter(|(before, left)| !left.goes_on() && follows(before, left.last))
            .map(|(before, left)| (Rc::clone(before), left.time))
            .collect();
        for (before, since) in before {
            self.left.remove(&before);
            let unseen = Unseen {
                time: time.wall,
                since: since.min(time).wall,
                even: (since.min(time).even, time.even),
                open: true,
                process: Some(before),
                run: address(run),
                record: None,
                kind: Kind::Ended,
                count: 0,
                cause: RESTARTED.to_owned(),
                is_seen_beside: false,
            };
            self.unseen(unseen, run);
        }
    }

    fn process(&mut self, run: &Rc<Run>, ioc: IocId) -> Rc<IocProcess> {
        let context = run.context();
        self.names.process(run, &context, context.ioc(ioc))
    }

    fn unseen(&mut self, unseen: Unseen, run: &Rc<Run>) {
        let process = match &unseen.process {
            Some(process) => Rc::clone(process),
            None => self.names.process(run, &run.context(), None),
        };
        self.wait(unseen.even.1, Entry::Value(Box::new(ValueLine::of_unseen(unseen, process))));
    }

    /// No chain that is yet to come begins before this. What it holds may be older than its message.
    fn settle(&mut self, until: i64) {
        self.settled = self.settled.max(until.saturating_sub(OWN_SKEW));
    }

    /// Reads on.
    fn read(&mut self) {
        if let Some(chain) = self.chain.take() {
            self.take(chain);
        }
        let step = self.replay.step();
        let notes: Vec<Note> = self.replay.notes().collect();
        notes.into_iter().for_each(|note| self.note(note));
        match step {
            Step::Chain(chain) => {
                self.settle(self.replay.earliest());
                self.chain = Some(chain);
            }
            Step::Read(until) => self.settle(until),
            Step::End => self.ended = true,
        }
    }
}

impl Iterator for History<'_> {
    type Item = Entry;

    fn next(&mut self) -> Option<Entry> {
        loop {
            let due = self.ended || self.waiting.len() > MAX_WAITING;
            if self.waiting.first().is_some_and(|(time, _)| due || time < self.settled) {
                return self.waiting.pop();
            }
            if self.ended {
                return None;
            }
            self.read();
        }
    }
}

/// A field: its process, record, field.
type Key = (Rc<IocProcess>, Rc<str>, Rc<str>);

/// The values that match a filter, in order of time.
pub struct Values<'a> {
    history: History<'a>,
    filter: &'a Filter,
    known: Keyed<Key, (Value, Option<(u16, u16)>)>,
    /// Those of records that have begun to process since their last value, and were not seen to complete.
    unfinished: HashSet<Key>,
    gaps: Option<Gaps>,
}

/// What is needed to show what went unseen.
#[derive(Default)]
struct Gaps {
    /// Processes as runs record them, and whether a record that matches is among what the run records.
    concerned: HashMap<(Rc<IocProcess>, usize), bool>,
    /// Where to look that up: the runs that record each process, with its number there. One may leave out what another has.
    runs: HashMap<Rc<IocProcess>, Vec<(Rc<Run>, IocId)>>,
    /// The records of each process with which chains began that showed a value, in runs whose chains are sampled.
    roots: HashMap<Rc<IocProcess>, HashSet<Rc<str>>>,
}

impl Gaps {
    /// Notes that a run records a process.
    fn note_run(&mut self, process: Rc<IocProcess>, run: Rc<Run>, ioc: IocId) {
        if self.runs.len() >= MAX_FIELDS && !self.runs.contains_key(&process) {
            return;
        }
        let runs = self.runs.entry(process).or_default();
        match runs.iter_mut().find(|(other, _)| Rc::ptr_eq(other, &run)) {
            Some(known) => *known = (run, ioc),
            None => runs.push((run, ioc)),
        }
    }

    /// Notes with which record the chain began that showed a value, if others like it may have been left out.
    fn note_root(&mut self, line: &ValueLine) {
        let Some(root) = line.root.as_ref() else { return };
        if line.of.as_ref().is_some_and(|of| of.run.is_sampled()) {
            let of_process = self.roots.entry(Rc::clone(&line.process)).or_default();
            if of_process.len() < MAX_FIELDS && !of_process.contains(root) {
                of_process.insert(Rc::clone(root));
            }
        }
    }
}

impl<'a> Values<'a> {
    pub(crate) fn new(history: History<'a>, filter: &'a Filter) -> Self {
        Values { history, filter, known: Keyed::default(), unfinished: HashSet::new(), gaps: None }
    }

    /// Adds lines for times at which values may have changed unseen, if they concern an IOC that has a record which
    /// matches.
    pub fn with_gaps(mut self) -> Self {
        self.gaps = Some(Gaps::default());
        self
    }

    /// Whether a line shows anything new; notes its value.
    fn is_news(&mut self, line: &mut ValueLine) -> bool {
        if let Some(gaps) = &mut self.gaps {
            gaps.note_root(line);
        }
        let key = (Rc::clone(&line.process), Rc::clone(&line.record), Rc::clone(&line.field));
        let known = self.known.get(&key);
        let same_alarm = |known: &Option<(u16, u16)>| line.alarm.is_none() || *known == line.alarm;
        let is_cut = line.cut == Some(true);
        let repeats = matches!(line.source, ValueSource::Found | ValueSource::Snapshot)
            && known.is_some_and(|(known, alarm)| {
                agrees(known, &line.value, is_cut) == Some(true) && same_alarm(alarm)
            });
        let alarm = line.alarm.or(known.and_then(|(_, alarm)| *alarm));
        let was_unfinished = !self.unfinished.is_empty() && self.unfinished.remove(&key);
        // of what is known in full, a beginning of it tells nothing
        let is_less = repeats && is_cut;
        if !is_less && (self.known.len() < MAX_FIELDS || self.known.contains_key(&key)) {
            self.known.insert(key, (line.value.clone(), alarm));
        }
        line.again = repeats && was_unfinished;
        !repeats || was_unfinished
    }

    /// Whether something unseen is to be shown.
    fn concerns(&mut self, unseen: &Unseen) -> bool {
        let Some(gaps) = &mut self.gaps else { return false };
        // if the log goes on, another line says until when
        if unseen.kind == Kind::RunEnd || unseen.is_seen_beside {
            return false;
        }
        let time = self.filter.since.is_none_or(|since| unseen.time >= since)
            && self.filter.until.is_none_or(|until| unseen.since < until);
        let Gaps { concerned, runs, roots } = gaps;
        let filter = self.filter;
        let mut has = |process: &Rc<IocProcess>, (run, ioc): &(Rc<Run>, IocId)| {
            let key = (Rc::clone(process), address(run));
            if let Some(known) = concerned.get(&key) {
                return *known;
            }
            if !filter.place(&process.host, &process.ioc) {
                return false;
            }
            let context = run.context();
            let mut records = context.records().filter(|record| record.ioc == *ioc);
            let has = records.any(|record| has_record(filter, record.name));
            // until its records are known, it may yet have one
            if has || concerned.len() < MAX_FIELDS && context.records().next().is_some() {
                concerned.insert(key, has);
            }
            has
        };
        time && match (&unseen.process, &unseen.record) {
            (process, Some(record)) => {
                let is_there = |process: &Rc<IocProcess>| filter.place(&process.host, &process.ioc);
                let is_root = |process: &Rc<IocProcess>| {
                    roots.get(process).is_some_and(|of_process| of_process.contains(record))
                };
                let concerns = has_record(filter, record) || process.as_ref().is_some_and(is_root);
                concerns && process.as_ref().is_none_or(is_there)
            }
            // whichever run tells of it, others may have recorded more
            (Some(process), None) => runs.get(process).is_some_and(|of| of.iter().any(|of| has(process, of))),
            (None, None) => runs.iter().any(|(process, of)| {
                of.iter().filter(|(run, _)| address(run) == unseen.run).any(|of| has(process, of))
            }),
        }
    }
}

/// Whether a run was told not to record the processing of this process.
fn leaves_out_processing(run: &Run, process: &IocProcess) -> bool {
    let of_process = |ioc: &Ioc| (ioc.pid, ioc.start) == (process.pid, process.start);
    run.context().iocs().any(|ioc| of_process(ioc) && ioc.leaves_out_processing())
}

/// Whether runs leave out a record of a process which matches the filter, and which another one records. `looked`: the records looked
/// at so far.
fn leave_out(others: &[Recorder], own: &Recorder, filter: &Filter, looked: &mut usize) -> bool {
    let count = |recorder: &Recorder| recorder.run.context().record_count();
    let counts = others.iter().map(count).fold(count(own), usize::saturating_add);
    if *looked >= MAX_LOOKED {
        return true;
    }
    *looked = looked.saturating_add(counts);
    let context = own.run.context();
    let records = context.records().filter(|record| record.ioc == own.ioc && has_record(filter, record.name));
    let mut names: HashSet<Box<str>> = records.map(|record| record.name.into()).collect();
    for other in others {
        if names.is_empty() {
            break;
        }
        let context = other.run.context();
        for record in context.records().filter(|record| record.ioc == other.ioc) {
            names.remove(record.name);
        }
    }
    !names.is_empty()
}

/// Whether the record is of a type of EPICS Base.
fn is_of_base(context: &Context, record: RecordId) -> bool {
    context.record(record).is_some_and(|record| always_forwards(record.rtype))
}

/// Whether a pattern of the filter matches the record or a field of it.
pub fn has_record(filter: &Filter, record: &str) -> bool {
    let matches = |pattern: &Pattern| {
        let of_field = pattern.text().rsplit_once('.').map(|(record, _)| Pattern::from(record));
        pattern.matches(record) || of_field.is_some_and(|pattern| pattern.matches(record))
    };
    filter.pv.is_empty() || filter.pv.iter().any(matches)
}

impl Iterator for Values<'_> {
    type Item = ValueLine;

    fn next(&mut self) -> Option<ValueLine> {
        loop {
            match self.history.next()? {
                Entry::Value(mut line) => {
                    let is_shown = match &line.unseen {
                        Some(unseen) => self.concerns(unseen),
                        None => self.is_news(&mut line),
                    };
                    if is_shown {
                        return Some(*line);
                    }
                }
                Entry::Process { process, run, ioc, .. } => {
                    if let Some(gaps) = &mut self.gaps {
                        gaps.note_run(process, run, ioc);
                    }
                }
                Entry::Begun { completed: false, time, wall, process, record, .. } => {
                    let key = (Rc::clone(&process), Rc::clone(&record), Rc::from("VAL"));
                    let is_news = self.gaps.is_some() && self.known.contains_key(&key);
                    let is_in = self.filter.time(wall);
                    if is_news && is_in && self.unfinished.insert(key) {
                        let unseen = Unseen {
                            time: wall,
                            since: wall,
                            even: (time, time),
                            open: true,
                            process: Some(Rc::clone(&process)),
                            run: 0,
                            record: Some(record),
                            kind: Kind::Unfinished,
                            count: 0,
                            cause: String::new(),
                            is_seen_beside: false,
                        };
                        return Some(ValueLine::of_unseen(unseen, process));
                    }
                }
                Entry::Attached { .. }
                | Entry::Disabled { .. }
                | Entry::Busy { .. }
                | Entry::Begun { .. } => {}
            }
        }
    }
}
