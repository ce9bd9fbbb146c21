//! Events on their way into a block: split when pushed, sorted when the block is made.

use super::contents::Reference;
use super::layout::COLUMNS;
use super::predict::WHOLE;
use super::template::{append, Rest, Template};
use crate::event::{Class, Event, Fact};
use crate::format::MAX_RAW;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

/// Maximum number of events in a batch. Measured with real IOCs (benches/size): half as many cost 2 % more disk with
/// constant values and 5 % more with noisy ones, because each block repeats its templates; twice as many would hold 400
/// KiB more. At 20,000 hits/s this is close to the number of events in a flush interval of 1 s.
const MAX_BATCH_EVENTS: usize = 16 << 10;

/// Maximum sizes of the parts of an event in a block, bytes: the number of its shape, its time, and a number with the
/// byte for its encoding.
const MAX_SHAPE: usize = 3;
/// Add this to [`Encoded::len`].
pub(crate) const MAX_TIME: usize = 9;
const MAX_NUMBER: usize = 9;
/// A new shape: the number of its template, and its record.
const MAX_NEW_SHAPE: usize = 3 + 5;
/// A new template: its skeleton. The longest is that of a put, as a test checks.
const MAX_TEMPLATE: usize = 64;
/// The lengths of the columns.
const MAX_LENGTHS: usize = 4 * COLUMNS;
/// Maximum size of a fact that is stored whole, bytes.
const MAX_WHOLE: usize = MAX_RAW - MAX_LENGTHS - MAX_SHAPE - MAX_TIME;
/// Times less than this apart have differences that need no more than [`NEAR_TIME`] bytes.
const NEAR: u64 = 1 << 36;
const NEAR_TIME: usize = 5;

/// Usual sizes of the parts of an event, to estimate a batch's size, bytes: a predicted shape and a time some
/// microseconds later, and a number with some new bytes.
const USUAL_EVENT: usize = 3;
const USUAL_NUMBER: usize = 4;
const USUAL_NEW_SHAPE: usize = 2;

/// An event that is split but not yet in a batch. The writer keeps it to reuse its memory.
#[derive(Debug, Default)]
pub(crate) struct Encoded {
    /// `None` for a fact that is stored whole.
    hit: Option<(Template, Rest)>,
    /// The whole fact, or those of a hit's values that are not numbers.
    bytes: Vec<u8>,
}

impl Encoded {
    /// Splits a fact. Returns `false` if it can't be stored in any block.
    pub fn set(&mut self, fact: &Fact) -> bool {
        self.bytes.clear();
        self.hit = Template::of(fact, &mut self.bytes);
        if self.hit.is_none() {
            append(fact, &mut self.bytes);
        }
        let fits = self.len() <= MAX_WHOLE;
        if !fits {
            self.bytes = Vec::new(); // don't keep the memory of an exceptionally large fact
        }
        fits
    }

    /// Maximum size in a block without the time, bytes.
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
    /// Index of its remainder in `Batch::more`; `NO_MORE` if there is none.
    more: u32,
    /// The first number.
    number: u64,
}

const NO_MORE: u32 = u32::MAX;

/// The remainder of an event.
#[derive(Clone, Copy, Debug)]
struct More {
    number: u64,
    /// Start of its bytes in `Batch::bytes`.
    start: u32,
    length: u32,
}

/// Numbers by thing.
type Table<T> = HashMap<T, u32, BuildHasherDefault<Mix>>;

/// A cheap hash: it is computed twice for each event. An attacker who could make numbers collide could just as well
/// make more events, and a table lasts no longer than its block.
#[derive(Default)]
struct Mix(u64);

impl Mix {
    fn mix(&mut self, number: u64) {
        // An odd number without pattern (2^64 divided by the golden ratio). The rotation moves the high bits, which
        // depend on all input, to the position that the table uses.
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

/// Numbers of facts, by the number of their kind.
#[derive(Debug)]
struct Kinds([u32; Fact::KINDS.len()]);

impl Default for Kinds {
    fn default() -> Self {
        Kinds([0; Fact::KINDS.len()])
    }
}

/// Events that will become a block.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    pub(super) entries: Vec<Entry>,
    more: Vec<More>,
    bytes: Vec<u8>,
    /// In the order in which they were first pushed.
    pub(super) templates: Vec<Template>,
    template_numbers: Table<Template>,
    /// Template and record. A shape's number is one more than its index, because 0 is [`WHOLE`].
    pub(super) shapes: Vec<(u32, u32)>,
    shape_numbers: Table<(u32, u32)>,
    /// The entries that are definitions or ends.
    defining: Vec<(u32, Class)>,
    /// How many facts of each kind there are, and what those without a template refer to.
    kinds: Kinds,
    references: HashSet<Reference, BuildHasherDefault<Mix>>,
    span: Option<(u64, u64)>,
    /// Maximum size of shapes, numbers and facts, and the usual size of everything, bytes.
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

    /// Whether it holds definitions or ends.
    pub fn defines(&self) -> bool {
        !self.defining.is_empty()
    }

    /// Whether there is room for one more event of this time and [length](Encoded::len): the body must stay below
    /// `limit` bytes (roughly), and the block within the format's bounds.
    pub fn has_room(&self, time: u64, length: usize, limit: usize) -> bool {
        let (first, last) = self.span_with(time);
        let times = if last - first < NEAR {
            // Times can decrease only next to a definition or an end.
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
        if let Some(count) = self.kinds.0.get_mut(usize::from(event.fact.number())) {
            *count += 1;
        }
        if encoded.hit.is_none() {
            self.references.extend(Reference::of(&event.fact));
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
        self.kinds = Kinds::default();
        self.references.clear();
        self.span = None;
        (self.max_size, self.usual_size) = (0, 0);
    }

    /// How many facts of each kind it holds, by the kind's number.
    pub(super) fn kinds(&self) -> &[u32] {
        &self.kinds.0
    }

    /// What the facts without a template refer to.
    pub(super) fn references(&self) -> impl Iterator<Item = &Reference> {
        self.references.iter()
    }

    /// The earliest time in the batch.
    pub fn first(&self) -> Option<u64> {
        self.span.map(|(first, _)| first)
    }

    /// The latest time in the batch.
    pub fn last(&self) -> Option<u64> {
        self.span.map(|(_, last)| last)
    }

    /// Rounds times down to multiples of 2^`bits` ns. Their order does not change.
    pub(super) fn round_times(&mut self, bits: u32) {
        let round = |time: u64| time >> bits << bits;
        self.entries.iter_mut().for_each(|entry| entry.time = round(entry.time));
        self.span = self.span.map(|(first, last)| (round(first), round(last)));
    }

    /// Sorts the entries for storage: by time, but a definition comes before everything that was pushed after it, and
    /// an end after everything that was pushed before it. Call it only once.
    pub(super) fn arrange(&mut self) {
        if self.defining.is_empty() {
            // they mostly are, and the sort of a std that is built for size does not notice
            if !self.entries.is_sorted_by_key(|entry| entry.time) {
                self.entries.sort_by_key(|entry| entry.time);
            }
            return;
        }
        let mut classes = vec![Class::Hit; self.entries.len()];
        for &(place, class) in &self.defining {
            if let Some(entry) = classes.get_mut(place as usize) {
                *entry = class;
            }
        }
        // Sort by the entries' times, but definitions by an earlier time.
        let mut keyed: Vec<(u64, Class, Entry)> =
            self.entries.drain(..).zip(classes).map(|(entry, class)| (entry.time, class, entry)).collect();
        // No entry passes an end, so the entries between two ends are sorted by themselves.
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
            if !movable.is_sorted_by_key(|(key, _, _)| *key) {
                movable.sort_by_key(|(key, _, _)| *key);
            }
        }
        self.entries.extend(keyed.into_iter().map(|(_, _, entry)| entry));
        self.defining.truncate(1); // their places are wrong now, but the batch still holds some
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Dbf, Put, PutKind, Value};

    #[test]
    fn no_skeleton_is_longer_than_the_estimate() {
        let fact = Fact::from(Put {
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
