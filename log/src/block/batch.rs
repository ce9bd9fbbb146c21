//! Events on their way into a block: taken apart as they come, sorted when the block is made.

use super::layout::COLUMNS;
use super::predict::WHOLE;
use super::template::{append, Rest, Template};
use crate::event::{Class, Event, Fact};
use crate::format::MAX_RAW;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Measured with real IOCs (benches/size): half as many cost 2 % more disk with constant values and 5 % more with noisy
/// ones, since each block names anew what is hit; twice as many would hold 400 KiB more. At 20,000 hits/s this is close
/// to what a flush interval of 1 s brings.
const MAX_BATCH_EVENTS: usize = 16 << 10;

/// The most bytes that the parts of an event can need in a block: its shape's number, its time, a number with the byte
/// that says how it is stored.
const MAX_SHAPE: usize = 3;
/// To be added to [`Encoded::len`].
pub(crate) const MAX_TIME: usize = 9;
const MAX_NUMBER: usize = 9;
/// A new shape: the number of its template, and its record.
const MAX_NEW_SHAPE: usize = 3 + 5;
/// A new template: its skeleton. The longest is a put's, as a test checks.
const MAX_TEMPLATE: usize = 64;
/// The lengths of the columns.
const MAX_LENGTHS: usize = 4 * COLUMNS;
/// The most bytes of a fact that is stored whole.
const MAX_WHOLE: usize = MAX_RAW - MAX_LENGTHS - MAX_SHAPE - MAX_TIME;
/// Times that lie less than this apart have differences that need no more than [`NEAR_TIME`] bytes.
const NEAR: u64 = 1 << 36;
const NEAR_TIME: usize = 5;

/// What an event usually needs, to estimate a batch's size: a shape as predicted, a time some microseconds later, and a
/// number of which some bytes are new.
const USUAL_EVENT: usize = 3;
const USUAL_NUMBER: usize = 4;
const USUAL_NEW_SHAPE: usize = 2;

/// An event taken apart, not yet in a batch. Kept by the writer to use its memory again.
#[derive(Debug, Default)]
pub(crate) struct Encoded {
    /// `None` for a fact that is stored whole.
    hit: Option<(Template, Rest)>,
    /// The whole fact, or those of a hit's values that are no numbers.
    bytes: Vec<u8>,
}

impl Encoded {
    /// Takes a fact apart. `false` if it can't be stored in any block.
    pub fn set(&mut self, fact: &Fact) -> bool {
        self.bytes.clear();
        self.hit = Template::of(fact, &mut self.bytes);
        if self.hit.is_none() {
            append(fact, &mut self.bytes);
        }
        let fits = self.len() <= MAX_WHOLE;
        if !fits {
            self.bytes = Vec::new(); // don't keep the memory of an exceptionally large one
        }
        fits
    }

    /// The most bytes that it can need in a block, without its time.
    pub fn len(&self) -> usize {
        let hit = if self.hit.is_some() { MAX_NEW_SHAPE + MAX_TEMPLATE + 2 * MAX_NUMBER } else { 0 };
        MAX_SHAPE + hit + self.bytes.len()
    }
}

/// An event in a batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub time: u64,
    pub shape: u32,
    /// Where in `Batch::more` there is more of it; `NO_MORE` if this is all.
    more: u32,
    /// The first number.
    number: u64,
}

const NO_MORE: u32 = u32::MAX;

/// More of an event.
#[derive(Clone, Copy, Debug)]
struct More {
    number: u64,
    /// Where in `Batch::bytes`.
    start: u32,
    length: u32,
}

/// Numbers given to things.
type Table<T> = HashMap<T, u32, BuildHasherDefault<Mix>>;

/// A cheap hash: it is computed twice for each event. Whoever could make numbers collide could as well make more events,
/// and a table lasts no longer than its block.
#[derive(Default)]
struct Mix(u64);

impl Mix {
    fn mix(&mut self, number: u64) {
        // An odd number without pattern (2^64 divided by the golden ratio); the rotation brings the high bits,
        // which depend on all that went in, to where the table looks.
        self.0 = (self.0.rotate_left(26) ^ number).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }
}

impl Hasher for Mix {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.mix(u64::from(*byte)));
    }
    fn write_u8(&mut self, number: u8) {
        self.mix(number.into());
    }
    fn write_u16(&mut self, number: u16) {
        self.mix(number.into());
    }
    fn write_u32(&mut self, number: u32) {
        self.mix(number.into());
    }
    fn write_u64(&mut self, number: u64) {
        self.mix(number);
    }
    fn write_usize(&mut self, number: usize) {
        self.mix(number as u64);
    }
    fn finish(&self) -> u64 {
        self.0.rotate_left(26)
    }
}

/// Events that will be a block.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    pub(super) entries: Vec<Entry>,
    more: Vec<More>,
    bytes: Vec<u8>,
    /// In the order in which they were first pushed.
    pub(super) templates: Vec<Template>,
    template_numbers: Table<Template>,
    /// Template and record; the shape's number is one more than the place, since 0 is [`WHOLE`].
    pub(super) shapes: Vec<(u32, u32)>,
    shape_numbers: Table<(u32, u32)>,
    /// The entries that are definitions or ends.
    defining: Vec<(u32, Class)>,
    span: Option<(u64, u64)>,
    /// Bytes that shapes, numbers and facts need at most, and what everything usually needs.
    max_size: usize,
    usual_size: usize,
}

impl Batch {
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub fn count(&self) -> u32 {
        self.entries.len() as u32
    }

    /// Does it hold definitions or ends?
    pub fn defines(&self) -> bool {
        !self.defining.is_empty()
    }

    /// Would the body stay below `limit` bytes (roughly), and the block within the format's bounds, with one more event
    /// of this time and [length](Encoded::len)?
    pub fn has_room(&self, time: u64, length: usize, limit: usize) -> bool {
        let (first, last) = self.span_with(time);
        let times = if last - first < NEAR {
            // Only next to a definition or an end can time go back.
            NEAR_TIME * self.entries.len() + MAX_TIME * self.defining.len()
        } else {
            MAX_TIME * self.entries.len()
        };
        let max_size = MAX_LENGTHS + self.max_size + times + length + 2 * MAX_TIME;
        self.entries.len() < MAX_BATCH_EVENTS && max_size <= MAX_RAW && self.usual_size + length <= limit
    }

    fn span_with(&self, time: u64) -> (u64, u64) {
        self.span.map_or((time, time), |(first, last)| (first.min(time), last.max(time)))
    }

    pub fn push(&mut self, event: &Event, encoded: &Encoded) {
        let class = event.fact.class();
        if class.defines() {
            self.defining.push((self.count(), class));
        }
        self.span = Some(self.span_with(event.time));
        self.max_size += MAX_SHAPE + encoded.bytes.len();
        self.usual_size += USUAL_EVENT + encoded.bytes.len();
        let (shape, numbers) = match &encoded.hit {
            None => (WHOLE, [0, 0]),
            Some((template, rest)) => {
                let count = template.numbers().into_iter().filter(|number| number.is_there()).count();
                self.max_size += MAX_NUMBER * count;
                self.usual_size += USUAL_NUMBER * count;
                (self.shape(*template, rest.record), rest.numbers)
            }
        };
        let [number, second] = numbers;
        let more = if encoded.bytes.is_empty() && second == 0 {
            NO_MORE
        } else {
            let (start, length) = (self.bytes.len() as u32, encoded.bytes.len() as u32);
            self.bytes.extend_from_slice(&encoded.bytes);
            self.more.push(More { number: second, start, length });
            self.more.len() as u32 - 1
        };
        self.entries.push(Entry { time: event.time, shape, more, number });
    }

    /// The number of a shape.
    fn shape(&mut self, template: Template, record: u32) -> u32 {
        let new = self.templates.len() as u32;
        let template_number = *self.template_numbers.entry(template).or_insert(new);
        if template_number == new {
            self.templates.push(template);
            self.max_size += MAX_TEMPLATE;
            self.usual_size += MAX_TEMPLATE / 2;
        }
        let new = self.shapes.len() as u32 + 1;
        let shape = (template_number, record);
        let number = *self.shape_numbers.entry(shape).or_insert(new);
        if number == new {
            self.shapes.push(shape);
            self.max_size += MAX_NEW_SHAPE;
            self.usual_size += USUAL_NEW_SHAPE;
        }
        number
    }

    /// The numbers of an event, and its bytes.
    pub(super) fn rest(&self, entry: &Entry) -> ([u64; 2], &[u8]) {
        match self.more.get(entry.more as usize) {
            None => ([entry.number, 0], &[]),
            Some(more) => {
                let start = more.start as usize;
                let bytes = self.bytes.get(start..start + more.length as usize).unwrap_or(&[]);
                ([entry.number, more.number], bytes)
            }
        }
    }

    pub fn clear(&mut self) {
        self.entries.clear();
        self.more.clear();
        self.bytes.clear();
        self.templates.clear();
        self.template_numbers.clear();
        self.shapes.clear();
        self.shape_numbers.clear();
        self.defining.clear();
        self.span = None;
        (self.max_size, self.usual_size) = (0, 0);
    }

    /// The earliest time in it.
    pub fn first(&self) -> Option<u64> {
        self.span.map(|(first, _)| first)
    }

    /// The latest time in it.
    pub fn last(&self) -> Option<u64> {
        self.span.map(|(_, last)| last)
    }

    /// Rounds times down to multiples of 2^`bits` ns. Their order stays.
    pub(super) fn round_times(&mut self, bits: u32) {
        let round = |time: u64| time >> bits << bits;
        self.entries.iter_mut().for_each(|entry| entry.time = round(entry.time));
        self.span = self.span.map(|(first, last)| (round(first), round(last)));
    }

    /// Sorts the entries as they are stored: by time, but a definition stands before everything that came after it, and
    /// an end after everything that came before it. To be called once.
    pub(super) fn arrange(&mut self) {
        if self.defining.is_empty() {
            self.entries.sort_by_key(|entry| entry.time);
            return;
        }
        let mut classes = vec![Class::Hit; self.entries.len()];
        for &(place, class) in &self.defining {
            if let Some(entry) = classes.get_mut(place as usize) {
                *entry = class;
            }
        }
        // Sorted by their times, definitions by an earlier one.
        let mut keyed: Vec<(u64, Class, Entry)> =
            self.entries.drain(..).zip(classes).map(|(entry, class)| (entry.time, class, entry)).collect();
        // An end is never passed, so what lies between two ends is sorted by itself.
        for run in keyed.chunk_by_mut(|(_, before, _), _| *before != Class::End) {
            let ends = run.last().is_some_and(|(_, last, _)| *last == Class::End);
            let (movable, _) = run.split_at_mut(run.len() - usize::from(ends));
            let mut earliest = u64::MAX;
            for (key, class, entry) in movable.iter_mut().rev() {
                earliest = earliest.min(entry.time);
                if *class == Class::Definition {
                    *key = earliest;
                }
            }
            movable.sort_by_key(|(key, _, _)| *key);
        }
        self.entries.extend(keyed.into_iter().map(|(_, _, entry)| entry));
        self.defining.truncate(1); // their places are wrong now; that there are some still holds
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Dbf, Put, PutKind, Value};

    #[test]
    fn no_skeleton_is_longer_than_the_estimate() {
        let fact = Fact::Put(Put {
            thread: u32::MAX,
            sp: i64::MIN,
            site: u32::MAX,
            kind: PutKind::Notify,
            record: u32::MAX,
            field: Some(u32::MAX),
            dbf: Dbf::NoAccess,
            count: u32::MAX,
            requested: Value::Double(0.0),
            old: Value::Double(0.0),
        });
        let (template, _) = Template::of(&fact, &mut Vec::new()).unwrap();
        let skeleton = template.skeleton(&mut 0).unwrap();
        assert!(postcard::to_allocvec(&skeleton).unwrap().len() <= MAX_TEMPLATE);
    }
}
