//! Reading processes' memory under kernel lockdown.
//!
//! The programs call bpf_probe_read_user() and bpf_probe_read_user_str(), which came with kernel 5.5. libbpf checks
//! whether the kernel has bpf_probe_read_kernel(), and if not replaces all of them with bpf_probe_read() and
//! bpf_probe_read_str(). Lockdown in confidentiality mode forbids these and bpf_probe_read_kernel(), but not the ones for
//! user memory: so libbpf's replacement would keep the programs from being loaded. This module undoes it, but only if the
//! kernel shows that it has bpf_probe_read_user() and not bpf_probe_read().

use std::ffi::{c_int, c_long};
use std::sync::{Once, OnceLock};

use crate::bpf::libbpf;
use libbpf_rs::libbpf_sys::{
    bpf_insn, bpf_prog_load_opts, bpf_program, bpf_program__insn_cnt, bpf_program__insns,
    bpf_program__set_insns, libbpf_probe_bpf_helper, libbpf_prog_handler_opts, libbpf_register_prog_handler,
    BPF_PROG_TYPE_KPROBE,
};

/// The section of programs for probes. Programs in other sections are left alone.
const SECTION: &std::ffi::CStr = c"uprobe";
/// BPF_CALL of BPF_JMP, and the numbers of helpers (linux/bpf.h).
const CALL: u8 = 0x85;
const PROBE_READ: i32 = 4;
const PROBE_READ_USER: i32 = 112;
/// What libbpf put in, and what it was in its place.
const REPLACED: [(i32, i32); 2] = [(PROBE_READ, PROBE_READ_USER), (45, 114)]; // bpf_probe_read_str, _user_str

/// Makes libbpf call `before_load` for each program from now on.
pub fn prepare() {
    static ONCE: Once = Once::new();
    // once: libbpf's objects point to what was registered
    ONCE.call_once(|| {
        let options = libbpf_prog_handler_opts {
            sz: size_of::<libbpf_prog_handler_opts>() as libbpf_rs::libbpf_sys::size_t,
            prog_prepare_load_fn: Some(before_load),
            ..Default::default()
        };
        // SAFETY: the name is static; libbpf copies it and the options. If this fails libbpf stays as it is.
        unsafe {
            libbpf_register_prog_handler(SECTION.as_ptr(), BPF_PROG_TYPE_KPROBE, 0, &raw const options)
        };
    });
}

/// Called by libbpf for each program, after all maps are made and helpers have been replaced.
unsafe extern "C" fn before_load(program: *mut bpf_program, _: *mut bpf_prog_load_opts, _: c_long) -> c_int {
    libbpf::at_programs();
    // SAFETY: libbpf's own program, which it is about to load; it has that number of instructions.
    let mut instructions = unsafe {
        let (first, count) = (bpf_program__insns(program), bpf_program__insn_cnt(program));
        if first.is_null() {
            return 0;
        }
        std::slice::from_raw_parts(first, count as usize).to_vec()
    };
    if instructions.iter().any(|instruction| original(instruction).is_some()) && only_user_reads() {
        restore(&mut instructions);
        // SAFETY: libbpf copies them; only this callback may make this call (bpf/libbpf.h).
        return unsafe {
            bpf_program__set_insns(program, instructions.as_mut_ptr(), instructions.len() as _)
        };
    }
    0
}

/// Whether the kernel has bpf_probe_read_user(), and not libbpf's replacement for it.
fn only_user_reads() -> bool {
    // checked once, since each check leaves a line in the kernel's log
    static ANSWER: OnceLock<bool> = OnceLock::new();
    let has = |helper: i32| {
        // SAFETY: no pointers are passed.
        unsafe { libbpf_probe_bpf_helper(BPF_PROG_TYPE_KPROBE, helper as u32, std::ptr::null()) == 1 }
    };
    *ANSWER.get_or_init(|| !has(PROBE_READ) && has(PROBE_READ_USER))
}

/// The helper that libbpf has replaced in this instruction.
fn original(instruction: &bpf_insn) -> Option<i32> {
    let calls = instruction.code == CALL && instruction.src_reg() == 0;
    REPLACED.iter().find(|(replaced, _)| calls && instruction.imm == *replaced).map(|(_, original)| *original)
}

/// None of the programs calls the replacements itself (`tests/bpf/portability.rs`), so all calls of them were libbpf's.
fn restore(instructions: &mut [bpf_insn]) {
    for instruction in instructions {
        instruction.imm = original(instruction).unwrap_or(instruction.imm);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instruction(code: u8, source: u8, imm: i32) -> bpf_insn {
        let mut instruction = bpf_insn { code, imm, ..Default::default() };
        instruction.set_src_reg(source);
        instruction
    }

    #[test]
    fn only_calls_of_the_helper_are_changed() {
        // calls of helpers that were replaced, of another helper and of a program, and an addition
        let mut instructions = [(CALL, 0, 4), (CALL, 0, 45), (CALL, 0, 5), (CALL, 1, 4), (0x07, 0, 4)]
            .map(|(code, source, imm)| instruction(code, source, imm));
        restore(&mut instructions);
        assert_eq!(instructions.map(|instruction| instruction.imm), [112, 114, 5, 4, 4]);
    }
}
