/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * What the uprobe programs hand to the agent, and what they need to be told.
 *
 * src/kernel/hit.rs reads these bytes by offset: every member is naturally aligned, so that the
 * layout is the same for every compiler, and the sizes are asserted on both sides.
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
};

/* A scalar string field or DBR_STRING element: MAX_STRING_SIZE of epicsTypes.h */
#define STRING_BYTES 40
/* PVNAME_STRINGSZ of dbDefs.h is 61; the next multiple of 8. Names in links may be longer ("REC.FIELD PP"
 * without its options), so the target of a CA link is cut here. */
#define NAME_BYTES 64
/*
 * How much of an array is carried. caPutLog prints the first 400 bytes. The perf tier's event lies on
 * the 512-byte BPF stack, twice an array and 72 bytes of header beside the spilled registers.
 */
#ifdef IOCREC_RING
#define ARRAY_BYTES 400
#else
#define ARRAY_BYTES 160
#endif

/* Begins every event. */
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
	__u8 detail;    /* process: dbCommon.pact; complete: enum form */
	__u8 dbf;       /* type of the (first) value, numbered as in the traced process; 0xff: no value */
};

#define NO_VALUE 0xff

struct complete {
	struct hit hit;
	__u32 count; /* elements; 1 for a scalar */
	__u32 bytes; /* of value that were read */
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

struct put {
	struct hit hit; /* dbf: of the request */
	__u64 field;    /* dbFldDes * */
	__u32 count;    /* elements requested */
	__u32 old_count;
	__u16 old_dbf;
	__u16 requested_bytes;
	__u16 old_bytes;
	__u16 unused;
	__u8 requested[STRING_BYTES];
	__u8 old[STRING_BYTES];
};

struct put_array {
	struct hit hit;
	__u64 field;
	__u32 count;
	__u32 old_count;
	__u16 old_dbf;
	__u16 requested_bytes;
	__u16 old_bytes;
	__u16 unused;
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
	struct hit hit; /* object: CALLBACK *, IOSCANPVT, EVENTPVT, or the record for scanOnce */
	__u64 user;     /* the record it names, or CALLBACK.user, which may be one */
};

_Static_assert(sizeof(struct hit) == 48, "hit");
_Static_assert(sizeof(struct complete) == 64, "complete");
_Static_assert(sizeof(struct complete_string) == 96, "complete_string");
_Static_assert(sizeof(struct complete_array) == 56 + ARRAY_BYTES, "complete_array");
_Static_assert(sizeof(struct put) == 152, "put");
_Static_assert(sizeof(struct put_array) == 72 + 2 * ARRAY_BYTES, "put_array");
_Static_assert(sizeof(struct link_put) == 168, "link_put");
_Static_assert(sizeof(struct cause) == 56, "cause");

/* Told by the agent for each traced process (map `processes`, key: pid). Offsets in bytes. */
struct process_layout {
	__u32 rdes;         /* in dbCommon: pointer to the dbRecordType */
	__u32 stat;         /* in dbCommon: STAT; SEVR follows it at stat + 2 */
	__u32 pact;         /* in dbCommon */
	__u32 notify_chan;  /* in processNotify: dbChannel *; 3.14: in putNotify: DBADDR * */
	__u32 chan_address; /* in dbChannel: the DBADDR; 0: notify_chan leads to the DBADDR itself */
	__u32 link_record;  /* in struct link: dbCommon *; NO_OFFSET: it has none */
	__u32 link_pvname;  /* in struct link: char * */
	__u32 no_int64;     /* field types are numbered as before Base 3.16.1 */
};

#define NO_OFFSET 0xffffffff

/* Told by the agent for each record type of a process (map `types`, key: type_key). */
struct type_key {
	__u64 rdes; /* dbRecordType * */
	__u64 pid;
};

enum form {
	FORM_NONE = 0,
	FORM_SCALAR = 1, /* up to 8 bytes at `value` */
	FORM_STRING = 2, /* 40 bytes at `value` */
	FORM_ARRAY = 3,  /* pointer at `value`, element count at `nord`, menuFtype index at `ftvl` */
	FORM_TEXT = 4,   /* the same with elements of type `dbf`, which are a string */
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

_Static_assert(sizeof(struct process_layout) == 32, "process_layout");
_Static_assert(sizeof(struct type_key) == 16, "type_key");
_Static_assert(sizeof(struct value_layout) == 32, "value_layout");

#endif
