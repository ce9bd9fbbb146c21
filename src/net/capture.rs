//! Takes packets off the network: two AF_PACKET sockets, each with a ring that the kernel writes.
//!
//! One socket captures what clients send to servers, the other what servers send: so whatever servers send in bulk, no
//! put is lost for want of room. With one for datagrams they are a group where the kernel can have that
//! ([`group`]). The packets of both are passed on in the order of their times (`merge.rs`).
//!
//! One capture watches all interfaces, so that one ring keeps the packets of all of them in the order in which they were
//! seen; the filter picks out named interfaces by their index. The sockets are "cooked" (SOCK_DGRAM): packets begin with
//! the IPv4 header, on Ethernet, loopback, VLANs and tunnels alike. They are bound to a protocol, and so start to
//! receive, only after filter and ring are in place: no packet ever bypasses the filter. Promiscuous mode is left
//! alone.
//!
//! The rings (`ring.rs`) take 1.25 MiB each, resident as long as they are mapped. If many captures are open,
//! they have fewer blocks ([`crate::net::captures`]). [`Capture::losses`] counts lost packets.

use std::fmt;
use std::os::fd::{OwnedFd, RawFd};
use std::sync::mpsc::{channel, Receiver, TryRecvError};
use std::sync::Weak;
use std::thread;
use std::time::Duration;

use iocrec_log::event::Tier;
use nix::errno::Errno;
use nix::net::if_::if_indextoname;

use crate::bpf::load::LoadError;
use crate::linux::aside;
use crate::net::connects::{self, Connects, Untold};
use crate::net::counts::Counts;
use crate::net::filter::MAX_PORTS;
use crate::net::group;
use crate::net::merge::{handed_over, pass_on};
use crate::net::protocol::Side;
pub use crate::net::ring::BLOCKS;
use crate::net::ring::{RETIRE, RETIRE_LATE, RETIRE_SOON};
use crate::net::service::Ports;
use crate::net::stateful::{self, Stateful};
use crate::net::tap::Tap;
use crate::net::udp::places::ALL;
use crate::net::udp::{Selected, Socket};

/// A packet.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// The kernel's time stamp: nanoseconds since 1970-01-01 UTC, CLOCK_REALTIME.
    pub wall: i64,
    /// From the IPv4 header on. The filter may have cut it.
    pub bytes: &'a [u8],
    /// Its length before it was cut.
    pub length: usize,
    /// Number of payload bytes before its first header, if the filter knows it
    /// ([`Segment::place`](crate::net::packet::Segment)).
    pub place: Option<u32>,
    /// Whether its checksums are complete, and nobody has verified them ([`checksum`](crate::net::checksum)).
    pub unverified: bool,
    /// Whom it is for, as the kernel sees it: PACKET_HOST and others.
    pub kind: u8,
}

/// How packets are filtered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filtering {
    /// By each packet alone ([`crate::net::filter`]): on every kernel.
    Stateless,
    /// By BPF programs that follow each connection ([`crate::net::stateful`]), or [`Filtering::Stateless`] if the kernel
    /// refuses them.
    Stateful,
}

impl Filtering {
    /// What it means that the stateful filter is refused.
    pub const REFUSED: &'static str = "packets are filtered each by itself, so more of them are copied";

    /// How a tier filters.
    pub fn of(tier: Tier) -> Filtering {
        match tier {
            Tier::Ring => Filtering::Stateful,
            Tier::Perf | Tier::Packet => Filtering::Stateless,
        }
    }
}

/// Why packets can't be captured.
#[derive(Debug)]
pub enum CaptureError {
    /// There is no interface of that name.
    NoSuchInterface {
        /// The name.
        name: String,
        /// The existing interfaces.
        known: Vec<String>,
    },
    /// CAP_NET_RAW is missing.
    NotAllowed,
    /// The kernel has no packet sockets.
    NoPacketSockets,
    /// More ports than a filter can hold.
    TooManyPorts(usize),
    /// A system call failed.
    System(&'static str, Errno),
}

impl fmt::Display for CaptureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CaptureError::NoSuchInterface { name, known } => {
                write!(f, "no network interface {name:?}: there are {}; or say any", known.join(", "))
            }
            CaptureError::NotAllowed => {
                f.write_str("not allowed to capture packets: run as root or with CAP_NET_RAW")
            }
            CaptureError::NoPacketSockets => f.write_str(
                "this kernel has no packet sockets (CONFIG_PACKET; perhaps modprobe af_packet): puts can't be seen on the network",
            ),
            CaptureError::TooManyPorts(n) => {
                write!(f, "{n} ports are more than can be watched ({MAX_PORTS}): name fewer with --port")
            }
            CaptureError::System(call, errno) => write!(f, "can't capture packets: {call}: {}", std::io::Error::from(*errno)),
        }
    }
}

impl std::error::Error for CaptureError {}

/// An open capture. See the module.
#[derive(Debug)]
pub struct Capture {
    /// From clients, from servers.
    taps: [Tap; 2],
    /// Whether the kernel shows each packet to one socket alone ([`group`]).
    grouped: bool,
    /// The group's socket for datagrams, until it is taken.
    datagrams: Option<Socket>,
    /// The programs of the filter; `None` if it is stateless.
    stateful: Option<Stateful>,
    /// The programs on their way: verifying them takes the kernel a tenth of a second, or ten on a slow machine.
    loading: Option<Receiver<Result<Stateful, LoadError>>>,
    /// Why it is not stateful.
    refused: Option<LoadError>,
    /// The ports that pass, and why others don't that should.
    ports: Ports,
    not_changed: Option<CaptureError>,
    /// Names of the interfaces to watch; none for all. And the numbers that they had last.
    interfaces: Vec<String>,
    indices: Vec<u32>,
    /// Whether one has had another number.
    has_moved: bool,
    /// Whether the stateful filter is new.
    tells: bool,
    /// How long a packet may wait in the kernel; and how long it does at most.
    patience: Duration,
    handed_over: Duration,
}

/// What a stateful filter tells beside packets.
#[derive(Default)]
pub struct Told {
    /// Which processes connect.
    pub connects: Option<Connects>,
    /// How many updates servers send.
    pub counts: Weak<Counts>,
}

impl Capture {
    /// Starts to capture IPv4 TCP from and to these ports, on these interfaces: on all if none is named, or `any` is.
    /// The filter is stateless.
    ///
    /// # Errors
    /// An interface does not exist, or packets can't be captured.
    pub fn open(interfaces: &[String], ports: &Ports) -> Result<Capture, CaptureError> {
        Self::with(interfaces, ports, Filtering::Stateless, BLOCKS, Duration::ZERO)
    }

    /// The same with another filter, and rings of `blocks` blocks. `patience`: how long a packet may wait in the kernel, if
    /// that costs nothing but time.
    ///
    /// # Errors
    /// As [`Capture::open`].
    pub fn with(
        interfaces: &[String],
        ports: &Ports,
        filtering: Filtering,
        blocks: usize,
        patience: Duration,
    ) -> Result<Capture, CaptureError> {
        let all = interfaces.iter().any(|name| name == "any");
        let interfaces = if all { Vec::new() } else { interfaces.to_vec() };
        let indices = indices(&interfaces)?;
        let is_stateful = filtering == Filtering::Stateful && indices.len() <= stateful::INTERFACES;
        let is_told = is_stateful && connects::may_be_told();
        let is_patient = patience >= Duration::from_millis(RETIRE_LATE.into());
        let retire = match (is_told, is_patient) {
            (false, _) => RETIRE_SOON,
            (true, false) => RETIRE,
            (true, true) => RETIRE_LATE,
        };
        let mut taps = open_taps(&indices, ports, blocks, retire)?;
        // none is second best, not an error
        let mut datagrams = Socket::open(Selected::default(), &indices, ALL).ok();
        let sockets: Vec<&OwnedFd> =
            taps.iter().map(Tap::socket).chain(datagrams.as_ref().map(Socket::socket)).collect();
        let joined = group::join(&sockets, ports);
        let grouped = joined == sockets.len();
        if grouped {
            set_filter(&mut taps, None, &indices, ports, true)?;
        } else {
            datagrams = None;
            if joined > 0 {
                taps = open_taps(&indices, ports, blocks, retire)?;
            }
        }
        let mut loading = None;
        if is_stateful {
            // smaller captures are those of further namespaces
            let flows = stateful::FLOWS * blocks as u32 / BLOCKS as u32;
            let (loaded, receiver) = channel();
            let load = move || drop(loaded.send(Stateful::load(flows)));
            // without a thread to spare the filter stays stateless
            loading = aside::start("filter", Box::new(load)).ok().map(|_| receiver);
        }
        let ports = ports.clone();
        Ok(Capture {
            taps,
            grouped,
            datagrams,
            stateful: None,
            loading,
            refused: None,
            not_changed: None,
            ports,
            interfaces,
            indices,
            has_moved: false,
            tells: false,
            // packets of other namespaces wait for these, and these for them: none wait for longer there
            patience: if is_told { patience } else { Duration::ZERO },
            handed_over: handed_over(retire),
        })
    }

    /// Makes the stateful filter replace the stateless one, once it is there.
    fn adopt(&mut self) {
        let loaded = match self.loading.as_ref().map(Receiver::try_recv) {
            None | Some(Err(TryRecvError::Empty)) => return,
            Some(Err(TryRecvError::Disconnected)) => None,
            Some(Ok(loaded)) => Some(loaded),
        };
        self.take(loaded);
    }

    /// Whether the stateful filter is on its way: [`Capture::drain`] takes it.
    pub fn is_loading(&self) -> bool {
        self.loading.is_some()
    }

    /// Waits until it is known which filter there is.
    pub fn settle(&mut self) {
        if let Some(loading) = &self.loading {
            let loaded = loading.recv().ok();
            self.take(loaded);
        }
    }

    fn take(&mut self, loaded: Option<Result<Stateful, LoadError>>) {
        self.loading = None;
        match loaded {
            Some(Ok(mut programs)) => {
                // of one that is gone just now the stateless filter has the last number, too
                let indices = indices(&self.interfaces).unwrap_or_else(|_| self.indices.clone());
                programs.watch(&self.ports, &indices);
                programs.set_grouped(self.grouped);
                if let Err(why) = self.taps.iter().try_for_each(|tap| programs.attach(tap)) {
                    // one may have it: both must be alike
                    let _ = set_filter(&mut self.taps, None, &indices, &self.ports, self.grouped);
                    self.refused = Some(why);
                } else {
                    self.stateful = Some(programs);
                    self.tells = true;
                }
            }
            Some(Err(why)) => self.refused = Some(why),
            None => {}
        }
    }

    /// Captures these ports from now on. No packet is lost by the change. Interfaces that were removed
    /// and added again are found.
    ///
    /// # Errors
    /// The old filter stays.
    pub fn set_ports(&mut self, ports: &Ports) -> Result<(), CaptureError> {
        let indices = indices(&self.interfaces)?;
        set_filter(&mut self.taps, self.stateful.as_mut(), &indices, ports, self.grouped)?;
        self.has_moved |= self.indices != indices;
        (self.ports, self.indices) = (ports.clone(), indices);
        Ok(())
    }

    /// Captures these ports, if it does not yet, and its interfaces by the numbers that they have now; of more ports than there
    /// is room for those that it captured before, and some of the others. The old filter stays if the new one is refused. Returns why not all are captured, if all were before.
    pub fn follow(&mut self, ports: &Ports) -> Option<&CaptureError> {
        let was_refused = self.not_changed.is_some();
        // one of the two may have been changed
        let is_set = !was_refused
            && self.ports == *ports
            && indices(&self.interfaces).is_ok_and(|now| now == self.indices);
        self.not_changed = if is_set { None } else { self.set_ports(ports).err() };
        if let Some(CaptureError::TooManyPorts(_)) = self.not_changed {
            let fitting = ports.at_most(MAX_PORTS, &self.ports);
            if fitting != self.ports {
                self.not_changed = self.set_ports(&fitting).err().or(self.not_changed.take());
            }
        }
        self.not_changed.as_ref().filter(|_| !was_refused)
    }

    /// Whether an interface that was named is not there; whether one has been another than before since the last call. One
    /// that has got another name is captured all the same.
    pub fn take_interfaces(&mut self) -> (bool, bool) {
        let is_missing = matches!(self.not_changed, Some(CaptureError::NoSuchInterface { .. }));
        // nix takes the kernel's refusal for an empty name
        let exists = |&index: &u32| if_indextoname(index).is_ok_and(|name| !name.is_empty());
        let is_gone = is_missing && !self.indices.iter().all(exists);
        (is_gone, std::mem::take(&mut self.has_moved))
    }

    /// As if it had been told this name, and the interface had had this number.
    #[cfg(test)]
    pub fn pretend(&mut self, interface: &str, index: u32) {
        (self.interfaces, self.indices) = (vec![interface.into()], vec![index]);
    }

    /// Why a port that it should capture is not captured.
    pub fn lacks(&self, port: u16) -> Option<&CaptureError> {
        self.not_changed.as_ref().filter(|_| !self.ports.has_any(port))
    }

    /// Why the filter is not stateful, though that was wanted.
    pub fn refused(&self) -> Option<&LoadError> {
        self.refused.as_ref()
    }

    /// The same, once.
    pub fn take_refused(&mut self) -> Option<LoadError> {
        self.refused.take()
    }

    /// What the filter tells of the processes that connect, and what it counts; once.
    pub fn take_told(&mut self) -> Option<Told> {
        if !std::mem::take(&mut self.tells) {
            return None;
        }
        let programs = self.stateful.as_mut()?;
        Some(Told { connects: programs.take_connects(), counts: programs.counts() })
    }

    /// Why the filter, though it is stateful, does not tell which processes connect.
    pub fn no_connects(&self) -> Option<&Untold> {
        self.stateful.as_ref()?.no_connects()
    }

    /// The group's socket for datagrams; once.
    pub fn take_datagrams(&mut self) -> Option<Socket> {
        self.datagrams.take()
    }

    /// Descriptors that poll as readable when [`Capture::drain`] has something to do.
    pub fn fds(&self) -> [RawFd; 2] {
        self.taps.each_ref().map(Tap::fd)
    }

    /// Passes on waiting packets, at most what the rings hold. Call it again soon for those that wait for older ones.
    pub fn drain(&mut self, f: &mut dyn FnMut(Packet)) {
        let behind = self.handed_over;
        let (taps, programs) = self.parts();
        pass_on(&mut taps.each_mut(), behind, &mut |_, packet| f(placed(packet, programs)));
    }

    /// Prepares for passing on packets: the taps, and the programs that know the places of headers.
    pub(super) fn parts(&mut self) -> (&mut [Tap; 2], Option<&Stateful>) {
        self.adopt();
        let [requests, answers] = &mut self.taps;
        requests.wait_with(answers);
        answers.wait_with(requests);
        (&mut self.taps, self.stateful.as_ref())
    }

    /// Whether packets wait for older ones, so that the capture should be drained again soon.
    pub fn holds(&self) -> bool {
        self.taps.iter().any(Tap::holds)
    }

    /// Whether the kernel has packets for it that are still to be taken: when it hands them over, its descriptors poll as
    /// readable.
    pub fn is_awaited(&self) -> bool {
        self.taps.iter().any(Tap::is_awaited)
    }

    /// How long a packet may wait in the kernel, as was asked for; 0 if the clients must be found meanwhile.
    pub fn patience(&self) -> Duration {
        self.patience
    }

    /// Time within which the kernel hands over a packet.
    pub fn handed_over(&self) -> Duration {
        self.handed_over
    }

    /// Packets that passed the filter and were lost because a ring was full, since the last call: from clients, from
    /// servers.
    pub fn losses(&self) -> [u64; 2] {
        self.taps.each_ref().map(Tap::losses)
    }
}

/// A packet with the place of its first header, as far as these programs know it.
pub(super) fn placed<'a>(packet: Packet<'a>, programs: Option<&Stateful>) -> Packet<'a> {
    Packet { place: programs.and_then(|programs| programs.place(packet.bytes)), ..packet }
}

/// Both sockets, which receive what passes a stateless filter.
fn open_taps(indices: &[u32], ports: &Ports, blocks: usize, retire: u32) -> Result<[Tap; 2], CaptureError> {
    let mut taps = [Tap::new(Side::Client)?, Tap::new(Side::Server)?];
    set_filter(&mut taps, None, indices, ports, false)?;
    make_rings(&mut taps, blocks, retire)?;
    taps.iter().try_for_each(Tap::begin)?;
    Ok(taps)
}

/// Makes both rings at the same time, so that the kernel's timers hand over the blocks of both at the same time, and wake
/// the recorder once. One after the other they would be 10 ms apart, since the kernel waits once it has made one.
fn make_rings([requests, answers]: &mut [Tap; 2], blocks: usize, retire: u32) -> Result<(), CaptureError> {
    thread::scope(|scope| {
        let other = thread::Builder::new()
            .name("ring".into())
            .spawn_scoped(scope, || answers.make_ring(blocks, retire));
        let made = requests.make_ring(blocks, retire);
        match other {
            Ok(other) => made.and(other.join().unwrap_or(Err(CaptureError::System("thread", Errno::EAGAIN)))),
            // without a thread to spare: at different times
            Err(_) => made,
        }
    })?;
    if answers.has_ring() {
        Ok(())
    } else {
        answers.make_ring(blocks, retire)
    }
}

/// Makes both filters pass these ports.
fn set_filter(
    taps: &mut [Tap; 2],
    stateful: Option<&mut Stateful>,
    indices: &[u32],
    ports: &Ports,
    grouped: bool,
) -> Result<(), CaptureError> {
    if ports.len() > MAX_PORTS {
        return Err(CaptureError::TooManyPorts(ports.len()));
    }
    if grouped {
        group::direct(taps[0].socket(), ports)?;
    }
    match stateful {
        Some(programs) => {
            programs.watch(ports, indices);
            Ok(())
        }
        // answers first: a request that is captured has its answer
        None => taps.iter_mut().rev().try_for_each(|tap| tap.filter(indices, ports, grouped)),
    }
}

/// Indices of the interfaces with these names.
pub(crate) fn indices(names: &[String]) -> Result<Vec<u32>, CaptureError> {
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let known = nix::net::if_::if_nameindex().map_err(|errno| CaptureError::System("if_nameindex", errno))?;
    let known: Vec<(String, u32)> =
        known.iter().map(|i| (i.name().to_string_lossy().into_owned(), i.index())).collect();
    let index = |name: &String| {
        known.iter().find(|(n, _)| n == name).map(|(_, index)| *index).ok_or_else(|| {
            let known = known.iter().map(|(n, _)| n.clone()).collect();
            CaptureError::NoSuchInterface { name: name.clone(), known }
        })
    };
    names.iter().map(index).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::not_run::{not_run, Needs};

    /// A stateless filter tells of no client, whatever was asked for.
    #[test]
    fn of_many_named_interfaces_packets_come_soon() {
        let named = vec!["lo".to_string(); stateful::INTERFACES + 1];
        let second = Duration::from_secs(1);
        match Capture::with(&named, &Ports::default(), Filtering::Stateful, BLOCKS, second) {
            Ok(capture) => {
                assert!(!capture.is_loading());
                assert_eq!(capture.handed_over(), handed_over(RETIRE_SOON));
                assert_eq!(capture.patience(), Duration::ZERO, "nor those of other namespaces later");
            }
            Err(error) => {
                let name = "capture::of_many_named_interfaces_packets_come_soon";
                not_run(name, Needs::root_or_kernel(error.to_string()));
            }
        }
    }

    /// The programs take their time to load.
    #[test]
    fn the_stateful_filter_comes_though_an_interface_has_gone() {
        let name = "capture::the_stateful_filter_comes_though_an_interface_has_gone";
        let (ports, none) = (Ports::default(), Duration::ZERO);
        let opened = Capture::with(&["lo".into()], &ports, Filtering::Stateful, BLOCKS, none);
        let mut capture = match opened {
            Ok(capture) if capture.is_loading() => capture,
            Ok(_) => return not_run(name, Needs::root_or_kernel("a thread")),
            Err(error) => return not_run(name, Needs::root_or_kernel(error.to_string())),
        };
        capture.interfaces = vec!["gone0".into()];
        capture.settle();
        if let Some(why) = capture.refused() {
            return not_run(name, Needs::root_or_kernel(why.to_string()));
        }
        assert!(capture.stateful.is_some());
        assert!(matches!(capture.set_ports(&Ports::default()), Err(CaptureError::NoSuchInterface { .. })));
    }

    /// A tunnel or an adapter has another number when it comes back.
    #[test]
    fn an_interface_is_followed_by_its_name() {
        let (name, ports) = ("capture::an_interface_is_followed_by_its_name", Ports::default());
        let mut capture = match Capture::open(&["lo".into()], &ports) {
            Ok(capture) => capture,
            Err(error) => return not_run(name, Needs::root_or_kernel(error.to_string())),
        };
        let now = std::mem::replace(&mut capture.indices, vec![u32::MAX]);
        assert!(capture.follow(&ports).is_none());
        assert_eq!(capture.indices, now);
        assert_eq!(capture.take_interfaces(), (false, true));
        let names = std::mem::replace(&mut capture.interfaces, vec!["gone0".into()]);
        assert!(matches!(capture.follow(&ports), Some(CaptureError::NoSuchInterface { .. })));
        assert!(capture.follow(&ports).is_none(), "it is said once");
        assert_eq!(capture.take_interfaces(), (false, false), "it has another name");
        capture.indices = vec![u32::MAX];
        assert_eq!(capture.take_interfaces(), (true, false));
        capture.interfaces = names;
        assert!(capture.follow(&ports).is_none() && capture.not_changed.is_none());
    }
}
