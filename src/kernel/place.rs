//! Where in a function a probe may go, and what it costs there.
//!
//! The kernel replaces the probed instruction by a breakpoint and then has to carry it out elsewhere.
//! Some it can emulate (`push`, `nop`): 0.4 µs a hit. Every other one it single-steps, a second
//! trap: 15 µs in a virtual machine (measured, kernel 6.18). And a probe on `endbr64`, with which
//! code built for indirect branch tracking begins, is stepped too, so the probe goes behind it: the
//! arguments, the stack pointer and the return address are still what they were.

use object::Architecture;

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

/// Reads the first instruction of a function in code for `machine`.
///
/// # Errors
/// A reason in words, if no probe may be put there.
pub fn place(machine: Architecture, code: &[u8]) -> Result<Place, String> {
    match machine {
        Architecture::X86_64 => Ok(x86_64(code)),
        Architecture::Aarch64 => aarch64(code),
        other => Err(format!("no probes are placed in {other:?} code")),
    }
}

/// endbr64 (Intel SDM, "ENDBR64": F3 0F 1E FA).
const ENDBR64: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];

fn x86_64(code: &[u8]) -> Place {
    let offset = if code.starts_with(&ENDBR64) { ENDBR64.len() } else { 0 };
    let cost = match code.get(offset..).unwrap_or_default() {
        // push r64, and with REX.B push r8..r15 (emulated from 4.10 on)
        [0x50..=0x57, ..] | [0x41, 0x50..=0x57, ..] => Cost::Emulated,
        // nop, 66 nop, 0f 1f /0
        [0x90, ..] | [0x66, 0x90, ..] | [0x0f, 0x1f, ..] | [0x66, 0x0f, 0x1f, ..] => Cost::Emulated,
        _ => Cost::Stepped,
    };
    Place { offset: offset as u64, cost }
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
        let at = |code: &[u8]| place(Architecture::X86_64, code).unwrap();
        assert_eq!(at(&[0x41, 0x57, 0x66]), Place { offset: 0, cost: Cost::Emulated }, "push %r15");
        assert_eq!(at(&[0x53, 0x48]), Place { offset: 0, cost: Cost::Emulated }, "push %rbx");
        assert_eq!(at(&[0x31, 0xd2]), Place { offset: 0, cost: Cost::Stepped }, "xor: scanOnce of 7.0.10");
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
    fn unknown_machines_are_refused() {
        assert!(place(Architecture::Arm, &[0; 16]).unwrap_err().contains("Arm code"));
    }
}
