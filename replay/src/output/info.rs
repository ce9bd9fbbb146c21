//! The summary of a log: text for people, JSON for programs.

use crate::answers::summary::{LossInfo, PinInfo, RunSummary, ThinnedInfo, ThinningInfo};
use crate::clocks::bounds::Bounds;
use crate::clocks::{wording, HostClock, Relative};
use crate::names::how_many;
use crate::out::{add, line, Out};
use crate::output::rows::{write_row, Shape};
use crate::shown_names::without_pid;
use crate::time::{duration, SECOND};
use crate::words::counted;
use serde::Serialize;
use std::io;

/// Writes the summaries: as text with what is known of the hosts' clocks, or as a row for each run.
pub fn write(out: &mut Out, runs: &[RunSummary], hosts: &[HostClock], shape: Shape) -> io::Result<()> {
    match shape {
        Shape::Text => {
            text(out, runs)?;
            clocks(out, hosts)
        }
        shape => {
            runs.iter().enumerate().try_for_each(|(number, run)| write_row(out, shape, number == 0, run))
        }
    }
}

fn text(out: &mut Out, runs: &[RunSummary]) -> io::Result<()> {
    for (number, run) in runs.iter().enumerate() {
        if number > 0 {
            line!(out)?;
        }
        one(out, run)?;
    }
    Ok(())
}

fn one(out: &mut Out, run: &RunSummary) -> io::Result<()> {
    let unknown = "(not known)";
    let text = |text: &Option<String>| text.clone().unwrap_or_else(|| unknown.to_owned());
    line!(
        out,
        "host      {}  {} {}  iocrec {}",
        text(&run.host),
        text(&run.kernel),
        text(&run.arch),
        text(&run.recorder)
    )?;
    line!(out, "tier      {}", run.tier.unwrap_or(unknown))?;
    for refused in &run.refused {
        line!(out, "          not {}: {}", refused.tier, refused.reason)?;
    }
    match (&run.first, &run.last, run.length) {
        (Some(first), Some(last), Some(length)) => {
            add!(out, "time      {first} to {last} ({})", duration(length));
            match run.time_step {
                0 | 1 => line!(out)?,
                step => line!(out, ", in steps of {step} ns")?,
            }
        }
        _ => line!(out, "time      nothing happened")?,
    }
    if let Some(set) = &run.clock_set {
        line!(out, "clock     was not set before {set}: earlier times are computed back from it")?;
    }
    if run.clock_offset_s != 0.0 {
        let (by, way) = (run.clock_offset_s.abs(), if run.clock_offset_s > 0.0 { "ahead" } else { "behind" });
        line!(out, "clock     was {by:.6} s {way} by --clock-offset: all times are moved by that")?;
    }
    for step in &run.clock_steps {
        let by = duration((step.by_s.abs() * SECOND as f64) as u64);
        let (way, twice) = match step.by_s < 0.0 {
            true => ("back", ": times in between can come twice"),
            false => ("forward", ""),
        };
        line!(out, "clock     set {way} by {by}, from {} to {}{twice}", step.from, step.to)?;
    }
    add!(out, "segments  {}, {} bytes", run.segments, run.bytes);
    if run.missing_segments > 0 {
        add!(out, "; {} missing between them", run.missing_segments);
    }
    line!(out)?;
    match run.first_segment {
        0 => {}
        1 => {
            line!(out, "          the first one of the run is not here: deleted to make room, or not copied")?
        }
        count => line!(
            out,
            "          the first {count} of the run are not here: deleted to make room, or not copied"
        )?,
    }
    for damage in &run.damage {
        line!(out, "damage    {damage}")?;
    }
    for ioc in &run.iocs {
        let listed = |ports: &[u16]| ports.iter().map(u16::to_string).collect::<Vec<String>>().join(", ");
        let (ca, pva) = (listed(&ioc.ca_ports), listed(&ioc.pva_ports));
        add!(
            out,
            "IOC       {}  pid {}  Base {}  ",
            without_pid(&ioc.name, ioc.pid),
            ioc.pid,
            or(&ioc.base_version, unknown)
        );
        add!(out, "{} ({})  ", ioc.exe, ioc.linkage);
        if pva.is_empty() || !ca.is_empty() {
            add!(out, "CA port {}  ", or(&ca, "unknown"));
        }
        if !pva.is_empty() {
            add!(out, "PVA port {pva}  ");
        }
        let records = counted(ioc.records as u64, "record");
        line!(out, "{records} seen{}", if ioc.ended { "  ended" } else { "" })?;
        if let Some(container) = &ioc.container {
            let (container, pod) = container.lines();
            line!(out, "          container {container}")?;
            if let Some(pod) = pod {
                line!(out, "          pod {pod}")?;
            }
        }
        for probe in &ioc.not_probed {
            line!(out, "          not probed: {probe}")?;
        }
        for attached in &ioc.attached {
            line!(out, "          attached {}", attached.text())?;
        }
        if let Some(snapshots) = &ioc.snapshots {
            line!(out, "          snapshots {}", snapshots.text())?;
        }
    }
    for (name, count) in &run.facts {
        line!(out, "fact      {name:<17} {count:>7}")?;
    }
    if run.losses.is_empty() {
        line!(out, "losses    none")?;
    }
    for loss in &run.losses {
        let LossInfo { source, count, cause, first, last } = loss;
        let count = how_many(*count, source);
        line!(out, "loss      {source}: {count} from {first} to {last}: {cause}")?;
    }
    for gap in &run.gaps {
        line!(
            out,
            "gap       {} (pid {}) {}from {}: {}",
            without_pid(&gap.ioc, gap.pid),
            gap.pid,
            if gap.is_of_packets { "" } else { "unseen " },
            gap.text(),
            gap.cause
        )?;
    }
    if let Some(ThinningInfo { chains, window, cause }) = &run.thinning {
        match chains {
            0 => line!(out, "thinning  all chains are kept ({cause})")?,
            _ => line!(
                out,
                "thinning  keeps {chains} {} per record in {} ({cause})",
                if *chains == 1 { "chain" } else { "chains" },
                duration(*window)
            )?,
        }
    }
    if let Some(ThinnedInfo { chains, records, first, last }) = &run.thinned {
        let (chains, records) = (counted(*chains, "chain"), counted(*records as u64, "record"));
        line!(out, "thinned   {chains} of {records} left out from {first} to {last}")?;
    }
    for mark in &run.marks {
        line!(out, "mark      {} {}", mark.time, mark.text)?;
    }
    if run.pinned_segments > 0 {
        let segments = counted(run.pinned_segments as u64, "segment");
        line!(out, "pinned    {segments}, {} bytes", run.pinned_bytes)?;
    }
    for PinInfo { from, to, cause } in &run.pins {
        line!(out, "pin       {from} to {to}: {}", cause)?;
    }
    if run.unpinned_segments > 0 {
        let segments = counted(run.unpinned_segments, "segment");
        line!(out, "unpinned  {segments}, since pins had more than their share")?;
    }
    Ok(())
}

fn or<'a>(text: &'a str, other: &'a str) -> &'a str {
    if text.is_empty() {
        other
    } else {
        text
    }
}

/// Writes how the clocks of several hosts differ.
fn clocks(out: &mut Out, clocks: &[HostClock]) -> io::Result<()> {
    if clocks.len() < 2 {
        return Ok(());
    }
    line!(out)?;
    for clock in clocks {
        let host = &clock.host;
        match &clock.relative {
            Some(relative) => {
                let Bounds { least, most } = relative.bounds;
                let (least, most, messages) = (in_seconds(least), in_seconds(most), relative.messages);
                line!(
                    out,
                    "clocks    {host}  {} (ahead by {least:+.6} s to {most:+.6} s, by {messages} messages)",
                    wording::difference(relative)
                )?;
            }
            None if clock.is_reference => line!(out, "clocks    {host}  compared with those of others")?,
            None => line!(out, "clocks    {host}  not known: it shares no circuit that both ends recorded")?,
        }
    }
    Ok(())
}

fn in_seconds(nanoseconds: i64) -> f64 {
    nanoseconds as f64 / SECOND as f64
}

/// How far a host's clock is ahead of another's.
#[derive(Serialize)]
struct ClockInfo<'a> {
    host: &'a str,
    /// The host that it is compared with; null for that one, and for one that shares no circuit.
    ahead_of: Option<&'a str>,
    /// Seconds by which it is ahead, and at least and at most.
    ahead_s: Option<f64>,
    ahead_least_s: Option<f64>,
    ahead_most_s: Option<f64>,
    /// Seconds by which the difference changed at least.
    changed_s: Option<f64>,
    way: Option<&'a [String]>,
    messages: Option<u64>,
}

impl<'a> From<&'a HostClock> for ClockInfo<'a> {
    fn from(clock: &'a HostClock) -> Self {
        let relative = clock.relative.as_ref();
        let in_seconds = |of: fn(&Relative) -> i64| relative.map(|relative| in_seconds(of(relative)));
        ClockInfo {
            host: &clock.host,
            ahead_of: relative.map(|relative| relative.of.as_str()),
            ahead_s: in_seconds(|relative| relative.bounds.middle()),
            ahead_least_s: in_seconds(|relative| relative.bounds.least),
            ahead_most_s: in_seconds(|relative| relative.bounds.most),
            changed_s: in_seconds(|relative| relative.changed),
            way: relative.map(|relative| relative.through.as_slice()),
            messages: relative.map(|relative| relative.messages),
        }
    }
}

/// Writes the summaries, and how the hosts' clocks differ, as one JSON object.
pub fn json(out: &mut Out, runs: &[RunSummary], clocks: &[HostClock]) -> io::Result<()> {
    #[derive(Serialize)]
    struct All<'a> {
        runs: &'a [RunSummary],
        clocks: Vec<ClockInfo<'a>>,
    }
    out.pretty_json(&All { runs, clocks: clocks.iter().map(ClockInfo::from).collect() })
}
