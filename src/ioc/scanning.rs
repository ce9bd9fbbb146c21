//! The scan list that a record is on (dbScan.c).
//!
//! A record whose SCAN is not Passive has in SPVT a scan_element, which points to a scan_list and back to the
//! record. A scan list is part of a larger structure, which has the CALLBACK by which a callback thread is asked to
//! process the list. `callbackRequest` is called with that CALLBACK, which thus links the request to the records that
//! it processes.
//!
//! | list of | Base | the CALLBACK |
//! |---|---|---|
//! | a period | all | none: a thread of its own |
//! | I/O Intr | all | right before the scan_list (io_scan_list) |
//! | an event | 3.14 | right before the scan_list (event_scan_list) |
//! | an event | from 3.15 on | event_list: three CALLBACKs, three scan_lists, next, the name |
//!
//! Only consistent data is accepted: an element must point back to its record, and a CALLBACK must have a valid
//! priority and a user pointer that leads to its list.

use iocrec_log::event::ScanKind;

use crate::ioc::layout::{Layout, Scanning};
use crate::ioc::offsets::Scan;
use crate::linux::memory::Memory;
use crate::linux::width::u32_at;

/// The first choices of menuScan; periods follow. Sites add periods, never before these.
const PASSIVE: u16 = 0;
const EVENT: u16 = 1;
const IO_INTERRUPT: u16 = 2;
/// NUM_CALLBACK_PRIORITIES.
const PRIORITIES: u64 = 3;
/// Longest name of an event: EVNT is a string of 40 characters.
const MAX_EVENT: usize = epics::limits::MAX_STRING_SIZE;
/// Records read by one system call, as for their names.
pub const BATCH: usize = 512;

/// Place where a record is scanned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// SCAN is Passive.
    Passive,
    /// On the list at `list`.
    On {
        /// Address of the scan_list.
        list: u64,
        /// SCAN.
        scan: u16,
    },
    /// SCAN is not Passive, but the record is on no list: iocInit has not reached it, or the event does not exist.
    None,
}

/// A scan list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListAt {
    /// Its trigger.
    pub kind: ScanKind,
    /// The period as in SCAN, or the event's name or number; empty for I/O Intr.
    pub name: String,
    /// Address of its CALLBACK; 0 for a period.
    pub callback: u64,
}

/// Finds where records are scanned. Takes three system calls in total if all can be read. `None` for a record that
/// could not be read.
pub fn places(memory: &Memory, fields: &Scanning, records: &[u64]) -> Vec<Option<Place>> {
    let (offsets, width) = (Scan::of(memory.width()), memory.width());
    let scans = memory.each::<2>(records.iter().map(|record| record.wrapping_add(fields.scan.offset.into())));
    let scans: Vec<Option<u16>> = scans.into_iter().map(|scan| scan.map(u16::from_ne_bytes)).collect();
    // to look up: the record's index, its address, SCAN
    let scanned: Vec<(usize, u64, u16)> = (0..)
        .zip(records.iter().zip(&scans))
        .filter_map(|(number, (record, scan))| Some((number, *record, scan.filter(|scan| *scan != PASSIVE)?)))
        .collect();
    let mut places: Vec<Option<Place>> = scans.into_iter().map(|scan| scan.map(|_| Place::Passive)).collect();
    let mut put = |number: usize, found| {
        if let Some(place) = places.get_mut(number) {
            *place = found;
        }
    };
    let elements =
        pointers(memory, scanned.iter().map(|(_, record, _)| record.wrapping_add(fields.spvt.into())));
    let mut with_element = Vec::with_capacity(scanned.len());
    for (element, place) in elements.into_iter().zip(scanned) {
        match element {
            Some(0) => put(place.0, Some(Place::None)),
            None => put(place.0, None),
            Some(element) => with_element.push((element, place)),
        }
    }
    let bytes =
        memory.each_head::<32>(with_element.iter().map(|(element, _)| *element), offsets.element_bytes);
    for (bytes, (_, (number, record, scan))) in bytes.into_iter().zip(with_element) {
        let pointer = |at| bytes.map(|bytes| width.pointer(&bytes, at));
        let own = pointer(offsets.element_record) == Some(record);
        let found = pointer(offsets.element_list).filter(|_| own);
        put(number, found.map(|list| if list == 0 { Place::None } else { Place::On { list, scan } }));
    }
    places
}

fn pointers(memory: &Memory, addresses: impl Iterator<Item = u64>) -> Vec<Option<u64>> {
    let width = memory.width();
    let bytes = memory.each_head::<8>(addresses, width.bytes());
    bytes.into_iter().map(|bytes| bytes.map(|bytes| width.pointer(&bytes, 0))).collect()
}

/// Describes the list that a record is on; `None` if it is implausible. `periods` are the choices of menuScan.
pub fn list(
    memory: &Memory,
    layout: &Layout,
    record: u64,
    list: u64,
    scan: u16,
    periods: &[String],
) -> Option<ListAt> {
    match scan {
        PASSIVE => None,
        EVENT => event(memory, layout, record, list),
        IO_INTERRUPT => {
            let callback = right_before(memory, list)?;
            Some(ListAt { kind: ScanKind::IoInterrupt, name: String::new(), callback })
        }
        period => {
            let name = periods.get(usize::from(period))?.clone();
            Some(ListAt { kind: ScanKind::Periodic, name, callback: 0 })
        }
    }
}

/// What Base keeps of a list that is scanned periodically (periodic_scan_list).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PeriodicAt {
    /// Its period, seconds.
    pub period: f64,
    /// Address of the count of its overruns, an unsigned long.
    pub overruns: u64,
}

/// The rest of the structure that begins with a periodic scan_list: period, name, overruns. `None` if it is not like
/// that, as in early Bases: then the name is not where it should be.
pub fn periodic(memory: &Memory, list: u64, name: &str) -> Option<PeriodicAt> {
    let width = memory.width();
    // i386 aligns doubles to 4 bytes, 32-bit ARM to 8
    let places: &[u64] = width.pick(&[20, 24], &[40]);
    places.iter().find_map(|place| {
        let at = list.checked_add(*place)?;
        let period = f64::from_ne_bytes(memory.bytes(at)?);
        let text = memory.string(memory.pointer(at.checked_add(8)?)?, name.len() + 1)?;
        let overruns = at.checked_add(8 + width.bytes() as u64)?;
        (text == name && period > 0.0 && period < 1e6).then_some(PeriodicAt { period, overruns })
    })
}

/// A CALLBACK's priority and user pointer.
fn callback(memory: &Memory, address: u64) -> Option<(u64, u64)> {
    let offsets = Scan::of(memory.width());
    let bytes: [u8; 32] = memory.head(address, usize::try_from(offsets.callback_bytes).ok()?)?;
    let priority = u64::from(u32_at(&bytes, offsets.priority));
    (priority < PRIORITIES).then(|| (priority, memory.width().pointer(&bytes, offsets.user)))
}

/// The CALLBACK right before a list. In 3.14 its user pointer leads to itself, later to the ioscan_head, which has such
/// a pair for each priority after its first pointer.
fn right_before(memory: &Memory, list: u64) -> Option<u64> {
    let offsets = Scan::of(memory.width());
    let at = list.checked_sub(offsets.callback_bytes)?;
    let (priority, user) = callback(memory, at)?;
    let head = at.checked_sub(
        memory.width().bytes() as u64 + priority * (offsets.callback_bytes + offsets.list_bytes),
    );
    (user == at || Some(user) == head).then_some(at)
}

fn event(memory: &Memory, layout: &Layout, record: u64, list: u64) -> Option<ListAt> {
    let offsets = Scan::of(memory.width());
    let found = |name: String, callback| Some(ListAt { kind: ScanKind::Event, name, callback });
    for priority in 0..PRIORITIES {
        let lists = PRIORITIES * offsets.callback_bytes;
        let Some(start) = list.checked_sub(lists + priority * offsets.list_bytes) else { continue };
        let at = start + priority * offsets.callback_bytes;
        if callback(memory, at) == Some((priority, list)) {
            let name = start + lists + PRIORITIES * offsets.list_bytes + memory.width().bytes() as u64;
            return found(memory.string(name, MAX_EVENT).unwrap_or_default(), at);
        }
    }
    // 3.14: events are numbers
    let at = right_before(memory, list)?;
    let number = memory.bytes::<2>(record.wrapping_add(layout.scanning.as_ref()?.evnt.into()))?;
    found(i16::from_ne_bytes(number).to_string(), at)
}

#[cfg(test)]
mod tests;
