//! What comes in a namespace, and when it is noted.

use iocrec_log::event::Address;

use super::SECOND;
use crate::net::udp::busiest::Busiest;

/// Requests a second from which the load is noted, even if all of them are counted by name.
const MANY: u64 = 500;

/// Time between notes of the load while it lasts.
const LOAD: u64 = 10 * SECOND;

/// Time between notes of the load otherwise: they show that datagrams are read at all.
const CALM: u64 = 600 * SECOND;

/// What came in a namespace since `since`.
#[derive(Debug, Default)]
pub(super) struct Load {
    pub(super) since: u64,
    pub(super) datagrams: u64,
    pub(super) names: u64,
    pub(super) left_out: u64,
    pub(super) cut: u64,
    pub(super) unread: u64,
    pub(super) one_in: u32,
    pub(super) senders: Busiest<Address>,
}

impl Load {
    pub(super) fn starting(since: u64) -> Load {
        Load { since, one_in: 1, ..Load::default() }
    }

    /// Whether it is to be noted soon: it is large, or something in it is in no other fact.
    pub(super) fn is_high(&self) -> bool {
        self.names >= MANY || self.one_in > 1 || self.left_out + self.cut + self.unread > 0
    }

    pub(super) fn add(&mut self, other: &Load) {
        self.datagrams += other.datagrams;
        self.names += other.names;
        self.left_out = self.left_out.saturating_add(other.left_out);
        self.cut += other.cut;
        self.unread = self.unread.saturating_add(other.unread);
        self.one_in = self.one_in.max(other.one_in);
        for (sender, count) in other.senders.first(usize::MAX) {
            self.senders.add(sender, count);
        }
    }
}

/// The loads of a namespace: of this second, of the calm before it, of the storm that lasts.
#[derive(Debug)]
pub(super) struct Loads {
    pub(super) second: Load,
    pub(super) calm: Load,
    /// With the time of its last note, if there was one.
    pub(super) storm: Option<(Load, Option<u64>)>,
}

impl Loads {
    pub(super) fn starting(now: u64) -> Loads {
        Loads { second: Load::starting(now), calm: Load::starting(now), storm: None }
    }

    /// Ends a second; returns the load to be noted.
    pub(super) fn end_second(&mut self, now: u64) -> Vec<Load> {
        let second = std::mem::replace(&mut self.second, Load::starting(now));
        let mut noted = Vec::new();
        if second.is_high() && self.storm.is_none() {
            self.storm = Some((Load::starting(second.since), None));
        }
        let is_calm = !second.is_high();
        match &mut self.storm {
            Some((storm, last)) => {
                // so that a reader can tell from the numbers how many there were
                if storm.one_in != second.one_in && storm.datagrams > 0 {
                    noted.push(std::mem::replace(storm, Load::starting(second.since)));
                }
                storm.add(&second);
                if is_calm || last.is_none_or(|last| now.saturating_sub(last) >= LOAD) {
                    noted.push(std::mem::replace(storm, Load::starting(now)));
                    *last = Some(now);
                }
            }
            None => self.calm.add(&second),
        }
        if is_calm {
            self.storm = None;
        }
        if now.saturating_sub(self.calm.since) >= CALM {
            noted.push(std::mem::replace(&mut self.calm, Load::starting(now)));
        }
        noted
    }
}
