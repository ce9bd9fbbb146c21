//! Decides which process is inspected next.
//!
//! Users share the threads by time: the next process is one of the user who has cost the least so far. So a user with a
//! thousand processes that look like IOCs delays only their own. Among a user's processes those come
//! first that were never inspected, the newest first: IOCs that load are inspected so often that others would not be
//! found beside them. Then come IOCs. Of a user's processes that did not answer, one is inspected at a time.
//!
//! Inspection intervals:
//!
//! - a new process after 20, 40, 80 ms and so on, since a program maps its libraries and an IOC loads its database some
//!   time after the start;
//! - a process that is not an IOC only when its size has changed, which is looked at each second;
//! - an IOC every 100 ms until its database is loaded, then every second for 8 s; after that at ever longer
//!   intervals, up to 16 s, as long as nothing has changed, and at once when its size has changed;
//! - a process that does not answer at ever longer intervals, up to five minutes.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

/// Id of a user; `None` if unknown.
pub type User = Option<u32>;

/// First pause between inspections of a new process, and the longest that it doubles to.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const NEW_PAUSE: Duration = Duration::from_millis(640);
/// Time for which a changing process is inspected each second: Python may import for long before it loads EPICS Base.
const STARTING: Duration = Duration::from_secs(120);
/// After that time the pause doubles from one second up to this, as long as the process only changes its size.
const SECOND: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(16);
/// The same limit for a process that does not answer.
const UNANSWERED_PAUSE: Duration = Duration::from_secs(300);
/// Pause between inspections of an IOC: until its database is loaded, and later.
const IOC_LOADING_PAUSE: Duration = Duration::from_millis(100);
const IOC_PAUSE: Duration = Duration::from_secs(1);
/// Time after which an IOC that has not changed is settled: its pause doubles from one second up to [`LONGEST_PAUSE`],
/// so that thirty settled IOCs cost little more than one.
const SETTLING: Duration = Duration::from_secs(8);
/// Pause of a process that is only inspected when its size has changed ([`Queue::watch`]).
const UNTIL_CHANGED: Duration = Duration::from_secs(3600);
/// Inspections of processes that are not IOCs, on average and in a burst. A machine that compiles starts thousands of
/// processes a second.
const INSPECTIONS_A_SECOND: f64 = 100.0;
const BURST: f64 = 200.0;
/// A user's past cost is halved whenever a user's cost exceeds this.
const MAX_SPENT: Duration = Duration::from_secs(60);
/// Users whose cost is remembered.
const MAX_USERS: usize = 1000;

/// Result of an inspection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The process is not an IOC so far.
    NoIoc,
    /// It is an IOC.
    Ioc {
        /// Whether its record database is loaded.
        is_loaded: bool,
    },
    /// It is an IOC, and has not changed since the last inspection.
    Settled,
    /// It did not answer, or the inspection cost too much.
    Unanswered,
}

/// What a short look at a waiting process has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Glance {
    /// It has not changed, or that can't be told.
    Same,
    /// It has changed since its last inspection.
    Changed,
    /// It has ended.
    Ended,
}

/// A process.
#[derive(Debug)]
pub struct Entry<T> {
    /// Process id.
    pub pid: u32,
    /// Start of the process, nanoseconds after boot.
    pub start: u64,
    /// The user that it runs as.
    pub user: User,
    /// State kept between inspections.
    pub known: T,
    added: Instant,
    /// Start of the last inspection.
    inspected: Option<Instant>,
    due: Instant,
    pause: Duration,
    /// Time over which an IOC has not changed.
    calm: Duration,
    is_ioc: bool,
    unanswered: bool,
}

/// All processes.
#[derive(Debug)]
pub struct Queue<T> {
    waiting: HashMap<u32, Entry<T>>,
    /// Processes being inspected, and their users.
    busy: HashMap<u32, User>,
    /// Those to drop after their inspection.
    dropped: HashSet<u32>,
    /// Processes that existed at the start and were not yet inspected; `None` once the start is over.
    at_start: Option<HashSet<u32>>,
    /// Cost of each user.
    spent: HashMap<User, Duration>,
    /// Inspections of processes that are not IOCs: a bucket that fills at [`INSPECTIONS_A_SECOND`] up to [`BURST`].
    tokens: f64,
    filled: Instant,
    began: Instant,
}

impl<T> Queue<T> {
    /// An empty queue.
    pub fn new(now: Instant) -> Queue<T> {
        Queue {
            waiting: HashMap::new(),
            busy: HashMap::new(),
            dropped: HashSet::new(),
            at_start: Some(HashSet::new()),
            spent: HashMap::new(),
            tokens: BURST,
            filled: now,
            began: now,
        }
    }

    /// Whether the process is in the queue or being inspected.
    pub fn has(&self, pid: u32) -> bool {
        self.waiting.contains_key(&pid) || self.busy.contains_key(&pid)
    }

    /// Whether all processes that existed at the start have been inspected.
    pub fn has_finished_start(&self) -> bool {
        self.at_start.as_ref().is_none_or(HashSet::is_empty)
    }

    /// Ends the start: processes added from now on did not exist then.
    pub fn end_start(&mut self) {
        self.at_start = None;
    }

    /// Adds a process. A `new` one has just started, and is inspected soon rather than at once.
    pub fn add(&mut self, pid: u32, start: u64, user: User, new: bool, known: T, now: Instant) {
        let pause = if new { FIRST_PAUSE } else { Duration::ZERO };
        let entry = Entry {
            pid,
            start,
            user,
            known,
            added: now,
            inspected: None,
            due: now + pause,
            pause,
            calm: Duration::ZERO,
            is_ioc: false,
            unanswered: false,
        };
        if let Some(at_start) = self.at_start.as_mut().filter(|_| !new) {
            at_start.insert(pid);
        }
        self.waiting.insert(pid, entry);
    }

    /// Removes all processes that have ended. True if any had.
    pub fn retain(&mut self, lives: impl Fn(u32) -> bool) -> bool {
        let before = self.waiting.len();
        self.waiting.retain(|&pid, _| lives(pid));
        if let Some(at_start) = &mut self.at_start {
            at_start.retain(|&pid| lives(pid));
        }
        self.dropped.extend(self.busy.keys().copied().filter(|&pid| !lives(pid)));
        self.waiting.len() < before
    }

    /// Removes a process.
    pub fn remove(&mut self, pid: u32) {
        self.waiting.remove(&pid);
        self.was_inspected(pid);
        if self.busy.contains_key(&pid) {
            self.dropped.insert(pid);
        }
    }

    /// Makes a waiting process due. Returns its kept state.
    pub fn hurry(&mut self, pid: u32, now: Instant) -> Option<&mut T> {
        let entry = self.waiting.get_mut(&pid)?;
        entry.due = now;
        Some(&mut entry.known)
    }

    /// Returns when the last finished inspection of a process began.
    pub fn inspected(&self, pid: u32) -> Option<Instant> {
        self.waiting.get(&pid)?.inspected
    }

    /// Takes the next process to inspect. `may_ask` says whether a process of a user may be read; its second argument
    /// is true for an IOC that has answered so far.
    pub fn take(&mut self, now: Instant, may_ask: impl Fn(User, bool) -> bool) -> Option<Entry<T>> {
        let more = now.saturating_duration_since(self.filled).as_secs_f64() * INSPECTIONS_A_SECOND;
        self.tokens = (self.tokens + more).min(BURST);
        self.filled = now;
        let due = self.waiting.values().filter(|entry| entry.due <= now);
        let due = due.filter(|entry| self.tokens >= 1.0 || entry.is_ioc);
        let is_busy = |user| self.busy.values().any(|&busy| busy == user);
        let due = due.filter(|entry| {
            let answers = entry.is_ioc && !entry.unanswered;
            may_ask(entry.user, answers) && (!entry.unanswered || !is_busy(entry.user))
        });
        let next = due.min_by_key(|entry| {
            let user = (is_busy(entry.user), self.spent(entry.user));
            (user, entry.inspected.is_some(), !entry.is_ioc, entry.inspected, Reverse(entry.start))
        })?;
        let entry = self.waiting.remove(&next.pid.clone())?;
        self.tokens -= if entry.is_ioc { 0.0 } else { 1.0 };
        self.busy.insert(entry.pid, entry.user);
        Some(entry)
    }

    /// Returns when the next process is due.
    pub fn next(&self) -> Option<Instant> {
        self.waiting.values().map(|entry| entry.due).min()
    }

    /// Puts a process back after an inspection that took this time. Returns its kept state if it was removed meanwhile,
    /// so that the caller can drop it without a lock.
    pub fn put_back(
        &mut self,
        mut entry: Entry<T>,
        outcome: Outcome,
        took: Duration,
        now: Instant,
    ) -> Option<T> {
        self.busy.remove(&entry.pid);
        self.was_inspected(entry.pid);
        self.spend(entry.user, took);
        self.age_costs();
        if self.dropped.remove(&entry.pid) {
            return Some(entry.known);
        }
        // changes during the inspection were not seen
        entry.inspected = now.checked_sub(took);
        let age = now.saturating_duration_since(entry.added);
        entry.calm = if outcome == Outcome::Settled { entry.calm + entry.pause } else { Duration::ZERO };
        entry.unanswered = outcome == Outcome::Unanswered;
        entry.is_ioc |= matches!(outcome, Outcome::Ioc { .. } | Outcome::Settled);
        entry.pause = match outcome {
            Outcome::Ioc { is_loaded: false } if age < STARTING => IOC_LOADING_PAUSE,
            Outcome::Settled if entry.calm >= SETTLING => (entry.pause * 2).clamp(IOC_PAUSE, LONGEST_PAUSE),
            Outcome::Ioc { .. } | Outcome::Settled => IOC_PAUSE,
            Outcome::Unanswered => (entry.pause * 2).clamp(SECOND, UNANSWERED_PAUSE),
            Outcome::NoIoc if age < NEW_PAUSE * 2 => (entry.pause * 2).clamp(FIRST_PAUSE, NEW_PAUSE),
            Outcome::NoIoc if age < STARTING => SECOND,
            Outcome::NoIoc => (entry.pause * 2).clamp(SECOND, LONGEST_PAUSE),
        };
        entry.due = self.time_after(entry.pause, now);
        self.waiting.insert(entry.pid, entry);
        None
    }

    /// Puts a process back uninspected, since it has not changed; it is due again in a second. Returns the same as
    /// [`put_back`](Queue::put_back).
    pub fn skip(&mut self, mut entry: Entry<T>, now: Instant) -> Option<T> {
        self.tokens = (self.tokens + 1.0).min(BURST);
        if now.saturating_duration_since(entry.added) < NEW_PAUSE * 2 {
            return self.put_back(entry, Outcome::NoIoc, Duration::ZERO, now);
        }
        self.busy.remove(&entry.pid);
        self.was_inspected(entry.pid);
        if self.dropped.remove(&entry.pid) {
            return Some(entry.known);
        }
        entry.inspected = Some(now);
        entry.due = self.time_after(SECOND, now);
        self.waiting.insert(entry.pid, entry);
        None
    }

    /// Puts a process back that is not due until [`Queue::wake`] finds it changed. Returns the same as
    /// [`put_back`](Queue::put_back).
    pub fn watch(&mut self, entry: Entry<T>, now: Instant) -> Option<T> {
        let pid = entry.pid;
        let dropped = self.skip(entry, now);
        if let Some(entry) = self.waiting.get_mut(&pid).filter(|entry| entry.due > now + NEW_PAUSE) {
            entry.due = now + UNTIL_CHANGED;
        }
        dropped
    }

    /// Looks at the kept state of all waiting processes: those that have changed are due now, those that have ended are
    /// removed. Returns the ids of the changed ones, and the kept state of the ended ones.
    pub fn wake(&mut self, now: Instant, look: impl Fn(&T) -> Glance) -> (Vec<u32>, Vec<T>) {
        let (mut changed, mut ended) = (Vec::new(), Vec::new());
        for (&pid, entry) in &mut self.waiting {
            match look(&entry.known) {
                Glance::Same => {}
                Glance::Changed => {
                    entry.due = entry.due.min(now);
                    changed.push(pid);
                }
                Glance::Ended => ended.push(pid),
            }
        }
        let ended = ended.into_iter().filter_map(|pid| {
            self.was_inspected(pid);
            Some(self.waiting.remove(&pid)?.known)
        });
        let ended = ended.collect();
        (changed, ended)
    }

    fn was_inspected(&mut self, pid: u32) {
        if let Some(at_start) = &mut self.at_start {
            at_start.remove(&pid);
        }
    }

    /// The end of a pause. Pauses of seconds end together, so a machine with many processes is woken once a second.
    fn time_after(&self, pause: Duration, now: Instant) -> Instant {
        let end = now + pause;
        if pause < SECOND {
            return end;
        }
        let rest = end.saturating_duration_since(self.began).subsec_nanos();
        if rest == 0 {
            end
        } else {
            end + (SECOND - Duration::from_nanos(rest.into()))
        }
    }

    /// Returns the cost of a user so far.
    pub fn spent(&self, user: User) -> Duration {
        self.spent.get(&user).copied().unwrap_or_default()
    }

    /// Adds to the cost of a user.
    pub fn spend(&mut self, user: User, time: Duration) {
        *self.spent.entry(user).or_default() += time;
    }

    /// Returns all processes.
    pub fn pids(&self) -> HashSet<u32> {
        self.waiting.keys().chain(self.busy.keys()).copied().collect()
    }

    fn age_costs(&mut self) {
        if self.spent.values().any(|&spent| spent > MAX_SPENT) {
            self.spent.values_mut().for_each(|spent| *spent /= 2);
        }
        if self.spent.len() > MAX_USERS {
            self.spent.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: User = Some(0);
    const OTHER: User = Some(1000);

    #[test]
    fn users_share_by_time() {
        let now = Instant::now();
        let mut queue = Queue::new(now);
        for pid in 1..=50 {
            queue.add(pid, pid.into(), OTHER, false, (), now);
        }
        let first = queue.take(now, |_, _| true).unwrap();
        assert_eq!(first.pid, 50, "the newest first");
        queue.put_back(first, Outcome::NoIoc, Duration::from_secs(1), now);
        queue.add(60, 1, ROOT, false, (), now);
        // another user's is next, though it is older and 49 wait
        let other = queue.take(now, |_, _| true).unwrap();
        assert_eq!(other.pid, 60);
        // also while one is being inspected
        queue.add(61, 2, Some(7), false, (), now);
        queue.put_back(other, Outcome::NoIoc, Duration::from_secs(5), now);
        let _busy = queue.take(now, |_, _| true).unwrap();
        assert_eq!(queue.take(now, |_, _| true).unwrap().user, OTHER);
    }

    /// Each inspection takes so long that there is not the time for all that are due.
    #[test]
    fn iocs_that_load_leave_time_for_one_that_was_never_inspected() {
        let (begin, cost) = (Instant::now(), IOC_LOADING_PAUSE);
        let mut queue = Queue::new(begin);
        for pid in 0..25 {
            queue.add(pid, pid.into(), OTHER, false, (), begin);
        }
        let mut now = begin;
        for inspected in 0..25 {
            let entry = queue.take(now, |_, _| true).unwrap();
            assert_eq!(entry.pid, 24 - inspected, "the newest first, each once");
            now += cost;
            queue.put_back(entry, Outcome::Ioc { is_loaded: false }, cost, now);
        }
        assert_eq!(queue.take(now, |_, _| true).unwrap().pid, 24, "now the one that waits for longest");
    }

    #[test]
    fn one_that_does_not_answer_is_left_alone_for_longer_and_longer() {
        let start = Instant::now();
        let mut queue = Queue::new(start);
        queue.add(1, 1, OTHER, false, (), start);
        queue.add(2, 2, OTHER, false, (), start);
        let mut now = start;
        let mut pauses = Vec::new();
        let other = queue.take(now, |_, _| true).unwrap();
        queue.put_back(other, Outcome::NoIoc, Duration::ZERO, now);
        for _ in 0..12 {
            let entry = queue.take(now, |_, _| true).filter(|entry| entry.pid == 1);
            let Some(entry) = entry else { panic!("not due at {now:?}") };
            queue.put_back(entry, Outcome::Unanswered, Duration::ZERO, now);
            let due = queue.waiting[&1].due;
            pauses.push((due - now).as_secs());
            now = due;
            queue.waiting.get_mut(&2).unwrap().due = now + SECOND;
        }
        assert_eq!(pauses[..5], [1, 2, 4, 8, 16]);
        assert_eq!(pauses.last(), Some(&300));
        assert!(queue.take(now, |_, _| false).is_none(), "too many of that user's do not answer");
        assert!(queue.take(now, |_, _| true).is_some());
    }

    #[test]
    fn new_processes_are_inspected_soon_and_again() {
        let start = Instant::now();
        let mut queue = Queue::new(start);
        queue.add(1, 1, OTHER, true, (), start);
        assert!(queue.take(start, |_, _| true).is_none());
        let mut now;
        let mut times = Vec::new();
        for _ in 0..6 {
            now = queue.next().unwrap();
            times.push((now - start).as_millis());
            let entry = queue.take(now, |_, _| true).unwrap();
            queue.put_back(entry, Outcome::NoIoc, Duration::ZERO, now);
        }
        assert_eq!(times, [20, 60, 140, 300, 620, 1260]);
        queue.remove(1);
        assert!(queue.next().is_none());
    }

    /// A process that was idle for long may become an IOC at any moment.
    #[test]
    fn an_idle_process_is_due_each_second() {
        let start = Instant::now();
        let mut queue = Queue::new(start);
        queue.add(1, 1, OTHER, false, (), start);
        let mut now = start + Duration::from_secs(3600);
        for _ in 0..10 {
            let entry = queue.take(now, |_, _| true).unwrap();
            queue.skip(entry, now);
            let due = queue.next().unwrap();
            assert!(due > now && due <= now + 2 * SECOND);
            now = due;
        }
    }

    /// Thirty IOCs that have run for long cost two inspections a second, and a change of one is seen at once.
    #[test]
    fn a_settled_ioc_is_left_alone_until_it_changes() {
        let start = Instant::now();
        let mut queue = Queue::new(start);
        queue.add(1, 1, OTHER, false, "", start);
        let mut now = start;
        let mut pauses = Vec::new();
        let entry = queue.take(now, |_, _| true).unwrap();
        queue.put_back(entry, Outcome::Ioc { is_loaded: true }, Duration::ZERO, now);
        while pauses.last() != Some(&LONGEST_PAUSE) {
            let due = queue.next().unwrap();
            pauses.push(due - now);
            now = due;
            let entry = queue.take(now, |_, _| true).unwrap();
            queue.put_back(entry, Outcome::Settled, Duration::ZERO, now);
            assert!(pauses.len() < 100, "{pauses:?}");
        }
        let short = pauses.iter().filter(|pause| **pause == IOC_PAUSE).sum::<Duration>();
        assert!((SETTLING..SETTLING + 2 * SECOND).contains(&short), "{pauses:?}");
        // the look each second
        now += SECOND;
        assert_eq!(queue.wake(now, |_| Glance::Same), (vec![], vec![]));
        assert!(queue.take(now, |_, _| true).is_none());
        assert_eq!(queue.wake(now, |_| Glance::Changed).0, [1]);
        let entry = queue.take(now, |_, _| true).unwrap();
        queue.put_back(entry, Outcome::Ioc { is_loaded: true }, Duration::ZERO, now);
        assert!(queue.next().unwrap() <= now + 2 * SECOND, "what has changed may change again");
    }

    #[test]
    fn a_watched_process_waits_for_a_change_and_goes_when_it_ends() {
        let now = Instant::now();
        let mut queue = Queue::new(now);
        queue.add(1, 1, OTHER, false, "known", now);
        // a new one may become an IOC soon, so it is inspected anyway
        let entry = queue.take(now, |_, _| true).unwrap();
        queue.watch(entry, now);
        assert!(queue.next().unwrap() <= now + NEW_PAUSE);
        let later = now + 10 * SECOND;
        let entry = queue.take(later, |_, _| true).unwrap();
        queue.watch(entry, later);
        assert!(queue.take(later + 60 * SECOND, |_, _| true).is_none());
        assert!(queue.has(1) && queue.has_finished_start());
        queue.wake(later, |_| Glance::Changed);
        let entry = queue.take(later, |_, _| true).unwrap();
        queue.watch(entry, later);
        assert_eq!(queue.wake(later, |_| Glance::Ended), (vec![], vec!["known"]));
        assert!(!queue.has(1) && queue.next().is_none());
    }

    #[test]
    fn a_machine_that_compiles_is_not_followed_to_the_last_process() {
        let now = Instant::now();
        let mut queue = Queue::new(now);
        for pid in 0..1000 {
            queue.add(pid, pid.into(), OTHER, false, (), now);
        }
        let mut inspections = 0;
        while let Some(entry) = queue.take(now, |_, _| true) {
            queue.put_back(entry, Outcome::NoIoc, Duration::ZERO, now);
            inspections += 1;
        }
        assert_eq!(inspections, BURST as usize);
        let entry = queue.take(now + SECOND, |_, _| true).unwrap();
        assert!(entry.pid < 1000 - BURST as u32, "the rest waits");
    }

    #[test]
    fn one_that_is_removed_during_its_inspection_is_returned() {
        let now = Instant::now();
        let mut queue = Queue::new(now);
        queue.add(1, 1, OTHER, false, "known", now);
        let entry = queue.take(now, |_, _| true).unwrap();
        assert!(queue.has(1) && !queue.has_finished_start());
        queue.retain(|_| false);
        assert_eq!(
            queue.put_back(entry, Outcome::Ioc { is_loaded: true }, Duration::ZERO, now),
            Some("known")
        );
        assert!(!queue.has(1) && queue.has_finished_start());
    }
}
