//! The threads of an IOC that do not get done with a record, and use the processor meanwhile: they *spin*.
//!
//! Hits tell which record a thread processes, and since when. The scheduler's counts tell at each beat that it ran; a
//! thread's status tells how often it has waited. One that has not waited once for [`LIMIT`] while it processed the same
//! record, whose lock it holds, spins. It does so no more once the record is done, or the thread has waited: then it may
//! stand still instead.
//!
//! Without hits of processing nothing is told.

use iocrec_log::event::{Fact, Stuck, StuckEnd, Wait};

use crate::ioc::standing::Look;
use crate::recorder::env::Env;
use crate::recorder::registry::hash::AddressMap;
use crate::recorder::registry::stuck::Ioc;

/// Time for which a thread must have spun, nanoseconds; two beats that are some milliseconds early suffice. A record that
/// calculates for a second may be meant to.
const LIMIT: u64 = 1_900_000_000;
/// Least time that a thread has run in a beat, nanoseconds: a fifth, so that it may share a processor with others.
const LEAST: u64 = 200_000_000;
/// Most threads of an IOC that are followed.
const MOST: usize = 16;

/// A thread that may spin.
#[derive(Debug)]
struct Seen {
    /// Start of the thread, since its number may be another one's once it has ended.
    start: u64,
    /// How often it had waited when it was first seen like that.
    waits: u64,
    /// When that was.
    since: u64,
    /// What was told, and the address of the record.
    open: Option<(Stuck, u64)>,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Spinning {
    seen: AddressMap<u32, Seen>,
}

impl Spinning {
    /// Judges the threads after a beat. `last` and `now`: the times of the beat before, and of this one.
    pub fn beat(&mut self, env: &mut Env<'_>, (last, now): (u64, u64), ioc: &Ioc<'_>, look: &Look<'_>) {
        self.seen.retain(|&tid, seen| {
            let is_there = ioc.watched.get(tid).is_some_and(|thread| thread.start == seen.start);
            let record = ioc.threads.processes_since(tid, seen.since);
            let is_same = record.is_some_and(|(record, _)| {
                let told = seen.open.as_ref().map(|(_, told)| *told);
                told.is_none_or(|told| told == record)
            });
            let spins = is_there && is_same && look.waits(tid) == Some(seen.waits);
            if let Some((Stuck { id, ioc, .. }, _)) = seen.open.take_if(|_| !spins) {
                env.push(now, Fact::StuckEnd(StuckEnd { id, ioc, after: last, has_ended: !is_there }));
            }
            spins
        });
        for thread in ioc.watched.iter() {
            let tid = thread.tid;
            let counts = thread.now.zip(thread.before);
            let ran = counts.map_or(0, |(now, before)| now.run.saturating_sub(before.run));
            // one that gets no processor may go on as it was, but nothing is said of it
            if ran < LEAST {
                continue;
            }
            let is_full = self.seen.len() >= MOST;
            let Some(seen) = self.seen.get_mut(&tid) else {
                let processes = ioc.threads.processes(tid).is_some();
                if let Some(waits) = look.waits(tid).filter(|_| processes && !is_full) {
                    self.seen.insert(tid, Seen { start: thread.start, waits, since: now, open: None });
                }
                continue;
            };
            let under_way = ioc.threads.processes_since(tid, seen.since);
            let Some((address, began)) = under_way.filter(|_| seen.open.is_none()) else { continue };
            if now.saturating_sub(seen.since) < LIMIT || !look.holds(tid, address) {
                continue;
            }
            let hang = ioc.hang(tid, ioc.thread_name(env, tid), (began, seen.since));
            let (id, record) = (env.run.ids.stuck(), ioc.records.id(address));
            let stuck = Stuck { id, wait: Wait::Spins, record, ..hang };
            env.push(now, Fact::from(stuck.clone()));
            seen.open = Some((stuck, address));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::health::threads::Threads as Watched;
    use crate::ioc::standing::tests::world;
    use crate::recorder::registry::owner::Owner;
    use crate::recorder::registry::records::Records;
    use crate::recorder::registry::scan_lists::ScanLists;
    use crate::recorder::registry::threads::Threads;
    use crate::recorder::testing::Bench;
    use std::sync::Arc;

    /// Within one beat a thread has ended, and a new one has got its number.
    #[test]
    fn a_thread_that_got_the_number_of_another() {
        let (mut bench, world) = (Bench::new(), world());
        let process = Arc::new(world.process.clone());
        let (records, threads, scan_lists) = (Records::default(), Threads::default(), ScanLists::default());
        let mut watched = Watched::default();
        watched.beat(std::process::id(), 1, None, usize::MAX);
        let tid = nix::unistd::gettid().as_raw().unsigned_abs();
        let now = watched.get(tid).unwrap().start;
        let (watched, owner) = (&watched, Owner { id: 1, process: &process });
        let ioc = Ioc { owner, watched, records: &records, threads: &threads, scan_lists: &scan_lists };
        let ended = |start: u64| {
            let open = Some((Stuck { id: 5, ..ioc.hang(tid, String::new(), (0, 1)) }, 8));
            let mut spinning = Spinning::default();
            spinning.seen.insert(tid, Seen { start, waits: 0, since: 1, open });
            spinning.beat(&mut bench.env(), (1, 2), &ioc, &Look::at(&process, &|_| false));
            bench.sink.take().into_iter().find_map(|event| match event.fact {
                Fact::StuckEnd(end) => Some(end.has_ended),
                _ => None,
            })
        };
        assert_eq!([now, now - 1].map(ended), [Some(false), Some(true)]);
    }
}
