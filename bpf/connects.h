/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * Which process opens a connection: told by the segment that opens it, for clients that are gone before anybody can look
 * for them.
 *
 * A segment mostly leaves the machine within the system call of the process that connects, but not always: it may be sent
 * again by a timer, or by whoever sends next through the same queue. So nothing is believed of the running process but
 * what its own files prove: one of its descriptors is the socket that sends this very segment, which has its port and its
 * sequence number (which the kernel made up from a secret) and is in state SYN_SENT. Any other segment tells nothing.
 *
 * The kernel's structures are read at the offsets that the recorder has found in the kernel's own description of them
 * (BTF); whatever is read at a wrong place proves nothing. Without these offsets the kernel never sees this part: the
 * verifier drops what a constant rules out.
 */
#ifndef IOCREC_CONNECTS_H
#define IOCREC_CONNECTS_H

#include "program.h"

enum {
	/* Descriptors to look at: those made last, as far as the kernel's hint for the next one tells, and after it. */
	CONNECT_DESCRIPTORS = 32,
	/*
	 * Opening segments to look at in a window of 2^24 ns, for each direction: 7,600 a second, of some two microseconds
	 * each. So a flood of segments costs little, and one from outside hides no process of this machine.
	 */
	CONNECT_MOST = 128,
	CONNECT_WINDOW_BITS = 24,
	/* The same since Linux 3.9 (include/net/sock.h, struct sock_common). */
	SOCK_PORT = 14,
	SOCK_STATE = 18,
	STATE_SYN_SENT = 2,
	/* include/uapi/linux/stat.h */
	MODE_TYPE = 0170000,
	MODE_SOCKET = 0140000,
};

/* Offsets in the kernel's structures. src/net/connects.rs has the same layout. */
struct kernel_layout {
	/* Whether the others are known. */
	__u32 is_known;
	__u32 task_tgid;
	__u32 task_leader;
	__u32 task_start;
	__u32 task_name;
	__u32 task_user;
	__u32 task_files;
	__u32 user_id;
	__u32 files_next;
	__u32 files_table;
	__u32 table_size;
	__u32 table_files;
	__u32 file_inode;
	__u32 file_socket;
	__u32 inode_mode;
	__u32 socket_sock;
	__u32 sock_sequence;
};

const volatile struct kernel_layout kernel;

/* A process that has opened a connection. src/net/connects.rs has the same layout. */
struct connect {
	/* CLOCK_MONOTONIC, and when the process has started, nanoseconds. */
	__u64 time;
	__u64 start;
	/* Addresses and ports as in the packet; over IPv6 addresses are 0: the sequence number tells the connection. */
	__u32 client;
	__u32 server;
	__u32 ports;
	__u32 sequence;
	__u32 pid;
	__u32 user;
	char name[16];
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	/* a page of any size that a kernel has; the recorder sets it */
	__uint(max_entries, 65536);
} connects SEC(".maps");

/* What was told and looked at lately. Two processors may write it at once: then a process is told twice, or not. */
struct connect_state {
	__u64 told;
	__u64 window[2];
	__u32 looked[2];
};

INLINE __u64 kernel_pointer(__u64 from)
{
	__u64 pointer = 0;

	bpf_probe_read_kernel(&pointer, sizeof(pointer), (void *)from);
	return pointer;
}

INLINE __u32 kernel_number(__u64 from)
{
	__u32 number = 0;

	bpf_probe_read_kernel(&number, sizeof(number), (void *)from);
	return number;
}

/* Whether this open file is the socket that sends the opening segment. */
INLINE int sends(__u64 file, __u32 port, __u32 sequence)
{
	__u64 sock;
	__u16 mode = 0, number = 0;
	__u8 state = 0;

	bpf_probe_read_kernel(&mode, sizeof(mode), (void *)(kernel_pointer(file + kernel.file_inode) + kernel.inode_mode));
	if ((mode & MODE_TYPE) != MODE_SOCKET)
		return 0;
	sock = kernel_pointer(kernel_pointer(file + kernel.file_socket) + kernel.socket_sock);
	bpf_probe_read_kernel(&number, sizeof(number), (void *)(sock + SOCK_PORT));
	bpf_probe_read_kernel(&state, sizeof(state), (void *)(sock + SOCK_STATE));
	return number == port && state == STATE_SYN_SENT && kernel_number(sock + kernel.sock_sequence) == sequence;
}

/* Whether one of the process's descriptors is that socket. */
INLINE int holds(__u64 task, __u32 port, __u32 sequence)
{
	__u64 files = kernel_pointer(task + kernel.task_files), table, list, file;
	__u32 next, size, i, descriptor;

	if (!files)
		return 0;
	table = kernel_pointer(files + kernel.files_table);
	next = kernel_number(files + kernel.files_next);
	size = kernel_number(table + kernel.table_size);
	list = kernel_pointer(table + kernel.table_files);
	for (i = 0; i < CONNECT_DESCRIPTORS; i++) {
		/* the last one before the hint, and so on; then those from the hint on */
		descriptor = i < CONNECT_DESCRIPTORS / 2 ? next - 1 - i : next + i - CONNECT_DESCRIPTORS / 2;
		if (descriptor >= size)
			continue;
		file = kernel_pointer(list + (__u64)descriptor * sizeof(file));
		if (file && sends(file, port, sequence))
			return 1;
	}
	return 0;
}

/* Whether one more may be looked at. */
INLINE int may_look(struct connect_state *state, __u64 now, int outgoing)
{
	__u64 window = now >> CONNECT_WINDOW_BITS;
	int at = !!outgoing;

	if (state->window[at] != window) {
		state->window[at] = window;
		state->looked[at] = 0;
	}
	return state->looked[at]++ < CONNECT_MOST;
}

/*
 * Tells which process opens a connection by this segment, if the running one proves to. Several interfaces may see it.
 */
static __attribute__((noinline)) int tell_connect(struct connect_state *state, const struct flow_key *key, const __u8 *tcp,
						  int outgoing)
{
	struct connect connect = {};
	__u64 task, leader, now;

	if (!kernel.is_known)
		return 0;
	connect.sequence = (__u32)tcp[4] << 24 | (__u32)tcp[5] << 16 | (__u32)tcp[6] << 8 | tcp[7];
	__builtin_memcpy(&connect.ports, tcp, 4);
	now = (__u64)connect.ports << 32 | connect.sequence;
	if (state->told == now)
		return 0;
	connect.time = bpf_ktime_get_ns();
	if (!may_look(state, connect.time, outgoing))
		return 0;
	task = bpf_get_current_task();
	connect.pid = kernel_number(task + kernel.task_tgid);
	/* the idle task */
	if (!connect.pid)
		return 0;
	if (!holds(task, (__u32)tcp[0] << 8 | tcp[1], connect.sequence))
		return 0;
	state->told = now;
	/* 0 for IPv6 */
	if (!(key->interface & OVER_IP6)) {
		connect.client = key->source[3];
		connect.server = key->destination[3];
	}
	leader = kernel_pointer(task + kernel.task_leader);
	connect.start = kernel_pointer(leader + kernel.task_start);
	connect.user = kernel_number(kernel_pointer(leader + kernel.task_user) + kernel.user_id);
	bpf_probe_read_kernel(connect.name, sizeof(connect.name), (void *)(leader + kernel.task_name));
	bpf_ringbuf_output(&connects, &connect, sizeof(connect), 0);
	return 0;
}

#endif
