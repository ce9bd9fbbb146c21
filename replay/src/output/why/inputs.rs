//! The inputs of a record that no put made process: each with the last change of its source, weighed by its time.
//!
//! Nothing in EPICS Base shows which input changed a record's value. So an input whose source changed since the record
//! processed before *may* have been the cause; one whose source did not change since then was none. All are shown.

use super::{Answer, Ask};
use crate::answers::inputs::Place;
use crate::filter::Filter;
use crate::model::inputs::{From, Known};
use crate::model::weighing::{self, remark, Part, Reading, Weighed};
use crate::out::{line, Out};
use crate::pattern::Pattern;
use crate::time::SECOND;
use epics::Pv;
use serde::Serialize;
use std::io;

/// An input link of a record.
#[derive(Serialize)]
pub struct Source {
    /// The link's record and field.
    link: String,
    /// Its text; null if it is not in the log.
    text: Option<String>,
    /// `pv`, `device`, `json` or `hardware`: what it leads to.
    kind: &'static str,
    /// The PV or the device; null if the log does not tell.
    source: Option<String>,
    /// Whether the PV's record is in these logs; null if it is no PV.
    recorded: Option<bool>,
    /// Whether the record reads itself, or is read on the way here.
    circle: bool,
    /// Whether it was not looked for, since too many inputs lead here.
    not_followed: bool,
    /// Seconds from the source's last change to the end of the processing; null if there is none in the time looked at.
    before_s: Option<f64>,
    /// Whether it is known to have changed then, and not only to have been processed or written.
    certain: bool,
    /// Whether that was since the record processed before; null if it is not known when that was.
    since_last: Option<bool>,
    /// Whether it changed while the record processed, in another chain, so that it may have been read before.
    meanwhile: bool,
    /// Whether `change` is of the record's value, which may not have changed the field that the link reads.
    of_value: bool,
    /// Why there may be a later change of the source.
    missed: Option<String>,
    /// The last change of the source.
    change: Option<Box<Answer>>,
    /// The record of the same IOC that it leads to.
    #[serde(skip)]
    neighbour: Option<String>,
    /// Wall-clock time of the change.
    #[serde(skip)]
    time: Option<i64>,
}

/// The last change of a source.
pub type Change = Option<Answer>;

impl Source {
    /// The PV that it reads.
    pub fn pv(&self) -> Option<&str> {
        self.source.as_deref().filter(|_| self.kind == "pv")
    }

    /// The last change of its source.
    pub fn change_mut(&mut self) -> Option<&mut Answer> {
        self.change.as_deref_mut().filter(|_| self.since_last != Some(false))
    }

    /// When its source last changed or may have, and that change.
    pub fn changed(&self) -> Option<(i64, &Answer)> {
        self.time.zip(self.change.as_deref())
    }

    /// Notes why there may be a later change of its source, if so.
    pub fn is_missed(&mut self, missed: Option<String>) {
        self.missed = missed;
    }

    /// Whether nothing of its source was seen.
    pub fn is_unseen(&self) -> bool {
        self.kind == "pv" && self.change.is_none() && self.neighbour.is_none()
    }

    /// Notes whether its source is in the logs, by the names of records and channels.
    pub fn is_recorded(&mut self, is: impl Fn(&str) -> bool) {
        if let Some(pv) = self.pv() {
            self.recorded = Some(!self.is_unseen() || is(Pv::new(pv).record));
        }
    }

    /// Notes that it leads back.
    pub fn is_circle(&mut self) {
        self.circle = true;
    }

    /// Notes that it is not followed.
    pub fn is_out_of_reach(&mut self) {
        self.not_followed = self.kind == "pv";
    }

    /// Whether it may have been the cause.
    fn may_be_the_cause(&self) -> bool {
        self.change.is_some() && self.times().may_be_the_cause() && !self.circle
    }

    /// What is known of it, in words.
    fn weighed(&self) -> String {
        match (self.kind, self.recorded, &self.change) {
            ("pv", _, _) if self.not_followed => {
                "which was not looked for: too many inputs lead here".to_owned()
            }
            ("pv", Some(false), _) => "which is not in these logs".to_owned(),
            ("pv", _, None) => self.times().without_change().to_owned(),
            ("pv", _, Some(change)) => self.when(change),
            _ => String::new(),
        }
    }

    /// When its source changed.
    fn when(&self, change: &Answer) -> String {
        let age = (self.before_s.unwrap_or(0.0) * SECOND as f64) as i64;
        let when = self.times().when(&change.pv, age);
        let circle = if self.circle { ", and is followed already: they feed each other" } else { "" };
        let Some(missed) = &self.missed else { return format!("{when}{circle}") };
        let when = when.replace(", not since ", ", not seen to since ");
        format!("{when}{circle}; after that, not all was recorded: {missed}")
    }

    /// What its times tell.
    fn times(&self) -> Weighed {
        let Source { time, certain, of_value, since_last, meanwhile, .. } = *self;
        Weighed { time, certain, of_value, since_last, meanwhile }
    }
}

impl Answer {
    /// The name that was asked for.
    pub fn pv(&self) -> &str {
        &self.pv
    }

    /// When it last changed or may have, and whether it did; `None` if it did not.
    pub(super) fn last_change(&self) -> Option<(i64, bool)> {
        let changed = Some(self.lead.changed_at()).filter(|_| self.changed);
        match (changed, self.lead.doubt) {
            (Some(changed), Some(doubt)) if doubt > changed => Some((doubt, false)),
            (Some(changed), _) => Some((changed, true)),
            (None, doubt) => doubt.map(|doubt| (doubt, false)),
        }
    }

    /// When the record began to process the last time before, if that is known.
    pub fn processed_before(&self) -> Option<i64> {
        self.lead.processed
    }

    /// The record whose inputs are to be looked up, and for which wall-clock time; `None` if a put was the cause.
    pub fn inputs_wanted(&self) -> Option<(Place, i64)> {
        let own = self.lead.own.as_ref()?;
        Some((own.place()?, own.start))
    }

    /// Takes what is known of the record's inputs. Returns its links.
    pub fn add_inputs(&mut self, known: Known) -> Vec<Source> {
        let inputs = match known {
            Known::All(inputs) => inputs,
            Known::Changed => {
                self.inputs =
                    Some("a put had changed one of its links, and the log does not hold what they were then");
                return Vec::new();
            }
            Known::No if self.lead.is_by_link() => return Vec::new(),
            Known::No => {
                self.inputs = Some(
                    "the log does not hold its input links (the recorder notes them with snapshots), nor what a device gave",
                );
                return Vec::new();
            }
        };
        self.device = inputs.device;
        let Some((place, own)) = self.inputs_wanted().map(|wanted| wanted.0).zip(self.lead.own.as_ref())
        else {
            return Vec::new();
        };
        let sources = inputs.links.into_iter().map(|link| {
            let (kind, source) = match link.from {
                From::Pv(pv) => ("pv", Some(pv)),
                From::Device(device) => ("device", Some(device)),
                From::Json(_) => ("json", None),
                From::Hardware => ("hardware", None),
            };
            let pv = source.as_deref().filter(|_| kind == "pv");
            Source {
                link: format!("{}.{}", place.record, link.field),
                neighbour: pv.and_then(|pv| own.neighbour(Pv::new(pv).record)),
                text: link.text,
                kind,
                source,
                recorded: None,
                circle: false,
                not_followed: false,
                before_s: None,
                certain: false,
                since_last: None,
                meanwhile: false,
                of_value: false,
                missed: None,
                change: None,
                time: None,
            }
        });
        let followed = |source: &Source| self.links.iter().any(|link| link.is(&source.link));
        sources.filter(|source| !followed(source)).collect()
    }

    /// The wall-clock times in which changes of sources are looked for: from when the record processed before, and a
    /// minute at least, to the end of its processing.
    pub fn reach(&self) -> (i64, i64) {
        let Some(reading) = self.reading() else { return (0, 0) };
        (reading.since(), reading.end.saturating_add(1))
    }

    /// The processing whose inputs are weighed.
    fn reading(&self) -> Option<Reading> {
        let own = self.lead.own.as_ref()?;
        Some(Reading { before: self.lead.processed, start: own.start, end: own.end })
    }

    /// What to search for, for a source: of a field that processing may change, its puts and the record's value.
    pub fn searches(&self, source: &Source) -> Vec<(String, Filter, Ask)> {
        let Some(pv) = source.pv() else { return Vec::new() };
        let name = Pv::new(pv);
        let (since, until) = self.reach();
        let mut filter = Filter { since: Some(since), until: Some(until), ..Filter::default() };
        if source.neighbour.is_some() {
            let (ioc, host) = self.place();
            let place = |name: &str| Some(name).filter(|name| !name.is_empty()).map(Pattern::literally);
            (filter.ioc, filter.host) = (place(ioc), place(host));
        }
        let record = source.neighbour.clone().unwrap_or_else(|| name.record.to_owned());
        let of_field = (format!("{record}.{}", name.field), filter.clone(), Ask::Value);
        match Part::of(name.field) {
            Part::Value => vec![(record, filter, Ask::Value)],
            Part::Alarm => vec![(record, filter, Ask::Alarm)],
            Part::Setting => vec![of_field],
            Part::Other => vec![of_field, (record, filter, Ask::Value)],
        }
    }

    /// Weighs what was found for a source.
    pub fn weigh(&self, source: &mut Source, found: Vec<Change>) {
        let (Some(reading), "pv") = (self.reading(), source.kind) else { return };
        let mut found = found.into_iter().map(|change| {
            let (time, certain) = change.as_ref().and_then(Answer::last_change)?;
            let change = change?;
            let same_chain = change.lead.is_of(&self.lead);
            Some((change, weighing::Change { time, certain, same_chain }))
        });
        let (of_field, of_value) = (found.next().flatten(), found.next().flatten());
        let times = |found: &Option<(Answer, weighing::Change)>| found.as_ref().map(|(_, change)| *change);
        let weighed = reading.weigh(times(&of_field), times(&of_value));
        let change = if weighed.of_value { of_value } else { of_field }.map(|(change, _)| change);
        source.before_s = weighed.time.map(|time| reading.age(time) as f64 / SECOND as f64);
        let Weighed { time, certain, of_value, since_last, meanwhile } = weighed;
        (source.time, source.certain, source.of_value) = (time, certain, of_value);
        (source.since_last, source.meanwhile) = (since_last, meanwhile);
        source.circle = source.neighbour.as_deref() == Some(Pv::new(&self.pv).record)
            && source.pv().is_some_and(|pv| Pv::new(pv).field == "VAL");
        source.change = change.filter(|_| !source.circle).map(Box::new);
    }

    /// Adds its sources: first those that may have been the cause, the latest first.
    pub fn add_sources(&mut self, mut sources: Vec<Source>) {
        sources.sort_by_key(|source| (!source.may_be_the_cause(), std::cmp::Reverse(source.time)));
        self.sources = sources;
    }

    /// Number of its inputs that may have been the cause.
    fn causes(&self) -> usize {
        self.sources.iter().filter(|source| source.may_be_the_cause()).count()
    }

    /// Writes its inputs.
    pub(super) fn write_input_lines(&self, out: &mut Out) -> io::Result<()> {
        let Some(own) = &self.lead.own else { return Ok(()) };
        let record = own.name();
        if let Some(inputs) = self.inputs {
            line!(out, "The inputs of {record} are not known: {inputs}.")?;
            return self.write_meanwhile(out);
        }
        let support =
            self.device.as_deref().map_or(String::new(), |name| format!(" (device support {name})"));
        if self.sources.is_empty() && self.links.is_empty() && !self.lead.is_by_link() {
            line!(
                out,
                "No input link of {record} leads anywhere: its value was put, or is its own doing{support}."
            )?;
            return self.write_meanwhile(out);
        }
        if self.causes() > 1 {
            line!(
                out,
                "It may have been any of these inputs of {record} that changed since it processed before, the latest first:"
            )?;
        }
        for source in &self.sources {
            let link = &source.link;
            match (source.kind, &source.source) {
                ("device", Some(device)) => line!(out, "{link} reads a device, @{device}{support}")?,
                ("pv", Some(_)) if source.circle && source.change.is_none() => {
                    line!(out, "{link} reads the record itself")?;
                }
                ("pv", Some(pv)) => {
                    line!(out, "{link} reads {pv}, {}{}", source.weighed(), remark(Pv::new(link).field))?
                }
                ("json", _) => {
                    let text = source.text.as_deref().unwrap_or("?");
                    line!(out, "{link} is {text}, which is not followed")?;
                }
                _ => line!(out, "{link} reads hardware whose address is not in the log{support}")?,
            }
        }
        let is_open =
            |source: &Source| source.kind != "pv" || source.recorded == Some(false) || source.not_followed;
        if self.causes() == 0 && self.links.is_empty() && !self.sources.iter().any(is_open) {
            line!(out, "No input of {record} is known to have changed since it processed before.")?;
            self.write_meanwhile(out)?;
        }
        Ok(())
    }

    /// Writes what led to those of its inputs that may have been the cause.
    pub(super) fn write_input_changes(&self, out: &mut Out) -> io::Result<()> {
        for source in self.sources.iter().filter(|source| source.may_be_the_cause()) {
            if let Some(change) = &source.change {
                line!(out)?;
                change.write_text(out)?;
            }
        }
        Ok(())
    }
}
