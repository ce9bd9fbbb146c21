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

/// How many of these things were lost, which are named in the plural; 0 is not known.
pub fn number_of(count: u64, things: &str) -> String {
    match count {
        0 => format!("an unknown number of {things}"),
        1 => {
            let one = things.split(' ').map(|word| word.strip_suffix('s').unwrap_or(word));
            format!("1 {}", one.collect::<Vec<&str>>().join(" "))
        }
        count => format!("{count} {things}"),
    }
}

/// What was lost, in words.
pub fn lost(count: u64, source: LossSource) -> String {
    format!("{} lost", number_of(count, source_name(source)))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_is_not_known_is_none() {
        let lost = [0, 1, 17].map(|count| lost(count, LossSource::Hits));
        assert_eq!(lost, ["an unknown number of hits lost", "1 hit lost", "17 hits lost"]);
        let either = [0, 1, 17].map(|count| number_of(count, "hits or events"));
        assert_eq!(either, ["an unknown number of hits or events", "1 hit or event", "17 hits or events"]);
    }
}
