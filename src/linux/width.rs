//! Pointers of 4 or 8 bytes: the differences between the structures of 32-bit and 64-bit processes.
//!
//! Code that walks a structure of another process asks [`Memory::width`](crate::linux::memory::Memory::width) and keeps
//! its offsets in pairs, one for each width: `width.pick(8, 16)`. [`Width::pointer`] takes a pointer from bytes that
//! have been read; [`Memory::pointer`](crate::linux::memory::Memory::pointer) takes one from memory.

/// Width of a process's pointers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// 4 bytes (ILP32: i386, 32-bit ARM).
    Bits32,
    /// 8 bytes (LP64: x86_64, aarch64).
    Bits64,
}

impl Width {
    /// The value for this width.
    pub const fn pick<T: Copy>(self, bits32: T, bits64: T) -> T {
        match self {
            Width::Bits32 => bits32,
            Width::Bits64 => bits64,
        }
    }

    /// Bytes of a pointer.
    pub const fn bytes(self) -> usize {
        self.pick(4, 8)
    }

    /// The pointer at an offset in bytes that were read; 0 if they end too early.
    pub fn pointer(self, bytes: &[u8], at: usize) -> u64 {
        match self {
            Width::Bits32 => u32_at(bytes, at).into(),
            Width::Bits64 => u64_at(bytes, at),
        }
    }
}

/// A 16-bit number in bytes that were read; 0 if they end too early.
pub fn u16_at(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..at + 2).and_then(|b| b.try_into().ok()).map_or(0, u16::from_ne_bytes)
}

/// A 32-bit number in bytes that were read; 0 if they end too early.
pub fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|b| b.try_into().ok()).map_or(0, u32::from_ne_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_ne_bytes)
}
