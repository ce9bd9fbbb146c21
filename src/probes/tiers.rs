//! Chooses the tier: the best of those that are allowed and work here.
//!
//! A tier is chosen by loading its programs and trying one, not by version numbers.

use std::fmt::{self, Display, Formatter};

use iocrec_log::event::{Tier, TierChoice};

use crate::bpf::load::LoadError;
use crate::bpf::maps::LeavesOut;
use crate::bpf::transport::Room;
use crate::probes::kernel::Kernel;
use crate::probes::self_test::{self, SelfTestError};

/// The tier that the user requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TierRequest {
    /// The best available.
    Auto,
    /// This one, or a lower one with a message.
    Only(Tier),
}

impl TierRequest {
    /// The tiers whose programs may be used, the best first.
    pub fn tiers(self) -> &'static [Tier] {
        match self {
            TierRequest::Auto | TierRequest::Only(Tier::Ring) => &[Tier::Ring, Tier::Perf],
            TierRequest::Only(Tier::Perf) => &[Tier::Perf],
            TierRequest::Only(Tier::Packet) => &[],
        }
    }

    /// Whether this tier may be used.
    fn allows(self, tier: Tier) -> bool {
        match self {
            TierRequest::Auto | TierRequest::Only(Tier::Ring) => true,
            TierRequest::Only(Tier::Perf) => tier != Tier::Ring,
            TierRequest::Only(Tier::Packet) => false,
        }
    }
}

/// Reason why a tier is not used.
#[derive(Debug, PartialEq, Eq)]
enum Refused {
    Load(LoadError),
    SelfTest(SelfTestError),
}

impl Display for Refused {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Refused::Load(why) => why.fmt(f),
            Refused::SelfTest(why) => why.fmt(f),
        }
    }
}

/// Loads the programs of the best tier that works here. If none works, the tier is [`Tier::Packet`] and there is no
/// [`Kernel`].
pub fn open(request: TierRequest, leaves_out: LeavesOut, room: Room) -> (Option<Kernel>, TierChoice) {
    let mut refused = Vec::new();
    for tier in [Tier::Ring, Tier::Perf].into_iter().filter(|&tier| request.allows(tier)) {
        match open_tier(tier, leaves_out, room) {
            Ok(kernel) => return (Some(kernel), TierChoice { tier, refused }),
            Err(why) => refused.push((tier, why.to_string())),
        }
    }
    (None, TierChoice { tier: Tier::Packet, refused })
}

/// A tier, if it passes its test on this kernel.
fn open_tier(tier: Tier, leaves_out: LeavesOut, room: Room) -> Result<Kernel, Refused> {
    let mut kernel = Kernel::load(tier, leaves_out, room).map_err(Refused::Load)?;
    self_test::run(&mut kernel).map_err(Refused::SelfTest)?;
    Ok(kernel)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_tier_above_the_one_asked_for() {
        let allowed = |request: TierRequest| [Tier::Ring, Tier::Perf].map(|tier| request.allows(tier));
        assert_eq!(allowed(TierRequest::Auto), [true, true]);
        assert_eq!(allowed(TierRequest::Only(Tier::Ring)), [true, true]);
        assert_eq!(allowed(TierRequest::Only(Tier::Perf)), [false, true]);
        assert_eq!(allowed(TierRequest::Only(Tier::Packet)), [false, false]);
    }
}
