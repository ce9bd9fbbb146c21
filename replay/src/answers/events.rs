//! Events, one after the other, as they were recorded.

use crate::logs::Logs;
use crate::model::run::Run;
use crate::model::source::{Item, Source};
use iocrec_log::event::Event;
use std::rc::Rc;

impl Logs {
    /// All events of all runs in order of time.
    ///
    /// ```
    /// # let log = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/travelled/x86_64-6.1/log");
    /// use iocreplay::{event::Fact, Logs};
    ///
    /// let logs = Logs::open([log])?;
    /// let completed = logs.events().filter(|event| matches!(event.event.fact, Fact::Complete(_))).count();
    /// assert!(completed > 100);
    /// # Ok::<(), iocreplay::OpenError>(())
    /// ```
    pub fn events(&self) -> Events {
        Events::new(self.sources(None, None))
    }

    /// Those of them from `since` (wall-clock time) on that the recorder noted, such as losses, and a few others. Nothing from
    /// `until` on is wanted, though it may be among them.
    pub fn noted(&self, since: Option<i64>, until: Option<i64>) -> Events {
        let sources = self.sources(since, until).into_iter();
        Events::new(match self.uses_index() {
            true => sources.map(Source::only_notes).collect(),
            false => sources.collect(),
        })
    }
}

/// An event and its run.
pub struct RunEvent {
    /// Wall-clock time, nanoseconds since 1970 UTC.
    pub time: i64,
    /// The event, with its monotonic time.
    pub event: Event,
    /// The run, with the definitions that the event's numbers refer to. They are those in effect at this event only
    /// until the next one is read.
    pub run: Rc<Run>,
}

/// The events of logs in order of time. Definitions are not returned as events: they take effect in the run.
pub struct Events {
    sources: Vec<Source>,
}

impl Events {
    pub(crate) fn new(sources: Vec<Source>) -> Self {
        Events { sources }
    }
}

impl Iterator for Events {
    type Item = RunEvent;

    fn next(&mut self) -> Option<RunEvent> {
        loop {
            let next = |(number, source): (usize, &mut Source)| Some((source.peek()?, number));
            let earliest = self.sources.iter_mut().enumerate().filter_map(next).min();
            let Some((_, earliest)) = earliest else {
                // nor are their definitions needed, 17 MB of 100,000 records and channels
                self.sources = Vec::new();
                return None;
            };
            let source = self.sources.get_mut(earliest)?;
            if let Some(Item::Event(event)) = source.next() {
                let run = Rc::clone(&source.run);
                return Some(RunEvent { time: run.wall(event.time), event, run });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_the_end_no_definitions_are_held() {
        let log = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/travelled/x86_64-6.1/log");
        let mut events = Logs::open([log]).unwrap().events();
        let run = events.next().map(|event| Rc::downgrade(&event.run)).unwrap();
        assert!(run.upgrade().is_some());
        assert!(events.by_ref().count() > 0);
        assert!(run.upgrade().is_none());
        assert!(events.next().is_none());
    }
}
