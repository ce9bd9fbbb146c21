//! Whether a tier's programs do here what they are for, tried on ourselves before any IOC is touched.
//!
//! That programs load says little: kernels accept probes that are never hit, some fail to read the memory of
//! user space, and in a PID namespace of its own iocrec would never recognize a process. So one function of this very
//! program is probed and called once, and what comes out of the transport must be what its argument points to: a
//! record with an alarm and 40 bytes of text, whose form is looked up in the same map as those of IOCs. The probe is
//! taken out again at once. A tier that fails is refused with a reason.

use std::hint::black_box;
use std::mem::offset_of;
use std::path::Path;

use crate::bpf::contract::REC_GBL_FWD_LINK;
use crate::bpf::hit::{parse, Body, Head, Raw};
use crate::bpf::maps::Told;
use crate::bpf::refusal::Step;
use crate::bpf::Kernel;
use crate::linux::opened::Opened;
use crate::linux::{elf, machine, process};
use crate::probes::attacher::{Probe, Spot};
use crate::probes::place::place;
use crate::probes::removal;

/// What must be read: 40 bytes, as many as a string of EPICS has.
const TEXT: [u8; 40] = *b"what iocrec must read of its own memory\0";
const STATUS: u16 = 17;
const SEVERITY: u16 = 2;

/// The file that the probed function is in.
pub const OWN_FILE: &str = "/proc/self/exe";

/// Looks like a record to the programs; as aligned as those are.
#[repr(C, align(16))]
struct Record {
    rdes: *const u8,
    status: u16,
    severity: u16,
    active: u8,
    value: [u8; TEXT.len()],
}

/// The function that is probed.
#[inline(never)]
extern "C" fn complete(record: *const Record) {
    black_box(record);
}

/// Tries the programs.
///
/// # Errors
/// Why they cannot be relied on, in words.
pub fn run(kernel: &mut Kernel) -> Result<(), String> {
    if size_of::<usize>() == 4 && !(machine::is_32_bit() && machine::is_named_truly()) {
        // trying it would be the end of us where such a kernel kills 32-bit processes at a probe (4.15 to 5.3)
        return Err("a 32-bit iocrec can place no probes on a 64-bit kernel: use the 64-bit one".into());
    }
    let rdes = [0u8];
    let record = Record { rdes: rdes.as_ptr(), status: STATUS, severity: SEVERITY, active: 0, value: TEXT };
    let record = black_box(&raw const record);
    let told = told(rdes.as_ptr() as usize as u64, offset_of!(Record, value) as u32);
    ask(kernel, &told, record)
}

/// Where everything lies in a [`Record`], as the programs want it (bpf/hits.h).
fn told(rdes: u64, value: u32) -> Told {
    const FORM_STRING: u32 = 2;
    let mut process = [0; 32];
    let offsets = [offset_of!(Record, rdes), offset_of!(Record, status), offset_of!(Record, active)];
    for (into, offset) in process.chunks_exact_mut(4).zip(offsets) {
        into.copy_from_slice(&(offset as u32).to_ne_bytes());
    }
    let mut key = [0; 16];
    key[..8].copy_from_slice(&rdes.to_ne_bytes());
    key[8..].copy_from_slice(&u64::from(std::process::id()).to_ne_bytes());
    let mut layout = [0; 32];
    layout[8..12].copy_from_slice(&FORM_STRING.to_ne_bytes());
    layout[12..16].copy_from_slice(&value.to_ne_bytes());
    Told { process, types: vec![(key, layout)] }
}

/// Probes [`complete`], calls it and judges what comes out.
fn ask(kernel: &mut Kernel, told: &Told, record: *const Record) -> Result<(), String> {
    let (probe, answer) = attempt(kernel, told, record)?;
    removal::aside([probe]);
    answer
}

/// The same, with the probe still in place.
fn attempt(
    kernel: &mut Kernel,
    told: &Told,
    record: *const Record,
) -> Result<(Probe, Result<(), String>), String> {
    let function = black_box(complete as extern "C" fn(*const Record));
    let address = function as usize as u64;
    let pid = std::process::id();
    let maps = process::mappings(pid).map_err(|error| format!("/proc/self/maps: {error}"))?;
    let own = maps.iter().find(|mapping| (mapping.start..mapping.end).contains(&address));
    let own = own.ok_or("iocrec does not find itself in /proc/self/maps")?;
    let opened = Opened::named(Path::new(OWN_FILE)).map_err(|error| format!("{OWN_FILE}: {error}"))?;
    let offset = address - own.start + own.offset;
    let code_for = elf::Elf::read(&opened, &[]).map_err(|error| error.to_string())?.machine;
    let place = place(code_for, offset, &elf::code(&opened, offset), REC_GBL_FWD_LINK.arguments)
        .map_err(|reason| format!("iocrec: {reason}"))?;
    let offset = offset + place.offset;
    let spot = Spot { file: own.file, offset, code: elf::code(&opened, offset) };
    let thread = nix::unistd::gettid().as_raw().cast_unsigned();
    // this program reads more than the others do
    let attacher = &kernel.attacher;
    let probe = attacher.attach_as(Step::OwnProbe, &REC_GBL_FWD_LINK, &opened, &spot, thread);
    let probe = probe.map_err(|error| error.to_string())?;
    let traced = kernel.tables.trace(pid, told);
    if traced.is_ok() {
        function(record);
    }
    let _ = kernel.tables.forget(pid);
    traced?;
    let mut answer = Err(no_hit());
    while kernel.transport.drain(|batch| {
        for (head, body) in batch.samples().filter_map(parse).filter(|(head, _)| head.pid == pid) {
            answer = judge(&head, &body, record as usize as u64);
        }
    }) {}
    Ok((probe, answer.map_err(|reason| format!("the self-test failed: {reason}"))))
}

/// Why no hit has come.
fn no_hit() -> String {
    if process::is_first_pid_namespace() {
        "a probe in iocrec itself was accepted, but no hit of it came".into()
    } else {
        "iocrec runs in a PID namespace of its own, where hits cannot be told apart; start its container in that of \
         the host"
            .into()
    }
}

/// Is this what the probed call must have brought?
fn judge(head: &Head, body: &Body, record: u64) -> Result<(), String> {
    let expected = Some(Raw { dbf: 0, count: 1, bytes: &TEXT });
    let Body::Complete { value, .. } = body else { return Err("another program was hit".into()) };
    if head.object != record {
        return Err(format!("the argument {record:#x} was read as {:#x}", head.object));
    }
    if (head.status, head.severity) != (STATUS, SEVERITY) || *value != expected {
        let why = crate::bpf::refusal::wrong_reads().map(|why| format!(": {why}")).unwrap_or_default();
        return Err(format!("memory of a process is not read as it is{why}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bpf::hit::Form;
    use crate::bpf::load;
    use crate::bpf::maps::LeavesOut;
    use crate::bpf::objects::programs;
    use crate::not_run::{is_root, not_run, Needs};
    use iocrec_log::event::Tier;
    use std::sync::{Mutex, PoisonError};

    /// These tests probe the one function of the one process that they are.
    static ALONE: Mutex<()> = Mutex::new(());

    fn hit(status: u16, value: &[u8]) -> Result<(), String> {
        let head = Head {
            time: 1,
            sp: 2,
            caller: 3,
            object: 0x1000,
            pid: 4,
            tid: 5,
            status,
            severity: SEVERITY,
            active: false,
            dbf: Some(0),
        };
        let value = Some(Raw { dbf: 0, count: 1, bytes: value });
        judge(&head, &Body::Complete { form: Form::Single, value }, 0x1000)
    }

    #[test]
    fn only_the_right_answer_passes() {
        assert_eq!(hit(STATUS, &TEXT), Ok(()));
        assert!(hit(0, &TEXT).unwrap_err().contains("memory"));
        assert!(hit(STATUS, &TEXT[..39]).unwrap_err().contains("memory"));
        assert!(hit(STATUS, &[0; 40]).unwrap_err().contains("memory"));
    }

    /// On this very kernel: both tiers' programs pass, and do not where they are told wrong offsets. Nothing stays.
    #[test]
    fn programs_that_read_other_memory_are_refused() {
        if !is_root() {
            return not_run("self_test::programs_that_read_other_memory_are_refused", Needs::Root);
        }
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        for tier in [Tier::Ring, Tier::Perf] {
            let mut kernel = load(
                programs(&machine::name(), tier).unwrap().object(),
                LeavesOut::default(),
                tier == Tier::Perf,
            )
            .unwrap();
            assert_eq!(run(&mut kernel), Ok(()), "{tier:?}");
            let rdes = [0];
            let (status, severity, value) = (STATUS, SEVERITY, TEXT);
            let record = Record { rdes: rdes.as_ptr(), status, severity, active: 0, value };
            let wrong = told(rdes.as_ptr() as usize as u64, offset_of!(Record, value) as u32 + 1);
            let reason = ask(&mut kernel, &wrong, black_box(&raw const record)).unwrap_err();
            assert!(reason.contains("memory"), "{tier:?}: {reason}");
            let unknown = Told { types: vec![], ..told(0, 0) };
            let reason = ask(&mut kernel, &unknown, black_box(&raw const record)).unwrap_err();
            assert!(reason.contains("memory"), "{tier:?}: {reason}");
        }
    }

    /// As on kernels before 4.17, on this one: probes by events in tracefs, bound to a process, in a file that a
    /// descriptor names. They go with the probe.
    #[test]
    fn events_in_tracefs() {
        if !is_root() {
            return not_run("self_test::events_in_tracefs", Needs::Root);
        }
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: constant C strings; the mounts are this thread's alone.
        let mounted = unsafe {
            let (none, root) = (c"none".as_ptr(), c"/".as_ptr());
            let (tracefs, at) = (c"tracefs".as_ptr(), c"/sys/kernel/tracing".as_ptr());
            libc::unshare(libc::CLONE_NEWNS) == 0
                && libc::mount(
                    none,
                    root,
                    std::ptr::null(),
                    libc::MS_REC | libc::MS_PRIVATE,
                    std::ptr::null(),
                ) == 0
                && libc::mount(tracefs, at, tracefs, 0, std::ptr::null()) == 0
        };
        if !mounted {
            return not_run("self_test::events_in_tracefs", Needs::Kernel("mounting tracefs".into()));
        }
        let events = || {
            let text = std::fs::read_to_string("/sys/kernel/tracing/uprobe_events").unwrap();
            let own = format!("libbpf_{}_", std::process::id());
            text.lines().filter(|line| line.contains(&own)).map(str::to_string).collect::<Vec<_>>()
        };
        let bytes = programs(&machine::name(), Tier::Perf).unwrap();
        let mut kernel = load(bytes.object(), LeavesOut::default(), true).unwrap();
        kernel.attacher.mode = libbpf_rs::libbpf_sys::PROBE_ATTACH_MODE_LEGACY;
        let rdes = [0];
        let (status, severity, value) = (STATUS, SEVERITY, TEXT);
        let record = Record { rdes: rdes.as_ptr(), status, severity, active: 0, value };
        let told = told(rdes.as_ptr() as usize as u64, offset_of!(Record, value) as u32);
        let (probe, answer) = attempt(&mut kernel, &told, black_box(&raw const record)).unwrap();
        assert_eq!(answer, Ok(()));
        assert_eq!(events().len(), 1, "nothing is tested");
        drop(probe);
        assert!(events().is_empty(), "{:?}", events());
    }

    #[test]
    fn another_record_or_program_is_no_answer() {
        let head = Head {
            time: 1,
            sp: 2,
            caller: 3,
            object: 0x1000,
            pid: 4,
            tid: 5,
            status: STATUS,
            severity: SEVERITY,
            active: false,
            dbf: Some(0),
        };
        assert!(judge(&head, &Body::Process, 0x1000).unwrap_err().contains("another program"));
        let value = Some(Raw { dbf: 0, count: 1, bytes: &TEXT });
        let body = Body::Complete { form: Form::Single, value };
        assert!(judge(&head, &body, 0x2000).unwrap_err().contains("0x2000 was read as 0x1000"));
    }
}
