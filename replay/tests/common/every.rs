//! Every command that iocreplay has, by its own `--help`, in each of its formats: so that no test forgets a new one.

use super::{iocreplay, outcome};
use std::sync::atomic::{AtomicUsize, Ordering};

/// What commands are asked for in addition to their logs, and further options worth a run of their own. A command that
/// needs more than its logs has a row here; tests fail until it has.
const OPERANDS: [(&str, &[&[&str]]); 7] = [
    ("follow", &[&["--once"], &["--once", "--since", "TIME", "--pv", "*"]]),
    ("undo", &[&["--since", "1990-01-01"], &["--since", "TIME", "--user", "*"]]),
    ("why", &[&["PV"], &["PV", "--at", "TIME"]]),
    ("values", &[&["PV"], &["*", "--until", "TIME"]]),
    ("at", &[&["TIME"]]),
    ("diff", &[&["1960-01-01", "TIME"], &["TIME", "2262-01-01"]]),
    (
        "export",
        &[&["--parquet", "NEW"], &["--ndjson", "NEW"], &["--csv", "NEW", "--since", "TIME", "--pv", "*"]],
    ),
];

/// Options of commands that are run with them as well.
const OPTIONS: [(&str, &[&str]); 14] = [
    ("net", &["--all"]),
    ("net", &["--all", "--kind", "searched", "--pv", "*", "--client", "*"]),
    ("values", &["--user", "*", "--client", "*"]),
    ("values", &["--plot"]),
    ("health", &["--plot"]),
    ("alarms", &["--all", "--severity", "MAJOR"]),
    ("top", &["-n", "0"]),
    ("puts", &["--all"]),
    ("puts", &["--all", "--updates"]),
    ("puts", &["--since", "TIME", "--pv", "*", "--exclude", "*.DESC", "--user", "*", "--client", "*"]),
    ("traces", &["--since", "TIME", "--pv", "*:*"]),
    ("info", &["--utc"]),
    ("logs", &["--pv", "*", "--kind", "puts", "--kind", "alarms"]),
    ("metrics", &["--step", "1s"]),
];

/// The names of all commands.
pub fn names() -> Vec<String> {
    let (code, help, _) = outcome(iocreplay(["--help"]).output().unwrap());
    assert_eq!(code, 0);
    let listed = help.split("Commands:\n").nth(1).expect("a list of commands");
    let names = listed.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names: Vec<String> =
        names.filter_map(|line| Some(line.split_whitespace().next()?.to_owned())).collect();
    assert!(names.len() >= 7, "{help}");
    names
}

/// The formats of a command: what it says when it is asked for one that it does not have, and `--json` if it has that.
fn formats(name: &str) -> Vec<Vec<String>> {
    let (code, _, err) = outcome(iocreplay([name, "--format", "?", "log"]).output().unwrap());
    assert_eq!(code, 2, "{name}: {err}");
    let words = |options: &[&str]| options.iter().map(ToString::to_string).collect();
    let Some(choice) = err.split("choose ").nth(1) else { return vec![vec![]] };
    let choice = choice.split(';').next().unwrap_or_default().replace(" or ", ", ");
    let mut formats: Vec<_> = choice.split(',').map(|format| words(&["--format", format.trim()])).collect();
    let (_, help, _) = outcome(iocreplay([name, "--help"]).output().unwrap());
    if help.lines().any(|line| line.trim_start().starts_with("--json")) {
        formats.push(words(&["--json"]));
    }
    // Text is the last, which is the one that is asked for where one must do.
    formats.sort_by_key(|format: &Vec<String>| {
        (!super::is_binary(format), format.last().is_some_and(|of| of == "text"))
    });
    formats
}

/// Every command in each of its formats and with further options, on a log, about this PV and this time.
pub fn every(log: &str, pv: &str, time: &str) -> Vec<Vec<String>> {
    let mut all = Vec::new();
    for name in names() {
        let own = |table: &[(&str, &[&str])]| -> Vec<Vec<String>> {
            let rows = table.iter().filter(|(of, _)| *of == name).map(|(_, words)| filled(words, pv, time));
            rows.collect()
        };
        let operands = OPERANDS.iter().find(|(of, _)| *of == name).map_or(vec![vec![]], |(_, lists)| {
            lists.iter().map(|words| filled(words, pv, time)).collect::<Vec<_>>()
        });
        let formats = formats(&name);
        for operands in &operands {
            for format in &formats {
                all.push(
                    [vec![name.clone()], operands.clone(), vec![log.to_owned()], format.clone()].concat(),
                );
            }
        }
        for options in own(&OPTIONS) {
            // what is said of the network is mostly seen only with --all
            let of_options = match name.as_str() {
                "net" => formats.clone(),
                // it draws, in a format of its own
                "health" => vec![vec![]],
                _ => formats.last().cloned().into_iter().collect(),
            };
            for format in of_options {
                let words = [vec![name.clone()], operands[0].clone(), vec![log.to_owned()], options.clone()];
                all.push([words.concat(), format].concat());
            }
        }
    }
    all
}

/// Every command once, in the last of its formats.
pub fn every_once(log: &str, pv: &str, time: &str) -> Vec<Vec<String>> {
    let mut last = std::collections::BTreeMap::new();
    for words in every(log, pv, time) {
        last.insert(words[0].clone(), words);
    }
    last.into_values().collect()
}

/// A name for a directory that is not there.
fn new_directory() -> String {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let name = format!("{}/every-{}-{number}", env!("CARGO_TARGET_TMPDIR"), std::process::id());
    let _ = std::fs::remove_dir_all(&name);
    name
}

fn filled(words: &[&str], pv: &str, time: &str) -> Vec<String> {
    let word = |word: &&str| match *word {
        "PV" => pv.to_owned(),
        "TIME" => time.to_owned(),
        "NEW" => new_directory(),
        word => word.to_owned(),
    };
    words.iter().map(word).collect()
}
