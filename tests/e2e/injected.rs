//! Somebody who reads a circuit along sends segments with its next sequence numbers. What the IOC took is in the log; what it
//! did not take is no put, or is marked.

use crate::rig::{Ioc, Rig, Talk};
use serde_json::{json, Value};

const PORT: u16 = 5074;
/// Kinds of which packets do not show whether the IOC took them: an acknowledgement of bytes that the IOC has not sent, but
/// that may have been left out of the capture; and an urgent byte, without which the IOC finds no more messages.
const UNCERTAIN: [&str; 3] = ["future-ack", "future-ack-answered", "urgent"];

/// What an injected segment led to.
#[derive(Debug)]
struct Case {
    kind: String,
    address: String,
    /// Values that the IOC took, in order.
    took: Vec<i64>,
}

/// Sends a command; returns the value that the IOC has then.
macro_rules! ask {
    ($talk:expr, $command:tt) => {{
        $talk.send(&json!($command).to_string());
        $talk.line_as_json()["took"].as_i64().expect("what the IOC has")
    }};
}

/// Every kind of injection, on a circuit of its own, by an injector of its own.
fn inject_everything(injector: &dyn Fn() -> (Talk, Value)) -> Vec<Case> {
    let (first, about) = injector();
    drop(first);
    let kinds = about["kinds"].as_array().expect("kinds").clone();
    let mut cases: Vec<Case> = Vec::new();
    for (number, kind) in (1i64..).zip(kinds) {
        // the puts of a case are known by its port, which the kernel may give twice
        let is_new = |about: &Value| cases.iter().all(|case| about["address"] != *case.address);
        let made = (0..9).map(|_| injector()).find(|(_, about)| is_new(about));
        let (mut talk, about) = made.expect("a port of its own");
        let value = number * 1000;
        let mut took = vec![ask!(talk, {"do": "put", "value": value})];
        took.push(ask!(talk, {"do": "inject", "kind": kind, "value": value + 1}));
        took.push(ask!(talk, {"do": "put", "value": value + 2}));
        took.push(ask!(talk, {"do": "put", "value": value + 3}));
        took.dedup();
        let word = |value: &Value| value.as_str().expect("a word").to_string();
        cases.push(Case { kind: word(&kind), address: word(&about["address"]), took });
    }
    cases
}

/// Whether what the IOC did not take is shown as unknown, a loss names the circuit, and nothing that hits show is missing.
fn is_doubtful(case: &Case, puts: &[Value], info: &str, tier: &str) -> bool {
    let of_it = || puts.iter().filter(|put| put["client"] == *case.address);
    let took = |put: &&Value| case.took.iter().any(|took| put["requested"].as_f64() == Some(*took as f64));
    let false_ones_are_unknown =
        of_it().filter(|put| !took(put)).all(|put| put["status"] == "unknown" && put["source"] == "packet");
    // a line names one circuit of those that it is about
    let is_named = |line: &str| line.contains(&*case.address) || line.contains("and on other circuits");
    let is_counted = info.lines().any(|line| line.contains("TCP segments") && is_named(line));
    // over PVAccess nothing tells whose a hit is that fits no request
    let all_are_there = tier == "packet" || puts.iter().filter(took).count() == case.took.len();
    false_ones_are_unknown && is_counted && all_are_there
}

fn under_injection(tier: &str, source: &str) {
    let Some(rig) = Rig::new(&format!("injected-{tier}")) else { return };
    let ioc = rig.ioc("target", PORT, "puts.db", &[]);
    let injector = || rig.injector(PORT, "PUT:LONG");
    injected(&rig, &ioc, ("PUT:READY", "PUT:LONG"), (tier, source), &injector);
}

/// The same over IPv6, to a server of PVAccess: beside what injects over IPv4, headers between those of IPv6 and TCP that
/// the kernel passes over or refuses, and fragments.
fn under_injection_over_ipv6(tier: &str, source: &str) {
    let Some(rig) = Rig::new(&format!("injected-ipv6-{tier}")) else { return };
    let ioc = rig.ioc_with("target", PORT, "puts.db", &["--pva", "pvxs", "--six"]);
    let injector = || rig.injector_over_ipv6(PORT, "PUT:INT64");
    injected(&rig, &ioc, ("PUT:READY", "PUT:INT64"), (tier, source), &injector);
}

/// `pvs`: of the client that shows that the IOC is recorded, and of the injector.
fn injected(
    rig: &Rig,
    ioc: &Ioc,
    pvs: (&str, &str),
    (tier, source): (&str, &str),
    injector: &dyn Fn() -> (Talk, Value),
) {
    let mut client = rig.client("libca", &[PORT], &[]);
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument(), "--tier", tier]);
    rig.wait_until_recording(&mut client, pvs.0, source);
    let cases = inject_everything(injector);
    std::thread::sleep(std::time::Duration::from_millis(500));
    assert!(recorder.stop().success(), "{}", recorder.errors());

    let info = rig.replay("info", &[]);
    let text = String::from_utf8_lossy(&info.stdout).into_owned();
    let puts = rig.puts(&["--pv", pvs.1]);
    let mut wrong = Vec::new();
    for case in &cases {
        let of_it = puts.iter().filter(|put| put["client"] == *case.address);
        let said: Vec<i64> =
            of_it.clone().filter_map(|put| put["requested"].as_f64()).map(|value| value as i64).collect();
        let how: Vec<_> = of_it.map(|put| format!("{} {}", put["status"], put["source"])).collect();
        eprintln!("{:18} took {:?} said {said:?} {}", case.kind, case.took, how.join(", "));
        let is_right = match UNCERTAIN.contains(&&*case.kind) {
            true => is_doubtful(case, &puts, &text, tier),
            false => said == case.took,
        };
        if !is_right {
            wrong.push(&case.kind);
        }
    }
    eprintln!("{}", text.lines().filter(|line| line.contains("loss")).collect::<Vec<_>>().join("\n"));
    assert!(wrong.is_empty(), "{} of {}: {wrong:?}", wrong.len(), cases.len());
}

#[test]
fn what_the_ioc_refused_is_no_put() {
    under_injection("packet", "packet");
}

#[test]
fn what_the_ioc_refused_is_no_put_beside_probes() {
    under_injection("ring", "both");
}

#[test]
fn what_the_ioc_refused_over_ipv6_is_no_put() {
    under_injection_over_ipv6("packet", "packet");
}

#[test]
fn what_the_ioc_refused_over_ipv6_is_no_put_beside_probes() {
    under_injection_over_ipv6("ring", "both");
}

/// A client that is killed, or breaks its circuit off, while a put is on its way.
fn broken_off(tier: &str, source: &str) {
    let Some(rig) = Rig::new(&format!("broken-off-{tier}")) else { return };
    let ioc = rig.ioc("target", PORT, "puts.db", &[]);
    let mut client = rig.client("libca", &[PORT], &[]);
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument(), "--tier", tier]);
    rig.wait_until_recording(&mut client, "PUT:READY", source);
    let mut took = Vec::new();
    // half a header, a header, all but the last byte
    for (value, bytes) in [(100, 8), (200, 16), (300, 23)] {
        for (reset, value) in [(true, value), (false, value + 10)] {
            let (mut talk, _) = rig.injector(PORT, "PUT:LONG");
            took.push(ask!(talk, {"do": "put", "value": value}));
            took.push(ask!(talk, {"do": "part", "value": value + 1, "bytes": bytes}));
            took.push(ask!(talk, {"do": "close", "reset": reset}));
        }
    }
    // The IOC has received the whole put when the circuit is broken off, but has not read it yet.
    let (mut talk, _) = rig.injector(PORT, "PUT:LONG");
    took.push(ask!(talk, {"do": "put", "value": 400}));
    ioc.signal(libc::SIGSTOP);
    ask!(talk, {"do": "put", "value": 401, "asks": false});
    ask!(talk, {"do": "close", "reset": true, "asks": false});
    ioc.signal(libc::SIGCONT);
    took.push(ask!(talk, {"do": "ask"}));
    took.push(ask!(talk, {"do": "ask"}));
    took.dedup();
    std::thread::sleep(std::time::Duration::from_millis(500));
    assert!(recorder.stop().success(), "{}", recorder.errors());
    let puts = rig.puts(&["--pv", "PUT:LONG"]);
    let of = |put: &Value| put["requested"].as_f64().map(|value| value as i64);
    let said: Vec<i64> = puts.iter().filter_map(of).collect();
    eprintln!("took {took:?} said {said:?}");
    for put in &puts {
        let is_true = of(put).is_some_and(|value| took.contains(&value));
        let is_unknown = put["status"] == "unknown" && put["source"] == "packet";
        assert!(is_true || is_unknown, "{put:#}");
    }
    assert!(took.iter().all(|value| said.contains(value)), "took {took:?} said {said:?}");
    // nothing that was sent in part is a put
    assert!(!said.iter().any(|value| *value < 400 && value % 10 == 1), "{said:?}");
}

#[test]
fn a_put_that_was_sent_in_part_is_none() {
    broken_off("packet", "packet");
}

#[test]
fn a_put_that_was_sent_in_part_is_none_beside_probes() {
    broken_off("ring", "both");
}
