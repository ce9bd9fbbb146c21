//! A put in words: the change, and who made it.

mod who;

pub use self::who::{process_name, push_who, updates_before, who};

use crate::model::putlog::PutLine;
use crate::model::{enum_strings, outcome, value};
use iocrec_log::event::{Array, Dbf, Value};
use iocrec_log::pva_value::shown;
use std::fmt::Write as _;

/// In place of the value afterwards.
const NOT_KNOWN: &str = "not known";
/// The same where the server said that it refused.
const NOT_WRITTEN: &str = "not written";
/// Behind a value that nobody read: the put is known to have been accepted, the record may have made another of it.
const AS_ASKED: &str = "as asked, not read back";
/// Behind a value that was read when something else may have written it.
const READ_LATER: &str = "read later, perhaps another's";

/// `OLD -> NEW`, and the requested value if it is different. What was asked for never looks like a result: it is said
/// where the value afterwards is not known, or only follows from the request.
pub fn change(put: &PutLine) -> String {
    let mut change = String::new();
    push_change(&mut change, put);
    change
}

/// Appends what [`change`] returns.
pub fn push_change(change: &mut String, put: &PutLine) {
    let Change { old, new, asked, others, unchanged, doubt, acknowledges } = parts(put);
    if acknowledges {
        return change.push_str(&new);
    }
    if let Some(old) = old {
        change.push_str(&old);
        change.push(' ');
    }
    change.push_str("-> ");
    change.push_str(&new);
    if unchanged {
        change.push_str(", not changed");
    }
    if let Some(doubt) = doubt {
        let _ = write!(change, " ({doubt})");
    }
    if let Some(asked) = asked {
        change.push_str(" (asked for ");
        change.push_str(&asked);
        change.push(')');
    }
    if let Some(others) = others {
        change.push_str(" (with ");
        change.push_str(&others);
        change.push(')');
    }
}

/// The parts of a change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// The value before, if known.
    pub old: Option<String>,
    /// The value afterwards; words where it is not known.
    pub new: String,
    /// The requested value, if it is not shown by `new`.
    pub asked: Option<String>,
    /// What was requested beside the value, over PVAccess: other fields, such as an alarm or a time stamp.
    pub others: Option<String>,
    /// Whether the value is known to have stayed as it was, though another was requested.
    pub unchanged: bool,
    /// Why `new` may not be what the put left.
    pub doubt: Option<&'static str>,
    /// Whether it acknowledges an alarm: `new` says so in words.
    pub acknowledges: bool,
}

/// The change that a put made, in parts.
pub fn parts(put: &PutLine) -> Change {
    if let Some(field) = put.acknowledges {
        return Change { new: acknowledgement(field, put), acknowledges: true, ..Change::default() };
    }
    let long = put.pv.as_deref().is_some_and(|pv| pv.ends_with('$')) || matches!(put.new, Value::Text(_));
    let [old, new, requested] =
        [&put.old, &put.new, &put.requested].map(
            |value| {
                if long {
                    value::long_text(value)
                } else {
                    value.clone()
                }
            },
        );
    let text = |value: &Value, is_cut: Option<bool>, word: Option<&str>| {
        let mut text = value::text(value);
        // The text of an array already shows it.
        if is_cut == Some(true) && matches!(value, Value::Text(_)) {
            text.push_str("...");
        }
        enum_strings::push(&mut text, word);
        text
    };
    let before = (old != Value::Unknown).then(|| text(&old, put.old_cut, put.old_text.as_deref()));
    if new == Value::Unknown {
        let new = if put.has_not_written() { NOT_WRITTEN } else { NOT_KNOWN };
        let asked = match in_parts(put) {
            // no value was asked for, or those of members, which say themselves what became of them
            Some((new, false)) => return Change { old: before, new, ..Change::default() },
            Some((asked, true)) => asked,
            None if requested == Value::Unknown => {
                return Change { old: before, new: new.to_owned(), ..Change::default() }
            }
            None => text(&requested, put.requested_cut, None),
        };
        return Change {
            old: before,
            new: new.to_owned(),
            asked: Some(asked),
            others: beside(put),
            ..Change::default()
        };
    }
    let mut change = Change {
        old: before,
        new: text(&new, put.new_cut, put.new_text.as_deref()),
        others: beside(put),
        ..Change::default()
    };
    change.doubt = match (put.inexact, put.as_asked) {
        (true, true) => Some(AS_ASKED),
        (true, false) => Some(READ_LATER),
        (false, _) => None,
    };
    // A number sent as text equals the number; an empty text is none, though it is written as 0.
    let as_number = match &requested {
        Value::Text(text) if text.is_empty() => Value::Unknown,
        requested => value::convert(requested, Dbf::Double),
    };
    let is_requested = |word: &String| requested == Value::Text(word.clone().into_bytes());
    // of what was asked for, only the begin was captured
    let begins = put.requested_cut == Some(true)
        && matches!((&new, &requested), (Value::Text(new), Value::Text(asked)) if new.starts_with(asked));
    let as_asked = put.new_text.as_ref().is_some_and(is_requested);
    if !as_asked
        && value::same(&new, &requested) == Some(false)
        && value::same(&new, &as_number) != Some(true)
        && !value::is_as_asked(&requested, &new)
        && !outcome::is_same_text(&new, &requested)
        && !is_same_character(put, &new)
        && !begins
    {
        // The value before is known, and nothing else has written to it since.
        let whole = put.old_cut != Some(true) && put.new_cut != Some(true);
        change.unchanged = whole && !put.inexact && value::same(&old, &new) == Some(true);
        change.asked = Some(text(&requested, put.requested_cut, None));
    }
    change
}

/// Whether an array holds the one character that was asked for: Channel Access sends it without a sign, and CHAR has one.
fn is_same_character(put: &PutLine, found: &Value) -> bool {
    match (&put.requested, found) {
        (Value::Int(asked), Value::Array(Array { dbf: Dbf::Char, count: 1, bytes })) => {
            let is_it = |found: &u8| i64::from(*found) == *asked & 0xff;
            put.dbr.ends_with("_CHAR") && bytes.first().is_some_and(is_it)
        }
        _ => false,
    }
}

/// What PVAccess asked for, if that is more or less than one value; and whether it is values to be written.
fn in_parts(put: &PutLine) -> Option<(String, bool)> {
    let pva = put.pva.as_ref()?;
    if !pva.members.is_empty() {
        let member = |put: &PutLine| {
            let name = put.pv.as_deref().unwrap_or("?");
            format!("{name} {}", change(put))
        };
        return Some((shortened(pva.members.iter().map(member), pva.is_cut), false));
    }
    let fields = || shortened(pva.fields.iter().map(field), pva.is_cut);
    match pva.request {
        "process" => Some(("process".to_owned(), false)),
        "rpc" => Some((format!("call({})", fields()), false)),
        _ if put.requested != Value::Unknown => None,
        _ if pva.fields.is_empty() && !pva.is_cut => Some(("no field".to_owned(), false)),
        _ if pva.fields.is_empty() => None,
        _ => Some((fields(), true)),
    }
}

/// The fields that PVAccess asked for beside the value.
fn beside(put: &PutLine) -> Option<String> {
    let pva = put.pva.as_ref().filter(|pva| pva.members.is_empty())?;
    let main = pva.main.filter(|_| put.requested != Value::Unknown)?;
    let others = (0..).zip(&pva.fields).filter(|(place, _)| *place != main).map(|(_, others)| others);
    // an array or text says itself that it is cut
    let is_cut = pva.is_cut && put.requested_cut != Some(true);
    let text = shortened(others.map(field), is_cut);
    Some(text).filter(|text| !text.is_empty())
}

/// A field of PVAccess.
fn field((name, found): &(String, Value)) -> String {
    format!("{name}={}", shown(found))
}

/// The first few of these, and whether there are more.
fn shortened(parts: impl Iterator<Item = String>, is_cut: bool) -> String {
    const FEW: usize = 6;
    let mut parts: Vec<String> = parts.take(FEW + 1).collect();
    if parts.len() > FEW || is_cut {
        parts.truncate(FEW);
        parts.push("...".to_owned());
    }
    parts.join(", ")
}

/// An acknowledgement of alarms, with its result if known.
fn acknowledgement(field: &str, put: &PutLine) -> String {
    let number = |value: &Value| match value {
        Value::Int(number) => u16::try_from(*number).ok(),
        _ => None,
    };
    let Some(asked) = number(&put.requested) else { return format!("set {field}") };
    if field == "ACKT" {
        let word = match asked {
            0 => "NO",
            1 => "YES",
            _ => return format!("set ACKT to {asked}"),
        };
        return format!(
            "set ACKT to {word} (alarms that have gone {} be acknowledged)",
            match asked {
                0 => "need not",
                _ => "must",
            }
        );
    }
    let severity = enum_strings::severity_name(asked);
    // The record accepts an acknowledgement only if it is at least as severe as its own alarm.
    match number(&put.new).filter(|_| !put.inexact) {
        Some(0) => format!("acknowledged alarm (severity {severity})"),
        Some(left) => format!(
            "asked to acknowledge alarm (severity {severity}), {} is left to acknowledge",
            enum_strings::severity_name(left)
        ),
        None => format!("asked to acknowledge alarm (severity {severity})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::putlog::PvaLine;
    use crate::output::puts::sample::put;

    #[test]
    fn what_is_not_known_is_left_out() {
        let denied = PutLine { old: Value::Unknown, new: Value::Unknown, status: "denied".into(), ..put() };
        assert_eq!(change(&denied), "-> not written (asked for 12)");
        let unanswered = PutLine { status: "unknown".into(), ..denied };
        assert_eq!(change(&unanswered), "-> not known (asked for 12)");
        let on_the_wire = PutLine { inexact: true, as_asked: true, new: Value::Double(12.0), ..put() };
        assert_eq!(change(&on_the_wire), "1.5 -> 12 (as asked, not read back)");
        let limited = PutLine { new: Value::Double(10.0), as_asked: false, ..on_the_wire };
        assert_eq!(change(&limited), "1.5 -> 10 (read later, perhaps another's) (asked for 12)");
        let text = PutLine { requested: Value::Text(b"10".to_vec()), ..put() };
        assert_eq!(change(&text), "1.5 -> 10");
        let empty = PutLine { requested: Value::Text(Vec::new()), new: Value::Double(0.0), ..put() };
        assert_eq!(change(&empty), r#"1.5 -> 0 (asked for "")"#);
        let refused = PutLine {
            requested: Value::Text(b"bad".to_vec()),
            old: Value::Int(5),
            new: Value::Int(5),
            status: "unknown".into(),
            ..put()
        };
        assert_eq!(change(&refused), r#"5 -> 5, not changed (asked for "bad")"#);
        assert_eq!(
            change(&PutLine { inexact: true, ..refused }),
            r#"5 -> 5 (read later, perhaps another's) (asked for "bad")"#
        );
        let link = PutLine {
            requested: Value::Text(b"A:B".to_vec()),
            old: Value::Text(vec![b'x'; 40]),
            old_cut: Some(true),
            new: Value::Text(b"A:B NPP NMS".to_vec()),
            ..put()
        };
        assert!(change(&link).ends_with(r#"x"... -> "A:B NPP NMS" (asked for "A:B")"#), "{}", change(&link));
        let states = PutLine {
            requested: Value::Text(b"On".to_vec()),
            old: Value::Int(0),
            new: Value::Int(1),
            old_text: Some("Off".into()),
            new_text: Some("On".into()),
            ..put()
        };
        assert_eq!(change(&states), r#"0 "Off" -> 1 "On""#);
        // an array of another type
        let numbers = |dbf, bytes: Vec<u8>| Value::Array(Array { dbf, count: 2, bytes });
        let unsigned = PutLine {
            requested: numbers(Dbf::Long, [1i32, 40_000].map(i32::to_le_bytes).concat()),
            old: Value::Unknown,
            new: numbers(Dbf::UShort, [1u16, 40_000].map(u16::to_le_bytes).concat()),
            ..put()
        };
        assert_eq!(change(&unsigned), "-> [1, 40000] (2)");
        // one of 8 bits, which Channel Access sends without a sign
        let character = |byte| Value::Array(Array { dbf: Dbf::Char, count: 1, bytes: vec![byte] });
        let one = PutLine {
            dbr: "DBR_CHAR".into(),
            requested: Value::Int(200),
            old: Value::Unknown,
            new: character(200),
            ..put()
        };
        assert_eq!(change(&one), "-> [-56] (1)");
        let other = PutLine { new: character(201), ..one };
        assert_eq!(change(&other), "-> [-55] (1) (asked for 200)");
        let long = PutLine { dbr: "DBR_LONG".into(), new: character(200), ..other };
        assert_eq!(change(&long), "-> [-56] (1) (asked for 200)", "it became another number");
        let bytes = |text: &[u8]| Value::Array(Array { dbf: Dbf::Char, count: 4, bytes: text.to_vec() });
        let long = PutLine {
            pv: Some("A.B$".into()),
            requested: bytes(b"new\0"),
            old: bytes(b"old\0"),
            new: bytes(b"new\0"),
            ..put()
        };
        assert_eq!(change(&long), r#""old" -> "new""#);
    }

    #[test]
    fn fields_of_pvaccess_are_all_said() {
        let put_of = |fields: &[(&str, Value)], main: Option<usize>, is_cut| {
            let requested = main.map_or(Value::Unknown, |main| fields[main].1.clone());
            let pva = PvaLine {
                request: "put",
                fields: fields.iter().map(|(path, value)| ((*path).to_owned(), value.clone())).collect(),
                is_cut,
                main,
                options: Vec::new(),
                message: None,
                result: Vec::new(),
                members: Vec::new(),
            };
            let new = requested.clone();
            PutLine { old: Value::Unknown, new, requested, pva: Some(Box::new(pva)), ..put() }
        };
        let severity = || ("alarm.severity", Value::Int(2));
        let with_alarm = put_of(&[("value", Value::Double(1.5)), severity()], Some(0), false);
        assert_eq!(change(&with_alarm), "-> 1.5 (with alarm.severity=2)");
        let cut = put_of(&[("value", Value::Double(1.5))], Some(0), true);
        assert_eq!(change(&cut), "-> 1.5 (with ...)");
        let refused = PutLine { new: Value::Unknown, status: "denied".into(), ..with_alarm };
        assert_eq!(change(&refused), "-> not written (asked for 1.5) (with alarm.severity=2)");
        // a table has no value that stands for all of it
        let columns = put_of(&[("value.a", Value::Int(1)), ("value.b", Value::Unknown)], None, false);
        assert_eq!(change(&columns), "-> not known (asked for value.a=1, value.b=none)");
        // of a group the first may be written, and the second refused
        let denied = |columns: PutLine| PutLine { status: "denied".into(), new: Value::Unknown, ..columns };
        let group = PutLine { record: None, field: None, ..denied(columns.clone()) };
        assert_eq!(change(&group), "-> not known (asked for value.a=1, value.b=none)");
        let of_record = denied(columns);
        assert_eq!(change(&of_record), "-> not written (asked for value.a=1, value.b=none)");
        let plain = put_of(&[("value", Value::Double(1.5))], Some(0), false);
        assert_eq!(change(&plain), "-> 1.5");
    }

    #[test]
    fn acknowledgements_are_no_changes() {
        let acknowledge = |field, asked, new| PutLine {
            acknowledges: Some(field),
            requested: Value::Int(asked),
            old: Value::Unknown,
            new,
            ..put()
        };
        let text = |field, asked, new| change(&acknowledge(field, asked, new));
        assert_eq!(text("ACKS", 2, Value::Unknown), "asked to acknowledge alarm (severity MAJOR)");
        assert_eq!(text("ACKS", 2, Value::Int(0)), "acknowledged alarm (severity MAJOR)");
        assert_eq!(
            text("ACKS", 1, Value::Int(2)),
            "asked to acknowledge alarm (severity MINOR), MAJOR is left to acknowledge"
        );
        assert_eq!(
            text("ACKT", 0, Value::Unknown),
            "set ACKT to NO (alarms that have gone need not be acknowledged)"
        );
        assert_eq!(text("ACKT", 7, Value::Unknown), "set ACKT to 7");
    }
}
