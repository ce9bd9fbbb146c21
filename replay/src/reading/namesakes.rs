//! IOCs of one name that ran side by side on a host, as two that are started in directories of the same name.
//!
//! Everywhere such an IOC is shown, and can be chosen, as `NAME pid N`. An IOC that is started anew is no namesake of
//! itself: its processes ran one after the other, and keep the name alone. Whether they did is decided by the order of
//! the log, in which an IOC begins when the recorder has found it, and ends when the recorder has seen its end.
//!
//! The names are looked for once, when logs are opened, and given to whoever reads the segments
//! ([`SegmentFile::shown`]), so no output can forget them.
//!
//! One process of an IOC that was started anew can be chosen in the same way: if it is asked for as `NAME pid N`, it is
//! shown so, and the others of its name keep that. The same goes for those in pods that are asked for, if others of their
//! name on the host are in none of these: then all of the name are shown with their process ids.
//!
//! By the same look it is known which IOCs several recorders of their host recorded at the same time ([`Twice`]).

use super::read_until::ReadUntil;
use super::scan::{is_end, Blocks, Part, Scan};
use crate::pattern::Pattern;
use crate::pods::{self, Pods};
use crate::shown_names::{names_process, with_pid};
use crate::time::SECOND;
use iocrec_log::event::{Fact, Ioc, IocId};
use iocrec_log::reader::{About, Choice, SegmentFile, Shown};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

/// Processes that are compared, and times of each; bounds for hostile logs.
const MAX_PROCESSES: usize = 5000;
const MAX_TIMES: usize = 100;
/// Bytes of a name that is compared; likewise.
const MAX_NAME: usize = 1000;
/// Bytes of a run for each process known before, from which on it pays to read it without hits first: what is known is
/// copied then.
const PER_PROCESS: u64 = 1 << 10;
/// By how much the clocks of two runs of a machine may differ, in nanoseconds, if their times are compared: machines that are
/// copies of each other have one boot id, too.
const MAX_DRIFT: u64 = 60 * SECOND;

/// IOCs of one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namesakes {
    /// Their host; empty if unknown.
    pub host: String,
    /// Their name.
    pub name: String,
    /// How each is shown.
    pub shown: Vec<String>,
}

/// An IOC that several recorders of its host recorded at the same time: what they saw is in the logs as often.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Twice {
    /// Its host; empty if unknown.
    pub host: String,
    /// Its name.
    pub ioc: String,
}

/// What is known of the names in logs.
#[derive(Default)]
pub struct Names {
    /// IOCs that share a name.
    pub namesakes: Vec<Namesakes>,
    /// Those that were recorded several times.
    pub twice: Vec<Twice>,
}

/// Host and boot.
type Boot = (String, String);
/// A process: its id and start.
type Process = (u32, u64);
/// From when to when it is known to have run: monotonic times.
type Times = Vec<(u64, u64)>;
/// The same, and the number of the run that recorded it.
type Recorded = Vec<(u64, u64, usize)>;

/// The processes of each name in each boot.
#[derive(Clone, Default)]
struct Found {
    all: BTreeMap<(Boot, String), BTreeMap<Process, Times>>,
    count: usize,
    /// When each was recorded, and by which run.
    recorded: BTreeMap<(Boot, String, Process), Recorded>,
    /// The run that is read.
    run: usize,
    /// The processes in pods that are asked for.
    in_pods: HashSet<(Boot, Process)>,
}

/// An IOC whose end has not been read.
struct Open {
    name: String,
    process: Process,
    since: u64,
    /// Whether the current segment names it.
    is_named: bool,
    /// When it was named last: it is known to have run then.
    named: u64,
}

/// Finds the IOCs that share a name, and tells the segments of each run how these are shown, and the processes that are
/// asked for. Finds the IOCs in the pods that are asked for, and those that were recorded twice, too. Parts that can't be
/// read are reported when the events are read.
pub fn find(
    runs: &mut [Vec<SegmentFile>],
    asked: Option<&Pattern>,
    pod: Option<&Pattern>,
) -> (Names, Option<Pods>) {
    let asked = asked.filter(|asked| names_process(asked));
    let mut found = Found::default();
    let boots: Vec<Boot> = runs.iter().map(|files| found.read(files, pod)).collect();
    let divided = found.divided();
    let twice = found.twice(runs);
    let mut places: HashMap<String, HashSet<String>> = HashMap::new();
    let mut all: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
    let mut shown: HashMap<Boot, Shown> = HashMap::new();
    for ((boot, name), processes) in found.all {
        let are_several = are_several(&processes);
        let is_divided = divided.contains(&(boot.0.clone(), name.clone()));
        for &(pid, start) in processes.keys() {
            let label = with_pid(&name, pid);
            let is_shown = are_several || is_divided || asked.is_some_and(|asked| asked.matches(&label));
            if found.in_pods.contains(&(boot.clone(), (pid, start))) {
                let own = if is_shown { &label } else { &name };
                places.entry(boot.0.clone()).or_default().insert(own.clone());
            }
            if is_shown {
                shown.entry(boot.clone()).or_default().insert((name.clone(), pid, start), label);
            }
        }
        if !are_several {
            continue;
        }
        let names = all.entry((boot.0.clone(), name.clone())).or_default();
        for (pid, _) in processes.into_keys() {
            let label = with_pid(&name, pid);
            if !names.contains(&label) {
                names.push(label);
            }
        }
    }
    let shown: HashMap<Boot, Arc<Shown>> =
        shown.into_iter().map(|(boot, shown)| (boot, Arc::new(shown))).collect();
    for (files, boot) in runs.iter_mut().zip(&boots) {
        files.iter_mut().for_each(|file| file.shown = shown.get(boot).cloned());
    }
    let namesakes = all.into_iter();
    let namesakes = namesakes.map(|((host, name), shown)| Namesakes { host, name, shown }).collect();
    (Names { namesakes, twice }, pod.map(|pod| Pods::new(pod.clone(), places)))
}

/// Whether two of the processes ran at the same time.
fn are_several(processes: &BTreeMap<Process, Times>) -> bool {
    let mut times: Vec<(u64, u64, Process)> = Vec::new();
    for (process, of) in processes {
        times.extend(of.iter().map(|(since, until)| (*since, *until, *process)));
    }
    times.sort_unstable();
    // the one that lasts longest of those before
    let mut latest: Option<(u64, Process)> = None;
    for (since, until, process) in times {
        if latest.is_some_and(|(over, other)| other != process && since < over) {
            return true;
        }
        if latest.is_none_or(|(over, _)| over < until) {
            latest = Some((until, process));
        }
    }
    false
}

impl Found {
    /// Names of hosts' IOCs of which some are in the pods that are asked for, and some are not.
    fn divided(&self) -> HashSet<(String, String)> {
        let mut seen: HashMap<(String, String), [bool; 2]> = HashMap::new();
        for ((boot, name), processes) in &self.all {
            let of_name = seen.entry((boot.0.clone(), name.clone())).or_default();
            for process in processes.keys() {
                of_name[usize::from(self.in_pods.contains(&(boot.clone(), *process)))] = true;
            }
        }
        seen.into_iter().filter(|(_, both)| *both == [true; 2]).map(|(name, _)| name).collect()
    }

    /// The IOCs that several of the runs recorded at the same time.
    fn twice(&self, runs: &[Vec<SegmentFile>]) -> Vec<Twice> {
        let ahead = |run: usize| {
            let header = runs.get(run)?.iter().find_map(|file| file.header)?;
            Some(i128::from(header.created_wall) - i128::from(header.created))
        };
        let is_one_clock = |one: usize, other: usize| {
            ahead(one)
                .zip(ahead(other))
                .is_some_and(|(one, other)| one.abs_diff(other) <= u128::from(MAX_DRIFT))
        };
        let mut found = BTreeSet::new();
        for (((host, boot), name, _), times) in &self.recorded {
            let beside = |(place, (since, until, run)): (usize, &(u64, u64, usize))| {
                times.iter().take(place).any(|(from, to, other)| {
                    run != other && since < to && from < until && is_one_clock(*run, *other)
                })
            };
            if !boot.is_empty() && times.iter().enumerate().any(beside) {
                found.insert(Twice { host: host.clone(), ioc: name.clone() });
            }
        }
        found.into_iter().collect()
    }

    /// Reads the IOCs of the next run; returns its boot.
    fn read(&mut self, files: &[SegmentFile], pod: Option<&Pattern>) -> Boot {
        let bytes: u64 = files.iter().map(|file| file.size).sum();
        if bytes >= PER_PROCESS.saturating_mul(self.count as u64) {
            let before = self.clone();
            if let Some(boot) = self.read_with(files, pod, true) {
                return boot;
            }
            *self = before;
        }
        self.read_with(files, pod, false).unwrap_or_default()
    }

    /// The same. `skips`: whether blocks that hold only hits are not even checked. Whether one of them is damaged matters only
    /// where an IOC ended unseen, as nearly always none has: `None` if it may matter and was not looked at.
    fn read_with(&mut self, files: &[SegmentFile], pod: Option<&Pattern>, skips: bool) -> Option<Boot> {
        let last = Arc::new(AtomicU64::new(0));
        let noted = Arc::clone(&last);
        let choose = move |about: &About| {
            noted.fetch_max(about.last, Ordering::Relaxed);
            match about.defines {
                // hits among the definitions need not be decoded
                true => Choice::Only(Arc::new(|_: &_| false)),
                false if skips => Choice::Skip,
                false => Choice::Pass,
            }
        };
        let mut boot = Boot::default();
        let mut open: HashMap<IocId, Open> = HashMap::new();
        let mut read = ReadUntil::default();
        for part in Scan::new(files, Blocks::All).choosing(Arc::new(choose)) {
            read.note(&part);
            match part {
                Part::Segment(_) => self.pass(&boot, &mut open),
                Part::Block(block) => {
                    for event in &block.events {
                        match &event.fact {
                            Fact::Host(host) => boot = (host.name.clone(), host.boot_id.clone()),
                            Fact::Ioc(ioc) => self.begin(&boot, &mut open, event.time, ioc),
                            Fact::Container(container) => {
                                let is_asked = |pod| pods::selects(pod, container, Some(&boot.0));
                                let of = open.get(&container.ioc).filter(|_| pod.is_some_and(is_asked));
                                if let Some(of) = of.filter(|_| self.in_pods.len() < MAX_PROCESSES) {
                                    self.in_pods.insert((boot.clone(), of.process));
                                }
                            }
                            Fact::IocEnd(_) if block.keyframe && skips => return None,
                            Fact::IocEnd(end) => open.remove(&end.ioc).into_iter().for_each(|of| {
                                // a keyframe tells that it had ended by then: it ran until something was missing
                                let seen = read.time().max(of.named);
                                let until = if block.keyframe { seen } else { event.time };
                                self.add(&boot, of, until);
                            }),
                            _ => {}
                        }
                    }
                }
                // where the recorder has stopped nothing is hidden
                Part::Damage(damage) if is_end(&damage) => {}
                Part::Unreadable(_) | Part::Damage(_) if skips => return None,
                Part::Unreadable(_) | Part::Damage(_) => {}
            }
        }
        let last = last.load(Ordering::Relaxed);
        open.into_values().for_each(|of| self.add(&boot, of, last));
        self.run += 1;
        Some(boot)
    }

    /// A segment begins. It names all IOCs that run, so those that the one before did not name have ended unseen.
    fn pass(&mut self, boot: &Boot, open: &mut HashMap<IocId, Open>) {
        let (named, gone): (HashMap<_, _>, HashMap<_, _>) = open.drain().partition(|(_, of)| of.is_named);
        gone.into_values().for_each(|of| {
            let until = of.named;
            self.add(boot, of, until);
        });
        open.extend(named.into_iter().map(|(id, of)| (id, Open { is_named: false, ..of })));
    }

    fn begin(&mut self, boot: &Boot, open: &mut HashMap<IocId, Open>, time: u64, ioc: &Ioc) {
        let process = (ioc.pid, ioc.start);
        let known = open.get_mut(&ioc.id).filter(|of| of.process == process && of.name == ioc.name);
        if let Some(known) = known {
            (known.is_named, known.named) = (true, time);
            return;
        }
        if open.len() < MAX_PROCESSES && ioc.name.len() <= MAX_NAME {
            let of = Open { name: ioc.name.clone(), process, since: time, is_named: true, named: time };
            // the number belongs to another one by now
            open.insert(ioc.id, of).into_iter().for_each(|of| self.add(boot, of, time));
        }
    }

    fn add(&mut self, boot: &Boot, of: Open, until: u64) {
        if of.name.is_empty() || self.count >= MAX_PROCESSES {
            return;
        }
        let recorded = self.recorded.entry((boot.clone(), of.name.clone(), of.process)).or_default();
        let processes = self.all.entry((boot.clone(), of.name)).or_default();
        let times = processes.entry(of.process).or_default();
        self.count += usize::from(times.is_empty());
        if times.len() < MAX_TIMES {
            times.push((of.since, until));
            recorded.push((of.since, until, self.run));
        }
    }
}
