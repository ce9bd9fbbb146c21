//! CRC-32 (ISO-HDLC, as of zip and Ethernet), the checksum of segments, blocks and packed captures.
//!
//! Who reads gigabytes needs it fast: with the feature `fast-checksum`, it takes 16 KiB of tables and the processor's
//! instructions for it. The agent, which must fit on small flash and writes some megabytes a minute, takes 1 KiB of tables.

use std::fmt;

/// A checksum of bytes that come in parts.
pub struct Checksum(inner::State);

impl fmt::Debug for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Checksum")
    }
}

/// The checksum of these bytes.
pub fn checksum(bytes: &[u8]) -> u32 {
    let mut sum = Checksum::new();
    sum.update(bytes);
    sum.finish()
}

impl Checksum {
    /// Of no bytes.
    #[allow(clippy::new_without_default)] // the one of no bytes is nothing to fall back to
    pub fn new() -> Checksum {
        Checksum(inner::new())
    }

    /// Takes more bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The checksum of all bytes taken.
    pub fn finish(self) -> u32 {
        self.0.finalize()
    }
}

#[cfg(feature = "fast-checksum")]
mod inner {
    pub type State = crc32fast::Hasher;

    pub fn new() -> State {
        State::new()
    }
}

#[cfg(not(feature = "fast-checksum"))]
mod inner {
    use crc::{Crc, Digest, Table, CRC_32_ISO_HDLC};

    static CRC: Crc<u32, Table<1>> = Crc::<u32, Table<1>>::new(&CRC_32_ISO_HDLC);

    pub type State = Digest<'static, u32, Table<1>>;

    pub fn new() -> State {
        CRC.digest()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The check value of the catalogue of CRCs, and what another implementation says of any bytes in any parts.
    #[test]
    fn as_others_compute_it() {
        assert_eq!(checksum(b"123456789"), 0xcbf4_3926);
        let bytes: Vec<u8> = (0..5000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        for cut in [0, 1, 7, 64, 4999, 5000] {
            let mut sum = Checksum::new();
            sum.update(&bytes[..cut]);
            sum.update(&bytes[cut..]);
            assert_eq!(sum.finish(), crc32fast::hash(&bytes));
        }
    }
}
