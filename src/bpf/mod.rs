//! The kernel's side: BPF programs loaded, probes placed, hits handed over.
//!
//! A tier is chosen by loading its programs, not by version numbers. Everything here goes with the
//! process: probes and maps disappear when the agent ends, however it ends.

mod batch;
pub mod contract;
pub mod hit;
pub mod maps;
pub(crate) mod objects;
mod perf_buffer;
#[cfg(test)]
#[path = "../../tests/bpf/portability.rs"]
mod portability;
pub(crate) mod refusal;
mod ring;
pub mod transport;
mod user_reads;
#[cfg(test)]
#[path = "../../tests/bpf/verifier_model.rs"]
mod verifier_model;

use std::cell::RefCell;
use std::sync::Arc;

use iocrec_log::event::{Tier, TierChoice};
use libbpf_rs::{libbpf_sys, AsRawLibbpf, ObjectBuilder, PrintLevel};

use crate::bpf::maps::{LeavesOut, Tables};
use crate::bpf::objects::programs;
use crate::bpf::refusal::Step;
use crate::bpf::transport::Transport;
use crate::linux::machine;
use crate::probes::attacher::Attacher;

thread_local! {
    /// What libbpf said last on this thread, for the reason of a failure.
    static SAID: RefCell<String> = const { RefCell::new(String::new()) };
}

fn remember(_: PrintLevel, message: String) {
    // the first line of a failure is what a person needs; the verifier's pages are not, nor that locked memory could
    // not be raised, which may not matter
    SAID.with_borrow_mut(|said| {
        if said.is_empty() && !message.contains("RLIMIT_MEMLOCK") {
            *said = message.lines().next().unwrap_or_default().trim_start_matches("libbpf: ").to_string();
        }
    });
}

/// Runs something of libbpf's; what it complains of becomes a reason.
pub(crate) fn explained<T>(step: Step, work: impl FnOnce() -> libbpf_rs::Result<T>) -> Result<T, String> {
    libbpf_rs::set_print(Some((PrintLevel::Warn, remember)));
    SAID.with_borrow_mut(String::clear);
    work().map_err(|error| {
        let said = SAID.take();
        match errno(&error) {
            Some(errno) => refusal::reason(step, errno, &said),
            None if said.is_empty() => error.to_string(),
            None => format!("{error} ({said})"),
        }
    })
}

/// The system's number of an error: libbpf-rs gives it away in the text of the innermost one alone, which is that of
/// [`std::io::Error`].
fn errno(error: &libbpf_rs::Error) -> Option<i32> {
    let text = format!("{error:#}");
    text.rsplit_once("(os error ")?.1.split_once(')')?.0.parse().ok()
}

/// The loaded programs and what they watch.
pub struct Kernel {
    pub(crate) attacher: Attacher,
    /// Where hits come out.
    pub transport: Transport,
    /// What the programs are told.
    pub tables: Tables,
}

/// The tier that a user asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// The best there is.
    Auto,
    /// This one, or a lower one with a line about it.
    Only(Tier),
}

/// Loads the programs of the best tier that works here. Without any the tier is
/// [`Tier::Packet`] and there is no [`Kernel`].
pub fn open(wish: Wish, leaves_out: LeavesOut) -> (Option<Kernel>, TierChoice) {
    let mut refused = Vec::new();
    let machine = machine::name();
    for tier in [Tier::Ring, Tier::Perf] {
        match wish {
            Wish::Only(Tier::Packet) => continue,
            Wish::Only(Tier::Perf) if tier == Tier::Ring => continue,
            _ => {}
        }
        let loaded = programs(&machine, tier)
            .and_then(|unpacked| load(unpacked.object(), leaves_out, tier == Tier::Perf));
        match loaded.and_then(tested) {
            Ok(kernel) => return (Some(kernel), TierChoice { tier, refused }),
            Err(reason) => refused.push((tier, reason)),
        }
    }
    (None, TierChoice { tier: Tier::Packet, refused })
}

pub(crate) fn load(bytes: &[u8], leaves_out: LeavesOut, perf: bool) -> Result<Kernel, String> {
    user_reads::prepare();
    let object = explained(Step::Load, || {
        let mut object = ObjectBuilder::default().open_memory(bytes)?;
        maps::size(&mut object, leaves_out, perf)?;
        if let Some(code) = crate::linux::version::vdso_code() {
            // SAFETY: the object is open and not loaded; the call only notes the number.
            unsafe { libbpf_sys::bpf_object__set_kversion(object.as_libbpf_object().as_ptr(), code) };
        }
        object.load()
    })?;
    let transport = explained(Step::Buffers, || Transport::open(&object))?;
    let tables = explained(Step::Load, || Tables::open(&object, leaves_out))?;
    let attacher = Attacher::new(Arc::new(object));
    Ok(Kernel { attacher, transport, tables })
}

/// The same, if it does what it must on this kernel.
fn tested(mut kernel: Kernel) -> Result<Kernel, String> {
    crate::probes::self_test::run(&mut kernel).map(|()| kernel)
}

/// Kernels before 5.11 count BPF maps as locked memory, with a limit of 64 KiB; each probe has one descriptor or two,
/// and 40 IOCs have more than the usual 1024. Not being allowed to raise a limit is no error: newer kernels don't need
/// the first, and who has too few descriptors is told so where one is missing.
pub fn raise_limits() {
    let limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: setrlimit only reads the struct, which lives until it returns.
    unsafe { libc::setrlimit(libc::RLIMIT_MEMLOCK, &limit) };
    let mut files = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: both calls get a struct that outlives them; the second only reads it.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut files) == 0 {
            files.rlim_cur = files.rlim_max.min(MOST_FILES);
            libc::setrlimit(libc::RLIMIT_NOFILE, &raw const files);
        }
    }
}

/// Descriptors that are asked for: enough for 2,000 IOCs.
const MOST_FILES: libc::rlim_t = 65536;

impl Kernel {
    /// What places probes, from whichever thread.
    pub fn attacher(&self) -> Attacher {
        self.attacher.clone()
    }
}
