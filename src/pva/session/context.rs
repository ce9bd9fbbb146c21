//! What all sessions share: the numbers of circuits and channels, types, bounds.

use iocrec_log::event::{ChannelId, CircuitId, Event, Fact};

use crate::pva::types::Types;

/// Numbers of circuits and channels begin here, so that they differ from those of Channel Access.
pub const FIRST_ID: u32 = 1 << 31;

/// Assigns ids to circuits and channels, and counts what all circuits hold.
#[derive(Debug)]
pub struct Ids {
    pub(super) circuit: CircuitId,
    pub(super) channel: ChannelId,
    /// Channels and requests of all circuits.
    pub(super) open: usize,
    /// Of these, how many had to be forgotten while open, not yet reported.
    pub forgotten: u64,
}

impl Default for Ids {
    fn default() -> Ids {
        Ids { circuit: FIRST_ID, channel: FIRST_ID, open: 0, forgotten: 0 }
    }
}

/// Bounds.
#[derive(Clone, Copy, Debug)]
pub struct SessionLimits {
    /// Channels, and likewise requests and monitors, of one circuit.
    pub circuit: usize,
    /// All of these of all circuits.
    pub all: usize,
    /// So many of each kind a circuit may have, whatever the others have.
    pub own: usize,
    /// Bytes to keep of a value.
    pub payload: usize,
}

/// The shared state that a session uses.
#[derive(Debug)]
pub struct Context<'a> {
    /// Assigns ids.
    pub ids: &'a mut Ids,
    /// The types of all circuits.
    pub types: &'a mut Types,
    /// Bounds.
    pub limits: SessionLimits,
    /// Receives the facts.
    pub out: &'a mut Vec<Event>,
}

impl Context<'_> {
    /// Whether a circuit with so many of a kind may not have one more.
    pub(super) fn is_full(&self, have: usize) -> bool {
        have >= self.limits.circuit || self.ids.open >= self.limits.all && have >= self.limits.own
    }

    pub(super) fn emit(&mut self, time: u64, fact: Fact) {
        self.out.push(Event { time, fact });
    }
}
