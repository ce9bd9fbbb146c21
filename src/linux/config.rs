//! The build options of the running kernel, where it or its package shows them.

use std::fs;
use std::path::Path;

use miniz_oxide::inflate::decompress_to_vec_with_limit;

/// The text of a kernel's configuration; empty if unknown.
#[derive(Debug, Default)]
pub struct Config(String);

/// The setting of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// Built in, or built as a module.
    On,
    /// Left out.
    Off,
    /// The configuration is unknown.
    Unknown,
}

/// Largest configuration, bytes: usual ones take 300 KiB.
const MAX_SIZE: usize = 4 << 20;

impl Config {
    /// Reads /proc/config.gz (CONFIG_IKCONFIG_PROC), else the files that distributions install.
    pub fn read(root: &Path, release: &str) -> Config {
        let packed = fs::read(root.join("proc/config.gz")).ok().and_then(|bytes| unzip(&bytes));
        let text = packed.or_else(|| {
            let files = [format!("boot/config-{release}"), format!("lib/modules/{release}/config")];
            files.iter().find_map(|file| fs::read(root.join(file)).ok())
        });
        Config(text.map(|text| String::from_utf8_lossy(&text).into_owned()).unwrap_or_default())
    }

    #[cfg(test)]
    /// From the text of a configuration file.
    pub fn of(text: &str) -> Config {
        Config(text.into())
    }

    /// The setting of an option, by its full name.
    pub fn get(&self, option: &str) -> Setting {
        // an option with unmet dependencies is not mentioned at all
        let value = self.0.lines().find_map(|line| line.strip_prefix(option)?.strip_prefix('='));
        match value {
            Some("y" | "m") => Setting::On,
            _ if self.0.is_empty() => Setting::Unknown,
            _ => Setting::Off,
        }
    }
}

/// The content of a gzip file (RFC 1952) whose only optional field may be a name.
fn unzip(bytes: &[u8]) -> Option<Vec<u8>> {
    const HEADER: usize = 10;
    const NAME: u8 = 8;
    let flags = *bytes.strip_prefix(&[0x1f, 0x8b, 8])?.first()?;
    let mut rest = bytes.get(HEADER..)?;
    if flags & NAME != 0 {
        let end = rest.iter().position(|&byte| byte == 0)?;
        rest = rest.get(end + 1..)?;
    }
    // the checksum is not verified: a wrong option would only make a reason wrong
    (flags & !NAME == 0).then(|| decompress_to_vec_with_limit(rest, MAX_SIZE).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options() {
        let config = Config::of("CONFIG_BPF=y\n# CONFIG_BPF_SYSCALL is not set\nCONFIG_PACKET=m\n");
        assert_eq!(config.get("CONFIG_BPF"), Setting::On);
        assert_eq!(config.get("CONFIG_PACKET"), Setting::On);
        assert_eq!(config.get("CONFIG_BPF_SYSCALL"), Setting::Off);
        assert_eq!(config.get("CONFIG_BPF_EVENTS"), Setting::Off);
        assert_eq!(Config::default().get("CONFIG_BPF"), Setting::Unknown);
    }

    #[test]
    fn a_packed_one_and_one_in_boot() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("boot")).unwrap();
        fs::write(dir.path().join("boot/config-1.2.3"), "CONFIG_UPROBES=y\n").unwrap();
        assert_eq!(Config::read(dir.path(), "1.2.3").get("CONFIG_UPROBES"), Setting::On);
        assert_eq!(Config::read(dir.path(), "1.2.4").get("CONFIG_UPROBES"), Setting::Unknown);
        // printf 'CONFIG_BPF=y\n' | gzip -n, and with a name
        let mut packed = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3];
        let deflated = miniz_oxide::deflate::compress_to_vec(b"CONFIG_BPF=y\n", 6);
        packed.extend_from_slice(&deflated);
        assert_eq!(unzip(&packed).unwrap(), b"CONFIG_BPF=y\n");
        packed[3] = 8;
        packed.splice(10..10, *b"config\0");
        fs::create_dir_all(dir.path().join("proc")).unwrap();
        fs::write(dir.path().join("proc/config.gz"), &packed).unwrap();
        assert_eq!(Config::read(dir.path(), "1.2.3").get("CONFIG_BPF"), Setting::On);
        packed.truncate(12);
        assert_eq!(unzip(&packed), None);
    }
}
