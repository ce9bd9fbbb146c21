//! The snapshot of an IOC: value, alarm and properties of all its records, read a few at a time.
//!
//! A round makes three passes through the records: for the values, for the properties, and for the input links with what
//! else says where values come from. In each pass a record
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

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use iocrec_log::event::{Fact, FieldValue, OutputLink, OutputLinks, RecordId, Snapshot, SnapshotEnd};
use iocrec_log::writer::packed_size;

use crate::ioc::locks::{locks, Lock};
use crate::ioc::snapshots::{self, Sample, What};
use crate::ioc::Database;
use crate::linux::text::printable;
use crate::recorder::env::Env;
use crate::recorder::registry::fields::Fields;
use crate::recorder::registry::owner::Owner;
use crate::recorder::registry::records::Records;

/// Records that are read in one step.
pub const BATCH: usize = 64;
/// Readings of a record after the first, each 50 ms later. Processing takes microseconds, mostly.
const TRIES: u8 = 6;
/// Quarters of what a round may take that its values may take. The rest is for properties, which would else have no
/// turn where the values alone are too many.
const QUARTERS_FOR_VALUES: usize = 3;
/// Records whose links that write over Channel Access are remembered; those of more are written each time.
const MAX_OUTPUTS: usize = 20_000;
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

/// What was read of a record in a pass. It is written as a whole, or not at all.
struct Read {
    /// The record's place in the order of the pass.
    place: usize,
    time: u64,
    facts: Vec<Fact>,
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
    /// Number of records that facts were written of.
    taken: u32,
    /// Number of records that could not be read, or never twice the same.
    unread: u32,
    /// Number of records for which there was no room, and the record before the first of them.
    left: u32,
    last: RecordId,
    /// What was written of each record's links that write over Channel Access, as a hash.
    outputs: HashMap<RecordId, u64>,
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
    /// Records without their properties, once the pass for those has ended.
    properties_left: Option<u32>,
}

/// The snapshots of one IOC.
#[derive(Default)]
pub struct Snapshots {
    /// Whether a round should begin: records were found, or a segment has begun.
    pub due: bool,
    round: Option<Round>,
    /// The records after which the next pass for values, for properties, and for links begins.
    last: [RecordId; 3],
    /// See [`Pass::outputs`].
    outputs: HashMap<RecordId, u64>,
}

impl Pass {
    fn new(what: What, records: &Records, last: RecordId, budget: usize) -> Pass {
        let mut order = records.wanted();
        order.sort_unstable();
        let first = order.partition_point(|(record, _)| *record <= last);
        order.rotate_left(first);
        let (next, pending) = (0, Vec::new());
        Pass {
            what,
            order,
            next,
            pending,
            budget,
            taken: 0,
            unread: 0,
            left: 0,
            last: 0,
            outputs: HashMap::new(),
        }
    }

    /// The fact of a record's links that write over Channel Access, if they have changed since they were written.
    fn outputs(
        &self,
        env: &mut Env<'_>,
        time: u64,
        owner: Owner<'_>,
        fields: &mut Fields,
        (record, sample): (RecordId, &Sample),
    ) -> Option<Fact> {
        let found = snapshots::outputs(sample);
        if found.is_empty() && !self.outputs.contains_key(&record) {
            return None;
        }
        let links = found.into_iter().filter_map(|(description, text)| {
            let field = fields.get(env, time, owner, description)?.id;
            Some(OutputLink { field, text: printable(&text) })
        });
        let links: Vec<_> = links.collect();
        let same = self.outputs.get(&record) == Some(&hash_of(&links));
        (!same).then_some(Fact::OutputLinks(OutputLinks { record, links }))
    }

    /// Notes that a fact is written.
    fn note(&mut self, fact: &Fact) {
        match fact {
            Fact::OutputLinks(of) if of.links.is_empty() => _ = self.outputs.remove(&of.record),
            Fact::OutputLinks(of) if self.outputs.len() < MAX_OUTPUTS => {
                self.outputs.insert(of.record, hash_of(&of.links));
            }
            _ => {}
        }
    }

    fn addresses(&self, places: impl Iterator<Item = usize>) -> Vec<u64> {
        places.map(|place| self.order.get(place).map_or(0, |record| record.1)).collect()
    }

    /// Reads the pending records again and the next ones for the first time. Returns the bytes taken in the log; `None`
    /// if the process is no longer the same.
    fn step(
        &mut self,
        env: &mut Env<'_>,
        owner: Owner<'_>,
        image: Option<(u64, u64)>,
        fields: &mut Fields,
    ) -> Option<usize> {
        let (memory, layout) = (&owner.process.memory, owner.process.layout.as_ref().ok()?);
        let looks = self.look_again(env, owner);
        if !is_same(env, owner, image) {
            return None;
        }
        let mut facts = Vec::new();
        for (mut pending, look) in std::mem::take(&mut self.pending).into_iter().zip(looks) {
            let record = self.order.get(pending.place).map_or(0, |record| record.0);
            let sample = look.sample.as_ref().filter(|_| look.is_settled);
            let of_record = sample.and_then(|sample| match self.what {
                What::Values => snapshots::state(memory.width(), layout, sample)
                    .filter(|state| !state.is_active)
                    .map(|state| {
                        let snapshots::State { value, severity, status, stamp, .. } = state;
                        vec![Fact::Snapshot(Snapshot { record, value, severity, status, stamp })]
                    }),
                What::Properties => {
                    let properties = snapshots::properties(memory.width(), layout, sample, record);
                    Some(
                        properties
                            .map(|properties| Fact::Properties(Box::new(properties)))
                            .into_iter()
                            .collect(),
                    )
                }
                What::Links => {
                    let links =
                        snapshots::links(layout, sample).into_iter().filter_map(|(description, value)| {
                            let field = fields.get(env, look.time, owner, description)?.id;
                            Some(Fact::FieldValue(FieldValue { record, field, value }))
                        });
                    let mut facts: Vec<Fact> = links.collect();
                    facts.extend(self.outputs(env, look.time, owner, fields, (record, sample)));
                    Some(facts)
                }
            });
            pending.tries += 1;
            match of_record {
                Some(of_record) if of_record.is_empty() => {}
                Some(of_record) => {
                    facts.push(Read { place: pending.place, time: look.time, facts: of_record })
                }
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
            What::Values | What::Links => locks(memory, layout, addresses),
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
        if restless.is_empty() || self.what != What::Values {
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

    /// Writes the facts of as many of these records as there is room for; at the first without room the pass ends. Returns
    /// the bytes that they take.
    fn write(&mut self, env: &mut Env<'_>, mut read: Vec<Read>) -> usize {
        let places: Vec<usize> = read.iter().map(|read| read.place).collect();
        let size_of = |read: &[Read]| {
            packed_size(&read.iter().flat_map(|read| &read.facts).cloned().collect::<Vec<_>>())
        };
        let mut size = size_of(&read);
        while size > self.budget && !read.is_empty() {
            let fitting = read.len() * self.budget / size;
            read.truncate(fitting.min(read.len() - 1));
            size = size_of(&read);
        }
        if read.is_empty() {
            size = 0;
        }
        self.budget -= size;
        self.taken = self.taken.saturating_add(number(read.len()));
        let without_room = places.get(read.len()..).unwrap_or_default();
        for Read { time, facts, .. } in read {
            for fact in facts {
                self.note(&fact);
                env.push(time, fact);
            }
        }
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
        let [last, ..] = self.last;
        let pass = Pass::new(What::Values, records, last, budget / 4 * QUARTERS_FOR_VALUES);
        self.round = Some(Round { since: now, budget, pass, values: None, properties_left: None });
    }

    /// Takes the next step of the round. Returns the bytes taken in the log. `image`: the program that the process runs.
    pub fn step(
        &mut self,
        env: &mut Env<'_>,
        owner: Owner<'_>,
        image: Option<(u64, u64)>,
        records: &Records,
        fields: &mut Fields,
    ) -> usize {
        let Some(round) = &mut self.round else { return 0 };
        let Some(spent) = round.pass.step(env, owner, image, fields) else {
            // its end, or another beginning, is noticed elsewhere
            self.round = None;
            return 0;
        };
        round.budget = round.budget.saturating_sub(spent);
        if !round.pass.has_ended() {
            return spent;
        }
        let [of_values, of_properties, of_links] = &mut self.last;
        let next = match round.pass.what {
            What::Values => {
                // of the rest, links have an equal share
                Pass::new(What::Properties, records, *of_properties, round.budget / 2)
            }
            What::Properties => {
                let pass = Pass::new(What::Links, records, *of_links, round.budget);
                Pass { outputs: std::mem::take(&mut self.outputs), ..pass }
            }
            What::Links => return spent + self.end(env, owner),
        };
        let ended = std::mem::replace(&mut round.pass, next);
        if ended.what == What::Values {
            *of_values = ended.last;
            round.values = Some((ended.taken, ended.unread, ended.left));
        } else {
            *of_properties = ended.last;
            round.properties_left = Some(ended.left.saturating_add(ended.unread));
        }
        spent
    }

    /// Ends the round, if one is under way. Returns the bytes taken in the log.
    pub fn end(&mut self, env: &mut Env<'_>, owner: Owner<'_>) -> usize {
        let Some(Round { since, mut pass, values, properties_left, .. }) = self.round.take() else {
            return 0;
        };
        if !pass.has_ended() {
            pass.leave(&[]);
        }
        if pass.what == What::Links {
            self.outputs = std::mem::take(&mut pass.outputs);
        }
        let [of_values, of_properties, of_links] = &mut self.last;
        *match pass.what {
            What::Values => of_values,
            What::Properties => of_properties,
            What::Links => of_links,
        } = pass.last;
        let (taken, unread, left) = values.unwrap_or((pass.taken, pass.unread, pass.left));
        let properties_left = properties_left.unwrap_or(match pass.what {
            What::Values => number(pass.order.len()),
            What::Properties | What::Links => pass.left.saturating_add(pass.unread),
        });
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

fn hash_of(links: &[OutputLink]) -> u64 {
    let mut hasher = DefaultHasher::new();
    links.hash(&mut hasher);
    hasher.finish()
}

fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
