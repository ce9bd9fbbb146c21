//! IOCs in containers and pods: what is shown of these, and what `--pod` selects.

mod common;

use common::every::every;
use common::{happenings, iocreplay, run, write_events, SECOND};
use iocrec_log::event::*;
use serde_json::{json, Value};
use std::path::Path;

const UID: [&str; 2] = ["8d2f6f0e-5a3b-4c11-9e57-0b1d2c3e4f50", "01234567-89ab-cdef-0123-456789abcdef"];
const ID: [&str; 2] = [
    "9c3e7f1a52d84b6f0e1d2c3b4a5968778695a4b3c2d1e0f9087162534455aa01",
    "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff",
];
const NAME: [&str; 2] = ["bl01t-ea-01-0", "bl01t-mo-01-0"];

fn container(ioc: u32, pod: usize) -> Container {
    Container {
        ioc,
        runtime: ContainerRuntime::Containerd,
        id: ID[pod].into(),
        pod: UID[pod].into(),
        is_kubernetes: true,
        host_name: NAME[pod].into(),
    }
}

/// The common log, with these facts first.
fn log(directory: &Path, facts: Vec<Fact>) {
    let mut all: Vec<(u64, Fact)> = facts.into_iter().map(|fact| (0, fact)).collect();
    all.extend(happenings());
    write_events(&directory.join("log"), "box1", 1, all);
}

fn ask(directory: &Path, words: &[&str]) -> String {
    let (code, out, said) = run(directory, &[words, &["log"]].concat());
    assert_eq!(code, 0, "{words:?}: {said}");
    out
}

fn lines(directory: &Path, words: &[&str]) -> Vec<Value> {
    let out = ask(directory, &[words, &["--format", "jsonl"]].concat());
    out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The second IOC of the common log by another name.
fn second(name: &str, pid: u32, id: u32) -> Fact {
    let ioc = common::definitions("box1").into_iter().find_map(|fact| match fact {
        Fact::Ioc(ioc) if ioc.id == 2 => Some(ioc),
        _ => None,
    });
    Fact::from(Ioc { name: name.into(), pid, id, ..*ioc.unwrap() })
}

#[test]
fn what_is_shown() {
    let place = tempfile::tempdir().unwrap();
    log(place.path(), vec![Fact::from(container(1, 0))]);
    let expected = json!({
        "id": ID[0], "runtime": "containerd", "pod_uid": UID[0], "pod_name": NAME[0], "podman_pod": null,
        "host_name": NAME[0],
    });
    let iocs = lines(place.path(), &["iocs"]);
    assert_eq!((&iocs[0]["container"], &iocs[1]["container"]), (&expected, &Value::Null), "{iocs:?}");
    let info: Value = serde_json::from_str(&ask(place.path(), &["info", "--json"])).unwrap();
    let iocs = &info["runs"][0]["iocs"];
    assert_eq!((&iocs[0]["container"], &iocs[1]["container"]), (&expected, &Value::Null), "{info}");
    for command in ["info", "iocs"] {
        let text = ask(place.path(), &[command]);
        assert!(text.contains(ID[0]) && text.contains(UID[0]), "{text}");
        assert!(text.contains(&format!("{} (by HOSTNAME)", NAME[0])), "{text}");
    }
    for words in [&["traces", "--format", "otlp"][..], &["logs", "--format", "otlp"]] {
        let text = ask(place.path(), words);
        for (key, value) in [("container.id", ID[0]), ("k8s.pod.uid", UID[0]), ("k8s.pod.name", NAME[0])] {
            let attribute = format!(r#"{{"key":"{key}","value":{{"stringValue":"{value}"}}}}"#);
            assert!(text.contains(&attribute), "{words:?} {key}: {text}");
        }
    }
    let (code, _, said) = run(place.path(), &["export", "--csv", "tables", "log"]);
    assert_eq!(code, 0, "{said}");
    let day = place.path().join("tables/iocs/host=box1/date=2026-09-21");
    let file = std::fs::read_dir(day).unwrap().next().unwrap().unwrap().path();
    let table = std::fs::read_to_string(file).unwrap();
    let row = format!("{},containerd,{},{},,{}", ID[0], UID[0], NAME[0], NAME[0]);
    assert_eq!(table.lines().filter(|line| line.ends_with(&row)).count(), 1, "{table}");
    assert_eq!(table.lines().filter(|line| line.ends_with(",,,,,,")).count(), 1, "{table}");
}

#[test]
fn what_selects_an_ioc_in_a_pod() {
    let place = tempfile::tempdir().unwrap();
    log(place.path(), vec![Fact::from(container(1, 0))]);
    for pod in ["*", UID[0], NAME[0], "bl01t-*", ID[0], &ID[0][..12], "9c3e*"] {
        let iocs = lines(place.path(), &["iocs", "--pod", pod]);
        assert_eq!(iocs.iter().map(|ioc| ioc["ioc"].clone()).collect::<Vec<_>>(), [json!("demo")], "{pod}");
        assert!(ask(place.path(), &["puts", "--pod", pod]).contains("T:SP"), "{pod}");
    }
    // neither the IOC in no container nor a part of a name
    for pod in [UID[1], "bl01t", "9c3e", "box1", ""] {
        let (code, out, said) = run(place.path(), &["puts", "--pod", pod, "log"]);
        assert_eq!((code, out.as_str()), (0, ""), "{pod}");
        assert!(said.contains(&format!("no container or pod matches '{pod}'; these logs have")), "{said}");
        assert!(said.contains(NAME[0]), "{said}");
    }
    let none = run(place.path(), &["records", "--ioc", "second", "--pod", "*", "log"]);
    assert_eq!((none.0, none.1.as_str()), (0, ""));
}

/// Every command that can choose an IOC by its name answers the same if the same IOC is chosen by its pod.
#[test]
fn every_command_selects_by_pod_as_by_name() {
    let place = tempfile::tempdir().unwrap();
    log(place.path(), vec![Fact::from(container(1, 0))]);
    let (mut seen, mut failed) = (0, Vec::new());
    for words in every("log", "T:SP", "2026-09-21T14:13:22.5Z") {
        let (_, help, _) = run(place.path(), &[&words[0], "--help"]);
        assert_eq!(help.contains("--ioc "), help.contains("--pod "), "{}", words[0]);
        // it makes directories, and the tables name the options
        if !help.contains("--pod ") || words[0] == "export" {
            continue;
        }
        let answer = |option: &str, value: &str| {
            let words = [&words[..], &[option.to_owned(), value.to_owned()]].concat();
            let mut out = iocreplay(&words).current_dir(place.path()).output().unwrap();
            if words[0] == "report" {
                // the page around them has a random number
                let page = String::from_utf8_lossy(&out.stdout).into_owned();
                let data = page.split("id=\"data\">").nth(1).and_then(|rest| rest.split("</script>").next());
                out.stdout = data.unwrap().into();
            }
            out
        };
        let (by_name, by_pod) = (answer("--ioc", "demo"), answer("--pod", UID[0]));
        seen += usize::from(!by_name.stdout.is_empty());
        if (by_name.status.code(), &by_name.stdout) != (by_pod.status.code(), &by_pod.stdout) {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let answers = [&by_name.stdout, &by_pod.stdout, &by_pod.stderr].map(|bytes| text(bytes));
            failed.push(format!("{words:?}: {}", answers.join("\n---\n")));
        }
    }
    assert!(seen > 30, "{seen}");
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn two_iocs_of_one_name_in_two_pods() {
    let place = tempfile::tempdir().unwrap();
    log(place.path(), vec![second("demo", 200, 2), Fact::from(container(1, 0)), Fact::from(container(2, 1))]);
    for (pod, own, other) in [(0, "T:SP", "R:FAR"), (1, "R:FAR", "T:SP")] {
        let name = format!("demo pid {}", 100 * (pod + 1));
        for words in [&["records"][..], &["puts", "--all"], &["values", "*"]] {
            for pattern in [UID[pod], NAME[pod], ID[pod]] {
                let text = ask(place.path(), &[words, &["--pod", pattern]].concat());
                assert!(text.contains(own) && text.contains(&name), "{words:?} {pattern}: {text}");
                // what was put to one may be the cause of another's values
                if words[0] == "records" {
                    assert!(!text.contains(other), "{words:?} {pattern}: {text}");
                }
            }
        }
    }
}

/// A pod that is made anew has another uid, and its IOC runs as another process of the same name.
#[test]
fn one_ioc_in_a_pod_and_then_in_another() {
    let place = tempfile::tempdir().unwrap();
    let mut all = vec![(0, Fact::from(container(1, 0)))];
    all.extend(happenings());
    all.push((4 * SECOND, Fact::IocEnd(IocEnd { ioc: 1, how: "exit status 0".into() })));
    all.push((4 * SECOND, second("demo", 300, 7)));
    all.push((4 * SECOND, Fact::from(container(7, 1))));
    write_events(&place.path().join("log"), "box1", 1, all);
    let named = |pod: &str| -> Vec<String> {
        let iocs = lines(place.path(), &["iocs", "--pod", pod]);
        iocs.iter().map(|ioc| ioc["ioc"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(named(UID[0]), ["demo pid 100"]);
    assert_eq!(named(UID[1]), ["demo pid 300"]);
    assert_eq!(named("*"), ["demo", "demo"], "no other is called so");
    assert!(ask(place.path(), &["puts", "--pod", UID[0]]).contains("T:SP"));
    let (_, out, _) = run(place.path(), &["puts", "--pod", UID[1], "log"]);
    assert_eq!(out, "", "it was put to the first");
}

/// The machine was started anew, and the pod made anew.
#[test]
fn one_ioc_in_a_pod_of_each_boot() {
    let place = tempfile::tempdir().unwrap();
    log(place.path(), vec![Fact::from(container(1, 0))]);
    let host = common::definitions("box1").into_iter().find_map(|fact| match fact {
        Fact::Host(host) => Some(host),
        _ => None,
    });
    let boot_id = "8f4b3c1e-0000-4000-8000-000000000002".into();
    let mut again = vec![(0, Fact::from(Host { boot_id, ..*host.unwrap() }))];
    again.extend([(0, Fact::IocEnd(IocEnd { ioc: 1, how: String::new() })), (0, second("demo", 150, 7))]);
    again.extend([(0, Fact::from(container(7, 1))), (SECOND, Fact::Mark("later".into()))]);
    write_events(&place.path().join("log"), "box1", 2, again);
    let with_names = |pod: &str| -> Vec<Value> {
        lines(place.path(), &["iocs", "--pod", pod])
            .into_iter()
            .map(|ioc| ioc["container"]["pod_uid"].clone())
            .collect()
    };
    assert!(with_names(UID[0]).contains(&json!(UID[0])) && !with_names(UID[0]).contains(&json!(UID[1])));
    assert_eq!(with_names(UID[1]), [json!(UID[1])]);
}

#[test]
fn a_pod_in_the_nodes_network_has_no_name() {
    let place = tempfile::tempdir().unwrap();
    log(place.path(), vec![Fact::from(Container { host_name: "box1".into(), ..container(1, 0) })]);
    let iocs = lines(place.path(), &["iocs"]);
    let found = &iocs[0]["container"];
    assert_eq!((&found["pod_name"], &found["host_name"]), (&Value::Null, &json!("box1")), "{found}");
    let (_, out, said) = run(place.path(), &["iocs", "--pod", "box1", "log"]);
    assert_eq!(out, "", "{said}");
    assert!(!ask(place.path(), &["traces", "--format", "otlp"]).contains("k8s.pod.name"));
}

#[test]
fn names_that_nobody_checked() {
    let place = tempfile::tempdir().unwrap();
    let odd = "\u{1b}[31m\nIOC       forged\t\",;";
    let hostile = Container { id: odd.into(), pod: odd.into(), host_name: odd.into(), ..container(1, 0) };
    log(place.path(), vec![Fact::from(hostile)]);
    for words in
        [&["info"][..], &["iocs"], &["iocs", "--format", "csv"], &["info", "--json"], &["iocs", "--json"]]
    {
        let text = ask(place.path(), words);
        assert!(!text.contains('\u{1b}'), "{words:?}: {text:?}");
        assert!(!text.contains("\nIOC       forged"), "{words:?}: {text}");
    }
    let iocs = lines(place.path(), &["iocs"]);
    assert_eq!(iocs[0]["container"]["id"], odd);
}

#[test]
fn redacted_names_are_the_same_everywhere() {
    let place = tempfile::tempdir().unwrap();
    let same = Container { ioc: 2, id: ID[1].into(), ..container(1, 0) };
    log(place.path(), vec![Fact::from(container(1, 0)), Fact::from(same)]);
    let (code, _, said) = run(place.path(), &["redact", "log", "-o", "copy"]);
    assert_eq!(code, 0, "{said}");
    let (code, out, said) = run(place.path(), &["iocs", "--format", "jsonl", "copy"]);
    assert_eq!(code, 0, "{said}");
    for original in ID.iter().chain(&UID[..1]).chain(&NAME[..1]) {
        assert!(!out.contains(original), "{out}");
    }
    let iocs: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let [one, other] = [&iocs[0]["container"], &iocs[1]["container"]];
    assert_eq!((&one["pod_uid"], &one["pod_name"]), (&other["pod_uid"], &other["pod_name"]), "{out}");
    assert_ne!(one["id"], other["id"], "{out}");
    let pod = one["pod_uid"].as_str().unwrap();
    let (_, out, _) = run(place.path(), &["iocs", "--pod", pod, "--format", "jsonl", "copy"]);
    assert_eq!(out.lines().count(), 2, "{out}");
}
