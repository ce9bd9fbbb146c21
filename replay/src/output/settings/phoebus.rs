//! CSV files of Phoebus's save-and-restore: a snapshot, and the configuration under which it is imported.
//!
//! One row that its importer (CSVImporter.java) can't read stops the whole import, so whatever it could not read is left out:
//! unsigned types, arrays of texts, states whose names are not all known. It takes an empty array for one element, cuts a
//! text at `~`, and takes what begins with `[` for an array. Times are seconds, a point, and nanoseconds as an integer.

use super::check::{is_enum, label, sort, text};
use super::Heading;
use crate::model::obstacle::Obstacle;
use crate::model::setting::{LeftOut, Setting};
use crate::model::value::elements;
use crate::out::{line, Out};
use crate::output::c_number::general;
use crate::output::caput::MAX_TEXT;
use iocrec_log::escape::is_unsafe;
use iocrec_log::event::{Dbf, Value};
use std::io;

/// PVs left out that the description names.
const MAX_NAMED: usize = 20;
/// Characters of a line of the description; the importer looks ahead 10000.
const MAX_LINE: usize = 500;

/// Writes a snapshot.
///
/// # Errors
/// If the output can't be written.
pub fn snapshot(out: &mut Out, heading: &Heading, settings: &[Setting]) -> io::Result<Vec<LeftOut>> {
    let (rows, left_out) = rows(settings);
    head(out, "Snapshot name:", heading, &left_out)?;
    line!(out, "# Creator:")?;
    line!(out, "# iocreplay")?;
    line!(out, "# Date:")?;
    line!(out, "# {}", heading.zone.strftime(heading.time, "%Y-%m-%d %H:%M:%S.%3f"))?;
    line!(
        out,
        "PV,SELECTED,TIMESTAMP,STATUS,SEVERITY,VALUE_TYPE,VALUE,READBACK,READBACK_VALUE,DELTA,READ_ONLY"
    )?;
    for (setting, (kind, value)) in rows {
        let (status, severity) = alarm(setting.alarm);
        let (pv, read_only) = (&setting.pv, u8::from(setting.read_only));
        let time = setting
            .time
            .filter(|time| *time >= 0)
            .map_or(String::new(), |time| format!("{}.{:09}", time / 1_000_000_000, time % 1_000_000_000));
        line!(out, "{pv},1,{time},{status},{severity},{kind},\"{value}\",,\"---\",,{read_only}")?;
    }
    Ok(left_out)
}

/// Writes the configuration of the same PVs.
///
/// # Errors
/// If the output can't be written.
pub fn configuration(out: &mut Out, heading: &Heading, settings: &[Setting]) -> io::Result<Vec<LeftOut>> {
    let (rows, left_out) = rows(settings);
    head(out, "SaveSet name:", heading, &left_out)?;
    line!(out, "PV,READBACK,READ_ONLY")?;
    for (setting, _) in rows {
        line!(out, "{},,{}", setting.pv, u8::from(setting.read_only))?;
    }
    Ok(left_out)
}

/// The name, and a description that names what is left out.
fn head(out: &mut Out, tag: &str, heading: &Heading, left_out: &[LeftOut]) -> io::Result<()> {
    line!(out, "# {tag}")?;
    line!(out, "# {}", cut(heading.title))?;
    line!(out, "# Description:")?;
    line!(out, "# Made by iocreplay of what iocrec recorded.")?;
    for left_out in left_out.iter().take(MAX_NAMED) {
        line!(out, "# {}", cut(&left_out.to_string()))?;
    }
    match left_out.len().saturating_sub(MAX_NAMED) {
        0 => Ok(()),
        more => line!(out, "# {more} more are left out."),
    }
}

fn cut(text: &str) -> String {
    text.chars().take(MAX_LINE).collect()
}

/// A setting with its type and value.
type Typed<'a> = (&'a Setting, (&'static str, String));

fn rows(settings: &[Setting]) -> (Vec<Typed<'_>>, Vec<LeftOut>) {
    let mut rows = Vec::new();
    let left_out = sort(settings, |setting| {
        if setting.pv.contains([',', '#', '~', ';']) || setting.pv.contains("dataInQuotes") {
            return Err(Obstacle::PhoebusName);
        }
        rows.push((setting, typed(setting)?));
        Ok(())
    });
    (rows, left_out)
}

fn typed(setting: &Setting) -> Result<(&'static str, String), Obstacle> {
    if let Some(text) = text(setting) {
        if text.len() > MAX_TEXT {
            return Err(Obstacle::LongText);
        }
        let text = plain(text)?;
        if matches!(text, "" | "---") || text.eq_ignore_ascii_case("null") {
            return Err(Obstacle::PhoebusNotConnected(text.to_owned()));
        }
        if text.starts_with('[') || text.contains('~') {
            return Err(Obstacle::PhoebusTaken);
        }
        return Ok(("string", text.to_owned()));
    }
    match &setting.value {
        Value::Array(array) => {
            if array.count == 0 {
                return Err(Obstacle::PhoebusEmptyArray);
            }
            let kind = match array.dbf {
                Dbf::Double => "double_array",
                Dbf::Float => "float_array",
                Dbf::Char | Dbf::UChar => "byte_array",
                Dbf::Short => "short_array",
                Dbf::Long | Dbf::UShort => "int_array",
                Dbf::ULong | Dbf::Int64 | Dbf::UInt64 => "long_array",
                _ => return Err(Obstacle::PhoebusArray),
            };
            let numbers = elements(array).map(|element| number(&element, array.dbf));
            let numbers: Vec<String> = numbers.collect::<Result<_, _>>()?;
            Ok((kind, format!("[{}]", numbers.join(";"))))
        }
        _ if is_enum(setting) => Ok(("enum", state(setting)?)),
        value => {
            let kind = match (value, setting.dbf) {
                (Value::Double(_), _) => "double",
                (Value::Float(_), _) => "float",
                (_, Some(Dbf::Char | Dbf::UChar)) => "byte",
                (_, Some(Dbf::Short)) => "short",
                (_, Some(Dbf::Long | Dbf::UShort)) => "int",
                _ => "long",
            };
            Ok((kind, number(value, setting.dbf.unwrap_or(Dbf::Int64))?))
        }
    }
}

/// A state with the names of all.
fn state(setting: &Setting) -> Result<String, Obstacle> {
    let label = label(setting)?;
    // one that was renamed since, so that the names are those of another time, would stop the import
    if !setting.labels.iter().any(|one| one == label) {
        return Err(Obstacle::StatesUnknown);
    }
    for one in &setting.labels {
        plain(one.as_bytes())?;
        if one.contains(['~', ';']) {
            return Err(Obstacle::PhoebusState);
        }
    }
    if label.starts_with('[') {
        return Err(Obstacle::PhoebusStateArray);
    }
    // states without names behind the last one would get the next number
    Ok(format!("{label}~[{}]", setting.labels.join(";")))
}

/// A text that can be between quotation marks, which have no escape.
fn plain(text: &[u8]) -> Result<&str, Obstacle> {
    let text = std::str::from_utf8(text).map_err(|_| Obstacle::NotUtf8)?;
    match text.contains('"') || text.contains(is_unsafe) {
        true => Err(Obstacle::PhoebusText),
        false => Ok(text),
    }
}

fn number(value: &Value, dbf: Dbf) -> Result<String, Obstacle> {
    let java = |number: f64, digits: usize| match number {
        _ if number.is_nan() => "NaN".to_owned(),
        f64::INFINITY => "Infinity".to_owned(),
        f64::NEG_INFINITY => "-Infinity".to_owned(),
        number => general(number, digits),
    };
    Ok(match value {
        // Channel Access has no characters without a sign
        Value::Int(number) if matches!(dbf, Dbf::Char | Dbf::UChar) => (*number as i8).to_string(),
        Value::Int(number) => number.to_string(),
        Value::UInt(number) if i64::try_from(*number).is_err() => return Err(Obstacle::PhoebusTooLarge),
        Value::UInt(number) => number.to_string(),
        Value::Float(number) => java(f64::from(*number), 9),
        Value::Double(number) => java(*number, 17),
        Value::Text(_) | Value::Array(_) | Value::Unknown => return Err(Obstacle::Unknown),
    })
}

/// Status and severity as Phoebus names them.
fn alarm(alarm: Option<(u16, u16)>) -> (&'static str, &'static str) {
    let Some((severity, status)) = alarm else { return ("UNDEFINED", "UNDEFINED") };
    let status = match status {
        0 => "NONE",
        // READ, WRITE, COMM, TIMEOUT, HW_LIMIT
        1 | 2 | 9 | 10 | 11 => "DEVICE",
        // UDF
        17 => "UNDEFINED",
        _ => "RECORD",
    };
    let severity = match severity {
        0 => "NONE",
        1 => "MINOR",
        2 => "MAJOR",
        3 => "INVALID",
        _ => "UNDEFINED",
    };
    (status, severity)
}
