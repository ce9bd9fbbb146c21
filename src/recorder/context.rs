//! The context of a source of facts, passed as one value.
//!
//! [`Env`] is the environment of every part of the recorder; [`Context`] adds the state that sources share: the traced
//! IOCs, the circuits, the BPF maps. The two are separate so that a source can lend `env` to a part of the rest.

use crate::bpf::maps::Maps;
use crate::recorder::circuits::Circuits;
use crate::recorder::env::Env;
use crate::recorder::registry::Registry;

/// The context of a source of facts.
pub struct Context<'a> {
    /// The environment.
    pub env: Env<'a>,
    /// The traced IOCs.
    pub iocs: &'a mut Registry,
    /// Channel Access circuits.
    pub circuits: &'a mut Circuits,
    /// The maps of the BPF programs; `None` if none run.
    pub maps: Option<&'a mut Maps>,
    /// Set by a source that has changed IOCs, their ports or their state: all sources then adapt.
    pub changed: bool,
}
