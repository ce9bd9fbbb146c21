//! What a keeper of definitions does, whatever their kind: let them come into force, repeat them, end them.

use super::budget::Share;
use crate::event::life::Ended;
use crate::event::{RecordId, ThreadId};

/// What decides if another definition may be kept.
pub(super) struct Admission<'a> {
    /// Bytes that all definitions of the context take.
    pub held: usize,
    /// Bytes that they may take.
    pub limit: usize,
    pub share: &'a mut Share,
    /// How many were refused so far.
    pub refused: &'a mut u64,
}

impl Admission<'_> {
    /// May this many more bytes be kept? If not, a definition is refused.
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

/// What is still in force after an IOC has ended, of what owns other definitions.
pub(super) trait Owners {
    /// Is this thread?
    fn has_thread(&self, thread: ThreadId) -> bool;

    /// Is this record?
    fn has_record(&self, record: RecordId) -> bool;
}

/// Keeps the definitions of a kind.
pub(super) trait Store: Default {
    /// The definition.
    type Of;
    /// See [`Definition::PLACE`].
    const PLACE: Option<(u16, u16)> = None;

    /// A definition comes into force at a time, if there is room.
    fn begin(&mut self, time: u64, definition: &Self::Of, admission: &mut Admission);

    /// Bytes that the definitions take.
    fn weight(&self) -> usize {
        0
    }

    /// The definitions in force, by their keys, each with the time `now` or one of its own.
    fn again(&self, now: u64) -> impl Iterator<Item = (u64, Self::Of)>;

    /// Ends the definition that ends by itself. Costs little, whatever is kept.
    fn end(&mut self, _: Ended) {}

    /// Ends what belongs to something that has ended. May look at all that is kept.
    fn end_owned(&mut self, _: Ended, _: &dyn Owners, _: &Share) {}
}
