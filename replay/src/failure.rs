//! The end of the program: the one place for exit codes.

use crate::collector::Stopped;
use crate::live::kept::KeptError;
use crate::live::spool::SpoolError;
use crate::live::telemetry::Unsent;
use crate::live::FollowError;
use crate::nothing_found::NoChange;
use crate::operands::WrongOperands;
use crate::output::metrics::TooMany;
use crate::redact::CopyError;
use crate::tables::refused::Refused;
use crate::terminal::Terminal;
use crate::time::NotATime;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{fmt, io};

/// The reason why a command stopped.
#[derive(Debug)]
pub enum Failure {
    /// The command line was wrong.
    Usage(UsageError),
    /// The answer can't be written.
    Output {
        /// The file; `None` for standard output.
        file: Option<PathBuf>,
        /// The reason.
        error: io::Error,
    },
    /// Standard output can't be written while a log is followed, which `-o` is not for.
    Following(io::Error),
    /// `why` found no change.
    NoChange(NoChange),
    /// A collector did not take all spans.
    Collector(Box<Stopped>),
    /// Tables can't be written.
    Tables(Box<Refused>),
    /// More points were asked for than can be held.
    TooManyPoints(TooMany),
    /// A log could not be followed any further.
    Follow(Box<FollowError>),
    /// There is no redacted copy.
    Copy(Box<CopyError>),
    /// The failure was already reported, or is the answer itself.
    Reported,
}

/// Errors in the command line.
#[derive(Debug, PartialEq, Eq)]
pub enum UsageError {
    /// An argument is not UTF-8.
    NotUtf8(OsString),
    /// argh rejects it, for this reason.
    Rejected(String),
    /// No log was given.
    NoLog {
        /// The command.
        command: &'static str,
        /// Operands before the logs.
        operands: &'static str,
    },
    /// A log has an empty name, as an unset variable of a script gives.
    EmptyLog,
    /// A log was given in place of the PV.
    LogBeforePv {
        /// That log.
        log: String,
        /// The PV, if one of the other operands can be one.
        pv: String,
        /// The other logs.
        others: Vec<String>,
    },
    /// A log was given in place of a time.
    LogBeforeTime {
        /// That log.
        log: String,
        /// The command and its operands.
        usage: &'static str,
    },
    /// Names and logs are not in order.
    Operands(WrongOperands),
    /// A text is not a valid time.
    Time(NotATime),
    /// `--follow` never ends, so a file that is written when the answer is complete would never be there.
    FollowIntoFile(PathBuf),
    /// Signals are named, but no collector.
    SignalsUnsent,
    /// Metrics are to count only some PVs, users or clients.
    MetricsOfSome,
    /// The output would be written to a log.
    OutputInLog {
        /// The option that names the file, as `-o`.
        option: &'static str,
        /// The file.
        file: PathBuf,
        /// The conflict.
        conflict: Conflict,
    },
    /// This option, as `-o`, has an empty file name, as an unset variable of a script gives.
    EmptyOutput(&'static str),
    /// This option has `-` for a name, which is not standard output there.
    Dash(&'static str),
    /// Two options name one file, in which only one of the two would be left.
    OneFile {
        /// The options.
        options: [&'static str; 2],
        /// The file.
        file: PathBuf,
    },
    /// A page would be printed on a terminal.
    ReportToTerminal,
    /// A format of this name, which is no text, would be printed on a terminal.
    BinaryToTerminal(&'static str),
    /// This option is for these formats alone.
    OfFormat {
        /// The option.
        option: &'static str,
        /// Their names.
        formats: &'static [&'static str],
    },
    /// `--json`, and `--format` with another format of this name.
    TwoFormats(String),
    /// A format of this name has an end, which `--follow` never writes.
    FollowedWithoutEnd {
        /// Its name.
        format: &'static str,
        /// One without an end.
        instead: &'static str,
    },
    /// Updates that may have made a program put, of a log that is followed.
    UpdatesFollowed,
    /// Something is sent or written, not both; the option that is for writing.
    SentAndWritten(&'static str),
    /// This option skips what was sent before, but nothing is sent.
    SkippedUnsent(&'static str),
    /// `--clock-offset` names a host that none of the logs is of.
    UnknownHost {
        /// The host.
        host: String,
        /// Some of the hosts that there are.
        hosts: Vec<String>,
    },
    /// `--clock-offset` gives this host two offsets.
    OffsetTwice(String),
    /// `--clock-offset auto` with this option, with which the logs are read again as they grow: what is known of the clocks
    /// changes, and with it the times of rows that were written before.
    AutoWhileGrowing(&'static str),
    /// Spans to be skipped, but those of a log that is followed have no numbers.
    SkippedInFollowing,
    /// A drawing beside what this option asks for.
    Drawn(&'static str),
    /// A drawing of the values of some users or clients.
    DrawnOfSome,
    /// Tables have no format and no directory, or several.
    ExportWhere,
    /// `--position` is about a spool, and reads no log.
    PositionOfSpool,
    /// A stream and other logs.
    StreamAlone,
    /// A spool, but no stream.
    SpoolOfStream,
    /// A state beside the spool of a stream, which has its own.
    StateOfStream,
    /// What a stream holds now is not known.
    StreamOnce,
    /// A stream from a terminal.
    StreamFromTerminal,
    /// A map of replacements, but no copy in which they are.
    MapWithoutCopy,
    /// A map of replacements in the copy, which others are to have, in this directory.
    MapInCopy(PathBuf),
    /// A clock to be set right in a copy, which keeps its times.
    OffsetOfCopy,
    /// This option of redact has an empty name.
    EmptyPlace(&'static str),
}

/// Conflict of an output file with a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conflict {
    /// It is a segment.
    IsSegment,
    /// It is in a log's directory.
    InDirectory,
    /// It is named like a segment.
    NamedLikeSegment,
}

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UsageError::NotUtf8(argument) => {
                write!(f, "argument {argument:?} is not UTF-8; if it is a file, rename it, or name it from its directory")
            }
            UsageError::Rejected(reason) => f.write_str(reason),
            UsageError::NoLog { command, operands } => write!(
                f,
                "no LOG; name a segment, or a directory of segments: iocreplay {command} {operands}LOG..."
            ),
            UsageError::EmptyLog => {
                f.write_str("LOG is an empty name; name a segment, or a directory of segments")
            }
            UsageError::LogBeforePv { log, pv, others } => {
                write!(f, "{log} is a log; the PV comes before it: iocreplay why {pv} {log}")?;
                others.iter().try_for_each(|other| write!(f, " {other}"))
            }
            UsageError::LogBeforeTime { log, usage } => {
                write!(f, "{log} is a log; the time comes before it: iocreplay {usage} {log}")
            }
            UsageError::Operands(error) => error.fmt(f),
            UsageError::Time(error) => error.fmt(f),
            UsageError::FollowIntoFile(file) => {
                write!(f, "--follow writes to standard output; leave out -o, and write > {}", file.display())
            }
            UsageError::OutputInLog { option, file, conflict } => {
                let conflict = match conflict {
                    Conflict::IsSegment => "would overwrite a log",
                    Conflict::InDirectory => "is in the directory of a log",
                    Conflict::NamedLikeSegment => "has a name that makes it part of a log",
                };
                write!(f, "{option} {} {conflict}; name another file", file.display())
            }
            UsageError::EmptyOutput("-o") => {
                f.write_str("-o has an empty file name; name a file, or leave out -o for standard output")
            }
            UsageError::EmptyOutput(option) => write!(f, "{option} has an empty file name; name a file"),
            UsageError::EmptyPlace(option) => write!(f, "{option} has an empty name; name a new one"),
            UsageError::Dash(option) => {
                write!(f, "{option} does not write to standard output; name another place than -, or ./- if it is meant")
            }
            UsageError::OneFile { options: [first, second], file } => write!(
                f,
                "{first} and {second} both write {}, where only one of them would be left; name two files",
                file.display()
            ),
            UsageError::BinaryToTerminal(format) => write!(
                f,
                "--format {format} is no text, which a terminal can't show; write it to a file: -o FILE"
            ),
            UsageError::TwoFormats(format) => {
                write!(f, "--json and --format {format} are two formats; leave one of them out")
            }
            UsageError::FollowedWithoutEnd { format, instead } => write!(
                f,
                "--format {format} has an end, which --follow never writes; leave out --follow, or use --format \
                 {instead}"
            ),
            UsageError::UpdatesFollowed => f.write_str(
                "--updates needs what a log holds a minute after a put; leave out --follow, or --updates",
            ),
            UsageError::SentAndWritten(option) => {
                write!(f, "--otlp sends and writes nothing; leave out {option}")
            }
            UsageError::SkippedUnsent(option) => {
                write!(f, "{option} goes on with sending; name the collector, too: --otlp http://HOST:4318")
            }
            UsageError::UnknownHost { host, hosts } => write!(
                f,
                "--clock-offset: no log is of host '{host}'; the logs are of {}",
                if hosts.is_empty() { "no host that is known".to_owned() } else { hosts.join(", ") }
            ),
            UsageError::OffsetTwice(host) => write!(f, "--clock-offset gives host '{host}' two offsets; give it one"),
            UsageError::AutoWhileGrowing(with) => write!(
                f,
                "--clock-offset auto changes as the logs grow; with {with} write what iocreplay info says: HOST=SECONDS"
            ),
            UsageError::Drawn(option) => {
                write!(f, "--plot and --svg draw values instead of listing them; leave them or {option} out")
            }
            UsageError::DrawnOfSome => f.write_str(
                "a drawing of what some clients wrote would hide what others did; leave --user and --client out, or list it \
                 as text, jsonl or csv",
            ),
            UsageError::OfFormat { option, formats } => {
                write!(f, "{option} is for --format {} alone; name that format, or leave it out", formats.join(" and "))
            }
            UsageError::SkippedInFollowing => {
                f.write_str("--skip-spans counts in the order of the log, which --follow does not keep; use --since")
            }
            UsageError::ExportWhere => {
                f.write_str("name the format and the directory of the tables: one of --parquet DIR, --ndjson DIR and --csv DIR")
            }
            UsageError::SignalsUnsent => {
                f.write_str("--signals says what is sent to a collector; name it, too: --otlp http://HOST:4318")
            }
            UsageError::MetricsOfSome => f.write_str(
                "metrics count all of an IOC; leave out --pv, --exclude, --user and --client, or metrics from --signals",
            ),
            UsageError::PositionOfSpool => {
                f.write_str("--position is that of a spool, without LOG: iocreplay follow --position --spool DIR")
            }
            UsageError::StreamAlone => {
                f.write_str("- is the stream of one log, which is followed alone; leave out the other logs")
            }
            UsageError::SpoolOfStream => {
                f.write_str("--spool keeps what a stream brings; read it with -, or leave out --spool")
            }
            UsageError::StateOfStream => {
                f.write_str("--state is for logs on this machine; for - use --spool, which keeps the same")
            }
            UsageError::StreamOnce => {
                f.write_str("--once is for logs on this machine; for - use iocrec cat --no-follow instead")
            }
            UsageError::StreamFromTerminal => {
                f.write_str("- reads the stream of iocrec cat, not a terminal; pipe iocrec cat --dir DIR into it")
            }
            UsageError::MapWithoutCopy => {
                f.write_str("--map is for a copy with the same replacements; name its directory, too: -o DIR")
            }
            UsageError::MapInCopy(copy) => write!(
                f,
                "--map is for you only, and {} is the copy for others; name a file outside of it",
                copy.display()
            ),
            UsageError::OffsetOfCopy => {
                f.write_str("a copy keeps its times: give --clock-offset to the commands that read it")
            }
            UsageError::ReportToTerminal => f.write_str(
                "a report is an HTML page, which a terminal can't show; write it to a file: -o report.html",
            ),
        }
    }
}

/// Hosts that a message lists.
const MAX_HOSTS: usize = 10;

impl UsageError {
    /// `--clock-offset` names a host that is none of these.
    pub fn unknown_host(host: &str, hosts: &[String]) -> UsageError {
        let mut hosts: Vec<String> = hosts.iter().filter(|host| !host.is_empty()).cloned().collect();
        hosts.sort_unstable();
        hosts.dedup();
        if hosts.len() > MAX_HOSTS {
            hosts.truncate(MAX_HOSTS);
            hosts.push("...".into());
        }
        UsageError::UnknownHost { host: host.to_owned(), hosts }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Usage(error) => error.fmt(f),
            Failure::Output { file: Some(file), error } => {
                write!(f, "can't write {}: {error}; name another file", file.display())
            }
            Failure::Output { file: None, error } => {
                write!(f, "can't write to standard output: {error}; try -o FILE")
            }
            Failure::Following(error) => {
                write!(
                    f,
                    "can't write to standard output: {error}; make room there, or write elsewhere: > FILE"
                )
            }
            Failure::NoChange(error) => error.fmt(f),
            Failure::Collector(stopped) => stopped.fmt(f),
            Failure::Tables(refused) => refused.fmt(f),
            Failure::TooManyPoints(error) => error.fmt(f),
            Failure::Follow(error) => error.fmt(f),
            Failure::Copy(error) => error.fmt(f),
            Failure::Reported => f.write_str("reported"),
        }
    }
}

impl Failure {
    /// Failure to write the answer to this file, or to standard output.
    pub fn output(error: io::Error, file: Option<&Path>) -> Self {
        Failure::Output { file: file.map(Path::to_owned), error }
    }

    /// Adds the file that the answer is written to; or that a log was followed, to standard output.
    pub fn to(self, to: Option<&Path>, follows: bool) -> Self {
        match self {
            Failure::Output { file: None, error } if follows => Failure::Following(error),
            Failure::Output { file: None, error } => Failure::output(error, to),
            other => other,
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Failure::output(error, None)
    }
}

impl From<Stopped> for Failure {
    fn from(stopped: Stopped) -> Self {
        Failure::Collector(Box::new(stopped))
    }
}

impl From<Unsent> for Failure {
    fn from(unsent: Unsent) -> Self {
        match unsent {
            Unsent::TooMany(points) => Failure::TooManyPoints(points),
            Unsent::Stopped(stopped) => Failure::Collector(stopped),
        }
    }
}

impl From<WrongOperands> for UsageError {
    fn from(wrong: WrongOperands) -> Self {
        UsageError::Operands(wrong)
    }
}

impl From<Refused> for Failure {
    fn from(refused: Refused) -> Self {
        Failure::Tables(Box::new(refused))
    }
}

impl From<FollowError> for Failure {
    fn from(error: FollowError) -> Self {
        Failure::Follow(Box::new(error))
    }
}

impl From<KeptError> for Failure {
    fn from(error: KeptError) -> Self {
        FollowError::Kept(error).into()
    }
}

impl From<SpoolError> for Failure {
    fn from(error: SpoolError) -> Self {
        FollowError::Spool(error).into()
    }
}

impl From<CopyError> for Failure {
    fn from(error: CopyError) -> Self {
        Failure::Copy(Box::new(error))
    }
}

impl From<UsageError> for Failure {
    fn from(error: UsageError) -> Self {
        Failure::Usage(error)
    }
}

/// 0 on success, 1 on failure, 2 on a usage error; reports the failure on standard error.
pub fn exit(result: Result<(), Failure>) -> ExitCode {
    let failure = match result {
        Ok(()) => return ExitCode::SUCCESS,
        Err(failure) => failure,
    };
    match &failure {
        // Nobody reads the output any more, as in `iocreplay puts LOG | head -1`.
        Failure::Output { error, .. } | Failure::Following(error)
            if error.kind() == io::ErrorKind::BrokenPipe =>
        {
            return ExitCode::SUCCESS;
        }
        Failure::Reported => {}
        failure => Terminal.fail(failure),
    }
    match failure {
        Failure::Usage(_) => ExitCode::from(2),
        _ => ExitCode::FAILURE,
    }
}
