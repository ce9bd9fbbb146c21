/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * Updates of Channel Access that follow each other, and answers to gets: most of what a server sends. They are followed and
 * counted here as message_at() would do it one by one, in less time (docs/benchmarks.md), which the sender pays.
 *
 * Their headers are read from a copy of the packet's bytes: many by one call of the kernel. Each CPU has one. On a kernel
 * for real-time use one packet may interrupt another on the same CPU: whoever finds the copy in use does without.
 */
#ifndef IOCREC_UPDATES_H
#define IOCREC_UPDATES_H

#include "program.h"
#include "messages.h"
#include "counts.h"

enum {
	/* Bytes to copy at once, a power of two: a dozen updates of numbers. Of long ones more would be copied in vain. */
	WINDOW = 512,
	/* Most updates of one call: the verifier takes its time. */
	MOST_UPDATES = 64,
};

struct window {
	/* How many use it, or want to. */
	__u64 users;
	/* A header may begin at the last bytes of the window. */
	__u8 bytes[WINDOW + CA_HEADER];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct window);
} windows SEC(".maps");

/* Where the message behind the updates begins, and where the header of the last of them ends. */
#define UPDATES(next, keen) ((__u64)(next) << 32 | (keen))
#define UPDATES_NEXT(updates) ((__u32)((updates) >> 32))
#define UPDATES_KEEN(updates) ((__u32)(updates))

/*
 * The updates that begin at this offset of the packet and follow each other, with their headers before `end`. 0: none does, or
 * the window is in use. A function of its own, so that the verifier looks at it once. `connection`: see struct segment.
 */
__attribute__((noinline)) __u64 updates(struct __sk_buff *skb, __u32 at, __u32 end, __u64 connection)
{
	/* the window holds the packet from here to there */
	__u32 begin = at, loaded = at;
	__u32 keen = 0, command, size, i, first = 0;
	struct window *window = bpf_map_lookup_elem(&windows, &first);
	const __u8 *head;

	if (!window)
		return 0;
	__sync_fetch_and_add(&window->users, 1);
	if (*(volatile __u64 *)&window->users != 1)
		goto out;
	for (i = 0; i < MOST_UPDATES; i++) {
		/* the last update may end behind the segment */
		if (at > end || end - at < CA_HEADER)
			break;
		if (at > loaded || loaded - at < CA_HEADER) {
			__u64 others = end - at - 1;

			if (others >= WINDOW)
				others = WINDOW - 1;
			/* the compiler knows that it is small, but old verifiers do not */
			__asm__ volatile("" : "+r"(others));
			others &= WINDOW - 1;
			if (bpf_skb_load_bytes(skb, at, window->bytes, others + 1))
				break;
			begin = at;
			loaded = at + others + 1;
		}
		/* from one message to the next it is a multiple of eight bytes */
		head = window->bytes + ((at - begin) & (WINDOW - 8));
		command = BIG16(head, 0);
		size = BIG16(head, 2);
		if ((command != CA_EVENT_ADD && command != CA_READ_NOTIFY) || !size || size % 8 ||
		    BIG16(head, 4) > CA_LAST_DBR || BIG_WORD(head, 8) != CA_NORMAL)
			break;
		if (connection && command == CA_EVENT_ADD)
			count(connection, BIG_WORD(head, 12), skb->ifindex, CA_HEADER + size);
		keen = at + CA_HEADER;
		at = keen + size;
	}
out:
	__sync_fetch_and_add(&window->users, -1);
	return keen ? UPDATES(at, keen) : 0;
}

#endif
