//! The same short scene on every generation of EPICS Base in tests/rig/epics-versions.txt: the put log and the trees are the
//! same on each (tests/rig/versions.db).

use crate::attaching::checked;
use crate::rig::spans::{shape, spans};
use crate::rig::{epics_versions, wait_until, Client, Rig};
use serde_json::{json, Value};

const PORT: u16 = 5074;

/// DBR types, the protocol's numbers.
const STRING: u16 = 0;
const ENUM: u16 = 3;
const LONG: u16 = 5;
const DOUBLE: u16 = 6;

/// PV, DBR type, requested value, with callback or not, and the log's old and new value.
fn scene() -> Vec<(&'static str, u16, Value, bool, Value, Value)> {
    vec![
        ("GEN:SP", DOUBLE, json!(2.0), false, json!(0.0), json!(2.0)),
        ("GEN:SP", DOUBLE, json!(6.5), true, json!(2.0), json!(6.5)),
        ("GEN:ARRAY", LONG, json!([1, -2, 3]), false, json!([]), json!([1, -2, 3])),
        ("GEN:ARRAY", LONG, json!([4, 5]), true, json!([1, -2, 3]), json!([4, 5])),
        ("GEN:ENUM", STRING, json!("Standby"), false, json!(0), json!(1)),
        ("GEN:ENUM", ENUM, json!(2), true, json!(1), json!(2)),
        ("GEN:TEXT", STRING, json!("words"), false, json!("at first"), json!("words")),
        ("GEN:LONG", LONG, json!(-7), true, json!(0), json!(-7)),
        ("GEN:INT64", DOUBLE, json!(9e15), true, json!(0), json!(9_000_000_000_000_000i64)),
        ("GEN:SP.DESC", STRING, json!("what it is"), true, json!(""), json!("what it is")),
    ]
}

const CHAIN: &str = "\
caput GEN:SP
  process GEN:SP
    process GEN:CALC
      process GEN:SLOW
        process GEN:END
";

fn scene_on(version: Option<&str>) {
    let name = version.unwrap_or("newest");
    let Some(rig) = Rig::new(&format!("versions-{name}")) else { return };
    let options: Vec<&str> = version.map(|version| vec!["--epics", version]).unwrap_or_default();
    let mut ioc = rig.ioc_with("generation", PORT, "versions.db", &options);
    // Whatever its functions begin with: postEvent with a comparison, in all of them.
    assert_eq!(checked(&ioc)["not_probed"], json!([]), "{name}");
    // Its channels are there before the recorder.
    let mut client = rig.client("libca", &[PORT], &["--uid", "65534", "--host", "console-3"]);
    for (pv, ..) in scene() {
        client.connect(pv);
    }
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument()]);
    rig.wait_until_recording(&mut client, "GEN:READY", "both");
    for (pv, dbr, value, notify, ..) in scene() {
        assert_eq!(client.put(pv, dbr, value, notify), 1, "{name}: {pv}");
        if pv == "GEN:SP" {
            wait_for_the_end(&mut client);
        }
    }
    ioc.command("dbpf GEN:LONG 12");
    assert!(recorder.stop().success(), "{}", recorder.errors());

    let log: Vec<Value> = rig.puts(&["--all"]).into_iter().filter(|line| line["pv"] != "GEN:READY").collect();
    let (links, log): (Vec<Value>, Vec<Value>) = log.into_iter().partition(|line| line["via"] == "db_link");
    let mut expected: Vec<Value> = scene()
        .into_iter()
        .map(|(pv, _, value, notify, old, new)| {
            let via = if notify { "ca_write_notify" } else { "ca_write" };
            let (record, field) = pv.split_once('.').unwrap_or((pv, "VAL"));
            json!({"pv": pv, "record": record, "field": field, "via": via, "user": client.user,
                "client_host": client.host, "requested": value, "old": old, "new": new, "status": "ok",
                "source": "both"})
        })
        .collect();
    expected.push(json!({"pv": "GEN:LONG", "via": "dbpf", "requested": "12", "old": -7, "new": 12}));
    same_lines(name, &log, &expected);
    let link = |old: f64, new: f64| json!({"pv": "GEN:CALC.A", "old": old, "requested": new, "new": new});
    same_lines(name, &links, &[link(0.0, 2.0), link(2.0, 6.5)]);

    let spans = spans(&rig);
    let roots = |name: &str| {
        let is_root = |span: &&crate::rig::spans::Span| span.parent.is_empty() && span.name == name;
        spans.iter().filter(is_root).map(|root| shape(&spans, root)).collect::<Vec<_>>()
    };
    assert_eq!(roots("caput GEN:SP"), [CHAIN; 2], "{name}");
    assert_eq!(roots("caput GEN:ENUM"), ["caput GEN:ENUM\n  process GEN:ENUM\n"; 2], "{name}");
    let calc: Vec<_> = spans.iter().filter(|span| span.name == "process GEN:CALC").collect();
    let found = |key: &str| calc.iter().map(|span| span.attributes[key].clone()).collect::<Vec<_>>();
    assert_eq!(found("epics.record.value"), [json!(4.0), json!(13.0)], "{name}");
    assert_eq!(found("epics.record.severity"), [json!("NO_ALARM"), json!("MINOR")], "{name}");
    // It says which version it is.
    let info = rig.replay("info", &[]);
    let release = version.unwrap_or("7.0.10").splitn(4, '.').take(3).collect::<Vec<_>>().join(".");
    let text = String::from_utf8_lossy(&info.stdout);
    assert!(text.contains(&release), "{name}: no {release} in: {text}");
}

/// Waits until the record behind the asynchronous one has processed.
fn wait_for_the_end(client: &mut Client) {
    let due = client.get("GEN:CALC").as_f64().map(|value| value + 1.0);
    wait_until("the chain's end", || client.get("GEN:END").as_f64() == due);
}

fn same_lines(name: &str, log: &[Value], expected: &[Value]) {
    let mut wrong = Vec::new();
    for (line, expected) in log.iter().zip(expected) {
        for (key, value) in expected.as_object().expect("an object") {
            let same = match (&line[key], value) {
                (Value::Number(one), Value::Number(other)) => one.as_f64() == other.as_f64(),
                (one, other) => one == other,
            };
            if !same {
                wrong.push(format!("{key} is not {value} in {line}"));
            }
        }
    }
    assert!(wrong.is_empty() && log.len() == expected.len(), "{name}: {}\n{log:?}", wrong.join("\n"));
}

#[test]
fn the_newest_generation() {
    scene_on(None);
}

#[test]
fn earlier_generations() {
    for version in epics_versions() {
        scene_on(Some(&version));
    }
}
