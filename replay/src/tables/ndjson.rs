//! Rows as JSON lines. NaN and infinities, which JSON has not, are null; of a value, the text beside it tells them.

use super::cells::Cell;
use super::schema::{Column, Kind, Table};
use super::utc;
use iocrec_log::escape::{is_safe, push_json};
use std::io::Write;

/// Appends the cell of a row that has this number.
pub fn push(out: &mut Vec<u8>, table: &Table, number: usize, cell: &Cell) {
    let Some(column) = table.columns.get(number) else { return };
    out.extend_from_slice(if number == 0 { b"{\"" } else { b",\"" });
    out.extend_from_slice(column.name.as_bytes());
    out.extend_from_slice(b"\":");
    push_cell(out, column, cell);
}

fn push_cell(out: &mut Vec<u8>, column: &Column, cell: &Cell) {
    match cell {
        Cell::Null => out.extend_from_slice(b"null"),
        Cell::Int(time) if column.kind == Kind::Time => {
            out.push(b'"');
            utc::push(out, *time);
            out.push(b'"');
        }
        Cell::Int(number) => push_int(out, *number),
        Cell::Double(number) => push_double(out, *number, "null"),
        Cell::Bool(is) => out.extend_from_slice(if *is { b"true" } else { b"false" }),
        Cell::Text(text) => push_text(out, text),
        list => push_list(out, list),
    }
}

/// Appends a list as a JSON array.
pub fn push_list(out: &mut Vec<u8>, list: &Cell) {
    out.push(b'[');
    match list {
        Cell::Doubles(list) => each(out, list, |out, number| push_double(out, *number, "null")),
        Cell::Ints(list) => each(out, list, |out, number| push_int(out, *number)),
        Cell::Texts(list) => each(out, list, |out, text| push_text(out, text)),
        _ => {}
    }
    out.push(b']');
}

fn each<T>(out: &mut Vec<u8>, list: &[T], push: impl Fn(&mut Vec<u8>, &T)) {
    for (number, element) in list.iter().enumerate() {
        if number > 0 {
            out.push(b',');
        }
        push(out, element);
    }
}

/// Appends an integer.
pub fn push_int(out: &mut Vec<u8>, number: i64) {
    // writing to a vector cannot fail
    let _ = write!(out, "{number}");
}

/// Appends a double with as many digits as tell it from others, or `none` if it has no digits.
pub fn push_double(out: &mut Vec<u8>, number: f64, none: &str) {
    match number.is_finite() {
        true => out.extend_from_slice(zmij::Buffer::new().format_finite(number).as_bytes()),
        false => out.extend_from_slice(none.as_bytes()),
    }
}

fn push_text(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    if is_safe(text) && !text.contains(['"', '\\']) {
        out.extend_from_slice(text.as_bytes());
    } else {
        let mut escaped = String::new();
        push_json(&mut escaped, text);
        out.extend_from_slice(escaped.as_bytes());
    }
    out.push(b'"');
}
