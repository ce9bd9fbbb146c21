//! The account of the segments in the directory, and the cap on it.

use crate::name::SegmentName;
use crate::storage::Storage;
use std::collections::VecDeque;
use std::io;

/// The segments in the directory, oldest first. A length here is never less than on disk.
#[derive(Debug)]
pub(super) struct Shelf {
    segments: VecDeque<(SegmentName, u64)>,
    total: u64,
    cap: u64,
    deleted: u64,
}

impl Shelf {
    pub fn new(cap: u64) -> Self {
        Shelf { segments: VecDeque::new(), total: 0, cap, deleted: 0 }
    }

    /// Sees what is there.
    pub fn look(&mut self, storage: &mut impl Storage) -> io::Result<()> {
        let files = storage.list()?;
        let named = files.iter().filter_map(|(name, length)| Some((SegmentName::parse(name)?, *length)));
        let mut segments: Vec<_> = named.collect();
        segments.sort_unstable();
        self.total = segments.iter().fold(0, |sum: u64, (_, length)| sum.saturating_add(*length));
        self.segments = segments.into();
        Ok(())
    }

    /// Deletes segments, oldest first, until `more` bytes can be written. With `open`, the newest
    /// stays. `Ok(false)` if that can't be enough; then nothing is deleted.
    pub fn make_room(&mut self, storage: &mut impl Storage, more: u64, open: bool) -> io::Result<bool> {
        let stays = if open { self.segments.back().map_or(0, |(_, length)| *length) } else { 0 };
        if stays.saturating_add(more) > self.cap {
            return Ok(false);
        }
        while self.total.saturating_add(more) > self.cap {
            let Some(&(name, length)) = self.segments.front() else { break };
            match storage.remove(&name.to_string()) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {} // whoever deleted it, it is gone
            }
            self.segments.pop_front();
            self.total = self.total.saturating_sub(length);
            self.deleted += 1;
        }
        Ok(true)
    }

    /// A new segment.
    pub fn add(&mut self, name: SegmentName) {
        self.segments.push_back((name, 0));
    }

    /// The newest segment is longer by `bytes`.
    pub fn grow(&mut self, bytes: u64) {
        if let Some((_, length)) = self.segments.back_mut() {
            *length += bytes;
            self.total = self.total.saturating_add(bytes);
        }
    }

    /// The newest segment is gone.
    pub fn forget_newest(&mut self) {
        if let Some((_, length)) = self.segments.pop_back() {
            self.total = self.total.saturating_sub(length);
        }
    }

    pub fn newest(&self) -> Option<SegmentName> {
        self.segments.back().map(|(name, _)| *name)
    }

    pub fn total(&self) -> u64 {
        self.total
    }

    pub fn count(&self) -> usize {
        self.segments.len()
    }

    pub fn deleted(&self) -> u64 {
        self.deleted
    }
}
