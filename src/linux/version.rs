//! The running kernel's version, as exactly as possible.
//!
//! Kernels before 5.0 load a program for probes only if it names their LINUX_VERSION_CODE. The release that uname
//! reports may differ (Debian's and Ubuntu's do, and vendors' strings may have no third number), so the kernel's own
//! note in its vDSO is preferred: it contains that very number. Otherwise versions only explain refusals; they decide
//! nothing.

use object::elf::{FileHeader32, FileHeader64};
use object::read::elf::{FileHeader, ProgramHeader};
use object::Endianness;

use crate::linux::memory::Memory;

/// A version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Version {
    /// Major, minor and patch number; zeroes if unknown.
    pub numbers: (u32, u32, u32),
    /// Source of the numbers, for messages.
    pub source: &'static str,
    /// The output of `uname -r`.
    pub release: String,
}

impl Version {
    #[cfg(test)]
    /// A version with these numbers.
    pub fn of(major: u32, minor: u32, patch: u32) -> Version {
        let release = format!("{major}.{minor}.{patch}");
        Version { numbers: (major, minor, patch), source: "a test", release }
    }

    /// Whether the version is known to be older.
    pub fn is_before(&self, major: u32, minor: u32) -> bool {
        self.numbers.0 > 0 && (self.numbers.0, self.numbers.1) < (major, minor)
    }

    /// Whether the version is known to be this or newer.
    pub fn is_from(&self, major: u32, minor: u32) -> bool {
        self.numbers.0 > 0 && !self.is_before(major, minor)
    }

    /// The version number as people write it.
    pub fn number(&self) -> String {
        let (major, minor, patch) = self.numbers;
        format!("{major}.{minor}.{patch}")
    }
}

/// The version of the running kernel.
pub fn running() -> Version {
    let release = nix::sys::utsname::uname();
    let release = release.map(|name| name.release().to_string_lossy().into_owned()).unwrap_or_default();
    match vdso_code() {
        Some(code) => {
            Version { numbers: (code >> 16, code >> 8 & 0xff, code & 0xff), source: "the vDSO", release }
        }
        None => Version { numbers: of_release(&release), source: "uname -r", release },
    }
}

/// Whether the lock of a BPF ring buffer may sleep: before 6.12 in kernels for real-time use. A probe's program may not sleep
/// before 6.0, and one of a tracepoint never: the kernel says "scheduling while atomic", and may hang.
pub fn rings_may_sleep() -> bool {
    let build = nix::sys::utsname::uname();
    build.is_ok_and(|name| may_sleep(&name.version().to_string_lossy(), &running()))
}

/// The same for a kernel that calls itself so (`uname -v`). One whose version is unknown counts as old.
fn may_sleep(build: &str, version: &Version) -> bool {
    build.contains("PREEMPT_RT") && !version.is_from(6, 12)
}

/// The numbers at the beginning of a release.
fn of_release(release: &str) -> (u32, u32, u32) {
    let mut numbers =
        release.split(|letter: char| !letter.is_ascii_digit()).map(|word| word.parse().unwrap_or(0));
    let mut next = || numbers.next().unwrap_or(0);
    (next(), next(), next())
}

/// LINUX_VERSION_CODE of the running kernel, if its vDSO has a note of it.
pub fn vdso_code() -> Option<u32> {
    /// Larger than the headers and notes of any vDSO, which are at its beginning.
    const HEAD: usize = 4096;
    // SAFETY: getauxval has no preconditions.
    let address = unsafe { libc::getauxval(libc::AT_SYSINFO_EHDR) };
    let mut bytes = [0; HEAD];
    if address == 0 || !Memory::new(std::process::id()).read(address as u64, &mut bytes) {
        return None;
    }
    if size_of::<usize>() == 8 {
        code::<FileHeader64<Endianness>>(&bytes)
    } else {
        code::<FileHeader32<Endianness>>(&bytes)
    }
}

/// The version code in the notes of an ELF file.
fn code<Elf: FileHeader<Endian = Endianness>>(bytes: &[u8]) -> Option<u32> {
    let header = Elf::parse(bytes).ok()?;
    let endian = header.endian().ok()?;
    for segment in header.program_headers(endian, bytes).ok()? {
        let Ok(Some(mut notes)) = segment.notes(endian, bytes) else { continue };
        while let Ok(Some(note)) = notes.next() {
            // arch/*/vdso/note.S: name "Linux", type 0, LINUX_VERSION_CODE
            if note.name() == b"Linux" && note.n_type(endian).0 == 0 {
                return Some(u32::from_ne_bytes(note.desc().get(..4)?.try_into().ok()?));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases() {
        assert_eq!(of_release("4.19.48"), (4, 19, 48));
        assert_eq!(of_release("4.4.178-vendor-rt2"), (4, 4, 178));
        assert_eq!(of_release("5.10"), (5, 10, 0));
        assert_eq!(of_release(""), (0, 0, 0));
    }

    /// The running kernel's vDSO agrees with the major and minor numbers of its release.
    #[test]
    fn the_vdso_has_the_version() {
        let running = running();
        let (major, minor, _) = of_release(&running.release);
        assert_eq!((running.numbers.0, running.numbers.1), (major, minor));
        if cfg!(target_arch = "x86_64") {
            assert_eq!(running.source, "the vDSO");
        }
    }

    #[test]
    fn other_bytes_have_no_version() {
        assert_eq!(code::<FileHeader64<Endianness>>(&[0; 64]), None);
        assert_eq!(code::<FileHeader32<Endianness>>(b"\x7fELF"), None);
    }

    #[test]
    fn rings_of_kernels_for_real_time_use() {
        let real_time = "#1 SMP PREEMPT_RT Debian 6.1.153-1 (2025-09-20)";
        assert!(
            may_sleep(real_time, &Version::of(5, 10, 0)) && may_sleep(real_time, &Version::of(6, 11, 11))
        );
        assert!(!may_sleep(real_time, &Version::of(6, 12, 0)), "its lock is one that spins");
        assert!(may_sleep(real_time, &Version::default()));
        let other = "#1 SMP PREEMPT_DYNAMIC Debian 6.1.153-1 (2025-09-20)";
        assert!(!may_sleep(other, &Version::of(6, 1, 153)) && !may_sleep("", &Version::default()));
    }

    #[test]
    fn before() {
        assert!(Version::of(4, 19, 48).is_before(5, 0) && !Version::of(5, 0, 0).is_before(5, 0));
        assert!(Version::of(4, 17, 0).is_from(4, 17) && !Version::of(4, 16, 9).is_from(4, 17));
        let unknown = Version::default();
        assert!(
            !unknown.is_before(5, 0) && !unknown.is_from(4, 0),
            "what is not known is neither old nor new"
        );
    }
}
