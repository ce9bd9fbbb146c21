//! The contract between the programs of bpf/ioc.bpf.c and the agent: names, numbers, and the layout of every byte that
//! both touch. Any other object has its own contract, in the room that it serves.
//!
//! Each struct here has a counterpart in bpf/hits.h with the same members in the same order. All members are naturally
//! aligned and there is no padding, so every compiler lays them out alike. Constant assertions check that here,
//! `_Static_assert`s there, and `tests/bpf/contract.rs` compares both sides by the types in the compiled objects. To
//! change the contract, change both sides and run `cargo test -p iocrec --test bpf`.
//!
//! Numbers are in the machine's byte order: programs and agent run on the same machine.

use crate::bpf::shared::{shared, shared_enum, Enum, Program, Shared, Struct};

/// Name of the object.
pub const OBJECT: &str = "ioc";

/// Bytes of a scalar string field or of an element of DBR_STRING (MAX_STRING_SIZE of epicsTypes.h).
pub const STRING_BYTES: usize = 40;
/// Bytes of a CA link's target that a hit carries.
pub const NAME_BYTES: usize = 64;
/// Bytes of a scalar value.
pub const SCALAR_BYTES: usize = 8;
/// Bytes of an array that a hit carries in the ring tier.
pub const ARRAY_BYTES_RING: usize = 400;
/// The same in the perf tier, where a program builds hits on its stack.
pub const ARRAY_BYTES_PERF: usize = 152;
/// `hit.dbf` of a hit without a value.
pub const NO_VALUE: u8 = 0xff;
/// `put.link` if the field is not a link.
pub const NO_LINK: u16 = 0xffff;
/// `process_layout.link_record` if links do not point back to their record.
pub const NO_OFFSET: u32 = 0xffff_ffff;
/// Factor of the hash by which a number finds its place in an array (Knuth's multiplicative hash; the upper bits
/// count).
pub const PLACE_FACTOR: u32 = 0x9e37_79b1;

/// `hit.object` of a message for errlog that has no severity.
pub const NO_SEVERITY: u64 = 0xff;
/// Bytes of a file's name or of an expression in a failed assertion.
pub const ASSERTION_BYTES: usize = 128;
/// In `asleep`: the next put from outside wakes the agent.
pub const UNTIL_PUT: u32 = 2;

/// The numbers above with their names in C, except the bytes of an array.
pub const NUMBERS: &[(&str, u32)] = &[
    ("STRING_BYTES", STRING_BYTES as u32),
    ("NAME_BYTES", NAME_BYTES as u32),
    ("NO_VALUE", NO_VALUE as u32),
    ("NO_LINK", NO_LINK as u32),
    ("NO_OFFSET", NO_OFFSET),
    ("PLACE_FACTOR", PLACE_FACTOR),
    ("NO_SEVERITY", NO_SEVERITY as u32),
    ("ASSERTION_BYTES", ASSERTION_BYTES as u32),
    ("UNTIL_PUT", UNTIL_PUT),
];

shared_enum! {
    /// Kind of a hit.
    Kind as "kind" {
        /// dbProcess.
        Process as "KIND_PROCESS" = 1,
        /// recGblFwdLink.
        Complete as "KIND_COMPLETE" = 2,
        /// dbPut.
        Put as "KIND_PUT" = 3,
        /// dbPutField.
        PutField as "KIND_PUT_FIELD" = 4,
        /// dbProcessNotify (3.14: dbPutNotify).
        Notify as "KIND_NOTIFY" = 5,
        /// dbCaPutLinkCallback.
        LinkPut as "KIND_LINK_PUT" = 6,
        /// callbackRequest.
        CallbackRequest as "KIND_CALLBACK_REQUEST" = 7,
        /// callbackRequestDelayed.
        CallbackDelayed as "KIND_CALLBACK_DELAYED" = 8,
        /// callbackRequestProcessCallback.
        CallbackProcess as "KIND_CALLBACK_PROCESS" = 9,
        /// callbackRequestProcessCallbackDelayed.
        CallbackProcessDelayed as "KIND_CALLBACK_PROCESS_DELAYED" = 10,
        /// scanOnce or scanOnceCallback.
        ScanOnce as "KIND_SCAN_ONCE" = 11,
        /// scanIoRequest.
        ScanIoRequest as "KIND_SCAN_IO_REQUEST" = 12,
        /// postEvent (3.14: post_event).
        PostEvent as "KIND_POST_EVENT" = 13,
        /// No function: chains were left out.
        Thinned as "KIND_THINNED" = 14,
        /// A record type's process routine.
        RsetProcess as "KIND_RSET_PROCESS" = 15,
        /// ca_array_put or ca_array_put_callback.
        ClientPut as "KIND_CLIENT_PUT" = 16,
        /// write or writev to the console.
        Console as "KIND_CONSOLE" = 17,
        /// errlogVprintf, errlogSevVprintf or errPrintf.
        Errlog as "KIND_ERRLOG" = 18,
        /// exit.
        Exit as "KIND_EXIT" = 19,
        /// epicsAssert.
        Assertion as "KIND_ASSERTION" = 20,
    }

    /// Form of a record's value.
    Form as "form" {
        /// No meaningful value.
        None as "FORM_NONE" = 0,
        /// Up to 8 bytes at `value`.
        Scalar as "FORM_SCALAR" = 1,
        /// 40 bytes at `value`.
        String as "FORM_STRING" = 2,
        /// A pointer at `value`, the number of elements at `nord`, their type (menuFtype) at `ftvl`.
        Array as "FORM_ARRAY" = 3,
        /// The same with elements of type `dbf`, which are a string.
        Text as "FORM_TEXT" = 4,
    }

    /// Entries of map `lost`, which the ring tier has.
    Lost as "lost" {
        /// Hits of processing, of requests for it, and of puts by links.
        Processing as "LOST_PROCESSING" = 0,
        /// Hits of puts from outside.
        Puts as "LOST_PUTS" = 1,
        /// Not an entry: the number of entries.
        Sorts as "LOST_SORTS" = 2,
    }
}

shared! {
    /// `struct hit`: begins every event.
    Hit {
        /// CLOCK_MONOTONIC, nanoseconds.
        time: u64,
        /// Stack pointer at the function's entry.
        sp: u64,
        /// Return address; 0 if it could not be read.
        caller: u64,
        /// Address of the record, or the pointer that links cause and effect.
        object: u64,
        /// Thread group.
        pid: u32,
        /// Thread.
        tid: u32,
        /// [`Kind`].
        kind: u16,
        /// At completion: STAT.
        status: u16,
        /// At completion: SEVR.
        severity: u16,
        /// At dbProcess and in process routines: PACT. At completion: [`Form`].
        detail: u8,
        /// Type of the first value as the process numbers it, or [`NO_VALUE`].
        dbf: u8,
    }

    /// `struct given`, an entry of map `given`, which the perf tier has.
    Given {
        /// Hits given to a CPU's buffer, whether they fitted or not.
        count: u64,
        /// Fills a cache line.
        unused: [u8; 56],
    }

    /// `struct complete`, `complete_string` and `complete_array`, by the bytes of a value.
    Complete[N] {
        /// Its head.
        hit: Hit,
        /// Elements; 1 for a scalar.
        count: u32,
        /// Bytes of `value` that were read.
        bytes: u32,
        /// The first elements.
        value: [u8; N],
    }

    /// `struct put` and `put_array`, by the bytes of a value.
    Put[N] {
        /// Its head; `dbf` is that of the request.
        hit: Hit,
        /// Address of the field's dbFldDes.
        field: u64,
        /// Elements requested.
        count: u32,
        /// Elements in the field.
        old_count: u32,
        /// Their type, as the process numbers it.
        old_dbf: u16,
        /// Bytes of `requested` that were read.
        requested_bytes: u16,
        /// Bytes of `old` that were read.
        old_bytes: u16,
        /// `old` is the text of a link: its kind (link.h) in the upper four bits, its `pvlMask` in the others; or
        /// [`NO_LINK`].
        link: u16,
        /// The first elements of the request.
        requested: [u8; N],
        /// The first elements before the put.
        old: [u8; N],
    }

    /// `struct link_put`.
    LinkPut {
        /// Its head; `object` is the address of the `struct link`.
        hit: Hit,
        /// Address of the record; 0 before Base 3.16.1, whose links don't point back.
        record: u64,
        /// Elements.
        count: u32,
        /// Bytes of `value` that were read.
        bytes: u32,
        /// The target, up to a NUL.
        pv: [u8; NAME_BYTES],
        /// The first elements.
        value: [u8; STRING_BYTES],
    }

    /// `struct cause`.
    Cause {
        /// Its head; `object` is a CALLBACK, an IOSCANPVT, an EVENTPVT, the record for scanOnce, or the chid of a
        /// client's put.
        hit: Hit,
        /// The record named, or CALLBACK.user, which may be one; of a channel its CID, 0 if it could not be read.
        user: u64,
    }

    /// `struct thinned`: chains that were left out, sent with a later one that is kept.
    Thinned {
        /// Its head; `object` is the record that they began with.
        hit: Hit,
        /// Start of the first of them, CLOCK_MONOTONIC in nanoseconds.
        since: u64,
        /// Number of chains.
        count: u64,
    }

    /// `struct console`: text that a process writes to its console, or the format of a message for errlog.
    Console[N] {
        /// Its head; `object` is the descriptor, or the severity as errlog.h numbers it, or [`NO_SEVERITY`].
        hit: Hit,
        /// Bytes that the process writes; 0 for errlog.
        length: u32,
        /// Bytes of `text` that were read; for errlog up to a NUL.
        bytes: u32,
        /// The first of them.
        text: [u8; N],
    }

    /// `struct assertion`: an assertion has failed.
    Assertion {
        /// Its head; `object` is the line.
        hit: Hit,
        /// The source file, up to a NUL.
        file: [u8; ASSERTION_BYTES],
        /// What should have been true, up to a NUL.
        expression: [u8; ASSERTION_BYTES],
    }

    /// `struct console_state`, the value of map `consoles`.
    ConsoleState {
        /// Start of the second in which writes are counted, CLOCK_MONOTONIC in nanoseconds.
        window: u64,
        /// Writes left out so far.
        left_out: u64,
        /// Writes kept in this second.
        writes: u32,
        /// Writes kept in a second at most.
        limit: u32,
    }

    /// `struct process_layout`, the value of map `processes`: the layout of a traced process. Offsets in bytes.
    ProcessLayout {
        /// In dbCommon: the pointer to the dbRecordType.
        rdes: u32,
        /// In dbCommon: STAT; SEVR follows 2 bytes later.
        stat: u32,
        /// In dbCommon: PACT.
        pact: u32,
        /// In processNotify: the dbChannel; 3.14: in putNotify: the DBADDR.
        notify_chan: u32,
        /// In dbChannel: the DBADDR; 0 if `notify_chan` leads to the DBADDR itself.
        chan_address: u32,
        /// In struct link: the record; [`NO_OFFSET`] if there is none.
        link_record: u32,
        /// In struct link: the target's name.
        link_pvname: u32,
        /// 1 if field types are numbered as before Base 3.16.1.
        no_int64: u32,
        /// Nanoseconds in which `chains` of the chains that begin with the same record are kept.
        window: u64,
        /// Chains kept in a `window`; 0 for all.
        chains: u32,
        /// 1 if some records are unwanted; map `records` has them.
        selects: u32,
        /// Of this tracing of the process, in the upper ten bits (SEEN of bpf/hits.h).
        tag: u64,
    }

    /// `struct process_place`, the value of array `process_places`.
    ProcessPlace {
        /// Copy of the layout in map `processes`.
        layout: ProcessLayout,
        /// Its process; 0 if empty.
        pid: u32,
        /// 0.
        unused: u32,
    }

    /// `struct type_key`, the key of map `types`.
    TypeKey {
        /// Address of the dbRecordType.
        rdes: u64,
        /// Process.
        pid: u64,
    }

    /// `struct value_layout`, the value of map `types`: the location of the value in records of a type. Offsets in
    /// bytes.
    ValueLayout {
        /// Address of the value field's dbFldDes.
        field: u64,
        /// [`Form`].
        form: u32,
        /// Offset of the value or of the pointer to it.
        value: u32,
        /// Offset of the number of elements.
        nord: u32,
        /// Offset of the elements' type.
        ftvl: u32,
        /// Type as the process numbers it.
        dbf: u32,
        /// 0.
        unused: u32,
    }

    /// `struct type_place`, the value of array `type_places`.
    TypePlace {
        /// Copy of the layout in map `types`.
        layout: ValueLayout,
        /// Its key; zeroes if empty.
        key: TypeKey,
    }

    /// `struct record_key`, the key of map `records`.
    RecordKey {
        /// Address of the dbCommon.
        record: u64,
        /// Process.
        pid: u64,
    }

    /// `struct record_state`, the value of map `records`.
    RecordState {
        /// Start of the window in which chains are counted, CLOCK_MONOTONIC in nanoseconds.
        window: u64,
        /// Time of the first chain left out that has not been reported to the agent.
        since: u64,
        /// Chains left out since.
        left_out: u64,
        /// Chains kept in this window.
        chains: u32,
        /// 1 if its hits are unwanted.
        unwanted: u8,
        /// `enum open`, private to the programs.
        open: u8,
        /// 1 if a put has caused its next processing.
        exempt: u8,
        /// 0.
        unused: u8,
    }

    /// `struct thread_state`, the value of map `threads`: the outermost frame of a thread. Private to the programs.
    ThreadState {
        /// Its stack pointer.
        sp: u64,
        /// Its return address.
        caller: u64,
        /// The record last put to outside of any chain.
        put_record: u64,
        /// Process.
        pid: u32,
        /// 1 if its chain is left out.
        left_out: u16,
        /// 1 if a put has caused it.
        by_put: u16,
    }
}

/// All structs, with this number of bytes of an array.
pub fn structs<const ARRAY_BYTES: usize>() -> [Struct; 21] {
    [
        Hit::layout("hit"),
        Given::layout("given"),
        Complete::<SCALAR_BYTES>::layout("complete"),
        Complete::<STRING_BYTES>::layout("complete_string"),
        Complete::<ARRAY_BYTES>::layout("complete_array"),
        Put::<STRING_BYTES>::layout("put"),
        Put::<ARRAY_BYTES>::layout("put_array"),
        LinkPut::layout("link_put"),
        Cause::layout("cause"),
        Thinned::layout("thinned"),
        Console::<ARRAY_BYTES>::layout("console"),
        Assertion::layout("assertion"),
        ConsoleState::layout("console_state"),
        ProcessLayout::layout("process_layout"),
        ProcessPlace::layout("process_place"),
        TypeKey::layout("type_key"),
        ValueLayout::layout("value_layout"),
        TypePlace::layout("type_place"),
        RecordKey::layout("record_key"),
        RecordState::layout("record_state"),
        ThreadState::layout("thread_state"),
    ]
}

/// All enums.
pub const ENUMS: [Enum; 3] = [Kind::ENUM, Form::ENUM, Lost::ENUM];

/// Names of the maps that the agent uses.
pub mod map {
    /// Buffer of hits; those of puts from outside go through [`PUTS`].
    pub const HITS: &str = "hits";
    /// Buffer of hits of puts from outside.
    pub const PUTS: &str = "puts";
    /// Counts of hits lost for lack of room, by [`Lost`](super::Lost), in the ring tier.
    pub const LOST: &str = "lost";
    /// For each CPU an entry [`Given`](super::Given) of each sort in [`Lost`](super::Lost), in the perf tier.
    pub const GIVEN: &str = "given";
    /// An array of one number (u32), in the ring tier: not 0 if the next hit shall wake the agent.
    pub const ASLEEP: &str = "asleep";
    /// Traced processes: PID (u32) to [`ProcessLayout`](super::ProcessLayout).
    pub const PROCESSES: &str = "processes";
    /// An array in front of it: [`ProcessPlace`](super::ProcessPlace).
    pub const PROCESS_PLACES: &str = "process_places";
    /// Record types: [`TypeKey`](super::TypeKey) to [`ValueLayout`](super::ValueLayout).
    pub const TYPES: &str = "types";
    /// An array in front of it: [`TypePlace`](super::TypePlace).
    pub const TYPE_PLACES: &str = "type_places";
    /// Records: [`RecordKey`](super::RecordKey) to [`RecordState`](super::RecordState).
    pub const RECORDS: &str = "records";
    /// Threads: thread id (u32) to a state private to the programs.
    pub const THREADS: &str = "threads";
    /// Processes whose console is recorded: PID (u32) to [`ConsoleState`](super::ConsoleState).
    pub const CONSOLES: &str = "consoles";
}

/// Bytes of the keys and values of the hash tables and arrays that the agent uses.
pub const MAPS: &[(&str, usize, usize)] = &[
    (map::PROCESSES, size_of::<u32>(), size_of::<ProcessLayout>()),
    (map::PROCESS_PLACES, size_of::<u32>(), size_of::<ProcessPlace>()),
    (map::TYPES, size_of::<TypeKey>(), size_of::<ValueLayout>()),
    (map::TYPE_PLACES, size_of::<u32>(), size_of::<TypePlace>()),
    (map::RECORDS, size_of::<RecordKey>(), size_of::<RecordState>()),
    (map::THREADS, size_of::<u32>(), size_of::<ThreadState>()),
    (map::CONSOLES, size_of::<u32>(), size_of::<ConsoleState>()),
];

/// Largest number of arguments that a program reads.
pub const MAX_ARGUMENTS: usize = 4;

macro_rules! programs {
    ($($name:ident = $text:literal reads $arguments:literal;)*) => {
        $(
            #[doc = concat!("`", $text, "`.")]
            pub const $name: Program = Program { name: $text, arguments: $arguments };
            const _: () = assert!($arguments <= MAX_ARGUMENTS);
        )*
        /// All of them.
        pub const PROGRAMS: &[Program] = &[$($name),*];
    };
}

programs! {
    DB_PROCESS = "db_process" reads 1;
    PROCESS_ROUTINE = "process_routine" reads 1;
    REC_GBL_FWD_LINK = "rec_gbl_fwd_link" reads 1;
    DB_PUT = "db_put" reads 4;
    DB_PUT_FIELD = "db_put_field" reads 4;
    DB_PROCESS_NOTIFY = "db_process_notify" reads 1;
    DB_CA_PUT_LINK_CALLBACK = "db_ca_put_link_callback" reads 4;
    CALLBACK_REQUEST = "callback_request" reads 1;
    CALLBACK_REQUEST_DELAYED = "callback_request_delayed" reads 1;
    CALLBACK_REQUEST_PROCESS = "callback_request_process" reads 3;
    CALLBACK_REQUEST_PROCESS_DELAYED = "callback_request_process_delayed" reads 3;
    SCAN_ONCE = "scan_once" reads 1;
    SCAN_IO_REQUEST = "scan_io_request" reads 1;
    POST_EVENT = "post_event" reads 1;
    CA_ARRAY_PUT = "ca_array_put" reads 3;
    LIBC_WRITE = "libc_write" reads 3;
    LIBC_WRITEV = "libc_writev" reads 3;
    ERRLOG_VPRINTF = "errlog_vprintf" reads 1;
    ERRLOG_SEV_VPRINTF = "errlog_sev_vprintf" reads 2;
    ERR_PRINTF = "err_printf" reads 4;
    LIBC_EXIT = "libc_exit" reads 1;
    EPICS_ASSERT = "epics_assert" reads 3;
}
