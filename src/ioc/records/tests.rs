//! Tests of the walk over records, on images of an IOC's memory.

use super::*;
use crate::ioc::image::{FieldLine, Image, ROOM};
use crate::ioc::layout::states_of;
use crate::ioc::menus::menu;
use crate::linux::width::Width;
use iocrec_testing::chance::{fuzz, Random};
use proptest::prelude::*;

/// A name, its type, whether it is an alias, and its enum strings.
type Found = (String, String, bool, Vec<String>);

const RDES: u16 = 568;

struct Ioc {
    image: Image,
    pdbbase: u64,
    calc: usize,
    bo: usize,
    records: Vec<usize>,
}

/// Four records and an alias, which is defined before its record.
fn ioc(width: Width) -> Ioc {
    let mut image = Image::new(width);
    let common: [FieldLine; 3] =
        [("STAT", 12, 410, 2), ("PACT", 2, 505, 1), ("RDES", 17, RDES, width.bytes() as i16)];
    let with = |own: &[FieldLine<'static>]| common.iter().chain(own).copied().collect::<Vec<_>>();
    let (base, first) = image.base();
    let calc = image.record_type(first, "calc", &with(&[("VAL", 10, 688, 8)]));
    let bo = image.record_type(
        calc,
        "mbbo",
        &with(&[("VAL", 11, 688, 2), ("ZRST", 0, 700, 26), ("FFST", 0, 1090, 26)]),
    );
    let mut records = vec![image.record(calc, RDES, "T:A")];
    let alias = image.node(calc, records[0], Some("T:OTHER"));
    records.push(image.record(calc, RDES, "T:B"));
    records.push(image.record(bo, RDES, "T:C"));
    image.put(records[2] + 700, b"Closed");
    image.put(records[2] + 726, b"Open");
    records.push(image.record(bo, RDES, &"x".repeat(60)));
    let pdbbase = image.address(base);
    // precord of an alias leads to the record, its name elsewhere
    assert!(alias > 0);
    Ioc { image, pdbbase, calc, bo, records }
}

impl Ioc {
    fn walk(&self) -> (Vec<Found>, Result<(), WalkError>) {
        let memory = self.image.memory();
        let layout = Layout::read(&memory, self.pdbbase).unwrap();
        let mut found = Vec::new();
        let end =
            walk(&memory, &layout, &mut |r| found.push((r.name, r.rtype.name.clone(), r.alias, r.states)));
        (found, end)
    }

    fn claimed(&self) -> (u64, u64) {
        let memory = self.image.memory();
        Layout::read(&memory, self.pdbbase).unwrap().claimed(&memory).unwrap()
    }
}

#[test]
fn records_aliases_and_states_are_found() {
    for width in [Width::Bits64, Width::Bits32] {
        let ioc = ioc(width);
        let (found, end) = ioc.walk();
        assert_eq!(end, Ok(()));
        let line = |name: &str, rtype: &str, alias, states: &[&str]| {
            (name.to_string(), rtype.to_string(), alias, states.iter().map(ToString::to_string).collect())
        };
        let expected: Vec<Found> = vec![
            line("T:A", "calc", false, &[]),
            line("T:B", "calc", false, &[]),
            line("T:OTHER", "calc", true, &[]),
            line("T:C", "mbbo", false, &["Closed", "Open"]),
            line(&"x".repeat(60), "mbbo", false, &[]),
        ];
        assert_eq!(found, expected);
        assert_eq!(ioc.claimed().0, 5);
    }
}

/// `record("#", "T:B")` in a file that is loaded, and another record after it.
#[test]
fn a_record_in_place_of_one_that_was_deleted_is_noticed() {
    for width in [Width::Bits64, Width::Bits32] {
        let mut ioc = ioc(width);
        let before = ioc.claimed();
        // its node is the last of three
        ioc.image.put(ioc.calc + width.pick(28, 56), &2u32.to_ne_bytes());
        ioc.image.record(ioc.calc, RDES, "T:D");
        let names: Vec<String> = ioc.walk().0.into_iter().map(|found| found.0).collect();
        assert_eq!(names[..3], ["T:A", "T:D", "T:OTHER"]);
        let after = ioc.claimed();
        assert_eq!(after.0, before.0);
        assert_ne!(after.1, before.1);
    }
}

#[test]
fn a_record_that_is_none_is_left_out() {
    for width in [Width::Bits64, Width::Bits32] {
        let mut ioc = ioc(width);
        // RDES of another type; no name; no memory
        ioc.image.point(ioc.records[0] + usize::from(RDES), ioc.bo);
        ioc.image.put(ioc.records[1], &[0]);
        let node = ioc.image.node(ioc.bo, 0, None);
        ioc.image.put_pointer(node + width.pick(8, 16), 64);
        let (found, end) = ioc.walk();
        assert_eq!((found.len(), end), (2, Ok(())));
    }
}

#[test]
fn what_makes_no_sense_is_said_and_what_came_before_kept() {
    let mut ioc = ioc(Width::Bits64);
    let (list, count) = (ioc.calc + 40, ioc.calc + 56);
    let first = ioc.image.memory().pointer(ioc.image.address(list)).unwrap();
    ioc.image.put(count, &1_000_000u32.to_ne_bytes());
    let (found, end) = ioc.walk();
    assert_eq!(found.len(), 2, "both calc records");
    assert_eq!(end.unwrap_err().to_string(), "the list of calc records breaks off after 3 of 1000000");
    ioc.image.put(first as usize - ioc.image.address(0) as usize, &first.to_ne_bytes());
    assert_eq!(ioc.walk().1.unwrap_err().to_string(), "the list of calc records runs in a circle");
    ioc.image.put(count, &u32::MAX.to_ne_bytes());
    assert_eq!(ioc.walk().1.unwrap_err().to_string(), "the list of calc records claims to have 4294967295");
}

/// Memory that changes while it is read, or was never that of an IOC: the record types are read as well.
#[test]
fn images_that_were_changed() {
    let (mut read, mut refused, mut names) = (0_u64, 0_u64, 0_u64);
    fuzz(300, |random: &mut Random| {
        let mut ioc = ioc(if random.below(2) == 0 { Width::Bits64 } else { Width::Bits32 });
        let memory = ioc.image.memory();
        let used = ioc.image.used();
        let before = Layout::read(&memory, ioc.pdbbase).unwrap();
        ioc.image.change(random, 6);
        let layouts = match Layout::read(&memory, ioc.pdbbase) {
            Ok(after) => vec![before, after],
            Err(error) => {
                assert!(!error.to_string().is_empty());
                refused += 1;
                vec![before]
            }
        };
        for layout in &layouts {
            read += 1;
            let mut found = 0_usize;
            let end = walk(&memory, layout, &mut |record| {
                assert!(!record.name.is_empty() && record.name.len() < 1000);
                let _ = states_of(&memory, record.rtype, record.address);
                found += 1;
            });
            assert!(found <= MAX_NODES && end.err().is_none_or(|error| !error.to_string().is_empty()));
            names += found as u64;
            for record in &ioc.records {
                let _ = layout.type_of(&memory, ioc.image.address(*record));
                let _ = layout.state(&memory, ioc.image.address(*record));
                let _ = layout.field(&memory, ioc.image.address(random.below(used)));
                let _ = menu(&memory, layout, ioc.image.address(random.below(used)));
            }
            let _ = (layout.claimed(&memory), layout.compare(&memory), layout.routines(&memory).count());
        }
    });
    println!("{read} layouts read, {refused} refused, {names} names");
    assert!(std::env::var("FUZZ_SEED").is_ok() || (read > 100 && refused > 10 && names > 100));
}

proptest! {
    #[test]
    fn no_memory_content_panics_or_hangs(
        is_64bit in any::<bool>(),
        changes in prop::collection::vec((0..ROOM, any::<u64>()), 1..20),
        inside in any::<bool>(),
    ) {
        let mut ioc = ioc(if is_64bit { Width::Bits64 } else { Width::Bits32 });
        // the layout was read before the memory changed: record types stay where they are
        let memory = ioc.image.memory();
        let layout = Layout::read(&memory, ioc.pdbbase).unwrap();
        let used = ioc.image.used();
        for (at, word) in changes {
            let to = if inside { ioc.image.address(word as usize % used) } else { word };
            ioc.image.put_pointer(at % used / 8 * 8, to);
        }
        let mut found = 0usize;
        let _ = walk(&memory, &layout, &mut |record| {
            assert!(!record.name.is_empty());
            found += 1;
        });
        assert!(found <= MAX_NODES);
    }
}
