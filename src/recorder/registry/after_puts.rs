//! Outcomes of puts: fields that are read after the IOC has carried out a put.
//!
//! A put's hit is at the entry of a function, so it has the request and the old value. The field shows afterwards
//! whether and how the record took it. It is read [`SOON`] after the last put to it, and once more [`LATER`] if it may
//! still hold the old value: a put may wait for its record's lock. Only puts from outside count, not writes of records
//! to each other.
//!
//! Promises: at most [`MAX_A_SECOND`] puts a second of an IOC, and twice as many of all, cost one or two reads each, which are
//! bounded ([`fields::MAX_BYTES`]); for each further put the log gets an unknown value. However many IOCs are put to, none uses
//! up what is there for all. A value carries the time after its read; if a read was held up, the field is read again.

use std::collections::HashMap;

use epics::limits::MAX_STRING_SIZE;
use iocrec_log::event::{Fact, FieldId, FieldValue, RecordId, Value};

use crate::ioc::fields;
use crate::recorder::env::limits::PerSecond;
use crate::recorder::env::Env;
use crate::recorder::registry::owner::Owner;

/// Delay of the first read after the last put to a field, nanoseconds: dbPut works within microseconds.
const SOON: u64 = 20_000_000;
/// Delay of the last read, if the field had not changed: the lock of a long chain is held for some hundred milliseconds
/// at most.
const LATER: u64 = 500_000_000;
/// Longest read that counts, nanoseconds. A read takes microseconds; if it took longer, this thread was held up in it,
/// and the time of the read is unknown: iocreplay trusts a value that was read 10 ms after a put.
const HELD_UP: u64 = 5_000_000;
/// Puts a second after which a field is read: a person or a script makes some tens, and these reads cost some
/// milliseconds.
pub const MAX_A_SECOND: u64 = 200;

/// A put.
#[derive(Clone, Copy, Debug)]
pub struct PutTo {
    /// Time of the put, monotonic, nanoseconds.
    pub time: u64,
    /// Its record's id.
    pub record: RecordId,
    /// Address of the record.
    pub address: u64,
    /// Field.
    pub field: FieldId,
    /// Address of the field's description.
    pub description: u64,
    /// Thread that carries out the put.
    pub tid: u32,
    /// Whether the record's processing, if it follows, shows the outcome: the put is to the value field, and that is
    /// not an array or a long string, of which the probe reads only a part.
    pub shown_by_processing: bool,
    /// Whether it counts only if an earlier hit of the same put was noted.
    pub follows: bool,
}

struct Due {
    to: PutTo,
    next: u64,
    old: Value,
}

/// Fields of one IOC to read, by the record's address, and the puts of a second that were noted.
#[derive(Default)]
pub struct AfterPuts(HashMap<u64, Vec<Due>>, PerSecond);

impl AfterPuts {
    /// Notes a put to a field that held `old`.
    pub fn note(&mut self, env: &mut Env<'_>, to: PutTo, old: Value) {
        let due = Due { next: to.time.saturating_add(SOON), to, old };
        let known = self.0.get_mut(&to.address);
        if let Some(known) = known.and_then(|due| due.iter_mut().find(|due| due.to.field == to.field)) {
            *known = due;
            return;
        }
        if to.follows {
            return;
        }
        if !env.run.limits.puts.share(&mut self.1, to.time, MAX_A_SECOND) {
            let (record, field, value) = (to.record, to.field, Value::Unknown);
            env.push(to.time, Fact::FieldValue(FieldValue { record, field, value }));
            return;
        }
        self.0.entry(to.address).or_default().push(due);
    }

    /// Whether nothing is to be read.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a field of the record is to be read.
    pub fn has(&self, address: u64) -> bool {
        !self.0.is_empty() && self.0.contains_key(&address)
    }

    /// Notes that a record has completed on a thread, which showed its value.
    pub fn completed(&mut self, tid: u32, address: u64) {
        if self.0.is_empty() {
            return;
        }
        let Some(due) = self.0.get_mut(&address) else { return };
        due.retain(|due| !(due.to.shown_by_processing && due.to.tid == tid));
        if due.is_empty() {
            self.0.remove(&address);
        }
    }

    /// Does the reads that are due. Call this some times a second.
    pub fn read(&mut self, env: &mut Env<'_>, now: u64, owner: Owner<'_>) {
        let Ok(layout) = &owner.process.layout else {
            self.0.retain(|_, due| {
                due.retain(|due| due.next > now);
                !due.is_empty()
            });
            return;
        };
        let memory = &owner.process.memory;
        self.0.retain(|&address, due| {
            due.retain_mut(|due| {
                if due.next > now {
                    return true;
                }
                let before = env.monotonic();
                let value = fields::read(memory, layout, address, due.to.description);
                let time = env.monotonic();
                if time.saturating_sub(before) > HELD_UP {
                    due.next = time;
                    return time.saturating_sub(due.to.time) < 2 * LATER;
                }
                let last = due.next >= due.to.time.saturating_add(LATER);
                let more = !last && value != Value::Unknown && !has_changed(&due.old, &value);
                let (record, field) = (due.to.record, due.to.field);
                env.push(time, Fact::FieldValue(FieldValue { record, field, value }));
                due.next = due.to.time.saturating_add(LATER);
                more
            });
            !due.is_empty()
        });
    }

    /// Number of fields to read.
    #[cfg(test)]
    fn count(&self) -> usize {
        self.0.values().map(Vec::len).sum()
    }
}

/// Whether the two values certainly differ. Arrays and long texts may have been read only in part before.
fn has_changed(old: &Value, value: &Value) -> bool {
    match (old, value) {
        (Value::Unknown | Value::Array(_), _) | (_, Value::Unknown | Value::Array(_)) => false,
        (Value::Text(old), Value::Text(value)) => old != value && old.len() < MAX_STRING_SIZE,
        (old, value) => old != value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorder::testing::Bench;

    fn to(time: u64, address: u64, field: FieldId, shown_by_processing: bool) -> PutTo {
        PutTo { time, record: 1, address, field, description: 8, tid: 7, shown_by_processing, follows: false }
    }

    #[test]
    fn what_processing_shows_is_not_read() {
        let (mut after, mut bench) = (AfterPuts::default(), Bench::new());
        after.note(&mut bench.env(), to(1, 0x10, 1, true), Value::Unknown);
        after.note(&mut bench.env(), to(1, 0x10, 2, false), Value::Unknown);
        after.completed(8, 0x10);
        assert_eq!(after.count(), 2, "another thread's processing");
        after.completed(7, 0x10);
        assert_eq!(after.count(), 1);
        // the dbPut of a put that nobody noted
        let inner = PutTo { follows: true, ..to(1, 0x20, 1, true) };
        after.note(&mut bench.env(), inner, Value::Unknown);
        assert!(!after.has(0x20));
    }

    #[test]
    fn puts_beyond_the_limit_have_an_unknown_outcome() {
        let (mut after, mut bench) = (AfterPuts::default(), Bench::new());
        for record in 0..MAX_A_SECOND + 5 {
            after.note(&mut bench.env(), to(5, record << 8, 1, false), Value::Unknown);
        }
        assert_eq!((after.count() as u64, bench.facts().len()), (MAX_A_SECOND, 5));
        let unknown =
            |fact: &Fact| matches!(fact, Fact::FieldValue(FieldValue { value: Value::Unknown, .. }));
        assert!(bench.facts().iter().all(unknown));
        let mut other = AfterPuts::default();
        other.note(&mut bench.env(), to(5, 1, 1, false), Value::Unknown);
        assert_eq!((other.count(), bench.facts().len()), (1, 5), "another IOC's");
        after.note(&mut bench.env(), to(1_000_000_005, 1, 1, false), Value::Unknown);
        assert_eq!(bench.facts().len(), 5, "in another second");
    }

    #[test]
    fn only_what_has_surely_changed_is_not_read_again() {
        let text = |length| Value::Text(vec![b'x'; length]);
        assert!(has_changed(&Value::Int(1), &Value::Int(2)));
        assert!(!has_changed(&Value::Int(1), &Value::Int(1)));
        assert!(has_changed(&text(3), &text(4)));
        assert!(!has_changed(&text(40), &text(60)), "may have been cut");
        assert!(!has_changed(&Value::Unknown, &Value::Int(2)));
    }
}
