//! Shell scripts that iocreplay writes, run against a real IOC: they put back what they say.
//!
//! caput and caget are those of EPICS Base, which scripts/setup fetches for x86-64, and their stand-ins (tests/rig/caput.py),
//! which other tests use on other machines.

use crate::rig::{environment, epics_programs, iocreplay, not_run, rig_file, Needs, Rig};
use serde_json::{json, Value};
use std::fs;
use std::net::UdpSocket;
use std::os::unix::fs::{symlink, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread;
use std::time::{Duration, Instant};

const PORT: u16 = 5074;
const STRING: u16 = 0;
const ENUM: u16 = 3;
const CHAR: u16 = 4;
const DOUBLE: u16 = 6;

/// caput and caget for scripts.
pub struct Tools {
    /// Their directory.
    pub directory: PathBuf,
    /// EPICS Base's own, no stand-ins.
    pub are_real: bool,
    /// In place of a repeater in the test's network: without one each of them would start it, and it would outlive the test.
    _repeater: Option<UdpSocket>,
}

impl Tools {
    fn new(directory: PathBuf, are_real: bool) -> Tools {
        Tools { directory, are_real, _repeater: UdpSocket::bind("0.0.0.0:5065").ok() }
    }
}

/// The tools for a test with this directory: EPICS Base's own, as scripts/setup fetched them, or else those in PATH. Else
/// stand-ins, which is reported.
pub fn tools(test: &str, dir: &Path) -> Tools {
    if let Some(directory) = real(dir) {
        return Tools::new(directory, true);
    }
    let found = Command::new("sh").args(["-c", "command -v caget && command -v caput"]).output().expect("sh");
    let found = String::from_utf8(found.stdout).expect("UTF-8");
    if let [_, caput] = found.lines().collect::<Vec<_>>()[..] {
        let directory = Path::new(caput).parent().expect("a directory").to_path_buf();
        return Tools::new(directory, true);
    }
    not_run(&format!("{test}, by EPICS Base's own caput"), Needs::Machine("x86-64"));
    Tools::new(stand_ins(dir), false)
}

/// EPICS Base's own tools, in a directory of their own: without caRepeater.
fn real(dir: &Path) -> Option<PathBuf> {
    let programs = epics_programs()?;
    let directory = dir.join("base");
    fs::create_dir(&directory).expect("a directory");
    for name in ["caput", "caget"] {
        symlink(programs.join(name), directory.join(name)).expect("a link");
    }
    Some(directory)
}

/// The stand-ins, by the names of the real ones, in a directory of their own.
fn stand_ins(dir: &Path) -> PathBuf {
    let directory = dir.join("stand-ins");
    fs::create_dir(&directory).expect("a directory");
    for name in ["caput", "caget"] {
        let path = directory.join(name);
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
    directory
}

/// The stand-ins and, if there are some for this machine, the real tools.
fn all_tools(test: &str, dir: &Path) -> Vec<Tools> {
    let tools = tools(test, dir);
    match tools.are_real {
        true => vec![Tools::new(stand_ins(dir), false), tools],
        false => vec![tools],
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
    let pause = Duration::from_millis(1500);
    for (number, (pv, dbr, value, ..)) in puts.iter().enumerate() {
        if number == 4 {
            thread::sleep(pause);
        }
        client.put(pv, *dbr, value.clone(), true);
    }
    assert!(recorder.stop().success());
    let (script, timed) = (rig.dir.join("script"), rig.dir.join("timed"));
    for (path, more) in [(&script, &[][..]), (&timed, &["--timing"][..])] {
        let done = rig.replay("puts", &[&["--format", "caput", "--exclude", "PUT:READY"], more].concat());
        assert!(done.status.success() && done.stderr.is_empty(), "{}", String::from_utf8_lossy(&done.stderr));
        fs::write(path, &done.stdout).unwrap();
    }
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
    let has_values = |client: &mut crate::rig::Client| {
        for (pv, _, _, expected, _) in puts.iter().filter(|put| !put.3.is_null()) {
            assert_eq!(client.get(pv), *expected, "{pv}");
        }
    };
    let all = all_tools("scripts", &rig.dir);
    for tools in &all {
        before(&mut client);
        let shown = run(&script, &tools.directory, &[]);
        assert!(shown.status.success(), "{}", String::from_utf8_lossy(&shown.stderr));
        assert_eq!(client.get("PUT:DOUBLE"), json!(5.0), "without --yes it only shows");
        let written = run(&script, &tools.directory, &["--yes"]);
        assert!(written.status.success(), "{}", String::from_utf8_lossy(&written.stderr));
        has_values(&mut client);
        assert_eq!(run(&script, &tools.directory, &["--wrong"]).status.code(), Some(2));
    }
    // and as fast as the clients did, by the real ones if there are some
    before(&mut client);
    let tools = &all.last().expect("tools").directory;
    let begin = Instant::now();
    let written = run(&timed, tools, &["--yes"]);
    assert!(written.status.success(), "{}", String::from_utf8_lossy(&written.stderr));
    assert!(begin.elapsed() >= pause, "{:?}", begin.elapsed());
    has_values(&mut client);
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
    let script = rig.dir.join("script");
    let pvs = ["--pv", "PUT:DOUBLE", "--pv", "PUT:ENUM", "--pv", "PUT:TEXT", "--pv", "PUT:SHORTS"];
    let mut command = Command::new(iocreplay());
    let done = command.args(["at", &now, "--format", "caput"]).args(pvs).arg(rig.log()).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    fs::write(&script, &done.stdout).unwrap();
    for tools in all_tools("scripts-at", &rig.dir) {
        client.put("PUT:DOUBLE", DOUBLE, json!(7.0), true);
        client.put("PUT:ENUM", ENUM, json!(2), true);
        client.put("PUT:TEXT", STRING, json!("other"), true);
        client.put("PUT:SHORTS", DOUBLE, json!([9.0]), true);
        let shown = run(&script, &tools.directory, &[]);
        assert!(shown.status.success(), "{}", String::from_utf8_lossy(&shown.stderr));
        let text = String::from_utf8(shown.stdout).unwrap();
        assert!(text.contains("PUT:DOUBLE: 7 -> 0.10000000000000001"), "{text}");
        let written = run(&script, &tools.directory, &["--yes"]);
        assert!(written.status.success(), "{}", String::from_utf8_lossy(&written.stderr));
        assert_eq!(client.get("PUT:DOUBLE"), json!(0.1));
        assert_eq!(client.get("PUT:ENUM"), json!(1));
        assert_eq!(client.get("PUT:TEXT"), json!(" it's \\ $(x)"));
        assert_eq!(client.get("PUT:SHORTS"), json!([1, -2]));
    }
}
