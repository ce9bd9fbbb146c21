//! What the page writes on the axes of its plots: no two numbers that differ have one text, and none is rounded to another.

use crate::not_run::{not_run, Needs};
use std::process::Command;

/// Its code for numbers and times.
const CODE: &str = include_str!("../../src/output/report/assets/format.js");

/// Axes: how far apart their numbers are, the numbers, and their texts.
const AXES: [(&str, &str, &str); 9] = [
    ("20000", "100000, 120000, 140000", "1e+5 1.2e+5 1.4e+5"),
    ("1", "100000, 100001", "100\u{202f}000 100\u{202f}001"),
    ("0.0025", "-0.0025, 0, 0.0025, 0.005", "-0.0025 0 0.0025 0.0050"),
    ("0.1", "12345.1, 12345.2", "12\u{202f}345.1 12\u{202f}345.2"),
    ("0.1", "0.1 + 0.2, 0.4", "0.3 0.4"),
    ("5e-10", "1e-9, 1.5e-9", "1e-9 1.5e-9"),
    ("5e7", "1.5e8, 2e8", "1.5e+8 2e+8"),
    ("1e300", "1e300, 2e300", "1e+300 2e+300"),
    ("0.25", "1790000000.25, 1790000000.5", "…\u{202f}000.25 …\u{202f}000.50"),
];

#[test]
fn numbers_on_an_axis_are_told_apart() {
    if !Command::new("node").arg("--version").output().is_ok_and(|output| output.status.success()) {
        return not_run("numbers_on_an_axis_are_told_apart", Needs::Program("nodejs"));
    }
    let axes = AXES.map(|(step, numbers, _)| {
        format!("console.log([{numbers}].map((v) => tickNumber(v, {step})).join(' '));\n")
    });
    let output = Command::new("node").arg("-e").arg(CODE.to_owned() + &axes.concat()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let texts = String::from_utf8(output.stdout).unwrap();
    assert_eq!(texts.lines().collect::<Vec<_>>(), AXES.map(|(.., texts)| texts), "{said}");
}
