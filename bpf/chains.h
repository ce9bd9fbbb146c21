/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * Chain sampling and selection of hits. Left out are hits of chains beyond the number that a record may begin in a
 * given time (--max-chains, --retain), and hits of unwanted records (--only, --exclude).
 *
 * A chain is all activity below a dbProcess that was not called from anything recorded on its thread. It is kept or
 * left out completely: the activity of its thread in deeper frames, by their stack pointers, and the later completion
 * of its asynchronous records with its consequences. A put from outside is never left out, nor is any activity below
 * it, nor any processing that it requests from scanOnce.
 *
 * When in doubt (a map is full, a record is new) the hit is kept.
 */
#ifndef IOCREC_CHAINS_H
#define IOCREC_CHAINS_H

#include "program.h"
#include "hits.h"
#include "buffers.h"

/* The agent sets the sizes of these maps; they stay this small if nothing is left out. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct record_key);
	__type(value, struct record_state);
} records SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct thread_state);
} threads SEC(".maps");

/* Shortest time between two hits that report left-out chains of a record, ns. */
#define THINNED_PAUSE 10000000000

INLINE struct record_state *state_of(__u64 id, __u64 record)
{
	struct record_key key = {};

	key.record = record;
	key.pid = id >> 32;
	return bpf_map_lookup_elem(&records, &key);
}

INLINE struct thread_state *thread_of(__u64 id)
{
	__u32 tid = id;
	struct thread_state *thread = bpf_map_lookup_elem(&threads, &tid);

	if (!thread) {
		struct thread_state new = {};

		bpf_map_update_elem(&threads, &tid, &new, BPF_ANY);
		thread = bpf_map_lookup_elem(&threads, &tid);
	}
	return thread;
}

/*
 * Whether a hit is below the outermost known frame of its thread. That frame may have returned long ago, and the hit
 * may have come through other, deeper frames: then the frame's return address has been overwritten.
 */
INLINE int is_below(struct thread_state *thread, struct pt_regs *regs, __u64 id)
{
	__u64 there = 0;

	if (thread->pid != id >> 32 || STACK_POINTER(regs) >= thread->sp)
		return 0;
	return AT_STACK_POINTER(&there, thread->sp) < 0 || there == thread->caller;
}

INLINE void enter(struct thread_state *thread, struct pt_regs *regs, __u64 id, int left_out, int by_put)
{
	__u64 caller = 0;

	RETURN_ADDRESS(&caller, regs);
	thread->sp = STACK_POINTER(regs);
	thread->caller = caller;
	thread->pid = id >> 32;
	thread->left_out = left_out;
	thread->by_put = by_put;
}

/* Whether a chain that begins now exceeds the limit. */
INLINE int is_too_many(struct pt_regs *regs, struct process_layout *process, struct record_state *state,
		       __u64 id, __u64 record)
{
	__u64 time = bpf_ktime_get_ns();
	__u64 since = time - state->window;

	if (since >= process->window) {
		/* windows follow each other without a gap if possible, so that scan jitter costs no chain */
		state->window = since < 2 * process->window ? state->window + process->window : time;
		state->chains = 0;
	}
	if (state->chains >= process->chains) {
		if (!state->left_out)
			state->since = time;
		state->left_out++;
		return 1;
	}
	state->chains++;
	if (state->left_out && time - state->since >= THINNED_PAUSE) {
		OPEN(thinned, thinned);
		begin(&thinned->hit, regs, id, KIND_THINNED, record);
		no_alarm(&thinned->hit);
		thinned->since = state->since;
		thinned->count = state->left_out;
		SEND(regs, thinned, &thinned->hit);
		state->left_out = 0;
	}
	return 0;
}

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1 << CLIENT_BITS);
	__type(key, __u32);
	__type(value, struct client_place);
} client_places SEC(".maps");

/* A put as a client: `channel` is its chid. */
INLINE int client_put_left_out(struct process_layout *process, __u64 channel)
{
	__u32 at = CLIENT_PLACE(channel);
	struct client_place *place;
	__u64 time;

	if (!process->chains)
		return 0;
	place = bpf_map_lookup_elem(&client_places, &at);
	if (!place)
		return 0;
	COMPARED(place);
	time = bpf_ktime_get_ns();
	if (time - place->window >= process->window) {
		place->window = time;
		place->puts = 0;
	}
	if (place->puts >= process->chains)
		return 1;
	place->puts++;
	return 0;
}

/* Whether a record is unwanted; for use without chain sampling. */
INLINE int is_unwanted(__u64 id, __u64 record)
{
	struct record_state *state = state_of(id, record);

	return state && state->unwanted;
}

/* dbProcess */
INLINE int process_left_out(struct pt_regs *regs, struct process_layout *process, __u64 id, __u64 record)
{
	struct record_state *state;
	struct thread_state *thread;
	int left_out, by_put, below;
	__u8 active = 0;

	if (!process->chains)
		return is_unwanted(id, record);
	thread = thread_of(id);
	if (!thread)
		return is_unwanted(id, record);
	COMPARED(thread);
	below = is_below(thread, regs, id);
	left_out = below && thread->left_out;
	by_put = below ? thread->by_put : thread->put_record == record;
	state = state_of(id, record);
	if (!state) {
		if (!below)
			enter(thread, regs, id, 0, by_put);
		return left_out;
	}
	COMPARED(state);
	if (!below) {
		by_put |= state->exempt;
		left_out = !by_put && is_too_many(regs, process, state, id, record);
		enter(thread, regs, id, left_out, by_put);
		state->exempt = 0;
	}
	/* an active record does nothing, and has yet to complete its previous processing */
	bpf_probe_read_user(&active, 1, (void *)(record + process->pact));
	if (!active)
		state->open = left_out ? OPEN_LEFT_OUT : by_put ? OPEN_BY_PUT : OPEN_KEPT;
	return left_out || state->unwanted;
}

/* recGblFwdLink */
INLINE int completion_left_out(struct pt_regs *regs, struct process_layout *process, __u64 id, __u64 record)
{
	struct record_state *state;
	struct thread_state *thread;
	int left_out, below;
	__u8 open;

	if (!process->chains)
		return is_unwanted(id, record);
	thread = thread_of(id);
	if (!thread)
		return is_unwanted(id, record);
	COMPARED(thread);
	below = is_below(thread, regs, id);
	left_out = below && thread->left_out;
	state = state_of(id, record);
	if (!state) {
		if (!below)
			enter(thread, regs, id, 0, 0);
		return left_out;
	}
	COMPARED(state);
	open = state->open;
	state->open = OPEN_KEPT;
	if (!below) {
		/* an asynchronous record, on whichever thread it completes */
		left_out = open == OPEN_LEFT_OUT;
		enter(thread, regs, id, left_out, open == OPEN_BY_PUT);
	}
	return left_out || state->unwanted;
}

/*
 * dbPut, and, `outside`, dbPutField and dbProcessNotify, which are hardly ever called by processing. Where it can't be
 * seen whether the frame of a chain that was left out has returned, their puts count as not below it, and are kept.
 */
INLINE int put_left_out(struct pt_regs *regs, struct process_layout *process, __u64 id, __u64 record,
			int outside)
{
	struct thread_state *thread = process->chains ? thread_of(id) : 0;
	int left_out = 0;

	if (thread && (SHOWS_FRAMES || !outside) && is_below(thread, regs, id)) {
		left_out = thread->left_out;
	} else if (thread) {
		enter(thread, regs, id, 0, 1);
		thread->put_record = record;
	}
	if (process->selects && !left_out) {
		struct record_state *state = state_of(id, record);

		left_out = state && state->unwanted;
	}
	return left_out;
}

/*
 * A request for later work. `record` is the record that it names, or an address that may be one; `once` marks scanOnce,
 * which will process that record.
 */
INLINE int request_left_out(struct pt_regs *regs, struct process_layout *process, __u64 id, __u64 record,
			    int once)
{
	struct thread_state *thread = process->chains ? thread_of(id) : 0;
	struct record_state *state;

	if (!thread)
		return 0;
	state = state_of(id, record);
	if (!is_below(thread, regs, id)) {
		thread->sp = 0;
		/* the timer forwards the request of an asynchronous record */
		return !once && state && state->open == OPEN_LEFT_OUT;
	}
	if (once && state && thread->by_put)
		state->exempt = 1;
	return thread->left_out;
}

#endif
