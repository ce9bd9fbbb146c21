//! A reader process: it makes the system calls that may never return, and nothing else.
//!
//! It is forked from a program with threads, so it takes no lock and allocates nothing: all its state is on its stack
//! or in the shared buffer. It ends when its client closes the socket. It closes its parent's descriptors first, so
//! that a stuck reader holds nothing that belonged to a recorder that has ended (the log's lock, probes, sockets), and
//! gives back the memory that it inherits ([`super::inherited`]).

use std::os::fd::RawFd;

use crate::linux::reader::inherited::Inherited;
use crate::linux::reader::shared::{About, Buffer, Request, ATTRIBUTES, MAX_DATA, MAX_IOVECS, MAX_PATH};

/// A reply: a number of bytes, or a negative error number. A descriptor may accompany it.
pub type Reply = i64;

/// The open files of a reader process.
struct Open {
    /// Opened by [`Request::Contents`].
    contents: RawFd,
    /// Opened by [`Request::Open`], and its key.
    file: RawFd,
    key: u64,
}

/// Serves requests until the socket closes. `highest`: the highest descriptor number that may be open.
pub fn serve(
    socket: RawFd,
    highest: RawFd,
    buffer: *mut Buffer,
    inherited: &Inherited,
    parent: libc::pid_t,
) -> ! {
    // SAFETY: this is the only thread, and it goes on as the module says; the buffer was kept.
    unsafe { inherited.release() };
    // SAFETY: system calls on numbers and constant strings. The socket moves to 0, all other descriptors are closed.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        libc::prctl(libc::PR_SET_NAME, c"iocrec-reader".as_ptr());
        libc::chdir(c"/".as_ptr());
        libc::dup2(socket, 0);
        for number in 1..=highest {
            libc::close(number);
        }
        if libc::getppid() != parent {
            libc::_exit(0);
        }
    }
    let mut open = Open { contents: -1, file: -1, key: 0 };
    loop {
        let mut request = 0u32;
        // SAFETY: the buffer has the given length.
        let have = unsafe { libc::recv(0, (&raw mut request).cast(), size_of::<u32>(), 0) };
        if have < 0 && error() == -i64::from(libc::EINTR) {
            continue;
        }
        if have != size_of::<u32>() as isize {
            // SAFETY: ends this process without flushing the parent's buffers a second time.
            unsafe { libc::_exit(0) }
        }
        let (answer, descriptor) = answer(request, buffer, &mut open);
        send(answer, descriptor);
        if descriptor >= 0 {
            // SAFETY: made for this answer: it only names a file, or it is a probe's event; the parent has its own copy
            // now.
            unsafe { libc::close(descriptor) };
        }
    }
}

/// The last system call's error, negative.
fn error() -> Reply {
    // SAFETY: the address of this thread's errno.
    -i64::from(unsafe { *libc::__errno_location() })
}

fn counted(result: isize) -> Reply {
    if result < 0 {
        error()
    } else {
        result as i64
    }
}

fn send(answer: Reply, descriptor: RawFd) {
    /// Space for a header and one descriptor, aligned as headers are.
    #[repr(C, align(8))]
    struct Control([u8; 64]);
    let mut control = Control([0; 64]);
    let mut bytes =
        libc::iovec { iov_base: (&raw const answer).cast_mut().cast(), iov_len: size_of::<Reply>() };
    // SAFETY: an all-zero msghdr is valid; everything it points to lives until sendmsg returns. The control buffer has
    // room for the writes through CMSG_FIRSTHDR.
    unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = &raw mut bytes;
        message.msg_iovlen = 1;
        if descriptor >= 0 {
            message.msg_control = (&raw mut control).cast();
            message.msg_controllen = libc::CMSG_SPACE(size_of::<RawFd>() as u32) as _;
            let header = libc::CMSG_FIRSTHDR(&raw const message);
            (*header).cmsg_level = libc::SOL_SOCKET;
            (*header).cmsg_type = libc::SCM_RIGHTS;
            (*header).cmsg_len = libc::CMSG_LEN(size_of::<RawFd>() as u32) as _;
            libc::CMSG_DATA(header).cast::<RawFd>().write_unaligned(descriptor);
        }
        while libc::sendmsg(0, &raw const message, libc::MSG_NOSIGNAL) < 0
            && error() == -i64::from(libc::EINTR)
        {}
    }
}

/// Carries out a request; returns the answer, and a descriptor to send with it or -1.
fn answer(request: u32, buffer: *mut Buffer, open: &mut Open) -> (Reply, RawFd) {
    // SAFETY: mapped since before this process began; the parent waits for the answer and does not touch it.
    let buffer = unsafe { &mut *buffer };
    // the parent ends paths with a zero byte; make sure of it
    buffer.path[MAX_PATH - 1] = 0;
    let length = (buffer.length as usize).min(MAX_DATA);
    let plain = |answer| (answer, -1);
    if request == Request::Contents as u32 {
        plain(contents(buffer, length, open))
    } else if request == Request::More as u32 {
        plain(fill(open.contents, buffer, length))
    } else if request == Request::Link as u32 {
        // SAFETY: the path ends within the buffer, and `data` is MAX_DATA long.
        plain(counted(unsafe {
            libc::readlink(buffer.path.as_ptr().cast(), buffer.data.as_mut_ptr().cast(), MAX_DATA)
        }))
    } else if request == Request::Memory as u32 {
        plain(memory(buffer))
    } else if request == Request::List as u32 {
        plain(list(buffer))
    } else if request == Request::Name as u32 {
        let named = open_at(buffer, libc::O_PATH);
        match named {
            0.. => (about(named as RawFd, buffer), named as RawFd),
            error => plain(error),
        }
    } else if request == Request::Open as u32 {
        plain(match open_file(buffer, open) {
            0 => about(open.file, buffer),
            error => error,
        })
    } else if request == Request::Read as u32 {
        plain(match open_file(buffer, open) {
            // SAFETY: the buffer has room for `length` bytes.
            0 => counted(unsafe {
                libc::pread64(
                    open.file,
                    buffer.data.as_mut_ptr().cast(),
                    length,
                    buffer.offset as libc::off64_t,
                )
            }),
            error => error,
        })
    } else if request == Request::Close as u32 {
        close(&mut open.contents);
        close(&mut open.file);
        plain(0)
    } else if request == Request::Map as u32 {
        plain(map(buffer, open))
    } else if request == Request::Event as u32 {
        event(buffer)
    } else if request == Request::Several as u32 {
        plain(several(buffer))
    } else {
        plain(-i64::from(libc::EINVAL))
    }
}

fn close(descriptor: &mut RawFd) {
    if *descriptor >= 0 {
        // SAFETY: the descriptor is open and ours.
        unsafe { libc::close(*descriptor) };
        *descriptor = -1;
    }
}

fn open_at(buffer: &Buffer, flags: i32) -> Reply {
    let flags = flags | libc::O_RDONLY | libc::O_CLOEXEC | libc::O_NOCTTY | libc::O_NONBLOCK;
    // SAFETY: the path ends within the buffer.
    counted(unsafe { libc::open(buffer.path.as_ptr().cast(), flags) } as isize)
}

/// Opens the requested file unless it is open already; returns 0 or an error.
fn open_file(buffer: &Buffer, open: &mut Open) -> Reply {
    // key 0 is a file of /proc: another one each time
    if open.file >= 0 && open.key == buffer.key && buffer.key != 0 {
        return 0;
    }
    close(&mut open.file);
    match open_at(buffer, 0) {
        file @ 0.. => {
            open.file = file as RawFd;
            open.key = buffer.key;
            0
        }
        error => error,
    }
}

/// Reads as much as there is, up to `length`.
fn fill(descriptor: RawFd, buffer: &mut Buffer, length: usize) -> Reply {
    let mut have = 0;
    while have < length {
        // SAFETY: `length` is at most MAX_DATA.
        let more =
            unsafe { libc::read(descriptor, buffer.data.as_mut_ptr().add(have).cast(), length - have) };
        match more {
            0 => break,
            1.. => have += more as usize,
            _ if error() == -i64::from(libc::EINTR) => {}
            _ if have > 0 => break,
            _ => return error(),
        }
    }
    have as i64
}

fn contents(buffer: &mut Buffer, length: usize, open: &mut Open) -> Reply {
    close(&mut open.contents);
    match open_at(buffer, 0) {
        file @ 0.. => open.contents = file as RawFd,
        error => return error,
    }
    let have = fill(open.contents, buffer, length);
    if have < length as i64 {
        close(&mut open.contents);
    }
    have
}

/// Leaves a file's attributes in `data`.
fn about(descriptor: RawFd, buffer: &mut Buffer) -> Reply {
    // SAFETY: an all-zero stat is valid; the call fills it.
    let mut found: libc::stat64 = unsafe { std::mem::zeroed() };
    // SAFETY: as above.
    if unsafe { libc::fstat64(descriptor, &raw mut found) } < 0 {
        return error();
    }
    #[allow(clippy::unnecessary_cast)] // some are narrower on 32 bits
    let about = About {
        device: found.st_dev as u64,
        inode: found.st_ino as u64,
        size: found.st_size as u64,
        mode: found.st_mode.into(),
        modified: (found.st_mtime as i64, found.st_mtime_nsec as i64),
        changed: (found.st_ctime as i64, found.st_ctime_nsec as i64),
        born: born(descriptor),
    };
    // SAFETY: `data` has room for it.
    unsafe { buffer.data.as_mut_ptr().cast::<About>().write_unaligned(about) };
    0
}

/// When an open file was made, seconds after 1970; 0 if that is not known.
fn born(descriptor: RawFd) -> i64 {
    /// STATX_BTIME, and the places of stx_mask and stx_btime in struct statx (linux/stat.h).
    const BORN: u32 = 0x800;
    const MASK: usize = 0;
    const TIME: usize = 80 / 8;
    let mut found = [0_u64; 32];
    // SAFETY: the call writes a struct of 256 bytes at most; the path is a constant string.
    let done = unsafe {
        libc::syscall(
            libc::SYS_statx,
            descriptor,
            c"".as_ptr(),
            libc::AT_EMPTY_PATH,
            BORN,
            found.as_mut_ptr(),
        )
    };
    let mask = found[MASK].to_ne_bytes();
    let is_known = u32::from_ne_bytes([mask[0], mask[1], mask[2], mask[3]]) & BORN != 0;
    if done == 0 && is_known {
        found[TIME].cast_signed()
    } else {
        0
    }
}

/// Whether process_vm_readv fails with this because it is missing here, or forbidden. What forbids it, a seccomp filter, may
/// leave the file in /proc alone.
fn is_no_call(error: Reply) -> bool {
    error == -i64::from(libc::ENOSYS) || error == -i64::from(libc::EPERM)
}

/// Copies from another process, through its file in /proc if there is no call for it.
fn memory(buffer: &mut Buffer) -> Reply {
    let count = (buffer.count as usize).min(MAX_IOVECS);
    let total: usize = buffer.iovecs.iter().take(count).fold(0, |sum, place| sum.saturating_add(place.1));
    if total > MAX_DATA {
        return -i64::from(libc::EINVAL);
    }
    let local = libc::iovec { iov_base: buffer.data.as_mut_ptr().cast(), iov_len: total };
    // SAFETY: an iovec is an address and a length; all writes are within `data`.
    let copied = unsafe {
        libc::process_vm_readv(
            buffer.thread,
            &raw const local,
            1,
            buffer.iovecs.as_ptr().cast(),
            count as _,
            0,
        )
    };
    match counted(copied) {
        error if is_no_call(error) => memory_by_file(buffer, count),
        copied => copied,
    }
}

/// Copies from several processes, one after the other. Of those that there is no room for nothing is said.
fn several(buffer: &mut Buffer) -> Reply {
    let Buffer { parts, iovecs, data, count, .. } = buffer;
    let (mut ranges, mut room) = (iovecs.as_slice(), data.as_mut_slice());
    for part in parts.iter_mut().take(*count as usize) {
        let Some((own, others)) = ranges.split_at_checked(part.ranges as usize) else { break };
        let total = own.iter().fold(0_usize, |sum, place| sum.saturating_add(place.1));
        let Some((into, behind)) = std::mem::take(&mut room).split_at_mut_checked(total) else { break };
        let local = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: total };
        // SAFETY: an iovec is an address and a length; all writes are within `into`.
        part.copied = counted(unsafe {
            libc::process_vm_readv(part.thread, &raw const local, 1, own.as_ptr().cast(), own.len() as _, 0)
        });
        (ranges, room) = (others, behind);
    }
    0
}

fn memory_by_file(buffer: &mut Buffer, count: usize) -> Reply {
    let mut file = match open_at(buffer, 0) {
        file @ 0.. => file as RawFd,
        _ => return -i64::from(libc::ESRCH),
    };
    let mut copied = 0;
    for place in buffer.iovecs.iter().take(count) {
        // SAFETY: the lengths together are at most MAX_DATA.
        let part = unsafe {
            let into = buffer.data.as_mut_ptr().add(copied).cast();
            libc::pread64(file, into, place.1, place.0 as libc::off64_t)
        };
        copied += part.max(0) as usize;
        if part != place.1 as isize {
            break;
        }
    }
    close(&mut file);
    if copied == 0 {
        return -i64::from(libc::EFAULT);
    }
    copied as i64
}

/// Follows a list; returns the number of nodes in `data`, stored one after the other.
fn list(buffer: &mut Buffer) -> Reply {
    let bytes = buffer.length as usize;
    if !(8..=MAX_DATA).contains(&bytes) {
        return -i64::from(libc::EINVAL);
    }
    let most = (buffer.count as usize).min(MAX_DATA / bytes);
    let mut next = buffer.offset;
    let mut have = 0;
    // its file in /proc, if there is no call
    let mut file = -1;
    while have < most && next != 0 {
        // SAFETY: have < MAX_DATA / bytes.
        let into = unsafe { buffer.data.as_mut_ptr().add(have * bytes) };
        let local = libc::iovec { iov_base: into.cast(), iov_len: bytes };
        let remote = libc::iovec { iov_base: next as usize as *mut libc::c_void, iov_len: bytes };
        // SAFETY: all writes are within `data`.
        let mut copied =
            unsafe { libc::process_vm_readv(buffer.thread, &raw const local, 1, &raw const remote, 1, 0) };
        if copied < 0 && is_no_call(error()) {
            if file < 0 {
                file = open_at(buffer, 0).try_into().unwrap_or(-1);
            }
            // SAFETY: all writes are within `data`.
            copied = unsafe { libc::pread64(file, into.cast(), bytes, next as libc::off64_t) };
        }
        if copied != bytes as isize {
            if have == 0 {
                let answer = if copied < 0 { error() } else { 0 };
                close(&mut file);
                return answer;
            }
            break;
        }
        have += 1;
        // SAFETY: at least 8 bytes were copied there.
        next = unsafe {
            if buffer.width == 4 {
                u64::from(into.cast::<u32>().read_unaligned())
            } else {
                into.cast::<u64>().read_unaligned()
            }
        };
    }
    close(&mut file);
    have as i64
}

/// Maps a page of the open file, or unmaps it if an address is given.
fn map(buffer: &Buffer, open: &mut Open) -> Reply {
    const BYTES: usize = 4096;
    // SAFETY: a new mapping that is never read, or one that this function made.
    unsafe {
        if buffer.offset != 0 {
            libc::munmap(buffer.offset as usize as *mut libc::c_void, BYTES);
            return 0;
        }
        match open_file(buffer, open) {
            0 => {}
            error => return error,
        }
        let at = libc::mmap(std::ptr::null_mut(), BYTES, libc::PROT_NONE, libc::MAP_PRIVATE, open.file, 0);
        if at == libc::MAP_FAILED {
            return error();
        }
        at as i64
    }
}

/// Calls perf_event_open for a probe: config1 of the attributes (`uprobe_path`) must point to the path.
fn event(buffer: &mut Buffer) -> (Reply, RawFd) {
    /// Offset of config1 in struct perf_event_attr (linux/perf_event.h).
    const PATH_AT: usize = 56;
    /// PERF_FLAG_FD_CLOEXEC
    const CLOEXEC: libc::c_ulong = 8;
    let path = (buffer.path.as_ptr() as usize as u64).to_ne_bytes();
    buffer.data[PATH_AT..PATH_AT + 8].copy_from_slice(&path);
    let _ = ATTRIBUTES;
    // SAFETY: the attributes contain their own length; the path ends within the buffer.
    let made = unsafe {
        libc::syscall(libc::SYS_perf_event_open, buffer.data.as_ptr(), buffer.thread, -1, -1, CLOEXEC)
    };
    match counted(made as isize) {
        made @ 0.. => (0, made as RawFd),
        error => (error, -1),
    }
}
