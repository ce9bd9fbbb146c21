//! What all signals of OpenTelemetry have in common: batches, written as JSON lines or protobuf, or sent to a collector.
//!
//! In a batch of log records or of points of metrics each resource stands once, with what is of it. Spans have a batch of
//! their own, since a trace is never divided.

use super::format::{Format, Writer};
use super::protobuf::Message;
use super::resources::Resource;
use super::traces::otlp::proto::{length, resource};
use super::traces::otlp::shape::{SCHEMA, SCOPE};
use crate::collector::signal::{Batch, Signal, SIZE};
use crate::out::Out;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;

/// What is written or sent as a signal.
pub trait Telemetry {
    /// The batches that it comes in.
    type Batch: Batch;

    /// Passes on what it consists of.
    ///
    /// # Errors
    /// Those of `each`.
    fn parts<E>(&self, each: impl FnMut(&<Self::Batch as Batch>::Part) -> Result<(), E>) -> Result<(), E>;

    /// Whether it consists of nothing.
    fn is_empty(&self) -> bool {
        false
    }
}

/// How batches are written.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub enum Encoding {
    /// JSON, a batch on each line.
    #[default]
    JsonLines,
    /// One protobuf message, as TracesData or ExportTraceServiceRequest, which are the same. Batches need no frames:
    /// messages that follow each other are one, with the elements of all.
    Protobuf,
    /// Protobuf messages, each after its length as a varint.
    Delimited,
}

impl Encoding {
    /// The format that writes so.
    pub const fn format<T: Telemetry>(self) -> Format<T> {
        match self {
            Encoding::JsonLines => Format { name: "otlp", writer: |_| otlp::<T>(Encoding::JsonLines) },
            Encoding::Protobuf => Format { name: "otlp-proto", writer: |_| otlp::<T>(Encoding::Protobuf) },
            Encoding::Delimited => {
                Format { name: "otlp-proto-delimited", writer: |_| otlp::<T>(Encoding::Delimited) }
            }
        }
    }
}

fn otlp<T: Telemetry + 'static>(encoding: Encoding) -> Box<dyn Writer<T>> {
    Box::new(Otlp { encoding, batch: T::Batch::default() })
}

/// Writes batches.
struct Otlp<B> {
    encoding: Encoding,
    batch: B,
}

impl<T: Telemetry> Writer<T> for Otlp<T::Batch> {
    fn write(&mut self, out: &mut Out, item: &T) -> io::Result<()> {
        item.parts(|part| {
            self.batch.add(part);
            match self.batch.count() >= SIZE {
                true => self.write_batch(out),
                false => Ok(()),
            }
        })
    }

    fn flush(&mut self, out: &mut Out) -> io::Result<()> {
        self.write_batch(out)
    }

    fn end(&mut self, out: &mut Out) -> io::Result<()> {
        self.write_batch(out)
    }
}

impl<B: Batch> Otlp<B> {
    fn write_batch(&mut self, out: &mut Out) -> io::Result<()> {
        let batch = std::mem::take(&mut self.batch);
        if batch.count() == 0 {
            return Ok(());
        }
        if self.encoding == Encoding::JsonLines {
            return out.json(&batch);
        }
        let message = batch.protobuf();
        if self.encoding == Encoding::Delimited {
            out.binary(&length(message.len()))?;
        }
        out.binary(&message)
    }
}

/// A log record, or a point of a metric.
pub trait Part: Clone {
    /// What it is.
    const SIGNAL: &'static Signal;
    /// The keys in JSON of what a message, a resource and a scope hold.
    const KEYS: [&'static str; 3];
    /// What a scope holds: the record, or a metric with points.
    type Line<'a>: Serialize
    where
        Self: 'a;

    /// What it is of.
    fn of(&self) -> &Rc<Resource>;

    /// Adds it to those of its resource.
    fn add_to<'a>(&'a self, lines: &mut Vec<Self::Line<'a>>);

    /// Writes a line into its message.
    fn encode(line: &Self::Line<'_>, to: &mut Message);
}

/// Parts on their way out, in the order in which they came.
pub struct Parts<P>(Vec<P>);

impl<P> Default for Parts<P> {
    fn default() -> Self {
        Parts(Vec::new())
    }
}

/// A resource and what is of it.
struct Of<'a, P: Part + 'a>(&'a Rc<Resource>, Vec<P::Line<'a>>);

/// What its only scope holds.
struct InScope<'a, 'b, P: Part + 'a>(&'b Of<'a, P>);

impl<P: Part> Parts<P> {
    /// By their resources, each of which stands once.
    fn by_resource(&self) -> Vec<Of<'_, P>> {
        let mut all: Vec<Of<P>> = Vec::new();
        for part in &self.0 {
            let place = all.iter().position(|Of(of, _)| Rc::ptr_eq(of, part.of())).unwrap_or_else(|| {
                all.push(Of(part.of(), Vec::new()));
                all.len() - 1
            });
            if let Some(Of(_, lines)) = all.get_mut(place) {
                part.add_to(lines);
            }
        }
        all
    }
}

impl<P: Part> Batch for Parts<P> {
    type Part = P;
    const SIGNAL: &'static Signal = P::SIGNAL;

    fn add(&mut self, part: &P) {
        self.0.push(part.clone());
    }

    fn count(&self) -> usize {
        self.0.len()
    }

    fn parts(&self) -> usize {
        self.0.len()
    }

    fn protobuf(&self) -> Vec<u8> {
        let mut message = Message::default();
        for Of(of, lines) in self.by_resource() {
            resource(&mut message, &of.attributes, |to| {
                lines.iter().for_each(|line| to.message(2, |to| P::encode(line, to)));
            });
        }
        message.0
    }

    fn halves(mut self) -> Result<(Self, Self), Self> {
        match self.0.len() {
            0 | 1 => Err(self),
            count => {
                let second = self.0.split_off(count / 2);
                Ok((self, Parts(second)))
            }
        }
    }
}

impl<P: Part> Serialize for Parts<P> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(1))?;
        map.serialize_entry(P::KEYS[0], &self.by_resource())?;
        map.end()
    }
}

impl<P: Part> Serialize for Of<'_, P> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(3))?;
        map.serialize_entry("resource", &BTreeMap::from([("attributes", &self.0.attributes)]))?;
        map.serialize_entry(P::KEYS[1], &[InScope(self)])?;
        map.serialize_entry("schemaUrl", SCHEMA)?;
        map.end()
    }
}

impl<P: Part> Serialize for InScope<'_, '_, P> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(2))?;
        map.serialize_entry("scope", &SCOPE)?;
        map.serialize_entry(P::KEYS[2], &self.0 .1)?;
        map.end()
    }
}
