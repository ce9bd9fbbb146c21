//! Statements of iocreplay that were once false, compared with the IOC (tests/rig/statements.db): puts to attributes such
//! as RTYP, the alarm DISABLE, momentary outputs, recordings without processing.

use crate::rig::{iocreplay, wait_until, Rig};
use serde_json::{json, Value};
use std::process::{Command, Output};

const PORT: u16 = 5074;

/// DBR types, the protocol's numbers.
const STRING: u16 = 0;
const CHAR: u16 = 4;
const PUT_ACKS: u16 = 36;
const DOUBLE: u16 = 6;

/// Runs iocreplay with these words; LOG stands for the log.
fn ask(rig: &Rig, words: &str) -> Output {
    let log = rig.log();
    let words = words.split(' ').map(|word| if word == "LOG" { log.as_str() } else { word });
    Command::new(iocreplay()).args(words).output().expect("iocreplay runs")
}

fn lines(rig: &Rig, words: &str) -> Vec<Value> {
    let out = ask(rig, &format!("{words} --format jsonl")).stdout;
    String::from_utf8_lossy(&out).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// How often `graph` has a link.
fn count(rig: &Rig, link: &str) -> u32 {
    let graph = String::from_utf8_lossy(&ask(rig, "graph LOG").stdout).into_owned();
    let line = graph.lines().find(|line| line.contains(link));
    let number = line.and_then(|line| line.split_whitespace().next());
    number.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("no {link} in {graph}"))
}

#[test]
fn what_the_ioc_did_is_said_and_nothing_else() {
    let Some(rig) = Rig::new("statements") else { return };
    let mut ioc = rig.ioc("statements", PORT, "statements.db", &[]);
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument()]);
    let mut client = rig.client("libca", &[PORT], &[]);
    rig.wait_until_recording(&mut client, "SAY:READY", "both");
    // an attribute, which no put changes
    ioc.command("dbpf SAY:AI.RTYP other");
    client.put("SAY:AI.DESC", STRING, json!("words"), true);
    client.put("SAY:PING.B", DOUBLE, json!(200.0), true);
    wait_until("the end of the loop", || client.get("SAY:PONG") == json!(200.0));
    client.put("SAY:PULSE", DOUBLE, json!(1.0), true);
    wait_until("the end of the pulse", || client.get("SAY:PULSE") == json!(0));
    client.put("SAY:SWITCH", DOUBLE, json!(1.0), true);
    wait_until("the alarm", || client.get("SAY:SWITCHED.STAT") == json!(18));
    assert_eq!(client.get("SAY:SWITCHED.SEVR"), json!(2));
    let of_switched = |rig: &Rig| {
        let all = lines(rig, "alarms LOG --pv SAY:SWITCHED");
        let all = all.into_iter().filter(|line| line["what"] == "change");
        all.map(|line| (line["severity"].clone(), line["status"].clone())).collect::<Vec<_>>()
    };
    let disabled = (json!("MAJOR"), json!("DISABLE"));
    wait_until("the log has the alarm", || of_switched(&rig).last() == Some(&disabled));
    let at = lines(&rig, "at now LOG --pv SAY:SWITCHED");
    assert_eq!((&at[0]["severity"], &at[0]["status"]), (&disabled.0, &disabled.1), "{at:?}");
    client.put("SAY:SWITCH", DOUBLE, json!(0.0), true);
    wait_until("no alarm", || client.get("SAY:SWITCHED.SEVR") == json!(0));
    wait_until("the log has its end", || of_switched(&rig).last().is_some_and(|last| last.0 == "NO_ALARM"));
    assert_eq!(of_switched(&rig).iter().filter(|alarm| **alarm == disabled).count(), 1);
    wait_until("the log has what was read after the put", || {
        lines(&rig, "puts LOG --pv SAY:AI.DESC").first().is_some_and(|put| put["new"] == "words")
    });
    let rtype = client.get("SAY:AI.RTYP");
    client.put("SAY:COUNTED.SCAN", STRING, json!("Passive"), true);
    let counted = client.get("SAY:COUNTED").as_f64().expect("a number");
    wait_until("the last put", || lines(&rig, "puts LOG --pv SAY:COUNTED.SCAN").len() == 1);
    assert!(recorder.stop().success(), "{}", recorder.errors());
    let puts = lines(&rig, "puts LOG --pv SAY:AI*");
    let of = |key: &str| puts.iter().map(|put| put[key].clone()).collect::<Vec<_>>();
    assert_eq!(of("field"), ["RTYP", "DESC"], "{puts:?}");
    assert_eq!(of("pv"), ["SAY:AI.RTYP", "SAY:AI.DESC"]);
    assert_eq!(puts[0]["old"], rtype);
    // its text afterwards, or that nothing tells it
    assert!(puts[0]["new"] == rtype || puts[0]["new"].is_null(), "{puts:?}");
    assert!(!lines(&rig, "values SAY:AI.NAME LOG").iter().any(|line| line["value"] == "ai"));
    // as often as it has counted, which it did not while it was disabled
    let read = lines(&rig, "values SAY:COUNTED LOG");
    let first = read[0]["value"].as_f64().expect("a number");
    let before = if read[0]["source"] == "process" { first - 1.0 } else { first };
    let scanned = count(&rig, "--scan--> SAY:COUNTED ");
    assert_eq!(f64::from(scanned), counted - before);
    // each of these makes the compress process
    let collected = count(&rig, "SAY:COUNTED --CP--> SAY:COLLECTS ");
    assert!(collected.abs_diff(scanned) <= 2, "{collected} of {scanned}");
    let top = lines(&rig, "top LOG --by records --pv SAY:COLLECTS");
    // one at the beginning or the end of the recording may be known in part
    let processed = top[0]["count"].as_u64().expect("a number");
    assert!(processed.abs_diff(u64::from(collected)) <= 1, "{collected}: {top:?}");
    let loops = lines(&rig, "top LOG --by loops");
    let names: Vec<&str> = loops.iter().filter_map(|line| line["name"].as_str()).collect();
    assert!(!names.iter().any(|name| name.contains("PULSE")), "{names:?}");
    assert!(names.iter().any(|name| name.contains("PING") && name.contains("PONG")), "{names:?}");
}

#[test]
fn a_recording_without_processing_says_so() {
    let Some(rig) = Rig::new("statements-puts-alone") else { return };
    let ioc = rig.ioc("statements", PORT, "statements.db", &[]);
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument(), "--no-process"]);
    let mut client = rig.client("libca", &[PORT], &[]);
    rig.wait_until_recording(&mut client, "SAY:READY", "both");
    client.put("SAY:AI", DOUBLE, json!(4.5), true);
    wait_until("the put", || lines(&rig, "puts LOG --pv SAY:AI").len() == 1);
    assert!(recorder.stop().success(), "{}", recorder.errors());
    let info = String::from_utf8_lossy(&ask(&rig, "info LOG").stdout).into_owned();
    assert!(info.contains("not probed: processing: not recorded (--no-process)"), "{info}");
    for command in ["why SAY:AI LOG", "top LOG", "last LOG", "alarms LOG", "traces LOG", "at now LOG"] {
        let said = ask(&rig, command).stderr;
        let said = String::from_utf8_lossy(&said);
        assert!(said.contains("was recorded with --no-process"), "{command}: {said}");
    }
    let put = lines(&rig, "puts LOG --pv SAY:AI");
    let time = put[0]["time"].as_str().expect("a time");
    let at = lines(&rig, &format!("at {time} LOG --pv SAY:AI"));
    assert_eq!(at[0]["known"], "doubt", "{at:?}");
    assert!(at[0]["doubt"].as_str().is_some_and(|doubt| doubt.contains("--no-process")), "{at:?}");
}

/// `SEVR` of a record without a value.
const INVALID: u16 = 3;

#[test]
fn packets_alone_do_not_tell_that_an_alarm_lasts() {
    let Some(rig) = Rig::new("statements-packets") else { return };
    let ioc = rig.ioc("statements", PORT, "statements.db", &[]);
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument(), "--tier", "packet"]);
    let mut client = rig.client("libca", &[PORT], &[]);
    rig.wait_until_recording(&mut client, "SAY:READY", "packet");
    wait_until("the recorder has read the record", || {
        !lines(&rig, "alarms LOG --all --pv SAY:LATE").is_empty()
    });
    assert_eq!(client.get("SAY:LATE.SEVR"), json!(INVALID));
    client.put("SAY:LATE.PROC", DOUBLE, json!(1.0), true);
    assert_eq!(client.get("SAY:LATE.SEVR"), json!(0));
    client.put("SAY:LATE", PUT_ACKS, json!(INVALID), true);
    wait_until("the put", || lines(&rig, "puts LOG --pv SAY:LATE.PROC").len() == 1);
    assert!(recorder.stop().success(), "{}", recorder.errors());
    let of = |pv: &str| lines(&rig, &format!("alarms LOG --all --pv {pv}"));
    let late = of("SAY:LATE");
    let last = late.last().expect("it was read");
    assert_eq!(
        (&last["what"], &last["severity"], &last["until"]),
        (&json!("still"), &json!("INVALID"), &json!("gap"))
    );
    let timeless = of("SAY:TIMELESS");
    assert_eq!(timeless.last().map(|line| &line["unprocessed"]), Some(&json!(false)), "{timeless:?}");
    let text = String::from_utf8_lossy(&ask(&rig, "alarms LOG --all --pv SAY:*").stdout).into_owned();
    assert!(!text.contains("never processed") && !text.contains("is still"), "{text}");
    let acknowledged = late.iter().find(|line| line["what"] == "acknowledged").expect("the put to ACKS");
    assert_eq!(acknowledged["severity"], Value::Null, "it had left that alarm: {acknowledged}");
    let said = ask(&rig, "alarms LOG").stderr;
    assert!(!String::from_utf8_lossy(&said).contains("never processed"));
    let last = String::from_utf8_lossy(&ask(&rig, "last LOG").stdout).into_owned();
    assert!(!last.contains("were in alarm at the end"), "{last}");
}

#[test]
fn what_a_link_fetches_again_is_no_setting() {
    let Some(rig) = Rig::new("statements-fetched") else { return };
    let ioc = rig.ioc("statements", PORT, "statements.db", &[]);
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument()]);
    let mut client = rig.client("libca", &[PORT], &[]);
    rig.wait_until_recording(&mut client, "SAY:READY", "both");
    // whether this many puts are in the log, the last of them with what was read after it
    let exact = |pv: &str, count: usize| {
        let puts = lines(&rig, &format!("puts LOG --pv {pv}"));
        puts.len() == count && puts.last().is_some_and(|put| put["inexact"] == json!(false))
    };
    for record in ["SAY:FETCHES", "SAY:KEEPS"] {
        // A makes it process, which would fetch it at once
        let (disable, a) = (format!("{record}.DISA"), format!("{record}.A"));
        client.put(&disable, DOUBLE, json!(1.0), true);
        client.put(&a, DOUBLE, json!(3.0), true);
        assert_eq!(client.get(&a), json!(3.0));
        wait_until("A is read back", || exact(&a, 1));
        client.put(&disable, DOUBLE, json!(0.0), true);
        wait_until("DISA is read back", || exact(&disable, 2));
        client.put(&format!("{record}.PROC"), DOUBLE, json!(1.0), true);
    }
    assert_eq!((client.get("SAY:FETCHES.A"), client.get("SAY:KEEPS.A")), (json!(7.0), json!(3.0)));
    client.put("SAY:AI.DESC", STRING, json!("the end"), true);
    wait_until("the last put", || exact("SAY:AI.DESC", 1));
    let time = lines(&rig, "puts LOG --pv SAY:AI.DESC")[0]["time"].as_str().expect("a time").to_owned();
    assert!(recorder.stop().success(), "{}", recorder.errors());
    for more in ["", " --pv SAY:*", " --pv SAY:KEEPS.* --pv SAY:FETCHES.*"] {
        let at = lines(&rig, &format!("at {time} LOG{more}"));
        let known = |pv: &str| {
            let line = at.iter().find(|line| line["pv"] == pv);
            line.map_or(Value::Null, |line| json!([line["value"], line["known"]]))
        };
        assert_eq!(known("SAY:KEEPS.A"), json!([3.0, "yes"]), "{more}");
        assert_eq!(known("SAY:FETCHES.A"), json!([3.0, "doubt"]), "{more}");
        assert_eq!(known("SAY:KEEPS.DISA"), json!([0, "yes"]), "{more}");
        assert_eq!(known("SAY:FETCHES.DISA"), json!([0, "yes"]), "{more}");
    }
}

/// The put of one name, the end of its channel, another name and its channel, all in one segment.
#[test]
fn who_renames_itself_with_a_put_does_not_put_by_the_new_name() {
    let Some(rig) = Rig::new("statements-renamed") else { return };
    let ioc = rig.ioc("statements", PORT, "statements.db", &[]);
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument()]);
    let mut client = rig.client("libca", &[PORT], &[]);
    rig.wait_until_recording(&mut client, "SAY:READY", "both");
    let (mut raw, _) = rig.raw_client(PORT);
    let mut ask = |command: Value| {
        raw.send(&command.to_string());
        raw.line_as_json()
    };
    let mut sid = ask(json!({"do": "open", "create": ["SAY:TEXT"], "priority": 0}))["sids"][0].clone();
    for (cid, user) in [(0, "second"), (1, "third"), (2, "fourth")] {
        let put = json!([WRITE, STRING, 1, sid, 0, format!("before {user}")]);
        let next = json!([18, 0, 0, cid + 1, 13, "SAY:TEXT"]);
        let messages = json!([put, [12, 0, 0, sid, cid, ""], [20, 0, 0, 0, 0, user], next]);
        let answer = ask(json!({"do": "send_all", "messages": messages, "until": [18]}));
        sid = answer["answer"][4].clone();
    }
    ask(json!({"do": "send", "fields": [WRITE_NOTIFY, STRING, 1, sid, 0, "last"], "until": [WRITE_NOTIFY]}));
    wait_until("the last of the puts", || lines(&rig, "puts LOG --pv SAY:TEXT").len() >= 4);
    assert!(recorder.stop().success(), "{}", recorder.errors());
    let puts = lines(&rig, "puts LOG --pv SAY:TEXT");
    let told: Vec<Value> = puts.iter().map(|put| json!([put["new"], put["user"]])).collect();
    let truth = json!([
        ["before second", "raw"],
        ["before third", "second"],
        ["before fourth", "third"],
        ["last", "fourth"]
    ]);
    assert_eq!(json!(told), truth, "{puts:#?}");
    // who looks for the one finds the other
    let clients = lines(&rig, "clients LOG --user second");
    let [circuit] = &clients[..] else { panic!("one circuit: {clients:#?}") };
    let earlier = ["raw", "second", "third"].map(|user| json!({"user": user, "client_host": "rawhost"}));
    assert_eq!((&circuit["user"], &circuit["other_names"]), (&json!("fourth"), &json!(earlier)));
}

/// Commands of Channel Access.
const WRITE: u16 = 4;
const ERROR: u16 = 11;
const WRITE_NOTIFY: u16 = 19;

#[test]
fn odd_puts_are_told_once() {
    let Some(rig) = Rig::new("statements-odd-puts") else { return };
    let ioc = rig.ioc("statements", PORT, "statements.db", &[]);
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument()]);
    let mut client = rig.client("libca", &[PORT], &[]);
    rig.wait_until_recording(&mut client, "SAY:READY", "both");
    // one text, as characters and as a string
    let characters: Vec<u8> = [vec![b'c'; 50], vec![0]].concat();
    client.put("SAY:LONG.VAL$", CHAR, json!(characters), true);
    client.put("SAY:LONG", STRING, json!("short"), true);
    let (mut raw, who) = rig.raw_client(PORT);
    let mut ask = |command: Value| {
        raw.send(&command.to_string());
        raw.line_as_json()
    };
    let opened = ask(json!({"do": "open", "create": ["SAY:TEXT", "SAY:TEXT.DESC"], "priority": 0}));
    let (text, desc) = (opened["sids"][0].clone(), opened["sids"][1].clone());
    // A long text first, so that the server's memory holds something behind the short one, which has no end.
    let long = "x".repeat(30);
    ask(json!({"do": "send", "fields": [WRITE_NOTIFY, STRING, 1, desc, 1, long], "until": [WRITE_NOTIFY]}));
    let mut bare = |command: u16, ioid: u32, until: Value| {
        let fields = json!([command, STRING, 1, text, ioid, "abcdefgh"]);
        ask(json!({"do": "send", "fields": fields, "until": until, "bare": true}))
    };
    bare(WRITE_NOTIFY, 2, json!([WRITE_NOTIFY]));
    let held = client.get("SAY:TEXT");
    bare(WRITE, 3, json!([]));
    wait_until("the last of the puts", || lines(&rig, "puts LOG --pv SAY:TEXT.VAL").len() >= 2);
    // no channel has this number
    ask(json!({"do": "send", "fields": [WRITE, DOUBLE, 1, 9999, 4, "1234567"], "until": [ERROR]}));
    wait_until("the put that was refused", || {
        lines(&rig, "puts LOG").iter().any(|put| put["status"] == "ECA_INTERNAL")
    });
    assert!(recorder.stop().success(), "{}", recorder.errors());
    let puts = lines(&rig, "puts LOG --pv SAY:TEXT.VAL");
    let of = |key: &str| puts.iter().map(|put| put[key].clone()).collect::<Vec<_>>();
    assert!(held.as_str().is_some_and(|held| held.len() > 8 && held.starts_with("abcdefgh")), "{held}");
    assert_eq!(of("requested"), ["abcdefgh", "abcdefgh"], "{puts:?}");
    assert_eq!(of("new")[0], held);
    assert_eq!(of("source"), ["both", "both"]);
    assert_eq!(of("via"), ["ca_write_notify", "ca_write"]);
    assert_eq!(of("status"), ["ok", "ok"]);
    let undo = String::from_utf8_lossy(&self::ask(&rig, "undo --since -1h LOG").stdout).into_owned();
    assert!(!undo.contains("has another type now"), "{undo}");
    assert!(undo.contains("SAY:LONG"), "{undo}");
    let clients = lines(&rig, "clients LOG");
    let raws: Vec<&Value> = clients.iter().filter(|line| line["process"]["pid"] == who["pid"]).collect();
    assert_eq!(raws.iter().map(|line| line["channels"].clone()).collect::<Vec<_>>(), [2], "{raws:?}");
}
