//! The stateful filter: BPF programs that follow each connection from message to message (bpf/filter.bpf.c).
//!
//! What servers send is mostly of no interest, but its messages begin anywhere in segments. These programs know where,
//! and so pass next to nothing of it, and of long puts only what is kept. For each packet that passes they note its
//! [place](Stateful::place), since the decoder can't follow a stream of which it does not see every message.
//!
//! Only for the ring tier: they need loops, and memory shared with the kernel (5.5). Each capture has its own, since
//! network namespaces may have the same addresses.

use std::fmt;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr::NonNull;
use std::sync::{Arc, Weak};

use iocrec_log::event::Tier;
use libbpf_rs::{libbpf_sys, AsRawLibbpf, MapCore, Object};
use nix::errno::Errno;

use crate::bpf::diagnosis::diagnose;
use crate::bpf::failure::{Failure, Step};
use crate::bpf::load::{load, LoadError};
use crate::bpf::refusal::Refusal;
use crate::bpf::shared::Shared;
use crate::net::connects::{self, Closing, Connects, KernelLayout, Untold};
use crate::net::counts::Counts;
use crate::net::frames::{option, IPV4, IPV6};
use crate::net::packet::TCP;
use crate::net::protocol::Side;
use crate::net::service::Ports;
use crate::net::tap::Tap;

/// Directions of connections that are followed; beyond it the longest silent is forgotten, and passes whole until it is
/// known again. About 200 bytes of kernel memory each.
pub const FLOWS: u32 = 4096;
/// Most interfaces that can be named.
pub const INTERFACES: usize = 16;
/// PLACES and ROW of bpf/filter.bpf.c.
const PLACES: usize = 8192;
const ROW: usize = 8;
/// Words of two bits for each port.
const WORDS: usize = 65536 / 32;
/// The number of the protocols that the programs do not know (bpf/messages.h).
const UNKNOWN: usize = 2;
/// Bytes that are kept of a put ([`crate::ca::Limits`]).
pub const KEPT: u32 = 4096;

/// `struct shared` of bpf/filter.bpf.c.
#[repr(C)]
struct Memory {
    ports: [u64; WORDS],
    places: [u64; PLACES],
    interfaces: [u32; INTERFACES],
    kept: u32,
    incoming: u32,
    grouped: u32,
    _unused: u32,
    closed_until: u64,
    /// `struct connect_state` of bpf/connects.h.
    connects: [u64; 4],
}

/// See the module.
pub struct Stateful {
    object: Object,
    /// Part of the object: valid as long as that.
    memory: NonNull<Memory>,
    /// What is told of the processes that connect, until it is taken, or why nothing is; and the end of it.
    connects: Result<Option<Connects>, Untold>,
    _closing: Option<Closing>,
    /// The counts of updates, for as long as the programs count.
    counts: Option<Arc<Counts>>,
}

// SAFETY: the object and its memory belong to it alone; the kernel's side reads and writes whole words.
unsafe impl Send for Stateful {}

impl fmt::Debug for Stateful {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Stateful")
    }
}

impl Stateful {
    /// Loads the programs, with room for so many directions of connections. They pass no port yet. If the kernel refuses
    /// the part that tells which processes connect, they are loaded without it.
    ///
    /// # Errors
    /// This kernel can't have them.
    pub fn load(flows: u32) -> Result<Stateful, LoadError> {
        let unknown = match connects::layout() {
            Ok(layout) => match Self::load_with(flows, Some(layout)) {
                Err(LoadError::Refused(why)) => Untold::Refused(why),
                other => return other,
            },
            Err(why) => why,
        };
        Ok(Stateful { connects: Err(unknown), ..Self::load_with(flows, None)? })
    }

    fn load_with(flows: u32, layout: Option<KernelLayout>) -> Result<Stateful, LoadError> {
        let object = load("filter", Tier::Ring, |object| {
            let page = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE)?.unwrap_or(4096) as u32;
            for mut map in object.maps_mut() {
                let name = map.name().to_string_lossy().into_owned();
                match &layout {
                    Some(layout) if name.ends_with(".rodata") => {
                        map.set_initial_value(layout.bytes()).map_err(|_| std::io::ErrorKind::InvalidData)?;
                    }
                    _ if name == "connects" => {
                        map.set_max_entries(page).map_err(|_| std::io::ErrorKind::InvalidData)?;
                    }
                    _ => {}
                }
            }
            for map in object.maps_mut().filter(|map| map.name() == "flows") {
                // SAFETY: the map belongs to the object, which is open; the call only notes the number.
                let error = unsafe {
                    libbpf_sys::bpf_map__set_max_entries(map.as_libbpf_object().as_ptr(), flows.max(64))
                };
                if error < 0 {
                    return Err(std::io::Error::from_raw_os_error(-error));
                }
            }
            Ok(())
        })?;
        let found = object.maps().find(|map| map.name().to_string_lossy().ends_with(".bss"));
        let memory = found.and_then(|map| {
            let mut size: usize = 0;
            // SAFETY: the map belongs to the object, which is loaded; the call writes the size.
            let start = unsafe {
                libbpf_sys::bpf_map__initial_value(map.as_libbpf_object().as_ptr(), (&raw mut size).cast())
            };
            // libbpf maps whole pages
            NonNull::new(start.cast::<Memory>()).filter(|at| at.is_aligned() && size == size_of::<Memory>())
        });
        let Some(memory) = memory else {
            let failure = Failure::from(std::io::Error::from_raw_os_error(libc::EINVAL));
            return Err(LoadError::Refused(diagnose(Step::Maps(Tier::Ring), failure)));
        };
        let (connects, closing) = match layout.is_some().then(|| Connects::open(&object)).flatten() {
            Some((connects, closing)) => (Ok(Some(connects)), Some(closing)),
            None => (Err(Untold::NoMemory), None),
        };
        let counts = Counts::open(&object).map(Arc::new);
        let mut loaded = Stateful { object, memory, connects, _closing: closing, counts };
        loaded.keep(KEPT);
        Ok(loaded)
    }

    /// Sets how many bytes of a put are kept.
    pub fn keep(&mut self, bytes: u32) {
        // SAFETY: the memory is there as long as the object; the kernel reads it as a whole word.
        unsafe { (&raw mut (*self.memory.as_ptr()).kept).write_volatile(bytes) };
    }

    /// On the loopback interface takes incoming packets instead of outgoing ones, for [`Stateful::try_on`].
    pub fn take_incoming(&mut self) {
        // SAFETY: as above.
        unsafe { (&raw mut (*self.memory.as_ptr()).incoming).write_volatile(1) };
    }

    /// Whether the sockets are a [group](crate::net::group).
    pub(super) fn set_grouped(&mut self, grouped: bool) {
        // SAFETY: as above.
        unsafe { (&raw mut (*self.memory.as_ptr()).grouped).write_volatile(grouped.into()) };
    }

    /// What is told of the processes that connect; once.
    pub fn take_connects(&mut self) -> Option<Connects> {
        self.connects.as_mut().ok()?.take()
    }

    /// The counts of updates.
    pub fn counts(&self) -> Weak<Counts> {
        self.counts.as_ref().map(Arc::downgrade).unwrap_or_default()
    }

    /// Why nothing is told of them.
    pub fn no_connects(&self) -> Option<&Untold> {
        self.connects.as_ref().err()
    }

    /// The program for what this side sends, as a descriptor.
    fn program(&self, side: Side) -> Option<i32> {
        let name = match side {
            Side::Client => "requests",
            Side::Server => "answers",
        };
        self.object.progs().find(|program| program.name() == name).map(|program| program.as_fd().as_raw_fd())
    }

    /// Runs the program for what this side sends on a packet, from its IP header on: how many bytes would pass. For
    /// tests: the kernel runs it as it would run it on a socket, for an incoming packet on the loopback interface.
    ///
    /// # Errors
    /// The kernel does not run it on such a packet.
    pub fn try_on(&self, side: Side, packet: &[u8]) -> std::io::Result<u32> {
        let program = self.program(side).ok_or(std::io::ErrorKind::NotFound)?;
        let mut frame = vec![0; 12];
        let is_ip6 = packet.first().is_some_and(|first| first >> 4 == 6);
        frame.extend(if is_ip6 { IPV6 } else { IPV4 }.to_be_bytes());
        frame.extend(packet);
        // SAFETY: all zeroes are a valid value of it, made of numbers and pointers.
        let mut options: libbpf_sys::bpf_test_run_opts = unsafe { std::mem::zeroed() };
        options.sz = size_of::<libbpf_sys::bpf_test_run_opts>() as _;
        options.data_in = frame.as_ptr().cast();
        options.data_size_in = u32::try_from(frame.len()).map_err(|_| std::io::ErrorKind::InvalidInput)?;
        // SAFETY: the program is loaded, and the data lives until the call returns.
        match unsafe { libbpf_sys::bpf_prog_test_run_opts(program, &raw mut options) } {
            0 => Ok(options.retval),
            error => Err(std::io::Error::from_raw_os_error(-error)),
        }
    }

    /// Makes its program the filter of a socket.
    ///
    /// # Errors
    /// The kernel refuses it; the old filter stays.
    pub(super) fn attach(&self, tap: &Tap) -> Result<(), LoadError> {
        let attached = self.program(tap.side()).ok_or(Errno::ENOENT).and_then(|program| tap.attach(program));
        attached.map_err(|errno| {
            let complaint = "SO_ATTACH_BPF".into();
            LoadError::Refused(Refusal::Other(Failure { errno: errno as i32, complaint }))
        })
    }

    /// From now on passes these ports, on these interfaces; none for all.
    pub fn watch(&mut self, ports: &Ports, interfaces: &[u32]) {
        let memory = self.memory.as_ptr();
        let mut bits = [0u64; WORDS];
        for (service, ports) in ports.iter() {
            let protocol = service.protocol.unwrap_or(UNKNOWN) as u64 + 1;
            for &port in ports {
                if let Some(word) = bits.get_mut(usize::from(port >> 5)) {
                    let shift = (port & 31) * 2;
                    *word = *word & !(3 << shift) | protocol << shift;
                }
            }
        }
        for (at, word) in bits.iter().enumerate() {
            // SAFETY: the memory is there as long as the object, and `at` is below the number of words; the kernel reads
            // them whole.
            unsafe { (&raw mut (*memory).ports).cast::<u64>().add(at).write_volatile(*word) };
        }
        for at in 0..INTERFACES {
            let interface = interfaces.get(at).copied().unwrap_or(0);
            // SAFETY: as above.
            unsafe { (&raw mut (*memory).interfaces).cast::<u32>().add(at).write_volatile(interface) };
        }
    }

    /// Number of payload bytes before the first header of a packet that passed lately: see
    /// [`Segment::place`](crate::net::packet::Segment). `None` for a packet of a connection that the programs do not
    /// know.
    pub fn place(&self, packet: &[u8]) -> Option<u32> {
        let first = packet.first()?;
        let (ends, tcp) = match (first >> 4, packet.get(6)?) {
            (6, &TCP) => (8..40, 40),
            // behind one header
            (6, &next) => (8..40, 40 + option(next, *packet.get(41)?)),
            _ => (12..20, usize::from(first & 15) * 4),
        };
        let (ends, tcp) = (packet.get(ends)?, packet.get(tcp..)?);
        let word =
            |bytes: &[u8], at: usize| Some(u64::from(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?)));
        let sequence = u64::from(u32::from_be_bytes(*tcp.get(4..)?.first_chunk()?));
        // place() of bpf/filter.bpf.c
        let mut hash = (word(tcp, 0)? << 32 | sequence).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        hash ^= hash >> 29;
        let (source, destination) = ends.split_at_checked(ends.len() / 2)?;
        let folded = |end: &[u8]| (0..end.len() / 4).try_fold(0, |all, at| Some(all ^ word(end, at * 4)?));
        hash = hash
            .wrapping_add(folded(source)? << 32 | folded(destination)?)
            .wrapping_mul(0xbf58_476d_1ce4_e5b9);
        hash ^= hash >> 32;
        let row = hash as usize & (PLACES - ROW);
        // the first is the newest
        let mut places = (row..row + ROW).map(|at| {
            // SAFETY: the memory is there as long as the object, and `at` is below the number of places; the kernel writes
            // them whole.
            unsafe { (&raw const (*self.memory.as_ptr()).places).cast::<u64>().add(at).read_volatile() }
        });
        places.find(|found| found >> 32 == hash >> 32).map(|found| found as u32)
    }
}
