//! Requests of `iocrec mark` and `iocrec status` to a running recorder.
//!
//! They use a Unix socket in Linux's abstract name space, named after the log directory's device and inode number. So
//! there is no file: nothing counts towards the disk cap, a full or read-only disk cannot refuse it, a crash leaves
//! nothing behind, and nothing is in the way when the directory is copied. Abstract names have no permissions, so both
//! ends check each other's user: a recorder answers only root and its own user, and a client trusts only root, its own
//! user and the owner of the directory. Abstract names belong to a network namespace, so both must be in the same one.
//!
//! Any process may take the name first. Then the recorder reports which one has it, and takes the name with a random
//! number appended; a client finds that one in the kernel's list of sockets, and checks its owner, too. When another
//! directory replaces this one, the socket gets the new directory's name.
//!
//! A connection carries one [`Request`]: bytes until the client closes its side. The reply begins with `ok` or `no` and
//! a line end; the rest is text for people or, on request, JSON.

mod client;
mod name;
mod request;
mod server;
#[cfg(test)]
mod tests;

pub use client::{ask, AskError};
pub use request::{Reply, Request, MAX_BYTES};
pub use server::{serve, Doorbell};
