//! Requests for scanning: which event or interrupt (I/O Intr) made a callback thread process a record.
//!
//! `postEvent` and `scanIoRequest` hand a CALLBACK to `callbackRequest`; a callback thread then processes
//! the records of the scan list that belongs to it. The hits name the CALLBACK and, later, the records,
//! but not both. So a record's list is learned when only one CALLBACK was asked for, and known from then
//! on; where more than one can be the cause, none is named.

use super::forest::At;
use super::span::Trigger;
use crate::time::SECOND;
use iocrec_log::event::{RecordId, ThreadId};
use std::collections::HashMap;

/// How long a request may wait for its callback thread.
const WAIT: u64 = 10 * SECOND;
/// How long the records of a list that is being worked off may take.
const WORK: u64 = SECOND;
/// Requests that are remembered. More at once are too many to tell which is which.
const MAX_PENDING: usize = 64;
/// Records whose lists are remembered; a bound for hostile logs.
const MAX_LISTS: usize = 1_000_000;

/// A request for the records of a scan list.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// When.
    pub time: u64,
    /// The CALLBACK: one a list.
    pub callback: u64,
    /// Event or I/O Intr.
    pub trigger: Trigger,
    /// In this record's processing, if in any.
    pub within: Option<At>,
}

struct Pending {
    request: Request,
    /// The thread that works it off, and since when.
    working: Option<(ThreadId, u64)>,
}

/// The requests that may yet set records off.
#[derive(Default)]
pub struct Requests {
    pending: Vec<Pending>,
    lists: HashMap<RecordId, u64>,
}

impl Requests {
    /// A scan was asked for.
    pub fn push(&mut self, request: Request) {
        self.forget(request.time);
        self.pending.retain(|pending| pending.request.callback != request.callback);
        if self.pending.len() == MAX_PENDING {
            self.pending.remove(0);
        }
        self.pending.push(Pending { request, working: None });
    }

    /// A callback thread processes a record of a scan list: for what request, and whether it was an event or
    /// an interrupt (`sort`, where the caller tells). Either is known only where nothing else can be.
    pub fn cause(
        &mut self,
        time: u64,
        thread: ThreadId,
        record: RecordId,
        sort: Option<Trigger>,
    ) -> (Option<Request>, Trigger) {
        self.forget(time);
        let list = self.lists.get(&record);
        let mut fits = (0..).zip(&self.pending).filter(|(_, pending)| {
            let interrupt = matches!(pending.request.trigger, Trigger::IoInterrupt | Trigger::Python);
            sort.is_none_or(|sort| (sort == Trigger::IoInterrupt) == interrupt)
        });
        let known = fits.clone().find(|(_, pending)| list == Some(&pending.request.callback));
        let only = fits.next().filter(|_| fits.next().is_none());
        let number = known.or(only).map(|(number, _)| number);
        let Some(found) = number.and_then(|number: usize| self.pending.get_mut(number)) else {
            if let Some(sort) = sort {
                return (None, sort);
            }
            let mut triggers = self.pending.iter().map(|pending| pending.request.trigger);
            let first = triggers.next().unwrap_or(Trigger::Callback);
            let same = triggers.all(|trigger| trigger == first);
            return (None, if same { first } else { Trigger::Callback });
        };
        found.working.get_or_insert((thread, time));
        let request = found.request;
        if self.lists.len() < MAX_LISTS {
            self.lists.insert(record, request.callback);
        }
        // A thread works one list off after the other.
        self.pending.retain(|pending| {
            let other = pending.request.callback != request.callback;
            !(other && pending.working.is_some_and(|(by, _)| by == thread))
        });
        (Some(request), request.trigger)
    }

    fn forget(&mut self, now: u64) {
        self.pending.retain(|pending| match pending.working {
            Some((_, since)) => since.saturating_add(WORK) > now,
            None => pending.request.time.saturating_add(WAIT) > now,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(time: u64, callback: u64, trigger: Trigger) -> Request {
        Request { time, callback, trigger, within: None }
    }

    #[test]
    fn a_list_is_learned_when_nothing_else_can_be_the_cause() {
        let mut requests = Requests::default();
        requests.push(request(1, 0x10, Trigger::Event));
        assert!(requests.cause(2, 7, 100, None).0.is_some_and(|cause| cause.callback == 0x10));
        // Now two can be; one record's list is known.
        requests.push(request(3, 0x10, Trigger::Event));
        requests.push(request(3, 0x20, Trigger::IoInterrupt));
        let (cause, trigger) = requests.cause(4, 7, 200, None);
        assert!(cause.is_none() && trigger == Trigger::Callback);
        let (cause, trigger) = requests.cause(4, 8, 400, Some(Trigger::IoInterrupt));
        assert!(cause.is_some_and(|cause| cause.callback == 0x20) && trigger == Trigger::IoInterrupt);
        assert!(requests.cause(5, 7, 100, None).0.is_some_and(|cause| cause.callback == 0x10));
        // Both are of one sort: that much is known.
        requests.push(request(6, 0x30, Trigger::Event));
        requests.push(request(6, 0x20, Trigger::Event));
        let (cause, trigger) = requests.cause(7, 8, 300, None);
        assert!(cause.is_none() && trigger == Trigger::Event);
    }

    #[test]
    fn requests_are_not_kept_for_ever() {
        let mut requests = Requests::default();
        requests.push(request(1, 0x10, Trigger::Event));
        assert!(requests.cause(WAIT + 2, 7, 100, None).0.is_none());
    }
}
