//! Events that wait for the name of a call site.
//!
//! Another thread looks up in a symbol table which function a put or a cause comes from, and a definition precedes what
//! refers to it. So events wait behind a call site's definition until its function is known, usually some milliseconds.
//! They wait no longer than `MAX_WAIT`, and at most `MAX_EVENTS` of them wait; beyond that the function is unknown to them. When it
//! comes after all, as on a machine that is busy when the recorder starts, the call site is defined anew: later ones have it.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use iocrec_log::event::{CallSite, CallSiteId, Event, Fact};

use crate::linux::clock;
use crate::recorder::sink::Sink;
use crate::recorder::sources::{ROUND, UNTIL_WOKEN};

/// Longest wait of events, nanoseconds.
const MAX_WAIT: u64 = 1_000_000_000;
/// Most events that wait, some 2 MiB.
const MAX_EVENTS: usize = 16_384;
/// Most call sites whose function may come late: a few hundred bytes each.
const MAX_LATE: usize = 1_000;

/// Holds events back on their way to another sink.
pub struct Holding<'a> {
    sink: &'a mut dyn Sink,
    waiting: VecDeque<Event>,
    /// Call sites whose function is not known yet, and the deadline for each.
    awaited: HashMap<CallSiteId, u64>,
    /// Those for which nothing waits any more.
    late: Vec<CallSite>,
}

impl<'a> Holding<'a> {
    /// Puts itself in front of this sink.
    pub fn new(sink: &'a mut dyn Sink) -> Holding<'a> {
        Holding { sink, waiting: VecDeque::new(), awaited: HashMap::new(), late: Vec::new() }
    }

    /// Waits no longer for functions whose deadline has come.
    fn give_up(&mut self, now: u64) {
        for event in &self.waiting {
            let Fact::CallSite(site) = &event.fact else { continue };
            let is_due = self.awaited.get(&site.id).is_some_and(|until| *until <= now);
            if is_due && self.late.len() < MAX_LATE {
                self.late.push(CallSite::clone(site));
            }
        }
        self.awaited.retain(|_, until| now < *until);
        self.pass_on();
    }

    /// Passes on the events that no longer need to wait.
    fn pass_on(&mut self) {
        let awaited = &self.awaited;
        let is_awaited =
            |event: &Event| matches!(&event.fact, Fact::CallSite(site) if awaited.contains_key(&site.id));
        while self.waiting.front().is_some_and(|first| !is_awaited(first)) {
            self.waiting.pop_front().into_iter().for_each(|event| self.sink.push(event));
        }
        self.waiting.shrink_to(64);
    }
}

impl Sink for Holding<'_> {
    fn push(&mut self, event: Event) {
        if self.waiting.is_empty() {
            return self.sink.push(event);
        }
        self.waiting.push_back(event);
        if self.waiting.len() >= MAX_EVENTS {
            self.give_up(u64::MAX);
        }
    }

    fn tick(&mut self, now: u64) {
        if !self.awaited.is_empty() {
            self.give_up(now);
        }
        self.sink.tick(now);
    }

    fn await_site(&mut self, time: u64, site: CallSite) {
        self.awaited.insert(site.id, clock::monotonic().saturating_add(MAX_WAIT));
        self.waiting.push_back(Event { time, fact: Fact::from(site) });
    }

    fn site(&mut self, id: CallSiteId, function: String, module: String) {
        if self.awaited.remove(&id).is_none() {
            let Some(at) = self.late.iter().position(|site| site.id == id) else { return };
            let site = self.late.swap_remove(at);
            if !function.is_empty() {
                let module = if module.is_empty() { site.module } else { module };
                let fact = Fact::from(CallSite { function, module, ..site });
                self.push(Event { time: clock::monotonic(), fact });
            }
            return;
        }
        for event in &mut self.waiting {
            if let Fact::CallSite(site) = &mut event.fact {
                if site.id == id {
                    site.function = function;
                    if !module.is_empty() {
                        site.module = module;
                    }
                    break;
                }
            }
        }
        self.pass_on();
    }

    fn awaits(&self) -> bool {
        !self.awaited.is_empty()
    }

    fn rest(&self, now: u64) -> Duration {
        let own = if self.awaited.is_empty() { UNTIL_WOKEN } else { ROUND };
        own.min(self.sink.rest(now))
    }

    fn patience(&self) -> Duration {
        self.sink.patience()
    }

    fn inspecting(&mut self, since: Option<u64>) {
        self.sink.inspecting(since);
    }

    fn written(&self) -> Option<u64> {
        self.sink.written()
    }

    fn segments(&self) -> Option<u32> {
        self.sink.segments()
    }

    fn notice(&mut self) -> Option<String> {
        self.sink.notice()
    }
}

impl Drop for Holding<'_> {
    fn drop(&mut self) {
        self.awaited.clear();
        self.pass_on();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iocrec_log::event::Clock;

    #[derive(Default)]
    struct Seen(Vec<Event>);

    impl Sink for Seen {
        fn push(&mut self, event: Event) {
            self.0.push(event);
        }
        fn tick(&mut self, _: u64) {}
    }

    fn clock(time: u64) -> Event {
        Event { time, fact: Fact::Clock(Clock { wall: 0 }) }
    }

    fn site(id: CallSiteId) -> CallSite {
        CallSite { id, ioc: 1, address: 5, function: String::new(), module: String::new() }
    }

    fn names(seen: &Seen) -> Vec<String> {
        let name = |event: &Event| match &event.fact {
            Fact::CallSite(site) => format!("{} {}", site.id, site.function),
            _ => event.time.to_string(),
        };
        seen.0.iter().map(name).collect()
    }

    #[test]
    fn in_order_once_names_are_known() {
        let mut seen = Seen::default();
        let mut holding = Holding::new(&mut seen);
        holding.push(clock(1));
        holding.await_site(2, site(1));
        holding.push(clock(3));
        holding.await_site(4, site(2));
        holding.push(clock(5));
        holding.site(2, "seq".into(), "seq.so".into());
        holding.tick(clock::monotonic());
        assert_eq!(holding.waiting.len(), 4);
        holding.site(1, "dbpf".into(), "db.so".into());
        holding.push(clock(6));
        drop(holding);
        assert_eq!(names(&seen), ["1", "1 dbpf", "3", "2 seq", "5", "6"]);
    }

    #[test]
    fn nothing_waits_for_ever_nor_for_too_many() {
        let mut seen = Seen::default();
        let mut holding = Holding::new(&mut seen);
        holding.await_site(1, site(1));
        holding.push(clock(2));
        holding.tick(clock::monotonic() + 2 * MAX_WAIT);
        assert!(holding.waiting.is_empty());
        holding.await_site(3, site(2));
        (0..MAX_EVENTS as u64).for_each(|time| holding.push(clock(time)));
        assert!(holding.waiting.is_empty());
        holding.await_site(9, site(3));
        drop(holding);
        assert_eq!(names(&seen).len(), 2 + 1 + MAX_EVENTS + 1);
    }

    #[test]
    fn names_that_come_late_are_those_of_later_hits() {
        let mut seen = Seen::default();
        let mut holding = Holding::new(&mut seen);
        holding.await_site(1, site(1));
        holding.await_site(1, site(2));
        holding.await_site(1, site(3));
        holding.push(clock(2));
        holding.tick(clock::monotonic() + 2 * MAX_WAIT);
        holding.site(1, "dbpf".into(), "db.so".into());
        holding.push(clock(3));
        // nothing is known of it, or it was never asked for
        holding.site(2, String::new(), "db.so".into());
        holding.site(7, "seq".into(), "seq.so".into());
        // not twice, and in its order behind others that wait
        holding.site(1, "again".into(), "db.so".into());
        holding.await_site(4, site(4));
        holding.site(3, "dbtr".into(), "db.so".into());
        assert_eq!(holding.waiting.len(), 2);
        drop(holding);
        assert_eq!(names(&seen), ["1 ", "2 ", "3 ", "2", "1 dbpf", "3", "4 ", "3 dbtr"]);
    }
}
