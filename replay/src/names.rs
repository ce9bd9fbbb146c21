//! Names of the log's enums; part of the output formats.

use iocrec_log::event::{Linkage, LossSource, Tier};

/// Name of the way in which a run watched its IOCs.
pub fn tier_name(tier: Tier) -> &'static str {
    match tier {
        Tier::Ring => "ring",
        Tier::Perf => "perf",
        Tier::Packet => "packet",
    }
}

/// Name of the place of an IOC's record code.
pub fn linkage_name(linkage: Linkage) -> &'static str {
    match linkage {
        Linkage::Shared => "shared",
        Linkage::Static => "static",
        Linkage::Foreign => "foreign",
    }
}

/// The count of a loss; 0 is not known.
pub fn how_many(count: u64) -> String {
    match count {
        0 => "unknown".to_owned(),
        count => count.to_string(),
    }
}

/// What was lost, in words.
pub fn lost(count: u64, source: LossSource) -> String {
    match count {
        0 => format!("an unknown number of {} lost", source_name(source)),
        count => format!("{count} {} lost", source_name(source)),
    }
}

/// Name of the source of a loss.
pub fn source_name(source: LossSource) -> &'static str {
    match source {
        LossSource::Hits => "hits",
        LossSource::Packets => "packets",
        LossSource::Stream => "stream",
        LossSource::Names => "names",
        LossSource::Storage => "storage",
    }
}
