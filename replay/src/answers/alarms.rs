//! Alarms, one change at a time.

mod changes;

pub(crate) use changes::{Changes, LETTING_GO};

use crate::answers::inputs::all_inputs;
use crate::answers::processes::Processes;
use crate::filter::Filter;
use crate::logs::Logs;
use crate::model::alarms::AlarmLine;
use crate::model::origins::Origins;
use crate::model::replay::Replay;
use crate::notices::Notice;
use crate::wording::cause;
use std::rc::Rc;

impl Logs {
    /// The changes of alarms that match, in order of time; then the alarms that last at the end.
    ///
    /// ```
    /// # let log = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/travelled/x86_64-6.1/log");
    /// use iocreplay::{Filter, Logs};
    ///
    /// let filter = Filter::default();
    /// let severe = Logs::open([log])?.alarms(&filter).at_least(2);
    /// assert_eq!(severe.count(), 0);
    /// # Ok::<(), iocreplay::OpenError>(())
    /// ```
    pub fn alarms<'a>(&self, filter: &'a Filter) -> Alarms<'a> {
        Alarms::new(self.replay(filter), self.changes(filter, Rc::new(Processes::read(self))))
    }

    /// What makes changes of alarms of chains, of these processes.
    pub(crate) fn changes<'a>(&self, filter: &'a Filter, processes: Rc<Processes>) -> Changes<'a> {
        let until = filter.until.map(|until| self.even(until));
        let (links, sources) = all_inputs(self);
        let origins = Origins::of_sources(cause::of_root, sources).with_inputs(links);
        Changes::new(filter, processes, (until, self.end()), origins).skipping(self.leaps())
    }
}

/// The changes of alarms that match a filter, in order of time; then the alarms that still last.
pub struct Alarms<'a> {
    replay: Replay,
    changes: Changes<'a>,
}

impl<'a> Alarms<'a> {
    /// The changes that these chains show.
    pub(crate) fn new(replay: Replay, changes: Changes<'a>) -> Self {
        Alarms { replay: replay.with_asides(), changes }
    }

    /// Gives all changes, also those of records that flap.
    pub fn with_all(self) -> Self {
        Alarms { changes: self.changes.with_all(), ..self }
    }

    /// Gives changes without how long alarms lasted, as soon as the rest is known: fewer of them are held. Ask for it after
    /// [`Alarms::with_all`].
    pub fn without_durations(self) -> Self {
        Alarms { changes: self.changes.without_durations(), ..self }
    }

    /// Leaves out changes that neither come from nor lead to a severity of at least this.
    pub fn at_least(self, severity: u16) -> Self {
        Alarms { changes: self.changes.at_least(severity), ..self }
    }

    /// Gives each change the ids of its span, which are those of the chains
    /// ([`Logs::chains`](crate::Logs::chains)).
    pub fn with_ids(self) -> Self {
        Alarms { changes: self.changes.with_ids(), ..self }
    }
}

impl Iterator for Alarms<'_> {
    type Item = AlarmLine;

    fn next(&mut self) -> Option<AlarmLine> {
        loop {
            if let Some(line) = self.changes.line() {
                return Some(line);
            }
            if self.changes.is_finished() {
                return None;
            }
            let chain = self.replay.next();
            let began =
                chain.as_ref().map(|chain| chain.root().map_or(i64::MIN, |root| chain.run.even(root.start)));
            while let Some(aside) = self.replay.aside(began.unwrap_or(i64::MAX)) {
                self.changes.aside(aside);
            }
            match chain {
                Some(chain) => self.changes.push(chain, None, self.replay.earliest()),
                None => self.changes.finish(),
            }
            if self.changes.is_finished() && self.changes.hurried() > 0 {
                self.replay.notices().report(&Notice::AlarmsHurried { count: self.changes.hurried() });
            }
        }
    }
}
