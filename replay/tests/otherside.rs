//! Who is behind a put: by the log of the put's host, and by that of the client's, whatever their clocks show.

mod common;

use common::{iocreplay, outcome, MS, SECOND, WALL};
use iocrec_log::event::*;
use iocrec_log::storage::Directory;
use iocrec_log::writer::{Options, Writer};
use serde_json::{json, Value as Json};
use std::path::Path;
use tempfile::TempDir;

const CLIENT: Address = Address { ip: 0x0A00_0005, port: 41_000 };
const SERVER: Address = Address { ip: 0x0A00_0009, port: 5064 };
/// When the circuit opens, by a clock that is right.
const OPENS: u64 = 200 * SECOND;

/// Writes a log of these facts.
fn write(directory: &Path, run: u128, mut facts: Vec<(u64, Fact)>) {
    facts.sort_by_key(|(time, _)| *time);
    let mut writer = Writer::open(Directory::open(directory).unwrap(), Options::default(), run).unwrap();
    let mut now = 0;
    for (time, fact) in facts {
        now = time.max(now);
        writer.push(Event { time, fact });
        writer.tick(now);
    }
    writer.close(now);
    assert_eq!(writer.status().lost, 0);
}

fn host(name: &str) -> Vec<(u64, Fact)> {
    let host = Host {
        name: name.into(),
        kernel: "6.1.0".into(),
        arch: "x86_64".into(),
        boot_id: name.into(),
        recorder: "0.1.0".into(),
        utc_offset: 0,
    };
    vec![(0, Fact::from(host)), (0, Fact::Clock(Clock { wall: WALL }))]
}

fn ioc(id: u32, pid: u32, name: &str) -> Fact {
    Fact::from(Ioc {
        id,
        pid,
        start: 5,
        name: name.into(),
        exe: "/opt/bin/softIoc".into(),
        cwd: "/".into(),
        command: vec![],
        base_version: "7.0.8".into(),
        ca_ports: vec![5064],
        linkage: Linkage::Shared,
        not_probed: vec![],
        user: "ioc".into(),
        pva_ports: vec![],
        environment: vec![],
    })
}

fn thread(id: u32, name: &str) -> Fact {
    Fact::Thread(Thread { id, ioc: 1, tid: 1000 + id, name: name.into(), stack: 1 << 40 })
}

fn record(id: u32, name: &str) -> Fact {
    Fact::from(Record { id, ioc: 1, address: 4096, name: name.into(), rtype: "ao".into() })
}

fn field(id: u32, name: &str, dbf: Dbf) -> Fact {
    Fact::from(Field { id, ioc: 1, rtype: "ao".into(), name: name.into(), dbf, menu: None })
}

/// The circuit as a recorder sees it opening, with a channel to T:SP.
fn circuit(at: u64, id: u32, ends: [Option<u32>; 2]) -> Vec<(u64, Fact)> {
    let [server, client] = ends;
    let channel = Channel {
        id,
        circuit: id,
        cid: Some(1),
        sid: Some(1),
        pv: "T:SP".into(),
        dbr: Some(6),
        count: Some(1),
        origin: Origin::Opened,
    };
    let circuit = Circuit {
        id,
        client: CLIENT,
        server: SERVER,
        user: "root".into(),
        host: "box1".into(),
        minor: 13,
        origin: Origin::Opened,
    };
    vec![
        (at, Fact::from(circuit)),
        (at, Fact::CircuitEnds(CircuitEnds { circuit: id, namespace: 7, server, client })),
        (at, Fact::from(channel)),
    ]
}

fn holder(pid: u32, program: &str) -> SocketHolder {
    SocketHolder {
        pid,
        start: 5,
        program: program.into(),
        command: vec![program.into(), "T:SP".into()],
        is_cut: false,
        user: "ops".into(),
    }
}

fn behind(at: u64, holders: Vec<SocketHolder>) -> (u64, Fact) {
    (at, Fact::CircuitProcess(CircuitProcess { circuit: 1, holders, more: 0, is_whole: true }))
}

/// The server's host: a put of each value, ten milliseconds apart, that the IOC carries out.
fn serving(at: u64, values: &[f64]) -> Vec<(u64, Fact)> {
    let mut facts = host("box2");
    facts.extend(
        [ioc(1, 200, "second"), thread(1, "CAS-client"), record(1, "T:SP"), field(1, "VAL", Dbf::Double)]
            .map(|fact| (0, fact)),
    );
    facts.extend(circuit(at, 1, [Some(1), None]));
    facts.push((at, Fact::ServerThread(ServerThread { thread: 1, circuit: 1 })));
    for (number, value) in (0..).zip(values) {
        let time = at + SECOND + number * 10 * MS + MS;
        facts.push((time, common::ca_put(1, 1, false, number as u32, *value)));
        let old = value - 1.0;
        for (later, kind, sp) in [(50_000, PutKind::PutField, -1000), (60_000, PutKind::Put, -1200)] {
            facts.push((time + later, common::put(kind, 1, sp, 0, (1, 1), old, *value)));
        }
    }
    facts
}

/// The client's host: an IOC with a link to T:SP, by which it writes these values.
fn writing(at: u64, values: &[f64], with_probe: bool) -> Vec<(u64, Fact)> {
    let mut facts = host("box1");
    facts.extend(
        [
            ioc(1, 100, "first"),
            thread(1, "scan-1"),
            thread(2, "dbCaLink"),
            record(1, "A:OUT"),
            field(1, "OUT", Dbf::OutLink),
        ]
        .map(|fact| (0, fact)),
    );
    let links = vec![OutputLink { field: 1, text: "T:SP CA NMS".into() }];
    facts.push((0, Fact::OutputLinks(OutputLinks { record: 1, links })));
    facts.extend(circuit(at, 1, [None, Some(1)]));
    facts.push(behind(at + MS, vec![holder(100, "softIoc")]));
    for (number, value) in (0..).zip(values) {
        let time = at + SECOND + number * 10 * MS;
        facts.push((time, common::process(1, -100, 0, 1)));
        if with_probe {
            let link = CaLinkPut {
                thread: 1,
                sp: -200,
                site: 0,
                record: Some(1),
                pv: "T:SP".into(),
                dbf: Dbf::Double,
                count: 1,
                value: Value::Double(*value),
            };
            facts.push((time + 1000, Fact::from(link)));
        }
        let asked = CaClientPut { thread: 2, sp: -300, site: 0, channel: 77 };
        facts.push((time + MS / 2, Fact::CaClientPut(asked)));
        facts.push((time + MS, common::ca_put(1, 1, false, number as u32, *value)));
    }
    facts
}

fn logs(of: &[(&str, Vec<(u64, Fact)>)]) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    for (number, (name, facts)) in (1..).zip(of) {
        write(&directory.path().join(name), number, facts.clone());
    }
    directory
}

fn answer(directory: &TempDir, arguments: &[&str], logs: &[&str]) -> String {
    let command = arguments.iter().chain(logs);
    let (code, out, said) = outcome(iocreplay(command).current_dir(directory.path()).output().unwrap());
    assert_eq!(code, 0, "{arguments:?}: {said}");
    assert!(common::only_clocks_are_unknown(&said, logs.len()), "{arguments:?}: {said}");
    out
}

fn puts(directory: &TempDir, logs: &[&str]) -> Vec<Json> {
    let out = answer(directory, &["puts", "--format", "jsonl", "--all"], logs);
    out.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .filter(|put: &Json| put["pv"] == "T:SP")
        .collect()
}

const VALUES: [f64; 6] = [5.0, 6.0, 6.0, 7.0, 6.0, 8.0];

/// Nanoseconds by which the clock of the client's host is ahead, and whether the logs are joined.
const CLOCKS: [(i64, bool); 8] = [
    (0, true),
    (3_000_000, true),
    (-60_000_000, true),
    (2_500_000_000, true),
    (-2_500_000_000, true),
    (45_000_000_000, true),
    (-45_000_000_000, true),
    (90_000_000_000, false),
];

/// An IOC of the same name on another host is another one: what its link put came from outside.
#[test]
fn what_a_namesake_on_another_host_put_is_told() {
    let mut writing = writing(OPENS, &[1.5, 2.5], true);
    for (_, fact) in &mut writing {
        if let Fact::Ioc(ioc) = fact {
            ioc.name = "second".into();
        }
    }
    let directory = logs(&[("box1", writing), ("box2", serving(OPENS, &[1.5, 2.5]))]);
    let words = ["last", "second", "--host", "box2", "--json", "box1", "box2"];
    let (code, out, said) = outcome(iocreplay(words).current_dir(directory.path()).output().unwrap());
    assert_eq!(code, 0, "{said}");
    let last: Json = serde_json::from_str(&out).unwrap();
    let puts: Vec<&Json> = last["puts"].as_array().unwrap().iter().map(|put| &put["requested"]).collect();
    assert_eq!(puts, [&json!(1.5), &json!(2.5)], "{last}");
}

#[test]
fn links_between_hosts_whose_clocks_differ() {
    for with_probe in [true, false] {
        for (ahead, joined) in CLOCKS {
            let there = OPENS.checked_add_signed(ahead).unwrap();
            let directory =
                logs(&[("server", serving(OPENS, &VALUES)), ("client", writing(there, &VALUES, with_probe))]);
            let found = puts(&directory, &["server", "client"]);
            let what = format!("{ahead} ns, probe {with_probe}");
            if !joined {
                assert_eq!(found.len(), 2 * VALUES.len(), "{what}: two circuits");
                let far = found.iter().filter(|put| put["host"] == "box2");
                assert!(
                    far.clone().count() == VALUES.len() && far.clone().all(|put| put["process"].is_null())
                );
                continue;
            }
            let values: Vec<f64> = found.iter().filter_map(|put| put["requested"].as_f64()).collect();
            assert_eq!(values, VALUES, "{what}: each once");
            for put in &found {
                let process = &put["process"];
                assert_eq!(
                    (&put["host"], &put["ioc"], &put["via"]),
                    (&json!("box2"), &json!("second"), &json!("ca_link")),
                    "{what}"
                );
                assert_eq!(put["client_ioc"], "first", "{what} {put}");
                assert_eq!(
                    put["cause_record"],
                    if with_probe { json!("A:OUT") } else { Json::Null },
                    "{what}"
                );
                assert_eq!(
                    (&process["host"], &process["pid"], &process["record"], &process["thread"]),
                    (&json!("box1"), &json!(100), &json!("A:OUT.OUT"), &json!("dbCaLink")),
                    "{what}"
                );
                assert_eq!(process["clock_ahead_ms"], ahead as f64 / 1e6, "{what}");
                assert_eq!(
                    (&process["ioc"], &process["by_other_log"]),
                    (&json!("first"), &json!(true)),
                    "{what}"
                );
            }
            let text = answer(&directory, &["why", "T:SP"], &["server", "client"]);
            assert!(text.contains("A:OUT") && text.contains("box1"), "{what}: {text}");
            let late = ahead.unsigned_abs() >= 20_000_000;
            assert_eq!(text.contains("whose clock is"), late, "{what}: {text}");
            if with_probe {
                let tree = answer(&directory, &["traces"], &["server", "client"]);
                let under = tree.lines().filter(|line| line.trim_start().starts_with("ca_link T:SP")).count();
                assert_eq!(under, VALUES.len(), "{what}: {tree}");
            }
        }
    }
}

/// Two recorders of the client's IOC tell of each of its link's puts: the one is no rival of the other.
#[test]
fn a_link_that_two_recorders_saw_has_made_the_puts() {
    let client = || writing(OPENS, &VALUES, true);
    let directory = logs(&[("server", serving(OPENS, &VALUES)), ("one", client()), ("other", client())]);
    let words = ["puts", "--format", "jsonl", "--all", "server", "one", "other"];
    let (code, out, said) = outcome(iocreplay(words).current_dir(directory.path()).output().unwrap());
    assert_eq!(code, 0, "{said}");
    let found: Vec<Json> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of_second: Vec<&Json> = found.iter().filter(|put| put["ioc"] == "second").collect();
    let values: Vec<f64> = of_second.iter().filter_map(|put| put["requested"].as_f64()).collect();
    assert_eq!(values, VALUES, "each once");
    for put in of_second {
        assert_eq!((&put["via"], &put["cause_record"]), (&json!("ca_link"), &json!("A:OUT")), "{put}");
    }
}

/// A sequencer's program on another host: the code that asked libca to put tells it from other threads.
#[test]
fn a_sequencer_on_another_host_is_named() {
    for (function, program) in [("pvVarPutNoBlock", Some("ramp")), ("drive", None)] {
        for ahead in [0, 2_500_000_000, -60_000_000] {
            let there = OPENS.checked_add_signed(ahead).unwrap();
            let mut client = host("box1");
            let site =
                CallSite { id: 1, ioc: 1, address: 1, function: function.into(), module: "libpv.so".into() };
            client.extend([ioc(1, 100, "first"), thread(1, "ramp"), Fact::from(site)].map(|fact| (0, fact)));
            client.extend(circuit(there, 1, [None, Some(1)]));
            client.push(behind(there + MS, vec![holder(100, "softIoc")]));
            for (number, value) in (0..).zip(VALUES) {
                let time = there + SECOND + number * 10 * MS;
                let asked = CaClientPut { thread: 1, sp: -300, site: 1, channel: 77 };
                client.push((time + MS / 2, Fact::CaClientPut(asked)));
                client.push((time + MS, common::ca_put(1, 1, false, number as u32, value)));
            }
            let directory = logs(&[("server", serving(OPENS, &VALUES)), ("client", client)]);
            let found = puts(&directory, &["server", "client"]);
            assert_eq!(found.len(), VALUES.len(), "{function} {ahead}: each once");
            for put in &found {
                let process = &put["process"];
                assert_eq!(
                    (&put["host"], &put["ioc"], &process["host"], &process["pid"], &process["ioc"]),
                    (&json!("box2"), &json!("second"), &json!("box1"), &json!(100), &json!("first")),
                    "{function} {ahead}"
                );
                assert_eq!(
                    (&process["thread"], &process["sequencer_program"], &process["record"]),
                    (&json!("ramp"), &json!(program), &Json::Null),
                    "{function} {ahead}"
                );
                assert_eq!(process["by_other_log"], true, "{function} {ahead}");
            }
            let text = answer(&directory, &["puts"], &["server", "client"]);
            let what = if program.is_some() { "program" } else { "thread" };
            let said = format!("({what} ramp, softIoc pid 100, on box1");
            assert_eq!(text.matches(&said).count(), VALUES.len(), "{function} {ahead}: {text}");
        }
    }
}

/// A log without the other one names no one, and says nothing wrong.
#[test]
fn a_log_alone() {
    let directory = logs(&[("server", serving(OPENS, &VALUES)), ("client", writing(OPENS, &VALUES, false))]);
    let alone = puts(&directory, &["server"]);
    assert!(alone.len() == VALUES.len() && alone.iter().all(|put| put["process"].is_null()), "{alone:?}");
    let alone = puts(&directory, &["client"]);
    assert_eq!(alone.len(), VALUES.len());
    for put in alone {
        assert_eq!((&put["process"]["pid"], &put["process"]["by_other_log"]), (&json!(100), &json!(false)));
        assert!(put["ioc"].is_null(), "{put}");
    }
}

/// The same ends before and after: a port is used again.
#[test]
fn another_process_with_the_same_port_at_another_time() {
    let mut client = host("box1");
    for (id, at, pid) in [(1, OPENS - 100 * SECOND, 7), (2, OPENS, 8), (3, OPENS + 100 * SECOND, 9)] {
        client.extend(circuit(at, id, [None, None]));
        let holders = vec![holder(pid, "caput")];
        client.push((
            at + MS,
            Fact::CircuitProcess(CircuitProcess { circuit: id, holders, more: 0, is_whole: true }),
        ));
        client.push((at + 50 * SECOND, Fact::CircuitEnd(id)));
    }
    let directory = logs(&[("server", serving(OPENS, &VALUES)), ("client", client)]);
    for put in puts(&directory, &["server", "client"]) {
        assert_eq!((&put["process"]["pid"], &put["via"]), (&json!(8), &json!("ca_write")), "{put}");
    }
}

/// Whatever is not certain is said to be so.
#[test]
fn several_that_may_have_done_it() {
    let others = |links: &[(u32, &str)], asked: &[u32]| {
        let mut facts = serving(OPENS, &[5.0]);
        let out =
            Field { id: 9, ioc: 2, rtype: "ao".into(), name: "OUT".into(), dbf: Dbf::OutLink, menu: None };
        facts.extend([ioc(2, 300, "local"), Fact::from(out)].map(|fact| (0, fact)));
        let own = |id, name: &str| {
            Fact::Thread(Thread { id, ioc: 2, tid: 2000 + id, name: name.into(), stack: 1 << 40 })
        };
        facts.extend([own(12, "dbCaLink"), own(13, "sncRamp")].map(|fact| (0, fact)));
        for (id, name) in links {
            let (name, rtype) = ((*name).to_owned(), "ao".to_owned());
            facts.push((0, Fact::from(Record { id: *id, ioc: 2, address: 8192, name, rtype })));
            let links = vec![OutputLink { field: 9, text: "T:SP.VAL CA NMS".into() }];
            facts.push((0, Fact::OutputLinks(OutputLinks { record: *id, links })));
        }
        facts.push((
            OPENS,
            Fact::CircuitEnds(CircuitEnds { circuit: 1, namespace: 7, server: Some(1), client: Some(2) }),
        ));
        let names = vec!["CAC-TCP-recv".to_owned(), "sncRamp".to_owned()];
        facts.push((OPENS, Fact::ThreadNames(ThreadNames { ioc: 2, names, is_whole: true })));
        facts.push(behind(OPENS + MS, vec![holder(300, "softIoc")]));
        for thread in asked {
            let hit = CaClientPut { thread: *thread, sp: -1, site: 0, channel: 1 };
            facts.push((OPENS + SECOND, Fact::CaClientPut(hit)));
        }
        let directory = logs(&[("log", facts)]);
        let put = puts(&directory, &["log"]).remove(0);
        let text = answer(&directory, &["puts", "--all"], &["log"]);
        (put["process"].clone(), text)
    };
    let two = [(12, "A:X"), (11, "A:W")];
    let (process, text) = others(&two, &[]);
    assert_eq!((&process["record"], &process["thread"]), (&Json::Null, &Json::Null), "{process}");
    assert_eq!(process["may_be_records"], json!(["A:W.OUT", "A:X.OUT"]), "{process}");
    assert_eq!(process["may_be_threads"], json!(["sncRamp"]));
    assert!(text.contains("perhaps CA link A:W"), "{text}");
    let (process, _) = others(&two, &[12]);
    assert_eq!((&process["record"], &process["thread"]), (&Json::Null, &json!("dbCaLink")));
    let (process, text) = others(&two, &[13]);
    assert_eq!((&process["record"], &process["thread"]), (&Json::Null, &json!("sncRamp")));
    assert!(text.contains("thread sncRamp"), "{text}");
    let (process, _) = others(&two[..1], &[12, 13]);
    assert_eq!(
        (&process["thread"], &process["may_be_threads"]),
        (&Json::Null, &json!(["dbCaLink", "sncRamp"]))
    );
    let (process, _) = others(&two[..1], &[12]);
    assert_eq!(process["thread"], "dbCaLink");
    assert_eq!(process["record"], "A:X.OUT");
}

/// When a program puts, in the stories of what it may have acted on.
const ACTS: u64 = OPENS + 30 * SECOND;
/// The thread that scans the server's records.
const SCAN: u32 = 2;

/// A record that ends its processing with this value at this time.
fn processed(time: u64, record: u32, value: f64) -> [(u64, Fact); 2] {
    [
        (time - 20_000, common::process(SCAN, -100, 0, record)),
        (time, common::complete(SCAN, -200, record, value, 0)),
    ]
}

/// A channel of the first circuit.
fn channel(id: u32, pv: &str) -> Fact {
    let (cid, sid, dbr, count) = (Some(id), Some(id), Some(6), Some(1));
    Fact::from(Channel { id, circuit: 1, cid, sid, pv: pv.into(), dbr, count, origin: Origin::Opened })
}

/// What was counted of a channel, in the minute of the put or in one that began later.
fn counted(channel: u32, then: bool, updates: u64, subscriptions: u32) -> (u64, Fact) {
    let since = if then { OPENS } else { ACTS + 30 * SECOND };
    let (gets, bytes, complete) = (3, 16 * updates, true);
    let of = ChannelTraffic { channel, since, gets, subscriptions, updates, bytes, complete };
    (since + 60 * SECOND, Fact::ChannelTraffic(of))
}

/// One host: a thread of the IOC `local` (pid 300) puts 5 to T:SP of the IOC `second`, whose records these are.
fn acting(thread: &str) -> Vec<(u64, Fact)> {
    let mut facts = serving(OPENS, &[]);
    let own = Thread { id: 13, ioc: 2, tid: 2013, name: thread.into(), stack: 1 << 40 };
    let scan = self::thread(SCAN, "scan-1");
    facts.extend([ioc(2, 300, "local"), Fact::Thread(own), scan].map(|fact| (0, fact)));
    facts.extend([record(2, "X:PV"), record(3, "Y:PV"), record(4, "Z:PV")].map(|fact| (0, fact)));
    facts.extend((2..=4).flat_map(|id| processed(OPENS + SECOND + u64::from(id) * MS, id, 1.0)));
    let ends = CircuitEnds { circuit: 1, namespace: 7, server: Some(1), client: Some(2) };
    facts.push((OPENS, Fact::CircuitEnds(ends)));
    facts.push(behind(OPENS + MS, vec![holder(300, "softIoc")]));
    facts.extend([channel(2, "X:PV"), channel(3, "Y:PV"), channel(4, "Z:PV")].map(|fact| (OPENS, fact)));
    let asked = CaClientPut { thread: 13, sp: -300, site: 0, channel: 77 };
    facts.push((ACTS - MS / 2, Fact::CaClientPut(asked)));
    facts.push((ACTS, common::ca_put(1, 1, false, 7, 5.0)));
    for (later, kind, sp) in [(50_000, PutKind::PutField, -1000), (60_000, PutKind::Put, -1200)] {
        facts.push((ACTS + later, common::put(kind, 1, sp, 0, (1, 1), 4.0, 5.0)));
    }
    facts
}

/// What is said that the only put to T:SP may have been after: PV, milliseconds and times of each.
fn after(directory: &TempDir, logs: &[&str]) -> Vec<(String, f64, u64)> {
    after_with(directory, &[], logs)
}

/// The same with further options.
fn after_with(directory: &TempDir, options: &[&str], logs: &[&str]) -> Vec<(String, f64, u64)> {
    let command = ["puts", "--format", "jsonl", "--all", "--updates"];
    let out = answer(directory, &[&command[..], options].concat(), logs);
    let all = out.lines().map(|line| serde_json::from_str::<Json>(line).unwrap());
    let mut all = all.filter(|put| put["pv"] == "T:SP" && put["requested"] == 5.0);
    let put = all.next().expect("the put");
    assert_eq!(all.next(), None);
    let found = &put["process"]["perhaps_after"];
    if found.is_null() {
        return Vec::new();
    }
    assert_eq!(found["may_be_others"], false, "{put}");
    let update = |of: &Json| {
        let before = of["before_ms"].as_f64().unwrap();
        (of["pv"].as_str().unwrap().to_owned(), before, of["times"].as_u64().unwrap())
    };
    found["updates"].as_array().unwrap().iter().map(update).collect()
}

/// A program's put, what changed before it, and what it had subscribed to: each that may have made it act is told.
#[test]
fn the_updates_that_may_have_made_a_program_put() {
    let (x, y, z) = (2, 3, 4);
    let told = |changes: &[(f64, u32, f64)], counts: &[(u64, Fact)]| {
        let mut facts = acting("sncRamp");
        for (before, record, value) in changes {
            let time = ACTS.checked_add_signed((-before * MS as f64) as i64).unwrap();
            facts.extend(processed(time, *record, *value));
        }
        facts.extend(counts.iter().cloned());
        let directory = logs(&[("log", facts)]);
        let found = after(&directory, &["log"]);
        let found: Vec<(&str, f64, u64)> =
            found.iter().map(|(pv, before, times)| (pv.as_str(), *before, *times)).collect();
        format!("{found:?}")
    };
    let said = |of: &[(&str, f64, u64)]| format!("{of:?}");
    let subscribed = [counted(x, true, 40, 0), counted(z, true, 0, 1)];
    let only_x = said(&[("X:PV", 3.0, 1)]);
    assert_eq!(told(&[(3.0, x, 2.0)], &subscribed), only_x);
    assert_eq!(told(&[(3.0, x, 2.0), (1.0, y, 2.0)], &subscribed), only_x, "Y:PV was read only");
    let both = said(&[("X:PV", 3.0, 1), ("Z:PV", 41.25, 1)]);
    assert_eq!(told(&[(41.25, z, 2.0), (3.0, x, 2.0)], &subscribed), both);
    let often = [(203.0, x, 9.0), (103.0, x, 2.0), (53.0, x, 3.0), (3.0, x, 4.0)];
    assert_eq!(told(&often, &subscribed), said(&[("X:PV", 3.0, 3)]));
    let none = said(&[]);
    assert_eq!(told(&[(3.0, x, 1.0)], &subscribed), none, "no change, no update");
    assert_eq!(told(&[(250.0, x, 2.0)], &subscribed), none, "long before");
    assert_eq!(told(&[(-2.0, x, 2.0)], &subscribed), none, "after the put");
    assert_eq!(told(&[], &subscribed), none);
    assert_eq!(told(&[(3.0, x, 2.0)], &[]), none, "not subscribed");
    assert_eq!(told(&[(3.0, x, 2.0)], &[counted(x, true, 0, 0)]), none, "gets alone");
    assert_eq!(told(&[(3.0, x, 2.0)], &[counted(x, false, 40, 1)]), none, "subscribed at another time");
    // over PVAccess the log has each monitor
    let monitor = |ioid, starts, at| {
        let of = PvaMonitor { circuit: 1, channel: x, ioid, starts };
        (at, Fact::PvaMonitor(of))
    };
    let started = [monitor(1, true, OPENS + SECOND), monitor(2, true, OPENS + SECOND)];
    assert_eq!(told(&[(3.0, x, 2.0)], &started), only_x);
    let stopped = |ioid| monitor(ioid, false, OPENS + 2 * SECOND);
    let one_left = [started[0].clone(), started[1].clone(), stopped(1)];
    assert_eq!(told(&[(3.0, x, 2.0)], &one_left), only_x);
    let over = [started[0].clone(), started[1].clone(), stopped(1), stopped(2)];
    assert_eq!(told(&[(3.0, x, 2.0)], &over), none, "it had stopped");
}

/// The recorder notes the busiest channels only: where it noted as many as it ever does, it may have been another one.
#[test]
fn subscriptions_that_were_not_noted_may_have_made_a_program_put() {
    for (others, ends, is_cut) in [(98, false, false), (99, false, true), (18, true, false), (19, true, true)]
    {
        let mut facts = acting("sncRamp");
        facts.extend(processed(ACTS - 3 * MS, 2, 2.0));
        for id in (100..).take(others) {
            facts.push((OPENS, channel(id, &format!("OTHER:{id}"))));
            facts.push(counted(id, true, 50, 0));
        }
        let (time, fact) = counted(2, true, 40, 0);
        facts.push((time, fact));
        if ends {
            facts.push((time, Fact::CircuitEnd(1)));
        }
        let directory = logs(&[("log", facts)]);
        let said = answer(&directory, &["puts", "--all", "--updates"], &["log"]);
        let or_another = if is_cut { " or another" } else { "" };
        let after = format!("perhaps after X:PV changed 3.00 ms before{or_another})");
        assert!(said.contains(&after), "{others} others: {said}");
        let why = answer(&directory, &["why", "T:SP"], &["log"]);
        assert_eq!(why.contains("before or another ("), is_cut, "{why}");
    }
}

/// Whether another update than those that are told may have made the program put. `more`: what else there is.
fn may_be_another(more: Vec<(u64, Fact)>) -> bool {
    let mut facts = acting("sncRamp");
    facts.extend(processed(ACTS - 3 * MS, 2, 2.0));
    facts.push(counted(2, true, 40, 0));
    facts.extend(more);
    let directory = logs(&[("log", facts)]);
    let command = ["puts", "--format", "jsonl", "--all", "--updates", "log"];
    let (_, out, said) = outcome(iocreplay(command).current_dir(directory.path()).output().unwrap());
    let mut all = out.lines().map(|line| serde_json::from_str::<Json>(line).unwrap());
    let put = all.find(|put| put["pv"] == "T:SP" && put["requested"] == 5.0).expect(&said);
    let after = &put["process"]["perhaps_after"];
    assert_eq!(after["updates"][0]["pv"], "X:PV", "{put}");
    after["may_be_others"].as_bool().unwrap()
}

/// What was lost just before the put is told half a second later, when thousands of records have processed.
#[test]
fn what_was_lost_before_a_put_may_have_been_another_update() {
    let busy = || {
        let mut busy: Vec<(u64, Fact)> = Vec::new();
        for number in 0..4000 {
            busy.extend(processed(ACTS + 2 * MS + number * 100_000, 4, number as f64));
        }
        busy.extend((1..9).flat_map(|later| processed(ACTS + later * SECOND, 4, -1.0)));
        busy
    };
    assert!(!may_be_another(busy()));
    let (source, cause) = (LossSource::Hits, "a test".to_owned());
    let loss = Loss { source, count: 3, since: ACTS - 50 * MS, cause };
    let mut more = busy();
    more.push((ACTS + 500 * MS, Fact::Loss(loss)));
    assert!(may_be_another(more));
}

/// What could not be stored just before the put, or was left out on purpose, may have been another update.
#[test]
fn of_a_log_that_is_not_whole_another_update_may_be_missing() {
    assert!(!may_be_another(vec![]));
    let stored = |count| {
        let (source, cause) = (LossSource::Storage, "a test".to_owned());
        (ACTS + MS, Fact::Loss(Loss { source, count, since: ACTS - 50 * MS, cause }))
    };
    assert!(may_be_another(vec![stored(3)]));
    assert!(!may_be_another(vec![stored(0)]), "it was only interrupted");
    let sampling = ChainSampling { chains: 1, window: SECOND, cause: "--thin".into() };
    assert!(may_be_another(vec![(0, Fact::ChainSampling(sampling))]));
}

/// What a client had subscribed to before the recorder started is not counted.
#[test]
fn subscriptions_older_than_the_recorder_may_have_made_a_program_put() {
    let circuit = |origin| Circuit {
        id: 2,
        client: Address { port: 41_001, ..CLIENT },
        server: SERVER,
        user: "root".into(),
        host: "box1".into(),
        minor: 13,
        origin,
    };
    for (pid, origin, ends) in [
        (300, Origin::Opened, false),
        (300, Origin::MidStream, false),
        (300, Origin::Memory, true),
        (301, Origin::Memory, false),
    ] {
        let mut facts = acting("sncRamp");
        facts.extend(processed(ACTS - 3 * MS, 2, 2.0));
        facts.push(counted(2, true, 40, 0));
        let process =
            CircuitProcess { circuit: 2, holders: vec![holder(pid, "softIoc")], more: 0, is_whole: true };
        let ends_of = CircuitEnds { circuit: 2, namespace: 7, server: Some(1), client: None };
        facts.extend([
            (OPENS, Fact::from(circuit(origin))),
            (OPENS, Fact::CircuitEnds(ends_of)),
            (OPENS + MS, Fact::CircuitProcess(process)),
        ]);
        if ends {
            facts.push((ACTS + SECOND, Fact::CircuitEnd(2)));
        }
        let directory = logs(&[("log", facts)]);
        let said = answer(&directory, &["puts", "--all", "--updates"], &["log"]);
        let or_another = if pid == 300 && origin != Origin::Opened { " or another" } else { "" };
        let after = format!("perhaps after X:PV changed 3.00 ms before{or_another})");
        assert!(said.contains(&after), "{pid} {origin:?}: {said}");
    }
}

#[test]
fn an_update_before_a_put_is_said_in_words_where_it_is_asked_for() {
    let mut facts = acting("sncRamp");
    facts.extend(processed(ACTS - 3 * MS, 2, 2.0));
    facts.push(counted(2, true, 40, 0));
    let directory = logs(&[("log", facts)]);
    let all = answer(&directory, &["puts", "--all", "--updates"], &["log"]);
    let said = "(thread sncRamp, softIoc pid 300, perhaps after X:PV changed 3.00 ms before)";
    assert!(all.contains(said), "{all}");
    let why = answer(&directory, &["why", "T:SP"], &["log"]);
    assert!(why.contains("Perhaps after: X:PV changed 3.00 ms before (its process had"), "{why}");
    let why: Json = serde_json::from_str(&answer(&directory, &["why", "--json", "T:SP"], &["log"])).unwrap();
    let update = &why["process"]["perhaps_after"]["updates"][0];
    let place = (&update["pv"], &update["ioc"], &update["host"]);
    assert_eq!(place, (&json!("X:PV"), &json!("second"), &json!("box2")));
    // whoever does not ask gets what is certain
    for command in [&["puts", "--all"][..], &["traces"], &["clients"]] {
        let text = answer(&directory, command, &["log"]);
        assert!(!text.contains("perhaps after"), "{text}");
    }
    let alone = puts(&directory, &["log"]);
    assert_eq!(alone[0]["process"]["perhaps_after"], Json::Null);
}

/// A link's put has its cause, and what another process had subscribed to made nobody else act.
#[test]
fn updates_of_others_are_not_told() {
    let changed = || processed(ACTS - 3 * MS, 2, 2.0);
    let mut link = acting("dbCaLink");
    link.extend(changed());
    link.push(counted(2, true, 40, 0));
    let directory = logs(&[("link", link)]);
    assert!(after(&directory, &["link"]).is_empty(), "the links' own thread");
    let mut other = acting("sncRamp");
    other.extend(changed());
    let circuit = Circuit {
        id: 2,
        client: Address { port: 41_001, ..CLIENT },
        server: SERVER,
        user: "ops".into(),
        host: "box1".into(),
        minor: 13,
        origin: Origin::Opened,
    };
    let ends = CircuitEnds { circuit: 2, namespace: 7, server: Some(1), client: None };
    let (holders, more, is_whole) = (vec![holder(301, "gui")], 0, true);
    let (cid, sid, dbr, count, origin) = (Some(1), Some(9), Some(6), Some(1), Origin::Opened);
    let channel = Channel { id: 9, circuit: 2, cid, sid, pv: "X:PV".into(), dbr, count, origin };
    other.extend([
        (OPENS, Fact::from(circuit)),
        (OPENS, Fact::CircuitEnds(ends)),
        (OPENS + MS, Fact::CircuitProcess(CircuitProcess { circuit: 2, holders, more, is_whole })),
        (OPENS, Fact::from(channel)),
        counted(9, true, 40, 1),
    ]);
    let directory = logs(&[("other", other)]);
    assert!(after(&directory, &["other"]).is_empty(), "another process");
}

/// The put on one host, the change that may have made the program act on another: their clocks differ.
#[test]
fn an_update_on_another_host_is_told_by_both_clocks() {
    for (ahead, joined) in CLOCKS {
        let there = |time: u64| time.checked_add_signed(ahead).unwrap();
        let mut client = host("box1");
        client.extend(
            [ioc(1, 100, "first"), thread(1, "ramp"), thread(SCAN, "scan-1"), record(2, "X:PV")]
                .map(|fact| (0, fact)),
        );
        client.extend(circuit(there(OPENS), 1, [None, Some(1)]));
        client.push(behind(there(OPENS) + MS, vec![holder(100, "softIoc")]));
        // its channel to a record of its own IOC
        let own = Circuit {
            id: 2,
            client: Address { ip: 0x7F00_0001, port: 41_001 },
            server: Address { ip: 0x7F00_0001, port: 5064 },
            user: "root".into(),
            host: "box1".into(),
            minor: 13,
            origin: Origin::Opened,
        };
        let (cid, sid, dbr, count, origin) = (Some(1), Some(9), Some(6), Some(1), Origin::Opened);
        let channel = Channel { id: 9, circuit: 2, cid, sid, pv: "X:PV".into(), dbr, count, origin };
        let ends = CircuitEnds { circuit: 2, namespace: 7, server: Some(1), client: Some(1) };
        let at = there(OPENS);
        client.extend([(at, Fact::from(own)), (at, Fact::CircuitEnds(ends)), (at, Fact::from(channel))]);
        let (time, fact) = counted(9, true, 40, 0);
        let Fact::ChannelTraffic(of) = fact else { unreachable!() };
        let of = ChannelTraffic { since: there(of.since), ..of };
        client.push((there(time), Fact::ChannelTraffic(of)));
        // the put is the first one's, a second and a millisecond after the circuit opened
        let acts = OPENS + SECOND + MS;
        client.extend(processed(there(OPENS) + MS, 2, 1.0));
        client.extend(processed(there(acts - 3 * MS), 2, 2.0));
        client.push((there(acts), common::ca_put(1, 1, false, 0, 5.0)));
        let directory = logs(&[("server", serving(OPENS, &[5.0])), ("client", client)]);
        if joined {
            let expected = [("X:PV".to_owned(), 3.0, 1_u64)];
            assert_eq!(after(&directory, &["server", "client"]), expected, "{ahead} ns");
            // also if nothing is asked for after the put: by the other clock the update may be later
            let until = ["--until", "2026-09-21T14:16:41.01Z"];
            assert_eq!(after_with(&directory, &until, &["server", "client"]), expected, "{ahead} ns");
        }
    }
}

/// A socket that several processes hold.
#[test]
fn a_shared_socket_and_a_hostile_name() {
    let mut facts = serving(OPENS, &[5.0]);
    facts.push(behind(OPENS + MS, vec![holder(7, "ok"), holder(8, "evil\n\u{1b}[31m2026-01-01 T:SP")]));
    let directory = logs(&[("log", facts)]);
    let put = puts(&directory, &["log"]).remove(0);
    assert_eq!((&put["process"]["pid"], &put["process"]["holders"][1]["pid"]), (&Json::Null, &json!(8)));
    for command in [&["puts"][..], &["why", "T:SP"], &["clients"], &["traces"]] {
        let text = answer(&directory, command, &["log"]);
        assert!(text.contains("pid 7") && text.contains("pid 8") && !text.contains('\u{1b}'), "{text}");
        assert!(
            !text.lines().any(|line| line.starts_with("\u{1b}") || line.starts_with("2026-01-01")),
            "{text}"
        );
    }
}
