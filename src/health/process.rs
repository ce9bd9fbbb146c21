//! What a process as a whole uses: CPU time, memory, page faults, threads.
//!
//! CPU time is the process's own clock, in nanoseconds, which counts threads that have ended, too. The rest stands in its
//! stat, which stays open: once it fails, the process is gone, whoever has its number now. The clock goes by the number,
//! so it counts only if stat is readable afterwards.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;

use nix::time::{clock_gettime, ClockId};

use crate::health::text::{self, Stat};
use crate::linux::process;

/// What a process has used since its start, and what it uses now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Used {
    /// CPU time, nanoseconds; `None` if unknown.
    pub cpu: Option<u64>,
    /// Page faults that needed no disk.
    pub minor_faults: u64,
    /// Page faults that needed the disk.
    pub major_faults: u64,
    /// Threads now.
    pub threads: u64,
    /// Resident memory now, KiB; `None` if unknown. The kernel's count may be off by some pages for each CPU or thread.
    pub resident: Option<u64>,
}

/// An open stat of a process.
#[derive(Debug)]
pub struct Process {
    pid: u32,
    stat: File,
}

impl Process {
    /// Opens it. `start`: the start of the process, nanoseconds after boot. `None` if it has ended, or its stat is hidden.
    pub fn open(pid: u32, start: u64) -> Option<Process> {
        // the memory of a process whose first thread has ended is shown by its other threads
        let stat = File::open(process::directory(pid).join("stat")).ok()?;
        (process::start(pid) == Some(start)).then_some(Process { pid, stat })
    }

    /// What it uses. `None` if it has ended, or the thread that shows it: open it anew.
    pub fn used(&self) -> Option<Used> {
        let clock = cpu(self.pid);
        let mut bytes = [0; 1024];
        let length = self.stat.read_at(&mut bytes, 0).ok()?;
        let Stat { state, minor_faults, major_faults, threads, resident } = text::stat(bytes.get(..length)?)?;
        if matches!(state, b'Z' | b'X') {
            return None;
        }
        let resident = (resident > 0).then(|| resident.saturating_mul(page()) / 1024);
        Some(Used { cpu: clock, minor_faults, major_faults, threads, resident })
    }
}

/// CPU time of a process of this number, nanoseconds.
fn cpu(pid: u32) -> Option<u64> {
    /// CPUCLOCK_SCHED of linux/posix-timers.h.
    const SCHEDULED: libc::clockid_t = 2;
    // as clock_getcpuclockid(3) makes it
    let clock = !pid.cast_signed() << 3 | SCHEDULED;
    if !is_own_proc() {
        return None;
    }
    let time = clock_gettime(ClockId::from_raw(clock)).ok()?;
    u64::try_from(std::time::Duration::from(time).as_nanos()).ok()
}

/// Whether /proc shows the process numbers that this process uses: not if it is that of another PID namespace.
fn is_own_proc() -> bool {
    static OWN: OnceLock<bool> = OnceLock::new();
    let own = || {
        std::fs::read_link("/proc/self").is_ok_and(|own| *own.as_os_str() == *std::process::id().to_string())
    };
    *OWN.get_or_init(own)
}

/// Bytes of a page.
fn page() -> u64 {
    // SAFETY: sysconf has no preconditions.
    u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_and_one_that_ends() {
        let pid = std::process::id();
        let start = process::start(pid).unwrap();
        let own = Process::open(pid, start).unwrap();
        let before = own.used().unwrap();
        let begin = crate::linux::clock::thread();
        while crate::linux::clock::thread() - begin < 50_000_000 {}
        let after = own.used().unwrap();
        assert!(after.cpu.unwrap() >= before.cpu.unwrap() + 50_000_000);
        // other tests run at the same time, and give back memory
        let grows = |_| {
            let before = own.used().unwrap();
            let memory = std::hint::black_box(vec![1_u8; 32 << 20]);
            let after = own.used().unwrap();
            let grown = after.resident.unwrap().saturating_sub(before.resident.unwrap());
            drop(memory);
            (30 << 10..).contains(&grown)
                && after.minor_faults > before.minor_faults + 30
                && after.threads >= 1
        };
        assert!((0..20).any(grows), "{:?}", own.used());
        assert!(Process::open(pid, start + 1).is_none(), "an earlier process of this number");
        let mut child =
            std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        let other = Process::open(child.id(), process::start(child.id()).unwrap()).unwrap();
        assert!(other.used().is_some());
        drop(child.stdin.take());
        child.wait().unwrap();
        assert_eq!(other.used(), None);
        assert!(Process::open(child.id(), start).is_none());
    }
}
