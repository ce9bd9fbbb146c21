//! Width of the terminal.

/// Columns if nothing says how many there are.
const USUAL: usize = 100;

/// Columns of the terminal: `COLUMNS`, else those of standard output, else 100.
#[allow(clippy::disallowed_methods)] // only asked for its size
pub fn columns() -> usize {
    let given = std::env::var("COLUMNS").ok().and_then(|text| text.trim().parse().ok());
    #[cfg(unix)]
    let size = || rustix::termios::tcgetwinsize(std::io::stdout()).ok().map(|size| usize::from(size.ws_col));
    #[cfg(not(unix))]
    let size = || None;
    given.or_else(size).filter(|columns| *columns > 0).unwrap_or(USUAL)
}
