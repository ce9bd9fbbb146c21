//! The alarm of a record that is disabled before it has ever processed: it is not the one that records begin with.

use crate::rig::{wait_until, Rig};
use serde_json::{json, Value};

const PORT: u16 = 5074;
const SHORT: u16 = 1;
const DOUBLE: u16 = 6;
const PV: &str = "DISABLED:FIRST";

#[test]
fn the_first_alarm_of_a_disabled_record() {
    let Some(rig) = Rig::new("disabled-first") else { return };
    let ioc = rig.ioc("disabled", PORT, "disabled.db", &[]);
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument()]);
    let mut client = rig.client("libca", &[PORT], &[]);
    rig.wait_until_recording(&mut client, "PUT:READY", "both");
    let alarms = || -> Vec<(Value, Value)> {
        let lines = rig.replay("alarms", &["--pv", PV, "--format", "jsonl"]).stdout;
        let lines = String::from_utf8_lossy(&lines).into_owned();
        let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        lines.map(|line| (line["severity"].clone(), line["status"].clone())).collect()
    };
    client.put(PV, DOUBLE, json!(9.0), true);
    assert_eq!((client.get(&format!("{PV}.SEVR")), client.get(&format!("{PV}.STAT"))), (json!(2), json!(18)));
    let is_told = |severity: &str, status: &str| alarms().contains(&(json!(severity), json!(status)));
    wait_until("the alarm is told", || is_told("MAJOR", "DISABLE"));
    client.put(&format!("{PV}.DISA"), SHORT, json!(0), true);
    client.put(PV, DOUBLE, json!(9.5), true);
    assert_eq!(client.get(&format!("{PV}.SEVR")), json!(0));
    wait_until("its end is told", || is_told("NO_ALARM", "NO_ALARM"));
    assert!(recorder.stop().success(), "{}", recorder.errors());
}
