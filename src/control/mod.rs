//! How `iocrec mark` and `iocrec status` talk to a running recorder.
//!
//! They use a Unix socket in Linux's abstract name space, named after the log directory's device and inode number. So there
//! is no file: nothing that counts towards the disk cap, that a full or read-only disk could refuse, that a crash leaves
//! behind, or that is in the way when the directory is copied. Abstract names have no permissions, so both ends check who
//! the other is: a recorder answers root and its own user only, and a client believes root, its own user and the owner of
//! the directory only. Abstract names belong to a network namespace, so both must be in the same one.
//!
//! Anybody may take the name first. Then the recorder reports who has it, and takes the name with a random number appended;
//! a client finds that one in the kernel's list of sockets, and checks its owner, too. When the directory is replaced by
//! another one, the socket gets the name of the other one.
//!
//! A connection carries one [`Request`]: bytes until the client closes its side. The reply begins with `ok` or `no` and a
//! line end; the rest is text for people or, on request, JSON.

mod client;
mod name;
mod request;
mod server;
#[cfg(test)]
mod tests;

pub use client::{ask, AskError};
pub use request::{Reply, Request, MAX_BYTES};
pub use server::serve;
