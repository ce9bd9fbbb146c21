//! A client of pvAccessCPP, compiled here against the libraries of epicscorelibs: every kind of request, one line each,
//! compared with what the client was told; and what programs are told that read traces and log records.

use crate::rig::own_program::{libraries, succeed};
use crate::rig::spans::spans;
use crate::rig::{json_lines, rig_file, wait_until, Rig};
use serde_json::{json, Value};
use std::path::{Path, PathBuf};
use std::process::Command;

const PORT: u16 = 5474;

/// Compiles a client of the rig. The wheel's libraries have the strings of old compilers.
pub fn compiled(dir: &Path, source: &str) -> PathBuf {
    let core = libraries();
    let program = dir.join(source).with_extension("");
    let mut compile = Command::new("g++");
    compile.args(["-std=c++11", "-D_GLIBCXX_USE_CXX11_ABI=0", "-w", "-o"]).arg(&program);
    compile.arg(rig_file(source));
    for directory in ["include", "include/os/Linux", "include/compiler/gcc"] {
        compile.arg("-I").arg(core.join(directory));
    }
    let directory = core.join("lib");
    compile.arg("-L").arg(&directory).args(["-lpvAccessCA", "-lpvAccess", "-lpvData", "-lca", "-lCom"]);
    compile.arg(format!("-Wl,-rpath,{}", directory.display()));
    succeed(&mut compile);
    program
}

fn truth(server: &str) {
    let Some(rig) = Rig::new(&format!("pvaccess-client-{server}")) else { return };
    let program = compiled(&rig.dir, "pva_client.cpp");
    let access = rig_file("access.acf");
    let access = access.to_str().expect("a path");
    let ioc = rig.ioc_with("pvac", PORT, "pvaccess.db", &["--pva", server, "--access", access]);
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument()]);
    let mut ca = rig.client("libca", &[PORT], &[]);
    rig.wait_until_recording(&mut ca, "PVA:READY", "both");
    let search = (PORT + 2000).to_string();
    let said = Command::new(program)
        .env("EPICS_PVA_ADDR_LIST", format!("127.0.0.1:{search}"))
        .env("EPICS_PVA_AUTO_ADDR_LIST", "NO")
        .env("EPICS_PVA_BROADCAST_PORT", search)
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    assert!(recorder.stop().success(), "{}", recorder.errors());
    drop(ioc);
    let puts: Vec<Value> = rig.puts(&[]).into_iter().filter(|line| line["pv"] != "PVA:READY").collect();
    for told in ["scalar ok", "enum ok", "text ok", "array ok", "block ok", "secure Put not permitted"] {
        assert!(said.lines().any(|line| line == told), "{told} is missing: {said}");
    }
    let mut expected = vec![
        json!({"pv": "PVA:SP", "old": 0.0, "new": 5.5, "status": "ok"}),
        json!({"pv": "PVA:MODE", "old": 0, "new": 1, "new_text": "On", "status": "ok"}),
        json!({"pv": "PVA:TEXT", "old": "", "new": "hello", "status": "ok"}),
        json!({"pv": "PVA:ARRAY", "requested": [1, -2, 3], "new": [1, -2, 3], "status": "ok"}),
        json!({"pv": "PVA:BUSY.A", "new": 3.0, "status": "ok", "options": {"process": "true", "block": "true"}}),
        json!({"pv": "PVA:SECURE", "requested": 1.0, "new": null, "status": "denied", "message": "Put not permitted"}),
    ];
    // pvxs answers neither PROCESS nor PUT_GET, so the client sends no more than their preparation
    if server == "qsrv" {
        assert!(said.contains("process ok\n") && said.contains("put_get made Not Implemented\n"), "{said}");
        expected.push(json!({"pv": "PVA:SP", "request": "process", "requested": null, "status": "ok"}));
    }
    assert_eq!(puts.len(), expected.len(), "{said}{puts:#?}");
    for (line, expected) in puts.iter().zip(expected) {
        for (key, value) in expected.as_object().expect("an object") {
            assert_eq!(line[key], *value, "{key} of {line:#}");
        }
        assert_eq!((&line["user"], &line["protocol"]), (&json!("root"), &json!("pva")), "{line:#}");
        assert!(line["callback_ms"].as_f64() > Some(0.0), "{line:#}");
    }
    assert!(puts[4]["callback_ms"].as_f64() >= Some(200.0), "the record is done after 0.3 s: {:#}", puts[4]);
    exported(&rig, server);
}

/// The server's end of a connection comes last, behind an answer that the packet filter leaves out.
#[test]
fn a_client_that_fetched_a_value_last_is_gone_when_it_is() {
    let Some(rig) = Rig::new("pvaccess-client-gone") else { return };
    let ioc = rig.ioc_with("pvac", PORT, "pvaccess.db", &["--pva", "pvxs"]);
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument()]);
    let mut ca = rig.client("libca", &[PORT], &[]);
    rig.wait_until_recording(&mut ca, "PVA:READY", "both");
    let mut client = rig.client("p4p", &[PORT], &[]);
    client.put("PVA:SP", 6, json!(2.5), false);
    assert_eq!(client.get("PVA:SP"), json!(2.5));
    drop(client);
    let line = || {
        let lines = json_lines(&rig.replay("clients", &["--format", "jsonl"]).stdout);
        lines.into_iter().find(|line| line["protocol"] == "pva").unwrap_or_default()
    };
    wait_until("its circuit has ended", || line()["state"] == "closed");
    assert!(recorder.stop().success(), "{}", recorder.errors());
    let line = line();
    let end = (&line["puts"], &line["end_reason"], &line["ended_by"]);
    assert_eq!(end, (&json!(1), &json!("closed"), &json!("client")), "{line}");
}

/// A client may have EPICS Base's record support in it, as pvaPy's has. Without records it has no links, and is no IOC.
#[test]
fn a_client_made_with_base_is_no_ioc() {
    let Some(rig) = Rig::new("pvaccess-client-base") else { return };
    let ioc = rig.ioc_with("pvac", PORT, "pvaccess.db", &["--pva", "pvxs"]);
    let mut clients = ["libca", "p4p"].map(|library| rig.client(library, &[PORT], &["--base"]));
    let pids = clients.each_ref().map(|client| client.pid().to_string());
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument(), "--pid", &pids[0], "--pid", &pids[1]]);
    let mut ca = rig.client("libca", &[PORT], &[]);
    rig.wait_until_recording(&mut ca, "PVA:READY", "both");
    let json = |command| json_lines(&rig.replay(command, &["--format", "jsonl"]).stdout);
    wait_until("the recorder has looked at the clients", || {
        let looked_at = json("iocs").iter().map(|line| line["pid"].to_string()).collect::<Vec<String>>();
        pids.iter().all(|pid| looked_at.contains(pid))
    });
    for (client, value) in clients.iter_mut().zip([2.5, 3.5]) {
        client.put("PVA:SP", 6, json!(value), true);
    }
    wait_until("their circuits' ends are known", || {
        let lines = json("clients");
        let known: Vec<String> = lines.iter().map(|line| line["process"]["pid"].to_string()).collect();
        pids.iter().all(|pid| known.contains(pid))
    });
    assert!(recorder.stop().success(), "{}", recorder.errors());
    let puts = rig.puts(&["--pv", "PVA:SP"]);
    let told: Vec<Value> = puts
        .iter()
        .map(|put| {
            json!([put["new"], put["via"], put["client_ioc"], put["process"]["ioc"], put["process"]["pid"]])
        })
        .collect();
    let [by_ca, by_pva] = clients.each_ref().map(|client| json!(client.pid()));
    let expected =
        [json!([2.5, "ca_write_notify", null, null, by_ca]), json!([3.5, "pva", null, null, by_pva])];
    assert_eq!(told, expected, "{puts:#?}");
    drop(ioc);
}

/// What the client asked for beside values, in what other programs read.
fn exported(rig: &Rig, server: &str) {
    let block = json!({"block": "true", "process": "true"});
    let mut expected = vec![
        ("put PVA:SP", json!({"request": "put", "fields": {"value": 5.5}})),
        ("put PVA:MODE", json!({"request": "put", "fields": {"value.index": 1}})),
        ("put PVA:TEXT", json!({"request": "put", "fields": {"value": "hello"}})),
        ("put PVA:ARRAY", json!({"request": "put", "fields": {"value": [1, -2, 3]}})),
        ("put PVA:BUSY.A", json!({"request": "put", "fields": {"value": 3.0}, "options": block})),
        (
            "put PVA:SECURE",
            json!({"request": "put", "fields": {"value": 1.0}, "message": "Put not permitted"}),
        ),
    ];
    if server == "qsrv" {
        expected.push(("request process PVA:SP", json!({"request": "process"})));
    }
    let expected: Vec<_> = expected.into_iter().map(|(name, of)| (name.to_owned(), of)).collect();
    // of Channel Access nothing
    let spans = spans(rig);
    let own = spans.iter().map(|span| (span.name.clone(), of_pvaccess(span.attributes.iter())));
    assert_eq!(own.filter(|(_, of)| *of != json!({})).collect::<Vec<_>>(), expected);
    let zipkin: Value =
        serde_json::from_slice(&rig.replay("traces", &["--format", "zipkin"]).stdout).expect("JSON");
    let found = zipkin.as_array().expect("spans").iter().filter_map(|span| {
        let of = of_pvaccess(span["tags"].as_object()?.iter());
        (of != json!({})).then(|| (span["name"].as_str().unwrap_or_default().to_owned(), of))
    });
    assert_eq!(found.collect::<Vec<_>>(), expected);
    // the texts of Perfetto's trace stand in it as they are
    let perfetto = rig.replay("traces", &["--format", "perfetto"]).stdout;
    let has = |text: &str| perfetto.windows(text.len()).any(|window| window == text.as_bytes());
    for text in [
        "epics.pva.request",
        "epics.pva.fields",
        "epics.pva.options",
        "Put not permitted",
        &block.to_string(),
    ] {
        assert!(has(text), "{text}");
    }
    let logs = rig.replay("logs", &["--format", "otlp", "--kind", "puts"]).stdout;
    let records: Vec<Value> = json_lines(&logs)
        .iter()
        .flat_map(|data| data["resourceLogs"].as_array().cloned().unwrap_or_default())
        .flat_map(|resource| resource["scopeLogs"].as_array().cloned().unwrap_or_default())
        .flat_map(|scope| scope["logRecords"].as_array().cloned().unwrap_or_default())
        .map(|record| {
            let attributes = record["attributes"].as_array().cloned().unwrap_or_default();
            let texts = attributes.into_iter().filter_map(|attribute| {
                Some((attribute["key"].as_str()?.to_owned(), attribute["value"]["stringValue"].clone()))
            });
            let texts: Vec<_> = texts.collect();
            of_pvaccess(texts.iter().map(|(key, value)| (key, value)))
        })
        .filter(|of| *of != json!({}))
        .collect();
    assert_eq!(records, expected.iter().map(|(_, of)| of.clone()).collect::<Vec<_>>());
}

/// The attributes of PVAccess, without their common beginning; what is JSON is read.
fn of_pvaccess<'a>(attributes: impl Iterator<Item = (&'a String, &'a Value)>) -> Value {
    let own = attributes.filter_map(|(key, value)| {
        let key = key.strip_prefix("epics.pva.")?;
        let text = value.as_str().unwrap_or_default();
        let is_json = matches!(key, "fields" | "options" | "result");
        let value = if is_json { serde_json::from_str(text).expect("JSON") } else { value.clone() };
        Some((key.to_owned(), value))
    });
    Value::Object(own.collect())
}

#[test]
fn a_client_of_pvaccesscpp_and_qsrv() {
    truth("qsrv");
}

#[test]
fn a_client_of_pvaccesscpp_and_pvxs() {
    truth("pvxs");
}
