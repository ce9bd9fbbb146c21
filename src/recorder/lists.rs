//! The scan lists of an IOC, and which record is on which.
//!
//! Records are looked up when they become known, when a put has moved them, and again and again while
//! their SCAN says that they are on a list and the IOC has not put them there (before iocInit is done). The log
//! gets what has changed.

use iocrec_log::event::{Event, Fact, IocId, RecordId, RecordScan, ScanList, ScanListId};

use crate::ioc::scanning::{self, Place};
use crate::ioc::{menus, IocProcess};
use crate::recorder::names::AddressMap;
use crate::recorder::sink::Sink;

/// Records that are on no list yet are looked up after 1, 2, 4, 8 s, and then every 8 s, nanoseconds: an event that
/// does not exist may never come, and an IOC's start may take minutes.
const SHORTEST_PAUSE: u64 = 1_000_000_000;
const LONGEST_PAUSE: u64 = 8_000_000_000;

/// Those of one IOC.
#[derive(Default)]
pub struct Lists {
    /// The choices of menuScan, once needed.
    periods: Vec<String>,
    /// By the address of the scan_list.
    known: AddressMap<u64, ScanListId>,
    /// What the log was told.
    placed: AddressMap<RecordId, ScanListId>,
    /// Records that should be on a list and are on none, and their addresses.
    waiting: Vec<(RecordId, u64)>,
    next: u64,
    pause: u64,
}

impl Lists {
    /// Looks records up (numbers and addresses), and tells what is new. `last` is the last number given.
    pub fn look(
        &mut self,
        time: u64,
        id: IocId,
        ioc: &IocProcess,
        records: &[(RecordId, u64)],
        last: &mut ScanListId,
        sink: &mut dyn Sink,
    ) {
        let Some((layout, fields)) = ioc.layout.as_ref().ok().and_then(|l| Some((l, l.scanning.as_ref()?)))
        else {
            return;
        };
        for records in records.chunks(scanning::BATCH) {
            let addresses: Vec<u64> = records.iter().map(|(_, address)| *address).collect();
            let places = scanning::places(&ioc.memory, fields, &addresses);
            for (&(record, address), place) in records.iter().zip(places) {
                let list = match place {
                    Some(Place::On { list, scan }) => match self.known.get(&list) {
                        Some(known) => Some(*known),
                        None => {
                            if self.periods.is_empty() {
                                let menu = menus::menu(&ioc.memory, layout, fields.scan.description);
                                self.periods = menu.map(|menu| menu.choices).unwrap_or_default();
                            }
                            let found =
                                scanning::list(&ioc.memory, layout, address, list, scan, &self.periods);
                            found.map(|found| {
                                *last += 1;
                                self.known.insert(list, *last);
                                let scanning::ListAt { kind, name, callback } = found;
                                let list = ScanList { id: *last, ioc: id, kind, name, callback };
                                sink.push(Event { time, fact: Fact::ScanList(list) });
                                *last
                            })
                        }
                    },
                    Some(Place::None) => {
                        self.waiting.push((record, address));
                        None
                    }
                    Some(Place::Passive) | None => None,
                };
                let before = match list {
                    Some(list) => self.placed.insert(record, list),
                    None => self.placed.remove(&record),
                };
                if before != list {
                    sink.push(Event { time, fact: Fact::RecordScan(RecordScan { record, list }) });
                }
            }
        }
    }

    /// Looks those up again that should be on a list and were on none, when it is time to.
    pub fn look_again(
        &mut self,
        time: u64,
        id: IocId,
        ioc: &IocProcess,
        last: &mut ScanListId,
        sink: &mut dyn Sink,
    ) {
        if self.waiting.is_empty() || time < self.next {
            return;
        }
        let mut waiting = std::mem::take(&mut self.waiting);
        waiting.sort_unstable();
        waiting.dedup();
        self.look(time, id, ioc, &waiting, last, sink);
        // one that has come to be means that others will
        let slower = if self.waiting.len() < waiting.len() { 0 } else { self.pause * 2 };
        self.pause = slower.clamp(SHORTEST_PAUSE, LONGEST_PAUSE);
        self.next = time + self.pause;
    }
}
