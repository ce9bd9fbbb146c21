//! iocreplay: reads logs of the flight recorder for EPICS IOCs.
//!
//! `main` reads the arguments, runs one command and turns what became of it into an exit code. Logs
//! come in through [`input`], get their meaning in [`model`], and go out through [`output`]. Nothing
//! here needs root, Linux, or the host that was recorded.

mod cli;
mod failure;
mod filter;
mod input;
mod model;
mod near;
mod notices;
mod output;
mod time;

use cli::{Asked, Command, TraceFormat};
use failure::Failure;
use iocrec_log::reader;
use model::putlog::{each_put, PutLine};
use model::span::Tree;
use notices::Notices;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use time::Zone;

fn main() -> ExitCode {
    failure::exit(run())
}

fn run() -> Result<(), Failure> {
    let arguments: Result<Vec<String>, _> =
        std::env::args_os().skip(1).map(std::ffi::OsString::into_string).collect();
    let arguments = arguments.map_err(|bad| {
        Failure::Usage(format!("argument {bad:?} is not UTF-8; rename the file or use a relative path"))
    })?;
    match cli::parse(&arguments)? {
        Asked::Help(text) => Ok(io::stdout().write_all(text.as_bytes())?),
        Asked::Command(command) => write(&command),
    }
}

/// Runs the command, its output to where it is wanted.
fn write(command: &Command) -> Result<(), Failure> {
    let file = command.output().map(PathBuf::as_path);
    if let Some(path) = file.filter(|path| is_log(path, command.logs())) {
        let line = format!("-o {} would overwrite a log; name another file", path.display());
        return Err(Failure::Usage(line));
    }
    let failed = |error| Failure::writing(error, file);
    let mut out: Box<dyn Write> = match file {
        Some(path) => Box::new(File::create(path).map_err(failed)?),
        None => Box::new(io::stdout().lock()),
    };
    let mut out = BufWriter::with_capacity(1 << 16, &mut out);
    let mut notices = Notices::default();
    let result = execute(command, &mut out, &mut notices);
    let result = result.map_err(|failure| match failure {
        Stop::Writing(error) => failed(error),
        Stop::Failure(failure) => failure,
    });
    out.flush().map_err(failed)?;
    result?;
    if notices.failed() {
        return Err(Failure::Said);
    }
    Ok(())
}

/// Is this file a segment, by its name or because it is one of the logs?
fn is_log(path: &Path, logs: &[PathBuf]) -> bool {
    let Ok(own) = path.canonicalize() else { return false };
    own.extension().is_some_and(|end| end == "iocrec")
        || logs.iter().any(|log| log.canonicalize().is_ok_and(|log| log == own))
}

/// Why a command stopped.
enum Stop {
    /// Its output could not be written.
    Writing(io::Error),
    /// Anything else.
    Failure(Failure),
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        Stop::Writing(error)
    }
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Stop::Failure(failure)
    }
}

fn execute(command: &Command, out: &mut impl Write, notices: &mut Notices) -> Result<(), Stop> {
    match command {
        Command::Info(info) => {
            let zone = Zone::new(info.utc);
            let runs: Vec<_> = input::runs(&info.logs, notices)?
                .iter()
                .map(|files| output::info::read(files, notices, &zone))
                .collect();
            if info.json {
                output::info::json(out, &runs)?;
            } else {
                output::info::text(out, &runs)?;
            }
        }
        Command::Verify(verify) => write_verdict(verify, out)?,
        Command::Puts(puts) => write_puts(puts, out, notices)?,
        Command::Traces(traces) => {
            let zone = Zone::new(traces.utc);
            let filter = traces.filter(&zone)?;
            let until = filter.until.unwrap_or(i64::MAX);
            let mut sink = |tree: Tree| -> io::Result<()> {
                match traces.format {
                    _ if !filter.tree(&tree) => Ok(()),
                    TraceFormat::Text => output::tree::write(out, &tree, &zone),
                    TraceFormat::Otlp => output::otlp::write(out, &tree),
                }
            };
            model::replay(input::sources(&traces.logs, filter.since, notices)?, until, notices, &mut sink)?;
        }
        Command::Why(why) => write_why(why, out, notices)?,
        Command::Iocs(iocs) => {
            for files in input::runs(&iocs.logs, notices)? {
                let found = output::inventory::Inventory::read(&files, notices);
                found.iocs(out, &iocs.filter(), iocs.json, &Zone::new(iocs.utc))?;
            }
        }
        Command::Records(records) => {
            for files in input::runs(&records.logs, notices)? {
                let found = output::inventory::Inventory::read(&files, notices);
                found.records(out, &records.filter(), records.json)?;
            }
        }
    }
    Ok(())
}

/// What is wrong is the answer here, so it is not said on stderr as well.
fn write_verdict(verify: &cli::Verify, out: &mut impl Write) -> Result<(), Stop> {
    let zone = Zone::new(verify.utc);
    let (runs, unreadable) = input::all(&verify.logs);
    let runs: Vec<_> = runs.into_iter().map(|(run, files)| (run, reader::verify(&files))).collect();
    if verify.json {
        output::verify::json(out, &runs, &unreadable, &zone)?;
    } else {
        output::verify::text(out, &runs, &unreadable, &zone)?;
    }
    let sound = output::verify::is_sound(&runs, &unreadable);
    sound.then_some(()).ok_or(Stop::Failure(Failure::Said))
}

/// Chains come by when they began; the puts in them are later than that, so they wait until no
/// earlier one can come.
fn write_puts(puts: &cli::Puts, out: &mut impl Write, notices: &mut Notices) -> Result<(), Stop> {
    let zone = Zone::new(puts.utc);
    let filter = puts.filter(&zone)?;
    let until = filter.until.unwrap_or(i64::MAX);
    let mut waiting: BTreeMap<(i64, u64), PutLine> = BTreeMap::new();
    let mut turns = output::turns::Turns::default();
    let mut count = 0;
    let mut sink = |tree: Tree| -> io::Result<()> {
        let began = tree.root().map_or(i64::MIN, |root| tree.run.wall(root.start));
        while let Some(first) = waiting.first_entry().filter(|first| first.key().0 < began) {
            output::puts::write(out, &first.remove(), puts.format, &zone)?;
        }
        each_put(&tree, puts.all, &mut |put| {
            if filter.put(&put) {
                count += 1;
                waiting.insert((turns.place(began, &put), count), put);
            }
        });
        Ok(())
    };
    model::replay(input::sources(&puts.logs, filter.since, notices)?, until, notices, &mut sink)?;
    for put in waiting.into_values() {
        output::puts::write(out, &put, puts.format, &zone)?;
    }
    Ok(())
}

fn write_why(why: &cli::Why, out: &mut impl Write, notices: &mut Notices) -> Result<(), Stop> {
    let zone = Zone::new(why.utc);
    let filter = why.filter(&zone)?;
    let (since, until) = (filter.since, filter.until.unwrap_or(i64::MAX));
    let mut search = output::why::Why::new(&why.pv, filter);
    let mut sink = |tree: Tree| -> io::Result<()> {
        search.take(tree);
        Ok(())
    };
    model::replay(input::sources(&why.logs, since, notices)?, until, notices, &mut sink)?;
    match search.answer(&zone) {
        Some(answer) if why.json => answer.write_json(out)?,
        Some(answer) => answer.write_text(out)?,
        None => return Err(Stop::Failure(Failure::Failed(not_found(why, notices)?))),
    }
    Ok(())
}

/// Why nothing is known of a PV.
fn not_found(why: &cli::Why, notices: &mut Notices) -> Result<String, Failure> {
    let names = near::names(&input::runs(&why.logs, notices)?);
    let record = model::pv::Pv::new(&why.pv).record;
    if names.contains(record) {
        return Ok(format!(
            "{} was neither processed nor written in these logs at that time; try another --at, or more segments",
            why.pv
        ));
    }
    let near = near::nearest(&names, record);
    if near.is_empty() {
        return Ok(format!(
            "no record or PV '{}' in these logs; see iocreplay puts --all or traces for those there are",
            why.pv
        ));
    }
    Ok(format!("no record or PV '{}' in these logs; did you mean {}?", why.pv, near.join(", ")))
}
