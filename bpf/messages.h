/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * What the packet filter knows of the messages of a protocol: how long each is, and how much of it matters.
 *
 * To add a protocol, add its number to `enum protocol`, and a function like channel_access() to next_message().
 */
#ifndef IOCREC_MESSAGES_H
#define IOCREC_MESSAGES_H

#include "program.h"

enum protocol {
	CHANNEL_ACCESS,
	/* Any that this filter does not know: its packets pass whole. */
	UNKNOWN,
	PROTOCOLS,
};

/* Longest header of a message, and the shortest. */
#define LONGEST_HEADER 24
#define SHORTEST_HEADER 16

/*
 * What a message's header tells, in one number: so the verifier looks at the programs for headers once, and not for each
 * of a segment's messages again. 0: no sender would send this.
 */
typedef __u64 message;
enum {
	/* Bits of the number of bytes after the header. */
	MESSAGE_SIZE = 0x1fffffff,
	MESSAGE_SIZE_BITS = 29,
};
/* Bytes of the header, and the number of the bytes after it that matter. */
#define MESSAGE_HEADER(message) ((__u32)((message) >> 56))
#define MESSAGE_KEEP(message) ((__u32)((message) >> MESSAGE_SIZE_BITS & 0xffffff))
/* Whether the header matters; whether all that is behind it does; whether this can hardly be array data. */
#define MESSAGE_MATTERS (1ull << 53)
#define MESSAGE_ALL (1ull << 54)
#define MESSAGE_PROOF (1ull << 55)
/* The header is as long as this, and more of it must be known. */
#define MESSAGE_OF(header) ((__u64)(header) << 56)

enum {
	CA_HEADER = 16,
	CA_LONG_HEADER = 24,
	/* In the size's place: the long header. */
	CA_LONG = 0xffff,
	/* Longest message: larger than any camera image sent through Channel Access (src/ca/message.rs). */
	CA_LONGEST = 256 << 20,
	/* Longest message that is not a value (src/ca/message.rs). */
	CA_LONGEST_TEXT = 1024,
	CA_EVENT_ADD = 1,
	CA_WRITE = 4,
	CA_ERROR = 11,
	CA_READ_NOTIFY = 15,
	CA_CREATE_CHAN = 18,
	CA_WRITE_NOTIFY = 19,
	CA_CLIENT_NAME = 20,
	CA_HOST_NAME = 21,
	CA_LAST_COMMAND = 27,
	CA_LAST_DBR = 38,
	CA_NORMAL = 1,
	/* The plain DBR types, of which puts are made. */
	CA_STRING = 0,
	CA_DOUBLE = 6,
};

#define BIG16(bytes, at) (((__u32)(bytes)[at] << 8) | (bytes)[(at) + 1])
#define BIG32(bytes, at) ((BIG16(bytes, at) << 16) | BIG16(bytes, (at) + 2))

/* Whether this is the size of that many values of a plain DBR type, padded. */
INLINE int fits(__u32 dbr, __u32 count, __u32 size)
{
	/* string (not so simple), short 2, float 4, enum 2, char 1, long 4, double 8: powers of two, three bits each */
	const __u32 shifts = 3 << 18 | 2 << 15 | 0 << 12 | 1 << 9 | 2 << 6 | 1 << 3;

	if (dbr > CA_DOUBLE || !count || count > CA_LONGEST)
		return 0;
	if (dbr == CA_STRING)
		return count == 1 ? size >= 8 && size <= 40 : size == (__u64)count * 40;
	return size == ((((__u64)count << (shifts >> dbr * 3 & 7)) + 7) & ~7ull);
}

/* A message of Channel Access that begins with these bytes: at least CA_HEADER, `known` of them. */
static __attribute__((noinline)) message channel_access(const __u8 *head, __u32 known, int from_client, __u32 kept)
{
	__u32 command = BIG16(head, 0), size = BIG16(head, 2), dbr = BIG16(head, 4), count = BIG16(head, 6);
	int is_value = !from_client && (command == CA_EVENT_ADD || command == CA_READ_NOTIFY);
	int is_put = from_client && (command == CA_WRITE || command == CA_WRITE_NOTIFY);
	__u32 header = CA_HEADER;
	message whole;
	int proof;

	if (size == CA_LONG) {
		header = CA_LONG_HEADER;
		if (known < CA_LONG_HEADER)
			return MESSAGE_OF(header) | (is_value ? 0 : MESSAGE_MATTERS);
		size = BIG32(head, 16);
		count = BIG32(head, 20);
	}
	if (size % 8 || size > CA_LONGEST || command > CA_LAST_COMMAND || dbr > CA_LAST_DBR)
		return 0;
	whole = MESSAGE_OF(header) | MESSAGE_MATTERS | MESSAGE_ALL | size;
	/* with another status they carry no value */
	if (is_value && size)
		return BIG32(head, 8) == CA_NORMAL ? MESSAGE_OF(header) | (count ? MESSAGE_PROOF : 0) | size : whole;
	if (is_put) {
		if (!fits(dbr, count, size))
			return whole;
		if (size <= kept)
			return whole | MESSAGE_PROOF;
		return MESSAGE_OF(header) | MESSAGE_PROOF | MESSAGE_MATTERS | (__u64)kept << MESSAGE_SIZE_BITS | size;
	}
	/* nothing else is long, or all zeroes */
	if (size > CA_LONGEST_TEXT || !(BIG32(head, 0) | BIG32(head, 4) | BIG32(head, 8) | BIG32(head, 12)))
		return 0;
	if (from_client)
		proof = command == CA_EVENT_ADD ? size == 16 :
			command == CA_READ_NOTIFY ? !size && count :
			(command == CA_CREATE_CHAN || command == CA_CLIENT_NAME || command == CA_HOST_NAME) && size && !dbr &&
				!count;
	else
		proof = command == CA_ERROR ? size >= 24 : (command == CA_WRITE_NOTIFY || command == CA_CREATE_CHAN) && !size;
	return whole | (proof ? MESSAGE_PROOF : 0);
}

/* The message of this protocol that begins with these bytes, `known` of them, at least SHORTEST_HEADER. */
INLINE message next_message(__u32 protocol, const __u8 *head, __u32 known, int from_client, __u32 kept)
{
	return protocol == CHANNEL_ACCESS ? channel_access(head, known, from_client, kept) : 0;
}

/* Whether a message with this beginning of at least four bytes can matter. */
INLINE int begins_to_matter(__u32 protocol, const __u8 *head, int from_client)
{
	__u32 command = BIG16(head, 0);

	return protocol != CHANNEL_ACCESS || from_client || (command != CA_EVENT_ADD && command != CA_READ_NOTIFY);
}

#endif
