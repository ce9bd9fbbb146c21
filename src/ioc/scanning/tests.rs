//! Tests of scan lists, on images of an IOC's memory.

use super::*;
use crate::ioc::image::{FieldLine, Image};
use crate::ioc::layout::Layout;
use crate::linux::width::Width;
use iocrec_testing::chance::{fuzz, Random};

const RDES: u16 = 568;
const SPVT: u16 = 456;
const PERIODS: [&str; 5] = ["Passive", "Event", "I/O Intr", "10 second", ".1 second"];

struct Ioc {
    image: Image,
    layout: Layout,
    rtype: usize,
}

fn ioc(width: Width) -> Ioc {
    let mut image = Image::new(width);
    let pointer = width.bytes() as i16;
    let fields: [FieldLine; 8] = [
        ("STAT", 12, 410, 2),
        ("PACT", 2, 425, 1),
        ("RDES", 17, RDES, pointer),
        ("SCAN", 12, 132, 2),
        ("SPVT", 17, SPVT, pointer),
        ("EVNT", 0, 140, 40),
        ("DISA", 3, 180, 2),
        ("DISV", 3, 182, 2),
    ];
    let (base, first) = image.base();
    let rtype = image.record_type(first, "calc", &fields);
    let layout = Layout::read(&image.memory(), image.address(base)).unwrap();
    Ioc { image, layout, rtype }
}

impl Ioc {
    fn width(&self) -> Width {
        self.image.width
    }

    fn callback_bytes(&self) -> usize {
        self.width().pick(16, 32)
    }

    fn list_bytes(&self) -> usize {
        self.width().pick(20, 40)
    }

    /// A record on the list at `list`.
    fn record(&mut self, name: &str, scan: u16, list: Option<usize>) -> usize {
        let record = self.image.record(self.rtype, RDES, name);
        self.image.put(record + 132, &scan.to_ne_bytes());
        let (at_list, at_record) = self.width().pick((8, 12), (16, 24));
        let element = self.image.room(32);
        self.image.point(record + usize::from(SPVT), element);
        self.image.point(element + at_record, record);
        if let Some(list) = list {
            self.image.point(element + at_list, list);
        }
        record
    }

    fn callback(&mut self, at: usize, priority: u32, user: usize) {
        let (at_priority, at_user) = self.width().pick((4, 8), (8, 16));
        self.image.point(at, 0);
        self.image.put(at + at_priority, &priority.to_ne_bytes());
        self.image.point(at + at_user, user);
    }

    /// event_list of 3.15 and later: its CALLBACKs and lists.
    fn event(&mut self, name: &str) -> [(usize, usize); 3] {
        let (callbacks, lists) = (3 * self.callback_bytes(), 3 * self.list_bytes());
        let at = self.image.room(callbacks + lists + 60);
        self.image.put(at + callbacks + lists + self.width().bytes(), name.as_bytes());
        [0, 1, 2].map(|priority| {
            let callback = at + priority * self.callback_bytes();
            let list = at + callbacks + priority * self.list_bytes();
            self.callback(callback, priority as u32, list);
            (callback, list)
        })
    }

    /// ioscan_head of 3.15.2 and later.
    fn interrupt(&mut self) -> [(usize, usize); 3] {
        let each = self.callback_bytes() + self.list_bytes();
        let head = self.image.room(self.width().bytes() + 3 * each + 16);
        [0, 1, 2].map(|priority| {
            let callback = head + self.width().bytes() + priority * each;
            self.callback(callback, priority as u32, head);
            (callback, callback + self.callback_bytes())
        })
    }

    /// io_scan_list or event_scan_list of 3.14.
    fn old(&mut self, priority: u32) -> (usize, usize) {
        let at = self.image.room(self.callback_bytes() + self.list_bytes() + 16);
        self.callback(at, priority, at);
        (at, at + self.callback_bytes())
    }

    fn places(&self, records: &[usize]) -> Vec<Option<Place>> {
        let records: Vec<u64> = records.iter().map(|record| self.image.address(*record)).collect();
        places(&self.image.memory(), self.layout.scanning.as_ref().unwrap(), &records)
    }

    /// The list that the record is on.
    fn list(&self, record: usize) -> Option<ListAt> {
        let Some(Place::On { list, scan }) = self.places(&[record]).remove(0) else { return None };
        let periods = PERIODS.map(str::to_string);
        crate::ioc::scanning::list(
            &self.image.memory(),
            &self.layout,
            self.image.address(record),
            list,
            scan,
            &periods,
        )
    }
}

#[test]
fn each_sort_of_list_in_each_width() {
    for width in [Width::Bits64, Width::Bits32] {
        let mut ioc = ioc(width);
        let (event, interrupt) = (ioc.event("beam on"), ioc.interrupt());
        for priority in 0..3 {
            let record = ioc.record("T:E", EVENT, Some(event[priority].1));
            let callback = ioc.image.address(event[priority].0);
            let expected = ListAt { kind: ScanKind::Event, name: "beam on".into(), callback };
            assert_eq!(ioc.list(record), Some(expected));
            let record = ioc.record("T:I", IO_INTERRUPT, Some(interrupt[priority].1));
            let callback = ioc.image.address(interrupt[priority].0);
            let expected = ListAt { kind: ScanKind::IoInterrupt, name: String::new(), callback };
            assert_eq!(ioc.list(record), Some(expected));
        }
        let (callback, list) = ioc.old(2);
        let record = ioc.record("T:OLD", EVENT, Some(list));
        ioc.image.put(record + 140, &42i16.to_ne_bytes());
        let callback = ioc.image.address(callback);
        let expected = ListAt { kind: ScanKind::Event, name: "42".into(), callback };
        assert_eq!(ioc.list(record), Some(expected));
        ioc.image.put(record + 132, &IO_INTERRUPT.to_ne_bytes());
        let expected = ListAt { kind: ScanKind::IoInterrupt, name: String::new(), callback };
        assert_eq!(ioc.list(record), Some(expected));
        let list = ioc.image.room(80);
        let record = ioc.record("T:P", 4, Some(list));
        let expected = ListAt { kind: ScanKind::Periodic, name: ".1 second".into(), callback: 0 };
        assert_eq!(ioc.list(record), Some(expected));
    }
}

#[test]
fn what_does_not_fit_is_not_believed() {
    for width in [Width::Bits64, Width::Bits32] {
        let mut ioc = ioc(width);
        let [(callback, list), ..] = ioc.event("e");
        let record = ioc.record("T:E", EVENT, Some(list));
        let other = ioc.record("T:O", EVENT, None);
        let passive = ioc.record("T:N", PASSIVE, Some(list));
        assert_eq!(ioc.places(&[other, passive, record])[..2], [Some(Place::None), Some(Place::Passive)]);
        assert!(ioc.list(record).is_some());
        ioc.callback(callback, 3, list);
        assert_eq!(ioc.list(record), None, "no such priority");
        ioc.callback(callback, 0, other);
        assert_eq!(ioc.list(record), None, "another's user");
        // an element that belongs to another record, one that does not exist, and none
        let element = ioc.image.memory().pointer(ioc.image.address(record + usize::from(SPVT))).unwrap();
        ioc.image.put_pointer(other + usize::from(SPVT), element);
        ioc.image.put_pointer(passive + usize::from(SPVT), 16);
        ioc.image.put(passive + 132, &9u16.to_ne_bytes());
        let scans = ioc.places(&[record, other, passive]);
        assert!(matches!(scans[..], [Some(Place::On { .. }), None, None]), "{scans:?}");
        ioc.image.put_pointer(passive + usize::from(SPVT), 0);
        assert_eq!(ioc.places(&[passive]), [Some(Place::None)]);
        let far = ioc.record("T:F", 40, Some(list));
        assert_eq!(ioc.list(far), None, "no such period");
    }
}

/// Whatever the memory holds, nothing panics, and each record gets a result.
#[test]
fn images_that_were_changed() {
    let mut found = 0;
    fuzz(300, |random: &mut Random| {
        let mut ioc = ioc(if random.below(2) == 0 { Width::Bits64 } else { Width::Bits32 });
        let (event, interrupt) = (ioc.event("e"), ioc.interrupt());
        let records = [
            ioc.record("T:E", EVENT, Some(event[0].1)),
            ioc.record("T:I", IO_INTERRUPT, Some(interrupt[2].1)),
        ];
        ioc.image.change(random, 30);
        let places = ioc.places(&records);
        assert_eq!(places.len(), 2);
        records.iter().for_each(|record| drop(ioc.list(*record)));
        found += places.iter().flatten().count();
    });
    assert!(std::env::var("FUZZ_SEED").is_ok() || found > 20, "{found}");
}
