//! Odd TCP on real circuits: data within the opening segment, sequence numbers that begin again at 0, closed windows. What
//! the IOC took is in the log, with its names, each put once, and nothing else.

use crate::rig::{Ioc, Rig, Running, Talk};
use serde_json::{json, Value};

const PORT: u16 = 5094;

struct Stage {
    rig: Rig,
    talk: Talk,
    recorder: Running,
    ioc: Ioc,
}

impl Stage {
    fn new(name: &str, tier: &str, source: &str) -> Option<Stage> {
        // each packet counts, and some tests send them faster than a busy machine takes them
        let rig = Rig::alone(&format!("{name}-{tier}"))?;
        // Fast Open in this test's network: of clients and of all servers that listen from now on, without cookies
        let all = 0x1 | 0x2 | 0x4 | 0x200 | 0x400;
        std::fs::write("/proc/sys/net/ipv4/tcp_fastopen", all.to_string()).expect("a setting of the network");
        let ioc = rig.ioc("odd", PORT, "puts.db", &[]);
        let recorder = rig.record(&["--pid", &ioc.pid_argument(), "--tier", tier]);
        let mut client = rig.client("libca", &[PORT], &[]);
        rig.wait_until_recording(&mut client, "PUT:READY", source);
        let talk = rig.odd_client(PORT, "PUT:LONG", "PUT:BYTES");
        Some(Stage { rig, talk, recorder, ioc })
    }

    fn ask(&mut self, command: Value) -> Value {
        self.talk.send(&command.to_string());
        self.talk.line_as_json()
    }

    /// Ends the recorder; the values that the log has of a circuit's puts to PUT:LONG, in order. Each has its name, its user
    /// and its status, and nothing else is said to be a put.
    fn said(&mut self, address: &Value, has_answers: bool) -> Vec<i64> {
        std::thread::sleep(std::time::Duration::from_millis(500));
        assert!(self.recorder.stop().success(), "{}", self.recorder.errors());
        let puts = self.rig.puts(&["--client", address.as_str().expect("an address")]);
        let is_wrong = |put: &&Value| {
            put["user"] != "odd" || put["pv"] != "PUT:LONG" || has_answers && put["status"] != "ok"
        };
        let wrong: Vec<&Value> = puts.iter().filter(is_wrong).collect();
        assert!(wrong.is_empty(), "{} of {}: {:#}", wrong.len(), puts.len(), wrong[0]);
        puts.iter().filter_map(|put| put["requested"].as_f64()).map(|value| value as i64).collect()
    }
}

const TIERS: [(&str, &str); 2] = [("ring", "both"), ("packet", "packet")];

/// TCP Fast Open: the client's identity and its channels are in the segment that opens the circuit. That is not decoded, but
/// counted; with probes the puts have their names all the same.
#[test]
fn data_within_the_opening() {
    for (tier, source) in TIERS {
        let Some(mut stage) = Stage::new("fast-open", tier, source) else { return };
        let values: Vec<i64> = (100..140).collect();
        let made = stage.ask(json!({"do": "fast_open", "values": values}));
        assert_eq!((&made["in_syn"], &made["value"]), (&json!(true), &json!(139)), "the IOC took them");
        std::thread::sleep(std::time::Duration::from_millis(500));
        assert!(stage.recorder.stop().success(), "{}", stage.recorder.errors());
        let address = made["address"].as_str().expect("an address");
        let puts = stage.rig.puts(&["--client", address]);
        let said: Vec<i64> =
            puts.iter().filter_map(|put| put["requested"].as_f64()).map(|value| value as i64).collect();
        assert_eq!(said, values, "{tier}");
        let is_named = |put: &Value| put["pv"] == "PUT:LONG" && put["status"] == "ok";
        let has_no_name = |put: &Value| put["pv"].is_null() && put["user"].is_null();
        let info = stage.rig.replay("info", &[]);
        let text = String::from_utf8_lossy(&info.stdout).into_owned();
        let is_counted =
            text.lines().any(|line| line.contains("beginning was not seen") && line.contains(address));
        assert!(is_counted, "{text}");
        assert!(tier == "packet" || puts.iter().all(is_named), "{:#}", puts[0]);
        assert!(puts.iter().all(|put| is_named(put) || has_no_name(put)), "{:#}", puts[0]);
    }
}

/// Sequence numbers of the client, or of the server, begin again at 0 on the way.
#[test]
fn numbers_that_wrap() {
    for (tier, source) in TIERS {
        let Some(mut stage) = Stage::new("wrap", tier, source) else { return };
        let values: Vec<i64> = (200..500).collect();
        let made = stage.ask(json!({"do": "wrap", "ahead": 3000, "values": values}));
        let [before, after] = ["before", "after"].map(|key| made[key].as_u64().expect("a number"));
        assert!(before > 1 << 31 && after < 1 << 31, "the kernel did it: {made}");
        let circuits = stage.ask(json!({"do": "wrap_server", "within": 1_500_000}));
        let ahead = circuits["ahead"].as_u64().expect("a number");
        eprintln!(
            "{tier}: the server's numbers wrap after {ahead} bytes, found after {} tries",
            circuits["tries"]
        );
        let mut others = Vec::new();
        let mut value = 1000;
        loop {
            // a recorder of a debug build takes this long for so many messages
            std::thread::sleep(std::time::Duration::from_millis(60));
            let read = stage.ask(json!({"do": "read", "count": 2000}));
            value += 1;
            others.push(value);
            stage.ask(json!({"do": "put", "values": [value]}));
            if read["next"].as_u64() < Some(1 << 31) {
                break;
            }
        }
        let address = &circuits["address"];
        for _ in 0..20 {
            value += 1;
            others.push(value);
            stage.ask(json!({"do": "put", "values": [value]}));
        }
        let second = address.as_str().expect("an address").to_string();
        assert_eq!(stage.said(&made["address"], true), values, "{tier}");
        let puts = stage.rig.puts(&["--client", &second]);
        let said: Vec<_> =
            puts.iter().map(|put| (put["requested"].as_f64(), put["status"].clone())).collect();
        let truth: Vec<_> = others.iter().map(|value| (Some(f64::from(*value)), json!("ok"))).collect();
        assert_eq!(said, truth, "{tier}");
    }
}

/// The IOC stands still for longer than its client's puts have room: its window closes, and opens again.
#[test]
fn closed_windows_of_the_ioc() {
    for (tier, source) in TIERS {
        let Some(mut stage) = Stage::new("closed", tier, source) else { return };
        let made = stage.ask(json!({"do": "wrap", "ahead": 100_000, "values": [7]}));
        stage.ioc.signal(libc::SIGSTOP);
        let filled = stage.ask(json!({"do": "fill", "first": 1_000_000, "count": 12_000}));
        assert!(filled["left"].as_u64() > Some(0), "its window has closed: {filled}");
        stage.ioc.signal(libc::SIGCONT);
        assert_eq!(stage.ask(json!({"do": "rest"}))["value"], 1_011_999);
        let said = stage.said(&made["address"], false);
        let truth: Vec<i64> = std::iter::once(7).chain(1_000_000..1_012_000).collect();
        // the stateless filter cuts segments of bulk that begin inside a message, which is counted
        let info = stage.rig.replay("info", &[]);
        let text = String::from_utf8_lossy(&info.stdout).into_owned();
        let lost = |line: &str| line.split("stream: ").nth(1)?.split(' ').next()?.parse::<usize>().ok();
        let lost: usize = text.lines().filter(|line| line.contains(" bytes ")).filter_map(lost).sum();
        let missing = truth.len() - said.len();
        eprintln!("{tier}: {missing} of {} puts are missing, {lost} bytes are counted as lost", truth.len());
        let mut rest = truth.iter();
        assert!(said.iter().all(|value| rest.any(|other| other == value)), "in order, and none made up");
        assert!(missing * 24 <= lost, "{tier}: {missing} puts, {lost} bytes: {text}");
        assert!(tier == "packet" || missing == 0, "{text}");
    }
}

/// A client that breaks its circuit off and connects again from the same port: while the packets of that still wait in the
/// ring, the server's thread has its first hit. Each put belongs to the circuit on which it came.
#[test]
fn a_port_that_is_used_again_at_once() {
    let Some(rig) = Rig::alone("port-again") else { return };
    let ioc = rig.ioc("again", PORT, "puts.db", &[]);
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument()]);
    let mut client = rig.client("libca", &[PORT], &[]);
    rig.wait_until_recording(&mut client, "PUT:READY", "both");
    let (mut raw, _) = rig.raw_client(PORT);
    let mut ask = |command: Value| {
        raw.send(&command.to_string());
        raw.line_as_json()
    };
    let (circuits, port) = (1..31, 45000);
    for number in circuits.clone() {
        let open = json!({
            "do": "open", "create": ["PUT:LONG"], "priority": 0, "user": format!("user{number}"), "port": port,
        });
        let sids = ask(open)["sids"].clone();
        let put = json!([19, 0, 1, sids[0], 1, number.to_string()]);
        assert_eq!(ask(json!({"do": "send", "fields": put, "until": [19]}))["answer"][3], 1);
        ask(json!({"do": "close", "reset": true}));
    }
    std::thread::sleep(std::time::Duration::from_millis(700));
    assert!(recorder.stop().success(), "{}", recorder.errors());
    let puts = rig.puts(&["--pv", "PUT:LONG"]);
    for number in circuits {
        let is_its = |put: &&Value| put["user"] == format!("user{number}");
        let its: Vec<&Value> = puts.iter().filter(is_its).collect();
        let [put] = its[..] else { panic!("{number}: {its:?}") };
        // on a busy machine packets of several circuits come at once: then nobody may know which of them a thread has served
        assert!(put["new"] == number || put["new"].is_null() && put["source"] == "packet", "{put}");
    }
    let both = puts.iter().filter(|put| put["source"] == "both").count();
    assert!(both >= 20, "{both}: {puts:?}");
}
