//! Ending without waiting for the kernel to take the probes out.
//!
//! A probe goes when its last descriptor is closed, and that close waits for a grace period of the kernel's, 20 to
//! 150 ms each, one probe after the other whoever closes them. A recorder of many IOCs would be there for half a minute
//! after it has written its log. So the descriptors are left to a child, which has nothing else: no lock, no socket, no
//! standard streams, no directory. It waits until the recorder is gone, since whoever closes them last is who waits, and ends; the
//! kernel closes them in its name.
//!
//! By then the programs have been told to record nothing ([`crate::bpf::maps::Maps::forget_all`]); what is left to an
//! IOC until its probe is gone is the probe alone.

use std::ffi::CStr;
use std::os::fd::RawFd;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::sys::signal::{signal, SigHandler, Signal};

use crate::linux::process;
use crate::probes::stale_events;

/// What people, and other recorders, see the child as.
const NAME: &CStr = c"iocrec-parting";

/// What `/proc/self/fd` calls the descriptors that hold a probe. Not asked of libbpf: what is being taken out on another
/// thread is meant too.
const PROBES: [&str; 2] = ["anon_inode:[perf_event]", "anon_inode:bpf_link"];
/// Other threads may open a descriptor or two between the look and the fork; they get the lowest numbers there are.
const SLACK: RawFd = 16;
/// Seconds that the child waits for its parent's end, and has for what it does beside closing. Neither takes one.
const LIMIT: u32 = 60;
/// Looks a second for the parent's end.
const POLLS: u32 = 100;

/// Leaves every probe of this process to a child. False if there is none, or no child: then they go with this process,
/// which takes its time.
///
/// The process must end after it, and take no probe out by itself.
pub fn leave_to_child() -> bool {
    let Some((probes, highest)) = descriptors() else { return false };
    if probes.is_empty() {
        return false;
    }
    let recorder = std::process::id();
    let has_events = stale_events::are_possible();
    // SAFETY: the child makes system calls on plain numbers. Only where there are events to be removed it allocates,
    // which both C libraries allow the child of a program with threads; a limit is set before.
    match unsafe { libc::fork() } {
        -1 => false,
        0 => end(&probes, highest, recorder, has_events),
        _ => true,
    }
}

/// Waits until no other recorder's child is there, as long as such a child may take.
pub fn wait_for_others() {
    const PAUSE: Duration = Duration::from_millis(50);
    let under_way = || {
        let pids = process::pids().unwrap_or_default();
        pids.into_iter().any(|pid| process::thread_name(pid, pid).as_bytes() == NAME.to_bytes())
    };
    let begin = Instant::now();
    while under_way() && begin.elapsed() < Duration::from_secs(LIMIT.into()) {
        std::thread::sleep(PAUSE);
    }
}

/// The descriptors of probes, in order, and the highest of all.
fn descriptors() -> Option<(Vec<RawFd>, RawFd)> {
    let (mut probes, mut highest) = (Vec::new(), 0);
    for entry in std::fs::read_dir("/proc/self/fd").ok()?.flatten() {
        let Some(number) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        highest = highest.max(number);
        if std::fs::read_link(entry.path())
            .is_ok_and(|file| PROBES.iter().any(|name| file == Path::new(name)))
        {
            probes.push(number);
        }
    }
    probes.sort_unstable();
    Some((probes, highest))
}

/// What the child of `recorder` does.
fn end(probes: &[RawFd], highest: RawFd, recorder: u32, has_events: bool) -> ! {
    // a service manager tells all of a service to end; this one does so already
    for ignored in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        // SAFETY: no handler is installed. It cannot fail: these signals may be ignored.
        let _ = unsafe { signal(ignored, SigHandler::SigIgn) };
    }
    for number in 0..=highest + SLACK {
        if probes.binary_search(&number).is_err() {
            // SAFETY: nothing of this process uses a descriptor any more; those of the recorder are its own.
            unsafe { libc::close(number) };
        }
    }
    // SAFETY: the arguments are constant C strings. The log's file system is not kept from being unmounted; people who
    // look see what this is.
    unsafe {
        libc::chdir(c"/".as_ptr());
        libc::prctl(libc::PR_SET_NAME, NAME.as_ptr());
    }
    for _ in 0..LIMIT * POLLS {
        // SAFETY: no pointers; an interrupted sleep is as good.
        unsafe {
            if libc::getppid() as u32 != recorder {
                break;
            }
            libc::usleep(1_000_000 / POLLS);
        }
    }
    if has_events {
        // SAFETY: numbers only, and see above.
        unsafe {
            libc::alarm(LIMIT);
            probes.iter().for_each(|&number| _ = libc::close(number));
        }
        stale_events::remove_of(recorder);
    }
    // SAFETY: it takes a number and does not return; nothing of the recorder's is flushed a second time.
    unsafe { libc::_exit(0) }
}
