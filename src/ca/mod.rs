//! Channel Access on the network: capture and decoding.

mod decoder;
mod framer;
mod losses;
mod message;
mod packet;
mod session;
mod stream;

pub use decoder::{Decoder, Limits};
pub use session::SeedChannel;
#[cfg(test)]
mod tests;
