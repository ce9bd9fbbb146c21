//! Requests for scanning: the event or interrupt (I/O Intr) that made a callback thread process a record.
//!
//! `postEvent` and `scanIoRequest` hand a CALLBACK to `callbackRequest`; a callback thread then processes the records
//! of its scan list. The log holds the list that a record is on and the list's CALLBACK, so a pointer ties the two.
//! Requests of one CALLBACK are carried out in order, each record once: a record that comes again begins the next.
//!
//! In thinned logs, a request's records may have been left out: then the newest request counts, which a callback thread
//! that keeps up carries out at once.
//!
//! If the log does not hold the list (it was read from an IOC that could not be inspected, or is old), the list is
//! learned when only one CALLBACK was requested, and known from then on; if more than one can be the cause, none is
//! named.

use super::chain::Trigger;
use super::numbered::Numbered;
use super::open_chains::SpanRef;
use crate::time::SECOND;
use iocrec_log::event::{CallSiteId, IocId, RecordId, ScanKind, ScanList, ScanListId, ThreadId};
use std::collections::VecDeque;

/// Longest wait of a request for its callback thread.
const WAIT: u64 = 10 * SECOND;
/// Longest wait for a list's next record, if the IOC's memory does not show that it is on the list.
const WORK: u64 = SECOND;
/// A callback thread that does nothing for this time has finished: earlier requests to it were refused because its
/// queue was full.
const QUIET: u64 = SECOND;
/// Requests remembered: a callback thread's queue holds 2000.
const MAX_PENDING: usize = 20_000;
/// Records whose lists are remembered, and lists; a bound for hostile logs.
const MAX_LISTS: usize = 1_000_000;

/// A CALLBACK: its address is valid in one process only.
pub type Callback = (IocId, u64);

/// A request for the records of a scan list.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// Time of the request.
    pub time: u64,
    /// The CALLBACK: one per list.
    pub callback: Callback,
    /// Event or I/O Intr.
    pub trigger: Trigger,
    /// The record's processing in which it was made, if any.
    pub within: Option<SpanRef>,
    /// The thread that made it.
    pub thread: ThreadId,
    /// Its function, which called `scanIoRequest` or `postEvent`; 0 if unknown.
    pub site: CallSiteId,
}

/// The list that a record is on, by the IOC's memory.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// The list.
    pub list: ScanListId,
    /// The trigger of its processing.
    pub trigger: Trigger,
    /// Its CALLBACK; `None` for a period.
    pub callback: Option<Callback>,
}

/// A pass of a thread over a list.
struct Run {
    request: Request,
    /// Rises with each pass.
    serial: u64,
    /// Time when it last processed a record.
    last: u64,
}

/// The requests that may still make records process.
#[derive(Default)]
pub struct Requests {
    places: Numbered<RecordId, Place>,
    /// All lists' CALLBACKs.
    callbacks: Numbered<Callback, Trigger>,
    /// Pending requests of each CALLBACK, the oldest first; no queue is empty.
    pending: Numbered<Callback, VecDeque<Request>>,
    count: usize,
    runs: Numbered<ThreadId, Run>,
    /// The thread that last carried out each CALLBACK.
    served: Numbered<Callback, ThreadId>,
    /// The pass in which each record was last processed.
    done: Numbered<RecordId, u64>,
    serial: u64,
    /// Whether chains are left out of the log.
    thinned: bool,
    /// The learned CALLBACK of a record whose list is not in the log.
    learned: Numbered<RecordId, Callback>,
}

impl Requests {
    /// Notes the list that a record is on from now on.
    pub fn place(&mut self, record: RecordId, list: Option<&ScanList>) {
        let Some(list) = list else {
            self.places.remove(&record);
            return;
        };
        let trigger = match list.kind {
            ScanKind::Periodic => Trigger::Scan,
            ScanKind::Event => Trigger::Event,
            ScanKind::IoInterrupt => Trigger::IoInterrupt,
        };
        let callback = (list.callback != 0).then_some((list.ioc, list.callback));
        if self.places.len() < MAX_LISTS && self.callbacks.len() < MAX_LISTS {
            self.places.insert(record, Place { list: list.id, trigger, callback });
            self.callbacks.extend(callback.map(|callback| (callback, trigger)));
        }
    }

    /// The list that a record is on, if known.
    pub fn place_of(&self, record: RecordId) -> Option<Place> {
        self.places.get(&record).copied()
    }

    /// Sets whether chains are left out of the log from now on.
    pub fn thin(&mut self, thinned: bool) {
        self.thinned = thinned;
    }

    /// The trigger that a CALLBACK serves, if it belongs to a list.
    pub fn trigger_of(&self, callback: Callback) -> Option<Trigger> {
        self.callbacks.get(&callback).copied()
    }

    /// The thread that last worked through the CALLBACK's list.
    pub fn served(&self, callback: Callback) -> Option<ThreadId> {
        self.served.get(&callback).copied()
    }

    /// Notes a request for a scan. `last`: time when the thread that last worked through this list was last seen.
    pub fn push(&mut self, request: Request, last: Option<u64>) {
        if self.count >= MAX_PENDING {
            self.clear();
        }
        let waiting = self.pending.entry(request.callback).or_default();
        if let Some(last) = last.filter(|last| last.saturating_add(QUIET) < request.time) {
            let before = waiting.len();
            waiting.retain(|refused| refused.time > last);
            self.count -= before - waiting.len();
        }
        waiting.push_back(request);
        self.count += 1;
    }

    /// The request for which a callback thread processes a record of a scan list, and whether it was an event or an
    /// interrupt (`sort`, if the caller shows it). Returns either only if nothing else is possible.
    pub fn cause(
        &mut self,
        time: u64,
        thread: ThreadId,
        record: RecordId,
        sort: Option<Trigger>,
    ) -> (Option<Request>, Trigger) {
        let is_interrupt = |trigger| matches!(trigger, Trigger::IoInterrupt | Trigger::Python);
        // a record moves without a put to SCAN in simulation mode: then the caller is right
        let fits = |trigger| sort.is_none_or(|sort| is_interrupt(sort) == is_interrupt(trigger));
        let place = self.place_of(record).filter(|place| fits(place.trigger));
        if let Some(Place { callback: Some(callback), trigger, .. }) = place {
            let request = self.take(time, thread, record, callback);
            return (request, request.map_or(trigger, |request| request.trigger));
        }
        let learned = self.learned.get(&record).copied();
        if let Some(request) = learned.and_then(|callback| self.take(time, thread, record, callback)) {
            return (Some(request), request.trigger);
        }
        let fits = |request: &&Request| request.time.saturating_add(WAIT) > time && fits(request.trigger);
        let own = self.runs.get(&thread).filter(|run| run.last.saturating_add(WORK) > time);
        let own = own.map(|run| &run.request).filter(fits).map(|request| (request.callback, request.trigger));
        let others = self.pending.values().filter_map(|waiting| waiting.iter().find(fits));
        let others = others.map(|request| (request.callback, request.trigger));
        let mut candidates =
            own.into_iter().chain(others.filter(|(callback, _)| own.is_none_or(|(own, _)| own != *callback)));
        let Some((callback, trigger)) = candidates.next() else {
            return (None, sort.unwrap_or(Trigger::Callback));
        };
        if let Some((_, second)) = candidates.next() {
            let same = trigger == second && candidates.all(|(_, other)| trigger == other);
            return (None, sort.unwrap_or(if same { trigger } else { Trigger::Callback }));
        }
        let request = self.take(time, thread, record, callback);
        if request.is_some() && self.learned.len() < MAX_LISTS {
            self.learned.insert(record, callback);
        }
        (request, trigger)
    }

    /// The request that the thread carries out when it processes the record for this CALLBACK.
    fn take(&mut self, time: u64, thread: ThreadId, record: RecordId, callback: Callback) -> Option<Request> {
        if let Some(run) = self.runs.get_mut(&thread) {
            let new = self.done.get(&record) != Some(&run.serial);
            if run.request.callback == callback && new && run.last.saturating_add(WORK) > time {
                run.last = time;
                self.done.insert(record, run.serial);
                return Some(run.request);
            }
        }
        self.runs.remove(&thread);
        let waiting = self.pending.get_mut(&callback)?;
        if self.thinned {
            self.count -= waiting.len().saturating_sub(1);
            waiting.drain(..waiting.len().saturating_sub(1));
        }
        let mut next = None;
        while let Some(request) = waiting.pop_front() {
            self.count -= 1;
            if request.time.saturating_add(WAIT) > time {
                next = Some(request);
                break;
            }
        }
        if waiting.is_empty() {
            self.pending.remove(&callback);
        }
        let request = next?;
        self.serial += 1;
        if self.done.len() < MAX_LISTS {
            self.done.insert(record, self.serial);
        }
        if self.served.len() < MAX_LISTS {
            self.served.insert(callback, thread);
        }
        self.runs.insert(thread, Run { request, serial: self.serial, last: time });
        Some(request)
    }

    /// Drops requests that have waited too long.
    pub fn forget(&mut self, now: u64) {
        let count = &mut self.count;
        self.pending.retain(|_, waiting| {
            let before = waiting.len();
            waiting.retain(|request| request.time.saturating_add(WAIT) > now);
            *count -= before - waiting.len();
            !waiting.is_empty()
        });
        self.runs.retain(|_, run| run.last.saturating_add(WORK) > now);
    }

    /// Handles a loss: requests may be missing, or may have been carried out unseen. The lists of records stay known.
    pub fn clear(&mut self) {
        self.pending.clear();
        self.count = 0;
        self.runs.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(time: u64, callback: u64, trigger: Trigger) -> Request {
        Request { time, callback: (1, callback), trigger, within: None, thread: 1, site: 0 }
    }

    fn list(id: ScanListId, kind: ScanKind, callback: u64) -> ScanList {
        ScanList { id, ioc: 1, kind, name: String::new(), callback }
    }

    #[test]
    fn a_list_is_learned_when_nothing_else_can_be_the_cause() {
        let mut requests = Requests::default();
        let is = |cause: (Option<Request>, Trigger), callback| {
            cause.0.is_some_and(|cause| cause.callback == (1, callback))
        };
        requests.push(request(1, 0x10, Trigger::Event), None);
        assert!(is(requests.cause(2, 7, 100, None), 0x10));
        // Now there are two candidates; one record's list is known.
        requests.push(request(3, 0x10, Trigger::Event), None);
        requests.push(request(3, 0x20, Trigger::IoInterrupt), None);
        let (cause, trigger) = requests.cause(4, 9, 200, None);
        assert!(cause.is_none() && trigger == Trigger::Callback);
        assert!(is(requests.cause(4, 8, 400, Some(Trigger::IoInterrupt)), 0x20));
        assert!(is(requests.cause(5, 7, 100, None), 0x10));
        // Both are events: that much is known.
        requests.push(request(6, 0x30, Trigger::Event), None);
        requests.push(request(6, 0x20, Trigger::Event), None);
        let (cause, trigger) = requests.cause(7, 9, 300, None);
        assert!(cause.is_none() && trigger == Trigger::Event);
    }

    /// Two lists, requested at the same time by several threads, worked through by two.
    #[test]
    fn a_pointer_tells_among_many() {
        let mut requests = Requests::default();
        for (record, on) in [(100, 1), (101, 1), (200, 2)] {
            requests.place(record, Some(&list(on, ScanKind::Event, 0x10 * u64::from(on))));
        }
        requests.place(300, Some(&list(3, ScanKind::Periodic, 0)));
        for time in [1, 2, 3] {
            requests.push(request(time, 0x10, Trigger::Event), None);
            requests.push(request(time + 10, 0x20, Trigger::Event), None);
        }
        let mut when = |time, thread, record| requests.cause(time, thread, record, None).0.map(|r| r.time);
        assert_eq!(when(20, 7, 100), Some(1));
        assert_eq!(when(21, 8, 200), Some(11));
        assert_eq!(when(22, 7, 101), Some(1));
        // again: the next request, in the order in which they were made
        assert_eq!((when(23, 7, 100), when(24, 7, 101)), (Some(2), Some(2)));
        assert_eq!((when(25, 8, 200), when(26, 9, 100)), (Some(12), Some(3)));
        assert_eq!((when(27, 9, 200), when(28, 9, 100)), (Some(13), None), "asked for three times");
        assert_eq!(requests.place_of(300).map(|place| place.trigger), Some(Trigger::Scan));
        requests.place(300, None);
        assert!(requests.place_of(300).is_none());
    }

    /// Of ten requests, the records of one are in the log.
    #[test]
    fn the_newest_request_counts_where_chains_are_left_out() {
        let mut requests = Requests::default();
        requests.place(100, Some(&list(1, ScanKind::IoInterrupt, 0x10)));
        requests.thin(true);
        for time in 1..=30 {
            requests.push(request(time * 1000, 0x10, Trigger::IoInterrupt), None);
            if time % 10 == 0 {
                let cause = requests.cause(time * 1000 + 1, 7, 100, None).0;
                assert_eq!(cause.map(|request| request.time), Some(time * 1000));
            }
        }
        assert_eq!(requests.count, 0);
    }

    #[test]
    fn requests_are_not_kept_for_ever() {
        let mut requests = Requests::default();
        requests.push(request(1, 0x10, Trigger::Event), None);
        assert!(requests.cause(WAIT + 2, 7, 100, None).0.is_none());
        // A request that a full queue has refused is not taken for a later one.
        requests.place(100, Some(&list(1, ScanKind::Event, 0x10)));
        let start = 2 * WAIT;
        (0..3).for_each(|time| requests.push(request(start + time, 0x10, Trigger::Event), None));
        assert!(requests.cause(start + 5, 7, 100, None).0.is_some());
        let later = start + 5 + 2 * QUIET;
        requests.push(request(later, 0x10, Trigger::Event), Some(start + 5));
        assert_eq!(requests.cause(later + 1, 7, 100, None).0.map(|request| request.time), Some(later));
        assert_eq!(requests.count, 0);
    }
}
