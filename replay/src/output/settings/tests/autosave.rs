//! As dbrestore.c reads a file: pieces of 199 bytes, `%80s%c%[^\n\r]`, escapes.

use super::*;
use crate::model::value::elements;
use std::collections::BTreeMap;

/// `fgets` with a buffer of 200 bytes.
struct Pieces<'a>(&'a [u8]);

impl<'a> Pieces<'a> {
    fn next(&mut self) -> Option<&'a [u8]> {
        let line = self.0.iter().position(|byte| *byte == b'\n').map_or(self.0.len(), |at| at + 1);
        let (piece, rest) = self.0.split_at(line.min(199));
        self.0 = rest;
        (!piece.is_empty()).then_some(piece)
    }
}

/// `epicsStrnRawFromEscaped`.
fn raw(text: &[u8]) -> Vec<u8> {
    let (mut raw, mut rest) = (Vec::new(), text);
    while let [first, tail @ ..] = rest {
        rest = tail;
        if *first != b'\\' {
            raw.push(*first);
            continue;
        }
        let Some((letter, tail)) = rest.split_first() else { break };
        rest = tail;
        raw.push(match letter {
            b'a' => 7,
            b'b' => 8,
            b'f' => 12,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'v' => 11,
            b'x' => {
                let (digits, tail) = rest.split_at(2);
                rest = tail;
                u8::from_str_radix(std::str::from_utf8(digits).unwrap(), 16).unwrap()
            }
            b'0'..=b'9' => panic!("octal"),
            other => *other,
        });
    }
    raw
}

/// What the file restores: for each name its text, or the texts of its elements.
fn restored(file: &str) -> BTreeMap<String, Vec<Vec<u8>>> {
    let (mut pieces, mut found) = (Pieces(file.as_bytes()), BTreeMap::new());
    let head = pieces.next().unwrap();
    assert!(head.starts_with(b"# autosave R5.3") && head.ends_with(b"\n"));
    assert!(file.ends_with("\n<END>\n"), "R5.3 requires it");
    while let Some(piece) = pieces.next() {
        let line = piece.strip_suffix(b"\n").expect("a whole line");
        let name_end = line.iter().position(|byte| *byte == b' ').unwrap_or(line.len());
        let name = std::str::from_utf8(&line[..name_end]).unwrap();
        let value = line.get(name_end + 1..).unwrap_or_default();
        if name == "<END>" {
            break;
        }
        if name == "#" {
            assert!(!value.starts_with(b"@array@"));
            continue;
        }
        let with_field = name.len() + if name.contains('.') { 0 } else { ".VAL".len() };
        assert!(with_field < 63 && name.as_bytes()[0].is_ascii_alphanumeric(), "{name}");
        let values = match value.strip_prefix(b"@array@") {
            Some(begin) => elements_of(begin, &mut pieces),
            None => vec![raw(value)],
        };
        assert!(!value.windows(2).any(|two| two == b"$(" || two == b"${"), "{name}: a macro");
        found.insert(name.to_owned(), values);
    }
    assert!(pieces.next().is_none());
    found
}

/// `SR_array_restore`: elements in quotation marks, up to `}` outside of them.
fn elements_of(begin: &[u8], pieces: &mut Pieces) -> Vec<Vec<u8>> {
    let mut values = Vec::new();
    let mut piece = &begin[begin.iter().position(|byte| *byte == b'{').unwrap() + 1..];
    loop {
        let Some((first, rest)) = piece.split_first() else {
            piece = pieces.next().unwrap();
            continue;
        };
        piece = rest;
        match first {
            b'}' => return values,
            b'"' => {
                let mut element = Vec::new();
                loop {
                    let Some((letter, rest)) = piece.split_first() else {
                        piece = pieces.next().unwrap();
                        continue;
                    };
                    piece = rest;
                    let mut letter = *letter;
                    if letter == b'"' {
                        break;
                    }
                    if letter == b'\\' {
                        // both in one piece, or the escape is lost
                        let next = *piece.first().expect("an escape across pieces");
                        if matches!(next, b'"' | b'\\') {
                            letter = next;
                            piece = &piece[1..];
                        }
                    }
                    assert!((b' '..=b'~').contains(&letter), "it vanishes");
                    element.push(letter);
                }
                assert!(element.len() <= 39, "it is cut");
                values.push(raw(&element));
            }
            _ => {}
        }
    }
}

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
