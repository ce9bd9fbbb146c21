//! What `net` and `clients` say of circuits and their channels: what was refused or denied, by its names, and how each ended
//! as far as that is known; and whether a search goes on.

mod common;

use common::network::{address, channel, circuit, log_of, rows, searched, works, NAMESPACE, SERVER};
use common::{run, SECOND};
use iocrec_log::event::*;
use serde_json::Value as Json;

fn access(at: u64, channel: u32, rights: u16) -> (u64, Fact) {
    (at * SECOND, Fact::AccessRights(AccessRights { channel, circuit: 11, rights }))
}

/// What a client was refused, by its names, each once; what it may do again, and what it may not when the log ends.
#[test]
fn what_was_refused_or_denied_is_told_by_name() {
    let mut events = circuit(5, 11, address(5, 42_001));
    // eight tries with two names
    for number in 0..8 {
        let (id, pv) = (100 + number, if number < 5 { "T:NOT" } else { "T:NEITHER" });
        events.push((6 * SECOND, channel(6, id, 11, pv).1));
        let closed = ChannelClosed { channel: id, reason: ChannelReason::Refused };
        events.push((6 * SECOND, Fact::ChannelClosed(closed)));
        events.push((6 * SECOND, Fact::ChannelEnd(id)));
    }
    for (id, pv) in [(11, "T:A"), (12, "T:B"), (13, "T:C"), (14, "T:D"), (15, "T:CLEARED")] {
        events.push(channel(7, id, 11, pv));
    }
    // two were denied twice and are not any more, two still are, one was when it was cleared
    for channel in [11, 12] {
        events.extend([access(8, channel, 1), access(9, channel, 3)]);
        events.extend([access(10, channel, 1), access(11, channel, 3)]);
    }
    events.extend([access(12, 13, 1), access(13, 14, 1), access(14, 15, 1)]);
    let cleared = ChannelClosed { channel: 15, reason: ChannelReason::Cleared };
    events.extend([(15 * SECOND, Fact::ChannelClosed(cleared)), (15 * SECOND, Fact::ChannelEnd(15))]);
    events.push((60 * SECOND, Fact::Mark("end".into())));
    let directory = log_of(events);
    let here = directory.path();
    let text = works(here, &[]);
    let server = "demo (10.0.0.9:5064)";
    let who = "carol@office 10.0.0.5:42001";
    for part in [
        format!("{server} did not make channels for {who}, 8 times; T:NEITHER T:NOT\n"),
        // one from 12 s on, one from 13 s on
        format!("{who} may not write 2 channels on {server}, the last of them since 2026-09-21T14:13:33.000"),
        format!("{who} may not write T:CLEARED on {server}\n"),
    ] {
        assert!(text.contains(&part), "{part} is not in\n{text}");
    }
    let regained = format!("{who} was not allowed to write 2 channels on {server} until ");
    assert!(text.contains(&regained) && text.contains("; T:A T:B\n"), "{text}");
    // asked for by any of its names
    for (pv, kind) in [("T:NOT", "channel_refused"), ("T:D", "no_access"), ("T:B", "no_access")] {
        let found = rows(here, &["--pv", pv]);
        let [line] = &found[..] else { panic!("{pv}: {found:#?}") };
        assert_eq!(line["kind"], kind);
        let pvs = line["pvs"].as_array().unwrap();
        assert!(pvs.len() == 2 && pvs.contains(&Json::from(pv)), "{line}");
    }
    let denied = rows(here, &["--kind", "no_access"]);
    let told: Vec<(u64, &Json)> =
        denied.iter().map(|row| (row["count"].as_u64().unwrap(), &row["going_on"])).collect();
    assert_eq!(told, [(2, &Json::Bool(false)), (2, &Json::Bool(true)), (1, &Json::Null)], "{denied:#?}");
    let last = denied[0]["last"].as_str().unwrap();
    // the log begins at 14:13:20
    assert_eq!(&last[11..19], "14:13:31");
    // the channels that it has are those that were made
    let (_, out, _) = run(here, &["clients", "log", "--user", "carol", "--format", "jsonl"]);
    let circuit: Json = serde_json::from_str(out.lines().next().unwrap()).unwrap();
    assert_eq!(circuit["channels"], 5, "{circuit}");
    let names: Vec<&str> =
        circuit["channel_names"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    assert_eq!(names, ["T:A", "T:B", "T:C", "T:CLEARED", "T:D"]);
}

/// A circuit ends with the IOC at one of its ends, also if the other side never closes it.
#[test]
fn a_circuit_ends_with_its_ioc() {
    let mut events = circuit(5, 11, address(5, 42_001));
    let off = EventsOff { circuit: 11, since: 20 * SECOND, times: 1, off: SECOND, is_off: true };
    events.push((21 * SECOND, Fact::EventsOff(off)));
    events.push((
        26 * SECOND,
        Fact::EchoLate(EchoLate { circuit: 11, since: 20 * SECOND, is_answered: false }),
    ));
    // another client closed its circuit when it saw the end
    events.extend(circuit(6, 12, address(5, 42_002)));
    events.push((30 * SECOND, Fact::IocEnd(IocEnd { ioc: 1, how: "killed by SIGSEGV".into() })));
    let closed = CircuitClosed { circuit: 12, reason: CloseReason::Closed, by: Some(CircuitSide::Server) };
    events.extend([(31 * SECOND, Fact::CircuitClosed(closed)), (31 * SECOND, Fact::CircuitEnd(12))]);
    // a third one never did, which was noted a minute later
    events.extend(circuit(7, 13, address(5, 42_003)));
    let half = CircuitClosed { circuit: 13, reason: CloseReason::HalfClosed, by: Some(CircuitSide::Server) };
    events.extend([(90 * SECOND, Fact::CircuitClosed(half)), (90 * SECOND, Fact::CircuitEnd(13))]);
    events.push((91 * SECOND, Fact::Mark("end".into())));
    let directory = log_of(events);
    let here = directory.path();
    let ended = rows(here, &["--kind", "disconnected"]);
    let told: Vec<String> = ended
        .iter()
        .map(|row| {
            format!(
                "{} {} {} {}",
                &row["time"].as_str().unwrap()[14..19],
                row["client"],
                row["reason"],
                row["by"]
            )
        })
        .collect();
    let expected = [
        r#"13:50 "10.0.0.5:42001" "ioc_ended" "server""#,
        r#"13:50 "10.0.0.5:42003" "ioc_ended" "server""#,
        r#"13:51 "10.0.0.5:42002" "closed" "server""#,
    ];
    assert_eq!(told, expected, "{ended:#?}");
    assert!(works(here, &[]).contains("the IOC that served it ended"));
    let (_, out, _) = run(here, &["clients", "log", "--user", "carol", "--format", "jsonl", "--utc"]);
    let states: Vec<String> = out
        .lines()
        .map(|line| {
            let row: Json = serde_json::from_str(line).unwrap();
            format!("{} {}", row["state"].as_str().unwrap(), &row["disconnected"].as_str().unwrap()[14..19])
        })
        .collect();
    assert_eq!(states, ["ioc_ended 13:50", "closed 13:51", "ioc_ended 13:50"], "{out}");
    for kind in ["slow_client", "unresponsive"] {
        let rows = rows(here, &["--kind", kind]);
        let [row] = &rows[..] else { panic!("one: {rows:#?}") };
        assert_eq!(row["going_on"], false, "{row}");
    }
    let echo = &rows(here, &["--kind", "unresponsive"])[0];
    assert_eq!(echo["duration_ms"], 10_000.0, "{echo}");
}

/// Servers of one name may be fewer than their addresses.
#[test]
fn what_may_be_one_server_is_said() {
    let client = address(5, 50_001);
    let host = "those on the same host may be one server before and after a restart";
    let port = "those with the same port may be one server with several addresses";
    let events = vec![
        searched("T:RESTARTED", client, (10, 60), 2, &[address(9, 40_001), address(9, 40_002)]),
        searched("T:TWO:CARDS", client, (10, 60), 2, &[address(8, 5064), address(9, 5064)]),
        searched("T:TWO", client, (10, 60), 2, &[address(8, 40_001), address(9, 40_002)]),
        (120 * SECOND, Fact::Mark("end".into())),
    ];
    let directory = log_of(events);
    let lines = rows(directory.path(), &["--kind", "several_servers"]);
    let of = |pv: &str| lines.iter().find(|line| line["pv"] == pv).unwrap()["text"].clone();
    assert_eq!(of("T:RESTARTED"), host);
    assert_eq!(of("T:TWO:CARDS"), port);
    assert_eq!(of("T:TWO"), Json::Null);
}

/// Whether a search goes on is said only where the last one was no longer ago than searches were apart.
#[test]
fn a_search_that_may_have_ceased_is_not_said_to_go_on() {
    let client = address(5, 50_001);
    let server = SERVER;
    let mut events = vec![
        searched("T:ANSWERED", client, (598, 599), 2, &[server]),
        searched("T:CEASED", client, (10, 13), 31, &[]),
        searched("T:BRIEF", client, (500, 503), 31, &[]),
        searched("T:GOES:ON", client, (500, 598), 50, &[]),
        searched("T:ONCE", client, (590, 590), 1, &[]),
    ];
    let sender = Sender {
        namespace: NAMESPACE,
        client,
        pid: 4711,
        program: "caget".into(),
        user: "carol".into(),
        ioc: None,
    };
    events.extend([(SECOND, Fact::from(sender)), (600 * SECOND, Fact::Mark("end".into()))]);
    let directory = log_of(events);
    let all = rows(directory.path(), &["--all"]);
    let of = |pv: &str| all.iter().find(|row| row["pv"] == pv).unwrap()["going_on"].clone();
    assert_eq!(of("T:ANSWERED"), Json::Null);
    assert_eq!(of("T:CEASED"), false);
    assert_eq!(of("T:BRIEF"), Json::Null);
    assert_eq!(of("T:GOES:ON"), true);
    assert_eq!(of("T:ONCE"), Json::Null);
}

/// What the recorder sees no more of has not ended, and what one side closed is told when it did.
#[test]
fn what_clients_says_of_ends_that_were_not_seen() {
    let reasons = [
        (11, CloseReason::NotCaptured, None),
        (12, CloseReason::Moved, None),
        (13, CloseReason::HalfClosed, Some(CircuitSide::Server)),
        (14, CloseReason::Replaced, None),
        (15, CloseReason::NotCaptured, None),
    ];
    let mut events = Vec::new();
    for (id, reason, by) in reasons {
        events.extend(circuit(5, id, address(5, 42_000 + id as u16)));
        events.push((30 * SECOND, Fact::CircuitClosed(CircuitClosed { circuit: id, reason, by })));
        events.push((30 * SECOND, Fact::CircuitEnd(id)));
    }
    events.push((60 * SECOND, Fact::Mark("end".into())));
    let directory = log_of(events);
    let here = directory.path();
    let (_, out, _) = run(here, &["clients", "log", "--user", "carol", "--format", "jsonl", "--utc"]);
    let told: Vec<String> = out
        .lines()
        .map(|line| {
            let row: Json = serde_json::from_str(line).unwrap();
            let time = |key: &str| row[key].as_str().map_or("-", |time| &time[14..19]).to_owned();
            format!("{} {} {}", row["state"].as_str().unwrap(), time("disconnected"), time("watched_until"))
        })
        .collect();
    let open = "open - 13:50".to_owned();
    let closed = "closed 13:50 -".to_owned();
    assert_eq!(told, [open.clone(), open.clone(), closed.clone(), closed, open], "{out}");
    let (_, text, _) = run(here, &["clients", "log", "--user", "carol", "--utc"]);
    for part in [
        "still connected when its recording ended",
        "(closed by the server up to a minute before, but not by the other side)",
        "(another took its place, its end was not seen)",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
}
