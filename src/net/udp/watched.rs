//! What each protocol does with its datagrams: it takes them at some ports in some namespaces, once each, counts the
//! searches in them and follows the beacons.

use std::collections::HashMap;

use iocrec_log::event::Event;

use super::beacons::{Manner, Servers};
use super::copies::Copies;
use super::datagram::Datagram;
use super::searches::{Facts, Limits, Searches};
use super::{Seen, Selected};
use crate::net::Namespace;

/// See the module.
#[derive(Debug)]
pub struct Watched {
    /// The ports in each namespace.
    selected: HashMap<Namespace, Selected>,
    /// Searches over UDP.
    pub searches: Searches,
    /// Servers that send beacons.
    pub servers: Servers,
    copies: Copies,
}

impl Watched {
    /// Takes none yet.
    pub fn new(facts: Facts, manner: Manner) -> Watched {
        Watched {
            selected: HashMap::new(),
            searches: Searches::new(Limits::default(), facts),
            servers: Servers::new(manner),
            copies: Copies::default(),
        }
    }

    /// Sets the namespaces in which datagrams are read from now on, and the ports there.
    pub fn set_selected(&mut self, now: u64, selected: HashMap<Namespace, Selected>, out: &mut Vec<Event>) {
        if self.selected != selected {
            let namespaces: Vec<Namespace> = selected.keys().copied().collect();
            self.searches.set_places(&namespaces, now, out);
            self.selected = selected;
        }
    }

    /// What is taken where this was seen, if anything.
    pub fn selected(&self, seen: &Seen) -> Option<&Selected> {
        self.selected.get(&seen.namespace)
    }

    /// Whether a datagram was seen before, elsewhere.
    pub fn is_copy(&mut self, seen: &Seen, datagram: &Datagram) -> bool {
        self.copies.is_copy(seen, datagram)
    }

    /// Counts a datagram that may hold searches.
    pub fn count(&mut self, seen: &Seen, datagram: &Datagram) {
        self.searches.datagram(seen.namespace, datagram.payload.len() < datagram.length);
    }

    /// Takes what the last second's reading of a namespace left out: one datagram in `one_in` was read, `lost` were lost.
    pub fn left_out(&mut self, namespace: Namespace, one_in: u32, lost: u64) {
        self.searches.left_out(namespace, one_in, lost);
    }

    /// Reports what is due. Call it each second.
    pub fn second(&mut self, now: u64, out: &mut Vec<Event>) {
        self.searches.second(now, out);
        self.servers.second(now, out);
    }

    /// Reports everything.
    pub fn finish(&mut self, now: u64, out: &mut Vec<Event>) {
        self.searches.finish(now, out);
        self.servers.finish(now, out);
    }
}
