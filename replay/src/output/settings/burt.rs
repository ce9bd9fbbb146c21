//! A `.snap` file of BURT, as Diamond's pyburt reads it. BURT's own source could not be had.
//!
//! Names of states and texts are in quotation marks, which have no escape; `%` begins a comment even within them.
//! Fields that name states come first: values are written by these names.
//! Characters are written as letters, so that numbers can't be told from them: arrays of them are left out.

use super::check::{is_enum, label, sort, text};
use super::Heading;
use crate::model::enum_strings::names_a_state;
use crate::model::obstacle::Obstacle;
use crate::model::setting::{LeftOut, Setting};
use crate::model::value::elements;
use crate::out::{line, Out};
use crate::output::c_number::exponential;
use crate::output::caput::MAX_TEXT;
use iocrec_log::escape::is_unsafe;
use iocrec_log::event::{Dbf, Value};
use std::io;

/// Integers up to this pass through the doubles of Channel Access unchanged.
const MAX_EXACT: u64 = 1 << 53;

/// Writes the file.
///
/// # Errors
/// If the output can't be written.
pub fn write(out: &mut Out, heading: &Heading, settings: &[Setting]) -> io::Result<Vec<LeftOut>> {
    line!(out, "--- Start BURT header")?;
    line!(out, "Time:     {}", heading.zone.strftime(heading.time, "%a %b %e %H:%M:%S %Y"))?;
    for text in ["Login ID: iocreplay ()", "Eff  UID: 0", "Group ID: 0", "Keywords: "] {
        line!(out, "{text}")?;
    }
    // what ends the header must not be in it
    line!(out, "Comments: {}", heading.title.replace("---", "-"))?;
    for text in ["Type:     Absolute", "Directory /", "Req File: iocreplay", "--- End BURT header"] {
        line!(out, "{text}")?;
    }
    let (mut result, mut left_out) = (Ok(()), Vec::new());
    // a state is written by its name, which the record must have by then
    for are_names in [true, false] {
        left_out = sort(settings, |setting| {
            let text = entry(setting)?;
            if result.is_ok() && names_a_state(&setting.field) == are_names {
                result = line!(out, "{text}");
            }
            Ok(())
        });
    }
    result?;
    left_out.iter().try_for_each(|left_out| line!(out, "% {}", left_out.to_string().replace("---", "-")))?;
    Ok(left_out)
}

fn entry(setting: &Setting) -> Result<String, Obstacle> {
    let pv = &setting.pv;
    if pv.contains('%') || matches!(pv.as_str(), "RO" | "RON" | "WO") {
        return Err(Obstacle::BurtName);
    }
    let mut entry = String::from(if setting.read_only { "RO " } else { "" });
    entry.push_str(pv);
    if let Some(text) = text(setting) {
        if text.len() > MAX_TEXT {
            return Err(Obstacle::LongText);
        }
        return Ok(format!("{entry} 1 {}", quoted(text)?));
    }
    let array = match &setting.value {
        Value::Array(array) => array,
        _ if is_enum(setting) => return Ok(format!("{entry} 1 {}", quoted(label(setting)?.as_bytes())?)),
        _ if matches!(setting.dbf, Some(Dbf::Char | Dbf::UChar)) => return Err(Obstacle::BurtLetter),
        Value::Int(_) if matches!(setting.dbf, None | Some(Dbf::NoAccess)) => {
            return Err(Obstacle::BurtPerhapsLetter)
        }
        value => return Ok(format!("{entry} 1 {}", number(value)?)),
    };
    if matches!(array.dbf, Dbf::Char | Dbf::UChar) {
        return Err(Obstacle::BurtLetters);
    }
    if array.count == 0 {
        return Err(Obstacle::BurtEmptyArray);
    }
    let room = setting.room.unwrap_or(array.count).max(array.count);
    entry.push_str(&format!(" {room}"));
    for element in elements(array) {
        entry.push(' ');
        entry.push_str(&match &element {
            Value::Text(text) if text.is_empty() => return Err(Obstacle::BurtEmptyText),
            Value::Text(text) => quoted(text)?,
            other => number(other)?,
        });
    }
    // the elements behind its end
    (array.count..room.min(array.count.saturating_add(MAX_PADDING))).for_each(|_| entry.push_str(" \\0"));
    Ok(entry)
}

/// Elements behind the end of an array that are written; a bound for hostile logs.
const MAX_PADDING: u32 = 100_000;

fn quoted(text: &[u8]) -> Result<String, Obstacle> {
    let text = std::str::from_utf8(text).map_err(|_| Obstacle::NotUtf8)?;
    if text.is_empty() {
        return Ok("\\0".to_owned());
    }
    // the header's end would be taken for it anywhere
    if text.contains(['"', '\'', '%', '\\']) || text.contains(is_unsafe) || text.contains("---") {
        return Err(Obstacle::BurtText);
    }
    Ok(format!("\"{text}\""))
}

fn number(value: &Value) -> Result<String, Obstacle> {
    Ok(match value {
        Value::Int(number) if number.unsigned_abs() > MAX_EXACT => return Err(Obstacle::BurtTooLarge),
        Value::UInt(number) if *number > MAX_EXACT => return Err(Obstacle::BurtTooLarge),
        Value::Int(number) => number.to_string(),
        Value::UInt(number) => number.to_string(),
        Value::Float(number) if number.is_nan() => "nan".to_owned(),
        Value::Double(number) if number.is_nan() => "nan".to_owned(),
        Value::Float(number) => exponential(f64::from(*number), 8),
        Value::Double(number) => exponential(*number, 16),
        Value::Text(_) | Value::Array(_) | Value::Unknown => return Err(Obstacle::Unknown),
    })
}
