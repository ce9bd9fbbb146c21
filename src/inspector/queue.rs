//! Which process is looked at next.
//!
//! A machine's users share the lookers by time: who has cost the least so far is next, and of a user's processes the
//! one that began last; so a user with a thousand processes that look like IOCs holds up their own alone. Of a user whose processes did
//! not answer one is looked at at a time. A process that has just begun is looked at after 20, 40, 80 ms and
//! so on, since a program maps its libraries and an IOC loads its database some time after; one that is no IOC only when its
//! size has changed; one that does not answer after ever longer pauses.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

/// A user; `None` where that is not known.
pub type User = Option<u32>;

/// Pauses between looks at a process that has just begun: the first, and doubled up to this.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const YOUNG_PAUSE: Duration = Duration::from_millis(640);
/// Python may import for long before it loads EPICS Base: so long a process that changes is looked at each second.
const STARTING: Duration = Duration::from_secs(120);
/// Then after 1, 2, 4 ... s as long as it does nothing but change, at most this long.
const SECOND: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(16);
/// The same for one that did not answer.
const UNANSWERED_PAUSE: Duration = Duration::from_secs(300);
/// An IOC is looked at so often: until its database is loaded, while its records come, and later.
const IOC_YOUNG: Duration = Duration::from_millis(100);
const IOC_OLD: Duration = Duration::from_secs(1);
/// So long its records may come.
const IOC_STARTING: Duration = Duration::from_secs(30);
/// Looks at processes that are no IOCs: so many a second, of which so many may be at once. Machines that
/// compile start thousands of processes a second.
const LOOKS_A_SECOND: f64 = 100.0;
const LOOKS_AT_ONCE: f64 = 200.0;

/// What came of a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is no IOC, as far as can be told.
    Passed,
    /// It is one that is followed. `settled`: its database is loaded.
    Ioc {
        /// Has it loaded its record database?
        settled: bool,
    },
    /// It did not answer, or not within what a look may cost.
    Unanswered,
}

/// A process, and what its look needs to know of it.
#[derive(Debug)]
pub struct Entry<T> {
    /// Process id.
    pub pid: u32,
    /// When it began, in the kernel's count; the later, the newer.
    pub start: u64,
    /// Whose it is.
    pub user: User,
    /// What is kept from look to look.
    pub kept: T,
    seen: Instant,
    /// When it was looked at last: the begin of that.
    looked: Option<Instant>,
    due: Instant,
    pause: Duration,
    ioc_since: Option<Instant>,
    unanswered: bool,
}

/// All processes.
#[derive(Debug)]
pub struct Queue<T> {
    waiting: HashMap<u32, Entry<T>>,
    /// Looked at now: process and user.
    busy: HashMap<u32, User>,
    /// Of those, which are gone or not wanted any more.
    gone: HashSet<u32>,
    /// Those that were there at first and have not been looked at; `None` once nobody waits for them.
    first: Option<HashSet<u32>>,
    /// What each user has cost so far.
    spent: HashMap<User, Duration>,
    looks: f64,
    looks_at: Instant,
    began: Instant,
}

impl<T> Queue<T> {
    /// Without any.
    pub fn new(now: Instant) -> Queue<T> {
        Queue {
            waiting: HashMap::new(),
            busy: HashMap::new(),
            gone: HashSet::new(),
            first: Some(HashSet::new()),
            spent: HashMap::new(),
            looks: LOOKS_AT_ONCE,
            looks_at: now,
            began: now,
        }
    }

    /// Is it known?
    pub fn has(&self, pid: u32) -> bool {
        self.waiting.contains_key(&pid) || self.busy.contains_key(&pid)
    }

    /// Have those been looked at that were there at first?
    pub fn is_through(&self) -> bool {
        self.first.as_ref().is_none_or(HashSet::is_empty)
    }

    /// Who comes from now on was not there at first.
    pub fn has_begun(&mut self) {
        self.first = None;
    }

    /// A process has come. `young`: it has just begun, and is looked at soon rather than now.
    pub fn add(&mut self, pid: u32, start: u64, user: User, young: bool, kept: T, now: Instant) {
        let due = if young { now + FIRST_PAUSE } else { now };
        let pause = if young { FIRST_PAUSE } else { Duration::ZERO };
        let entry = Entry {
            pid,
            start,
            user,
            kept,
            seen: now,
            looked: None,
            due,
            pause,
            ioc_since: None,
            unanswered: false,
        };
        if let Some(first) = self.first.as_mut().filter(|_| !young) {
            first.insert(pid);
        }
        self.waiting.insert(pid, entry);
    }

    /// Only these live.
    pub fn retain(&mut self, lives: impl Fn(u32) -> bool) {
        self.waiting.retain(|&pid, _| lives(pid));
        if let Some(first) = &mut self.first {
            first.retain(|&pid| lives(pid));
        }
        self.gone.extend(self.busy.keys().copied().filter(|&pid| !lives(pid)));
    }

    /// A process is gone.
    pub fn remove(&mut self, pid: u32) {
        self.waiting.remove(&pid);
        self.is_no_first(pid);
        if self.busy.contains_key(&pid) {
            self.gone.insert(pid);
        }
    }

    /// One that waits, to be looked at now.
    pub fn hurry(&mut self, pid: u32, now: Instant) -> Option<&mut T> {
        let entry = self.waiting.get_mut(&pid)?;
        entry.due = now;
        Some(&mut entry.kept)
    }

    /// When the last look at a process began that has ended.
    pub fn looked(&self, pid: u32) -> Option<Instant> {
        self.waiting.get(&pid)?.looked
    }

    /// The next process to look at. `may_ask`: may one of that user be asked? (True: an IOC that has answered so far.)
    pub fn take(&mut self, now: Instant, may_ask: impl Fn(User, bool) -> bool) -> Option<Entry<T>> {
        let more = now.saturating_duration_since(self.looks_at).as_secs_f64() * LOOKS_A_SECOND;
        self.looks = (self.looks + more).min(LOOKS_AT_ONCE);
        self.looks_at = now;
        let due = self.waiting.values().filter(|entry| entry.due <= now);
        let due = due.filter(|entry| self.looks >= 1.0 || entry.ioc_since.is_some());
        // a user's doubtful processes one at a time
        let due = due.filter(|entry| {
            let good = entry.ioc_since.is_some() && !entry.unanswered;
            let alone = || !self.busy.values().any(|&busy| busy == entry.user);
            may_ask(entry.user, good) && (!entry.unanswered || alone())
        });
        // users by what they have cost, IOCs that are followed first, then what was never looked at, the newest first
        let next = due.min_by_key(|entry| {
            let busy = self.busy.values().any(|&busy| busy == entry.user);
            (busy, self.spent(entry.user), entry.ioc_since.is_none(), entry.looked, Reverse(entry.start))
        })?;
        let entry = self.waiting.remove(&next.pid.clone())?;
        self.looks -= if entry.ioc_since.is_none() { 1.0 } else { 0.0 };
        self.busy.insert(entry.pid, entry.user);
        Some(entry)
    }

    /// When the next one is due.
    pub fn next(&self) -> Option<Instant> {
        self.waiting.values().map(|entry| entry.due).min()
    }

    /// A process has been looked at, for so long. `None`: it was given back, since it is gone.
    pub fn done(&mut self, mut entry: Entry<T>, outcome: Outcome, took: Duration, now: Instant) -> Option<T> {
        self.busy.remove(&entry.pid);
        self.is_no_first(entry.pid);
        self.spend(entry.user, took);
        self.forget_costs();
        if self.gone.remove(&entry.pid) {
            return Some(entry.kept);
        }
        // what it became meanwhile was not seen
        entry.looked = now.checked_sub(took);
        let age = now.saturating_duration_since(entry.seen);
        entry.unanswered = outcome == Outcome::Unanswered;
        entry.pause = match outcome {
            Outcome::Ioc { settled } => {
                let since = *entry.ioc_since.get_or_insert(now);
                let known_for = now.saturating_duration_since(since);
                match (settled, known_for < IOC_STARTING) {
                    (false, _) if age < STARTING => IOC_YOUNG,
                    (_, true) => SECOND,
                    _ => IOC_OLD,
                }
            }
            Outcome::Unanswered => (entry.pause * 2).clamp(SECOND, UNANSWERED_PAUSE),
            Outcome::Passed if age < YOUNG_PAUSE * 2 => (entry.pause * 2).clamp(FIRST_PAUSE, YOUNG_PAUSE),
            Outcome::Passed if age < STARTING => SECOND,
            Outcome::Passed => (entry.pause * 2).clamp(SECOND, LONGEST_PAUSE),
        };
        entry.due = self.time_after(entry.pause, now);
        self.waiting.insert(entry.pid, entry);
        None
    }

    fn is_no_first(&mut self, pid: u32) {
        if let Some(first) = &mut self.first {
            first.remove(&pid);
        }
    }

    /// The end of a pause. Those of seconds end together, so that a machine of many processes is woken once a second.
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

    /// What a user has cost.
    pub fn spent(&self, user: User) -> Duration {
        self.spent.get(&user).copied().unwrap_or_default()
    }

    /// A user has cost so much more.
    pub fn spend(&mut self, user: User, time: Duration) {
        *self.spent.entry(user).or_default() += time;
    }

    /// All that are known.
    pub fn pids(&self) -> HashSet<u32> {
        self.waiting.keys().chain(self.busy.keys()).copied().collect()
    }

    /// What was long ago counts for less, and users without processes are forgotten.
    fn forget_costs(&mut self) {
        const MUCH: Duration = Duration::from_secs(60);
        if self.spent.values().any(|&spent| spent > MUCH) {
            self.spent.values_mut().for_each(|spent| *spent /= 2);
        }
        if self.spent.len() > 1000 {
            self.spent.clear();
        }
    }

    /// The process has changed nothing that would make a look worth while: that is seen again in a second.
    pub fn not_now(&mut self, mut entry: Entry<T>, now: Instant) -> Option<T> {
        self.looks = (self.looks + 1.0).min(LOOKS_AT_ONCE);
        if now.saturating_duration_since(entry.seen) < YOUNG_PAUSE * 2 {
            return self.done(entry, Outcome::Passed, Duration::ZERO, now);
        }
        self.busy.remove(&entry.pid);
        self.is_no_first(entry.pid);
        if self.gone.remove(&entry.pid) {
            return Some(entry.kept);
        }
        entry.looked = Some(now);
        entry.due = self.time_after(SECOND, now);
        self.waiting.insert(entry.pid, entry);
        None
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
        queue.done(first, Outcome::Passed, Duration::from_secs(1), now);
        queue.add(60, 1, ROOT, false, (), now);
        // another's is next, though it is older and 49 wait
        let other = queue.take(now, |_, _| true).unwrap();
        assert_eq!(other.pid, 60);
        // also beside one that is being looked at
        queue.add(61, 2, Some(7), false, (), now);
        queue.done(other, Outcome::Passed, Duration::from_secs(5), now);
        let _busy = queue.take(now, |_, _| true).unwrap();
        assert_eq!(queue.take(now, |_, _| true).unwrap().user, OTHER);
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
        queue.done(other, Outcome::Passed, Duration::ZERO, now);
        for _ in 0..12 {
            let entry = queue.take(now, |_, _| true).filter(|entry| entry.pid == 1);
            let Some(entry) = entry else { panic!("not due at {now:?}") };
            queue.done(entry, Outcome::Unanswered, Duration::ZERO, now);
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
    fn the_young_are_looked_at_soon_and_again() {
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
            queue.done(entry, Outcome::Passed, Duration::ZERO, now);
        }
        assert_eq!(times, [20, 60, 140, 300, 620, 1260]);
        queue.remove(1);
        assert!(queue.next().is_none());
    }

    /// One that was idle for long may become an IOC at any moment.
    #[test]
    fn an_idle_one_is_seen_again_each_second() {
        let start = Instant::now();
        let mut queue = Queue::new(start);
        queue.add(1, 1, OTHER, false, (), start);
        let mut now = start + Duration::from_secs(3600);
        for _ in 0..10 {
            let entry = queue.take(now, |_, _| true).unwrap();
            queue.not_now(entry, now);
            let due = queue.next().unwrap();
            assert!(due > now && due <= now + 2 * SECOND);
            now = due;
        }
    }

    #[test]
    fn a_machine_that_compiles_is_not_followed_to_the_last_process() {
        let now = Instant::now();
        let mut queue = Queue::new(now);
        for pid in 0..1000 {
            queue.add(pid, pid.into(), OTHER, false, (), now);
        }
        let mut looks = 0;
        while let Some(entry) = queue.take(now, |_, _| true) {
            queue.done(entry, Outcome::Passed, Duration::ZERO, now);
            looks += 1;
        }
        assert_eq!(looks, LOOKS_AT_ONCE as usize);
        let entry = queue.take(now + SECOND, |_, _| true).unwrap();
        assert!(entry.pid < 1000 - LOOKS_AT_ONCE as u32, "the rest waits");
    }

    #[test]
    fn one_that_goes_while_it_is_looked_at_is_given_back() {
        let now = Instant::now();
        let mut queue = Queue::new(now);
        queue.add(1, 1, OTHER, false, "kept", now);
        let entry = queue.take(now, |_, _| true).unwrap();
        assert!(queue.has(1) && !queue.is_through());
        queue.retain(|_| false);
        assert_eq!(queue.done(entry, Outcome::Ioc { settled: true }, Duration::ZERO, now), Some("kept"));
        assert!(!queue.has(1) && queue.is_through());
    }
}
