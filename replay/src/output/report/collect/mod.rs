//! Collects what the page shows, in one pass over the chains.
//!
//! Memory is bounded by the limits that the modules name, whatever the log holds. What had no room is counted.

pub mod alarms;
mod bins;
pub mod causes;
pub mod chains;
pub mod counts;
pub mod notes;
pub mod places;
pub mod plot;
pub mod puts;
pub mod records;
mod said;
mod tally;

use self::said::Said;
use self::tally::{Processed, Tally};
use super::strings::{Strings, Text};
use crate::model::asides::{Aside, What};
use crate::model::chain::{Chain, Outcome, ProcessSpan, PutSpan, Span, SpanKind, Trigger};
use crate::model::origins::Origins;
use crate::model::putlog::each_put;
use crate::model::run::{field_name, has_value, record_name};
use crate::model::{enum_strings, outcome, value};
use crate::wording::cause::of_root;
use crate::Filter;
use alarms::Alarms;
use causes::{Cause, Causes};
use chains::{Chains, Notable};
use iocrec_log::context::Context;
use iocrec_log::event::{Fact, RecordId, Value};
use notes::Notes;
use places::{Places, NONE};
use puts::Puts;
use records::{Alarm, Fast, Lately, Seen};
use std::collections::{HashMap, HashSet};

/// Bytes of texts below which none is dropped: a flood has some for each put.
const FEW_TEXTS: usize = 2 << 20;
/// Points that the page draws of a record.
pub const POINTS: usize = 1400;
/// CA links that are followed from a chain to the next.
const MAX_HOPS: usize = 32;
/// Records of which it is remembered whether they were asked for; a bound for hostile logs.
const MAX_NAMES: usize = 120_000;

/// Everything that the page shows of the chains.
#[derive(Default)]
pub struct Collected {
    /// Texts.
    pub strings: Strings,
    /// IOCs and records.
    pub places: Places,
    /// Puts.
    pub puts: Puts,
    /// Alarm transitions.
    pub alarms: Alarms,
    /// Chains.
    pub chains: Chains,
    /// Causes of alarms and chains.
    pub causes: Causes,
    /// Losses and marks.
    pub notes: Notes,
    /// What the IOCs printed.
    pub said: Said,
    /// First and last time of anything.
    pub span: Option<(i64, i64)>,
    /// The minutes that the verdict is about, if that is known beforehand.
    pub focus: Option<(i64, i64)>,
    /// What the records did that is not counted yet.
    tally: Tally,
    /// Size of the table of texts after texts that nothing refers to were last dropped.
    texts_used: usize,
    /// What changed the sources of CP links, if there are any.
    origins: Option<Origins>,
    /// Number of chains so far.
    serial: u64,
    /// Whether records were asked for by their names, where that was looked up.
    chosen: HashMap<String, bool>,
    /// Number of values and processings of those that were.
    of_chosen: u64,
}

/// What is known of the chain whose spans are being read.
struct Current<'a> {
    /// What is asked for.
    filter: &'a Filter,
    /// Whether the chain is among that.
    is_listed: bool,
    /// Its number.
    serial: u64,
    /// Its cause, once it is needed.
    cause: Option<u32>,
    notable: Notable,
    /// First and last time of what was seen in its run.
    reached: Option<(i64, i64)>,
}

impl Current<'_> {
    /// Something happened at this time.
    fn reach(&mut self, wall: i64) {
        let (first, last) = self.reached.unwrap_or((wall, wall));
        self.reached = Some((first.min(wall), last.max(wall)));
    }
}

impl Collected {
    /// Follows CP links of records with these names. Call it before the first chain.
    pub fn follow_links_of(&mut self, sources: HashSet<String>) {
        self.origins = (!sources.is_empty()).then(|| Origins::of_sources(of_root, sources));
    }

    /// Takes the next chain of the time and the places that are asked for, in the order in which they began.
    pub fn take(&mut self, chain: &Chain, filter: &Filter) {
        self.serial += 1;
        let is_listed = filter.is_of_place_and_time() || filter.chain(chain);
        self.chains.total += u64::from(is_listed);
        let (serial, notable) = (self.serial, Notable::default());
        let mut current = Current { filter, is_listed, serial, cause: None, notable, reached: None };
        self.visit(chain, chain, &mut current, 0);
        let is_put = matches!(chain.root().map(|root| &root.kind), Some(SpanKind::Put(_)));
        if is_put || current.notable.hops > 0 || current.notable.puts > 0 {
            self.take_puts(chain, filter, &mut current);
        }
        let in_focus = self.focus.is_none_or(|(from, to)| {
            let began = chain.root().map_or(0, |root| chain.run.wall(root.start));
            (from..=to).contains(&began)
        });
        if is_listed && self.chains.wants(&current.notable, in_focus) {
            let cause = self.cause(chain, &mut current);
            let (serial, notable) = (current.serial, (current.notable, in_focus));
            self.chains.keep(chain, serial, cause, notable, &mut self.places, &mut self.strings);
        }
        if self.strings.size() > (self.texts_used + self.texts_used / 4).max(FEW_TEXTS) {
            self.drop_unused_texts();
        }
    }

    /// Whether nothing was seen of what is asked for.
    pub fn has_nothing_of(&self, filter: &Filter) -> bool {
        // a chain may have no more of it than a CA link to it
        let is_listed = self.puts.total > 0 || self.chains.total > 0;
        !is_listed && (filter.asks_who() || self.of_chosen == 0)
    }

    /// Whether a record is asked for by its name.
    fn is_chosen(&mut self, context: &Context, record: RecordId, filter: &Filter) -> bool {
        if filter.pv.is_empty() && filter.exclude.is_empty() {
            return true;
        }
        let name = context.record(record).map_or("", |record| record.name);
        if let Some(known) = self.chosen.get(name) {
            return *known;
        }
        let is_chosen = filter.field(name, "VAL");
        if self.chosen.len() < MAX_NAMES {
            self.chosen.insert(name.to_owned(), is_chosen);
        }
        is_chosen
    }

    /// Drops the texts of puts, alarms and chains that had to make room for others.
    fn drop_unused_texts(&mut self) {
        let mut used = vec![false; self.strings.count()];
        self.each_text(&mut |text| {
            let used = usize::try_from(*text).ok().and_then(|number| used.get_mut(number));
            used.into_iter().for_each(|used| *used = true);
        });
        let numbers = self.strings.keep(&used);
        drop(used);
        self.each_text(&mut |text| {
            let number = usize::try_from(*text).ok().and_then(|number| numbers.get(number));
            *text = number.copied().unwrap_or_default();
        });
        self.texts_used = self.strings.size();
    }

    /// Calls `take` with the number of each text.
    fn each_text(&mut self, take: &mut impl FnMut(&mut Text)) {
        self.puts.each_text(take);
        self.alarms.all.iter_mut().for_each(|transition| take(&mut transition.value));
        self.chains.each_text(take);
        self.causes.each_text(take);
        self.places.records.iter_mut().for_each(|record| record.each_text(take));
    }

    /// Notes what the next chain, wanted or not, changed that CP links follow. Call it after [`Collected::take`].
    pub fn follow(&mut self, chain: &Chain) {
        if let Some(origins) = &mut self.origins {
            origins.take(chain);
        }
    }

    /// Looks at the spans of a chain, and of those that its CA links led to. `top`: the first of them.
    fn visit(&mut self, chain: &Chain, top: &Chain, current: &mut Current, hop: usize) {
        let context = chain.run.context();
        self.places.enter(&chain.run);
        for (number, span) in chain.spans.iter().enumerate() {
            match &span.kind {
                SpanKind::Process(process) => self.process(chain, &context, top, span, process, current),
                SpanKind::Put(put) => {
                    current.notable.puts += 1;
                    current.notable.from_outside |= number == 0 && hop == 0;
                    current.reach(chain.run.wall(span.start));
                    self.written(chain, &context, number, put, current.filter);
                }
                SpanKind::Link(link) => {
                    if let Some(target) = link.target.as_deref().filter(|_| hop < MAX_HOPS) {
                        current.notable.hops += 1;
                        self.reached(current);
                        self.visit(target, top, current, hop + 1);
                        self.places.enter(&chain.run);
                    }
                }
            }
        }
        self.reached(current);
        // In another run the clock is another.
        let end = chain.spans.iter().map(|span| span.end).max().map_or(i64::MIN, |end| chain.run.wall(end));
        let began = top.root().map_or(end, |root| top.run.wall(root.start));
        let length = u64::try_from(end.saturating_sub(began)).unwrap_or(0);
        current.notable.length = current.notable.length.max(length);
    }

    /// A put gave a record a value and did not make it process: that is a point of its own.
    fn written(&mut self, chain: &Chain, context: &Context, number: usize, put: &PutSpan, filter: &Filter) {
        let (Some(record), Some(written), false) = (put.record, put.written, put.only_processes) else {
            return;
        };
        let is_value = field_name(context, put.field) == Some("VAL") && has_value(context, record);
        let processes = |span: &Span| {
            let is_it = matches!(&span.kind, SpanKind::Process(process) if process.record == record);
            is_it && span.parent == Some(number)
        };
        if !is_value || chain.spans.iter().skip(number + 1).any(processes) {
            return;
        }
        if !self.is_chosen(context, record, filter) {
            return;
        }
        self.of_chosen += 1;
        if let Some(value) = number_of(&outcome::of(chain, context, number, put).new) {
            let number = self.places.record_of(context, record, &mut self.strings);
            self.tally.add(number, Processed::read(chain.run.wall(written), value), &mut self.places);
        }
    }

    fn process(
        &mut self,
        chain: &Chain,
        context: &Context,
        top: &Chain,
        span: &Span,
        process: &ProcessSpan,
        current: &mut Current,
    ) {
        if matches!(process.outcome, Outcome::Active | Outcome::Disabled | Outcome::Skipped) {
            return;
        }
        let wall = chain.run.wall(span.start);
        current.reach(wall);
        let is_chosen = self.is_chosen(context, process.record, current.filter);
        if !is_chosen && !current.is_listed {
            return;
        }
        let number = self.places.record_of(context, process.record, &mut self.strings);
        current.notable.steps += 1;
        if current.notable.root == NONE {
            current.notable.root = number;
        }
        if !is_chosen {
            return;
        }
        self.of_chosen += 1;
        let mut processed = Processed::begun(wall);
        let Some(lately) = self.places.lately(number) else { return };
        let became_fast = lately.peak.add(wall);
        let Lately { ioc, alarm: as_before, has_value: is_value, .. } = *lately;
        if let Some(place) = usize::try_from(ioc).ok().and_then(|ioc| self.places.iocs.get_mut(ioc)) {
            place.processed.add(wall);
        }
        if became_fast {
            self.became_fast(chain, context, number, wall);
        }
        let Outcome::Completed(completed) = &process.outcome else {
            return self.tally.add(number, processed, &mut self.places);
        };
        let took = span.end.saturating_sub(span.start);
        let ended = wall.saturating_add_unsigned(took);
        current.reach(ended);
        processed.completed(took, number_of(&completed.value).filter(|_| is_value));
        self.tally.add(number, processed, &mut self.places);
        let alarm = Alarm { severity: completed.severity, status: completed.status };
        if as_before == Some(alarm) {
            return;
        }
        let Some(record) = self.places.record(number) else { return };
        let mut text = String::new();
        // The first state that is seen of most records is no alarm: what it came from is never shown.
        let shown = alarm.severity > 0 || record.alarm.is_some() || record.held.is_some();
        if shown && has_value(context, process.record) && completed.value != Value::Unknown {
            value::push_text(&mut text, &completed.value);
            let state = enum_strings::state(context, process.record, span.end, &completed.value);
            enum_strings::push(&mut text, state.as_deref());
        }
        let seen = Seen {
            time: ended,
            alarm,
            value: self.strings.add(&text),
            cause: if shown { self.cause(top, current) } else { NONE },
            chain: current.serial,
        };
        let changed = self.see(number, seen);
        current.notable.severity = current.notable.severity.max(changed);
    }

    /// A record has been seen in an alarm. Returns the severity if that is worse than before.
    fn see(&mut self, number: u32, seen: Seen) -> u16 {
        let Some(record) = self.places.record(number) else { return 0 };
        let severity = self.alarms.see(number, record, seen);
        let alarm = record.alarm.filter(|_| record.held.is_none());
        self.places.lately(number).into_iter().for_each(|lately| lately.alarm = alarm);
        severity
    }

    /// Notes how a record came to be processed fast.
    fn became_fast(&mut self, chain: &Chain, context: &Context, number: u32, wall: i64) {
        let Some(root) = chain.root() else { return };
        let (root_number, source, trigger) = match &root.kind {
            SpanKind::Process(process) => {
                let by_link = matches!(process.trigger, Trigger::Once | Trigger::CpLink) && process.for_link;
                let source = chain.run.cp_link(root.start, process.record).filter(|_| by_link);
                let name = if by_link { Trigger::CpLink.name() } else { process.trigger.name() };
                (self.places.record_of(context, process.record, &mut self.strings), source, name)
            }
            _ => (NONE, None, Trigger::Put.name()),
        };
        let Some(lately) = self.places.lately(number) else { return };
        let since = lately.peak.window().min(wall);
        let source = source.map(|(_, source)| source);
        lately.peak.fast = Some(Box::new(Fast { since, root: root_number, source, trigger }));
    }

    fn take_puts(&mut self, chain: &Chain, filter: &Filter, current: &mut Current) {
        each_put(chain, false, &mut |put| {
            if !filter.put(&put) {
                return;
            }
            self.reach(put.time);
            let flags = self.puts.take(&put, current.serial, &mut self.places, &mut self.strings, self.focus);
            current.notable.refused |= flags & (puts::DENIED | puts::FAILED | puts::OTHERWISE) != 0;
        });
    }

    /// The cause of the chain that is being read.
    fn cause(&mut self, chain: &Chain, current: &mut Current) -> u32 {
        *current.cause.get_or_insert_with(|| {
            let is_link = |span: &Span| matches!(&span.kind, SpanKind::Process(process) if process.for_link);
            let origins = self.origins.as_mut().filter(|_| chain.root().is_some_and(is_link));
            let followed = origins.map(|origins| origins.cause(chain, None));
            let cause = Cause::of(chain, followed.as_deref(), &mut self.strings);
            self.causes.add(cause)
        })
    }

    /// Notes the times of what was seen in the entered run.
    fn reached(&mut self, current: &mut Current) {
        if let Some((first, last)) = current.reached.take() {
            self.reach(first);
            self.reach(last);
        }
    }

    /// Something happened at this time.
    fn reach(&mut self, wall: i64) {
        let (first, last) = self.span.unwrap_or((wall, wall));
        self.span = Some((first.min(wall), last.max(wall)));
        self.places.reach(wall);
    }

    /// Takes a fact beside the chains, in order of time among them.
    pub fn take_aside(&mut self, aside: &Aside, filter: &Filter) {
        if matches!(aside.what, What::Said(_)) {
            // those outside the time tell who sent what is printed inside
            return self.said.take(aside, filter);
        }
        let is_elsewhere = filter.host.as_ref().is_some_and(|glob| !glob.matches(&aside.run.host()));
        if is_elsewhere || !filter.time(aside.time) {
            return;
        }
        self.places.enter(&aside.run);
        self.notes.take(aside);
        let context = aside.run.context();
        let mut is_wanted = |record| {
            let ioc = context.record(record).and_then(|record| context.ioc(record.ioc));
            filter.place(&aside.run.host(), ioc.map_or("", |ioc| &ioc.name))
                && self.is_chosen(&context, record, filter)
        };
        match &aside.what {
            What::Fact(Fact::Snapshot(snapshot)) if !is_wanted(snapshot.record) => {}
            What::Fact(Fact::Properties(properties)) if !is_wanted(properties.record) => {}
            What::Fact(Fact::Snapshot(snapshot)) => {
                self.of_chosen += 1;
                let number = self.places.record_of(&context, snapshot.record, &mut self.strings);
                let alarm = Alarm { severity: snapshot.severity, status: snapshot.status };
                let numeric =
                    has_value(&context, snapshot.record).then(|| number_of(&snapshot.value)).flatten();
                if let Some(value) = numeric {
                    self.tally.add(number, Processed::read(aside.time, value), &mut self.places);
                }
                let Some(lately) = self.places.lately(number) else { return };
                if lately.alarm == Some(alarm) {
                    return;
                }
                let value = self.strings.add(&value::text(&snapshot.value));
                self.see(number, Seen { time: aside.time, alarm, value, cause: NONE, chain: 0 });
            }
            What::Fact(Fact::Properties(properties)) => {
                let number = self.places.record_of(&context, properties.record, &mut self.strings);
                let units = self.strings.add(&properties.units);
                if let Some(record) = self.places.record(number) {
                    record.units = units;
                }
            }
            What::Fact(Fact::Mark(_) | Fact::Loss(_)) => self.reach(aside.time),
            What::Fact(_) | What::Said(_) | What::Missing => {}
        }
    }

    /// Applies what was held back until all chains had been read.
    pub fn finish(&mut self) {
        self.tally.count(&mut self.places);
        for (number, record) in self.places.records.iter_mut().enumerate() {
            let number = u32::try_from(number).unwrap_or(NONE);
            self.alarms.settle(number, record);
        }
        self.alarms.sort();
    }
}

/// A value as a number.
fn number_of(value: &Value) -> Option<f64> {
    match value {
        Value::Int(number) => Some(*number as f64),
        Value::UInt(number) => Some(*number as f64),
        Value::Float(number) => Some(f64::from(*number)),
        Value::Double(number) => Some(*number),
        Value::Unknown | Value::Text(_) | Value::Array(_) => None,
    }
}

/// Name of a span's record, or of the PV that it names.
fn span_name(context: &Context, span: &Span) -> String {
    match &span.kind {
        SpanKind::Process(process) => record_name(context, process.record),
        SpanKind::Put(put) => match (put.record, &put.packet) {
            (Some(record), _) => record_name(context, record),
            (None, Some(packet)) => {
                context.channel(packet.channel).map_or(String::new(), |channel| channel.pv.clone())
            }
            (None, None) => String::new(),
        },
        SpanKind::Link(link) => link.pv.to_string(),
    }
}
