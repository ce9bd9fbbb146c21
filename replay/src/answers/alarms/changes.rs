//! Changes of alarms, made of chains and of the facts beside them.
//!
//! Chains come in the order in which they began, the alarms that they show come later, and a loss is noted up to a
//! second after it happened. So alarms wait until nothing that is earlier can come.

use crate::answers::processes::{Process, Processes};
use crate::filter::Filter;
use crate::model::alarms::{Alarm, AlarmLine, Alarms as Fold, Ending, Place, Source, State, Until, What};
use crate::model::asides::{Aside, What as Beside};
use crate::model::base_types::{collects, MAX_LOCK};
use crate::model::chain::{Chain, Outcome as End, PutSpan, SpanKind};
use crate::model::history::processes;
use crate::model::names::address;
use crate::model::numbered::Keyed;
use crate::model::origins::{self, is_value, Cause, Inputs, Number, Origins};
use crate::model::putlog::{each_put, each_put_with_ids, PutLine};
use crate::model::roots::Roots;
use crate::model::run::{has_value, Run};
use crate::model::span_ids::{span_ids, trace_id, Ids, SpanId};
use crate::model::{enum_strings, outcome};
use crate::names::{is_lost, lost, number_of};
use crate::reading::runs::course::passed;
use crate::time::SECOND;
use crate::words::counted;
use epics::alarm::{DISABLE, INVALID, SCAN, UDF};
use iocrec_log::event::{Fact, Ioc, LossSource, RecordId, Snapshot, Tier, Value};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::rc::Rc;

/// Time that an alarm waits for a loss that is noted after it.
const WAIT: i64 = 2 * SECOND as i64;
/// Alarms that wait, 10 MB. Where more change within [`WAIT`], the first of them don't wait any longer, and are counted:
/// they may lack a loss that is noted after them.
const MAX_WAITING: usize = 20_000;
/// Alarms that wait even so, since earlier ones may come; a bound for hostile logs.
const MAX_DISORDERED: usize = 40_000;
/// Why an alarm may change at any time, unless the record is read again.
const BLIND: &str = "the processing of its records is not recorded";
/// Why it may have changed since the record was last seen to complete.
const LEFT: &str = "the run of its recorder has ended, and later logs don't tell of it";
/// The same.
const UNFINISHED: &str = "it has processed since, and was not seen to complete";
/// Time before the end in which a recorder that ends lets go of its IOCs: not unseen, for all that anybody asks.
pub const LETTING_GO: i64 = 2 * SECOND as i64;
/// Losses and the like that are remembered; a bound for hostile logs.
const MAX_LOSSES: usize = 10_000;

/// What is known of a record's alarm before it is sorted.
#[derive(Clone, Copy, Default)]
struct Last {
    /// The number by which its alarms go, plus 1: that of the same record in an earlier run, if there is one. 0 until it
    /// was asked for.
    own: u32,
    /// Time and alarm of the last state that was taken, and how it is known.
    taken: Moment,
    alarm: Option<Alarm>,
    source: Source,
    /// When its alarm was last seen.
    seen: Moment,
    /// The run that showed it.
    run: usize,
    /// When it last began to process and was not seen to complete, which may have changed its alarm.
    open: Moment,
    process: Option<u32>,
    /// When it last began to process.
    began: Moment,
    /// Whether it was read last where its processing is not recorded.
    is_blind: bool,
    /// How often it has had to process since it began to, that first time included; 0 if that was not seen. Counts to the alarm
    /// SCAN.
    calls: u8,
}

const _: () = assert!(size_of::<Last>() <= 64);

/// A time, if there is one: a hundred thousand records have some each.
#[derive(Clone, Copy)]
struct Moment(i64);

impl Moment {
    fn get(self) -> Option<i64> {
        Some(self.0).filter(|time| *time != i64::MIN)
    }
}

impl Default for Moment {
    fn default() -> Self {
        Moment(i64::MIN)
    }
}

impl Last {
    /// Time and alarm of the last state that was taken, and how it is known.
    fn taken(&self) -> Option<(i64, Option<Alarm>, Source)> {
        Some((self.taken.get()?, self.alarm, self.source))
    }

    /// Notes that a state was taken. What comes after a later one, of a chain that lasted longer, is not the last.
    fn take(&mut self, time: i64, alarm: Option<Alarm>, source: Source) {
        if self.taken.0 <= time {
            (self.taken, self.alarm, self.source) = (Moment(time), alarm, source);
        }
    }

    /// The process that it belongs to, if known.
    fn process(&self) -> Option<usize> {
        usize::try_from(self.process?).ok()
    }
}

/// A record's state, and the run that shows it; that of one that got the alarm SCAN, if it was not INVALID; that of one that
/// was not seen to complete, if nothing was lost; or the acknowledgement of its alarm.
#[allow(clippy::large_enum_variant)] // each waits in a box of its own, and nearly all are states
enum Waiting {
    State(Number, usize, State),
    Busy(Number, usize, State),
    Skipped(Number, usize, State),
    Acknowledged(Option<Number>, Box<PutLine>),
}

/// A chain, when the earliest began that was yet to come, and the put that is its root, if that is at hand.
struct Begun {
    earliest: i64,
    chain: Chain,
    root: Option<Rc<PutLine>>,
}

/// A time in which something of a run may have been missed: chains that begin with a record, or anything.
struct Loss {
    run: usize,
    host: Rc<str>,
    root: Option<RecordId>,
    from: i64,
    to: i64,
    cause: Rc<str>,
}

impl Loss {
    /// Whether a run that came at a time may not have seen what was lost of a process on this host: in the run itself, or in
    /// another one before it came.
    fn bears(&self, run: usize, came: i64, host: &str) -> bool {
        self.run == run || self.root.is_none() && self.from < came && *self.host == *host
    }
}

/// The changes of alarms that match a filter, in order of time; then the alarms that still last.
///
/// Takes chains in the order in which they began, and the facts beside them in any. Ask for the lines after each chain.
pub struct Changes<'a> {
    filter: &'a Filter,
    minimum: u16,
    with_ids: bool,
    processes: Rc<Processes>,
    /// The next chain, and when it began: all earlier alarms can be taken.
    chain: Option<Begun>,
    /// When the earliest chain began after the one that is being taken: what is to come is not earlier.
    coming: i64,
    /// Facts beside the chains, by their place in the order of time.
    asides: BTreeMap<(i64, u64), Aside>,
    taken: u64,
    /// The put that is the root of the chain that is being taken.
    root: Option<Rc<PutLine>>,
    origins: Origins,
    last: Vec<Last>,
    /// Boxed: what comes in order leaves half of a tree's places free.
    waiting: BTreeMap<(i64, u64), Box<Waiting>>,
    count: u64,
    /// Alarms that did not wait for losses noted after them.
    hurried: u64,
    losses: VecDeque<Loss>,
    /// When the first fact of each run came that is beside the chains: its recorder was attached to an IOC by then.
    came: HashMap<usize, i64>,
    /// With which records of its latest run the chains of each record began, where chains are sampled.
    roots: Keyed<Number, (usize, Roots<RecordId>)>,
    fold: Fold,
    /// Time of the last state that was taken.
    now: i64,
    until: Option<i64>,
    end: Option<i64>,
    finished: bool,
    /// What clocks skipped, by host.
    leaps: BTreeMap<String, BTreeSet<(i64, i64)>>,
}

impl<'a> Changes<'a> {
    /// Changes with their causes as `origins`, which follows CP links, puts them. `until`, the filter's, and `end`, of the
    /// logs, are places in the order of time.
    pub(crate) fn new(
        filter: &'a Filter,
        processes: Rc<Processes>,
        (until, end): (Option<i64>, Option<i64>),
        origins: Origins,
    ) -> Self {
        Changes {
            until,
            filter,
            minimum: 0,
            with_ids: false,
            processes,
            chain: None,
            coming: i64::MIN,
            asides: BTreeMap::new(),
            taken: 0,
            root: None,
            origins: origins.naming_clients(),
            last: Vec::new(),
            waiting: BTreeMap::new(),
            count: 0,
            hurried: 0,
            losses: VecDeque::new(),
            came: HashMap::new(),
            roots: Keyed::default(),
            fold: Fold::new(false),
            now: i64::MIN,
            end,
            finished: false,
            leaps: BTreeMap::new(),
        }
    }

    /// Takes what the clocks of hosts skipped: no alarm lasted then.
    pub(crate) fn skipping(mut self, leaps: BTreeMap<String, BTreeSet<(i64, i64)>>) -> Self {
        self.leaps = leaps;
        self
    }

    /// Gives all changes, also those of records that flap.
    pub fn with_all(mut self) -> Self {
        self.fold = Fold::new(true);
        self
    }

    /// Gives changes without how long alarms lasted, as soon as the rest is known.
    pub fn without_durations(mut self) -> Self {
        self.fold = self.fold.without_durations();
        self
    }

    /// Leaves out changes that neither come from nor lead to a severity of at least this.
    pub fn at_least(mut self, severity: u16) -> Self {
        self.minimum = severity;
        self
    }

    /// Gives each change the ids of its span.
    pub fn with_ids(mut self) -> Self {
        self.with_ids = true;
        self
    }

    /// Whether the line is wanted.
    fn wants(&self, line: &AlarmLine) -> bool {
        let Place { host, ioc, record, .. } = &line.place;
        let severity = |alarm: Option<Alarm>| alarm.is_some_and(|alarm| alarm.0 >= self.minimum);
        let severe = match line.what {
            What::Change => severity(line.from) || severity(line.to),
            // While it flapped, it may have been severe.
            What::Flapping | What::Acknowledged => true,
            What::Still => severity(line.to),
        };
        let who = |put: Option<&Rc<PutLine>>| {
            !self.filter.asks_who() || put.is_some_and(|put| self.filter.who(put))
        };
        let put = match line.what {
            What::Acknowledged => line.put.as_ref(),
            _ => line.cause.as_ref().and_then(|cause| cause.put.as_ref()),
        };
        let by_input = || line.inputs.iter().flat_map(Inputs::causes).any(|cause| who(cause.put.as_ref()));
        severe
            && (line.what == What::Still || self.filter.time(line.time))
            && self.filter.place(host, ioc)
            && self.filter.field(record, "VAL")
            && (who(put) || by_input())
    }

    /// The number of a record for the origins of its alarms, that for the alarms themselves, and what is known of it.
    fn record(&mut self, run: &Rc<Run>, record: RecordId) -> Option<(Number, Number, &mut Last)> {
        let number = self.origins.number(run, record)?;
        if number >= self.last.len() {
            if number >= self.last.capacity() {
                // a hundred thousand records have one, so not twice as many
                let more = number + 1 - self.last.len() + self.last.len() / 8;
                self.last.reserve_exact(more);
            }
            self.last.resize_with(number + 1, Last::default);
        }
        let mut own = self.last.get(number)?.own;
        if own == 0 {
            let context = run.context();
            let ioc = context.record(record).map(|record| record.ioc);
            let of = run.peers().map(|(_, of)| of);
            let process = ioc.and_then(|ioc| self.processes.number(of, &context, ioc));
            drop(context);
            let before = process.and_then(|process| self.before(run, process, number));
            own = u32::try_from(before.unwrap_or(number)).ok()?.checked_add(1)?;
            let last = self.last.get_mut(number)?;
            (last.own, last.process) = (own, process.and_then(|process| u32::try_from(process).ok()));
        }
        let own = usize::try_from(own).ok()?.checked_sub(1)?;
        Some((number, own, self.last.get_mut(own)?))
    }

    /// The number of the same record of a process as an earlier run of a recorder knew it. Within a run, a process whose
    /// record has another number has become another program, whose records are others.
    fn before(&self, run: &Rc<Run>, process: usize, number: Number) -> Option<Number> {
        let end = self.processes.get(process)?.end.as_ref().and_then(|end| end.wall);
        if end.is_some_and(|end| end < self.now) {
            return None;
        }
        let here = address(run);
        let is_before = |last: &Last| last.process() == Some(process) && last.run != here;
        let is_same = |earlier: &Number| *earlier < number && self.last.get(*earlier).is_some_and(is_before);
        self.origins.named(&self.origins.name(number)).find(is_same)
    }

    fn wait(&mut self, time: i64, waiting: Waiting) {
        if self.until.is_some_and(|until| time >= until) {
            return; // asked for is what was before
        }
        self.count += 1;
        self.waiting.insert((time, self.count), Box::new(waiting));
    }

    /// Whether it has seen anything of the alarm of this process's record.
    pub fn has_seen(&self, process: usize, record: &str) -> bool {
        let is_seen = |last: &Last| last.process() == Some(process) && last.taken().is_some();
        self.origins.named(record).any(|number| self.last.get(number).is_some_and(is_seen))
    }

    /// Takes the next chain, and the put that is its root, if that is at hand: otherwise it is made where it is needed.
    /// `earliest`: neither it nor one that is yet to come begins before ([`Replay::earliest`](crate::model::replay::Replay::earliest)).
    pub fn push(&mut self, chain: Chain, root: Option<Rc<PutLine>>, earliest: i64) {
        self.pass(earliest);
        if self.until.is_none_or(|until| earliest < until) {
            self.settle(earliest.saturating_sub(WAIT));
            self.chain = Some(Begun { earliest, chain, root });
        } else {
            self.end();
        }
    }

    /// Takes a fact beside the chains that was recorded before the next chain begins.
    pub fn aside(&mut self, aside: Aside) {
        self.taken += 1;
        self.asides.insert((aside.run.even(aside.at), self.taken), aside);
    }

    /// There are no more chains: what lasts, lasts until the end.
    pub fn finish(&mut self) {
        self.pass(i64::MAX);
        self.end();
    }

    /// Whether it needs no more chains.
    pub fn is_finished(&self) -> bool {
        self.finished
    }

    /// The number of alarms that may lack a loss that was noted after them.
    pub fn hurried(&self) -> u64 {
        self.hurried
    }

    /// The next line that is ready.
    pub fn line(&mut self) -> Option<AlarmLine> {
        while let Some(line) = self.fold.next_line(self.now) {
            let lasted = line.lasted.map(|lasted| self.passed(&line, lasted));
            let line = AlarmLine { unseen: self.unseen(&line), lasted, ..line }.shown();
            if self.wants(&line) {
                return Some(line);
            }
        }
        None
    }

    /// How much of the time that an alarm lasted by the clock has passed.
    fn passed(&self, line: &AlarmLine, lasted: i64) -> i64 {
        let leaps = self.leaps.get(&*line.place.host).into_iter().flatten();
        passed((line.time, line.time.saturating_add(lasted)), leaps).max(0)
    }

    /// Why not all was recorded for a while in which the alarm may have been over: it was the same before and after.
    fn unseen(&self, line: &AlarmLine) -> Option<Rc<str>> {
        let lasted = line.lasted.filter(|_| line.what != What::Flapping)?;
        let over = line.time.saturating_add(lasted);
        let process = line.place.process?;
        let mut unseen = self.processes.get(process)?.unseen.iter();
        match unseen.find(|unseen| line.time <= unseen.from && unseen.to < over) {
            Some(within) => Some(format!("not recorded: {}", within.cause).into()),
            None => self.lost_within(process, line, over),
        }
    }

    /// What was lost while an alarm lasted.
    fn lost_within(&self, process: usize, line: &AlarmLine, over: i64) -> Option<Rc<str>> {
        let is_within = |loss: &&Loss| line.time <= loss.from && loss.from < over;
        let mut lost = self.losses.iter().filter(is_within).peekable();
        lost.peek()?; // mostly there is none
        let is_it =
            |number: &Number| self.last.get(*number).is_some_and(|last| last.process() == Some(process));
        let number = self.origins.named(&line.place.record).find(is_it)?;
        let run = self.last.get(number)?.run;
        let roots = self.roots.get(&number).filter(|(of, _)| *of == run).map(|(_, roots)| roots);
        let concerns = |root: &RecordId| roots.is_some_and(|roots| roots.may_be(root));
        let came = self.came.get(&run).copied().unwrap_or(i64::MIN);
        let host = &*line.place.host;
        let found =
            lost.find(|loss| loss.bears(run, came, host) && loss.root.as_ref().is_none_or(concerns))?;
        Some(Rc::clone(&found.cause))
    }

    /// Takes the alarms of the last chain, and the facts beside it: the next one begins then.
    fn pass(&mut self, until: i64) {
        self.coming = until;
        if let Some(Begun { earliest, chain, root }) = self.chain.take() {
            self.root = root;
            self.walk(&chain, &chain, &mut None);
            self.root = None;
            self.now = self.now.max(earliest.saturating_sub(WAIT));
        }
        while let Some(first) = self.asides.first_entry().filter(|first| first.key().0 < until) {
            let aside = first.remove();
            self.beside(aside);
        }
    }

    fn walk(&mut self, top: &Chain, chain: &Chain, cause: &mut Option<Rc<Cause>>) {
        let mut acknowledges = false;
        let mut ids = None;
        for (place, span) in chain.spans.iter().enumerate() {
            match &span.kind {
                SpanKind::Process(process) => {
                    let (begun, time) = (chain.run.even(span.start), chain.run.even(span.end));
                    let ahead = chain.run.wall(span.end).saturating_sub(time);
                    match &process.outcome {
                        _ if collects(&chain.run.context(), process) => {}
                        End::Completed(done) => {
                            let alarm = (done.severity, done.status);
                            self.completed(
                                top,
                                (chain, place, &mut ids),
                                process.record,
                                begun,
                                (time, ahead, span.end),
                                alarm,
                                &done.value,
                                cause,
                            );
                        }
                        // what it did is not known
                        End::Open | End::Entered { .. } => {
                            if let Some((.., last)) = self.record(&chain.run, process.record) {
                                last.open = Moment(last.open.0.max(begun));
                                last.calls = 1;
                            }
                        }
                        End::Waiting => {
                            if let Some((.., last)) = self.record(&chain.run, process.record) {
                                last.calls = 1;
                            }
                        }
                        End::Active => {
                            let ahead = chain.run.wall(span.start).saturating_sub(begun);
                            self.busy(top, chain, process.record, (begun, ahead), cause);
                        }
                        // It may have another alarm then: DISABLE, with the severity of its DISS.
                        End::Disabled => {
                            self.disabled(chain, process.record, (time, ahead), Waiting::State);
                        }
                        End::Skipped => {
                            self.disabled(chain, process.record, (time, ahead), Waiting::Skipped);
                        }
                    }
                }
                SpanKind::Put(put) => {
                    let context = chain.run.context();
                    acknowledges |= outcome::acknowledges(&context, put);
                    if let Some(record) = put.record.filter(|_| is_value(&context, put)) {
                        drop(context);
                        self.written(top, (chain, place), (put, record), cause);
                    } else if self.origins.follows_inputs() {
                        drop(context);
                        self.field_written(top, (chain, place), put, cause);
                    }
                }
                SpanKind::Link(link) => {
                    if let Some(target) = &link.target {
                        self.walk(top, target, cause);
                    }
                }
            }
        }
        if acknowledges {
            let mut found = Vec::new();
            match self.with_ids {
                true => each_put_with_ids(chain, true, &mut |put| found.push(put)),
                false => each_put(chain, true, &mut |put| found.push(put)),
            }
            for put in found.into_iter().filter(|put| put.acknowledges.is_some()) {
                let acknowledged = chain.spans.iter().find_map(|span| match &span.kind {
                    SpanKind::Put(put) => put.record,
                    _ => None,
                });
                let number = match acknowledged {
                    Some(record) => self.record(&chain.run, record).map(|(_, own, _)| own),
                    None => self.named(&put),
                };
                self.wait(put.even, Waiting::Acknowledged(number, Box::new(put)));
            }
        }
    }

    /// The only record that a put can mean that was seen on the network alone.
    fn named(&self, put: &PutLine) -> Option<Number> {
        let of_ioc = |number: &Number| {
            let process = self.last.get(*number).and_then(|last| self.processes.get(last.process()?));
            process.is_some_and(|process| {
                Some(&*process.ioc) == put.ioc.as_deref() && Some(&*process.host) == put.host.as_deref()
            })
        };
        let mut numbers = self.origins.named(put.record.as_deref()?).filter(of_ioc);
        numbers.next().filter(|_| numbers.next().is_none())
    }

    /// Notes with which record a chain began in which this one processed.
    fn note_root(&mut self, number: Number, chain: &Chain) {
        let Some(SpanKind::Process(root)) = chain.root().map(|root| &root.kind) else { return };
        let run = address(&chain.run);
        let known = self.roots.entry(number).or_default();
        if known.0 != run {
            *known = (run, Roots::default());
        }
        known.1.note(root.record);
    }

    /// A record has processed.
    #[allow(clippy::too_many_arguments)]
    fn completed(
        &mut self,
        top: &Chain,
        (chain, place, ids): (&Chain, usize, &mut Option<Vec<SpanId>>),
        record: RecordId,
        begun: i64,
        (time, ahead, at): (i64, i64, u64),
        alarm: Alarm,
        value: &Value,
        cause: &mut Option<Rc<Cause>>,
    ) {
        // otherwise a chain that is still to come may change the alarm before
        let is_next = time < self.coming;
        let Some((number, own_number, last)) = self.record(&chain.run, record) else { return };
        let seen = last.seen.get();
        if last.seen.0 <= time {
            (last.seen, last.run) = (Moment(time), address(&chain.run));
        }
        (last.is_blind, last.calls) = (false, 1);
        let began = std::mem::replace(&mut last.began, Moment(begun)).get();
        let before = last.taken();
        let as_before = before.is_some_and(|(taken, before, source)| {
            // that it processed at all is news of an alarm that records begin with
            let is_later = source == Source::Process || begun > taken && alarm.1 != UDF;
            taken <= time && before == Some(alarm) && is_later
        });
        let as_before = as_before && is_next;
        if !as_before {
            last.take(time, Some(alarm), Source::Process);
        }
        if chain.run.is_sampled() {
            self.note_root(own_number, chain);
        }
        let turns = match self.origins.is_followed(number) {
            true => self.origins.state(number, begun, value, alarm),
            false => None,
        };
        if let Some(turns) = turns {
            let cause = cause.get_or_insert_with(|| self.origins.cause(top, self.root.as_deref()));
            let by = origins::processing(top, chain, place, turns.before);
            self.origins.changed(number, (begun, time), origins::key(top), turns, by, cause);
        }
        if as_before {
            return;
        }
        let cause = Rc::clone(cause.get_or_insert_with(|| self.origins.cause(top, self.root.as_deref())));
        let own = origins::processing(top, chain, place, began);
        let inputs = self.origins.behind(&cause, own.as_ref());
        let cause = Some(cause);
        let context = chain.run.context();
        let (value, text) = match has_value(&context, record) {
            true => {
                let text = enum_strings::state(&context, record, at, value);
                (value.clone(), text.map(String::into_boxed_str))
            }
            false => (Value::Unknown, None),
        };
        drop(context);
        let (alarm, source, gap) = (Some(alarm), Source::Process, None);
        let trace = self.with_ids.then(|| trace_id(top)).flatten();
        let span = trace.and_then(|trace| {
            let ids = ids.get_or_insert_with(|| span_ids(chain));
            Some(Box::new(Ids { trace, span: *ids.get(place)? }))
        });
        let unprocessed = false;
        let state = State {
            time,
            ahead,
            begun,
            alarm,
            value,
            text,
            cause,
            inputs,
            source,
            seen,
            gap,
            unprocessed,
            span,
        };
        self.wait(time, Waiting::State(own_number, address(&chain.run), state));
    }

    /// A put to a record's value, which others may follow by CP links or read.
    fn written(
        &mut self,
        top: &Chain,
        (chain, place): (&Chain, usize),
        (put, record): (&PutSpan, RecordId),
        cause: &mut Option<Rc<Cause>>,
    ) {
        let Some((number, ..)) = self.record(&chain.run, record) else { return };
        if !self.origins.is_followed(number) {
            return;
        }
        let end = chain.spans.get(place).map_or(0, |span| span.end);
        let time = chain.run.even(put.written.unwrap_or(end));
        let dbf = put.field.and_then(|field| chain.run.context().field(field).map(|field| field.dbf));
        let turns = self.origins.written(number, put, dbf, processes(chain, place, put, "VAL"));
        let cause = cause.get_or_insert_with(|| self.origins.cause(top, self.root.as_deref()));
        self.origins.changed(number, (time, time), origins::key(top), turns, None, cause);
    }

    /// A put to another field of a record than its value.
    fn field_written(
        &mut self,
        top: &Chain,
        (chain, place): (&Chain, usize),
        put: &PutSpan,
        cause: &mut Option<Rc<Cause>>,
    ) {
        let context = chain.run.context();
        let Some(field) = put.field.and_then(|field| context.field(field)) else { return };
        // a put to a link shows no `dbPut`
        let has_written = (put.wrote || field.dbf.is_link()) && !put.only_processes;
        let Some(record) = put.record.filter(|_| has_written && field.name != "PROC") else { return };
        let (name, dbf) = (field.name.clone(), field.dbf);
        drop(context);
        let number = self.record(&chain.run, record).map(|(number, ..)| number);
        let end = chain.spans.get(place).map_or(0, |span| span.end);
        let at = put.written.unwrap_or(end);
        let cause = cause.get_or_insert_with(|| self.origins.cause(top, self.root.as_deref()));
        self.origins.field_written((chain, number), (record, at), (&name, dbf), put, cause);
    }

    /// A record had to process that was active. dbProcess does nothing then, but for the alarm that it gives one that is
    /// active for long: no hit shows that.
    fn busy(
        &mut self,
        top: &Chain,
        chain: &Chain,
        record: RecordId,
        (time, ahead): (i64, i64),
        cause: &mut Option<Rc<Cause>>,
    ) {
        if chain.run.is_sampled() {
            return; // it may have had to more often
        }
        let run = address(&chain.run);
        let Some((_, number, last)) = self.record(&chain.run, record) else { return };
        if last.calls == 0 || last.calls > MAX_LOCK + 1 || last.run != run {
            return;
        }
        last.calls += 1;
        if last.calls <= MAX_LOCK + 1 {
            return;
        }
        // what is lost since it began may be its completion
        let seen = last.began.get().or(last.seen.get()).filter(|seen| *seen <= time);
        last.seen = Moment(last.seen.0.max(time));
        let alarm = Some((INVALID, SCAN));
        last.take(time, alarm, Source::Process);
        let cause = Rc::clone(cause.get_or_insert_with(|| self.origins.cause(top, self.root.as_deref())));
        let state = State { ahead, alarm, cause: Some(cause), seen, ..unknown(time) };
        self.wait(time, Waiting::Busy(number, run, state));
    }

    fn disabled(
        &mut self,
        chain: &Chain,
        record: RecordId,
        (time, ahead): (i64, i64),
        waiting: fn(Number, usize, State) -> Waiting,
    ) {
        let is_next = time < self.coming;
        let Some((_, number, last)) = self.record(&chain.run, record) else { return };
        last.calls = 1;
        // It has the alarm DISABLE until it processes: dbProcess gives it once, with the severity of its DISS then.
        let is_known = |alarm: Option<Alarm>| alarm.is_none_or(|(_, status)| status == DISABLE);
        if last.taken().is_some_and(|(taken, alarm, _)| is_next && taken <= time && is_known(alarm)) {
            return;
        }
        let seen = last.seen.get();
        last.take(time, None, Source::Process);
        let state = State { seen, ahead, ..unknown(time) };
        self.wait(time, waiting(number, address(&chain.run), state));
    }

    /// Takes a fact beside the chains in its turn.
    fn beside(&mut self, aside: Aside) {
        let Aside { time: shown, at, run, what } = aside;
        let time = run.even(at);
        let key = address(&run);
        self.came.entry(key).or_insert(time);
        match what {
            Beside::Fact(Fact::Snapshot(snapshot)) => {
                self.snapshot(&run, (time, shown.saturating_sub(time)), at, snapshot)
            }
            Beside::Fact(Fact::Loss(loss)) if loss.source == LossSource::Hits => {
                let cause = format!("{}: {}", lost(&loss), loss.cause);
                self.missed(&run, None, (run.even(loss.since), time), cause);
            }
            Beside::Fact(Fact::Loss(loss)) if loss.source == LossSource::Storage && is_lost(&loss) => {
                let cause = format!("{} not stored: {}", number_of(loss.count, "events"), loss.cause);
                self.missed(&run, None, (run.even(loss.since), time), cause);
            }
            Beside::Fact(Fact::ChainsLeftOut(left)) => {
                let cause = format!("{} left out by chain sampling", counted(left.count, "chain"));
                self.missed(&run, Some(left.record), (run.even(left.since), time), cause);
            }
            Beside::Missing => {
                let (from, cause) = (run.even(at), "a part of the log is missing".to_owned());
                self.missed(&run, None, (from, from.saturating_add(1)), cause);
            }
            Beside::Fact(_) | Beside::Said(_) => {}
        }
    }

    fn missed(&mut self, run: &Rc<Run>, root: Option<RecordId>, (from, to): (i64, i64), cause: String) {
        if self.losses.len() >= MAX_LOSSES {
            self.losses.pop_front();
        }
        let (host, cause) = (run.host().into(), cause.into());
        self.losses.push_back(Loss { run: address(run), host, root, from, to, cause });
    }

    /// The recorder has read a record.
    fn snapshot(&mut self, run: &Rc<Run>, (time, ahead): (i64, i64), at: u64, snapshot: Snapshot) {
        let Snapshot { record, value, severity, status, stamp } = snapshot;
        let alarm = (severity, status);
        let is_blind = is_blind(run, record);
        let Some((number, own, last)) = self.record(run, record) else { return };
        let seen = last.seen.get();
        if last.seen.0 <= time {
            last.seen = Moment(time);
            // what it processes in is what it was seen in before
            last.run = address(run);
        }
        last.is_blind = is_blind;
        let as_before = last.taken().is_some_and(|(taken, before, _)| taken <= time && before == Some(alarm));
        if !as_before {
            last.take(time, Some(alarm), Source::Snapshot);
        }
        self.origins.read_state(number, &value, alarm);
        if as_before {
            return;
        }
        let text = enum_strings::state(&run.context(), record, at, &value).map(String::into_boxed_str);
        let state = State {
            alarm: Some(alarm),
            value,
            text,
            source: Source::Snapshot,
            seen,
            ahead,
            // Another alarm is none that records begin with: it was disabled, or has processed with a time of device
            // support (TSE -2) that gives it none.
            unprocessed: stamp.is_none() && status == UDF,
            gap: (is_blind && seen.is_some()).then(|| BLIND.into()),
            ..unknown(time)
        };
        self.wait(time, Waiting::State(own, address(run), state));
    }

    /// Passes what waits to the fold: what is older than `before`, and, where too much waits, the first of it.
    fn settle(&mut self, before: i64) {
        loop {
            let waiting = self.waiting.len();
            let Some(first) = self.waiting.first_entry() else { break };
            let time = first.key().0;
            let due = time < before;
            // nothing earlier comes after it
            let in_order = time < before.saturating_add(WAIT);
            let too_many = waiting > if in_order { MAX_WAITING } else { MAX_DISORDERED };
            if !due && !too_many {
                break;
            }
            self.hurried += u64::from(!due);
            let ((time, _), waiting) = first.remove_entry();
            self.now = self.now.max(time);
            let is_skipped = matches!(*waiting, Waiting::Skipped(..));
            match *waiting {
                // dbProcess leaves it as it is
                Waiting::Busy(number, ..)
                    if self.fold.alarm(number).is_none_or(|known| known.0 >= INVALID) => {}
                Waiting::State(number, run, mut state)
                | Waiting::Busy(number, run, mut state)
                | Waiting::Skipped(number, run, mut state) => {
                    let known = Known {
                        processes: &self.processes,
                        origins: &self.origins,
                        last: &self.last,
                        losses: &self.losses,
                        came: &self.came,
                        roots: &self.roots,
                    };
                    let missed = state.seen.and_then(|seen| known.missed_between(number, run, seen, time));
                    if is_skipped && missed.is_some() {
                        continue; // its end may be what was lost
                    }
                    state.gap = missed.or(state.gap);
                    let place = || known.place(number);
                    self.fold.take(number, place, state);
                }
                Waiting::Acknowledged(number, put) => {
                    let text = |text: Option<&str>| Rc::from(text.unwrap_or_default());
                    let last = number.and_then(|number| self.last.get(number));
                    let (process, lasts) =
                        (last.and_then(Last::process), !last.is_some_and(|last| last.is_blind));
                    let (host, ioc, record) =
                        (put.host.as_deref(), put.ioc.as_deref(), put.record.as_deref());
                    let (host, ioc, record) = (text(host), text(ioc), text(record));
                    self.fold.acknowledge(number, Place { host, ioc, record, process }, *put, lasts);
                }
            }
        }
    }

    /// Ends the log.
    fn end(&mut self) {
        if std::mem::replace(&mut self.finished, true) {
            return;
        }
        let until = self.until.unwrap_or(i64::MAX);
        self.settle(until);
        let (processes, end) = (&self.processes, self.end.unwrap_or(self.now));
        let known = Known {
            processes,
            origins: &self.origins,
            last: &self.last,
            losses: &self.losses,
            came: &self.came,
            roots: &self.roots,
        };
        let until_when = |number: Number, place: &Place| {
            let process = place.process.and_then(|process| processes.get(process));
            let ended = process.and_then(|process| process.end.as_ref()?.wall).filter(|end| *end < until);
            let recorded = process.and_then(|process| process.until).unwrap_or(end);
            // nobody knows what became of it
            let is_left = |process: &Process| process.replaced.is_some() || process.is_left;
            let is_left =
                ended.is_none() && process.is_some_and(is_left) && recorded.saturating_add(1) < until;
            let (time, until) = match ended {
                Some(ended) => (ended, Until::IocEnd),
                None => (recorded.min(until), Until::LogEnd),
            };
            let last = self.last.get(number).and_then(|last| Some((last.seen.get()?, last)));
            let Some((seen, last)) = last else { return Ending { time, until, gap: None } };
            let lasts = time.saturating_sub(LETTING_GO);
            let gap: Option<Rc<str>> = match last.is_blind {
                true => Some(BLIND.into()),
                false if last.open.get().is_some_and(|open| seen < open && open < lasts) => {
                    Some(UNFINISHED.into())
                }
                false if is_left => Some(LEFT.into()),
                false => known.missed_between(number, last.run, seen, lasts),
            };
            match gap {
                Some(gap) => Ending { time: seen, until: Until::Gap, gap: Some(gap) },
                None => Ending { time, until, gap: None },
            }
        };
        self.fold.finish(|number| known.place(number), until_when);
    }
}

/// Whether nothing shows what a record does between two readings.
fn is_blind(run: &Run, record: RecordId) -> bool {
    let context = run.context();
    let by_packets = context.tier().is_some_and(|choice| choice.tier == Tier::Packet);
    let ioc = context.record(record).and_then(|record| context.ioc(record.ioc));
    by_packets || ioc.is_some_and(Ioc::leaves_out_processing)
}

/// What tells which record a number means.
struct Known<'a> {
    processes: &'a Processes,
    origins: &'a Origins,
    last: &'a [Last],
    losses: &'a VecDeque<Loss>,
    came: &'a HashMap<usize, i64>,
    roots: &'a Keyed<Number, (usize, Roots<RecordId>)>,
}

impl Known<'_> {
    /// What may have been missed of a record between two times, the later one in this run.
    fn missed_between(&self, number: Number, run: usize, from: i64, to: i64) -> Option<Rc<str>> {
        let overlaps = |begin: i64, end: i64| begin < to && end > from;
        let process = self.last.get(number).and_then(Last::process);
        let process = process.and_then(|process| self.processes.get(process));
        let unseen = process.into_iter().flat_map(|process| &process.unseen);
        let unseen = unseen.filter(|unseen| overlaps(unseen.from, unseen.to));
        let mut unseen = unseen.map(|unseen| format!("not recorded: {}", unseen.cause).into());
        unseen.next().or_else(|| {
            let roots = self.roots.get(&number).filter(|(of, _)| *of == run).map(|(_, roots)| roots);
            let concerns = |root: &RecordId| roots.is_some_and(|roots| roots.may_be(root));
            let came = self.came.get(&run).copied().unwrap_or(i64::MIN);
            let host = process.map_or("", |process| &*process.host);
            let mut lost = self.losses.iter().rev().filter(|loss| {
                let bears = loss.bears(run, came, host) && loss.root.as_ref().is_none_or(concerns);
                bears && overlaps(loss.from, loss.to)
            });
            lost.next().map(|loss| Rc::clone(&loss.cause))
        })
    }

    fn place(&self, number: Number) -> Place {
        let process = self.last.get(number).and_then(Last::process);
        let known = process.and_then(|process| self.processes.get(process));
        let (host, ioc) =
            known.map(|known| (Rc::clone(&known.host), Rc::clone(&known.ioc))).unwrap_or_default();
        Place { host, ioc, record: self.origins.name(number), process }
    }
}

/// A state of which nothing is known.
fn unknown(time: i64) -> State {
    State {
        time,
        ahead: 0,
        begun: time,
        alarm: None,
        value: Value::Unknown,
        text: None,
        cause: None,
        inputs: Vec::new(),
        source: Source::Process,
        seen: None,
        gap: None,
        unprocessed: false,
        span: None,
    }
}
