//! The summary of a log: text for people, JSON for programs.

use crate::names::how_many;
use crate::namesakes::without_pid;
use crate::out::{add, line, Out};
use crate::output::rows::{write_row, Shape};
use crate::summary::{LossInfo, PinInfo, RunSummary, ThinnedInfo, ThinningInfo};
use crate::time::{duration, SECOND};
use serde::Serialize;
use std::io;

/// Writes the summaries: as text, or as a row for each run.
pub fn write(out: &mut Out, runs: &[RunSummary], shape: Shape) -> io::Result<()> {
    match shape {
        Shape::Text => text(out, runs),
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
        let ports: Vec<String> = ioc.ca_ports.iter().map(u16::to_string).collect();
        add!(
            out,
            "IOC       {}  pid {}  Base {}  ",
            without_pid(&ioc.name, ioc.pid),
            ioc.pid,
            or(&ioc.base_version, unknown)
        );
        add!(out, "{} ({})  CA port {}  ", ioc.exe, ioc.linkage, or(&ports.join(", "), "unknown"));
        line!(out, "{} records seen{}", ioc.records, if ioc.ended { "  ended" } else { "" })?;
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
        line!(out, "fact      {name:<12} {count:>12}")?;
    }
    if run.losses.is_empty() {
        line!(out, "losses    none")?;
    }
    for loss in &run.losses {
        let LossInfo { source, count, cause, first, last } = loss;
        let count = how_many(*count);
        line!(out, "loss      {source}: {count} from {first} to {last}: {cause}")?;
    }
    for gap in &run.gaps {
        line!(
            out,
            "gap       {} (pid {}) unseen from {}: {}",
            without_pid(&gap.ioc, gap.pid),
            gap.pid,
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
        line!(out, "thinned   {chains} chains of {records} records left out from {first} to {last}")?;
    }
    for mark in &run.marks {
        line!(out, "mark      {} {}", mark.time, mark.text)?;
    }
    if run.pinned_segments > 0 {
        line!(out, "pinned    {} segments, {} bytes", run.pinned_segments, run.pinned_bytes)?;
    }
    for PinInfo { from, to, cause } in &run.pins {
        line!(out, "pin       {from} to {to}: {}", cause)?;
    }
    if run.unpinned_segments > 0 {
        line!(out, "unpinned  {} segments, since pins had more than their share", run.unpinned_segments)?;
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

/// Writes the summaries as one JSON object.
pub fn json(out: &mut Out, runs: &[RunSummary]) -> io::Result<()> {
    #[derive(Serialize)]
    struct All<'a> {
        runs: &'a [RunSummary],
    }
    out.pretty_json(&All { runs })
}
