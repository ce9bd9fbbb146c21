//! Lets the recorder end without waiting for the kernel to remove the probes.
//!
//! The kernel removes a probe when its last descriptor is closed, and that close waits for a grace period of 20 to 150
//! ms, one probe after the other, whichever process closes them. A recorder of many IOCs would take half a minute to
//! end after it has written its log. So it leaves the descriptors to children that have nothing else: no lock, no socket,
//! no standard streams, no directory. A child waits until the recorder is gone, since the last process to close a
//! descriptor has to wait, and then ends; the kernel closes the descriptors on its behalf.
//!
//! There are two, with half of the probes each: on 6.18 one process takes 4.7 s for an IOC, two with an IOC each take 5.9 s
//! for both, and four take 10.7 s, so more would gain nothing.
//!
//! By then the programs no longer record anything ([`crate::bpf::maps::Maps::forget_all`]): until a probe is removed,
//! it costs an IOC no more than the probe itself.
//!
//! As long as a probe is there, the kernel keeps the instruction that was at its place. If the file is overwritten meanwhile
//! and the place probed again, by whichever recorder, it would carry out the old instruction in the new code. So while such a
//! child works, files that were overwritten not long before it began are left alone ([`may_be_kept`]); and while another
//! recorder runs, those that were overwritten not long ago, since it may not have removed its probes yet.

use std::ffi::CStr;
use std::os::fd::RawFd;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use nix::sys::signal::{signal, SigHandler, Signal};

use crate::linux::opened::Opened;
use crate::linux::{clock, process};
use crate::probes::{neighbours, stale_events};

/// The child's name, by which people and other recorders recognize it.
const NAME: &CStr = c"iocrec-closing";
/// Its name in earlier versions.
const OLD_NAME: &str = "iocrec-parting";

/// Names in `/proc/self/fd` of descriptors that hold a probe. libbpf is not asked, since probes that another thread is
/// removing count, too.
const PROBES: [&str; 2] = ["anon_inode:[perf_event]", "anon_inode:bpf_link"];
/// Other threads may open a descriptor or two between listing them and the fork; these get the lowest free numbers.
const SLACK: RawFd = 16;
/// Seconds that the child waits for its parent to end, and then has for its work besides closing. Neither takes one
/// second.
const LIMIT: u32 = 60;
/// Seconds that it waits for processes that keep their memory locked.
const NEIGHBOURS: u32 = 3600;
/// Number of checks per second whether the parent has ended.
const POLLS: u32 = 100;

/// Leaves all probes of this process to children. False if there are none, or a child could not be made: then the kernel
/// removes them when this process ends, which is slow.
///
/// The process must end afterwards, and remove no probe itself.
pub fn leave_to_children() -> bool {
    let Some((probes, highest)) = descriptors() else { return false };
    if probes.is_empty() {
        return false;
    }
    let recorder = std::process::id();
    let has_events = stale_events::are_possible();
    // events can be removed once all of their probes have been, so one child has them all
    let share = if has_events { probes.len() } else { probes.len() / 2 + 1 };
    // The children have it from their beginning: other recorders must know them by then, should this process be gone before
    // they run.
    // SAFETY: a constant C string.
    unsafe { libc::prctl(libc::PR_SET_NAME, NAME.as_ptr()) };
    for probes in probes.chunks(share) {
        // SAFETY: the child makes system calls on plain numbers. It allocates for paths, which both C libraries allow the
        // child of a program with threads; a time limit is set before.
        match unsafe { libc::fork() } {
            -1 => return false,
            0 => end(probes, highest, recorder, has_events),
            _ => {}
        }
    }
    true
}

/// Whether the kernel may still keep old instructions for one of these files: another recorder or its child is at work, and
/// the file was overwritten after the recorder last looked for that.
pub fn may_be_kept<'a>(mut files: impl Iterator<Item = &'a Opened>) -> bool {
    /// A recorder looks at each of its IOCs every 16 s at the latest (inspector/queue.rs).
    const LOOKED: Duration = Duration::from_secs(60);
    at_work().is_some_and(|age| files.any(|file| file.had_other_content(age + LOOKED)))
}

/// PF_FORKNOEXEC (linux/sched.h): it was forked, and has started no program since.
const FORKED: u64 = 0x40;

/// What a look at the others that are at work has found.
#[derive(Clone, Copy)]
struct Others {
    at: Instant,
    /// The longest [`age`], if there are any.
    age: Option<Duration>,
    /// The probes of other recorders.
    probes: u32,
    /// When these were last found to have become fewer, or may have.
    fell: Option<Instant>,
}

impl Others {
    /// After the look `before`. While the probes become fewer, those of IOCs that ended are being removed, however long ago these
    /// ended: up to 0.2 s for each.
    fn of(before: Option<Others>, at: Instant, age: Option<Duration>, probes: u32) -> Others {
        /// The time for which they stay as many if none is being removed: a removal may wait 10 s.
        const STEADY: Duration = Duration::from_secs(30);
        let since = |time: Instant| at.saturating_duration_since(time);
        let fell = match before.filter(|before| since(before.at) < STEADY) {
            Some(before) if probes >= before.probes => before.fell,
            None if probes == 0 => None,
            _ => Some(at),
        };
        let long = Duration::from_secs(NEIGHBOURS.into());
        let removes = fell.is_some_and(|fell| since(fell) < STEADY);
        let age = age.map(|age| if removes { age.max(long) } else { age });
        Others { at, age, probes, fell }
    }
}

/// The longest [`age`] of the others that are at work, if there are any.
fn at_work() -> Option<Duration> {
    /// Time for which the answer is taken to last: to list all processes takes some 5 µs for each.
    const LASTS: Duration = Duration::from_secs(1);
    static LATEST: Mutex<Option<Others>> = Mutex::new(None);
    let mut latest = LATEST.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(others) = latest.filter(|others| others.at.elapsed() < LASTS) {
        return others.age;
    }
    let Ok(pids) = process::pids() else {
        return Some(Duration::from_secs(NEIGHBOURS.into())); // nobody can tell; hardly any lives longer
    };
    let mut probes = 0;
    let age = pids.into_iter().filter_map(|pid| age(pid, &mut probes)).max();
    let others = Others::of(*latest, Instant::now(), age, probes);
    *latest = Some(others);
    others.age
}

/// How long ago a process began if it is such a child; how long it may take to remove its probes if it is another recorder,
/// which goes on looking; `None` if it is neither. Anybody can take their names, so only those of root and of this program's own
/// user count: others may not place probes. A program that runs as root for whoever starts it has the name of a link of his;
/// but it was started, as the child was not, and its file has its own name. Adds another recorder's probes to `probes`.
fn age(pid: u32, probes: &mut u32) -> Option<Duration> {
    /// What the names of all of them, and of a recorder's file, begin with.
    const COMMON: &str = "iocrec";
    /// Time that another recorder may take to remove the probes of IOCs that ended, one after the other: up to 5 s for each.
    const REMOVES: Duration = Duration::from_secs(240);
    let name = process::thread_name(pid, pid);
    if !name.starts_with(COMMON) || pid == std::process::id() {
        return None;
    }
    let status = process::text(format!("/proc/{pid}/status")).unwrap_or_default();
    let own = nix::unistd::geteuid().as_raw();
    if !process::user_ids(&status)?.iter().all(|&id| id == 0 || id == own) {
        return None;
    }
    if process::flags(pid)? & FORKED != 0 {
        // else it is a recorder's reader process
        let is_child = name.as_bytes() == NAME.to_bytes() || name == OLD_NAME;
        let start = process::start(pid).map_or(0, clock::monotonic_of_boot);
        return is_child.then(|| Duration::from_nanos(clock::monotonic().saturating_sub(start)));
    }
    // nothing is told of one that is ending
    let file = process::link(pid, "exe");
    let is_ours = file.is_empty() || file.rsplit('/').next()?.starts_with(COMMON);
    let places_none = ["cat", "mark", "status"];
    let is_recorder =
        is_ours && !process::command(pid).get(1).is_some_and(|word| places_none.contains(&word.as_str()));
    is_recorder.then(|| {
        *probes += probes_of(pid);
        REMOVES
    })
}

/// Number of a recorder's probes: each is an event of the kernel.
fn probes_of(pid: u32) -> u32 {
    let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let is_event = |entry: &std::fs::DirEntry| {
        std::fs::read_link(entry.path()).is_ok_and(|file| file == Path::new(PROBES[0]))
    };
    descriptors.filter(is_event).count() as u32
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

/// Runs a child of `recorder`, with its share of the probes.
fn end(probes: &[RawFd], highest: RawFd, recorder: u32, has_events: bool) -> ! {
    // a service manager sends these to all processes of a service; this one is already ending
    for ignored in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        // SAFETY: no handler is installed. It cannot fail: these signals may be ignored.
        let _ = unsafe { signal(ignored, SigHandler::SigIgn) };
    }
    // SAFETY: a constant C string. After this and the closes the log's file system can be unmounted.
    unsafe { libc::chdir(c"/".as_ptr()) };
    for number in 0..=highest + SLACK {
        if probes.binary_search(&number).is_err() {
            // SAFETY: nothing in this process still uses a descriptor; the recorder and the other child have their own.
            unsafe { libc::close(number) };
        }
    }
    for _ in 0..LIMIT * POLLS {
        // SAFETY: no pointers are passed. An interrupted sleep does no harm.
        unsafe {
            if libc::getppid() as u32 != recorder {
                break;
            }
            libc::usleep(1_000_000 / POLLS);
        }
    }
    // SAFETY: a number only.
    unsafe { libc::alarm(NEIGHBOURS) };
    neighbours::wait_in_child();
    if has_events {
        // SAFETY: numbers only, and see above.
        unsafe {
            libc::alarm(LIMIT);
            probes.iter().for_each(|&number| _ = libc::close(number));
        }
        stale_events::remove_of(recorder);
    }
    // SAFETY: it takes a number and does not return; it does not flush the recorder's buffers a second time.
    unsafe { libc::_exit(0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The ages that looks find, each so many seconds after the first, of a recorder with so many probes.
    fn ages(looks: &[(u64, u32)]) -> Vec<u64> {
        let (begin, usual) = (Instant::now(), Some(Duration::from_secs(240)));
        let mut before = None;
        let ages = looks.iter().map(|&(seconds, probes)| {
            let others = Others::of(before, begin + Duration::from_secs(seconds), usual, probes);
            before = Some(others);
            others.age.unwrap().as_secs()
        });
        ages.collect()
    }

    /// Whoever places a probe in a file before that may let an IOC carry out an old instruction.
    #[test]
    fn another_recorder_removes_probes_as_long_as_they_become_fewer() {
        assert_eq!(
            ages(&[(0, 44), (29, 44), (30, 66), (31, 88)]),
            [3600, 3600, 240, 240],
            "of IOCs that run"
        );
        assert_eq!(ages(&[(0, 0), (1, 44), (2, 66)]), [240; 3]);
        // 100 IOCs have ended at once
        assert_eq!(ages(&[(0, 2200), (10, 2150), (20, 2150), (39, 2150)]), [3600; 4]);
        assert_eq!(ages(&[(0, 0), (1, 990), (2, 989), (31, 989), (32, 989)]), [240, 240, 3600, 3600, 240]);
        assert_eq!(
            ages(&[(0, 0), (10, 44), (600, 44), (629, 44), (630, 44)]),
            [240, 240, 3600, 3600, 240],
            "late"
        );
        let none = Others::of(None, Instant::now(), None, 0);
        assert_eq!(Others::of(Some(none), Instant::now(), None, 0).age, None);
    }

    #[test]
    fn a_process_without_probes() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        assert_eq!(probes_of(child.id()), 0);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(probes_of(child.id()), 0, "it has ended");
    }
}
