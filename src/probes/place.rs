//! Safe places for a probe in a function, and its cost there.
//!
//! The kernel replaces the probed instruction with a breakpoint and then has to execute it elsewhere. It emulates some
//! instructions (`push`, `nop`): 0.4 µs a hit. It single-steps all others, which is a second trap: 15 µs in a virtual
//! machine (measured, kernel 6.18). It also single-steps `endbr64`, the first instruction of code built for indirect
//! branch tracking, so the probe goes after it: arguments, stack pointer and return address are unchanged there. They
//! are also unchanged after instructions that only compare or set other registers, so the probe goes after those, too
//! (`lead`).

use std::fmt::{self, Display, Formatter};

use object::Architecture;

use crate::linux::machine;
use crate::probes::{instruction, lead};

/// Cost of a probe, by the instruction under it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cost {
    /// The kernel emulates the instruction.
    Emulated,
    /// The kernel single-steps it.
    Stepped,
}

/// Place for a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Bytes from the function's start.
    pub offset: u64,
    /// Length of the instruction there.
    pub length: usize,
    /// Cost of a probe there.
    pub cost: Cost,
}

/// Reason why no probe may be placed at the beginning of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// Its code is for an unsupported machine.
    Machine(Architecture),
    /// It is Thumb code.
    Thumb,
    /// The bytes there are not an instruction with which compilers begin functions.
    NoFunction,
    /// The code could not be read.
    Unreadable,
}

impl Display for Unfit {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Unfit::Machine(machine) => {
                write!(f, "no probes are placed in code of {}", machine::shown(*machine))
            }
            Unfit::Thumb => f.write_str("Thumb code, which kernels damage when they put a probe into it"),
            Unfit::NoFunction => f.write_str("no function begins with the bytes there"),
            Unfit::Unreadable => f.write_str("the function's code could not be read"),
        }
    }
}

impl std::error::Error for Unfit {}

/// Finds the place in a function for the probe of a program that reads this number of `arguments`. `code` is the
/// function's beginning, for `machine`; `offset` is that of the function's symbol in its file.
///
/// Accepts only instructions with which compilers begin functions and which kernels execute elsewhere as they would in
/// place. Data mistaken for a function most likely begins with none of them.
///
/// # Errors
/// No probe may be placed there.
pub fn place(machine: Architecture, offset: u64, code: &[u8], arguments: usize) -> Result<Place, Unfit> {
    match machine {
        Architecture::X86_64 => x86(&ENDBR64, code, true, arguments),
        Architecture::I386 => x86(&ENDBR32, code, false, arguments),
        Architecture::Aarch64 => aarch64(code),
        Architecture::Arm => arm(offset, code),
        Architecture::Riscv64 => riscv(code),
        other => Err(Unfit::Machine(other)),
    }
}

/// Kernels mistake Thumb code for ARM code, accept a probe in it, and overwrite the middle of an instruction: the
/// process dies or computes wrong values (seen on 4.19, 5.4, 6.1 and 6.12). So Thumb is refused here. It is recognized
/// by the lowest bit of the function's symbol (ELF for the Arm architecture, 5.5.3); ARM code is aligned to four bytes.
fn arm(offset: u64, code: &[u8]) -> Result<Place, Unfit> {
    if !offset.is_multiple_of(4) {
        return Err(Unfit::Thumb);
    }
    let first = code.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
    // unconditional (AL), and neither a trap nor from the undefined space that breakpoints use
    let (condition, trap) =
        (first >> 28, first & 0x0ff0_00f0 == 0x0120_0070 || first & 0x0ff0_00f0 == 0x07f0_00f0);
    if condition != 0xe || trap {
        return Err(Unfit::NoFunction);
    }
    Ok(Place { offset: 0, length: 4, cost: Cost::Emulated })
}

/// endbr64 (Intel SDM, "ENDBR64": F3 0F 1E FA).
const ENDBR64: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];
/// endbr32 (Intel SDM, "ENDBR32": F3 0F 1E FB).
const ENDBR32: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfb];

fn x86(landing: &[u8], code: &[u8], is_64bit: bool, arguments: usize) -> Result<Place, Unfit> {
    let begin = if code.starts_with(landing) { landing.len() } else { 0 };
    let code = code.get(begin..).unwrap_or_default();
    let length_at = |at: usize| {
        let code = code.get(at..).unwrap_or_default();
        instruction::length(code, is_64bit).filter(|&length| length <= code.len()).ok_or(Unfit::NoFunction)
    };
    let emulated = lead::emulated(is_64bit, arguments, code).filter(|&passed| length_at(passed).is_ok());
    let (passed, cost) = match emulated {
        Some(passed) => (passed, Cost::Emulated),
        None => (lead::room(code), Cost::Stepped),
    };
    Ok(Place { offset: (begin + passed) as u64, length: length_at(passed)?, cost })
}

/// arm64 kernels simulate branches and PC-relative instructions and single-step all others, which is cheaper than on
/// x86: it takes no exit from a virtual machine. The probe goes after a landing pad (`bti c`, `paciasp`).
fn aarch64(code: &[u8]) -> Result<Place, Unfit> {
    /// bti c, bti jc, paciasp, pacibsp (Arm ARM, hint instructions)
    const LANDING: [u32; 4] = [0xd503_245f, 0xd503_24df, 0xd503_233f, 0xd503_237f];
    let (words, _) = code.as_chunks::<4>();
    let mut words = words.iter().map(|bytes| u32::from_le_bytes(*bytes));
    let first = words.next().ok_or(Unfit::Unreadable)?;
    let behind = LANDING.contains(&first);
    let probed = if behind { words.next().unwrap_or(0) } else { first };
    let safe = match (probed >> 25) & 0xf {
        // data processing, immediate and register; floating point and vectors. No paciasppc and its kin (FEAT_PAuth_LR), which
        // sign the return address with where they are executed
        0b1000 | 0b1001 | 0b0101 | 0b1101 | 0b0111 | 0b1111 => probed & 0xffff_dbff != 0xdac1_83fe,
        // branches, but no exceptions, barriers or system registers. No bl and none through a register: before 6.18 the
        // kernel simulates calls and returns without the guarded control stack, so the next return would end a process that
        // has one. Nor bc.cond, which it does not know for a branch: it would jump from where it is executed
        0b1010 | 0b1011 => {
            matches!(probed >> 24, 0x14..=0x17 | 0x34..=0x37 | 0xb4..=0xb7)
                || probed & 0xff00_0010 == 0x5400_0000
                || probed == NOP
        }
        // loads and stores, but no exclusive ones, which would never succeed; and none relative to the PC: before 6.12
        // the kernel reads what they load as if that were its own memory, which may crash it, and those of vectors it
        // executes elsewhere, so that they load something else. Beside these are memory copies (FEAT_MOPS), which the kernel
        // may begin anew where it executes them, from another instruction
        0b0100 | 0b0110 | 0b1100 | 0b1110 => {
            probed & 0x3f00_0000 != 0x0800_0000 && probed & 0x3a00_0000 != 0x1800_0000
        }
        // SVE, undefined
        _ => false,
    };
    if !safe {
        return Err(Unfit::NoFunction);
    }
    Ok(Place { offset: if behind { 4 } else { 0 }, length: 4, cost: Cost::Emulated })
}

/// nop of arm64.
const NOP: u32 = 0xd503_201f;

/// On riscv the cost of instructions has not been measured. The probe goes after a landing pad (`lpad`, Zicfilp), which an
/// indirect call must find.
fn riscv(code: &[u8]) -> Result<Place, Unfit> {
    let half = |code: &[u8]| code.first_chunk().map(|bytes| u16::from_le_bytes(*bytes));
    // auipc to register 0
    let begin = if half(code).is_some_and(|first| first & 0xfff == 0x017) { 4 } else { 0 };
    let code = code.get(begin..).unwrap_or_default();
    let Some(first) = half(code) else { return Err(Unfit::NoFunction) };
    // 3 in the two lowest bits: not compressed; 0 is not an instruction, 0x9002 is c.ebreak, and 0x73 is SYSTEM
    let (length, bad) = match first & 3 {
        3 => (4, first & 0x1f == 0x1f || first & 0x7f == 0x73),
        _ => (2, first == 0 || first == 0x9002),
    };
    if bad || code.len() < length {
        return Err(Unfit::NoFunction);
    }
    Ok(Place { offset: begin as u64, length, cost: Cost::Emulated })
}

/// Bytes of the uprobe breakpoint on a machine (arch/*/include/asm/uprobes.h).
fn breakpoint(machine: Architecture) -> &'static [u8] {
    match machine {
        Architecture::Aarch64 => &[0xa0, 0x00, 0x20, 0xd4],
        Architecture::Arm => &[0xf9, 0x01, 0xf0, 0xe7],
        Architecture::Riscv64 => &[0x02, 0x90],
        _ => &[0xcc],
    }
}

/// Comparison of a process's memory with its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// The same.
    Same,
    /// The same except for a breakpoint.
    Breakpoint,
    /// Different.
    Differs,
}

/// Compares a function's code in its file with that in a process's memory. Breakpoints after the probed instruction do
/// not matter.
pub fn compare(machine: Architecture, place: &Place, file: &[u8], memory: &[u8]) -> Memory {
    let begin = place.offset as usize;
    // 32-bit libraries may have addresses in their code that are filled in when they are loaded
    let is_32_bit = matches!(machine, Architecture::I386 | Architecture::Arm);
    let end = if is_32_bit { begin + place.length } else { file.len().min(memory.len()) };
    if memory.len() < begin + place.length || file.len() < end {
        return Memory::Differs;
    }
    let breakpoint = breakpoint(machine);
    let mut found = Memory::Same;
    let mut at = 0;
    while at < end {
        let stretch = at..(at + breakpoint.len()).min(end);
        let (file, memory) = (file.get(stretch.clone()), memory.get(stretch.clone()));
        if file != memory {
            if memory != Some(breakpoint) {
                return Memory::Differs;
            }
            if stretch.start < begin + place.length {
                found = Memory::Breakpoint;
            }
        }
        at = stretch.end;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bpf::contract::MAX_ARGUMENTS;
    use crate::linux::elf::CODE_WINDOW;

    fn place(machine: Architecture, offset: u64, code: &[u8]) -> Result<Place, Unfit> {
        super::place(machine, offset, code, MAX_ARGUMENTS)
    }

    fn at(code: &[u8]) -> Result<(u64, usize, Cost), Unfit> {
        place(Architecture::X86_64, 0, code).map(|place| (place.offset, place.length, place.cost))
    }

    #[test]
    fn the_first_instruction_decides() {
        assert_eq!(at(&[0x41, 0x57, 0x66]), Ok((0, 2, Cost::Emulated)), "push %r15");
        assert_eq!(at(&[0x53, 0x48]), Ok((0, 1, Cost::Emulated)), "push %rbx");
        assert_eq!(at(&[0x31, 0xd2]), Ok((0, 2, Cost::Stepped)), "xor: scanOnce of 7.0.10");
        let tested = [0xf3, 0x0f, 0x1e, 0xfa, 0x85, 0xc0, 0x74, 0x02];
        assert_eq!(at(&tested), Ok((6, 2, Cost::Emulated)), "endbr64; test; je");
        assert_eq!(at(&[0x41, 0x89, 0xf8]), Ok((0, 3, Cost::Stepped)), "REX.B mov");
        assert_eq!(at(&[0xf3, 0x0f, 0x1e, 0xfa, 0x55]), Ok((4, 1, Cost::Emulated)), "endbr64; push");
        assert_eq!(at(&[0xf3, 0x0f, 0x1e, 0xfa, 0x89, 0xf8]), Ok((4, 2, Cost::Stepped)), "endbr64; mov");
        let with_room = [0xf3, 0x0f, 0x1e, 0xfa, 0x0f, 0x1f, 0x44, 0, 0, 0x55];
        assert_eq!(at(&with_room), Ok((9, 1, Cost::Emulated)), "endbr64; nopl of five bytes; push");
        assert_eq!(
            at(&[0x0f, 0x1f, 0x44, 0, 0, 0x89, 0xf8]),
            Ok((5, 2, Cost::Stepped)),
            "nopl of five bytes; mov"
        );
        assert!(at(&[0x0f, 0x1f, 0x44, 0, 0]).is_err(), "nopl of five bytes alone");
        let padded = [0x31, 0xc0, 0x66, 0x0f, 0x1f, 0x40, 0, 0x74, 0xf7];
        assert_eq!(at(&padded), Ok((0, 2, Cost::Stepped)), "xor; nopw of five bytes; je");
        let i386 = place(Architecture::I386, 0, &[0x41, 0x50]).map(|place| (place.length, place.cost));
        assert_eq!(i386, Ok((1, Cost::Stepped)), "inc %ecx; push %eax");
    }

    #[test]
    fn what_no_function_begins_with() {
        for code in
            [&[][..], &[0; CODE_WINDOW], &[0xcc; CODE_WINDOW], &[0xf0, 0x01, 0x07], &[0x89], &[0x0f, 0x0b]]
        {
            assert!(at(code).is_err(), "{code:x?}");
        }
        for machine in [Architecture::Aarch64, Architecture::Arm, Architecture::Riscv64] {
            assert!(place(machine, 0, &[0; CODE_WINDOW]).is_err(), "{machine:?}");
            assert!(place(machine, 0, &[]).is_err(), "{machine:?}");
            assert!(place(machine, 0, breakpoint(machine)).is_err(), "{machine:?}");
        }
    }

    #[test]
    fn words() {
        let arm64 = |words: &[u32]| {
            let code: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            place(Architecture::Aarch64, 0, &code).map(|place| place.offset)
        };
        assert_eq!(arm64(&[0xa9bd_7bfd]), Ok(0), "stp x29, x30, [sp, #-48]!");
        assert_eq!(arm64(&[0xd503_233f, 0xa9bd_7bfd]), Ok(4), "paciasp; stp");
        assert_eq!(arm64(&[0xd503_237f, 0xa9bd_7bfd]), Ok(4), "pacibsp; stp");
        assert_eq!(arm64(&[0xd503_245f, 0x1400_0010]), Ok(4), "bti c; b");
        assert_eq!(arm64(&[0xf000_0000]), Ok(0), "adrp");
        assert_eq!(arm64(&[0xd100_83ff]), Ok(0), "sub sp, sp, #32");
        assert_eq!(arm64(&[0xb400_0040]), Ok(0), "cbz");
        assert!(arm64(&[0x885f_7c00]).is_err(), "ldxr");
        assert_eq!(arm64(&[0xf940_0000]), Ok(0), "ldr x0, [x0]");
        assert_eq!(arm64(&[0x3900_001f]), Ok(0), "strb wzr, [x0]");
        assert_eq!(arm64(&[0x3dc0_0000]), Ok(0), "ldr q0, [x0]");
        for (literal, what) in [
            (0x1800_0040, "ldr w0, ."),
            (0x5800_0040, "ldr x0, ."),
            (0x9800_0040, "ldrsw x0, ."),
            (0xd800_0040, "prfm pldl1keep, ."),
            (0x1c00_0040, "ldr s0, ."),
            (0x5c00_0040, "ldr d0, ."),
            (0x9c00_0040, "ldr q0, ."),
        ] {
            assert!(arm64(&[literal]).is_err(), "{what}");
            assert!(arm64(&[0xd503_245f, literal]).is_err(), "bti c; {what}");
        }
        assert_eq!(arm64(&[0x5400_0040]), Ok(0), "b.eq");
        assert_eq!(arm64(&[0xdac1_03fe]), Ok(0), "pacia x30, sp");
        for (other, what) in [
            (0x9400_0010, "bl"),
            (0xd61f_0200, "br x16"),
            (0xd63f_0100, "blr x8"),
            (0xd65f_03c0, "ret"),
            (0xd65f_0bff, "retaa"),
            (0x5400_0050, "bc.eq"),
            (0x1901_0440, "cpyfp [x0]!, [x1]!, x2!"),
            (0xdac1_a3fe, "paciasppc"),
            (0xdac1_a7fe, "pacibsppc"),
            (0xdac1_83fe, "pacnbiasppc"),
            (0xdac1_87fe, "pacnbibsppc"),
        ] {
            assert!(arm64(&[other]).is_err(), "{what}");
            assert!(arm64(&[0xd503_245f, other]).is_err(), "bti c; {what}");
        }
        assert!(arm64(&[0xd420_0000]).is_err(), "brk");
        assert!(arm64(&[0xd400_0001]).is_err(), "svc");
        let riscv =
            |code: &[u8]| place(Architecture::Riscv64, 0, code).map(|place| (place.offset, place.length));
        assert_eq!(riscv(&[0x01, 0x11]), Ok((0, 2)), "c.addi sp, -32");
        assert_eq!(riscv(&[0x13, 0x01, 0x01, 0xfe]), Ok((0, 4)), "addi sp, sp, -32");
        assert_eq!(riscv(&[0x17, 0x10, 0x00, 0x00, 0x01, 0x11]), Ok((4, 2)), "lpad 1; c.addi sp, -32");
        assert_eq!(riscv(&[0x97, 0x02, 0x00, 0x00, 0x01, 0x11]), Ok((0, 4)), "auipc t0, 0");
        assert!(riscv(&[0x17, 0x10, 0x00, 0x00]).is_err(), "lpad alone");
    }

    #[test]
    fn thumb_is_refused() {
        // push {r4, lr}
        let at = |offset| place(Architecture::Arm, offset, &[0x10, 0x40, 0x2d, 0xe9]);
        assert_eq!(at(0x1000), Ok(Place { offset: 0, length: 4, cost: Cost::Emulated }));
        assert_eq!(at(0x1001), Err(Unfit::Thumb), "as a symbol of Thumb code is");
        assert_eq!(at(0x1002), Err(Unfit::Thumb), "no ARM code begins there");
    }

    #[test]
    fn memory_and_file() {
        let file: Vec<u8> = vec![0x41, 0x57, 0x48, 0x83, 0xec, 0x10, 0x90, 0x90];
        let place = place(Architecture::X86_64, 0, &file).unwrap();
        let with = |at: usize, byte: u8| {
            let mut memory = file.clone();
            memory[at] = byte;
            compare(Architecture::X86_64, &place, &file, &memory)
        };
        assert_eq!(with(0, 0x41), Memory::Same);
        assert_eq!(with(0, 0xcc), Memory::Breakpoint);
        assert_eq!(with(4, 0xcc), Memory::Same, "another's, elsewhere");
        assert_eq!(with(0, 0x40), Memory::Differs);
        assert_eq!(with(7, 0x91), Memory::Differs);
        assert_eq!(compare(Architecture::X86_64, &place, &file, &[0x41]), Memory::Differs, "no more to see");
        let words = [0xa9bd_7bfd_u32, 0x9100_03fd].map(u32::to_le_bytes).concat();
        let at = super::place(Architecture::Aarch64, 0, &words, 0).unwrap();
        let probed = [0xd420_00a0_u32, 0x9100_03fd].map(u32::to_le_bytes).concat();
        assert_eq!(compare(Architecture::Aarch64, &at, &words, &probed), Memory::Breakpoint);
        // push {r4, lr}, and the kernel's UPROBE_SWBP_ARM_INSN there
        let (file, probed) = ([0x10, 0x40, 0x2d, 0xe9], 0xe7f0_01f9_u32.to_le_bytes());
        let at = super::place(Architecture::Arm, 0, &file, 0).unwrap();
        assert_eq!(compare(Architecture::Arm, &at, &file, &probed), Memory::Breakpoint);
    }

    #[test]
    fn unknown_machines_are_refused() {
        assert_eq!(place(Architecture::Mips, 0, &[0; 16]), Err(Unfit::Machine(Architecture::Mips)));
    }
}
