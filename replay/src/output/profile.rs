//! Profiles: folded stacks for flame graphs, speedscope's JSON, and a row for each stack.
//!
//! A folded stack is a line for `inferno-flamegraph` or `flamegraph.pl`: frames separated by `;`, a space, and the time
//! in nanoseconds. A `;` in a name becomes `:`, since nothing can quote it. speedscope opens the other: a profile for
//! each IOC, with times in nanoseconds.

use super::format::{Format, Writer};
use super::rows::{write_row, Shape};
use crate::model::profile::Profile;
use crate::out::{line, Out};
use serde::Serialize;
use serde_json::json;
use std::collections::{BTreeMap, HashMap};
use std::io;

/// The formats; the first is the default.
pub static FORMATS: [Format<Profile>; 5] = [
    Format { name: "folded", writer: |_| Box::new(Folded) },
    Format { name: "speedscope", writer: |_| Box::new(Speedscope) },
    // as other commands call what they write if nothing is asked for
    Format { name: "text", writer: |_| Box::new(Folded) },
    Format { name: "jsonl", writer: |_| Box::new(Rows(Shape::JsonLines)) },
    Format { name: "csv", writer: |_| Box::new(Rows(Shape::Csv)) },
];

struct Rows(Shape);

/// The keys of a stack.
#[derive(Serialize)]
struct StackLine<'a> {
    ioc: Option<&'a str>,
    cause: Option<&'a str>,
    /// The record whose time it is.
    record: Option<&'a str>,
    time_ns: u64,
    /// The records from the first to that one; of all that there were too many of, what folded stacks have.
    stack: &'a [&'a str],
}

impl Writer<Profile> for Rows {
    fn write(&mut self, out: &mut Out, profile: &Profile) -> io::Result<()> {
        for (number, (stack, time)) in profile.stacks().enumerate() {
            let (ioc, cause, stack) = match stack.as_slice() {
                [ioc, cause, stack @ ..] if !stack.is_empty() => (Some(*ioc), Some(*cause), stack),
                stack => (None, None, stack),
            };
            let record = stack.last().copied().filter(|_| ioc.is_some());
            let line = StackLine { ioc, cause, record, time_ns: time, stack };
            write_row(out, self.0, number == 0, &line)?;
        }
        Ok(())
    }
}

struct Folded;

impl Writer<Profile> for Folded {
    fn write(&mut self, out: &mut Out, profile: &Profile) -> io::Result<()> {
        for (stack, time) in profile.stacks() {
            let frames: Vec<String> = stack.iter().map(|frame| frame.replace(';', ":")).collect();
            line!(out, "{} {time}", frames.join(";"))?;
        }
        Ok(())
    }
}

struct Speedscope;

impl Writer<Profile> for Speedscope {
    fn write(&mut self, out: &mut Out, profile: &Profile) -> io::Result<()> {
        let (mut frames, mut numbers) = (Vec::new(), HashMap::new());
        let mut iocs: BTreeMap<&str, (Vec<Vec<usize>>, Vec<u64>)> = BTreeMap::new();
        for (stack, time) in profile.stacks() {
            let Some((ioc, stack)) = stack.split_first() else { continue };
            let sample = stack.iter().map(|frame| {
                *numbers.entry(*frame).or_insert_with(|| {
                    frames.push(json!({ "name": frame }));
                    frames.len() - 1
                })
            });
            let sample = sample.collect();
            let (samples, weights) = iocs.entry(*ioc).or_default();
            samples.push(sample);
            weights.push(time);
        }
        let profiles: Vec<serde_json::Value> = iocs
            .into_iter()
            .map(|(ioc, (samples, weights))| {
                let sum: u64 = weights.iter().sum();
                json!({
                    "type": "sampled", "name": ioc, "unit": "nanoseconds", "startValue": 0, "endValue": sum,
                    "samples": samples, "weights": weights,
                })
            })
            .collect();
        out.json(&json!({
            "$schema": "https://www.speedscope.app/file-format-schema.json",
            "exporter": concat!("iocreplay ", env!("CARGO_PKG_VERSION")),
            "name": "time of records",
            "shared": { "frames": frames },
            "profiles": profiles,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Zone;

    fn written(number: usize) -> String {
        let mut profile = Profile::default();
        for (stack, time) in [(["demo", "scan 1 second", "A"], 500), (["demo", "put", "B;x\n"], 7)] {
            profile.add(&stack, time);
        }
        let (zone, mut bytes) = (Zone::utc(), Vec::new());
        (FORMATS[number].writer)(&zone).write(&mut Out::new(&mut bytes), &profile).unwrap();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn folded_stacks() {
        assert_eq!(written(0), "demo;put;B:x\\n 7\ndemo;scan 1 second;A 500\n");
    }

    #[test]
    fn rows() {
        assert_eq!(written(2), written(0));
        assert_eq!(
            written(3).lines().next().unwrap(),
            r#"{"ioc":"demo","cause":"put","record":"B;x\n","time_ns":7,"stack":["B;x\n"]}"#
        );
        assert_eq!(
            written(4),
            "ioc,cause,record,time_ns,stack\ndemo,put,\"B;x\\n\",7,\"[\"\"B;x\\n\"\"]\"\n\
             demo,scan 1 second,A,500,\"[\"\"A\"\"]\"\n"
        );
    }

    #[test]
    fn speedscope() {
        let file: serde_json::Value = serde_json::from_str(&written(1)).unwrap();
        let profile = &file["profiles"][0];
        assert_eq!((&profile["name"], &profile["endValue"]), (&json!("demo"), &json!(507)));
        assert_eq!(profile["samples"], json!([[0, 1], [2, 3]]));
        assert_eq!(profile["weights"], json!([7, 500]));
        assert_eq!(file["shared"]["frames"][3]["name"], "A");
    }
}
