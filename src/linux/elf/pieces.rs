//! A file, read in pieces up to a limit, and the little-endian numbers in it.

use std::cell::Cell;

use crate::linux::opened::Opened;

/// Bytes of one read.
pub(super) const CHUNK: usize = 64 << 10;
/// Maximum number of bytes read of one file: a static IOC with all drivers and debug information has 20 MB of symbols.
const MAX_READ: u64 = 128 << 20;

/// A file that is read piece by piece, up to a limit.
pub(super) struct Pieces<'a> {
    opened: &'a Opened,
    left: Cell<u64>,
}

impl<'a> Pieces<'a> {
    pub(super) fn of(opened: &'a Opened) -> Pieces<'a> {
        Pieces { opened, left: Cell::new(MAX_READ) }
    }

    /// Fills the head of `into`; returns the number of bytes.
    pub(super) fn read(&self, into: &mut [u8], offset: u64) -> usize {
        let most = usize::try_from(self.left.get()).unwrap_or(usize::MAX).min(into.len());
        let have = self.opened.read_some(into.get_mut(..most).unwrap_or_default(), offset);
        self.left.set(self.left.get().saturating_sub(have as u64));
        have
    }

    /// `N` bytes; `None` if the file ends first.
    pub(super) fn bytes<const N: usize>(&self, offset: u64) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        (self.read(&mut bytes, offset) == N).then_some(bytes)
    }

    /// Passes a range on in pieces of whole entries of `each` bytes, until `work` returns false, or the range or the
    /// file ends.
    pub(super) fn entries(&self, offset: u64, bytes: u64, each: usize, mut work: impl FnMut(&[u8]) -> bool) {
        let mut buffer = vec![0; CHUNK / each * each];
        let mut at = 0;
        while at < bytes {
            let wanted = buffer.len().min(usize::try_from(bytes - at).unwrap_or(usize::MAX));
            let have = self.read(buffer.get_mut(..wanted).unwrap_or_default(), offset.saturating_add(at));
            let whole = buffer.get(..have / each * each).unwrap_or_default();
            if whole.is_empty() || !whole.chunks_exact(each).all(&mut work) {
                return;
            }
            at += whole.len() as u64;
        }
    }
}

/// Numbers in a file: little-endian, as on all machines where probes are placed.
pub(super) fn half(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..at + 2).and_then(|bytes| bytes.try_into().ok()).map_or(0, u16::from_le_bytes)
}

pub(super) fn word(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_le_bytes)
}

pub(super) fn long(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes)
}
