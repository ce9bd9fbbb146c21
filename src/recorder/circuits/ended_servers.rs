//! Servers that have just ended.
//!
//! The last packets of a server come up to two fifths of a second after its end. Its socket is gone by then, perhaps its
//! network namespace as well. So who listened at a port counts for some time on, unless another socket listens there.

use crate::net::served::Served;

/// How long, nanoseconds: packets are handed over after at most 420 ms, and a busy machine takes its time.
const LASTS: u64 = 700_000_000;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct EndedServers {
    /// As the last look has found them.
    found: Vec<Served>,
    /// What the looks before had found besides, and the time from which it was gone.
    gone: Vec<(u64, Served)>,
}

impl EndedServers {
    /// Takes what a look has found. Returns that and what has just gone.
    pub fn take(&mut self, now: u64, found: Vec<Served>) -> Vec<Served> {
        let before = std::mem::replace(&mut self.found, found);
        for mut old in before {
            let there = self.found.iter().find(|served| served.namespace == old.namespace);
            old.listeners.retain(|listener| !there.is_some_and(|there| there.listens(listener.address.port)));
            old.listeners6.retain(|(_, port, _)| !there.is_some_and(|there| there.listens(*port)));
            if there.is_none() || !(old.listeners.is_empty() && old.listeners6.is_empty()) {
                self.gone.push((now, old));
            }
        }
        self.forget(now);
        self.all()
    }

    /// Forgets what has been gone for long. Returns what is left, if that was anything.
    pub fn expire(&mut self, now: u64) -> Option<Vec<Served>> {
        self.forget(now).then(|| self.all())
    }

    /// Whether something will have to be forgotten soon.
    pub fn is_busy(&self) -> bool {
        !self.gone.is_empty()
    }

    fn forget(&mut self, now: u64) -> bool {
        let before = self.gone.len();
        self.gone.retain(|(since, _)| now.saturating_sub(*since) < LASTS);
        self.gone.len() < before
    }

    fn all(&self) -> Vec<Served> {
        let mut all = self.found.clone();
        // those that went last go first
        for (_, gone) in self.gone.iter().rev() {
            let Some(there) = all.iter_mut().find(|served| served.namespace == gone.namespace) else {
                all.push(gone.clone());
                continue;
            };
            let is_free = |port| !there.listens(port);
            let listeners = gone.listeners.iter().filter(|listener| is_free(listener.address.port));
            let listeners: Vec<_> = listeners.copied().collect();
            let listeners6: Vec<_> =
                gone.listeners6.iter().filter(|(_, port, _)| is_free(*port)).copied().collect();
            there.listeners.extend(listeners);
            there.listeners6.extend(listeners6);
            for (service, ports) in gone.ports.iter() {
                there.ports.add(service, ports);
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ca::SERVICE;
    use crate::linux::sockets::LocalAddress;
    use crate::net::served::Listener;
    use crate::net::service::Ports;
    use iocrec_log::event::Address;

    const SECOND: u64 = 1_000_000_000;

    fn served(namespace: u64, servers: &[(u16, Option<u32>)]) -> Served {
        let ports: Vec<u16> = servers.iter().map(|(port, _)| *port).collect();
        let listener = |&(port, owner)| Listener { address: Address { ip: 0, port }, owner };
        Served {
            namespace,
            ports: Ports::of(&SERVICE, &ports),
            listeners: servers.iter().map(listener).collect(),
            local: vec![LocalAddress { ip: 0x7f00_0000, bits: 8 }],
            ..Served::default()
        }
    }

    fn server(of: &[Served], namespace: u64, port: u16) -> Option<u32> {
        let served = of.iter().find(|served| served.namespace == namespace)?;
        served.server(Address { ip: 0x7f00_0001, port }.into())
    }

    #[test]
    fn who_has_just_ended_has_served_until_then() {
        let mut ended = EndedServers::default();
        let all = ended
            .take(0, vec![served(1, &[(5064, Some(1)), (5066, Some(2))]), served(2, &[(5064, Some(3))])]);
        assert_eq!(server(&all, 2, 5064), Some(3));
        // a server and a namespace are gone
        let all = ended.take(SECOND, vec![served(1, &[(5064, Some(1))])]);
        assert_eq!((server(&all, 1, 5064), server(&all, 1, 5066)), (Some(1), Some(2)));
        assert_eq!(server(&all, 2, 5064), Some(3));
        assert!(all.iter().all(|served| served.ports.has(&SERVICE, 5064)));
        assert!(ended.is_busy() && ended.expire(SECOND + LASTS - 1).is_none());
        let all = ended.expire(SECOND + LASTS).expect("they are forgotten");
        assert_eq!((server(&all, 1, 5064), server(&all, 1, 5066), all.len()), (Some(1), None, 1));
        assert!(!ended.is_busy() && ended.expire(9 * SECOND).is_none());
    }

    #[test]
    fn whoever_listens_now_counts() {
        let mut ended = EndedServers::default();
        ended.take(0, vec![served(1, &[(5064, Some(1))])]);
        let all = ended.take(1, vec![served(1, &[(5064, Some(2))])]);
        assert_eq!(server(&all, 1, 5064), Some(2), "the next server");
        let all = ended.take(2, vec![served(1, &[])]);
        assert_eq!(server(&all, 1, 5064), Some(2), "the last one");
        let all = ended.take(3, vec![served(1, &[(5064, None)])]);
        assert_eq!(server(&all, 1, 5064), None, "somebody else");
        // nothing is told twice of one that ends again and again
        for now in 4..100 {
            let all = ended.take(now, vec![served(1, &[(5064, Some(1))])]);
            assert_eq!(all.iter().map(|served| served.listeners.len()).sum::<usize>(), 1);
            ended.take(now, Vec::new());
        }
        assert_eq!(server(&ended.take(100, Vec::new()), 1, 5064), Some(1));
    }
}
