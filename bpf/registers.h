/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * Registers of the traced thread as an uprobe program sees them (struct pt_regs of the running
 * kernel), and the C calling convention on top: the few words used, declared with explicit widths
 * because `long` is always 64 bits in a BPF object whatever the kernel's is.
 */
#ifndef IOCREC_REGISTERS_H
#define IOCREC_REGISTERS_H

#if defined(__TARGET_ARCH_x86)
/* arch/x86/include/asm/ptrace.h, x86_64; System V calling convention */
struct pt_regs {
	__u64 r15, r14, r13, r12, bp, bx, r11, r10, r9, r8;
	__u64 ax, cx, dx, si, di, orig_ax, ip, cs, flags, sp, ss;
};
#define ARGUMENT1(regs) ((regs)->di)
#define ARGUMENT2(regs) ((regs)->si)
#define ARGUMENT3(regs) ((regs)->dx)
#define ARGUMENT4(regs) ((regs)->cx)
#define STACK_POINTER(regs) ((regs)->sp)
/* The caller's address was just pushed by `call`; a probe behind endbr64 still finds it there. */
#define RETURN_ADDRESS(into, regs) bpf_probe_read_user(into, sizeof(__u64), (void *)(regs)->sp)

#elif defined(__TARGET_ARCH_arm64)
/* arch/arm64/include/uapi/asm/ptrace.h, struct user_pt_regs; AAPCS64 */
struct pt_regs {
	__u64 regs[31], sp, pc, pstate;
};
#define ARGUMENT1(r) ((r)->regs[0])
#define ARGUMENT2(r) ((r)->regs[1])
#define ARGUMENT3(r) ((r)->regs[2])
#define ARGUMENT4(r) ((r)->regs[3])
#define STACK_POINTER(r) ((r)->sp)
#define RETURN_ADDRESS(into, r) (*(into) = (r)->regs[30], 0)

#else
#error "no register layout for this architecture"
#endif

#endif
