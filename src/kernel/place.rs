//! Where in a function a probe may go, and what it costs there.
//!
//! The kernel replaces the probed instruction by a breakpoint and then has to carry it out elsewhere.
//! Some it can emulate (`push`, `nop`): 0.4 µs a hit. Every other one it single-steps, a second
//! trap: 15 µs in a virtual machine (measured, kernel 6.18). And a probe on `endbr64`, with which
//! code built for indirect branch tracking begins, is stepped too, so the probe goes behind it: the
//! arguments, the stack pointer and the return address are still what they were. So they are behind instructions that
//! only compare, or set other registers: where such come first, the probe goes behind them ([`lead`]).

use object::Architecture;

use super::lead;

/// What the first instruction means for a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cost {
    /// The kernel emulates the instruction.
    Emulated,
    /// The kernel single-steps it.
    Stepped,
}

/// Where to put a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Bytes behind the function's first.
    pub offset: u64,
    /// What it costs there.
    pub cost: Cost,
}

/// Bytes of a function that [`place`] wants to see.
pub const LOOK: usize = 16;

/// Most arguments that a program in bpf/ reads.
pub const ARGUMENTS: usize = 4;

/// Reads the first instruction of a function in code for `machine`. `offset` is where in its file the function's
/// symbol says that it begins.
///
/// # Errors
/// A reason in words, if no probe may be put there.
pub fn place(machine: Architecture, offset: u64, code: &[u8]) -> Result<Place, String> {
    place_for(machine, offset, code, ARGUMENTS)
}

/// The same for a program that reads so many arguments.
///
/// # Errors
/// As [`place`].
pub fn place_for(machine: Architecture, offset: u64, code: &[u8], arguments: usize) -> Result<Place, String> {
    match machine {
        Architecture::X86_64 => Ok(x86(&ENDBR64, true, arguments, code)),
        Architecture::I386 => Ok(x86(&ENDBR32, false, arguments, code)),
        Architecture::Aarch64 => aarch64(code),
        Architecture::Arm => arm(offset),
        // what an instruction costs there has not been measured
        Architecture::Riscv64 => Ok(Place { offset: 0, cost: Cost::Emulated }),
        other => Err(format!("no probes are placed in {other:?} code")),
    }
}

/// Kernels take Thumb code for ARM code, accept a probe in it, and overwrite the middle of an instruction: the
/// process dies or computes wrong values (seen on 4.19, 5.4, 6.1 and 6.12). So Thumb is refused here. The lowest
/// bit of a function's symbol tells it (ELF for the Arm architecture, 5.5.3); ARM code lies on multiples of four.
fn arm(offset: u64) -> Result<Place, String> {
    match offset % 4 {
        0 => Ok(Place { offset: 0, cost: Cost::Emulated }),
        _ => Err("Thumb code, which kernels damage when they put a probe into it".into()),
    }
}

/// endbr64 (Intel SDM, "ENDBR64": F3 0F 1E FA).
const ENDBR64: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];
/// endbr32 (Intel SDM, "ENDBR32": F3 0F 1E FB).
const ENDBR32: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfb];

fn x86(landing: &[u8], wide: bool, arguments: usize, code: &[u8]) -> Place {
    let begin = if code.starts_with(landing) { landing.len() } else { 0 };
    let (passed, cost) = match lead::emulated(wide, arguments, code.get(begin..).unwrap_or_default()) {
        Some(bytes) => (bytes, Cost::Emulated),
        None => (0, Cost::Stepped),
    };
    Place { offset: (begin + passed) as u64, cost }
}

/// Instructions that arm64 kernels simulate are branches and PC-relative ones; all else is stepped, which is
/// cheaper there than on x86, with no exit from a virtual machine. A landing pad
/// (`bti c`, `paciasp`) is left alone, so the probe goes behind.
fn aarch64(code: &[u8]) -> Result<Place, String> {
    /// bti c, bti jc, paciasp (Arm ARM, hint instructions)
    const LANDING: [u32; 3] = [0xd503_245f, 0xd503_24df, 0xd503_233f];
    let word = code.first_chunk::<4>().map(|bytes| u32::from_le_bytes(*bytes));
    let first = word.ok_or("the function's code could not be read")?;
    let offset = if LANDING.contains(&first) { 4 } else { 0 };
    Ok(Place { offset, cost: Cost::Emulated })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_instruction_decides() {
        let at = |code: &[u8]| place(Architecture::X86_64, 0, code).unwrap();
        assert_eq!(at(&[0x41, 0x57, 0x66]), Place { offset: 0, cost: Cost::Emulated }, "push %r15");
        assert_eq!(at(&[0x53, 0x48]), Place { offset: 0, cost: Cost::Emulated }, "push %rbx");
        assert_eq!(at(&[0x31, 0xd2]), Place { offset: 0, cost: Cost::Stepped }, "xor: scanOnce of 7.0.10");
        assert_eq!(
            at(&[0xf3, 0x0f, 0x1e, 0xfa, 0x85, 0xc0, 0x74, 0x02]),
            Place { offset: 6, cost: Cost::Emulated },
            "endbr64; test; je"
        );
        assert_eq!(at(&[0x41, 0x89]), Place { offset: 0, cost: Cost::Stepped }, "REX.B mov");
        assert_eq!(
            at(&[0xf3, 0x0f, 0x1e, 0xfa, 0x55]),
            Place { offset: 4, cost: Cost::Emulated },
            "endbr64; push"
        );
        assert_eq!(
            at(&[0xf3, 0x0f, 0x1e, 0xfa, 0x89]),
            Place { offset: 4, cost: Cost::Stepped },
            "endbr64; mov"
        );
        assert_eq!(at(&[]), Place { offset: 0, cost: Cost::Stepped }, "nothing to see");
    }

    #[test]
    fn thumb_is_refused() {
        let at = |offset| place(Architecture::Arm, offset, &[0; 16]);
        assert_eq!(at(0x1000), Ok(Place { offset: 0, cost: Cost::Emulated }));
        assert!(at(0x1001).unwrap_err().contains("Thumb code"), "as a symbol of Thumb code is");
        assert!(at(0x1002).unwrap_err().contains("Thumb code"), "no ARM code begins there");
    }

    #[test]
    fn unknown_machines_are_refused() {
        assert!(place(Architecture::Mips, 0, &[0; 16]).unwrap_err().contains("Mips code"));
    }
}
