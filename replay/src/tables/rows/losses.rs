//! Rows of losses: what was lost, what is missing, what was left out, when IOCs ran unseen, and when no recorder ran.

use super::super::cells::{known, Cell};
use super::super::export::{At, Export};
use super::super::schema::Of;
use crate::answers::attached::Spans;
use crate::filter::Filter;
use crate::logs::Logs;
use crate::model::run::record_name;
use crate::names::source_name;
use crate::reading::runs::budget;
use crate::reading::runs::set::SetLater;
use crate::reading::scan::{Blocks, Part, Scan};
use iocrec_log::context::Context;
use iocrec_log::event::{Fact, Ioc, LossSource};
use iocrec_log::reader::{About, Cause, Choice, SegmentFile, Shape};
use std::collections::BTreeMap;
use std::sync::Arc;

/// IOCs whose times are kept; a bound for hostile logs.
const MAX_IOCS: usize = 10_000;

/// Why nothing is seen of an IOC at first; its packets may be.
const PLACING: &str = "probes were not in place yet";

/// Something that the log does not say.
struct Lost {
    since: Option<i64>,
    time: i64,
    kind: &'static str,
    source: Option<&'static str>,
    count: Option<u64>,
    ioc: String,
    record: Option<String>,
    cause: String,
    open: bool,
}

/// Adds the losses of each run.
pub fn add(export: &mut Export, logs: &Logs, filter: &Filter) {
    for (number, files) in logs.runs().iter().enumerate() {
        let end = logs.end_of(files);
        let mut run = Run::new(files);
        let mut lost = Vec::new();
        run.read(files, logs.uses_index(), &mut |found| lost.push(found));
        let host = run.context.host().map(|host| host.name.clone()).unwrap_or_default();
        let begin = files.first().and_then(|file| file.header).map(|header| header.created_wall);
        run.unseen(begin, end, &mut |found| lost.push(found));
        lost.sort_by_key(|lost| lost.time);
        for found in lost {
            let begun = filter.until.is_none_or(|until| found.since.unwrap_or(found.time) < until);
            let is_over = filter.since.is_some_and(|since| found.time < since);
            let is_named = found.record.as_ref().is_none_or(|record| filter.field(record, "VAL"));
            if begun && !is_over && is_named && filter.place(&host, &found.ioc) {
                push(export, number, &host, &found);
            }
        }
    }
    // what begins before the filter's time and ends in it is told, as of other losses
    let of_hosts = Filter { since: filter.since, host: filter.host.clone(), ..Filter::default() };
    for between in logs.between(&of_hosts) {
        let begun = filter.until.is_none_or(|until| between.since < until);
        if begun && filter.place(&between.host, "") {
            let kind = if between.is_missing { "missing" } else { "unrecorded" };
            let cause = if between.is_missing { "" } else { between.cause() };
            let found =
                Lost { since: Some(between.since), cause: cause.to_owned(), ..Lost::of(kind, between.time) };
            push(export, between.run, &between.host, &found);
        }
    }
}

fn push(export: &mut Export, run: usize, host: &str, found: &Lost) {
    let at = At { run: Some(run), time: found.time, host, ioc: &found.ioc };
    // 0 is not known, but of storage none
    let is_known = |count: &u64| *count > 0 || found.source == Some(source_name(LossSource::Storage));
    export.add(Of::Losses, at, |row| {
        row.push(found.since.into());
        row.push(found.since.into());
        row.push(found.kind.into());
        row.push(found.source.into());
        row.push(found.count.filter(is_known).map_or(Cell::Null, Cell::from));
        row.push(found.record.as_deref().into());
        row.push(known(&found.cause));
        row.push(found.open.into());
    });
}

/// A run being read.
struct Run {
    context: Context,
    spans: Spans,
    iocs: BTreeMap<u32, Ioc>,
    /// Number that the next segment should have.
    expected: Option<u32>,
    /// The time of the last event, and whether something is missing after it.
    last: u64,
    is_missing: bool,
    /// Whether that counts where nothing more comes: a file that ends within a block may be that of a recorder that goes on.
    is_told: bool,
}

/// Only definitions and notes are read; hits only tell the time.
fn choose(about: &About) -> Choice {
    match about.classes.is_some_and(|classes| !classes.definitions() && !classes.notes()) {
        true => Choice::Pass,
        false => Choice::Only(Arc::new(|_: &Shape| false)),
    }
}

impl Run {
    fn new(files: &[SegmentFile]) -> Run {
        let mut context = Context::sharing(&budget(files));
        SetLater::find(files).inspect(|set| set.apply_to(&mut context));
        let (spans, iocs) = (Spans::default(), BTreeMap::new());
        Run { context, spans, iocs, expected: None, last: 0, is_missing: false, is_told: false }
    }

    fn read(&mut self, files: &[SegmentFile], use_index: bool, each: &mut dyn FnMut(Lost)) {
        let mut scan = Scan::new(files, Blocks::All);
        if use_index {
            scan.choose(Arc::new(choose));
        }
        while let Some(part) = scan.next() {
            match part {
                Part::Segment(header) => {
                    // The first may well be missing: the recorder deletes the oldest.
                    if self.expected.is_some_and(|expected| header.sequence > expected) {
                        (self.is_missing, self.is_told) = (true, true);
                    }
                    self.expected = header.sequence.checked_add(1);
                }
                // the other copy was read, or the block itself
                Part::Damage(damage) if matches!(damage.cause, Cause::Header | Cause::Repeated) => {}
                Part::Damage(damage) => self.lacks(damage.cause != Cause::Cut),
                Part::Unreadable(_) => self.lacks(true),
                Part::Block(block) => {
                    if scan.is_cut_before() {
                        self.lacks(true);
                    }
                    // something was recorded then, though it was not read
                    let passed = block.about.as_ref().filter(|_| block.passed);
                    let unread = passed.map(|about| (about.first, about.last)).or(block.left_out.span);
                    let times = block.events.iter().map(|event| event.time);
                    let earliest = times.chain(unread.map(|(first, _)| first)).min();
                    let begins = block.events.first().map(|event| event.time);
                    let before = earliest.filter(|first| begins.is_none_or(|begins| *first < begins));
                    if let Some(first) = before.filter(|_| !block.keyframe) {
                        self.happened(first, first, each);
                    }
                    for event in &block.events {
                        self.context.apply(event.time, &event.fact);
                        if !block.keyframe {
                            self.happened(event.time, event.time, each);
                        }
                        self.fact(event.time, &event.fact, each);
                    }
                    if let Some((_, last)) = unread.filter(|_| !block.keyframe) {
                        self.happened(last, last, each);
                    }
                }
            }
        }
        if let Some(last) = self.context.wall(self.last).filter(|_| self.is_missing && self.is_told) {
            each(Lost { since: Some(last), open: true, ..Lost::of("missing", last) });
        }
    }

    /// Something is missing after the last event, if there was one.
    fn lacks(&mut self, is_told: bool) {
        self.is_missing |= self.last > 0;
        self.is_told |= is_told && self.last > 0;
    }

    /// Something happened from `first` to `last`.
    fn happened(&mut self, first: u64, last: u64, each: &mut dyn FnMut(Lost)) {
        self.is_told = false;
        if std::mem::take(&mut self.is_missing) {
            if let Some(time) = self.context.wall(first) {
                let since = self.context.wall(self.last).map(|since| since.min(time));
                each(Lost { since, ..Lost::of("missing", time) });
            }
        }
        self.last = self.last.max(last);
    }

    fn fact(&mut self, time: u64, fact: &Fact, each: &mut dyn FnMut(Lost)) {
        self.spans.take(time, fact, &self.context);
        let Some(wall) = self.context.wall(time) else { return };
        let since = |since| self.context.wall(since).map(|since| since.min(wall));
        match fact {
            Fact::Ioc(ioc) if self.iocs.len() < MAX_IOCS => {
                self.iocs.insert(ioc.id, Ioc::clone(ioc));
            }
            Fact::Loss(loss) => each(Lost {
                since: since(loss.since),
                source: Some(source_name(loss.source)),
                count: Some(loss.count),
                cause: loss.cause.clone(),
                ..Lost::of("lost", wall)
            }),
            Fact::ChainsLeftOut(left) => {
                let record = self.context.record(left.record);
                let ioc = record.and_then(|record| self.context.ioc(record.ioc));
                each(Lost {
                    since: since(left.since),
                    count: Some(left.count),
                    ioc: ioc.map(|ioc| ioc.name.clone()).unwrap_or_default(),
                    record: Some(record_name(&self.context, left.record)),
                    ..Lost::of("left out", wall)
                });
            }
            _ => {}
        }
    }

    /// The times during which IOCs ran unseen; those that last on are noted at `end`. An IOC that ran before the recorder
    /// did is unseen from `begin` until its probes are in place.
    fn unseen(&self, begin: Option<i64>, end: Option<i64>, each: &mut dyn FnMut(Lost)) {
        for ioc in self.iocs.values() {
            let all = self.spans.unseen(ioc.id);
            let first = self.spans.recorded(ioc.id).next().and_then(|(from, _)| from);
            let is_told = all.iter().any(|unseen| unseen.to == first);
            let since = begin.max(self.context.wall(ioc.start));
            if let (Some(from), Some(since)) = (first.filter(|_| !is_told), since) {
                if since < from {
                    let (ioc, cause) = (ioc.name.clone(), PLACING.to_owned());
                    each(Lost { since: Some(since), ioc, cause, ..Lost::of("unrecorded", from) });
                }
            }
            for unseen in all {
                let Some(time) = unseen.to.or(end).or(unseen.from) else { continue };
                let open = unseen.to.is_none();
                let cause = unseen.cause.to_owned();
                let of = Lost::of("unrecorded", time);
                each(Lost { since: unseen.from, ioc: ioc.name.clone(), cause, open, ..of });
            }
        }
    }
}

impl Lost {
    fn of(kind: &'static str, time: i64) -> Lost {
        Lost {
            since: None,
            time,
            kind,
            source: None,
            count: None,
            ioc: String::new(),
            record: None,
            cause: String::new(),
            open: false,
        }
    }
}
