//! Linux: processes, their memory and files, ELF, sockets, users, capabilities, clocks, signals, the running kernel.
//!
//! The lowest room of the agent: every other room may use it, and it uses none of them. It knows neither EPICS nor BPF.
//!
//! Inside, each line uses only those above it:
//!
//! * [`text`], [`width`], [`clock`], [`descriptors`], [`stack`], [`signals`], [`config`], [`machine`], [`btf`],
//!   [`sock_diag`]: the kernel's answers about sockets
//! * [`proc`]: files of /proc that never block
//! * [`reader`]: reads that may block, through reader processes
//! * [`process`], [`user`], [`memory`], [`victim`], [`connector`], [`ending`], [`sockets`], [`ports`], [`privileges`], [`version`],
//!   [`container`]
//! * [`chosen`]: the processes that a person chose
//! * [`procfs`]: the recorder core's queries of /proc, behind a trait
//! * [`opened`]: files that processes have mapped; [`elf`]: their symbols

pub mod aside;
pub mod bell;
pub mod btf;
pub mod chosen;
pub mod clock;
pub mod config;
pub mod connector;
pub mod container;
pub mod descriptors;
pub mod diag;
pub mod elf;
pub mod ending;
pub mod gauge;
pub mod kernel;
pub mod machine;
pub mod memory;
pub mod opened;
pub mod ports;
pub mod privileges;
pub mod proc;
pub mod process;
pub mod procfs;
pub mod reader;
pub mod signals;
pub mod sock_diag;
pub mod sockets;
pub mod stack;
pub mod text;
pub mod user;
pub mod version;
pub mod victim;
pub mod width;

#[cfg(test)]
mod tests;

pub use process::FileId;
