//! Tables: the schema is that of docs/tables.md; files are the same whenever a log is exported; a log that grows, and whose old
//! segments are deleted, leaves each row once; what is not ours stays. With the help of DuckDB (`check_tables.py`), the formats
//! are compared with each other and with what the other commands say.

mod common;
#[path = "../../tests/rig/not_run.rs"]
mod not_run;

use common::{complete, happenings, iocreplay, measured, outcome, process, put, run, segments, write_events};
use common::{write_log, MS, SCAN, SECOND};
use iocrec_log::event::{Array, Complete, Dbf, Fact, Ioc, PutKind, Value};
use iocreplay::tables::schema::Of;
use not_run::{not_run, Needs};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The columns that the page has of a table: name and type, a value's as one.
fn documented(page: &str, table: &str) -> Vec<(String, String, bool)> {
    let section = page.split(&format!("\n### {table}\n")).nth(1).expect("a section");
    let section = section.split("\n### ").next().expect("a section");
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    rows.map(|row| {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        (cells[1].trim_matches('`').to_owned(), cells[2].to_owned(), cells[3] != "no")
    })
    .collect()
}

#[test]
fn the_page_has_every_column() {
    let page = fs::read_to_string(here().join("../docs/tables.md")).unwrap();
    let first: Vec<_> = ["time", "time_ns", "host", "ioc", "run"].into();
    let value: Vec<_> =
        ["_num", "_int", "_str", "_array", "_array_int", "_array_str", "_count", "_cut"].into();
    for of in Of::ALL {
        let table = of.table();
        let mut columns = table.columns.iter();
        let begin: Vec<&str> = columns.by_ref().take(first.len()).map(|column| column.name).collect();
        assert_eq!(begin, first, "{}", table.name);
        for (name, kind, nullable) in documented(&page, table.name) {
            if let Some(name) = name.strip_suffix("_*") {
                assert_eq!(kind, "values");
                for part in &value {
                    let column = columns.next().expect("a column of a value");
                    assert_eq!((column.name, column.nullable), (&*format!("{name}{part}"), true));
                }
                continue;
            }
            let column = columns.next().unwrap_or_else(|| panic!("{}: {name} is not there", table.name));
            assert_eq!((column.name, column.kind.name()), (&*name, &*kind), "{}", table.name);
            assert_eq!(column.nullable, nullable, "{}.{name}", table.name);
        }
        assert!(columns.next().is_none(), "{}: more columns than on the page", table.name);
        assert!(page.contains(&format!("\n### {}\n", table.name)));
    }
}

/// All files below a directory with their contents.
fn files(root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut left = vec![root.to_owned()];
    while let Some(directory) = left.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                left.push(path);
            } else {
                found.insert(path.strip_prefix(root).unwrap().to_owned(), fs::read(&path).unwrap());
            }
        }
    }
    found
}

/// The rows of a table of JSON lines.
fn rows(root: &Path, table: &str) -> Vec<serde_json::Value> {
    let files = files(root).into_iter().filter(|(path, _)| path.starts_with(table));
    let lines = files.flat_map(|(_, bytes)| {
        let text = String::from_utf8(bytes).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect::<Vec<_>>()
    });
    lines.collect()
}

fn export(directory: &Path, arguments: &[&str]) -> String {
    let (code, out, err) = run(directory, &[&["export"], arguments].concat());
    assert_eq!((code, &*err), (0, ""), "{out}");
    out
}

/// A log of several segments: records that scan with values of many digits, whose alarms come and go.
fn scanning(directory: &Path) {
    let mut state = 1_u64;
    let events = (0..40_000_u64).flat_map(|number| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let time = SECOND + number * 10 * MS;
        let severity = (number / 500 % 3) as u16;
        let value = f64::from_bits(0x3ff0_0000_0000_0000 | state >> 12);
        [(time, process(SCAN, -100, 2, 2)), (time + 1000, complete(SCAN, -200, 2, value, severity))]
    });
    write_events(directory, "box1", 7, events.collect());
}

/// The part of a log with these segments.
fn part(of: &Path, to: &Path, numbers: std::ops::Range<usize>) {
    let _ = fs::remove_dir_all(to);
    fs::create_dir_all(to).unwrap();
    for file in &segments(of)[numbers] {
        fs::copy(file, to.join(file.file_name().unwrap())).unwrap();
    }
}

#[test]
fn the_same_log_gives_the_same_files() {
    let dir = tempfile::tempdir().unwrap();
    write_log(&dir.path().join("log"), "box1", 1);
    for format in ["--ndjson", "--csv", "--parquet"] {
        if format == "--parquet" && !cfg!(feature = "parquet") {
            continue;
        }
        let told = export(dir.path(), &[format, "a", "log"]);
        export(dir.path(), &[format, "b", "log"]);
        let once = files(&dir.path().join("a"));
        assert!(once.len() > 8, "{told}");
        assert_eq!(once, files(&dir.path().join("b")));
        assert_eq!(told.replace("in a", "in b"), export(dir.path(), &[format, "b", "log"]));
        assert_eq!(once, files(&dir.path().join("b")), "exported twice");
        fs::remove_dir_all(dir.path().join("a")).unwrap();
        fs::remove_dir_all(dir.path().join("b")).unwrap();
    }
}

#[test]
fn a_log_that_grows_and_loses_its_beginning_leaves_each_row_once() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    scanning(&at("log"));
    let count = segments(&at("log")).len();
    assert!(count >= 6, "{count} segments");
    // a copy cut short, as of a recorder that still writes
    part(&at("log"), &at("part"), 0..3);
    let last = segments(&at("part"))[2].clone();
    let bytes = fs::read(&last).unwrap();
    fs::write(&last, &bytes[..bytes.len() / 2]).unwrap();
    let _ = run(dir.path(), &["export", "--ndjson", "t", "part"]);
    part(&at("log"), &at("part"), 0..4);
    export(dir.path(), &["--ndjson", "t", "part"]);
    part(&at("log"), &at("part"), 2..count);
    let (code, _, err) = run(dir.path(), &["export", "--ndjson", "t", "part"]);
    assert!(code == 0 && err.contains("has more than the log"), "{err}");
    export(dir.path(), &["--ndjson", "whole", "log"]);
    for table in ["processing", "chains", "values", "alarms"] {
        let key = |row: &serde_json::Value| {
            let cell = |name: &str| row[name].to_string();
            [
                cell("time_ns"),
                cell("record"),
                cell("outcome"),
                cell("severity"),
                cell("value_num"),
                cell("source"),
            ]
        };
        let (mut seen, mut whole): (Vec<_>, Vec<_>) = (
            rows(&at("t"), table).iter().map(key).collect(),
            rows(&at("whole"), table).iter().map(key).collect(),
        );
        seen.sort();
        whole.sort();
        assert!(whole.len() > 50, "{table}");
        let twice = seen.windows(2).filter(|pair| pair[0] == pair[1]).count();
        assert_eq!(twice, 0, "{table}");
        let set = |rows: &[[String; 6]]| rows.iter().cloned().collect::<BTreeSet<_>>();
        let (more, less) = (&set(&seen) - &set(&whole), &set(&whole) - &set(&seen));
        assert!(more.is_empty() && less.is_empty(), "{table}: more {more:?}, less {less:?}");
    }
    let last = rows(&at("t"), "iocs");
    assert_eq!(last.len(), 2, "an IOC that lives on has one row: {last:?}");
    // an older copy changes nothing
    let before = files(&at("t"));
    part(&at("log"), &at("part"), 0..2);
    let _ = run(dir.path(), &["export", "--ndjson", "t", "part"]);
    let after = files(&at("t"));
    let names = |files: &BTreeMap<PathBuf, Vec<u8>>| {
        files.keys().filter(|path| !path.starts_with("_iocreplay")).cloned().collect::<Vec<_>>()
    };
    assert_eq!(names(&before), names(&after));
}

#[test]
fn what_is_not_ours_stays() {
    let dir = tempfile::tempdir().unwrap();
    write_log(&dir.path().join("log"), "box1", 1);
    let refused = |arguments: &[&str], code: i32, said: &str| {
        let (is, out, err) = run(dir.path(), &[&["export"], arguments].concat());
        assert!(
            is == code && err.contains(said) && err.lines().count() == 1 && out.is_empty(),
            "{is} {out}{err}"
        );
    };
    fs::create_dir(dir.path().join("foreign")).unwrap();
    fs::write(dir.path().join("foreign/notes"), "mine").unwrap();
    fs::write(dir.path().join("file"), "mine").unwrap();
    refused(
        &["--csv", "foreign", "log"],
        1,
        "foreign has other files in it; name a new or an empty directory",
    );
    refused(&["--csv", "file", "log"], 1, "can't write file");
    refused(&["--csv", "file/below", "log"], 1, "can't write file/below");
    refused(&["--csv", "log", "log"], 2, "");
    refused(&["--csv", "log/tables", "log"], 2, "");
    refused(&["--csv", "", "log"], 2, "--csv has an empty file name");
    refused(&["log"], 2, "name the format and the directory");
    refused(&["--csv", "a", "--ndjson", "a", "log"], 2, "name the format and the directory");
    refused(&["--csv", "a", "--table", "what", "log"], 2, "unknown table 'what'; choose puts, processing");
    assert!(!dir.path().join("a").exists());
    export(dir.path(), &["--csv", "a", "--table", "puts", "log"]);
    fs::write(dir.path().join("a/puts/notes"), "mine").unwrap();
    let before = files(&dir.path().join("a"));
    refused(&["--ndjson", "a", "log"], 1, "a has tables as csv; name another directory, or use --csv");
    refused(&["--csv", "a", "--pv", "T:*", "log"], 1, "a has tables of all rows");
    assert_eq!(files(&dir.path().join("a")), before);
    // another table, and the same once more
    let told = export(dir.path(), &["--csv", "a", "--table", "chains", "--table", "puts", "log"]);
    assert!(told.starts_with("puts "), "{told}");
    let after = files(&dir.path().join("a"));
    assert_eq!(after[Path::new("puts/notes")], b"mine");
    let puts = |files: &BTreeMap<PathBuf, Vec<u8>>| {
        files.clone().into_iter().filter(|(path, _)| path.starts_with("puts")).collect::<Vec<_>>()
    };
    assert_eq!(puts(&before), puts(&after));
    // a selection has a directory of its own
    export(dir.path(), &["--ndjson", "b", "--pv", "T:CALC*", "--since", "2026-09-21T14:13:21Z", "log"]);
    let records: BTreeSet<String> =
        rows(&dir.path().join("b"), "processing").iter().map(|row| row["record"].to_string()).collect();
    assert_eq!(records, ["\"T:CALC\"".to_owned()].into());
    refused(&["--ndjson", "b", "--pv", "T:CALC*", "log"], 1, "--since 2026-09-21T14:13:21.000000000Z --pv");
}

#[test]
fn a_full_disk_is_one_line_and_leaves_no_remains() {
    let dir = tempfile::tempdir().unwrap();
    scanning(&dir.path().join("log"));
    fs::create_dir(dir.path().join("small")).unwrap();
    let script =
        "mount -t tmpfs -o size=200k none small && \"$0\" export --ndjson small/t log; echo code $?; \
                  find small -name '*.part'";
    let made = Command::new("unshare")
        .args(["-m", "sh", "-c", script, env!("CARGO_BIN_EXE_iocreplay")])
        .current_dir(dir.path())
        .output();
    let Ok(output) = made else { return not_run("a_full_disk", Needs::Program("unshare")) };
    let (_, out, err) = outcome(output);
    if err.contains("unshare:") || err.contains("mount:") {
        return not_run("a_full_disk", Needs::root_or_kernel("mounting a file system"));
    }
    assert_eq!(out, "code 1\n", "{err}");
    assert!(err.lines().count() == 1 && err.contains("No space left") && err.contains("make room"), "{err}");
}

#[test]
fn memory_does_not_grow_with_the_log() {
    let dir = tempfile::tempdir().unwrap();
    scanning(&dir.path().join("log"));
    for (format, to) in [("--ndjson", "a"), ("--csv", "b"), ("--parquet", "c")] {
        if format == "--parquet" && !cfg!(feature = "parquet") {
            continue;
        }
        let (code, said, memory) = measured(dir.path(), &["export", format, to, "log"]);
        assert_eq!(code, 0, "{said}");
        assert!(memory < 64 << 20, "{format}: {memory} bytes");
    }
}

#[test]
fn names_of_hosts_stay_in_the_directory() {
    let dir = tempfile::tempdir().unwrap();
    write_log(&dir.path().join("log"), "../../a=b/c\n\u{202e}", 1);
    export(dir.path(), &["--ndjson", "t", "log"]);
    let files = files(&dir.path().join("t"));
    let data = files.keys().filter(|path| path.starts_with("puts"));
    for path in data {
        let host = path.components().nth(1).unwrap().as_os_str().to_str().unwrap().to_owned();
        assert_eq!(host, "host=..%2F..%2Fa%3Db%2Fc%0A%E2%80%AE");
    }
    assert_eq!(rows(&dir.path().join("t"), "puts")[0]["host"], "../../a=b/c\n\u{202e}");
    let below: BTreeSet<_> =
        fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(below, ["log", "t"].map(Into::into).into());
}

/// Compares the tables of a log with what other commands say, with DuckDB.
fn check(name: &str, log: &Path) {
    let python = here().join("../.venv/bin/python");
    let has_duckdb =
        || Command::new(&python).args(["-c", "import duckdb"]).output().is_ok_and(|is| is.status.success());
    if !cfg!(feature = "parquet") || !python.exists() || !has_duckdb() {
        return not_run(name, Needs::Program("duckdb"));
    }
    let dir = tempfile::tempdir().unwrap();
    let log = log.to_str().unwrap();
    for format in ["parquet", "ndjson", "csv"] {
        let output =
            iocreplay(["export", &format!("--{format}"), format, log]).current_dir(dir.path()).output();
        assert_eq!(outcome(output.unwrap()).0, 0, "{format}");
    }
    for (name, arguments) in [
        ("puts", vec!["puts", "--all", "--format", "jsonl"]),
        ("values", vec!["values", "*", "--format", "jsonl"]),
        ("alarms", vec!["alarms", "--all", "--format", "jsonl"]),
        ("clients", vec!["clients", "--format", "jsonl"]),
        ("iocs", vec!["iocs", "--format", "jsonl"]),
        ("health", vec!["health", "--format", "jsonl"]),
        ("traces", vec!["traces", "--format", "otlp"]),
    ] {
        // `values '*'` is of all fields: a name alone is VAL, but a star stands for the dot, too
        let (code, out, err) = run(dir.path(), &[arguments, vec![log]].concat());
        assert_eq!(code, 0, "{err}");
        fs::write(dir.path().join(name), out).unwrap();
    }
    let checked =
        Command::new(python).arg(here().join("tests/check_tables.py")).arg(dir.path()).output().unwrap();
    let (code, out, err) = outcome(checked);
    assert_eq!(code, 0, "{out}{err}");
    assert!(out.contains("puts:") && out.contains("losses:"), "{out}");
}

#[test]
fn tables_of_small_boxes_say_what_commands_say() {
    check("tables_of_a_guest", &here().join("tests/travelled/x86_64-6.1/log"));
    check("tables_of_an_arm_box", &here().join("tests/travelled/armv7-6.1/log"));
}

#[test]
fn tables_of_a_plant_say_what_commands_say() {
    check("tables_of_a_plant", &here().join("tests/plant/log"));
}

#[test]
fn values_of_all_sorts_are_exact() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    let mut events = happenings();
    let array = |dbf, count, bytes: Vec<u8>| Value::Array(Array { dbf, count, bytes });
    let mut text = vec![0; 80];
    text[..3].copy_from_slice(b"one");
    text[40..47].copy_from_slice(b"zwei,\"\n");
    let values = [
        Value::Int(i64::MAX),
        Value::Int(i64::MIN + 1),
        Value::Int(9_007_199_254_740_993),
        Value::UInt(u64::MAX),
        Value::UInt(1),
        Value::Float(0.1),
        Value::Float(f32::NAN),
        Value::Double(f64::INFINITY),
        Value::Double(f64::NEG_INFINITY),
        Value::Double(5e-324),
        Value::Double(-0.0),
        Value::Text(b"".to_vec()),
        Value::Text(b"=1+1,\"x\"\nline".to_vec()),
        Value::Text(b" \xff ".to_vec()),
        array(Dbf::Double, 3, [1.5, f64::NAN, -2.0].iter().flat_map(|v: &f64| v.to_le_bytes()).collect()),
        array(Dbf::Int64, 9, [i64::MAX, -1].iter().flat_map(|v| v.to_le_bytes()).collect()),
        array(Dbf::Short, 2, vec![1, 0, 255, 255]),
        array(Dbf::String, 2, text),
        array(Dbf::Long, 0, vec![]),
    ];
    for (number, value) in values.into_iter().enumerate() {
        let time = 5 * SECOND + number as u64 * 10 * MS;
        events.push((time, process(SCAN, -100, 2, 2)));
        let complete = Complete { thread: SCAN, sp: -200, site: 0, record: 2, value, severity: 0, status: 0 };
        events.push((time + 1001, Fact::Complete(complete)));
    }
    write_events(&log, "box1", 1, events);
    check("values_of_all_sorts", &log);
    export(dir.path(), &["--ndjson", "t", "--table", "processing", "log"]);
    let rows = rows(&dir.path().join("t"), "processing");
    let has = |name: &str, value: serde_json::Value| rows.iter().any(|row| row[name] == value);
    assert!(has("value_int", i64::MAX.into()) && has("value_int", 9_007_199_254_740_993_i64.into()));
    assert!(has("value_str", u64::MAX.to_string().into()) && has("value_str", "-Infinity".into()));
    assert!(has("value_array_int", serde_json::json!([i64::MAX, -1])));
    assert!(has("value_str", "=1+1,\"x\"\nline".into()));
}

#[test]
fn hostile_names_stay_in_their_fields() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    let hostile = "x\r\n2026,\"FORGED\"\u{1b}[2J\u{7}\u{85}\u{202e}\u{feff}'; DROP TABLE";
    let mut events = happenings();
    let ioc = Ioc {
        id: 3,
        pid: 300,
        start: SECOND,
        name: hostile.into(),
        exe: hostile.into(),
        cwd: hostile.into(),
        command: vec![hostile.into(), String::new()],
        base_version: hostile.into(),
        ca_ports: vec![5064],
        linkage: iocrec_log::event::Linkage::Shared,
        not_probed: vec![hostile.into()],
        user: hostile.into(),
        pva_ports: vec![],
        environment: vec![],
    };
    events.push((5 * SECOND, Fact::from(ioc)));
    events.push((6 * SECOND, put(PutKind::Put, SCAN, -100, 0, (1, 1), 0.0, 1.0)));
    write_events(&log, &hostile.replace('/', ""), 1, events);
    check("hostile_names", &log);
    export(dir.path(), &["--csv", "t", "log"]);
    for (path, bytes) in
        files(&dir.path().join("t")).iter().filter(|(path, _)| !path.starts_with("_iocreplay"))
    {
        let text = std::str::from_utf8(bytes).unwrap();
        let unsafe_line = text.lines().find(|line| !iocrec_log::escape::is_safe(line));
        assert_eq!(unsafe_line, None, "{}", path.display());
    }
}
