//! Chooses the thread of a process to bind its probes to.
//!
//! All threads of the process hit a probe as long as the thread to which it is bound lives: the kernel finds the
//! process's memory through that thread, and an ended thread has none. So this module chooses a thread that will live
//! as long as its process and seldom runs, since at each switch to or from that thread the kernel walks its probes (1.5
//! µs for 13 of them), and checks later that it still lives.

use crate::linux::process;

/// Threads of EPICS Base that sleep most of the time, the preferred one first. CAS-TCP, which waits for clients, ends only
/// with the process. epicsExit ends taskwd and errlog 0.1 to 0.5 s before it does (measured, 7.0.10), or earlier if exit
/// handlers from before iocInit take their time. The main thread may end much earlier (epicsThreadExitMain: `softIoc -S`),
/// and is busy in an IOC that a Python program hosts.
const LASTING: [&str; 3] = ["CAS-TCP", "taskwd", "errlog"];

/// A thread, identified also by its start time: thread ids are reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thread {
    /// The process.
    pub pid: u32,
    /// Its thread id.
    pub tid: u32,
    /// Start time, in clock ticks of /proc.
    start: u64,
}

/// The thread to bind probes to; `None` if the process has no live one.
pub fn lasting(pid: u32) -> Option<Thread> {
    let mut threads = process::threads(pid);
    threads.sort_unstable_by_key(|&tid| (tid != pid, tid));
    // without such a thread (3.14 does not name its threads): the main one, or the oldest live one
    let rank = |&tid: &u32| {
        let name = process::thread_name(pid, tid);
        LASTING.iter().position(|lasting| name == *lasting).unwrap_or(LASTING.len())
    };
    let mut living: Vec<Thread> = threads.into_iter().filter_map(|tid| living(pid, tid)).collect();
    living.sort_by_key(|thread| rank(&thread.tid));
    living.first().copied()
}

/// The thread to bind the probes of the process's end to: the server's, before there is one the main thread, in which an IOC's
/// shell calls exit; else as [`lasting`].
pub fn to_the_end(pid: u32) -> Option<Thread> {
    let mut threads = process::threads(pid).into_iter();
    let server = threads.find(|&tid| process::thread_name(pid, tid) == LASTING[0]);
    server.and_then(|tid| living(pid, tid)).or_else(|| living(pid, pid)).or_else(|| lasting(pid))
}

/// The thread with that id, if it lives.
pub fn living(pid: u32, tid: u32) -> Option<Thread> {
    let stat = process::text(format!("/proc/{pid}/task/{tid}/stat")).ok()?;
    // fields 3 and 22 (proc(5)); the name, field 2, may hold spaces and brackets
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    let state = fields.next()?;
    let start = fields.nth(18)?.parse().ok()?;
    (!state.starts_with(['Z', 'X'])).then_some(Thread { pid, tid, start })
}

impl Thread {
    /// Whether it still lives.
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
        let begin = |name: &str| {
            let (sender, receiver) = std::sync::mpsc::channel();
            let (end, ended) = std::sync::mpsc::channel::<()>();
            let thread = std::thread::Builder::new().name(name.into()).spawn(move || {
                sender.send(nix::unistd::gettid().as_raw() as u32).unwrap();
                let _ = ended.recv();
            });
            (receiver.recv().unwrap(), end, thread.unwrap())
        };
        let threads = [begin("taskwd"), begin("CAS-TCP")];
        // the server's outlives the other one in an IOC that ends
        for (tid, end, thread) in threads.into_iter().rev() {
            let own = std::process::id();
            let chosen = lasting(own).unwrap();
            assert_eq!(chosen.tid, tid, "by its name");
            // errlog and taskwd end before exit is called, the main thread calls it
            let is_server = process::thread_name(own, tid) == "CAS-TCP";
            assert_eq!(to_the_end(own).unwrap().tid, if is_server { tid } else { own });
            drop(end);
            thread.join().unwrap();
            wait_until(|| !chosen.lives());
        }
    }

    fn wait_until(condition: impl Fn() -> bool) {
        let begin = std::time::Instant::now();
        while !condition() {
            assert!(begin.elapsed().as_secs() < 20);
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }
}
