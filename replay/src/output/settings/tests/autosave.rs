//! As dbrestore.c reads a file.

use super::*;
use crate::model::value::elements;
use iocrec_testing::readers::autosave::restored;
use std::collections::BTreeMap;

fn expected(value: &Value) -> Vec<u8> {
    match value {
        Value::Text(text) => text.clone(),
        other => panic!("{other:?}"),
    }
}

fn same(value: &Value, text: &[u8]) -> bool {
    let text = std::str::from_utf8(text).unwrap();
    match value {
        Value::Int(number) => text.parse() == Ok(*number),
        Value::UInt(number) => text.parse() == Ok(*number),
        Value::Float(number) => text.parse::<f64>().is_ok_and(|read| read as f32 == *number),
        Value::Double(number) if number.is_nan() => text == "nan",
        Value::Double(number) => text.parse() == Ok(*number),
        other => panic!("{other:?}"),
    }
}

#[test]
fn all_that_is_kept_comes_back() {
    let odd = odd();
    let (file, left_out) = written("autosave", &odd);
    let (mut restored, kept) = (restored(&file), kept(&odd, &left_out));
    assert!(kept.len() > 45, "{left_out:#?}");
    for setting in kept {
        let long = setting.rtype == "lso";
        let name = if long { format!("{}.$", setting.pv) } else { setting.pv.clone() };
        let found = restored.remove(&name).unwrap_or_else(|| panic!("{name} is missing"));
        assert_eq!(found.is_array, matches!(setting.value, Value::Array(_)), "{name}");
        let found = found.values;
        match &setting.value {
            Value::Text(text) => assert_eq!(&found, std::slice::from_ref(text), "{name}"),
            Value::Array(array) => {
                let elements: Vec<Value> = elements(array).collect();
                assert_eq!(found.len(), elements.len(), "{name}");
                for (element, found) in elements.iter().zip(&found) {
                    match element {
                        Value::Text(_) => assert_eq!(found, &expected(element), "{name}"),
                        number => assert!(same(number, found), "{name}"),
                    }
                }
            }
            number => assert!(same(number, &found[0]), "{name}: {found:?}"),
        }
    }
    assert!(restored.is_empty(), "{restored:?}");
}

#[test]
fn traps() {
    let (file, _) = written(
        "autosave",
        &[
            state("T:MODE", 1, &["Slow", "Fast"]),
            text("T:STR", b"say \"hi\" a\\b"),
            text("T:EMPTY", b""),
            long("T:LSO", b"long"),
            texts("T:WFS", &["a\\b", "q\""]),
            array("T:CH", Dbf::UChar, 2, &[200, 1]),
        ],
    );
    let lines: Vec<&str> = file.lines().skip(2).collect();
    assert_eq!(
        lines,
        [
            "T:MODE 1",
            "T:STR say \\\"hi\\\" a\\\\b",
            "T:EMPTY ",
            "T:LSO.$ long",
            "T:WFS @array@ {",
            "\"a\\\\\\\\b\"",
            "\"q\\\"\"",
            "}",
            "T:CH @array@ { \"200\" \"1\" }",
            "<END>",
        ]
    );
    for (setting, expected) in [
        (text("T", &[1; 60]), "its text is longer than the 39 characters of a string"),
        (text("T", b"a $(MACRO)"), "autosave takes $( and ${ for a macro"),
        (text("T", b"@array@ x"), "autosave would read its text as an array"),
        (long("T", &[1; 60]), "its text is longer than a line that autosave reads"),
        (setting(&"n".repeat(59), Dbf::Long, Value::Int(1)), "autosave does not read its name"),
        (
            setting(&format!("{}.PREC", "n".repeat(58)), Dbf::Short, Value::Int(1)),
            "autosave does not read its name",
        ),
        (long(&"n".repeat(61), b"long"), "autosave does not read its name"),
        (
            array("T", Dbf::Float, 1, &f32::NEG_INFINITY.to_le_bytes()),
            "autosave makes finite numbers of infinities in an array of floats",
        ),
        (
            array("T", Dbf::UInt64, 1, &u64::MAX.to_le_bytes()),
            "autosave may read so large an integer in an array as a double, which has fewer digits",
        ),
        (
            Setting { dbf: Some(Dbf::Device), ..state("T.DTYP", 0, &["Soft"]) },
            "autosave does not restore device supports",
        ),
        (setting("$(T)", Dbf::Long, Value::Int(1)), "autosave does not read its name"),
        (Setting { read_only: true, ..setting("T", Dbf::Long, Value::Int(1)) }, "it is only read"),
    ] {
        assert_eq!(reason("autosave", setting), expected);
    }
}

/// The longest names that are found, and numbers that are read back.
#[test]
fn what_is_just_within() {
    let infinite: Vec<u8> = [f64::INFINITY, 1.0].iter().flat_map(|v| v.to_le_bytes()).collect();
    let (file, left_out) = written(
        "autosave",
        &[
            setting(&"n".repeat(58), Dbf::Long, Value::Int(1)),
            setting(&format!("{}.PREC", "n".repeat(57)), Dbf::Short, Value::Int(1)),
            long(&"n".repeat(60), b"long"),
            array("T:1", Dbf::Double, 2, &infinite),
            array("T:2", Dbf::Int64, 1, &(-(1_i64 << 53)).to_le_bytes()),
            setting("T:3", Dbf::Int64, Value::Int(i64::MIN)),
            setting("T:4", Dbf::Float, Value::Float(f32::INFINITY)),
        ],
    );
    assert!(left_out.is_empty(), "{left_out:?}");
    assert_eq!(restored(&file).len(), 7, "{file}");
}

/// What follows the first 199 bytes of a line is read as a line of its own.
#[test]
fn a_comment_is_never_a_setting() {
    let hostile = format!("{} T:AO 5", "x".repeat(300));
    let (file, _) = written("autosave", &[setting(&hostile, Dbf::Long, Value::Int(1))]);
    assert_eq!(restored(&file), BTreeMap::new());
}
