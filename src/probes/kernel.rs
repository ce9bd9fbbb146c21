//! The kernel side of the recorder: loaded programs, placed probes, and their hits.

use std::sync::Arc;

use iocrec_log::event::Tier;

use crate::bpf::contract;
use crate::bpf::diagnosis::diagnose;
use crate::bpf::failure::{Failure, Step};
use crate::bpf::load::{load, LoadError};
use crate::bpf::maps::{self, LeavesOut, Maps};
use crate::bpf::transport::{Room, Transport};
use crate::probes::attacher::Attacher;

/// The loaded programs with their maps, hits and probes.
pub struct Kernel {
    pub(super) attacher: Attacher,
    /// Source of hits.
    pub transport: Transport,
    /// Input of the programs.
    pub maps: Maps,
}

impl Kernel {
    /// Loads the programs of a tier, with this room for hits.
    pub(super) fn load(tier: Tier, leaves_out: LeavesOut, room: Room) -> Result<Kernel, LoadError> {
        let size = |object: &mut _| maps::size(object, leaves_out, tier == Tier::Perf, room);
        let object = load(contract::OBJECT, tier, size)?;
        let transport = Transport::open(&object, tier, room).map_err(LoadError::Refused)?;
        let maps = Maps::open(&object, leaves_out)
            .map_err(|error| LoadError::Refused(diagnose(Step::Maps(tier), Failure::from(error))))?;
        Ok(Kernel { attacher: Attacher::new(Arc::new(object)), transport, maps })
    }

    /// An attacher, which places probes from any thread.
    pub fn attacher(&self) -> Attacher {
        self.attacher.clone()
    }
}
