//! Values and alarms over time: `values`, `alarms`.

use super::states::{state, states, State, SEVERITIES};
use super::truth::time;
use super::{is_right, iso, nanoseconds, plant, same};
use serde_json::{json, Value};
use std::collections::BTreeMap;

/// How long after its time stamp a record may have completed, nanoseconds. A busy machine is no defect.
const LATE: i64 = 100_000_000;
/// A record that never processed has this time stamp at most: EPICS begins in 1990.
const NEVER: i64 = 631_152_000_000_000_000;

/// Leaves out what repeats the state before.
fn changes(before: &State, states: Vec<State>, is_same: impl Fn(&State, &State) -> bool) -> Vec<State> {
    let mut last = before.clone();
    let is_news = |state: &State| !is_same(&std::mem::replace(&mut last, state.clone()), state);
    let mut is_news = is_news;
    states.into_iter().filter(|state| is_news(state)).collect()
}

/// What is wrong with a record's states.
fn differences(
    record: &str,
    found: &[State],
    truth: &[State],
    is_same: impl Fn(&State, &State) -> bool,
) -> Vec<String> {
    let mut wrong = Vec::new();
    for (found, truth) in found.iter().zip(truth) {
        if !is_same(found, truth) {
            wrong.push(format!("{record} is {found:?}, not {truth:?}"));
            break; // all that follows is as wrong
        }
        // times are in steps of 256 ns
        if found.time < truth.time - 256 || found.time > truth.time + LATE {
            wrong.push(format!("{record}: {found:?} is not at its time: {truth:?}"));
        }
    }
    if found.len() != truth.len() {
        let ends = (found.last(), truth.last());
        wrong.push(format!("{record}: {} states, not {}; the last are {ends:?}", found.len(), truth.len()));
    }
    wrong
}

/// Every value that every record had, in order, with its alarm: as the IOC sent it to the observer.
#[test]
fn values_are_as_the_observer_saw_them() {
    let Some(plant) = plant("plant-values") else { return };
    let truth = &plant.truth;
    let (since, until) = (truth.quiet(truth.moment("T0")), truth.quiet(truth.moment("T5")));
    let lines = plant.lines(&["values", "*", "--utc", "--since", &iso(since), "--until", &iso(until)]);
    let mut found: BTreeMap<&str, Vec<State>> = BTreeMap::new();
    for line in lines.iter().filter(|line| line["field"] == "VAL" && line["source"] == "process") {
        found.entry(line["record"].as_str().expect("a record")).or_default().push(State {
            time: nanoseconds(&line["time"]),
            value: line["value"].clone(),
            severity: line["severity"].clone(),
            status: line["status"].clone(),
        });
    }
    let mut wrong = Vec::new();
    for record in truth.part("records").as_object().expect("records").keys() {
        let (before, within) = states(truth, record, since, until);
        let lines = found.remove(record.as_str()).unwrap_or_default();
        if truth.list("looping").contains(&json!(record)) {
            // too fast for the observer to be sent all of it
            let last = lines.last().zip(within.last());
            assert!(last.is_some_and(|(found, truth)| found.is(truth)), "{record}: {last:?}");
            continue;
        }
        let is = |one: &State, other: &State| one.is(other);
        wrong.extend(differences(record, &changes(&before, lines, is), &changes(&before, within, is), is));
    }
    is_right(&wrong);
    assert!(found.is_empty(), "records that do not exist: {found:?}");
}

/// Fields that clients wrote have the values before and after, by whom.
#[test]
fn other_fields_have_their_values() {
    let Some(plant) = plant("plant-fields") else { return };
    for put in plant.truth.puts() {
        let pv = put["pv"].as_str().expect("a PV");
        if !pv.contains('.') || pv.ends_with("VAL$") || pv.ends_with(".PROC") {
            continue;
        }
        let lines = plant.lines(&["values", pv, "--utc"]);
        let own = |line: &&Value| {
            let when = nanoseconds(&line["time"]);
            when >= time(put, "begin") && when <= time(put, "end") && line["source"] == "put"
        };
        let own: Vec<&Value> = lines.iter().filter(own).collect();
        assert_eq!(own.len(), 1, "{pv}: {lines:?}");
        assert!(same(&own[0]["value"], &put["after"]), "{}", own[0]);
        let client = plant.truth.client(&put["client"]).expect("a client");
        assert_eq!(own[0]["user"], client["user"]);
        // a line of no PV says where a recording, or an IOC, ended
        assert!(lines.iter().all(|line| line["pv"] == pv || line["pv"].is_null()), "{lines:?}");
        let until = iso(time(put, "end"));
        let before = plant.lines(&["values", pv, "--utc", "--until", &until]);
        let before = before.iter().rev().nth(1).expect("what it was before");
        assert!(same(&before["value"], &put["before"]), "{before}");
    }
}

/// Every change of an alarm, and no other; by what it went.
#[test]
fn alarms_changed_as_the_observer_saw_them() {
    let Some(plant) = plant("plant-alarms") else { return };
    let truth = &plant.truth;
    let (since, until) = (truth.quiet(truth.moment("T0")), truth.quiet(truth.moment("T5")));
    let range = ["--utc", "--since", &iso(since), "--until", &iso(until)];
    let (_, out, _) = plant.outcome(&[&["alarms", "--all", "--format", "jsonl"], &range[..]].concat());
    let lines = crate::rig::json_lines(out.as_bytes());
    let mut found: BTreeMap<&str, Vec<State>> = BTreeMap::new();
    for line in lines.iter().filter(|line| line["what"] == "change" && line["source"] == "process") {
        found.entry(line["record"].as_str().expect("a record")).or_default().push(State {
            time: nanoseconds(&line["time"]),
            value: line["value"].clone(),
            severity: line["severity"].clone(),
            status: line["status"].clone(),
        });
    }
    let mut wrong = Vec::new();
    for record in truth.part("records").as_object().expect("records").keys() {
        let (before, within) = states(truth, record, since, until);
        let lines = found.remove(record.as_str()).unwrap_or_default();
        let alarm = |one: &State, other: &State| one.has_alarm_of(other);
        let within = changes(&before, within, alarm);
        if truth.list("looping").contains(&json!(record)) {
            assert_eq!(lines.len(), within.len(), "{record}");
            continue;
        }
        wrong.extend(differences(record, &lines, &within, State::is));
    }
    is_right(&wrong);
    assert!(found.is_empty(), "records that had no alarms: {found:?}");
}

/// The log's times are those of the probes, a reading has the time of its record: on a busy machine the latter is earlier.
const NEAR: i64 = 50_000_000;
/// Records that go into alarm because of a put, mostly by way of links, and what is put to.
pub const ALARMS_BY_PUT: [(&str, &str); 10] = [
    ("LI:TEMP1", "LI:TEMP1:RAW"),
    ("LI:MAG1:FIELD", "LI:MAG1:SP"),
    ("LI:MAG1:GRADIENT", "LI:MAG1:SP"),
    ("LI:OPTICS:SUM", "LI:MAG1:SP"),
    ("LI:PUMP:RATIO", "LI:PUMP:RATIO.B"),
    ("LI:PUMP:SUM", "LI:PUMP:RATIO.B"),
    ("LI:MODE", "LI:MODE"),
    ("LI:WATER:FLOW", "LI:WATER:FLOW"),
    ("RF:AMP:RB", "LI:RF:REQ"),
    ("LI:BEAM:ENERGY", "LI:RF:REQ"),
];

/// Alarms of records behind links have the put at their root.
#[test]
fn alarms_have_their_causes() {
    let Some(plant) = plant("plant-alarm-causes") else { return };
    let truth = &plant.truth;
    let (_, out, _) = plant.outcome(&["alarms", "--all", "--utc", "--format", "jsonl"]);
    let lines = crate::rig::json_lines(out.as_bytes());
    let sources = ALARMS_BY_PUT;
    let mut seen = 0;
    for line in lines.iter().filter(|line| line["what"] == "change" && line["source"] == "process") {
        let Some((_, source)) = sources.iter().find(|(record, _)| line["record"] == **record) else {
            continue;
        };
        let when = nanoseconds(&line["time"]);
        // the last put before it; nobody else put meanwhile
        let put = truth.puts().iter().rev().find(|put| put["pv"] == **source && time(put, "begin") <= when);
        let client = truth.client(&put.expect("a put")["client"]).expect("a client");
        assert_eq!(line["user"], client["user"], "{line}");
        assert_eq!(line["client_host"], client["host"], "{line}");
        seen += 1;
    }
    assert!(seen >= 20, "{seen}");
}

/// Each alarm lasted until the alarm of its record changed again, and came from the one before.
#[test]
fn alarms_lasted_as_long_as_they_did() {
    let Some(plant) = plant("plant-alarm-lengths") else { return };
    let (_, out, _) = plant.outcome(&["alarms", "--all", "--utc", "--format", "jsonl"]);
    let lines = crate::rig::json_lines(out.as_bytes());
    let mut compared = 0;
    for (record, _) in ALARMS_BY_PUT {
        let events = plant.truth.part("events")[record].as_array().expect("events").iter().map(state);
        let mut changes: Vec<State> = Vec::new();
        for event in events {
            if changes.last().is_none_or(|last| !last.has_alarm_of(&event)) {
                changes.push(event);
            }
        }
        let own = |line: &&Value| {
            line["record"] == record && line["what"] == "change" && line["source"] == "process"
        };
        for line in lines.iter().filter(own) {
            let at = nanoseconds(&line["time"]);
            let Some(place) = changes.iter().position(|change| (change.time - at).abs() < NEAR) else {
                continue;
            };
            let before = place.checked_sub(1).and_then(|before| changes.get(before));
            if let Some(before) = before {
                assert_eq!(
                    (&line["from_severity"], &line["from_status"]),
                    (&before.severity, &before.status),
                    "{line}"
                );
            }
            let Some(next) = changes.get(place + 1).filter(|_| line["severity"] != "NO_ALARM") else {
                continue;
            };
            let truth = (next.time - changes[place].time) as f64 / 1e9;
            let lasted = line["lasted_s"].as_f64().expect("how long");
            assert!((lasted - truth).abs() < 0.01 && line["until"] == "left", "{line}: {truth}");
            compared += 1;
        }
    }
    assert!(compared >= 8, "{compared}");
}

/// `why --alarm` names whoever put, for the last alarm before each of these moments.
#[test]
fn why_of_an_alarm_names_who_put() {
    let Some(plant) = plant("plant-why-alarm") else { return };
    let truth = &plant.truth;
    let (_, out, _) = plant.outcome(&["alarms", "--all", "--utc", "--format", "jsonl"]);
    let lines = crate::rig::json_lines(out.as_bytes());
    let mut asked = 0;
    for (record, source) in ALARMS_BY_PUT {
        let own = |line: &&Value| {
            line["record"] == record && line["what"] == "change" && line["source"] == "process"
        };
        let Some(line) = lines.iter().rev().find(own) else { continue };
        let when = nanoseconds(&line["time"]);
        let at = iso(when + 1_000_000);
        let why = plant.object(&["why", "--alarm", "--json", "--utc", "--at", &at, record]);
        assert_eq!((&why["asked"], &why["time"]), (&json!("alarm"), &line["time"]), "{why}");
        let keys = |key: &str| [&why[key]["severity"], &why[key]["status"]];
        assert_eq!(keys("to_alarm"), [&line["severity"], &line["status"]], "{why}");
        assert_eq!(keys("from_alarm"), [&line["from_severity"], &line["from_status"]], "{why}");
        let put = truth.puts().iter().rev().find(|put| put["pv"] == *source && time(put, "begin") <= when);
        let client = truth.client(&put.expect("a put")["client"]).expect("a client");
        // the put is the root of its chain, or what the CP links on the way lead to
        let user = client["user"].as_str().expect("a user");
        let begun_by = why["begun_by"].as_str().unwrap_or_default();
        assert!(
            why["user"] == user || begun_by.contains(&format!(" {source} ")) && begun_by.contains(user),
            "{why}"
        );
        asked += 1;
    }
    assert!(asked >= 8, "{asked}");
}

/// Who acknowledged; what flaps; what is still in alarm.
#[test]
fn alarms_are_acknowledged_flap_and_last() {
    let Some(plant) = plant("plant-alarm-ends") else { return };
    let truth = &plant.truth;
    let (code, out, _) = plant.outcome(&["alarms", "--utc", "--format", "jsonl"]);
    assert_eq!(code, 0);
    let lines = crate::rig::json_lines(out.as_bytes());
    let of = |what: &'static str| lines.iter().filter(move |line| line["what"] == what);

    let puts: Vec<&Value> = truth
        .list("acknowledgements")
        .iter()
        .map(|number| &truth.puts()[number.as_u64().expect("a number") as usize])
        .collect();
    assert_eq!(of("acknowledged").count(), puts.len());
    for (line, put) in of("acknowledged").zip(puts) {
        let client = truth.client(&put["client"]).expect("a client");
        assert_eq!((&line["record"], &line["user"]), (&put["pv"], &client["user"]), "{line}");
        let when = nanoseconds(&line["time"]);
        assert!(when >= time(put, "begin") && when <= time(put, "end"), "{line}");
        let words: &[&str] = if put["dbr"] == 36 { &SEVERITIES } else { &["NO", "YES"] };
        let word = |key: &str| words[put[key].as_u64().expect("a number") as usize];
        assert_eq!(line["acknowledges"], if put["dbr"] == 36 { "ACKS" } else { "ACKT" }, "{line}");
        assert_eq!(line["asked"], word("requested"), "{line}");
        // which the recorder reads some time later, and not at all if the alarm has changed meanwhile
        assert!(line["left"].is_null() || line["left"] == word("after"), "{line}");
    }

    let flapping: Vec<&Value> = of("flapping").collect();
    assert_eq!(flapping.len(), 1, "{flapping:?}");
    let fact = &truth.list("flapping")[0];
    assert_eq!(flapping[0]["record"], fact["pv"]);
    let pv = fact["pv"].as_str().expect("a PV");
    let single = lines.iter().filter(|line| line["record"] == pv && line["what"] == "change").count() as u64;
    let events = truth.events(pv, time(fact, "begin"), time(fact, "end")).count() as u64;
    assert_eq!(
        flapping[0]["changes"].as_u64().map(|changes| changes + single),
        Some(events),
        "{}",
        flapping[0]
    );

    // what had an alarm last, of what ever processed
    let mut still: BTreeMap<&str, (Value, Value)> = BTreeMap::new();
    for (record, events) in truth.part("events").as_object().expect("events") {
        let last = state(events.as_array().and_then(|events| events.last()).expect("an event"));
        if last.severity != "NO_ALARM" && last.time > NEVER {
            still.insert(record, (last.severity, last.status));
        }
    }
    let found: BTreeMap<&str, (Value, Value)> = of("still")
        .map(|line| (line["record"].as_str().unwrap(), (line["severity"].clone(), line["status"].clone())))
        .collect();
    assert_eq!(found, still);
}
