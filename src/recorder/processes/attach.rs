//! The span in which an IOC's hits are taken: the facts `Attached` and `Detached`.

use iocrec_log::event::{Attached, Detached, Fact};

use crate::bpf::maps::Maps;
use crate::probes::layouts::layouts;
use crate::probes::probe::Hold;
use crate::recorder::env::Env;
use crate::recorder::processes::describe::recording;
use crate::recorder::registry::traced_ioc::TracedIoc;
use crate::recorder::shortfall::Shortfall;

/// Time that a recorder may take to begin with the IOCs that it finds, nanoseconds. It takes longer where the kernel still
/// removes the probes of another one, that ended just before.
const BEGINNING: u64 = 2_000_000_000;

/// Why the first hits of an IOC that began beside the recorder are missed.
pub(super) const NOT_YET: &str = "its process had to be found first, and its probes placed";

/// From when on the hits of an IOC were missed that are taken from `now` on, and why; no reason if none were. Its probes were
/// lost at `lost`, if that is not 0; it began at `start`, and the recorder at `since`.
fn missed(lost: u64, start: u64, since: u64, now: u64) -> (u64, &'static str) {
    match lost {
        0 if start < since && now.saturating_sub(since) < BEGINNING => (start, ""),
        0 => (start.max(since), NOT_YET),
        lost => (lost, "its probes had been lost"),
    }
}

/// When an IOC began: with its process, unless that was recorded as another before.
pub(super) fn beginning(env: &Env<'_>, ioc: &TracedIoc) -> u64 {
    env.machine.clock.monotonic_of_boot(ioc.start).max(env.run.last_end(ioc.pid, ioc.start))
}

/// Begins to take an IOC's hits if its layout and its records are known; else notes why not. True if the sources must
/// adapt. `since` is the recorder's start: nothing before it counts as missed.
pub(super) fn begin_to_take_hits(
    env: &mut Env<'_>,
    maps: Option<&mut Maps>,
    ioc: &mut TracedIoc,
    since: u64,
) -> bool {
    let (Some(maps), Some(process)) = (maps, ioc.process.as_ref()) else { return false };
    if process.unprobed().is_some() {
        return false;
    }
    let mut changed = false;
    if !ioc.probing.in_maps && (ioc.probing.ready || process.layout.is_err()) {
        ioc.shortfalls
            .remove(|shortfall| matches!(shortfall, Shortfall::NoLayout(_) | Shortfall::NotInMaps(_)));
        let entered = match &process.layout {
            Ok(layout) => {
                let layouts = layouts(ioc.pid, layout, process.abi);
                maps.trace(ioc.pid, &layouts).map_err(Shortfall::NotInMaps)
            }
            Err(reason) => Err(Shortfall::NoLayout(reason.clone())),
        };
        match entered {
            Ok(()) => {
                ioc.probing.in_maps = true;
                changed = true;
                env.messages.push(recording(&ioc.about));
            }
            Err(shortfall) => ioc.shortfalls.add(shortfall),
        }
    }
    if ioc.probing.in_maps && ioc.probing.placed > 0 && !ioc.probing.attached {
        ioc.probing.attached = true;
        let (start, now) = (beginning(env, ioc), env.monotonic());
        let (from, cause) = missed(std::mem::take(&mut ioc.probing.lost), start, since, now);
        let attached = Attached { ioc: ioc.id, from: from.min(now), since: now, cause: cause.into() };
        env.push(now, Fact::Attached(attached));
    }
    changed
}

/// Notes that an IOC's probes, and with them its hits, were gone, of which there are now `placed`. They were last seen in
/// place at `until`.
pub(super) fn note_hold(
    env: &mut Env<'_>,
    now: u64,
    ioc: &mut TracedIoc,
    hold: Hold,
    until: u64,
    placed: usize,
) {
    let lost = match hold {
        Hold::Holds => return,
        _ if env.procfs().has_ended(ioc.pid, ioc.start) => return,
        Hold::HeldAnew => None,
        Hold::Lost(reason) => Some(Shortfall::ProbesLost(reason)),
    };
    if !ioc.probing.attached {
        // once they could be placed after all, begin_to_take_hits goes on
        ioc.probing.placed = if lost.is_none() { placed } else { 0 };
        ioc.shortfalls.remove(|shortfall| matches!(shortfall, Shortfall::ProbesLost(_)));
        lost.into_iter().for_each(|shortfall| ioc.shortfalls.add(shortfall));
        return;
    }
    let cause = match &lost {
        None => "the thread that the probes hung on had ended".to_string(),
        Some(shortfall) => shortfall.to_string(),
    };
    env.messages.push(format!("hits are missing: {}: {cause}", ioc.label()));
    let since = if until == 0 { now } else { until };
    env.push(now, Fact::Detached(Detached { ioc: ioc.id, since, cause: cause.clone() }));
    match lost {
        None => {
            let now = env.monotonic();
            env.push(now, Fact::Attached(Attached { ioc: ioc.id, from: since, since: now, cause }));
        }
        Some(shortfall) => {
            ioc.probing.attached = false;
            ioc.probing.placed = 0;
            ioc.probing.lost = since;
            ioc.shortfalls.add(shortfall);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn what_was_missed_since_the_recorder_began() {
        let of = |lost, start, now| {
            let (from, cause) = missed(lost * SECOND, start * SECOND, 100 * SECOND, now * SECOND);
            (!cause.is_empty()).then_some(from / SECOND)
        };
        assert_eq!(of(0, 50, 101), None, "it began with it");
        assert_eq!(of(0, 50, 104), Some(100), "the probes of the recorder before were in the way");
        assert_eq!(of(0, 103, 104), Some(103), "an IOC that began beside it");
        assert_eq!(of(107, 50, 110), Some(107));
    }
}
