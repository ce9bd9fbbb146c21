//! A run's log in figures: host, IOCs, time span, counts, and what is missing.

use crate::answers::attached::{Attached, Gap, Spans};
use crate::answers::snapshots::{Ends, Snapshots};
use crate::names::{linkage_name, source_name, tier_name};
use crate::notices::{Notice, Notices};
use crate::pods::ContainerKeys;
use crate::reading::runs::budget;
use crate::reading::runs::set::{SetLater, Step, Steps};
use crate::reading::scan::{Blocks, Part, Scan};
use crate::time::Zone;
use iocrec_log::context::Context;
use iocrec_log::event::{Class, Container, Event, Fact, Host, Ioc, Loss, SnapshotEnd};
use iocrec_log::reader::{About, Block, Choice, SegmentFile, Shape};
use iocrec_log::writer::Pin;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

/// Marks and kinds of loss kept of a run; a bound for hostile logs.
const MAX_LISTED: usize = 1000;
/// Bytes of their texts; likewise.
const MAX_TEXT: usize = 64 << 20;
/// Records remembered so as to be counted once, about 50 MB; likewise.
const MAX_NUMBERS: usize = 2_000_000;

/// One recorder's run on one host.
#[derive(Serialize)]
pub struct RunSummary {
    pub(crate) host: Option<String>,
    pub(crate) kernel: Option<String>,
    pub(crate) arch: Option<String>,
    pub(crate) recorder: Option<String>,
    pub(crate) tier: Option<&'static str>,
    pub(crate) refused: Vec<Refused>,
    /// Nanoseconds between the first and the last fact that is not a definition.
    #[serde(skip)]
    pub(crate) length: Option<u64>,
    pub(crate) first: Option<String>,
    pub(crate) last: Option<String>,
    /// The time when the machine's clock was set, if it was not set at the beginning: earlier times are computed back
    /// from it.
    pub(crate) clock_set: Option<String>,
    /// Seconds by which the clock was taken to be ahead (`--clock-offset`): all times are moved back by them.
    pub(crate) clock_offset_s: f64,
    /// Times when the clock was set while it was recorded.
    pub(crate) clock_steps: Vec<ClockStep>,
    /// Resolution of times in nanoseconds; they were rounded down to multiples of it.
    pub(crate) time_step: u64,
    pub(crate) segments: usize,
    pub(crate) bytes: u64,
    /// Number in the run of the first segment present, which is the number of missing segments before it.
    pub(crate) first_segment: u32,
    pub(crate) missing_segments: u64,
    pub(crate) damage: Vec<String>,
    pub(crate) iocs: Vec<IocInfo>,
    pub(crate) facts: BTreeMap<&'static str, u64>,
    pub(crate) losses: Vec<LossInfo>,
    /// Times during which IOCs ran unseen although the recorder ran.
    pub(crate) gaps: Vec<Gap>,
    pub(crate) thinning: Option<ThinningInfo>,
    pub(crate) thinned: Option<ThinnedInfo>,
    pub(crate) marks: Vec<MarkInfo>,
    /// Segments present that are kept when older ones are deleted.
    pub(crate) pinned_segments: usize,
    pub(crate) pinned_bytes: u64,
    pub(crate) pins: Vec<PinInfo>,
    /// Segments no longer kept, because pins exceeded their share.
    pub(crate) unpinned_segments: u64,
}

#[derive(Serialize)]
pub(crate) struct Refused {
    pub(crate) tier: &'static str,
    pub(crate) reason: String,
}

#[derive(Serialize)]
pub(crate) struct IocInfo {
    pub(crate) name: String,
    pub(crate) pid: u32,
    pub(crate) base_version: String,
    pub(crate) exe: String,
    pub(crate) linkage: &'static str,
    pub(crate) ca_ports: Vec<u16>,
    pub(crate) records: usize,
    pub(crate) not_probed: Vec<String>,
    pub(crate) ended: bool,
    /// Times during which its hits were recorded.
    pub(crate) attached: Vec<Attached>,
    /// Snapshots of its records.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) snapshots: Option<Snapshots>,
    /// The container that it runs in, if it is known to run in one.
    pub(crate) container: Option<ContainerKeys>,
    pub(crate) pva_ports: Vec<u16>,
}

#[derive(Serialize)]
pub(crate) struct LossInfo {
    pub(crate) source: &'static str,
    pub(crate) count: u64,
    pub(crate) cause: String,
    pub(crate) first: String,
    pub(crate) last: String,
}

/// Chains left out on purpose.
#[derive(Serialize)]
pub(crate) struct ThinnedInfo {
    /// Number of chains.
    pub(crate) chains: u64,
    /// Number of records that began them.
    pub(crate) records: usize,
    pub(crate) first: String,
    pub(crate) last: String,
}

/// Number of a record's chains that are kept, by the latest setting.
#[derive(Serialize)]
pub(crate) struct ThinningInfo {
    pub(crate) chains: u32,
    /// Period for that number, in nanoseconds.
    pub(crate) window: u64,
    pub(crate) cause: String,
}

#[derive(Serialize)]
pub(crate) struct MarkInfo {
    pub(crate) time: String,
    pub(crate) text: String,
}

/// A clock that was set.
#[derive(Serialize)]
pub(crate) struct ClockStep {
    /// What it would have shown.
    pub(crate) from: String,
    /// What it showed.
    pub(crate) to: String,
    /// Seconds by which it was set forward; negative: back.
    pub(crate) by_s: f64,
}

/// A span of time whose segments are kept.
#[derive(Serialize)]
pub(crate) struct PinInfo {
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) cause: String,
}

impl RunSummary {
    /// Reads a run's segments; times are in `zone`. Reports parts that can't be read and counts them as missing.
    pub fn read(files: &[SegmentFile], notices: &Notices, zone: &Zone) -> RunSummary {
        RunSummary::read_with(files, notices, zone, true)
    }

    /// The same; without the index, every block is unpacked, which must come to the same.
    pub fn read_with(files: &[SegmentFile], notices: &Notices, zone: &Zone, use_index: bool) -> RunSummary {
        let mut builder = Builder { context: Context::sharing(&budget(files)), ..Builder::default() };
        if let Some(set) = SetLater::find(files) {
            set.apply_to(&mut builder.context);
            builder.clock_set = Some(set.wall);
        }
        for file in files {
            builder.bytes += file.size;
            builder.clock_offset = file.ahead;
            if file.pin() != Pin::No {
                builder.pinned_segments += 1;
                builder.pinned_bytes += file.size;
            }
        }
        let mut scan = Scan::new(files, Blocks::All);
        if use_index {
            scan = scan.choosing(Arc::new(choose));
        }
        while let Some(part) = scan.next() {
            match part {
                Part::Segment(header) => builder.segment(header.sequence, header.time_step()),
                Part::Unreadable(error) => notices.report(&Notice::of_segment(error)),
                Part::Block(block) => {
                    notices.cut_before(&scan);
                    let lacks = scan.is_cut_before() && builder.damage.len() < MAX_LISTED;
                    builder.damage.extend(scan.file().filter(|_| lacks).map(|file| {
                        format!("blocks are missing at the end of the segment before {}", file.path.display())
                    }));
                    // Each segment but the first repeats known definitions.
                    let is_new = builder.is_first || !block.keyframe;
                    block.events.iter().for_each(|event| builder.event(event, is_new));
                    builder.unread(&block);
                }
                Part::Damage(damage) => {
                    let Some(file) = scan.file() else { continue };
                    if builder.damage.len() < MAX_LISTED {
                        builder.damage.push(format!("{} {damage}", file.path.display()));
                    }
                    notices.damage(&file.path, damage);
                }
            }
        }
        notices.definitions_left_out(builder.context.refused());
        builder.finish(files.len(), zone)
    }
}

/// Number of the fact [`SnapshotEnd`].
const SNAPSHOT_END: u16 = {
    let end = SnapshotEnd { ioc: 0, since: 0, taken: 0, unread: 0, left: 0, properties_left: 0 };
    Fact::SnapshotEnd(end).number()
};

/// Only definitions, notes and ends of snapshots are read. Hits count, and so does the time of the first and the last of
/// them.
fn choose(about: &About) -> Choice {
    let only_hits = |about: &About| {
        let counts = about.contents.as_ref().map(|contents| &contents.counts);
        about.classes.is_some_and(|classes| !classes.definitions() && !classes.notes())
            && counts.is_some_and(|counts| counts.iter().all(|(number, _)| *number != SNAPSHOT_END))
    };
    if only_hits(about) {
        Choice::Pass
    } else {
        Choice::Only(Arc::new(|_: &Shape| false))
    }
}

/// The results so far.
#[derive(Default)]
struct Builder {
    context: Context,
    /// Counts by number of the fact.
    counts: BTreeMap<u16, u64>,
    bytes: u64,
    clock_set: Option<i64>,
    clock_offset: i64,
    steps: Steps,
    clock_steps: Vec<Step>,
    time_step: u64,
    first_segment: u32,
    /// Whether the current segment is the first that could be opened.
    is_first: bool,
    /// Number that the next segment should have.
    expected: Option<u32>,
    missing: u64,
    damage: Vec<String>,
    iocs: BTreeMap<u32, Ioc>,
    /// The containers of these; they count even if the IOC has ended.
    containers: BTreeMap<u32, Box<Container>>,
    /// Records of each IOC; they count even if the IOC has ended.
    records: HashMap<u32, HashSet<u32>>,
    numbers: usize,
    /// Bytes of the texts kept.
    text: usize,
    ended: HashSet<u32>,
    spans: Spans,
    snapshots: Ends,
    losses: BTreeMap<(&'static str, String), Lost>,
    marks: Vec<(i64, String)>,
    thinned: ChainsLeftOut,
    pinned_segments: usize,
    pinned_bytes: u64,
    pins: Vec<(i64, i64, String)>,
    unpinned: u64,
    span: Option<(i64, i64)>,
}

/// Chains left out.
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

impl Builder {
    /// Begins a segment.
    fn segment(&mut self, sequence: u32, time_step: u64) {
        self.time_step = time_step;
        // The first may well be missing: the recorder deletes the oldest.
        self.missing += u64::from(sequence.saturating_sub(self.expected.unwrap_or(sequence)));
        self.is_first = self.expected.is_none();
        if self.is_first {
            self.first_segment = sequence;
        }
        self.expected = Some(sequence.saturating_add(1));
    }

    /// Counts what was not read of a block. (Should the wall clock be set back within it, the log's first or last time
    /// may be off by less than the block's length.)
    fn unread(&mut self, block: &Block) {
        let about = block.about.as_ref().filter(|_| block.passed);
        let listed = about.and_then(|about| Some((about, about.contents.as_ref()?)));
        let (counts, span) = match listed {
            Some((about, contents)) => (&contents.counts, Some((about.first, about.last))),
            None => (&block.left_out.counts, block.left_out.span),
        };
        for (number, count) in counts {
            *self.counts.entry(*number).or_default() += u64::from(*count);
        }
        let walls =
            span.and_then(|(first, last)| Some([self.context.wall(first)?, self.context.wall(last)?]));
        walls.into_iter().flatten().for_each(|wall| self.happened(wall));
    }

    /// Something happened at this time.
    fn happened(&mut self, wall: i64) {
        let (first, last) = self.span.unwrap_or((wall, wall));
        self.span = Some((first.min(wall), last.max(wall)));
    }

    /// Takes an event. `is_new`: it is not a repeated definition.
    fn event(&mut self, event: &Event, is_new: bool) {
        self.context.apply(event.time, &event.fact);
        let number = event.fact.number();
        if is_new {
            *self.counts.entry(number).or_default() += 1;
        }
        let Some(wall) = self.context.wall(event.time) else { return };
        self.spans.take(event.time, &event.fact, &self.context);
        self.snapshots.take(wall, &event.fact);
        match &event.fact {
            Fact::Clock(clock) if self.clock_steps.len() < MAX_LISTED => {
                self.clock_steps.extend(self.steps.take(event.time, clock.wall));
            }
            Fact::Ioc(ioc) if self.iocs.len() < MAX_LISTED && self.has_room(ioc_text(ioc)) => {
                self.iocs.insert(ioc.id, Ioc::clone(ioc));
            }
            Fact::Container(container)
                if self.containers.get(&container.ioc) != Some(container)
                    && self.containers.len() < MAX_LISTED
                    && self.has_room(container_text(container)) =>
            {
                self.containers.insert(container.ioc, container.clone());
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
            self.happened(wall);
        }
    }

    /// Counts more bytes of text as kept, unless that exceeds the limit.
    fn has_room(&mut self, bytes: usize) -> bool {
        let fits = self.text + bytes <= MAX_TEXT;
        self.text += if fits { bytes } else { 0 };
        fits
    }

    fn loss(&mut self, loss: &Loss, wall: i64) {
        let key = (source_name(loss.source), loss.cause.clone());
        let since = self.context.wall(loss.since).map_or(wall, |since| since.min(wall));
        let known = self.losses.contains_key(&key);
        if known || self.losses.len() < MAX_LISTED && self.has_room(loss.cause.len()) {
            let lost = self.losses.entry(key).or_insert(Lost { count: 0, first: since, last: wall });
            lost.count = lost.count.saturating_add(loss.count);
            lost.first = lost.first.min(since);
            lost.last = lost.last.max(wall);
        }
    }

    fn finish(self, segments: usize, zone: &Zone) -> RunSummary {
        let host = self.context.host();
        // of a machine whose packets were read from a file nothing is known
        let known =
            |text: fn(&Host) -> &String| host.map(|host| text(host).clone()).filter(|text| !text.is_empty());
        let tier = self.context.tier();
        let refused = tier.map(|tier| tier.refused.as_slice()).unwrap_or_default().iter();
        let ioc = |ioc: Ioc| IocInfo {
            records: self.records.get(&ioc.id).map_or(0, HashSet::len),
            ended: self.ended.contains(&ioc.id),
            attached: self.spans.attached(ioc.id, zone),
            snapshots: self.snapshots.of(ioc.id, zone),
            container: self
                .containers
                .get(&ioc.id)
                .map(|container| ContainerKeys::of(container, host.map(|host| host.name.as_str()))),
            linkage: linkage_name(ioc.linkage),
            name: ioc.name,
            pid: ioc.pid,
            base_version: ioc.base_version,
            exe: ioc.exe,
            ca_ports: ioc.ca_ports,
            pva_ports: ioc.pva_ports,
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
        RunSummary {
            gaps,
            host: known(|host| &host.name),
            kernel: known(|host| &host.kernel),
            arch: known(|host| &host.arch),
            recorder: host.map(|host| host.recorder.clone()),
            tier: tier.map(|tier| tier_name(tier.tier)),
            refused: refused
                .map(|(tier, reason)| Refused { tier: tier_name(*tier), reason: reason.clone() })
                .collect(),
            length: self.span.map(|(first, last)| u64::try_from(last.saturating_sub(first)).unwrap_or(0)),
            first: self.span.map(|(first, _)| zone.format(first, 9)),
            last: self.span.map(|(_, last)| zone.format(last, 9)),
            clock_set: self.clock_set.map(|wall| zone.format(wall, 3)),
            clock_offset_s: self.clock_offset as f64 / crate::time::SECOND as f64,
            clock_steps: self
                .clock_steps
                .iter()
                .map(|step| ClockStep {
                    from: zone.format(step.from, 3),
                    to: zone.format(step.to, 3),
                    by_s: step.to.saturating_sub(step.from) as f64 / crate::time::SECOND as f64,
                })
                .collect(),
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

/// Bytes of a container's texts.
fn container_text(container: &Container) -> usize {
    container.id.len() + container.pod.len() + container.host_name.len()
}

/// Bytes of an IOC's texts.
fn ioc_text(ioc: &Ioc) -> usize {
    let pairs = ioc.environment.iter().map(|(name, value)| name.len() + value.len());
    let words = ioc.command.iter().chain(&ioc.not_probed).map(String::len);
    ioc.name.len() + ioc.exe.len() + ioc.cwd.len() + pairs.chain(words).sum::<usize>()
}
