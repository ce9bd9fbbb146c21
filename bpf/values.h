/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * The locations of values in the records of a process, by record type.
 */
#ifndef IOCREC_VALUES_H
#define IOCREC_VALUES_H

#include "program.h"
#include "hits.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 2048); /* record types of all of them: Base has 35, a big IOC 100 */
	__type(key, struct type_key);
	__type(value, struct value_layout);
} types SEC(".maps");

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

	/* never: an array has all its entries. Compared here, it need not be compared again: see program.h */
	if (!seen)
		return 0;
	COMPARED(seen);
	key.pid = id >> 32;
	at = *seen & ((1 << TYPE_BITS) - 1);
	if (*seen == SEEN(process, record, at)) {
		place = bpf_map_lookup_elem(&type_places, &at);
		if (place && place->key.pid == key.pid)
			return &place->layout;
	}
	key.rdes = read_pointer(record + process->rdes);
	at = TYPE_PLACE(key.rdes, key.pid);
	place = bpf_map_lookup_elem(&type_places, &at);
	if (place && place->key.rdes == key.rdes && place->key.pid == key.pid) {
		*seen = SEEN(process, record, at);
		return &place->layout;
	}
	return bpf_map_lookup_elem(&types, &key);
}

#endif
