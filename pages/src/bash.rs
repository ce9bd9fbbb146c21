//! Completion for bash (4 or newer).

use super::program::{options, takes_files, Program, Value};
use argh::FlagInfo;
use std::fmt::Write as _;

/// The script that completes the program's command line.
pub fn completion(program: &Program) -> String {
    let name = program.name;
    let commands: Vec<&str> = program.commands().iter().map(|command| command.name).collect();
    let (mut names, mut files) = (String::new(), Vec::new());
    // The completion of a value, and the commands and options with such a value.
    let mut values: Vec<(String, Vec<String>)> = Vec::new();
    for command in program.commands() {
        let mut all = vec!["--help".to_owned()];
        for option in options(&command.command) {
            let spelled = spelled(program, option);
            if let Some(value) = value(&program.value(command.name, option)) {
                let here = spelled.iter().map(|spelled| format!("'{} {spelled}'", command.name));
                match values.iter_mut().find(|(other, _)| *other == value) {
                    Some((_, patterns)) => patterns.extend(here),
                    None => values.push((value, here.collect())),
                }
            }
            all.extend(spelled);
        }
        let _ = writeln!(names, "    {}) options='{}' ;;", command.name, all.join(" "));
        if takes_files(&command.command) {
            files.push(command.name);
        }
    }
    let case = |(value, patterns): &(String, Vec<String>)| {
        format!("    {})\n        {value}\n        return\n        ;;\n", patterns.join(" | \\\n        "))
    };
    let values: String = values.iter().map(case).collect();
    let files = match files.as_slice() {
        [] => String::new(),
        files => format!("    {}) compopt -o default ;;\n", files.join(" | ")),
    };
    format!(
        r#"# Completion of {name} for bash. Made by `make pages`: edit the program's options.
# shellcheck shell=bash

_{name}() {{
    local current=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD - 1]}} command=${{COMP_WORDS[1]}} options=
    COMPREPLY=()
    if ((COMP_CWORD == 1)); then
        mapfile -t COMPREPLY < <(compgen -W '{commands} --help --version' -- "$current")
        return
    fi
    case "$command $before" in
{values}    esac
    case $command in
{names}    *) return ;;
    esac
    if [[ $current == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$options" -- "$current")
        return
    fi
    case $command in
{files}    *) ;;
    esac
}}
complete -F _{name} {name}
"#,
        commands = commands.join(" "),
    )
}

/// All names of an option.
fn spelled(program: &Program, option: &FlagInfo) -> Vec<String> {
    let short = option.short.map(|short| format!("-{short}"));
    let names = short.into_iter().chain([option.long.to_owned()]);
    names.chain(program.aliases(option.long).map(str::to_owned)).collect()
}

/// The completion of a value; `None` if there is no value.
fn value(value: &Value) -> Option<String> {
    Some(match value {
        Value::None => return None,
        Value::OneOf(values) => {
            format!(r#"mapfile -t COMPREPLY < <(compgen -W '{}' -- "$current")"#, values.join(" "))
        }
        Value::File => "compopt -o default".to_owned(),
        Value::Directory => r#"compopt -o dirnames"#.to_owned(),
        Value::Text => ": # any text".to_owned(),
    })
}
