//! Packets of Perfetto's trace format.
//!
//! Field numbers are those of its `trace_packet.proto`, `track_event.proto`, `track_descriptor.proto`,
//! `debug_annotation.proto`, `clock_snapshot.proto`. All packets are one sequence; names that come often stand in it once and
//! are numbers from then on. Texts are escaped, since they are shown as they are, and a NUL in one would end it.

use super::super::otlp::shape::{AnyValue, Attribute};
use crate::out::Out;
use crate::output::protobuf::Message;
use iocrec_log::escape;
use std::collections::HashMap;
use std::io;

/// Names that are given numbers, and bytes of each: 15 MB; bounds for hostile logs. Others stand as they are.
const MAX_NAMES: usize = 50_000;
const MAX_NAME: usize = 200;

/// The number of the one sequence.
const SEQUENCE: u64 = 1;
/// The clock of all times: nanoseconds since 1970 (`BUILTIN_CLOCK_REALTIME`).
const REALTIME: u64 = 1;

/// Types of events.
const BEGIN: u64 = 1;
const END: u64 = 2;
const INSTANT: u64 = 3;
const COUNTER: u64 = 4;

/// What a slice or an instant has apart from its type, track and time.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Slice(Vec<u8>);

impl Slice {
    /// Its size.
    pub(super) fn bytes(&self) -> usize {
        self.0.len()
    }
}

/// Packets that are yet to be written.
#[derive(Default)]
pub(super) struct Packets {
    all: Message,
    /// Numbers of event names.
    names: HashMap<String, u64>,
    /// Numbers of keys of arguments.
    keys: HashMap<&'static str, u64>,
}

impl Packets {
    /// Writes them.
    pub(super) fn flush(&mut self, out: &mut Out) -> io::Result<()> {
        out.binary(&std::mem::take(&mut self.all.0))
    }

    fn packet(&mut self, write: impl FnOnce(&mut Message)) {
        self.all.message(1, |to| {
            to.number(10, SEQUENCE);
            write(to);
        });
    }

    /// The first: what the clock is.
    pub(super) fn begin(&mut self) {
        self.packet(|to| {
            // Names have no numbers yet.
            to.number(13, 1);
            to.number(87, 1);
            to.message(59, |to| to.number(58, REALTIME));
            to.message(6, |to| {
                to.message(1, |to| {
                    to.number(1, REALTIME);
                    to.number(2, 1);
                });
                to.number(2, REALTIME);
            });
        });
    }

    /// Describes a track.
    pub(super) fn track(&mut self, describe: impl FnOnce(&mut Message)) {
        self.packet(|to| to.message(60, describe));
    }

    fn event(&mut self, time: u64, kind: u64, track: u64, more: impl FnOnce(&mut Message)) {
        self.packet(|to| {
            to.number(8, time);
            to.number(13, 2);
            to.message(11, |to| {
                to.number(9, kind);
                to.number(11, track);
                more(to);
            });
        });
    }

    /// A slice begins.
    pub(super) fn begin_slice(&mut self, time: u64, track: u64, slice: &Slice) {
        self.event(time, BEGIN, track, |to| to.0.extend(&slice.0));
    }

    /// The innermost slice of a track ends.
    pub(super) fn end_slice(&mut self, time: u64, track: u64) {
        self.event(time, END, track, |_| {});
    }

    /// Something happens.
    pub(super) fn instant(&mut self, time: u64, track: u64, slice: &Slice) {
        self.event(time, INSTANT, track, |to| to.0.extend(&slice.0));
    }

    /// A counter has a value from then on.
    pub(super) fn counter(&mut self, time: u64, track: u64, value: &AnyValue) {
        self.event(time, COUNTER, track, |to| match value {
            AnyValue::Int(number) => to.number(30, number.cast_unsigned()),
            AnyValue::Double(number) => to.fixed(44, number.to_bits()),
            _ => {}
        });
    }

    /// What a slice has, with the arrows that arrive at it and leave it.
    pub(super) fn slice(
        &mut self,
        category: &str,
        name: &str,
        attributes: &[Attribute],
        arriving: &[u64],
        leaving: &[u64],
    ) -> Slice {
        let mut to = Message::default();
        to.bytes(22, category.as_bytes());
        let name = shown(name);
        match self.name(&name) {
            Some(number) => to.number(10, number),
            None => to.bytes(23, name.as_bytes()),
        }
        for attribute in attributes {
            let key = self.key(attribute.key);
            to.message(4, |to| {
                to.number(1, key);
                argument(to, &attribute.value);
            });
        }
        leaving.iter().for_each(|arrow| to.fixed(47, *arrow));
        arriving.iter().for_each(|arrow| to.fixed(48, *arrow));
        Slice(to.0)
    }

    /// The number of an event's name, unless there are too many.
    fn name(&mut self, name: &str) -> Option<u64> {
        if let Some(number) = self.names.get(name) {
            return Some(*number);
        }
        if self.names.len() >= MAX_NAMES || name.len() > MAX_NAME {
            return None;
        }
        let number = self.names.len() as u64 + 1;
        self.names.insert(name.to_owned(), number);
        self.intern(2, number, name);
        Some(number)
    }

    /// The number of a key. They are the program's own, so few.
    fn key(&mut self, key: &'static str) -> u64 {
        if let Some(number) = self.keys.get(key) {
            return *number;
        }
        let number = self.keys.len() as u64 + 1;
        self.keys.insert(key, number);
        self.intern(3, number, key);
        number
    }

    /// Tells the number of a name, which is in this field of the names.
    fn intern(&mut self, field: u64, number: u64, name: &str) {
        self.packet(|to| {
            to.number(13, 2);
            to.message(12, |to| {
                to.message(field, |to| {
                    to.number(1, number);
                    to.bytes(2, name.as_bytes());
                });
            });
        });
    }
}

/// A text, escaped.
pub(super) fn shown(text: &str) -> String {
    let mut shown = String::new();
    escape::push(&mut shown, text);
    shown
}

/// The value of an argument.
fn argument(to: &mut Message, value: &AnyValue) {
    match value {
        AnyValue::Text(text) => to.bytes(6, shown(text).as_bytes()),
        AnyValue::Bool(bool) => to.number(2, u64::from(*bool)),
        AnyValue::Int(number) => to.number(4, number.cast_unsigned()),
        AnyValue::Double(number) => to.fixed(5, number.to_bits()),
        AnyValue::Array { values } => values.iter().for_each(|of| to.message(12, |to| argument(to, of))),
    }
}
