//! Every key of JSON output is in docs/json.md, under its command or under "Everywhere", and every key there exists.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Outputs whose keys others lay down (OTLP, Zipkin, Perfetto), that are no interface (the data inside a report), or that
/// one row of the page describes together (an IOC's crash).
const NOT_OURS: [&str; 7] = [
    "traces/otlp",
    "traces/zipkin.rs",
    "traces/perfetto",
    "logs/otlp.rs",
    "metrics/otlp.rs",
    "report",
    "crash.rs",
];
/// Keys of commands that are not among the outputs.
const ELSEWHERE: [(&str, &str); 4] = [
    ("info", "answers/summary.rs"),
    ("info", "answers/attached.rs"),
    ("info", "answers/snapshots.rs"),
    ("follow", "live/output/mod.rs"),
];

fn sources(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            found.push(path);
        }
    }
}

/// The keys that the structures of a file write.
fn keys(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let (mut is_derived, mut is_inside, mut is_skipped, mut renamed) = (false, false, false, None);
    for line in text.lines() {
        let trimmed = line.trim();
        if !is_inside {
            is_derived |= line.starts_with("#[derive(") && line.contains("Serialize");
            if is_derived && line.contains("struct ") {
                (is_inside, is_derived) = (line.ends_with('{'), false);
            }
        } else if line == "}" {
            is_inside = false;
        } else if let Some(rest) = trimmed.strip_prefix("#[serde(") {
            is_skipped |= rest.starts_with("skip)") || rest.starts_with("flatten)");
            renamed = rest.strip_prefix("rename = \"").and_then(|rest| rest.split('"').next());
        } else if !trimmed.starts_with("//") && !trimmed.starts_with('#') && line.starts_with("    ") {
            let visible = ["pub(super) ", "pub(crate) ", "pub "].into_iter();
            let member = visible.fold(trimmed, |member, word| member.trim_start_matches(word));
            let Some((name, _)) = member.split_once(": ") else { continue };
            if name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
                let name = renamed.take().unwrap_or(name);
                if !std::mem::take(&mut is_skipped) {
                    found.insert(name.to_owned());
                }
            }
        }
    }
    found
}

/// The keys of each section of the page, by the commands in its heading.
fn documented(page: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut commands: Vec<String> = Vec::new();
    for line in page.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            commands = heading.split(", ").map(str::to_owned).collect();
            // those of iocrec are compared by its own tests
            commands.retain(|command| !command.starts_with("iocrec "));
        } else if let Some(cell) = line.strip_prefix("| `").and_then(|rest| rest.split(" |").next()) {
            for key in cell.split('`').step_by(2) {
                for command in &commands {
                    found.entry(command.clone()).or_default().insert(key.to_owned());
                }
            }
        }
    }
    found
}

#[test]
fn keys_and_their_documentation_agree() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(here.join("../docs/json.md")).expect("the page");
    let documented = documented(&page);
    let everywhere = &documented["Everywhere"];
    let output = here.join("src/output");
    let mut files = Vec::new();
    sources(&output, &mut files);
    let mut written: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for file in files {
        let place = file.strip_prefix(&output).expect("inside");
        let first = place.components().next().expect("a name").as_os_str().to_string_lossy().into_owned();
        let command = first.trim_end_matches(".rs").to_owned();
        let found = keys(&std::fs::read_to_string(&file).expect("a source"));
        if !NOT_OURS.iter().any(|other| place.starts_with(other)) && !found.is_empty() {
            written.entry(command).or_default().extend(found);
        }
    }
    for (command, file) in ELSEWHERE {
        let found = keys(&std::fs::read_to_string(here.join("src").join(file)).expect("a source"));
        assert!(!found.is_empty(), "{file}");
        written.entry(command.to_owned()).or_default().extend(found);
    }
    // the scan finds what is known to be there
    assert!(written["net"].contains("served_since") && written["records"].contains("type"), "{written:#?}");
    assert!(written.len() >= 10, "{written:#?}");
    let none = BTreeSet::new();
    let mut missing = Vec::new();
    for (command, keys) in &written {
        let own = documented.get(command).unwrap_or(&none);
        missing.extend(
            keys.iter()
                .filter(|key| !own.contains(*key) && !everywhere.contains(*key))
                .map(|key| format!("{command}: {key}")),
        );
    }
    assert!(missing.is_empty(), "keys that docs/json.md lacks: {missing:#?}");
    let all: BTreeSet<&String> = written.values().flatten().collect();
    let gone: Vec<&String> = documented.values().flatten().filter(|key| !all.contains(key)).collect();
    assert!(gone.is_empty(), "keys that nothing writes: {gone:#?}");
}
