//! The BPF programs that this binary carries, packed by build.rs: unpacked they would be a tenth of it.

use iocrec_log::event::Tier;
use miniz_oxide::inflate::decompress_to_vec_with_limit;

/// BPF programs for a kernel.
pub(crate) struct Programs {
    /// What the kernel's machine (`uname -m`) begins with.
    pub machines: &'static [&'static str],
    /// The buffers that they send hits through.
    pub tier: Tier,
    /// The ELF object, packed (RFC 1951).
    pub packed: &'static [u8],
    /// Its size.
    pub bytes: usize,
}

/// All that this binary carries, better tiers first: made by build.rs.
static PROGRAMS: &[Programs] = include!(concat!(env!("OUT_DIR"), "/programs.rs"));

/// libelf reads the object's tables where they lie, so they must lie aligned as the widest of their members is.
const ALIGNED: usize = 8;

/// An object, unpacked and aligned.
pub(crate) struct Unpacked {
    bytes: Vec<u8>,
    from: usize,
}

impl Unpacked {
    pub fn object(&self) -> &[u8] {
        self.bytes.get(self.from..).unwrap_or_default()
    }
}

impl Programs {
    /// The ELF object. `None`: the binary is damaged.
    pub fn unpack(&self) -> Option<Unpacked> {
        let object = decompress_to_vec_with_limit(self.packed, self.bytes).ok()?;
        let mut bytes = vec![0; self.bytes + ALIGNED];
        // where the allocator put it; the vector is not moved any more, since it does not grow
        let from = bytes.as_ptr().align_offset(ALIGNED).min(ALIGNED);
        bytes.truncate(from + self.bytes);
        bytes.get_mut(from..).filter(|place| place.len() == object.len())?.copy_from_slice(&object);
        Some(Unpacked { bytes, from })
    }
}

/// The object for a kernel.
///
/// # Errors
/// There is none, in words.
pub(crate) fn programs(machine: &str, tier: Tier) -> Result<Unpacked, String> {
    let fits = |programs: &&Programs| programs.machines.iter().any(|begin| machine.starts_with(begin));
    let mut fitting = PROGRAMS.iter().filter(fits).peekable();
    if fitting.peek().is_none() {
        return Err(format!("this binary has no BPF programs for a kernel of machine {machine:?}"));
    }
    let Some(programs) = fitting.find(|programs| programs.tier == tier) else {
        return Err("a 32-bit binary cannot follow a ring buffer for more than 4 GiB".into());
    };
    programs.unpack().ok_or_else(|| "this binary is damaged: copy it again".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_comes_out_aligned() {
        for programs in PROGRAMS {
            let unpacked = programs.unpack().unwrap();
            assert!(unpacked.object().starts_with(b"\x7fELF") && unpacked.object().len() == programs.bytes);
            assert_eq!(unpacked.object().as_ptr() as usize % ALIGNED, 0);
            assert!(programs.packed.len() < programs.bytes / 3, "it is worth while");
        }
        let damaged = Programs { packed: &[0x12; 40], machines: &[], tier: Tier::Perf, bytes: 1000 };
        assert!(damaged.unpack().is_none());
    }
}
