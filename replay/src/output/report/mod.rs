//! The report: one self-contained page that someone attaches to the logbook.
//!
//! [`make`] reads the logs, once for what is missing and once for the chains; never more than `collect`'s bounds are
//! held. The head of the page (verdict, key moments, what is missing, IOCs) is HTML; the rest is data that the page's
//! own code draws, in `assets/`. docs/report.md describes the page and the rules of its head.
//!
//! Promises: the page loads nothing, has at most about 5 MB, and shows every text from the log as text.

mod clock;
mod collect;
mod data;
mod facts;
mod json;
mod limits;
mod missing;
mod moments;
mod page;
mod strings;
mod usage;
mod verdict;

use crate::answers::clients::{ClientLine, Clients, Slow};
use crate::answers::hangs::What;
use crate::answers::inputs::cp_sources;
use crate::answers::network::{Kind, NetLine, Network};
use crate::out::{line, Out};
use crate::time::Zone;
use crate::{Filter, Logs};
use askama::Template;
use clock::Clock;
use collect::{notes, Collected};
use facts::Facts;
use limits::Limits;
use std::collections::HashSet;
use std::io;

/// Time before an end or a loss that is kept in full where room is short, and after it: ten minutes.
const FOCUS: (i64, i64) = (540_000_000_000, 60_000_000_000);

/// The report, and whether it has anything to show.
pub struct Report {
    facts: Facts,
    /// Whether nothing was recorded in the chosen time, or nothing of what was asked for.
    pub is_empty: bool,
}

/// Reads the logs. `asked`: what is shown; of the rest, what is about whole IOCs and hosts is shown all the same.
pub fn make(logs: &Logs, asked: &Filter, zone: &Zone) -> Report {
    let filter = &asked.of_place_and_time();
    let mut runs = notes::read(&logs.without_notices());
    let mut found = Collected::default();
    found.places.add_runs(&runs);
    let ends = facts::ends(&runs, &mut found);
    let wanted: HashSet<u32> = found.places.numbers(|host, ioc| filter.place(host, ioc)).collect();
    let (ends, other_ends): (Vec<_>, Vec<_>) =
        ends.into_iter().partition(|end| filter.time(end.time) && wanted.contains(&end.ioc));
    runs.retain(|run| filter.host.as_ref().is_none_or(|glob| glob.matches(run.host())));
    let worst = ends.iter().min_by_key(|end| (u8::MAX - end.rank(), end.time)).map(|end| end.time);
    found.focus = worst.map(|at| (at.saturating_sub(FOCUS.0), at.saturating_add(FOCUS.1)));
    found.follow_links_of(cp_sources(logs));
    let mut replay = logs.replay(filter).with_asides();
    loop {
        let chain = replay.next();
        let began = chain.as_ref().and_then(|chain| Some(chain.run.wall(chain.root()?.start)));
        while let Some(aside) = replay.aside(began.unwrap_or(i64::MAX)) {
            found.take_aside(&aside, asked);
        }
        let Some(chain) = chain else { break };
        if filter.chain(&chain) {
            found.take(&chain, asked);
        }
        found.follow(&chain);
    }
    let focus = found.focus;
    found.finish();
    found.puts.finish(focus);
    let is_missed = !asked.is_of_place_and_time() && found.has_nothing_of(asked);
    let usage = usage::read(&logs.without_notices(), filter, &mut found.places);
    // A mark is of no IOC: it does not make a page on an IOC that the logs don't have.
    let none_matches = wanted.is_empty() && (filter.ioc.is_some() || filter.pod.is_some());
    let is_empty = none_matches || (found.span.is_none() && ends.is_empty());
    let spans = ends.iter().map(|end| (end.time, end.time)).chain(found.span).chain(usage.span);
    let span = spans.reduce(|(a, b), (c, d)| (a.min(c), b.max(d))).unwrap_or_default();
    runs.iter_mut().for_each(|run| run.add_unseen(span.1));
    let mut gaps = facts::gaps(&runs, &mut found);
    gaps.retain(|gap| gap.from <= span.1 && gap.to >= span.0);
    gaps.retain(|gap| gap.ioc.is_none_or(|ioc| wanted.contains(&ioc)));
    let step = runs.iter().map(|run| run.time_step).max().unwrap_or(1);
    let clock = Clock::new(span.0, span.1, zone, step);
    let mut losses = std::mem::take(&mut found.notes.losses);
    losses.sort_by_key(|loss| loss.from);
    let marks = std::mem::take(&mut found.notes.marks);
    let is_cut = filter.since.is_some();
    let mut hangs = logs.without_notices().hangs(filter);
    hangs.retain(|hang| matches!(hang.what, What::Stuck { .. }));
    hangs.sort_by(|a, b| b.seconds.0.total_cmp(&a.seconds.0).then(a.time.cmp(&b.time)));
    let other_iocs = found.places.numbers(|host, ioc| !filter.place(host, ioc)).collect();
    let (devices, slow) = devices_and_clients(&logs.without_notices(), filter, &ends, &found);
    let facts = Facts {
        devices,
        slow,
        runs,
        found,
        span,
        is_empty: none_matches || (is_empty && usage.span.is_none()),
        clock,
        limits: Limits::of(asked),
        ends,
        other_iocs,
        other_ends,
        is_cut,
        losses,
        gaps,
        marks,
        hangs,
        usage,
        clocks: logs.said_of_clocks().iter().map(ToString::to_string).collect(),
    };
    Report { facts, is_empty: is_empty || is_missed }
}

/// A connection that ends so shortly before its IOC, or after it was last looked at, ended with it; nanoseconds.
const WITH_IOC: i64 = 2_000_000_000;

/// Connections with devices, and clients that did not keep up.
fn devices_and_clients(
    logs: &Logs,
    filter: &Filter,
    ends: &[facts::IocEnd],
    found: &Collected,
) -> (Vec<NetLine>, Vec<(ClientLine, Slow)>) {
    let name = |end: &facts::IocEnd| {
        usize::try_from(end.ioc)
            .ok()
            .and_then(|ioc| found.places.iocs.get(ioc))
            .map(|ioc| (&ioc.host, &ioc.name))
    };
    let mut devices = Network::of_devices(logs, filter);
    devices.retain(|line| {
        let its = |end: &&facts::IocEnd| {
            name(end).is_some_and(|(host, name)| **host == *line.host && *name == line.ioc)
        };
        let mut ends = ends.iter().filter(its);
        filter.time(line.since)
            && (line.kind == Kind::Retransmissions
                || ends.all(|end| end.time.saturating_sub(line.since).saturating_abs() > WITH_IOC))
    });
    let slow = Clients::slow_ones(logs, filter).into_iter();
    let mut slow: Vec<(ClientLine, Slow)> =
        slow.flat_map(|line| line.slow.clone().into_iter().map(move |slow| (line.clone(), slow))).collect();
    slow.sort_by_key(|(_, slow)| (std::cmp::Reverse(slow.until.saturating_sub(slow.since)), slow.since));
    (devices, slow)
}

/// Writes the page. `command`: the command line that makes it, for the page's foot.
///
/// # Errors
/// If it can't be written.
pub fn write(out: &mut Out, mut report: Report, command: String) -> io::Result<()> {
    let mut verdict = verdict::verdict(&report.facts);
    let mut moments = moments::moments(&report.facts);
    let mut missing = missing::missing(&report.facts);
    let data = json::in_page(&data::data(&mut report.facts, &moments))?;
    // The head is HTML of many lines: no text from a log may begin one.
    let texts = verdict.iter_mut().map(|part| &mut part.text);
    let texts = texts.chain(missing.iter_mut().flat_map(|item| [&mut item.what, &mut item.why]));
    let texts = texts.chain(moments.iter_mut().flat_map(|moment| {
        [&mut moment.name, &mut moment.old, &mut moment.text, &mut moment.asked, &mut moment.aside]
    }));
    texts.for_each(|text| *text = strings::shown(text));
    let page = page::Page::new(&report.facts, (&verdict, &missing, &moments), data, command);
    let page = page.render().map_err(io::Error::other)?;
    page.lines().try_for_each(|text| line!(out, "{text}"))
}
