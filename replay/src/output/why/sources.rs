//! Where the chain of a change came from, if no put began it: the sources of CP links, and what is known of other
//! inputs.
//!
//! The other input links are in [`super::inputs`]. Where they are not known, what was written to the IOC meanwhile is
//! shown as what it is, never as the cause.

use super::Answer;
use crate::answers::inputs::Place;
use crate::model::chain::{Chain, ProcessSpan, SpanKind, Trigger};
use crate::model::putlog::PutLine;
use crate::model::roots::Roots;
use crate::model::run::{field_name, record_name, HeldIoc, Run};
use crate::model::updates::{self, Before};
use crate::model::weighing::{own, LOOK_BACK, SKEW};
use crate::model::{enum_strings, origins, value};
use crate::out::{line, Out};
use crate::output::puts::process;
use crate::time::{duration, Zone, SECOND};
use crate::wording::put::{change, updates_before, who};
use iocrec_log::event::{RecordId, Value};
use serde::Serialize;
use std::io;
use std::rc::Rc;

/// Sources that are looked for, of all CP links on the way: each takes a pass over a part of the log.
pub const MAX_SOURCES: usize = 24;
/// Puts that are listed as made meanwhile.
const MAX_MEANWHILE: usize = 5;

/// A CP link that may have made a record process.
#[derive(Serialize)]
pub struct Link {
    /// The link's record and field.
    link: String,
    /// The PV that it follows.
    source: String,
    /// Seconds from the source's last change to the processing; null if there was no change in the minute before.
    before_s: Option<f64>,
    /// Whether that is as short as CP links take.
    prompt: bool,
    /// Whether the source is the PV asked for, or followed on the way: the records feed each other.
    circle: bool,
    /// Why there may be a later change of the source.
    missed: Option<String>,
    /// The last change of the source; or its only processing, if what it held before is not known.
    change: Option<Box<Answer>>,
}

impl Link {
    /// Whether it is this link, by its record and field.
    pub(super) fn is(&self, link: &str) -> bool {
        self.link == link
    }

    /// How likely it is, by the time of the last change that was seen.
    fn weighed(&self) -> String {
        match &self.missed {
            Some(missed) => format!("{}; after that, not all was recorded: {missed}", self.by_time()),
            None => self.by_time(),
        }
    }

    fn by_time(&self) -> String {
        let Some(before) = self.before_s else {
            return "no change of which is in the log in the minute before".to_owned();
        };
        let before = duration((before * SECOND as f64) as u64);
        let changed = self.change.as_ref().is_none_or(|change| change.changed);
        match (self.prompt, changed, self.circle) {
            (true, _, true) => {
                format!("which changed {before} before, and follows it in turn: they feed each other")
            }
            (true, true, _) => format!("which changed {before} before"),
            (true, false, _) => format!("which processed {before} before; what it held before is not known"),
            (false, ..) => format!("which last changed {before} before: too early for a CP link"),
        }
    }
}

/// A put to the same IOC.
#[derive(Serialize)]
pub struct Meanwhile {
    time: String,
    pv: String,
    /// Seconds before the change.
    before_s: f64,
    old: serde_json::Value,
    new: serde_json::Value,
    by: String,
    /// Whether it wrote the value that the PV then had.
    same_value: bool,
    /// Whether it wrote to a field of the record itself.
    own_field: bool,
    #[serde(skip)]
    text: String,
}

/// Where to look for what a chain followed.
#[derive(Default)]
pub struct Lead {
    /// The CP links that the chain may have begun by: link and source.
    links: Vec<(String, String)>,
    /// Whether the chain began by a CP link, which the log may not name, and the longest time from a change to that.
    by_link: bool,
    prompt: i64,
    /// The record with which the chain began.
    first: Option<String>,
    /// Those with which the chains of the record began, in runs whose chains are sampled.
    pub(super) roots: Roots<String>,
    /// Whether no put began the chain.
    without_put: bool,
    /// Wall-clock times: of the chain's begin, of the change, and when the record was last seen before.
    begun: i64,
    time: i64,
    seen: Option<i64>,
    /// The places of these in the order of time.
    even: Even,
    /// Time of the last value that may have been a change, or is unknown.
    pub(super) doubt: Option<i64>,
    /// When the record began to process the last time before.
    pub(super) processed: Option<i64>,
    /// The chain: its host, and the thread and time of its begin.
    chain: Option<(String, Option<u32>, u64)>,
    /// The processing whose inputs may have been the cause.
    pub(super) own: Option<Own>,
    /// The record that was processed for a CP link: its run, the monotonic time, its number.
    root: Option<(Rc<Run>, u64, RecordId)>,
    /// The put that began the chain, if a process made it by itself: updates may have made it act.
    pub(super) put: Option<PutLine>,
    /// Keeps the names in these runs, also after the end of the IOCs.
    pub(super) held: Option<Rc<[HeldIoc]>>,
}

/// Times in the order of time ([`Run::even`]).
#[derive(Clone, Copy, Default)]
struct Even {
    begun: i64,
    time: i64,
    seen: Option<i64>,
}

/// The processing of a record.
pub(super) struct Own {
    run: Rc<Run>,
    record: RecordId,
    /// Whether it is that of another record, whose output link wrote the value that is asked about.
    pub(super) is_writer: bool,
    /// Wall-clock times of its start and end.
    pub(super) start: i64,
    pub(super) end: i64,
}

impl Own {
    /// The processing of span `number` of a chain, or of the record that wrote to it, unless a put began the chain: that is
    /// the cause then.
    fn of(chain: &Rc<Chain>, number: usize) -> Option<Own> {
        let (number, is_writer) = own(chain, number)?;
        let span = chain.spans.get(number)?;
        let SpanKind::Process(process) = &span.kind else { return None };
        let (start, end) = (chain.run.wall(span.start), chain.run.wall(span.end));
        Some(Own { run: Rc::clone(&chain.run), record: process.record, is_writer, start, end })
    }

    /// The record's name.
    pub(super) fn name(&self) -> String {
        record_name(&self.run.context(), self.record)
    }

    /// The record's place, if its IOC is known.
    pub(super) fn place(&self) -> Option<Place> {
        let context = self.run.context();
        let record = context.record(self.record)?;
        let ioc = context.ioc(record.ioc)?;
        let (host, process) = (self.run.host(), (ioc.pid, ioc.start));
        Some(Place { host, process, record: record.name.to_owned() })
    }

    /// The record that a link of it to this PV leads to, if it is one of the same IOC: its name.
    pub(super) fn neighbour(&self, record: &str) -> Option<String> {
        let context = self.run.context();
        let ioc = context.record(self.record)?.ioc;
        let own = context.records().find(|other| other.ioc == ioc && other.name == record);
        own.or_else(|| context.by_alias(ioc, record)).map(|record| record.name.to_owned())
    }
}

/// A record's CP links at a time, as a run knows them: link and source.
fn links_of(run: &Run, time: u64, record: RecordId) -> Vec<(String, String)> {
    let links = run.cp_links(time, record);
    let context = run.context();
    let name = record_name(&context, record);
    let link = |field| format!("{name}.{}", field_name(&context, Some(field)).unwrap_or("?"));
    links.into_iter().map(|(field, source)| (link(field), source)).collect()
}

impl Lead {
    /// The lead that the path to a change gives. Times are in the order of time, and as the clock had them.
    pub(super) fn new(
        chain: &Rc<Chain>,
        path: &[usize],
        (even, time): (i64, i64),
        seen: Option<(i64, i64)>,
        processed: Option<i64>,
    ) -> Self {
        let Some(root) = chain.root() else { return Lead::default() };
        let begun = chain.run.wall(root.start);
        let without_put = matches!(root.kind, SpanKind::Process(_)) && path.len() <= 1;
        let own = if let [number] = path { Own::of(chain, *number) } else { None };
        // that is known of the record itself only
        let is_own = own.as_ref().is_none_or(|own| !own.is_writer);
        let (seen, processed) = if is_own { (seen, processed) } else { (None, None) };
        let first = match &root.kind {
            SpanKind::Process(process) => Some(record_name(&chain.run.context(), process.record)),
            SpanKind::Put(_) | SpanKind::Link(_) => None,
        };
        let even = Even { begun: chain.run.even(root.start), time: even, seen: seen.map(|(even, _)| even) };
        let lead = Lead {
            begun,
            time,
            first,
            seen: seen.map(|(_, time)| time),
            even,
            processed,
            own,
            without_put,
            chain: Some((chain.run.host(), root.thread, root.start)),
            ..Lead::default()
        };
        match &root.kind {
            SpanKind::Process(
                process @ ProcessSpan {
                    record,
                    trigger: Trigger::Once | Trigger::CpLink,
                    for_link: true,
                    is_over: false,
                    ..
                },
            ) => {
                let links = links_of(&chain.run, root.start, *record);
                let prompt = origins::prompt(root.start, process);
                let root = Some((Rc::clone(&chain.run), root.start, *record));
                Lead { by_link: true, prompt, links, root, ..lead }
            }
            _ => lead,
        }
    }

    /// Whether the chain began by a CP link.
    pub(super) fn is_by_link(&self) -> bool {
        self.by_link
    }

    /// Wall-clock time of the change.
    pub(super) fn changed_at(&self) -> i64 {
        self.time
    }

    /// Wall-clock times of the chain's begin and of the change.
    pub(super) fn span(&self) -> (i64, i64) {
        (self.begun, self.time)
    }

    /// Whether this change was in the same chain as that one.
    pub(super) fn is_of(&self, other: &Lead) -> bool {
        self.chain.as_ref().zip(other.chain.as_ref()).is_some_and(|(own, other)| own == other)
    }

    /// The CP links to follow: link and source.
    pub fn links(&self) -> &[(String, String)] {
        &self.links
    }

    /// The wall-clock times between which the last change of a source is to be found, and by which it had begun.
    pub fn times(&self) -> (i64, i64, i64) {
        (self.begun.saturating_sub(LOOK_BACK), self.begun.saturating_add(SKEW), self.begun)
    }

    /// The wall-clock times between which an unknown input was read: from when the record was last seen.
    pub fn meanwhile(&self) -> Option<(i64, i64)> {
        let since = self.seen.filter(|_| self.without_put && !self.by_link)?;
        Some((since, self.time))
    }

    /// The times between which something may have been missed, in the order of time ([`Run::even`]).
    pub fn unseen(&self) -> Option<(i64, i64)> {
        Some((self.even.seen?, self.even.time))
    }

    /// The chain's begin and the change in the order of time.
    pub fn even(&self) -> (i64, i64) {
        (self.even.begun, self.even.time)
    }
}

impl Answer {
    /// Where to look further.
    pub fn lead(&self) -> &Lead {
        &self.lead
    }

    /// Whether a chain that begins with this record may concern it: its own record, that of its chain, and those of other
    /// chains in which it was seen.
    pub fn may_begin_with(&self, record: &str) -> bool {
        let Lead { first, roots, .. } = &self.lead;
        epics::Pv::new(&self.pv).record == record || first.as_deref() == Some(record) || roots.may_be(record)
    }

    /// The IOC, and the host.
    pub fn place(&self) -> (&str, &str) {
        (&self.ioc, &self.host)
    }

    /// The put that began the chain, if a process made it by itself.
    pub fn acting_put(&self) -> Option<&PutLine> {
        self.lead.put.as_ref()
    }

    /// Adds the updates that may have made that process put.
    pub fn add_updates(&mut self, before: Before) {
        self.after = Some(updates_before(&before));
        let Some(put) = &mut self.lead.put else { return };
        updates::tell(put, Some(before));
        self.process = put.process.as_deref().map(process);
    }

    /// Whether it is known to have changed.
    pub fn has_changed(&self) -> bool {
        self.changed
    }

    /// Whether it shows a single moment, and not whether that was a change.
    pub fn is_in_doubt(&self) -> bool {
        !self.changed && self.count == 1 && !self.before_known
    }

    /// Looks up CP links in runs that were read from an earlier time on, if what was read here does not hold them: the
    /// recorder notes them seldom.
    pub fn learn_links(&mut self, runs: &[Rc<Run>]) {
        let Some((own, time, record)) = self.lead.root.as_ref().filter(|_| self.lead.links.is_empty()) else {
            return;
        };
        let name = record_name(&own.context(), *record);
        // another run may have the number for the same record of a former process, which had other links
        let process = |run: &Run| {
            let context = run.context();
            let ioc = context.record(*record).and_then(|record| context.ioc(record.ioc));
            ioc.map(|ioc| (ioc.pid, ioc.start))
        };
        let same = |run: &&Rc<Run>| {
            let is_host = run.context().host() == own.context().host();
            is_host && record_name(&run.context(), *record) == name && process(run) == process(own)
        };
        let found = runs.iter().filter(same).map(|run| links_of(run, *time, *record));
        let Some(links) = found.into_iter().find(|links| !links.is_empty()) else { return };
        if let [(link, source)] = links.as_slice() {
            self.cause = format!("CP link {link} from {source}");
            let text = format!("processed by {}", self.cause);
            if let Some(step) = self.chain.first_mut() {
                step.text = step.text.replacen("processed by CP link, source not known", &text, 1);
            }
        }
        self.lead.links = links;
    }

    /// Adds a CP link, with the last change of its source. `missed`: why there may be a later one; `circle`: the source was
    /// followed already.
    pub fn add_link(
        &mut self,
        (link, source): &(String, String),
        missed: Option<String>,
        change: Option<Answer>,
        circle: bool,
    ) {
        // Of several times with the same value, any may have been the change.
        let change = change.filter(|change| change.changed || change.is_in_doubt());
        let age = change.as_ref().map(|change| self.lead.begun.saturating_sub(change.lead.time).max(0));
        let before_s = age.map(|age| age as f64 / SECOND as f64);
        let prompt = age.is_some_and(|age| age <= self.lead.prompt);
        let (link, source, change) = (link.clone(), source.clone(), change.map(Box::new));
        let missed = missed.filter(|_| change.is_some());
        self.links.push(Link { link, source, before_s, prompt, circle, missed, change });
        // The latest first.
        self.links.sort_by(|a, b| a.before_s.unwrap_or(f64::MAX).total_cmp(&b.before_s.unwrap_or(f64::MAX)));
    }

    /// Call it after all links were added: says what began it all, if there is no doubt.
    pub fn conclude(&mut self) {
        let [Link { prompt: true, circle: false, missed: None, change: Some(change), .. }] =
            self.links.as_slice()
        else {
            return;
        };
        let follows = change.lead.by_link;
        self.begun_by = match &change.begun_by {
            Some(begun_by) => Some(begun_by.clone()),
            None if follows => None,
            None => Some(change.cause.clone()),
        };
    }

    /// Adds what may have been missed.
    pub fn add_missed(&mut self, missed: String) {
        self.missed = Some(missed);
    }

    /// Adds what may have been missed later, up to the time that was asked for; if no change was found, at any time.
    pub fn add_missed_since(&mut self, missed: String) {
        self.missed_since = Some(missed);
    }

    /// Adds a put that was made meanwhile. Of many, the last stay.
    pub fn add_meanwhile(&mut self, put: &PutLine, zone: &Zone) {
        if self.meanwhile.len() >= MAX_MEANWHILE {
            self.meanwhile.remove(0);
            self.meanwhile_more += 1;
        }
        let before = self.lead.time.saturating_sub(put.time).max(0);
        let pv = put.pv.clone().unwrap_or_else(|| "(unnamed channel)".to_owned());
        let record = epics::Pv::new(&self.pv).record;
        let same_value = put.new != Value::Unknown && value::json(&put.new) == self.to;
        let own_field = put.record.as_deref() == Some(record);
        let mut text = format!(
            "{}  {pv} {} by {}, {} before",
            zone.format(put.time, 9),
            change(put),
            who(put),
            duration(u64::try_from(before).unwrap_or(0))
        );
        match (own_field, same_value) {
            (true, _) => text.push_str(" (a field of this record)"),
            (false, true) => text.push_str(" (the same value)"),
            (false, false) => {}
        }
        self.meanwhile.push(Meanwhile {
            time: zone.format(put.time, 9),
            pv,
            before_s: before as f64 / SECOND as f64,
            old: value::json(&put.old),
            new: value::json(&put.new),
            by: who(put),
            same_value,
            own_field,
            text,
        });
    }

    /// Writes the change of the alarm.
    pub(super) fn write_alarm(&self, out: &mut Out, place: &str) -> io::Result<()> {
        let Answer { pv, time, count, .. } = self;
        let value = &self.text.1;
        let name = |(severity, status)| enum_strings::alarm(severity, status);
        let to = self.alarms.1.map_or("an unknown alarm".to_owned(), name);
        match (self.alarms.0, self.changed) {
            (Some(from), true) => {
                line!(out, "{pv} went from {} to {to}, value {value}, at {time}{place}", name(from))?;
            }
            (None, true) => {
                line!(
                    out,
                    "{pv} was first seen with {to}, value {value}, at {time}{place}; its alarm before is not known"
                )?;
            }
            (_, false) => {
                let times = if *count == 1 { "once".to_owned() } else { format!("{count} times") };
                line!(
                    out,
                    "The alarm of {pv} did not change {} (processed {times}, {to}); the last time at \
                     {time}{place}",
                    self.within()
                )?;
            }
        }
        self.write_ended(out)?;
        self.write_anew(out)?;
        self.write_missed(out)
    }

    pub(super) fn write_missed(&self, out: &mut Out) -> io::Result<()> {
        if let (Some(missed), true) = (&self.missed, self.changed) {
            let seen = self.last_before.as_deref().unwrap_or("an unknown time");
            line!(out, "What was before was seen at {seen}; since then not all was recorded: {missed}.")?;
        }
        match (&self.missed_since, self.changed) {
            (Some(missed), true) => {
                line!(out, "There may be later changes: after it, not all was recorded: {missed}.")?;
            }
            (Some(missed), false) => {
                line!(out, "It may have changed unseen: not all was recorded: {missed}.")?;
            }
            (None, _) => {}
        }
        Ok(())
    }

    /// Writes what the cause followed.
    pub(super) fn write_sources(&self, out: &mut Out) -> io::Result<()> {
        if self.links.len() > 1 {
            line!(out, "It may have been any of these CP links, the latest change first:")?;
        }
        for link in &self.links {
            line!(out, "{} follows {}, {}", link.link, link.source, link.weighed())?;
        }
        self.write_input_lines(out)?;
        let shown = self.links.iter().filter(|link| !link.circle);
        for change in shown.filter_map(|link| link.change.as_deref()) {
            line!(out)?;
            change.write_text(out)?;
        }
        self.write_input_changes(out)?;
        match (self.lead.by_link && self.links.is_empty(), self.lead.links.is_empty()) {
            (true, true) => line!(out, "What its CP links follow is not in the log.")?,
            (true, false) => line!(out, "It is not followed further: too many CP links lead here.")?,
            (false, _) => {}
        }
        Ok(())
    }

    pub(super) fn write_meanwhile(&self, out: &mut Out) -> io::Result<()> {
        let Some((since, time)) = self.lead.meanwhile() else { return Ok(()) };
        let span = duration(u64::try_from(time.saturating_sub(since)).unwrap_or(0));
        let ioc = if self.ioc.is_empty() { "its IOC" } else { &self.ioc };
        if self.meanwhile.is_empty() {
            return line!(
                out,
                "No put to {ioc} is recorded since it was last seen to process, {span} before."
            );
        }
        line!(out, "Since it was last seen to process, {span} before, these puts were made to {ioc}:")?;
        for put in &self.meanwhile {
            line!(out, "  {}", put.text)?;
        }
        if self.meanwhile_more > 0 {
            line!(out, "  and {} earlier ones", self.meanwhile_more)?;
        }
        line!(out, "Nothing in the log says whether one of them was its cause.")
    }
}
