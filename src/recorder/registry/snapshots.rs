//! The snapshot of an IOC: value, alarm and properties of all its records, read a few at a time.
//!
//! A round makes two passes through the records, one for the values and one for the properties. In each pass a record
//! is read twice, some 50 ms apart, and its lock is looked at in between ([`snapshots`]): what is equal, and was not
//! locked, was true at the time of the second reading. A record that has changed, is active or is locked is read again,
//! [`TRIES`] times in all, each time twice within a fraction of a millisecond, so that even a record that changes all
//! the time is caught at rest. Then it is left out and counted.
//!
//! A round takes no more of the log than it is given. What does not fit is left to the next round, which begins with it,
//! and counted. So over several segments each record has its turn.
//!
//! Promises: nothing that was read counts unless the process and its database are still the same afterwards; a step
//! costs a few system calls and the memory of [`BATCH`] records.

use iocrec_log::event::{Fact, RecordId, Snapshot, SnapshotEnd};
use iocrec_log::writer::packed_size;

use crate::ioc::locks::{locks, Lock};
use crate::ioc::snapshots::{self, Sample, What};
use crate::ioc::Database;
use crate::recorder::env::Env;
use crate::recorder::registry::owner::Owner;
use crate::recorder::registry::records::Records;

/// Records that are read in one step.
pub const BATCH: usize = 64;
/// Readings of a record after the first, each 50 ms later. Processing takes microseconds, mostly.
const TRIES: u8 = 6;
/// Quarters of what a round may take that its values may take. The rest is for properties, which would else have no
/// turn where the values alone are too many.
const QUARTERS_FOR_VALUES: usize = 3;
/// Bytes that the end of a round takes in the log, at most.
const END_BYTES: usize = 40;

/// A record that was read.
struct Pending {
    /// Its place in the order of the pass.
    place: usize,
    sample: Option<Sample>,
    /// Number of readings after the first.
    tries: u8,
}

/// A record that was read again.
struct Look {
    /// The time just before the reading, monotonic.
    time: u64,
    sample: Option<Sample>,
    /// Whether nothing was under way at that time, so that what was read belongs together.
    is_settled: bool,
}

/// One pass through the records.
struct Pass {
    what: What,
    /// The records, beginning with those that the last pass left.
    order: Vec<(RecordId, u64)>,
    /// Number of them that were taken up.
    next: usize,
    pending: Vec<Pending>,
    /// Bytes that it may still take in the log.
    budget: usize,
    /// Number of facts.
    taken: u32,
    /// Number of records that could not be read, or never twice the same.
    unread: u32,
    /// Number of records for which there was no room, and the record before the first of them.
    left: u32,
    last: RecordId,
}

/// A round that is under way.
struct Round {
    /// The time at which it began, monotonic.
    since: u64,
    /// Bytes that it may still take in the log.
    budget: usize,
    pass: Pass,
    /// Facts, unread and left records of the pass for the values, once that has ended.
    values: Option<(u32, u32, u32)>,
}

/// The snapshots of one IOC.
#[derive(Default)]
pub struct Snapshots {
    /// Whether a round should begin: records were found, or a segment has begun.
    pub due: bool,
    round: Option<Round>,
    /// The records after which the next pass for values, and for properties, begins.
    last: (RecordId, RecordId),
}

impl Pass {
    fn new(what: What, records: &Records, last: RecordId, budget: usize) -> Pass {
        let mut order = records.wanted();
        order.sort_unstable();
        let first = order.partition_point(|(record, _)| *record <= last);
        order.rotate_left(first);
        let (next, pending) = (0, Vec::new());
        Pass { what, order, next, pending, budget, taken: 0, unread: 0, left: 0, last: 0 }
    }

    fn addresses(&self, places: impl Iterator<Item = usize>) -> Vec<u64> {
        places.map(|place| self.order.get(place).map_or(0, |record| record.1)).collect()
    }

    /// Reads the pending records again and the next ones for the first time. Returns the bytes taken in the log; `None`
    /// if the process is no longer the same.
    fn step(&mut self, env: &mut Env<'_>, owner: Owner<'_>, image: Option<(u64, u64)>) -> Option<usize> {
        let (memory, layout) = (&owner.process.memory, owner.process.layout.as_ref().ok()?);
        let looks = self.look_again(env, owner);
        if !is_same(env, owner, image) {
            return None;
        }
        let mut facts = Vec::new();
        for (mut pending, look) in std::mem::take(&mut self.pending).into_iter().zip(looks) {
            let record = self.order.get(pending.place).map_or(0, |record| record.0);
            let fact = match (look.sample.as_ref().filter(|_| look.is_settled), self.what) {
                (None, _) => None,
                (Some(sample), What::Values) => snapshots::state(memory.width(), layout, sample)
                    .filter(|state| !state.is_active)
                    .map(|state| {
                        let snapshots::State { value, severity, status, stamp, .. } = state;
                        Some(Fact::Snapshot(Snapshot { record, value, severity, status, stamp }))
                    }),
                (Some(sample), What::Properties) => {
                    let properties = snapshots::properties(memory.width(), layout, sample, record);
                    Some(properties.map(|properties| Fact::Properties(Box::new(properties))))
                }
            };
            pending.tries += 1;
            match fact {
                Some(fact) => facts.extend(fact.map(|fact| (pending.place, look.time, fact))),
                None if pending.tries >= TRIES => self.unread += 1,
                None => self.pending.push(Pending { sample: look.sample, ..pending }),
            }
        }
        let spent = self.write(env, facts);
        let next = self.next..self.order.len().min(self.next + BATCH.saturating_sub(self.pending.len()));
        let samples = snapshots::sample(memory, layout, self.what, &self.addresses(next.clone()));
        self.next = next.end;
        let new = next.zip(samples).map(|(place, sample)| Pending { place, sample, tries: 0 });
        self.pending.extend(new);
        Some(spent)
    }

    /// Reads the pending records again, and at once once more those that have changed more than once.
    fn look_again(&self, env: &Env<'_>, owner: Owner<'_>) -> Vec<Look> {
        let Ok(layout) = &owner.process.layout else { return Vec::new() };
        let memory = &owner.process.memory;
        let locks_of = |addresses: &[u64]| match self.what {
            What::Values => locks(memory, layout, addresses),
            What::Properties => vec![Lock::Unknown; addresses.len()],
        };
        let addresses = self.addresses(self.pending.iter().map(|pending| pending.place));
        let held = locks_of(&addresses);
        // what is the same before and after this was true at this time
        let time = env.monotonic();
        let samples = snapshots::sample(memory, layout, self.what, &addresses).into_iter();
        let mut looks: Vec<Look> = self
            .pending
            .iter()
            .zip(samples.zip(held))
            .map(|(before, (sample, lock))| {
                let is_settled = sample.is_some() && sample == before.sample && lock != Lock::Held;
                Look { time, sample, is_settled }
            })
            .collect();
        let mut restless: Vec<(&Pending, &mut Look)> = self.pending.iter().zip(&mut looks).collect();
        restless.retain(|(before, look)| before.tries > 0 && look.sample.is_some() && !look.is_settled);
        if restless.is_empty() || self.what == What::Properties {
            return looks;
        }
        let addresses = self.addresses(restless.iter().map(|(before, _)| before.place));
        let held = locks_of(&addresses);
        let time = env.monotonic();
        let samples = snapshots::sample(memory, layout, self.what, &addresses);
        for ((_, look), (sample, lock)) in restless.into_iter().zip(samples.into_iter().zip(held)) {
            // so soon after the first, only the lock tells that nothing was under way
            let is_settled = sample == look.sample && lock == Lock::Free;
            *look = Look { time, sample, is_settled };
        }
        looks
    }

    /// Writes as many of these facts, each with the place of its record and its time, as there is room for; at the first
    /// without room the pass ends. Returns the bytes that they take.
    fn write(&mut self, env: &mut Env<'_>, facts: Vec<(usize, u64, Fact)>) -> usize {
        let places: Vec<usize> = facts.iter().map(|fact| fact.0).collect();
        let (times, mut facts): (Vec<u64>, Vec<Fact>) =
            facts.into_iter().map(|fact| (fact.1, fact.2)).unzip();
        let mut size = packed_size(&facts);
        while size > self.budget && !facts.is_empty() {
            let fitting = facts.len() * self.budget / size;
            facts.truncate(fitting.min(facts.len() - 1));
            size = packed_size(&facts);
        }
        if facts.is_empty() {
            size = 0;
        }
        self.budget -= size;
        self.taken = self.taken.saturating_add(number(facts.len()));
        let without_room = places.get(facts.len()..).unwrap_or_default();
        times.into_iter().zip(facts).for_each(|(time, fact)| env.push(time, fact));
        if !without_room.is_empty() {
            self.leave(without_room);
        }
        size
    }

    /// Ends the pass: these places, the pending and the remaining records are left to the next one.
    fn leave(&mut self, places: &[usize]) {
        let left = places.len() + self.pending.len() + self.order.len().saturating_sub(self.next);
        self.left = number(left);
        let pending = self.pending.iter().map(|pending| pending.place);
        let first = places.iter().copied().chain(pending).min().unwrap_or(self.next);
        // one that alone is too large must not be in the way for ever
        let before = if self.taken == 0 { Some(first) } else { first.checked_sub(1) };
        let before = before.and_then(|place| self.order.get(place)).or(self.order.last());
        self.last = before.map_or(0, |record| record.0);
        self.pending.clear();
        self.next = self.order.len();
    }

    fn has_ended(&self) -> bool {
        self.pending.is_empty() && self.next >= self.order.len()
    }
}

impl Snapshots {
    /// Whether a round is under way.
    pub fn is_under_way(&self) -> bool {
        self.round.is_some()
    }

    /// Begins a round that may take so many bytes in the log.
    pub fn begin(&mut self, now: u64, records: &Records, budget: usize) {
        self.due = false;
        let budget = budget.saturating_sub(END_BYTES);
        let pass = Pass::new(What::Values, records, self.last.0, budget / 4 * QUARTERS_FOR_VALUES);
        self.round = Some(Round { since: now, budget, pass, values: None });
    }

    /// Takes the next step of the round. Returns the bytes taken in the log. `image`: the program that the process runs.
    pub fn step(
        &mut self,
        env: &mut Env<'_>,
        owner: Owner<'_>,
        image: Option<(u64, u64)>,
        records: &Records,
    ) -> usize {
        let Some(round) = &mut self.round else { return 0 };
        let Some(spent) = round.pass.step(env, owner, image) else {
            // its end, or another beginning, is noticed elsewhere
            self.round = None;
            return 0;
        };
        round.budget = round.budget.saturating_sub(spent);
        if !round.pass.has_ended() {
            return spent;
        }
        if round.values.is_none() {
            let pass = Pass::new(What::Properties, records, self.last.1, round.budget);
            let values = std::mem::replace(&mut round.pass, pass);
            self.last.0 = values.last;
            round.values = Some((values.taken, values.unread, values.left));
            return spent;
        }
        spent + self.end(env, owner)
    }

    /// Ends the round, if one is under way. Returns the bytes taken in the log.
    pub fn end(&mut self, env: &mut Env<'_>, owner: Owner<'_>) -> usize {
        let Some(Round { since, mut pass, values, .. }) = self.round.take() else { return 0 };
        if !pass.has_ended() {
            pass.leave(&[]);
        }
        let all = number(pass.order.len());
        let ((taken, unread, left), properties_left) = match values {
            Some(values) => {
                self.last.1 = pass.last;
                (values, pass.left.saturating_add(pass.unread))
            }
            None => {
                self.last.0 = pass.last;
                ((pass.taken, pass.unread, pass.left), all)
            }
        };
        let end = SnapshotEnd { ioc: owner.id, since, taken, unread, left, properties_left };
        let now = env.monotonic();
        env.push(now, Fact::SnapshotEnd(end));
        END_BYTES
    }
}

/// Whether the process still lives, runs this program, and has its database.
fn is_same(env: &Env<'_>, owner: Owner<'_>, image: Option<(u64, u64)>) -> bool {
    let (pid, start) = (owner.process.pid, owner.process.start);
    env.procfs().start(pid) == Some(start)
        && !env.procfs().is_zombie(pid)
        && env.procfs().image(pid) == image
        && owner.process.database() != Database::Gone
}

fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
