//! `iocrec record`: records IOCs into a log directory.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use iocrec_cli::command;
use iocrec_log::storage::{Directory, WallClock};
use iocrec_log::writer::{self, Status, WriteError, Writer};
use nix::errno::Errno;
use nix::fcntl::{fallocate, FallocateFlags};
use nix::sys::stat::{umask, Mode};

use super::options::{capture, process_choice, Capture, ProcessChoice};
use super::values::{duration, percent, size, time_step};
use super::{reading, recording, Command};
use crate::control::{self, Reply};
use crate::directory::Guard;
use crate::failure::{Failure, UsageError};
use crate::linux::ending::Ends;
use crate::linux::process;
use crate::linux::signals::{self, HangUp};
use crate::recorder;
use crate::recorder::capture_clock::CaptureClock;
use crate::recorder::chain_sampling::Retain;
use crate::recorder::error::{NotTraced, StartError};
use crate::recorder::report::Report;
use crate::recorder::store::{Pace, Store};
use crate::recorder::triggers::Triggers;
use crate::terminal::{self, complain};

/// Default of `--time-step`, nanoseconds. A probe takes 400 ns and more, so smaller differences do not come from the
/// IOC; they would be half of the log (docs/benchmarks.md).
const TIME_STEP: u64 = 256;

command! {
    /// Record IOCs into a log directory, to be read with iocreplay
    #[argh(subcommand, name = "record")]
    pub struct Record {
        /// directory of the log; created if it does not exist
        #[argh(option, arg_name = "dir")]
        pub dir: std::path::PathBuf,

        /// maximum size of the log, such as 64M; the oldest segments are deleted first (default: 64M)
        #[argh(option, arg_name = "size", default = "64 << 20", from_str_fn(size))]
        pub max_disk: u64,

        /// delete segments older than this, such as 30d; pinned ones stay (default: no limit)
        #[argh(option, arg_name = "time", from_str_fn(duration))]
        pub max_age: Option<Duration>,

        /// time to keep before a mark or another trigger when older segments are deleted (default: 5m)
        #[argh(option, arg_name = "time", default = "Duration::from_secs(300)", from_str_fn(duration))]
        pub pin_before: Duration,

        /// time to keep after it (default: 1m)
        #[argh(option, arg_name = "time", default = "Duration::from_secs(60)", from_str_fn(duration))]
        pub pin_after: Duration,

        /// percentage of the log that pinned segments may take, at most 75; the oldest are deleted first (default: 25;
        /// 0 pins nothing)
        #[argh(option, arg_name = "percent", default = "25", from_str_fn(percent))]
        pub pin_share: u8,

        /// pin the segments around MAJOR and INVALID alarms of records whose names match; repeatable. Those around the
        /// death of an IOC are always pinned
        #[argh(option, arg_name = "glob")]
        pub pin_on: Vec<String>,

        /// pin the segments around puts from outside to PVs or records whose names match; repeatable
        #[argh(option, arg_name = "glob")]
        pub pin_on_put: Vec<String>,

        /// longest time that an event stays in memory, where a crash of the recorder would lose it (default: 1s)
        #[argh(option, arg_name = "time", default = "Duration::from_secs(1)", from_str_fn(duration))]
        pub flush: Duration,

        /// longest time until an event survives a power cut (default: 5s)
        #[argh(option, arg_name = "time", default = "Duration::from_secs(5)", from_str_fn(duration))]
        pub sync: Duration,

        /// round times down to multiples of this, at most 1ms, which makes the log smaller; values that are not a power
        /// of two in ns are lowered to one (default: 256ns, with --read 1ns, which does not round). Also
        /// --time-resolution
        #[argh(option, arg_name = "time", from_str_fn(time_step))]
        pub time_step: Option<u64>,

        /// leave out as many process chains as needed for --max-disk to hold this time span, such as 24h
        #[argh(option, arg_name = "time", from_str_fn(duration))]
        pub retain: Option<Duration>,

        /// leave out snapshots: the values, units, limits and input links of all records, which are read from the IOCs'
        /// memory for each segment and take at most 2 % of the log
        #[argh(switch)]
        pub no_snapshots: bool,
    } with process_choice: ProcessChoice, capture: Capture
}

impl Command for Record {
    fn run(self) -> Result<(), Failure> {
        let (choice, capture) = (ProcessChoice::from(&self), Capture::from(&self));
        let (files, chosen) = (capture.files(choice.given())?, choice.chosen()?);
        if self.dir.as_os_str().is_empty() {
            return Err(UsageError::Value("--dir is empty; name a directory for the log".into()).into());
        }
        let clock = (!files.is_empty()).then(CaptureClock::default);
        if clock.is_none() {
            terminal::wait_for_nobody();
        }
        // a supervisor that tries again and again would fill the log with runs of nothing, and what was recorded would go
        let mut refused = None;
        for &pid in &capture.pid {
            let reason = match process::start(pid) {
                Some(_) => chosen.why_not(pid).map(NotTraced::NotChosen),
                // it may be one that /proc does not show
                None => (!process::exists(pid)).then_some(NotTraced::NoProcess),
            };
            refused = reason.map(|reason| StartError::NotTraced { pid, reason });
            if refused.is_none() {
                break;
            }
        }
        if let Some(refused) = refused {
            return Err(refused.into());
        }
        // before the log: it is dropped after that
        let mut made = Made((!self.dir.exists()).then(|| self.dir.clone()));
        // without the capability to pass over modes it must be let into what it makes itself
        let mask = umask(Mode::empty());
        umask(mask - Mode::S_IRWXU);
        let directory = Directory::open_kept(&self.dir, Box::new(Guard::new(complain)))?.reserving(reserve);
        let directory = match clock.clone() {
            Some(clock) => directory.dated(WallClock(Box::new(move || clock.wall().max(0)))),
            None => directory,
        };
        let options = writer::Options {
            max_disk: self.max_disk,
            max_age: self.max_age,
            pin_before: self.pin_before,
            pin_after: self.pin_after,
            pin_share: self.pin_share,
            flush: self.flush,
            sync: self.sync,
            time_step: self.time_step.unwrap_or(if clock.is_some() { 1 } else { TIME_STEP }),
            ..writer::Options::default()
        };
        let run = run_id().map_err(|error| Failure::Failed(format!("/dev/urandom: {error}")))?;
        let writer = Writer::open(directory, options, run).map_err(|error| match error {
            // a service manager does not try again with these
            WriteError::DiskTooSmall(..) | WriteError::PinShare(_) => {
                UsageError::Value(error.to_string()).into()
            }
            error => Failure::from(error),
        })?;
        let ends = match clock {
            Some(_) => {
                recording::drop_privileges(is_foreign(&self.dir));
                Ends::Descriptors
            }
            None => recording::limit_privileges(is_foreign(&self.dir)),
        };
        let report = Report::new(self.dir.to_string_lossy().into_owned(), self.max_disk);
        let triggers = Triggers::new(&self.pin_on, &self.pin_on_put);
        let no_thread = |error| Failure::Failed(format!("cannot start the log's thread: {error}"));
        let pace = clock.clone().map_or(Pace::Live, Pace::OfFile);
        let mut store = Store::start(writer, triggers, report, pace).map_err(no_thread)?;
        let (answerer, notices) = (store.answerer(), store.notices());
        let answer = move |request| match answerer.answer(request) {
            Ok(text) => Reply::Done(text),
            Err(error) => Reply::Refused(error.to_string()),
        };
        let warn = move |line| _ = notices.try_send(line);
        let mut doorbell = control::serve(&self.dir, answer, warn).map_err(no_thread)?;
        store.each_second(move || doorbell.check());
        let retain = self.retain.map(|time| Retain { max_disk: self.max_disk, time });
        signals::catch(HangUp::IsIgnored);
        let options = capture.options(chosen, retain);
        if let Some(clock) = clock {
            let finished = reading::read(options, files, &clock, &mut store);
            let status = close(store)?;
            made.0 = None;
            return finished.report(Some(&status)).and_then(|()| is_stored(&status));
        }
        let snapshots = (!self.no_snapshots).then_some(self.max_disk);
        let outcome = recording::record(recorder::Options { snapshots, ..options }, ends, &mut store);
        let status = close(store)?;
        recording::end(outcome?);
        made.0 = None;
        is_stored(&status)
    }
}

/// A directory that was made for a log. Unless the log comes to something it is removed, if it is empty.
struct Made(Option<PathBuf>);

impl Drop for Made {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            let _ = std::fs::remove_dir(path);
        }
    }
}

/// Waits until everything is written.
fn close(store: Store) -> Result<Status, Failure> {
    let (status, lines) = store.close()?;
    lines.iter().for_each(|line| complain(line));
    Ok(status)
}

fn is_stored(status: &Status) -> Result<(), Failure> {
    match &status.state {
        writer::State::Ok => Ok(()),
        writer::State::Paused { reason } => {
            Err(Failure::Failed(format!("{} events were not stored: {reason}", status.lost)))
        }
    }
}

/// Whether the log's directory, or its parent, where it may have to be created again, belongs to another user.
fn is_foreign(path: &Path) -> bool {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let owners = [path, parent].map(|path| std::fs::metadata(path).map(|metadata| metadata.uid()));
    owners.into_iter().flatten().any(|owner| owner != nix::unistd::geteuid().as_raw())
}

/// Preallocates a segment.
fn reserve(file: &File, bytes: u64) -> io::Result<()> {
    let bytes = libc::off_t::try_from(bytes).map_err(|_| io::ErrorKind::Unsupported)?;
    match fallocate(file, FallocateFlags::FALLOC_FL_KEEP_SIZE, 0, bytes) {
        // file systems that cannot preallocate: UBIFS, JFFS2, old FAT
        Err(Errno::EOPNOTSUPP | Errno::ENOSYS) => Err(io::ErrorKind::Unsupported.into()),
        outcome => Ok(outcome?),
    }
}

/// A random id that the segments of one run share.
fn run_id() -> io::Result<u128> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(u128::from_ne_bytes(bytes))
}
