//! Rows as CSV: RFC 4180 with line feeds. Null is an empty cell, an empty text is `""`. Characters that must not reach a
//! terminal are escaped as everywhere, so a row is always one line.

use super::cells::Cell;
use super::ndjson::{push_double, push_int, push_list};
use super::schema::{Kind, Table};
use super::utc;
use iocrec_log::escape::{self, is_safe};

/// Appends the heading.
pub fn push_heading(out: &mut Vec<u8>, table: &Table) {
    let names: Vec<&str> = table.columns.iter().map(|column| column.name).collect();
    out.extend_from_slice(names.join(",").as_bytes());
    out.push(b'\n');
}

/// Appends the cell of a row that has this number.
pub fn push(out: &mut Vec<u8>, table: &Table, number: usize, cell: &Cell) {
    let Some(column) = table.columns.get(number) else { return };
    if number > 0 {
        out.push(b',');
    }
    match cell {
        Cell::Null => {}
        Cell::Int(time) if column.kind == Kind::Time => utc::push(out, *time),
        Cell::Int(number) => push_int(out, *number),
        Cell::Double(number) => push_double(out, *number, ""),
        Cell::Bool(is) => out.extend_from_slice(if *is { b"true" } else { b"false" }),
        Cell::Text(text) => push_text(out, text),
        list => {
            let mut json = Vec::new();
            push_list(&mut json, list);
            push_quoted(out, &json);
        }
    }
}

fn push_text(out: &mut Vec<u8>, text: &str) {
    let mut escaped = String::new();
    let text = match is_safe(text) {
        true => text,
        false => {
            escape::push(&mut escaped, text);
            &escaped
        }
    };
    let plain =
        !text.is_empty() && !text.contains(['"', ',']) && !text.starts_with(' ') && !text.ends_with(' ');
    match plain {
        true => out.extend_from_slice(text.as_bytes()),
        false => push_quoted(out, text.as_bytes()),
    }
}

fn push_quoted(out: &mut Vec<u8>, text: &[u8]) {
    out.push(b'"');
    for byte in text {
        if *byte == b'"' {
            out.push(b'"');
        }
        out.push(*byte);
    }
    out.push(b'"');
}
