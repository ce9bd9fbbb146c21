/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * Data from the programs of bpf/death.bpf.c to the agent and back: the contract, whose other side is
 * src/deaths/contract.rs. No padding, and all members aligned, as in hits.h.
 */
#ifndef IOCREC_DEATHS_H
#define IOCREC_DEATHS_H

enum death_kind {
	DEATH_SENT = 1,      /* a signal was sent to a recorded process */
	DEATH_DELIVERED = 2, /* one that ends it with a core dump, or its own fault, was delivered */
	DEATH_OOM = 3,       /* the kernel has chosen it to get memory back */
};

/*
 * Stack in an event. It holds the frames from a device support's function up to dbProcess and its caller; a crash is
 * then at most 4 KiB of log.
 */
#define STACK_BYTES 2048
#define COMM_BYTES 16

struct death {
	__u64 time;     /* CLOCK_MONOTONIC, ns */
	__u64 address;  /* delivered: si_addr, if read */
	__u64 ip;       /* delivered: of the thread, or where the agent finds it (`is_key`); 0: not known */
	__u64 sp;
	__u64 from;     /* delivered: address of the first byte of the stack that was read */
	__u64 left_out; /* sent: signals to it that were not told so far */
	__u32 pid;      /* the recorded process */
	__u32 tid;      /* delivered: its thread */
	__u32 sender;   /* sent: process that sent it; 0: the kernel */
	__u32 uid;      /* sent: its real user */
	__u32 code;     /* si_code */
	__u32 bytes;    /* delivered: of the stack that follows the event */
	__u16 signal;
	__u8 kind;
	__u8 handled;   /* delivered: a handler got it */
	__u8 addressed; /* `address` was read */
	__u8 is_key;    /* `ip` is a key of map `places`, whose value it is */
	__u8 unused[2];
	__u8 comm[COMM_BYTES]; /* sent: of the sender, delivered: of the thread */
};

/* Given by the agent for each recorded process (map `mortals`, key: pid), all zeroes; the rest is the programs'. */
struct mortal {
	__u64 window;   /* start of the second in which events are counted */
	__u64 seen;     /* signals told in it: bit number - 1 */
	__u64 left_out; /* signals not told so far */
	__u64 dead;     /* when a deadly one was delivered */
	__u64 ended;    /* when the last of its threads so far ended */
	__u32 told;     /* signals told in the second */
	__u32 faults;   /* faults told in it that a handler got */
};

_Static_assert(sizeof(struct death) == 96, "death");
_Static_assert(sizeof(struct mortal) == 48, "mortal");

#ifdef IOCREC_CONTRACT
struct death_contract {
	struct death death;
	struct mortal mortal;
	enum death_kind death_kind;
} *death_contract SEC(".contract");
#endif

#endif
