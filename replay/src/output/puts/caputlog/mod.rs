//! Puts as the module caPutLog of an IOC would have logged them, as text or as JSON, for tools that read its log.
//!
//! Byte for byte, where the log knows the values before and after; tests/caputlog compares with what the module itself
//! wrote. A line whose values are not certain is marked: text ends in ` inexact`, JSON has a last key `"inexact":true`.
//! An unknown value is `?` there, or `null`. The log does not have the records' time stamps, which the module prints:
//! here it is the time at which the record processed, or at which the put ended.
//!
//! Its own peculiarities are kept. They are facts of caPutLogTask.c and caPutJsonLogTask.cpp (December 2025).

mod burst;
mod json;
mod message;
mod text;

use super::Options;
use crate::model::putlog::PutLine;
use crate::out::{line, Out};
use crate::output::format::Writer;
use crate::time::Zone;
use crate::words::{are, counted};
use burst::{Burst, Line};
use message::{message, Message};
use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;

/// Puts that may wait for the end of others; a bound for hostile logs.
const MAX_WAITING: usize = 100_000;

/// Text or JSON, which the module writes by different programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Text.
    Text,
    /// JSON.
    Json,
}

/// What is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Changes; bursts as one.
    Changes,
    /// Every put; bursts as one.
    Puts,
    /// Every put by itself.
    Everything,
}

/// Writes the log. Each IOC has a filter of its own.
pub struct CaPutLog<'a> {
    zone: &'a Zone,
    options: &'a Options,
    style: Style,
    /// By host and IOC.
    bursts: BTreeMap<Place, Burst>,
    /// Puts whose end is not yet reached, by the time of their end.
    waiting: BTreeMap<(i64, u64), (Place, Message)>,
    count: u64,
    lines: u64,
    inexact: u64,
    unseen: u64,
}

/// A host and an IOC on it.
type Place = (Option<Rc<str>>, Option<Rc<str>>);

impl<'a> CaPutLog<'a> {
    /// An empty log.
    pub fn new(style: Style, zone: &'a Zone, options: &'a Options) -> Self {
        let (bursts, waiting) = (BTreeMap::new(), BTreeMap::new());
        CaPutLog { zone, options, style, bursts, waiting, count: 0, lines: 0, inexact: 0, unseen: 0 }
    }

    /// Writes what is due before a time.
    fn proceed(&mut self, out: &mut Out, until: i64) -> io::Result<()> {
        loop {
            let ended = self.waiting.first_key_value().map(|((ended, _), _)| *ended);
            let due = self.bursts.iter().filter_map(|(place, burst)| Some((burst.due()?, place))).min();
            let line = match (ended, due) {
                (ended, Some((due, place))) if due < until && ended.is_none_or(|ended| due < ended) => {
                    let place = place.clone();
                    self.bursts.get_mut(&place).and_then(Burst::time_out)
                }
                (Some(ended), _) if ended < until || self.waiting.len() > MAX_WAITING => {
                    let Some((_, (place, message))) = self.waiting.pop_first() else { return Ok(()) };
                    let (style, level, burst) = (self.style, self.options.level, self.options.burst);
                    self.bursts.entry(place).or_insert_with(|| Burst::new(style, level, burst)).take(message)
                }
                _ => return Ok(()),
            };
            if let Some(line) = line {
                self.print(out, &line)?;
            }
        }
    }

    fn print(&mut self, out: &mut Out, line: &Line) -> io::Result<()> {
        let (text, inexact) = match self.style {
            Style::Text => text::text(line, self.zone),
            Style::Json => json::json(line, self.zone, &self.options.metadata),
        };
        self.lines += 1;
        self.inexact += u64::from(inexact);
        line!(out, "{}{text}", self.options.prefix)
    }
}

impl Writer<PutLine> for CaPutLog<'_> {
    fn write(&mut self, out: &mut Out, put: &PutLine) -> io::Result<()> {
        self.proceed(out, put.even)?;
        for put in put.clone().to_records() {
            match message(&put) {
                Some(message) => {
                    self.count += 1;
                    let place = (put.host.clone(), put.ioc.clone());
                    self.waiting.insert((message.came, self.count), (place, message));
                }
                None => self.unseen += 1,
            }
        }
        Ok(())
    }

    fn pass(&mut self, out: &mut Out, until: i64) -> io::Result<()> {
        self.proceed(out, until)
    }

    fn end(&mut self, out: &mut Out) -> io::Result<()> {
        self.proceed(out, i64::MAX)
    }

    fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        if self.inexact > 0 {
            remarks.push(format!(
                "{} of {} lines are marked inexact: the log does not hold all that caPutLog would have read there",
                self.inexact, self.lines
            ));
        }
        if self.unseen > 0 {
            remarks.push(format!(
                "{} {} not in it, since caPutLog sees no put that was denied, or made by the IOC's shell, by links or by \
                 Python code, and no call (RPC); see --format text",
                counted(self.unseen, "put"),
                are(self.unseen)
            ));
        }
        remarks
    }
}
