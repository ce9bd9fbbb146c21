//! The wheel for Python: made twice it is the same, pip installs it without a network, and the tests of the module
//! (`python/tests`) pass on a log that a recorder wrote.

#[path = "../../tests/rig/not_run.rs"]
mod not_run;

use not_run::{not_run, Needs};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

#[track_caller]
fn done(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}{}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

const TEST: &str = "the_wheel_installs_and_answers_as_the_program";

#[test]
fn the_wheel_installs_and_answers_as_the_program() {
    let python = repository(".venv/bin/python");
    if !python.exists() {
        return not_run(TEST, Needs::Program(".venv/bin/python"));
    }
    let machine = done(Command::new("uname").arg("-m")).trim().to_owned();
    let arch = match machine.as_str() {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        _ => return not_run(TEST, Needs::Machine("x86_64 or aarch64")),
    };
    let place = tempfile::tempdir().unwrap();
    let dist = place.path().join("dist");
    fs::create_dir(&dist).unwrap();
    let binary = format!("iocreplay-{}-{machine}-unknown-linux-musl", env!("CARGO_PKG_VERSION"));
    // not static, but it runs here; without debug data, which take long to pack
    done(Command::new("strip").arg("-o").arg(dist.join(binary)).arg(env!("CARGO_BIN_EXE_iocreplay")));
    let make = || {
        let mut make = Command::new(&python);
        PathBuf::from(done(make.arg(repository("packaging/wheel")).arg(arch).arg(&dist)).trim())
    };
    let wheel = make();
    let first = fs::read(&wheel).unwrap();
    assert_eq!(make(), wheel);
    assert!(fs::read(&wheel).unwrap() == first, "the same files give the same wheel");

    let environment = place.path().join("environment");
    done(Command::new(&python).args(["-m", "venv"]).arg(&environment));
    let inside = environment.join("bin/python");
    // as someone without a network does; pip compares each file with the wheel's RECORD
    let mut install = Command::new(&inside);
    done(
        install
            .args(["-m", "pip", "install", "--quiet", "--no-index", "--disable-pip-version-check"])
            .arg(&wheel),
    );
    assert!(done(Command::new(environment.join("bin/iocreplay")).arg("--version")).starts_with("iocreplay "));

    // pyarrow, pandas and polars are in the tests' own environment
    let packages =
        done(Command::new(&python).args(["-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]));
    let mut tests = Command::new(&inside);
    tests.arg(repository("python/tests/test_iocreplay.py")).env("LOG", repository("replay/tests/plant/log"));
    done(tests.env("FRAMES", "must").env("PYTHONPATH", packages.trim()).env_remove("IOCREPLAY"));
}

/// What a wheel can't be made for, or from, is one line.
#[test]
fn a_wheel_for_a_strange_machine_is_refused() {
    let refused = |arguments: &[&str]| {
        let output =
            Command::new("python3").arg(repository("packaging/wheel")).args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(refused(&["sparc"]).ends_with("choose ARCH=amd64 or ARCH=arm64\n"));
    let missing = refused(&["amd64", "/nowhere"]);
    assert!(missing.ends_with("is missing; run make wheel ARCH=amd64\n"), "{missing}");
    assert_eq!(missing.lines().count(), 1);
}
