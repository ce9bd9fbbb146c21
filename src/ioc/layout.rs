//! Where things lie in an IOC's records, read from the field descriptions in the IOC itself.
//!
//! EPICS Base describes every field of every record type to itself (dbFldDes: name, type, offset, size),
//! so what differs between versions of Base need not be known here. What must be known is how the
//! descriptions are linked together, and that has been the same from Base 3.14.12 to 7.0.10 (dbBase.h;
//! compared on 14 builds). The offsets of
//! those links differ by the width of pointers alone.
//!
//! The walk is bounded, and believes nothing: what does not make sense ends it with a reason.

use std::collections::HashMap;

pub use epics::dbf::Numbering;
use epics::limits::MAX_ENUM_STRING_SIZE;
use iocrec_log::event::Dbf;

use crate::ioc::Database;
use crate::linux::memory::Memory;
use crate::linux::text::printable;
use crate::linux::width::{u16_at, u32_at, Width};

/// Where things lie in dbBase.h's structures, in bytes.
#[derive(Debug)]
pub(super) struct Offsets {
    /// dbBase.recordTypeList: an ELLLIST, first node at its start.
    base_types: u64,
    /// dbRecordType: next node at 0, `recList`, `name`, `no_fields` (short), `papFldDes`, `rec_size` (int).
    pub type_records: u64,
    type_name: usize,
    type_fields: usize,
    type_descriptions: usize,
    type_record_size: usize,
    type_bytes: usize,
    /// dbRecordType.prset, and in the rset its fourth function, `process`.
    type_functions: u64,
    routine: u64,
    /// dbFldDes: `name`, `pdbRecordType`, `field_type` (int), `ftPvt`, `size` (short), `offset` (short).
    field_name: usize,
    field_type: usize,
    field_dbf: usize,
    field_private: usize,
    field_size: usize,
    field_offset: usize,
    field_bytes: usize,
    /// dbMenu: `name`, `nChoice` (int), `papChoiceValue`.
    menu_name: usize,
    menu_count: usize,
    menu_values: usize,
    menu_bytes: usize,
    /// dbDeviceMenu: `nChoice` (int) at 0, `papChoice`.
    device_choices: usize,
    device_bytes: usize,
    /// dbRecordNode: next node at 0, `precord`, `recordname`, `flags` (int).
    pub node_record: usize,
    pub node_name: usize,
    pub node_flags: usize,
    pub node_bytes: usize,
    /// ELLLIST: first node at 0, `count` (int).
    pub list_count: usize,
    pub list_bytes: usize,
}

/// For 8-byte pointers.
const WIDE: Offsets = Offsets {
    base_types: 24,
    type_records: 40,
    type_name: 112,
    type_fields: 120,
    type_descriptions: 168,
    type_record_size: 184,
    type_bytes: 192,
    type_functions: 176,
    routine: 32,
    field_name: 8,
    field_type: 24,
    field_dbf: 36,
    field_private: 64,
    field_size: 72,
    field_offset: 74,
    field_bytes: 80,
    menu_name: 16,
    menu_count: 24,
    menu_values: 40,
    menu_bytes: 48,
    device_choices: 8,
    device_bytes: 16,
    node_record: 16,
    node_name: 24,
    node_flags: 56,
    node_bytes: 64,
    list_count: 16,
    list_bytes: 24,
};

/// For 4-byte pointers: i386 and 32-bit ARM have these the same.
const NARROW: Offsets = Offsets {
    base_types: 12,
    type_records: 20,
    type_name: 56,
    type_fields: 60,
    type_descriptions: 88,
    type_record_size: 96,
    type_bytes: 100,
    type_functions: 92,
    routine: 16,
    field_name: 4,
    field_type: 12,
    field_dbf: 20,
    field_private: 44,
    field_size: 48,
    field_offset: 50,
    field_bytes: 52,
    menu_name: 8,
    menu_count: 12,
    menu_values: 20,
    menu_bytes: 24,
    device_choices: 4,
    device_bytes: 8,
    node_record: 8,
    node_name: 12,
    node_flags: 28,
    node_bytes: 32,
    list_count: 8,
    list_bytes: 12,
};

/// Bytes of the largest of the structures that are read whole.
const MOST_BYTES: usize = 192;

impl Offsets {
    /// Those of a process with such pointers.
    pub(super) fn of(width: Width) -> &'static Offsets {
        width.pick(&NARROW, &WIDE)
    }
}

/// Field type numbers that all versions agree on.
const DBF_STRING: u16 = 0;

/// More record types than any IOC has: Base brings 35, the largest sites' IOCs load some hundred.
const MAX_TYPES: usize = 1000;
/// More fields than a record type can have (dbCommon 50, the largest of synApps some 700).
const MAX_FIELDS: usize = 2000;
/// Longest name of a record type or field.
const MAX_NAME: usize = 60;
/// More choices than a menu has: `menuFtype` 12, `menuScan` 10 and what a site adds; device supports of a type
/// in the largest IOCs some 50.
const MAX_CHOICES: usize = 1000;
/// Longest text of a choice: MAX_STRING_SIZE, a device support's may be longer.
const MAX_CHOICE: usize = 80;
/// Bytes of a state's text.
pub(super) const STATE_BYTES: usize = MAX_ENUM_STRING_SIZE;

/// Links have numbers among these, by version.
const DBF_LINKS: std::ops::RangeInclusive<u16> = 12..=16;

/// A field description.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldAt {
    /// Address of the dbFldDes.
    pub description: u64,
    /// Type as the process numbers it.
    pub dbf: u16,
    /// Offset in the record, bytes.
    pub offset: u16,
    /// Size, bytes.
    pub size: i16,
}

/// A record type.
#[derive(Clone, Debug)]
pub struct TypeLayout {
    /// Address of the dbRecordType: what a record's RDES points to.
    pub address: u64,
    /// Name: `ao`, `calc` ...
    pub name: String,
    /// Its VAL.
    pub value: Option<FieldAt>,
    /// Where records of it have their value.
    pub form: Form,
    /// Bytes of a record, from its dbCommon on.
    pub record_bytes: u32,
    /// Its fields that may be links: type as the process numbers it, address of the description.
    links: Box<[(u16, u64)]>,
    /// Addresses of the descriptions of ACKT and ACKS, where it has them.
    pub acknowledge: Option<(u64, u64)>,
    /// Where the texts of its states begin and how many there are: bi and bo 2, mbbi and mbbo 16.
    pub(super) states: Option<(u16, usize)>,
}

/// A menu, or the device supports of a record type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MenuAt {
    /// Address of the dbMenu or dbDeviceMenu.
    pub address: u64,
    /// The menu's name; the record type's for device supports.
    pub name: String,
    /// The texts.
    pub choices: Vec<String>,
}

/// Where a record's value is. Offsets in the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Nowhere that would mean something (fanout, aSub ...).
    None,
    /// In VAL, up to 8 bytes.
    Scalar,
    /// In VAL, 40 bytes.
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

/// What an IOC's fields look like.
#[derive(Clone, Debug)]
pub struct Layout {
    /// Field type numbers.
    pub numbering: Numbering,
    /// Record types by the address of their dbRecordType.
    pub types: HashMap<u64, TypeLayout>,
    /// The dbBase that it was read from, and the first of its record types.
    base: u64,
    first: u64,
    /// RDES in dbCommon.
    pub rdes: u16,
    /// STAT in dbCommon; SEVR follows it.
    pub stat: u16,
    /// PACT in dbCommon.
    pub pact: u16,
    /// What scanning and disabling need; `None` if a field of these is not described.
    pub scanning: Option<Scanning>,
}

/// Where the fields of dbCommon lie that say when a record is processed. Offsets in the record.
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

/// Offsets in structures that describe themselves nowhere, by version of Base.
#[derive(Clone, Copy, Debug)]
pub struct Fixed {
    /// In processNotify (3.14: putNotify): the dbChannel (3.14: DBADDR).
    pub notify_channel: u32,
    /// In dbChannel: the DBADDR; 0 in 3.14.
    pub channel_address: u32,
    /// The pointers that these offsets are for.
    pub width: Width,
}

impl Fixed {
    /// For 3.14, which has no dbChannel.
    pub fn base_3_14(width: Width) -> Fixed {
        Fixed { notify_channel: width.pick(16, 32), channel_address: 0, width }
    }

    /// For 3.15 and later.
    pub fn base_3_15(width: Width) -> Fixed {
        Fixed { notify_channel: width.pick(28, 48), channel_address: width.pick(4, 8), width }
    }

    /// Are these for 3.14?
    pub fn is_3_14(self) -> bool {
        self.channel_address == 0
    }
}

impl Layout {
    /// Reads the record types from `pdbbase`, the address that the variable of that name holds.
    ///
    /// # Errors
    /// What did not make sense, in words.
    pub fn read(memory: &Memory, pdbbase: u64) -> Result<Layout, String> {
        let mut common = None;
        let mut scanning = None;
        let mut highest = 0;
        let mut types = HashMap::new();
        let offsets = Offsets::of(memory.width());
        let list = pdbbase.wrapping_add(offsets.base_types);
        let first = memory.pointer(list).ok_or("pdbbase points to nothing")?;
        let mut node = first;
        while node != 0 {
            if types.len() >= MAX_TYPES || types.contains_key(&node) {
                return Err(format!("the list of record types does not end (after {})", types.len()));
            }
            let bytes = memory.head(node, offsets.type_bytes).ok_or("a record type could not be read")?;
            let pointer = |at| memory.width().pointer(&bytes, at);
            let next = pointer(0);
            let fields = fields(memory, node, &bytes)?;
            let name = memory.string(pointer(offsets.type_name), MAX_NAME);
            let name = name.ok_or("a record type has no name")?;
            let record_bytes = u32_at(&bytes, offsets.type_record_size);
            if record_bytes == 0 {
                return Err("its record types are not registered yet".into());
            }
            highest = fields.values().map(|field| field.dbf).max().unwrap_or(0).max(highest);
            let offset = |name: &str| fields.get(name).map(|field| field.offset);
            common = common.or_else(|| Some((offset("RDES")?, offset("STAT")?, offset("PACT")?)));
            scanning = scanning.or_else(|| crate::ioc::layout::scanning(&fields));
            let form = form(&fields, memory.width());
            let value = fields.get("VAL").cloned();
            let states = states(&fields);
            let address = |name: &str| fields.get(name).map(|field| field.description);
            let acknowledge = address("ACKT").zip(address("ACKS"));
            let links = fields.values().filter(|field| (DBF_LINKS).contains(&field.dbf));
            let links = links.map(|field| (field.dbf, field.description)).collect();
            let rtype =
                TypeLayout { address: node, name, value, form, record_bytes, links, acknowledge, states };
            types.insert(node, rtype);
            node = next;
        }
        let (rdes, stat, pact) = common.ok_or("no record type describes RDES, STAT and PACT")?;
        let numbering = match highest {
            15 => Numbering::Before3161,
            17 => Numbering::Since3161,
            other => return Err(format!("field types end at {other}, not 15 or 17")),
        };
        Ok(Layout { numbering, types, base: pdbbase, first, rdes, stat, pact, scanning })
    }

    /// One that was read nowhere: RDES, STAT and PACT, and of each record type its address, value field and form.
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
            acknowledge: None,
            states: None,
        };
        let types = types.iter().map(|line| (line.0, rtype(line))).collect();
        Layout { numbering, types, base: 0, first: 0, rdes, stat, pact, scanning: None }
    }

    /// The address that `pdbbase` held.
    pub fn base(&self) -> u64 {
        self.base
    }

    /// What has become of the list of record types.
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

    /// What a record is at: is it active (PACT), and is it disabled (DISA equals DISV)?
    pub fn state(&self, memory: &Memory, record: u64) -> Option<(bool, bool)> {
        let fields = self.scanning.as_ref()?;
        let [pact] = memory.bytes(record.checked_add(self.pact.into())?)?;
        let short = |offset: u16| memory.bytes::<2>(record.checked_add(offset.into())?);
        Some((pact != 0, short(fields.disa)? == short(fields.disv)?))
    }

    /// A field description by its address: record type, name, type.
    pub fn field(&self, memory: &Memory, description: u64) -> Option<(String, String, Dbf)> {
        let offsets = Offsets::of(memory.width());
        let bytes: [u8; MOST_BYTES] = memory.head(description, offsets.field_bytes)?;
        let pointer = |at| memory.width().pointer(&bytes, at);
        let rtype = self.types.get(&pointer(offsets.field_type))?;
        let name = memory.string(pointer(offsets.field_name), MAX_NAME)?;
        let dbf = self.numbering.dbf(u16::try_from(u32_at(&bytes, offsets.field_dbf)).ok()?)?;
        Some((rtype.name.clone(), name, dbf))
    }

    /// Where a field lies, by the address of its description, and of which record type it is.
    pub(super) fn described(&self, memory: &Memory, description: u64) -> Option<(&TypeLayout, FieldAt)> {
        let offsets = Offsets::of(memory.width());
        let bytes: [u8; MOST_BYTES] = memory.head(description, offsets.field_bytes)?;
        let rtype = self.types.get(&memory.width().pointer(&bytes, offsets.field_type))?;
        let dbf = u16::try_from(u32_at(&bytes, offsets.field_dbf)).ok()?;
        let size = u16_at(&bytes, offsets.field_size).cast_signed();
        let offset = u16_at(&bytes, offsets.field_offset);
        Some((rtype, FieldAt { description, dbf, offset, size }))
    }

    /// Is this the description of a value field that is read whole when a record is done?
    pub fn is_plain_value(&self, description: u64) -> bool {
        self.types
            .values()
            .any(|rtype| rtype.is_value(description) && matches!(rtype.form, Form::Scalar | Form::String))
    }

    /// The texts that a MENU or DEVICE field's values stand for, by the address of the field's description.
    pub fn menu(&self, memory: &Memory, description: u64) -> Option<MenuAt> {
        let (rtype, _, dbf) = self.field(memory, description)?;
        let offsets = Offsets::of(memory.width());
        let address = memory.pointer(description.checked_add(offsets.field_private as u64)?)?;
        let wanted = if dbf == Dbf::Menu { offsets.menu_bytes } else { offsets.device_bytes };
        let bytes: [u8; MOST_BYTES] = memory.head(address, wanted)?;
        let pointer = |at| memory.width().pointer(&bytes, at);
        let (name, count, list) = match dbf {
            Dbf::Menu => {
                let name = memory.string(pointer(offsets.menu_name), MAX_NAME)?;
                (name, u32_at(&bytes, offsets.menu_count), pointer(offsets.menu_values))
            }
            Dbf::Device => (rtype, u32_at(&bytes, 0), pointer(offsets.device_choices)),
            _ => return None,
        };
        let count = usize::try_from(count).ok().filter(|&count| count <= MAX_CHOICES)?;
        let width = memory.width().bytes();
        let mut pointers = vec![0; count * width];
        let read = memory.read(list, &mut pointers);
        let texts = pointers.chunks_exact(width).map(|pointer| memory.width().pointer(pointer, 0));
        let choices = texts.map(|text| memory.string(text, MAX_CHOICE).unwrap_or_default());
        read.then(|| MenuAt { address, name, choices: choices.collect() })
    }

    /// Addresses of the functions that process the records of each type (`rset->process`), with the types'
    /// names. Whether they are code is for the caller to look at.
    pub fn routines<'a>(&'a self, memory: &'a Memory) -> impl Iterator<Item = (&'a str, u64)> {
        let offsets = Offsets::of(memory.width());
        self.types.values().filter_map(move |rtype| {
            let functions = memory.pointer(rtype.address.wrapping_add(offsets.type_functions))?;
            let routine = memory.pointer(functions.wrapping_add(offsets.routine))?;
            (functions != 0 && routine != 0).then_some((rtype.name.as_str(), routine))
        })
    }

    /// How many nodes the lists of records claim to have: changes when records are added. Other names of
    /// records count too.
    pub fn claimed(&self, memory: &Memory) -> u64 {
        let offsets = Offsets::of(memory.width());
        let at = offsets.type_records.wrapping_add(offsets.list_count as u64);
        let counts = memory.each::<4>(self.types.keys().map(|rtype| rtype.wrapping_add(at)));
        counts.into_iter().flatten().map(|count| u64::from(u32::from_ne_bytes(count))).sum()
    }
}

impl TypeLayout {
    /// Is this the description of its value field?
    pub(super) fn is_value(&self, description: u64) -> bool {
        self.value.as_ref().is_some_and(|value| value.description == description)
    }

    /// Descriptions of its input links.
    pub(super) fn inputs(&self, numbering: Numbering) -> impl Iterator<Item = u64> + '_ {
        let inputs = self.links.iter().filter(move |(dbf, _)| numbering.dbf(*dbf) == Some(Dbf::InLink));
        inputs.map(|(_, description)| *description)
    }

    /// Where its value is.
    pub(super) fn form(&self) -> Form {
        self.form
    }
}

/// The states' texts of a record, read again.
pub fn states_of(memory: &Memory, rtype: &TypeLayout, record: u64) -> Option<Vec<String>> {
    let (offset, count) = rtype.states?;
    let mut bytes = vec![0; count * STATE_BYTES];
    memory.read(record.checked_add(offset.into())?, &mut bytes).then(|| state_texts(&bytes))
}

/// Which form a record type's value has.
fn form(fields: &HashMap<String, FieldAt>, width: Width) -> Form {
    let offset = |name: &str| fields.get(name).map(|field| field.offset);
    let Some(value) = fields.get("VAL") else { return Form::None };
    if let (Some(pointer), Some(count), Some(element)) = (offset("BPTR"), offset("NORD"), offset("FTVL")) {
        return Form::Array { pointer, count, element };
    }
    // a long string's VAL is no field of a type of its own but a pointer, SIZV its room
    let pointer = usize::try_from(value.size) == Ok(width.bytes());
    if let (Some(length), Some(_), true) = (offset("LEN"), offset("SIZV"), pointer) {
        return Form::LongString { pointer: value.offset, length };
    }
    match value.size {
        1..=8 => Form::Scalar,
        40.. if value.dbf == DBF_STRING => Form::String,
        _ => Form::None,
    }
}

/// Where the texts of a record type's states lie, one behind the other: bi, bo, mbbi, mbbo, and types of other
/// makers that are like them (synApps' busy).
fn states(fields: &HashMap<String, FieldAt>) -> Option<(u16, usize)> {
    let between = |first: &str, last: &str, count: usize| {
        let (first, last) = (fields.get(first)?, fields.get(last)?);
        let distance = usize::from(last.offset.checked_sub(first.offset)?);
        let together =
            distance == (count - 1) * STATE_BYTES && usize::try_from(first.size) == Ok(STATE_BYTES);
        together.then_some((first.offset, count))
    };
    between("ZNAM", "ONAM", 2).or_else(|| between("ZRST", "FFST", 16))
}

/// The fields of dbCommon that say when a record is processed.
fn scanning(fields: &HashMap<String, FieldAt>) -> Option<Scanning> {
    let offset = |name: &str| fields.get(name).map(|field| field.offset);
    Some(Scanning {
        scan: fields.get("SCAN").filter(|scan| scan.size == 2)?.clone(),
        spvt: offset("SPVT")?,
        evnt: offset("EVNT")?,
        disa: offset("DISA")?,
        disv: offset("DISV")?,
    })
}

/// Texts of states out of their bytes; those at the end that are empty are left out.
pub(super) fn state_texts(bytes: &[u8]) -> Vec<String> {
    let mut texts: Vec<String> =
        bytes.chunks_exact(STATE_BYTES).map(|text| printable(iocrec_log::value::until_nul(text))).collect();
    while texts.pop_if(|text| text.is_empty()).is_some() {}
    texts
}

/// The fields of a record type by name.
fn fields(memory: &Memory, node: u64, rtype: &[u8; MOST_BYTES]) -> Result<HashMap<String, FieldAt>, String> {
    let (offsets, width) = (Offsets::of(memory.width()), memory.width());
    let count = usize::from(u16_at(rtype, offsets.type_fields));
    if count == 0 || count > MAX_FIELDS {
        return Err(format!("a record type claims {count} fields"));
    }
    let mut pointers = vec![0; count * width.bytes()];
    if !memory.read(width.pointer(rtype, offsets.type_descriptions), &mut pointers) {
        return Err("a record type's fields could not be read".into());
    }
    let mut fields = HashMap::with_capacity(count);
    for pointer in pointers.chunks_exact(width.bytes()) {
        let description = width.pointer(pointer, 0);
        let bytes: [u8; MOST_BYTES] =
            memory.head(description, offsets.field_bytes).ok_or("a field could not be read")?;
        if width.pointer(&bytes, offsets.field_type) != node {
            return Err("a field does not belong to its record type".into());
        }
        let name = memory.string(width.pointer(&bytes, offsets.field_name), MAX_NAME);
        let name = name.ok_or("a field has no name")?;
        let dbf = u16::try_from(u32_at(&bytes, offsets.field_dbf));
        let dbf = dbf.map_err(|_| format!("field {name} has no type"))?;
        let size = u16_at(&bytes, offsets.field_size).cast_signed();
        let offset = u16_at(&bytes, offsets.field_offset);
        fields.insert(name, FieldAt { description, dbf, offset, size });
    }
    Ok(fields)
}

#[cfg(test)]
mod tests;
