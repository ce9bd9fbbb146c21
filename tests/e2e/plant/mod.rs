//! A plant whose truth is known: every question that the reader answers, compared with what truly happened.
//!
//! tests/rig/plant/record.py has two IOCs, five clients and a recorder act out a script, once for all tests here, and
//! writes down what happened by its own and an independent client's word; it says what is in that. Sets are compared
//! both ways: nothing may be missing, and nothing invented.
//!
//! `IOCREC_PLANT=DIR` takes a plant that record.py recorded before in place of a new one.

mod chains;
mod clients;
mod endings;
mod ends;
mod kinds;
mod listing;
mod moments;
mod network;
mod puts;
mod report;
mod restart;
mod restoring;
mod running;
mod sound;
mod states;
mod times;
mod truth;
mod undo;
mod undone;
mod values;

use crate::rig::{self, json_lines, not_run, Needs, Rig};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;
pub use truth::{iso, nanoseconds, Truth};

/// How long the script may take; it takes half a minute on an idle machine.
const PATIENCE: Duration = Duration::from_secs(300);

/// A recorded plant.
pub struct Plant {
    directory: PathBuf,
    pub truth: Truth,
}

/// The plant, recorded by whichever test comes first. None if it can't be recorded here, which is reported.
pub fn plant(test: &str) -> Option<&'static Plant> {
    static PLANT: OnceLock<Plant> = OnceLock::new();
    if let Some(recorded) = std::env::var_os("IOCREC_PLANT") {
        return Some(PLANT.get_or_init(|| Plant::of(recorded.into())));
    }
    if !not_run::is_root() {
        not_run(test, Needs::Root);
        return None;
    }
    Some(PLANT.get_or_init(record))
}

fn record() -> Plant {
    record_with("record.py", "plant", &[])
}

/// Records what a script of tests/rig/plant acts out, where the next run replaces it.
pub fn record_with(script: &str, name: &str, arguments: &[&str]) -> Plant {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&directory); // there may be none
                                                 // Nothing else runs: what a busy machine loses would not be the truth.
    let _rig = Rig::alone(name).expect("root");
    let path = format!("plant/{script}");
    let mut script = rig::python(&path);
    script.arg(&directory).args(arguments).env("IOCREC", rig::IOCREC);
    let output = rig::run_within(&mut script, PATIENCE);
    assert!(output.status.success(), "{path}: {}", String::from_utf8_lossy(&output.stderr));
    Plant::of(directory)
}

/// Whether what is said of an end is what its parent learned, and no more than the script did where it tells that: a
/// recorder may not have been told who sent a signal.
pub fn is_how(said: &Value, truth: &Value) -> bool {
    let how = &truth["how"];
    let (Some(text), Some(how)) = (said.as_str(), how.as_str()) else { return said == how };
    let sentence = truth["sentence"].as_str();
    text == how
        || sentence.map_or(text.starts_with(&format!("{how}, sent by pid ")), |sentence| text == sentence)
}

impl Plant {
    fn of(directory: PathBuf) -> Plant {
        let truth = Truth::read(&directory.join("truth.json"));
        Plant { directory, truth }
    }

    /// The log, as an argument.
    pub fn log(&self) -> String {
        self.directory.join("log").to_str().expect("a UTF-8 path").to_string()
    }

    /// What a command of iocreplay prints on stdout; the log is its last operand. It must succeed and have nothing to
    /// complain about.
    pub fn replay(&self, arguments: &[&str]) -> String {
        let (code, out, err) = self.outcome(arguments);
        assert_eq!((code, err.as_str()), (0, ""), "{arguments:?}");
        out
    }

    /// Exit code, stdout and stderr.
    pub fn outcome(&self, arguments: &[&str]) -> (i32, String, String) {
        let mut command = Command::new(rig::iocreplay());
        let output = command.args(arguments).arg(self.log()).output().expect("iocreplay runs");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
        (output.status.code().expect("it exits"), text(output.stdout), text(output.stderr))
    }

    /// The lines of a listing, as JSON.
    pub fn lines(&self, arguments: &[&str]) -> Vec<Value> {
        json_lines(self.replay(&[arguments, &["--format", "jsonl"]].concat()).as_bytes())
    }

    /// The PVs of which `at` says something at a moment.
    pub fn lines_of_at(&self, moment: &str) -> Vec<String> {
        let when = iso(self.truth.moment(moment));
        let (_, out, _) = self.outcome(&["at", &when, "--format", "jsonl"]);
        let lines = json_lines(out.as_bytes());
        lines.iter().map(|line| line["pv"].as_str().expect("a PV").to_owned()).collect()
    }

    /// One JSON object.
    pub fn object(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.replay(arguments)).expect("JSON")
    }
}

/// Equality of values: 4 equals 4.0, and an array of one element that element.
pub fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => match (one.as_i64(), other.as_i64()) {
            (Some(one), Some(other)) => one == other,
            _ => one.as_f64() == other.as_f64(),
        },
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
        }
        (Value::Array(one), other) if one.len() == 1 => one[0] == *other,
        (one, Value::Array(other)) if other.len() == 1 => *one == other[0],
        _ => one == other,
    }
}

/// Fails with all that is wrong.
pub fn is_right(wrong: &[String]) {
    assert!(wrong.is_empty(), "{} differences from the truth:\n{}", wrong.len(), wrong.join("\n"));
}
