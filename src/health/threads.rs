//! The threads of a process, and what the scheduler counts of each.
//!
//! A thread is known by its open schedstat, which fails for ever once the thread has ended, so a reused number is
//! another thread. The list is read anew only when the number of threads has changed, a thread has ended, or some time
//! has passed. A thread for which no descriptor is left is not watched; it is counted.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::os::unix::fs::FileExt;

use nix::errno::Errno;

use crate::health::text::{self, Counts};
use crate::linux::process;

/// Threads of one process that are watched. An IOC has 20, with a hundred clients 220.
const MAX_THREADS: usize = 256;
/// Beats after which the list is read even if nothing shows that it has changed.
const LIST: u32 = 10;
/// Beats after which a thread's name is read again: threads are named after they begin, some of them anew.
const RENAME: u32 = 60;

/// A thread that is watched.
#[derive(Debug)]
pub struct Thread {
    /// Its number in the kernel.
    pub tid: u32,
    /// Its name (comm), at most 15 bytes. Base 3.14 gives the kernel no names.
    pub name: String,
    /// Its start, nanoseconds after boot; 0 if unknown. With `tid` it names the thread for ever.
    pub start: u64,
    /// What was counted at the last beat; `None` if that could not be read.
    pub now: Option<Counts>,
    /// What was counted at the beat before; `None` for a new thread.
    pub before: Option<Counts>,
    /// Monotonic time of the first beat at which it had got a CPU as often as it has now, and had run as long: it has
    /// stood still since. `None` if it has moved since the last beat.
    pub still_since: Option<u64>,
    schedstat: File,
    beats: u32,
}

/// The threads of a process.
#[derive(Debug, Default)]
pub struct Threads {
    watched: BTreeMap<u32, Thread>,
    /// Threads that are not watched, as of the last list.
    unwatched: usize,
    /// Why the last of those is not.
    why: Option<Unwatched>,
    beats: u32,
    listed: usize,
    ended: bool,
}

/// Why a thread is not watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unwatched {
    /// The process has more threads than are watched, or the recorder has no more descriptors.
    TooMany,
    /// Its schedstat can't be opened: the kernel has none, or it is not permitted.
    NotReadable(Errno),
}

impl fmt::Display for Unwatched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unwatched::TooMany => f.write_str("there are too many to watch"),
            Unwatched::NotReadable(error) => {
                write!(f, "their schedstat can't be opened: {}", std::io::Error::from(*error))
            }
        }
    }
}

impl Thread {
    fn open(pid: u32, tid: u32) -> Result<Thread, Unwatched> {
        let schedstat = File::open(format!("/proc/{pid}/task/{tid}/schedstat"));
        let schedstat = schedstat.map_err(|error| match error.raw_os_error().map(Errno::from_raw) {
            Some(Errno::EMFILE | Errno::ENFILE) => Unwatched::TooMany,
            error => Unwatched::NotReadable(error.unwrap_or(Errno::EIO)),
        })?;
        let name = process::thread_name(pid, tid);
        let start = process::start(tid).unwrap_or_default();
        Ok(Thread { tid, name, start, now: None, before: None, still_since: None, schedstat, beats: 0 })
    }

    /// What is counted now; `None` if it can't be understood.
    fn counts(&self) -> Result<Option<Counts>, Errno> {
        let mut bytes = [0; 64];
        let length = self.schedstat.read_at(&mut bytes, 0);
        let length = length.map_err(|error| Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO)))?;
        Ok(bytes.get(..length).and_then(text::counts))
    }

    /// Whether it is known not to have got a CPU since the beat: what was read of it meanwhile holds for all the time that
    /// it has stood still.
    pub fn stands_still(&self) -> bool {
        self.now.is_some() && self.counts() == Ok(self.now)
    }

    /// Reads what was counted. False if it has ended.
    fn beat(&mut self, now: u64, pid: u32) -> bool {
        let counts = match self.counts() {
            Ok(counts) => counts,
            Err(Errno::ESRCH) => return false,
            Err(_) => None,
        };
        (self.before, self.now) = (self.now, counts);
        let moved = self.before.is_none() || self.before != self.now;
        self.still_since = if moved { None } else { self.still_since.or(Some(now)) };
        self.beats += 1;
        // a new thread is named by its first statements
        if self.beats == 2 || self.beats % RENAME == self.tid % RENAME {
            let name = process::thread_name(pid, self.tid);
            if !name.is_empty() {
                self.name = name;
            }
        }
        true
    }
}

impl Threads {
    /// Reads what was counted for each. `count`: the number of threads that the process has now, if known. `spare`: the
    /// number of descriptors that may still be opened. True if the list was read.
    pub fn beat(&mut self, pid: u32, now: u64, count: Option<usize>, spare: usize) -> bool {
        let before = self.watched.len();
        self.watched.retain(|_, thread| thread.beat(now, pid));
        self.ended |= self.watched.len() < before;
        let due = self.beats.is_multiple_of(LIST);
        self.beats = self.beats.wrapping_add(1);
        let due = due || self.ended || count.is_none_or(|count| count != self.listed);
        if due {
            self.list(pid, now, spare);
        }
        due
    }

    fn list(&mut self, pid: u32, now: u64, spare: usize) {
        let tids = process::threads(pid);
        (self.listed, self.unwatched, self.why, self.ended) = (tids.len(), 0, None, false);
        let mut spare = spare.min(MAX_THREADS.saturating_sub(self.watched.len()));
        for tid in tids {
            if self.watched.contains_key(&tid) {
                continue;
            }
            let opened = if spare == 0 { Err(Unwatched::TooMany) } else { Thread::open(pid, tid) };
            let opened = opened.map(|mut thread| thread.beat(now, pid).then_some(thread));
            match opened {
                Ok(Some(thread)) => {
                    spare -= 1;
                    self.watched.insert(tid, thread);
                }
                // it has just ended
                Ok(None) | Err(Unwatched::NotReadable(Errno::ESRCH)) => self.ended = true,
                Err(why) => {
                    self.unwatched += 1;
                    self.why = Some(why);
                }
            }
        }
    }

    /// The threads that are watched, by their numbers.
    pub fn iter(&self) -> impl Iterator<Item = &Thread> {
        self.watched.values()
    }

    /// A thread that is watched.
    pub fn get(&self, tid: u32) -> Option<&Thread> {
        self.watched.get(&tid)
    }

    /// The number of threads that are not watched, and why the last of them is not.
    pub fn unwatched(&self) -> Option<(usize, Unwatched)> {
        self.why.map(|why| (self.unwatched, why))
    }

    /// The number of descriptors that are open.
    pub fn descriptors(&self) -> usize {
        self.watched.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::time::{Duration, Instant};

    const WAIT: Duration = Duration::from_secs(20);

    /// A thread of this process that spins when told to, and ends at the end.
    fn spinner(name: &str) -> (u32, mpsc::Sender<Duration>, std::thread::JoinHandle<()>) {
        let ((told, tid), (spin, asked)) = (mpsc::channel(), mpsc::channel::<Duration>());
        let work = move || {
            told.send(nix::unistd::gettid().as_raw().unsigned_abs()).unwrap();
            for time in asked {
                let begin = crate::linux::clock::thread();
                while Duration::from_nanos(crate::linux::clock::thread() - begin) < time {}
            }
        };
        let thread = std::thread::Builder::new().name(name.into()).spawn(work).unwrap();
        (tid.recv().unwrap(), spin, thread)
    }

    #[test]
    fn a_thread_that_runs_stands_still_and_ends() {
        let pid = std::process::id();
        let (tid, spin, thread) = spinner("a) (b\n c");
        let mut threads = Threads::default();
        let mut at = 0;
        let mut beat = |threads: &mut Threads, count| {
            at += 1;
            threads.beat(pid, at, count, usize::MAX);
        };
        beat(&mut threads, None);
        let found = threads.get(tid).unwrap();
        assert_eq!(found.name, "a) (b\n c");
        assert!(found.start > 0 && found.before.is_none() && found.still_since.is_none());
        let begin = Instant::now();
        while threads.get(tid).unwrap().still_since.is_none() {
            assert!(begin.elapsed() < WAIT, "it waits for work");
            beat(&mut threads, None);
        }
        let still = threads.get(tid).unwrap().now.unwrap();
        assert!(threads.get(tid).unwrap().stands_still(), "it has got no work since that beat");
        spin.send(Duration::from_millis(50)).unwrap();
        while threads.get(tid).unwrap().stands_still() {
            assert!(begin.elapsed() < WAIT, "it runs after that beat");
        }
        while threads.get(tid).unwrap().now.unwrap().run < still.run + 40_000_000 {
            assert!(begin.elapsed() < WAIT, "it runs");
            beat(&mut threads, None);
        }
        let ran = threads.get(tid).unwrap();
        assert!(ran.now.unwrap().times > still.times && ran.now.unwrap().run < still.run + 100_000_000);
        drop(spin);
        thread.join().unwrap();
        assert!(!threads.get(tid).unwrap().stands_still(), "it has ended");
        while threads.get(tid).is_some() {
            assert!(begin.elapsed() < WAIT, "it has ended");
            beat(&mut threads, Some(1));
        }
    }

    #[test]
    fn no_more_than_allowed() {
        let all: Vec<_> = (0..4).map(|_| spinner("many")).collect();
        let mut threads = Threads::default();
        threads.beat(std::process::id(), 1, None, 2);
        assert_eq!(threads.descriptors(), 2);
        let (unwatched, why) = threads.unwatched().unwrap();
        assert!(unwatched >= 3 && why == Unwatched::TooMany, "{unwatched}");
        drop(all);
        let mut nobody = Threads::default();
        nobody.beat(u32::MAX, 1, None, usize::MAX);
        assert_eq!((nobody.descriptors(), nobody.unwatched()), (0, None));
    }
}
