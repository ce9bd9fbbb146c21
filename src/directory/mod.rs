//! Whether a directory may hold a log, and that it has one recorder: what the log's own crate leaves to the system.
//!
//! The lock is an advisory one (flock) on the directory itself: it leaves nothing behind, and a full or read-only disk
//! cannot refuse it. But whoever may open the directory may lock it without being a recorder. So /proc is searched for the
//! process that has the lock:
//!
//! - a recorder that lives: the directory is refused;
//! - a recorder that is being killed: it is waited for, a few seconds;
//! - any other process: it is reported, and recording goes on. Until the lock becomes free, other recorders are kept off by
//!   a lock on a file of mode 0600, which only root and the recorder's user can open.

mod guard;
mod holder;
mod lock;
mod rules;

pub use guard::Guard;
pub use holder::{holders, of_socket, process, Holder, HolderKind};
