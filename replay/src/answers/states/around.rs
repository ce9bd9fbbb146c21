//! States without reading all of the logs before their time.
//!
//! Of each run, a span in its middle is left out of the history. A field's state is what the whole history would give if
//! its record
//!
//! - had no values in the span; or
//! - had one value all along, the same as before the span, and was read or processed again after it; or
//! - changed after the span: what it was before then no longer matters. So it is forgotten at the end of the span.
//!
//! All others, and those that a put touched, are taken from a history of their own, which has everything of them. If
//! something went unseen in a span, in doubt or not, nothing is left out.

use super::fold;
use super::set_by_processing::is_set_by_processing;
use super::state::{Key, State};
use crate::answers::values::{has_record, Entry};
use crate::filter::Filter;
use crate::logs::Logs;
use crate::model::quiet::{Quiet, Shown, Span};
use crate::model::value::same;
use crate::reading::runs::set::SetLater;
use crate::reading::scan::abouts;
use crate::time::SECOND;
use iocrec_log::event::Value;
use iocrec_log::format::SegmentHeader;
use iocrec_log::reader::SegmentFile;
use std::collections::{HashMap, HashSet};

/// The beginning of each run that is read: the recorder finds its IOCs then, and reads their records' values.
const BEGINNING: u64 = 15 * SECOND;
/// Time before the one asked for in which values that change often have changed.
const LATELY: u64 = 15 * SECOND;
/// Time before that which is read, too: what the values show can have begun in it.
const BEFORE: u64 = 10 * SECOND;
/// Time before the span in which puts count, too: until a chain is given out, its outcome can be learned.
const PENDING: u64 = 100 * SECOND;
/// Time after the one asked for until which blocks hold what was before it.
const AFTER: u64 = 3 * SECOND;
/// A shorter span is not worth a look of its own.
const WORTH: u64 = 60 * SECOND;
/// Records that are read on their own; with more, everything is read.
const MAX_OWN: usize = 3000;

/// What is left out of a run.
struct Hole {
    span: Span,
    /// The time that is asked for, or the end of the run.
    now: u64,
    quiet: Quiet,
    /// The same as wall-clock time: from the beginning of the span to where values count again.
    wall: (i64, i64),
    /// Whether its beginning has been passed.
    has_begun: bool,
}

/// The states that `make` begins, the latest first; `None` if everything must be read.
pub fn states(logs: &Logs, filter: &Filter, make: &dyn Fn() -> Vec<State>) -> Option<Vec<State>> {
    // Few records are read on their own anyway.
    if !logs.uses_index() || filter.only_records().is_some() || filter.since.is_some() {
        return None;
    }
    let (count, earliest) = (make().len(), make().last()?.time());
    let holes: Vec<Option<Hole>> = logs.runs().iter().map(|files| hole(files, filter, earliest)).collect();
    if holes.iter().all(Option::is_none) {
        return None;
    }
    // What comes after the only time matters to puts before it, whose records are read on their own.
    let spans = |hole: &Hole| match count {
        1 => vec![hole.span, Span { from: hole.now.saturating_add(AFTER), to: u64::MAX }],
        _ => vec![hole.span],
    };
    let spans = holes.iter().map(|hole| hole.as_ref().map(spans).unwrap_or_default()).collect();
    let quiet = logs.without_notices();
    let (history, runs) = quiet.history_without(filter, spans);
    let mut watch = Watch::new(holes, runs, filter);
    let states = fold(history, make(), |entry, states| watch.look(entry, states))?;
    if !quiet.is_complete() || states.iter().any(State::is_full) {
        return None;
    }
    let own = watch.own(states.last()?)?;
    let mut states = states;
    if !own.is_empty() {
        let names: Vec<String> = own.iter().cloned().collect();
        let history = quiet.history_of(filter, names);
        let of_own = fold(history, make(), |_, _| true)?;
        for (state, of_own) in states.iter_mut().zip(of_own) {
            state.replace(&own, of_own);
        }
    }
    Some(states)
}

/// What can be left out of a run; `None` if nothing.
fn hole(files: &[SegmentFile], filter: &Filter, time: i64) -> Option<Hole> {
    if SetLater::find(files).is_some() {
        return None;
    }
    let headers: Vec<SegmentHeader> = files.iter().map(|file| file.header).collect::<Option<_>>()?;
    let first = headers.first()?;
    let zero = |header: &SegmentHeader| i128::from(header.created_wall) - i128::from(header.created);
    let is_even = |header: &&SegmentHeader| (zero(header) - zero(first)).unsigned_abs() < u128::from(SECOND);
    if !headers.iter().all(|header| is_even(&header)) {
        return None; // the clock was set
    }
    let now = u64::try_from(i128::from(time) - zero(first)).ok()?;
    // The run may have ended long before.
    let end = abouts(files.last()?)?.iter().map(|about| about.last).max()?;
    let now = now.min(end);
    let (from, counted) = (first.created.checked_add(BEGINNING)?, now.checked_sub(LATELY)?);
    let to = counted.checked_sub(BEFORE)?;
    if to < from.checked_add(WORTH)? {
        return None;
    }
    let needed = headers.iter().take_while(|header| header.created <= now).count();
    let files = files.get(..needed)?;
    let looked = Span { from: from.saturating_sub(PENDING), to: counted };
    let quiet = Quiet::look(files, looked, now, |name| has_record(filter, name))?;
    let wall = |time: u64| i64::try_from(zero(first) + i128::from(time)).ok();
    Some(Hole { span: Span { from, to }, now, quiet, wall: (wall(from)?, wall(counted)?), has_begun: false })
}

/// Watches the history go by.
struct Watch<'a> {
    filter: &'a Filter,
    /// What was left out of each run, and the number of the run in entries.
    holes: Vec<(Hole, usize)>,
    /// The holes that are yet to be left behind.
    ahead: usize,
    /// The holes whose beginning is yet to be passed.
    not_begun: usize,
    /// Fields that were forgotten, and when they were seen first since.
    forgotten: HashMap<Key, Option<i64>>,
    /// Records that must be seen after a time.
    must_show: HashMap<String, i64>,
    /// Records to be read on their own.
    own: HashSet<String>,
}

impl<'a> Watch<'a> {
    fn new(holes: Vec<Option<Hole>>, runs: Vec<usize>, filter: &'a Filter) -> Self {
        let mut holes: Vec<(Hole, usize)> =
            holes.into_iter().zip(runs).filter_map(|(hole, run)| Some((hole?, run))).collect();
        // the last to be left behind comes first
        holes.sort_by_key(|(hole, _)| std::cmp::Reverse(hole.wall.1));
        let own = holes.iter().flat_map(|(hole, _)| hole.quiet.touched.iter().cloned()).collect();
        let ahead = holes.len();
        let not_begun = ahead;
        Watch { filter, holes, ahead, not_begun, forgotten: HashMap::new(), must_show: HashMap::new(), own }
    }

    /// Looks at the next entry, before the states take it. Whether the states can still be told so.
    fn look(&mut self, entry: &Entry, states: &mut [State]) -> bool {
        let time = entry.time();
        if let Entry::Value(line) = entry {
            if let Some(unseen) = &line.unseen {
                let concerns = |hole: &Hole| unseen.since <= hole.wall.1 && unseen.time >= hole.wall.0;
                return unseen.record.is_none()
                    && unseen.kind != crate::model::unseen::Kind::LeftOut
                    && !self.holes.iter().any(|(hole, run)| *run == unseen.run && concerns(hole));
            }
        }
        if self.not_begun > 0 {
            for (hole, _) in self.holes.iter_mut().filter(|(hole, _)| !hole.has_begun && time >= hole.wall.0)
            {
                (hole.has_begun, self.not_begun) = (true, self.not_begun - 1);
                // what had begun before the span completed in it
                let is_done = |shown: &Shown| !shown.is_open || shown.value.is_none();
                let done = hole.quiet.records.iter().filter(|(_, shown)| is_done(shown));
                let done = done.map(|(name, _)| name.as_str());
                states.iter_mut().for_each(|state| state.have_completed(done.clone()));
            }
        }
        while let Some((hole, _)) = self.ahead.checked_sub(1).and_then(|next| self.holes.get(next)) {
            if time < hole.wall.1 {
                break;
            }
            let Some(earliest) = states.last() else { return false };
            let (forget, must_show, own) = behind(hole, earliest, self.filter);
            for key in forget {
                states.iter_mut().for_each(|state| state.forget(&key));
                self.forgotten.insert(key, None);
            }
            self.must_show.extend(must_show);
            self.own.extend(own);
            self.ahead -= 1;
        }
        if self.own.len() > MAX_OWN {
            return false;
        }
        if let Entry::Value(line) = entry {
            if !self.forgotten.is_empty() {
                let key = line.key();
                if let Some(first) = self.forgotten.get_mut(&key) {
                    first.get_or_insert(line.time);
                }
            }
        }
        true
    }

    /// The records to be read on their own, by the state at the earliest time; `None` if too many.
    fn own(mut self, earliest: &State) -> Option<HashSet<String>> {
        if self.ahead > 0 {
            return None;
        }
        for (key, first) in &self.forgotten {
            let seen = earliest.seen(key);
            // it has changed since it was forgotten
            let is_told = seen.zip(*first).is_some_and(|(seen, first)| seen.first > first);
            if !is_told {
                self.own.insert(key.1.to_string());
            }
        }
        let mut last: HashMap<&str, i64> = HashMap::new();
        for ((_, record, field), seen) in earliest.fields().filter(|_| !self.must_show.is_empty()) {
            if &**field == "VAL" && self.must_show.contains_key(&**record) {
                let last = last.entry(record).or_insert(i64::MAX);
                *last = (*last).min(seen.time);
            }
        }
        for (name, since) in self.must_show {
            if last.get(name.as_str()).is_none_or(|last| *last < since) {
                self.own.insert(name);
            }
        }
        (self.own.len() <= MAX_OWN).then_some(self.own)
    }
}

/// What becomes of the fields known before a span, at its end: those to be forgotten, records that must be seen again, and
/// records to be read on their own.
fn behind(hole: &Hole, state: &State, filter: &Filter) -> (Vec<Key>, Vec<(String, i64)>, Vec<String>) {
    let (mut forget, mut must_show, mut own) = (Vec::new(), Vec::new(), Vec::new());
    let mut known: HashSet<&str> = HashSet::new();
    for (key, seen) in state.fields() {
        let (_, record, field) = key;
        let Some((name, shown)) = hole.quiet.records.get_key_value(&**record) else { continue };
        if &**field != "VAL" {
            // only puts show it, but processing may have set it
            if is_set_by_processing(field) {
                own.push(name.clone());
            }
            continue;
        }
        let is_new = known.insert(name);
        let value = &seen.value();
        match &shown.value {
            // It may be in several processes: then it is the one or the other's.
            _ if !is_new => own.push(name.clone()),
            Some(_) if shown.is_open => own.push(name.clone()),
            // it may have had the value before it was read
            Some(_) if shown.has_completed && seen.first >= hole.wall.0 => own.push(name.clone()),
            Some(only) if only == value && same(only, value) == Some(true) => {
                if !shown.was_read {
                    must_show.push((name.clone(), hole.wall.1));
                }
            }
            Some(_) if *value != Value::Unknown => own.push(name.clone()),
            _ => forget.push(key.clone()),
        }
    }
    for name in hole.quiet.records.keys() {
        if !known.contains(name.as_str()) && filter.field(name, "VAL") {
            own.push(name.clone());
        }
    }
    (forget, must_show, own)
}
