//! The memory that a reader process shares with whoever asks it: the question, and what was read.
//!
//! Only one of the two works on it at a time; the message that hands it over comes between. A page belongs to one
//! reader process: one that is given up may write into it whenever its read comes back.

use std::ptr::NonNull;

/// Bytes that are read at once.
pub const DATA: usize = 128 << 10;
/// Pieces of memory that are read at once (UIO_MAXIOV, the most that the kernel takes).
pub const PLACES: usize = 1024;
/// Longest path: /proc/PID/... and map_files with two addresses.
pub const PATH: usize = 256;
/// Bytes of `struct perf_event_attr` that are passed on: as it was when the uprobe PMU came (linux/perf_event.h,
/// PERF_ATTR_SIZE_VER5).
pub const ATTRIBUTES: usize = 112;

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Question {
    /// What is in the file at `path`, up to `length` bytes; it stays open.
    Contents = 1,
    /// What follows.
    More,
    /// Where the link at `path` leads.
    Link,
    /// What is at `places` in the memory of `thread`; `path` leads to that memory for kernels that lack the call.
    Memory,
    /// A list in the memory of `thread`: its nodes, `length` bytes each, `count` at most, from `offset` on; each
    /// begins with the next one's address, in `width` bytes.
    List,
    /// The file at `path`, as a descriptor that only names it; what it is lies in `data`.
    Name,
    /// Opens the file at `path` for reading and calls it `key`; what it is lies in `data`.
    Open,
    /// `length` bytes from `offset` on of the file that is called `key`, or else is at `path`.
    Read,
    /// Closes what is open.
    Close,
    /// The number in the mapping of that file, as [`Question::Contents`] of /proc/self/maps shows it: where it is.
    Map,
    /// An event of the kernel's: the attributes lie in `data`; `path` and `thread` belong to it.
    Event,
}

/// What `Name` and `Open` leave in `data`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct About {
    /// As stat(2) tells it.
    pub device: u64,
    /// Inode.
    pub inode: u64,
    /// Bytes.
    pub size: u64,
    /// Type and permissions.
    pub mode: u64,
    /// When the content was changed, seconds and nanoseconds.
    pub modified: (i64, i64),
    /// When anything was.
    pub changed: (i64, i64),
}

/// What is shared.
#[repr(C)]
pub struct Page {
    pub thread: i32,
    pub width: u32,
    pub key: u64,
    pub offset: u64,
    pub length: u64,
    pub count: u64,
    pub path: [u8; PATH],
    /// Address and length.
    pub places: [(usize, usize); PLACES],
    pub data: [u8; DATA],
}

/// The mapping of a page.
#[derive(Debug)]
pub struct Shared(NonNull<Page>);

// SAFETY: the mapping is nobody else's in this process, and goes with its owner from thread to thread.
unsafe impl Send for Shared {}

impl Shared {
    /// Zeroes. `None` if the system gives no memory.
    pub fn new() -> Option<Shared> {
        // SAFETY: a new mapping at no given place.
        let at = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                size_of::<Page>(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        (at != libc::MAP_FAILED).then(|| NonNull::new(at.cast()).map(Shared))?
    }

    /// For the reader process.
    pub fn pointer(&self) -> *mut Page {
        self.0.as_ptr()
    }

    /// To be called while the reader process waits for a question.
    pub fn page(&mut self) -> &mut Page {
        // SAFETY: mapped, aligned to pages, and any bytes are a Page. The other process does not touch it now.
        unsafe { self.0.as_mut() }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: our own mapping, of this length; the other process has its own.
        unsafe { libc::munmap(self.0.as_ptr().cast(), size_of::<Page>()) };
    }
}
