//! Standard output and standard error. clippy.toml keeps the rest of the program from both.
//!
//! Colours and the line that shows progress are for people: they are used on a terminal only. Text from a log is escaped
//! before it gets here, so it can neither colour anything nor move the cursor.

pub mod progress;
pub mod style;

use iocrec_log::escape::Lines;
use std::fmt::Display;
use std::io::{self, IsTerminal, Write};
use style::Style;

/// The person who runs the program.
#[derive(Clone, Copy, Debug)]
pub struct Terminal;

impl Terminal {
    /// Reports something in a line on standard error. If that is closed, nobody can read it.
    pub fn report(self, notice: &dyn Display) {
        self.report_as(Style::Plain, notice);
    }

    /// Reports the failure of the command.
    pub fn fail(self, failure: &dyn Display) {
        self.report_as(Style::Bad, failure);
    }

    /// Reports in a line that begins in this style.
    fn report_as(self, style: Style, notice: &dyn Display) {
        progress::clear();
        // a line as a whole, whatever other threads report
        let error = standard_error().lock();
        let (begin, end) = style.codes(style::is_wanted(error.is_terminal()));
        let mut lines = Lines::new(error);
        let _ = write!(lines.below(), "{begin}iocreplay:{end} ");
        let _ = lines.line(format_args!("{notice}"));
    }
}

/// Standard output.
#[allow(clippy::disallowed_methods)] // the one place
pub fn standard() -> io::Stdout {
    io::stdout()
}

/// Whether standard output is a pipe that nobody reads any more, as in `iocreplay follow LOG | head -1`. Who waits for something to
/// write would not hear of that.
#[allow(clippy::disallowed_methods)] // the one place
pub fn is_unread() -> bool {
    #[cfg(unix)]
    {
        use rustix::event::{poll, PollFd, PollFlags, Timespec};
        let stdout = io::stdout();
        let mut pipe = [PollFd::new(&stdout, PollFlags::empty())];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut pipe, Some(&at_once)).is_ok()
            && pipe.iter().any(|pipe| pipe.revents().contains(PollFlags::ERR))
    }
    #[cfg(not(unix))]
    {
        false
    }
}

/// Standard error.
#[allow(clippy::disallowed_methods)] // the one place
fn standard_error() -> io::Stderr {
    io::stderr()
}
