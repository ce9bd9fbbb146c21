//! PVAccess from packets to facts: messages made by hand, as servers and clients were seen to send them, and changed at
//! random.

mod circuits;
mod filter;
mod fuzz;
mod messages;
#[path = "../rig/not_run.rs"]
mod not_run;
mod numbers;
mod orders;
#[path = "../rig/packets.rs"]
mod packets;
mod properties;
mod stateful;
mod uncertain;
mod wire;
