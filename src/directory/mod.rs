//! Checks that a directory may hold a log and that it has only one recorder: the part that the log's own crate leaves
//! to the system.
//!
//! The lock is an advisory one (flock) on the directory itself: it leaves nothing behind, and a full or read-only disk
//! cannot refuse it. But any process that may open the directory may lock it without being a recorder. So /proc is
//! searched for the process that has the lock:
//!
//! - a live recorder: the directory is refused;
//! - a recorder that is being killed: it gets a few seconds to end;
//! - any other process: it is reported, and recording continues. Until the lock becomes free, a lock on a file of mode
//!   0600, which only root and the recorder's user can open, keeps other recorders off.
//!
//! `way` opens the directory: other users may own directories on its path, and put links there.

mod guard;
mod holder;
mod lock;
mod rules;
mod way;

pub use guard::Guard;
pub use holder::{holders, of_socket, process, Holder, HolderKind};
pub use way::place;
