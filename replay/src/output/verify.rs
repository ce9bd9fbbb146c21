//! Integrity of logs: whether they are sound, and otherwise what is damaged, where, and what is lost.

use crate::found::Unreadable;
use crate::names::{how_many, source_name};
use crate::out::{add, line, Out};
use crate::output::rows::{write_row, Shape};
use crate::time::Zone;
use crate::words::counted;
use iocrec_log::reader::{Fault, Finding, Findings};
use serde::Serialize;
use std::borrow::Cow;
use std::io;

#[derive(Serialize)]
struct RunLine<'a> {
    host: Option<&'a str>,
    recorder: Option<&'a str>,
    run: String,
    sound: bool,
    segments: usize,
    first_segment: u32,
    bytes: u64,
    blocks: u64,
    events: u64,
    first: Option<String>,
    last: Option<String>,
    /// Number of findings, since not all may be listed.
    count: u64,
    findings: Vec<FindingLine<'a>>,
    losses: Vec<LossLine<'a>>,
}

#[derive(Serialize)]
struct FindingLine<'a> {
    /// Its path. Not all names of files are text.
    segment: Cow<'a, str>,
    offset: u64,
    length: u64,
    blocks: u32,
    segments: u32,
    cause: String,
    harmless: bool,
    from: Option<String>,
    to: Option<String>,
}

#[derive(Serialize)]
struct LossLine<'a> {
    source: &'static str,
    count: u64,
    cause: &'a str,
    from: String,
    to: String,
}

#[derive(Serialize)]
struct UnreadableLine<'a> {
    path: Cow<'a, str>,
    reason: String,
}

/// Whether everything is sound.
pub fn is_sound(runs: &[(u128, Findings)], unreadable: &[Unreadable]) -> bool {
    unreadable.is_empty() && runs.iter().all(|(_, found)| found.is_sound())
}

fn line<'a>(run: u128, found: &'a Findings, zone: &Zone) -> RunLine<'a> {
    let time = |time: i64| zone.format(time, 3);
    let finding = |finding: &'a Finding| FindingLine {
        segment: finding.segment.to_string_lossy(),
        offset: finding.offset,
        length: finding.length,
        blocks: finding.blocks,
        segments: finding.segments,
        cause: finding.fault.to_string(),
        harmless: finding.fault.is_harmless(),
        from: finding.from.map(time),
        to: finding.to.map(time),
    };
    let losses = found.losses.iter().map(|(from, to, loss)| LossLine {
        source: source_name(loss.source),
        count: loss.count,
        cause: &loss.cause,
        from: time(*from),
        to: time(*to),
    });
    RunLine {
        host: found.host.as_ref().map(|host| host.name.as_str()),
        recorder: found.host.as_ref().map(|host| host.recorder.as_str()),
        run: format!("{run:032x}"),
        sound: found.is_sound(),
        segments: found.segments,
        first_segment: found.first_segment,
        bytes: found.bytes,
        blocks: found.blocks,
        events: found.events,
        first: found.span.map(|(first, _)| time(first)),
        last: found.span.map(|(_, last)| time(last)),
        count: found.count,
        findings: found.list.iter().map(finding).collect(),
        losses: losses.collect(),
    }
}

/// Writes the findings as one JSON object.
pub fn json(
    out: &mut Out,
    runs: &[(u128, Findings)],
    unreadable: &[Unreadable],
    zone: &Zone,
) -> io::Result<()> {
    #[derive(Serialize)]
    struct All<'a> {
        sound: bool,
        runs: Vec<RunLine<'a>>,
        unreadable: Vec<UnreadableLine<'a>>,
    }
    let lines = runs.iter().map(|(run, found)| line(*run, found, zone)).collect();
    let unreadable_lines = unreadable
        .iter()
        .map(|log| UnreadableLine { path: log.path.to_string_lossy(), reason: log.reason.to_string() })
        .collect();
    let all = All { sound: is_sound(runs, unreadable), runs: lines, unreadable: unreadable_lines };
    out.pretty_json(&all)
}

/// A row of the listing: what it is of has its keys, the others are null.
#[derive(Default, Serialize)]
struct Row<'a> {
    /// `run`, `finding`, `loss` or `unreadable`.
    what: &'static str,
    host: Option<&'a str>,
    recorder: Option<&'a str>,
    run: Option<&'a str>,
    sound: Option<bool>,
    segments: Option<u64>,
    first_segment: Option<u32>,
    bytes: Option<u64>,
    blocks: Option<u64>,
    events: Option<u64>,
    first: Option<&'a str>,
    last: Option<&'a str>,
    count: Option<u64>,
    segment: Option<&'a str>,
    offset: Option<u64>,
    length: Option<u64>,
    cause: Option<&'a str>,
    harmless: Option<bool>,
    from: Option<&'a str>,
    to: Option<&'a str>,
    source: Option<&'static str>,
    path: Option<Cow<'a, str>>,
    reason: Option<String>,
}

/// Writes the findings as rows: each run, followed by what was found in it and what its recorder lost.
pub fn rows(
    out: &mut Out,
    runs: &[(u128, Findings)],
    unreadable: &[Unreadable],
    shape: Shape,
    zone: &Zone,
) -> io::Result<()> {
    let mut is_first = true;
    let mut write = |row: &Row| write_row(out, shape, std::mem::take(&mut is_first), row);
    for (run, found) in runs {
        let run = line(*run, found, zone);
        let of = || Row { host: run.host, recorder: run.recorder, run: Some(&run.run), ..Row::default() };
        write(&Row {
            what: "run",
            sound: Some(run.sound),
            segments: Some(run.segments as u64),
            first_segment: Some(run.first_segment),
            bytes: Some(run.bytes),
            blocks: Some(run.blocks),
            events: Some(run.events),
            first: run.first.as_deref(),
            last: run.last.as_deref(),
            count: Some(run.count),
            ..of()
        })?;
        for finding in &run.findings {
            write(&Row {
                what: "finding",
                segments: Some(u64::from(finding.segments)),
                blocks: Some(u64::from(finding.blocks)),
                segment: Some(&finding.segment),
                offset: Some(finding.offset),
                length: Some(finding.length),
                cause: Some(&finding.cause),
                harmless: Some(finding.harmless),
                from: finding.from.as_deref(),
                to: finding.to.as_deref(),
                ..of()
            })?;
        }
        for loss in &run.losses {
            write(&Row {
                what: "loss",
                count: Some(loss.count),
                cause: Some(loss.cause),
                from: Some(&loss.from),
                to: Some(&loss.to),
                source: Some(loss.source),
                ..of()
            })?;
        }
    }
    for log in unreadable {
        let reason = Some(log.reason.to_string());
        write(&Row { what: "unreadable", path: Some(log.path.to_string_lossy()), reason, ..Row::default() })?;
    }
    Ok(())
}

/// Writes the findings as text.
pub fn text(
    out: &mut Out,
    runs: &[(u128, Findings)],
    unreadable: &[Unreadable],
    zone: &Zone,
) -> io::Result<()> {
    for (run, found) in runs {
        let run = line(*run, found, zone);
        let unknown = "(not known)";
        let [host, first, last] =
            [run.host, run.first.as_deref(), run.last.as_deref()].map(|text| text.unwrap_or(unknown));
        let word = if run.sound { "sound" } else { "DAMAGED" };
        line!(
            out,
            "{word:<9} {host}, {first} to {last}: {}, {}, {}",
            counted(run.segments as u64, "segment"),
            counted(run.blocks, "block"),
            counted(run.events, "event")
        )?;
        if run.first_segment > 0 {
            let segments = match run.first_segment {
                1 => "segment was".to_owned(),
                count => format!("{count} segments were"),
            };
            // what can't be read does not say which segment it is
            let or = if unreadable.is_empty() { "" } else { ", or can't be read" };
            line!(out, "  note    its first {segments} deleted to stay under the cap, or not copied{or}")?;
        }
        found.list.iter().zip(&run.findings).try_for_each(|(found, line)| one(out, found, line))?;
        let listed = run.findings.len() as u64;
        if listed < run.count {
            line!(out, "  ...     and {} more", run.count - listed)?;
        }
        for LossLine { source, count, cause, from, to } in &run.losses {
            let count = how_many(*count, source);
            line!(out, "  loss    {source}: {count}, from {from} to {to}: {cause}")?;
        }
    }
    for Unreadable { reason, .. } in unreadable {
        line!(out, "UNREADABLE {reason}")?;
    }
    Ok(())
}

fn one(out: &mut Out, found: &Finding, line: &FindingLine) -> io::Result<()> {
    let word = if line.harmless { "note  " } else { "damage" };
    if let Fault::Unreadable(reason) = &found.fault {
        add!(out, "  {word}  {reason}"); // names the file
    } else {
        add!(out, "  {word}  {}", line.segment);
        if line.length > 0 {
            add!(out, " at byte {}, {} bytes", line.offset, line.length);
        }
        add!(out, ": {}", line.cause);
        if found.fault == Fault::Unfinished {
            add!(out, "; other commands read up to there, say so, and have exit code 1");
        }
    }
    match (line.segments, line.blocks) {
        (0, 0) => {}
        (0, blocks) => add!(out, "; {} gone", counted(blocks.into(), "block")),
        (segments, _) => add!(out, "; {} gone", counted(segments.into(), "segment")),
    }
    match (&line.from, &line.to) {
        (Some(from), Some(to)) => add!(out, "; from {from} to {to}"),
        (Some(from), None) => add!(out, "; after {from}"),
        (None, Some(to)) => add!(out, "; before {to}"),
        (None, None) => {}
    }
    line!(out)
}
