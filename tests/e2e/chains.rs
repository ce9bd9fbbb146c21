//! Process chains: the log has the trees that the databases define (tests/rig/first.db and second.db), over both
//! transports.

use crate::rig::spans::{shape, spans, Span};
use crate::rig::{check_script, wait_until, Client, Ioc, Rig};
use serde_json::json;
use std::collections::BTreeMap;
use std::fs;
use std::thread;
use std::time::Duration;

const FIRST: u16 = 5074;
const SECOND: u16 = 5084;

/// What a put to ONE:SP sets off.
const PUT_TO_SP: &str = "\
caput ONE:SP
  process ONE:SP
    process ONE:CALC
      process ONE:FAN
        process ONE:A
          process ONE:A1
        process ONE:B
        process ONE:SLOW
          process ONE:LATE
          process ONE:AFTERSLOW
        process ONE:LINK
          caputlink TWO:SP
            caput TWO:SP
              process TWO:SP
                process TWO:CALC
                  process TWO:END
    process ONE:LAST
";

/// A record whose input processes another.
const PUT_TO_PULL: &str = "\
caput ONE:PULL.PROC
  process ONE:PULL
    process ONE:PULLED
";

const SCAN: &str = "\
process ONE:TICK
  process ONE:TOCK
";

/// Waits until everything that a put to ONE:SP sets off is done.
fn wait_for_chain(client: &mut Client, value: f64) {
    for (pv, due) in [("ONE:LATE", value * 2.0), ("TWO:CALC", value * 2.0 + 100.0)] {
        wait_until(pv, || client.get(pv) == json!(due));
    }
}

struct Scene {
    rig: Rig,
    first: Ioc,
    second: Ioc,
    client: Client,
}

/// Both IOCs, connected by their CA link.
fn scene(name: &str) -> Option<Scene> {
    let rig = Rig::new(name)?;
    let second = rig.ioc("second", SECOND, "second.db", &[]);
    let first = rig.ioc("first", FIRST, "first.db", &[SECOND]);
    let mut client = rig.client("libca", &[FIRST, SECOND], &[]);
    // Once the CA link has carried a value, it carries all.
    wait_until("the CA link is connected", || {
        client.put("ONE:LINK.PROC", 5, json!(1), false);
        thread::sleep(Duration::from_millis(100));
        client.get("TWO:CALC") == json!(100.0)
    });
    Some(Scene { rig, first, second, client })
}

fn trees_over(tier: &str) {
    let Some(mut scene) = scene(&format!("trees-{tier}")) else { return };
    let pids = [scene.first.pid_argument(), scene.second.pid_argument()];
    let mut recorder = scene.rig.record(&["--pid", &pids[0], "--pid", &pids[1], "--tier", tier]);
    scene.rig.wait_until_recording(&mut scene.client, "ONE:READY", "both");
    scene.rig.wait_until_recording(&mut scene.client, "TWO:READY", "both");
    let mut caproto = scene.rig.client("caproto", &[FIRST], &[]);
    for (value, notify) in [(1.0, false), (2.0, true), (3.0, false)] {
        scene.client.put("ONE:SP", 6, json!(value), notify);
        wait_for_chain(&mut scene.client, value);
    }
    caproto.put("ONE:SP", 6, json!(4.0), true);
    wait_for_chain(&mut scene.client, 4.0);
    scene.client.put("ONE:PULL.PROC", 5, json!(1), true);
    scene.first.command("dbpf ONE:SP 5");
    wait_for_chain(&mut scene.client, 5.0);
    assert!(recorder.stop().success(), "{}", recorder.errors());

    let spans = spans(&scene.rig);
    let roots = |name: &str| {
        let is_root = |span: &&Span| span.parent.is_empty() && span.name == name;
        spans.iter().filter(is_root).map(|root| shape(&spans, root)).collect::<Vec<_>>()
    };
    assert_eq!(roots("caput ONE:SP"), [PUT_TO_SP; 4]);
    assert_eq!(roots("caput ONE:PULL.PROC"), [PUT_TO_PULL]);
    // The shell's put has no client, and sets off the same.
    let below = |shape: &str| shape.lines().skip(1).map(|line| format!("{line}\n")).collect::<String>();
    let shell: Vec<String> = spans
        .iter()
        .filter(|span| span.parent.is_empty() && span.name.starts_with("put ONE:SP"))
        .map(|root| below(&shape(&spans, root)))
        .collect();
    assert_eq!(shell, [below(PUT_TO_SP)]);

    // Ten times a second, each a root of its own. The first and the last may be cut by the recording.
    let scans = roots("process ONE:TICK");
    assert!(scans.len() >= 10, "only {} scans", scans.len());
    assert!(scans[1..scans.len() - 1].iter().all(|scan| scan == SCAN), "{scans:?}");
    assert!(roots("process ONE:TOCK").len() <= 1, "the forward link's record is never alone");

    // An asynchronous record is one span that lasts until its completion (ODLY is 0.2 s).
    let slow: Vec<&Span> = spans.iter().filter(|span| span.name == "process ONE:SLOW").collect();
    assert_eq!(slow.len(), 5);
    for span in slow {
        assert!(span.end - span.start >= 190_000_000, "{} ns", span.end - span.start);
        let late = spans.iter().find(|late| late.name == "process ONE:LATE" && late.start > span.start);
        assert!(late.is_some_and(|late| late.start - span.start >= 190_000_000), "set off by the completion");
    }

    well_formed(&spans);
    values_are_right(&spans);
    let files = ["otlp", "otlp-proto", "otlp-proto-delimited"].map(|format| {
        let file = scene.rig.path(&format!("traces.{format}"));
        let output = scene.rig.replay("traces", &["--format", format]);
        fs::write(&file, &output.stdout).expect("the traces are written");
        file
    });
    let checked = check_script("replay/tests/check_otlp.py", &files.each_ref().map(|file| file.as_str()));
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
}

/// Checks that ids are unique, and that parents exist, are in the same trace, and began no later.
fn well_formed(spans: &[Span]) {
    let by_id: BTreeMap<&str, &Span> = spans.iter().map(|span| (span.id.as_str(), span)).collect();
    assert_eq!(by_id.len(), spans.len(), "a span id twice");
    for span in spans {
        assert!(span.id.len() == 16 && span.trace.len() == 32, "{}", span.name);
        assert!(span.start <= span.end, "{} ends before it starts", span.name);
        if !span.parent.is_empty() {
            let parent =
                by_id.get(span.parent.as_str()).unwrap_or_else(|| panic!("{}: no parent", span.name));
            assert_eq!(parent.trace, span.trace, "{} in another trace than its parent", span.name);
            assert!(parent.start <= span.start, "{} before its parent", span.name);
        }
    }
}

/// Checks the records' values at the end of their processing.
fn values_are_right(spans: &[Span]) {
    let value = |name: &str| {
        let of = spans.iter().filter(|span| span.name == name);
        of.map(|span| span.attributes["epics.record.value"].clone()).collect::<Vec<_>>()
    };
    let times = |of: &dyn Fn(f64) -> f64| [1.0, 2.0, 3.0, 4.0, 5.0].map(|put| json!(of(put)));
    assert_eq!(value("process ONE:SP"), times(&|put| put));
    assert_eq!(value("process ONE:CALC"), times(&|put| put * 2.0));
    assert_eq!(value("process ONE:A1"), times(&|put| put * 2.0 + 2.0));
    assert_eq!(value("process ONE:SLOW"), times(&|put| put * 2.0));
    assert_eq!(value("process TWO:CALC"), times(&|put| put * 2.0 + 100.0));
}

#[test]
fn trees_are_what_the_databases_define_over_the_ring_buffer() {
    trees_over("ring");
}

#[test]
fn trees_are_what_the_databases_define_over_perf_buffers() {
    trees_over("perf");
}

/// `why` follows a value from the end of the chain back to the client, across IOCs.
#[test]
fn why_names_the_client_at_the_head_of_the_chain() {
    let Some(mut scene) = scene("why") else { return };
    let pids = [scene.first.pid_argument(), scene.second.pid_argument()];
    let mut recorder = scene.rig.record(&["--pid", &pids[0], "--pid", &pids[1]]);
    scene.rig.wait_until_recording(&mut scene.client, "ONE:READY", "both");
    wait_until("both are recorded", || recorder.errors().matches("recording ").count() == 2);
    let mut operator = scene.rig.client("libca", &[FIRST], &["--uid", "65534", "--host", "console-3"]);
    let address = operator.connect("ONE:SP");
    operator.put("ONE:SP", 6, json!(7.0), false);
    wait_for_chain(&mut scene.client, 7.0);
    assert!(recorder.stop().success(), "{}", recorder.errors());
    for (pv, records) in [
        ("ONE:A1", &["ONE:SP", "ONE:CALC", "ONE:FAN", "ONE:A"][..]),
        ("ONE:AFTERSLOW", &["ONE:SP", "ONE:CALC", "ONE:FAN", "ONE:SLOW"]),
        ("TWO:END", &["ONE:SP", "ONE:CALC", "ONE:FAN", "ONE:LINK", "TWO:SP", "TWO:CALC"]),
    ] {
        let output = scene.rig.why(pv);
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        for word in records.iter().chain(&[pv, "nobody", "console-3", &address]) {
            assert!(text.contains(word), "why {pv}: no {word:?} in: {text}");
        }
        assert!(
            !text.contains("ONE:B") && !text.contains("ONE:LAST"),
            "why {pv} names unrelated records: {text}"
        );
    }
    // A scanned record's cause is its scan.
    let text = String::from_utf8_lossy(&scene.rig.why("ONE:TOCK").stdout).into_owned();
    assert!(text.contains("ONE:TICK") && text.contains("scan"), "{text}");
}
