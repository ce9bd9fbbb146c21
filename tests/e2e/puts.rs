//! The put log has exactly the clients' puts, in order, for each type, client and transport.

use crate::rig::{Client, Rig};
use serde_json::{json, Value};
use std::collections::HashMap;

const PORT: u16 = 5074;

/// DBR types, the protocol's numbers.
const STRING: u16 = 0;
const SHORT: u16 = 1;
const FLOAT: u16 = 2;
const ENUM: u16 = 3;
const CHAR: u16 = 4;
const LONG: u16 = 5;
const DOUBLE: u16 = 6;

/// EPICS Base's status of a failed put: ECA_PUTFAIL.
const PUTFAIL: u64 = 160;

/// With callback or without.
const NOTIFY: bool = true;
const WRITE: bool = false;

/// A put and its outcome.
struct Put {
    pv: &'static str,
    dbr: u16,
    value: Value,
    notify: bool,
    /// The field afterwards, as the log shows it.
    new: Value,
    fails: bool,
}

/// A put whose field gets the requested value.
fn put(pv: &'static str, dbr: u16, value: Value, notify: bool) -> Put {
    Put { pv, dbr, new: value.clone(), value, notify, fails: false }
}

impl Put {
    /// The field gets another value than the requested one.
    fn becomes(mut self, new: Value) -> Put {
        self.new = new;
        self
    }

    /// The server refuses it.
    fn fails(mut self) -> Put {
        self.fails = true;
        self
    }
}

/// All types, as scalars and arrays, to value fields and others, for two clients in turn.
fn series() -> Vec<Put> {
    let long_text: Vec<u8> = b"longer than the forty characters that a DBR_STRING can hold\0".to_vec();
    vec![
        put("PUT:DOUBLE", DOUBLE, json!(1.5), WRITE),
        put("PUT:DOUBLE", DOUBLE, json!(2.5), NOTIFY),
        put("PUT:DOUBLE", FLOAT, json!(3.25), WRITE),
        put("PUT:DOUBLE.VAL", FLOAT, json!(-0.5), NOTIFY),
        put("PUT:LONG", LONG, json!(-7), NOTIFY),
        put("PUT:LONG", LONG, json!(2147483647), WRITE),
        put("PUT:LONG", SHORT, json!(-1234), WRITE),
        put("PUT:LONG", SHORT, json!(1234), NOTIFY),
        put("PUT:LONG", CHAR, json!(200), NOTIFY),
        put("PUT:LONG", CHAR, json!(7), WRITE),
        put("PUT:INT64", DOUBLE, json!(9e15), NOTIFY).becomes(json!(9_000_000_000_000_000i64)),
        put("PUT:ENUM", ENUM, json!(2), NOTIFY),
        put("PUT:ENUM", ENUM, json!(1), WRITE),
        put("PUT:ENUM", STRING, json!("Standby"), WRITE).becomes(json!(1)),
        put("PUT:BINARY", ENUM, json!(1), WRITE),
        put("PUT:BINARY", STRING, json!("Closed"), NOTIFY).becomes(json!(0)),
        put("PUT:TEXT", STRING, json!("hello world"), NOTIFY),
        put("PUT:TEXT", STRING, json!("as long as a DBR_STRING can be, not one"), WRITE),
        put("PUT:TEXT", STRING, json!(""), WRITE),
        put("PUT:TEXT", DOUBLE, json!(4.5), WRITE).becomes(json!("4.500000")),
        put("PUT:DOUBLE", STRING, json!("12.75"), WRITE).becomes(json!(12.75)),
        // Numbers that are none, and one that a double has not.
        put("PUT:PLAIN", STRING, json!("nan"), NOTIFY).becomes(json!("NaN")),
        put("PUT:PLAIN", STRING, json!("-Inf"), WRITE).becomes(json!("-Infinity")),
        put("PUT:INT64", STRING, json!("9007199254740993"), WRITE).becomes(json!(9_007_199_254_740_993i64)),
        // Beyond DRVH: the record takes it, and cuts it.
        put("PUT:DOUBLE", DOUBLE, json!(5000.0), NOTIFY).becomes(json!(1000.0)),
        // Fields other than the value.
        put("PUT:DOUBLE.DRVH", DOUBLE, json!(10.0), WRITE),
        put("PUT:DOUBLE.DESC", STRING, json!("a description"), NOTIFY),
        put("PUT:DOUBLE.PREC", SHORT, json!(5), WRITE),
        // Arrays.
        put("PUT:TEXTS", STRING, json!(["one", "two", ""]), WRITE),
        put("PUT:TEXTS", STRING, json!(["four", "five"]), NOTIFY),
        put("PUT:SHORTS", SHORT, json!([1, -2, 32767]), NOTIFY),
        put("PUT:SHORTS", SHORT, json!([4, 5]), WRITE),
        put("PUT:FLOATS", FLOAT, json!([0.5, 1.25]), WRITE),
        put("PUT:FLOATS", FLOAT, json!([-2.0, 8.0, 16.0]), NOTIFY),
        put("PUT:USHORTS", ENUM, json!([1, 2, 65535]), NOTIFY),
        put("PUT:USHORTS", ENUM, json!([3, 4]), WRITE),
        put("PUT:BYTES", CHAR, json!([0, 255, 7]), WRITE),
        put("PUT:BYTES", CHAR, json!([1, 2, 3, 4]), NOTIFY),
        put("PUT:LONGS", LONG, json!([-1, 2147483647]), NOTIFY),
        put("PUT:LONGS", LONG, json!([10, 20, 30]), WRITE),
        put("PUT:DOUBLES", DOUBLE, json!([1.5, -2.5, 1e300]), WRITE),
        put("PUT:DOUBLES", DOUBLE, json!([0.25, 0.5]), NOTIFY),
        put("PUT:LONGTEXT.VAL$", CHAR, json!(long_text), NOTIFY),
        put("PUT:OTHERNAME", DOUBLE, json!(8.0), WRITE),
        put("PUT:SLOW.A", DOUBLE, json!(4.0), NOTIFY),
        // Refused.
        put("PUT:LOCKED", DOUBLE, json!(1.0), NOTIFY).fails(),
        put("PUT:LOCKED", DOUBLE, json!(2.0), WRITE).fails(),
        put("PUT:ENUM", STRING, json!("nonsense"), NOTIFY).fails(),
        // A link field.
        put("PUT:PLAIN.INP", STRING, json!("PUT:LONG NPP"), NOTIFY),
    ]
}

/// A client's own view of itself, to compare with the log.
struct Player {
    client: Client,
    address: String,
}

/// Runs the series over one transport and compares the log with it, put by put.
fn record_series(tier: &str, swapped: bool) {
    let Some(rig) = Rig::new(&format!("puts-{tier}")) else { return };
    let ioc = rig.ioc("puts", PORT, "puts.db", &[]);
    // This one has its circuit and its channels before the recorder is there.
    let mut early = rig.client("libca", &[PORT], &["--uid", "65534", "--host", "console-3"]);
    let early_address = early.connect("PUT:READY");
    for put in series() {
        assert_eq!(early.connect(put.pv), early_address);
    }
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument(), "--tier", tier]);
    rig.wait_until_recording(&mut early, "PUT:READY", "both");
    let mut late = rig.client("caproto", &[PORT], &["--user", "ramp-script", "--host", "control-2"]);
    let late_address = late.connect("PUT:READY");
    let mut players =
        [Player { client: early, address: early_address }, Player { client: late, address: late_address }];

    let series = series();
    for (number, put) in series.iter().enumerate() {
        let player = &mut players[(number + usize::from(swapped)) % 2];
        let status = player.client.put(put.pv, put.dbr, put.value.clone(), put.notify);
        assert_eq!(status, if put.fails && put.notify { PUTFAIL } else { 1 }, "{} {}", put.pv, put.value);
    }
    assert!(recorder.stop().success(), "{}", recorder.errors());

    let log: Vec<Value> = rig.puts(&[]).into_iter().filter(|line| line["pv"] != "PUT:READY").collect();
    let mut fields = initial_fields();
    let mut wrong = Vec::new();
    for (number, (put, line)) in series.iter().zip(&log).enumerate() {
        let player = &players[(number + usize::from(swapped)) % 2];
        compare(line, put, player, &mut fields, &mut wrong);
        // What comes after one put too many or too few is all wrong.
        if line["pv"] != put.pv {
            break;
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(log.len(), series.len(), "puts in the log, and made; the last is {:?}", log.last());
    let times: Vec<&str> = log.iter().filter_map(|line| line["time"].as_str()).collect();
    assert!(times.is_sorted(), "not in the order of time: {times:?}");
}

/// Initial values of the fields that the series writes to.
fn initial_fields() -> HashMap<String, Value> {
    let mut fields = HashMap::new();
    for (field, value) in [
        ("PUT:DOUBLE.VAL", json!(0.0)),
        ("PUT:LONG.VAL", json!(0)),
        ("PUT:INT64.VAL", json!(0)),
        ("PUT:PLAIN.VAL", json!(0.0)),
        ("PUT:ENUM.VAL", json!(0)),
        ("PUT:BINARY.VAL", json!(0)),
        ("PUT:TEXT.VAL", json!("at first")),
        ("PUT:DOUBLE.DRVH", json!(1000.0)),
        ("PUT:DOUBLE.DESC", json!("")),
        ("PUT:DOUBLE.PREC", json!(3)),
        ("PUT:ALIASED.VAL", json!(0.0)),
        ("PUT:SLOW.A", json!(0.0)),
        ("PUT:LOCKED.VAL", json!(0.0)),
    ] {
        fields.insert(field.to_string(), value);
    }
    fields
}

/// Compares a line of the put log with the put, and collects the differences; `fields` has the current values of the IOC's
/// fields.
fn compare(
    line: &Value,
    put: &Put,
    player: &Player,
    fields: &mut HashMap<String, Value>,
    wrong: &mut Vec<String>,
) {
    let (record, field) = put.pv.split_once('.').unwrap_or((put.pv, "VAL"));
    let record = if record == "PUT:OTHERNAME" { "PUT:ALIASED" } else { record };
    let field = field.trim_end_matches('$');
    let dbr = ["STRING", "SHORT", "FLOAT", "ENUM", "CHAR", "LONG", "DOUBLE"][usize::from(put.dbr)];
    let mut expected = vec![
        ("pv", json!(put.pv)),
        ("ioc", json!("puts")),
        ("record", json!(record)),
        ("field", json!(field)),
        ("user", json!(player.client.user)),
        ("client_host", json!(player.client.host)),
        ("client", json!(player.address)),
        ("server", json!(format!("127.0.0.1:{PORT}"))),
        ("via", json!(if put.notify { "ca_write_notify" } else { "ca_write" })),
        ("dbr", json!(format!("DBR_{dbr}"))),
        ("count", json!(put.value.as_array().map_or(1, Vec::len))),
        ("requested", put.value.clone()),
        ("status", json!(if put.fails { "ECA_PUTFAIL" } else { "ok" })),
        ("source", json!("both")),
        ("thread", json!("CAS-client")),
    ];
    if !put.fails {
        // The record's own word, or what its field was seen to hold.
        expected.push(("inexact", json!(false)));
    }
    let place = format!("{record}.{field}");
    if let Some(old) = fields.get(&place).filter(|_| !put.fails) {
        expected.extend([("old", old.clone()), ("new", put.new.clone())]);
        fields.insert(place, put.new.clone());
    }
    for (key, expected) in expected {
        if !same(&line[key], &expected) {
            let how = if put.notify { "with callback" } else { "without callback" };
            wrong.push(format!("{} {} {how}: {key} is not {expected} in {line}", put.pv, put.value));
        }
    }
    // ODLY of the slow record is 0.2 s.
    let least = if put.pv == "PUT:SLOW.A" { 190.0 } else { 0.0 };
    if line["callback_ms"].as_f64().is_some_and(|waited| waited >= least) != put.notify {
        wrong.push(format!("{}: callback_ms in {line}", put.pv));
    }
}

/// Equality of values: 4 equals 4.0.
fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => one.as_f64() == other.as_f64(),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
        }
        _ => one == other,
    }
}

#[test]
fn the_put_log_is_what_was_put_over_the_ring_buffer() {
    record_series("ring", false);
}

#[test]
fn the_put_log_is_what_was_put_over_perf_buffers() {
    record_series("perf", true);
}

/// Without probes, packets show who requested what, also on channels older than the recorder.
#[test]
fn packets_alone_tell_who_asked_for_what() {
    let Some(rig) = Rig::new("puts-packet") else { return };
    let ioc = rig.ioc("puts", PORT, "puts.db", &[]);
    let mut client = rig.client("libca", &[PORT], &[]);
    let address = client.connect("PUT:DOUBLE");
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument(), "--tier", "packet"]);
    rig.wait_until_recording(&mut client, "PUT:READY", "packet");
    client.put("PUT:DOUBLE", DOUBLE, json!(1.25), NOTIFY);
    client.put("PUT:TEXT", STRING, json!("text"), WRITE);
    assert!(recorder.stop().success(), "{}", recorder.errors());
    let log: Vec<Value> = rig.puts(&[]).into_iter().filter(|line| line["pv"] != "PUT:READY").collect();
    assert_eq!(log.len(), 2, "{log:?}");
    assert_eq!(log[0]["pv"], "PUT:DOUBLE");
    assert_eq!(log[0]["requested"], json!(1.25));
    assert_eq!(log[1]["pv"], "PUT:TEXT");
    assert_eq!(log[1]["requested"], json!("text"));
    for line in &log {
        assert_eq!(line["source"], "packet", "{line}");
        assert_eq!(line["user"], json!(client.user), "{line}");
        assert_eq!(line["client"], json!(address), "{line}");
    }
}

/// A server that is not EPICS Base: the log has its packets alone.
#[test]
fn puts_to_a_foreign_server_come_from_packets() {
    let Some(rig) = Rig::new("puts-foreign") else { return };
    let mut server = rig.foreign_server(5099, "FOREIGN:SP");
    let ioc = rig.ioc("beside", PORT, "puts.db", &[]);
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument(), "--port", "5099"]);
    let mut client = rig.client("libca", &[PORT, 5099], &["--uid", "65534", "--host", "console-3"]);
    rig.wait_until_recording(&mut client, "PUT:READY", "both");
    let address = client.connect("FOREIGN:SP");
    client.put("FOREIGN:SP", DOUBLE, json!(1.5), NOTIFY);
    client.put("FOREIGN:SP", DOUBLE, json!(2.5), WRITE);
    assert!(server.runs());
    assert!(recorder.stop().success(), "{}", recorder.errors());
    let log = rig.puts(&["--pv", "FOREIGN:SP"]);
    assert_eq!(log.len(), 2, "{log:?}");
    for (line, (value, via)) in log.iter().zip([(1.5, "ca_write_notify"), (2.5, "ca_write")]) {
        assert_eq!(line["requested"], json!(value), "{line}");
        assert_eq!(line["via"], via, "{line}");
        assert_eq!(line["source"], "packet", "{line}");
        assert_eq!(line["user"], "nobody", "{line}");
        assert_eq!(line["client_host"], "console-3", "{line}");
        assert_eq!(line["client"], json!(address), "{line}");
        assert_eq!(line["server"], "127.0.0.1:5099", "{line}");
    }
}

/// An array of 160,000 bytes, with an extended header and in many TCP segments: the log has its head and its true length.
#[test]
fn a_big_array_is_cut_and_says_so() {
    let Some(rig) = Rig::new("puts-big") else { return };
    let ioc = rig.ioc("puts", PORT, "puts.db", &[]);
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument()]);
    let mut client = rig.client("libca", &[PORT], &[]);
    rig.wait_until_recording(&mut client, "PUT:READY", "both");
    let numbers: Vec<f64> = (0..20_000).map(f64::from).collect();
    client.put("PUT:DOUBLES", DOUBLE, json!(numbers), NOTIFY);
    client.put("PUT:DOUBLE", DOUBLE, json!(1.5), NOTIFY);
    assert!(recorder.stop().success(), "{}", recorder.errors());
    let log: Vec<Value> = rig.puts(&[]).into_iter().filter(|line| line["pv"] != "PUT:READY").collect();
    assert_eq!(log.len(), 2, "{log:?}");
    assert_eq!(log[0]["count"], 20_000);
    let head = log[0]["requested"].as_array().expect("an array");
    assert!(head.len() >= 4, "{head:?}");
    assert!(head.iter().zip(&numbers).all(|(found, put)| found.as_f64() == Some(*put)), "{head:?}");
    assert_eq!(log[1]["requested"], json!(1.5), "framing goes on after it");
}

/// `dbpf` in the IOC's shell is a put from outside without a packet.
#[test]
fn the_ioc_shell_is_named_as_such() {
    let Some(rig) = Rig::new("puts-shell") else { return };
    let mut ioc = rig.ioc("puts", PORT, "puts.db", &[]);
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument()]);
    let mut client = rig.client("libca", &[PORT], &[]);
    rig.wait_until_recording(&mut client, "PUT:READY", "both");
    ioc.command("dbpf PUT:DOUBLE 17.5");
    assert!(recorder.stop().success(), "{}", recorder.errors());
    let log: Vec<Value> = rig.puts(&[]).into_iter().filter(|line| line["pv"] != "PUT:READY").collect();
    assert_eq!(log.len(), 1, "{log:?}");
    assert_eq!(log[0]["via"], "dbpf");
    assert_eq!(log[0]["record"], "PUT:DOUBLE");
    assert_eq!(log[0]["source"], "probe");
    assert_eq!(log[0]["new"], json!(17.5));
    assert!(log[0]["client"].is_null());
}
