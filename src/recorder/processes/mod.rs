//! The processes of this machine: finds those to trace, and follows each until it ends.
//!
//! The inspector's threads inspect processes ([`crate::inspector`]) and send reports. This source handles them:
//! [`adopt`] begins to trace a process, [`ports`] finds its server ports, [`attach`] begins to take its hits and notes
//! gaps, [`answers`] keeps track of processes that do not answer, [`end`] ends the tracing.

mod adopt;
mod answers;
mod attach;
pub mod crash;
pub mod describe;
mod end;
pub mod ports;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::os::fd::RawFd;
use std::time::Duration;

use iocrec_log::event::{Fact, Loss, LossSource};
use nix::errno::Errno;

use crate::bpf::maps::Maps;
use crate::inspector::{
    Discovery, Finding, Inspector, Report, Request, Scope, ServedClient, Started, DATABASE_GONE,
};
use crate::ioc::records;
use crate::linux::privileges::{may_read_others, TO_READ_OTHERS};
use crate::linux::reader::budget::Refused;
use crate::probes::attacher::Attacher;
use crate::probes::catalog::Wanted;
use crate::probes::layouts::layouts;
use crate::probes::not_probed::NotProbed;
use crate::recorder::circuits::server_threads::Unknown;
use crate::recorder::circuits::Circuits;
use crate::recorder::context::Context;
use crate::recorder::env::Env;
use crate::recorder::error::StartError;
use crate::recorder::options::Options;
use crate::recorder::processes::answers::Answers;
use crate::recorder::processes::ports::PortSearch;
use crate::recorder::registry::traced_ioc::TracedIoc;
use crate::recorder::registry::Registry;
use crate::recorder::run::SURVEY;
use crate::recorder::shortfall::Shortfall;
use crate::recorder::sources::{Resting, Source, ROUND};

/// Reports to handle before hits are taken again: 4,000 records, some milliseconds.
const REPORTS: usize = 4;

/// Interval between looks for new processes while nothing else wakes the loop, nanoseconds: each costs the machine some
/// 20 µs. While the loop is awake there are more.
const LOOK: u64 = 500_000_000;
/// Least time between two looks, nanoseconds: so while the loop is awake, a process that starts is seen within this.
const APART: u64 = 100_000_000;
/// Interval between lists of /proc, nanoseconds; and the number of lists, one each second, after a process has started:
/// the second one has also those that the first one came too early for.
const LIST: u64 = 10_000_000_000;
/// Until it is listed again if that failed.
const LIST_AGAIN: u64 = 1_000_000_000;
/// Interval between checks of the traced processes in turn, nanoseconds.
const CHECK: u64 = 3_000_000_000;
const LISTS: u8 = 2;

/// See the module.
pub struct Processes {
    inspector: Inspector,
    discovery: Discovery,
    /// Monotonic time at which this recorder began, nanoseconds: events before it were not missed.
    since: u64,
    /// Finds which processes serve, and where.
    ports: PortSearch,
    /// The processes that do not answer.
    answers: Answers,
    /// Whether processes are recorded that the user has not named.
    looks_for_others: bool,
    /// Time of the last look for new processes, monotonic.
    looked: u64,
    /// When the loop began to wait the last time but one, and the last time, monotonic. What had ended by the first of these was told
    /// then, since an end wakes the loop.
    waited: [u64; 2],
    /// Lists of /proc still to be made, one each second, since processes have started.
    lists: u8,
    /// Time of the next list in any case.
    list_by: u64,
    /// The traced process that was checked last, though nothing was known to have happened to it.
    checked: u32,
    /// Time when the next one is.
    check: u64,
}

impl Processes {
    /// Begins to look at processes. Without an `attacher` nothing is probed.
    pub fn new(attacher: Option<&Attacher>, options: &Options, now: u64) -> Processes {
        let (puts, process, console) = (options.puts, options.process, options.console);
        let scope = Scope { chosen: options.chosen.clone(), wanted: Wanted { puts, process, console } };
        Processes {
            inspector: Inspector::start(attacher, &scope),
            discovery: Discovery::default(),
            since: now,
            ports: PortSearch::default(),
            answers: Answers::default(),
            looks_for_others: options.pids.is_empty(),
            looked: 0,
            waited: [now; 2],
            lists: 1,
            list_by: 0,
            checked: 0,
            check: 0,
        }
    }

    /// Sends the inspector the requests of all parts of the recorder.
    fn send_requests(&self, env: &mut Env<'_>) {
        for request in std::mem::take(&mut env.run.requests) {
            let site = if let Request::CallSite { id, .. } = &request { Some(*id) } else { None };
            // a crash that gets no names is noted without them at the end of its process
            if let (false, Some(id)) = (self.inspector.request(request), site) {
                env.sink.site(id, String::new(), String::new());
            }
        }
    }

    /// Finds processes that have just started.
    fn discover(&mut self, env: &mut Env<'_>) {
        let now = env.monotonic();
        if now.saturating_sub(self.looked) < APART {
            return;
        }
        self.looked = now;
        let started = self.discovery.poll();
        if started != Started::None {
            self.lists = LISTS;
        }
        match started {
            Started::Ids(numbers) if env.options.pids.is_empty() => {
                let own = std::process::id();
                numbers.filter(|&pid| pid != own).for_each(|pid| self.inspector.add(pid, true));
            }
            Started::Unknown => env.run.numbers_began_again = true,
            Started::None | Started::Ids(_) => {}
        }
    }

    /// The processes that exist now, if that should be known; `None` if nothing has happened since the last time, or if they
    /// cannot be listed: whoever is not in a list has ended, and its probes are dropped.
    fn list(&mut self, env: &mut Env<'_>) -> Option<HashSet<u32>> {
        if !env.options.pids.is_empty() {
            return Some(env.options.pids.iter().copied().collect());
        }
        let now = env.now;
        if self.lists == 0 && now < self.list_by {
            return None;
        }
        self.lists = self.lists.saturating_sub(1);
        match env.procfs().pids() {
            Ok(pids) => {
                self.list_by = now.saturating_add(LIST);
                Some(pids.into_iter().collect())
            }
            Err(error) => {
                env.messages.push(format!("{error}; processes cannot be seen"));
                self.list_by = now.saturating_add(LIST_AGAIN);
                None
            }
        }
    }

    /// The traced processes to check whether they have ended or become something else: those that have `changed`, those
    /// of which the kernel does not tell the end, and one more in turn.
    fn due_for_check(&mut self, now: u64, iocs: &Registry, changed: &[u32]) -> Vec<u32> {
        let is_due = now >= self.check;
        let next = if is_due { iocs.after(self.checked) } else { None };
        if is_due {
            self.check = now.saturating_add(CHECK);
            self.checked = next.unwrap_or(0);
        }
        let are_told = iocs.endings().descriptor().is_some();
        let due = |ioc: &&TracedIoc| {
            !are_told
                || ioc.ending.descriptor().is_none()
                || changed.contains(&ioc.pid)
                || ioc.end_noticed
                || next == Some(ioc.pid)
        };
        iocs.iter().filter(due).map(|ioc| ioc.pid).collect()
    }

    /// Handles a report.
    fn work_on(&mut self, cx: &mut Context<'_>, report: Report) {
        let Report { pid, start, finding } = report;
        let now = cx.env.monotonic();
        match finding {
            Finding::Ioc { ioc, process, ending, .. } if cx.env.procfs().has_ended(pid, start) => {
                adopt::note_ended(cx, self.since, now, &ioc, &process, &ending);
            }
            Finding::Ioc { ioc, process, placed, not_probed, .. } => {
                adopt::adopt(cx, &mut self.ports, now, ioc, &process, placed, not_probed);
                cx.changed = true;
            }
            Finding::Servers(found) => self.ports.note(cx, &self.inspector, now, found, true),
            Finding::ServersAmong(found) => self.ports.note(cx, &self.inspector, now, found, false),
            Finding::CallSite { id, function, file } => cx.env.sink.site(id, function, file),
            Finding::Crash { number, place, frames } => {
                if let Some(ioc) = cx.iocs.get_mut(pid).filter(|ioc| ioc.start == start) {
                    crash::named(&mut cx.env, ioc, number, place.as_ref(), &frames);
                    if ioc.taken_to_its_end {
                        end::let_go(cx, &self.inspector, &mut self.answers, self.waited[0], &[pid]);
                    }
                }
            }
            Finding::Copy { copy, image } => self.ports.found_copy(pid, copy, image),
            Finding::Unanswered(refused) => {
                self.answers.note(pid, refused, now);
                answers::note_unanswered(cx, now, pid, refused);
            }
            Finding::DatabaseGone => {
                if let Some(ioc) = cx.iocs.get(pid).filter(|ioc| ioc.start == start) {
                    // another program has another database, too
                    let why = end::became_another(&cx.env, ioc).unwrap_or(DATABASE_GONE);
                    end::end(cx, &self.inspector, &mut self.answers, now, pid, Some(why));
                    cx.changed = true;
                }
            }
            finding => {
                if matches!(finding, Finding::AnswersAgain) {
                    self.answers.forget(pid);
                }
                let Context { env, iocs, circuits, maps, changed } = cx;
                // pids are reused
                let Some(ioc) = iocs.get_mut(pid).filter(|ioc| ioc.start == start) else { return };
                *changed |= work_on_traced(env, circuits, maps.as_deref_mut(), now, ioc, finding);
                *changed |= attach::begin_to_take_hits(env, maps.as_deref_mut(), ioc, self.since);
                ioc.announce(env, now);
            }
        }
    }
}

/// Handles a finding about a traced process. True if it has changed something that others adapt to.
fn work_on_traced(
    env: &mut Env<'_>,
    circuits: &mut Circuits,
    maps: Option<&mut Maps>,
    now: u64,
    ioc: &mut TracedIoc,
    finding: Finding,
) -> bool {
    match finding {
        Finding::Changed(process) => {
            describe::identify(&process, &mut ioc.about);
            if let (Ok(layout), Some(maps), true) = (&process.layout, maps, ioc.probing.in_maps) {
                if let Err(reason) = maps.extend(ioc.pid, &layouts(ioc.pid, layout, process.abi)) {
                    ioc.shortfalls.add(Shortfall::NoNewTypes(reason));
                }
            }
            if ioc.process.is_some() {
                ioc.process = Some(process);
            }
        }
        Finding::Records(found) => {
            ioc.define(env, now, found);
            env.sink.tick(now);
        }
        Finding::AllRecords { claimed, found, outcome } => {
            ioc.shortfalls.remove(|shortfall| matches!(shortfall, Shortfall::NotWalked(_)));
            if let Err(reason) = outcome {
                note_not_walked(env, now, claimed, found, format!("{}: {reason}", ioc.label()));
                ioc.shortfalls.add(Shortfall::NotWalked(reason));
            }
            ioc.snapshots.due = true;
            return true;
        }
        Finding::Ready => {
            ioc.probing.ready = true;
            return true;
        }
        Finding::ProcessRoutines { placed, not_probed } => {
            ioc.probing.added(placed);
            ioc.shortfalls.renew(not_probed.into_iter().map(Shortfall::NotProbed).collect());
        }
        Finding::NoDebugger { placed, not_probed } => {
            let passed = |is: &Shortfall| matches!(is, Shortfall::NotProbed(why) if why.may_pass());
            let have = |is_it: fn(&NotProbed) -> bool| {
                ioc.shortfalls.have(|is| matches!(is, Shortfall::NotProbed(why) if is_it(why)))
            };
            let what = if have(|why| matches!(why, NotProbed::HeldUp(_))) {
                "no process holds it up any more"
            } else if have(|why| matches!(why, NotProbed::StillKept)) {
                "its files have not changed for long enough, or another recorder's probes are gone"
            } else if have(NotProbed::is_for_files) {
                "enough files may be opened"
            } else if have(NotProbed::is_for_earlier) {
                "the kernel has removed earlier probes of it"
            } else {
                "the debugger is gone"
            };
            // until now only some functions were missing: the log goes on to say so
            if ioc.probing.placed == 0 {
                ioc.shortfalls.remove(passed);
            }
            ioc.probing.added(placed);
            ioc.shortfalls.renew(not_probed.into_iter().map(Shortfall::NotProbed).collect());
            env.messages.push(format!("{} is probed from now on: {what}", ioc.label()));
        }
        Finding::ProbesGone { hold, until, placed } => attach::note_hold(env, now, ioc, hold, until, placed),
        Finding::AnswersAgain => answers::note_answer(env, ioc),
        Finding::Clients(clients) => {
            ioc.clients.extend(clients);
            return true;
        }
        Finding::ThreadClients { thread, time, clients } => {
            let (namespace, noted) = (ioc.namespace.unwrap_or_default(), env.monotonic());
            let unknown = clients.into_iter().map(|ServedClient { server, client }| Unknown {
                thread,
                time,
                noted,
                client,
                namespace,
                server,
            });
            circuits.server_threads.unknown.extend(unknown);
        }
        // these are not about a traced process
        Finding::Ioc { .. }
        | Finding::Servers(_)
        | Finding::ServersAmong(_)
        | Finding::CallSite { .. }
        | Finding::Crash { .. }
        | Finding::Copy { .. }
        | Finding::Unanswered(_)
        | Finding::DatabaseGone => {}
    }
    false
}

/// Notes that not all of an IOC's records were found: the number that its lists claim to hold, and the number found.
fn note_not_walked(env: &mut Env<'_>, time: u64, claimed: u64, found: u64, cause: String) {
    // a list with an absurd claim does not show how many are missing
    let known = claimed <= records::MAX_NODES as u64;
    let count = if known { claimed.saturating_sub(found) } else { 0 };
    env.push(time, Fact::Loss(Loss { source: LossSource::Names, count, since: time, cause }));
}

impl Source for Processes {
    fn begin(&mut self, cx: &mut Context<'_>) {
        self.survey(cx);
    }

    fn started(&mut self, cx: &mut Context<'_>, is_through: bool) -> Result<(), StartError> {
        // the start may have waited for a capture alone
        let is_through = is_through || self.is_through();
        self.inspector.end_start();
        self.ports.is_started = true;
        if self.inspector.has_no_threads() {
            return Err(StartError::NoThread);
        }
        let iocs = &cx.iocs;
        let is_missing = |pid: &u32| !iocs.has(*pid) && !iocs.is_guess(*pid);
        let missing = cx.env.options.pids.iter().copied().filter(is_missing);
        // a process that takes long to inspect may still be an IOC, and one that serves is recorded once that is known
        let missing: Vec<StartError> = missing
            .filter(|&pid| {
                is_through && !self.ports.suspects(pid)
                    || self.answers.unanswered(pid).is_some()
                    || cx.env.procfs().known_start(pid) == Err(Errno::ESRCH)
            })
            .map(|pid| adopt::why_not_traced(&cx.env, &self.answers, &self.ports, pid))
            .collect();
        if missing.len() == cx.env.options.pids.len() {
            if let Some(last) = missing.into_iter().next_back() {
                return Err(last);
            }
        } else {
            cx.env.messages.extend(missing.iter().map(ToString::to_string));
        }
        if self.answers.lack_room() {
            // of those that the user has named there is a line each
            let line = format!("not all processes can be inspected: {}; iocrec tries again", Refused::NoRoom);
            cx.env.messages.push(line);
        } else if !is_through {
            cx.env.messages.push(
                "not all processes have been inspected yet; IOCs are recorded as they are found".into(),
            );
        } else if cx.iocs.all().next().is_none() && !self.ports.has_suspects() {
            cx.env.messages.push(if may_read_others() {
                "no IOC was found; IOCs are recorded as they start (iocrec check shows what is looked for)"
                    .into()
            } else {
                format!("no IOC was found; those of others can't be: {TO_READ_OTHERS}")
            });
        }
        Ok(())
    }

    fn take(&mut self, cx: &mut Context<'_>) -> bool {
        self.discover(&mut cx.env);
        self.inspector.hear();
        self.send_requests(&mut cx.env);
        end::end_those_without_database(cx, &self.inspector, &mut self.answers);
        let mut more = true;
        for _ in 0..REPORTS {
            let Some(report) = self.inspector.next_report() else {
                more = false;
                break;
            };
            self.work_on(cx, report);
        }
        self.ports.search_if_due(cx, &self.inspector);
        more
    }

    fn descriptors(&self) -> Vec<RawFd> {
        self.inspector.descriptor().into_iter().collect()
    }

    fn rest(&mut self, cx: &Resting<'_>) -> Duration {
        self.waited = [self.waited[1], cx.now];
        // where the IOCs are named, others don't matter
        let interval = if self.looks_for_others { LOOK } else { SURVEY };
        let look = self.looked.saturating_add(interval).saturating_sub(cx.now);
        let iocs_are_gone = cx.iocs.iter().any(|ioc| ioc.database_is_gone);
        let is_deaf = self.inspector.descriptor().is_none();
        let rest = Duration::from_nanos(look).min(self.ports.rest(cx.now));
        if iocs_are_gone || is_deaf {
            rest.min(ROUND)
        } else {
            rest
        }
    }

    fn process_ended(&mut self, cx: &mut Context<'_>) {
        let mut ended = cx.iocs.endings_mut().ended();
        for ioc in ended.iter().filter_map(|&pid| cx.iocs.get(pid)) {
            // should /proc not agree, it is checked in its turn
            cx.iocs.endings().forget(&ioc.ending);
        }
        ended.extend(cx.iocs.iter().filter(|ioc| ioc.end_noticed).map(|ioc| ioc.pid));
        end::let_go(cx, &self.inspector, &mut self.answers, self.waited[0], &ended);
    }

    fn survey(&mut self, cx: &mut Context<'_>) {
        let now = cx.env.now;
        let pids = self.list(&mut cx.env);
        let changed = self.inspector.glance();
        let check = self.due_for_check(now, cx.iocs, &changed);
        end::let_go(cx, &self.inspector, &mut self.answers, self.waited[0], &check);
        if let Some(pids) = pids {
            self.answers.retain(&pids);
            self.ports.retain(&pids, cx.iocs);
            self.inspector.retain(&pids);
            pids.iter().filter(|&&pid| pid != std::process::id()).for_each(|&pid| {
                self.inspector.add(pid, false);
            });
        }
        cx.env.sink.inspecting(self.answers.oldest());
        self.ports.search(cx, &self.inspector, now);
        self.answers.ask_silent_again(cx, &self.inspector, now);
    }

    fn finish(&mut self, cx: &mut Context<'_>) {
        // no more answers come
        let ended: Vec<u32> = cx.iocs.iter().filter(|ioc| ioc.end_noticed).map(|ioc| ioc.pid).collect();
        for pid in ended {
            let now = cx.env.monotonic();
            let why = cx.iocs.get(pid).and_then(|ioc| end::became_another(&cx.env, ioc));
            end::end(cx, &self.inspector, &mut self.answers, now, pid, why);
        }
        for ioc in cx.iocs.iter_mut() {
            crash::give_up(&mut cx.env, ioc);
        }
    }

    fn is_through(&self) -> bool {
        self.inspector.has_finished_start() && self.ports.is_through()
    }

    fn is_settled(&self) -> bool {
        self.inspector.is_idle()
    }
}
