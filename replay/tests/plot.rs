//! What `values --plot` and `--svg` draw, read back from the drawing and compared with what `values` lists.

mod common;

use common::{iocreplay, outcome};
use iocreplay::output::plot::axis::Scale;
use iocreplay::time::{Boundary, Zone};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Columns of a terminal.
const WIDTHS: [usize; 4] = [40, 81, 113, 300];
/// Columns before a plot, and the last of those.
const BEFORE: usize = 14;
/// Rows of a plot of numbers, and dots of one.
const ROWS: usize = 8;
const DOTS: usize = 4;
/// PVs of the plant: numbers that are set, read back, scanned, of 64 bits, constant, that an IOC took along; states.
const NUMBERS: [&str; 5] = ["LI:MAG1:RB", "LI:TICK3", "LI:COUNT64", "LI:COR20:SP", "RF:AMP:SP"];
const STATES: [&str; 4] = ["LI:MODE", "LI:VALVE", "LI:FLAP:GATE", "RF:CAV3:ON"];

fn plant() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/plant/log")
}

fn ask(arguments: &[&str], width: usize) -> String {
    let log = plant();
    let arguments = [&["values"], arguments, &["--utc", log.to_str().unwrap()]].concat();
    let (code, out, err) = outcome(iocreplay(&arguments).env("COLUMNS", width.to_string()).output().unwrap());
    assert!(code == 0, "{arguments:?}: {err}");
    out
}

fn nanoseconds(text: &str) -> i64 {
    Zone::utc().parse(text, Boundary::Start).expect("a time").wall
}

/// What a PV was: from when to when, with its severity; the last up to the end of the drawing. In between it is unknown.
fn held(pv: &str) -> Vec<(i64, i64, f64, Option<u16>)> {
    let mut held: Vec<(i64, i64, f64, Option<u16>)> = Vec::new();
    let mut is_open = false;
    for line in ask(&[pv, "--format", "jsonl"], 80).lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let time = nanoseconds(line["time"].as_str().unwrap());
        if line["source"] == "gap" {
            if let Some(last) = held.last_mut().filter(|_| is_open) {
                last.1 = nanoseconds(line["since"].as_str().unwrap()).max(last.0);
            }
            is_open = false;
            continue;
        }
        let severity =
            ["NO_ALARM", "MINOR", "MAJOR", "INVALID"].iter().position(|name| line["severity"] == *name);
        let before = held.last().and_then(|last| last.3);
        if let Some(last) = held.last_mut().filter(|_| is_open) {
            last.1 = time;
        }
        let value = line["value"].as_f64().unwrap();
        held.push((time, i64::MAX, value, severity.map(|severity| severity as u16).or(before)));
        is_open = true;
    }
    held
}

/// What is drawn of a PV on the terminal: its rows without their labels, these, and the row of its alarms.
struct Drawn {
    from: i64,
    to: i64,
    labels: Vec<String>,
    rows: Vec<Vec<char>>,
    alarms: Vec<char>,
}

fn drawn(pv: &str, width: usize) -> Drawn {
    let text = ask(&[pv, "--plot"], width);
    for line in text.lines().skip(1).filter(|line| !line.starts_with("alarm: ") && !line.starts_with(pv)) {
        assert!(line.chars().count() <= width, "{width}: {text}");
    }
    let (from, to) = text.lines().next().unwrap().split_once(" to ").unwrap();
    let rows: Vec<(String, Vec<char>)> = text
        .lines()
        .skip_while(|line| !line.starts_with(pv))
        .skip(1)
        .take_while(|line| !line.is_empty())
        .map(|line| {
            let label: String = line.chars().take(BEFORE - 1).collect();
            (label.trim().to_owned(), line.chars().skip(BEFORE).collect())
        })
        .collect();
    let mut rows = rows;
    // columns with both a value and a gap
    if let Some((_, partly)) = rows.pop_if(|(label, _)| label == "partly") {
        assert!(partly.contains(&'░') && partly.iter().all(|letter| [' ', '░'].contains(letter)), "{text}");
    }
    let (labels, mut rows): (Vec<String>, Vec<Vec<char>>) = rows.into_iter().unzip();
    let alarms = rows.pop().unwrap();
    Drawn { from: nanoseconds(from), to: nanoseconds(to), labels, rows, alarms }
}

/// The columns, of `count`, that a span of time certainly touches, and those that it may touch: the drawing's times are
/// shown in milliseconds.
fn touched(drawn: &Drawn, count: usize, from: i64, to: i64) -> (BTreeSet<usize>, BTreeSet<usize>) {
    let width = (drawn.to - drawn.from) as f64 / count as f64;
    let column =
        |time: i64, by: i64| (((time + by - drawn.from) as f64 / width).max(0.0) as usize).min(count - 1);
    const SHOWN: i64 = 3_000_000;
    let (from, to) = (from.clamp(drawn.from, drawn.to), to.clamp(drawn.from, drawn.to));
    let surely = match (column(from, SHOWN), column(to, -SHOWN)) {
        (first, last) if first <= last => (first..=last).collect(),
        _ => BTreeSet::new(),
    };
    (surely, (column(from, -SHOWN)..=column(to, SHOWN)).collect())
}

/// Each dot is of a value that was there, or of a step; each value has its dots.
#[test]
fn dots_are_the_values() {
    for pv in NUMBERS {
        let held = held(pv);
        let mut compared = 0;
        for width in WIDTHS {
            let drawn = drawn(pv, width);
            let values = || held.iter().map(|(.., value, _)| *value);
            let (low, high) = (values().fold(f64::MAX, f64::min), values().fold(f64::MIN, f64::max));
            let scale = Scale::new(low, high, 4);
            let row = |value: f64| ((1.0 - scale.place(value)) * (ROWS * DOTS - 1) as f64).round() as usize;
            // where the labels are
            assert_eq!(drawn.rows.len(), ROWS);
            let mut labels = 0;
            for (number, label) in drawn.labels.iter().enumerate() {
                if let Ok(tick) = label.trim_end_matches(['┤', '│']).trim().parse::<f64>() {
                    assert_eq!(row(tick) / DOTS, number, "{pv}: {label} in {:?}", drawn.labels);
                    labels += 1;
                }
            }
            assert!(labels >= 2, "{:?}", drawn.labels);
            let count = (width - BEFORE) * 2;
            let mut may: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
            let mut must = may.clone();
            for (number, (from, to, value, _)) in held.iter().enumerate() {
                let (surely, perhaps) = touched(&drawn, count, *from, *to);
                surely.into_iter().for_each(|column| _ = must.entry(column).or_default().insert(row(*value)));
                let before =
                    number.checked_sub(1).map(|before| held[before]).filter(|before| before.1 == *from);
                let step = before.map_or(*value, |before| before.2);
                let steps = row(value.max(step))..=row(value.min(step));
                let (_, at) = touched(&drawn, count, *from, *from);
                perhaps.into_iter().for_each(|column| _ = may.entry(column).or_default().insert(row(*value)));
                at.into_iter().for_each(|column| may.entry(column).or_default().extend(steps.clone()));
            }
            for column in 0..count {
                let mut dots = BTreeSet::new();
                for (number, letters) in drawn.rows.iter().enumerate() {
                    let letter = letters.get(column / 2).copied().unwrap_or(' ') as u32;
                    let bits = letter.checked_sub(0x2800).filter(|bits| *bits < 256).unwrap_or(0);
                    let own = [[0, 1, 2, 6], [3, 4, 5, 7]][column % 2];
                    dots.extend(
                        (0..DOTS).filter(|at| bits >> own[*at] & 1 == 1).map(|at| number * DOTS + at),
                    );
                }
                let none = BTreeSet::new();
                let (must, may) = (must.get(&column).unwrap_or(&none), may.get(&column).unwrap_or(&none));
                // several values of a column are drawn from the lowest to the highest
                let whole: BTreeSet<usize> = match (may.first(), may.last()) {
                    (Some(first), Some(last)) => (*first..=*last).collect(),
                    _ => BTreeSet::new(),
                };
                assert!(dots.is_superset(must), "{pv}, {width}, column {column}: {dots:?} lacks {must:?}");
                assert!(
                    dots.is_subset(&whole),
                    "{pv}, {width}, column {column}: {dots:?} is not in {whole:?}"
                );
                compared += must.len();
            }
        }
        assert!(compared > 500, "{pv}: {compared}");
    }
}

/// A lane is filled where its state was, and nowhere else, also where states follow each other in a column.
#[test]
fn lanes_are_the_states() {
    for pv in STATES {
        let held = held(pv);
        for width in WIDTHS {
            let drawn = drawn(pv, width);
            let names: BTreeMap<String, f64> = ask(&[pv, "--format", "jsonl"], 80)
                .lines()
                .map(|line| serde_json::from_str::<Value>(line).unwrap())
                .filter_map(|line| Some((line["text"].as_str()?.to_owned(), line["value"].as_f64()?)))
                .collect();
            let labels = drawn.labels.iter().take(drawn.rows.len());
            let labels: BTreeSet<&str> = labels.map(|label| label.trim_end_matches('│').trim()).collect();
            assert_eq!(labels, names.keys().map(String::as_str).collect(), "{pv}");
            for (label, lane) in drawn.labels.iter().zip(&drawn.rows) {
                let state = names[label.trim_end_matches('│').trim()];
                let (mut must, mut may) = (BTreeSet::new(), BTreeSet::new());
                for (from, to, ..) in held.iter().filter(|(.., value, _)| *value == state) {
                    let (surely, perhaps) = touched(&drawn, width - BEFORE, *from, *to);
                    must.extend(surely);
                    may.extend(perhaps);
                }
                let filled: BTreeSet<usize> =
                    lane.iter().enumerate().filter(|(_, letter)| **letter == '█').map(|(at, _)| at).collect();
                assert!(filled.is_superset(&must), "{pv}, {width}, {label}: {filled:?} lacks of {must:?}");
                assert!(filled.is_subset(&may), "{pv}, {width}, {label}: {filled:?} is not in {may:?}");
            }
        }
    }
}

/// The row of alarms has the worst of each column.
#[test]
fn alarms_are_below() {
    for pv in ["LI:TEMP1", "LI:MODE", "RF:AMP:RB", "LI:FLAP"] {
        let held = held(pv);
        for width in WIDTHS {
            let drawn = drawn(pv, width);
            let (mut must, mut may) = (vec![None; width - BEFORE], vec![None; width - BEFORE]);
            for (from, to, _, severity) in &held {
                let (surely, perhaps) = touched(&drawn, width - BEFORE, *from, *to);
                surely.into_iter().for_each(|column| must[column] = must[column].max(*severity));
                perhaps.into_iter().for_each(|column| may[column] = may[column].max(*severity));
            }
            for column in 0..width - BEFORE {
                let letter = drawn.alarms.get(column).copied().unwrap_or(' ');
                let severity = ".mMI".chars().position(|name| name == letter).map(|severity| severity as u16);
                assert!(
                    severity >= must[column] && severity <= may[column],
                    "{pv}, {width}, {column}: {letter}"
                );
            }
        }
    }
}

/// The path of the SVG goes through every value, at its time.
#[test]
fn the_svg_has_the_values() {
    let directory = tempfile::tempdir().unwrap();
    for pv in NUMBERS {
        let file = directory.path().join("values.svg");
        ask(&[pv, "--svg", file.to_str().unwrap()], 80);
        let svg = std::fs::read_to_string(&file).unwrap();
        let (from, to) = svg
            .split_once("<title>Values, ")
            .unwrap()
            .1
            .split_once("</title>")
            .unwrap()
            .0
            .split_once(" to ")
            .unwrap();
        let (from, to) = (nanoseconds(from), nanoseconds(to));
        let held = held(pv);
        let values = || held.iter().map(|(.., value, _)| *value);
        let scale = Scale::new(values().fold(f64::MAX, f64::min), values().fold(f64::MIN, f64::max), 5);
        let (top, path) =
            (52.0, svg.split_once("<path class=\"v\" d=\"").unwrap().1.split('"').next().unwrap());
        let mut corners: Vec<(f64, f64)> = Vec::new();
        let (mut x, mut y) = (0.0, 0.0);
        let mut rest = path;
        while let Some(letter) = rest.chars().next() {
            let end = rest[1..].find(['M', 'H', 'V']).map_or(rest.len(), |at| at + 1);
            let numbers: Vec<f64> = rest[1..end].split(' ').map(|number| number.parse().unwrap()).collect();
            match letter {
                'M' => (x, y) = (numbers[0], numbers[1]),
                'H' => x = numbers[0],
                _ => y = numbers[0],
            }
            corners.push((x, y));
            rest = &rest[end..];
        }
        let place =
            |time: i64| 110.0 + ((time.min(to) - from) as f64 / (to - from) as f64).clamp(0.0, 1.0) * 870.0;
        let mut corners = corners.into_iter();
        for (begin, end, value, _) in &held {
            let height = top + (1.0 - scale.place(*value)) * 150.0;
            for time in [*begin, *end] {
                let (x, y) = corners.next().unwrap_or_else(|| panic!("{pv}: {value} is missing"));
                assert!((y - height).abs() < 0.06, "{pv}: {y}, not {height} for {value}");
                assert!((x - place(time)).abs() < 0.2, "{pv}: {x}, not {} for {value}", place(time));
            }
        }
        assert_eq!(corners.count(), 0, "{pv}: more than there was");
    }
}

/// Whoever asks for a picture and gets none is told so by the exit code, too; of several PVs those that can be are drawn.
#[test]
fn texts_are_no_drawing() {
    let place = tempfile::tempdir().unwrap();
    let svg = place.path().join("x.svg");
    let draw = |pvs: &[&str], how: &[&str]| {
        let log = plant();
        outcome(iocreplay([&["values"], pvs, how, &[log.to_str().unwrap()]].concat()).output().unwrap())
    };
    for how in [&["--plot"][..], &["--svg", svg.to_str().unwrap()]] {
        let (code, out, err) = draw(&["LI:NOTE"], how);
        assert_eq!((code, out.as_str(), err.lines().count()), (1, "", 1), "{err}");
        assert!(err.contains("LI:NOTE can't be drawn") && !svg.exists(), "{err}");
    }
    let (code, _, err) = draw(&["LI:NOTE", "LI:MODE"], &["--svg", svg.to_str().unwrap()]);
    assert_eq!((code, svg.exists()), (0, true), "{err}");
}
