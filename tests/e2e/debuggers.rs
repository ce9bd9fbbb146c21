//! A debugger or tracer that is attached to an IOC while the recorder comes to it.

use crate::attaching::checked;
use crate::rig::own_program::{Build, Own};
use crate::rig::{not_run, wait_until, Needs, Rig};
use serde_json::{json, Value};
use std::process::Command;
use std::sync::mpsc::channel;

const PORT: u16 = 5074;
const DOUBLE: u16 = 6;

/// Traces a process, as strace does, as long as `what` runs. Only the thread that attached can detach: it does so by ending.
fn traced<T>(pid: u32, what: impl FnOnce() -> T) -> T {
    let (attached, is_attached) = channel();
    let (end, is_over) = channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            // SAFETY: attaching touches no memory of this process.
            let status = unsafe { libc::ptrace(libc::PTRACE_SEIZE, pid as libc::pid_t, 0, 0) };
            attached.send(status).expect("it waits");
            let _ = is_over.recv();
        });
        assert_eq!(is_attached.recv(), Ok(0), "{}", std::io::Error::last_os_error());
        let done = what();
        drop(end);
        done
    })
}

fn unprobed(rig: &Rig) -> Vec<String> {
    let found = rig.replay("iocs", &["--format", "jsonl"]);
    let found: Value = serde_json::from_slice(&found.stdout).unwrap_or_default();
    let lines = found["not_probed"].as_array().cloned().unwrap_or_default();
    lines.iter().filter_map(|line| line.as_str().map(str::to_owned)).collect()
}

/// One recorder has its breakpoints in the IOC. A second one can't tell whether they are the tracer's, and leaves them alone;
/// it says so, and records everything once the tracer is gone.
#[test]
fn a_tracer_that_leaves() {
    let Some(rig) = Rig::new("debuggers-leave") else { return };
    let Some(beside) = Rig::new("debuggers-leave-beside") else { return };
    let ioc = rig.ioc("puts", PORT, "puts.db", &[]);
    let mut first = beside.record(&["--pid", &ioc.pid_argument()]);
    let mut client = rig.client("libca", &[PORT], &[]);
    beside.wait_until_recording(&mut client, "PUT:READY", "both");
    let mut second = traced(ioc.pid(), || {
        let second = rig.record(&["--pid", &ioc.pid_argument()]);
        rig.wait_until_recording(&mut client, "PUT:READY", "packet");
        let reasons = unprobed(&rig);
        let of = |function: &str| reasons.iter().find(|reason| reason.starts_with(function));
        let reason = of("dbPutField: ").unwrap_or_else(|| panic!("{reasons:?}"));
        assert!(reason.contains("perhaps") && reason.contains("tracer"), "{reason}");
        second
    });
    rig.wait_until_recording(&mut client, "PUT:READY", "both");
    wait_until("no reason is left", || !unprobed(&rig).iter().any(|reason| reason.contains("tracer")));
    client.put("PUT:DOUBLE", DOUBLE, json!(7.5), true);
    assert!(second.stop().success(), "{}", second.errors());
    assert!(first.stop().success(), "{}", first.errors());
    let line = rig.puts(&["--pv", "PUT:DOUBLE"]).pop().expect("the put");
    assert_eq!(
        (&line["old"], &line["new"], &line["source"]),
        (&json!(0.0), &json!(7.5), &json!("both")),
        "{line}"
    );
}

/// valgrind carries out a translation of the IOC's code, also of a breakpoint in it: a probe would kill the IOC.
#[test]
fn an_ioc_under_valgrind_lives() {
    let name = "an_ioc_under_valgrind_lives";
    let valgrind = "/usr/bin/valgrind";
    if !std::path::Path::new(valgrind).exists() {
        not_run(name, Needs::Program("valgrind"));
        return;
    }
    for (build, linkage) in [(Build::Static, "static"), (Build::Shared, "shared")] {
        let Some(rig) = Rig::new("debuggers-valgrind") else { return };
        let Some(own) = Own::build(&rig, build) else { return };
        let plain = own.command(PORT, "first.db", &[]);
        let mut command = Command::new(valgrind);
        command.args(["-q", "--tool=none"]).arg(plain.get_program()).args(plain.get_args());
        command.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let mut ioc = rig.ioc_by("own", &mut command);
        let found = checked(&ioc);
        assert_eq!(
            (&found["records"], &found["recorded"]),
            (&json!(16), &json!("puts by packets")),
            "{linkage}: {found}"
        );
        let mut recorder = rig.record(&["--pid", &ioc.pid_argument()]);
        let mut client = rig.client("libca", &[PORT], &[]);
        rig.wait_until_recording(&mut client, "ONE:READY", "packet");
        wait_until("it is known why", || {
            unprobed(&rig).iter().any(|reason| reason.starts_with("valgrind or the like"))
        });
        client.put("ONE:SP", DOUBLE, json!(-8.5), true);
        ioc.command("dbpf ONE:SP 3");
        assert!(recorder.stop().success(), "{}", recorder.errors());
        assert!(ioc.runs(), "{}", ioc.errors());
        let put = rig.puts(&["--pv", "ONE:SP"]).pop().expect("the put");
        assert_eq!((&put["requested"], &put["source"]), (&json!(-8.5), &json!("packet")), "{put}");
    }
}
