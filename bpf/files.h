/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * Data between the programs of bpf/files.bpf.c and the agent: the contract, whose other side is src/files/contract.rs.
 * No padding, and all members aligned, as in hits.h.
 */
#ifndef IOCREC_FILES_H
#define IOCREC_FILES_H

/*
 * Counters of a file are numbered words (log/src/event/files.rs says what each is): KIND_WORDS for each kind of call,
 * then those of the file as a whole.
 */
#define KIND_WORDS 32
#define FILE_WORDS 242
#define PATH_BYTES 512

/* Kinds of calls, each with counters of its own. */
enum call_kind {
	CALL_READ = 0,
	CALL_WRITE = 1,
	CALL_SYNC = 2,
	CALL_WAIT = 3,
	CALL_META = 4,
};

/* What a system call does: bits 3 to 7 of its entry in the map `table`, above its kind. */
enum call_action {
	DOES_COUNT = 1,   /* nothing but calls and time are counted */
	DOES_MOVE = 2,    /* reads or writes at the offset, and moves it */
	DOES_AT = 3,      /* reads or writes at the offset of argument 4 */
	DOES_SOMEWHERE = 4, /* reads or writes at an offset that isn't known */
	DOES_SEND = 5,    /* sends or receives: there is no offset */
	DOES_FSYNC = 6,
	DOES_FDATASYNC = 7,
	DOES_SEEK = 8,
	DOES_SEEK_SOMEWHERE = 9,
	DOES_STAT = 10,
	DOES_STAT_AT = 11, /* a path, or an empty path and a descriptor */
	DOES_STAT_PATH = 12,
	DOES_OPEN = 13,   /* flags and mode follow the path */
	DOES_OPEN_HOW = 14, /* struct open_how follows the path */
	DOES_CREATE = 15, /* mode follows the path */
	DOES_CLOSE = 16,
	DOES_CLOSE_RANGE = 17,
	DOES_DUPLICATE = 18,
	DOES_FCNTL = 19,
	DOES_RENAME = 20,
	DOES_POLL = 21,
	DOES_SOCKET = 22, /* makes a descriptor without a path */
	DOES_ACCEPT = 23,
	DOES_CONNECT = 24,
};

/* How a file is known. */
enum file_how {
	FILE_OTHERS = 0,  /* all for which there is no room; made by the agent */
	FILE_OPENED = 1,
	FILE_FAILED = 2,  /* it could not be opened or renamed */
	FILE_NAMED = 3,   /* renamed, or looked at, by its path */
	FILE_SOCKET = 4,  /* made without a path: a socket, unless `flags` is 0 */
	FILE_ACCEPTED = 5,
	FILE_FOUND = 6,   /* it was open already, or made by a call that isn't followed */
};

/* What one open of a file was used for. Map `files`, key: its id. */
struct file {
	__u64 words[FILE_WORDS];
	__u64 id;         /* when the call that made it began, CLOCK_MONOTONIC, ns; of the others the pid */
	__u64 closed;     /* when its last descriptor was closed; 0: open */
	__u64 refs;       /* descriptors */
	__u64 offset;     /* of the next byte */
	__u64 last[2];    /* last byte read, written */
	__u32 pid;        /* 0: not ready */
	__u32 fd;         /* the first descriptor */
	__u32 flags;      /* of open; of a socket its family */
	__u32 mode;       /* of open; of a socket its type */
	__u32 how;        /* enum file_how */
	__u32 path_bytes;
	__u32 cut;        /* the path is longer */
	__u32 unplaced;   /* its offset isn't known */
	__u32 before;     /* kind of the last read or write + 1 */
	__u32 unused;
	__u8 path[PATH_BYTES]; /* or struct sockaddr of the peer */
};

/* A recorded process. Map `traced`, key: pid. */
struct traced {
	__u32 compat;     /* 1: its system calls are those of 32 bits */
	__u32 ranges;     /* calls of close_range so far */
	__u32 first;      /* their descriptors, from first to last */
	__u32 last;
	__u64 lost;       /* calls that were not counted, since a map was full */
};

/* The file behind a descriptor. Map `descriptors`, key: pid << 32 | descriptor. */
struct descriptor {
	__u64 id;
	__u32 ranges;     /* of its process when it was made */
	__u32 unused;
};

_Static_assert(sizeof(struct file) == 8 * FILE_WORDS + 88 + PATH_BYTES, "file");
_Static_assert(sizeof(struct traced) == 24, "traced");

#ifdef IOCREC_CONTRACT
struct file_contract {
	struct file file;
	struct traced traced;
	struct descriptor descriptor;
	enum call_kind call_kind;
	enum call_action call_action;
	enum file_how file_how;
} *file_contract SEC(".contract");
#endif

#endif
