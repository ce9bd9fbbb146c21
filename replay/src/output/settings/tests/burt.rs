//! As pyburt reads a file.

use super::*;
use crate::model::value::elements;
use iocrec_testing::readers::burt::{parse, Line};

fn same(value: &Value, found: &str, label: Option<&str>) -> bool {
    match (value, label) {
        (_, Some(label)) => found == label,
        (Value::Text(text), _) if text.is_empty() => found == "\\0",
        (Value::Text(text), _) => found.as_bytes() == text.as_slice(),
        (Value::Int(number), _) => found.parse() == Ok(*number) && (*number as f64) as i64 == *number,
        (Value::Float(number), _) => found.parse::<f64>().is_ok_and(|read| read as f32 == *number),
        (Value::Double(number), _) if number.is_nan() => found == "nan",
        (Value::Double(number), _) => found.parse() == Ok(*number),
        _ => false,
    }
}

#[test]
fn all_that_is_kept_comes_back() {
    let odd = odd();
    let (file, left_out) = written("burt", &odd);
    let (lines, kept) = (parse(&file), kept(&odd, &left_out));
    assert!(kept.len() > 30, "{left_out:#?}");
    assert_eq!(lines.len(), kept.len());
    for (Line { modifier, name, count, values }, setting) in lines.iter().zip(kept) {
        assert_eq!((name, modifier.is_some()), (&setting.pv, setting.read_only));
        assert_eq!(values.len(), usize::try_from(*count).unwrap(), "{name}");
        match &setting.value {
            Value::Array(array) => {
                let elements: Vec<Value> = elements(array).collect();
                assert!(
                    elements.iter().zip(values).all(|(element, found)| same(element, found, None)),
                    "{name}"
                );
                assert!(values[elements.len()..].iter().all(|value| value == "\\0"), "{name}");
            }
            value => assert!(same(value, &values[0], setting.text.as_deref()), "{name}: {values:?}"),
        }
    }
}

/// A record takes a state by a name that it has already, and BURT writes line by line.
#[test]
fn names_of_states_come_before_states() {
    let settings =
        [state("X:bo", 1, &["Off", "On"]), text("X:bo.ONAM", b"On"), text("X:bo.DESC", b"a valve")];
    let (file, left_out) = written("burt", &settings);
    assert!(left_out.is_empty(), "{left_out:?}");
    let names: Vec<String> = parse(&file).into_iter().map(|line| line.name).collect();
    assert_eq!(names, ["X:bo.ONAM", "X:bo", "X:bo.DESC"]);
}

#[test]
fn traps() {
    let (file, _) = written(
        "burt",
        &[
            state("T:MODE", 1, &["Off", "Slow ramp"]),
            setting("T:AO", Dbf::Double, Value::Double(0.1)),
            Setting { room: Some(4), ..array("T:WF", Dbf::Long, 1, &[1, 0, 0, 0]) },
            Setting { read_only: true, ..text("T:RB", b"") },
        ],
    );
    let body: Vec<&str> = file.lines().skip(11).collect();
    assert_eq!(
        body,
        ["T:MODE 1 \"Slow ramp\"", "T:AO 1 1.0000000000000001e-01", "T:WF 4 1 \\0 \\0 \\0", "RO T:RB 1 \\0",]
    );
    let no_way = "BURT has no way to write a text with quotation marks, %, backslashes or control characters";
    for (setting, expected) in [
        (text("T", b"50%"), no_way),
        (text("T", b"it's"), no_way),
        (text("T", b"a\nb"), no_way),
        (text("T", b"--- End BURT header"), no_way),
        (state("T", 0, &["50%"]), no_way),
        (state("T", 1, &["Off", "Off"]), "another state has the same name"),
        (state("T", 1, &["Off", ""]), "its state has no name"),
        (array("T", Dbf::Char, 1, b"a"), "BURT writes its elements as letters"),
        (array("T", Dbf::Long, 0, b""), "BURT can't empty an array"),
        (texts("T", &["a", ""]), "BURT takes an empty text for the end of the array"),
        (setting("100%", Dbf::Long, Value::Int(1)), "BURT does not read its name"),
        (setting("RO", Dbf::Long, Value::Int(1)), "BURT does not read its name"),
        (
            setting("T", Dbf::Int64, Value::Int(i64::MAX)),
            "BURT reads so large an integer as a double, which has fewer digits",
        ),
    ] {
        assert_eq!(reason("burt", setting), expected);
    }
}
