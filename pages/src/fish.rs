//! Completion for fish.

use super::program::{is_optional, options, summary, takes_files, Program, Value};
use std::fmt::Write as _;

/// The script that completes the program's command line.
pub fn completion(program: &Program) -> String {
    let name = program.name;
    let mut text = format!(
        "# Completion of {name} for fish. Made by `make pages`: edit the program's options.\n\n\
         complete -c {name} -f\n\
         complete -c {name} -l help -d 'display usage information'\n\
         complete -c {name} -n __fish_use_subcommand -s V -l version -d 'print the version'\n"
    );
    for command in program.commands() {
        let about = quoted(&summary(command.command.description));
        let _ =
            writeln!(text, "complete -c {name} -n __fish_use_subcommand -a {} -d '{about}'", command.name);
    }
    for command in program.commands() {
        text.push('\n');
        let here = format!("complete -c {name} -n '__fish_seen_subcommand_from {}'", command.name);
        for option in options(&command.command) {
            let short = option.short.map(|short| format!(" -s {short}")).unwrap_or_default();
            let value = match program.value(command.name, option) {
                Value::None => String::new(),
                Value::OneOf(values) => format!(" -x -a '{}'", values.join(" ")),
                Value::File => " -r -F".to_owned(),
                Value::Directory => " -x -a '(__fish_complete_directories)'".to_owned(),
                Value::Text => " -x".to_owned(),
            };
            let about = quoted(&summary(option.description));
            let required = if is_optional(&option.optionality) { "" } else { " (required)" };
            let aliases: Vec<&'static str> = program.aliases(option.long).collect();
            for long in [option.long].iter().chain(&aliases) {
                let short = if *long == option.long { short.as_str() } else { "" };
                let long = long.trim_start_matches('-');
                let _ = writeln!(text, "{here}{short} -l {long}{value} -d '{about}{required}'");
            }
        }
        if takes_files(&command.command) {
            let _ = writeln!(text, "{here} -F");
        }
    }
    text
}

/// Escapes text for use within single quotes.
fn quoted(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\'', "\\'")
}
