//! A reader process: it does the system calls that may never come back, and nothing else.
//!
//! It is a child of a program with threads, so it takes no lock and no memory: everything it needs is on its stack or in the
//! shared page. It ends when nobody is left to ask it. What it holds of its parent's it closes at once, so that
//! nothing of a recorder (its log's lock, its probes, its sockets) outlives that in a reader that is stuck.

use std::os::fd::RawFd;

use crate::linux::reader::shared::{About, Page, Question, ATTRIBUTES, DATA, PATH, PLACES};

/// An answer: how much there is, or the negative number of an error. A descriptor may go with it.
pub type Answer = i64;

/// What a reader process has open.
struct Open {
    /// Of [`Question::Contents`].
    contents: RawFd,
    /// Of [`Question::Open`], and what it is called.
    file: RawFd,
    key: u64,
}

/// Answers until nobody asks. `highest`: no descriptor is higher.
pub fn serve(socket: RawFd, highest: RawFd, page: *mut Page, parent: libc::pid_t) -> ! {
    // SAFETY: system calls on numbers and constant strings. The socket moves to 0, everything else is closed.
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
        let mut question = 0u32;
        // SAFETY: the buffer is as long as said.
        let have = unsafe { libc::recv(0, (&raw mut question).cast(), size_of::<u32>(), 0) };
        if have < 0 && error() == -i64::from(libc::EINTR) {
            continue;
        }
        if have != size_of::<u32>() as isize {
            // SAFETY: ends this process; nothing of the parent's is flushed a second time.
            unsafe { libc::_exit(0) }
        }
        let (answer, descriptor) = answer(question, page, &mut open);
        send(answer, descriptor);
        if descriptor >= 0 {
            // SAFETY: made for this answer. One that only names a file, or a probe's event, which the parent has now.
            unsafe { libc::close(descriptor) };
        }
    }
}

/// The last system call's error, negative.
fn error() -> Answer {
    // SAFETY: the address of this thread's errno.
    -i64::from(unsafe { *libc::__errno_location() })
}

fn counted(result: isize) -> Answer {
    if result < 0 {
        error()
    } else {
        result as i64
    }
}

fn send(answer: Answer, descriptor: RawFd) {
    /// Room for a header and one descriptor, aligned as headers are.
    #[repr(C, align(8))]
    struct Control([u8; 64]);
    let mut control = Control([0; 64]);
    let mut bytes =
        libc::iovec { iov_base: (&raw const answer).cast_mut().cast(), iov_len: size_of::<Answer>() };
    // SAFETY: zeroes are a valid msghdr; all that it points to lives until sendmsg returns. The control buffer has
    // room for what is written through CMSG_FIRSTHDR.
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

/// Does what is asked; the answer, and a descriptor to go with it or -1.
fn answer(question: u32, page: *mut Page, open: &mut Open) -> (Answer, RawFd) {
    // SAFETY: mapped since before this process began; the parent waits for the answer and does not touch it.
    let page = unsafe { &mut *page };
    // the parent ends paths with a zero byte; this one does in any case
    page.path[PATH - 1] = 0;
    let length = (page.length as usize).min(DATA);
    let plain = |answer| (answer, -1);
    if question == Question::Contents as u32 {
        plain(contents(page, length, open))
    } else if question == Question::More as u32 {
        plain(fill(open.contents, page, length))
    } else if question == Question::Link as u32 {
        // SAFETY: the path ends within the page, the buffer is DATA long.
        plain(counted(unsafe {
            libc::readlink(page.path.as_ptr().cast(), page.data.as_mut_ptr().cast(), DATA)
        }))
    } else if question == Question::Memory as u32 {
        plain(memory(page))
    } else if question == Question::List as u32 {
        plain(list(page))
    } else if question == Question::Name as u32 {
        let named = open_at(page, libc::O_PATH);
        match named {
            0.. => (about(named as RawFd, page), named as RawFd),
            error => plain(error),
        }
    } else if question == Question::Open as u32 {
        plain(match open_file(page, open) {
            0 => about(open.file, page),
            error => error,
        })
    } else if question == Question::Read as u32 {
        plain(match open_file(page, open) {
            // SAFETY: the buffer has room for `length` bytes.
            0 => counted(unsafe {
                libc::pread64(open.file, page.data.as_mut_ptr().cast(), length, page.offset as libc::off64_t)
            }),
            error => error,
        })
    } else if question == Question::Close as u32 {
        close(&mut open.contents);
        close(&mut open.file);
        plain(0)
    } else if question == Question::Map as u32 {
        plain(map(page, open))
    } else if question == Question::Event as u32 {
        event(page)
    } else {
        plain(-i64::from(libc::EINVAL))
    }
}

fn close(descriptor: &mut RawFd) {
    if *descriptor >= 0 {
        // SAFETY: open and ours.
        unsafe { libc::close(*descriptor) };
        *descriptor = -1;
    }
}

fn open_at(page: &Page, flags: i32) -> Answer {
    let flags = flags | libc::O_RDONLY | libc::O_CLOEXEC | libc::O_NOCTTY | libc::O_NONBLOCK;
    // SAFETY: the path ends within the page.
    counted(unsafe { libc::open(page.path.as_ptr().cast(), flags) } as isize)
}

/// Opens what is asked for unless it is open; 0 or an error.
fn open_file(page: &Page, open: &mut Open) -> Answer {
    // 0 is a file of /proc: it is another one each time
    if open.file >= 0 && open.key == page.key && page.key != 0 {
        return 0;
    }
    close(&mut open.file);
    match open_at(page, 0) {
        file @ 0.. => {
            open.file = file as RawFd;
            open.key = page.key;
            0
        }
        error => error,
    }
}

/// As much as there is, up to `length`.
fn fill(descriptor: RawFd, page: &mut Page, length: usize) -> Answer {
    let mut have = 0;
    while have < length {
        // SAFETY: `length` is at most DATA.
        let more = unsafe { libc::read(descriptor, page.data.as_mut_ptr().add(have).cast(), length - have) };
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

fn contents(page: &mut Page, length: usize, open: &mut Open) -> Answer {
    close(&mut open.contents);
    match open_at(page, 0) {
        file @ 0.. => open.contents = file as RawFd,
        error => return error,
    }
    let have = fill(open.contents, page, length);
    if have < length as i64 {
        close(&mut open.contents);
    }
    have
}

/// Leaves what a file is in `data`.
fn about(descriptor: RawFd, page: &mut Page) -> Answer {
    // SAFETY: zeroes are a valid stat, which the call fills.
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
    };
    // SAFETY: `data` has room for it.
    unsafe { page.data.as_mut_ptr().cast::<About>().write_unaligned(about) };
    0
}

/// Copies from another process, through its file in /proc where the kernel lacks the call.
fn memory(page: &mut Page) -> Answer {
    let count = (page.count as usize).min(PLACES);
    let total: usize = page.places.iter().take(count).fold(0, |sum, place| sum.saturating_add(place.1));
    if total > DATA {
        return -i64::from(libc::EINVAL);
    }
    let local = libc::iovec { iov_base: page.data.as_mut_ptr().cast(), iov_len: total };
    // SAFETY: an iovec is an address and a length; what is written lies in `data`.
    let copied = unsafe {
        libc::process_vm_readv(page.thread, &raw const local, 1, page.places.as_ptr().cast(), count as _, 0)
    };
    match counted(copied) {
        error if error == -i64::from(libc::ENOSYS) => memory_by_file(page, count),
        copied => copied,
    }
}

fn memory_by_file(page: &mut Page, count: usize) -> Answer {
    let mut file = match open_at(page, 0) {
        file @ 0.. => file as RawFd,
        _ => return -i64::from(libc::ESRCH),
    };
    let mut copied = 0;
    for place in page.places.iter().take(count) {
        // SAFETY: the lengths together are at most DATA.
        let part = unsafe {
            let into = page.data.as_mut_ptr().add(copied).cast();
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

/// Follows a list; how many nodes lie in `data`, one behind the other.
fn list(page: &mut Page) -> Answer {
    let bytes = page.length as usize;
    if !(8..=DATA).contains(&bytes) {
        return -i64::from(libc::EINVAL);
    }
    let most = (page.count as usize).min(DATA / bytes);
    let mut next = page.offset;
    let mut have = 0;
    // its file in /proc, where the kernel lacks the call
    let mut file = -1;
    while have < most && next != 0 {
        // SAFETY: have < DATA / bytes.
        let into = unsafe { page.data.as_mut_ptr().add(have * bytes) };
        let local = libc::iovec { iov_base: into.cast(), iov_len: bytes };
        let remote = libc::iovec { iov_base: next as usize as *mut libc::c_void, iov_len: bytes };
        // SAFETY: what is written lies in `data`.
        let mut copied =
            unsafe { libc::process_vm_readv(page.thread, &raw const local, 1, &raw const remote, 1, 0) };
        if copied < 0 && error() == -i64::from(libc::ENOSYS) {
            if file < 0 {
                file = open_at(page, 0).try_into().unwrap_or(-1);
            }
            // SAFETY: what is written lies in `data`.
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
            if page.width == 4 {
                u64::from(into.cast::<u32>().read_unaligned())
            } else {
                into.cast::<u64>().read_unaligned()
            }
        };
    }
    close(&mut file);
    have as i64
}

/// Maps a page of the open file, or takes it away again where an address is given.
fn map(page: &Page, open: &mut Open) -> Answer {
    const BYTES: usize = 4096;
    // SAFETY: a new mapping that is never read; or the one that was made here.
    unsafe {
        if page.offset != 0 {
            libc::munmap(page.offset as usize as *mut libc::c_void, BYTES);
            return 0;
        }
        match open_file(page, open) {
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

/// perf_event_open for a probe: config1 of the attributes (`uprobe_path`) is to point to the path.
fn event(page: &mut Page) -> (Answer, RawFd) {
    /// Offset of config1 in struct perf_event_attr (linux/perf_event.h).
    const PATH_AT: usize = 56;
    /// PERF_FLAG_FD_CLOEXEC
    const CLOEXEC: libc::c_ulong = 8;
    let path = (page.path.as_ptr() as usize as u64).to_ne_bytes();
    page.data[PATH_AT..PATH_AT + 8].copy_from_slice(&path);
    let _ = ATTRIBUTES;
    // SAFETY: the attributes say how long they are; the path ends within the page.
    let made =
        unsafe { libc::syscall(libc::SYS_perf_event_open, page.data.as_ptr(), page.thread, -1, -1, CLOEXEC) };
    match counted(made as isize) {
        made @ 0.. => (0, made as RawFd),
        error => (error, -1),
    }
}
