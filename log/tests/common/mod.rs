//! What the tests of the log share.
#![allow(dead_code)] // each test program uses its own part

pub mod disk;
pub mod mutate;
#[cfg(unix)]
#[path = "../../../tests/rig/not_run.rs"]
pub mod not_run;
#[cfg(target_os = "linux")]
pub mod small;

use disk::Disk;
use iocrec_log::event::{Event, Fact};
use iocrec_log::reader::{Block, Damage, ReadError, Segment};
use std::io::Cursor;
use std::path::Path;

pub const SECOND: u64 = 1_000_000_000;

/// An event as bytes: equal if and only if the events are, NaNs included.
pub fn bytes(event: &Event) -> Vec<u8> {
    postcard::to_allocvec(event).unwrap()
}

/// Compares lists of events bit by bit.
#[track_caller]
pub fn assert_same(read: &[Event], written: &[Event]) {
    let different = read.iter().zip(written).position(|(a, b)| bytes(a) != bytes(b));
    if let Some(place) = different {
        panic!("event {place}: read {:?}, written {:?}", read[place], written[place]);
    }
    assert_eq!(read.len(), written.len(), "number of events");
}

/// All that a segment gives.
pub fn read_segment(bytes: &[u8]) -> Result<Vec<Result<Block, Damage>>, ReadError> {
    let mut segment = Segment::read(Cursor::new(bytes), Path::new("a segment"))?;
    Ok(std::iter::from_fn(|| segment.next_block()).collect())
}

/// The events of all segments on a disk, keyframes and ends of segments left out. Panics at damage that is not a cut.
pub fn read_all(disk: &Disk) -> Vec<Event> {
    let mut events = Vec::new();
    for (name, bytes) in disk.segments() {
        match read_segment(&bytes) {
            Ok(found) => {
                for block in found {
                    match block {
                        Ok(block) if !block.keyframe && !is_end(&block) => events.extend(block.events),
                        Ok(_) => {}
                        Err(damage) => {
                            assert_eq!(damage.cause, iocrec_log::reader::Cause::Cut, "{name}: {damage}")
                        }
                    }
                }
            }
            Err(ReadError::Empty(_) | ReadError::Cut(_)) => {}
            Err(error) => panic!("{name}: {error}"),
        }
    }
    events
}

/// Does the writer say with that block, and nothing else, that the segment ends there?
pub fn is_end(block: &Block) -> bool {
    let [Event { fact: Fact::SegmentEnd(ended), .. }] = &block.events[..] else { return false };
    ended.blocks == block.sequence + 1
}

/// Splits the writer's own loss events off.
pub fn split_losses(events: Vec<Event>) -> (Vec<Event>, u64) {
    let (losses, others): (Vec<_>, Vec<_>) = events.into_iter().partition(is_storage_loss);
    let lost = losses.iter().map(|event| if let Fact::Loss(loss) = &event.fact { loss.count } else { 0 });
    (others, lost.sum())
}

fn is_storage_loss(event: &Event) -> bool {
    matches!(&event.fact, Fact::Loss(loss) if loss.source == iocrec_log::event::LossSource::Storage)
}

/// A mark that compresses to no less than half, so that logs really grow.
pub fn noise_mark(time: u64, length: usize, seed: &mut u64) -> Event {
    let mut text = String::with_capacity(length);
    while text.len() < length {
        *seed ^= *seed << 13;
        *seed ^= *seed >> 7;
        *seed ^= *seed << 17;
        text.push_str(&format!("{seed:x}"));
    }
    Event { time, fact: Fact::Mark(text) }
}
