//! Standard output and standard error. All printed text passes here, where text from outside is escaped
//! ([`iocrec_log::escape`]). clippy.toml forbids both streams to the rest of the program.

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use iocrec_log::escape::Lines;
use nix::errno::Errno;
use nix::poll::{poll, PollFd, PollFlags};
use nix::sys::stat::fstat;
use nix::unistd::{dup2_stderr, dup2_stdout, write};

use crate::linux::signals;

/// Time after which there may be more to send, or a signal may have ended the recording, milliseconds: short against the
/// second in which the recorder flushes, and ends.
const MOMENT: u8 = 200;

/// Whether IOCs are recorded.
static RECORDS: AtomicBool = AtomicBool::new(false);

/// From now on lines on standard error wait for nobody, since IOCs are recorded. Any other command has nothing to do that is
/// worth more than what it says.
#[allow(clippy::disallowed_methods)] // the one place
pub fn wait_for_nobody() {
    RECORDS.store(true, Ordering::Relaxed);
    // A terminal that nobody reads takes a part of a line, and the rest is waited for, whatever poll() says. The flag against
    // that would be the starter's, too, so it is opened anew. Where that is refused, it is waited for.
    let own = |path: &str| {
        let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
        File::options().write(true).custom_flags(flags).open(path)
    };
    if io::stdout().is_terminal() {
        let _ = own("/proc/self/fd/1").map(dup2_stdout);
    }
    if io::stderr().is_terminal() {
        let _ = own("/proc/self/fd/2").map(dup2_stderr);
    }
}

/// The ending of a noun of which there are so many.
pub fn plural(count: u64) -> &'static str {
    if count == 1 {
        ""
    } else {
        "s"
    }
}

/// Standard output, a line at a time.
#[allow(clippy::disallowed_methods)] // the one place
pub fn standard_output() -> Lines<Stream> {
    Lines::new(Stream::Output(io::stdout()))
}

/// A standard stream. Where nobody takes what is printed, it waits until a signal ends the recording, and fails then like a
/// closed pipe. While IOCs are recorded standard error fails so after a moment.
#[derive(Debug)]
pub enum Stream {
    /// Standard output.
    Output(io::Stdout),
    /// Standard error.
    Error(io::Stderr),
}

impl Stream {
    /// Whether it is waited for as long as nothing ends the recording.
    fn waits(&self) -> bool {
        matches!(self, Stream::Output(_)) || !RECORDS.load(Ordering::Relaxed)
    }

    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Output(out) => out.as_fd(),
            Stream::Error(error) => error.as_fd(),
        }
    }

    /// Waits until it takes something; returns whether it does.
    fn is_taken(&self) -> bool {
        while !takes(self.as_fd(), MOMENT) {
            if !self.waits() || signals::ended() {
                return false;
            }
        }
        true
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        /// A pipe that takes anything takes so much without a wait, bytes: PIPE_BUF of linux/limits.h.
        const AT_ONCE: usize = 4096;
        let bytes = bytes.get(..AT_ONCE).unwrap_or(bytes);
        loop {
            if !self.is_taken() {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            // not through their buffers, which are waited for whatever signal comes
            let taken = match self {
                Stream::Output(out) => write(out, bytes),
                Stream::Error(error) => write(error, bytes),
            };
            match taken {
                Err(Errno::EAGAIN | Errno::EINTR) if signals::ended() => {
                    return Err(io::ErrorKind::BrokenPipe.into());
                }
                // a terminal that has room for one byte says that it takes something, but takes no line feed
                Err(Errno::EAGAIN) if self.waits() => std::thread::sleep(Duration::from_millis(10)),
                // a terminal that was closed; a file can't be written
                Err(Errno::EIO) if kind(self.as_fd()) == libc::S_IFCHR => {
                    return Err(io::ErrorKind::BrokenPipe.into());
                }
                taken => return Ok(taken?),
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What kind of file a stream is.
fn kind(stream: BorrowedFd<'_>) -> libc::mode_t {
    fstat(stream).map_or(0, |about| about.st_mode & libc::S_IFMT)
}

/// Waits, for so many milliseconds at most, until a stream takes something. Returns whether it does, or has failed, which
/// writing to it shows.
fn takes(stream: BorrowedFd<'_>, milliseconds: u8) -> bool {
    // nothing else fills up; and some devices, such as /dev/kmsg, never say that they take something
    let kind = kind(stream);
    if kind != libc::S_IFIFO && kind != libc::S_IFSOCK && !stream.is_terminal() {
        return true;
    }
    let mut fds = [PollFd::new(stream, PollFlags::POLLOUT)];
    poll(&mut fds, milliseconds).is_ok_and(|found| found > 0)
}

/// Prints lines that were made with [`Lines`], or JSON. A closed pipe is not an error.
///
/// # Errors
/// Standard output takes no more, as on a full disk.
pub fn print(text: &str) -> io::Result<()> {
    let mut out = standard_output();
    printed(text.lines().try_for_each(|line| out.line(format_args!("{line}"))).and_then(|()| out.flush()))
}

/// What the outcome of printing means. A closed pipe is not an error.
///
/// # Errors
/// Standard output takes no more.
pub fn printed(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(not_printed(error)),
        _ => Ok(()),
    }
}

/// An error of standard output, which names it.
fn not_printed(error: io::Error) -> io::Error {
    io::Error::other(format!("can't write to standard output: {error}"))
}

/// Standard output for bytes that are no text. Its errors name it, but for those of a pipe that nobody reads.
pub struct Pipe(File);

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes).map_err(|error| match error.kind() {
            io::ErrorKind::BrokenPipe | io::ErrorKind::Interrupted => error,
            _ => not_printed(error),
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Standard output for bytes that are no text; `None` if it is a terminal.
///
/// # Errors
/// It is closed.
#[allow(clippy::disallowed_methods)] // the one place
pub fn pipe() -> io::Result<Option<Pipe>> {
    let out = io::stdout();
    if out.is_terminal() {
        return Ok(None);
    }
    Ok(Some(Pipe(File::from(out.as_fd().try_clone_to_owned()?))))
}

/// Waits for a moment, or until nobody reads the pipe any more; returns whether that is so.
pub fn is_closed(pipe: &Pipe) -> bool {
    let mut fds = [PollFd::new(pipe.0.as_fd(), PollFlags::empty())];
    // interrupted: the next call waits
    poll(&mut fds, MOMENT).is_ok_and(|found| found > 0)
}

/// Lines that were left out since nobody took them.
static LEFT_OUT: AtomicU32 = AtomicU32::new(0);

/// Prints a line on stderr, which may be closed. Where IOCs are recorded and nobody takes what is there (a pipe is full, a
/// terminal was stopped), the line is left out, which the next one says: recording, and its end, do not wait for a reader.
#[allow(clippy::disallowed_methods)] // the one place
pub fn complain(line: &str) {
    let error = Stream::Error(io::stderr());
    // a reader that is only slow gets a moment, once
    let taken = match LEFT_OUT.load(Ordering::Relaxed) {
        0 => error.is_taken(),
        _ => takes(io::stderr().as_fd(), 0),
    };
    if !taken {
        LEFT_OUT.fetch_add(1, Ordering::Relaxed);
        return;
    }
    let mut lines = Lines::new(error);
    let left_out = LEFT_OUT.swap(0, Ordering::Relaxed);
    let told = left_out == 0
        || lines.line(format_args!("iocrec: lines missing here, since nobody took them: {left_out}")).is_ok();
    if !told || lines.line(format_args!("iocrec: {line}")).is_err() {
        // of this line a part may have been taken
        let missing = if told { 1 } else { left_out.saturating_add(1) };
        LEFT_OUT.fetch_add(missing, Ordering::Relaxed);
    }
}

/// Lines that are sent together: the reply to a client of the control socket.
pub type Page = Lines<Vec<u8>>;

/// An empty page.
pub fn page() -> Page {
    Lines::new(Vec::new())
}

/// Adds a line to a page.
pub fn add<W: Write>(page: &mut Lines<W>, line: std::fmt::Arguments) {
    // writing to memory does not fail
    let _ = page.line(line);
}

/// How far a file has been read: a line on stderr that is written over, each second, on a terminal only.
#[derive(Debug, Default)]
pub struct Progress {
    shown: Option<Instant>,
    is_dirty: bool,
}

impl Progress {
    /// Shows the bytes read, those of the whole file, if they are known, and the packets in them; if it is time to.
    #[allow(clippy::disallowed_methods)] // the one place
    pub fn show(&mut self, read: u64, size: Option<u64>, packets: u64) {
        const INTERVAL: Duration = Duration::from_secs(1);
        let last = *self.shown.get_or_insert_with(Instant::now);
        if last.elapsed() < INTERVAL {
            return;
        }
        self.shown = Some(Instant::now());
        let mut error = io::stderr();
        if !error.is_terminal() {
            return;
        }
        self.is_dirty = true;
        let text = match size {
            Some(size) => format!("{} % of {} MB", read.saturating_mul(100) / size.max(1), size >> 20),
            None => format!("{} MB", read >> 20),
        };
        // stderr may be closed
        let _ = write!(error, "\r{text}, {packets} packets ").and_then(|()| error.flush());
    }

    /// Removes the line.
    #[allow(clippy::disallowed_methods)] // the one place
    pub fn clear(&mut self) {
        if std::mem::take(&mut self.is_dirty) {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::epoll::{Epoll, EpollCreateFlags};

    #[test]
    fn only_what_is_full_is_waited_for() {
        let (reader, mut writer) = io::pipe().unwrap();
        let mut write = || takes(writer.as_fd(), 0) && writer.write_all(&[b'x'; 4096]).is_ok();
        let pages = (0..1000).take_while(|_| write()).count();
        assert!((1..1000).contains(&pages), "{pages}");
        drop(reader);
        assert!(takes(writer.as_fd(), 0), "a closed pipe fails at once");
        // like /dev/kmsg
        let never_says_so = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).unwrap();
        assert!(takes(never_says_so.0.as_fd(), 0));
    }
}
