//! Hits of the probes, from the kernel's buffers.

use std::os::fd::RawFd;
use std::time::Duration;

use iocrec_log::event::{ChainsLeftOut, Detached, Fact, LossSource};

use crate::bpf::hit::{parse, Body, Head};
use crate::bpf::maps::LeftOut;
use crate::bpf::transport::{Transport, Wake};
use crate::probes::attacher::Attacher;
use crate::recorder::context::Context;
use crate::recorder::hits::record_hit;
use crate::recorder::registry::threads::NewThread;
use crate::recorder::sources::calm::Calm;
use crate::recorder::sources::{Lost, Resting, Source, ROUND, SLOW_ROUND, UNTIL_WOKEN};

/// Interval between looks for ended threads, nanoseconds.
const SWEEP: u64 = 10_000_000_000;

/// See the module.
pub struct Hits {
    transport: Transport,
    /// Keeps the programs loaded.
    _programs: Attacher,
    /// Chains that the programs had left out by the time they were stopped.
    left_out: Vec<LeftOut>,
    /// When they were stopped, monotonic: the log goes on for a moment, without hits.
    stopped: u64,
    calm: Calm,
    /// Time of the next sweep of threads, monotonic.
    sweep: u64,
    /// Samples since the last count that were no hits.
    malformed: u64,
}

impl Hits {
    /// Takes hits from these buffers of the programs that `programs` places.
    pub fn new(transport: Transport, programs: Attacher) -> Hits {
        Hits {
            transport,
            _programs: programs,
            left_out: Vec::new(),
            stopped: 0,
            calm: Calm::default(),
            sweep: 0,
            malformed: 0,
        }
    }
}

/// A sample's hit; one that is none is counted.
fn hit<'a>(sample: &'a [u8], malformed: &mut u64) -> Option<(Head, Body<'a>)> {
    let hit = parse(sample);
    *malformed += u64::from(hit.is_none());
    hit
}

impl Source for Hits {
    fn descriptors(&self) -> Vec<RawFd> {
        vec![self.transport.fd()]
    }

    fn take(&mut self, cx: &mut Context<'_>) -> bool {
        let Context { env, iocs, circuits, .. } = cx;
        let mut new: Vec<(u32, NewThread)> = Vec::new();
        let mut any = false;
        let malformed = &mut self.malformed;
        let more = self.transport.drain(|batch| {
            any |= !batch.is_empty();
            for (head, body) in batch.samples().filter_map(|sample| hit(sample, malformed)) {
                // an IOC that ended with hits still on the way is not there
                let Some(ioc) = iocs.get_mut(head.pid) else { continue };
                new.extend(record_hit(env, ioc, &head, body).map(|thread| (head.pid, thread)));
            }
        });
        for (pid, thread) in new {
            if let Some(ioc) = iocs.get_mut(pid) {
                circuits.server_threads.first_hit(env, ioc, thread);
            }
        }
        self.calm.took(any || more, env.monotonic());
        more
    }

    fn rest(&mut self, cx: &Resting<'_>) -> Duration {
        if !self.calm.is_calm() {
            let is_slow = cx.patience >= SLOW_ROUND && self.transport.wake_at_put();
            return if is_slow { SLOW_ROUND } else { ROUND };
        }
        match self.transport.wake_at_next() {
            Wake::Set => {
                self.calm.rests(cx.now);
                UNTIL_WOKEN
            }
            Wake::HitsWait => ROUND,
            Wake::Impossible => cx.patience,
        }
    }

    fn adapt(&mut self, cx: &mut Context<'_>) {
        let Some(maps) = &mut cx.maps else { return };
        if let Some(new) = &mut cx.env.run.new_records {
            // records of processes that the programs do not know yet wait
            new.retain(|record| !maps.record(record.pid, record.address, record.wanted));
            new.shrink_to_fit();
        }
        let unknown = maps.unknown();
        if unknown > 0 {
            cx.env.messages.push(format!(
                "the BPF maps have no room for {unknown} more records: none of their chains is left out"
            ));
        }
    }

    fn second(&mut self, cx: &mut Context<'_>) {
        let Context { env, iocs, maps, .. } = cx;
        let now = env.monotonic();
        for ioc in iocs.iter_mut().filter(|ioc| ioc.console.is_busy(now)) {
            let writes = maps.as_ref().and_then(|maps| maps.writes_left_out(ioc.pid));
            ioc.console.second(env, ioc.id, now, writes);
        }
    }

    fn survey(&mut self, cx: &mut Context<'_>) {
        // an ended thread matters once its number is given out again
        let began_again = std::mem::take(&mut cx.env.run.numbers_began_again);
        if cx.env.now < self.sweep && !began_again {
            return;
        }
        self.sweep = cx.env.now.saturating_add(SWEEP);
        let alive = cx.iocs.sweep_threads(cx.env.procfs(), &*cx.env.machine.clock);
        if let Some(maps) = &cx.maps {
            maps.sweep(&alive);
        }
    }

    fn lost(&mut self) -> Vec<Lost> {
        let lost = self.transport.lost();
        let (source, count) = (LossSource::Hits, std::mem::take(&mut self.malformed));
        vec![
            Lost { source, count, cause: "they could not be understood" },
            Lost { source, count: lost.processing, cause: "the buffer between kernel and recorder was full" },
            Lost { source, count: lost.puts, cause: "the puts' buffer between kernel and recorder was full" },
        ]
    }

    fn stop(&mut self, cx: &mut Context<'_>) {
        let Context { env, iocs, maps, .. } = cx;
        for ioc in iocs.iter_mut() {
            let writes = maps.as_ref().and_then(|maps| maps.writes_left_out(ioc.pid));
            ioc.console.second(env, ioc.id, u64::MAX, writes);
        }
        self.stopped = env.monotonic();
        self.left_out = cx.maps.as_mut().map(|maps| maps.forget_all()).unwrap_or_default();
    }

    fn finish(&mut self, cx: &mut Context<'_>) {
        note_left_out(cx, &std::mem::take(&mut self.left_out));
        let now = cx.env.monotonic();
        for ioc in cx.iocs.iter_mut().filter(|ioc| ioc.probing.attached) {
            ioc.probing.attached = false;
            let detached = Detached { ioc: ioc.id, since: self.stopped, cause: String::new() };
            cx.env.push(now, Fact::Detached(detached));
        }
    }
}

/// Hands over the number of chains left out, for records that have ids.
pub fn note_left_out(cx: &mut Context<'_>, left_out: &[LeftOut]) {
    let now = cx.env.monotonic();
    for &LeftOut { pid, record, since, count } in left_out {
        if let Some(record) = cx.iocs.get(pid).and_then(|ioc| ioc.records.id(record)) {
            cx.env.push(now, Fact::ChainsLeftOut(ChainsLeftOut { record, count, since }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_hit_is_counted() {
        let mut malformed = 0;
        for sample in [&[0; 0][..], &[0; 7], &[0xff; 512]] {
            assert_eq!(hit(sample, &mut malformed), None);
        }
        assert_eq!(malformed, 3);
    }
}
