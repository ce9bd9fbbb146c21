//! iocreplay: reads logs of the flight recorder for EPICS IOCs.
//!
//! `main` reads the arguments, runs one command and turns what became of it into an exit code. Logs
//! come in through [`input`], get their meaning in [`model`], and go out through [`output`]. Nothing
//! here needs root, Linux, or the host that was recorded.

#![warn(clippy::print_stdout, clippy::print_stderr)]

mod cli;
mod empty;
mod failure;
mod filter;
mod input;
mod model;
mod near;
mod notices;
mod out;
mod output;
mod target;
mod time;

use cli::Asked as What;
use cli::{Command, TraceFormat};
use empty::{Asked, Kind};
use failure::Failure;
use filter::Filter;
use iocrec_log::reader::{self, SegmentFile};
use model::putlog::{each_put, PutLine};
use model::span::Tree;
use notices::Notices;
use out::{line, Out};
use std::collections::BTreeMap;
use std::io::{self, BufWriter};
use std::path::PathBuf;
use std::process::ExitCode;
use target::Target;
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
        What::Text(text) => Ok(print(&text)?),
        What::Command(command) => write(&command),
    }
}

/// Help, or the version.
fn print(text: &str) -> io::Result<()> {
    let mut below = out::standard();
    let mut out = Out::new(&mut below);
    text.lines().try_for_each(|text| line!(out, "{text}"))?;
    out.flush()
}

/// Runs the command, its output to where it is wanted.
fn write(command: &Command) -> Result<(), Failure> {
    let file = command.output().map(PathBuf::as_path);
    let failed = |error| Failure::writing(error, file);
    let target = Target::open(file, command.logs())?;
    let mut below = BufWriter::with_capacity(1 << 16, target);
    let mut notices = Notices::default();
    let mut out = Out::new(&mut below);
    let result = execute(command, &mut out, &mut notices).and_then(|()| Ok(out.flush()?));
    let result = result.map_err(|failure| match failure {
        Stop::Writing(error) => failed(error),
        Stop::Failure(failure) => failure,
    });
    if matches!(result, Ok(()) | Err(Failure::Said)) {
        let target = below.into_inner().map_err(|error| failed(error.into_error()))?;
        target.close(result.is_ok()).map_err(failed)?;
    } else {
        drop(below.into_parts()); // what could not be written, or is of no use, is not to be written now
    }
    result?;
    if notices.failed() {
        return Err(Failure::Said);
    }
    Ok(())
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

/// The zone of the times that are read and printed.
fn zone(utc: bool, notices: &mut Notices) -> Zone {
    if utc {
        return Zone::utc();
    }
    let (zone, problem) = Zone::local();
    problem.inspect(|line| notices.say(line));
    zone
}

fn execute(command: &Command, out: &mut Out, notices: &mut Notices) -> Result<(), Stop> {
    match command {
        Command::Info(info) => {
            let zone = zone(info.utc, notices);
            let runs: Vec<_> = input::runs(&info.logs, info.no_limit, notices)?
                .iter()
                .map(|files| output::info::read(files, notices, &zone))
                .collect();
            if info.json {
                output::info::json(out, &runs)?;
            } else {
                output::info::text(out, &runs)?;
            }
        }
        Command::Verify(verify) => write_verdict(verify, out, notices)?,
        Command::Puts(puts) => write_puts(puts, out, notices)?,
        Command::Traces(traces) => write_traces(traces, out, notices)?,
        Command::Why(why) => write_why(why, out, notices)?,
        Command::Iocs(iocs) => {
            let (zone, filter) = (zone(iocs.utc, notices), iocs.filter());
            let (runs, mut count) = (input::runs(&iocs.logs, iocs.no_limit, notices)?, 0);
            for files in &runs {
                let found = output::inventory::Inventory::read(files, notices);
                count += found.iocs(out, &filter, iocs.json, &zone)?;
            }
            if count == 0 {
                let asked = Asked { pv: None, ioc: iocs.ioc.as_deref(), host: iocs.host.as_deref() };
                empty::explain(Kind::Iocs, &runs, &asked, &filter, false, &zone, notices);
            }
        }
        Command::Records(records) => {
            let filter = records.filter();
            let (runs, mut count) = (input::runs(&records.logs, records.no_limit, notices)?, 0);
            for files in &runs {
                let found = output::inventory::Inventory::read(files, notices);
                count += found.records(out, &filter, records.json)?;
            }
            if count == 0 {
                let [pv, ioc, host] = [&records.pv, &records.ioc, &records.host].map(Option::as_deref);
                let (asked, zone) = (Asked { pv, ioc, host }, Zone::utc());
                empty::explain(Kind::Records, &runs, &asked, &filter, false, &zone, notices);
            }
        }
    }
    Ok(())
}

/// What is wrong is the answer here, so it is not said on stderr as well.
fn write_verdict(verify: &cli::Verify, out: &mut Out, notices: &mut Notices) -> Result<(), Stop> {
    let zone = zone(verify.utc, notices);
    let (runs, unreadable) = input::all(&verify.logs, verify.no_limit);
    let runs: Vec<_> = runs.into_iter().map(|(run, files)| (run, reader::verify(&files))).collect();
    if verify.json {
        output::verify::json(out, &runs, &unreadable, &zone)?;
    } else {
        output::verify::text(out, &runs, &unreadable, &zone)?;
    }
    out.flush()?;
    let sound = output::verify::is_sound(&runs, &unreadable);
    sound.then_some(()).ok_or(Stop::Failure(Failure::Said))
}

fn write_traces(traces: &cli::Traces, out: &mut Out, notices: &mut Notices) -> Result<(), Stop> {
    let zone = zone(traces.utc, notices);
    let filter = traces.filter(&zone, notices)?;
    let until = filter.until.unwrap_or(i64::MAX);
    let mut count = 0_u64;
    let mut sink = |tree: Tree| -> io::Result<()> {
        if !filter.tree(&tree) {
            return Ok(());
        }
        count += 1;
        match traces.format {
            TraceFormat::Text => output::tree::write(out, &tree, &zone),
            TraceFormat::Otlp => output::otlp::write(out, &tree),
        }
    };
    let runs = input::runs(&traces.logs, traces.no_limit, notices)?;
    model::replay(input::sources(&runs, filter.since), until, notices, &mut sink)?;
    if count == 0 {
        let [pv, ioc, host] = [&traces.pv, &traces.ioc, &traces.host].map(Option::as_deref);
        empty::explain(Kind::Chains, &runs, &Asked { pv, ioc, host }, &filter, false, &zone, notices);
    }
    Ok(())
}

/// Chains come by when they began; the puts in them are later than that, so they wait until no
/// earlier one can come.
fn write_puts(puts: &cli::Puts, out: &mut Out, notices: &mut Notices) -> Result<(), Stop> {
    let zone = zone(puts.utc, notices);
    let filter = puts.filter(&zone, notices)?;
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
    let runs = input::runs(&puts.logs, puts.no_limit, notices)?;
    model::replay(input::sources(&runs, filter.since), until, notices, &mut sink)?;
    for put in waiting.into_values() {
        output::puts::write(out, &put, puts.format, &zone)?;
    }
    if count == 0 {
        let hidden = !puts.all && has_puts_within(&runs, &filter);
        let [pv, ioc, host] = [&puts.pv, &puts.ioc, &puts.host].map(Option::as_deref);
        empty::explain(Kind::Puts, &runs, &Asked { pv, ioc, host }, &filter, hidden, &zone, notices);
    }
    Ok(())
}

/// Are there puts that are asked for, among those of links within IOCs?
fn has_puts_within(runs: &[Vec<SegmentFile>], filter: &Filter) -> bool {
    let mut sink = |tree: Tree| -> Result<(), ()> {
        let mut found = false;
        each_put(&tree, true, &mut |put| found |= filter.put(&put));
        // the first is enough
        if found {
            Err(())
        } else {
            Ok(())
        }
    };
    let until = filter.until.unwrap_or(i64::MAX);
    // what can't be read has been said
    model::replay(input::sources(runs, filter.since), until, &mut Notices::quiet(), &mut sink).is_err()
}

fn write_why(why: &cli::Why, out: &mut Out, notices: &mut Notices) -> Result<(), Stop> {
    let zone = zone(why.utc, notices);
    let filter = why.filter(&zone, notices)?;
    let (since, until) = (filter.since, filter.until.unwrap_or(i64::MAX));
    let mut search = output::why::Why::new(&why.pv, filter);
    let mut sink = |tree: Tree| -> io::Result<()> {
        search.take(tree);
        Ok(())
    };
    let runs = input::runs(&why.logs, why.no_limit, notices)?;
    model::replay(input::sources(&runs, since), until, notices, &mut sink)?;
    match search.answer(&zone) {
        Some(answer) if why.json => answer.write_json(out)?,
        Some(answer) => answer.write_text(out)?,
        None => return Err(Stop::Failure(Failure::Failed(not_found(why, &runs, &zone)?))),
    }
    Ok(())
}

/// Why nothing is known of a PV.
fn not_found(why: &cli::Why, runs: &[Vec<SegmentFile>], zone: &Zone) -> Result<String, Failure> {
    let names = near::names(runs);
    let record = epics::Pv::new(&why.pv).record;
    if names.contains(record) {
        let held = empty::Held::look(runs);
        let asked = Asked { pv: None, ioc: why.ioc.as_deref(), host: why.host.as_deref() };
        let filter = why.filter(zone, &mut Notices::quiet())?;
        if let Some(lacks) = held.lacks(&asked, &filter, zone) {
            return Ok(format!(
                "{} was neither processed nor written in these logs as asked for: {lacks}",
                why.pv
            ));
        }
        let time = held.time(zone).map_or(String::new(), |time| format!(" (they hold {time})"));
        return Ok(match (&why.at, &why.since, &why.ioc, &why.host) {
            (None, None, None, None) => format!(
                "{} was neither processed nor written in these logs{time}; try more segments",
                why.pv
            ),
            (_, _, None, None) => format!(
                "{} was neither processed nor written in these logs at that time{time}; try another --at, or more \
                 segments",
                why.pv
            ),
            _ => format!(
                "{} was neither processed nor written in these logs{time} by what is asked for; leave out --ioc or \
                 --host",
                why.pv
            ),
        });
    }
    let near = near::nearest(&names, record);
    if near.is_empty() {
        return Ok(format!(
            "no record or PV '{}' in these logs; see iocreplay records, or puts --all, for those there are",
            why.pv
        ));
    }
    Ok(format!("no record or PV '{}' in these logs; did you mean {}?", why.pv, near.join(", ")))
}
