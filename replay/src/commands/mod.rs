//! The command line.

use crate::failure::Failure;
use crate::filter::Filter;
use crate::notices::Notices;
use crate::output::puts::text as puts;
use crate::time::{Meant, Zone};
use argh::{EarlyExit, FromArgs};
use iocrec_log::glob::Glob;
use std::path::{Path, PathBuf};

/// Reads logs of iocrec, the flight recorder for EPICS IOCs, and says who changed a PV, why a record
/// processed, and what an IOC was doing.
/// LOG is a segment, a directory of segments, or a directory of such directories, one a host. Several
/// are read together, in the order of time.
#[derive(FromArgs)]
struct Arguments {
    /// print the version
    #[argh(switch, short = 'V')]
    #[allow(dead_code)] // seen to before: with it no command is needed
    version: bool,
    #[argh(subcommand)]
    command: Command,
}

/// What to do.
#[derive(FromArgs)]
#[argh(subcommand)]
pub enum Command {
    /// What is in the log.
    Info(Info),
    /// Is it sound.
    Verify(Verify),
    /// The put log.
    Puts(Puts),
    /// Process chains.
    Traces(Traces),
    /// The cause of a change.
    Why(Why),
    /// The IOCs.
    Iocs(Iocs),
    /// Their records.
    Records(Records),
}

/// What is in the logs: hosts, IOCs, time span, counts, and what is missing (losses, gaps, damage).
#[derive(FromArgs)]
#[argh(subcommand, name = "info")]
pub struct Info {
    /// write JSON
    #[argh(switch)]
    pub json: bool,
    /// times in UTC instead of this machine's zone
    #[argh(switch)]
    pub utc: bool,
    /// read on where more is in a log than any recorder writes into so few bytes
    #[argh(switch)]
    pub no_limit: bool,
    /// write to this file instead of standard output
    #[argh(option, short = 'o', arg_name = "file")]
    pub output: Option<PathBuf>,
    /// segments, or directories of segments
    #[argh(positional, arg_name = "log")]
    pub logs: Vec<PathBuf>,
}

/// Reads every byte of the logs and lists what is damaged or missing: where, why, and which time is gone with it.
/// Exit code 0 if all is as the recorder wrote it, else 1.
#[derive(FromArgs)]
#[argh(subcommand, name = "verify")]
pub struct Verify {
    /// write JSON
    #[argh(switch)]
    pub json: bool,
    /// times in UTC instead of this machine's zone
    #[argh(switch)]
    pub utc: bool,
    /// read on where more is in a log than any recorder writes into so few bytes
    #[argh(switch)]
    pub no_limit: bool,
    /// write to this file instead of standard output
    #[argh(option, short = 'o', arg_name = "file")]
    pub output: Option<PathBuf>,
    /// segments, or directories of segments
    #[argh(positional, arg_name = "log")]
    pub logs: Vec<PathBuf>,
}

/// The put log: who wrote what to which PV, from where, and what became of it. Shows what came from
/// outside the IOCs.
#[derive(FromArgs)]
#[argh(subcommand, name = "puts")]
pub struct Puts {
    /// text (the default) or jsonl
    #[argh(option, default = "puts::Format::Text", from_str_fn(puts_format))]
    pub format: puts::Format,
    /// show the puts of database links and CA links as well
    #[argh(switch)]
    pub all: bool,
    /// only from this time on (ISO 8601, in this machine's zone unless it has an offset)
    #[argh(option)]
    pub since: Option<String>,
    /// only before this time
    #[argh(option)]
    pub until: Option<String>,
    /// only PVs or records that match, with * ? [a-z]
    #[argh(option, arg_name = "glob")]
    pub pv: Option<String>,
    /// only IOCs whose names match
    #[argh(option, arg_name = "name")]
    pub ioc: Option<String>,
    /// only hosts (that were recorded) whose names match
    #[argh(option, arg_name = "name")]
    pub host: Option<String>,
    /// times in UTC instead of this machine's zone
    #[argh(switch)]
    pub utc: bool,
    /// read on where more is in a log than any recorder writes into so few bytes
    #[argh(switch)]
    pub no_limit: bool,
    /// write to this file instead of standard output
    #[argh(option, short = 'o', arg_name = "file")]
    pub output: Option<PathBuf>,
    /// segments, or directories of segments
    #[argh(positional, arg_name = "log")]
    pub logs: Vec<PathBuf>,
}

/// How chains are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceFormat {
    /// An indented tree.
    Text,
    /// OpenTelemetry's OTLP as JSON lines.
    Otlp,
}

/// Process chains: what each put, scan or event set off, across threads, IOCs and hosts.
#[derive(FromArgs)]
#[argh(subcommand, name = "traces")]
pub struct Traces {
    /// text (the default) or otlp (OpenTelemetry JSON lines)
    #[argh(option, default = "TraceFormat::Text", from_str_fn(trace_format))]
    pub format: TraceFormat,
    /// only chains that began from this time on (ISO 8601, in this machine's zone unless it has an offset)
    #[argh(option)]
    pub since: Option<String>,
    /// only chains that began before this time
    #[argh(option)]
    pub until: Option<String>,
    /// only chains with a PV or record that matches, with * ? [a-z]
    #[argh(option, arg_name = "glob")]
    pub pv: Option<String>,
    /// only chains through IOCs whose names match
    #[argh(option, arg_name = "name")]
    pub ioc: Option<String>,
    /// only chains through hosts whose names match
    #[argh(option, arg_name = "name")]
    pub host: Option<String>,
    /// times in UTC instead of this machine's zone
    #[argh(switch)]
    pub utc: bool,
    /// read on where more is in a log than any recorder writes into so few bytes
    #[argh(switch)]
    pub no_limit: bool,
    /// write to this file instead of standard output
    #[argh(option, short = 'o', arg_name = "file")]
    pub output: Option<PathBuf>,
    /// segments, or directories of segments
    #[argh(positional, arg_name = "log")]
    pub logs: Vec<PathBuf>,
}

/// The cause of the last change of a PV: the chain that led to it, from the person, scan or event at
/// its root.
#[derive(FromArgs)]
#[argh(subcommand, name = "why")]
pub struct Why {
    /// the last change before this time (default: the last of all)
    #[argh(option, arg_name = "time")]
    pub at: Option<String>,
    /// only changes from this time on
    #[argh(option)]
    pub since: Option<String>,
    /// only in IOCs whose names match
    #[argh(option, arg_name = "name")]
    pub ioc: Option<String>,
    /// only on hosts whose names match
    #[argh(option, arg_name = "name")]
    pub host: Option<String>,
    /// write JSON
    #[argh(switch)]
    pub json: bool,
    /// times in UTC instead of this machine's zone
    #[argh(switch)]
    pub utc: bool,
    /// read on where more is in a log than any recorder writes into so few bytes
    #[argh(switch)]
    pub no_limit: bool,
    /// write to this file instead of standard output
    #[argh(option, short = 'o', arg_name = "file")]
    pub output: Option<PathBuf>,
    /// record, or record.FIELD
    #[argh(positional)]
    pub pv: String,
    /// segments, or directories of segments
    #[argh(positional, arg_name = "log")]
    pub logs: Vec<PathBuf>,
}

/// The IOCs that were recorded: what each is, how it serves, how it ended, what of it could not be
/// recorded.
#[derive(FromArgs)]
#[argh(subcommand, name = "iocs")]
pub struct Iocs {
    /// a JSON object a line
    #[argh(switch)]
    pub json: bool,
    /// only IOCs whose names match
    #[argh(option, arg_name = "name")]
    pub ioc: Option<String>,
    /// only hosts whose names match
    #[argh(option, arg_name = "name")]
    pub host: Option<String>,
    /// times in UTC instead of this machine's zone
    #[argh(switch)]
    pub utc: bool,
    /// read on where more is in a log than any recorder writes into so few bytes
    #[argh(switch)]
    pub no_limit: bool,
    /// write to this file instead of standard output
    #[argh(option, short = 'o', arg_name = "file")]
    pub output: Option<PathBuf>,
    /// segments, or directories of segments
    #[argh(positional, arg_name = "log")]
    pub logs: Vec<PathBuf>,
}

/// The records of the IOCs that were recorded: type, other names, texts of states.
#[derive(FromArgs)]
#[argh(subcommand, name = "records")]
pub struct Records {
    /// a JSON object a line
    #[argh(switch)]
    pub json: bool,
    /// only records with a name, or another name, that matches, with * ? [a-z]
    #[argh(option, arg_name = "glob")]
    pub pv: Option<String>,
    /// only IOCs whose names match
    #[argh(option, arg_name = "name")]
    pub ioc: Option<String>,
    /// only hosts whose names match
    #[argh(option, arg_name = "name")]
    pub host: Option<String>,
    /// read on where more is in a log than any recorder writes into so few bytes
    #[argh(switch)]
    pub no_limit: bool,
    /// write to this file instead of standard output
    #[argh(option, short = 'o', arg_name = "file")]
    pub output: Option<PathBuf>,
    /// segments, or directories of segments
    #[argh(positional, arg_name = "log")]
    pub logs: Vec<PathBuf>,
}

fn puts_format(name: &str) -> Result<puts::Format, String> {
    match name {
        "text" => Ok(puts::Format::Text),
        "jsonl" => Ok(puts::Format::JsonLines),
        _ => Err(format!("no format '{name}'; there are text and jsonl")),
    }
}

fn trace_format(name: &str) -> Result<TraceFormat, String> {
    match name {
        "text" => Ok(TraceFormat::Text),
        "otlp" => Ok(TraceFormat::Otlp),
        _ => Err(format!("no format '{name}'; there are text and otlp")),
    }
}

impl Command {
    /// The logs to read.
    pub fn logs(&self) -> &[PathBuf] {
        match self {
            Command::Info(info) => &info.logs,
            Command::Verify(verify) => &verify.logs,
            Command::Puts(puts) => &puts.logs,
            Command::Traces(traces) => &traces.logs,
            Command::Why(why) => &why.logs,
            Command::Iocs(iocs) => &iocs.logs,
            Command::Records(records) => &records.logs,
        }
    }

    /// The file to write to, if not standard output.
    pub fn output(&self) -> Option<&PathBuf> {
        match self {
            Command::Info(info) => info.output.as_ref(),
            Command::Verify(verify) => verify.output.as_ref(),
            Command::Puts(puts) => puts.output.as_ref(),
            Command::Traces(traces) => traces.output.as_ref(),
            Command::Why(why) => why.output.as_ref(),
            Command::Iocs(iocs) => iocs.output.as_ref(),
            Command::Records(records) => records.output.as_ref(),
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Command::Info(_) => "info",
            Command::Verify(_) => "verify",
            Command::Puts(_) => "puts",
            Command::Traces(_) => "traces",
            Command::Why(_) => "why",
            Command::Iocs(_) => "iocs",
            Command::Records(_) => "records",
        }
    }
}

impl Puts {
    /// What is asked for.
    pub fn filter(&self, zone: &Zone, notices: &mut Notices) -> Result<Filter, Failure> {
        let [pv, ioc, host] = [&self.pv, &self.ioc, &self.host].map(glob);
        let since = time(zone, &self.since, Meant::Begin, notices)?;
        let until = time(zone, &self.until, Meant::End, notices)?;
        Ok(Filter { since, until, pv, ioc, host })
    }
}

impl Traces {
    /// What is asked for.
    pub fn filter(&self, zone: &Zone, notices: &mut Notices) -> Result<Filter, Failure> {
        let [pv, ioc, host] = [&self.pv, &self.ioc, &self.host].map(glob);
        let since = time(zone, &self.since, Meant::Begin, notices)?;
        let until = time(zone, &self.until, Meant::End, notices)?;
        Ok(Filter { since, until, pv, ioc, host })
    }
}

impl Why {
    /// Does a log stand where the PV should? A record can have the name of a file that is here, so only if something
    /// that is no log stands where the logs should.
    fn is_turned_round(&self) -> bool {
        let is_log = Path::new(&self.pv).exists() || self.pv.ends_with(".iocrec");
        is_log && (self.logs.is_empty() || self.logs.iter().any(|log| !log.exists()))
    }

    /// What is asked for.
    pub fn filter(&self, zone: &Zone, notices: &mut Notices) -> Result<Filter, Failure> {
        let [ioc, host] = [&self.ioc, &self.host].map(glob);
        let since = time(zone, &self.since, Meant::Begin, notices)?;
        let until = time(zone, &self.at, Meant::End, notices)?;
        Ok(Filter { since, until, pv: None, ioc, host })
    }
}

impl Iocs {
    /// What is asked for.
    pub fn filter(&self) -> Filter {
        let [ioc, host] = [&self.ioc, &self.host].map(glob);
        Filter { ioc, host, ..Filter::default() }
    }
}

impl Records {
    /// What is asked for.
    pub fn filter(&self) -> Filter {
        let [pv, ioc, host] = [&self.pv, &self.ioc, &self.host].map(glob);
        Filter { pv, ioc, host, ..Filter::default() }
    }
}

fn glob(pattern: &Option<String>) -> Option<Glob> {
    pattern.as_deref().map(Glob::new)
}

fn time(
    zone: &Zone,
    text: &Option<String>,
    meant: Meant,
    notices: &mut Notices,
) -> Result<Option<i64>, Failure> {
    let Some(text) = text else { return Ok(None) };
    let parsed = zone.parse(text, meant).map_err(Failure::Usage)?;
    parsed.note.inspect(|note| notices.say(note));
    Ok(Some(parsed.wall))
}

/// What the arguments (without the program's name) ask for.
pub enum Asked {
    /// This.
    Command(Command),
    /// A text to be printed: help, the version.
    Text(String),
}

/// Reads the arguments.
pub fn parse(arguments: &[String]) -> Result<Asked, Failure> {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    if let ["--version" | "-V", ..] = arguments.as_slice() {
        return Ok(Asked::Text(concat!("iocreplay ", env!("CARGO_PKG_VERSION"), "\n").to_owned()));
    }
    match Arguments::from_args(&["iocreplay"], &arguments) {
        Ok(Arguments { command: Command::Why(why), .. }) if why.is_turned_round() => {
            let (log, words) = (&why.pv, why.logs.iter());
            let pv = words.clone().find(|word| !word.exists()).map_or("PV".into(), |pv| pv.to_string_lossy());
            let logs: Vec<_> = words.filter(|word| word.exists()).map(|log| log.to_string_lossy()).collect();
            let logs = [&[log.as_str().into()], logs.as_slice()].concat().join(" ");
            Err(Failure::Usage(format!("{log} is a log; the PV comes before it: iocreplay why {pv} {logs}")))
        }
        Ok(Arguments { command, .. }) if command.logs().is_empty() => Err(Failure::Usage(format!(
            "no LOG; name a segment, or a directory of segments: iocreplay {}{} LOG...",
            command.name(),
            if matches!(command, Command::Why(_)) { " PV" } else { "" }
        ))),
        Ok(Arguments { command, .. }) => Ok(Asked::Command(command)),
        Err(EarlyExit { output, status: Ok(()) }) => Ok(Asked::Text(output)),
        Err(EarlyExit { output, status: Err(()) }) => {
            let lines: Vec<&str> = output.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
            let mut line = lines.join(" ");
            if !line.contains("--help") {
                line.push_str("; see iocreplay --help");
            }
            Err(Failure::Usage(line))
        }
    }
}
