/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * Registers of the traced thread as a uprobe program sees them (struct pt_regs of the running kernel), and the C
 * calling convention on top. Only the members used are declared, with explicit widths: `long` is always 64 bits in a
 * BPF object, whatever it is in the kernel.
 *
 * __pointer is a pointer, __long a `long` of the probed processes, which have the kernel's width. (A 32-bit process on
 * a 64-bit kernel is not probed.)
 */
#ifndef IOCREC_REGISTERS_H
#define IOCREC_REGISTERS_H

#if defined(__TARGET_ARCH_x86)
/* arch/x86/include/asm/ptrace.h, x86_64; System V calling convention */
typedef __u64 __pointer;
typedef __s64 __long;
struct pt_regs {
	__u64 r15, r14, r13, r12, bp, bx, r11, r10, r9, r8;
	__u64 ax, cx, dx, si, di, orig_ax, ip, cs, flags, sp, ss;
};
#define ARGUMENT1(regs) ((regs)->di)
#define ARGUMENT2(regs) ((regs)->si)
#define ARGUMENT3(regs) ((regs)->dx)
#define ARGUMENT4(regs) ((regs)->cx)
#define STACK_POINTER(regs) ((regs)->sp)
#define INSTRUCTION_POINTER(regs) ((regs)->ip)
/* `call` has just pushed the caller's address; a probe after endbr64 still finds it there. */
#define RETURN_ADDRESS(into, regs) bpf_probe_read_user(into, sizeof(__u64), (void *)(regs)->sp)
/* The word at the stack pointer of a frame that was entered earlier. */
#define AT_STACK_POINTER(into, sp) bpf_probe_read_user(into, sizeof(__u64), (void *)(sp))
/* Whether that word shows if the frame still lives: it is the return address then. */
#define SHOWS_FRAMES 1

#elif defined(__TARGET_ARCH_arm64)
/* arch/arm64/include/uapi/asm/ptrace.h, struct user_pt_regs; AAPCS64 */
typedef __u64 __pointer;
typedef __s64 __long;
struct pt_regs {
	__u64 regs[31], sp, pc, pstate;
};
#define ARGUMENT1(r) ((r)->regs[0])
#define ARGUMENT2(r) ((r)->regs[1])
#define ARGUMENT3(r) ((r)->regs[2])
#define ARGUMENT4(r) ((r)->regs[3])
#define STACK_POINTER(r) ((r)->sp)
#define INSTRUCTION_POINTER(r) ((r)->pc)
/*
 * A probe after paciasp finds the address signed: the signature lies above its 48 bits (no program is loaded further up), and
 * differs from call to call.
 */
#define RETURN_ADDRESS(into, r) (*(into) = (r)->regs[30] & 0xffffffffffffull, 0)
/* At entry the return address is in a register; the place where the function saves it is unknown. */
#define AT_STACK_POINTER(into, sp) (-1)
#define SHOWS_FRAMES 0

#elif defined(__TARGET_ARCH_riscv)
/* arch/riscv/include/uapi/asm/ptrace.h, struct user_regs_struct; LP64D calling convention */
typedef __u64 __pointer;
typedef __s64 __long;
struct pt_regs {
	__u64 pc, ra, sp, gp, tp, t0, t1, t2, s0, s1;
	__u64 a0, a1, a2, a3, a4, a5, a6, a7;
};
#define ARGUMENT1(regs) ((regs)->a0)
#define ARGUMENT2(regs) ((regs)->a1)
#define ARGUMENT3(regs) ((regs)->a2)
#define ARGUMENT4(regs) ((regs)->a3)
#define STACK_POINTER(regs) ((regs)->sp)
#define INSTRUCTION_POINTER(regs) ((regs)->pc)
#define RETURN_ADDRESS(into, regs) (*(into) = (regs)->ra, 0)
#define AT_STACK_POINTER(into, sp) (-1) /* as arm64 */
#define SHOWS_FRAMES 0

#elif defined(__TARGET_ARCH_arm)
/* arch/arm/include/uapi/asm/ptrace.h: r0 to r15; AAPCS. (libbpf's PT_REGS_IP reads r12 there.) */
typedef __u32 __pointer;
typedef __s32 __long;
struct pt_regs {
	__u32 uregs[18];
};
#define ARGUMENT1(regs) ((regs)->uregs[0])
#define ARGUMENT2(regs) ((regs)->uregs[1])
#define ARGUMENT3(regs) ((regs)->uregs[2])
#define ARGUMENT4(regs) ((regs)->uregs[3])
#define STACK_POINTER(regs) ((regs)->uregs[13])
#define RETURN_ADDRESS(into, regs) (*(into) = (regs)->uregs[14], 0)
#define AT_STACK_POINTER(into, sp) (-1) /* as arm64 */
#define SHOWS_FRAMES 0

#elif defined(__TARGET_ARCH_i386)
/* arch/x86/include/asm/ptrace.h, 32 bits; the arguments lie on the stack above the return address */
typedef __u32 __pointer;
typedef __s32 __long;
struct pt_regs {
	__u32 bx, cx, dx, si, di, bp, ax, ds, es, fs, gs, orig_ax, ip, cs, flags, sp, ss;
};
static inline __attribute__((always_inline)) __u32 stack_word(struct pt_regs *regs, __u32 number)
{
	__u32 word = 0;

	bpf_probe_read_user(&word, sizeof(word), (void *)(__u64)(regs->sp + 4 * number));
	return word;
}
#define ARGUMENT1(regs) stack_word(regs, 1)
#define ARGUMENT2(regs) stack_word(regs, 2)
#define ARGUMENT3(regs) stack_word(regs, 3)
#define ARGUMENT4(regs) stack_word(regs, 4)
#define STACK_POINTER(regs) ((regs)->sp)
#define RETURN_ADDRESS(into, regs) (*(into) = stack_word(regs, 0), 0)
/* the low half of a variable that is zero before */
#define AT_STACK_POINTER(into, sp) bpf_probe_read_user(into, sizeof(__u32), (void *)(sp))
#define SHOWS_FRAMES 1

#else
#error "no register layout for this architecture"
#endif

#endif
