//! A client of pvAccessCPP, compiled here against the libraries of epicscorelibs: every kind of request, one line each,
//! compared with what the client was told.

use crate::rig::own_program::{libraries, succeed};
use crate::rig::{rig_file, Rig};
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
}

#[test]
fn a_client_of_pvaccesscpp_and_qsrv() {
    truth("qsrv");
}

#[test]
fn a_client_of_pvaccesscpp_and_pvxs() {
    truth("pvxs");
}
