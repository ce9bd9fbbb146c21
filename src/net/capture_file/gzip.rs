//! Unpacks gzip (RFC 1952) a piece at a time. Several members may follow each other, as `cat a.gz b.gz` makes them.

use std::io;

use iocrec_log::checksum::Checksum;
use miniz_oxide::inflate::stream::{inflate, InflateState};
use miniz_oxide::{DataFormat, MZFlush, MZStatus};

/// The first bytes of a member.
pub const MAGIC: [u8; 2] = [0x1f, 0x8b];
/// Fixed part of a member's header.
const HEADER: usize = 10;
/// Longest header with its texts; those are file names.
const LONGEST_HEADER: usize = 32 << 10;
/// CRC-32 and length behind a member.
const TRAILER: usize = 8;

/// A place within the packed data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    Header,
    Body,
    Trailer,
}

/// The state of unpacking.
pub struct Gzip {
    at: At,
    inflate: Box<InflateState>,
    crc: Checksum,
    length: u32,
    members: u32,
}

impl std::fmt::Debug for Gzip {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gzip").field("at", &self.at).field("members", &self.members).finish_non_exhaustive()
    }
}

/// Bytes taken from the packed data and given to the unpacked. If both are 0, more packed data is needed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unpacked {
    pub taken: usize,
    pub given: usize,
}

impl Gzip {
    /// At the start of the data.
    pub fn new() -> Gzip {
        Gzip {
            at: At::Header,
            inflate: InflateState::new_boxed(DataFormat::Raw),
            crc: Checksum::new(),
            length: 0,
            members: 0,
        }
    }

    /// Whether the data may end here.
    pub fn is_between_members(&self) -> bool {
        self.at == At::Header && self.members > 0
    }

    /// Unpacks some of the data.
    ///
    /// # Errors
    /// The data is damaged.
    pub fn unpack(&mut self, packed: &[u8], out: &mut [u8]) -> io::Result<Unpacked> {
        match self.at {
            At::Header if packed.is_empty() => Ok(Unpacked::default()),
            // some tapes and tools pad with zeros
            At::Header if self.members > 0 && packed.first() == Some(&0) => {
                let zeros = packed.iter().take_while(|byte| **byte == 0).count();
                Ok(Unpacked { taken: zeros, given: 0 })
            }
            At::Header => match header(packed)? {
                Some(taken) => {
                    self.at = At::Body;
                    Ok(Unpacked { taken, given: 0 })
                }
                None if packed.len() >= LONGEST_HEADER => Err(damaged()),
                None => Ok(Unpacked::default()),
            },
            At::Body => {
                let done = inflate(&mut self.inflate, packed, out, MZFlush::None);
                let (taken, given) = (done.bytes_consumed, done.bytes_written);
                let new = out.get(..given).unwrap_or_default();
                self.crc.update(new);
                self.length = self.length.wrapping_add(given as u32);
                match done.status {
                    Ok(MZStatus::StreamEnd) => self.at = At::Trailer,
                    Ok(_) => {}
                    Err(miniz_oxide::MZError::Buf) => {}
                    Err(_) => return Err(damaged()),
                }
                Ok(Unpacked { taken, given })
            }
            At::Trailer => {
                let Some(trailer) = packed.first_chunk::<TRAILER>() else { return Ok(Unpacked::default()) };
                let [a, b, c, d, e, f, g, h] = *trailer;
                let crc = std::mem::replace(&mut self.crc, Checksum::new()).finish();
                if (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h])) != (crc, self.length)
                {
                    return Err(damaged());
                }
                self.inflate.reset(DataFormat::Raw);
                (self.at, self.length) = (At::Header, 0);
                self.members = self.members.saturating_add(1);
                Ok(Unpacked { taken: TRAILER, given: 0 })
            }
        }
    }
}

fn damaged() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the gzip data is damaged")
}

/// Length of the member's header, if all of it is there.
fn header(packed: &[u8]) -> io::Result<Option<usize>> {
    const HEADER_CRC: u8 = 2;
    const EXTRA: u8 = 4;
    const NAME: u8 = 8;
    const COMMENT: u8 = 16;
    let Some(&[first, second, method, flags, ..]) = packed.first_chunk::<HEADER>() else { return Ok(None) };
    if [first, second] != MAGIC || method != 8 || flags & 0xe0 != 0 {
        return Err(damaged());
    }
    let mut length = HEADER;
    if flags & EXTRA != 0 {
        let Some(&[low, high]) = packed.get(length..).and_then(|rest| rest.first_chunk()) else {
            return Ok(None);
        };
        length += 2 + usize::from(u16::from_le_bytes([low, high]));
    }
    for text in [NAME, COMMENT] {
        if flags & text != 0 {
            let rest = packed.get(length..).unwrap_or_default();
            let Some(end) = rest.iter().position(|byte| *byte == 0) else { return Ok(None) };
            length += end + 1;
        }
    }
    if flags & HEADER_CRC != 0 {
        length += 2;
    }
    Ok((length <= packed.len()).then_some(length))
}
