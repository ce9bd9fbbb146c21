//! Puts in the formats of the module caPutLog, compared byte for byte with what the module itself wrote.
//!
//! tests/caputlog/README.md says how its output was made. A line may differ only if it is marked as inexact, and the
//! lines that are marked are those named here. Milliseconds are compared apart: the module prints the record's time
//! stamp, which the log does not hold.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// PVs whose lines are marked: the server's answer is all that is known of a refused put with callback, and nothing of
/// who writes over PVAccess; JSON has lengths of long strings, and arrays of one element as none.
const MARKED_TEXT: &[&str] = &["DIS", "AO", "STR", "MODE"];
const MARKED_JSON: &[&str] = &["LSO.$", "LSO.$", "ONE", "DIS", "AO", "STR", "MODE"];

/// Fields that no put makes process, written in the second in which their record had processed: the module prints the
/// earlier time of that.
const EARLIER: &[&str] = &["AO.DESC", "AO.PREC"];

/// What the real module wrote in this style and level, and what iocreplay does.
fn both(style: &str, level: u32) -> (Vec<String>, Vec<String>) {
    let place = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/caputlog");
    let real = fs::read_to_string(place.join(format!("{style}-{level}"))).unwrap();
    let (format, ioc) = match style {
        "text" => ("caputlog", format!("T{level}")),
        _ => ("caputlog-json", format!("J{level}")),
    };
    let level = level.to_string();
    let mut command = Command::new(env!("CARGO_BIN_EXE_iocreplay"));
    command.current_dir(place).args(["puts", "--utc", "--format", format, "--level", &level, "--ioc", &ioc]);
    command.args(["--burst", "1s", "--prefix", "fac=LAB "]);
    if format == "caputlog-json" {
        command.args(["--metadata", "zone=west", "--metadata", "area=linac A"]);
    }
    command.arg("log");
    let done = command.output().unwrap();
    let errors = String::from_utf8(done.stderr).unwrap();
    assert!(done.status.success() && errors.contains("lines are marked inexact"), "{errors}");
    assert!(errors.contains("2 puts are not in it"), "{errors}");
    let lines = |text: &str| text.lines().map(str::to_owned).collect();
    (lines(&real), lines(&String::from_utf8(done.stdout).unwrap()))
}

/// The name of the PV in a line, without the IOC's prefix.
fn pv(line: &str) -> &str {
    let name = match line.split_once("\"pv\":\"") {
        Some((_, rest)) => rest.split('"').next().unwrap(),
        None => line.split(' ').nth(5).unwrap(),
    };
    name.split_once(':').unwrap().1
}

/// A line without its milliseconds, and these.
fn without_milliseconds(line: &str) -> (String, i64) {
    let at = line.find("\"time\":\"").unwrap() + "\"time\":\"HH:MM:SS".len();
    let (head, tail) = line.split_at(at);
    (format!("{head}{}", &tail[4..]), tail[1..4].parse().unwrap())
}

#[test]
fn text_is_what_the_module_wrote() {
    for level in 0..3 {
        let (real, ours) = both("text", level);
        assert_eq!(real.len(), ours.len(), "level {level}");
        assert!(real.len() > 60);
        let marked: Vec<&str> =
            ours.iter().filter(|line| line.ends_with(" inexact")).map(|l| pv(l)).collect();
        assert_eq!(marked, MARKED_TEXT, "level {level}");
        for (real, ours) in real.iter().zip(&ours).filter(|(_, ours)| !ours.ends_with(" inexact")) {
            assert_eq!(real, ours, "level {level}");
        }
    }
}

#[test]
fn json_is_what_the_module_wrote() {
    for level in 0..3 {
        let (real, ours) = both("json", level);
        assert_eq!(real.len(), ours.len(), "level {level}");
        let is_marked = |line: &&String| line.ends_with(",\"inexact\":true}");
        let marked: Vec<&str> = ours.iter().filter(is_marked).map(|l| pv(l)).collect();
        assert_eq!(marked, MARKED_JSON, "level {level}");
        for (real, ours) in real.iter().zip(&ours) {
            let object = ours.strip_prefix("fac=LAB ").unwrap();
            serde_json::from_str::<serde_json::Value>(object).unwrap();
            if is_marked(&ours) {
                continue;
            }
            let ((real, real_time), (ours, our_time)) =
                (without_milliseconds(real), without_milliseconds(ours));
            assert_eq!(real, ours, "level {level}");
            let later = our_time - real_time;
            assert!(later.abs() <= 2 || later > 0 && EARLIER.contains(&pv(&ours)), "{ours}: {later} ms");
        }
    }
}

/// What is not certain is marked, and what the marked lines do say is right but for what they say is unknown.
#[test]
fn marked_lines_say_no_more_than_is_known() {
    let (_, text) = both("text", 1);
    let marked: Vec<&str> = text.iter().filter(|l| l.ends_with(" inexact")).map(|l| &l[27..]).collect();
    assert_eq!(
        marked,
        [
            "vm root T1:DIS new=0 old=? min=? max=? inexact",
            "? ? T1:AO new=12 old=4 inexact",
            "? ? T1:STR new=\"pva\" old=\"three\" inexact",
            "? ? T1:MODE new=0 old=2 inexact",
        ]
    );
}
