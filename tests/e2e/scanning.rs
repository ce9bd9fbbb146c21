//! Pointers show which thread requested an event or I/O interrupt, also when many are requested at the same time
//! (tests/rig/scanning.db, scan_ioc.py).

use crate::rig::spans::{spans, Span};
use crate::rig::{epics_versions, json_lines, python, wait_until, Client, Ioc, Rig};
use serde_json::{json, Value};
use std::collections::BTreeMap;
use std::time::Duration;

const PORT: u16 = 5074;

/// DBR types, the protocol's numbers.
const STRING: u16 = 0;
const ENUM: u16 = 3;
const LONG: u16 = 5;

/// Events and interrupts to request at once, in each round.
const ALL: [&str; 6] = ["event:on", "io:1", "event:7", "io:2", "event:off", "io:3"];
const ROUNDS: usize = 20;

/// Records of scanning.db that are on a scan list.
const SCANNED: u64 = 16;

/// Puts to a field of MOVES, and waits until the log has the scan list that the record moved to.
fn moves(rig: &Rig, client: &mut Client, field: &str, dbr: u16, value: Value) {
    let before = rig.facts("scanned");
    client.put(&format!("MOVES.{field}"), dbr, value, true);
    wait_until("the log has the new scan list", || rig.facts("scanned") > before);
}

/// Posts all three events at once, and waits until the log has the `round`th processing of each record.
fn post_all(rig: &Rig, client: &mut Client, round: usize) {
    client.put("POST:ALL.PROC", LONG, json!(1), true);
    wait_for_processings(rig, &ON_EVENTS, round);
}

fn wait_for_processings(rig: &Rig, records: &[&str], count: usize) {
    wait_until("the log has the processings", || {
        let spans = spans(rig);
        records.iter().all(|record| of(&spans, record).len() >= count)
    });
}

/// Records that process on an event, but for MOVES.
const ON_EVENTS: [&str; 7] =
    ["EV:on:A", "EV:on:B", "EV:on:HIGH", "EV:off:A", "EV:off:HIGH", "EV:7:A", "EV:7:B"];
const ON_INTERRUPTS: [&str; 5] = ["IO:1:A", "IO:1:B", "IO:2:A", "IO:2:B", "IO:3:A"];

/// Processings of a record, in the order of time.
fn of<'a>(spans: &'a [Span], record: &str) -> Vec<&'a Span> {
    let name = format!("process {record}");
    spans.iter().filter(|span| span.name == name).collect()
}

fn texts(spans: &[&Span], key: &str) -> Vec<String> {
    let word = |span: &&Span| match span.attributes.get(key) {
        Some(Value::String(word)) => word.clone(),
        _ => String::new(),
    };
    spans.iter().map(word).collect()
}

/// Requests everything, round by round, without waiting in between; returns the requesting threads by request.
fn ask(ioc: &mut Ioc) -> BTreeMap<String, Vec<String>> {
    let mut asked: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for _ in 0..ROUNDS {
        for line in ioc.command(&format!("ask {}", ALL.join(" "))) {
            if let Some((what, tid)) = line.split_once(' ').filter(|_| line.contains(':')) {
                asked.entry(what.into()).or_default().push(tid.into());
            }
        }
    }
    asked
}

fn scene(name: &str, epics: Option<&str>, tier: &str) {
    let Some(rig) = Rig::new(name) else { return };
    let mut command = python("scan_ioc.py");
    command.arg("scanning").arg(PORT.to_string());
    command.args(epics.into_iter().flat_map(|version| ["--epics", version]));
    let mut ioc = rig.ioc_by("scanning", &mut command);
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument(), "--tier", tier]);
    // The records become known before iocInit puts them on their lists.
    wait_until("the log has the records", || {
        !json_lines(&rig.replay("records", &["--json"]).stdout).is_empty()
    });
    ioc.command("init");
    let mut client = rig.client("libca", &[PORT], &[]);
    rig.wait_until_recording(&mut client, "SCAN:READY", "both");
    wait_until("the log has all scan lists", || rig.facts("scanned") >= SCANNED);

    let asked = ask(&mut ioc);
    wait_for_processings(&rig, &[&ON_EVENTS[..], &ON_INTERRUPTS, &["MOVES"]].concat(), ROUNDS);
    post_all(&rig, &mut client, ROUNDS + 1);
    moves(&rig, &mut client, "EVNT", STRING, json!("off"));
    post_all(&rig, &mut client, ROUNDS + 2);
    moves(&rig, &mut client, "PRIO", ENUM, json!(2));
    post_all(&rig, &mut client, ROUNDS + 3);
    wait_for_processings(&rig, &["MOVES"], ROUNDS + 3);
    moves(&rig, &mut client, "SCAN", ENUM, json!(0));
    client.put("MOVES.PROC", LONG, json!(1), true);
    client.put("STATES", LONG, json!(1), true);
    client.put("STATES.ONST", STRING, json!("Shut"), true);
    // the recorder reads names some milliseconds later
    client.put("STATES", LONG, json!(1), true);
    client.put("STATES.ONST", STRING, json!("Open"), true);
    wait_until("the log has the new enum string", || {
        let records = json_lines(&rig.replay("records", &["--json", "--pv", "STATES"]).stdout);
        records.iter().any(|record| record["states"][1] == "Open")
    });
    client.put("STATES", LONG, json!(1), true);
    wait_for_processings(&rig, &["PERIOD:2"], 1);
    assert!(recorder.stop().success(), "{}", recorder.errors());

    let spans = spans(&rig);
    let parents = |of: &[&Span]| -> Vec<String> {
        let parent = |span: &&Span| spans.iter().find(|parent| parent.id == span.parent);
        of.iter().map(|span| parent(span).map_or(String::new(), |parent| parent.name.clone())).collect()
    };
    for (record, what, trigger) in [
        ("EV:on:A", "event:on", "event"),
        ("EV:on:B", "event:on", "event"),
        ("EV:on:HIGH", "event:on", "event"),
        ("EV:off:A", "event:off", "event"),
        ("EV:off:HIGH", "event:off", "event"),
        ("EV:7:A", "event:7", "event"),
        ("EV:7:B", "event:7", "event"),
        ("IO:1:A", "io:1", "io_intr"),
        ("IO:1:B", "io:1", "io_intr"),
        ("IO:2:A", "io:2", "io_intr"),
        ("IO:2:B", "io:2", "io_intr"),
        ("IO:3:A", "io:3", "io_intr"),
    ] {
        let mut of = of(&spans, record);
        let chained = of.split_off(ROUNDS.min(of.len()));
        assert_eq!(texts(&of, "epics.cause.thread.id"), asked[what], "{name}: who asked for {record}");
        let triggers = texts(&of, "epics.process.trigger");
        // the trigger is "python" where scanIoRequest can be probed
        let fits = |word: &String| word == trigger || trigger == "io_intr" && word == "python";
        assert!(triggers.iter().all(fits), "{name}: {record}: {triggers:?}");
        assert!(parents(&of).iter().all(String::is_empty), "{name}: {record}");
        let Some(event) = what.strip_prefix("event:") else { continue };
        assert!(texts(&of, "epics.scan.event").iter().all(|text| text == event), "{name}: {record}");
        // Three events were waiting: the pointer shows which.
        assert_eq!(parents(&chained), vec![format!("process POST:{event}"); 3], "{name}: {record}");
    }
    assert_eq!(parents(&of(&spans, "EV:on:AFTER")), vec!["process EV:on:A"; ROUNDS + 3]);
    let moves = of(&spans, "MOVES").split_off(ROUNDS);
    let expected = ["process POST:on", "process POST:off", "process POST:off", "caput MOVES.PROC"];
    assert_eq!(parents(&moves), expected, "{name}");
    assert_eq!(texts(&of(&spans, "AT:START"), "epics.process.trigger"), ["pini"], "{name}");
    let period = of(&spans, "PERIOD:2");
    assert!(!period.is_empty() && texts(&period, "epics.process.trigger").iter().all(|text| text == "scan"));
    assert!(texts(&period, "epics.scan.period").iter().all(|text| text == "2 second"));
    // each with the name of its time; between two changes that were read at once it is not known
    let states = rig.puts(&["--pv", "STATES"]);
    let names: Vec<_> =
        states.iter().filter(|put| put["field"] == "VAL").map(|put| &put["new_text"]).collect();
    let last = json!("Open");
    assert!(names[0] == "On" && [&json!("Shut"), &Value::Null].contains(&names[1]), "{states:?}");
    assert_eq!((names.len(), names[2]), (3, &last), "{states:?}");
    let text = rig.replay("traces", &["--pv", "EV:7:B"]);
    let text = String::from_utf8_lossy(&text.stdout);
    assert!(text.contains("event 7, asked for"), "{text}");
}

/// Simulation mode swaps SCAN and SSCN, without a put to SCAN: by a put to SIMM, or in the record's processing.
#[test]
fn what_simulation_mode_scans() {
    let Some(rig) = Rig::new("simulation") else { return };
    let mut ioc = rig.ioc_by("simulation", python("scan_ioc.py").arg("simulation").arg(PORT.to_string()));
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument()]);
    ioc.command("init");
    let mut client = rig.client("libca", &[PORT], &[]);
    rig.wait_until_recording(&mut client, "SCAN:READY", "both");
    wait_until("the log has all scan lists", || rig.facts("scanned") >= SCANNED);

    wait_for_processings(&rig, &["SIM:PUT"], 1);
    let before = rig.facts("scanned");
    client.put("SIM:PUT.SIMM", ENUM, json!(1), true);
    wait_until("the log has the new scan list", || rig.facts("scanned") > before);
    let scans = of(&spans(&rig), "SIM:PUT").len();
    let mut who = Vec::new();
    for round in 1..=2 {
        who.extend(
            ioc.command("ask event:sim").iter().filter_map(|line| Some(line.split_once(' ')?.1.to_owned())),
        );
        wait_for_processings(&rig, &["SIM:PUT"], scans + round);
    }
    client.put("SIM:SWITCH", LONG, json!(1), true);
    ioc.command("ask io:4");
    wait_for_processings(&rig, &["IO:4:SIM"], 3);
    assert!(recorder.stop().success(), "{}", recorder.errors());

    let spans = spans(&rig);
    let put = of(&spans, "SIM:PUT");
    let (scanned, posted) = put.split_at(scans);
    assert!(texts(scanned, "epics.process.trigger").iter().all(|trigger| trigger == "scan"));
    assert!(texts(scanned, "epics.scan.period").iter().all(|period| period == ".5 second"));
    assert_eq!(texts(posted, "epics.process.trigger"), ["event"; 2]);
    assert_eq!(texts(posted, "epics.scan.event"), ["sim"; 2]);
    assert_eq!(texts(posted, "epics.cause.thread.id"), who);
    let switched = of(&spans, "IO:4:SIM");
    let triggers = texts(&switched, "epics.process.trigger");
    assert!(["io_intr", "python"].contains(&&*triggers[0]), "{triggers:?}");
    assert!(triggers[1..].iter().all(|trigger| trigger == "scan"), "{triggers:?}");
    let text = rig.replay("traces", &["--pv", "IO:4:SIM"]);
    let text = String::from_utf8_lossy(&text.stdout);
    assert_eq!(text.matches("scan .5 second").count(), triggers.len() - 1, "{text}");
}

#[test]
fn what_asked_for_a_scan_is_known_by_pointers() {
    scene("scanning", None, "ring");
}

#[test]
fn what_asked_for_a_scan_is_known_by_pointers_over_perf_buffers() {
    scene("scanning-perf", None, "perf");
}

#[test]
fn what_asked_for_a_scan_is_known_in_earlier_generations() {
    for version in epics_versions().into_iter().step_by(2) {
        scene(&format!("scanning-{version}"), Some(&version), "ring");
    }
}

/// Voluntary context switches of the recorder's loop so far.
fn wake_ups(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/status")).expect("its status");
    let count = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    count.expect("a count").trim().parse().expect("a number")
}

/// Beside an IOC of which a record processes ten times a second, the recorder wakes up as often, and for what it does each
/// second, and not twice as often.
#[test]
fn few_hits_are_taken_ten_times_a_second() {
    const TIME: Duration = Duration::from_secs(4);
    const MOST: u64 = 17 * TIME.as_secs();
    let Some(rig) = Rig::alone("few-hits") else { return };
    let database = rig.path("few.db");
    let records = r#"record(calc, "FEW:A") { field(SCAN, ".1 second") field(CALC, "A+1") field(INPA, "FEW:A") }
        record(longout, "FEW:READY") {}"#;
    std::fs::write(&database, records).expect("a file");
    let ioc = rig.ioc("few-hits", PORT, &database, &[]);
    let mut client = rig.client("libca", &[PORT], &[]);
    let pid = ioc.pid_argument();
    let options = ["--pid", &pid, "--tier", "ring", "--no-resources", "--no-net"];
    let mut recorder = rig.record(&options);
    rig.wait_until_recording(&mut client, "FEW:READY", "both");
    let mut least = u64::MAX;
    // what the recorder looks at after its start, and the IOC's first beacons, end soon
    for _ in 0..8 {
        let before = wake_ups(recorder.pid());
        std::thread::sleep(TIME);
        least = least.min(wake_ups(recorder.pid()) - before);
        if least <= MOST {
            break;
        }
    }
    assert!(recorder.stop().success(), "{}", recorder.errors());
    assert!(least <= MOST, "{least} in {TIME:?}");
    let processed = of(&spans(&rig), "FEW:A").len();
    assert!(processed > 10 * TIME.as_secs() as usize / 2, "nothing is tested: {processed}");
}
