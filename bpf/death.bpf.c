// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/*
 * What kills recorded processes: signals that are sent to them, with the sender, and those that end them with a core
 * dump, with the place in the code and the stack. Nothing here touches system calls: the programs run when a signal is
 * sent or delivered, and for any other process end after one look-up (docs/internals/deaths.md has the cost).
 *
 * The ring tier reads the kernel's structures by CO-RE, from raw tracepoints (Linux 5.8 with BTF; registers and stack:
 * 5.15). The perf tier has the plain tracepoints (4.7), which tell neither address nor registers.
 *
 * Someone who floods a process with signals costs the agent a bounded number of events: in each second the first of
 * each signal is told, and MOST in all; the rest is counted.
 */
#include "program.h"
#include "deaths.h"

#ifdef IOCREC_RING
#include <bpf/bpf_core_read.h>
#endif

/* Signals told to the agent in a second, except the first of each number. */
#define MOST 8
/* Faults with a handler told in a second: some programs live with them. */
#define MOST_FAULTS 2
#define SECOND 1000000000ull
/* After a deadly signal the other threads get theirs; they tell nothing new. */
#define DYING (10 * SECOND)

#define BIT(signal) (1ull << ((signal) - 1))
/*
 * Signals by which processes work: ALRM, CHLD, URG, VTALRM, PROF, WINCH, IO; and 32 and 33, by which the C library's
 * threads talk to each other.
 */
#define BUSINESS \
	(BIT(14) | BIT(17) | BIT(23) | BIT(26) | BIT(27) | BIT(28) | BIT(29) | BIT(32) | BIT(33))
/* Signals whose default is to dump core: QUIT, ILL, TRAP, ABRT, BUS, FPE, SEGV, XCPU, XFSZ, SYS */
#define CORE \
	(BIT(3) | BIT(4) | BIT(5) | BIT(6) | BIT(7) | BIT(8) | BIT(11) | BIT(24) | BIT(25) | BIT(31))
/* Those of them that the kernel sends to a thread for its own fault: ILL, TRAP, BUS, FPE, SEGV, SYS */
#define FAULTS (BIT(4) | BIT(5) | BIT(7) | BIT(8) | BIT(11) | BIT(31))

/* A thread that writes to whom nobody reads gets it from the kernel; every IOC does, with each client that goes. */
#define PIPE 13

#define SIGNALS 64
/* enum in include/trace/events/signal.h: the target got it, or got it without its siginfo */
#define RESULT_DELIVERED 0
#define RESULT_LOSE_INFO 4
/*
 * siginfo.h: with these codes a process sends a signal, and it is the one that runs. Above 0 the kernel does. Those of timers,
 * message queues and the like are below 0, too, but come while any process runs.
 */
#define SI_USER 0
#define SI_QUEUE (-1)
#define SI_TKILL (-6)

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 256); /* as `processes` in processes.h */
	__type(key, __u32);
	__type(value, struct mortal);
} mortals SEC(".maps");

#ifdef IOCREC_RING
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 16); /* 30 crashes, or 600 signals */
} deaths SEC(".maps");
#else
struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(__u32));
} deaths SEC(".maps");
#endif

/* Whether a signal concerns anybody at all. */
INLINE int matters(__u32 signal, __u64 set)
{
	return signal - 1 < SIGNALS && (set >> (signal - 1) & 1);
}

INLINE void new_second(struct mortal *mortal, __u64 now)
{
	if (now - mortal->window < SECOND)
		return;
	mortal->window = now;
	mortal->seen = 0;
	mortal->told = 0;
	mortal->faults = 0;
}

/* Whether a signal is told. */
INLINE int is_told(struct mortal *mortal, __u32 signal, __u64 now)
{
	__u64 bit = BIT(signal);

	new_second(mortal, now);
	if ((mortal->seen & bit) && mortal->told >= MOST) {
		mortal->left_out++;
		return 0;
	}
	mortal->seen |= bit;
	mortal->told++;
	return 1;
}

/* Whether a delivered signal is told. */
INLINE int is_deadly(struct mortal *mortal, int handled, __u64 now)
{
	if (handled) {
		new_second(mortal, now);
		return mortal->faults++ < MOST_FAULTS;
	}
	if (mortal->dead && now - mortal->dead < DYING)
		return 0;
	mortal->dead = now;
	return 1;
}

INLINE void sent(struct death *death, struct mortal *mortal, __u64 now, __u32 pid, __u32 signal, __s32 code)
{
	death->time = now;
	death->left_out = mortal->left_out;
	death->pid = pid;
	death->code = code;
	death->signal = signal;
	death->kind = DEATH_SENT;
	if (code == SI_USER || code == SI_QUEUE || code == SI_TKILL) {
		death->sender = bpf_get_current_pid_tgid() >> 32;
		death->uid = bpf_get_current_uid_gid();
		bpf_get_current_comm(death->comm, COMM_BYTES);
	}
}

INLINE void delivered(struct death *death, __u64 now, __u64 id, __u32 signal, __s32 code, int handled)
{
	death->time = now;
	death->pid = id >> 32;
	death->tid = id;
	death->code = code;
	death->signal = signal;
	death->kind = DEATH_DELIVERED;
	death->handled = handled;
	bpf_get_current_comm(death->comm, COMM_BYTES);
}

#ifdef IOCREC_RING

/* Members of the kernel's structures, wherever they are. */
struct task_struct {
	int tgid;
} __attribute__((preserve_access_index));

/* struct kernel_siginfo, 64 bits: the same on all machines of this tier */
struct signal_info {
	__s32 signo, error, code, unused;
	__u64 address;
};

/* include/linux/signal_types.h: two values that are no pointers */
#define SEND_SIG_NOINFO 0
#define SEND_SIG_PRIV 1
#define SI_KERNEL 0x80
/* codes of SIGTRAP and SIGILL and the like have an address, too; none of a process's own signals has */
#define SIG_IGN 1

struct crash {
	struct death death;
	__u8 stack[STACK_BYTES];
};

/* Pieces in which the stack is read, since a read that fails at its end gives nothing. */
#define PIECE 256
#define PAGE 4096
/* Pages above the stack pointer in which the stack may begin, if it has overflowed. */
#define PAGES 5

INLINE void clear(struct death *death)
{
	__builtin_memset(death, 0, sizeof(*death));
}

SEC("raw_tp/signal_generate") int generated(struct bpf_raw_tracepoint_args *args)
{
	__u32 signal = args->args[0], result = args->args[4], pid = 0;
	struct task_struct *task = (void *)args->args[2];
	__u64 info = args->args[1], now;
	struct mortal *mortal;
	struct death *death;
	__s32 code = SI_USER;

	if (!matters(signal, ~BUSINESS) || (result != RESULT_DELIVERED && result != RESULT_LOSE_INFO))
		return 0;
	bpf_core_read(&pid, sizeof(pid), &task->tgid);
	if (signal == PIPE && pid == bpf_get_current_pid_tgid() >> 32)
		return 0;
	mortal = bpf_map_lookup_elem(&mortals, &pid);
	if (!mortal)
		return 0;
	if (info == SEND_SIG_PRIV)
		code = SI_KERNEL;
	else if (info != SEND_SIG_NOINFO)
		bpf_probe_read_kernel(&code, sizeof(code), (void *)(info + __builtin_offsetof(struct signal_info, code)));
	/* told when it is delivered */
	if (code > SI_USER && matters(signal, FAULTS))
		return 0;
	now = bpf_ktime_get_ns();
	if (!is_told(mortal, signal, now))
		return 0;
	death = bpf_ringbuf_reserve(&deaths, sizeof(*death), 0);
	if (!death) {
		mortal->left_out++;
		return 0;
	}
	clear(death);
	sent(death, mortal, now, pid, signal, code);
	bpf_ringbuf_submit(death, 0);
	return 0;
}

/* Registers and stack of the current thread, as it was in user space. */
INLINE void look_around(struct crash *crash)
{
	struct pt_regs regs = {};
	__u64 sp, at, word;
	int piece;

	crash->death.from = 0;
	crash->death.bytes = 0;
	if (!bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_task_pt_regs))
		return;
	if (bpf_probe_read_kernel(&regs, sizeof(regs), (void *)bpf_task_pt_regs((void *)bpf_get_current_task_btf())))
		return;
	crash->death.ip = INSTRUCTION_POINTER(&regs);
	sp = STACK_POINTER(&regs);
	crash->death.sp = sp;
	at = sp;
#pragma unroll
	for (int page = 0; page < PAGES; page++) {
		if (!bpf_probe_read_user(&word, sizeof(word), (void *)at))
			break;
		at = (at | (PAGE - 1)) + 1;
	}
	crash->death.from = at;
#pragma unroll
	for (piece = 0; piece < STACK_BYTES; piece += PIECE) {
		if (bpf_probe_read_user(crash->stack + piece, PIECE, (void *)(at + piece)))
			break;
		crash->death.bytes = piece + PIECE;
	}
}

SEC("raw_tp/signal_deliver") int delivers(struct bpf_raw_tracepoint_args *args)
{
	__u64 info = args->args[1], id, now, handler = 0;
	__u32 signal = args->args[0], pid;
	struct signal_info known = {};
	struct mortal *mortal;
	struct crash *crash;

	if (!matters(signal, CORE))
		return 0;
	id = bpf_get_current_pid_tgid();
	pid = id >> 32;
	mortal = bpf_map_lookup_elem(&mortals, &pid);
	if (!mortal)
		return 0;
	/* the first member of struct k_sigaction */
	bpf_probe_read_kernel(&handler, sizeof(handler), (void *)args->args[2]);
	if (info == SEND_SIG_PRIV)
		known.code = SI_KERNEL;
	else if (info != SEND_SIG_NOINFO)
		bpf_probe_read_kernel(&known, sizeof(known), (void *)info);
	if (handler == SIG_IGN || (handler && !(known.code > SI_USER && matters(signal, FAULTS))))
		return 0;
	now = bpf_ktime_get_ns();
	if (!is_deadly(mortal, handler != 0, now))
		return 0;
	crash = bpf_ringbuf_reserve(&deaths, sizeof(*crash), 0);
	if (!crash)
		return 0;
	clear(&crash->death);
	delivered(&crash->death, now, id, signal, known.code, handler != 0);
	/* a fault in the kernel's own words (SI_KERNEL: an address that no page could have) has none */
	if (known.code > SI_USER && known.code < SI_KERNEL && matters(signal, FAULTS)) {
		crash->death.address = known.address;
		crash->death.addressed = 1;
	}
	look_around(crash);
	bpf_ringbuf_submit(crash, 0);
	return 0;
}

/* Its argument is the thread's number, from Linux 6.8 on the thread. */
SEC("raw_tp/mark_victim") int marks_victim(struct bpf_raw_tracepoint_args *args)
{
	__u64 victim = args->args[0];
	struct mortal *mortal;
	struct death *death;
	__u32 pid = victim;

	if (victim >> 32)
		bpf_core_read(&pid, sizeof(pid), &((struct task_struct *)victim)->tgid);
	mortal = bpf_map_lookup_elem(&mortals, &pid);
	if (!mortal)
		return 0;
	death = bpf_ringbuf_reserve(&deaths, sizeof(*death), 0);
	if (!death)
		return 0;
	clear(death);
	death->time = bpf_ktime_get_ns();
	death->pid = pid;
	death->kind = DEATH_OOM;
	bpf_ringbuf_submit(death, 0);
	return 0;
}

#else

/* The fields of the tracepoints, the same since they exist: events/signal/signal_generate/format */
struct generated {
	__u64 common;
	__s32 sig, error, code;
	__u8 comm[COMM_BYTES];
	__u32 pid, group, result;
};

struct delivered {
	__u64 common;
	__s32 sig, error, code;
	__pointer handler;
	__pointer flags;
};

struct victim {
	__u64 common;
	__u32 pid;
};

#define SEND(context, death) bpf_perf_event_output(context, &deaths, BPF_F_CURRENT_CPU, &death, sizeof(death))

/* The target is a process by its first thread, or the current thread. */
SEC("tp/signal/signal_generate") int generated(struct generated *given)
{
	__u32 signal = given->sig, result = given->result, pid = given->pid;
	__s32 code = given->code;
	struct death death = {};
	struct mortal *mortal;
	__u64 id, now;

	if (!matters(signal, ~BUSINESS) || (result != RESULT_DELIVERED && result != RESULT_LOSE_INFO))
		return 0;
	if (code > SI_USER && matters(signal, FAULTS))
		return 0;
	id = bpf_get_current_pid_tgid();
	if (pid == (__u32)id)
		pid = id >> 32;
	if (signal == PIPE && pid == id >> 32)
		return 0;
	mortal = bpf_map_lookup_elem(&mortals, &pid);
	if (!mortal)
		return 0;
	COMPARED(mortal);
	now = bpf_ktime_get_ns();
	if (!is_told(mortal, signal, now))
		return 0;
	sent(&death, mortal, now, pid, signal, code);
	SEND(given, death);
	return 0;
}

SEC("tp/signal/signal_deliver") int delivers(struct delivered *given)
{
	__u64 id = bpf_get_current_pid_tgid(), now;
	__u32 signal = given->sig, pid = id >> 32;
	__u64 handler = given->handler;
	__s32 code = given->code;
	struct death death = {};
	struct mortal *mortal;

	if (!matters(signal, CORE))
		return 0;
	if (handler && !(code > SI_USER && matters(signal, FAULTS)))
		return 0;
	mortal = bpf_map_lookup_elem(&mortals, &pid);
	if (!mortal)
		return 0;
	COMPARED(mortal);
	now = bpf_ktime_get_ns();
	if (!is_deadly(mortal, handler != 0, now))
		return 0;
	delivered(&death, now, id, signal, code, handler != 0);
	SEND(given, death);
	return 0;
}

SEC("tp/oom/mark_victim") int marks_victim(struct victim *given)
{
	struct death death = {};
	struct mortal *mortal;
	__u32 pid = given->pid;

	mortal = bpf_map_lookup_elem(&mortals, &pid);
	if (!mortal)
		return 0;
	death.time = bpf_ktime_get_ns();
	death.pid = pid;
	death.kind = DEATH_OOM;
	SEND(given, death);
	return 0;
}

#endif

char LICENSE[] SEC("license") = "Dual BSD/GPL";
