//! Standard output and standard error. All printed text passes here, where text from outside is escaped
//! ([`iocrec_log::escape`]). clippy.toml forbids both streams to the rest of the program.

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use iocrec_log::escape::Lines;
use nix::poll::{poll, PollFd, PollFlags};

/// Standard output, a line at a time.
#[allow(clippy::disallowed_methods)] // the one place
pub fn standard_output() -> Lines<io::Stdout> {
    Lines::new(io::stdout())
}

/// Prints lines that were made with [`Lines`], or JSON. A closed pipe is not an error.
///
/// # Errors
/// Standard output takes no more, as on a full disk.
pub fn print(text: &str) -> io::Result<()> {
    let mut out = standard_output();
    match text.lines().try_for_each(|line| out.line(format_args!("{line}"))).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(io::Error::other(format!("can't write to standard output: {error}")))
        }
        _ => Ok(()),
    }
}

/// Standard output for bytes that are no text; `None` if it is a terminal.
///
/// # Errors
/// It is closed.
#[allow(clippy::disallowed_methods)] // the one place
pub fn pipe() -> io::Result<Option<File>> {
    let out = io::stdout();
    if out.is_terminal() {
        return Ok(None);
    }
    Ok(Some(File::from(out.as_fd().try_clone_to_owned()?)))
}

/// Waits for a moment, or until nobody reads the pipe any more; returns whether that is so.
pub fn is_closed(pipe: &File) -> bool {
    /// Time after which there may be more to send, milliseconds: short against the second in which the recorder flushes.
    const MOMENT: u8 = 200;
    let mut fds = [PollFd::new(pipe.as_fd(), PollFlags::empty())];
    // interrupted: the next call waits
    poll(&mut fds, MOMENT).is_ok_and(|found| found > 0)
}

/// Prints a line on stderr, which may be closed.
#[allow(clippy::disallowed_methods)] // the one place
pub fn complain(line: &str) {
    let _ = Lines::new(io::stderr()).line(format_args!("iocrec: {line}"));
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
