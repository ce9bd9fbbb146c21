//! Files that restore values, read back: what `at` and `diff` write as a script of caput, for autosave, BURT and Phoebus.
//!
//! Each file is read strictly, by the rules of its own reader, and every value in it compared with what the observer read of
//! the IOC. Every record that was alive is in the file, or the file says why it is not.

use super::truth::{iso, time, Truth};
use super::{is_right, plant, same, undo, Plant};
use iocrec_testing::readers::{self, autosave::Restored};
use serde_json::{json, Value};
use std::collections::BTreeMap;

/// The formats that hold values.
const FORMATS: [&str; 4] = ["caput", "autosave", "burt", "phoebus-snapshot"];

/// What a file says: values by PV as texts, an array one for each element; and the PVs that it says are left out.
#[derive(Default)]
struct File {
    values: BTreeMap<String, Vec<String>>,
    left_out: Vec<String>,
}

/// The words of a line, as a shell reads them.
pub fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut any, mut quoted) = (Vec::new(), String::new(), false, false);
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\'' => (quoted, any) = (!quoted, true),
            '\\' if !quoted => word.extend(letters.next()),
            ' ' if !quoted => {
                if any || !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
                any = false;
            }
            letter => word.push(letter),
        }
    }
    if any || !word.is_empty() {
        words.push(word);
    }
    words
}

/// Text as caput and caget understand it: escapes as in C.
pub fn unescaped(text: &str) -> String {
    let (mut bytes, mut letters) = (Vec::new(), text.bytes().peekable());
    while let Some(letter) = letters.next() {
        let escape = if letter == b'\\' { letters.next() } else { None };
        match escape {
            None => bytes.push(letter),
            Some(b'x') => {
                let digits: Vec<u8> = letters.by_ref().take(2).collect();
                let digits = String::from_utf8(digits).expect("ASCII");
                bytes.push(u8::from_str_radix(&digits, 16).expect("two digits"));
            }
            Some(b't') => bytes.push(b'\t'),
            Some(b'n') => bytes.push(b'\n'),
            Some(other) => bytes.push(other),
        }
    }
    String::from_utf8(bytes).expect("UTF-8")
}

/// restore PV CAGET-OPTIONS WANTED CAPUT-ARGUMENTS...: what caput is given counts.
fn caput(text: &str) -> File {
    let mut file = File::default();
    for line in text.lines() {
        if let Some(line) = line.strip_prefix("restore ") {
            let words = words(line);
            let arguments: Vec<&String> = words[3..]
                .iter()
                .skip_while(|word| ["-a", "-n", "-s", "-S"].contains(&word.as_str()))
                .collect();
            let is_array = words[3..].iter().any(|word| word == "-a");
            let values = &arguments[if is_array { 2 } else { 1 }..];
            if is_array {
                assert_eq!(arguments[1].parse().ok(), Some(values.len()), "{line}");
            }
            let values = values.iter().map(|value| unescaped(value)).collect();
            assert_eq!(words[0], *arguments[0], "{line}");
            assert!(file.values.insert(arguments[0].clone(), values).is_none(), "twice: {line}");
        }
        file.left_out.extend(left_out(line, "# "));
    }
    file
}

/// The PV of a comment that says that it is left out.
fn left_out(line: &str, sign: &str) -> Option<String> {
    let (pv, _) = line.strip_prefix(sign)?.split_once(" is left out: ")?;
    Some(pv.to_owned())
}

/// As the module autosave reads it.
fn autosave(text: &str) -> File {
    let texts = |restored: Restored| {
        let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
        restored.values.into_iter().map(text).collect::<Vec<String>>()
    };
    let values = readers::autosave::restored(text).into_iter().map(|(pv, restored)| (pv, texts(restored)));
    File {
        values: values.collect(),
        left_out: text.lines().filter_map(|line| left_out(line, "# ")).collect(),
    }
}

/// As pyburt reads it: `\0` is nothing.
fn burt(text: &str) -> File {
    let mut file = File::default();
    for line in readers::burt::parse(text) {
        assert_eq!(line.values.len(), usize::try_from(line.count).expect("a number"), "{line:?}");
        let values = match line.values.as_slice() {
            [nothing] if nothing == "\\0" => vec![String::new()],
            values => values.iter().filter(|value| *value != "\\0").cloned().collect(),
        };
        file.values.insert(line.name, values);
    }
    file.left_out = text.lines().filter_map(|line| left_out(line, "% ")).collect();
    file
}

/// As Phoebus imports it; an enum has its text.
fn phoebus(text: &str) -> File {
    let (_, rows) = readers::phoebus::parse(text);
    let values = rows.iter().map(|row| (row["PV"].clone(), readers::phoebus::value(row).0));
    File {
        values: values.collect(),
        left_out: text.lines().filter_map(|line| left_out(line, "# ")).collect(),
    }
}

fn read(format: &str, text: &str) -> File {
    match format {
        "caput" => caput(text),
        "autosave" => autosave(text),
        "burt" => burt(text),
        _ => phoebus(text),
    }
}

/// What a PV was at a moment: a record by the observer's reading, another field by the last put to it.
fn value_of(truth: &Truth, moment: &str, pv: &str) -> Option<Value> {
    let pv = pv.trim_end_matches(".$");
    let reading = &truth.part("moments")[moment]["readings"][pv];
    if !reading.is_null() {
        return Some(reading["value"].clone());
    }
    let when = truth.moment(moment);
    let to_it = |put: &&Value| put["pv"] == *pv && time(put, "begin") < when;
    truth.puts().iter().rfind(to_it).map(|put| put["after"].clone())
}

/// Whether texts stand for a value. A state or a menu's choice stands as its number, or as one of these labels.
fn is_written(texts: &[String], value: &Value, labels: &[String]) -> bool {
    let is_one = |text: &String, value: &Value| match value {
        // characters have a sign in some of the formats
        Value::Number(number) => match text.parse::<i64>() {
            Ok(integer) if number.is_i64() || number.is_u64() => {
                Some(integer) == number.as_i64() || (integer < 0 && Some(integer + 256) == number.as_i64())
            }
            _ => {
                // a reader takes the first state of that name
                let state = labels.iter().position(|label| label == text).map(|state| state as u64);
                undo::is_near(number, text) || !text.is_empty() && state.is_some() && state == number.as_u64()
            }
        },
        Value::String(word) => {
            let is_odd = ["NaN", "Infinity", "-Infinity"].contains(&word.as_str());
            let same = |one: f64, other: f64| one == other || one.is_nan() && other.is_nan();
            text == word
                || is_odd && text.parse().is_ok_and(|text| word.parse().is_ok_and(|word| same(word, text)))
                || labels.iter().position(|label| label == word).map(|n| n.to_string()).as_ref() == Some(text)
        }
        _ => false,
    };
    match value {
        Value::Array(all) => {
            all.len() == texts.len() && all.iter().zip(texts).all(|(value, text)| is_one(text, value))
        }
        value => texts.len() == 1 && is_one(&texts[0], value),
    }
}

/// The labels of a record's states, by its database.
fn labels(truth: &Truth, pv: &str) -> Vec<String> {
    const NAMES: [&str; 6] = ["ZR", "ON", "TW", "TH", "FR", "FV"];
    let fields = &truth.part("records")[pv]["fields"];
    let of = |name: String| fields[name].as_str().map(str::to_owned);
    let two: Vec<String> = ["ZNAM", "ONAM"].iter().filter_map(|name| of(name.to_string())).collect();
    let mut more: Vec<String> =
        NAMES.iter().map(|name| of(format!("{name}ST")).unwrap_or_default()).collect();
    more.truncate(more.iter().rposition(|label| !label.is_empty()).map_or(0, |last| last + 1));
    match two.is_empty() {
        true => more,
        false => two,
    }
}

/// What is wrong with the files of `at` at these moments, and with those of `diff`, which hold what was at the first.
pub fn wrong_files(plant: &Plant, moments: &[&str]) -> Vec<String> {
    let truth = &plant.truth;
    let last = *moments.last().expect("a moment");
    let mut wrong = Vec::new();
    for format in FORMATS {
        for moment in moments {
            let when = iso(truth.moment(moment));
            let (code, text, said) = plant.outcome(&["at", &when, "--utc", "--format", format]);
            assert_eq!(code, 0, "{said}");
            let file = read(format, &text);
            assert!(file.values.len() > 10, "{format}: {text}");
            wrong.extend(differences(truth, moment, format, &file));
            let seen = plant.lines_of_at(moment);
            for record in truth.part("records").as_object().expect("records").keys() {
                let long = format!("{record}.$");
                let is_in = file.values.contains_key(record) || file.values.contains_key(&long);
                let is_named =
                    file.left_out.contains(record) || said.contains(&format!("{record} is left out"));
                // the format has room for so many comments
                let more = text.lines().any(|line| line.ends_with("more are left out."));
                // of a record without a value that nothing was ever seen of, nothing is said
                let is_seen = seen.contains(record);
                if is_seen && !is_in && !is_named && !more {
                    wrong.push(format!("{moment}, {format}: nothing is said of {record}"));
                }
                if is_in && is_named {
                    wrong.push(format!("{moment}, {format}: {record} is in, and left out"));
                }
            }
            if *moment == last {
                continue;
            }
            let until = iso(truth.moment(last));
            let (code, text, said) = plant.outcome(&["diff", &when, &until, "--utc", "--format", format]);
            assert_eq!(code, 0, "{said}");
            let file = read(format, &text);
            wrong.extend(differences(truth, moment, format, &file));
            for (pv, values) in &file.values {
                // only what differs
                let then = value_of(truth, last, pv).unwrap_or_default();
                let is_scanned = truth.list("scanned").contains(&json!(pv));
                if !is_scanned && is_written(&as_read(truth, pv, values), &then, &labels(truth, pv)) {
                    wrong.push(format!("{moment} to {last}, {format}: {pv} does not differ"));
                }
            }
        }
    }
    wrong
}

/// Numbers of 32 bits as the observer has them: with the fewest digits.
fn as_read(truth: &Truth, pv: &str, values: &[String]) -> Vec<String> {
    let is_float = truth.part("records")[pv]["fields"]["FTVL"] == "FLOAT";
    let shortest =
        |text: &String| text.parse::<f32>().map_or_else(|_| text.clone(), |number| number.to_string());
    values.iter().map(|text| if is_float { shortest(text) } else { text.clone() }).collect()
}

fn differences(truth: &Truth, moment: &str, format: &str, file: &File) -> Vec<String> {
    let mut wrong = Vec::new();
    for (pv, values) in &file.values {
        if truth.list("scanned").contains(&json!(pv)) {
            continue; // it changed while the observer read it
        }
        // a menu's choices are not in the database
        let is_choice = [".HHSV", ".CMD"].iter().any(|field| pv.ends_with(field));
        let values = as_read(truth, pv, values);
        match value_of(truth, moment, pv) {
            Some(_) if is_choice => {}
            Some(value) if is_written(&values, &value, &labels(truth, pv)) => {}
            value => wrong.push(format!("{moment}, {format}: {pv} is {values:?}, not {value:?}")),
        }
    }
    wrong
}

#[test]
fn files_that_restore_hold_what_was() {
    let Some(plant) = plant("plant-restoring") else { return };
    is_right(&wrong_files(plant, &["T0", "T2", "T3", "T4"]));
}

#[test]
fn words_and_escapes_are_read() {
    assert_eq!(words(r"back 'it'\''s' '' a"), ["back", "it's", "", "a"]);
    assert_eq!(unescaped(r#"\xc2\xb5m \"\\\t"#), "µm \"\\\t");
    let file =
        autosave("# autosave R5.3\nA:B @array@ { \"1\" \"a\\\"b\" }\nC d e\n# D is left out: no\n<END>\n");
    assert_eq!(file.values["A:B"], ["1", "a\"b"]);
    assert_eq!((&file.values["C"][0], &file.left_out[0]), (&"d e".to_owned(), &"D".to_owned()));
    assert!(is_written(&["-1".into()], &json!(255), &[]) && !is_written(&["1".into()], &json!([1, 2]), &[]));
    assert!(is_written(&["On".into()], &json!(1), &["Off".into(), "On".into()]));
    assert!(same(&json!(1), &json!(1.0)));
}
