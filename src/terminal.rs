//! Standard output and standard error. All printed text passes here, where text from outside is escaped
//! ([`iocrec_log::escape`]). clippy.toml forbids both streams to the rest of the program.

use std::io::{self, Write};

use iocrec_log::escape::Lines;

/// Standard output, a line at a time.
#[allow(clippy::disallowed_methods)] // the one place
pub fn standard_output() -> Lines<io::Stdout> {
    Lines::new(io::stdout())
}

/// Prints lines that were made with [`Lines`], or JSON. A closed pipe is not an error.
pub fn print(text: &str) {
    let mut out = standard_output();
    let _ = text.lines().try_for_each(|line| out.line(format_args!("{line}"))).and_then(|()| out.flush());
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
