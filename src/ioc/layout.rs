//! Layout of an IOC's records, from the field descriptions in the IOC itself.
//!
//! EPICS Base keeps a description of every field of every record type (dbFldDes: name, type, offset, size), so this
//! module need not know how versions of Base differ. The descriptions are linked together in the same way from Base
//! 3.14.12 to 7.0.10 (`offsets::Database`).

mod error;
mod read;
mod shown;

use std::collections::HashMap;

use epics::dbf::Numbering;
use iocrec_log::event::Dbf;

use crate::ioc::offsets::Database as Offsets;
use crate::linux::memory::Memory;
use crate::linux::text::printable;
use crate::linux::width::{u16_at, u32_at};

pub use error::LayoutError;
pub use shown::{Place, Shown};

/// Longest name of a record type or field.
pub(super) const MAX_NAME: usize = 60;
/// Bytes of an enum string.
pub(super) const STATE_BYTES: usize = epics::limits::MAX_ENUM_STRING_SIZE;

/// A field description.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldAt {
    /// Address of the dbFldDes.
    pub description: u64,
    /// Field type, as the process numbers it.
    pub dbf: u16,
    /// Offset in the record, bytes.
    pub offset: u16,
    /// Size, bytes.
    pub size: i16,
}

/// A record type.
#[derive(Clone, Debug)]
pub struct TypeLayout {
    /// Address of the dbRecordType, to which RDES of its records points.
    pub address: u64,
    /// Name: `ao`, `calc`, ...
    pub name: String,
    /// Its VAL field.
    pub value: Option<FieldAt>,
    /// Location of the value in its records.
    pub form: Form,
    /// Size of a record, bytes, starting at its dbCommon.
    pub record_bytes: u32,
    /// Its fields that may be links, in the order of their offsets.
    links: Box<[FieldAt]>,
    /// Addresses of the descriptions of SDIS and TSEL, the input links that every record has.
    pub(super) common_inputs: Option<(u64, u64)>,
    /// DTYP, the index of its device support.
    pub(super) device: Option<FieldAt>,
    /// NELM, the most elements that its array can have.
    pub(super) capacity: Option<FieldAt>,
    /// Addresses of the descriptions of ACKT and ACKS, if it has them.
    pub acknowledge: Option<(u64, u64)>,
    /// Offset of its enum strings and their number: bi and bo have 2, mbbi and mbbo 16.
    pub(super) states: Option<(u16, usize)>,
    /// Where a snapshot finds what it shows beside the value.
    pub(super) shown: Shown,
}

/// Location of a record's value. Offsets are from the start of the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// No meaningful value (fanout, aSub).
    None,
    /// In VAL, up to 8 bytes.
    Scalar,
    /// In VAL, 40 bytes or fewer.
    String,
    /// Behind a pointer: BPTR, with NORD elements of type FTVL.
    Array {
        /// BPTR.
        pointer: u16,
        /// NORD.
        count: u16,
        /// FTVL.
        element: u16,
    },
    /// Behind a pointer: VAL, with LEN bytes (lsi, lso, printf).
    LongString {
        /// VAL.
        pointer: u16,
        /// LEN.
        length: u16,
    },
}

/// All record types of an IOC.
#[derive(Clone, Debug)]
pub struct Layout {
    /// Numbering of field types.
    pub numbering: Numbering,
    /// Record types by the address of their dbRecordType.
    pub types: HashMap<u64, TypeLayout>,
    /// Address of the dbBase that it was read from.
    base: u64,
    /// Address of the first dbRecordType.
    first: u64,
    /// Offset of RDES in dbCommon.
    pub rdes: u16,
    /// Offset of STAT in dbCommon; SEVR follows it.
    pub stat: u16,
    /// Offset of PACT in dbCommon.
    pub pact: u16,
    /// Fields that decide when a record is processed; `None` if one of them has no description.
    pub scanning: Option<Scanning>,
}

/// Fields of dbCommon that decide when a record is processed. Offsets are from the start of the record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scanning {
    /// SCAN: an index of menuScan.
    pub scan: FieldAt,
    /// SPVT: its scan_element, or NULL.
    pub spvt: u16,
    /// EVNT: the event's name, before 3.15 its number (short).
    pub evnt: u16,
    /// DISA (short).
    pub disa: u16,
    /// DISV (short).
    pub disv: u16,
}

/// Change of a record database since its layout was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Database {
    /// None.
    Same,
    /// Record types were added.
    Extended,
    /// It is gone or was replaced.
    Gone,
}

impl Layout {
    /// A made-up layout: RDES, STAT and PACT, and each record type's address, value field and form.
    #[cfg(test)]
    pub(crate) fn of(
        numbering: Numbering,
        [rdes, stat, pact]: [u16; 3],
        types: &[(u64, Option<FieldAt>, Form)],
    ) -> Layout {
        let rtype = |(address, value, form): &(u64, Option<FieldAt>, Form)| TypeLayout {
            address: *address,
            name: String::new(),
            value: value.clone(),
            form: *form,
            record_bytes: 0,
            links: Box::default(),
            common_inputs: None,
            device: None,
            capacity: None,
            acknowledge: None,
            states: None,
            shown: Shown::default(),
        };
        let types = types.iter().map(|line| (line.0, rtype(line))).collect();
        Layout { numbering, types, base: 0, first: 0, rdes, stat, pact, scanning: None }
    }

    /// Address of the dbBase that it was read from.
    pub fn base(&self) -> u64 {
        self.base
    }

    /// Compares the list of record types with this layout.
    pub fn compare(&self, memory: &Memory) -> Database {
        let offsets = Offsets::of(memory.width());
        let at = self.base.wrapping_add(offsets.base_types);
        let Some(list) = memory.head::<32>(at, offsets.list_bytes) else { return Database::Same };
        if memory.width().pointer(&list, 0) != self.first {
            Database::Gone
        } else if u32_at(&list, offsets.list_count) as usize > self.types.len() {
            Database::Extended
        } else {
            Database::Same
        }
    }

    /// The record type of a record, from its RDES.
    pub fn type_of(&self, memory: &Memory, record: u64) -> Option<&TypeLayout> {
        self.types.get(&memory.pointer(record.checked_add(self.rdes.into())?)?)
    }

    /// Whether a record is active (PACT), and whether it is disabled (DISA equals DISV).
    pub fn state(&self, memory: &Memory, record: u64) -> Option<(bool, bool)> {
        let fields = self.scanning.as_ref()?;
        let [pact] = memory.bytes(record.checked_add(self.pact.into())?)?;
        let short = |offset: u16| memory.bytes::<2>(record.checked_add(offset.into())?);
        Some((pact != 0, short(fields.disa)? == short(fields.disv)?))
    }

    /// Record type, name and type of the field with the description at this address.
    pub fn field(&self, memory: &Memory, description: u64) -> Option<(String, String, Dbf)> {
        let offsets = Offsets::of(memory.width());
        let bytes: [u8; Offsets::MAX_BYTES] = memory.head(description, offsets.field_bytes)?;
        let pointer = |at| memory.width().pointer(&bytes, at);
        let rtype = self.types.get(&pointer(offsets.field_type))?;
        let name = memory.string(pointer(offsets.field_name), MAX_NAME)?;
        let dbf = self.numbering.dbf(u16::try_from(u32_at(&bytes, offsets.field_dbf)).ok()?)?;
        Some((rtype.name.clone(), name, dbf))
    }

    /// Record type and offset of the field with the description at this address.
    pub(super) fn described(&self, memory: &Memory, description: u64) -> Option<(&TypeLayout, FieldAt)> {
        let offsets = Offsets::of(memory.width());
        let bytes: [u8; Offsets::MAX_BYTES] = memory.head(description, offsets.field_bytes)?;
        let rtype = self.types.get(&memory.width().pointer(&bytes, offsets.field_type))?;
        let dbf = u16::try_from(u32_at(&bytes, offsets.field_dbf)).ok()?;
        let size = u16_at(&bytes, offsets.field_size).cast_signed();
        let offset = u16_at(&bytes, offsets.field_offset);
        Some((rtype, FieldAt { description, dbf, offset, size }))
    }

    /// Where the value lies of the record type whose value field has this description; `None` if it is another field's.
    pub fn form_of_value(&self, memory: &Memory, description: u64) -> Option<Form> {
        let (rtype, _) = self.described(memory, description)?;
        rtype.is_value(description).then_some(rtype.form)
    }

    /// Whether this is the description of a value field that is read completely when a record is done.
    pub fn is_plain_value(&self, description: u64) -> bool {
        self.types
            .values()
            .any(|rtype| rtype.is_value(description) && matches!(rtype.form, Form::Scalar | Form::String))
    }

    /// Addresses of the functions that process the records of each type (`rset->process`), with the types' names. The
    /// caller must check that they are code.
    pub fn routines<'a>(&'a self, memory: &'a Memory) -> impl Iterator<Item = (&'a str, u64)> {
        let offsets = Offsets::of(memory.width());
        self.types.values().filter_map(move |rtype| {
            let functions = memory.pointer(rtype.address.wrapping_add(offsets.type_functions))?;
            let routine = memory.pointer(functions.wrapping_add(offsets.process_routine))?;
            (functions != 0 && routine != 0).then_some((rtype.name.as_str(), routine))
        })
    }

    /// Number of nodes that the lists of records claim to have, aliases included, and a number that their last nodes give;
    /// `None` if not all can be read. The first changes when records are added, the second also if as many were deleted.
    pub fn claimed(&self, memory: &Memory) -> Option<(u64, u64)> {
        let offsets = Offsets::of(memory.width());
        // of the last node's address a part is enough
        let words = [offsets.list_count, memory.width().bytes()];
        let at = |list: u64| words.map(|word| list.wrapping_add(offsets.type_records + word as u64));
        let (mut nodes, mut last) = (0, 0);
        for words in memory.each::<4>(self.types.keys().flat_map(|&rtype| at(rtype))).as_chunks::<2>().0 {
            let [count, node] = words.map(|word| word.map(|word| u64::from(u32::from_ne_bytes(word))));
            nodes += count?;
            last += node?;
        }
        Some((nodes, last))
    }
}

impl TypeLayout {
    /// Whether this is the description of its value field.
    pub(super) fn is_value(&self, description: u64) -> bool {
        self.value.as_ref().is_some_and(|value| value.description == description)
    }

    /// Its input links.
    pub(super) fn inputs(&self, numbering: Numbering) -> impl Iterator<Item = &FieldAt> + '_ {
        self.links.iter().filter(move |link| numbering.dbf(link.dbf) == Some(Dbf::InLink))
    }

    /// Its links that write: output links and forward links.
    pub(super) fn outputs(&self, numbering: Numbering) -> impl Iterator<Item = (&FieldAt, Dbf)> + '_ {
        let of = move |link: &FieldAt| {
            numbering.dbf(link.dbf).filter(|dbf| matches!(dbf, Dbf::OutLink | Dbf::FwdLink))
        };
        self.links.iter().filter_map(move |link| Some((link, of(link)?)))
    }

    /// Offset and bytes of its enum strings, if it has some.
    pub fn states(&self) -> Option<(u16, u16)> {
        let (offset, count) = self.states?;
        Some((offset, u16::try_from(count * STATE_BYTES).ok()?))
    }

    /// Location of its value.
    pub(super) fn form(&self) -> Form {
        self.form
    }
}

/// Reads the enum strings of a record again.
pub fn states_of(memory: &Memory, rtype: &TypeLayout, record: u64) -> Option<Vec<String>> {
    let (offset, count) = rtype.states?;
    let mut bytes = vec![0; count * STATE_BYTES];
    memory.read(record.checked_add(offset.into())?, &mut bytes).then(|| state_texts(&bytes))
}

/// Enum strings from their bytes; empty ones at the end are left out.
pub fn state_texts(bytes: &[u8]) -> Vec<String> {
    let mut texts: Vec<String> =
        bytes.chunks_exact(STATE_BYTES).map(|text| printable(iocrec_log::value::until_nul(text))).collect();
    while texts.pop_if(|text| text.is_empty()).is_some() {}
    texts
}

#[cfg(test)]
mod tests;
