//! Logs that were written on machines of other kinds, 32-bit ARM included, read here: byte for byte the same,
//! whatever machine reads them.
//!
//! Each directory in tests/travelled holds a log that `iocrec record` wrote in a guest of `cross/boot-test.py`
//! (`--keep DIR` keeps it), and what iocreplay made of it then, which was compared with what happened in the
//! guest. When one of these tests fails, iocreplay reads old logs otherwise than it did: that is a bug, unless it
//! tells more than before, in which case puts.jsonl and traces.txt are to be written anew.

use iocrec_log::reader::{find, Segment};
use iocrec_log::storage::Directory;
use iocrec_log::writer::{Options, Writer};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The directories, each with the machine that its log says that it comes from.
const TRAVELLED: [(&str, &str); 6] = [
    ("x86_64-6.1", "x86_64"),
    ("i686-5.10", "i686"),
    ("arm64-ioc-6.12", "aarch64"),
    ("armv7-6.1", "armv7l"),
    ("armv5-on-armv7-6.1", "armv7l"),
    ("riscv64-6.12", "riscv64"),
];

fn works(directory: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_iocreplay"));
    let done = command.current_dir(directory).args(arguments).output().unwrap();
    let (out, err) = (String::from_utf8(done.stdout).unwrap(), String::from_utf8(done.stderr).unwrap());
    assert!(done.status.success() && err.is_empty(), "{arguments:?}: {err}{out}");
    out
}

#[test]
fn logs_of_other_machines_are_read_as_they_were_there() {
    for (name, machine) in TRAVELLED {
        let place = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/travelled").join(name);
        let info = works(&place, &["info", "--json", "log"]);
        assert!(info.contains(&format!("\"arch\": \"{machine}\"")), "{name}: {info}");
        works(&place, &["verify", "log"]);
        for (file, arguments) in [
            ("puts.jsonl", ["puts", "--all", "--format", "jsonl", "--utc", "log"].as_slice()),
            ("traces.txt", &["traces", "--utc", "log"]),
        ] {
            let before = fs::read_to_string(place.join(file)).unwrap();
            assert_eq!(works(&place, arguments), before, "{name}: {file}");
        }
    }
}

/// A copy of a log with times in steps of 2^`bits` ns.
fn with_times_in_steps(log: &Path, bits: u32, copy: &Path) {
    let options = Options { time_step: 1 << bits, ..Options::default() };
    let mut writer = Writer::open(Directory::open(copy).unwrap(), options, 1).unwrap();
    let mut now = 0;
    for file in find(log).unwrap() {
        let mut segment = Segment::open(&file.path).unwrap();
        while let Some(block) = segment.next_block() {
            for event in block.unwrap().events {
                now = event.time.max(now);
                writer.push(event);
            }
            // One block for another: only within a block are times brought into order.
            writer.tick(now + 2_000_000_000);
        }
    }
    writer.close(now);
    assert_eq!(writer.status().lost, 0);
}

/// Words of a line that are no times.
fn without_times(line: &str) -> String {
    let mut words: Vec<&str> = line.split_whitespace().collect();
    if words.len() > 2 && ["µs", "ms", "s"].contains(&words[words.len() - 1]) {
        words.truncate(words.len() - 2);
    }
    let is_time = |word: &&str| word.starts_with("20") && word.ends_with("+00:00");
    let indentation = line.len() - line.trim_start().len();
    words.retain(|word| !is_time(word));
    format!("{}{}", " ".repeat(indentation), words.join(" "))
}

#[test]
fn times_in_steps_tell_the_same_story() {
    for (name, _) in TRAVELLED {
        let place = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/travelled").join(name);
        for bits in [8, 12] {
            let copy = tempfile::tempdir().unwrap();
            with_times_in_steps(&place.join("log"), bits, copy.path());
            let log = copy.path().to_str().unwrap();
            assert!(works(&place, &["info", log]).contains(&format!("in steps of {} ns", 1 << bits)));
            let [exact, rounded] = ["log", log].map(|log| works(&place, &["traces", "--utc", log]));
            let [exact, rounded] = [&exact, &rounded].map(|text| text.lines().map(without_times));
            assert!(exact.eq(rounded), "{name}, {bits} bits");
        }
    }
}
