//! Another process's memory, read without stopping the process.
//!
//! process_vm_readv copies: it stops nothing and leaves no trace in the target, whose memory map the kernel locks for reading
//! for a moment. On kernels built without CONFIG_CROSS_MEMORY_ATTACH, and where seccomp forbids that call, /proc/PID/mem serves
//! instead. The bytes may be garbage or half changed; every caller must expect that.

use std::fs::File;
use std::io::IoSliceMut;
use std::os::unix::fs::FileExt;

use nix::errno::Errno;
use nix::sys::uio::{process_vm_readv, RemoteIoVec};
use nix::unistd::Pid;

use crate::linux::text::printable;
use crate::linux::width::Width;
use crate::linux::{proc, reader};

/// Ranges of memory: address and length of each.
pub type Ranges = Vec<(u64, usize)>;

/// The bytes of things of several processes, one after the other, by one turn to the process that reads. `None` for a process of
/// which not all can be read so: it may be read for itself. The outer `None`: none could ([`reader::several`]).
pub fn of_several(wanted: &[(Memory, Vec<Ranges>)]) -> Option<Vec<Option<Vec<u8>>>> {
    let mut all: Vec<(i32, Vec<(usize, usize)>)> = Vec::with_capacity(wanted.len());
    for (memory, things) in wanted {
        let ranges = things.iter().flatten().map(|range| (usize::try_from(range.0).unwrap_or(0), range.1));
        all.push((memory.thread.as_raw(), ranges.collect()));
    }
    reader::several(&all)
}

/// The bytes of each of some things, of the bytes of all.
pub fn split(mut bytes: &[u8], things: &[Ranges]) -> Vec<Option<Vec<u8>>> {
    let mut each = Vec::with_capacity(things.len());
    for thing in things {
        let length = thing.iter().map(|range| range.1).sum();
        let (own, others) = bytes.split_at_checked(length).unwrap_or_default();
        each.push(Some(own.to_vec()));
        bytes = others;
    }
    each
}

/// The memory of a process.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    pid: u32,
    /// The thread that names the memory.
    thread: Pid,
    width: Width,
}

impl Memory {
    /// The memory of a 64-bit process. Opens nothing: a wrong pid shows at the first read.
    pub fn new(pid: u32) -> Memory {
        Memory::of(pid, Width::Bits64)
    }

    /// The memory of a process with pointers of this width.
    pub fn of(pid: u32, width: Width) -> Memory {
        Memory { pid, thread: Pid::from_raw(proc::living(pid).cast_signed()), width }
    }

    /// Width of the process's pointers.
    pub fn width(&self) -> Width {
        self.width
    }

    /// Fills `into` from `address`; false if not all of it is mapped.
    #[must_use]
    pub fn read(&self, address: u64, into: &mut [u8]) -> bool {
        self.read_some(address, into) == into.len()
    }

    /// Fills the head of `into` up to the end of the mapping; returns the number of bytes.
    pub fn read_some(&self, address: u64, into: &mut [u8]) -> usize {
        let (Ok(base), len) = (usize::try_from(address), into.len()) else { return 0 };
        let remote = [RemoteIoVec { base, len }];
        match self.copy(self.thread, into, &remote) {
            // that thread has ended since, others may be alive
            Err(Errno::ESRCH) => {
                let thread = Pid::from_raw(proc::living(self.pid).cast_signed());
                self.copy(thread, into, &remote).unwrap_or(0)
            }
            read => read.unwrap_or(0),
        }
    }

    /// Fills `into` from these ranges, up to the first unmapped one; returns the number of bytes. Reads through this
    /// thread's reader process, if it has one.
    fn copy(&self, thread: Pid, into: &mut [u8], from: &[RemoteIoVec]) -> nix::Result<usize> {
        let places: Vec<(usize, usize)> = from.iter().map(|place| (place.base, place.len)).collect();
        match reader::memory(self.pid, thread.as_raw(), into, &places) {
            Some(Err(error)) => Err(Errno::from_raw(error.raw_os_error().unwrap_or(libc::ETIMEDOUT))),
            Some(Ok(copied)) => Ok(copied),
            None => copy(thread, into, from),
        }
    }

    /// The nodes of a list, of `bytes` each, starting with the one at `first`, at most `count`; each node begins with
    /// the address of the next. Returns as many as one read gives; at least one, unless the first is not mapped.
    pub fn list(&self, first: u64, bytes: usize, count: usize) -> Vec<u8> {
        let nodes = reader::list(self.pid, self.thread.as_raw(), first, bytes, count, self.width.bytes());
        match nodes {
            Some(nodes) => nodes.unwrap_or_default(),
            None => {
                let mut node = vec![0; bytes];
                if count == 0 || !self.read(first, &mut node) {
                    node.clear();
                }
                node
            }
        }
    }

    /// A fixed number of bytes.
    pub fn bytes<const N: usize>(&self, address: u64) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        self.read(address, &mut bytes).then_some(bytes)
    }

    /// The first `some` bytes of a structure, the rest zero.
    pub fn head<const N: usize>(&self, address: u64, some: usize) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        self.read(address, bytes.get_mut(..some)?).then_some(bytes)
    }

    /// The same number of bytes at many addresses, in one system call if all can be read.
    pub fn each<const N: usize>(&self, addresses: impl Iterator<Item = u64>) -> Vec<Option<[u8; N]>> {
        let addresses: Vec<u64> = addresses.collect();
        let mut bytes = vec![0; addresses.len() * N];
        let remote: Vec<RemoteIoVec> =
            addresses.iter().map(|&address| RemoteIoVec { base: address as usize, len: N }).collect();
        let all = self.copy(self.thread, &mut bytes, &remote);
        if all == Ok(bytes.len()) {
            return bytes.as_chunks::<N>().0.iter().copied().map(Some).collect();
        }
        addresses.into_iter().map(|address| self.bytes(address)).collect()
    }

    /// Like [`Memory::each`], but what can't be read is zero, up to its first unmapped byte.
    pub fn each_some<const N: usize>(&self, addresses: &[u64]) -> Vec<[u8; N]> {
        let read = self.each(addresses.iter().copied()).into_iter().zip(addresses);
        let some = |(whole, &address): (Option<[u8; N]>, &u64)| {
            whole.unwrap_or_else(|| {
                let mut bytes = [0; N];
                self.read_some(address, &mut bytes);
                bytes
            })
        };
        read.map(some).collect()
    }

    /// Like [`Memory::each`], but reads only the first `some` bytes; the rest are zero.
    pub fn each_head<const N: usize>(
        &self,
        addresses: impl Iterator<Item = u64>,
        some: usize,
    ) -> Vec<Option<[u8; N]>> {
        let addresses: Vec<u64> = addresses.collect();
        if addresses.is_empty() || some == 0 || some > N {
            return vec![None; addresses.len()];
        }
        let mut bytes = vec![0; addresses.len() * some];
        let remote: Vec<RemoteIoVec> =
            addresses.iter().map(|&address| RemoteIoVec { base: address as usize, len: some }).collect();
        let all = self.copy(self.thread, &mut bytes, &remote);
        if all != Ok(bytes.len()) {
            return addresses.into_iter().map(|address| self.head(address, some)).collect();
        }
        let heads = bytes.chunks_exact(some).map(|head| {
            let mut whole = [0; N];
            whole.iter_mut().zip(head).for_each(|(into, byte)| *into = *byte);
            Some(whole)
        });
        heads.collect()
    }

    /// The ranges (address, length) of many things, in one system call if all can be read: for each thing its bytes, one
    /// range after the other, or `None` if not all of them can be read.
    pub fn groups(&self, things: &[Ranges]) -> Vec<Option<Vec<u8>>> {
        // the kernel takes no more ranges in one call
        const MAX_RANGES: usize = 1024;
        let mut read = Vec::with_capacity(things.len());
        let mut rest = things;
        while !rest.is_empty() {
            let mut ranges = 0;
            let fits = |thing: &&Ranges| {
                ranges += thing.len();
                ranges <= MAX_RANGES
            };
            let (some, others) = rest.split_at(rest.iter().take_while(fits).count().max(1).min(rest.len()));
            rest = others;
            match self.ranges(&some.concat()) {
                Some(bytes) => read.extend(split(&bytes, some)),
                None => read.extend(some.iter().map(|thing| self.ranges(thing))),
            }
        }
        read
    }

    /// The bytes of all these ranges, one after the other.
    fn ranges(&self, ranges: &[(u64, usize)]) -> Option<Vec<u8>> {
        let mut remote = Vec::with_capacity(ranges.len());
        for &(address, len) in ranges.iter().filter(|range| range.1 > 0) {
            remote.push(RemoteIoVec { base: usize::try_from(address).ok()?, len });
        }
        let mut bytes = vec![0; remote.iter().map(|range| range.len).sum()];
        (bytes.is_empty() || self.copy(self.thread, &mut bytes, &remote) == Ok(bytes.len())).then_some(bytes)
    }

    /// A pointer, 0 included.
    pub fn pointer(&self, address: u64) -> Option<u64> {
        match self.width {
            Width::Bits32 => self.bytes(address).map(|bytes| u32::from_ne_bytes(bytes).into()),
            Width::Bits64 => self.bytes(address).map(u64::from_ne_bytes),
        }
    }

    /// A string of at most `limit` bytes before its NUL. Bytes that are not UTF-8 or not printable become `\xNN`.
    /// `None` if there is no memory or no NUL within the limit.
    pub fn string(&self, address: u64, limit: usize) -> Option<String> {
        let mut bytes = vec![0; limit + 1];
        let mut have = self.read_some(address, &mut bytes);
        if have == 0 {
            // a read that crosses the end of a mapping may fail entirely: then read up to the end of the page
            let page = 4096 - (address as usize & 4095);
            have = self.read_some(address, bytes.get_mut(..page)?);
        }
        let text = bytes.get(..have)?;
        text.iter().position(|&byte| byte == 0).map(|end| printable(&text[..end]))
    }
}

/// Fills `into` from these ranges, up to the first unmapped one; returns the number of bytes.
fn copy(thread: Pid, into: &mut [u8], from: &[RemoteIoVec]) -> nix::Result<usize> {
    match process_vm_readv(thread, &mut [IoSliceMut::new(into)], from) {
        Err(Errno::ENOSYS | Errno::EPERM) => copy_by_file(thread, into, from),
        copied => copied,
    }
}

/// The same through /proc. Leaves nothing open, so a wrong thread shows at the next read.
fn copy_by_file(thread: Pid, into: &mut [u8], from: &[RemoteIoVec]) -> nix::Result<usize> {
    let file = File::open(format!("/proc/{thread}/mem")).map_err(|_| Errno::ESRCH)?;
    let mut copied = 0;
    for place in from {
        let Some(part) = into.get_mut(copied..copied + place.len) else { break };
        if file.read_exact_at(part, place.base as u64).is_err() {
            // up to where the memory ends
            copied += file.read_at(part, place.base as u64).unwrap_or(0);
            break;
        }
        copied += place.len;
    }
    if copied == 0 {
        return Err(Errno::EFAULT);
    }
    Ok(copied)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_its_own_memory() {
        let memory = Memory::new(std::process::id());
        let text = b"T:SP\0rest";
        assert_eq!(memory.string(text.as_ptr() as u64, 61).as_deref(), Some("T:SP"));
        assert_eq!(memory.string(text.as_ptr() as u64, 3), None, "no NUL within the limit");
        assert_eq!(memory.pointer(8), None, "nothing there");
        let value = 0x1122_3344_5566_7788u64;
        assert_eq!(memory.pointer(&raw const value as u64), Some(value));
    }

    #[test]
    fn the_file_gives_what_the_call_gives() {
        let page = 4096;
        // SAFETY: a new mapping of two pages, placed by the kernel.
        let start = unsafe {
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            libc::mmap(std::ptr::null_mut(), 2 * page, protection, flags, -1, 0)
        };
        assert_ne!(start, libc::MAP_FAILED);
        // SAFETY: the second of the pages that were just mapped; nobody else knows of it.
        assert_eq!(unsafe { libc::munmap(start.byte_add(page), page) }, 0);
        let own = Pid::this();
        let end = start as usize + page;
        for (from, length) in [(end - 16, 16), (end - 16, 32), (end, 8)] {
            let places = [RemoteIoVec { base: from, len: length }];
            let (mut one, mut other) = (vec![1; length], vec![1; length]);
            let called = copy(own, &mut one, &places);
            assert_eq!((copy_by_file(own, &mut other, &places), &other), (called, &one), "{length}");
        }
        let text = b"iocrec";
        let places = [1, 3].map(|at| RemoteIoVec { base: text.as_ptr() as usize + at, len: 2 });
        let mut into = [0; 4];
        assert_eq!(copy_by_file(own, &mut into, &places), Ok(4));
        assert_eq!(&into, b"ocre");
        assert_eq!(copy_by_file(Pid::from_raw(i32::MAX), &mut into, &places), Err(Errno::ESRCH));
    }
}
