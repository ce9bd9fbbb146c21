//! What is sent to a collector of OpenTelemetry while a log is followed: chains as traces, what happened as log records,
//! and counts and measurements as metrics.
//!
//! Each comes once, in the order of time. A collector that takes nothing holds up the thread that sends, so that nothing is
//! lost as long as the log has it. Which rows it has taken is known at any time.

use super::row::{Row, Wanted};
use crate::answers::happened::Happened;
use crate::collector::{Address, Batch, Sender, Stopped};
use crate::filter::Filter;
use crate::follow::Key;
use crate::logs::Logs;
use crate::output::logs::Entry;
use crate::output::metrics::collect::Collector;
use crate::output::metrics::{Point, Table, TooMany};
use crate::output::otlp::Parts;
use crate::output::resources::Resources;
use crate::output::traces::otlp::Batch as Spans;
use std::fmt::{self, Display};
use std::time::{Duration, Instant};

/// The names of signals.
const NAMES: [&str; 3] = ["traces", "logs", "metrics"];

/// Why something is not sent.
#[derive(Debug)]
pub enum Unsent {
    /// More series were asked for than can be held.
    TooMany(TooMany),
    /// The collector refuses it.
    Stopped(Box<Stopped>),
}

impl From<Stopped> for Unsent {
    fn from(stopped: Stopped) -> Self {
        Unsent::Stopped(Box::new(stopped))
    }
}

/// Which signals are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signals {
    /// Chains.
    pub traces: bool,
    /// Log records.
    pub logs: bool,
    /// Metrics.
    pub metrics: bool,
}

impl Signals {
    /// What is sent unless it is chosen.
    pub const TRACES: Signals = Signals { traces: true, logs: false, metrics: false };

    /// Reads names with commas between them.
    ///
    /// # Errors
    /// One of them is no signal.
    pub fn parse(text: &str) -> Result<Signals, NoSignal> {
        let names: Vec<&str> = text.split(',').map(str::trim).collect();
        if let Some(name) = names.iter().find(|name| !NAMES.contains(name)) {
            return Err(NoSignal((*name).to_owned()));
        }
        let [traces, logs, metrics] = NAMES.map(|name| names.contains(&name));
        Ok(Signals { traces, logs, metrics })
    }

    /// What they are made of.
    pub fn wanted(self) -> Wanted {
        [(self.traces, Wanted::TRACES), (self.logs, Wanted::LOGS), (self.metrics, Wanted::METRICS)]
            .into_iter()
            .filter(|(is_sent, _)| *is_sent)
            .fold(Wanted::default(), |all, (_, wanted)| all.and(wanted))
    }
}

/// What was named is no signal.
#[derive(Debug, PartialEq, Eq)]
pub struct NoSignal(String);

impl fmt::Display for NoSignal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}' is no signal; name some of {}", self.0, NAMES.join(","))
    }
}

impl std::error::Error for NoSignal {}

/// Sends them.
pub struct Outgoing<'a> {
    /// Counts for metrics, and knows whose records and points are.
    collector: Collector,
    traces: Option<Sender<'a, Spans>>,
    logs: Option<Sender<'a, Parts<Entry>>>,
    metrics: Option<Sender<'a, Parts<Point>>>,
    /// When metrics were sent last.
    measured: Option<Instant>,
    /// The rows that came since they were forgotten.
    sent_traces: Since,
    sent_logs: Since,
}

/// The rows of a signal that were added since some moment.
#[derive(Default)]
struct Since {
    rows: Vec<Key>,
    /// How many the collector had taken by then.
    taken: usize,
}

impl Since {
    /// Notes a row if it was added: `parts` are the counts before and after.
    fn note(&mut self, key: &Key, (before, after): (usize, usize)) {
        if after > before {
            self.rows.push(key.clone());
        }
    }

    /// Those that the collector has taken of so many.
    fn taken(&self, taken: usize) -> &[Key] {
        self.rows.get(..taken.saturating_sub(self.taken)).unwrap_or(&self.rows)
    }

    /// Forgets those that the collector has taken.
    fn forget(&mut self, taken: usize) {
        self.rows.drain(..taken.saturating_sub(self.taken).min(self.rows.len()));
        self.taken = taken;
    }
}

/// Until when, and how, it is tried.
#[derive(Clone, Copy)]
pub struct Patience<'a> {
    /// Whether it is tried without end.
    pub is_endless: bool,
    /// Whether another run goes on with what was not sent.
    pub is_kept: bool,
    /// Whether it is to end.
    pub is_over: &'a dyn Fn() -> bool,
}

impl<'a> Outgoing<'a> {
    /// To this address. `tell`: what people should know. `filter`: what is counted.
    pub fn new(
        (address, signals): (&'a Address, Signals),
        filter: Filter,
        tell: &'a dyn Fn(&dyn Display),
        patience: Patience<'a>,
    ) -> Outgoing<'a> {
        let table = Table::live(filter.since);
        Outgoing {
            collector: Collector { table, resources: Resources::default(), filter },
            traces: signals.traces.then(|| sender(address, patience, tell)),
            logs: signals.logs.then(|| sender(address, patience, tell)),
            metrics: signals.metrics.then(|| sender(address, patience, tell)),
            measured: None,
            sent_traces: Since::default(),
            sent_logs: Since::default(),
        }
    }

    /// How many rows came since they were forgotten.
    pub fn since(&self) -> usize {
        self.sent_traces.rows.len() + self.sent_logs.rows.len()
    }

    /// The rows that the collector has taken since they were forgotten.
    pub fn taken(&self) -> Vec<Key> {
        let (traces, logs) = (taken(self.traces.as_ref()), taken(self.logs.as_ref()));
        [self.sent_traces.taken(traces), self.sent_logs.taken(logs)].concat()
    }

    /// Forgets the rows that the collector has taken: it is kept elsewhere which they are.
    pub fn forget(&mut self) {
        self.sent_traces.forget(taken(self.traces.as_ref()));
        self.sent_logs.forget(taken(self.logs.as_ref()));
    }

    /// Looks which IOCs there are. `filter` chooses as in this pass over the log.
    pub fn look(&mut self, logs: &Logs, filter: &Filter) {
        if self.logs.is_some() || self.metrics.is_some() {
            self.collector.resources.learn(logs);
            self.collector.filter.pod.clone_from(&filter.pod);
        }
    }

    /// Takes a row.
    ///
    /// # Errors
    /// If the collector refuses it, or there are too many series.
    pub fn take(&mut self, row: &Row, key: &Key) -> Result<(), Unsent> {
        let happened = match row {
            Row::Put(put) => Some(Happened::from(put.as_ref().clone())),
            Row::Alarm(alarm) => Some(Happened::from(alarm.as_ref().clone())),
            Row::Console(line) => Some(Happened::from(line.as_ref().clone())),
            _ => None,
        };
        let happened = match row {
            Row::Event(event) => Some(event.as_ref()),
            _ => happened.as_ref(),
        };
        if let (Some(sender), Some(happened)) = (&mut self.logs, happened) {
            let Happened { time, host, ioc, pid, .. } = happened;
            let entry = Entry::new(happened, self.collector.resources.of(host, ioc, *pid, *time));
            let before = sender.parts().0;
            let added = sender.add(&entry);
            self.sent_logs.note(key, (before, sender.parts().0));
            added?;
        }
        if let (Some(sender), Row::Chain(chain)) = (&mut self.traces, row) {
            let before = sender.parts().0;
            let added = sender.add(chain);
            self.sent_traces.note(key, (before, sender.parts().0));
            added?;
        }
        if self.metrics.is_none() {
            return Ok(());
        }
        match (row, happened) {
            (Row::Chain(chain), _) => self.collector.chain(chain),
            (Row::Used(used), _) => self.collector.used(used),
            (Row::LeftOut(left), _) => self.collector.left_out(left),
            (_, Some(happened)) => self.collector.happened(happened),
            _ => Ok(()),
        }
        .map_err(Unsent::TooMany)
    }

    /// Sends what waits, and the metrics if they are due.
    ///
    /// # Errors
    /// If the collector refuses it.
    pub fn flush(&mut self, interval: Duration) -> Result<(), Unsent> {
        if let Some(sender) = &mut self.traces {
            sender.flush()?;
        }
        if let Some(sender) = &mut self.logs {
            sender.flush()?;
        }
        self.measure(interval)
    }

    /// Sends the metrics of which there is news, if those before were sent so long ago.
    ///
    /// # Errors
    /// If the collector refuses it.
    pub fn measure(&mut self, interval: Duration) -> Result<(), Unsent> {
        let is_due = self.measured.is_none_or(|measured| measured.elapsed() >= interval);
        let Some(sender) = self.metrics.as_mut().filter(|_| is_due) else { return Ok(()) };
        let news = self.collector.table.news();
        if !news.is_empty() {
            self.measured = Some(Instant::now());
        }
        news.iter().try_for_each(|point| sender.add(point))?;
        Ok(sender.flush()?)
    }
}

fn taken<B: Batch>(sender: Option<&Sender<B>>) -> usize {
    sender.map_or(0, |sender| sender.parts().1)
}

fn sender<'a, B: Batch>(
    address: &'a Address,
    Patience { is_endless, is_kept, is_over }: Patience<'a>,
    tell: &'a dyn Fn(&dyn Display),
) -> Sender<'a, B> {
    Sender::new(address, 0, tell).following(is_over).patient(is_endless).kept(is_kept)
}
