//! The records of the recorded IOCs: text for people, JSON lines for programs.

use crate::answers::inventory::Inventory;
use crate::filter::Filter;
use crate::out::{line, Out};
use crate::output::rows::{csv_line, Shape};
use iocrec_log::context::RecordRef;
use iocrec_log::escape::Shown;
use serde::Serialize;
use std::collections::hash_map::DefaultHasher;
use std::collections::HashSet;
use std::hash::{Hash, Hasher};
use std::io;

/// The lines that were written. One that says the same of another run or process is not written again.
#[derive(Default)]
pub struct Written(HashSet<u64>);

impl Written {
    /// Whether there was none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Notes a line; whether it is new.
    fn is_new(&mut self, line: &RecordLine) -> bool {
        let mut hasher = DefaultHasher::new();
        line.hash(&mut hasher);
        self.0.insert(hasher.finish())
    }
}

/// A record, as JSON.
#[derive(Serialize, Hash)]
struct RecordLine<'a> {
    host: Option<&'a str>,
    ioc: Option<&'a str>,
    record: &'a str,
    #[serde(rename = "type")]
    rtype: Option<&'a str>,
    aliases: &'a [Box<str>],
    states: &'a [Box<str>],
}

/// Writes the records of a run that match.
pub fn write(
    out: &mut Out,
    found: &Inventory,
    filter: &Filter,
    shape: Shape,
    written: &mut Written,
) -> io::Result<()> {
    found.records(filter).try_for_each(|record| one(out, found, record, shape, written))
}

fn one(
    out: &mut Out,
    found: &Inventory,
    record: RecordRef<'_>,
    shape: Shape,
    written: &mut Written,
) -> io::Result<()> {
    let context = found.context();
    let ioc = context.ioc(record.ioc).map(|ioc| ioc.name.as_str());
    let (aliases, states) = (context.aliases(record.id), context.enum_strings(record.id));
    let rtype = Some(record.rtype).filter(|rtype| !rtype.is_empty());
    let line = RecordLine { host: found.host(), ioc, record: record.name, rtype, aliases, states };
    let is_first = written.is_empty();
    if !written.is_new(&line) {
        return Ok(());
    }
    match shape {
        Shape::Text => {}
        Shape::JsonLines => return out.json(&line),
        Shape::Csv => return csv_line(out, &line, is_first),
    }
    let ioc = or_dash(ioc.unwrap_or_default());
    let [name, rtype, ioc] = [record.name, or_dash(record.rtype), ioc].map(Shown);
    let mut line = format!("{name:<32}  {rtype:<12}  {ioc:<16}");
    if !aliases.is_empty() {
        line.push_str(&format!("  also {}", aliases.join(" ")));
    }
    if !states.is_empty() {
        let numbered = states.iter().enumerate();
        let texts: Vec<String> = numbered.map(|(number, text)| format!("{number} \"{text}\"")).collect();
        line.push_str(&format!("  {}", texts.join(", ")));
    }
    line!(out, "{}", line.trim_end())
}

fn or_dash(text: &str) -> &str {
    if text.is_empty() {
        "-"
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::sample::inventory;

    fn records(filter: Filter, shape: Shape) -> String {
        let mut out = Vec::new();
        write(&mut Out::new(&mut out), &inventory(), &filter, shape, &mut Written::default()).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn records_with_what_is_known_of_them() {
        let text = records(Filter::default(), Shape::Text);
        let lines: Vec<String> =
            text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        assert_eq!(lines[0], "T:SP ao demo");
        assert!(lines[1].starts_with("T:VALVE bo demo also V1"), "{text}");
        assert!(lines[1].ends_with(r#"0 "Closed", 1 "Open""#), "{text}");
        assert!(!text.contains('\u{1b}'), "no escapes reach the terminal");
        let by_alias = records(Filter { pv: vec!["V1*".into()], ..Filter::default() }, Shape::JsonLines);
        let line: serde_json::Value = serde_json::from_str(by_alias.trim()).unwrap();
        assert_eq!((&line["record"], &line["type"]), (&"T:VALVE".into(), &"bo".into()));
        assert_eq!(line["states"], serde_json::json!(["Closed", "Open"]));
        assert_eq!(records(Filter { ioc: Some("x".into()), ..Filter::default() }, Shape::Text), "");
        assert_eq!(records(Filter { host: Some("x".into()), ..Filter::default() }, Shape::Text), "");
    }

    /// Another run of the recorder, or the IOC started anew, has the same records.
    #[test]
    fn a_record_comes_once() {
        for shape in [Shape::Text, Shape::JsonLines, Shape::Csv] {
            let (mut out, mut written) = (Vec::new(), Written::default());
            for _ in 0..2 {
                write(&mut Out::new(&mut out), &inventory(), &Filter::default(), shape, &mut written)
                    .unwrap();
            }
            assert_eq!(String::from_utf8(out).unwrap(), records(Filter::default(), shape));
        }
    }
}
