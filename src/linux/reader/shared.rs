//! The buffer that a reader process shares with its client: the request's parameters, and the bytes read.
//!
//! Only one of the two uses it at a time; a message passes it to the other. A buffer belongs to one reader process: an
//! abandoned reader may write into it whenever its read returns.

use std::ptr::NonNull;

/// Maximum number of bytes in one read.
pub const MAX_DATA: usize = 128 << 10;
/// Maximum number of memory ranges in one read (UIO_MAXIOV, the kernel's limit).
pub const MAX_IOVECS: usize = 1024;
/// Maximum number of processes whose memory is read at once.
pub const MAX_PROCESSES: usize = 32;
/// Longest path: /proc/PID/... or map_files with two addresses.
pub const MAX_PATH: usize = 256;
/// Bytes of `struct perf_event_attr` to pass on: its size when the uprobe PMU came (linux/perf_event.h,
/// PERF_ATTR_SIZE_VER5).
pub const ATTRIBUTES: usize = 112;

/// A request to the reader process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Request {
    /// Read the file at `path`, up to `length` bytes, and keep it open.
    Contents = 1,
    /// Read more of the file that stayed open.
    More,
    /// Read the link at `path`.
    Link,
    /// Read `iovecs` of the memory of `thread`; `path` leads to that memory for kernels without the system call.
    Memory,
    /// Follow a list in the memory of `thread`: nodes of `length` bytes each, `count` at most, from `offset` on; each
    /// begins with the next one's address, in `width` bytes.
    List,
    /// Open the file at `path` as a descriptor that only names it (O_PATH); leave an [`About`] in `data`.
    Name,
    /// Open the file at `path` for reading and call it `key`; leave an [`About`] in `data`.
    Open,
    /// Read `length` bytes from `offset` on of the file called `key`, or else of that at `path`.
    Read,
    /// Close all open files.
    Close,
    /// Map a page of that file; the reply is its address, by which /proc/self/maps shows it. Or unmap `offset`.
    Map,
    /// Open a perf event: its attributes lie in `data`, its parameters in `path` and `thread`.
    Event,
    /// Read the memory of several processes: of `count` of `parts`.
    Several,
}

/// What to read of one process's memory.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Part {
    /// The thread that names it.
    pub thread: i32,
    /// The number of its ranges: those of all parts follow each other in `iovecs`, and their bytes in `data`.
    pub ranges: u32,
    /// How many bytes were read.
    pub copied: i64,
}

/// A file's attributes, which `Name` and `Open` leave in `data`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct About {
    /// Device number, as in stat(2).
    pub device: u64,
    /// Inode.
    pub inode: u64,
    /// Bytes.
    pub size: u64,
    /// Type and permissions.
    pub mode: u64,
    /// Time of the last change of the content: seconds and nanoseconds.
    pub modified: (i64, i64),
    /// Time of the last change of content or attributes.
    pub changed: (i64, i64),
    /// Time when the file was made, seconds; 0 if the file system or the kernel (before 4.11) does not tell.
    pub born: i64,
}

/// The shared memory.
#[repr(C)]
pub struct Buffer {
    pub thread: i32,
    pub width: u32,
    pub key: u64,
    pub offset: u64,
    pub length: u64,
    pub count: u64,
    pub path: [u8; MAX_PATH],
    pub parts: [Part; MAX_PROCESSES],
    /// Address and length.
    pub iovecs: [(usize, usize); MAX_IOVECS],
    pub data: [u8; MAX_DATA],
}

/// The mapping of a buffer.
#[derive(Debug)]
pub struct Shared(NonNull<Buffer>);

// SAFETY: nobody else in this process has the mapping; it moves with its owner from thread to thread.
unsafe impl Send for Shared {}

impl Shared {
    /// A buffer of zeroes. `None` if the system has no memory to spare.
    pub fn new() -> Option<Shared> {
        // SAFETY: a new mapping, placed by the kernel.
        let at = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                size_of::<Buffer>(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        (at != libc::MAP_FAILED).then(|| NonNull::new(at.cast()).map(Shared))?
    }

    /// A pointer for the reader process.
    pub fn pointer(&self) -> *mut Buffer {
        self.0.as_ptr()
    }

    /// The buffer. Use it only while the reader process waits for a request.
    pub fn buffer(&mut self) -> &mut Buffer {
        // SAFETY: mapped, page-aligned, and any bytes are a valid Buffer. The other process does not touch it now.
        unsafe { self.0.as_mut() }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: our own mapping, of this length; the other process has its own.
        unsafe { libc::munmap(self.0.as_ptr().cast(), size_of::<Buffer>()) };
    }
}
