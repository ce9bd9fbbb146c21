//! Process chains, one after the other.

use crate::filter::Filter;
use crate::logs::Logs;
use crate::model::chain::Chain;
use crate::model::replay::Replay;

impl Logs {
    /// The process chains that match, in the order in which they began.
    ///
    /// ```
    /// # let log = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/travelled/x86_64-6.1/log");
    /// use iocreplay::{Filter, Logs};
    ///
    /// let logs = Logs::open([log])?;
    /// let filter = Filter::default();
    /// let longest = logs.chains(&filter).max_by_key(|chain| chain.spans.len());
    /// assert!(longest.is_some_and(|chain| chain.spans.len() > 3));
    /// # Ok::<(), iocreplay::OpenError>(())
    /// ```
    pub fn chains<'a>(&self, filter: &'a Filter) -> Chains<'a> {
        Chains::new(self.replay_chains(filter), filter)
    }
}

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
