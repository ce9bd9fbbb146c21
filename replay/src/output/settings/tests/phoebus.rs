//! As CSVParser.java and CSVImporter.java read a file.

use super::*;
use crate::model::value::elements;
use iocrec_testing::readers::phoebus::{parse, value, Row};

fn same(value: &Value, found: &str) -> bool {
    match value {
        Value::Text(text) => text.as_slice() == found.as_bytes(),
        Value::Int(number) => found.parse() == Ok(*number) || found.parse() == Ok(*number as i8),
        Value::UInt(number) => found.parse() == Ok(*number),
        Value::Float(number) => found.parse::<f64>().is_ok_and(|read| read as f32 == *number),
        Value::Double(number) if number.is_nan() => found == "NaN",
        Value::Double(number) => found.parse() == Ok(*number),
        _ => false,
    }
}

#[test]
fn all_that_is_kept_comes_back() {
    let odd = odd();
    let (file, left_out) = written("phoebus-snapshot", &odd);
    let ((head, rows), kept) = (parse(&file), kept(&odd, &left_out));
    assert_eq!(head["Snapshot name:"], "Values at 2026-09-21 14:13:20");
    assert_eq!(head["Date:"], "2026-09-21 14:13:20.123");
    assert!(kept.len() > 35, "{left_out:#?}");
    assert_eq!(rows.len(), kept.len());
    for (row, setting) in rows.iter().zip(&kept) {
        let (texts, labels) = value(row);
        assert_eq!(row["PV"], setting.pv);
        match (&setting.value, &setting.text) {
            (_, Some(text)) => {
                assert_eq!((&texts[0], &labels), (text, &setting.labels));
                let index = labels.iter().position(|label| label == text).unwrap();
                assert_eq!(setting.value, Value::Int(i64::try_from(index).unwrap()));
            }
            (Value::Array(array), _) => {
                let elements: Vec<Value> = elements(array).collect();
                assert_eq!(elements.len(), texts.len(), "{}", setting.pv);
                assert!(
                    elements.iter().zip(&texts).all(|(element, text)| same(element, text)),
                    "{}",
                    setting.pv
                );
            }
            (value, None) => assert!(same(value, &texts[0]), "{}: {texts:?}", setting.pv),
        }
    }
    // the configuration under which it is imported matches
    let (file, other) = written("phoebus-configuration", &odd);
    let (head, configured) = parse(&file);
    assert_eq!((&head["SaveSet name:"], other), (&"Values at 2026-09-21 14:13:20".to_owned(), left_out));
    let of = |rows: &[Row]| -> Vec<[String; 3]> {
        rows.iter().map(|row| ["PV", "READBACK", "READ_ONLY"].map(|column| row[column].clone())).collect()
    };
    assert_eq!(of(&rows), of(&configured));
}

#[test]
fn traps() {
    let (file, _) = written(
        "phoebus-snapshot",
        &[
            Setting { alarm: Some((1, 4)), ..state("T:MODE", 1, &["Off", "Slow ramp"]) },
            setting("T:AO", Dbf::Double, Value::Double(f64::INFINITY)),
            array("T:WF", Dbf::UChar, 2, &[200, 1]),
            Setting { read_only: true, alarm: None, time: None, ..text("T:RB", b"a, b; c") },
        ],
    );
    let rows: Vec<&str> = file.lines().skip(9).collect();
    assert_eq!(
        rows,
        [
            "T:MODE,1,1790000000.123456789,RECORD,MINOR,enum,\"Slow ramp~[Off;Slow ramp]\",,\"---\",,0",
            "T:AO,1,1790000000.123456789,NONE,NONE,double,\"Infinity\",,\"---\",,0",
            "T:WF,1,1790000000.123456789,NONE,NONE,byte_array,\"[-56;1]\",,\"---\",,0",
            "T:RB,1,,UNDEFINED,UNDEFINED,string,\"a, b; c\",,\"---\",,1",
        ]
    );
    let quotes = "Phoebus has no way to write a text with quotation marks or control characters";
    for (setting, expected) in [
        (text("T", b"say \"hi\""), quotes),
        (state("T", 0, &["Off", "\"On\""]), quotes),
        (text("T", b"\xff"), "its text is not UTF-8"),
        (text("T", b""), "Phoebus takes \"\" for a PV that is not connected"),
        (text("T", b"Null"), "Phoebus takes \"Null\" for a PV that is not connected"),
        (text("T", b"a~b"), "Phoebus takes a text with ~ or [ at its start for something else"),
        (text("T", b"[a]"), "Phoebus takes a text with ~ or [ at its start for something else"),
        (texts("T", &["a"]), "Phoebus does not import arrays of this type"),
        (array("T", Dbf::Long, 0, b""), "Phoebus takes an empty array for one with an element"),
        (Setting { labels: vec![], ..state("T", 0, &["Off"]) }, "the names of its states are not known"),
        (
            Setting { text: Some("On~;".into()), ..state("T", 1, &["Off", "On"]) },
            "the names of its states are not known",
        ),
        (state("T", 0, &["Off", "a;b"]), "Phoebus does not read the name of a state with ~ or ;"),
        (setting("a,b", Dbf::Long, Value::Int(1)), "Phoebus does not read its name"),
        (setting("T", Dbf::UInt64, Value::UInt(u64::MAX)), "Phoebus has no integers so large"),
    ] {
        assert_eq!(reason("phoebus-snapshot", setting), expected);
    }
}
