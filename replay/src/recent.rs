//! The last times that a record was touched, found from the end of the logs by what blocks say of themselves.

use crate::filter::Filter;
use crate::logs::Logs;
use crate::model::replay::Replay;
use crate::model::selection::Interest;
use crate::model::source::Source;
use crate::reading::runs::budget;
use crate::reading::runs::course::Course;
use crate::reading::runs::set::SetLater;
use crate::reading::scan::{abouts, is_end, Blocks, Part, Scan, MARGIN};
use crate::time::SECOND;
use iocrec_log::context::Context;
use iocrec_log::event::Fact;
use iocrec_log::reader::{About, SegmentFile};
use std::collections::HashSet;

/// Blocks that concern the record and are read: the last change is mostly in one of them.
const BLOCKS: usize = 3;
/// Time before them that is read, too, in which what they show can have begun: messages, requests and callbacks wait for
/// 10 s at most.
const BEFORE: i64 = 13 * SECOND as i64;
/// Time after which the recorder has noted what went unseen: losses within a flush and a turn of its loop, a
/// detachment within its checks once a second.
pub const NOTED: i64 = 30 * SECOND as i64;

/// The part of the logs that is read for a question about the latest state of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recent {
    /// Its beginning, wall-clock time.
    pub since: i64,
    /// The time from which the beginnings of chains are in it, except for those that took longer than requests may.
    pub sure: i64,
    /// Its end; no block that begins later concerns the record.
    pub until: i64,
    /// The end of what the recorder noted and read that matters to it: that of the time asked for, and some time more, in which
    /// it has noted what went unseen.
    pub noted: i64,
}

impl Recent {
    /// The latest part that concerns a record, in the filter's time range. `None` if everything must be read.
    pub fn find(logs: &Logs, record: &str, filter: &Filter) -> Option<Recent> {
        if logs.courses().iter().any(Course::is_set_back) {
            return None; // the end by the clock is not the end
        }
        let runs = logs.runs().iter();
        // Of several runs the one that touched it last: the others changed it earlier.
        let found = runs.map(|files| of_run(files, record, filter)).collect::<Option<Vec<_>>>()?;
        let (first, last) = found.into_iter().flatten().max_by_key(|(_, last)| *last)?;
        let since = first.saturating_sub(BEFORE);
        (since > filter.since.unwrap_or(i64::MIN)).then_some(Recent {
            since,
            sure: first.saturating_sub(SECOND as i64),
            until: last.saturating_add(2 * MARGIN).min(filter.until.unwrap_or(i64::MAX)),
            noted: filter.until.map_or(i64::MAX, |until| until.saturating_add(NOTED)),
        })
    }
}

impl Logs {
    /// The chains that began in a [recent](Recent) part of the logs and may concern the record; the first ones may lack
    /// their beginnings.
    pub fn replay_recent(&self, recent: &Recent, record: &str) -> Replay {
        let budget = budget(self.runs().iter().flatten());
        let source = |files: &Vec<SegmentFile>| {
            let source = Source::recent(files, recent.since, &budget, self.notices());
            source.asked_for(Interest::Records(vec![record.to_owned()]))
        };
        Replay::new(self.acquainted(self.runs().iter().map(source)), self.until(recent.until), self.notices())
    }

    /// What the recorder noted and read from the end of that part on. Of what else happened hardly anything is unpacked, so
    /// chains lack parts.
    pub(crate) fn replay_noted(&self, recent: &Recent) -> Replay {
        let budget = budget(self.runs().iter().flatten());
        let since = recent.until.saturating_sub(MARGIN);
        let source =
            |files: &Vec<SegmentFile>| Source::recent(files, since, &budget, self.notices()).only_noted();
        Replay::new(self.acquainted(self.runs().iter().map(source)), self.until(recent.noted), self.notices())
    }
}

/// Wall-clock times of the first and last event of the run's last blocks that may concern the record; `Some(None)` if
/// there are none, and `None` if that can't be told.
fn of_run(files: &[SegmentFile], record: &str, filter: &Filter) -> Option<Option<(i64, i64)>> {
    if SetLater::find(files).is_some() {
        return None;
    }
    let mut numbers = HashSet::new();
    let mut span: Option<(i64, i64)> = None;
    let mut found = 0;
    for file in files.iter().rev() {
        let mut context = Context::default();
        for part in Scan::one(file, Blocks::Definitions).ok()? {
            let block = match part {
                Part::Block(block) => block,
                Part::Damage(damage) if is_end(&damage) => break,
                _ => return None,
            };
            for event in &block.events {
                match &event.fact {
                    Fact::Record(of) if of.name == record => _ = numbers.insert(of.id),
                    Fact::Clock(_) => context.apply(event.time, &event.fact),
                    _ => {}
                }
            }
        }
        let abouts = abouts(file)?;
        for about in abouts.iter().rev().filter(|about| may_concern(about, &numbers)) {
            let (first, last) = (context.wall(about.first)?, context.wall(about.last)?);
            if filter.until.is_some_and(|until| first >= until) {
                continue;
            }
            span = Some(span.map_or((first, last), |(before, after)| (before.min(first), after.max(last))));
            found += 1;
            if found == BLOCKS {
                return Some(span);
            }
        }
    }
    Some(span)
}

/// Whether the block may show a value of one of these records.
fn may_concern(about: &About, records: &HashSet<u32>) -> bool {
    if about.keyframe {
        return false;
    }
    match (about.classes, &about.contents) {
        (_, Some(contents)) => records.iter().any(|record| contents.may_hold_record(*record)),
        (Some(classes), None) => {
            classes.processing() || classes.puts() || classes.writes() || classes.others()
        }
        (None, None) => true,
    }
}
