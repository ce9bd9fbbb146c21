//! Base's version from its code, for IOCs whose environment does not tell it (3.14, and IOCs that have not come
//! so far yet).
//!
//! Base prints `EPICS R7.0.8.1` (EPICS_VERSION_STRING) at iocInit; the text lies among the constants of
//! libdbCore, of 3.14's libmiscIoc, or of the program. Where it is not (the wheels of PyPI), the name of the
//! library file may tell.

use crate::ioc::module::Module;
use crate::linux::opened::Opened;

/// Prints Base's version: the file that defines it holds the version as a string (3.14: libmiscIoc).
pub const CORE_RELEASE: &str = "coreRelease";
/// What the text begins with.
const MARK: &[u8] = b"EPICS R";
/// Longest version believed: "7.0.8.1-DEV" and the like.
const LONGEST: usize = 32;
/// Read of one file at most: a static IOC with all drivers has some 50 MB.
const MOST: u64 = 64 << 20;
/// Read at once.
const CHUNK: usize = 64 << 10;

/// The version that an IOC's modules tell; empty where none does.
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
    let overlap = MARK.len() + LONGEST;
    let mut bytes = vec![0; CHUNK + overlap];
    for at in (0..MOST).step_by(CHUNK) {
        let have = opened.read_some(&mut bytes, at);
        // what begins in the last bytes is whole in the next
        if let Some(version) = in_bytes(bytes.get(..have)?) {
            return Some(version);
        }
        if have < bytes.len() {
            return None;
        }
    }
    None
}

/// `EPICS R` and digits, dots, letters, minus, up to a NUL: the version.
fn in_bytes(bytes: &[u8]) -> Option<String> {
    let mut rest = bytes;
    loop {
        let at = rest.windows(MARK.len()).position(|window| window == MARK)?;
        rest = rest.get(at + MARK.len()..)?;
        let end = rest
            .iter()
            .take(LONGEST)
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
