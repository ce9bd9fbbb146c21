/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * Common to all programs: the kernel's types and helpers, registers, and the rules of old verifiers.
 */
#ifndef IOCREC_PROGRAM_H
#define IOCREC_PROGRAM_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include "registers.h"

#define INLINE static inline __attribute__((always_inline))

/*
 * Kernel 4.4 does not notice that a pointer has been compared with NULL if the compiler spilled it to the stack before.
 * To 4.4 a NULL from the stack is an arbitrary number, to 4.9 even one in a register. So every pointer looked up is
 * compared at once; NULL takes a separate path, and any other pointer is COMPARED: copied without the compiler's
 * knowledge, so that all its later copies, in other registers or on the stack, come from the register that was
 * compared.
 */
#define COMPARED(pointer) __asm__ volatile("%0 = %1" : "=r"(pointer) : "r"(pointer))

/* Reads a pointer of the process; 0 if it cannot be read. */
INLINE __u64 read_pointer(__u64 from)
{
	__pointer pointer = 0;

	bpf_probe_read_user(&pointer, sizeof(pointer), (void *)from);
	return pointer;
}

#endif
