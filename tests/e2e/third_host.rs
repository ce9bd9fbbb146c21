//! A client, a server and somebody else on three hosts of a network. The third sends frames with the client's address: blindly,
//! with numbers that are nearly right, or right; to the server, or to nobody; after it has taken over the address. What the
//! server took is in the log, by the address that it came from; what it did not take is no put, and no circuit ends that is
//! open.

use crate::rig::{join_by_switch, json_lines, python, Ioc, Rig};
use serde_json::{json, Value};
use std::time::Duration;

const PORT: u16 = 5474;
/// Where ioc.py serves PVAccess.
const PVA: u16 = PORT + 1000;

/// What packets do not show at once: a segment behind missing bytes may be the client's, of which the rest was not captured.
const UNCERTAIN: &str = "data in the window, and silence";

/// Nobody has seen the server's answers on this circuit.
const BLIND: &str = "a circuit of nobody, number right";

/// What was put. Null if the type is in an answer that the server still holds, since nobody has acknowledged its first one.
fn whole(put: &Value) -> Value {
    put["requested"].as_f64().map_or(Value::Null, |value| json!(value as i64))
}

/// A process that holds a network of its own.
fn host(rig: &Rig, name: &str) -> Ioc {
    let mut command = python("private_net.py");
    rig.ioc_by(name, command.args(["sh", "-c", "echo ready; exec cat"]))
}

/// Attacks circuits of a protocol (its name, the version of IP, its port, and a PV), and compares.
fn attacked((protocol, family, port, pv): (&str, u8, u16, &str), tier: &str, source: &str) {
    let Some(rig) = Rig::new(&format!("third-{protocol}{family}-{tier}")) else { return };
    let [switch, there, third] = ["switch", "there", "third"].map(|name| host(&rig, name));
    join_by_switch(switch.pid(), &[there.pid(), third.pid()]);
    // on all addresses: of PVAccess one socket has both versions of IP
    let ioc = rig.ioc_with("target", PORT, "puts.db", &["--address", "0.0.0.0", "--pva", "pvxs"]);
    let mut client = rig.client("libca", &[PORT], &[]);
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument(), "--tier", tier]);
    rig.wait_until_recording(&mut client, "PUT:READY", source);
    let mut command = python("third_host.py");
    command.args([protocol, &family.to_string(), &port.to_string(), &PORT.to_string(), pv]);
    command.args([there.pid(), third.pid()].map(|pid| pid.to_string()));
    let mut attacker = rig.ioc_at("third_host", &mut command, "begins");
    let cases: Vec<Value> =
        attacker.command("").iter().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    std::thread::sleep(Duration::from_millis(500));
    assert!(recorder.stop().success(), "{}", recorder.errors());
    drop(attacker);

    let puts = rig.puts(&["--pv", pv]);
    let net = json_lines(&rig.replay("net", &["--all", "--format", "jsonl"]).stdout);
    let mut wrong = Vec::new();
    for case in &cases {
        let addresses = case["addresses"].as_array().expect("addresses");
        let is_its = |line: &&Value| addresses.contains(&line["client"]);
        let of_it: Vec<&Value> = puts.iter().filter(is_its).collect();
        let said: Vec<Value> = of_it.iter().map(|put| whole(put)).collect();
        let how: Vec<String> =
            of_it.iter().map(|put| format!("{} {}", put["status"], put["source"])).collect();
        let has_ended = |line: &&Value| {
            line["client"] == addresses[0] && (line["kind"] == "closed" || line["kind"] == "disconnected")
        };
        let ends = net.iter().filter(has_ended).count();
        eprintln!(
            "{:36} took {} said {} open {} ends {ends} {}",
            case["kind"].as_str().unwrap(),
            case["took"],
            json!(said),
            case["open"],
            how.join(", ")
        );
        let ends_rightly = ends == usize::from(case["open"] == false);
        let took = case["took"].as_array().expect("values");
        let has_no_type = |(told, took): (&Value, &Value)| {
            protocol == "pva"
                && source == "packet"
                && case["kind"] == BLIND
                && told.is_null()
                && !took.is_null()
        };
        let is_uncertain = case["kind"] == UNCERTAIN;
        let is_doubtful =
            |put: &&&Value| is_uncertain && put["status"] == "unknown" && put["source"] == "packet";
        let certain: Vec<_> =
            of_it.iter().filter(|put| !is_doubtful(put) || took.contains(&whole(put))).collect();
        let told: Vec<Value> = certain.iter().map(|put| whole(put)).collect();
        let is_told = |both: (&Value, &Value)| both.0 == both.1 || has_no_type(both);
        let are_told = told.len() == took.len() && told.iter().zip(took).all(is_told);
        if !are_told || !ends_rightly || certain.iter().any(|put| put["source"] != source) {
            wrong.push(&case["kind"]);
        }
    }
    let info = String::from_utf8_lossy(&rig.replay("info", &[]).stdout).into_owned();
    eprintln!("{}", info.lines().filter(|line| line.contains("stream:")).collect::<Vec<_>>().join("\n"));
    assert!(wrong.is_empty() && !cases.is_empty(), "{} of {}: {wrong:?}", wrong.len(), cases.len());
}

const CHANNEL_ACCESS: (&str, u8, u16, &str) = ("ca", 4, PORT, "PUT:LONG");
const OVER_IPV6: (&str, u8, u16, &str) = ("pva", 6, PVA, "PUT:INT64");
/// IPv4 to a socket of IPv6.
const MAPPED: (&str, u8, u16, &str) = ("pva", 4, PVA, "PUT:INT64");

#[test]
fn channel_access() {
    attacked(CHANNEL_ACCESS, "packet", "packet");
}

#[test]
fn channel_access_beside_probes() {
    attacked(CHANNEL_ACCESS, "ring", "both");
}

#[test]
fn pvaccess_over_ipv6() {
    attacked(OVER_IPV6, "packet", "packet");
}

#[test]
fn pvaccess_over_ipv6_beside_probes() {
    attacked(OVER_IPV6, "ring", "both");
}

#[test]
fn pvaccess_to_a_socket_of_both() {
    attacked(MAPPED, "packet", "packet");
}

#[test]
fn pvaccess_to_a_socket_of_both_beside_probes() {
    attacked(MAPPED, "ring", "both");
}
