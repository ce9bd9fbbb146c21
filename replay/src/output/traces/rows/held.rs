//! Rows of chains on their way to the thread that formats them: their texts in one piece of memory, the rest as it is.
//!
//! Names are looked up before, since definitions change while the log is read.

use super::{Line, Times};
use crate::out::Out;
use crate::output::ordered::Batch;
use crate::output::rows::{write_row, Shape};
use crate::time::Zone;
use serde_json::Value;
use std::borrow::Cow;

/// Rows that are handed over together, or bytes of them, about: some hold arrays.
pub(super) const FULL: usize = 512;
const FULL_BYTES: usize = 1 << 18;
/// Texts of a row.
const TEXTS: usize = 11;

/// See the module.
#[derive(Default)]
pub(super) struct Lines {
    shape: Shape,
    zone: Option<Zone>,
    text: String,
    rows: Vec<Held>,
    /// Bytes of their arrays.
    arrays: usize,
}

struct Held {
    /// The row without its texts and times.
    line: Line<'static>,
    /// The lengths of those that it has, in the order of [`texts`].
    lengths: [Option<usize>; TEXTS],
    times: Times,
    is_first: bool,
}

/// The texts of a row.
fn texts<'a>(line: &'a Line<'_>) -> [Option<&'a str>; TEXTS] {
    [
        line.host.as_deref(),
        line.ioc,
        line.thread,
        line.record.as_deref(),
        line.field.as_deref(),
        line.pv.as_deref(),
        line.text.as_deref(),
        line.cause.as_deref(),
        line.user.as_deref(),
        line.client_host.as_deref(),
        line.client.as_deref(),
    ]
}

impl Lines {
    /// For rows of this shape, with times in this zone.
    pub fn shaped(&mut self, shape: Shape, zone: &Zone) -> &mut Self {
        self.shape = shape;
        self.zone.get_or_insert_with(|| zone.clone());
        self
    }

    /// Adds a row.
    pub fn add(&mut self, line: Line<'_>, times: Times, is_first: bool) {
        self.arrays += bytes(&line.old) + bytes(&line.value);
        let text = &mut self.text;
        let lengths = texts(&line).map(|part| {
            text.push_str(part?);
            part.map(str::len)
        });
        let Line { chain, number, parent, took_ms, what, trigger, outcome, old, value, .. } = line;
        let Line { severity, status, via, open, .. } = line;
        let line = Line {
            chain,
            number,
            parent,
            took_ms,
            what,
            trigger,
            outcome,
            old,
            value,
            severity,
            status,
            via,
            open,
            ..Line::default()
        };
        self.rows.push(Held { line, lengths, times, is_first });
    }
}

impl Batch for Lines {
    fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    fn is_full(&self) -> bool {
        self.rows.len() >= FULL || self.text.len() + self.arrays >= FULL_BYTES
    }

    fn make(&mut self, output: &mut Vec<u8>) {
        let zone = self.zone.get_or_insert_with(Zone::utc);
        let mut out = Out::new(output);
        let mut rest = self.text.as_str();
        for Held { line, lengths, times, is_first } in self.rows.drain(..) {
            let [host, ioc, thread, record, field, pv, text, cause, user, client_host, client] =
                lengths.map(|length| {
                    let (part, after) = rest.split_at_checked(length?)?;
                    rest = after;
                    Some(part)
                });
            let line = Line {
                host: host.map(Cow::Borrowed),
                ioc,
                thread,
                record: record.map(Cow::Borrowed),
                field: field.map(Cow::Borrowed),
                pv: pv.map(Cow::Borrowed),
                text: text.map(Cow::Borrowed),
                cause: cause.map(Cow::Borrowed),
                user: user.map(Cow::Borrowed),
                client_host: client_host.map(Cow::Borrowed),
                client: client.map(Cow::Borrowed),
                ..line
            };
            // writing to memory can't fail
            let _ = write_row(&mut out, self.shape, is_first, &line.at(times, zone));
        }
        self.text.clear();
        self.arrays = 0;
    }
}

/// Bytes that a value takes beside itself, about.
fn bytes(value: &Value) -> usize {
    match value {
        Value::Array(list) => list.len() * size_of::<Value>(),
        Value::String(text) => text.len(),
        _ => 0,
    }
}
