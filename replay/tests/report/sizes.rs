//! The page of a log that is empty, of one with a single put, and of a flood, in a real browser: it is quiet, loads
//! nothing, counts what there is, and says what it leaves out.

use crate::chromium::{self, Chromium};
use crate::common::{ca_put, complete, process, put, run, write_events, CLIENT, SECOND};
use crate::load::crowd::Crowd;
use crate::load::write_crowd;
use crate::not_run::{not_run, Needs};
use iocrec_log::event::{Fact, PutKind};
use serde_json::Value;
use std::path::Path;

/// More puts than the page has room for.
const FLOOD: Crowd = Crowd { pvs: 10_000, circuits: 20, rounds: 4, pace: 10_000 };

/// What the browser saw of the page of a log.
struct Seen {
    /// The whole text, with everything opened.
    text: String,
    sums: String,
    rows: i64,
    said: String,
}

/// Makes the page of the log in a directory and looks at it: it must be ready, and quiet whatever is clicked, brushed or
/// searched.
fn look(directory: &Path) -> Option<Seen> {
    let Some(program) = chromium::program() else {
        not_run("sizes", Needs::Program("chromium"));
        return None;
    };
    let (code, _, said) = run(directory, &["report", "--utc", "log", "-o", "report.html"]);
    assert_eq!(code, 0, "{said}");
    let file = directory.join("report.html");
    let mut browser = Chromium::start(program);
    browser.open(&file, (1440, 900), "");
    assert_eq!(browser.eval("document.documentElement.dataset.ready"), "yes");
    let sums = browser.text("#sums");
    let rows = browser.eval("document.querySelectorAll('#put-rows tr').length").as_i64().expect("a number");
    browser.eval(
        "[...document.querySelectorAll('#chain-list li, #alarm-rows tr, #put-rows tr, details, button')] \
         .slice(0, 200).forEach(one => one.click())",
    );
    for key in ["?", "Escape", "j", "k", "+", "-", "Backspace", "/"] {
        browser.press(key);
    }
    browser.drag((300.0, 400.0), (700.0, 400.0));
    browser.resize(400, 800);
    browser.settle();
    // what can be seen, without the page's code
    let text = browser.eval("document.body.innerText").as_str().expect("text").to_owned();
    let requests = browser.seen("Network.requestWillBeSent");
    let urls: Vec<&str> = requests.iter().filter_map(|request| request["request"]["url"].as_str()).collect();
    assert_eq!(urls, [format!("file://{}", file.display())]);
    for method in ["Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"] {
        let seen: Vec<Value> = browser.seen(method);
        assert!(seen.is_empty(), "{method}: {seen:?}");
    }
    for nonsense in ["NaN", "undefined", "Infinity", "[object", "Invalid Date"] {
        assert!(!text.contains(nonsense), "{nonsense} in {text}");
    }
    Some(Seen { text, sums, rows, said })
}

#[test]
fn an_empty_log() {
    let directory = tempfile::tempdir().unwrap();
    write_events(&directory.path().join("log"), "box1", 7, Vec::new());
    let Some(seen) = look(directory.path()) else { return };
    // one that says so
    assert_eq!(seen.rows, 1, "{}", seen.text);
    assert!(seen.text.contains("Nothing was recorded"), "{}", seen.text);
    assert!(seen.text.contains("No put from outside the IOCs is in this log."), "{}", seen.text);
    assert!(seen.said.contains("these logs hold no processing and no puts"), "{}", seen.said);
    assert!(!seen.text.contains("1970"), "{}", seen.text);
}

#[test]
fn a_log_with_one_put() {
    let directory = tempfile::tempdir().unwrap();
    let step = 100_000;
    let at = SECOND;
    let facts: Vec<(u64, Fact)> = vec![
        (at, ca_put(1, 1, false, 1, 2.0)),
        (at + step, put(PutKind::PutField, CLIENT, -1000, 1, (1, 1), 1.0, 2.0)),
        (at + 2 * step, put(PutKind::Put, CLIENT, -1200, 0, (1, 1), 1.0, 2.0)),
        (at + 3 * step, process(CLIENT, -1200, 0, 1)),
        (at + 4 * step, complete(CLIENT, -1700, 1, 2.0, 0)),
    ];
    write_events(&directory.path().join("log"), "box1", 7, facts);
    let Some(seen) = look(directory.path()) else { return };
    assert!(seen.rows == 1 && seen.said.is_empty(), "{} rows: {}", seen.rows, seen.said);
    assert!(seen.sums.contains("1 put") && !seen.sums.contains("1 puts"), "{}", seen.sums);
    assert!(seen.text.contains("T:SP") && seen.text.contains("alice"), "{}", seen.text);
}

#[test]
fn a_flood() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir(directory.path().join("log")).unwrap();
    write_crowd(&directory.path().join("log"), FLOOD).unwrap();
    let Some(seen) = look(directory.path()) else { return };
    let size = std::fs::metadata(directory.path().join("report.html")).unwrap().len();
    assert!(size < 5_500_000, "{size} bytes");
    // what it has not kept, it says
    let all = FLOOD.pvs * FLOOD.rounds;
    assert!(seen.sums.contains("≥ ") && seen.rows > 10, "{}", seen.sums);
    let [thousands, rest] = [all / 1000, all % 1000];
    let of = format!("of {thousands}\u{202f}{rest:03} in the log; iocreplay puts LOG shows all");
    let plain = |text: &str| text.replace(['\u{202f}', '\u{a0}', '\u{2009}'], " ");
    assert!(plain(&seen.text).contains(&plain(&of)), "{of} in {}", seen.text);
}
