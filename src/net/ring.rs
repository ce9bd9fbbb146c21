//! The ring of a packet socket (TPACKET_V3): memory that the kernel writes packets to, block by block.
//!
//! A block must hold the longest packet, 64 KiB on loopback and wherever the network stack joins segments; longer ones
//! are cut and the rest counts as missing. The kernel hands a block over when it is full, or some time after it was begun
//! ([`RETIRE`] and others), so that a lone packet is seen soon. A block that is handed over early is used up all the same: a
//! reader that stays away for longer than [`BLOCKS`] times that can lose packets even if there are few. So there are many
//! small blocks rather than a few large ones.

use std::mem::size_of;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use libc::{c_int, c_void, socklen_t, SOL_PACKET};
use nix::errno::Errno;

use crate::net::capture::{CaptureError, Packet};

/// Blocks of a ring: a reader may stay away for 640 ms.
pub const BLOCKS: usize = 16;
/// Milliseconds until a block that isn't full is handed over. Each block wakes the recorder.
pub const RETIRE: u32 = 100;
/// The same where nobody watches what comes: a log is written later than that anyway.
pub const RETIRE_LATE: u32 = 200;
/// The same where only a look at the sockets tells which process a client is: the later its packets come, the likelier it
/// is gone, and unknown.
pub const RETIRE_SOON: u32 = 40;
/// Least size of a block: larger than the longest IP packet with its header in the ring.
const LEAST_BLOCK: usize = 80 << 10;
/// TPACKET_V3 packs packets whatever the frame size, but checks that it divides the blocks.
const FRAME: usize = 2048;
/// Place of a packet's kind in its header: a sockaddr_ll follows, aligned (TPACKET_ALIGN).
const KIND: usize = size_of::<libc::tpacket3_hdr>().next_multiple_of(libc::TPACKET_ALIGNMENT)
    + std::mem::offset_of!(libc::sockaddr_ll, sll_pkttype);

/// Sets an option of a socket.
pub(super) fn set_option<T>(socket: &OwnedFd, level: c_int, name: c_int, value: &T) -> Result<(), Errno> {
    let length = size_of::<T>() as socklen_t;
    // SAFETY: the kernel reads `length` bytes from `value`, which has that size.
    let set = unsafe {
        libc::setsockopt(socket.as_raw_fd(), level, name, std::ptr::from_ref(value).cast(), length)
    };
    Errno::result(set).map(drop)
}

/// The mapped ring.
#[derive(Debug)]
pub(super) struct Ring {
    start: NonNull<u8>,
    blocks: usize,
    /// Size of a block, a multiple of the page size.
    size: usize,
    /// The block that the kernel hands over next.
    next: usize,
}

// SAFETY: the mapping belongs to the Ring alone and can be read from any thread.
unsafe impl Send for Ring {}

impl Ring {
    /// Gives the socket a ring of so many blocks. One that isn't full is handed over after `retire` milliseconds.
    pub fn new(socket: &OwnedFd, blocks: usize, retire: u32) -> Result<Ring, CaptureError> {
        let system = |call: &'static str| move |errno| CaptureError::System(call, errno);
        let version = libc::tpacket_versions::TPACKET_V3 as c_int;
        set_option(socket, SOL_PACKET, libc::PACKET_VERSION, &version).map_err(system("PACKET_VERSION"))?;
        // SAFETY: the call has no pointers.
        let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096).max(4096);
        let size = LEAST_BLOCK.next_multiple_of(page);
        let request = libc::tpacket_req3 {
            tp_block_size: size as u32,
            tp_block_nr: blocks as u32,
            tp_frame_size: FRAME as u32,
            tp_frame_nr: (blocks * size / FRAME) as u32,
            tp_retire_blk_tov: retire,
            tp_sizeof_priv: 0,
            tp_feature_req_word: 0,
        };
        set_option(socket, SOL_PACKET, libc::PACKET_RX_RING, &request).map_err(system("PACKET_RX_RING"))?;
        // SAFETY: a new mapping, placed by the kernel, touches nothing of ours.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                blocks * size,
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
                unsafe { libc::madvise(start.as_ptr(), blocks * size, libc::MADV_DONTFORK) };
                Ok(Ring { start: start.cast(), blocks, size, next: 0 })
            }
            _ => Err(system("mmap of the ring")(Errno::last())),
        }
    }

    /// The oldest block that the kernel has handed over.
    pub fn block(&self) -> Option<&[u8]> {
        if self.status().load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
            return None;
        }
        // SAFETY: the mapping has `blocks` blocks of `size` bytes, and `next` is one of them. The kernel does not write
        // to a block that it has handed over until it gets it back, which needs `&mut self`.
        Some(unsafe { std::slice::from_raw_parts(self.start.as_ptr().add(self.next * self.size), self.size) })
    }

    /// Whether the kernel has handed over the next block because its time was over, not because it is full.
    pub fn has_timed_out(&self) -> bool {
        let both = libc::TP_STATUS_USER | libc::TP_STATUS_BLK_TMO;
        self.status().load(Ordering::Acquire) & both == both
    }

    /// Whether no packet waits in it: neither in a block that was handed over nor in the one that the kernel fills, which
    /// counts a packet before it writes it.
    pub fn is_empty(&self) -> bool {
        let count = std::mem::offset_of!(libc::tpacket_block_desc, hdr)
            + std::mem::offset_of!(libc::tpacket_hdr_v1, num_pkts);
        // a block that has been handed over meanwhile is not empty either: so the status is asked last
        self.word(count).load(Ordering::Acquire) == 0
            && self.status().load(Ordering::Acquire) & libc::TP_STATUS_USER == 0
    }

    /// Returns the oldest block to the kernel.
    pub fn release(&mut self) {
        self.status().store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.next = (self.next + 1) % self.blocks;
    }

    /// Number of blocks.
    pub fn blocks(&self) -> usize {
        self.blocks
    }

    /// The status of the next block.
    fn status(&self) -> &AtomicU32 {
        let status = std::mem::offset_of!(libc::tpacket_block_desc, hdr)
            + std::mem::offset_of!(libc::tpacket_hdr_v1, block_status);
        self.word(status)
    }

    /// A word of the next block's header.
    fn word(&self, offset: usize) -> &AtomicU32 {
        // SAFETY: the word lies in the block, aligned, for as long as the mapping lasts, and is shared with the kernel
        // only as a whole.
        unsafe { AtomicU32::from_ptr(self.start.as_ptr().add(self.next * self.size + offset).cast()) }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping was made with this length and nothing refers to it any more.
        unsafe { libc::munmap(self.start.as_ptr().cast::<c_void>(), self.blocks * self.size) };
    }
}

/// The packets of a block, in order. Nothing outside the block is read, whatever its fields say.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Walk {
    at: usize,
    left: u32,
}

fn word(block: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*block.get(at..)?.first_chunk()?))
}

impl Walk {
    /// Begins with a block's first packet.
    pub fn of(block: &[u8]) -> Walk {
        let header = |field: usize| word(block, std::mem::offset_of!(libc::tpacket_block_desc, hdr) + field);
        let left = header(std::mem::offset_of!(libc::tpacket_hdr_v1, num_pkts)).unwrap_or(0);
        let at = header(std::mem::offset_of!(libc::tpacket_hdr_v1, offset_to_first_pkt)).unwrap_or(0);
        Walk { at: at as usize, left }
    }

    /// The next packet, if there is one left.
    pub fn peek<'a>(&self, block: &'a [u8]) -> Option<Packet<'a>> {
        let field = |offset: usize| word(block, self.at.checked_add(offset)?);
        if self.left == 0 {
            return None;
        }
        let (sec, nsec) = (
            field(std::mem::offset_of!(libc::tpacket3_hdr, tp_sec))?,
            field(std::mem::offset_of!(libc::tpacket3_hdr, tp_nsec))?,
        );
        let kept = field(std::mem::offset_of!(libc::tpacket3_hdr, tp_snaplen))? as usize;
        let length = field(std::mem::offset_of!(libc::tpacket3_hdr, tp_len))? as usize;
        let mac = self.at.checked_add(std::mem::offset_of!(libc::tpacket3_hdr, tp_mac))?;
        let offset = u16::from_ne_bytes(*block.get(mac..)?.first_chunk()?);
        let start = self.at.checked_add(usize::from(offset))?;
        let bytes = block.get(start..start.checked_add(kept)?)?;
        let status = field(std::mem::offset_of!(libc::tpacket3_hdr, tp_status))?;
        let unverified = status & (libc::TP_STATUS_CSUMNOTREADY | libc::TP_STATUS_CSUM_VALID) == 0;
        let wall = i64::from(sec) * 1_000_000_000 + i64::from(nsec);
        let kind = *block.get(self.at.checked_add(KIND)?)?;
        Some(Packet { wall, bytes, length, place: None, unverified, kind })
    }

    /// Goes on to the packet after the next one.
    pub fn advance(&mut self, block: &[u8]) {
        let offset = self.at.checked_add(std::mem::offset_of!(libc::tpacket3_hdr, tp_next_offset));
        let next = offset.and_then(|at| word(block, at)).unwrap_or(0);
        self.left = if next == 0 { 0 } else { self.left.saturating_sub(1) };
        self.at = self.at.saturating_add(next as usize);
    }
}
