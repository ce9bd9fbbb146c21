//! Completion for zsh.

use super::program::{options, summary, takes_files, Program, Value};
use argh::{FlagInfo, FlagInfoKind, Optionality};
use std::fmt::Write as _;

/// The function that completes the program's command line.
pub fn completion(program: &Program) -> String {
    let name = program.name;
    let (mut commands, mut cases) = (String::new(), String::new());
    for command in program.commands() {
        let about = quoted(&summary(command.command.description)).replace(':', "\\:");
        let _ = writeln!(commands, "        '{}:{about}'", command.name);
        let _ =
            write!(cases, "    {})\n        _arguments -s '--help[display usage information]'", command.name);
        for option in options(&command.command) {
            let _ = write!(cases, " \\\n            {}", argument(program, command.name, option));
        }
        if takes_files(&command.command) {
            cases.push_str(" \\\n            '*:log:_files'");
        }
        cases.push_str("\n        ;;\n");
    }
    format!(
        r#"#compdef {name}
# Completion of {name} for zsh. Made by `make pages`: edit the program's options.

_{name}() {{
    local -a commands
    commands=(
{commands}    )
    if (( CURRENT == 2 )); then
        _describe -t commands '{name} command' commands
        _arguments '--help[display usage information]' '(-V --version)'{{-V,--version}}'[print the version]'
        return
    fi
    local command=$words[2]
    shift words
    (( CURRENT-- ))
    case $command in
{cases}    esac
}}

_{name} "$@"
"#
    )
}

/// An option in the form of `_arguments`.
fn argument(program: &Program, command: &str, option: &FlagInfo) -> String {
    let mut names: Vec<String> = option.short.map(|short| format!("-{short}")).into_iter().collect();
    names.push(option.long.to_owned());
    names.extend(program.aliases(option.long).map(str::to_owned));
    let about = quoted(&summary(option.description)).replace('[', "\\[").replace(']', "\\]");
    let value = match option.kind {
        FlagInfoKind::Switch => String::new(),
        FlagInfoKind::Option { arg_name } => {
            let action = match program.value(command, option) {
                Value::OneOf(values) => format!("({})", values.join(" ")),
                Value::File => "_files".to_owned(),
                Value::Directory => "_directories".to_owned(),
                Value::None | Value::Text => " ".to_owned(),
            };
            format!(":{arg_name}:{action}")
        }
    };
    let repeats = option.optionality == Optionality::Repeating;
    match (names.as_slice(), repeats) {
        ([name], false) => format!("'{name}[{about}]{value}'"),
        ([name], true) => format!("'*{name}[{about}]{value}'"),
        (names, false) => format!("'({})'{{{}}}'[{about}]{value}'", names.join(" "), names.join(",")),
        (names, true) => format!("'*'{{{}}}'[{about}]{value}'", names.join(",")),
    }
}

/// Escapes text for use within single quotes.
fn quoted(text: &str) -> String {
    text.replace('\'', "'\\''")
}
