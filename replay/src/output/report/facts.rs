//! What verdict, key moments and the list of what is missing are made from.

use super::clock::Clock;
use super::collect::alarms::Transition;
use super::collect::notes::{Missing, RunNotes};
use super::collect::places::NONE;
use super::collect::records::FAST;
use super::collect::Collected;
use super::limits::Limits;
use super::usage::Usage;
use crate::answers::clients::{ClientLine, Slow};
use crate::answers::hangs::Hang;
use crate::answers::network::NetLine;
use crate::answers::values::{CLOCK_STEP, RESTARTED};
use crate::reading::ended_unseen::UNSEEN;
use crate::shown_names::may_follow;
use std::collections::{HashMap, HashSet};

/// An IOC ended.
#[derive(Clone, Debug)]
pub struct IocEnd {
    /// Its number.
    pub ioc: u32,
    /// Wall-clock time, known to a second or so: the recorder looks at intervals.
    pub time: i64,
    /// How; empty if not known.
    pub how: String,
}

impl IocEnd {
    /// How bad it is.
    pub fn rank(&self) -> u8 {
        match self.how.as_str() {
            // it may go on: (up to 6.0 s before this was seen)
            how if how.starts_with("exit status 0") => 0,
            "" => 1,
            how if how.starts_with("killed") => 3,
            how if how.starts_with("exit status") => 2,
            // the recorder's words for what nobody told it
            _ => 1,
        }
    }

    /// The end as a part of a sentence.
    pub fn words(&self) -> String {
        match self.how.as_str() {
            "" => "ended (how is not known)".to_owned(),
            // of the next process its start is known
            RESTARTED => "was started anew, unseen".to_owned(),
            UNSEEN => format!("ended then or before, {UNSEEN}"),
            how if how.starts_with("killed") => format!("was {how}"),
            how => match how.strip_prefix("exit status ") {
                Some(status) => format!("exited with status {status}"),
                None => format!("ended: {how}"),
            },
        }
    }
}

/// A record that was processed at 1000/s or more by CP links or events.
#[derive(Clone, Debug)]
pub struct Loop {
    /// The record with the highest rate.
    pub record: u32,
    /// That rate, a second.
    pub rate: u64,
    /// Begin of the 250 ms in which it was reached.
    pub at: i64,
    /// Begin of the 250 ms in which a record of it first was that fast.
    pub since: i64,
    /// What begins the chains: `CP` or `event`.
    pub trigger: &'static str,
    /// Whether the links are known to lead back to where they began.
    pub closed: bool,
    /// Whether it may have begun before: its recording begins with it.
    pub perhaps_before: bool,
}

/// Nanoseconds after the beginning of a recording in which what is fast from then on is first seen so: the windows in which
/// records are counted are half as long, and the first one is cut.
const SEEN_AT_ONCE: u64 = 500_000_000;

/// Everything that is known.
pub struct Facts {
    /// Runs.
    pub runs: Vec<RunNotes>,
    /// What the chains say.
    pub found: Collected,
    /// First and last time.
    pub span: (i64, i64),
    /// Whether nothing was recorded, so that these are not known.
    pub is_empty: bool,
    /// The page's clock.
    pub clock: Clock,
    /// What else than time and place it is limited to.
    pub limits: Limits,
    /// Ends of the IOCs that were asked for, in order of time.
    pub ends: Vec<IocEnd>,
    /// IOCs that were not asked for: chains that lead to those that were have records of them.
    pub other_iocs: HashSet<u32>,
    /// Ends of IOCs outside the time that was asked for, and of other IOCs.
    pub other_ends: Vec<IocEnd>,
    /// Whether the log may go back further than was asked for.
    pub is_cut: bool,
    /// Losses of all runs, in order of time.
    pub losses: Vec<Missing>,
    /// Gaps of all runs, in order of time; `ioc` is the number of the page's IOC.
    pub gaps: Vec<Missing>,
    /// Marks of all runs.
    pub marks: Vec<(i64, String)>,
    /// Threads that stood still, the longest first.
    pub hangs: Vec<Hang>,
    /// Connections with devices that ended or did not come about, and what was sent again, in order of time.
    pub devices: Vec<NetLine>,
    /// Clients that did not keep up, each time of it, the longest first.
    pub slow: Vec<(ClientLine, Slow)>,
    /// What the IOCs used of the machine.
    pub usage: Usage,
    /// How the clocks of several hosts differ, if that is notable or not known.
    pub clocks: Vec<String>,
}

impl Facts {
    /// Name of a record.
    pub fn record(&self, number: u32) -> &str {
        let record = usize::try_from(number).ok().and_then(|number| self.found.places.records.get(number));
        record.map_or("(unknown record)", |record| self.found.strings.get(record.name))
    }

    /// Name of an IOC.
    pub fn ioc(&self, number: u32) -> &str {
        let place = usize::try_from(number).ok().and_then(|number| self.found.places.iocs.get(number));
        place.map_or("", |place| place.name.as_str())
    }

    /// Whether something is missing between two times, so that counts are minima.
    pub fn is_incomplete(&self, from: i64, to: i64) -> bool {
        self.losses.iter().chain(&self.gaps).any(|missing| missing.from <= to && missing.to >= from)
            || self.found.notes.holes.iter().any(|hole| (from..=to).contains(hole))
            || self.found.notes.sampled > 0
            || self.runs.iter().any(|run| run.refused > 0)
    }

    /// Whether nothing was recorded of all that was asked for in a part of its time: an IOC may have ended then.
    pub fn may_hide_ends(&self) -> bool {
        !self.found.notes.holes.is_empty() || self.gaps.iter().any(|gap| gap.ioc.is_none())
    }

    /// Whether something was not recorded, for another reason than that it was lost.
    pub fn has_gap(&self) -> bool {
        !self.found.notes.holes.is_empty() || !self.gaps.is_empty()
    }

    /// The last time that something was seen of a run, before the next run on its host.
    pub fn last_of(&self, run: &RunNotes) -> Option<i64> {
        last_of(&self.runs, &self.found, run)
    }

    /// Whether a record is of an IOC that was not asked for.
    fn is_of_another(&self, record: u32) -> bool {
        let record = usize::try_from(record).ok().and_then(|record| self.found.places.records.get(record));
        record.is_some_and(|record| self.other_iocs.contains(&record.ioc))
    }

    /// Transitions to an alarm that a record was not in before, of this severity or worse, that were seen as they happened.
    pub fn went(&self, severity: u16) -> impl Iterator<Item = &Transition> {
        self.found.alarms.all.iter().filter(move |found| {
            !found.is_found()
                && !self.is_of_another(found.record)
                && found.to.severity >= severity
                && found.from.is_some_and(|from| from < found.to.severity)
        })
    }

    /// The fastest record of the IOCs that were asked for that CP links or events process, if one was fast between these times.
    pub fn fastest(&self, from: i64, to: i64) -> Option<Loop> {
        let fast = self.found.places.lately.iter().enumerate().filter_map(|(number, record)| {
            let peak = &record.peak;
            let fast = peak.fast.as_ref().filter(|_| peak.most >= FAST)?;
            let is = matches!(fast.trigger, "CP" | "event") && peak.at <= to && peak.at >= from;
            let number = u32::try_from(number).unwrap_or(NONE);
            (is && !self.is_of_another(number)).then_some((peak.most, number, peak, fast))
        });
        let (_, number, peak, fast) = fast.max_by_key(|(most, number, ..)| (*most, u32::MAX - number))?;
        let (closed, roots) = self.way(number);
        // another loop may have begun before
        let all = self.found.places.lately.iter().filter_map(|record| record.peak.fast.as_ref());
        let of_it = all.filter(|other| other.trigger == fast.trigger && roots.contains(&other.root));
        let since = of_it.map(|fast| fast.since).min().unwrap_or(fast.since);
        Some(Loop {
            record: number,
            rate: peak.rate(),
            at: peak.at,
            since,
            trigger: fast.trigger,
            closed,
            perhaps_before: self.is_from_the_beginning(number, since),
        })
    }

    /// Whether the recording of a record's IOC begins at about that time.
    fn is_from_the_beginning(&self, record: u32, since: i64) -> bool {
        let record = usize::try_from(record).ok().and_then(|record| self.found.places.records.get(record));
        let is_of_it = |gap: &&Missing| gap.ioc.is_none() || gap.ioc == record.map(|record| record.ioc);
        let gaps = self.gaps.iter().filter(is_of_it).map(|gap| gap.to);
        std::iter::once(self.span.0).chain(gaps).any(|begin| since.abs_diff(begin) <= SEEN_AT_ONCE)
    }

    /// The way of the CP links that process a record: from the root of its chain to the source of that root's only CP link,
    /// to the root of that record's chain, and so on. Whether it leads back, and the roots on it.
    fn way(&self, record: u32) -> (bool, Vec<u32>) {
        let mut roots = Vec::new();
        let mut next = Some(record);
        for _ in 0..64 {
            let Some(number) = next else { break };
            let places = &self.found.places;
            let of = |number: u32| places.lately.get(usize::try_from(number).ok()?)?.peak.fast.as_ref();
            let Some(root) = of(number).map(|fast| fast.root) else { break };
            if roots.contains(&root) {
                return (true, roots);
            }
            roots.push(root);
            let Some(source) = of(root).and_then(|fast| fast.source.as_deref()) else { break };
            let source = epics::Pv::new(epics::pv::link_target(source)).record;
            let ioc =
                usize::try_from(root).ok().and_then(|root| places.records.get(root)).map(|root| root.ioc);
            let others = 0..u32::try_from(places.iocs.len()).unwrap_or(0);
            let mut in_others = others.filter_map(|other| places.by_name(other, source));
            next = ioc.and_then(|ioc| places.by_name(ioc, source)).or_else(|| in_others.next());
        }
        (false, roots)
    }
}

/// Ends of the IOCs of all runs, each once.
pub fn ends(runs: &[RunNotes], found: &mut Collected) -> Vec<IocEnd> {
    let mut ends: Vec<IocEnd> = Vec::new();
    for run in runs {
        for ioc in run.inventory.context().iocs() {
            let Some(end) = run.inventory.end(ioc.id) else { continue };
            let Some(time) = end.wall else { continue };
            let number = found.places.ioc(run.host(), ioc);
            if number != NONE && !ends.iter().any(|end| end.ioc == number) {
                ends.push(IocEnd { ioc: number, time, how: end.how.clone() });
            }
        }
    }
    restarts(runs, found, &mut ends);
    ends.sort_by_key(|end| end.time);
    ends
}

/// Adds the IOCs that nobody saw end, but that a later run found in a process that started after the run that had recorded
/// them. The time is that of this start, the latest that there is for the end.
fn restarts(runs: &[RunNotes], found: &mut Collected, ends: &mut Vec<IocEnd>) {
    let ended: HashSet<u32> = ends.iter().map(|end| end.ioc).collect();
    // by host, name and process id: those that were left running, and when
    let mut left: HashMap<(&str, &str, u32), HashMap<u32, i64>> = HashMap::new();
    for run in runs {
        let context = run.inventory.context();
        let of = context.iocs().filter(|ioc| !ioc.name.is_empty());
        let present: Vec<_> = of.map(|ioc| (ioc, found.places.ioc(run.host(), ioc))).collect();
        let numbers: HashSet<u32> = present.iter().map(|(_, number)| *number).collect();
        for (ioc, _) in &present {
            let Some(started) = context.wall(ioc.start) else { continue };
            let follows = |(host, name, pid): &(&str, &str, u32)| {
                *host == run.host() && may_follow(name, *pid, &ioc.name)
            };
            let all = left.iter_mut().filter(|(before, _)| follows(before));
            all.for_each(|(_, before)| {
                before.retain(|number, until| {
                    let is_followed =
                        !numbers.contains(number) && *until < started.saturating_add(CLOCK_STEP);
                    if is_followed {
                        ends.push(IocEnd { ioc: *number, time: started, how: RESTARTED.to_owned() });
                    }
                    !is_followed
                })
            });
        }
        let Some(end) = run.end else { continue };
        for (ioc, number) in
            present.into_iter().filter(|(_, number)| *number != NONE && !ended.contains(number))
        {
            left.entry((run.host(), ioc.name.as_str(), ioc.pid)).or_default().insert(number, end);
        }
    }
}

/// Gaps of all runs, and those between the runs of a host.
pub fn gaps(runs: &[RunNotes], found: &mut Collected) -> Vec<Missing> {
    let mut gaps: Vec<Missing> = Vec::new();
    for run in runs {
        for gap in &run.gaps {
            let ioc = gap.ioc.and_then(|id| run.inventory.context().ioc(id));
            let ioc = ioc.map(|ioc| found.places.ioc(run.host(), ioc));
            gaps.push(Missing { ioc, ..gap.clone() });
        }
    }
    let several = runs.iter().any(|run| run.host() != runs.first().map_or("", RunNotes::host));
    for run in runs {
        let Some(begin) = run.begin else { continue };
        let before = runs
            .iter()
            .filter(|other| other.host() == run.host() && other.begin.is_some_and(|at| at < begin));
        let end = before.filter_map(|other| last_of(runs, found, other)).max();
        if let Some(end) = end.filter(|end| *end < begin) {
            let host = if several { format!("{}: ", run.host()) } else { String::new() };
            let cause = format!("{host}between two runs of the recorder");
            let host = Some(run.host().to_owned());
            gaps.push(Missing { from: end, to: begin, count: 0, what: "time", cause, ioc: None, host });
            gaps.extend(not_yet_attached(run, begin, found));
        }
    }
    gaps.sort_by(|a, b| (a.from, a.to, &a.cause).cmp(&(b.from, b.to, &b.cause)));
    gaps
}

/// The times from the begin of a run until it had the hits of each IOC that ran then.
fn not_yet_attached(run: &RunNotes, begin: i64, found: &mut Collected) -> Vec<Missing> {
    let context = run.inventory.context();
    let spans = run.inventory.spans();
    let late = context.iocs().filter_map(|ioc| {
        let first = spans.recorded(ioc.id).next()?.0?;
        // of one that was found later, the recorder has noted since when it was unseen
        let is_noted = spans.unseen(ioc.id).iter().any(|unseen| unseen.to == Some(first));
        let from = context.wall(ioc.start).map_or(begin, |started| started.max(begin));
        let cause = "the recorder had started, but not yet placed its probes".to_owned();
        (from < first && !is_noted).then(|| Missing {
            from,
            to: first,
            count: 0,
            what: "time",
            cause,
            ioc: Some(found.places.ioc(run.host(), ioc)),
            host: None,
        })
    });
    late.collect()
}

fn last_of(runs: &[RunNotes], found: &Collected, run: &RunNotes) -> Option<i64> {
    let begin = run.begin?;
    let same = runs.iter().filter(|other| other.host() == run.host());
    let next = same.filter_map(|other| other.begin).filter(|at| *at > begin).min().unwrap_or(i64::MAX);
    let extents =
        found.places.extents.iter().filter(|extent| extent.host == run.host() && extent.first < next);
    extents.filter(|extent| extent.last >= begin).map(|extent| extent.last).max()
}
