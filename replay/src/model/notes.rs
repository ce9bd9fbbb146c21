//! Facts beside hits that bear on values: snapshots of records, and whatever may have gone unseen.
//!
//! A chain shows values that records got. Between two chains a record may have got others if hits were lost, segments
//! are missing, its IOC was not recorded or chains were left out on purpose, and it has none when its IOC has ended. A
//! [`Replay`](super::replay::Replay) notes these, in the order in which it reads each run: when it gives out a chain,
//! it has noted all that happened before that chain began.

use super::run::Run;
use crate::names::is_lost;
use iocrec_log::event::{Event, Fact, IocId, LossSource, RecordId, Snapshot, Tier};
use std::rc::Rc;

/// Bytes kept of a cause; a bound for hostile logs.
const MAX_CAUSE: usize = 200;

/// A moment, nanoseconds since 1970 UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// As the machine's clock had it.
    pub wall: i64,
    /// Its place in the order of time ([`Run::even`]).
    pub even: i64,
    /// Monotonic time in its run.
    pub at: u64,
}

impl Moment {
    /// The earlier one.
    pub fn min(self, other: Moment) -> Moment {
        match other.even < self.even {
            true => other,
            false => self,
        }
    }
}

/// A note.
pub struct Note {
    /// Of the snapshot, or when it was over or noted.
    pub time: Moment,
    /// Its run.
    pub run: Rc<Run>,
    /// Its content.
    pub what: What,
}

/// Contents of notes.
pub enum What {
    /// The first event of the run.
    Begin,
    /// The last event of the run.
    End,
    /// Segments are missing or damaged.
    Missing {
        /// The last event before them.
        since: Moment,
    },
    /// Hits were lost.
    Lost {
        /// The time before which nothing was lost.
        since: Moment,
        /// Number of events lost.
        count: u64,
        /// Why.
        cause: String,
    },
    /// Chains were left out on purpose.
    LeftOut {
        /// The record with which they began.
        record: RecordId,
        /// Number of chains.
        count: u64,
        /// Start of the first.
        since: Moment,
    },
    /// An IOC, as soon as the log names it.
    Ioc(IocId),
    /// An IOC is recorded from then on.
    Attached {
        /// The IOC.
        ioc: IocId,
        /// The last time before that was recorded, or the start of its process.
        since: Moment,
        /// Why there was a gap; empty if the process is older than the run.
        cause: String,
    },
    /// An IOC is no longer recorded, though it lives.
    Detached {
        /// The IOC.
        ioc: IocId,
        /// Since when.
        since: Moment,
        /// Why.
        cause: String,
    },
    /// An IOC has ended.
    Ended {
        /// The IOC.
        ioc: IocId,
        /// How; empty where not known.
        how: String,
    },
    /// A record as the recorder read it.
    Snapshot(Snapshot),
}

/// Takes notes of a run.
pub struct Notes {
    run: Rc<Run>,
    begun: bool,
    /// Monotonic time of the last event: wall-clock time is looked up only for notes, since there are millions of events.
    last: u64,
    /// Monotonic time of the last event before a part that is missing.
    missing: Option<u64>,
}

impl Notes {
    /// For the events of this run.
    pub fn new(run: Rc<Run>) -> Notes {
        Notes { run, begun: false, last: 0, missing: None }
    }

    /// Takes the next event.
    pub fn event(&mut self, event: &Event, notes: &mut Vec<Note>) {
        // a definition may be repeated with the time at which it was first written
        if !event.fact.class().defines() {
            if !self.begun {
                self.begun = true;
                self.push(event.time, What::Begin, notes);
            }
            if let Some(since) = self.missing.take() {
                self.push(event.time, What::Missing { since: self.moment(since) }, notes);
            }
            self.last = self.last.max(event.time);
        }
        if let Some(what) = self.what(&event.fact) {
            self.push(event.time.max(self.last), what, notes);
        }
    }

    /// Whether an event that is neither a definition nor a note leaves nothing to note but its time.
    pub fn is_calm(&self) -> bool {
        self.begun && self.missing.is_none()
    }

    /// Takes such events, the last of which came at this time.
    pub fn passed(&mut self, time: u64) {
        self.last = self.last.max(time);
    }

    /// Something is missing after the last event.
    pub fn gap(&mut self) {
        self.missing.get_or_insert(self.last);
    }

    /// The run has no more events.
    pub fn end(&mut self, notes: &mut Vec<Note>) {
        if self.begun {
            self.push(self.last, What::End, notes);
        }
    }

    fn push(&self, time: u64, what: What, notes: &mut Vec<Note>) {
        notes.push(Note { time: self.moment(time), run: Rc::clone(&self.run), what });
    }

    fn moment(&self, time: u64) -> Moment {
        Moment { wall: self.run.wall(time), even: self.run.even(time), at: time }
    }

    fn what(&self, fact: &Fact) -> Option<What> {
        let wall = |time| self.moment(time);
        let text = |text: &str| text.chars().take(MAX_CAUSE).collect::<String>();
        Some(match fact {
            Fact::Loss(loss) => {
                // Without probes, values come from packets.
                let by_packets = self.run.context().tier().is_some_and(|tier| tier.tier == Tier::Packet);
                let bears = match loss.source {
                    LossSource::Hits | LossSource::Storage => is_lost(loss),
                    LossSource::Packets | LossSource::Stream => by_packets,
                    LossSource::Names => false,
                };
                if !bears {
                    return None;
                }
                What::Lost { since: wall(loss.since), count: loss.count, cause: text(&loss.cause) }
            }
            Fact::ChainsLeftOut(left) => {
                What::LeftOut { record: left.record, count: left.count, since: wall(left.since) }
            }
            Fact::Ioc(ioc) => What::Ioc(ioc.id),
            Fact::Attached(attached) => {
                What::Attached { ioc: attached.ioc, since: wall(attached.from), cause: text(&attached.cause) }
            }
            Fact::Detached(detached) => What::Detached {
                ioc: detached.ioc,
                since: wall(detached.since),
                cause: text(&detached.cause),
            },
            Fact::IocEnd(end) => What::Ended { ioc: end.ioc, how: text(&end.how) },
            Fact::Snapshot(snapshot) => What::Snapshot(snapshot.clone()),
            _ => return None,
        })
    }
}
