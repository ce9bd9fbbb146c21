//! The ends of all traced processes behind one descriptor, so that to wait for thirty costs no more than for one; and
//! how they ended, where only the process connector tells that.

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use std::os::fd::{AsFd, BorrowedFd};

use crate::linux::connector::Connector;
use crate::linux::ending::Ending;

/// Most ends taken at a time.
const MOST: usize = 64;

/// What the descriptor of the connector stands for; no process has this number.
const CONNECTOR: u64 = u64::MAX;

/// See the module. Without a descriptor to spare it tells no end: processes are then checked each second.
pub struct Endings {
    epoll: Option<Epoll>,
    connector: Option<Connector>,
}

impl Default for Endings {
    fn default() -> Endings {
        Endings { epoll: Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).ok(), connector: None }
    }
}

impl Endings {
    /// Waits for the end of a process, too. False if its end is not told.
    pub fn watch(&mut self, pid: u32, ending: &Ending) -> bool {
        if let Some(connector) = &mut self.connector {
            connector.watch(pid);
        }
        let (Some(epoll), Some(descriptor)) = (&self.epoll, ending.descriptor()) else { return false };
        // the kernel forgets a descriptor that is closed
        epoll.add(descriptor, EpollEvent::new(EpollFlags::EPOLLIN, u64::from(pid))).is_ok()
    }

    /// Becomes readable when a process has ended.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.epoll.as_ref().map(|epoll| epoll.0.as_fd())
    }

    /// Lets the connector tell how processes end.
    pub fn listen(&mut self, connector: Connector) {
        if let Some(epoll) = &self.epoll {
            // if there is no room, it is looked at each second
            let _ = epoll.add(connector.descriptor(), EpollEvent::new(EpollFlags::EPOLLIN, CONNECTOR));
        }
        self.connector = Some(connector);
    }

    /// The processes that have ended. Each is told until `forget` is called for it; one that only the connector has
    /// told, once.
    pub fn ended(&mut self) -> Vec<u32> {
        let mut events = [EpollEvent::empty(); MOST];
        let Some(epoll) = &self.epoll else { return Vec::new() };
        let count = epoll.wait(&mut events, EpollTimeout::ZERO).unwrap_or(0);
        let pids = events.iter().take(count).filter_map(|event| u32::try_from(event.data()).ok());
        let mut ended: Vec<u32> = pids.collect();
        if let Some(connector) = &mut self.connector {
            ended.extend(connector.take());
        }
        ended
    }

    /// The wait status of a process that has ended, as far as anything tells it.
    pub fn status(&mut self, pid: u32, ending: &Ending) -> Option<i32> {
        let told = ending.status();
        let Some(connector) = self.connector.as_mut().filter(|_| told.is_none()) else { return told };
        connector.take();
        // 0 may be that of a thread which ended earlier, and what was left out the process's own
        connector.status(pid).filter(|&status| status != 0 || connector.lost() == 0)
    }

    /// Whether a wait status, other than the one that is known, may still come: the connector tells it after the process's
    /// descriptor, and 0 is told of threads that ended earlier, too.
    pub fn may_change(&self, status: Option<i32>) -> bool {
        self.connector.is_some() && status.is_none_or(|status| status == 0)
    }

    /// Number of times that the kernel has had to leave out ends.
    pub fn lost(&self) -> u64 {
        self.connector.as_ref().map_or(0, Connector::lost)
    }

    /// Forgets a process that is traced no more.
    pub fn let_go(&mut self, pid: u32) {
        if let Some(connector) = &mut self.connector {
            connector.forget(pid);
        }
    }

    /// Tells no more of a process.
    pub fn forget(&self, ending: &Ending) {
        if let (Some(epoll), Some(descriptor)) = (&self.epoll, ending.descriptor()) {
            // it may not be there
            let _ = epoll.delete(descriptor);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linux::victim::Victim;
    use crate::not_run::{not_run, Needs};
    use nix::poll::{poll, PollFd, PollFlags, PollTimeout};

    #[test]
    fn an_end_is_told_until_it_is_forgotten() {
        let mut endings = Endings::default();
        let start = || std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let mut children = [start(), start()];
        let expected: Vec<Ending> = children.iter().map(|child| Ending::expect(child.id())).collect();
        if expected.iter().any(|ending| ending.descriptor().is_none()) {
            return;
        }
        for (child, ending) in children.iter().zip(&expected) {
            assert!(endings.watch(child.id(), ending));
        }
        let is_readable = |endings: &Endings, timeout: u16| {
            let mut polled = [PollFd::new(endings.descriptor().unwrap(), PollFlags::POLLIN)];
            poll(&mut polled, PollTimeout::from(timeout)).unwrap() == 1
        };
        assert!(!is_readable(&endings, 0) && endings.ended().is_empty());
        children[1].kill().unwrap();
        assert!(is_readable(&endings, 20_000));
        assert_eq!(endings.ended(), [children[1].id()]);
        assert_eq!(endings.ended(), [children[1].id()], "still");
        endings.forget(&expected[1]);
        assert!(!is_readable(&endings, 0) && endings.ended().is_empty());
        children[0].kill().unwrap();
        assert!(is_readable(&endings, 20_000));
        drop(expected);
        // a program that another test is starting has it for a moment, too
        let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while is_readable(&endings, 0) && std::time::Instant::now() < until {
            std::thread::yield_now();
        }
        assert!(!is_readable(&endings, 0), "closed is forgotten");
        children.iter_mut().for_each(|child| drop(child.wait()));
    }

    #[test]
    fn the_connector_tells_what_descriptors_do_not() {
        let name = "endings::the_connector_tells_what_descriptors_do_not";
        let connector = match Connector::open() {
            Ok(connector) => connector,
            Err(error) => return not_run(name, Needs::Kernel(format!("the process connector: {error}"))),
        };
        let mut endings = Endings::default();
        endings.listen(connector);
        assert!(endings.may_change(None) && endings.may_change(Some(0)) && !endings.may_change(Some(9)));
        let victim = Victim::start().unwrap();
        let pid = victim.pid();
        // a process of which there is no descriptor, and whose number nobody has
        let ending = Ending::expect(u32::MAX);
        assert!(!endings.watch(pid, &ending));
        assert_eq!(endings.status(pid, &ending), None);
        let status = victim.kill(libc::SIGTERM).unwrap();
        let mut polled = [PollFd::new(endings.descriptor().unwrap(), PollFlags::POLLIN)];
        assert_eq!(poll(&mut polled, PollTimeout::from(5_000u16)), Ok(1));
        assert_eq!(endings.ended(), [pid]);
        assert_eq!(
            (endings.ended(), endings.status(pid, &ending)),
            (vec![], Some(status)),
            "told once, but known"
        );
        endings.let_go(pid);
        assert_eq!(endings.status(pid, &ending), None);
    }
}
