//! The ends of all traced processes behind one descriptor, so that to wait for thirty costs no more than for one.

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use std::os::fd::{AsFd, BorrowedFd};

use crate::linux::ending::Ending;

/// Most ends taken at a time.
const MOST: usize = 64;

/// See the module. Without a descriptor to spare it tells no end: processes are then checked each second.
pub struct Endings(Option<Epoll>);

impl Default for Endings {
    fn default() -> Endings {
        Endings(Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).ok())
    }
}

impl Endings {
    /// Waits for the end of a process, too. False if its end is not told.
    pub fn watch(&self, pid: u32, ending: &Ending) -> bool {
        let (Some(epoll), Some(descriptor)) = (&self.0, ending.descriptor()) else { return false };
        // the kernel forgets a descriptor that is closed
        epoll.add(descriptor, EpollEvent::new(EpollFlags::EPOLLIN, u64::from(pid))).is_ok()
    }

    /// Becomes readable when a process has ended.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.0.as_ref().map(|epoll| epoll.0.as_fd())
    }

    /// The processes that have ended. Each is told until `forget` is called for it.
    pub fn ended(&self) -> Vec<u32> {
        let mut events = [EpollEvent::empty(); MOST];
        let Some(epoll) = &self.0 else { return Vec::new() };
        let count = epoll.wait(&mut events, EpollTimeout::ZERO).unwrap_or(0);
        events.iter().take(count).filter_map(|event| u32::try_from(event.data()).ok()).collect()
    }

    /// Tells no more of a process.
    pub fn forget(&self, ending: &Ending) {
        if let (Some(epoll), Some(descriptor)) = (&self.0, ending.descriptor()) {
            // it may not be there
            let _ = epoll.delete(descriptor);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::poll::{poll, PollFd, PollFlags, PollTimeout};

    #[test]
    fn an_end_is_told_until_it_is_forgotten() {
        let endings = Endings::default();
        let start = || std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let mut children = [start(), start()];
        let expected: Vec<Ending> = children.iter().map(|child| Ending::expect(child.id())).collect();
        if expected.iter().any(|ending| ending.descriptor().is_none()) {
            return;
        }
        for (child, ending) in children.iter().zip(&expected) {
            assert!(endings.watch(child.id(), ending));
        }
        let is_readable = |timeout: u16| {
            let mut polled = [PollFd::new(endings.descriptor().unwrap(), PollFlags::POLLIN)];
            poll(&mut polled, PollTimeout::from(timeout)).unwrap() == 1
        };
        assert!(!is_readable(0) && endings.ended().is_empty());
        children[1].kill().unwrap();
        assert!(is_readable(20_000));
        assert_eq!(endings.ended(), [children[1].id()]);
        assert_eq!(endings.ended(), [children[1].id()], "still");
        endings.forget(&expected[1]);
        assert!(!is_readable(0) && endings.ended().is_empty());
        children[0].kill().unwrap();
        assert!(is_readable(20_000));
        drop(expected);
        // a program that another test is starting has it for a moment, too
        let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while is_readable(0) && std::time::Instant::now() < until {
            std::thread::yield_now();
        }
        assert!(!is_readable(0), "closed is forgotten");
        children.iter_mut().for_each(|child| drop(child.wait()));
    }
}
