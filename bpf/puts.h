/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * The put from outside that each thread carries out.
 */
#ifndef IOCREC_PUTS_H
#define IOCREC_PUTS_H

#include "program.h"
#include "hits.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1 << PUT_BITS);
	__type(key, __u32);
	__type(value, struct put_place);
} put_places SEC(".maps");

/* Notes that a put from outside begins on this thread. */
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
 * Whether this hit is part of a put from outside to the record. (The put may have returned, but then its thread puts to
 * that record only from outside.)
 */
INLINE int is_of_put(struct pt_regs *regs, __u64 id, __u64 record)
{
	__u32 at = PUT_PLACE(id);
	struct put_place *place = bpf_map_lookup_elem(&put_places, &at);

	return place && place->tid == (__u32)id && place->record == record && STACK_POINTER(regs) < place->sp;
}

#endif
