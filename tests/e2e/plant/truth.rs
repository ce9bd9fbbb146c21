//! truth.json, as tests/rig/plant/record.py wrote it, and its times.

use serde_json::Value;
use std::fs;
use std::path::Path;

/// What truly happened.
pub struct Truth(Value);

impl Truth {
    pub(super) fn read(path: &Path) -> Truth {
        let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Truth(serde_json::from_str(&text).expect("JSON"))
    }

    /// A part of it.
    pub fn part(&self, key: &str) -> &Value {
        let part = &self.0[key];
        assert!(!part.is_null(), "truth.json has no {key}");
        part
    }

    /// A part that is a list.
    pub fn list(&self, key: &str) -> &[Value] {
        self.part(key).as_array().expect("a list")
    }

    /// Every put from outside, in order.
    pub fn puts(&self) -> &[Value] {
        self.list("puts")
    }

    /// One of the clients; None for the IOC's shell, which has no client.
    pub fn client(&self, name: &Value) -> Option<&Value> {
        self.list("clients").iter().find(|client| client["name"] == *name)
    }

    /// The IOC of a PV.
    pub fn ioc_of(&self, pv: &str) -> &Value {
        self.ioc(&self.part("records")[record_of(pv)]["ioc"])
    }

    /// One of the IOCs.
    pub fn ioc(&self, name: &Value) -> &Value {
        self.list("iocs").iter().find(|ioc| ioc["name"] == *name).expect("it is one of the plant's")
    }

    /// The time of a moment.
    pub fn moment(&self, name: &str) -> i64 {
        time(&self.part("moments")[name], "time")
    }
}

impl Truth {
    /// What the observer was sent of a PV within a time, by the IOC's stamps. The first of all is what was there before.
    pub fn events(&self, pv: &str, since: i64, until: i64) -> impl Iterator<Item = &Value> {
        let events = self.part("events")[pv].as_array().map_or(&[][..], Vec::as_slice);
        events.iter().skip(1).filter(move |event| (since..until).contains(&time(event, "stamp")))
    }

    /// The next time at which nothing happened for some milliseconds, so that no clock's step is in doubt.
    pub fn quiet(&self, after: i64) -> i64 {
        const AROUND: i64 = 8_000_000;
        let is_busy = |at: i64| {
            let all = self.part("events").as_object().expect("an object").keys();
            let mut all = all.map(|pv| self.events(pv, at - AROUND, at + AROUND).next());
            all.any(|event| event.is_some())
        };
        (0..).map(|step| after + step * AROUND).find(|at| !is_busy(*at)).expect("a quiet time")
    }
}

/// The record of a PV.
pub fn record_of(pv: &str) -> &str {
    pv.split('.').next().unwrap_or(pv)
}

/// A time in the truth.
pub fn time(value: &Value, key: &str) -> i64 {
    value[key].as_i64().unwrap_or_else(|| panic!("no {key} in {value}"))
}

/// A time as the reader writes it, in UTC, as nanoseconds since 1970.
pub fn nanoseconds(text: &Value) -> i64 {
    let text = text.as_str().unwrap_or_else(|| panic!("no time: {text}"));
    let (clock, zone) = text.split_at(text.len() - 6);
    assert_eq!(zone, "+00:00", "{text}");
    let number = |range: std::ops::Range<usize>| clock[range].parse::<i64>().expect("digits");
    let (year, month, day) = (number(0..4), number(5..7), number(8..10));
    let seconds = number(11..13) * 3600 + number(14..16) * 60 + number(17..19);
    let fraction = clock.get(20..).unwrap_or_default();
    let fraction: i64 = format!("{fraction:0<9}").parse().expect("digits");
    (days(year, month, day) * 86_400 + seconds) * 1_000_000_000 + fraction
}

/// A time as the reader takes it.
pub fn iso(nanoseconds: i64) -> String {
    let (seconds, fraction) = (nanoseconds.div_euclid(1_000_000_000), nanoseconds.rem_euclid(1_000_000_000));
    let (day, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // the plant is of this century, so that years can be tried one after the other
    let year = (1970..).find(|year| days(year + 1, 1, 1) > day).expect("a year");
    let month = (1..=12).rev().find(|month| days(year, *month, 1) <= day).expect("a month");
    let (hour, minute) = (second / 3600, second / 60 % 60);
    let date = format!("{year:04}-{month:02}-{:02}", day - days(year, month, 1) + 1);
    format!("{date}T{hour:02}:{minute:02}:{:02}.{fraction:09}+00:00", second % 60)
}

/// Days from 1970-01-01 to a date.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let is_leap = |year: i64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let before: i64 = (1970..year).map(|year| if is_leap(year) { 366 } else { 365 }).sum();
    let february = if is_leap(year) { 29 } else { 28 };
    let months = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    before + months.iter().take(month as usize - 1).sum::<i64>() + day - 1
}

#[test]
fn times_are_read_and_written() {
    for (text, seconds) in [
        ("1970-01-01T00:00:00.000000000+00:00", 0),
        ("2024-02-29T23:59:59.000000000+00:00", 1_709_251_199),
        ("2026-11-22T10:06:07.000000000+00:00", 1_795_341_967),
    ] {
        assert_eq!(nanoseconds(&Value::from(text)), seconds * 1_000_000_000);
        assert_eq!(iso(seconds * 1_000_000_000), text);
    }
    assert_eq!(nanoseconds(&Value::from("1970-01-01T00:00:01.5+00:00")), 1_500_000_000);
    assert_eq!(nanoseconds(&Value::from("1970-01-01T00:00:01+00:00")), 1_000_000_000);
}
