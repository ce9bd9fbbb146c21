//! The captures of all recorded network namespaces.
//!
//! A packet socket captures the namespace that it was opened in, whichever thread reads it. So a helper thread enters
//! the namespace of an IOC (setns), opens the socket and hands it back; it does nothing else there. That needs
//! CAP_SYS_ADMIN and CAP_NET_RAW over the namespace; root of the machine has them over the namespace of each container.
//!
//! Interfaces that the user names are those of the recorder's own namespace. In other namespaces all interfaces are
//! captured, since names mean something else there.
//!
//! Memory: the recorder's own namespace has rings of 2.5 MiB; the first `FEW` others have 640 KiB each, and further ones
//! 320 KiB; more than [`MAX_OTHERS`] are refused. So eight containers take 5 MiB, and any number at most 23 MiB. A
//! socket keeps its namespace alive, so it is closed with the last IOC there. Opening and closing wait for the kernel
//! (some 10 ms), so helper threads do both.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::mpsc::{channel, Receiver, TryRecvError};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::errno::Errno;

use crate::bpf::load::LoadError;
use crate::linux::aside;
use crate::linux::process;
use crate::net::capture::{placed, Capture, CaptureError, Filtering, Packet, Told};
use crate::net::filter::MAX_PORTS;
use crate::net::merge::pass_on;
use crate::net::ring::BLOCKS;
use crate::net::service::Ports;
use crate::net::udp::Socket;
use crate::net::Namespace;

/// Number of other namespaces with rings of four blocks: no packet is lost while the recorder drains them every 160 ms.
const FEW: usize = 8;
/// Blocks of their rings; the rings of further namespaces have half as many and must be drained every 80 ms.
const BLOCKS_OF_FEW: usize = BLOCKS / 4;
const BLOCKS_OF_MORE: usize = BLOCKS / 8;
/// Maximum number of other namespaces: a machine with IOCs in more containers has the processors for several recorders.
pub const MAX_OTHERS: usize = 64;
/// The same for one that a user has made: anybody makes as many as he likes, and the rest is for those of root.
pub const MAX_WITH_USERS: usize = MAX_OTHERS / 4 * 3;
/// Time until a refused namespace is tried again, nanoseconds: memory or descriptors may have been short.
const RETRY: u64 = 10_000_000_000;

/// A namespace to capture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// A process in it.
    pub pid: u32,
    /// TCP ports of the servers in it.
    pub ports: Ports,
    /// Those of which it is not known what serves there; to the filter, which passes whole what is not of a port's protocol,
    /// they are of Channel Access.
    pub unknown: Vec<u16>,
    /// Those of which nothing has shown yet that a server of PVAccess is there.
    pub guessed: Vec<u16>,
}

/// Why a network namespace is not captured.
#[derive(Debug)]
pub enum NamespaceError {
    /// The process has ended or left the namespace. Another process may be in it.
    Gone,
    /// The kernel does not show which namespace the process is in.
    Unknown(Errno),
    /// The namespace's file can't be opened.
    Open(PathBuf, io::Error),
    /// The namespace can't be entered (setns).
    Enter(Errno),
    /// No packets can be captured in it.
    Capture(CaptureError),
    /// More than [`MAX_OTHERS`] other namespaces are wanted, or three quarters as many and this one is a user's.
    TooMany,
    /// The system has no thread to spare.
    NoThread,
}

impl fmt::Display for NamespaceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NamespaceError::Gone => f.write_str("its process has ended"),
            NamespaceError::Unknown(errno) => io::Error::from(*errno).fmt(f),
            NamespaceError::Open(path, error) => write!(f, "{}: {error}", path.display()),
            NamespaceError::Enter(Errno::EPERM) => {
                f.write_str("setns: not permitted: run as root of the machine, with CAP_SYS_ADMIN")
            }
            NamespaceError::Enter(errno) => write!(f, "setns: {}", io::Error::from(*errno)),
            NamespaceError::Capture(error) => error.fmt(f),
            NamespaceError::TooMany => write!(
                f,
                "more than {MAX_OTHERS} network namespaces have IOCs, or {MAX_WITH_USERS} and it is not root's"
            ),
            NamespaceError::NoThread => f.write_str("the system has no thread to spare"),
        }
    }
}

impl std::error::Error for NamespaceError {}

/// Whether a process that serves these ports has more than there is room for, so that none of them is to be captured.
pub fn are_too_many(ports: [&[u16]; 2]) -> bool {
    ports[0].len() + ports[1].len() > MAX_PORTS
}

type Opened = Result<Capture, NamespaceError>;

/// The capture of another namespace.
enum Other {
    /// A helper thread opens it; the reason of the previous failure, if there was one.
    Opening(Receiver<Opened>, Option<NamespaceError>),
    Open {
        // boxed, because it is much larger than the others
        capture: Box<Capture>,
        /// Since when it is not wanted any more. The kernel may still have packets from before.
        unwanted: Option<u64>,
    },
    /// Why it is not captured, and the time of the next attempt.
    Refused(NamespaceError, u64),
}

/// See the module.
pub struct Captures {
    /// The recorder's own namespace.
    here: Namespace,
    own: Capture,
    others: HashMap<Namespace, Other>,
    filtering: Filtering,
    /// Losses of closed captures: from clients, from servers.
    lost: [u64; 2],
    /// Whether packets no longer wait for older ones.
    hurries: bool,
}

impl Captures {
    /// Starts with the capture of the recorder's own namespace. Others are filtered in this way.
    pub fn new(own: Capture, filtering: Filtering) -> Captures {
        Captures {
            here: process::namespace(std::process::id()).unwrap_or_default(),
            own,
            others: HashMap::new(),
            filtering,
            lost: [0; 2],
            hurries: false,
        }
    }

    /// Why the recorder's own capture has no stateful filter, though that was wanted; once.
    pub fn take_refused(&mut self) -> Option<LoadError> {
        self.own.take_refused()
    }

    /// Whether an interface that was named is not there; whether one has been another than before since the last call.
    pub fn take_interfaces(&mut self) -> (bool, bool) {
        self.own.take_interfaces()
    }

    /// See [`Capture::pretend`].
    #[cfg(test)]
    pub fn pretend(&mut self, interface: &str, index: u32) {
        self.own.pretend(interface, index);
    }

    /// The socket for datagrams that is in a group with those of the recorder's own namespace; once.
    pub fn take_datagrams(&mut self) -> Option<Socket> {
        self.own.take_datagrams()
    }

    /// What the captures' filters tell beside packets, of those that were opened since the last call.
    pub fn take_told(&mut self) -> Vec<(Namespace, Told)> {
        let others = self.others.iter_mut().filter_map(|(&namespace, other)| match other {
            Other::Open { capture, .. } => Some((namespace, &mut **capture)),
            Other::Opening(..) | Other::Refused(..) => None,
        });
        let all = std::iter::once((self.here, &mut self.own)).chain(others);
        all.filter_map(|(namespace, capture)| Some((namespace, capture.take_told()?))).collect()
    }

    fn open(&self) -> impl Iterator<Item = (Namespace, &Capture)> {
        let others = self.others.iter().filter_map(|(&namespace, other)| match other {
            Other::Open { capture, .. } => Some((namespace, &**capture)),
            Other::Opening(..) | Other::Refused(..) => None,
        });
        std::iter::once((self.here, &self.own)).chain(others)
    }

    /// Descriptors that poll as readable when [`Captures::drain`] has something to do.
    pub fn fds(&self) -> impl Iterator<Item = RawFd> + '_ {
        self.open().flat_map(|(_, capture)| capture.fds())
    }

    /// Passes on the waiting packets of all namespaces in the order of their times, at most a ringful from each.
    pub fn drain(&mut self, f: &mut dyn FnMut(Namespace, Packet)) {
        let handed_over = self.handed_over();
        let others = self.others.iter_mut().filter_map(|(&namespace, other)| match other {
            Other::Open { capture, .. } => Some((namespace, &mut **capture)),
            Other::Opening(..) | Other::Refused(..) => None,
        });
        let all = std::iter::once((self.here, &mut self.own)).chain(others);
        let (mut taps, mut places) = (Vec::new(), Vec::new());
        for (namespace, capture) in all {
            let (pair, programs) = capture.parts();
            taps.extend(pair);
            places.extend([(namespace, programs); 2]);
        }
        let behind = if self.hurries { Duration::ZERO } else { handed_over };
        pass_on(&mut taps, behind, &mut |at, packet| {
            if let Some((namespace, programs)) = places.get(at) {
                f(*namespace, placed(packet, *programs));
            }
        });
    }

    /// Whether packets wait for older ones, so that the captures should be drained again soon.
    pub fn holds(&self) -> bool {
        self.open().any(|(_, capture)| capture.holds())
    }

    /// Whether the kernel has packets that are still to be taken: it wakes whoever polls when it hands them over.
    pub fn is_awaited(&self) -> bool {
        self.open().any(|(_, capture)| capture.is_awaited())
    }

    /// Time within which the kernel hands over a packet.
    pub fn handed_over(&self) -> Duration {
        self.own.handed_over()
    }

    /// From now on no packet waits for older ones: none are expected.
    pub fn hurry(&mut self) {
        self.hurries = true;
    }

    /// Packets lost because a ring was full, since the last call: from clients, from servers.
    pub fn losses(&mut self) -> [u64; 2] {
        let all: Vec<[u64; 2]> = self.open().map(|(_, capture)| capture.losses()).collect();
        all.into_iter().fold(std::mem::take(&mut self.lost), add)
    }

    /// Captures these namespaces and ports from now on, and no others. Returns the filters that can't be changed any more: the
    /// old ones stay, and each call tries again. Call it repeatedly while [`Captures::settled`] is false: opening takes a
    /// moment, and what is not wanted any more is closed when the kernel has handed over its last packets.
    pub fn follow(&mut self, now: u64, wanted: &BTreeMap<Namespace, Wanted>) -> Vec<String> {
        let mut failures = Vec::new();
        let mut set = |capture: &mut Capture, ports: &Ports| {
            let failure = capture.follow(ports);
            failures.extend(failure.map(|why| format!("not all packets are captured: {why}")));
        };
        let none = Wanted::default();
        let (patience, handed_over) = (self.own.patience(), self.own.handed_over().as_nanos() as u64);
        set(&mut self.own, &wanted.get(&self.here).unwrap_or(&none).ports);
        let gone = self.others.extract_if(|namespace, other| match other {
            _ if wanted.contains_key(namespace) => false,
            Other::Open { unwanted, .. } => now.saturating_sub(*unwanted.get_or_insert(now)) >= handed_over,
            Other::Opening(..) | Other::Refused(..) => true,
        });
        for (_, other) in gone {
            if let Other::Open { capture, .. } = other {
                self.lost = add(self.lost, capture.losses());
                close(*capture);
            }
        }
        for (&namespace, wanted) in wanted.iter().filter(|(&namespace, _)| namespace != self.here) {
            let count = self.others.values().filter(|other| !matches!(other, Other::Refused(..))).count();
            let other = match self.others.remove(&namespace) {
                Some(Other::Open { mut capture, .. }) => {
                    set(&mut capture, &wanted.ports);
                    Other::Open { capture, unwanted: None }
                }
                Some(Other::Opening(opened, before)) => match opened.try_recv() {
                    Ok(Ok(mut capture)) => {
                        set(&mut capture, &wanted.ports);
                        Other::Open { capture: Box::new(capture), unwanted: None }
                    }
                    // another process may be there
                    Ok(Err(NamespaceError::Gone)) => continue,
                    Ok(Err(error)) => Other::Refused(error, now + RETRY),
                    Err(TryRecvError::Empty) => Other::Opening(opened, before),
                    Err(TryRecvError::Disconnected) => Other::Refused(NamespaceError::NoThread, now + RETRY),
                },
                Some(Other::Refused(reason, again)) if now < again => Other::Refused(reason, again),
                _ if count >= MAX_OTHERS
                    || count >= MAX_WITH_USERS && process::user_of_network(wanted.pid).is_some() =>
                {
                    Other::Refused(NamespaceError::TooMany, now + RETRY)
                }
                before => {
                    let before = match before {
                        Some(Other::Refused(reason, _)) => Some(reason),
                        _ => None,
                    };
                    let blocks = if count < FEW { BLOCKS_OF_FEW } else { BLOCKS_OF_MORE };
                    let opening = open_in(namespace, wanted.pid, self.filtering, blocks, patience);
                    Other::Opening(opening, before)
                }
            };
            self.others.insert(namespace, other);
        }
        failures
    }

    /// How packets are to be filtered. Where the kernel refuses that, they are filtered each by itself.
    pub fn filtering(&self) -> Filtering {
        self.filtering
    }

    /// The recorder's own namespace.
    pub fn here(&self) -> Namespace {
        self.here
    }

    /// Why the packets of a server with these ports in a namespace are not captured; `None` if they are, or will be.
    pub fn refused(&self, namespace: Namespace, ports: [&[u16]; 2]) -> Option<&dyn fmt::Display> {
        if are_too_many(ports) {
            return Some(&"its process alone has more than 256 ports");
        }
        let capture = match self.others.get(&namespace) {
            Some(Other::Refused(reason, _) | Other::Opening(_, Some(reason))) => return Some(reason),
            Some(Other::Open { capture, .. }) => &**capture,
            None if namespace == self.here => &self.own,
            Some(Other::Opening(_, None)) | None => return None,
        };
        let why = ports.into_iter().flatten().find_map(|port| capture.lacks(*port))?;
        Some(why)
    }

    /// The namespaces that are captured.
    pub fn namespaces(&self) -> Vec<Namespace> {
        self.open().map(|(namespace, _)| namespace).collect()
    }

    /// Whether one is on its way in another namespace.
    pub fn is_opening(&self) -> bool {
        self.others.values().any(|other| matches!(other, Other::Opening(..)))
    }

    /// Whether the filter of one is on its way that tells who connects.
    pub fn is_loading(&self) -> bool {
        self.open().any(|(_, capture)| capture.is_loading())
    }

    /// Whether every wanted namespace is either captured or refused, and no other one.
    pub fn settled(&self) -> bool {
        let changes =
            |other: &Other| matches!(other, Other::Opening(..) | Other::Open { unwanted: Some(_), .. });
        !self.own.is_loading() && !self.others.values().any(changes)
    }
}

impl Drop for Captures {
    /// Closes all captures at once, since each close waits for the kernel.
    fn drop(&mut self) {
        let others = std::mem::take(&mut self.others).into_values();
        let open = others.filter_map(|other| match other {
            Other::Open { capture, .. } => close(*capture),
            Other::Opening(..) | Other::Refused(..) => None,
        });
        open.collect::<Vec<_>>().into_iter().for_each(|closing| drop(closing.join()));
    }
}

/// Adds losses.
fn add(a: [u64; 2], b: [u64; 2]) -> [u64; 2] {
    [a[0] + b[0], a[1] + b[1]]
}

/// Closes a capture on a thread, or in place if the system has no thread to spare.
fn close(capture: Capture) -> Option<JoinHandle<()>> {
    aside::start("netns", Box::new(move || drop(capture))).ok()
}

/// Opens a capture in the namespace of a process and closes it.
///
/// # Errors
/// The namespace can't be captured.
pub fn try_in(pid: u32) -> Result<(), NamespaceError> {
    let namespace = process::namespace(pid).map_err(NamespaceError::Unknown)?;
    let opened = open_in(namespace, pid, Filtering::Stateless, BLOCKS_OF_MORE, Duration::ZERO).recv();
    opened.unwrap_or(Err(NamespaceError::NoThread)).map(drop)
}

/// Opens a capture without ports in the namespace of a process.
fn open_in(
    namespace: Namespace,
    pid: u32,
    filtering: Filtering,
    blocks: usize,
    patience: Duration,
) -> Receiver<Opened> {
    let (sender, receiver) = channel();
    // The thread stays in that namespace until it ends.
    let work = move || {
        let opened = enter(namespace, pid).and_then(|()| {
            let opened = Capture::with(&[], &Ports::default(), filtering, blocks, patience);
            opened.map_err(NamespaceError::Capture)
        });
        drop(sender.send(opened));
    };
    drop(aside::start("netns", Box::new(work)));
    receiver
}

/// Moves this thread into the network namespace of a process, if that is still the expected one.
///
/// # Errors
/// It can't be entered, or is another one now.
pub fn enter(namespace: Namespace, pid: u32) -> Result<(), NamespaceError> {
    let path = process::directory(pid).join("ns/net");
    let file = File::open(&path).map_err(|error| match error.raw_os_error() {
        Some(libc::ENOENT | libc::ESRCH) => NamespaceError::Gone,
        _ => NamespaceError::Open(path.clone(), error),
    })?;
    // 0: the kernel has no network namespaces
    if namespace != 0 && file.metadata().map(|found| found.ino()).ok() != Some(namespace) {
        return Err(NamespaceError::Gone);
    }
    // SAFETY: no pointers; the descriptor is open. The call affects this thread alone.
    let entered = unsafe { libc::setns(file.as_raw_fd(), libc::CLONE_NEWNET) };
    Errno::result(entered).map(drop).map_err(NamespaceError::Enter)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::linux::clock;
    use crate::net::service::Service;
    use crate::not_run::{not_run, Needs};
    use std::process::{Child, Command, Stdio};
    use std::time::{Duration, Instant};

    static SERVICE: Service = Service { name: "test", requests: |_, _| (), rule: |_, _| (), protocol: None };

    /// Processes, each with a network namespace of its own.
    pub struct Children(pub Vec<Child>);

    impl Drop for Children {
        fn drop(&mut self) {
            for child in &mut self.0 {
                drop((child.kill(), child.wait()));
            }
        }
    }

    pub fn children(count: usize) -> Children {
        let start = |_| {
            let mut command = Command::new("unshare");
            command.args(["--net", "cat"]).stdin(Stdio::piped()).stdout(Stdio::null());
            command.spawn().expect("unshare")
        };
        Children((0..count).map(start).collect())
    }

    /// The same, whose namespaces a user has made; `None` if users may not.
    pub fn of_user(count: usize) -> Option<Children> {
        use std::os::unix::process::CommandExt;
        let of_user = |program: &str| {
            let mut command = Command::new("unshare");
            command.args(["-Un", program]).stdin(Stdio::piped()).stdout(Stdio::null()).uid(1234).gid(1234);
            command
        };
        let may = of_user("true").status().is_ok_and(|status| status.success());
        may.then(|| Children((0..count).map(|_| of_user("cat").spawn().expect("unshare")).collect()))
    }

    pub fn wanted(here: Namespace, children: &[Child]) -> BTreeMap<Namespace, Wanted> {
        let begin = Instant::now();
        let apart = |child: &Child| loop {
            let namespace = process::namespace(child.id()).expect("it lives");
            if namespace != here {
                return (
                    namespace,
                    Wanted { pid: child.id(), ports: Ports::of(&SERVICE, &[5064]), ..Wanted::default() },
                );
            }
            assert!(begin.elapsed() < Duration::from_secs(20), "unshare takes its time");
            std::thread::sleep(Duration::from_millis(5));
        };
        children.iter().map(apart).collect()
    }

    fn settle(captures: &mut Captures, wanted: &BTreeMap<Namespace, Wanted>) {
        let begin = Instant::now();
        loop {
            let failures = captures.follow(clock::monotonic(), wanted);
            assert!(failures.is_empty(), "{failures:?}");
            if captures.settled() {
                return;
            }
            assert!(begin.elapsed() < Duration::from_secs(60), "it opens");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn as_many_as_may_be_and_none_for_longer_than_its_processes() {
        let own = match Capture::open(&[], &Ports::default()) {
            Ok(own) => own,
            Err(error) => return not_run("captures", Needs::root_or_kernel(error.to_string())),
        };
        let mut captures = Captures::new(own, Filtering::Stateless);
        let children = children(MAX_OTHERS + 2);
        let all = wanted(captures.here(), &children.0);
        settle(&mut captures, &all);
        assert_eq!(captures.namespaces().len(), 1 + MAX_OTHERS);
        let refused = all.keys().filter_map(|&namespace| captures.refused(namespace, [&[], &[]]));
        let refused: Vec<String> = refused.map(ToString::to_string).collect();
        let too_many = NamespaceError::TooMany.to_string();
        assert!(refused.len() == 2 && refused.iter().all(|why| *why == too_many), "{refused:?}");
        let few: BTreeMap<Namespace, Wanted> = all.iter().take(3).map(|(n, w)| (*n, w.clone())).collect();
        settle(&mut captures, &few);
        assert_eq!(captures.namespaces().len(), 4);
        settle(&mut captures, &BTreeMap::new());
        assert_eq!(captures.namespaces(), [captures.here()]);
        settle(&mut captures, &all);
        let begin = Instant::now();
        drop(captures);
        // a service that is asked to end has a second
        assert!(begin.elapsed() < Duration::from_secs(1), "{:?}", begin.elapsed());
    }

    #[test]
    fn users_leave_room_for_root_s_containers() {
        let name = "captures::users_leave_room_for_root_s_containers";
        let own = match Capture::open(&[], &Ports::default()) {
            Ok(own) => own,
            Err(error) => return not_run(name, Needs::root_or_kernel(error.to_string())),
        };
        let Some(users) = of_user(MAX_WITH_USERS + 1) else {
            return not_run(name, Needs::root_or_kernel("user namespaces for users other than root"));
        };
        let mut captures = Captures::new(own, Filtering::Stateless);
        let roots = children(1);
        let mut all = wanted(captures.here(), &users.0);
        settle(&mut captures, &all);
        assert_eq!(captures.namespaces().len(), 1 + MAX_WITH_USERS);
        all.extend(wanted(captures.here(), &roots.0));
        settle(&mut captures, &all);
        assert_eq!(captures.namespaces().len(), 2 + MAX_WITH_USERS);
    }

    #[test]
    fn a_process_that_is_gone_is_not_a_reason() {
        let Ok(own) = Capture::open(&[], &Ports::default()) else { return };
        let mut captures = Captures::new(own, Filtering::Stateless);
        let gone = Wanted { pid: u32::MAX, ports: Ports::of(&SERVICE, &[5064]), ..Wanted::default() };
        let all = BTreeMap::from([(1, gone)]);
        captures.follow(0, &all);
        let begin = Instant::now();
        while !captures.settled() && begin.elapsed() < Duration::from_secs(20) {
            std::thread::sleep(Duration::from_millis(5));
            captures.follow(0, &BTreeMap::new());
        }
        assert!(captures.refused(1, [&[], &[]]).is_none());
    }

    /// The log says of which servers, until they are.
    #[test]
    fn ports_that_the_filter_has_no_room_for_are_not_captured() {
        let own = match Capture::open(&[], &Ports::default()) {
            Ok(own) => own,
            Err(error) => return not_run("captures", Needs::root_or_kernel(error.to_string())),
        };
        let mut captures = Captures::new(own, Filtering::Stateless);
        let here = captures.here();
        let mut follow = |servers: u16| {
            let ports: Vec<u16> = (6000..6000 + servers).collect();
            let wanted = Wanted { ports: Ports::of(&SERVICE, &ports), ..Wanted::default() };
            let said = captures.follow(0, &BTreeMap::from([(here, wanted)])).len();
            let lacks = |port: u16| captures.refused(here, [&[], &[port]]).is_some();
            (said, lacks(6000), lacks(6300))
        };
        assert_eq!(follow(2), (0, false, false));
        assert_eq!(follow(400), (1, false, true));
        assert_eq!(follow(400), (0, false, true), "it is tried again, and said once");
        assert_eq!(follow(20), (0, false, false));
        assert_eq!(follow(400), (1, false, true));
    }

    /// Anybody may listen to as many.
    #[test]
    fn what_there_is_no_room_for_does_not_cost_others_theirs() {
        let own = match Capture::open(&[], &Ports::default()) {
            Ok(own) => own,
            Err(error) => return not_run("captures", Needs::root_or_kernel(error.to_string())),
        };
        let mut captures = Captures::new(own, Filtering::Stateless);
        let here = captures.here();
        let crowd: Vec<u16> = (20_000..20_300).collect();
        assert!(captures.refused(here, [&crowd, &[]]).is_some(), "it could never have room");
        let halves = [&crowd[..150], &crowd[150..]];
        assert!(halves.iter().all(|half| captures.refused(here, [half, &[]]).is_none()));
        let mut follow = |others: &[u16]| {
            let ports = Ports::of(&SERVICE, &[others, crowd.as_slice()].concat());
            let wanted = Wanted { ports, ..Wanted::default() };
            captures.follow(0, &BTreeMap::from([(here, wanted)]));
            let is_refused = |ports: &[u16]| captures.refused(here, [ports, &[]]).is_some();
            assert!(is_refused(halves[1]) && !is_refused(halves[0]));
            others.iter().any(|port| is_refused(&[*port]))
        };
        assert!(!follow(&[5064]));
        assert!(follow(&[5064, 5066]), "the crowd was there before");
        assert!(!follow(&[5064]));
    }
}
