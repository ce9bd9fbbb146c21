//! The edge: everything that the program prints, on standard output or standard error, passes here, where text from outside
//! is escaped (see [`iocrec_log::escape`]). clippy.toml keeps the rest of the program from both.

use std::io::{self, Write};

use iocrec_log::escape::Lines;

/// Standard output, a line at a time.
#[allow(clippy::disallowed_methods)] // the one place
pub fn standard_output() -> Lines<io::Stdout> {
    Lines::new(io::stdout())
}

/// Prints lines that were made with [`Lines`], or JSON. A pipe that was closed early is no error.
pub fn print(text: &str) {
    let mut out = standard_output();
    let _ = text.lines().try_for_each(|line| out.line(format_args!("{line}"))).and_then(|()| out.flush());
}

/// Prints a line on stderr. If that is closed, nobody would read it.
#[allow(clippy::disallowed_methods)] // the one place
pub fn complain(line: &str) {
    let _ = Lines::new(io::stderr()).line(format_args!("iocrec: {line}"));
}

/// Several lines that are sent together, such as a reply over a socket.
pub type Page = Lines<Vec<u8>>;

/// No lines yet.
pub fn page() -> Page {
    Lines::new(Vec::new())
}

/// Adds a line to a page.
pub fn add<W: Write>(page: &mut Lines<W>, line: std::fmt::Arguments) {
    // into memory, where nothing fails
    let _ = page.line(line);
}
