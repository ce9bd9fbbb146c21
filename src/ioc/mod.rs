//! EPICS IOCs as seen from outside: EPICS Base in a process's files and memory.
//!
//! Nothing in an IOC is changed or stopped, and none of its locks is taken. The data may be half changed or forged, so
//! every walk is bounded, and all data is checked before use.
//!
//! | file | knows |
//! |---|---|
//! | `finder`, `files`, `stripped` | which processes are IOCs |
//! | `process`, `module` | an IOC, and the files that it consists of |
//! | `version`, `environment`, `script`, `redact` | its version, name and command line, and which parts may be logged |
//! | `functions` | the functions of Base that are probed |
//! | `offsets` | the offsets of members in Base's structures, which differ between Bases |
//! | `layout` | its record types and their fields, from its own descriptions |
//! | `records`, `fields`, `menus`, `scanning` | its records, their values, enum strings and scan lists |
//! | `locks` | which of its records are locked, and by whom |
//! | `calls`, `standing` | what a thread that stands still waits for |
//! | `snapshots` | values, alarms and properties of many records at once |
//! | `ports`, `clients`, `threads` | its servers' ports, Channel Access clients and threads |
//! | `channels` | the channels of other Channel Access clients on this machine |
//! | `pva_channels` | the channels of PVAccess servers' clients, from the servers' memory |

mod calls;
pub mod channels;
pub mod clients;
pub mod copies;
mod environment;
pub mod fields;
mod files;
mod finder;
pub mod functions;
pub mod layout;
pub mod locks;
pub mod menus;
mod module;
pub(crate) mod offsets;
pub mod ports;
mod process;
pub mod pva_channels;
pub mod queues;
pub mod records;
pub mod redact;
pub mod scanning;
pub mod script;
pub mod snapshots;
pub mod stack;
pub mod standing;
pub mod stripped;
#[cfg(test)]
mod tests;
pub mod threads;
mod translated;
pub mod updates;
mod version;

pub use finder::{Finder, Refusal};
pub use layout::{Database, Layout, LayoutError};
pub use module::Module;
pub use offsets::{Abi, Generation};
pub use process::{IocProcess, Unprobed};
#[cfg(test)]
pub(crate) use tests::image;
