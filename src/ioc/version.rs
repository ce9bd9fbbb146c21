//! Base's version from its code, for IOCs whose environment lacks it (3.14, and IOCs that have not reached iocInit).
//!
//! At iocInit, Base prints `EPICS R7.0.8.1` (EPICS_VERSION_STRING). The string is among the constants of libdbCore, of
//! 3.14's libmiscIoc, or of the program. If it is missing (in PyPI wheels), the file name of the library may contain
//! the version.

use crate::ioc::module::Module;
use crate::linux::opened::Opened;

/// Prints Base's version: the file that defines it holds the version as a string (3.14: libmiscIoc).
pub const CORE_RELEASE: &str = "coreRelease";
/// Beginning of the string.
const PREFIX: &[u8] = b"EPICS R";
/// Longest version accepted, such as "7.0.8.1-DEV".
const MAX_LENGTH: usize = 32;
/// Most bytes read of one file: a static IOC with all drivers has some 50 MB.
const MAX_BYTES: u64 = 64 << 20;
/// Bytes read at once.
const CHUNK: usize = 64 << 10;

/// Returns the version of an IOC's Base; empty if unknown.
pub fn of(modules: &[Module]) -> String {
    let knows = |module: &&Module| module.elf.symbol(CORE_RELEASE).is_some();
    let text = modules.iter().filter(knows).find_map(|module| in_file(&module.opened));
    let by_name = || {
        modules.iter().find_map(|module| {
            let name = module.path.rsplit('/').next()?;
            let version = name.strip_prefix("libdbCore.so.").or_else(|| name.strip_prefix("libdbIoc.so."))?;
            Some(version.to_string())
        })
    };
    text.or_else(by_name).unwrap_or_default()
}

fn in_file(opened: &Opened) -> Option<String> {
    let overlap = PREFIX.len() + MAX_LENGTH;
    let mut bytes = vec![0; CHUNK + overlap];
    for at in (0..MAX_BYTES).step_by(CHUNK) {
        let have = opened.read_some(&mut bytes, at);
        // a string cut here is complete in the next chunk
        if let Some(version) = in_bytes(bytes.get(..have)?) {
            return Some(version);
        }
        if have < bytes.len() {
            return None;
        }
    }
    None
}

/// The version: the digits, dots, letters and minus signs that follow `EPICS R`.
fn in_bytes(bytes: &[u8]) -> Option<String> {
    let mut rest = bytes;
    loop {
        let at = rest.windows(PREFIX.len()).position(|window| window == PREFIX)?;
        rest = rest.get(at + PREFIX.len()..)?;
        let end = rest
            .iter()
            .take(MAX_LENGTH)
            .position(|byte| !matches!(byte, b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' | b'.' | b'-' | b'_'));
        let text = end.and_then(|end| std::str::from_utf8(rest.get(..end)?).ok());
        if let Some(version) = text.filter(|text| text.starts_with(|letter: char| letter.is_ascii_digit())) {
            return Some(version.to_string());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_that_base_prints() {
        assert_eq!(in_bytes(b"\0EPICS Release\0EPICS R3.14.12.8 $Date\0"), Some("3.14.12.8".into()));
        assert_eq!(in_bytes(b"## EPICS R7.0.8.1-E3\0"), Some("7.0.8.1-E3".into()));
        assert_eq!(in_bytes(b"EPICS R7.0.8"), None, "cut short");
        assert_eq!(in_bytes(b""), None);
    }
}
