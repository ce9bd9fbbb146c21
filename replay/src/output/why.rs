//! Causes of a PV's change: the chain from the record up to its root, and from there to what the root followed.

mod answer;
mod inputs;
mod life;
mod moment;
mod sources;
mod steps;

use self::answer::ReadOtherwise;
pub use self::answer::{AlarmKeys, Answer, Elsewhere};
pub use self::inputs::{Change, Source};
pub use self::sources::{Lead, Link, MAX_SOURCES};
pub use self::steps::Step;

use self::life::{Life, Lines, MAX_LIVES};
use self::moment::{hold, Before, Moment, Reading, Seen, HELD};
use self::steps::{accepted, inputs, processes, way};
use super::puts::process;
use crate::filter::Filter;
use crate::model::alarms::Alarm;
use crate::model::asides::{Aside, What};
use crate::model::chain::{Chain, Outcome, PutSpan, SpanKind};
use crate::model::putlog::{self, root_put};
use crate::model::run::{field_name, record_name, Run};
use crate::model::updates::acting;
use crate::model::value;
use crate::reading::ended_unseen::UNSEEN;
use crate::shown_names::{with_pid, without_pid};
use crate::time::Zone;
use crate::wording::cause::cause;
use crate::wording::put::who;
use epics::{eca, Pv};
use iocrec_log::context::Context;
use iocrec_log::event::{Fact, Ioc, Value};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::rc::Rc;

/// Other IOCs with the same PV that an answer names.
const MAX_OTHERS: usize = 20;
/// Runs that are asked what runs beside a process.
const MAX_RUNS: usize = 8;

/// What is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ask {
    /// The last change of the value.
    #[default]
    Value,
    /// The last change of the alarm.
    Alarm,
}

/// Searches for the cause of the last change.
pub struct Why<'a> {
    pv: Pv<'a>,
    name: &'a str,
    filter: &'a Filter,
    ask: Ask,
    /// Only what began by this wall-clock time counts.
    begun: i64,
    /// By host, IOC and line of processes: a name can exist in several.
    seen: HashMap<(String, String, usize), Seen>,
    /// The processes of each IOC name on a host.
    lines: HashMap<(String, String), Lines>,
    /// Hosts and names that several IOCs share, so that they are shown with their process ids.
    shared: HashSet<(String, String)>,
    /// Processes that have ended, when, and whether nobody saw it, so that it was then or before; a definition outlives its
    /// process, for the chains that refer to it.
    ended: HashMap<Life, (i64, bool)>,
    /// The runs that have told of the record.
    runs: Vec<Rc<Run>>,
}

/// A value of the PV that a chain led to.
struct Found {
    /// Host and name of the IOC.
    place: (String, String),
    time: i64,
    /// Its place in the order of time.
    even: i64,
    value: Value,
    alarm: Option<Alarm>,
    path: Vec<usize>,
    life: Option<Life>,
}

impl<'a> Why<'a> {
    /// Prepares a search for `name`, a record or record.FIELD, within the filter's times.
    pub fn new(name: &'a str, filter: &'a Filter) -> Self {
        Why {
            pv: Pv::new(name),
            name,
            filter,
            ask: Ask::Value,
            begun: i64::MAX,
            seen: HashMap::new(),
            lines: HashMap::new(),
            shared: HashSet::new(),
            ended: HashMap::new(),
            runs: Vec::new(),
        }
    }

    /// Searches for something else than the last change of the value.
    pub fn for_the(self, ask: Ask) -> Self {
        Why { ask, ..self }
    }

    /// Leaves out what began after this wall-clock time.
    pub fn begun_by(self, begun: i64) -> Self {
        Why { begun, ..self }
    }

    /// Takes the next chain, in the order in which they began.
    pub fn take(&mut self, chain: impl Into<Rc<Chain>>) {
        let chain = chain.into();
        let mut found = Vec::new();
        self.search(&chain, &mut Vec::new(), &mut found);
        for Found { place, time, even, value, alarm, path, life } in found {
            let context = chain.run.context();
            let ioc = context.iocs().find(|ioc| life.as_ref().is_some_and(|life| life.is(ioc)));
            self.note_shared(&place, ioc);
            self.meet(&chain.run);
            let line = self.line(&context, &place, life.as_ref());
            let seen = self.seen.entry((place.0, place.1, line)).or_default();
            let place = seen.held.partition_point(|moment| moment.even <= even);
            let held = hold(&chain, &path);
            let chain = Rc::clone(&chain);
            seen.held.insert(place, Moment { time, even, value, alarm, chain, path, life, held });
            if seen.held.len() > HELD {
                seen.settle(self.ask);
            }
        }
    }

    /// Takes a fact beside the chains, in order of time: what the recorder has read of the record is what it held then.
    pub fn beside(&mut self, aside: &Aside) {
        let context = aside.run.context();
        if let What::Fact(Fact::IocEnd(end)) = &aside.what {
            let life = Life::of(&context, context.ioc(end.ioc));
            let is_then = aside.time < self.filter.until.unwrap_or(i64::MAX);
            let life = life.filter(|_| is_then && self.ended.len() < MAX_LIVES);
            self.ended.extend(life.map(|life| (life, (aside.time, end.how == UNSEEN))));
        }
        let What::Fact(Fact::Snapshot(snapshot)) = &aside.what else { return };
        if aside.time >= self.filter.until.unwrap_or(i64::MAX) || aside.time > self.begun {
            return;
        }
        let Some(record) = context.record(snapshot.record).filter(|record| record.name == self.pv.record)
        else {
            return;
        };
        if self.pv.field != "VAL" {
            return;
        }
        let ioc = context.ioc(record.ioc);
        let life = Life::of(&context, ioc);
        let place = (aside.run.host(), own_name(ioc.map_or("", |ioc| &ioc.name), ioc));
        self.note_shared(&place, ioc);
        self.meet(&aside.run);
        let line = self.line(&context, &place, life.as_ref());
        let seen = self.seen.entry((place.0, place.1, line)).or_default();
        if seen.read.len() >= HELD {
            seen.read.pop_front();
        }
        let times = (aside.run.even(aside.at), aside.time);
        let (value, alarm) = (snapshot.value.clone(), (snapshot.severity, snapshot.status));
        seen.read.push_back(Reading { times, value, alarm, life });
    }

    fn meet(&mut self, run: &Rc<Run>) {
        if self.runs.len() < MAX_RUNS && !self.runs.iter().any(|known| Rc::ptr_eq(known, run)) {
            self.runs.push(Rc::clone(run));
        }
    }

    fn note_shared(&mut self, place: &(String, String), ioc: Option<&Ioc>) {
        let is_shared = ioc.is_some_and(|ioc| ioc.name != place.1);
        if is_shared && self.shared.len() < MAX_LIVES && !self.shared.contains(place) {
            self.shared.insert(place.clone());
        }
    }

    /// Whether several IOCs of this name may have run side by side: those without a name are not told apart.
    fn may_be_several(&self, host: &str, name: &str) -> bool {
        name.is_empty() || self.shared.contains(&(host.to_owned(), name.to_owned()))
    }

    /// How an IOC is shown.
    fn shown(&self, host: &str, ioc: &str, pid: Option<u32>) -> String {
        match pid.filter(|_| self.shared.contains(&(host.to_owned(), ioc.to_owned()))) {
            Some(pid) => with_pid(ioc, pid),
            None => ioc.to_owned(),
        }
    }

    /// The number of the line of processes that a process of an IOC is in. Only those that are shown with their process ids
    /// ran side by side; of others, one that the log does not know to have ended may have ended in a part that is missing.
    fn line(&mut self, context: &Context, place: &(String, String), life: Option<&Life>) -> usize {
        let is_shared = self.may_be_several(&place.0, &place.1);
        let Why { ended, lines, runs, .. } = self;
        // another recorder, which still ran when this process had begun, has the other
        let is_beside = |run: &Rc<Run>, other: &Life| {
            let context = run.context();
            let noted = context.clocks_at(u64::MAX).map(|(noted, ..)| noted);
            noted.zip(life).is_some_and(|(noted, life)| life.has_begun_by(noted))
                && context.iocs().any(|ioc| Life::of(&context, Some(ioc)).as_ref() == Some(other))
        };
        let running = |other: &Life| {
            is_shared
                && !ended.contains_key(other)
                && (context.iocs().any(|ioc| other.is(ioc)) || runs.iter().any(|run| is_beside(run, other)))
        };
        match lines.get_mut(place) {
            Some(lines) => lines.number(life, running),
            None => lines.entry(place.clone()).or_default().number(life, running),
        }
    }

    /// Finds the spans of the chain in which the PV got a value.
    fn search(&self, chain: &Chain, above: &mut Vec<usize>, found: &mut Vec<Found>) {
        let context = chain.run.context();
        for (number, span) in chain.spans.iter().enumerate() {
            above.push(number);
            let mut alarm = None;
            let (record, value) = match &span.kind {
                SpanKind::Process(process) if self.pv.field == "VAL" => match &process.outcome {
                    Outcome::Completed(completed) => {
                        alarm = Some((completed.severity, completed.status));
                        (Some(process.record), completed.value.clone())
                    }
                    _ => (None, Value::Unknown),
                },
                SpanKind::Put(put)
                    if !put.only_processes
                        && !is_stopped(put)
                        && self.is_field(&context, put)
                        && !processes(chain, number, put) =>
                {
                    (put.record, accepted(chain, number, put))
                }
                SpanKind::Link(link) => {
                    if let Some(target) = &link.target {
                        self.search(target, above, found);
                    }
                    (None, Value::Unknown)
                }
                _ => (None, Value::Unknown),
            };
            // a put with callback ends with its answer, and has written by then
            let end = match &span.kind {
                SpanKind::Put(put) => put.written.unwrap_or(span.end),
                _ => span.end,
            };
            let time = chain.run.wall(end);
            if record.is_some_and(|record| record_name(&context, record) == self.pv.record)
                && self.filter.time(time)
                && (self.begun == i64::MAX || chain.run.wall(span.start) <= self.begun)
                && (self.ask == Ask::Value || alarm.is_some())
            {
                let (host, process) = (chain.run.host(), putlog::ioc(&context, span));
                let ioc = process.map(|ioc| ioc.name.clone()).unwrap_or_default();
                if self.filter.place(&host, &ioc) {
                    let ioc = own_name(&ioc, process);
                    let (place, life) = ((host, ioc), Life::of(&context, process));
                    let even = chain.run.even(end);
                    found.push(Found { place, time, even, value, alarm, path: above.clone(), life });
                }
            }
            above.pop();
        }
    }

    fn is_field(&self, context: &iocrec_log::context::Context, put: &PutSpan) -> bool {
        field_name(context, put.field).unwrap_or("VAL") == self.pv.field
    }

    fn settle(&mut self) {
        for seen in self.seen.values_mut() {
            while !seen.held.is_empty() {
                seen.settle(self.ask);
            }
        }
    }

    /// Whether the last change is known with all that led to it, although nothing before `sure` (wall-clock time) was
    /// read, or not all of it: the chain began after that by itself, and what was before the change was seen, too.
    pub fn is_certain(&mut self, sure: i64) -> bool {
        self.settle();
        let latest = self.seen.iter().max_by_key(|(key, seen)| (seen.rank(), *key));
        let changed = latest.and_then(|(_, seen)| seen.changed.as_ref());
        changed.is_some_and(|(moment, before)| before.seen.is_some() && moment.is_certain(sure))
    }

    /// Other IOCs that were seen to have a record of this name: those with values, and those that the last definitions
    /// name.
    fn others(&self, chain: &Chain, place: (&str, &str, usize), life: Option<&Life>) -> Vec<Elsewhere> {
        let mut others = BTreeSet::new();
        for ((host, ioc, line), seen) in &self.seen {
            let of = seen.last.as_ref().and_then(|last| last.life.as_ref());
            let of = of.or_else(|| seen.read.back().and_then(|reading| reading.life.as_ref()));
            let is_it = (host.as_str(), ioc.as_str(), *line) == place;
            if !is_it && (!ioc.is_empty() || of.is_some()) {
                let pid = of.map(Life::pid);
                others.insert(Elsewhere { host: host.clone(), ioc: self.shown(host, ioc, pid), pid });
            }
        }
        let context = chain.run.context();
        let host = chain.run.host();
        // a former process of the same IOC is no other one, also if the log lacks its end
        let is_alone = host == place.0 && !self.may_be_several(&host, place.1);
        let named = context.records().filter(|record| record.name == self.pv.record);
        for ioc in named.filter_map(|record| context.ioc(record.ioc)) {
            let is_former = is_alone && own_name(&ioc.name, Some(ioc)) == place.1;
            let is_it = is_former || host == place.0 && life.is_some_and(|life| life.is(ioc));
            let is_over = Life::of(&context, Some(ioc)).is_some_and(|life| self.ended.contains_key(&life));
            if !is_it && !is_over && others.len() < MAX_OTHERS {
                others.insert(Elsewhere { host: host.clone(), ioc: ioc.name.clone(), pid: Some(ioc.pid) });
            }
        }
        others.into_iter().take(MAX_OTHERS).collect()
    }

    /// The answer; `None` if the PV was never processed or written.
    pub fn answer(mut self, zone: &Zone) -> Option<Answer> {
        self.settle();
        let key = self.seen.iter().max_by_key(|(key, seen)| (seen.rank(), *key))?.0.clone();
        let mut seen = self.seen.remove(&key)?;
        let followed = seen.read_anew();
        seen.read_since();
        let otherwise = seen.otherwise.take().filter(|_| self.ask == Ask::Value);
        let (host, ioc, line) = key;
        let last = seen.last?;
        let life = last.life.clone();
        let others = self.others(&last.chain, (&host, &ioc, line), life.as_ref());
        let namesake =
            others.iter().any(|other| {
                other.host == host && other.pid.map_or(&*other.ioc, |pid| without_pid(&other.ioc, pid)) == ioc
            }) || self.lines.get(&(host.clone(), ioc.clone())).is_some_and(|lines| lines.count() > 1);
        let pid = life.as_ref().map(Life::pid).filter(|_| namesake);
        let ioc = self.shown(&host, &ioc, life.as_ref().map(Life::pid));
        let (moment, before, changed) = match seen.changed {
            Some((moment, before)) => (moment, before, true),
            None => {
                let (seen, processed) = (seen.previous, seen.processed.0);
                (last.clone_ref(), Before { seen, processed, ..Before::default() }, false)
            }
        };
        let anew = before.anew.filter(|_| changed);
        // a process that has executed its program anew counts as the same one
        let ended = life.as_ref().and_then(|life| self.ended.get(life)).filter(|ended| ended.0 >= last.time);
        let (ended, ended_by) = match ended {
            Some((ended, false)) => (Some(*ended), None),
            Some((by, true)) => (None, Some(followed.map_or(*by, |followed| followed.min(*by)))),
            None => (None, followed),
        };
        let [ended, ended_by] = [ended, ended_by].map(|time| time.map(|time| zone.format(time, 9)));
        let from = before.value.filter(|_| changed);
        let written_since = last.even > moment.even;
        let last_time = if written_since { last.time } else { moment.time };
        let mut steps = Vec::new();
        let (mut chain, mut link): (&Chain, Option<String>) = (&moment.chain, None);
        let (mut root_cause, mut read) = (None, Vec::new());
        for number in &moment.path {
            let cause_text = cause(chain, link.as_deref());
            let put = root_put(chain, link.as_deref());
            root_cause.get_or_insert_with(|| (cause_text.clone(), put));
            read.clear();
            inputs(chain, *number, zone, 0, &mut read);
            let target = way(chain, *number, link.as_deref(), zone, &mut steps);
            let Some((record, target)) = target else { break };
            (chain, link) = (target, Some(record));
        }
        let (cause, put) = root_cause?;
        let times = (moment.even, moment.time);
        let mut lead = Lead::new(&moment.chain, &moment.path, times, before.seen, before.processed);
        lead.doubt = seen.doubt;
        lead.roots = seen.roots.clone();
        lead.held = Some(Rc::clone(&moment.held));
        lead.put = put.as_ref().filter(|put| acting(put).is_some()).cloned();
        let alarm = |alarm: Option<Alarm>| alarm.map(AlarmKeys::from);
        Some(Answer {
            pv: self.name.to_owned(),
            host,
            ioc,
            time: zone.format(moment.time, 9),
            changed,
            from: from.as_ref().map(value::json),
            to: value::json(&moment.value),
            last_written: zone.format(last_time, 9),
            written_since,
            otherwise: otherwise.map(|(time, read)| ReadOtherwise {
                time: zone.format(time, 9),
                value: value::json(&read),
                text: value::text(&read),
            }),
            count: seen.count,
            counted_since: None,
            before_known: seen.in_doubt.is_none(),
            values_unknown: seen.unknown,
            cause,
            by: put.as_ref().map(who),
            user: put.as_ref().and_then(|put| put.user.as_deref().map(str::to_owned)),
            client_host: put.as_ref().and_then(|put| put.client_host.as_deref().map(str::to_owned)),
            client: put.as_ref().and_then(|put| put.client.as_deref().map(str::to_owned)),
            process: put.as_ref().and_then(|put| put.process.as_deref()).map(process),
            chain: steps,
            read,
            asked: match self.ask {
                Ask::Value => "value",
                Ask::Alarm => "alarm",
            },
            from_alarm: alarm(before.alarm.filter(|_| changed)),
            to_alarm: alarm(moment.alarm),
            last_before: before.seen.map(|(_, seen)| zone.format(seen, 9)),
            links: Vec::new(),
            sources: Vec::new(),
            device: None,
            begun_by: None,
            missed: None,
            missed_since: None,
            ended,
            ended_by,
            first_since_start: anew.is_some(),
            started_anew: seen.anew,
            inputs: None,
            meanwhile: Vec::new(),
            meanwhile_more: 0,
            said: Vec::new(),
            stuck: Vec::new(),
            devices: Vec::new(),
            anew: anew.map(|(time, value)| (zone.format(time, 9), value.as_ref().map(value::text))),
            others,
            pid,
            after: None,
            text: moment.shown(from.as_ref(), self.pv.field == "VAL"),
            alarms: (before.alarm.filter(|_| changed), moment.alarm),
            lead,
        })
    }
}

/// The name of an IOC without the process id that tells it from others of that name.
fn own_name(shown: &str, ioc: Option<&Ioc>) -> String {
    ioc.map_or(shown, |ioc| without_pid(shown, ioc.pid)).to_owned()
}

/// Whether a put was answered with an error before it came to the function that writes: the record is as it was.
fn is_stopped(put: &PutSpan) -> bool {
    let answer = put.packet.as_ref().and_then(|packet| packet.answer.as_ref());
    put.kind.is_some() && !put.wrote && answer.is_some_and(|answer| eca::put_status(answer.status) != "ok")
}
