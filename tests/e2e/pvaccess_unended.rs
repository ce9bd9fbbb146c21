//! Puts over PVAccess whose requests their client never ends: they are told when the server has answered, not when the
//! connection ends.

use crate::pva_messages::message;
use crate::rig::pva_client::PvaClient;
use crate::rig::{wait_until, Rig};
use serde_json::json;
use std::time::{Duration, Instant};

const PORT: u16 = 5774;
/// Where ioc.py serves PVAccess.
const PVA: u16 = PORT + 1000;
/// An empty pvRequest.
const NONE: &[u8] = b"\x80\x00\x00";

fn told_soon(server: &str, tier: &str) {
    let Some(rig) = Rig::new(&format!("unended-{server}-{tier}")) else { return };
    let ioc = rig.ioc_with("unended", PORT, "pvaccess.db", &["--pva", server]);
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument(), "--tier", tier]);
    let mut ca = rig.client("libca", &[PORT], &[]);
    let source = if tier == "packet" { "packet" } else { "both" };
    rig.wait_until_recording(&mut ca, "PVA:READY", source);
    let mut client = PvaClient::connect(PVA, "operator", "console-7");
    let sid = client.channel("PVA:SP");
    let (ioid, _) = client.prepare(11, sid, NONE);
    for (step, number) in (0..).zip([1.5f64, 2.5, 3.5]) {
        let (_, status) = client.ask(11, sid, ioid, 0, &[&[1, 2][..], &number.to_le_bytes()].concat());
        assert_eq!(status[0], 0xff);
        let begin = Instant::now();
        let put = || rig.puts(&["--pv", "PVA:SP"]).into_iter().nth(step);
        wait_until("it is told", || put().is_some());
        eprintln!("{server} {tier}: {number} told after {:?}", begin.elapsed());
        assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
        // the rest of it
        std::thread::sleep(Duration::from_millis(1500));
        let put = put().expect("it was told");
        let told = ["requested", "new", "status", "source"].map(|key| put[key].clone());
        assert_eq!(told, [json!(number), json!(number), json!("ok"), json!(source)], "{put:#}");
    }
    assert_eq!(ca.get("PVA:SP"), json!(3.5));
    assert!(recorder.stop().success(), "{}", recorder.errors());
}

/// QSRV1 carries out a put whose first segment has all of it, and the client never sends the last one.
fn first_segment_alone(tier: &str) {
    let Some(rig) = Rig::new(&format!("first-segment-{tier}")) else { return };
    let ioc = rig.ioc_with("unended", PORT, "pvaccess.db", &["--pva", "qsrv"]);
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument(), "--tier", tier]);
    let mut ca = rig.client("libca", &[PORT], &[]);
    let source = if tier == "packet" { "packet" } else { "both" };
    rig.wait_until_recording(&mut ca, "PVA:READY", source);
    let mut client = PvaClient::connect(PVA, "operator", "console-7");
    let sid = client.channel("PVA:SP");
    let (ioid, _) = client.prepare(11, sid, NONE);
    let ids = [sid.to_le_bytes(), ioid.to_le_bytes()].concat();
    client.say(&message(0x10, 11, &[&ids[..], &[0, 1, 2], &1.5f64.to_le_bytes()].concat()));
    assert_eq!(client.receive(11)[5], 0xff, "the server's answer");
    assert_eq!(ca.get("PVA:SP"), json!(1.5));
    std::thread::sleep(Duration::from_secs(3));
    // the connection is open
    let puts = rig.puts(&["--pv", "PVA:SP"]);
    let told = |put: &serde_json::Value| {
        ["requested", "new", "status", "source", "user"].map(|key| put[key].clone())
    };
    let truth = [json!(1.5), json!(1.5), json!("ok"), json!(source), json!("operator")];
    assert_eq!(puts.iter().map(told).collect::<Vec<_>>(), std::slice::from_ref(&truth), "{puts:#?}");
    drop(client);
    assert!(recorder.stop().success(), "{}", recorder.errors());
    let puts = rig.puts(&["--pv", "PVA:SP"]);
    assert_eq!(puts.iter().map(told).collect::<Vec<_>>(), [truth], "once: {puts:#?}");
}

#[test]
fn a_first_segment_alone() {
    first_segment_alone("ring");
}

#[test]
fn a_first_segment_alone_from_packets() {
    first_segment_alone("packet");
}

#[test]
fn by_qsrv() {
    told_soon("qsrv", "ring");
}

#[test]
fn by_qsrv_from_packets() {
    told_soon("qsrv", "packet");
}

#[test]
fn by_pvxs() {
    told_soon("pvxs", "ring");
}
