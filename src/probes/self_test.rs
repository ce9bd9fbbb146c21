//! Tests a tier's programs on iocrec itself before any IOC is touched.
//!
//! Successful loading of programs proves little: kernels accept probes that are never hit, some fail to read user space
//! memory, and in its own PID namespace iocrec would never recognize a process. So iocrec probes one of its own
//! functions, calls it once, and checks that the hit holds the data to which the function's argument points: a record
//! with an alarm and 40 bytes of text, whose form is looked up in the same map as those of IOCs. Then it removes the
//! probe. A tier that fails is refused with a reason.

use std::fmt::{self, Display, Formatter};
use std::hint::black_box;
use std::io;
use std::mem::offset_of;
use std::path::Path;
use std::time::Duration;

use crate::bpf::contract::{Form, ProcessLayout, TypeKey, ValueLayout, REC_GBL_FWD_LINK};
use crate::bpf::failure::Step;
use crate::bpf::hit::{parse, Body, Head, Raw};
use crate::bpf::maps::Layouts;
use crate::bpf::refusal::LOCKED_DOWN;
use crate::bpf::shared::Shared;
use crate::bpf::table::MapError;
use crate::linux::elf::ElfError;
use crate::linux::kernel::{wrong_reads, WrongReads};
use crate::linux::opened::Opened;
use crate::linux::reader::Inspection;
use crate::linux::{elf, machine, process};
use crate::probes::attacher::{Probe, ProbeError, Spot, PATIENCE};
use crate::probes::kernel::Kernel;
use crate::probes::place::{place, Unfit};
use crate::probes::removal;

/// Reason why a tier's programs are unreliable.
#[derive(Debug, PartialEq, Eq)]
pub enum SelfTestError {
    /// This program is 32-bit and the kernel 64-bit.
    Pointers,
    /// This file in /proc about itself could not be read; the errno.
    OwnFile(&'static str, i32),
    /// Its own program is not an ELF file.
    OwnElf(ElfError),
    /// Its own function is in none of its mappings.
    NotMapped,
    /// Its own function cannot be probed.
    OwnCode(Unfit),
    /// The probe could not be placed.
    Probe(ProbeError),
    /// The programs could not be given their input.
    Map(MapError),
    /// No hit came.
    NoHit,
    /// No recognizable hit came: this is not the first PID namespace.
    PidNamespace,
    /// A hit of a different program came.
    OtherProgram,
    /// The function's argument was read incorrectly.
    Argument {
        /// Its value.
        passed: u64,
        /// The value read.
        read: u64,
    },
    /// Memory was read incorrectly, perhaps for this reason.
    Memory(Option<WrongReads>),
}

impl Display for SelfTestError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            SelfTestError::Pointers => {
                f.write_str("a 32-bit iocrec can place no probes on a 64-bit kernel: use the 64-bit one")
            }
            SelfTestError::OwnFile(path, errno) => {
                write!(f, "{path}: {}", io::Error::from_raw_os_error(*errno))
            }
            SelfTestError::OwnElf(why) => write!(f, "{OWN_FILE}: {why}"),
            SelfTestError::NotMapped => write!(f, "iocrec does not find itself in {OWN_MAPPINGS}"),
            SelfTestError::OwnCode(why) => write!(f, "iocrec: {why}"),
            SelfTestError::Probe(why) => why.fmt(f),
            SelfTestError::Map(why) => why.fmt(f),
            failed => {
                f.write_str("the self-test failed: ")?;
                match failed {
                    SelfTestError::PidNamespace => f.write_str(
                        "iocrec runs in a PID namespace of its own, where hits cannot be told apart; start its \
                         container in that of the host",
                    ),
                    SelfTestError::OtherProgram => f.write_str("another program was hit"),
                    SelfTestError::Argument { passed, read } => {
                        write!(f, "the argument {passed:#x} was read as {read:#x}")
                    }
                    SelfTestError::Memory(why) => {
                        f.write_str("memory of a process is read incorrectly")?;
                        match why {
                            Some(WrongReads::LockedDown) => write!(f, ": {LOCKED_DOWN}"),
                            Some(WrongReads::Uao) => write!(f, ": {UAO}"),
                            None => Ok(()),
                        }
                    }
                    _ => f.write_str("a probe in iocrec itself was accepted, but no hit of it came"),
                }
            }
        }
    }
}

impl std::error::Error for SelfTestError {}

const UAO: &str = "arm64 kernels before 5.5 don't read a process's memory for BPF on cores with UAO (ARMv8.2, Cortex-A75 and later), \
                   unless they were built without CONFIG_ARM64_UAO";

/// The value to read: 40 bytes, the size of an EPICS string.
const TEXT: [u8; 40] = *b"what iocrec must read of its own memory\0";
const STATUS: u16 = 17;
const SEVERITY: u16 = 2;

/// The file that contains the probed function.
const OWN_FILE: &str = "/proc/self/exe";
/// Its mappings.
const OWN_MAPPINGS: &str = "/proc/self/maps";
/// Time for reading both.
const OWN_TIME: Duration = Duration::from_secs(20);

/// The test's record for the programs, aligned like real ones.
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
/// They are unreliable, for this reason.
pub fn run(kernel: &mut Kernel) -> Result<(), SelfTestError> {
    if size_of::<usize>() == 4 && !(machine::is_32_bit() && machine::is_named_truly()) {
        // x86_64 kernels from 4.15 to 5.3 kill 32-bit processes at a probe, including this one
        return Err(SelfTestError::Pointers);
    }
    let rdes = [0u8];
    let record = Record { rdes: rdes.as_ptr(), status: STATUS, severity: SEVERITY, active: 0, value: TEXT };
    let record = black_box(&raw const record);
    let layouts = layouts(rdes.as_ptr() as usize as u64, offset_of!(Record, value) as u32);
    ask(kernel, &layouts, record)
}

/// The layout of a [`Record`].
fn layouts(rdes: u64, value: u32) -> Layouts {
    let process = ProcessLayout {
        rdes: offset_of!(Record, rdes) as u32,
        stat: offset_of!(Record, status) as u32,
        pact: offset_of!(Record, active) as u32,
        ..ProcessLayout::zeroed()
    };
    let key = TypeKey { rdes, pid: std::process::id().into() };
    let layout = ValueLayout { form: Form::String as u32, value, ..ValueLayout::zeroed() };
    Layouts { process, types: vec![(key, layout)] }
}

/// Probes [`complete`], calls it and checks the hit.
fn ask(kernel: &mut Kernel, layouts: &Layouts, record: *const Record) -> Result<(), SelfTestError> {
    let (probe, answer) = attempt(kernel, layouts, record)?;
    removal::aside([probe]);
    answer
}

/// The same, with the probe still in place.
fn attempt(
    kernel: &mut Kernel,
    layouts: &Layouts,
    record: *const Record,
) -> Result<(Probe, Result<(), SelfTestError>), SelfTestError> {
    // a reader process that does not answer in time gives none
    let errno = |error: io::Error| error.raw_os_error().unwrap_or(libc::ETIME);
    let unread = |path| move |error: io::Error| SelfTestError::OwnFile(path, errno(error));
    let function = black_box(complete as extern "C" fn(*const Record));
    let address = function as usize as u64;
    let pid = std::process::id();
    // a machine that is busy now is no reason to do without probes until the recorder ends
    let look = Inspection::begin(pid, u64::MAX, OWN_TIME);
    let maps = process::mappings(pid).map_err(unread(OWN_MAPPINGS))?;
    let mapping = maps.iter().find(|mapping| (mapping.start..mapping.end).contains(&address));
    let mapping = mapping.ok_or(SelfTestError::NotMapped)?;
    let opened = Opened::named(Path::new(OWN_FILE)).map_err(unread(OWN_FILE))?;
    let offset = address - mapping.start + mapping.offset;
    let elf = elf::Elf::read(&opened, &[]).map_err(SelfTestError::OwnElf)?;
    let code = elf::code(&opened, offset);
    // this program reads more than the others
    let program = REC_GBL_FWD_LINK;
    let place = place(elf.machine, offset, &code, program.arguments).map_err(SelfTestError::OwnCode)?;
    let offset = offset + place.offset;
    let spot = Spot { file: mapping.file, offset, code: elf::code(&opened, offset) };
    drop(look);
    let thread = nix::unistd::gettid().as_raw().cast_unsigned();
    let (mut patience, thread) = (PATIENCE, (thread, None));
    let probe = kernel.attacher.attach_as(Step::OwnProbe, &program, &opened, &spot, thread, &mut patience);
    let probe = probe.map_err(SelfTestError::Probe)?;
    let traced = kernel.maps.trace(pid, layouts);
    if traced.is_ok() {
        function(record);
    }
    let _ = kernel.maps.forget(pid);
    traced.map_err(SelfTestError::Map)?;
    let mut answer = Err(no_hit());
    while kernel.transport.drain(|batch| {
        for (head, body) in batch.samples().filter_map(parse).filter(|(head, _)| head.pid == pid) {
            answer = judge(&head, &body, record as usize as u64);
        }
    }) {}
    Ok((probe, answer))
}

/// Reason why there was no hit.
fn no_hit() -> SelfTestError {
    if process::is_first_pid_namespace() {
        SelfTestError::NoHit
    } else {
        SelfTestError::PidNamespace
    }
}

/// Checks that this is the hit that the call must cause.
fn judge(head: &Head, body: &Body, record: u64) -> Result<(), SelfTestError> {
    let expected = Some(Raw { dbf: 0, count: 1, bytes: &TEXT });
    let Body::Complete { value, .. } = body else { return Err(SelfTestError::OtherProgram) };
    if head.object != record {
        return Err(SelfTestError::Argument { passed: record, read: head.object });
    }
    if (head.status, head.severity) != (STATUS, SEVERITY) || *value != expected {
        return Err(SelfTestError::Memory(wrong_reads()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bpf::hit::Form;
    use crate::bpf::maps::LeavesOut;
    use crate::bpf::transport::Room;
    use crate::not_run::{is_root, not_run, Needs};
    use iocrec_log::event::Tier;
    use std::sync::{Mutex, PoisonError};

    /// These tests all probe the same function of this process.
    static ALONE: Mutex<()> = Mutex::new(());

    fn hit(status: u16, value: &[u8]) -> Result<(), SelfTestError> {
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
        let wrong = Err(SelfTestError::Memory(wrong_reads()));
        assert_eq!(hit(0, &TEXT), wrong);
        assert_eq!(hit(STATUS, &TEXT[..39]), wrong);
        assert_eq!(hit(STATUS, &[0; 40]), wrong);
    }

    /// On this kernel both tiers' programs pass, and fail if given wrong offsets. Nothing is left behind.
    #[test]
    fn programs_that_read_other_memory_are_refused() {
        if !is_root() {
            return not_run("self_test::programs_that_read_other_memory_are_refused", Needs::Root);
        }
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        for tier in [Tier::Ring, Tier::Perf] {
            let mut kernel = Kernel::load(tier, LeavesOut::default(), Room::default()).unwrap();
            assert_eq!(run(&mut kernel), Ok(()), "{tier:?}");
            let rdes = [0];
            let (status, severity, value) = (STATUS, SEVERITY, TEXT);
            let record = Record { rdes: rdes.as_ptr(), status, severity, active: 0, value };
            let wrong = layouts(rdes.as_ptr() as usize as u64, offset_of!(Record, value) as u32 + 1);
            let memory = Err(SelfTestError::Memory(wrong_reads()));
            assert_eq!(ask(&mut kernel, &wrong, black_box(&raw const record)), memory, "{tier:?}");
            let unknown = Layouts { types: vec![], ..layouts(0, 0) };
            assert_eq!(ask(&mut kernel, &unknown, black_box(&raw const record)), memory, "{tier:?}");
        }
    }

    #[test]
    fn a_reader_that_answers_late() {
        use crate::linux::reader::use_reader_process;
        use nix::sys::signal::{kill, Signal};
        if !is_root() {
            return not_run("self_test::a_reader_that_answers_late", Needs::Root);
        }
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let mut kernel = Kernel::load(Tier::Ring, LeavesOut::default(), Room::default()).unwrap();
        use_reader_process();
        let children = format!("/proc/self/task/{}/children", nix::unistd::gettid());
        let children = std::fs::read_to_string(children).unwrap();
        let reader = children.split_whitespace().next_back().and_then(|pid| pid.parse().ok()).unwrap();
        let reader = nix::unistd::Pid::from_raw(reader);
        kill(reader, Signal::SIGSTOP).unwrap();
        let waker = std::thread::spawn(move || {
            // longer than the loop waits, and far from the deadline of an inspection
            std::thread::sleep(Duration::from_millis(200));
            let _ = kill(reader, Signal::SIGCONT);
        });
        assert_eq!(run(&mut kernel), Ok(()));
        waker.join().unwrap();
    }

    /// A record is of another type when the process is traced again, as one of another process at the same address: what the
    /// programs have noted of it before counts no more.
    #[test]
    fn a_record_of_another_type_at_the_same_address() {
        if !is_root() {
            return not_run("self_test::a_record_of_another_type_at_the_same_address", Needs::Root);
        }
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let value_at = offset_of!(Record, value) as u32;
        for tier in [Tier::Ring, Tier::Perf] {
            let mut kernel = Kernel::load(tier, LeavesOut::default(), Room::default()).unwrap();
            let types = [0_u8; 2];
            let [first, second] = [0, 1].map(|at| &raw const types[at]);
            let (status, severity, value) = (STATUS, SEVERITY, TEXT);
            let mut record = Record { rdes: first, status, severity, active: 0, value };
            let before = layouts(first as usize as u64, value_at);
            assert_eq!(ask(&mut kernel, &before, black_box(&raw const record)), Ok(()), "{tier:?}");
            record.rdes = second;
            // values of the first type lie elsewhere now
            let mut now = layouts(first as usize as u64, value_at + 1);
            now.types.extend(layouts(second as usize as u64, value_at).types);
            assert_eq!(ask(&mut kernel, &now, black_box(&raw const record)), Ok(()), "{tier:?}");
        }
    }

    /// Tries on this kernel the probes of kernels before 4.17: by events in tracefs, bound to a process, in a file that
    /// a descriptor names. The events are deleted with the probe.
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
                // another program may have mounted it there, and no file system can be mounted twice at one place
                && (std::path::Path::new("/sys/kernel/tracing/uprobe_events").exists()
                    || libc::mount(tracefs, at, tracefs, 0, std::ptr::null()) == 0)
        };
        if !mounted {
            return not_run("self_test::events_in_tracefs", Needs::Kernel("mounting tracefs".into()));
        }
        let events = || {
            let text = std::fs::read_to_string("/sys/kernel/tracing/uprobe_events").unwrap();
            let own = format!("libbpf_{}_", std::process::id());
            text.lines().filter(|line| line.contains(&own)).map(str::to_string).collect::<Vec<_>>()
        };
        let mut kernel = Kernel::load(Tier::Perf, LeavesOut::default(), Room::default()).unwrap();
        kernel.attacher.mode = libbpf_rs::libbpf_sys::PROBE_ATTACH_MODE_LEGACY;
        let rdes = [0];
        let (status, severity, value) = (STATUS, SEVERITY, TEXT);
        let record = Record { rdes: rdes.as_ptr(), status, severity, active: 0, value };
        let layouts = layouts(rdes.as_ptr() as usize as u64, offset_of!(Record, value) as u32);
        let (probe, answer) = attempt(&mut kernel, &layouts, black_box(&raw const record)).unwrap();
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
        assert_eq!(judge(&head, &Body::Process, 0x1000), Err(SelfTestError::OtherProgram));
        let value = Some(Raw { dbf: 0, count: 1, bytes: &TEXT });
        let body = Body::Complete { form: Form::Single, value };
        let other = Err(SelfTestError::Argument { passed: 0x2000, read: 0x1000 });
        assert_eq!(judge(&head, &body, 0x2000), other);
    }
}
