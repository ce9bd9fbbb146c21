//! Process chains, one after the other.

use crate::filter::Filter;
use crate::model::chain::Chain;
use crate::model::replay::Replay;

/// The process chains of logs that match a filter, in the order in which they began.
pub struct Chains<'a> {
    replay: Replay,
    filter: &'a Filter,
}

impl<'a> Chains<'a> {
    pub(crate) fn new(replay: Replay, filter: &'a Filter) -> Self {
        Chains { replay, filter }
    }
}

impl Iterator for Chains<'_> {
    type Item = Chain;

    fn next(&mut self) -> Option<Chain> {
        self.replay.find(|chain| self.filter.chain(chain))
    }
}
