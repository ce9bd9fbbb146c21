//! What recorded processes do with files, sockets and devices, from the programs of bpf/files.bpf.c.
//!
//! [`Files::open`] loads them and tries them on this process itself; it says why if they can't be used. Nothing is loaded
//! before, since the programs cost every process of the machine some time at each system call. Nothing here outlives the
//! process.

mod calls;
pub mod contract;
mod programs;

pub use programs::{Files, Lack};
