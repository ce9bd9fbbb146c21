//! A reader process reads the same as a read in place, and is given up if there is no answer.

use crate::linux::descriptors::without_any;
use crate::linux::memory::{of_several, Memory};
use crate::linux::opened::Opened;
use crate::linux::process;
use crate::linux::reader::budget::Refused;
use crate::linux::reader::file::{Handle, ATTRIBUTES};
use crate::linux::reader::shared::MAX_DATA;
use crate::linux::reader::thread::refused;
use crate::linux::reader::{mark_responsive, unresponsive, use_reader_process, Inspection, MAX_PROCESSES};
use crate::not_run::{not_run, Needs};
use std::path::Path;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

/// Runs a closure on a thread with a reader process.
fn with_reader<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    std::thread::spawn(move || {
        use_reader_process();
        work()
    })
    .join()
    .unwrap()
}

#[test]
fn readers_read_the_same_as_in_place() {
    let pid = std::process::id();
    let own = Path::new("/proc/self/exe");
    let here = (process::command(pid), process::link(pid, "exe"), process::mappings(pid).unwrap());
    let exe = std::fs::read(own).unwrap();
    let there = with_reader(move || {
        let opened = Opened::named(Path::new(&process::link(pid, "exe"))).unwrap();
        let mut bytes = vec![0; 300_000];
        assert_eq!(opened.read_some(&mut bytes, 1000), bytes.len());
        assert!(opened.is_unchanged());
        assert!(exe[1000..].starts_with(&bytes));
        let code = process::mappings(pid).unwrap().into_iter().find(|mapping| mapping.executable).unwrap();
        assert!(opened.is_of(&code), "{code:?}");
        assert!(Opened::named(Path::new("/dev/null")).is_err());
        assert!(process::contents("/proc/nobody/maps").is_err());
        (process::command(pid), process::link(pid, "exe"), process::mappings(pid).unwrap())
    });
    assert_eq!((&here.0, &here.1), (&there.0, &there.1));
    assert!(here.2.iter().any(|mapping| there.2.contains(mapping)));
}

/// Whatever becomes of one of the processes.
#[test]
fn memory_of_several_processes_by_one_turn() {
    let at = b"some bytes".as_ptr() as u64;
    let (read, many) = with_reader(move || {
        // a number that no process has
        let (own, gone) = (Memory::new(std::process::id()), Memory::new(i32::MAX.unsigned_abs()));
        let wanted = [
            (own, vec![vec![(at, 4)], Vec::new(), vec![(at + 5, 3), (at + 8, 2)]]),
            (gone, vec![vec![(at, 4)]]),
            (own, vec![vec![(at, 4)], vec![(8, 4)]]),
            (own, Vec::new()),
            (own, vec![vec![(at, 10)]]),
        ];
        let many: Vec<_> = (0..=MAX_PROCESSES).map(|_| (own, vec![vec![(at, 4)]])).collect();
        (of_several(&wanted), of_several(&many))
    });
    let text = |text: &str| Some(text.as_bytes().to_vec());
    let expected = [text("somebytes"), None, None, text(""), text("some bytes")];
    assert_eq!(read.as_deref(), Some(expected.as_slice()));
    assert_eq!(many, None, "they are too many");
    assert_eq!(of_several(&[]), None, "without a reader process");
}

/// Where stat() and /proc/PID/maps give a file other numbers (overlay, btrfs), it is mapped to find out.
#[test]
fn an_inspection_may_map_a_file() {
    let told = with_reader(|| {
        let pid = std::process::id();
        let inspection = Inspection::begin(pid, 1 << 20, Duration::from_secs(60));
        let opened = Opened::named(Path::new(&process::link(pid, "exe"))).unwrap();
        let line = opened.handle().mapped_line();
        (line.is_some(), inspection.end())
    });
    assert_eq!(told, (true, None));
}

/// The kernel makes the event, and leaves out the descriptor of it that this program has no room for.
#[test]
fn an_event_without_a_descriptor_is_a_want_of_room() {
    let name = "reader::an_event_without_a_descriptor_is_a_want_of_room";
    // PERF_TYPE_SOFTWARE, the size, PERF_COUNT_SW_DUMMY, and exclude_kernel (linux/perf_event.h)
    let mut attributes = [0; ATTRIBUTES];
    attributes[..4].copy_from_slice(&1_u32.to_ne_bytes());
    attributes[4..8].copy_from_slice(&(ATTRIBUTES as u32).to_ne_bytes());
    attributes[8..16].copy_from_slice(&9_u64.to_ne_bytes());
    attributes[40..48].copy_from_slice(&(1_u64 << 5).to_ne_bytes());
    let told = without_any(|| {
        for descriptor in 3..32 {
            // SAFETY: a descriptor of this thread alone, which nobody uses.
            let _ = unsafe { libc::close(descriptor) };
        }
        let (handle, _) = Handle::name(Path::new("/proc/self/exe")).ok()?;
        use_reader_process();
        let pid = std::process::id();
        let inspection = Inspection::begin(pid, 1 << 20, Duration::from_secs(60));
        handle.event(pid, pid as i32, &attributes)?.ok()?;
        // SAFETY: a constant string, and descriptors of this thread; all are closed when it ends.
        while unsafe { libc::open(c"/".as_ptr(), libc::O_PATH | libc::O_CLOEXEC) } >= 0 {}
        let error = handle.event(pid, pid as i32, &attributes)?.err()?;
        Some((error.raw_os_error(), inspection.end()))
    });
    let Some(told) = told.flatten() else {
        return not_run(name, Needs::root_or_kernel("perf_event_open, and a limit of files"));
    };
    assert_eq!(told, (Some(libc::EMFILE), Some(Refused::NoRoom)));
}

#[test]
fn memory_of_any_length() {
    let bytes: Vec<u8> = (0..400_000u32).map(|at| (at / 7) as u8).collect();
    let copy = bytes.clone();
    with_reader(move || {
        let memory = Memory::new(std::process::id());
        let mut into = vec![0; copy.len()];
        assert!(memory.read(copy.as_ptr() as u64, &mut into));
        assert!(into == copy);
        let words = memory.each::<8>((0..3000).map(|at| copy.as_ptr() as u64 + at * 100));
        for (at, word) in words.iter().enumerate() {
            assert_eq!(word.as_ref().unwrap().as_slice(), &copy[at * 100..at * 100 + 8]);
        }
        assert_eq!(memory.pointer(8), None);
    });
    drop(bytes);
}

#[test]
fn lists_are_followed() {
    let nodes: Vec<[u64; 4]> = vec![[0; 4]; 5000];
    let address = |at: usize| nodes.as_ptr() as u64 + at as u64 * 32;
    let linked: Vec<[u64; 4]> =
        (0..5000).map(|at| [if at == 4999 { 0 } else { address(at + 1) }, at as u64, 0, 0]).collect();
    // in the same place
    let mut nodes = nodes.clone();
    let base = nodes.as_ptr() as u64;
    for (at, node) in linked.iter().enumerate() {
        nodes[at] = [if at == 4999 { 0 } else { base + (at as u64 + 1) * 32 }, node[1], 0, 0];
    }
    with_reader(move || {
        let memory = Memory::new(std::process::id());
        let found = memory.list(base, 32, 5000);
        assert_eq!(found.len(), MAX_DATA / 32 * 32);
        let second = u64::from_ne_bytes(found[40..48].try_into().unwrap());
        assert_eq!(second, 1);
        assert_eq!(memory.list(base, 32, 3).len(), 96);
        assert_eq!(memory.list(base + 4998 * 32, 32, 5000).len(), 64, "to its end");
        assert!(memory.list(8, 32, 5000).is_empty());
        drop(nodes);
    });
}

/// A spent budget ends an inspection; the next one has its own.
#[test]
fn an_inspection_has_a_budget() {
    with_reader(|| {
        let pid = std::process::id();
        let inspection = Inspection::begin(pid, 20_000, Duration::from_secs(60));
        assert!(!process::command(pid).is_empty());
        assert_eq!(refused(), None);
        let big = vec![1u8; 100_000];
        let memory = Memory::new(pid);
        assert!(!memory.read(big.as_ptr() as u64, &mut vec![0; 100_000]));
        assert!(memory.pointer(big.as_ptr() as u64).is_none(), "refused as well");
        assert_eq!(inspection.end(), Some(Refused::Bytes));
        let inspection = Inspection::begin(pid, 20_000, Duration::from_secs(60));
        assert!(memory.pointer(big.as_ptr() as u64).is_some());
        assert_eq!(inspection.end(), None);
    });
}

/// The process that was to be read has nothing to do with it.
#[test]
fn a_reader_that_is_killed() {
    with_reader(|| {
        let pid = std::process::id();
        let children = std::fs::read_to_string("/proc/thread-self/children").unwrap_or_default();
        let Ok(reader) = children.trim().parse::<libc::pid_t>() else {
            return not_run("reader::a_reader_that_is_killed", Needs::Kernel("CONFIG_PROC_CHILDREN".into()));
        };
        // SAFETY: the call takes numbers; it is a child of this thread.
        assert_eq!(unsafe { libc::kill(reader, libc::SIGKILL) }, 0);
        let inspection = Inspection::begin(pid, 1 << 20, Duration::from_secs(60));
        assert_eq!(process::link(pid, "exe"), "");
        assert_eq!(inspection.end(), Some(Refused::Killed));
        let inspection = Inspection::begin(pid, 1 << 20, Duration::from_secs(60));
        assert_ne!(process::link(pid, "exe"), "", "another one reads it");
        assert_eq!(inspection.end(), None);
    });
}

/// Memory that is never filled in: a page under userfaultfd that nobody serves.
fn blocking_page() -> Option<(u64, i32)> {
    const UFFDIO_API: libc::c_ulong = 0xc018_aa3f;
    const UFFDIO_REGISTER: libc::c_ulong = 0xc020_aa00;
    // SAFETY: a new descriptor, a new mapping, and structures as linux/userfaultfd.h has them.
    unsafe {
        let uffd = libc::syscall(libc::SYS_userfaultfd, libc::O_CLOEXEC) as i32;
        if uffd < 0 {
            return None;
        }
        let mut api: [u64; 3] = [0xaa, 0, 0];
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let page = libc::mmap(std::ptr::null_mut(), 4096, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
        let mut register: [u64; 4] = [page as u64, 4096, 1, 0];
        let done = libc::ioctl(uffd, UFFDIO_API as _, api.as_mut_ptr()) == 0
            && libc::ioctl(uffd, UFFDIO_REGISTER as _, register.as_mut_ptr()) == 0;
        done.then_some((page as u64, uffd))
    }
}

#[test]
fn memory_that_never_answers() {
    let Some((page, _)) = blocking_page() else {
        return not_run("reader::memory_that_never_answers", Needs::root_or_kernel("userfaultfd"));
    };
    let (tell, told) = channel();
    let word = Box::new(7u64);
    let good = &raw const *word as u64;
    std::thread::spawn(move || {
        use_reader_process();
        let memory = Memory::new(std::process::id());
        let begin = Instant::now();
        let inspection = Inspection::begin(std::process::id(), 1 << 20, Duration::from_secs(60));
        assert_eq!(memory.pointer(page), None);
        assert_eq!(memory.pointer(good), None, "the inspection is over");
        assert_eq!(inspection.end(), Some(Refused::NoAnswer));
        let looked = begin.elapsed();
        // the loop waits for it once, and not again
        let begin = Instant::now();
        assert_eq!(memory.pointer(good), Some(7));
        assert_eq!(memory.pointer(page), None);
        for _ in 0..1000 {
            assert_eq!(memory.pointer(good), None);
        }
        assert!(unresponsive().iter().map(|(pid, _)| *pid).eq([std::process::id()]));
        let looped = begin.elapsed();
        // a busy machine may be too slow for the loop once
        let answers = (0..10).any(|_| {
            mark_responsive(std::process::id());
            memory.pointer(good) == Some(7)
        });
        assert!(answers);
        tell.send((looked, looped)).unwrap();
    });
    let (looked, looped) = told.recv_timeout(Duration::from_secs(60)).unwrap();
    assert!(looked < Duration::from_secs(10) && looped < Duration::from_secs(5), "{looked:?} {looped:?}");
    drop(word);
}
