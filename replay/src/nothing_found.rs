//! Why there is nothing to show: a line for who asked, instead of silence.
//!
//! Of what was asked for it is found out what the logs do not have: the host, the IOC, the PV (and which they may have
//! been meant to be), the time (and which there is), or anything of the kind at all. It is looked for only when nothing was
//! found, so it may cost another look through the logs.

use crate::filter::Filter;
use crate::notices::Notices;
use crate::suggest;
use crate::time::Zone;
use iocrec_log::context::Context;
use iocrec_log::event::{Fact, Tier};
use iocrec_log::glob::Glob;
use iocrec_log::reader::{Ahead, SegmentFile};
use std::collections::BTreeSet;

/// Names of hosts and IOCs that are listed.
const LISTED: usize = 5;
/// Those that are remembered, and bytes of one; bounds for hostile logs.
const MAX_NAMES: usize = 1000;
const MAX_LENGTH: usize = 1000;

/// What was looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Puts from outside of the IOCs, or all.
    Puts,
    /// Process chains.
    Chains,
    /// IOCs.
    Iocs,
    /// Records.
    Records,
}

/// The patterns that were given, as the user wrote them.
#[derive(Default)]
pub struct Asked<'a> {
    /// `--pv`
    pub pv: Option<&'a str>,
    /// `--ioc`
    pub ioc: Option<&'a str>,
    /// `--host`
    pub host: Option<&'a str>,
}

/// What the logs hold.
#[derive(Default)]
pub struct Held {
    hosts: BTreeSet<String>,
    iocs: BTreeSet<String>,
    /// Wall-clock times of the first and the last that happened.
    span: Option<(i64, i64)>,
    puts: bool,
    processing: bool,
    /// All that was recorded was recorded without probes.
    packets_only: bool,
}

impl Held {
    /// Looks through the logs. What can't be read has been said already.
    pub fn look(runs: &[Vec<SegmentFile>]) -> Held {
        let mut held = Held { packets_only: true, ..Held::default() };
        for files in runs {
            let mut context = Context::default();
            for file in files {
                let Ok(mut segment) = Ahead::open(&file.path, |segment| segment.limit(file.limit)) else {
                    continue;
                };
                while let Some(block) = segment.next_block() {
                    for event in block.into_iter().flat_map(|block| block.events) {
                        held.event(&mut context, event.time, &event.fact);
                    }
                }
            }
        }
        held
    }

    fn event(&mut self, context: &mut Context, time: u64, fact: &Fact) {
        match fact {
            Fact::Host(host) => remember(&mut self.hosts, &host.name),
            Fact::Ioc(ioc) => remember(&mut self.iocs, &ioc.name),
            Fact::Tier(tier) => self.packets_only &= tier.tier == Tier::Packet,
            Fact::CaPut(_) | Fact::Put(_) | Fact::CaLinkPut(_) => self.puts = true,
            Fact::Process(_) | Fact::Complete(_) | Fact::RsetProcess(_) => self.processing = true,
            Fact::Clock(_) => {}
            _ => return,
        }
        match fact {
            Fact::Host(_) | Fact::Clock(_) => context.apply(time, fact),
            Fact::Ioc(_) | Fact::Tier(_) => {}
            _ => {
                let Some(wall) = context.wall(time) else { return };
                let (first, last) = self.span.unwrap_or((wall, wall));
                self.span = Some((first.min(wall), last.max(wall)));
            }
        }
    }

    /// What of the filter these logs don't have; `None` if each part of it by itself fits something.
    pub fn lacks(&self, asked: &Asked, filter: &Filter, zone: &Zone) -> Option<String> {
        if let Some(line) = none_of("host", asked.host, &filter.host, &self.hosts) {
            return Some(line);
        }
        if let Some(line) = none_of("IOC", asked.ioc, &filter.ioc, &self.iocs) {
            return Some(line);
        }
        if let (Some(since), Some(until)) = (filter.since, filter.until) {
            if since >= until {
                let [since, until] = [since, until].map(|time| zone.format(time, 3));
                return Some(format!("no time is from {since} on and before {until}"));
            }
        }
        let (first, last) = self.span?;
        let outside = filter.since.is_some_and(|since| since > last)
            || filter.until.is_some_and(|until| until <= first);
        outside.then(|| {
            format!("nothing was recorded at that time; these logs hold {}", between(first, last, zone))
        })
    }

    /// The time that the logs hold, in words.
    pub fn time(&self, zone: &Zone) -> Option<String> {
        self.span.map(|(first, last)| between(first, last, zone))
    }
}

fn remember(names: &mut BTreeSet<String>, name: &str) {
    if name.len() <= MAX_LENGTH && names.len() < MAX_NAMES {
        names.insert(name.to_owned());
    }
}

fn between(first: i64, last: i64, zone: &Zone) -> String {
    format!("{} to {}", zone.format(first, 3), zone.format(last, 3))
}

/// Says why nothing was found. `hidden`: there would be puts with `--all`.
pub fn explain(
    kind: Kind,
    runs: &[Vec<SegmentFile>],
    asked: &Asked,
    filter: &Filter,
    hidden: bool,
    zone: &Zone,
    notices: &mut Notices,
) {
    let held = Held::look(runs);
    let line = held
        .lacks(asked, filter, zone)
        .or_else(|| {
            hidden.then(|| "only puts of database links and CA links match; --all shows them".to_owned())
        })
        .or_else(|| held.nothing_of(kind))
        .or_else(|| no_pv(asked.pv?, runs))
        .unwrap_or_else(|| {
            let what = match kind {
                Kind::Puts => "no put matches",
                Kind::Chains => "no chain matches",
                Kind::Iocs => "no IOC matches",
                Kind::Records => "no record matches",
            };
            let all = match asked.pv.is_some() || asked.ioc.is_some() || asked.host.is_some() {
                true => " all that is asked for at once",
                false => " at that time",
            };
            format!("{what}{all}; leave something out, or see iocreplay info")
        });
    notices.say(&line);
}

impl Held {
    /// Is there nothing of the kind, whatever is asked for?
    fn nothing_of(&self, kind: Kind) -> Option<String> {
        let line = match kind {
            Kind::Iocs if self.iocs.is_empty() => "no IOC ran while these logs were recorded",
            Kind::Records if self.iocs.is_empty() => {
                "no IOC ran while these logs were recorded, so there are no records"
            }
            Kind::Chains if !self.processing && !self.puts && self.packets_only => {
                "these logs hold no processing: they were recorded without probes (the packet tier; iocreplay info \
                 says why)"
            }
            Kind::Chains if !self.processing && !self.puts => {
                "these logs hold no processing and no puts: nothing happened, or it was not to be recorded \
                 (--no-process, --no-puts)"
            }
            Kind::Puts if !self.puts => {
                "these logs hold no puts: nobody wrote to a PV, or they were not to be recorded (--no-puts)"
            }
            _ => return None,
        };
        Some(line.to_owned())
    }
}

/// No PV has a name that matches the pattern.
fn no_pv(pattern: &str, runs: &[Vec<SegmentFile>]) -> Option<String> {
    let names = suggest::names(runs);
    let glob = Glob::new(pattern);
    // a pattern may name a field as well, which the names do not
    let of_record = pattern.rsplit_once('.').map(|(record, _)| Glob::new(record));
    let is_there =
        |name: &String| glob.matches(name) || of_record.as_ref().is_some_and(|glob| glob.matches(name));
    if names.iter().any(is_there) {
        return None;
    }
    Some(match suggest::nearest(&names, pattern.trim_matches('*')).as_slice() {
        [] => format!("no PV or record matches '{pattern}'; iocreplay records shows those there are"),
        near => format!("no PV or record matches '{pattern}'; did you mean {}?", near.join(", ")),
    })
}

/// No host, or no IOC, has a name that matches.
fn none_of(
    what: &str,
    pattern: Option<&str>,
    glob: &Option<Glob>,
    names: &BTreeSet<String>,
) -> Option<String> {
    let (pattern, glob) = (pattern?, glob.as_ref()?);
    if names.iter().any(|name| glob.matches(name)) {
        return None;
    }
    let near = suggest::nearest(names, pattern.trim_matches('*'));
    let mut listed: Vec<&str> = near.iter().map(String::as_str).collect();
    listed.extend(names.iter().map(String::as_str).filter(|name| !near.iter().any(|other| other == name)));
    let more = listed.len().saturating_sub(LISTED);
    listed.truncate(LISTED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    Some(match listed.as_slice() {
        [] => format!("no {what} matches '{pattern}': these logs know none"),
        listed => format!("no {what} matches '{pattern}'; there is {}{more}", listed.join(", ")),
    })
}
