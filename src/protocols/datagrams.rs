//! Datagrams of both protocols: a capture takes them together, and each protocol counts its own.

use std::collections::HashMap;

use iocrec_log::event::{Address, Event};

use crate::ca::{self, datagrams as of_ca};
use crate::net::flows::Flows;
use crate::net::udp::datagram::Datagram;
use crate::net::udp::{Seen, Selected};
use crate::net::Namespace;
use crate::pva::{self, datagrams as of_pva};

/// What is taken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    ca: Selected,
    pva: Selected,
}

impl Selection {
    /// The usual ports, and those that these variables of processes' environments name.
    pub fn of<'a>(environments: impl Iterator<Item = (&'a str, &'a str)> + Clone) -> Selection {
        Selection { ca: of_ca::selected(environments.clone()), pva: of_pva::selected(environments) }
    }

    /// For a filter.
    pub fn both(&self) -> Selected {
        self.ca.clone().with(&self.pva)
    }

    /// Whether a datagram is of either protocol.
    pub fn takes(&self, datagram: &Datagram) -> bool {
        self.ca.takes(datagram) || self.pva.takes(datagram)
    }

    /// Learns the servers that a datagram names. Returns whether any is new.
    pub fn learn(&self, datagram: &Datagram, flows: &mut Flows) -> bool {
        let mut is_new = false;
        if self.ca.takes(datagram) {
            for server in ca::servers_in(datagram, &self.ca) {
                is_new |= flows.learn(&ca::SERVICE, server);
            }
        }
        if self.pva.takes(datagram) {
            for server in pva::servers_in(datagram) {
                is_new |= flows.learn(&pva::SERVICE, server);
            }
        }
        is_new
    }
}

/// The datagrams of all protocols.
#[derive(Debug, Default)]
pub struct Datagrams {
    ca: of_ca::Datagrams,
    pva: of_pva::Datagrams,
}

impl Datagrams {
    /// Sets the namespaces in which datagrams are read from now on, and what is taken there.
    pub fn set_selected(&mut self, now: u64, selected: &HashMap<Namespace, Selection>, out: &mut Vec<Event>) {
        let each = |of: fn(&Selection) -> &Selected| {
            selected.iter().map(|(&namespace, selection)| (namespace, of(selection).clone())).collect()
        };
        self.ca.watched.set_selected(now, each(|of| &of.ca), out);
        self.pva.watched.set_selected(now, each(|of| &of.pva), out);
    }

    /// Takes a datagram. Facts that must not wait go to `out`.
    pub fn datagram(&mut self, seen: Seen, datagram: &Datagram, out: &mut Vec<Event>) {
        self.ca.datagram(seen, datagram, out);
        self.pva.datagram(seen, datagram, out);
    }

    /// Takes what the last second's reading of a namespace left out: one datagram in `one_in` was read, `lost` were lost.
    pub fn left_out(&mut self, namespace: Namespace, one_in: u32, lost: u64) {
        self.ca.watched.left_out(namespace, one_in, lost);
        self.pva.watched.left_out(namespace, one_in, lost);
    }

    /// Reports what is due. Call it each second.
    pub fn second(&mut self, now: u64, out: &mut Vec<Event>) {
        self.ca.second(now, out);
        self.pva.watched.second(now, out);
    }

    /// Reports everything.
    pub fn finish(&mut self, now: u64, out: &mut Vec<Event>) {
        self.ca.finish(now, out);
        self.pva.watched.finish(now, out);
    }

    /// Senders of searches without an answer since the last call: their processes are worth finding.
    pub fn take_senders(&mut self) -> Vec<(Namespace, Address)> {
        [self.ca.watched.searches.take_senders(), self.pva.watched.searches.take_senders()].concat()
    }

    /// TCP ports that servers of PVAccess have named in answers since the last call, and the namespaces of these.
    pub fn take_answered(&mut self) -> Vec<(Namespace, u16)> {
        self.pva.take_answered()
    }
}
