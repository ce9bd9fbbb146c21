//! Finds the reason for a failure.
//!
//! The kernel reports EPERM, ENOSYS or EINVAL and nothing else. This module infers the likely cause from the facts that
//! the kernel shows of itself ([`Facts`]). No decision depends on it, since tiers are chosen by trying; so a fact that
//! cannot be read only makes the reason less exact.

use iocrec_log::event::Tier;

use crate::bpf::failure::{Failure, Step};
use crate::bpf::refusal::{Call, Refusal};
use crate::linux::config::Setting;
use crate::linux::kernel::{capability, Facts};

/// The reason for a failure, as far as the running kernel shows it.
pub fn diagnose(step: Step, failure: Failure) -> Refusal {
    from_facts(&Facts::read(), step, failure)
}

fn from_facts(facts: &Facts, step: Step, failure: Failure) -> Refusal {
    let load = matches!(step, Step::Maps(_) | Step::Program);
    let probe = matches!(step, Step::Probe | Step::OwnProbe);
    let known = match (step, failure.errno) {
        (_, libc::ENOSYS) => Some(no_call(facts, step)),
        // if loading is forbidden altogether, it fails earlier, at one of libbpf's own programs or at a map
        (Step::Program, libc::EACCES) => {
            Some(Refusal::Verifier(facts.version.release.clone(), failure.clone()))
        }
        (_, libc::EPERM | libc::EACCES) => Some(not_allowed(facts, load, &failure)),
        (Step::Maps(_) | Step::Program, libc::EINVAL) => programs_refused(facts, step, &failure),
        (Step::Maps(_) | Step::Program, libc::ENOMEM) => Some(Refusal::NoMemory),
        (_, libc::ENOENT) if !probe && !facts.sys => Some(Refusal::NoSys),
        (Step::Probe, libc::EIO) => Some(Refusal::FileSystem { own: false }),
        (Step::OwnProbe, libc::EIO) => Some(Refusal::FileSystem { own: true }),
        _ if probe && !facts.pmu => nowhere_to_probe(facts),
        (_, libc::ENOENT | libc::EOPNOTSUPP) if probe => without(facts, "CONFIG_BPF_EVENTS"),
        _ => None,
    };
    known.unwrap_or(Refusal::Other(failure))
}

/// `None` if the kernel was built with the option, or does not show whether it was.
fn without(facts: &Facts, option: &'static str) -> Option<Refusal> {
    (facts.config.get(option) == Setting::Off).then_some(Refusal::BuiltWithout(option))
}

fn no_call(facts: &Facts, step: Step) -> Refusal {
    let call = match step {
        Step::Maps(_) | Step::Program => Call::Bpf,
        Step::Epoll => Call::EpollCreate,
        Step::Buffers | Step::Probe | Step::OwnProbe => Call::PerfEventOpen,
    };
    let (_, option) = call.name_and_option();
    match facts.config.get(option) {
        Setting::On => Refusal::HiddenCall(call),
        Setting::Off => Refusal::BuiltWithout(option),
        Setting::Unknown => Refusal::NoCall(call),
    }
}

fn not_allowed(facts: &Facts, load: bool, failure: &Failure) -> Refusal {
    let has = |capability| facts.capabilities & capability != 0;
    let all = has(capability::SYS_ADMIN) || (has(capability::BPF) && has(capability::PERFMON));
    let paranoid = facts.paranoid.filter(|&level| level >= 3 && !load);
    if !all {
        return Refusal::NotAllowed(paranoid);
    }
    if !load && !has(capability::SYS_ADMIN) {
        return Refusal::NoProbesAllowed(paranoid);
    }
    if facts.confidential {
        return Refusal::LockedDown;
    }
    // of maps before 5.11, and of perf buffers in every version (libbpf: "failed to mmap perf buffer on cpu #0")
    let counts = if load { facts.version.is_before(5, 11) } else { failure.complaint.contains("mmap") };
    match facts.locked {
        Some(locked) if counts => Refusal::LockedMemory(locked),
        _ => Refusal::Forbidden(if load { Call::Bpf } else { Call::PerfEventOpen }, paranoid),
    }
}

/// EINVAL at loading.
fn programs_refused(facts: &Facts, step: Step, failure: &Failure) -> Option<Refusal> {
    // the ring is the only kind of map that an older kernel lacks
    if step == Step::Maps(Tier::Ring) && facts.version.is_before(5, 8) {
        return Some(Refusal::NoRing(facts.version.release.clone()));
    }
    // helpers that lockdown forbids appear missing
    if facts.confidential {
        return Some(Refusal::LockedDown);
    }
    // CONFIG_BPF_EVENTS cannot be chosen: it comes with bpf(), perf_event_open() and probes' events
    let events = facts.config.get("CONFIG_BPF_EVENTS");
    let missing = match events {
        Setting::Off => return without_events(facts).or_else(|| without(facts, "CONFIG_BPF_EVENTS")),
        Setting::Unknown => without_events(facts),
        Setting::On => None,
    };
    missing.or_else(|| {
        // a kernel that is that old, or claims to be, or does not show its version
        let (version, failure) = (facts.version.clone(), failure.clone());
        let unsure = events == Setting::Unknown;
        facts.version.is_before(5, 0).then_some(Refusal::ExactVersion { version, unsure, failure })
    })
}

/// The option without which the kernel has no uprobe events: from its configuration, or else from other facts.
fn without_events(facts: &Facts) -> Option<Refusal> {
    // the option for uprobe events had another name
    let named = if facts.version.is_before(4, 11) { "CONFIG_UPROBE_EVENT" } else { "CONFIG_UPROBE_EVENTS" };
    let all_off = |options: &[&str]| options.iter().all(|option| facts.config.get(option) == Setting::Off);
    let (no_perf, no_uprobes) = match facts.config.get("CONFIG_PERF_EVENTS") {
        Setting::Unknown => {
            let no_tracefs_has_them = facts.tracefs || facts.no_tracing;
            let no_pmu = facts.sys && !facts.pmu;
            let none =
                no_pmu && !facts.uprobe_events && (no_tracefs_has_them || facts.version.is_from(4, 17));
            (facts.no_perf_events, none)
        }
        known => (known == Setting::Off, all_off(&["CONFIG_UPROBE_EVENT", "CONFIG_UPROBE_EVENTS"])),
    };
    let option = if no_perf { "CONFIG_PERF_EVENTS" } else { named };
    (no_perf || no_uprobes).then_some(Refusal::BuiltWithout(option))
}

/// Finds why there is no uprobes PMU.
fn nowhere_to_probe(facts: &Facts) -> Option<Refusal> {
    if !facts.sys {
        return Some(Refusal::NoSys);
    }
    let without = without_events(facts);
    if without.is_some() || facts.uprobe_events {
        return without;
    }
    Some(Refusal::NoTracefs { unsure: facts.config.get("CONFIG_PERF_EVENTS") == Setting::Unknown })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linux::config::Config;
    use crate::linux::version::Version;

    /// Root on a 6.1 kernel that has everything.
    fn root() -> Facts {
        Facts {
            version: Version::of(6, 1, 0),
            capabilities: u64::MAX,
            sys: true,
            pmu: true,
            tracefs: true,
            uprobe_events: true,
            ..Facts::default()
        }
    }

    fn refusal(facts: &Facts, step: Step, errno: i32) -> Refusal {
        let complaint = match step {
            Step::Program => "prog 'db_put': failed to load",
            Step::Maps(_) => "map 'hits': failed to create",
            _ => "",
        };
        let refusal = from_facts(facts, step, Failure { errno, complaint: complaint.into() });
        assert!(!refusal.to_string().contains('\n'));
        refusal
    }

    #[track_caller]
    fn expect(facts: &Facts, step: Step, errno: i32, words: &[&str]) {
        let reason = refusal(facts, step, errno).to_string();
        for word in words {
            assert!(reason.contains(word), "no {word:?} in {reason:?}");
        }
    }

    const MAPS: Step = Step::Maps(Tier::Perf);

    #[test]
    fn missing_options_are_named() {
        let with = |text: &str| Facts { config: Config::of(text), ..root() };
        expect(&root(), MAPS, libc::ENOSYS, &["CONFIG_BPF_SYSCALL"]);
        let off = with("# CONFIG_BPF_SYSCALL is not set\n");
        assert_eq!(refusal(&off, MAPS, libc::ENOSYS), Refusal::BuiltWithout("CONFIG_BPF_SYSCALL"));
        expect(&with("CONFIG_BPF_SYSCALL=y\n"), MAPS, libc::ENOSYS, &["seccomp"]);
        expect(&root(), Step::Buffers, libc::ENOSYS, &["CONFIG_PERF_EVENTS"]);
        assert_eq!(refusal(&root(), Step::Epoll, libc::ENOSYS), Refusal::NoCall(Call::EpollCreate));
        let no_sys = Facts { sys: false, ..without_uprobes(6, 1) };
        expect(&no_sys, Step::Probe, libc::ENOENT, &["no /sys", "mount -t sysfs"]);
        expect(&no_sys, Step::Buffers, libc::ENOENT, &["no /sys"]);
        expect(&Facts::default(), Step::Buffers, libc::ENOENT, &["no /sys"]);
    }

    /// Root on a kernel that has neither a PMU for uprobes nor a tracefs mounted.
    fn without_uprobes(major: u32, minor: u32) -> Facts {
        let version = Version::of(major, minor, 0);
        Facts { version, pmu: false, tracefs: false, uprobe_events: false, ..root() }
    }

    /// Booted, 4.14 to 6.1: the programs need CONFIG_BPF_EVENTS, but people can only choose other options.
    #[test]
    fn the_option_that_events_of_uprobes_lack_is_named() {
        let version = Version::of(4, 14, 5);
        for (config, lacks) in [
            ("CONFIG_BPF_SYSCALL=y\n", "CONFIG_PERF_EVENTS"),
            ("CONFIG_PERF_EVENTS=y\n", "CONFIG_UPROBE_EVENTS"),
            ("CONFIG_PERF_EVENTS=y\nCONFIG_UPROBE_EVENTS=y\n", "CONFIG_BPF_EVENTS"),
        ] {
            let config = Config::of(config);
            let old = Facts { version: version.clone(), config, ..without_uprobes(4, 14) };
            assert_eq!(refusal(&old, Step::Program, libc::EINVAL), Refusal::BuiltWithout(lacks));
        }
        let config = || Config::of("CONFIG_PERF_EVENTS=y\nCONFIG_BPF_EVENTS=y\n");
        let only_kprobes = Facts { config: config(), ..without_uprobes(4, 14) };
        expect(&only_kprobes, Step::Probe, libc::ENOENT, &["without CONFIG_UPROBE_EVENTS"]);
        let before_4_11 = Facts { config: config(), ..without_uprobes(4, 9) };
        let without = Refusal::BuiltWithout("CONFIG_UPROBE_EVENT");
        assert_eq!(refusal(&before_4_11, Step::Probe, libc::ENOENT), without);
        let config = Config::of("CONFIG_PERF_EVENTS=y\nCONFIG_UPROBE_EVENT=y\n");
        let not_mounted = Facts { config, ..without_uprobes(4, 9) };
        assert_eq!(refusal(&not_mounted, Step::Probe, libc::ENOENT), Refusal::NoTracefs { unsure: false });
        expect(&not_mounted, Step::Probe, libc::ENOENT, &["mount -t tracefs"]);
    }

    /// If no configuration can be read, only certain conclusions are reported.
    #[test]
    fn a_kernel_that_keeps_its_configuration_to_itself_is_judged_by_what_it_shows() {
        let load = |facts: &Facts| refusal(facts, Step::Program, libc::EINVAL);
        let without = Refusal::BuiltWithout;
        let mounted = || Facts { tracefs: true, ..without_uprobes(4, 14) };
        expect(&mounted(), Step::Probe, libc::ENOENT, &["without CONFIG_UPROBE_EVENTS"]);
        assert_eq!(load(&mounted()), without("CONFIG_UPROBE_EVENTS"));
        let no_tracing = Facts { no_tracing: true, ..without_uprobes(4, 4) };
        expect(&no_tracing, Step::Probe, libc::ENOENT, &["without CONFIG_UPROBE_EVENT"]);
        let no_perf = Facts { no_perf_events: true, ..without_uprobes(4, 4) };
        assert_eq!(load(&no_perf), without("CONFIG_PERF_EVENTS"));
        // since 4.17 a kernel with uprobes has a PMU for them; before, they may wait in a tracefs that is not mounted
        assert_eq!(load(&without_uprobes(4, 19)), without("CONFIG_UPROBE_EVENTS"));
        let unknown = without_uprobes(4, 14);
        expect(&unknown, Step::Probe, libc::ENOENT, &["mount -t tracefs", "or", "CONFIG_UPROBE_EVENTS"]);
        assert!(matches!(load(&unknown), Refusal::ExactVersion { unsure: true, .. }));
        let words = ["exact version", "or it was built without CONFIG_BPF_EVENTS"];
        expect(&unknown, Step::Program, libc::EINVAL, &words);
    }

    #[test]
    fn reasons_for_eperm() {
        let user = Facts { capabilities: 0, paranoid: Some(3), ..root() };
        expect(&user, MAPS, libc::EPERM, &["root", "CAP_SYS_ADMIN"]);
        expect(&user, Step::Probe, libc::EACCES, &["root", "perf_event_paranoid is 3"]);
        let capabilities = capability::BPF | capability::PERFMON;
        let some = Facts { capabilities, paranoid: Some(4), ..root() };
        expect(&some, Step::Probe, libc::EPERM, &["CAP_SYS_ADMIN", "perf_event_paranoid is 4"]);
        for errno in [libc::EPERM, libc::EINVAL] {
            expect(&Facts { confidential: true, ..root() }, Step::Program, errno, &["lockdown"]);
        }
        let old = Facts { version: Version::of(5, 10, 262), locked: Some(64), ..root() };
        expect(&old, MAPS, libc::EPERM, &["RLIMIT_MEMLOCK is 64 KiB", "LimitMEMLOCK"]);
        let new = Facts { locked: Some(64), ..root() };
        expect(&new, MAPS, libc::EPERM, &["seccomp"]);
        expect(&new, Step::Buffers, libc::EPERM, &["perf_event_open() is forbidden", "seccomp"]);
        let failure =
            Failure { errno: libc::EPERM, complaint: "failed to mmap perf buffer on cpu #1: EPERM".into() };
        assert_eq!(from_facts(&new, Step::Buffers, failure), Refusal::LockedMemory(64));
        expect(&root(), Step::Buffers, libc::EPERM, &["perf_event_open() is forbidden", "seccomp"]);
    }

    #[test]
    fn old_kernels() {
        let at = |major, minor, patch| Facts { version: Version::of(major, minor, patch), ..root() };
        expect(&at(5, 4, 59), Step::Maps(Tier::Ring), libc::EINVAL, &["5.8", "this is 5.4.59"]);
        expect(&at(4, 19, 48), Step::Program, libc::EINVAL, &["4.19.48", "release", "db_put"]);
        let unsafe_there = refusal(&at(4, 4, 178), Step::Program, libc::EACCES);
        assert!(matches!(unsafe_there, Refusal::Verifier(..)));
        expect(&at(4, 4, 178), Step::Program, libc::EACCES, &["report this bug", "4.4.178", "db_put"]);
        expect(&at(4, 4, 178), MAPS, libc::EACCES, &["bpf()", "seccomp"]);
        expect(&root(), Step::Maps(Tier::Ring), libc::EINVAL, &["Invalid argument", "'hits'"]);
        expect(&root(), Step::Probe, libc::EIO, &["file system", "overlay"]);
        expect(&root(), Step::OwnProbe, libc::EIO, &["iocrec itself", "overlay", "/dev/shm"]);
    }
}
