//! Lengths of the x86 instructions with which functions begin.
//!
//! Only these are accepted: moves, arithmetic, tests, pushes, branches, moves of SSE and AVX. Anything else has no
//! length here: prefixes such as `lock`, string instructions, breakpoints, system instructions, and most data. Tables:
//! Intel SDM volume 2, appendix A ("opcode map").

/// The bytes after an opcode.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Follows {
    /// Nothing.
    Nothing,
    /// A ModRM byte, with the SIB byte and displacement that it requires.
    ModRm,
    /// The same and an immediate of this size, bytes.
    ModRmAnd(usize),
    /// An immediate of this size, bytes.
    Number(usize),
}

use Follows::{ModRm, ModRmAnd, Nothing, Number};

/// Length of the first instruction of `code`, in bytes; `None` if it is unknown here, or cut off.
pub fn length(code: &[u8], is_64bit: bool) -> Option<usize> {
    let mut rest = code;
    let (mut short, mut vector, mut long, mut nop) = (false, false, false, false);
    while let Some((&prefix, behind)) = rest.split_first() {
        match prefix {
            0x66 if !short => short = true,
            // of the instructions known here only SSE's have these
            0xf2 | 0xf3 if !vector => vector = true,
            // fs, gs: for the stack protector
            0x64 | 0x65 if rest.len() == code.len() => {}
            _ => break,
        }
        rest = behind;
    }
    if let (true, Some((rex @ 0x40..=0x4f, behind))) = (is_64bit, rest.split_first()) {
        // xchg %r8,%rax, which kernels take for a nop, as it is without this prefix
        if rex & 1 != 0 && behind.first() == Some(&0x90) {
            return None;
        }
        long = rex & 8 != 0;
        rest = behind;
    }
    let number = if short && !long { 2 } else { 4 };
    let (&opcode, mut rest) = rest.split_first()?;
    let follows = match opcode {
        0x0f => {
            let (&second, behind) = rest.split_first()?;
            rest = behind;
            nop = second == 0x1f;
            two_bytes(second, vector)?
        }
        // on 64 bits always VEX; on 32 bits only if the operand is not memory (lds, les)
        0xc4 | 0xc5 if !short && !vector && (is_64bit || *rest.first()? >= 0xc0) => {
            let bytes = if opcode == 0xc5 { 1 } else { 2 };
            // of the three-byte form, only the map of the two-byte form (0F)
            if opcode == 0xc4 && rest.first()? & 0x1f != 1 {
                return None;
            }
            let (&second, behind) = rest.get(bytes..)?.split_first()?;
            rest = behind;
            Some(two_bytes(second, true)?).filter(|follows| matches!(follows, ModRm | ModRmAnd(_)))?
        }
        _ if vector => return None,
        _ => one_byte(opcode, rest.first().copied(), number, is_64bit, long)?,
    };
    let operands = match follows {
        Nothing => 0,
        Number(bytes) => bytes,
        ModRm => mod_rm(rest)?,
        ModRmAnd(bytes) => mod_rm(rest)? + bytes,
    };
    let length = code.len() - rest.len() + operands;
    // from 6.18 on kernels turn a nop of five bytes into a call to a page that a forked child lacks: it would crash there
    (length <= code.len().min(15) && !(nop && length == 5)).then_some(length)
}

/// Opcodes of one byte. `next` is the following byte, `number` the size of an immediate.
fn one_byte(opcode: u8, next: Option<u8>, number: usize, is_64bit: bool, long: bool) -> Option<Follows> {
    // in groups bits 3 to 5 of ModRM select the instruction
    let group = next.map(|byte| byte >> 3 & 7);
    Some(match opcode {
        // add, or, adc, sbb, and, sub, xor, cmp
        0x00..=0x3f if opcode & 7 < 4 => {
            // no function begins with zeroes (add %al, (%rax))
            if opcode == 0 {
                return None;
            }
            ModRm
        }
        0x00..=0x3f if opcode & 7 == 4 => Number(1),
        0x00..=0x3f if opcode & 7 == 5 => Number(number),
        // inc, dec in 32-bit code
        0x40..=0x4f if !is_64bit => Nothing,
        // push
        0x50..=0x57 => Nothing,
        // movslq
        0x63 if is_64bit => ModRm,
        0x68 => Number(number),
        0x6a => Number(1),
        // imul
        0x69 => ModRmAnd(number),
        0x6b => ModRmAnd(1),
        // jcc
        0x70..=0x7f => Number(1),
        0x80 | 0x83 => ModRmAnd(1),
        0x81 => ModRmAnd(number),
        // test, mov, lea
        0x84 | 0x85 | 0x88..=0x8b | 0x8d => ModRm,
        // nop, cltq, cltd
        0x90 | 0x98 | 0x99 => Nothing,
        // mov from or to an absolute address: in 64-bit code of the large model
        0xa0..=0xa3 => Number(if is_64bit { 8 } else { 4 }),
        0xa8 => Number(1),
        0xa9 => Number(number),
        0xb0..=0xb7 => Number(1),
        0xb8..=0xbf => Number(if long { 8 } else { number }),
        // shifts
        0xc0 | 0xc1 => ModRmAnd(1),
        0xd0..=0xd3 => ModRm,
        // ret
        0xc3 => Nothing,
        0xc6 if group == Some(0) => ModRmAnd(1),
        0xc7 if group == Some(0) => ModRmAnd(number),
        // jmp; call in 32-bit code: kernels leave out the part of a call that concerns a shadow stack, so the next return would
        // end a 64-bit process that has one (Linux 6.6 to 7.1)
        0xe9 if number == 4 => Number(4),
        0xe8 if number == 4 && !is_64bit => Number(4),
        0xeb => Number(1),
        // test; not, neg, mul, imul, div, idiv
        0xf6 if group <= Some(1) => ModRmAnd(1),
        0xf7 if group <= Some(1) => ModRmAnd(number),
        0xf6 | 0xf7 => ModRm,
        // inc, dec
        0xfe if group <= Some(1) => ModRm,
        // inc, dec, jmp, push; no call, as above
        0xff if matches!(group, Some(0 | 1 | 4 | 6)) => ModRm,
        _ => return None,
    })
}

/// Opcodes after 0F; `vector` means with an SSE prefix.
fn two_bytes(opcode: u8, vector: bool) -> Option<Follows> {
    Some(match opcode {
        // moves, conversions and arithmetic of SSE
        0x10..=0x17 | 0x28..=0x2f | 0x50..=0x6f | 0x74..=0x76 | 0x7e | 0x7f => ModRm,
        0xd0..=0xef | 0xf1..=0xfe => ModRm,
        0x70 | 0xc2 | 0xc6 => ModRmAnd(1),
        // tzcnt, lzcnt, popcnt
        0xb8 | 0xbc | 0xbd if vector => ModRm,
        _ if vector => return None,
        // nop; cmov; set; bt; movzx, movsx; imul
        0x1f | 0x40..=0x4f | 0x90..=0x9f | 0xa3 | 0xaf | 0xb6 | 0xb7 | 0xbc..=0xbf => ModRm,
        0xba => ModRmAnd(1),
        // jcc
        0x80..=0x8f => Number(4),
        _ => return None,
    })
}

/// Bytes of a ModRM byte with SIB and displacement (32- and 64-bit addresses).
fn mod_rm(code: &[u8]) -> Option<usize> {
    let (&mod_rm, rest) = code.split_first()?;
    let (mode, register) = (mod_rm >> 6, mod_rm & 7);
    let with_index = mode != 3 && register == 4;
    let base = if with_index { *rest.first()? & 7 } else { register };
    let displacement = match mode {
        0 if base == 5 => 4,
        1 => 1,
        2 => 4,
        _ => 0,
    };
    Some(1 + usize::from(with_index) + displacement)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::not_run::{not_run, Needs};

    #[test]
    fn beginnings_of_functions() {
        for (code, is_64bit) in [
            (&[0x55][..], true),
            (&[0x41, 0x57], true),
            (&[0x48, 0x83, 0xec, 0x18], true),          // sub $0x18,%rsp
            (&[0x48, 0x81, 0xec, 0x98, 0, 0, 0], true), // sub $0x98,%rsp
            (&[0x8b, 0x15, 0x32, 0xa5, 0x23, 0], true), // mov 0x23a532(%rip),%edx
            (&[0x48, 0x63, 0x4f, 0x30], true),          // movslq 0x30(%rdi),%rcx
            (&[0x31, 0xd2], true),                      // xor %edx,%edx
            (&[0x48, 0x8b, 0x04, 0x25, 0x10, 0, 0, 0], true), // mov 0x10,%rax
            (&[0x64, 0x48, 0x8b, 0x04, 0x25, 0x28, 0, 0, 0], true), // mov %fs:0x28,%rax
            (&[0x48, 0xb8, 1, 2, 3, 4, 5, 6, 7, 8], true), // movabs
            (&[0xb8, 1, 0, 0, 0], true),                // mov $1,%eax
            (&[0x66, 0xb8, 1, 0], true),                // mov $1,%ax
            (&[0x66, 0x0f, 0xef, 0xc0], true),          // pxor
            (&[0xf2, 0x0f, 0x10, 0x07], true),          // movsd (%rdi),%xmm0
            (&[0xc5, 0xfb, 0x10, 0x07], true),          // vmovsd (%rdi),%xmm0
            (&[0xc4, 0xe1, 0xfb, 0x2c, 0xc0], true),    // vcvttsd2si
            (&[0xf6, 0x47, 0x10, 1], true),             // testb $1,0x10(%rdi)
            (&[0xf7, 0xdf], true),                      // neg
            (&[0xa1, 1, 2, 3, 4, 5, 6, 7, 8], true),    // movabs 0x807060504030201,%eax
            (&[0xe9, 0x20, 0, 0, 0], true),             // jmp
            (&[0x0f, 0x84, 0x20, 0, 0, 0], true),       // je
            (&[0x83, 0xec, 0x1c], false),               // sub $0x1c,%esp
            (&[0x8b, 0x44, 0x24, 0x04], false),         // mov 4(%esp),%eax
            (&[0x8d, 0x4c, 0x24, 0x04], false),         // lea 4(%esp),%ecx
            (&[0xa1, 0x10, 0x20, 0x30, 0x40], false),   // mov 0x40302010,%eax
            (&[0xe8, 0x20, 0, 0, 0], false),            // call __x86.get_pc_thunk
        ] {
            let behind = [code, &[0x90; 15]].concat();
            assert_eq!(length(&behind, is_64bit), Some(code.len()), "{code:x?}");
            assert!((0..code.len()).all(|cut| length(&code[..cut], is_64bit).is_none()), "{code:x?}, cut");
        }
    }

    #[test]
    fn what_functions_do_not_begin_with() {
        for code in [
            &[0xcc][..],               // int3
            &[0xf0, 0x01, 0x07],       // lock add
            &[0x00, 0x00],             // zeroes
            &[0x0f, 0x0b],             // ud2
            &[0x0f, 0x05],             // syscall
            &[0xcd, 0x80],             // int
            &[0xf4],                   // hlt
            &[0xf3, 0xa4],             // rep movsb
            &[0x66, 0x66, 0x66, 0x90], // more prefixes than are needed
            &[0x6c],
            &[0xe4, 1],
            &[0xea],
            &[0xfa],
        ] {
            let behind = [code, &[0x90; 15]].concat();
            assert_eq!(length(&behind, true), None, "{code:x?}");
        }
    }

    /// What kernels carry out otherwise than a processor.
    #[test]
    fn what_a_probe_would_change() {
        for (code, what) in [
            (&[0xe8, 0x20, 0, 0, 0][..], "call, of a process that has a shadow stack"),
            (&[0xff, 0xd0], "call *%rax"),
            (&[0xff, 0x15, 0x10, 0, 0, 0], "call *0x10(%rip)"),
            (&[0x41, 0x90], "xchg %r8d,%eax"),
            (&[0x49, 0x90], "xchg %r8,%rax"),
            (&[0x0f, 0x1f, 0x44, 0, 0], "nopl of five bytes"),
            (&[0x66, 0x0f, 0x1f, 0x40, 0], "nopw of five bytes"),
        ] {
            let behind = [code, &[0x90; 15]].concat();
            assert_eq!(length(&behind, true), None, "{what}");
        }
        for (code, what) in [
            (&[0xff, 0x25, 0x10, 0, 0, 0][..], "jmp *0x10(%rip)"),
            (&[0x48, 0x90], "a nop with a prefix that does nothing"),
            (&[0x0f, 0x1f, 0x40, 0], "nopl of four bytes"),
            (&[0x66, 0x0f, 0x1f, 0x44, 0, 0], "nopw of six bytes"),
        ] {
            let behind = [code, &[0x90; 15]].concat();
            assert_eq!(length(&behind, true), Some(code.len()), "{what}");
        }
    }

    /// Compares with binutils on the functions of the C library (or OBJDUMP_FILE), if both are available.
    #[test]
    fn as_a_disassembler_says() {
        let maps = crate::linux::process::mappings(std::process::id()).unwrap();
        let libc = maps.iter().find(|mapping| mapping.path.contains("/libc.so"));
        let path = std::env::var("OBJDUMP_FILE").ok().or(libc.map(|mapping| mapping.path.clone()));
        let Some(path) = path else {
            return not_run("instruction::as_a_disassembler_says", Needs::Machine("with a shared C library"));
        };
        let out = std::process::Command::new("objdump").args(["-d", "--insn-width=16", &path]).output();
        if cfg!(not(target_arch = "x86_64")) {
            return not_run("instruction::as_a_disassembler_says", Needs::Machine("x86_64"));
        }
        let Some(out) = out.ok().filter(|out| out.status.success()) else {
            return not_run("instruction::as_a_disassembler_says", Needs::Program("objdump"));
        };
        let text = String::from_utf8_lossy(&out.stdout);
        let (mut known, mut unknown) = (0, std::collections::BTreeMap::new());
        let mut first = false;
        for line in text.lines() {
            if line.ends_with(">:") {
                first = true;
                continue;
            }
            let mut columns = line.split('\t');
            let (Some(_), Some(bytes), Some(name)) = (columns.next(), columns.next(), columns.next()) else {
                continue;
            };
            let code: Vec<u8> =
                bytes.split_whitespace().filter_map(|byte| u8::from_str_radix(byte, 16).ok()).collect();
            let behind = [&code[..], &[0x90; 15]].concat();
            match length(&behind, true) {
                Some(length) => assert_eq!(length, code.len(), "{line}"),
                None if first && !name.starts_with("endbr") => {
                    *unknown.entry(name.to_string()).or_insert(0) += 1
                }
                None => {}
            }
            known += usize::from(first);
            first = false;
        }
        println!("{known} functions; not known: {unknown:?}");
        let missed: usize = unknown.values().sum();
        assert!(known > 500 && missed * 100 < known, "{missed} of {known}");
    }
}
