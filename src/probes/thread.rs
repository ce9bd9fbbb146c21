//! Which thread of a process its probes hang on.
//!
//! A probe is hit by all threads of a process as long as the thread lives that it is bound to: the kernel knows the
//! process's memory through that one, and a thread that has ended has none. So one is chosen that will live as long as
//! its process and does not run often, since the kernel goes through the thread's probes each time that it switches
//! to it and from it (1.5 µs for 13 of them); and it is looked whether it lives still.

use crate::linux::process;

/// Threads of EPICS Base that sleep most of the time and end with the process alone (errlog.c, taskwd.c): the first that
/// is there is taken. The main thread may end before (epicsThreadExitMain: `softIoc -S`).
const LASTING: [&str; 2] = ["errlog", "taskwd"];

/// A thread, for ever: numbers are used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thread {
    /// The process.
    pub pid: u32,
    /// The kernel's number of the thread.
    pub tid: u32,
    /// When it began, in the clock ticks of /proc.
    start: u64,
}

/// The thread to hang probes on; `None` if the process has none that lives.
pub fn lasting(pid: u32) -> Option<Thread> {
    let mut threads = process::threads(pid);
    threads.sort_unstable_by_key(|&tid| (tid != pid, tid));
    // that of an IOC without such threads (3.14 does not name its own): the main thread, or the oldest that lives
    let rank = |&tid: &u32| {
        let name = process::thread_name(pid, tid);
        LASTING.iter().position(|lasting| name == *lasting).unwrap_or(LASTING.len())
    };
    let mut living: Vec<Thread> = threads.into_iter().filter_map(|tid| living(pid, tid)).collect();
    living.sort_by_key(|thread| rank(&thread.tid));
    living.first().copied()
}

/// The thread of that number, if it lives.
fn living(pid: u32, tid: u32) -> Option<Thread> {
    let stat = process::text(format!("/proc/{pid}/task/{tid}/stat")).ok()?;
    // fields 3 and 22 (proc(5)); the name, field 2, may hold blanks and brackets
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    let state = fields.next()?;
    let start = fields.nth(18)?.parse().ok()?;
    (!state.starts_with(['Z', 'X'])).then_some(Thread { pid, tid, start })
}

impl Thread {
    /// Does it live still?
    pub fn lives(&self) -> bool {
        living(self.pid, self.tid) == Some(*self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_thread_unless_there_is_one_that_lasts() {
        let mut command = std::process::Command::new("sleep");
        let mut child = command.arg("60").spawn().unwrap();
        let thread = lasting(child.id()).unwrap();
        assert_eq!((thread.tid, thread.lives()), (child.id(), true));
        child.kill().unwrap();
        // a zombie until it is waited for
        wait_until(|| !thread.lives());
        child.wait().unwrap();
        assert!(!thread.lives());
        assert_eq!(lasting(thread.pid), None);
    }

    #[test]
    fn a_thread_that_ends() {
        let (tell, told) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::Builder::new().name("taskwd".into()).spawn(move || {
            tell.send(nix::unistd::gettid().as_raw() as u32).unwrap();
            let _ = ended.recv();
        });
        let tid = told.recv().unwrap();
        let chosen = lasting(std::process::id()).unwrap();
        assert_eq!(chosen.tid, tid, "by its name");
        drop(end);
        thread.unwrap().join().unwrap();
        wait_until(|| !chosen.lives());
    }

    fn wait_until(condition: impl Fn() -> bool) {
        let begin = std::time::Instant::now();
        while !condition() {
            assert!(begin.elapsed().as_secs() < 20);
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }
}
