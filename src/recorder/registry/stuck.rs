//! The threads of an IOC that stand still though they should run.
//!
//! At each beat the scheduler's counts tell which threads have run since the last one. A thread that has not, for
//! [`LIMIT`], is looked at once ([`crate::ioc::standing`]); nothing more is read of it until it has run again. It is stuck
//! if it waits for a mutex, holds the lock of a record, has suspended itself, or has the name of a scan thread and its
//! period is over for [`LIMIT`]. Any other waits for work: it is idle.
//!
//! A process that is stopped as a whole is told as such, and its threads are not judged meanwhile.

use std::cell::OnceCell;
use std::collections::HashMap;

use iocrec_log::event::{Fact, Holder, Stuck, StuckEnd, Wait};

use crate::health::text::Counts;
use crate::health::threads::Threads as Watched;
use crate::ioc::standing::{Look, Mutex, Standing};
use crate::ioc::threads;
use crate::recorder::env::Env;
use crate::recorder::registry::hash::AddressMap;
use crate::recorder::registry::owner::Owner;
use crate::recorder::registry::queues::Queues;
use crate::recorder::registry::records::Records;
use crate::recorder::registry::scan_lists::ScanLists;
use crate::recorder::registry::spinning::Spinning;
use crate::recorder::registry::threads::Threads;

/// Time for which a thread must have stood still, nanoseconds. Devices often get a second to answer; after two, a scan of
/// .1 second has missed twenty turns.
const LIMIT: u64 = 2_000_000_000;
/// Two beats that are farther apart than this tell nothing of what the machine did between them, nanoseconds: it, or this
/// process, stood still itself.
const BEATS_APART: u64 = 2_500_000_000;
/// Threads looked at in one beat. A look takes some 0.1 ms, and threads that stand still go on doing so.
const LOOKS: usize = 8;
/// Most hangs of an IOC that are told at the same time.
const MOST: usize = 64;
/// Holders of its mutex that are told of one hang: one that many want may have another each second, for days. Of more none is
/// named, and it is told no more.
const MOST_HOLDERS: u8 = 16;

/// What is known of a thread since it ran for the last time.
#[derive(Debug)]
struct Seen {
    after: u64,
    since: u64,
    /// What the scheduler had counted then.
    counts: Option<Counts>,
    /// When the thread began: its number may be another one's by now.
    start: u64,
    looks: u8,
    /// How often it was told.
    told: u8,
    name: String,
    open: Option<(Stuck, Option<Mutex>)>,
}

/// See the module.
#[derive(Debug, Default)]
pub struct StuckThreads {
    seen: AddressMap<u32, Seen>,
    /// Time of the last beat.
    last: u64,
    stopped: Option<Stuck>,
    spinning: Spinning,
    /// Its queues.
    pub queues: Queues,
}

/// What else is known of the IOC.
pub struct Ioc<'a> {
    /// Its id and process.
    pub owner: Owner<'a>,
    /// Its threads, as the beat has just seen them.
    pub watched: &'a Watched,
    /// Its records.
    pub records: &'a Records,
    /// What its hits tell.
    pub threads: &'a Threads,
    /// Its scan lists.
    pub scan_lists: &'a ScanLists,
}

impl Ioc<'_> {
    /// The name of a thread; empty if unknown.
    pub fn thread_name(&self, env: &Env<'_>, tid: u32) -> String {
        let process = self.owner.process;
        let name = if process.abi.is_3_14() {
            let all = env.procfs().threads(process.pid).into_iter().collect();
            threads::names(process, &all).remove(&tid)
        } else {
            self.watched.get(tid).map(|thread| thread.name.clone())
        };
        name.unwrap_or_default()
    }

    /// The record that a thread has processed since before a time, by its hits. One that is asynchronous returns before it
    /// completes, and then its lock is not held any more.
    pub fn processes(&self, look: &Look<'_>, tid: u32, before: u64) -> Option<u64> {
        let (record, _) = self.threads.processes_since(tid, before)?;
        look.holds(tid, record).then_some(record)
    }

    /// A hang of which nothing is known but the thread.
    pub fn hang(&self, tid: u32, thread: String, (after, since): (u64, u64)) -> Stuck {
        Stuck {
            id: 0,
            ioc: self.owner.id,
            tid,
            thread,
            after,
            since,
            wait: Wait::Unknown,
            object: String::new(),
            call: None,
            record: None,
            is_lockset: false,
            holder: None,
        }
    }
}

impl StuckThreads {
    /// Judges the threads after a beat, and the queues as they were read.
    pub fn beat(&mut self, env: &mut Env<'_>, now: u64, ioc: &Ioc<'_>) {
        let last = std::mem::replace(&mut self.last, now);
        self.note_moves(env, now, last, ioc);
        let is_record = |address| ioc.records.known(address).is_some();
        let look = Look::at(ioc.owner.process, &is_record);
        let is_stopped = self.note_stop(env, now, last, &look);
        if !is_stopped {
            self.look_at_threads(env, now, ioc, &look);
        }
        self.spinning.beat(env, (last, now), ioc, &look);
        self.queues.beat(env, ioc, &look);
    }

    /// Notes which threads have run since the last beat.
    fn note_moves(&mut self, env: &mut Env<'_>, now: u64, last: u64, ioc: &Ioc<'_>) {
        let is_late = now.saturating_sub(last) > BEATS_APART;
        for thread in ioc.watched.iter().filter(|thread| thread.now.is_some()) {
            let known = self.seen.get_mut(&thread.tid);
            match known {
                // it may have run between beats at which nobody looked
                Some(seen) if seen.counts == thread.now => {
                    if is_late && seen.open.is_none() {
                        seen.since = now;
                    }
                    continue;
                }
                Some(seen) => end(env, now, last, seen, seen.start != thread.start),
                None => {}
            }
            let after = if thread.before.is_some() { last } else { 0 };
            let (counts, start, name) = (thread.now, thread.start, String::new());
            let seen = Seen { after, since: now, counts, start, looks: 0, told: 0, name, open: None };
            self.seen.insert(thread.tid, seen);
        }
        self.seen.retain(|&tid, seen| {
            let is_there = ioc.watched.get(tid).is_some();
            if !is_there {
                end(env, now, last, seen, true);
            }
            is_there
        });
    }

    /// Whether the whole process is stopped: notes the end of that.
    fn note_stop(&mut self, env: &mut Env<'_>, now: u64, last: u64, look: &Look<'_>) -> bool {
        let Some(stopped) = self.stopped.take() else { return false };
        if look.stopped(stopped.tid).is_some() {
            self.stopped = Some(stopped);
            return true;
        }
        let end = StuckEnd { id: stopped.id, ioc: stopped.ioc, after: last, has_ended: false };
        env.push(now, Fact::StuckEnd(end));
        // they had no chance to run
        for seen in self.seen.values_mut().filter(|seen| seen.open.is_none()) {
            (seen.since, seen.looks) = (now, 0);
        }
        true
    }

    fn look_at_threads(&mut self, env: &mut Env<'_>, now: u64, ioc: &Ioc<'_>, look: &Look<'_>) {
        let process = ioc.owner.process;
        let names = OnceCell::new();
        let mut left = LOOKS;
        let mut open = self.seen.values().filter(|seen| seen.open.is_some()).count();
        let mut stopped = None;
        for (&tid, seen) in &mut self.seen {
            let stood = now.saturating_sub(seen.since);
            if let Some((told, Some(mutex))) = &seen.open {
                // somebody else may have got the mutex meanwhile
                if left == 0 || !is_told_again(seen.told, told, || look.holder(mutex)) {
                    continue;
                }
            } else if seen.open.is_some() || left == 0 || stood < LIMIT || open >= MOST {
                continue;
            }
            if seen.looks == 0 {
                let name = ioc.watched.get(tid).map(|thread| thread.name.clone()).unwrap_or_default();
                seen.name = if process.abi.is_3_14() {
                    let names: &HashMap<u32, String> = names.get_or_init(|| {
                        let all = env.procfs().threads(process.pid).into_iter().collect();
                        threads::names(process, &all)
                    });
                    names.get(&tid).cloned().unwrap_or(name)
                } else {
                    name
                };
            }
            let is_overdue = period(&seen.name)
                .filter(|period| ioc.scan_lists.has_period(*period))
                .is_some_and(|period| stood > ((period * 1e9) as u64).saturating_add(LIMIT));
            let stage = if is_overdue { 2 } else { 1 };
            if seen.looks >= stage && seen.open.is_none() {
                continue;
            }
            left -= 1;
            if let Some(wait) = look.stopped(tid) {
                stopped = Some((tid, seen.after, seen.since, wait));
                break;
            }
            let Some(standing) = look.thread(tid) else { continue };
            seen.looks = stage;
            let is_stuck = match standing.wait {
                _ if seen.open.is_some() || standing.holds.is_some() || is_overdue => true,
                Wait::Mutex => true,
                // a program's main thread may rest like this
                Wait::Suspended => tid != process.pid,
                _ => false,
            };
            if is_stuck {
                let told = seen.open.as_ref().map(|(told, _)| told.id);
                let stuck = describe(env, ioc, look, tid, seen, standing.clone());
                // It has run meanwhile, perhaps before the look, which then is of another wait: the next beat shows that.
                let ran = ioc.watched.get(tid).is_none_or(|thread| !thread.stands_still());
                if ran || !is_overdue && !look.still_stands(tid, &standing) {
                    continue;
                }
                open += usize::from(told.is_none());
                let id = told.unwrap_or_else(|| env.run.ids.stuck());
                let stuck = Stuck { id, ..stuck };
                env.push(now, Fact::from(stuck.clone()));
                seen.told = seen.told.saturating_add(1);
                seen.open = Some((stuck, standing.mutex));
            }
        }
        if let Some((tid, after, since, wait)) = stopped {
            let id = env.run.ids.stuck();
            let stuck = Stuck { id, wait, ..ioc.hang(tid, String::new(), (after, since)) };
            env.push(now, Fact::from(stuck.clone()));
            self.stopped = Some(stuck);
        }
    }
}

/// Whether a hang that was told so often is told again, with the present holder of its mutex.
fn is_told_again(times: u8, told: &Stuck, holder: impl FnOnce() -> Option<u32>) -> bool {
    times <= MOST_HOLDERS && holder() != told.holder.as_ref().map(|holder| holder.tid)
}

/// Notes the end of a hang.
fn end(env: &mut Env<'_>, now: u64, last: u64, seen: &mut Seen, has_ended: bool) {
    if let Some((stuck, _)) = seen.open.take() {
        let end = StuckEnd { id: stuck.id, ioc: stuck.ioc, after: last, has_ended };
        env.push(now, Fact::StuckEnd(end));
    }
}

fn describe(
    env: &Env<'_>,
    ioc: &Ioc<'_>,
    look: &Look<'_>,
    tid: u32,
    seen: &Seen,
    standing: Standing,
) -> Stuck {
    let (wait, object) = look.object(&standing);
    let Standing { call, mutex, holds, .. } = standing;
    let mut stuck =
        Stuck { wait, object, call, ..ioc.hang(tid, seen.name.clone(), (seen.after, seen.since)) };
    let mut address = holds;
    if let Some(mutex) = mutex {
        address = mutex.record.or(holds);
        stuck.is_lockset = mutex.record.is_some();
        stuck.holder = mutex.holder.filter(|_| seen.told < MOST_HOLDERS).map(|tid| {
            let held = look.thread(tid);
            let is_certain = held.as_ref().is_some_and(|held| {
                held.holds.is_some() && look.still_stands(tid, held) && look.holder(&mutex) == Some(tid)
            });
            // a thread that runs has no stack to look at; its hits may tell
            let record = held.and_then(|held| held.holds).or_else(|| ioc.processes(look, tid, u64::MAX));
            stuck.is_lockset |= record.is_some_and(|record| look.is_lock_of(&mutex, record));
            let record = record.and_then(|record| ioc.records.id(record));
            Holder { tid, thread: ioc.thread_name(env, tid), record, is_certain }
        });
    }
    stuck.record = address.and_then(|address| ioc.records.id(address));
    stuck
}

/// The period of a scan thread by its name: `scan-0.1`, in Base 3.14 `scan0.1`; seconds.
fn period(name: &str) -> Option<f64> {
    let period = name.strip_prefix("scan")?;
    let digits = period.strip_prefix('-').unwrap_or(period);
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    // the standard library's parser takes 16 KiB
    let places = u32::try_from(part.len()).ok().filter(|places| *places <= 6)?;
    let scale = 10_u32.pow(places);
    let number = |text: &str| if text.is_empty() { Some(0) } else { text.parse::<u32>().ok() };
    let all = number(whole)?.checked_mul(scale)?.checked_add(number(part)?)?;
    let period = f64::from(all) / f64::from(scale);
    (period > 0.0 && period < 1e6).then_some(period)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ioc::standing::tests::world;
    use crate::ioc::IocProcess;
    use crate::recorder::registry::dying::Signal;
    use crate::recorder::registry::threads::{HitPlace, Step};
    use crate::recorder::testing::{Bench, TestIoc, PID};
    use iocrec_log::event::SignalFrom;
    use std::sync::{mpsc, Arc};

    /// The record that a thread processes, which runs: there is no stack to look at.
    fn processed(process: &Arc<IocProcess>, threads: &Threads, tid: u32) -> Option<u64> {
        let (watched, records, scan_lists) = (Watched::default(), Records::default(), ScanLists::default());
        let owner = Owner { id: 1, process };
        let ioc = Ioc { owner, watched: &watched, records: &records, threads, scan_lists: &scan_lists };
        ioc.processes(&Look::at(process, &|_| false), tid, u64::MAX)
    }

    /// An asynchronous record has begun on a thread, and has returned; it is not to blame for what the thread does since.
    #[test]
    fn a_record_is_processed_while_its_lock_is_held() {
        let (mut bench, mut world) = (Bench::new(), world());
        let mut threads = Threads::default();
        let tid = 4_000_001;
        let place = HitPlace { tid, sp: 900, time: 5 };
        let process = Arc::new(world.process.clone());
        let owner = Owner { id: 1, process: &process };
        threads.define(&mut bench.env(), owner, place, Step::Process(world.record));
        assert_eq!(processed(&process, &threads, tid), None, "nobody has its lock");
        world.hold(tid + 1);
        assert_eq!(processed(&process, &threads, tid), None, "another thread has");
        world.hold(tid);
        assert_eq!(processed(&process, &threads, tid), Some(world.record));
        assert_eq!(processed(&process, &threads, tid + 1), None, "it has begun nothing");
    }

    /// For a while the IOC's memory could not be read, so nobody looked. Meanwhile the thread ran, and stood still anew.
    #[test]
    fn a_thread_that_ran_while_nobody_looked() {
        let ((told, tid), (ask, asked)) = (mpsc::channel(), mpsc::channel::<mpsc::Sender<()>>());
        let work = move || {
            told.send(nix::unistd::gettid().as_raw().unsigned_abs()).unwrap();
            asked.iter().for_each(|answer| answer.send(()).unwrap());
        };
        let thread = std::thread::spawn(work);
        let tid = tid.recv().unwrap();
        let (mut bench, world) = (Bench::new(), world());
        let process = Arc::new(world.process.clone());
        let (records, threads, scan_lists) = (Records::default(), Threads::default(), ScanLists::default());
        let (mut watched, mut stuck, mut now) = (Watched::default(), StuckThreads::default(), 0);
        let mut look = |bench: &mut Bench, tell: bool| {
            let last = now;
            loop {
                now += 1_000_000_000;
                let stat = std::fs::read_to_string(format!("/proc/self/task/{tid}/stat")).unwrap();
                watched.beat(std::process::id(), now, None, usize::MAX);
                let is_still = watched.get(tid).is_some_and(|thread| thread.still_since.is_some());
                if is_still && stat.contains(") S ") {
                    break;
                }
                std::thread::yield_now();
            }
            let owner = Owner { id: 1, process: &process };
            let (watched, records) = (&watched, &records);
            let ioc = Ioc { owner, watched, records, threads: &threads, scan_lists: &scan_lists };
            stuck.note_moves(&mut bench.env(), now, last, &ioc);
            if tell {
                let hang = Stuck { id: 5, ..ioc.hang(tid, String::new(), (0, now)) };
                stuck.seen.get_mut(&tid).unwrap().open = Some((hang, None));
            }
        };
        look(&mut bench, true);
        look(&mut bench, false);
        assert!(bench.facts().is_empty(), "it has not run: {:?}", bench.facts());
        let (answer, answered) = mpsc::channel();
        ask.send(answer).unwrap();
        answered.recv().unwrap();
        look(&mut bench, false);
        let ended = |fact: &Fact| matches!(fact, Fact::StuckEnd(end) if end.id == 5 && !end.has_ended);
        assert!(bench.facts().iter().any(ended), "{:?}", bench.facts());
        drop(ask);
        thread.join().unwrap();
    }

    /// Within one beat a thread has ended, and a new one has got its number.
    #[test]
    fn a_thread_that_got_the_number_of_another() {
        let (mut bench, world) = (Bench::new(), world());
        let process = Arc::new(world.process.clone());
        let (records, threads, scan_lists) = (Records::default(), Threads::default(), ScanLists::default());
        let mut watched = Watched::default();
        watched.beat(std::process::id(), 1, None, usize::MAX);
        let tid = nix::unistd::gettid().as_raw().unsigned_abs();
        let start = watched.get(tid).unwrap().start;
        let (watched, owner) = (&watched, Owner { id: 1, process: &process });
        let ioc = Ioc { owner, watched, records: &records, threads: &threads, scan_lists: &scan_lists };
        let ended = |start: u64| {
            let open = Some((Stuck { id: 5, ..ioc.hang(tid, String::new(), (0, 1)) }, None));
            let (counts, name) = (None, String::new());
            let seen = Seen { after: 0, since: 1, counts, start, looks: 1, told: 1, name, open };
            let mut stuck = StuckThreads::default();
            stuck.seen.insert(tid, seen);
            stuck.note_moves(&mut bench.env(), 2, 1, &ioc);
            bench.sink.take().into_iter().find_map(|event| match event.fact {
                Fact::StuckEnd(end) => Some(end.has_ended),
                _ => None,
            })
        };
        assert_eq!([start, start - 1].map(ended), [Some(false), Some(true)]);
    }

    /// While a process dumps core its threads have moved, and some are gone.
    #[test]
    fn nothing_ends_in_a_process_that_dies() {
        let (mut bench, test) = (Bench::new(), TestIoc::new(PID));
        bench.trace(&test);
        let ends = |bench: &mut Bench| {
            bench.with(PID, |ioc, env| {
                let threads = Threads::default();
                let (watched, records, scan_lists) =
                    (Watched::default(), Records::default(), ScanLists::default());
                let owner = Owner { id: 1, process: &test.process };
                let (watched, records, scan_lists) = (&watched, &records, &scan_lists);
                let known = Ioc { owner, watched, records, threads: &threads, scan_lists };
                let open = Some((Stuck { id: 5, ..known.hang(7, String::new(), (0, 1)) }, None));
                let (counts, name) = (None, String::new());
                let seen = Seen { after: 0, since: 1, counts, start: 1, looks: 1, told: 1, name, open };
                ioc.stuck.seen.insert(7, seen);
                ioc.judge_threads(env, 2_000_000_000, None);
            });
            bench.sink.take().iter().filter(|event| matches!(event.fact, Fact::StuckEnd(_))).count()
        };
        assert_eq!(ends(&mut bench), 1, "its thread has ended");
        let killed = Signal {
            time: 1,
            number: 9,
            from: SignalFrom::Process,
            code: 0,
            own: false,
            or_kernel: false,
            pid: 12,
            program: String::new(),
            user: String::new(),
        };
        bench.with(PID, |ioc, _| ioc.dying.signal(killed, 0));
        assert_eq!(ends(&mut bench), 0, "it has ended as a whole");
    }

    /// A mutex that many threads want: its holder is another one at each look.
    #[test]
    fn of_many_holders_some_are_told() {
        let mut told = Stuck {
            id: 1,
            ioc: 1,
            tid: 7,
            thread: "scan-1".into(),
            after: 0,
            since: 1,
            wait: Wait::Mutex,
            object: String::new(),
            call: None,
            record: None,
            is_lockset: false,
            holder: None,
        };
        let (mut times, mut facts) = (1, 1);
        for look in 0..100_000 {
            let tid = look % 3;
            if is_told_again(times, &told, || Some(tid)) {
                (times, facts) = (times + 1, facts + 1);
                let thread = "CAS-client".to_string();
                told.holder = Some(Holder { tid, thread, record: None, is_certain: false });
            }
            assert!(!is_told_again(times, &told, || told.holder.as_ref().map(|holder| holder.tid)));
        }
        assert_eq!(facts, 17, "sixteen, and that there are more");
    }

    /// The last that was told may be gone for days.
    #[test]
    fn of_more_holders_none_is_named() {
        let (mut bench, mut world) = (Bench::new(), world());
        let tid = nix::unistd::gettid().as_raw().unsigned_abs();
        world.hold(tid);
        let process = Arc::new(world.process.clone());
        let (watched, records, scan_lists) = (Watched::default(), Records::default(), ScanLists::default());
        let (threads, owner) = (Threads::default(), Owner { id: 1, process: &process });
        let (watched, records, scan_lists) = (&watched, &records, &scan_lists);
        let ioc = Ioc { owner, watched, records, threads: &threads, scan_lists };
        let is_record = |_: u64| false;
        let look = Look::at(&process, &is_record);
        let holder = |told: u8| {
            let (counts, name) = (None, String::new());
            let seen = Seen { after: 0, since: 1, counts, start: 1, looks: 1, told, name, open: None };
            let stuck = describe(&bench.env(), &ioc, &look, 4_000_001, &seen, world.waiting());
            stuck.holder.map(|holder| holder.tid)
        };
        assert_eq!([1, MOST_HOLDERS - 1, MOST_HOLDERS].map(holder), [Some(tid), Some(tid), None]);
    }

    #[test]
    fn periods_of_names() {
        assert_eq!(period("scan-0.1"), Some(0.1));
        assert_eq!(period("scan10"), Some(10.0));
        for other in
            ["scanOnce", "scan", "scan-", "scan--1", "scan-inf", "scan-nan", "scan-0", "cbLow", "scan-1e9"]
        {
            assert_eq!(period(other), None, "{other}");
        }
    }
}
