//! The second reader (reader.py), which was made from docs/format.md alone, and ours read the same.

mod common;

use common::disk::Disk;
use common::not_run::{not_run, Needs};
use common::{read_segment, SECOND};
use iocrec_log::event::*;
use iocrec_log::writer::{Options, Writer};
use std::path::Path;
use std::process::Command;

/// A fact as it prints, without the names of structs and of their members.
fn plain(fact: &Fact) -> String {
    let text = format!("{fact:?}");
    let (mut out, mut rest) = (String::new(), text.as_str());
    while let Some(first) = rest.chars().next() {
        let length = if first == '"' {
            let mut escaped = true; // the opening quote does not end it
            let end = rest.find(|c| {
                let ends = c == '"' && !escaped;
                escaped = c == '\\' && !escaped;
                ends
            });
            end.unwrap() + 1
        } else if first.is_alphanumeric() {
            rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len())
        } else {
            first.len_utf8()
        };
        let (word, behind) = rest.split_at(length);
        rest = behind;
        match (word, behind.strip_prefix(" { ").or(behind.strip_prefix(": "))) {
            (" ", _) if behind.starts_with('}') => rest = &behind[1..],
            (_, Some(behind)) if first.is_alphabetic() => rest = behind,
            _ => out.push_str(word),
        }
    }
    out
}

/// Compares what both read of a segment.
fn compare(name: &str, path: &Path) {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let mut command = Command::new("python3");
    let second = command.arg(tests.join("reader.py")).arg(tests.join("../../docs/format.md")).arg(path);
    let output = match second.output() {
        Ok(output) => output,
        Err(error) => {
            assert_eq!(error.kind(), std::io::ErrorKind::NotFound, "{error}");
            return not_run(name, Needs::Program("python3"));
        }
    };
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    let second = String::from_utf8(output.stdout).unwrap();
    let mut second = second.lines();
    let mut count = 0;
    for block in read_segment(&std::fs::read(path).unwrap()).unwrap() {
        for event in block.unwrap().events {
            let ours = format!("{} {}", event.time, plain(&event.fact));
            assert_eq!(second.next(), Some(ours.as_str()), "{name}, event {count}");
            count += 1;
        }
    }
    assert_eq!(second.next(), None, "{name}");
    assert!(count > 0);
}

#[test]
fn golden_segments() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut seen = 0;
    for entry in std::fs::read_dir(golden).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|ending| ending == "iocrec") {
            compare(&path.display().to_string(), &path);
            seen += 1;
        }
    }
    assert!(seen >= 2);
}

/// docs/format/iocrec.ksy tells the same of every log of the repository, compiled by Kaitai Struct's own compiler: headers,
/// flags, lists of contents and columns (kaitai.py compares them with the second reader).
#[test]
fn the_description_for_kaitai_struct() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let top = tests.join("../..");
    let (python, compiler) =
        (top.join(".venv/bin/python"), top.join(".venv/node_modules/kaitai-struct-compiler"));
    let has_library = Command::new(&python).args(["-c", "import kaitaistruct, yaml"]).output();
    if !has_library.is_ok_and(|done| done.status.success()) || !compiler.is_dir() {
        return not_run("Kaitai Struct", Needs::Program("kaitai-struct-compiler"));
    }
    if Command::new("node").arg("--version").output().is_err() {
        return not_run("Kaitai Struct", Needs::Program("node"));
    }
    let mut segments = Vec::new();
    let logs = ["log/tests/golden", "replay/tests/plant", "replay/tests/travelled"];
    for directory in logs.map(|log| top.join(log)) {
        let own = iocrec_log::reader::find(&directory).into_iter().flatten();
        segments.extend(own.map(|file| file.path));
        for inner in std::fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().path().join("log")) {
            let found = iocrec_log::reader::find(&inner).into_iter().flatten();
            segments.extend(found.map(|file| file.path));
        }
    }
    segments.sort();
    segments.dedup();
    assert!(segments.len() > 25, "{segments:?}");
    let mut command = Command::new(python);
    command.arg(tests.join("kaitai.py")).arg(compiler).arg(top.join("docs/format/iocrec.ksy"));
    let done = command.arg(top.join("docs/format.md")).args(&segments).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success(), "{err}");
    assert_eq!(out.lines().count(), segments.len());
    assert!(!out.lines().all(|line| line.ends_with(" 0 lists of contents")), "{out}");
}

/// What golden segments are too small for: columns that are packed by themselves, and noise.
#[test]
fn a_busy_segment() {
    let disk = Disk::default();
    let mut writer = Writer::open(disk.clone(), Options::default(), 5).unwrap();
    let mut noise = 1_u64;
    for number in 0..6000_u32 {
        noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let (thread, record) = ((noise >> 60) as u32 % 6, number % 700);
        let (sp, site) = (-8 * i64::from(number % 50), 1);
        let value = match number % 7 {
            0 => Value::Int((noise >> 40) as i64 - 5),
            1 => Value::Float((noise >> 33) as f32),
            2 => Value::Text(noise.to_string().into_bytes()),
            3 => Value::UInt(noise),
            _ => Value::Double(1.0 + (noise >> 32) as f64 / 1e13),
        };
        let time = SECOND + u64::from(number) * 2000 + (noise >> 54);
        let process = Process { thread, sp, site, record, active: noise & 1 == 1 };
        writer.push(Event { time, fact: Fact::Process(process) });
        let complete = Complete { thread, sp: sp - 99, site, record, value, severity: 0, status: 0 };
        writer.push(Event { time: time + 700, fact: Fact::Complete(complete) });
    }
    writer.close(2 * SECOND);
    let segments = disk.segments();
    assert!(segments[0].1.len() > 40_000);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("busy.iocrec");
    std::fs::write(&path, &segments[0].1).unwrap();
    compare("busy", &path);
}

/// The example in docs/format.md.
#[test]
fn the_example() {
    let page = include_str!("../../docs/format.md");
    let (_, example) = page.split_once("\n## An example\n").unwrap();
    let lines =
        example.lines().skip_while(|line| !line.starts_with("    0000")).take_while(|line| !line.is_empty());
    let mut bytes = Vec::new();
    for line in lines {
        let (place, hex) = line.trim().split_once("  ").unwrap();
        assert_eq!(usize::from_str_radix(place, 16), Ok(bytes.len()));
        bytes.extend(hex.split(' ').map(|byte| u8::from_str_radix(byte, 16).unwrap()));
    }
    assert!(example.contains(&format!(" {} bytes", bytes.len())));
    let (thread, record) = (1, 5);
    let events = [(1_000_000, 40), (1_010_000, 340)].into_iter().flat_map(|(time, value)| {
        let process = Process { thread, sp: -8, site: 2, record, active: false };
        let value = Value::Int(value);
        let complete = Complete { thread, sp: -24, site: 3, record, value, severity: 0, status: 0 };
        [
            Event { time, fact: Fact::Process(process) },
            Event { time: time + 700, fact: Fact::Complete(complete) },
        ]
    });
    let read = read_segment(&bytes).unwrap().into_iter().flat_map(|block| block.unwrap().events);
    assert!(read.eq(events));
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("example.iocrec");
    std::fs::write(&path, bytes).unwrap();
    compare("example", &path);
}
