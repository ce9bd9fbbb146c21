//! Takes UDP datagrams off the network: a packet socket of its own in each network namespace, apart from TCP's ring, so
//! that a flood of datagrams costs no put.
//!
//! Unlike TCP, datagrams are few and mean something each alone, so they are queued by the kernel and read when the
//! recorder comes by; they wake nobody. The queue is bounded, and what does not fit is counted. When more come than are
//! worth reading, the filter passes one in so many, chosen by chance, and cuts it: [`Taking`].

pub mod datagram;
mod filter;
pub mod places;
mod socket;

pub use filter::{Selected, Taking};
pub use socket::{Received, Socket};
