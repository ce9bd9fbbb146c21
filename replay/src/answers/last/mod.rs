//! The last minute of an IOC: what it did until its end, or until the end of the log.
//!
//! It shows what is recorded, side by side. What ended an IOC is never concluded from what it did last.

mod minute;
mod walk;

pub use walk::ThreadLine;

use crate::answers::alarms::LETTING_GO;
use crate::answers::clients::{ClientLine, Clients, Ended, Slow};
use crate::answers::console::Row as ConsoleRow;
use crate::answers::hangs::Hang;
use crate::answers::network::{NetLine, Network};
use crate::answers::processes::{Process, Processes};
use crate::answers::states;
use crate::answers::states::state::{FieldState, State};
use crate::filter::Filter;
use crate::logs::Logs;
use crate::model::alarms::{Alarm, AlarmLine, Until, What as AlarmWhat};
use crate::model::asides::What as Beside;
use crate::model::base_types::has_processed;
use crate::model::chain::{Chain, Outcome as End, PutSpan, Span, SpanKind};
use crate::model::origins::Wording;
use crate::model::putlog::{each_put_rooted, ioc_name, root_put, PutLine, Via};
use crate::model::run::{record_name, Run};
use crate::names::{is_lost, lost};
use crate::pattern::Pattern;
use crate::reading::ended_unseen::UNSEEN;
use crate::time::SECOND;
use iocrec_log::event::{CauseKind, Fact, ThreadId};
use minute::Minute;
use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use walk::Walk;

/// The minute, and the time before it with which it is compared, in nanoseconds.
pub const MINUTE: i64 = 60 * SECOND as i64;
/// See [`MINUTE`].
pub const BEFORE: i64 = 2 * MINUTE;
/// A client that was disconnected this long before the end was connected until then: the kernel closes the sockets of a
/// process that dies, and the recorder learns of both within a turn of its loop.
const AT_END: i64 = 2 * SECOND as i64;
/// Puts shown.
const MAX_PUTS: usize = 10;
/// Items kept of each list; bounds for hostile logs.
const MAX_ITEMS: usize = 1000;

/// A record that had begun to process and was not seen to complete.
#[derive(Clone, Debug)]
pub struct Begun {
    /// Wall-clock time.
    pub time: i64,
    /// Record.
    pub record: String,
    /// Name of the thread; empty if unknown.
    pub thread: String,
    /// Whether the recorder saw that it was still active later on.
    pub active: bool,
    /// Whether it was waiting for a callback that it had asked for.
    pub waits: bool,
    /// The cause of its chain.
    pub cause: String,
}

/// A put with callback of which no answer was seen.
#[derive(Clone, Debug)]
pub struct Unanswered {
    /// The put.
    pub put: PutLine,
}

/// Something that was not recorded.
#[derive(Clone, Debug)]
pub struct NotSeen {
    /// From when to when, in wall-clock time; at most the minute.
    pub from: i64,
    /// See `from`.
    pub to: i64,
    /// What and why.
    pub cause: String,
}

/// How the last minute ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The IOC ended; how is empty if that is not known.
    Ended(String),
    /// It ended in a part of the log that is missing, by this wall-clock time.
    Unseen(i64),
    /// Nobody saw it end: another process of its name was found in its place.
    Replaced,
    /// It was no longer recorded, for this reason, though it lived.
    NotRecorded(String),
    /// The log ends, and the IOC lives.
    LogEnds,
    /// Its recorder's run ends, and the IOC lives; later logs of the host don't tell what became of it.
    RunEnds,
    /// The time asked for.
    Asked,
}

/// The last minute.
pub struct Last {
    /// The process.
    pub process: Process,
    /// Why this one, if no IOC was named and there are several.
    pub others: usize,
    /// How it ended.
    pub ending: Ending,
    /// Wall-clock times: the end, the begin of the minute, and that of the time before it, as far as recorded. The
    /// time before is empty if both are the same.
    pub end: i64,
    /// See `end`.
    pub from: i64,
    /// See `end`.
    pub before: i64,
    /// Records begun and not completed, the latest last, and how many began before them.
    pub begun: Vec<Begun>,
    /// See `begun`.
    pub more_begun: u64,
    /// Puts with callback of which no answer was seen.
    pub unanswered: Vec<Unanswered>,
    /// Threads, the last to do something first.
    pub threads: Vec<ThreadLine>,
    /// The last puts, also from before the minute.
    pub puts: VecDeque<Rc<PutLine>>,
    /// Changes of alarms in the minute: the last ones, and how many came before them.
    pub alarms: VecDeque<AlarmLine>,
    /// See `alarms`.
    pub more_alarms: u64,
    /// Number of records in alarm at the end.
    pub in_alarm: usize,
    /// Those of them of which nothing was seen lately: their alarms, the worst first.
    pub standing: Vec<(Alarm, Rc<str>)>,
    /// Records that were in alarm when they were last seen, and may have left it since.
    pub in_alarm_when_seen: usize,
    /// What was not recorded in the minute.
    pub not_seen: Vec<NotSeen>,
    /// Whether something was lost in the time before it: what was counted there is a minimum.
    pub lost_before: bool,
    /// Whether chain sampling left out chains in the minute or before, or may have: counts are minima.
    pub sampled: bool,
    /// Whether all that was recorded of the process in the minute are packets.
    pub packets_only: bool,
    /// Clients that were connected at the end.
    pub clients: Vec<ClientLine>,
    /// What it printed in the minute: the last lines, and how many came before them.
    pub said: VecDeque<ConsoleRow>,
    /// See `said`.
    pub more_said: u64,
    /// Its threads that stood still in the minute, and scans that came too late.
    pub hangs: Vec<Hang>,
    /// Its connections with devices that ended in this time, or did not come about, and what it had to send again.
    pub devices: Vec<NetLine>,
    /// Its clients that did not keep up in this time, with each time of it, in order of time.
    pub slow: Vec<(ClientLine, Slow)>,
    /// Where its host's clock was set forward: what it showed before and after.
    leaps: Vec<(i64, i64)>,
}

/// Chooses the process: of those that match, the one that ended last; if none ended, the one that was recorded last.
fn choose(processes: &Processes, filter: &Filter) -> Option<(usize, usize)> {
    let matching = |process: &Process| filter.place(&process.host, &process.ioc);
    let all: Vec<(usize, &Process)> =
        processes.all().iter().enumerate().filter(|(_, process)| matching(process)).collect();
    let in_time = |process: &Process| {
        let begun = process.started.or(process.until);
        filter.until.is_none_or(|until| begun.is_none_or(|begun| begun < until))
    };
    let key = |process: &Process| {
        let end = process.end.as_ref().map(|end| end.wall.unwrap_or(i64::MIN));
        let end = end.filter(|end| filter.until.is_none_or(|until| *end <= until));
        (end.is_some(), end.or(process.until))
    };
    let chosen =
        all.iter().filter(|(_, process)| in_time(process)).max_by_key(|(_, process)| key(process))?;
    Some((chosen.0, all.len().saturating_sub(1)))
}

impl Last {
    /// When the record of the process begins, if it ran unrecorded in the minute before that.
    pub fn begins(&self) -> Option<i64> {
        let began =
            self.process.recorded.filter(|recorded| *recorded == self.from && *recorded < self.end)?;
        Some(began).filter(|began| self.process.started.is_none_or(|started| started < *began))
    }

    /// Reads the last minute of the IOC that the filter names; of several, see [`Last::others`]. `None` if there is
    /// none.
    pub fn read(logs: &Logs, filter: &Filter, wording: Wording) -> Option<Last> {
        let processes = Processes::read(logs);
        let (number, others) = choose(&processes, filter)?;
        let process = processes.get(number)?.clone();
        let (end, ending) = ending(&process, filter.until, logs.end());
        let recorded = process.recorded.max(process.started).unwrap_or(i64::MIN);
        let from = end.saturating_sub(MINUTE).max(recorded.min(end));
        let before = from.saturating_sub(BEFORE).max(recorded.min(from));
        let leaps = logs.leaps().remove(&*process.host).unwrap_or_default();
        let mut last = Last {
            leaps: leaps.into_iter().collect(),
            others,
            ending,
            end,
            from,
            before,
            begun: Vec::new(),
            more_begun: 0,
            unanswered: Vec::new(),
            threads: Vec::new(),
            puts: VecDeque::new(),
            alarms: VecDeque::new(),
            more_alarms: 0,
            in_alarm: 0,
            standing: Vec::new(),
            in_alarm_when_seen: 0,
            not_seen: Vec::new(),
            lost_before: false,
            sampled: false,
            packets_only: process.is_by_packets(from, end),
            clients: Vec::new(),
            said: VecDeque::new(),
            more_said: 0,
            hangs: Vec::new(),
            devices: Vec::new(),
            slow: Vec::new(),
            process,
        };
        let name = |name: &str| Some(name).filter(|name| !name.is_empty()).map(Pattern::literally);
        let of_ioc = Filter {
            since: Some(last.from),
            until: Some(end.saturating_add(1)),
            ioc: name(&last.process.ioc),
            host: name(&last.process.host),
            ..Filter::default()
        };
        let processes = Rc::new(processes);
        let quiet = logs.without_notices();
        let mut minute = Minute {
            filter: &of_ioc,
            number,
            changes: quiet.changes(&of_ioc, Rc::clone(&processes)),
            clients: Clients::without_names(&quiet),
        };
        last.chains(logs, Walk::new(&processes, number, wording), &mut minute);
        let pid = last.process.pid;
        let read = minute.read_from().unwrap_or(i64::MIN);
        if recorded < read {
            last.standing(states::at(&quiet, &Filter { since: None, ..of_ioc.clone() }, read), &minute);
        }
        last.hangs = quiet.hangs(&of_ioc);
        last.hangs.retain(|row| row.pid == Some(pid));
        keep_last(&mut last.hangs);
        last.devices = Network::of_devices(&quiet, &of_ioc);
        keep_last(&mut last.devices);
        for row in quiet.console(&of_ioc).filter(|row| row.pid == Some(pid)) {
            last.said.push_back(row);
            if last.said.len() > MAX_ITEMS {
                last.said.pop_front();
                last.more_said += 1;
            }
        }
        let connected = |line: &ClientLine| {
            // an earlier or later process of that name had others
            if line.ioc_pid.is_some_and(|own| own != pid) {
                return false;
            }
            let begun = line.connected.unwrap_or(line.seen);
            // of one that was open when an earlier run ended, nothing is known of later
            let gone = match line.ended {
                Ended::No => line.watched.filter(|_| !line.may_go_on),
                Ended::Closed => line.disconnected,
                _ => None,
            };
            begun <= end && gone.is_none_or(|gone| gone >= end.saturating_sub(AT_END))
        };
        let clients = minute.clients.lines(&of_ioc);
        let own = clients.iter().filter(|line| line.ioc_pid.is_none_or(|own| own == pid));
        let slow = own.flat_map(|line| line.slow.iter().map(move |slow| (line, slow)));
        let slow = slow.filter(|(_, slow)| slow.is_in(&of_ioc)).take(MAX_ITEMS);
        last.slow = slow.map(|(line, slow)| (line.clone(), slow.clone())).collect();
        last.slow.sort_by_key(|(_, slow)| slow.since);
        last.clients = clients.into_iter().filter(connected).collect();
        Some(last)
    }

    /// Reads the chains, once for all that is asked of them.
    fn chains(&mut self, logs: &Logs, mut walk: Walk, minute: &mut Minute) {
        let filter =
            Filter { since: Some(self.before), until: Some(self.end.saturating_add(1)), ..Filter::default() };
        let mut replay = logs.replay(&filter).with_asides();
        let mut runs: HashMap<usize, bool> = HashMap::new();
        let host = Rc::clone(&self.process.host);
        let mut is_of_host = |run: &Rc<Run>| {
            *runs.entry(Rc::as_ptr(run) as usize).or_insert_with(|| run.host().as_str() == &*host)
        };
        // From when on a part of a run is missing, until something of it is there again: others of its host go on. By the run's
        // address, only compared.
        let mut gaps: HashMap<usize, Option<i64>> = HashMap::new();
        loop {
            let chain = replay.next();
            while let Some(aside) = replay.aside(i64::MAX) {
                if is_of_host(&aside.run) {
                    let key = Rc::as_ptr(&aside.run) as usize;
                    if let Some(gap) = gaps.get_mut(&key) {
                        self.end_gap(gap, aside.time);
                    }
                    match aside.what {
                        Beside::Missing => _ = gaps.entry(key).or_default().get_or_insert(aside.time),
                        _ => self.beside(aside.time, &aside.run, &aside.what),
                    }
                }
                minute.aside(aside);
            }
            let Some(chain) = chain else { break };
            let gap = gaps.get_mut(&(Rc::as_ptr(&chain.run) as usize));
            if let (Some(gap), Some(first)) = (gap, chain.spans.first()) {
                self.end_gap(gap, chain.run.wall(first.start));
            }
            self.sampled = self.sampled || chain.run.is_sampled() && is_of_host(&chain.run);
            let has_puts = self.chain(&mut walk, &chain, &chain, None);
            let root = self.puts_of(&chain, has_puts, minute);
            minute.push(chain, root, replay.earliest());
            self.changes(minute);
        }
        minute.changes.finish();
        self.changes(minute);
        gaps.values_mut().for_each(|gap| self.end_gap(gap, i64::MAX));
        let unseen = self.process.unseen.iter().map(|unseen| NotSeen {
            from: unseen.from,
            to: unseen.to,
            cause: format!("not recorded: {}", unseen.cause),
        });
        self.not_seen.extend(unseen);
        let skipped = self.leaps.iter().map(|(from, to)| NotSeen {
            from: *from,
            to: *to,
            cause: "none of this time has passed: the clock was set forward".to_owned(),
        });
        self.not_seen.extend(skipped);
        let (from, end) = (self.from, self.end);
        // of an IOC that ended before it was recorded there is no other time to tell of
        let since = if from < end { from } else { end.saturating_sub(MINUTE) };
        self.not_seen.retain(|seen| seen.from < end && seen.to > since);
        self.not_seen.sort_by_key(|seen| seen.from);
        for seen in &mut self.not_seen {
            (seen.from, seen.to) = (seen.from.max(since), seen.to.min(end));
        }
        // behind times of which nothing is known
        let by_packets = match self.packets_only {
            true => vec![(from, end)],
            false => self.process.by_packets(from, end),
        };
        let cause = "processing and alarms: packets do not show them";
        self.not_seen.extend(by_packets.into_iter().map(|(from, to)| NotSeen {
            from,
            to,
            cause: cause.into(),
        }));
        self.keep_the_latest_begun();
        self.threads = walk.lines();
    }

    /// Takes the changes of alarms that are ready.
    fn changes(&mut self, minute: &mut Minute) {
        while let Some(line) = minute.changes.line() {
            match line.what {
                _ if line.place.process != Some(minute.number) => {}
                AlarmWhat::Still => {
                    let lost = line.until == Some(Until::Gap);
                    self.in_alarm += usize::from(!lost && !line.unprocessed);
                    self.in_alarm_when_seen += usize::from(lost && !line.unprocessed);
                }
                _ => {
                    self.alarms.push_back(line);
                    if self.alarms.len() > MAX_ITEMS {
                        self.alarms.pop_front();
                        self.more_alarms += 1;
                    }
                }
            }
        }
    }

    /// Takes the alarms of records that were not seen since a time, when this was the state of all.
    fn standing(&mut self, then: State, minute: &Minute) {
        let (since, lasts) = (then.time(), self.end.saturating_sub(LETTING_GO));
        let is_unseen = self.process.unseen.iter().any(|unseen| unseen.from < lasts && unseen.to > since);
        let own = |field: &FieldState| {
            let (process, _, name) = &field.key;
            (process.pid, &**name) == (self.process.pid, "VAL")
        };
        let all = Filter { pv: vec![Pattern::literally("")], ..Filter::default() };
        let mut standing: Vec<(Alarm, Rc<str>)> = Vec::new();
        for field in then.into_fields(&all).into_iter().filter(own) {
            let seen = field.seen.as_deref().filter(|seen| !seen.unprocessed);
            let Some(alarm) = seen.and_then(|seen| seen.alarm).filter(|alarm| alarm.0 > 0) else { continue };
            let record = &field.key.1;
            if minute.changes.has_seen(minute.number, record) {
                continue;
            }
            if is_unseen || field.doubt.is_some() {
                self.in_alarm_when_seen += 1;
                continue;
            }
            self.in_alarm += 1;
            standing.push((alarm, Rc::clone(record)));
        }
        standing.sort_by_key(|(alarm, record)| (Reverse(alarm.0), Rc::clone(record)));
        self.standing = standing;
    }

    fn keep_the_latest_begun(&mut self) {
        self.begun.sort_by_key(|begun| begun.time);
        let more = self.begun.len().saturating_sub(MAX_ITEMS);
        self.begun.drain(..more);
        self.more_begun += more as u64;
    }

    /// Nanoseconds of the time from `from` to `to` in which the process was recorded: what rates are over. What the clock
    /// skipped is no such time.
    pub fn recorded(&self, from: i64, to: i64) -> u64 {
        let unseen = self.process.unseen.iter().map(|unseen| (unseen.from, unseen.to));
        let unseen = unseen.chain(self.leaps.iter().copied());
        let mut spans: Vec<(i64, i64)> =
            unseen.map(|(begin, over)| (begin.max(from), over.min(to))).collect();
        spans.sort_unstable();
        let (mut recorded, mut at) = (0, from);
        for (begin, end) in spans.into_iter().filter(|(begin, end)| begin < end) {
            recorded += u64::try_from(begin.saturating_sub(at)).unwrap_or(0);
            at = at.max(end);
        }
        recorded + u64::try_from(to.saturating_sub(at)).unwrap_or(0)
    }

    fn beside(&mut self, time: i64, run: &Rc<Run>, what: &Beside) {
        let not_seen = match what {
            Beside::Fact(Fact::Loss(loss)) if is_lost(loss) => NotSeen {
                // both are rounded, each by a clock of its own
                from: run.wall(loss.since).min(time),
                to: time,
                cause: format!("{}: {}", lost(loss), loss.cause),
            },
            Beside::Fact(Fact::ChainsLeftOut(_)) => {
                self.sampled |= time >= self.before && time <= self.end;
                return;
            }
            Beside::Missing | Beside::Fact(_) | Beside::Said(_) => return,
        };
        self.note(not_seen);
    }

    /// Something is there again at this time, if it is later than the begin of a part that is missing.
    fn end_gap(&mut self, gap: &mut Option<i64>, time: i64) {
        if let Some(from) = gap.take_if(|from| *from < time) {
            // a part at the end of the log is after its last event, which is the end
            let from = from.saturating_sub(1);
            self.note(NotSeen { from, to: time, cause: "a part of the log is missing".into() });
        }
    }

    fn note(&mut self, not_seen: NotSeen) {
        self.lost_before |= not_seen.from < self.from && not_seen.to > self.before && self.before < self.from;
        if self.not_seen.len() < MAX_ITEMS && not_seen.to >= self.from {
            self.not_seen.push(not_seen);
        }
    }

    /// Takes a chain. Returns whether a put in it reached the process from outside.
    fn chain(&mut self, walk: &mut Walk, top: &Chain, chain: &Chain, link: Option<&str>) -> bool {
        let mut has_puts = false;
        for span in &chain.spans {
            match &span.kind {
                SpanKind::Link(to) => {
                    if let Some(target) = &to.target {
                        let record = to.record.map(|record| record_name(&chain.run.context(), record));
                        let link = Some(record.as_deref().unwrap_or_default());
                        has_puts |= self.chain(walk, top, target, link);
                    }
                    continue;
                }
                SpanKind::Process(_) => {}
                SpanKind::Put(put) => {
                    let is_own = walk.is_own_put(&chain.run, span, put);
                    has_puts |= is_own && span.parent.is_none();
                    if is_own && span.parent.is_none() {
                        self.unanswered(chain, span, put, link);
                    }
                }
            }
            let Some(thread) = span.thread.filter(|thread| walk.is_own(&chain.run, *thread)) else {
                continue;
            };
            self.did(walk, top, chain, span, thread);
        }
        has_puts
    }

    /// Counts the puts of a chain, and takes those that reached the process from outside, be it from another IOC, if it has
    /// such. Returns the put that is its root, if there is one.
    fn puts_of(&mut self, chain: &Chain, has_puts: bool, minute: &mut Minute) -> Option<Rc<PutLine>> {
        let (ioc, host, end) = (Rc::clone(&self.process.ioc), Rc::clone(&self.process.host), self.end);
        // what a chain of another IOC led to by its links came from there, also where its circuit does not say so
        let is_anothers = chain.root().is_some_and(|root| {
            let context = chain.run.context();
            let name = ioc_name(&context, root);
            !name.is_empty() && (name != &*ioc || *chain.run.host() != *host)
        });
        let mut root = None;
        each_put_rooted(chain, &mut |put, is_root| {
            minute.clients.count(&put, minute.filter);
            let is_own = match put.client_ioc.as_deref() {
                // another host may have one of that name
                Some(client) => {
                    let of = put.process.as_ref().and_then(|process| process.host.as_deref());
                    client == &*ioc && of.is_none_or(|of| of == &*host)
                }
                None => is_root || !is_anothers,
            };
            let inner = matches!(put.via, Via::DbLink | Via::Python)
                || matches!(put.via, Via::CaLink | Via::PvaLink) && is_own;
            let is_here = put.host.as_deref().unwrap_or_default() == &*host;
            let is_here = is_here && put.ioc.as_deref() == Some(&*ioc);
            let is_shown = has_puts && !inner && is_here && put.time <= end;
            let put = Rc::new(put);
            if is_root {
                root = Some(Rc::clone(&put));
            }
            if is_shown {
                self.keep(put);
            }
        });
        root
    }

    /// Keeps a put among the last ones.
    fn keep(&mut self, put: Rc<PutLine>) {
        let later = self.puts.iter().rev().take_while(|known| known.time > put.time).count();
        self.puts.insert(self.puts.len() - later, put);
        if self.puts.len() > MAX_PUTS {
            self.puts.pop_front();
        }
    }

    /// Whether what had begun then may have ended in a time that was not recorded.
    fn may_have_ended_unseen(&self, begun: i64) -> bool {
        self.process.unseen.iter().any(|unseen| (begun..self.end).contains(&unseen.from))
    }

    /// Notes a put with callback of which no answer was seen by the end.
    fn unanswered(&mut self, chain: &Chain, span: &Span, put: &PutSpan, link: Option<&str>) {
        let Some(packet) = put.packet.as_ref().filter(|packet| packet.notify && !packet.is_doubtful) else {
            return;
        };
        let answered = packet.answer.as_ref().is_some_and(|answer| chain.run.wall(answer.time) <= self.end);
        let begun = chain.run.wall(span.start);
        let open = !answered && begun <= self.end && !self.may_have_ended_unseen(begun);
        if open && self.unanswered.len() < MAX_ITEMS {
            self.unanswered.extend(root_put(chain, link).map(|put| Unanswered { put }));
        }
    }

    /// Notes what a thread did.
    fn did(&mut self, walk: &mut Walk, top: &Chain, chain: &Chain, span: &Span, thread: ThreadId) {
        let (start, end) = (chain.run.wall(span.start), chain.run.wall(span.end));
        if start > self.end {
            return;
        }
        let record = match &span.kind {
            SpanKind::Process(process) => Some(process.record),
            SpanKind::Put(put) => put.record,
            SpanKind::Link(_) => None,
        };
        let SpanKind::Process(process) = &span.kind else {
            walk.did(&chain.run, thread, start, record, None);
            return;
        };
        let processed = start >= self.before && has_processed(&chain.run.context(), process);
        let in_minute = processed.then_some(start >= self.from);
        walk.did(&chain.run, thread, start, record, in_minute);
        for phase in &process.phases {
            let at = chain.run.wall(phase.time);
            if at <= self.end && walk.is_own(&chain.run, phase.thread) {
                walk.did(&chain.run, phase.thread, at, record, None);
            }
        }
        // It completed only after the time asked for.
        let later = matches!(process.outcome, End::Completed(_)) && end > self.end;
        let open = matches!(process.outcome, End::Open | End::Waiting) || later;
        let key = (Rc::as_ptr(&chain.run) as usize, process.record);
        let again = !matches!(process.outcome, End::Active | End::Entered { again: true });
        // it could not process anew before that was over
        if again && walk.has_begun(key) {
            let record = record_name(&chain.run.context(), process.record);
            self.begun.retain(|begun| begun.time >= start || *begun.record != *record);
        }
        if open && !self.may_have_ended_unseen(start) {
            walk.begins(key);
            let delayed = |kind: CauseKind| {
                matches!(kind, CauseKind::CallbackRequestProcessDelayed | CauseKind::CallbackRequestDelayed)
            };
            let context = chain.run.context();
            let name = context.thread(thread).map(|thread| thread.name.clone()).unwrap_or_default();
            self.begun.push(Begun {
                time: start,
                record: record_name(&context, process.record),
                thread: name,
                active: matches!(process.outcome, End::Waiting),
                waits: process.phases.iter().any(|phase| phase.asked.is_some_and(delayed)),
                cause: (walk.wording)(top, root_put(top, None).as_ref()),
            });
            if self.begun.len() >= 2 * MAX_ITEMS {
                self.keep_the_latest_begun();
            }
        }
    }
}

/// Leaves the last of items in order of time.
fn keep_last<T>(items: &mut Vec<T>) {
    items.drain(..items.len().saturating_sub(MAX_ITEMS));
}

/// How the last minute ends, and when.
fn ending(process: &Process, until: Option<i64>, log: Option<i64>) -> (i64, Ending) {
    let last = process.until.or(log).unwrap_or(0);
    let (end, ending) = match &process.end {
        Some(end) if end.how == UNSEEN => {
            let by = end.wall.unwrap_or(last);
            // of what is missing nothing can be shown
            (process.seen.map_or(by, |seen| seen.min(by)), Ending::Unseen(by))
        }
        Some(end) => (end.wall.unwrap_or(last), Ending::Ended(end.how.clone())),
        None if process.replaced.is_some() => (last, Ending::Replaced),
        None => match process.unseen.iter().find(|unseen| unseen.to == i64::MAX) {
            Some(unseen) => (unseen.from, Ending::NotRecorded(unseen.cause.to_string())),
            None if process.is_left => (last, Ending::RunEnds),
            None => (last, Ending::LogEnds),
        },
    };
    let latest = match ending {
        Ending::Unseen(by) => by,
        _ => end,
    };
    match until.filter(|until| *until < latest) {
        // of what comes after it nothing is known, neither then nor later
        Some(until) if matches!(ending, Ending::Unseen(_)) && until >= end => (end, ending),
        Some(until) => (until, Ending::Asked),
        None => (end, ending),
    }
}
