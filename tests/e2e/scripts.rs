//! Shell scripts that iocreplay writes, run against a real IOC: they put back what they say.
//!
//! caput and caget are stand-ins (tests/rig/caput.py): no package that scripts/setup installs has those of EPICS Base.

use crate::rig::{environment, iocreplay, rig_file, Rig};
use serde_json::{json, Value};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};
use std::thread;
use std::time::Duration;

const PORT: u16 = 5074;
const STRING: u16 = 0;
const ENUM: u16 = 3;
const CHAR: u16 = 4;
const DOUBLE: u16 = 6;

/// The stand-ins, by the names of the real ones, in a directory.
pub fn tools(dir: &Path) {
    for name in ["caput", "caget"] {
        let path = dir.join(name);
        let python = environment().join("bin/python");
        let rig = rig_file("caput.py");
        let start = format!(
            "#!{}\nimport sys\nsys.path.insert(0, {:?})\nimport caput\nsys.exit(caput.main())\n",
            python.display(),
            rig.parent().unwrap()
        );
        fs::write(&path, start).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
}

/// Runs a script with the tools in a directory, or else with those in PATH.
pub fn run(script: &Path, tools: &Path, arguments: &[&str]) -> Output {
    let path = format!("{}:{}", tools.display(), std::env::var("PATH").unwrap_or_default());
    let mut command = Command::new("sh");
    command.arg(script).args(arguments).env("PATH", path);
    command.env("EPICS_CA_ADDR_LIST", format!("127.0.0.1:{PORT}")).env("EPICS_CA_AUTO_ADDR_LIST", "NO");
    command.env("EPICS_CA_SERVER_PORT", PORT.to_string()).output().unwrap()
}

#[test]
fn a_script_repeats_the_puts() {
    let Some(rig) = Rig::new("scripts") else { return };
    let ioc = rig.ioc("puts", PORT, "puts.db", &[]);
    let mut client = rig.client("libca", &[PORT], &[]);
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument()]);
    rig.wait_until_recording(&mut client, "PUT:READY", "both");
    let long = "a text that is longer than forty characters, 'with' \"quotes\" and $(no command)";
    let characters: Vec<u8> = long.bytes().chain([0]).collect();
    let puts: [(&str, u16, Value, Value, Value); 8] = [
        ("PUT:DOUBLE", DOUBLE, json!(0.1), json!(0.1), json!(5.0)),
        ("PUT:INT64", STRING, json!("9007199254740993"), Value::Null, json!(1.0)),
        ("PUT:ENUM", ENUM, json!(2), json!(2), json!(0)),
        ("PUT:BINARY", STRING, json!("Open"), json!(1), json!(0)),
        ("PUT:TEXT", STRING, json!("it's \"a\" \\\n$(x)"), json!("it's \"a\" \\\n$(x)"), json!("other")),
        ("PUT:LONGTEXT.$", CHAR, json!(characters), json!(characters), json!([120, 0])),
        ("PUT:SHORTS", DOUBLE, json!([1.0, -2.0]), json!([1, -2]), json!([9.0])),
        ("PUT:TEXTS", STRING, json!(["a b", "'"]), json!(["a b", "'"]), json!(["x"])),
    ];
    for (pv, dbr, value, ..) in &puts {
        client.put(pv, *dbr, value.clone(), true);
    }
    assert!(recorder.stop().success());
    let script = rig.dir.join("script");
    let done = rig.replay("puts", &["--format", "caput", "--exclude", "PUT:READY"]);
    assert!(done.status.success() && done.stderr.is_empty(), "{}", String::from_utf8_lossy(&done.stderr));
    fs::write(&script, &done.stdout).unwrap();
    let before = |client: &mut crate::rig::Client| {
        for (pv, dbr, .., other) in &puts {
            let dbr = if *pv == "PUT:BINARY" {
                ENUM
            } else if other.is_f64() {
                DOUBLE
            } else {
                *dbr
            };
            client.put(pv, dbr, other.clone(), true);
        }
    };
    before(&mut client);
    tools(&rig.dir);

    let shown = run(&script, &rig.dir, &[]);
    assert!(shown.status.success(), "{}", String::from_utf8_lossy(&shown.stderr));
    assert_eq!(client.get("PUT:DOUBLE"), json!(5.0), "without --yes it only shows");
    let written = run(&script, &rig.dir, &["--yes"]);
    assert!(written.status.success(), "{}", String::from_utf8_lossy(&written.stderr));
    for (pv, _, _, expected, _) in puts.iter().filter(|put| !put.3.is_null()) {
        assert_eq!(client.get(pv), *expected, "{pv}");
    }
    assert_eq!(run(&script, &rig.dir, &["--wrong"]).status.code(), Some(2));
}

#[test]
fn a_script_restores_the_values_of_a_time() {
    let Some(rig) = Rig::new("scripts-at") else { return };
    let ioc = rig.ioc("puts", PORT, "puts.db", &[]);
    let mut client = rig.client("libca", &[PORT], &[]);
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument()]);
    rig.wait_until_recording(&mut client, "PUT:READY", "both");
    client.put("PUT:DOUBLE", DOUBLE, json!(0.1), true);
    client.put("PUT:ENUM", ENUM, json!(1), true);
    client.put("PUT:TEXT", STRING, json!(" it's \\ $(x)"), true);
    client.put("PUT:SHORTS", DOUBLE, json!([1.0, -2.0]), true);
    // a whole second, after all of them
    thread::sleep(Duration::from_millis(1100));
    let now = Command::new("date").args(["-u", "+%Y-%m-%dT%H:%M:%SZ"]).output().unwrap().stdout;
    let now = String::from_utf8(now).unwrap().trim().to_owned();
    assert!(recorder.stop().success());
    client.put("PUT:DOUBLE", DOUBLE, json!(7.0), true);
    client.put("PUT:ENUM", ENUM, json!(2), true);
    client.put("PUT:TEXT", STRING, json!("other"), true);
    client.put("PUT:SHORTS", DOUBLE, json!([9.0]), true);
    let script = rig.dir.join("script");
    let pvs = ["--pv", "PUT:DOUBLE", "--pv", "PUT:ENUM", "--pv", "PUT:TEXT", "--pv", "PUT:SHORTS"];
    let mut command = Command::new(iocreplay());
    let done = command.args(["at", &now, "--format", "caput"]).args(pvs).arg(rig.log()).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    fs::write(&script, &done.stdout).unwrap();
    tools(&rig.dir);
    let shown = run(&script, &rig.dir, &[]);
    assert!(shown.status.success(), "{}", String::from_utf8_lossy(&shown.stderr));
    let text = String::from_utf8(shown.stdout).unwrap();
    assert!(text.contains("PUT:DOUBLE: 7 -> 0.10000000000000001"), "{text}");
    let written = run(&script, &rig.dir, &["--yes"]);
    assert!(written.status.success(), "{}", String::from_utf8_lossy(&written.stderr));
    assert_eq!(client.get("PUT:DOUBLE"), json!(0.1));
    assert_eq!(client.get("PUT:ENUM"), json!(1));
    assert_eq!(client.get("PUT:TEXT"), json!(" it's \\ $(x)"));
    assert_eq!(client.get("PUT:SHORTS"), json!([1, -2]));
}
