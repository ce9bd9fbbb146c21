//! Facts beside the chains: what the recorder read or lost, in order of time.
//!
//! Chains show what happened; a snapshot shows what was there, and a loss what may have happened unseen. Whoever follows
//! values or alarms over time needs all of them in one order ([`Replay::aside`](super::replay::Replay::aside)).

use super::run::Run;
use super::said::Said;
use iocrec_log::event::{Event, Fact};
use std::collections::BTreeMap;
use std::rc::Rc;

/// Facts held until they are taken, which is when the chains around them are given out; a bound for hostile logs. A
/// snapshot has one fact for each record of an IOC.
const MAX_HELD: usize = 500_000;

/// A fact beside the chains.
pub struct Aside {
    /// Wall-clock time, nanoseconds since 1970 UTC.
    pub time: i64,
    /// Monotonic time.
    pub at: u64,
    /// The run that recorded it.
    pub run: Rc<Run>,
    /// What it says.
    pub what: What,
}

/// What a fact beside the chains says.
pub enum What {
    /// A fact about a record, an operator's mark, or a loss: [`Snapshot`](iocrec_log::event::Snapshot),
    /// [`SnapshotEnd`](iocrec_log::event::SnapshotEnd), [`Properties`](iocrec_log::event::Properties), mark,
    /// [`Loss`](iocrec_log::event::Loss), [`ChainsLeftOut`](iocrec_log::event::ChainsLeftOut), the begin and the end of the time in which an IOC's hits were taken, the end of an IOC.
    Fact(Fact),
    /// Something that an IOC said.
    Said(Box<Said>),
    /// Something is missing here: damage, segments that were not copied, or more facts than can be held.
    Missing,
}

/// Facts beside the chains, held in order of time.
#[derive(Default)]
pub struct Asides {
    held: BTreeMap<(i64, u64), Aside>,
    count: u64,
    /// Whether the last was left out, since there were too many.
    full: bool,
    /// Whether only what was said is wanted.
    only_said: bool,
}

impl Asides {
    /// Of what is said alone.
    pub fn only_said() -> Self {
        Asides { only_said: true, ..Asides::default() }
    }

    /// Takes note of an event, if it is such a fact.
    pub fn note(&mut self, run: &Rc<Run>, event: &Event) {
        let wanted = matches!(
            event.fact,
            Fact::Snapshot(_)
                | Fact::SnapshotEnd(_)
                | Fact::Properties(_)
                | Fact::Mark(_)
                | Fact::Loss(_)
                | Fact::ChainsLeftOut(_)
                | Fact::Attached(_)
                | Fact::Detached(_)
                | Fact::IocEnd(_)
        );
        if wanted && !self.only_said {
            self.hold(run, event.time, What::Fact(event.fact.clone()));
        }
    }

    /// Takes what was said in a run.
    pub fn said(&mut self, run: &Rc<Run>, said: Said) {
        self.hold(run, said.at, What::Said(Box::new(said)));
    }

    /// Notes that a part of the run is missing after this monotonic time.
    pub fn gap(&mut self, run: &Rc<Run>, at: u64) {
        if !self.only_said {
            self.hold(run, at, What::Missing);
        }
    }

    fn hold(&mut self, run: &Rc<Run>, at: u64, what: What) {
        let was_full = std::mem::replace(&mut self.full, self.held.len() >= MAX_HELD);
        // What is left out is missing, which is said once.
        let what = match (was_full, self.full) {
            (_, false) => what,
            (false, true) => What::Missing,
            (true, true) => return,
        };
        let time = run.wall(at);
        self.count += 1;
        self.held.insert((run.even(at), self.count), Aside { time, at, run: Rc::clone(run), what });
    }

    /// The earliest that is older than `before` (in the order of time, [`Run::even`]).
    pub fn take(&mut self, before: i64) -> Option<Aside> {
        let first = self.held.first_entry()?;
        (first.key().0 < before).then(|| first.remove())
    }
}
