//! Logs that were written on machines of other kinds, 32-bit ARM included, read here: byte for byte the same,
//! whatever machine reads them.
//!
//! Each directory in tests/travelled holds a log that `iocrec record` wrote in a guest of `cross/boot-test`
//! (`--keep DIR` keeps it), and what iocreplay made of it then, which was compared with what happened in the
//! guest. When one of these tests fails, iocreplay reads old logs otherwise than it did: that is a bug, unless it
//! tells more than before, in which case puts.jsonl and traces.txt are to be written anew.

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
