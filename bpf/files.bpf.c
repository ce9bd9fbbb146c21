// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/*
 * What recorded processes do with files, sockets and devices: for each open of a file, counters of calls, bytes, errors
 * and times, and what Darshan counts of its POSIX module. Loaded only if the user asks for it, since a program at the
 * entry and exit of system calls costs every process of the machine some time at each (docs/benchmarks.md).
 *
 * Nothing is sent: the agent reads the map `files` once a second. A number in the map `table` says what a system call
 * does, so that the same programs serve all machines and both widths of processes.
 *
 * A path is read when its call returns: the kernel has just read it, too, so it is in memory.
 */
#include "program.h"
#include "files.h"

/* include/uapi/asm-generic: the same on all machines of this tier */
#define O_APPEND 02000
#define CREATES 01101 /* O_CREAT | O_WRONLY | O_TRUNC */
#define F_DUPFD 0
#define F_DUPFD_CLOEXEC 1030
#define CLOSE_RANGE_CLOEXEC 4
#define EBADF 9
#define EINPROGRESS 115
#define NOWHERE ((__u32)-1)

/* Counters of a kind: log/src/event/files.rs */
#define CALLS 0
#define ERRORS 1
#define BYTES 2
#define TIME 3
#define BEGUN 4
#define HISTOGRAM 5
#define BUCKETS 24
#define LONGEST 29
#define FIRST 30
#define LAST 31
/* Counters of a file */
#define SIZES 160
#define BINS 10
#define CONSECUTIVE 180
#define SEQUENTIAL 182
#define SWITCHES 184
#define MEMORY_NOT_ALIGNED 185
#define FILE_NOT_ALIGNED 186
#define OPENS 187
#define DUPLICATES 188
#define SEEKS 189
#define STATS 190
#define FSYNCS 191
#define FDATASYNCS 192
#define RENAMED_FROM 193
#define RENAMED_TO 194
#define ACCESSES 195
#define SLOTS 8
#define STRIDES 204
#define TIMEOUTS 213
#define VECTORS 214
#define LEFT_OUT 215
#define HIGHEST 218
#define LONGEST_BYTES 220
#define OPEN_END 222
#define CLOSE_START 223
#define CLOSE_END 224
#define ERROR 225
#define ACCESS_SIZES 226
#define STRIDE_SIZES 234

/* Darshan's defaults: bytes to which memory and offsets are expected to be aligned */
#define MEMORY_ALIGNMENT 8
#define FILE_ALIGNMENT 4096
/* Descriptors of one poll that are looked at. */
#define POLLED 8

#define KIND(op) ((op) & 7)
#define ACTION(op) ((op) >> 3 & 31)
#define PATH(op) ((op) >> 8 & 3)
#define SECOND_PATH(op) ((op) >> 10 & 3)
#define IS_VECTOR(op) ((op) >> 12 & 1)

#define ADD(word, amount) __sync_fetch_and_add(&(word), amount)

struct call {
	__u64 time;
	__u64 id;
	__u64 arguments[4];
	__u32 op;
	__u32 fd;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 512); /* no call that matters has a higher number */
	__uint(key_size, 4);
	__uint(value_size, 4); /* of a call of 32 bits in the upper half */
} table SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 256); /* as `processes` in processes.h */
	__uint(key_size, 4);
	__uint(value_size, sizeof(struct traced));
} traced SEC(".maps");

/* Those that have ended within a call give their places to others. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096); /* threads within a call */
	__uint(key_size, 8);
	__uint(value_size, sizeof(struct call));
} calls SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__uint(key_size, 8);
	__uint(value_size, sizeof(struct descriptor));
} descriptors SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 2048); /* 5 MB; what is closed stays for up to a second */
	__uint(key_size, 8);
	__uint(value_size, sizeof(struct file));
} files SEC(".maps");

/* What `files` is filled with: too large for the stack. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(key_size, 4);
	__uint(value_size, sizeof(struct file));
} blank SEC(".maps");

INLINE __u64 key_of(__u32 pid, __u32 fd)
{
	return (__u64)pid << 32 | fd;
}

INLINE struct file *others(__u32 pid)
{
	__u64 id = pid;

	return bpf_map_lookup_elem(&files, &id);
}

/* A new file; if there is no room, all others. */
static __attribute__((noinline)) struct file *make(__u64 id, __u32 pid, __u32 how, __u32 fd)
{
	__u32 zero = 0;
	struct file *from = bpf_map_lookup_elem(&blank, &zero), *file = 0;

	if (from && !bpf_map_update_elem(&files, &id, from, BPF_NOEXIST))
		file = bpf_map_lookup_elem(&files, &id);
	if (file) {
		file->id = id;
		file->how = how;
		file->fd = fd;
		file->unplaced = how != FILE_OPENED;
		file->pid = pid;
		return file;
	}
	file = others(pid);
	if (file)
		ADD(file->words[LEFT_OUT], 1);
	return file;
}

/* A descriptor of a file is no more. */
static __attribute__((noinline)) void release(__u64 id, __u64 now)
{
	struct file *file = bpf_map_lookup_elem(&files, &id);

	if (!file || file->how == FILE_OTHERS)
		return;
	ADD(file->refs, -1);
	if (!file->refs)
		file->closed = now;
}

/* Gives a file a descriptor; false if there is no room. */
static __attribute__((noinline)) int bind(struct traced *process, struct file *file, __u32 pid, __u32 fd, __u64 now)
{
	struct descriptor descriptor = { .id = file->id, .ranges = process->ranges }, *before;
	__u64 key = key_of(pid, fd);

	before = bpf_map_lookup_elem(&descriptors, &key);
	if (before && before->id == file->id)
		return 1;
	/* it was closed unseen, or by dup2 */
	if (before)
		release(before->id, now);
	ADD(file->refs, 1);
	if (!bpf_map_update_elem(&descriptors, &key, &descriptor, BPF_ANY))
		return 1;
	ADD(file->refs, -1);
	return 0;
}

/* A new file behind a descriptor; if there is no room, all others. */
static __attribute__((noinline)) struct file *made(struct traced *process, __u64 id, __u32 how, __u32 fd, __u64 now)
{
	__u32 pid = bpf_get_current_pid_tgid() >> 32;
	struct file *file = make(id, pid, how, fd);

	if (!file || bind(process, file, pid, fd, now))
		return file;
	if (file->how != FILE_OTHERS)
		bpf_map_delete_elem(&files, &id);
	return others(pid);
}

/* The file behind a descriptor; 0 if unknown. */
INLINE __u64 find(struct traced *process, __u32 pid, __u32 fd)
{
	__u64 key = key_of(pid, fd);
	struct descriptor *found = bpf_map_lookup_elem(&descriptors, &key);

	if (!found || (found->ranges != process->ranges && fd >= process->first && fd <= process->last))
		return 0;
	return found->id;
}

/* Counts a value among those that were seen first, or the others. */
INLINE void count(__u64 *counts, __u64 *values, __u64 value)
{
	if (!value)
		return;
	for (int i = 0; i < SLOTS; i++) {
		if (values[i] == value || !counts[i]) {
			values[i] = value;
			ADD(counts[i], 1);
			return;
		}
	}
	ADD(counts[SLOTS], 1);
}

INLINE __u32 bucket(__u64 time)
{
	__u32 place = 0;

	/* the first: below 1024 ns */
	time >>= 10;
	for (int i = 0; i < BUCKETS - 1 && time; i++) {
		time >>= 1;
		place++;
	}
	return place;
}

static __attribute__((noinline)) void counted(struct file *file, __u32 kind, __s64 result, __u64 begin, __u64 end)
{
	__u64 time = end - begin, *words;
	__u32 place;

	if (kind > CALL_META)
		return;
	words = file->words + kind * KIND_WORDS;
	ADD(words[CALLS], 1);
	if (result < 0) {
		ADD(words[ERRORS], 1);
		file->words[ERROR] = -result;
	}
	ADD(words[TIME], time);
	place = bucket(time);
	if (place < BUCKETS)
		ADD(words[HISTOGRAM + place], 1);
	if (time > words[LONGEST]) {
		words[LONGEST] = time;
		if (kind <= CALL_WRITE)
			file->words[LONGEST_BYTES + kind] = result < 0 ? 0 : result;
	}
	if (!words[FIRST])
		words[FIRST] = begin;
	words[LAST] = end;
}

/* What Darshan counts of a read or write that succeeded (darshan-posix.c, POSIX_RECORD_READ, POSIX_RECORD_WRITE). */
static __attribute__((noinline)) void moved(struct file *file, struct call *call, __u64 bytes)
{
	__u32 kind = KIND(call->op), action = ACTION(call->op), bin = 0;
	__u64 offset, last, *words = file->words;

	if (kind > CALL_WRITE)
		return;
	ADD(words[kind * KIND_WORDS + BYTES], bytes);
	if (action == DOES_SEND)
		return;
	/* 100, 1 Ki, 10 Ki, 100 Ki, 1 Mi, 4 Mi, 10 Mi, 100 Mi, 1 Gi */
	bin = (bytes > 100) + (bytes > 1024) + (bytes > 10240) + (bytes > 102400) + (bytes > 1048576) +
	      (bytes > 4194304) + (bytes > 10485760) + (bytes > 104857600) + (bytes > 1073741824);
	ADD(words[SIZES + kind * BINS + bin], 1);
	count(words + ACCESSES, words + ACCESS_SIZES, bytes);
	if (IS_VECTOR(call->op))
		ADD(words[VECTORS], 1);
	else if (call->arguments[1] % MEMORY_ALIGNMENT)
		ADD(words[MEMORY_NOT_ALIGNED], 1);
	if (file->before && file->before != kind + 1)
		ADD(words[SWITCHES], 1);
	file->before = kind + 1;
	if (action == DOES_SOMEWHERE || (kind == CALL_WRITE && (file->flags & O_APPEND)))
		file->unplaced = 1;
	if (file->unplaced)
		return;
	/* preadv2 may ask for the offset of the descriptor */
	offset = action == DOES_AT && ~call->arguments[3] ? call->arguments[3] : file->offset;
	last = file->last[kind];
	if (offset > last) {
		ADD(words[SEQUENTIAL + kind], 1);
		if (offset == last + 1)
			ADD(words[CONSECUTIVE + kind], 1);
		count(words + STRIDES, words + STRIDE_SIZES, offset - last - 1);
	}
	if (offset % FILE_ALIGNMENT)
		ADD(words[FILE_NOT_ALIGNED], 1);
	file->offset = offset + bytes;
	last = offset + bytes - 1;
	file->last[kind] = last;
	if ((__s64)last > (__s64)words[HIGHEST + kind])
		words[HIGHEST + kind] = last;
}

static __attribute__((noinline)) void name(struct file *file, __u64 path)
{
	long bytes = bpf_probe_read_user_str(file->path, PATH_BYTES, (void *)path);
	__u8 end = 0;

	file->path_bytes = bytes > 0 ? bytes - 1 : 0;
	if (bytes == PATH_BYTES && !bpf_probe_read_user(&end, 1, (void *)(path + PATH_BYTES - 1)) && end)
		file->cut = 1;
}

/* The address of a peer; `bytes` is that of the caller's struct. */
INLINE void peer(struct file *file, __u64 address, __u64 bytes)
{
	/* struct sockaddr_un is the largest */
	bytes = bytes < 110 ? bytes : 110;
	if (address && file->how != FILE_OTHERS && !bpf_probe_read_user(file->path, bytes, (void *)address))
		file->path_bytes = bytes;
}

INLINE int has_no_descriptor(__u32 action)
{
	return (action >= DOES_STAT_PATH && action <= DOES_CREATE) || action == DOES_RENAME || action == DOES_SOCKET ||
	       action == DOES_CLOSE_RANGE;
}

SEC("raw_tp/sys_enter") int enters(struct bpf_raw_tracepoint_args *args)
{
	__u32 number = args->args[1], pid, fd, action, *entry = bpf_map_lookup_elem(&table, &number);
	__u64 self, key;
	struct traced *process;
	struct pt_regs regs;
	struct call call = {};
	struct file *file;
	__u8 byte = 1;

	if (!entry || !*entry)
		return 0;
	self = bpf_get_current_pid_tgid();
	pid = self >> 32;
	process = bpf_map_lookup_elem(&traced, &pid);
	if (!process)
		return 0;
	call.op = process->compat ? *entry >> 16 : *entry & 0xffff;
	if (!call.op || bpf_probe_read_kernel(&regs, sizeof(regs), (void *)args->args[0]))
		return 0;
#if defined(__TARGET_ARCH_x86)
	if (process->compat) {
		call.arguments[0] = regs.bx, call.arguments[1] = regs.cx;
		call.arguments[2] = regs.dx, call.arguments[3] = regs.si;
	} else {
		call.arguments[0] = regs.di, call.arguments[1] = regs.si;
		call.arguments[2] = regs.dx, call.arguments[3] = regs.r10;
	}
#elif defined(__TARGET_ARCH_arm64)
	call.arguments[0] = regs.regs[0], call.arguments[1] = regs.regs[1];
	call.arguments[2] = regs.regs[2], call.arguments[3] = regs.regs[3];
#elif defined(__TARGET_ARCH_riscv)
	call.arguments[0] = regs.a0, call.arguments[1] = regs.a1;
	call.arguments[2] = regs.a2, call.arguments[3] = regs.a3;
#endif
	action = ACTION(call.op);
	fd = call.arguments[0];
	if (action == DOES_FCNTL && call.arguments[1] != F_DUPFD && call.arguments[1] != F_DUPFD_CLOEXEC)
		return 0;
	if (action == DOES_CLOSE_RANGE) {
		if (call.arguments[2] & CLOSE_RANGE_CLOEXEC)
			return 0;
		if (!process->ranges || fd < process->first)
			process->first = fd;
		if (call.arguments[1] > process->last)
			process->last = call.arguments[1];
		ADD(process->ranges, 1);
		return 0;
	}
	if (action == DOES_STAT_AT) {
		bpf_probe_read_user(&byte, 1, (void *)call.arguments[1]);
		action = byte ? DOES_STAT_PATH : DOES_STAT;
		call.op = CALL_META | action << 3 | 1 << 8;
	}
	if (action == DOES_POLL) {
		fd = NOWHERE;
		if (call.arguments[1] == 1)
			bpf_probe_read_user(&fd, sizeof(fd), (void *)call.arguments[0]);
	} else if (has_no_descriptor(action)) {
		fd = NOWHERE;
	}
	call.fd = fd;
	if (fd != NOWHERE)
		call.id = find(process, pid, fd);
	file = call.id ? bpf_map_lookup_elem(&files, &call.id) : 0;
	if (file && KIND(call.op) <= CALL_META)
		ADD(file->words[KIND(call.op) * KIND_WORDS + BEGUN], 1);
	/* from here on another thread may get the number again */
	if (action == DOES_CLOSE && file) {
		key = key_of(pid, fd);
		bpf_map_delete_elem(&descriptors, &key);
	}
	call.time = bpf_ktime_get_ns();
	if (bpf_map_update_elem(&calls, &self, &call, BPF_ANY))
		ADD(process->lost, 1);
	return 0;
}

/* A call that names a file instead of a descriptor. Returns the file for which it counts. */
INLINE struct file *by_path(struct traced *process, struct call *call, __u32 pid, __s64 result, __u64 now)
{
	__u32 action = ACTION(call->op), path = PATH(call->op);
	struct file *file, *second;

	if (action == DOES_STAT_PATH || action == DOES_RENAME) {
		if (result < 0 && action == DOES_STAT_PATH)
			return 0;
		file = make(call->time, pid, result < 0 ? FILE_FAILED : FILE_NAMED, NOWHERE);
		if (!file)
			return 0;
		if (action == DOES_STAT_PATH) {
			ADD(file->words[STATS], 1);
		} else {
			second = make(call->time + 1, pid, file->how, NOWHERE);
			if (second && second->how != FILE_OTHERS) {
				name(second, call->arguments[SECOND_PATH(call->op)]);
				second->closed = now;
			}
			if (result >= 0) {
				ADD(file->words[RENAMED_FROM], 1);
				if (second)
					ADD(second->words[RENAMED_TO], 1);
			}
		}
		if (file->how != FILE_OTHERS)
			file->closed = now;
	} else {
		if (result < 0)
			file = make(call->time, pid, FILE_FAILED, NOWHERE);
		else
			file = made(process, call->time, FILE_OPENED, result, now);
		if (!file)
			return 0;
		if (result >= 0)
			ADD(file->words[OPENS], 1);
		if (file->how == FILE_OTHERS)
			return file;
		if (action == DOES_OPEN) {
			file->flags = call->arguments[(path + 1) & 3];
			file->mode = call->arguments[(path + 2) & 3];
		} else if (action == DOES_CREATE) {
			file->flags = CREATES;
			file->mode = call->arguments[1];
		} else {
			__u64 how[2] = {};

			bpf_probe_read_user(how, sizeof(how), (void *)call->arguments[2]);
			file->flags = how[0];
			file->mode = how[1];
		}
		file->words[OPEN_END] = now;
		if (result < 0)
			file->closed = now;
	}
	if (file->how != FILE_OTHERS)
		name(file, call->arguments[path]);
	return file;
}

/* A poll of several descriptors: what it waited for counts for those that were ready. */
INLINE void polled(struct traced *process, struct call *call, __u32 pid, __u64 now)
{
	struct { __u32 fd; __u16 events, returned; } one;
	struct file *file;
	__u64 id;

	for (__u32 i = 0; i < POLLED; i++) {
		if (i >= call->arguments[1] ||
		    bpf_probe_read_user(&one, sizeof(one), (void *)(call->arguments[0] + i * sizeof(one))))
			return;
		if (!one.returned || (__s32)one.fd < 0)
			continue;
		id = find(process, pid, one.fd);
		file = id ? bpf_map_lookup_elem(&files, &id) : made(process, call->time + 2 + i, FILE_FOUND, one.fd, now);
		if (!file)
			continue;
		ADD(file->words[CALL_WAIT * KIND_WORDS + BEGUN], 1);
		counted(file, CALL_WAIT, 0, call->time, now);
	}
}

INLINE void ended(struct traced *process, struct call *call, __u32 pid, __s64 result, __u64 now)
{
	__u32 action = ACTION(call->op), kind = KIND(call->op);
	struct file *file = 0, *made_file;
	__u64 id;

	if (call->fd != NOWHERE) {
		id = call->id;
		if (!id)
			id = find(process, pid, call->fd);
		file = id ? bpf_map_lookup_elem(&files, &id) : 0;
		/* while it waited, its descriptor was closed, and perhaps opened as another */
		if ((id && !file) || (file && !call->id && file->how != FILE_FOUND))
			return;
		if (!file && action != DOES_CLOSE && result != -EBADF && (__s32)call->fd >= 0) {
			file = made(process, call->time, FILE_FOUND, call->fd, now);
		}
		if (file && !call->id && kind <= CALL_META)
			ADD(file->words[kind * KIND_WORDS + BEGUN], 1);
	} else if (action == DOES_POLL) {
		if (result > 0)
			polled(process, call, pid, now);
		return;
	} else if (action == DOES_SOCKET) {
		file = result < 0 ? 0 : made(process, call->time, FILE_SOCKET, result, now);
		if (file && file->how != FILE_OTHERS) {
			file->flags = call->arguments[0];
			file->mode = call->arguments[1];
		}
		return;
	} else {
		file = by_path(process, call, pid, result, now);
		if (file && kind <= CALL_META)
			ADD(file->words[kind * KIND_WORDS + BEGUN], 1);
	}
	if (!file)
		return;
	counted(file, kind, result, call->time, now);
	if (action == DOES_CONNECT) {
		if (!result || result == -EINPROGRESS)
			peer(file, call->arguments[1], call->arguments[2]);
	} else if (action == DOES_CLOSE) {
		file->words[CLOSE_START] = call->time;
		file->words[CLOSE_END] = now;
		release(call->id, now);
	} else if (action == DOES_POLL && !result) {
		ADD(file->words[TIMEOUTS], 1);
	}
	if (result < 0)
		return;
	if (action >= DOES_MOVE && action <= DOES_SEND) {
		moved(file, call, result);
	} else if (action == DOES_FSYNC) {
		ADD(file->words[FSYNCS], 1);
	} else if (action == DOES_FDATASYNC) {
		ADD(file->words[FDATASYNCS], 1);
	} else if (action == DOES_SEEK) {
		file->offset = result;
		ADD(file->words[SEEKS], 1);
	} else if (action == DOES_SEEK_SOMEWHERE) {
		file->unplaced = 1;
		ADD(file->words[SEEKS], 1);
	} else if (action == DOES_STAT) {
		ADD(file->words[STATS], 1);
	} else if (action == DOES_DUPLICATE || action == DOES_FCNTL) {
		if (bind(process, file, pid, result, now))
			ADD(file->words[DUPLICATES], 1);
		else
			ADD(process->lost, 1);
	} else if (action == DOES_ACCEPT) {
		made_file = made(process, call->time + 1, FILE_ACCEPTED, result, now);
		if (made_file)
			peer(made_file, call->arguments[1], sizeof(struct { __u8 of_ipv6[28]; }));
	}
}

SEC("raw_tp/sys_exit") int exits(struct bpf_raw_tracepoint_args *args)
{
	__u64 self = bpf_get_current_pid_tgid(), now;
	struct call *call = bpf_map_lookup_elem(&calls, &self);
	struct traced *process;
	__u32 pid = self >> 32;

	if (!call)
		return 0;
	now = bpf_ktime_get_ns();
	process = bpf_map_lookup_elem(&traced, &pid);
	if (process)
		ended(process, call, pid, args->args[1], now);
	bpf_map_delete_elem(&calls, &self);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
