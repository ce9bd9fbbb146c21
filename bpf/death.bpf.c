// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/*
 * What kills recorded processes: signals that are sent to them, with the sender, and those that end them with a core
 * dump, with the place in the code and the stack; and when they end. Nothing here touches system calls: the programs run
 * when a signal is sent or delivered or a thread ends, and for any other process end after one look-up
 * (docs/internals/deaths.md has the cost).
 *
 * The ring tier reads the kernel's structures by CO-RE, from raw tracepoints (Linux 5.8 with BTF), and a thread's registers
 * and stack. The perf tier has the plain tracepoints (4.7), and for a crash's address a raw one (4.17); the kernel walks
 * the thread's stack for it, of which only the first place is certain: where it stood.
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

/*
 * Where threads stood. The kernel chooses a key by the place; where another place has it the new one is not known. The
 * agent removes what it has read.
 */
struct {
	__uint(type, BPF_MAP_TYPE_STACK_TRACE);
	__uint(max_entries, 64);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(__u64)); /* the first place */
} places SEC(".maps");
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

/* struct kernel_siginfo, siginfo before 4.20: the address is as wide as a pointer of the kernel */
struct signal_info {
	__s32 signo, error, code;
	__pointer address;
};

/* include/linux/signal_types.h: two values that are no pointers */
#define SEND_SIG_NOINFO 0
#define SEND_SIG_PRIV 1
#define SI_KERNEL 0x80
#define SIG_IGN 1

INLINE void note_address(struct death *death, struct signal_info *info, __u32 signal)
{
	/* a fault in the kernel's own words (SI_KERNEL: an address that no page could have) has none */
	if (info->code > SI_USER && info->code < SI_KERNEL && matters(signal, FAULTS)) {
		death->address = info->address;
		death->addressed = 1;
	}
}

#ifdef IOCREC_RING

/* Members of the kernel's structures, wherever they are. */
struct task_struct {
	int tgid;
	void *stack;
} __attribute__((preserve_access_index));

/* The kernel's, which is longer than ours on arm64. */
struct pt_regs___kernel {
} __attribute__((preserve_access_index));

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

/* Sizes of a kernel stack: 16 KiB, twice as much with KASAN, four times with pages of 64 KiB. */
#define KERNEL_STACK 16384
#define SIZES 3

/*
 * The registers with which the current thread entered the kernel: at the top of its kernel stack. Before 5.15 no helper
 * tells where that is. Those are right that have the instruction at which the kernel says that the thread stood.
 */
INLINE int registers(struct pt_regs *regs, __u64 ip)
{
	struct task_struct *task;
	__pointer stack = 0;

	if (bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_task_pt_regs)) {
		task = (void *)bpf_get_current_task_btf();
		return !bpf_probe_read_kernel(regs, sizeof(*regs), (void *)bpf_task_pt_regs((void *)task));
	}
	task = (void *)bpf_get_current_task();
	if (!ip || bpf_core_read(&stack, sizeof(stack), &task->stack))
		return 0;
#pragma unroll
	for (int doubled = 0; doubled < SIZES; doubled++) {
		__u64 at = (__u64)stack + (KERNEL_STACK << doubled) - bpf_core_type_size(struct pt_regs___kernel);

		if (!bpf_probe_read_kernel(regs, sizeof(*regs), (void *)at) && INSTRUCTION_POINTER(regs) == ip)
			return 1;
	}
	return 0;
}

/* Registers and stack of the current thread, as it was in user space. */
INLINE void look_around(struct bpf_raw_tracepoint_args *args, struct crash *crash)
{
	struct pt_regs regs = {};
	__u64 sp, at, word, ip = 0;
	int piece;

	crash->death.from = 0;
	crash->death.bytes = 0;
	if (bpf_get_stack(args, &ip, sizeof(ip), BPF_F_USER_STACK) < 0)
		ip = 0;
	crash->death.ip = ip;
	if (!registers(&regs, ip))
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
	__u64 info = args->args[1], id, now;
	__u32 signal = args->args[0], pid;
	struct signal_info known = {};
	__pointer handler = 0;
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
	note_address(&crash->death, &known, signal);
	look_around(args, crash);
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

/* The last thread that ends is the end of its process. */
SEC("raw_tp/sched_process_exit") int ends(struct bpf_raw_tracepoint_args *args)
{
	__u32 pid = bpf_get_current_pid_tgid() >> 32;
	struct mortal *mortal = bpf_map_lookup_elem(&mortals, &pid);

	if (mortal)
		mortal->ended = bpf_ktime_get_ns();
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

/* Tells of a signal that was delivered, to whoever is recorded. */
INLINE void deliver(void *context, struct signal_info *info, __u32 signal, __u64 handler)
{
	__u64 id = bpf_get_current_pid_tgid(), now;
	struct death death = {};
	struct mortal *mortal;
	__u32 pid = id >> 32;
	int place;

	if (handler == SIG_IGN || (handler && !(info->code > SI_USER && matters(signal, FAULTS))))
		return;
	mortal = bpf_map_lookup_elem(&mortals, &pid);
	if (!mortal)
		return;
	COMPARED(mortal);
	now = bpf_ktime_get_ns();
	if (!is_deadly(mortal, handler != 0, now))
		return;
	delivered(&death, now, id, signal, info->code, handler != 0);
	note_address(&death, info, signal);
	place = bpf_get_stackid(context, &places, BPF_F_USER_STACK);
	if (place >= 0) {
		death.ip = place;
		death.is_key = 1;
	}
	SEND(context, death);
}

/* The agent loads one of these two: from 4.17 on the first, whose pointers lead to the address. */
SEC("raw_tp/signal_deliver") int delivers_raw(struct bpf_raw_tracepoint_args *args)
{
	__u64 from = args->args[1];
	__u32 signal = args->args[0];
	struct signal_info info = {};
	__pointer handler = 0;

	if (!matters(signal, CORE))
		return 0;
	/* the first member of struct k_sigaction */
	bpf_probe_read_kernel(&handler, sizeof(handler), (void *)args->args[2]);
	if (from == SEND_SIG_PRIV)
		info.code = SI_KERNEL;
	else if (from != SEND_SIG_NOINFO)
		bpf_probe_read_kernel(&info, sizeof(info), (void *)from);
	deliver(args, &info, signal, handler);
	return 0;
}

SEC("tp/signal/signal_deliver") int delivers(struct delivered *given)
{
	struct signal_info info = {.code = given->code};
	__u32 signal = given->sig;

	if (matters(signal, CORE))
		deliver(given, &info, signal, given->handler);
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

/* The last thread that ends is the end of its process. */
SEC("tp/sched/sched_process_exit") int ends(void *given)
{
	__u32 pid = bpf_get_current_pid_tgid() >> 32;
	struct mortal *mortal = bpf_map_lookup_elem(&mortals, &pid);

	if (!mortal)
		return 0;
	COMPARED(mortal);
	mortal->ended = bpf_ktime_get_ns();
	return 0;
}

#endif

char LICENSE[] SEC("license") = "Dual BSD/GPL";
