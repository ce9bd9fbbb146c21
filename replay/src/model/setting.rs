//! A value of a field as it is put back: what formats for restoring values need to know.
//!
//! Whoever makes settings fills in what the log holds. Formats ([`crate::output::settings`]) leave out what they can't
//! hold, or what is not known, and say so.

use super::obstacle::Obstacle;
use iocrec_log::event::{Dbf, Value};

/// A value to restore. The default is an unknown value of an unknown field.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    /// Host; empty if unknown.
    pub host: String,
    /// IOC; empty if unknown.
    pub ioc: String,
    /// The PV: the record for VAL, or `record.FIELD`. Without `$`; formats add it for long strings.
    pub pv: String,
    /// Record.
    pub record: String,
    /// Field.
    pub field: String,
    /// Record type; empty if unknown.
    pub rtype: String,
    /// The value. An enum, a menu or a device support is its number.
    pub value: Value,
    /// The enum string or menu choice that `value` stands for.
    pub text: Option<String>,
    /// All enum strings or menu choices, in order; empty if unknown or if the field has none.
    pub labels: Vec<String>,
    /// Type of the field.
    pub dbf: Option<Dbf>,
    /// Elements that the field has room for (NELM); `None` if unknown.
    pub room: Option<u32>,
    /// Whether the log holds only a part of the value; `None` if unknown.
    pub cut: Option<bool>,
    /// The value is not certain: it may have been another one.
    pub inexact: bool,
    /// Alarm severity and status at that time, if known.
    pub alarm: Option<(u16, u16)>,
    /// Wall-clock time at which the field got the value, or at which it was seen there, nanoseconds since 1970 UTC.
    pub time: Option<i64>,
    /// It is a readback: shown in the file, but not to be written.
    pub read_only: bool,
    /// Start and process id of its IOC; zeros if unknown.
    pub process: (u64, u32),
    /// A put from outside gave the field this value, so it is not only read.
    pub by_put: bool,
    /// A remark for whoever reads the file: who wrote what, when.
    pub remark: Option<String>,
}

impl Default for Setting {
    fn default() -> Self {
        Setting {
            host: String::new(),
            ioc: String::new(),
            pv: String::new(),
            record: String::new(),
            field: String::new(),
            rtype: String::new(),
            value: Value::Unknown,
            text: None,
            labels: Vec::new(),
            dbf: None,
            room: None,
            cut: None,
            inexact: false,
            alarm: None,
            time: None,
            read_only: false,
            process: (0, 0),
            by_put: false,
            remark: None,
        }
    }
}

/// A value that a format leaves out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// Its PV.
    pub pv: String,
    /// Why.
    pub reason: Obstacle,
}

impl std::fmt::Display for LeftOut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} is left out: {}", self.pv, self.reason)
    }
}
