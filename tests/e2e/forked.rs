//! Children that an IOC forks and that run none of their own, as Python's multiprocessing makes them: they have the IOC's
//! memory and its listening socket, but they are no IOCs, and they serve nobody.

use crate::rig::own_program::{Build, Own};
use crate::rig::{json_lines, wait_until, Rig, IOCREC};
use serde_json::{json, Value};
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

const PORT: u16 = 5074;
/// DBR_DOUBLE of the protocol.
const DOUBLE: u16 = 6;

#[test]
fn forked_children_are_no_iocs() {
    let Some(rig) = Rig::alone("forked") else { return };
    let mut ioc = rig.python_ioc("forking", PORT);
    let own: u64 = ioc.pid_argument().parse().expect("a number");
    let mut children: Vec<u64> = Vec::new();
    let fork =
        |ioc: &mut crate::rig::Ioc| -> u64 { ioc.command("fork 120")[0].trim().parse().expect("a pid") };
    children.push(fork(&mut ioc));
    let mut recorder = rig.record(&[]);
    let mut client = rig.client("libca", &[PORT], &[]);
    rig.wait_until_recording(&mut client, "PY:READY", "both");
    children.push(fork(&mut ioc));
    ioc.command("system sleep 0.5");
    // these end while they are looked at
    for hundredths in 0..30 {
        ioc.command(&format!("fork {}", f64::from(hundredths) / 100.0));
    }
    sleep(Duration::from_secs(7)); // servers are looked for every five seconds
    client.put("PY:OUT", DOUBLE, json!(4.5), true);
    wait_until("the put is told", || !rig.puts(&["--pv", "PY:OUT"]).is_empty());
    assert!(recorder.stop().success(), "{}", recorder.errors());
    let iocs = json_lines(&rig.replay("iocs", &["--json"]).stdout);
    let of_ours: Vec<u64> = iocs
        .iter()
        .filter(|ioc| ioc["ioc"] == "forking" || children.iter().any(|child| ioc["pid"] == *child))
        .filter_map(|ioc| ioc["pid"].as_u64())
        .collect();
    assert_eq!(of_ours, [own], "{children:?}: {iocs:#?}");
    for child in &children {
        assert!(!recorder.errors().contains(&format!("pid {child}")), "{}", recorder.errors());
    }
    let put = &rig.puts(&["--pv", "PY:OUT"])[0];
    assert_eq!((&put["ioc"], &put["status"]), (&json!("forking"), &json!("ok")), "{put}");

    // asked for by their numbers, and while the IOC lives and after it
    for parent in [Some(own), None] {
        if parent.is_none() {
            ioc.kill();
        }
        for child in &children {
            let mut recorder = rig.record(&["--pid", &child.to_string()]);
            wait_until("it is refused", || recorder.errors().contains("runs none of its own"));
            if recorder.runs() {
                recorder.stop(); // the start was over before it was known
            }
            let errors = recorder.errors();
            let whose = match parent {
                Some(parent) => format!(
                    "process {child} is not recorded: it is a child of process {parent}, forked from an IOC"
                ),
                None => format!("process {child} is not recorded: it "),
            };
            assert!(errors.contains(&whose) && !errors.contains("recording"), "{errors}");
        }
    }
    let check = Command::new(IOCREC).args(["check", "--json"]).output().expect("iocrec runs");
    let check: Value = serde_json::from_slice(&check.stdout).expect("JSON");
    for child in &children {
        let named =
            |list: &str| check[list].as_array().is_some_and(|list| list.iter().any(|of| of["pid"] == *child));
        assert!(!named("iocs") && named("not_recorded"), "{child}: {check:#}");
    }
}

/// They have the records, but neither a server's port nor any thread of EPICS, as the IOC itself then.
#[test]
fn children_forked_before_iocinit_are_no_iocs() {
    let Some(rig) = Rig::alone("forked-early") else { return };
    let Some(own) = Own::build(&rig, Build::Shared) else { return };
    let mut ioc = own.start_slowly(&rig, PORT, "starting.db");
    for _ in 0..2 {
        ioc.command_until("", "step");
    }
    // iocInit is next
    ioc.command_until("fork", "step");
    let mut recorder = rig.record(&[]);
    wait_until("it is recorded", || recorder.errors().contains("recording own"));
    ioc.command_until("fork", "step");
    sleep(Duration::from_secs(3));
    ioc.command_until("", "ready");
    sleep(Duration::from_secs(7)); // servers are looked for every five seconds
    assert!(recorder.stop().success(), "{}", recorder.errors());
    let iocs = json_lines(&rig.replay("iocs", &["--json"]).stdout);
    let pids: Vec<&Value> = iocs.iter().filter(|ioc| ioc["ioc"] == "own").map(|ioc| &ioc["pid"]).collect();
    assert_eq!(pids, [&json!(ioc.pid())], "{iocs:#?}");
}
