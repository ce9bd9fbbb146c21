//! A shell script that puts back what was written, with EPICS Base's `caput` and `caget`.
//!
//! Without `--yes` it only shows what it would do. It writes to a PV only if that still has the value that the undone
//! puts left, waits until the put is done, and reads the value back. What can't be undone is in it as a comment.
//!
//! Fields can depend on each other, as VAL and B3 of an mbboDirect. So it looks at all PVs before it writes to any, writes in
//! the reverse order of the first puts, also where its own puts to other fields of the record have changed the value
//! meanwhile, and looks at all once more in the end.

use super::c_number::general;
use super::caput::{arguments, check_name, long_name, shell, Target, MAX_TEXT};
use super::rows::{write_row, Shape};
use crate::answers::undo::{Plan, Undo};
use crate::model::kept_put::KeptPut;
use crate::model::obstacle::Obstacle;
use crate::model::setting::LeftOut;
use crate::model::value::{self, elements};
use crate::out::{line, Out};
use crate::time::Zone;
use crate::wording::put::{change, who};
use crate::words::counted;
use iocrec_log::event::{Array, Dbf, Value};
use serde::Serialize;
use std::fmt::Write as _;
use std::io;

/// The part of the script that does the work. caget pads arrays with zeros and empty texts to the length of the field.
const FUNCTIONS: &str = r#"write=
case "$#,${1-}" in
0,) echo "Only shows what it would do; to write, call it with --yes" ;;
1,--yes) write=yes ;;
*) echo "usage: $0 [--yes]" >&2; exit 2 ;;
esac
command -v caget >/dev/null && command -v caput >/dev/null || { echo "caget or caput is not in PATH" >&2; exit 1; }
failed=0
left=0
chosen=" "
records=" "
restored=" "
current() {
    now=$(caget -t -w 5 ${option:+"$option"} "$pv" 2>/dev/null) || return 1
    [ "$option" != -g17 ] || now=$(printf '%s\n' "$now" | sed 's/-nan/nan/g')
    case $kind in
    numbers) now=$(printf '%s\n' "$now" | sed -e 's/^[0-9]* \(.\)/\1/' -e 's/\( 0\)* *$//') ;;
    texts) now=$(printf '%s\n' "$now" | sed -e 's/^[0-9]* \(.\)/\1/' -e 's/ *$//') ;;
    esac
}
fail() {
    printf '%s\n' "$1" >&2
    failed=$((failed + 1))
}
# back KIND FOUND WANTED CAGET-OPTION PV CAPUT-ARGUMENTS...
back() {
    kind=$1 found=$2 wanted=$3 option=$4 pv=$5
    shift 5
    number=$((number + 1))
    "$turn" "$@"
}
look() {
    current || { fail "$pv can't be read"; return; }
    if [ "$now" = "$wanted" ]; then
        printf '%s\n' "$pv has the value $wanted already"
        chosen="$chosen$number "
    elif [ "$now" != "$found" ]; then
        printf '%s\n' "$pv is left as it is: it has the value $now, no longer $found" >&2
        left=$((left + 1))
    elif [ -z "$write" ]; then
        printf '%s\n' "$pv: $now -> $wanted"
    else
        chosen="$chosen$number "
    fi
}
put() {
    case $chosen in *" $number "*) ;; *) return ;; esac
    current || { fail "$pv can't be read"; return; }
    record=${pv%%.*}
    case $records in
    *" $record "*) ;;
    *) [ "$now" = "$found" ] || [ "$now" = "$wanted" ] || {
        printf '%s\n' "$pv is left as it is: it changed to $now while others were put back" >&2
        left=$((left + 1))
        return
    } ;;
    esac
    if [ "$now" != "$wanted" ]; then
        caput -c -w 5 "$@" >/dev/null || { fail "$pv could not be written"; return; }
        records="$records$record "
        current || { fail "$pv can't be read back"; return; }
        [ "$now" = "$wanted" ] || { fail "$pv has the value $now after the put, not $wanted"; return; }
        printf '%s\n' "$pv: $found -> $wanted done"
    fi
    restored="$restored$number "
}
check() {
    case $restored in *" $number "*) ;; *) return ;; esac
    current || { fail "$pv can't be read in the end"; return; }
    [ "$now" = "$wanted" ] || fail "$pv has the value $now in the end, not $wanted: it has changed again"
}"#;

/// The end of the script.
const END: &str = r#"for turn in look ${write:+put check}; do
    number=0
    all
done
[ "$left" = 0 ] || echo "$left left as they are: changed since" >&2
[ "$failed" = 0 ] || echo "$failed failed" >&2
[ "$failed" = 0 ]"#;

/// The keys of a field that was written.
#[derive(Serialize)]
struct UndoLine<'a> {
    host: Option<&'a str>,
    ioc: Option<&'a str>,
    pv: &'a str,
    record: &'a str,
    field: &'a str,
    /// Whether the script would put it back, and otherwise why not.
    put_back: bool,
    reason: Option<String>,
    /// The value that the puts left, and the one to put back.
    from: serde_json::Value,
    to: serde_json::Value,
    text: Option<&'a str>,
    /// Number of the puts, and who made the last.
    count: u64,
    first: String,
    last: String,
    by: String,
    /// The last put of somebody else between earlier puts, which are not undone, and these.
    before: Option<String>,
    /// Whether something else than these puts changed it between them, which is not put back.
    changed_between: bool,
    doubt: Option<&'a str>,
}

/// Writes what the script would do as rows. Returns the fields that it does not put back.
pub fn rows(out: &mut Out, plan: &Plan, shape: Shape, zone: &Zone) -> io::Result<Vec<LeftOut>> {
    let mut left_out = Vec::new();
    for (number, undo) in plan.fields.iter().enumerate() {
        let known = |text: &'_ str| !text.is_empty();
        let (pv, last) = (undo.pv(), undo.last().line());
        let reason = undo.obstacle.clone().map_or_else(|| command(undo), Err).err();
        let line = UndoLine {
            host: Some(undo.host()).filter(|host| known(host)),
            ioc: Some(undo.ioc()).filter(|ioc| known(ioc)),
            pv: &pv,
            record: undo.record(),
            field: undo.field(),
            put_back: reason.is_none(),
            reason: reason.as_ref().map(ToString::to_string),
            from: value::json(&undo.left),
            to: value::json(&undo.value),
            text: undo.first().old_text(),
            count: undo.count(),
            first: zone.format(undo.first().time, 9),
            last: zone.format(undo.last().time, 9),
            by: who(&last),
            before: undo.before().map(|put| zone.format(put.time, 9)),
            changed_between: undo.has_changed_between(),
            doubt: undo.doubt.as_deref(),
        };
        write_row(out, shape, number == 0, &line)?;
        left_out.extend(reason.map(|reason| LeftOut { pv, reason }));
    }
    Ok(left_out)
}

/// Writes the script. Returns the fields that it does not put back.
pub fn write(out: &mut Out, plan: &Plan, what: &str, zone: &Zone) -> io::Result<Vec<LeftOut>> {
    line!(out, "#!/bin/sh")?;
    line!(out, "# Puts back what was written {what}. Made by: iocreplay undo")?;
    line!(out, "# Writes to a PV only if it still has the value that was written. Needs caput and caget of EPICS Base.")?;
    FUNCTIONS.lines().try_for_each(|text| line!(out, "{text}"))?;
    let mut left_out = Vec::new();
    line!(out)?;
    line!(out, "all() {{")?;
    line!(out, ":")?;
    for undo in &plan.fields {
        one(out, undo, zone, &mut left_out)?;
        line!(out)?;
    }
    line!(out, "}}")?;
    END.lines().try_for_each(|text| line!(out, "{text}"))?;
    Ok(left_out)
}

fn one(out: &mut Out, undo: &Undo, zone: &Zone, left_out: &mut Vec<LeftOut>) -> io::Result<()> {
    let (pv, ioc) = (undo.pv(), undo.ioc());
    let about = |put: &KeptPut| {
        let put = put.line();
        format!("{} {}: {}", zone.format(put.time, 3), who(&put), change(&put))
    };
    line!(out, "# {pv} of {}", if ioc.is_empty() { "an unknown IOC" } else { ioc })?;
    line!(out, "# {}", about(undo.first()))?;
    match undo.count() {
        0 | 1 => {}
        2 => line!(out, "# {}", about(undo.last()))?,
        count => {
            line!(out, "# ... {}", counted(count - 2, "more put"))?;
            line!(out, "# {}", about(undo.last()))?;
        }
    }
    if undo.has_changed_between() {
        line!(out, "# it changed between these puts, by itself or unseen: that is not put back")?;
    }
    if let Some(before) = undo.before() {
        line!(out, "# earlier puts are not undone: {} came between", about(before))?;
    }
    if let Some(doubt) = &undo.doubt {
        line!(out, "# {}", doubt)?;
    }
    match undo.obstacle.clone().map_or_else(|| command(undo), Err) {
        Ok(command) => line!(out, "{command}"),
        Err(reason) => {
            line!(out, "# not put back: {}", reason)?;
            left_out.push(LeftOut { pv, reason });
            Ok(())
        }
    }
}

/// The command that puts it back.
fn command(undo: &Undo) -> Result<String, Obstacle> {
    let (pv, found) = (undo.pv(), &undo.left);
    check_name(&pv)?;
    let long = |value: &Value| matches!(value, Value::Text(text) if text.len() > MAX_TEXT);
    let by_type = undo.field() == "VAL" && matches!(&*undo.rtype, "lsi" | "lso" | "printf");
    let is_long_text = by_type || long(&undo.value) || long(found);
    let target = Target { pv: &pv, dbf: undo.dbf, is_long_text };
    let put = arguments(target, &undo.value)?;
    let name = if is_long_text { long_name(&pv) } else { pv.clone() };
    let (kind, option, found) = shown(found, target)?;
    let (_, _, wanted) = shown(&undo.value, target)?;
    let words = ["back", kind, &found, &wanted, option, &name].map(str::to_owned);
    Ok(shell::words(words.into_iter().chain(put)))
}

/// A value as `caget -t` shows it: whether it is `one` or an array of `numbers` or `texts`, the option that it needs,
/// and its text.
fn shown(value: &Value, target: Target) -> Result<(&'static str, &'static str, String), Obstacle> {
    let is_enum = matches!(target.dbf, None | Some(Dbf::Enum | Dbf::Menu | Dbf::Device));
    Ok(match value {
        Value::Unknown => return Err(Obstacle::Unknown),
        Value::Text(text) if target.is_long_text => ("one", "-S", printed(text)),
        Value::Text(text) if target.dbf.is_none() || !is_enum => ("one", "", printed(text)),
        Value::Text(_) => return Err(Obstacle::TextOfState),
        // Channel Access has no 64-bit integers; as text they keep all digits
        Value::Int(number) if matches!(target.dbf, Some(Dbf::Int64 | Dbf::UInt64)) => {
            ("one", "-s", number.to_string())
        }
        Value::UInt(number) => ("one", "-s", number.to_string()),
        // caget -n reads a state as a number with a sign
        Value::Int(number) if is_enum && target.dbf.is_some() => ("one", "-n", (*number as i16).to_string()),
        Value::Int(number) if is_enum => ("one", "-n", number.to_string()),
        Value::Int(number) if matches!(target.dbf, Some(Dbf::Char | Dbf::UChar)) => {
            ("one", "", (*number as i8).to_string())
        }
        // which Channel Access serves as a double
        Value::Int(number) if target.dbf == Some(Dbf::ULong) => ("one", "-g17", number.to_string()),
        Value::Int(number) => ("one", "", number.to_string()),
        Value::Float(number) => ("one", "-g17", digits(f64::from(*number))),
        Value::Double(number) => ("one", "-g17", digits(*number)),
        Value::Array(array) => of_array(array)?,
    })
}

fn of_array(array: &Array) -> Result<(&'static str, &'static str, String), Obstacle> {
    let wide = matches!(array.dbf, Dbf::Int64 | Dbf::UInt64);
    let mut text = String::new();
    for element in elements(array) {
        if !text.is_empty() {
            text.push(' ');
        }
        match &element {
            Value::Text(bytes) => text.push_str(&printed(bytes)),
            Value::Float(number) => text.push_str(&digits(f64::from(*number))),
            Value::Double(number) => text.push_str(&digits(*number)),
            Value::Int(number) if matches!(array.dbf, Dbf::Char | Dbf::UChar) => {
                let _ = write!(text, "{}", *number as i8);
            }
            // with a sign, likewise
            Value::Int(number) if matches!(array.dbf, Dbf::Enum | Dbf::Menu | Dbf::Device) => {
                let _ = write!(text, "{}", *number as i16);
            }
            number => value::push_text(&mut text, number),
        }
    }
    if array.dbf == Dbf::String {
        return Ok(("texts", "", text.trim_end_matches(' ').to_owned()));
    }
    // zeros at the end don't count
    while let Some(shorter) = text.strip_suffix(" 0") {
        text.truncate(shorter.len());
    }
    let text = if text.is_empty() { "0".to_owned() } else { text };
    let option = match array.dbf {
        _ if wide => "-s",
        // else caget asks for the names of states, which no array has
        Dbf::Enum | Dbf::Menu | Dbf::Device => "-n",
        _ => "-g17",
    };
    Ok(("numbers", option, text))
}

/// A number with all of its digits. A NaN may have a sign, which caget shows and nobody means.
fn digits(number: f64) -> String {
    if number.is_nan() {
        return "nan".to_owned();
    }
    general(number, 17)
}

/// A text as Base's tools print it (epicsString.c).
fn printed(text: &[u8]) -> String {
    let mut printed = String::new();
    for byte in text {
        match byte {
            0x07 => printed.push_str("\\a"),
            0x08 => printed.push_str("\\b"),
            0x0c => printed.push_str("\\f"),
            b'\n' => printed.push_str("\\n"),
            b'\r' => printed.push_str("\\r"),
            b'\t' => printed.push_str("\\t"),
            0x0b => printed.push_str("\\v"),
            b'\\' => printed.push_str("\\\\"),
            b'\'' => printed.push_str("\\'"),
            b'"' => printed.push_str("\\\""),
            0x20..=0x7e => printed.push(char::from(*byte)),
            _ => drop(write!(printed, "\\x{byte:02x}")),
        }
    }
    printed
}

#[cfg(test)]
mod tests {
    use super::*;

    /// caget prints six digits of what Channel Access serves as a double, and NaN with its sign.
    #[test]
    fn numbers_that_caget_shows_otherwise() {
        let text = |dbf, value: Value| {
            let target = Target { pv: "A", dbf: Some(dbf), is_long_text: false };
            shown(&value, target).map(|(_, option, text)| (option, text)).unwrap()
        };
        assert_eq!(text(Dbf::ULong, Value::Int(10_000_000)), ("-g17", "10000000".to_owned()));
        assert_eq!(text(Dbf::Long, Value::Int(10_000_000)), ("", "10000000".to_owned()));
        let negative = Value::Double(f64::NAN.copysign(-1.0));
        assert_eq!(text(Dbf::Double, negative), ("-g17", "nan".to_owned()));
        let states = Value::Array(Array { dbf: Dbf::Enum, count: 2, bytes: vec![3, 0, 255, 255] });
        assert_eq!(text(Dbf::NoAccess, states), ("-n", "3 -1".to_owned()));
        // as an mbbo has it whose raw value is none of its states
        assert_eq!(text(Dbf::Enum, Value::Int(65_535)), ("-n", "-1".to_owned()));
    }
}
