//! Profiles: folded stacks for flame graphs, and speedscope's JSON.
//!
//! A folded stack is a line for `inferno-flamegraph` or `flamegraph.pl`: frames separated by `;`, a space, and the time
//! in nanoseconds. A `;` in a name becomes `:`, since nothing can quote it. speedscope opens the other: a profile for
//! each IOC, with times in nanoseconds.

use super::format::{Format, Writer};
use crate::model::profile::Profile;
use crate::out::{line, Out};
use serde_json::json;
use std::collections::{BTreeMap, HashMap};
use std::io;

/// The formats; the first is the default.
pub static FORMATS: [Format<Profile>; 2] = [
    Format { name: "folded", writer: |_| Box::new(Folded) },
    Format { name: "speedscope", writer: |_| Box::new(Speedscope) },
];

struct Folded;

impl Writer<Profile> for Folded {
    fn write(&mut self, out: &mut Out, profile: &Profile) -> io::Result<()> {
        for (stack, time) in &profile.stacks {
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
        for (stack, time) in &profile.stacks {
            let Some((ioc, stack)) = stack.split_first() else { continue };
            let sample = stack.iter().map(|frame| {
                *numbers.entry(frame.as_str()).or_insert_with(|| {
                    frames.push(json!({ "name": frame }));
                    frames.len() - 1
                })
            });
            let sample = sample.collect();
            let (samples, weights) = iocs.entry(ioc).or_default();
            samples.push(sample);
            weights.push(*time);
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
            profile.stacks.insert(stack.map(str::to_owned).to_vec(), time);
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
    fn speedscope() {
        let file: serde_json::Value = serde_json::from_str(&written(1)).unwrap();
        let profile = &file["profiles"][0];
        assert_eq!((&profile["name"], &profile["endValue"]), (&json!("demo"), &json!(507)));
        assert_eq!(profile["samples"], json!([[0, 1], [2, 3]]));
        assert_eq!(profile["weights"], json!([7, 500]));
        assert_eq!(file["shared"]["frames"][3]["name"], "A");
    }
}
