//! What logs say beside their chains: IOCs and their ends, marks, and everything that is missing.
//!
//! IOCs, their ends and gaps are definitions, which are read beforehand; losses and marks come with the chains.

use crate::answers::inventory::Inventory;
use crate::model::asides::{Aside, What};
use crate::names::{is_lost, things, tier_name};
use crate::reading::runs::budget;
use crate::reading::runs::set::{created, SetLater, Step, Steps};
use crate::reading::scan::{Blocks, Part, Scan};
use crate::Logs;
use iocrec_log::event::{Event, Fact, Tier};
use iocrec_log::reader::SegmentFile;

/// Losses, gaps and marks kept of a run; a bound for hostile logs.
const MAX_LISTED: usize = 500;
/// Losses of one cause that are closer than this are one.
const NEAR: i64 = 2_000_000_000;

/// Something that is missing from a run's log, between two wall-clock times.
#[derive(Clone, Debug, PartialEq)]
pub struct Missing {
    /// Begin.
    pub from: i64,
    /// End.
    pub to: i64,
    /// Number of things lost; 0 for a gap, in which nothing at all was recorded.
    pub count: u64,
    /// Things that were lost: hits, packets, bytes...
    pub what: &'static str,
    /// The reason.
    pub cause: String,
    /// The only IOC of which it is missing, by its number in the run; `None`: of everything.
    pub ioc: Option<u32>,
    /// The host whose IOCs it is about, if it is not one IOC.
    pub host: Option<String>,
}

/// Losses and marks.
#[derive(Default)]
pub struct Notes {
    /// Losses, in order of time.
    pub losses: Vec<Missing>,
    /// Marks.
    pub marks: Vec<(i64, String)>,
    /// Number of chains left out on purpose.
    pub sampled: u64,
    /// Times at which a part of the log is missing.
    pub holes: Vec<i64>,
    /// Losses and marks that had no room.
    pub not_listed: u64,
}

impl Notes {
    /// Takes a fact beside the chains.
    pub fn take(&mut self, aside: &Aside) {
        let wall = aside.time;
        match &aside.what {
            What::Fact(Fact::Loss(loss)) if is_lost(loss) => {
                let from = aside.run.wall(loss.since).min(wall);
                let what = things(loss);
                let has_room = self.losses.len() < MAX_LISTED;
                let near = self.losses.iter_mut().rev().take(8).find(|other| {
                    other.what == what && other.cause == loss.cause && from.saturating_sub(other.to) < NEAR
                });
                match near {
                    Some(other) => {
                        other.count = other.count.saturating_add(loss.count);
                        other.from = other.from.min(from);
                        other.to = other.to.max(wall);
                    }
                    None if has_room => {
                        let cause: String = loss.cause.chars().take(MAX_LISTED).collect();
                        self.losses.push(Missing {
                            from,
                            to: wall,
                            count: loss.count,
                            what,
                            cause,
                            ioc: None,
                            host: None,
                        });
                    }
                    None => self.not_listed += 1,
                }
            }
            What::Fact(Fact::Mark(text)) if self.marks.len() < MAX_LISTED => {
                self.marks.push((wall, text.chars().take(MAX_LISTED).collect()));
            }
            What::Fact(Fact::Mark(_)) => self.not_listed += 1,
            What::Fact(Fact::ChainsLeftOut(left_out)) => {
                self.sampled = self.sampled.saturating_add(left_out.count);
            }
            What::Fact(_) | What::Said(_) => {}
            What::Missing if self.holes.len() < MAX_LISTED => self.holes.push(wall),
            What::Missing => self.not_listed += 1,
        }
    }
}

/// One recorder's run.
#[derive(Default)]
pub struct RunNotes {
    /// Definitions, but for records and channels, and ends of IOCs.
    pub inventory: Inventory,
    /// Times that nothing was recorded in, in order of time.
    pub gaps: Vec<Missing>,
    /// Wall-clock time when its first segment present was begun.
    pub begin: Option<i64>,
    /// Wall-clock time of its last event.
    pub end: Option<i64>,
    /// Number of segments and bytes.
    pub segments: (usize, u64),
    /// Number of segments missing between those present.
    pub missing_segments: u64,
    /// Number in the run of the first segment present.
    pub first_segment: u32,
    /// Resolution of times, nanoseconds.
    pub time_step: u64,
    /// Number of definitions left out.
    pub refused: u64,
    /// Wall-clock time when the machine's clock was set, if that was later than the start.
    pub clock_set: Option<i64>,
    /// The steps by which the clock was set back while it was recorded.
    pub set_back: Vec<Step>,
    expected: Option<u32>,
}

/// Reads the definitions of logs. Parts that can't be read are not reported: reading the chains reports them.
pub fn read(logs: &Logs) -> Vec<RunNotes> {
    let read = |files: &Vec<SegmentFile>| RunNotes { end: logs.end_of(files), ..RunNotes::read(files) };
    logs.runs().iter().map(read).collect()
}

impl RunNotes {
    fn read(files: &[SegmentFile]) -> RunNotes {
        let mut notes = RunNotes { inventory: Inventory::sharing(&budget(files)), ..RunNotes::default() };
        notes.segments = (files.len(), files.iter().map(|file| file.size).sum());
        // What is told of records comes with the chains: their names are not held as well, but those that have no room are
        // counted.
        let mut whole = Inventory::sharing(&budget(files));
        let set = SetLater::find(files);
        if let Some(set) = set {
            notes.inventory.set_later(set);
            notes.clock_set = Some(set.wall);
        }
        let mut steps = Steps::default();
        for part in Scan::new(files, Blocks::Definitions) {
            match part {
                Part::Segment(header) => {
                    notes.time_step = header.time_step().max(1);
                    notes.begin.get_or_insert(created(&header, set));
                    match notes.expected {
                        None => notes.first_segment = header.sequence,
                        Some(expected) => {
                            notes.missing_segments += u64::from(header.sequence.saturating_sub(expected));
                        }
                    }
                    notes.expected = Some(header.sequence.saturating_add(1));
                }
                Part::Block(block) => {
                    for event in &block.events {
                        whole.take(event.time, &event.fact);
                        if !matches!(event.fact, Fact::Record(_) | Fact::Channel(_)) {
                            notes.inventory.take(event.time, &event.fact);
                        }
                        notes.clock(&mut steps, event);
                    }
                }
                Part::Damage(_) | Part::Unreadable(_) => {}
            }
        }
        notes.refused = whole.context().refused();
        notes
    }

    /// Notes if the clock was set back.
    fn clock(&mut self, steps: &mut Steps, event: &Event) {
        let Fact::Clock(clock) = &event.fact else { return };
        let step = steps.take(event.time, clock.wall).filter(|step| step.back().is_some());
        self.set_back.extend(step.filter(|_| self.set_back.len() < MAX_LISTED));
    }

    fn gap(&mut self, from: i64, to: i64, cause: &str, ioc: Option<u32>) {
        if from < to && self.gaps.len() < MAX_LISTED {
            let cause = cause.chars().take(MAX_LISTED).collect();
            self.gaps.push(Missing { from, to, count: 0, what: "time", cause, ioc, host: None });
        }
    }

    /// Adds the times during which IOCs ran unseen. `end`: the last time in the logs.
    pub fn add_unseen(&mut self, end: i64) {
        let iocs: Vec<u32> = self.inventory.context().iocs().map(|ioc| ioc.id).collect();
        let mut found = Vec::new();
        for id in iocs {
            for gap in self.inventory.spans().unseen(id) {
                if let (Some(from), Some(to)) = (gap.from, gap.to.or(Some(end))) {
                    found.push((from, to, gap.cause.to_owned(), id));
                }
            }
        }
        for (from, to, cause, id) in found {
            self.gap(from, to, &cause, Some(id));
        }
    }

    /// Name of the host; empty if unknown.
    pub fn host(&self) -> &str {
        self.inventory.host().unwrap_or_default()
    }

    /// The tier, and why it was not a better one.
    pub fn tier(&self) -> Option<(&'static str, bool, String)> {
        let tier = self.inventory.context().tier()?;
        let refused: Vec<String> =
            tier.refused.iter().map(|(tier, reason)| format!("{}: {reason}", tier_name(*tier))).collect();
        Some((tier_name(tier.tier), tier.tier != Tier::Ring, refused.join("; ")))
    }
}
