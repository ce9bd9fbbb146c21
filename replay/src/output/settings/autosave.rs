//! A `.sav` file of the module autosave, as its `dbrestore.c` reads it.
//!
//! | what it reads | so that here |
//! |---|---|
//! | the version in the first line; from 1.8 on the file must end in `<END>` | it does |
//! | lines in pieces of 199 bytes; what follows is taken for another line | longer ones are left out, comments are cut |
//! | names that begin with a letter or a digit, up to 62 bytes with their field, as an IOC starts | others are left out |
//! | enums and menus by number; a name silently sets another state | numbers |
//! | C's escapes in texts; no text over 39 bytes, with `$` 199 | others are left out |
//! | no text with `$(` or `${`: it is refused as a macro that is not expanded | left out |
//! | in long strings and arrays these, too, if it was given macros | the `$` is an escape |
//! | elements of arrays: escapes twice, 39 printable letters before the second time | so they are written |
//! | arrays of floats without infinities: the largest number comes instead | left out |
//! | `fdbrestore` puts arrays of 64-bit integers as doubles | those over 2^53 are left out |
//! | device supports never | left out |

use super::check::{is_long_text, sort, text};
use super::Heading;
use crate::model::obstacle::Obstacle;
use crate::model::setting::{LeftOut, Setting};
use crate::model::value::elements;
use crate::out::{line, Out};
use crate::output::c_number::general;
use crate::output::caput::{escaped_by_caget, long_name, MAX_TEXT};
use iocrec_log::event::{Dbf, Value};
use std::io;

/// Bytes of a line without its line feed (`BUF_SIZE`, less two).
const MAX_LINE: usize = 198;
/// Bytes of a name, to which `.VAL` is added if it has no field: as an IOC starts, a longer one is cut (`realName`), and not
/// found.
const MAX_NAME: usize = 62;

/// Integers up to this pass through doubles unchanged.
const MAX_EXACT: u64 = 1 << 53;

/// Numbers on a line of a long array: with their quotation marks no more than [`MAX_LINE`].
const NUMBERS: usize = 7;

/// Writes the file.
///
/// # Errors
/// If the output can't be written.
pub fn write(out: &mut Out, heading: &Heading, settings: &[Setting]) -> io::Result<Vec<LeftOut>> {
    let made = heading.zone.strftime(heading.time, "%y%m%d-%H%M%S");
    // A tab, as autosave writes it, would be escaped here; it reads any text after the version.
    line!(out, "# autosave R5.3 Automatically generated - DO NOT MODIFY - {made}")?;
    comment(out, heading.title)?;
    let mut result = Ok(());
    let left_out = sort(settings, |setting| {
        let lines = lines(setting)?;
        if result.is_ok() {
            result = lines.iter().try_for_each(|text| line!(out, "{text}"));
        }
        Ok(())
    });
    result?;
    left_out.iter().try_for_each(|left_out| comment(out, &left_out.to_string()))?;
    line!(out, "<END>")?;
    Ok(left_out)
}

/// A comment that is read as one: no longer than a line.
fn comment(out: &mut Out, text: &str) -> io::Result<()> {
    let shown = iocrec_log::escape::Shown(text).to_string();
    let mut end = shown.len().min(MAX_LINE - 2);
    while !shown.is_char_boundary(end) {
        end -= 1;
    }
    line!(out, "# {}", shown.get(..end).unwrap_or_default())
}

/// The lines for a setting; several for an array of texts.
fn lines(setting: &Setting) -> Result<Vec<String>, Obstacle> {
    let pv = &setting.pv;
    if setting.read_only {
        return Err(Obstacle::ReadOnly);
    }
    let name = if is_long_text(setting) { long_name(pv) } else { pv.clone() };
    let added = if name.contains('.') { "" } else { ".VAL" };
    let is_too_long = name.len() + added.len() > MAX_NAME;
    if is_too_long || !pv.starts_with(|letter: char| letter.is_ascii_alphanumeric()) {
        return Err(Obstacle::AutosaveName);
    }
    if setting.dbf == Some(Dbf::Device) {
        return Err(Obstacle::AutosaveDevice);
    }
    if let Some(text) = text(setting) {
        if !is_long_text(setting) && text.len() > MAX_TEXT {
            return Err(Obstacle::LongText);
        }
        if !is_long_text(setting) && text.windows(2).any(|two| two == b"$(" || two == b"${") {
            return Err(Obstacle::AutosaveMacro);
        }
        if text.starts_with(b"@array@") {
            return Err(Obstacle::AutosaveArray);
        }
        let line = format!("{name} {}", escaped_by_caget(text).replace('$', "\\x24"));
        return match line.len() {
            0..=MAX_LINE => Ok(vec![line]),
            _ => Err(Obstacle::AutosaveLine),
        };
    }
    let Value::Array(array) = &setting.value else {
        return Ok(vec![format!("{pv} {}", number(&setting.value)?)]);
    };
    if array.dbf != Dbf::String {
        let numbers = elements(array).map(|element| in_array(&element).map(|text| format!("\"{text}\"")));
        let numbers: Vec<String> = numbers.collect::<Result<_, _>>()?;
        let line = format!("{pv} @array@ {{ {} }}", numbers.join(" "));
        if line.len() <= MAX_LINE {
            return Ok(vec![line]);
        }
        let lines = numbers.chunks(NUMBERS).map(|numbers| numbers.join(" "));
        return Ok([format!("{pv} @array@ {{")].into_iter().chain(lines).chain(["}".to_owned()]).collect());
    }
    // Each on a line: no escape may lie across the pieces in which lines are read.
    let mut lines = vec![format!("{pv} @array@ {{")];
    for element in elements(array) {
        let Value::Text(text) = element else { return Err(Obstacle::Unknown) };
        let once = escaped_once(&text);
        if once.len() > MAX_TEXT {
            return Err(Obstacle::AutosaveElement);
        }
        lines.push(format!("\"{}\"", once.replace('\\', "\\\\").replace('"', "\\\"")));
    }
    lines.push("}".to_owned());
    Ok(lines)
}

/// A text with what the second of two escapes decodes; quotation marks are for the first.
fn escaped_once(text: &[u8]) -> String {
    escaped_by_caget(text).replace("\\\"", "\"").replace("\\'", "'").replace('$', "\\x24")
}

/// A number of an array.
fn in_array(value: &Value) -> Result<String, Obstacle> {
    match value {
        Value::Float(number) if number.is_infinite() => Err(Obstacle::AutosaveInfinite),
        Value::Int(number) if number.unsigned_abs() > MAX_EXACT => Err(Obstacle::AutosaveTooLarge),
        Value::UInt(number) if *number > MAX_EXACT => Err(Obstacle::AutosaveTooLarge),
        value => number(value),
    }
}

fn number(value: &Value) -> Result<String, Obstacle> {
    Ok(match value {
        Value::Int(number) => number.to_string(),
        Value::UInt(number) => number.to_string(),
        Value::Float(number) if number.is_subnormal() => return Err(Obstacle::AutosaveTooSmall),
        Value::Double(number) if number.is_subnormal() => return Err(Obstacle::AutosaveTooSmall),
        Value::Float(number) if number.is_nan() => "nan".to_owned(),
        Value::Double(number) if number.is_nan() => "nan".to_owned(),
        Value::Float(number) => general(f64::from(*number), 9),
        Value::Double(number) => general(*number, 17),
        Value::Text(_) | Value::Array(_) | Value::Unknown => return Err(Obstacle::Unknown),
    })
}
