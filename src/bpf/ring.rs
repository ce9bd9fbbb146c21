//! The reading end of the BPF ring buffer.
//!
//! libbpf has one, but it maps the data twice in a row so that no hit is ever in two pieces: half a MiB that counts as
//! the agent's memory. This module copies hits anyway, so two pieces do no harm.
//!
//! The kernel guarantees the layout (kernel/bpf/ringbuf.c, "ring buffer memory layout"): a writable page with the
//! consumer's position; a read-only page with the producers' position, followed by the data, also read-only. Each hit
//! is preceded by its length, whose upper two bits are flags, and four bytes for the kernel; hits are aligned to 8
//! bytes.

use std::io;
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use libbpf_rs::{MapCore, Object};
use nix::sys::mman::{mmap, munmap, MapFlags, ProtFlags};

use crate::bpf::table::map_of;

/// BPF_RINGBUF_HDR_SZ.
const HEADER: usize = 8;
/// BPF_RINGBUF_BUSY_BIT: being written.
const BUSY: u32 = 1 << 31;
/// BPF_RINGBUF_DISCARD_BIT: discarded by its writer.
const DISCARDED: u32 = 1 << 30;

/// Number of checks of a hit that is being written before it is left for later. A program writes a hit in less than a
/// microsecond; one that takes longer than these checks, some 10 µs, was interrupted.
const CHECKS: usize = 1000;

/// Result of consuming.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consumed {
    /// All hits were taken.
    All,
    /// The taker stopped.
    Enough,
    /// The next hit is still being written.
    Waits,
}

/// Header of a hit, once written.
fn written(header: &AtomicU32) -> Option<u32> {
    for _ in 0..CHECKS {
        let header = header.load(Ordering::Acquire);
        if header & BUSY == 0 {
            return Some(header);
        }
        std::hint::spin_loop();
    }
    None
}

/// A mapping of whole pages.
struct Pages {
    at: NonNull<u8>,
    length: usize,
}

impl Pages {
    fn map(map: &OwnedFd, offset: usize, length: usize, protection: ProtFlags) -> io::Result<Pages> {
        let bytes = NonZeroUsize::new(length).ok_or(io::ErrorKind::InvalidInput)?;
        // SAFETY: a new mapping, at a place that the kernel chooses, disturbs no other.
        let at = unsafe { mmap(None, bytes, protection, MapFlags::MAP_SHARED, map.as_fd(), offset as _) }?;
        Ok(Pages { at: at.cast(), length })
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: the whole mapping is ours, and nothing refers to it any more. So it cannot fail.
        let _ = unsafe { munmap(self.at.cast(), self.length) };
    }
}

/// The reading end.
pub struct Ring {
    consumer: Pages,
    /// The producers' page, then the data.
    producer: Pages,
    page: usize,
    /// Bytes of data, a power of two.
    size: usize,
    map: OwnedFd,
}

// SAFETY: the mappings belong to it alone, and only whole words of them change under the reader.
unsafe impl Send for Ring {}

impl Ring {
    /// Opens the map of this name, of type RINGBUF.
    ///
    /// # Errors
    /// There is no such map, or the kernel provides no mapping or no descriptor.
    pub fn open(object: &Object, name: &str) -> io::Result<Ring> {
        let map = map_of(object, name)?;
        let page = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE)?.unwrap_or(4096) as usize;
        let size = map.max_entries() as usize;
        let map = map.as_fd().try_clone_to_owned()?;
        let consumer = Pages::map(&map, 0, page, ProtFlags::PROT_READ | ProtFlags::PROT_WRITE)?;
        let producer = Pages::map(&map, page, page + size, ProtFlags::PROT_READ)?;
        Ok(Ring { consumer, producer, page, size, map })
    }

    /// Bytes that it holds.
    pub fn size(&self) -> usize {
        self.size
    }

    /// The map, open as long as this lives.
    pub fn map(&self) -> BorrowedFd<'_> {
        self.map.as_fd()
    }

    /// The producers' position: hits begun from now on lie after it.
    pub fn produced(&self) -> usize {
        self.positions().1.load(Ordering::Acquire)
    }

    /// Whether there is nothing before this position.
    pub fn is_empty(&self, until: usize) -> bool {
        // only this reader writes it
        self.positions().0.load(Ordering::Relaxed) == until
    }

    /// Hands over the hits up to this position, each in one or two pieces, until `take` returns false.
    pub fn consume(&self, until: usize, mut take: impl FnMut(&[u8], &[u8]) -> bool) -> Consumed {
        let (consumed, _) = self.positions();
        let mut position = consumed.load(Ordering::Relaxed);
        while position != until {
            let at = position & (self.size - 1);
            // SAFETY: `at` is below `size` and a multiple of 8, as positions are, so 4 bytes from there lie in the
            // mapping.
            let header = unsafe { &*self.producer.at.as_ptr().add(self.page + at).cast::<AtomicU32>() };
            let Some(header) = written(header) else { return Consumed::Waits };
            let length = (header & !DISCARDED) as usize;
            let more = header & DISCARDED != 0 || {
                let (first, second) = self.pieces(at + HEADER, length);
                take(first, second)
            };
            position = position.wrapping_add((length + HEADER).next_multiple_of(8));
            // from now on producers may write there
            consumed.store(position, Ordering::Release);
            if !more {
                return Consumed::Enough;
            }
        }
        Consumed::All
    }

    /// The consumer's position and the producers'.
    fn positions(&self) -> (&AtomicUsize, &AtomicUsize) {
        // SAFETY: both pages are mapped as long as `self` lives, begin with a position (unsigned long, 64 bits: the
        // ring tier is for 64-bit binaries), and are aligned as pages are.
        unsafe { (&*self.consumer.at.as_ptr().cast(), &*self.producer.at.as_ptr().cast()) }
    }

    /// `length` bytes of the data from `at`; the data wraps around at its end.
    fn pieces(&self, at: usize, length: usize) -> (&[u8], &[u8]) {
        let at = at & (self.size - 1);
        let length = length.min(self.size);
        let first = length.min(self.size - at);
        // SAFETY: both pieces lie within the data, `size` bytes after the producers' page; the kernel does not change a
        // hit between its writer's commit and our store of the consumer's position, before which the pieces are
        // released.
        unsafe {
            let data = self.producer.at.as_ptr().add(self.page);
            (
                std::slice::from_raw_parts(data.add(at), first),
                std::slice::from_raw_parts(data, length - first),
            )
        }
    }
}
