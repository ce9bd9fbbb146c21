//! Differences between two times, a row for each PV that had another value, or is unknown at one of them. The value of a
//! PV whose IOC has ended did not change: it is gone, and its row says when.
//!
//! The cause of the last change is told only as far as it was seen. A value that the recorder read, or that a record had
//! when it processed after something went unseen, may be older: then the row says between which times it came.

use super::at::{known, shown};
use super::rows::{self, Row};
use crate::answers::states::state::{Changed, FieldState, Since};
use crate::model::history::{Origin, ValueSource};
use crate::model::value::{self, same};
use crate::output::format::Format;
use crate::time::Zone;
use crate::wording::origin;
use crate::words::counted;
use iocrec_log::event::Value;
use serde::Serialize;
use std::fmt::Write as _;
use std::rc::Rc;

/// The formats; the first is the default.
pub static FORMATS: [Format<DiffRow>; 3] = rows::formats();

/// A field at two times.
pub struct DiffRow {
    /// At the first time; `None` if it was not known to exist.
    pub before: Option<FieldState>,
    /// At the second.
    pub after: Option<FieldState>,
}

/// A field as a JSON line. Keys are null where nothing is known.
#[derive(Serialize)]
pub struct Line {
    host: Option<String>,
    ioc: Option<String>,
    pv: String,
    record: String,
    field: String,
    before: serde_json::Value,
    before_text: Option<String>,
    /// `yes`, `doubt` or `no`.
    before_known: &'static str,
    before_doubt: Option<String>,
    after: serde_json::Value,
    after_text: Option<String>,
    after_known: &'static str,
    after_doubt: Option<String>,
    /// When the IOC ended with which the value is gone, at the latest.
    ended: Option<String>,
    changes: u64,
    /// When the last change was seen: at the latest then, if `cause_known` is not `yes`.
    time: Option<String>,
    cause: Option<String>,
    user: Option<String>,
    client: Option<String>,
    root: Option<String>,
    units: Option<String>,
    /// `yes`; `doubt` if the cause is that of processing which may have found the value there; `no`. Null without a change.
    cause_known: Option<&'static str>,
    /// When it had another value yet, if the change went unseen.
    since: Option<String>,
    /// Whether there may have been more changes.
    at_least: bool,
    /// Whether its IOC was started anew in between: `changes` are those since then.
    started_anew: bool,
}

/// Kinds of differences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Difference {
    /// It had different values, though one may be in doubt.
    Changed,
    /// It is unknown at one of the times.
    Unknown,
    /// Its IOC has ended since the first time, and its value is gone with it.
    Ended,
    /// It had the same value, but another one in between.
    Back,
    /// It had the same value, in an IOC that was started anew.
    Anew,
    /// It had the same value, if what went unseen did not change it.
    Doubtful,
    /// It had the same value.
    Same,
    /// It is unknown at both times.
    Nothing,
}

impl Difference {
    /// All kinds.
    pub const ALL: [Difference; 8] = [
        Difference::Changed,
        Difference::Unknown,
        Difference::Ended,
        Difference::Back,
        Difference::Anew,
        Difference::Doubtful,
        Difference::Same,
        Difference::Nothing,
    ];
}

impl DiffRow {
    fn either(&self) -> Option<&FieldState> {
        self.after.as_ref().or(self.before.as_ref())
    }

    /// What is different.
    pub fn difference(&self) -> Difference {
        let value = |field: &Option<FieldState>| field.as_ref().map_or(Value::Unknown, FieldState::value);
        // of an array that is cut, the rest may differ
        let is_cut = |field: &FieldState| field.seen.as_ref().is_some_and(|seen| seen.cut == Some(true));
        let certain = |field: &Option<FieldState>| {
            field.as_ref().is_some_and(|field| field.is_certain() && !is_cut(field))
        };
        match (value(&self.before), value(&self.after)) {
            (Value::Unknown, Value::Unknown) => Difference::Nothing,
            (_, Value::Unknown) if self.ended().is_some() => Difference::Ended,
            (Value::Unknown, _) | (_, Value::Unknown) => Difference::Unknown,
            (before, after) if same(&before, &after) == Some(false) => Difference::Changed,
            _ if self.is_started_anew() && self.has_other_text() => Difference::Changed,
            _ if self.changes() > 0 => Difference::Back,
            _ if self.is_started_anew() => Difference::Anew,
            _ if certain(&self.before) && certain(&self.after) => Difference::Same,
            _ => Difference::Doubtful,
        }
    }

    /// Whether its state has another name: the same number means something else.
    fn has_other_text(&self) -> bool {
        fn text(field: &Option<FieldState>) -> Option<&str> {
            field.as_ref()?.seen.as_ref()?.text()
        }
        text(&self.before).zip(text(&self.after)).is_some_and(|(before, after)| before != after)
    }

    /// When its IOC ended, if nothing has had the field since.
    fn ended(&self) -> Option<(i64, i64)> {
        self.after.as_ref()?.ended
    }

    /// Whether its IOC was started anew in between.
    fn is_started_anew(&self) -> bool {
        match (&self.before, &self.after) {
            (Some(before), Some(after)) => before.key.0 != after.key.0,
            _ => false,
        }
    }

    /// The origin of the last change in between, as far as it is told.
    pub fn origin(&self) -> Option<&Origin> {
        self.changed()?.origin.as_ref()
    }

    /// The last change in between.
    fn changed(&self) -> Option<&Rc<Changed>> {
        self.after.as_ref()?.seen.as_ref()?.changed.as_ref()
    }

    fn changes(&self) -> u64 {
        self.after.as_ref().and_then(|after| after.seen.as_ref()).map_or(0, |seen| u64::from(seen.changes))
    }

    fn at_least(&self) -> bool {
        self.after.as_ref().and_then(|after| after.seen.as_ref()).is_some_and(|seen| seen.at_least)
    }

    /// How often it changed, and when and why the last time.
    fn change(&self, last: &Changed, zone: &Zone) -> String {
        let at = zone.format(last.time, 3);
        let anew = if self.is_started_anew() { "since its IOC was started anew" } else { "" };
        let mut text = match (self.changes(), anew) {
            (0, "") => String::new(),
            (0, anew) => format!("{anew}, "),
            (1, "") if !self.at_least() => String::new(),
            (count, anew) => {
                let least = if self.at_least() { "at least " } else { "" };
                let changes = counted(count, "change");
                let space = if anew.is_empty() { "" } else { " " };
                format!("{least}{changes}{space}{anew}, the last ")
            }
        };
        let _ = match last.since {
            Since::Then => write!(text, "at {at}"),
            Since::After(since) => write!(text, "between {} and {at}", zone.format(since, 3)),
            Since::Unknown => write!(text, "by {at}"),
        };
        let record = self.either().map_or("", |field| &field.key.1);
        let led_to = || super::values::text::led_to(last.source, last.origin.as_ref(), record);
        let _ = match cause_known(last) {
            "yes" => write!(text, ": {}", led_to()),
            "doubt" => write!(text, ", perhaps then: {}", led_to()),
            _ => write!(text, ": cause not known"),
        };
        text
    }
}

/// Whether the cause of a change is known: `yes`, `doubt` or `no`.
fn cause_known(last: &Changed) -> &'static str {
    let is_told = last.origin.is_some();
    match (last.since, last.source) {
        (Since::Then, _) if is_told => "yes",
        (_, ValueSource::Process | ValueSource::Put) if is_told => "doubt",
        _ => "no",
    }
}

impl Row for DiffRow {
    type Line<'a> = Line;

    fn line<'a>(&'a self, zone: &'a Zone) -> Line {
        let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        let text = |field: &Option<FieldState>| field.as_ref()?.seen.as_ref()?.text().map(str::to_owned);
        let json = |field: &Option<FieldState>| {
            field.as_ref().map_or(serde_json::Value::Null, |field| value::json(&field.value()))
        };
        let doubt = |field: &Option<FieldState>| field.as_ref()?.doubt.as_deref().map(str::to_owned);
        let known = |field: &Option<FieldState>| field.as_ref().map_or("no", known);
        let key = self.either().map(|field| &field.key);
        let changed = self.changed();
        let origin = self.origin();
        let put = origin.and_then(origin::put);
        // the latest
        let properties = self.either().and_then(|field| field.properties(i64::MAX));
        Line {
            host: key.and_then(|(process, ..)| some(&process.host)),
            ioc: key.and_then(|(process, ..)| some(&process.ioc)),
            pv: self.either().map(FieldState::pv).unwrap_or_default(),
            record: key.map(|(_, record, _)| record.to_string()).unwrap_or_default(),
            field: key.map(|(.., field)| field.to_string()).unwrap_or_default(),
            before: json(&self.before),
            before_text: text(&self.before),
            before_known: known(&self.before),
            before_doubt: doubt(&self.before),
            after: json(&self.after),
            after_text: text(&self.after),
            after_known: known(&self.after),
            after_doubt: doubt(&self.after),
            ended: self
                .ended()
                .filter(|_| self.difference() == Difference::Ended)
                .map(|(_, by)| zone.format(by, 9)),
            changes: self.changes(),
            time: changed.map(|last| zone.format(last.time, 9)),
            cause: origin.map(origin::cause),
            user: put.as_ref().and_then(|put| put.user.as_deref().map(str::to_owned)),
            client: put.and_then(|put| put.client.as_deref().map(str::to_owned)),
            root: origin.and_then(origin::began),
            units: properties.and_then(|properties| some(&properties.units)),
            cause_known: changed.map(|last| cause_known(last)),
            since: changed.and_then(|last| match last.since {
                Since::After(since) => Some(zone.format(since, 9)),
                Since::Then | Since::Unknown => None,
            }),
            at_least: self.at_least(),
            started_anew: self.is_started_anew(),
        }
    }

    /// `PV  BEFORE -> AFTER  IOC  CHANGES, the last at TIME: CAUSE`, or `between TIME and TIME`.
    fn text(&self, zone: &Zone) -> String {
        let side = |field: &Option<FieldState>| field.as_ref().map_or("unknown".to_owned(), shown);
        let pv = self.either().map(FieldState::pv).unwrap_or_default();
        let ioc = self.either().map_or(String::new(), FieldState::place);
        let ioc = if ioc.is_empty() { "-" } else { &ioc };
        let is_gone = self.difference() == Difference::Ended;
        let ended = self.ended().filter(|_| is_gone).map(|when| super::at::between(when, zone));
        let change = match &ended {
            Some(_) => side(&self.before),
            None => format!("{} -> {}", side(&self.before), side(&self.after)),
        };
        let mut text = format!("{pv:<24}  {change:<32}  {ioc:<10}");
        if let Some(last) = self.changed() {
            let _ = write!(text, "  {}", self.change(last, zone));
        }
        for (when, field) in [("before", &self.before), ("after", &self.after)] {
            let doubt = field.as_ref().and_then(|field| field.doubt.as_ref());
            match (doubt, &ended) {
                (Some(doubt), Some(ended)) if when == "after" => {
                    let _ = write!(text, "  {doubt}, {ended}: the value is gone");
                }
                (Some(doubt), _) => drop(write!(text, "  ({when}: {doubt})")),
                (None, _) => {}
            }
        }
        text.truncate(text.trim_end().len());
        text
    }
}
