//! The state of all fields at a time, as far as a log knows it: the fold of its history.
//!
//! A field has the last value that was seen. That is all a log can show: whether it still had it at the time asked for
//! depends on what went unseen since ([`crate::model::unseen`]):
//!
//! - a value is **known** if nothing went unseen after it was last seen;
//! - it is **in doubt** if something did: it may have changed since. The state says what, and keeps the value. So it is if
//!   its record has begun to process since, and was not seen to complete by then;
//! - it is **unknown** if the field was never seen, if a put with an unknown result wrote it, if its record has processed
//!   and its value was not recorded, if the recorder could not read it (compress and histogram), or if its IOC has ended:
//!   the values of a process are gone with it.
//!
//! A record that is disabled may have a DISABLE alarm, which no hit shows: its alarm is unknown until it is seen again. So it is
//! of a record that is active for long and had to process again and again, which dbProcess gives the alarm SCAN.
//! Where an IOC is not probed, as in the packet tier, its records process unseen: all that was read is in doubt.
//!
//! After chain sampling has left out chains that begin with a record, the value of that record is in doubt, and those of
//! records that were seen to process in a chain which began there ([`crate::model::roots`]).
//!
//! Fields that their own record may set when it processes are in doubt after that ([`crate::answers::states::set_by_processing`]).
//!
//! Memory: one entry for each field seen, at most [`MAX_FIELDS`].

pub use super::seen::{Changed, Seen, Since};
use super::set_by_processing::SetByProcessing;
use crate::answers::values::Entry;
use crate::filter::Filter;
use crate::model::history::{Of, ValueLine, ValueSource};
use crate::model::names::{address, IocProcess};
use crate::model::numbered::Keyed;
use crate::model::roots::Roots;
use crate::model::run::{has_value, Run};
use crate::model::unseen::{Kind, Unseen};
use crate::model::value::agree;
use crate::shown_names::{with_pid, without_pid};
use epics::alarm::{DISABLE, INVALID, UDF};
use iocrec_log::event::{Ioc, IocId, Properties, RecordId, Tier, Value, NO_PUTS};
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

/// Fields held; a bound for hostile logs. The biggest IOCs have 100,000 records.
pub const MAX_FIELDS: usize = 500_000;

/// Processes held; likewise. Those of an IOC that is started every minute for two months.
const MAX_PROCESSES: usize = 100_000;

/// Recorders that record a process at a time; likewise.
const MAX_BESIDE: usize = 16;

/// Bytes of the names of records that recorders record, and records looked at for them; likewise. Beyond that, what one may not
/// have seen is in doubt.
const MAX_HELD: usize = 128 << 20;
const MAX_LOOKED: usize = 500_000_000;

/// Why a value may have changed since it was seen: its record began to process, and what came of that is not known.
const UNFINISHED: &str = "its record has processed, and was not seen to complete";
/// The same of one that was seen to complete, but only later.
const PROCESSING: &str = "its record was processing";

/// A field: its process, record, name.
pub type Key = (Rc<IocProcess>, Rc<str>, Rc<str>);

/// A record of a process.
type Place = (Rc<IocProcess>, Rc<str>);

/// What is known of a field at a time.
pub struct FieldState {
    /// The field.
    pub key: Key,
    /// The last value seen; `None` if there is none.
    pub seen: Option<Box<Seen>>,
    /// Why the value is in doubt or, without a value, unknown. Shared: mostly, many are for the same reason.
    pub doubt: Option<Rc<str>>,
    /// When its IOC ended, if it has: not before the first time, and by the second.
    pub ended: Option<(i64, i64)>,
    /// The record in its run.
    pub of: Option<Of>,
    /// Whether several processes of the name of its IOC are known at that time, side by side.
    pub is_namesake: bool,
}

impl FieldState {
    /// The name of the PV: the record for VAL, or `record.FIELD`.
    pub fn pv(&self) -> String {
        let (_, record, field) = &self.key;
        match &**field {
            "VAL" => record.to_string(),
            field => format!("{record}.{field}"),
        }
    }

    /// The name of its IOC, with the process id where the name does not tell it from others; empty if unknown.
    pub fn place(&self) -> String {
        let process = &self.key.0;
        match self.is_namesake && !process.ioc.is_empty() {
            true => with_pid(&process.ioc, process.pid),
            false => process.ioc.to_string(),
        }
    }

    /// The properties of the record at a wall-clock time, for its value field.
    pub fn properties(&self, time: i64) -> Option<Rc<Properties>> {
        let of = self.of.as_ref().filter(|_| &*self.key.2 == "VAL")?;
        of.run.properties(of.record, time)
    }

    /// The value; unknown if it is not known. It may be in doubt.
    pub fn value(&self) -> Value {
        self.seen.as_ref().map_or(Value::Unknown, |seen| seen.value())
    }

    /// Whether the value is known; it may be in doubt.
    pub fn is_known(&self) -> bool {
        self.seen.as_ref().is_some_and(|seen| seen.is_known())
    }

    /// Whether the value is known for certain.
    pub fn is_certain(&self) -> bool {
        let inexact = self.seen.as_ref().is_some_and(|seen| seen.inexact);
        self.is_known() && self.doubt.is_none() && !inexact
    }
}

/// Something that put values in doubt.
#[derive(Clone)]
struct Doubt {
    /// Values last seen before this time are in doubt.
    until: i64,
    /// Shared: a loss is one of all processes that a run records.
    words: Rc<str>,
}

/// A run that records a process.
#[derive(Clone)]
struct Recorder {
    run: Rc<Run>,
    /// The number of the process there.
    ioc: IocId,
    /// Since when it is attached and records processing and puts, a place in the order of time: it saw nothing of what others
    /// lost before.
    attached: Option<i64>,
    /// Whether it is attached to it, whatever it records.
    is_attached: bool,
    /// Until when it has last lost hits, or a part of its log is missing; a place in the order of time.
    lost_until: i64,
}

impl Recorder {
    fn of(run: Rc<Run>, ioc: IocId) -> Recorder {
        Recorder { run, ioc, attached: None, is_attached: false, lost_until: i64::MIN }
    }

    /// Since when it has seen everything of the records that it records; `None` if it does not.
    fn sees_since(&self) -> Option<i64> {
        self.attached.map(|attached| attached.max(self.lost_until))
    }

    fn is(&self, run: usize) -> bool {
        address(&self.run) == run
    }

    /// Whether it was told not to record processing.
    fn leaves_out_processing(&self) -> bool {
        self.run.context().ioc(self.ioc).is_some_and(Ioc::leaves_out_processing)
    }

    /// Whether it was told not to record processing, or puts.
    fn leaves_out(&self) -> bool {
        let leaves_out_puts = |ioc: &Ioc| ioc.not_probed.iter().any(|line| line == NO_PUTS);
        self.leaves_out_processing() || self.run.context().ioc(self.ioc).is_some_and(leaves_out_puts)
    }
}

/// What one recorder of a process did not see, and others did: each of the records that it records.
struct SeenBeside {
    by: Vec<Beside>,
    doubt: Doubt,
}

/// A recorder that saw what another one did not.
struct Beside {
    by: Recorder,
    /// Since when, a place in the order of time; the earliest there is if it saw all of it.
    since: i64,
}

impl SeenBeside {
    /// Whether these recorders saw it, since these times.
    fn is_by(&self, others: &[Beside]) -> bool {
        let is_same = |(one, other): (&Beside, &Beside)| {
            Rc::ptr_eq(&one.by.run, &other.by.run) && one.since == other.since
        };
        self.by.len() == others.len() && self.by.iter().zip(others).all(is_same)
    }

    /// Values of a record last seen before this time are in doubt. `records`: whether a recorder records it.
    fn doubted_until(&self, mut records: impl FnMut(&Recorder) -> bool) -> i64 {
        let seen = self.by.iter().filter(|beside| records(&beside.by)).map(|beside| beside.since).min();
        seen.unwrap_or(i64::MAX).min(self.doubt.until)
    }
}

/// The records that recorders record: with `--only` and `--exclude` not all that a process has. Looked up once for each
/// that has come to its log, not for each value.
#[derive(Default)]
struct Recorded {
    of: HashMap<(usize, IocId), RecordedBy>,
    /// See [`MAX_HELD`].
    held: usize,
    looked: usize,
}

/// The records that one recorder records.
struct RecordedBy {
    /// Held, so that no other has its number.
    _run: Rc<Run>,
    /// The records that its log named when that was looked up.
    count: usize,
    last: Option<RecordId>,
    names: HashSet<Box<str>>,
}

impl Recorded {
    /// Whether this recorder records that record, as far as its log has come.
    fn has(&mut self, by: &Recorder, record: &str) -> bool {
        let context = by.run.context();
        let count = context.record_count();
        let Recorded { of, held, looked } = self;
        let known = of.entry((address(&by.run), by.ioc)).or_insert_with(|| RecordedBy {
            _run: Rc::clone(&by.run),
            count: 0,
            last: None,
            names: HashSet::new(),
        });
        if known.names.contains(record) {
            return true;
        }
        if known.count != count && *looked < MAX_LOOKED {
            *looked = looked.saturating_add(count);
            let last = known.last;
            for new in context.records().filter(|record| last.is_none_or(|last| record.id > last)) {
                known.last = Some(new.id);
                if new.ioc == by.ioc && *held < MAX_HELD {
                    *held += new.name.len() + size_of::<Box<str>>();
                    known.names.insert(new.name.into());
                }
            }
            known.count = count;
        }
        known.names.contains(record)
    }
}

/// A process and what went unseen of it.
#[derive(Default)]
struct Process {
    /// The run that began to record it last, of those that still do.
    of: Option<Recorder>,
    /// Runs of other recorders that go on recording it beside that one.
    beside: Vec<Recorder>,
    /// Whether the last of them has ended.
    is_left: bool,
    /// Between which times it has ended, and how.
    ended: Option<((i64, i64), String)>,
    /// When it was first known to run, and by when it had ended: places in the order of time.
    lived: (Option<i64>, Option<i64>),
    doubt: Option<Doubt>,
    /// What one of its recorders did not see and others did: records that all of these leave out are in doubt.
    seen_beside: Vec<SeenBeside>,
    /// Whether processing is recorded, as far as the log says so.
    attached: bool,
}

impl Process {
    /// A run records it from this time on.
    fn is_recorded(&mut self, run: Rc<Run>, ioc: IocId, time: i64) {
        let other = self.of.as_ref().filter(|of| !self.is_left && !Rc::ptr_eq(&of.run, &run));
        // the begin of a log that was read late is no later one
        let counts = other.and_then(|of| of.attached).is_none_or(|attached| attached <= time);
        let recorder = Recorder::of(run, ioc);
        if !counts {
            self.goes_on(recorder);
            return;
        }
        if let Some(former) = self.of.take().filter(|of| !self.is_left && !of.is(address(&recorder.run))) {
            self.goes_on(former);
        }
        (self.of, self.is_left) = (Some(recorder), false);
    }

    /// A run goes on beside the one that counts.
    fn goes_on(&mut self, other: Recorder) {
        if self.beside.len() < MAX_BESIDE {
            self.beside.push(other);
        }
    }

    /// A run is attached to it from this time on.
    fn is_attached(&mut self, run: usize, time: i64) {
        let counted = self.of.as_ref().and_then(|of| of.attached);
        let place = self.beside.iter().position(|other| other.is(run));
        if let Some(place) = place.filter(|_| counted.is_none_or(|counted| counted <= time)) {
            let later = self.beside.swap_remove(place);
            if let Some(former) = self.of.replace(later) {
                self.goes_on(former);
            }
        }
        if let Some(own) = self.recorders().find(|own| own.is(run)) {
            (own.attached, own.is_attached) = (Some(time).filter(|_| !own.leaves_out()), true);
        }
        self.attached = true;
    }

    /// All that record it: the one that counts, and those beside it.
    fn recorders(&mut self) -> impl Iterator<Item = &mut Recorder> {
        self.of.iter_mut().chain(&mut self.beside)
    }

    /// A run is attached to it no more. If another one is, that one counts from then on.
    fn is_detached(&mut self, run: usize) {
        let own = self.recorders().filter(|recorder| recorder.is(run));
        own.for_each(|recorder| (recorder.attached, recorder.is_attached) = (None, false));
        if self.of.as_ref().is_some_and(|of| of.is(run)) {
            if let Some(place) = self.beside.iter().rposition(|other| other.attached.is_some()) {
                let other = self.beside.swap_remove(place);
                if let Some(former) = self.of.replace(other) {
                    self.goes_on(former);
                }
            }
        }
        self.attached &= self.is_attached_to();
    }

    /// Whether a run is attached to it.
    fn is_attached_to(&self) -> bool {
        self.of.iter().chain(&self.beside).any(|recorder| recorder.is_attached)
    }

    /// A run has seen nothing from `since` on, or not all. Others have, each of the records that it records: from when it was
    /// attached, and had itself lost nothing more.
    fn is_unseen_by(&mut self, run: usize, since: i64, doubt: Doubt) {
        for own in self.recorders().filter(|own| own.is(run)) {
            own.lost_until = own.lost_until.max(doubt.until);
        }
        let mut by: Vec<Beside> = Vec::new();
        let others = self.of.iter().chain(&self.beside).filter(|other| !self.is_left && !other.is(run));
        for other in others {
            if let Some(from) = other.sees_since().filter(|from| *from < doubt.until) {
                let since = if from <= since { i64::MIN } else { from };
                by.push(Beside { by: other.clone(), since });
            }
        }
        let Some(first) = by.iter().map(|beside| beside.since).min() else {
            worse(&mut self.doubt, doubt);
            return;
        };
        if first > since {
            worse(&mut self.doubt, Doubt { until: first, ..doubt.clone() });
        }
        if let Some(known) = self.seen_beside.iter_mut().find(|known| known.is_by(&by)) {
            if known.doubt.until <= doubt.until {
                known.doubt = doubt;
            }
            return;
        }
        if self.seen_beside.len() >= MAX_BESIDE {
            // what has been over for longest concerns the fewest values
            let oldest = self.seen_beside.iter().enumerate().min_by_key(|(_, known)| known.doubt.until);
            if let Some(place) = oldest.map(|(place, _)| place) {
                let oldest = self.seen_beside.swap_remove(place);
                worse(&mut self.doubt, oldest.doubt);
            }
        }
        self.seen_beside.push(SeenBeside { by, doubt });
    }

    /// A run has lost something of what it records.
    fn is_lost_by(&mut self, run: usize, since: i64, doubt: &Doubt) {
        if self.of.iter().chain(&self.beside).any(|own| own.is(run)) {
            self.is_unseen_by(run, since, doubt.clone());
        }
    }

    /// A run has ended. What is lost or missing in another one that goes on counts from then on.
    fn is_left_by(&mut self, run: usize) {
        self.beside.retain(|other| !other.is(run));
        if self.of.as_ref().is_some_and(|of| of.is(run)) {
            let attached = self.beside.iter().rposition(|other| other.attached.is_some());
            match attached.or(self.beside.len().checked_sub(1)) {
                Some(place) => self.of = Some(self.beside.remove(place)),
                None => self.is_left = true,
            }
        }
        self.attached &= !self.is_left && self.is_attached_to();
    }

    /// Why a value may change without a trace at any time: nothing of the process is recorded but packets and readings.
    /// `records`: whether a recorder records it.
    fn blind(&self, seen: &Seen, records: impl Fn(&Recorder) -> bool) -> Option<&'static str> {
        let of = self.of.as_ref()?;
        let sees = |other: &Recorder| other.attached.is_some_and(|attached| attached <= seen.even);
        let is_seen_beside = || self.beside.iter().any(|other| sees(other) && records(other));
        if of.leaves_out_processing() && seen.source != ValueSource::Process && !is_seen_beside() {
            return Some("the processing of its records was not recorded (--no-process)");
        }
        if self.attached || seen.source == ValueSource::Process {
            return None;
        }
        let context = of.run.context();
        let by_packets = context.tier().is_some_and(|choice| choice.tier == Tier::Packet);
        // Logs of old recorders don't say since when an IOC was recorded. They have no snapshots either.
        let not_probed = context.ioc(of.ioc).is_some_and(|ioc| !ioc.not_probed.is_empty());
        (by_packets || not_probed && seen.source == ValueSource::Snapshot)
            .then_some("the processing of its records is not recorded")
    }
}

/// The state at a time.
pub struct State {
    time: i64,
    /// The places of that time, and of the one from which changes are counted, in the order of time, for boots whose
    /// clock was set back.
    even: HashMap<Rc<str>, (i64, Option<i64>)>,
    /// Changes after this time are counted, and the last is kept.
    count_from: Option<i64>,
    /// Boxed: a table that grows is there twice, and has room for more than is in it.
    fields: Keyed<Key, Box<Seen>>,
    processes: Keyed<Rc<IocProcess>, Process>,
    left_out: Keyed<Place, Doubt>,
    /// The records with which the chains of each record began, in runs whose chains are sampled.
    roots: Keyed<Place, Roots<Rc<str>>>,
    /// Records that have begun to process and were not seen to complete.
    unfinished: Keyed<Place, Doubt>,
    set_by_processing: SetByProcessing,
    recorded: RefCell<Recorded>,
    chains_left_out: u64,
    full: bool,
}

impl State {
    /// The state at this time (nanoseconds since 1970 UTC), including what happened at it. Nothing is known yet.
    pub fn at(time: i64) -> State {
        State {
            time,
            even: HashMap::new(),
            count_from: None,
            fields: Keyed::default(),
            processes: Keyed::default(),
            left_out: Keyed::default(),
            roots: Keyed::default(),
            unfinished: Keyed::default(),
            set_by_processing: SetByProcessing::default(),
            recorded: RefCell::default(),
            chains_left_out: 0,
            full: false,
        }
    }

    /// Counts changes after this time, and keeps the last of each field.
    pub fn counting_from(mut self, time: i64) -> State {
        self.count_from = Some(time);
        self
    }

    /// Tells it the places of its times in the order of time, for a boot whose clock was set back.
    pub fn stands_at(&mut self, boot: &str, even: impl Fn(i64) -> i64) {
        self.even.insert(boot.into(), (even(self.time), self.count_from.map(even)));
    }

    /// The place of its time in the order of time, for a process.
    fn limit(&self, process: &IocProcess) -> i64 {
        match self.even.is_empty() {
            true => self.time,
            false => self.even.get(&process.boot).map_or(self.time, |(even, _)| *even),
        }
    }

    /// Whether it may need what comes at this place in the order of time.
    pub fn reaches(&self, even: i64) -> bool {
        even <= self.time || self.even.values().any(|(limit, _)| even <= *limit)
    }

    /// The time.
    pub fn time(&self) -> i64 {
        self.time
    }

    /// All fields that were seen.
    pub fn fields(&self) -> impl Iterator<Item = (&Key, &Seen)> {
        self.fields.iter().map(|(key, seen)| (key, &**seen))
    }

    /// What was seen of a field.
    pub fn seen(&self, key: &Key) -> Option<&Seen> {
        self.fields.get(key).map(|seen| &**seen)
    }

    /// Forgets what was seen of a field.
    pub fn forget(&mut self, key: &Key) {
        self.fields.remove(key);
    }

    /// Records of these names, if they had begun to process, have completed: their values are those that were seen.
    pub fn have_completed<'a>(&mut self, names: impl Iterator<Item = &'a str>) {
        if !self.unfinished.is_empty() {
            let names: HashSet<&str> = names.collect();
            self.unfinished.retain(|(_, record), _| !names.contains(&**record));
        }
    }

    /// Forgets all fields that the filter does not select.
    pub fn retain(&mut self, filter: &Filter) {
        self.fields.retain(|(_, record, field), _| filter.field(record, field));
    }

    /// Takes what another state of the same time knows of the fields of these records, instead of what this one does.
    pub fn replace(&mut self, records: &HashSet<String>, other: State) {
        self.fields.retain(|(_, record, _), _| !records.contains(&**record));
        let theirs = other.fields.into_iter().filter(|((_, record, _), _)| records.contains(&**record));
        self.fields.extend(theirs);
        self.unfinished.retain(|(_, record), _| !records.contains(&**record));
        self.unfinished
            .extend(other.unfinished.into_iter().filter(|((_, record), _)| records.contains(&**record)));
        self.set_by_processing.replace(records, other.set_by_processing);
        self.roots.extend(other.roots.into_iter().filter(|((_, record), _)| records.contains(&**record)));
    }

    /// Number of chains that chain sampling left out before the time.
    pub fn chains_left_out(&self) -> u64 {
        self.chains_left_out
    }

    /// Whether there were more fields than it holds: others are missing.
    pub fn is_full(&self) -> bool {
        self.full
    }

    /// Takes the next entry of the history. Entries of later times change nothing, unless something went unseen from
    /// before the time on: so the history must go on for a while after it.
    pub fn take(&mut self, entry: Entry) {
        match entry {
            Entry::Process { time, process, run, ioc } if time <= self.limit(&process) => {
                let Some(known) = self.process(process) else { return };
                known.is_recorded(run, ioc, time);
                known.ended = None;
                known.lived = (known.lived.0.or(Some(time)), None);
            }
            Entry::Attached { time, process, run } if time <= self.limit(&process) => {
                self.process(process).into_iter().for_each(|known| known.is_attached(run, time));
            }
            Entry::Disabled { time, process, record } if time <= self.limit(&process) => {
                self.set_by_processing.disabled(&process, &record);
                if let Some(seen) = self.fields.get_mut(&(process, record, Rc::from("VAL"))) {
                    // dbProcess gives it the alarm DISABLE once
                    seen.alarm = seen.alarm.filter(|(_, status)| *status == DISABLE);
                }
            }
            Entry::Busy { time, process, record } if time <= self.limit(&process) => {
                if let Some(seen) = self.fields.get_mut(&(process, record, Rc::from("VAL"))) {
                    seen.alarm = seen.alarm.filter(|(severity, _)| *severity == INVALID);
                }
            }
            Entry::Begun { time, until, chain, process, record, .. } if time <= self.limit(&process) => {
                self.begun((time, until), chain, process, record);
            }
            Entry::Process { .. }
            | Entry::Attached { .. }
            | Entry::Disabled { .. }
            | Entry::Busy { .. }
            | Entry::Begun { .. } => {}
            Entry::Value(line) => match &line.unseen {
                Some(unseen) => self.unseen(unseen, self.limit(&line.process)),
                None if line.even <= self.limit(&line.process) => self.value(*line),
                None => {}
            },
        }
    }

    /// What is known of a process; `None` of a new one where there are too many.
    fn process(&mut self, process: Rc<IocProcess>) -> Option<&mut Process> {
        if self.processes.len() >= MAX_PROCESSES && !self.processes.contains_key(&process) {
            self.full = true;
            return None;
        }
        Some(self.processes.entry(process).or_default())
    }

    /// A record has begun to process, and was not seen to complete, or not at once.
    fn begun(
        &mut self,
        (time, until): (i64, Option<i64>),
        chain: u64,
        process: Rc<IocProcess>,
        record: Rc<str>,
    ) {
        let limit = self.limit(&process);
        let lasts = until.is_none_or(|until| until > limit);
        let unseen = until.is_none_or(|until| until <= time.saturating_add(1));
        if !lasts && !unseen {
            return; // its end shows its value
        }
        self.set_by_processing.begun(&process, &record, chain);
        let until = if lasts { limit.saturating_add(1) } else { time.saturating_add(1) };
        let words = if unseen { UNFINISHED } else { PROCESSING };
        if self.unfinished.len() < MAX_FIELDS {
            self.unfinished.insert((process, record), Doubt { until, words: words.into() });
        }
    }

    fn value(&mut self, line: ValueLine) {
        let key = line.key();
        let before = self.fields.get(&key).map(|seen| &**seen);
        // nor of a process of which nothing else could be held
        let has_room = || self.processes.len() < MAX_PROCESSES || self.processes.contains_key(&key.0);
        if before.is_none() && (self.fields.len() >= MAX_FIELDS || !has_room()) {
            self.full = true;
            return;
        }
        // of a log that was read late
        if before.is_some_and(|before| line.even < before.even) {
            return;
        }
        let equal = before.and_then(|before| {
            agree((&before.value(), before.cut == Some(true)), (&line.value, line.cut == Some(true)))
        });
        // of what is cut, the rest may have changed
        let is_cut = line.cut == Some(true) || before.is_some_and(|before| before.cut == Some(true));
        let may_differ = is_cut && equal == Some(true);
        let equal = equal.filter(|_| !may_differ);
        let read = matches!(line.source, ValueSource::Found | ValueSource::Snapshot);
        let of = self.processes.get(&key.0);
        let is_set_since = self.set_by_processing.is_over(&key).is_some();
        let records = |by: &Recorder| self.recorded.borrow_mut().has(by, &key.1);
        let sees =
            |before: &Seen| of.and_then(|process| process.blind(before, records)).is_none() && !is_set_since;
        let was_certain = before.is_some_and(|before| self.doubt(&key, before).is_none() && sees(before));
        // the beginning of a text that is known whole
        let is_less = line.source == ValueSource::Found && matches!(line.value, Value::Text(_));
        if is_less && may_differ && was_certain && before.is_some_and(|before| before.cut == Some(false)) {
            return;
        }
        let changed_now = equal == Some(false) && was_certain && !read;
        let kept = equal == Some(true) && was_certain;
        let (first, set) = match (equal, before) {
            // as it was, and it can't have been another in between
            (Some(true), Some(before)) if was_certain => (before.first, before.set()),
            _ => (line.time, (changed_now || line.source == ValueSource::Put).then_some(line.time)),
        };
        let from = self.even.get(&key.0.boot).map_or(self.count_from, |(_, from)| *from);
        let counted = from.is_some_and(|from| line.even > from);
        let change = counted && equal != Some(true);
        let had_other = before.filter(|before| before.is_known());
        let since = match had_other {
            _ if set == Some(line.time) || line.by_put => Since::Then,
            Some(before) => Since::After(before.time),
            None => Since::Unknown,
        };
        let changed = match change {
            true => Some(Rc::new(Changed::by(&line, since))),
            false => before.and_then(|before| before.changed.clone()),
        };
        let at_least =
            before.is_some_and(|before| before.at_least) || counted && (!was_certain || may_differ);
        let counts = counted && equal == Some(false);
        let changes = before.map_or(0, |before| before.changes).saturating_add(u32::from(counts));
        let alarm = line.alarm.or(before.and_then(|before| before.alarm));
        let is_done = line.source == ValueSource::Process && !self.unfinished.is_empty();
        let unprocessed = match line.alarm {
            Some((_, status)) => {
                line.source == ValueSource::Snapshot && line.stamp.is_none() && status == UDF
            }
            None => before.is_some_and(|before| before.unprocessed),
        };
        let by_put = line.by_put || kept && before.is_some_and(|before| before.by_put);
        if is_done {
            self.unfinished.remove(&(Rc::clone(&key.0), Rc::clone(&key.1)));
        }
        self.set_by_processing.take(&key, &line);
        self.note_root(&key, &line);
        let mut seen =
            Seen { first, alarm, changed, changes, at_least, by_put, unprocessed, ..Seen::of(line) };
        seen.was_set(set);
        match self.fields.get_mut(&key) {
            Some(known) => **known = seen,
            None => _ = self.fields.insert(key, Box::new(seen)),
        }
    }

    /// Notes with which record the chain began that showed a value, if other chains may have been left out.
    fn note_root(&mut self, (process, record, _): &Key, line: &ValueLine) {
        let Some(root) = line.root.as_ref().filter(|root| *root != record) else { return };
        if line.of.as_ref().is_some_and(|of| of.run.is_sampled()) && self.roots.len() < MAX_FIELDS {
            let of = (Rc::clone(process), Rc::clone(record));
            self.roots.entry(of).or_default().note(Rc::clone(root));
        }
    }

    fn unseen(&mut self, unseen: &Unseen, limit: i64) {
        let (since, over) = unseen.even;
        let has_begun = match unseen.open {
            // what was seen at that very moment was there
            true => since < limit,
            false => since <= limit,
        };
        match unseen.kind {
            Kind::Ended if over > limit => return,
            Kind::Ended => {}
            _ if !has_begun => return,
            _ => {}
        }
        // What lasts on, or was over only after the time asked for, leaves nothing certain that was seen before it.
        let until = match unseen.open {
            _ if over > limit => limit.saturating_add(1),
            true => since.saturating_add(1),
            false => over,
        };
        let doubt = Doubt { until, words: unseen.words().into() };
        match (unseen.kind, &unseen.process, &unseen.record) {
            (Kind::LeftOut, process, Some(record)) => {
                self.chains_left_out = self.chains_left_out.saturating_add(unseen.count);
                if let Some(process) = process.as_ref().filter(|_| self.left_out.len() < MAX_FIELDS) {
                    self.left_out.insert((Rc::clone(process), Rc::clone(record)), doubt);
                }
            }
            (Kind::LeftOut, ..) => self.chains_left_out = self.chains_left_out.saturating_add(unseen.count),
            (Kind::Ended, Some(process), _) => {
                let words = unseen.words();
                let ended = ((unseen.since, unseen.time), words);
                let Some(of) = self.process(Rc::clone(process)) else { return };
                (of.ended, of.lived.1) = (Some(ended), Some(over));
                for ((of, ..), seen) in &mut self.fields {
                    if of == process {
                        seen.forget_value();
                    }
                }
            }
            (_, Some(process), _) => {
                let Some(of) = self.process(Rc::clone(process)) else { return };
                if unseen.kind == Kind::RunEnd && over <= limit {
                    of.is_left_by(unseen.run);
                } else if unseen.open && over <= limit {
                    of.is_detached(unseen.run);
                }
                of.is_unseen_by(unseen.run, since, doubt);
            }
            (_, None, _) => {
                for of in self.processes.values_mut() {
                    of.is_lost_by(unseen.run, since, &doubt);
                }
            }
        }
    }

    /// Why a value is in doubt.
    fn doubt(&self, (process, record, field): &Key, seen: &Seen) -> Option<&Doubt> {
        let of = self.processes.get(process);
        let place = || (Rc::clone(process), Rc::clone(record));
        let left = (!self.left_out.is_empty()).then(|| self.left_out_with(&place())).flatten();
        let may_be_unfinished = &**field == "VAL" && !self.unfinished.is_empty();
        let unfinished = may_be_unfinished.then(|| self.unfinished.get(&place())).flatten();
        let beside = of.into_iter().flat_map(|of| &of.seen_beside);
        let beside = beside.filter(|beside| beside.doubt.until > seen.even);
        let records = |by: &Recorder| self.recorded.borrow_mut().has(by, record);
        let beside = beside.filter(|beside| beside.doubted_until(records) > seen.even);
        [of.and_then(|of| of.doubt.as_ref()), left, unfinished]
            .into_iter()
            .flatten()
            .chain(beside.map(|beside| &beside.doubt))
            .filter(|doubt| doubt.until > seen.even)
            .max_by_key(|doubt| doubt.until)
    }

    /// The latest of the chains left out in which this record may have processed.
    fn left_out_with(&self, place: &Place) -> Option<&Doubt> {
        let roots = self.roots.get(place);
        let of_roots = match roots.filter(|roots| roots.is_full()) {
            Some(_) => {
                let of_process = self.left_out.iter().filter(|((process, _), _)| *process == place.0);
                of_process.map(|(_, doubt)| doubt).max_by_key(|doubt| doubt.until)
            }
            None => {
                let roots = roots.into_iter().flat_map(Roots::iter);
                let doubts =
                    roots.filter_map(|root| self.left_out.get(&(Rc::clone(&place.0), Rc::clone(root))));
                doubts.max_by_key(|doubt| doubt.until)
            }
        };
        [self.left_out.get(place), of_roots].into_iter().flatten().max_by_key(|doubt| doubt.until)
    }

    /// All fields that were seen, and the value fields of all records that the filter selects, in order of their names.
    /// If a record was in several processes one after the other, only in the last.
    pub fn into_fields(mut self, filter: &Filter) -> Vec<FieldState> {
        // moved and sorted, since there may be very many: a tree would need twice as much
        let mut all: Vec<FieldState> = Vec::with_capacity(self.fields.len());
        let mut shared: HashSet<Rc<str>> = HashSet::new();
        for (key, seen) in std::mem::take(&mut self.fields) {
            let ended = self.processes.get(&key.0).and_then(|process| process.ended.as_ref());
            let doubt = match (seen.is_known(), ended) {
                (_, Some((_, ended))) => Some(ended.clone()),
                (false, None) if seen.source == ValueSource::Process => {
                    Some("its record has processed since, and its value was not recorded".to_owned())
                }
                (false, None) if seen.source == ValueSource::Snapshot => {
                    Some("the recorder could not read it".to_owned())
                }
                (false, None) => Some("a put with an unknown result wrote it".to_owned()),
                (_, None) => {
                    let records = |by: &Recorder| self.recorded.borrow_mut().has(by, &key.1);
                    let blind = self.processes.get(&key.0).and_then(|process| process.blind(&seen, records));
                    let set = self.set_by_processing.is_over(&key);
                    let words = self.doubt(&key, &seen).map(|doubt| &*doubt.words).or(blind).or(set);
                    words.map(|words| format!("may have changed since: {words}"))
                }
            };
            let (of, ended) = (seen.of.clone(), ended.map(|(when, _)| *when));
            let doubt = doubt.map(|words| share(&mut shared, words));
            all.push(FieldState { key, seen: Some(seen), doubt, ended, of, is_namesake: false });
        }
        // no key comes twice, and who keeps the order of equal ones needs as much memory again
        all.sort_unstable_by(|a, b| a.key.cmp(&b.key));
        let seen = all.len();
        let value: Rc<str> = "VAL".into();
        let mut processes: Vec<(&Rc<IocProcess>, &Process)> = self.processes.iter().collect();
        processes.sort_unstable_by_key(|(process, _)| *process);
        for (process, about) in processes {
            let Some(Recorder { run, ioc, .. }) = &about.of else { continue };
            let context = run.context();
            for record in context.records().filter(|record| record.ioc == *ioc) {
                let wanted = filter.field(record.name, "VAL") && filter.place(&process.host, &process.ioc);
                if !wanted || !has_value(&context, record.id) || all.len() >= MAX_FIELDS {
                    continue;
                }
                let key = (Rc::clone(process), Rc::from(record.name), Rc::clone(&value));
                let known = all.get(..seen).unwrap_or_default();
                if known.binary_search_by(|field| field.key.cmp(&key)).is_ok() {
                    continue;
                }
                let ended = about.ended.as_ref().map(|(when, _)| *when);
                let words = about.ended.as_ref().map(|(_, words)| words.clone());
                let doubt = words.unwrap_or_else(|| "it was not seen before".to_owned());
                let of = Of { run: Rc::clone(run), record: record.id, field: None };
                let (doubt, of) = (Some(share(&mut shared, doubt)), Some(of));
                all.push(FieldState { key, seen: None, doubt, ended, of, is_namesake: false });
            }
        }
        if all.len() > seen {
            all.sort_by(|a, b| a.key.cmp(&b.key));
            all.dedup_by(|later, earlier| later.key == earlier.key);
        }
        let gone = self.replaced(&all);
        if !gone.is_empty() {
            all.retain(|FieldState { key: (process, record, _), .. }| {
                !gone.contains(&(Rc::clone(process), Rc::clone(record)))
            });
        }
        let mut names: HashMap<(Rc<str>, String), HashSet<Rc<IocProcess>>> = HashMap::new();
        let name = |of: &IocProcess| (Rc::clone(&of.host), without_pid(&of.ioc, of.pid).to_owned());
        let mut latest = None;
        for FieldState { key: (process, ..), .. } in &all {
            if latest != Some(process) {
                names.entry(name(process)).or_default().insert(Rc::clone(process));
                latest = Some(process);
            }
        }
        let several = |process: &IocProcess| {
            let others = names.get(&name(process)).into_iter().flatten();
            others.filter(|other| ***other != *process).any(|other| self.is_beside(process, other))
        };
        all.iter_mut().for_each(|field| field.is_namesake = several(&field.key.0));
        all
    }

    /// Whether two processes ran side by side, as far as is known: neither had ended before the other was known.
    fn is_beside(&self, one: &IocProcess, other: &IocProcess) -> bool {
        let lived =
            |process: &IocProcess| self.processes.get(process).map_or((None, None), |about| about.lived);
        let (one, other) = (lived(one), lived(other));
        let is_before = |one: (_, Option<i64>), other: (Option<i64>, _)| {
            one.1.zip(other.0).is_some_and(|(over, begun)| begun >= over)
        };
        !is_before(one, other) && !is_before(other, one)
    }

    /// Records of processes that have ended, if the same IOC was started anew since: another process of the same name on
    /// the host, which began after the end of the first and has them, too. An IOC beside it that happens to have a record
    /// of that name takes nothing over.
    fn replaced(&self, all: &[FieldState]) -> HashSet<Place> {
        // of a hundred thousand records the table below takes more than their values, and mostly no IOC has ended
        let ended = self.processes.iter().filter(|(_, about)| about.lived.1.is_some());
        let ended: HashSet<(&str, &str)> = ended.map(|(process, _)| name_of(process)).collect();
        let may_be_replaced = |field: &&FieldState| ended.contains(&name_of(&field.key.0));
        if ended.is_empty() {
            return HashSet::new();
        }
        let mut owners: HashMap<(&str, &str, &str), Vec<&Rc<IocProcess>>> = HashMap::new();
        for FieldState { key: (process, record, _), .. } in all.iter().filter(may_be_replaced) {
            let (host, ioc) = name_of(process);
            let owners = owners.entry((host, ioc, record)).or_default();
            if owners.last().is_none_or(|last| *last != process) {
                owners.push(process);
            }
        }
        let lived = |process: &Rc<IocProcess>| self.processes.get(process).map(|about| about.lived);
        let mut gone = HashSet::new();
        for ((.., record), owners) in owners.into_iter().filter(|(_, owners)| owners.len() > 1) {
            for process in &owners {
                let Some((_, Some(over))) = lived(process) else { continue };
                let is_later = |other: &&Rc<IocProcess>| {
                    lived(other).is_some_and(|(begun, _)| begun.is_some_and(|begun| begun >= over))
                };
                if owners.iter().any(is_later) {
                    gone.insert((Rc::clone(process), Rc::from(record)));
                }
            }
        }
        gone
    }
}

/// Host and name of an IOC, by which it is known after a restart.
fn name_of(process: &IocProcess) -> (&str, &str) {
    (&process.host, without_pid(&process.ioc, process.pid))
}

/// These words, held once.
fn share(shared: &mut HashSet<Rc<str>>, words: String) -> Rc<str> {
    match shared.get(words.as_str()) {
        Some(words) => Rc::clone(words),
        None => {
            let words: Rc<str> = words.into();
            shared.insert(Rc::clone(&words));
            words
        }
    }
}

/// Keeps the doubt that concerns more values.
fn worse(known: &mut Option<Doubt>, doubt: Doubt) {
    if known.as_ref().is_none_or(|known| known.until <= doubt.until) {
        *known = Some(doubt);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iocrec_log::event::{Fact, Record};

    /// Names are looked up when new ones have come. A hostile log names any number of records, which end again.
    #[test]
    fn names_of_records_are_held_up_to_a_bound() {
        let run = Rc::new(Run::new(None));
        let by = Recorder::of(Rc::clone(&run), 1);
        let names = |id, name: &str| {
            let record = Record { id, ioc: 1, address: 1, name: name.into(), rtype: "ai".into() };
            run.apply(0, &Fact::from(record));
        };
        let mut recorded = Recorded::default();
        names(1, "A");
        assert!(recorded.has(&by, "A") && !recorded.has(&by, "B"));
        names(2, "B");
        assert!(recorded.has(&by, "B"));
        recorded.held = MAX_HELD;
        names(3, "C");
        assert!(!recorded.has(&by, "C") && recorded.has(&by, "A"));
        assert_eq!(recorded.held, MAX_HELD);
        let mut recorded = Recorded { looked: MAX_LOOKED, ..Recorded::default() };
        assert!(!recorded.has(&by, "A"));
    }

    /// What comes late of a recorder that began earlier makes it no later one.
    #[test]
    fn a_recorder_whose_begin_is_read_late_does_not_count_as_the_last() {
        let [one, other] = [0, 0].map(|_| Rc::new(Run::new(None)));
        let counts = |process: &Process| process.of.as_ref().map(|of| address(&of.run));
        let mut process = Process::default();
        process.is_recorded(Rc::clone(&one), 1, 500);
        process.is_attached(address(&one), 600);
        process.is_recorded(Rc::clone(&other), 1, 100);
        process.is_attached(address(&other), 200);
        assert_eq!(counts(&process), Some(address(&one)));
        assert!(process.beside.iter().any(|beside| beside.attached == Some(200)));
        // its probes are placed anew
        process.is_attached(address(&other), 700);
        assert_eq!(counts(&process), Some(address(&other)));
    }
}
