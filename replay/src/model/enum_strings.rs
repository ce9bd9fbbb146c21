//! Texts for numbers: enum strings, menus' choices, device supports, alarms.

use iocrec_log::context::Context;
use iocrec_log::event::{Dbf, Field, FieldId, RecordId, Value};

/// Name of an alarm severity.
pub fn severity_name(severity: u16) -> &'static str {
    epics::alarm::severity_name(severity).unwrap_or("unknown severity")
}

/// Name of an alarm status.
pub fn status_name(status: u16) -> &'static str {
    epics::alarm::status_name(status).unwrap_or("unknown status")
}

/// An alarm for people: its severity, and its status if it has one.
pub fn alarm(severity: u16, status: u16) -> String {
    match status {
        0 => severity_name(severity).to_owned(),
        status => format!("{} {}", severity_name(severity), status_name(status)),
    }
}

/// The text of a value of a record's value field at a monotonic time, as bi, bo, mbbi and mbbo records define it.
pub fn state(context: &Context, record: RecordId, time: u64, value: &Value) -> Option<String> {
    // most values are no numbers of states: no record is looked up for them
    let index = index(value)?;
    some(context.enum_strings_at(record, time).get(index)?)
}

/// Whether a put to a field of this name changes the texts of a record's states (biRecord.dbd and the like).
pub fn names_a_state(field: &str) -> bool {
    const NAMES: [&str; 18] = [
        "ZNAM", "ONAM", "ZRST", "ONST", "TWST", "THST", "FRST", "FVST", "SXST", "SVST", "EIST", "NIST",
        "TEST", "ELST", "TVST", "TTST", "FTST", "FFST",
    ];
    NAMES.contains(&field)
}

/// The text of a value of a field at a monotonic time: a menu's choice, a device support, or a state of the record.
pub fn word(
    context: &Context,
    record: Option<RecordId>,
    field: Option<FieldId>,
    time: u64,
    value: &Value,
) -> Option<String> {
    let field = context.field(field?)?;
    match field.dbf {
        Dbf::Menu | Dbf::Device => some(context.menu(field.menu?)?.choices.get(index(value)?)?),
        Dbf::Enum if field.name == "VAL" => state(context, record?, time, value),
        _ => None,
    }
}

/// The number of a menu's choice or device support given by its name.
pub fn number(context: &Context, field: &Field, value: &Value) -> Option<Value> {
    let Value::Text(text) = value else { return None };
    let menu = context.menu(field.menu.filter(|_| matches!(field.dbf, Dbf::Menu | Dbf::Device))?)?;
    let index = menu.choices.iter().position(|choice| choice.as_bytes() == text.as_slice())?;
    i64::try_from(index).ok().map(Value::Int)
}

/// The number of a state given at a monotonic time by its text, or as a number in text.
pub fn state_number(context: &Context, record: RecordId, time: u64, value: &Value) -> Option<Value> {
    let Value::Text(text) = value else { return None };
    let states = context.enum_strings_at(record, time);
    if let Some(state) = states.iter().position(|state| state.as_bytes() == text.as_slice()) {
        return i64::try_from(state).ok().map(Value::Int);
    }
    let number: u16 = std::str::from_utf8(text).ok()?.trim().parse().ok()?;
    Some(Value::Int(number.into()))
}

/// Appends ` "On"` to a number with this text.
pub fn push(text: &mut String, word: Option<&str>) {
    if let Some(word) = word {
        text.push(' ');
        super::value::push_text(text, &Value::Text(word.as_bytes().to_vec()));
    }
}

fn index(value: &Value) -> Option<usize> {
    match value {
        Value::Int(number) => usize::try_from(*number).ok(),
        Value::UInt(number) => usize::try_from(*number).ok(),
        _ => None,
    }
}

fn some(word: &str) -> Option<String> {
    (!word.is_empty()).then(|| word.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use iocrec_log::event::{EnumStrings, Fact, Field, Menu};

    #[test]
    fn numbers_that_stand_for_words() {
        let mut context = Context::default();
        let field = |id, name: &str, dbf, menu| {
            Fact::from(Field { id, ioc: 1, rtype: "bo".into(), name: name.into(), dbf, menu })
        };
        for fact in [
            Fact::EnumStrings(EnumStrings { record: 7, states: vec!["Off".into(), "".into(), "On".into()] }),
            Fact::Menu(Menu { id: 3, ioc: 1, name: "menuScan".into(), choices: vec!["Passive".into()] }),
            field(1, "VAL", Dbf::Enum, None),
            field(2, "SCAN", Dbf::Menu, Some(3)),
            field(4, "RVAL", Dbf::Enum, None),
        ] {
            context.apply(0, &fact);
        }
        let word = |field, value| word(&context, Some(7), Some(field), 0, &value);
        assert_eq!(word(1, Value::Int(2)).as_deref(), Some("On"));
        assert_eq!(word(1, Value::Int(1)), None, "a state without text");
        assert_eq!(word(1, Value::Int(-1)), None);
        assert_eq!(word(1, Value::Text(b"On".to_vec())), None);
        assert_eq!(word(2, Value::UInt(0)).as_deref(), Some("Passive"));
        assert_eq!(word(2, Value::Int(5)), None);
        assert_eq!(word(4, Value::Int(0)), None, "no state, though a number of the record");
        assert_eq!(state(&context, 7, 0, &Value::Int(0)).as_deref(), Some("Off"));
        assert_eq!((alarm(1, 4), alarm(3, 0)), ("MINOR HIGH".into(), "INVALID".into()));
        assert_eq!((severity_name(9), status_name(99)), ("unknown severity", "unknown status"));
    }
}
