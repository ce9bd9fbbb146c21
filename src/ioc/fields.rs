//! The value of a record's field, read from an IOC's memory.
//!
//! Numbers and strings lie in the record at the offset that the field's description gives. Arrays and long strings lie
//! behind a pointer, with their length beside it. A link is a structure whose text EPICS Base assembles from parts
//! (dbStaticLib.c, dbGetString); this module does the same, so that the text reads as caget shows it.
//!
//! No lock is taken, so a value may be half written: the caller must wait until the IOC has finished with it. Every
//! read is bounded by [`MAX_BYTES`].

use iocrec_log::event::{Array, Dbf, Value};
use iocrec_log::value::{element, until_nul};

use crate::ioc::layout::{Form, Layout, TypeLayout};
use crate::ioc::offsets::Link;
use crate::linux::memory::Memory;
use crate::linux::width::{u16_at, Width};

/// Most bytes read from a value: as many as are kept of a message's value (ca::session), so that the requested value
/// can be compared with the field's.
pub const MAX_BYTES: usize = 4096;
/// Longest text of a link, with the name of the PV and its filters.
const MAX_LINK: usize = 1024;

/// Kinds of links (link.h), numbered the same in all versions.
const CONSTANT: u16 = 0;
const PV_LINK: u16 = 1;
const JSON_LINK: u16 = 8;
const DB_LINK: u16 = 10;
const CA_LINK: u16 = 11;
const INST_IO: u16 = 12;

/// Returns a record's input links that process it when their sources change (CP, CPP): address of the field's
/// description, and the link's text.
pub fn cp_links(memory: &Memory, layout: &Layout, record: u64) -> Vec<(u64, Value)> {
    let Some(rtype) = layout.type_of(memory, record) else { return Vec::new() };
    let inputs = rtype.inputs(layout.numbering).map(|input| input.description);
    let links = inputs.map(|input| (input, read(memory, layout, record, input)));
    links.filter(|(_, link)| matches!(link, Value::Text(text) if is_cp(text))).collect()
}

/// Reads the field of a record that has this description; [`Value::Unknown`] if that is impossible.
pub fn read(memory: &Memory, layout: &Layout, record: u64, description: u64) -> Value {
    value(memory, layout, record, description).unwrap_or(Value::Unknown)
}

fn value(memory: &Memory, layout: &Layout, record: u64, description: u64) -> Option<Value> {
    let (rtype, field) = layout.described(memory, description)?;
    // if the type has changed, another record is now at this address
    if layout.type_of(memory, record)?.address != rtype.address {
        return None;
    }
    let dbf = layout.numbering.dbf(field.dbf)?;
    let at = record.checked_add(field.offset.into())?;
    if rtype.is_value(description) {
        if let Some(read) = behind_a_pointer(memory, layout, rtype, record) {
            return read;
        }
    }
    match dbf {
        Dbf::InLink | Dbf::OutLink | Dbf::FwdLink => link(memory, layout, at, dbf),
        Dbf::NoAccess => None,
        Dbf::String => {
            let mut bytes = vec![0; usize::try_from(field.size).ok().filter(|size| *size <= MAX_BYTES)?];
            memory.read(at, &mut bytes).then(|| Value::Text(until_nul(&bytes).to_vec()))
        }
        _ => {
            let mut bytes = [0; 8];
            let bytes = bytes.get_mut(..dbf.size())?;
            memory.read(at, bytes).then(|| element(dbf, &little_endian(bytes, dbf.size()))).flatten()
        }
    }
}

/// The value of an array or of a long string; `None` if the type's value is neither.
fn behind_a_pointer(
    memory: &Memory,
    layout: &Layout,
    rtype: &TypeLayout,
    record: u64,
) -> Option<Option<Value>> {
    let read = |pointer: u16, dbf: Dbf, count: u32| {
        let whole = (count as usize).min(MAX_BYTES / dbf.size()) * dbf.size();
        let mut bytes = vec![0; whole];
        let from = memory.pointer(record.checked_add(pointer.into())?)?;
        memory.read(from, &mut bytes).then_some(bytes)
    };
    let number = |offset: u16| memory.bytes::<4>(record.checked_add(offset.into())?).map(u32::from_ne_bytes);
    match rtype.form() {
        Form::Array { pointer, count, element } => Some((|| {
            let count = number(count)?;
            let ftvl = memory.bytes::<2>(record.checked_add(element.into())?).map(u16::from_ne_bytes)?;
            let dbf = layout.numbering.dbf(ftvl).filter(|dbf| dbf.holds_value())?;
            let bytes = little_endian(&read(pointer, dbf, count)?, dbf.size());
            Some(Value::Array(Array { dbf, count, bytes }))
        })()),
        Form::LongString { pointer, length } => Some((|| {
            let count = number(length)?;
            Some(long_string(&read(pointer, Dbf::Char, count)?, count))
        })()),
        _ => None,
    }
}

/// The value of a long string of `count` bytes, of which these were read: a text, or an array if it was cut.
pub(super) fn long_string(bytes: &[u8], count: u32) -> Value {
    if bytes.len() == count as usize || bytes.contains(&0) {
        return Value::Text(until_nul(bytes).to_vec());
    }
    Value::Array(Array { dbf: Dbf::Char, count, bytes: bytes.to_vec() })
}

/// Text of a link.
fn link(memory: &Memory, layout: &Layout, at: u64, dbf: Dbf) -> Option<Value> {
    let offsets = Link::of(memory.width(), layout.numbering);
    let bytes: [u8; Link::MAX_BYTES] = memory.head(at, offsets.bytes)?;
    let LinkParts { kind, mask, from } = LinkParts::of(memory.width(), &offsets, &bytes)?;
    let text = from.map_or(Some(Vec::new()), |from| string(memory, from));
    link_text(text?, kind, mask, dbf)
}

/// The parts of a link that its text is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LinkParts {
    pub kind: u16,
    pub mask: u16,
    /// Address of its name or text; `None` if it has none.
    pub from: Option<u64>,
}

impl LinkParts {
    /// The parts of the link with these bytes; `None` if there are too few.
    pub(super) fn of(width: Width, offsets: &Link, bytes: &[u8]) -> Option<LinkParts> {
        let bytes = bytes.get(..offsets.bytes)?;
        let pointer = |offset| Some(width.pointer(bytes, offset)).filter(|pointer| *pointer != 0);
        let kind = u16_at(bytes, offsets.kind);
        let from = match kind {
            CONSTANT => pointer(offsets.value).or(offsets.text.and_then(pointer)),
            PV_LINK | DB_LINK | CA_LINK => pointer(offsets.pv),
            JSON_LINK | INST_IO => pointer(offsets.value),
            _ => None,
        };
        let flags = offsets.flags.map_or(0, |at| u16_at(bytes, at));
        let is_time = if flags & FLAG_IS_TIME != 0 { IS_TIME } else { 0 };
        Some(LinkParts { kind, mask: u16_at(bytes, offsets.mask) | is_time, from })
    }

    /// Whether it leads over Channel Access.
    pub(super) fn is_ca(self) -> bool {
        self.kind == CA_LINK
    }

    /// Whether it names no source.
    pub(super) fn is_constant(self) -> bool {
        self.kind == CONSTANT
    }
}

/// Returns a link's text before the change, from the bytes of its name or text that a probe has read. Truncated text is
/// recognized by its length.
pub fn old_link(bytes: &[u8], (kind, mask): (u16, u16), dbf: Dbf) -> Value {
    let text = until_nul(bytes);
    if bytes.is_empty() || text.len() == bytes.len() && bytes.len() < Dbf::String.size() {
        return Value::Unknown;
    }
    if text.len() == bytes.len() {
        return Value::Text(text.to_vec());
    }
    link_text(text.to_vec(), kind, mask, dbf).unwrap_or(Value::Unknown)
}

/// Assembles a link's text from its name or text, as dbGetString does. `None` for hardware addresses, which cannot
/// change while the IOC runs.
pub(super) fn link_text(mut text: Vec<u8>, kind: u16, mask: u16, dbf: Dbf) -> Option<Value> {
    match kind {
        CONSTANT | JSON_LINK => {}
        INST_IO => text.insert(0, b'@'),
        PV_LINK | DB_LINK | CA_LINK => {
            if mask & IS_TIME != 0 {
                text.extend(b".TIME");
            }
            text.extend(modifiers(mask, dbf).bytes());
        }
        _ => return None,
    }
    Some(Value::Text(text))
}

/// In `pvlMask`: TSEL names the `.TIME` of a record, which dbInitLink has taken off the name (link.h, pvlOptTSELisTime).
const IS_TIME: u16 = 0x800;
/// The same among the flags of a link, where Base 7.0 has it (link.h, DBLINK_FLAG_TSELisTIME).
const FLAG_IS_TIME: u16 = 2;

/// Modifiers after the name in a link, from its `pvlMask` (link.h).
fn modifiers(mask: u16, dbf: Dbf) -> String {
    let process = match mask {
        mask if mask & 4 != 0 => " PP",
        mask if mask & 8 != 0 => " CA",
        mask if mask & 0x10 != 0 => " CP",
        mask if mask & 0x20 != 0 => " CPP",
        _ => " NPP",
    };
    if dbf == Dbf::FwdLink {
        return if process == " CA" { process.into() } else { String::new() };
    }
    let severity = [" NMS", " MS", " MSI", " MSS"];
    format!("{process}{}", severity.get(usize::from(mask & 3)).copied().unwrap_or_default())
}

/// Whether this link processes its record when its source changes (CP, CPP).
fn is_cp(link: &[u8]) -> bool {
    link.split(|byte| *byte == b' ').skip(1).any(|word| word == b"CP" || word == b"CPP")
}

/// A string up to its NUL, which must be there.
pub(super) fn string(memory: &Memory, from: u64) -> Option<Vec<u8>> {
    let mut bytes = vec![0; MAX_LINK];
    let mut have = memory.read_some(from, &mut bytes);
    if have == 0 {
        // a read across the end of a mapping may fail entirely: then read up to the end of the page
        let page = 4096 - (from as usize & 4095);
        have = memory.read_some(from, bytes.get_mut(..page.min(MAX_LINK))?);
    }
    let text = bytes.get(..have)?;
    text.contains(&0).then(|| until_nul(text).to_vec())
}

/// Elements of `size` in the log's byte order.
pub(super) fn little_endian(bytes: &[u8], size: usize) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    if cfg!(target_endian = "big") && matches!(size, 2 | 4 | 8) {
        bytes.chunks_exact_mut(size).for_each(<[u8]>::reverse);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ioc::image::{FieldLine, Image};
    use crate::linux::width::Width;

    #[test]
    fn links_read_as_caget_shows_them() {
        assert_eq!(modifiers(0, Dbf::InLink), " NPP NMS");
        assert_eq!(modifiers(4 | 1, Dbf::OutLink), " PP MS");
        assert_eq!(modifiers(0x20 | 3, Dbf::InLink), " CPP MSS");
        assert_eq!(modifiers(4, Dbf::FwdLink), "");
        assert_eq!(modifiers(8, Dbf::FwdLink), " CA");
        let old = |bytes: &[u8], kind| old_link(bytes, (kind, 4), Dbf::OutLink);
        let text = |text: &[u8]| Value::Text(text.to_vec());
        assert_eq!(old(b"A:B\0rest", DB_LINK), text(b"A:B PP NMS"));
        assert_eq!((old(b"\0", CONSTANT), old(b"5\0", CONSTANT)), (text(b""), text(b"5")));
        assert_eq!(old(&[b'x'; 40], CA_LINK), text(&[b'x'; 40]), "cut");
        assert_eq!((old(b"", DB_LINK), old(b"12345678", DB_LINK)), (Value::Unknown, Value::Unknown));
        assert_eq!(old(b"1\0", 2), Value::Unknown, "VME");
        let time = |kind| old_link(b"A:B\0", (kind, IS_TIME), Dbf::InLink);
        assert_eq!((time(DB_LINK), time(CONSTANT)), (text(b"A:B.TIME NPP NMS"), text(b"A:B")));
        assert!(is_cp(b"A:B CP NMS") && is_cp(b"A:B CPP NMS") && !is_cp(b"CP NPP NMS"));
    }

    /// A record for each generation of Base and pointer width: a number, texts, an array, links.
    #[test]
    fn fields_of_every_generation() {
        // highest field type number, RDES; then in a link: its kind, name, mask, bytes
        let since = |width: Width| [4, 24, 36, 40].map(|at| at * width.bytes() / 4);
        let generations = [
            (Width::Bits64, 15, 416, [40, 0, 32, 56]),
            (Width::Bits32, 15, 308, [20, 0, 16, 28]),
            (Width::Bits64, 17, 568, [8, 48, 72, 80]),
            (Width::Bits32, 17, 424, since(Width::Bits32)),
        ];
        for (width, highest, rdes, [kind, name, mask, bytes]) in generations {
            let mut image = Image::new(width);
            let pointer = width.bytes() as i16;
            let since_3161 = highest == 17;
            let (menu, input) = if since_3161 { (12, 14) } else { (10, 12) };
            let fields: [FieldLine; 11] = [
                ("STAT", menu, 300, 2),
                ("PACT", 2, 302, 1),
                ("RDES", highest, rdes, pointer),
                ("DESC", 0, 61, 41),
                ("VAL", highest, 700, pointer),
                ("BPTR", highest, 704, pointer),
                ("NORD", 6, 712, 4),
                ("FTVL", menu, 716, 2),
                ("INP", input, 720, bytes as i16),
                ("OUT", input + 1, 800, bytes as i16),
                ("PREC", 3, 880, 2),
            ];
            let (base, first) = image.base();
            let rtype = image.record_type(first, "sort", &fields);
            let record = image.record(rtype, rdes, "A:B");
            image.put(record + 61, b"what it is\0rest");
            image.put(record + 880, &(-3i16).to_ne_bytes());
            image.put(record + 712, &3u32.to_ne_bytes());
            image.put(record + 716, &3u16.to_ne_bytes());
            let array = image.room(8);
            image.put(array, &[1i16, -2, 3].map(i16::to_ne_bytes).concat());
            image.point(record + 704, array);
            image.put(record + 720 + kind, &CA_LINK.to_ne_bytes());
            image.put(record + 720 + mask, &(0x10u16 | 1).to_ne_bytes());
            image.point_to_string(record + 720 + name, "C:D.E");
            // OUT stays as it is: a constant without a text
            let memory = image.memory();
            let layout = Layout::read(&memory, image.address(base)).unwrap();
            let places: Vec<u64> =
                (0..fields.len()).map(|index| image.address(image.field(rtype, index))).collect();
            let at = |index: usize| places[index];
            let address = image.address(record);
            let read = |index| read(&memory, &layout, address, at(index));
            let text = |text: &str| Value::Text(text.as_bytes().to_vec());
            assert_eq!(read(3), text("what it is"), "{width:?} {highest}");
            assert_eq!(read(10), Value::Int(-3));
            let bytes = [1i16, -2, 3].map(i16::to_le_bytes).concat();
            assert_eq!(read(4), Value::Array(Array { dbf: Dbf::Short, count: 3, bytes }));
            assert_eq!((read(8), read(9)), (text("C:D.E CP MS"), text("")), "{width:?} {highest}");
            assert_eq!(
                cp_links(&memory, &layout, address),
                [(at(8), text("C:D.E CP MS"))],
                "{width:?} {highest}"
            );
            // another record, or none, is there now
            image.put_pointer(record + usize::from(rdes), 8);
            assert_eq!(super::read(&memory, &layout, address, at(3)), Value::Unknown);
            assert_eq!(super::read(&memory, &layout, 8, at(3)), Value::Unknown);
        }
    }

    #[test]
    fn a_string_without_an_end_is_none() {
        let memory = Memory::new(std::process::id());
        let (text, endless) = (b"T:SP\0rest", [b'x'; 2 * MAX_LINK]);
        assert_eq!(string(&memory, text.as_ptr() as u64), Some(b"T:SP".to_vec()));
        assert_eq!(string(&memory, endless.as_ptr() as u64), None);
        assert_eq!(string(&memory, 8), None);
    }
}
