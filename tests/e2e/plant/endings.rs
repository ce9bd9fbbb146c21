//! IOCs that end in every way (tests/rig/plant/ending.py): what `last`, `iocs`, `info`, `puts` and `report` say of each.
//!
//! The truth of an end is what its parent learned. `IOCREC_PLANT_ENDING=DIR` takes a plant that is recorded already.

use super::truth::time;
use super::{is_how, nanoseconds, record_with, same, Plant};
use crate::rig::{not_run, Needs};
use serde_json::{json, Value};
use std::sync::OnceLock;

/// An end is noticed within this time; a busy machine is no defect.
const NOTICED: i64 = 1_000_000_000;

fn plant(test: &str) -> Option<&'static Plant> {
    static PLANT: OnceLock<Plant> = OnceLock::new();
    if let Some(recorded) = std::env::var_os("IOCREC_PLANT_ENDING") {
        return Some(PLANT.get_or_init(|| Plant::of(recorded.into())));
    }
    if !not_run::is_root() {
        not_run(test, Needs::Root);
        return None;
    }
    Some(PLANT.get_or_init(|| record_with("ending.py", "plant-ending", &[])))
}

/// What was not to be had on this machine is reported, not passed over.
#[test]
fn every_end_is_tried() {
    let Some(plant) = plant("plant-ends") else { return };
    for reason in plant.truth.list("not_run") {
        not_run("plant-ends", Needs::Kernel(reason.as_str().expect("a reason").to_owned()));
    }
    let ends = plant.truth.list("iocs").len() + plant.truth.list("not_run").len();
    assert_eq!(ends, 9, "{:?}", plant.truth.list("iocs"));
}

/// How each ended, when, what it was at, and its last put with what is known of its outcome.
#[test]
fn last_says_how_each_ended() {
    let Some(plant) = plant("plant-ends-last") else { return };
    for ioc in plant.truth.list("iocs") {
        let name = ioc["name"].as_str().expect("a name");
        let last = plant.object(&["last", "--json", "--utc", name]);
        assert_eq!((&last["ioc"], &last["pid"]), (&ioc["name"], &ioc["pid"]), "{last}");
        assert!(is_how(&last["how"], ioc), "{last}");
        let end = nanoseconds(&last["end"]);
        match ioc["how"].is_null() {
            true => {
                assert_eq!(last["until"], "log_ends", "{last}");
                let stopped = time(&json!({"at": plant.truth.part("stopped")}), "at");
                assert!((end - stopped).abs() < NOTICED, "{last}");
            }
            false => {
                assert_eq!(last["until"], "ended", "{last}");
                assert!(end >= time(ioc, "begin") && end <= time(ioc, "end") + NOTICED, "{last}");
            }
        }
        let begun = last["begun"].as_array().expect("records");
        let busy: Value = begun.iter().map(|record| record["record"].clone()).collect();
        assert_eq!(busy, ioc["busy"], "{last}");
        // its one put; of one that was not answered nothing is claimed
        let (put, shown) = (&ioc["put"], last["puts"].as_array().expect("puts"));
        assert_eq!(shown.len(), 1, "{last}");
        assert_eq!((&shown[0]["pv"], &shown[0]["user"]), (&put["pv"], &put["user"]), "{last}");
        assert!(same(&shown[0]["requested"], &put["value"]), "{last}");
        let unanswered = last["unanswered"].as_array().expect("puts");
        let new = &shown[0]["new"];
        if put["answered"] == true {
            assert!(unanswered.is_empty(), "{last}");
            assert!(shown[0]["status"] == "ok" && same(new, &put["value"]), "{last}");
        } else {
            assert_eq!(unanswered.len(), 1, "{last}");
            assert_eq!(unanswered[0]["pv"], put["pv"], "{last}");
            // the record had it, which the recorder may have seen
            assert!(new.is_null() || same(new, &put["value"]), "{last}");
            assert_eq!(shown[0]["status"], "unknown", "{last}");
        }
        assert_eq!(last["alarms"], json!([]), "{last}");
        // one that ends slowly may have lost the thread of its probes before
        let is_end = |unseen: &Value| {
            let cause = unseen["cause"].as_str().unwrap_or_default();
            cause.ends_with("the thread that the probes hung on had ended")
                && nanoseconds(&unseen["to"]) + NOTICED >= end
        };
        assert!(last["not_seen"].as_array().is_some_and(|all| all.iter().all(is_end)), "{last}");
    }
}

#[test]
fn iocs_and_info_say_which_ended() {
    let Some(plant) = plant("plant-ends-iocs") else { return };
    let lines = plant.lines(&["iocs", "--utc"]);
    let info = plant.object(&["info", "--json", "--utc"]);
    let told = info["runs"][0]["iocs"].as_array().expect("IOCs");
    let truth = plant.truth.list("iocs");
    assert_eq!((lines.len(), told.len()), (truth.len(), truth.len()));
    for ioc in truth {
        let of = |line: &&Value| line["pid"] == ioc["pid"];
        let line = lines.iter().find(of).expect("it is listed");
        assert_eq!(line["ioc"], ioc["name"], "{line}");
        assert!(is_how(&line["end"], ioc), "{line}");
        // to the second
        let (begin, end) = (time(ioc, "begin") / 1_000_000_000, ioc["end"].as_i64());
        match end {
            Some(end) => {
                let ended = nanoseconds(&line["ended"]) / 1_000_000_000;
                assert!(ended >= begin && ended <= (end + NOTICED) / 1_000_000_000, "{line}");
            }
            None => assert!(line["ended"].is_null(), "{line}"),
        }
        let run = told.iter().find(|line| line["name"] == ioc["name"]).expect("it is in the run");
        assert_eq!(run["ended"], end.is_some(), "{run}");
    }
}

/// The page names the worst end and each other one, and who or what was behind it where that is known, else that it is not.
#[test]
fn the_page_claims_no_more_than_is_known() {
    let Some(plant) = plant("plant-ends-report") else { return };
    let page = super::report::Page::of(plant, &[]);
    assert!(page.text.contains("SEGV was killed by SIGSEGV at "), "{}", page.text);
    for ioc in plant.truth.list("iocs") {
        let name = ioc["name"].as_str().expect("a name");
        let words = match ioc["how"].as_str() {
            None => continue,
            Some(how) if how.starts_with("killed") => format!("{name} was {how}"),
            Some(how) => format!("{name} exited with {}", how.trim_start_matches("exit ")),
        };
        assert!(page.text.contains(&words), "{words}: {}", page.text);
        let sentence = ioc["sentence"].as_str().unwrap_or("no sentence");
        if page.text.contains(&format!("{name} was {sentence}")) {
            assert!(!page.text.contains(&format!("to {name}: not in this log")), "{}", page.text);
            assert!(!page.text.contains(&format!("in {name}, from its own code")), "{}", page.text);
            continue;
        }
        let known = match name {
            "SEGV" | "ABRT" => {
                format!("Where SIG{name} came from in {name}, from its own code or from another process: not in this log.")
            }
            "KILL" | "TERM" => format!("Who sent SIG{name} to {name}: not in this log."),
            "OOM" => "Who sent SIGKILL to OOM: not in this log.".to_owned(),
            _ => continue,
        };
        assert!(page.text.contains(&known), "{known}: {}", page.text);
    }
    assert!(!page.text.contains("RUNS was") && !page.text.contains("RUNS exited"), "{}", page.text);
}
