//! A `.sav` file of `iocreplay at`, put back into a real IOC as `fdbrestore` of the module autosave does: the file is read by
//! the module's rules, and each value put as it puts it, texts for all but arrays. EPICS Base's caget compares.
//!
//! No package has the module itself; how it was tried with it is in docs/exchange.md.

use crate::rig::{iocreplay, Rig};
use crate::scripts;
use iocrec_testing::readers::autosave::restored;
use serde_json::{json, Value};
use std::collections::BTreeMap;
use std::process::Command;
use std::thread;
use std::time::Duration;

const PORT: u16 = 5074;

/// DBR types, the protocol's numbers.
const STRING: u16 = 0;
const CHAR: u16 = 4;
const LONG: u16 = 5;
const DOUBLE: u16 = 6;

const NOTIFY: bool = true;

/// PVs, the DBR type of puts to them, the value to come back, and the one that it has when it does.
fn puts() -> Vec<(&'static str, u16, Value, Value)> {
    let text = |text: &str| text.bytes().chain([0]).collect::<Value>();
    vec![
        ("PUT:DOUBLE", DOUBLE, json!(0.1), json!(5.0)),
        ("PUT:LONG", LONG, json!(-7), json!(3)),
        ("PUT:INT64", STRING, json!("9007199254740993"), json!("1")),
        ("PUT:ENUM", STRING, json!("On"), json!("Off")),
        ("PUT:BINARY", STRING, json!("Open"), json!("Closed")),
        ("PUT:TEXT", STRING, json!("it's \"a\" \\\n "), json!("other")),
        (
            "PUT:LONGTEXT.$",
            CHAR,
            text("a text that is longer than forty characters, 'with' \"quotes\" and $(no macro)"),
            text("x"),
        ),
        ("PUT:SHORTS", DOUBLE, json!([1.0, -2.0]), json!([9.0])),
        ("PUT:TEXTS", STRING, json!(["a b", "'\"\\", "}"]), json!(["x"])),
        ("PUT:BYTES", CHAR, json!([1, 200, 7]), json!([3])),
        ("PUT:FLOATS", DOUBLE, json!([0.1, 1e30]), json!([3.0])),
        ("PUT:USHORTS", DOUBLE, json!([65535.0, 1.0]), json!([3.0])),
        ("PUT:LONGS", DOUBLE, json!([-2_147_483_648.0, 5.0]), json!([3.0])),
        ("PUT:DOUBLES", DOUBLE, json!([0.1, -1.0 / 3.0]), json!([3.0])),
        ("PUT:LONG.DESC", STRING, json!("  two  \t end"), json!("")),
        // menus: as numbers in the file, where a name would set another choice
        ("PUT:LONG.SCAN", STRING, json!("1 second"), json!("Passive")),
        ("PUT:ALARM.HSV", STRING, json!("MINOR"), json!("MAJOR")),
        ("PUT:ALIASED", DOUBLE, json!(2.5), json!(0.0)),
    ]
}

/// What caget shows of these PVs.
fn shown(tools: &scripts::Tools, pvs: &[String]) -> BTreeMap<String, String> {
    let shown = |pv: &String| {
        // 64 bits do not go over Channel Access but as text
        let options: &[&str] = match pv.as_str() {
            "PUT:INT64" => &["-s"],
            long if long.ends_with('$') => &["-S"],
            _ => &["-n", "-g", "17"],
        };
        let mut caget = Command::new(tools.directory.join("caget"));
        caget.args(["-t", "-w", "20"]).args(options).arg(pv).env("EPICS_CA_AUTO_ADDR_LIST", "NO");
        caget.env("EPICS_CA_ADDR_LIST", format!("127.0.0.1:{PORT}"));
        let output = caget.env("EPICS_CA_SERVER_PORT", PORT.to_string()).output().expect("caget runs");
        assert!(output.status.success(), "{pv}: {}", String::from_utf8_lossy(&output.stderr));
        (pv.clone(), String::from_utf8(output.stdout).expect("escaped"))
    };
    pvs.iter().map(shown).collect()
}

#[test]
fn a_sav_file_gives_a_real_ioc_its_values_back() {
    let Some(rig) = Rig::new("autosave") else { return };
    let tools = scripts::tools("autosave", &rig.dir);
    let ioc = rig.ioc("puts", PORT, "puts.db", &[]);
    let mut client = rig.client("libca", &[PORT], &[]);
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument()]);
    rig.wait_until_recording(&mut client, "PUT:READY", "both");
    for (pv, dbr, value, _) in puts() {
        assert_eq!(client.put(pv, dbr, value, NOTIFY), 1, "{pv}");
    }
    // a whole second, after all of them
    thread::sleep(Duration::from_millis(1100));
    let now = Command::new("date").args(["-u", "+%Y-%m-%dT%H:%M:%SZ"]).output().expect("date").stdout;
    let now = String::from_utf8(now).expect("UTF-8").trim().to_owned();
    assert!(recorder.stop().success(), "{}", recorder.errors());
    // to the one nothing can be put
    let options = ["--format", "autosave", "--exclude", "PUT:LOCKED", "--exclude", "PUT:READY"];
    let made =
        Command::new(iocreplay()).args(["at", &now]).args(options).arg(rig.log()).output().expect("it runs");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let file = String::from_utf8(made.stdout).expect("UTF-8");
    let saved = restored(&file);
    for (pv, ..) in puts() {
        assert!(saved.contains_key(pv), "{pv} is missing: {file}");
    }
    let pvs: Vec<String> = saved.keys().cloned().collect();
    let before = shown(&tools, &pvs);

    for (pv, dbr, _, value) in puts() {
        client.put(pv, dbr, value, NOTIFY);
    }
    let other = shown(&tools, &pvs);
    for (pv, ..) in puts() {
        assert_ne!(other[pv], before[pv], "{pv} is to have another value meanwhile");
    }
    for (pv, saved) in &saved {
        let text = |value: &Vec<u8>| String::from_utf8(value.clone()).expect("UTF-8");
        let number = |value: &Vec<u8>| text(value).parse::<f64>().expect("a number");
        let dbr = puts().iter().find(|put| put.0 == pv).map_or(DOUBLE, |put| put.1);
        let (dbr, value) = match saved.is_array {
            false if pv.ends_with('$') => {
                (CHAR, saved.values[0].iter().copied().chain([0]).collect::<Value>())
            }
            false => (STRING, json!(text(&saved.values[0]))),
            true if dbr == STRING => (STRING, saved.values.iter().map(text).collect()),
            true => (dbr, saved.values.iter().map(number).map(|number| whole(dbr, number)).collect()),
        };
        assert_eq!(client.put(pv, dbr, value, NOTIFY), 1, "{pv}");
    }
    assert_eq!(shown(&tools, &pvs), before, "{file}");
}

/// A number for an element of this type.
fn whole(dbr: u16, number: f64) -> Value {
    match dbr {
        CHAR => json!(number as u8),
        _ => json!(number),
    }
}
