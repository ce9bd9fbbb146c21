//! The last value seen of a field, and its last change: held for each of a hundred thousand fields, so without what the
//! field's key says already, and without the chain that led to the value.

use super::state::Key;
use crate::model::history::{Of, Origin, ValueLine, ValueSource};
use crate::model::small_value::SmallValue;
use iocrec_log::event::Value;
use std::mem::size_of;
use std::rc::Rc;

/// The last value seen of a field. Times are nanoseconds since 1970 UTC.
#[derive(Clone)]
pub struct Seen {
    /// When it was seen last.
    pub time: i64,
    /// The place of that time in the order of time.
    pub even: i64,
    /// When it was first seen to have this value.
    pub first: i64,
    /// When it got this value.
    pub(super) set: MaybeTime,
    pub(super) value: SmallValue,
    /// The enum string or menu choice that it stands for. Boxed twice: few fields have any.
    pub(super) text: Option<Box<Text>>,
    /// The field in its run; `None` if the log does not know the record.
    pub of: Option<Of>,
    /// The last change, if asked for.
    pub changed: Option<Rc<Changed>>,
    /// Number of changes seen after the time from which they are counted.
    pub changes: u32,
    /// Alarm severity and status when last known.
    pub alarm: Option<(u16, u16)>,
    /// How it is known.
    pub source: ValueSource,
    /// Whether the log holds only a part of the value.
    pub cut: Option<bool>,
    /// It is not certain to be the result of the put.
    pub inexact: bool,
    /// Whether there may have been more changes: something went unseen between two values, or before the first.
    pub at_least: bool,
    /// Whether a put from outside gave it this value.
    pub by_put: bool,
    /// Whether its record had never processed when its alarm was last seen: it is the one that every record begins with.
    pub unprocessed: bool,
}

const _: () = assert!(size_of::<Seen>() <= 104);

#[derive(Clone)]
pub(super) struct Text(Box<str>);

/// A time, if there is one.
#[derive(Clone, Copy)]
pub(super) struct MaybeTime(i64);

impl From<Option<i64>> for MaybeTime {
    fn from(time: Option<i64>) -> MaybeTime {
        MaybeTime(time.unwrap_or(i64::MIN))
    }
}

/// A change of a field.
pub struct Changed {
    /// When it was seen.
    pub time: i64,
    /// The value since then.
    pub value: Value,
    /// How it is known.
    pub source: ValueSource,
    /// The chain that led to it. It is kept for the last change only: one for each value would take too much memory.
    pub origin: Option<Origin>,
    /// Since when it may have had the value.
    pub since: Since,
}

/// Since when a field may have had a value that a line showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Since {
    /// It got it then: what the line shows made the change.
    Then,
    /// It had another one at this time. What went unseen since may have changed it.
    After(i64),
    /// It was not known before.
    Unknown,
}

impl Changed {
    /// The change that a line shows.
    pub(super) fn by(line: &ValueLine, since: Since) -> Changed {
        let (value, origin) = (line.value.clone(), line.origin.clone());
        Changed { time: line.time, value, source: line.source, origin, since }
    }
}

impl Seen {
    /// What a line shows of a field without a past.
    pub(super) fn of(line: ValueLine) -> Seen {
        let ValueLine { time, even, value, text, cut, source, inexact, by_put, alarm, of, .. } = line;
        Seen {
            time,
            even,
            first: time,
            set: None.into(),
            value: value.into(),
            text: text.map(|text| Box::new(Text(text.into_boxed_str()))),
            of,
            changed: None,
            changes: 0,
            alarm,
            source,
            cut,
            inexact,
            at_least: false,
            by_put,
            unprocessed: false,
        }
    }

    /// The value.
    pub fn value(&self) -> Value {
        self.value.value()
    }

    /// Whether the value is known.
    pub fn is_known(&self) -> bool {
        self.value.is_known()
    }

    /// When it got this value; `None` if that was not seen.
    pub fn set(&self) -> Option<i64> {
        Some(self.set.0).filter(|time| *time != i64::MIN)
    }

    pub(super) fn was_set(&mut self, time: Option<i64>) {
        self.set = time.into();
    }

    /// The enum string or menu choice that the value stands for.
    pub fn text(&self) -> Option<&str> {
        self.text.as_ref().map(|text| &*text.0)
    }

    /// The value is gone with the IOC.
    pub(super) fn forget_value(&mut self) {
        (self.value, self.text, self.set, self.alarm) = (SmallValue::default(), None, None.into(), None);
    }

    /// As the line of a history, of the field with this key.
    pub fn line(&self, (process, record, field): &Key) -> ValueLine {
        ValueLine {
            time: self.time,
            even: self.even,
            host: Rc::clone(&process.host),
            ioc: Rc::clone(&process.ioc),
            record: Rc::clone(record),
            field: Rc::clone(field),
            value: self.value(),
            text: self.text().map(str::to_owned),
            cut: self.cut,
            alarm: self.alarm,
            source: self.source,
            inexact: self.inexact,
            again: false,
            by_put: self.by_put,
            origin: None,
            process: Rc::clone(process),
            of: self.of.clone(),
            root: None,
            stamp: None,
            unseen: None,
        }
    }
}
