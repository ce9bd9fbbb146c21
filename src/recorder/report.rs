//! The recorder's status, as `iocrec status` shows it. The thread that writes the log, which sees every event, updates
//! it; the thread that answers requests reads it.

use std::collections::{BTreeMap, VecDeque};

use iocrec_log::context::Context;
use iocrec_log::event::{Class, Event, Fact, LossSource, PvaKind, SnapshotEnd, TierChoice};
use iocrec_log::writer::{State, Status};

use crate::json::{array, string};
use crate::linux::clock::{self, iso};
use crate::recorder::heartbeat::Times;
use crate::recorder::host::name_of;
use crate::terminal::{self, plural};

/// Nanoseconds between counts.
const COUNT_PERIOD: u64 = 1_000_000_000;
/// Number of counts kept: rates cover the last minute.
const COUNTS: usize = 61;
/// Nanoseconds after which a silent log thread counts as hanging: it waits for its disk.
const HANGS: u64 = 3_000_000_000;

/// Counts of events so far. They only rise.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    time: u64,
    /// All events.
    events: u64,
    /// Hits: all events except definitions and notes.
    hits: u64,
    /// Records that were processed: completions, or starts where completions are not seen.
    processed: u64,
    /// Puts seen on the network, and inside IOCs; most of the former are among the latter, too.
    puts: (u64, u64),
    /// Bytes written.
    written: u64,
}

/// An IOC, for people.
#[derive(Clone, Debug)]
struct IocLine {
    name: String,
    pid: u32,
}

/// Snapshots so far: values and properties of records, and the last end of a snapshot, with its time.
#[derive(Clone, Copy, Debug, Default)]
struct Snapshots {
    values: u64,
    properties: u64,
    last: Option<(u64, SnapshotEnd)>,
}

/// The recorder's status.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The log's directory.
    directory: String,
    /// The cap on disk use, bytes.
    max_disk: u64,
    /// Start of the recorder: monotonic, and wall-clock nanoseconds since 1970.
    began: (u64, i64),
    tier: Option<TierChoice>,
    iocs: Vec<IocLine>,
    counts: Counts,
    /// Counts of the last minute, oldest first.
    before: VecDeque<Counts>,
    losses: BTreeMap<&'static str, u64>,
    snapshots: Snapshots,
    status: Status,
    /// Time of the log thread's last update, monotonic.
    updated: u64,
}

impl Report {
    /// The report of a recorder that starts now. `max_disk` is its cap, bytes.
    pub fn new(directory: String, max_disk: u64) -> Report {
        let now = clock::monotonic();
        let began = (now, clock::wall_offset().saturating_add_unsigned(now));
        Report { directory, max_disk, began, ..Report::default() }
    }

    /// Counts an event.
    pub fn count(&mut self, event: &Event) {
        self.counts.events += 1;
        self.counts.hits += u64::from(event.fact.class() == Class::Hit);
        match &event.fact {
            Fact::Complete(_) => self.counts.processed += 1,
            // a stripped IOC shows only this; a record that was active already counts as one
            Fact::RsetProcess(process) if !process.active => self.counts.processed += 1,
            Fact::CaPut(_) => self.counts.puts.0 += 1,
            Fact::PvaPut(put) if matches!(put.kind, PvaKind::Put | PvaKind::PutGet) => {
                self.counts.puts.0 += 1;
            }
            Fact::Put(_) => self.counts.puts.1 += 1,
            Fact::Snapshot(_) => self.snapshots.values += 1,
            Fact::Properties(_) => self.snapshots.properties += 1,
            Fact::SnapshotEnd(end) => self.snapshots.last = Some((event.time, *end)),
            Fact::Loss(loss) => *self.losses.entry(source_name(loss.source)).or_default() += loss.count,
            _ => {}
        }
    }

    /// Updates the report at a monotonic time.
    pub fn update(&mut self, now: u64, status: &Status, context: &Context) {
        self.updated = now;
        self.counts.time = now;
        self.counts.written = status.written;
        self.status.clone_from(status);
        if self.before.back().is_none_or(|last| now.saturating_sub(last.time) >= COUNT_PERIOD) {
            if self.before.len() >= COUNTS {
                self.before.pop_front();
            }
            self.before.push_back(self.counts);
            self.tier = context.tier().cloned();
            self.iocs = context.iocs().map(|ioc| IocLine { name: ioc.name.clone(), pid: ioc.pid }).collect();
            self.iocs.sort_by_key(|ioc| ioc.pid);
        }
    }

    /// Bytes written so far.
    pub fn written(&self) -> u64 {
        self.counts.written
    }

    /// Number of segments begun so far.
    pub fn segments(&self) -> u32 {
        self.status.begun
    }

    /// Mean growth of a count in a second, over the last minute.
    fn rate(&self, count: impl Fn(&Counts) -> u64) -> f64 {
        let Some(first) = self.before.front() else { return 0.0 };
        let seconds = self.counts.time.saturating_sub(first.time) as f64 / 1e9;
        if seconds > 0.0 {
            count(&self.counts).saturating_sub(count(first)) as f64 / seconds
        } else {
            0.0
        }
    }

    /// Why nothing is stored, if so.
    fn trouble(&self, now: u64) -> Option<String> {
        let silent = now.saturating_sub(self.updated);
        match &self.status.state {
            _ if silent > HANGS => {
                Some(format!("the disk has not answered for {} s", silent / 1_000_000_000))
            }
            State::Paused { reason } => Some(reason.clone()),
            State::Ok => None,
        }
    }

    /// The last round of the loop.
    fn looped(&self, now: u64, times: Times) -> String {
        match times.looped {
            Some(last) if now.saturating_sub(last) > HANGS => {
                format!("HANGS: last round {} ago", age(now, last))
            }
            Some(last) => format!("{} ago", age(now, last)),
            None => format!("not yet: it has looked for IOCs for {}", age(now, self.began.0)),
        }
    }

    /// All losses, by source.
    fn lost(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        let storage = self.losses.get("storage").copied().unwrap_or(0).saturating_add(self.status.lost);
        let others = self.losses.iter().filter(|(source, _)| **source != "storage").map(|(s, n)| (*s, *n));
        others.chain([("storage", storage)]).filter(|(_, count)| *count > 0)
    }

    /// The report as text, at a monotonic time.
    pub fn text(&self, now: u64, times: Times) -> String {
        let mut text = terminal::page();
        let mut line = |what: &str, words: std::fmt::Arguments| {
            terminal::add(&mut text, format_args!("{what:<10}{words}"));
        };
        let status = &self.status;
        let running = now.saturating_sub(self.began.0) / 1_000_000_000;
        line(
            "running",
            format_args!(
                "pid {}  iocrec {}  since {} ({})",
                std::process::id(),
                env!("CARGO_PKG_VERSION"),
                iso(self.began.1),
                length(running)
            ),
        );
        if let Some(tier) = &self.tier {
            line("tier", format_args!("{}", name_of(tier.tier)));
            for (tier, reason) in &tier.refused {
                line("", format_args!("not {}: {reason}", name_of(*tier)));
            }
        }
        let names: Vec<String> = self.iocs.iter().map(|ioc| format!("{} ({})", ioc.name, ioc.pid)).collect();
        line("IOCs", format_args!("{}", if names.is_empty() { "none".into() } else { names.join(", ") }));
        line(
            "rate",
            format_args!(
                "{:.1} events/s  {:.1} records processed/s  {:.1} puts/s in IOCs, {:.1} on the network",
                self.rate(|counts| counts.events),
                self.rate(|counts| counts.processed),
                self.rate(|counts| counts.puts.1),
                self.rate(|counts| counts.puts.0),
            ),
        );
        line("loop", format_args!("{}", self.looped(now, times)));
        if let Some(since) = times.inspecting {
            line("waiting", format_args!("a process has waited for inspection for {}", age(now, since)));
        }
        match self.trouble(now) {
            None => line("storing", format_args!("yes")),
            Some(reason) => line("storing", format_args!("PAUSED: {reason}")),
        }
        let stored = status.stored;
        line("stored", format_args!("{stored} event{}, {}", plural(stored), bytes(status.written)));
        let lost: Vec<String> = self.lost().map(|(source, count)| format!("{count} {source}")).collect();
        line("lost", format_args!("{}", if lost.is_empty() { "nothing".into() } else { lost.join(", ") }));
        line("snapshots", format_args!("{}", self.snapshots.words(now)));
        line(
            "disk",
            format_args!(
                "{} of {} in {} segment{}; {} deleted{}",
                bytes(status.taken),
                bytes(self.max_disk),
                status.segments,
                plural(status.segments as u64),
                status.deleted,
                if status.deleted_early > 0 {
                    format!(", {} of them since the file system was full", status.deleted_early)
                } else {
                    String::new()
                }
            ),
        );
        line(
            "pins",
            format_args!(
                "{} segment{}, {} of {}",
                status.pinned,
                plural(status.pinned as u64),
                bytes(status.pinned_taken),
                bytes(status.pinned_share)
            ),
        );
        if status.waiting_marks > 0 {
            line("marks", format_args!("{} not stored yet", status.waiting_marks));
        }
        text.into_text()
    }

    /// The report as one JSON object, at a monotonic time.
    pub fn json(&self, now: u64, times: Times) -> String {
        let status = &self.status;
        let refused = self.tier.iter().flat_map(|tier| &tier.refused);
        let refused = refused.map(|(tier, reason)| {
            format!("{{\"tier\":{},\"reason\":{}}}", string(name_of(*tier)), string(reason))
        });
        let iocs =
            self.iocs.iter().map(|ioc| format!("{{\"name\":{},\"pid\":{}}}", string(&ioc.name), ioc.pid));
        let lost = self.lost().map(|(source, count)| format!("{}:{count}", string(source)));
        let trouble = self.trouble(now);
        format!(
            "{{\"running\":true,\"dir\":{},\"pid\":{},\"recorder\":{},\"since\":{},\"seconds\":{},\
             \"tier\":{},\"refused\":{},\"iocs\":{},\
             \"rates\":{{\"events\":{:.1},\"hits\":{:.1},\"processed\":{:.1},\"puts\":{:.1},\"ca_puts\":{:.1},\"bytes\":{:.1}}},\
             \"loop_age\":{},\"inspection_age\":{},\"log_age\":{:.3},\
             \"storing\":{},\"paused\":{},\"stored\":{},\"lost\":{{{}}},\
             \"disk\":{{\"taken\":{},\"max\":{},\"segments\":{},\"written\":{},\"deleted\":{},\"deleted_early\":{}}},\
             \"pins\":{{\"segments\":{},\"taken\":{},\"max\":{}}},\"waiting_marks\":{},\"snapshots\":{}}}\n",
            string(&self.directory),
            std::process::id(),
            string(env!("CARGO_PKG_VERSION")),
            string(&iso(self.began.1)),
            now.saturating_sub(self.began.0) / 1_000_000_000,
            self.tier.as_ref().map_or("null".into(), |tier| string(name_of(tier.tier))),
            array(refused),
            array(iocs),
            self.rate(|counts| counts.events),
            self.rate(|counts| counts.hits),
            self.rate(|counts| counts.processed),
            self.rate(|counts| counts.puts.1),
            self.rate(|counts| counts.puts.0),
            self.rate(|counts| counts.written),
            json_age(now, times.looped),
            json_age(now, times.inspecting),
            now.saturating_sub(self.updated) as f64 / 1e9,
            trouble.is_none(),
            trouble.map_or("null".into(), |reason| string(&reason)),
            status.stored,
            lost.collect::<Vec<_>>().join(","),
            status.taken,
            self.max_disk,
            status.segments,
            status.written,
            status.deleted,
            status.deleted_early,
            status.pinned,
            status.pinned_taken,
            status.pinned_share,
            status.waiting_marks,
            self.snapshots.json(now),
        )
    }
}

impl Snapshots {
    fn words(&self, now: u64) -> String {
        let Some((time, end)) = self.last else {
            return if self.values > 0 { "the first is under way".into() } else { "none".into() };
        };
        let mut words = format!(
            "{} value{}, {} properties; the last {} ago: {} value{}",
            self.values,
            plural(self.values),
            self.properties,
            age(now, time),
            end.taken,
            plural(end.taken.into())
        );
        for (count, what) in [
            (end.unread, "changing or unreadable"),
            (end.left, "without room"),
            (end.properties_left, "without room for their properties"),
        ] {
            if count > 0 {
                words += &format!(", {count} record{} {what}", plural(count.into()));
            }
        }
        words
    }

    fn json(&self, now: u64) -> String {
        let last = self.last.map(|(time, end)| {
            format!(
                "{{\"age\":{},\"taken\":{},\"unread\":{},\"left\":{},\"properties_left\":{}}}",
                json_age(now, Some(time)),
                end.taken,
                end.unread,
                end.left,
                end.properties_left
            )
        });
        let last = last.unwrap_or("null".into());
        format!("{{\"values\":{},\"properties\":{},\"last\":{last}}}", self.values, self.properties)
    }
}

fn source_name(source: LossSource) -> &'static str {
    match source {
        LossSource::Hits => "hits",
        LossSource::Packets => "packets",
        LossSource::Stream => "stream",
        LossSource::Names => "names",
        LossSource::Storage => "storage",
    }
}

/// Bytes for people: three digits and a unit.
pub fn bytes(count: u64) -> String {
    let mut value = count as f64;
    for unit in ["B", "KiB", "MiB", "GiB"] {
        if value < 1000.0 || unit == "GiB" {
            let digits = usize::from(unit != "B" && value < 100.0);
            return format!("{value:.digits$} {unit}");
        }
        value /= 1024.0;
    }
    format!("{count} B")
}

/// Time since `then`, for people.
fn age(now: u64, then: u64) -> String {
    let age = now.saturating_sub(then);
    if age < 10_000_000_000 {
        return format!("{:.1} s", age as f64 / 1e9);
    }
    length(age / 1_000_000_000)
}

/// Time since `then`, seconds.
fn json_age(now: u64, then: Option<u64>) -> String {
    then.map_or("null".into(), |then| format!("{:.3}", now.saturating_sub(then) as f64 / 1e9))
}

/// A number of seconds, for people.
fn length(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iocrec_log::event::{Loss, Process, Tier};

    const SECOND: u64 = 1_000_000_000;

    fn report() -> Report {
        let mut report = Report {
            directory: "/var/log/\"x\"".into(),
            max_disk: 64 << 20,
            began: (100 * SECOND, 1_700_000_000_000_000_000),
            ..Report::default()
        };
        let mut context = Context::default();
        context.apply(
            1,
            &Fact::Tier(TierChoice { tier: Tier::Packet, refused: vec![(Tier::Ring, "no \"root\"".into())] }),
        );
        let mut status = Status::default();
        for second in 100..200 {
            for _ in 0..second - 90 {
                report.count(&Event { time: 0, fact: Fact::Mark(String::new()) });
            }
            status.written += 1000;
            report.update(second * SECOND, &status, &context);
        }
        let loss = Loss { source: LossSource::Hits, count: 7, since: 0, cause: String::new() };
        report.count(&Event { time: 0, fact: Fact::Loss(loss) });
        report
    }

    #[test]
    fn json_is_json() {
        let json: serde_json::Value =
            serde_json::from_str(&report().json(200 * SECOND, Times::default())).unwrap();
        assert_eq!((&json["running"], &json["dir"]), (&true.into(), &"/var/log/\"x\"".into()));
        assert_eq!((&json["seconds"], &json["storing"]), (&100.into(), &true.into()));
        assert_eq!((&json["lost"]["hits"], &json["tier"]), (&7.into(), &"packet".into()));
        assert_eq!(json["rates"]["bytes"], 1000.0);
        // The mean of the last minute.
        assert!((70.0..90.0).contains(&json["rates"]["events"].as_f64().unwrap()), "{json}");
        assert_eq!(json["refused"][0]["reason"], "no \"root\"");
        crate::json::assert_documented("status", &json);
    }

    #[test]
    fn a_disk_that_hangs_is_shown() {
        let report = report();
        assert!(report.text(200 * SECOND, Times::default()).contains("storing   yes\n"));
        let text = report.text(209 * SECOND, Times::default());
        assert!(text.contains("storing   PAUSED: the disk has not answered for 10 s\n"), "{text}");
        let json: serde_json::Value =
            serde_json::from_str(&report.json(209 * SECOND, Times::default())).unwrap();
        assert_eq!(json["paused"], "the disk has not answered for 10 s");
    }

    #[test]
    fn a_loop_that_hangs_is_shown() {
        let report = report();
        let json =
            |times| serde_json::from_str::<serde_json::Value>(&report.json(200 * SECOND, times)).unwrap();
        assert!(report
            .text(200 * SECOND, Times::default())
            .contains("loop      not yet: it has looked for IOCs for"));
        assert_eq!(json(Times::default())["loop_age"], serde_json::Value::Null);
        let fine = Times { looped: Some(200 * SECOND - SECOND / 20), inspecting: None };
        assert!(report.text(200 * SECOND, fine).contains("loop      0.1 s ago\n"));
        assert_eq!(json(fine)["loop_age"], 0.05);
        let hangs = Times { looped: Some(180 * SECOND), inspecting: Some(170 * SECOND) };
        let text = report.text(200 * SECOND, hangs);
        assert!(text.contains("loop      HANGS: last round 20 s ago\n"), "{text}");
        assert!(text.contains("waiting   a process has waited for inspection for 30 s\n"), "{text}");
        assert_eq!((&json(hangs)["loop_age"], &json(hangs)["inspection_age"]), (&20.0.into(), &30.0.into()));
    }

    /// A stripped IOC shows only the entry of process routines; an asynchronous record enters its own twice.
    #[test]
    fn records_of_stripped_iocs_count_as_processed() {
        let mut report = Report::default();
        let process = |active| Process { thread: 1, sp: 0, site: 0, record: 1, active };
        for fact in [
            Fact::RsetProcess(process(false)),
            Fact::RsetProcess(process(true)),
            Fact::Process(process(false)),
            Fact::Mark(String::new()),
        ] {
            report.count(&Event { time: 0, fact });
        }
        assert_eq!((report.counts.events, report.counts.hits, report.counts.processed), (4, 3, 1));
    }

    #[test]
    fn puts_of_both_protocols_count() {
        use iocrec_log::event::{PvaPut, PvaValue};
        let mut report = Report::default();
        for kind in [PvaKind::Put, PvaKind::Process, PvaKind::PutGet, PvaKind::Rpc] {
            let (options, value) = (PvaValue::default(), PvaValue::default());
            let put = PvaPut { circuit: 1, channel: 1, ioid: 1, kind, options, value };
            report.count(&Event { time: 0, fact: Fact::PvaPut(Box::new(put)) });
        }
        assert_eq!(report.counts.puts, (2, 0));
    }

    #[test]
    fn what_snapshots_left_out_is_shown() {
        let mut report = report();
        assert!(report.text(200 * SECOND, Times::default()).contains("snapshots none\n"));
        let json = |report: &Report| -> serde_json::Value {
            serde_json::from_str(&report.json(200 * SECOND, Times::default())).unwrap()
        };
        assert_eq!(json(&report)["snapshots"]["last"], serde_json::Value::Null);
        let value = iocrec_log::event::Snapshot {
            record: 1,
            value: iocrec_log::event::Value::Int(1),
            severity: 0,
            status: 0,
            stamp: None,
        };
        report.count(&Event { time: 0, fact: Fact::Snapshot(value) });
        assert!(report.text(200 * SECOND, Times::default()).contains("snapshots the first is under way\n"));
        let end = SnapshotEnd { ioc: 1, since: 0, taken: 1, unread: 2, left: 0, properties_left: 40 };
        report.count(&Event { time: 195 * SECOND, fact: Fact::SnapshotEnd(end) });
        let text = report.text(200 * SECOND, Times::default());
        assert!(
            text.contains(
                "snapshots 1 value, 0 properties; the last 5.0 s ago: 1 value, 2 records changing or unreadable, \
                 40 records without room for their properties\n"
            ),
            "{text}"
        );
        let last = &json(&report)["snapshots"]["last"];
        assert_eq!((&last["taken"], &last["unread"], &last["age"]), (&1.into(), &2.into(), &5.0.into()));
        crate::json::assert_documented("status", last);
    }

    #[test]
    fn sizes() {
        for (count, text) in
            [(0, "0 B"), (999, "999 B"), (1 << 20, "1.0 MiB"), (200 << 20, "200 MiB"), (1 << 40, "1024 GiB")]
        {
            assert_eq!(bytes(count), text);
        }
    }
}
