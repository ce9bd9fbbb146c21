//! The fields of a record type that a snapshot needs beside the value: TIME, the lock, and the properties by which people
//! read a value.

use std::collections::HashMap;

use crate::ioc::layout::FieldAt;

/// Longest text among the properties; DESC has 41 bytes, EGU 16.
const MAX_TEXT: usize = 80;
/// Size of an epicsTimeStamp: seconds and nanoseconds.
const TIME_BYTES: i16 = 8;

/// Names of the alarm limits and of their severities.
const ALARM_LIMITS: [(&str, &str); 4] = [("LOLO", "LLSV"), ("LOW", "LSV"), ("HIGH", "HSV"), ("HIHI", "HHSV")];

/// A field in a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its type, as the process numbers it.
    pub dbf: u16,
    /// Offset in the record, bytes.
    pub offset: u16,
    /// Size, bytes.
    pub size: u16,
}

/// Where the fields of a record type are; `None`: it does not have them.
#[derive(Clone, Debug, Default)]
pub struct Shown {
    /// TIME, an epicsTimeStamp.
    pub time: Option<Place>,
    /// LSET, a pointer to the record's lock.
    pub lock: Option<Place>,
    /// DESC.
    pub description: Option<Place>,
    /// EGU.
    pub units: Option<Place>,
    /// PREC.
    pub precision: Option<Place>,
    /// LOPR and HOPR.
    pub display: Option<[Place; 2]>,
    /// DRVL and DRVH.
    pub control: Option<[Place; 2]>,
    /// LOLO, LOW, HIGH and HIHI, each with its severity.
    pub alarms: [Option<[Place; 2]>; 4],
}

impl Shown {
    /// Finds them among the fields of a type whose records have so many bytes.
    pub(super) fn of(fields: &HashMap<String, FieldAt>, record_bytes: u32) -> Shown {
        let place = |name: &str| {
            let field = fields.get(name)?;
            let size = u16::try_from(field.size).ok().filter(|size| *size > 0)?;
            let end = u32::from(field.offset).checked_add(size.into())?;
            (end <= record_bytes).then_some(Place { dbf: field.dbf, offset: field.offset, size })
        };
        let text = |name: &str| place(name).filter(|place| usize::from(place.size) <= MAX_TEXT);
        let number = |name: &str| place(name).filter(|place| place.size <= 8);
        let pair = |one: &str, other: &str| Some([number(one)?, number(other)?]);
        Shown {
            time: place("TIME").filter(|place| place.size == TIME_BYTES.cast_unsigned()),
            lock: number("LSET"),
            description: text("DESC"),
            units: text("EGU"),
            precision: number("PREC"),
            display: pair("LOPR", "HOPR"),
            control: pair("DRVL", "DRVH"),
            alarms: ALARM_LIMITS.map(|(limit, severity)| pair(limit, severity)),
        }
    }

    /// The fields besides TIME.
    pub fn properties(&self) -> impl Iterator<Item = Place> + '_ {
        let pairs = [self.display, self.control].into_iter().chain(self.alarms).flatten().flatten();
        [self.description, self.units, self.precision].into_iter().flatten().chain(pairs)
    }
}
