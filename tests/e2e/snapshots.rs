//! Snapshots: what the recorder reads of all records is what the IOC holds, each segment begins with it, and it takes no more
//! of the disk than it may.

use crate::rig::own_program::{Build, Own};
use crate::rig::{epics_versions, iocreplay, python, rig_file, run, wait_until, Client, Ioc, Rig, IOCREC};
use iocrec::ioc::locks::{locks, Lock};
use iocrec::ioc::{records, Finder};
use iocrec_log::event::{
    AlarmLimit, Array, Dbf, Event, Fact, Limits, Properties, Snapshot, SnapshotEnd, Value,
};
use iocrec_log::reader::{find, Segment};
use iocrec_log::writer::packed_size;
use serde_json::json;
use std::collections::HashMap;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const PORT: u16 = 5074;
/// DBR types, the protocol's numbers.
const STRING: u16 = 0;
const CHAR: u16 = 4;
const LONG: u16 = 5;
const DOUBLE: u16 = 6;

const LONG_TEXT: &str = "a text that is longer than the forty bytes of an ordinary string";

/// What one segment holds beside its keyframe, and the names of all records.
struct Read {
    segments: Vec<Vec<Event>>,
    /// By number.
    names: HashMap<u32, String>,
}

impl Read {
    /// The log as far as it can be read now.
    fn of(rig: &Rig) -> Read {
        let mut read = Read { segments: Vec::new(), names: HashMap::new() };
        for file in find(Path::new(&rig.log())).unwrap_or_default() {
            let Ok(mut segment) = Segment::open(&file.path) else { continue };
            let mut events = Vec::new();
            while let Some(Ok(block)) = segment.next_block() {
                for event in &block.events {
                    if let Fact::Record(record) = &event.fact {
                        read.names.insert(record.id, record.name.clone());
                    }
                }
                if !block.keyframe {
                    events.extend(block.events);
                }
            }
            read.segments.push(events);
        }
        read
    }

    fn facts(&self) -> impl Iterator<Item = &Fact> {
        self.segments.iter().flatten().map(|event| &event.fact)
    }

    fn ends(&self) -> Vec<SnapshotEnd> {
        self.facts()
            .filter_map(|fact| if let Fact::SnapshotEnd(end) = fact { Some(*end) } else { None })
            .collect()
    }

    /// The first snapshot of each record.
    fn snapshots(&self) -> HashMap<&str, Snapshot> {
        let mut found = HashMap::new();
        for fact in self.facts() {
            if let Fact::Snapshot(snapshot) = fact {
                found.entry(self.names[&snapshot.record].as_str()).or_insert_with(|| snapshot.clone());
            }
        }
        found
    }

    fn properties(&self) -> HashMap<&str, &Properties> {
        let properties = self.facts().filter_map(|fact| match fact {
            Fact::Properties(properties) => {
                Some((self.names[&properties.record].as_str(), properties.as_ref()))
            }
            _ => None,
        });
        properties.collect()
    }
}

/// Waits for the first whole snapshot.
fn wait_for_snapshot(rig: &Rig) -> Read {
    wait_until("the log has a snapshot", || !Read::of(rig).ends().is_empty());
    Read::of(rig)
}

/// Compares a record's value, severity and status with what a client gets. Enums as numbers.
fn compare(client: &mut Client, name: &str, snapshot: &Snapshot) {
    let got = client.get(name);
    let same = match &snapshot.value {
        Value::Int(value) => got.as_f64() == Some(*value as f64),
        Value::UInt(value) => got.as_f64() == Some(*value as f64),
        Value::Double(value) => got.as_f64() == Some(*value),
        Value::Float(value) => got.as_f64() == Some(f64::from(*value)),
        // Channel Access cuts it
        Value::Text(text) => got.as_str().unwrap_or_default().as_bytes() == &text[..text.len().min(39)],
        Value::Array(_) | Value::Unknown => true,
    };
    assert!(same, "{name}: {:?} in the log, {got} by Channel Access", snapshot.value);
    let alarm = [client.get(&format!("{name}.SEVR")), client.get(&format!("{name}.STAT"))];
    assert_eq!([json!(snapshot.severity), json!(snapshot.status)], alarm, "{name}");
}

fn start(rig: &Rig) -> (Ioc, Client) {
    let ioc = rig.ioc("snapshots", PORT, "snapshots.db", &[]);
    let mut client = rig.client("libca", &[PORT], &[]);
    let array: Vec<i32> = (0..5000).collect();
    client.put("SNAP:ARRAY", LONG, json!(array), true);
    let text: Vec<u8> = LONG_TEXT.bytes().chain([0]).collect();
    client.put("SNAP:LONGTEXT.VAL$", CHAR, json!(text), true);
    (ioc, client)
}

fn values(tier: &str) {
    let Some(rig) = Rig::new(&format!("snapshots-{tier}")) else { return };
    let (ioc, mut client) = start(&rig);
    let mut agent = rig.record(&[
        "--pid",
        &ioc.pid_argument(),
        "--tier",
        tier,
        "--only",
        "SNAP:*",
        "--exclude",
        "SNAP:READY",
    ]);
    let read = wait_for_snapshot(&rig);
    let status = run(Command::new(IOCREC).args(["status", "--dir", &rig.log(), "--json"]));
    let status: serde_json::Value = serde_json::from_slice(&status.stdout).expect("JSON");
    assert!(agent.stop().success(), "{}", agent.errors());

    let snapshots = read.snapshots();
    let mut found: Vec<&str> = snapshots.keys().copied().collect();
    found.sort_unstable();
    let expected = [
        "ALARM", "ARRAY", "COPY", "EMPTY", "ENUM", "FAST", "FIRST", "INT64", "LONG", "LONGTEXT", "NEVER",
        "NONE", "PARITY", "TEXT",
    ];
    assert_eq!(found, expected.map(|name| format!("SNAP:{name}")), "those that are wanted, and no others");
    let [end] = read.ends()[..] else { panic!("{:?}", read.ends()) };
    assert_eq!((end.taken, end.unread, end.left, end.properties_left), (14, 0, 0, 0));
    assert_eq!(
        (&status["snapshots"]["values"], &status["snapshots"]["last"]["taken"]),
        (&json!(14), &json!(14))
    );
    let info: serde_json::Value =
        serde_json::from_slice(&rig.replay("info", &["--json"]).stdout).expect("JSON");
    let last = &info["runs"][0]["iocs"][0]["snapshots"];
    assert_eq!((&last["count"], &last["taken"], &last["left"]), (&json!(1), &json!(14), &json!(0)), "{info}");
    for (name, snapshot) in &snapshots {
        compare(&mut client, name, snapshot);
    }
    let of = |name: &str| snapshots[name].clone();
    let value = |name: &str| of(name).value;
    assert_eq!(value("SNAP:NEVER"), Value::Double(0.0));
    assert_eq!(value("SNAP:FIRST"), Value::Double(12.5));
    assert_eq!(value("SNAP:TEXT"), Value::Text(b"at first".to_vec()));
    assert_eq!(value("SNAP:ENUM"), Value::Int(2));
    assert_eq!(value("SNAP:LONG"), Value::Int(-7));
    assert_eq!(value("SNAP:INT64"), Value::Int(9_007_199_254_740_993));
    assert_eq!(value("SNAP:LONGTEXT"), Value::Text(LONG_TEXT.into()));
    let bytes = (0..1024).flat_map(i32::to_le_bytes).collect();
    assert_eq!(value("SNAP:ARRAY"), Value::Array(Array { dbf: Dbf::Long, count: 5000, bytes }));
    let empty = Array { dbf: Dbf::Double, count: 0, bytes: Vec::new() };
    assert_eq!(value("SNAP:EMPTY"), Value::Array(empty));
    // INVALID, UDF; then MINOR, HIGH
    assert_eq!((of("SNAP:NEVER").severity, of("SNAP:NEVER").status), (3, 17));
    assert_eq!((of("SNAP:ALARM").severity, of("SNAP:ALARM").status), (1, 4));
    assert_eq!((value("SNAP:ALARM"), of("SNAP:NEVER").stamp), (Value::Double(7.0), None));
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_nanos() as i64;
    let age = now - of("SNAP:ALARM").stamp.expect("it was processed");
    assert!((0..120_000_000_000).contains(&age), "{age} ns ago");

    let properties = read.properties();
    let limit = |limit, severity| Some(AlarmLimit { limit, severity });
    let of_never = Properties {
        record: of("SNAP:NEVER").record,
        description: "current of <magnet> 1".into(),
        units: "A".into(),
        precision: Some(3),
        display: Some(Limits { low: -10.0, high: 120.5 }),
        control: Some(Limits { low: -5.0, high: 115.0 }),
        lolo: None,
        low: None,
        high: limit(100.0, 1),
        hihi: limit(110.0, 2),
    };
    assert_eq!(properties["SNAP:NEVER"], &of_never);
    let of_long = properties["SNAP:LONG"];
    assert_eq!((of_long.units.as_str(), of_long.precision, of_long.low), ("counts", None, limit(-8.0, 3)));
    // an f64 cannot hold the limit of SNAP:INT64
    let mut with: Vec<&str> = properties.keys().copied().collect();
    with.sort_unstable();
    assert_eq!(with, ["SNAP:ALARM", "SNAP:COPY", "SNAP:LONG", "SNAP:NEVER", "SNAP:PARITY"]);
}

/// A value has the units that its record had then: a put to EGU counts at once, not from the next snapshot on.
#[test]
fn units_change_with_puts() {
    let Some(rig) = Rig::new("snapshots-units") else { return };
    let (ioc, mut client) = start(&rig);
    let mut agent = rig.record(&["--pid", &ioc.pid_argument(), "--only", "SNAP:NEVER"]);
    wait_for_snapshot(&rig);
    client.put("SNAP:NEVER", DOUBLE, json!(1.5), true);
    client.put("SNAP:NEVER.EGU", STRING, json!("kA"), true);
    // the recorder reads the field after the put
    std::thread::sleep(Duration::from_secs(2));
    client.put("SNAP:NEVER", DOUBLE, json!(2.5), true);
    assert_eq!(client.get("SNAP:NEVER.EGU"), "kA");
    std::thread::sleep(Duration::from_secs(1));
    assert!(agent.stop().success(), "{}", agent.errors());
    let log = rig.log();
    let rows =
        run(Command::new(iocreplay()).args(["values", "SNAP:NEVER", &log, "--format", "jsonl"])).stdout;
    let rows = String::from_utf8(rows).expect("UTF-8");
    let rows = rows.lines().map(|row| serde_json::from_str::<serde_json::Value>(row).expect("JSON"));
    let told: Vec<_> = rows.filter(|row| row["value"] != 0.0).map(|row| row["units"].clone()).collect();
    assert_eq!(told, ["A", "kA"], "of 1.5 and of 2.5");
}

#[test]
fn snapshots_show_what_the_ioc_holds() {
    values("ring");
}

#[test]
fn snapshots_without_probes_show_what_the_ioc_holds() {
    values("packet");
}

#[test]
fn snapshots_of_every_version() {
    for version in epics_versions() {
        let Some(rig) = Rig::new(&format!("snapshots-{version}")) else { return };
        let _ioc = rig.ioc_with("generation", PORT, "versions.db", &["--epics", &version]);
        let mut client = rig.client("libca", &[PORT], &[]);
        client.put("GEN:SP", DOUBLE, json!(6.5), true);
        client.put("GEN:ARRAY", LONG, json!([4, -5]), true);
        let mut agent = rig.record(&["--pid", &_ioc.pid_argument()]);
        let read = wait_for_snapshot(&rig);
        assert!(agent.stop().success(), "{version}: {}", agent.errors());
        let (snapshots, end) = (read.snapshots(), read.ends()[0]);
        assert_eq!((end.taken as usize, end.unread, end.left), (snapshots.len(), 0, 0), "{version}");
        assert!(snapshots.contains_key("GEN:ENUM") && snapshots.contains_key("GEN:TEXT"), "{version}");
        for (name, snapshot) in &snapshots {
            compare(&mut client, name, snapshot);
        }
        let (sp, array) = (&snapshots["GEN:SP"], &snapshots["GEN:ARRAY"]);
        assert!((sp.value == Value::Double(6.5)) && sp.stamp.is_some(), "{version}: {sp:?}");
        let bytes = [4i32, -5].iter().flat_map(|element| element.to_le_bytes()).collect();
        let expected = Value::Array(Array { dbf: Dbf::Long, count: 2, bytes });
        assert_eq!(array.value, expected, "{version}");
    }
}

#[test]
fn snapshots_of_a_32_bit_ioc() {
    let Some(rig) = Rig::new("snapshots-32-bit") else { return };
    let Some(own) = Own::build(&rig, Build::Shared32) else { return };
    let ioc = own.start(&rig, PORT, "snapshots.db", &[]);
    let mut client = rig.client("libca", &[PORT], &[]);
    let mut agent = rig.record(&["--pid", &ioc.pid_argument()]);
    let read = wait_for_snapshot(&rig);
    assert!(agent.stop().success(), "{}", agent.errors());
    let snapshots = read.snapshots();
    assert_eq!(snapshots.len(), 16);
    for (name, snapshot) in &snapshots {
        compare(&mut client, name, snapshot);
    }
    assert_eq!(snapshots["SNAP:INT64"].value, Value::Int(9_007_199_254_740_993));
    assert_eq!(read.properties()["SNAP:NEVER"].hihi, Some(AlarmLimit { limit: 110.0, severity: 2 }));
}

#[test]
fn no_snapshots_if_nobody_wants_them() {
    let Some(rig) = Rig::new("no-snapshots") else { return };
    let (ioc, mut client) = start(&rig);
    let mut agent = rig.record(&["--pid", &ioc.pid_argument(), "--no-snapshots"]);
    rig.wait_until_recording(&mut client, "SNAP:READY", "both");
    // far longer than the first snapshot takes
    std::thread::sleep(Duration::from_secs(2));
    assert!(agent.stop().success(), "{}", agent.errors());
    let read = Read::of(&rig);
    assert!(read.names.len() > 10 && read.snapshots().is_empty() && read.ends().is_empty());
}

/// Snapshots of the records that a flood of puts changes, after their first change.
fn changing(read: &Read) -> Vec<&Snapshot> {
    let snapshots = read.facts().filter_map(|fact| match fact {
        Fact::Snapshot(snapshot) if snapshot.stamp.is_some() => Some(snapshot),
        _ => None,
    });
    let names = ["SNAP:PARITY", "SNAP:COPY", "TORN:SLOW"];
    snapshots.filter(|snapshot| names.contains(&read.names[&snapshot.record].as_str())).collect()
}

/// Small segments, each with a snapshot of its own, while records change without a pause. One of them (slow_ioc.py) has
/// its new value beside its old alarm for most of the time, and is not active then.
#[test]
fn each_segment_begins_with_a_snapshot_and_none_is_torn() {
    let Some(rig) = Rig::new("snapshots-torn") else { return };
    let mut command = python("slow_ioc.py");
    let ioc = rig.ioc_by("torn", command.arg("torn").arg(PORT.to_string()).arg(rig_file("snapshots.db")));
    let mut client = rig.client("libca", &[PORT], &[]);
    let mut flood = rig.client("libca", &[PORT], &[]);
    let pid = ioc.pid_argument();
    let mut agent = rig.record(&["--pid", &pid, "--max-disk", "1M"]);
    rig.wait_until_recording(&mut client, "SNAP:READY", "both");
    // no pause until the end
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                flood.flood("SNAP:FAST", 100);
            }
        });
        wait_until("the log has some segments", || {
            std::thread::sleep(Duration::from_millis(300));
            Read::of(&rig).segments.len() > 6
        });
        is_over.store(true, Ordering::Relaxed);
    });
    assert!(agent.stop().success(), "{}", agent.errors());
    let read = Read::of(&rig);
    let caught = changing(&read);
    for snapshot in &caught {
        let alarm = if snapshot.value == Value::Double(1.0) { (2, 4) } else { (0, 0) };
        let name = &read.names[&snapshot.record];
        assert_eq!((snapshot.severity, snapshot.status), alarm, "{name}: {snapshot:?}");
    }
    let of_snapshot =
        |events: &&Vec<Event>| events.iter().any(|event| matches!(event.fact, Fact::Snapshot(_)));
    let with = read.segments.iter().filter(of_snapshot).count();
    let ends = read.ends();
    let left_out: u32 = ends.iter().map(|end| end.unread).sum();
    println!(
        "{with} of {} segments have snapshots; {} of records that changed, {left_out} left out",
        read.segments.len(),
        caught.len()
    );
    assert!(caught.len() + left_out as usize >= 6, "records were read while they changed");
    // the last one may have been too short
    assert!(with + 1 >= read.segments.len(), "{with} of {}", read.segments.len());
    let all = read.names.len() as u32;
    for end in &ends {
        assert_eq!(end.taken + end.unread + end.left, all, "{end:?}");
    }
}

/// Ten thousand records in a small log: snapshots take no more than 2 % of it, and each record has its turn.
#[test]
fn snapshots_take_two_percent_at_most() {
    const RECORDS: usize = 10_000;
    const MAX_DISK: u64 = 3 << 20;
    let Some(rig) = Rig::new("snapshots-share") else { return };
    let mut records = String::new();
    for number in 0..RECORDS {
        let scan = if number < 500 { "field(SCAN, \".1 second\") field(CALC, \"RNDM\")" } else { "" };
        records += &format!("record(calc, \"MANY:{number}\") {{ field(EGU, \"unit{number}\") {scan} }}\n");
    }
    let database = rig.path("many.db");
    std::fs::write(&database, records).expect("the database");
    let ioc = rig.ioc("many", PORT, &database, &[]);
    let max_disk = MAX_DISK.to_string();
    let mut agent =
        rig.record(&["--pid", &ioc.pid_argument(), "--max-disk", &max_disk, "--time-step", "1ns"]);
    let status = || -> serde_json::Value {
        let status = run(Command::new(IOCREC).args(["status", "--dir", &rig.log(), "--json"]));
        serde_json::from_slice(&status.stdout).unwrap_or_default()
    };
    wait_until("the log has filled its cap", || {
        std::thread::sleep(Duration::from_millis(500));
        status()["disk"]["deleted"].as_u64() >= Some(1)
    });
    assert!(agent.stop().success(), "{}", agent.errors());
    let read = Read::of(&rig);
    let mut bytes = 0;
    for segment in &read.segments {
        let facts: Vec<Fact> =
            segment.iter().map(|event| event.fact.clone()).filter(is_of_snapshot).collect();
        bytes += facts.chunks(1000).map(packed_size).sum::<usize>();
    }
    let ends = read.ends();
    println!("{bytes} bytes of {} on disk; {ends:?}", rig.log_bytes());
    assert!(bytes > 1000 && bytes as u64 <= MAX_DISK / 50, "{bytes} bytes of snapshots");
    assert!(ends.iter().all(|end| end.left > 0), "they cannot all have had room: {ends:?}");
    // each begins where the one before ended
    let mut seen = HashMap::new();
    for fact in read.facts() {
        if let Fact::Snapshot(snapshot) = fact {
            *seen.entry(snapshot.record).or_insert(0) += 1;
        }
    }
    let most = seen.values().max().copied().unwrap_or(0);
    assert!(most == 1 || seen.len() > RECORDS / 2, "{} records, one of them {most} times", seen.len());
}

fn is_of_snapshot(fact: &Fact) -> bool {
    matches!(fact, Fact::Snapshot(_) | Fact::Properties(_) | Fact::SnapshotEnd(_))
}

/// The locks of the records are found in every version of Base: all free in an IOC at rest.
#[test]
fn locks_of_every_version_are_found() {
    for version in epics_versions() {
        let Some(rig) = Rig::new(&format!("snapshots-locks-{version}")) else { return };
        let ioc = rig.ioc_with("generation", PORT, "versions.db", &["--epics", &version]);
        assert_eq!(locks_of(&ioc), [Lock::Free], "{version}");
    }
    let Some(rig) = Rig::new("snapshots-locks-32-bit") else { return };
    let Some(own) = Own::build(&rig, Build::Shared32) else { return };
    let ioc = own.start(&rig, PORT, "snapshots.db", &[]);
    assert_eq!(locks_of(&ioc), [Lock::Free]);
}

/// The states that an IOC's locks are in.
fn locks_of(ioc: &Ioc) -> Vec<Lock> {
    let process = Finder::default().look(ioc.pid()).expect("it can be read").expect("an IOC");
    let layout = process.layout.expect("its layout");
    let mut records = Vec::new();
    records::walk(&process.memory, &layout, &mut |record| records.push(record.address)).expect("all records");
    let mut states = Vec::new();
    wait_until("the IOC is at rest", || {
        states = locks(&process.memory, &layout, &records);
        states.dedup();
        states.len() == 1
    });
    states
}
