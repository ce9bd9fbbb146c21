/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * The buffers through which hits go to the agent: OPEN reserves space for one, SEND hands it over. The perf tier
 * reserves no space in its buffers: hits are built on the stack.
 */
#ifndef IOCREC_BUFFERS_H
#define IOCREC_BUFFERS_H

#include "program.h"
#include "hits.h"
#include "puts.h"

/*
 * Puts matter more than processing: their own buffer keeps a flood of processing from pushing them out. It is for
 * puts from outside (dbPutField, dbProcessNotify, and the dbPut inside them). Puts by records' links are as frequent as
 * processing, so they share its buffer: `outside` distinguishes them.
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

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, LOST_SORTS);
	__type(key, __u32);
	__type(value, __u64);
} lost SEC(".maps");

/* Not 0: the agent sleeps until the next hit, or, UNTIL_PUT, until the next put from outside. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} asleep SEC(".maps");

/*
 * While hits come the agent polls every 50 ms, or every 100 ms while they are few, and a put wakes it; it is woken earlier
 * only if a quarter of a ring is full. When none have come for a while it sleeps, and the next one wakes it.
 */
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
 * A put that does not fit its own ring may use the other. Puts from outside may fill both. Others, among them those of
 * a PVAccess server, get an eighth of the puts' ring, so that a flood of links' puts pushes none out.
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
 * Processing of the record that a put wrote to shows the put's outcome. If it does not fit, it may use the puts' ring
 * up to three eighths: room for 500 puts remains in any case.
 */
#define OPEN_OF_PUT(type, name, regs, id, record) \
	struct type *name = bpf_ringbuf_reserve(&hits, sizeof(*name), 0); \
	if (!name && is_of_put(regs, id, record) && \
	    bpf_ringbuf_query(&puts, BPF_RB_AVAIL_DATA) < PUTS_BYTES / 8 * 3) \
		name = bpf_ringbuf_reserve(&puts, sizeof(*name), 0); \
	if (!name) \
		return count_lost(LOST_PROCESSING)

INLINE int wakes_agent(int outside)
{
	__u32 zero = 0;
	__u32 *sleeps = bpf_map_lookup_elem(&asleep, &zero);

	if (!sleeps || !*sleeps || (*sleeps == UNTIL_PUT && !outside))
		return 0;
	*sleeps = 0;
	return 1;
}

/*
 * Notes the time, and returns whether to wake the agent. Checking how full the ring is costs as much as the rest, so it
 * is done only for the hits of one microsecond in 16.
 */
INLINE __u64 now(struct hit *hit)
{
	hit->time = bpf_ktime_get_ns();
	if (wakes_agent(0))
		return BPF_RB_FORCE_WAKEUP;
	return (hit->time & 0x3c00) == 0 && bpf_ringbuf_query(&hits, BPF_RB_AVAIL_DATA) >= WAKE_AT ?
		       BPF_RB_FORCE_WAKEUP :
		       BPF_RB_NO_WAKEUP;
}

INLINE __u64 now_of_put(struct hit *hit, int outside)
{
	hit->time = bpf_ktime_get_ns();
	if (wakes_agent(outside))
		return BPF_RB_FORCE_WAKEUP;
	return (hit->time & 0x3c00) == 0 && (bpf_ringbuf_query(&puts, BPF_RB_AVAIL_DATA) >= WAKE_AT_PUTS ||
					     bpf_ringbuf_query(&hits, BPF_RB_AVAIL_DATA) >= WAKE_AT) ?
		       BPF_RB_FORCE_WAKEUP :
		       BPF_RB_NO_WAKEUP;
}

#define SEND(regs, name, hit) bpf_ringbuf_submit(name, now(hit))
#define SEND_PUT(regs, name, hit, outside) bpf_ringbuf_submit(name, now_of_put(hit, outside))

/* Reads up to ARRAY_BYTES; returns the number read. */
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

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, LOST_SORTS); /* the agent has it made for all CPUs */
	__type(key, __u32);
	__type(value, struct given);
} given SEC(".maps");

/* Free space is unknown here, so a hit that does not fit its own buffer is lost. */
#define OPEN(type, name) \
	struct type name##_event = {}; \
	struct type *name = &name##_event
#define OPEN_PUT(type, name, outside) OPEN(type, name)
#define OPEN_OF_PUT(type, name, regs, id, record) OPEN(type, name)

/*
 * Gives a hit to its buffer, and counts it afterwards: one that is counted either lies in the buffer or is lost. The
 * kernel itself tells of lost hits only before the next one on the same CPU, and bpf_perf_event_output() only since 5.1.
 * A plain addition is enough: no program interrupts another on its CPU, except, rarely, since 6.0, where preemption may
 * make the count too low.
 */
INLINE void give(struct pt_regs *regs, struct hit *hit, __u64 bytes, int outside)
{
	__u32 cpu = bpf_get_smp_processor_id();
	__u32 place = GIVEN_PLACE(cpu, outside ? LOST_PUTS : LOST_PROCESSING);
	struct given *sort;

	hit->time = bpf_ktime_get_ns();
	/* 4.4 lacks BPF_F_CURRENT_CPU (4.7) */
	bpf_perf_event_output(regs, outside ? (void *)&puts : (void *)&hits, cpu, hit, bytes);
	sort = bpf_map_lookup_elem(&given, &place);
	if (sort)
		sort->count++;
}

#define SEND(regs, name, hit) give(regs, hit, sizeof(*name), 0)
#define SEND_PUT(regs, name, hit, outside) give(regs, hit, sizeof(*name), outside)

/* Constant sizes only. Reading past the end of a short array is harmless: `bytes` cuts off the excess. */
INLINE __u32 read_array(__u8 *into, const void *from, __u64 bytes)
{
	if (bytes > ARRAY_BYTES)
		bytes = ARRAY_BYTES;
	if (bpf_probe_read_user(into, ARRAY_BYTES, from) == 0)
		return bytes;
	/* the array ends just before unmapped memory */
	if (bytes > STRING_BYTES)
		bytes = STRING_BYTES;
	if (bpf_probe_read_user(into, STRING_BYTES, from) == 0)
		return bytes;
	if (bytes > 8)
		bytes = 8;
	return bpf_probe_read_user(into, 8, from) == 0 ? bytes : 0;
}

#endif

/*
 * Fills a hit's head except the alarm and the time. The time is noted last: reading the clock waits for all earlier
 * reads, so it is cheapest there. `id` is bpf_get_current_pid_tgid().
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

#endif
