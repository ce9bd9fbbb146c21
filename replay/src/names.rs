//! Names of the log's enums; part of the output formats.

use iocrec_log::event::{Linkage, LossSource, Tier};

/// How a run watched its IOCs.
pub fn tier_name(tier: Tier) -> &'static str {
    match tier {
        Tier::Ring => "ring",
        Tier::Perf => "perf",
        Tier::Packet => "packet",
    }
}

/// Where an IOC's record code is, in a word.
pub fn linkage_name(linkage: Linkage) -> &'static str {
    match linkage {
        Linkage::Shared => "shared",
        Linkage::Static => "static",
        Linkage::Foreign => "foreign",
    }
}

/// What was lost, in a word.
pub fn source_name(source: LossSource) -> &'static str {
    match source {
        LossSource::Hits => "hits",
        LossSource::Packets => "packets",
        LossSource::Stream => "stream",
        LossSource::Names => "names",
        LossSource::Storage => "storage",
    }
}
