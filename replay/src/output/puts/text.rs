//! Puts as text, a line each.

use crate::model::putlog::PutLine;
use crate::time::Zone;
use crate::wording::put::{push_change, push_who};
use std::fmt::Write as _;

/// Appends the line before the status:
/// `TIME  PV  OLD -> NEW  by USER@HOST from ADDRESS  IOC  STATUS  VIA`: parts of varying length are padded to their
/// usual width.
pub fn push_before(line: &mut String, put: &PutLine, zone: &Zone) {
    zone.push(line, put.time, 6);
    push_padded(line, 20, |line| line.push_str(put.pv.as_deref().unwrap_or("(unnamed channel)")));
    push_padded(line, 16, |line| push_change(line, put));
    push_padded(line, 32, |line| push_who(line, put));
    push_padded(line, 10, |line| line.push_str(put.ioc.as_deref().unwrap_or("-")));
    line.push_str("  ");
}

/// Appends the status.
pub fn push_status(line: &mut String, put: &PutLine) {
    let _ = write!(line, "{:<7}", put.status);
}

/// Appends the line after the status.
pub fn push_after(line: &mut String, put: &PutLine) {
    line.push_str("  ");
    line.push_str(put.via.name());
    if let Some(milliseconds) = put.callback_ms {
        let _ = write!(line, " {milliseconds:.1} ms");
    }
}

/// Appends two spaces, and a part with spaces up to a width in characters.
fn push_padded(line: &mut String, width: usize, push: impl FnOnce(&mut String)) {
    line.push_str("  ");
    let from = line.len();
    push(line);
    let length = line.get(from..).map_or(0, |part| part.chars().count());
    line.extend(std::iter::repeat_n(' ', width.saturating_sub(length)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::puts::sample::put;

    #[test]
    fn a_line_for_people() {
        let mut line = String::new();
        push_before(&mut line, &put(), &Zone::utc());
        push_status(&mut line, &put());
        push_after(&mut line, &put());
        assert_eq!(
            line,
            "2026-09-21T14:13:20.123456+00:00  T:SP                  1.5 -> 10 (asked for 12)  \
             alice@console3 10.0.0.5:41022     demo        ok       ca_write_notify 3.2 ms"
        );
    }
}
