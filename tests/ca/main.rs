//! Channel Access from packets to facts: hand-made and random bytes, the socket filter, and real packets on loopback.

mod files;
mod messages;
#[path = "../rig/not_run.rs"]
mod not_run;
#[path = "../rig/packets.rs"]
mod packets;
mod traffic;
mod wire;

mod capture;
mod capture_files;
mod connections;
mod filter;
mod forged;
mod fuzz;
mod golden;
mod namespaces;
mod numbers;
mod orders;
mod properties;
mod stateful;
