//! The command line of iocrec: parses the arguments and runs the command.

use std::ffi::OsString;
use std::process::ExitCode;

use argh::{ArgsInfo, CommandInfoWithArgs, FromArgs};
use iocrec_cli::alias::{self, Alias};

use crate::commands::{version, AnyCommand, Arguments};
use crate::failure::{self, Failure, UsageError};
use crate::linux::{signals, stack};
use crate::terminal::{self, complain};

/// Other names of options.
pub static ALIASES: &[Alias] = &[
    Alias { alias: "--max-chains", option: "--thin" },
    Alias { alias: "--time-resolution", option: "--time-step" },
];

/// argh's description of the command line, for the manual page and the completions (crate iocrec-pages).
pub fn args_info() -> CommandInfoWithArgs {
    Arguments::get_args_info()
}

/// Runs the program with these arguments, which do not include the program's name.
pub fn run(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    signals::begin();
    if let Some(bytes) = stack::raise() {
        complain(&format!(
            "the stack may have only {} KiB (RLIMIT_STACK), perhaps too few: allow 2048 (ulimit -s, LimitSTACK=)",
            bytes >> 10
        ));
    }
    failure::exit(parse(arguments).and_then(|request| match request {
        Request::Command(command) => command.run(),
        Request::Text(text) => Ok(terminal::print(&text)?),
    }))
}

/// The request in the arguments.
#[derive(Debug)]
enum Request {
    /// Run a command.
    Command(Box<AnyCommand>),
    /// Print a text: help, the version.
    Text(String),
}

fn parse(arguments: impl Iterator<Item = OsString>) -> Result<Request, Failure> {
    let arguments: Result<Vec<String>, OsString> = arguments.map(OsString::into_string).collect();
    let arguments = arguments.map_err(UsageError::NotUtf8)?;
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    if let ["--version" | "-V", ..] = arguments.as_slice() {
        return Ok(Request::Text(version::TEXT.into()));
    }
    match Arguments::from_args(&["iocrec"], &alias::resolve(&arguments, ALIASES)) {
        Ok(arguments) => Ok(Request::Command(Box::new(arguments.command))),
        Err(exit) if exit.status.is_ok() => Ok(Request::Text(exit.output)),
        Err(exit) => {
            let line = exit.output.split_whitespace().collect::<Vec<_>>().join(" ");
            Err(UsageError::Rejected(line).into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &[&str]) -> Result<Request, Failure> {
        parse(words.iter().map(OsString::from))
    }

    #[test]
    fn usage_errors_are_one_line() {
        for words in [&["record"][..], &["frobnicate"], &["record", "--dir", "x", "--tier", "fast"], &[]] {
            match parsed(words) {
                Err(Failure::Usage(error)) => {
                    let line = error.to_string();
                    assert!(!line.contains('\n') && line.len() > 10, "{line}");
                }
                other => panic!("{words:?}: {other:?}"),
            }
        }
    }

    /// A better name stays beside a released one, and does the same.
    #[test]
    fn options_have_other_names() {
        let record = |words: &[&str]| {
            let words = [&["record", "--dir", "x"], words].concat();
            match parsed(&words) {
                Ok(Request::Command(command)) => format!("{command:?}"),
                other => panic!("{words:?}: {other:?}"),
            }
        };
        assert_eq!(record(&["--max-chains", "3"]), record(&["--thin", "3"]));
        assert_eq!(record(&["--time-resolution", "1us"]), record(&["--time-step", "1us"]));
        assert_ne!(record(&["--max-chains", "3"]), record(&[]));
        for Alias { alias, option } in ALIASES {
            let help = match parsed(&["record", "--help"]) {
                Ok(Request::Text(help)) => help,
                other => panic!("{other:?}"),
            };
            assert!(help.contains(alias) && help.contains(option), "{help}");
        }
    }
}
