//! Puts to attributes of record types, such as RTYP.
//!
//! An attribute looks like a field of each record of its type (`REC.RTYP`), but is a text of the type. Its address leads to
//! that text, and has a description by which the recorder knows fields: that of NAME in older versions of EPICS Base, one
//! of its own in later ones, which has the offset 0 as NAME has. So the old value of such a put is the attribute's, and
//! what the recorder reads by the description afterwards is the record's name. `dbPut` refuses every put to an attribute
//! (SPC_ATTRIBUTE, in 3.14.12 to 7.0.10): it keeps its value.

use super::chain::PutSpan;
use super::outcome::{is_cut, Source};
use epics::Pv;
use iocrec_log::context::Context;
use iocrec_log::event::{Dbf, FieldId, RecordId, Value};

/// The attributes that EPICS Base itself gives to record types. Texts all: a motor's VERS, a number, is a field.
const OWN: [&str; 2] = ["RTYP", "VERS"];

/// Whether a put went to an attribute. `false` if nothing tells it from a put to NAME.
pub fn is_attribute(context: &Context, put: &PutSpan) -> bool {
    let Some(record) = put.record else { return false };
    if own(context, put.field).is_some() {
        return true;
    }
    is_name(context, put.field)
        && match put.old {
            // it never reached `dbPut`
            Value::Unknown => named(context, put).is_some_and(|field| field != "NAME"),
            _ => is_value_of_attribute(context, record, put.field, &put.old),
        }
}

/// The attribute whose own description this is.
fn own(context: &Context, field: Option<FieldId>) -> Option<&str> {
    let field = context.field(field?)?;
    (field.dbf == Dbf::String && OWN.contains(&field.name.as_str())).then_some(field.name.as_str())
}

/// The attribute that a put went to: as the client named it, else by its value. `None` if it went to a field; an empty
/// name if the log does not tell which attribute it was.
pub fn of<'a>(context: &'a Context, put: &'a PutSpan) -> Option<&'a str> {
    if !is_attribute(context, put) {
        return None;
    }
    if let Some(own) = own(context, put.field) {
        return Some(own);
    }
    let rtype = || {
        let rtype = context.record(put.record?)?.rtype;
        (put.old == Value::Text(rtype.as_bytes().to_vec())).then_some("RTYP")
    };
    Some(named(context, put).or_else(rtype).unwrap_or_default())
}

/// Whether this value of the field, in which a put found it, is an attribute's: NAME holds the record's name.
pub fn is_value_of_attribute(
    context: &Context,
    record: RecordId,
    field: Option<FieldId>,
    value: &Value,
) -> bool {
    if own(context, field).is_some() {
        return true;
    }
    if !is_name(context, field) {
        return false;
    }
    match (value, context.record(record)) {
        (Value::Text(text), Some(record)) => match is_cut(value, Source::Head) {
            Some(true) => !record.name.as_bytes().starts_with(text),
            _ => record.name.as_bytes() != text,
        },
        _ => false,
    }
}

fn is_name(context: &Context, field: Option<FieldId>) -> bool {
    field.and_then(|field| context.field(field)).is_some_and(|field| field.name == "NAME")
}

/// The field that the client named.
fn named<'a>(context: &'a Context, put: &PutSpan) -> Option<&'a str> {
    let pv = context.channel(put.packet.as_ref()?.channel)?.pv.as_str();
    let field = Pv::new(pv).field.trim_end_matches('$');
    (!pv.is_empty()).then_some(field)
}
