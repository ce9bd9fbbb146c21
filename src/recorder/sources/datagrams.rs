//! Searches and beacons: datagrams of Channel Access and PVAccess in the network namespaces of all traced processes.

use std::collections::{BTreeMap, HashMap};
use std::os::fd::RawFd;
use std::time::Duration;

use iocrec_log::event::{Event, Fact, Ip6, Sender};

use crate::linux::process;
use crate::net::capture::indices;
use crate::net::udp::datagram::Datagram;
use crate::net::udp::places::{Places, Wanted};
use crate::net::udp::{Seen, Socket};
use crate::net::Namespace;
use crate::protocols::datagrams::{Datagrams as Counts, Selection};
use crate::recorder::context::Context;
use crate::recorder::senders::Senders;
use crate::recorder::sources::calm::Calm;
use crate::recorder::sources::channel_access::LOOK_AGAIN;
use crate::recorder::sources::stamps::Stamps;
use crate::recorder::sources::{Resting, Source, ROUND, SLOW_ROUND, UNTIL_WOKEN};

/// Datagrams of a round that are few: while no more come, the socket's queue holds those of a longer one, too, also if a storm
/// of some 1,500 a second begins in it.
const FEW: usize = 8;
/// Ports of servers that have answered, of which the last are kept.
const MAX_ANSWERED: usize = 64;

/// See the module.
pub struct Datagrams {
    /// Names of the interfaces to listen on in the recorder's own namespace; none for all.
    interfaces: Vec<String>,
    places: Places,
    wanted: BTreeMap<Namespace, Wanted>,
    selected: HashMap<Namespace, Selection>,
    counts: Counts,
    senders: Senders,
    calm: Calm,
    /// Whether the last round had few.
    are_few: bool,
    /// Time when the namespaces are looked at again, though nothing is known to have changed.
    look_again: u64,
    /// Facts; reused.
    out: Vec<Event>,
}

impl Datagrams {
    /// Listens on these interfaces of the recorder's own namespace; `any` means all. `ready`: see [`Places::new`].
    pub fn new(interfaces: &[String], ready: Option<Socket>) -> Datagrams {
        let here = process::namespace(std::process::id()).unwrap_or_default();
        let all = interfaces.iter().any(|name| name == "any");
        let interfaces = if all { Vec::new() } else { interfaces.to_vec() };
        // one that does not exist has ended the start before
        let indices = indices(&interfaces).unwrap_or_default();
        Datagrams {
            interfaces,
            places: Places::new(here, indices, ready),
            wanted: BTreeMap::new(),
            selected: HashMap::new(),
            counts: Counts::default(),
            senders: Senders::default(),
            calm: Calm::default(),
            are_few: false,
            look_again: 0,
            out: Vec::new(),
        }
    }

    fn hand_over(&mut self, cx: &mut Context<'_>) {
        self.out.drain(..).for_each(|event| cx.env.sink.push(event));
    }

    /// The namespaces of the traced processes and their ports, and the recorder's own namespace.
    fn find_places(&mut self, cx: &mut Context<'_>) {
        let own = std::process::id();
        let named: Vec<(&str, String)> =
            cx.env.options.ports.iter().map(|port| ("EPICS_CAS_SERVER_PORT", port.to_string())).collect();
        let mut found: BTreeMap<Namespace, (u32, Vec<(String, String)>)> = BTreeMap::new();
        if let Ok(here) = cx.env.procfs().namespace(own) {
            found.insert(here, (own, Vec::new()));
        }
        for ioc in cx.iocs.all() {
            let Ok(namespace) = ioc.namespace else { continue };
            let (pid, environment) = found.entry(namespace).or_insert((ioc.pid, Vec::new()));
            // of several, always choose the same
            *pid = if *pid == own { own } else { (*pid).min(ioc.pid) };
            environment.extend(ioc.about.environment.iter().cloned());
            if !ioc.is_ioc() {
                // of other servers only the ports are known, which are mostly the same for UDP
                let ports = ioc.about.ca_ports.iter();
                environment.extend(ports.map(|port| ("EPICS_CAS_SERVER_PORT".to_owned(), port.to_string())));
                let search = ioc.pva_search.iter();
                environment
                    .extend(search.map(|port| ("EPICS_PVAS_BROADCAST_PORT".to_owned(), port.to_string())));
            }
        }
        self.wanted.clear();
        self.selected.clear();
        for (namespace, (pid, environment)) in found {
            let set = environment.iter().map(|(name, value)| (name.as_str(), value.as_str()));
            let named = named.iter().map(|(name, value)| (*name, value.as_str()));
            let selection = Selection::of(set.chain(named));
            self.wanted.insert(namespace, Wanted { pid, selected: selection.both() });
            self.selected.insert(namespace, selection);
        }
    }

    /// Tells the search for servers where servers of PVAccess are: it looks in the recorder's own namespace.
    fn note_answered(&mut self, cx: &mut Context<'_>) {
        let answered = self.counts.take_answered();
        if answered.is_empty() {
            return;
        }
        let here = cx.env.procfs().namespace(std::process::id());
        let known = &mut cx.env.run.pva_answers;
        for (namespace, port) in answered {
            if here == Ok(namespace) && !known.contains(&port) {
                known.push(port);
            }
        }
        // those of servers stay, whatever others answer
        let mut old = known.len().saturating_sub(MAX_ANSWERED);
        let mut is_served = |port: &u16| {
            cx.iocs.all().any(|ioc| ioc.about.pva_ports.contains(port) || ioc.guessed.contains(port))
        };
        known.retain(|port| {
            let is_kept = old == 0 || is_served(port);
            old -= usize::from(!is_kept);
            is_kept
        });
    }

    fn follow(&mut self, cx: &mut Context<'_>) {
        let now = cx.env.now;
        // while one is gone, all stays as it is
        if let Ok(indices) = indices(&self.interfaces) {
            self.places.set_interfaces(indices);
        }
        let failures = self.places.follow(now, &self.wanted);
        let said = |why| format!("searches and beacons are not recorded: {why}");
        cx.env.messages.extend(failures.iter().map(said));
        let open = self.places.open();
        let open: HashMap<_, _> =
            open.filter_map(|namespace| Some((namespace, self.selected.get(&namespace)?.clone()))).collect();
        self.counts.set_selected(now, &open, &mut self.out);
        self.hand_over(cx);
    }
}

impl Source for Datagrams {
    fn begin(&mut self, cx: &mut Context<'_>) {
        self.adapt(cx);
    }

    fn take(&mut self, cx: &mut Context<'_>) -> bool {
        let now = cx.env.monotonic();
        let (counts, out) = (&mut self.counts, &mut self.out);
        let mut stamps = Stamps::new(&*cx.env.machine.clock, cx.env.wall_offset, now);
        let mut taken = 0;
        self.places.drain(&mut |namespace, received| {
            taken += 1;
            let seen = Seen { namespace, interface: received.interface, time: stamps.time(received.wall) };
            if let Some(datagram) = Datagram::parse(received.bytes) {
                counts.datagram(seen, &datagram, out);
            }
        });
        self.calm.took(taken > 0, now);
        self.are_few = taken <= FEW;
        self.hand_over(cx);
        false
    }

    /// While datagrams come they are taken in rounds, and do not wake the loop one by one.
    fn descriptors(&self) -> Vec<RawFd> {
        self.places.fds().filter(|_| self.calm.is_calm()).collect()
    }

    fn rest(&mut self, cx: &Resting<'_>) -> Duration {
        if !self.calm.is_calm() {
            return if self.are_few && cx.patience >= SLOW_ROUND { SLOW_ROUND } else { ROUND };
        }
        self.calm.rests(cx.now);
        UNTIL_WOKEN
    }

    fn adapt(&mut self, cx: &mut Context<'_>) {
        if cx.changed || !self.places.settled() || cx.env.now >= self.look_again {
            self.look_again = cx.env.now.saturating_add(LOOK_AGAIN);
            self.find_places(cx);
            self.follow(cx);
        }
    }

    fn second(&mut self, cx: &mut Context<'_>) {
        let now = cx.env.now;
        for (namespace, fared) in self.places.second() {
            self.counts.left_out(namespace, fared.one_in, fared.lost);
        }
        self.counts.second(now, &mut self.out);
        self.note_answered(cx);
        for (namespace, client) in self.counts.take_senders() {
            // sockets of IPv6 are not looked for
            let wanted = self.wanted.get(&namespace).filter(|_| client.ip >= Ip6::END);
            if let Some(wanted) = wanted {
                self.senders.find(now, namespace, client, wanted.pid);
            }
        }
        for sender in self.senders.step(now) {
            let of_ioc = |ioc: &&mut crate::recorder::registry::traced_ioc::TracedIoc| ioc.pid == sender.pid;
            let ioc = cx.iocs.iter_mut().find(of_ioc).filter(|ioc| ioc.has_database()).map(|ioc| ioc.id);
            self.out.push(Event { time: now, fact: Fact::from(Sender { ioc, ..sender }) });
        }
        self.hand_over(cx);
    }

    fn finish(&mut self, cx: &mut Context<'_>) {
        self.counts.finish(cx.env.monotonic(), &mut self.out);
        self.hand_over(cx);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorder::circuits::Circuits;
    use crate::recorder::registry::Registry;

    /// While few come nobody is in a hurry, but who watches.
    #[test]
    fn few_are_taken_less_often() {
        let (iocs, circuits) = (Registry::default(), Circuits::default());
        let mut source = Datagrams::new(&[], None);
        let mut rest = |are_few, patience| {
            source.are_few = are_few;
            source.rest(&Resting { now: 1, patience, iocs: &iocs, circuits: &circuits })
        };
        assert_eq!(rest(true, 2 * SLOW_ROUND), SLOW_ROUND);
        assert_eq!(rest(true, ROUND), ROUND);
        assert_eq!(rest(false, 2 * SLOW_ROUND), ROUND, "a storm would not fit into the queue");
    }
}
