//! Retention: the segments in the directory, the cap on them, their pins and their age.
//!
//! The account follows `du`, not lengths: a segment counts with its length (or its preallocated space) in whole units
//! of the disk, plus one unit for its directory entry and its list of extents. The directory's own size also counts.
//! The account is never less than the actual use of the disk.

use super::place::Missing;
use crate::clock::can_be_right;
use crate::name::{Pin, SegmentName};
use crate::storage::Storage;
use std::collections::VecDeque;
use std::io;
use std::time::Duration;

/// Time since the machine's boot, nanoseconds, before which its wall clock may not have been set: files dated by it are not
/// taken for old.
const CLOCK_SET: u64 = 600_000_000_000;

/// A moment, by the best clock available for it.
#[derive(Clone, Copy, Debug)]
enum Moment {
    /// CLOCK_MONOTONIC, in this run.
    Monotonic(u64),
    /// The wall clock: the file's modification time.
    Wall(i64),
}

impl Moment {
    /// Nanoseconds since that moment; `None` if unknown.
    fn age(self, now: u64, wall: i64) -> Option<u64> {
        match self {
            Moment::Monotonic(then) => Some(now.saturating_sub(then)),
            // nor if the clock is behind, as on a machine without one that has just begun
            Moment::Wall(then) if !can_be_right(then) || wall < then => None,
            Moment::Wall(then) => Some(wall.abs_diff(then)),
        }
    }
}

/// A segment in the directory.
#[derive(Clone, Debug)]
struct Entry {
    /// Its current file name.
    name: SegmentName,
    /// Its intended pin. Its file is renamed when the disk allows it.
    pin: Pin,
    length: u64,
    /// Bytes of disk space counted for it.
    taken: u64,
    /// The latest possible time of its last write.
    ended: Moment,
    /// Pushed events that this run has stored in it.
    stored: Missing,
    /// Lost events that it reports.
    reported: Missing,
}

/// The segments in the directory, oldest first; while one is being written it is the last.
#[derive(Debug)]
pub(super) struct Retention {
    segments: VecDeque<Entry>,
    cap: u64,
    unit: u64,
    /// Bytes that the directory itself takes on the disk.
    own: u64,
    sums: Sums,
    deleted: u64,
    /// Whether there are names or deletions that a power cut would undo.
    unsynced: bool,
}

/// Sums over all segments.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sums {
    /// Length, bytes.
    pub length: u64,
    /// Bytes of disk space counted for them.
    pub taken: u64,
    /// Number of pinned segments.
    pub pinned: usize,
    /// Bytes counted for pinned segments.
    pub pinned_taken: u64,
}

impl Retention {
    pub fn new(cap: u64, unit: u64) -> Self {
        let (segments, sums) = (VecDeque::new(), Sums::default());
        Retention { segments, cap, unit, own: unit, sums, deleted: 0, unsynced: false }
    }

    /// The directory may be on another file system now, whose unit is this. [List](Self::look) it afterwards.
    pub fn count_in(&mut self, unit: u64) {
        self.unit = unit;
    }

    /// Computes the sums again. Call it after any change.
    fn recount(&mut self) {
        self.sums = self.segments.iter().fold(Sums::default(), |sums, entry| {
            let pinned = entry.pin != Pin::No;
            Sums {
                length: sums.length.saturating_add(entry.length),
                taken: sums.taken.saturating_add(entry.taken),
                pinned: sums.pinned + usize::from(pinned),
                pinned_taken: sums.pinned_taken.saturating_add(if pinned { entry.taken } else { 0 }),
            }
        });
    }

    /// Bytes of disk space counted for a segment of this length.
    pub fn cost(&self, length: u64) -> u64 {
        length.checked_next_multiple_of(self.unit).unwrap_or(u64::MAX).saturating_add(self.unit)
    }

    /// Maximum length of a segment that takes no more than `room`.
    pub fn longest(&self, room: u64) -> u64 {
        (room / self.unit).saturating_sub(1) * self.unit
    }

    /// Bytes that all segments may take together.
    pub fn room(&self) -> u64 {
        self.cap.saturating_sub(self.own)
    }

    /// Lists the directory. No segment may be open.
    pub fn look(&mut self, storage: &mut impl Storage) -> io::Result<()> {
        let files = storage.list()?;
        self.own = storage.own_size();
        let before = std::mem::take(&mut self.segments);
        for file in files {
            let Some(name) = SegmentName::parse(&file.name) else { continue };
            let known = before.binary_search_by(|entry| entry.name.order().cmp(&name.order()));
            let known = known.ok().and_then(|place| before.get(place));
            self.segments.push_back(Entry {
                name,
                pin: known.map_or(name.pin, |entry| entry.pin),
                length: file.length,
                taken: self.cost(file.length).max(file.taken.saturating_add(self.unit)),
                ended: known.map_or(Moment::Wall(file.modified), |entry| entry.ended),
                stored: known.map_or(Missing::default(), |entry| entry.stored),
                reported: known.map_or(Missing::default(), |entry| entry.reported),
            });
        }
        self.segments.make_contiguous().sort_unstable_by_key(|entry| entry.name);
        self.recount();
        Ok(())
    }

    /// Frees the space that killed recorders had preallocated.
    pub fn trim(&mut self, storage: &mut impl Storage) -> io::Result<()> {
        let mut trimmed = false;
        for entry in self.segments.iter().filter(|entry| entry.taken > self.cost(entry.length)) {
            // Space that can't be freed still counts.
            trimmed |= storage.trim(&entry.name.to_string()).is_ok();
        }
        if trimmed {
            self.look(storage)?;
        }
        Ok(())
    }

    /// Deletes segments until there is room for `more` bytes. With `open`, the newest stays. Returns `Ok(false)`, and
    /// deletes nothing, if that can't be enough.
    pub fn make_room(&mut self, storage: &mut impl Storage, more: u64, open: bool) -> io::Result<bool> {
        let stays = if open { self.segments.back().map_or(0, |entry| entry.taken) } else { 0 };
        if stays.saturating_add(more) > self.room() {
            return Ok(false);
        }
        while self.sums.taken.saturating_add(more) > self.room() {
            if self.drop_one(storage, open, true)?.is_none() {
                break;
            }
        }
        self.sync(storage)?; // or a power cut would bring them back beside their replacement
        Ok(true)
    }

    /// Deletes the oldest segment that is not pinned; with `pinned`, the oldest of all if all are pinned. Returns the
    /// bytes that it took. With `open`, the newest stays. [Sync](Self::sync) afterwards.
    pub fn drop_one(
        &mut self,
        storage: &mut impl Storage,
        open: bool,
        pinned: bool,
    ) -> io::Result<Option<u64>> {
        let closed = self.segments.len() - usize::from(open && !self.segments.is_empty());
        let unpinned = self.segments.iter().take(closed).position(|entry| entry.pin == Pin::No);
        let Some(place) = unpinned.or((pinned && closed > 0).then_some(0)) else { return Ok(None) };
        self.drop_at(storage, place).map(Some)
    }

    /// Deletes a segment. Returns the bytes that it took.
    fn drop_at(&mut self, storage: &mut impl Storage, place: usize) -> io::Result<u64> {
        let Some(entry) = self.segments.get(place) else { return Ok(0) };
        match storage.remove(&entry.name.to_string()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => self.unsynced = true, // it is deleted, whoever did it
        }
        self.deleted += 1;
        let taken = self.segments.remove(place).map_or(0, |entry| entry.taken);
        self.recount();
        Ok(taken)
    }

    /// Deletes segments that are not pinned and whose last event is older than `most`. With `open`, the newest stays.
    pub fn drop_old(
        &mut self,
        storage: &mut impl Storage,
        most: Duration,
        now: u64,
        open: bool,
    ) -> io::Result<()> {
        let (most, wall) = (super::nanoseconds(most), storage.wall_clock());
        let mut place = 0;
        while place + usize::from(open) < self.segments.len() {
            let old = self.segments.get(place).is_some_and(|entry| {
                let is_known = now >= CLOCK_SET || matches!(entry.ended, Moment::Monotonic(_));
                entry.pin == Pin::No && is_known && entry.ended.age(now, wall).is_some_and(|age| age > most)
            });
            if old {
                self.drop_at(storage, place)?;
            } else {
                place += 1;
            }
        }
        self.sync(storage)
    }

    /// Pins the segments that were written to in the last `before` nanoseconds, and the open one.
    pub fn pin(&mut self, pin: Pin, before: u64, now: u64, wall: i64, open: bool) {
        let count = self.segments.len();
        for (place, entry) in self.segments.iter_mut().enumerate() {
            let is_open = open && place + 1 == count;
            if is_open || entry.ended.age(now, wall).is_some_and(|age| age <= before) {
                entry.pin = entry.pin.max(pin);
            }
        }
        self.recount();
    }

    /// Unpins segments until the pinned ones take no more than `share`: first the oldest that the recorder pinned by
    /// itself, then the oldest with deaths of IOCs, then the oldest marked ones. Returns their number.
    pub fn unpin(&mut self, share: u64) -> u32 {
        let (mut taken, mut count) = (self.sums.pinned_taken, 0);
        for pin in [Pin::Auto, Pin::Death, Pin::Mark] {
            for entry in self.segments.iter_mut().filter(|entry| entry.pin == pin) {
                if taken > share {
                    taken = taken.saturating_sub(entry.taken);
                    entry.pin = Pin::No;
                    count += 1;
                }
            }
        }
        self.recount();
        count
    }

    /// Renames files so that their names show their pins. An error leaves the rest for the next time.
    pub fn rename(&mut self, storage: &mut impl Storage) -> io::Result<()> {
        for entry in &mut self.segments {
            if !entry.name.differs_when_pinned(entry.pin) {
                continue;
            }
            let name = entry.name.pinned(entry.pin);
            match storage.rename(&entry.name.to_string(), &name.to_string()) {
                Ok(()) => {
                    entry.name = name;
                    self.unsynced = true;
                }
                // Somebody deleted it. It stays on the account until the directory is listed again.
                Err(error) if error.kind() == io::ErrorKind::NotFound => entry.pin = entry.name.pin,
                Err(error) => return Err(error),
            }
        }
        self.sync(storage)
    }

    /// Whether there are files that [must be renamed](Self::rename).
    pub fn must_rename(&self) -> bool {
        self.segments.iter().any(|entry| entry.name.differs_when_pinned(entry.pin))
    }

    /// Makes names and deletions survive a power cut.
    pub fn sync(&mut self, storage: &mut impl Storage) -> io::Result<()> {
        if self.unsynced {
            storage.sync_names()?;
            self.unsynced = false;
        }
        Ok(())
    }

    /// Adds a new segment with `reserved` preallocated bytes.
    pub fn add(&mut self, name: SegmentName, reserved: u64, now: u64) {
        let (pin, taken) = (name.pin, self.cost(reserved));
        self.segments.push_back(Entry {
            name,
            pin,
            length: 0,
            taken,
            ended: Moment::Monotonic(now),
            stored: Missing::default(),
            reported: Missing::default(),
        });
        self.unsynced = true;
        self.recount();
    }

    /// The newest segment got `count` more pushed events. `first` is the time of the earliest.
    pub fn stored(&mut self, count: u64, first: u64) {
        if let Some(newest) = self.segments.back_mut() {
            newest.stored.add(count, first);
        }
    }

    /// The newest segment reports that `count` events were lost since this time.
    pub fn reported(&mut self, count: u64, since: u64) {
        if let Some(newest) = self.segments.back_mut() {
            newest.reported.add(count, since);
        }
    }

    /// Takes missing segments off the account. Returns the events that this run stored in them and the losses that they
    /// reported.
    pub fn take_missing(&mut self, is_there: impl Fn(&str) -> bool) -> (Missing, Missing) {
        let (mut stored, mut reported) = (Missing::default(), Missing::default());
        self.segments.retain(|entry| {
            let there = is_there(&entry.name.to_string());
            if !there {
                stored.add(entry.stored.count, entry.stored.since.unwrap_or(0));
                reported.add(entry.reported.count, entry.reported.since.unwrap_or(0));
            }
            there
        });
        self.recount();
        (stored, reported)
    }

    /// Length of a segment at the last listing of the directory.
    pub fn length_of(&self, name: SegmentName) -> Option<u64> {
        let found = self.segments.iter().find(|entry| entry.name.order() == name.order());
        found.map(|entry| entry.length)
    }

    /// The newest segment grew by `bytes`.
    pub fn grow(&mut self, bytes: u64) {
        let Some(mut entry) = self.segments.pop_back() else { return };
        entry.length = entry.length.saturating_add(bytes);
        let more = self.cost(entry.length).saturating_sub(entry.taken);
        entry.taken = entry.taken.saturating_add(more);
        self.sums.length = self.sums.length.saturating_add(bytes);
        self.sums.taken = self.sums.taken.saturating_add(more);
        if entry.pin != Pin::No {
            self.sums.pinned_taken = self.sums.pinned_taken.saturating_add(more);
        }
        self.segments.push_back(entry);
    }

    /// Further bytes that the newest segment would take with a length of `length`.
    pub fn growth(&self, length: u64) -> u64 {
        self.cost(length).saturating_sub(self.segments.back().map_or(0, |entry| entry.taken))
    }

    /// The newest segment was closed. `freed`: its unused preallocated space was freed.
    pub fn finish(&mut self, now: u64, freed: bool) {
        let Some(mut entry) = self.segments.pop_back() else { return };
        if freed {
            entry.taken = self.cost(entry.length);
        }
        entry.ended = Moment::Monotonic(now);
        self.segments.push_back(entry);
        self.recount();
    }

    /// The newest segment was deleted. [Sync](Self::sync) before its number is given to another.
    pub fn forget_newest(&mut self) {
        self.segments.pop_back();
        self.unsynced = true;
        self.recount();
    }

    pub fn newest(&self) -> Option<SegmentName> {
        self.segments.back().map(|entry| entry.name)
    }

    /// Whether the newest segment is pinned.
    pub fn newest_is_pinned(&self) -> bool {
        self.segments.back().is_some_and(|entry| entry.pin != Pin::No)
    }

    pub fn sums(&self) -> Sums {
        self.sums
    }

    /// Bytes of disk space counted in all.
    pub fn taken(&self) -> u64 {
        self.sums.taken.saturating_add(self.own)
    }

    pub fn count(&self) -> usize {
        self.segments.len()
    }

    pub fn deleted(&self) -> u64 {
        self.deleted
    }
}
