//! Chain sampling leaves out whole chains and counts them, and keeps puts with everything that they cause.

use crate::rig::spans::{shape, spans, Span};
use crate::rig::{wait_until, Rig};
use serde_json::{json, Value};
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

const PORT: u16 = 5074;
/// DBR types, the protocol's numbers.
const ENUM: u16 = 3;
const DOUBLE: u16 = 6;

const CHAINS: usize = 20;
const PUTS: usize = 40;

/// Chains scanned at 10 Hz, each with an output link and an asynchronous record, whose values count the scans; and a record
/// for puts.
fn database() -> String {
    let chain = |n: usize| {
        format!(
            r#"
record(calc, "THIN:A{n}") {{
    field(SCAN, ".1 second")
    field(INPA, "THIN:A{n}")
    field(CALC, "A+1")
    field(FLNK, "THIN:B{n}")
}}
record(calcout, "THIN:B{n}") {{
    field(INPA, "THIN:A{n}")
    field(CALC, "A")
    field(OUT, "THIN:C{n} PP")
    field(FLNK, "THIN:D{n}")
}}
record(ao, "THIN:C{n}") {{}}
record(calcout, "THIN:D{n}") {{
    field(CALC, "1")
    field(ODLY, "0.02")
    field(FLNK, "THIN:E{n}")
}}
record(ai, "THIN:E{n}") {{}}
"#
        )
    };
    let for_puts = r#"
record(ao, "THIN:SP") {
    field(FLNK, "THIN:SLOW")
}
record(calcout, "THIN:SLOW") {
    field(CALC, "1")
    field(ODLY, "0.01")
    field(FLNK, "THIN:PUTDONE")
}
record(ai, "THIN:PUTDONE") {}
"#;
    (0..CHAINS).map(chain).chain([for_puts.to_string()]).collect()
}

fn whole_chain(n: usize) -> String {
    format!(
        "process THIN:A{n}\n  process THIN:B{n}\n    process THIN:C{n}\n    process THIN:D{n}\n      \
         process THIN:E{n}\n"
    )
}

const WHOLE_PUT: &str = "\
caput THIN:SP
  process THIN:SP
    process THIN:SLOW
      process THIN:PUTDONE
";

fn value(span: &Span) -> f64 {
    let value = span.attributes.get("epics.record.value").unwrap_or(&Value::Null);
    value.as_str().and_then(|text| text.parse().ok()).or(value.as_f64()).expect("a value")
}

fn thinned_on(tier: &str) {
    let Some(rig) = Rig::new(&format!("thinning-{tier}")) else { return };
    let path = rig.path("thinning.db");
    fs::write(&path, database()).expect("the database");
    let ioc = rig.ioc("thinning", PORT, &path, &[]);
    let mut client = rig.client("libca", &[PORT], &[]);
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument(), "--tier", tier, "--thin", "1"]);
    let begun = Instant::now();
    rig.wait_until_recording(&mut client, "THIN:SP", "both");
    let before = rig.puts(&["--pv", "THIN:SP"]).len();
    for number in 0..PUTS {
        client.put("THIN:SP", DOUBLE, json!(number), number % 2 == 0);
        thread::sleep(Duration::from_millis(60));
    }
    let seconds = begun.elapsed().as_secs_f64();
    // stops the scans, so that all chains can be counted
    let last: Vec<f64> = (0..CHAINS)
        .map(|n| {
            client.put(&format!("THIN:A{n}.SCAN"), ENUM, json!(0), true);
            client.get(&format!("THIN:A{n}")).as_f64().expect("a number")
        })
        .collect();
    // those that have begun end
    let ends = (0..CHAINS).map(|n| format!("THIN:D{n}")).chain(["THIN:SLOW".to_string()]);
    for record in ends {
        wait_until(&record, || client.get(&format!("{record}.PACT")) == json!(0));
    }
    assert_eq!(recorder.stop().code(), Some(0));

    let spans = spans(&rig);
    let mut kept = 0;
    let mut begun_chains = 0.0;
    for (n, last) in last.iter().enumerate() {
        let name = format!("process THIN:A{n}");
        let of: Vec<&Span> = spans.iter().filter(|span| span.name == name).collect();
        assert!(of.len() >= 2 && of.len() as f64 <= seconds + 3.0, "{} of {name} in {seconds} s", of.len());
        for span in &of {
            assert_eq!(shape(&spans, span), whole_chain(n));
        }
        kept += of.len();
        begun_chains += last - value(of[0]) + 1.0;
    }
    // the log has nothing of other chains, except the ends of those that had begun before the recording
    let first =
        spans.iter().filter(|span| span.name.starts_with("process THIN:A")).map(|span| span.start).min();
    for letter in ["B", "C", "D", "E"] {
        let name = format!("process THIN:{letter}");
        let of = spans.iter().filter(|span| span.name.starts_with(&name) && Some(span.start) >= first);
        assert_eq!(of.count(), kept, "{name}");
    }
    // the packet of the first put may be missing
    let puts: Vec<&Span> = spans.iter().filter(|span| span.name.ends_with("put THIN:SP")).collect();
    assert!(puts.len() >= before + PUTS, "{} puts, {before} before", puts.len());
    for put in puts.iter().rev().take(PUTS) {
        assert_eq!(shape(&spans, put), WHOLE_PUT);
    }
    let info = rig.replay("info", &["--json"]);
    let info: Value = serde_json::from_slice(&info.stdout).expect("JSON");
    let run = &info["runs"][0];
    assert_eq!(run["losses"], json!([]), "the count is right only where nothing was lost");
    let left_out = run["thinned"]["chains"].as_f64().expect("a number of chains");
    assert_eq!(left_out + kept as f64, begun_chains, "{left_out} left out, {kept} kept");
    assert_eq!(run["thinned"]["records"], json!(CHAINS));
    assert_eq!(run["thinning"]["chains"], json!(1));
    let text = String::from_utf8(rig.replay("info", &[]).stdout).expect("text");
    assert!(text.contains(&format!("thinned   {left_out} chains of {CHAINS} records")), "{text}");
}

#[test]
fn whole_chains_are_left_out_and_counted() {
    thinned_on("ring");
}

#[test]
fn whole_chains_are_left_out_over_perf_buffers_too() {
    thinned_on("perf");
}

/// With --retain, chains that the disk has no room for are left out, and the recorder reports so.
#[test]
fn the_log_is_thinned_to_last() {
    let Some(rig) = Rig::new("retain") else { return };
    let path = rig.path("thinning.db");
    fs::write(&path, database()).expect("the database");
    let ioc = rig.ioc("retain", PORT, &path, &[]);
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument(), "--retain", "1000h", "--max-disk", "1M"]);
    wait_until("chains are left out", || {
        let info: Value = serde_json::from_slice(&rig.replay("info", &["--json"]).stdout).unwrap_or_default();
        info["runs"][0]["thinning"]["window"].as_u64() > Some(100_000_000)
    });
    assert_eq!(recorder.stop().code(), Some(0));
    assert!(
        recorder.errors().contains("--retain 3600000s within --max-disk 1048576 allows"),
        "{}",
        recorder.errors()
    );
    let info: Value = serde_json::from_slice(&rig.replay("info", &["--json"]).stdout).expect("JSON");
    let thinning = &info["runs"][0]["thinning"];
    assert!(thinning["window"].as_u64() > Some(100_000_000), "{thinning}");
}

/// The BPF programs leave out unselected records; the log has all selected ones.
#[test]
fn records_that_are_not_wanted_cost_nothing_more() {
    let Some(rig) = Rig::new("selected") else { return };
    let path = rig.path("thinning.db");
    fs::write(&path, database()).expect("the database");
    let ioc = rig.ioc("selected", PORT, &path, &[]);
    let mut recorder =
        rig.record(&["--pid", &ioc.pid_argument(), "--only", "THIN:?1", "--exclude", "THIN:E*"]);
    wait_until("it is recorded", || recorder.errors().contains("recording "));
    wait_until("the log has some chains", || {
        spans(&rig).iter().filter(|span| span.name == "process THIN:A1").count() >= 10
    });
    assert_eq!(recorder.stop().code(), Some(0));
    let spans = spans(&rig);
    let count = |name: &str| spans.iter().filter(|span| span.name == format!("process {name}")).count();
    assert!(count("THIN:A1") >= 10, "{} of THIN:A1", count("THIN:A1"));
    for letter in ["B", "C", "D"] {
        let name = format!("THIN:{letter}1");
        assert!(count(&name).abs_diff(count("THIN:A1")) <= 1, "{} of {name}", count(&name));
    }
    assert_eq!((count("THIN:E1"), count("THIN:A2"), count("THIN:A10")), (0, 0, 0));
}
