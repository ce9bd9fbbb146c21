//! `net`: each kind of line in each format, and what may be said of a name whose answer was not seen.

mod common;

use common::network::{address, channel, circuit, log_of, rows, searched, works, NAMESPACE, SERVER};
use common::{complete, definitions, process, run, segments, MS, SCAN, SECOND};
use iocrec_log::event::*;
use iocrec_log::reader::Segment;
use std::collections::BTreeSet;
use std::path::Path;
use tempfile::TempDir;

fn beacons(
    at: u64,
    last: Address,
    noted: BeaconsNoted,
    (number, expected): (u32, u32),
    gap: u64,
) -> (u64, Fact) {
    let beacons = Beacons {
        namespace: NAMESPACE,
        server: last,
        noted,
        count: u32::from(noted != BeaconsNoted::Overdue),
        since: at * SECOND,
        seen: at * SECOND,
        last: number,
        expected,
        gap: gap * SECOND,
        version: 13,
    };
    (at * SECOND, Fact::Beacons(beacons))
}

/// What was found of an IOC's connection with a device at one look.
fn device(at: u64, socket: u32, state: TcpState, opened: u64, retransmitted: u32) -> (u64, Fact) {
    let connection = TcpConnection {
        ioc: 1,
        socket,
        local: TcpEnd { ip: vec![10, 0, 0, 9], port: 40_000 },
        remote: TcpEnd { ip: vec![10, 0, 0, 20], port: 4001 },
        state,
        circuit: None,
        after: (at - 1) * SECOND,
        opened: opened * SECOND,
        opened_after: opened.saturating_sub(1) * SECOND,
        retransmitted,
        unsent: 0,
    };
    (at * SECOND, Fact::from(connection))
}

/// A network on which everything happens.
fn network() -> TempDir {
    let (other, silent, odd) = (address(8, 5064), address(7, 5064), address(6, 5064));
    let load = |names, since: u64| SearchLoad {
        namespace: NAMESPACE,
        since: since * SECOND,
        datagrams: names,
        names,
        left_out: 0,
        cut: 0,
        unread: 0,
        one_in: 1,
        most: vec![(address(99, 50_000), names)],
    };
    let mut events = vec![
        (SECOND, Fact::from(load(3, 0))),
        (
            SECOND,
            Fact::from(Sender {
                namespace: NAMESPACE,
                client: address(5, 50_001),
                pid: 4711,
                program: "caget X".into(),
                user: "carol".into(),
                ioc: None,
            }),
        ),
        searched("NOBODY:HAS", address(5, 50_001), (2, 100), 12, &[]),
        searched("TWO:HAVE", address(5, 50_001), (2, 2), 1, &[SERVER, other]),
        (40 * SECOND, Fact::from(load(20_000, 30))),
        beacons(30, SERVER, BeaconsNoted::First, (1, 1), 0),
        beacons(4, other, BeaconsNoted::First, (77, 77), 0),
        beacons(50, other, BeaconsNoted::OutOfStep, (0, 78), 15),
        beacons(4, odd, BeaconsNoted::First, (5, 5), 0),
        beacons(20, odd, BeaconsNoted::OutOfStep, (9, 6), 15),
        // number 8 comes five seconds after its start, or more
        beacons(6, silent, BeaconsNoted::First, (8, 8), 0),
        beacons(90, silent, BeaconsNoted::Overdue, (8, 9), 0),
    ];
    for (id, port) in [(11, 42_001), (12, 42_002)] {
        events.extend(circuit(5, id, address(5, port)));
        events.push(channel(5, id, id, &format!("T:SP{id}")));
    }
    let second = |second: u64, fact: Fact| (second * SECOND, fact);
    events.extend([
        second(6, Fact::AccessRights(AccessRights { channel: 11, circuit: 11, rights: 1 })),
        second(
            7,
            Fact::EventsOff(EventsOff {
                circuit: 11,
                since: 6 * SECOND,
                times: 3,
                off: SECOND / 2,
                is_off: false,
            }),
        ),
        second(8, Fact::EchoLate(EchoLate { circuit: 11, since: 7 * SECOND, is_answered: false })),
        second(
            9,
            Fact::CaError(CaError {
                circuit: 11,
                channel: Some(11),
                command: 15,
                status: 376,
                count: 2,
                since: 8 * SECOND,
                text: "no".into(),
            }),
        ),
        second(6, Fact::PvaMonitor(PvaMonitor { circuit: 11, channel: 11, ioid: 1, starts: true })),
        second(
            10,
            Fact::ChannelTraffic(ChannelTraffic {
                channel: 11,
                since: 5 * SECOND,
                gets: 1,
                subscriptions: 1,
                updates: 5,
                bytes: 100,
                complete: true,
            }),
        ),
        second(
            10,
            Fact::from(CircuitTraffic {
                circuit: 11,
                since: 5 * SECOND,
                from_client: 100,
                from_server: 1000,
                messages: vec![(Message::Get, 1)],
                not_looked_at: 0,
            }),
        ),
        second(
            11,
            Fact::Registrations(Registrations {
                namespace: NAMESPACE,
                repeater: address(9, 5065),
                requests: 2,
                confirmed: 2,
                since: 10 * SECOND,
            }),
        ),
    ]);
    events.push(channel(12, 13, 11, "T:GONE"));
    events.push(channel(12, 14, 11, "T:NOT"));
    for (id, reason) in [(13, ChannelReason::Disconnected), (14, ChannelReason::Refused)] {
        events.push(second(13, Fact::ChannelClosed(ChannelClosed { channel: id, reason })));
        events.push(second(13, Fact::ChannelEnd(id)));
    }
    for (id, reason, by) in
        [(11, CloseReason::Reset, CircuitSide::Server), (12, CloseReason::Closed, CircuitSide::Client)]
    {
        events.push(second(60, Fact::CircuitClosed(CircuitClosed { circuit: id, reason, by: Some(by) })));
        events.push(second(60, Fact::CircuitEnd(id)));
    }
    events.extend([
        // that it had to send something again does not hide that it came about
        device(70, 1, TcpState::Open, 70, 1),
        device(80, 1, TcpState::PeerClosed, 70, 3),
        device(85, 2, TcpState::Opening, 0, 0),
        device(90, 2, TcpState::Gone, 0, 0),
    ]);
    events.push(second(120, Fact::Mark("end".into())));
    log_of(events)
}

/// The kinds that `--help` of the format names: those of the manual.
fn kinds() -> BTreeSet<String> {
    let manual = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/net.md");
    let text = std::fs::read_to_string(manual).unwrap();
    let table = text.split("## Kinds of lines").nth(1).unwrap().split("## ").next().unwrap();
    let cells =
        table.lines().filter_map(|line| line.strip_prefix("| `")).filter_map(|line| line.split(" | ").next());
    cells.flat_map(|cell| cell.split(',').map(|name| name.trim().trim_matches('`').to_owned())).collect()
}

#[test]
fn every_kind_of_line_in_every_format() {
    let directory = network();
    let here = directory.path();
    let all = rows(here, &["--all"]);
    let found: BTreeSet<String> = all.iter().map(|row| row["kind"].as_str().unwrap().to_owned()).collect();
    assert_eq!(found, kinds(), "each has a line here");
    let text = works(here, &["--all"]);
    assert_eq!(text.lines().count(), all.len(), "{text}");
    let csv = works(here, &["--all", "--format", "csv"]);
    assert_eq!(csv.lines().count(), all.len() + 1, "{csv}");
    for kind in &found {
        let of_kind = rows(here, &["--kind", kind]);
        assert!(!of_kind.is_empty() && of_kind.iter().all(|row| row["kind"] == kind.as_str()), "{kind}");
        let count = all.iter().filter(|row| row["kind"] == kind.as_str()).count();
        assert_eq!(of_kind.len(), count, "{kind}");
    }
    // who was answered does not go on
    let at = |time: &str| rows(here, &["--kind", "searched", "--since", time]);
    let is_in = |rows: &[serde_json::Value]| rows.iter().any(|row| row["pv"] == "TWO:HAVE");
    assert!(is_in(&at("2026-09-21T14:13:22Z")) && !is_in(&at("2026-09-21T14:13:23Z")));
    for part in [
        "NOBODY:HAS searched for by carol 10.0.0.5:50001 (\"caget X\", pid 4711), 12 times",
        ": no answer was seen\n",
        "TWO:HAVE is served by several: 10.0.0.8:5064, 10.0.0.9:5064; last at",
        "20000 searches until",
        "server demo (10.0.0.9:5064) started; beacon number 1",
        "server 10.0.0.8:5064 started again, 15.0 s after the beacon before from its address",
        "a beacon of server 10.0.0.6:5064 came out of step",
        "server 10.0.0.7:5064 sent its last beacon",
        "the server broke the circuit off (RST)",
        "did not make T:NOT for carol@office",
        "ended T:GONE of carol@office",
        "may not write T:SP11 on demo",
        "could not keep up with demo",
        "did not answer an ECHO of carol@office",
        "T:SP11 for carol@office 10.0.0.5:42001 from demo (10.0.0.9:5064) until",
        "repeater 10.0.0.9:5065: 2 registrations",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    assert!(!text.contains("10.0.0.7:5064) started"), "it may be older than the recorder");
    assert!(!text.contains("server 10.0.0.7:5064 started"), "it may be older than the recorder");
}

/// A name that was searched for, and that no record or channel has, is not denied where lines of another kind are asked for.
#[test]
fn lines_of_other_kinds_are_there() {
    let directory = network();
    let said = |words: &[&str]| {
        let (code, out, err) = run(directory.path(), &[&["net", "log"], words].concat());
        assert_eq!((code, out.as_str()), (0, ""), "{words:?}: {err}");
        err
    };
    let other = said(&["--kind", "disconnected", "--pv", "NOBODY:HAS"]);
    assert!(other.contains("lines of other kinds do") && !other.contains("no PV"), "{other}");
    let none = said(&["--kind", "disconnected", "--pv", "NOBODY:ASKED"]);
    assert!(none.contains("no PV or record matches 'NOBODY:ASKED'"), "{none}");
}

/// A client's line has what is told of its circuit.
#[test]
fn what_clients_tells_of_a_circuit() {
    let directory = network();
    let told = |format: &str| {
        let (code, out, err) = run(directory.path(), &["clients", "log", "--format", format]);
        assert_eq!(code, 0, "{err}");
        let of_it = out.lines().filter(|line| line.contains("10.0.0.5:42001")).collect::<Vec<_>>();
        assert_eq!(of_it.len(), 1, "{out}");
        (of_it[0].to_owned(), out)
    };
    let (text, all) = told("text");
    for part in [
        "1 channel refused",
        "1 channel ended by the server",
        "1 channel without all rights",
        "2 errors",
        "1 ECHO not answered in time",
        "3 times asked for no updates",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    let other = all.lines().find(|line| line.contains("10.0.0.5:42002")).unwrap();
    assert!(!other.contains("refused") && !other.contains("ECHO"), "{other}");
    let line: serde_json::Value = serde_json::from_str(&told("jsonl").0).unwrap();
    let kinds: Vec<&str> =
        line["net"].as_array().unwrap().iter().map(|of| of["kind"].as_str().unwrap()).collect();
    let mut sorted = kinds.clone();
    sorted.sort_unstable();
    let expected = [
        "channel_disconnected",
        "channel_refused",
        "error",
        "monitored",
        "no_access",
        "slow_client",
        "traffic",
        "unresponsive",
    ];
    assert_eq!(sorted, expected);
    assert_eq!(kinds.last(), Some(&"monitored"));
}

/// Of an encrypted circuit it is not said that nobody put anything there. A client may call its method so, too.
#[test]
fn encrypted_circuits_are_called_so() {
    let mut events = Vec::new();
    for (id, port, version) in [(11, 42_001, 0), (12, 42_002, 2)] {
        events.extend(circuit(5, id, address(5, port)));
        let (client_ip, server_ip) = (Vec::new(), Vec::new());
        let of = PvaCircuit { circuit: id, version, method: "tls".into(), client_ip, server_ip };
        events.push((6 * SECOND, Fact::from(of)));
    }
    let directory = log_of(events);
    let (code, out, err) = run(directory.path(), &["clients", "log"]);
    assert_eq!(code, 0, "{err}");
    let is_called_so = |port: &str| {
        let mut of_it = out.lines().filter(|line| line.contains(port));
        of_it.next().expect("a line").contains("encrypted: what came on it is not seen")
    };
    assert!(is_called_so("10.0.0.5:42001") && !is_called_so("10.0.0.5:42002"), "{out}");
}

/// What servers of PVAccess refuse, and what they say to people.
#[test]
fn refusals_and_messages_of_pvaccess() {
    let mut events = circuit(5, 11, address(5, 42_001));
    events.push(channel(5, 11, 11, "T:AO"));
    let said = [
        (Some(11), 11, 2, "read only"),
        (Some(11), 11, 2, "read only"),
        (None, 17, 2, "no field"),
        (None, 18, 1, "careful"),
        (None, 18, 0, "hello"),
        (None, 9, 3, "nobody"),
        (Some(11), 7, 2, "no such channel"),
    ];
    for (second, (channel, command, level, text)) in (10..).zip(said) {
        let said = PvaMessage { circuit: 11, channel, command, level, text: text.into() };
        events.push((second * SECOND, Fact::PvaMessage(said)));
    }
    let directory = log_of(events);
    let told: Vec<String> = rows(directory.path(), &["--kind", "error"])
        .iter()
        .map(|row| {
            let keys = ["protocol", "reason", "count", "pv", "text"];
            keys.map(|key| row[key].to_string()).join(" ")
        })
        .collect();
    let expected = [
        r#""pva" "error" 2 "T:AO" "to a put: read only""#,
        r#""pva" "error" 1 null "to a question for a type: no field""#,
        r#""pva" "warning" 1 null "by a message: careful""#,
        r#""pva" "fatal_error" 1 null "to the name of the user: nobody""#,
    ];
    assert_eq!(told, expected);
    let refused = rows(directory.path(), &["--kind", "channel_refused"]);
    assert_eq!(refused.len(), 1, "{refused:?}");
    let text = works(directory.path(), &[]);
    assert!(text.contains("with an error 2 times; to a put: read only"), "{text}");
}

/// What is known of names whose answers were not seen: who serves them since when, and never that nobody does.
#[test]
fn an_answer_that_was_not_seen() {
    let client = address(5, 50_001);
    let mut events = vec![
        // found at once, before the recorder knew the server's port
        searched("T:FOUND", client, (10, 11), 2, &[]),
        // served only after a minute
        searched("T:LATE", client, (10, 70), 9, &[]),
        // another client at that address has it; this one goes on searching
        searched("T:ASTRAY", client, (10, 110), 11, &[]),
        // a client elsewhere has it
        searched("T:ELSEWHERE", address(4, 50_002), (10, 110), 11, &[]),
        searched("T:NOWHERE", client, (10, 110), 11, &[]),
        (
            SECOND,
            Fact::from(Sender {
                namespace: NAMESPACE,
                client,
                pid: 4711,
                program: "caget".into(),
                user: "carol".into(),
                ioc: None,
            }),
        ),
        (120 * SECOND, Fact::Mark("end".into())),
    ];
    events.extend(circuit(11, 11, address(5, 42_001)));
    for (id, at, pv) in
        [(11, 11, "T:FOUND"), (12, 70, "T:LATE"), (13, 12, "T:ASTRAY"), (14, 12, "T:ELSEWHERE")]
    {
        events.push(channel(at, id, 11, pv));
    }
    let directory = log_of(events);
    let here = directory.path();
    let told: Vec<String> = rows(here, &["--all"])
        .iter()
        .filter(|row| row["kind"] == "searched" || row["kind"] == "unanswered")
        .map(|row| {
            let since = row["served_since"].as_str().map_or("-", |time| &time[14..19]);
            format!("{} {} {} {since} {}", row["pv"], row["kind"], row["reason"], row["servers"])
        })
        .collect();
    let expected = [
        r#""T:ASTRAY" "unanswered" "served" 13:32 ["10.0.0.9:5064"]"#,
        r#""T:ELSEWHERE" "unanswered" "no_answer_seen" - []"#,
        r#""T:LATE" "unanswered" "served" 14:30 ["10.0.0.9:5064"]"#,
        r#""T:NOWHERE" "unanswered" "no_answer_seen" - []"#,
        r#""T:FOUND" "searched" "served" 13:31 ["10.0.0.9:5064"]"#,
    ];
    assert_eq!(told, expected);
    let later = rows(here, &["--all", "--since", "2026-09-21T14:15:15Z"]);
    let pvs: Vec<&str> = later.iter().filter_map(|row| row["pv"].as_str()).collect();
    assert!(pvs.contains(&"T:NOWHERE") && !pvs.contains(&"T:FOUND"), "{pvs:?}");
    let text = works(here, &["--all"]);
    for part in [
        "served to this address by 10.0.0.9:5064 since 2026-09-21T14:13:31.000+00:00; its answer was not seen",
        "no answer was seen; server 10.0.0.9:5064 has it, seen elsewhere in these logs",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
}

/// Damages a block of the log of what happened from 18 s on, before 24 s.
fn damage(here: &Path) {
    let file = segments(&here.join("log")).remove(0);
    let mut segment = Segment::open(&file).unwrap();
    let mut abouts = std::iter::from_fn(|| segment.next_about()).filter_map(Result::ok);
    let about = abouts.find(|about| !about.keyframe && about.first >= 18 * SECOND).unwrap();
    assert!(about.last < 24 * SECOND, "{about:?}");
    let mut bytes = std::fs::read(&file).unwrap();
    bytes[(about.offset + about.length - 1) as usize] ^= 1;
    std::fs::write(&file, bytes).unwrap();
}

/// In what is missing, a silent server may have sent a beacon, and a client stopped its monitor: nobody knows whether these go
/// on. Of another circuit something was noted later.
#[test]
fn what_lasts_may_be_over_in_what_is_missing() {
    let mut events: Vec<(u64, Fact)> =
        (10..40).map(|second| (second * SECOND, Fact::Mark("tick".into()))).collect();
    for (id, port) in [(11, 42_001), (12, 42_002)] {
        events.extend(circuit(11, id, address(5, port)));
        events.push(channel(11, id, id, &format!("T:SP{id}")));
        let monitor = PvaMonitor { circuit: id, channel: id, ioid: 1, starts: true };
        events.push((12 * SECOND, Fact::PvaMonitor(monitor)));
    }
    let again = PvaMonitor { circuit: 12, channel: 12, ioid: 2, starts: true };
    events.push((30 * SECOND, Fact::PvaMonitor(again)));
    events.push(beacons(15, address(7, 5064), BeaconsNoted::Overdue, (8, 9), 0));
    let directory = log_of(events);
    let here = directory.path();
    let told = || -> Vec<String> {
        let (_, out, err) = run(here, &["net", "log", "--all", "--format", "jsonl"]);
        let rows = out.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        let mut told: Vec<String> = rows
            .filter(|row| row["kind"] == "monitored" || row["kind"] == "beacons_missing")
            .map(|row| format!("{} {} {}", row["kind"], row["pv"], row["going_on"]))
            .collect();
        told.sort();
        assert_eq!(told.len(), 3, "{out}{err}");
        told
    };
    let of = |[silent, first, second]: [&str; 3]| {
        vec![
            format!(r#""beacons_missing" null {silent}"#),
            format!(r#""monitored" "T:SP11" {first}"#),
            format!(r#""monitored" "T:SP12" {second}"#),
        ]
    };
    assert_eq!(told(), of(["true", "true", "true"]));
    damage(here);
    assert_eq!(told(), of(["null", "null", "true"]));
}

/// A log goes on where records process and nothing else happens: those blocks are not read for this question.
#[test]
fn a_log_ends_with_its_last_event() {
    let mut events = vec![beacons(15, address(7, 5064), BeaconsNoted::Overdue, (8, 9), 0)];
    for time in (16..39).map(|second| second * SECOND) {
        events.push((time, process(SCAN, -100, 2, 2)));
        events.push((time + MS, complete(SCAN, -200, 2, 20.0, 0)));
    }
    let directory = log_of(events);
    let rows = rows(directory.path(), &[]);
    let row = rows.iter().find(|row| row["kind"] == "beacons_missing").expect("a silent server");
    let silent = row["duration_ms"].as_f64().unwrap();
    assert!((silent - 23_001.0).abs() < 1.0 && row["going_on"] == true, "{row}");
}

/// A part of the log is missing in which an answer may have been noted.
#[test]
fn an_answer_may_be_in_what_is_missing() {
    let mut events: Vec<(u64, Fact)> =
        (10..40).map(|second| (second * SECOND, Fact::Mark("tick".into()))).collect();
    events.extend(circuit(11, 11, address(5, 42_001)));
    events.push(searched("T:NOWHERE", address(9, 43_000), (15, 24), 3, &[]));
    let directory = log_of(events);
    let here = directory.path();
    let told = || -> (String, String) {
        let (_, out, err) = run(here, &["net", "log", "--all", "--format", "jsonl"]);
        let mut rows = out.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        let row = rows.find(|row| row["pv"] == "T:NOWHERE").expect(&err);
        let word = |key: &str| row[key].as_str().unwrap().to_owned();
        (word("kind"), word("reason"))
    };
    assert_eq!(told(), ("unanswered".into(), "no_answer_seen".into()));
    damage(here);
    assert_eq!(told(), ("searched".into(), "answer_may_be_unseen".into()));
}

/// Two servers had an address one after the other: a beacon is of the one that was alive, and of nobody before and between.
#[test]
fn beacons_of_servers_that_had_an_address_one_after_the_other() {
    let demo = definitions("box1").into_iter().find_map(|fact| match fact {
        Fact::Ioc(ioc) if ioc.id == 1 => Some(*ioc),
        _ => None,
    });
    let demo = demo.unwrap();
    let ioc_at = |start: u64, name: &str| Ioc { start: start * SECOND, name: name.into(), ..demo.clone() };
    let ioc = |id: u32, name: &str, start: u64| {
        (start * SECOND, Fact::from(Ioc { id, pid: id, ..ioc_at(start, name) }))
    };
    let served = |at: u64, id: u32, by: u32| {
        let mut facts = circuit(at, id, address(5, 42_000 + id as u16));
        for (_, fact) in &mut facts {
            if let Fact::CircuitEnds(ends) = fact {
                ends.server = Some(by);
            }
        }
        facts
    };
    let mut events = vec![
        ioc(21, "early", 20),
        ioc(22, "late", 60),
        (40 * SECOND, Fact::IocEnd(IocEnd { ioc: 21, how: "exit status 0".into() })),
        // of a third, which was never found
        beacons(12, SERVER, BeaconsNoted::First, (1, 1), 0),
        beacons(30, SERVER, BeaconsNoted::OutOfStep, (9, 6), 15),
        // no later beacon of the early one has come
        beacons(50, SERVER, BeaconsNoted::OutOfStep, (0, 12), 15),
        beacons(61, SERVER, BeaconsNoted::OutOfStep, (0, 3), 15),
        // whoever sent this, the late one had begun before the beacon before
        beacons(80, SERVER, BeaconsNoted::OutOfStep, (0, 5), 15),
        beacons(700, SERVER, BeaconsNoted::First, (1, 1), 0),
        // its process runs the same program anew
        (705 * SECOND, Fact::IocEnd(IocEnd { ioc: 22, how: "its process runs another program".into() })),
        (705 * SECOND, Fact::from(Ioc { id: 23, pid: 22, ..ioc_at(60, "late") })),
        beacons(712, SERVER, BeaconsNoted::OutOfStep, (0, 9), 15),
        (720 * SECOND, Fact::Mark("end".into())),
    ];
    events.extend(served(25, 31, 21));
    events.extend(served(65, 32, 22));
    events.extend(served(706, 33, 23));
    let directory = log_of(events);
    let told: Vec<String> = rows(directory.path(), &["--all"])
        .iter()
        .filter(|row| row["text"].as_str().is_some_and(|text| text.starts_with("beacon number")))
        .map(|row| format!("{} {} {}", &row["time"].as_str().unwrap()[14..19], row["kind"], row["ioc"]))
        .collect();
    let expected = [
        r#"13:32 "server_started" null"#,
        r#"13:50 "beacons_irregular" "early""#,
        r#"14:10 "server_restarted" null"#,
        r#"14:21 "server_restarted" "late""#,
        r#"14:40 "beacons_irregular" "late""#,
        r#"25:00 "server_seen" "late""#,
        r#"25:12 "server_restarted" "late""#,
    ];
    assert_eq!(told, expected);
}

/// Nobody connected to the IOC while it was recorded. Its address is known by another IOC there, and its port by the definition; elsewhere
/// the port may be anybody's.
#[test]
fn beacons_are_of_the_ioc_that_serves_at_the_port() {
    let mut events = circuit(2, 31, address(5, 42_031));
    for (_, fact) in &mut events {
        match fact {
            Fact::Circuit(circuit) => circuit.server.port = 5066,
            Fact::CircuitEnds(ends) => ends.server = Some(2),
            _ => {}
        }
    }
    events.extend([
        beacons(4, SERVER, BeaconsNoted::First, (30, 30), 0),
        beacons(5, address(8, 5064), BeaconsNoted::First, (30, 30), 0),
        beacons(6, address(9, 5068), BeaconsNoted::First, (30, 30), 0),
        beacons(40, SERVER, BeaconsNoted::Overdue, (30, 31), 0),
        (60 * SECOND, Fact::IocEnd(IocEnd { ioc: 1, how: "exit status 0".into() })),
        beacons(70, SERVER, BeaconsNoted::Overdue, (30, 31), 0),
        (90 * SECOND, Fact::Mark("end".into())),
    ]);
    let told = |events: Vec<(u64, Fact)>| -> Vec<String> {
        let directory = log_of(events);
        rows(directory.path(), &["--all"])
            .iter()
            .filter(|row| matches!(row["kind"].as_str(), Some("server_seen" | "beacons_missing")))
            .map(|row| format!("{} {}", &row["time"].as_str().unwrap()[17..19], row["ioc"]))
            .collect()
    };
    assert_eq!(told(events.clone()), [r#"24 "demo""#, "25 null", "26 null", r#"00 "demo""#, "30 null"]);
    // in a container it has a network of its own: at the host's address another server may have the port
    let container = Container {
        ioc: 1,
        runtime: ContainerRuntime::Docker,
        id: "9c3e7f1a52d8".into(),
        pod: String::new(),
        is_kubernetes: false,
        host_name: String::new(),
    };
    events.push((SECOND, Fact::from(container)));
    assert_eq!(told(events), ["24 null", "25 null", "26 null", "00 null", "30 null"]);
}

/// A circuit is over before the recorder has looked whose it is. The IOC is known by other circuits, while it runs.
#[test]
fn a_short_circuit_is_of_the_ioc_that_serves_there() {
    let short = |at: u64, id: u32, server: Address| {
        let mut facts = circuit(at, id, address(5, 42_000 + id as u16));
        for (_, fact) in &mut facts {
            match fact {
                Fact::Circuit(circuit) => circuit.server = server,
                Fact::CircuitEnds(ends) => ends.server = None,
                _ => {}
            }
        }
        facts.push((at * SECOND + 50 * MS, Fact::CircuitEnd(id)));
        facts
    };
    let mut events = circuit(5, 31, address(5, 42_031));
    events.extend(short(10, 32, SERVER));
    events.extend(short(11, 33, address(8, 5064)));
    events.push((20 * SECOND, Fact::IocEnd(IocEnd { ioc: 1, how: "exit status 0".into() })));
    events.extend(short(30, 34, SERVER));
    events.push((40 * SECOND, Fact::Mark("end".into())));
    let directory = log_of(events);
    let told: Vec<String> = rows(directory.path(), &["--all"])
        .iter()
        .filter(|row| row["kind"] == "connected")
        .map(|row| format!("{} {}", &row["time"].as_str().unwrap()[17..19], row["ioc"]))
        .filter(|told| told.as_str() > "24")
        .collect();
    assert_eq!(told, [r#"25 "demo""#, r#"30 "demo""#, "31 null", "50 null"]);
}
