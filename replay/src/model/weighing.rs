//! Weighing the inputs of a record that no put made process, by the time of the last change of each source.
//!
//! Nothing in EPICS Base shows which input changed a record's value or its alarm. So an input whose source changed since
//! the record processed before *may* have been the cause; one whose source did not change since then was none.

use super::chain::{Chain, SpanKind};
use crate::time::{duration, SECOND};

/// Fields that only puts change: alarm and display limits, and what people configure.
const ONLY_PUTS: [&str; 21] = [
    "HIHI", "HIGH", "LOW", "LOLO", "HHSV", "HSV", "LSV", "LLSV", "HYST", "HOPR", "LOPR", "DRVH", "DRVL",
    "EGU", "PREC", "DESC", "SCAN", "ADEL", "MDEL", "DISV", "PRIO",
];
/// Fields that are the record's alarm.
const ALARM: [&str; 2] = ["SEVR", "STAT"];
/// A source's chain is noted some microseconds before or after it has changed.
pub const SKEW: i64 = SECOND as i64 / 1000;
/// How far back the last change of a source is looked for, at least.
pub const LOOK_BACK: i64 = 60 * SECOND as i64;

/// What of a record an input reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Its value.
    Value,
    /// Its alarm.
    Alarm,
    /// A field that only puts change.
    Setting,
    /// Another field, which processing may change.
    Other,
}

impl Part {
    /// What a field is.
    pub fn of(field: &str) -> Part {
        match field {
            "VAL" => Part::Value,
            field if ALARM.contains(&field) => Part::Alarm,
            field if ONLY_PUTS.contains(&field) => Part::Setting,
            _ => Part::Other,
        }
    }
}

/// A change of what an input reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// When.
    pub time: i64,
    /// Whether it is known to have changed then, and not only to have been processed or written.
    pub certain: bool,
    /// Whether that was in the chain in which the reading record processed.
    pub same_chain: bool,
}

/// The processing of the record that reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// When it began the last time before, if that is known.
    pub before: Option<i64>,
    /// Its begin.
    pub start: i64,
    /// Its end.
    pub end: i64,
}

/// What the times tell of an input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Weighed {
    /// When its source last changed or may have, in the time looked at.
    pub time: Option<i64>,
    /// Whether it is known to have changed then.
    pub certain: bool,
    /// Whether that is of the record's value, which may not have changed the field that the link reads.
    pub of_value: bool,
    /// Whether that was since the record processed before; `None` if it is not known when that was.
    pub since_last: Option<bool>,
    /// Whether it changed while the record processed, in another chain, so that it may have been read before.
    pub meanwhile: bool,
}

impl Reading {
    /// From when on changes of sources are looked for: from when the record processed before, and a minute at least.
    pub fn since(&self) -> i64 {
        let since = self.start.saturating_sub(LOOK_BACK);
        self.before.map_or(since, |before| since.min(before.saturating_sub(SKEW)))
    }

    /// Weighs the last change of the field that an input reads, and that of the record's value where processing may change
    /// that field.
    pub fn weigh(&self, of_field: Option<Change>, of_value: Option<Change>) -> Weighed {
        let since = |time: i64| self.before.map(|before| time > before);
        let is_recent = |change: &Change| since(change.time) != Some(false);
        let by_value = of_value.is_some() && !of_field.as_ref().is_some_and(is_recent);
        let change = if by_value { of_value } else { of_field };
        let time = change.map(|change| change.time);
        let same_chain = change.is_some_and(|change| change.same_chain);
        Weighed {
            time,
            certain: change.is_some_and(|change| change.certain),
            of_value: by_value,
            // where nothing was found, nothing has changed in all of the time looked at
            since_last: time.map_or(self.before.map(|_| false), since),
            meanwhile: !same_chain && time.is_some_and(|time| time > self.start.saturating_sub(SKEW)),
        }
    }

    /// How long before the end of the processing that was.
    pub fn age(&self, time: i64) -> i64 {
        self.end.saturating_sub(time).max(0)
    }
}

impl Weighed {
    /// Whether the input may have been the cause.
    pub fn may_be_the_cause(&self) -> bool {
        self.time.is_some() && self.since_last != Some(false)
    }

    /// When its source changed, in words. `pv`: what was found to have changed; `age`: how long before the end of the
    /// processing.
    pub fn when(&self, pv: &str, age: i64) -> String {
        let before = duration(u64::try_from(age).unwrap_or(0));
        let changed = match (self.certain, self.of_value) {
            (true, true) => format!("a field that processing may change; {pv} last changed {before} before"),
            (false, true) => {
                format!("a field that processing may change; {pv} may have changed {before} before")
            }
            (true, false) => format!("which changed {before} before"),
            (false, false) => {
                format!("which may have changed {before} before, when it was processed or written")
            }
        };
        let when = match self.since_last {
            Some(false) => ", not since it processed before",
            None => "; when it processed before is not known",
            Some(true) if self.meanwhile => ", while it processed: it may have been read before that",
            Some(true) => "",
        };
        format!("{changed}{when}")
    }

    /// The same where no change was found.
    pub fn without_change(&self) -> &'static str {
        match self.since_last {
            Some(false) => "which is not known to have changed since it processed before",
            _ => "no change of which is in the log in the minute before",
        }
    }
}

/// When a link is read, if that is not always.
pub fn remark(field: &str) -> &'static str {
    match field {
        "DOL" => " (read in closed loop only)",
        "SIOL" => " (read in simulation only)",
        _ => "",
    }
}

/// The span whose inputs may have been the cause of what span `number` of a chain shows, and whether it is that of another
/// record, which wrote to that one. `None` if a put began the chain: that is the cause then.
pub fn own(chain: &Chain, number: usize) -> Option<(usize, bool)> {
    let by_put = matches!(&chain.root()?.kind, SpanKind::Put(put) if !put.only_processes);
    let (mut own, mut is_writer) = (number, false);
    let mut span = chain.spans.get(number).filter(|_| !by_put)?;
    // parents come before their children
    while let Some(put) = span.parent.and_then(|put| chain.spans.get(put)) {
        if !matches!(put.kind, SpanKind::Put(_)) {
            break;
        }
        own = put.parent?;
        span = chain.spans.get(own)?;
        is_writer = true;
    }
    matches!(span.kind, SpanKind::Process(_)).then_some((own, is_writer))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first value that the log has may have been a change; the source may have been processed since, and have kept it.
    #[test]
    fn a_change_that_may_have_been_is_not_the_last_processing() {
        let weighed = Weighed { time: Some(0), ..Weighed::default() };
        let told = weighed.when("T:SP", 13_000_000_000);
        assert!(told.starts_with("which may have changed 13"), "{told}");
        let told = Weighed { of_value: true, ..weighed }.when("T:SP", 13_000_000_000);
        assert!(told.contains("T:SP may have changed 13"), "{told}");
    }
}
