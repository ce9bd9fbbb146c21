//! States of records, as the observer was sent them: value and alarm, and since when.

use super::same;
use super::truth::{time, Truth};
use serde_json::{json, Value};

/// By EPICS Base's numbers.
pub const SEVERITIES: [&str; 4] = ["NO_ALARM", "MINOR", "MAJOR", "INVALID"];
/// By EPICS Base's numbers, those that occur here and between.
const STATUSES: [&str; 18] = [
    "NO_ALARM", "READ", "WRITE", "HIHI", "HIGH", "LOLO", "LOW", "STATE", "COS", "COMM", "TIMEOUT", "HWLIMIT",
    "CALC", "SCAN", "LINK", "SOFT", "BAD_SUB", "UDF",
];
/// A state of a record, and when it got it.
#[derive(Clone, Debug)]
pub struct State {
    pub time: i64,
    pub value: Value,
    pub severity: Value,
    pub status: Value,
}

impl State {
    pub fn is(&self, other: &State) -> bool {
        same(&self.value, &other.value) && self.has_alarm_of(other)
    }

    pub fn has_alarm_of(&self, other: &State) -> bool {
        self.severity == other.severity && self.status == other.status
    }
}

/// A reading of the observer.
pub fn state(reading: &Value) -> State {
    let number = |key: &str| reading[key].as_u64().expect(key) as usize;
    State {
        time: time(reading, "stamp"),
        value: reading["value"].clone(),
        severity: json!(SEVERITIES[number("severity")]),
        status: json!(STATUSES[number("status")]),
    }
}

/// What a record was at the beginning of a time, and what it became within.
pub fn states(truth: &Truth, record: &str, since: i64, until: i64) -> (State, Vec<State>) {
    let events = truth.part("events")[record].as_array().expect("events");
    let all = events.iter().map(state);
    let before = all.clone().rfind(|state| state.time < since);
    let within = all.filter(|state| (since..until).contains(&state.time)).collect();
    (before.expect("it was something"), within)
}
