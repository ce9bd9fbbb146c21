//! Standard output and standard error. clippy.toml keeps the rest of the program from both.

use iocrec_log::escape::Lines;
use std::fmt::Display;
use std::io;

/// The person who runs the program.
#[derive(Clone, Copy, Debug)]
pub struct Terminal;

impl Terminal {
    /// Reports something in a line on standard error. If that is closed, nobody can read it.
    #[allow(clippy::disallowed_methods)] // the one place
    pub fn report(self, notice: &dyn Display) {
        let _ = Lines::new(io::stderr()).line(format_args!("iocreplay: {notice}"));
    }
}

/// Standard output.
#[allow(clippy::disallowed_methods)] // the one place
pub fn standard() -> io::StdoutLock<'static> {
    io::stdout().lock()
}
