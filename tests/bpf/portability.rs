//! Tests that the perf tier's object keeps to what the oldest kernels accept, whatever the kernel of the
//! machine that they run on would let pass.
//!
//! When one fails, a change of bpf/ has used something newer: the message names it and the kernel that
//! brought it. Find another way to write it, or keep it to the ring tier (`#ifdef IOCREC_RING`).

use std::collections::HashSet;

use object::read::{Object, ObjectSection, ObjectSymbol};
use object::SymbolKind;

use crate::bpf::objects::Programs;
use crate::bpf::Tier;

/// The objects for all kernels, not only for that of the machine that the tests run on.
static PROGRAMS_OF_ALL: &[Programs] = include!(concat!(env!("OUT_DIR"), "/programs_of_all.rs"));

/// The perf tier's, each with the kernel's machine.
fn objects() -> impl Iterator<Item = (&'static str, object::File<'static>)> {
    let perf = PROGRAMS_OF_ALL.iter().filter(|programs| programs.tier == Tier::Perf);
    perf.map(|programs| {
        // a test's process ends soon
        let unpacked = Box::leak(Box::new(programs.unpack().unwrap()));
        (programs.machines[0], object::File::parse(unpacked.object()).unwrap())
    })
}

/// An instruction (struct bpf_insn): operation, registers, offset, immediate.
pub struct Instruction {
    pub code: u8,
    pub destination: u8,
    pub source: u8,
    pub offset: i16,
    pub immediate: i32,
}

/// A program of one of the objects.
pub struct Program {
    /// The kernel's machine, and its own name.
    pub name: String,
    pub instructions: Vec<Instruction>,
    /// Which instructions load the address of a map.
    pub relocated: HashSet<usize>,
}

pub fn programs() -> Vec<Program> {
    let mut programs = Vec::new();
    for (machine, object) in objects() {
        let before = programs.len();
        for symbol in object.symbols().filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.size() > 0)
        {
            let section = object.section_by_index(symbol.section_index().unwrap()).unwrap();
            let data = section.data_range(symbol.address(), symbol.size()).unwrap().unwrap();
            let instructions = data.chunks_exact(8).map(|bytes| Instruction {
                code: bytes[0],
                destination: bytes[1] & 0xf,
                source: bytes[1] >> 4,
                offset: i16::from_le_bytes([bytes[2], bytes[3]]),
                immediate: i32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]),
            });
            let relocated = section.relocations().filter_map(|(at, _)| at.checked_sub(symbol.address()));
            programs.push(Program {
                name: format!("{machine}: {}", symbol.name().unwrap()),
                instructions: instructions.collect(),
                relocated: relocated.map(|at| at as usize / 8).collect(),
            });
        }
        assert!(programs.len() > before, "{machine}: no programs");
    }
    programs
}

/// Calls `check` with each instruction that is one; the second half of a 64-bit load is none.
fn each_instruction(mut check: impl FnMut(&Instruction)) {
    for program in programs() {
        let mut rest = program.instructions.iter();
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
    for Program { name, instructions, .. } in programs() {
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
    for Program { name, instructions, .. } in programs() {
        let total = instructions.len();
        assert!(total <= 4096, "{name}: {total} instructions: 4096 are the limit before kernel 5.2");
    }
}
