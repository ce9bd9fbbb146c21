//! Which part of a value a record's field gets.

use crate::event::Value;
use epics::pva::types::{head, skip, Head};
use epics::pva::Cursor;

/// The field that servers map to a record's.
const VALUE: &str = "value";

/// The place among `fields` of what stands for the whole value: the field `value`, the index of an enum, the only part
/// of a union's member. None of a structure's or table's parts does.
pub(super) fn place(description: &[u8], fields: &[(String, Value)]) -> Option<usize> {
    let at = |wanted: &str| fields.iter().position(|(path, _)| path == wanted);
    let mut description = field(description)?;
    match head(&mut description).ok()? {
        Head::Fields(true, ..) => {
            let mut parts =
                (0..).zip(fields).filter(|(_, (path, _))| path == VALUE || path.starts_with("value."));
            let (place, (path, _)) = parts.next().filter(|_| parts.next().is_none())?;
            let member = path.strip_prefix(VALUE)?.trim_start_matches('.');
            (!member.contains(['.', '['])).then_some(place)
        }
        Head::Fields(false, _, 2) => {
            let first = description.string().ok()?;
            skip(&mut description, 0).ok()?;
            let names = [first, description.string().ok()?];
            (names == [&b"index"[..], b"choices"]).then(|| at("value.index"))?
        }
        Head::Fields(..) => None,
        _ => at(VALUE),
    }
}

/// The description of the field `value`.
fn field(description: &[u8]) -> Option<Cursor<'_>> {
    let mut description = Cursor::new(description, false);
    let Head::Fields(false, _, count) = head(&mut description).ok()? else { return None };
    for _ in 0..count {
        if description.string().ok()? == VALUE.as_bytes() {
            return Some(description);
        }
        skip(&mut description, 1).ok()?;
    }
    None
}
