//! `iocreplay why`

use super::command::{Command, Outcome};
use super::options::{
    by_place, json, reading, report_begins, since, time, time_zone, ByPlace, Json, Reading, Since, TimeZone,
};
use crate::answers::aliases;
use crate::answers::between::Between;
use crate::answers::inputs::{inputs, linked_from};
use crate::answers::inventory::Inventory;
use crate::answers::network::Network;
use crate::failure::{Failure, UsageError};
use crate::filter::Filter;
use crate::model::asides::What;
use crate::model::origins::MAX_HOPS;
use crate::model::putlog::Via;
use crate::model::replay::Replay;
use crate::model::run::{record_name, Run};
use crate::model::updates::{acting, PROMPT};
use crate::names::{is_lost, number_of};
use crate::nothing_found::{Held, Narrowed, NoChange};
use crate::notices::{Notice, Notices};
use crate::out::Out;
use crate::output::rows::{write_row, Shape};
use crate::output::why::{Answer, Ask, Source, MAX_SOURCES};
use crate::pattern::Pattern;
use crate::reading::scan::{Part, Scan};
use crate::recent::NOTED;
use crate::shown_names::may_be_unnamed;
use crate::terminal::Terminal;
use crate::time::{Boundary, Zone, SECOND};
use crate::{output, suggest, Logs, Recent};
use epics::Pv;
use iocrec_cli::command;
use iocrec_log::context::Context;
use iocrec_log::event::{Fact, Ioc, IocId, LossSource, NO_PUTS};
use iocrec_log::reader::SegmentFile;
use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::Path;
use std::rc::Rc;

/// Losses remembered, each with its time; a bound for hostile logs. The others of a host count as one.
const MAX_MISSED: usize = 10_000;
/// Why something may have been missed in the time of those.
const MORE_MISSED: &str = "more was lost or left out than is listed";
/// As many sources as reading a whole log for one counts.
const WHOLE: usize = 6;
/// IOCs that have records of one name; a bound for hostile logs.
const MAX_PLACES: usize = 10_000;
/// Runs remembered, with their definitions.
const MAX_RUNS: usize = 8;
/// Runs that are looked at for what another one missed: the latest that had begun before.
const MAX_BESIDE: usize = 8;

command! {
    /// Show the cause of the last change of a PV: the chain that led to it, from the person, scan or event at its root.
    #[argh(subcommand, name = "why")]
    pub struct Why {
        /// the last change of its alarm instead of its value
        #[argh(switch)]
        pub alarm: bool,
        /// the last change before this time (default: the last of all)
        #[argh(option, arg_name = "time")]
        pub at: Option<String>,
        /// record, or record.FIELD
        #[argh(positional)]
        pub pv: String,
    } with since: Since, by_place: ByPlace, json: Json, time_zone: TimeZone, reading: Reading
}

impl Command for Why {
    fn reading(&self) -> Reading {
        self.into()
    }

    fn operands(&self) -> &'static str {
        "PV "
    }

    /// Reports a log in place of the PV. A record can have the name of an existing file, so this is wrong only if an
    /// operand that is not a log is in place of the logs.
    fn check(&self) -> Result<(), UsageError> {
        let is_log = Path::new(&self.pv).exists() || self.pv.ends_with(".iocrec");
        if !is_log || !(self.logs.is_empty() || self.logs.iter().any(|log| !log.exists())) {
            return Ok(());
        }
        let pv = self.logs.iter().find(|log| !log.exists());
        let logs = self.logs.iter().filter(|log| log.exists());
        Err(UsageError::LogBeforePv {
            log: self.pv.clone(),
            pv: pv.map_or("PV".into(), |pv| pv.to_string_lossy().into_owned()),
            others: logs.map(|log| log.to_string_lossy().into_owned()).collect(),
        })
    }

    fn run(&self, out: &mut Out) -> Result<Outcome, Failure> {
        let zone = TimeZone::from(self).zone();
        let logs = ByPlace::from(self).open(&self.reading())?;
        let filter = Filter {
            since: time(&zone, &self.since, Boundary::Start, &logs)?,
            until: time(&zone, &self.at, Boundary::End, &logs)?,
            ..ByPlace::from(self).filter_of(&logs)
        };
        report_begins(&zone, &logs, &filter);
        let ask = if self.alarm { Ask::Alarm } else { Ask::Value };
        let records = aliases::records_of(&logs, &self.pv);
        records.iter().for_each(|(alias, _)| Terminal.report(alias));
        // the first that has an answer: a record of that name, or one that has the name as an alias
        let names = std::iter::once(self.pv.as_str()).chain(records.iter().map(|(_, name)| name.as_str()));
        let unrecorded = Missed::between_runs(logs.without_notices(), &filter);
        // what went unseen before the end of that time is noted later
        let until = filter.until.map(|until| until.saturating_add(NOTED));
        let noted = Filter { until, ..filter.clone() };
        let mut missed = unrecorded.clone();
        let found = names.into_iter().find_map(|pv| {
            let search = || output::why::Why::new(pv, &filter).for_the(ask);
            let recent = find_recent(&logs, search(), Pv::new(pv).record, &filter, &zone, &mut missed);
            recent.or_else(|| {
                missed = unrecorded.clone();
                find(of(&logs, &noted, pv), search(), &zone, &mut missed)
            })
        });
        let Some(mut answer) = found else {
            let records = records.iter().map(|(_, name)| name.as_str()).chain([self.pv.as_str()]);
            let records: Vec<&str> = records.map(|name| Pv::new(name).record).collect();
            let missed = missed.within(&logs, &filter, &records).map(str::to_owned);
            return Err(Failure::NoChange(self.no_change(&logs.without_notices(), &filter, &zone, missed)));
        };
        let (_, host) = answer.place();
        let until = filter.until.map_or(i64::MAX, |until| logs.even_of(host, until));
        // that it did not change is said of all of the time
        let (_, changed) = answer.lead().even();
        let since = match answer.has_changed() {
            true => changed,
            false => filter.since.map_or(i64::MIN, |since| logs.even_of(host, since).min(since)),
        };
        if let Some(cause) = missed.between(since, until, &answer) {
            answer.add_missed_since(cause.to_owned());
        }
        let again = logs.without_notices();
        let mut way = vec![answer.pv().to_owned()];
        follow(&again, &mut answer, &zone, &mut missed, &mut MAX_SOURCES.clone(), &mut way);
        add_said(&again, &mut answer, &zone);
        match Json::from(self).shape() {
            Some(Shape::Text) => answer.write_text(out)?,
            Some(shape) => write_row(out, shape, true, &answer)?,
            None => answer.write_json(out)?,
        }
        Ok(Outcome::from(&logs))
    }
}

/// Longest time until errlog's thread has printed a message, nanoseconds.
const PRINTED: i64 = SECOND as i64;

/// Adds what the records on the way printed, and what held them up.
fn add_said(logs: &Logs, answer: &mut Answer, zone: &Zone) {
    let (since, until) = answer.span();
    let filter =
        Filter { since: Some(since), until: Some(until.saturating_add(PRINTED)), ..Filter::default() };
    for row in logs.console(&filter) {
        answer.add_said(&row, zone);
    }
    for row in logs.hangs(&filter) {
        answer.add_stuck(&row, zone);
    }
    if let Some((since, until)) = answer.device_span() {
        let filter = Filter { since: Some(since), until: Some(until.saturating_add(1)), ..Filter::default() };
        for line in Network::of_devices(logs, &filter) {
            answer.add_device(&line, zone);
        }
    }
}

/// Searches the last part of the logs that concerns the record. `None` if it does not tell, or not with certainty.
fn find_recent(
    logs: &Logs,
    mut search: output::why::Why,
    record: &str,
    filter: &Filter,
    zone: &Zone,
    missed: &mut Missed,
) -> Option<Answer> {
    if !logs.uses_index() || may_be_unnamed(record) {
        return None;
    }
    let recent = Recent::find(logs, record, filter)?;
    let notices = logs.notices();
    let logs = logs.without_notices();
    take(logs.replay_recent(&recent, record), std::slice::from_mut(&mut search), missed);
    take_noted(logs.replay_noted(&recent), std::slice::from_mut(&mut search), missed);
    // What is damaged is reported when everything is read.
    if !logs.is_complete() || !search.is_certain(recent.sure) {
        return None;
    }
    let answer = conclude(search, zone, missed)?;
    missed.report_left_out(answer.place().0, notices);
    Some(answer.counted_since(recent.since, zone))
}

/// The chains that may concern a PV's record.
fn of(logs: &Logs, filter: &Filter, pv: &str) -> Replay {
    logs.replay_of(filter, vec![Pv::new(pv).record.to_owned()])
}

/// Searches the logs, and notes when something was missed.
fn find(replay: Replay, mut search: output::why::Why, zone: &Zone, missed: &mut Missed) -> Option<Answer> {
    take(replay, std::slice::from_mut(&mut search), missed);
    conclude(search, zone, missed)
}

fn take(replay: Replay, searches: &mut [output::why::Why], missed: &mut Missed) {
    let mut replay = replay.with_asides();
    while let Some(chain) = replay.next() {
        let chain = Rc::new(chain);
        // What is older than a chain comes before it.
        let began = chain.root().map_or(i64::MIN, |root| chain.run.even(root.start));
        missed.take(&mut replay, began, searches);
        missed.meet(&chain.run);
        searches.iter_mut().for_each(|search| search.take(Rc::clone(&chain)));
    }
    missed.take(&mut replay, i64::MAX, searches);
}

/// Takes what was noted beside the chains, and not these, which lack parts.
fn take_noted(replay: Replay, searches: &mut [output::why::Why], missed: &mut Missed) {
    let mut replay = replay.with_asides();
    while let Some(chain) = replay.next() {
        let began = chain.root().map_or(i64::MIN, |root| chain.run.even(root.start));
        missed.take(&mut replay, began, searches);
    }
    missed.take(&mut replay, i64::MAX, searches);
}

fn conclude(search: output::why::Why, zone: &Zone, missed: &Missed) -> Option<Answer> {
    let mut answer = search.answer(zone)?;
    answer.learn_links(&missed.runs);
    if let Some(cause) = answer.lead().unseen().and_then(|(from, to)| missed.between(from, to, &answer)) {
        answer.add_missed(cause.to_owned());
    }
    Some(answer)
}

/// Adds what the chain of an answer followed: the sources of CP links, and theirs in turn.
fn follow(
    logs: &Logs,
    answer: &mut Answer,
    zone: &Zone,
    missed: &mut Missed,
    left: &mut usize,
    way: &mut Vec<String>,
) {
    add_updates(logs, answer, left);
    for link in answer.lead().links().to_vec() {
        if *left == 0 || way.len() > MAX_HOPS {
            break;
        }
        let circle = way.contains(&link.1);
        *left -= 1;
        let (since, until, begun) = answer.lead().times();
        let filter = Filter { since: Some(since), until: Some(until), ..Filter::default() };
        let search = output::why::Why::new(&link.1, &filter).begun_by(begun);
        let mut change = find(of(logs, &filter, &link.1), search, zone, missed);
        // The value before it is further back.
        if change.as_ref().is_some_and(Answer::is_in_doubt) && *left >= WHOLE {
            *left -= WHOLE;
            let filter = Filter { since: None, ..filter };
            let search = output::why::Why::new(&link.1, &filter).begun_by(begun);
            change = find(of(logs, &filter, &link.1), search, zone, missed);
        } else {
            change = change.map(|change| change.counted_since(since, zone));
        }
        if let Some(change) = change.as_mut().filter(|_| !circle) {
            way.push(link.1.clone());
            follow(logs, change, zone, missed, left, way);
            way.pop();
        }
        let (begun, _) = answer.lead().even();
        let unseen = change.as_ref().and_then(|change| missed.between(change.lead().even().1, begun, change));
        answer.add_link(&link, unseen.map(str::to_owned), change, circle);
    }
    answer.conclude();
    follow_inputs(logs, answer, zone, missed, left, way);
    if let Some((since, until)) = answer.lead().meanwhile() {
        let (ioc, host) = answer.place();
        let place = |name: &str| Some(name).filter(|name| !name.is_empty()).map(Pattern::literally);
        let filter = Filter {
            since: Some(since),
            until: Some(until),
            ioc: place(ioc),
            host: place(host),
            ..Filter::default()
        };
        // what links wrote to the record, and what came from outside
        let record = Pv::new(answer.pv()).record.to_owned();
        let own = Filter { pv: vec![Pattern::literally(&record)], ..filter.clone() };
        let by_link = logs.puts(&own).with_links();
        let mut by_link =
            by_link.filter(|put| put.via == Via::DbLink && put.record.as_ref() == Some(&record)).peekable();
        for put in logs.puts(&filter) {
            while let Some(earlier) = by_link.next_if(|earlier| earlier.time <= put.time) {
                answer.add_meanwhile(&earlier, zone);
            }
            answer.add_meanwhile(&put, zone);
        }
        by_link.for_each(|put| answer.add_meanwhile(&put, zone));
    }
}

/// Adds the updates that may have made a process put, if one did by itself.
fn add_updates(logs: &Logs, answer: &mut Answer, left: &mut usize) {
    let Some(put) = answer.acting_put().filter(|_| *left > 0) else { return };
    let Some(process) = acting(put) else { return };
    *left -= 1;
    let mut updates = logs.subscriptions((put.time, put.time));
    let records = updates.records_of(&process);
    if records.is_empty() {
        return;
    }
    let late = updates.late();
    let filter = Filter {
        since: Some(put.time.saturating_sub(late).saturating_sub(PROMPT)),
        until: Some(put.time.saturating_add(late).saturating_add(1)),
        ..Filter::default()
    };
    logs.replay_of(&filter, records).for_each(|chain| updates.take(&chain));
    if let Some(before) = updates.before(put) {
        answer.add_updates(before);
    }
}

/// Adds the input links of the record, the last change of the source of each, and what these followed.
fn follow_inputs(
    logs: &Logs,
    answer: &mut Answer,
    zone: &Zone,
    missed: &mut Missed,
    left: &mut usize,
    way: &mut Vec<String>,
) {
    let Some((place, time)) = answer.inputs_wanted() else { return };
    let mut sources = answer.add_inputs(inputs(logs, &place, time));
    // One pass for all of them, and one for what each followed.
    let in_reach = *left > 0 && way.len() <= MAX_HOPS;
    if in_reach && !sources.is_empty() {
        *left -= 1;
        let filters: Vec<(String, Filter, Ask)> =
            sources.iter().flat_map(|source| answer.searches(source)).collect();
        let mut searches: Vec<output::why::Why> = filters
            .iter()
            .map(|(pv, filter, ask)| output::why::Why::new(pv, filter).for_the(*ask).begun_by(time))
            .collect();
        let (since, until) = answer.reach();
        let filter = Filter { since: Some(since), until: Some(until), ..Filter::default() };
        let records = filters.iter().map(|(pv, ..)| Pv::new(pv).record.to_owned()).collect();
        take(logs.replay_of(&filter, records), &mut searches, missed);
        let found: Vec<Option<Answer>> =
            searches.into_iter().map(|search| conclude(search, zone, missed)).collect();
        let mut found = found.into_iter().map(|found| found.map(|found| found.counted_since(since, zone)));
        for source in &mut sources {
            let own: Vec<Option<Answer>> = found.by_ref().take(answer.searches(source).len()).collect();
            answer.weigh(source, own);
            // what it did before the record processed before does not matter
            let even = |time: i64| logs.even_of(answer.place().1, time);
            let since = answer.processed_before().map_or(i64::MIN, even);
            let unseen = source.changed().and_then(|(time, change)| {
                let changed = logs.even_of(change.place().1, time);
                missed.between(changed.max(since), even(until), change)
            });
            let unseen = unseen.map(str::to_owned);
            source.is_missed(unseen);
        }
        let names = sources.iter().any(|source| source.is_unseen()).then(|| suggest::names(logs));
        for source in &mut sources {
            source.is_recorded(|record| names.as_ref().is_none_or(|names| names.contains(record)));
            let circle = source.pv().is_some_and(|pv| way.iter().any(|on| Pv::new(on) == Pv::new(pv)));
            match (source.change_mut(), circle) {
                (Some(_), true) => source.is_circle(),
                (Some(change), false) => {
                    way.push(change.pv().to_owned());
                    follow(logs, change, zone, missed, left, way);
                    way.pop();
                }
                (None, _) => {}
            }
        }
    } else {
        sources.iter_mut().for_each(Source::is_out_of_reach);
    }
    answer.add_sources(sources);
}

/// A time in which something may have been missed, and why. Times are in the order of time ([`Run::even`]).
#[derive(Clone, PartialEq, Eq, Hash)]
struct Gap {
    from: i64,
    to: i64,
    cause: String,
    host: String,
    /// If only chains are missing that begin with one record: that.
    record: Option<String>,
    /// If it is about one IOC: that.
    ioc: Option<String>,
    /// The number of the run that missed it; `None` if none is there that could have seen it.
    run: Option<usize>,
}

/// The number of a run among those that are read together.
fn number_in_logs(run: &Run) -> Option<usize> {
    run.peers().map(|(_, number)| number)
}

/// The times in which a run recorded the processing of, and the puts to, a record of an IOC, by the log's clock.
fn recorded(logs: &Logs, run: usize, (ioc, host): (&str, &str), record: &str) -> Vec<(i64, i64)> {
    let Some(files) = logs.runs().get(run) else { return Vec::new() };
    let found = Inventory::read(files, &Notices::default());
    if found.host().unwrap_or_default() != host {
        return Vec::new();
    }
    let context = found.context();
    let leaves_out =
        |of: &Ioc| of.leaves_out_processing() || of.not_probed.iter().any(|line| line == NO_PUTS);
    let has = |id: IocId| context.records().any(|known| known.ioc == id && known.name == record);
    let end = logs.end_of(files).unwrap_or(i64::MIN);
    let mut times = Vec::new();
    for of in context.iocs().filter(|of| of.name == ioc && !leaves_out(of) && has(of.id)) {
        let spans = found.spans().recorded(of.id);
        times.extend(spans.filter_map(|(from, to)| Some((from?, to.unwrap_or(end)))));
    }
    times
}

/// Hosts and IOCs that have a record of one of these names, as far as the logs define them.
fn places(logs: &Logs, records: &[&str]) -> BTreeSet<(String, String)> {
    let mut found = BTreeSet::new();
    for files in logs.runs() {
        let mut context = Context::default();
        for part in Scan::of_definitions(files) {
            let Part::Block(block) = part else { continue };
            for event in block.events {
                match &event.fact {
                    Fact::Host(_) | Fact::Ioc(_) => context.apply(event.time, &event.fact),
                    Fact::Record(of) if records.contains(&of.name.as_str()) && found.len() < MAX_PLACES => {
                        let host = context.host().map_or("", |host| host.name.as_str());
                        let ioc = context.ioc(of.ioc).map_or("", |ioc| ioc.name.as_str());
                        found.insert((host.to_owned(), ioc.to_owned()));
                    }
                    _ => {}
                }
            }
        }
    }
    found
}

/// A run, an IOC and a record.
type Place = (usize, String, String);

/// What is noted beside the answers.
#[derive(Clone, Default)]
struct Missed {
    /// Times in which something may have been missed.
    gaps: Vec<Gap>,
    /// The same as they were noted: parts of logs are read several times.
    known: HashSet<Gap>,
    /// The runs that were read first, which know the CP links of their records.
    runs: Vec<Rc<Run>>,
    /// The logs, to look up what other runs saw.
    logs: Option<Rc<Logs>>,
    /// What was looked up: by run, IOC and record, when that was recorded.
    beside: RefCell<HashMap<Place, Vec<(i64, i64)>>>,
}

impl Missed {
    /// The times between the runs of recorders.
    fn between_runs(logs: Logs, filter: &Filter) -> Missed {
        let of_host = Filter { host: filter.host.clone(), ..Filter::default() };
        let gap = |between: Between| {
            let cause = between.cause().to_owned();
            let even = |time: i64| logs.even_of(&between.host, time);
            let (from, to) = (even(between.since), even(between.time));
            // the last time that the clock showed it may have been later
            let from = from.min(to.saturating_sub(1));
            Gap { from, to, cause, host: between.host, record: None, ioc: None, run: None }
        };
        let gaps = logs.between(&of_host).into_iter().map(gap).collect();
        Missed { gaps, logs: Some(Rc::new(logs)), ..Missed::default() }
    }

    /// Notes that an IOC's hits were not taken from one time to another.
    fn detached(&mut self, run: &Rc<Run>, ioc: IocId, (from, to): (i64, i64), cause: &str) {
        let (host, ioc) = (run.host(), run.context().ioc(ioc).map(|ioc| ioc.name.clone()));
        // it goes on until the IOC is attached again; a keyframe that is read once more tells of an earlier time
        let is_over =
            |gap: &&mut Gap| gap.to == i64::MAX && gap.from <= to && gap.host == host && gap.ioc == ioc;
        self.gaps.iter_mut().filter(is_over).for_each(|gap| gap.to = to);
        // without a cause, its recorder had just been started or was stopped
        if !cause.is_empty() && ioc.is_some() {
            let run = number_in_logs(run);
            self.add(Gap { from, to, cause: cause.to_owned(), host, record: None, ioc, run });
        }
    }

    /// Adds a time, if it is not known. None is forgotten.
    fn add(&mut self, gap: Gap) {
        if self.known.contains(&gap) {
            return;
        }
        if self.gaps.len() < MAX_MISSED {
            self.known.insert(gap.clone());
            return self.gaps.push(gap);
        }
        match self.gaps.iter_mut().rev().find(|last| last.host == gap.host) {
            Some(last) => {
                let (from, to) = (last.from.min(gap.from), last.to.max(gap.to));
                let cause = MORE_MISSED.into();
                *last = Gap { from, to, cause, record: None, ioc: None, host: gap.host, run: None };
            }
            None => self.gaps.push(gap),
        }
    }

    /// Reports that the processing of an IOC of this name was not recorded, if so.
    fn report_left_out(&self, ioc: &str, notices: &Notices) {
        let leaves_out = |run: &Rc<Run>| {
            run.context().iocs().any(|known| known.name == ioc && known.leaves_out_processing())
        };
        if self.runs.iter().any(leaves_out) {
            notices.report(&Notice::NoProcessing { ioc: ioc.to_owned() });
        }
    }

    /// Notes a run.
    fn meet(&mut self, run: &Rc<Run>) {
        let known = self.runs.last().is_some_and(|last| Rc::ptr_eq(last, run));
        if !known && self.runs.len() < MAX_RUNS && !self.runs.iter().any(|known| Rc::ptr_eq(known, run)) {
            self.runs.push(Rc::clone(run));
        }
    }

    /// Takes what was noted beside the chains.
    fn take(&mut self, replay: &mut Replay, before: i64, searches: &mut [output::why::Why]) {
        while let Some(aside) = replay.aside(before) {
            searches.iter_mut().for_each(|search| search.beside(&aside));
            let (from, cause, record) = match &aside.what {
                What::Missing => {
                    let from = aside.run.even(aside.at).saturating_sub(1);
                    (from, "a part of the log is missing".to_owned(), None)
                }
                What::Fact(Fact::Loss(loss))
                    if matches!(loss.source, LossSource::Hits | LossSource::Storage) && is_lost(loss) =>
                {
                    let cause = format!("{} lost: {}", number_of(loss.count, "hits or events"), loss.cause);
                    (aside.run.even(loss.since), cause, None)
                }
                What::Fact(Fact::ChainsLeftOut(left)) => {
                    let record = record_name(&aside.run.context(), left.record);
                    let cause =
                        format!("chain sampling left out chains that begin with {record}: {}", left.count);
                    (aside.run.even(left.since), cause, Some(record))
                }
                What::Fact(Fact::Attached(attached)) => {
                    let times = (aside.run.even(attached.from), aside.run.even(attached.since));
                    self.detached(&aside.run, attached.ioc, times, &attached.cause);
                    continue;
                }
                What::Fact(Fact::Detached(detached)) => {
                    let times = (aside.run.even(detached.since), i64::MAX);
                    self.detached(&aside.run, detached.ioc, times, &detached.cause);
                    continue;
                }
                _ => continue,
            };
            // a part that is missing is after what was seen last
            let to = aside.run.even(aside.at).saturating_add(i64::from(matches!(aside.what, What::Missing)));
            let run = number_in_logs(&aside.run);
            self.add(Gap { from, to, cause, host: aside.run.host(), record, ioc: None, run });
        }
    }

    /// Why something that concerns this answer may have been missed between two times. Of the chains that were left out,
    /// those do that begin with its record, or as chains in which it was seen.
    fn between(&self, from: i64, to: i64, answer: &Answer) -> Option<&str> {
        let found = self.gaps.iter().find(|gap| {
            let is_then = gap.from < to && gap.to > from && gap.host == answer.place().1;
            let is_here = gap.ioc.as_deref().is_none_or(|ioc| ioc == answer.place().0);
            let may_be_its = gap.record.as_deref().is_none_or(|record| answer.may_begin_with(record));
            is_then && is_here && may_be_its && !self.is_seen_beside(gap, (from, to), answer)
        });
        found.map(|gap| gap.cause.as_str())
    }

    /// Whether another recorder of the host saw what one missed of this answer between two times: it was attached to the IOC, records
    /// its record, and missed nothing itself then.
    fn is_seen_beside(&self, gap: &Gap, (from, to): (i64, i64), answer: &Answer) -> bool {
        let (Some(logs), Some(run)) = (&self.logs, gap.run) else { return false };
        let (from, to) = (gap.from.max(from), gap.to.min(to));
        let (ioc, host) = answer.place();
        // times in the order of time are those of the clock but where it was set back
        if logs.runs().len() < 2 || logs.set_back().contains_key(host) {
            return false;
        }
        let record = Pv::new(answer.pv()).record;
        let lacks = |other: usize| {
            let is_its = |gap: &Gap| gap.run.is_none_or(|run| run == other) && gap.host == host;
            self.gaps.iter().any(|gap| is_its(gap) && gap.from < to && gap.to > from)
        };
        let has_begun = |(number, files): &(usize, &Vec<SegmentFile>)| {
            let header = files.iter().find_map(|file| file.header);
            *number != run && header.is_some_and(|header| header.created_wall <= from)
        };
        let others = logs.runs().iter().enumerate().rev().filter(has_begun).take(MAX_BESIDE);
        let mut others = others.map(|(number, _)| number).filter(|number| !lacks(*number));
        others.any(|number| {
            let mut beside = self.beside.borrow_mut();
            let times = beside
                .entry((number, ioc.to_owned(), record.to_owned()))
                .or_insert_with(|| recorded(logs, number, (ioc, host), record));
            times.iter().any(|(begin, end)| *begin <= from && to <= *end)
        })
    }

    /// Why something of records of which nothing was found may have been missed.
    fn within(&self, logs: &Logs, filter: &Filter, records: &[&str]) -> Option<&str> {
        let mut places = places(logs, records);
        // those of one that is known by its channels alone may be anywhere
        let is_anywhere = places.is_empty();
        places.retain(|(host, ioc)| filter.place(host, ioc));
        let is_of = |gap: &Gap| {
            let own = gap.ioc.as_deref();
            match is_anywhere {
                true => {
                    filter.host.as_ref().is_none_or(|host| host.matches(&gap.host))
                        && own.is_none_or(|own| filter.place(&gap.host, own))
                }
                false => {
                    places.iter().any(|(host, ioc)| *host == gap.host && own.is_none_or(|own| own == ioc))
                }
            }
        };
        let found = self.gaps.iter().filter(|gap| is_of(gap)).find(|gap| {
            let even = |time: i64| logs.even_of(&gap.host, time);
            let is_before = filter.until.is_none_or(|until| gap.from < even(until));
            let is_since = filter.since.is_none_or(|since| gap.to > even(since).min(since));
            is_before && is_since && gap.record.as_deref().is_none_or(|first| records.contains(&first))
        });
        found.map(|gap| gap.cause.as_str())
    }
}

impl Why {
    /// The reason why nothing is known of the PV.
    fn no_change(&self, logs: &Logs, filter: &Filter, zone: &Zone, missed: Option<String>) -> NoChange {
        let pv = self.pv.clone();
        let names = suggest::names(logs);
        let record = Pv::new(&pv).record;
        if !names.contains(record) {
            if let Some(link) = linked_from(logs, record) {
                return NoChange::Linked { pv, link };
            }
            let suggestions = suggest::nearest(&names, record);
            return NoChange::Unknown { pv, suggestions };
        }
        let held = Held::look(logs);
        if let Some(lacks) = held.lacks(filter, zone) {
            return NoChange::NothingAskedFor { pv, lacks };
        }
        let of_pv = Vec::from([pv.as_str(), record].map(Pattern::literally));
        let of_pv = Filter { pv: of_pv, ..filter.clone() };
        let is_it =
            |named: &str| (Pv::new(named).record, Pv::new(named).field) == (record, Pv::new(&pv).field);
        let mut puts = logs.puts(&of_pv);
        if puts.any(|put| put.pv.as_deref().is_some_and(is_it) && !put.has_not_written()) {
            return NoChange::OnNetwork { pv };
        }
        if held.has_no_probes() {
            return NoChange::WithoutProbes { pv };
        }
        let narrowed = match (&self.at, &self.since, &self.ioc, &self.host) {
            (None, None, None, None) => Narrowed::No,
            (_, _, None, None) => Narrowed::ToTime,
            _ => Narrowed::ToPlace,
        };
        NoChange::Never { pv, time: held.time(zone), narrowed, missed }
    }
}
