//! Tests that the perf tier's objects keep to what kernel 4.4 accepts, whatever the kernel of the
//! machine that they run on would let pass.
//!
//! When one fails, a change of bpf/ has used something newer: the message names it and the kernel that
//! brought it. Find another way to write it, or keep it to the ring tier (`#ifdef IOCREC_RING`).

use object::read::{Object, ObjectSection};

use crate::objects::{of_perf_tier, programs, programs_of, Instruction, Program, ALL};

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
    for compiled in of_perf_tier() {
        let bytes = compiled.bytes();
        for section in object::File::parse(&*bytes).unwrap().sections() {
            let name = section.name().unwrap();
            let global =
                [".rodata", ".data", ".bss", ".kconfig", ".ksyms"].iter().any(|bad| name.starts_with(bad));
            assert!(
                !global || section.size() == 0,
                "{}: {name}: global data needs kernel 5.2",
                compiled.label()
            );
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
    for Program { label, instructions, .. } in programs() {
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
                            "{label}: a loop at instruction {at} needs kernel 5.3"
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
    // map_lookup_elem, map_update_elem, probe_read, ktime_get_ns, get_smp_processor_id, get_current_pid_tgid,
    // get_current_uid_gid, get_current_comm and perf_event_output are in 4.4; probe_read_user (112) becomes probe_read (4) where it is missing
    const OLD: [i32; 10] = [1, 2, 4, 5, 8, 14, 15, 16, 25, 112];
    // get_stackid: 4.6, of programs that need the tracepoints of 4.7
    const OF_DELIVERED: [i32; 1] = [27];
    // and probe_read_kernel, which becomes probe_read (4): of the one for raw tracepoints (4.17), in whose place the other is
    // loaded where it is refused
    const OF_RAW: [i32; 2] = [27, 113];
    for Program { label, instructions, .. } in programs() {
        let newer = match () {
            () if label.ends_with(": delivers") => OF_DELIVERED.as_slice(),
            () if label.ends_with(": delivers_raw") => OF_RAW.as_slice(),
            () => &[],
        };
        for instruction in instructions.iter().filter(|instruction| instruction.code == 0x85) {
            let helper = instruction.immediate;
            assert!(
                OLD.contains(&helper) || newer.contains(&helper),
                "{label}: helper {helper} is newer than 4.4"
            );
        }
    }
}

#[test]
fn short_enough() {
    for Program { label, instructions, .. } in programs() {
        let total = instructions.len();
        assert!(total <= 4096, "{label}: {total} instructions: 4096 are the limit before kernel 5.2");
    }
}

/// What `src/bpf/user_reads.rs` relies on. The filter's part that finds out who connects reads the kernel's memory, and is
/// left out where that is refused (`src/net/stateful.rs`; the guest lockdown-6.1 of cross/boot-test.py). So do the ring
/// tier's programs that tell of deaths, and the perf tier's for a raw tracepoint: where they are refused, the perf tier's others are
/// tried; and those of `--io`, which read
/// the registers of system calls: where they are refused, there are the sums of /proc.
#[test]
fn no_helper_that_lockdown_forbids() {
    // those that read the kernel's memory: probe_read, probe_read_str, probe_read_kernel, probe_read_kernel_str
    const FORBIDDEN: [i32; 4] = [4, 45, 113, 115];
    for program in ALL.iter().flat_map(programs_of) {
        if program.label.ends_with(": tell_connect")
            || program.label.starts_with("files ")
            || program.label.starts_with("death ") && program.label.contains(", ring: ")
            || program.label.ends_with(": delivers_raw")
        {
            continue;
        }
        for instruction in &program.instructions {
            let helper = (instruction.code, instruction.source) == (0x85, 0);
            let forbidden = FORBIDDEN.contains(&instruction.immediate);
            assert!(!(helper && forbidden), "{}: helper {}", program.label, instruction.immediate);
        }
    }
}
