/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * Data from the programs to the agent and back: the contract, whose other side is src/bpf/contract.rs.
 *
 * Every member is naturally aligned and there is no padding, so that the layout is the same for every compiler. The
 * sizes are asserted on both sides, and a test compares everything (cargo test -p iocrec --test bpf).
 */
#ifndef IOCREC_HITS_H
#define IOCREC_HITS_H

enum kind {
	KIND_PROCESS = 1,
	KIND_COMPLETE = 2,
	KIND_PUT = 3,
	KIND_PUT_FIELD = 4,
	KIND_NOTIFY = 5,
	KIND_LINK_PUT = 6,
	KIND_CALLBACK_REQUEST = 7,
	KIND_CALLBACK_DELAYED = 8,
	KIND_CALLBACK_PROCESS = 9,
	KIND_CALLBACK_PROCESS_DELAYED = 10,
	KIND_SCAN_ONCE = 11,
	KIND_SCAN_IO_REQUEST = 12,
	KIND_POST_EVENT = 13,
	KIND_THINNED = 14,
	KIND_RSET_PROCESS = 15,
	KIND_CLIENT_PUT = 16,
	KIND_CONSOLE = 17,
	KIND_ERRLOG = 18,
	KIND_EXIT = 19,
	KIND_ASSERTION = 20,
};

/* A scalar string field or DBR_STRING element: MAX_STRING_SIZE of epicsTypes.h */
#define STRING_BYTES 40
/* PVNAME_STRINGSZ of dbDefs.h is 61; the next multiple of 8. Names in links may be longer ("REC.FIELD PP"
 * without its options), so the target of a CA link is cut here. */
#define NAME_BYTES 64
/*
 * Bytes of an array in a hit. caPutLog prints the first 400 bytes. The perf tier's event lies on
 * the 512-byte BPF stack: two arrays and a header of 72 bytes, besides the data looked up before.
 */
#ifdef IOCREC_RING
#define ARRAY_BYTES 400
#else
#define ARRAY_BYTES 152
#endif

/* Head of every event. */
struct hit {
	__u64 time;     /* CLOCK_MONOTONIC, ns */
	__u64 sp;       /* stack pointer at the function's entry */
	__u64 caller;   /* return address; 0: could not be read */
	__u64 object;   /* dbCommon *, or the pointer that links cause and effect */
	__u32 pid;      /* thread group */
	__u32 tid;
	__u16 kind;
	__u16 status;   /* complete: dbCommon.stat */
	__u16 severity; /* complete: dbCommon.sevr */
	__u8 detail;    /* process, routine: dbCommon.pact; complete: enum form */
	__u8 dbf;       /* type of the (first) value, numbered as in the traced process; 0xff: no value */
};

#define NO_VALUE 0xff

/* Entries of map `lost`, which the ring tier has: hits lost for lack of room. */
enum lost {
	LOST_PROCESSING = 0, /* includes links' puts */
	LOST_PUTS = 1,
	LOST_SORTS,
};

/*
 * Entry of map `given`, which the perf tier has: hits given to a CPU's buffer, whether they fitted or not. As long as a
 * cache line, so that no CPU waits for another.
 */
struct given {
	__u64 count;
	__u8 unused[56];
};

/* `sort`: enum lost, by the buffer */
#define GIVEN_PLACE(cpu, sort) ((cpu) * LOST_SORTS + (sort))

struct complete {
	struct hit hit;
	__u32 count; /* elements; 1 for a scalar */
	__u32 bytes; /* bytes of value that were read */
	__u8 value[8];
};

struct complete_string {
	struct hit hit;
	__u32 count;
	__u32 bytes;
	__u8 value[STRING_BYTES];
};

struct complete_array {
	struct hit hit;
	__u32 count;
	__u32 bytes;
	__u8 value[ARRAY_BYTES];
};

#define NO_LINK 0xffff

struct put {
	struct hit hit; /* dbf: of the request */
	__u64 field;    /* dbFldDes * */
	__u32 count;    /* elements requested */
	__u32 old_count;
	__u16 old_dbf;
	__u16 requested_bytes;
	__u16 old_bytes;
	__u16 link; /* `old` is the text of a link: its kind << 12 | pvlMask (link.h); or NO_LINK */
	__u8 requested[STRING_BYTES];
	__u8 old[STRING_BYTES];
};

/* The same up to the values. */
struct put_array {
	struct hit hit;
	__u64 field;
	__u32 count;
	__u32 old_count;
	__u16 old_dbf;
	__u16 requested_bytes;
	__u16 old_bytes;
	__u16 link; /* `old` is the text of a link: its kind << 12 | pvlMask (link.h); or NO_LINK */
	__u8 requested[ARRAY_BYTES];
	__u8 old[ARRAY_BYTES];
};

struct link_put {
	struct hit hit; /* object: struct link * */
	__u64 record;   /* dbCommon *; 0 before Base 3.16.1, whose links don't point back */
	__u32 count;
	__u32 bytes;
	__u8 pv[NAME_BYTES];
	__u8 value[STRING_BYTES];
};

struct cause {
	struct hit hit; /* object: CALLBACK *, IOSCANPVT, EVENTPVT, the record for scanOnce, or the chid of a client's put */
	__u64 user;     /* the record it names, or CALLBACK.user, which may be one; of a channel its CID, 0: not read */
};

/* Chains that were left out; sent with a later one that is kept. */
struct thinned {
	struct hit hit; /* object: the record that they began with */
	__u64 since;    /* start of the first of them */
	__u64 count;
};

/* Text that the process writes to its console, or the format of a message for errlog. */
struct console {
	struct hit hit; /* object: the descriptor; errlog: the severity as errlog.h numbers it, or NO_SEVERITY */
	__u32 length;   /* bytes that the process writes; errlog: 0 */
	__u32 bytes;    /* bytes of text that were read; errlog: up to a NUL */
	__u8 text[ARRAY_BYTES];
};

#define NO_SEVERITY 0xff

/* Bytes of a file's name or of an expression in a failed assertion. Two lie on the stack of the perf tier. */
#define ASSERTION_BYTES 128

struct assertion {
	struct hit hit; /* object: the line */
	__u8 file[ASSERTION_BYTES];
	__u8 expression[ASSERTION_BYTES];
};

_Static_assert(sizeof(struct hit) == 48, "hit");
_Static_assert(sizeof(struct given) == 64, "given");
_Static_assert(sizeof(struct complete) == 64, "complete");
_Static_assert(sizeof(struct complete_string) == 96, "complete_string");
_Static_assert(sizeof(struct complete_array) == 56 + ARRAY_BYTES, "complete_array");
_Static_assert(sizeof(struct put) == 152, "put");
_Static_assert(sizeof(struct put_array) == 72 + 2 * ARRAY_BYTES, "put_array");
_Static_assert(sizeof(struct link_put) == 168, "link_put");
_Static_assert(sizeof(struct cause) == 56, "cause");
_Static_assert(sizeof(struct thinned) == 64, "thinned");
_Static_assert(sizeof(struct console) == 56 + ARRAY_BYTES, "console");
_Static_assert(sizeof(struct assertion) == 48 + 2 * ASSERTION_BYTES, "assertion");

/* Given by the agent for each traced process (map `processes`, key: pid). Offsets in bytes. */
struct process_layout {
	__u32 rdes;         /* in dbCommon: pointer to the dbRecordType */
	__u32 stat;         /* in dbCommon: STAT; SEVR follows it at stat + 2 */
	__u32 pact;         /* in dbCommon */
	__u32 notify_chan;  /* in processNotify: dbChannel *; 3.14: in putNotify: DBADDR * */
	__u32 chan_address; /* in dbChannel: the DBADDR; 0 if notify_chan leads to the DBADDR itself */
	__u32 link_record;  /* in struct link: dbCommon *; NO_OFFSET if there is none */
	__u32 link_pvname;  /* in struct link: char * */
	__u32 no_int64;     /* 1 if field types are numbered as before Base 3.16.1 */
	__u64 window;       /* time in which `chains` of each record's chains are kept, ns */
	__u32 chains;       /* 0 for all */
	__u32 selects;      /* 1 if some records are unwanted; map `records` has them */
	__u64 tag;          /* of this tracing of the process, in the upper ten bits: see SEEN */
};

#define NO_OFFSET 0xffffffff

/* In `asleep` (buffers.h): the agent sleeps until the next put from outside. */
#define UNTIL_PUT 2

/*
 * Both maps are hash tables, which have room for all entries. In front of each is an array in which a key has one
 * place: a look-up there costs a third of one in the hash table. An entry whose place is taken is only in the hash
 * table.
 *
 * The layout comes first: before 4.10 nothing may be added to a pointer into a map's value, so the address of a later
 * member could not be passed on.
 */
struct process_place {
	struct process_layout layout;
	__u32 pid; /* 0: empty */
	__u32 unused;
};

/* Knuth's multiplicative hash, the upper bits. */
#define PLACE_FACTOR 0x9e3779b1u
#define PLACE(number, bits) ((__u32)((number) * PLACE_FACTOR) >> (32 - (bits)))
#ifdef IOCREC_RING
#define PROCESS_BITS 8
#define TYPE_BITS 10
#define RECORD_BITS 14 /* 128 KiB */
#else
#define PROCESS_BITS 6
#define TYPE_BITS 9
#define RECORD_BITS 12
#endif
#define PROCESS_PLACE(pid) PLACE((__u32)(pid), PROCESS_BITS)

/* Given by the agent for each record type of a process (map `types`, key: type_key). */
struct type_key {
	__u64 rdes; /* dbRecordType * */
	__u64 pid;
};

enum form {
	FORM_NONE = 0,
	FORM_SCALAR = 1, /* up to 8 bytes at `value` */
	FORM_STRING = 2, /* 40 bytes at `value` */
	FORM_ARRAY = 3,  /* pointer at `value`, element count at `nord`, menuFtype index at `ftvl` */
	FORM_TEXT = 4,   /* the same with elements of type `dbf`, which form a string */
};

struct value_layout {
	__u64 field; /* dbFldDes * of the value field */
	__u32 form;
	__u32 value;
	__u32 nord;
	__u32 ftvl;
	__u32 dbf;
	__u32 unused;
};

struct type_place {
	struct value_layout layout;
	struct type_key key;
};

#define TYPE_PLACE(rdes, pid) PLACE((__u32)((rdes) >> 4) ^ (__u32)(pid), TYPE_BITS)

/*
 * The programs' cache of the types of records that they have seen, so that RDES need not be read again: a record's
 * address, whose lowest four bits are zero, above the place of its type. No address reaches the upper ten bits: the tag
 * there tells one process from another that has had a record of another type at this address before, as where
 * addresses are not random.
 */
#define RECORD_PLACE(record) PLACE((__u32)((record) >> 4), RECORD_BITS)
#define SEEN(process, record, type) (((record) >> 4 << TYPE_BITS | (type)) ^ (process)->tag)

/* State of a record (map `records`, key: record_key), if chains are sampled or records selected. */
struct record_key {
	__u64 record; /* dbCommon * */
	__u64 pid;
};

enum open {
	OPEN_KEPT = 0,
	OPEN_LEFT_OUT = 1, /* being processed, in a chain that is left out */
	OPEN_BY_PUT = 2,   /* being processed because of a put */
};

struct record_state {
	__u64 window;   /* start of the window in which chains are counted */
	__u64 since;    /* time of the first chain left out that has not been reported to the agent */
	__u64 left_out; /* number left out since */
	__u32 chains;   /* kept in this window */
	__u8 unwanted;
	__u8 open;      /* enum open */
	__u8 exempt;    /* a put has caused its next processing */
	__u8 unused;
};

/* The outermost frame of a thread (map `threads`, key: thread id). */
struct thread_state {
	__u64 sp;
	__u64 caller;     /* its return address, which lies at `sp` as long as the frame lives */
	__u64 put_record; /* the record last put to outside of any chain */
	__u32 pid;
	__u16 left_out;
	__u16 by_put;
};

/*
 * Puts of an IOC's threads as clients (array `client_places`, by channel), if chains are sampled: as many are kept of a
 * channel as of the chains of a record. Channels that share a place share these.
 */
struct client_place {
	__u64 window; /* start of the window in which puts are counted */
	__u32 puts;   /* kept in this window */
	__u32 unused;
};

#define CLIENT_BITS 10
#define CLIENT_PLACE(channel) PLACE((__u32)((channel) >> 4), CLIENT_BITS)

/*
 * The put from outside that a thread executes (array `put_places`, by thread id): its activity in deeper frames on the
 * record that the put writes to is part of that put. Another thread may have taken the place; then the put is unknown.
 */
struct put_place {
	__u64 sp;
	__u64 record; /* dbCommon * */
	__u32 tid;    /* 0: empty */
	__u32 unused;
};

#ifdef IOCREC_RING
#define PUT_BITS 8
#else
#define PUT_BITS 6
#endif
#define PUT_PLACE(tid) PLACE((__u32)(tid), PUT_BITS)

/*
 * Given by the agent for each process whose console is recorded (map `consoles`, key: pid). A process that floods its
 * console must not push out other hits.
 */
struct console_state {
	__u64 window;   /* start of the second in which writes are counted */
	__u64 left_out; /* writes left out so far */
	__u32 writes;   /* kept in this window */
	__u32 limit;    /* kept in a window at most */
};

_Static_assert(sizeof(struct client_place) == 16, "client_place");
_Static_assert(sizeof(struct put_place) == 24, "put_place");
_Static_assert(sizeof(struct console_state) == 24, "console_state");
_Static_assert(sizeof(struct record_key) == 16, "record_key");
_Static_assert(sizeof(struct record_state) == 32, "record_state");
_Static_assert(sizeof(struct thread_state) == 32, "thread_state");
_Static_assert(sizeof(struct process_place) == 64, "process_place");
_Static_assert(sizeof(struct type_place) == 48, "type_place");
_Static_assert(sizeof(struct process_layout) == 56, "process_layout");
_Static_assert(sizeof(struct type_key) == 16, "type_key");
_Static_assert(sizeof(struct value_layout) == 32, "value_layout");

#ifdef IOCREC_CONTRACT
/*
 * For the test of the contract (tests/bpf/contract.rs): a type that is named by neither a map nor a program's arguments
 * is in the object's BTF only if a variable has it.
 */
enum numbers {
	NUMBER_STRING_BYTES = STRING_BYTES,
	NUMBER_NAME_BYTES = NAME_BYTES,
	NUMBER_ARRAY_BYTES = ARRAY_BYTES,
	NUMBER_NO_VALUE = NO_VALUE,
	NUMBER_NO_LINK = NO_LINK,
	NUMBER_NO_OFFSET = NO_OFFSET,
	NUMBER_PLACE_FACTOR = PLACE_FACTOR,
	NUMBER_NO_SEVERITY = NO_SEVERITY,
	NUMBER_ASSERTION_BYTES = ASSERTION_BYTES,
	NUMBER_UNTIL_PUT = UNTIL_PUT,
};

struct contract {
	struct hit hit;
	struct given given;
	struct complete complete;
	struct complete_string complete_string;
	struct complete_array complete_array;
	struct put put;
	struct put_array put_array;
	struct link_put link_put;
	struct cause cause;
	struct thinned thinned;
	struct console console;
	struct assertion assertion;
	enum kind kind;
	enum form form;
	enum lost lost;
	enum numbers numbers;
} *contract SEC(".contract");
#endif

#endif
