//! Outcome of a put: whether it was accepted, and the value of its field afterwards.
//!
//! The server's answer is authoritative. Without one, the IOC's actions decide, and only as far as EPICS Base's own
//! rules allow (dbAccess.c, dbDbLink.c and dbNotify.c of 3.14.12, 3.15.9 and 7.0.8):
//!
//! - `dbPutField`, and a database link that writes, process the record only if `dbPut` has returned without an error.
//!   `dbProcessNotify` does so in any case from 3.15 on, so there it proves nothing.
//! - `dbPutField` and `dbProcessNotify` that never reach `dbPut` have refused (DISP), except for link fields. QSRV1 answers
//!   "ok" even so.
//! - The CA server answers a WRITE only to refuse it. The absence of a refusal is not enough: it may not have been
//!   captured. Together with a field that holds the requested value, or that has changed, it is.
//! - A number written to PROC, to an input that a calculation holds (A to L), or to the value of a record whose VAL has no
//!   special processing, can't be refused.
//! - A field has changed to the requested value, while nothing else wrote to it or processed its record.
//!
//! A field that still holds its old value proves no refusal: a put may have been accepted and have no effect. The
//! status is unknown then; the value shows the rest.
//!
//! The value of an accepted put that nobody has read is the requested one, and marked, unless the record was seen to
//! begin to process and not to end: it may make another of it. Of types that are not Base's that is not known: a motor
//! record that moves its motor shows no end.

use super::base_types::always_forwards;
use super::chain::{Chain, Completed, Outcome as End, PutSpan, Span, SpanKind};
use super::{attribute, enum_strings, value};
use epics::limits::MAX_STRING_SIZE;
use epics::{eca, Dbr};
use iocrec_log::context::Context;
use iocrec_log::event::{Array, Dbf, Field, PutKind, PvaKind, RecordId, Value};
use std::borrow::Cow;

/// Lengths in bytes at which the recorder's probes may have cut a long string: 400, or 152 where there is no ring buffer
/// (bpf/hits.h).
const CUT_LONG_TEXTS: [usize; 2] = [152, 400];

/// What a value comes from, which decides where a text of it may have been cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// A packet, or the recorder's own reading, which have all of it.
    Whole,
    /// A probe that reads the first 40 bytes of a text (MAX_STRING_SIZE): what a put asks for, and what it finds.
    Head,
    /// A record of EPICS Base after processing or a put. Its string fields are whole then, only long strings may be cut.
    Record,
}

/// Outcome of a put.
pub struct Outcome {
    /// `ok`, an ECA name, `denied`, `unknown`.
    pub status: Cow<'static, str>,
    /// The value of the field after it.
    pub new: Value,
    /// `new` is not certain to be the result of the put: it was derived from the requested value, or read when
    /// something else may have changed it.
    pub inexact: bool,
    /// `new` was not read at all: it is the requested value, of a put that was accepted.
    pub as_asked: bool,
}

/// The outcome of the put that is span `number` of the chain.
pub fn of(chain: &Chain, context: &Context, number: usize, put: &PutSpan) -> Outcome {
    let field = put.field.and_then(|field| context.field(field));
    if acknowledges(context, put) {
        return acknowledgement(field, put);
    }
    if attribute::is_attribute(context, put) {
        return of_attribute(put);
    }
    let is_value = field.is_some_and(|field| field.name == "VAL");
    let completed = if is_value { completed(chain, number, put) } else { None };
    let after = put.after.as_deref();
    let asked = asked(context, put, field);
    let evidence = match (completed, after) {
        (Some(value), _) => Some((value, true)),
        (None, Some(after)) => Some((&after.value, after.alone)),
        (None, None) => None,
    };
    let status = match put.packet.as_ref().map(|packet| (packet.notify, &packet.answer)) {
        Some((_, Some(answer))) => match pva_status(put) {
            // QSRV1 answers so, too
            Some("ok") if is_kept_out(chain, number, put) => "unknown".into(),
            Some(status) => status.into(),
            None => eca::put_status(answer.status),
        },
        // Not answered, so it failed or is still going on.
        Some((true, None)) => "unknown".into(),
        _ if is_taken(chain, number, put, field, &asked, evidence) => "ok".into(),
        _ => "unknown".into(),
    };
    let (new, inexact, as_asked) = match evidence {
        Some((value, alone)) => {
            (whole(value, after.filter(|after| after.alone).map(|a| &a.value)), !alone, false)
        }
        None if status == "ok" && asked == Value::Unknown => (asked, false, false),
        // what the record has made of it is not known
        None if is_value && has_not_ended(chain, context, number, put) => (Value::Unknown, false, false),
        None if status == "ok" => (asked, true, true),
        None => (Value::Unknown, false, false),
    };
    // a menu's choice requested by its name
    let new = field.and_then(|field| enum_strings::number(context, field, &new)).unwrap_or(new);
    Outcome { status, new: self::as_asked(context, put, field, new), inexact, as_asked }
}

/// Whether what a server of PVAccess says of an error means that its client has no right to do that.
pub fn is_refusal(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    let refused = ["not permitted", "permission", "denied", "no access", "not allowed"];
    refused.iter().any(|words| text.contains(words))
}

/// The result of a put by PVAccess, as its server said; `None` if it came otherwise.
fn pva_status(put: &PutSpan) -> Option<&'static str> {
    let pva = put.packet.as_ref()?.pva.as_ref()?;
    Some(match pva.status {
        Some(0 | 1) => "ok",
        Some(2 | 3) if is_refusal(&pva.text) => "denied",
        Some(2 | 3) => "error",
        // the client did not wait
        _ => "unknown",
    })
}

/// Whether a put over PVAccess that was answered came to `dbProcessNotify`, and from there neither to `dbPut` nor to
/// `dbProcess`: DISP has kept it out. An answer of Channel Access tells that itself, and a request to process writes nothing.
pub(super) fn is_kept_out(chain: &Chain, number: usize, put: &PutSpan) -> bool {
    let Some(packet) = &put.packet else { return false };
    let changes = packet.pva.as_ref().is_some_and(|pva| matches!(pva.kind, PvaKind::Put | PvaKind::PutGet));
    let is_waiting = put.kind == Some(PutKind::Notify) && !put.wrote;
    changes && packet.answer.is_some() && is_waiting && !is_processed(chain, number, put)
}

/// Whether it writes no value but acknowledges an alarm (DBR_PUT_ACKT, DBR_PUT_ACKS).
pub fn acknowledges(context: &Context, put: &PutSpan) -> bool {
    acknowledged_field(context, put).is_some()
}

/// The field that an acknowledgement concerns: `ACKT` or `ACKS`.
pub fn acknowledged_field(context: &Context, put: &PutSpan) -> Option<&'static str> {
    match put.packet.as_ref().map(|packet| Dbr(packet.dbr)) {
        Some(Dbr::PUT_ACKT) => return Some("ACKT"),
        Some(Dbr::PUT_ACKS) => return Some("ACKS"),
        Some(_) => return None,
        None => {}
    }
    match (put.dbf, context.field(put.field?)?.name.as_str()) {
        // The recorder names the field; no other request to it has this type, which CA lacks.
        (Dbf::UShort, "ACKT") => Some("ACKT"),
        (Dbf::UShort, "ACKS") => Some("ACKS"),
        // As old recorders wrote it: their numbers inside the IOC are those of field types that no request has.
        (Dbf::Menu, _) if put.kind.is_some() => Some("ACKT"),
        (Dbf::Device, _) if put.kind.is_some() => Some("ACKS"),
        _ => None,
    }
}

/// `dbPut` refuses every put to an attribute, so that this keeps its value.
fn of_attribute(put: &PutSpan) -> Outcome {
    let status = match put.packet.as_ref().and_then(|packet| packet.answer.as_ref()) {
        Some(answer) => pva_status(put).map_or_else(|| eca::put_status(answer.status), Cow::from),
        None => "unknown".into(),
    };
    Outcome { status, new: put.old.clone(), inexact: false, as_asked: false }
}

/// `dbPut` refuses no acknowledgement; only ACKS and ACKT show the result.
fn acknowledgement(field: Option<&Field>, put: &PutSpan) -> Outcome {
    let answer = put.packet.as_ref().and_then(|packet| packet.answer.as_ref());
    let status = match answer {
        Some(answer) => eca::put_status(answer.status),
        None if put.wrote => "ok".into(),
        None => "unknown".into(),
    };
    let own = field.is_some_and(|field| matches!(field.name.as_str(), "ACKS" | "ACKT"));
    let after = put.after.as_ref().filter(|_| own);
    let new = after.map_or(Value::Unknown, |after| after.value.clone());
    Outcome { status, new, inexact: after.is_some_and(|after| !after.alone), as_asked: false }
}

/// Whether an unanswered put is known to have been accepted. `evidence`: the value of the field after it, and whether
/// nothing else can have caused it.
fn is_taken(
    chain: &Chain,
    number: usize,
    put: &PutSpan,
    field: Option<&Field>,
    asked: &Value,
    evidence: Option<(&Value, bool)>,
) -> bool {
    let link = field.is_some_and(|field| field.dbf.is_link());
    if !(put.wrote || link && put.kind == Some(PutKind::PutField)) {
        return false;
    }
    let processed = is_processed(chain, number, put);
    let in_chain = chain.spans.get(number).is_some_and(|span| span.parent.is_some());
    if processed && (put.kind == Some(PutKind::PutField) || put.kind == Some(PutKind::Put) && in_chain) {
        return true;
    }
    if field.is_some_and(|field| takes_all(field, put)) {
        return true;
    }
    let Some((value, alone)) = evidence else { return false };
    // Sent without a request for an answer: the server would have answered only to refuse.
    let not_refused = put.packet.as_ref().is_some_and(|packet| !packet.notify && !packet.is_doubtful);
    let holds = holds(asked, value, link);
    // of a text that was cut, the beginning tells
    let cut = |old: &Value| matches!(old, Value::Text(_)) && is_cut(old, Source::Head) == Some(true);
    let changed = value::agrees(value, &put.old, cut(&put.old)) == Some(false);
    // After a `dbPut` from outside, the server itself processes the record if it was accepted (QSRV).
    let by_server = processed && put.kind == Some(PutKind::Put);
    holds && (changed && alone || not_refused) || changed && alone && (not_refused || by_server)
}

/// Whether `dbPut` accepts any value for the field. The conversion between numbers, and from text to text, never fails,
/// and PROC, the value fields of these types, and the inputs that a calculation holds have no special processing (the .dbd files of
/// 3.14.12, 3.15.9 and 7.0.8).
fn takes_all(field: &Field, put: &PutSpan) -> bool {
    let number = (Dbf::Char..=Dbf::Enum).contains(&put.dbf);
    if field.name == "PROC" {
        return number && put.wrote;
    }
    // from M on, only newer versions have them
    let is_input = matches!(field.name.as_bytes(), [b'A'..=b'L']);
    if is_input && matches!(field.rtype.as_str(), "calc" | "calcout" | "sel" | "sub") {
        return number && put.wrote && put.count == 1;
    }
    field.name == "VAL"
        && put.wrote
        && put.count == 1
        && match field.rtype.as_str() {
            "ai" | "ao" | "longin" | "longout" | "int64in" | "int64out" | "bi" | "bo" => number,
            "stringin" | "stringout" => put.dbf == Dbf::String,
            _ => false,
        }
}

/// Whether the field holds the requested value. `asked` has the field's type, as far as it could be converted.
pub(super) fn holds(asked: &Value, found: &Value, link: bool) -> bool {
    let (asked, found) = (text_of(asked), text_of(found));
    match (&*asked, &*found) {
        (Value::Text(asked), Value::Text(found)) if link => same_link(asked, found),
        // as much as fits in the field
        (Value::Text(asked), Value::Text(found)) => {
            asked == found || !found.is_empty() && asked.starts_with(found)
        }
        // Numbers are written to text with the record's precision.
        (number, Value::Text(found)) => {
            let found = std::str::from_utf8(found).ok().and_then(|text| text.trim().parse::<f64>().ok());
            found.is_some_and(|found| value::same(number, &Value::Double(found)) == Some(true))
        }
        (Value::Array(asked), Value::Array(found)) => {
            let cut_at_room = found.count < asked.count && found.count > 0;
            let mut pairs = value::elements(asked).zip(value::elements(found));
            (asked.count == found.count || cut_at_room)
                && pairs.all(|(asked, element)| {
                    value::same(&value::convert(&asked, found.dbf), &element) == Some(true)
                })
        }
        // One element is written to an array as a number.
        (number, Value::Array(found)) if found.count == 1 => {
            let first = value::elements(found).next();
            first.is_some_and(|first| value::same(&value::convert(number, found.dbf), &first) == Some(true))
        }
        (asked, found) => value::same(asked, found) == Some(true),
    }
}

/// The same, but of what was asked for less only where the field has no room for more: a record may have read a value that
/// only begins like it. `room`: the most elements of an array, if known. Of what the log holds the beginning of, that tells.
pub(super) fn holds_all(asked: &Value, found: &Value, room: Option<u32>) -> bool {
    let is_full = match (&*text_of(asked), &*text_of(found)) {
        (Value::Text(asked), Value::Text(found)) => {
            asked.len() == found.len() || found.len() + 1 >= MAX_STRING_SIZE
        }
        (Value::Array(asked), Value::Array(found)) => asked.count == found.count || room == Some(found.count),
        _ => true,
    };
    is_full && holds(asked, found, false)
}

/// A character array that holds text, as text; only for comparison.
fn text_of(value: &Value) -> Cow<'_, Value> {
    match value {
        Value::Array(Array { dbf: Dbf::Char | Dbf::UChar, bytes, .. }) if bytes.contains(&0) => {
            Cow::Owned(value::long_text(value))
        }
        _ => Cow::Borrowed(value),
    }
}

/// Whether both are the same text, sent as a string or as characters.
pub fn is_same_text(one: &Value, other: &Value) -> bool {
    let text = |value: &Value| match value::long_text(value) {
        Value::Text(text) => Some(text),
        _ => None,
    };
    text(one).is_some_and(|one| text(other) == Some(one))
}

/// Whether a link as requested is the link as the IOC shows it, with default modifiers added.
fn same_link(asked: &[u8], found: &[u8]) -> bool {
    let words = |text: &[u8]| -> Vec<Vec<u8>> {
        let words = text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        let mut words: Vec<Vec<u8>> =
            words.filter(|word| *word != b"NPP" && *word != b"NMS").map(<[u8]>::to_vec).collect();
        words.sort();
        words
    };
    words(asked) == words(found)
}

/// The requested value, as the field would hold it.
pub(super) fn asked(context: &Context, put: &PutSpan, field: Option<&Field>) -> Value {
    let Some(field) = field else { return put.requested.clone() };
    if let Some(number) = enum_strings::number(context, field, &put.requested) {
        return number;
    }
    if let (Dbf::Enum, "VAL", Some(record)) = (field.dbf, field.name.as_str(), put.record) {
        if let Some(state) = enum_strings::state_number(context, record, put.time(), &put.requested) {
            return state;
        }
    }
    value::convert(&put.requested, field.dbf)
}

/// Whether the field is a text that a client requests as characters: `REC.DESC$`, or the value of a long string record.
fn is_text(context: &Context, put: &PutSpan, field: &Field) -> bool {
    let rtype = put.record.and_then(|record| context.record(record)).map_or("", |record| record.rtype);
    field.dbf == Dbf::String || field.name == "VAL" && matches!(rtype, "lsi" | "lso" | "printf")
}

/// A text's value in the form requested, characters up to its end: the bytes after its NUL don't belong to it.
pub fn as_asked(context: &Context, put: &PutSpan, field: Option<&Field>, value: Value) -> Value {
    let Some(field) = field.filter(|field| is_text(context, put, field)) else { return value };
    match (&put.requested, value) {
        (_, Value::Array(Array { dbf: dbf @ (Dbf::Char | Dbf::UChar), count, mut bytes })) => {
            let end = bytes.iter().position(|byte| *byte == 0);
            // QSRV2 asks for the characters of a text that has room for more than 40, whatever its client has sent; of
            // one that is cut, the count tells
            let is_whole = end.is_some() || usize::try_from(count) == Ok(bytes.len());
            if matches!(put.requested, Value::Text(_)) && is_whole {
                bytes.truncate(end.unwrap_or(bytes.len()));
                return Value::Text(bytes);
            }
            let Some(end) = end else {
                return Value::Array(Array { dbf, count, bytes });
            };
            bytes.truncate(end);
            Value::Array(Array { dbf, count: u32::try_from(end).unwrap_or(u32::MAX), bytes })
        }
        (Value::Array(Array { dbf: dbf @ (Dbf::Char | Dbf::UChar), .. }), Value::Text(bytes))
            if field.dbf == Dbf::String =>
        {
            let count = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
            Value::Array(Array { dbf: *dbf, count, bytes })
        }
        (_, value) => value,
    }
}

/// Whether the log holds only part of a value. `None` if it holds nothing.
pub fn is_cut(value: &Value, from: Source) -> Option<bool> {
    match value {
        Value::Unknown => None,
        Value::Array(array) => {
            let whole = usize::try_from(array.count).unwrap_or(usize::MAX);
            Some(value::elements(array).count() < whole)
        }
        Value::Text(text) => {
            let is_long = CUT_LONG_TEXTS.contains(&text.len());
            Some(match from {
                Source::Whole => false,
                Source::Head => is_long || text.len() == MAX_STRING_SIZE,
                Source::Record => is_long,
            })
        }
        _ => Some(false),
    }
}

/// Where a value that a record has shown comes from. Types from elsewhere may have a VAL longer than 40 bytes, of which the
/// probe at the end of processing reads the beginning.
pub fn shown_by(context: &Context, record: Option<RecordId>, value: &Value) -> Source {
    // for all others it makes no difference, and most values are others
    let matters = matches!(value, Value::Text(text) if text.len() == MAX_STRING_SIZE);
    let record = record.filter(|_| matters).and_then(|record| context.record(record));
    match record.is_some_and(|record| always_forwards(record.rtype)) {
        true => Source::Record,
        false => Source::Head,
    }
}

/// Where the value after a put comes from: one that nobody read is the request, and what the next put found stands for it.
pub fn source_of_new(context: &Context, put: &PutSpan, new: &Value, as_asked: bool) -> Source {
    match put.after.as_deref().filter(|after| after.value == *new) {
        _ if as_asked => Source::Head,
        Some(after) if after.overwritten.is_some() => Source::Head,
        Some(_) => Source::Whole,
        None => shown_by(context, put.record, new),
    }
}

/// The value that the probe at the end of processing read, which may be cut; or all of it, if a later reading begins
/// the same.
fn whole(value: &Value, later: Option<&Value>) -> Value {
    let longer = match (value, later) {
        (Value::Array(own), Some(Value::Array(later))) => {
            own.count == later.count && own.dbf == later.dbf && later.bytes.starts_with(&own.bytes)
        }
        (Value::Text(own), Some(Value::Text(later))) => {
            is_cut(value, Source::Head) == Some(true) && later.starts_with(own)
        }
        _ => false,
    };
    later.filter(|_| longer).unwrap_or(value).clone()
}

/// Whether the put made its record process.
fn is_processed(chain: &Chain, number: usize, put: &PutSpan) -> bool {
    // children come after their parents
    chain.spans.iter().skip(number).any(|span| processing(span, number, put).is_some())
}

/// Whether the end of that was not seen, as when the recording ends within, though the record's type shows one.
fn has_not_ended(chain: &Chain, context: &Context, number: usize, put: &PutSpan) -> bool {
    let record = put.record.and_then(|record| context.record(record));
    if record.is_none_or(|record| !always_forwards(record.rtype)) {
        return false;
    }
    let mut all = chain.spans.iter().skip(number).filter_map(|span| processing(span, number, put));
    all.any(|outcome| matches!(outcome, End::Open))
}

/// What became of the processing of the put's record, if this span is one that the put set off.
fn processing<'a>(span: &'a Span, number: usize, put: &PutSpan) -> Option<&'a End> {
    match &span.kind {
        SpanKind::Process(process) if span.parent == Some(number) && Some(process.record) == put.record => {
            Some(&process.outcome)
        }
        _ => None,
    }
}

/// The value at the end of the processing that the put set off, unless another put had written to the field by then: a
/// record that processes asynchronously takes puts meanwhile.
fn completed<'a>(chain: &'a Chain, number: usize, put: &PutSpan) -> Option<&'a Value> {
    let overwritten = put.after.as_ref().and_then(|after| after.overwritten).unwrap_or(u64::MAX);
    let own = |span: &'a Span| match processing(span, number, put)? {
        End::Completed(Completed { value, .. }) if *value != Value::Unknown => {
            (span.end <= overwritten).then_some(value)
        }
        _ => None,
    };
    chain.spans.iter().skip(number).find_map(own)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Value {
        Value::Text(text.as_bytes().to_vec())
    }

    fn array(dbf: Dbf, count: u32, bytes: &[u8]) -> Value {
        Value::Array(Array { dbf, count, bytes: bytes.to_vec() })
    }

    #[test]
    fn what_was_asked_for_and_what_the_field_holds() {
        for (asked, found, expected) in [
            (Value::Double(1.5), Value::Double(1.5), true),
            (text("bad"), Value::Int(5), false),
            (Value::Double(4.5), text("4.500000"), true),
            (Value::Double(4.5), text("4.6"), false),
            (text("longer than the field"), text("longer than"), true),
            (text("x"), text(""), false),
            // doubles to a waveform of longs, which has room for two
            (
                array(Dbf::Double, 3, &[1f64, 2.0, 3.0].map(f64::to_le_bytes).concat()),
                array(Dbf::Long, 2, &[1i32, 2].map(i32::to_le_bytes).concat()),
                true,
            ),
            (array(Dbf::Char, 6, b"ab\0\0\0\0"), text("ab"), true),
            (array(Dbf::UChar, 3, b"ab\0"), array(Dbf::Char, 9, b"ab\0\0\0\0\0\0\0"), true),
            (Value::Double(3.9), array(Dbf::Short, 1, &[3, 0]), true),
            (Value::Unknown, Value::Int(1), false),
        ] {
            assert_eq!(holds(&asked, &found, false), expected, "{asked:?} {found:?}");
        }
        assert!(holds(&text("A:B"), &text("A:B NPP NMS"), true));
        assert!(holds(&text("A:B  MS PP "), &text("A:B PP MS"), true));
        assert!(!holds(&text("A:B CP"), &text("A:B NPP NMS"), true));
    }

    /// A record that reads its value, as from a device, may read one that begins like what was put to it.
    #[test]
    fn what_only_begins_alike_is_not_all_of_it() {
        let longs = |numbers: &[i32]| {
            let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
            array(Dbf::Long, numbers.len() as u32, &bytes)
        };
        let (long, fits) = (text(&"x".repeat(60)), text(&"x".repeat(39)));
        for (asked, found, room, expected) in [
            (text("ON"), text("ON"), None, true),
            (text("ON AT 5"), text("ON"), None, false),
            (array(Dbf::Char, 8, b"ON AT 5\0"), text("ON"), None, false),
            (long, fits, None, true),
            (longs(&[1, 2, 3]), longs(&[1, 2, 3]), None, true),
            (longs(&[1, 2, 3]), longs(&[1, 2]), Some(2), true),
            (longs(&[1, 2, 3]), longs(&[1, 2]), Some(3), false),
            (longs(&[1, 2, 3]), longs(&[1, 2]), None, false),
            (longs(&[1, 2, 3]), longs(&[1, 5]), Some(2), false),
            (Value::Double(4.5), text("4.500000"), None, true),
        ] {
            assert_eq!(holds_all(&asked, &found, room), expected, "{asked:?} {found:?}");
        }
    }

    #[test]
    fn what_is_cut() {
        assert_eq!(is_cut(&array(Dbf::Short, 3, &[1, 0, 2, 0]), Source::Head), Some(true));
        assert_eq!(is_cut(&array(Dbf::Short, 2, &[1, 0, 2, 0]), Source::Head), Some(false));
        assert_eq!(is_cut(&Value::Unknown, Source::Head), None);
        assert_eq!(is_cut(&Value::Int(1), Source::Head), Some(false));
        let cut = [Source::Whole, Source::Head, Source::Record]
            .map(|from| [40, 152, 153].map(|length| is_cut(&Value::Text(vec![b'x'; length]), from)));
        let expected = [[false, false, false], [true, true, false], [false, true, false]];
        assert_eq!(cut, expected.map(|from| from.map(Some)));
    }

    #[test]
    fn what_was_cut_is_made_whole_by_a_later_reading() {
        let (cut, all) = (array(Dbf::Char, 4, b"ab"), array(Dbf::Char, 4, b"abcd"));
        assert_eq!(whole(&cut, Some(&all)), all);
        assert_eq!(whole(&cut, Some(&array(Dbf::Char, 4, b"xxxx"))), cut, "it has changed since");
        assert_eq!(whole(&Value::Int(1), Some(&Value::Int(2))), Value::Int(1));
        assert_eq!(whole(&cut, None), cut);
    }
}
