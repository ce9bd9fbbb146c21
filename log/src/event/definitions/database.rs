//! Records and the other parts of a database.

use crate::event::ids::*;
use crate::event::life::{allocated, owned_by_ioc, texts, Begin, Definition, OwnedBy, Whole};
use crate::event::value::Dbf;
use serde::{Deserialize, Serialize};

/// A record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Its number.
    pub id: RecordId,
    /// Its IOC.
    pub ioc: IocId,
    /// Address of its dbCommon in the IOC.
    pub address: u64,
    /// Name. Bytes that are not UTF-8 are written as `\xNN`.
    pub name: String,
    /// Record type (`ao`, `calc` ...); empty where not known.
    pub rtype: String,
}

/// An alias of a record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Alias {
    /// The record.
    pub record: RecordId,
    /// The alias. A record may have several.
    pub name: String,
}

/// Maximum number of a record's aliases: a bound for hostile logs, since each alias is compared with all others.
const MAX_ALIASES: usize = 1000;

/// All aliases of a record are kept together; a new one is added to them.
impl Definition for Alias {
    /// Compact, because many records have aliases.
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

/// A record's enum strings at the time they were read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EnumStrings {
    /// A bi, bo, mbbi or mbbo record, or one of a similar type.
    pub record: RecordId,
    /// The enum string of each value, from 0 up (ZNAM and ONAM, ZRST to FFST), without empty ones at the end. A single
    /// empty one: they are not known from the time of the fact on, which is that of the last reading of those before.
    pub states: Vec<String>,
}

impl EnumStrings {
    /// The strings of a record that were found to be others than they were; what they are is not known yet.
    pub fn unknown(record: RecordId) -> EnumStrings {
        EnumStrings { record, states: vec![String::new()] }
    }
}

impl Definition for EnumStrings {
    /// Compact, because many records have enum strings.
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
    /// Its IOC.
    pub ioc: IocId,
    /// Record type.
    pub rtype: String,
    /// Field name: `VAL`, `DRVH` ...
    pub name: String,
    /// Type of the field.
    pub dbf: Dbf,
    /// The texts of its values: the menu of a MENU field; for a DEVICE field, the record type's device supports.
    pub menu: Option<MenuId>,
}

impl Whole for Field {
    owned_by_ioc!();

    fn heap(&self) -> usize {
        allocated(self.rtype.len()) + allocated(self.name.len())
    }
}

/// A menu (dbMenu), or the device supports of a record type (dbDeviceMenu).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Menu {
    /// Its number.
    pub id: MenuId,
    /// Its IOC.
    pub ioc: IocId,
    /// Its name (`menuScan` ...); for device supports, the name of the record type.
    pub name: String,
    /// The text of each value, from 0 up.
    pub choices: Vec<String>,
}

impl Whole for Menu {
    owned_by_ioc!();
    const PLACE: Option<(u16, u16)> = Some((6, 3));

    fn heap(&self) -> usize {
        allocated(self.name.len()) + texts(&self.choices)
    }
}

/// The trigger of a [`ScanList`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ScanKind {
    /// A period.
    Periodic,
    /// A database event.
    Event,
    /// Device support (I/O Intr).
    IoInterrupt,
}

/// A list of records that an IOC processes one after the other (scan_list of dbScan.c). There is one for each period,
/// and one for each priority of an event or of a device support's IOSCANPVT.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScanList {
    /// Its number.
    pub id: ScanListId,
    /// Its IOC.
    pub ioc: IocId,
    /// Its trigger.
    pub kind: ScanKind,
    /// The period as in SCAN (`.1 second`), or the event's name or number; empty for I/O Intr.
    pub name: String,
    /// Address of the CALLBACK that processes it: [`Cause::object`](crate::event::Cause::object) of the
    /// `callbackRequest` that asks for it. 0 for a period.
    pub callback: u64,
}

impl Whole for ScanList {
    owned_by_ioc!();

    fn heap(&self) -> usize {
        allocated(self.name.len())
    }
}

/// The list that a record was on at the time it was read.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecordScan {
    /// The record.
    pub record: RecordId,
    /// Its list; none if it is no longer on a list.
    pub list: Option<ScanListId>,
}

impl Definition for RecordScan {
    /// Only the list, because every scanned record has one.
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

/// A link that writes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct OutputLink {
    /// Its field: OUT, LNK1, FLNK ...
    pub field: FieldId,
    /// Its text: the PV's name, then how it is written to (`A:SP.VAL CA NMS`).
    pub text: String,
}

/// The links of a record that write to PVs over Channel Access, as read from the IOC's memory with the record's input links.
/// Written when they have changed since they were last read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputLinks {
    /// The record.
    pub record: RecordId,
    /// The links; none if the record has no such link any more.
    pub links: Vec<OutputLink>,
}

impl Definition for OutputLinks {
    type Kept = Vec<OutputLink>;
    const OWNED_BY: OwnedBy = OwnedBy::Record;

    fn key(&self) -> u32 {
        self.record
    }

    fn begin(&self, _: Option<&Self::Kept>) -> Begin<Self::Kept> {
        if self.links.is_empty() {
            Begin::End
        } else {
            Begin::Keep(self.links.clone())
        }
    }

    fn again(record: u32, links: &Self::Kept) -> impl Iterator<Item = Self> {
        std::iter::once(OutputLinks { record, links: links.clone() })
    }

    fn heap(links: &Self::Kept) -> usize {
        let text = |link: &OutputLink| allocated(link.text.len());
        allocated(std::mem::size_of_val(links.as_slice())) + links.iter().map(text).sum::<usize>()
    }
}
