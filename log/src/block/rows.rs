//! Encoding 1 of a body, which predates columns: all times, then all facts.

use super::template::take_postcard;
use super::varint;
use crate::event::Event;
use crate::format::BlockHeader;

/// The events of an unpacked body; `None` if it holds anything that a writer would not have written.
#[inline]
pub(super) fn read(header: &BlockHeader, body: &[u8]) -> Option<Vec<Event>> {
    let mut facts = body;
    for _ in 0..header.count {
        varint::take(&mut facts)?;
    }
    let mut times = body;
    let mut time = header.first;
    // A fact has at least one byte, and so has a time.
    let mut events = Vec::with_capacity((header.count as usize).min(body.len() / 2));
    for _ in 0..header.count {
        time = time.wrapping_add(varint::unzigzag(varint::take(&mut times)?) as u64);
        events.push(Event { time, fact: take_postcard(&mut facts)? });
    }
    facts.is_empty().then_some(events)
}
