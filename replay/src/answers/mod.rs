//! Answers: what logs hold of one matter each, as the library returns it. [`crate::output`] shows them.
//!
//! An answer reads opened logs through the model. It writes nothing and knows no format.

pub(crate) mod alarms;
pub(crate) mod aliases;
pub mod attached;
pub(crate) mod between;
pub(crate) mod chains;
pub mod clients;
pub mod console;
pub(crate) mod events;
pub mod files;
pub mod hangs;
pub mod happened;
pub mod inputs;
pub mod inventory;
pub mod last;
pub mod network;
pub mod processes;
pub(crate) mod puts;
pub mod recorded;
pub mod resources;
pub(crate) mod served;
pub mod snapshots;
pub mod states;
pub mod summary;
pub mod undo;
pub(crate) mod updates;
pub(crate) mod values;
mod waiting;
