//! The reader against what nobody would write: golden segments, changed at random. A fixed number of times here,
//! as long as one likes with `make fuzz`.

mod common;

use common::mutate::Pieces;
use common::{bytes, read_segment};
use iocrec_log::context::Context;
use iocrec_log::format::FIRST_BLOCK;
use iocrec_log::reader::{Block, Cause, Damage};
use iocrec_testing::chance::{fuzz, mutate, Random};
use std::collections::HashSet;
use std::path::Path;

fn golden() -> Vec<Vec<u8>> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut files: Vec<_> =
        std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|ending| ending == "iocrec"));
    files.sort();
    assert!(files.len() >= 2);
    files.iter().map(|file| std::fs::read(file).unwrap()).collect()
}

/// Blocks and damage follow each other without gaps to the end of the file.
fn assert_covered(found: &[Result<Block, Damage>], length: usize) {
    let mut at = FIRST_BLOCK as u64;
    for part in found {
        let (offset, length) = match part {
            Ok(block) => (block.offset, block.length),
            Err(damage) if damage.cause == Cause::Header || damage.offset < FIRST_BLOCK as u64 => continue,
            Err(damage) => (damage.offset, damage.length),
        };
        assert_eq!(offset, at, "{found:?}");
        at += length;
    }
    assert_eq!(at, (length as u64).max(FIRST_BLOCK as u64), "{found:?}");
}

/// Bytes that were changed give no event that was not written.
#[test]
fn bytes_of_segments() {
    let golden = golden();
    let good: HashSet<Vec<u8>> = golden
        .iter()
        .flat_map(|segment| read_segment(segment).unwrap())
        .flat_map(|block| block.unwrap().events)
        .map(|event| bytes(&event))
        .collect();
    fuzz(3000, |random: &mut Random| {
        let mut segment = golden[random.below(golden.len())].clone();
        mutate(random, &mut segment);
        if let Ok(found) = read_segment(&segment) {
            assert_covered(&found, segment.len());
            for block in found.iter().flatten() {
                assert!(block.events.iter().all(|event| good.contains(&bytes(event))));
            }
        }
    });
}

/// Bodies that were changed and have right checksums: whatever they give, it is as much as their headers say, the
/// same each time, and nothing that a context can't take.
#[test]
fn bodies_of_blocks() {
    let golden: Vec<Pieces> = golden().iter().map(|segment| Pieces::of(segment)).collect();
    let (mut whole, mut refused) = (0_u64, 0_u64);
    fuzz(1500, |random: &mut Random| {
        let mut pieces = golden[random.below(golden.len())].clone();
        pieces.mutate(random);
        let segment = pieces.segment();
        let found = read_segment(&segment).unwrap();
        assert_covered(&found, segment.len());
        let mut context = Context::default();
        for part in &found {
            match part {
                Ok(block) => {
                    whole += 1;
                    let piece = &pieces.blocks[block.sequence as usize];
                    let count = u32::from_le_bytes(piece.header[24..28].try_into().unwrap());
                    assert_eq!(block.events.len(), count as usize);
                    block.events.iter().for_each(|event| context.apply(event.time, &event.fact));
                }
                Err(damage) => {
                    refused += 1;
                    // Garbage is what follows a header that can't be true.
                    let expected = [Cause::Content, Cause::Newer, Cause::Garbage];
                    assert!(expected.contains(&damage.cause), "{damage}");
                }
            }
        }
        let again = read_segment(&segment).unwrap();
        let events = |found: &[Result<Block, Damage>]| -> Vec<Vec<u8>> {
            found.iter().flatten().flat_map(|block| &block.events).map(bytes).collect()
        };
        assert_eq!(events(&found), events(&again));
    });
    println!("{whole} blocks read, {refused} refused");
    // Both happen, or it is not the decoder that was tried.
    assert!(std::env::var("FUZZ_SEED").is_ok() || (whole > 100 && refused > 100));
}
