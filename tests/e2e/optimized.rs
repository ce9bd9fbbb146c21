//! IOCs as optimization of the whole program (LTO) leaves them, imitated with the linker: symbols that are local, and calls
//! that pass no probe, since the compiler has made the function a part of its callers. Seen with gcc 12 and clang 14 at -O3 -flto.

use crate::attaching::checked;
use crate::rig::own_program::{Build, Own};
use crate::rig::spans::{shape, spans};
use crate::rig::{wait_until, Rig};
use serde_json::json;

const PORT: u16 = 5074;

/// What gcc makes local where nothing is exported, and what clang does.
const BY_GCC: &[&str] =
    &["dbProcess", "recGblFwdLink", "dbPut", "dbPutField", "dbProcessNotify", "dbChannelCreate"];
const BY_CLANG: &[&str] =
    &["pdbbase", "dbProcess", "recGblFwdLink", "dbPut", "dbPutField", "dbProcessNotify"];

/// The reasons say that there are such symbols, and what to do.
#[test]
fn functions_with_local_symbols_are_told_from_missing_ones() {
    for (names, reason) in [
        (BY_GCC, "dbProcess: its symbol is local (linked with LTO? then link it with -rdynamic"),
        (
            BY_CLANG,
            "its program has only local symbols of EPICS Base (linked with LTO? then link it with -rdynamic",
        ),
    ] {
        let Some(rig) = Rig::new("optimized-local") else { return };
        let Some(own) = Own::build(&rig, Build::Unexported) else { return };
        own.make_local(names);
        let ioc = own.start(&rig, PORT, "first.db", &[]);
        let found = checked(&ioc);
        assert_eq!((&found["linkage"], &found["records"]), (&json!("static"), &json!(16)), "{found}");
        assert_eq!(found["recorded"], "which records begin to process, puts by packets", "{found}");
        assert!(found["not_probed"][0].as_str().is_some_and(|why| why.starts_with(reason)), "{found}");
        let about_put = found["not_probed"].as_array().and_then(|all| {
            let text = all.iter().find_map(|why| why.as_str().filter(|why| why.starts_with("dbPut:")));
            text.map(str::to_string)
        });
        if names.contains(&"pdbbase") {
            assert_eq!(about_put, None, "all of Base is said at once");
        } else {
            assert_eq!(
                about_put.as_deref(),
                Some("dbPut: its symbol is local, calls may not pass there"),
                "{found}"
            );
        }

        // Nothing but the server's memory names the channel of this client, which was there before.
        let mut client = rig.client("caproto", &[PORT], &["--user", "before"]);
        client.connect("ONE:SP");
        let mut recorder = rig.record(&["--pid", &ioc.pid_argument()]);
        wait_until("puts are recorded", || {
            client.put("ONE:SP", 6, json!(-8.5), true);
            !rig.puts(&[]).is_empty()
        });
        assert!(recorder.stop().success(), "{}", recorder.errors());
        let put = rig.puts(&[]).pop().expect("the put");
        let (pv, user) = if names.contains(&"pdbbase") {
            (&put["pv"], json!("before"))
        } else {
            (&json!("ONE:SP"), json!("before"))
        };
        assert_eq!((&put["pv"], &put["user"]), (pv, &user), "{put}");
    }
}

/// No call of `recGblFwdLink` passes it. That a record was skipped is claimed of none, nor that it was read from what its
/// forward link processes.
#[test]
fn records_that_pass_no_probe_when_they_are_done() {
    let Some(rig) = Rig::new("optimized-inlined") else { return };
    let options = ["-DFORWARDS", "-Wl,--wrap=recGblFwdLink"];
    let Some(own) = Own::build_with(&rig, Build::Static, &options) else { return };
    let mut ioc = own.start(&rig, PORT, "first.db", &[]);
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument()]);
    wait_until("several scans are recorded", || {
        let told = rig.replay("traces", &[]).stdout;
        let is_tick = |line: &&str| line.trim_start().starts_with("ONE:TICK ");
        String::from_utf8_lossy(&told).lines().filter(is_tick).count() > 3
    });
    for value in ["3", "4"] {
        ioc.command(&format!("dbpf ONE:SP {value}"));
    }
    ioc.command("dbpf ONE:PULL.PROC 1");
    assert!(recorder.stop().success(), "{}", recorder.errors());
    let spans = spans(&rig);
    let of =
        |name: &str| spans.iter().filter(|span| span.name == format!("process {name}")).collect::<Vec<_>>();
    let (ticks, tocks) = (of("ONE:TICK"), of("ONE:TOCK"));
    assert!(ticks.len() > 3 && tocks.len() >= ticks.len() - 1, "{} {}", ticks.len(), tocks.len());
    for span in spans.iter().filter(|span| span.name.starts_with("process ")) {
        assert_ne!(span.attributes["epics.process.outcome"], "skipped", "{}", span.name);
    }
    // by FLNK, in truth
    for span in tocks.iter().chain(&of("ONE:LAST")).chain(&of("ONE:FAN")) {
        assert_eq!(span.attributes["epics.process.trigger"], "link", "{}", span.name);
    }
    let root = spans
        .iter()
        .rfind(|span| span.parent.is_empty() && span.name.ends_with(" ONE:SP"))
        .expect("the tree");
    assert!(
        shape(&spans, root).contains("  process ONE:SP\n    process ONE:CALC\n"),
        "{}",
        shape(&spans, root)
    );
}

/// glibc hides `write` and `exit` where it is linked statically.
#[test]
fn what_a_program_prints_that_holds_the_c_library_too() {
    let Some(rig) = Rig::new("optimized-static") else { return };
    let Some(own) = Own::build_with(&rig, Build::Static, &["-static-pie"]) else { return };
    let mut ioc = own.start(&rig, PORT, "first.db", &[]);
    let found = checked(&ioc);
    assert!(!found["not_probed"].to_string().contains("no such symbol"), "{found}");
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument(), "--console-rate", "20"]);
    let said = || String::from_utf8_lossy(&rig.replay("console", &[]).stdout).contains("ONE:NOWHERE");
    wait_until("what it says is recorded", || {
        ioc.command("dbpf ONE:NOWHERE 1");
        said()
    });
    assert!(recorder.stop().success(), "{}", recorder.errors());
}
