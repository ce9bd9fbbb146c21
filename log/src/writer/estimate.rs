//! What facts will take in a log, estimated before they are pushed: for a recorder that may spend only so much on them.

use crate::event::Fact;

/// Bytes of an event besides its fact: its time and its shape, which hardly differ from one event to the next.
const BESIDE: usize = 1;

/// An upper estimate of the bytes that these facts take in a log: those of their encoding, packed by themselves, as a
/// block packs them together with others. What each block takes besides its events
/// (some 100 bytes) is not counted.
pub fn packed_size(facts: &[Fact]) -> usize {
    let mut bytes = Vec::new();
    for fact in facts {
        if let Ok(with) = postcard::to_extend(fact, std::mem::take(&mut bytes)) {
            bytes = with;
        }
    }
    let beside = facts.len().saturating_mul(BESIDE);
    // without memory to pack them, as large as they are
    zstd::bulk::compress(&bytes, 1).map_or(bytes.len(), |packed| packed.len()).saturating_add(beside)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::{Batch, Encoded, Packer};
    use crate::event::{Event, Snapshot, Value};

    /// What a block takes, without its header.
    fn packed(facts: &[Fact]) -> usize {
        let (mut batch, mut encoded) = (Batch::default(), Encoded::default());
        for (number, fact) in facts.iter().enumerate() {
            assert!(encoded.set(fact));
            // 128 are read at a time, twenty times a second
            let time = 1_000_000_000 + number as u64 / 128 * 50_123_456;
            batch.push(&Event { time, fact: fact.clone() }, &encoded);
        }
        let block = Packer::new(1, 8, 0).unwrap().pack(&mut batch, 1, 1, false).unwrap();
        block.len() - crate::format::BLOCK_HEADER
    }

    fn snapshots(count: u32, value: impl Fn(u32) -> f64, stamp: impl Fn(u32) -> Option<i64>) -> Vec<Fact> {
        let snapshot = |record| {
            let (value, stamp) = (Value::Double(value(record)), stamp(record));
            Fact::Snapshot(Snapshot { record, value, severity: 0, status: 0, stamp })
        };
        (1..=count).map(snapshot).collect()
    }

    #[test]
    fn never_less_than_a_block_takes_and_not_twice_as_much() {
        let noise = |record: u32| (f64::from(record) * 78.233).sin();
        let scanned = |record: u32| Some(1_770_000_000_000_000_000 + i64::from(record) * 997);
        for (what, facts) in [
            ("never processed", snapshots(1024, |_| 0.0, |_| None)),
            ("noise", snapshots(1024, noise, scanned)),
            ("noise, never processed", snapshots(1024, noise, |_| None)),
        ] {
            // as the recorder spends: batch by batch
            let spent: usize = facts.chunks(128).map(packed_size).sum();
            let taken = packed(&facts);
            println!("{what}: {spent} estimated, {taken} taken");
            assert!(spent >= taken, "{what}: {spent} estimated, {taken} taken");
            assert!(spent < taken * 2, "{what}: {spent} estimated, {taken} taken");
        }
    }
}
