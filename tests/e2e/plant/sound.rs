//! What is in the log, and that nothing is missing: `verify`, `info`, `iocs`, `records`.

use super::truth::time;
use super::{is_how, nanoseconds, plant};
use serde_json::json;
use std::collections::BTreeMap;

const SECOND: i64 = 1_000_000_000;

#[test]
fn nothing_is_missing() {
    let Some(plant) = plant("plant-sound") else { return };
    plant.replay(&["verify"]);
    let verified = plant.object(&["verify", "--json"]);
    assert_eq!(verified["sound"], true);
    let info = plant.object(&["info", "--json", "--utc"]);
    let runs = info["runs"].as_array().expect("runs");
    assert_eq!(runs.len(), 1);
    for nothing in ["losses", "gaps", "damage", "refused"] {
        assert_eq!(runs[0][nothing], json!([]), "{nothing}");
    }
    assert_eq!(runs[0]["missing_segments"], 0);
    assert_eq!(runs[0]["thinning"], json!(null));
    let recording = plant.truth.part("recording");
    let (first, last) = (nanoseconds(&runs[0]["first"]), nanoseconds(&runs[0]["last"]));
    // records are scanned at 10 Hz, and there is more than a second before the first moment
    assert!(first >= time(recording, "begin") && first <= plant.truth.moment("T0") - SECOND, "{first}");
    assert!(last >= plant.truth.moment("END") && last <= time(recording, "end"), "{last}");
}

#[test]
fn marks_are_as_they_were_set() {
    let Some(plant) = plant("plant-marks") else { return };
    let info = plant.object(&["info", "--json", "--utc"]);
    let marks = info["runs"][0]["marks"].as_array().expect("marks");
    let truth = plant.truth.list("marks");
    assert_eq!(marks.len(), truth.len(), "{marks:?}");
    for (mark, truth) in marks.iter().zip(truth) {
        assert_eq!(mark["text"], truth["text"]);
        // shown in milliseconds
        let set = nanoseconds(&mark["time"]);
        assert!(set >= time(truth, "begin") - 1_000_000 && set <= time(truth, "end"), "{mark}");
    }
}

/// Who they were, and how they ended: one killed, one by itself.
#[test]
fn iocs_are_as_they_were() {
    let Some(plant) = plant("plant-iocs") else { return };
    // which has an option of its own for JSON
    let text = plant.replay(&["iocs", "--json", "--utc"]);
    let iocs: Vec<serde_json::Value> = crate::rig::json_lines(text.as_bytes());
    assert_eq!(iocs.len(), plant.truth.list("iocs").len(), "{text}");
    let records = plant.truth.part("records").as_object().expect("an object");
    for ioc in &iocs {
        let truth = plant.truth.ioc(&ioc["ioc"]);
        assert_eq!(ioc["pid"], truth["pid"]);
        assert_eq!(ioc["ca_ports"], json!([truth["port"]]));
        assert!(is_how(&ioc["end"], truth), "{ioc}");
        // shown in seconds
        let ended = nanoseconds(&ioc["ended"]);
        assert!(ended > time(truth, "begin") - SECOND && ended <= time(truth, "end") + SECOND, "{ioc}");
        let own = records.values().filter(|record| record["ioc"] == ioc["ioc"]).count();
        assert_eq!(ioc["records"], own);
    }
}

#[test]
fn records_are_those_that_were_loaded() {
    let Some(plant) = plant("plant-records") else { return };
    let text = plant.replay(&["records", "--json"]);
    let seen: BTreeMap<String, (String, String)> = crate::rig::json_lines(text.as_bytes())
        .iter()
        .map(|line| {
            let word = |key: &str| line[key].as_str().expect(key).to_string();
            (word("record"), (word("ioc"), word("type")))
        })
        .collect();
    let loaded = plant.truth.part("records").as_object().expect("an object");
    let loaded: BTreeMap<String, (String, String)> = loaded
        .iter()
        .map(|(name, record)| {
            let word = |key: &str| record[key].as_str().expect(key).to_string();
            (name.clone(), (word("ioc"), word("type")))
        })
        .collect();
    assert_eq!(seen, loaded);
}
