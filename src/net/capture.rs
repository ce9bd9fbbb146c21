//! Takes packets off the network: an AF_PACKET socket with a ring that the kernel writes.
//!
//! One socket watches all interfaces, so that one ring keeps the packets of all of them in the order in which they were
//! seen; the filter picks out named interfaces by their index. The socket is "cooked" (SOCK_DGRAM): packets begin with
//! the IPv4 header, on Ethernet, loopback, VLANs and tunnels alike. It is bound to a protocol, and so starts to
//! receive, only after filter and ring are in place: no packet ever bypasses the filter. Promiscuous mode is left
//! alone.
//!
//! The ring (TPACKET_V3) has 16 blocks of 128 KiB, 2 MiB in all, resident as long as it is mapped: a quarter of the
//! memory that the agent may use. If many captures are open, they have fewer blocks ([`crate::net::captures`]). A block
//! must hold the longest packet, 64 KiB on loopback and wherever the network stack joins segments; longer ones are cut
//! and the rest counts as missing. The kernel hands a block over when it is full, or 40 ms after it was begun, so that
//! a lone packet is seen within 50 ms. A block that is handed over early is used up all the same: a reader that stays
//! away for longer than 16 × 40 ms can lose packets even if there are few. So there are many small blocks rather than a
//! few large ones. [`Capture::losses`] counts lost packets.

use crate::net::filter::{self, DEPTHS, MAX_PORTS};
use crate::net::service::Ports;
use libc::{c_int, c_void, socklen_t, SOL_PACKET, SOL_SOCKET};
use nix::errno::Errno;
use std::fmt;
use std::mem::size_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

/// A multiple of the page size on every machine (64 KiB at most), larger than the longest IP packet.
const BLOCK: usize = 128 << 10;
/// See the module.
pub const BLOCKS: usize = 16;
/// Milliseconds until a block that isn't full is handed over.
const RETIRE: u32 = 40;
/// TPACKET_V3 packs packets whatever the frame size, but checks that it divides the blocks.
const FRAME: usize = 2048;

/// A packet.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// The kernel's time stamp: nanoseconds since 1970-01-01 UTC, CLOCK_REALTIME.
    pub wall: i64,
    /// From the IPv4 header on. The filter may have cut it.
    pub bytes: &'a [u8],
    /// Its length before it was cut.
    pub length: usize,
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
            CaptureError::System(call, errno) => write!(f, "can't capture packets: {call}: {}", errno.desc()),
        }
    }
}

impl std::error::Error for CaptureError {}

/// An open capture. See the module.
#[derive(Debug)]
pub struct Capture {
    socket: OwnedFd,
    ring: Ring,
    /// The block that the kernel hands over next.
    next: usize,
    /// Names of the interfaces to watch; none for all.
    interfaces: Vec<String>,
    losses: u64,
}

impl Capture {
    /// Starts to capture IPv4 TCP from and to these ports, on these interfaces: on all if none is named, or `any` is.
    ///
    /// # Errors
    /// An interface does not exist, or packets can't be captured.
    pub fn open(interfaces: &[String], ports: &Ports) -> Result<Capture, CaptureError> {
        Self::with_ring(interfaces, ports, BLOCKS)
    }

    /// The same with a ring of `blocks` blocks.
    pub fn with_ring(interfaces: &[String], ports: &Ports, blocks: usize) -> Result<Capture, CaptureError> {
        let all = interfaces.iter().any(|name| name == "any");
        let interfaces = if all { Vec::new() } else { interfaces.to_vec() };
        let indices = indices(&interfaces)?;
        // Protocol 0: the socket receives nothing yet.
        // SAFETY: no pointers are passed.
        let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
        let fd = Errno::result(fd).map_err(|errno| match errno {
            Errno::EPERM | Errno::EACCES => CaptureError::NotAllowed,
            Errno::EAFNOSUPPORT => CaptureError::NoPacketSockets,
            errno => CaptureError::System("socket", errno),
        })?;
        // SAFETY: the descriptor was just made and nobody else owns it.
        let socket = unsafe { OwnedFd::from_raw_fd(fd) };
        attach(&socket, &indices, ports)?;
        let ring = Ring::new(&socket, blocks)?;
        let address = libc::sockaddr_ll {
            sll_family: libc::AF_PACKET as u16,
            // Only a socket for all protocols sees outgoing packets.
            sll_protocol: (libc::ETH_P_ALL as u16).to_be(),
            sll_ifindex: 0,
            sll_hatype: 0,
            sll_pkttype: 0,
            sll_halen: 0,
            sll_addr: [0; 8],
        };
        // SAFETY: the address lives until the call returns, and its size is passed.
        let bound = unsafe {
            libc::bind(
                socket.as_raw_fd(),
                (&raw const address).cast(),
                size_of::<libc::sockaddr_ll>() as socklen_t,
            )
        };
        Errno::result(bound).map_err(|errno| CaptureError::System("bind", errno))?;
        Ok(Capture { socket, ring, next: 0, interfaces, losses: 0 })
    }

    /// Captures these ports from now on. No packet passes unfiltered during the change. Interfaces that were removed
    /// and added again are found.
    ///
    /// # Errors
    /// The old filter stays.
    pub fn set_ports(&mut self, ports: &Ports) -> Result<(), CaptureError> {
        attach(&self.socket, &indices(&self.interfaces)?, ports)
    }

    /// A descriptor that polls as readable when [`Capture::drain`] has something to do.
    pub fn raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    /// Passes on all waiting packets, at most a ringful, so that a flood can't hold the caller for ever.
    pub fn drain(&mut self, f: &mut dyn FnMut(Packet)) {
        for _ in 0..self.ring.blocks {
            if !self.ring.block(self.next, f) {
                break;
            }
            self.next = (self.next + 1) % self.ring.blocks;
        }
    }

    /// Packets that passed the filter and were lost because the ring was full, since the last call.
    pub fn losses(&mut self) -> u64 {
        // struct tpacket_stats_v3: packets, drops, freezes of the queue. Reading resets them.
        let mut stats = [0u32; 3];
        let mut length = size_of::<[u32; 3]>() as socklen_t;
        // SAFETY: the kernel writes at most `length` bytes to `stats`, which has that size.
        let read = unsafe {
            libc::getsockopt(
                self.socket.as_raw_fd(),
                SOL_PACKET,
                libc::PACKET_STATISTICS,
                (&raw mut stats).cast(),
                &raw mut length,
            )
        };
        if read == 0 {
            self.losses += u64::from(stats[1]);
        }
        std::mem::take(&mut self.losses)
    }
}

/// Indices of the interfaces with these names.
fn indices(names: &[String]) -> Result<Vec<u32>, CaptureError> {
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

/// Puts the filter in place, replacing the previous one if there is one.
fn attach(socket: &OwnedFd, indices: &[u32], ports: &Ports) -> Result<(), CaptureError> {
    if ports.len() > MAX_PORTS {
        return Err(CaptureError::TooManyPorts(ports.len()));
    }
    let attach = |depth: usize| {
        let mut program = filter::build(ports, indices, depth);
        let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
        set_option(socket, SOL_SOCKET, libc::SO_ATTACH_FILTER, &filter)
    };
    for depth in DEPTHS {
        match attach(depth) {
            // The program exceeds the socket's option memory (net.core.optmem_max): try a shorter one.
            Err(Errno::ENOMEM) => {}
            other => return other.map_err(|errno| CaptureError::System("SO_ATTACH_FILTER", errno)),
        }
    }
    Err(CaptureError::TooManyPorts(ports.len()))
}

fn set_option<T>(socket: &OwnedFd, level: c_int, name: c_int, value: &T) -> Result<(), Errno> {
    let length = size_of::<T>() as socklen_t;
    // SAFETY: the kernel reads `length` bytes from `value`, which has that size.
    let set = unsafe {
        libc::setsockopt(socket.as_raw_fd(), level, name, std::ptr::from_ref(value).cast(), length)
    };
    Errno::result(set).map(drop)
}

/// The mapped ring.
#[derive(Debug)]
struct Ring {
    start: NonNull<u8>,
    blocks: usize,
}

// SAFETY: the mapping belongs to the Ring alone and can be read from any thread.
unsafe impl Send for Ring {}

impl Ring {
    fn new(socket: &OwnedFd, blocks: usize) -> Result<Ring, CaptureError> {
        let system = |call: &'static str| move |errno| CaptureError::System(call, errno);
        let version = libc::tpacket_versions::TPACKET_V3 as c_int;
        set_option(socket, SOL_PACKET, libc::PACKET_VERSION, &version).map_err(system("PACKET_VERSION"))?;
        let request = libc::tpacket_req3 {
            tp_block_size: BLOCK as u32,
            tp_block_nr: blocks as u32,
            tp_frame_size: FRAME as u32,
            tp_frame_nr: (blocks * BLOCK / FRAME) as u32,
            tp_retire_blk_tov: RETIRE,
            tp_sizeof_priv: 0,
            tp_feature_req_word: 0,
        };
        set_option(socket, SOL_PACKET, libc::PACKET_RX_RING, &request).map_err(system("PACKET_RX_RING"))?;
        // SAFETY: a new mapping, placed by the kernel, touches nothing of ours.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                blocks * BLOCK,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                socket.as_raw_fd(),
                0,
            )
        };
        match NonNull::new(start) {
            Some(start) if start.as_ptr() != libc::MAP_FAILED => {
                // A child's copy of the mapping would keep the socket, and with it the namespace, alive after our end.
                // SAFETY: the call concerns the mapping just made, and none of its contents.
                unsafe { libc::madvise(start.as_ptr(), blocks * BLOCK, libc::MADV_DONTFORK) };
                Ok(Ring { start: start.cast(), blocks })
            }
            _ => Err(system("mmap of the ring")(Errno::last())),
        }
    }

    /// Passes on a block's packets and returns it to the kernel, if the kernel is done with it.
    fn block(&self, number: usize, f: &mut dyn FnMut(Packet)) -> bool {
        if number >= self.blocks {
            return false;
        }
        // SAFETY: the mapping has `blocks` blocks of BLOCK bytes.
        let block = unsafe { self.start.as_ptr().add(number * BLOCK) };
        let status = std::mem::offset_of!(libc::tpacket_block_desc, hdr)
            + std::mem::offset_of!(libc::tpacket_hdr_v1, block_status);
        // SAFETY: the status lies in the block, aligned, for as long as the mapping lasts, and is
        // shared with the kernel only as a whole word.
        let status = unsafe { AtomicU32::from_ptr(block.add(status).cast()) };
        if status.load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
            return false;
        }
        // SAFETY: the kernel does not write to a block that it has handed over until it gets it back below; we write
        // only the status, which is no longer read through this slice by then.
        let bytes = unsafe { std::slice::from_raw_parts(block.cast_const(), BLOCK) };
        packets(bytes, f);
        status.store(libc::TP_STATUS_KERNEL, Ordering::Release);
        true
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping was made with this length and nothing refers to it any more.
        unsafe { libc::munmap(self.start.as_ptr().cast::<c_void>(), self.blocks * BLOCK) };
    }
}

/// Walks the packets of a block. Nothing outside the block is read, whatever its fields say.
fn packets(block: &[u8], f: &mut dyn FnMut(Packet)) {
    let word = |at: usize| Some(u32::from_ne_bytes(*block.get(at..)?.first_chunk()?));
    let header = |field: usize| word(std::mem::offset_of!(libc::tpacket_block_desc, hdr) + field);
    let count = header(std::mem::offset_of!(libc::tpacket_hdr_v1, num_pkts)).unwrap_or(0);
    let first = header(std::mem::offset_of!(libc::tpacket_hdr_v1, offset_to_first_pkt)).unwrap_or(0);
    let mut at = first as usize;
    for _ in 0..count {
        let field = |offset: usize| word(at.checked_add(offset)?);
        let packet = (|| {
            let (sec, nsec) = (
                field(std::mem::offset_of!(libc::tpacket3_hdr, tp_sec))?,
                field(std::mem::offset_of!(libc::tpacket3_hdr, tp_nsec))?,
            );
            let kept = field(std::mem::offset_of!(libc::tpacket3_hdr, tp_snaplen))? as usize;
            let length = field(std::mem::offset_of!(libc::tpacket3_hdr, tp_len))? as usize;
            let mac = std::mem::offset_of!(libc::tpacket3_hdr, tp_mac);
            let offset = u16::from_ne_bytes(*block.get(at.checked_add(mac)?..)?.first_chunk()?);
            let start = at + usize::from(offset);
            let bytes = block.get(start..start.checked_add(kept)?)?;
            Some(Packet { wall: i64::from(sec) * 1_000_000_000 + i64::from(nsec), bytes, length })
        })();
        let next = field(std::mem::offset_of!(libc::tpacket3_hdr, tp_next_offset)).unwrap_or(0);
        if let Some(packet) = packet {
            f(packet);
        }
        if next == 0 {
            break;
        }
        at = at.saturating_add(next as usize);
    }
}
