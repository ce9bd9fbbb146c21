//! What IOCs do with files and devices, compared with what a record's subroutine did (tests/rig/files.c), call by call.

use crate::rig::own_program::shared_library;

use crate::rig::{json_lines, python, wait_until, Ioc, Rig};
use serde_json::{json, Value};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::time::Duration;

const PORT: u16 = 5079;

fn rows(rig: &Rig) -> Vec<Value> {
    json_lines(&rig.replay("io", &["--json"]).stdout)
}

fn start(rig: &Rig, directory: &Path) -> Ioc {
    let library = shared_library(rig, "files.c");
    let mut ioc = rig.ioc_with("files", PORT, "files.db", &["--macros", "P=F:", "--routines", &library]);
    ioc.command(&format!("epicsEnvSet FILES_DIR {}", directory.display()));
    ioc
}

/// Processes a record; its value.
fn process(ioc: &mut Ioc, record: &str) -> f64 {
    put(ioc, &format!("{record}.PROC"), 1)
}

/// Puts to a field of a record, which processes it; its value.
fn put(ioc: &mut Ioc, field: &str, value: u16) -> f64 {
    ioc.command(&format!("dbpf F:{field} {value}"));
    let record = field.split('.').next().unwrap_or_default();
    let lines = ioc.command(&format!("dbgf F:{record}"));
    let value = lines.iter().find_map(|line| line.strip_prefix("DBF_DOUBLE:")?.trim().parse().ok());
    value.unwrap_or_else(|| panic!("{lines:?}"))
}

/// The row of a file or peer.
fn row<'a>(rows: &'a [Value], name: &str) -> &'a Value {
    rows.iter().find(|row| row["file"] == name).unwrap_or_else(|| panic!("no {name}: {rows:#?}"))
}

fn of_kind<'a>(row: &'a Value, kind: &str) -> &'a Value {
    let calls = row["calls"].as_array().expect("kinds");
    calls.iter().find(|of| of["kind"] == kind).unwrap_or(&Value::Null)
}

fn calls(row: &Value) -> [u64; 5] {
    ["read", "write", "sync", "wait", "meta"].map(|kind| of_kind(row, kind)["calls"].as_u64().unwrap_or(0))
}

/// Waits until the recorder follows the IOC: its descriptors are in the log, or it has had two looks.
fn wait_until_followed(rig: &Rig) {
    let log = || String::from_utf8_lossy(&rig.replay("records", &[]).stdout).contains("F:WORK");
    wait_until("the IOC is in the log", log);
    std::thread::sleep(Duration::from_millis(1500));
}

/// BPF programs in the kernel of which a process has a descriptor, by type.
fn programs_of(pid: u32) -> Vec<String> {
    let directory = std::fs::read_dir(format!("/proc/{pid}/fdinfo")).expect("its descriptors");
    let infos = directory.flatten().filter_map(|entry| std::fs::read_to_string(entry.path()).ok());
    let types = infos.filter_map(|info| {
        Some(info.lines().find_map(|line| line.strip_prefix("prog_type:"))?.trim().to_owned())
    });
    types.collect()
}

/// BPF_PROG_TYPE_RAW_TRACEPOINT, the kernel's number.
const RAW_TRACEPOINT: &str = "17";

#[test]
fn every_call_counts_for_its_file() {
    let Some(rig) = Rig::new("files") else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let mut ioc = start(&rig, directory.path());
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument(), "--io"]);
    wait_until_followed(&rig);
    // another process does the same things, which must not be seen
    let mine = directory.path().join("not-the-iocs");
    std::fs::write(&mine, "x").expect("written");
    assert_eq!(process(&mut ioc, "WORK"), 37.0, "the routine's calls worked");
    process(&mut ioc, "REUSE");
    std::fs::write(&mine, "x").expect("written");
    std::thread::sleep(Duration::from_millis(1500)); // the next look
    assert!(recorder.stop().success(), "{}", recorder.errors());
    let all = rows(&rig);
    let path = |name: &str| directory.path().join(name).display().to_string();
    let found = |name: &str| row(&all, &path(name)).clone();

    let main = found("main.dat");
    assert_eq!(calls(&main), [3, 6, 3, 0, 6], "open, seek, stat, dup, two closes: {main:#}");
    assert_eq!((&main["opens"], &main["errors"]), (&json!(1), &json!(0)));
    assert_eq!((&main["bytes_read"], &main["bytes_written"]), (&json!(460), &json!(150 + 5000 + 100 + 7)));
    assert_eq!(main["in_progress"], 0);
    assert_eq!((&main["pid"], &main["ioc"]), (&json!(ioc.pid()), &json!("files")));
    for of in main["calls"].as_array().expect("kinds") {
        let histogram = of["histogram"].as_array().expect("buckets");
        let sum: u64 = histogram.iter().filter_map(Value::as_u64).sum();
        assert_eq!(Some(sum), of["calls"].as_u64(), "each call is in a bucket: {of}");
        let [longest, all] = ["longest_seconds", "seconds"].map(|key| of[key].as_f64().expect("a time"));
        assert!(0.0 < longest && longest <= all && all < 2.0, "{of}");
    }
    assert_eq!(found("vector.dat")["bytes_written"], 40);
    assert_eq!(found("append.dat")["bytes_written"], 11);
    let short = found("auto.savB");
    // five opens, five closes, five renames
    assert_eq!((&short["opens"], calls(&short)), (&json!(5), [0, 5, 5, 0, 15]), "{short:#}");
    assert_eq!(short["bytes_written"], 5010);
    assert_eq!(found("auto.sav")["how"], json!(["named"]));
    let missing = found("missing/file");
    assert_eq!((&missing["how"], &missing["last_error"]), (&json!(["failed"]), &json!(2)), "{missing:#}");
    assert_eq!(found("odd\n\\xff name")["bytes_written"], 1);
    let long = all.iter().find(|row| row["file"].as_str().is_some_and(|name| name.starts_with("xxx")));
    let long = long.expect("a long path");
    assert_eq!(long["file"].as_str().map(str::len), Some(511 + 3), "cut: {long}");
    assert!(long["file"].as_str().is_some_and(|name| name.ends_with("...")), "{long}");

    // other ways to a descriptor
    assert_eq!(found("ranged.dat")["bytes_written"], 100, "not what the number was used for later");
    assert_eq!(
        (&found("first.dat")["bytes_written"], &found("second.dat")["bytes_written"]),
        (&json!(21), &json!(0))
    );
    assert_eq!(found("parent.dat")["bytes_written"], 12, "not what a child did");
    assert!(!all.iter().any(|row| row["file"] == path("not-the-iocs")), "of another process");
    // the pipe was there for a moment, so it has no name; both of its ends are told
    let has = |key: &str| all.iter().any(|row| row["is_named"] == false && row[key] == 33);
    assert!(has("bytes_written") && has("bytes_read"), "{all:#?}");
    let text = String::from_utf8_lossy(&rig.replay("io", &[]).stdout).into_owned();
    assert!(text.contains("auto.savB") && text.contains("odd\\n\\xff name"), "{text}");

    compare_with_darshan(&rig, directory.path());
}

/// A log for Darshan, read by Darshan's own reader, has what the routine did.
fn compare_with_darshan(rig: &Rig, directory: &Path) {
    let into = directory.join("out.darshan");
    let wrote = rig.replay("io", &["--darshan", &into.display().to_string()]);
    let said = String::from_utf8_lossy(&wrote.stderr).into_owned();
    assert!(wrote.status.success(), "{said}");
    let summary = directory.join("summary.html");
    let read = python("darshan_log.py").arg(&into).arg(&summary).output().expect("Python runs");
    let errors = String::from_utf8_lossy(&read.stderr).into_owned();
    assert!(read.status.success(), "{errors}");
    let printed = String::from_utf8_lossy(&read.stdout).into_owned();
    let log: Value = serde_json::from_str(printed.lines().next().expect("a line")).expect("JSON");
    let summary = std::fs::read_to_string(summary).expect("Darshan's summary");
    assert!(
        summary.contains("POSIX_BYTES_WRITTEN") || summary.contains("Per-Module Statistics: POSIX"),
        "{printed}"
    );
    assert_eq!(log["nprocs"], 1);
    let main = &log["files"][directory.join("main.dat").display().to_string()];
    let expected = json!({
        "POSIX_OPENS": 2, "POSIX_FILENOS": -1, "POSIX_DUPS": 1, "POSIX_READS": 3, "POSIX_WRITES": 6,
        "POSIX_SEEKS": 1, "POSIX_STATS": 1, "POSIX_MMAPS": -1, "POSIX_FSYNCS": 1, "POSIX_FDSYNCS": 2,
        "POSIX_MODE": 0o640, "POSIX_BYTES_READ": 460, "POSIX_BYTES_WRITTEN": 5257,
        "POSIX_MAX_BYTE_READ": 4495, "POSIX_MAX_BYTE_WRITTEN": 10099,
        // 4096 behind 59; then right behind; writes 50 and 100 behind the one before, 150 likewise, 10000, 4496 is not
        "POSIX_SEQ_READS": 2, "POSIX_CONSEC_READS": 1, "POSIX_SEQ_WRITES": 4, "POSIX_CONSEC_WRITES": 3,
        "POSIX_RW_SWITCHES": 2, "POSIX_MEM_NOT_ALIGNED": 1, "POSIX_MEM_ALIGNMENT": 8,
        // 50, 100, 150, 10000, 4296, 4496
        "POSIX_FILE_NOT_ALIGNED": 6, "POSIX_FILE_ALIGNMENT": 4096,
        "POSIX_SIZE_READ_0_100": 1, "POSIX_SIZE_READ_100_1K": 2,
        "POSIX_SIZE_WRITE_0_100": 5, "POSIX_SIZE_WRITE_1K_10K": 1,
        "POSIX_ACCESS1_ACCESS": 50, "POSIX_ACCESS1_COUNT": 3, "POSIX_ACCESS2_ACCESS": 200, "POSIX_ACCESS2_COUNT": 2,
        "POSIX_ACCESS3_ACCESS": 5000, "POSIX_ACCESS3_COUNT": 1, "POSIX_ACCESS4_ACCESS": 100, "POSIX_ACCESS4_COUNT": 1,
        // 4096 - 60, 10000 - 5150
        "POSIX_STRIDE1_STRIDE": 4850, "POSIX_STRIDE1_COUNT": 1, "POSIX_STRIDE2_STRIDE": 4036, "POSIX_STRIDE2_COUNT": 1,
        "POSIX_STRIDE3_COUNT": 0,
    });
    for (counter, value) in expected.as_object().expect("an object") {
        assert_eq!(&main[counter], value, "{counter}: {main:#}");
    }
    let time = |key: &str| main[key].as_f64().expect("a time");
    assert!(time("POSIX_F_OPEN_START_TIMESTAMP") > 0.0);
    assert!(time("POSIX_F_OPEN_END_TIMESTAMP") < time("POSIX_F_WRITE_START_TIMESTAMP"), "{main:#}");
    assert!(time("POSIX_F_WRITE_START_TIMESTAMP") < time("POSIX_F_READ_END_TIMESTAMP"), "{main:#}");
    assert!(time("POSIX_F_READ_END_TIMESTAMP") < time("POSIX_F_CLOSE_END_TIMESTAMP"), "{main:#}");
    assert!(time("POSIX_F_WRITE_TIME") >= time("POSIX_F_MAX_WRITE_TIME"), "{main:#}");
    let append = &log["files"][directory.join("append.dat").display().to_string()];
    for counter in ["POSIX_SEQ_WRITES", "POSIX_CONSEC_WRITES", "POSIX_MAX_BYTE_WRITTEN"] {
        assert_eq!(append[counter], -1, "its offset isn't known: {append:#}");
    }
    let auto = |name: &str| log["files"][directory.join(name).display().to_string()].clone();
    assert_eq!(auto("auto.savB")["POSIX_RENAME_SOURCES"], 5);
    assert_eq!(auto("auto.sav")["POSIX_RENAME_TARGETS"], 5);
    assert_ne!(auto("auto.sav")["POSIX_RENAMED_FROM"], 0);
    let wrote = rig.replay("io", &["--darshan-text", &directory.display().to_string()]);
    assert!(wrote.status.success(), "{wrote:?}");
    let written = std::fs::read_dir(directory).expect("the directory").flatten().map(|entry| entry.path());
    let written = written.filter(|path| path.extension().is_some_and(|ending| ending == "txt"));
    let text: String = written.map(|path| std::fs::read_to_string(path).expect("text")).collect();
    let line = text.lines().find(|line| line.contains("POSIX_BYTES_READ\t460\t"));
    assert!(
        line.is_some_and(|line| line.starts_with("POSIX\t0\t") && line.contains("main.dat\t/\t")),
        "{text}"
    );
}

/// A device that answers each tenth request late.
fn device() -> (u16, std::thread::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("its address").port();
    let thread = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("the IOC");
        let mut request = [0; 6];
        let mut count = 0;
        while stream.read_exact(&mut request).is_ok() {
            count += 1;
            std::thread::sleep(Duration::from_millis(if count % 10 == 0 { 80 } else { 3 }));
            if stream.write_all(b"12.34567\r\n").is_err() {
                return;
            }
        }
    });
    (port, thread)
}

#[test]
fn a_devices_latency_is_the_time_in_poll() {
    let Some(rig) = Rig::new("files-device") else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let mut ioc = start(&rig, directory.path());
    let (port, thread) = device();
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument(), "--io"]);
    wait_until_followed(&rig);
    // each put processes the record: the first finds nobody at port 0, the second asks
    put(&mut ioc, "ASK.A", 30);
    let longest = put(&mut ioc, "ASK.B", port);
    thread.join().expect("the device ends");
    ioc.kill();
    wait_until("its end", || {
        let iocs = json_lines(&rig.replay("iocs", &["--json"]).stdout);
        iocs.iter().any(|line| !line["ended"].is_null())
    });
    assert!(recorder.stop().success(), "{}", recorder.errors());
    let all = rows(&rig);
    let device = row(&all, &format!("127.0.0.1:{port}"));
    // connect and close
    assert_eq!(calls(device), [30, 30, 0, 31, 2], "{device:#}");
    assert_eq!((&device["bytes_read"], &device["bytes_written"]), (&json!(300), &json!(180)));
    assert_eq!(device["timeouts"], 1);
    let wait = of_kind(device, "wait");
    let told = wait["longest_seconds"].as_f64().expect("a time");
    assert!(
        (0.08..=longest + 0.001).contains(&told) && told > longest - 0.05,
        "{told} {longest}: {device:#}"
    );
    // 2^16 to 2^17 us
    assert_eq!(wait["histogram"][17], 3, "three late answers: {device:#}");
    let receive = of_kind(device, "read")["longest_seconds"].as_f64().expect("a time");
    assert!(receive < 0.07, "the late answers were awaited before: {receive}");
}

#[test]
fn nothing_is_loaded_unless_it_is_asked_for() {
    let Some(rig) = Rig::new("files-none") else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let mut ioc = start(&rig, directory.path());
    let pid = ioc.pid_argument();
    let count = |recorder: u32| programs_of(recorder).iter().filter(|kind| *kind == RAW_TRACEPOINT).count();
    let mut recorder = rig.record(&["--pid", &pid]);
    wait_until_followed(&rig);
    let without = count(recorder.pid());
    assert!(recorder.stop().success(), "{}", recorder.errors());
    let said = rig.replay("io", &[]);
    assert!(String::from_utf8_lossy(&said.stderr).contains("--io"), "{said:?}");
    let mut recorder = rig.record(&["--pid", &pid, "--io"]);
    wait_until("its programs", || count(recorder.pid()) == without + 2);
    wait_until("what it was used for", || !rows(&rig).is_empty());
    assert!(recorder.stop().success(), "{}", recorder.errors());
    ioc.stop();
}

/// Without BPF there are the sums of /proc.
#[test]
fn the_packet_tier_has_sums() {
    let Some(rig) = Rig::new("files-packet") else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let mut ioc = start(&rig, directory.path());
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument(), "--io", "--tier", "packet"]);
    wait_until("the first look", || {
        let iocs = json_lines(&rig.replay("iocs", &["--json"]).stdout);
        !iocs.is_empty()
    });
    std::thread::sleep(Duration::from_millis(2500)); // two looks
    let pid = ioc.pid();
    let of_kernel = || {
        let text = std::fs::read_to_string(format!("/proc/{pid}/io")).expect("its sums");
        let number = text.lines().find_map(|line| line.strip_prefix("wchar: ")?.parse::<u64>().ok());
        number.expect("bytes written")
    };
    let before = of_kernel();
    process(&mut ioc, "WORK");
    let written = of_kernel() - before;
    std::thread::sleep(Duration::from_millis(1500));
    assert!(recorder.stop().success(), "{}", recorder.errors());
    assert!(recorder.errors().contains("only each IOC's sums"), "{}", recorder.errors());
    let all = rows(&rig);
    assert_eq!(all.len(), 1, "{all:#?}");
    assert_eq!(all[0]["how"], json!(["process"]));
    let told = all[0]["bytes_written"].as_u64().expect("bytes");
    // some of it may have been written before
    assert!(
        written >= 10_000 && (written..written + 2000).contains(&told),
        "{told}, truth {written}: {all:#?}"
    );
    assert_eq!(all[0]["calls"][0]["longest_seconds"], Value::Null, "times aren't known");
}
