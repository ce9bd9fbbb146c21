//! Channel Access circuits: whose they are, and what their channels are called.

pub mod ends;
pub mod local_clients;
