//! The subscriptions of a Channel Access client, read from its server's memory: how many updates wait for it, and how many
//! were replaced by later ones before they were sent (rsrv/server.h, dbEvent.c).
//!
//! As with the list of clients no lock is taken and the walk is bounded. A subscription is accepted only if it leads back
//! to where it was found, twice: its event_ext to the channel, and its evSubscrip to the event_ext. Base counts replaced
//! updates only of subscriptions whose values wait in the queue: not of arrays, whose updates are fetched when they are
//! sent.

use std::collections::HashSet;

use iocrec_log::event::{Address, Updates};

use crate::ioc::clients::{first_client, Server};
use crate::ioc::process::IocProcess;

/// Subscriptions that are read of a client, 30 microseconds each, and those of them that are named.
const MAX_READ: usize = 256;
const MAX_NAMED: usize = 16;

/// The subscriptions of a client that wait or were replaced, those replaced most often first; and whether that is all.
/// `None` if the client is not found.
pub fn updates(ioc: &IocProcess, client: Address) -> Option<(Vec<Updates>, bool)> {
    let threads = HashSet::new();
    let server = Server::of(ioc, &threads, MAX_READ);
    let clients = server.nodes(first_client(ioc)?).into_iter();
    let (bytes, _) = clients.filter_map(|node| server.head(node)).find(|(_, address)| *address == client)?;
    Some(server.updates(&bytes))
}

impl Server<'_> {
    fn updates(&self, client: &[u8]) -> (Vec<Updates>, bool) {
        let (offsets, width) = (self.offsets(), self.memory.width());
        let number = |bytes: &[u8], at| width.pointer(bytes, at);
        let mut found = Vec::new();
        let mut left = MAX_READ;
        for at in offsets.channels {
            for channel in self.list(client.get(at..).unwrap_or_default(), left) {
                let Some(head) = self.memory.head::<96>(channel, offsets.channel_bytes) else { continue };
                for event in self.list(head.get(offsets.events..).unwrap_or_default(), left) {
                    left = left.saturating_sub(1);
                    let Some(event_bytes) =
                        self.memory.head::<64>(event, offsets.event_subscription + width.bytes())
                    else {
                        continue;
                    };
                    let subscription = number(&event_bytes, offsets.event_subscription);
                    let Some(bytes) = self.memory.head::<80>(subscription, offsets.keeps_values + 1) else {
                        continue;
                    };
                    let leads_back = number(&event_bytes, offsets.event_channel) == channel
                        && number(&bytes, offsets.argument) == event;
                    let (pending, replaced) =
                        (number(&bytes, offsets.pending), number(&bytes, offsets.replaced));
                    let keeps_values = bytes.get(offsets.keeps_values).is_some_and(|keeps| *keeps == 1);
                    if leads_back && pending | replaced > 0 {
                        found.push((keeps_values.then_some(replaced), pending, channel));
                    }
                }
                left = left.saturating_sub(1);
            }
        }
        let is_all = left > 0 && found.len() <= MAX_NAMED;
        let mut named = Vec::new();
        // a few of a few: not worth sorting
        while let Some((at, most)) = found.iter().copied().enumerate().max_by_key(|found| found.1) {
            found.swap_remove(at);
            let (replaced, pending, channel) = most;
            if let Some(channel) = self.channel(channel).filter(|_| named.len() < MAX_NAMED) {
                named.push(Updates { pv: channel.pv, pending, replaced });
            }
        }
        (named, is_all)
    }
}
