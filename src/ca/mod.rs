//! Channel Access on the network: from packets to facts.
//!
//! [`net`](crate::net) captures the TCP packets of the watched ports and puts each direction of a connection back into
//! order. [`Decoder`] turns these into facts: `framer` cuts a direction into messages, `session` keeps
//! the state of a circuit and its channels. Bytes that can't be captured or understood are counted and
//! reported (`losses`). [`servers`] finds the ports to watch.
//!
//! Promises: no input causes a panic or makes memory grow beyond the [`Limits`]; no put is invented, whatever is lost
//! or wherever a stream is joined, short of data made to deceive; a put is reported once, however often its bytes are
//! sent; each lost byte that could have mattered is counted.
//!
//! The time of a fact is the time at which the server could know it: that of the segment that completed the message, or
//! of the one that filled a gap before it. Bytes that never come delay the following ones by up to [`Limits::wait`], so
//! facts may be slightly out of chronological order.
//!
//! A put's request id (`ioid`) distinguishes puts with answers. In a put without an answer, libca repeats the channel's
//! own id each time.

mod channels;
mod circuit;
pub mod datagrams;
mod decoder;
mod filter;
mod framer;
mod losses;
mod mark;
pub(crate) mod message;
pub mod servers;
mod session;
mod traffic;

pub use circuit::SERVICE;
pub use decoder::{Decoder, Limits};
pub use mark::{begins_circuit, servers_in};
pub use session::SeedChannel;
