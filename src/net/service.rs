//! The TCP services to watch: the ports of each protocol's servers, and the protocol's rule for the socket filter.

use std::fmt;

use crate::net::program::Program;

/// Adds a protocol's instructions to the stateless filter, for segments of one side. They may inspect up to
/// this number of messages ([`crate::net::filter::DEPTHS`]; 0: none) and return early; a segment for which they do not
/// return passes whole. See [`Program`] for the registers.
pub type Rule = fn(&mut Program, usize);

/// A protocol above TCP, as the socket filter knows it. One `static` for each protocol.
pub struct Service {
    /// The protocol's name, for messages. It identifies the protocol.
    pub name: &'static str,
    /// Its rule for segments to servers.
    pub requests: Rule,
    /// Its rule for segments from servers.
    pub rule: Rule,
    /// Its number in the stateful filter (bpf/messages.h); `None` if that does not know it: then it passes whole.
    pub protocol: Option<usize>,
}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// TCP ports of servers, by protocol.
#[derive(Clone, Debug, Default)]
pub struct Ports(Vec<(&'static Service, Vec<u16>)>);

impl Ports {
    /// The ports of one protocol's servers.
    pub fn of(service: &'static Service, ports: &[u16]) -> Ports {
        let mut all = Ports::default();
        all.add(service, ports);
        all
    }

    /// Adds ports of a protocol's servers.
    pub fn add(&mut self, service: &'static Service, ports: &[u16]) {
        let known = self.0.iter().position(|(other, _)| other.name == service.name);
        let at = known.unwrap_or_else(|| {
            self.0.push((service, Vec::new()));
            self.0.len() - 1
        });
        if let Some((_, list)) = self.0.get_mut(at) {
            list.extend(ports);
            list.sort_unstable();
            list.dedup();
        }
    }

    /// So many of these ports: first those that are among others, too, then the lowest.
    pub fn at_most(&self, most: usize, first: &Ports) -> Ports {
        let mut some = Ports::default();
        for is_first in [true, false] {
            for (service, ports) in self.iter() {
                let ports = ports.iter().copied().filter(|port| first.has(service, *port) == is_first);
                let ports: Vec<u16> = ports.take(most - some.len()).collect();
                some.add(service, &ports);
            }
        }
        some
    }

    /// The ports of a protocol's servers, sorted, each once.
    pub fn get(&self, service: &Service) -> &[u16] {
        // each packet asks: mostly no names need to be compared
        let is_it = |other: &Service| std::ptr::eq(other, service) || other.name == service.name;
        let found = self.0.iter().find(|(other, _)| is_it(other));
        found.map(|(_, ports)| ports.as_slice()).unwrap_or_default()
    }

    /// Whether a server of this protocol has this port.
    pub fn has(&self, service: &Service, port: u16) -> bool {
        self.get(service).binary_search(&port).is_ok()
    }

    /// Whether a server of any protocol has this port.
    pub fn has_any(&self, port: u16) -> bool {
        self.iter().any(|(_, ports)| ports.binary_search(&port).is_ok())
    }

    /// Each protocol with its ports, sorted.
    pub fn iter(&self) -> impl Iterator<Item = (&'static Service, &[u16])> {
        self.0.iter().map(|(service, ports)| (*service, ports.as_slice()))
    }

    /// Number of ports of all protocols.
    pub fn len(&self) -> usize {
        self.0.iter().map(|(_, ports)| ports.len()).sum()
    }

    /// Whether there are no ports at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl PartialEq for Ports {
    /// Compares ports by protocol, in whatever order they were added.
    fn eq(&self, other: &Ports) -> bool {
        let within = |a: &Ports, b: &Ports| a.iter().all(|(service, ports)| b.get(service) == ports);
        within(self, other) && within(other, self)
    }
}

impl Eq for Ports {}

#[cfg(test)]
mod tests {
    use super::*;

    static ONE: Service = Service { name: "one", requests: |_, _| (), rule: |_, _| (), protocol: None };
    static OTHER: Service = Service { name: "other", requests: |_, _| (), rule: |_, _| (), protocol: None };

    #[test]
    fn ports_of_two_protocols() {
        let mut ports = Ports::of(&ONE, &[6000, 5064, 6000]);
        assert_eq!((ports.get(&ONE), ports.get(&OTHER)), (&[5064, 6000][..], &[][..]));
        ports.add(&OTHER, &[5075]);
        assert!(ports.has(&OTHER, 5075) && !ports.has(&ONE, 5075));
        assert!(ports.has_any(5075) && !ports.has_any(5076));
        assert_eq!(ports.len(), 3);
        let mut turned = Ports::of(&OTHER, &[5075]);
        assert_ne!(ports, turned);
        turned.add(&ONE, &[5064, 6000]);
        assert_eq!(ports, turned);
        assert!(Ports::of(&ONE, &[]).is_empty() && Ports::of(&ONE, &[]) == Ports::default());
        let mut first = Ports::of(&ONE, &[6000, 7000]);
        assert_eq!(ports.at_most(2, &first), Ports::of(&ONE, &[5064, 6000]));
        first.add(&OTHER, &[5075]);
        let some = ports.at_most(2, &first);
        assert_eq!((some.get(&ONE), some.get(&OTHER)), (&[6000][..], &[5075][..]));
        assert_eq!((ports.at_most(9, &first), ports.at_most(0, &first)), (turned, Ports::default()));
    }
}
