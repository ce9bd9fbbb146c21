//! The processes that were recorded as IOCs, over all runs of all recorders: how each ended, and when it ran unseen.
//!
//! Several runs may have recorded one process, one after the other; between them it ran unseen, too.

use crate::answers::between::why;
use crate::answers::inventory::{End, Inventory};
use crate::answers::values::CLOCK_STEP;
use crate::logs::Logs;
use crate::notices::Notices;
use crate::reading::ended_unseen::UNSEEN;
use crate::reading::read_until;
use crate::shown_names::without_pid;
use crate::time::SECOND;
use iocrec_log::clock::can_be_right;
use iocrec_log::context::Context;
use iocrec_log::event::{Ioc, IocId, Tier};
use iocrec_log::reader::SegmentFile;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

/// Processes remembered, and spans for each; bounds for hostile logs.
const MAX_PROCESSES: usize = 20_000;
const MAX_SPANS: usize = 1000;
/// The last events of two recorders that run beside each other, and still do, are less than this apart; nanoseconds.
const BESIDE: i64 = 60 * SECOND as i64;

/// Why nothing is known of a process that a recorder before had recorded, once another recorder's run has begun.
const NOT_YET: &str = "the next recorder had not attached to it yet";

/// A process.
#[derive(Clone, Debug, Default)]
pub struct Process {
    /// Host; empty if unknown.
    pub host: Rc<str>,
    /// Name of the IOC.
    pub ioc: Rc<str>,
    /// Process id.
    pub pid: u32,
    /// Wall-clock time of its start, if known.
    pub started: Option<i64>,
    /// Its end, if it was seen to end, or is known to have ended by then.
    pub end: Option<End>,
    /// Of one whose end is in a part that is missing: the last moment before that of which something can be read.
    pub seen: Option<i64>,
    /// Between which times it ended, if nobody saw it: a later run found another process of its name in its place.
    pub replaced: Option<(i64, i64)>,
    /// The last moment of which the log could tell something about it: the end of the last log that holds it, or its
    /// own end.
    pub until: Option<i64>,
    /// How long it had run by then, nanoseconds, by the clock that nobody sets.
    pub ran: Option<u64>,
    /// Whether the logs of its host go on after that, and don't tell what became of it.
    pub is_left: bool,
    /// The first moment of which the log can tell something about it.
    pub recorded: Option<i64>,
    /// The times during which it ran unseen.
    pub unseen: Vec<Unseen>,
    /// The runs that recorded it.
    pub runs: Vec<RecordedBy>,
}

/// A run that recorded a process, in wall-clock time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordedBy {
    /// From then on.
    pub from: i64,
    /// Until then.
    pub to: i64,
    /// Whether it had packets alone, and so no processing and no alarms.
    pub packets: bool,
}

impl Process {
    /// How long it had run at a wall-clock time, nanoseconds; `None` if unknown.
    pub fn ran_until(&self, time: i64) -> Option<u64> {
        let exactly = self.ran.filter(|_| self.until == Some(time));
        exactly.or_else(|| u64::try_from(time.saturating_sub(self.started?)).ok())
    }

    /// Whether all that was recorded of it in this time are packets.
    pub fn is_by_packets(&self, from: i64, to: i64) -> bool {
        let is_in_time = |run: &&RecordedBy| run.from < to && run.to > from;
        self.runs.iter().any(|run| run.packets) && self.runs.iter().filter(is_in_time).all(|run| run.packets)
    }

    /// The parts of a time in which packets alone were recorded of it, in order; each once, however many recorders had packets.
    pub fn by_packets(&self, from: i64, to: i64) -> Vec<(i64, i64)> {
        let mut probed: Vec<&RecordedBy> = self.runs.iter().filter(|run| !run.packets).collect();
        probed.sort_by_key(|run| run.from);
        let mut parts = Vec::new();
        for run in self.runs.iter().filter(|run| run.packets) {
            let (mut at, end) = (run.from.max(from), run.to.min(to));
            for beside in probed.iter().filter(|beside| beside.from < end) {
                if beside.from > at {
                    parts.push((at, beside.from));
                }
                at = at.max(beside.to);
            }
            if at < end {
                parts.push((at, end));
            }
        }
        parts.sort_unstable();
        parts.dedup_by(|later, earlier| {
            let overlaps = later.0 <= earlier.1;
            if overlaps {
                earlier.1 = earlier.1.max(later.1);
            }
            overlaps
        });
        parts
    }
}

/// A span of time in which a process ran unseen, in wall-clock time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unseen {
    /// From then on.
    pub from: i64,
    /// Until then; `i64::MAX` for ever.
    pub to: i64,
    /// The reason.
    pub cause: Rc<str>,
}

/// What makes a process one and the same: host and boot, process id, and start.
type Identity = (String, String, u32, u64);

/// All processes of logs.
#[derive(Default)]
pub struct Processes {
    all: Vec<Process>,
    known: HashMap<Identity, usize>,
    /// Those that ran another program, or the same anew, as an IOC of their own: by how many came before.
    anew: HashMap<(Identity, u32), usize>,
    /// The same by the number of a run and theirs in it.
    anew_by_id: HashMap<(usize, IocId), usize>,
    /// How many runs were added.
    runs: usize,
}

impl Processes {
    /// Reads the definitions of all runs. What can't be read is reported by whoever reads the rest.
    pub fn read(logs: &Logs) -> Processes {
        let mut found = Processes::default();
        for run in logs.runs() {
            let inventory = Inventory::read(run, &Notices::default());
            let first = run.first().and_then(|file| file.header);
            let begin = first.map(|header| (header.created, header.created_wall));
            let is_missing = first.is_some_and(|header| header.sequence > 0);
            found.add(&inventory, (begin, is_missing), logs.end_of(run));
            let has_ended = |ioc: &Ioc| inventory.end(ioc.id).is_some_and(|end| end.how == UNSEEN);
            if inventory.context().iocs().any(has_ended) {
                found.note_seen(found.runs.checked_sub(1), inventory.context(), run);
            }
        }
        let newest = logs.newest();
        let mut begun: HashMap<String, i64> = HashMap::new();
        for (host, files) in logs.host_names().into_iter().zip(logs.runs()) {
            if let Some(header) = files.iter().find_map(|file| file.header) {
                let last = begun.entry(host).or_insert(header.created_wall);
                *last = header.created_wall.max(*last);
            }
        }
        for process in found.all.iter_mut().filter(|process| process.end.is_none()) {
            let Some(until) = process.until else { continue };
            let is_later = begun.get(&*process.host).is_some_and(|begun| *begun >= until);
            let goes_on = newest.get(&*process.host).is_some_and(|end| *end > until.saturating_add(BESIDE));
            process.is_left = is_later || goes_on;
        }
        found
    }

    /// Adds those of a run, the log of which holds the time from `begin` (monotonic and wall-clock time) to `end`;
    /// `is_missing`, whether it has lost earlier segments. Runs come in the order in which they began.
    pub fn add(
        &mut self,
        inventory: &Inventory,
        (begin, is_missing): (Option<(u64, i64)>, bool),
        end: Option<i64>,
    ) {
        let (begun_at, begin) = begin.unzip();
        let run = self.runs;
        self.runs += 1;
        let context = inventory.context();
        self.replace(context);
        let mut before: HashMap<(u32, u64), u32> = HashMap::new();
        for ioc in context.iocs() {
            let over = || self.over(&identity(context, ioc), begun_at);
            let seen = before.entry((ioc.pid, ioc.start)).or_insert_with(over);
            let entered = self.enter(context, (run, ioc), *seen);
            *seen = seen.saturating_add(1);
            let Some(number) = entered else { continue };
            let ended = inventory.end(ioc.id);
            let until = ended.and_then(|end| end.wall).or(end);
            let spans = inventory.spans().unseen(ioc.id);
            // without probes it is recorded from the beginning of the run
            let packets = context.tier().is_some_and(|choice| choice.tier == Tier::Packet);
            let first = inventory.spans().recorded(ioc.id).find_map(|(from, _)| from);
            let first = first.or(begin.filter(|_| packets));
            let Some(process) = self.all.get_mut(number) else { continue };
            // Another run recorded it before.
            if let (Some(from), Some(to)) = (process.until, first.filter(|_| process.end.is_none())) {
                // this one had begun, perhaps beside the one before, and was yet to come to it
                let is_beside = begin.is_some_and(|begin| begin < from && can_be_right(begin));
                let begun = if is_beside { Some(from) } else { begin.filter(|begin| *begin >= from) };
                let least = if is_beside { 1 } else { SECOND as i64 };
                let begun = begun.filter(|begun| to.saturating_sub(*begun) >= least);
                let until = begun.unwrap_or(to);
                if from < until {
                    process.unseen.push(Unseen { from, to: until, cause: why(is_missing).into() });
                }
                let is_told =
                    |begun: i64| spans.iter().any(|span| span.from.is_none_or(|from| from <= begun));
                if let Some(begun) = begun.filter(|begun| !is_told(*begun)) {
                    process.unseen.push(Unseen { from: begun, to, cause: NOT_YET.into() });
                }
            }
            for span in spans {
                let from = span.from.unwrap_or(i64::MIN);
                let cause = span.cause.into();
                process.unseen.push(Unseen { from, to: span.to.unwrap_or(i64::MAX), cause });
            }
            process.unseen.truncate(MAX_SPANS);
            process.replaced = None; // it is recorded, so it lived
            if process.runs.len() < MAX_SPANS {
                let (from, to) = (begin.unwrap_or(i64::MIN), until.unwrap_or(i64::MAX));
                process.runs.push(RecordedBy { from, to, packets });
            }
            process.recorded = process.recorded.or(first.max(begin));
            if until >= process.until {
                // the log ends after the last reading of the clocks
                let last = || {
                    let (noted, wall, _) = context.clocks_at(u64::MAX)?;
                    noted.checked_add_signed(end?.saturating_sub(wall))
                };
                let time = ended.map(|end| end.time).or_else(last);
                process.ran = time.and_then(|time| time.checked_sub(ioc.start));
            }
            process.until = process.until.max(until);
            // that of a recorder which saw it
            let is_seen = |end: &&End| end.how != UNSEEN;
            let known = process.end.as_ref().filter(is_seen).or(ended.filter(is_seen));
            process.end = known.or(process.end.as_ref()).or(ended).cloned();
            process.started = process.started.or_else(|| context.wall(ioc.start));
        }
    }

    /// Notes until when those of a run were seen whose ends are in parts that are missing.
    fn note_seen(&mut self, run: Option<usize>, context: &Context, files: &[SegmentFile]) {
        for (ioc, time) in read_until::of_ended(files) {
            let number = self.number(run, context, ioc);
            if let Some(process) = number.and_then(|number| self.all.get_mut(number)) {
                process.seen = process.seen.max(context.wall(time));
            }
        }
    }

    /// Notes the processes that another one of their name has followed unseen: it was started after the run that recorded
    /// them had ended, and they are not recorded beside it. Of several that follow, the first that is found counts.
    fn replace(&mut self, context: &Context) {
        let present: HashSet<Identity> = context.iocs().map(|ioc| identity(context, ioc)).collect();
        // by host and by the name that a follower has
        let mut left: HashMap<(Rc<str>, String), Vec<usize>> = HashMap::new();
        let anew = self.anew.iter().map(|((before, _), number)| (before, number));
        for (_, number) in self.known.iter().chain(anew).filter(|(before, _)| !present.contains(before)) {
            let process = self.all.get(*number);
            let open = process.filter(|process| process.end.is_none() && process.replaced.is_none());
            if let Some(process) = open.filter(|process| !process.ioc.is_empty()) {
                let mut names = vec![&*process.ioc, without_pid(&process.ioc, process.pid)];
                names.dedup();
                for name in names {
                    left.entry((Rc::clone(&process.host), name.to_owned())).or_default().push(*number);
                }
            }
        }
        let host = context.host().map_or("", |host| host.name.as_str());
        for ioc in context.iocs() {
            let Some(started) = context.wall(ioc.start) else { continue };
            let Some(before) = left.get_mut(&(host.into(), ioc.name.clone())) else { continue };
            before.retain(|number| {
                let Some(process) = self.all.get_mut(*number) else { return false };
                let until = process.until.filter(|until| *until < started.saturating_add(CLOCK_STEP));
                let replaced = until.map(|until| (until, started.max(until)));
                process.replaced = process.replaced.or(replaced);
                process.replaced.is_none()
            });
        }
    }

    /// How many programs of a process are known to have ended before a run began, which it was recorded in: there, it is
    /// the one after them. Those that nobody saw ending are not told from each other.
    fn over(&self, identity: &Identity, begun: Option<u64>) -> u32 {
        let is_over = |before: &u32| {
            let process = self.program(identity, *before).and_then(|number| self.all.get(number));
            let end = process.and_then(|process| process.end.as_ref()).filter(|end| end.how != UNSEEN);
            end.zip(begun).is_some_and(|(end, begun)| end.time < begun)
        };
        (0..u32::MAX).find(|before| !is_over(before)).unwrap_or(u32::MAX)
    }

    /// The number of what a process was after so many other programs.
    fn program(&self, identity: &Identity, before: u32) -> Option<usize> {
        match before {
            0 => self.known.get(identity).copied(),
            _ => self.anew.get(&(identity.clone(), before)).copied(),
        }
    }

    /// The number of a process of a run, which is new if it was not known. `before`: how many IOCs the process was before.
    fn enter(&mut self, context: &Context, (run, ioc): (usize, &Ioc), before: u32) -> Option<usize> {
        let identity = identity(context, ioc);
        let host = identity.0.as_str().into();
        let new = self.all.len();
        let number = self.program(&identity, before).or((new < MAX_PROCESSES).then_some(new))?;
        if before == 0 {
            self.known.insert(identity, number);
        } else {
            self.anew.insert((identity, before), number);
            self.anew_by_id.insert((run, ioc.id), number);
        }
        if number == new {
            let (ioc, pid) = (ioc.name.as_str().into(), ioc.pid);
            self.all.push(Process { host, ioc, pid, ..Process::default() });
        }
        Some(number)
    }

    /// The number of the process that an IOC's number stands for. `run`: the number of its run among all.
    pub fn number(&self, run: Option<usize>, context: &Context, ioc: IocId) -> Option<usize> {
        let identity = identity(context, context.ioc(ioc)?);
        let anew = run.and_then(|run| self.anew_by_id.get(&(run, ioc)));
        anew.or_else(|| self.known.get(&identity)).copied()
    }

    /// A process.
    pub fn get(&self, number: usize) -> Option<&Process> {
        self.all.get(number)
    }

    /// All of them, in the order in which they were first recorded.
    pub fn all(&self) -> &[Process] {
        &self.all
    }
}

fn identity(context: &Context, ioc: &Ioc) -> Identity {
    let host = context.host();
    let text = |text: Option<&String>| text.cloned().unwrap_or_default();
    (text(host.map(|host| &host.name)), text(host.map(|host| &host.boot_id)), ioc.pid, ioc.start)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two recorders that had packets alone ran beside each other, and for a while one with probes.
    #[test]
    fn what_two_recorders_had_by_packets_is_told_once() {
        let run = |from, to, packets| RecordedBy { from, to, packets };
        let runs = vec![run(10, 50, true), run(20, 60, true), run(30, 40, false), run(80, 90, true)];
        let process = Process { runs, ..Process::default() };
        assert_eq!(process.by_packets(0, 100), [(10, 30), (40, 60), (80, 90)]);
        assert_eq!(process.by_packets(25, 45), [(25, 30), (40, 45)]);
    }
}
