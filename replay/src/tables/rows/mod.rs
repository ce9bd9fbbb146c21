//! What the logs hold as rows, one file for each table or pass.

pub mod alarms;
pub mod chain;
pub mod circuits;
pub mod health;
pub mod iocs;
pub mod losses;
pub mod puts;
pub mod values;

use super::encoder::Row;
use crate::model::enum_strings::{severity_name, status_name};

/// Adds severity, its number and status of an alarm, if there is one.
fn push_alarm(row: &mut Row, alarm: Option<(u16, u16)>) {
    row.push(alarm.map(|(severity, _)| severity_name(severity)).into());
    row.push(alarm.map(|(severity, _)| i64::from(severity)).into());
    row.push(alarm.map(|(_, status)| status_name(status)).into());
}
