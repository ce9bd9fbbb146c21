//! The page: its head as HTML, which can be read without scripts, and the data for the rest.

use super::clock::{count, plural};
use super::facts::Facts;
use super::missing::Item;
use super::moments::Moment;
use super::strings::shown;
use super::verdict::Part;
use crate::answers::console::Row;
use crate::names::linkage_name;
use crate::output::console::said;
use askama::Template;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

/// The plotting library, uPlot 1.6.32, and its style.
const UPLOT: (&str, &str) = (include_str!("assets/uPlot.iife.min.js"), include_str!("assets/uPlot.min.css"));
/// Its licence, which must go with it.
const UPLOT_LICENCE: &str = include_str!("assets/uPlot-LICENSE");
/// The page's style.
const STYLE: &str = concat!(
    include_str!("assets/look.css"),
    include_str!("assets/sections.css"),
    include_str!("assets/print.css")
);
/// The page's code, one function around all files.
const SCRIPT: &str = concat!(
    "(() => {\n\"use strict\";\n",
    include_str!("assets/data.js"),
    include_str!("assets/format.js"),
    include_str!("assets/state.js"),
    include_str!("assets/canvas.js"),
    include_str!("assets/timeline.js"),
    include_str!("assets/brush.js"),
    include_str!("assets/filters.js"),
    include_str!("assets/puts.js"),
    include_str!("assets/values.js"),
    include_str!("assets/usage.js"),
    include_str!("assets/chains.js"),
    include_str!("assets/alarms.js"),
    include_str!("assets/top.js"),
    include_str!("assets/keys.js"),
    include_str!("assets/main.js"),
    "})();\n"
);

/// A line of an IOC's card.
pub struct Detail {
    name: &'static str,
    text: String,
}

/// An IOC's card.
pub struct Card {
    name: String,
    host: String,
    end: String,
    how: String,
    rank: u8,
    details: Vec<Detail>,
}

/// A line that an IOC printed.
pub struct SaidLine {
    at: String,
    ioc: String,
    text: String,
    /// `line`, `left_out` or `gave_up`.
    kind: &'static str,
}

/// The page.
#[derive(Template)]
#[template(path = "report.html")]
pub struct Page<'a> {
    /// Allows the page's own scripts and styles, and no others. It can't be guessed when a log is made.
    nonce: String,
    title: String,
    host: String,
    span: String,
    /// Whether nothing was recorded of what was asked for: then the page says nothing of what is missing, or was not seen.
    is_empty: bool,
    verdict: &'a [Part],
    /// What the page is limited to; empty if to nothing.
    limits: String,
    missing: &'a [Item],
    moments: &'a [Moment],
    said: Vec<SaidLine>,
    more_said: String,
    has_usage: bool,
    cards: Vec<Card>,
    footer: Vec<String>,
    command: String,
    licence: &'static str,
    uplot: (&'static str, &'static str),
    style: &'static str,
    script: &'static str,
    data: String,
}

impl<'a> Page<'a> {
    /// The page on these facts. `command`: the command line that makes it.
    pub fn new(
        facts: &Facts,
        (verdict, missing, moments): (&'a [Part], &'a [Item], &'a [Moment]),
        data: String,
        command: String,
    ) -> Page<'a> {
        let clock = &facts.clock;
        let (first, last) = facts.span;
        let (from, to) = (clock.time(first, 0), clock.time(last, 0));
        let date = if clock.has_days() { String::new() } else { format!("{}, ", clock.date(first)) };
        let host = hosts(facts);
        let has_usage = !facts.usage.words.is_empty();
        Page {
            nonce: nonce(),
            title: match facts.is_empty {
                true => format!("{host} – iocrec report"),
                false => format!("{host} {} – iocrec report", clock.date(first)),
            },
            span: match facts.is_empty {
                true => "nothing was recorded".to_owned(),
                false => format!("{date}{from} – {to} ({})", clock.offset()),
            },
            host,
            is_empty: facts.is_empty,
            verdict,
            limits: shown(&facts.limits.head()),
            missing,
            moments,
            said: said_lines(facts),
            more_said: Some(facts.found.said.more)
                .filter(|more| *more > 0)
                .map_or(String::new(), |more| plural(more, "earlier line")),
            has_usage,
            cards: cards(facts),
            footer: footer(facts),
            command: shown(&command),
            licence: UPLOT_LICENCE,
            uplot: UPLOT,
            style: STYLE,
            script: SCRIPT,
            data,
        }
    }
}

/// 128 random bits: `RandomState` takes its keys from the system.
fn nonce() -> String {
    let half = || RandomState::new().hash_one(std::process::id());
    format!("{:016x}{:016x}", half(), half())
}

fn hosts(facts: &Facts) -> String {
    let mut hosts: Vec<String> = facts.runs.iter().map(|run| shown(run.host())).collect();
    hosts.sort();
    hosts.dedup();
    match hosts.as_slice() {
        [] => "unknown host".to_owned(),
        [one] if one.is_empty() => "unknown host".to_owned(),
        [one] => one.clone(),
        some if some.len() <= 3 => some.join(", "),
        some => format!("{} hosts", some.len()),
    }
}

fn said_lines(facts: &Facts) -> Vec<SaidLine> {
    let line = |row: &Row| SaidLine {
        at: facts.clock.time(row.time, 3),
        ioc: shown(&row.ioc),
        text: shown(&said(row)),
        kind: row.kind.name(),
    };
    facts.found.said.lines.iter().map(line).collect()
}

fn cards(facts: &Facts) -> Vec<Card> {
    let mut records: HashMap<u32, u64> = HashMap::new();
    for record in facts.found.places.records.iter().filter(|record| record.processed.total() > 0) {
        *records.entry(record.ioc).or_default() += 1;
    }
    let places = facts.found.places.iocs.iter().enumerate();
    places
        .map(|(number, place)| {
            let number = u32::try_from(number).unwrap_or(u32::MAX);
            let end = facts.ends.iter().chain(&facts.other_ends).find(|end| end.ioc == number);
            let mut details = Vec::new();
            let mut add = |name, text: String| {
                if !text.is_empty() {
                    details.push(Detail { name, text: shown(&text) });
                }
            };
            if let Some(ioc) = &place.ioc {
                let ports = |ports: &[u16]| ports.iter().map(u16::to_string).collect::<Vec<_>>().join(", ");
                let base = if ioc.base_version.is_empty() { "version not known" } else { &ioc.base_version };
                add("Base", format!("{base}, {}", linkage_name(ioc.linkage)));
                add("pid", ioc.pid.to_string());
                add("User", ioc.user.clone());
                add("CA ports", ports(&ioc.ca_ports));
                add("PVA ports", ports(&ioc.pva_ports));
                add("Program", ioc.exe.clone());
                add("Command", ioc.command.join(" "));
                add("Directory", ioc.cwd.clone());
                let variables = ioc.environment.iter().map(|(name, value)| format!("{name}={value}"));
                add("Set", variables.collect::<Vec<_>>().join(" "));
                let seen = records.get(&number).copied().unwrap_or(0);
                add(
                    "Records",
                    format!(
                        "{}{} seen to process, {} times",
                        count(seen),
                        facts.limits.of_records(),
                        count(place.processed.total())
                    ),
                );
                let used = facts.usage.words.get(&number).cloned();
                add("Resources", used.unwrap_or_default());
                add("Not probed", ioc.not_probed.join("; "));
            }
            let gaps = facts.gaps.iter().filter(|gap| {
                gap.ioc.is_none_or(|ioc| ioc == number)
                    && gap.host.as_ref().is_none_or(|host| *host == place.host)
                    && end.is_none_or(|end| gap.from < end.time)
            });
            let gaps: Vec<String> = gaps
                .take(5)
                .map(|gap| format!("{} ({})", facts.clock.span(gap.from, gap.to), gap.cause))
                .collect();
            add("Not recorded", gaps.join("; "));
            Card {
                name: shown(&place.name),
                host: shown(&place.host),
                end: end.map_or(String::new(), |end| facts.clock.time(end.time, 0)),
                how: end.map_or("did not end in this log".to_owned(), |end| shown(&end.words())),
                rank: end.map_or(0, super::facts::IocEnd::rank),
                details,
            }
        })
        .collect()
}

fn footer(facts: &Facts) -> Vec<String> {
    let mut lines = Vec::new();
    let segments: u64 = facts.runs.iter().map(|run| run.segments.0 as u64).sum();
    let bytes: u64 = facts.runs.iter().map(|run| run.segments.1).sum();
    lines.push(format!(
        "{} in {}, {} bytes",
        plural(segments, "segment"),
        plural(facts.runs.len() as u64, "run"),
        count(bytes)
    ));
    let mut tiers: Vec<&str> =
        facts.runs.iter().filter_map(|run| run.tier()).map(|(tier, ..)| tier).collect();
    tiers.sort_unstable();
    tiers.dedup();
    lines.push(format!("tier {}", if tiers.is_empty() { "not known".to_owned() } else { tiers.join(", ") }));
    let step = facts.runs.iter().map(|run| run.time_step).max().unwrap_or(1);
    lines.push(match step {
        0..=1 => "times to the nanosecond".to_owned(),
        step => format!("times in steps of {} ns", count(step)),
    });
    let mut recorders: Vec<String> = facts
        .runs
        .iter()
        .filter_map(|run| run.inventory.context().host())
        .map(|host| format!("recorded by iocrec {} on {} {}", host.recorder, host.kernel, host.arch))
        .collect();
    recorders.sort();
    recorders.dedup();
    lines.extend(recorders.into_iter().take(3).map(|recorder| shown(&recorder)));
    lines.push(concat!("page by iocreplay ", env!("CARGO_PKG_VERSION")).to_owned());
    if facts.limits.are_any() {
        lines.push(shown(&facts.limits.foot()));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What passes the edge unchanged: the page is written as lines of text.
    #[test]
    fn nothing_of_our_own_needs_escaping() {
        for asset in [UPLOT.0, UPLOT.1, UPLOT_LICENCE, STYLE, SCRIPT] {
            let wrong = asset.lines().find(|line| !iocrec_log::escape::is_safe(line));
            assert_eq!(wrong, None);
            let script = asset.to_ascii_lowercase();
            assert!(!script.contains("</script") && !script.contains("</style") && !script.contains("<!--"));
        }
    }

    #[test]
    fn texts_become_text() {
        for forbidden in
            ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "Function("]
        {
            assert!(!SCRIPT.contains(forbidden), "{forbidden}");
        }
    }

    #[test]
    fn a_nonce_is_never_the_same() {
        assert_ne!(nonce(), nonce());
        assert_eq!(nonce().len(), 32);
    }
}
