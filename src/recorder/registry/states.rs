//! The names of records' states (ZNAM and ONAM, ZRST to FFST), which change without a put where device support sets
//! them: asyn does when a driver calls back with other enum strings.
//!
//! No probe sees that, so they are read again: within a second after the record has processed, and all others in turn. What is
//! not as it was is at once said not to be known, from the last reading that found it so. It is known again when two
//! readings, a second apart, find the same; so names that change while they are read are never told.
//!
//! Promises: an IOC of which no such record processes is read once in [`TURN`]; else a second's readings are one request, of at
//! most [`MAX_USED`] and [`IN_TURN`] records. At most [`MAX_RECORDS`] of its records are read again.

use std::hash::{DefaultHasher, Hash, Hasher};

use iocrec_log::event::{EnumStrings, Fact, RecordId};

use crate::ioc::layout::state_texts;
use crate::ioc::Database;
use crate::recorder::env::Env;
use crate::recorder::registry::hash::AddressMap;
use crate::recorder::registry::owner::Owner;

/// Records whose states are read again: 3 MB of what is remembered of them.
const MAX_RECORDS: usize = 50_000;
/// Records that have processed and are read in a second. The largest have 416 bytes of names.
const MAX_USED: usize = 512;
/// Records that are read in turn, and how often, nanoseconds: a request to the reader costs some 0.1 ms of CPU, and twenty idle
/// IOCs may cost 0.5 % of one in all.
const IN_TURN: usize = 512;
const TURN: u64 = 10_000_000_000;

/// What the log has of a record's states.
#[derive(Clone, Copy, Debug)]
struct Known {
    /// Where the names are.
    at: u64,
    bytes: u16,
    /// Whether it is among [`States::used`].
    is_used: bool,
    /// A hash of the names; `None` if the log does not have those of now.
    hash: Option<u64>,
    /// When they were last found to be these, monotonic.
    seen: u64,
    /// A hash of the others that were found since, and when.
    found: Option<(u64, u64)>,
}

/// See the module.
#[derive(Default)]
pub struct States {
    known: AddressMap<RecordId, Known>,
    /// All of them, and the next one's place.
    order: Vec<RecordId>,
    next: usize,
    /// When the next turn is, monotonic.
    turn: u64,
    /// Those that have processed, and those that were not as they had been.
    used: Vec<RecordId>,
}

impl States {
    /// Takes a new record, whose names are at this place, with those that the log has of it, if any.
    pub fn define(&mut self, time: u64, record: RecordId, at: u64, bytes: u16, states: Option<&[String]>) {
        if self.order.len() >= MAX_RECORDS || self.known.contains_key(&record) {
            return;
        }
        let known = Known { at, bytes, is_used: false, hash: states.map(hash_of), seen: time, found: None };
        self.known.insert(record, known);
        self.order.push(record);
    }

    /// A record has processed, so that its state is told.
    pub fn use_of(&mut self, record: RecordId) {
        if let Some(known) = self.known.get_mut(&record).filter(|known| !known.is_used) {
            known.is_used = true;
            self.used.push(record);
        }
    }

    /// The log has got these names of a record, which were read at this time, after a put.
    pub fn told(&mut self, record: RecordId, time: u64, states: &[String]) {
        if let Some(known) = self.known.get_mut(&record) {
            (known.hash, known.seen, known.found) = (Some(hash_of(states)), time, None);
        }
    }

    /// Does a second's readings. `is_awaited`: a record's names are read after a put, which tells when they changed.
    pub fn read(&mut self, env: &mut Env<'_>, owner: Owner<'_>, is_awaited: impl Fn(RecordId) -> bool) {
        let count = self.used.len().min(MAX_USED);
        let mut records: Vec<RecordId> = self.used.drain(..count).collect();
        let now = env.monotonic();
        if now >= self.turn && !self.order.is_empty() {
            self.turn = now + TURN;
            let turn = self.order.iter().cycle().skip(self.next).take(IN_TURN.min(self.order.len()));
            let is_used = |record: &RecordId| self.known.get(record).is_some_and(|known| known.is_used);
            records.extend(turn.filter(|record| !is_used(record)));
            self.next = (self.next + IN_TURN) % self.order.len();
        }
        self.look(env, owner, &records, is_awaited, false);
    }

    /// Reads all of them for the last time.
    pub fn finish(&mut self, env: &mut Env<'_>, owner: Owner<'_>) {
        for records in std::mem::take(&mut self.order).chunks(MAX_USED) {
            self.look(env, owner, records, |_| false, true);
        }
    }

    fn look(
        &mut self,
        env: &mut Env<'_>,
        owner: Owner<'_>,
        records: &[RecordId],
        is_awaited: impl Fn(RecordId) -> bool,
        last: bool,
    ) {
        let places: Vec<Vec<(u64, usize)>> = records
            .iter()
            .map(|record| {
                self.known.get(record).map(|known| (known.at, known.bytes.into())).into_iter().collect()
            })
            .collect();
        if places.is_empty() {
            return;
        }
        let time = env.monotonic();
        let read = owner.process.memory.groups(&places);
        // asked only if something is to be told
        let mut is_gone = None;
        for (&record, bytes) in records.iter().zip(read) {
            let Some(known) = self.known.get_mut(&record) else { continue };
            known.is_used = false;
            let Some(states) = bytes.map(|bytes| state_texts(&bytes)) else { continue };
            let hash = hash_of(&states);
            if known.hash != Some(hash)
                && *is_gone.get_or_insert_with(|| owner.process.database() == Database::Gone)
            {
                continue;
            }
            let rests = !is_awaited(record) && known.judge(env, record, time, (&states, hash), last);
            if !rests {
                self.use_of(record);
            }
        }
    }
}

impl Known {
    /// Takes what was read at a time. Returns false if it must soon be read again.
    fn judge(
        &mut self,
        env: &mut Env<'_>,
        record: RecordId,
        time: u64,
        (states, hash): (&[String], u64),
        last: bool,
    ) -> bool {
        if self.hash == Some(hash) {
            self.seen = time;
            return true;
        }
        if self.hash.take().is_some() {
            env.push(self.seen, Fact::EnumStrings(EnumStrings::unknown(record)));
        }
        let since = match self.found {
            Some((found, since)) if found == hash && since < time => since,
            _ if last => time,
            _ => {
                self.found = Some((hash, time));
                return false;
            }
        };
        (self.hash, self.seen, self.found) = (Some(hash), time, None);
        env.push(since, Fact::EnumStrings(EnumStrings { record, states: states.to_vec() }));
        true
    }
}

/// A number for some texts.
pub fn hash_of(states: &[String]) -> u64 {
    let mut hasher = DefaultHasher::new();
    states.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorder::registry::traced_ioc::TracedIoc;
    use crate::recorder::testing::{Bench, FakeProcess, TestIoc, EGU, PID, SECOND};
    use iocrec_log::event::Event;

    const RECORD: RecordId = 7;
    /// Of a bi or bo.
    const BYTES: u16 = 52;

    /// An IOC with a record, whose names begin where a calc record has others of its texts.
    fn traced() -> (Bench, TestIoc, u64) {
        let (mut bench, mut ioc) = (Bench::new(), TestIoc::new(PID));
        bench.procfs.set(PID, FakeProcess { start: 1, ..FakeProcess::default() });
        bench.trace(&ioc);
        let record = ioc.calc("C");
        name(&mut ioc, record, "On");
        let at = record + EGU as u64;
        bench.with(PID, |ioc, _| ioc.states.define(0, RECORD, at, BYTES, Some(&["On".to_owned()])));
        bench.sink.take();
        (bench, ioc, record)
    }

    fn name(ioc: &mut TestIoc, record: u64, name: &str) {
        let mut bytes = [0; BYTES as usize];
        bytes[..name.len()].copy_from_slice(name.as_bytes());
        ioc.put(record, EGU, &bytes);
    }

    /// What is written at a second after the record has processed, as time and names.
    fn at(bench: &mut Bench, second: u64, awaited: bool) -> Vec<(u64, Vec<String>)> {
        bench.with(PID, |ioc, _| ioc.states.use_of(RECORD));
        in_turn(bench, second, awaited)
    }

    fn in_turn(bench: &mut Bench, second: u64, awaited: bool) -> Vec<(u64, Vec<String>)> {
        bench.clock.monotonic.set(second * SECOND);
        bench.with(PID, |ioc, env| {
            let TracedIoc { states, process, id, .. } = ioc;
            let owner = Owner { id: *id, process: process.as_ref().expect("an IOC") };
            states.read(env, owner, |_| awaited);
        });
        told(bench)
    }

    fn told(bench: &mut Bench) -> Vec<(u64, Vec<String>)> {
        let of = |event: Event| match event.fact {
            Fact::EnumStrings(of) => Some((event.time / SECOND, of.states)),
            _ => None,
        };
        bench.sink.take().into_iter().filter_map(of).collect()
    }

    fn names(text: &str) -> Vec<String> {
        vec![text.to_owned()]
    }

    #[test]
    fn other_names_are_unknown_at_once_and_told_when_they_stay() {
        let (mut bench, mut ioc, record) = traced();
        assert!(at(&mut bench, 5, false).is_empty());
        name(&mut ioc, record, "Run");
        assert_eq!(at(&mut bench, 6, false), [(5, names(""))], "since they were seen last");
        name(&mut ioc, record, "Go");
        assert!(at(&mut bench, 7, false).is_empty(), "they still change");
        assert_eq!(at(&mut bench, 8, false), [(7, names("Go"))]);
        assert!(at(&mut bench, 9, false).is_empty());
        name(&mut ioc, record, "On");
        assert_eq!(at(&mut bench, 10, false), [(9, names(""))]);
        assert_eq!(at(&mut bench, 11, false), [(10, names("On"))], "as they were long ago");
    }

    #[test]
    fn what_a_put_changes_is_left_to_the_reading_after_it() {
        let (mut bench, mut ioc, record) = traced();
        name(&mut ioc, record, "Put");
        assert!(at(&mut bench, 5, true).is_empty());
        bench.with(PID, |ioc, _| ioc.states.told(RECORD, 5 * SECOND, &names("Put")));
        assert!(at(&mut bench, 6, false).is_empty());
    }

    #[test]
    fn at_the_end_one_reading_is_enough() {
        let (mut bench, mut ioc, record) = traced();
        assert!(at(&mut bench, 5, false).is_empty());
        name(&mut ioc, record, "Run");
        bench.clock.monotonic.set(6 * SECOND);
        bench.with(PID, |ioc, env| {
            let TracedIoc { states, process, id, .. } = ioc;
            states.finish(env, Owner { id: *id, process: process.as_ref().expect("an IOC") });
        });
        assert_eq!(told(&mut bench), [(5, names("")), (6, names("Run"))]);
    }

    /// In turn each has to wait; one that has processed does not.
    #[test]
    fn records_that_process_come_first() {
        let (mut bench, mut ioc, record) = traced();
        for other in 0..10 * IN_TURN as u32 {
            let at = record + EGU as u64;
            bench.with(PID, |ioc, _| ioc.states.define(0, 1000 + other, at, BYTES, Some(&names("On"))));
        }
        let of = |told: Vec<(u64, Vec<String>)>| told.len();
        in_turn(&mut bench, 1, false); // the first of them are past
        name(&mut ioc, record, "Run");
        assert_eq!(of(in_turn(&mut bench, 10, false)), 0, "not yet their turn");
        assert_eq!(of(at(&mut bench, 10, false)), 1, "it is not known");
        assert_eq!(
            of(in_turn(&mut bench, 11, false)),
            1 + IN_TURN,
            "the names now; the next in turn are not known"
        );
        assert_eq!(of(in_turn(&mut bench, 12, false)), IN_TURN, "their names");
    }
}
