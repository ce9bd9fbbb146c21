//! What is in the logs, and what is missing.

use super::attached::{Attached, Gap, Spans};
use crate::input;
use crate::model::clock::SetLater;
use crate::notices::Notices;
use crate::out::{add, line, Out};
use crate::time::{duration, Zone};
use iocrec_log::context::Context;
use iocrec_log::event::{Class, Event, Fact, Ioc, Linkage, Loss, LossSource, Tier};
use iocrec_log::reader::SegmentFile;
use iocrec_log::writer::Pin;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;

/// Marks and kinds of loss that are kept of a run; a bound for hostile logs.
const MAX_LISTED: usize = 1000;
/// Bytes of their texts, the same.
const MAX_TEXT: usize = 64 << 20;
/// Records that are told apart to be counted, about 50 MB; the same.
const MAX_NUMBERS: usize = 2_000_000;

/// One recorder's run on one host.
#[derive(Serialize)]
pub struct RunInfo {
    host: Option<String>,
    kernel: Option<String>,
    arch: Option<String>,
    recorder: Option<String>,
    tier: Option<&'static str>,
    refused: Vec<Refused>,
    /// Nanoseconds between the first and last fact that is no definition.
    #[serde(skip)]
    length: Option<u64>,
    first: Option<String>,
    last: Option<String>,
    /// When the machine's clock was set, where it was not at the beginning: times before are reckoned back from it.
    clock_set: Option<String>,
    /// Nanoseconds that times were rounded down to multiples of.
    time_step: u64,
    segments: usize,
    bytes: u64,
    /// Number in the run of the first segment that is here: so many before it are not.
    first_segment: u32,
    missing_segments: u64,
    damage: Vec<String>,
    iocs: Vec<IocInfo>,
    facts: BTreeMap<&'static str, u64>,
    losses: Vec<LossInfo>,
    /// When IOCs ran unseen though the recorder ran.
    gaps: Vec<Gap>,
    thinning: Option<ThinningInfo>,
    thinned: Option<ThinnedInfo>,
    marks: Vec<MarkInfo>,
    /// Segments here that are kept when older ones are deleted.
    pinned_segments: usize,
    pinned_bytes: u64,
    pins: Vec<PinInfo>,
    /// Segments that are kept no longer, since pins had more than their share.
    unpinned_segments: u64,
}

#[derive(Serialize)]
struct Refused {
    tier: &'static str,
    reason: String,
}

#[derive(Serialize)]
struct IocInfo {
    name: String,
    pid: u32,
    base_version: String,
    exe: String,
    linkage: &'static str,
    ca_ports: Vec<u16>,
    records: usize,
    not_probed: Vec<String>,
    ended: bool,
    /// From when to when its hits were recorded.
    attached: Vec<Attached>,
}

#[derive(Serialize)]
struct LossInfo {
    source: &'static str,
    count: u64,
    cause: String,
    first: String,
    last: String,
}

/// Chains that were left out on purpose.
#[derive(Serialize)]
struct ThinnedInfo {
    /// How many.
    chains: u64,
    /// Records that they began with.
    records: usize,
    first: String,
    last: String,
}

/// How many chains of a record were kept, as it was last.
#[derive(Serialize)]
struct ThinningInfo {
    chains: u32,
    /// In so long, nanoseconds.
    window: u64,
    cause: String,
}

#[derive(Serialize)]
struct MarkInfo {
    time: String,
    text: String,
}

/// A span of time whose segments are kept.
#[derive(Serialize)]
struct PinInfo {
    from: String,
    to: String,
    cause: String,
}

/// Looks through a run's segments.
pub fn read(files: &[SegmentFile], notices: &mut Notices, zone: &Zone) -> RunInfo {
    let mut looking = Looking { context: Context::sharing(&input::budget(files)), ..Looking::default() };
    if let Some(set) = SetLater::find(files) {
        set.tell(&mut looking.context);
        looking.clock_set = Some(set.wall);
    }
    let mut expected = None;
    for file in files {
        looking.bytes += file.size;
        if file.pin() != Pin::No {
            looking.pinned_segments += 1;
            looking.pinned_bytes += file.size;
        }
        let mut segment = match file.open() {
            Ok(segment) => segment,
            Err(error) => {
                notices.failure(&error);
                continue;
            }
        };
        let sequence = segment.header().sequence;
        looking.time_step = segment.header().time_step();
        // The first may well be gone: the recorder deletes the oldest.
        looking.missing += u64::from(sequence.saturating_sub(expected.unwrap_or(sequence)));
        let first = expected.is_none();
        if first {
            looking.first_segment = sequence;
        }
        expected = Some(sequence.saturating_add(1));
        while let Some(block) = segment.next_block() {
            match block {
                // Each segment but the first repeats what has been told.
                Ok(block) => {
                    let news = first || !block.keyframe;
                    block.events.iter().for_each(|event| looking.event(event, news));
                }
                Err(damage) => {
                    notices.damage(&file.path, &damage);
                    if looking.damage.len() < MAX_LISTED {
                        looking.damage.push(format!("{} {damage}", file.path.display()));
                    }
                }
            }
        }
    }
    notices.refused(looking.context.refused());
    looking.result(files.len(), zone)
}

/// What was found so far.
#[derive(Default)]
struct Looking {
    context: Context,
    /// By the fact's number.
    counts: BTreeMap<u16, u64>,
    bytes: u64,
    clock_set: Option<i64>,
    time_step: u64,
    first_segment: u32,
    missing: u64,
    damage: Vec<String>,
    iocs: BTreeMap<u32, Ioc>,
    /// Records of each IOC; they are counted even when the IOC has ended.
    records: HashMap<u32, HashSet<u32>>,
    numbers: usize,
    /// Bytes of the texts in what is kept.
    text: usize,
    ended: HashSet<u32>,
    spans: Spans,
    losses: BTreeMap<(&'static str, String), Lost>,
    marks: Vec<(i64, String)>,
    thinned: ChainsLeftOut,
    pinned_segments: usize,
    pinned_bytes: u64,
    pins: Vec<(i64, i64, String)>,
    unpinned: u64,
    span: Option<(i64, i64)>,
}

/// Chains that were left out.
#[derive(Default)]
struct ChainsLeftOut {
    chains: u64,
    records: HashSet<u32>,
    span: Option<(i64, i64)>,
}

/// Losses of one source and cause.
struct Lost {
    count: u64,
    first: i64,
    last: i64,
}

impl Looking {
    fn event(&mut self, event: &Event, news: bool) {
        self.context.apply(event.time, &event.fact);
        let number = event.fact.number();
        if news {
            *self.counts.entry(number).or_default() += 1;
        }
        let Some(wall) = self.context.wall(event.time) else { return };
        self.spans.take(event.time, &event.fact, &self.context);
        match &event.fact {
            Fact::Ioc(ioc) if self.iocs.len() < MAX_LISTED && self.has_room(ioc_text(ioc)) => {
                self.iocs.insert(ioc.id, Ioc::clone(ioc));
            }
            Fact::IocEnd(end) if self.iocs.contains_key(&end.ioc) => {
                self.ended.insert(end.ioc);
            }
            Fact::Record(record) if self.numbers < MAX_NUMBERS => {
                let new = self.records.entry(record.ioc).or_default().insert(record.id);
                self.numbers += usize::from(new);
            }
            Fact::Loss(loss) => self.loss(loss, wall),
            Fact::ChainsLeftOut(thinned) => {
                let since = self.context.wall(thinned.since).unwrap_or(wall);
                let (first, last) = self.thinned.span.unwrap_or((since, wall));
                self.thinned.span = Some((first.min(since), last.max(wall)));
                self.thinned.chains = self.thinned.chains.saturating_add(thinned.count);
                if self.thinned.records.len() < MAX_NUMBERS {
                    self.thinned.records.insert(thinned.record);
                }
            }
            Fact::Pinned(pinned) if self.pins.len() < MAX_LISTED && self.has_room(pinned.cause.len()) => {
                let at = |time| self.context.wall(time).unwrap_or(wall);
                self.pins.push((at(pinned.from), at(pinned.to), pinned.cause.clone()));
            }
            Fact::Unpinned(unpinned) => {
                self.unpinned = self.unpinned.saturating_add(unpinned.segments.into());
            }
            Fact::Mark(text) if self.marks.len() < MAX_LISTED && self.has_room(text.len()) => {
                self.marks.push((wall, text.clone()));
            }
            _ => {}
        }
        if matches!(event.fact.class(), Class::Hit | Class::Note) {
            let (first, last) = self.span.unwrap_or((wall, wall));
            self.span = Some((first.min(wall), last.max(wall)));
        }
    }

    /// Notes that so many more bytes of text are kept, if they may be.
    fn has_room(&mut self, bytes: usize) -> bool {
        let fits = self.text + bytes <= MAX_TEXT;
        self.text += if fits { bytes } else { 0 };
        fits
    }

    fn loss(&mut self, loss: &Loss, wall: i64) {
        let key = (source_name(loss.source), loss.cause.clone());
        let since = self.context.wall(loss.since).unwrap_or(wall);
        let known = self.losses.contains_key(&key);
        if known || self.losses.len() < MAX_LISTED && self.has_room(loss.cause.len()) {
            let lost = self.losses.entry(key).or_insert(Lost { count: 0, first: since, last: wall });
            lost.count = lost.count.saturating_add(loss.count);
            lost.first = lost.first.min(since);
            lost.last = lost.last.max(wall);
        }
    }

    fn result(self, segments: usize, zone: &Zone) -> RunInfo {
        let host = self.context.host();
        let tier = self.context.tier();
        let refused = tier.map(|tier| tier.refused.as_slice()).unwrap_or_default().iter();
        let ioc = |ioc: Ioc| IocInfo {
            records: self.records.get(&ioc.id).map_or(0, HashSet::len),
            ended: self.ended.contains(&ioc.id),
            attached: self.spans.attached(ioc.id, zone),
            linkage: linkage_name(ioc.linkage),
            name: ioc.name,
            pid: ioc.pid,
            base_version: ioc.base_version,
            exe: ioc.exe,
            ca_ports: ioc.ca_ports,
            not_probed: ioc.not_probed,
        };
        let loss = |((source, cause), lost): ((&'static str, String), Lost)| LossInfo {
            source,
            cause,
            count: lost.count,
            first: zone.format(lost.first, 3),
            last: zone.format(lost.last, 3),
        };
        let gaps = self.iocs.values().flat_map(|ioc| self.spans.gaps(ioc.id, &ioc.name, ioc.pid, zone));
        let gaps: Vec<Gap> = gaps.take(MAX_LISTED).collect();
        RunInfo {
            gaps,
            host: host.map(|host| host.name.clone()),
            kernel: host.map(|host| host.kernel.clone()),
            arch: host.map(|host| host.arch.clone()),
            recorder: host.map(|host| host.recorder.clone()),
            tier: tier.map(|tier| tier_name(tier.tier)),
            refused: refused
                .map(|(tier, reason)| Refused { tier: tier_name(*tier), reason: reason.clone() })
                .collect(),
            length: self.span.map(|(first, last)| u64::try_from(last.saturating_sub(first)).unwrap_or(0)),
            first: self.span.map(|(first, _)| zone.format(first, 9)),
            last: self.span.map(|(_, last)| zone.format(last, 9)),
            clock_set: self.clock_set.map(|wall| zone.format(wall, 3)),
            time_step: self.time_step.max(1),
            segments,
            bytes: self.bytes,
            first_segment: self.first_segment,
            missing_segments: self.missing,
            damage: self.damage,
            iocs: self.iocs.into_values().map(ioc).collect(),
            facts: Fact::KINDS
                .iter()
                .filter_map(|kind| Some((kind.name, *self.counts.get(&kind.number)?)))
                .collect(),
            losses: self.losses.into_iter().map(loss).collect(),
            thinning: self.context.chain_sampling().map(|thinning| ThinningInfo {
                chains: thinning.chains,
                window: thinning.window,
                cause: thinning.cause.clone(),
            }),
            thinned: self.thinned.span.map(|(first, last)| ThinnedInfo {
                chains: self.thinned.chains,
                records: self.thinned.records.len(),
                first: zone.format(first, 3),
                last: zone.format(last, 3),
            }),
            marks: self
                .marks
                .into_iter()
                .map(|(time, text)| MarkInfo { time: zone.format(time, 3), text })
                .collect(),
            pinned_segments: self.pinned_segments,
            pinned_bytes: self.pinned_bytes,
            pins: self
                .pins
                .into_iter()
                .map(|(from, to, cause)| PinInfo {
                    from: zone.format(from, 0),
                    to: zone.format(to, 0),
                    cause,
                })
                .collect(),
            unpinned_segments: self.unpinned,
        }
    }
}

/// Writes what was found, for people.
pub fn text(out: &mut Out, runs: &[RunInfo]) -> io::Result<()> {
    for (number, run) in runs.iter().enumerate() {
        if number > 0 {
            line!(out)?;
        }
        one(out, run)?;
    }
    Ok(())
}

fn one(out: &mut Out, run: &RunInfo) -> io::Result<()> {
    let unknown = "(not told)";
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
        line!(out, "clock     was not set before {set}: earlier times are reckoned back from it")?;
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
        add!(out, "IOC       {}  pid {}  Base {}  ", ioc.name, ioc.pid, or(&ioc.base_version, unknown));
        add!(out, "{} ({})  CA port {}  ", ioc.exe, ioc.linkage, or(&ports.join(", "), "unknown"));
        line!(out, "{} records seen{}", ioc.records, if ioc.ended { "  ended" } else { "" })?;
        for probe in &ioc.not_probed {
            line!(out, "          not probed: {probe}")?;
        }
        for attached in &ioc.attached {
            line!(out, "          attached {}", attached.words())?;
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
        line!(out, "loss      {source}: {count} from {first} to {last}: {cause}")?;
    }
    for gap in &run.gaps {
        line!(out, "gap       {} (pid {}) unseen from {}: {}", gap.ioc, gap.pid, gap.words(), gap.cause)?;
    }
    if let Some(ThinningInfo { chains, window, cause }) = &run.thinning {
        match chains {
            0 => line!(out, "thinning  all chains are kept ({cause})")?,
            _ => line!(
                out,
                "thinning  {chains} {} in {} kept of those that a record begins ({cause})",
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

/// Bytes of an IOC's texts.
fn ioc_text(ioc: &Ioc) -> usize {
    let pairs = ioc.environment.iter().map(|(name, value)| name.len() + value.len());
    let words = ioc.command.iter().chain(&ioc.not_probed).map(String::len);
    ioc.name.len() + ioc.exe.len() + ioc.cwd.len() + pairs.chain(words).sum::<usize>()
}

fn or<'a>(text: &'a str, other: &'a str) -> &'a str {
    if text.is_empty() {
        other
    } else {
        text
    }
}

/// Writes what was found as one JSON object.
pub fn json(out: &mut Out, runs: &[RunInfo]) -> io::Result<()> {
    #[derive(Serialize)]
    struct All<'a> {
        runs: &'a [RunInfo],
    }
    out.pretty_json(&All { runs })
}

fn tier_name(tier: Tier) -> &'static str {
    match tier {
        Tier::Ring => "ring",
        Tier::Perf => "perf",
        Tier::Packet => "packet",
    }
}

/// Where an IOC's record code is, in a word.
pub fn linkage_name(linkage: Linkage) -> &'static str {
    match linkage {
        Linkage::Shared => "shared",
        Linkage::Static => "static",
        Linkage::Foreign => "foreign",
    }
}

/// What was lost, in a word.
pub fn source_name(source: LossSource) -> &'static str {
    match source {
        LossSource::Hits => "hits",
        LossSource::Packets => "packets",
        LossSource::Stream => "stream",
        LossSource::Names => "names",
        LossSource::Storage => "storage",
    }
}
