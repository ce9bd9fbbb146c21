//! The log of the flight recorder for EPICS IOCs.
pub mod event;
