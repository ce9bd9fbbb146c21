/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * By what the packet filter tells connections apart.
 */
#ifndef IOCREC_FLOWS_H
#define IOCREC_FLOWS_H

#include "program.h"

/*
 * One direction of a connection, on an interface: a packet may pass several. Addresses and ports as in the packet; an IPv4
 * address is the last word, the others are 0.
 */
struct flow_key {
	__u32 source[4];
	__u32 destination[4];
	__u32 ports;
	/* With OVER_IP6. */
	__u32 interface;
};
#define OVER_IP6 (1u << 31)

#endif
