//! Whole answers, shown by the programs that they are written for: folded stacks by flamegraph.pl, DOT by Graphviz, Mermaid
//! by Mermaid in a real browser; samples and files that restore values by their readers' rules. What they show is what the rows
//! say.

#[path = "report/chromium.rs"]
#[allow(dead_code)] // the report's tests use the rest
mod chromium;
mod common;
#[path = "../../tests/rig/not_run.rs"]
mod not_run;

use chromium::Chromium;
use common::{ca_put, complete, process, put, run, write_events, CLIENT, MS, SECOND};
use iocrec_log::event::*;
use iocrec_testing::readers::samples::{imported, LOCALES};
use iocrec_testing::readers::{autosave, burt, phoebus};
use not_run::{not_run, Needs};
use serde_json::{json, Value as Json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A name with whatever means something in DOT, SVG or Mermaid.
const ODD: &str = "A\"<b>&lt;\\N#34;%%{init: {'theme':'dark'}}%%`$x`[1];";

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// What is answered about the log in a directory.
fn answer(directory: &Path, arguments: &[&str]) -> String {
    let (code, out, err) = run(directory, arguments);
    assert_eq!(code, 0, "{arguments:?}: {err}");
    out
}

/// A log with a put to [`ODD`].
fn odd(directory: &Path) {
    let channel = Channel {
        id: 9,
        circuit: 1,
        cid: Some(9),
        sid: Some(9),
        pv: ODD.into(),
        dbr: Some(6),
        count: Some(1),
        origin: Origin::Opened,
    };
    let record = Record { id: 9, ioc: 1, address: 8192, name: ODD.into(), rtype: "ao".into() };
    let t = SECOND;
    let events = vec![
        (MS, Fact::from(record)),
        (MS, Fact::from(channel)),
        (t, ca_put(1, 9, false, 1, 2.5)),
        (t + 1000, put(PutKind::PutField, CLIENT, -1000, 1, (9, 1), 1.0, 2.5)),
        (t + 1100, put(PutKind::Put, CLIENT, -1200, 0, (9, 1), 1.0, 2.5)),
        (t + 1200, process(CLIENT, -1200, 0, 9)),
        (t + 1300, complete(CLIENT, -1300, 9, 2.5, 0)),
    ];
    let log = directory.join("log");
    std::fs::create_dir(&log).unwrap();
    write_events(&log, "box1", 1, events);
}

/// Arrows: from where to where, the label, and whether it is dashed.
type Arrows = Vec<(String, String, String, bool)>;

/// The arrows as the rows have them.
fn listed(directory: &Path) -> Arrows {
    let arrow = |line: &str| {
        let row: Json = serde_json::from_str(line).unwrap();
        let word = |key: &str| row[key].as_str().unwrap().to_owned();
        let kind = word("kind");
        let label = match row["per_second"].as_f64() {
            Some(rate) => {
                // with what is worth a digit
                let digits = (1.0 - rate.log10().floor()).max(1.0) as usize;
                format!("{kind} {} ({rate:.digits$}/s)", row["count"])
            }
            None => format!("{kind} {}", row["count"]),
        };
        (word("from"), word("to"), label, kind == "CP" || kind == "CA")
    };
    let out = answer(directory, &["graph", "--format", "jsonl", "log"]);
    let mut listed: Arrows = out.lines().map(arrow).collect();
    listed.sort();
    listed
}

/// Every arrow of the plant's graph, and of one with a hostile name, is drawn as it is listed.
fn are_drawn(format: &str, mut draw: impl FnMut(&str) -> Json) {
    let place = tempfile::tempdir().unwrap();
    odd(place.path());
    for (directory, least) in [(here("tests/plant"), 100), (place.path().to_owned(), 1)] {
        let drawn = draw(&answer(&directory, &["graph", "--format", format, "log"]));
        let mut drawn: Arrows = serde_json::from_value(drawn).unwrap();
        drawn.sort();
        let listed = listed(&directory);
        assert!(listed.len() >= least, "{listed:?}");
        assert!(least > 1 || listed.iter().any(|arrow| arrow.1 == ODD), "{listed:?}");
        assert_eq!(drawn, listed);
    }
}

#[test]
fn graphviz_draws_every_arrow() {
    let module = here("../.venv/node_modules/@hpcc-js/wasm-graphviz/dist/index.js");
    let Ok(module) = module.canonicalize() else {
        return not_run("graphviz_draws_every_arrow", Needs::Program("Graphviz"));
    };
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("graph.dot");
    are_drawn("dot", |dot| {
        std::fs::write(&file, dot).unwrap();
        let script = here("tests/graphviz.mjs");
        let output = Command::new("node").args([&script, &module, &file]).output().unwrap();
        assert!(output.status.success(), "{dot}: {}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    });
}

/// Draws `text`, and tells what the nodes show, and which arrows there are.
const DRAWN: &str = "(async () => {
    mermaid.initialize({startOnLoad: false});
    const {svg} = await mermaid.render('drawn', text);
    const box = document.createElement('div');
    box.innerHTML = svg;
    const names = {};
    for (const node of box.querySelectorAll('g.node'))
        names[node.id.match(/flowchart-(n[0-9]+)-/)[1]] = node.textContent.trim();
    const {db} = await mermaid.mermaidAPI.getDiagramFromText(text);
    return db.getEdges().map(of => [names[of.start], names[of.end], of.text, of.stroke === 'dotted']);
})()";

#[test]
fn mermaid_draws_every_arrow() {
    let test = "mermaid_draws_every_arrow";
    let Some(program) = chromium::program() else { return not_run(test, Needs::Program("chromium")) };
    let script = here("../.venv/node_modules/@mermaid-js/tiny/dist/mermaid.tiny.js");
    let Ok(script) = script.canonicalize() else { return not_run(test, Needs::Program("Mermaid")) };
    let place = tempfile::tempdir().unwrap();
    let page = place.path().join("page.html");
    let source = format!(
        "<!doctype html><meta charset=utf-8><body><script src='file://{}'></script>",
        script.display()
    );
    std::fs::write(&page, source).unwrap();
    let mut browser = Chromium::start(program);
    browser.open(&page, (1400, 1000), "");
    are_drawn("mermaid", |text| {
        browser.eval(&format!("window.text = {}", json!(text)));
        browser.eval(DRAWN)
    });
}

/// A text of SVG.
fn decoded(text: &str) -> String {
    text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&")
}

/// Each frame has the time of the stacks that begin as it does.
#[test]
fn flamegraph_shows_what_took_time() {
    let program = here("../.venv/flamegraph.pl");
    if !program.exists() {
        return not_run("flamegraph_shows_what_took_time", Needs::Program("flamegraph.pl"));
    }
    let folded = answer(&here("tests/plant"), &["profile", "log"]);
    let mut times: BTreeMap<Vec<&str>, u64> = BTreeMap::new();
    for line in folded.lines() {
        let (stack, time) = line.rsplit_once(' ').unwrap();
        let frames: Vec<&str> = stack.split(';').collect();
        let time: u64 = time.parse().unwrap();
        (0..=frames.len()).for_each(|count| *times.entry(frames[..count].to_vec()).or_default() += time);
    }
    let mut expected: Vec<(String, u64)> = times
        .into_iter()
        .map(|(frames, time)| ((*frames.last().unwrap_or(&"all")).to_owned(), time))
        .collect();
    expected.sort();

    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("folded");
    std::fs::write(&file, &folded).unwrap();
    let output = Command::new("perl")
        .arg(program)
        .args(["--minwidth", "0", "--width", "3000"])
        .arg(&file)
        .env("LC_ALL", "C")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && said.is_empty(), "{said}");
    let svg = String::from_utf8(output.stdout).unwrap();
    // <title>NAME (1,234 samples, 5.67%)</title>
    let shown = |title: &str| {
        let title = decoded(title.split_once("</title>").unwrap().0);
        let (name, rest) = title.rsplit_once(" (").unwrap();
        let (count, _) = rest.split_once(" samples").unwrap_or_else(|| panic!("{title}"));
        (name.to_owned(), count.replace(',', "").parse::<u64>().unwrap())
    };
    let mut shown: Vec<(String, u64)> = svg.split("<title>").skip(1).map(shown).collect();
    shown.sort();
    assert!(expected.len() > 300, "{folded}");
    assert_eq!(shown, expected);
}

/// Samples of whole histories, in whatever locale they are imported.
#[test]
fn samples_are_the_values() {
    let plant = here("tests/plant");
    let mut truth: BTreeMap<String, Vec<(String, f64)>> = BTreeMap::new();
    for line in answer(&plant, &["values", "*", "--utc", "--format", "jsonl", "log"]).lines() {
        let row: Json = serde_json::from_str(line).unwrap();
        let Some(value) = row["value"].as_f64().filter(|_| row["unseen"].is_null()) else { continue };
        let time = row["time"].as_str().unwrap();
        // to the millisecond
        let time = format!("{} {}", &time[..10], &time[11..23]);
        truth.entry(row["pv"].as_str().unwrap().to_owned()).or_default().push((time, value));
    }
    assert!(truth.len() > 150, "{}", truth.len());
    // some with many values, and some of all kinds
    let mut pvs: Vec<&String> = truth.keys().collect();
    pvs.sort_by_key(|pv| (std::cmp::Reverse(truth[*pv].len()), *pv));
    for (at, pv) in pvs.into_iter().enumerate().filter(|(at, _)| at % 8 == 0) {
        let samples = answer(&plant, &["values", pv, "--utc", "--format", "databrowser", "log"]);
        for signs in LOCALES {
            let read: Vec<(String, f64)> = samples.lines().filter_map(|line| imported(line, signs)).collect();
            assert_eq!(read, truth[pv], "{at}, {pv}");
        }
    }
}

/// The values in a file that restores them, as texts.
fn restored(format: &str, file: &str) -> BTreeMap<String, Vec<String>> {
    let text = |bytes| String::from_utf8(bytes).unwrap();
    match format {
        "autosave" => {
            let restored = autosave::restored(file).into_iter();
            restored.map(|(pv, of)| (pv, of.values.into_iter().map(text).collect())).collect()
        }
        "burt" => {
            let values = |line: burt::Line| {
                assert_eq!(line.values.len(), usize::try_from(line.count).unwrap(), "{line:?}");
                match line.values.as_slice() {
                    // nothing, which is behind the end of an array
                    [nothing] if nothing == "\\0" => (line.name, vec![String::new()]),
                    _ => (line.name, line.values.into_iter().filter(|value| value != "\\0").collect()),
                }
            };
            burt::parse(file).into_iter().map(values).collect()
        }
        _ => phoebus::parse(file).1.iter().map(|row| (row["PV"].clone(), phoebus::value(row).0)).collect(),
    }
}

/// Whether texts stand for the value of a row, a state by its name or by its number.
fn stands_for(texts: &[String], row: &Json, by_name: bool) -> bool {
    let is_one = |value: &Json, text: &String| match (value.as_f64(), text.parse::<f64>()) {
        // 0.1 of 32 bits has more digits in some formats, and characters have a sign
        (Some(number), Ok(found)) => {
            number == found || number as f32 == found as f32 || found < 0.0 && number == found + 256.0
        }
        (Some(_), Err(_)) => false,
        (None, _) => value.as_str().is_some_and(|word| word == text || word == "NaN" && text == "nan"),
    };
    match (&row["value"], row["text"].as_str()) {
        (Json::Array(all), _) => {
            all.len() == texts.len() && all.iter().zip(texts).all(|(value, text)| is_one(value, text))
        }
        (_, Some(name)) if by_name => texts == [name],
        (value, _) => texts.len() == 1 && is_one(value, &texts[0]),
    }
}

/// Whole files that restore the values of a moment, of logs of many machines.
#[test]
fn files_that_restore_are_what_was() {
    let mut logs: Vec<PathBuf> =
        std::fs::read_dir(here("tests/travelled")).unwrap().map(|entry| entry.unwrap().path()).collect();
    logs.retain(|log| log.is_dir());
    logs.push(here("tests/plant/log"));
    let mut read = [0; 3];
    for log in &logs {
        let of = |words: &[&str]| answer(log, &[words, &["--utc", "--format", "jsonl", "."]].concat());
        let rows = |text: &str| -> Vec<Json> {
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
        };
        let word = |row: &Json, key: &str| row[key].as_str().unwrap().to_owned();
        let times: Vec<String> = rows(&of(&["values", "*"])).iter().map(|row| word(row, "time")).collect();
        for part in 1..3 {
            let time = times[times.len() * part / 3].as_str();
            let truth: BTreeMap<String, Json> =
                rows(&of(&["at", time])).into_iter().map(|row| (word(&row, "pv"), row)).collect();
            for (format, read) in ["autosave", "burt", "phoebus-snapshot"].into_iter().zip(&mut read) {
                let file = answer(log, &["at", time, "--utc", "--format", format, "."]);
                for (pv, texts) in restored(format, &file) {
                    let row = &truth[pv.trim_end_matches(".$")];
                    assert!(
                        stands_for(&texts, row, format != "autosave"),
                        "{format}: {texts:?} is not {row}"
                    );
                    *read += 1;
                }
            }
        }
    }
    let [autosave, burt, phoebus] = read;
    assert!(autosave > 150 && burt > 400 && phoebus > 400, "{read:?}");
}
