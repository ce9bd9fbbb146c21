//! What IOCs printed, in order of time: each line with the thread that said it and the record that was being processed.
//!
//! What is not known stays open: standard output that is a pipe or a file is kept back by the C library, so its lines have
//! neither thread nor record; a message of errlog whose sender is not known has none either.

mod errlog;

use crate::filter::Filter;
use crate::logs::Logs;
use crate::model::asides::{Aside, What as Beside};
use crate::model::chain::Chain;
use crate::model::replay::Replay;
use crate::model::run::Run;
use crate::model::said::{Said, What};
use errlog::{Waiting, PRINTER};
use iocrec_log::event::{GaveUp, IocId, Output, ThreadId};
use iocrec_log::terminal::without_sequences;
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

/// IOCs whose messages are followed; a bound for hostile logs.
const MAX_IOCS: usize = 10_000;
/// The severities of errlog.h.
const SEVERITIES: [&str; 4] = ["info", "minor", "major", "fatal"];

/// Kinds of lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A line that was printed.
    Line,
    /// Lines that were left out.
    LeftOut,
    /// A thread that ended the process, or gave itself up.
    GaveUp,
}

impl Kind {
    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Line => "line",
            Kind::LeftOut => "left_out",
            Kind::GaveUp => "gave_up",
        }
    }
}

/// A line of the console.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Wall-clock time, nanoseconds since 1970 UTC: of text that was kept back, when it was written.
    pub time: i64,
    /// Its place in the order of time.
    pub even: i64,
    /// When it was said: of a message that another thread printed, when it was sent.
    pub said: i64,
    /// Host; empty if unknown.
    pub host: Rc<str>,
    /// The IOC, as it is shown; empty if unknown.
    pub ioc: Rc<str>,
    /// Its process.
    pub pid: Option<u32>,
    /// What it is.
    pub kind: Kind,
    /// The thread that said it; `None` if that is not known.
    pub thread: Option<String>,
    /// The severity that it has for errlog.
    pub severity: Option<&'static str>,
    /// The record that was being processed, if one is known.
    pub record: Option<String>,
    /// Whether that is certain: the record is known to have completed later in the same call.
    pub is_certain: bool,
    /// The text, without sequences for terminals; of something left out, how much.
    pub text: String,
    /// Bytes of the line that are not in it.
    pub cut: u32,
    /// Whether the line has ended.
    pub is_ended: bool,
    /// `stdout` or `stderr`.
    pub output: Option<&'static str>,
    /// Whether the C library may have kept it back, so that it was said at another time.
    pub is_kept_back: bool,
    /// The thread that gave up, how it did, and its caller.
    pub gave_up: Option<GaveUp>,
    /// The function that called for it.
    pub caller: Option<String>,
}

/// Who sends a message.
#[derive(Clone, Debug, PartialEq)]
struct Sender {
    time: i64,
    thread: ThreadId,
    severity: Option<u16>,
    record: Option<(String, bool)>,
}

/// Makes rows of what was said, in order of time.
#[derive(Default)]
pub struct Console {
    /// The messages of each IOC of each run (as an address, only compared).
    waiting: HashMap<(usize, IocId), Waiting<Sender>>,
}

impl Console {
    /// The row for something said, if it makes one. Takes what one run said in order of time.
    pub fn row(&mut self, run: &Rc<Run>, said: &Said) -> Option<Row> {
        let context = run.context();
        let thread = said.what.thread().and_then(|thread| context.thread(thread));
        let ioc = match (&said.what, thread) {
            (What::LeftOut(left_out), _) => Some(left_out.ioc),
            (_, thread) => thread.map(|thread| thread.ioc),
        };
        let name = |record| context.record(record).map(|record| record.name.to_string());
        let during = said.during.and_then(|during| Some((name(during.record)?, during.is_certain)));
        let known = ioc.and_then(|ioc| context.ioc(ioc));
        let key = (Rc::as_ptr(run) as usize, ioc.unwrap_or_default());
        if self.waiting.len() >= MAX_IOCS && !self.waiting.contains_key(&key) {
            self.waiting.clear();
        }
        let waiting = self.waiting.entry(key).or_default();
        let mut row = Row {
            time: run.wall(said.at),
            even: run.even(said.at),
            said: run.wall(said.at),
            host: run.host().as_str().into(),
            ioc: known.map_or("", |ioc| ioc.name.as_str()).into(),
            pid: known.map(|ioc| ioc.pid),
            kind: Kind::Line,
            thread: thread.map(|thread| thread.name.to_string()).filter(|name| !name.is_empty()),
            severity: None,
            record: None,
            is_certain: false,
            text: String::new(),
            cut: 0,
            is_ended: true,
            output: None,
            is_kept_back: false,
            gave_up: None,
            caller: None,
        };
        match &said.what {
            What::Errlog(call) => {
                let sender =
                    Sender { time: row.time, thread: call.thread, severity: call.severity, record: during };
                waiting.call(said.at, &call.format, sender);
                return None;
            }
            What::Line(line) => {
                row.text = without_sequences(&line.text);
                row.severity = severity(&row.text);
                (row.cut, row.is_ended) = (line.cut, line.is_ended);
                row.output = Some(if line.output == Output::Error { "stderr" } else { "stdout" });
                row.is_kept_back = matches!(line.output, Output::Pipe | Output::Unknown);
                if row.is_kept_back {
                    row.thread = None;
                } else if row.thread.as_deref() == Some(PRINTER) {
                    let sender = waiting.printed(said.at, &line.text);
                    row.said = sender.as_ref().map_or(row.time, |sender| sender.time);
                    let thread = sender.as_ref().and_then(|sender| context.thread(sender.thread));
                    row.thread = thread.map(|thread| thread.name.to_string()).filter(|name| !name.is_empty());
                    let number = sender.as_ref().and_then(|sender| sender.severity);
                    row.severity = row
                        .severity
                        .or(number.and_then(|number| SEVERITIES.get(usize::from(number)).copied()));
                    (row.record, row.is_certain) = during_of(sender.and_then(|sender| sender.record));
                } else {
                    waiting.printed_by(|sender| sender.thread == line.thread);
                    (row.record, row.is_certain) = during_of(during);
                }
            }
            What::LeftOut(left_out) => {
                waiting.clear();
                row.kind = Kind::LeftOut;
                row.text = left_out.to_string();
            }
            What::GaveUp(end) => {
                row.kind = Kind::GaveUp;
                row.text = end.to_string();
                row.gave_up = Some(end.how);
                (row.record, row.is_certain) = during_of(during);
                let site = context.call_site(end.site);
                row.caller = site.map(|site| site.function.clone()).filter(|function| !function.is_empty());
            }
        }
        Some(row)
    }

    /// The row for a fact beside the chains, if it is something said.
    pub fn aside(&mut self, aside: &Aside) -> Option<Row> {
        match &aside.what {
            Beside::Said(said) => self.row(&aside.run, said),
            _ => None,
        }
    }
}

fn during_of(during: Option<(String, bool)>) -> (Option<String>, bool) {
    let is_certain = during.as_ref().is_some_and(|during| during.1);
    (during.map(|during| during.0), is_certain)
}

/// The severity that errlog writes in front of a message.
fn severity(text: &str) -> Option<&'static str> {
    let word = text.strip_prefix("sevr=")?.split(' ').next()?;
    SEVERITIES.into_iter().find(|severity| *severity == word)
}

/// The lines that match a filter, in order of time.
pub struct Lines<'a> {
    replay: Replay,
    /// The next chain began then: what is older is complete.
    next: Option<i64>,
    is_over: bool,
    console: Console,
    filter: &'a Filter,
    ready: VecDeque<Row>,
}

impl<'a> Lines<'a> {
    /// The lines of these chains.
    pub(crate) fn new(replay: Replay, filter: &'a Filter) -> Self {
        Lines {
            replay: replay.with_sayings(),
            next: None,
            is_over: false,
            console: Console::default(),
            filter,
            ready: VecDeque::new(),
        }
    }

    fn wants(&self, row: &Row) -> bool {
        let by_record = !self.filter.pv.is_empty() || !self.filter.exclude.is_empty();
        self.filter.time(row.time)
            && self.filter.place(&row.host, &row.ioc)
            && (!by_record || self.filter.field(row.record.as_deref().unwrap_or_default(), "VAL"))
    }
}

impl Iterator for Lines<'_> {
    type Item = Row;

    fn next(&mut self) -> Option<Row> {
        loop {
            if let Some(row) = self.ready.pop_front() {
                return Some(row);
            }
            while let Some(aside) = self.replay.aside(self.next.unwrap_or(i64::MIN)) {
                if let Some(row) = self.console.aside(&aside).filter(|row| self.wants(row)) {
                    return Some(row);
                }
            }
            if self.is_over {
                return None;
            }
            match self.replay.next() {
                Some(chain) => self.next = Some(began(&chain)),
                None => (self.next, self.is_over) = (Some(i64::MAX), true),
            }
        }
    }
}

/// The place of a chain's beginning in the order of time.
fn began(chain: &Chain) -> i64 {
    chain.root().map_or(i64::MIN, |root| chain.run.even(root.start))
}

impl Logs {
    /// What the IOCs printed, and how their threads gave up, as far as it matches: a filter's PVs are the records that
    /// were being processed.
    pub fn console<'a>(&self, filter: &'a Filter) -> Lines<'a> {
        Lines::new(self.replay_said(filter), filter)
    }
}
