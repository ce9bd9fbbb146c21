/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * What every program needs: the kernel's types and helpers, registers, and the rules of old verifiers.
 */
#ifndef IOCREC_PROGRAM_H
#define IOCREC_PROGRAM_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include "registers.h"

#define INLINE static __attribute__((always_inline))

/*
 * Kernel 4.4 forgets that a pointer has been compared with NULL where the compiler keeps it on the stack from before.
 * A NULL that comes from there is a number that may be anything, to 4.9 even one in a register. So what is looked up is
 * compared at once, everywhere; what is NULL leaves by a way of its own, and the rest is COMPARED: a copy that the
 * compiler does not know for one, so that all that it keeps of the pointer from here on, in other registers or on the
 * stack, comes from the register that has been compared.
 */
#define COMPARED(pointer) __asm__ volatile("%0 = %1" : "=r"(pointer) : "r"(pointer))

/* Reads a pointer of the process; what cannot be read is 0. */
INLINE __u64 read_pointer(__u64 from)
{
	__pointer pointer = 0;

	bpf_probe_read_user(&pointer, sizeof(pointer), (void *)from);
	return pointer;
}

#endif
