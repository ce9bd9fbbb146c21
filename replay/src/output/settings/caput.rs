//! A shell script that restores values with EPICS Base's `caput` and reads them back with `caget`.

use super::check::{is_array_record, is_enum, is_long_text, sort};
use super::Heading;
use crate::model::obstacle::Obstacle;
use crate::model::setting::{LeftOut, Setting};
use crate::model::value::elements;
use crate::out::{line, Out};
use crate::output::c_number::general;
use crate::output::caput::{arguments, escaped_by_caget, long_name, shell, Target};
use iocrec_log::event::{Array, Dbf, Value};
use iocrec_log::value::until_nul;
use std::io;

/// The function that does the work: without `--yes`, it only shows what differs.
const FUNCTIONS: &str = r#"current() {
    now=$(caget -w 5 -t $options "$pv" 2>/dev/null) || return 1
    [ "$now" != -nan ] || now=nan
}
fail() {
    printf '%s\n' "$1" >&2
    failed=$((failed + 1))
}
# restore PV CAGET-OPTIONS WANTED CAPUT-ARGUMENTS... Arrays always: caget does not tell zeros from what is behind the end.
restore() {
    pv=$1 options=$2 wanted=$3
    shift 3
    current || { fail "$pv can't be read"; return 0; }
    case $options in
    *-#*) ;;
    *) [ "$now" != "$wanted" ] || return 0 ;;
    esac
    printf '%s\n' "$pv: $now -> $wanted"
    [ -n "$write" ] || return 0
    caput -c -w 5 "$@" >/dev/null || { fail "$pv can't be written"; return 0; }
    current || { fail "$pv can't be read back"; return 0; }
    [ "$now" = "$wanted" ] || fail "$pv has the value $now after the put, not $wanted"
}"#;

/// Writes the script.
///
/// # Errors
/// If the output can't be written.
pub fn write(out: &mut Out, heading: &Heading, settings: &[Setting]) -> io::Result<Vec<LeftOut>> {
    line!(out, "#!/bin/sh")?;
    line!(out, "# {}", heading.title)?;
    line!(
        out,
        "# Restores them with caput and caget of EPICS Base. Shows what differs; with --yes it writes."
    )?;
    shell::OPTION.lines().chain(FUNCTIONS.lines()).try_for_each(|text| line!(out, "{text}"))?;
    let mut result = Ok(());
    let left_out = sort(settings, |setting| {
        let command = command(setting)?;
        if result.is_ok() {
            result = match &setting.remark {
                Some(remark) => line!(out, "# {remark}").and_then(|()| line!(out, "{command}")),
                None => line!(out, "{command}"),
            };
        }
        Ok(())
    });
    result?;
    left_out.iter().try_for_each(|left_out| line!(out, "# {left_out}"))?;
    shell::END.lines().try_for_each(|text| line!(out, "{text}"))?;
    Ok(left_out)
}

fn command(setting: &Setting) -> Result<String, Obstacle> {
    if setting.read_only {
        return Err(Obstacle::ReadOnly);
    }
    if matches!(&setting.value, Value::Array(array) if array.count == 0) {
        return Err(Obstacle::CagetEmpty);
    }
    let is_long_text = is_long_text(setting);
    let dbf = setting.dbf.or_else(|| is_enum(setting).then_some(Dbf::Enum));
    let mut caput = arguments(Target { pv: &setting.pv, dbf, is_long_text }, &setting.value)?;
    let (mut options, mut wanted) = shown(setting, dbf, is_long_text);
    if is_array_record(setting) && !matches!(setting.value, Value::Array(_)) {
        // one element of an array, which caget shows with its number
        let element = caput.pop().unwrap_or_default();
        caput = ["-a", &setting.pv, "1", &element].map(str::to_owned).to_vec();
        (options, wanted) = (format!("{options} -# 1"), format!("1 {wanted}"));
    }
    let name = if is_long_text { long_name(&setting.pv) } else { setting.pv.clone() };
    let words = ["restore", &name, &options, &wanted].map(str::to_owned);
    Ok(shell::words(words.into_iter().chain(caput)))
}

/// Options of `caget -t`, and what it then shows of this value.
fn shown(setting: &Setting, dbf: Option<Dbf>, is_long_text: bool) -> (String, String) {
    match &setting.value {
        Value::Text(text) if is_long_text => ("-S".to_owned(), escaped_by_caget(text)),
        Value::Array(Array { bytes, .. }) if is_long_text => {
            ("-S".to_owned(), escaped_by_caget(until_nul(bytes)))
        }
        Value::Array(array) => {
            let options = match array.dbf {
                // Channel Access has no integers of 64 bits: caget asks for their text
                Dbf::Int64 | Dbf::UInt64 => "-s".to_owned(),
                // else it asks for the names of states, which no array has
                Dbf::Enum | Dbf::Menu | Dbf::Device => "-n".to_owned(),
                _ => "-g 17".to_owned(),
            };
            let texts: Vec<String> = elements(array).map(|element| single(&element, array.dbf)).collect();
            (format!("{options} -# {}", array.count.max(1)), format!("{} {}", array.count, texts.join(" ")))
        }
        value => {
            let options = match dbf {
                // a number, whether it is an enum's or not
                None if matches!(value, Value::Int(_) | Value::UInt(_)) => "-n -g 17",
                None if matches!(value, Value::Text(_)) => "-s",
                Some(Dbf::Enum | Dbf::Menu | Dbf::Device) => "-n",
                Some(Dbf::Int64 | Dbf::UInt64) => "-s",
                _ => "-g 17",
            };
            (options.to_owned(), single(value, dbf.unwrap_or(Dbf::Double)))
        }
    }
}

fn single(value: &Value, dbf: Dbf) -> String {
    match value {
        Value::Int(number) if matches!(dbf, Dbf::Char | Dbf::UChar) => (*number as i8).to_string(),
        // which caget -n reads as a number with a sign
        Value::Int(number) if matches!(dbf, Dbf::Enum | Dbf::Menu | Dbf::Device) => {
            (*number as i16).to_string()
        }
        Value::Int(number) => number.to_string(),
        Value::UInt(number) => number.to_string(),
        Value::Float(number) if number.is_nan() => "nan".to_owned(),
        Value::Double(number) if number.is_nan() => "nan".to_owned(),
        Value::Float(number) => general(f64::from(*number), 17),
        Value::Double(number) => general(*number, 17),
        Value::Text(text) => escaped_by_caget(text),
        Value::Unknown | Value::Array(_) => String::new(),
    }
}
