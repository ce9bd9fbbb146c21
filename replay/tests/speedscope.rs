//! A profile of a recorded plant in speedscope, the real one, in a real browser: it takes the file, has a profile for each
//! IOC, and shows for each record the time that its stacks add up to.

#[path = "report/chromium.rs"]
#[allow(dead_code)] // the report's tests use the rest
mod chromium;
mod common;
#[path = "../../tests/rig/not_run.rs"]
mod not_run;

use chromium::Chromium;
use common::run;
use not_run::{not_run, Needs};
use serde_json::{json, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);

/// What an expression in the page gives, once `wanted` holds.
fn shown(browser: &mut Chromium, expression: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    let limit = Instant::now() + PATIENCE;
    loop {
        let value = browser.eval(expression);
        if wanted(&value) {
            return value;
        }
        assert!(Instant::now() < limit, "{expression} is {value}; the page: {}", browser.text("body"));
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The rows of the table of functions that are in view: total, self, name. (Another lists the profiles.)
const ROWS: &str =
    "[...document.querySelectorAll('tr')].map(row => [...row.querySelectorAll('td')].map(cell => \
    cell.textContent)).filter(cells => cells.length === 3 && cells[0].includes('%'))";

/// A time as speedscope writes it, such as `1.25ms (3.4%)`, in nanoseconds.
fn nanoseconds(text: &str) -> f64 {
    let time = text.split([' ', '(']).next().unwrap();
    let digits = time.trim_end_matches(|letter: char| !letter.is_ascii_digit());
    let unit = match &time[digits.len()..] {
        "ns" => 1.0,
        "µs" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        unit => panic!("{text}: {unit}"),
    };
    digits.parse::<f64>().unwrap_or_else(|error| panic!("{text}: {error}")) * unit
}

/// By IOC and frame, the time of all stacks with it, and of those that end there.
fn times(folded: &str) -> BTreeMap<(String, String), (f64, f64)> {
    let mut times: BTreeMap<_, (f64, f64)> = BTreeMap::new();
    for line in folded.lines() {
        let (stack, time) = line.rsplit_once(' ').unwrap();
        let time: f64 = time.parse().unwrap();
        let (ioc, frames) = stack.split_once(';').unwrap();
        let frames: Vec<&str> = frames.split(';').collect();
        for frame in frames.iter().collect::<BTreeSet<_>>() {
            times.entry((ioc.to_owned(), (*frame).to_owned())).or_default().0 += time;
        }
        times.entry((ioc.to_owned(), frames[frames.len() - 1].to_owned())).or_default().1 += time;
    }
    times
}

#[test]
fn speedscope_shows_what_took_time() {
    let test = "speedscope_shows_what_took_time";
    let Some(program) = chromium::program() else { return not_run(test, Needs::Program("chromium")) };
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = here.join("../.venv/node_modules/speedscope/dist/release/index.html");
    if !page.exists() {
        return not_run(test, Needs::Program("speedscope"));
    }
    let plant = here.join("tests/plant");
    let (code, profile, _) = run(&plant, &["profile", "log", "--format", "speedscope"]);
    assert_eq!(code, 0);
    let (_, folded, _) = run(&plant, &["profile", "log"]);
    let times = times(&folded);

    // as the program `speedscope` does with a file
    let place = tempfile::tempdir().unwrap();
    let script = place.path().join("profile.js");
    let loading = format!("speedscope.loadFileFromBase64('profile', btoa({}))", json!(profile));
    std::fs::write(&script, loading).unwrap();
    let mut browser = Chromium::start(program);
    browser.open(
        &page.canonicalize().unwrap(),
        (1400, 3000),
        &format!("#localProfilePath={}", script.display()),
    );

    for (number, ioc) in ["LINAC1", "RF1"].into_iter().enumerate() {
        let title = format!("{ioc} ({}/2)", number + 1);
        let has = format!("document.body.innerText.includes({})", json!(title));
        shown(&mut browser, &has, |found| found == &json!(true));
        if number == 0 {
            browser.eval(
                "[...document.querySelectorAll('div')].filter(of => of.innerText.trim().endsWith('Sandwich')).at(-1).click()",
            );
        }
        // those of this IOC, when the page has drawn them
        let is_of_it =
            |row: &Value| times.contains_key(&(ioc.to_owned(), row[2].as_str().unwrap().to_owned()));
        let wanted =
            |rows: &Value| rows.as_array().is_some_and(|rows| rows.len() > 20 && rows.iter().all(is_of_it));
        for row in shown(&mut browser, ROWS, wanted).as_array().unwrap() {
            let [total, own, name] = [0, 1, 2].map(|cell| row[cell].as_str().unwrap());
            let (all, ends) = times[&(ioc.to_owned(), name.to_owned())];
            for (said, truth) in [(total, all), (own, ends)] {
                // two digits behind the point
                let off = (nanoseconds(said) - truth).abs();
                assert!(off <= truth * 0.006 + 0.01, "{ioc} {name}: {said}, not {truth} ns");
            }
        }
        browser.eval("window.dispatchEvent(new KeyboardEvent('keypress', {key: 'n'}))");
    }
    let thrown = browser.seen("Runtime.exceptionThrown");
    assert!(thrown.is_empty(), "{thrown:?}");
}
