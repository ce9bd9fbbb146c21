//! What an IOC did before it ended: `last`.

use super::states::{state, State};
use super::truth::time;
use super::{is_how, nanoseconds, plant, same};
use serde_json::{json, Value};

/// What `last` looks back at, nanoseconds.
const MINUTE: i64 = 60_000_000_000;

/// The IOC that was killed: how, what it was at, who had put last; and of the other one, that it was at nothing.
#[test]
fn what_an_ioc_was_at_when_it_ended() {
    let Some(plant) = plant("plant-last") else { return };
    let truth = &plant.truth;
    for ioc in truth.list("iocs") {
        let name = ioc["name"].as_str().expect("a name");
        let last = plant.object(&["last", "--json", "--utc", name]);
        assert_eq!((&last["ioc"], &last["pid"]), (&ioc["name"], &ioc["pid"]), "{last}");
        assert!(is_how(&last["how"], ioc), "{last}");
        let end = nanoseconds(&last["end"]);
        assert!(end >= time(ioc, "begin") && end <= time(ioc, "end") + 1_000_000_000, "{last}");
        assert_eq!(last["not_seen"], json!([]), "{last}");
        let begun = last["begun"].as_array().expect("records");
        let busy: Value = begun.iter().map(|record| record["record"].clone()).collect();
        assert_eq!(busy, ioc["busy"], "{last}");

        // its last puts, newest last: as many as are shown
        let own = |put: &&Value| {
            let pv = put["pv"].as_str().expect("a PV");
            truth.ioc_of(pv)["name"] == *name && time(put, "begin") > time(ioc, "begin") - MINUTE
        };
        let own: Vec<&Value> = truth.puts().iter().filter(own).collect();
        let shown = last["puts"].as_array().expect("puts").iter();
        let shown: Vec<&Value> = shown.filter(|put| put["via"] != "ca_link").collect();
        assert!(!shown.is_empty() && shown.len() <= own.len(), "{last}");
        for (shown, put) in shown.iter().rev().zip(own.iter().rev()) {
            assert_eq!(shown["pv"], put["pv"], "{last}");
            assert!(same(&shown["requested"], &put["requested"]), "{shown}");
            let user = truth.client(&put["client"]).map_or(&Value::Null, |client| &client["user"]);
            assert_eq!(shown["user"], *user, "{shown}");
        }
    }
    // without a name, the one that ended last, which is said
    let (code, last, said) = plant.outcome(&["last", "--json", "--utc"]);
    let last: Value = serde_json::from_str(&last).expect("JSON");
    assert!(code == 0 && said.contains("shows LINAC1"), "{said}");
    let ended = truth.list("iocs").iter().max_by_key(|ioc| time(ioc, "end")).expect("an IOC");
    assert_eq!(last["ioc"], ended["name"]);
}

/// A record that never processed has this time stamp at most: EPICS begins in 1990.
const NEVER: i64 = 631_152_000_000_000_000;

/// The alarms that changed in its last minute, what was still in alarm, how often its scans ran, and who was connected.
#[test]
fn alarms_rates_and_clients_before_the_end() {
    let Some(plant) = plant("plant-last-alarms") else { return };
    let truth = &plant.truth;
    for ioc in truth.list("iocs") {
        let name = ioc["name"].as_str().expect("a name");
        let last = plant.object(&["last", "--json", "--utc", name]);
        let (from, end) = (nanoseconds(&last["from"]), nanoseconds(&last["end"]));
        // what the recorder read when it came is a change, too, of records that were in alarm then
        let since = truth.moment("T0");
        let shown: Vec<(&str, &str, &str)> = last["alarms"]
            .as_array()
            .expect("alarms")
            .iter()
            .filter(|line| line["what"] == "change" && nanoseconds(&line["time"]) >= since)
            .map(|line| {
                let word = |key: &str| line[key].as_str().expect(key);
                (word("record"), word("severity"), word("status"))
            })
            .collect();
        let (mut expected, mut still) = (Vec::new(), 0);
        for (record, events) in truth.part("events").as_object().expect("events") {
            if truth.ioc_of(record)["name"] != *name {
                continue;
            }
            let all: Vec<State> = events.as_array().expect("events").iter().map(state).collect();
            let at_end = all.iter().rfind(|state| state.time < end).expect("it was something");
            still += usize::from(at_end.severity != "NO_ALARM" && at_end.time > NEVER);
            let flaps = truth.list("flapping").iter().any(|fact| fact["pv"] == *record);
            let pairs = all
                .windows(2)
                .filter(|pair| !pair[0].has_alarm_of(&pair[1]) && pair[0].time > NEVER && !flaps);
            for to in pairs.map(|pair| &pair[1]).filter(|to| to.time >= since && to.time < end) {
                expected.push((to.time, record.as_str(), to.severity.clone(), to.status.clone()));
            }
        }
        expected.sort_by_key(|(time, ..)| *time);
        let found = |record: &str| -> Vec<(&str, &str)> {
            shown
                .iter()
                .filter(|(of, ..)| *of == record)
                .map(|(_, severity, status)| (*severity, *status))
                .collect()
        };
        for (record, _) in truth.part("events").as_object().expect("events") {
            let flaps = truth.list("flapping").iter().any(|fact| fact["pv"] == *record);
            if truth.ioc_of(record)["name"] != *name || flaps {
                continue;
            }
            let of: Vec<(&str, &str)> = expected
                .iter()
                .filter(|(_, of, ..)| of == record)
                .map(|(_, _, severity, status)| (severity.as_str().unwrap(), status.as_str().unwrap()))
                .collect();
            assert_eq!(found(record), of, "{record}: {last}");
        }
        assert_eq!(last["in_alarm"], still, "{last}");

        // each scan of these changes its record: the observer was sent every one
        let scans: &[(&str, &str, u64)] = match name {
            "LINAC1" => &[("scan-0.1", "LI:TICK1", 7), ("scan-1", "LI:BPM1:X", 48)],
            _ => &[("scan-0.5", "RF:CAV1:TEMP", 20)],
        };
        for (thread, record, records) in scans {
            let threads = last["threads"].as_array().expect("threads");
            let line = threads.iter().find(|line| line["thread"] == *thread);
            let line = line.unwrap_or_else(|| panic!("{thread} is missing: {last}"));
            let processed = line["processed"].as_u64().expect("a count");
            let times = truth.events(record, from, end).count() as u64;
            // the scan in which the recorder came is seen in part
            assert!(processed.abs_diff(times * records) <= *records, "{line}: {times} times {records}");
            let rate = processed as f64 * 1e9 / (end - from) as f64;
            assert!((line["rate"].as_f64().expect("a rate") / rate - 1.0).abs() < 1e-9, "{line}: {rate}");
            // the recording is shorter than a minute: there is nothing to compare with
            assert!(line["rate_before"].is_null() && line["processed_before"] == 0, "{line}");
        }

        // who had a circuit to it then, but for the CA link and the observer, which are no clients of the script
        let mut connected: Vec<&str> = last["clients"]
            .as_array()
            .expect("clients")
            .iter()
            .filter(|line| line["client_ioc"].is_null() && line["puts"] != 0)
            .map(|line| line["client"].as_str().expect("an address"))
            .collect();
        let mut there: Vec<&str> = truth
            .list("clients")
            .iter()
            .filter(|client| client["name"] != "visitor")
            .filter_map(|client| client["addresses"][ioc["port"].to_string()].as_str())
            .collect();
        connected.sort_unstable();
        there.sort_unstable();
        assert_eq!(connected, there, "{last}");
    }
}
