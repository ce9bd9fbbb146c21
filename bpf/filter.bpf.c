/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * The packet filter of the ring tier: two socket filters, one for what clients send to servers, one for what servers
 * send to clients. They follow each flow (one direction of a connection, on one interface) from header to header, and
 * so know which bytes of a segment matter, wherever messages begin. src/net/stateful.rs loads them.
 *
 * Segments over IPv4 and over IPv6 (behind at most one header of options, a route or AH) are treated alike.
 *
 * What passes:
 * - segments that open or end a connection, and fragments;
 * - segments with bytes that matter (bpf/messages.h), up to the last of these;
 * - of a flow whose messages are not known, everything. A flow is known once PROVEN messages that can hardly be
 *   anything else have followed each other, or one with a long header, the first at the beginning of a segment; their
 *   segments pass whole;
 * - of a client whose messages are known, an acknowledgement that closes its window, and the first that opens it again;
 * - the headers of a packet, after each LEFT_OUT_MOST bytes of a flow that did not pass: so the decoder's sequence
 *   numbers can't wrap unseen.
 *
 * Everything else stays out: segments of other ports, bare acknowledgements, segments of a known flow in which nothing
 * matters, and what a server of bulk sends once more. Any other segment that does not continue where the flow stopped,
 * or a header that can't be one, ends what is known of the flow: segments pass whole until it is known again. So
 * whatever is lost, reordered or sent twice, nothing that matters stays out.
 *
 * A place tells the decoder, for a packet of a known flow, how many bytes lie before its first header, and that nothing
 * that matters stayed out between the flow's last packet and this one.
 */
#include "program.h"
#include "messages.h"
#include "flows.h"
#include "counts.h"
#include "updates.h"
#include "connects.h"

enum {
	FLOWS = 4096,
	/* More than the packets that wait for the recorder, mostly; those of a row are side by side, the newest first. */
	PLACES = 8192,
	ROW = 8,
	INTERFACES = 16,
	PROVEN = 4,
	LEFT_OUT_MOST = 16 << 20,
	/* Bytes of a flow that may be sent again: more than Linux has under way (tcp_wmem(7): 4 to 6 MiB). */
	FOLLOWED_MOST = 16 << 20,
	/* Milliseconds: of what a flow's closed window is said in less, one packet passes, whoever sends how many. */
	WINDOW_PAUSE = 100,
	/* Milliseconds: a server tries a closed window again every two minutes at the latest (tcp(7), TCP_RTO_MAX). */
	WINDOW_LASTS = 150000,
	/* Messages of a segment to look at: a full send buffer of RSRV (16 KiB) has up to 1024. More pass whole. */
	MOST_MESSAGES = 416,
	/* Calls of updates() for a segment: see MOST_MESSAGES. */
	MOST_RUNS = 16,
	/* The same for what clients send, which mostly matters anyway: the verifier takes its time. */
	MOST_REQUESTS = 128,

	IP_PROTOCOL = 0x0800,
	VLAN_PROTOCOL = 0x8100,
	SERVICE_VLAN_PROTOCOL = 0x88a8,
	IP6_PROTOCOL = 0x86dd,
	/* Headers of IPv6: the fixed one; options, a route, options for the destination; a fragment; AH. */
	IP6_HEADER = 40,
	IP6_OPTIONS = 0,
	IP6_ROUTE = 43,
	IP6_FRAGMENT = 44,
	IP6_AUTHENTICATION = 51,
	IP6_DESTINATION = 60,
	IP_IN_IP = 4,
	GRE = 47,
	OUTGOING = 4,
	/* The kernel gives every namespace's loopback interface this number. */
	LOOPBACK = 1,
	TCP = 6,
	FIN = 1,
	SYN = 2,
	RST = 4,
	NOTHING = 0,
	ALL = 0x7fffffff,
};
#define NO_PLACE 0xffffffffu

/* What the recorder sets, and reads: mapped into it. src/net/stateful.rs has the same layout. */
struct shared {
	/* For each TCP port two bits: the protocol of its servers, plus one; 0 if it has none. */
	__u64 ports[65536 / 32];
	/* See place(). Each row is a cache line. */
	__u64 places[PLACES];
	/* The interfaces to watch; none for all. */
	__u32 interfaces[INTERFACES];
	/* Bytes to keep of a put. */
	__u32 kept;
	/* Whether to take the incoming packets of the loopback interface, not the outgoing ones: for tests. */
	__u32 incoming;
	/* Whether the sockets are a group (src/net/group.rs): what it can't tell apart comes to requests(). */
	__u32 grouped;
	__u32 unused;
	/* Milliseconds since the machine's start, at most, until which a window may be closed. 0: none is. */
	__u64 closed_until;
	struct connect_state connects;
};

struct shared shared;

/* What is known of a flow. Positions are TCP sequence numbers. */
struct flow {
	/* The next message. */
	__u32 next;
	/* Bytes of the message before it matter up to here. */
	__u32 keen;
	/* The next segment begins here; or between here and `next`, if nothing there matters. */
	__u32 from;
	/* Bytes before `from` that were followed one after the other, up to FOLLOWED_MOST. */
	__u32 followed;
	/* Bytes that stayed out since a packet passed. */
	__u32 left_out;
	/* Messages that can hardly be anything else. */
	__u32 proofs;
	/* Bytes of a header that a segment's end has split: `next` is its beginning. */
	__u32 have;
	/* These, and room for more. */
	__u8 head[2 * 32];
	/* Whether the last message has said MESSAGE_SKIPS. */
	__u32 skips;
	/* Offsets in the segment at hand. */
	__u32 at;
	__u32 matters;
	/* Bytes of it before the first header; NO_PLACE if it completes a header that has passed in part. */
	__u32 before;
	/* When a packet passed last that closed the client's window, in milliseconds; 0: it is open. */
	__u32 closed;
	/* Of a server: its updates are counted up to here, and it was lost: all but this is unknown. */
	__u32 counted;
	__u32 lost;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, FLOWS);
	__type(key, struct flow_key);
	__type(value, struct flow);
} flows SEC(".maps");

/* A segment: its place in the packet (offsets from the IP header) and in the flow. */
struct segment {
	__u32 begin;
	__u32 end;
	__u32 sequence;
	/* What its updates count as (bpf/counts.h); 0: they don't. */
	__u64 counted_as;
};

/* Whether the first of two positions lies before the second. */
#define BEFORE(a, b) ((__s32)((a) - (b)) < 0)

/*
 * The protocol of the servers that have this port; PROTOCOLS if none has. Over IPv6 Channel Access is none that is known:
 * the recorder counts all of it. A function that the verifier looks at once.
 */
__attribute__((noinline)) __u32 protocol_of(__u32 port, __u32 over_ip6)
{
	__u64 word = port >> 5;
	__u32 protocol;

	/* the compiler knows that it is small, but old verifiers do not */
	__asm__ volatile("" : "+r"(word));
	protocol = ((__u32)(shared.ports[word & 2047] >> (port & 31) * 2) + PROTOCOLS) & 3;
	return over_ip6 && protocol == CHANNEL_ACCESS ? UNKNOWN : protocol;
}

/* Whether an interface is to be watched. */
INLINE int is_watched(__u32 interface)
{
	__u32 i;

	if (!shared.interfaces[0])
		return 1;
	for (i = 0; i < INTERFACES; i++)
		if (shared.interfaces[i] == interface)
			return 1;
	return 0;
}

/*
 * Notes the place of a packet: the upper half identifies the packet, the lower is the number of bytes before its first
 * header. The recorder looks it up in the same way. The oldest of the row is forgotten: were a row one place long, one of
 * eight would be by the time that 1,000 packets wait, and with it the types that a server has defined. The others move from
 * the end on, so that who looks from the beginning sees each. Two processors may overwrite each other's: then one is lost.
 */
INLINE void place(const struct flow_key *key, __u32 sequence, __u32 before)
{
	__u64 hash = ((__u64)key->ports << 32 | sequence) * 0x9e3779b97f4a7c15ull;
	__u32 source = key->source[0] ^ key->source[1] ^ key->source[2] ^ key->source[3];
	__u32 destination = key->destination[0] ^ key->destination[1] ^ key->destination[2] ^ key->destination[3];
	volatile __u64 *row;
	int i;

	if (before == NO_PLACE)
		return;
	hash ^= hash >> 29;
	hash += (__u64)source << 32 | destination;
	hash *= 0xbf58476d1ce4e5b9ull;
	hash ^= hash >> 32;
	row = &shared.places[hash & (PLACES - ROW)];
	for (i = ROW - 1; i > 0; i--)
		row[i] = row[i - 1];
	row[0] = (hash & 0xffffffff00000000ull) | before;
}

/* A protocol, whether the message before the next has said MESSAGE_SKIPS, and whether a client sends it. */
#define STATE(protocol, skips, from_client) ((protocol) | (skips) << 8 | !!(from_client) << 9)

/* Counts the message with this header if it is an update. */
INLINE void count_update(struct __sk_buff *skb, __u64 connection, const __u8 *head, message message)
{
	if (BIG16(head, 0) == CA_EVENT_ADD && message & MESSAGE_SIZE && BIG_WORD(head, 8) == CA_NORMAL)
		count(connection, BIG_WORD(head, 12), skb->ifindex,
		      MESSAGE_HEADER(message) + ((__u32)message & MESSAGE_SIZE));
}

/*
 * The message at this offset of the packet, of which `known` bytes are in this segment: if these are too few, a message
 * with a header longer than `known`. A function of its own, so that the verifier looks at it once. `state`: see
 * STATE(); `connection`: see struct segment.
 */
__attribute__((noinline)) __u64 message_at(struct __sk_buff *skb, __u32 at, __u32 known, __u32 state, __u64 connection)
{
	__u32 protocol = state & 0xff;
	message message;
	__u8 head[32] __attribute__((aligned(8))) = {};
	__u64 others = known - 1;

	if (known < SHORTEST_HEADER(protocol))
		return MESSAGE_OF(SHORTEST_HEADER(protocol));
	if (known >= LONGEST_HEADER) {
		if (bpf_skb_load_bytes(skb, at, head, LONGEST_HEADER))
			return 0;
	} else {
		/* the compiler knows that it is small, but old verifiers do not */
		__asm__ volatile("" : "+r"(others));
		others &= 31;
		if (bpf_skb_load_bytes(skb, at, head, others + 1))
			return 0;
	}
	message = next_message(protocol, head, known, state >> 9 & 1, shared.kept, state >> 8 & 1);
	if (connection && MESSAGE_HEADER(message) <= known)
		count_update(skb, connection, head, message);
	return message;
}

#define SKIPS(message) ((__u32)((message) >> MESSAGE_SKIPS) & 1)

/* A header that goes on in the next segment. */
#define SPLIT MESSAGE_OF(0xff)

/* Adds the next bytes of a segment to a split header, at least one. Returns false if they can't be read. */
INLINE int gather(struct __sk_buff *skb, struct flow *flow, __u32 have, __u32 at, __u32 length)
{
	__u64 place = have, others = length - 1;

	if (!length)
		return 0;
	/* the compiler knows that they are small, but old verifiers do not, nor that a number other than 0 is at least 1 */
	__asm__ volatile("" : "+r"(place), "+r"(others));
	place &= 31;
	others &= 31;
	return !bpf_skb_load_bytes(skb, at, flow->head + place, others + 1);
}

/*
 * Completes a header that the end of the last segment has split. Returns the message, or 0 if it can't be one; `taken`
 * is how much of this segment belongs to the header.
 */
INLINE message complete(struct __sk_buff *skb, struct flow *flow, const struct segment *segment, __u32 protocol,
			int from_client, __u32 *taken)
{
	__u32 have = flow->have, length = segment->end - segment->begin, missing, header;
	__u32 shortest = SHORTEST_HEADER(protocol);
	message message;

	if (have < shortest) {
		missing = shortest - have;
		*taken = missing < length ? missing : length;
		if (!gather(skb, flow, have, segment->begin, *taken))
			return 0;
		have += *taken;
		flow->have = have;
		if (have < shortest)
			return SPLIT;
	}
	message = next_message(protocol, flow->head, have, from_client, shared.kept, flow->skips);
	header = MESSAGE_HEADER(message);
	if (header <= have)
		return message;
	missing = header - have;
	if (missing > length - *taken)
		missing = length - *taken;
	if (!missing)
		return SPLIT;
	if (!gather(skb, flow, have, segment->begin + *taken, missing))
		return 0;
	*taken += missing;
	flow->have = have + missing;
	if (flow->have < header)
		return SPLIT;
	return next_message(protocol, flow->head, header, from_client, shared.kept, flow->skips);
}

/* Where what matters of a message ends; its header ends at `at`. */
INLINE __u32 matters_until(message message, __u32 at)
{
	return at + (message & MESSAGE_ALL ? (__u32)message & MESSAGE_SIZE : MESSAGE_KEEP(message));
}

/*
 * Follows a segment of a flow. Returns the offset at which what matters in it ends: 0 if nothing does; -1 if this can't
 * be a segment of the flow.
 */
INLINE __s64 follow(struct __sk_buff *skb, struct flow *flow, const struct segment *segment, __u32 protocol,
		    int from_client)
{
	__u32 at = segment->begin, end = segment->end, matters = 0, keen, proofs, have, skips, i, continues = 0;
	/* turns an offset into a position */
	__u32 base = segment->sequence - segment->begin;
	message message;

	if (flow->have) {
		__u32 taken = 0;

		if (segment->sequence != flow->from)
			return -1;
		message = complete(skb, flow, segment, protocol, from_client, &taken);
		if (!message)
			return -1;
		if (message == SPLIT) {
			flow->from = base + end;
			flow->before = NO_PLACE;
			return flow->left_out ? 0 : end;
		}
		flow->have = 0;
		flow->skips = SKIPS(message);
		if (segment->counted_as)
			count_update(skb, segment->counted_as, flow->head, message);
		at += taken;
		flow->keen = base + at;
		continues = !flow->left_out;
		/* a header of which the beginning stayed out is of no use */
		if (message & MESSAGE_MATTERS && continues) {
			matters = matters_until(message, at);
			flow->keen = base + matters;
		}
		at += (__u32)message & MESSAGE_SIZE;
	} else if (segment->sequence != flow->from &&
		   (BEFORE(segment->sequence, flow->from) || BEFORE(flow->from, flow->keen) ||
		    BEFORE(flow->next, segment->sequence))) {
		return -1;
	} else {
		if (BEFORE(segment->sequence, flow->keen))
			matters = flow->keen - base;
		at = flow->next - base;
		/* the end of a long put: the decoder must see that it has come */
		if (from_client && at > segment->begin && at <= end && !matters)
			matters = segment->begin;
	}
	flow->before = continues ? NO_PLACE : at - segment->begin;
	/* what comes from a map looks the same to the verifier, however it got there */
	*(volatile __u32 *)&flow->at = at;
	*(volatile __u32 *)&flow->matters = matters;
	at = *(volatile __u32 *)&flow->at;
	matters = *(volatile __u32 *)&flow->matters;
	keen = *(volatile __u32 *)&flow->keen - base;
	proofs = *(volatile __u32 *)&flow->proofs;
	skips = *(volatile __u32 *)&flow->skips;

	/* until a flow is known, each message tells how certain that is */
	for (i = 0; !from_client && protocol == CHANNEL_ACCESS && proofs >= PROVEN && i < MOST_RUNS; i++) {
		__u64 run = at < end ? updates(skb, at, end, segment->counted_as) : 0;

		if (!run)
			break;
		at = UPDATES_NEXT(run);
		keen = UPDATES_KEEN(run);
	}
	have = 0;
	for (i = 0; i < (from_client ? MOST_REQUESTS : MOST_MESSAGES); i++) {
		if (at >= end)
			break;
		message = message_at(skb, at, end - at, STATE(protocol, skips, from_client), segment->counted_as);
		if (MESSAGE_HEADER(message) > end - at) {
			have = end - at;
			break;
		}
		if (!message)
			return -1;
		at += MESSAGE_HEADER(message);
		keen = at;
		if (message & MESSAGE_MATTERS)
			matters = keen = matters_until(message, at);
		skips = SKIPS(message);
		proofs += MESSAGE_PROOF(message);
		at += (__u32)message & MESSAGE_SIZE;
	}
	if (have) {
		/* A header goes on in the next segment. */
		if (have >= LONGEST_HEADER || !gather(skb, flow, 0, at, have))
			return -1;
		flow->have = have;
		/* without its first bytes nothing is known of it */
		if (have < 4 || begins_to_matter(protocol, flow->head, from_client, skips))
			matters = end;
	} else if (at < end) {
		return -1;
	}
	flow->next = base + at;
	flow->keen = base + keen;
	flow->followed += base + end - flow->from;
	if (flow->followed > FOLLOWED_MOST)
		flow->followed = FOLLOWED_MOST;
	flow->from = base + end;
	flow->skips = skips;
	flow->proofs = proofs > PROVEN ? PROVEN : proofs;
	return matters > end ? end : matters;
}

/*
 * How many bytes of a segment a server has sent already, and were followed. TCP sends again now and then although nothing is
 * lost, and if each time forgot the flow, its bulk would fill the ring, and its updates would not be counted. What a client
 * sends again always passes whole: so nobody hides a put by sending something else in its place first.
 */
INLINE __u32 sent_again(const struct flow *flow, const struct segment *segment)
{
	__u32 ago = flow->from - segment->sequence;

	return ago <= flow->followed ? ago : 0;
}

/* Whether a message that can hardly be anything else, or the first of a circuit, begins at this offset. */
INLINE int is_beginning(struct __sk_buff *skb, const struct segment *segment, __u32 protocol, int from_client)
{
	message message = message_at(skb, segment->begin, segment->end - segment->begin, STATE(protocol, 0, from_client), 0);

	return MESSAGE_PROOF(message) || (message && !(message & MESSAGE_SIZE));
}

/*
 * Segments from and to the servers' ports that are carried by something else than plain IP: by a tag that the kernel
 * left in place, GRE or IP in IP (of usual form: without options). They pass whole.
 */
INLINE int carried(struct __sk_buff *skb, const __u8 *ip)
{
	__u32 at, source, destination;
	__u8 head[4], ports[4], protocol;

	if (BIG16(ip, 2) == IP_PROTOCOL) {
		at = 4;
	} else if ((BIG16(ip, 2) == VLAN_PROTOCOL || BIG16(ip, 2) == SERVICE_VLAN_PROTOCOL) &&
		   BIG16(ip, 6) == IP_PROTOCOL) {
		at = 8;
	} else if (ip[0] == 0x45 && ip[9] == IP_IN_IP) {
		at = 20;
	} else if (ip[0] == 0x45 && ip[9] == GRE) {
		if (bpf_skb_load_bytes(skb, 20, head, sizeof(head)) || BIG16(head, 2) != IP_PROTOCOL || head[1])
			return NOTHING;
		if (head[0] != 0 && head[0] != 0x20)
			return NOTHING;
		at = head[0] ? 28 : 24;
	} else {
		return NOTHING;
	}
	if (bpf_skb_load_bytes(skb, at + 9, &protocol, 1) || protocol != TCP)
		return NOTHING;
	if (bpf_skb_load_bytes(skb, at + 20, ports, sizeof(ports)))
		return NOTHING;
	source = BIG16(ports, 0);
	destination = BIG16(ports, 2);
	return protocol_of(source, 0) < PROTOCOLS || protocol_of(destination, 0) < PROTOCOLS ? ALL : NOTHING;
}

/*
 * Where the TCP segment of a packet lies: its beginning from bit 32 on, its end below; and whether
 * it is over IPv6, the first of several fragments, or to pass whole beside what clients send. NOTHING: it has none.
 */
#define IS_IP6 (1ull << 63)
#define IS_PART (1ull << 62)
#define PASSES (1ull << 61)
#define BEGIN(where) ((__u32)((where) >> 32) & 0xffff)

/* Headers that lie between that of IPv6 and TCP's. */
INLINE int is_extension(__u8 next)
{
	return next == IP6_OPTIONS || next == IP6_ROUTE || next == IP6_FRAGMENT || next == IP6_AUTHENTICATION ||
	       next == IP6_DESTINATION;
}

/*
 * The same over IPv6. Later fragments have no ports, and of several headers before TCP's only the recorder finds the
 * end: both are rare, and pass beside what clients send.
 */
INLINE __u64 over_ip6(struct __sk_buff *skb, const __u8 *ip)
{
	__u32 at = IP6_HEADER, end = BIG16(ip, 4);
	__u64 where = IS_IP6;
	__u8 head[4];

	if (ip[6] != TCP) {
		if (!is_extension(ip[6]) || bpf_skb_load_bytes(skb, IP6_HEADER, head, sizeof(head)))
			return NOTHING;
		if (is_extension(head[0]))
			return PASSES;
		if (head[0] != TCP)
			return NOTHING;
		at += 8;
		if (ip[6] == IP6_FRAGMENT) {
			if (BIG16(head, 2) & 0xfff8)
				return PASSES;
			if (head[3] & 1)
				where |= IS_PART;
		} else {
			at += ip[6] == IP6_AUTHENTICATION ? head[1] * 4 : head[1] * 8;
		}
	}
	/* packets joined to more than 64 KiB carry no length */
	return where | (__u64)at << 32 | (end ? IP6_HEADER + end : skb->len);
}

/*
 * Where the TCP segment of a packet lies. A function of its own, so that to the verifier all ways to a segment look
 * alike.
 */
__attribute__((noinline)) __u64 segment_of(struct __sk_buff *skb, __u32 from_client)
{
	__u32 fragment, end;
	__u8 ip[20];

	if (bpf_skb_load_bytes(skb, 0, ip, sizeof(ip)))
		return NOTHING;
	if (ip[0] >> 4 == 4 && ip[9] == TCP) {
		if (skb->protocol == __builtin_bswap16(IP6_PROTOCOL))
			return NOTHING;
		fragment = BIG16(ip, 6);
		/* rare, and without ports; the recorder puts them together */
		if (fragment & 0x1fff)
			return PASSES;
		end = BIG16(ip, 2);
		return (fragment & 0x2000 ? IS_PART : 0) | (__u64)(ip[0] & 15) << 34 | (end ? end : skb->len);
	}
	/* tags first: some begin as IPv6 does */
	if (from_client && skb->protocol != __builtin_bswap16(IP6_PROTOCOL) && carried(skb, ip))
		return PASSES;
	return ip[0] >> 4 == 6 ? over_ip6(skb, ip) : NOTHING;
}

/*
 * A bare acknowledgement of a client. Mostly that is all there is to do; one that closes its window says that it takes
 * nothing more, which is seldom, and so is what opens it again.
 */
INLINE int acknowledges(const struct flow_key *key, const __u8 *tcp, __u32 headers)
{
	int closes = !(tcp[14] | tcp[15]);
	struct flow *flow;
	__u32 time;
	__u64 now;

	if (!closes && !shared.closed_until)
		return NOTHING;
	now = bpf_ktime_get_ns() / 1000000;
	flow = bpf_map_lookup_elem(&flows, key);
	if (!closes && now > shared.closed_until)
		shared.closed_until = 0;
	if (!flow)
		return NOTHING;
	if (!closes) {
		if (!flow->closed)
			return NOTHING;
		flow->closed = 0;
		return headers;
	}
	shared.closed_until = now + WINDOW_LASTS;
	/* 0 would be an open one */
	time = (__u32)now | 1;
	if (flow->closed && time - flow->closed < WINDOW_PAUSE)
		return NOTHING;
	flow->closed = time;
	return headers;
}

/* Notes that updates of this connection may not have been counted. */
INLINE void missed(struct __sk_buff *skb, __u64 connection)
{
	if (connection)
		count(connection, COUNTS_MISSED, skb->ifindex, 0);
}

/*
 * Follows a flow from here on. A function of its own, for the sake of the stack: that of functions which call each other,
 * each rounded up to 32 bytes, is 512 bytes (Linux 6.1 refuses more, where 6.18 does not; tests/bpf/stack.rs).
 */
static __attribute__((noinline)) int follow_from(const struct flow_key *key, __u32 sequence, __u32 counted)
{
	struct flow fresh = { .next = sequence, .keen = sequence, .from = sequence, .counted = counted };

	return bpf_map_update_elem(&flows, key, &fresh, BPF_ANY);
}

/* The number of bytes of a packet to pass. */
static __attribute__((noinline)) int filter(struct __sk_buff *skb, int from_client)
{
	struct flow_key key = {};
	struct segment segment;
	struct flow *flow;
	__u8 tcp[20];
	__u32 protocol;
	/* all ones over IPv6 */
	__u64 where, mask;
	__s64 matters;
	__u64 connection;
	__u32 last, again, sequence;
	int proven, i;

	/* the tag of an outgoing tagged packet stays in its protocol, but its network header is the inner one */
	if (skb->protocol != __builtin_bswap16(IP_PROTOCOL) && skb->protocol != __builtin_bswap16(VLAN_PROTOCOL) &&
	    skb->protocol != __builtin_bswap16(SERVICE_VLAN_PROTOCOL) &&
	    skb->protocol != __builtin_bswap16(IP6_PROTOCOL))
		return NOTHING;
	/*
	 * Loopback packets are seen twice. The outgoing ones of a connection are in order, since their socket is locked
	 * then; incoming ones may overtake each other on different CPUs.
	 */
	if (skb->ifindex == LOOPBACK && (skb->pkt_type == OUTGOING) == !!shared.incoming)
		return NOTHING;
	where = segment_of(skb, from_client);
	if (!where)
		return NOTHING;
	if (where & PASSES)
		return from_client && is_watched(skb->ifindex) ? ALL : NOTHING;
	segment.begin = BEGIN(where);
	if (bpf_skb_load_bytes(skb, segment.begin, tcp, sizeof(tcp)))
		return NOTHING;
	protocol = protocol_of(BIG16(tcp, 2), where >> 63);
	if (protocol < PROTOCOLS) {
		if (!from_client)
			return NOTHING;
	} else {
		protocol = protocol_of(BIG16(tcp, 0), where >> 63);
		if (protocol >= PROTOCOLS)
			return NOTHING;
		/* what the group could not tell apart */
		if (from_client)
			return shared.grouped && is_watched(skb->ifindex) ? ALL : NOTHING;
	}
	if (!is_watched(skb->ifindex))
		return NOTHING;
	/* both have these bytes; without a branch, so that to the verifier keys of both versions look alike */
	if (bpf_skb_load_bytes(skb, 8, key.source, 32))
		return NOTHING;
	__asm__ volatile("%0 = %1" : "=r"(mask) : "r"(where));
	__asm__ volatile("%0 s>>= 63" : "+r"(mask));
	key.source[3] = (key.source[3] & mask) | (key.source[1] & ~mask);
	key.destination[3] = (key.destination[3] & mask) | (key.source[2] & ~mask);
	for (i = 0; i < 3; i++) {
		key.source[i] &= mask;
		key.destination[i] &= mask;
	}
	key.interface = skb->ifindex | (OVER_IP6 & mask);
	__builtin_memcpy(&key.ports, tcp, 4);
	if (tcp[13] & (FIN | SYN | RST)) {
		if (tcp[13] & SYN) {
			if (from_client)
				tell_connect(&shared.connects, &key, tcp, skb->pkt_type == OUTGOING);
			/* another connection of the same ports */
			bpf_map_delete_elem(&flows, &key);
		}
		return ALL;
	}
	segment.begin += (tcp[12] >> 4) * 4;
	segment.end = (__u32)where;
	if (segment.end <= segment.begin)
		return from_client && protocol == CHANNEL_ACCESS ? acknowledges(&key, tcp, segment.begin) : NOTHING;
	/* the recorder puts fragments together: it needs all of each */
	if (protocol == UNKNOWN || where & IS_PART || segment.end > skb->len)
		return ALL;
	segment.sequence = BIG32(tcp, 4);
	segment.counted_as = !from_client && protocol == CHANNEL_ACCESS ? counted_as(&key) : 0;
	flow = bpf_map_lookup_elem(&flows, &key);
	if (!flow || flow->lost) {
		__u32 counted = flow ? flow->counted : segment.sequence;

		if (!is_beginning(skb, &segment, protocol, from_client)) {
			missed(skb, segment.counted_as);
			return ALL;
		}
		follow_from(&key, segment.sequence, counted);
		flow = bpf_map_lookup_elem(&flows, &key);
		if (!flow)
			return ALL;
	}
	again = from_client ? 0 : sent_again(flow, &segment);
	/* beside bulk it stays out */
	if (again >= segment.end - segment.begin)
		return flow->left_out ? NOTHING : ALL;
	sequence = segment.sequence;
	segment.sequence += again;
	segment.begin += again;
	proven = flow->proofs >= PROVEN;
	connection = segment.counted_as;
	/* what was counted is sent again, and perhaps more behind it */
	if (BEFORE(segment.sequence, flow->counted)) {
		missed(skb, connection);
		segment.counted_as = 0;
	}
	matters = follow(skb, flow, &segment, protocol, from_client);
	last = segment.sequence + (segment.end - segment.begin);
	if (BEFORE(flow->counted, last))
		flow->counted = last;
	if (matters < 0) {
		missed(skb, connection);
		flow->lost = 1;
		return ALL;
	}
	if (!proven) {
		flow->left_out = 0;
		return ALL;
	}
	if (!matters) {
		flow->left_out += segment.end - segment.begin;
		if (flow->left_out < LEFT_OUT_MOST)
			return NOTHING;
		flow->left_out = 0;
		place(&key, sequence, flow->before == NO_PLACE ? NO_PLACE : flow->before + again);
		return segment.begin;
	}
	place(&key, sequence, flow->before == NO_PLACE ? NO_PLACE : flow->before + again);
	flow->left_out = segment.end - (__u32)matters;
	return flow->left_out ? (int)matters : ALL;
}

SEC("socket")
int of_clients(struct __sk_buff *skb)
{
	return filter(skb, 1);
}

SEC("socket")
int of_servers(struct __sk_buff *skb)
{
	return filter(skb, 0);
}

/*
 * The programs that sockets have only go on with these. For the instructions of a socket's own program count as its option
 * memory, and before Linux 6.8 a socket has 20 KiB of that (net.core.optmem_max): these would be refused.
 */
struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 2);
	__uint(key_size, sizeof(__u32));
	__array(values, int(struct __sk_buff *));
} whole SEC(".maps") = { .values = { of_clients, of_servers } };

SEC("socket")
int requests(struct __sk_buff *skb)
{
	bpf_tail_call(skb, &whole, 0);
	return NOTHING;
}

SEC("socket")
int answers(struct __sk_buff *skb)
{
	bpf_tail_call(skb, &whole, 1);
	return NOTHING;
}

char _license[] SEC("license") = "Dual BSD/GPL";
