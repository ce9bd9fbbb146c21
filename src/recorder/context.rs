//! What a source of facts works with, passed as one value.
//!
//! [`Env`] is what every part of the recorder needs; [`Context`] adds what several sources share: the traced IOCs, the
//! circuits, what the BPF programs know. A source lends `env` to a part of the rest, so the two stand apart.

use crate::bpf::maps::Maps;
use crate::recorder::circuits::Circuits;
use crate::recorder::env::Env;
use crate::recorder::registry::Registry;

/// What a source of facts works with.
pub struct Context<'a> {
    /// What every part needs.
    pub env: Env<'a>,
    /// The traced IOCs and what is known of them.
    pub iocs: &'a mut Registry,
    /// Channel Access circuits.
    pub circuits: &'a mut Circuits,
    /// What the BPF programs know; `None` where none run.
    pub maps: Option<&'a mut Maps>,
    /// Set by a source when IOCs, their ports or what is known of them have changed: all sources then adapt.
    pub changed: bool,
}
