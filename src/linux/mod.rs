//! Linux from the inside: processes, their memory and files, sockets, users, capabilities, clocks, signals, and what
//! the running kernel is. No EPICS and no BPF in it.
//!
//! The lowest room of the agent: everything else may use it, and it uses nothing of the agent's.

pub mod clock;
pub mod config;
pub mod elf;
pub mod ending;
pub mod memory;
pub mod opened;
pub mod privileges;
pub mod process;
pub mod procfs;
pub mod reader;
pub mod signals;
pub mod sockets;
pub mod unwind;
pub mod user;
pub mod version;
pub mod width;

/// A file as the kernel shows it in /proc/PID/maps: device and inode.
pub type FileId = (u64, u64);
