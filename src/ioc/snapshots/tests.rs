use super::*;
use crate::ioc::image::{FieldLine, Image};
use crate::ioc::offsets::Database as Offsets;
use iocrec_log::event::{AlarmLimit, Limits, Properties};
use iocrec_testing::chance::{fuzz, Random};

/// A record type with everything that a snapshot shows.
const FIELDS: [FieldLine; 23] = [
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
    ("SDIS", 14, 816, 80),
    ("TSEL", 14, 896, 80),
    ("DOL", 14, 190, 80),
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
            for what in [What::Values, What::Properties, What::Links] {
                for sample in sample(&ioc.image.memory(), layout, what, &records).iter().flatten() {
                    seen += 1;
                    let _ = state(Width::Bits64, layout, sample);
                    let _ = properties(Width::Bits64, layout, sample, 1);
                    let _ = links(layout, sample);
                }
            }
        }
    });
    assert!(std::env::var("FUZZ_SEED").is_ok() || seen > 100, "{seen}");
}

/// Inputs of every kind of a record in both generations of links and both widths.
#[test]
fn links_of_every_generation() {
    // in a link: its kind, name, text of a constant, mask, bytes
    let since = |width: Width| [4, 24, 16, 36, 40].map(|at| at * width.bytes() / 4);
    let generations = [
        (Width::Bits64, 15, [40, 0, 0, 32, 56]),
        (Width::Bits32, 15, [20, 0, 0, 16, 28]),
        (Width::Bits64, 17, since(Width::Bits64)),
        (Width::Bits32, 17, since(Width::Bits32)),
    ];
    for (width, highest, [kind, name, constant, mask, bytes]) in generations {
        let (mut image, pointer) = (Image::new(width), width.bytes() as i16);
        let (menu, input) = if highest == 17 { (12, 14) } else { (10, 12) };
        let at = [100usize, 200, 600, 700, 800, 900];
        let link = |name, place: usize, dbf| (name, dbf, at[place] as u16, bytes as i16);
        let fields: [FieldLine; 12] = [
            ("STAT", menu, 300, 2),
            ("PACT", 2, 302, 1),
            ("RDES", highest, 480, pointer),
            ("DTYP", menu + 1, 304, 2),
            link("SDIS", 0, input),
            link("TSEL", 1, input),
            link("INPA", 2, input),
            link("INPB", 3, input),
            link("INPC", 4, input),
            link("OUT", 5, input + 1),
            ("NELM", 6, 520, 4),
            ("BPTR", highest, 528, pointer),
        ];
        let (base, first) = image.base();
        let with_array = [("VAL", highest, 536, pointer), ("NORD", 6, 544, 4), ("FTVL", menu, 548, 2)];
        let rtype = image.record_type(first, "odd", &[&fields[..], &with_array].concat());
        let devices = image.device_menu(&["Soft Channel", "Hard"]);
        let private = image.field(rtype, 3) + Offsets::of(width).field_private;
        image.point(private, devices);
        let record = image.record(rtype, 480, "A:B");
        image.put(record + 304, &1u16.to_ne_bytes());
        image.put(record + 520, &100u32.to_ne_bytes());
        let of_kind = |image: &mut Image, place: usize, number: u16, flags: u16| {
            image.put(record + at[place] + kind, &number.to_ne_bytes());
            image.put(record + at[place] + mask, &flags.to_ne_bytes());
        };
        let long = "L".repeat(150);
        of_kind(&mut image, 2, 10, 1);
        image.point_to_string(record + at[2] + name, "C:D.HIHI");
        of_kind(&mut image, 3, 11, 0x10);
        image.point_to_string(record + at[3] + name, &long);
        of_kind(&mut image, 4, 0, 0);
        image.point_to_string(record + at[4] + constant, "2.5");
        of_kind(&mut image, 5, 10, 0);
        image.point_to_string(record + at[5] + name, "NOT:AN:INPUT");
        let memory = image.memory();
        let layout = Layout::read(&memory, image.address(base)).unwrap();
        let address = image.address(record);
        let look = || sample(&memory, &layout, What::Links, &[address]).pop().unwrap();
        let found = |sample: &Sample| -> Vec<(usize, Value)> {
            let number = |description| {
                (0..fields.len()).find(|index| image.address(image.field(rtype, *index)) == description)
            };
            links(&layout, sample).into_iter().map(|(at, value)| (number(at).unwrap(), value)).collect()
        };
        let text = |text: &str| Value::Text(text.as_bytes().to_vec());
        let before = look().unwrap();
        let own_device = (3, Value::Int(1));
        let expected = [
            (4, text("")),
            (5, text("")),
            (6, text("C:D.HIHI NPP MS")),
            (7, text(&format!("{long} CP NMS"))),
        ];
        let rest = [own_device.clone(), (10, Value::Int(100))];
        assert_eq!(found(&before), [&expected[..], &rest].concat(), "{width:?} {highest}");
        assert_eq!(look().as_ref(), Some(&before));
        let mut image = image;
        // what the link's text does not depend on
        image.put(record + at[2] + mask + 2, &[9]);
        assert_eq!(
            sample(&image.memory(), &layout, What::Links, &[address]),
            [Some(before.clone())],
            "{width:?} {highest}"
        );
        image.put(record + at[2] + kind, &2u16.to_ne_bytes());
        let hardware = sample(&image.memory(), &layout, What::Links, &[address]).pop().unwrap().unwrap();
        assert_ne!(hardware, before);
        assert_eq!(links(&layout, &hardware)[2].1, Value::Unknown, "VME");
        image.put_pointer(record + at[3] + name, 8);
        let unread = sample(&image.memory(), &layout, What::Links, &[address]);
        assert_eq!(unread, [None], "a name that can't be read: all or nothing");
    }
}
