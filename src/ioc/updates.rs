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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ioc::image::Image;
    use crate::ioc::offsets::Generation;
    use crate::linux::width::Width;
    use iocrec_testing::chance::fuzz;

    /// Where a client's list of channels is; of a channel its list of subscriptions and its dbChannel, or DBADDR; of an
    /// event_ext the channel and the evSubscrip; of that the event_ext, `npend`, `nreplace`, and the flag.
    fn places(width: Width) -> [usize; 9] {
        width.pick([64, 8, 44, 28, 32, 16, 28, 32, 37], [96, 16, 72, 40, 48, 32, 56, 64, 73])
    }

    struct World {
        image: Image,
        process: IocProcess,
        client: usize,
        /// The evSubscrips: of a scalar and of an array of A, of a scalar of B.
        subscriptions: Vec<usize>,
    }

    /// A client with two channels and three subscriptions, laid out alike in 3.14, 3.15, 3.16 and 7.0.
    fn world(width: Width, generation: Generation) -> World {
        let [channels, events, db, of_event, to, argument, pending, replaced, keeps] = places(width);
        let pointer = width.bytes();
        let mut image = Image::new(width);
        let (base, types) = image.base();
        let last = if generation == Generation::Base314 { 15 } else { 17 };
        let fields =
            [("VAL", last - 7, 464, 8), ("RDES", last, 376, 8), ("STAT", 4, 298, 2), ("PACT", 2, 313, 1)];
        let rtype = image.record_type(types, "ao", &fields);
        let client = image.room(260);
        image.put(client + channels + 2 * pointer, &2u32.to_ne_bytes());
        let (mut last, mut subscriptions) = (client + channels, Vec::new());
        for (pv, updates) in [("T:A", &[(3u32, 40u32, 1u8), (1, 0, 0)][..]), ("T:B", &[(7, 50, 1)])] {
            let channel = image.room(100);
            image.point(last, channel);
            last = channel;
            if generation == Generation::Base314 {
                let record = image.record(rtype, 376, pv);
                let field = image.field(rtype, 0);
                image.point(channel + db, record);
                image.point(channel + db + 2 * pointer, field);
            } else {
                let of_db = image.room(64);
                image.point_to_string(of_db, pv);
                image.point(channel + db, of_db);
            }
            image.put(channel + events + 2 * pointer, &(updates.len() as u32).to_ne_bytes());
            let mut last_event = channel + events;
            for (waiting, lost, flag) in updates {
                let (event, subscription) = (image.room(80), image.room(96));
                image.point(last_event, event);
                last_event = event;
                image.point(event + of_event, channel);
                image.point(event + to, subscription);
                image.point(subscription + argument, event);
                image.put(subscription + pending, &waiting.to_ne_bytes());
                image.put(subscription + replaced, &lost.to_ne_bytes());
                image.put(subscription + keeps, &[*flag]);
                subscriptions.push(subscription);
            }
        }
        let (mut process, _) = image.process(std::process::id(), base);
        process.abi.generation = generation;
        World { image, process, client, subscriptions }
    }

    impl World {
        fn read(&self) -> (Vec<Updates>, bool) {
            let threads = HashSet::new();
            let bytes = self.image.memory().bytes::<256>(self.image.address(self.client)).unwrap();
            Server::of(&self.process, &threads, MAX_READ).updates(&bytes)
        }
    }

    const ALL: [(Width, Generation); 4] = [
        (Width::Bits64, Generation::Base315),
        (Width::Bits64, Generation::Base314),
        (Width::Bits32, Generation::Base315),
        (Width::Bits32, Generation::Base314),
    ];

    #[test]
    fn updates_of_every_generation() {
        for (width, generation) in ALL {
            let mut world = world(width, generation);
            let of = |pv: &str, pending, replaced| Updates { pv: pv.into(), pending, replaced };
            let expected = vec![of("T:B", 7, Some(50)), of("T:A", 3, Some(40)), of("T:A", 1, None)];
            assert_eq!(world.read(), (expected.clone(), true), "{width:?} {generation:?}");
            // one that does not lead back is none
            world.image.put_pointer(world.subscriptions[0] + places(width)[5], 8);
            assert_eq!(world.read().0, [expected[0].clone(), expected[2].clone()]);
        }
    }

    #[test]
    fn images_that_were_changed() {
        let mut found = 0;
        fuzz(500, |random| {
            let (width, generation) = ALL[random.below(4)];
            let mut world = world(width, generation);
            world.image.change(random, 10);
            let (updates, _) = world.read();
            assert!(updates.len() <= MAX_NAMED && updates.iter().all(|updates| !updates.pv.is_empty()));
            found += updates.len();
        });
        assert!(std::env::var("FUZZ_SEED").is_ok() || found > 100, "{found}");
    }
}
