//! The same in every format: CSV says what JSON lines do, for every listing; what the put log of caPutLog has; what is
//! drawn.

use super::truth::{record_of, time};
use super::{is_right, nanoseconds, plant, same, Plant};
use serde_json::{json, Value};

/// The rows of CSV, by RFC 4180.
pub fn csv(text: &str) -> Vec<Vec<String>> {
    let (mut rows, mut row, mut cell) = (Vec::new(), Vec::new(), String::new());
    let (mut quoted, mut letters) = (false, text.chars().peekable());
    while let Some(letter) = letters.next() {
        match letter {
            '"' if quoted && letters.peek() == Some(&'"') => cell.extend(letters.next()),
            '"' => quoted = !quoted,
            ',' if !quoted => row.push(std::mem::take(&mut cell)),
            '\n' if !quoted => {
                row.push(std::mem::take(&mut cell));
                rows.push(std::mem::take(&mut row));
            }
            letter => cell.push(letter),
        }
    }
    if !row.is_empty() || !cell.is_empty() {
        row.push(cell);
        rows.push(row);
    }
    rows
}

/// What is wrong with the CSV of a listing, measured by its JSON lines.
pub fn differences(plant: &Plant, arguments: &[&str]) -> Vec<String> {
    let of = |format: &str| {
        let (code, out, said) = plant.outcome(&[arguments, &["--utc", "--format", format]].concat());
        assert_eq!(code, 0, "{arguments:?}: {said}");
        out
    };
    let lines = crate::rig::json_lines(of("jsonl").as_bytes());
    let mut rows = csv(&of("csv"));
    let head = rows.remove(0);
    let mut wrong = Vec::new();
    if rows.len() != lines.len() || lines.is_empty() {
        wrong.push(format!("{arguments:?}: {} rows, {} lines", rows.len(), lines.len()));
    }
    for (row, line) in rows.iter().zip(&lines) {
        let of_line: Vec<&String> = line.as_object().expect("an object").keys().collect();
        if row.len() != head.len() || head.iter().any(|name| !of_line.contains(&name)) {
            wrong.push(format!("{arguments:?}: {head:?}, {row:?}, not {of_line:?}"));
            break;
        }
        for (name, cell) in head.iter().zip(row) {
            let is_same = match &line[name] {
                Value::Null => cell.is_empty(),
                // as on a terminal, and not as a formula
                Value::String(text) => {
                    let text = [('\t', "\\t"), ('\n', "\\n"), ('\x1b', "\\x1b")]
                        .iter()
                        .fold(text.clone(), |text, (letter, shown)| text.replace(*letter, shown));
                    text == cell.strip_prefix('\'').unwrap_or(cell) || text == *cell
                }
                value @ (Value::Array(_) | Value::Object(_)) => {
                    serde_json::from_str::<Value>(cell).is_ok_and(|cell| cell == *value)
                }
                value => serde_json::from_str::<Value>(cell).is_ok_and(|cell| same(&cell, value)),
            };
            if !is_same {
                wrong.push(format!("{arguments:?}: {name} is {cell:?}, not {}", line[name]));
            }
        }
    }
    wrong
}

/// The listings that have both.
pub const LISTINGS: [&[&str]; 9] = [
    &["puts", "--all"],
    &["alarms", "--all"],
    &["values", "*"],
    &["clients"],
    &["net", "--all"],
    &["top", "-n", "0"],
    &["graph"],
    &["alarms"],
    &["metrics", "--step", "10s"],
];

#[test]
fn csv_says_what_json_lines_say() {
    let Some(plant) = plant("plant-csv") else { return };
    is_right(&LISTINGS.iter().flat_map(|arguments| differences(plant, arguments)).collect::<Vec<_>>());
    let moment = super::iso(plant.truth.moment("T3"));
    is_right(&differences(plant, &["at", &moment]));
    is_right(&differences(plant, &["diff", &super::iso(plant.truth.moment("T1")), &moment]));
}

/// Level 2 has a line for every put that the module sees, with the values before and after; without bursts level 1 has
/// the same, and level 0 those that changed something.
#[test]
fn the_put_log_of_each_level() {
    let Some(plant) = plant("plant-caputlog") else { return };
    // the module sees neither what the server denied nor the shell
    let seen = |put: &&Value| put["outcome"] != "denied" && !put["client"].is_null();
    let all: Vec<&Value> = plant.truth.puts().iter().filter(seen).collect();
    let of = |level: &str, burst: &str| {
        let (code, out, said) =
            plant.outcome(&["puts", "--format", "caputlog", "--level", level, "--burst", burst, "--utc"]);
        assert!(code == 0 && said.contains("3 puts are not in it"), "{said}");
        out.lines().map(str::to_owned).collect::<Vec<String>>()
    };
    // far less than the script waits between two puts
    let (one, two) = (of("1", "1ms"), of("2", "1ms"));
    assert_eq!(one, two);
    // written when what it waited for is over
    let sorted = |mut lines: Vec<String>| {
        lines.sort();
        lines
    };
    assert_eq!(sorted(two.clone()), sorted(of("2", "5s")), "level 2 knows no bursts");
    assert_eq!(two.len(), all.len());
    for (line, put) in two.iter().zip(&all) {
        let client = plant.truth.client(&put["client"]).expect("a client");
        let words: Vec<&str> = line.split(' ').collect();
        assert_eq!(
            (json!(words[2]), json!(words[3])),
            (client["host"].clone(), client["user"].clone()),
            "{line}"
        );
        assert_eq!(json!(words[4]), put["pv"], "{line}");
        // its clock shows seconds
        let clock = words[1].split(':').map(|part| part.parse::<i64>().expect("a number"));
        let second = clock.fold(0, |sum, part| sum * 60 + part);
        let of_day = |key: &str| time(put, key) / 1_000_000_000 % 86_400;
        assert!((of_day("begin")..=of_day("end") + 1).contains(&second), "{line}: {put}");
        let after = |sign: &str| line.split_once(sign).map(|(_, rest)| rest.to_owned()).expect(sign);
        for (sign, key) in [(" new=", "after"), (" old=", "before")] {
            let Some(number) = put[key].as_f64() else { continue };
            let text = after(sign);
            let shown = text.split(' ').next().expect("a value");
            let refused = put["outcome"] == "ECA_PUTFAIL" || line.ends_with(" inexact");
            // as the module prints numbers: six digits, 64-bit integers whole
            let near = shown.parse::<f64>().is_ok_and(|shown| (shown - number).abs() <= 1e-5 * number.abs());
            assert!(near || (refused && shown == "?") || put["dbr"].as_u64() >= Some(35), "{line}: {put}");
        }
    }
    let changed: Vec<&String> = two
        .iter()
        .zip(&all)
        .filter(|(line, put)| line.ends_with(" inexact") || !same(&put["before"], &put["after"]))
        .map(|(line, _)| line)
        .collect();
    let zero = of("0", "1ms");
    // of an array the module compares its first element
    let missing = changed.iter().filter(|line| !zero.contains(line)).filter(|line| {
        let old = line.split_once(" old=").map(|(_, old)| old.trim_end_matches(" inexact"));
        let new = line.split_once(" new=").and_then(|(_, new)| new.split_once(" old=")).map(|(new, _)| new);
        old != new
    });
    assert_eq!(missing.count(), 0, "{zero:?}");
    assert!(zero.iter().all(|line| changed.contains(&line)), "{zero:?}");
}

/// An SVG file has a step for each value, at its time and its height.
#[test]
fn drawings_have_a_step_for_each_value() {
    let Some(plant) = plant("plant-svg") else { return };
    let file = std::env::temp_dir().join(format!("iocrec-plant-{}.svg", std::process::id()));
    let path = file.to_str().expect("a UTF-8 path");
    let pv = "LI:MAG1:SP";
    plant.replay(&["values", pv, "--utc", "--svg", path]);
    let svg = std::fs::read_to_string(&file).expect("it was written");
    std::fs::remove_file(&file).expect("it is there");
    let inside = |from: &str, to: &str| {
        svg.split_once(from)
            .and_then(|(_, rest)| rest.split_once(to))
            .map(|(found, _)| found.to_owned())
            .expect(from)
    };
    let title = inside("<title>Values, ", "</title>");
    let (from, to) = title.split_once(" to ").expect("two times");
    let (from, to) = (nanoseconds(&json!(from)) as f64, nanoseconds(&json!(to)) as f64);
    // M x y, then H x V y for each value, then H to the end
    let path = inside("<path class=\"v\" d=\"M", "\"/>");
    let steps: Vec<(f64, f64)> = path
        .split('H')
        .skip(1)
        .filter_map(|step| step.split_once('V'))
        .map(|(x, y)| (x.parse().expect("a place"), y.parse().expect("a height")))
        .collect();
    let puts: Vec<&Value> =
        plant.truth.puts().iter().filter(|put| record_of(put["pv"].as_str().expect("a PV")) == pv).collect();
    assert_eq!(steps.len(), puts.len(), "{path}");
    for ((x, y), put) in steps.iter().zip(&puts) {
        let place = |key: &str| 110.0 + (time(put, key) as f64 - from) / (to - from) * 870.0;
        // the times of the title are in milliseconds, places in tenths of a pixel
        assert!(*x >= place("begin") - 0.15 && *x <= place("end") + 0.15, "{x}: {put}");
        // LOPR and HOPR are 0 and 100, and the plot is 150 pixels high
        let height = 202.0 - put["after"].as_f64().expect("a number") * 1.5;
        assert!((y - height).abs() < 0.06, "{y}, not {height}: {put}");
    }
    // which has no lines for what came after the end, and says so
    let (code, samples, said) = plant.outcome(&["values", "LI:PHASE:SP", "--utc", "--format", "databrowser"]);
    assert!(code == 0 && said.contains("left out 1 gap"), "{said}");
    let own = plant.truth.puts().iter().filter(|put| put["pv"] == "LI:PHASE:SP").count();
    // the first was read by the recorder
    assert_eq!(samples.lines().filter(|line| !line.starts_with('#')).count(), own + 1, "{samples}");
}
