//! Tests that the perf tier's object keeps to what the oldest kernels accept, whatever the kernel of the
//! machine that they run on would let pass.
//!
//! When one fails, a change of bpf/ has used something newer: the message names it and the kernel that
//! brought it. Find another way to write it, or keep it to the ring tier (`#ifdef IOCREC_RING`).

use object::read::{Object, ObjectSection};

use super::{Aligned, Programs, Tier};

/// The objects for all kernels, not only for that of the machine that the tests run on.
static PROGRAMS_OF_ALL: &[Programs] = include!(concat!(env!("OUT_DIR"), "/programs_of_all.rs"));

/// The perf tier's, each with the kernel's machine.
fn objects() -> impl Iterator<Item = (&'static str, object::File<'static>)> {
    let perf = PROGRAMS_OF_ALL.iter().filter(|programs| programs.tier == Tier::Perf);
    perf.map(|programs| (programs.machines[0], object::File::parse(&programs.object.0).unwrap()))
}

/// An instruction (struct bpf_insn): operation, source register, offset, immediate.
struct Instruction {
    code: u8,
    source: u8,
    offset: i16,
    immediate: i32,
}

fn programs() -> Vec<(String, Vec<Instruction>)> {
    let mut programs = Vec::new();
    for (machine, object) in objects() {
        let before = programs.len();
        for section in object.sections().filter(|section| section.name().unwrap().starts_with("uprobe")) {
            let instructions = section.data().unwrap().chunks_exact(8).map(|bytes| Instruction {
                code: bytes[0],
                source: bytes[1] >> 4,
                offset: i16::from_le_bytes([bytes[2], bytes[3]]),
                immediate: i32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]),
            });
            programs.push((format!("{machine}: {}", section.name().unwrap()), instructions.collect()));
        }
        assert!(programs.len() > before, "{machine}: no programs");
    }
    programs
}

/// Calls `check` with each instruction that is one; the second half of a 64-bit load is none.
fn each_instruction(mut check: impl FnMut(&Instruction)) {
    for (_, instructions) in programs() {
        let mut rest = instructions.iter();
        while let Some(instruction) = rest.next() {
            check(instruction);
            if instruction.code == 0x18 {
                rest.next();
            }
        }
    }
}

#[test]
fn no_global_data() {
    for (machine, object) in objects() {
        for section in object.sections() {
            let name = section.name().unwrap();
            let global =
                [".rodata", ".data", ".bss", ".kconfig", ".ksyms"].iter().any(|bad| name.starts_with(bad));
            assert!(!global || section.size() == 0, "{machine}: {name}: global data needs kernel 5.2");
        }
    }
}

#[test]
fn no_calls_between_programs() {
    each_instruction(|instruction| {
        if instruction.code == 0x85 {
            assert_eq!(instruction.source, 0, "calls between programs need kernel 4.16");
        }
    });
}

/// Where an instruction may go on. (A jump backwards alone is no loop: compilers share tails of code.)
fn successors(at: usize, instruction: &Instruction) -> Vec<usize> {
    let target = (at + 1).wrapping_add_signed(instruction.offset.into());
    match (instruction.code & 7, instruction.code & 0xf0) {
        (5, 0x90) => vec![],
        (5, 0x80) => vec![at + 1],
        (5, 0x00) => vec![target],
        (5, _) => vec![at + 1, target],
        _ if instruction.code == 0x18 => vec![at + 2],
        _ => vec![at + 1],
    }
}

#[test]
fn no_loops() {
    for (name, instructions) in programs() {
        // depth first; an edge to a place that is still being explored closes a circle
        #[derive(Clone, Copy, PartialEq)]
        enum Seen {
            Not,
            Open,
            Done,
        }
        let mut seen = vec![Seen::Not; instructions.len()];
        for start in 0..instructions.len() {
            let mut path = vec![(start, false)];
            while let Some((at, leaving)) = path.pop() {
                if leaving {
                    seen[at] = Seen::Done;
                } else if seen[at] == Seen::Not {
                    seen[at] = Seen::Open;
                    path.push((at, true));
                    for next in successors(at, &instructions[at]) {
                        assert!(
                            seen[next] != Seen::Open,
                            "{name}: a loop at instruction {at} needs kernel 5.3"
                        );
                        path.push((next, false));
                    }
                }
            }
        }
    }
}

#[test]
fn no_new_instructions() {
    each_instruction(|instruction| {
        assert_ne!(instruction.code & 7, 6, "32-bit jumps need kernel 5.1");
        if instruction.code & 7 == 5 {
            let operation = instruction.code & 0xf0;
            assert!(operation < 0xa0, "jumps on less-than need kernel 4.14 (operation {operation:#x})");
        }
        assert!(
            instruction.code != 0xdb && instruction.code != 0xc3,
            "atomic additions: not in the arm JITs of 5.4"
        );
    });
}

#[test]
fn only_old_helpers() {
    // map_lookup_elem, map_update_elem, probe_read, ktime_get_ns, get_smp_processor_id, get_current_pid_tgid and
    // perf_event_output are in 4.4; probe_read_user (112) becomes probe_read (4) where it is missing
    const OLD: [i32; 8] = [1, 2, 4, 5, 8, 14, 25, 112];
    each_instruction(|instruction| {
        if instruction.code == 0x85 {
            assert!(
                OLD.contains(&instruction.immediate),
                "helper {} is newer than 4.4",
                instruction.immediate
            );
        }
    });
}

#[test]
fn short_enough() {
    for (name, instructions) in programs() {
        // all programs of a kernel share a section; together they are below what one may have
        let total = instructions.len();
        assert!(total < 4096, "{name}: {total} instructions: 4096 are the limit before kernel 5.2");
    }
}
