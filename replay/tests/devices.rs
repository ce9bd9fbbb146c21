//! Connections with devices and slow clients beside what else happened: in `why`, `last` and the report, and where they don't
//! belong.

mod common;

use common::{complete, happenings, process, run, write_events, SECOND};
use iocrec_log::event::*;
use std::net::Ipv4Addr;
use std::path::Path;

const DEVICE: &str = "10.0.0.20:4001";

/// The end of a connection of an IOC with a device, as a look at this second found it.
fn ended(at: u64, ioc: u32, state: TcpState, retransmitted: u32) -> (u64, Fact) {
    let connection = TcpConnection {
        ioc,
        socket: at as u32,
        local: TcpEnd { ip: vec![10, 0, 0, 9], port: 40_000 + at as u16 },
        remote: TcpEnd { ip: vec![10, 0, 0, 20], port: 4001 },
        state,
        circuit: None,
        after: (at - 1) * SECOND,
        opened: SECOND,
        opened_after: 1,
        retransmitted,
        unsent: 0,
    };
    (at * SECOND, Fact::from(connection))
}

/// T:CALC goes MAJOR at 30 s.
fn alarm() -> Vec<(u64, Fact)> {
    let t = 20 * SECOND;
    let mut facts = vec![(t, process(3, -100, 2, 2)), (t + 1000, complete(3, -200, 2, 20.0, 0))];
    let t = 30 * SECOND;
    facts.extend([(t, process(3, -100, 2, 2)), (t + 1000, complete(3, -200, 2, 99.0, 2))]);
    facts
}

fn written(directory: &Path, more: Vec<(u64, Fact)>) {
    let mut facts = happenings();
    facts.extend(alarm());
    facts.extend(more);
    facts.sort_by_key(|(time, _)| *time);
    write_events(&directory.join("log"), "box1", 7, facts);
}

fn why(more: Vec<(u64, Fact)>, how: &[&str]) -> (String, serde_json::Value) {
    let place = tempfile::tempdir().unwrap();
    written(place.path(), more);
    let (code, text, err) = run(place.path(), &[&["why", "T:CALC", "log", "--utc"], how].concat());
    assert_eq!(code, 0, "{err}");
    let (code, json, err) = run(place.path(), &[&["why", "T:CALC", "log", "--utc", "--json"], how].concat());
    assert_eq!(code, 0, "{err}");
    (text, serde_json::from_str(&json).unwrap())
}

#[test]
fn why_names_a_device_of_the_same_ioc_at_the_same_time_and_no_other() {
    let (text, json) = why(vec![ended(28, 1, TcpState::PeerClosed, 0)], &["--alarm"]);
    let expected = format!(
        "At the same time: 2026-09-21T14:13:48.000000000+00:00  device {DEVICE}: closed by the device \
         (this need not have to do with it)"
    );
    assert!(text.contains(&expected), "{text}");
    assert!(!text.contains("Cause: device"), "{text}");
    assert_eq!(json["devices"][0]["device"], DEVICE);
    // a look after the alarm may show what was before it
    let (text, _) = why(vec![ended(31, 1, TcpState::Gone, 0)], &["--alarm"]);
    assert!(text.contains("At the same time:"), "{text}");
    for (what, other) in [
        ("long before", ended(24, 1, TcpState::PeerClosed, 0)),
        ("later", ended(33, 1, TcpState::PeerClosed, 0)),
        ("of another IOC", ended(28, 2, TcpState::PeerClosed, 0)),
        ("closed by the IOC", ended(28, 1, TcpState::Closed, 0)),
    ] {
        let (text, json) = why(vec![other], &["--alarm"]);
        assert!(!text.contains("At the same time"), "{what}: {text}");
        assert_eq!(json["devices"].as_array().unwrap().len(), 0, "{what}");
    }
}

#[test]
fn a_change_that_is_no_alarm_names_no_device() {
    let place = tempfile::tempdir().unwrap();
    let t = 40 * SECOND;
    let back = vec![
        (t, process(3, -100, 2, 2)),
        (t + 1000, complete(3, -200, 2, 20.0, 0)),
        ended(39, 1, TcpState::PeerClosed, 0),
    ];
    written(place.path(), back);
    let (code, text, err) = run(place.path(), &["why", "T:CALC", "log", "--utc"]);
    assert_eq!(code, 0, "{err}");
    assert!(!text.contains("At the same time"), "{text}");
}

/// Python code in the IOC's process serves PVs at a port that is not known as the IOC's.
#[test]
fn a_client_is_no_device_whatever_port_it_is_served_at() {
    let place = tempfile::tempdir().unwrap();
    let client = Address::new(Ipv4Addr::new(10, 0, 0, 20), 4001);
    let server = Address::new(Ipv4Addr::new(10, 0, 0, 9), 40_028);
    let (user, host, origin) = (String::new(), String::new(), Origin::Opened);
    let circuit = Circuit { id: 50, client, server, user, host, minor: 0, origin };
    let end = ended(28, 1, TcpState::PeerClosed, 0);
    written(place.path(), vec![(27 * SECOND, Fact::from(circuit)), end]);
    let (code, text, err) = run(place.path(), &["net", "log", "--utc", "--all"]);
    assert_eq!(code, 0, "{err}");
    assert!(!text.contains(&format!("device {DEVICE}")), "{text}");
}

fn slow(at: u64, since: u64, is_over: bool) -> (u64, Fact) {
    let of = SlowClient {
        ioc: 1,
        client: TcpEnd { ip: vec![10, 0, 0, 6], port: 42_050 },
        server: TcpEnd { ip: vec![10, 0, 0, 9], port: 5064 },
        circuit: Some(50),
        since: since * SECOND,
        is_over,
        unsent: if is_over { 0 } else { 9000 },
        window_closed: true,
        updates: Some(vec![Updates { pv: "T:CALC".into(), pending: 5, replaced: Some(467) }]),
        is_whole: true,
    };
    (at * SECOND, Fact::from(of))
}

fn slow_client() -> Vec<(u64, Fact)> {
    let circuit = Circuit {
        id: 50,
        client: Address::new(Ipv4Addr::new(10, 0, 0, 6), 42_050),
        server: Address::new(Ipv4Addr::new(10, 0, 0, 9), 5064),
        user: "<b>carol".into(),
        host: "office".into(),
        minor: 13,
        origin: Origin::Opened,
    };
    let ends = CircuitEnds { circuit: 50, namespace: 7, server: Some(1), client: None };
    vec![
        (9 * SECOND, Fact::from(circuit)),
        (9 * SECOND, Fact::CircuitEnds(ends)),
        slow(14, 12, false),
        slow(24, 12, true),
    ]
}

#[test]
fn last_and_the_report_tell_them() {
    let place = tempfile::tempdir().unwrap();
    let mut more = slow_client();
    // a device that hangs up twice, one end that the IOC made, and one that goes with the IOC
    more.push(ended(26, 1, TcpState::PeerClosed, 120));
    more.push(ended(27, 1, TcpState::PeerClosed, 0));
    more.push(ended(28, 2, TcpState::Closed, 0));
    more.push(ended(34, 1, TcpState::Gone, 0));
    more.push((35 * SECOND, Fact::IocEnd(IocEnd { ioc: 1, how: "killed by SIGKILL".into() })));
    written(place.path(), more);
    let (code, text, err) = run(place.path(), &["last", "demo", "log", "--utc"]);
    assert_eq!(code, 0, "{err}");
    let line =
        "slow        14:13:32.000 10.0.0.6:42050 did not keep up until 14:13:44.000, its window was closed";
    assert!(text.contains(line), "{text}");
    assert!(text.contains(&format!("devices     14:13:46.000 {DEVICE}: closed by the device")), "{text}");
    let (code, json, err) = run(place.path(), &["last", "demo", "log", "--utc", "--json"]);
    assert_eq!(code, 0, "{err}");
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["slow"][0]["client"], "10.0.0.6:42050");
    assert_eq!(json["slow"][0]["updates"][0]["replaced"], 467);

    let (code, page, err) = run(place.path(), &["report", "log", "--utc"]);
    assert_eq!(code, 0, "{err}");
    let (_, moments) = page.split_once("<ol id=\"moments\">").unwrap();
    let moments = moments.split_once("</ol>").unwrap().0;
    assert_eq!(
        moments.matches("class=\"device\"").count(),
        2,
        "its first end, and what was sent again: {moments}"
    );
    assert!(moments.contains("<time>14:13:46</time>"), "no more digits than are known: {moments}");
    assert!(moments.contains(&format!("device {DEVICE}: closed by the device")), "{moments}");
    assert!(moments.contains("120 segments sent again"), "{moments}");
    assert_eq!(moments.matches("class=\"slow\"").count(), 1, "{moments}");
    assert!(moments.contains("client 10.0.0.6:42050 did not keep up until 14:13:44"), "{moments}");
    assert!(moments.contains("467 updates replaced since it subscribed"), "{moments}");
    assert!(!moments.contains("<b>carol") && moments.contains("carol@office"), "{moments}");
    assert!(!moments.contains("14:13:54</time>"), "what ended with the IOC: {moments}");
}
