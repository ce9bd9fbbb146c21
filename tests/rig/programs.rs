//! The programs that tests run: the agent, the reader, and the scripts of tests/rig with their libraries.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// The agent.
pub const IOCREC: &str = env!("CARGO_BIN_EXE_iocrec");

/// The reader, of the same build as the agent. It is another package's program, so it is built when
/// cargo runs the tests, and found beside the agent otherwise. IOCREC_READER names one that is built already.
pub fn iocreplay() -> &'static Path {
    static FOUND: OnceLock<PathBuf> = OnceLock::new();
    FOUND.get_or_init(|| {
        if let Some(built) = std::env::var_os("IOCREC_READER") {
            return built.into();
        }
        let beside = Path::new(IOCREC).parent().expect("a directory");
        if let Some(cargo) = std::env::var_os("CARGO") {
            let mut build = Command::new(cargo);
            build.args(["build", "--quiet", "--locked", "-p", "iocreplay", "--bin", "iocreplay"]);
            build.current_dir(env!("CARGO_MANIFEST_DIR"));
            build.arg("--target-dir").arg(beside.parent().expect("the target directory"));
            if beside.ends_with("release") {
                build.arg("--release");
            }
            assert!(build.status().expect("cargo runs").success(), "iocreplay could not be built");
        }
        beside.join("iocreplay")
    })
}

/// A file of tests/rig.
pub fn rig_file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/rig").join(name)
}

/// The interpreter of the virtual environment.
fn interpreter() -> PathBuf {
    let python = std::env::var_os("IOCREC_PYTHON")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join(".venv/bin/python"), PathBuf::from);
    assert!(python.exists(), "{} is missing; run scripts/setup", python.display());
    python
}

/// The virtual environment.
pub fn environment() -> PathBuf {
    interpreter().parent().and_then(Path::parent).expect("bin/python").to_path_buf()
}

/// A script of tests/rig, ready to be given arguments.
pub fn python(script: &str) -> Command {
    let mut command = Command::new(interpreter());
    command.arg(rig_file(script));
    command
}

/// The versions of epicscorelibs beside that of the virtual environment, for ioc.py's --epics.
pub fn epics_versions() -> Vec<String> {
    let list = fs::read_to_string(rig_file("epics-versions.txt")).expect("the list is there");
    let versions = list.lines().filter(|line| !line.starts_with('#'));
    let of_this_machine = |line: &str| match line.split_whitespace().collect::<Vec<_>>()[..] {
        [version, python] if !["source", "programs"].contains(&python) => Some(version.to_string()),
        _ => None,
    };
    let versions: Vec<String> = versions.filter_map(of_this_machine).collect();
    for version in &versions {
        let libraries = environment().join("epics").join(version);
        assert!(libraries.exists(), "{} is missing; run scripts/setup", libraries.display());
    }
    versions
}

/// The directory of EPICS Base's own programs (caput, caget, camonitor, caRepeater, softIoc), which scripts/setup fetches; None on
/// machines for which no package has them. A client that finds caRepeater in PATH starts it, and it outlives the test.
pub fn epics_programs() -> Option<PathBuf> {
    if !cfg!(target_arch = "x86_64") {
        return None;
    }
    let programs = environment().join("epics/programs/bin");
    assert!(programs.exists(), "{} is missing; run scripts/setup", programs.display());
    Some(programs)
}

/// Runs a script of the repository that checks a file; its output.
pub fn check_script(path: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new(interpreter());
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).args(arguments);
    command.output().expect("the script runs")
}
