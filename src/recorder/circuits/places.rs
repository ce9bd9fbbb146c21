//! The network namespaces of the traced processes, and the ports that they serve there.

use std::collections::BTreeMap;

use iocrec_log::event::IocId;
use nix::errno::Errno;

use crate::ca;
use crate::net::captures::{are_too_many, Wanted};
use crate::net::filter::MAX_PORTS;
use crate::net::Namespace;
use crate::pva;
use crate::recorder::env::Env;
use crate::recorder::registry::Registry;

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places {
    /// The network namespaces with their servers' ports.
    pub wanted: BTreeMap<Namespace, Wanted>,
    /// The processes, in the order of their ids, and whether they are IOCs with records. A server that is not an IOC may be
    /// a gateway, whose own puts are those of its clients; a client that is made with EPICS Base is its user's.
    pub recorded: Vec<(IocId, u32, bool)>,
    /// Those that may be servers of PVAccess, and of which nothing is told yet.
    pub guesses: Vec<(IocId, u32)>,
    /// The processes that serve PVAccess, with their ports.
    pub pva: BTreeMap<u32, Vec<u16>>,
}

impl Places {
    /// Places of the traced IOCs, and the recorder's own namespace, with the ports of servers that have ended not long ago. Ports
    /// that the user named count in all of them.
    pub fn find(env: &Env<'_>, iocs: &mut Registry) -> Places {
        let own = std::process::id();
        let named = &env.options.ports;
        let mut wanted: BTreeMap<Namespace, Wanted> = BTreeMap::new();
        if let Ok(here) = env.procfs().namespace(own) {
            wanted.insert(here, Wanted { pid: own, ..Wanted::default() });
        }
        let (mut recorded, mut pva, mut guessed) = (Vec::new(), BTreeMap::new(), Vec::new());
        for ioc in iocs.all() {
            // a process that is just ending keeps its old one, and so does one that can't be read now
            let is_known = ioc.namespace.is_ok_and(|namespace| namespace != 0);
            match env.procfs().namespace(ioc.pid) {
                Err(errno) if is_known || matches!(errno, Errno::ENOENT | Errno::ESRCH) => {}
                found => ioc.namespace = found,
            }
            recorded.push((ioc.id, ioc.pid, ioc.has_database()));
            if !ioc.about.pva_ports.is_empty() {
                pva.insert(ioc.pid, ioc.about.pva_ports.clone());
            }
            let Ok(namespace) = ioc.namespace else { continue };
            guessed.extend(ioc.guessed.iter().map(|port| (namespace, *port)));
            let pid = ioc.pid;
            let new = || Wanted { pid, ..Wanted::default() };
            let place = wanted.entry(namespace).or_insert_with(new);
            // others need the room
            if !are_too_many([&ioc.about.ca_ports, &ioc.about.pva_ports]) {
                place.ports.add(&ca::SERVICE, &ioc.about.ca_ports);
                place.ports.add(&pva::SERVICE, &ioc.about.pva_ports);
            }
            // of several, always choose the same
            place.pid = if place.pid == own { own } else { place.pid.min(pid) };
        }
        recorded.retain(|(_, pid, _)| !iocs.is_guess(*pid));
        recorded.sort_unstable();
        let guesses = iocs.guesses().iter().map(|guess| (guess.id, guess.pid)).collect();
        for (namespace, port) in guessed {
            let Some(place) = wanted.get_mut(&namespace) else { continue };
            if !place.ports.has_any(port) {
                place.guessed.push(port);
                place.guessed.sort_unstable();
            }
            place.ports.add(&pva::SERVICE, &[port]);
        }
        for ended in env.run.ended_ports.iter().filter(|ended| env.now < ended.until) {
            let Some(place) = wanted.get_mut(&ended.namespace) else { continue };
            for (service, ports) in [(&ca::SERVICE, &ended.ca), (&pva::SERVICE, &ended.pva)] {
                for port in ports {
                    // those of servers that live need the room, and know what they are for; at those that the user named
                    // bytes tell what serves there now
                    let is_known = place.ports.has_any(*port) || named.contains(port);
                    if place.ports.len() < MAX_PORTS / 2 && !is_known {
                        place.ports.add(service, &[*port]);
                    }
                }
            }
        }
        for place in wanted.values_mut() {
            place.unknown = named.iter().copied().filter(|port| !place.ports.has_any(*port)).collect();
            place.ports.add(&ca::SERVICE, &place.unknown);
        }
        Places { wanted, recorded, guesses, pva }
    }

    /// Whether a Channel Access server in that namespace has this port.
    pub fn serves(&self, namespace: Namespace, port: u16) -> bool {
        self.wanted.get(&namespace).is_some_and(|place| place.ports.has(&ca::SERVICE, port))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::service::Ports;
    use crate::recorder::env::EndedPorts;
    use crate::recorder::testing::{Bench, FakeProcess, TestIoc, PID};

    /// Its clients' packets are captured there.
    #[test]
    fn a_namespace_that_cannot_be_read_is_still_that_of_an_ioc() {
        let (mut bench, ioc) = (Bench::new(), TestIoc::new(PID));
        let process = |unread| FakeProcess { start: 1, namespace: 7, unread, ..FakeProcess::default() };
        let wanted = |bench: &mut Bench| {
            let cx = bench.context();
            Places::find(&cx.env, cx.iocs).wanted.contains_key(&7)
        };
        bench.procfs.set(PID, process(None));
        bench.trace(&ioc);
        assert!(wanted(&mut bench));
        for errno in [Errno::ENOMEM, Errno::EMFILE, Errno::EACCES] {
            bench.procfs.set(PID, process(Some(errno)));
            assert!(wanted(&mut bench), "{errno}");
        }
        bench.procfs.remove(PID);
        assert!(wanted(&mut bench), "it is just ending");
    }

    /// Clients put to an IOC that has started again before the recorder has found it.
    #[test]
    fn ports_outlast_their_server_for_a_while_and_only_where_there_is_room() {
        let (mut bench, ioc) = (Bench::new(), TestIoc::new(PID));
        bench.procfs.set(PID, FakeProcess { start: 1, namespace: 7, ..FakeProcess::default() });
        bench.trace(&ioc);
        let ended = |namespace, ca: std::ops::Range<u16>, pva: &[u16]| EndedPorts {
            until: 60,
            namespace,
            ca: ca.collect(),
            pva: pva.to_vec(),
            user: String::new(),
        };
        bench.run.ended_ports = vec![ended(7, 5064..5065, &[5075, 6000]), ended(8, 5066..5067, &[])];
        let find = |bench: &mut Bench, now: u64, own: std::ops::Range<u16>| {
            bench.clock.monotonic.set(now);
            let cx = bench.context();
            cx.iocs.iter_mut().for_each(|ioc| ioc.about.ca_ports = own.clone().collect());
            let places = Places::find(&cx.env, cx.iocs);
            assert!(!places.wanted.contains_key(&8), "nothing else is recorded there");
            places.wanted[&7].ports.clone()
        };
        let mut expected = Ports::of(&ca::SERVICE, &[5064, 6000]);
        expected.add(&pva::SERVICE, &[5075]);
        assert_eq!(find(&mut bench, 59, 6000..6001), expected, "6000 is another's by now");
        assert_eq!(find(&mut bench, 60, 6000..6001), Ports::of(&ca::SERVICE, &[6000]));
        bench.run.ended_ports.push(ended(7, 7000..7200, &[]));
        assert_eq!(find(&mut bench, 59, 6000..6001).len(), MAX_PORTS / 2);
        assert_eq!(find(&mut bench, 59, 6000..6200).len(), 200);
        // another server may be at a port that the user named
        bench.options.ports = vec![5075];
        find(&mut bench, 59, 6000..6001);
        let cx = bench.context();
        let places = Places::find(&cx.env, cx.iocs);
        assert_eq!(places.wanted[&7].unknown, [5075]);
        assert!(!places.wanted[&7].ports.has(&pva::SERVICE, 5075));
    }

    /// All ports of a namespace are in one filter, which has room for 256.
    #[test]
    fn a_process_with_too_many_ports_takes_no_room() {
        let (mut bench, ioc) = (Bench::new(), TestIoc::new(PID));
        bench.procfs.set(PID, FakeProcess { start: 1, namespace: 7, ..FakeProcess::default() });
        bench.trace(&ioc);
        let mut ports = |count: u16| {
            let cx = bench.context();
            for ioc in cx.iocs.iter_mut() {
                ioc.about.ca_ports = (6000..6000 + count).collect();
                ioc.about.pva_ports = vec![5075];
            }
            Places::find(&cx.env, cx.iocs).wanted[&7].ports.len()
        };
        assert_eq!((ports(255), ports(256), ports(2)), (256, 0, 3));
    }
}
