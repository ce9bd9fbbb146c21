//! Whatever is made on other threads than the one that joins a log is the same, byte for byte, as on a machine with one CPU.

#![cfg(target_os = "linux")]

mod common;
#[path = "../../log/examples/load/mod.rs"]
#[allow(dead_code)] // the examples use the rest
mod load;

use common::iocreplay;
use flate2::read::GzDecoder;
use load::Load;
use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::thread;

/// Does this in a thread that has one CPU alone, as have the programs that it starts.
fn on_one_cpu<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    let limited = || {
        // SAFETY: zeros are a valid set; the pointers are to a live one, of the size that is given with them.
        unsafe {
            let mut cpus: libc::cpu_set_t = std::mem::zeroed();
            let size = size_of::<libc::cpu_set_t>();
            assert_eq!(libc::sched_getaffinity(0, size, &mut cpus), 0);
            let first = (0..libc::CPU_SETSIZE as usize).find(|cpu| libc::CPU_ISSET(*cpu, &cpus)).unwrap();
            libc::CPU_ZERO(&mut cpus);
            libc::CPU_SET(first, &mut cpus);
            assert_eq!(libc::sched_setaffinity(0, size, &cpus), 0);
        }
        assert_eq!(thread::available_parallelism().unwrap().get(), 1);
        work()
    };
    thread::scope(|scope| scope.spawn(limited).join().unwrap())
}

/// Old logs, and one that is long enough for all threads.
fn logs(place: &Path) -> Vec<PathBuf> {
    let own = place.join("log");
    fs::create_dir(&own).unwrap();
    load::write(&own, 300_000, Load::Mixture).unwrap();
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let old = ["plant/log", "travelled/x86_64-6.1/log", "travelled/i686-5.10/log", "caputlog/log"];
    old.into_iter().map(|log| tests.join(log)).chain([own]).collect()
}

#[test]
fn answers_are_those_of_one_cpu() {
    let place = tempfile::tempdir().unwrap();
    let logs = logs(place.path());
    for words in [
        ["traces", "--utc", "--format", "text"],
        ["traces", "--utc", "--format", "jsonl"],
        ["traces", "--utc", "--format", "csv"],
        ["puts", "--utc", "--format", "csv"],
    ] {
        let ask = |log: &Path| {
            let output = iocreplay(words).arg(log).output().unwrap();
            (output.status.code(), output.stdout)
        };
        let mut longest = 0;
        for log in &logs {
            let several = ask(log);
            longest = longest.max(several.1.iter().filter(|byte| **byte == b'\n').count());
            assert!(on_one_cpu(|| ask(log)) == several, "{words:?} {}", log.display());
        }
        assert!(longest > 3000 || words[0] != "traces", "{words:?}: {longest} lines");
    }
}

#[test]
fn packed_answers_hold_the_plain_ones() {
    let place = tempfile::tempdir().unwrap();
    let log = logs(place.path()).pop().unwrap();
    let packed = place.path().join("traces.gz");
    let plain = iocreplay(["traces", "--utc"]).arg(&log).output().unwrap();
    let output = iocreplay(["traces", "--utc", "-o"]).arg(&packed).arg(&log).output().unwrap();
    assert!(plain.status.success() && output.status.success(), "{output:?}");
    let mut text = Vec::new();
    GzDecoder::new(fs::File::open(packed).unwrap()).read_to_end(&mut text).unwrap();
    assert!(plain.stdout.len() > 2 << 16 && text == plain.stdout);
}

/// The files of tables in a directory, by their paths in it.
fn tables(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let (mut found, mut left) = (BTreeMap::new(), vec![directory.to_owned()]);
    while let Some(next) = left.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                left.push(path);
            } else if path.extension().is_some_and(|kind| kind == "parquet") {
                found.insert(path.strip_prefix(directory).unwrap().to_owned(), fs::read(&path).unwrap());
            }
        }
    }
    found
}

#[test]
fn tables_are_those_of_one_cpu() {
    if !cfg!(feature = "parquet") {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    for (number, log) in logs(place.path()).iter().enumerate() {
        let export = |to: &str| {
            let to = place.path().join(format!("{to}{number}"));
            let output = iocreplay(["export", "--parquet"]).arg(&to).arg(log).output().unwrap();
            (output.status.code(), tables(&to))
        };
        let several = export("several");
        assert!(!several.1.is_empty(), "{}", log.display());
        assert!(on_one_cpu(|| export("one")) == several, "{}", log.display());
    }
}
