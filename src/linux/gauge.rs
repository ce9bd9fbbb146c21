//! The size of a process's address space, looked at again and again for little.
//!
//! A file of /proc that stays open is read in half a microsecond, a quarter of what opening it takes as well. A process
//! that maps a library, loads a database or runs another program changes its size.

use std::fs::File;
use std::os::unix::fs::FileExt;

use crate::linux::descriptors;

/// An open statm of one thread of a process. It keeps neither the process nor its memory alive.
#[derive(Debug)]
pub struct Gauge(File);

impl Gauge {
    /// Opens the gauge of a thread. `None` if the thread has ended, or half of the descriptors are in use: anybody may start
    /// thousands of processes.
    pub fn open(pid: u32, tid: u32) -> Option<Gauge> {
        if !descriptors::have_room_for(descriptors::limit() / 2) {
            return None;
        }
        File::open(format!("/proc/{pid}/task/{tid}/statm")).ok().map(Gauge)
    }

    /// Pages of the address space; 0 if the process has none: a kernel thread, or one that is ending. `None` if the
    /// thread has ended. Another process or thread of the same number does not count.
    pub fn size(&self) -> Option<u64> {
        let mut text = [0; 128];
        // "size resident shared text lib data dt" (proc(5))
        let length = self.0.read_at(&mut text, 0).ok()?;
        std::str::from_utf8(text.get(..length)?).ok()?.split(' ').next()?.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linux::process;
    use std::io::{Read, Write};
    use std::process::Stdio;

    #[test]
    fn it_follows_the_size_until_the_process_ends() {
        let mut command = std::process::Command::new("cat");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let pid = child.id();
        let gauge = Gauge::open(pid, pid).unwrap();
        // a program that answers maps no more libraries
        child.stdin.as_mut().unwrap().write_all(b"x").unwrap();
        child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        assert_eq!(gauge.size(), process::size(pid));
        let own = Gauge::open(std::process::id(), std::process::id()).unwrap();
        assert!(own.size().unwrap() > 0);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(gauge.size(), None);
        assert!(Gauge::open(pid, pid).is_none());
    }

    #[test]
    fn a_thread_that_ends() {
        let (sender, receiver) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            sender.send(nix::unistd::gettid().as_raw().unsigned_abs()).unwrap();
            let _ = ended.recv();
        });
        let gauge = Gauge::open(std::process::id(), receiver.recv().unwrap()).unwrap();
        assert!(gauge.size().is_some());
        drop(end);
        thread.join().unwrap();
        // the kernel reports the end of a thread to its joiner a moment before it is gone
        let begin = std::time::Instant::now();
        while gauge.size().is_some() {
            assert!(begin.elapsed().as_secs() < 20);
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }
}
