//! Recording must not affect any process, recorded or not: whatever a process pretends to be, whatever happens to its files,
//! and whichever of its threads and children start and end.

use crate::attaching::{checked, is_recorded};
use crate::rig::own_program::{Build, Own};
use crate::rig::{not_run, python, run, wait_until, Ioc, Needs, Rig, IOCREC};
use serde_json::{json, Value};
use std::fs::{File, Permissions};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

const PORT: u16 = 5074;

/// Users of these tests alone.
const USER: u32 = 61_701;
const OTHER_USER: u32 = 61_702;
const RESTARTED_USER: u32 = 61_703;

/// Prints the result of libc's ffs(0) and the bytes of its code on each request.
const VICTIM: &str = r#"
import ctypes, sys
libc = ctypes.CDLL(None)
address = ctypes.cast(libc.ffs, ctypes.c_void_p).value
print("ready", flush=True)
for line in sys.stdin:
    print(libc.ffs(0), ctypes.string_at(address, 16).hex())
    print("done", flush=True)
"#;

fn memory(ioc: &Ioc, address: u64, bytes: usize) -> Vec<u8> {
    let mut into = vec![0; bytes];
    let file = File::open(format!("/proc/{}/mem", ioc.pid())).expect("its memory");
    file.read_exact_at(&mut into, address).expect("it is there");
    into
}

fn not_probed(found: &Value, begin: &str) -> Vec<String> {
    let lines = found["not_probed"].as_array().cloned().unwrap_or_default();
    let lines = lines.iter().filter_map(|line| line.as_str().map(str::to_string));
    lines.filter(|line| line.starts_with(begin)).collect()
}

/// A process that looks like an IOC names a function of libc, and the middle of one of its own, as its records' process
/// functions. Neither is changed, in this process or in an unrelated one.
#[test]
fn an_imitation_that_names_other_code() {
    let Some(rig) = Rig::new("harmless-imitation") else { return };
    let Some(own) = Own::build(&rig, Build::Unexported) else { return };
    own.strip_but("pdbbase");
    let mut ioc = own.start(&rig, PORT, "first.db", &[]);
    let mut named = |line: &str| u64::from_str_radix(&ioc.command(line)[0], 16).expect("an address");
    let places = [named("name compress ffs"), named("name subArray inside")];
    let before = places.map(|place| memory(&ioc, place, 16));
    let interpreter = python("ioc.py").get_program().to_owned();
    let mut victim = rig.ioc_by("victim", Command::new(interpreter).args(["-c", VICTIM]));
    let answer = victim.command("ask");
    assert!(answer[0].starts_with("0 "), "{answer:?}");

    let found = checked(&ioc);
    let reasons = not_probed(&found, "rset->process of compress: ");
    assert!(reasons.iter().any(|reason| reason.contains("is not EPICS Base")), "{found}");
    let reasons = not_probed(&found, "rset->process of subArray: ");
    assert!(reasons.iter().any(|reason| reason.contains("no function begins")), "{found}");
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument()]);
    wait_until("processing is recorded", || {
        String::from_utf8_lossy(&rig.replay("traces", &[]).stdout).contains("ONE:TICK")
    });
    assert_eq!(victim.command("ask"), answer);
    assert_eq!(places.map(|place| memory(&ioc, place, 16)), before);
    assert!(recorder.stop().success(), "{}", recorder.errors());
    assert!(ioc.runs() && victim.runs());
}

/// How many bytes of a library's code in a process differ from the file.
fn changed_bytes(ioc: &Ioc, library: &str) -> usize {
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", ioc.pid())).expect("its mappings");
    let line = maps.lines().find(|line| line.contains(library) && line.contains(" r-xp ")).expect("its code");
    let words: Vec<&str> = line.split_whitespace().collect();
    let (start, end) = words[0].split_once('-').expect("a range");
    let hex = |text| u64::from_str_radix(text, 16).expect("hexadecimal");
    let mut file = vec![0; (hex(end) - hex(start)) as usize];
    let read = File::open(words[5]).expect("the file").read_at(&mut file, hex(words[2])).expect("its bytes");
    let memory = memory(ioc, hex(start), read);
    memory.iter().zip(&file).filter(|(one, other)| one != other).count()
}

/// Two IOCs use the same library, and one of them is recorded.
#[test]
fn an_ioc_that_is_not_recorded_has_no_breakpoints() {
    let Some(rig) = Rig::new("harmless-neighbour") else { return };
    let ioc = rig.ioc("recorded", PORT, "first.db", &[]);
    let other = rig.ioc("other", PORT + 10, "puts.db", &[]);
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument()]);
    let mut client = rig.client("libca", &[PORT], &[]);
    rig.wait_until_recording(&mut client, "ONE:SP", "both");
    assert!(changed_bytes(&ioc, "libdbCore") >= 5);
    // other tests' recorders may record it for a while
    wait_until("there are none in the other one", || changed_bytes(&other, "libdbCore") == 0);
    assert!(changed_bytes(&ioc, "libdbCore") >= 5);
    assert!(recorder.stop().success(), "{}", recorder.errors());
}

/// After a recorded IOC has ended, its program is overwritten in place, or removed and written anew, and started again. The
/// recorder must not use what it knew about the file.
#[test]
fn a_program_overwritten_between_two_starts() {
    // other recorders that remove their probes would keep it from being probed
    let Some(rig) = Rig::alone("harmless-overwritten") else { return };
    let Some(own) = Own::build(&rig, Build::Static) else { return };
    let Some(padded) = Own::build_with(&rig, Build::Static, &["-DPADDING"]) else { return };
    let first = rig.path("first");
    std::fs::copy(&own.program, &first).expect("a copy");
    // a user of its own, so that no other test's IOC is recorded
    let mut recorder = rig.record(&["--user", &RESTARTED_USER.to_string()]);
    for (start, program) in [&padded.program, &first, &padded.program, &first].into_iter().enumerate() {
        let mut ioc = rig.ioc_by("own", own.command(PORT, "first.db", &[]).uid(RESTARTED_USER));
        let mut client = rig.client("libca", &[PORT], &[]);
        let mut value = f64::from(1000 * (start as u32 + 1));
        wait_until("a put is seen inside the IOC", || {
            value += 1.0;
            client.put("ONE:SP", 6, json!(value), true);
            std::thread::sleep(std::time::Duration::from_millis(300));
            let seen = |put: &Value| put["requested"] == json!(value) && put["source"] != "packet";
            rig.puts(&["--pv", "ONE:SP"]).iter().any(seen)
        });
        for value in 1..20 {
            assert_eq!(client.put("ONE:SP", 6, json!(value), true), 1);
            assert_eq!(client.get("ONE:CALC"), json!(f64::from(value) * 2.0));
        }
        ioc.command("dbpf ONE:SP 3");
        assert!(ioc.runs(), "start {start}");
        ioc.kill();
        let inode = |path: &str| std::fs::metadata(path).expect("the program").ino();
        let before = inode(&own.program);
        if start >= 2 {
            std::fs::remove_file(&own.program).expect("it goes");
        }
        std::fs::copy(program, &own.program).expect("another one in its place");
        // whether the file system uses an inode's number again is its affair
        assert!(start >= 2 || inode(&own.program) == before, "nothing is tested");
    }
    assert!(recorder.stop().success(), "{}", recorder.errors());
}

/// While another recorder removes its probes, a program that was overwritten not long ago is not probed: the kernel might
/// carry out what was there before. Others are, and nobody but such a recorder can make that happen.
#[test]
fn probes_that_another_recorder_removes() {
    let Some(rig) = Rig::alone("harmless-closing") else { return };
    let Some(own) = Own::build(&rig, Build::Static) else { return };
    // a child of that name, which starts no program
    let named = |user: u32| {
        let mut command = python("forked.py");
        command.args([&user.to_string(), "iocrec-closing"]).stdout(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().expect("a pipe")).read_line(&mut line).expect("a line");
        assert_eq!(line, "ready\n");
        child
    };
    // the kernel names a program by its file, and this one is root's whoever starts it
    let closing = rig.path("iocrec-closing");
    std::fs::copy("/bin/sleep", &closing).expect("a copy");
    std::fs::set_permissions(&closing, Permissions::from_mode(0o4755)).expect("its mode");
    let of_root = || Command::new(&closing).arg("600").uid(USER).spawn().expect("it starts");
    let end = |mut child: std::process::Child| {
        child.kill().expect("a child");
        child.wait().expect("a child");
    };
    let mut recorder = rig.record(&[]);

    // a program that was made some time ago, and overwritten in place
    std::thread::sleep(std::time::Duration::from_secs(25));
    let program = std::fs::read(&own.program).expect("the program");
    let overwrite = || std::fs::write(&own.program, &program).expect("it is overwritten");
    overwrite();
    let anybody = [named(USER), of_root()];
    let mut first = own.start(&rig, PORT, "first.db", &["alone"]);
    wait_until("anybody may have that name", || changed_bytes(&first, &own.program) > 0);
    first.kill();
    anybody.into_iter().for_each(end);

    let another = named(0);
    // by then nothing is left of what was known of them
    std::thread::sleep(std::time::Duration::from_secs(2));
    overwrite();
    let changed = own.start(&rig, PORT, "first.db", &["alone"]);
    let copy = own.program.clone() + "-copy";
    std::fs::copy(&own.program, &copy).expect("a copy");
    let anew = rig.ioc_by("anew", Command::new(&copy).args(own.command(0, "puts.db", &["alone"]).get_args()));
    let unchanged = rig.ioc("unchanged", PORT + 10, "puts.db", &[]);
    wait_until("the other one is probed", || changed_bytes(&unchanged, "libdbCore") > 0);
    wait_until("a new file is", || changed_bytes(&anew, &copy) > 0);
    assert_eq!(changed_bytes(&changed, &own.program), 0, "{}", recorder.errors());
    // its packets are recorded, and it says so
    wait_until("it says so", || recorder.errors().contains("another recorder's probes may still be there"));
    assert_eq!(changed_bytes(&changed, &own.program), 0, "{}", recorder.errors());
    end(another);
    wait_until("it is probed then", || changed_bytes(&changed, &own.program) > 0);
    assert!(recorder.stop().success(), "{}", recorder.errors());
    let errors = recorder.errors();
    assert!(
        errors.contains("is probed from now on: ")
            && errors.contains("or another recorder's probes are gone"),
        "{errors}"
    );
}

/// While another recorder runs, which may not have removed its probes yet, a program that was overwritten a moment ago is not
/// probed either, and is once that one is gone. Others are.
#[test]
fn a_program_overwritten_beside_another_recorder() {
    let Some(rig) = Rig::alone("harmless-beside") else { return };
    let Some(own) = Own::build(&rig, Build::Static) else { return };
    if std::fs::metadata(&own.program).and_then(|about| about.created()).is_err() {
        // there any new file counts as overwritten
        return not_run("harmless-beside", Needs::Kernel("birth times of files".into()));
    }
    let mut recorder = rig.record(&[]);
    let mut other = rig.agent(&["watch"]);
    let mut first = own.start(&rig, PORT, "first.db", &["alone"]);
    wait_until("a new file is probed", || changed_bytes(&first, &own.program) > 0);
    first.kill();

    // it was made some time ago, and is overwritten in place
    std::thread::sleep(std::time::Duration::from_secs(25));
    let program = std::fs::read(&own.program).expect("the program");
    std::fs::write(&own.program, &program).expect("it is overwritten");
    let changed = own.start(&rig, PORT, "first.db", &["alone"]);
    let unchanged = rig.ioc("unchanged", PORT + 10, "puts.db", &[]);
    wait_until("the other one is probed", || changed_bytes(&unchanged, "libdbCore") > 0);
    // its packets are recorded, and it says so
    wait_until("it says so", || recorder.errors().contains("another recorder's probes may still be there"));
    assert_eq!(changed_bytes(&changed, &own.program), 0, "{}", recorder.errors());
    assert!(other.stop().success(), "{}", other.errors());
    wait_until("it is probed then", || changed_bytes(&changed, &own.program) > 0);
    wait_until("it says that, too", || recorder.errors().contains("is probed from now on"));
    assert!(recorder.stop().success(), "{}", recorder.errors());
}

/// The thread that the probes are attached to ends while others continue (epicsThreadExitMain, as in `softIoc -S`). It is the
/// first thread, unless another one has the name of a thread that lasts.
#[test]
fn the_first_thread_ends_while_it_is_recorded() {
    let Some(rig) = Rig::new("harmless-leaves") else { return };
    let Some(own) = Own::build(&rig, Build::Shared) else { return };
    let mut ioc = own.start(&rig, PORT, "first.db", &["later"]);
    ioc.command("anonymous");
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument()]);
    let mut client = rig.client("libca", &[PORT], &[]);
    rig.wait_until_recording(&mut client, "ONE:SP", "both");
    ioc.command("leave");
    wait_until("its first thread ends", || {
        std::fs::read(format!("/proc/{}/maps", ioc.pid())).is_ok_and(|maps| maps.is_empty())
    });
    wait_until("it reports missing hits", || recorder.errors().contains("hits are missing"));
    client.put("ONE:SP", 6, json!(-8.5), true);
    ioc.command("dbpf ONE:SP 12");
    assert!(recorder.stop().success(), "{}", recorder.errors());
    let puts = rig.puts(&["--all", "--pv", "ONE:SP"]);
    let of = |value: Value| puts.iter().filter(|put| put["new"] == value).count();
    assert_eq!((of(json!(-8.5)), of(json!(12.0))), (1, 1), "{puts:?}");
    let info = rig.replay("info", &[]);
    let info = String::from_utf8_lossy(&info.stdout).into_owned();
    assert!(info.contains("the thread that the probes hung on had ended"), "{info}");
}

/// A forked child inherits the IOC's breakpoints, but not the probes that handle them.
#[test]
fn a_forked_child_goes_on() {
    let Some(rig) = Rig::new("harmless-fork") else { return };
    let Some(own) = Own::build(&rig, Build::Shared) else { return };
    let mut ioc = own.start(&rig, PORT, "first.db", &[]);
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument()]);
    let mut client = rig.client("libca", &[PORT], &[]);
    rig.wait_until_recording(&mut client, "ONE:SP", "both");
    // more than what is put while the recorder is waited for
    const FIRST: i32 = 1_000_000;
    for value in FIRST..FIRST + 10 {
        let output = ioc.command("fork ONE:READY");
        assert_eq!(output.last().map(String::as_str), Some("exit 7"), "{output:?}");
        // and in its parent all is as before
        client.put("ONE:SP", 6, json!(value), true);
    }
    assert!(recorder.stop().success(), "{}", recorder.errors());
    let puts = rig.puts(&["--all"]);
    let of = |record: &str| {
        let put = |put: &&Value| put["record"] == record && put["requested"].as_f64() >= Some(FIRST.into());
        puts.iter().filter(put).count()
    };
    assert_eq!((of("ONE:READY"), of("ONE:SP")), (0, 10), "{puts:?}");
}

/// The recorder places no probe in code that the process has changed in its memory.
#[test]
fn code_that_is_not_its_file_s() {
    let Some(rig) = Rig::new("harmless-patched") else { return };
    let Some(own) = Own::build(&rig, Build::Shared) else { return };
    let mut ioc = own.start(&rig, PORT, "first.db", &[]);
    ioc.command("patch callbackRequestProcessCallbackDelayed");
    let found = checked(&ioc);
    let reasons = not_probed(&found, "callbackRequestProcessCallbackDelayed: ");
    assert!(reasons.iter().any(|reason| reason.contains("its code in memory is not that of")), "{found}");
    is_recorded(&rig, &ioc);
}

/// Another recorder's probes are there already.
#[test]
fn two_recorders_at_once() {
    let Some(rig) = Rig::new("harmless-two") else { return };
    let mut ioc = rig.ioc("twice", PORT, "first.db", &[]);
    let mut client = rig.client("libca", &[PORT], &[]);
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument()]);
    rig.wait_until_recording(&mut client, "ONE:SP", "both");
    let found = checked(&ioc);
    assert!(!found.to_string().contains("in memory") && !found.to_string().contains("breakpoint"), "{found}");
    let watch = ["watch", "--pid", &ioc.pid_argument(), "--no-process"];
    let mut other = rig.agent(&watch);
    let mut value = 1000;
    wait_until("the other one sees a put inside the IOC", || {
        value += 1;
        ioc.command(&format!("dbpf ONE:SP {value}"));
        other.line_within(std::time::Duration::from_millis(300)).is_some_and(|line| line.contains("ONE:SP"))
    });
    assert!(other.stop().success(), "{}", other.errors());
    client.put("ONE:SP", 6, json!(-8.5), true);
    assert!(recorder.stop().success(), "{}", recorder.errors());
    assert!(rig
        .puts(&["--pv", "ONE:SP"])
        .iter()
        .any(|put| put["new"] == json!(-8.5) && put["source"] == "both"));
    assert!(ioc.runs());
    let output = run(Command::new(IOCREC).args(["check"]));
    assert!(output.status.success());
}

/// With --user, other users' processes are left alone, and `check` reports so.
#[test]
fn only_the_processes_of_a_user() {
    let Some(rig) = Rig::new("harmless-users") else { return };
    let Some(own) = Own::build(&rig, Build::Static) else { return };
    let ioc = rig.ioc_by("own", own.command(PORT, "first.db", &[]).uid(USER));
    let other = rig.ioc_by("own", own.command(PORT + 10, "puts.db", &[]).uid(OTHER_USER));
    let output = run(Command::new(IOCREC).args(["check", "--json", "--user", &USER.to_string()]));
    let found: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let has = |key: &str, ioc: &Ioc| {
        let list = found[key].as_array().cloned().unwrap_or_default();
        list.into_iter().find(|found| found["pid"] == ioc.pid())
    };
    assert!(has("iocs", &ioc).is_some() && has("iocs", &other).is_none(), "{found}");
    let refused = has("not_recorded", &other).unwrap_or_else(|| panic!("{found}"));
    assert_eq!(refused["user"], OTHER_USER.to_string(), "{refused}");
    assert!(refused["reason"].as_str().is_some_and(|reason| reason.contains("--user")), "{refused}");
    assert!(has("not_recorded", &ioc).is_none(), "{found}");

    let mut recorder = rig.record(&["--user", &USER.to_string()]);
    let mut client = rig.client("libca", &[PORT], &[]);
    rig.wait_until_recording(&mut client, "ONE:SP", "both");
    assert!(recorder.stop().success(), "{}", recorder.errors());
    let iocs = rig.replay("info", &[]);
    let iocs = String::from_utf8_lossy(&iocs.stdout).into_owned();
    assert!(iocs.contains(&format!("pid {}", ioc.pid())), "{iocs}");
    assert!(!iocs.contains(&format!("pid {}", other.pid())), "{iocs}");

    let mut wrong = rig.agent(&["watch", "--user", "no-such-user"]);
    assert_eq!(wrong.wait().code(), Some(2));
    assert!(wrong.errors().contains("--user no-such-user: no such user"), "{}", wrong.errors());
    let mut none = rig.agent(&["watch", "--user", &USER.to_string(), "--pid", &other.pid_argument()]);
    assert_eq!(none.wait().code(), Some(1));
    assert!(none.errors().contains("whom --user leaves out"), "{}", none.errors());
}
