//! `net`: each kind of line in each format, and what may be said of a name whose answer was not seen.

mod common;

use common::{run, write_events, SECOND};
use iocrec_log::event::*;
use serde_json::Value as Json;
use std::collections::BTreeSet;
use std::path::Path;
use tempfile::TempDir;

const SERVER: Address = address(9, 5064);
const NAMESPACE: u64 = 7;

const fn address(last: u8, port: u16) -> Address {
    Address { ip: u32::from_be_bytes([10, 0, 0, last]), port }
}

fn log_of(mut events: Vec<(u64, Fact)>) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    events.sort_by_key(|(time, _)| *time);
    write_events(&directory.path().join("log"), "box1", 7, events);
    directory
}

/// Searches of a client for a name, from one second to another, and who answered.
fn searched(
    name: &str,
    client: Address,
    (since, last): (u64, u64),
    count: u32,
    answers: &[Address],
) -> (u64, Fact) {
    let searches = Searches {
        namespace: NAMESPACE,
        client,
        tcp: false,
        name: name.into(),
        count,
        since: since * SECOND,
        last: last * SECOND,
        not_found: 0,
        answers: answers.iter().map(|server| (*server, 1)).collect(),
    };
    ((last + 1) * SECOND, Fact::from(searches))
}

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

fn circuit(at: u64, id: u32, client: Address) -> Vec<(u64, Fact)> {
    let (user, host) = ("carol".to_owned(), "office".to_owned());
    let circuit = Circuit { id, client, server: SERVER, user, host, minor: 13, origin: Origin::Opened };
    let ends = CircuitEnds { circuit: id, namespace: NAMESPACE, server: Some(1), client: None };
    vec![(at * SECOND, Fact::from(circuit)), (at * SECOND, Fact::CircuitEnds(ends))]
}

fn channel(at: u64, id: u32, circuit: u32, pv: &str) -> (u64, Fact) {
    let (cid, sid, dbr, count) = (Some(id), Some(id), Some(6), Some(1));
    let origin = Origin::Opened;
    (at * SECOND, Fact::from(Channel { id, circuit, cid, sid, pv: pv.into(), dbr, count, origin }))
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

fn works(directory: &Path, arguments: &[&str]) -> String {
    let (code, out, err) = run(directory, &[&["net", "log", "--utc"], arguments].concat());
    assert_eq!(code, 0, "{arguments:?}: {err}");
    out
}

fn rows(directory: &Path, arguments: &[&str]) -> Vec<Json> {
    let out = works(directory, &[arguments, &["--format", "jsonl"]].concat());
    out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
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
    for part in [
        "NOBODY:HAS searched for by carol 10.0.0.5:50001 (caget X, pid 4711), 12 times",
        ": no answer was seen\n",
        "TWO:HAVE is served by several: 10.0.0.8:5064, 10.0.0.9:5064; last at",
        "20000 searches until",
        "server demo (10.0.0.9:5064) started; beacon number 1",
        "server 10.0.0.8:5064 started again, 15.0 s after its beacon before",
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
    let text = works(here, &["--all"]);
    for part in [
        "served to this address by 10.0.0.9:5064 since 2026-09-21T14:13:31.000+00:00; its answer was not seen",
        "no answer was seen; server 10.0.0.9:5064 has it, seen elsewhere in these logs",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
}

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
        format!("{who} may not write 2 channels on {server}; T:C T:D\n"),
        format!("{who} may not write T:CLEARED on {server}\n"),
    ] {
        assert!(text.contains(&part), "{part} is not in\n{text}");
    }
    let regained = format!("{who} was not allowed to write 2 channels on {server} until ");
    assert!(text.contains(&regained) && text.contains("; T:A T:B\n"), "{text}");
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
    events.push((90 * SECOND, Fact::Mark("end".into())));
    let directory = log_of(events);
    let here = directory.path();
    let ended = rows(here, &["--kind", "disconnected"]);
    let told: Vec<String> =
        ended.iter().map(|row| format!("{} {} {}", row["client"], row["reason"], row["by"])).collect();
    let expected = [r#""10.0.0.5:42001" "ioc_ended" "server""#, r#""10.0.0.5:42002" "closed" "server""#];
    assert_eq!(told, expected, "{ended:#?}");
    assert!(works(here, &[]).contains("the IOC that served it ended"));
    for kind in ["slow_client", "unresponsive"] {
        let rows = rows(here, &["--kind", kind]);
        let [row] = &rows[..] else { panic!("one: {rows:#?}") };
        assert_eq!(row["going_on"], false, "{row}");
    }
    let echo = &rows(here, &["--kind", "unresponsive"])[0];
    assert_eq!(echo["duration_ms"], 10_000.0, "{echo}");
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
