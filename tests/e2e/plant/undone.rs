//! Puts that a seed chooses, to records of every type on a living IOC, undone by the script of `undo`
//! (tests/rig/plant/undone.py): every field has the value again that it had then, or the script or iocreplay has said that
//! it has not.
//!
//! By EPICS Base's caput and caget, or by their stand-ins on machines for which there are none. `IOCREC_PLANT_SEED=N` makes
//! other puts, `IOCREC_PLANT_UNDONE=DIR` takes a plant that is recorded already.

use super::{is_right, iso, same, Plant};
use crate::rig::{self, iocreplay, not_run, Needs, Rig};
use crate::scripts;
use serde_json::{json, Value};
use std::path::Path;

fn record() -> Plant {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("plant-undone");
    let _ = std::fs::remove_dir_all(&directory); // there may be none
    let rig = Rig::alone("plant-undone").expect("root");
    let tools = scripts::tools("plant-undone", &rig.dir);
    let path = format!("{}:{}", tools.directory.display(), std::env::var("PATH").unwrap_or_default());
    let seed = std::env::var("IOCREC_PLANT_SEED").unwrap_or("1".to_owned());
    let mut script = rig::python("plant/undone.py");
    script.arg(&directory).arg(seed).env("PATH", path);
    script.env("IOCREC", rig::IOCREC).env("IOCREPLAY", iocreplay());
    let output = rig::run_within(&mut script, super::PATIENCE);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Plant::of(directory)
}

/// A value without what the observer shows of texts behind their end.
fn text(value: &Value, pv: &str) -> Value {
    let Some(letters) = value.as_array().filter(|_| pv.ends_with('$')) else { return value.clone() };
    letters.iter().take_while(|letter| **letter != json!(0)).cloned().collect()
}

#[test]
fn a_living_ioc_has_its_values_again() {
    let plant = match std::env::var_os("IOCREC_PLANT_UNDONE") {
        Some(recorded) => Plant::of(recorded.into()),
        None if !not_run::is_root() => return not_run("plant-undone", Needs::Root),
        None => record(),
    };
    let undone = plant.truth.part("undone");
    assert_eq!(undone["made"], 0, "{undone}");
    let said = |key: &str| undone[key].as_str().expect("text").to_owned();
    let remarks = [said("remarks"), said("err")].concat();
    let values = undone["values"].as_object().expect("values");
    let (mut wrong, mut restored) = (Vec::new(), 0);
    for (pv, of) in values {
        let [then, before, after] = ["then", "before", "after"].map(|key| text(&of[key], pv));
        let name = pv.replace(".VAL$", ".$");
        let mut words = remarks.split_whitespace();
        // a command is named by its record and field
        let is_named = words.any(|word| word == name || format!("{word}.$") == name);
        match same(&then, &after) {
            true => restored += usize::from(!same(&then, &before)),
            false if is_named => {}
            false => wrong.push(format!("{pv} was {then}, and is {after} after {before}: {remarks}")),
        }
    }
    // what `at` says of the moment is what is to come back
    let moment = undone["moment"].as_str().expect("a moment");
    let (_, out, _) = plant.outcome(&["at", &iso(plant.truth.moment(moment)), "--utc", "--format", "jsonl"]);
    for line in rig::json_lines(out.as_bytes()).iter().filter(|line| line["known"] == "yes") {
        let Some(of) = line["pv"].as_str().and_then(|pv| values.get(pv)) else { continue };
        // 64 bits do not go over Channel Access
        if !line["pv"].to_string().contains("INT64") && !same(&line["value"], &of["then"]) {
            wrong.push(format!("{moment}: not {} in {line}", of["then"]));
        }
    }
    is_right(&wrong);
    assert!(restored * 3 > values.len() * 2, "only {restored} of {}", values.len());
}
