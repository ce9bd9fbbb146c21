//! libbpf's work on this thread: its complaints, and its progress with an object.

use std::cell::{Cell, RefCell};
use std::io;

use libbpf_rs::PrintLevel;

use crate::bpf::failure::Failure;

thread_local! {
    /// First line of its first complaint.
    static COMPLAINT: RefCell<String> = const { RefCell::new(String::new()) };
    /// Whether it has made all maps and begun to load programs.
    static AT_PROGRAMS: Cell<bool> = const { Cell::new(false) };
}

/// Called by libbpf for each message.
fn note(_: PrintLevel, message: String) {
    // people need the first line of a failure, not the verifier's pages
    COMPLAINT.with_borrow_mut(|complaint| {
        if complaint.is_empty() {
            let line = message.lines().next().unwrap_or_default();
            *complaint = line.trim_start_matches("libbpf: ").to_string();
        }
    });
}

/// Runs work that calls libbpf, and keeps libbpf's complaint.
///
/// # Errors
/// The errors of `work`, with the complaint.
pub(crate) fn listen<T>(work: impl FnOnce() -> io::Result<T>) -> Result<T, Failure> {
    libbpf_rs::set_print(Some((PrintLevel::Warn, note)));
    COMPLAINT.with_borrow_mut(String::clear);
    AT_PROGRAMS.set(false);
    work().map_err(|error| Failure { complaint: COMPLAINT.take(), ..Failure::from(error) })
}

/// Call this before each program is loaded.
pub(super) fn at_programs() {
    AT_PROGRAMS.set(true);
}

/// Whether all maps had been made when the last work ended.
pub(super) fn was_at_programs() -> bool {
    AT_PROGRAMS.get()
}

/// The error of a libbpf call that returned a null pointer.
pub(crate) fn last_error() -> io::Error {
    let error = io::Error::last_os_error();
    io::Error::from_raw_os_error(error.raw_os_error().filter(|&errno| errno > 0).unwrap_or(libc::EINVAL))
}
