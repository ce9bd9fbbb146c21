//! What the recorder reads from an IOC's memory: all records before their first hit, their aliases, and their enum strings.

use crate::rig::{json_lines, python, rig_file, wait_until, Ioc, Rig};
use iocrec_log::event::Fact;
use iocrec_log::reader::{find, Segment};
use serde_json::{json, Value};

const PORT: u16 = 5074;
/// DBR_STRING, DBR_ENUM and DBR_DOUBLE of the protocol.
const STRING: u16 = 0;
const ENUM: u16 = 3;
const DOUBLE: u16 = 6;

fn ioc(rig: &Rig) -> Ioc {
    rig.ioc("records", PORT, "records.db", &[])
}

#[test]
fn records_are_known_before_they_are_hit() {
    let Some(rig) = Rig::new("records_are_known_before_they_are_hit") else { return };
    let ioc = ioc(&rig);
    let mut agent = rig.record(&["--pid", &ioc.pid_argument()]);
    let records = || json_lines(&rig.replay("records", &["--json"]).stdout);
    wait_until("the log has the records", || !records().is_empty());
    assert!(agent.stop().success());
    let records = records();
    let record = |name: &str| records.iter().find(|record| record["record"] == name).expect(name).clone();
    for (name, rtype) in [
        ("REC:READY", "ao"),
        ("REC:VALVE", "bo"),
        ("REC:MODE", "mbbo"),
        ("REC:CALC", "calc"),
        ("REC:ARRAY", "waveform"),
    ] {
        assert_eq!(record(name)["type"], rtype, "{name}");
        assert_eq!(record(name)["ioc"], "records");
    }
    assert_eq!(records.len(), 5, "no more than there are: {records:?}");
    assert_eq!(record("REC:VALVE")["aliases"], json!(["REC:V1"]));
    assert_eq!(record("REC:VALVE")["states"], json!(["Closed", "Open"]));
    assert_eq!(record("REC:MODE")["states"], json!(["Off", "Standby", "On"]));
    let by_alias = json_lines(&rig.replay("records", &["--json", "--pv", "REC:V?"]).stdout);
    assert_eq!(by_alias, [record("REC:VALVE")]);
    let none = rig.replay("records", &["--json", "--ioc", "another"]);
    assert!(none.status.success() && none.stdout.is_empty());
    let iocs = json_lines(&rig.replay("iocs", &["--json"]).stdout);
    assert_eq!(iocs.len(), 1, "{iocs:?}");
    assert_eq!((&iocs[0]["ioc"], &iocs[0]["records"]), (&json!("records"), &json!(5)));
    assert_eq!(iocs[0]["user"], "root");
    assert_eq!(iocs[0]["environment"]["EPICS_CAS_SERVER_PORT"], PORT.to_string());
    assert!(iocs[0]["base_version"].as_str().is_some_and(|version| version.starts_with('7')), "{iocs:?}");
}

/// Records that are loaded during the recording become known without a hit, and known ones are not logged again.
#[test]
fn records_that_come_later_are_learned_too() {
    let Some(rig) = Rig::new("records_that_come_later") else { return };
    let mut command = python("scan_ioc.py");
    let mut ioc = rig.ioc_by("late", command.arg("late").arg(PORT.to_string()));
    let mut agent = rig.record(&["--pid", &ioc.pid_argument()]);
    let known = || -> Vec<String> {
        let records = json_lines(&rig.replay("records", &["--json"]).stdout);
        records.iter().filter_map(|record| Some(record["record"].as_str()?.to_string())).collect()
    };
    let has = |name: &str| known().iter().any(|known| known == name);
    wait_until("the first records", || has("SCAN:READY"));
    let load = |ioc: &mut Ioc, database: &str| {
        let path = rig_file(database);
        ioc.command(&format!("shell dbLoadRecords {}", path.display()));
    };
    load(&mut ioc, "records.db");
    wait_until("the records that came", || has("REC:ARRAY"));
    load(&mut ioc, "processing.db");
    wait_until("those that came last", || has("PROC:LOOPED"));
    assert!(agent.stop().success(), "{}", agent.errors());
    let names = known();
    assert_eq!(names.iter().filter(|name| *name == "REC:VALVE").count(), 1, "{names:?}");
    let (mut aliases, mut scanned) = (0, 0);
    for file in find(&rig.dir.join("log")).expect("the log") {
        let mut segment = Segment::open(&file.path).expect("a segment");
        while let Some(block) = segment.next_block() {
            let block = block.expect("a block");
            for event in block.events.iter().filter(|_| !block.keyframe) {
                aliases += usize::from(matches!(event.fact, Fact::Alias(_)));
                scanned += usize::from(matches!(event.fact, Fact::RecordScan(_)));
            }
        }
    }
    assert_eq!(aliases, 1, "REC:V1");
    assert_eq!(scanned, 0, "nothing is scanned before iocInit");
}

#[test]
fn numbers_are_shown_with_their_enum_strings() {
    let Some(rig) = Rig::new("numbers_are_shown_with_their_enum_strings") else { return };
    let ioc = ioc(&rig);
    let mut client = rig.client("caproto", &[PORT], &[]);
    let mut agent = rig.record(&["--pid", &ioc.pid_argument()]);
    rig.wait_until_recording(&mut client, "REC:READY", "both");
    client.put("REC:VALVE", ENUM, json!(1), true);
    client.put("REC:MODE.SCAN", ENUM, json!(1), true);
    client.put("REC:READY.DTYP", ENUM, json!(1), true);
    client.put("REC:READY.DTYP", STRING, json!("Soft Channel"), true);
    client.put("REC:CALC.A", DOUBLE, json!(9), true);
    let puts = |pv: &str| rig.puts(&["--pv", pv]);
    wait_until("the log has the puts", || !puts("REC:CALC.A").is_empty());
    assert!(agent.stop().success());
    let texts = |put: &Value| ["old", "old_text", "new", "new_text"].map(|key| put[key].clone());
    let valve = puts("REC:VALVE");
    assert_eq!(texts(&valve[0]), [json!(0), json!("Closed"), json!(1), json!("Open")]);
    assert_eq!(texts(&puts("REC:MODE.SCAN")[0]), [json!(0), json!("Passive"), json!(1), json!("Event")]);
    let (soft, raw) = ([json!(0), json!("Soft Channel")], [json!(1), json!("Raw Soft Channel")]);
    let support = puts("REC:READY.DTYP");
    assert_eq!(texts(&support[0])[..], [soft.clone(), raw.clone()].concat());
    assert_eq!(texts(&support[1])[..], [raw, soft].concat());
    assert_eq!(puts("REC:CALC.A")[0]["new_text"], Value::Null);
    let text = String::from_utf8(rig.replay("puts", &["--pv", "REC:VALVE"]).stdout).expect("text");
    assert!(text.contains(r#"0 "Closed" -> 1 "Open""#), "{text}");
    let traces = String::from_utf8(rig.replay("traces", &["--pv", "REC:CALC"]).stdout).expect("text");
    assert!(traces.contains("= 10 MINOR HIGH"), "{traces}");
}
