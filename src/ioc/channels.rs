//! The Channel Access channels of client processes on this machine, read from their memory.
//!
//! Every client that uses libca (caget, camonitor, pyepics, an IOC's CA links, a sequencer) keeps an object
//! of class `nciu` for each channel, and in it the channel's name, both ids and the circuit (`tcpiiu`). The
//! object begins with the address of its class's virtual table, a number that appears nowhere else, so a
//! search of the process's heap finds all channels.
//!
//! Nothing is stopped or changed: the search skips pages that are not in memory (never touched, or swapped out), so it
//! brings none in. It is bounded in bytes and time. An object is accepted if the circuit's socket belongs to the
//! process and is connected to the server that the object names.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::net::Ipv4Addr;
use std::path::Path;
use std::time::{Duration, Instant};

use iocrec_log::event::Address;

use crate::ioc::clients::ClientChannel;
use crate::ioc::files::LibraryFiles;
use crate::ioc::offsets::CaClient;
use crate::linux::memory::Memory;
use crate::linux::process::{self, Mapping};
use crate::linux::sockets::{self, Connection};
use crate::linux::width::{u32_at, Width};

/// Virtual tables of `nciu` and `tcpiiu`.
const CHANNEL_TABLE: &str = "_ZTV4nciu";
const CIRCUIT_TABLE: &str = "_ZTV6tcpiiu";

/// Sid of a channel that no server has answered for.
const NO_SID: u32 = u32::MAX;

/// Longest name accepted: PVs with filters can be long.
const MAX_NAME: usize = 512;
/// Most channels read from one process.
const MAX_CHANNELS: usize = 200_000;
/// Bytes read at once.
const CHUNK: usize = 1 << 20;
/// Most bytes read from one process: clients with 100,000 channels have some 100 MB.
const MAX_BYTES: usize = 256 << 20;
/// Time limit for one process: the ring buffers hold 0.4 s of a busy IOC. Unoptimized builds search ten times slower,
/// and record no busy IOC.
const MAX_TIME: Duration = Duration::from_millis(if cfg!(debug_assertions) { 3000 } else { 300 });
/// Page size of x86_64 and most arm64 kernels. With larger pages the entries of /proc/PID/pagemap are misread, pages
/// are skipped, and channels stay unnamed.
const PAGE: u64 = 4096;

/// A circuit of a client process, with its channels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenCircuit {
    /// Client's end.
    pub client: Address,
    /// Server's end.
    pub server: Address,
    /// Channels on it.
    pub channels: Vec<ClientChannel>,
}

/// Reader of client processes. Remembers which files hold libca.
#[derive(Default)]
pub struct Libraries {
    files: LibraryFiles,
}

/// Addresses of the virtual tables in a process: possible first words of an object.
#[derive(Clone, Debug, Default)]
struct Tables {
    channel: Vec<u64>,
    circuit: Vec<u64>,
    is_32bit: bool,
}

impl Libraries {
    /// Returns the circuits of a process; none if it has no libca, has ended or cannot be read.
    pub fn circuits(&mut self, pid: u32) -> Vec<OpenCircuit> {
        let mappings = process::mappings(pid).unwrap_or_default();
        let tables = self.tables(pid, &mappings);
        if tables.channel.is_empty() {
            return Vec::new();
        }
        let memory = Memory::of(pid, if tables.is_32bit { Width::Bits32 } else { Width::Bits64 });
        let objects = search(pid, &memory, &process::writable(pid), &tables.channel, MAX_TIME);
        let connections = sockets::connections(pid);
        let connection = |descriptor| {
            let inode = sockets::inode(pid, descriptor)?;
            connections.iter().find(|connection| connection.inode == inode).copied()
        };
        read(&memory, &objects, &tables, &connection)
    }

    fn tables(&mut self, pid: u32, mappings: &[Mapping]) -> Tables {
        let mut tables = Tables::default();
        self.files.each(pid, mappings, &[CHANNEL_TABLE, CIRCUIT_TABLE], &mut |elf, bias| {
            if elf.symbol(CHANNEL_TABLE).is_none() {
                return;
            }
            let width = if elf.is_64bit { Width::Bits64 } else { Width::Bits32 };
            let head = CaClient::of(width).table_head;
            let first_word = |name| {
                let table = elf.symbol(name).filter(|symbol| !symbol.function)?;
                Some(table.address.wrapping_add(bias).wrapping_add(head))
            };
            tables.is_32bit |= !elf.is_64bit;
            tables.channel.extend(first_word(CHANNEL_TABLE));
            tables.circuit.extend(first_word(CIRCUIT_TABLE));
        });
        tables
    }
}

/// Returns the addresses of the words whose value is in `wanted`, as far as the search comes in that time.
pub(super) fn search(
    pid: u32,
    memory: &Memory,
    ranges: &[(u64, u64)],
    wanted: &[u64],
    time: Duration,
) -> Vec<u64> {
    let pagemap = process::directory(pid).join("pagemap");
    let end = Instant::now() + time;
    let mut buffer = vec![0; CHUNK];
    let (mut found, mut bytes) = (Vec::new(), 0);
    for &(start, stop) in ranges {
        let mut chunk = start;
        // where nothing is in memory, too: sanitizers reserve terabytes of it
        while chunk < stop && Instant::now() < end {
            let upto = stop.min(chunk.saturating_add(CHUNK as u64));
            for (from, length) in present(&pagemap, chunk, upto) {
                if bytes >= MAX_BYTES || found.len() >= MAX_CHANNELS || Instant::now() >= end {
                    return found;
                }
                let Some(into) = buffer.get_mut(..length) else { continue };
                let have = memory.read_some(from, into);
                bytes += have;
                let words = into.get(..have).unwrap_or_default();
                match memory.width() {
                    Width::Bits64 => {
                        let hits = (from..).step_by(8).zip(words.as_chunks::<8>().0);
                        let hits = hits.filter(|(_, word)| wanted.contains(&u64::from_ne_bytes(**word)));
                        found.extend(hits.map(|(address, _)| address));
                    }
                    Width::Bits32 => {
                        let hits = (from..).step_by(4).zip(words.as_chunks::<4>().0);
                        let hits =
                            hits.filter(|(_, word)| wanted.contains(&u32::from_ne_bytes(**word).into()));
                        found.extend(hits.map(|(address, _)| address));
                    }
                }
            }
            chunk = upto;
        }
    }
    found
}

/// The runs of pages between two addresses that are in memory: address and length, bytes.
fn present(pagemap: &Path, start: u64, stop: u64) -> Vec<(u64, usize)> {
    /// Bit of a /proc/PID/pagemap entry (Documentation/admin-guide/mm/pagemap.rst).
    const PRESENT: u64 = 1 << 63;
    let mut entries = vec![0; (stop.saturating_sub(start) / PAGE) as usize * 8];
    let have = crate::linux::reader::file::read_at(pagemap, &mut entries, start / PAGE * 8).unwrap_or(0);
    let entries = entries.get(..have).unwrap_or_default().as_chunks::<8>().0;
    let mut runs: Vec<(u64, usize)> = Vec::new();
    for (page, entry) in (start..).step_by(PAGE as usize).zip(entries) {
        if u64::from_ne_bytes(*entry) & PRESENT == 0 {
            continue;
        }
        match runs.last_mut().filter(|(from, length)| from + *length as u64 == page) {
            Some((_, length)) => *length += PAGE as usize,
            None => runs.push((page, PAGE as usize)),
        }
    }
    runs
}

/// Reads the objects and keeps the plausible ones. `connection` returns the connection of a descriptor of the process.
fn read(
    memory: &Memory,
    objects: &[u64],
    tables: &Tables,
    connection: &dyn Fn(u32) -> Option<Connection>,
) -> Vec<OpenCircuit> {
    let mut circuits: HashMap<u64, Option<(Address, Address)>> = HashMap::new();
    // by the circuit's ends and the sid; `None` where two names claim the same channel
    let mut channels: BTreeMap<(Address, Address), BTreeMap<u32, Option<ClientChannel>>> = BTreeMap::new();
    for &object in objects {
        let Some((circuit, channel)) = channel(memory, object) else { continue };
        let ends = circuits.entry(circuit).or_insert_with(|| ends(memory, circuit, tables, connection));
        let Some(ends) = *ends else { continue };
        match channels.entry(ends).or_default().entry(channel.sid) {
            Entry::Vacant(place) => _ = place.insert(Some(channel)),
            Entry::Occupied(place) if place.get().as_ref() == Some(&channel) => {}
            Entry::Occupied(mut place) => _ = place.insert(None),
        }
    }
    let circuit = |((client, server), channels): (_, BTreeMap<u32, Option<ClientChannel>>)| OpenCircuit {
        client,
        server,
        channels: channels.into_values().flatten().collect(),
    };
    channels.into_iter().map(circuit).collect()
}

/// Reads an nciu: address of its circuit, and the channel.
fn channel(memory: &Memory, object: u64) -> Option<(u64, ClientChannel)> {
    let (offsets, width) = (CaClient::of(memory.width()), memory.width());
    let bytes: [u8; CaClient::MAX_BYTES] = memory.head(object, offsets.channel_bytes)?;
    let sid = u32_at(&bytes, offsets.sid);
    let pv = memory.string(width.pointer(&bytes, offsets.name), MAX_NAME)?;
    let good = is_pv(&pv);
    let channel = ClientChannel { cid: u32_at(&bytes, offsets.cid), sid, pv };
    (good && sid != NO_SID).then(|| (width.pointer(&bytes, offsets.circuit), channel))
}

/// The PV of the channel with this chid (an oldChannelNotify, which refers to the nciu) and number, as its program named
/// it.
pub fn pv(memory: &Memory, chid: u64, cid: u32) -> Option<String> {
    let (offsets, width) = (CaClient::of(memory.width()), memory.width());
    let object = memory.pointer(chid.checked_add(offsets.of_chid)?)?;
    let bytes: [u8; CaClient::MAX_BYTES] = memory.head(object, offsets.channel_bytes)?;
    let pv = memory.string(width.pointer(&bytes, offsets.name), MAX_NAME)?;
    (u32_at(&bytes, offsets.cid) == cid && is_pv(&pv)).then_some(pv)
}

/// Whether this can be a PV's name. A backslash means that other characters were escaped; no PV has one.
fn is_pv(pv: &str) -> bool {
    !pv.is_empty() && pv.bytes().all(|byte| (b' '..=b'~').contains(&byte) && byte != b'\\')
}

/// Reads a tcpiiu: the client's end and the server's end.
fn ends(
    memory: &Memory,
    object: u64,
    tables: &Tables,
    connection: &dyn Fn(u32) -> Option<Connection>,
) -> Option<(Address, Address)> {
    let offsets = CaClient::of(memory.width());
    let bytes: [u8; CaClient::MAX_BYTES] = memory.head(object, offsets.circuit_bytes)?;
    // a channel that searches for its server has a udpiiu instead
    if !tables.circuit.contains(&memory.width().pointer(&bytes, 0)) {
        return None;
    }
    let address = bytes.get(offsets.server..)?.first_chunk::<8>()?;
    let [family0, family1, port0, port1, ip @ ..] = *address;
    if u16::from_ne_bytes([family0, family1]) != libc::AF_INET as u16 {
        return None;
    }
    let server = Address::new(Ipv4Addr::from(ip), u16::from_be_bytes([port0, port1]));
    let (first, last) = offsets.sockets;
    let mut connections = (first..=last).step_by(4).filter_map(|at| connection(u32_at(&bytes, at)));
    let to_server = connections.find(|connection| connection.remote == server)?;
    Some((to_server.local, server))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ioc::image::Image;
    use proptest::prelude::*;

    fn offsets() -> &'static CaClient {
        CaClient::of(Width::Bits64)
    }

    const CHANNEL: u64 = 0x7f00_1111_2220;
    const CIRCUIT: u64 = 0x7f00_1111_3330;

    fn tables() -> Tables {
        Tables { channel: vec![CHANNEL], circuit: vec![CIRCUIT], is_32bit: false }
    }

    fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
        bytes[at..at + value.len()].copy_from_slice(value);
    }

    /// A circuit to 10.0.0.7:5064 on descriptor 5.
    fn circuit() -> Vec<u8> {
        let mut bytes = vec![0; offsets().circuit_bytes];
        put(&mut bytes, 0, &CIRCUIT.to_ne_bytes());
        put(&mut bytes, offsets().server, &(libc::AF_INET as u16).to_ne_bytes());
        put(&mut bytes, offsets().server + 2, &5064u16.to_be_bytes());
        put(&mut bytes, offsets().server + 4, &[10, 0, 0, 7]);
        put(&mut bytes, offsets().sockets.0, &5u32.to_ne_bytes());
        bytes
    }

    fn channel(circuit: &[u8], name: &[u8], cid: u32, sid: u32) -> Vec<u8> {
        let mut bytes = vec![0; offsets().channel_bytes];
        put(&mut bytes, 0, &CHANNEL.to_ne_bytes());
        put(&mut bytes, offsets().cid, &cid.to_ne_bytes());
        put(&mut bytes, offsets().name, &(name.as_ptr() as u64).to_ne_bytes());
        put(&mut bytes, offsets().circuit, &(circuit.as_ptr() as u64).to_ne_bytes());
        put(&mut bytes, offsets().sid, &sid.to_ne_bytes());
        bytes
    }

    fn here() -> Memory {
        Memory::new(std::process::id())
    }

    const LOCAL: Address = Address { ip: 0x0a00_0001, port: 40000 };

    /// Descriptor 5 is connected to that server.
    fn connected(descriptor: u32) -> Option<Connection> {
        let remote = Address::new(Ipv4Addr::new(10, 0, 0, 7), 5064);
        (descriptor == 5).then_some(Connection { local: LOCAL, remote, inode: 1 })
    }

    fn read_all(objects: &[&[u8]]) -> Vec<OpenCircuit> {
        let objects: Vec<u64> = objects.iter().map(|object| object.as_ptr() as u64).collect();
        read(&here(), &objects, &tables(), &connected)
    }

    #[test]
    fn names_and_ids_of_a_circuits_channels() {
        let circuit = circuit();
        let one = channel(&circuit, b"T:SP\0", 1, 11);
        let other = channel(&circuit, b"T:RB.DESC\0", 2, 12);
        let found = read_all(&[&one, &other, &one]);
        let [found] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!((found.client, found.server.port), (LOCAL, 5064));
        let channels: Vec<_> = found.channels.iter().map(|c| (c.cid, c.sid, c.pv.as_str())).collect();
        assert_eq!(channels, [(1, 11, "T:SP"), (2, 12, "T:RB.DESC")]);
    }

    /// In an image below 4 GiB, as in a 32-bit process.
    #[test]
    fn channels_of_a_32_bit_process() {
        let mut image = Image::new(Width::Bits32);
        let circuit = image.room(600);
        image.put_pointer(circuit, 0xf7f0_2220);
        image.put(circuit + 16, &(libc::AF_INET as u16).to_ne_bytes());
        image.put(circuit + 18, &5064u16.to_be_bytes());
        image.put(circuit + 20, &[10, 0, 0, 7]);
        image.put(circuit + 536, &5u32.to_ne_bytes());
        let channel = image.room(64);
        image.put_pointer(channel, 0xf7f0_1110);
        image.put(channel + 8, &1u32.to_ne_bytes());
        image.point_to_string(channel + 52, "T:SP");
        image.point(channel + 56, circuit);
        image.put(channel + 60, &11u32.to_ne_bytes());
        let tables = Tables { channel: vec![0xf7f0_1110], circuit: vec![0xf7f0_2220], is_32bit: true };
        let ranges = [(image.address(0), image.address(PAGE as usize))];
        let objects = search(std::process::id(), &image.memory(), &ranges, &tables.channel, MAX_TIME);
        assert_eq!(objects, [image.address(channel)]);
        let found = read(&image.memory(), &objects, &tables, &connected);
        let expected = ClientChannel { cid: 1, sid: 11, pv: "T:SP".into() };
        assert_eq!((found[0].client, found[0].channels.as_slice()), (LOCAL, &[expected][..]));
    }

    #[test]
    fn what_does_not_fit_is_not_believed() {
        let good = circuit();
        let searching = channel(&good, b"T:SP\0", 1, NO_SID);
        let odd_name = channel(&good, b"T:\xffSP\0", 1, 11);
        let no_name = channel(&good, b"\0", 1, 11);
        assert_eq!(read_all(&[&searching, &odd_name, &no_name]), []);
        for (at, byte) in
            [(0, 9), (offsets().server, 10), (offsets().server + 4, 11), (offsets().sockets.0, 6)]
        {
            let mut bad = circuit();
            bad[at] = byte;
            assert_eq!(read_all(&[&channel(&bad, b"T:SP\0", 1, 11)]), [], "byte {at}");
        }
        // one of the two names must be old, but which one is unknown
        let found = read_all(&[&channel(&good, b"A\0", 1, 11), &channel(&good, b"B\0", 2, 11)]);
        assert_eq!(found[0].channels, []);
    }

    #[test]
    fn objects_are_found_in_memory() {
        // a separate allocation, so that it is aligned and not shared with another test
        let mut image = vec![0u64; 3 * CHUNK / 8];
        let places = [1000, CHUNK / 8 - 1, CHUNK / 8, 3 * CHUNK / 8 - 4096];
        places.iter().for_each(|&place| image[place] = CHANNEL);
        let start = (image.as_ptr() as u64).next_multiple_of(PAGE);
        let end = (image.as_ptr() as u64 + 3 * CHUNK as u64) / PAGE * PAGE;
        let found = search(std::process::id(), &here(), &[(start, end)], &[CHANNEL], MAX_TIME);
        let wanted = places.map(|place| &raw const image[place] as u64);
        assert!(wanted.iter().all(|address| found.contains(address)), "{wanted:x?} in {found:x?}");
        assert_eq!(found.len(), wanted.len());
        assert!(process::writable(std::process::id()).iter().any(|&(from, to)| from <= start && end <= to));
    }

    /// Of terabytes that were reserved, nothing is in memory.
    #[test]
    fn a_search_ends_where_there_is_nothing() {
        let begin = Instant::now();
        let ranges = [(1_u64 << 40, 1_u64 << 44)];
        let found = search(std::process::id(), &here(), &ranges, &[CHANNEL], Duration::from_millis(50));
        assert!(found.is_empty(), "{found:x?}");
        assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
    }

    proptest! {
        /// Whatever the bytes are, reading ends and names no unconnected channel.
        #[test]
        fn garbage_names_nothing(
            mut circuit in Just(circuit()),
            changes in prop::collection::vec((0usize..offsets().circuit_bytes, any::<u8>()), 1..20),
            channel_changes in prop::collection::vec((8usize..offsets().channel_bytes, any::<u8>()), 0..20),
        ) {
            for (at, byte) in changes {
                circuit[at] = byte;
            }
            let mut channel = channel(&circuit, b"T:SP\0", 1, 11);
            for (at, byte) in channel_changes {
                channel[at] = byte;
            }
            for found in read_all(&[&channel]) {
                prop_assert_eq!(Some(found.server), connected(5).map(|connection| connection.remote));
                prop_assert_eq!(found.client, LOCAL);
            }
        }
    }
}
