//! What the module caPutLog takes note of at a put: the field's type, and its value before and after.
//!
//! It listens to the access security of the IOC's servers, so it sees what clients put over Channel Access and PVAccess,
//! if that reached the record: refused by the record (`ECA_PUTFAIL`), the field holds the old value still. It does not
//! see what access security denies, nor calls (RPC), nor the puts of the IOC's shell, of database links and of code in the
//! IOC.

use crate::model::base_types::always_forwards;
use crate::model::caller::serves_clients;
use crate::model::putlog::{PutLine, Via};
use crate::model::value::{elements, long_text};
use iocrec_log::event::{Array, Dbf, Value};

/// Bytes of a value that it keeps (`MAX_ARRAY_SIZE_BYTES`).
const MAX_BYTES: usize = 400;
/// Characters of a string that it keeps (`MAX_STRING_SIZE`, less the NUL).
const MAX_TEXT: usize = 39;
/// Bytes of a PV's name, a user's and a host's that it keeps (`PVNAME_STRINGSZ`, `MAX_USERID_SIZE`, `MAX_HOSTID_SIZE`,
/// less the NUL).
const MAX_PV: usize = 60;
const MAX_USER: usize = 31;
const MAX_HOST: usize = 255;

/// A put as the module sees it.
#[derive(Clone, Debug)]
pub struct Message {
    /// Wall-clock time that it prints.
    pub time: i64,
    /// When it came, at the end of the put, in the order of time: it goes on where the clock is set back.
    pub came: i64,
    /// The IOC's process, which has a filter of its own.
    pub process: Option<(u32, u64)>,
    /// The record and field; the PV if they are not known.
    pub field: (String, String),
    /// Name of the PV, as the client wrote it.
    pub pv: Option<String>,
    /// User name that the client claims.
    pub user: Option<String>,
    /// Host name that the client claims.
    pub host: Option<String>,
    /// Type of the field.
    pub kind: Kind,
    /// Whether the field is an array.
    pub is_array: bool,
    /// Whether that is known, and the numbers of its elements.
    pub is_shape_sure: bool,
    /// The value before.
    pub old: Side,
    /// The value after.
    pub new: Side,
}

/// Types of fields, as the module tells them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Strings; menus and links, too.
    Text,
    /// Characters (`DBR_CHAR`); long strings, too.
    Char,
    /// Numbers; the states of a record, too.
    Number,
}

/// The value of a field before or after a put.
#[derive(Clone, Debug, PartialEq)]
pub struct Side {
    /// Its elements, as far as the log holds them and the module would.
    pub elements: Vec<Value>,
    /// Elements of the whole field; `None` if unknown.
    pub size: Option<usize>,
    /// Whether this is what the module read.
    pub sure: bool,
    /// Bytes of an element.
    width: usize,
}

impl Side {
    /// A value that is not known.
    pub fn unknown() -> Side {
        Side { elements: Vec::new(), size: None, sure: false, width: 1 }
    }

    /// Elements that the module keeps.
    pub fn kept(&self) -> Option<usize> {
        Some(self.size?.min(MAX_BYTES / self.width.max(1)))
    }

    /// The first element: nothing (0, or "") if there is none, as where the module looks.
    pub fn first(&self, kind: Kind) -> Value {
        match (self.elements.first(), self.size) {
            (Some(first), _) => first.clone(),
            (None, Some(0)) => kind.nothing(),
            (None, _) => Value::Unknown,
        }
    }

    /// Whether all that the module keeps is known.
    pub fn is_whole(&self) -> bool {
        self.sure && self.kept().is_some_and(|kept| self.elements.len() >= kept)
    }
}

impl Kind {
    /// What the module's memory holds where no element was read.
    pub fn nothing(self) -> Value {
        match self {
            Kind::Text => Value::Text(Vec::new()),
            Kind::Char | Kind::Number => Value::Int(0),
        }
    }
}

/// The message for a put; `None` if the module does not see it.
pub fn message(put: &PutLine) -> Option<Message> {
    let through_server =
        matches!(put.via, Via::CaWrite | Via::CaWriteNotify | Via::CaLink | Via::Pva | Via::PvaLink);
    // with callback or without, which is not known
    let serves = put.via == Via::Unknown && put.thread.as_deref().is_some_and(serves_clients);
    let through_server = through_server || serves;
    let refused = put.status == "ECA_PUTFAIL" || put.status == "error" && put.wrote;
    let is_call = put.pva.as_ref().is_some_and(|pva| pva.request == "rpc");
    if !through_server || is_call || !(refused || matches!(&*put.status, "ok" | "unknown")) {
        return None;
    }
    let kind = kind(put);
    let is_array = is_array(put);
    let mut old = side(put, &put.old, put.old_text.as_deref(), kind);
    let mut new = side(put, &put.new, put.new_text.as_deref(), kind);
    new.sure &= !put.inexact && put.status != "unknown" && !may_be_set_again(put);
    if refused && !new.sure && !put.wrote {
        new = old.clone();
    }
    if put.acknowledges.is_some() {
        // It reads the field that the channel names, which the put left alone.
        (old, new) = (Side::unknown(), Side::unknown());
    }
    let pv = put.pv.as_deref();
    let field = match (&put.record, &put.field) {
        (Some(record), Some(field)) => (record.clone(), field.clone()),
        _ => (pv.unwrap_or_default().to_owned(), String::new()),
    };
    Some(Message {
        time: stamp(put),
        came: put.even.saturating_add(put.ended.saturating_sub(put.time).max(0)),
        process: put.ioc_process,
        field,
        pv: pv.map(|pv| cut(pv, MAX_PV)),
        user: put.user.as_deref().map(|user| cut(user, MAX_USER)),
        host: put.client_host.as_deref().map(|host| cut(host, MAX_HOST)),
        kind,
        is_array,
        // A long string's length may count its NUL or not. An array record may have room for one element only, which
        // makes it none.
        is_shape_sure: !is_long_name(put)
            && (!is_array || [&old, &new].iter().any(|side| side.size > Some(1))),
        old,
        new,
    })
}

/// The time that it prints: the record's time stamp, or the time of the end if that is in a later second.
fn stamp(put: &PutLine) -> i64 {
    let second = |time: i64| time.div_euclid(1_000_000_000);
    match put.processed {
        Some(processed) if second(processed) >= second(put.ended) => processed,
        _ => put.ended,
    }
}

/// Whether the record may have set the field itself before the put was answered, which is when the module reads it: it is of a
/// type that goes on without a trace, and was not seen to be done. A busy record is put back to 0 by then.
fn may_be_set_again(put: &PutLine) -> bool {
    matches!(put.via, Via::CaWriteNotify | Via::Unknown)
        && put.processed.is_none()
        && put.field.as_deref() == Some("VAL")
        && put.rtype.as_deref().is_some_and(|rtype| !always_forwards(rtype))
}

/// Whether the client names the field with `$`: as characters.
fn is_long_name(put: &PutLine) -> bool {
    put.pv.as_deref().is_some_and(|pv| pv.ends_with('$'))
}

fn kind(put: &PutLine) -> Kind {
    let of = |dbf: Dbf| match dbf {
        Dbf::String | Dbf::Menu | Dbf::Device | Dbf::InLink | Dbf::OutLink | Dbf::FwdLink => Kind::Text,
        Dbf::Char => Kind::Char,
        _ => Kind::Number,
    };
    if is_long_name(put) {
        return Kind::Char;
    }
    if put.field.as_deref() == Some("VAL") && matches!(put.rtype.as_deref(), Some("lsi" | "lso" | "printf")) {
        return Kind::Text;
    }
    // An array record's field has no type of its own.
    if let Some(dbf) = put.dbf.filter(|dbf| *dbf != Dbf::NoAccess) {
        return of(dbf);
    }
    let values = [&put.new, &put.old, &put.requested];
    let array = values.iter().find_map(|value| match value {
        Value::Array(array) => Some(of(array.dbf)),
        _ => None,
    });
    let is_text = values.iter().any(|value| matches!(value, Value::Text(_)));
    array.unwrap_or(if is_text { Kind::Text } else { Kind::Number })
}

fn is_array(put: &PutLine) -> bool {
    let array_record = matches!(
        put.rtype.as_deref(),
        Some("waveform" | "aai" | "aao" | "subArray" | "compress" | "histogram")
    );
    let long = |value: &Value| matches!(value, Value::Array(array) if array.count != 1);
    let is_text = kind(put) == Kind::Text && !matches!(put.dbf, None | Some(Dbf::NoAccess));
    is_long_name(put)
        || array_record && put.field.as_deref() == Some("VAL")
        || !is_text && !is_long_text(put) && [&put.old, &put.new].into_iter().any(long)
}

fn is_long_text(put: &PutLine) -> bool {
    matches!(put.rtype.as_deref(), Some("lsi" | "lso" | "printf"))
}

/// A value as the module reads it.
fn side(put: &PutLine, value: &Value, word: Option<&str>, kind: Kind) -> Side {
    let (dbf, is_long) = (put.dbf, is_long_name(put));
    let single =
        |value: Value, width: usize| Side { elements: vec![value], size: Some(1), sure: true, width };
    let text = |bytes: &[u8]| Value::Text(bytes.get(..MAX_TEXT).unwrap_or(bytes).to_vec());
    match (kind, value) {
        (_, Value::Unknown) => Side::unknown(),
        (Kind::Text, Value::Array(array)) if array.dbf == Dbf::String => {
            let texts = elements(array).map(|element| match element {
                Value::Text(bytes) => text(&bytes),
                other => other,
            });
            sized(texts, array)
        }
        (Kind::Text, value) => match (long_text(value), word) {
            (Value::Text(bytes), _) => single(text(&bytes), 40),
            (_, Some(word)) => single(text(word.as_bytes()), 40),
            // a menu's number whose name is not known
            (number, None) => {
                let number = crate::model::value::text(&number);
                Side {
                    sure: !matches!(dbf, Some(Dbf::Menu | Dbf::Device)),
                    ..single(text(number.as_bytes()), 40)
                }
            }
        },
        (Kind::Char, Value::Text(bytes)) => characters(bytes),
        (Kind::Char, Value::Array(array)) if is_long => characters(&array.bytes),
        (_, Value::Array(array)) => sized(elements(array), array),
        (_, value) => single(value.clone(), dbf.map_or(1, Dbf::size)),
    }
}

/// A long string: its NUL counts as a character, unless it is empty.
fn characters(text: &[u8]) -> Side {
    let kept = text.iter().take(MAX_BYTES).map(|byte| Value::Int(i64::from(*byte)));
    let elements = kept.chain((!text.is_empty()).then_some(Value::Int(0))).take(MAX_BYTES).collect();
    Side { elements, size: Some(if text.is_empty() { 0 } else { text.len() + 1 }), sure: true, width: 1 }
}

/// The elements of an array, as many as the module keeps.
fn sized(elements: impl Iterator<Item = Value>, array: &Array) -> Side {
    let width = array.dbf.size();
    let elements = elements.take(MAX_BYTES / width.max(1)).collect();
    Side { elements, size: usize::try_from(array.count).ok(), sure: true, width }
}

/// The first `bytes` bytes of a text, at the border of a letter.
fn cut(text: &str, bytes: usize) -> String {
    let mut end = bytes.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or(text).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::puts::sample::put;

    #[test]
    fn what_a_record_holds_that_was_not_seen_to_be_done_is_not_sure() {
        let is_sure = |put: &PutLine| message(put).expect("a message").new.sure;
        assert!(is_sure(&put()));
        assert!(is_sure(&PutLine { processed: None, ..put() }), "it was not processed");
        assert!(!is_sure(&PutLine { rtype: Some("busy".into()), processed: None, ..put() }));
        assert!(is_sure(&PutLine { rtype: Some("busy".into()), ..put() }));
    }
}
