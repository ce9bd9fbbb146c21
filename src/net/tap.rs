//! One packet socket of a capture: for one direction of the watched connections.

use std::collections::VecDeque;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

use libc::{sock_filter, socklen_t, BPF_RET, SOL_PACKET, SOL_SOCKET};
use nix::errno::Errno;
use nix::poll::{poll, PollFd, PollFlags};

use crate::net::capture::{CaptureError, Packet};
use crate::net::filter::{self, DEPTHS};
use crate::net::program::ALL;
use crate::net::protocol::Side;
use crate::net::ring::{set_option, Ring, Walk, BLOCKS};
use crate::net::service::Ports;

/// The filter that passes all packets.
const PASS_ALL: [sock_filter; 1] = [sock_filter { code: BPF_RET as u16, jt: 0, jf: 0, k: ALL }];

/// Bytes of packets that may wait for older ones: beyond it they are passed on all the same. As much as a ring holds.
const HELD: usize = 1 << 20;

/// Longest wait for the block of one ring when that of the other has timed out, milliseconds: their timers were started
/// together, mostly within 0.1 ms, and some milliseconds apart on a busy machine.
const TOGETHER: u8 = 5;

/// Such waits that are left out after one in vain: a block that was full has begun other periods, and they stay apart.
const APART: u8 = 15;

/// Packets for which there is always room.
const FEW: usize = 16;

/// A packet that waits for older ones of the other socket.
#[derive(Debug)]
struct Held {
    since: Instant,
    wall: i64,
    bytes: Vec<u8>,
    length: usize,
    unverified: bool,
    kind: u8,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Tap {
    side: Side,
    socket: OwnedFd,
    /// Its stateless filter.
    classic: Vec<sock_filter>,
    ring: Option<Ring>,
    /// The place in the ring's oldest block.
    walk: Option<Walk>,
    /// Blocks that may still be passed on in this round.
    blocks: usize,
    held: VecDeque<Held>,
    held_bytes: usize,
    /// Whether the oldest held packets have waited long enough.
    due: bool,
    /// Time of the newest packet that the ring has handed over.
    through: i64,
    /// Waits for its ring that are left out.
    apart: u8,
}

impl Tap {
    /// A socket for what this side sends. It receives nothing yet.
    pub fn new(side: Side) -> Result<Tap, CaptureError> {
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
        Ok(Tap {
            side,
            socket,
            classic: Vec::new(),
            ring: None,
            walk: None,
            blocks: 0,
            held: VecDeque::new(),
            held_bytes: 0,
            due: false,
            through: 0,
            apart: 0,
        })
    }

    /// The side whose packets it captures.
    pub fn side(&self) -> Side {
        self.side
    }

    /// Its socket.
    pub fn socket(&self) -> &OwnedFd {
        &self.socket
    }

    /// Its descriptor.
    pub fn fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    /// Puts a stateless filter in place, instead of the previous one if there is one.
    ///
    /// # Errors
    /// The previous one stays.
    pub fn filter(&mut self, indices: &[u32], ports: &Ports, grouped: bool) -> Result<(), CaptureError> {
        let mut build = |depth: &usize| filter::build(self.side, ports, indices, *depth, grouped);
        let mut attached = self.attach_one(&mut DEPTHS.iter().map(&mut build));
        // where that in use leaves no room for another, all packets pass for a moment, rather than none
        if attached.is_none() && self.attach_classic(&PASS_ALL).is_ok() {
            attached = self.attach_one(&mut DEPTHS.iter().map(&mut build));
            if attached.is_none() {
                let _ = self.attach_classic(&self.classic);
            }
        }
        let attached = attached.ok_or(CaptureError::TooManyPorts(ports.len()))?;
        self.classic = attached.map_err(|errno| CaptureError::System("SO_ATTACH_FILTER", errno))?;
        Ok(())
    }

    /// Attaches the first of these programs that the socket's option memory (net.core.optmem_max) holds beside that in use,
    /// and returns it.
    fn attach_one(
        &self,
        programs: &mut dyn Iterator<Item = Vec<sock_filter>>,
    ) -> Option<Result<Vec<sock_filter>, Errno>> {
        for program in programs {
            match self.attach_classic(&program) {
                Err(Errno::ENOMEM) => {}
                other => return Some(other.map(|()| program)),
            }
        }
        None
    }

    /// Makes this program its filter.
    fn attach_classic(&self, program: &[sock_filter]) -> Result<(), Errno> {
        // the kernel only reads it
        let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_ptr().cast_mut() };
        set_option(&self.socket, SOL_SOCKET, libc::SO_ATTACH_FILTER, &filter)
    }

    /// Makes this BPF program its filter.
    pub fn attach(&self, program: RawFd) -> Result<(), Errno> {
        set_option(&self.socket, SOL_SOCKET, libc::SO_ATTACH_BPF, &program)
    }

    /// Gives it a ring of so many blocks, which are handed over after so many milliseconds.
    pub fn make_ring(&mut self, blocks: usize, retire: u32) -> Result<(), CaptureError> {
        self.ring = Some(Ring::new(&self.socket, blocks, retire)?);
        Ok(())
    }

    /// Whether it has a ring.
    pub fn has_ring(&self) -> bool {
        self.ring.is_some()
    }

    /// Begins to receive. It must have a filter and a ring.
    pub fn begin(&self) -> Result<(), CaptureError> {
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
            libc::bind(self.fd(), (&raw const address).cast(), size_of::<libc::sockaddr_ll>() as socklen_t)
        };
        Errno::result(bound).map(drop).map_err(|errno| CaptureError::System("bind", errno))
    }

    /// Waits until the ring hands over its block, if the other one's has just timed out: the timers of both go together, and
    /// else the recorder would wake up twice for the packets of one moment. Only of a ring of full length, as the recorder's own
    /// namespace has: the short ones of many namespaces can't wait for each other.
    pub fn wait_with(&mut self, other: &Tap) {
        let (Some(ring), Some(other)) = (&self.ring, &other.ring) else { return };
        let is_long = ring.blocks() >= BLOCKS;
        if is_long && other.has_timed_out() && ring.block().is_none() && !ring.is_empty() {
            if self.apart > 0 {
                self.apart -= 1;
                return;
            }
            let mut polled = [PollFd::new(self.socket.as_fd(), PollFlags::POLLIN)];
            // what does not come now comes with the next wake-up
            if poll(&mut polled, TOGETHER) == Ok(0) {
                self.apart = APART;
            }
        }
    }

    /// Begins a round: [`Tap::take`] passes on at most a ringful in it.
    pub fn look(&mut self) {
        self.blocks = self.ring.as_ref().map_or(0, Ring::blocks);
    }

    /// Time of the next packet.
    pub fn next(&mut self) -> Option<i64> {
        match self.held.front() {
            Some(held) => Some(held.wall),
            None if self.blocks > 0 => self.next_in_ring(),
            None => None,
        }
    }

    /// Time of the next packet that waits in the ring.
    fn next_in_ring(&mut self) -> Option<i64> {
        loop {
            let ring = self.ring.as_mut()?;
            let block = ring.block()?;
            let walk = self.walk.get_or_insert_with(|| Walk::of(block));
            if let Some(packet) = walk.peek(block) {
                self.through = packet.wall;
                return Some(packet.wall);
            }
            self.walk = None;
            self.blocks = self.blocks.saturating_sub(1);
            ring.release();
        }
    }

    /// Whether no packet is on its way: none waits here or in the ring, not even where the kernel still writes.
    pub fn is_idle(&self) -> bool {
        self.held.is_empty() && self.ring.as_ref().is_none_or(Ring::is_empty)
    }

    /// The ring has handed over all packets up to this time.
    pub fn through(&self) -> i64 {
        self.through
    }

    /// Whether its packets need not, or can't, wait any longer.
    pub fn is_full(&self) -> bool {
        self.due && !self.held.is_empty() || self.held_bytes > HELD
    }

    /// Passes on the next packet, which [`Tap::next`] has found.
    pub fn take(&mut self, f: &mut dyn FnMut(Packet)) {
        if let Some(Held { wall, bytes, length, unverified, kind, .. }) = self.held.pop_front() {
            self.held_bytes = self.held_bytes.saturating_sub(bytes.len() + size_of::<Held>());
            f(Packet { wall, bytes: &bytes, length, place: None, unverified, kind });
        } else if let (Some(block), Some(walk)) = (self.ring.as_ref().and_then(Ring::block), &mut self.walk) {
            if let Some(packet) = walk.peek(block) {
                f(packet);
            }
            walk.advance(block);
        }
    }

    /// Takes the next packet out of the ring, which [`Tap::next_in_ring`] has found.
    fn hold_next(&mut self, since: Instant) {
        if let (Some(block), Some(walk)) = (self.ring.as_ref().and_then(Ring::block), &mut self.walk) {
            if let Some(Packet { wall, bytes, length, unverified, kind, .. }) = walk.peek(block) {
                self.held_bytes += bytes.len() + size_of::<Held>();
                self.held.push_back(Held { since, wall, bytes: bytes.to_vec(), length, unverified, kind });
            }
            walk.advance(block);
        }
    }

    /// Makes room in the ring while a round takes its time.
    pub fn make_room(&mut self, now: Instant) {
        while self.held_bytes < HELD / 2 && self.next_in_ring().is_some() {
            self.hold_next(now);
        }
    }

    /// Ends a round: keeps the packets that wait, and returns the ring's blocks to the kernel. `most` is how long they
    /// may wait.
    pub fn hold(&mut self, most: Duration) {
        let now = Instant::now();
        while self.blocks > 0 && self.next_in_ring().is_some() {
            self.hold_next(now);
        }
        if self.held.is_empty() {
            // as it is nearly always
            self.held.shrink_to(FEW);
        }
        self.due = self.held.front().is_some_and(|held| now.duration_since(held.since) >= most);
    }

    /// Whether packets wait for those of the other ring.
    pub fn holds(&self) -> bool {
        !self.held.is_empty()
    }

    /// Whether the kernel has packets that are still to be taken: when it hands them over, it wakes whoever polls.
    pub fn is_awaited(&self) -> bool {
        self.ring.as_ref().is_some_and(|ring| !ring.is_empty())
    }

    /// Packets lost because the ring was full, since the last call.
    pub fn losses(&self) -> u64 {
        // struct tpacket_stats_v3: packets, drops, freezes of the queue. Reading resets them.
        let mut stats = [0u32; 3];
        let mut length = size_of::<[u32; 3]>() as socklen_t;
        // SAFETY: the kernel writes at most `length` bytes to `stats`, which has that size.
        let read = unsafe {
            libc::getsockopt(
                self.fd(),
                SOL_PACKET,
                libc::PACKET_STATISTICS,
                (&raw mut stats).cast(),
                &raw mut length,
            )
        };
        if read == 0 {
            u64::from(stats[1])
        } else {
            0
        }
    }
}
