//! The threads that hits come from, and the record that each one processes.
//!
//! A thread is defined at its first hit. The last record that began to process on it is remembered, so that a record
//! that does not complete can be read: PACT or DISA may say why.

use iocrec_log::event::{Fact, Thread, ThreadId};

use crate::ioc::threads;
use crate::linux::clock::Clock;
use crate::recorder::env::Env;
use crate::recorder::registry::hash::AddressMap;
use crate::recorder::registry::owner::Owner;

/// A defined thread.
#[derive(Clone, Copy, Debug)]
pub struct KnownThread {
    /// Its id.
    pub id: ThreadId,
    /// Its stack pointer at the first hit.
    stack: u64,
    /// Whether its puts come from outside although no IOC function shows it: a PVA server's thread, or one of Python
    /// code.
    pub serves: bool,
    /// Whether it processes records for their CP links, so that the log needs these links.
    pub follows_links: bool,
    /// The last record that began to process and may not be done yet.
    begun: Option<Begun>,
    /// When it had ended; the greatest time while it lives.
    ended: u64,
}

/// Time for which hits of a thread that has ended may still come, nanoseconds.
const LATE: u64 = 1_000_000_000;

impl KnownThread {
    /// A stack pointer as in the log: relative to that of the first hit.
    pub fn relative(&self, sp: u64) -> i64 {
        sp.wrapping_sub(self.stack).cast_signed()
    }
}

/// A record that has begun to process.
#[derive(Clone, Copy, Debug)]
struct Begun {
    address: u64,
    sp: u64,
    time: u64,
}

/// The records that a thread processes, the outermost first: each was begun within the one before it, and neither has
/// completed nor returned.
#[derive(Debug, Default)]
struct UnderWay(Vec<Begun>);

/// Most records of a thread that are remembered; links rarely go deeper, and those within count for the last one.
const DEEPEST: usize = 8;

impl UnderWay {
    fn step(&mut self, place: HitPlace, step: Step) {
        // called from the same depth or above: it has returned
        while self.0.last().is_some_and(|begun| place.sp >= begun.sp) {
            self.0.pop();
        }
        match step {
            Step::Process(_) if self.0.len() < DEEPEST => self.0.extend(begun(place, step)),
            Step::Complete(address) => {
                // what it sets off now is no part of its own processing
                self.0.pop_if(|begun| begun.address == address);
            }
            _ => {}
        }
    }
}

/// The effect of a hit on the record that its thread processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The record at an address begins to process.
    Process(u64),
    /// The record at an address is done.
    Complete(u64),
    /// Something else.
    Other,
}

/// Place and time of a hit.
#[derive(Clone, Copy, Debug)]
pub struct HitPlace {
    /// Its number in the kernel.
    pub tid: u32,
    /// Its stack pointer.
    pub sp: u64,
    /// Monotonic time, nanoseconds.
    pub time: u64,
}

/// A thread that has just had its first hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewThread {
    /// Its id.
    pub id: ThreadId,
    /// Its number in the kernel.
    pub tid: u32,
    /// Time of the hit.
    pub time: u64,
    /// Whether it may serve a Channel Access client.
    pub may_serve_ca: bool,
}

/// A record that began to process and has not completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unfinished {
    /// Its address.
    pub address: u64,
    /// Whether the call that processed it has returned.
    pub returned: bool,
}

/// The threads of one IOC.
#[derive(Default)]
pub struct Threads {
    known: AddressMap<u32, KnownThread>,
    /// Records, by address, whose processing returned without having completed, and the time when it first began.
    returned: AddressMap<u64, u64>,
    under_way: AddressMap<u32, UnderWay>,
}

impl Threads {
    /// Notes a hit on a thread; `None` if the thread is not defined yet.
    pub fn step(&mut self, place: HitPlace, step: Step) -> Option<KnownThread> {
        let known = self.known.get_mut(&place.tid).filter(|known| place.time <= known.ended)?;
        self.under_way.entry(place.tid).or_default().step(place, step);
        if let Some(begun) = known.begun {
            let done = step == Step::Complete(begun.address);
            // called from the same depth or above: the record's processing has returned
            let back = place.sp >= begun.sp;
            if back && !done {
                // the first time: a record that is processed ever again would never be due
                self.returned.entry(begun.address).or_insert(begun.time);
            }
            if back || step != Step::Other {
                known.begun = None;
            }
        }
        known.begun = begun(place, step).or(known.begun);
        Some(*known)
    }

    /// Defines a thread at its first hit.
    pub fn define(
        &mut self,
        env: &mut Env<'_>,
        owner: Owner<'_>,
        place: HitPlace,
        step: Step,
    ) -> (KnownThread, NewThread) {
        let HitPlace { tid, sp, time } = place;
        let id = env.run.ids.thread();
        let name = name(env, owner, tid);
        let known = KnownThread {
            id,
            stack: sp,
            // one without a name has ended: it may have been QSRV1's for a circuit
            serves: matches!(name.as_str(), "" | "PVXTCP" | "TCP-rx") || name.starts_with("python"),
            follows_links: matches!(name.as_str(), "dbCaLink" | "CAC-event" | "scanOnce"),
            begun: begun(place, step),
            ended: u64::MAX,
        };
        self.known.insert(tid, known);
        // not what an ended thread of that number has left
        let mut under_way = UnderWay::default();
        under_way.step(place, step);
        self.under_way.insert(tid, under_way);
        // Base 3.14 gives the kernel no names
        let may_serve_ca = owner.process.abi.is_3_14() || name == "CAS-client";
        env.push(time, Fact::Thread(Thread { id, ioc: owner.id, tid, name, stack: sp }));
        (known, NewThread { id, tid, time, may_serve_ca })
    }

    /// Notes that a record has completed, perhaps on another thread than it began on.
    pub fn completed(&mut self, tid: u32, address: u64) {
        if !self.returned.is_empty() {
            self.returned.remove(&address);
        }
        let is_at = |thread: &KnownThread| thread.begun.is_some_and(|begun| begun.address == address);
        if self.known.get(&tid).is_some_and(is_at) {
            return;
        }
        for (tid, thread) in self.known.iter_mut().filter(|(_, thread)| is_at(thread)) {
            thread.begun = None;
            // it returned there before
            if let Some(under_way) = self.under_way.get_mut(tid) {
                under_way.0.pop_if(|begun| begun.address == address);
            }
        }
    }

    /// The id of a defined thread.
    pub fn id(&self, tid: u32) -> Option<ThreadId> {
        self.known.get(&tid).map(|thread| thread.id)
    }

    /// The address of the record that a thread has begun to process and not completed, as far as is known.
    pub fn processes(&self, tid: u32) -> Option<u64> {
        self.under_way.get(&tid)?.0.last().map(|begun| begun.address)
    }

    /// The same of a thread whose stack pointer is known, or 0: what it began below that has returned.
    pub fn processes_at(&self, tid: u32, sp: u64) -> Option<u64> {
        let begun = self.under_way.get(&tid)?.0.iter().rfind(|begun| sp <= begun.sp)?;
        Some(begun.address)
    }

    /// The innermost record that a thread processes since before a time, as far as is known: its address, and when that
    /// began.
    pub fn processes_since(&self, tid: u32, before: u64) -> Option<(u64, u64)> {
        let begun = self.under_way.get(&tid)?.0.iter().rfind(|begun| begun.time < before)?;
        Some((begun.address, begun.time))
    }

    /// Whether the puts of a thread come from outside.
    pub fn serves(&self, tid: u32) -> bool {
        self.known.get(&tid).is_some_and(|thread| thread.serves)
    }

    /// Forgets threads that have ended: the kernel reuses their numbers. Their last hits may not have been taken yet.
    pub fn retain(&mut self, clock: &dyn Clock, mut is_alive: impl FnMut(u32) -> bool) {
        self.known.retain(|&tid, known| {
            let is_alive = known.ended == u64::MAX && is_alive(tid);
            // after the look: it may have ended just before that, however long the recorder had waited for a processor
            let now = clock.monotonic();
            if !is_alive {
                known.ended = known.ended.min(now);
            }
            now <= known.ended.saturating_add(LATE)
        });
        self.under_way.retain(|tid, _| self.known.contains_key(tid));
    }

    /// Removes and returns the records that began to process before a time and have not completed.
    pub fn take_unfinished(&mut self, before: u64) -> Vec<Unfinished> {
        let mut unfinished: Vec<Unfinished> = Vec::new();
        self.returned.retain(|&address, time| {
            let due = *time < before;
            if due {
                unfinished.push(Unfinished { address, returned: true });
            }
            !due
        });
        let under_way =
            self.known.values_mut().filter_map(|known| known.begun.take_if(|begun| begun.time < before));
        unfinished.extend(under_way.map(|begun| Unfinished { address: begun.address, returned: false }));
        unfinished
    }
}

fn begun(place: HitPlace, step: Step) -> Option<Begun> {
    let HitPlace { sp, time, .. } = place;
    match step {
        Step::Process(address) => Some(Begun { address, sp, time }),
        Step::Complete(_) | Step::Other => None,
    }
}

/// A thread's name, which Base 3.14 does not give to the kernel.
fn name(env: &Env<'_>, owner: Owner<'_>, tid: u32) -> String {
    let process = owner.process;
    let own = process.abi.is_3_14().then(|| {
        let all = env.procfs().threads(process.pid).into_iter().collect();
        threads::names(process, &all).remove(&tid)
    });
    own.flatten().unwrap_or_else(|| env.procfs().thread_name(process.pid, tid))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorder::testing::{Bench, TestIoc, PID};

    /// A thread crashes above the frame of a record: that has returned, as asynchronous ones do before they complete.
    #[test]
    fn a_record_that_has_returned_is_not_processed() {
        let (mut bench, ioc) = (Bench::new(), TestIoc::new(PID));
        let mut threads = Threads::default();
        let owner = Owner { id: 1, process: &ioc.process };
        threads.define(&mut bench.env(), owner, HitPlace { tid: 7, sp: 900, time: 1 }, Step::Process(1));
        threads.step(HitPlace { tid: 7, sp: 800, time: 2 }, Step::Process(2));
        let at = |sp| threads.processes_at(7, sp);
        assert_eq!([at(700), at(850), at(950)], [Some(2), Some(1), None]);
        assert_eq!(at(0), Some(2), "it is not known where it stands");
    }

    /// A device's thread completes what a scan thread began, which then crashes anywhere.
    #[test]
    fn a_record_that_another_thread_completes_is_not_processed() {
        let (mut bench, ioc) = (Bench::new(), TestIoc::new(PID));
        let mut threads = Threads::default();
        let owner = Owner { id: 1, process: &ioc.process };
        let at = |tid, sp| HitPlace { tid, sp, time: 1 };
        threads.define(&mut bench.env(), owner, at(7, 900), Step::Process(1));
        threads.define(&mut bench.env(), owner, at(8, 900), Step::Process(2));
        assert_eq!([threads.processes_at(7, 700), threads.processes_at(8, 700)], [Some(1), Some(2)]);
        threads.completed(8, 1);
        assert_eq!([threads.processes_at(7, 700), threads.processes_at(8, 700)], [None, Some(2)]);
        assert_eq!([threads.processes(7), threads.processes(8)], [None, Some(2)]);
    }

    /// A thread has ended within a record whose end was not seen, and its number is given out again.
    #[test]
    fn a_thread_processes_nothing_of_one_before_it() {
        let (mut bench, ioc) = (Bench::new(), TestIoc::new(PID));
        let mut threads = Threads::default();
        let owner = Owner { id: 1, process: &ioc.process };
        threads.define(&mut bench.env(), owner, HitPlace { tid: 7, sp: 900, time: 1 }, Step::Process(1));
        bench.clock.monotonic.set(2);
        threads.retain(&bench.clock, |_| false);
        let later = HitPlace { tid: 7, sp: 800, time: 3 };
        assert!(threads.step(later, Step::Other).is_none(), "it is another one");
        threads.define(&mut bench.env(), owner, later, Step::Other);
        assert_eq!((threads.processes(7), threads.processes_at(7, 700)), (None, None));
    }

    #[test]
    fn records_under_way() {
        let mut under_way = UnderWay::default();
        let mut hit = |sp, step| {
            under_way.step(HitPlace { tid: 1, sp, time: sp }, step);
            under_way.0.iter().map(|begun| begun.address).collect::<Vec<_>>()
        };
        assert_eq!(hit(900, Step::Process(1)), [1]);
        assert_eq!(hit(800, Step::Process(2)), [1, 2], "its input link");
        assert_eq!(hit(780, Step::Complete(2)), [1]);
        assert_eq!(hit(850, Step::Other), [1], "a put within");
        assert_eq!(hit(800, Step::Process(3)), [1, 3]);
        assert_eq!(hit(800, Step::Process(4)), [1, 4], "3 has returned without completing");
        assert_eq!(hit(880, Step::Complete(1)), [0_u64; 0], "4 has returned, too");
        assert_eq!(hit(860, Step::Process(5)), [5], "a forward link is none of its own processing");
        assert_eq!(hit(900, Step::Process(1)), [1]);
        for deeper in 1..20 {
            hit(900 - deeper, Step::Process(deeper));
        }
        assert_eq!(hit(100, Step::Other).len(), DEEPEST);
        assert_eq!(hit(1000, Step::Other), [0_u64; 0]);
    }
}
