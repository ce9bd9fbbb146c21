//! The kernel's side of the recorder: programs that are loaded, probes that are placed, hits that come out.

use std::sync::Arc;

use iocrec_log::event::Tier;

use crate::bpf::contract;
use crate::bpf::diagnosis::diagnose;
use crate::bpf::failure::{Failure, Step};
use crate::bpf::load::{load, LoadError};
use crate::bpf::maps::{self, LeavesOut, Maps};
use crate::bpf::transport::Transport;
use crate::probes::attacher::Attacher;

/// The loaded programs and what they watch.
pub struct Kernel {
    pub(super) attacher: Attacher,
    /// Where hits come out.
    pub transport: Transport,
    /// What the programs are given.
    pub maps: Maps,
}

impl Kernel {
    /// Loads the programs of a tier.
    pub(super) fn load(tier: Tier, leaves_out: LeavesOut) -> Result<Kernel, LoadError> {
        let size = |object: &mut _| maps::size(object, leaves_out, tier == Tier::Perf);
        let object = load(contract::OBJECT, tier, size)?;
        let transport = Transport::open(&object, tier).map_err(LoadError::Refused)?;
        let maps = Maps::open(&object, leaves_out)
            .map_err(|error| LoadError::Refused(diagnose(Step::Maps(tier), Failure::from(error))))?;
        Ok(Kernel { attacher: Attacher::new(Arc::new(object)), transport, maps })
    }

    /// What places probes, from whichever thread.
    pub fn attacher(&self) -> Attacher {
        self.attacher.clone()
    }
}
