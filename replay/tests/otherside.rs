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
