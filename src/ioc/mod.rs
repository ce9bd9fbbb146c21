//! EPICS IOCs, known from outside: what EPICS Base looks like in a process's files and memory.
//!
//! Nothing in an IOC is changed or stopped, and no lock of its is taken. Whatever is read may be half changed or forged, so
//! every walk is bounded, and what is read is checked before it is believed.
//!
//! | file | knows |
//! |---|---|
//! | `finder`, `files`, `stripped` | which processes are IOCs |
//! | `process`, `module` | an IOC, and the files that it consists of |
//! | `version`, `environment`, `script`, `redact` | its version, name and command line, and what of them may go into a log |
//! | `functions` | the functions of Base that are probed |
//! | `offsets` | where members of Base's structures lie: what differs between Bases |
//! | `layout` | its record types and their fields, as it describes them itself |
//! | `records`, `fields`, `menus`, `scanning` | its records, their values, enum strings and scan lists |
//! | `ports`, `clients`, `threads` | its servers' ports, Channel Access clients and threads |
//! | `channels` | the channels of other Channel Access clients on this machine |

pub mod channels;
pub mod clients;
mod environment;
pub mod fields;
mod files;
mod finder;
pub mod functions;
pub mod layout;
pub mod menus;
mod module;
pub(crate) mod offsets;
pub mod ports;
mod process;
pub mod records;
pub mod redact;
pub mod scanning;
pub mod script;
pub mod stripped;
#[cfg(test)]
mod tests;
pub mod threads;
mod version;

pub use finder::{Finder, Refusal};
pub use layout::{Database, Layout, LayoutError};
pub use module::Module;
pub use offsets::{Abi, Generation};
pub use process::{IocProcess, Unprobed};
#[cfg(test)]
pub(crate) use tests::image;
