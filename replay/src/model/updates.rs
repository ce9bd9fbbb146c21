//! The updates that may have made a program put: what its process had subscribed to, and which of that changed just before.
//!
//! Nothing in a log joins a put to the update on which a program acts. Where a process put by itself, and no link of its
//! records did, each PV to which it had subscribed and which a recorded IOC changed in the [`PROMPT`] before may have made
//! it act. All of them are told, and none is ever certain: a person may have put at that moment, a timer may have run out,
//! and a program may have been told something else than by Channel Access or PVAccess.
//!
//! An update is taken to be sent when a record ends its processing with another value or alarm than before, and when
//! another field than VAL is put to. A deadband (MDEL) may have held it back, and a record with MDEL below 0 sends more. Where
//! it is not known whether the value is another one, no change is told, but that the record was processed.
//! Processing also posts fields of which the log tells nothing, such as RVAL or the inputs of a calculation: who had subscribed
//! to such a field of a record that processed may have acted on another update than those that are told.
//!
//! Memory is bounded by the MAX_ constants; what there was no room for makes the answer say that it may be another.

use super::caller;
use super::chain::{Chain, Completed, Outcome, SpanKind};
use super::client::{Client, Holder};
use super::numbered::Keyed;
use super::origins::{fingerprint, Fingerprint};
use super::outcome::{self, Source};
use super::peers::Peers;
use super::putlog::{ProcessLine, PutLine};
use super::run::{field_name, record_name, Run};
use crate::time::SECOND;
use epics::Pv;
use iocrec_log::event::RecordId;
use std::cell::Cell;
use std::collections::{HashMap, HashSet, VecDeque};
use std::rc::{Rc, Weak};

/// Longest time from an update to a put that it may have set off, nanoseconds. Programs act within some milliseconds; one
/// that first reads or computes something takes longer, but what lies further back is as likely to be by chance.
pub const PROMPT: i64 = SECOND as i64 / 5;
/// Disorder among the times of what a client subscribed to, and of the updates; time after which a loss is told.
const SLACK: i64 = SECOND as i64;
/// Subscriptions of all clients, and of one process; times of all of them: bounds for hostile logs, and for the time that a
/// put takes.
const MAX_SUBSCRIPTIONS: usize = 50_000;
const MAX_OF_PROCESS: usize = 5_000;
const MAX_SPANS: usize = 500_000;
/// Updates of a record that are remembered at least, and of all records beyond these: where clocks differ, puts wait while a
/// record goes on to change.
const MAX_POSTS: usize = 64;
const MAX_MORE_POSTS: usize = 500_000;
/// Records whose numbers are remembered.
const MAX_RECORDS: usize = 500_000;
/// Updates that are told of a put.
const MAX_UPDATES: usize = 16;

/// A process on a recorded host: the host's name and the pid.
pub type Process = (String, u32);

/// The process that is a client, if there is only one that can be it.
pub fn process_of(client: &Client) -> Option<Process> {
    let pid = pid(client.only(), client.named.as_ref().filter(|_| client.holders.is_empty()))?;
    Some((client.host.clone(), pid))
}

/// The process that made a put by itself: no link of its records did, as far as is known.
pub fn acting(put: &PutLine) -> Option<Process> {
    let of = put.process.as_deref().filter(|_| put.cause_record.is_none())?;
    let by_link = match of.thread.as_deref() {
        Some(thread) => of.record.is_some() || thread == caller::CA_LINKS,
        None => of.record.is_some() || !of.part.links.is_empty(),
    };
    let pid = pid(of.only(), of.ioc.as_ref().filter(|_| of.holders.is_empty()))?;
    (!by_link).then(|| (of.host.clone().unwrap_or_default(), pid))
}

fn pid(only: Option<&Holder>, named: Option<&(String, u32, String)>) -> Option<u32> {
    only.map(|holder| holder.of.pid).or(named.map(|(_, pid, _)| *pid))
}

/// The updates that may have made a process put.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Before {
    /// One for each PV, the latest first; never empty.
    pub updates: Vec<Update>,
    /// Whether there may be others: there were too many, or no room for all, or something was lost or left out then.
    pub may_be_others: bool,
}

/// The updates of a PV.
#[derive(Clone, Debug, PartialEq)]
pub struct Update {
    /// The PV, as the client named it.
    pub pv: String,
    /// The host and the IOC that have it; empty if unknown.
    pub host: Rc<str>,
    /// See `host`.
    pub ioc: Rc<str>,
    /// How long before the put the last one was, nanoseconds.
    pub ago: i64,
    /// Number of updates in the [`PROMPT`] before the put, at least.
    pub times: usize,
    /// Whether each of them is known to be a change: of the first value that was seen, or of a part of one, it is not.
    pub is_sure: bool,
}

/// What a client had subscribed to: a channel.
#[derive(Debug)]
struct Subscription {
    /// The run that saw its circuit.
    run: usize,
    /// The server's host and the recorded IOC that it is, if that run knows it.
    server: Option<(String, String)>,
    /// The record's name.
    record: String,
    /// Wall-clock times between which there was a subscription, in order.
    spans: Vec<(i64, i64)>,
}

/// What clients had subscribed to.
#[derive(Debug, Default)]
pub struct Subscriptions {
    /// By process and PV.
    of: HashMap<Process, HashMap<String, Vec<Subscription>>>,
    count: usize,
    spans: usize,
    /// Processes with more than there was room for, and whether that may be any.
    lacking: HashSet<Process>,
    may_lack: bool,
}

impl Subscriptions {
    /// Notes that a process had subscribed to a PV between two wall-clock times, as a run tells. `found`: the host and the
    /// recorded IOC that serves it, if that run knows it, and the record's name there.
    pub fn note(
        &mut self,
        process: Process,
        pv: &str,
        run: usize,
        (since, until): (i64, i64),
        found: impl FnOnce() -> (Option<(String, String)>, String),
    ) {
        if self.spans >= MAX_SPANS {
            self.may_lack = true;
            return;
        }
        let known = self.of.get_mut(&process).and_then(|pvs| pvs.get_mut(pv));
        let (server, record) = found();
        if let Some(all) = known {
            if let Some(of) = all.iter_mut().find(|of| of.run == run && of.server == server) {
                match of.spans.last_mut() {
                    Some(last) if (last.0..=last.1.saturating_add(SLACK)).contains(&since) => {
                        last.1 = last.1.max(until);
                    }
                    _ => {
                        of.spans.push((since, until));
                        self.spans += 1;
                    }
                }
                return;
            }
        }
        let pvs = self.of.get(&process).map_or(0, HashMap::len);
        if self.count >= MAX_SUBSCRIPTIONS || pvs >= MAX_OF_PROCESS {
            self.lacks_of(process);
            return;
        }
        let subscription = Subscription { run, server, record, spans: vec![(since, until)] };
        self.of.entry(process).or_default().entry(pv.to_owned()).or_default().push(subscription);
        self.count += 1;
        self.spans += 1;
    }

    /// Notes that a process may have had more subscriptions than are known.
    pub fn lacks_of(&mut self, process: Process) {
        if self.lacking.len() < MAX_SUBSCRIPTIONS {
            self.lacking.insert(process);
        } else {
            self.may_lack = true;
        }
    }

    /// Notes that every process may.
    pub fn lacks_of_any(&mut self) {
        self.may_lack = true;
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

/// What a record posted.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Post {
    /// It has another value, or another alarm, or both; or it may have, if that is not sure.
    Processed { alarm: bool, is_sure: bool },
    /// This field was put to.
    Field(Box<str>),
}

impl Post {
    /// Whether the ends of processing tell when this field is posted.
    fn is_told(field: &str) -> bool {
        matches!(field, "VAL" | "SEVR" | "STAT")
    }

    /// Whether who has subscribed to this field is told of it.
    fn is_of(&self, field: &str) -> bool {
        match (self, field) {
            (Post::Processed { .. }, "VAL") => true,
            (Post::Processed { alarm, .. }, "SEVR" | "STAT") => *alarm,
            (Post::Processed { .. }, _) => false,
            (Post::Field(own), field) => **own == *field,
        }
    }

    fn is_sure(&self) -> bool {
        !matches!(self, Post::Processed { is_sure: false, .. })
    }
}

/// A record to which somebody had subscribed.
struct Posting {
    host: Rc<str>,
    ioc: Rc<str>,
    /// The run that recorded it.
    run: Option<usize>,
    value: Option<Fingerprint>,
    alarm: Option<(u16, u16)>,
    /// The last ones, by their places in the order of time.
    posts: VecDeque<(i64, Post)>,
    /// The last that was forgotten.
    forgotten: Option<i64>,
    kept: Kept,
    /// Whether somebody had subscribed to a field of which processing tells nothing.
    has_untold: bool,
    /// The last ends of processing that may have posted such a field, and the first, before which the alarm is not known.
    untold: VecDeque<(i64, Untold)>,
}

/// How long updates are remembered if there is room, nanoseconds, and how many there are beyond [`MAX_POSTS`] of each record.
#[derive(Clone)]
struct Kept {
    time: i64,
    more: Rc<Cell<usize>>,
}

/// What a processing may have posted without a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Untold {
    Fields,
    /// Its alarm, too.
    Alarm,
}

impl Untold {
    /// Whether it may be this field.
    fn may_be(self, field: &str) -> bool {
        match field {
            "VAL" => false,
            "SEVR" | "STAT" => self == Untold::Alarm,
            _ => true,
        }
    }
}

impl Posting {
    /// Whether it is the record of this host and IOC.
    fn is_of(&self, (host, ioc): &(String, String)) -> bool {
        **host == *self.host && **ioc == *self.ioc
    }

    fn post(&mut self, time: i64, post: Post) {
        let (wanted, more) = (time.saturating_sub(self.kept.time), &self.kept.more);
        while self.posts.len() >= MAX_POSTS {
            let Some((oldest, _)) = self.posts.front() else { break };
            if *oldest >= wanted && more.get() < MAX_MORE_POSTS {
                more.set(more.get() + 1);
                break;
            }
            self.forgotten = self.forgotten.max(Some(*oldest));
            self.posts.pop_front();
            if self.posts.len() >= MAX_POSTS {
                more.set(more.get().saturating_sub(1));
            }
        }
        self.posts.push_back((time, post));
    }

    fn processed(&mut self, time: i64, done: &Completed) {
        let untold = if self.alarm.is_none() { Untold::Alarm } else { Untold::Fields };
        if self.has_untold || untold == Untold::Alarm {
            if self.untold.len() >= MAX_POSTS {
                self.untold.pop_front();
            }
            self.untold.push_back((time, untold));
        }
        let (value, alarm) = (fingerprint(&done.value), (done.severity, done.status));
        // of what is cut, the rest may have changed
        let is_cut = outcome::is_cut(&done.value, Source::Record) == Some(true);
        let is_other = value.is_some() && (self.value != value || is_cut);
        let in_other_alarm = self.alarm.map_or(alarm.0 > 0, |was| was != alarm);
        // nothing is known of what was before the first that is seen
        let is_sure = value.is_some() && self.value.is_some_and(|was| Some(was) != value)
            || in_other_alarm && self.alarm.is_some();
        self.value = value.or(self.value);
        self.alarm = Some(alarm);
        if is_other || in_other_alarm {
            self.post(time, Post::Processed { alarm: in_other_alarm, is_sure });
        }
    }
}

/// What clients had subscribed to, and what changed of that. See the module.
pub struct Updates {
    subscriptions: Subscriptions,
    /// The names of the records, and of those with a subscription to a field of which processing tells nothing.
    records: HashSet<String>,
    with_untold: HashSet<String>,
    /// The names of all runs' hosts.
    hosts: Vec<String>,
    peers: Rc<Peers>,
    /// The runs whose addresses are used as keys; they keep the addresses from being used again.
    runs: HashMap<usize, Weak<Run>>,
    numbers: Keyed<(usize, RecordId), Option<usize>>,
    postings: Vec<Posting>,
    by_name: HashMap<String, Vec<usize>>,
    /// How far the clocks of hosts differ.
    late: i64,
    kept: Kept,
    may_lack: bool,
}

impl Updates {
    /// Of these subscriptions. `hosts`: the name of each run's host; `peers`: how far their clocks differ.
    pub fn new(subscriptions: Subscriptions, hosts: Vec<String>, peers: Rc<Peers>) -> Updates {
        let of = subscriptions.of.values().flat_map(|pvs| pvs.values().flatten());
        let records = of.map(|subscription| subscription.record.clone()).collect();
        let all = subscriptions.of.values().flatten();
        let with_untold = all.filter(|(pv, _)| !Post::is_told(Pv::new(pv).field)).flat_map(|(_, of)| of);
        let with_untold = with_untold.map(|subscription| subscription.record.clone()).collect();
        let may_lack = subscriptions.may_lack;
        let are_several = hosts.iter().any(|host| Some(host) != hosts.first()) && !subscriptions.is_empty();
        let late = if are_several { peers.most_ahead() } else { 0 };
        Updates {
            subscriptions,
            records,
            with_untold,
            hosts,
            peers,
            runs: HashMap::new(),
            numbers: Keyed::default(),
            postings: Vec::new(),
            by_name: HashMap::new(),
            late,
            kept: Kept { time: late.saturating_add(PROMPT + 2 * SLACK), more: Rc::default() },
            may_lack,
        }
    }

    /// Whether nobody had subscribed to anything: then nothing will be told.
    pub fn is_empty(&self) -> bool {
        self.subscriptions.is_empty()
    }

    /// The names of the records to which this process had subscribed.
    pub fn records_of(&self, process: &Process) -> Vec<String> {
        let of = self.subscriptions.of.get(process).into_iter().flat_map(|pvs| pvs.values().flatten());
        let names: HashSet<&String> = of.map(|subscription| &subscription.record).collect();
        names.into_iter().cloned().collect()
    }

    /// Time by which may come later than a put what has to do with it: an update, as far as the clocks of hosts differ, and that
    /// something was lost, which is told after it was.
    pub fn late(&self) -> i64 {
        self.late.saturating_add(SLACK)
    }

    /// Takes the changes in a chain, and in those that its CA links led to, in the order in which chains began.
    pub fn take(&mut self, chain: &Chain) {
        for span in &chain.spans {
            match &span.kind {
                SpanKind::Process(process) => {
                    let Outcome::Completed(done) = &process.outcome else { continue };
                    if let Some(posting) = self.posting(&chain.run, process.record) {
                        posting.processed(chain.run.even(span.end), done);
                    }
                }
                SpanKind::Put(put) if put.wrote && !put.only_processes => {
                    let Some(record) = put.record else { continue };
                    let Some(posting) = self.posting(&chain.run, record) else { continue };
                    let context = chain.run.context();
                    // VAL is posted by the processing that the put sets off
                    if let Some(field) = field_name(&context, put.field).filter(|field| *field != "VAL") {
                        let time = chain.run.even(put.written.unwrap_or(span.end));
                        posting.post(time, Post::Field(field.into()));
                    }
                }
                SpanKind::Put(_) => {}
                SpanKind::Link(link) => link.target.iter().for_each(|target| self.take(target)),
            }
        }
    }

    /// A record to which somebody had subscribed.
    fn posting(&mut self, run: &Rc<Run>, record: RecordId) -> Option<&mut Posting> {
        let key = (Rc::as_ptr(run) as usize, record);
        let number = match self.numbers.get(&key) {
            Some(known) => *known,
            None => {
                let number = self.add(run, record);
                if self.numbers.len() < MAX_RECORDS {
                    self.runs.entry(key.0).or_insert_with(|| Rc::downgrade(run));
                    self.numbers.insert(key, number);
                } else if number.is_some() {
                    self.may_lack = true;
                    return None;
                }
                number
            }
        };
        self.postings.get_mut(number?)
    }

    /// Adds a record, if somebody had subscribed to it and there is room.
    fn add(&mut self, run: &Rc<Run>, record: RecordId) -> Option<usize> {
        let context = run.context();
        let name = record_name(&context, record);
        if !self.records.contains(&name) {
            return None;
        }
        // of the chains that sampling left out, nothing is known in time
        self.may_lack |= run.is_sampled();
        if self.postings.len() >= MAX_SUBSCRIPTIONS {
            self.may_lack = true;
            return None;
        }
        let ioc = context.record(record).and_then(|record| context.ioc(record.ioc));
        let number = self.postings.len();
        self.postings.push(Posting {
            host: context.host().map_or("", |host| host.name.as_str()).into(),
            ioc: ioc.map_or("", |ioc| ioc.name.as_str()).into(),
            run: run.peers().map(|(_, number)| number),
            value: None,
            alarm: None,
            posts: VecDeque::new(),
            forgotten: None,
            kept: self.kept.clone(),
            has_untold: self.with_untold.contains(&name),
            untold: VecDeque::new(),
        });
        self.by_name.entry(name).or_default().push(number);
        Some(number)
    }

    /// How far the clock of a run is ahead of that of a host; `None` if that is not known.
    fn ahead(&self, run: Option<usize>, own: &str, host: &str) -> Option<i64> {
        if own == host || self.hosts.len() <= 1 {
            return Some(0);
        }
        let (run, hosts) = (run?, self.hosts.iter().enumerate());
        let mut others = hosts.filter(|(_, name)| **name == *host).map(|(other, _)| other);
        others.find_map(|other| self.peers.difference(run, other))
    }

    /// The updates before a put that a process made by itself. `None` if there were none, or if the process is not known. All
    /// chains that began before the put were taken.
    pub fn before(&self, put: &PutLine) -> Option<Before> {
        let process = acting(put)?;
        let host = put.host.as_deref().unwrap_or_default();
        let (mut updates, mut has_forgotten, mut is_untold) = (Vec::new(), false, false);
        for (pv, all) in self.subscriptions.of.get(&process)? {
            // most have not changed
            let postings = all.iter().filter_map(|of| self.by_name.get(&of.record)).flatten();
            let mut postings = postings.filter_map(|number| self.postings.get(*number));
            let may_matter = |posting: &Posting| {
                self.update(pv, posting, put, host).is_some()
                    || self.has_forgotten(posting, put, host)
                    || self.is_untold(pv, posting, put, host)
            };
            if !postings.any(may_matter) {
                continue;
            }
            let is_open = |of: &&Subscription| {
                let own = self.hosts.get(of.run).map_or("", String::as_str);
                let time = put.time.saturating_add(self.ahead(Some(of.run), own, host).unwrap_or(0));
                let covers = |(since, until): &(i64, i64)| {
                    (since.saturating_sub(SLACK)..=until.saturating_add(SLACK)).contains(&time)
                };
                of.spans.iter().any(covers)
            };
            // the log of the client's host may have the circuit, too, and not know who serves it
            let is_known = all.iter().filter(is_open).any(|of| of.server.is_some());
            let mut counted = Vec::new();
            for of in all.iter().filter(is_open).filter(|of| of.server.is_some() == is_known) {
                for number in self.by_name.get(&of.record).into_iter().flatten() {
                    let Some(posting) = self.postings.get(*number) else { continue };
                    let is_it = of.server.as_ref().is_none_or(|server| posting.is_of(server));
                    if is_it && !counted.contains(number) {
                        counted.push(*number);
                        has_forgotten |= self.has_forgotten(posting, put, host);
                        updates.extend(self.update(pv, posting, put, host));
                        is_untold |= self.is_untold(pv, posting, put, host);
                    }
                }
            }
        }
        // several recorders of an IOC tell of each update: the one that knows most counts
        let whose = |update: &Update| (Rc::clone(&update.host), Rc::clone(&update.ioc));
        updates.sort_by(|a: &Update, b| {
            let (one, other) = ((&a.pv, whose(a)), (&b.pv, whose(b)));
            one.cmp(&other).then((!a.is_sure, a.ago).cmp(&(!b.is_sure, b.ago)))
        });
        updates.dedup_by(|later, kept| later.pv == kept.pv && whose(later) == whose(kept));
        updates.sort_by(|a, b| (a.ago, &a.pv, &a.ioc).cmp(&(b.ago, &b.pv, &b.ioc)));
        // by whichever host's clock
        let (since, until) = (put.time.saturating_sub(PROMPT), put.time);
        let has_lost = self.peers.has_lost(since.saturating_sub(self.late), until.saturating_add(self.late));
        let is_lacking = has_lost || self.may_lack || self.subscriptions.lacking.contains(&process);
        let is_lacking = is_lacking || has_forgotten || is_untold;
        let may_be_others = is_lacking || updates.len() > MAX_UPDATES;
        updates.truncate(MAX_UPDATES);
        (!updates.is_empty()).then_some(Before { updates, may_be_others })
    }

    /// Whether updates of a record before a put may be forgotten.
    fn has_forgotten(&self, posting: &Posting, put: &PutLine, host: &str) -> bool {
        let Some(forgotten) = posting.forgotten else { return false };
        let ahead = self.ahead(posting.run, &posting.host, host);
        ahead.is_some_and(|ahead| put.even.saturating_sub(forgotten.saturating_sub(ahead)) <= PROMPT)
    }

    /// Whether a PV may have had an update before a put of which the log tells nothing.
    fn is_untold(&self, pv: &str, posting: &Posting, put: &PutLine, host: &str) -> bool {
        let Some(ahead) = self.ahead(posting.run, &posting.host, host) else { return false };
        let field = Pv::new(pv).field;
        let mut own = posting.untold.iter().filter(|(_, untold)| untold.may_be(field));
        own.any(|(time, _)| (0..=PROMPT).contains(&put.even.saturating_sub(time.saturating_sub(ahead))))
    }

    /// The updates of a PV before a put.
    fn update(&self, pv: &str, posting: &Posting, put: &PutLine, host: &str) -> Option<Update> {
        let ahead = self.ahead(posting.run, &posting.host, host)?;
        let field = Pv::new(pv).field;
        let own = posting.posts.iter().filter(|(_, post)| post.is_of(field));
        let ago = own.map(|(time, post)| (put.even.saturating_sub(time.saturating_sub(ahead)), post));
        let (mut last, mut times, mut is_sure) = (None::<i64>, 0, true);
        for (ago, post) in ago.filter(|(ago, _)| (0..=PROMPT).contains(ago)) {
            last = Some(last.map_or(ago, |last| last.min(ago)));
            times += 1;
            is_sure &= post.is_sure();
        }
        let ago = last?;
        let (host, ioc) = (Rc::clone(&posting.host), Rc::clone(&posting.ioc));
        Some(Update { pv: pv.to_owned(), host, ioc, ago, times, is_sure })
    }
}

/// Puts what may have made a process act into the line of its put.
pub fn tell(put: &mut PutLine, before: Option<Before>) {
    let of: Option<&mut ProcessLine> = put.process.as_deref_mut();
    if let (Some(of), Some(before)) = (of, before) {
        of.after = Some(Box::new(before));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::client::Part;
    use crate::output::puts::sample;
    use iocrec_log::event::{Array, Dbf, Value};

    const MS: i64 = SECOND as i64 / 1000;

    fn client() -> Process {
        ("box1".to_owned(), 7)
    }

    /// A put of the process, as of a program in an IOC.
    fn put() -> PutLine {
        let ioc = Some(("second".to_owned(), 7, "softIoc".to_owned()));
        let process = ProcessLine { host: Some("box1".into()), ioc, ..ProcessLine::default() };
        PutLine { process: Some(Box::new(process)), ..sample::put() }
    }

    /// The process had subscribed to these PVs of a record, which is one of the IOC `demo` if that is known.
    fn subscribed(pvs: &[&str], is_known: bool) -> Updates {
        let mut found = Subscriptions::default();
        for pv in pvs {
            let server = is_known.then(|| ("box1".to_owned(), "demo".to_owned()));
            let record = Pv::new(pv).record.to_owned();
            found.note(client(), pv, 0, (i64::MIN, i64::MAX), || (server, record));
        }
        Updates::new(found, vec!["box1".into()], Rc::new(Peers::default()))
    }

    impl Updates {
        /// A record of this IOC.
        fn with(&mut self, name: &str, ioc: &str) -> &mut Posting {
            self.by_name.entry(name.into()).or_default().push(self.postings.len());
            self.postings.push(Posting {
                host: "box1".into(),
                ioc: ioc.into(),
                run: Some(0),
                value: None,
                alarm: None,
                posts: VecDeque::new(),
                forgotten: None,
                kept: self.kept.clone(),
                has_untold: self.with_untold.contains(name),
                untold: VecDeque::new(),
            });
            self.postings.last_mut().unwrap()
        }

        fn told(&self) -> Vec<(String, i64, usize)> {
            let before = self.before(&put()).unwrap_or_default();
            before.updates.into_iter().map(|update| (update.pv, update.ago / MS, update.times)).collect()
        }
    }

    fn done(value: f64, severity: u16) -> Completed {
        Completed { value: Value::Double(value), severity, status: 0 }
    }

    #[test]
    fn each_field_has_its_own_updates() {
        let mut updates = subscribed(&["A:X", "A:X.SEVR", "A:X.HIHI"], true);
        let at = |before: i64| put().even - before * MS;
        let posting = updates.with("A:X", "demo");
        posting.processed(at(500), &done(1.0, 0));
        posting.processed(at(90), &done(1.0, 0));
        assert!(updates.told().is_empty(), "it did not change");
        let posting = &mut updates.postings[0];
        posting.processed(at(80), &done(2.0, 0));
        posting.processed(at(20), &done(2.0, 1));
        posting.post(at(10), Post::Field("HIHI".into()));
        posting.post(at(5), Post::Field("LOLO".into()));
        let told: [(&str, i64, usize); 3] = [("A:X.HIHI", 10, 1), ("A:X", 20, 2), ("A:X.SEVR", 20, 1)];
        assert_eq!(updates.told(), told.map(|(pv, ago, times)| (pv.to_owned(), ago, times)));
    }

    /// What was before the first value that is seen is not known, nor the rest of one that is held in part.
    #[test]
    fn what_may_not_have_changed() {
        let at = |before: i64| put().even - before * MS;
        let told = |all: &[(i64, Completed)], pv: &str| {
            let mut updates = subscribed(&[pv], true);
            let posting = updates.with("A:X", "demo");
            all.iter().for_each(|(before, done)| posting.processed(at(*before), done));
            let before = updates.before(&put()).unwrap_or_default();
            before.updates.iter().map(|update| (update.times, update.is_sure)).collect::<Vec<_>>()
        };
        let first = (500, done(1.0, 0));
        assert_eq!(told(&[(90, done(1.0, 0))], "A:X"), [(1, false)]);
        assert_eq!(told(&[(90, done(1.0, 0)), (50, done(2.0, 0))], "A:X"), [(2, false)]);
        assert_eq!(told(&[first, (90, done(2.0, 0)), (50, done(3.0, 0))], "A:X"), [(2, true)]);
        assert_eq!(told(&[(90, done(1.0, 2))], "A:X.SEVR"), [(1, false)]);
        assert_eq!(told(&[(500, done(1.0, 0)), (90, done(1.0, 2))], "A:X.SEVR"), [(1, true)]);
        let array = || Array { dbf: Dbf::Char, count: 2, bytes: vec![7] };
        let cut = || Completed { value: Value::Array(array()), severity: 0, status: 0 };
        assert_eq!(told(&[(500, cut()), (90, cut())], "A:X"), [(1, false)]);
    }

    #[test]
    fn records_of_one_name_in_two_iocs() {
        for (is_known, count) in [(true, 1), (false, 2)] {
            let mut updates = subscribed(&["A:X"], is_known);
            for (ioc, before) in [("demo", 10), ("twin", 5)] {
                updates.with("A:X", ioc).processed(put().even - before * MS, &done(1.0, 0));
            }
            let before = updates.before(&put()).unwrap();
            assert_eq!(before.updates.len(), count, "{before:?}");
            assert_eq!(before.updates.last().map(|update| &*update.ioc), Some("demo"));
            assert!(!before.may_be_others);
        }
    }

    /// A record's processing posts more than the log tells: whoever had subscribed to that may have acted on it.
    #[test]
    fn fields_of_which_processing_tells_nothing() {
        let at = |before: i64| put().even - before * MS;
        for (pv, may_be_others) in [("A:Y.A", true), ("A:Y.SEVR", false), ("A:Y", false), ("A:Z.A", false)] {
            let mut updates = subscribed(&["A:X", pv], true);
            updates.with("A:X", "demo").processed(at(10), &done(1.0, 0));
            let posting = updates.with("A:Y", "demo");
            for before in [500, 100] {
                posting.processed(at(before), &done(3.0, 0));
            }
            assert_eq!(updates.told(), [("A:X".to_owned(), 10, 1)], "{pv}");
            assert_eq!(updates.before(&put()).unwrap().may_be_others, may_be_others, "{pv}");
        }
        // whether the first processing that is seen changed the alarm is not known
        let mut updates = subscribed(&["A:X", "A:X.SEVR"], true);
        updates.with("A:X", "demo").processed(at(10), &done(1.0, 0));
        assert_eq!(updates.told(), [("A:X".to_owned(), 10, 1)]);
        assert!(updates.before(&put()).unwrap().may_be_others);
    }

    /// Two recorders of an IOC see the same updates, one of them not from the beginning.
    #[test]
    fn what_two_recorders_tell_is_told_once() {
        let at = |before: i64| put().even - before * MS;
        let mut updates = subscribed(&["A:X"], true);
        updates.with("A:X", "demo").processed(at(20), &done(2.0, 0));
        let posting = updates.with("A:X", "demo");
        posting.processed(at(500), &done(1.0, 0));
        posting.processed(at(20), &done(2.0, 0));
        let before = updates.before(&put()).unwrap();
        assert_eq!(before.updates.len(), 1, "{before:?}");
        assert!(before.updates[0].is_sure);
    }

    #[test]
    fn who_did_not_act_by_itself() {
        let mut updates = subscribed(&["A:X"], true);
        updates.with("A:X", "demo").processed(put().even - MS, &done(1.0, 0));
        assert_eq!(updates.told().len(), 1);
        let of = |change: &dyn Fn(&mut ProcessLine)| {
            let mut put = put();
            change(put.process.as_deref_mut().unwrap());
            updates.before(&put)
        };
        assert_eq!(of(&|of| of.record = Some("A:OUT.OUT".into())), None);
        assert_eq!(of(&|of| of.thread = Some(caller::CA_LINKS.into())), None);
        let part = || Part { links: vec!["A:OUT.OUT".into()], ..Part::default() };
        assert_eq!(of(&|of| of.part = part()), None, "it may be that link's");
        assert!(of(&|of| (of.part, of.thread) = (part(), Some("ramp".into()))).is_some());
        assert_eq!(of(&|of| of.host = Some("box2".into())), None, "another process");
        assert_eq!(updates.before(&PutLine { cause_record: Some("A:OUT".into()), ..put() }), None);
        assert_eq!(updates.before(&sample::put()), None, "nobody is known");
    }

    #[test]
    fn what_is_remembered_is_bounded_and_said() {
        let mut found = Subscriptions::default();
        let minute = 60 * SECOND as i64;
        for number in 0..1000 {
            found.note(client(), "A:X", 0, (number * minute, (number + 1) * minute), || (None, "A:X".into()));
        }
        assert_eq!(found.spans, 1, "counts that follow each other");
        found.note(client(), "A:X", 0, (2000 * minute, 2001 * minute), || (None, "A:X".into()));
        assert_eq!((found.spans, found.count), (2, 1));
        for number in 0..2 * MAX_OF_PROCESS {
            let pv = format!("A:{number}");
            found.note(client(), &pv, 0, (i64::MIN, i64::MAX), || (None, pv.clone()));
        }
        assert_eq!(found.of[&client()].len(), MAX_OF_PROCESS);
        let mut updates = Updates::new(found, vec!["box1".into()], Rc::new(Peers::default()));
        let posting = updates.with("A:1", "demo");
        let times = i64::try_from(2 * MAX_POSTS).unwrap();
        posting.kept.more.set(MAX_MORE_POSTS);
        for number in 0..times {
            posting.processed(put().even - MS - (times - number), &done(number as f64, 0));
        }
        assert_eq!(posting.posts.len(), MAX_POSTS);
        let before = updates.before(&put()).unwrap();
        assert!(before.may_be_others, "there may be more");
        assert_eq!((before.updates[0].ago, before.updates[0].times), (MS + 1, MAX_POSTS));
    }

    /// What another host's recorder lost is told by its own clock.
    #[test]
    fn where_something_was_lost_there_may_be_others() {
        for (late, may_be_others) in [(0, false), (10, true)] {
            let mut updates = subscribed(&["A:X"], true);
            updates.late = late * SECOND as i64;
            updates.with("A:X", "demo").processed(put().even - 5 * MS, &done(1.0, 0));
            let lost = put().time + 5 * SECOND as i64;
            updates.peers.lost(1, lost, lost + MS);
            assert_eq!(updates.before(&put()).unwrap().may_be_others, may_be_others);
        }
    }

    /// Where clocks differ, a put waits for what may be as late, and its record changes all the while.
    #[test]
    fn what_came_before_a_put_is_remembered_while_it_waits() {
        let mut updates = subscribed(&["A:X"], true);
        let second = SECOND as i64;
        updates.kept.time = 10 * second;
        let posting = updates.with("A:X", "demo");
        posting.processed(put().even - second, &done(0.0, 0));
        for number in 0..1000 {
            posting.processed(put().even - 5 * MS + number * 10 * MS, &done(1.0 + number as f64, 0));
        }
        let before = updates.before(&put()).unwrap();
        assert_eq!((before.updates[0].ago, before.updates[0].times), (5 * MS, 1));
        assert!(!before.may_be_others);
        // what is old is forgotten, and its room with it
        let posting = &mut updates.postings[0];
        assert_eq!(posting.kept.more.get(), posting.posts.len() - MAX_POSTS);
        posting.processed(put().even + 1000 * second, &done(0.0, 0));
        assert_eq!((posting.posts.len(), posting.kept.more.get()), (MAX_POSTS, 0));
        assert!(updates.told().is_empty(), "forgotten");
    }
}
