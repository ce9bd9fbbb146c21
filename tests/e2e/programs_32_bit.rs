//! 32-bit programs (i386, with libraries from PyPI) on a 64-bit machine.

use crate::attaching::checked;
use crate::rig::own_program::{client32, Build, Own};
use crate::rig::{json_lines, wait_until, Rig};
use serde_json::{json, Value};

const PORT: u16 = 5074;
/// DBR types, the protocol's numbers.
const ENUM: u16 = 3;
const DOUBLE: u16 = 6;

/// The recorder reads its records, clients and channels from memory, and its puts from packets.
#[test]
fn a_32_bit_ioc_is_known_and_its_puts_are_recorded() {
    let Some(rig) = Rig::new("ioc-32-bit") else { return };
    let Some(own) = Own::build(&rig, Build::Shared32) else { return };
    let mut ioc = own.start(&rig, PORT, "records.db", &[]);
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", ioc.pid())).expect("its mappings");
    assert!(maps.lines().any(|line| line.starts_with("f7")) && !maps.contains("7fff"), "not 32 bits: {maps}");
    // what the start-up script sets is in memory alone
    ioc.command("epicsEnvSet IOC vac32");
    let mut early = rig.client("libca", &[PORT], &["--uid", "65534", "--host", "console-3"]);
    let address = early.connect("REC:READY");
    for pv in ["REC:V1", "REC:CALC.A", "REC:MODE.SCAN"] {
        early.connect(pv);
    }

    let found = checked(&ioc);
    assert_eq!((&found["name"], &found["records"]), (&json!("vac32"), &json!(5)), "{found}");
    assert_eq!((&found["ca_ports"], &found["linkage"]), (&json!([PORT]), &json!("shared")), "{found}");
    assert_eq!(found["recorded"], "puts by packets", "{found}");
    assert!(
        found["not_probed"][0].as_str().is_some_and(|why| why.starts_with("a 32-bit process")),
        "{found}"
    );

    let mut recorder = rig.record(&["--pid", &ioc.pid_argument()]);
    rig.wait_until_recording(&mut early, "REC:READY", "packet");
    early.put("REC:V1", ENUM, json!(1), true);
    early.put("REC:MODE.SCAN", ENUM, json!(1), false);
    early.put("REC:CALC.A", DOUBLE, json!(9.5), true);
    let mut late = rig.client("caproto", &[PORT], &["--user", "ramp-script", "--host", "control-2"]);
    late.put("REC:CALC.A", DOUBLE, json!(10.5), true);
    assert!(recorder.stop().success(), "{}", recorder.errors());
    let errors = recorder.errors();
    assert_eq!(errors.matches("is not probed: a 32-bit process").count(), 1, "{errors}");

    let log: Vec<Value> = rig.puts(&[]).into_iter().filter(|put| put["pv"] != "REC:READY").collect();
    let known = |put: &Value| ["pv", "requested", "user", "client_host", "ioc"].map(|key| put[key].clone());
    let early_put =
        |pv: &str, value: Value| [json!(pv), value, json!("nobody"), json!("console-3"), json!("vac32")];
    let expected = [
        early_put("REC:V1", json!(1)),
        early_put("REC:MODE.SCAN", json!(1)),
        early_put("REC:CALC.A", json!(9.5)),
        [json!("REC:CALC.A"), json!(10.5), json!("ramp-script"), json!("control-2"), json!("vac32")],
    ];
    assert_eq!(log.iter().map(known).collect::<Vec<_>>(), expected, "{log:?}");
    assert!(log[..3].iter().all(|put| put["client"] == json!(address)), "{log:?}");

    let records = json_lines(&rig.replay("records", &["--json"]).stdout);
    let types: Vec<_> =
        records.iter().map(|record| (record["record"].as_str(), record["type"].as_str())).collect();
    for expected in [("REC:READY", "ao"), ("REC:VALVE", "bo"), ("REC:ARRAY", "waveform")] {
        assert!(types.contains(&(Some(expected.0), Some(expected.1))), "{types:?}");
    }
    let valve = records.iter().find(|record| record["record"] == "REC:VALVE").expect("the valve");
    assert_eq!((&valve["aliases"], &valve["states"]), (&json!(["REC:V1"]), &json!(["Closed", "Open"])));
    let iocs = json_lines(&rig.replay("iocs", &["--json"]).stdout);
    let [own] = iocs.as_slice() else { panic!("{iocs:?}") };
    assert!(own["base_version"].as_str().is_some_and(|version| version.starts_with("7.0.7")), "{own}");
    assert_eq!(own["environment"]["EPICS_CAS_SERVER_PORT"], PORT.to_string());
}

/// The memory of a 32-bit client has its channels' names, where the server is not EPICS Base.
#[test]
fn a_32_bit_client_names_its_channels() {
    const FOREIGN: u16 = 5099;
    let Some(rig) = Rig::new("client-32-bit") else { return };
    let server = rig.foreign_server(FOREIGN, "FOREIGN:SP");
    let Some(mut command) = client32(&rig) else { return };
    command.arg("FOREIGN:SP").env("EPICS_CA_AUTO_ADDR_LIST", "NO");
    command.env("EPICS_CA_ADDR_LIST", "127.0.0.1").env("EPICS_CA_SERVER_PORT", FOREIGN.to_string());
    let mut client = rig.ioc_by("client32", &mut command);
    let mut recorder = rig.record(&["--pid", &server.pid().to_string()]);
    let mut log = Vec::new();
    wait_until("a put has a name", || {
        client.command("2.5");
        log = rig.puts(&["--pv", "FOREIGN:SP"]);
        !log.is_empty()
    });
    assert!(recorder.stop().success(), "{}", recorder.errors());
    assert_eq!(log[0]["requested"], json!(2.5), "{log:?}");
}
