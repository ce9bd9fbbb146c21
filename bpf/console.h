/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * What a process writes to its console, and how much of it is kept.
 */
#ifndef IOCREC_CONSOLE_H
#define IOCREC_CONSOLE_H

#include "program.h"
#include "hits.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 256); /* as many as `processes` */
	__type(key, __u32);
	__type(value, struct console_state);
} consoles SEC(".maps");

#define CONSOLE_WINDOW 1000000000ull

/* Whether the console and the end of a process are recorded. This begins before its records are known. */
INLINE int has_console(__u64 id)
{
	__u32 pid = id >> 32;

	return bpf_map_lookup_elem(&consoles, &pid) != 0;
}

/*
 * Whether one more hit is left out; `is_write`: then it is counted. Two CPUs may keep one more between them than the
 * limit says. In the ring tier no write is missing from the count; in the perf tier, whose kernels may lack atomic
 * additions, one is missed if two CPUs count at the same moment.
 */
INLINE int console_left_out(__u64 id, int is_write)
{
	__u32 pid = id >> 32;
	struct console_state *state = bpf_map_lookup_elem(&consoles, &pid);
	__u64 time;

	if (!state)
		return 1;
	COMPARED(state);
	time = bpf_ktime_get_ns();
	if (time - state->window >= CONSOLE_WINDOW) {
		state->window = time;
		state->writes = 0;
	}
	if (state->writes >= state->limit) {
#ifdef IOCREC_RING
		if (is_write)
			__sync_fetch_and_add(&state->left_out, 1);
#else
		if (is_write)
			state->left_out++;
#endif
		return 1;
	}
	state->writes++;
	return 0;
}

/*
 * Reads a text that ends with a NUL; returns the bytes that were read, with what may lie behind the NUL. Zeroes follow
 * if it can't be read.
 */
#ifdef IOCREC_RING
#define READ_TEXT(into, from) \
	({ \
		long got = bpf_probe_read_user_str(into, sizeof(into), (void *)(__u64)(from)); \
		if (got <= 0) \
			(into)[0] = 0; \
		(__u32)(got > 0 ? got : 0); \
	})
#else
#define READ_TEXT(into, from) \
	({ \
		__u32 got = sizeof(into); \
		if (bpf_probe_read_user(into, sizeof(into), (void *)(__u64)(from)) < 0) { \
			/* it ends just before unmapped memory */ \
			got = STRING_BYTES; \
			if (bpf_probe_read_user(into, STRING_BYTES, (void *)(__u64)(from)) < 0) { \
				got = 8; \
				if (bpf_probe_read_user(into, 8, (void *)(__u64)(from)) < 0) \
					got = 0; \
			} \
		} \
		got; \
	})
#endif

#endif
