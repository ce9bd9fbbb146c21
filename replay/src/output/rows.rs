//! Listings: the same rows as text, JSON lines or CSV, alike in all commands.
//!
//! A [`Row`] says what its keys are; [`formats`] gives the writers. The keys of a JSON line are the columns of the CSV
//! file, in the same order. Keys never change; add new ones at the end.

use super::format::{Format, Writer};
use crate::model::enum_strings;
use crate::out::{add, line, Out};
use crate::terminal::style::Style;
use crate::time::Zone;
use serde::Serialize;
use serde_json::Value;
use std::borrow::Cow;
use std::io;
use std::marker::PhantomData;

/// A row of a listing.
pub trait Row {
    /// Its keys and values, with times as text.
    type Line<'a>: Serialize
    where
        Self: 'a;

    /// Its keys and values; the keys are the same for every row.
    fn line<'a>(&'a self, zone: &'a Zone) -> Self::Line<'a>;

    /// Its line of text.
    fn text(&self, zone: &Zone) -> String;

    /// Writes that line; some show a part of it in a style.
    ///
    /// # Errors
    /// If the output can't be written.
    fn write_text(&self, out: &mut Out, zone: &Zone) -> io::Result<()> {
        line!(out, "{}", self.text(zone))
    }
}

/// Writes a line of text, with the alarm that begins at a byte of it in its style.
///
/// # Errors
/// If the output can't be written.
pub fn write_with_alarm(out: &mut Out, text: &str, at: usize, alarm: Option<(u16, u16)>) -> io::Result<()> {
    let parts = alarm.and_then(|(severity, status)| {
        let (before, rest) = text.split_at_checked(at)?;
        let shown = enum_strings::alarm(severity, status);
        Some((before, Style::of_severity(severity), rest.strip_prefix(&*shown)?, shown))
    });
    let Some((before, style, after, shown)) = parts else { return line!(out, "{text}") };
    add!(out, "{before}");
    out.style(style);
    add!(out, "{shown}");
    out.style(Style::Plain);
    line!(out, "{after}")
}

/// The three formats of a listing: `text`, the default, `jsonl` and `csv`.
pub const fn formats<T: Row + 'static>() -> [Format<T>; 3] {
    [text(), jsonl(), csv()]
}

/// A line of text for each row.
pub const fn text<T: Row + 'static>() -> Format<T> {
    Format { name: "text", writer: |zone| Box::new(Text { zone, rows: PhantomData }) }
}

/// A JSON object for each row.
pub const fn jsonl<T: Row + 'static>() -> Format<T> {
    Format { name: "jsonl", writer: |zone| Box::new(JsonLines { zone, rows: PhantomData }) }
}

/// CSV with a heading.
pub const fn csv<T: Row + 'static>() -> Format<T> {
    Format { name: "csv", writer: |zone| Box::new(Csv { zone, begun: false, rows: PhantomData }) }
}

struct Text<'a, T> {
    zone: &'a Zone,
    rows: PhantomData<T>,
}

impl<T: Row> Writer<T> for Text<'_, T> {
    fn write(&mut self, out: &mut Out, row: &T) -> io::Result<()> {
        row.write_text(out, self.zone)
    }
}

struct JsonLines<'a, T> {
    zone: &'a Zone,
    rows: PhantomData<T>,
}

impl<T: Row> Writer<T> for JsonLines<'_, T> {
    fn write(&mut self, out: &mut Out, row: &T) -> io::Result<()> {
        out.json(&row.line(self.zone))
    }
}

/// CSV as RFC 4180 has it, but with line feeds: a heading, then a line for each row. An unknown value is an empty cell,
/// an array is JSON. Control characters are escaped as everywhere, so a row is always one line. What a spreadsheet would
/// take for a formula, at the beginning of a cell or after a semicolon, begins with an apostrophe.
struct Csv<'a, T> {
    zone: &'a Zone,
    begun: bool,
    rows: PhantomData<T>,
}

impl<T: Row> Writer<T> for Csv<'_, T> {
    fn write(&mut self, out: &mut Out, row: &T) -> io::Result<()> {
        csv_line(out, &row.line(self.zone), !std::mem::replace(&mut self.begun, true))
    }
}

/// The shape of a listing whose text is not one line for each row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shape {
    /// For people.
    #[default]
    Text,
    /// A JSON object for each row.
    JsonLines,
    /// CSV with a heading.
    Csv,
}

impl Shape {
    /// The shape of that name.
    pub fn find(name: &str) -> Option<Shape> {
        Some(match name {
            "text" => Shape::Text,
            "jsonl" => Shape::JsonLines,
            "csv" => Shape::Csv,
            _ => return None,
        })
    }
}

/// Writes a row as a JSON object or a line of CSV; as text it has none.
///
/// # Errors
/// If it can't be written.
pub fn write_row(out: &mut Out, shape: Shape, is_first: bool, line: &impl Serialize) -> io::Result<()> {
    match shape {
        Shape::Text => Ok(()),
        Shape::JsonLines => out.json(line),
        Shape::Csv => csv_line(out, line, is_first),
    }
}

/// Writes a line of CSV, after the heading if it is the first.
///
/// # Errors
/// If it can't be written.
pub fn csv_line(out: &mut Out, line: &impl Serialize, is_first: bool) -> io::Result<()> {
    let json = serde_json::to_string(line)?;
    if is_first {
        push_row(out.text(), Entries::of(&json), |text, (key, _)| push_quoted(text, &unquoted(key)));
        out.end()?;
    }
    push_row(out.text(), Entries::of(&json), |text, (_, value)| push_cell(text, value));
    out.end()
}

/// Writes a line of CSV under columns that lines of several sorts share, after the heading if it is the first: each cell
/// has what the line has under that key, and is empty if it has no such key.
///
/// # Errors
/// If it can't be written.
pub fn csv_line_under(
    out: &mut Out,
    columns: &[&str],
    line: &impl Serialize,
    is_first: bool,
) -> io::Result<()> {
    let json = serde_json::to_string(line)?;
    if is_first {
        line!(out, "{}", columns.join(","))?;
    }
    let entries: Vec<(&str, &str)> = Entries::of(&json).collect();
    push_row(out.text(), columns.iter(), |text, column| {
        if let Some((_, value)) = entries.iter().find(|(key, _)| unquoted(key) == *column) {
            push_cell(text, value);
        }
    });
    out.end()
}

/// Adds the cells of a row, with commas between them.
fn push_row<T>(text: &mut String, cells: impl Iterator<Item = T>, push: impl Fn(&mut String, T)) {
    for (number, cell) in cells.enumerate() {
        if number > 0 {
            text.push(',');
        }
        push(text, cell);
    }
}

/// The keys and values of a line, in their order, both as JSON: what is left of an object as serde_json writes it, without
/// blanks. Numbers are not read: each comes through unchanged.
struct Entries<'a>(&'a str);

impl<'a> Entries<'a> {
    fn of(object: &'a str) -> Entries<'a> {
        Entries(object.strip_prefix('{').unwrap_or_default())
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = (&'a str, &'a str);

    fn next(&mut self) -> Option<(&'a str, &'a str)> {
        let rest = self.0.strip_prefix(',').unwrap_or(self.0);
        if !rest.starts_with('"') {
            return None;
        }
        let (key, rest) = rest.split_at_checked(end_of_text(rest))?;
        let rest = rest.strip_prefix(':')?;
        let (value, rest) = rest.split_at_checked(end_of_value(rest))?;
        self.0 = rest;
        Some((key, value))
    }
}

/// The bytes of the text in quotation marks with which JSON begins.
fn end_of_text(json: &str) -> usize {
    let mut bytes = json.bytes().enumerate().skip(1);
    while let Some((place, byte)) = bytes.next() {
        match byte {
            b'"' => return place + 1,
            b'\\' => _ = bytes.next(),
            _ => {}
        }
    }
    json.len()
}

/// The bytes of the value with which what is left of an object begins.
fn end_of_value(json: &str) -> usize {
    let (mut depth, mut place) = (0_usize, 0);
    while let Some(byte) = json.as_bytes().get(place) {
        match byte {
            b'"' => {
                place += json.get(place..).map_or(1, end_of_text);
                continue;
            }
            b',' | b'}' if depth == 0 => return place,
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        place += 1;
    }
    json.len()
}

/// The text that JSON in quotation marks stands for.
fn unquoted(json: &str) -> Cow<'_, str> {
    match json.strip_prefix('"').and_then(|text| text.strip_suffix('"')) {
        Some(text) if !text.contains('\\') => text.into(),
        _ => serde_json::from_str::<String>(json).unwrap_or_default().into(),
    }
}

/// Adds the cell of a value.
fn push_cell(text: &mut String, json: &str) {
    match json.bytes().next() {
        None | Some(b'n') => {}
        Some(b'"') => push_quoted(text, &unquoted(json)),
        // the keys of objects in their order
        Some(b'{' | b'[') if json.contains('{') => {
            let value = serde_json::from_str(json).unwrap_or(Value::Null);
            push_quoted(text, &value.to_string());
        }
        Some(b'[') => push_quoted(text, json),
        _ => text.push_str(json),
    }
}

/// What begins a formula in a spreadsheet, in Japanese ones also as wide letters.
const SIGNS: [char; 8] = ['=', '+', '-', '@', '＝', '＋', '－', '＠'];

/// Adds a text, in quotes where CSV needs them.
fn push_quoted(to: &mut String, text: &str) {
    let text = guarded(text);
    let needs_quotes = |byte| matches!(byte, b',' | b'"' | b'\n' | b'\r');
    if text.bytes().any(needs_quotes) || text.starts_with(' ') || text.ends_with(' ') {
        to.push('"');
        for (number, part) in text.split('"').enumerate() {
            if number > 0 {
                to.push_str("\"\"");
            }
            to.push_str(part);
        }
        to.push('"');
    } else {
        to.push_str(&text);
    }
}

/// A text in which no spreadsheet finds a formula that it would run. One of a country that writes decimal commas begins a cell
/// after each semicolon, too, also within quotes. A number is no formula.
fn guarded(text: &str) -> Cow<'_, str> {
    // only what begins with a sign, or has a semicolon before it
    if !(text.starts_with(SIGNS) || text.contains(';') && text.contains(SIGNS)) {
        return text.into();
    }
    let mut guarded = String::with_capacity(text.len() + 1);
    for (number, part) in text.split(';').enumerate() {
        let (begins, cell) = match number {
            0 => (part, text),
            _ => (part.trim_start_matches('"'), part),
        };
        if number > 0 {
            guarded.push(';');
        }
        if begins.starts_with(SIGNS) && cell.parse::<f64>().is_err() {
            guarded.push('\'');
        }
        guarded.push_str(part);
    }
    guarded.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::out::line;

    #[derive(Serialize)]
    struct Line<'a> {
        pv: &'a str,
        value: Value,
        known: Option<bool>,
    }

    struct Sample(&'static str, Value);

    impl Row for Sample {
        type Line<'a> = Line<'a>;

        fn line<'a>(&'a self, _: &'a Zone) -> Line<'a> {
            Line { pv: self.0, value: self.1.clone(), known: None }
        }

        fn text(&self, _: &Zone) -> String {
            format!("{}: {}", self.0, self.1)
        }
    }

    #[test]
    fn an_alarm_in_its_style() {
        let shown = |at: usize, alarm: Option<(u16, u16)>| {
            let mut bytes = Vec::new();
            let mut out = Out::new(&mut bytes);
            out.use_styles(true);
            write_with_alarm(&mut out, "MAJOR\u{e9}  MAJOR HIHI  x", at, alarm).unwrap();
            String::from_utf8(bytes).unwrap()
        };
        let plain = "MAJOR\u{e9}  MAJOR HIHI  x\n";
        assert_eq!(shown(9, Some((2, 3))), "MAJOR\u{e9}  \x1b[31mMAJOR HIHI\x1b[0m  x\n");
        // what stands there is something else, or no place in the line
        for (at, alarm) in
            [(9, Some((3, 17))), (9, Some((0, 0))), (9, None), (6, Some((2, 3))), (usize::MAX, Some((2, 3)))]
        {
            assert_eq!(shown(at, alarm), plain);
        }
    }

    /// A row of CSV as the same values make it that are read from the JSON line.
    fn by_values(line: &Line) -> String {
        let json = serde_json::to_string(line).unwrap();
        let values: serde_json::Map<String, Value> = serde_json::from_str(&json).unwrap();
        let cell = |key: &str| {
            let text = match &values[key] {
                Value::Null => String::new(),
                Value::String(text) => guarded(text).into_owned(),
                value @ (Value::Number(_) | Value::Bool(_)) => value.to_string(),
                value => guarded(&value.to_string()).into_owned(),
            };
            let is_odd = text.contains([',', '"', '\n', '\r']);
            if is_odd || text.starts_with(' ') || text.ends_with(' ') {
                format!("\"{}\"", text.replace('"', "\"\""))
            } else {
                text
            }
        };
        ["pv", "value", "known"].map(cell).join(",")
    }

    #[test]
    fn cells_are_those_of_the_values() {
        let short = ["", " ", "a", "a ", "\"", "\\", "\\\"", "a,b", "}", "]", "[\"", ",", "\"\"", ";", "'="];
        let others = ["{\"pv\":1}", "\u{1}\n\t", "é電\u{2028}", "=1", "a;-b;-2", "\\u0041", "null", "true"];
        let signs = ["-1.5", "＝", "x＝", "2026-01-31T23:59:59", "a-b", "a;b"];
        let texts = [short.as_slice(), &others, &signs].concat();
        let mut values = vec![Value::Null, Value::from(true), Value::from(-7), Value::from(u64::MAX)];
        values.extend([1.5, 1e300, 5e-324, -0.0, 1e16].map(Value::from));
        values.extend([0.1_f32, f32::MAX].map(Value::from));
        values.push(serde_json::json!([]));
        values.push(serde_json::json!({}));
        values.push(serde_json::json!([1, -2.5, null, [true, []]]));
        for text in texts.iter().copied() {
            values.push(text.into());
            values.push(serde_json::json!([text, 1, text]));
            values.push(serde_json::json!({"z": text, "a": [{"y": 1, "b": text}], text: 2}));
        }
        for pv in texts.iter().copied() {
            for value in &values {
                for known in [None, Some(true), Some(false)] {
                    let line = Line { pv, value: value.clone(), known };
                    let mut bytes = Vec::new();
                    csv_line(&mut Out::new(&mut bytes), &line, false).unwrap();
                    let mut expected = Vec::new();
                    line!(Out::new(&mut expected), "{}", by_values(&line)).unwrap();
                    assert_eq!(String::from_utf8(bytes).unwrap(), String::from_utf8(expected).unwrap());
                }
            }
        }
    }

    fn written(number: usize, rows: &[Sample]) -> String {
        let (formats, zone, mut bytes) = (formats::<Sample>(), Zone::utc(), Vec::new());
        let mut out = Out::new(&mut bytes);
        let mut writer = (formats[number].writer)(&zone);
        writer.begin(&mut out).unwrap();
        rows.iter().for_each(|row| writer.write(&mut out, row).unwrap());
        writer.end(&mut out).unwrap();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn csv_has_every_number_to_its_last_digit() {
        // a reader of JSON that is not exact takes these for their neighbours
        for number in ["-1.7836486572462039e+308", "9.9609375e+307", "9007199254740993", "5e-324", "-0.0"] {
            let value: Value = serde_json::from_str(number).unwrap();
            let exact: f64 = number.parse().unwrap();
            let text = written(2, &[Sample("A", value)]);
            let cell = text.trim().rsplit(',').nth(1).unwrap();
            assert_eq!(cell.parse::<f64>().unwrap().to_bits(), exact.to_bits(), "{text}");
            assert!(cell.starts_with(&number[..3]), "{text}");
        }
    }

    #[test]
    fn the_same_row_in_all_formats() {
        let rows = [Sample("A", 1.5.into()), Sample("B", Value::Null)];
        assert_eq!(written(0, &rows), "A: 1.5\nB: null\n");
        assert_eq!(
            written(1, &rows),
            "{\"pv\":\"A\",\"value\":1.5,\"known\":null}\n{\"pv\":\"B\",\"value\":null,\"known\":null}\n"
        );
        assert_eq!(written(2, &rows), "pv,value,known\nA,1.5,\nB,,\n");
    }

    #[test]
    fn a_cell_can_hold_anything() {
        let rows = [
            Sample("a,b", "say \"hi\"".into()),
            Sample("two\nlines", serde_json::json!([1, "x"])),
            Sample("=1+2", "-5".into()),
            Sample("＝1", "＠SUM(1)".into()),
            Sample("x;=1+2;-5", "a;\"+b".into()),
        ];
        assert_eq!(
            written(2, &rows),
            "pv,value,known\n\"a,b\",\"say \"\"hi\"\"\",\n\"two\\nlines\",\"[1,\"\"x\"\"]\",\n'=1+2,-5,\n'＝1,'＠SUM(1),\nx;'=1+2;-5,\"a;'\"\"+b\",\n"
        );
    }
}
