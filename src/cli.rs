//! The command line of iocrec, and the one place that decides on exit codes: 0 success, 1 failure, 2 bad
//! usage.

use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use argh::{ArgsInfo, CommandInfoWithArgs, FromArgs};
use iocrec_cli::alias::Alias;
use iocrec_log::event::Tier;
use iocrec_log::storage::Directory;
use iocrec_log::writer::{self, Writer};
use nix::errno::Errno;
use nix::fcntl::{fallocate, FallocateFlags};

use crate::bpf;
use crate::commands::{check, mark, status, watch};
use crate::control::{self, Reply};
use crate::directory::Guard;
use crate::linux::signals::HangUp;
use crate::linux::user::Users;
use crate::linux::{privileges, signals};
use crate::probes::tiers::TierRequest;
use crate::recorder::chain_sampling::Retain;
use crate::recorder::holding::Holding;
use crate::recorder::report::Report;
use crate::recorder::selection::Selection;
use crate::recorder::sink::Sink;
use crate::recorder::store::Store;
use crate::recorder::triggers::Triggers;
use crate::recorder::{self, Recorder};
use crate::terminal::{self, complain};

/// Steps of times in nanoseconds, unless told otherwise. A probe takes 400 ns and more, so that what differs by less
/// does not come from the IOC; it would be half of the log (docs/benchmarks.md).
const TIME_STEP: u64 = 256;

/// A flight recorder for EPICS IOCs: watches running IOCs from outside, without changing them.
#[derive(FromArgs, ArgsInfo, Debug)]
struct Arguments {
    /// print the version
    #[argh(switch, short = 'V')]
    #[allow(dead_code)] // seen to before: with it no command is needed
    version: bool,

    #[argh(subcommand)]
    command: Command,
}

#[derive(FromArgs, ArgsInfo, Debug)]
#[argh(subcommand)]
enum Command {
    Record(Record),
    Watch(Watch),
    Check(Check),
    Mark(Mark),
    Status(ShowStatus),
    Version(Version),
}

/// record IOCs into a log directory, to be read with iocreplay
#[derive(FromArgs, ArgsInfo, Debug)]
#[argh(subcommand, name = "record")]
struct Record {
    /// directory of the log; made if it is not there
    #[argh(option)]
    dir: PathBuf,

    /// most bytes that the log may take, e.g. 64M: the oldest goes first (default 64M)
    #[argh(option, default = "64 << 20", from_str_fn(size))]
    max_disk: u64,

    /// delete what is older, e.g. 30d (default: only the size counts); pins stay
    #[argh(option, from_str_fn(duration))]
    max_age: Option<Duration>,

    /// how much before a mark or another cause is kept when older parts of the log go (default 5m)
    #[argh(option, default = "Duration::from_secs(300)", from_str_fn(duration))]
    pin_before: Duration,

    /// how much after it is kept (default 1m)
    #[argh(option, default = "Duration::from_secs(60)", from_str_fn(duration))]
    pin_after: Duration,

    /// percent of the log that what is kept may have, at most 75; the oldest goes first (default 25; 0: keep nothing)
    #[argh(option, default = "25")]
    pin_share: u8,

    /// keep what is around a MAJOR or INVALID alarm of records whose names match; repeatable. What is around the
    /// death of an IOC is always kept
    #[argh(option)]
    pin_on: Vec<String>,

    /// keep what is around a put from outside to PVs or records whose names match; repeatable
    #[argh(option)]
    pin_on_put: Vec<String>,

    /// longest time that an event stays in memory (default 1s): what a crash of the recorder costs
    #[argh(option, default = "Duration::from_secs(1)", from_str_fn(duration))]
    flush: Duration,

    /// longest time until an event is safe from a power cut (default 5s)
    #[argh(option, default = "Duration::from_secs(5)", from_str_fn(duration))]
    sync: Duration,

    /// round times down to steps of so long, at most 1ms, which makes the log smaller; the next smaller power of two in
    /// ns is taken (default 256ns; 1ns keeps them as they are)
    #[argh(option, default = "TIME_STEP", from_str_fn(time_step))]
    time_step: u64,

    /// leave out as many process chains as needed for --max-disk to hold this long, e.g. 24h
    #[argh(option, from_str_fn(duration))]
    retain: Option<Duration>,

    /// end after this time, e.g. 30s (default: at SIGINT or SIGTERM)
    #[argh(option, from_str_fn(duration))]
    duration: Option<Duration>,

    /// capture packets on this interface of iocrec's own network namespace; repeatable (default any)
    #[argh(option)]
    iface: Vec<String>,

    /// a CA server's TCP port, besides those of local servers, which are found; repeatable
    #[argh(option)]
    port: Vec<u16>,

    /// only this process; repeatable (default: every IOC there is and those that start later)
    #[argh(option)]
    pid: Vec<u32>,

    /// only processes of this user, a name or a number; repeatable (default: those of all)
    #[argh(option)]
    user: Vec<String>,

    /// only records and PVs whose names match, e.g. 'SR:*'; repeatable
    #[argh(option)]
    only: Vec<String>,

    /// no records and PVs whose names match; repeatable
    #[argh(option)]
    exclude: Vec<String>,

    /// do not record puts
    #[argh(switch)]
    no_puts: bool,

    /// do not record processing
    #[argh(switch)]
    no_process: bool,

    /// keep at most so many process chains a second of each record that begins them, as wholes; puts and what
    /// they cause are all kept
    #[argh(option, from_str_fn(chains))]
    thin: Option<u32>,

    /// leave out the IOCs' command lines; by default only what looks like a secret in them is left out
    #[argh(switch)]
    no_command_lines: bool,

    /// how to watch: auto, ring, perf or packet (default auto, the best that works here)
    #[argh(option, default = "TierRequest::Auto", from_str_fn(tier))]
    tier: TierRequest,
}

/// print puts and processing as they happen, a line each; writes no log
#[derive(FromArgs, ArgsInfo, Debug)]
#[argh(subcommand, name = "watch")]
struct Watch {
    /// end after this time, e.g. 30s (default: at SIGINT or SIGTERM)
    #[argh(option, from_str_fn(duration))]
    duration: Option<Duration>,

    /// capture packets on this interface of iocrec's own network namespace; repeatable (default any)
    #[argh(option)]
    iface: Vec<String>,

    /// a CA server's TCP port, besides those of local servers, which are found; repeatable
    #[argh(option)]
    port: Vec<u16>,

    /// only this process; repeatable (default: every IOC there is and those that start later)
    #[argh(option)]
    pid: Vec<u32>,

    /// only processes of this user, a name or a number; repeatable (default: those of all)
    #[argh(option)]
    user: Vec<String>,

    /// only records and PVs whose names match, e.g. 'SR:*'; repeatable
    #[argh(option)]
    only: Vec<String>,

    /// no records and PVs whose names match; repeatable
    #[argh(option)]
    exclude: Vec<String>,

    /// no puts
    #[argh(switch)]
    no_puts: bool,

    /// no processing
    #[argh(switch)]
    no_process: bool,

    /// at most so many process chains a second of each record that begins them; all puts
    #[argh(option, from_str_fn(chains))]
    thin: Option<u32>,

    /// leave out the IOCs' command lines; by default only what looks like a secret in them is left out
    #[argh(switch)]
    no_command_lines: bool,

    /// how to watch: auto, ring, perf or packet (default auto, the best that works here)
    #[argh(option, default = "TierRequest::Auto", from_str_fn(tier))]
    tier: TierRequest,
}

/// say what this machine allows, with reasons, and which IOCs run on it
#[derive(FromArgs, ArgsInfo, Debug)]
#[argh(subcommand, name = "check")]
struct Check {
    /// only processes of this user, a name or a number; repeatable (default: those of all)
    #[argh(option)]
    user: Vec<String>,

    /// as JSON
    #[argh(switch)]
    json: bool,
}

/// write a mark into the log of the running recorder; what is around it is kept
#[derive(FromArgs, ArgsInfo, Debug)]
#[argh(subcommand, name = "mark")]
struct Mark {
    /// directory of the log
    #[argh(option)]
    dir: PathBuf,

    /// the mark's text, e.g. "beam lost"
    #[argh(positional)]
    text: Vec<String>,
}

/// say if a recorder is running on a directory, and how it does
#[derive(FromArgs, ArgsInfo, Debug)]
#[argh(subcommand, name = "status")]
struct ShowStatus {
    /// directory of the log
    #[argh(option)]
    dir: PathBuf,

    /// as JSON
    #[argh(switch)]
    json: bool,
}

/// print the version
#[derive(FromArgs, ArgsInfo, Debug)]
#[argh(subcommand, name = "version")]
struct Version {}

/// Other names of options.
pub static ALIASES: &[Alias] = &[];

/// What argh knows of the command line: for the manual page and the completions (crate iocrec-pages).
pub fn args_info() -> CommandInfoWithArgs {
    Arguments::get_args_info()
}

/// Why the program ends.
enum Failure {
    /// The user's words make no sense: exit code 2.
    Usage(String),
    /// It could not be done: exit code 1.
    Failed(String),
}

/// Runs the program with these arguments.
pub fn run(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let words: Result<Vec<String>, OsString> = arguments.map(OsString::into_string).collect();
    let outcome = match words {
        Err(word) => Err(Failure::Usage(format!("an argument is not UTF-8: {}", word.to_string_lossy()))),
        Ok(words) => parse(&words).and_then(|parsed| parsed.map_or(Ok(()), execute)),
    };
    let (line, code) = match outcome {
        Ok(()) => return ExitCode::SUCCESS,
        Err(Failure::Usage(line)) => (line, 2),
        Err(Failure::Failed(line)) => (line, 1),
    };
    complain(&line);
    ExitCode::from(code)
}

/// `None`: help was asked for and given.
fn parse(words: &[String]) -> Result<Option<Command>, Failure> {
    let mut words: Vec<&str> = words.iter().map(String::as_str).collect();
    if let ["--version" | "-V", ..] = words.as_slice() {
        words = vec!["version"];
    }
    match Arguments::from_args(&["iocrec"], &words) {
        Ok(arguments) => Ok(Some(arguments.command)),
        Err(exit) if exit.status.is_ok() => {
            terminal::print(&exit.output);
            Ok(None)
        }
        Err(exit) => {
            let line = exit.output.split_whitespace().collect::<Vec<_>>().join(" ");
            Err(Failure::Usage(format!("{line} (iocrec --help)")))
        }
    }
}

fn execute(command: Command) -> Result<(), Failure> {
    match command {
        Command::Record(record) => crate::cli::record(record),
        Command::Watch(watch) => crate::cli::watch(watch),
        Command::Check(check) => {
            let users = Users::named(&check.user).map_err(|error| Failure::Usage(error.to_string()))?;
            check::run(check.json, &users).map_err(Failure::Failed)
        }
        Command::Mark(mark) if mark.text.is_empty() => {
            Err(Failure::Usage("a mark needs a text, e.g. iocrec mark --dir DIR \"beam lost\"".into()))
        }
        Command::Mark(mark) => mark::run(&mark.dir, &mark.text).map_err(Failure::Failed),
        Command::Status(status) => status::run(&status.dir, status.json).map_err(Failure::Failed),
        Command::Version(_) => {
            terminal::print(concat!("iocrec ", env!("CARGO_PKG_VERSION")));
            Ok(())
        }
    }
}

fn record(record: Record) -> Result<(), Failure> {
    let users = Users::named(&record.user).map_err(|error| Failure::Usage(error.to_string()))?;
    let failed = |error: &dyn std::fmt::Display| Failure::Failed(error.to_string());
    let guard = Box::new(Guard::new(complain));
    let directory =
        Directory::open_kept(&record.dir, guard).map_err(|error| failed(&error))?.reserving(set_aside);
    let options = writer::Options {
        max_disk: record.max_disk,
        max_age: record.max_age,
        pin_before: record.pin_before,
        pin_after: record.pin_after,
        pin_share: record.pin_share,
        flush: record.flush,
        sync: record.sync,
        time_step: record.time_step,
        ..writer::Options::default()
    };
    let run = run_number().map_err(|error| Failure::Failed(format!("/dev/urandom: {error}")))?;
    let writer = Writer::open(directory, options, run).map_err(|error| failed(&error))?;
    limit_privileges(is_foreign(&record.dir));
    let report = Report::new(record.dir.to_string_lossy().into_owned(), record.max_disk);
    let triggers = Triggers::new(&record.pin_on, &record.pin_on_put);
    let no_thread = |error| Failure::Failed(format!("no thread for the log: {error}"));
    let mut store = Store::start(writer, triggers, report).map_err(no_thread)?;
    let (answerer, notices) = (store.answerer(), store.notices());
    let say = move |line| _ = notices.try_send(line);
    control::serve(
        &record.dir,
        move |request| match answerer.answer(request) {
            Ok(answer) => Reply::Done(answer),
            Err(error) => Reply::Refused(error.to_string()),
        },
        say,
    )
    .map_err(no_thread)?;
    let options = recorder::Options {
        tier: record.tier,
        interfaces: interfaces(record.iface),
        ports: record.port,
        pids: record.pid,
        users,
        selection: Selection::new(&record.only, &record.exclude),
        no_command_lines: record.no_command_lines,
        puts: !record.no_puts,
        process: !record.no_process,
        duration: record.duration,
        thin: record.thin,
        retain: record.retain.map(|time| Retain { max_disk: record.max_disk, time }),
    };
    signals::catch(HangUp::IsIgnored);
    let outcome = drive(options, &mut store);
    let (status, said) = store.close().map_err(|error| Failure::Failed(error.to_string()))?;
    said.iter().for_each(|line| complain(line));
    part_with(outcome?);
    match &status.state {
        writer::State::Ok => Ok(()),
        writer::State::Paused { reason } => {
            Err(Failure::Failed(format!("{} events were not stored: {reason}", status.lost)))
        }
    }
}

/// Does the log's directory, or the one that it is in, where it may have to be made again, belong to another user?
fn is_foreign(path: &Path) -> bool {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let owners = [path, parent].map(|path| std::fs::metadata(path).map(|found| found.uid()));
    owners.into_iter().flatten().any(|owner| owner != nix::unistd::geteuid().as_raw())
}

/// Gives up what recording does not need, before there is a second thread. `foreign`: it writes where another user's
/// permissions count.
fn limit_privileges(foreign: bool) {
    // the last that needs CAP_SYS_RESOURCE
    bpf::raise_limits();
    if let Err(error) = privileges::limit(foreign.then_some(privileges::DAC_OVERRIDE)) {
        complain(&format!("capabilities that are not needed could not be given up: {error}"));
    }
}

fn watch(watch: Watch) -> Result<(), Failure> {
    let users = Users::named(&watch.user).map_err(|error| Failure::Usage(error.to_string()))?;
    let options = recorder::Options {
        tier: watch.tier,
        interfaces: interfaces(watch.iface),
        ports: watch.port,
        pids: watch.pid,
        users,
        selection: Selection::new(&watch.only, &watch.exclude),
        no_command_lines: watch.no_command_lines,
        puts: !watch.no_puts,
        process: !watch.no_process,
        duration: watch.duration,
        thin: watch.thin,
        retain: None,
    };
    limit_privileges(false);
    signals::catch(HangUp::Ends);
    let mut sink = watch::on_stdout();
    let recorder = drive(options, &mut sink)?;
    sink.tick(u64::MAX);
    part_with(recorder);
    Ok(())
}

/// Ends a recorder, all of whose events are written. That takes a while where it can't be left to others.
fn part_with(recorder: Recorder) {
    if crate::probes::deferred_close::leave_to_child() {
        // to take the probes out here, too, would be to wait for it
        std::mem::forget(recorder);
    }
}

/// Records to the end. The recorder comes back because what it has must be written before it is parted with.
fn drive(options: recorder::Options, sink: &mut dyn Sink) -> Result<Recorder, Failure> {
    match (options.puts, options.process, options.tier) {
        (false, false, _) => {
            return Err(Failure::Usage("nothing to record: leave out --no-puts or --no-process".into()));
        }
        (false, _, TierRequest::Only(Tier::Packet)) => {
            return Err(Failure::Usage(
                "nothing to record: the packet tier sees puts only; leave out --no-puts".into(),
            ));
        }
        _ => {}
    }
    let sink = &mut Holding::new(sink);
    let (mut recorder, said) =
        Recorder::new(options, sink).map_err(|error| Failure::Failed(error.to_string()))?;
    said.iter().for_each(|line| complain(line));
    recorder.run(sink, &mut complain);
    Ok(recorder)
}

fn interfaces(given: Vec<String>) -> Vec<String> {
    if given.is_empty() {
        vec!["any".into()]
    } else {
        given
    }
}

/// Sets space aside for a segment.
fn set_aside(file: &std::fs::File, bytes: u64) -> std::io::Result<()> {
    let bytes = libc::off_t::try_from(bytes).map_err(|_| std::io::ErrorKind::Unsupported)?;
    match fallocate(file, FallocateFlags::FALLOC_FL_KEEP_SIZE, 0, bytes) {
        // what file systems answer that can't: UBIFS, JFFS2, old FAT
        Err(Errno::EOPNOTSUPP | Errno::ENOSYS) => Err(std::io::ErrorKind::Unsupported.into()),
        outcome => Ok(outcome?),
    }
}

/// A number that no other run has: segments of one run belong together by it.
fn run_number() -> std::io::Result<u128> {
    use std::io::Read;
    let mut bytes = [0; 16];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(u128::from_ne_bytes(bytes))
}

/// `64M`, `512K`, `1G`, or bytes.
fn size(text: &str) -> Result<u64, String> {
    let (digits, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let shift = match unit {
        "" => 0,
        "K" | "k" => 10,
        "M" | "m" => 20,
        "G" | "g" => 30,
        _ => return Err(format!("{text} is no size; write it as 64M, 512K, 1G or in bytes")),
    };
    let number: u64 = digits.parse().map_err(|_| format!("{text} is no size; write it as 64M"))?;
    number.checked_mul(1 << shift).ok_or_else(|| format!("{text} is more than any disk has"))
}

/// `500ms`, `30s`, `5m`, `24h`, `30d`; at least a millisecond.
fn duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = number_and_unit(text);
    let milliseconds: u64 = match unit {
        "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err(format!("{text} is no time; write it as 500ms, 30s, 5m, 24h or 30d")),
    };
    let number = number.ok_or_else(|| format!("{text} is no time; write it as 30s"))?;
    match number.checked_mul(milliseconds) {
        Some(total @ 1..) => Ok(Duration::from_millis(total)),
        Some(0) => Err(format!("{text} is no time; the least is 1ms")),
        None => Err(format!("{text} is too long")),
    }
}

fn number_and_unit(text: &str) -> (Option<u64>, &str) {
    let (digits, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    (digits.parse().ok(), unit)
}

/// `1ns`, `1us`, `1ms`: nanoseconds.
fn time_step(text: &str) -> Result<u64, String> {
    let (number, unit) = number_and_unit(text);
    let unit = match unit {
        "ns" => Some(1),
        "us" => Some(1_000),
        "ms" => Some(1_000_000),
        _ => None,
    };
    match number.zip(unit).and_then(|(number, unit)| number.checked_mul(unit)) {
        Some(step @ 1..=1_000_000) => Ok(step),
        _ => Err(format!("{text} is no step of times; write it as 1ns, 256ns, 1us or, at most, 1ms")),
    }
}

/// A number of chains a second, at least 1.
fn chains(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(0) => Err("0 chains would be none; to record no processing use --no-process".into()),
        Ok(chains) => Ok(chains),
        Err(_) => Err(format!("{text} is no number of chains a second; write it as 1 or 10")),
    }
}

fn tier(text: &str) -> Result<TierRequest, String> {
    match text {
        "auto" => Ok(TierRequest::Auto),
        "ring" => Ok(TierRequest::Only(Tier::Ring)),
        "perf" => Ok(TierRequest::Only(Tier::Perf)),
        "packet" => Ok(TierRequest::Only(Tier::Packet)),
        _ => Err(format!("{text} is no tier; choose auto, ring, perf or packet")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(size("64M"), Ok(64 << 20));
        assert_eq!(size("1000"), Ok(1000));
        assert!(size("").is_err() && size("M").is_err() && size("64X").is_err() && size("-1").is_err());
        assert!(size("99999999999G").is_err());
    }

    #[test]
    fn durations() {
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("24h"), Ok(Duration::from_secs(86_400)));
        assert_eq!(duration("30d"), Ok(Duration::from_secs(30 * 86_400)));
        assert!(duration("5").is_err() && duration("0s").is_err() && duration("99999999999999999h").is_err());
    }

    #[test]
    fn steps_of_times() {
        assert_eq!([time_step("1ns"), time_step("1us"), time_step("1ms")], [Ok(1), Ok(1000), Ok(1_000_000)]);
        for wrong in ["0ns", "256", "2ms", "1s", "ns", "99999999999999999999us"] {
            assert!(time_step(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn chains_a_second() {
        assert_eq!(chains("2"), Ok(2));
        assert!(chains("0").is_err() && chains("-1").is_err() && chains("1.5").is_err());
    }

    #[test]
    fn usage_errors_are_one_line() {
        for words in [&["record"][..], &["frobnicate"], &["record", "--dir", "x", "--tier", "fast"], &[]] {
            let words: Vec<String> = words.iter().map(ToString::to_string).collect();
            match parse(&words) {
                Err(Failure::Usage(line)) => assert!(!line.contains('\n') && line.len() > 10, "{line}"),
                _ => panic!("{words:?} must be refused"),
            }
        }
    }
}
