/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * What the packet filter knows of the messages of a protocol: how long each is, and how much of it matters.
 *
 * To add a protocol, add its number to `enum protocol`, and a function like channel_access() to next_message(). A header may be
 * longer here than the protocol's own: it ends where it is known how much of the message matters.
 */
#ifndef IOCREC_MESSAGES_H
#define IOCREC_MESSAGES_H

#include "program.h"

enum protocol {
	CHANNEL_ACCESS,
	PV_ACCESS,
	/* Any that this filter does not know: its packets pass whole. */
	UNKNOWN,
	PROTOCOLS,
};

/* Longest header of a message, with what must be known of its beginning besides; and the shortest of a protocol. */
#define LONGEST_HEADER 24
#define SHORTEST_HEADER(protocol) ((protocol) == CHANNEL_ACCESS ? CA_HEADER : PVA_HEADER)

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
#define MESSAGE_KEEP(message) ((__u32)((message) >> MESSAGE_SIZE_BITS & 0xffff))
/* How certain it is that this is not array data: 1 if that is hardly possible, 4 if less than that. */
#define MESSAGE_PROOF(message) ((__u32)((message) >> 46 & 7))
#define MESSAGE_FAIR (1ull << 46)
#define MESSAGE_SURE (4ull << 46)
/* Whether the header matters; whether all that is behind it does. */
#define MESSAGE_MATTERS (1ull << 53)
#define MESSAGE_ALL (1ull << 54)
/* It is the first of several segments of a message, and what they carry does not matter. */
#define MESSAGE_SKIPS 55
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

enum {
	PVA_HEADER = 8,
	/* With the ids of a request and its subcommand. */
	PVA_REQUEST = 17,
	/* With the id of an answer and its subcommand. */
	PVA_ANSWER = 13,
	PVA_MAGIC = 0xca,
	PVA_LAST_VERSION = 2,
	PVA_CONTROL = 0x01,
	/* Flags that nobody sets. */
	PVA_NEVER = 0x0e,
	PVA_FIRST = 0x10,
	/* Middle and last segments have it. */
	PVA_CONTINUES = 0x20,
	PVA_FROM_SERVER = 0x40,
	PVA_BIG_ENDIAN = 0x80,
	/* Longest message (src/pva/message.rs). */
	PVA_LONGEST = 256 << 20,
	/* Bytes that are kept of one that is no put (src/pva/framer.rs): types, arguments of calls. */
	PVA_KEPT = 0xffff,
	/* Longer than anything but a value. */
	PVA_LONG = 0xffff,
	PVA_GET = 10,
	PVA_PUT = 11,
	PVA_PUT_GET = 12,
	PVA_MONITOR = 13,
	PVA_LAST_COMMAND = 22,
	PVA_LAST_CONTROL = 2,
	/* Subcommand: prepares a request; the answer has the type. */
	PVA_INIT = 0x08,
};

#define BIG16(bytes, at) (((__u32)(bytes)[at] << 8) | (bytes)[(at) + 1])
#define BIG32(bytes, at) ((BIG16(bytes, at) << 16) | BIG16(bytes, (at) + 2))

/* A number in a header, which begins at a multiple of four bytes; as it is there, and with its highest byte first. */
#define WORD(head, at) (*(const __u32 *)((head) + (at)))
#define BIG_WORD(head, at) __builtin_bswap32(WORD(head, at))

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
	__u32 first = BIG_WORD(head, 0), second = BIG_WORD(head, 4);
	__u32 command = first >> 16, size = first & 0xffff, dbr = second >> 16, count = second & 0xffff;
	int is_value = !from_client && (command == CA_EVENT_ADD || command == CA_READ_NOTIFY);
	int is_put = from_client && (command == CA_WRITE || command == CA_WRITE_NOTIFY);
	__u32 header = CA_HEADER;
	message whole, proof = MESSAGE_FAIR;
	int is_fair;

	if (size == CA_LONG) {
		header = CA_LONG_HEADER;
		proof = MESSAGE_SURE;
		if (known < CA_LONG_HEADER)
			return MESSAGE_OF(header) | (is_value ? 0 : MESSAGE_MATTERS);
		size = BIG_WORD(head, 16);
		count = BIG_WORD(head, 20);
	}
	if (size % 8 || size > CA_LONGEST || command > CA_LAST_COMMAND || dbr > CA_LAST_DBR)
		return 0;
	whole = MESSAGE_OF(header) | MESSAGE_MATTERS | MESSAGE_ALL | size;
	/* with another status they carry no value */
	if (is_value && size)
		return BIG_WORD(head, 8) == CA_NORMAL ? MESSAGE_OF(header) | (count && count <= size ? proof : 0) | size :
							whole;
	if (is_put) {
		if (!fits(dbr, count, size))
			return whole;
		if (size <= kept)
			return whole | proof;
		return MESSAGE_OF(header) | proof | MESSAGE_MATTERS | (__u64)kept << MESSAGE_SIZE_BITS | size;
	}
	/* nothing else is long, or all zeroes */
	if (size > CA_LONGEST_TEXT || !(first | second | WORD(head, 8) | WORD(head, 12)))
		return 0;
	if (from_client)
		is_fair = command == CA_EVENT_ADD ? size == 16 :
			command == CA_READ_NOTIFY ? !size && count :
			(command == CA_CREATE_CHAN || command == CA_CLIENT_NAME || command == CA_HOST_NAME) && size && !dbr &&
				!count;
	else
		is_fair = command == CA_ERROR ? size >= 24 : (command == CA_WRITE_NOTIFY || command == CA_CREATE_CHAN) && !size;
	return whole | (is_fair ? MESSAGE_FAIR : 0);
}

/*
 * A message of PVAccess that begins with these bytes: at least PVA_HEADER, `known` of them. `skips`: what segments
 * carry that continue a message does not matter.
 */
static __attribute__((noinline)) message pv_access(const __u8 *head, __u32 known, int from_client, __u32 kept, int skips)
{
	__u32 flags = head[2], command = head[3], header = PVA_HEADER, keep = PVA_KEPT, size;
	int is_value = !from_client && (command == PVA_MONITOR || command == PVA_GET);
	int is_put = from_client && (command == PVA_PUT || command == PVA_PUT_GET);
	message message = MESSAGE_MATTERS;

	if (head[0] != PVA_MAGIC || head[1] - 1u >= PVA_LAST_VERSION || flags & PVA_NEVER ||
	    !(flags & PVA_FROM_SERVER) != !!from_client || command > PVA_LAST_COMMAND)
		return 0;
	/* its size is none */
	if (flags & PVA_CONTROL)
		return command > PVA_LAST_CONTROL ? 0 :
						    MESSAGE_OF(PVA_HEADER) | MESSAGE_MATTERS | (__u64)!!skips << MESSAGE_SKIPS;
	size = flags & PVA_BIG_ENDIAN ? BIG_WORD(head, 4) : WORD(head, 4);
	if (size > PVA_LONGEST)
		return 0;
	if (size)
		message |= MESSAGE_FAIR;
	if (flags & PVA_CONTINUES) {
		if (skips)
			message = (message & ~MESSAGE_MATTERS) | 1ull << MESSAGE_SKIPS;
		if (is_put)
			keep = kept + PVA_REQUEST - PVA_HEADER;
	} else if (is_value && size >= PVA_ANSWER - PVA_HEADER) {
		header = PVA_ANSWER;
		if (known < PVA_ANSWER)
			return MESSAGE_OF(PVA_ANSWER) | MESSAGE_MATTERS;
		/* an update, or the answer to a get: no types */
		if (!(head[PVA_ANSWER - 1] & PVA_INIT))
			message = (size > PVA_LONG ? MESSAGE_SURE : MESSAGE_FAIR) |
				  (__u64)!!(flags & PVA_FIRST) << MESSAGE_SKIPS;
	} else if (is_put && size >= PVA_REQUEST - PVA_HEADER) {
		header = PVA_REQUEST;
		if (known < PVA_REQUEST)
			return MESSAGE_OF(PVA_REQUEST) | MESSAGE_MATTERS;
		if (!(head[PVA_REQUEST - 1] & PVA_INIT))
			keep = kept;
	}
	size -= header - PVA_HEADER;
	message |= MESSAGE_OF(header) | size;
	if (!(message & MESSAGE_MATTERS))
		return message;
	return message | (size <= keep ? MESSAGE_ALL : (__u64)keep << MESSAGE_SIZE_BITS);
}

/*
 * The message of this protocol that begins with these bytes, `known` of them, at least SHORTEST_HEADER. `skips`: whether
 * the message before it has said MESSAGE_SKIPS.
 */
INLINE message next_message(__u32 protocol, const __u8 *head, __u32 known, int from_client, __u32 kept, int skips)
{
	return protocol == CHANNEL_ACCESS ? channel_access(head, known, from_client, kept) :
					    pv_access(head, known, from_client, kept, skips);
}

/* Whether a message with this beginning of at least four bytes can matter. */
INLINE int begins_to_matter(__u32 protocol, const __u8 *head, int from_client, int skips)
{
	__u32 command = BIG16(head, 0);

	if (protocol != CHANNEL_ACCESS)
		return !(skips && head[2] & PVA_CONTINUES && !(head[2] & PVA_CONTROL));
	return from_client || (command != CA_EVENT_ADD && command != CA_READ_NOTIFY);
}

#endif
