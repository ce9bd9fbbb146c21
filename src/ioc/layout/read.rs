//! Reads the record types of an IOC. The walk is bounded and ends at the first implausible value.

use std::collections::HashMap;

use epics::dbf::{Dbf, Numbering};

use crate::ioc::layout::error::LayoutError;
use crate::ioc::layout::{FieldAt, Form, Layout, Scanning, Shown, TypeLayout, MAX_NAME, STATE_BYTES};
use crate::ioc::offsets::Database;
use crate::linux::memory::Memory;
use crate::linux::width::{u16_at, u32_at, Width};

/// More record types than any IOC has: Base brings 35, the largest sites' IOCs load some hundred.
const MAX_TYPES: usize = 1000;
/// More fields than a record type can have (dbCommon 50, the largest of synApps some 700).
const MAX_FIELDS: usize = 2000;
/// DBF_STRING, the same number in all versions.
const DBF_STRING: u16 = 0;
/// Range of the numbers of links, in any version.
const DBF_LINKS: std::ops::RangeInclusive<u16> = 12..=16;
/// Size of a string field, bytes.
const STRING_BYTES: u32 = epics::limits::MAX_STRING_SIZE as u32;

impl Layout {
    /// Reads all record types of the dbBase at this address, the value of `pdbbase`.
    ///
    /// # Errors
    /// Something is implausible, or the database is not completely loaded.
    pub fn read(memory: &Memory, base: u64) -> Result<Layout, LayoutError> {
        let mut common = None;
        let mut scanning = None;
        let mut last_dbf = 0;
        let mut types = HashMap::new();
        let offsets = Database::of(memory.width());
        let list = base.wrapping_add(offsets.base_types);
        let first = memory.pointer(list).ok_or(LayoutError::NoDatabase)?;
        let mut node = first;
        while node != 0 {
            if types.len() >= MAX_TYPES || types.contains_key(&node) {
                return Err(LayoutError::EndlessTypes(types.len()));
            }
            let bytes = memory.head(node, offsets.type_bytes).ok_or(LayoutError::Type)?;
            let pointer = |at| memory.width().pointer(&bytes, at);
            let next = pointer(0);
            let fields = fields(memory, node, &bytes)?;
            let name = memory.string(pointer(offsets.type_name), MAX_NAME).ok_or(LayoutError::UnnamedType)?;
            let record_bytes = u32_at(&bytes, offsets.type_record_size);
            if record_bytes == 0 {
                return Err(LayoutError::NotRegistered);
            }
            last_dbf = fields.values().map(|field| field.dbf).max().unwrap_or(0).max(last_dbf);
            let offset = |name: &str| fields.get(name).map(|field| field.offset);
            common = common.or_else(|| Some((offset("RDES")?, offset("STAT")?, offset("PACT")?)));
            scanning = scanning.or_else(|| scanning_of(&fields));
            let address = |name: &str| fields.get(name).map(|field| field.description);
            let links = fields.values().filter(|field| DBF_LINKS.contains(&field.dbf));
            let mut links: Vec<FieldAt> = links.cloned().collect();
            links.sort_by_key(|link| link.offset);
            let form = form(&fields, record_bytes, memory.width());
            let inside = |name: &str, size: i16| {
                let field = fields.get(name).filter(|field| field.size == size)?;
                let end = u32::from(field.offset) + u32::from(size.unsigned_abs());
                (end <= record_bytes).then(|| field.clone())
            };
            let rtype = TypeLayout {
                address: node,
                name,
                value: fields.get("VAL").cloned(),
                form,
                record_bytes,
                links: links.into(),
                common_inputs: address("SDIS").zip(address("TSEL")),
                device: inside("DTYP", 2).filter(|field| {
                    let supports = field.description.wrapping_add(offsets.field_private as u64);
                    memory.pointer(supports).is_some_and(|supports| supports != 0)
                }),
                capacity: inside("NELM", 4).filter(|_| matches!(form, Form::Array { .. })),
                acknowledge: address("ACKT").zip(address("ACKS")),
                states: states(&fields),
                shown: Shown::of(&fields, record_bytes),
            };
            types.insert(node, rtype);
            node = next;
        }
        let (rdes, stat, pact) = common.ok_or(LayoutError::NoCommon)?;
        let numbering = numbering(last_dbf).ok_or(LayoutError::Numbering(last_dbf))?;
        Ok(Layout { numbering, types, base, first, rdes, stat, pact, scanning })
    }
}

/// The numbering whose last type, NOACCESS, has this number.
fn numbering(last: u16) -> Option<Numbering> {
    let mut all = [Numbering::Before3161, Numbering::Since3161].into_iter();
    all.find(|numbering| numbering.dbf(last) == Some(Dbf::NoAccess))
}

/// The fields of a record type by name.
fn fields(
    memory: &Memory,
    node: u64,
    rtype: &[u8; Database::MAX_BYTES],
) -> Result<HashMap<String, FieldAt>, LayoutError> {
    let (offsets, width) = (Database::of(memory.width()), memory.width());
    let count = usize::from(u16_at(rtype, offsets.type_fields));
    if count == 0 || count > MAX_FIELDS {
        return Err(LayoutError::FieldCount(count));
    }
    let mut pointers = vec![0; count * width.bytes()];
    if !memory.read(width.pointer(rtype, offsets.type_descriptions), &mut pointers) {
        return Err(LayoutError::Fields);
    }
    let mut fields = HashMap::with_capacity(count);
    for pointer in pointers.chunks_exact(width.bytes()) {
        let description = width.pointer(pointer, 0);
        let bytes: [u8; Database::MAX_BYTES] =
            memory.head(description, offsets.field_bytes).ok_or(LayoutError::Field)?;
        if width.pointer(&bytes, offsets.field_type) != node {
            return Err(LayoutError::ForeignField);
        }
        let name = memory.string(width.pointer(&bytes, offsets.field_name), MAX_NAME);
        let name = name.ok_or(LayoutError::UnnamedField)?;
        let Ok(dbf) = u16::try_from(u32_at(&bytes, offsets.field_dbf)) else {
            return Err(LayoutError::FieldType(name));
        };
        let size = u16_at(&bytes, offsets.field_size).cast_signed();
        let offset = u16_at(&bytes, offsets.field_offset);
        fields.insert(name, FieldAt { description, dbf, offset, size });
    }
    Ok(fields)
}

/// Location of the value of a record type.
fn form(fields: &HashMap<String, FieldAt>, record_bytes: u32, width: Width) -> Form {
    let offset = |name: &str| fields.get(name).map(|field| field.offset);
    let Some(value) = fields.get("VAL") else { return Form::None };
    if let (Some(pointer), Some(count), Some(element)) = (offset("BPTR"), offset("NORD"), offset("FTVL")) {
        return Form::Array { pointer, count, element };
    }
    // VAL of a long string is a pointer, and SIZV the size of the buffer behind it
    let is_pointer = usize::try_from(value.size) == Ok(width.bytes());
    if let (Some(length), Some(_), true) = (offset("LEN"), offset("SIZV"), is_pointer) {
        return Form::LongString { pointer: value.offset, length };
    }
    match value.size {
        1..=8 => Form::Scalar,
        // A shorter text (state has 20 bytes) ends within its field, and what lies behind that is the record's, too.
        _ if value.dbf == DBF_STRING && u32::from(value.offset) + STRING_BYTES <= record_bytes => {
            Form::String
        }
        _ => Form::None,
    }
}

/// The enum strings of a record type, which lie one after the other: bi, bo, mbbi, mbbo, and types from elsewhere that
/// imitate them (synApps' busy).
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

/// The fields of dbCommon that decide when a record is processed.
fn scanning_of(fields: &HashMap<String, FieldAt>) -> Option<Scanning> {
    let offset = |name: &str| fields.get(name).map(|field| field.offset);
    Some(Scanning {
        scan: fields.get("SCAN").filter(|scan| scan.size == 2)?.clone(),
        spvt: offset("SPVT")?,
        evnt: offset("EVNT")?,
        disa: offset("DISA")?,
        disv: offset("DISV")?,
    })
}
