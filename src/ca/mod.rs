//! Channel Access on the network: capture and decoding.

pub mod capture;
mod decoder;
mod filter;
mod framer;
mod losses;
mod message;
mod packet;
pub mod servers;
mod session;
mod stream;

pub use decoder::{Decoder, Limits};
pub use session::SeedChannel;
#[cfg(test)]
mod tests;
