use super::*;
use crate::ioc::image::{FieldLine, Image};
use iocrec_log::event::{AlarmLimit, Limits, Properties};
use iocrec_testing::chance::{fuzz, Random};

/// A record type with everything that a snapshot shows.
const FIELDS: [FieldLine; 20] = [
    ("STAT", 12, 410, 2),
    ("PACT", 2, 425, 1),
    ("RDES", 17, 480, 8),
    ("TIME", 17, 512, 8),
    ("DESC", 0, 61, 41),
    ("VAL", 10, 700, 8),
    ("EGU", 0, 708, 16),
    ("PREC", 3, 724, 2),
    ("LOPR", 10, 728, 8),
    ("HOPR", 10, 736, 8),
    ("DRVL", 5, 744, 4),
    ("DRVH", 5, 748, 4),
    ("LOLO", 7, 752, 8),
    ("LLSV", 12, 760, 2),
    ("LOW", 10, 768, 8),
    ("LSV", 12, 776, 2),
    ("HIGH", 10, 784, 8),
    ("HSV", 12, 792, 2),
    ("HIHI", 10, 800, 8),
    ("HHSV", 12, 808, 2),
];

struct Ioc {
    image: Image,
    layout: Layout,
    record: usize,
}

impl Ioc {
    fn new() -> Ioc {
        let mut image = Image::new(Width::Bits64);
        let (base, first) = image.base();
        let rtype = image.record_type(first, "ao", &FIELDS);
        let record = image.record(rtype, 480, "A:B");
        let layout = Layout::read(&image.memory(), image.address(base)).unwrap();
        Ioc { image, layout, record }
    }

    fn put(&mut self, offset: usize, bytes: &[u8]) {
        self.image.put(self.record + offset, bytes);
    }

    fn sample(&self, what: What) -> Option<Sample> {
        let address = self.image.address(self.record);
        sample(&self.image.memory(), &self.layout, what, &[address]).pop().unwrap()
    }

    fn state(&self) -> State {
        state(Width::Bits64, &self.layout, &self.sample(What::Values).unwrap()).unwrap()
    }

    fn properties(&self) -> Option<Properties> {
        properties(Width::Bits64, &self.layout, &self.sample(What::Properties).unwrap(), 7)
    }
}

#[test]
fn value_alarm_and_time_of_one_record() {
    let mut ioc = Ioc::new();
    let state = State { value: Value::Double(0.0), severity: 0, status: 0, stamp: None, is_active: false };
    assert_eq!(ioc.state(), state);
    ioc.put(700, &2.5f64.to_ne_bytes());
    ioc.put(410, &[3u16, 2].map(u16::to_ne_bytes).concat());
    ioc.put(512, &[1_000_000_000u32, 999_999_999].map(u32::to_ne_bytes).concat());
    ioc.put(425, &[1]);
    let stamp = Some(1_631_152_000_999_999_999);
    assert_eq!(
        ioc.state(),
        State { value: Value::Double(2.5), severity: 2, status: 3, stamp, is_active: true }
    );
    ioc.put(516, &1_000_000_000u32.to_ne_bytes());
    assert_eq!(ioc.state().stamp, None, "no time");
}

#[test]
fn samples_differ_if_anything_has_changed() {
    let mut ioc = Ioc::new();
    for offset in [410, 412, 425, 512, 516, 700, 707] {
        let before = ioc.sample(What::Values);
        assert!(before.is_some() && before == ioc.sample(What::Values));
        ioc.put(offset, &[9]);
        assert_ne!(before, ioc.sample(What::Values), "{offset}");
    }
    ioc.image.put_pointer(ioc.record + 480, 8);
    assert_eq!(ioc.sample(What::Values), None, "no record of a known type");
    let elsewhere = sample(&ioc.image.memory(), &ioc.layout, What::Values, &[8, u64::MAX]);
    assert_eq!(elsewhere, [None, None]);
}

#[test]
fn only_what_is_set_and_in_force_is_a_property() {
    let mut ioc = Ioc::new();
    assert_eq!(ioc.properties(), None);
    ioc.put(61, b"temperature \xb0C\0rest");
    ioc.put(708, b"mm\0");
    ioc.put(724, &(-3i16).to_ne_bytes());
    ioc.put(728, &[-1.0f64, 1.0].map(f64::to_ne_bytes).concat());
    // LOLO is an int64 that an f64 cannot hold; LOW has no severity; HIGH is no number
    ioc.put(752, &9_007_199_254_740_993i64.to_ne_bytes());
    ioc.put(760, &2u16.to_ne_bytes());
    ioc.put(768, &5.0f64.to_ne_bytes());
    ioc.put(784, &f64::NAN.to_ne_bytes());
    ioc.put(792, &1u16.to_ne_bytes());
    ioc.put(800, &f64::INFINITY.to_ne_bytes());
    ioc.put(808, &3u16.to_ne_bytes());
    let expected = Properties {
        record: 7,
        description: "temperature \\xb0C".into(),
        units: "mm".into(),
        precision: Some(-3),
        display: Some(Limits { low: -1.0, high: 1.0 }),
        control: None,
        lolo: None,
        low: None,
        high: None,
        hihi: Some(AlarmLimit { limit: f64::INFINITY, severity: 3 }),
    };
    assert_eq!(ioc.properties(), Some(expected));
    ioc.put(744, &[-5i32, 0].map(i32::to_ne_bytes).concat());
    ioc.put(752, &9_007_199_254_740_992i64.to_ne_bytes());
    let properties = ioc.properties().unwrap();
    assert_eq!(properties.control, Some(Limits { low: -5.0, high: 0.0 }));
    assert_eq!(properties.lolo, Some(AlarmLimit { limit: 9_007_199_254_740_992.0, severity: 2 }));
}

/// An array and a long string: what lies behind the pointer is part of the sample.
#[test]
fn values_behind_pointers() {
    let mut image = Image::new(Width::Bits64);
    let common: [FieldLine; 3] = [("STAT", 12, 410, 2), ("PACT", 2, 425, 1), ("RDES", 17, 480, 8)];
    let (base, first) = image.base();
    let array = [("VAL", 17, 700, 8), ("BPTR", 17, 704, 8), ("NORD", 6, 712, 4), ("FTVL", 12, 716, 2)];
    let array = image.record_type(first, "waveform", &[&common[..], &array].concat());
    let text = [("VAL", 17, 700, 8), ("LEN", 6, 708, 4), ("SIZV", 4, 712, 2)];
    let text = image.record_type(array, "lso", &[&common[..], &text].concat());
    let (one, other) = (image.record(array, 480, "A"), image.record(text, 480, "B"));
    let (elements, letters) = (image.room(8192), image.room(16));
    image.point(one + 704, elements);
    image.put(one + 712, &2000u32.to_ne_bytes());
    image.put(one + 716, &5u16.to_ne_bytes());
    image.put(elements, &7i32.to_ne_bytes());
    image.point(other + 700, letters);
    image.put(other + 708, &4u32.to_ne_bytes());
    image.put(letters, b"abc\0");
    let memory = image.memory();
    let layout = Layout::read(&memory, image.address(base)).unwrap();
    let records = [image.address(one), image.address(other)];
    let look = || sample(&memory, &layout, What::Values, &records);
    let states = |samples: &[Option<Sample>]| -> Vec<Value> {
        let state =
            |sample: &Option<Sample>| state(Width::Bits64, &layout, sample.as_ref().unwrap()).unwrap().value;
        samples.iter().map(state).collect()
    };
    let before = look();
    let Value::Array(array) = &states(&before)[0] else { panic!() };
    assert_eq!((array.dbf, array.count, array.bytes.len()), (Dbf::Long, 2000, MAX_BYTES));
    assert_eq!(
        (&array.bytes[..4], &states(&before)[1]),
        (&[7u8, 0, 0, 0][..], &Value::Text(b"abc".to_vec()))
    );
    image.put(elements + 4000, &[1]);
    assert!(before[0] != look()[0] && before[1] == look()[1]);
    image.put_pointer(one + 704, 8);
    image.put_pointer(other + 700, 8);
    assert_eq!(states(&look()), [Value::Unknown, Value::Unknown], "nothing is there");
    image.put(one + 712, &0u32.to_ne_bytes());
    let empty = Array { dbf: Dbf::Long, count: 0, bytes: Vec::new() };
    assert_eq!(states(&look())[0], Value::Array(empty), "an empty array");
}

/// Memory that changes while it is read, or was never that of an IOC.
#[test]
fn no_content_panics() {
    let mut seen = 0_u64;
    fuzz(300, |random: &mut Random| {
        let mut ioc = Ioc::new();
        let used = ioc.image.used();
        for _ in 0..random.below(8) {
            let at = random.below(used / 8) * 8;
            ioc.image.put_pointer(at, random.next() >> random.below(64));
        }
        let base = ioc.layout.base();
        for layout in Layout::read(&ioc.image.memory(), base).ok().iter().chain([&ioc.layout]) {
            let records: Vec<u64> = (0..8).map(|_| ioc.image.address(random.below(used))).collect();
            let records = [&records[..], &[ioc.image.address(ioc.record), random.next()]].concat();
            let _ = crate::ioc::locks::locks(&ioc.image.memory(), layout, &records);
            for what in [What::Values, What::Properties] {
                for sample in sample(&ioc.image.memory(), layout, what, &records).iter().flatten() {
                    seen += 1;
                    let _ = state(Width::Bits64, layout, sample);
                    let _ = properties(Width::Bits64, layout, sample, 1);
                }
            }
        }
    });
    assert!(std::env::var("FUZZ_SEED").is_ok() || seen > 100, "{seen}");
}
