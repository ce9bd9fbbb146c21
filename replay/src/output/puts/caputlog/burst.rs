//! The module's burst filter: what becomes a line, and when.
//!
//! A put waits for the burst time. Meanwhile further puts to the same field join it: the line has the value before the
//! first, the last put's value, user and host, and for numbers the least and the greatest value. A put to another field
//! ends the wait. So two PVs that are written in turn are never squashed.

use super::message::{Kind, Message, Side};
use super::{Level, Style};
use iocrec_log::event::Value;

/// The filter of one IOC.
pub struct Burst {
    style: Style,
    level: Level,
    /// Burst time, nanoseconds.
    time: i64,
    current: Option<Message>,
    old: Side,
    min: Value,
    max: Value,
    count: u32,
    is_sent: bool,
    /// A value that min and max come from was not certain.
    in_doubt: bool,
}

/// A line to be written.
#[derive(Clone, Debug)]
pub struct Line {
    /// The last put.
    pub put: Message,
    /// The value before the first.
    pub old: Side,
    /// Least and greatest value of several puts; for numbers only.
    pub range: Option<(Value, Value)>,
    /// Puts that joined the first.
    pub count: u32,
    /// The range is not certain.
    pub in_doubt: bool,
}

impl Burst {
    /// An empty one. `time`: the burst time, nanoseconds.
    pub fn new(style: Style, level: Level, time: i64) -> Self {
        let (min, max) = (Value::Unknown, Value::Unknown);
        Burst {
            style,
            level,
            time,
            current: None,
            old: Side::unknown(),
            min,
            max,
            count: 0,
            is_sent: true,
            in_doubt: false,
        }
    }

    /// Time at which the wait of the put that it holds ends; `None` if it holds none.
    pub fn due(&self) -> Option<i64> {
        let current = self.current.as_ref().filter(|_| !self.is_sent)?;
        Some(current.came.saturating_add(self.time))
    }

    /// Takes a put; returns the line that this ends.
    pub fn take(&mut self, next: Message) -> Option<Line> {
        let joins = self.current.as_ref().is_some_and(|current| {
            let by_style = self.style == Style::Text || current.kind != Kind::Char;
            // an IOC that is started anew knows nothing of what was put before
            let is_same = current.process == next.process && current.field == next.field;
            is_same && self.level != Level::Everything && by_style
        });
        let first = next.new.first(next.kind);
        let sure = next.new.sure && first != Value::Unknown;
        if !joins {
            let line = if self.is_sent { None } else { self.line() };
            self.old = next.old.clone();
            self.begin(first, sure);
            self.current = Some(next);
            return line;
        }
        if self.is_sent {
            self.begin(first, sure);
        } else if next.kind != Kind::Text && (self.style == Style::Text || next.new.size == Some(1)) {
            self.count = self.count.saturating_add(1);
            self.in_doubt |= !sure;
            self.max = self.style.max(next.kind, &first, &self.max);
            self.min = self.style.min(next.kind, &first, &self.min);
        }
        self.current = Some(next);
        None
    }

    fn begin(&mut self, first: Value, sure: bool) {
        (self.min, self.max) = (first.clone(), first);
        (self.count, self.is_sent, self.in_doubt) = (0, false, !sure);
    }

    /// Ends the wait because its time is over.
    pub fn time_out(&mut self) -> Option<Line> {
        let line = if self.is_sent { None } else { self.line() };
        if let Some(current) = &self.current {
            self.old = current.new.clone();
        }
        (self.count, self.is_sent) = (0, true);
        line
    }

    /// The line for what it holds, unless the level leaves it out.
    fn line(&self) -> Option<Line> {
        let put = self.current.clone()?;
        if self.level == Level::Changes && self.count == 0 && self.style.is_same(&put) {
            return None;
        }
        let ranged = self.count > 0 && put.kind != Kind::Text && !(self.style == Style::Json && put.is_array);
        Some(Line {
            old: self.old.clone(),
            range: ranged.then(|| (self.min.clone(), self.max.clone())),
            count: self.count,
            in_doubt: ranged && self.in_doubt,
            put,
        })
    }
}

impl Style {
    /// Whether a put left the field as it was, as this style of the module compares.
    fn is_same(self, put: &Message) -> bool {
        let (old, new) = (&put.old, &put.new);
        let [before, after] = [old, new].map(|side| side.first(put.kind));
        if !old.sure || !new.sure || before == Value::Unknown || after == Value::Unknown {
            return false;
        }
        match self {
            // NaN differs from itself
            Style::Text => before == after,
            Style::Json if put.is_array => {
                old.kept() == new.kept()
                    && old.is_whole()
                    && new.is_whole()
                    && old.elements.len() == new.elements.len()
                    && old.elements.iter().zip(&new.elements).all(|(a, b)| is_same_memory(a, b))
            }
            Style::Json => is_same_memory(&before, &after),
        }
    }

    /// The lesser of a value and the least so far. The two styles differ for NaN.
    fn min(self, kind: Kind, value: &Value, least: &Value) -> Value {
        if *value == Value::Unknown || *least == Value::Unknown {
            return Value::Unknown;
        }
        let taken = match self {
            Style::Text => is_less(kind, value, least),
            Style::Json => !is_less(kind, least, value),
        };
        if taken { value } else { least }.clone()
    }

    /// The greater of a value and the greatest so far.
    fn max(self, kind: Kind, value: &Value, greatest: &Value) -> Value {
        if *value == Value::Unknown || *greatest == Value::Unknown {
            return Value::Unknown;
        }
        if is_less(kind, value, greatest) { greatest } else { value }.clone()
    }
}

fn is_same_memory(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Double(a), Value::Double(b)) => a.to_bits() == b.to_bits(),
        (Value::Float(a), Value::Float(b)) => a.to_bits() == b.to_bits(),
        (a, b) => a == b,
    }
}

fn is_less(kind: Kind, a: &Value, b: &Value) -> bool {
    match (a, b) {
        // characters have a sign here, but not where they are printed
        (Value::Int(a), Value::Int(b)) if kind == Kind::Char => (*a as i8) < (*b as i8),
        (Value::Int(a), Value::Int(b)) => a < b,
        (Value::UInt(a), Value::UInt(b)) => a < b,
        (Value::Float(a), Value::Float(b)) => a < b,
        (Value::Double(a), Value::Double(b)) => a < b,
        _ => false,
    }
}
