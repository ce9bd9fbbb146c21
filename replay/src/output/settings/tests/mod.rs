//! Every format, read back by a strict parser that is written from its reader's rules: what comes back is the value, and
//! whatever does not come back is named as left out.

mod autosave;
mod burt;
mod caput;
mod phoebus;

use super::{Heading, SettingsFormat, FORMATS};
use crate::model::setting::{LeftOut, Setting};
use crate::out::Out;
use crate::time::Zone;
use iocrec_log::event::{Array, Dbf, Value};

/// The format of that name.
fn find(name: &str) -> Option<&'static SettingsFormat> {
    FORMATS.iter().find(|format| format.name == name)
}

/// 2026-09-21T14:13:20.123456789Z
const TIME: i64 = 1_790_000_000_123_456_789;

fn setting(pv: &str, dbf: Dbf, value: Value) -> Setting {
    let (record, field) = pv.split_once('.').unwrap_or((pv, "VAL"));
    let (record, field) = (record.to_owned(), field.to_owned());
    let time = Some(TIME);
    Setting {
        pv: pv.to_owned(),
        record,
        field,
        dbf: Some(dbf),
        value,
        time,
        alarm: Some((0, 0)),
        ..Setting::default()
    }
}

fn text(pv: &str, text: &[u8]) -> Setting {
    setting(pv, Dbf::String, Value::Text(text.to_vec()))
}

fn long(pv: &str, text: &[u8]) -> Setting {
    Setting { rtype: "lso".into(), ..setting(pv, Dbf::NoAccess, Value::Text(text.to_vec())) }
}

fn array(pv: &str, dbf: Dbf, count: u32, bytes: &[u8]) -> Setting {
    let value = Value::Array(Array { dbf, count, bytes: bytes.to_vec() });
    Setting { rtype: "waveform".into(), ..setting(pv, Dbf::NoAccess, value) }
}

fn texts(pv: &str, texts: &[&str]) -> Setting {
    let field = |text: &&str| {
        let mut field = [0; 40];
        field[..text.len()].copy_from_slice(text.as_bytes());
        field
    };
    let bytes: Vec<u8> = texts.iter().flat_map(field).collect();
    array(pv, Dbf::String, u32::try_from(texts.len()).unwrap(), &bytes)
}

fn state(pv: &str, number: i64, labels: &[&str]) -> Setting {
    let text = labels.get(usize::try_from(number).unwrap()).map(|text| (*text).to_owned());
    let text = text.filter(|text| !text.is_empty());
    let labels = labels.iter().map(|text| (*text).to_owned()).collect();
    Setting { text, labels, ..setting(pv, Dbf::Enum, Value::Int(number)) }
}

/// What is written in a format, and what is left out.
fn written(format: &str, settings: &[Setting]) -> (String, Vec<LeftOut>) {
    let (zone, mut bytes) = (Zone::utc(), Vec::new());
    let heading = Heading { title: "Values at 2026-09-21 14:13:20", time: TIME, zone: &zone };
    let left_out = (find(format).unwrap().write)(&mut Out::new(&mut bytes), &heading, settings).unwrap();
    (String::from_utf8(bytes).unwrap(), left_out)
}

/// What a format says of a setting that it leaves out; panics if it does not.
fn reason(format: &str, setting: Setting) -> String {
    let name = setting.pv.clone();
    let (text, left_out) = written(format, &[setting, setting_that_any_can_hold()]);
    assert_eq!(left_out.len(), 1, "{format}: {name}: {text}");
    assert_eq!(left_out[0].pv, name);
    left_out[0].reason.to_string()
}

fn setting_that_any_can_hold() -> Setting {
    setting("ANY", Dbf::Double, Value::Double(1.0))
}

/// Settings with all that may go wrong, which not every format can hold.
fn odd() -> Vec<Setting> {
    let doubles: Vec<u8> =
        [1.0, -2.5, f64::NAN, f64::INFINITY, 1e300].iter().flat_map(|v| v.to_le_bytes()).collect();
    let longs: Vec<u8> = [1i32, -5, i32::MAX].iter().flat_map(|v| v.to_le_bytes()).collect();
    let ulongs: Vec<u8> = [1u32, u32::MAX].iter().flat_map(|v| v.to_le_bytes()).collect();
    let floats: Vec<u8> = [0.1f32, 16_777_216.0].iter().flat_map(|v| v.to_le_bytes()).collect();
    let int64s: Vec<u8> = [1i64, i64::MIN].iter().flat_map(|v| v.to_le_bytes()).collect();
    let modes = ["Off", "Slow ramp", "it's \"q\"", "", "Off", "50%", "a~b", "c;d", "[x"];
    let plain = ["Off", "Slow ramp", "Fast, 2"];
    let mut settings = vec![
        setting("D:0", Dbf::Double, Value::Double(0.1)),
        setting("D:1", Dbf::Double, Value::Double(-1e300)),
        setting("D:2", Dbf::Double, Value::Double(f64::NAN)),
        setting("D:3", Dbf::Double, Value::Double(f64::NEG_INFINITY)),
        setting("D:4", Dbf::Double, Value::Double(1e-320)),
        setting("D:5", Dbf::Double, Value::Double(-0.0)),
        setting("D:6.HIGH", Dbf::Double, Value::Double(5.0)),
        setting("F:0", Dbf::Float, Value::Float(0.1)),
        setting("I:0", Dbf::Long, Value::Int(-7)),
        setting("I:1", Dbf::Int64, Value::Int(9_007_199_254_740_993)),
        setting("I:2", Dbf::UInt64, Value::UInt(u64::MAX)),
        setting("I:3", Dbf::UChar, Value::Int(200)),
        setting("I:4.PREC", Dbf::Short, Value::Int(3)),
        text("S:0", b"plain"),
        text("S:1", b""),
        text("S:2", b"  two spaces  "),
        text("S:3", b"say \"hi\" a\\b it's"),
        text("S:4", "é µ".as_bytes()),
        text("S:5", b"\xff\xfe"),
        text("S:6", b"tab\tfeed\n\x1b[2J\x07"),
        text("S:7", b"50% $(MACRO) ${M}"),
        text("S:8", b"@array@ { \"1\" }"),
        text("S:9", b"---"),
        text("S:10", b"NULL"),
        text("S:11", b"[1;2]"),
        text("S:12", b"a~b,c;d"),
        text("S:13", &[b'x'; 39]),
        text("S:14", "\u{202e}\u{200b}".as_bytes()),
        text("S:15", &[b'x'; 40]),
        text("S:16", b"<END>"),
        text("S:17", &[1; 39]),
        text("S:18", b"--- End BURT header"),
        long("L:0", &[b'y'; 120]),
        long("L:1", b"short"),
        long("L:2", &[b'z'; 199]),
        array("A:0", Dbf::Double, 5, &doubles),
        array("A:1", Dbf::Long, 3, &longs),
        array("A:2", Dbf::ULong, 2, &ulongs),
        array("A:3", Dbf::Float, 2, &floats),
        array("A:4", Dbf::Char, 4, &[200, 0, 65, 34]),
        array("A:5", Dbf::UChar, 2, &[200, 1]),
        array("A:6", Dbf::Double, 0, &[]),
        array("A:7", Dbf::Double, 9, &doubles),
        array("A:8", Dbf::Int64, 2, &int64s),
        array("A:9", Dbf::Double, 300, &[0; 2400]),
        texts("T:0", &["a", "b c", "}{"]),
        texts("T:1", &["say \"hi\"", "a\\b", "it's"]),
        texts("T:2", &["", "x"]),
        texts("T:3", &["é", "a\tb\nc"]),
        texts("T:4", &["xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"]),
        texts("T:5", &["\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\"]),
        Setting { room: Some(8), ..array("A:10", Dbf::Long, 3, &longs) },
        Setting { read_only: true, ..setting("R:0", Dbf::Double, Value::Double(2.5)) },
        Setting { inexact: true, ..setting("X:0", Dbf::Double, Value::Double(2.5)) },
        Setting { cut: Some(true), ..text("X:1", &[b'x'; 39]) },
        setting("X:2", Dbf::Double, Value::Unknown),
        setting("X:3.PROC", Dbf::UChar, Value::Int(1)),
        setting("X:4.EXSC", Dbf::Short, Value::Int(1)),
        setting("D:0", Dbf::Double, Value::Double(7.0)),
        setting("N\nAME", Dbf::Double, Value::Double(7.0)),
        setting("-c", Dbf::Double, Value::Double(7.0)),
        setting("a,b", Dbf::Double, Value::Double(7.0)),
        setting("100%", Dbf::Double, Value::Double(7.0)),
        setting("$(X)", Dbf::Double, Value::Double(7.0)),
        setting("#x", Dbf::Double, Value::Double(7.0)),
        setting(&"n".repeat(79), Dbf::Double, Value::Double(7.0)),
        Setting { dbf: Some(Dbf::Device), ..state("E:99.DTYP", 1, &plain) },
        Setting { labels: Vec::new(), ..state("E:98", 1, &plain) },
        Setting { text: None, labels: Vec::new(), ..state("E:97", 1, &plain) },
        Setting { alarm: None, time: None, ..state("E:96.SCAN", 2, &plain) },
        Setting { alarm: Some((2, 4)), ..state("E:95", 0, &plain) },
    ];
    settings.extend((0..9).map(|number| state(&format!("E:{number}"), number, &modes)));
    settings
}

/// The settings that are not left out, in their order.
fn kept<'a>(settings: &'a [Setting], left_out: &[LeftOut]) -> Vec<&'a Setting> {
    let mut left_out: Vec<&str> = left_out.iter().map(|left_out| left_out.pv.as_str()).collect();
    let mut kept: Vec<&Setting> = Vec::new();
    for setting in settings.iter().rev() {
        // of a name that comes twice, the later is left out
        match left_out.iter().rposition(|pv| *pv == setting.pv) {
            Some(at) => _ = left_out.remove(at),
            None => kept.push(setting),
        }
    }
    assert!(left_out.is_empty(), "{left_out:?}");
    kept.reverse();
    kept
}

#[test]
fn what_is_not_known_is_in_no_file() {
    for format in super::FORMATS {
        let odd = odd();
        let (text, left_out) = written(format.name, &odd);
        for pv in ["X:0", "X:1", "X:2", "X:3.PROC", "X:4.EXSC", "A:7", "S:15", "-c"] {
            assert!(left_out.iter().any(|left_out| left_out.pv == pv), "{}: {pv}", format.name);
        }
        assert_eq!(left_out.iter().filter(|left_out| left_out.pv == "D:0").count(), 1);
        let plain = reason(format.name, setting("X:2", Dbf::Double, Value::Unknown));
        assert_eq!(plain, "its value is not known");
        assert!(text.lines().all(iocrec_log::escape::is_safe), "{}", format.name);
    }
}
