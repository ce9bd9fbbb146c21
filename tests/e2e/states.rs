//! Names of states that device support changes (states.c): no state is told by a name that it no longer had.

use crate::rig::own_program::shared_library;
use crate::rig::{json_lines, wait_until, Rig};
use serde_json::{json, Value};
use std::thread::sleep;
use std::time::Duration;

const PORT: u16 = 5074;
/// DBR_LONG of the protocol.
const LONG: u16 = 5;

fn names_are_read_again(tier: &str) {
    let Some(rig) = Rig::new(&format!("states-{tier}")) else { return };
    let library = shared_library(&rig, "states.c");
    let mut ioc = rig.ioc_with("states", PORT, "states.db", &["--routines", &library]);
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument(), "--tier", tier]);
    let mut client = rig.client("libca", &[PORT], &[]);
    let source = if tier == "packet" { "packet" } else { "both" };
    rig.wait_until_recording(&mut client, "STATES:READY", source);
    let states = |record: &str| {
        let records = json_lines(&rig.replay("records", &["--json", "--pv", record]).stdout);
        records.first().map_or(Value::Null, |record| record["states"].clone())
    };
    wait_until("the log has the names", || states("STATES:MODE") == json!(["Idle", "Run", "Off"]));
    client.put("STATES:MODE", LONG, json!(1), true);
    sleep(Duration::from_secs(3)); // the names are read once a second: they were the same after this put
    ioc.command("dbpf STATES:RENAME.A 1");
    // just after the change, with no name or with that of the time
    client.put("STATES:MODE", LONG, json!(0), true);
    client.put("STATES:MODE", LONG, json!(1), true);
    wait_until("the log has the new names", || {
        states("STATES:MODE") == json!(["Idle1", "Run1", "Off"])
            && states("STATES:GATE") == json!(["Shut1", "Open1"])
    });
    client.put("STATES:MODE", LONG, json!(0), true);
    client.put("STATES:MODE", LONG, json!(2), true);
    sleep(Duration::from_secs(3));
    // the last one is seen only as the recorder stops, if at all
    ioc.command("dbpf STATES:RENAME.A 2");
    client.put("STATES:MODE", LONG, json!(1), true);
    assert!(recorder.stop().success(), "{}", recorder.errors());
    assert_eq!(states("STATES:GATE"), json!(["Shut2", "Open2"]));

    if tier == "packet" {
        return; // what became of puts is not known, and not told by name
    }
    let puts = rig.puts(&["--pv", "STATES:MODE"]);
    let told: Vec<_> = puts.iter().map(|put| (put["requested"].as_i64(), put["new_text"].as_str())).collect();
    let expected: [(i64, &[Option<&str>]); 6] = [
        (1, &[Some("Run")]),
        (0, &[None, Some("Idle1")]),
        (1, &[None, Some("Run1")]),
        (0, &[Some("Idle1")]),
        (2, &[Some("Off")]),
        (1, &[None, Some("Run2")]),
    ];
    assert_eq!(told.len(), expected.len(), "{told:?}");
    for ((value, name), (expected, names)) in told.iter().zip(expected) {
        assert!(*value == Some(expected) && names.contains(name), "{told:?}");
    }
}

#[test]
fn names_that_device_support_changes() {
    names_are_read_again("auto");
}

#[test]
fn names_that_device_support_changes_without_probes() {
    names_are_read_again("packet");
}
