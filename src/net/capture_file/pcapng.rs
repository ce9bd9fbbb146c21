//! The format pcapng (draft-ietf-opsawg-pcapng): blocks, each with its type and length. A section header begins a
//! section, which has a byte order and interfaces of its own; sections may follow each other in one file.

use super::block::Order;
use super::ticks::Ticks;
use super::{Problem, Record, Step, LONGEST};

/// The type of a section header, which reads the same in both byte orders.
pub const MAGIC: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];

const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
/// The form of a packet before 2010.
const OLD_PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const STATISTICS: u32 = 5;
const PACKET: u32 = 6;

/// In a section header, in the section's byte order.
const BYTE_ORDER: u32 = 0x1a2b_3c4d;
/// Type and length, and the length again at the end.
const FRAME: usize = 12;
/// Longest block that is kept in memory: a packet with its options. A longer one must be of no interest.
const LONGEST_BLOCK: usize = LONGEST + (128 << 10);
/// Most interfaces of a section: more than any machine captures on.
const MAX_INTERFACES: usize = 4096;

/// An interface of the section.
#[derive(Debug)]
struct Interface {
    link: u16,
    /// Bytes kept of each packet; 0 for all.
    kept: u32,
    ticks: Ticks,
    /// Lost packets reported so far.
    dropped: u64,
}

/// A file in this format, at some place.
#[derive(Debug, Default)]
pub struct Pcapng {
    order: Order,
    interfaces: Vec<Interface>,
}

impl Pcapng {
    /// The block that these bytes begin with.
    pub fn step(&mut self, bytes: &[u8]) -> Result<Step, Problem> {
        if bytes.len() < FRAME {
            return Ok(Step::Need(FRAME));
        }
        if bytes.starts_with(&MAGIC) {
            self.order = match [Order::Little, Order::Big].map(|order| order.u32(bytes, 8)) {
                [Some(BYTE_ORDER), _] => Order::Little,
                [_, Some(BYTE_ORDER)] => Order::Big,
                _ => return Err(Problem::damaged("a section's byte order")),
            };
        }
        let kind = self.order.u32(bytes, 0).unwrap_or(0);
        let total = self.order.u32(bytes, 4).unwrap_or(0) as usize;
        if total < FRAME || !total.is_multiple_of(4) {
            return Err(Problem::damaged("a block's length"));
        }
        if total > LONGEST_BLOCK {
            if matches!(kind, INTERFACE | OLD_PACKET | SIMPLE_PACKET | STATISTICS | PACKET) {
                return Err(Problem::damaged("a block's length"));
            }
            if kind == SECTION {
                self.section(bytes)?;
            }
            return Ok(Step::Skip(total as u64));
        }
        let Some(block) = bytes.get(..total) else { return Ok(Step::Need(total)) };
        let end = total - 4;
        if self.order.u32(block, end) != Some(total as u32) {
            return Err(Problem::damaged("a block's length"));
        }
        let block = block.get(..end).unwrap_or_default();
        match kind {
            SECTION => self.section(block)?,
            INTERFACE => self.interface(block).ok_or(Problem::damaged("an interface"))?,
            STATISTICS => {
                let dropped = self.statistics(block).ok_or(Problem::damaged("an interface's statistics"))?;
                return Ok(Step::Block(total, dropped));
            }
            PACKET | OLD_PACKET => {
                let record = self.packet(block, kind == OLD_PACKET, total);
                return record.map(Step::Packet).ok_or(Problem::damaged("a packet"));
            }
            SIMPLE_PACKET => {
                let record = self.simple_packet(block, total);
                return record.map(Step::Packet).ok_or(Problem::damaged("a packet"));
            }
            // names, secrets, custom blocks
            _ => {}
        }
        Ok(Step::Block(total, 0))
    }

    fn section(&mut self, block: &[u8]) -> Result<(), Problem> {
        let version = |at| self.order.u16(block, at);
        match (version(12), version(14)) {
            (Some(1), Some(_)) => self.interfaces.clear(),
            (Some(major), Some(minor)) => return Err(Problem::Version { major, minor }),
            _ => return Err(Problem::damaged("a section header")),
        }
        Ok(())
    }

    fn interface(&mut self, block: &[u8]) -> Option<()> {
        let order = self.order;
        let (link, kept) = (order.u16(block, 8)?, order.u32(block, 12)?);
        let mut ticks = Ticks::default();
        options(order, block.get(16..)?, |code, value| {
            match code {
                // if_tsresol
                9 => ticks = ticks.with_resolution(*value.first()?),
                // if_tsoffset
                14 => ticks = ticks.with_offset(order.u64(value, 0)?.cast_signed()),
                _ => {}
            }
            Some(())
        })?;
        if self.interfaces.len() >= MAX_INTERFACES {
            return None;
        }
        self.interfaces.push(Interface { link, kept, ticks, dropped: 0 });
        Some(())
    }

    /// Returns the number of lost packets that is new.
    fn statistics(&mut self, block: &[u8]) -> Option<u64> {
        let order = self.order;
        let interface = self.interfaces.get_mut(order.u32(block, 8)? as usize)?;
        let mut dropped = 0;
        options(order, block.get(20..)?, |code, value| {
            // isb_ifdrop, isb_osdrop: some programs give the same number in both
            if matches!(code, 5 | 7) {
                dropped = order.u64(value, 0)?.max(dropped);
            }
            Some(())
        })?;
        let new = dropped.saturating_sub(interface.dropped);
        interface.dropped = interface.dropped.max(dropped);
        Some(new)
    }

    fn packet(&mut self, block: &[u8], old: bool, used: usize) -> Option<Record> {
        let order = self.order;
        let word = |at| order.u32(block, at);
        let (high, low, kept, length) = (word(12)?, word(16)?, word(20)? as usize, word(24)?);
        let number = if old { u32::from(order.u16(block, 8)?) } else { word(8)? };
        let interface = self.interfaces.get_mut(number as usize)?;
        let data = 28..28usize.checked_add(kept)?;
        let mut dropped = match order.u16(block, 10)? {
            count if old && count != u16::MAX => count.into(),
            _ => 0,
        };
        let rest = block.get(data.end..)?;
        options(order, rest.get(padding(kept)..).unwrap_or_default(), |code, value| {
            // epb_dropcount
            if code == 4 && !old {
                dropped = order.u64(value, 0)?;
            }
            Some(())
        })?;
        interface.dropped = interface.dropped.saturating_add(dropped);
        let wall = interface.ticks.wall(u64::from(high) << 32 | u64::from(low));
        Some(Record { used, data, length, link: interface.link, wall, dropped, interface: number })
    }

    fn simple_packet(&self, block: &[u8], used: usize) -> Option<Record> {
        let interface = self.interfaces.first()?;
        let length = self.order.u32(block, 8)?;
        let kept = if interface.kept == 0 { length } else { length.min(interface.kept) };
        let data = 12..12usize.checked_add(kept as usize)?;
        block.get(data.clone())?;
        Some(Record { used, data, length, link: interface.link, wall: None, dropped: 0, interface: 0 })
    }
}

/// Bytes that fill a value up to a multiple of four.
fn padding(length: usize) -> usize {
    length.wrapping_neg() & 3
}

/// Hands out a block's options, code and value. `None` if they do not fit into their block, or `each` refuses one.
fn options(order: Order, mut bytes: &[u8], mut each: impl FnMut(u16, &[u8]) -> Option<()>) -> Option<()> {
    while !bytes.is_empty() {
        let (code, length) = (order.u16(bytes, 0)?, usize::from(order.u16(bytes, 2)?));
        if code == 0 {
            break;
        }
        let rest = bytes.get(4..)?;
        each(code, rest.get(..length)?)?;
        bytes = rest.get(length + padding(length)..)?;
    }
    Some(())
}
