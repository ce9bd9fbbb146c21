//! Machines by name and number: the one that the running kernel is built for, from uname, and those of ELF files.
//!
//! A 32-bit program may run on a 64-bit kernel, so the kernel's machine need not be the one that the program was built
//! for.

use object::{AddressSize, Architecture};

/// The machine as `uname -m` names it; empty if the kernel does not say.
pub fn name() -> String {
    nix::sys::utsname::uname().map(|name| name.machine().to_string_lossy().into_owned()).unwrap_or_default()
}

/// The architecture of the kernel; `None` if it is not supported.
pub fn architecture() -> Option<Architecture> {
    match name().as_str() {
        "x86_64" => Some(Architecture::X86_64),
        "i386" | "i486" | "i586" | "i686" => Some(Architecture::I386),
        "aarch64" => Some(Architecture::Aarch64),
        "riscv64" => Some(Architecture::Riscv64),
        // armv5tel, armv6l, armv7l ...
        arm if arm.starts_with("arm") => Some(Architecture::Arm),
        _ => None,
    }
}

/// An architecture's name, as `uname -m` has it: the names of all that `object` knows take a kilobyte.
pub fn shown(architecture: Architecture) -> &'static str {
    match architecture {
        Architecture::X86_64 => "x86_64",
        Architecture::I386 => "i386",
        Architecture::Aarch64 => "aarch64",
        Architecture::Riscv64 => "riscv64",
        Architecture::Arm => "arm",
        _ => "a machine that is not known",
    }
}

/// The architecture of an ELF file, by its `e_machine` and class; `Unknown` if it is not supported.
pub fn of_elf(number: u16, is_64bit: bool) -> Architecture {
    // numbers and names from the System V ABI, chapter 4, and the processor supplements
    const EM_386: u16 = 3;
    const EM_ARM: u16 = 40;
    const EM_X86_64: u16 = 62;
    const EM_AARCH64: u16 = 183;
    const EM_RISCV: u16 = 243;
    match (number, is_64bit) {
        (EM_386, false) => Architecture::I386,
        (EM_X86_64, true) => Architecture::X86_64,
        (EM_X86_64, false) => Architecture::X86_64_X32,
        (EM_ARM, false) => Architecture::Arm,
        (EM_AARCH64, true) => Architecture::Aarch64,
        (EM_AARCH64, false) => Architecture::Aarch64_Ilp32,
        (EM_RISCV, true) => Architecture::Riscv64,
        (EM_RISCV, false) => Architecture::Riscv32,
        _ => Architecture::Unknown,
    }
}

/// Whether the kernel is a 32-bit one. False for an unsupported machine.
pub fn is_32_bit() -> bool {
    architecture().and_then(|machine| machine.address_size()) == Some(AddressSize::U32)
}

/// Whether uname names the kernel's own machine. (`linux32` makes a 64-bit kernel claim to be a 32-bit one.)
pub fn is_named_truly() -> bool {
    /// Bits of the personality that name the system, and 32-bit Linux among them (linux/personality.h).
    const SYSTEM: i32 = 0xff;
    const LINUX32: i32 = 8;
    // SAFETY: this value only queries; no pointers are passed.
    let personality = unsafe { libc::personality(0xffff_ffff) };
    personality & SYSTEM != LINUX32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_is_supported() {
        assert!(architecture().is_some(), "{}", name());
        if size_of::<usize>() == 8 {
            assert!(!is_32_bit());
        }
    }
}
