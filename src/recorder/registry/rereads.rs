//! Side effects of puts: a record's scan list (a put to SCAN, PRIO, EVNT, or to SIMM, which swaps SCAN and SSCN) or its
//! enum strings (ZNAM, ONST ...) change. They are read again after the IOC has carried out the put.

use std::collections::HashMap;

use iocrec_log::event::{EnumStrings, Fact, RecordId};

use crate::ioc::layout;
use crate::recorder::env::Env;
use crate::recorder::registry::owner::Owner;
use crate::recorder::registry::scan_lists::ScanLists;
use crate::recorder::registry::states::States;

/// Delay of the first read, nanoseconds after the put: dbPut works within microseconds, but may wait for the lock of a
/// long scan list.
const SOON: u64 = 20_000_000;
/// Delay of a second read, in case it did.
const LATER: u64 = 1_000_000_000;

/// A part of a record that is read again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reread {
    /// Its scan list.
    ScanList,
    /// Its enum strings.
    EnumStrings,
}

impl Reread {
    /// The part that a put to a field of that name changes, besides the field.
    pub fn after_put_to(field: &str) -> Option<Reread> {
        match field {
            "SCAN" | "PRIO" | "EVNT" | "SIMM" => Some(Reread::ScanList),
            "ZNAM" | "ONAM" | "ZRST" | "ONST" | "TWST" | "THST" | "FRST" | "FVST" | "SXST" | "SVST"
            | "EIST" | "NIST" | "TEST" | "ELST" | "TVST" | "TTST" | "FTST" | "FFST" => {
                Some(Reread::EnumStrings)
            }
            _ => None,
        }
    }
}

/// Times of the reads of one part.
struct Due {
    record: RecordId,
    next: u64,
    /// Time of the last read.
    last: u64,
}

/// The reads of one IOC that are due, by the record's address.
#[derive(Default)]
pub struct Rereads(HashMap<(u64, Reread), Due>);

impl Rereads {
    /// Whether nothing is to be read.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether this part of a record is to be read.
    pub fn awaits(&self, record: RecordId, reread: Reread) -> bool {
        self.0.iter().any(|((_, part), due)| *part == reread && due.record == record)
    }

    /// Notes a put made at a time.
    pub fn note(&mut self, time: u64, address: u64, record: RecordId, reread: Reread) {
        let soon = time.saturating_add(SOON);
        let due = self.0.entry((address, reread)).or_insert(Due { record, next: soon, last: soon });
        due.next = due.next.min(soon);
        due.last = time.saturating_add(LATER);
    }

    /// Does the reads that are due. Call this some times a second.
    pub fn read(
        &mut self,
        env: &mut Env<'_>,
        now: u64,
        owner: Owner<'_>,
        lists: &mut ScanLists,
        known: &mut States,
    ) {
        self.0.retain(|&(address, reread), due| {
            if due.next > now {
                return true;
            }
            let record = due.record;
            match reread {
                Reread::ScanList => lists.look(env, now, owner, &[(record, address)]),
                Reread::EnumStrings => {
                    let memory = &owner.process.memory;
                    let layout = owner.process.layout.as_ref().ok();
                    let rtype = layout.and_then(|layout| layout.type_of(memory, address));
                    if let Some(states) = rtype.and_then(|rtype| layout::states_of(memory, rtype, address)) {
                        known.told(record, now, &states);
                        env.push(now, Fact::EnumStrings(EnumStrings { record, states }));
                    }
                }
            }
            let more = due.last > due.next;
            due.next = due.last;
            more
        });
    }
}
