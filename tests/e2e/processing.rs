//! The traces name every way in which a record can process, and distinguish skipped from processed records
//! (tests/rig/processing.db).

use crate::rig::spans::{shape, spans, Span};
use crate::rig::{epics_versions, iocreplay, wait_until, Rig};
use serde_json::{json, Value};
use std::process::Command;

const PORT: u16 = 5074;

/// DBR types, the protocol's numbers.
const ENUM: u16 = 3;
const DOUBLE: u16 = 6;

/// Each processing of a record, in the order of time.
struct Processing<'a> {
    spans: &'a [Span],
    of: Vec<&'a Span>,
}

fn processing<'a>(spans: &'a [Span], record: &str) -> Processing<'a> {
    let found = Processing::of(spans, record);
    assert!(!found.of.is_empty(), "{record} never processes");
    found
}

impl<'a> Processing<'a> {
    fn of(spans: &'a [Span], record: &str) -> Processing<'a> {
        let name = format!("process {record}");
        Processing { spans, of: spans.iter().filter(|span| span.name == name).collect() }
    }

    /// An attribute of each.
    fn all(&self, key: &str) -> Vec<&str> {
        self.of.iter().map(|span| span.attributes.get(key).and_then(Value::as_str).unwrap_or("")).collect()
    }

    fn triggers(&self) -> Vec<&str> {
        self.all("epics.process.trigger")
    }

    fn threads(&self) -> Vec<&str> {
        self.all("thread.name")
    }

    /// Outcomes; empty for a record that simply processed.
    fn outcomes(&self) -> Vec<&str> {
        self.all("epics.process.outcome")
    }

    /// Names of the parents; empty for a root.
    fn parents(&self) -> Vec<&str> {
        let parent = |span: &&Span| self.spans.iter().find(|parent| parent.id == span.parent);
        self.of.iter().map(|span| parent(span).map_or("", |parent| parent.name.as_str())).collect()
    }
}

#[test]
fn what_set_a_record_off_is_named() {
    every_way("processing", &[], "ring", ("CP", "dbCaLink"));
}

#[test]
fn what_set_a_record_off_is_named_over_perf_buffers() {
    every_way("processing-perf", &[], "perf", ("CP", "dbCaLink"));
}

#[test]
fn what_set_a_record_off_is_named_in_the_earliest_base_too() {
    if let Some(earliest) = epics_versions().first() {
        every_way("processing-earliest", &["--epics", earliest], "ring", ("once", "scanOnce"));
    }
}

/// `cp`: the trigger and the thread of a CP link in that version of Base.
fn every_way(name: &str, options: &[&str], tier: &str, cp: (&str, &str)) {
    let Some(rig) = Rig::new(name) else { return };
    let ioc = rig.ioc_with("processing", PORT, "processing.db", options);
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument(), "--tier", tier]);
    let mut client = rig.client("libca", &[PORT], &[]);
    rig.wait_until_recording(&mut client, "PROC:READY", "both");
    client.put("PROC:PASSIVE", DOUBLE, json!(1.0), false);
    client.put("PROC:POST.PROC", ENUM, json!(1), true);
    client.put("PROC:SOURCE", DOUBLE, json!(2.0), false);
    wait_until("the CP link", || client.get("PROC:WATCHES") == json!(4.0));
    client.put("PROC:PULSE", ENUM, json!(1), false);
    wait_until("the end of the pulse", || client.get("PROC:PULSE") == json!(0));
    // The second finds the record active, and has it process once more when it is done.
    client.put("PROC:ASYNC.A", DOUBLE, json!(3.0), false);
    client.put("PROC:ASYNC.A", DOUBLE, json!(4.0), false);
    wait_until("the last of it", || client.get("PROC:ASYNCDONE") == json!(5.0));
    client.put("PROC:TODISABLED", DOUBLE, json!(4.0), false);
    client.put("PROC:TODISABLED", DOUBLE, json!(5.0), false);
    client.put("PROC:TODISABLED", DOUBLE, json!(6.0), true);
    client.put("PROC:LOOP", DOUBLE, json!(6.0), true);
    client.put("PROC:SEQ.PROC", ENUM, json!(1), true);
    client.put("PROC:READS.PROC", ENUM, json!(1), true);
    wait_until("the log has the scans, and the record that is disabled", || {
        let spans = spans(&rig);
        let of = |record: &str| Processing::of(&spans, record);
        let last = of("PROC:READEND").of.len() + of("PROC:SEQEND").of.len();
        let disabled = of("PROC:DISABLED").outcomes().last() == Some(&"disabled");
        of("PROC:FAST").of.len() >= 5 && !of("PROC:SLOWER").of.is_empty() && last == 2 && disabled
    });
    assert!(recorder.stop().success(), "{}", recorder.errors());

    let spans = spans(&rig);
    let of = |record: &str| processing(&spans, record);
    assert_eq!(of("PROC:PASSIVE").triggers(), ["put"]);
    assert_eq!(of("PROC:PASSIVE").parents(), ["caput PROC:PASSIVE"]);
    assert_eq!(of("PROC:FORWARD").triggers(), ["FLNK"]);
    assert_eq!(of("PROC:FORWARD").parents(), ["process PROC:PASSIVE"]);

    // Scanned: each a root, in the thread of its period.
    for (record, thread, least) in [("PROC:FAST", "scan-0.2", 5), ("PROC:SLOWER", "scan-1", 1)] {
        let scans = of(record);
        assert!(scans.of.len() >= least, "{record}: {}", scans.of.len());
        assert!(scans.triggers().iter().all(|trigger| *trigger == "scan"), "{:?}", scans.triggers());
        assert!(scans.threads().iter().all(|name| *name == thread), "{:?}", scans.threads());
        assert!(scans.parents().iter().all(|parent| parent.is_empty()), "{:?}", scans.parents());
    }
    assert_eq!(of("PROC:EVENTED").triggers(), ["event"]);
    assert_eq!(of("PROC:EVENTED").parents(), ["process PROC:POST"]);

    // The CP link, and what follows from it.
    assert_eq!(of("PROC:WATCHES").triggers(), [cp.0]);
    assert_eq!(of("PROC:WATCHES").threads(), [cp.1]);
    assert_eq!(of("PROC:WATCHED").parents(), ["process PROC:WATCHES"]);
    let why = rig.why("PROC:WATCHED");
    let why = String::from_utf8_lossy(&why.stdout);
    assert!(why.contains("Cause: CP link PROC:WATCHES.INPA from PROC:SOURCE\n"), "{why}");

    // A bo's HIGH is a delayed callback of the record itself.
    assert_eq!(of("PROC:PULSE").triggers(), ["put", "callback"]);
    assert_eq!(of("PROC:PULSE").parents(), ["caput PROC:PULSE", "process PROC:PULSE"]);

    // Completed in another thread; the put that found it busy set it off once more.
    let asynchronous = of("PROC:ASYNC");
    assert_eq!(asynchronous.triggers(), ["put", "once"]);
    assert_eq!(asynchronous.threads(), ["CAS-client", "scanOnce"]);
    assert_eq!(asynchronous.parents(), ["caput PROC:ASYNC.A"; 2]);
    assert_ne!(asynchronous.of[0].parent, asynchronous.of[1].parent);
    assert_eq!(of("PROC:ASYNCDONE").parents(), ["process PROC:ASYNC"; 2]);

    // Skipped: the disabled one is known as such once it was not active when it was tried again, or when the
    // recorder has looked at it; a loop ends at the record that is active already.
    assert_eq!(of("PROC:DISABLED").triggers(), ["FLNK"; 3]);
    assert_eq!(of("PROC:DISABLED").outcomes(), ["skipped", "skipped", "disabled"]);
    assert_eq!(of("PROC:LOOP").outcomes(), ["", "active already"]);
    assert_eq!(of("PROC:LOOP").triggers(), ["put", "FLNK"]);
    assert_eq!(of("PROC:LOOPED").outcomes(), [""]);
    // Delayed groups belong to their sequence; a record that another reads from was not put to.
    let chain = |root: &str| {
        let root = spans.iter().find(|span| span.name == root && span.parent.is_empty());
        shape(&spans, root.expect("the put"))
    };
    assert_eq!(
        chain("caput PROC:SEQ.PROC"),
        "caput PROC:SEQ.PROC\n  process PROC:SEQ\n    process PROC:SEQ1\n      process PROC:SEQ1AFTER\n    \
         process PROC:SEQ2\n    process PROC:SEQ3\n    process PROC:SEQEND\n"
    );
    // which has no OUT
    for record in ["PROC:SEQ1", "PROC:SEQ2", "PROC:SEQ3"] {
        assert_eq!(of(record).triggers(), ["LNKn"], "{record}");
    }
    let links = Command::new(iocreplay()).args(["graph", &rig.log()]).output().expect("iocreplay runs");
    let links = String::from_utf8_lossy(&links.stdout).into_owned();
    assert!(links.contains("PROC:SEQ --LNKn--> PROC:SEQ1 "), "{links}");
    assert!(!links.contains("PROC:SEQ --OUT-->"), "{links}");
    // it reads, and writes nothing
    assert_eq!(of("PROC:READ").triggers(), ["INP"]);
    assert!(links.contains("PROC:READS --INP--> PROC:READ "), "{links}");
    assert!(!links.contains("PROC:READS --OUT-->"), "{links}");
    assert_eq!(
        chain("caput PROC:READS.PROC"),
        "caput PROC:READS.PROC\n  process PROC:READS\n    request process PROC:READ\n      \
         process PROC:READ\n    process PROC:READEND\n"
    );
    assert_eq!(rig.puts(&["--all", "--pv", "PROC:READ"]), [] as [Value; 0]);
    let text = rig.replay("traces", &["--pv", "PROC:*"]);
    let text = String::from_utf8_lossy(&text.stdout);
    for part in [
        "scan .2 second",
        "scan 1 second",
        "skipped: disabled",
        "active already: nothing done",
        "asynchronous",
    ] {
        assert!(text.contains(part), "no {part:?} in: {text}");
    }
}

/// I/O Intr: records whose values are Python's.
#[test]
fn interrupts_are_distinguished_from_events() {
    let Some(rig) = Rig::new("processing-python") else { return };
    let mut ioc = rig.python_ioc("python", PORT);
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument()]);
    let mut client = rig.client("libca", &[PORT], &[]);
    rig.wait_until_recording(&mut client, "PY:READY", "both");
    for value in [4.5, 5.5] {
        ioc.command(&format!("PY:IN {value}"));
        wait_until("the interrupt", || client.get("PY:IN") == json!(value));
    }
    client.put("PY:BUSY", DOUBLE, json!(5.5), true);
    assert!(recorder.stop().success(), "{}", recorder.errors());
    let spans = spans(&rig);
    let interrupts = processing(&spans, "PY:IN");
    // By I/O Intr, which Python code has asked for.
    assert_eq!(interrupts.triggers(), ["python"; 2]);
    assert_eq!(interrupts.parents(), [""; 2]);
    // Its Python code takes 0.2 s.
    let busy = processing(&spans, "PY:BUSY");
    assert_eq!(busy.triggers(), ["put"]);
    assert!(busy.of[0].end - busy.of[0].start >= 190_000_000, "asynchronous");
}
