//! The BPF objects that this binary carries, packed by build.rs: unpacked, they would be a tenth of the binary.

use std::fmt::{self, Display, Formatter};

use iocrec_log::event::Tier;
use miniz_oxide::inflate::decompress_to_vec_with_limit;

use crate::linux::version;

/// An object for a kernel.
struct Embedded {
    /// NAME of bpf/NAME.bpf.c, from which it was compiled.
    name: &'static str,
    /// Prefixes of the kernel's machine (`uname -m`).
    machines: &'static [&'static str],
    /// The buffers through which its programs send hits.
    tier: Tier,
    /// The ELF object, packed (RFC 1951).
    packed: &'static [u8],
    /// Its unpacked size.
    bytes: usize,
}

/// All objects that this binary carries, made by build.rs from bpf/.
static OBJECTS: &[Embedded] = include!(concat!(env!("OUT_DIR"), "/objects.rs"));

/// Objects whose programs write to rings where nothing may sleep: at probes and tracepoints. (The packet filter's is written to
/// where packets are sent and received, which may.)
const RINGS: [&str; 2] = ["ioc", "death"];

/// Reason why there is no object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoObject {
    /// None for kernels of this machine.
    Machine(String),
    /// None for the ring tier, which a 32-bit binary cannot have.
    Ring,
    /// None for the ring tier, whose lock may sleep in this kernel.
    RealTime,
    /// It cannot be unpacked.
    Damaged,
}

impl Display for NoObject {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            NoObject::Machine(machine) => {
                write!(f, "this binary has no BPF programs for a kernel of machine {machine:?}")
            }
            NoObject::Ring => f.write_str("a 32-bit binary cannot follow a ring buffer for more than 4 GiB"),
            NoObject::RealTime => f.write_str(
                "before 6.12 a real-time kernel (PREEMPT_RT) may sleep at a BPF ring buffer where it must not",
            ),
            NoObject::Damaged => f.write_str("this binary is damaged: copy it again"),
        }
    }
}

impl std::error::Error for NoObject {}

/// libelf reads the object's tables in place, so they must have the alignment of their largest member.
const ALIGNED: usize = 8;

/// An object, unpacked and aligned.
pub(super) struct Unpacked {
    bytes: Vec<u8>,
    from: usize,
}

impl Unpacked {
    /// The ELF object.
    pub fn object(&self) -> &[u8] {
        self.bytes.get(self.from..).unwrap_or_default()
    }
}

impl Embedded {
    /// The ELF object; `None` if the binary is damaged.
    fn unpack(&self) -> Option<Unpacked> {
        let object = decompress_to_vec_with_limit(self.packed, self.bytes).ok()?;
        let mut bytes = vec![0; self.bytes + ALIGNED];
        // from here on the vector's buffer does not move, since it does not grow
        let from = bytes.as_ptr().align_offset(ALIGNED).min(ALIGNED);
        bytes.truncate(from + self.bytes);
        bytes.get_mut(from..).filter(|place| place.len() == object.len())?.copy_from_slice(&object);
        Some(Unpacked { bytes, from })
    }
}

/// The object of this name for a kernel.
///
/// # Errors
/// There is no such object, or the running kernel can't bear it.
pub(super) fn find(name: &str, machine: &str, tier: Tier) -> Result<Unpacked, NoObject> {
    let fits = |object: &&Embedded| {
        object.name == name && object.machines.iter().any(|begin| machine.starts_with(begin))
    };
    let mut fitting = OBJECTS.iter().filter(fits).peekable();
    if fitting.peek().is_none() {
        return Err(NoObject::Machine(machine.to_string()));
    }
    let object = fitting.find(|object| object.tier == tier).ok_or(NoObject::Ring)?;
    if tier == Tier::Ring && RINGS.contains(&name) && version::rings_may_sleep() {
        return Err(NoObject::RealTime);
    }
    object.unpack().ok_or(NoObject::Damaged)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_unpacked_and_aligned() {
        for object in OBJECTS {
            let unpacked = object.unpack().unwrap();
            assert!(unpacked.object().starts_with(b"\x7fELF") && unpacked.object().len() == object.bytes);
            assert_eq!(unpacked.object().as_ptr() as usize % ALIGNED, 0);
            assert!(object.packed.len() < object.bytes / 2, "packing is worth it");
        }
        let damaged =
            Embedded { name: "", packed: &[0x12; 40], machines: &[], tier: Tier::Perf, bytes: 1000 };
        assert!(damaged.unpack().is_none());
    }

    /// Which programs write to rings is in their sources.
    #[test]
    fn objects_with_rings_are_known() {
        let has_ring = |source: &str| source.contains("BPF_MAP_TYPE_RINGBUF");
        for (name, source) in [
            ("ioc", include_str!("../../bpf/buffers.h")),
            ("death", include_str!("../../bpf/death.bpf.c")),
            ("files", include_str!("../../bpf/files.bpf.c")),
        ] {
            assert_eq!(RINGS.contains(&name), has_ring(source), "{name}");
            assert!(
                OBJECTS.iter().any(|object| object.name == name) || cfg!(not(target_pointer_width = "64"))
            );
        }
    }
}
