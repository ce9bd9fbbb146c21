//! Linux from the inside: processes, their memory and files, sockets, users, capabilities, clocks, signals, and what
//! the running kernel is. No EPICS and no BPF in it.
//!
//! The lowest room of the agent: everything else may use it, and it uses nothing of the agent's.

pub mod clock;
pub mod config;
pub mod elf;
pub mod ending;
pub mod machine;
pub mod memory;
pub mod opened;
pub mod ports;
pub mod privileges;
pub mod proc;
pub mod process;
pub mod reader;
pub mod signals;
pub mod sockets;
pub mod text;
pub mod user;
pub mod version;
pub mod width;

#[cfg(test)]
mod tests;

/// A file as the kernel shows it in /proc/PID/maps: device and inode.
pub type FileId = (u64, u64);
