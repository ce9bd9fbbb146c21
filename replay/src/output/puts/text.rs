//! Puts as text, a line each.

use crate::model::putlog::PutLine;
use crate::output::wording::put::{change, who};
use crate::time::Zone;
use std::fmt::Write as _;

/// The line before the status, the status, and the line after it:
/// `TIME  PV  OLD -> NEW  by USER@HOST from ADDRESS  IOC  STATUS  VIA`: parts of varying length are padded to their
/// usual width.
pub fn parts(put: &PutLine, zone: &Zone) -> [String; 3] {
    let mut line = zone.format(put.time, 6);
    let pv = put.pv.as_deref().unwrap_or("(unnamed channel)");
    let _ = write!(line, "  {pv:<20}  {:<16}  {:<32}", change(put), who(put));
    let ioc = put.ioc.as_deref().unwrap_or("-");
    let _ = write!(line, "  {ioc:<10}  ");
    let mut after = format!("  {}", put.via.name());
    if let Some(milliseconds) = put.callback_ms {
        let _ = write!(after, " {milliseconds:.1} ms");
    }
    [line, format!("{:<7}", put.status), after]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::puts::sample::put;

    #[test]
    fn a_line_for_people() {
        assert_eq!(
            parts(&put(), &Zone::utc()).concat(),
            "2026-09-21T14:13:20.123456+00:00  T:SP                  1.5 -> 10 (asked for 12)  \
             alice@console3 10.0.0.5:41022     demo        ok       ca_write_notify 3.2 ms"
        );
    }
}
