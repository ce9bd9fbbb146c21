//! Tests that functions which call each other have stack enough on every kernel, whatever the kernel of the machine that
//! they run on would let pass: Linux 6.1 refused a program that 6.18 takes.
//!
//! When one fails, move the largest variables of the longest frame into a function of their own, beside the one that is
//! called there.

use std::collections::HashMap;

use crate::objects::{programs_of, Instruction, Program, ALL};

/// Bytes of stack that a program and the functions that it calls have (MAX_BPF_STACK of linux/filter.h), and to what each
/// frame is rounded up (check_max_stack_depth in kernel/bpf/verifier.c of Linux 4.16 to 6.1).
const STACK: u32 = 512;
const ROUNDED_TO: u32 = 32;

/// The register of the frame, and the number of all.
const FRAME: u8 = 10;
const REGISTERS: usize = 11;

/// Bytes of a function's frame: at least what it reaches, and at most what the compiler has given it, as the code lies.
fn frame(instructions: &[Instruction]) -> u32 {
    // what each register adds to the address of the frame, where it is one of the frame's
    let mut of_frame: [Option<i32>; REGISTERS] = [None; REGISTERS];
    of_frame[usize::from(FRAME)] = Some(0);
    let mut deepest = 0;
    for instruction in instructions {
        let (to, from) = (usize::from(instruction.destination), usize::from(instruction.source));
        let base = match instruction.code {
            // a copy of a register, and a number added to it
            0xbf => {
                of_frame[to] = of_frame[from];
                of_frame[to]
            }
            0x07 => {
                of_frame[to] = of_frame[to].map(|base| base + instruction.immediate);
                of_frame[to]
            }
            code => match code & 7 {
                1 => {
                    let base = of_frame[from].map(|base| base + i32::from(instruction.offset));
                    of_frame[to] = None;
                    base
                }
                2 | 3 => of_frame[to].map(|base| base + i32::from(instruction.offset)),
                0 | 4 | 7 => {
                    of_frame[to] = None;
                    None
                }
                _ => None,
            },
        };
        deepest = deepest.min(base.unwrap_or_default());
    }
    deepest.unsigned_abs()
}

/// Bytes of stack of a function with all that it calls, as the kernel counts them, and the way there.
fn depth(of: &Program, all: &HashMap<&str, &Program>) -> (u32, String) {
    let own = frame(&of.instructions);
    let name = of.label.rsplit(": ").next().unwrap();
    let below = of.calls.iter().map(|called| depth(all[called.as_str()], all));
    let (below, way) = below.max().unwrap_or_default();
    (own.max(1).next_multiple_of(ROUNDED_TO) + below, format!("{name} {own}, {way}"))
}

#[test]
fn stack_suffices() {
    let mut calls = 0;
    for compiled in ALL {
        let programs = programs_of(compiled);
        let all: HashMap<&str, &Program> =
            programs.iter().map(|program| (program.label.as_str(), program)).collect();
        for program in &programs {
            let (bytes, way) = depth(program, &all);
            calls += program.calls.len();
            assert!(bytes <= STACK, "{}: {bytes} bytes of stack: {way}", program.label);
        }
    }
    // those of the filter
    assert!(calls > 10, "{calls} calls");
}

#[test]
fn frames_are_measured() {
    let instruction = |code, destination, source, offset, immediate| Instruction {
        code,
        destination,
        source,
        offset,
        immediate,
    };
    // *(u64 *)(r10 - 8) = r1
    let stores = instruction(0x7b, FRAME, 1, -8, 0);
    assert_eq!(frame(&[instruction(0xb7, 0, 0, 0, 0)]), 0);
    assert_eq!(frame(&[stores]), 8);
    // r2 = r10; r2 += -40; and a number that is none of the frame's
    let own =
        [instruction(0xbf, 2, FRAME, 0, 0), instruction(0x07, 2, 0, 0, -40), instruction(0x07, 3, 0, 0, -90)];
    assert_eq!(frame(&own), 40);
    // r2 = 1; r2 += -90
    assert_eq!(frame(&[instruction(0xb7, 2, 0, 0, 1), instruction(0x07, 2, 0, 0, -90)]), 0);
}
