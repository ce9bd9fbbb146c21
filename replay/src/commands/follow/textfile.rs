//! A file for the textfile collector of Prometheus' node_exporter: what was seen since following began, and what is.
//!
//! Prometheus' text format, version 0.0.4. The file is replaced as a whole, so nobody reads half of it.

use crate::answers::inventory::Inventory;
use crate::destination::Destination;
use crate::failure::Failure;
use crate::live::notes::Kind;
use crate::live::row::Row;
use crate::logs::Logs;
use crate::model::alarms::What;
use crate::model::enum_strings::severity_name;
use crate::notices::Notices;
use crate::reading::runs::host;
use iocrec_log::escape::push;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Series of a metric, which Prometheus keeps all; a bound for hostile logs. What is beyond counts under `other`.
const MAX_SERIES: usize = 1000;
/// Letters of a label's value; likewise.
const MAX_LABEL: usize = 200;

/// Counts of a metric by the values of its labels.
type Counts = BTreeMap<Vec<String>, u64>;

/// What was counted.
#[derive(Default)]
pub struct Textfile {
    puts: Counts,
    alarms: Counts,
    deaths: Counts,
    losses: Counts,
    alive: BTreeMap<String, u64>,
    /// Wall-clock time of the newest event of each host.
    newest: BTreeMap<String, i64>,
    /// Gaps in the stream, and segments dropped from the spool.
    pub gaps: u64,
}

fn count(counts: &mut Counts, labels: &[&str], by: u64) {
    let cut = |text: &&str| text.chars().take(MAX_LABEL).collect::<String>();
    let mut labels: Vec<String> = labels.iter().map(cut).collect();
    if counts.len() >= MAX_SERIES && !counts.contains_key(&labels) {
        labels.iter_mut().for_each(|label| *label = "other".to_owned());
    }
    let count = counts.entry(labels).or_default();
    *count = count.saturating_add(by);
}

impl Textfile {
    /// Counts a row.
    pub fn count(&mut self, row: &Row) {
        match row {
            Row::Put(put) => {
                let labels =
                    [put.host.as_deref().unwrap_or_default(), put.ioc.as_deref().unwrap_or_default()];
                count(&mut self.puts, &labels, 1);
            }
            Row::Alarm(alarm) if alarm.what == What::Change => {
                let severity = alarm.to.map_or("unknown", |to| severity_name(to.0));
                count(&mut self.alarms, &[&*alarm.place.host, &*alarm.place.ioc, severity], 1);
            }
            Row::Note(note) if note.kind == Kind::Death && note.what == "ended" => {
                count(&mut self.deaths, &[&note.host, &note.ioc], 1);
            }
            Row::Note(note) if note.kind == Kind::Loss => {
                // a time without a recorder is no number of anything
                if let Some(source) = note.source {
                    count(&mut self.losses, &[note.host.as_str(), source], note.count.unwrap_or(0));
                }
            }
            _ => {}
        }
    }

    /// Looks which IOCs are alive, as far as the logs go.
    pub fn look(&mut self, logs: &Logs) {
        self.newest = logs.newest();
        self.alive.clear();
        for run in logs.runs() {
            // the last segment repeats those that it began with
            let last = run.last().map(std::slice::from_ref).unwrap_or_default();
            let found = Inventory::read(last, &Notices::default());
            let alive = found.context().iocs().filter(|ioc| found.end(ioc.id).is_none()).count() as u64;
            let host = host(last).map(|host| host.name).unwrap_or_default();
            if self.alive.len() < MAX_SERIES || self.alive.contains_key(&host) {
                // a later run knows better
                self.alive.insert(host, alive);
            }
        }
    }

    /// The file's text at this time, seconds since 1970.
    pub fn text(&self, now: f64) -> String {
        let mut text = String::new();
        let counters: [(&str, &str, &[&str], &Counts); 4] = [
            ("iocrec_follow_puts_total", "Puts from outside the IOCs.", &["host", "ioc"], &self.puts),
            (
                "iocrec_follow_alarms_total",
                "Changes of alarms, by the severity that they led to.",
                &["host", "ioc", "severity"],
                &self.alarms,
            ),
            ("iocrec_follow_ioc_ends_total", "IOCs that ended.", &["host", "ioc"], &self.deaths),
            (
                "iocrec_follow_lost_total",
                "Hits, packets, bytes of streams, names or events that the recorder lost.",
                &["host", "source"],
                &self.losses,
            ),
        ];
        for (name, help, labels, counts) in counters {
            let values = counts.iter().map(|(values, count)| (labelled(labels, values), *count as f64));
            metric(&mut text, name, "counter", help, values);
        }
        let gaps = [(String::new(), self.gaps as f64)].into_iter();
        let help = "Times that a part of the log was gone before it came.";
        metric(&mut text, "iocrec_follow_gaps_total", "counter", help, gaps);
        let of_host = |host: &String| labelled(&["host"], std::slice::from_ref(host));
        let alive = self.alive.iter().map(|(host, count)| (of_host(host), *count as f64));
        metric(&mut text, "iocrec_follow_iocs_alive", "gauge", "IOCs that had not ended.", alive);
        let times = || self.newest.iter().map(|(host, wall)| (host, *wall as f64 / 1e9));
        let newest = times().map(|(host, wall)| (of_host(host), wall));
        let help = "Time of the newest event of the log.";
        metric(&mut text, "iocrec_follow_newest_event_timestamp_seconds", "gauge", help, newest);
        let ages = times().map(|(host, wall)| (of_host(host), now - wall));
        let help = "Age of the newest event of the log, by this machine's clock.";
        metric(&mut text, "iocrec_follow_newest_event_age_seconds", "gauge", help, ages);
        text
    }

    /// Replaces the file. `logs` are those that must not be written to.
    ///
    /// # Errors
    /// It can't be written.
    pub fn write(&self, path: &Path, logs: &[PathBuf]) -> Result<(), Failure> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let failed = |error| Failure::output(error, Some(path));
        let mut to = Destination::named("--textfile", path, logs)?;
        to.write_all(self.text(now.as_secs_f64()).as_bytes()).map_err(failed)?;
        to.close(true).map_err(failed)
    }
}

/// What was counted, and when the file was written.
pub struct Counted<'a> {
    /// What was counted.
    pub counts: Textfile,
    /// The file, if there is to be one.
    pub file: Option<&'a Path>,
    /// When the file was written.
    pub written: Option<Instant>,
    /// Whether the logs were read since.
    pub has_read: bool,
}

impl Counted<'_> {
    /// Whether the file is to be written again.
    fn is_due(&self, interval: Duration) -> bool {
        self.file.is_some() && self.written.is_none_or(|written| written.elapsed() >= interval)
    }

    /// Writes the file if it is due. `open` opens the logs as they are now: were they looked at only when they are read, the
    /// newest event would be that of a time before.
    ///
    /// # Errors
    /// It can't be written.
    pub fn write(
        &mut self,
        interval: Duration,
        logs: &[PathBuf],
        open: impl Fn() -> Option<Logs>,
    ) -> Result<(), Failure> {
        let Some(file) = self.file.filter(|_| self.is_due(interval)) else { return Ok(()) };
        self.written = Some(Instant::now());
        if std::mem::take(&mut self.has_read) {
            open().inspect(|logs| self.counts.look(logs));
        }
        self.counts.write(file, logs)
    }
}

fn metric(
    text: &mut String,
    name: &str,
    kind: &str,
    help: &str,
    values: impl Iterator<Item = (String, f64)>,
) {
    // writing to a String cannot fail
    let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    for (labels, value) in values {
        let _ = writeln!(text, "{name}{labels} {value}");
    }
}

/// Labels and their values, escaped: first what a terminal would obey, then what the format reserves.
fn labelled(labels: &[&str], values: &[String]) -> String {
    let pair = |(label, value): (&&str, &String)| {
        let mut shown = String::new();
        push(&mut shown, value);
        format!("{label}=\"{}\"", shown.replace('\\', "\\\\").replace('"', "\\\""))
    };
    let pairs: Vec<String> = labels.iter().zip(values).map(pair).collect();
    format!("{{{}}}", pairs.join(","))
}
