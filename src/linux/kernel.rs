//! Facts about the running kernel: version, configuration, lockdown, sysctls, mounted file systems, and what this
//! process may do.
//!
//! These facts decide nothing: only trying shows what a kernel can do. They explain a refusal to a person, so a fact
//! that can't be read only makes the explanation less exact.

use std::fs;
use std::path::Path;

use object::Architecture;

use crate::linux::config::Config;
use crate::linux::machine;
use crate::linux::version::{self, Version};

/// Mount points of tracefs, as libbpf looks for it.
pub const TRACEFS: [&str; 2] = ["/sys/kernel/debug/tracing", "/sys/kernel/tracing"];

/// The file of uprobe events in tracefs.
pub const UPROBE_EVENTS: &str = "uprobe_events";

/// The file with the type number of the uprobes PMU for perf_event_open() (from kernel 4.17 on).
pub const UPROBE_PMU: &str = "/sys/bus/event_source/devices/uprobe/type";

/// Capability bits (linux/capability.h).
pub mod capability {
    /// CAP_SYS_ADMIN.
    pub const SYS_ADMIN: u64 = 1 << 21;
    /// CAP_PERFMON (5.8).
    pub const PERFMON: u64 = 1 << 38;
    /// CAP_BPF (5.8).
    pub const BPF: u64 = 1 << 39;
}

/// Facts about the kernel and what this process may ask of it.
#[derive(Default)]
pub struct Facts {
    /// Its version.
    pub version: Version,
    /// Its configuration, where it can be read.
    pub config: Config,
    /// Effective capabilities of this process, one bit each; all of them if they cannot be read.
    pub capabilities: u64,
    /// Whether lockdown is known to be in confidentiality mode.
    pub confidential: bool,
    /// kernel.perf_event_paranoid.
    pub paranoid: Option<i32>,
    /// RLIMIT_MEMLOCK in KiB, if there is a limit.
    pub locked: Option<u64>,
    /// Whether there is a /sys.
    pub sys: bool,
    /// Whether there is a PMU for uprobes.
    pub pmu: bool,
    /// Whether tracefs is mounted.
    pub tracefs: bool,
    /// Whether tracefs has uprobe events.
    pub uprobe_events: bool,
    /// Whether there is a /sys without /sys/bus/event_source: the kernel has no perf events.
    pub no_perf_events: bool,
    /// Whether there is a /sys without /sys/kernel/tracing, where tracefs would be mounted (4.1): the kernel has no
    /// tracing.
    pub no_tracing: bool,
}

impl Facts {
    /// Reads the facts about the running kernel.
    pub fn read() -> Facts {
        Facts::read_below(Path::new("/"))
    }

    /// The same with another root directory.
    pub(crate) fn read_below(root: &Path) -> Facts {
        let text = |path: &str| fs::read_to_string(root.join(path)).unwrap_or_default();
        let exists = |path: &str| root.join(path.trim_start_matches('/')).exists();
        let limits = text("proc/self/limits");
        let locked = limits.lines().find_map(|line| line.strip_prefix("Max locked memory"));
        let locked: Option<u64> = locked.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
        let version = version::running();
        let sys = exists("sys/kernel");
        let lacks = |path: &str| sys && !exists(path);
        Facts {
            capabilities: effective(&text("proc/self/status")).unwrap_or(u64::MAX),
            confidential: is_confidential(root),
            paranoid: text("proc/sys/kernel/perf_event_paranoid").trim().parse().ok(),
            locked: locked.map(|bytes| bytes / 1024),
            config: Config::read(root, &version.release),
            sys,
            pmu: exists(UPROBE_PMU),
            tracefs: TRACEFS.iter().any(|tracefs| exists(&format!("{tracefs}/trace"))),
            uprobe_events: TRACEFS.iter().any(|tracefs| exists(&format!("{tracefs}/{UPROBE_EVENTS}"))),
            no_perf_events: lacks("sys/bus/event_source"),
            no_tracing: lacks("sys/kernel/tracing"),
            version,
        }
    }
}

/// The effective capabilities in a process's /proc/PID/status.
fn effective(status: &str) -> Option<u64> {
    let hex = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(hex.trim(), 16).ok()
}

/// Whether lockdown is in confidentiality mode. If its file is not mounted, the kernel's command line decides.
fn is_confidential(root: &Path) -> bool {
    let text = |path: &str| fs::read_to_string(root.join(path));
    match text("sys/kernel/security/lockdown") {
        Ok(modes) => modes.contains("[confidentiality]"),
        Err(_) => text("proc/cmdline").is_ok_and(|options| {
            options.split_whitespace().any(|option| option == "lockdown=confidentiality")
        }),
    }
}

/// Why BPF programs that read a process's memory may load but read something else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WrongReads {
    /// Lockdown is in confidentiality mode: up to kernel 5.7 reads fail at run time.
    LockedDown,
    /// The kernel has only bpf_probe_read(), which reads as the kernel does; on arm64 cores with UAO that does not
    /// reach user space.
    Uao,
}

/// Why this kernel may read a process's memory wrongly, if it may.
pub fn wrong_reads() -> Option<WrongReads> {
    if is_confidential(Path::new("/")) {
        return Some(WrongReads::LockedDown);
    }
    let arm64 = machine::architecture() == Some(Architecture::Aarch64);
    fails_with_uao(arm64, &version::running()).then_some(WrongReads::Uao)
}

/// bpf_probe_read_user() came with kernel 5.5.
fn fails_with_uao(arm64: bool, version: &Version) -> bool {
    arm64 && version.is_before(5, 5)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Booted 4.19 on a Cortex-A76, and on a Cortex-A57, which has no UAO.
    #[test]
    fn cores_with_uao_are_named_where_they_matter() {
        assert!(
            fails_with_uao(true, &Version::of(4, 19, 48)) && !fails_with_uao(true, &Version::of(5, 5, 0))
        );
        assert!(
            !fails_with_uao(false, &Version::of(4, 19, 48)) && !fails_with_uao(true, &Version::default())
        );
    }

    #[test]
    fn lockdown_is_read_from_its_file_or_the_command_line() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("proc/cmdline", "quiet lockdown=integrity\n");
        assert!(!is_confidential(root.path()));
        write("proc/cmdline", "quiet lockdown=confidentiality\n");
        assert!(is_confidential(root.path()));
        write("sys/kernel/security/lockdown", "none [integrity] confidentiality\n");
        assert!(!is_confidential(root.path()));
        write("sys/kernel/security/lockdown", "none integrity [confidentiality]\n");
        assert!(is_confidential(root.path()));
    }

    #[test]
    fn a_machine_without_anything_is_read() {
        let empty = tempfile::tempdir().unwrap();
        let nothing = Facts::read_below(empty.path());
        assert!(!nothing.sys && !nothing.pmu && !nothing.tracefs && !nothing.confidential);
        assert!(!nothing.no_perf_events && !nothing.no_tracing, "where there is no /sys nothing is shown");
        assert_eq!((nothing.paranoid, nothing.locked, nothing.capabilities), (None, None, u64::MAX));
    }
}
