//! Names of the log's enums; part of the output formats.

use iocrec_log::event::{Linkage, Loss, LossSource, Tier};

const STORAGE: &str = "storage";

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

/// Whether anything is known to be lost. With the count 0, one of storage says no more than that storing was interrupted, as by
/// a directory that was moved, or that a full disk took old segments (docs/format.md).
pub fn is_lost(loss: &Loss) -> bool {
    loss.count > 0 || loss.source != LossSource::Storage
}

/// The count of a loss from a source; 0 is not known, but of storage none.
pub fn how_many(count: u64, source: &str) -> String {
    match (count, source) {
        (0, source) if source != STORAGE => "unknown".to_owned(),
        (count, _) => count.to_string(),
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

/// What was lost, in words; or that nothing was.
pub fn lost(loss: &Loss) -> String {
    match is_lost(loss) {
        true => format!("{} lost", number_of(loss.count, things(loss))),
        false => "storing was interrupted, nothing is known to be lost".to_owned(),
    }
}

/// What a loss counts, in the plural. Of streams that is bytes if its cause goes on from that word, as "bytes were not captured";
/// else the cause says what it is, as segments or subscriptions.
pub fn things(loss: &Loss) -> &'static str {
    match loss.source {
        LossSource::Hits => "hits",
        LossSource::Packets => "packets",
        LossSource::Stream if loss.cause.starts_with("bytes") => "bytes of streams",
        LossSource::Stream => "parts of streams",
        LossSource::Names => "names",
        LossSource::Storage => "events",
    }
}

/// Name of the source of a loss.
pub fn source_name(source: LossSource) -> &'static str {
    match source {
        LossSource::Hits => "hits",
        LossSource::Packets => "packets",
        LossSource::Stream => "stream",
        LossSource::Names => "names",
        LossSource::Storage => STORAGE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As docs/format.md has it.
    #[test]
    fn storing_that_was_interrupted_lost_nothing() {
        let of = |source, count| Loss { source, count, since: 0, cause: "it was moved".to_owned() };
        let counts = |source: LossSource| [0, 3].map(|count| is_lost(&of(source, count)));
        assert_eq!(counts(LossSource::Storage), [false, true]);
        assert_eq!(counts(LossSource::Hits), [true, true]);
        let interrupted = lost(&of(LossSource::Storage, 0));
        assert_eq!(interrupted, "storing was interrupted, nothing is known to be lost");
        let many = |source: LossSource| how_many(0, source_name(source));
        assert_eq!([LossSource::Storage, LossSource::Names].map(many), ["0", "unknown"]);
    }

    #[test]
    fn a_number_that_is_not_known_is_none() {
        let of =
            |source, count, cause: &str| lost(&Loss { source, count, since: 0, cause: cause.to_owned() });
        let hits = [0, 1, 17].map(|count| of(LossSource::Hits, count, "the ring was full"));
        assert_eq!(hits, ["an unknown number of hits lost", "1 hit lost", "17 hits lost"]);
        let bytes = [1, 5].map(|count| of(LossSource::Stream, count, "bytes were not captured"));
        assert_eq!(bytes, ["1 byte of stream lost", "5 bytes of streams lost"]);
        assert_eq!(of(LossSource::Stream, 5, "TCP resets not believed"), "5 parts of streams lost");
        assert_eq!(of(LossSource::Storage, 5, "the disk was full"), "5 events lost");
        let either = [0, 1, 17].map(|count| number_of(count, "hits or events"));
        assert_eq!(either, ["an unknown number of hits or events", "1 hit or event", "17 hits or events"]);
    }
}
