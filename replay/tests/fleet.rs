//! The questions of docs/fleet, asked of a fleet's exported tables with the engines that take over past one machine: DuckDB,
//! ClickHouse (chdb) and Spark. `tests/rig/fleet.py` compares each answer with what iocreplay itself says of the logs.

mod common;
#[path = "../../log/examples/fleet/mod.rs"]
mod fleet;
#[path = "../../tests/rig/not_run.rs"]
mod not_run;

use common::{iocreplay, outcome};
use fleet::Fleet;
use not_run::{not_run, Needs};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Enough machines that each question has an answer, five minutes each.
const FLEET: Fleet = Fleet { hosts: 8, seconds: 300, scan_ms: 2000, put_ms: 3000 };

#[test]
fn questions_have_the_same_answers_in_all_engines() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let python =
        std::env::var_os("IOCREC_PYTHON").map_or_else(|| top.join(".venv/bin/python"), PathBuf::from);
    let has = |module: &str| {
        Command::new(&python)
            .args(["-c", &format!("import {module}")])
            .output()
            .is_ok_and(|it| it.status.success())
    };
    let name = "questions_have_the_same_answers_in_all_engines";
    if !["duckdb", "chdb", "pyspark"].iter().all(|module| has(module)) {
        return not_run(name, Needs::Program("duckdb, chdb and pyspark"));
    }
    if !Command::new("java").arg("-version").output().is_ok_and(|it| it.status.success()) {
        return not_run(name, Needs::Program("openjdk-17-jre-headless"));
    }
    let directory = tempfile::tempdir().unwrap();
    let (logs, tables) = (directory.path().join("logs"), directory.path().join("tables"));
    fleet::write(&logs, FLEET).unwrap();
    let export = iocreplay(["export", "--parquet"]).arg(&tables).arg(&logs).output().unwrap();
    let (code, _, said) = outcome(export);
    assert_eq!(code, 0, "{said}");
    let asked = Command::new(&python)
        .arg(top.join("tests/rig/fleet.py"))
        .arg(env!("CARGO_BIN_EXE_iocreplay"))
        .args([&logs, &tables])
        .arg(top.join("docs/fleet"))
        .current_dir(directory.path())
        .output()
        .unwrap();
    let (code, out, said) = outcome(asked);
    assert_eq!(code, 0, "{out}\n{said}");
    assert_eq!(out.matches("questions in").count(), 3, "{out}");
}
