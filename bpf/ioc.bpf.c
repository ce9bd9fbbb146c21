// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/*
 * Entry probes on EPICS Base: each notes the thread, its stack pointer and caller, the record, and the
 * values that would be gone later. No return probes: the reader rebuilds the calls from the stack
 * pointers.
 *
 * Compiled twice. With IOCREC_RING events are written in place into one ring buffer (kernel 5.8).
 * Without it they are built on the stack and go through perf buffers, by the rules of kernel 4.4: no
 * global data (5.2), no loops (5.3), no calls between programs (4.16), no kernel BTF, helper
 * buffers of constant size on the stack and zeroed before. bpf_probe_read_user (5.5) is turned into
 * bpf_probe_read by libbpf where the kernel lacks it.
 *
 * Reads that fail leave zeroes and the event says how many bytes it holds: a wrong pointer costs a
 * value, never more.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include "registers.h"
#include "hits.h"

#define INLINE static __attribute__((always_inline))

/*
 * A copy that the compiler does not know for one: all that it keeps of the pointer from here on, in other registers or
 * on the stack, comes from the register that has been compared with NULL.
 */
#define COMPARED(pointer) __asm__ volatile("%0 = %1" : "=r"(pointer) : "r"(pointer))

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 256); /* traced IOCs on one host */
	__type(key, __u32);
	__type(value, struct process_layout);
} processes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 2048); /* record types of all of them: Base has 35, a big IOC 100 */
	__type(key, struct type_key);
	__type(value, struct value_layout);
} types SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1 << PROCESS_BITS);
	__type(key, __u32);
	__type(value, struct process_place);
} process_places SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1 << TYPE_BITS);
	__type(key, __u32);
	__type(value, struct type_place);
} type_places SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1 << RECORD_BITS);
	__type(key, __u32);
	__type(value, __u64);
} record_places SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1 << PUT_BITS);
	__type(key, __u32);
	__type(value, struct put_place);
} put_places SEC(".maps");

/*
 * Puts go before processing: a buffer of their own keeps a flood of processing from pushing them out. It is for puts
 * that come from outside (dbPutField, dbProcessNotify, and the dbPut inside them). What records' links put is
 * as frequent as their processing, so it goes with that: `outside` tells which.
 */

#ifdef IOCREC_RING

/* Both count as resident memory. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 19); /* 300 ms of 25,000 hits/s */
} hits SEC(".maps");

#define PUTS_BYTES (1 << 18) /* 800 puts of a client, of two hits each */

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, PUTS_BYTES);
} puts SEC(".maps");

enum lost {
	LOST_PROCESSING = 0, /* links' puts with it */
	LOST_PUTS = 1,
	LOST_SORTS,
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, LOST_SORTS);
	__type(key, __u32);
	__type(value, __u64);
} lost SEC(".maps");

/* The agent looks in every 50 ms; it is woken only when a quarter of a ring has filled before. */
#define WAKE_AT (1 << 17)
#define WAKE_AT_PUTS (PUTS_BYTES / 4)

INLINE int count_lost(__u32 sort)
{
	__u64 *count = bpf_map_lookup_elem(&lost, &sort);

	if (count)
		__sync_fetch_and_add(count, 1);
	return 0;
}

#define OPEN(type, name) \
	struct type *name = bpf_ringbuf_reserve(&hits, sizeof(*name), 0); \
	if (!name) \
		return count_lost(LOST_PROCESSING)

/*
 * What has no room in its own ring may have some in the other. Puts from outside may fill both. Others, a PVAccess
 * server's among them, get an eighth of theirs, so that a flood of links' puts pushes none out.
 */
INLINE void *room_for_put(__u64 bytes, int outside)
{
	void *room;

	if (outside) {
		room = bpf_ringbuf_reserve(&puts, bytes, 0);
		return room ? room : bpf_ringbuf_reserve(&hits, bytes, 0);
	}
	room = bpf_ringbuf_reserve(&hits, bytes, 0);
	if (room || bpf_ringbuf_query(&puts, BPF_RB_AVAIL_DATA) >= PUTS_BYTES / 8)
		return room;
	return bpf_ringbuf_reserve(&puts, bytes, 0);
}

#define OPEN_PUT(type, name, outside) \
	struct type *name = room_for_put(sizeof(*name), outside); \
	if (!name) \
		return count_lost((outside) ? LOST_PUTS : LOST_PROCESSING)

/*
 * Processing of the very record that a put from outside is for tells what became of the put. Where there is no room for
 * it, it may use the puts', up to three eighths: 500 puts have room whatever else happens.
 */
#define OPEN_OF_PUT(type, name, regs, id, record) \
	struct type *name = bpf_ringbuf_reserve(&hits, sizeof(*name), 0); \
	if (!name && is_of_put(regs, id, record) && \
	    bpf_ringbuf_query(&puts, BPF_RB_AVAIL_DATA) < PUTS_BYTES / 8 * 3) \
		name = bpf_ringbuf_reserve(&puts, sizeof(*name), 0); \
	if (!name) \
		return count_lost(LOST_PROCESSING)

/*
 * Notes the time, and says whether to wake the agent. Looking how full the ring is costs as much as the rest, so
 * it is done for the hits of one microsecond in 16 only.
 */
INLINE __u64 now(struct hit *hit)
{
	hit->time = bpf_ktime_get_ns();
	return (hit->time & 0x3c00) == 0 && bpf_ringbuf_query(&hits, BPF_RB_AVAIL_DATA) >= WAKE_AT ?
		       BPF_RB_FORCE_WAKEUP :
		       BPF_RB_NO_WAKEUP;
}

INLINE __u64 now_of_put(struct hit *hit)
{
	hit->time = bpf_ktime_get_ns();
	return (hit->time & 0x3c00) == 0 && (bpf_ringbuf_query(&puts, BPF_RB_AVAIL_DATA) >= WAKE_AT_PUTS ||
					     bpf_ringbuf_query(&hits, BPF_RB_AVAIL_DATA) >= WAKE_AT) ?
		       BPF_RB_FORCE_WAKEUP :
		       BPF_RB_NO_WAKEUP;
}

#define SEND(regs, name, hit) bpf_ringbuf_submit(name, now(hit))
#define SEND_PUT(regs, name, hit, outside) bpf_ringbuf_submit(name, now_of_put(hit))

/* Reads up to ARRAY_BYTES; returns how many. */
INLINE __u32 read_array(__u8 *into, const void *from, __u64 bytes)
{
	if (bytes > ARRAY_BYTES)
		bytes = ARRAY_BYTES;
	if (bpf_probe_read_user(into, bytes, from) < 0)
		return 0;
	return bytes;
}

#else

struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(__u32));
} hits SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(__u32));
} puts SEC(".maps");

/* Whether there is room is not known here, so what has none in its own buffer is lost. */
#define OPEN(type, name) \
	struct type name##_event = {}; \
	struct type *name = &name##_event
#define OPEN_PUT(type, name, outside) OPEN(type, name)
#define OPEN_OF_PUT(type, name, regs, id, record) OPEN(type, name)

/* 4.4 does not know BPF_F_CURRENT_CPU (4.7) */
#define SEND_INTO(map, regs, name, hit) \
	((hit)->time = bpf_ktime_get_ns(), \
	 bpf_perf_event_output(regs, map, bpf_get_smp_processor_id(), name, sizeof(*name)))
#define SEND(regs, name, hit) SEND_INTO(&hits, regs, name, hit)
#define SEND_PUT(regs, name, hit, outside) SEND_INTO((outside) ? (void *)&puts : (void *)&hits, regs, name, hit)

/* Constant sizes only. Reading past a short array is harmless: what isn't its own is cut by `bytes`. */
INLINE __u32 read_array(__u8 *into, const void *from, __u64 bytes)
{
	if (bytes > ARRAY_BYTES)
		bytes = ARRAY_BYTES;
	if (bpf_probe_read_user(into, ARRAY_BYTES, from) == 0)
		return bytes;
	/* the array ends just before memory that is not there */
	if (bytes > STRING_BYTES)
		bytes = STRING_BYTES;
	if (bpf_probe_read_user(into, STRING_BYTES, from) == 0)
		return bytes;
	if (bytes > 8)
		bytes = 8;
	return bpf_probe_read_user(into, 8, from) == 0 ? bytes : 0;
}

#endif

/* Reads a pointer of the process; what cannot be read is 0. */
INLINE __u64 read_pointer(__u64 from)
{
	__pointer pointer = 0;

	bpf_probe_read_user(&pointer, sizeof(pointer), (void *)from);
	return pointer;
}

/* DBADDR: the same in every Base from 3.14 on (dbAddr.h) */
struct db_address {
	__pointer record;
	__pointer pfield;
	__pointer field;
	__long elements;
	__s16 field_type;
	__s16 field_size;
	__s16 special;
	__s16 dbr_field_type;
};

INLINE struct process_layout *traced(__u64 id)
{
	__u32 pid = id >> 32;
	__u32 at = PROCESS_PLACE(pid);
	struct process_place *place = bpf_map_lookup_elem(&process_places, &at);

	if (place && place->pid == pid)
		return &place->layout;
	return bpf_map_lookup_elem(&processes, &pid);
}

/* Nothing may come between looking up and comparing: see chains.h. (On i386 reading an argument is a call.) */
#define TRACED(process, id) \
	struct process_layout *process = traced(id); \
	if (!process) \
		return 0; \
	COMPARED(process)

/*
 * All of a hit's head but the alarm and the time, which is noted last: reading the clock waits for all reads
 * before it, so it is cheapest there. `id` is bpf_get_current_pid_tgid().
 */
INLINE void begin(struct hit *hit, struct pt_regs *regs, __u64 id, __u16 kind, __u64 object)
{
	hit->sp = STACK_POINTER(regs);
	hit->caller = 0;
	hit->object = object;
	hit->pid = id >> 32;
	hit->tid = (__u32)id;
	hit->kind = kind;
	hit->detail = 0;
	hit->dbf = NO_VALUE;
}

INLINE void no_alarm(struct hit *hit)
{
	hit->status = 0;
	hit->severity = 0;
}

/* A put from outside begins: notes what its thread is at. */
INLINE void note_put(struct pt_regs *regs, __u64 id, __u64 record)
{
	__u32 at = PUT_PLACE(id);
	struct put_place *place = bpf_map_lookup_elem(&put_places, &at);

	if (place) {
		place->sp = STACK_POINTER(regs);
		place->record = record;
		place->tid = id;
	}
}

/*
 * Is this what a put from outside does to its record? (It may have returned, but then its thread puts nothing to
 * that record but from outside.)
 */
INLINE int is_of_put(struct pt_regs *regs, __u64 id, __u64 record)
{
	__u32 at = PUT_PLACE(id);
	struct put_place *place = bpf_map_lookup_elem(&put_places, &at);

	return place && place->tid == (__u32)id && place->record == record && STACK_POINTER(regs) < place->sp;
}

#include "chains.h"

/* Bytes of an element of a DBF or DBR type. */
INLINE __u32 element_bytes(struct process_layout *process, __u32 dbf)
{
	if (process->no_int64 && dbf >= 7)
		dbf += 2; /* from 3.16.1 on 7 and 8 are the 64-bit integers */
	switch (dbf) {
	case 0: return STRING_BYTES;
	case 1: case 2: return 1;
	case 3: case 4: return 2;
	case 5: case 6: case 9: return 4;
	case 7: case 8: case 10: return 8;
	default: return 2; /* ENUM, MENU, DEVICE, PUT_ACKT, PUT_ACKS */
	}
}

INLINE struct value_layout *value_of(struct process_layout *process, __u64 id, __u64 record)
{
	__u32 record_at = RECORD_PLACE(record);
	__u64 *seen = bpf_map_lookup_elem(&record_places, &record_at);
	struct type_key key = {};
	struct type_place *place;
	__u32 at;

	/* never: an array has all its places. Said here, it need not be asked again: see chains.h */
	if (!seen)
		return 0;
	COMPARED(seen);
	key.pid = id >> 32;
	at = *seen & ((1 << TYPE_BITS) - 1);
	if (*seen == SEEN(record, at)) {
		place = bpf_map_lookup_elem(&type_places, &at);
		if (place && place->key.pid == key.pid)
			return &place->layout;
	}
	key.rdes = read_pointer(record + process->rdes);
	at = TYPE_PLACE(key.rdes, key.pid);
	place = bpf_map_lookup_elem(&type_places, &at);
	if (place && place->key.rdes == key.rdes && place->key.pid == key.pid) {
		*seen = SEEN(record, at);
		return &place->layout;
	}
	return bpf_map_lookup_elem(&types, &key);
}

INLINE int begins(struct pt_regs *regs, __u16 kind)
{
	__u64 id = bpf_get_current_pid_tgid();
	TRACED(process, id);
	__u64 record = ARGUMENT1(regs);

	if ((process->chains || process->selects) && process_left_out(regs, process, id, record))
		return 0;
	OPEN_OF_PUT(hit, hit, regs, id, record);
	begin(hit, regs, id, kind, record);
	no_alarm(hit);
	RETURN_ADDRESS(&hit->caller, regs);
	bpf_probe_read_user(&hit->detail, 1, (void *)(record + process->pact));
	SEND(regs, hit, hit);
	return 0;
}

SEC("uprobe") int db_process(struct pt_regs *regs)
{
	return begins(regs, KIND_PROCESS);
}

/* A record type's rset->process(dbCommon *), where dbProcess cannot be found */
SEC("uprobe") int process_routine(struct pt_regs *regs)
{
	return begins(regs, KIND_ROUTINE);
}

/*
 * STAT and SEVR, which lie side by side in the record as in the hit. Read to where they stay: reading
 * them somewhere else first costs more than the reading.
 */
INLINE void read_alarm(struct hit *hit, struct process_layout *process, __u64 record)
{
	bpf_probe_read_user((__u8 *)hit + __builtin_offsetof(struct hit, status), 2 * sizeof(__u16),
			    (void *)(record + process->stat));
}

/* Of a record type that is not known: without a value. */
INLINE int completes(struct pt_regs *regs, struct process_layout *process, __u64 id, __u64 record)
{
	OPEN(complete, complete);
	begin(&complete->hit, regs, id, KIND_COMPLETE, record);
	read_alarm(&complete->hit, process, record);
	complete->count = 0;
	complete->bytes = 0;
	SEND(regs, complete, &complete->hit);
	return 0;
}

/* The caller of recGblFwdLink is the record's own process(), so it is not noted. */
SEC("uprobe") int rec_gbl_fwd_link(struct pt_regs *regs)
{
	__u64 id = bpf_get_current_pid_tgid();
	TRACED(process, id);
	__u64 record = ARGUMENT1(regs);
	struct value_layout *layout;

	if ((process->chains || process->selects) && completion_left_out(regs, process, id, record))
		return 0;
	layout = value_of(process, id, record);
	/* on a way of its own: see chains.h */
	if (!layout)
		return completes(regs, process, id, record);
	COMPARED(layout);
	if (layout->form == FORM_NONE || layout->form == FORM_SCALAR) {
		OPEN_OF_PUT(complete, complete, regs, id, record);
		begin(&complete->hit, regs, id, KIND_COMPLETE, record);
		read_alarm(&complete->hit, process, record);
		complete->count = 0;
		complete->bytes = 0;
		if (layout->form == FORM_SCALAR &&
		    bpf_probe_read_user(complete->value, 8, (void *)(record + layout->value)) == 0) {
			complete->hit.dbf = layout->dbf;
			complete->count = 1;
			complete->bytes = 8;
		}
		SEND(regs, complete, &complete->hit);
	} else if (layout->form == FORM_STRING) {
		OPEN_OF_PUT(complete_string, complete, regs, id, record);
		begin(&complete->hit, regs, id, KIND_COMPLETE, record);
		read_alarm(&complete->hit, process, record);
		complete->hit.dbf = layout->dbf;
		complete->count = 1;
		complete->bytes = STRING_BYTES;
		if (bpf_probe_read_user(complete->value, STRING_BYTES, (void *)(record + layout->value)) < 0)
			complete->bytes = 0;
		SEND(regs, complete, &complete->hit);
	} else {
		OPEN_OF_PUT(complete_array, complete, regs, id, record);
		__u64 array = 0;
		__u32 count = 0;
		__u16 ftvl = layout->dbf;

		begin(&complete->hit, regs, id, KIND_COMPLETE, record);
		read_alarm(&complete->hit, process, record);
		array = read_pointer(record + layout->value);
		bpf_probe_read_user(&count, sizeof(count), (void *)(record + layout->nord));
		if (layout->form == FORM_ARRAY)
			bpf_probe_read_user(&ftvl, sizeof(ftvl), (void *)(record + layout->ftvl));
		complete->hit.detail = layout->form;
		complete->hit.dbf = ftvl;
		complete->count = count;
		complete->bytes = read_array(complete->value, (void *)array,
					     (__u64)count * element_bytes(process, ftvl));
		SEND(regs, complete, &complete->hit);
	}
	return 0;
}

/* Of a DBF type, in the numbering of the process: INLINK, OUTLINK or FWDLINK? */
INLINE int is_link(struct process_layout *process, __s16 dbf)
{
	__u16 first = process->no_int64 ? 12 : 14;

	return (__u16)(dbf - first) < 3;
}

/*
 * The text of a link before it is changed: dbPutField frees it. Its parts, with the kind of the link, are put together by
 * the agent. Offsets of link.h, in pointers: they are the same for 4 and 8 bytes.
 */
INLINE void read_link(struct put *put, struct process_layout *process, __u64 link)
{
	int since_3_16 = process->link_record != NO_OFFSET;
	__u16 kind = 0xf;
	__u16 mask = 0;
	__u64 text;

	bpf_probe_read_user(&kind, sizeof(kind), (void *)(link + (since_3_16 ? 1 : 5) * sizeof(__pointer)));
	bpf_probe_read_user(&mask, sizeof(mask), (void *)(link + (since_3_16 ? 9 : 4) * sizeof(__pointer)));
	put->link = (kind & 0xf) << 12 | (mask & 0xfff);
	if (kind == 1 || kind == 10 || kind == 11) { /* PV_LINK, DB_LINK, CA_LINK */
		text = read_pointer(link + process->link_pvname);
	} else {
		/* a constant, a JSON link, `@` text; a constant that was never changed has its raw text alone */
		text = read_pointer(link + (since_3_16 ? 4 * sizeof(__pointer) : 0));
		if (!text && since_3_16 && kind == 0)
			text = read_pointer(link + 3 * sizeof(__pointer));
	}
	put->old[0] = 0;
	if (!text || bpf_probe_read_user(put->old, STRING_BYTES, (void *)text) == 0)
		put->old_bytes = STRING_BYTES;
	else if (bpf_probe_read_user(put->old, 8, (void *)text) == 0)
		put->old_bytes = 8;
}

/* dbPut and dbPutField: (DBADDR *, short dbrType, const void *buffer, long count) */
INLINE int put(struct pt_regs *regs, __u16 kind)
{
	__u64 id = bpf_get_current_pid_tgid();
	TRACED(process, id);
	struct db_address address = {};
	__u16 dbr = ARGUMENT2(regs);
	__u64 count = ARGUMENT4(regs);
	const void *requested = (void *)(__u64)ARGUMENT3(regs);
	int outside = 1;

	bpf_probe_read_user(&address, sizeof(address), (void *)(__u64)ARGUMENT1(regs));
	if (put_left_out(regs, process, id, address.record))
		return 0;
	if (kind == KIND_PUT_FIELD)
		note_put(regs, id, address.record);
	else
		outside = is_of_put(regs, id, address.record);
	if (count <= 1 && address.elements <= 1) {
		OPEN_PUT(put, put, outside);
		begin(&put->hit, regs, id, kind, address.record);
		no_alarm(&put->hit);
		RETURN_ADDRESS(&put->hit.caller, regs);
		put->hit.dbf = dbr;
		put->field = address.field;
		put->count = count;
		put->old_count = 1;
		put->old_dbf = address.field_type;
		put->requested_bytes = 0;
		put->old_bytes = 0;
		put->link = NO_LINK;
		if (count == 1) {
			if (element_bytes(process, dbr) == STRING_BYTES) {
				if (bpf_probe_read_user(put->requested, STRING_BYTES, requested) == 0)
					put->requested_bytes = STRING_BYTES;
			}
			/* also where a short string lies at the end of its memory */
			if (!put->requested_bytes && bpf_probe_read_user(put->requested, 8, requested) == 0)
				put->requested_bytes = 8;
		}
		if (is_link(process, address.field_type)) {
			read_link(put, process, address.pfield);
		} else if (address.field_size > 8) {
			if (bpf_probe_read_user(put->old, STRING_BYTES, (void *)(__u64)address.pfield) == 0)
				put->old_bytes = STRING_BYTES;
		} else if (bpf_probe_read_user(put->old, 8, (void *)(__u64)address.pfield) == 0) {
			put->old_bytes = 8;
		}
		SEND_PUT(regs, put, &put->hit, outside);
	} else {
		struct value_layout *layout = value_of(process, id, address.record);
		__u64 old = address.pfield;
		__u32 old_count = address.elements;

		if (layout && layout->form == FORM_ARRAY && layout->field == address.field) {
			/* an array record's buffer: DBADDR.pfield is brought up to date inside dbPut only */
			old = read_pointer(address.record + layout->value);
			bpf_probe_read_user(&old_count, sizeof(old_count), (void *)((__u64)address.record + layout->nord));
		}
		OPEN_PUT(put_array, put, outside);
		begin(&put->hit, regs, id, kind, address.record);
		no_alarm(&put->hit);
		RETURN_ADDRESS(&put->hit.caller, regs);
		put->hit.dbf = dbr;
		put->field = address.field;
		put->count = count;
		put->old_dbf = address.field_type;
		put->link = NO_LINK;
		put->requested_bytes = read_array(put->requested, requested, count * element_bytes(process, dbr));
		put->old_count = old_count;
		put->old_bytes = read_array(put->old, (void *)old, (__u64)old_count * (__u16)address.field_size);
		SEND_PUT(regs, put, &put->hit, outside);
	}
	return 0;
}

SEC("uprobe") int db_put(struct pt_regs *regs)
{
	return put(regs, KIND_PUT);
}

SEC("uprobe") int db_put_field(struct pt_regs *regs)
{
	return put(regs, KIND_PUT_FIELD);
}

/* dbProcessNotify(processNotify *); 3.14: dbPutNotify(putNotify *) */
SEC("uprobe") int db_process_notify(struct pt_regs *regs)
{
	__u64 id = bpf_get_current_pid_tgid();
	TRACED(process, id);
	struct db_address address = {};
	__u64 channel;

	channel = read_pointer((__u64)ARGUMENT1(regs) + process->notify_chan);
	bpf_probe_read_user(&address, sizeof(address), (void *)(channel + process->chan_address));
	if (put_left_out(regs, process, id, address.record))
		return 0;
	note_put(regs, id, address.record);
	OPEN_PUT(put, put, 1);
	begin(&put->hit, regs, id, KIND_NOTIFY, address.record);
	no_alarm(&put->hit);
	RETURN_ADDRESS(&put->hit.caller, regs);
	put->field = address.field;
	put->count = 0;
	put->old_count = 0;
	put->old_dbf = address.field_type;
	put->requested_bytes = 0;
	put->old_bytes = 0;
	put->link = NO_LINK;
	SEND_PUT(regs, put, &put->hit, 1);
	return 0;
}

/* dbCaPutLinkCallback(struct link *, short dbrType, const void *buffer, long count, ...) */
SEC("uprobe") int db_ca_put_link_callback(struct pt_regs *regs)
{
	__u64 id = bpf_get_current_pid_tgid();
	TRACED(process, id);
	__u64 link = ARGUMENT1(regs);
	__u16 dbr = ARGUMENT2(regs);
	__u64 name;
	const void *value = (void *)(__u64)ARGUMENT3(regs);

	if (request_left_out(regs, process, id, 0, 0))
		return 0;
	OPEN_PUT(link_put, put, 0);
	begin(&put->hit, regs, id, KIND_LINK_PUT, link);
	no_alarm(&put->hit);
	put->hit.dbf = dbr;
	put->count = ARGUMENT4(regs);
	put->bytes = 0;
	put->record = 0;
	if (process->link_record != NO_OFFSET)
		put->record = read_pointer(link + process->link_record);
	name = read_pointer(link + process->link_pvname);
	if (bpf_probe_read_user(put->pv, NAME_BYTES, (void *)name) < 0)
		put->pv[0] = 0;
	if (bpf_probe_read_user(put->value, STRING_BYTES, value) == 0)
		put->bytes = STRING_BYTES;
	else if (bpf_probe_read_user(put->value, 8, value) == 0)
		put->bytes = 8;
	SEND_PUT(regs, put, &put->hit, 0);
	return 0;
}

/* CALLBACK.user: callback.h, {function, int priority, void *user, ...} */
#define CALLBACK_USER (2 * sizeof(__pointer))

INLINE int cause(struct pt_regs *regs, __u16 kind, __u64 object, __u64 user, int read_user)
{
	__u64 id = bpf_get_current_pid_tgid();
	TRACED(process, id);

	if (read_user)
		user = read_pointer(object + CALLBACK_USER);
	if (request_left_out(regs, process, id, user, kind == KIND_SCAN_ONCE))
		return 0;
	OPEN(cause, cause);
	begin(&cause->hit, regs, id, kind, object);
	no_alarm(&cause->hit);
	RETURN_ADDRESS(&cause->hit.caller, regs);
	cause->user = user;
	SEND(regs, cause, &cause->hit);
	return 0;
}

SEC("uprobe") int callback_request(struct pt_regs *regs)
{
	return cause(regs, KIND_CALLBACK_REQUEST, ARGUMENT1(regs), 0, 1);
}

SEC("uprobe") int callback_request_delayed(struct pt_regs *regs)
{
	return cause(regs, KIND_CALLBACK_DELAYED, ARGUMENT1(regs), 0, 1);
}

/* (CALLBACK *, int priority, void *record) */
SEC("uprobe") int callback_request_process(struct pt_regs *regs)
{
	return cause(regs, KIND_CALLBACK_PROCESS, ARGUMENT1(regs), ARGUMENT3(regs), 0);
}

/* (CALLBACK *, int priority, void *record, double seconds) */
SEC("uprobe") int callback_request_process_delayed(struct pt_regs *regs)
{
	return cause(regs, KIND_CALLBACK_PROCESS_DELAYED, ARGUMENT1(regs), ARGUMENT3(regs), 0);
}

/* scanOnce(dbCommon *) and scanOnceCallback(dbCommon *, callback, void *) */
SEC("uprobe") int scan_once(struct pt_regs *regs)
{
	return cause(regs, KIND_SCAN_ONCE, ARGUMENT1(regs), ARGUMENT1(regs), 0);
}

SEC("uprobe") int scan_io_request(struct pt_regs *regs)
{
	return cause(regs, KIND_SCAN_IO_REQUEST, ARGUMENT1(regs), 0, 0);
}

/* postEvent(EVENTPVT); 3.14: post_event(int) */
SEC("uprobe") int post_event(struct pt_regs *regs)
{
	return cause(regs, KIND_POST_EVENT, ARGUMENT1(regs), 0, 0);
}

/* So that bpf_probe_read_user and bpf_ringbuf_* may be used; see LICENSE. */
char _license[] SEC("license") = "Dual BSD/GPL";
