//! Offsets of members in the structures of EPICS Base: all those that cannot be read from the IOC itself.
//!
//! Fields of records are not here: Base keeps descriptions of them, which `layout` reads. The structures that lead to
//! these descriptions must be known beforehand, and so must a few others that no structure describes. Each has one
//! table below, in bytes, for 32-bit and for 64-bit processes.
//!
//! | table | structures | header | differs by | compared |
//! |---|---|---|---|---|
//! | [`Database`] | dbBase, dbRecordType, dbFldDes, dbMenu, dbDeviceMenu, dbRecordNode | dbBase.h, dbFldTypes.h | width | 14 builds, 3.14.12 to 7.0.10 |
//! | [`Scan`] | CALLBACK, scan_list, scan_element | callback.h, dbScan.c | width | sources of 3.14.12.8, 3.15.5, 3.15.9, 3.16.1, 3.16.2, 7.0.2 to 7.0.10 |
//! | [`Link`] | struct link | link.h | width, [`Numbering`] | the same |
//! | [`Lock`] | lockRecord, lockSet, epicsMutexParm, epicsMutexOSD, pthread_mutex_t | dbLockPvt.h, osdMutex.c, glibc | width | test on six builds, 3.14.12 to 7.0.10; 32 bits: 7.0.7 for i386 |
//! | [`Notify`] | processNotify (3.14: putNotify), dbChannel | dbNotify.h, dbChannel.h | width, [`Generation`] | the same |
//! | [`CaServer`] | struct client, struct channel_in_use | rsrv/server.h | width | sources of 3.14.12, 3.15.9, 7.0.8 |
//! | [`CaClient`] | nciu, tcpiiu | nciu.h, virtualCircuit.h | width | libca of six builds, 3.14.12 to 7.0.10; 32 bits: 7.0.7 for i386 |
//! | [`Thread`] | epicsThreadOSD, struct pthread | osdThread.c, glibc | width, [`Generation`] | 3.14.12 on x86_64; 32 bits are computed |
//!
//! # A Base that differs
//!
//! For a member that has moved, add an arm to `of` of its table here. If nothing at hand distinguishes that Base, add a
//! [`Generation`] with a function by which it is recognized, and let `of` take the [`Abi`] where it does not yet. Add a
//! new field type to `epics::dbf`, and a function's new name to `functions`.

use epics::dbf::Numbering;

use crate::linux::width::Width;

/// Releases of Base, distinguished by the symbols of their functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generation {
    /// 3.14: channels are DBADDRs, and the kernel does not know the threads' names.
    Base314,
    /// 3.15 to 7.0: has dbChannel, and names its threads.
    Base315,
}

impl Generation {
    /// The later generations, newest first, each with a function that no earlier one has.
    const LATER: [(Generation, &str); 1] = [(Generation::Base315, "dbChannelCreate")];

    /// The functions by which generations are recognized.
    pub fn symbols() -> impl Iterator<Item = &'static str> {
        Generation::LATER.into_iter().map(|(_, symbol)| symbol)
    }

    /// The generation of a process that defines these symbols.
    pub fn of(defines: impl Fn(&str) -> bool) -> Generation {
        let found = Generation::LATER.into_iter().find(|(_, symbol)| defines(symbol));
        found.map_or(Generation::Base314, |(generation, _)| generation)
    }
}

/// The factors that determine an IOC's structures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Abi {
    /// Width of its pointers.
    pub width: Width,
    /// Its release of Base.
    pub generation: Generation,
}

impl Abi {
    /// Whether it is Base 3.14.
    pub fn is_3_14(self) -> bool {
        self.generation == Generation::Base314
    }
}

/// The record database.
#[derive(Debug)]
pub struct Database {
    /// dbBase.recordTypeList, an ELLLIST.
    pub base_types: u64,
    /// dbRecordType: next node at 0, `recList`, `name`, `no_fields` (short), `papFldDes`, `rec_size` (int), `prset`.
    pub type_records: u64,
    pub type_name: usize,
    pub type_fields: usize,
    pub type_descriptions: usize,
    pub type_record_size: usize,
    pub type_functions: u64,
    pub type_bytes: usize,
    /// rset: `process`, its fourth function.
    pub process_routine: u64,
    /// dbFldDes: `name`, `pdbRecordType`, `field_type` (int), `ftPvt`, `size` (short), `offset` (short).
    pub field_name: usize,
    pub field_type: usize,
    pub field_dbf: usize,
    pub field_private: usize,
    pub field_size: usize,
    pub field_offset: usize,
    pub field_bytes: usize,
    /// dbMenu: `name`, `nChoice` (int), `papChoiceValue`.
    pub menu_name: usize,
    pub menu_count: usize,
    pub menu_values: usize,
    pub menu_bytes: usize,
    /// dbDeviceMenu: `nChoice` (int) at 0, `papChoice`.
    pub device_choices: usize,
    pub device_bytes: usize,
    /// dbRecordNode: next node at 0, `precord`, `recordname`, `flags` (int).
    pub node_record: usize,
    pub node_name: usize,
    pub node_flags: usize,
    pub node_bytes: usize,
    /// ELLLIST: first node at 0, last node, `count` (int).
    pub list_count: usize,
    pub list_bytes: usize,
}

impl Database {
    /// Size of the largest of these structures that is read at once.
    pub const MAX_BYTES: usize = 192;

    /// The table for a width; i386 and 32-bit ARM agree.
    pub fn of(width: Width) -> &'static Database {
        const BITS64: Database = Database {
            base_types: 24,
            type_records: 40,
            type_name: 112,
            type_fields: 120,
            type_descriptions: 168,
            type_record_size: 184,
            type_functions: 176,
            type_bytes: 192,
            process_routine: 32,
            field_name: 8,
            field_type: 24,
            field_dbf: 36,
            field_private: 64,
            field_size: 72,
            field_offset: 74,
            field_bytes: 80,
            menu_name: 16,
            menu_count: 24,
            menu_values: 40,
            menu_bytes: 48,
            device_choices: 8,
            device_bytes: 16,
            node_record: 16,
            node_name: 24,
            node_flags: 56,
            node_bytes: 64,
            list_count: 16,
            list_bytes: 24,
        };
        const BITS32: Database = Database {
            base_types: 12,
            type_records: 20,
            type_name: 56,
            type_fields: 60,
            type_descriptions: 88,
            type_record_size: 96,
            type_functions: 92,
            type_bytes: 100,
            process_routine: 16,
            field_name: 4,
            field_type: 12,
            field_dbf: 20,
            field_private: 44,
            field_size: 48,
            field_offset: 50,
            field_bytes: 52,
            menu_name: 8,
            menu_count: 12,
            menu_values: 20,
            menu_bytes: 24,
            device_choices: 4,
            device_bytes: 8,
            node_record: 8,
            node_name: 12,
            node_flags: 28,
            node_bytes: 32,
            list_count: 8,
            list_bytes: 12,
        };
        width.pick(&BITS32, &BITS64)
    }
}

/// Scan lists and their elements.
#[derive(Debug)]
pub struct Scan {
    /// CALLBACK: `priority` (int), `user`.
    pub priority: usize,
    pub user: usize,
    pub callback_bytes: u64,
    /// scan_list: epicsMutexId, ELLLIST, short.
    pub list_bytes: u64,
    /// scan_element: ELLNODE, `pscan_list`, `precord`.
    pub element_list: usize,
    pub element_record: usize,
    pub element_bytes: usize,
}

impl Scan {
    /// The table for a width.
    pub fn of(width: Width) -> &'static Scan {
        const BITS64: Scan = Scan {
            priority: 8,
            user: 16,
            callback_bytes: 32,
            list_bytes: 40,
            element_list: 16,
            element_record: 24,
            element_bytes: 32,
        };
        const BITS32: Scan = Scan {
            priority: 4,
            user: 8,
            callback_bytes: 16,
            list_bytes: 20,
            element_list: 8,
            element_record: 12,
            element_bytes: 16,
        };
        width.pick(&BITS32, &BITS64)
    }
}

/// The lock of a record (dbLockPvt.h, epicsMutex, the GNU C library).
#[derive(Debug)]
pub struct Lock {
    /// lockRecord: `plockSet`, `precord`.
    pub set: usize,
    pub record: usize,
    pub record_bytes: usize,
    /// lockSet: `lock`, an epicsMutexId, behind an ELLNODE and an ELLLIST.
    pub mutex: u64,
    /// epicsMutexParm: the pthread_mutex_t (since 7.0.9), or before it the pointer to an epicsMutexOSD.
    pub inner: usize,
    pub outer: usize,
    /// epicsMutexOSD: the pthread_mutex_t; in 3.14 it is behind its attributes.
    pub in_outer: [u64; 2],
    pub mutex_bytes: usize,
    pub outer_bytes: usize,
    /// pthread_mutex_t: `__kind`, `__nusers`. `__lock` is at 0, `__count` at 4, `__owner` at 8.
    pub kind: usize,
    pub users: usize,
}

impl Lock {
    /// Size of the largest of these structures, as far as it is read.
    pub const MAX_BYTES: usize = 56;

    /// The table for a width.
    pub fn of(width: Width) -> &'static Lock {
        const BITS64: Lock = Lock {
            set: 16,
            record: 24,
            record_bytes: 32,
            mutex: 40,
            inner: 32,
            outer: 16,
            in_outer: [0, 8],
            mutex_bytes: 56,
            outer_bytes: 24,
            kind: 16,
            users: 12,
        };
        const BITS32: Lock = Lock {
            set: 8,
            record: 12,
            record_bytes: 16,
            mutex: 20,
            inner: 16,
            outer: 8,
            in_outer: [0, 4],
            mutex_bytes: 36,
            outer_bytes: 20,
            kind: 12,
            users: 16,
        };
        width.pick(&BITS32, &BITS64)
    }
}

/// struct link.
#[derive(Debug)]
pub struct Link {
    /// Its record; `None` if links have no such member.
    pub record: Option<usize>,
    /// `type` (short).
    pub kind: usize,
    /// `flags` (short); `None` if links have no such member.
    pub flags: Option<usize>,
    /// Start of the union `value`: the string of a constant, of a JSON link and of an `@` link.
    pub value: usize,
    /// `text`, which holds a constant that was never changed; `None` if links have no such member.
    pub text: Option<usize>,
    /// Name of the PV, in `value`.
    pub pv: usize,
    /// `pvlMask` (short), in `value`.
    pub mask: usize,
    pub bytes: usize,
}

impl Link {
    /// Size of the largest.
    pub const MAX_BYTES: usize = 80;

    /// The table for a width: 3.16.1, which renumbered field types, also rearranged links.
    pub fn of(width: Width, numbering: Numbering) -> Link {
        match numbering {
            Numbering::Before3161 => Link {
                record: None,
                kind: width.pick(20, 40),
                flags: None,
                value: 0,
                text: None,
                pv: 0,
                mask: width.pick(16, 32),
                bytes: width.pick(28, 56),
            },
            Numbering::Since3161 => Link {
                record: Some(0),
                kind: width.pick(4, 8),
                flags: Some(width.pick(6, 10)),
                value: width.pick(16, 32),
                text: Some(width.pick(12, 24)),
                pv: width.pick(24, 48),
                mask: width.pick(36, 72),
                bytes: width.pick(40, 80),
            },
        }
    }
}

/// A put with callback, on the way from its processNotify to its field.
#[derive(Clone, Copy, Debug)]
pub struct Notify {
    /// processNotify.chan, a dbChannel; 3.14: putNotify.paddr, a DBADDR.
    pub channel: u32,
    /// dbChannel.addr, a DBADDR; 0 in 3.14.
    pub address: u32,
}

impl Notify {
    /// The table for an ABI.
    pub fn of(abi: Abi) -> Notify {
        match abi.generation {
            Generation::Base314 => Notify { channel: abi.width.pick(16, 32), address: 0 },
            Generation::Base315 => Notify { channel: abi.width.pick(28, 48), address: abi.width.pick(4, 8) },
        }
    }
}

/// Clients and channels of rsrv, the Channel Access server of an IOC.
#[derive(Debug)]
pub struct CaServer {
    /// struct client: `chanList`, `chanPendingUpdateARList`, `addr` (sockaddr_in), `pUserName`, `pHostName`.
    pub channels: [usize; 2],
    pub address: usize,
    pub user: usize,
    pub host: usize,
    /// `tid`, without and with `udpRecv` before it, which came after 3.15.1: both are tried.
    pub threads: [usize; 2],
    pub client_bytes: usize,
    /// struct channel_in_use: `cid`, `sid`.
    pub cid: usize,
    pub sid: usize,
    /// `dbch`, a dbChannel, which begins with its name; 3.14: `addr`, a DBADDR, which begins with the record's address
    /// and has the field's description behind two pointers.
    pub channel: usize,
    pub channel_bytes: usize,
    /// Its list of subscriptions, `eventq`. struct event_ext: `pciu`, which is the channel, and `pdbev`.
    pub events: usize,
    pub event_channel: usize,
    pub event_subscription: usize,
    /// struct evSubscrip (dbEvent.c): `user_arg`, which is the event_ext, `npend`, `nreplace`, and `useValque`, before
    /// 3.15 `valque`.
    pub argument: usize,
    pub pending: usize,
    pub replaced: usize,
    pub keeps_values: usize,
}

impl CaServer {
    /// Size of the larger structure.
    pub const MAX_BYTES: usize = 256;

    /// The table for an ABI.
    pub fn of(abi: Abi) -> &'static CaServer {
        const BITS64: CaServer = CaServer {
            channels: [96, 120],
            address: 168,
            user: 208,
            host: 216,
            threads: [240, 248],
            client_bytes: 256,
            cid: 56,
            sid: 60,
            channel: 72,
            channel_bytes: 96,
            events: 16,
            event_channel: 40,
            event_subscription: 48,
            argument: 32,
            pending: 56,
            replaced: 64,
            keeps_values: 73,
        };
        const BITS32: CaServer = CaServer {
            channels: [64, 76],
            address: 100,
            user: 136,
            host: 140,
            threads: [156, 160],
            client_bytes: 164,
            cid: 28,
            sid: 32,
            channel: 44,
            channel_bytes: 56,
            events: 8,
            event_channel: 28,
            event_subscription: 32,
            argument: 16,
            pending: 28,
            replaced: 32,
            keeps_values: 37,
        };
        abi.width.pick(&BITS32, &BITS64)
    }
}

/// Objects of libca in the memory of a Channel Access client.
#[derive(Debug)]
pub struct CaClient {
    /// Bytes of a virtual table before the address that objects hold (Itanium C++ ABI: offset to top, type
    /// information).
    pub table_head: u64,
    /// oldChannelNotify, to which a chid points: `io`, the nciu.
    pub of_chid: u64,
    /// nciu: `id`, `pNameStr`, `piiu` (its circuit), `sid`.
    pub cid: usize,
    pub name: usize,
    pub circuit: usize,
    pub sid: usize,
    pub channel_bytes: usize,
    /// tcpiiu: the server's sockaddr_in.
    pub server: usize,
    /// First and last possible offset of the socket's descriptor: it is moved by the doubles before it, which 32-bit
    /// ARM aligns to 8 bytes and i386 to 4.
    pub sockets: (usize, usize),
    pub circuit_bytes: usize,
}

impl CaClient {
    /// Size of the larger object.
    pub const MAX_BYTES: usize = 896;

    /// The table for a width.
    pub fn of(width: Width) -> &'static CaClient {
        const BITS64: CaClient = CaClient {
            table_head: 16,
            of_chid: 16,
            cid: 16,
            name: 104,
            circuit: 112,
            sid: 120,
            channel_bytes: 128,
            server: 32,
            sockets: (888, 888),
            circuit_bytes: 896,
        };
        const BITS32: CaClient = CaClient {
            table_head: 8,
            of_chid: 8,
            cid: 8,
            name: 52,
            circuit: 56,
            sid: 60,
            channel_bytes: 64,
            server: 16,
            sockets: (536, 596),
            circuit_bytes: 600,
        };
        width.pick(&BITS32, &BITS64)
    }
}

/// Threads: epicsThreadOSD of Base 3.14, and the C library's structure to which it leads. Later Bases hold the kernel's
/// thread id in their epicsThreadOSD (seen at 24 and 32), where it is searched for.
#[derive(Debug)]
pub struct Thread {
    /// epicsThreadOSD: ELLNODE, `tid` (pthread_t), pthread_attr_t (36 or 56 bytes), sched_param, three pointers, five
    /// numbers, `name`.
    pub handle: usize,
    pub name: usize,
    pub bytes: usize,
    /// struct client of rsrv: `tid`.
    pub of_client: usize,
    /// struct pthread of the GNU C library: possible offsets of the kernel's thread id, after a header and a list node.
    /// The header is 704 bytes long on x86_64, otherwise 24 pointers.
    pub kernel_ids: &'static [u64],
}

impl Thread {
    /// Size of the larger epicsThreadOSD.
    pub const MAX_BYTES: usize = 144;

    /// The table for a width.
    pub fn of(width: Width) -> &'static Thread {
        const BITS64: Thread =
            Thread { handle: 16, name: 136, bytes: 144, of_client: 240, kernel_ids: &[720, 208] };
        const BITS32: Thread = Thread { handle: 8, name: 84, bytes: 88, of_client: 156, kernel_ids: &[104] };
        width.pick(&BITS32, &BITS64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generations_by_their_functions() {
        assert_eq!(Generation::of(|_| false), Generation::Base314);
        assert_eq!(Generation::of(|symbol| symbol == "dbChannelCreate"), Generation::Base315);
        let newest = Generation::LATER[0].0;
        assert_eq!(Generation::of(|_| true), newest);
        assert!(
            Generation::symbols().all(|one| Generation::of(|symbol| symbol == one) != Generation::Base314)
        );
    }

    /// Structures read at once must fit into a buffer of the largest size.
    #[test]
    fn sizes_are_at_most_the_largest() {
        for width in [Width::Bits32, Width::Bits64] {
            let database = Database::of(width);
            let sizes = [database.type_bytes, database.field_bytes, database.menu_bytes, database.node_bytes];
            assert!(sizes.iter().all(|&bytes| bytes <= Database::MAX_BYTES));
            for numbering in [Numbering::Before3161, Numbering::Since3161] {
                assert!(Link::of(width, numbering).bytes <= Link::MAX_BYTES);
            }
            let server = CaServer::of(Abi { width, generation: Generation::Base315 });
            assert!(server.client_bytes.max(server.channel_bytes) <= CaServer::MAX_BYTES);
            let client = CaClient::of(width);
            assert!(client.circuit_bytes.max(client.channel_bytes) <= CaClient::MAX_BYTES);
            assert!(Thread::of(width).bytes <= Thread::MAX_BYTES);
        }
    }
}
