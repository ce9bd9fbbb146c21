//! The format pcap (draft-ietf-opsawg-pcap): a header of 24 bytes, then packets, each behind a header of 16.

use super::block::Order;
use super::{pcapng, Problem, Record, Step, LONGEST};

/// Length of the file's header.
pub const HEADER: usize = 24;
/// Length of a packet's header.
const PACKET: usize = 16;

/// The first four bytes, with times in microseconds and in nanoseconds.
const MICRO: u32 = 0xa1b2_c3d4;
const NANO: u32 = 0xa1b2_3c4d;

/// Byte order, and nanoseconds of a unit of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variant(Order, u32);

/// The variants that these four bytes begin.
pub fn variant(magic: [u8; 4]) -> Option<Variant> {
    [(MICRO, 1000), (NANO, 1)].into_iter().find_map(|(value, unit)| {
        if value == u32::from_le_bytes(magic) {
            return Some(Variant(Order::Little, unit));
        }
        (value == u32::from_be_bytes(magic)).then_some(Variant(Order::Big, unit))
    })
}

/// Whether a capture in any format can begin with these bytes.
pub fn could_begin(bytes: &[u8]) -> bool {
    let marks = [MICRO, NANO].into_iter().flat_map(|magic| [magic.to_le_bytes(), magic.to_be_bytes()]);
    let begins = |mark: [u8; 4]| mark.iter().zip(bytes).all(|(mark, byte)| mark == byte);
    marks.chain([pcapng::MAGIC]).any(begins)
}

/// A file in this format.
#[derive(Debug)]
pub struct Pcap {
    variant: Variant,
    link: u16,
}

impl Pcap {
    /// Reads the file's header.
    pub fn new(variant: Variant, header: &[u8; HEADER]) -> Result<Pcap, Problem> {
        let Variant(order, _) = variant;
        let version = |at| order.u16(header, at).unwrap_or(0);
        // 2.3 and older mix up the two lengths of a packet; no program has written them since 1998
        if version(4) != 2 || version(6) < 4 {
            return Err(Problem::Version { major: version(4), minor: version(6) });
        }
        // the upper half says whether the link's checksum follows each packet
        let link = order.u32(header, 20).unwrap_or(0) as u16;
        Ok(Pcap { variant, link })
    }

    /// Whether these bytes begin another file of this byte order. As the time of a packet they would be of the year 2055.
    pub fn begins_again(&self, bytes: &[u8]) -> bool {
        let is_like_it = |Variant(order, _)| order == self.variant.0;
        bytes.first_chunk().and_then(|magic| variant(*magic)).is_some_and(is_like_it)
    }

    /// The packet that these bytes begin with.
    pub fn step(&self, bytes: &[u8]) -> Result<Step, Problem> {
        let Variant(order, unit) = self.variant;
        let word = |at| order.u32(bytes, at);
        let (Some(seconds), Some(fraction), Some(kept), Some(length)) = (word(0), word(4), word(8), word(12))
        else {
            return Ok(Step::Need(PACKET));
        };
        let kept = kept as usize;
        if kept > LONGEST {
            return Err(Problem::damaged("a packet's length"));
        }
        let used = PACKET + kept;
        if bytes.len() < used {
            return Ok(Step::Need(used));
        }
        let wall = i64::from(seconds) * 1_000_000_000 + i64::from(fraction) * i64::from(unit);
        let data = PACKET..used;
        Ok(Step::Packet(Record {
            used,
            data,
            length,
            link: self.link,
            wall: Some(wall),
            dropped: 0,
            interface: 0,
        }))
    }
}
