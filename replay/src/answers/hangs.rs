//! Threads that stood still though they should have run, and periodic scans that came too late.
//!
//! The recorder looks once a second, so it knows a beginning and an end to a second. The hits of a thread, where they are
//! recorded, tell them better: it was alive at its last hit before, and at its first one after. All else that is not
//! known stays open: so does a hang that a recorder leaves behind when it ends. It lasted for at least that long, and another
//! recorder that comes later says nothing of it.
//!
//! How a hang ended is read on behind the time that is asked for.

use crate::filter::Filter;
use crate::logs::Logs;
use crate::model::caller::seconds_of;
use crate::model::run::Run;
use crate::notices::{Notice, Notices};
use crate::reading::runs::last_event;
use crate::reading::runs::set::SetLater;
use crate::reading::scan::{Blocks, Choose, Part, Scan};
use iocrec_log::clock::can_be_right;
use iocrec_log::context::Context;
use iocrec_log::event::{
    Event, Fact, IocId, Queue, QueueFill, RecordId, ScanListId, ScanOverruns, Stuck, StuckEnd, ThreadId, Wait,
};
use iocrec_log::reader::{About, Cause, Choice, SegmentFile};
use std::cell::OnceCell;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

/// Most rows of a run; a bound for hostile logs.
const MAX_ROWS: usize = 10_000;
/// Hangs that late scans are compared with; the same.
const MAX_COMPARED: usize = 1000;
/// Threads whose hits are followed; the same.
const MAX_THREADS: usize = 10_000;
/// Earlier holders of a mutex that are told of a hang.
const MAX_BEFORE: usize = 8;
/// The clock may have been corrected within a segment, and a hang is told some seconds after it began; nanoseconds.
const MARGIN: i64 = 60_000_000_000;
/// The recorder has looked within this time before an IOC's end: it does so once a second; nanoseconds.
const LOOKED: u64 = 2_000_000_000;
/// Nanoseconds of a second.
const SECOND: f64 = 1e9;

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It lasts, as far as the log goes.
    No,
    /// The thread runs again.
    Runs,
    /// The thread has ended.
    Thread,
    /// The IOC has ended.
    Ioc,
    /// It is over, but its end is in a part of the log that is missing.
    Unseen,
    /// Its recorder's log ends before it, and another one's of that host tells of later times: it is not known how it ended.
    Recorder,
    /// It may be over: after it was told last, a part of the log is missing, and no later segment tells of it.
    Missed,
}

impl Ended {
    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Ended::No => "open",
            Ended::Runs => "runs",
            Ended::Thread => "thread_ended",
            Ended::Ioc => "ioc_ended",
            Ended::Unseen => "unseen",
            Ended::Recorder => "recorder_ended",
            Ended::Missed => "not_known",
        }
    }
}

/// What a row is about.
#[derive(Clone, Debug, PartialEq)]
pub enum What {
    /// A thread stood still.
    Stuck {
        /// The fact, as it was told last.
        stuck: Box<Stuck>,
        /// How it ended.
        ended: Ended,
        /// The holders before, if they changed: the sentences about them.
        before: Vec<String>,
        /// Name of the record.
        record: Option<String>,
        /// Name of the holder's record.
        holder_record: Option<String>,
    },
    /// Scans came too late.
    Overruns {
        /// The list.
        list: String,
        /// How many.
        count: u64,
        /// The record that took longest on that thread, and the seconds that it took itself.
        longest: Option<(String, f64)>,
    },
    /// A queue of callbacks filled or overflowed.
    Queue {
        /// The fact, as it was told last.
        fill: Box<QueueFill>,
        /// Name of the record.
        record: Option<String>,
    },
}

/// A row of the listing. Times are wall-clock, nanoseconds since 1970 UTC.
#[derive(Clone, Debug, PartialEq)]
pub struct Hang {
    /// Its beginning, as well as it is known.
    pub time: i64,
    /// Its end, likewise; `None`: it lasts, or its end is not known.
    pub end: Option<i64>,
    /// If its end is not known: until when it was watched.
    pub watched: Option<i64>,
    /// Host; empty if unknown.
    pub host: String,
    /// The IOC; empty if unknown.
    pub ioc: String,
    /// Its process.
    pub pid: Option<u32>,
    /// The least and the most seconds that it may have lasted.
    pub seconds: (f64, Option<f64>),
    /// What it is.
    pub what: What,
    /// A sentence about it.
    pub text: String,
}

impl Hang {
    /// Whether it lay in a span of time.
    pub fn is_in(&self, from: i64, to: i64) -> bool {
        self.time <= to && self.may_last(from)
    }

    /// Whether it may have lasted until this time, as far as it was watched.
    fn may_last(&self, time: i64) -> bool {
        self.end.or(self.watched).is_none_or(|end| end >= time)
    }

    /// The records that it names.
    pub fn records(&self) -> impl Iterator<Item = &str> {
        let (one, other) = match &self.what {
            What::Stuck { record, holder_record, .. } => (record.as_deref(), holder_record.as_deref()),
            What::Queue { record, .. } => (record.as_deref(), None),
            What::Overruns { longest, .. } => (longest.as_ref().map(|(name, _)| name.as_str()), None),
        };
        one.into_iter().chain(other)
    }
}

/// A hang in monotonic times.
struct Raw {
    stuck: Box<Stuck>,
    names: [Option<String>; 2],
    place: (String, Option<u32>),
    before: Vec<String>,
    sentence: String,
    /// Until when it certainly stood, and when that was over.
    end: Option<(u64, u64, Ended)>,
    /// When a part of the log began that is missing, if it was not told of since.
    missed: Option<u64>,
    /// When a look last found it so, as far as that was told.
    told: u64,
    /// The hits around it.
    hits: (Option<u64>, Option<u64>),
}

struct Late {
    fact: ScanOverruns,
    time: u64,
    list: String,
    place: (String, Option<u32>),
    longest: Option<(RecordId, String, u64)>,
}

/// All of a run.
#[derive(Default)]
struct Found {
    hangs: Vec<Raw>,
    open: HashMap<u32, usize>,
    late: Vec<Late>,
    /// The last of each list.
    late_of: HashMap<(IocId, ScanListId), usize>,
    queues: Vec<Filled>,
    /// The last filling of each queue.
    filled: HashMap<(IocId, Queue), usize>,
}

/// A queue that filled.
struct Filled {
    fill: Box<QueueFill>,
    record: Option<String>,
    place: (String, Option<u32>),
    /// When it was over at the latest, if that was not told: the IOC ended.
    ended: Option<u64>,
    /// When a part of the log began that is missing, if it was not told of since: no segment repeats that a queue is filled.
    missed: Option<u64>,
}

impl Filled {
    /// Whether nothing was told of its end.
    fn is_open(&self) -> bool {
        !self.fill.is_over && self.ended.is_none()
    }
}

fn place(context: &Context, ioc: IocId) -> (String, Option<u32>) {
    context.ioc(ioc).map_or((String::new(), None), |ioc| (ioc.name.clone(), Some(ioc.pid)))
}

/// Who takes the events of a run.
trait Takes {
    /// Takes an event, with what is in force then. `keyframe`: whether a segment begins with it.
    fn take(&mut self, context: &Context, event: &Event, keyframe: bool);

    /// Whether something was told of which the end is still to come.
    fn is_open(&self) -> bool;

    /// A part of the log is missing behind a time.
    fn miss(&mut self, _time: u64) {}
}

impl Takes for Found {
    fn is_open(&self) -> bool {
        !self.open.is_empty() || self.queues.iter().any(|one| one.is_open() && one.missed.is_none())
    }

    fn miss(&mut self, time: u64) {
        for one in self.queues.iter_mut().filter(|one| one.is_open()) {
            one.missed.get_or_insert(time);
        }
        for at in self.open.values() {
            if let Some(hang) = self.hangs.get_mut(*at) {
                hang.missed.get_or_insert(time);
            }
        }
    }

    fn take(&mut self, context: &Context, event: &Event, keyframe: bool) {
        let time = event.time;
        match &event.fact {
            // a segment repeats what the last look found
            Fact::Stuck(stuck) => self.stuck(context, stuck, if keyframe { stuck.since } else { time }),
            Fact::StuckEnd(StuckEnd { id, after, has_ended, .. }) => {
                let how = match *has_ended {
                    _ if keyframe => Ended::Unseen,
                    true => Ended::Thread,
                    false => Ended::Runs,
                };
                let Some(hang) = self.open.remove(id).and_then(|at| self.hangs.get_mut(at)) else { return };
                hang.end = Some((*after, time, how));
            }
            Fact::QueueFill(fill) => {
                let record =
                    fill.record.and_then(|id| context.record(id)).map(|record| record.name.to_string());
                let key = (fill.ioc, fill.queue);
                let (fill, place) = (fill.clone(), place(context, fill.ioc));
                let last = self.filled.get(&key).and_then(|at| self.queues.get_mut(*at));
                match last {
                    Some(one) if one.fill.since == fill.since => {
                        (one.fill, one.record, one.missed) = (fill, record, None);
                    }
                    last => {
                        // it was over before the next began, though the log lacks that
                        if let Some(one) = last.filter(|one| !one.fill.is_over) {
                            one.ended.get_or_insert(fill.since);
                        }
                        if self.queues.len() < MAX_ROWS {
                            self.filled.insert(key, self.queues.len());
                            self.queues.push(Filled { fill, record, place, ended: None, missed: None });
                        }
                    }
                }
            }
            Fact::IocEnd(end) => {
                let open = |one: &&mut Filled| one.fill.ioc == end.ioc && !one.fill.is_over;
                self.queues.iter_mut().filter(open).for_each(|one| one.ended = one.ended.or(Some(time)));
                let hangs = &mut self.hangs;
                self.open.retain(|_, at| {
                    let Some(hang) = hangs.get_mut(*at).filter(|hang| hang.stuck.ioc == end.ioc) else {
                        return true;
                    };
                    // that it ran before may be in a part that is missing
                    if hang.missed.is_none() {
                        hang.end = Some((hang.told, time, Ended::Ioc));
                    }
                    false
                });
            }
            Fact::ScanOverruns(late) => {
                let key = (late.ioc, late.list);
                // one that goes on is one
                let last = self.late_of.get(&key).and_then(|at| self.late.get_mut(*at));
                if let Some(last) = last.filter(|last| last.time == late.since) {
                    last.fact.more = last.fact.more.saturating_add(late.more);
                    last.time = time;
                } else if self.late.len() < MAX_ROWS {
                    let list = context.scan_list(late.list).map(|list| list.name.clone()).unwrap_or_default();
                    let place = place(context, late.ioc);
                    self.late_of.insert(key, self.late.len());
                    self.late.push(Late { fact: *late, time, list, place, longest: None });
                }
            }
            _ => {}
        }
    }
}

impl Found {
    fn stuck(&mut self, context: &Context, stuck: &Stuck, told: u64) {
        let name = |id| context.record(id).map(|record| record.name.to_string());
        let named = |id: Option<RecordId>| id.and_then(name);
        let names = [named(stuck.record), named(stuck.holder.as_ref().and_then(|holder| holder.record))];
        let sentence = stuck.sentence(None, &name);
        if let Some(hang) = self.open.get(&stuck.id).and_then(|at| self.hangs.get_mut(*at)) {
            // a segment tells again what is so
            (hang.missed, hang.told) = (None, hang.told.max(told));
            if *hang.stuck != *stuck {
                let before = std::mem::replace(&mut hang.sentence, sentence);
                if hang.before.len() <= MAX_BEFORE {
                    hang.before.push(before);
                }
                (hang.stuck, hang.names) = (Box::new(stuck.clone()), names);
            }
        } else if self.hangs.len() < MAX_ROWS {
            self.open.insert(stuck.id, self.hangs.len());
            let (place, stuck) = (place(context, stuck.ioc), Box::new(stuck.clone()));
            let (before, end, missed, hits) = (Vec::new(), None, None, (None, None));
            self.hangs.push(Raw { stuck, names, place, before, sentence, end, missed, told, hits });
        }
    }
}

/// The thread of a hit, its stack pointer, and the record that it begins to process.
fn thread_of(fact: &Fact) -> Option<(ThreadId, i64, Option<RecordId>)> {
    Some(match fact {
        Fact::Process(hit) | Fact::RsetProcess(hit) => (hit.thread, hit.sp, Some(hit.record)),
        Fact::Complete(hit) => (hit.thread, hit.sp, None),
        Fact::Put(hit) => (hit.thread, hit.sp, None),
        Fact::Cause(hit) => (hit.thread, hit.sp, None),
        Fact::CaLinkPut(hit) => (hit.thread, hit.sp, None),
        _ => return None,
    })
}

/// The last hit of a thread.
#[derive(Clone, Copy)]
struct LastHit {
    time: u64,
    /// The record that it begins to process, and its stack pointer.
    begun: Option<(RecordId, i64)>,
    /// The scan list that the thread works off.
    list: Option<ScanListId>,
}

/// Looks for the hits around hangs.
struct Refined<'a> {
    found: &'a mut Found,
    /// The hangs of each thread, and the overruns of each list, in order of time.
    hangs: HashMap<(IocId, u32), Vec<usize>>,
    /// The times in which a process stood still as a whole; likewise.
    whole: HashMap<IocId, Vec<usize>>,
    late: HashMap<(IocId, ScanListId), Vec<usize>>,
    threads: HashMap<ThreadId, LastHit>,
}

impl<'a> Refined<'a> {
    fn new(found: &'a mut Found) -> Self {
        let mut hangs: HashMap<_, Vec<usize>> = HashMap::new();
        let mut whole: HashMap<_, Vec<usize>> = HashMap::new();
        for (at, hang) in found.hangs.iter().enumerate() {
            hangs.entry((hang.stuck.ioc, hang.stuck.tid)).or_default().push(at);
            if hang.stuck.wait.is_of_process() {
                whole.entry(hang.stuck.ioc).or_default().push(at);
            }
        }
        let mut late: HashMap<_, Vec<usize>> = HashMap::new();
        for (at, one) in found.late.iter().enumerate() {
            late.entry((one.fact.ioc, one.fact.list)).or_default().push(at);
        }
        Refined { found, hangs, whole, late, threads: HashMap::new() }
    }
}

impl Takes for Refined<'_> {
    fn is_open(&self) -> bool {
        false
    }

    fn take(&mut self, context: &Context, event: &Event, _: bool) {
        let mut done = None;
        if let Fact::Complete(hit) = &event.fact {
            done = Some(hit.record);
            self.done(
                context.thread(hit.thread).map(|thread| (thread.ioc, thread.tid)),
                hit.record,
                event.time,
            );
        }
        let Some((id, sp, record)) = thread_of(&event.fact) else { return };
        let Some(thread) = context.thread(id) else { return };
        let time = event.time;
        let hangs = self.hangs.get(&(thread.ioc, thread.tid)).map(Vec::as_slice).unwrap_or_default();
        let all = &mut self.found.hangs;
        let over = |at: &usize| all.get(*at).and_then(Raw::told_until).is_some_and(|end| end < time);
        let first = hangs.partition_point(over);
        // the hits of a thread that spins are those of records within
        let hang = hangs.get(first).and_then(|at| all.get_mut(*at));
        if let Some(hang) = hang.filter(|hang| hang.stuck.wait != Wait::Spins) {
            if (hang.last_turn()..=hang.stuck.since).contains(&time) && hang.stuck.after > 0 {
                hang.hits.0 = hang.hits.0.max(Some(time));
            } else {
                hang.ran(time);
            }
        }
        // whichever thread of it runs
        let whole = self.whole.get(&thread.ioc).map(Vec::as_slice).unwrap_or_default();
        let over = |at: &usize| all.get(*at).and_then(Raw::told_until).is_some_and(|end| end < time);
        let first = whole.partition_point(over);
        if let Some(hang) = whole.get(first).and_then(|at| all.get_mut(*at)) {
            hang.ran(time);
        }
        if self.late.is_empty() || period(&thread.name).is_none() {
            return;
        }
        if self.threads.len() >= MAX_THREADS && !self.threads.contains_key(&id) {
            return;
        }
        let last = self.threads.get(&id).copied();
        let list = match last {
            Some(last) => last.list,
            None => self.list_of(thread.ioc, &thread.name),
        };
        self.threads.insert(id, LastHit { time, begun: record.map(|record| (record, sp)), list });
        let Some(LastHit { time: began, begun: Some((before, depth)), .. }) = last else { return };
        let Some(list) = list else { return };
        // Called from the same depth or above: it has returned, nobody knows when. An asynchronous record does so before it
        // completes, and the thread may have waited for its next turn since. (A process routine may end with its completion,
        // which then has its place on the stack.)
        if sp > depth || sp == depth && done != Some(before) {
            return;
        }
        let late = self.late.get(&(thread.ioc, list)).map(Vec::as_slice).unwrap_or_default();
        let all = &mut self.found.late;
        let first = late.partition_point(|at| all.get(*at).is_some_and(|late| late.time < time));
        let Some(late) = late.get(first).and_then(|at| all.get_mut(*at)) else { return };
        let took = time.saturating_sub(began);
        if time >= late.fact.since && late.longest.as_ref().is_none_or(|longest| longest.2 < took) {
            let name = context.record(before).map_or_else(String::new, |record| record.name.to_string());
            late.longest = Some((before, name, took));
        }
    }
}

impl Refined<'_> {
    /// The late list that a thread works off: that of its period. Its records tell nothing, since links lead to those of other
    /// lists, and other threads process those of this one.
    fn list_of(&self, ioc: IocId, thread: &str) -> Option<ScanListId> {
        let is_it = |late: &&Late| late.fact.ioc == ioc && is_of(thread, &late.list);
        let mut firsts = self.late.values().filter_map(|all| self.found.late.get(*all.first()?));
        firsts.find(is_it).map(|late| late.fact.list)
    }

    /// A record is done on a thread: if that spun in it, this ended it.
    fn done(&mut self, thread: Option<(IocId, u32)>, record: RecordId, time: u64) {
        let hangs = thread.and_then(|thread| self.hangs.get(&thread)).map(Vec::as_slice).unwrap_or_default();
        let all = &mut self.found.hangs;
        let over = |at: &usize| all.get(*at).and_then(Raw::told_until).is_some_and(|end| end < time);
        let first = hangs.partition_point(over);
        let Some(hang) = hangs.get(first).and_then(|at| all.get_mut(*at)) else { return };
        let is_end = hang.end.is_some_and(|end| (end.0..=end.1).contains(&time));
        if is_end && hang.stuck.wait == Wait::Spins && hang.stuck.record == Some(record) {
            hang.hits.1 = Some(time);
        }
    }

    /// The times in which hits matter.
    fn spans(&self) -> Vec<(u64, u64)> {
        let mut spans = Vec::new();
        for hang in &self.found.hangs {
            spans.push((hang.last_turn(), hang.stuck.since));
            spans.extend(hang.end.map(|end| (end.0, end.1)));
        }
        // a scan may have begun some time before
        spans.extend(
            self.found.late.iter().map(|late| (late.fact.since.saturating_sub(10_000_000_000), late.time)),
        );
        spans
    }
}

/// Whether an end of a hang is near enough to be given as one number, seconds.
const NEAR: f64 = 0.25;

fn seconds(least: f64, most: Option<f64>) -> String {
    match most {
        Some(most) if most - least < NEAR => format!("{most:.1} s"),
        Some(most) => format!("{least:.1} to {most:.1} s"),
        None => format!("at least {least:.1} s"),
    }
}

/// The period of a scan thread by its name (`scan-0.1`, in Base 3.14 `scan0.1`), nanoseconds: its wait begins when its next turn
/// is due.
fn period(thread: &str) -> Option<u64> {
    let digits = thread.strip_prefix("scan")?;
    let period: f64 = digits.strip_prefix('-').unwrap_or(digits).parse().ok()?;
    (period > 0.0 && period < 1e6).then_some((period * SECOND) as u64)
}

/// Whether a thread scans the list of this name; names of threads have six digits of the period.
fn is_of(thread: &str, list: &str) -> bool {
    let periods = period(thread).zip(seconds_of(list));
    periods.is_some_and(|(one, other)| (one as f64 / SECOND - other).abs() <= other * 1e-5)
}

impl Raw {
    /// From when on its last hit tells when it began: a scan thread may have woken for its next turn after the recorder's
    /// look, and have stood still before the first record of it.
    fn last_turn(&self) -> u64 {
        self.stuck.after.saturating_sub(period(&self.stuck.thread).unwrap_or(0))
    }

    /// Takes a hit that shows that it was over by then, if it may have been.
    fn ran(&mut self, time: u64) {
        if self.end.is_some_and(|end| (end.0..=end.1).contains(&time)) {
            self.hits.1 = Some(self.hits.1.map_or(time, |hit| hit.min(time)));
        }
    }

    /// When it was over, or from when on it is not known whether it was; `None`: it lasts.
    fn told_until(&self) -> Option<u64> {
        self.end.map(|(_, over, _)| over).or(self.missed)
    }

    fn row(self, run: &Run, log: &LogEnd) -> Hang {
        let Stuck { after, since, .. } = *self.stuck;
        let ((ioc, pid), [record, holder_record]) = (self.place, self.names);
        // it is when the record began that was recorded
        let began = Some(after).filter(|after| self.stuck.wait == Wait::Spins && *after > 0);
        let first = self.hits.0.map(|hit| match period(&self.stuck.thread) {
            Some(period) => hit.saturating_add(period).clamp(after, since.max(after)),
            None => hit,
        });
        let first = began.or(first);
        let from = (first.unwrap_or(after), since);
        let wall_from = run.wall(first.unwrap_or(since));
        let length = |from: u64, to: u64| to.saturating_sub(from) as f64 / SECOND;
        let (span, end, ended) = match self.end {
            None if self.missed.is_some() => {
                let least = self.missed.map_or(0.0, |missed| length(since, missed));
                ((least, None), None, Ended::Missed)
            }
            None => {
                let least = log.last.map_or(0.0, |(last, _)| length(since, last));
                ((least, None), None, if log.is_followed { Ended::Recorder } else { Ended::No })
            }
            Some((until, time, Ended::Ioc)) if self.hits.1.is_none() => {
                // a later look would have told its end; after the last one it may have run
                let looked = until.max(time.saturating_sub(LOOKED));
                let most = (from.0 > 0).then(|| length(from.0, time));
                ((length(since, looked), most), Some(run.wall(time)), Ended::Ioc)
            }
            Some((until, time, how)) => {
                // it ran once more before the IOC ended, and the recorder had not looked yet
                let how = if how == Ended::Ioc { Ended::Runs } else { how };
                let last = self.hits.1.unwrap_or(time);
                let most = (from.0 > 0).then(|| length(from.0, last));
                let least = length(from.1, until);
                let is_seen = first.is_some() && self.hits.1.is_some() && how != Ended::Unseen;
                let span = if is_seen { (most.unwrap_or(least), most) } else { (least, most) };
                (span, Some(run.wall(last)), how)
            }
        };
        let name = |id: RecordId| {
            let holder = self.stuck.holder.as_ref().and_then(|holder| holder.record);
            if Some(id) == self.stuck.record {
                record.clone()
            } else {
                holder_record.clone().filter(|_| holder == Some(id))
            }
        };
        let mut text = self.stuck.sentence(Some(&seconds(span.0, span.1)), &name);
        text += match ended {
            Ended::No => "; it still does at the end of the log",
            Ended::Ioc => ", until the IOC ended, as far as was seen",
            Ended::Thread => ", until the thread ended",
            Ended::Unseen => "; its end is in a part of the log that is missing",
            Ended::Recorder => "; its recorder's log ends then, so how it went on is not known",
            Ended::Missed => "; how it went on is in a part of the log that is missing",
            Ended::Runs => "",
        };
        for before in self.before.iter().take(MAX_BEFORE) {
            text += &format!("; before: {before}");
        }
        if self.before.len() > MAX_BEFORE {
            text += "; then others";
        }
        let what = What::Stuck { stuck: self.stuck, ended, before: self.before, record, holder_record };
        let watched = match ended {
            Ended::Missed => self.missed.map(|missed| run.wall(missed)),
            Ended::Recorder => log.watched(),
            _ => None,
        };
        Hang { time: wall_from, end, watched, host: run.host(), ioc, pid, seconds: span, what, text }
    }
}

impl Late {
    /// Whether a thread that stood still, alone or with its whole process, made these scans late.
    fn is_by(&self, hang: &Raw) -> bool {
        let fits = hang.stuck.wait.is_of_process() || is_of(&hang.stuck.thread, &self.list);
        let lasts = hang.told_until().is_none_or(|end| end >= self.fact.since);
        fits && hang.stuck.ioc == self.fact.ioc && lasts && hang.stuck.since <= self.time
    }

    fn row(self, run: &Run, hung: bool) -> Hang {
        let ((ioc, pid), count) = (self.place, self.fact.more);
        // one that took less than half the period may be late, but is not why
        let least = seconds_of(&self.list).map_or(f64::INFINITY, |period| period / 2.0);
        let longest = self.longest.filter(|(_, name, _)| !name.is_empty());
        let longest = longest.map(|(_, name, took)| (name, took as f64 / SECOND));
        let longest = longest.filter(|(_, took)| *took >= least);
        let list = if self.list.is_empty() { "an unknown list".to_string() } else { self.list };
        let scans = if count == 1 { "1 scan" } else { &format!("{count} scans") };
        let mut text = format!("{scans} of {list} came too late");
        text += &match &longest {
            Some((name, took)) => format!("; there {name} took longest itself, {took:.3} s"),
            None if hung => "; their thread stood still".into(),
            None => "; it is not known what took so long".into(),
        };
        let (from, to) = (run.wall(self.fact.since), run.wall(self.time));
        // the clock may have been set meanwhile
        let length = self.time.saturating_sub(self.fact.since) as f64 / SECOND;
        let what = What::Overruns { list, count, longest };
        Hang {
            time: from,
            end: Some(to),
            watched: None,
            host: run.host(),
            ioc,
            pid,
            seconds: (0.0, Some(length)),
            what,
            text,
        }
    }
}

impl Filled {
    fn row(self, run: &Run, log: &LogEnd) -> Hang {
        let Filled { fill, record, place: (ioc, pid), ended, missed } = self;
        let lasted = fill.last.saturating_sub(fill.since) as f64 / SECOND;
        let until = if fill.is_over { Some(fill.last) } else { ended };
        // it was so at the last look, and not yet at the one before the first
        let least = (lasted - 1.0).max(0.0);
        let most = until.map(|until| until.saturating_sub(fill.since) as f64 / SECOND);
        let (length, least) = match most {
            Some(most) if fill.is_over => (Some(format!("{most:.0} s")), least),
            // its last notes may be old, or it may have been calm since
            Some(most) => (Some(format!("{least:.0} to {most:.0} s")), least),
            None if missed.is_some() || log.is_followed => (Some(format!("at least {least:.0} s")), least),
            None => (None, 0.0),
        };
        let mut text = fill.sentence(length.as_deref(), record.as_deref());
        let watched = match (most, missed) {
            (Some(_), _) => None,
            (None, Some(missed)) => {
                text += "; how it went on is in a part of the log that is missing";
                Some(run.wall(missed))
            }
            (None, None) => log.watched().filter(|_| log.is_followed),
        };
        if watched.is_some() && missed.is_none() {
            text += "; its recorder's log ends before it was over";
        }
        let (time, end) = (run.wall(fill.since), until.map(|until| run.wall(until)));
        Hang {
            time,
            end,
            watched,
            host: run.host(),
            ioc,
            pid,
            seconds: (least, most),
            what: What::Queue { fill, record },
            text,
        }
    }
}

/// Where the log of a run ends; nothing is known of it where nothing is open.
#[derive(Default)]
struct LogEnd {
    /// Monotonic and wall-clock time of its last event.
    last: Option<(u64, i64)>,
    /// Whether another recorder of that host tells of later times.
    is_followed: bool,
}

impl LogEnd {
    fn watched(&self) -> Option<i64> {
        self.last.map(|(_, wall)| wall)
    }
}

/// The segments of a run that may tell of a filter's time. A segment repeats what is in force when it begins.
pub(crate) fn of_time<'a>(files: &'a [SegmentFile], filter: &Filter) -> &'a [SegmentFile] {
    files.get(range_of_time(files, filter)).unwrap_or(files)
}

/// The places of those segments.
fn range_of_time(files: &[SegmentFile], filter: &Filter) -> Range<usize> {
    let begun = |file: &SegmentFile| file.header.map(|header| header.created_wall);
    // clocks that were not set yet, or are set: everything is read
    let walls: Vec<Option<i64>> = files.iter().map(begun).collect();
    if !walls.iter().all(|wall| wall.is_some_and(can_be_right)) || !walls.is_sorted() {
        return 0..files.len();
    }
    let since = filter.since.map(|since| since.saturating_sub(MARGIN));
    let until = filter.until.map(|until| until.saturating_add(MARGIN));
    let first = since.map_or(0, |since| walls.partition_point(|wall| *wall <= Some(since)).saturating_sub(1));
    let last = until.map_or(files.len(), |until| walls.partition_point(|wall| *wall <= Some(until)));
    first..last.max(first)
}

impl Logs {
    /// The threads that stood still and the scans that came too late, in order of time, as far as they match: a filter's
    /// PVs are the records that are named.
    pub fn hangs(&self, filter: &Filter) -> Vec<Hang> {
        let mut rows = Vec::new();
        let hosts = OnceCell::new();
        for (number, all) in self.runs().iter().enumerate() {
            let range = range_of_time(all, filter);
            if range.is_empty() {
                continue;
            }
            let mut found = Found::default();
            let files = all.get(range.start..).unwrap_or_default();
            let run = Run::new(SetLater::find(files));
            let choose = |about: &About| match about.classes {
                Some(classes) if !classes.notes() && !about.defines => Choice::Pass,
                _ => Choice::Only(Arc::new(|_| false)),
            };
            let read = self.walk(files, range.len(), &run, Arc::new(choose), self.notices(), &mut found);
            let files = files.get(..read).unwrap_or(files);
            let end = match found.is_open() {
                true => self.log_end(number, hosts.get_or_init(|| (self.host_names(), self.boots()))),
                false => LogEnd::default(),
            };
            rows.extend(std::mem::take(&mut found.queues).into_iter().map(|one| one.row(&run, &end)));
            if found.hangs.is_empty() && found.late.is_empty() {
                continue;
            }
            let mut refined = Refined::new(&mut found);
            let spans = refined.spans();
            let choose = move |about: &About| {
                let is_in = spans.iter().any(|(from, to)| about.first <= *to && about.last >= *from);
                let may_hold = about.classes.is_none_or(|classes| classes.processing() || classes.puts());
                if about.defines || is_in && may_hold {
                    Choice::Read
                } else {
                    Choice::Pass
                }
            };
            let again = Run::new(SetLater::find(files));
            // what can't be read was reported
            self.walk(files, files.len(), &again, Arc::new(choose), &Notices::default(), &mut refined);
            let (hangs, late) = (found.hangs, found.late);
            let near = |late: &Late| hangs.iter().take(MAX_COMPARED).any(|hang| late.is_by(hang));
            let hung: Vec<bool> = late.iter().map(near).collect();
            rows.extend(late.into_iter().zip(hung).map(|(late, hung)| late.row(&run, hung)));
            rows.extend(hangs.into_iter().map(|hang| hang.row(&run, &end)));
        }
        let by_record = !filter.pv.is_empty() || !filter.exclude.is_empty();
        rows.retain(|row| {
            filter.place(&row.host, &row.ioc)
                && filter.since.is_none_or(|since| row.may_last(since))
                && filter.until.is_none_or(|until| row.time < until)
                && (!by_record || row.records().any(|record| filter.field(record, "VAL")))
        });
        rows.sort_by_key(|row| row.time);
        rows
    }

    /// The end of a run's log, and whether another run of that host tells of later times. Takes the names of the hosts of
    /// all runs, and their boots.
    fn log_end(&self, number: usize, (hosts, boots): &(Vec<String>, Vec<String>)) -> LogEnd {
        let last = self.runs().get(number).and_then(|run| last_event(run));
        let Some((ended, ended_wall)) = last else { return LogEnd::default() };
        let is_beside =
            |other: &(usize, &Vec<SegmentFile>)| other.0 != number && hosts.get(other.0) == hosts.get(number);
        let mut others = self.runs().iter().enumerate().filter(is_beside);
        let is_later = |(other, files): (usize, &Vec<SegmentFile>)| {
            let Some(header) = files.iter().find_map(|file| file.header) else { return false };
            // the clock may have been set back meanwhile
            boots.get(other) == boots.get(number) && header.created >= ended
                || can_be_right(header.created_wall) && header.created_wall >= ended_wall
        };
        // One beside it that goes on; the ends of two that run still are seconds apart. It takes reading, and so comes last.
        let goes_on = |(_, files): (usize, &Vec<SegmentFile>)| {
            last_event(files).is_some_and(|(_, wall)| wall > ended_wall.saturating_add(MARGIN))
        };
        let is_followed = others.clone().any(is_later) || others.any(goes_on);
        LogEnd { last, is_followed }
    }

    /// Reads the blocks of a run that are chosen, in its first `asked` segments, and in those behind for as long as something
    /// is open. Returns the number of segments that were read.
    fn walk(
        &self,
        files: &[SegmentFile],
        asked: usize,
        run: &Run,
        choose: Arc<Choose>,
        notices: &Notices,
        takes: &mut dyn Takes,
    ) -> usize {
        let mut scan = Scan::new(files, Blocks::All);
        if self.uses_index() {
            scan.choose(choose);
        }
        let (mut expected, mut begun, mut last) = (None::<u32>, 0, 0);
        // where the log ends within a block nothing is missing: its recorder was killed
        let mut is_cut = false;
        while let Some(part) = scan.next() {
            if matches!(part, Part::Segment(_) | Part::Unreadable(_)) {
                if begun >= asked && !takes.is_open() {
                    break;
                }
                begun += 1;
            }
            match part {
                Part::Segment(header) => {
                    let lacks = expected.is_some_and(|expected| header.sequence > expected);
                    if std::mem::take(&mut is_cut) || lacks {
                        takes.miss(last);
                    }
                    notices.segment(&mut expected, header.sequence, scan.file());
                }
                Part::Unreadable(error) => {
                    // of the last one no later segment shows that it is missing
                    takes.miss(last);
                    notices.report(&Notice::of_segment(error));
                }
                Part::Damage(damage) => {
                    match damage.cause {
                        Cause::Header | Cause::Stray | Cause::Repeated => {}
                        Cause::Cut => is_cut = true,
                        _ => takes.miss(last),
                    }
                    if let Some(file) = scan.file() {
                        notices.damage(&file.path, damage);
                    }
                }
                Part::Block(block) => {
                    notices.cut_before(&scan);
                    if scan.is_cut_before() {
                        takes.miss(last);
                    }
                    last = last.max(block.about.as_ref().map_or(0, |about| about.last));
                    for event in &block.events {
                        last = last.max(event.time);
                        takes.take(&run.context(), event, block.keyframe);
                        if event.fact.class().defines() {
                            run.apply(event.time, &event.fact);
                        }
                    }
                }
            }
        }
        begun
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths() {
        assert_eq!(seconds(3.0, Some(3.1)), "3.1 s");
        assert_eq!(seconds(2.0, Some(4.0)), "2.0 to 4.0 s");
        assert_eq!(seconds(2.0, None), "at least 2.0 s");
    }

    #[test]
    fn lists_of_threads() {
        assert!(
            is_of("scan-0.1", ".1 second") && is_of("scan0.1", ".1 second") && is_of("scan-10", "10 second")
        );
        assert!(is_of("scan-0.333333", "3 Hz"));
        for (thread, list) in [("scanOnce", ".1 second"), ("scan-1", ".1 second"), ("scan-0.1", "event 5")] {
            assert!(!is_of(thread, list), "{thread}, {list}");
        }
    }
}
