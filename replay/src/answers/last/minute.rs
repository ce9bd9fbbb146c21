//! What is asked of the chains of the last minute beside what threads did: changes of alarms, and the puts of each client.
//!
//! The pass over the chains begins earlier, with the time that the minute is compared with. Alarms are told as if it had begun
//! with the minute.

use crate::answers::alarms::Changes;
use crate::answers::clients::Clients;
use crate::filter::Filter;
use crate::model::asides::Aside;
use crate::model::chain::Chain;
use crate::model::putlog::PutLine;
use crate::model::source::KEEP;
use std::rc::Rc;

/// See the module.
pub(super) struct Minute<'a> {
    /// The minute of the process.
    pub filter: &'a Filter,
    /// The number of the process.
    pub number: usize,
    pub changes: Changes<'a>,
    pub clients: Clients,
}

impl Minute<'_> {
    /// The wall-clock time from which on it would be read for the minute alone; `None` if that is the beginning.
    pub fn read_from(&self) -> Option<i64> {
        let before = i64::try_from(KEEP).unwrap_or(i64::MAX);
        self.filter.since.map(|since| since.saturating_sub(before))
    }

    fn is_read(&self, time: i64) -> bool {
        self.read_from().is_none_or(|from| time >= from)
    }

    /// Takes a fact beside the chains.
    pub fn aside(&mut self, aside: Aside) {
        if self.is_read(aside.time) {
            self.changes.aside(aside);
        }
    }

    /// Takes the next chain, the put that is its root, if there is one, and when the earliest began that is yet to come.
    pub fn push(&mut self, chain: Chain, root: Option<Rc<PutLine>>, earliest: i64) {
        let mut ends = chain.spans.iter().map(|span| span.end);
        if ends.any(|end| self.is_read(chain.run.wall(end))) {
            self.changes.push(chain, root, earliest);
        }
    }
}
