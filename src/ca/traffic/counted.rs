//! Updates that the packet filter leaves out, and counts: taken over into the counts of channels.

use std::collections::HashSet;
use std::sync::{Arc, Weak};

use iocrec_log::event::{ChannelId, CircuitId};

use super::circuit::Circuit;
use super::{Channel, End, Traffic, MAX_CHANNELS};
use crate::net::counts::{Connection, Counted, Counts};
use crate::net::Namespace;

/// The counts of a namespace, and since when they are kept.
#[derive(Debug)]
pub(super) struct Source {
    namespace: Namespace,
    since: u64,
    counts: Weak<Counts>,
    /// Updates for which there was no place, as of the last sweep.
    full: u32,
}

/// Where the updates of a circuit are counted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    namespace: Namespace,
    connection: Connection,
    /// [`Counts::missed`] as of the last look; `None` before the first.
    missed: Option<u32>,
}

impl Place {
    pub(super) fn of(end: &End) -> Place {
        let connection = Connection::new(end.client, end.server);
        Place { namespace: end.namespace, connection, missed: None }
    }
}

/// A subscription, and what was counted of it as of the last look.
#[derive(Clone, Copy, Debug)]
pub(super) struct Subscription {
    pub(super) channel: ChannelId,
    /// The server's number of the channel.
    pub(super) sid: u32,
    pub(super) counted: Option<Counted>,
}

/// What the filter has counted of a channel's updates.
#[derive(Clone, Copy, Debug)]
pub(super) struct Filtered {
    pub(super) updates: u64,
    pub(super) bytes: u64,
    /// Whether that is all of them.
    pub(super) whole: bool,
}

impl Traffic {
    /// From now on takes the counts of updates in a namespace from there.
    pub fn watch_counts(&mut self, namespace: Namespace, now: u64, counts: Weak<Counts>) {
        self.sources.retain(|source| source.namespace != namespace && source.counts.strong_count() > 0);
        self.sources.push(Source { namespace, since: now, counts, full: 0 });
    }

    fn source(&self, circuit: &Circuit) -> Option<(Arc<Counts>, u64)> {
        let place = circuit.place.as_ref()?;
        let source = self.sources.iter().find(|source| source.namespace == place.namespace)?;
        Some((source.counts.upgrade()?, source.since))
    }

    /// Takes over what was counted of a circuit's updates since the last look. `ended`: a subscription that ends with
    /// this, or all of them.
    pub(super) fn take_counts(&mut self, id: CircuitId, ended: Option<Ended>) {
        let Some((counts, since)) = self.circuits.get(&id).and_then(|circuit| self.source(circuit)) else {
            return;
        };
        let Some(circuit) = self.circuits.get_mut(&id) else { return };
        let Some(place) = &mut circuit.place else { return };
        let missed = counts.missed(place.connection);
        // what came before the counts were kept, or in segments that were not followed, is not counted
        let whole = place.missed.map_or(circuit.opened >= since && missed == 0, |before| before == missed);
        let only = match ended {
            Some(Ended::Subscription(number)) => Some(number),
            Some(Ended::Circuit) | None => None,
        };
        if only.is_none() {
            place.missed = Some(missed);
        }
        let take: &mut dyn FnMut(u32, &mut Subscription) = &mut |number, subscription| {
            let Some(found) = counts.of(place.connection, number) else { return };
            let before = subscription.counted.replace(found).unwrap_or_default();
            if ended.is_some() {
                counts.forget(place.connection, number);
            }
            let channel = subscription.channel;
            let updates = found.updates.wrapping_sub(before.updates);
            let bytes = found.bytes.wrapping_sub(before.bytes);
            circuit.sent.counted(bytes);
            let is_noted = self.channels.contains_key(&channel);
            if !is_noted && (updates == 0 || self.channels.len() >= MAX_CHANNELS) {
                return;
            }
            let channel = self.channels.entry(channel).or_insert(Channel {
                circuit: id,
                since: self.noted,
                ..Channel::default()
            });
            let filtered = channel.filtered.get_or_insert(Filtered { updates: 0, bytes: 0, whole: true });
            filtered.updates = filtered.updates.saturating_add(updates.into());
            filtered.bytes = filtered.bytes.saturating_add(bytes);
            filtered.whole &= whole;
        };
        match only {
            // a client may end thousands, one by one
            Some(number) => {
                if let Some(subscription) = circuit.subscriptions.get_mut(&number) {
                    take(number, subscription);
                }
            }
            None => circuit.subscriptions.iter_mut().for_each(|(number, of)| take(*number, of)),
        }
        if matches!(ended, Some(Ended::Circuit)) {
            counts.forget_missed(place.connection);
        }
    }

    /// Frees the places of what is not known, if there was no place for others.
    pub(super) fn sweep_counts(&mut self) {
        let mut known: Option<HashSet<u64>> = None;
        for source in &mut self.sources {
            let Some(counts) = source.counts.upgrade() else { continue };
            let full = counts.full();
            if std::mem::replace(&mut source.full, full) == full {
                continue;
            }
            let known = known.get_or_insert_with(|| {
                let of = |circuit: &Circuit| {
                    let connection = circuit.place.as_ref().map(|place| place.connection);
                    let numbers: Vec<u32> = circuit.subscriptions.keys().copied().collect();
                    connection
                        .map(|connection| numbers.into_iter().map(move |number| connection.whose(number)))
                };
                self.circuits.values().filter_map(of).flatten().collect()
            });
            counts.free_all_but(known);
        }
    }
}

/// What ends.
#[derive(Clone, Copy, Debug)]
pub(super) enum Ended {
    /// A subscription, by the client's number.
    Subscription(u32),
    /// All of the circuit.
    Circuit,
}
