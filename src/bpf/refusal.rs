//! Reasons for a refusal by the kernel, each in one line with the information needed to remove it.

use std::fmt::{self, Display, Formatter};

use crate::bpf::failure::Failure;
use crate::linux::version::Version;

/// A system call that the agent needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// bpf().
    Bpf,
    /// perf_event_open().
    PerfEventOpen,
    /// epoll_create1().
    EpollCreate,
}

impl Call {
    /// Its name, and the kernel build option that provides it.
    pub(super) fn name_and_option(self) -> (&'static str, &'static str) {
        match self {
            Call::Bpf => ("bpf()", "CONFIG_BPF_SYSCALL"),
            Call::PerfEventOpen => ("perf_event_open()", "CONFIG_PERF_EVENTS"),
            Call::EpollCreate => ("epoll_create1()", "CONFIG_EPOLL"),
        }
    }
}

/// Reason for a refusal by the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The system call does not exist.
    NoCall(Call),
    /// It fails as if it did not exist, though the kernel was built with it.
    HiddenCall(Call),
    /// The kernel was built without this option.
    BuiltWithout(&'static str),
    /// The verifier of this kernel (release) considers a program unsafe.
    Verifier(String, Failure),
    /// Capabilities for any use of BPF are missing; kernel.perf_event_paranoid if it matters.
    NotAllowed(Option<i32>),
    /// CAP_SYS_ADMIN is missing for probes; kernel.perf_event_paranoid if it matters.
    NoProbesAllowed(Option<i32>),
    /// A system call is forbidden despite the capabilities; kernel.perf_event_paranoid if it matters.
    Forbidden(Call, Option<i32>),
    /// Lockdown is in confidentiality mode.
    LockedDown,
    /// RLIMIT_MEMLOCK is this number of KiB, and the memory of what was asked for counts.
    LockedMemory(u64),
    /// There is not enough memory for maps.
    NoMemory,
    /// This kernel (release) has no BPF ring buffers.
    NoRing(String),
    /// Programs must name the kernel's exact version, and this one was refused; if `unsure`, the kernel may instead
    /// have been built without CONFIG_BPF_EVENTS.
    ExactVersion {
        /// The version that they named.
        version: Version,
        /// Whether its configuration could not be read.
        unsure: bool,
        /// libbpf's failure.
        failure: Failure,
    },
    /// There is no /sys.
    NoSys,
    /// The kernel places no probes into files of the file system that holds an IOC, or iocrec itself (`own`).
    FileSystem {
        /// Whether it is iocrec's own.
        own: bool,
    },
    /// The kernel has no uprobes PMU, and tracefs is not mounted; if `unsure`, the kernel may instead have been built
    /// without uprobes.
    NoTracefs {
        /// Whether its configuration could not be read.
        unsure: bool,
    },
    /// Unknown beyond the failure itself.
    Other(Failure),
}

impl Display for Refusal {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::NoCall(call) => {
                let (name, option) = call.name_and_option();
                write!(f, "there is no {name}: the kernel was built without {option}")
            }
            Refusal::HiddenCall(call) => {
                let (name, _) = call.name_and_option();
                write!(
                    f,
                    "{name} is forbidden here, though the kernel has it: by a container's seccomp filter?"
                )
            }
            Refusal::BuiltWithout(option) => write!(f, "the kernel was built without {option}"),
            Refusal::Verifier(release, failure) => write!(
                f,
                "the verifier rejected a program: please report this bug (kernel {release}): {failure}"
            ),
            // CAP_BPF and CAP_PERFMON came with 5.8 and would suffice for BPF, but not for finding an IOC
            Refusal::NotAllowed(paranoid) => write!(
                f,
                "not allowed to use BPF{}: run as root, or with CAP_SYS_ADMIN, CAP_SYS_PTRACE and \
                 CAP_DAC_READ_SEARCH",
                Paranoid(*paranoid)
            ),
            Refusal::NoProbesAllowed(paranoid) => write!(
                f,
                "not allowed to place probes{}: this kernel wants CAP_SYS_ADMIN for them; run as root (without it, IOCs \
                 may be taken for other servers)",
                Paranoid(*paranoid)
            ),
            Refusal::Forbidden(call, paranoid) => write!(
                f,
                "{} is forbidden here, though iocrec has the capabilities{}: by a container's seccomp filter or a \
                 security module?",
                call.name_and_option().0,
                Paranoid(*paranoid)
            ),
            Refusal::LockedDown => f.write_str(LOCKED_DOWN),
            Refusal::LockedMemory(locked) => write!(
                f,
                "the memory of perf buffers, and before kernel 5.11 of BPF maps, counts as locked, and RLIMIT_MEMLOCK is \
                 {locked} KiB: ulimit -l unlimited, LimitMEMLOCK=infinity for systemd, or a smaller --buffer"
            ),
            Refusal::NoMemory => f.write_str("not enough memory for BPF maps"),
            Refusal::NoRing(release) => {
                write!(f, "BPF ring buffers came with kernel 5.8; this is {release}")
            }
            Refusal::ExactVersion { version, unsure, failure } => {
                let or = if *unsure { "; or it was built without CONFIG_BPF_EVENTS" } else { "" };
                let Version { release, source, .. } = version;
                write!(
                    f,
                    "programs for kernels before 5.0 must name its exact version, and it refused {} (from {source}, \
                     release {release:?}){or}: {failure}",
                    version.number()
                )
            }
            Refusal::NoSys => {
                f.write_str("there is no /sys, where the kernel shows how to place probes: mount -t sysfs sysfs /sys")
            }
            Refusal::FileSystem { own: false } => write!(f, "{NO_PROBES_THERE} that it lies on ({OVERLAY})"),
            Refusal::FileSystem { own: true } => write!(
                f,
                "{NO_PROBES_THERE} that iocrec itself lies on, and could not be tried ({OVERLAY}): run a copy of it \
                 elsewhere, in /dev/shm for example"
            ),
            Refusal::NoTracefs { unsure } => {
                let or = if *unsure { "; or it was built without CONFIG_UPROBE_EVENTS" } else { "" };
                write!(
                    f,
                    "the kernel has no uprobes PMU (4.17), and there is no tracefs: mount -t tracefs tracefs \
                     /sys/kernel/tracing{or}"
                )
            }
            Refusal::Other(failure) => failure.fmt(f),
        }
    }
}

impl std::error::Error for Refusal {}

/// kernel.perf_event_paranoid in brackets, if it may be the reason.
struct Paranoid(Option<i32>);

impl Display for Paranoid {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(level) => write!(f, " (kernel.perf_event_paranoid is {level})"),
            None => Ok(()),
        }
    }
}

/// Lockdown as the reason.
pub const LOCKED_DOWN: &str =
    "kernel lockdown is in confidentiality mode (lockdown= of the kernel's command line), which forbids it";
/// EIO at a probe.
const NO_PROBES_THERE: &str = "the kernel places no probes into files of the file system";
/// The likely file system.
const OVERLAY: &str = "an overlay before kernel 4.18, for example";
