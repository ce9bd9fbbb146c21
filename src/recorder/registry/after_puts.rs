//! What puts came to: fields that are read again when the IOC has carried a put out.
//!
//! A put's hit is at the entry of a function, so it tells what was asked for and what the field held before. Whether
//! the record took it, and what it made of it, the field tells afterwards. It is read [`SOON`] after the last put to it,
//! and once more [`LATER`] where it may still hold what it held before: a put may wait for its record's lock. Only
//! what is put from outside is looked at, not what records write to each other.
//!
//! Promises: at most [`A_SECOND`] puts a second are looked after, by one read each that is bounded
//! ([`fields::MOST`]), or two; those above are told of in the log, with an unknown value. A value is told with the time
//! after it was read; one whose reading was held up is read anew.

use std::collections::HashMap;

use iocrec_log::event::{Event, Fact, FieldId, FieldValue, RecordId, Value};

use crate::ioc::{fields, IocProcess};
use crate::linux::clock;
use crate::recorder::sink::Sink;

/// When a field is read, nanoseconds after the last put to it: dbPut works within microseconds.
const SOON: u64 = 20_000_000;
/// And a last time, where it had not changed: the lock of a long chain is held for some hundred milliseconds at most.
const LATER: u64 = 500_000_000;
/// A read takes microseconds. If it took longer, this thread was held up in it, and nobody knows when the IOC's
/// memory was read: the reader believes what is read 10 ms after a put.
const HELD_UP: u64 = 5_000_000;
/// Puts a second that are looked after: a person or a script makes some tens, and so many reads cost some
/// milliseconds.
const A_SECOND: u64 = 200;

/// A put.
pub struct PutTo {
    /// Its record's number and address.
    pub record: RecordId,
    /// Address of the record.
    pub address: u64,
    /// Field.
    pub field: FieldId,
    /// Address of the field's description.
    pub description: u64,
    /// Thread that carries it out.
    pub tid: u32,
    /// The record's processing tells what becomes of it, if it follows: it is to the value field, and that is no array or
    /// long string, of which the probe reads a part.
    pub told_by_processing: bool,
}

struct Due {
    to: PutTo,
    put: u64,
    next: u64,
    old: Value,
}

/// Fields that are to be read.
#[derive(Default)]
pub struct AfterPuts {
    due: HashMap<(u32, u64), Vec<Due>>,
    /// The second that is counted in, and how many puts there were.
    second: u64,
    count: u64,
}

impl AfterPuts {
    /// A put was made; `old` is what its field held. `follows`: only if an earlier hit of it was noted.
    pub fn note(&mut self, time: u64, pid: u32, to: PutTo, old: Value, follows: bool, sink: &mut dyn Sink) {
        let known = self.due.get_mut(&(pid, to.address));
        let known = known.and_then(|due| due.iter_mut().find(|due| due.to.field == to.field));
        if let Some(due) = known {
            *due = Due { to, put: time, next: time.saturating_add(SOON), old };
            return;
        }
        if follows {
            return;
        }
        if time / 1_000_000_000 != self.second {
            (self.second, self.count) = (time / 1_000_000_000, 0);
        }
        self.count += 1;
        if self.count > A_SECOND {
            let (record, field, value) = (to.record, to.field, Value::Unknown);
            sink.push(Event { time, fact: Fact::FieldValue(FieldValue { record, field, value }) });
            return;
        }
        let due = Due { put: time, next: time.saturating_add(SOON), old, to };
        self.due.entry((pid, due.to.address)).or_default().push(due);
    }

    /// Is a field of the record to be read?
    pub fn has(&self, pid: u32, address: u64) -> bool {
        !self.due.is_empty() && self.due.contains_key(&(pid, address))
    }

    /// A record has completed: its value was told.
    pub fn completed(&mut self, pid: u32, tid: u32, address: u64) {
        if self.due.is_empty() {
            return;
        }
        let Some(due) = self.due.get_mut(&(pid, address)) else { return };
        due.retain(|due| !(due.to.told_by_processing && due.to.tid == tid));
        if due.is_empty() {
            self.due.remove(&(pid, address));
        }
    }

    /// A process is gone.
    pub fn forget(&mut self, pid: u32) {
        self.due.retain(|key, _| key.0 != pid);
    }

    /// Reads what is due. To be called some times a second.
    pub fn read<'a>(&mut self, now: u64, ioc: impl Fn(u32) -> Option<&'a IocProcess>, sink: &mut dyn Sink) {
        self.due.retain(|&(pid, address), due| {
            due.retain_mut(|due| {
                if due.next > now {
                    return true;
                }
                let Some((ioc, layout)) = ioc(pid).and_then(|ioc| Some((ioc, ioc.layout.as_ref().ok()?)))
                else {
                    return false;
                };
                let before = clock::monotonic();
                let value = fields::read(&ioc.memory, layout, address, due.to.description);
                let time = clock::monotonic();
                if time.saturating_sub(before) > HELD_UP {
                    due.next = time;
                    return time.saturating_sub(due.put) < 2 * LATER;
                }
                let last = due.next >= due.put.saturating_add(LATER);
                let more = !last && value != Value::Unknown && !has_changed(&due.old, &value);
                let (record, field) = (due.to.record, due.to.field);
                sink.push(Event { time, fact: Fact::FieldValue(FieldValue { record, field, value }) });
                due.next = due.put.saturating_add(LATER);
                more
            });
            !due.is_empty()
        });
    }
}

/// Is it certain that these are two values? Arrays and long texts were read in part before.
fn has_changed(old: &Value, value: &Value) -> bool {
    match (old, value) {
        (Value::Unknown | Value::Array(_), _) | (_, Value::Unknown | Value::Array(_)) => false,
        // MAX_STRING_SIZE
        (Value::Text(old), Value::Text(value)) => old != value && old.len() < 40,
        (old, value) => old != value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Events(Vec<Event>);

    impl Sink for Events {
        fn push(&mut self, event: Event) {
            self.0.push(event);
        }

        fn tick(&mut self, _now: u64) {}
    }

    fn to(address: u64, field: FieldId, told_by_processing: bool) -> PutTo {
        PutTo { record: 1, address, field, description: 8, tid: 7, told_by_processing }
    }

    #[test]
    fn what_processing_tells_is_not_read() {
        let (mut after, mut sink) = (AfterPuts::default(), Events(Vec::new()));
        after.note(1, 100, to(0x10, 1, true), Value::Unknown, false, &mut sink);
        after.note(1, 100, to(0x10, 2, false), Value::Unknown, false, &mut sink);
        after.completed(100, 8, 0x10);
        assert_eq!(after.due.values().map(Vec::len).sum::<usize>(), 2, "another thread's processing");
        after.completed(100, 7, 0x10);
        assert_eq!(after.due.values().map(Vec::len).sum::<usize>(), 1);
        after.forget(100);
        assert!(after.due.is_empty());
        // the dbPut of a put that nobody noted
        after.note(1, 100, to(0x10, 1, true), Value::Unknown, true, &mut sink);
        assert!(after.due.is_empty());
    }

    #[test]
    fn more_puts_than_are_looked_after_are_told_of() {
        let (mut after, mut sink) = (AfterPuts::default(), Events(Vec::new()));
        for record in 0..A_SECOND + 5 {
            after.note(5, 100, to(record << 8, 1, false), Value::Unknown, false, &mut sink);
        }
        assert_eq!((after.due.len() as u64, sink.0.len()), (A_SECOND, 5));
        assert!(sink
            .0
            .iter()
            .all(|event| matches!(&event.fact, Fact::FieldValue(FieldValue { value: Value::Unknown, .. }))));
        after.note(1_000_000_005, 100, to(1, 1, false), Value::Unknown, false, &mut sink);
        assert_eq!(sink.0.len(), 5, "in another second");
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
