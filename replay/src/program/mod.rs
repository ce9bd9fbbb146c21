//! The program `iocreplay`: reads the arguments, runs one command, and turns the result into an exit code.

use crate::commands::command::Outcome;
use crate::commands::{AnyCommand, Arguments};
use crate::destination::Destination;
use crate::failure::{self, Failure, UsageError};
use crate::out::{line, Out};
use crate::terminal::{self, progress, style};
use crate::unfinished;
use crate::writing::Writing;
use argh::{EarlyExit, FromArgs};
use std::ffi::OsString;
use std::io;
use std::process::ExitCode;
#[cfg(unix)]
use std::sync::{atomic::AtomicBool, Arc};

/// Runs the program with these arguments, without the program's name.
pub fn run(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    #[cfg(unix)]
    outlive_size_limit();
    failure::exit(parse(arguments).and_then(|request| match request {
        Request::Text(text) => Ok(print(&text)?),
        Request::Command(arguments) => execute(&arguments),
    }))
}

/// Lets a write beyond the limit of file sizes (RLIMIT_FSIZE) fail, as on a full disk. The signal would end the program without a word,
/// and what it had begun would stay.
#[cfg(unix)]
fn outlive_size_limit() {
    // fails for signals that can't be caught, which this is not
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::new(AtomicBool::new(false)));
}

/// The request in the arguments.
#[derive(Debug)]
enum Request {
    /// Run a command.
    Command(Box<Arguments>),
    /// Print a text: help, the version.
    Text(String),
}

/// Reads the arguments.
fn parse(arguments: impl Iterator<Item = OsString>) -> Result<Request, Failure> {
    let arguments: Result<Vec<String>, OsString> = arguments.map(OsString::into_string).collect();
    let arguments = arguments.map_err(UsageError::NotUtf8)?;
    let arguments = with_times(arguments);
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    if let ["--version" | "-V", ..] = words.as_slice() {
        return Ok(Request::Text(concat!("iocreplay ", env!("CARGO_PKG_VERSION"), "\n").to_owned()));
    }
    match Arguments::from_args(&["iocreplay"], &words) {
        Ok(arguments) => {
            let (name, command) = arguments.command.get();
            two_formats(&words)?;
            command.check()?;
            let logs = command.reading().logs;
            if logs.is_empty() {
                return Err(UsageError::NoLog { command: name, operands: command.operands() }.into());
            }
            if logs.iter().any(|log| log.as_os_str().is_empty()) {
                return Err(UsageError::EmptyLog.into());
            }
            Ok(Request::Command(Box::new(arguments)))
        }
        Err(EarlyExit { output, status: Ok(()) }) => Ok(Request::Text(output)),
        Err(EarlyExit { output, status: Err(()) }) => {
            Err(UsageError::Rejected(rejection(&output, &words)).into())
        }
    }
}

/// Commands whose `--json` is one object over many lines, and no other name of `--format jsonl`.
const ONE_OBJECT: [&str; 3] = ["info", "verify", "why"];

/// Refuses `--json` beside another format. Words that argh accepted.
fn two_formats(words: &[&str]) -> Result<(), UsageError> {
    let format = words.windows(2).find_map(|pair| match pair {
        ["--format", name] => Some(*name),
        _ => None,
    });
    let is_one_object = words.first().is_some_and(|command| ONE_OBJECT.contains(command));
    match format.filter(|name| (is_one_object || *name != "jsonl") && words.contains(&"--json")) {
        Some(name) => Err(UsageError::TwoFormats(name.to_owned())),
        None => Ok(()),
    }
}

/// What argh, and what it asks for numbers, say of a value, and what is to be said of it.
const SAID: [(&str, &str); 4] = [
    ("duplicate values provided", "the option is there twice; leave one of them out"),
    ("invalid digit found in string", "that is no whole number from 0 on; write one like 10"),
    ("cannot parse integer from empty string", "that is no whole number from 0 on; write one like 10"),
    ("number too large to fit in target type", "the number is too large; write one like 10"),
];

/// The line for arguments that argh rejects with this text: what is wrong, and the help that lists what is right.
fn rejection(text: &str, arguments: &[&str]) -> String {
    let name = arguments.first().copied();
    let command = name.filter(|name| AnyCommand::NAMES.contains(name));
    let lines = || text.lines().map(str::trim).filter(|line| !line.is_empty());
    let mut reason = match name {
        None => format!("no command; choose one of {}", AnyCommand::NAMES.join(" ")),
        Some(name) if command.is_none() && !name.starts_with('-') => format!("there is no command '{name}'"),
        _ => lines().collect::<Vec<&str>>().join(" "),
    };
    for (said, instead) in SAID {
        if reason.ends_with(said) {
            reason.truncate(reason.len() - said.len());
            reason.push_str(instead);
        }
    }
    reason.truncate(reason.trim_end_matches('.').len());
    // argh takes a value behind a blank only
    let joined = reason.strip_prefix("Unrecognized argument: --").and_then(|option| option.split_once('='));
    if let Some(separate) = joined.map(|(option, value)| format!("; write --{option} {value}")) {
        reason.push_str(&separate);
    }
    if !reason.contains("--help") {
        reason.push_str("; see iocreplay ");
        if let Some(command) = command {
            reason.extend([command, " "]);
        }
        reason.push_str("--help");
    }
    reason
}

/// Commands whose operands are times.
const TIMES: [&str; 2] = ["at", "diff"];

/// Makes operands of times like `-10m`, and of `-`, which argh would take for options: a space before it is ignored.
fn with_times(mut arguments: Vec<String>) -> Vec<String> {
    let is_time = |text: &str| {
        text.strip_prefix('-').is_some_and(|text| text.starts_with(|c: char| c.is_ascii_digit()))
    };
    if arguments.first().is_some_and(|command| TIMES.contains(&command.as_str())) {
        arguments.iter_mut().filter(|text| is_time(text)).for_each(|text| text.insert(0, ' '));
    }
    if arguments.first().is_some_and(|command| command == "follow") {
        arguments.iter_mut().filter(|text| *text == "-").for_each(|text| text.insert(0, ' '));
    }
    arguments
}

/// Prints help, or the version.
fn print(text: &str) -> io::Result<()> {
    let mut below = terminal::standard();
    let mut out = Out::new(&mut below);
    text.lines().try_for_each(|text| line!(out, "{text}"))?;
    out.flush()
}

/// Runs the command and writes its answer to the requested destination.
fn execute(arguments: &Arguments) -> Result<(), Failure> {
    let (_, command) = arguments.command.get();
    let reading = command.reading();
    let file = reading.file();
    let failed = |error| Failure::output(error, file);
    unfinished::remove_at_signals();
    let destination = Destination::open(file, &reading.logs)?;
    let styled = style::is_wanted(destination.is_terminal());
    let mut below = Writing::new(destination);
    let mut out = Out::new(&mut below);
    out.use_styles(styled);
    progress::start();
    let result = command.run(&mut out).and_then(|outcome| {
        out.flush()?;
        Ok(outcome)
    });
    progress::end();
    let result = result.map_err(|failure| failure.to(file, command.follows()));
    if matches!(result, Ok(_) | Err(Failure::Reported)) {
        let destination = below.finish().map_err(failed)?;
        destination.close(result.is_ok()).map_err(failed)?;
    } else {
        drop(below); // discards unwritten or useless output
    }
    match result? {
        Outcome::Complete => Ok(()),
        Outcome::Incomplete => Err(Failure::Reported),
    }
}
