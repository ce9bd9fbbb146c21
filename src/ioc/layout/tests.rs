//! The walk over record types, on images of an IOC's memory laid out by hand in our own.

use super::*;
use proptest::prelude::*;

/// Memory of an IOC that never was: a block of our own whose pointers point into it.
struct Image {
    bytes: Vec<u8>,
    used: usize,
}

/// Room for the images below.
const ROOM: usize = 64 * 1024;

impl Image {
    fn new() -> Image {
        Image { bytes: vec![0; ROOM], used: 0 }
    }

    fn address(&self, at: usize) -> u64 {
        self.bytes.as_ptr() as u64 + at as u64
    }

    /// A block of zeroes; where it begins.
    fn room(&mut self, size: usize) -> usize {
        let at = self.used;
        self.used += size.next_multiple_of(8);
        at
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn point(&mut self, at: usize, to: usize) {
        let address = self.address(to);
        self.put(at, &address.to_ne_bytes());
    }

    fn string(&mut self, text: &str) -> usize {
        let at = self.room(text.len() + 1);
        self.put(at, text.as_bytes());
        at
    }

    /// A record type with fields (name, type, offset, size), behind the list's `last` node.
    fn record_type(&mut self, last: usize, name: &str, fields: &[(&str, u32, u16, i16)]) -> usize {
        let node = self.room(TYPE_BYTES);
        self.point(last, node);
        let name = self.string(name);
        self.point(node + TYPE_NAME, name);
        self.put(node + TYPE_FIELDS, &(fields.len() as u16).to_ne_bytes());
        self.put(node + TYPE_RECORD_SIZE, &1000u32.to_ne_bytes());
        let list = self.room(fields.len() * 8);
        self.point(node + TYPE_DESCRIPTIONS, list);
        for (index, (name, dbf, offset, size)) in fields.iter().enumerate() {
            let field = self.room(FIELD_BYTES);
            self.point(list + index * 8, field);
            let name = self.string(name);
            self.point(field + FIELD_NAME, name);
            self.point(field + FIELD_TYPE, node);
            self.put(field + FIELD_DBF, &dbf.to_ne_bytes());
            self.put(field + FIELD_SIZE, &size.to_ne_bytes());
            self.put(field + FIELD_OFFSET, &offset.to_ne_bytes());
        }
        node
    }

    fn read(&self) -> Result<Layout, String> {
        Layout::read(&Memory::new(std::process::id()), self.address(0))
    }
}

/// dbCommon as far as it matters, then the type's own fields.
fn with_common<'a>(highest: u32, own: &[(&'a str, u32, u16, i16)]) -> Vec<(&'a str, u32, u16, i16)> {
    let common = [("STAT", 12, 410, 2), ("PACT", 2, 505, 1), ("RDES", highest, 568, 8)];
    common.iter().chain(own).copied().collect()
}

/// pdbbase and three record types of Base 7.
fn image() -> (Image, [usize; 3]) {
    let mut image = Image::new();
    let base = image.room(64);
    let ao = image.record_type(base + BASE_TYPES as usize, "ao", &with_common(17, &[("VAL", 10, 688, 8)]));
    let array = [("VAL", 17, 688, 8), ("BPTR", 17, 832, 8), ("NORD", 6, 824, 4), ("FTVL", 12, 820, 2)];
    let waveform = image.record_type(ao, "waveform", &with_common(17, &array));
    let text = [("VAL", 17, 688, 8), ("SIZV", 4, 704, 2), ("LEN", 6, 712, 4)];
    let lso = image.record_type(waveform, "lso", &with_common(17, &text));
    (image, [ao, waveform, lso])
}

#[test]
fn offsets_come_from_the_ioc() {
    let (image, [ao, waveform, lso]) = image();
    let layout = image.read().unwrap();
    assert_eq!(layout.numbering, Numbering::Since3161);
    assert_eq!((layout.rdes, layout.stat, layout.pact), (568, 410, 505));
    assert_eq!(layout.types[&image.address(ao)].form, Form::Scalar);
    let form = Form::Array { pointer: 832, count: 824, element: 820 };
    assert_eq!(layout.types[&image.address(waveform)].form, form);
    assert_eq!(layout.types[&image.address(lso)].form, Form::LongString { pointer: 688, length: 712 });
    let told = layout.told(42, Fixed::BASE_3_15);
    assert_eq!(told.process[..4], 568u32.to_ne_bytes());
    assert_eq!(told.types.len(), 3);
}

#[test]
fn older_bases_number_their_types_differently() {
    let mut image = Image::new();
    let base = image.room(64);
    image.record_type(base + BASE_TYPES as usize, "ao", &with_common(15, &[("VAL", 8, 504, 8)]));
    let layout = image.read().unwrap();
    assert_eq!(layout.numbering, Numbering::Before3161);
    assert_eq!(layout.numbering.dbf(8), Some(Dbf::Double));
    assert_eq!(layout.numbering.dbf(6), Some(Dbf::ULong));
    assert_eq!(Numbering::Since3161.dbf(17), Some(Dbf::NoAccess));
    assert_eq!(Numbering::Since3161.dbf(18), None);
}

#[test]
fn a_list_that_runs_in_a_circle_ends() {
    let (mut image, [ao, _, lso]) = image();
    image.point(lso, ao);
    assert!(image.read().unwrap_err().contains("does not end"));
}

#[test]
fn what_makes_no_sense_is_said() {
    assert!(Layout::read(&Memory::new(std::process::id()), 8).unwrap_err().contains("points to nothing"));
    let (mut unregistered, [ao, ..]) = image();
    unregistered.put(ao + TYPE_RECORD_SIZE, &[0; 4]);
    assert!(unregistered.read().unwrap_err().contains("not registered yet"));
    let (mut many, [ao, ..]) = image();
    many.put(ao + TYPE_FIELDS, &u16::MAX.to_ne_bytes());
    assert!(many.read().unwrap_err().contains("65535 fields"));
    let empty = Image::new();
    assert!(empty.read().unwrap_err().contains("no record type"));
}

proptest! {
    #[test]
    fn no_memory_content_panics_or_hangs(
        changes in prop::collection::vec((0usize..6000, any::<u64>()), 1..20),
        inside in any::<bool>(),
    ) {
        let (mut image, _) = image();
        for (at, word) in changes {
            let word = if inside { image.address(word as usize % ROOM) } else { word };
            image.put(at / 8 * 8, &word.to_ne_bytes());
        }
        if let Ok(layout) = image.read() {
            layout.told(1, Fixed::BASE_3_14);
        }
    }
}
