//! Capture files give the puts that clients made, as a recorder on the spot has them; without any privilege.

use crate::rig::{iocreplay, json_lines, python, rig_file, run, wait_until, Rig, IOCREC};
use serde_json::{json, Value};
use std::fs;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::process::{Command, Output};
use std::time::Duration;

const PORT: u16 = 5074;
const DOUBLE: u16 = 6;
const LONG: u16 = 5;
const STRING: u16 = 0;
/// nobody, who may not capture, probe or read another's memory.
const NOBODY: u32 = 65534;

fn puts_in(log: &str) -> Vec<Value> {
    let output =
        Command::new(iocreplay()).args(["puts", log, "--format", "jsonl"]).output().expect("it runs");
    json_lines(&output.stdout)
}

/// What can be known from packets alone.
fn by_packets(put: &Value) -> Value {
    let keys =
        ["pv", "dbr", "count", "requested", "status", "user", "client_host", "client", "server", "via"];
    keys.iter().map(|key| (key.to_string(), put[key].clone())).collect::<serde_json::Map<_, _>>().into()
}

fn as_nobody(arguments: &[&str]) -> Output {
    run(Command::new(IOCREC).args(arguments).uid(NOBODY).gid(NOBODY))
}

/// Reads a capture into a log; returns what stderr says.
fn read_into(log: &str, file: &str, more: &[&str]) -> String {
    let output = as_nobody(&[&["record", "--dir", log, "--read", file], more].concat());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{said}");
    said
}

/// An offset near the middle of a pcap file at which a packet is cut: 7 bytes into its data.
fn within_a_packet(file: &[u8]) -> usize {
    // the file's header, then for each packet: seconds, fraction, stored length, length on the wire
    const HEADER: usize = 24;
    const PACKET: usize = 16;
    let mut at = HEADER;
    while at < file.len() / 2 {
        let stored = file[at + 8..at + 12].try_into().expect("4 bytes");
        at += PACKET + u32::from_ne_bytes(stored) as usize;
    }
    at + PACKET + 7
}

#[test]
fn a_capture_has_the_puts_that_were_made() {
    let Some(rig) = Rig::alone("capture_files") else { return };
    let capture = rig.path("capture.pcap");
    let mut capturing = python("capture.py");
    capturing.arg(&capture);
    let mut tcpdump = rig.ioc_by("capture", &mut capturing);
    let live = rig.path("live");
    let mut recorder = rig.agent(&["record", "--dir", &live, "--tier", "packet", "--flush", "200ms"]);
    let _ioc = rig.ioc("one", PORT, "puts.db", &[]);
    // channels that are older than the recorder's capture have no names there
    let mut first = rig.client("libca", &[PORT], &["--host", "console-0"]);
    let address = first.connect("PUT:LONG");
    let mut number = 0;
    wait_until("the recorder captures", || {
        number += 1;
        first.put("PUT:LONG", LONG, json!(number), true);
        std::thread::sleep(Duration::from_millis(300));
        puts_in(&live).iter().any(|put| put["client"] == *address)
    });
    let mut clients = [
        rig.client("libca", &[PORT], &["--host", "console-1"]),
        rig.client("caproto", &[PORT], &["--user", "ann", "--host", "console-2"]),
    ];
    let addresses: Vec<String> = clients.iter_mut().map(|client| client.connect("PUT:DOUBLE")).collect();
    let mut truth = Vec::new();
    for turn in 0..60u32 {
        for (client, address) in clients.iter_mut().zip(&addresses) {
            let (value, notify) = (f64::from(turn) + 0.5, turn % 2 == 0);
            client.put("PUT:DOUBLE", DOUBLE, json!(value), notify);
            truth.push((address.clone(), "PUT:DOUBLE", json!(value)));
            client.put("PUT:TEXT", STRING, json!(format!("turn {turn}")), !notify);
            truth.push((address.clone(), "PUT:TEXT", json!(format!("turn {turn}"))));
        }
        let array: Vec<f64> = (0..500).map(|n| f64::from(n * turn)).collect();
        clients[0].put("PUT:DOUBLES", DOUBLE, json!(&array[..3]), true);
        truth.push((addresses[0].clone(), "PUT:DOUBLES", json!(&array[..3])));
        clients[1].put("PUT:LOCKED", DOUBLE, json!(f64::from(turn)), true);
        truth.push((addresses[1].clone(), "PUT:LOCKED", json!(f64::from(turn))));
    }
    // the ring hands over what it has within this time
    std::thread::sleep(Duration::from_millis(200));
    recorder.stop();
    tcpdump.stop();

    // a log directory of his own
    fs::create_dir(rig.log()).expect("a directory");
    for path in [rig.log(), capture.clone()] {
        chown(&path, Some(NOBODY), Some(NOBODY)).expect("root may");
    }
    let said = read_into(&rig.log(), &capture, &[]);
    let found = rig.puts(&[]);
    let ours = |put: &&Value| put["client"] != *address;
    let got: Vec<_> = found
        .iter()
        .filter(ours)
        .map(|put| {
            (put["client"].as_str().unwrap_or("?").to_string(), put["pv"].clone(), put["requested"].clone())
        })
        .collect();
    let truth: Vec<_> = truth.into_iter().map(|(client, pv, value)| (client, json!(pv), value)).collect();
    assert_eq!(got, truth);
    assert!(said.contains(&format!("{} puts", found.len())) && said.contains("losses: none"), "{said}");
    assert!(found.iter().all(|put| put["host"].is_null() && put["ioc"].is_null()), "nobody knows");
    assert!(found.iter().filter(|put| put["pv"] == "PUT:LOCKED").all(|put| put["status"] == "ECA_PUTFAIL"));

    // as the recorder has it that was there
    let there: Vec<Value> = puts_in(&live).iter().filter(ours).map(by_packets).collect();
    let read: Vec<Value> = found.iter().filter(ours).map(by_packets).collect();
    assert_eq!(read, there);
    let info = rig.replay("info", &[]);
    let info = String::from_utf8_lossy(&info.stdout).into_owned();
    assert!(info.contains("packets are read from") && info.contains("host      (not known)"), "{info}");

    // only what was asked for
    let only = rig.path("only");
    fs::create_dir(&only).and_then(|()| chown(&only, Some(NOBODY), Some(NOBODY))).expect("root may");
    read_into(&only, &capture, &["--only", "PUT:TEXT"]);
    assert_eq!(puts_in(&only).len(), 120);

    // cut in the middle: one line, exit 1, and what came before is in the log
    let bytes = fs::read(&capture).expect("the capture");
    let cut = rig.path("cut.pcap");
    fs::write(&cut, &bytes[..within_a_packet(&bytes)]).expect("a file");
    let log = rig.path("cut");
    fs::create_dir(&log).and_then(|()| chown(&log, Some(NOBODY), Some(NOBODY))).expect("root may");
    let output = as_nobody(&["record", "--dir", &log, "--read", &cut]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(said.lines().filter(|line| line.contains("is cut off")).count(), 1, "{said}");
    let part: Vec<Value> = puts_in(&log).iter().map(by_packets).collect();
    let whole: Vec<Value> = found.iter().map(by_packets).collect();
    assert!(part.len() > 20 && part.len() < whole.len());
    assert_eq!(part[..part.len() - 1], whole[..part.len() - 1], "the last one may lack its answer");
}

/// What goes over circuits beside puts, and how they end, is in a capture as it is in a recording on the spot.
#[test]
fn a_capture_tells_of_the_network() {
    let Some(rig) = Rig::new("capture_network") else { return };
    let capture = rig.path("capture.pcap");
    let mut capturing = python("capture.py");
    capturing.arg(&capture);
    let mut tcpdump = rig.ioc_by("capture", &mut capturing);
    let access = rig_file("access.acf");
    let _ioc = rig.ioc_with("one", PORT, "puts.db", &["--access", &access.to_string_lossy()]);
    let mut client = rig.client("libca", &[PORT], &[]);
    client.connect("PUT:DOUBLE.ASG");
    client.put("PUT:DOUBLE.ASG", STRING, json!("LOCKED"), true);
    let (mut raw, who) = rig.raw_client(PORT);
    let mut ask = |command: Value| {
        raw.send(&command.to_string());
        raw.line_as_json()
    };
    let searched = ask(json!({"do": "search", "name": "NO:ONE", "seconds": 1.0}))["count"].clone();
    let first = ask(json!({"do": "open", "create": ["PUT:DOUBLE", "NO:SUCH", "NO:SUCH"], "priority": 3}));
    ask(json!({"do": "off", "seconds": 1.2}));
    ask(json!({"do": "close", "reset": false}));
    let second = ask(json!({"do": "open", "create": ["PUT:LONG"], "priority": 0}));
    std::thread::sleep(Duration::from_millis(200));
    ask(json!({"do": "close", "reset": true}));
    std::thread::sleep(Duration::from_millis(500));
    tcpdump.stop();
    for without in [false, true] {
        let log = rig.path(if without { "without" } else { "log" });
        fs::create_dir(&log).expect("a directory");
        for path in [&log, &capture] {
            chown(path, Some(NOBODY), Some(NOBODY)).expect("root may");
        }
        // its datagrams are not on a usual port
        let port = PORT.to_string();
        let named = ["--port", &port];
        read_into(&log, &capture, &[&named[..], if without { &["--no-net"] } else { &[] }].concat());
        let output = Command::new(iocreplay()).args(["net", &log, "--all", "--format", "jsonl"]).output();
        let lines = json_lines(&output.expect("it runs").stdout);
        let of = |client: &Value| -> Vec<String> {
            let of_it = |line: &&Value| line["client"] == *client;
            let kind = |line: &Value| {
                let told = |key: &str| line[key].as_str().unwrap_or("-").to_owned();
                format!("{} {} {} {} {}", told("kind"), told("reason"), told("by"), told("pv"), line["count"])
            };
            lines.iter().filter(of_it).map(kind).collect()
        };
        if without {
            assert_eq!(of(&first["circuit"]), ["connected opened - - 1", "closed unknown - - 1"]);
            assert!(of(&who["address"]).is_empty(), "{lines:#?}");
            continue;
        }
        let expected = [
            "channel_refused create_failed - NO:SUCH 2",
            "no_access no_write - PUT:DOUBLE 1",
            "slow_client events_off - - 1",
            "connected opened - - 1",
            "closed closed client - 1",
            "traffic - - - 0",
        ];
        let mut told = of(&first["circuit"]);
        told.sort();
        let mut expected = expected.map(str::to_owned).to_vec();
        expected.sort();
        assert_eq!(told, expected, "{lines:#?}");
        assert_eq!(of(&second["circuit"]), ["connected opened - - 1", "disconnected reset client - 1"]);
        assert_eq!(of(&who["address"]), [format!("unanswered no_answer_seen - NO:ONE {searched}")]);
    }
}

#[test]
fn a_pipe_shows_puts_as_they_come() {
    let Some(rig) = Rig::new("capture_pipe") else { return };
    let _ioc = rig.ioc("one", PORT, "puts.db", &[]);
    let capture = python("capture.py");
    let line = |arguments: &str| {
        let words = [capture.get_program()].into_iter().chain(capture.get_args());
        let words: Vec<_> = words.map(|word| word.to_str().expect("UTF-8")).collect();
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(format!("{} - | {IOCREC} {arguments}", words.join(" ")));
        shell
    };
    let mut watch = rig.by("watch", &mut line("watch --read -"));
    let log = rig.log();
    let _record = rig.by("record", &mut line(&format!("record --read - --flush 200ms --dir {log}")));
    let mut client = rig.client("libca", &[PORT], &[]);
    client.connect("PUT:DOUBLE");
    let mut number = 0;
    wait_until("a put is printed", || {
        number += 1;
        client.put("PUT:DOUBLE", DOUBLE, json!(number), false);
        watch.line_within(Duration::from_secs(1)).is_some_and(|line| line.contains("Write: "))
    });
    // one that nothing follows
    client.put("PUT:DOUBLE", DOUBLE, json!(777), false);
    wait_until("the last put is printed", || {
        watch.line_within(Duration::from_secs(1)).is_some_and(|line| line.contains(" 777 "))
    });
    wait_until("it is in the log", || rig.puts(&[]).iter().any(|put| put["requested"] == 777.0));
}

#[test]
fn mistakes_are_one_line() {
    let Some(rig) = Rig::new("capture_mistakes") else { return };
    let text = rig.path("text");
    fs::write(&text, "no packets\n").expect("a file");
    let told = |arguments: &[&str], code| {
        let output = run(Command::new(IOCREC).arg("watch").args(arguments));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), said.lines().count()), (Some(code), 1), "{said}");
        said
    };
    assert!(told(&["--read", &text], 1).contains("is not a capture"));
    assert!(told(&["--read", "/nowhere"], 1).contains("/nowhere"));
    for option in ["--iface", "--pid", "--user", "--tier"] {
        let value = match option {
            "--pid" => "1",
            "--tier" => "ring",
            "--user" => "root",
            _ => "lo",
        };
        assert!(told(&["--read", &text, option, value], 2).contains(option));
    }
    told(&["--read", &text, "--no-puts"], 2);
    told(&["--read", "-", "--read", "-"], 2);
    // no directory is left of a file that there is not
    let log = rig.log();
    let output = run(Command::new(IOCREC).args(["record", "--dir", &log, "--read", "/nowhere"]));
    assert_eq!((output.status.code(), fs::exists(&log).expect("it can be asked")), (Some(1), false));
}
