//! An alarm in its style.

use crate::model::enum_strings;
use crate::out::{add, Out};
use crate::terminal::style::Style;

/// Adds ` MAJOR HIHI` to the line.
pub fn push(out: &mut Out, severity: u16, status: u16) {
    add!(out, " ");
    out.style(Style::of_severity(severity));
    add!(out, "{}", enum_strings::alarm(severity, status));
    out.style(Style::Plain);
}
