/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * The recorded processes; hits of any other are ignored.
 */
#ifndef IOCREC_PROCESSES_H
#define IOCREC_PROCESSES_H

#include "program.h"
#include "hits.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 256); /* traced IOCs on one host */
	__type(key, __u32);
	__type(value, struct process_layout);
} processes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1 << PROCESS_BITS);
	__type(key, __u32);
	__type(value, struct process_place);
} process_places SEC(".maps");

INLINE struct process_layout *traced(__u64 id)
{
	__u32 pid = id >> 32;
	__u32 at = PROCESS_PLACE(pid);
	struct process_place *place = bpf_map_lookup_elem(&process_places, &at);

	if (place && place->pid == pid)
		return &place->layout;
	return bpf_map_lookup_elem(&processes, &pid);
}

/* Nothing may come between the look-up and the comparison: see program.h. (On i386 reading an argument is a call.) */
#define TRACED(process, id) \
	struct process_layout *process = traced(id); \
	if (!process) \
		return 0; \
	COMPARED(process)

#endif
