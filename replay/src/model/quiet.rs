//! A part of a run in which most records did not change, or changed without mattering later: what a look at the bare facts
//! tells of each record there, without chains.
//!
//! A record that completed only with one value, was read only with that value, and that no put touched, had that value all
//! the time: of the lines that [`History`](crate::answers::values::History) would give of it, all would repeat the value.

use super::base_types::always_forwards;
use super::run::Run;
use crate::reading::scan::{Blocks, Choose, Part, Scan};
use iocrec_log::event::{Fact, RecordId, Value};
use iocrec_log::reader::{About, Cause, Choice, SegmentFile, Shape};
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// Records remembered, and names of channels; with more, nothing is told.
const MAX_RECORDS: usize = 500_000;

/// A part of a run, by its monotonic clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Its beginning.
    pub from: u64,
    /// Its end.
    pub to: u64,
}

/// Gives, of the blocks in these spans, only what the recorder noted, and snapshots: no hits.
pub fn without_hits(spans: Vec<Span>) -> Arc<Choose> {
    Arc::new(move |about: &About| {
        if !spans.iter().any(|span| about.first >= span.from && about.last <= span.to) {
            return Choice::Read;
        }
        match about.classes {
            None => Choice::Read,
            Some(classes) if about.defines || classes.notes() || classes.snapshots() || classes.others() => {
                Choice::Only(Arc::new(|_| false))
            }
            Some(_) => Choice::Pass,
        }
    })
}

/// What the facts in a span show of a record.
#[derive(Clone, Debug, Default)]
pub struct Shown {
    /// The only value; `None` if there were several, or none was known.
    pub value: Option<Value>,
    /// Whether the last of them was read by the recorder.
    pub was_read: bool,
    /// Whether it began to process and was not seen to complete: at the end, or before it did so once more, unless it was
    /// disabled then.
    pub is_open: bool,
    /// Whether it was seen to complete.
    pub has_completed: bool,
    /// Whether it has begun and not completed yet.
    has_begun: bool,
    last: u64,
}

/// What is told of a span.
#[derive(Debug, Default)]
pub struct Quiet {
    /// By record.
    pub records: HashMap<String, Shown>,
    /// Records that a put may have touched.
    pub touched: HashSet<String>,
}

/// What is gathered while blocks are unpacked, in other threads.
#[derive(Default)]
struct Gathered {
    /// Records with several values: nothing more is wanted of them.
    changing: RwLock<Arc<HashSet<RecordId>>>,
    touched: Mutex<HashSet<RecordId>>,
    hopeless: AtomicBool,
}

impl Gathered {
    fn choice(self: &Arc<Self>, span: Span, until: u64, kinds: [u16; 4], about: &About) -> Choice {
        if about.last < span.from || about.first > until {
            return if about.defines { Choice::Only(Arc::new(|_| false)) } else { Choice::Pass };
        }
        if about.classes.is_none() {
            self.hopeless.store(true, Ordering::Relaxed);
            return Choice::Pass;
        }
        let changing = Arc::clone(&self.changing.read().unwrap_or_else(PoisonError::into_inner));
        let gathered = Arc::clone(self);
        let is_in = about.first <= span.to;
        Choice::Only(Arc::new(move |shape: &Shape| {
            if let (Some(_), Some(record)) = (shape.put, shape.record) {
                gathered.touched.lock().unwrap_or_else(PoisonError::into_inner).insert(record);
            }
            shape.circuit.is_some()
                || is_in
                    && kinds.contains(&shape.kind)
                    && shape.record.is_none_or(|record| !changing.contains(&record))
        }))
    }
}

impl Quiet {
    /// Looks at a span of a run, and at puts after it until a time, too. `None` if nothing can be told.
    pub fn look(
        files: &[SegmentFile],
        span: Span,
        until: u64,
        wants: impl Fn(&str) -> bool,
    ) -> Option<Quiet> {
        let gathered = Arc::new(Gathered::default());
        let kind = |name| {
            let number = Fact::KINDS.iter().position(|kind| kind.name == name)?;
            u16::try_from(number).ok()
        };
        let kinds = [kind("process")?, kind("complete")?, kind("routine")?, kind("inspected")?];
        let of_block = Arc::clone(&gathered);
        let choose: Arc<Choose> = Arc::new(move |about: &About| of_block.choice(span, until, kinds, about));
        let run = Run::new(None);
        let mut seen: HashMap<RecordId, Shown> = HashMap::new();
        let mut quiet = Quiet::default();
        for part in Scan::new(files, Blocks::All).choosing(choose) {
            let block = match part {
                Part::Segment(_) => continue,
                Part::Block(block) => block,
                Part::Damage(damage) if damage.cause == Cause::Cut => continue,
                Part::Damage(_) | Part::Unreadable(_) => return None,
            };
            let mut changing = Vec::new();
            for event in &block.events {
                let (record, value, was_read) = match &event.fact {
                    Fact::PactCheck(check) => {
                        let is_over = !check.active && !check.disabled;
                        if is_over && event.time >= span.from && event.time <= span.to {
                            seen.entry(check.record).or_default().is_open = true;
                        }
                        continue;
                    }
                    Fact::Process(hit) | Fact::RsetProcess(hit) => (hit.record, None, false),
                    Fact::Complete(hit) => (hit.record, Some(&hit.value), false),
                    Fact::Snapshot(snapshot) => (snapshot.record, Some(&snapshot.value), true),
                    // A log may not say since when its processing is recorded.
                    Fact::Ioc(ioc) if !ioc.not_probed.is_empty() => return None,
                    Fact::CaPut(put) => {
                        quiet.put(&run, put.channel);
                        continue;
                    }
                    Fact::PvaPut(put) => {
                        quiet.put(&run, put.channel);
                        continue;
                    }
                    // its records may be asked for below
                    Fact::IocEnd(_) => continue,
                    fact => {
                        run.apply(event.time, fact);
                        continue;
                    }
                };
                if event.time < span.from || event.time > span.to {
                    continue;
                }
                let shown = seen.entry(record).or_default();
                let Some(value) = value else {
                    let is_routine = matches!(event.fact, Fact::RsetProcess(_));
                    let goes_on = std::mem::replace(&mut shown.has_begun, true);
                    let of_base = || {
                        let context = run.context();
                        context.record(record).is_some_and(|record| always_forwards(record.rtype))
                    };
                    shown.is_open |= is_routine || goes_on && !of_base();
                    continue;
                };
                shown.has_begun &= was_read;
                shown.has_completed |= !was_read;
                let is_first = shown.last == 0;
                if event.time >= shown.last {
                    (shown.last, shown.was_read) = (event.time, was_read);
                }
                if is_first && *value != Value::Unknown {
                    shown.value = Some(value.clone());
                } else if shown.value.as_ref().is_none_or(|known| known != value) {
                    shown.value = None;
                    changing.push(record);
                }
            }
            if gathered.hopeless.load(Ordering::Relaxed) || quiet.is_full() || seen.len() > MAX_RECORDS {
                return None;
            }
            if !changing.is_empty() {
                let mut known = gathered.changing.write().unwrap_or_else(PoisonError::into_inner);
                Arc::make_mut(&mut known).extend(changing);
            }
        }
        let touched = std::mem::take(&mut *gathered.touched.lock().unwrap_or_else(PoisonError::into_inner));
        let context = run.context();
        let is_touched = |name: &str| quiet.touched.contains(name);
        let aliased = context
            .records()
            .filter(|record| context.aliases(record.id).iter().any(|alias| is_touched(alias)));
        let aliased: Vec<String> = aliased.map(|record| record.name.to_owned()).collect();
        quiet.touched.extend(aliased);
        for record in touched {
            quiet.touched.insert(context.record(record)?.name.to_owned());
        }
        for (record, mut shown) in seen {
            shown.is_open |= shown.has_begun;
            let name = context.record(record)?.name;
            if wants(name) {
                // Numbers can be of one record, one after the other.
                let known = quiet.records.entry(name.to_owned()).or_insert_with(|| shown.clone());
                if known.value != shown.value {
                    known.value = None;
                }
                known.is_open |= shown.is_open;
                known.has_completed |= shown.has_completed;
            }
        }
        quiet.touched.retain(|name| wants(name));
        Some(quiet)
    }

    /// A client put to a channel, by its name.
    fn put(&mut self, run: &Run, channel: u32) {
        if let Some(channel) = run.context().channel(channel) {
            let name = epics::Pv::new(&channel.pv).record;
            if !self.touched.contains(name) {
                self.touched.insert(name.to_owned());
            }
        }
    }

    fn is_full(&self) -> bool {
        self.touched.len() > MAX_RECORDS
    }
}
