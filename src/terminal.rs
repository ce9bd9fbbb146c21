//! The edge: all that the program says, on standard output and standard error, passes here, where text from outside is
//! made harmless (see [`iocrec_log::escape`]). clippy.toml keeps the rest of the program from both.

use std::io::{self, Write};

use iocrec_log::escape::Lines;

/// Standard output, a line at a time.
#[allow(clippy::disallowed_methods)] // the one place
pub fn standard_output() -> Lines<io::Stdout> {
    Lines::new(io::stdout())
}

/// Prints lines that were put together with [`Lines`], or JSON. A pipe that was closed early ends quietly.
pub fn print(text: &str) {
    let mut out = standard_output();
    let _ = text.lines().try_for_each(|line| out.line(format_args!("{line}"))).and_then(|()| out.flush());
}

/// A line on stderr; if that is closed there is nobody to tell.
#[allow(clippy::disallowed_methods)] // the one place
pub fn complain(line: &str) {
    let _ = Lines::new(io::stderr()).line(format_args!("iocrec: {line}"));
}

/// Lines that go elsewhere together: the answer to who asks over a socket.
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
