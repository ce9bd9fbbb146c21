//! Reads of other processes' memory and files, with deadlines.
//!
//! A read of another process may never return: it may need a page of memory that the process's own file system must
//! fill, a library on a server that has died, or a kernel lock that one of the process's threads holds for ever. A
//! thread that waits for such a read can't be ended, nor can its process. So *reader processes* make the system calls
//! that may block (`child`). They are small children of the recorder that take requests through a shared buffer
//! (`shared`) and are abandoned if they do not answer in time ([`client`]). All logic stays on this side. A thread that
//! has called [`use_reader_process`] has a reader process of its own.
//!
//! Two kinds of threads read:
//!
//! * An inspector thread reads much of one process. It begins an [`Inspection`] with a budget of bytes and time; after
//!   the first refusal everything is refused until the next inspection.
//! * The recorder's loop reads a little here and there, with a short deadline. A process that misses it once is
//!   *unresponsive*: all reads of it fail at once, until [`mark_responsive`] is called after an inspection succeeded.
//!
//! Files that never block ([`crate::linux::proc`]) are read in place. So is everything on a thread that has no
//! reader process, as in tests.

pub mod budget;
mod child;
pub mod client;
pub mod file;
mod inherited;
mod reads;
pub(super) mod shared;
pub(super) mod thread;

pub use reads::{contents, link, list, memory, several};
pub use shared::MAX_PROCESSES;
pub use thread::{mark_responsive, unresponsive, use_reader_process, Inspection};
