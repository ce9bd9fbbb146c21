//! Opened logs: the segments of each run, and the queries on them.

use crate::clocks::{self, HostClock, Offsets};
use crate::filter::Filter;
use crate::model::peers::Peers;
use crate::model::replay::Replay;
use crate::model::selection::Interest;
use crate::model::source::Source;
use crate::notices::{Notice, Notices};
use crate::pattern::Pattern;
use crate::pods::Pods;
use crate::reading::namesakes::{self, Names, Namesakes, Twice};
use crate::reading::runs::course::Course;
use crate::reading::runs::{budget, first_clock, group, host, last_event, set_limit};
use crate::reading::scan::{Blocks, Scan};
use crate::shown_names::{self, may_be_unnamed};
use iocrec_log::reader::{find, ReadError, Segment, SegmentFile};
use std::cell::{Cell, OnceCell};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::rc::Rc;

/// Options for opening logs.
///
/// ```
/// # let log = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/travelled/x86_64-6.1/log");
/// use iocreplay::OpenOptions;
///
/// let logs = OpenOptions::new().on_notice(|notice| eprintln!("{notice}")).open([log])?;
/// assert!(logs.is_complete());
/// # Ok::<(), iocreplay::OpenError>(())
/// ```
#[derive(Default)]
pub struct OpenOptions {
    no_limit: bool,
    without_index: bool,
    asked: Option<Pattern>,
    pod: Option<Pattern>,
    offsets: Offsets,
    notices: Notices,
}

/// No log could be opened.
#[derive(Debug)]
pub struct OpenError {
    /// The reason for each path or segment. These were reported as notices, too.
    pub reasons: Vec<ReadError>,
}

impl std::fmt::Display for OpenError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.reasons.first() {
            Some(reason) => reason.fmt(f),
            None => f.write_str("no logs to read: name a segment (.iocrec) or a directory of them"),
        }
    }
}

impl std::error::Error for OpenError {}

impl OpenOptions {
    /// Reads each segment up to the limit, and reports no notices.
    pub fn new() -> Self {
        OpenOptions::default()
    }

    /// Keeps reading a segment with far more events than any recorder writes into so few bytes. Memory stays bounded;
    /// time does not.
    pub fn no_limit(mut self, no_limit: bool) -> Self {
        self.no_limit = no_limit;
        self
    }

    /// Unpacks every block, whatever it says of what it holds. All answers are the same, only later. What is looked up of
    /// a log before it is asked (names, clocks, its end) goes by the blocks with definitions all the same.
    pub fn without_index(mut self, without_index: bool) -> Self {
        self.without_index = without_index;
        self
    }

    /// Shows the processes of IOCs that a pattern names as `NAME pid N` by that, so that a [`Filter`] with it selects
    /// these alone, also of an IOC that was started anew. Other patterns change nothing.
    ///
    /// ```
    /// # let log = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/travelled/x86_64-6.1/log");
    /// use iocreplay::{inventory::Inventory, Filter, OpenOptions};
    ///
    /// let logs = OpenOptions::new().naming(Some("guest pid *".into())).open([log])?;
    /// let inventory = Inventory::read(&logs.runs()[0], logs.notices());
    /// let ioc = inventory.context().iocs().next().expect("an IOC");
    /// assert_eq!(ioc.name, format!("guest pid {}", ioc.pid));
    /// # Ok::<(), iocreplay::OpenError>(())
    /// ```
    pub fn naming(mut self, asked: Option<Pattern>) -> Self {
        self.asked = asked;
        self
    }

    /// Finds the IOCs whose pods or containers match a pattern: the uid of a pod of Kubernetes or the id of podman's, the
    /// host name that the container shows, which in Kubernetes is the pod's name, or the container's id, also its twelve
    /// first digits. [`Logs::pods`] has them, for a [`Filter`]. If other IOCs of such a name are in no such pod, all of them
    /// are shown as `NAME pid N`.
    pub fn in_pods(mut self, pod: Option<Pattern>) -> Self {
        self.pod = pod;
        self
    }

    /// Sets hosts' clocks right: all times of these hosts are moved. Those of which there is no log are passed over.
    pub fn clock_offsets(mut self, offsets: Offsets) -> Self {
        self.offsets = offsets;
        self
    }

    /// Passes notices to `handler`: damage, gaps, limits that were reached.
    pub fn on_notice(mut self, handler: impl Fn(&Notice) + 'static) -> Self {
        self.notices = Notices::to(handler);
        self
    }

    /// Opens logs: segments, directories of segments, or directories of such directories. Reports what can't be read,
    /// and opens the rest.
    ///
    /// # Errors
    /// If nothing can be read.
    pub fn open<P: AsRef<Path>>(self, paths: impl IntoIterator<Item = P>) -> Result<Logs, OpenError> {
        let mut files = Vec::new();
        let mut reasons = Vec::new();
        for path in paths {
            match find(path.as_ref()) {
                Ok(found) => files.extend(found),
                Err(error) => reasons.push(error),
            }
        }
        for file in files.iter().filter(|file| file.header.is_none()) {
            reasons.extend(Segment::open(&file.path).err());
        }
        set_limit(&mut files, self.no_limit);
        let mut runs = group(files);
        if !self.offsets.is_empty() {
            let names = clocks::names(&runs);
            self.offsets.apply(&mut runs, &names);
            runs = group(runs.into_iter().flatten().collect());
        }
        let reasons: Vec<Notice> = reasons.into_iter().map(Notice::Unreadable).collect();
        reasons.iter().for_each(|notice| self.notices.report(notice));
        if runs.is_empty() {
            let reasons = reasons.into_iter().filter_map(|notice| match notice {
                Notice::Unreadable(error) => Some(error),
                _ => None,
            });
            return Err(OpenError { reasons: reasons.collect() });
        }
        let (names, pods) = namesakes::find(&mut runs, self.asked.as_ref(), self.pod.as_ref());
        let names = Rc::new(names);
        let peers = Rc::new(Peers::new(&runs));
        let (notices, courses) = (Rc::new(self.notices), Rc::default());
        let clocks = Rc::default();
        let without_index = self.without_index;
        Ok(Logs { runs, without_index, notices, peers, courses, names, pods, clocks })
    }
}

/// Opened logs, of any number of recorders and hosts.
pub struct Logs {
    /// The segments of each run, in order; the runs sorted by their start.
    runs: Vec<Vec<SegmentFile>>,
    without_index: bool,
    notices: Rc<Notices>,
    /// The circuits that several of them have.
    peers: Rc<Peers>,
    courses: Rc<OnceCell<Vec<Course>>>,
    names: Rc<Names>,
    /// The IOCs in the pods that were asked for.
    pods: Option<Pods>,
    clocks: Rc<Clocks>,
}

/// What was said of the hosts' clocks.
#[derive(Default)]
struct Clocks {
    only: Option<Pattern>,
    names: OnceCell<Vec<String>>,
    is_said: Cell<bool>,
    found: OnceCell<Vec<Notice>>,
}

impl Logs {
    /// Opens logs as [`OpenOptions::open`] does, with the usual limit and without notices.
    ///
    /// ```
    /// # let log = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/travelled/x86_64-6.1/log");
    /// let logs = iocreplay::Logs::open([log])?;
    /// assert_eq!(logs.runs().len(), 1);
    /// # Ok::<(), iocreplay::OpenError>(())
    /// ```
    ///
    /// # Errors
    /// If nothing can be read.
    pub fn open<P: AsRef<Path>>(paths: impl IntoIterator<Item = P>) -> Result<Logs, OpenError> {
        OpenOptions::new().open(paths)
    }

    /// The same logs, for another pass: notices were reported in the first.
    pub fn without_notices(&self) -> Logs {
        self.with(Rc::default())
    }

    pub(crate) fn with(&self, notices: Rc<Notices>) -> Logs {
        let (peers, courses) = (Rc::clone(&self.peers), Rc::clone(&self.courses));
        let names = Rc::clone(&self.names);
        Logs {
            runs: self.runs.clone(),
            without_index: self.without_index,
            notices,
            peers,
            courses,
            names,
            pods: self.pods.clone(),
            clocks: Rc::clone(&self.clocks),
        }
    }

    /// The same, for an answer about hosts whose names match: of others' clocks nothing is said.
    pub fn comparing_only(mut self, only: Option<Pattern>) -> Logs {
        self.clocks = Rc::new(Clocks { only, ..Clocks::default() });
        self
    }

    /// The name of each run's host; empty where unknown.
    pub fn host_names(&self) -> Vec<String> {
        self.clocks.names.get_or_init(|| clocks::names(&self.runs)).clone()
    }

    /// How the clocks of the hosts differ, as far as the logs show (all of them); after they were set right, what is left.
    pub fn host_clocks(&self) -> Vec<HostClock> {
        let span = (i64::MIN, i64::MAX);
        clocks::compare(&self.runs, &self.host_names(), span, self.clocks.only.as_ref(), &BTreeSet::new())
    }

    /// Reports clocks that differ notably, or that can't be compared, once: the answer merges hosts.
    fn report_clocks(&self, since: Option<i64>) {
        if !self.notices.are_heard() || self.runs.len() < 2 || self.clocks.is_said.replace(true) {
            return;
        }
        let names = self.host_names();
        let span = (since.unwrap_or(i64::MIN), i64::MAX);
        let found = clocks::compare(&self.runs, &names, span, self.clocks.only.as_ref(), &BTreeSet::new());
        let notable: Vec<HostClock> = found.iter().filter(|clock| clock.is_notable()).cloned().collect();
        let mut said = Vec::new();
        if !notable.is_empty() {
            said.push(Notice::ClocksDiffer(notable));
        }
        if found.len() > 1 && !clocks::apart(&found).is_empty() {
            said.push(Notice::ClocksUnknown(found));
        }
        said.iter().for_each(|notice| self.notices.report(notice));
        let _ = self.clocks.found.set(said);
    }

    /// What was reported of the hosts' clocks so far, for an answer that others read without standard error.
    pub(crate) fn said_of_clocks(&self) -> &[Notice] {
        self.clocks.found.get().map_or(&[], Vec::as_slice)
    }

    /// Whether what blocks say of themselves is used.
    pub fn uses_index(&self) -> bool {
        !self.without_index
    }

    /// The segments of each recorder's run, in order; the runs sorted by their start.
    pub fn runs(&self) -> &[Vec<SegmentFile>] {
        &self.runs
    }

    /// Whether everything could be read so far. Parts read later may turn out to be damaged.
    pub fn is_complete(&self) -> bool {
        !self.notices.failed()
    }

    /// The receiver of notices.
    pub fn notices(&self) -> &Rc<Notices> {
        &self.notices
    }

    /// One pass over all segments, run by run, in the order on disk.
    pub fn scan(&self, blocks: Blocks) -> Scan {
        Scan::new(self.runs.iter().flatten(), blocks)
    }

    /// All chains in the filter's time range.
    pub fn replay(&self, filter: &Filter) -> Replay {
        Replay::new(
            self.sources(filter.since, filter.until),
            self.until(filter.until.unwrap_or(i64::MAX)),
            &self.notices,
        )
    }

    /// What can matter to the put log, in the filter's time range: chains of puts from outside are complete in what a put
    /// log shows of them, if the filter may select them by their PVs; others are missing or may lack parts.
    pub fn replay_puts(&self, filter: &Filter) -> Replay {
        let mut sources = self.sources(filter.since, filter.until);
        if self.uses_index() {
            let interest = filter.only_records().map_or(Interest::Puts, Interest::PutsTo);
            sources = sources.into_iter().map(|source| source.asked_for(interest.clone())).collect();
        }
        Replay::new(sources, self.until(filter.until.unwrap_or(i64::MAX)), &self.notices)
    }

    /// The chains in the filter's time range that it may select by their PVs, whole; others may be missing or lack parts.
    pub fn replay_chains(&self, filter: &Filter) -> Replay {
        let mut sources = self.sources(filter.since, filter.until);
        let names = filter.only_records().filter(|_| self.uses_index());
        if let Some(names) = names.filter(|_| !sources.iter().any(Source::may_have_link_puts)) {
            let interest = Interest::Chains(names);
            sources = sources.into_iter().map(|source| source.asked_for(interest.clone())).collect();
        }
        Replay::new(sources, self.until(filter.until.unwrap_or(i64::MAX)), &self.notices)
    }

    /// What IOCs said in the filter's time range, and the chains around it; others are missing or lack parts.
    pub fn replay_said(&self, filter: &Filter) -> Replay {
        let mut sources = self.sources(filter.since, filter.until);
        if self.uses_index() {
            sources = sources.into_iter().map(Source::asked_what_was_said).collect();
        }
        Replay::new(sources, self.until(filter.until.unwrap_or(i64::MAX)), &self.notices)
    }

    /// The chains in the filter's time range that may concern records of these names; others may be missing or lack parts.
    pub fn replay_of(&self, filter: &Filter, records: Vec<String>) -> Replay {
        let mut sources = self.sources(filter.since, filter.until);
        if self.uses_index() && !records.iter().any(|name| may_be_unnamed(name)) {
            let interest = Interest::Records(records);
            sources = sources.into_iter().map(|source| source.asked_for(interest.clone())).collect();
        }
        Replay::new(sources, self.until(filter.until.unwrap_or(i64::MAX)), &self.notices)
    }

    /// Wall-clock time of the last event of all runs; `None` if there is none. Reads the last segment of each run.
    pub fn end(&self) -> Option<i64> {
        let ends = self.runs.iter().zip(self.courses()).filter_map(|(files, course)| {
            let (time, wall) = last_event(files)?;
            Some((course.even(time, wall), wall))
        });
        ends.max().map(|(_, wall)| wall)
    }

    /// Hosts whose logs begin after this wall-clock time, and when each does. Of what was before nothing is known. Empty if
    /// that can't be read. Reads what the first segment of each run begins with. `of`: whether a host counts.
    pub fn begins_after(&self, time: i64, of: impl Fn(&str) -> bool) -> BTreeMap<String, i64> {
        let mut begins: BTreeMap<String, (i64, i64)> = BTreeMap::new();
        for (files, course) in self.runs.iter().zip(self.courses()) {
            let Some((monotonic, wall)) = first_clock(files) else { continue };
            let name = host(files).map(|host| host.name).unwrap_or_default();
            let begin = (course.even(monotonic, wall), wall);
            begins.entry(name).and_modify(|first| *first = begin.min(*first)).or_insert(begin);
        }
        let time = self.even(time);
        let later = begins.into_iter().filter(|(name, (even, _))| *even > time && of(name));
        later.map(|(name, (_, wall))| (name, wall)).collect()
    }

    /// The place in the order of time of the last event of each host. Reads the last segment of each run.
    pub(crate) fn ends(&self) -> BTreeMap<String, i64> {
        let mut ends = BTreeMap::new();
        for (files, course) in self.runs.iter().zip(self.courses()) {
            let name = host(files).map(|host| host.name).unwrap_or_default();
            if let Some((time, wall)) = last_event(files) {
                let end = ends.entry(name).or_insert(i64::MIN);
                *end = course.even(time, wall).max(*end);
            }
        }
        ends
    }

    /// Wall-clock time of the last event of each host. Reads the last segment of each run.
    pub(crate) fn newest(&self) -> BTreeMap<String, i64> {
        let mut newest: BTreeMap<String, (i64, i64)> = BTreeMap::new();
        for (files, course) in self.runs.iter().zip(self.courses()) {
            let Some((time, wall)) = last_event(files) else { continue };
            let name = host(files).map(|host| host.name).unwrap_or_default();
            let last = newest.entry(name).or_insert((i64::MIN, wall));
            *last = (course.even(time, wall), wall).max(*last);
        }
        newest.into_iter().map(|(host, (_, wall))| (host, wall)).collect()
    }

    /// The last place in the order of time at which a machine's clock showed this time.
    pub(crate) fn even(&self, wall: i64) -> i64 {
        let set_back = self.courses().iter().filter(|course| course.is_set_back());
        set_back.map(|course| course.last_shown(wall).0).max().unwrap_or(wall)
    }

    /// The same of the clock of one host.
    pub(crate) fn even_of(&self, host: &str, wall: i64) -> i64 {
        if !self.courses().iter().any(Course::is_set_back) {
            return wall;
        }
        let own = self.courses().iter().zip(self.host_names());
        let own = own.filter(|(course, name)| course.is_set_back() && name == host);
        own.map(|(course, _)| course.last_shown(wall).0).max().unwrap_or(wall)
    }

    /// Wall-clock time of the last event of a run. Reads its last segment.
    pub fn end_of(&self, run: &[SegmentFile]) -> Option<i64> {
        last_event(run).map(|(_, wall)| wall)
    }

    /// The events of all runs from `since` (wall-clock time) on. Nothing from `until` on is wanted.
    pub(crate) fn sources(&self, since: Option<i64>, until: Option<i64>) -> Vec<Source> {
        self.report_clocks(since);
        self.report_beginnings(since, until);
        let budget = budget(self.runs.iter().flatten());
        self.acquainted(self.runs.iter().map(|files| Source::new(files, since, &budget, &self.notices)))
    }

    /// Reports the segments that are missing at the beginning of a run behind another one of its host in its directory: older
    /// ones are there, so the log does not just begin later. Not if nothing is wanted of the time after those: what is missing
    /// is not known to have begun before their end.
    fn report_beginnings(&self, since: Option<i64>, until: Option<i64>) {
        if !self.notices.are_heard() || self.runs.len() < 2 {
            return;
        }
        let names = self.host_names();
        // the names of segments are in the order of writing, whatever the clock showed
        let mut earliest: BTreeMap<(Option<&Path>, &str), &Path> = BTreeMap::new();
        for (files, host) in self.runs.iter().zip(&names) {
            for path in files.iter().map(|file| file.path.as_path()) {
                let known = earliest.entry((path.parent(), host.as_str())).or_insert(path);
                if path < *known {
                    *known = path;
                }
            }
        }
        for (files, host) in self.runs.iter().zip(&names) {
            let Some((path, first)) = files.iter().find_map(|file| Some((&file.path, file.header?))) else {
                continue;
            };
            let before = earliest.get(&(path.parent(), host.as_str()));
            let is_behind = before.is_some_and(|before| *before < path.as_path());
            let is_asked = first.sequence > 0 && since.is_none_or(|since| since < first.created_wall);
            if !is_behind || !is_asked {
                continue;
            }
            let ended = || self.ended_before(path, first.created_wall, host, &names);
            let is_there = until.is_some_and(|until| ended().is_some_and(|ended| until <= ended));
            if !is_there {
                self.notices.report(&Notice::MissingSegments { count: first.sequence, before: path.clone() });
            }
        }
    }

    /// When the last run of a host before the one that this segment begins had ended, of those that did not go on beside it:
    /// one after the other writes to a directory. Reads the last segment of each. Where a clock was set back, the time does
    /// not tell.
    fn ended_before(&self, first: &Path, begun: i64, host: &str, names: &[String]) -> Option<i64> {
        if self.courses().iter().any(Course::is_set_back) {
            return None;
        }
        let before = self.runs.iter().zip(names).filter(|(files, name)| {
            let path = files.first().map(|file| file.path.as_path());
            *name == host && path.is_some_and(|path| path.parent() == first.parent() && path < first)
        });
        before.filter_map(|(files, _)| self.end_of(files)).filter(|end| *end <= begun).max()
    }

    /// The sources of all runs, each of which knows the others.
    pub(crate) fn acquainted(&self, sources: impl Iterator<Item = Source>) -> Vec<Source> {
        let sources: Vec<Source> = sources.collect();
        for (number, source) in sources.iter().enumerate() {
            source.run.is_one_of(&self.peers, number);
            if let Some(course) = self.courses().get(number).filter(|course| course.is_set_back()) {
                source.run.runs_in(course.clone());
            }
        }
        sources
    }

    /// The course of time of each run: where its machine's clock was set back.
    pub fn courses(&self) -> &[Course] {
        self.courses.get_or_init(|| Course::of_runs(&self.runs))
    }

    /// Reports clocks that were set back, for an answer that is in the order of the clock.
    pub fn report_mixed(&self) {
        for (host, by) in self.set_back() {
            self.notices.report(&Notice::MixedByClock { host, by });
        }
    }

    /// Hosts whose clocks were set back, and by how much at most, nanoseconds: the difference of two of their times is no
    /// length of time.
    pub fn set_back(&self) -> BTreeMap<String, u64> {
        let mut found: BTreeMap<String, u64> = BTreeMap::new();
        let courses = self.courses().iter().zip(&self.runs);
        for (by, files) in courses.filter_map(|(course, files)| Some((course.back()?, files))) {
            let host = host(files).map(|host| host.name).unwrap_or_default();
            let most = found.entry(host).or_default();
            *most = by.max(*most);
        }
        found
    }

    /// Where the clocks of hosts were set forward: what each showed before and after. None of the time in between has passed.
    /// Not of a clock that was set back, too: some of these times came twice.
    pub(crate) fn leaps(&self) -> BTreeMap<String, BTreeSet<(i64, i64)>> {
        let mut found: BTreeMap<String, BTreeSet<(i64, i64)>> = BTreeMap::new();
        for (course, host) in self.courses().iter().zip(self.host_names()) {
            if !course.leaps().is_empty() && !course.is_set_back() {
                found.entry(host).or_default().extend(course.leaps());
            }
        }
        found
    }

    /// IOCs that share their name with others that ran beside them.
    pub fn namesakes(&self) -> &[Namesakes] {
        &self.names.namesakes
    }

    /// Reports IOCs that are asked for, and were recorded by several recorders at the same time, for an answer that tells or
    /// counts what each of them saw.
    pub fn report_recorded_twice(&self, filter: &Filter) {
        let is_asked = |of: &&Twice| {
            filter.ioc.as_ref().is_none_or(|ioc| shown_names::selects(ioc, &of.ioc))
                && filter.host.as_ref().is_none_or(|host| host.matches(&of.host))
        };
        let twice: Vec<Twice> = self.names.twice.iter().filter(is_asked).cloned().collect();
        if !twice.is_empty() {
            self.notices.report(&Notice::RecordedTwice(twice));
        }
    }

    /// The IOCs in the pods that were [asked for](OpenOptions::in_pods), for a [`Filter`].
    pub fn pods(&self) -> Option<Pods> {
        self.pods.clone()
    }

    /// Reports that a filter selects several IOCs by the one name that they share.
    pub fn report_namesakes(&self, filter: &Filter) {
        let Some(ioc) = &filter.ioc else { return };
        let chosen = self.names.namesakes.iter().filter(|of| {
            let is_meant = ioc.text() == of.name && !of.shown.iter().any(|shown| ioc.matches(shown));
            is_meant && filter.host.as_ref().is_none_or(|host| host.matches(&of.host))
        });
        chosen.for_each(|of| self.notices.report(&Notice::Namesakes(of.clone())));
    }

    /// The boot of each run, as its log names it; empty if unknown.
    pub(crate) fn boots(&self) -> Vec<String> {
        self.runs.iter().map(|files| host(files).map(|host| host.boot_id).unwrap_or_default()).collect()
    }

    /// Where to end, if nothing from that wall-clock time on is wanted: nowhere, if a clock was set back.
    pub(crate) fn until(&self, wall: i64) -> i64 {
        match self.courses().iter().any(Course::is_set_back) {
            true => i64::MAX,
            false => wall,
        }
    }

    /// The circuits that several runs have.
    pub(crate) fn peers(&self) -> &Rc<Peers> {
        &self.peers
    }
}
