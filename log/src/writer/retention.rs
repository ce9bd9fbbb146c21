//! The account of the segments in the directory: the cap on it, which are kept, and which are too old.
//!
//! Accounts are kept of what `du` shows, not of lengths alone: a segment is reckoned as its length (or what is set
//! aside for it) in whole units of the disk, and one unit more for its entry in the directory and the
//! list of where its bytes lie. The directory's own size is reckoned, too. What is reckoned is never less
//! than what is on the disk.

use super::place::Gone;
use crate::clock::can_be_right;
use crate::name::{Pin, SegmentName};
use crate::storage::Storage;
use std::collections::VecDeque;
use std::io;
use std::time::Duration;

/// A moment, by the best clock that there is for it.
#[derive(Clone, Copy, Debug)]
enum Moment {
    /// CLOCK_MONOTONIC, in this run.
    Monotonic(u64),
    /// The wall clock, by the file.
    Wall(i64),
}

impl Moment {
    /// Nanoseconds since then; `None` if that can't be told.
    fn age(self, now: u64, wall: i64) -> Option<u64> {
        match self {
            Moment::Monotonic(then) => Some(now.saturating_sub(then)),
            Moment::Wall(then) if !can_be_right(then) => None,
            Moment::Wall(then) => Some(wall.saturating_sub(then).max(0).unsigned_abs()),
        }
    }
}

/// A segment in the directory.
#[derive(Clone, Debug)]
struct Entry {
    /// As it is on the disk.
    name: SegmentName,
    /// As it should be kept. Its file is renamed when the disk lets us.
    pin: Pin,
    length: u64,
    /// Bytes of the disk that are reckoned for it.
    taken: u64,
    /// When the last was written to it, at the latest.
    ended: Moment,
    /// Events pushed that this run has stored in it.
    stored: Gone,
    /// Events that it says are lost.
    told: Gone,
}

/// The segments in the directory, oldest first; while one is being written it is the last.
#[derive(Debug)]
pub(super) struct Retention {
    segments: VecDeque<Entry>,
    cap: u64,
    unit: u64,
    /// What the directory itself takes.
    own: u64,
    sums: Sums,
    deleted: u64,
    /// Are there names and deletions that a power cut would undo?
    unsynced: bool,
}

/// What all segments have together.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sums {
    /// Length, bytes.
    pub length: u64,
    /// Bytes of the disk that are reckoned for them.
    pub taken: u64,
    /// How many are kept.
    pub kept: usize,
    /// Bytes that are reckoned for those.
    pub kept_taken: u64,
}

impl Retention {
    pub fn new(cap: u64, unit: u64) -> Self {
        let (segments, sums) = (VecDeque::new(), Sums::default());
        Retention { segments, cap, unit, own: unit, sums, deleted: 0, unsynced: false }
    }

    /// After any change.
    fn recount(&mut self) {
        self.sums = self.segments.iter().fold(Sums::default(), |sums, entry| {
            let kept = entry.pin != Pin::No;
            Sums {
                length: sums.length.saturating_add(entry.length),
                taken: sums.taken.saturating_add(entry.taken),
                kept: sums.kept + usize::from(kept),
                kept_taken: sums.kept_taken.saturating_add(if kept { entry.taken } else { 0 }),
            }
        });
    }

    /// Bytes of the disk that a segment of that length is reckoned to take.
    pub fn cost(&self, length: u64) -> u64 {
        length.checked_next_multiple_of(self.unit).unwrap_or(u64::MAX).saturating_add(self.unit)
    }

    /// The longest that a segment can be that takes no more than `room`.
    pub fn longest(&self, room: u64) -> u64 {
        (room / self.unit).saturating_sub(1) * self.unit
    }

    /// Bytes that segments may take, all together.
    pub fn room(&self) -> u64 {
        self.cap.saturating_sub(self.own)
    }

    /// Sees what is there. No segment may be open.
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
                stored: known.map_or(Gone::default(), |entry| entry.stored),
                told: known.map_or(Gone::default(), |entry| entry.told),
            });
        }
        self.segments.make_contiguous().sort_unstable_by_key(|entry| entry.name);
        self.recount();
        Ok(())
    }

    /// Gives back what recorders that were killed had set aside.
    pub fn trim(&mut self, storage: &mut impl Storage) -> io::Result<()> {
        let mut trimmed = false;
        for entry in self.segments.iter().filter(|entry| entry.taken > self.cost(entry.length)) {
            // One that can't be is reckoned as it is.
            trimmed |= storage.trim(&entry.name.to_string()).is_ok();
        }
        if trimmed {
            self.look(storage)?;
        }
        Ok(())
    }

    /// Deletes segments until `more` bytes can be taken. With `open`, the newest stays. `Ok(false)` if that
    /// can't be enough; then nothing is deleted.
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
        self.sync(storage)?; // or a power cut would bring them back beside what comes in their place
        Ok(true)
    }

    /// Deletes the oldest segment that is not kept, or, if there is none and `kept`, the oldest. Gives the
    /// bytes that it took. With `open`, the newest stays. To be [synced](Self::sync).
    pub fn drop_one(
        &mut self,
        storage: &mut impl Storage,
        open: bool,
        kept: bool,
    ) -> io::Result<Option<u64>> {
        let closed = self.segments.len() - usize::from(open && !self.segments.is_empty());
        let unkept = self.segments.iter().take(closed).position(|entry| entry.pin == Pin::No);
        let Some(place) = unkept.or((kept && closed > 0).then_some(0)) else { return Ok(None) };
        self.drop_at(storage, place).map(Some)
    }

    /// Deletes a segment; the bytes that it took.
    fn drop_at(&mut self, storage: &mut impl Storage, place: usize) -> io::Result<u64> {
        let Some(entry) = self.segments.get(place) else { return Ok(0) };
        match storage.remove(&entry.name.to_string()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => self.unsynced = true, // whoever deleted it, it is gone
        }
        self.deleted += 1;
        let taken = self.segments.remove(place).map_or(0, |entry| entry.taken);
        self.recount();
        Ok(taken)
    }

    /// Deletes segments that are not kept and whose last event is older than `most`. With `open`, the newest stays.
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
                entry.pin == Pin::No && entry.ended.age(now, wall).is_some_and(|age| age > most)
            });
            if old {
                self.drop_at(storage, place)?;
            } else {
                place += 1;
            }
        }
        self.sync(storage)
    }

    /// Keeps the segments that were written to in the last `before` nanoseconds, and the open one.
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

    /// Lets kept segments go until they take no more than `share`: the oldest that the recorder kept by itself
    /// first, then the oldest with deaths of IOCs, then the oldest marked ones. How many.
    pub fn unpin(&mut self, share: u64) -> u32 {
        let (mut kept, mut count) = (self.sums.kept_taken, 0);
        for pin in [Pin::Auto, Pin::Death, Pin::Mark] {
            for entry in self.segments.iter_mut().filter(|entry| entry.pin == pin) {
                if kept > share {
                    kept = kept.saturating_sub(entry.taken);
                    entry.pin = Pin::No;
                    count += 1;
                }
            }
        }
        self.recount();
        count
    }

    /// Gives files the names that say how they are kept. An error leaves the rest for the next time.
    pub fn rename(&mut self, storage: &mut impl Storage) -> io::Result<()> {
        for entry in &mut self.segments {
            if !entry.name.is_called_otherwise(entry.pin) {
                continue;
            }
            let name = entry.name.kept(entry.pin);
            match storage.rename(&entry.name.to_string(), &name.to_string()) {
                Ok(()) => {
                    entry.name = name;
                    self.unsynced = true;
                }
                // Somebody deleted it. It stays on the account until the next look.
                Err(error) if error.kind() == io::ErrorKind::NotFound => entry.pin = entry.name.pin,
                Err(error) => return Err(error),
            }
        }
        self.sync(storage)
    }

    /// Are there files that [must be renamed](Self::rename)?
    pub fn must_rename(&self) -> bool {
        self.segments.iter().any(|entry| entry.name.is_called_otherwise(entry.pin))
    }

    /// Makes names and deletions survive a power cut.
    pub fn sync(&mut self, storage: &mut impl Storage) -> io::Result<()> {
        if self.unsynced {
            storage.sync_names()?;
            self.unsynced = false;
        }
        Ok(())
    }

    /// A new segment that so many bytes are set aside for.
    pub fn add(&mut self, name: SegmentName, reserved: u64, now: u64) {
        let (pin, taken) = (name.pin, self.cost(reserved));
        self.segments.push_back(Entry {
            name,
            pin,
            length: 0,
            taken,
            ended: Moment::Monotonic(now),
            stored: Gone::default(),
            told: Gone::default(),
        });
        self.unsynced = true;
        self.recount();
    }

    /// The newest segment has so many more events that were pushed; the time of the earliest.
    pub fn stored(&mut self, count: u64, first: u64) {
        if let Some(newest) = self.segments.back_mut() {
            newest.stored.add(count, first);
        }
    }

    /// The newest segment says that so many events are lost, since that time.
    pub fn told(&mut self, count: u64, since: u64) {
        if let Some(newest) = self.segments.back_mut() {
            newest.told.add(count, since);
        }
    }

    /// What this run has stored in segments that are not there any more, and what they said was lost. They leave the
    /// account.
    pub fn gone(&mut self, is_there: impl Fn(&str) -> bool) -> (Gone, Gone) {
        let (mut gone, mut told) = (Gone::default(), Gone::default());
        self.segments.retain(|entry| {
            let there = is_there(&entry.name.to_string());
            if !there {
                gone.add(entry.stored.count, entry.stored.since.unwrap_or(0));
                told.add(entry.told.count, entry.told.since.unwrap_or(0));
            }
            there
        });
        self.recount();
        (gone, told)
    }

    /// Length of a segment at the last look.
    pub fn length_of(&self, name: SegmentName) -> Option<u64> {
        let found = self.segments.iter().find(|entry| entry.name.order() == name.order());
        found.map(|entry| entry.length)
    }

    /// The newest segment is longer by `bytes`.
    pub fn grow(&mut self, bytes: u64) {
        let Some(mut entry) = self.segments.pop_back() else { return };
        entry.length = entry.length.saturating_add(bytes);
        let more = self.cost(entry.length).saturating_sub(entry.taken);
        entry.taken = entry.taken.saturating_add(more);
        self.sums.length = self.sums.length.saturating_add(bytes);
        self.sums.taken = self.sums.taken.saturating_add(more);
        if entry.pin != Pin::No {
            self.sums.kept_taken = self.sums.kept_taken.saturating_add(more);
        }
        self.segments.push_back(entry);
    }

    /// What the newest segment would take with `length` bytes in it, beyond what it takes.
    pub fn growth(&self, length: u64) -> u64 {
        self.cost(length).saturating_sub(self.segments.back().map_or(0, |entry| entry.taken))
    }

    /// The newest segment is closed. `freed`: what was set aside for it and not used is free.
    pub fn finish(&mut self, now: u64, freed: bool) {
        let Some(mut entry) = self.segments.pop_back() else { return };
        if freed {
            entry.taken = self.cost(entry.length);
        }
        entry.ended = Moment::Monotonic(now);
        self.segments.push_back(entry);
        self.recount();
    }

    /// The newest segment is gone.
    pub fn forget_newest(&mut self) {
        self.segments.pop_back();
        self.recount();
    }

    pub fn newest(&self) -> Option<SegmentName> {
        self.segments.back().map(|entry| entry.name)
    }

    /// Is the newest segment kept?
    pub fn newest_is_kept(&self) -> bool {
        self.segments.back().is_some_and(|entry| entry.pin != Pin::No)
    }

    pub fn sums(&self) -> Sums {
        self.sums
    }

    /// Bytes of the disk that are reckoned for everything.
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
