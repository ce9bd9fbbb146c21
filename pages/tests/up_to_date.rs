//! The manual pages and completions in the repository match the programs' options, and shells accept them.

use iocrec_cli::alias::Alias;
use iocrec_pages::program::{options, Program, Value};
use iocrec_pages::{all, root, Page};
use std::fs;
use std::process::{Command, Stdio};

#[test]
fn pages_are_those_that_would_be_made_now() {
    let root = root();
    for Page { path, text } in all(&root).expect("pages can be made") {
        let there = fs::read_to_string(root.join(&path)).unwrap_or_default();
        assert!(there == text, "{} is out of date: run `make pages` and commit it", path.display());
    }
}

/// A command that its template leaves out has no section in the manual page.
#[test]
fn templates_describe_every_command() {
    for program in [Program::iocrec(), Program::iocreplay()] {
        let template = root().join(format!("docs/man/{}.1.in", program.name));
        let text = fs::read_to_string(&template).expect("it is there");
        for command in program.commands() {
            let synopsis = format!("@synopsis {}", command.name);
            assert!(text.lines().any(|line| line == synopsis), "{}: no {synopsis}", template.display());
        }
    }
}

/// Users learn of aliases and choices only from the help.
#[test]
fn help_names_aliases_and_choices() {
    for program in [Program::iocrec(), Program::iocreplay()] {
        for command in program.commands() {
            for option in options(&command.command) {
                let help = option.description;
                for alias in program.aliases(option.long) {
                    assert!(
                        help.contains(alias),
                        "{} {}: {alias} is not in: {help}",
                        command.name,
                        option.long
                    );
                }
                if let Value::OneOf(values) = program.value(command.name, option) {
                    for value in values {
                        assert!(
                            help.contains(value),
                            "{} {}: {value} is not in: {help}",
                            command.name,
                            option.long
                        );
                    }
                }
            }
        }
        for Alias { alias, option } in program.aliases {
            let known = |name: &str| {
                program
                    .commands()
                    .iter()
                    .any(|command| options(&command.command).any(|other| other.long == name))
            };
            assert!(known(option), "{alias} stands for {option}, which is not an option");
            assert!(!known(alias), "{alias} is an option of its own");
        }
    }
}

/// Bash's suggestions for a command line whose last word is being typed.
fn offered(program: &str, words: &[&str]) -> Vec<String> {
    let script = root().join(format!("packaging/completions/{program}.bash"));
    let run = format!(
        "compopt() {{ echo \"compopt $*\"; }}\nsource '{}'\nCOMP_WORDS=(\"$@\")\nCOMP_CWORD=$(($# - 1))\n_{program}\n\
         printf '%s\\n' \"${{COMPREPLY[@]}}\"\n",
        script.display()
    );
    let mut command = Command::new("bash");
    command.args(["--norc", "-c", &run, "bash"]).args(words).stdin(Stdio::null());
    let output = command.output().expect("bash runs");
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

#[test]
fn bash_completes_commands_options_and_values() {
    assert_eq!(offered("iocreplay", &["iocreplay", "tr"]), ["traces"]);
    assert_eq!(offered("iocreplay", &["iocreplay", "puts", "--format", "j"]), ["jsonl"]);
    assert_eq!(
        offered("iocreplay", &["iocreplay", "traces", "--format", "o"]),
        ["otlp", "otlp-proto", "otlp-proto-delimited"]
    );
    assert_eq!(offered("iocreplay", &["iocreplay", "records", "--u"]), Vec::<String>::new());
    assert_eq!(offered("iocreplay", &["iocreplay", "puts", "--up"]), ["--updates"]);
    assert_eq!(offered("iocreplay", &["iocreplay", "puts", "-o", "x"]), ["compopt -o default"]);
    assert_eq!(offered("iocreplay", &["iocreplay", "puts", "lo"]), ["compopt -o default"]);
    assert_eq!(offered("iocreplay", &["iocreplay", "puts", "--since", ""]), Vec::<String>::new());
    assert_eq!(offered("iocrec", &["iocrec", "watch", "--tier", "p"]), ["perf", "packet"]);
    assert_eq!(offered("iocrec", &["iocrec", "status", "--"]), ["--help", "--dir", "--json"]);
}

/// Scripts of shells that are not installed are not checked.
#[test]
fn other_shells_take_their_scripts() {
    for (shell, file) in
        [("zsh", "_iocrec"), ("zsh", "_iocreplay"), ("fish", "iocrec.fish"), ("fish", "iocreplay.fish")]
    {
        let script = root().join("packaging/completions").join(file);
        let Ok(output) = Command::new(shell).arg("-n").arg(&script).output() else {
            println!("other_shells_take_their_scripts: not run for {shell}, which is missing");
            continue;
        };
        assert!(output.status.success(), "{file}: {}", String::from_utf8_lossy(&output.stderr));
    }
}
