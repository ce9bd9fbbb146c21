//! Why the kernel refuses: what a person must know to change it, in one line.
//!
//! The kernel says EPERM, ENOSYS or EINVAL and no more. What it may mean is looked up where the kernel tells of itself:
//! its configuration, lockdown, sysctls, our capabilities and limits. Nothing is decided by it, tiers are chosen by
//! trying; so what cannot be read only makes the reason less exact.

use std::fs;
use std::path::Path;

use crate::linux::config::{Config, Setting};
use crate::linux::version::{self, Version};
use crate::probes::stale_events::TRACEFS;

/// What was being done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Maps made and programs loaded.
    Load,
    /// The buffers for hits opened.
    Buffers,
    /// A probe placed in an IOC.
    Probe,
    /// A probe placed in iocrec itself.
    OwnProbe,
}

/// What is known of the machine.
#[derive(Default)]
struct Surroundings {
    version: Version,
    /// Effective capabilities, a bit each.
    capabilities: u64,
    /// Lockdown is in confidentiality mode, as far as can be told.
    confidential: bool,
    /// kernel.perf_event_paranoid.
    paranoid: Option<i32>,
    /// RLIMIT_MEMLOCK in KiB, where there is one.
    locked: Option<u64>,
    config: Config,
    /// Is there a /sys?
    sys: bool,
    /// The uprobes PMU (from 4.17 on).
    pmu: bool,
    /// tracefs is mounted.
    tracefs: bool,
    /// It has uprobe events.
    uprobe_events: bool,
    /// What tells that the kernel can have no uprobes, where its configuration cannot be read.
    lacking: Lacking,
}

/// Options that the kernel shows by /sys not to have.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Lacking {
    /// There is a /sys without /sys/bus/event_source.
    perf_events: bool,
    /// There is a /sys without /sys/kernel/tracing, where tracefs would be mounted (4.1).
    tracing: bool,
}

/// Bits of capabilities (linux/capability.h).
mod capability {
    pub const SYS_ADMIN: u64 = 1 << 21;
    pub const PERFMON: u64 = 1 << 38;
    pub const BPF: u64 = 1 << 39;
}

/// The reason for what libbpf gave as `errno` and `said` first.
pub fn reason(step: Step, errno: i32, said: &str) -> String {
    Surroundings::read(Path::new("/")).reason(step, errno, said)
}

impl Surroundings {
    fn read(root: &Path) -> Surroundings {
        let text = |path: &str| fs::read_to_string(root.join(path)).unwrap_or_default();
        let exists = |path: &str| root.join(path.trim_start_matches('/')).exists();
        let status = text("proc/self/status");
        let capabilities = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
        let limits = text("proc/self/limits");
        let locked = limits.lines().find_map(|line| line.strip_prefix("Max locked memory"));
        let locked: Option<u64> = locked.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
        let version = version::running();
        let sys = exists("sys/kernel");
        let lacks = |path: &str| sys && !exists(path);
        Surroundings {
            capabilities: capabilities
                .and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok())
                // without /proc: all of them, so that nothing is blamed on their lack
                .unwrap_or(u64::MAX),
            confidential: is_confidential(root),
            paranoid: text("proc/sys/kernel/perf_event_paranoid").trim().parse().ok(),
            locked: locked.map(|bytes| bytes / 1024),
            config: Config::read(root, &version.release),
            sys,
            pmu: exists("sys/bus/event_source/devices/uprobe/type"),
            tracefs: TRACEFS.iter().any(|tracefs| exists(&format!("{tracefs}/trace"))),
            uprobe_events: TRACEFS.iter().any(|tracefs| exists(&format!("{tracefs}/uprobe_events"))),
            lacking: Lacking {
                perf_events: lacks("sys/bus/event_source"),
                tracing: lacks("sys/kernel/tracing"),
            },
            version,
        }
    }

    fn reason(&self, step: Step, errno: i32, said: &str) -> String {
        let known = match (step, errno) {
            (_, libc::ENOSYS) => Some(self.no_system_call(step, said)),
            // what may not be loaded at all fails earlier, when libbpf tries a program of its own or makes a map
            (Step::Load, libc::EACCES) if said.starts_with("prog '") => Some(format!(
                "this kernel ({}) takes a BPF program of iocrec's for unsafe, which is a fault of iocrec's: {said}",
                self.version.release
            )),
            (_, libc::EPERM | libc::EACCES) => Some(self.not_allowed(step)),
            (Step::Load, libc::EINVAL) => self.programs_refused(said),
            (Step::Load, libc::ENOMEM) => Some("not enough memory for BPF maps".into()),
            (Step::Load | Step::Buffers, libc::ENOENT) if !self.sys => Some(NO_SYS.into()),
            (Step::Probe, libc::EIO) => Some(format!("{NO_PROBES_THERE} that it lies on ({OVERLAY})")),
            (Step::OwnProbe, libc::EIO) => Some(format!(
                "{NO_PROBES_THERE} that iocrec itself lies on, and could not be tried ({OVERLAY}): run a copy of it \
                 elsewhere, in /dev/shm for one"
            )),
            (Step::Probe | Step::OwnProbe, _) if !self.pmu => self.nowhere_to_probe(),
            (Step::Probe | Step::OwnProbe, libc::ENOENT | libc::EOPNOTSUPP) => self.without("CONFIG_BPF_EVENTS"),
            _ => None,
        };
        known.unwrap_or_else(|| {
            let error = std::io::Error::from_raw_os_error(errno);
            if said.is_empty() {
                error.to_string()
            } else {
                format!("{error} ({said})")
            }
        })
    }

    /// `None` if the kernel was built with the option, or does not tell.
    fn without(&self, option: &str) -> Option<String> {
        (self.config.get(option) == Setting::Off).then(|| format!("the kernel was built without {option}"))
    }

    fn no_system_call(&self, step: Step, said: &str) -> String {
        let (call, option) = match step {
            Step::Load => ("bpf()", "CONFIG_BPF_SYSCALL"),
            // libbpf: "failed to create epoll instance"
            Step::Buffers if said.contains("epoll") => ("epoll_create1()", "CONFIG_EPOLL"),
            Step::Buffers | Step::Probe | Step::OwnProbe => ("perf_event_open()", "CONFIG_PERF_EVENTS"),
        };
        match self.config.get(option) {
            Setting::On => format!(
                "{call} is forbidden here, though the kernel has it: by a container's seccomp filter?"
            ),
            Setting::Off => format!("the kernel was built without {option}"),
            Setting::Unknown => format!("there is no {call}: the kernel was built without {option}"),
        }
    }

    fn not_allowed(&self, step: Step) -> String {
        let has = |capability| self.capabilities & capability != 0;
        let all = has(capability::SYS_ADMIN) || (has(capability::BPF) && has(capability::PERFMON));
        let paranoid = match self.paranoid {
            Some(level @ 3..) if step != Step::Load => format!(" (kernel.perf_event_paranoid is {level})"),
            _ => String::new(),
        };
        if !all {
            // CAP_BPF and CAP_PERFMON came with 5.8, and would be enough for BPF but not for finding an IOC
            return format!(
                "not allowed to use BPF{paranoid}: run as root, or with CAP_SYS_ADMIN, CAP_SYS_PTRACE and \
                 CAP_DAC_READ_SEARCH"
            );
        }
        if step != Step::Load && !has(capability::SYS_ADMIN) {
            return format!("not allowed to place probes{paranoid}: this kernel wants CAP_SYS_ADMIN for them; run as root");
        }
        if self.confidential {
            return LOCKED_DOWN.into();
        }
        match self.locked {
            Some(locked) if step == Step::Load && self.version.is_before(5, 11) => format!(
                "memory for BPF maps counts as locked before kernel 5.11, and RLIMIT_MEMLOCK is {locked} KiB: \
                 ulimit -l unlimited, or LimitMEMLOCK=infinity for systemd"
            ),
            _ => {
                let call = if step == Step::Load { "bpf()" } else { "perf_event_open()" };
                format!(
                    "{call} is forbidden here, though iocrec has the capabilities{paranoid}: by a container's seccomp \
                     filter or a security module?"
                )
            }
        }
    }

    /// EINVAL at loading.
    fn programs_refused(&self, said: &str) -> Option<String> {
        // libbpf: "map 'hits': failed to create"
        if said.contains("'hits'") && self.version.is_before(5, 8) {
            return Some(format!("BPF ring buffers came with kernel 5.8; this is {}", self.version.release));
        }
        // helpers that it forbids are not there
        if self.confidential {
            return Some(LOCKED_DOWN.into());
        }
        // nobody chooses CONFIG_BPF_EVENTS: it is there with bpf(), perf_event_open() and probes' events
        let unknown = match self.config.get("CONFIG_BPF_EVENTS") {
            Setting::Off => return self.without_events().or_else(|| self.without("CONFIG_BPF_EVENTS")),
            Setting::Unknown => self.without_events(),
            Setting::On => None,
        };
        unknown.or_else(|| {
            // a kernel that is as old as that, or claims to be, or cannot be told
            self.version.is_before(5, 0).then(|| {
                let Version { release, source, .. } = &self.version;
                let or = match self.config.get("CONFIG_BPF_EVENTS") {
                    Setting::Unknown => "; or it was built without CONFIG_BPF_EVENTS",
                    _ => "",
                };
                let said = if said.is_empty() { String::new() } else { format!(": {said}") };
                format!(
                    "programs for kernels before 5.0 must name its exact version, and it refused {} (from {source}, \
                     release {release:?}){or}{said}",
                    self.version.number(),
                )
            })
        })
    }

    /// The option without which the kernel has no events of uprobes: told by its configuration, else by what it shows.
    fn without_events(&self) -> Option<String> {
        // events of uprobes had another name
        let named =
            if self.version.is_before(4, 11) { "CONFIG_UPROBE_EVENT" } else { "CONFIG_UPROBE_EVENTS" };
        let all_off = |options: &[&str]| options.iter().all(|option| self.config.get(option) == Setting::Off);
        let (no_perf, no_uprobes) = match self.config.get("CONFIG_PERF_EVENTS") {
            Setting::Unknown => {
                let no_tracefs_has_them = self.tracefs || self.lacking.tracing;
                let no_pmu = self.sys && !self.pmu;
                let none =
                    no_pmu && !self.uprobe_events && (no_tracefs_has_them || self.version.is_from(4, 17));
                (self.lacking.perf_events, none)
            }
            known => (known == Setting::Off, all_off(&["CONFIG_UPROBE_EVENT", "CONFIG_UPROBE_EVENTS"])),
        };
        let option = if no_perf { "CONFIG_PERF_EVENTS" } else { named };
        (no_perf || no_uprobes).then(|| format!("the kernel was built without {option}"))
    }

    /// There is no uprobes PMU.
    fn nowhere_to_probe(&self) -> Option<String> {
        if !self.sys {
            return Some(NO_SYS.into());
        }
        let without = self.without_events();
        if without.is_some() || self.uprobe_events {
            return without;
        }
        let or = match self.config.get("CONFIG_PERF_EVENTS") {
            Setting::Unknown => "; or it was built without CONFIG_UPROBE_EVENTS",
            _ => "",
        };
        Some(format!(
            "the kernel has no uprobes PMU (4.17), and there is no tracefs: mount -t tracefs tracefs \
             /sys/kernel/tracing{or}"
        ))
    }
}

/// Is lockdown in confidentiality mode? Where its file is not mounted the kernel's command line is asked.
fn is_confidential(root: &Path) -> bool {
    let text = |path: &str| fs::read_to_string(root.join(path));
    match text("sys/kernel/security/lockdown") {
        Ok(modes) => modes.contains("[confidentiality]"),
        Err(_) => text("proc/cmdline")
            .is_ok_and(|words| words.split_whitespace().any(|word| word == "lockdown=confidentiality")),
    }
}

/// Why memory may be read wrong by programs that were loaded, where the machine's surroundings tell.
pub fn wrong_reads() -> Option<&'static str> {
    // up to kernel 5.7 programs that read memory are loaded, and their reads fail
    if is_confidential(Path::new("/")) {
        return Some(LOCKED_DOWN);
    }
    let arm64 = crate::linux::machine::architecture() == Some(object::Architecture::Aarch64);
    fails_with_uao(arm64, &version::running()).then_some(UAO)
}

/// Has it only bpf_probe_read(), which reads as the kernel does? Not on each core does that reach user space.
fn fails_with_uao(arm64: bool, version: &Version) -> bool {
    arm64 && version.is_before(5, 5)
}

const UAO: &str = "arm64 kernels before 5.5 don't read a process's memory for BPF on cores with UAO (ARMv8.2, Cortex-A75 and later), \
                   unless they were built without CONFIG_ARM64_UAO";

const LOCKED_DOWN: &str =
    "kernel lockdown is in confidentiality mode (lockdown= of the kernel's command line), which forbids it";

/// EIO at a probe.
const NO_PROBES_THERE: &str = "the kernel places no probes into files of the file system";
/// Which one that is likely to be.
const OVERLAY: &str = "an overlay before kernel 4.18, for one";
/// Both probes and perf buffers are found through it.
const NO_SYS: &str =
    "there is no /sys, where the kernel tells how probes are made: mount -t sysfs sysfs /sys";

#[cfg(test)]
mod tests {
    use super::*;

    /// Root on a kernel 6.1 that has everything.
    fn root() -> Surroundings {
        Surroundings {
            version: Version::of(6, 1, 0),
            capabilities: u64::MAX,
            sys: true,
            pmu: true,
            tracefs: true,
            uprobe_events: true,
            ..Surroundings::default()
        }
    }

    #[track_caller]
    fn expect(surroundings: &Surroundings, step: Step, errno: i32, words: &[&str]) {
        let reason = surroundings.reason(step, errno, "map 'hits': failed to create");
        assert!(!reason.contains('\n'));
        for word in words {
            assert!(reason.contains(word), "no {word:?} in {reason:?}");
        }
    }

    #[test]
    fn missing_options_are_named() {
        let with = |text: &str| Surroundings { config: Config::of(text), ..root() };
        expect(&root(), Step::Load, libc::ENOSYS, &["CONFIG_BPF_SYSCALL"]);
        expect(
            &with("# CONFIG_BPF_SYSCALL is not set\n"),
            Step::Load,
            libc::ENOSYS,
            &["without CONFIG_BPF_SYSCALL"],
        );
        expect(&with("CONFIG_BPF_SYSCALL=y\n"), Step::Load, libc::ENOSYS, &["seccomp"]);
        expect(&root(), Step::Buffers, libc::ENOSYS, &["CONFIG_PERF_EVENTS"]);
        let epoll = "failed to create epoll instance: Function not implemented";
        let reason = root().reason(Step::Buffers, libc::ENOSYS, epoll);
        assert!(reason.contains("CONFIG_EPOLL") && !reason.contains("PERF"), "{reason}");
        let no_sys = Surroundings { sys: false, ..without_uprobes(6, 1) };
        expect(&no_sys, Step::Probe, libc::ENOENT, &["no /sys", "mount -t sysfs"]);
        expect(&no_sys, Step::Buffers, libc::ENOENT, &["no /sys"]);
    }

    /// Root on a kernel that has neither a PMU for uprobes nor a tracefs mounted.
    fn without_uprobes(major: u32, minor: u32) -> Surroundings {
        let version = Version::of(major, minor, 0);
        Surroundings { version, pmu: false, tracefs: false, uprobe_events: false, ..root() }
    }

    /// Booted, 4.14 to 6.1: it is CONFIG_BPF_EVENTS that the programs want, and others that a person can choose.
    #[test]
    fn the_option_that_events_of_uprobes_lack_is_named() {
        let version = Version::of(4, 14, 5);
        for (config, lacks) in [
            ("CONFIG_BPF_SYSCALL=y\n", "without CONFIG_PERF_EVENTS"),
            ("CONFIG_PERF_EVENTS=y\n", "without CONFIG_UPROBE_EVENTS"),
            ("CONFIG_PERF_EVENTS=y\nCONFIG_UPROBE_EVENTS=y\n", "without CONFIG_BPF_EVENTS"),
        ] {
            let config = Config::of(config);
            let old = Surroundings { version: version.clone(), config, ..without_uprobes(4, 14) };
            let reason = old.reason(Step::Load, libc::EINVAL, "prog 'db_put': failed to load");
            assert!(reason.contains(lacks), "{reason}");
        }
        let config = || Config::of("CONFIG_PERF_EVENTS=y\nCONFIG_BPF_EVENTS=y\n");
        let only_kprobes = Surroundings { config: config(), ..without_uprobes(4, 14) };
        expect(&only_kprobes, Step::Probe, libc::ENOENT, &["without CONFIG_UPROBE_EVENTS"]);
        let before_4_11 = Surroundings { config: config(), ..without_uprobes(4, 9) };
        let reason = before_4_11.reason(Step::Probe, libc::ENOENT, "");
        assert!(reason.ends_with("without CONFIG_UPROBE_EVENT"), "{reason}");
        let config = Config::of("CONFIG_PERF_EVENTS=y\nCONFIG_UPROBE_EVENT=y\n");
        let not_mounted = Surroundings { config, ..without_uprobes(4, 9) };
        let reason = not_mounted.reason(Step::Probe, libc::ENOENT, "");
        assert!(reason.contains("mount -t tracefs") && !reason.contains("CONFIG"), "{reason}");
    }

    /// Where no configuration can be read, only what cannot be otherwise is said.
    #[test]
    fn a_kernel_that_keeps_its_configuration_to_itself_is_judged_by_what_it_shows() {
        let load = |surroundings: &Surroundings| {
            surroundings.reason(Step::Load, libc::EINVAL, "prog 'db_put': failed to load")
        };
        let mounted = || Surroundings { tracefs: true, ..without_uprobes(4, 14) };
        expect(&mounted(), Step::Probe, libc::ENOENT, &["without CONFIG_UPROBE_EVENTS"]);
        assert!(load(&mounted()).contains("without CONFIG_UPROBE_EVENTS"), "{}", load(&mounted()));
        let lacking = Lacking { perf_events: false, tracing: true };
        let no_tracing = Surroundings { lacking, ..without_uprobes(4, 4) };
        expect(&no_tracing, Step::Probe, libc::ENOENT, &["without CONFIG_UPROBE_EVENT"]);
        let lacking = Lacking { perf_events: true, tracing: false };
        let no_perf = Surroundings { lacking, ..without_uprobes(4, 4) };
        assert!(load(&no_perf).contains("without CONFIG_PERF_EVENTS"), "{}", load(&no_perf));
        // since 4.17 a kernel with uprobes has a PMU for them; before, they may wait in a tracefs that is not mounted
        assert!(load(&without_uprobes(4, 19)).contains("without CONFIG_UPROBE_EVENTS"));
        let unknown = without_uprobes(4, 14);
        expect(&unknown, Step::Probe, libc::ENOENT, &["mount -t tracefs", "or", "CONFIG_UPROBE_EVENTS"]);
        assert!(load(&unknown).contains("exact version"), "{}", load(&unknown));
        assert!(load(&unknown).contains("or it was built without CONFIG_BPF_EVENTS"), "{}", load(&unknown));
    }

    #[test]
    fn what_is_not_allowed_is_told_apart() {
        let user = Surroundings { capabilities: 0, paranoid: Some(3), ..root() };
        expect(&user, Step::Load, libc::EPERM, &["root", "CAP_SYS_ADMIN"]);
        expect(&user, Step::Probe, libc::EACCES, &["root", "perf_event_paranoid is 3"]);
        let capabilities = capability::BPF | capability::PERFMON;
        let some = Surroundings { capabilities, paranoid: Some(4), ..root() };
        expect(&some, Step::Probe, libc::EPERM, &["CAP_SYS_ADMIN", "perf_event_paranoid is 4"]);
        for errno in [libc::EPERM, libc::EINVAL] {
            expect(&Surroundings { confidential: true, ..root() }, Step::Load, errno, &["lockdown"]);
        }
        let old = Surroundings { version: Version::of(5, 10, 262), locked: Some(64), ..root() };
        expect(&old, Step::Load, libc::EPERM, &["RLIMIT_MEMLOCK is 64 KiB", "LimitMEMLOCK"]);
        let new = Surroundings { locked: Some(64), ..root() };
        expect(&new, Step::Load, libc::EPERM, &["seccomp"]);
        expect(&root(), Step::Buffers, libc::EPERM, &["perf_event_open() is forbidden", "seccomp"]);
    }

    #[test]
    fn old_kernels() {
        let at = |major, minor, patch| Surroundings { version: Version::of(major, minor, patch), ..root() };
        expect(&at(5, 4, 59), Step::Load, libc::EINVAL, &["5.8", "this is 5.4.59"]);
        let reason = at(4, 19, 48).reason(Step::Load, libc::EINVAL, "prog 'db_put': failed to load");
        for word in ["4.19.48", "release", "db_put"] {
            assert!(reason.contains(word), "{reason}");
        }
        let reason = at(4, 4, 178).reason(Step::Load, libc::EACCES, "prog 'db_put': BPF program load failed");
        assert!(
            reason.contains("4.4.178") && reason.contains("db_put") && !reason.contains("seccomp"),
            "{reason}"
        );
        expect(&at(4, 4, 178), Step::Load, libc::EACCES, &["bpf()", "seccomp"]);
        expect(&root(), Step::Load, libc::EINVAL, &["Invalid argument", "'hits'"]);
        expect(&root(), Step::Probe, libc::EIO, &["file system", "overlay"]);
        expect(&root(), Step::OwnProbe, libc::EIO, &["iocrec itself", "overlay", "/dev/shm"]);
    }

    /// Booted 4.19 on a Cortex-A76, and on a Cortex-A57, which has none.
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
    fn lockdown_is_told_by_its_file_or_the_command_line() {
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
        let nothing = Surroundings::read(empty.path());
        assert!(!nothing.sys && !nothing.pmu && !nothing.tracefs && !nothing.confidential);
        assert!(
            !nothing.lacking.perf_events && !nothing.lacking.tracing,
            "where there is no /sys nothing is told"
        );
        assert_eq!((nothing.paranoid, nothing.locked), (None, None));
        expect(&nothing, Step::Buffers, libc::ENOENT, &["no /sys"]);
    }
}
