//! The operations of a store of definitions of any kind: bring them into force, repeat them, end them.

use super::budget::Share;
use crate::event::life::Ended;
use crate::event::{RecordId, ThreadId};

/// Decides whether another definition may be kept.
pub(super) struct Admission<'a> {
    /// Size of all definitions of the context, bytes.
    pub held: usize,
    /// Maximum of that size.
    pub limit: usize,
    pub share: &'a mut Share,
    /// Number of definitions refused so far.
    pub refused: &'a mut u64,
}

impl Admission<'_> {
    /// Returns whether this many more bytes may be kept. If not, counts a refused definition.
    pub fn admits(&mut self, weight: usize) -> bool {
        self.share.earn();
        let all = self.held.saturating_add(weight);
        let fits = all <= self.limit && self.share.take(all);
        *self.refused += u64::from(!fits);
        fits
    }

    /// Refuses a definition.
    pub fn refuse(&mut self) {
        *self.refused += 1;
    }
}

/// The owners of other definitions that are still in force after an IOC has ended.
pub(super) trait Owners {
    /// Whether this thread is in force.
    fn has_thread(&self, thread: ThreadId) -> bool;

    /// Whether this record is in force.
    fn has_record(&self, record: RecordId) -> bool;
}

/// Keeps the definitions of a kind.
pub(super) trait Store: Default {
    /// The definition.
    type Of;
    /// See [`Definition::PLACE`].
    const PLACE: Option<(u16, u16)> = None;

    /// Brings a definition into force at a time, if there is room.
    fn begin(&mut self, time: u64, definition: &Self::Of, admission: &mut Admission);

    /// Size of the definitions, bytes.
    fn weight(&self) -> usize {
        0
    }

    /// The definitions in force, in the order of their keys, each with the time `now` or its own.
    fn again(&self, now: u64) -> impl Iterator<Item = (u64, Self::Of)>;

    /// Ends the definition that `Ended` names directly. Costs little, however many are kept.
    fn end(&mut self, _: Ended) {}

    /// Ends the definitions whose owner has ended. May examine all that are kept.
    fn end_owned(&mut self, _: Ended, _: &dyn Owners, _: &Share) {}
}
