//! What IOCs used of the machine: rates, sums, names and gaps of a written log, and of one that no recorder would write.

mod common;

use common::{happenings, run, write_events, SECOND};
use iocrec_log::event::*;
use std::path::Path;

const DEMO: u32 = 1;

fn thread(id: u32, name: &str) -> Fact {
    Fact::from(WatchedThread { id, ioc: DEMO, name: name.into() })
}

/// A while of so many milliseconds, in which so many were used.
fn used(period: u64, cpu: u64, resident: u64, most: Vec<ThreadUse>) -> Fact {
    Fact::from(Resources {
        ioc: DEMO,
        period: period * 1000,
        cpu: Some(cpu * 1000),
        waiting: Some(cpu * 100),
        minor_faults: 3,
        major_faults: 2,
        resident: Some(resident),
        threads: 20,
        descriptors: Some(11),
        udp_drops: None,
        most,
    })
}

fn share(thread: u32, cpu: u64) -> ThreadUse {
    ThreadUse { thread, cpu: cpu * 1000, waiting: 0, times: 10 }
}

fn lines(directory: &Path, more: &[&str]) -> Vec<serde_json::Value> {
    let (code, out, err) = run(directory, &[&["health", "log", "--json", "--utc"], more].concat());
    assert_eq!(code, 0, "{err}");
    out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Three whiles, the last after a pause of ten seconds.
fn written(directory: &Path) {
    let mut all = happenings();
    all.extend([
        (10 * SECOND, thread(1, "scan-1")),
        (10 * SECOND, used(1000, 250, 20_480, vec![share(1, 240)])),
        (13 * SECOND, used(3000, 30, 20_480, vec![share(1, 20)])),
        (24 * SECOND, thread(2, "CAC-event")),
        (24 * SECOND, used(1000, 1500, 30_720, vec![share(2, 1400), share(9, 50)])),
    ]);
    write_events(&directory.join("log"), "box1", 1, all);
}

#[test]
fn rates_are_those_of_each_period() {
    let place = tempfile::tempdir().unwrap();
    written(place.path());
    let found = lines(place.path(), &[]);
    let of = |key: &str| found.iter().map(|line| line[key].as_f64().unwrap()).collect::<Vec<_>>();
    assert_eq!(of("cpu_percent"), [25.0, 1.0, 150.0]);
    assert_eq!(of("waiting_percent"), [2.5, 0.1, 15.0]);
    assert_eq!(of("seconds"), [1.0, 3.0, 1.0]);
    assert_eq!(of("resident_bytes"), [20_971_520.0, 20_971_520.0, 31_457_280.0]);
    let names: Vec<_> = found.iter().map(|line| line["most"][0]["thread"].as_str().unwrap()).collect();
    assert_eq!(names, ["scan-1", "scan-1", "CAC-event"], "by their numbers");
    assert!(found[2]["most"][1]["thread"].is_null(), "not known");
    assert_eq!(found[1]["since"], "2026-09-21T14:13:30.000000000+00:00");
    assert_eq!(found[1]["time"], "2026-09-21T14:13:33.000000000+00:00");
    assert!(found.iter().all(|line| line["ioc"] == "demo" && line["pid"] == 100 && line["host"] == "box1"));
    assert_eq!(
        lines(place.path(), &["--since", "2026-09-21T14:13:32Z", "--until", "2026-09-21T14:13:40Z"]).len(),
        1
    );
    assert_eq!(lines(place.path(), &["--ioc", "second"]).len(), 0);
    let (code, csv, _) = run(place.path(), &["health", "log", "--format", "csv"]);
    assert!(code == 0 && csv.lines().count() == 4 && csv.starts_with("time,since,seconds,"), "{csv}");
}

#[test]
fn the_tables_add_up_and_a_pause_is_a_gap() {
    let place = tempfile::tempdir().unwrap();
    written(place.path());
    let (code, out, err) = run(place.path(), &["health", "log", "--utc"]);
    assert_eq!(code, 0, "{err}");
    let words: Vec<Vec<&str>> = out.lines().map(|line| line.split_whitespace().collect()).collect();
    // 1780 ms of 5 s; at most 150 %; 20 MiB, then 30; 3 times 2 faults
    let expected = ["demo", "35.6", "150.0", "3.6", "15.0", "30.0", "30.0", "+10.0", "6", "11", "20"];
    assert_eq!(words[1][..11], expected, "{out}");
    assert!(out.contains("2026-09-21T14:13:29+00:00, 5 s of 15 s"), "{out}");
    let of = |name: &str| words.iter().find(|line| line.first() == Some(&name)).cloned().unwrap_or_default();
    assert_eq!(of("CAC-event")[..2], ["CAC-event", "28.0"], "{out}");
    assert_eq!(of("scan-1")[..2], ["scan-1", "5.2"], "{out}");
    assert_eq!(of("(others)")[..2], ["(others)", "1.4"], "what no thread is told of: {out}");

    let (code, plot, err) = run(place.path(), &["health", "log", "--plot", "--svg", "health.svg"]);
    assert_eq!(code, 0, "{err}");
    let svg = std::fs::read_to_string(place.path().join("health.svg")).unwrap();
    for name in ["CPU [% of one CPU]", "resident memory [MiB]", "descriptors", "CPU of thread CAC-event"] {
        assert!(plot.contains(name) && svg.contains(name), "{name}: {plot}");
    }
    assert!(svg.contains("url(#u)"), "the pause is hatched");
    assert!(plot.contains('░'), "{plot}");
}

/// The IOC goes on while a recorder is started anew: it is one IOC. What a recorder beside the first tells is not added.
#[test]
fn an_ioc_of_several_recorders_is_one() {
    let place = tempfile::tempdir().unwrap();
    let whiles = |from: u64| {
        let mut all = happenings();
        all.extend([from, from + 1].map(|at| (at * SECOND, used(1000, 250, 20_480, vec![]))));
        all
    };
    let [one, beside, next] = ["one", "beside", "next"].map(|name| place.path().join(name));
    write_events(&one, "box1", 1, whiles(10));
    write_events(&beside, "box1", 2, whiles(10));
    write_events(&next, "box1", 3, whiles(40));
    let told = |logs: &[&str]| {
        let (code, out, err) = run(place.path(), &[&["health", "--utc", "--ioc", "demo"], logs].concat());
        assert_eq!(code, 0, "{err}");
        let of_demo = out.lines().filter(|line| line.starts_with("demo ")).map(str::to_owned);
        of_demo.collect::<Vec<_>>()
    };
    let after = told(&["one", "next"]);
    assert!(after.len() == 1 && after[0].ends_with(", 4 s of 32 s"), "{after:?}");
    let at_once = told(&["one", "beside"]);
    assert!(at_once.len() == 1 && at_once[0].ends_with(", 2 s"), "{at_once:?}");
}

/// A client and its two channels, from 10.25 s to 12.5 s: at the end of a row, and until a time that is asked for.
#[test]
fn clients_and_channels_are_those_of_each_while() {
    let place = tempfile::tempdir().unwrap();
    let mut all = happenings();
    let address = |last, port| Address::new(std::net::Ipv4Addr::new(10, 0, 0, last), port);
    let (client, server, user, host) = (address(6, 42_000), address(9, 5064), String::new(), String::new());
    let origin = Origin::Opened;
    let at = 10 * SECOND + SECOND / 4;
    all.push((at, Fact::from(Circuit { id: 20, client, server, user, host, minor: 13, origin })));
    all.push((
        at,
        Fact::CircuitEnds(CircuitEnds { circuit: 20, namespace: 7, server: Some(DEMO), client: None }),
    ));
    for id in [30, 31] {
        let (cid, sid, dbr, count, pv) = (Some(id), Some(id), Some(6), Some(1), "T:SP".to_owned());
        all.push((at, Fact::from(Channel { id, circuit: 20, cid, sid, pv, dbr, count, origin })));
    }
    all.push((11 * SECOND + SECOND / 2, Fact::ChannelEnd(30)));
    all.push((12 * SECOND + SECOND / 2, Fact::CircuitEnd(20)));
    for second in 10..14 {
        all.push((second * SECOND, used(1000, 250, 20_480, vec![])));
    }
    all.sort_by_key(|(time, _)| *time);
    write_events(&place.path().join("log"), "box1", 1, all);
    let of = |key: &str, more: &[&str]| {
        lines(place.path(), more).iter().map(|line| line[key].as_u64()).collect::<Vec<_>>()
    };
    assert_eq!(of("clients", &[]), [Some(0), Some(1), Some(1), Some(0)]);
    assert_eq!(of("channels", &[]), [Some(0), Some(2), Some(1), Some(0)]);
    let table = |more: &[&str]| {
        let (code, out, err) = run(place.path(), &[&["health", "log", "--utc"], more].concat());
        assert_eq!(code, 0, "{err}");
        let words: Vec<String> = out.lines().nth(1).unwrap().split_whitespace().map(str::to_owned).collect();
        [words[11].clone(), words[12].clone()]
    };
    assert_eq!(table(&[]), ["0", "0"]);
    assert_eq!(table(&["--until", "2026-09-21T14:13:31.5Z"]), ["1", "2"], "as it was then");
    let (code, plot, _) = run(place.path(), &["health", "log", "--plot"]);
    assert!(code == 0 && plot.contains("clients") && plot.contains("channels"), "{plot}");
}

/// A client counts since it connected, not since its server was found; once one was forgotten, nobody knows how many there are.
#[test]
fn clients_that_are_not_known_are_not_counted() {
    let place = tempfile::tempdir().unwrap();
    let mut all = happenings();
    all.push((10 * SECOND, used(1000, 250, 20_480, vec![])));
    let ends =
        |circuit| Fact::CircuitEnds(CircuitEnds { circuit, namespace: 7, server: Some(DEMO), client: None });
    // circuit 1 was opened at the begin, and its server was found at 10.5 s
    all.push((10 * SECOND + SECOND / 2, ends(1)));
    all.push((11 * SECOND, used(1000, 250, 20_480, vec![])));
    all.push((11 * SECOND + SECOND / 2, Fact::CircuitForgotten(1)));
    all.push((12 * SECOND, used(1000, 250, 20_480, vec![])));
    write_events(&place.path().join("log"), "box1", 1, all);
    let clients: Vec<_> = lines(place.path(), &[]).iter().map(|line| line["clients"].as_u64()).collect();
    assert_eq!(clients, [Some(1), Some(1), None]);
}

#[test]
fn what_no_recorder_writes() {
    let place = tempfile::tempdir().unwrap();
    let huge = ThreadUse { thread: u32::MAX, cpu: u64::MAX, waiting: u64::MAX, times: u64::MAX };
    let mut all = happenings();
    for (at, period) in [(10, 0), (11, u64::MAX), (12, 1), (12, 1_000_000)] {
        for (ioc, amount) in [(DEMO, Some(u64::MAX)), (DEMO, None), (77, Some(0)), (DEMO, Some(1))] {
            let fact = Resources {
                ioc,
                period,
                cpu: amount,
                waiting: amount,
                minor_faults: u64::MAX,
                major_faults: u64::MAX,
                resident: amount,
                threads: u32::MAX,
                descriptors: Some(u32::MAX),
                udp_drops: amount,
                most: vec![huge; 40],
            };
            all.push((at * SECOND, Fact::from(fact)));
        }
    }
    all.push((13 * SECOND, thread(3, "\u{1b}[31m\"<&>\n")));
    all.push((13 * SECOND, used(1000, 500, 1, vec![share(3, 500)])));
    write_events(&place.path().join("log"), "box1", 1, all);
    for more in [&[][..], &["--json"], &["--format", "csv"], &["--plot"], &["--svg", "health.svg"]] {
        let (code, out, err) = run(place.path(), &[&["health", "log"], more].concat());
        assert_eq!(code, 0, "{more:?}: {err}");
        assert!(!out.contains('\u{1b}') && !out.contains("NaN") && !out.contains("inf"), "{more:?}: {out}");
    }
    let svg = std::fs::read_to_string(place.path().join("health.svg")).unwrap();
    assert!(!svg.contains("\"<&>") && !svg.contains("NaN") && svg.contains("&lt;&amp;&gt;"));
}

#[test]
fn a_log_without_it_says_why() {
    let place = tempfile::tempdir().unwrap();
    write_events(&place.path().join("log"), "box1", 1, happenings());
    let (code, out, err) = run(place.path(), &["health", "log"]);
    assert_eq!((code, out.as_str()), (0, ""));
    assert!(err.contains("--no-resources"), "{err}");
}
