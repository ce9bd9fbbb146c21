//! The Channel Access clients of an IOC, read from its server's own tables.
//!
//! rsrv keeps a list of its TCP clients, each with its channels (`struct client`, `struct
//! channel_in_use`, rsrv/server.h). Their layout has been the same from Base 3.14.12 to 7.0.10, but for
//! the thread (read by searching) and how a channel leads to its name. Offsets are for 64-bit processes.
//!
//! The lists change while they are read, under a lock that we don't take: a node may lead anywhere.
//! So the walk is bounded and believes a client only if its address is one of an IPv4 socket.

use std::collections::HashSet;
use std::net::Ipv4Addr;

use iocrec_log::event::Address;

use super::layout::Fixed;
use super::memory::Memory;
use super::{addresses, IocProcess};

/// struct client.
const CLIENT_CHANNELS: usize = 96;
const CLIENT_CHANNELS_PENDING: usize = 120;
const CLIENT_ADDRESS: usize = 168;
const CLIENT_USER: usize = 208;
const CLIENT_HOST: usize = 216;
/// `tid`: 240 up to 3.15.1, 248 from 3.15.5 on.
const CLIENT_THREAD: [usize; 2] = [240, 248];
const CLIENT_BYTES: usize = 256;
/// struct channel_in_use.
const CHANNEL_CID: usize = 56;
const CHANNEL_SID: usize = 60;
const CHANNEL_DB: usize = 72;
const CHANNEL_BYTES: usize = 96;
/// Members of an epicsThreadOSD that may hold the kernel's thread number (seen at 24 and 32).
const THREAD_BYTES: usize = 96;

/// An ELLLIST.
const LIST_BYTES: usize = 24;

/// More clients or channels of one client than can be.
const MAX_CLIENTS: usize = 10_000;
const MAX_CHANNELS: usize = 1_000_000;
/// Longest name believed: PVs with filters can be long, CA allows user and host 512 bytes.
const MAX_NAME: usize = 512;

/// A client of an IOC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client {
    /// Its address.
    pub address: Address,
    /// Who it says it is.
    pub user: String,
    /// Where it says it is.
    pub host: String,
    /// Kernel thread of the IOC that serves it, where found.
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
    /// PV as the client named it.
    pub pv: String,
}

/// The clients now, or only the one that thread `only` serves. Empty where the IOC has no server, or
/// nothing makes sense.
pub fn clients(ioc: &IocProcess, threads: &HashSet<u32>, only: Option<u32>) -> Vec<Client> {
    let head = addresses(&ioc.modules, "clientQ")
        .filter_map(|list| ioc.memory.bytes::<LIST_BYTES>(list))
        .find(|head| word(head, 0) != 0);
    head.map_or_else(Vec::new, |head| {
        list(&ioc.memory, &head, MAX_CLIENTS).filter_map(|node| client(ioc, node, threads, only)).collect()
    })
}

/// The nodes of an ELLLIST {first node, last node, int count}: each begins with the next one's address.
/// Never more than it claims to have, nor than `limit`.
fn list<'a>(memory: &'a Memory, head: &[u8], limit: usize) -> impl Iterator<Item = u64> + 'a {
    let first = Some(word(head, 0)).filter(|&node| node != 0);
    let count = limit.min(half(head, 16) as usize);
    std::iter::successors(first, |&node| memory.pointer(node).filter(|&next| next != 0)).take(count)
}

fn word(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_ne_bytes)
}

fn half(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|b| b.try_into().ok()).map_or(0, u32::from_ne_bytes)
}

fn client(ioc: &IocProcess, node: u64, threads: &HashSet<u32>, only: Option<u32>) -> Option<Client> {
    let memory = &ioc.memory;
    let bytes: [u8; CLIENT_BYTES] = memory.bytes(node)?;
    let family = u16::from_ne_bytes([bytes[CLIENT_ADDRESS], bytes[CLIENT_ADDRESS + 1]]);
    if family != libc::AF_INET as u16 {
        return None;
    }
    let port = u16::from_be_bytes([bytes[CLIENT_ADDRESS + 2], bytes[CLIENT_ADDRESS + 3]]);
    let ip: [u8; 4] = bytes[CLIENT_ADDRESS + 4..CLIENT_ADDRESS + 8].try_into().ok()?;
    let text = |at| memory.string(word(&bytes, at), MAX_NAME).unwrap_or_default();
    let tid = CLIENT_THREAD.iter().find_map(|&at| thread(memory, word(&bytes, at), threads));
    if only.is_some() && tid != only {
        return None;
    }
    let heads = [CLIENT_CHANNELS, CLIENT_CHANNELS_PENDING];
    let channels =
        heads.iter().flat_map(|&at| list(memory, bytes.get(at..).unwrap_or_default(), MAX_CHANNELS));
    Some(Client {
        address: Address::new(Ipv4Addr::from(ip), port),
        user: text(CLIENT_USER),
        host: text(CLIENT_HOST),
        tid,
        channels: channels.filter_map(|node| channel(ioc, node)).collect(),
    })
}

/// The kernel's number of a thread: what in its epicsThreadOSD is a thread of this process.
fn thread(memory: &Memory, address: u64, threads: &HashSet<u32>) -> Option<u32> {
    let bytes: [u8; THREAD_BYTES] = memory.bytes(address)?;
    (0..THREAD_BYTES / 4).map(|index| half(&bytes, index * 4)).find(|tid| threads.contains(tid))
}

fn channel(ioc: &IocProcess, node: u64) -> Option<ClientChannel> {
    let bytes: [u8; CHANNEL_BYTES] = ioc.memory.bytes(node)?;
    let pv = if ioc.fixed.channel_address == Fixed::BASE_3_14.channel_address {
        // 3.14: a DBADDR in place: record and field description
        let record = ioc.memory.string(word(&bytes, CHANNEL_DB), MAX_NAME)?;
        let (_, field, _) = ioc.layout.as_ref().ok()?.field(&ioc.memory, word(&bytes, CHANNEL_DB + 16))?;
        if field == "VAL" {
            record
        } else {
            format!("{record}.{field}")
        }
    } else {
        // dbChannel begins with the name as the client wrote it
        ioc.memory.string(ioc.memory.pointer(word(&bytes, CHANNEL_DB))?, MAX_NAME)?
    };
    (!pv.is_empty()).then(|| ClientChannel {
        cid: half(&bytes, CHANNEL_CID),
        sid: half(&bytes, CHANNEL_SID),
        pv,
    })
}
