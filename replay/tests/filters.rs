//! docs/filters.md says which command takes which filter: compared with what each command's help lists.

mod common;

use common::every::names;
use common::run;
use std::collections::BTreeSet;
use std::path::Path;

/// Columns of the table, and the options that they stand for.
const COLUMNS: [&[&str]; 5] =
    [&["--since"], &["--until"], &["--pv", "--exclude"], &["--user", "--client"], &["--follow"]];

#[test]
fn the_table_of_filters_is_right() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(here.join("../docs/filters.md")).unwrap();
    let notes = page.lines().filter_map(|line| line.split_once(". "));
    let notes: BTreeSet<&str> = notes.map(|(number, _)| number).collect();
    let mut missing: BTreeSet<String> = names().into_iter().collect();
    for line in page.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        let command = cells[0].trim_matches('`');
        assert_eq!(cells.len(), COLUMNS.len() + 1, "{line}");
        assert!(missing.remove(command), "{command} is no command, or is there twice");
        let (code, help, _) = run(here, &[command, "--help"]);
        assert_eq!(code, 0, "{command}");
        // what follows in a line of its own is further in
        let takes = |option: &str| help.lines().any(|line| line.starts_with(&format!("  {option} ")));
        for (cell, options) in cells[1..].iter().zip(COLUMNS) {
            let note = cell.trim_matches(['[', ']']);
            for option in options.iter().copied() {
                let is_told = *cell == "yes" || cell.contains(&format!("`{option}`"));
                assert_eq!(takes(option), is_told, "{command} {option}: {cell}");
            }
            // what it does not take has a reason, or another way to say it
            let is_another = ["PV", "TIME", "`--at`"].iter().any(|way| cell.starts_with(*way));
            assert!(*cell == "yes" || is_another || notes.contains(note), "{command}: {cell}");
        }
    }
    assert!(missing.is_empty(), "commands that docs/filters.md lacks: {missing:?}");
}
