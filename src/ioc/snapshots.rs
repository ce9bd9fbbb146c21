//! Values, properties and input links of many records at once, read from an IOC's memory.
//!
//! No lock is taken, so one reading may catch a record in the middle of its processing: a new value beside the alarm of
//! the old one. Whoever reads compares two [`Sample`]s of a record. If they are equal and the record was not locked at a
//! moment between them ([`locks`](super::locks)), they hold what was true at that moment: had the first caught it in the
//! middle, the rest of the processing would have changed it. Where the lock is not known, the two must lie further apart
//! than processing takes. A record that is active (PACT) is in the middle of something, however long that lasts.
//!
//! Promises: a few system calls for a whole batch of records, however many; at most [`MAX_BYTES`] behind a pointer; any
//! memory content is possible, and none panics.

mod links;
mod properties;

use std::collections::HashMap;

use iocrec_log::event::{Array, Dbf, Value};
use iocrec_log::value::{element, until_nul};

use crate::ioc::fields::{little_endian, long_string, MAX_BYTES};
use crate::ioc::layout::{Form, Layout, Place, TypeLayout};
use crate::linux::memory::Memory;
use crate::linux::width::{u16_at, u32_at, Width};

pub use links::{links, outputs};
pub use properties::properties;

/// Longest string in VAL: MAX_STRING_SIZE; types from elsewhere have longer ones.
const MAX_STRING: u16 = 256;
/// Bytes between two fields that are read along, since each range costs the kernel more than these.
const MAX_GAP: u16 = 128;
/// Seconds from 1970 to 1990, the epoch of epicsTimeStamp.
const EPOCH: i64 = 631_152_000;

/// What to read of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// Value, alarm and time.
    Values,
    /// Description, units, limits.
    Properties,
    /// Input links, device support, the most elements of an array.
    Links,
}

/// What was read of a record in one go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Address of its type.
    rtype: u64,
    /// The bytes of the type's [`spans`], one after the other.
    bytes: Box<[u8]>,
    /// What its value's pointer leads to; `None` if the value is not behind a pointer, or cannot be read.
    behind: Option<Box<[u8]>>,
    /// Its input links, if those are wanted.
    links: Box<[links::Input]>,
}

/// Value, alarm and time of a record.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    /// Its value; unknown if it has none that a log can hold.
    pub value: Value,
    /// Alarm severity.
    pub severity: u16,
    /// Alarm status.
    pub status: u16,
    /// TIME, nanoseconds since 1970 UTC; `None` if it is zero.
    pub stamp: Option<i64>,
    /// PACT.
    pub is_active: bool,
}

/// Reads records at these addresses; `None` for what is no record of a known type, or cannot be read.
pub fn sample(memory: &Memory, layout: &Layout, what: What, records: &[u64]) -> Vec<Option<Sample>> {
    let width = memory.width();
    let types = memory
        .each_head::<8>(records.iter().map(|record| record.wrapping_add(layout.rdes.into())), width.bytes());
    let types: Vec<Option<&TypeLayout>> =
        types.into_iter().map(|bytes| layout.types.get(&width.pointer(&bytes?, 0))).collect();
    let mut spans_of: HashMap<u64, Vec<Span>> = HashMap::new();
    for rtype in types.iter().flatten() {
        spans_of.entry(rtype.address).or_insert_with(|| spans(width, layout, rtype, what));
    }
    let spans = |rtype: &TypeLayout| spans_of.get(&rtype.address).map(Vec::as_slice).unwrap_or_default();
    let ranges: Vec<Vec<(u64, usize)>> = records
        .iter()
        .zip(&types)
        .map(|(&record, rtype)| {
            let spans = rtype.map(spans).unwrap_or_default().iter();
            spans.map(|span| (record.wrapping_add(span.at.into()), span.size.into())).collect()
        })
        .collect();
    let read = memory.groups(&ranges);
    let mut samples: Vec<Option<Sample>> = types
        .iter()
        .zip(read)
        .map(|(rtype, bytes)| {
            let (rtype, bytes) = ((*rtype)?, bytes?);
            // it may have become another record meanwhile
            let rdes = part(spans(rtype), &bytes, layout.rdes, width.bytes() as u16)?;
            let same = width.pointer(rdes, 0) == rtype.address;
            same.then(|| Sample {
                rtype: rtype.address,
                bytes: bytes.into(),
                behind: None,
                links: Box::default(),
            })
        })
        .collect();
    match what {
        What::Values => read_behind(memory, layout, &spans_of, &mut samples),
        What::Properties => {}
        What::Links => links::read_inputs(memory, layout, &spans_of, &mut samples),
    }
    samples
}

/// Adds what lies behind the pointers of values.
fn read_behind(
    memory: &Memory,
    layout: &Layout,
    spans_of: &HashMap<u64, Vec<Span>>,
    samples: &mut [Option<Sample>],
) {
    let ranges: Vec<Vec<(u64, usize)>> = samples
        .iter()
        .map(|sample| {
            let range = sample.as_ref().and_then(|sample| {
                let spans = spans_of.get(&sample.rtype)?;
                let behind = Behind::of(memory.width(), layout, spans, sample)?;
                Some((behind.pointer, behind.bytes()))
            });
            range.into_iter().collect()
        })
        .collect();
    for ((sample, range), bytes) in samples.iter_mut().zip(&ranges).zip(memory.groups(&ranges)) {
        if let (Some(sample), false) = (sample, range.is_empty()) {
            sample.behind = bytes.map(Vec::into_boxed_slice);
        }
    }
}

/// Bytes of a record that are read in one piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    /// Offset in the record.
    at: u16,
    size: u16,
}

/// The spans of a type's records that hold what is to be read.
fn spans(width: Width, layout: &Layout, rtype: &TypeLayout, what: What) -> Vec<Span> {
    let mut spans = vec![Span { at: layout.rdes, size: width.bytes() as u16 }];
    let pointer = width.bytes() as u16;
    match what {
        What::Values => {
            spans.push(Span { at: layout.stat, size: 4 });
            spans.push(Span { at: layout.pact, size: 1 });
            spans.extend(rtype.shown.time.map(Span::from));
            match rtype.form() {
                Form::None => {}
                Form::Scalar | Form::String => spans.extend(value_of(rtype).map(Span::from)),
                Form::Array { pointer: at, count, element } => {
                    spans.extend(
                        [(at, pointer), (count, 4), (element, 2)].map(|(at, size)| Span { at, size }),
                    );
                }
                Form::LongString { pointer: at, length } => {
                    spans.extend([(at, pointer), (length, 4)].map(|(at, size)| Span { at, size }));
                }
            }
        }
        What::Properties => spans.extend(rtype.shown.properties().map(Span::from)),
        What::Links => spans.extend(links::spans(width, layout, rtype)),
    }
    spans.sort_by_key(|span| span.at);
    let mut merged: Vec<Span> = Vec::new();
    for span in spans {
        match merged.last_mut() {
            Some(last) if span.at <= last.end().saturating_add(MAX_GAP) => {
                last.size = span.end().max(last.end()).saturating_sub(last.at);
            }
            _ => merged.push(span),
        }
    }
    merged
}

impl From<Place> for Span {
    fn from(place: Place) -> Span {
        Span { at: place.offset, size: place.size }
    }
}

impl Span {
    fn end(self) -> u16 {
        self.at.saturating_add(self.size)
    }
}

/// The field of a value that lies in the record.
fn value_of(rtype: &TypeLayout) -> Option<Place> {
    let value = rtype.value.as_ref()?;
    let size = u16::try_from(value.size).ok()?.min(MAX_STRING);
    Some(Place { dbf: value.dbf, offset: value.offset, size })
}

/// The bytes of a field among those of spans.
fn part<'a>(spans: &[Span], bytes: &'a [u8], at: u16, size: u16) -> Option<&'a [u8]> {
    let mut before = 0_usize;
    for span in spans {
        if at >= span.at && at.checked_add(size)? <= span.end() {
            let start = before + usize::from(at - span.at);
            return bytes.get(start..start + usize::from(size));
        }
        before += usize::from(span.size);
    }
    None
}

/// A value behind a pointer.
struct Behind {
    pointer: u64,
    /// Number of elements.
    count: u32,
    /// Type of an element; `None`: a long string.
    element: Option<Dbf>,
}

impl Behind {
    fn of(width: Width, layout: &Layout, spans: &[Span], sample: &Sample) -> Option<Behind> {
        let part = |at, size| part(spans, &sample.bytes, at, size);
        let pointer = |at| Some(width.pointer(part(at, width.bytes() as u16)?, 0));
        let number = |at| Some(u32_at(part(at, 4)?, 0));
        match layout.types.get(&sample.rtype)?.form() {
            Form::Array { pointer: at, count, element } => {
                let dbf = layout.numbering.dbf(u16_at(part(element, 2)?, 0));
                let element = dbf.filter(|dbf| dbf.holds_value())?;
                Some(Behind { pointer: pointer(at)?, count: number(count)?, element: Some(element) })
            }
            Form::LongString { pointer: at, length } => {
                Some(Behind { pointer: pointer(at)?, count: number(length)?, element: None })
            }
            _ => None,
        }
    }

    /// Number of bytes to read.
    fn bytes(&self) -> usize {
        let size = self.element.map_or(1, Dbf::size);
        (self.count as usize).min(MAX_BYTES / size) * size
    }

    fn value(&self, bytes: &[u8]) -> Value {
        match self.element {
            Some(dbf) => {
                let bytes = little_endian(bytes, dbf.size());
                Value::Array(Array { dbf, count: self.count, bytes })
            }
            None => long_string(bytes, self.count),
        }
    }
}

/// The state that a sample of [`What::Values`] shows.
pub fn state(width: Width, layout: &Layout, sample: &Sample) -> Option<State> {
    let rtype = layout.types.get(&sample.rtype)?;
    let spans = spans(width, layout, rtype, What::Values);
    let part = |at, size| part(&spans, &sample.bytes, at, size);
    let alarm = part(layout.stat, 4)?;
    let value = match rtype.form() {
        Form::None => None,
        Form::Scalar | Form::String => {
            value_of(rtype).and_then(|place| field(layout, place, part(place.offset, place.size)?))
        }
        Form::Array { .. } | Form::LongString { .. } => {
            let behind = Behind::of(width, layout, &spans, sample);
            behind.zip(sample.behind.as_deref()).map(|(behind, bytes)| behind.value(bytes))
        }
    };
    Some(State {
        value: value.unwrap_or(Value::Unknown),
        severity: u16_at(alarm, 2),
        status: u16_at(alarm, 0),
        stamp: rtype.shown.time.and_then(|place| stamp(part(place.offset, place.size)?)),
        is_active: *part(layout.pact, 1)?.first()? != 0,
    })
}

/// An epicsTimeStamp in nanoseconds since 1970; `None` if it is zero, or none.
fn stamp(bytes: &[u8]) -> Option<i64> {
    let (seconds, nanoseconds) = (u32_at(bytes, 0), u32_at(bytes, 4));
    if (seconds, nanoseconds) == (0, 0) || nanoseconds >= 1_000_000_000 {
        return None;
    }
    Some((i64::from(seconds) + EPOCH) * 1_000_000_000 + i64::from(nanoseconds))
}

/// The value of a field from its bytes.
fn field(layout: &Layout, place: Place, bytes: &[u8]) -> Option<Value> {
    let dbf = layout.numbering.dbf(place.dbf).filter(|dbf| dbf.holds_value())?;
    if dbf == Dbf::String {
        return Some(Value::Text(until_nul(bytes).to_vec()));
    }
    element(dbf, &little_endian(bytes.get(..dbf.size())?, dbf.size()))
}

#[cfg(test)]
mod tests;
