//! The inputs of a record that no put made process: each with the last change of its source, weighed by its time.
//!
//! Nothing in EPICS Base shows which input changed a record's value. So an input whose source changed since the record
//! processed before *may* have been the cause; one whose source did not change since then was none. All are shown.

use super::sources::LOOK_BACK;
use super::{Answer, Ask};
use crate::filter::{Filter, Pattern};
use crate::inputs::Place;
use crate::model::inputs::{From, Known};
use crate::out::{line, Out};
use crate::time::{duration, SECOND};
use epics::Pv;
use serde::Serialize;
use std::io;

/// Fields that only puts change: alarm and display limits, and what people configure.
const ONLY_PUTS: [&str; 21] = [
    "HIHI", "HIGH", "LOW", "LOLO", "HHSV", "HSV", "LSV", "LLSV", "HYST", "HOPR", "LOPR", "DRVH", "DRVL",
    "EGU", "PREC", "DESC", "SCAN", "ADEL", "MDEL", "DISV", "PRIO",
];
/// Fields that are the record's alarm.
const ALARM: [&str; 2] = ["SEVR", "STAT"];
/// A source's chain is noted some microseconds before or after it has changed.
const SKEW: i64 = SECOND as i64 / 1000;

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
        self.change.is_some() && self.since_last != Some(false) && !self.circle
    }

    /// What is known of it, in words.
    fn weighed(&self) -> String {
        match (self.kind, self.recorded, &self.change) {
            ("pv", _, _) if self.not_followed => {
                "which was not looked for: too many inputs lead here".to_owned()
            }
            ("pv", Some(false), _) => "which is not in these logs".to_owned(),
            ("pv", _, None) => match self.since_last {
                Some(false) => "which is not known to have changed since it processed before".to_owned(),
                _ => "no change of which is in the log in the minute before".to_owned(),
            },
            ("pv", _, Some(change)) => self.when(change),
            _ => String::new(),
        }
    }

    /// When its source changed.
    fn when(&self, change: &Answer) -> String {
        let before = duration((self.before_s.unwrap_or(0.0) * SECOND as f64) as u64);
        let changed = match (self.certain, self.of_value) {
            (true, true) => {
                format!("a field that processing may change; {} last changed {before} before", change.pv)
            }
            (false, true) => {
                format!("a field that processing may change; {} last processed {before} before", change.pv)
            }
            (true, false) => format!("which changed {before} before"),
            (false, false) => {
                format!("which was processed or written {before} before; whether it changed is not known")
            }
        };
        let when = match self.since_last {
            Some(false) => ", not since it processed before",
            None => "; when it processed before is not known",
            Some(true) if self.meanwhile => ", while it processed: it may have been read before that",
            Some(true) => "",
        };
        let circle = if self.circle { ", and is followed already: they feed each other" } else { "" };
        format!("{changed}{when}{circle}")
    }
}

impl Answer {
    /// The name that was asked for.
    pub fn pv(&self) -> &str {
        &self.pv
    }

    /// When it last changed or may have, and whether it did; `None` if it did not.
    fn last_change(&self) -> Option<(i64, bool)> {
        let changed = Some(self.lead.changed_at()).filter(|_| self.changed);
        match (changed, self.lead.doubt) {
            (Some(changed), Some(doubt)) if doubt > changed => Some((doubt, false)),
            (Some(changed), _) => Some((changed, true)),
            (None, doubt) => doubt.map(|doubt| (doubt, false)),
        }
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
        let Some(own) = &self.lead.own else { return (0, 0) };
        let since = own.start.saturating_sub(LOOK_BACK);
        let processed = self.lead.processed.map_or(since, |processed| processed.saturating_sub(SKEW));
        (since.min(processed), own.end.saturating_add(1))
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
        let field = name.field;
        if field == "VAL" {
            return vec![(record, filter, Ask::Value)];
        }
        if ALARM.contains(&field) {
            return vec![(record, filter, Ask::Alarm)];
        }
        let mut searches = vec![(format!("{record}.{field}"), filter.clone(), Ask::Value)];
        if !ONLY_PUTS.contains(&field) {
            searches.push((record, filter, Ask::Value));
        }
        searches
    }

    /// Weighs what was found for a source.
    pub fn weigh(&self, source: &mut Source, found: Vec<Change>) {
        let (Some(own), true) = (&self.lead.own, source.kind == "pv") else { return };
        let processed = self.lead.processed;
        let since = |time: i64| processed.map(|processed| time > processed);
        let mut found = found.into_iter().map(|change| {
            let (time, certain) = change.as_ref().and_then(Answer::last_change)?;
            Some((change?, time, certain))
        });
        let (of_field, of_value) = (found.next().flatten(), found.next().flatten());
        let is_recent = |(_, time, _): &(Answer, i64, bool)| since(*time) != Some(false);
        source.of_value = of_value.is_some() && !of_field.as_ref().is_some_and(is_recent);
        let found = if source.of_value { of_value } else { of_field };
        source.certain = found.as_ref().is_some_and(|(_, _, certain)| *certain);
        let (change, time) = found.map(|(change, time, _)| (change, time)).unzip();
        source.before_s = time.map(|time| own.end.saturating_sub(time).max(0) as f64 / SECOND as f64);
        // where nothing was found, nothing has changed in all of the time looked at
        source.since_last = time.map_or(processed.map(|_| false), since);
        let same_chain = change.as_ref().is_some_and(|change| change.lead.is_of(&self.lead));
        source.meanwhile = !same_chain && time.is_some_and(|time| time > own.start.saturating_sub(SKEW));
        source.circle = source.neighbour.as_deref() == Some(Pv::new(&self.pv).record)
            && source.pv().is_some_and(|pv| Pv::new(pv).field == "VAL");
        (source.time, source.change) = (time, change.filter(|_| !source.circle).map(Box::new));
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
                ("pv", Some(pv)) => line!(out, "{link} reads {pv}, {}{}", source.weighed(), remark(link))?,
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

/// When a link is read, if that is not always.
fn remark(link: &str) -> &'static str {
    match Pv::new(link).field {
        "DOL" => " (read in closed loop only)",
        "SIOL" => " (read in simulation only)",
        _ => "",
    }
}
