//! `why` of records whose values come from their inputs: which of these may have been the cause, and which not.

mod common;

use common::{ca_put, complete, process, put, run, write_events, CLIENT, MS, SCAN, SECOND, WALL};
use iocrec_log::event::*;
use iocrec_testing::chance::Random;
use iocreplay::inputs::{inputs, Place};
use iocreplay::model::inputs::Known;
use iocreplay::{Logs, OpenOptions};
use serde_json::{json, Value as Json};

/// A second scanning thread.
const OTHER: u32 = 50;
/// Fields of calc: SDIS, TSEL, INPA, INPB; of ao: HIHI.
const SDIS: u32 = 20;
const TSEL: u32 = 21;
const INPA: u32 = 22;
const INPB: u32 = 23;
const HIHI: u32 = 24;
/// HIHI of calc.
const OWN_HIHI: u32 = 25;
/// Another calc.
const SUM: u32 = 9;

fn begin() -> Vec<(u64, Fact)> {
    let field = |id, rtype: &str, name: &str, dbf| {
        (0, Fact::from(Field { id, ioc: 1, rtype: rtype.into(), name: name.into(), dbf, menu: None }))
    };
    let links = [(SDIS, "SDIS"), (TSEL, "TSEL"), (INPA, "INPA"), (INPB, "INPB")];
    let mut facts: Vec<_> = links.map(|(id, name)| field(id, "calc", name, Dbf::InLink)).into();
    facts.push(field(HIHI, "ao", "HIHI", Dbf::Double));
    facts.push(field(OWN_HIHI, "calc", "HIHI", Dbf::Double));
    let (name, rtype) = ("T:SUM".into(), "calc".into());
    facts.push((0, Fact::from(Record { id: SUM, ioc: 1, address: 9, name, rtype })));
    facts.push((0, Fact::Alias(Alias { record: 1, name: "T:OLDNAME".into() })));
    let thread = Thread { id: OTHER, ioc: 1, tid: 1050, name: "scan-1".into(), stack: 1 << 40 };
    facts.push((0, Fact::Thread(thread)));
    facts
}

/// The input links of a record, noted at a time.
fn links(time: u64, record: u32, texts: &[(u32, &str)]) -> Vec<(u64, Fact)> {
    let text = |(field, text): &(u32, &str)| {
        let value = Value::Text(text.as_bytes().to_vec());
        (time, Fact::FieldValue(FieldValue { record, field: *field, value }))
    };
    [(SDIS, ""), (TSEL, "")].iter().chain(texts).map(text).collect()
}

/// A record that a scanning thread processes.
fn scan(thread: u32, time: u64, record: u32, value: f64) -> [(u64, Fact); 2] {
    [(time, process(thread, -100, 2, record)), (time + 20_000, complete(thread, -150, record, value, 0))]
}

/// A put by a client to the record's VAL or to another field; it does not process.
fn written(time: u64, place: (u32, u32), old: f64, new: f64) -> [(u64, Fact); 2] {
    let all = put(PutKind::PutField, CLIENT, -1000, 1, place, old, new);
    [(time, all), (time + 10_000, put(PutKind::Put, CLIENT, -1200, 0, place, old, new))]
}

fn ask(events: Vec<(u64, Fact)>, words: &[&str]) -> (Json, String) {
    let log = tempfile::tempdir().unwrap();
    let mut all = begin();
    let mut events = events;
    events.sort_by_key(|event| event.0);
    all.extend(events);
    write_events(&log.path().join("log"), "box1", 7, all);
    let ask = |more: &[&str]| {
        let (code, out, err) = run(log.path(), &[&["why"], words, more, &["log", "--utc"]].concat());
        assert_eq!(code, 0, "{err}");
        (out, err)
    };
    let (text, _) = ask(&[]);
    let (object, said) = ask(&["--json"]);
    (serde_json::from_str(&object).unwrap(), format!("{text}{said}"))
}

/// Link, whether it changed since the processing before, and what it became; in the order shown.
fn sources(why: &Json) -> Vec<(Json, Json, Json)> {
    let all = why["sources"].as_array().unwrap();
    all.iter()
        .map(|one| (one["link"].clone(), one["since_last"].clone(), one["change"]["to"].clone()))
        .collect()
}

#[test]
fn the_input_that_changed_is_followed_and_the_other_is_not() {
    let events = [
        links(SECOND, SUM, &[(INPA, "T:SP NPP NMS"), (INPB, "T:CALC NPP NMS")]),
        scan(SCAN, 2 * SECOND, 2, 5.0).into(),
        scan(SCAN, 3 * SECOND, 2, 6.0).into(),
        scan(OTHER, 10 * SECOND, SUM, 7.0).into(),
        written(10500 * MS, (1, 1), 1.0, 2.0).into(),
        scan(OTHER, 11 * SECOND, SUM, 8.0).into(),
        // what came later was none of its causes
        written(11500 * MS, (1, 1), 2.0, 3.0).into(),
    ]
    .concat();
    let (why, text) = ask(events, &["T:SUM"]);
    let expected =
        [(json!("T:SUM.INPA"), json!(true), json!(2.0)), (json!("T:SUM.INPB"), json!(false), json!(6.0))];
    assert_eq!(sources(&why), expected, "{why:#}");
    assert!(text.contains("T:SUM.INPA reads T:SP, which changed 500.01 ms before\n"), "{text}");
    assert!(
        text.contains(
            "T:SUM.INPB reads T:CALC, which changed 8.000 s before, not since it processed before\n"
        ),
        "{text}"
    );
    assert!(text.contains("\nT:SP changed from 1 to 2 at"), "{text}");
    assert!(!text.contains("\nT:CALC changed"), "it was not the cause: {text}");
}

/// What was lost may hold a later change of an input: nothing says then that it did not change.
#[test]
fn what_was_lost_may_have_changed_an_input() {
    let cause = "ring buffer full".to_owned();
    let loss = Loss { source: LossSource::Hits, count: 17, since: 10200 * MS, cause };
    let events = [
        links(SECOND, SUM, &[(INPA, "T:SP NPP NMS"), (INPB, "T:CALC NPP NMS")]),
        scan(SCAN, 2 * SECOND, 2, 5.0).into(),
        scan(SCAN, 3 * SECOND, 2, 6.0).into(),
        scan(OTHER, 10 * SECOND, SUM, 7.0).into(),
        vec![(10300 * MS, Fact::Loss(loss))],
        written(10500 * MS, (1, 1), 1.0, 2.0).into(),
        scan(OTHER, 11 * SECOND, SUM, 8.0).into(),
    ]
    .concat();
    let (why, text) = ask(events, &["T:SUM"]);
    let missed: Vec<&Json> = why["sources"].as_array().unwrap().iter().map(|one| &one["missed"]).collect();
    let lost = "17 hits or events lost: ring buffer full";
    assert_eq!(missed, [&Json::Null, &Json::from(lost)], "{why:#}");
    assert!(text.contains("T:SUM.INPA reads T:SP, which changed 500.01 ms before\n"), "{text}");
    let told = "T:SUM.INPB reads T:CALC, which changed 8.000 s before, not seen to since it processed \
                before; after that, not all was recorded: ";
    assert!(text.contains(&format!("{told}{lost}\n")), "{text}");
}

#[test]
fn of_several_none_is_picked() {
    let events = [
        links(SECOND, SUM, &[(INPA, "T:SP NPP NMS"), (INPB, "T:CALC NPP NMS")]),
        scan(SCAN, 9 * SECOND, 2, 5.0).into(),
        scan(OTHER, 10 * SECOND, SUM, 7.0).into(),
        written(10500 * MS, (1, 1), 1.0, 2.0).into(),
        scan(SCAN, 10700 * MS, 2, 6.0).into(),
        scan(OTHER, 11 * SECOND, SUM, 8.0).into(),
    ]
    .concat();
    let (why, text) = ask(events, &["T:SUM"]);
    let names: Vec<Json> = sources(&why).into_iter().map(|source| source.0).collect();
    assert_eq!(names, ["T:SUM.INPB", "T:SUM.INPA"], "the latest first: {why:#}");
    assert!(text.contains("It may have been any of these inputs"), "{text}");
    assert!(why["by"].is_null() && why["begun_by"].is_null(), "{why:#}");
}

#[test]
fn what_changes_while_it_processes_may_be_too_late() {
    let events = [
        links(SECOND, SUM, &[(INPA, "T:CALC NPP NMS")]),
        scan(SCAN, 9 * SECOND, 2, 5.0).into(),
        scan(OTHER, 10 * SECOND, SUM, 7.0).into(),
        scan(SCAN, 11 * SECOND - 10_000, 2, 6.0).into(),
        scan(OTHER, 11 * SECOND, SUM, 8.0).into(),
    ]
    .concat();
    let (why, text) = ask(events, &["T:SUM"]);
    assert_eq!(why["sources"][0]["meanwhile"], true, "{why:#}");
    assert!(text.contains("while it processed: it may have been read before that"), "{text}");
}

#[test]
fn records_that_feed_each_other_end() {
    let events = [
        links(SECOND, SUM, &[(INPA, "T:CALC NPP NMS")]),
        links(SECOND, 2, &[(INPA, "T:SUM NPP NMS"), (INPB, "T:CALC NPP NMS")]),
        (2..12)
            .flat_map(|second: u32| {
                let time = u64::from(second) * SECOND;
                let value = f64::from(second);
                [scan(OTHER, time, SUM, value), scan(SCAN, time + 500 * MS, 2, value)].concat()
            })
            .collect(),
    ]
    .concat();
    let (why, text) = ask(events, &["T:SUM"]);
    let own = &why["sources"][0]["change"]["sources"];
    let circles: Vec<(&Json, &Json)> =
        own.as_array().unwrap().iter().map(|one| (&one["source"], &one["circle"])).collect();
    assert!(circles.contains(&(&json!("T:SUM"), &json!(true))), "{why:#}");
    assert!(circles.contains(&(&json!("T:CALC"), &json!(true))), "{why:#}");
    assert!(
        text.contains("T:CALC.INPB reads the record itself") && text.contains("they feed each other"),
        "{text}"
    );
}

/// Between its hit and its answer, a put with callback has written already.
#[test]
fn a_put_has_written_before_it_is_answered() {
    let answer = CaAnswer { circuit: 1, ioid: 9, notify: true, status: 1, text: String::new() };
    let place = (2, 2);
    let events = vec![
        (10 * SECOND, ca_put(1, 3, true, 9, 5.0)),
        (10 * SECOND + 100_000, put(PutKind::Notify, CLIENT, -900, 3, place, 0.0, 0.0)),
        (10 * SECOND + 110_000, put(PutKind::Put, CLIENT, -1200, 0, place, 1.0, 5.0)),
        (14 * SECOND, Fact::CaAnswer(answer)),
    ];
    let (_, text) = ask(events, &["T:CALC.A", "--at", "2026-09-21T14:13:32Z"]);
    assert!(text.starts_with("T:CALC.A changed from 1 to 5 at 2026-09-21T14:13:30.000110"), "{text}");
}

/// A link writes the text of a number to a menu: `dbPut` may refuse it, or take one of the choices.
#[test]
fn what_a_link_asks_for_is_not_what_became_of_it() {
    const MENU: u32 = 90;
    let (rtype, name) = ("ao".into(), "OMSL".into());
    let mut link = put(PutKind::Put, SCAN, -200, 0, (1, MENU), 1.0, 0.0);
    if let Fact::Put(put) = &mut link {
        (put.requested, put.old, put.dbf) = (Value::Text(b"108".to_vec()), Value::Int(1), Dbf::String);
    }
    let events = vec![
        (SECOND, Fact::from(Field { id: MENU, ioc: 1, rtype, name, dbf: Dbf::Menu, menu: None })),
        (10 * SECOND, process(SCAN, -100, 2, 2)),
        (10 * SECOND + 10_000, link),
        (10 * SECOND + 20_000, complete(SCAN, -150, 2, 5.0, 0)),
    ];
    let (_, text) = ask(events, &["T:SP.OMSL"]);
    assert!(!text.contains("changed from 1 to"), "{text}");
}

#[test]
fn other_fields_and_aliases_are_followed() {
    let with = |link: &str, more: Vec<(u64, Fact)>| {
        let events = [
            links(SECOND, SUM, &[(INPA, link)]),
            scan(OTHER, 10 * SECOND, SUM, 7.0).into(),
            more,
            scan(OTHER, 11 * SECOND, SUM, 8.0).into(),
        ];
        ask(events.concat(), &["T:SUM"])
    };
    let (why, _) = with("T:SP.HIHI NPP NMS", written(10500 * MS, (1, HIHI), 1.0, 2.0).into());
    let of_limit = &why["sources"][0];
    assert_eq!(
        (&of_limit["change"]["pv"], &of_limit["certain"]),
        (&json!("T:SP.HIHI"), &json!(false)),
        "{why:#}"
    );
    let read = FieldValue { record: 1, field: HIHI, value: Value::Double(2.0) };
    let put = written(10500 * MS, (1, HIHI), 1.0, 2.0);
    let (why, _) = with("T:SP.HIHI NPP NMS", [&put[..], &[(10600 * MS, Fact::FieldValue(read))]].concat());
    let of_limit = &why["sources"][0];
    assert_eq!((&of_limit["change"]["to"], &of_limit["certain"]), (&json!(2.0), &json!(true)), "{why:#}");
    let (why, text) = with("T:SP.HIHI NPP NMS", written(10500 * MS, (1, 1), 1.0, 2.0).into());
    assert_eq!(why["sources"][0]["change"], Json::Null, "its value does not matter: {why:#}");
    assert!(text.contains("No input of T:SUM is known to have changed since it processed before."), "{text}");
    let (why, text) = with("T:CALC.A NPP NMS", scan(SCAN, 10500 * MS, 2, 6.0).into());
    assert_eq!(why["sources"][0]["of_value"], true, "{why:#}");
    assert!(text.contains("a field that processing may change"), "{text}");
    let (why, _) = with("T:OLDNAME NPP NMS", written(10500 * MS, (1, 1), 1.0, 2.0).into());
    assert_eq!(why["sources"][0]["change"]["pv"], "T:SP", "{why:#}");
    let (why, text) = with("R:NOWHERE NPP NMS", vec![]);
    assert_eq!(why["sources"][0]["recorded"], false, "{why:#}");
    assert!(text.contains("R:NOWHERE, which is not in these logs") && !text.contains("No input"), "{text}");
    let (why, text) = with("@asyn(PORT1)", vec![]);
    assert_eq!(why["sources"][0]["kind"], "device", "{why:#}");
    assert!(text.contains("T:SUM.INPA reads a device, @asyn(PORT1)"), "{text}");
}

/// The same with an alarm.
fn alarming(time: u64, value: f64) -> [(u64, Fact); 2] {
    [(time, process(OTHER, -100, 2, SUM)), (time + 20_000, complete(OTHER, -150, SUM, value, 2))]
}

/// What `alarms` says of the last alarm of T:SUM, and what `why --alarm` says of it.
fn alarm(events: Vec<(u64, Fact)>, more: &[&str]) -> (Json, String, Json) {
    let log = tempfile::tempdir().unwrap();
    let mut events = [begin(), events].concat();
    events.sort_by_key(|event| event.0);
    write_events(&log.path().join("log"), "box1", 7, events);
    let ask = |words: &[&str]| {
        let (code, out, err) = run(log.path(), &[words, &["log", "--utc"]].concat());
        assert_eq!(code, 0, "{err}");
        out
    };
    let of_sum = [&["alarms", "--pv", "T:SUM"], more].concat();
    let lines = ask(&[&of_sum[..], &["--format", "jsonl"]].concat());
    let lines: Vec<Json> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let line = lines.iter().rfind(|line| line["what"] == "change");
    let text = ask(&of_sum);
    let csv = ask(&[&of_sum[..], &["--format", "csv"]].concat());
    let inputs = line.map(|line| line["inputs"].clone()).unwrap_or_default();
    for told in inputs.as_array().into_iter().flatten() {
        let told = told.as_str().unwrap();
        assert!(text.contains(told) && csv.contains(told), "{told}: {text}{csv}");
    }
    let why = serde_json::from_str(&ask(&["why", "--alarm", "--json", "T:SUM"])).unwrap();
    (line.cloned().unwrap_or_default(), text, why)
}

#[test]
fn alarms_follow_inputs_as_why_does() {
    let begin = |inputs: &[(u32, &str)]| {
        let processed = scan(OTHER, 10 * SECOND, SUM, 7.0).to_vec();
        [links(SECOND, SUM, inputs), scan(SCAN, 9 * SECOND, 2, 5.0).into(), processed].concat()
    };
    let both = [(INPA, "T:SP NPP NMS"), (INPB, "T:CALC NPP NMS")];
    let put = |time| written(time, (1, 1), 1.0, 2.0).to_vec();
    let one = |text: Json| json!([text]);

    // the one that changed; what came later was none of its causes
    let events = [begin(&both), put(10500 * MS), alarming(11 * SECOND, 8.0).into()].concat();
    let events = [events, written(11500 * MS, (1, 1), 2.0, 3.0).to_vec()].concat();
    let (line, text, why) = alarm(events, &[]);
    assert_eq!((&line["cause"], &line["by"]), (&json!("scan 1 second"), &Json::Null), "{line:#}");
    let told = line["inputs"][0].as_str().unwrap();
    assert!(
        told.starts_with("T:SUM.INPA reads T:SP, which changed 500.0") && told.contains(" T:SP 1 -> 2 "),
        "{told}"
    );
    assert!(!told.contains("T:CALC") && !told.contains("2 -> 3"), "{told}");
    assert!(text.contains(&format!("scan 1 second; {told}")), "{text}");
    assert_eq!(why["sources"][0]["link"], "T:SUM.INPA", "{why:#}");
    assert_eq!(
        (&why["sources"][0]["since_last"], &why["sources"][1]["since_last"]),
        (&json!(true), &json!(false))
    );
    // of several none is picked, the latest first
    let several = [put(10500 * MS), scan(SCAN, 10700 * MS, 2, 6.0).into(), alarming(11 * SECOND, 8.0).into()];
    let (line, _, why) = alarm([begin(&both), several.concat()].concat(), &[]);
    let told = line["inputs"][0].as_str().unwrap();
    assert!(
        told.starts_with(
            "any of 2 inputs of T:SUM may have been it, the latest first: (T:SUM.INPB reads T:CALC, "
        ) && told.contains("; (T:SUM.INPA reads T:SP, which changed 500.0"),
        "{told}"
    );
    assert_eq!(line["by"], Json::Null);
    assert_eq!(why["sources"][0]["link"], "T:SUM.INPB");

    // none of them
    let (line, _, why) = alarm([begin(&both), alarming(11 * SECOND, 8.0).into()].concat(), &[]);
    assert_eq!(
        line["inputs"],
        one(json!("no input of T:SUM is known to have changed since it processed before")),
        "{why:#}"
    );
    // a limit of its own
    let limit = written(10800 * MS, (SUM, OWN_HIHI), 9.0, 2.0).to_vec();
    let (line, ..) = alarm([begin(&both), limit, alarming(11 * SECOND, 7.0).into()].concat(), &[]);
    let told = line["inputs"][0].as_str().unwrap();
    assert!(told.contains("T:SUM.HIHI was written 200.0"), "{told}");
    // devices, and what is elsewhere
    let (line, ..) = alarm([begin(&[(INPA, "@asyn(P1)")]), alarming(11 * SECOND, 8.0).into()].concat(), &[]);
    assert_eq!(line["inputs"], one(json!("T:SUM.INPA reads a device, @asyn(P1)")));
    let (line, ..) =
        alarm([begin(&[(INPA, "R:NOWHERE NPP NMS")]), alarming(11 * SECOND, 8.0).into()].concat(), &[]);
    assert_eq!(line["inputs"], one(json!("T:SUM.INPA reads R:NOWHERE, which is not in these logs")));
    // by another name
    let alias = begin(&[(INPA, "T:OLDNAME NPP NMS")]);
    let (line, ..) = alarm([alias, put(10500 * MS), alarming(11 * SECOND, 8.0).into()].concat(), &[]);
    let told = line["inputs"][0].as_str().unwrap();
    assert!(told.starts_with("T:SUM.INPA reads T:OLDNAME, which changed 500.0"), "{told}");
    // a limit of the source
    let limit = written(10500 * MS, (1, HIHI), 1.0, 2.0).to_vec();
    let of_limit = begin(&[(INPA, "T:SP.HIHI NPP NMS")]);
    let (line, ..) = alarm([of_limit.clone(), limit, alarming(11 * SECOND, 8.0).into()].concat(), &[]);
    let told = line["inputs"][0].as_str().unwrap();
    assert!(told.starts_with("T:SUM.INPA reads T:SP.HIHI, which changed 500.0"), "{told}");
    let (line, ..) = alarm([of_limit, put(10500 * MS), alarming(11 * SECOND, 8.0).into()].concat(), &[]);
    assert_eq!(
        line["inputs"],
        one(json!("no input of T:SUM is known to have changed since it processed before"))
    );
    // not noted, or changed since
    let unknown = [scan(OTHER, 10 * SECOND, SUM, 7.0), alarming(11 * SECOND, 8.0)].concat();
    let (line, text, _) = alarm(unknown, &[]);
    let told = "the inputs of T:SUM are not known: the log does not hold its input links";
    assert_eq!(line["inputs"], one(json!(told)));
    assert!(text.contains(&format!("scan 1 second; {told}")), "{text}");
    // a put is the cause itself
    let own = [
        links(SECOND, SUM, &both),
        scan(OTHER, 10 * SECOND, SUM, 7.0).into(),
        written(10500 * MS, (1, 1), 1.0, 2.0).into(),
        vec![
            (11 * SECOND, common::put(PutKind::PutField, CLIENT, -1000, 1, (SUM, OWN_HIHI), 9.0, 2.0)),
            (11 * SECOND + 10_000, common::put(PutKind::Put, CLIENT, -1200, 0, (SUM, OWN_HIHI), 9.0, 2.0)),
            (11 * SECOND + 20_000, process(CLIENT, -1300, 0, SUM)),
            (11 * SECOND + 30_000, complete(CLIENT, -1350, SUM, 8.0, 2)),
        ],
    ];
    let (line, ..) = alarm(own.concat(), &[]);
    assert_eq!(line["inputs"], json!([]), "{line:#}");
    assert!(line["by"].is_string(), "{line:#}");
}

/// From one scan to the next, to the put; and where a source has changed again since, what it did then is told.
#[test]
fn alarms_follow_a_way_of_scans() {
    let mut events = links(SECOND, SUM, &[(INPA, "T:CALC NPP NMS")]);
    events.extend(links(SECOND, 2, &[(INPA, "T:SP NPP NMS")]));
    events.extend(scan(SCAN, 9 * SECOND, 2, 5.0));
    events.extend(scan(OTHER, 9500 * MS, SUM, 5.0));
    events.extend(written(9700 * MS, (1, 1), 1.0, 2.0));
    events.extend(scan(SCAN, 10 * SECOND, 2, 6.0));
    // too late for T:CALC, though not for T:SUM
    events.extend((0..6).flat_map(|n| written(10100 * MS + n * MS, (1, 1), 2.0 + n as f64, 3.0 + n as f64)));
    events.extend(alarming(10500 * MS, 6.0));
    let (line, _, why) = alarm(events, &[]);
    let told = line["inputs"][0].as_str().unwrap();
    assert!(told.starts_with("T:SUM.INPA reads T:CALC, which changed 500.00 ms before: scan "), "{told}");
    assert!(
        told.contains("; T:CALC.INPA reads T:SP, which changed 300.0") && told.contains("T:SP 1 -> 2 "),
        "{told}"
    );
    assert_eq!(why["sources"][0]["change"]["sources"][0]["change"]["to"], json!(2.0), "{why:#}");
}

#[test]
fn links_that_are_not_known_are_said_to_be() {
    let scans = || [scan(OTHER, 10 * SECOND, SUM, 7.0), scan(OTHER, 11 * SECOND, SUM, 8.0)].concat();
    let (why, text) = ask(scans(), &["T:SUM"]);
    assert_eq!(why["sources"], json!([]));
    assert!(
        text.contains("The inputs of T:SUM are not known: the log does not hold its input links"),
        "{text}"
    );
    let change = Put {
        thread: CLIENT,
        sp: -1000,
        site: 1,
        kind: PutKind::PutField,
        record: SUM,
        field: Some(INPA),
        dbf: Dbf::String,
        count: 1,
        requested: Value::Text(b"T:SP".to_vec()),
        old: Value::Unknown,
    };
    let events =
        [links(SECOND, SUM, &[(INPA, "T:SP NPP NMS")]), vec![(5 * SECOND, Fact::from(change))], scans()];
    let (why, text) = ask(events.concat(), &["T:SUM"]);
    assert!(why["inputs"].as_str().unwrap().contains("a put had changed one of its links"), "{why:#}");
    assert!(text.contains("The inputs of T:SUM are not known: a put had changed"), "{text}");
    let events = [links(SECOND, SUM, &[]), scans()].concat();
    let (why, text) = ask(events, &["T:SUM"]);
    assert_eq!((&why["sources"], &why["inputs"]), (&json!([]), &Json::Null));
    assert!(text.contains("No input link of T:SUM leads anywhere"), "{text}");
}

#[test]
fn an_alias_is_its_record() {
    let events = written(2 * SECOND, (1, 1), 1.0, 2.0).to_vec();
    let (why, text) = ask(events.clone(), &["T:OLDNAME"]);
    assert_eq!((&why["pv"], &why["to"]), (&json!("T:SP"), &json!(2.0)));
    assert!(text.contains("T:OLDNAME is an alias of T:SP"), "{text}");
    let log = tempfile::tempdir().unwrap();
    write_events(&log.path().join("log"), "box1", 7, [begin(), events].concat());
    let ask = |words: &[&str]| run(log.path(), &[words, &["log", "--utc"]].concat());
    for (alias, own) in [
        (vec!["values", "T:OLDNAME"], vec!["values", "T:SP"]),
        (vec!["values", "T:OLDNAME.VAL"], vec!["values", "T:SP.VAL"]),
        (vec!["at", "2100-01-01", "--pv", "T:OLDNAME"], vec!["at", "2100-01-01", "--pv", "T:SP"]),
        (vec!["alarms", "--all", "--pv", "T:OLDNAME"], vec!["alarms", "--all", "--pv", "T:SP"]),
        (vec!["puts", "--pv", "T:OLDNAME"], vec!["puts", "--pv", "T:SP"]),
        (vec!["traces", "--pv", "T:OLDNAME"], vec!["traces", "--pv", "T:SP"]),
        (vec!["graph", "--pv", "T:OLDNAME"], vec!["graph", "--pv", "T:SP"]),
        (vec!["top", "--pv", "T:OLDNAME"], vec!["top", "--pv", "T:SP"]),
        (vec!["profile", "--pv", "T:OLDNAME"], vec!["profile", "--pv", "T:SP"]),
        (
            vec!["undo", "--since", "2020-01-01", "--pv", "T:OLDNAME"],
            vec!["undo", "--since", "2020-01-01", "--pv", "T:SP"],
        ),
    ] {
        let (found, expected) = (ask(&alias), ask(&own));
        assert_eq!((found.0, &found.1), (expected.0, &expected.1), "{alias:?}");
        assert!(found.2.starts_with("iocreplay: T:OLDNAME is an alias of T:SP\n"), "{alias:?}: {}", found.2);
    }
    let globs = ask(&["values", "T:OLD*"]);
    assert_eq!(globs.1, ask(&["values", "T:SP"]).1);
    let without = ask(&["at", "2100-01-01", "--exclude", "T:OLDNAME"]);
    assert!(!without.1.contains("T:SP"), "{}", without.1);
}

/// A put that is read by a scanned record, which is read by another one, and so on: seven of them, each scanned at its
/// own time.
#[test]
fn a_long_way_of_scanned_records_leads_to_the_put() {
    const LEVELS: u32 = 7;
    let mut events = Vec::new();
    for level in 1..=LEVELS {
        let (id, name) = (100 + level, format!("T:D{level}"));
        let record = Record { id, ioc: 1, address: u64::from(id), name, rtype: "calc".into() };
        events.push((MS, Fact::from(record)));
        let source = if level == 1 { "T:SP".to_owned() } else { format!("T:D{}", level - 1) };
        events.extend(links(SECOND, id, &[(INPA, &format!("{source} NPP NMS"))]));
    }
    events.extend(written(100 * SECOND, (1, 1), 1.0, 2.0));
    // Each is scanned every ten seconds, a second after the one that it reads.
    for turn in 0..30 {
        for level in 1..=LEVELS {
            let time = turn * 10 * SECOND + u64::from(level) * SECOND;
            let value = if time > 100 * SECOND { 2.0 } else { 1.0 };
            events.extend(scan(OTHER, time, 100 + level, value * f64::from(level)));
        }
    }
    let (why, text) = ask(events, &[&format!("T:D{LEVELS}")]);
    let mut at = &why;
    for level in (1..=LEVELS).rev() {
        assert_eq!(at["pv"], format!("T:D{level}"), "{at:#}");
        assert_eq!(
            (&at["from"], &at["to"]),
            (&json!(f64::from(level)), &json!(2.0 * f64::from(level))),
            "{at:#}"
        );
        let sources = at["sources"].as_array().unwrap();
        assert_eq!((sources.len(), &sources[0]["since_last"]), (1, &json!(true)), "{at:#}");
        at = &sources[0]["change"];
    }
    assert_eq!((&at["pv"], &at["from"], &at["to"]), (&json!("T:SP"), &json!(1.0), &json!(2.0)), "{at:#}");
    assert!(text.contains("T:SP changed from 1 to 2 at"), "{text}");
}

/// What an output link has written is no doing of the record that has it, whose inputs and earlier times do not matter.
#[test]
fn what_a_link_wrote_leads_to_the_record_that_wrote_it() {
    let chain = |time, value| {
        vec![
            (time, process(OTHER, -100, 2, SUM)),
            (time + 10_000, put(PutKind::Put, OTHER, -200, 0, (1, 1), value - 1.0, value)),
            (time + 20_000, process(OTHER, -220, 0, 1)),
            (time + 30_000, complete(OTHER, -250, 1, value, 0)),
            (time + 40_000, complete(OTHER, -150, SUM, value, 0)),
        ]
    };
    let written = written(10500 * MS, (2, 1), 1.0, 2.0).to_vec();
    let chains = || [chain(10 * SECOND, 7.0), written.clone(), chain(11 * SECOND, 8.0)].concat();
    let own = |inputs: &[(u32, &str)]| [links(SECOND, SUM, inputs), links(SECOND, 1, &[]), chains()].concat();
    let (why, text) = ask(own(&[]), &["T:SP"]);
    assert_eq!(
        (&why["pv"], &why["to"], &why["meanwhile"]),
        (&json!("T:SP"), &json!(8.0), &json!([])),
        "{why:#}"
    );
    assert!(text.contains("No input link of T:SUM leads anywhere"), "{text}");
    assert!(!text.contains("it was last seen to process"), "{text}");
    let (why, text) = ask(own(&[(INPA, "T:CALC NPP NMS")]), &["T:SP"]);
    assert_eq!(why["sources"][0]["link"], "T:SUM.INPA", "{why:#}");
    assert_eq!(why["sources"][0]["since_last"], Json::Null, "{why:#}");
    assert!(text.contains("T:SUM.INPA reads T:CALC, which"), "{text}");
}

/// The links that were noted, wherever in many segments: as a plain look at all that happened has them, and as reading
/// everything does.
#[test]
fn links_are_found_in_whichever_segment() {
    let mut random = Random(11);
    let mut found = [0; 3];
    for round in 0..6 {
        // in some logs much, in some little
        let mut times = |most: usize| -> Vec<u64> {
            (0..random.below(most + 1)).map(|_| random.below(60_000) as u64 * MS + 1).collect()
        };
        let (mut noted, changed, others) = (times(1 + round), times(round), times(5));
        noted.sort_unstable();
        noted.dedup();
        let mut events = Vec::new();
        for (number, time) in noted.iter().enumerate() {
            events.extend(links(*time, SUM, &[(INPA, &format!("L{number} CP NMS"))]));
        }
        let link =
            |record| Fact::FieldValue(FieldValue { record, field: INPA, value: Value::Text(b"X".to_vec()) });
        // fields of another record, and one that was read after a put, say nothing of these
        events.extend(others.into_iter().flat_map(|time| [(time, link(2)), (time, link(SUM))]));
        for time in &changed {
            let put = put(PutKind::Put, CLIENT, -1200, 0, (SUM, INPA), 0.0, 0.0);
            events.push((*time, put));
        }
        for number in 0..30_000 {
            events.extend(written(number * 2 * MS, (1, 1), random.next() as f64, random.next() as f64));
        }
        events.sort_by_key(|event| event.0);
        let mut all = begin();
        all.extend(events);
        let log = tempfile::tempdir().unwrap();
        write_events(log.path(), "box1", 7, all);
        let logs = Logs::open([log.path()]).unwrap();
        assert!(logs.runs()[0].len() > 5, "{} segments", logs.runs()[0].len());
        let whole = OpenOptions::new().without_index(true).open([log.path()]).unwrap();
        let place = Place { host: "box1".into(), process: (100, 1_000_000_000), record: "T:SUM".into() };
        for second in (0..61).step_by(4) {
            let time = second * SECOND;
            let before = noted.iter().rposition(|at| *at <= time);
            let before = before.filter(|at| !changed.iter().any(|by| (noted[*at]..=time).contains(by)));
            let after = noted.iter().position(|at| *at > time);
            let after = after.filter(|at| !changed.iter().any(|by| (time + 1..=noted[*at]).contains(by)));
            let known = inputs(&logs, &place, WALL + time as i64);
            assert_eq!(known, inputs(&whole, &place, WALL + time as i64), "round {round}, {second} s");
            let kind = match (&known, before.or(after)) {
                (Known::All(inputs), Some(number)) => {
                    assert_eq!(inputs.links[0].text, Some(format!("L{number} CP NMS")), "{second} s");
                    0
                }
                (Known::Changed, None) if !noted.is_empty() => 1,
                (Known::No, None) if noted.is_empty() => 2,
                other => panic!("round {round}, {second} s: {other:?}"),
            };
            found[kind] += 1;
        }
    }
    assert!(found.iter().all(|count| *count > 3), "{found:?}");
}

/// Records that the logs name in a link alone: an IOC of which there is no log may have them.
#[test]
fn what_a_link_alone_names_is_not_denied() {
    let place = tempfile::tempdir().unwrap();
    let mut all = begin();
    let field = |id, name: &str, dbf| {
        let (rtype, name) = ("calc".into(), name.into());
        Fact::from(Field { id, ioc: 1, rtype, name, dbf, menu: None })
    };
    all.push((0, field(30, "OUT", Dbf::OutLink)));
    all.extend(links(SECOND, SUM, &[(INPA, "X:READ.VAL NPP NMS"), (INPB, "5")]));
    let output = OutputLink { field: 30, text: "X:WRITTEN CA NMS".into() };
    all.push((2 * SECOND, Fact::OutputLinks(OutputLinks { record: SUM, links: vec![output] })));
    let (pv, dbf, value) = ("X:PUT".into(), Dbf::Double, Value::Double(1.0));
    let put = CaLinkPut { thread: SCAN, sp: -1500, site: 0, record: Some(1), pv, dbf, count: 1, value };
    all.push((3 * SECOND, Fact::from(put)));
    write_events(&place.path().join("log"), "box1", 7, all);
    for (pv, link) in [("X:READ", "T:SUM.INPA"), ("X:WRITTEN", "T:SUM.OUT"), ("X:PUT", "T:SP")] {
        let (code, out, err) = run(place.path(), &["why", pv, "log"]);
        assert!(code == 1 && out.is_empty(), "{out}{err}");
        let expected = format!("whether {pv} changed is not known: a link names it ({link}), and no IOC");
        assert!(err.contains(&expected), "{err}");
    }
    let (_, _, err) = run(place.path(), &["why", "X:NOWHERE", "log"]);
    assert!(err.contains("no record or PV 'X:NOWHERE'"), "{err}");
}
