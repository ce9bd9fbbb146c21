//! Every mistake that a user can make: one line that names the thing and the remedy, and the right
//! exit code.

use crate::rig::{self, iocreplay, run, wait_until, Rig, IOCREC};
use std::fs;
use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Output};
use std::time::Duration;

/// Exit codes of both programs: failure, and bad usage (docs/design.md, "Rules").
const FAILURE: i32 = 1;
const USAGE: i32 = 2;

/// Runs the agent.
fn agent(arguments: &[&str]) -> Output {
    run(Command::new(IOCREC).args(arguments))
}

/// Runs the reader.
fn reader(arguments: &[&str]) -> Output {
    run(Command::new(iocreplay()).args(arguments))
}

/// Asserts that the program ended with that exit code and one line on stderr that has these words.
#[track_caller]
fn expect(output: &Output, code: i32, words: &[&str]) {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{errors}");
    assert_eq!(errors.trim_end().lines().count(), 1, "not one line: {errors}");
    for word in words {
        assert!(errors.contains(word), "no {word:?} in: {errors}");
    }
}

/// Like [`expect`] for bad usage, where a hint at --help may follow.
#[track_caller]
fn expect_usage(output: &Output, words: &[&str]) {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(USAGE), "{errors}");
    for word in words {
        assert!(errors.contains(word), "no {word:?} in: {errors}");
    }
    assert!(!errors.contains("panicked"), "{errors}");
}

#[test]
fn output_that_nobody_takes() {
    for arguments in [&["version"][..], &["--help"], &["check", "--json"]] {
        let to = |path: &str| {
            let file = fs::File::options().write(true).open(path).expect("it can be opened");
            Command::new(IOCREC).args(arguments).stdout(file).output().expect("it runs")
        };
        expect(&to("/dev/full"), FAILURE, &["can't write to standard output", "No space left"]);
        assert_eq!(to("/dev/null").status.code(), Some(0));
    }
}

#[test]
fn a_stream_that_nobody_takes() {
    let Some(rig) = Rig::new("cat-full") else { return };
    fs::create_dir(rig.log()).expect("a directory");
    let full = fs::File::options().write(true).open("/dev/full").expect("it can be opened");
    let mut command = Command::new(IOCREC);
    command.args(["cat", "--no-follow", "--dir", &rig.log()]).stdout(full);
    let output = command.output().expect("it runs");
    expect(&output, FAILURE, &["can't write to standard output", "No space left"]);
}

/// A file on a full disk takes no lines as they come, either.
#[test]
fn watch_into_a_full_disk() {
    let Some(rig) = Rig::new("watch-full") else { return };
    let ioc = rig.ioc("full", 5074, "puts.db", &[]);
    let mut client = rig.client("libca", &[5074], &[]);
    let mut command = Command::new("sh");
    command.args([
        "-c",
        "exec \"$0\" watch --no-console --pid \"$1\" > /dev/full",
        IOCREC,
        &ioc.pid_argument(),
    ]);
    let mut watch = rig.by("watch", &mut command);
    wait_until("it ends", || {
        client.put("PUT:LONG", 5, serde_json::json!(1), true);
        !watch.runs()
    });
    let (status, errors) = (watch.wait(), watch.errors());
    assert_eq!(status.code(), Some(FAILURE), "{errors}");
    assert!(errors.contains("can't write to standard output: No space left"), "{errors}");
}

/// A pager takes nothing while its user reads: why a command has failed waits for it.
#[test]
fn a_failure_waits_for_a_slow_reader() {
    let (mut reader, writer) = std::io::pipe().expect("a pipe");
    let full = writer.as_raw_fd();
    // SAFETY: the calls take the pipe's descriptor, which is open, and a page with its length.
    unsafe {
        libc::fcntl(full, libc::F_SETFL, libc::O_NONBLOCK);
        while libc::write(full, [b'x'; 4096].as_ptr().cast(), 4096) > 0 {}
        libc::fcntl(full, libc::F_SETFL, 0);
    }
    let mut status =
        Command::new(IOCREC).args(["status", "--banana"]).stderr(writer).spawn().expect("it runs");
    std::thread::sleep(Duration::from_secs(1));
    assert!(status.try_wait().expect("its status").is_none(), "it did not wait");
    let mut errors = Vec::new();
    reader.read_to_end(&mut errors).expect("what it says");
    assert_eq!(status.wait().expect("its status").code(), Some(USAGE));
    let errors = String::from_utf8_lossy(&errors);
    let line = errors.trim_start_matches('x');
    assert!(line.starts_with("iocrec: ") && line.contains("banana"), "{line}");
}

#[test]
fn bad_options_are_bad_usage() {
    for program in [agent as fn(&[&str]) -> Output, reader] {
        expect_usage(&program(&[]), &[]);
        expect_usage(&program(&["nonsense"]), &["nonsense"]);
    }
    expect_usage(&agent(&["record"]), &["--dir"]);
    expect_usage(&agent(&["record", "--dir", "/tmp/x", "--nonsense"]), &["--nonsense"]);
    expect_usage(&agent(&["record", "--dir", "/tmp/x", "--max-disk", "much"]), &["--max-disk", "much"]);
    expect_usage(&agent(&["record", "--dir", "/tmp/x", "--duration", "long"]), &["--duration", "long"]);
    expect_usage(&agent(&["record", "--dir", "/tmp/x", "--pid", "me"]), &["--pid", "me"]);
    expect_usage(&agent(&["record", "--dir", "/tmp/x", "--port", "70000"]), &["--port", "70000"]);
    expect_usage(&agent(&["record", "--dir", "/tmp/x", "--tier", "best"]), &["--tier", "best"]);
    expect_usage(&agent(&["mark", "--dir", "/tmp/x", ""]), &["a mark needs a text"]);
    expect_usage(&reader(&["puts"]), &[]);
    let log = concat!(env!("CARGO_MANIFEST_DIR"), "/log/tests/golden/v1-columns.iocrec");
    expect_usage(&reader(&["puts", log, "--format", "nonsense"]), &["nonsense"]);
    expect_usage(&reader(&["puts", log, "--since", "yesterday-ish"]), &["yesterday-ish"]);
    expect_usage(&reader(&["why"]), &[]);
}

#[test]
fn help_is_on_every_level_and_no_error() {
    for (program, commands) in [
        (agent as fn(&[&str]) -> Output, &["record", "watch", "check", "mark", "status"][..]),
        (reader, &["info", "puts", "why", "traces"]),
    ] {
        let all = program(&["--help"]);
        assert_eq!(all.status.code(), Some(0));
        for command in commands {
            assert!(String::from_utf8_lossy(&all.stdout).contains(command), "{command} in --help");
            let one = program(&[command, "--help"]);
            assert_eq!(one.status.code(), Some(0));
            assert!(!one.stdout.is_empty(), "{command} --help");
        }
    }
}

#[test]
fn an_ordinary_user_is_told_that_root_is_needed() {
    let Some(rig) = Rig::new("ordinary-user") else { return };
    // Where anybody may run it.
    let program = rig.path("iocrec");
    fs::copy(IOCREC, &program).expect("a copy");
    fs::set_permissions(&rig.dir, fs::Permissions::from_mode(0o755)).expect("the directory is open");
    fs::create_dir(rig.path("log")).expect("a directory");
    const NOBODY: u32 = 65534;
    std::os::unix::fs::chown(rig.path("log"), Some(NOBODY), Some(NOBODY)).expect("a directory of that user");
    let new = rig.path("log/new");
    for arguments in [&["record", "--dir", &rig.log()][..], &["record", "--dir", &new], &["watch"]] {
        let output = run(Command::new(&program).args(arguments).uid(NOBODY).gid(NOBODY));
        expect(&output, FAILURE, &["root"]);
    }
    assert!(fs::metadata(rig.log()).is_ok(), "it was there before");
    assert!(fs::metadata(&new).is_err(), "nothing is left of a log that was none");
    // What needs no root works.
    let output = run(Command::new(&program).arg("check").uid(NOBODY).gid(NOBODY));
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stdout).contains("root"));
}

#[test]
fn a_directory_that_cannot_be_is_named() {
    let Some(rig) = Rig::new("no-directory") else { return };
    fs::write(rig.path("file"), "").expect("a file");
    for dir in [rig.path("file"), rig.path("file/below"), "/proc/log".to_string()] {
        expect(&agent(&["record", "--dir", &dir, "--duration", "1s"]), FAILURE, &[&dir]);
    }
    // Read-only for everybody, root too.
    rig::enter_private_mounts();
    rig::mount_small(&rig.path("read-only"), "size=1m,ro");
    let dir = rig.path("read-only/log");
    expect(&agent(&["record", "--dir", &dir, "--duration", "1s"]), FAILURE, &[&dir]);
}

#[test]
fn too_small_a_cap_is_refused() {
    let Some(rig) = Rig::new("small-cap") else { return };
    let log = rig.log();
    for (option, value) in [("--max-disk", "10k"), ("--pin-share", "76")] {
        expect(&agent(&["record", "--dir", &log, "--duration", "1s", option, value]), USAGE, &[option]);
    }
    expect(&agent(&["record", "--dir", "", "--duration", "1s"]), USAGE, &["--dir is empty"]);
}

#[test]
fn an_unknown_interface_is_named() {
    let Some(rig) = Rig::new("no-interface") else { return };
    let output = agent(&["record", "--dir", &rig.log(), "--iface", "nosuch0", "--duration", "1s"]);
    expect(&output, FAILURE, &["nosuch0"]);
}

#[test]
fn a_pid_that_is_no_ioc_is_named() {
    let Some(rig) = Rig::new("no-ioc-pid") else { return };
    // Above the kernel's highest possible PID. Tried every few seconds, it would fill the log.
    let none = "4194305";
    expect(&agent(&["record", "--dir", &rig.log(), "--pid", none, "--duration", "1s"]), FAILURE, &[none]);
    assert!(!fs::exists(rig.log()).expect("it can be asked"), "a log of nothing");
    let own = std::process::id().to_string();
    let of_a_pod = ["record", "--dir", &rig.log(), "--pid", &own, "--pod", "no-such", "--duration", "1s"];
    expect(&agent(&of_a_pod), FAILURE, &[&own, "that --pod names"]);
    assert!(!fs::exists(rig.log()).expect("it can be asked"), "a log of nothing");
    expect(&agent(&["record", "--dir", &rig.log(), "--pid", &own, "--duration", "1s"]), FAILURE, &[&own]);
    // one that has ended, and whose parent has not waited for it; and a thread of the kernel: neither has a command line
    let mut ended = Command::new("true").spawn().expect("it starts");
    let state = format!("/proc/{}/stat", ended.id());
    wait_until("it has ended", || fs::read_to_string(&state).expect("it is a zombie").contains(") Z "));
    let pid = ended.id().to_string();
    let says = format!("process {pid} has ended; ");
    expect(&agent(&["record", "--dir", &rig.log(), "--pid", &pid, "--duration", "1s"]), FAILURE, &[&says]);
    ended.wait().expect("it has ended");
    let says = "process 2 (kthreadd) was not found to be an IOC";
    if fs::read_to_string("/proc/2/comm").is_ok_and(|name| name == "kthreadd\n") {
        expect(&agent(&["record", "--dir", &rig.log(), "--pid", "2", "--duration", "1s"]), FAILURE, &[says]);
    }
}

#[test]
fn no_ioc_is_said_and_packets_are_recorded() {
    let Some(rig) = Rig::new("no-ioc") else { return };
    let mut server = rig.foreign_server(5099, "FOREIGN:SP");
    let mut client = rig.client("libca", &[5099], &[]);
    // A process namespace of its own, so that it finds no IOC of other tests.
    let mut recorder =
        rig.isolated_agent(&["record", "--dir", &rig.log(), "--flush", "200ms", "--port", "5099"]);
    // Nothing is written before packets are captured, and only then is the channel's name seen.
    let segment = || fs::read_dir(rig.log()).is_ok_and(|mut entries| entries.next().is_some());
    wait_until("the recorder writes", segment);
    client.connect("FOREIGN:SP");
    rig.wait_until_recording(&mut client, "FOREIGN:SP", "packet");
    wait_until("it says that there is none", || recorder.errors().contains("no IOC"));
    assert!(recorder.stop().success(), "{}", recorder.errors());
    assert!(server.runs());
}

#[test]
fn a_full_disk_is_said_and_survived() {
    let Some(rig) = Rig::new("full-disk") else { return };
    rig::enter_private_mounts();
    rig::mount_small(&rig.log(), "size=256k");
    let ioc = rig.ioc("full", 5074, "puts.db", &[]);
    let mut client = rig.client("libca", &[5074], &[]);
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument(), "--max-disk", "64M"]);
    rig.wait_until_recording(&mut client, "PUT:READY", "both");
    // Someone else fills it.
    let filler = rig.path("log/filler");
    fs::write(&filler, vec![0; 1 << 20]).expect_err("the disk fills");
    rig::wait_until("the recorder says so", || {
        client.flood("PUT:DOUBLE", 2000);
        // Its own oldest segments make room first.
        recorder.errors().contains("No space left") || recorder.errors().contains("deleted early")
    });
    assert!(recorder.runs());
    // There is room again: recording goes on.
    fs::remove_file(&filler).expect("the filler goes");
    rig::wait_until("it records again", || {
        client.put("PUT:LONG", 5, serde_json::json!(4711), true);
        rig.puts(&["--pv", "PUT:LONG"]).iter().any(|put| put["new"] == 4711)
    });
    assert!(recorder.stop().success(), "{}", recorder.errors());
    let info = rig.replay("info", &[]);
    let text = String::from_utf8_lossy(&info.stdout);
    let why = text.contains("No space left") || text.contains("deleted early");
    assert!(text.contains("storage") && why, "what became of the disk is shown: {text}");
}

#[test]
fn a_log_that_is_none_is_named() {
    let Some(rig) = Rig::new("bad-logs") else { return };
    fs::create_dir(rig.path("empty")).expect("a directory");
    fs::write(rig.path("foreign"), "These are not the events that you are looking for.\n").expect("a file");
    fs::write(rig.path("nothing"), "").expect("a file");
    for log in ["missing", "empty", "foreign", "nothing"] {
        let log = rig.path(log);
        for arguments in [&["info", &log][..], &["puts", &log], &["traces", &log], &["why", "PV", &log]] {
            expect(&reader(arguments), FAILURE, &[&log]);
        }
    }
}

/// A log that was copied while it grew, or whose disk was full: what is there is read.
#[test]
fn a_cut_log_is_read_as_far_as_it_goes() {
    let Some(rig) = Rig::new("cut-log") else { return };
    let ioc = rig.ioc("cut", 5074, "puts.db", &[]);
    let mut client = rig.client("libca", &[5074], &[]);
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument()]);
    rig.wait_until_recording(&mut client, "PUT:READY", "both");
    // On disk before the other is made, so in an earlier block.
    client.put("PUT:LONG", 5, serde_json::json!(1), true);
    rig::wait_until("the first put is in the log", || rig.puts(&["--pv", "PUT:LONG"]).len() == 1);
    client.put("PUT:LONG", 5, serde_json::json!(2), true);
    assert!(recorder.stop().success(), "{}", recorder.errors());
    assert_eq!(rig.puts(&["--pv", "PUT:LONG"]).len(), 2);

    let segment =
        fs::read_dir(rig.log()).expect("the log").next().expect("a segment").expect("its name").path();
    // The last block, of some 90 bytes, says only that the segment ends. The second put is in the one before.
    let bytes = fs::read(&segment).expect("the segment");
    fs::write(&segment, &bytes[..bytes.len() - 100]).expect("the segment is cut");
    let output = reader(&["puts", &rig.log(), "--pv", "PUT:LONG"]);
    expect(&output, FAILURE, &[segment.to_str().expect("a name"), "cut"]);
    assert_eq!(String::from_utf8_lossy(&output.stdout).lines().count(), 1, "what is whole is shown");
}

#[test]
fn a_pv_that_is_not_in_the_log_is_named() {
    let Some(rig) = Rig::new("no-pv") else { return };
    let ioc = rig.ioc("nopv", 5074, "puts.db", &[]);
    let mut client = rig.client("libca", &[5074], &[]);
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument()]);
    rig.wait_until_recording(&mut client, "PUT:READY", "both");
    assert!(recorder.stop().success(), "{}", recorder.errors());
    expect(&reader(&["why", "NO:SUCH:PV", &rig.log()]), FAILURE, &["NO:SUCH:PV"]);
}
