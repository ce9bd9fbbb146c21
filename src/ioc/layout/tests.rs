//! Tests of the walk over record types, on images of an IOC's memory of every version and pointer width.

use super::*;
use crate::ioc::image::{FieldLine, Image};
use proptest::prelude::*;

/// The relevant part of dbCommon of a group of versions (from their builds).
struct Common {
    width: Width,
    /// Highest number of a field type.
    highest: u32,
    stat: u16,
    pact: u16,
    rdes: u16,
    /// Offset at which the record type's own fields begin.
    own: u16,
}

const fn common(width: Width, highest: u32, stat: u16, pact: u16, rdes: u16, own: u16) -> Common {
    Common { width, highest, stat, pact, rdes, own }
}

use crate::ioc::menus::menu;
use crate::linux::width::Width::{self, Bits32, Bits64};
/// 3.14.12, 3.15, 3.16.2 to 7.0.5, 7.0.6 and later; then the same for 32-bit ARM; then i386, which does not align
/// doubles to 8 bytes, so that calc.VAL of 3.14 lies elsewhere.
const GROUPS: [Common; 9] = [
    common(Bits64, 15, 298, 313, 376, 464),
    common(Bits64, 15, 338, 353, 416, 504),
    common(Bits64, 17, 410, 425, 488, 600),
    common(Bits64, 17, 410, 505, 568, 688),
    common(Bits32, 15, 226, 241, 272, 328),
    common(Bits32, 15, 262, 277, 308, 360),
    common(Bits32, 17, 298, 313, 344, 408),
    common(Bits32, 17, 298, 393, 424, 496),
    common(Bits32, 15, 226, 241, 272, 324),
];
/// The newest.
const NEWEST: &Common = &GROUPS[3];

impl Common {
    fn with<'a>(&self, own: &[FieldLine<'a>]) -> Vec<FieldLine<'a>> {
        let status = if self.highest == 17 { 12 } else { 10 };
        let pointer = self.width.bytes() as i16;
        let common = [
            ("STAT", status, self.stat, 2),
            ("PACT", 2, self.pact, 1),
            ("RDES", self.highest, self.rdes, pointer),
        ];
        common.iter().chain(own).copied().collect()
    }

    /// Number of DOUBLE.
    fn double(&self) -> u32 {
        if self.highest == 17 {
            10
        } else {
            8
        }
    }
}

/// An IOC with four record types.
struct Ioc {
    image: Image,
    pdbbase: u64,
    ao: usize,
    waveform: usize,
    lso: usize,
    bo: usize,
}

fn ioc(common: &Common) -> Ioc {
    let mut image = Image::new(common.width);
    let pointer = common.width.bytes() as i16;
    let (own, none) = (common.own, common.highest);
    let (base, first) = image.base();
    let ao = image.record_type(first, "ao", &common.with(&[("VAL", common.double(), own, 8)]));
    let array = [
        ("VAL", none, own, 8),
        ("BPTR", none, own + 144, pointer),
        ("NORD", 6, own + 136, 4),
        ("FTVL", 12, own + 132, 2),
    ];
    let waveform = image.record_type(ao, "waveform", &common.with(&array));
    let text = [("VAL", none, own, pointer), ("SIZV", 4, own + 16, 2), ("LEN", 6, own + 24, 4)];
    let lso = image.record_type(waveform, "lso", &common.with(&text));
    let states = [("VAL", 11, own, 2), ("ZNAM", 0, own + 10, 26), ("ONAM", 0, own + 36, 26)];
    let bo = image.record_type(lso, "bo", &common.with(&states));
    let pdbbase = image.address(base);
    Ioc { image, pdbbase, ao, waveform, lso, bo }
}

impl Ioc {
    fn read(&self) -> Result<Layout, LayoutError> {
        Layout::read(&self.image.memory(), self.pdbbase)
    }
}

#[test]
fn offsets_come_from_the_ioc_whatever_its_version_and_width() {
    for common in &GROUPS {
        let ioc = ioc(common);
        let (layout, own) = (ioc.read().unwrap(), common.own);
        let type_at = |at| &layout.types[&ioc.image.address(at)];
        assert_eq!((layout.rdes, layout.stat, layout.pact), (common.rdes, common.stat, common.pact));
        assert_eq!(type_at(ioc.ao).form, Form::Scalar);
        assert_eq!(type_at(ioc.ao).value.as_ref().unwrap().offset, own);
        let form = Form::Array { pointer: own + 144, count: own + 136, element: own + 132 };
        assert_eq!(type_at(ioc.waveform).form, form);
        assert_eq!(type_at(ioc.lso).form, Form::LongString { pointer: own, length: own + 24 });
        assert_eq!(type_at(ioc.bo).states, Some((own + 10, 2)));
        assert_eq!(type_at(ioc.ao).states, None);
        let numbering = if common.highest == 15 { Numbering::Before3161 } else { Numbering::Since3161 };
        assert_eq!((layout.numbering, layout.types.len()), (numbering, 4));
    }
}

#[test]
fn menus_and_device_supports_are_read() {
    for common in &GROUPS {
        let mut ioc = ioc(common);
        let (menu_dbf, device_dbf) = if common.highest == 17 { (12, 13) } else { (10, 11) };
        let fields =
            common.with(&[("SCAN", menu_dbf, 132, 2), ("DTYP", device_dbf, 200, 2), ("DESC", 0, 61, 41)]);
        let rtype = ioc.image.record_type(ioc.bo, "ai", &fields);
        let scan = ioc.image.menu("menuScan", &["Passive", "Event", "I/O Intr"]);
        let supports = ioc.image.device_menu(&["Soft Channel", "Raw Soft Channel"]);
        let private = common.width.pick(44, 64);
        let at: Vec<usize> = (3..6).map(|index| ioc.image.field(rtype, index)).collect();
        ioc.image.point(at[0] + private, scan);
        ioc.image.point(at[1] + private, supports);
        let (layout, memory) = (ioc.read().unwrap(), ioc.image.memory());
        let menu_of = |at: usize| menu(&memory, &layout, ioc.image.address(at));
        let scan = menu_of(at[0]).unwrap();
        assert_eq!(
            (scan.name.as_str(), scan.choices),
            ("menuScan", vec!["Passive".into(), "Event".into(), "I/O Intr".into()])
        );
        let supports = menu_of(at[1]).unwrap();
        assert_eq!((supports.name.as_str(), supports.choices.len()), ("ai", 2));
        assert_eq!(menu_of(at[2]), None, "DESC has none");
    }
}

#[test]
fn texts_of_states_end_with_the_last() {
    let mut bytes = [0; 3 * STATE_BYTES];
    bytes[..3].copy_from_slice(b"Off");
    bytes[STATE_BYTES..STATE_BYTES + 26].copy_from_slice(&[b'x'; 26]);
    assert_eq!(state_texts(&bytes), ["Off".to_string(), "x".repeat(26)]);
    assert!(state_texts(&[0; 52]).is_empty());
}

#[test]
fn a_list_that_runs_in_a_circle_ends() {
    let mut ioc = ioc(NEWEST);
    ioc.image.point(ioc.bo, ioc.ao);
    assert_eq!(ioc.read().unwrap_err(), LayoutError::EndlessTypes(4));
}

#[test]
fn what_makes_no_sense_is_said() {
    let nowhere = Layout::read(&Memory::new(std::process::id()), 8);
    assert_eq!(nowhere.unwrap_err(), LayoutError::NoDatabase);
    let mut unregistered = ioc(NEWEST);
    unregistered.image.put(unregistered.ao + 184, &[0; 4]);
    assert_eq!(unregistered.read().unwrap_err(), LayoutError::NotRegistered);
    let mut many = ioc(NEWEST);
    many.image.put(many.ao + 120, &u16::MAX.to_ne_bytes());
    assert_eq!(many.read().unwrap_err(), LayoutError::FieldCount(65535));
    let empty = Image::new(Bits64);
    let error = Layout::read(&empty.memory(), empty.address(0)).unwrap_err();
    assert_eq!(error, LayoutError::NoCommon);
}

/// What an IOC that is ending holds is unknown; it is not nothing.
#[test]
fn lists_of_a_process_that_has_ended_claim_nothing() {
    let ioc = ioc(NEWEST);
    let layout = ioc.read().unwrap();
    assert_eq!(layout.claimed(&ioc.image.memory()), Some((0, 0)));
    let mut ended = std::process::Command::new("true").spawn().unwrap();
    ended.wait().unwrap();
    assert_eq!(layout.claimed(&Memory::new(ended.id())), None);
}

proptest! {
    #[test]
    fn no_memory_content_panics_or_hangs(
        group in 0..GROUPS.len(),
        changes in prop::collection::vec((0usize..100_000, any::<u64>()), 1..20),
        inside in any::<bool>(),
    ) {
        let mut ioc = ioc(&GROUPS[group]);
        let used = ioc.image.used();
        for (at, word) in changes {
            let to = if inside { ioc.image.address(word as usize % used) } else { word };
            ioc.image.put_pointer(at % used / 8 * 8, to);
        }
        let memory = ioc.image.memory();
        if let Ok(layout) = ioc.read() {
            layout.claimed(&memory);
            for index in 0..3 {
                menu(&memory, &layout, ioc.image.address(index * 8));
            }
        }
    }
}
