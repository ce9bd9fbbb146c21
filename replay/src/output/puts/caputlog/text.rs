//! A line of text of the module.

use super::burst::Line;
use super::message::{Kind, Message, Side};
use crate::output::c_number::general;
use crate::output::caput::escaped_by_caget;
use crate::time::Zone;
use iocrec_log::event::Value;
use std::fmt::Write as _;

/// Bytes of a line without its line feed (`MAX_BUF_SIZE`, less two); the rest is cut.
const MAX_LINE: usize = 254;
/// Marks a line that may not be what the module would have written.
const MARK: &str = " inexact";

/// `DATE TIME HOST USER PV new=NEW old=OLD[ min=MIN max=MAX]`, and whether it is marked as inexact.
pub fn text(line: &Line, zone: &Zone) -> (String, bool) {
    let put = &line.put;
    let mut text = zone.strftime(put.time, "%d-%b-%y %H:%M:%S");
    let name = |name: &Option<String>| name.as_deref().unwrap_or("?").to_owned();
    let _ = write!(text, " {} {} {}", name(&put.host), name(&put.user), name(&put.pv));
    let [new, old] = [&put.new, &line.old].map(|side| side.first(put.kind));
    let _ = write!(text, " new={} old={}", shown(put.kind, &new), shown(put.kind, &old));
    if let Some((min, max)) = &line.range {
        let _ = write!(text, " min={} max={}", shown(put.kind, min), shown(put.kind, max));
    }
    if text.len() > MAX_LINE {
        let mut end = MAX_LINE;
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
    }
    let inexact = line.in_doubt || is_doubtful(put, &put.new, &new) || is_doubtful(put, &line.old, &old);
    if inexact {
        text.push_str(MARK);
    }
    (text, inexact)
}

fn is_doubtful(put: &Message, side: &Side, first: &Value) -> bool {
    !side.sure || *first == Value::Unknown || put.host.is_none() || put.user.is_none() || put.pv.is_none()
}

fn shown(kind: Kind, value: &Value) -> String {
    match (kind, value) {
        (_, Value::Unknown | Value::Array(_)) => "?".to_owned(),
        (_, Value::Text(bytes)) => format!("\"{}\"", escaped_by_caget(bytes)),
        (Kind::Char, Value::Int(number)) => (*number as u8).to_string(),
        (_, Value::Int(number)) => number.to_string(),
        (_, Value::UInt(number)) => number.to_string(),
        (_, Value::Float(number)) => general(f64::from(*number), 6),
        (_, Value::Double(number)) => general(*number, 6),
    }
}
