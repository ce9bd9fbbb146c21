//! The command line of iocrec, and the one place that decides on exit codes: 0 success, 1 failure, 2 bad
//! usage.

use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use argh::{ArgsInfo, CommandInfoWithArgs, FromArgs};
use iocrec_cli::alias::{self, Alias};
use iocrec_cli::{command, option_group};
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

option_group! { $
    /// The directory of a running recorder's log.
    pub(crate) struct LogDirectory as log_directory {
        /// log directory
        #[argh(option, arg_name = "dir")]
        dir: std::path::PathBuf,
    }
}

option_group! { $
    /// Text or JSON.
    pub(crate) struct Json as json {
        /// write JSON instead of text
        #[argh(switch)]
        json: bool,
    }
}

option_group! { $
    /// Whose processes.
    pub(crate) struct OfUsers as of_users {
        /// only processes of this user, by name or number; repeatable (default: all users)
        #[argh(option, arg_name = "name")]
        user: Vec<String>,
    }
}

option_group! { $
    /// What to record, or to watch.
    pub(crate) struct Watching as watching {
        /// stop after this time, e.g. 30s (default: at SIGINT or SIGTERM)
        #[argh(option, arg_name = "time", from_str_fn(crate::cli::duration))]
        duration: Option<std::time::Duration>,

        /// capture packets on this interface of iocrec's own network namespace; repeatable (default any)
        #[argh(option, arg_name = "name")]
        iface: Vec<String>,

        /// TCP port of a CA server, besides those of local servers, which are found automatically; repeatable
        #[argh(option, arg_name = "number")]
        port: Vec<u16>,

        /// only this process; repeatable (default: all IOCs, also those that start later)
        #[argh(option, arg_name = "number")]
        pid: Vec<u32>,

        /// only records and PVs whose names match, e.g. 'SR:*'; repeatable
        #[argh(option, arg_name = "glob")]
        only: Vec<String>,

        /// no records and PVs whose names match; repeatable
        #[argh(option, arg_name = "glob")]
        exclude: Vec<String>,

        /// leave out puts
        #[argh(switch)]
        no_puts: bool,

        /// leave out processing
        #[argh(switch)]
        no_process: bool,

        /// chain sampling: keep at most this many process chains a second of each record that begins them, always whole
        /// chains (also --max-chains); puts and what they set off are always kept
        #[argh(option, arg_name = "number", from_str_fn(crate::cli::chains))]
        thin: Option<u32>,

        /// leave out the IOCs' command lines; by default, only what looks like a secret is left out
        #[argh(switch)]
        no_command_lines: bool,

        /// how to watch: auto, ring, perf or packet (default auto, the best that works here)
        #[argh(option, arg_name = "tier", default = "crate::probes::tiers::TierRequest::Auto", from_str_fn(crate::cli::tier))]
        tier: crate::probes::tiers::TierRequest,
    }
}

/// A flight recorder for EPICS IOCs: watches running IOCs from outside, without changing them.
#[derive(FromArgs, ArgsInfo, Debug)]
struct Arguments {
    /// print the version
    #[argh(switch, short = 'V')]
    #[allow(dead_code)] // handled before argh: with it no command is needed
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

command! {
    /// Record IOCs into a log directory, to be read with iocreplay
    #[argh(subcommand, name = "record")]
    struct Record {
        /// log directory; created if missing
        #[argh(option)]
        dir: PathBuf,

        /// maximum size of the log, e.g. 64M; the oldest segments are deleted first (default 64M)
        #[argh(option, arg_name = "size", default = "64 << 20", from_str_fn(size))]
        max_disk: u64,

        /// delete segments older than this, e.g. 30d; pinned segments stay (default: only the size counts)
        #[argh(option, arg_name = "time", from_str_fn(duration))]
        max_age: Option<Duration>,

        /// how much of the log to pin before a mark or another trigger (default 5m)
        #[argh(option, arg_name = "time", default = "Duration::from_secs(300)", from_str_fn(duration))]
        pin_before: Duration,

        /// how much of the log to pin after a mark or another trigger (default 1m)
        #[argh(option, arg_name = "time", default = "Duration::from_secs(60)", from_str_fn(duration))]
        pin_after: Duration,

        /// percentage of the log that pinned segments may take, at most 75; the oldest pins are released first (default
        /// 25; 0 pins nothing)
        #[argh(option, arg_name = "percent", default = "25")]
        pin_share: u8,

        /// pin the segments around a MAJOR or INVALID alarm of records whose names match; repeatable. Those around the
        /// death of an IOC are always pinned
        #[argh(option, arg_name = "glob")]
        pin_on: Vec<String>,

        /// pin the segments around a put from outside to PVs or records whose names match; repeatable
        #[argh(option, arg_name = "glob")]
        pin_on_put: Vec<String>,

        /// maximum time that an event stays in memory, where a crash of the recorder loses it (default 1s)
        #[argh(option, arg_name = "time", default = "Duration::from_secs(1)", from_str_fn(duration))]
        flush: Duration,

        /// maximum time until an event is safe from a power failure (default 5s)
        #[argh(option, arg_name = "time", default = "Duration::from_secs(5)", from_str_fn(duration))]
        sync: Duration,

        /// time resolution (also --time-resolution), at most 1ms, rounded down to a power of two in ns; a coarser one makes
        /// the log smaller (default 256ns; 1ns keeps times exact)
        #[argh(option, arg_name = "time", default = "TIME_STEP", from_str_fn(time_step))]
        time_step: u64,

        /// leave out as many process chains as needed for --max-disk to hold this much time, e.g. 24h; puts are always kept
        #[argh(option, arg_name = "time", from_str_fn(duration))]
        retain: Option<Duration>,
    } with watching: Watching, of_users: OfUsers
}

command! {
    /// Print puts and processing as they happen, a line each; writes no log
    #[argh(subcommand, name = "watch")]
    struct Watch {} with watching: Watching, of_users: OfUsers
}

command! {
    /// Show what this machine allows, with reasons, and which IOCs run on it
    #[argh(subcommand, name = "check")]
    struct Check {} with of_users: OfUsers, json: Json
}

command! {
    /// Write a mark into the log of the running recorder, and pin the segments around it
    #[argh(subcommand, name = "mark")]
    struct Mark {
        /// the mark's text, e.g. "beam lost"
        #[argh(positional)]
        text: Vec<String>,
    } with log_directory: LogDirectory
}

command! {
    /// Show recorder status
    #[argh(subcommand, name = "status")]
    struct ShowStatus {} with log_directory: LogDirectory, json: Json
}

command! {
    /// Print the version
    #[argh(subcommand, name = "version")]
    struct Version {}
}

/// Other names of options.
pub static ALIASES: &[Alias] = &[
    Alias { alias: "--max-chains", option: "--thin" },
    Alias { alias: "--time-resolution", option: "--time-step" },
];

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
    match Arguments::from_args(&["iocrec"], &alias::resolve(&words, ALIASES)) {
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
        _ => return Err("invalid size; write it as 64M, 512K, 1G or in bytes".into()),
    };
    let number: u64 = digits.parse().map_err(|_| "invalid size; write it as 64M")?;
    number.checked_mul(1 << shift).ok_or_else(|| "larger than any disk".into())
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
        _ => return Err("invalid time; write it as 500ms, 30s, 5m, 24h or 30d".into()),
    };
    let number = number.ok_or("invalid time; write it as 30s")?;
    match number.checked_mul(milliseconds) {
        Some(total @ 1..) => Ok(Duration::from_millis(total)),
        Some(0) => Err("must be at least 1ms".into()),
        None => Err("too long".into()),
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
        _ => Err("invalid time resolution; write it as 1ns, 256ns, 1us or, at most, 1ms".into()),
    }
}

/// A number of chains a second, at least 1.
fn chains(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(0) => Err("--thin must be at least 1; to leave out processing, use --no-process".into()),
        Ok(chains) => Ok(chains),
        Err(_) => Err("invalid number of chains a second; write it as 1 or 10".into()),
    }
}

fn tier(text: &str) -> Result<TierRequest, String> {
    match text {
        "auto" => Ok(TierRequest::Auto),
        "ring" => Ok(TierRequest::Only(Tier::Ring)),
        "perf" => Ok(TierRequest::Only(Tier::Perf)),
        "packet" => Ok(TierRequest::Only(Tier::Packet)),
        _ => Err("unknown tier; choose auto, ring, perf or packet".into()),
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
    fn options_have_other_names() {
        let words =
            ["record", "--dir", "x", "--max-chains", "2", "--time-resolution", "1us"].map(str::to_owned);
        match parse(&words) {
            Ok(Some(Command::Record(record))) => {
                assert_eq!((record.thin, record.time_step), (Some(2), 1000));
            }
            _ => panic!("{words:?} must be taken"),
        }
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
