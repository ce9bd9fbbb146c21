/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * How many updates servers send, counted by subscription where they pass, since the packet filter leaves them out.
 *
 * The recorder reads the counts, which only grow, and frees the places of subscriptions that have ended. A place is taken
 * by the first update; what finds none is counted as missed.
 */
#ifndef IOCREC_COUNTS_H
#define IOCREC_COUNTS_H

#include "program.h"
#include "flows.h"

enum {
	COUNTS_BITS = 11,
	COUNTS = 1 << COUNTS_BITS,
	/* Instead of a subscription's number: segments of the connection that were not looked at. */
	COUNTS_MISSED = 0xffffffff,
};

/* src/net/counts.rs has the same layout. */
struct count {
	/* See subscription(). 0: the place is free. The last place is for updates that found none. */
	__u64 whose;
	/* A packet may pass several interfaces: the first one counts. */
	__u32 interface;
	__u32 updates;
	/* With their headers. */
	__u64 bytes;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, COUNTS + 1);
	__type(key, __u32);
	__type(value, struct count);
} counts SEC(".maps");

/* By what a server's direction of a connection is told apart here: never 0. The recorder reckons in the same way. */
INLINE __u64 counted_as(const struct flow_key *key)
{
	__u64 hash = ((__u64)key->source[3] << 32 | key->destination[3]) * 0x9e3779b97f4a7c15ull;

	return ((hash ^ hash >> 29) + key->ports) * 0xbf58476d1ce4e5b9ull | 1;
}

INLINE __u64 subscription(__u64 connection, __u32 number)
{
	__u64 hash = (connection ^ number) * 0x9e3779b97f4a7c15ull;

	return (hash ^ hash >> 32) * 0xbf58476d1ce4e5b9ull | 1;
}

/* Counts an update of this subscription. A function of its own, so that it is there once, and the verifier looks at it once. */
__attribute__((noinline)) __u32 count(__u64 connection, __u32 number, __u32 interface, __u32 bytes)
{
	__u64 whose = subscription(connection, number);
	struct count *count;
	__u32 i, at;

	for (i = 0; i < 3; i++) {
		/* one of two places; the last is shared */
		at = i < 2 ? (__u32)(whose >> (64 - COUNTS_BITS)) ^ i : COUNTS;
		count = bpf_map_lookup_elem(&counts, &at);
		if (!count)
			return 0;
		if (i < 2 && !count->whose) {
			count->interface = interface;
			count->updates = 0;
			count->bytes = 0;
			count->whose = whose;
		}
		if (i < 2 && count->whose != whose)
			continue;
		if (i == 2 || count->interface == interface) {
			count->updates++;
			count->bytes += bytes;
		}
		return 0;
	}
	return 0;
}

#endif
