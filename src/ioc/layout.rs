//! Where things lie in an IOC's records, read from the field descriptions in the IOC itself.
//!
//! EPICS Base describes every field of every record type to itself (dbFldDes: name, type, offset, size),
//! so what differs between versions of Base need not be known here. What must be known is how the
//! descriptions are linked together, and that has been the same from Base 3.14.12 to 7.0.10 (dbBase.h;
//! compared on 14 builds). Offsets below are for 64-bit processes.
//!
//! The walk is bounded, and believes nothing: what does not make sense ends it with a reason.

use std::collections::HashMap;

use iocrec_log::event::Dbf;

use super::memory::Memory;
use crate::kernel::Told;

/// dbBase.recordTypeList: ELLLIST, first node at its start.
const BASE_TYPES: u64 = 24;
/// dbRecordType: next node at 0, `name`, `no_fields` (short), `papFldDes`, `rec_size`.
const TYPE_NAME: usize = 112;
const TYPE_FIELDS: usize = 120;
const TYPE_DESCRIPTIONS: usize = 168;
const TYPE_RECORD_SIZE: usize = 184;
const TYPE_BYTES: usize = 192;
/// dbFldDes: `name`, `pdbRecordType`, `field_type`, `size`, `offset`.
const FIELD_NAME: usize = 8;
const FIELD_TYPE: usize = 24;
const FIELD_DBF: usize = 36;
const FIELD_SIZE: usize = 72;
const FIELD_OFFSET: usize = 74;
const FIELD_BYTES: usize = 80;

/// Field type numbers that all versions agree on.
const DBF_STRING: u16 = 0;
const DBF_CHAR: u16 = 1;

/// More record types than any IOC has: Base brings 35, the largest sites' IOCs load some hundred.
const MAX_TYPES: usize = 1000;
/// More fields than a record type can have (dbCommon 50, the largest of synApps some 700).
const MAX_FIELDS: usize = 2000;
/// Longest name of a record type or field.
const MAX_NAME: usize = 60;

/// How the field types of a process are numbered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbering {
    /// Before Base 3.16.1: without 64-bit integers.
    Before3161,
    /// Since then.
    Since3161,
}

impl Numbering {
    /// A field's or request's type.
    pub fn dbf(self, number: u16) -> Option<Dbf> {
        use Dbf::*;
        const ALL: [Dbf; 18] = [
            String, Char, UChar, Short, UShort, Long, ULong, Int64, UInt64, Float, Double, Enum, Menu,
            Device, InLink, OutLink, FwdLink, NoAccess,
        ];
        let shift = if self == Numbering::Before3161 && number >= 7 { 2 } else { 0 };
        ALL.get(usize::from(number) + shift).copied()
    }
}

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
    value: Option<FieldAt>,
    form: Form,
}

/// Where a record's value is. Offsets in the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// Nowhere that would mean something (fanout, aSub ...).
    None,
    /// In VAL, up to 8 bytes.
    Scalar,
    /// In VAL, 40 bytes.
    String,
    /// Behind a pointer: BPTR, with NORD elements of type FTVL.
    Array { pointer: u16, count: u16, element: u16 },
    /// Behind a pointer: VAL, with LEN bytes (lsi, lso, printf).
    LongString { pointer: u16, length: u16 },
}

/// What an IOC's fields look like.
#[derive(Clone, Debug)]
pub struct Layout {
    /// Field type numbers.
    pub numbering: Numbering,
    /// Record types by the address of their dbRecordType.
    pub types: HashMap<u64, TypeLayout>,
    /// RDES in dbCommon.
    pub rdes: u16,
    stat: u16,
    pact: u16,
}

/// Offsets in structures that describe themselves nowhere, by version of Base.
#[derive(Clone, Copy, Debug)]
pub struct Fixed {
    /// In processNotify (3.14: putNotify): the dbChannel (3.14: DBADDR).
    pub notify_channel: u32,
    /// In dbChannel: the DBADDR; 0 in 3.14.
    pub channel_address: u32,
}

impl Fixed {
    /// For 3.14, which has no dbChannel.
    pub const BASE_3_14: Fixed = Fixed { notify_channel: 32, channel_address: 0 };
    /// For 3.15 and later.
    pub const BASE_3_15: Fixed = Fixed { notify_channel: 48, channel_address: 8 };
}

impl Layout {
    /// Reads the record types from `pdbbase`, the address that the variable of that name holds.
    ///
    /// # Errors
    /// What did not make sense, in words.
    pub fn read(memory: &Memory, pdbbase: u64) -> Result<Layout, String> {
        let mut common = None;
        let mut highest = 0;
        let mut types = HashMap::new();
        let mut node = memory.pointer(pdbbase + BASE_TYPES).ok_or("pdbbase points to nothing")?;
        while node != 0 {
            if types.len() >= MAX_TYPES || types.contains_key(&node) {
                return Err(format!("the list of record types does not end (after {})", types.len()));
            }
            let bytes: [u8; TYPE_BYTES] = memory.bytes(node).ok_or("a record type could not be read")?;
            let next = u64_at(&bytes, 0);
            let fields = fields(memory, node, &bytes)?;
            let name =
                memory.string(u64_at(&bytes, TYPE_NAME), MAX_NAME).ok_or("a record type has no name")?;
            if u32_at(&bytes, TYPE_RECORD_SIZE) == 0 {
                return Err("its record types are not registered yet".into());
            }
            highest = fields.values().map(|field| field.dbf).max().unwrap_or(0).max(highest);
            let offset = |name: &str| fields.get(name).map(|field| field.offset);
            common = common.or_else(|| Some((offset("RDES")?, offset("STAT")?, offset("PACT")?)));
            let form = form(&fields);
            let value = fields.get("VAL").cloned();
            types.insert(node, TypeLayout { address: node, name, value, form });
            node = next;
        }
        let (rdes, stat, pact) = common.ok_or("no record type describes RDES, STAT and PACT")?;
        let numbering = match highest {
            15 => Numbering::Before3161,
            17 => Numbering::Since3161,
            other => return Err(format!("field types end at {other}, not 15 or 17")),
        };
        Ok(Layout { numbering, types, rdes, stat, pact })
    }

    /// The record type of a record, from its RDES.
    pub fn type_of(&self, memory: &Memory, record: u64) -> Option<&TypeLayout> {
        self.types.get(&memory.pointer(record.checked_add(self.rdes.into())?)?)
    }

    /// A field description by its address: record type, name, type.
    pub fn field(&self, memory: &Memory, description: u64) -> Option<(String, String, Dbf)> {
        let bytes: [u8; FIELD_BYTES] = memory.bytes(description)?;
        let rtype = self.types.get(&u64_at(&bytes, FIELD_TYPE))?;
        let name = memory.string(u64_at(&bytes, FIELD_NAME), MAX_NAME)?;
        let dbf = self.numbering.dbf(u16::try_from(u32_at(&bytes, FIELD_DBF)).ok()?)?;
        Some((rtype.name.clone(), name, dbf))
    }

    /// All this as the BPF programs want it (bpf/hits.h).
    pub fn told(&self, pid: u32, fixed: Fixed) -> Told {
        const NO_OFFSET: u32 = u32::MAX;
        let old = self.numbering == Numbering::Before3161;
        // struct link: before 3.16.1 it has no record and begins with its value (link.h)
        let (link_record, link_pvname) = if old { (NO_OFFSET, 0) } else { (0, 48) };
        let process = words([
            self.rdes.into(),
            self.stat.into(),
            self.pact.into(),
            fixed.notify_channel,
            fixed.channel_address,
            link_record,
            link_pvname,
            u32::from(old),
        ]);
        let types = self.types.values().map(|rtype| {
            let mut key = [0; 16];
            key[..8].copy_from_slice(&rtype.address.to_ne_bytes());
            key[8..].copy_from_slice(&u64::from(pid).to_ne_bytes());
            (key, rtype.told(self.numbering))
        });
        Told { process, types: types.collect() }
    }
}

impl TypeLayout {
    /// `struct value_layout`.
    fn told(&self, numbering: Numbering) -> [u8; 32] {
        let field = self.value.as_ref().map_or(0, |value| value.description);
        let low = field as u32;
        let high = (field >> 32) as u32;
        let scalar = self.value.as_ref().map_or((0, 0), |value| (value.offset.into(), value.dbf));
        let (form, value, nord, ftvl, dbf) = match self.form {
            Form::None => (0, 0, 0, 0, 0),
            // a link or a pointer is no value
            Form::Scalar if numbering.dbf(scalar.1).is_none_or(|dbf| dbf >= Dbf::InLink) => (0, 0, 0, 0, 0),
            Form::Scalar => (1, scalar.0, 0, 0, scalar.1),
            Form::String => (2, scalar.0, 0, 0, scalar.1),
            Form::Array { pointer, count, element } => (3, pointer.into(), count.into(), element.into(), 0),
            Form::LongString { pointer, length } => (4, pointer.into(), length.into(), 0, DBF_CHAR),
        };
        if cfg!(target_endian = "big") {
            words([high, low, form, value, nord, ftvl, dbf.into(), 0])
        } else {
            words([low, high, form, value, nord, ftvl, dbf.into(), 0])
        }
    }
}

/// Which form a record type's value has.
fn form(fields: &HashMap<String, FieldAt>) -> Form {
    let offset = |name: &str| fields.get(name).map(|field| field.offset);
    let Some(value) = fields.get("VAL") else { return Form::None };
    if let (Some(pointer), Some(count), Some(element)) = (offset("BPTR"), offset("NORD"), offset("FTVL")) {
        return Form::Array { pointer, count, element };
    }
    // a long string's VAL is no field of a type of its own but a pointer, SIZV its room
    if let (Some(length), Some(_), 8) = (offset("LEN"), offset("SIZV"), value.size) {
        return Form::LongString { pointer: value.offset, length };
    }
    match value.size {
        1..=8 => Form::Scalar,
        40.. if value.dbf == DBF_STRING => Form::String,
        _ => Form::None,
    }
}

fn words(words: [u32; 8]) -> [u8; 32] {
    let mut bytes = [0; 32];
    for (into, word) in bytes.chunks_exact_mut(4).zip(words) {
        into.copy_from_slice(&word.to_ne_bytes());
    }
    bytes
}

/// The fields of a record type by name.
fn fields(memory: &Memory, node: u64, rtype: &[u8; TYPE_BYTES]) -> Result<HashMap<String, FieldAt>, String> {
    let count = usize::from(u16_at(rtype, TYPE_FIELDS));
    if count == 0 || count > MAX_FIELDS {
        return Err(format!("a record type claims {count} fields"));
    }
    let mut pointers = vec![0; count * 8];
    if !memory.read(u64_at(rtype, TYPE_DESCRIPTIONS), &mut pointers) {
        return Err("a record type's fields could not be read".into());
    }
    let mut fields = HashMap::with_capacity(count);
    for pointer in pointers.chunks_exact(8) {
        let description = u64_at(pointer, 0);
        let bytes: [u8; FIELD_BYTES] = memory.bytes(description).ok_or("a field could not be read")?;
        if u64_at(&bytes, FIELD_TYPE) != node {
            return Err("a field does not belong to its record type".into());
        }
        let name = memory.string(u64_at(&bytes, FIELD_NAME), MAX_NAME).ok_or("a field has no name")?;
        let dbf =
            u16::try_from(u32_at(&bytes, FIELD_DBF)).map_err(|_| format!("field {name} has no type"))?;
        let size = i16::from_ne_bytes([bytes[FIELD_SIZE], bytes[FIELD_SIZE + 1]]);
        let offset = u16_at(&bytes, FIELD_OFFSET);
        fields.insert(name, FieldAt { description, dbf, offset, size });
    }
    Ok(fields)
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..at + 2).and_then(|b| b.try_into().ok()).map_or(0, u16::from_ne_bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|b| b.try_into().ok()).map_or(0, u32::from_ne_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_ne_bytes)
}

#[cfg(test)]
mod tests;
