//! `iocreplay follow`

mod sending;
mod textfile;

use self::sending::{Ends, Sending};
use super::alarms::Known;
use super::command::{Command, Outcome};
use super::options::{
    by_place, by_pv, by_who, moment_in, reading, since, time, time_zone, ByPlace, ByPv, ByWho, Reading,
    Since, TimeZone,
};
use crate::answers::aliases;
use crate::collector::Address;
use crate::destination::Destination;
use crate::failure::{Failure, UsageError};
use crate::filter::Filter;
use crate::follow::{follow_until, read_on, Pace, Step};
use crate::live::kept::{Done, Kept};
use crate::live::output::syslog::{Syslog, Target};
use crate::live::output::FORMATS;
use crate::live::receiver::{Ending, Receiver};
use crate::live::row::{rows, Row, Wanted};
use crate::live::signals::Stop;
use crate::live::spool::Spool;
use crate::live::telemetry::Signals;
use crate::live::FollowError;
use crate::nothing_found::mismatch;
use crate::out::{line, Out};
use crate::output::format::{self, Format};
use crate::terminal::Terminal;
use crate::time::{Boundary, Zone};
use crate::Logs;
use iocrec_cli::command;
use iocrec_log::stream::Position;
use std::cell::{Cell, RefCell};
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use textfile::{Counted, Textfile};

/// The log that stands for standard input: `-`, with the space that keeps it from being an option.
const STANDARD_INPUT: &str = " -";
/// Rows above which what was followed is saved less often: a million are some 50 MB.
const MANY: usize = 20_000;
/// How often then.
const SELDOM: Duration = Duration::from_secs(10);

command! {
    /// Show what happens in a log that grows, as it happens: puts, alarms, deaths of IOCs, threads that hang, what IOCs
    /// print, losses, marks. LOG is a directory that a recorder writes, or - for the stream of iocrec cat on standard
    /// input. Also sends it on, to syslog, Prometheus, and a collector of OpenTelemetry.
    #[argh(subcommand, name = "follow")]
    pub struct Follow {
        /// output format: text (default), jsonl (a JSON object for each line) or csv (all kinds under the same columns)
        #[argh(option, default = "&FORMATS[0]", from_str_fn(parse_format))]
        pub format: &'static Format<Row>,
        /// only these: puts, alarms, deaths, hangs, console, losses, marks, with commas between them (default: all)
        #[argh(option, arg_name = "kinds", default = "Wanted::ALL", from_str_fn(Wanted::parse))]
        pub what: Wanted,
        /// end after what is there now
        #[argh(switch)]
        pub once: bool,
        /// also send to a collector of OpenTelemetry, as http://HOST:4318: process chains, or what --signals names
        #[argh(option, arg_name = "url", from_str_fn(super::sending::parse_address))]
        pub otlp: Option<Address>,
        /// with --otlp, what is sent: some of traces, logs and metrics, with commas between them (default: traces)
        #[argh(option, arg_name = "signals", from_str_fn(parse_signals))]
        pub signals: Option<Signals>,
        /// also send each line to syslog: unix:/dev/log or udp://HOST:514
        #[argh(option, arg_name = "target", from_str_fn(Target::parse))]
        pub syslog: Option<Target>,
        /// also keep counts in this file, for the textfile collector of Prometheus' node_exporter
        #[argh(option, arg_name = "file")]
        pub textfile: Option<PathBuf>,
        /// seconds after which that file is written and metrics are sent again (default: 15)
        #[argh(option, arg_name = "seconds", default = "15", from_str_fn(parse_interval))]
        pub interval: u64,
        /// with -, keep what is received in this directory, so that a later run goes on where this one ended (default: a
        /// private directory, which is removed at the end)
        #[argh(option, arg_name = "dir")]
        pub spool: Option<PathBuf>,
        /// with -, size of the spool, above which its oldest segments are dropped (default: 256M)
        #[argh(option, arg_name = "size", default = "256 << 20", from_str_fn(parse_size))]
        pub spool_size: u64,
        /// keep in this file how far the log was followed, so that a later run goes on where this one ended, with each line
        /// and each thing sent once; --since then counts for the first run only
        #[argh(option, arg_name = "file")]
        pub state: Option<PathBuf>,
        /// print the position from which iocrec cat goes on for this --spool, and end
        #[argh(switch)]
        pub position: bool,
    } with since: Since, by_pv: ByPv, by_who: ByWho, by_place: ByPlace, time_zone: TimeZone, reading: Reading
}

fn parse_format(name: &str) -> Result<&'static Format<Row>, String> {
    format::find(&FORMATS, name).map_err(|error| error.to_string())
}

fn parse_signals(text: &str) -> Result<Signals, String> {
    Signals::parse(text).map_err(|error| error.to_string())
}

fn parse_interval(text: &str) -> Result<u64, String> {
    // a day is more than anybody waits for
    let seconds = text.parse().ok().filter(|seconds| (1..=86_400).contains(seconds));
    seconds.ok_or_else(|| format!("'{text}' is no number of seconds from 1 to 86400; write 15"))
}

fn parse_size(text: &str) -> Result<u64, String> {
    let (digits, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let shift = [("K", 10), ("M", 20), ("G", 30), ("", 0)].iter().find(|(name, _)| *name == unit);
    let size =
        shift.zip(digits.parse::<u64>().ok()).and_then(|((_, shift), number)| number.checked_mul(1 << shift));
    // less than a segment or two would drop what was not read yet
    let size = size.filter(|size| *size >= 1 << 20);
    size.ok_or_else(|| format!("'{text}' is no size of at least 1M; write 256M or 2G"))
}

impl Command for Follow {
    fn reading(&self) -> Reading {
        let reading = Reading::from(self);
        match self.position {
            // it reads none
            true => Reading { logs: vec![STANDARD_INPUT.into()], ..reading },
            false => reading,
        }
    }

    fn follows(&self) -> bool {
        !self.position
    }

    fn check(&self) -> Result<(), UsageError> {
        let is_streamed = self.is_streamed();
        if let Some(spool) = &self.spool {
            Destination::check_name("--spool", spool)?;
        }
        // a stream is no log that could be written to
        let logs: &[PathBuf] = if is_streamed { &[] } else { self.logs.as_slice() };
        for (option, file) in [("--state", &self.state), ("--textfile", &self.textfile)] {
            if let Some(file) = file {
                Destination::check_file(option, file, logs)?;
            }
        }
        Destination::check_apart(&[
            ("--state", self.state.as_deref()),
            ("--textfile", self.textfile.as_deref()),
        ])?;
        if self.position {
            let refused = self.spool.is_none() || !self.logs.is_empty();
            return if refused { Err(UsageError::PositionOfSpool) } else { Ok(()) };
        }
        match (&self.otlp, self.signals) {
            (None, Some(_)) => return Err(UsageError::SignalsUnsent),
            (_, Some(Signals { metrics: true, .. })) if self.asks_for_pvs_or_users() => {
                return Err(UsageError::MetricsOfSome);
            }
            _ => {}
        }
        let reading = self.reading();
        if let Some(file) = reading.file() {
            return Err(UsageError::FollowIntoFile(file.to_owned()));
        }
        if reading.offsets().is_auto() {
            return Err(UsageError::AutoWhileGrowing("follow"));
        }
        match (self.logs.as_slice(), &self.spool) {
            (logs, _) if is_streamed && logs.len() > 1 => Err(UsageError::StreamAlone),
            (_, Some(_)) if !is_streamed => Err(UsageError::SpoolOfStream),
            _ if is_streamed && self.state.is_some() => Err(UsageError::StateOfStream),
            _ if is_streamed && self.once => Err(UsageError::StreamOnce),
            _ if is_streamed && io::stdin().is_terminal() => Err(UsageError::StreamFromTerminal),
            _ => Ok(()),
        }
    }

    fn run(&self, out: &mut Out) -> Result<Outcome, Failure> {
        if self.position {
            match Spool::position_of(self.spool.as_deref().unwrap_or(Path::new("")))? {
                Some(position) => line!(out, "{position}")?,
                None => line!(out, "oldest")?,
            }
            return Ok(Outcome::Complete);
        }
        let stop = Stop::catch();
        let zone = TimeZone::from(self).zone();
        if !self.is_streamed() {
            let reading = self.reading();
            let logs = ByPlace::from(self).open(&reading)?;
            logs.report_namesakes(&ByPlace::from(self).filter());
            let begin = || time(&zone, &self.since, Boundary::Start, &logs);
            let (since, kept) = match &self.state {
                Some(file) => {
                    let kept = Kept::in_file(file, &logs, &reading.logs)?;
                    (kept.since(begin)?, Some(kept))
                }
                None => (begin()?, None),
            };
            // of what comes later nothing is known
            let asked = self.filter(since.filter(|_| kept.is_none()));
            let line = self.once.then(|| mismatch(&logs.without_notices(), &asked, &zone)).flatten();
            if let Some(line) = line {
                Terminal.report(&line);
            }
            let following = Following {
                zone: &zone,
                reading: &reading,
                stop: &stop,
                receiver: None,
                kept: kept.as_ref(),
                since,
            };
            return self.go_on(out, following, Some(logs));
        }
        let spool = match &self.spool {
            Some(path) => Spool::open(path, self.spool_size)?,
            None => Spool::private(self.spool_size)?,
        };
        // relative times are before now, since nothing has come yet
        let since =
            self.since.as_ref().map(|text| moment_in(&zone, text, Boundary::Start, None)).transpose()?;
        if let Some(position) = spool.position() {
            Terminal.report(&format_args!(
                "the spool holds the log up to {position} (iocrec cat --from {position})"
            ));
        }
        let receiver = Receiver::start(io::stdin(), spool);
        let reading = Reading { logs: vec![receiver.path().to_owned()], ..self.reading() };
        let is_kept = receiver.is_kept();
        let kept = if is_kept { Some(Kept::in_spool(receiver.path())?) } else { None };
        let following = Following {
            zone: &zone,
            reading: &reading,
            stop: &stop,
            receiver: Some(&receiver),
            kept: kept.as_ref(),
            since,
        };
        self.go_on(out, following, None)?;
        let (ending, position) = receiver.end();
        match ending {
            None | Some(Ending::Whole { .. }) => {
                if let Some(position) = position.filter(|_| is_kept) {
                    Terminal.report(&format_args!("to go on: iocrec cat --from {position}"));
                }
                Ok(Outcome::Complete)
            }
            Some(ending) => {
                let position = position.filter(|_| is_kept);
                Err(FollowError::Ended { ending, position }.into())
            }
        }
    }
}

impl Follow {
    fn is_streamed(&self) -> bool {
        self.logs.iter().any(|log| log.as_os_str() == STANDARD_INPUT)
    }

    /// What is read to be shown or counted.
    fn wanted(&self) -> Wanted {
        let counted = Wanted::parse("puts,alarms,deaths,losses").unwrap_or_default();
        if self.textfile.is_some() {
            self.what.and(counted)
        } else {
            self.what
        }
    }

    fn signals(&self) -> Signals {
        self.signals.unwrap_or(Signals::TRACES)
    }

    /// Whether only some PVs, users or clients are chosen.
    fn asks_for_pvs_or_users(&self) -> bool {
        let Filter { pv, exclude, user, client, .. } =
            ByWho::from(self).add_to(ByPv::from(self).add_to(Filter::default()));
        !pv.is_empty() || !exclude.is_empty() || user.is_some() || client.is_some()
    }

    /// Shows what comes, and sends it to a collector meanwhile.
    fn go_on(
        &self,
        out: &mut Out,
        following: Following,
        opened_first: Option<Logs>,
    ) -> Result<Outcome, Failure> {
        let Some(address) = &self.otlp else {
            return self.show(out, following, opened_first, &Ends::default());
        };
        let ends = Ends::default();
        let sending = Sending { follow: self, address, following, ends: &ends };
        std::thread::scope(|scope| {
            let sending = scope.spawn(move || sending.run());
            let shown = self.show(out, following, opened_first, &ends);
            ends.shown(shown.is_ok());
            // what the thread says of itself is worth less than why the lines ended
            match sending.join() {
                Ok(sent) => shown.and_then(|outcome| sent.map(|()| outcome)),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })
    }

    fn filter(&self, since: Option<i64>) -> Filter {
        let filter = ByWho::from(self).add_to(ByPv::from(self).add_to(ByPlace::from(self).filter()));
        Filter { since, ..filter }
    }

    /// Opens the logs as they are now. `None`: nothing has come yet, or all was deleted.
    fn open(&self, reading: &Reading) -> Option<Logs> {
        ByPlace::from(self).open_again(reading).ok()
    }

    /// Shows what comes. What can't be read at first is reported.
    fn show(
        &self,
        out: &mut Out,
        following: Following,
        mut opened_first: Option<Logs>,
        sending: &Ends,
    ) -> Result<Outcome, Failure> {
        let Following { zone, reading, stop, receiver, kept, since } = following;
        let (memory, known, deleted) = kept.map_or_else(Default::default, |kept| kept.load(Done::Shown));
        let (known, deleted) = (RefCell::new(Known::from(known)), RefCell::new(deleted));
        let counted = Counted {
            counts: Textfile::default(),
            file: self.textfile.as_deref(),
            written: None,
            has_read: false,
        };
        let counted = RefCell::new(counted);
        let gaps = Cell::new(0);
        let again = || self.open(reading);
        let (ends, interval) = (Cell::new(false), Duration::from_secs(self.interval));
        let pace = || {
            read_on()?;
            receiver.iter().flat_map(|receiver| receiver.said()).for_each(|said| Terminal.report(&said));
            let pace =
                if sending.has_failed() { Pace::Finish { whole: false } } else { self.pace(stop, receiver) };
            ends.set(matches!(pace, Pace::Finish { .. }));
            let mut counted = counted.borrow_mut();
            counted.counts.gaps = match receiver {
                Some(receiver) => receiver.gaps(),
                None => gaps.get() + sending.gaps(),
            };
            // not before there is something to tell
            if counted.written.is_some() {
                counted.write(interval, &reading.logs, again)?;
            }
            Ok(pace)
        };
        let opened: Cell<Option<Position>> = Cell::new(None);
        let open = || {
            opened.set(receiver.and_then(Receiver::position));
            let logs = opened_first.take().or_else(again);
            counted.borrow_mut().has_read |= logs.is_some();
            Ok(logs)
        };
        let wanted = self.wanted();
        let mut outcome = Outcome::Complete;
        let ask = |logs: &Logs, filter: &Filter, each: &mut dyn FnMut(Row) -> Result<(), Failure>| {
            let (filter, _) = aliases::resolve(logs, filter.clone());
            // of a stream, the receiver says it
            if receiver.is_none() {
                for gap in deleted.borrow_mut().look(logs, "read", self.once) {
                    gaps.set(gaps.get() + 1);
                    Terminal.report(&gap);
                }
            }
            rows(logs, &filter, wanted, each)?;
            if Outcome::from(logs) == Outcome::Incomplete {
                outcome = Outcome::Incomplete;
            }
            Ok(())
        };
        let mut syslog = self.syslog.as_ref().map(open_syslog).transpose()?;
        let mut writer = (self.format.writer)(zone);
        let mut saved: Option<Instant> = None;
        writer.begin(out)?;
        let write = |step: Step<Row>| match step {
            Step::Row(row, _) => {
                match row {
                    Row::Alarm(alarm) if !known.borrow_mut().is_news(alarm) => return Ok(()),
                    _ => counted.borrow_mut().counts.count(row),
                }
                if self.what.has(row.kind()) {
                    let said = syslog.as_mut().and_then(|syslog| syslog.send(row));
                    said.inspect(|said| Terminal.report(said));
                    writer.write(out, row)?;
                }
                Ok(())
            }
            Step::Within(_) => Ok(()),
            Step::Through(memory) => {
                out.flush()?;
                counted.borrow_mut().write(
                    if ends.get() { Duration::ZERO } else { interval },
                    &reading.logs,
                    again,
                )?;
                receiver.inspect(|receiver| receiver.has_done(Done::Shown, opened.get()));
                let Some(kept) = kept else { return Ok(()) };
                if ends.get() || is_due(memory.len(), saved) {
                    saved = Some(Instant::now());
                    kept.note(Done::Shown, memory, known.borrow().all(), Some(&deleted.borrow()));
                    kept.save()?;
                }
                Ok(())
            }
        };
        follow_until(&reading.logs, self.filter(since), memory, pace, open, ask, write)?;
        Ok(outcome)
    }

    /// Whether to go on.
    fn pace(&self, stop: &Stop, receiver: Option<&Receiver>) -> Pace {
        let Some(receiver) = receiver else {
            return match (self.once, stop.is_set()) {
                (true, _) => Pace::Finish { whole: true },
                (_, true) => Pace::Finish { whole: false },
                _ => Pace::Go,
            };
        };
        match receiver.has_ended() {
            // what may still change comes when this goes on
            Some(settled) => Pace::Finish { whole: settled || !receiver.is_kept() },
            None if stop.is_set() => Pace::Finish { whole: false },
            None if receiver.rests() => Pace::Go,
            None => Pace::Wait,
        }
    }
}

/// Whether so many rows are saved now.
fn is_due(rows: usize, saved: Option<Instant>) -> bool {
    rows < MANY || saved.is_none_or(|saved| saved.elapsed() >= SELDOM)
}

/// What is followed, and how far it was.
#[derive(Clone, Copy)]
struct Following<'a> {
    zone: &'a Zone,
    reading: &'a Reading,
    stop: &'a Stop,
    /// Of a stream.
    receiver: Option<&'a Receiver>,
    kept: Option<&'a Kept>,
    since: Option<i64>,
}

fn open_syslog(target: &Target) -> Result<Syslog, FollowError> {
    Syslog::open(target).map_err(|error| FollowError::Syslog(target.clone(), error))
}
