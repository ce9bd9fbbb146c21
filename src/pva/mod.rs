//! PVAccess on the network: from packets to facts.
//!
//! As in [`ca`](crate::ca), `framer` cuts each direction of a connection into messages, and `session` keeps the state of
//! a circuit: its user, channels and requests. A value is logged as it was sent; its type, of which PVAccess sends only
//! a number wherever it can, is written out whole (`types`). The reader takes values apart.
//!
//! What is recorded: puts, processing and calls with their answers, values that clients fetched before a put, starts and
//! stops of monitors, refusals and messages. Updates of monitors and values that clients get are not; of them, only what
//! defines types is looked at.
//!
//! Promises: those of [`ca`](crate::ca). The byte order is taken from each message, as pvxs mixes both. After lost
//! bytes the types of that direction are forgotten: a put whose type is unknown is logged without it.

mod circuit;
pub mod datagrams;
mod decoder;
mod filter;
mod framer;
mod losses;
mod mark;
pub(crate) mod message;
mod name_servers;
mod searches;
mod session;
mod types;

pub use circuit::SERVICE;
pub use datagrams::servers_in;
pub use decoder::{Decoder, Limits};
pub use mark::begins_circuit;
pub use session::{Seed, ENCRYPTED, FIRST_ID};
