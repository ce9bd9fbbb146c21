//! The kernel's process connector: it tells the wait status of every process that ends, on any kernel.
//!
//! It is used only where a descriptor of the process does not tell ([`crate::linux::ending`], before Linux 6.15), since
//! as long as anybody listens the kernel makes a message of each fork, exec and exit. A socket filter lets only the exits
//! of the recorded processes through, so the others neither wake the recorder nor fill the buffer.
//!
//! It needs CAP_NET_ADMIN when it is opened, and the first PID and user namespace. The socket serves on after the
//! capability is dropped. Kernels before 6.6 count listeners and don't notice that one has gone: there each fork and exit
//! keeps costing some 0.1 µs after the recorder has ended, until the next boot.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use nix::errno::Errno;

/// CN_IDX_PROC and CN_VAL_PROC of linux/connector.h: the id, and the number of the multicast group.
const PROC: u32 = 1;
/// PROC_CN_MCAST_LISTEN and PROC_CN_MCAST_IGNORE.
const LISTEN: u32 = 1;
const IGNORE: u32 = 2;
/// PROC_EVENT_EXIT.
const EXIT: u32 = 0x8000_0000;
/// WCOREFLAG of wait(2): the process has dumped core.
const DUMPED: i32 = 0x80;
/// NLMSG_DONE, the type of all messages of connectors.
const DONE: u16 = 3;

/// Offsets in a message: struct nlmsghdr (16 bytes), struct cn_msg (20), struct proc_event (linux/cn_proc.h).
const WHAT: usize = 36;
const TGID: usize = 56;
const STATUS: usize = 60;
/// Bytes of the longest message that matters.
const MESSAGE: usize = 128;
/// Bytes of the buffer: 200 exits of threads. A process with more is told by those that fit.
const BUFFER: i32 = 1 << 17;
/// Most processes that the filter distinguishes; the kernel's limit is 4096 instructions.
const MOST: usize = 1000;

/// An open connector.
#[derive(Debug)]
pub struct Connector {
    socket: OwnedFd,
    watched: Vec<u32>,
    told: HashMap<u32, i32>,
    lost: u64,
}

impl Connector {
    /// Begins to listen.
    ///
    /// # Errors
    /// The kernel has none, or refuses.
    pub fn open() -> io::Result<Connector> {
        let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: numbers only; the new descriptor belongs to nobody else.
        let socket = unsafe {
            let socket = libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_CONNECTOR);
            if socket < 0 {
                return Err(io::Error::last_os_error());
            }
            OwnedFd::from_raw_fd(socket)
        };
        let connector = Connector { socket, watched: Vec::new(), told: HashMap::new(), lost: 0 };
        // before it is bound: so nothing else ever comes
        connector.filter()?;
        connector.set(libc::SO_RCVBUF, &BUFFER)?;
        connector.bind()?;
        connector.ask(LISTEN)?;
        Ok(connector)
    }

    /// Becomes readable when an exit of a watched process waits.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Begins to tell of a process.
    pub fn watch(&mut self, pid: u32) {
        self.told.remove(&pid);
        if !self.watched.contains(&pid) {
            self.watched.push(pid);
            // a filter that is not replaced leaves this process's end unknown
            let _ = self.filter();
        }
    }

    /// Tells no more of a process.
    pub fn forget(&mut self, pid: u32) {
        self.told.remove(&pid);
        if self.watched.contains(&pid) {
            self.watched.retain(|&other| other != pid);
            let _ = self.filter();
        }
    }

    /// Takes what the kernel has told. Returns the processes of which a thread has ended.
    pub fn take(&mut self) -> Vec<u32> {
        let mut ended = Vec::new();
        let mut message = [0; MESSAGE];
        loop {
            let (into, bytes) = (message.as_mut_ptr().cast(), message.len());
            // SAFETY: the kernel writes at most so many bytes.
            let have = unsafe { libc::recv(self.socket.as_raw_fd(), into, bytes, libc::MSG_DONTWAIT) };
            let Ok(have) = usize::try_from(have) else {
                match Errno::last() {
                    Errno::EINTR => continue,
                    // the buffer was full
                    Errno::ENOBUFS => {
                        self.lost += 1;
                        continue;
                    }
                    _ => return ended,
                }
            };
            let Some((pid, status)) = exit(message.get(..have).unwrap_or_default()) else { continue };
            if !self.watched.contains(&pid) {
                continue;
            }
            let told = self.told.entry(pid).or_insert(status);
            *told = joined(*told, status);
            if !ended.contains(&pid) {
                ended.push(pid);
            }
        }
    }

    /// The wait status of a process of which threads have ended: its own, if it has ended.
    pub fn status(&self, pid: u32) -> Option<i32> {
        self.told.get(&pid).copied()
    }

    /// Number of times that the kernel had to leave out messages.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    fn bind(&self) -> io::Result<()> {
        // SAFETY: zeroes are a valid address; the kernel reads as many bytes as it has.
        unsafe {
            let mut address: libc::sockaddr_nl = std::mem::zeroed();
            address.nl_family = libc::AF_NETLINK as libc::sa_family_t;
            address.nl_groups = 1 << (PROC - 1);
            let bytes = size_of_val(&address) as libc::socklen_t;
            done(libc::bind(self.socket.as_raw_fd(), (&raw const address).cast(), bytes))
        }
    }

    /// Sends LISTEN or IGNORE.
    fn ask(&self, operation: u32) -> io::Result<()> {
        const BYTES: u32 = 40;
        let mut message = Vec::with_capacity(BYTES as usize);
        let mut word = |word: u32| message.extend(word.to_ne_bytes());
        // nlmsghdr: length, type and flags, sequence, port
        word(BYTES);
        word(u32::from_ne_bytes([DONE.to_ne_bytes()[0], DONE.to_ne_bytes()[1], 0, 0]));
        [0, 0].into_iter().for_each(&mut word);
        // cn_msg: id, sequence, acknowledgement, then length and flags of 16 bits each
        [PROC, PROC, 0, 0].into_iter().for_each(&mut word);
        let length = 4u16.to_ne_bytes();
        word(u32::from_ne_bytes([length[0], length[1], 0, 0]));
        word(operation);
        // SAFETY: the kernel reads as many bytes as there are.
        let sent = unsafe {
            libc::send(self.socket.as_raw_fd(), message.as_ptr().cast(), message.len(), libc::MSG_DONTWAIT)
        };
        if sent < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }

    /// Lets only exits of the watched processes through.
    fn filter(&self) -> io::Result<()> {
        let program = program(&self.watched);
        let filter = libc::sock_fprog { len: program.len() as _, filter: program.as_ptr().cast_mut() };
        self.set(libc::SO_ATTACH_FILTER, &filter)
    }

    fn set<T>(&self, option: i32, value: &T) -> io::Result<()> {
        let bytes = size_of::<T>() as libc::socklen_t;
        // SAFETY: the kernel reads as many bytes as the value has, and copies the filter's instructions.
        done(unsafe {
            libc::setsockopt(
                self.socket.as_raw_fd(),
                libc::SOL_SOCKET,
                option,
                std::ptr::from_ref(value).cast(),
                bytes,
            )
        })
    }
}

impl Drop for Connector {
    fn drop(&mut self) {
        // refused without the capability; kernels since 6.6 notice that the socket is closed
        let _ = self.ask(IGNORE);
    }
}

fn done(result: i32) -> io::Result<()> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// The status of a process by what its threads have told and what one more tells. One that ends alone has status 0, all others that
/// of their process, but that it has dumped core is told by the thread alone that did it.
fn joined(told: i32, status: i32) -> i32 {
    match status {
        0 => told,
        status => status | told & DUMPED,
    }
}

/// Process and wait status of an exit.
fn exit(message: &[u8]) -> Option<(u32, i32)> {
    let word = |at: usize| {
        let bytes = message.get(at..)?.first_chunk::<4>()?;
        Some(u32::from_ne_bytes(*bytes))
    };
    (word(WHAT)? == EXIT).then_some(())?;
    Some((word(TGID)?, word(STATUS)?.cast_signed()))
}

/// The socket filter (classic BPF): exits of these processes pass; all exits if there are too many.
fn program(pids: &[u32]) -> Vec<libc::sock_filter> {
    // linux/bpf_common.h: BPF_LD | BPF_W | BPF_ABS, BPF_JMP | BPF_JEQ | BPF_K, BPF_RET | BPF_K
    const LOAD: u16 = 0x20;
    const JUMP_IF: u16 = 0x15;
    const RETURN: u16 = 0x06;
    const ALL: u32 = u32::MAX;
    let instruction = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    // loads take network byte order for granted
    let as_loaded = |word: u32| u32::from_be_bytes(word.to_ne_bytes());
    let mut program = vec![
        instruction(LOAD, 0, 0, WHAT as u32),
        instruction(JUMP_IF, 1, 0, as_loaded(EXIT)),
        instruction(RETURN, 0, 0, 0),
    ];
    if pids.len() > MOST {
        program.push(instruction(RETURN, 0, 0, ALL));
        return program;
    }
    program.push(instruction(LOAD, 0, 0, TGID as u32));
    for &pid in pids {
        program.push(instruction(JUMP_IF, 0, 1, as_loaded(pid)));
        program.push(instruction(RETURN, 0, 0, ALL));
    }
    program.push(instruction(RETURN, 0, 0, 0));
    program
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linux::victim::Victim;
    use crate::not_run::{not_run, Needs};
    use nix::poll::{poll, PollFd, PollFlags, PollTimeout};
    use std::process::Command;

    fn open(name: &str) -> Option<Connector> {
        match Connector::open() {
            Ok(connector) => Some(connector),
            Err(error) => {
                not_run(name, Needs::Kernel(format!("the process connector: {error}")));
                None
            }
        }
    }

    fn is_readable(connector: &Connector, timeout: u16) -> bool {
        let mut polled = [PollFd::new(connector.descriptor(), PollFlags::POLLIN)];
        poll(&mut polled, PollTimeout::from(timeout)).unwrap() == 1
    }

    #[test]
    fn ends_of_watched_processes_alone() {
        let Some(mut connector) = open("connector::ends_of_watched_processes_alone") else { return };
        let (watched, other) = (Victim::start().unwrap(), Victim::start().unwrap());
        let pid = watched.pid();
        connector.watch(pid);
        other.kill(libc::SIGTERM).unwrap();
        assert!(Command::new("true").status().unwrap().success());
        assert!(!is_readable(&connector, 50), "others don't wake anybody");
        assert!(connector.take().is_empty());
        let status = watched.kill(libc::SIGTERM).unwrap();
        assert!(is_readable(&connector, 2000));
        assert_eq!(connector.take(), [pid]);
        assert_eq!(connector.status(pid), Some(status));
        connector.forget(pid);
        assert_eq!((connector.status(pid), connector.lost()), (None, 0));
    }

    #[test]
    fn exit_statuses_and_threads() {
        let Some(mut connector) = open("connector::exit_statuses_and_threads") else { return };
        // the first thread ends before the others, which end the process
        let script = "import ctypes, os, threading, time\n\
                      def end():\n time.sleep(0.2); os._exit(5)\n\
                      input()\nthreading.Thread(target=end).start()\nctypes.CDLL(None).pthread_exit(None)";
        let mut command = Command::new("python3");
        let Ok(mut child) = command.args(["-c", script]).stdin(std::process::Stdio::piped()).spawn() else {
            return not_run("connector::exit_statuses_and_threads", Needs::Program("python3"));
        };
        connector.watch(child.id());
        drop(child.stdin.take().map(|mut input| std::io::Write::write_all(&mut input, b"\n")));
        let status = child.wait().unwrap();
        // the first thread's exit is told at once, the last one's after the process can be waited for
        while connector.status(child.id()).is_none_or(|status| status == 0) {
            assert!(is_readable(&connector, 2000), "{:?}, {status}", connector.status(child.id()));
            connector.take();
        }
        assert_eq!(connector.status(child.id()), Some(5 << 8), "{status}");
    }

    /// As a process of three threads told it on Linux 6.18, whose second one crashed after the first had ended by itself.
    #[test]
    fn a_core_dump_is_told_by_one_of_the_threads() {
        let told = |statuses: &[i32]| statuses.iter().fold(0, |told, status| joined(told, *status));
        assert_eq!(told(&[0, 0xb, 0x8b]), 0x8b);
        assert_eq!(told(&[0, 0x8b, 0xb]), 0x8b, "in whatever order");
        assert_eq!(told(&[0xb, 0xb, 0]), 0xb, "there is none");
        assert_eq!(told(&[0, 5 << 8, 5 << 8]), 5 << 8);
    }

    #[test]
    fn more_processes_than_the_filter_distinguishes() {
        let Some(mut connector) = open("connector::more_processes") else { return };
        let victim = Victim::start().unwrap();
        connector.watched = (0..=MOST as u32).map(|number| 1 << 30 | number).collect();
        connector.watch(victim.pid());
        assert!(program(&connector.watched[..MOST]).len() <= 4096);
        let pid = victim.pid();
        let status = victim.kill(libc::SIGKILL).unwrap();
        assert!(is_readable(&connector, 2000));
        connector.take();
        assert_eq!(connector.status(pid), Some(status));
    }

    #[test]
    fn any_message() {
        for length in 0..80 {
            assert_eq!(exit(&vec![0; length]), None);
            let mut message = vec![7; length];
            if let Some(place) = message.get_mut(WHAT..WHAT + 4) {
                place.copy_from_slice(&EXIT.to_ne_bytes());
            }
            assert_eq!(exit(&message), (length >= STATUS + 4).then_some((0x0707_0707, 0x0707_0707)));
        }
    }
}
