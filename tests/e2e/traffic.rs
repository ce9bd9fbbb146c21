//! Channel Access beside puts, as `iocreplay net` tells it, against what was done.

use crate::rig::{json_lines, rig_file, wait_until, Rig};
use serde_json::{json, Value};
use std::thread::sleep;
use std::time::Duration;

const PORT: u16 = 5164;
const OTHER: u16 = 5174;

fn net(rig: &Rig, arguments: &[&str]) -> Vec<Value> {
    let all = [&["--format", "jsonl", "--all"], arguments].concat();
    json_lines(&rig.replay("net", &all).stdout)
}

/// The lines of a kind.
fn of<'a>(lines: &'a [Value], kind: &str) -> Vec<&'a Value> {
    lines.iter().filter(|line| line["kind"] == kind).collect()
}

/// Seconds since midnight.
fn of_day(time: &Value) -> f64 {
    let clock = time.as_str().and_then(|time| time.get(11..29)).expect("a time with nanoseconds");
    clock.split(':').fold(0.0, |all, part| all * 60.0 + part.parse::<f64>().expect("a number"))
}

#[test]
fn the_network_is_told_as_it_was() {
    let Some(rig) = Rig::new("traffic") else { return };
    let mut ioc =
        rig.ioc_with("traffic", PORT, "puts.db", &["--access", &rig_file("access.acf").to_string_lossy()]);
    let server = rig.foreign_server(OTHER, "PUT:LONG");
    // the IOC that comes after this one, too
    let port = OTHER.to_string();
    let mut recorder = rig.record(&["--port", &port]);
    let mut client = rig.client("libca", &[PORT, OTHER], &[]);
    rig.wait_until_recording(&mut client, "PUT:READY", "both");
    let client_address = client.connect("PUT:LONG");
    client.connect("PUT:DOUBLES");
    // from now on everybody may read it, and nobody write: also by the channel that is open
    client.connect("PUT:DOUBLES.ASG");
    client.put("PUT:DOUBLES.ASG", 0, json!("LOCKED"), true);
    let (mut raw, who) = rig.raw_client(PORT);
    let (address, pid) = (who["address"].clone(), who["pid"].clone());
    let mut ask = |command: Value| {
        raw.send(&command.to_string());
        raw.line_as_json()
    };
    let searched = ask(json!({"do": "search", "name": "TRAFFIC:MISSING", "seconds": 4.0}));
    let create = json!(["PUT:LONG", "NO:SUCH", "PUT:DOUBLES"]);
    let opened = ask(json!({"do": "open", "create": create, "priority": 7}));
    let answers = opened["answers"].as_array().expect("answers");
    assert!(
        answers.contains(&json!(18)) && answers.contains(&json!(26)),
        "some are made, one refused: {opened}"
    );
    ask(json!({"do": "off", "seconds": 1.5}));
    ask(json!({"do": "close", "reset": false}));
    ask(json!({"do": "open", "create": ["PUT:LONG"], "priority": 0}));
    sleep(Duration::from_millis(200));
    ask(json!({"do": "close", "reset": true}));
    sleep(Duration::from_secs(2));
    // the client sees its server die, and the next one begin
    ioc.kill();
    sleep(Duration::from_secs(1));
    let again = rig.ioc("traffic", PORT, "puts.db", &[]);
    wait_until("the recorder has seen the IOC start again", || {
        of(&net(&rig, &[]), "server_restarted")
            .iter()
            .any(|line| line["servers"] == json!([format!("127.0.0.1:{PORT}")]))
    });
    recorder.stop();
    drop((again, server));
    let lines = net(&rig, &[]);
    // other tests' clients search, too, and this test's own while its IOC is down
    let unanswered = net(&rig, &["--pv", "TRAFFIC:*", "--kind", "unanswered"]);
    let [missing] = &unanswered[..] else { panic!("one name: {unanswered:#?}") };
    assert_eq!(
        (&missing["pv"], &missing["client"], &missing["pid"]),
        (&json!("TRAFFIC:MISSING"), &address, &pid)
    );
    assert_eq!((&missing["count"], &missing["at_least"]), (&searched["count"], &json!(false)));
    assert_eq!((&missing["program"], &missing["user"]), (&json!("raw_client.py"), &json!("root")));
    let several = of(&lines, "several_servers");
    let servers = json!([format!("127.0.0.1:{PORT}"), format!("127.0.0.1:{OTHER}")]);
    assert!(several.iter().any(|line| line["pv"] == "PUT:LONG" && line["servers"] == servers), "{several:?}");
    let by_raw = |kind: &str| -> Vec<Value> {
        // the recorder sees the IOCs of tests that run beside this one, and their raw clients, too
        let ours = |line: &&Value| line["user"] == "raw" && line["ioc"] == "traffic";
        of(&lines, kind).into_iter().filter(ours).cloned().collect()
    };
    let [refused] = &by_raw("channel_refused")[..] else { panic!("one refusal: {lines:#?}") };
    assert_eq!((&refused["pv"], &refused["client_host"]), (&json!("NO:SUCH"), &json!("rawhost")));
    let [slow] = &by_raw("slow_client")[..] else { panic!("one slow client: {lines:#?}") };
    assert_eq!((&slow["count"], &slow["going_on"]), (&json!(1), &json!(false)));
    let off = slow["duration_ms"].as_f64().unwrap();
    assert!((1400.0..3000.0).contains(&off), "updates were off for {off} ms");
    // once: so it lasted from the first to the last, whenever that was noted
    let lasted = (of_day(&slow["last"]) - of_day(&slow["time"])) * 1000.0;
    assert!((lasted - off).abs() < 1.0, "{lasted} ms: {slow}");
    let [closed] = &by_raw("closed")[..] else { panic!("one closed circuit: {lines:#?}") };
    assert_eq!((&closed["reason"], &closed["by"]), (&json!("closed"), &json!("client")));
    let [reset] = &by_raw("disconnected")[..] else { panic!("one broken circuit: {lines:#?}") };
    assert_eq!((&reset["reason"], &reset["by"]), (&json!("reset"), &json!("client")));
    assert_eq!(by_raw("connected").len(), 2);
    let locked = of(&lines, "no_access");
    assert!(
        locked.iter().any(|line| line["pv"] == "PUT:DOUBLES" && line["reason"] == "no_write"),
        "{locked:?}"
    );
    let changed = |line: &&Value| {
        // its field ASG belongs to the record's group, so one line names both
        let names = line["text"].as_str().unwrap_or_default();
        names.split(' ').any(|name| name == "PUT:DOUBLES")
            && line["client"] == *client_address
            && line["reason"] == "no_write"
    };
    assert!(locked.iter().any(changed), "rights that change while a channel is open: {locked:#?}");
    // killed by a signal: the kernel ends its circuits
    let died = |line: &&&Value| {
        line["by"] == "server" && line["user"] == json!(client.user) && line["client"] == *client_address
    };
    let died: Vec<&Value> = of(&lines, "disconnected").into_iter().filter(|line| died(&line)).collect();
    let [died] = &died[..] else { panic!("the IOC was killed: {lines:#?}") };
    assert!(
        ["reset", "half_closed", "closed"].map(|reason| json!(reason)).contains(&died["reason"]),
        "{died}"
    );
    let clients = json_lines(&rig.replay("clients", &["--format", "jsonl"]).stdout);
    let circuit = clients.iter().find(|line| line["client"] == *client_address).expect("its circuit");
    assert!(!circuit["disconnected"].is_null(), "it has ended: {circuit}");
    // one client alone
    let raw_lines = net(&rig, &["--user", "raw"]);
    assert!(!raw_lines.is_empty() && raw_lines.iter().all(|line| line["user"] == "raw"));
    let text = String::from_utf8(rig.replay("net", &["--pv", "TRAFFIC:*"]).stdout).unwrap();
    assert!(text.contains("no answer was seen"), "{text}");
}

#[test]
fn a_storm_of_searches_is_cheap_and_has_a_culprit() {
    let Some(rig) = Rig::new("storm") else { return };
    let ioc = rig.ioc("storm", PORT, "puts.db", &[]);
    let pid = ioc.pid_argument();
    let mut recorder = rig.record(&["--pid", &pid]);
    let mut client = rig.client("libca", &[PORT], &[]);
    rig.wait_until_recording(&mut client, "PUT:READY", "both");
    let (mut raw, who) = rig.raw_client(PORT);
    raw.send(&json!({"do": "storm", "names": 60_000, "seconds": 4.0}).to_string());
    raw.line_as_json();
    // puts go on being recorded
    client.put("PUT:LONG", 5, json!(77), true);
    wait_until("the storm has been noted", || !of(&net(&rig, &[]), "search_storm").is_empty());
    sleep(Duration::from_secs(4));
    recorder.stop();
    let lines = net(&rig, &[]);
    let storms = of(&lines, "search_storm");
    let count: u64 = storms.iter().filter_map(|storm| storm["count"].as_u64()).sum();
    assert!((1_000..120_000).contains(&count), "of 60,000: {storms:#?}");
    assert!(
        storms.iter().any(|storm| storm["client"] == who["address"] && storm["pid"] == who["pid"]),
        "{storms:#?}"
    );
    assert!(rig.puts(&[]).iter().any(|put| put["pv"] == "PUT:LONG" && put["new"] == 77));
    assert!(rig.log_bytes() < 400_000, "{} bytes of log", rig.log_bytes());
}

/// A client that reads nothing, as one that was stopped: its window closes, while the server has more for it.
#[test]
fn a_client_that_takes_nothing_is_named() {
    for tier in ["ring", "packet"] {
        let Some(rig) = Rig::new(&format!("stalled-{tier}")) else { return };
        let ioc = rig.ioc("stalled", PORT, "puts.db", &[]);
        let mut recorder = rig.record(&["--tier", tier, "--pid", &ioc.pid_argument()]);
        let mut client = rig.client("libca", &[PORT], &[]);
        let source = if tier == "ring" { "both" } else { "packet" };
        rig.wait_until_recording(&mut client, "PUT:READY", source);
        client.connect("PUT:DOUBLES");
        let (mut raw, _) = rig.raw_client(PORT);
        let mut ask = |command: Value| {
            raw.send(&command.to_string());
            raw.line_as_json()
        };
        let opened = ask(json!({"do": "stall", "pv": "PUT:DOUBLES", "count": 20000}));
        let doubles: Vec<f64> = (0..20000).map(f64::from).collect();
        client.put("PUT:DOUBLES", 6, json!(doubles), true);
        let stalls = || -> Vec<Value> {
            let lines = net(&rig, &["--kind", "slow_client"]);
            let of = |line: &Value| line["client"] == opened["circuit"] && line["reason"] == "window_closed";
            lines.into_iter().filter(of).collect()
        };
        wait_until("it is named", || !stalls().is_empty());
        let [stall] = &stalls()[..] else { panic!("one: {:?}", stalls()) };
        assert_eq!(stall["going_on"], true);
        let text = String::from_utf8_lossy(&rig.replay("net", &[]).stdout).into_owned();
        assert!(text.contains("raw@rawhost") && text.contains("its end was not seen"), "{text}");
        let clients = json_lines(&rig.replay("clients", &["--format", "jsonl"]).stdout);
        let line = clients.iter().find(|line| line["client"] == opened["circuit"]).expect("its circuit");
        assert_eq!(line["stalls"].as_array().map(Vec::len), Some(1), "{line}");
        assert!(ask(json!({"do": "read", "seconds": 2.0}))["count"].as_u64() >= Some(160_000));
        if tier == "packet" {
            // this tier sees its next message
            ask(json!({"do": "off", "seconds": 0.1}));
        }
        wait_until("it is over", || stalls()[0]["going_on"] == false);
        let lasted = stalls()[0]["duration_ms"].as_f64().expect("a number");
        assert!(lasted >= 1000.0, "{lasted}");
        assert!(recorder.stop().success(), "{}", recorder.errors());
        assert_eq!(stalls().len(), 1);
    }
}
