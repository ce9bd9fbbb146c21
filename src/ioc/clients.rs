//! The Channel Access clients of an IOC, read from its server's own tables.
//!
//! rsrv keeps a list of its TCP clients, each with its channels (`struct client`, `struct channel_in_use`,
//! rsrv/server.h). No lock is taken, so the lists may change while they are read, and a node may lead anywhere. The
//! walk is therefore bounded, and a client is accepted only if its address is that of an IPv4 socket.

use std::cell::Cell;
use std::collections::HashSet;
use std::net::Ipv4Addr;

use iocrec_log::event::Address;

use crate::ioc::layout::Layout;
use crate::ioc::module::addresses;
use crate::ioc::offsets::{Abi, CaServer};
use crate::ioc::process::IocProcess;
use crate::ioc::threads;
use crate::linux::memory::Memory;
use crate::linux::width::{u16_at, u32_at};

/// An ELLLIST: first node, last node, count.
const LIST_BYTES: usize = 24;

/// More clients than any IOC has, and more channels than are kept (the decoder has room for 16,384).
const MAX_CLIENTS: usize = 10_000;
const MAX_CHANNELS: usize = 100_000;
/// Longest name accepted: PVs with filters can be long, and CA allows 512 bytes for user and host.
const MAX_NAME: usize = 512;

/// A client of an IOC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client {
    /// Address.
    pub address: Address,
    /// User name that it claims.
    pub user: String,
    /// Host name that it claims.
    pub host: String,
    /// Kernel id of the IOC's thread that serves it; `None` if not found.
    pub tid: Option<u32>,
    /// Its channels.
    pub channels: Vec<ClientChannel>,
}

/// A channel of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientChannel {
    /// The client's id.
    pub cid: u32,
    /// The server's id.
    pub sid: u32,
    /// Name of the PV, as the client wrote it.
    pub pv: String,
}

/// Reads the clients of an IOC, or only the one that thread `only` serves. `threads` are the ids of the IOC's threads.
/// Returns none if the IOC has no server, or the data is implausible.
pub fn clients(ioc: &IocProcess, threads: &HashSet<u32>, only: Option<u32>) -> Vec<Client> {
    let server = Server::of(ioc, threads, MAX_CHANNELS);
    first_client(ioc).map_or_else(Vec::new, |list| server.clients(list, only))
}

/// The address of the list of an IOC's clients.
pub(super) fn first_client(ioc: &IocProcess) -> Option<u64> {
    addresses(&ioc.modules, "clientQ").find(|&list| ioc.memory.pointer(list).is_some_and(|first| first != 0))
}

/// Reader of the lists.
pub(super) struct Server<'a> {
    pub(super) memory: &'a Memory,
    layout: Option<&'a Layout>,
    abi: Abi,
    /// The process's threads.
    threads: &'a HashSet<u32>,
    /// Number of channels that may still be read.
    left: Cell<usize>,
}

impl<'a> Server<'a> {
    /// Reads at most `left` channels.
    pub(super) fn of(ioc: &'a IocProcess, threads: &'a HashSet<u32>, left: usize) -> Server<'a> {
        let layout = ioc.layout.as_ref().ok();
        Server { memory: &ioc.memory, layout, abi: ioc.abi, threads, left: Cell::new(left) }
    }
}

impl Server<'_> {
    pub(super) fn offsets(&self) -> &'static CaServer {
        CaServer::of(self.abi)
    }

    fn clients(&self, list: u64, only: Option<u32>) -> Vec<Client> {
        self.nodes(list).into_iter().filter_map(|node| self.client(node, only)).collect()
    }

    /// The addresses of all clients.
    pub(super) fn nodes(&self, list: u64) -> Vec<u64> {
        let Some(head) = self.memory.bytes::<LIST_BYTES>(list) else { return Vec::new() };
        self.list(&head, MAX_CLIENTS).collect()
    }

    /// The bytes of a client, and its address; `None` if it has none, so it may be no client.
    pub(super) fn head(&self, node: u64) -> Option<([u8; CaServer::MAX_BYTES], Address)> {
        let offsets = self.offsets();
        let bytes: [u8; CaServer::MAX_BYTES] = self.memory.head(node, offsets.client_bytes)?;
        if u16_at(&bytes, offsets.address) != libc::AF_INET as u16 {
            return None;
        }
        let port = u16::from_be(u16_at(&bytes, offsets.address + 2));
        let ip = Ipv4Addr::from(u32::from_be(u32_at(&bytes, offsets.address + 4)));
        Some((bytes, Address::new(ip, port)))
    }

    /// The nodes of an ELLLIST, each of which begins with the next one's address: at most as many as it claims to have,
    /// and at most `limit`. Ends where the first node recurs.
    pub(super) fn list(&self, head: &[u8], limit: usize) -> impl Iterator<Item = u64> + '_ {
        let width = self.memory.width();
        let first = width.pointer(head, 0);
        let count = limit.min(u32_at(head, 2 * width.bytes()) as usize);
        let next = move |&node: &u64| self.memory.pointer(node).filter(|&next| next != 0 && next != first);
        std::iter::successors(Some(first).filter(|&node| node != 0), next).take(count)
    }

    fn client(&self, node: u64, only: Option<u32>) -> Option<Client> {
        let (offsets, width) = (self.offsets(), self.memory.width());
        let (bytes, address) = self.head(node)?;
        let text = |at| self.memory.string(width.pointer(&bytes, at), MAX_NAME).unwrap_or_default();
        let tid = offsets.threads.iter().find_map(|&at| {
            threads::kernel_id(self.memory, self.abi.generation, width.pointer(&bytes, at), self.threads)
        });
        if only.is_some() && tid != only {
            return None;
        }
        let mut channels = Vec::new();
        for at in offsets.channels {
            let nodes = self.list(bytes.get(at..)?, self.left.get());
            let nodes = nodes.inspect(|_| self.left.set(self.left.get().saturating_sub(1)));
            channels.extend(nodes.filter_map(|node| self.channel(node)));
        }
        Some(Client { address, user: text(offsets.user), host: text(offsets.host), tid, channels })
    }

    pub(super) fn channel(&self, node: u64) -> Option<ClientChannel> {
        let (offsets, width) = (self.offsets(), self.memory.width());
        let bytes: [u8; CaServer::MAX_BYTES] = self.memory.head(node, offsets.channel_bytes)?;
        let pv = if self.abi.is_3_14() {
            let record = self.memory.string(width.pointer(&bytes, offsets.channel), MAX_NAME)?;
            let description = width.pointer(&bytes, offsets.channel + 2 * width.bytes());
            let (_, field, _) = self.layout?.field(self.memory, description)?;
            if field == "VAL" {
                record
            } else {
                format!("{record}.{field}")
            }
        } else {
            // dbChannel begins with the name as the client wrote it
            self.memory.string(self.memory.pointer(width.pointer(&bytes, offsets.channel))?, MAX_NAME)?
        };
        let (cid, sid) = (u32_at(&bytes, offsets.cid), u32_at(&bytes, offsets.sid));
        // what was freed meanwhile begins with an address: bytes that are no text are written with `\`
        let is_name = !pv.is_empty() && pv.bytes().all(|byte| byte >= b' ' && byte != b'\\');
        is_name.then_some(ClientChannel { cid, sid, pv })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ioc::image::Image;
    use crate::ioc::offsets::Generation;
    use crate::linux::width::Width::{self, Bits32, Bits64};
    use iocrec_testing::chance::{fuzz, Random};

    const TID: u32 = 4711;

    /// A server with two clients of two and one channels.
    struct Tables {
        image: Image,
        queue: usize,
        base: usize,
        base_3_14: bool,
    }

    /// Laid out as in Base: `tid` is at these offsets (rsrv/server.h of 3.14.12, 3.15.9 = 7.0.8).
    fn tables(width: Width, base_3_14: bool) -> Tables {
        let mut image = Image::new(width);
        let (base, types) = image.base();
        // the fewest fields that the layout needs
        let last = if base_3_14 { 15 } else { 17 };
        let fields =
            [("VAL", last - 7, 464, 8), ("RDES", last, 376, 8), ("STAT", 4, 298, 2), ("PACT", 2, 313, 1)];
        let rtype = image.record_type(types, "ao", &fields);
        let record = image.record(rtype, 376, "T:SP");
        let queue = image.room(24);
        let mut last_client = queue;
        let mut sid: u32 = 10;
        for (number, pvs) in [&["T:SP", "T:SP.STAT"][..], &["T:SP"]].into_iter().enumerate() {
            let client = image.room(width.pick(170, 260));
            image.point(last_client, client);
            last_client = client;
            let address = client + width.pick(100, 168);
            image.put(address, &(libc::AF_INET as u16).to_ne_bytes());
            image.put(address + 2, &(40_000 + number as u16).to_be_bytes());
            image.put(address + 4, &[10, 0, 0, 7]);
            image.point_to_string(client + width.pick(136, 208), "operator");
            image.point_to_string(client + width.pick(140, 216), "console-3");
            let thread = image.room(96);
            if base_3_14 {
                // its pthread_t, which points to the C library's structure
                let handle = image.room(800);
                image.point(thread + width.pick(8, 16), handle);
                image.put(handle + width.pick(104, 720), &(TID + number as u32).to_ne_bytes());
            } else {
                image.put(thread + 24, &(TID + number as u32).to_ne_bytes());
            }
            let tid = if base_3_14 { width.pick(156, 240) } else { width.pick(160, 248) };
            image.point(client + tid, thread);
            let list = client + width.pick(64, 96);
            image.put(list + width.pick(8, 16), &(pvs.len() as u32).to_ne_bytes());
            let mut last = list;
            for pv in pvs {
                sid += 1;
                let channel = image.room(width.pick(60, 100));
                image.point(last, channel);
                last = channel;
                image.put(channel + width.pick(28, 56), &(sid + 100).to_ne_bytes());
                image.put(channel + width.pick(32, 60), &sid.to_ne_bytes());
                let db = channel + width.pick(44, 72);
                if base_3_14 {
                    image.point(db, record);
                    let field = image.field(rtype, if pv.contains('.') { 2 } else { 0 });
                    image.point(db + width.pick(8, 16), field);
                } else {
                    let channel = image.room(64);
                    image.point_to_string(channel, pv);
                    image.point(db, channel);
                }
            }
        }
        image.put(queue + width.pick(8, 16), &2u32.to_ne_bytes());
        Tables { image, queue, base, base_3_14 }
    }

    impl Tables {
        fn clients(&self, only: Option<u32>) -> Vec<Client> {
            let memory = self.image.memory();
            let layout = Layout::read(&memory, self.image.address(self.base)).ok();
            let threads = HashSet::from([TID, TID + 1]);
            let server = Server {
                memory: &memory,
                layout: layout.as_ref(),
                abi: Abi {
                    width: memory.width(),
                    generation: if self.base_3_14 { Generation::Base314 } else { Generation::Base315 },
                },
                threads: &threads,
                left: Cell::new(1000),
            };
            server.clients(self.image.address(self.queue), only)
        }
    }

    #[test]
    fn clients_and_channels_of_every_version_and_width() {
        for (width, base_3_14) in [(Bits64, true), (Bits64, false), (Bits32, true), (Bits32, false)] {
            let tables = tables(width, base_3_14);
            let clients = tables.clients(None);
            let [first, second] = clients.as_slice() else { panic!("{width:?} {base_3_14} {clients:?}") };
            assert_eq!(first.address.to_string(), "10.0.0.7:40000");
            assert_eq!((first.user.as_str(), first.host.as_str()), ("operator", "console-3"));
            assert_eq!((first.tid, second.tid), (Some(TID), Some(TID + 1)));
            let channel = |cid, sid, pv: &str| ClientChannel { cid, sid, pv: pv.into() };
            let expected = [channel(111, 11, "T:SP"), channel(112, 12, "T:SP.STAT")];
            assert_eq!(first.channels, expected, "{width:?} {base_3_14}");
            assert_eq!(second.channels, [channel(113, 13, "T:SP")]);
            assert_eq!(tables.clients(Some(TID + 1)), std::slice::from_ref(second));
        }
    }

    /// The server has freed a channel, and its name, since its list was read.
    #[test]
    fn what_was_freed_is_no_name() {
        for freed in [b"X\xc7R\x05", b"XR\x05V", b"X\xc7RV"] {
            let mut tables = tables(Bits64, false);
            let memory = tables.image.memory();
            let at = |address| memory.pointer(address).expect("a pointer");
            let channel = at(at(tables.image.address(tables.queue)) + 96);
            let name = at(at(channel + 72)) - tables.image.address(0);
            tables.image.put(name as usize, freed);
            let clients = tables.clients(None);
            let pvs: Vec<&str> = clients[0].channels.iter().map(|channel| channel.pv.as_str()).collect();
            assert_eq!(pvs, ["T:SP.STAT"], "{freed:?}");
        }
    }

    #[test]
    fn circles_end() {
        let mut tables = tables(Bits64, false);
        let first = tables.image.memory().pointer(tables.image.address(tables.queue)).unwrap();
        let second = tables.image.memory().pointer(first).unwrap();
        tables.image.put(tables.queue + 16, &u32::MAX.to_ne_bytes());
        let at = (second - tables.image.address(0)) as usize;
        tables.image.put_pointer(at, first);
        assert_eq!(tables.clients(None).len(), 2, "back to the first");
        tables.image.put_pointer(at, second);
        assert_eq!(tables.clients(None).len(), MAX_CLIENTS, "to itself");
    }

    /// Whatever the bytes are, reading ends and returns no more than the limits allow.
    #[test]
    fn images_that_were_changed() {
        let mut found = 0;
        fuzz(300, |random: &mut Random| {
            let width = if random.below(2) == 0 { Bits32 } else { Bits64 };
            let mut tables = tables(width, random.below(2) == 0);
            tables.image.change(random, 30);
            let clients = tables.clients(None);
            assert!(clients.len() <= MAX_CLIENTS);
            assert!(clients.iter().map(|client| client.channels.len()).sum::<usize>() <= 1000);
            found += clients.len();
        });
        assert!(std::env::var("FUZZ_SEED").is_ok() || found > 20, "{found}");
    }
}
