//! Finds the first instruction of an x86 function that the kernel emulates.
//!
//! A compiler may test an argument or load a variable before it saves registers: 3.14's `post_event` begins with
//! `mov scanCtl,%eax; cmp $1,%eax; je`. The kernel would single-step a probe on the first of these, but not one on the
//! jump. A probe there is just as good if the skipped instructions change neither the program's input (arguments, stack
//! pointer, return address) nor the flow of control: then every call passes it, and the hit is the same.
//!
//! So an instruction is skipped only if it is known here, byte by byte, to write nothing but flags or a register that
//! holds no argument. At any other, the search ends and the probe goes to the beginning. The length of each skipped
//! instruction is known exactly, so the place found is never inside an instruction.

/// Registers by their numbers in instructions (Intel SDM 2, table 2-2): rcx, rdx, rsp, rsi, rdi.
const CX: u8 = 1;
const DX: u8 = 2;
const SP: u8 = 4;
const SI: u8 = 6;
const DI: u8 = 7;

/// Registers of the first arguments, System V calling convention of x86_64. On i386 arguments are on the stack, to
/// which no skipped instruction writes.
const ARGUMENTS: [u8; 4] = [DI, SI, DX, CX];

/// Bytes of nops of five bytes, and of ten and more, where a function begins, on which no probe is placed (`instruction`): room
/// for a call. Further on they would be padding before a loop, whose instructions each call may carry out several times.
pub fn room(code: &[u8]) -> usize {
    match code {
        [0x0f, 0x1f, 0x44, ..] => 5,
        // clang's (-fpatchable-function-entry), with more prefixes for some processors
        [0x2e, 0x66, 0x0f, 0x1f, 0x84, _, _, _, _, _, rest @ ..] => 10 + room(rest),
        [0x66, rest @ ..] => match room(rest) {
            more @ 10.. => 1 + more,
            _ => 0,
        },
        _ => 0,
    }
}

/// Bytes before the first instruction that the kernel emulates; `None` if an instruction before it cannot be skipped,
/// or the code ends before. `arguments` is the number of arguments that must be unchanged.
pub fn emulated(is_64bit: bool, arguments: usize, code: &[u8]) -> Option<usize> {
    let mut at = room(code);
    loop {
        let rest = code.get(at..)?;
        if is_emulated(is_64bit, rest) {
            return Some(at);
        }
        let Skipped { bytes, writes } = skipped(is_64bit, rest)?;
        let is_kept = |register| {
            let kept = if is_64bit { ARGUMENTS.get(..arguments).unwrap_or(&ARGUMENTS) } else { &[] };
            register == SP || kept.contains(&register)
        };
        if writes.is_some_and(is_kept) {
            return None;
        }
        at += bytes;
    }
}

/// Whether the kernel emulates the instruction (uprobe setup of arch/x86/kernel/uprobes.c: branches since 3.16, `push`
/// since 4.16). Covers all jumps except those through registers and memory, with which no function begins.
fn is_emulated(is_64bit: bool, code: &[u8]) -> bool {
    match code {
        // push, and with REX.B push r8..r15
        [0x50..=0x57, ..] => true,
        [0x41, 0x50..=0x57, ..] => is_64bit,
        // nop, 66 nop, 0f 1f /0
        [0x90, ..] | [0x66, 0x90, ..] | [0x66, 0x0f, 0x1f, ..] => true,
        [0x0f, 0x1f, operands, ..] => *operands != 0x44,
        // jcc, jmp
        [0x70..=0x7f, _, ..] | [0xeb, _, ..] => true,
        [0x0f, 0x80..=0x8f, _, _, _, _, ..] | [0xe9, _, _, _, _, ..] => true,
        _ => false,
    }
}

/// An instruction that may be skipped.
struct Skipped {
    bytes: usize,
    /// The register that it writes to.
    writes: Option<u8>,
}

/// Decodes an instruction that only compares or sets a register (Intel SDM 2); `None` for any other.
fn skipped(is_64bit: bool, code: &[u8]) -> Option<Skipped> {
    // 16 bits wide: only comparisons whose length this prefix leaves as it is
    let (wide, code) = match code {
        [0x66, rest @ ..] => (false, rest),
        _ => (true, code),
    };
    let (rex, code, prefix) = match code {
        [rex @ 0x40..=0x4f, rest @ ..] if is_64bit => (*rex, rest, 1),
        _ => (0, code, 0),
    };
    let [operation, rest @ ..] = code else { return None };
    if !wide && !matches!(operation, 0x39 | 0x3b | 0x83 | 0x85) {
        return None;
    }
    let operand = || Operands::read(rex, rest);
    let (bytes, writes) = match operation {
        // test r/m,r; cmp r/m,r; cmp r,r/m
        0x84 | 0x85 | 0x38..=0x3b => (operand()?.bytes, None),
        // cmp r/m,imm8; test r/m8,imm8 (there /0)
        0x80 | 0x83 => (operand().filter(|operands| operands.digit == 7)?.bytes + 1, None),
        0xf6 => (operand().filter(|operands| operands.digit == 0)?.bytes + 1, None),
        // cmp r/m,imm32; test r/m,imm32
        0x81 => (operand().filter(|operands| operands.digit == 7)?.bytes + 4, None),
        0xf7 => (operand().filter(|operands| operands.digit == 0)?.bytes + 4, None),
        // cmp and test of al and eax
        0x3c | 0xa8 => (1, None),
        0x3d | 0xa9 => (4, None),
        // mov r,r/m; xor r,r/m; movslq
        0x8b | 0x33 => set(operand()?),
        0x63 if is_64bit => set(operand()?),
        // lea
        0x8d => set(operand().filter(|operands| operands.other.is_none())?),
        // mov r/m,r; xor r/m,r: between registers
        0x89 | 0x31 => (operand()?.bytes, Some(operand()?.other?)),
        // movzx, movsx
        0x0f => match rest {
            [0xb6 | 0xb7 | 0xbe | 0xbf, rest @ ..] => {
                let operands = Operands::read(rex, rest)?;
                (1 + operands.bytes, Some(operands.register))
            }
            _ => return None,
        },
        // mov r,imm: with REX.W all 64 bits of the immediate
        0xb8..=0xbf => {
            let register = (operation & 7) | (rex & 1) << 3;
            (if rex & 8 == 0 { 4 } else { 8 }, Some(register))
        }
        _ => return None,
    };
    let bytes = prefix + 1 + bytes;
    // the instruction must be complete
    (bytes <= prefix + code.len()).then_some(Skipped { bytes: bytes + usize::from(!wide), writes })
}

/// Bytes after the opcode, and the register that the instruction sets.
fn set(operands: Operands) -> (usize, Option<u8>) {
    (operands.bytes, Some(operands.register))
}

/// Operands encoded by the ModRM byte.
struct Operands {
    /// Of ModRM, SIB and displacement.
    bytes: usize,
    /// The register operand.
    register: u8,
    /// The same bits as part of the opcode.
    digit: u8,
    /// The other operand; `None` if it is in memory.
    other: Option<u8>,
}

impl Operands {
    fn read(rex: u8, code: &[u8]) -> Option<Operands> {
        let [modrm, rest @ ..] = code else { return None };
        let (mode, digit, base) = (modrm >> 6, modrm >> 3 & 7, modrm & 7);
        let (sib, base) = match (mode, base) {
            (0..=2, 4) => (1, rest.first()? & 7),
            _ => (0, base),
        };
        let displacement = match (mode, base) {
            (1, _) => 1,
            (2, _) | (0, 5) => 4,
            _ => 0,
        };
        let other = (mode == 3).then_some(base | (rex & 1) << 3);
        Some(Operands { bytes: 1 + sib + displacement, register: digit | (rex & 4) << 1, digit, other })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Beginnings of functions in builds by gcc 10 to 12.
    #[test]
    fn what_base_begins_functions_with() {
        let at = |code: &[u8]| emulated(true, 1, code);
        assert_eq!(at(&[0x48, 0x85, 0xff, 0x0f, 0x84, 0xb7, 0, 0, 0]), Some(3), "3.14 callbackRequest");
        let post_event = [0x8b, 0x05, 0x4a, 0x44, 0x02, 0, 0x83, 0xf8, 0x01, 0x74, 0x05, 0xc3];
        assert_eq!(at(&post_event), Some(9), "3.14 post_event, scanIoRequest; 7.0.3 postEvent");
        let post_event = [0x8b, 0x05, 0xee, 0x06, 0x06, 0, 0x48, 0x85, 0xff, 0x74, 0x35];
        assert_eq!(at(&post_event), Some(9), "7.0.10 postEvent");
        assert_eq!(at(&[0x31, 0xd2, 0x31, 0xf6, 0xe9, 1, 2, 3, 4]), Some(4), "7.0 scanOnce");
        assert_eq!(emulated(true, 2, &[0x31, 0xd2, 0x31, 0xf6, 0xe9, 1, 2, 3, 4]), None, "esi is needed");
        let scan_io_request = [0x8b, 0x15, 0x32, 0xa5, 0x23, 0, 0x31, 0xc0, 0x83, 0xfa, 0x01, 0x74, 0x03];
        assert_eq!(at(&scan_io_request), Some(11), "7.0.3 scanIoRequest");
        assert_eq!(emulated(true, 3, &scan_io_request), None, "edx is needed");
        let put_callback =
            [0xb8, 3, 0, 0xff, 1, 0x66, 0x83, 0xfe, 0x26, 0x0f, 0x87, 0x49, 2, 0, 0, 0x41, 0x57];
        assert_eq!(emulated(true, 4, &put_callback), Some(9), "dbCaPutLinkCallback since 7.0.8");
        assert_eq!(emulated(true, 4, &[0x66, 0x41, 0x83, 0xf8, 0x26, 0x77, 1]), Some(5), "cmp $0x26,%r8w");
        assert_eq!(at(&[0x41, 0x57]), Some(0), "push %r15");
        assert_eq!(at(&[0x41, 0x89, 0xf7, 0x41, 0x56]), Some(3), "mov %esi,%r15d; push %r14");
        assert_eq!(at(&[0x0f, 0x1f, 0x44, 0, 0, 0x55]), Some(5), "room for a call (-mnop-mcount); push");
        assert_eq!(at(&[0x31, 0xc0, 0x0f, 0x1f, 0x40, 0, 0x74, 0xf8]), Some(2), "xor; padding; je");
        assert_eq!(
            at(&[0x31, 0xc0, 0x0f, 0x1f, 0x44, 0, 0, 0x74, 0xf8]),
            None,
            "xor; padding of five bytes; je"
        );
        assert_eq!(at(&[0x0f, 0x1f, 0x44, 0, 0]), None, "room alone");
    }

    /// clang 14 with -fpatchable-function-entry=10 and more.
    #[test]
    fn room_for_more_than_a_call() {
        let ten = [0x2e, 0x66, 0x0f, 0x1f, 0x84, 0, 0, 2, 0, 0];
        for (rest, more, what) in [
            (&[0x50][..], 0, "push %rax"),
            (&[0x90, 0x50], 0, "nop; push"),
            (&[0x0f, 0x1f, 0x44, 0, 0x08, 0x50], 5, "nopl of five bytes; push"),
            (&[0x31, 0xc0, 0xeb, 0x01], 2, "xor; jmp"),
        ] {
            let code = [&ten[..], rest].concat();
            assert_eq!(emulated(true, 4, &code), Some(10 + more), "{what}");
            let longer = [&[0x66; 5][..], &code].concat();
            assert_eq!(emulated(true, 4, &longer), Some(15 + more), "{what}");
        }
        assert_eq!(room(&[0x66, 0x90]), 0);
        assert_eq!(room(&ten[..9]), 0, "cut");
    }

    #[test]
    fn nothing_that_matters_is_skipped() {
        let at = |code: &[u8]| emulated(true, 4, code);
        for (code, why) in [
            (&[0x48, 0x83, 0xec, 0x08, 0x53][..], "sub $8,%rsp"),
            (&[0x48, 0x89, 0xdc, 0x53], "mov %rbx,%rsp"),
            (&[0x48, 0x8d, 0x64, 0x24, 0xf8, 0x53], "lea -8(%rsp),%rsp"),
            (&[0x48, 0x89, 0xc7, 0x53], "mov %rax,%rdi"),
            (&[0x48, 0x8b, 0x7f, 0x10, 0x53], "mov 0x10(%rdi),%rdi"),
            (&[0x48, 0x63, 0xc9, 0x53], "movslq %ecx,%rcx"),
            (&[0xbe, 1, 0, 0, 0, 0x53], "mov $1,%esi"),
            (&[0x48, 0x89, 0x07, 0x53], "mov %rax,(%rdi)"),
            (&[0x83, 0x07, 0x01, 0x53], "addl $1,(%rdi)"),
            (&[0xf7, 0xd8, 0x53], "neg %eax"),
            (&[0xe8, 0, 0, 0, 0, 0x53], "call"),
            (&[0xc3, 0x53], "ret"),
            (&[0x58, 0x53], "pop %rax"),
            (&[0xf0, 0x85, 0xc0, 0x53], "a prefix"),
            (&[0x66, 0x81, 0xfe, 0x26, 0, 0x53], "a prefix that changes the length of the immediate"),
            (&[0x66, 0x89, 0xc6, 0x53], "mov %ax,%si"),
            (&[0x66, 0x66, 0x85, 0xc0, 0x53], "two prefixes"),
            (&[0x41, 0x66, 0x85, 0xc0, 0x53], "a REX that the prefix makes void"),
            (&[0x85], "cut"),
            (&[0x8b, 0x05, 1, 2], "cut"),
            (&[0x85, 0xc0], "nothing emulated follows"),
            (&[0x0f, 0x84, 1], "a jump that is cut"),
            (&[], "nothing"),
        ] {
            assert_eq!(at(code), None, "{why}");
        }
        // registers without arguments may be set
        assert_eq!(at(&[0x49, 0x89, 0xfa, 0x53]), Some(3), "mov %rdi,%r10");
        assert_eq!(at(&[0x48, 0x89, 0xf8, 0x53]), Some(3), "mov %rdi,%rax");
        assert_eq!(at(&[0x4c, 0x8b, 0x54, 0xf7, 0x10, 0x53]), Some(5), "mov 0x10(%rdi,%rsi,8),%r10");
        assert_eq!(at(&[0x48, 0x8b, 0x04, 0x25, 1, 2, 3, 4, 0x53]), Some(8), "mov 0x4030201,%rax");
        assert_eq!(at(&[0x0f, 0xb7, 0x47, 0x24, 0x53]), Some(4), "movzwl 0x24(%rdi),%eax");
        assert_eq!(at(&[0x49, 0xb8, 1, 2, 3, 4, 5, 6, 7, 8, 0x53]), Some(10), "movabs");
        // 32 bits: 48 is `dec %eax` there
        assert_eq!(emulated(false, 4, &[0x48, 0x89, 0xc7, 0x53]), None);
        assert_eq!(emulated(false, 4, &[0x8b, 0x4c, 0x24, 0x04, 0x53]), Some(4), "mov 4(%esp),%ecx");
    }

    proptest! {
        #[test]
        fn no_bytes_panic(code in prop::collection::vec(any::<u8>(), 0..40), is_64bit in any::<bool>(), arguments in 0usize..9) {
            if let Some(at) = emulated(is_64bit, arguments, &code) {
                prop_assert!(at < code.len());
            }
        }
    }
}
