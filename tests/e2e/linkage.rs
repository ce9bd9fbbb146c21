//! IOCs with EPICS Base linked statically, with and without symbols.

use crate::attaching::{checked, is_recorded};
use crate::rig::own_program::{Build, Own};
use crate::rig::spans::{shape, spans};
use crate::rig::{run, wait_until, Rig};
use serde_json::{json, Value};
use std::process::Command;

const PORT: u16 = 5074;

/// A put to ONE:SP of first.db on a static IOC, whose CA link finds no second IOC to write to.
const CHAIN: &str = "\
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
    process ONE:LAST
";

/// A static IOC as Base from 3.15 on builds it: even stripped, it has its dynamic symbols.
#[test]
fn a_static_ioc_also_when_stripped() {
    for strip in [false, true] {
        let Some(rig) = Rig::new("linkage-static") else { return };
        let Some(own) = Own::build(&rig, Build::Static) else { return };
        if strip {
            own.strip();
        }
        let ioc = own.start(&rig, PORT, "first.db", &[]);
        let found = checked(&ioc);
        assert_eq!((&found["name"], &found["linkage"]), (&json!("own"), &json!("static")), "{found}");
        assert_eq!((&found["records"], &found["ca_ports"]), (&json!(16), &json!([PORT])), "{found}");
        assert!(
            found["base_version"].as_str().is_some_and(|version| version.starts_with("7.0.10")),
            "{found}"
        );
        is_recorded(&rig, &ioc);
        let spans = spans(&rig);
        let root = spans.iter().rfind(|span| span.name == "caput ONE:SP").expect("the put's tree");
        assert_eq!(shape(&spans, root), CHAIN);
    }
}

/// Packages that bring their C library start its linker by name. Then that is what the process runs.
#[test]
fn a_static_ioc_that_the_linker_was_asked_to_start() {
    for (build, strip) in [(Build::Static, false), (Build::Unexported, true)] {
        let Some(rig) = Rig::new("linkage-linker") else { return };
        let Some(own) = Own::build(&rig, build) else { return };
        if strip {
            own.strip();
        }
        let headers = run(Command::new("readelf").args(["-W", "-l", &own.program]));
        let headers = String::from_utf8_lossy(&headers.stdout).into_owned();
        let linker = headers.split_once("interpreter: ").and_then(|(_, rest)| rest.split_once(']'));
        let plain = own.command(PORT, "first.db", &[]);
        let mut command = Command::new(linker.expect("the path of the linker").0);
        command.arg(&own.program).args(plain.get_args());
        command.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let ioc = rig.ioc_by("own", &mut command);
        let found = checked(&ioc);
        assert_eq!((&found["name"], &found["linkage"]), (&json!("own"), &json!("static")), "{found}");
        assert_eq!(found["records"], 16, "{found}");
        if !strip {
            is_recorded(&rig, &ioc);
        }
    }
}

/// The program exports nothing, but has its symbol table.
#[test]
fn a_static_ioc_that_exports_nothing() {
    let Some(rig) = Rig::new("linkage-unexported") else { return };
    let Some(own) = Own::build(&rig, Build::Unexported) else { return };
    let ioc = own.start(&rig, PORT, "first.db", &[]);
    assert_eq!(checked(&ioc)["linkage"], "static");
    is_recorded(&rig, &ioc);
}

/// No symbol is left. The recorder finds the record database in memory, and there the addresses of the record types' process
/// functions, which it probes. It claims nothing that these do not show.
#[test]
fn a_static_ioc_without_any_symbol() {
    let Some(rig) = Rig::new("linkage-none") else { return };
    let Some(own) = Own::build(&rig, Build::Unexported) else { return };
    own.strip();
    let symbols = run(Command::new("nm").args(["-D", &own.program]));
    let symbols = String::from_utf8_lossy(&symbols.stdout).into_owned();
    assert!(!symbols.contains("pdbbase") && !symbols.contains("dbP"), "nothing is tested: {symbols}");
    let mut ioc = own.start(&rig, PORT, "first.db", &[]);
    let found = checked(&ioc);
    assert_eq!((&found["name"], &found["linkage"]), (&json!("own"), &json!("static")), "{found}");
    assert_eq!((&found["records"], &found["ca_ports"]), (&json!(16), &json!([PORT])), "{found}");
    assert_eq!(found["recorded"], "which records begin to process, puts by packets", "{found}");
    assert!(
        found["not_probed"][0].as_str().is_some_and(|why| why.starts_with("its program has no symbols")),
        "{found}"
    );

    let mut client = rig.client("libca", &[PORT], &[]);
    let address = client.connect("ONE:SP");
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument()]);
    rig.wait_until_recording(&mut client, "ONE:READY", "packet");
    wait_until("its process functions are probed", || recorder.errors().contains("recording own"));
    client.put("ONE:SP", 6, json!(-8.5), true);
    wait_until("the slow record is done", || client.get("ONE:LATE") == json!(-17.0));
    ioc.command("dbtr ONE:PULL");
    wait_until("the log has the last of it", || {
        let spans = spans(&rig);
        let count = |name: &str| spans.iter().filter(|span| span.name == name).count();
        count("process ONE:PULLED") > 0 && count("process ONE:TICK") > 3
    });
    assert!(recorder.stop().success(), "{}", recorder.errors());

    // its list of clients is not found, and the client identified itself before the recording
    let put = rig.puts(&["--pv", "ONE:SP"]).pop().expect("the put");
    assert_eq!((&put["client"], &put["requested"]), (&json!(address), &json!(-8.5)), "{put}");
    assert_eq!((&put["user"], &put["source"]), (&Value::Null, &json!("packet")), "{put}");
    let spans = spans(&rig);
    let begun = |name: &str| spans.iter().filter(|span| span.name == format!("process {name}")).count();
    for once in [
        "ONE:SP",
        "ONE:CALC",
        "ONE:FAN",
        "ONE:A",
        "ONE:A1",
        "ONE:B",
        "ONE:LATE",
        "ONE:AFTERSLOW",
        "ONE:LAST",
        "ONE:PULL",
        "ONE:PULLED",
    ] {
        assert_eq!(begun(once), 1, "{once}");
    }
    // its process function runs again when the delay is over
    let slow: Vec<_> = spans.iter().filter(|span| span.name == "process ONE:SLOW").collect();
    let active: Vec<_> = slow.iter().map(|span| &span.attributes["epics.process.pact"]).collect();
    assert_eq!(active, [&json!(false), &json!(true)]);
    assert!(begun("ONE:TICK") > 3, "ten times a second");
    for span in spans.iter().filter(|span| span.name.starts_with("process")) {
        assert_eq!(
            (span.parent.as_str(), &span.attributes["epics.process.outcome"]),
            ("", &json!("not recorded"))
        );
        assert_eq!(span.attributes["epics.process.trigger"], "unknown");
    }
}

/// `pdbbase` is the only symbol left.
#[test]
fn a_static_ioc_with_a_database_but_no_functions() {
    let Some(rig) = Rig::new("linkage-database") else { return };
    let Some(own) = Own::build(&rig, Build::Unexported) else { return };
    own.strip_but("pdbbase");
    let ioc = own.start(&rig, PORT, "first.db", &[]);
    let found = checked(&ioc);
    assert_eq!((&found["records"], &found["linkage"]), (&json!(16), &json!("static")), "{found}");
    assert_eq!(found["recorded"], "which records begin to process, puts by packets", "{found}");
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument()]);
    wait_until("processing is recorded", || {
        String::from_utf8_lossy(&rig.replay("traces", &[]).stdout).contains("ONE:TICK")
    });
    assert!(recorder.stop().success(), "{}", recorder.errors());
    let text = String::from_utf8_lossy(&rig.replay("traces", &["--pv", "ONE:TICK"]).stdout).into_owned();
    let mut ticks = text.lines().filter(|line| line.contains("ONE:TICK"));
    assert!(ticks.all(|line| line.ends_with("begun; no more is recorded")), "{text}");
}
