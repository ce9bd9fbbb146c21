//! TSEL links to the time of a record: Base keeps their `.TIME` apart from the name.

use crate::rig::{Client, Rig};
use serde_json::{json, Value};

const PORT: u16 = 5074;
const STRING: u16 = 0;
const NOTIFY: bool = true;
const TSEL: &str = "PUT:PLAIN.TSEL";

fn puts(tier: &str) {
    let Some(rig) = Rig::new(&format!("time-links-{tier}")) else { return };
    let ioc = rig.ioc("one", PORT, "puts.db", &[]);
    let mut client = rig.client("libca", &[PORT], &[]);
    // before the recorder has read a link, and after
    client.put(TSEL, STRING, json!("PUT:DOUBLE.TIME"), NOTIFY);
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument(), "--tier", tier]);
    rig.wait_until_recording(&mut client, "PUT:READY", "both");
    let links = ["PUT:READY.TIME", "PUT:READY.VAL PP MS", "PUT:DOUBLE.TIME CA", ""];
    let shown = |client: &mut Client| client.get(TSEL);
    let mut truth = Vec::new();
    for link in links {
        let before = shown(&mut client);
        client.put(TSEL, STRING, json!(link), NOTIFY);
        truth.push((before, shown(&mut client)));
    }
    assert!(recorder.stop().success(), "{}", recorder.errors());
    let puts = rig.puts(&["--pv", TSEL]);
    let told: Vec<(Value, Value)> = puts.iter().map(|put| (put["old"].clone(), put["new"].clone())).collect();
    assert_eq!(told, truth);
    assert!(truth.iter().any(|(_, link)| link == "PUT:READY.TIME NPP NMS"), "{truth:?}");
}

#[test]
fn puts_to_tsel_over_the_ring_buffer() {
    puts("ring");
}

#[test]
fn puts_to_tsel_over_perf_buffers() {
    puts("perf");
}
