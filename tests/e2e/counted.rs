//! What goes over circuits beside puts, counted, and all else that Channel Access has: as a client counted it that says
//! every byte itself, and as a real IOC answered.

use crate::rig::{epics_programs, json_lines, not_run, wait_until, Needs, Rig};
use serde_json::{json, Value};
use std::fs;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

const PORT: u16 = 5184;

fn net(rig: &Rig, arguments: &[&str]) -> Vec<Value> {
    let all = [&["--format", "jsonl", "--all"], arguments].concat();
    json_lines(&rig.replay("net", &all).stdout)
}

/// Updates and their bytes of a PV on a circuit, as the lines of the network count them, and whether all lines claim to be
/// complete.
fn counted(lines: &[Value], circuit: &Value, pv: &str) -> (u64, u64, bool) {
    let of_it =
        |line: &&Value| line["kind"] == "channel_traffic" && line["client"] == *circuit && line["pv"] == pv;
    lines.iter().filter(of_it).fold((0, 0, true), |(updates, bytes, whole), line| {
        let text = line["text"].as_str().unwrap_or_default();
        let said = text.split(", ").find_map(|part| part.strip_suffix(" bytes of updates")).expect("bytes");
        let bound = said.strip_prefix("at least ");
        assert_eq!(bound.is_some(), line["at_least"] == true, "{text}");
        let said: u64 = bound.unwrap_or(said).parse().expect("a number");
        (updates + line["count"].as_u64().unwrap_or(0), bytes + said, whole && line["at_least"] == false)
    })
}

/// Bytes that the server sent on a circuit, as the lines of the network count them.
fn bytes_of_server(lines: &[Value], circuit: &Value) -> u64 {
    let of_it = |line: &&Value| line["kind"] == "traffic" && line["client"] == *circuit;
    let of_line = |line: &Value| -> u64 {
        let text = line["text"].as_str().expect("a text");
        let said = text.split([',', ';']).find_map(|part| part.trim().strip_suffix(" from the server"));
        let said = said.expect("bytes");
        let bound = said.strip_prefix("at least ");
        assert_eq!(bound.is_some(), line["at_least"] == true, "{text}");
        bound.unwrap_or(said).parse().expect("a number")
    };
    lines.iter().filter(of_it).map(of_line).sum()
}

/// Updates are counted where the filter leaves them out: to the last one, and to the last byte.
#[test]
fn every_update_is_counted() {
    let Some(rig) = Rig::new("counted") else { return };
    let ioc = rig.ioc("counted", PORT, "puts.db", &[]);
    let mut recorder = rig.record(&["--tier", "ring", "--pid", &ioc.pid_argument()]);
    let mut client = rig.client("libca", &[PORT], &[]);
    rig.wait_until_recording(&mut client, "PUT:READY", "both");
    client.connect("PUT:LONG");
    client.connect("PUT:DOUBLES");
    client.connect("PUT:DOUBLE");
    let pvs = ["PUT:LONG", "PUT:DOUBLES", "PUT:DOUBLE"];
    let mut raws = Vec::new();
    for _ in 0..2 {
        let (mut raw, _) = rig.raw_client(PORT);
        raw.send(&json!({"do": "monitor", "pvs": pvs, "counts": [1, 20_000, 1]}).to_string());
        let circuit = raw.line_as_json()["circuit"].clone();
        raws.push((raw, circuit));
    }
    for number in 0..20 {
        (0..20).for_each(|more| _ = client.put("PUT:LONG", 5, json!(number * 100 + more), true));
        let values: Vec<f64> = (0..20_000).map(|at| f64::from(at + number)).collect();
        client.put("PUT:DOUBLES", 6, json!(values), true);
        client.put("PUT:DOUBLE", 6, json!(number), true);
    }
    let mut truth = Vec::new();
    for (at, (raw, circuit)) in raws.iter_mut().enumerate() {
        let mut ask = |command: Value| {
            raw.send(&command.to_string());
            raw.line_as_json()
        };
        ask(json!({"do": "updates"}));
        if at == 0 {
            // one subscription ends before its circuit, the other circuit is open at the end of the recorder
            ask(json!({"do": "cancel", "pv": "PUT:LONG"}));
        }
        let answer = ask(json!({"do": "updates"}));
        if at == 0 {
            ask(json!({"do": "close", "reset": false}));
        }
        truth.push((circuit.clone(), answer["came"].clone(), answer["bytes"].clone()));
    }
    // a client that is not told of anything more
    sleep(Duration::from_secs(1));
    assert!(recorder.stop().success(), "{}", recorder.errors());
    let lines = net(&rig, &["--user", "raw"]);
    for (circuit, came, bytes) in &truth {
        // also those after which nothing came that the filter lets pass
        assert_eq!(json!(bytes_of_server(&lines, circuit)), *bytes, "{circuit}: {lines:#?}");
        for pv in pvs {
            let took = (came[pv][0].as_u64().expect("a count"), came[pv][1].as_u64().expect("bytes"));
            let (updates, bytes, whole) = counted(&lines, circuit, pv);
            eprintln!("{circuit} {pv}: came {took:?}, counted {updates}, {bytes} bytes, whole {whole}");
            assert_eq!((updates, bytes), took, "{pv}: {lines:#?}");
            assert!(whole, "{pv}: {lines:#?}");
        }
    }
    let long = &truth[0].1["PUT:LONG"][0];
    assert!(long.as_u64() > Some(100), "too few to show anything: {long}");
}

/// Beside a flood, segments hold more messages than the filter looks at: then the count is a lower bound, and says so.
#[test]
fn what_is_not_counted_is_said() {
    let Some(rig) = Rig::new("counted-flood") else { return };
    let ioc = rig.ioc("counted", PORT, "puts.db", &[]);
    let mut recorder = rig.record(&["--tier", "ring", "--pid", &ioc.pid_argument()]);
    let mut client = rig.client("libca", &[PORT], &[]);
    rig.wait_until_recording(&mut client, "PUT:READY", "both");
    let (mut raw, _) = rig.raw_client(PORT);
    let mut ask = |command: Value| {
        raw.send(&command.to_string());
        raw.line_as_json()
    };
    let circuit = ask(json!({"do": "monitor", "pvs": ["PUT:LONG"], "counts": [1]}))["circuit"].clone();
    client.connect("PUT:LONG");
    client.flood("PUT:LONG", 30_000);
    let got = ask(json!({"do": "updates"}));
    let came = got["came"]["PUT:LONG"].clone();
    assert!(recorder.stop().success(), "{}", recorder.errors());
    let lines = net(&rig, &["--user", "raw"]);
    let sent = bytes_of_server(&lines, &circuit);
    let is_bound = lines.iter().any(|line| line["kind"] == "traffic" && line["at_least"] == true);
    let all = got["bytes"].as_u64().expect("bytes");
    assert!(sent == all || sent < all && is_bound, "{sent} of {all} bytes: {lines:#?}");
    let (updates, bytes, whole) = counted(&net(&rig, &["--user", "raw"]), &circuit, "PUT:LONG");
    let took = (came[0].as_u64().expect("a count"), came[1].as_u64().expect("bytes"));
    eprintln!("came {took:?}, counted {updates}, {bytes} bytes, whole {whole}");
    assert!(took.0 > 1000 && updates > 100, "enough to show something");
    assert!(updates <= took.0 && bytes <= took.1, "never more than came");
    assert!(!whole || (updates, bytes) == took);
}

/// Searches over TCP, echoes without answer, priority, gets, errors, the end of a subscription, repeaters, beacons.
#[test]
fn all_else_is_told_as_it_was() {
    let Some(rig) = Rig::new("all-else") else { return };
    let ioc = rig.ioc("else", PORT, "puts.db", &[]);
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument()]);
    let (mut raw, _) = rig.raw_client(PORT);
    let mut ask = |command: Value| {
        raw.send(&command.to_string());
        raw.line_as_json()
    };
    wait_until("the recorder sees circuits", || {
        ask(json!({"do": "open", "create": ["PUT:READY"], "priority": 0}));
        sleep(Duration::from_millis(500));
        ask(json!({"do": "close", "reset": false}));
        net(&rig, &["--kind", "connected"]).iter().any(|line| line["user"] == "raw")
    });
    let opened = ask(json!({"do": "open", "create": ["PUT:DOUBLE", "PUT:LONG"], "priority": 42}));
    let circuit = opened["circuit"].clone();
    // 10: whoever has it not says so
    let search =
        |cid: u32, name: &str| json!({"do": "send", "fields": [6, 10, 13, cid, cid, name], "until": [6, 14]});
    let found = ask(search(77, "PUT:LONG"))["answer"].clone();
    let not_found = ask(search(78, "NO:SUCH:PV"))["answer"].clone();
    assert_eq!((&found[0], &not_found[0]), (&json!(6), &json!(14)), "what the IOC answered over TCP");
    ask(json!({"do": "get", "cid": 1, "count": 123}));
    // what went over the channels of a circuit is told if it was open for 5 s
    sleep(Duration::from_secs(6));
    // the end of a channel that the server does not have
    let third = ask(json!({"do": "open", "create": ["PUT:LONG"], "priority": 0}))["circuit"].clone();
    let error =
        ask(json!({"do": "send", "fields": [12, 0, 0, 999_999, 9, ""], "until": [11, 12]}))["answer"].clone();
    eprintln!("the IOC's answer to it: {error}");
    // beacons of a server that nobody has: 5, 6, then 12, then 8 again; and registrations at a repeater
    let beacon = |number: u32| json!([13, 13, 5999, number, 0x7f00_0001, ""]);
    ask(json!({"do": "tell", "port": 5065, "messages": [beacon(50), beacon(51), beacon(57), beacon(53)]}));
    ask(
        json!({"do": "tell", "port": 5065, "messages": [[24, 0, 0, 0, 0, ""], [24, 0, 0, 0, 0, ""], [24, 0, 0, 0, 0, ""]]}),
    );
    sleep(Duration::from_secs(2));
    assert!(recorder.stop().success(), "{}", recorder.errors());
    let lines = net(&rig, &[]);
    let of = |kind: &str| -> Vec<&Value> { lines.iter().filter(|line| line["kind"] == kind).collect() };
    let of_it = |kind: &str| -> Vec<&Value> {
        of(kind).into_iter().filter(|line| line["client"] == circuit).collect()
    };
    let [connected] = &of_it("connected")[..] else { panic!("{lines:#?}") };
    assert_eq!(connected["text"], "priority 42");
    let searched: Vec<_> = of("searched").into_iter().filter(|line| line["pv"] == "PUT:LONG").collect();
    let server = json!([format!("127.0.0.1:{PORT}")]);
    assert!(
        searched.iter().any(|line| line["servers"] == server && line["client"] == circuit),
        "{searched:#?}"
    );
    let missing: Vec<_> = lines.iter().filter(|line| line["pv"] == "NO:SUCH:PV").collect();
    assert!(missing.iter().any(|line| line["reason"] == "not_found"), "{missing:#?}");
    let gets = of_it("channel_traffic");
    let gets: Vec<_> = gets.iter().filter(|line| line["pv"] == "PUT:LONG").collect();
    let text = gets.iter().map(|line| line["text"].as_str().unwrap_or_default()).collect::<Vec<_>>();
    assert!(text.iter().any(|text| text.starts_with("123 gets")), "{text:?}");
    let errors: Vec<_> = of("error").into_iter().filter(|line| line["client"] == third).collect();
    assert_eq!(error[0] == 11, errors.len() == 1, "{error}: {errors:#?}");
    let odd: Vec<_> = of("beacons_irregular");
    let reasons: Vec<_> = odd
        .iter()
        .filter(|line| line["servers"] == json!(["127.0.0.1:5999"]))
        .map(|line| &line["reason"])
        .collect();
    assert_eq!(reasons, ["numbers_skipped", "numbers_back"], "{odd:#?}");
    let [repeater] = &of("repeater")[..] else { panic!("{lines:#?}") };
    assert_eq!((&repeater["count"], &repeater["text"]), (&json!(3), &json!("0 confirmed")));
}

/// The repeater of EPICS Base confirms every registration, each from a port of its own: those of its own client, which sends
/// it nothing in a datagram, and those of another, which sends a message.
#[test]
fn a_real_repeater_confirms() {
    let Some(rig) = Rig::new("repeater") else { return };
    let Some(programs) = epics_programs() else { return not_run("repeater", Needs::Machine("x86-64")) };
    let ioc = rig.ioc("repeated", PORT, "puts.db", &[]);
    let started = |name: &str, arguments: &[&str]| {
        let mut command = Command::new("sh");
        command.args(["-c", "echo ready; exec \"$@\"", "sh"]).arg(programs.join(name)).args(arguments);
        command.env("EPICS_CA_ADDR_LIST", format!("127.0.0.1:{PORT}")).env("EPICS_CA_AUTO_ADDR_LIST", "NO");
        rig.ioc_by(name, &mut command)
    };
    let _repeater = started("caRepeater", &[]);
    wait_until("the repeater is there", || {
        fs::read_to_string("/proc/thread-self/net/udp").expect("sockets").contains(":13C9 ")
    });
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument()]);
    let mut client = rig.client("libca", &[PORT], &[]);
    rig.wait_until_recording(&mut client, "PUT:READY", "both");
    let _monitor = started("camonitor", &["PUT:LONG"]);
    let (mut raw, _) = rig.raw_client(PORT);
    let register = json!([24, 0, 0, 0, 0, ""]);
    raw.send(&json!({"do": "tell", "port": 5065, "messages": [register, register, register]}).to_string());
    raw.line_as_json();
    // a client of EPICS Base registers 10 s after it has begun, which takes a while on a busy machine, and once more a second later
    sleep(Duration::from_secs(20));
    assert!(recorder.stop().success(), "{}", recorder.errors());
    let lines = net(&rig, &["--kind", "repeater"]);
    // one line a minute
    let asked: u64 = lines.iter().filter_map(|line| line["count"].as_u64()).sum();
    let text = |line: &Value| line["text"].as_str().expect("a text").to_owned();
    let confirmed: Vec<u64> = lines
        .iter()
        .map(|line| text(line).strip_suffix(" confirmed").expect("confirmations").parse().expect("a number"))
        .collect();
    assert!(asked >= 5, "three, and one of each client at least: {lines:#?}");
    assert_eq!(confirmed.iter().sum::<u64>(), asked, "{lines:#?}");
}

/// An IOC that stands still for longer than clients wait for an ECHO, and answers it then.
#[test]
fn an_echo_that_is_late() {
    let Some(rig) = Rig::new("echo") else { return };
    let ioc = rig.ioc("echo", PORT, "puts.db", &[]);
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument()]);
    let mut client = rig.client("libca", &[PORT], &[]);
    rig.wait_until_recording(&mut client, "PUT:READY", "both");
    let (mut raw, _) = rig.raw_client(PORT);
    let mut ask = |command: Value| {
        raw.send(&command.to_string());
        raw.line_as_json()
    };
    let circuit = ask(json!({"do": "open", "create": ["PUT:DOUBLE"], "priority": 0}))["circuit"].clone();
    ask(json!({"do": "get", "cid": 0, "count": 20}));
    ioc.signal(libc::SIGSTOP);
    // a thread that runs may answer before the one that takes the signal stops all
    let tasks = format!("/proc/{}/task", ioc.pid());
    wait_until("the whole IOC stands still", || {
        std::fs::read_dir(&tasks).expect("its threads").flatten().all(|task| {
            let stat = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
            stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))
        })
    });
    ask(json!({"do": "send", "fields": [23, 0, 0, 0, 0, ""], "until": null}));
    sleep(Duration::from_secs(7));
    ioc.signal(libc::SIGCONT);
    let answer = ask(json!({"do": "send", "fields": [23, 0, 0, 0, 0, ""], "until": [23]}))["answer"].clone();
    assert_eq!(answer[0], 23, "it has answered");
    sleep(Duration::from_secs(2));
    assert!(recorder.stop().success(), "{}", recorder.errors());
    let lines = net(&rig, &["--kind", "unresponsive"]);
    let lines: Vec<&Value> = lines.iter().filter(|line| line["client"] == circuit).collect();
    let [late] = &lines[..] else { panic!("one ECHO: {lines:#?}") };
    let lasted = late["duration_ms"].as_f64().expect("how long");
    assert!((6900.0..9000.0).contains(&lasted) && late["going_on"] == false, "{late}");
}

/// An IOC that stands still for longer than the recorder waits for a beacon, which is 2.5 times the usual 15 s.
#[test]
fn an_ioc_that_stands_still_sends_no_beacons() {
    let Some(rig) = Rig::new("silent") else { return };
    let ioc = rig.ioc("silent", PORT, "puts.db", &[]);
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument()]);
    let of_ioc = |kinds: &[&str]| -> Vec<Value> {
        let arguments: Vec<&str> = kinds.iter().flat_map(|kind| ["--kind", *kind]).collect();
        let mut lines = net(&rig, &arguments);
        lines.retain(|line| line["servers"] == json!([format!("127.0.0.1:{PORT}")]));
        lines
    };
    wait_until("a beacon is seen", || !of_ioc(&["server_seen", "server_started"]).is_empty());
    assert!(of_ioc(&["beacons_missing"]).is_empty());
    let is_told =
        |going_on: bool| of_ioc(&["beacons_missing"]).iter().any(|line| line["going_on"] == going_on);
    ioc.signal(libc::SIGSTOP);
    sleep(Duration::from_secs(35));
    wait_until("its silence is told", || is_told(true));
    ioc.signal(libc::SIGCONT);
    wait_until("it sends them again", || is_told(false));
    assert!(recorder.stop().success(), "{}", recorder.errors());
    let lines = of_ioc(&["beacons_missing"]);
    let [silent] = &lines[..] else { panic!("once: {lines:#?}") };
    assert_eq!(silent["reason"], "silent", "{silent}");
    let lasted = silent["duration_ms"].as_f64().expect("how long");
    assert!(lasted >= 37_500.0, "from its last beacon to the next: {silent}");
}
