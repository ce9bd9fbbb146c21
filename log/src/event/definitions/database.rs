//! Records, and what belongs to a database.

use crate::event::ids::*;
use crate::event::life::{allocated, texts, Begin, Definition, OwnedBy, Whole};
use crate::event::value::Dbf;
use serde::{Deserialize, Serialize};

/// A record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Its number.
    pub id: RecordId,
    /// Whose record.
    pub ioc: IocId,
    /// Address of its dbCommon in the IOC.
    pub address: u64,
    /// Name. Bytes that are not UTF-8 stand as `\xNN`.
    pub name: String,
    /// Record type (`ao`, `calc` ...); empty where not known.
    pub rtype: String,
}

/// Another name of a record, an alias.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Alias {
    /// The record.
    pub record: RecordId,
    /// The alias. A record may have several.
    pub name: String,
}

/// Aliases of a record; a bound for hostile logs, since each is compared with all.
const MAX_ALIASES: usize = 1000;

/// Kept are all aliases of a record: a further one is added to them.
impl Definition for Alias {
    /// Small, since many records have one.
    type Kept = Box<[Box<str>]>;
    const OWNED_BY: OwnedBy = OwnedBy::Record;
    const PLACE: Option<(u16, u16)> = Some((6, 1));

    fn key(&self) -> u32 {
        self.record
    }

    fn begin(&self, before: Option<&Self::Kept>) -> Begin<Self::Kept> {
        let known = before.map_or(&[][..], |known| known);
        if known.len() >= MAX_ALIASES {
            Begin::Refuse
        } else if known.iter().any(|name| **name == *self.name) {
            Begin::AsBefore
        } else {
            Begin::Keep(known.iter().cloned().chain([self.name.as_str().into()]).collect())
        }
    }

    fn again(record: u32, names: &Self::Kept) -> impl Iterator<Item = Self> {
        names.iter().map(move |name| Alias { record, name: name.to_string() })
    }

    fn heap(names: &Self::Kept) -> usize {
        texts(names)
    }
}

/// A record's enum strings, as they were when they were read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EnumStrings {
    /// A bi, bo, mbbi or mbbo record, or one of a similar type.
    pub record: RecordId,
    /// The enum string of each value, from 0 on (ZNAM and ONAM, ZRST to FFST), without empty ones at the end.
    pub states: Vec<String>,
}

impl Definition for EnumStrings {
    /// Small, since many records have some.
    type Kept = Box<[Box<str>]>;
    const OWNED_BY: OwnedBy = OwnedBy::Record;
    const PLACE: Option<(u16, u16)> = Some((6, 2));

    fn key(&self) -> u32 {
        self.record
    }

    fn begin(&self, _: Option<&Self::Kept>) -> Begin<Self::Kept> {
        Begin::Keep(self.states.iter().map(|text| text.as_str().into()).collect())
    }

    fn again(record: u32, strings: &Self::Kept) -> impl Iterator<Item = Self> {
        std::iter::once(EnumStrings { record, states: strings.iter().map(ToString::to_string).collect() })
    }

    fn heap(strings: &Self::Kept) -> usize {
        texts(strings)
    }
}

/// A field of a record type (a dbFldDes).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Field {
    /// Its number.
    pub id: FieldId,
    /// Whose.
    pub ioc: IocId,
    /// Record type.
    pub rtype: String,
    /// Field name: `VAL`, `DRVH` ...
    pub name: String,
    /// Type of the field.
    pub dbf: Dbf,
    /// The texts of its values: the menu of a MENU field, the record type's device supports for a
    /// DEVICE field.
    pub menu: Option<MenuId>,
}

impl Whole for Field {
    const OWNED_BY: OwnedBy = OwnedBy::Ioc;

    fn key(&self) -> u32 {
        self.id
    }

    fn owner(&self) -> u32 {
        self.ioc
    }

    fn heap(&self) -> usize {
        allocated(self.rtype.len()) + allocated(self.name.len())
    }
}

/// A menu (dbMenu), or the device supports of a record type (dbDeviceMenu).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Menu {
    /// Its number.
    pub id: MenuId,
    /// Whose.
    pub ioc: IocId,
    /// Its name (`menuScan` ...); the record type's for device supports.
    pub name: String,
    /// The text of each value, from 0 on.
    pub choices: Vec<String>,
}

impl Whole for Menu {
    const OWNED_BY: OwnedBy = OwnedBy::Ioc;
    const PLACE: Option<(u16, u16)> = Some((6, 3));

    fn key(&self) -> u32 {
        self.id
    }

    fn owner(&self) -> u32 {
        self.ioc
    }

    fn heap(&self) -> usize {
        allocated(self.name.len()) + texts(&self.choices)
    }
}

/// What a [`ScanList`] waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ScanKind {
    /// A period.
    Periodic,
    /// A database event.
    Event,
    /// Device support (I/O Intr).
    IoInterrupt,
}

/// A list of records that an IOC processes one after the other (scan_list of dbScan.c): of a period, or of an
/// event or a device support's IOSCANPVT and a priority.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScanList {
    /// Its number.
    pub id: ScanListId,
    /// Whose.
    pub ioc: IocId,
    /// What it waits for.
    pub kind: ScanKind,
    /// The period as SCAN has it (`.1 second`), the event's name or number; empty for I/O Intr.
    pub name: String,
    /// Address of the CALLBACK that has it processed: [`Cause::object`](crate::event::Cause::object) of the
    /// `callbackRequest` that asks for that. 0 for a period.
    pub callback: u64,
}

impl Whole for ScanList {
    const OWNED_BY: OwnedBy = OwnedBy::Ioc;

    fn key(&self) -> u32 {
        self.id
    }

    fn owner(&self) -> u32 {
        self.ioc
    }

    fn heap(&self) -> usize {
        allocated(self.name.len())
    }
}

/// The list that a record is on, as it was when it was read.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecordScan {
    /// The record.
    pub record: RecordId,
    /// Its list; none if it is on a list no longer.
    pub list: Option<ScanListId>,
}

impl Definition for RecordScan {
    /// The list alone, since every record that is scanned has one.
    type Kept = ScanListId;
    const OWNED_BY: OwnedBy = OwnedBy::Record;

    fn key(&self) -> u32 {
        self.record
    }

    fn begin(&self, _: Option<&ScanListId>) -> Begin<ScanListId> {
        self.list.map_or(Begin::End, Begin::Keep)
    }

    fn again(record: u32, list: &ScanListId) -> impl Iterator<Item = Self> {
        std::iter::once(RecordScan { record, list: Some(*list) })
    }

    fn heap(_: &ScanListId) -> usize {
        0
    }
}
