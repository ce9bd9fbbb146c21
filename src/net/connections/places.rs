//! Network namespaces: in which of them a connection counts.

use super::{Connections, Key};
use crate::net::connection::Shared;
use crate::net::packet::{End, Segment};
use crate::net::protocol::{Closing, Protocol};
use crate::net::served::Served;
use crate::net::Namespace;

impl<P: Protocol> Connections<P> {
    /// Sets the servers of each network namespace whose packets are captured. Closes connections in namespaces that are
    /// no longer among them: an inode number may become another namespace's.
    pub fn set_served(&mut self, now: u64, served: Vec<Served>, out: &mut P::Output) {
        let mut gone = std::mem::replace(&mut self.served, served);
        for served in &mut self.served {
            let before = gone.iter().find(|old| old.namespace == served.namespace);
            served.captured = served.captured.or(before.and_then(|old| old.captured));
        }
        gone.retain(|old| self.served(old.namespace).is_none());
        if gone.is_empty() {
            return;
        }
        let mut shared =
            Shared { limits: &self.limits, protocol: &mut self.protocol, buffered: &mut self.buffered, out };
        self.table.retain(|key, connection| {
            // keep one that was adopted in a namespace that is not known yet
            let kept = gone.iter().all(|gone| gone.namespace != key.0);
            if !kept {
                connection.flush(&mut shared);
                connection.end(now, Closing::Elsewhere, &mut shared);
            }
            kept
        });
    }

    /// Sets the namespaces whose packets are captured; those that were not before, since that time.
    pub fn set_captured(&mut self, since: u64, namespaces: &[Namespace]) {
        for served in &mut self.served {
            let is_captured = namespaces.contains(&served.namespace);
            served.captured = is_captured.then(|| served.captured.unwrap_or(since));
        }
    }

    /// The network namespace in which a connection counts if its client is in `namespace`: that of the server's
    /// address, if it is captured.
    pub fn home(&self, namespace: Namespace, server: impl Into<End>) -> Namespace {
        let server = server.into();
        if self.served(namespace).is_some_and(|served| served.has(server)) {
            return namespace;
        }
        let mut others = self.served.iter();
        others.find(|served| served.is_home(P::SERVICE, server)).map_or(namespace, |served| served.namespace)
    }

    /// The servers of a namespace.
    pub fn served(&self, namespace: Namespace) -> Option<&Served> {
        self.served.iter().find(|served| served.namespace == namespace)
    }

    /// Whether a server in this namespace has the port of this end.
    pub fn serves(&self, namespace: Namespace, end: End) -> bool {
        self.served(namespace).is_some_and(|served| served.ports.has(P::SERVICE, end.port))
    }

    /// Whether the packet counts in another namespace, where it is captured, too: its server's address is there. Before the
    /// packets of that namespace were captured, it counts where it passed through.
    pub(super) fn counts_elsewhere(&self, key: &Key, time: u64, segment: &Segment) -> bool {
        if self.served.len() < 2 {
            return false;
        }
        let since = |namespace| self.served(namespace).and_then(|served| served.captured).unwrap_or(0);
        let ends = [segment.source, segment.destination];
        let homes = ends.map(|end| self.home(key.0, end));
        if let Some(home) = homes.into_iter().find(|home| *home != key.0) {
            return time >= since(home);
        }
        let passed = |served: &Served| {
            let there = Key(served.namespace, key.1, key.2);
            there != *key && self.table.get(&there).is_some_and(|copy| copy.closed_at().is_none())
        };
        time < since(key.0) && !ends.iter().any(|end| end.is_loopback()) && self.served.iter().any(passed)
    }

    /// Closes the copies of a connection of which a packet has come, once: it may have been known from its server's memory
    /// before its packets were captured there, while they were where it passes through.
    pub(super) fn end_copies(&mut self, time: u64, key: Key, out: &mut P::Output) {
        if self.served.len() < 2 {
            return;
        }
        let known = self.table.get(&key).filter(|known| !known.is_alone);
        let Some(server) = known.map(|known| known.server) else { return };
        let is_alone = self.end_elsewhere(time, key, server, out);
        self.table.get_mut(&key).into_iter().for_each(|known| known.is_alone = is_alone);
    }

    /// Closes the copies of a connection in the namespaces that it passes through, once its packets are captured where
    /// the server is: the others were captured first. Returns whether they are captured there.
    pub(super) fn end_elsewhere(&mut self, time: u64, key: Key, server: End, out: &mut P::Output) -> bool {
        if self.served.len() < 2
            || !self.served(key.0).is_some_and(|served| served.is_home(P::SERVICE, server))
        {
            return false;
        }
        let others: Vec<Key> = self
            .served
            .iter()
            .map(|served| Key(served.namespace, key.1, key.2))
            .filter(|other| *other != key && self.home(other.0, server) == key.0)
            .collect();
        for other in others {
            self.remove(time, &other, Closing::Elsewhere, out);
        }
        true
    }
}
