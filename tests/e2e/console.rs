//! What IOCs print, compared with what they printed: a real IOC whose records print in every way (tests/rig/sayings.c),
//! and whose stderr the test reads, too.

use crate::rig::own_program::{shared_library, Build, Own};
use crate::rig::{iocreplay, python, rig_file, wait_until, Client, Ioc, Rig};
use serde_json::{json, Value};
use std::process::Command;
use std::time::Duration;

const PORT: u16 = 5074;
/// DBR_DOUBLE, the protocol's number.
const DOUBLE: u16 = 6;

/// Runs iocreplay console on the log.
fn console(rig: &Rig, more: &[&str]) -> Vec<Value> {
    let log = rig.log();
    let mut command = Command::new(iocreplay());
    let out =
        command.args(["console", &log, "--format", "jsonl"]).args(more).output().expect("iocreplay runs");
    let text = String::from_utf8_lossy(&out.stdout);
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// The IOC of sayings.db.
fn start(rig: &Rig) -> Ioc {
    let library = shared_library(rig, "sayings.c");
    rig.ioc_with("sayings", PORT, "sayings.db", &["--macros", "P=SAY:", "--routines", &library])
}

fn process(client: &mut Client, name: &str, argument: f64) {
    client.put(&format!("SAY:{name}.A"), DOUBLE, json!(argument), true);
}

fn texts(lines: &[Value]) -> Vec<&str> {
    lines.iter().filter_map(|line| line["text"].as_str()).collect()
}

/// Whatever tier there is: each line is that of the IOC, with the record that printed it.
fn each_line_has_its_record(tier: &str) {
    let Some(rig) = Rig::new(&format!("console-{tier}")) else { return };
    let mut ioc = start(&rig);
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument(), "--tier", tier, "--console-rate", "20"]);
    let mut client = rig.client("libca", &[PORT], &[]);
    rig.wait_until_recording(&mut client, "SAY:READY", "both");
    let before = ioc.errors().lines().count();
    // PREC is 3: the values show which put a line came of
    for (name, value) in [
        ("COMPLAIN", 1.5),
        ("STAMMER", 2.5),
        ("LOG_IT", 3.5),
        ("LOG_SEVERE", 4.5),
        ("LOG_ERROR", 5.5),
        ("PIECES", 6.5),
        ("SAY", 7.5),
    ] {
        process(&mut client, name, value);
    }
    client.put("SAY:CHAIN", DOUBLE, json!(8.5), true);
    client.put("SAY:EVENT", DOUBLE, json!(7.0), true);
    ioc.command("dbpf SAY:EVENT.PROC 1");
    wait_until("the log has the last line", || {
        console(&rig, &[]).iter().any(|line| line["thread"] == "cbLow")
    });
    assert!(recorder.stop().success(), "{}", recorder.errors());

    let lines = console(&rig, &[]);
    let of_errors: Vec<&Value> = lines.iter().filter(|line| line["output"] == "stderr").collect();
    // the truth: the IOC's stderr
    let printed = ioc.errors();
    let printed: Vec<String> =
        printed.lines().skip(before).map(|line| line.replace("\u{1b}[31;1m", "")).collect();
    let printed: Vec<String> = printed.iter().map(|line| line.replace("\u{1b}[0m", "")).collect();
    let seen: Vec<&str> = of_errors.iter().filter_map(|line| line["text"].as_str()).collect();
    let seen = &seen[seen.len().saturating_sub(printed.len())..];
    assert_eq!(seen, printed, "{lines:#?}");
    for line in &of_errors[of_errors.len() - printed.len()..] {
        let text = line["text"].as_str().unwrap_or_default();
        // each says who it is
        let record = text
            .split(' ')
            .map(|word| word.trim_start_matches("number=77"))
            .find(|word| word.starts_with("SAY:"));
        assert_eq!(line["record"].as_str(), record, "{line}");
        assert_eq!(line["record_certain"], true, "{line}");
        assert_ne!(line["thread"], "errlog", "the one that printed for another: {line}");
        let severity = if text.contains("warns") { json!("info") } else { Value::Null };
        assert_eq!(line["severity"], severity, "{line}");
    }
    let said: Vec<&Value> = lines.iter().filter(|line| line["output"] == "stdout").collect();
    assert!(said.iter().all(|line| line["kept_back"] == true && line["record"].is_null()), "{said:#?}");
    let chosen = console(&rig, &["--pv", "SAY:COMPLAIN"]);
    assert_eq!(texts(&chosen), ["SAY:COMPLAIN complains of 1.5", "SAY:COMPLAIN complains of 8.5"]);
}

#[test]
fn each_line_has_its_record_in_the_ring_tier() {
    each_line_has_its_record("ring");
}

#[test]
fn each_line_has_its_record_in_the_perf_tier() {
    each_line_has_its_record("perf");
}

/// A call with forty pieces, of which four are read: it does not look like a whole line.
#[test]
fn a_call_with_many_pieces() {
    let Some(rig) = Rig::new("console-pieces") else { return };
    let ioc = start(&rig);
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument(), "--console-rate", "20"]);
    let mut client = rig.client("libca", &[PORT], &[]);
    rig.wait_until_recording(&mut client, "SAY:READY", "both");
    process(&mut client, "MANY_PIECES", 1.0);
    process(&mut client, "COMPLAIN", 2.0);
    wait_until("the log has what came then", || {
        console(&rig, &[]).iter().any(|line| line["record"] == "SAY:COMPLAIN")
    });
    assert!(recorder.stop().success(), "{}", recorder.errors());
    let lines = console(&rig, &["--pv", "SAY:MANY_PIECES"]);
    assert_eq!((texts(&lines), &lines[0]["cut"]), (vec!["bit bit bit bit "], &json!(u32::MAX)), "{lines:#?}");
    let text = String::from_utf8(rig.replay("console", &[]).stdout).expect("text");
    assert!(text.contains("bit bit bit bit  (and more)"), "{text}");
}

#[test]
fn a_flood_is_cut_and_counted() {
    let Some(rig) = Rig::new("console-flood") else { return };
    let ioc = start(&rig);
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument(), "--console-rate", "30"]);
    let mut client = rig.client("libca", &[PORT], &[]);
    rig.wait_until_recording(&mut client, "SAY:READY", "both");
    let before = ioc.errors().lines().count();
    client.put("SAY:FLOOD.A", DOUBLE, json!(3000.0), true);
    // puts are not pushed out by it
    for value in 0..20 {
        process(&mut client, "COMPLAIN", f64::from(value));
    }
    client.put("SAY:RAMBLE.A", DOUBLE, json!(5000.0), true);
    std::thread::sleep(Duration::from_secs(2));
    assert!(recorder.stop().success(), "{}", recorder.errors());
    let lines = console(&rig, &[]);
    let flood = texts(&lines).into_iter().filter(|text| text.starts_with("flood ")).count();
    assert!((10..=60).contains(&flood), "{lines:#?}");
    let kept = lines.iter().filter(|line| line["kind"] == "line" && line["output"] == "stderr").count();
    // "3 lines and 1 write"
    let number = |text: &str, what: &str| {
        let words: Vec<&str> = text.split(' ').collect();
        let at = words.iter().position(|word| word.starts_with(what));
        at.map_or(0, |at| words[at - 1].parse::<usize>().expect("a number"))
    };
    let left_out = lines.iter().filter(|line| line["kind"] == "left_out");
    let left_out = left_out.filter_map(|line| line["text"].as_str());
    let left_out: usize = left_out.map(|text| number(text, "line") + number(text, "write")).sum();
    // the truth: each line is one write
    let printed = ioc.errors().lines().count() - before;
    assert_eq!(kept + left_out, printed, "kept {kept}, left out {left_out}: {lines:#?}");
    let puts = rig.puts(&[]);
    assert_eq!(puts.iter().filter(|put| put["pv"] == "SAY:COMPLAIN.A").count(), 20);
}

/// Readline echoes what is typed, and so the IOC writes it: the terminal shows it, the log does not.
#[test]
fn what_is_typed_is_never_recorded() {
    let Some(rig) = Rig::new("typed") else { return };
    let mut command = python("typed.py");
    command.arg("typed").arg(PORT.to_string()).arg(rig_file("versions.db")).arg(&rig.dir);
    let mut ioc = rig.ioc_at("typed", &mut command, "ready");
    let file = |name: &str| std::fs::read_to_string(rig.path(name)).expect("the rig writes it");
    let mut recorder = rig.record(&["--pid", &file("pid"), "--console-rate", "20"]);
    let mut client = rig.client("libca", &[PORT], &[]);
    rig.wait_until_recording(&mut client, "GEN:READY", "both");
    ioc.command_until("type", "typed");
    let shown = file("shown");
    assert!(shown.matches("hunter2-is-the-password").count() >= 2, "the terminal shows it: {shown}");
    wait_until("the log has what dbpr printed", || {
        texts(&console(&rig, &[])).iter().any(|text| text.starts_with("SEVR:"))
    });
    assert!(recorder.stop().success(), "{}", recorder.errors());
    let lines = console(&rig, &[]);
    let printed =
        lines.iter().filter(|line| line["output"] == "stdout" && line["kept_back"] == false).count();
    assert!(printed >= 3, "dbpr's lines, on a terminal: {lines:#?}");
    // what dbpf prints of the value is the IOC's own; the command line is not
    let typed = ["password", "so on", "epics>", "dbpf ", "dbpr "];
    for text in texts(&lines) {
        assert!(!typed.iter().any(|typed| text.contains(typed)), "{text}");
    }
    let bytes: Vec<u8> = std::fs::read_dir(rig.log())
        .expect("the log")
        .flat_map(|file| std::fs::read(file.expect("a segment").path()).expect("its bytes"))
        .collect();
    assert!(!String::from_utf8_lossy(&bytes).contains("is-the-password"));
    drop(ioc);
}

/// How the IOC's threads give up, and what the log says of it.
#[test]
fn who_gave_up() {
    for (name, says, ended) in [
        ("QUIT", "calls exit(3)", "exit status 3"),
        ("LEAVE", "calls exit(3)", "exit status 3"),
        ("SUSPEND", "is suspended for ever: assertion \"record->a == 7.5\" failed at sayings.c:4711", ""),
    ] {
        let Some(rig) = Rig::new(&format!("gave-up-{name}")) else { return };
        let mut ioc = start(&rig);
        let mut recorder = rig.record(&["--pid", &ioc.pid_argument()]);
        let mut client = rig.client("libca", &[PORT], &[]);
        rig.wait_until_recording(&mut client, "SAY:READY", "both");
        // the answer does not matter: the IOC may be gone before it comes
        client.tries(
            json!({"do": "put", "pv": format!("SAY:{name}.A"), "dbr": DOUBLE, "value": 3.0, "notify": false}),
        );
        let gave_up = || {
            let lines = console(&rig, &[]);
            lines.into_iter().filter(|line| line["kind"] == "gave_up").collect::<Vec<_>>()
        };
        wait_until("the log has it", || !gave_up().is_empty());
        let lines = gave_up();
        assert_eq!(lines[0]["text"], says, "{lines:#?}");
        assert_eq!(lines[0]["record"], format!("SAY:{name}"), "{lines:#?}");
        assert_eq!(ioc.runs(), ended.is_empty(), "{name}");
        assert!(ended.is_empty() || recorder.errors().contains(ended), "{}", recorder.errors());
        recorder.stop();
    }
}

/// A library comes between the IOC and the C library, as sanitizers and wrappers of sockets do: what passes both is told once.
#[test]
fn what_passes_two_writes_is_told_once() {
    let Some(rig) = Rig::new("console-between") else { return };
    let Some(own) = Own::build(&rig, Build::Shared) else { return };
    let between = shared_library(&rig, "passing_on.c");
    let mut command = own.command(PORT, "first.db", &[]);
    let mut ioc = rig.ioc_by("own", command.env("LD_PRELOAD", between));
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument(), "--console-rate", "20"]);
    let said = |text: &str| {
        let lines = console(&rig, &[]);
        texts(&lines).iter().map(|line| line.matches(text).count()).sum::<usize>()
    };
    wait_until("what it says is recorded", || {
        ioc.command("say at first");
        said("at first") > 0
    });
    ioc.command("say by both");
    wait_until("that is, too", || said("by both") > 0);
    assert!(recorder.stop().success(), "{}", recorder.errors());
    assert_eq!(said("by both"), 1);
}
