//! Two IOCs of one name on one host, side by side: every output tells them apart, and `--ioc` can choose one. The same
//! IOC, started anew, is one.

mod common;

use common::every::every;
use common::{
    complete, definitions, happenings, iocreplay, outcome, process, run, write_events, SCAN, SECOND, WALL,
};
use iocrec_log::event::*;
use iocrec_log::storage::{Clocked, Directory};
use iocrec_log::writer::{Options, Writer};
use std::cell::Cell;
use std::path::Path;
use std::rc::Rc;

/// The second IOC of the common log, but with the name of the first, and perhaps as a process that began later.
fn other(pid: u32, id: u32) -> Fact {
    let ioc = definitions("box1").into_iter().find_map(|fact| match fact {
        Fact::Ioc(ioc) if ioc.name == "second" => Some(ioc),
        _ => None,
    });
    Fact::from(Ioc { name: "demo".into(), pid, id, ..*ioc.unwrap() })
}

fn side_by_side(directory: &Path) {
    let mut all = vec![(0, other(200, 2))];
    all.extend(happenings());
    write_events(&directory.join("log"), "box1", 1, all);
}

/// The places at which an answer names the IOC, with what follows.
fn named(answer: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for (at, _) in answer.match_indices("demo") {
        let end = (at + 24..answer.len()).find(|end| answer.is_char_boundary(*end)).unwrap_or(answer.len());
        found.push(&answer[at..end]);
    }
    found
}

#[test]
fn every_output_tells_them_apart() {
    let place = tempfile::tempdir().unwrap();
    side_by_side(place.path());
    let (mut seen, mut failed) = (0, Vec::new());
    for words in every("log", "T:SP", "2026-09-21T14:13:22.5Z") {
        let out = iocreplay(&words).current_dir(place.path()).output().unwrap();
        for name in named(&String::from_utf8_lossy(&out.stdout)) {
            seen += 1;
            let is_plain = ["demo on box1  pid ", "demo on box1, pid ", "demo  pid "];
            let is_told = name.starts_with("demo pid 100") || name.starts_with("demo pid 200");
            if !is_told && !is_plain.iter().any(|plain| name.starts_with(plain)) {
                failed.push(format!("{words:?}: {name:?}"));
            }
        }
    }
    assert!(seen > 100, "{seen}");
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// What two recorders of a host saw at the same time is told by both; of two hosts it is not the same.
#[test]
fn what_is_recorded_twice_is_said() {
    let place = tempfile::tempdir().unwrap();
    let [one, beside, elsewhere] = ["one", "beside", "elsewhere"].map(|name| place.path().join(name));
    write_events(&one, "box1", 1, happenings());
    write_events(&beside, "box1", 2, happenings());
    write_events(&elsewhere, "box2", 3, happenings());
    let said = |words: &[&str]| {
        let (code, _, err) = run(place.path(), words);
        assert_eq!(code, 0, "{words:?}: {err}");
        err.matches("recorded by several recorders at the same time: demo of box1").count()
    };
    let commands = "puts,clients,top,last,alarms,values T:SP,traces,graph,profile,metrics,logs,console";
    // it counts the changes between two times
    let diff = "diff 2026-09-21T14:13:20Z 2026-09-21T14:13:30Z";
    let more = "net,stuck,io,health,undo --since 2026-01-01,report -o report.html";
    for command in commands.split(',').chain(more.split(',')).chain([diff]) {
        let words: Vec<&str> = command.split(' ').collect();
        let asked = |of: &[&str]| said(&[&words[..], of].concat());
        assert_eq!(asked(&["one", "beside"]), 1, "{command}");
        assert_eq!(asked(&["--host", "box2", "one", "beside", "elsewhere"]), 0, "{command}");
        assert_eq!(asked(&["one", "elsewhere"]), 0, "{command}");
    }
}

/// A recorder's run with one process of the IOC demo.
fn write_process(log: &Path, run: u128, (pid, start): (u32, u64), events: Vec<(u64, Fact)>) {
    std::fs::create_dir_all(log).unwrap();
    let wall = Rc::new(Cell::new(WALL));
    let clocked = Clocked { storage: Directory::open(log).unwrap(), wall: Rc::clone(&wall) };
    let mut writer = Writer::open(clocked, Options::default(), run).unwrap();
    let process = |fact| match fact {
        Fact::Ioc(ioc) if ioc.id == 1 => Fact::from(Ioc { pid, start, ..*ioc }),
        fact => fact,
    };
    let begin = definitions("box1").into_iter().map(|fact| (0, process(fact)));
    let mut now = 0;
    for (time, fact) in begin.chain(events) {
        now = time;
        writer.push(Event { time, fact });
        wall.set(WALL + time as i64);
        writer.tick(time);
    }
    writer.close(now);
}

/// Two recorders of a host have one IOC each, of one name: neither of these was started anew.
#[test]
fn two_recorders_with_an_ioc_each_of_one_name() {
    let place = tempfile::tempdir().unwrap();
    let calc = |time: u64, value: f64| {
        [(time, process(SCAN, -100, 2, 2)), (time + 1000, complete(SCAN, -200, 2, value, 0))]
    };
    let clock = |time: u64| (time, Fact::Clock(Clock { wall: WALL + time as i64 }));
    let end = (20 * SECOND, Fact::Mark("end".into()));
    let first = [vec![clock(10 * SECOND)], calc(12 * SECOND, 1.0).to_vec(), vec![end.clone()]].concat();
    write_process(&place.path().join("one"), 1, (100, SECOND), first);
    let second = [calc(13 * SECOND, 2.0).to_vec(), vec![end]].concat();
    write_process(&place.path().join("two"), 2, (300, 2 * SECOND), second);
    let (code, out, err) = run(place.path(), &["why", "T:CALC", "--json", "one", "two"]);
    assert_eq!(code, 0, "{err}");
    let answer: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&answer["pid"], &answer["started_anew"]), (&300.into(), &false.into()), "{answer}");
    let others = answer["others"].as_array().unwrap();
    assert!(others.iter().any(|other| other["pid"] == 100), "{answer}");
}

#[test]
fn one_can_be_chosen() {
    let place = tempfile::tempdir().unwrap();
    side_by_side(place.path());
    let ask = |ioc: &str, words: &[&str]| {
        let (code, out, err) = run(place.path(), &[words, &["--ioc", ioc, "log"]].concat());
        assert_eq!(code, 0, "{words:?}: {err}");
        (out, err)
    };
    for words in [&["puts", "--all"][..], &["values", "*"], &["traces"], &["top"], &["graph"], &["records"]] {
        let (both, said) = ask("demo", words);
        assert!(both.contains("R:FAR") && both.contains("T:SP"), "{words:?}: {both}");
        let several = "2 IOCs of box1 are called demo, and all are shown; to choose one: --ioc 'demo pid 100' or 'demo pid 200'";
        assert!(said.contains(several), "{words:?}: {said}");
        let (one, said) = ask("demo pid 200", words);
        assert!(one.contains("R:FAR") && !said.contains("are called"), "{words:?}: {one} {said}");
        if !["traces", "graph"].contains(&words[0]) {
            assert!(!one.contains("T:CALC"), "{words:?}: {one}");
        }
    }
    let (last, _) = ask("demo pid 200", &["last", "--json"]);
    assert!(last.contains(r#""ioc":"demo pid 200""#), "{last}");
    let (_, said) = ask("demo pid 3", &["puts"]);
    assert!(said.contains("no IOC matches 'demo pid 3'") && said.contains("demo pid 100"), "{said}");
    // the client of the put to R:FAR is not known to be an IOC here, so nothing is said of it
    let (code, out, _) =
        outcome(iocreplay(["puts", "--client", "demo*", "log"]).current_dir(place.path()).output().unwrap());
    assert_eq!((code, out.as_str()), (0, ""));
}

/// Any user's program may call itself so: what it does is not told as that of the other.
#[test]
fn one_that_is_called_almost_like_another_is_told_from_it() {
    for name in ["demo pid 100", "demo ", "demo\u{a0}"] {
        let place = tempfile::tempdir().unwrap();
        let named = |fact: Fact| match fact {
            Fact::Ioc(ioc) => Fact::from(Ioc { name: name.into(), ..*ioc }),
            other => other,
        };
        let mut all = vec![(0, named(other(200, 2)))];
        all.extend(happenings());
        write_events(&place.path().join("log"), "box1", 1, all);
        let ask = |words: &[&str]| {
            let (code, out, err) = run(place.path(), &[words, &["log"]].concat());
            assert_eq!(code, 0, "{words:?}: {err}");
            out
        };
        let shown = format!("{name} pid 200");
        for words in [&["puts", "--all"][..], &["values", "*"], &["top"], &["records"]] {
            let out = ask(words).replace('"', "");
            assert!(out.contains(&shown), "{words:?}: {out}");
            assert!(!out.replace(&shown, "").contains("demo pid"), "{words:?}: {out}");
        }
        for words in [&["values", "*"][..], &["records"]] {
            // a cause, which is further right, may name PVs of the other
            let of = |ioc: &str| {
                let out = ask(&[words, &["--ioc", ioc]].concat());
                let has =
                    |pv: &str| out.lines().any(|line| line.split_whitespace().take(3).any(|word| word == pv));
                (has("T:SP"), has("R:FAR"))
            };
            assert_eq!(of("demo pid 100"), (true, false), "{words:?}");
            assert_eq!(of(&shown), (false, true), "{words:?}");
        }
    }
}

#[test]
fn an_ioc_that_is_started_anew_is_one() {
    let place = tempfile::tempdir().unwrap();
    let mut all = happenings();
    all.push((4 * SECOND, Fact::IocEnd(IocEnd { ioc: 1, how: "exit status 0".into() })));
    // a recorder may see both at one look
    all.push((4 * SECOND, other(300, 7)));
    all.push((5 * SECOND, Fact::Mark("later".into())));
    write_events(&place.path().join("log"), "box1", 1, all.clone());
    for words in every("log", "T:SP", "2026-09-21T14:13:22.5Z") {
        let out = iocreplay(&words).current_dir(place.path()).output().unwrap();
        let told =
            named(&String::from_utf8_lossy(&out.stdout)).iter().any(|name| name.starts_with("demo pid"));
        assert!(!told, "{words:?}: {}", String::from_utf8_lossy(&out.stdout));
    }
    // another recorder's log of the time before, with the process that ended
    write_events(&place.path().join("log"), "box1", 2, happenings());
    let (_, out, _) = run(place.path(), &["puts", "log"]);
    assert!(out.contains("  demo  ") && !out.contains("demo pid"), "{out}");
}

#[test]
fn a_link_that_writes_is_counted_once() {
    let place = tempfile::tempdir().unwrap();
    write_events(&place.path().join("log"), "box1", 1, happenings());
    let (_, graph, _) = run(place.path(), &["graph", "log"]);
    let line =
        graph.lines().find(|line| line.contains("T:SP --OUT--> T:CALC")).unwrap_or_else(|| panic!("{graph}"));
    assert_eq!(line.split_whitespace().next(), Some("1"), "{graph}");
    // as they were asked for
    let (code, _, said) = run(place.path(), &["values", "T:SP", "--svg", "", "log"]);
    assert_eq!((code, said.trim()), (2, "iocreplay: --svg has an empty file name; name a file"));
    let (_, _, said) = run(place.path(), &["puts", "--client", "", "log"]);
    assert!(said.contains("no client matches '': name an address"), "{said}");
}
