//! One inspection of a process: whether it is an IOC, and if so, what has changed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::inspector::known::{Followed, Known, IDENTIFIED_WITHIN};
use crate::inspector::queue::{Entry, Outcome};
use crate::inspector::report::{Finding, FoundRecord, ProcessInfo, Report};
use crate::inspector::shared::Common;
use crate::ioc::records::{self, RecordAt};
use crate::ioc::{Database, Finder, IocProcess, Refusal};
use crate::linux::chosen::Chosen;
use crate::linux::ending::Ending;
use crate::linux::reader::budget::Refused;
use crate::linux::reader::Inspection;
use crate::linux::{clock, descriptors, process};
use crate::probes::attacher::Attacher;
use crate::probes::catalog::Wanted;
use crate::probes::not_probed::NotProbed;
use crate::probes::probe::{self, Hold, Probes};
use crate::probes::{deferred_close, neighbours, removal};

/// Bytes to read to find out whether a process is an IOC. Most programs have some MB of symbols, the largest static
/// IOCs 50. This and the next times are for a first inspection ([`Known::allowed`]).
const FIND_BYTES: u64 = 96 << 20;
const FIND_TIME: Duration = Duration::from_secs(5);
/// Time limit for placing its probes, which reads a few bytes for each. The kernel makes one probe at a time; while
/// other recorders remove theirs, each probe waits for several grace periods.
const ATTACH_TIME: Duration = Duration::from_secs(30);
/// Descriptors that the probes of an IOC and what watches it need: 128 were counted.
const OF_AN_IOC: u64 = 150;
/// Probes that wait to be removed, which are those of some IOCs: then it is they that have the descriptors.
const MANY: u64 = 100;
/// Bytes to read to follow an IOC: 100,000 records have 60 MB of names and strings.
const FOLLOW_BYTES: u64 = 512 << 20;
const FOLLOW_TIME: Duration = Duration::from_secs(20);
/// Records in a report: 100 KiB.
const RECORDS_A_REPORT: usize = 1024;

/// Scope of the recording.
#[derive(Clone, Debug)]
pub struct Scope {
    /// The processes that may be recorded.
    pub chosen: Chosen,
    /// The probes to place.
    pub wanted: Wanted,
}

/// Tools of an inspection.
pub(super) struct Tools {
    pub common: Arc<Common>,
    /// `None`: the tier has no probes.
    attacher: Option<Attacher>,
    scope: Scope,
    pub finder: Finder,
}

impl Tools {
    pub fn new(common: Arc<Common>, attacher: Option<Attacher>, scope: Scope) -> Tools {
        Tools { common, attacher, scope, finder: Finder::default() }
    }

    fn report(&self, pid: u32, start: u64, finding: Finding) {
        self.common.put_report(Report { pid, start, finding });
    }

    /// Inspects a process, and puts it back into the queue.
    pub fn inspect(&mut self, mut entry: Entry<Known>) {
        let begin = Instant::now();
        let (pid, start) = (entry.pid, entry.start);
        let size = process::size(pid);
        // asked each time, since a process may change its user and its control group
        let may_skip = |known: &Known| {
            !has_memory(pid)
                || !self.scope.chosen.have(pid)
                || size.is_some_and(|size| size > 0)
                    && known.size == size
                    && !known.unanswered
                    && !known.undecided
        };
        if entry.known.ioc.is_none() && may_skip(&entry.known) {
            entry.known.size = size;
            // one that is left out may change these without changing its size
            let is_watched = self.scope.chosen.have(pid) && entry.known.watch(pid);
            let mut state = self.common.lock();
            let (queue, now) = (&mut state.queue, Instant::now());
            let dropped = if is_watched { queue.watch(entry, now) } else { queue.skip(entry, now) };
            // drop it without holding the lock
            drop(state);
            drop(dropped);
            return;
        }
        entry.known.size = size;
        let mut has_changed = entry.known.ioc.is_none();
        let mut refused = None;
        if entry.known.ioc.is_none() {
            refused = self.find(&mut entry);
            entry.known.undecided |= self.finder.is_undecided(pid);
        }
        let allowed = entry.known.allowed(FOLLOW_TIME);
        if let (Some(followed), None) = (&mut entry.known.ioc, refused) {
            let before = followed.state();
            refused = self.follow(pid, start, followed, allowed);
            has_changed |= followed.state() != before;
        }
        // its probes' thread may be another one by now
        let is_watched = refused.is_none() && entry.known.ioc.is_some() && entry.known.watch(pid);
        if !is_watched {
            entry.known.unwatch();
        }
        let outcome = match (refused, &entry.known.ioc) {
            (Some(_), _) => Outcome::Unanswered,
            (None, Some(followed)) if followed.is_settled() && is_watched && !has_changed => Outcome::Settled,
            (None, Some(followed)) => Outcome::Ioc { is_loaded: followed.ioc.layout.is_ok() },
            (None, None) => Outcome::NoIoc,
        };
        if let Some(refused) = refused.filter(|_| !entry.known.unanswered) {
            self.report(pid, start, Finding::Unanswered(refused));
        } else if refused.is_none() && entry.known.ioc.is_some() && entry.known.unanswered {
            self.report(pid, start, Finding::AnswersAgain);
        }
        entry.known.unanswered = refused.is_some();
        entry.known.ended(refused);
        let mut state = self.common.lock();
        if entry.known.unanswered {
            state.silent.insert(pid);
        } else {
            state.silent.remove(&pid);
        }
        let dropped = state.queue.put_back(entry, outcome, begin.elapsed(), Instant::now());
        drop(state);
        drop(dropped);
    }

    /// Finds out whether a process is an IOC, and places its probes if so.
    fn find(&mut self, entry: &mut Entry<Known>) -> Option<Refused> {
        let pid = entry.pid;
        let image = process::image(pid);
        let look = Inspection::begin(pid, FIND_BYTES, entry.known.allowed(FIND_TIME));
        let found = self.finder.look(pid);
        let unread = found.as_ref().err().and_then(Refused::by);
        // A child that an IOC forks may end or become another program meanwhile: what was read then is no IOC of its own.
        let found = found.ok().flatten().filter(|ioc| ioc.start == entry.start);
        let same = found.as_ref().and_then(|_| is_same(image, process::image(pid)));
        entry.known.undecided = found.is_some() && same.is_none();
        let Some(ioc) = found.filter(|_| same == Some(true)) else {
            if let Some(Refusal::Copy(copy)) = self.finder.why_refused(pid) {
                self.report(pid, entry.start, Finding::Copy { copy: *copy, image });
            }
            return look.end().or(unread);
        };
        let process = ProcessInfo::of(pid);
        // it may end while its probes are placed
        let ending = Ending::expect(pid);
        if let Some(refused) = look.end() {
            return Some(refused);
        }
        let is_probed = self.attacher.is_some() && ioc.unprobed().is_none();
        let room = descriptors::claim(OF_AN_IOC);
        let hindrance = || {
            // first, since without it the others may not be known
            if room.is_none() && removal::waiting() >= MANY {
                return Some(NotProbed::StillRemoving);
            } else if room.is_none() {
                return Some(NotProbed::TooFewFiles(descriptors::limit()));
            }
            let held_up = neighbours::held_up().map(NotProbed::HeldUp);
            held_up.or_else(|| may_be_kept(&ioc).then_some(NotProbed::StillKept))
        };
        let hindrance = is_probed.then(hindrance).flatten();
        let look = Inspection::begin(pid, FIND_BYTES, entry.known.allowed(ATTACH_TIME));
        let (probes, not_probed) = match (&self.attacher, ioc.unprobed()) {
            (Some(_), Some(reason)) => (Probes::none(pid, ioc.start), vec![NotProbed::Process(reason)]),
            (Some(_), None) if hindrance.is_some() => {
                (Probes::none(pid, ioc.start), hindrance.into_iter().collect())
            }
            (Some(attacher), None) => {
                let placed = probe::attach(attacher, &ioc, self.scope.wanted);
                (placed.probes, placed.not_probed)
            }
            (None, _) => (Probes::none(pid, ioc.start), Vec::new()),
        };
        let refused = look.end();
        if refused.is_some() {
            // all or nothing: the next inspection starts again
            return refused;
        }
        let debugged = not_probed.iter().any(NotProbed::may_pass);
        let (found, placed) = (Arc::new(ioc.clone()), probes.count());
        let finding = Finding::Ioc { ioc: found, process, placed, not_probed, ending };
        self.report(pid, entry.start, finding);
        let held = clock::monotonic();
        entry.known.ioc = Some(Followed {
            ioc,
            claimed: (0, 0),
            probes,
            held,
            routines: 0,
            debugged,
            ready: false,
            unidentified: IDENTIFIED_WITHIN,
        });
        None
    }

    /// Finds out what has changed in an IOC since the last time.
    fn follow(&self, pid: u32, start: u64, followed: &mut Followed, allowed: Duration) -> Option<Refused> {
        let is_stripped = followed.ioc.function("dbProcess").is_none();
        let better = followed.probes.better();
        let places = followed.debugged || is_stripped || better.is_some() || !followed.probes.hold();
        let room = places.then(|| descriptors::claim(OF_AN_IOC)).flatten();
        let is_free = || room.is_some() && neighbours::held_up().is_none() && !may_be_kept(&followed.ioc);
        let attacher = self.attacher.as_ref().filter(|_| !places || is_free());
        let look = Inspection::begin(pid, FOLLOW_BYTES, allowed);
        self.follow_layout(pid, start, &mut followed.ioc);
        self.walk_records(pid, start, followed);
        self.follow_identity(pid, start, followed);
        if let Some(attacher) = attacher {
            self.follow_probes(pid, start, followed, attacher);
            if let Some(thread) = better {
                followed.probes.bind_end(attacher, thread);
            }
            // while some are lost, more would be counted as all of them
            let adds = self.scope.wanted.process && followed.probes.hold();
            if adds && followed.ioc.unprobed().is_none() {
                self.probe_routines(pid, start, followed, attacher);
            }
        }
        // last, since its hits are recorded from now on
        if !followed.ready && followed.ioc.layout.is_ok() {
            followed.ready = true;
            self.report(pid, start, Finding::Ready);
        }
        look.end()
    }

    /// Reads the layout once the record database is loaded, and again when record types were added.
    fn follow_layout(&self, pid: u32, start: u64, ioc: &mut IocProcess) {
        if ioc.layout.is_err() {
            if ioc.read_layout_again() {
                ioc.read_identity_again();
                self.report(pid, start, Finding::Changed(Arc::new(ioc.clone())));
            }
            return;
        }
        match ioc.database() {
            Database::Same => {}
            Database::Extended => {
                // until the new record types are registered the old layout is still right
                if ioc.read_layout_again() {
                    self.report(pid, start, Finding::Changed(Arc::new(ioc.clone())));
                }
            }
            Database::Gone => self.report(pid, start, Finding::DatabaseGone),
        }
    }

    /// Reports an IOC's records if its record lists have changed since the last time.
    fn walk_records(&self, pid: u32, start: u64, followed: &mut Followed) {
        let ioc = &mut followed.ioc;
        let Ok(layout) = &ioc.layout else { return };
        // lists that could be read, and no longer can be, are those of a process that is ending
        let claimed = layout.claimed(&ioc.memory);
        let Some(claimed) = claimed.filter(|&claimed| claimed != followed.claimed) else { return };
        let (mut batch, mut found) = (Vec::new(), 0);
        let outcome = records::walk(&ioc.memory, layout, &mut |record| {
            let RecordAt { address, name, rtype, alias, states, node } = record;
            batch.push(FoundRecord { address, name, rtype: rtype.name.clone(), alias, states, node });
            found += 1;
            if batch.len() == RECORDS_A_REPORT {
                self.report(pid, start, Finding::Records(std::mem::take(&mut batch)));
            }
        });
        self.report(pid, start, Finding::Records(batch));
        let is_legible = layout.claimed(&ioc.memory).is_some();
        // the start-up script that loads records also sets the IOC's name
        let before = ioc.clone();
        let is_read = ioc.read_identity_again();
        if !is_legible || !has_memory(pid) {
            // it is ending: the data just read mean nothing
            *ioc = before;
            return;
        }
        followed.claimed = claimed;
        followed.unidentified = if is_read { 0 } else { IDENTIFIED_WITHIN };
        self.report(pid, start, Finding::Changed(Arc::new(ioc.clone())));
        self.report(pid, start, Finding::AllRecords { claimed: claimed.0, found, outcome });
    }

    /// Reads the name and the environment if they could not be read when the records were.
    fn follow_identity(&self, pid: u32, start: u64, followed: &mut Followed) {
        if followed.unidentified == 0 || followed.claimed.0 == 0 {
            return;
        }
        followed.unidentified -= 1;
        if followed.ioc.read_identity_again() {
            followed.unidentified = 0;
            self.report(pid, start, Finding::Changed(Arc::new(followed.ioc.clone())));
        }
    }

    /// Places probes again whose thread has ended, and those that a debugger kept from being placed.
    fn follow_probes(&self, pid: u32, start: u64, followed: &mut Followed, attacher: &Attacher) {
        let hold = followed.probes.hold_on(attacher);
        let is_lost = followed.held == 0;
        if let Some(hold) = news(hold, is_lost, is_lost && followed.probes.hold()) {
            let until = std::mem::replace(&mut followed.held, 0);
            let placed = followed.probes.count();
            self.report(pid, start, Finding::ProbesGone { hold, until, placed });
        }
        if followed.debugged && followed.probes.hold() && !process::is_debugged(pid) {
            let (ioc, probes) = (&followed.ioc, &mut followed.probes);
            let not_probed = probe::attach_missing(attacher, ioc, self.scope.wanted, probes);
            followed.debugged = not_probed.iter().any(NotProbed::may_pass);
            if !followed.debugged {
                self.report(pid, start, Finding::NoDebugger { placed: probes.count(), not_probed });
            }
        }
        if followed.probes.hold() {
            followed.held = clock::monotonic();
        }
    }

    /// If `dbProcess` has no symbol, probes the process routines of record types. Types get theirs during iocInit.
    fn probe_routines(&self, pid: u32, start: u64, followed: &mut Followed, attacher: &Attacher) {
        let ioc = &followed.ioc;
        let layout = ioc.layout.as_ref().ok().filter(|_| ioc.function("dbProcess").is_none());
        let count = layout.map_or(0, |layout| layout.routines(&ioc.memory).count());
        if count != followed.routines {
            let not_probed = probe::attach_routines(attacher, ioc, &mut followed.probes);
            let tries_again = not_probed.iter().any(NotProbed::is_for_earlier);
            followed.routines = if tries_again { 0 } else { count };
            let placed = followed.probes.count();
            self.report(pid, start, Finding::ProcessRoutines { placed, not_probed });
        }
    }
}

/// What is to be reported of an IOC's probes; `is_lost`: the last report said that they are, `holds`: they are in place now.
fn news(hold: Hold, is_lost: bool, holds: bool) -> Option<Hold> {
    match hold {
        // their thread had only not been seen
        Hold::Holds if is_lost && holds => Some(Hold::HeldAnew),
        Hold::Holds => None,
        Hold::Lost(_) if is_lost => None,
        hold => Some(hold),
    }
}

/// Whether the kernel may still keep instructions that were in its files before these were changed.
fn may_be_kept(ioc: &IocProcess) -> bool {
    deferred_close::may_be_kept(ioc.modules.iter().map(|module| &*module.opened))
}

/// Whether a process runs the same program at two times; `None` if it could be read at one of them only, as where no file can be
/// opened for a while.
fn is_same(then: Option<(u64, u64)>, now: Option<(u64, u64)>) -> Option<bool> {
    (then.is_some() == now.is_some()).then_some(then == now)
}

/// Whether a process has memory to read. A kernel thread has none, nor has a process that is ending. If only the first
/// thread has ended, another one shows the memory.
fn has_memory(pid: u32) -> bool {
    process::size(pid).is_some_and(|size| size > 0) || process::threads(pid).len() > 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probes::attacher::ProbeError;

    /// Such an IOC counted as none until its size changed.
    #[test]
    fn a_program_that_could_not_be_read_may_be_the_same() {
        assert_eq!(is_same(Some((1, 2)), Some((1, 2))), Some(true));
        assert_eq!(is_same(Some((1, 2)), Some((1, 3))), Some(false));
        assert_eq!([is_same(None, Some((1, 2))), is_same(Some((1, 2)), None)], [None, None]);
        assert_eq!(is_same(None, None), Some(true), "nobody may see it");
    }

    /// Where a recorder may open few files, it may not see a thread for a while, nor place its probes at another.
    #[test]
    fn probes_that_were_taken_for_lost_are_told_to_be_there() {
        let lost = || Hold::Lost(ProbeError::Ended);
        assert_eq!(news(lost(), false, false), Some(lost()));
        assert_eq!(news(lost(), true, false), None, "it is known");
        assert_eq!(news(Hold::Holds, true, false), None, "it still is not seen");
        assert_eq!(news(Hold::Holds, true, true), Some(Hold::HeldAnew));
        assert_eq!(news(Hold::HeldAnew, true, true), Some(Hold::HeldAnew));
        assert_eq!(news(Hold::HeldAnew, false, true), Some(Hold::HeldAnew));
        assert_eq!(news(Hold::Holds, false, true), None);
    }
}
