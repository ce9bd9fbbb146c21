//! What IOCs used of the machine, on the page in a real browser: as many points as the log has changes, gaps hatched, names of
//! threads as they are, in both themes.

use crate::chromium::{self, Chromium};
use crate::common::{definitions, happenings, run, write_events, SECOND};
use crate::not_run::{not_run, Needs};
use iocrec_log::event::*;
use serde_json::{json, Value};
use std::net::Ipv4Addr;
use std::path::Path;

/// The name of a thread that tries to be a part of the page; the kernel's have 15 letters at most.
const THREAD: &str = "<script>x()</sc";
const DEMO: u32 = 1;
/// The seconds in which something was used, one row each; between 29 and 40 no recorder looked.
const KNOWN: [std::ops::Range<u64>; 2] = [10..29, 40..60];

/// CPU of a second, in milliseconds: other in each second.
fn cpu(second: u64) -> u64 {
    100 + second
}

fn used(ioc: u32, period: u64, cpu: u64, thread: Option<u32>) -> Fact {
    Fact::from(Resources {
        ioc,
        period: period * 1_000_000,
        cpu: Some(cpu * 1000),
        waiting: Some(0),
        minor_faults: 0,
        major_faults: 0,
        resident: Some(20_480),
        threads: 20,
        descriptors: Some(11),
        udp_drops: None,
        most: thread
            .map(|thread| ThreadUse { thread, cpu: cpu * 900, waiting: 0, times: 10 })
            .into_iter()
            .collect(),
    })
}

/// A client that came while the recorder looked on, and its channels.
fn client(facts: &mut Vec<(u64, Fact)>, at: u64, id: u32, channels: u32) {
    let server = Address::new(Ipv4Addr::new(10, 0, 0, 9), 5064);
    let client = Address::new(Ipv4Addr::new(10, 0, 0, 6), 42_000 + id as u16);
    let (user, host) = ("bob".to_owned(), "control-1".to_owned());
    let circuit = Circuit { id, client, server, user, host, minor: 13, origin: Origin::Opened };
    facts.push((at, Fact::from(circuit)));
    facts.push((
        at,
        Fact::CircuitEnds(CircuitEnds { circuit: id, namespace: 7, server: Some(DEMO), client: None }),
    ));
    for number in 0..channels {
        let (cid, sid, dbr, count) = (Some(number), Some(number), Some(6), Some(1));
        let (id, circuit, origin) = (id * 100 + number, id, Origin::Opened);
        let pv = format!("T:{number}");
        facts.push((at, Fact::from(Channel { id, circuit, cid, sid, pv, dbr, count, origin })));
    }
}

fn story() -> Vec<(u64, Fact)> {
    let mut facts = happenings();
    facts.push((9 * SECOND, Fact::from(WatchedThread { id: 1, ioc: DEMO, name: THREAD.into() })));
    for second in KNOWN.into_iter().flatten() {
        facts.push(((second + 1) * SECOND, used(DEMO, 1, cpu(second), Some(1))));
    }
    // two clients at once from 45.25 s to 50.5 s, one before; a third comes and goes within a second
    client(&mut facts, 42 * SECOND, 20, 3);
    client(&mut facts, 45 * SECOND + SECOND / 4, 21, 4);
    facts.push((50 * SECOND + SECOND / 2, Fact::CircuitEnd(21)));
    client(&mut facts, 55 * SECOND + SECOND / 4, 22, 1);
    facts.push((55 * SECOND + SECOND / 2, Fact::CircuitEnd(22)));
    facts.sort_by_key(|(time, _)| *time);
    facts
}

fn page(directory: &Path, story: Vec<(u64, Fact)>) -> String {
    write_events(&directory.join("log"), "box1", 7, story);
    let (code, out, err) = run(directory, &["report", "--utc", "log", "-o", "report.html"]);
    assert_eq!((code, out.as_str(), err.as_str()), (0, "", ""));
    std::fs::read_to_string(directory.join("report.html")).unwrap()
}

/// The data of the page.
fn data(page: &str) -> Value {
    let (_, after) = page.split_once("id=\"data\">").unwrap();
    serde_json::from_str(after.split_once("</script>").unwrap().0).unwrap()
}

fn plot<'a>(data: &'a Value, title: &str) -> &'a Value {
    let plots = data["usage"][0]["plots"].as_array().unwrap();
    plots.iter().find(|plot| plot["title"] == title).unwrap_or_else(|| panic!("no {title} in {data}"))
}

/// Seconds of the log and values of a line.
fn line(data: &Value, title: &str, number: usize) -> Vec<(f64, Option<f64>)> {
    let line = &plot(data, title)["lines"][number];
    let times = line["time"].as_array().unwrap().iter().map(|time| time.as_f64().unwrap());
    let values = line["value"].as_array().unwrap().iter().map(Value::as_f64);
    // the page's times count from the first put, at 1 s
    times.map(|time| time / 1000.0 + 1.0).zip(values).collect()
}

#[test]
fn each_change_and_each_gap_is_a_point() {
    let directory = tempfile::tempdir().unwrap();
    let page = page(directory.path(), story());
    let data = data(&page);
    // each second has its own value, then it is not known
    let mut expected: Vec<(f64, Option<f64>)> = Vec::new();
    for known in KNOWN {
        expected.extend(known.clone().map(|second| (second as f64, Some(cpu(second) as f64 / 10.0))));
        expected.push((known.end as f64, None));
    }
    assert_eq!(line(&data, "CPU", 0), expected);
    let of_thread: Vec<_> = expected
        .iter()
        .map(|(time, value)| (*time, value.map(|value| (value * 900.0).round() / 1000.0)))
        .collect();
    assert_eq!(line(&data, "CPU", 1), of_thread);
    assert_eq!(plot(&data, "CPU")["lines"][1]["name"], THREAD);
    // what does not change is one point for each time in which it is known
    let memory = [(10.0, Some(20.0)), (29.0, None), (40.0, Some(20.0)), (60.0, None)];
    assert_eq!(line(&data, "Resident memory", 0), memory);
    let clients = [
        (10.0, Some(0.0)),
        (29.0, None),
        (40.0, Some(0.0)),
        (42.0, Some(1.0)),
        (45.25, Some(2.0)),
        (50.5, Some(1.0)),
        (55.25, Some(2.0)),
        (56.0, Some(1.0)),
        (60.0, None),
    ];
    assert_eq!(line(&data, "Clients", 0), clients);
    let channels: Vec<_> = line(&data, "Channels", 0).into_iter().filter_map(|(_, value)| value).collect();
    assert_eq!(channels, [0.0, 0.0, 3.0, 7.0, 3.0, 4.0, 3.0]);
    assert_eq!(data["usage_left_out"], json!([0, 0]));
    // readable without scripts
    let mean = KNOWN.into_iter().flatten().map(cpu).sum::<u64>() as f64 / 39.0 / 10.0;
    let words = format!("{mean:.1} % of one CPU, at most 15.9 %; 20.0 MiB of memory at the end (+0.0 MiB)");
    assert!(page.contains(&words), "{words}");
    assert!(
        page.contains("11 descriptors, 20 threads, 1 client, 3 channels at the end; known for 39 s of 50 s")
    );
    assert!(!page.contains("<script>x()"));
}

/// Two recorders told of the same seconds.
#[test]
fn two_recorders_beside_each_other() {
    let directory = tempfile::tempdir().unwrap();
    write_events(&directory.path().join("log"), "box1", 7, story());
    write_events(&directory.path().join("other"), "box1", 8, story());
    let (_, _, err) = run(directory.path(), &["report", "--utc", "log", "other", "-o", "report.html"]);
    let page = std::fs::read_to_string(directory.path().join("report.html"));
    let page = page.unwrap_or_else(|_| panic!("{err}"));
    assert!(page.contains("at the end; known for 39 s of 50 s"), "{err}");
    // a point for each second, and two ends
    assert_eq!(line(&data(&page), "CPU", 0).len(), 41);
}

#[test]
fn the_plots_are_drawn_in_both_themes() {
    let Some(program) = chromium::program() else {
        return not_run("the_plots_are_drawn_in_both_themes", Needs::Program("chromium"));
    };
    let directory = tempfile::tempdir().unwrap();
    let page = page(directory.path(), story());
    let mut browser = Chromium::start(program);
    browser.open(&directory.path().join("report.html"), (1440, 900), "#resources");
    assert_eq!(browser.eval("document.documentElement.dataset.ready"), "yes");
    let points = |title: &str| format!("document.querySelector('[data-usage=\"{title}\"]').dataset.points");
    assert_eq!(browser.eval(&points("CPU")), "41 41");
    assert_eq!(browser.eval(&points("Clients")), "9");
    assert_eq!(browser.eval("document.querySelectorAll('#usage .plot').length"), 7);
    assert!(browser.text("#usage").contains(THREAD));
    assert_eq!(browser.eval("document.querySelectorAll('#usage script, #usage img').length"), 0);
    // The CPU's plot: mostly empty where it is known, hatched all over in the gap.
    let pixels = |browser: &mut Chromium, title: &str, from: f64, to: f64| -> Vec<u64> {
        // how many pixels have each colour between two times of the log, the most frequent first
        let script = format!(
            "(() => {{ const box = document.querySelector('[data-usage=\"{title}\"]'), canvas = box.querySelector('canvas');
              const over = box.querySelector('.u-over'), scale = devicePixelRatio;
              const begin = 1, end = 60, at = t => Math.round((parseFloat(over.style.left) + (t - begin) / (end - begin) * over.clientWidth) * scale);
              const top = Math.round(parseFloat(over.style.top) * scale), height = Math.round(over.clientHeight * scale);
              const image = canvas.getContext('2d').getImageData(at({from}), top, at({to}) - at({from}), height).data;
              const counts = new Map();
              for (let i = 0; i < image.length; i += 4) {{ const key = image.slice(i, i + 4).join(); counts.set(key, (counts.get(key) || 0) + 1); }}
              return [counts.size, image.length / 4, Math.max(...counts.values())]; }})()"
        );
        serde_json::from_value(browser.eval(&script)).unwrap()
    };
    for theme in ["light", "dark"] {
        let known = pixels(&mut browser, "CPU", 12.0, 27.0);
        let gap = pixels(&mut browser, "CPU", 31.0, 38.0);
        // a plot is mostly empty; hatching is everywhere
        assert!(known[2] * 100 > known[1] * 80, "{theme}: {known:?}");
        assert!(gap[2] * 100 < gap[1] * 90 && gap[0] > 4, "{theme}: {gap:?}");
        assert!(known[2] < known[1], "{theme}: nothing is drawn: {known:?}");
        // a value that does not change goes on up to the gap, and holds to the end
        for (from, to) in [(26.0, 28.5), (57.0, 59.0)] {
            // below the grid's lines, a line over the whole width
            let memory = pixels(&mut browser, "Resident memory", from, to);
            let empty = pixels(&mut browser, "Resident memory", 31.0, 38.0);
            assert!(memory[0] > 2 && empty[0] > 4, "{theme}: {memory:?} {empty:?}");
        }
        browser.eval("document.getElementById('theme').click()");
        browser.settle();
    }
    // a chosen time, the IOC's filter, a small window, paper
    browser.press("+");
    browser.resize(800, 600);
    browser.settle();
    let over = browser.eval("document.documentElement.scrollWidth - innerWidth").as_i64().unwrap();
    let wide = "[...document.querySelectorAll('body *')].filter(one => one.getBoundingClientRect().right > innerWidth).map(one => one.id + one.className + ' ' + one.getBoundingClientRect().right).slice(0, 5)";
    assert!(over <= 0, "{over} px too wide: {}", browser.eval(wide));
    browser.eval("dispatchEvent(new Event('beforeprint')), dispatchEvent(new Event('afterprint'))");
    browser.settle();
    for method in ["Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"] {
        let mut seen = browser.seen(method);
        // this test reads the canvas
        seen.retain(|entry| !entry.to_string().contains("willReadFrequently"));
        assert!(seen.is_empty(), "{method}: {seen:?}");
    }
    assert!(page.contains("href=\"#resources\""));
}

#[test]
fn many_iocs_stay_within_the_limits() {
    let directory = tempfile::tempdir().unwrap();
    let mut facts = Vec::new();
    let known = definitions("box1").into_iter().find_map(|fact| match fact {
        Fact::Ioc(ioc) => Some(*ioc),
        _ => None,
    });
    for ioc in 100..130_u32 {
        let of = Ioc { id: ioc, pid: ioc, name: format!("ioc{ioc}"), ..known.clone().unwrap() };
        facts.push((SECOND, Fact::from(of)));
    }
    for second in 2..2000 {
        for ioc in 100..130 {
            facts.push((second * SECOND, used(ioc, 1, second % 97 + u64::from(ioc), None)));
        }
    }
    let page = page_of_many(directory.path(), facts);
    let data = data(&page);
    assert_eq!(data["usage"].as_array().unwrap().len(), 20);
    assert_eq!(data["usage_left_out"], json!([10, 0]));
    let lines = data["usage"].as_array().unwrap().iter().flat_map(|of| of["plots"].as_array().unwrap());
    let points: usize = lines
        .flat_map(|plot| plot["lines"].as_array().unwrap())
        .map(|line| line["time"].as_array().unwrap().len())
        .sum();
    assert!((2000..=30_000).contains(&points), "{points}");
    assert!(page.len() < 1_500_000, "{}", page.len());
}

/// A page of a log without processing and puts, of which it says so.
fn page_of_many(directory: &Path, story: Vec<(u64, Fact)>) -> String {
    write_events(&directory.join("log"), "box1", 7, story);
    let (code, _, err) = run(directory, &["report", "--utc", "log", "-o", "report.html"]);
    assert!(code == 0 && err.contains("no processing"), "{err}");
    std::fs::read_to_string(directory.join("report.html")).unwrap()
}
