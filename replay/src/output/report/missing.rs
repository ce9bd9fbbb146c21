//! What this log can't say: losses, gaps, damage, and what no recorder sees.
//!
//! The list is always there. Without an entry it says so: then the recorder knows of nothing that is missing.

use super::clock::{count, length, lost, plural};
use super::collect::notes::RunNotes;
use super::collect::puts::{UNKNOWN, WIRE_ONLY};
use super::facts::Facts;
use super::moments::AROUND;
use crate::time::duration;
use iocrec_log::event::Linkage;
use std::collections::{BTreeMap, HashSet};

/// Losses and gaps that have a line of their own; the others are in the next line together.
const MAX_EACH: usize = 4;

/// Something that is missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// What.
    pub what: String,
    /// When and why.
    pub why: String,
    /// The link that shows it, and its word.
    pub link: Option<(String, &'static str)>,
}

fn item(what: impl Into<String>, why: impl Into<String>) -> Item {
    Item { what: what.into(), why: why.into(), link: None }
}

/// The same with a link to the part of the page that shows more.
fn shown_at(link: impl Into<String>, item: Item) -> Item {
    Item { link: Some((link.into(), "show")), ..item }
}

/// Everything that is missing.
pub fn missing(facts: &Facts) -> Vec<Item> {
    let mut items = Vec::new();
    losses(facts, &mut items);
    gaps(facts, &mut items);
    storage(facts, &mut items);
    processes(facts, &mut items);
    puts(facts, &mut items);
    items
}

fn losses(facts: &Facts, items: &mut Vec<Item>) {
    let mut losses: Vec<_> = facts.losses.iter().collect();
    losses.sort_by_key(|loss| std::cmp::Reverse(loss.count));
    for loss in losses.iter().take(MAX_EACH) {
        let span = facts.clock.span(loss.from, loss.to);
        let link = facts.clock.link(loss.from, loss.to);
        let why = format!("{span}, {}; counts there are minima.", loss.cause);
        let link = Some((link, "show"));
        items.push(Item { link, ..item(format!("{} lost", lost(loss.count, loss.what)), why) });
    }
    let others = losses.get(MAX_EACH..).unwrap_or_default();
    if !others.is_empty() {
        let total = others.iter().map(|loss| loss.count).fold(0, u64::saturating_add);
        let what = match others.len() {
            1 => "1 more loss".to_owned(),
            more => format!("{more} more losses"),
        };
        items.push(item(what, format!("{} in all; iocreplay info lists them.", plural(total, "thing"))));
    }
}

fn gaps(facts: &Facts, items: &mut Vec<Item>) {
    let mut gaps: Vec<_> = facts.gaps.iter().collect();
    gaps.sort_by_key(|gap| std::cmp::Reverse(gap.to.saturating_sub(gap.from)));
    for gap in gaps.iter().take(MAX_EACH) {
        let what = match gap.ioc.map(|ioc| facts.ioc(ioc)) {
            Some(ioc) => format!("{} of {ioc} not recorded", length(gap.to.saturating_sub(gap.from))),
            None => format!("{} not recorded", length(gap.to.saturating_sub(gap.from))),
        };
        let why = format!("{}, {}.", facts.clock.span(gap.from, gap.to), gap.cause);
        let link = Some((facts.clock.link(gap.from, gap.to), "show"));
        items.push(Item { link, ..item(what, why) });
    }
    let others = gaps.get(MAX_EACH..).unwrap_or_default();
    if !others.is_empty() {
        items.push(item(plural(others.len() as u64, "more gap"), "iocreplay info lists them."));
    }
}

/// What the log itself lacks.
fn storage(facts: &Facts, items: &mut Vec<Item>) {
    let sum = |of: fn(&RunNotes) -> u64| facts.runs.iter().map(of).sum::<u64>();
    let segments = sum(|run| run.missing_segments);
    if segments > 0 {
        let what = format!("{} missing", plural(segments, "segment"));
        let why = "between others: deleted to stay under the cap, or not copied.";
        items.push(shown_at("#timeline", item(what, why)));
    }
    // of each host by itself; what is missing between two runs of one is a gap
    let several = facts.runs.iter().any(|run| Some(run.host()) != facts.runs.first().map(RunNotes::host));
    let mut hosts = HashSet::new();
    let firsts = facts.runs.iter().filter(|run| hosts.insert(run.host()) && run.first_segment > 0);
    for (begin, host) in firsts.filter_map(|run| Some((run.begin?, run.host()))).take(MAX_EACH) {
        let of = if several { format!(" of {host}") } else { String::new() };
        let begin = facts.clock.time(begin, 0);
        items.push(item(
            "What was before",
            format!("the recorder's first segments are not here; the log{of} begins at {begin}."),
        ));
    }
    let holes = &facts.found.notes.holes;
    if let Some(first) = holes.iter().min() {
        let what = format!("{} of the log", plural(holes.len() as u64, "part"));
        let why = format!(
            "missing or damaged, first after {}; iocreplay verify says more.",
            facts.clock.time(*first, 1)
        );
        let link = Some((
            facts.clock.link(first.saturating_sub(2_000_000_000), first.saturating_add(2_000_000_000)),
            "show",
        ));
        items.push(Item { link, ..item(what, why) });
    }
    let refused = sum(|run| run.refused) + facts.found.places.refused;
    if refused > 0 {
        items.push(item(
            plural(refused, "definition"),
            "took more memory than logs of this size may: names are missing.",
        ));
    }
    let sampled = facts.found.notes.sampled;
    if sampled > 0 {
        let what = format!("{} not recorded", plural(sampled, "chain"));
        let why = "by chain sampling (--thin), never one that a put from outside began; counts are minima.";
        items.push(shown_at("#chains", item(what, why)));
    }
    for run in &facts.runs {
        if let Some((tier, true, refused)) = run.tier() {
            let what = match tier {
                "packet" => "Processing".to_owned(),
                tier => format!("Tier {tier} only"),
            };
            let here = match tier {
                "packet" => "only the network was recorded",
                _ => "more may be lost under load than with tier ring",
            };
            let why = if refused.is_empty() { format!("{here}.") } else { format!("{here}: {refused}.") };
            let new = shown_at("#timeline", item(what, why));
            if !items.contains(&new) {
                items.push(new);
            }
        }
        if run.clock_set.is_some() {
            items.push(item("The clock was set late", "earlier times are computed back from then."));
        }
        if let Some(by) = run.set_back.first().and_then(|step| step.back()) {
            let what = format!("The clock was set back by {}", duration(by));
            items.push(item(
                what,
                "what happened before and after that is mixed; what seems last may not be.",
            ));
        }
    }
    for clocks in &facts.clocks {
        items.push(item("Several hosts:", format!("{clocks}.")));
    }
    let not_listed = facts.found.notes.not_listed;
    if not_listed > 0 {
        items
            .push(item(format!("{} losses and marks", count(not_listed)), "are too many to be listed here."));
    }
}

/// Signals that a process mostly brings upon itself: by a bad instruction or address, or by abort(). That somebody sent it is
/// no more known than that nobody did.
const OWN_FAULTS: [&str; 7] = ["SIGSEGV", "SIGABRT", "SIGBUS", "SIGFPE", "SIGILL", "SIGTRAP", "SIGSYS"];

/// What IOCs did not show.
fn processes(facts: &Facts, items: &mut Vec<Item>) {
    for end in facts.ends.iter().filter(|end| end.rank() == 3) {
        let signal = end.how.rsplit("killed by ").next().unwrap_or_default();
        let signal = signal.split([' ', ',', '(']).next().unwrap_or_default();
        // by whom, or where
        if end.how.contains("sent by") || end.how.contains(", thread ") {
            continue;
        }
        let ioc = facts.ioc(end.ioc);
        let item = match OWN_FAULTS.contains(&signal) {
            true => item(
                format!("Where {signal} came from"),
                format!("in {ioc}, from its own code or from another process: not in this log."),
            ),
            false => item(format!("Who sent {signal}"), format!("to {ioc}: not in this log.")),
        };
        let link = facts.clock.link(end.time.saturating_sub(AROUND), end.time.saturating_add(AROUND));
        items.push(shown_at(link, item));
    }
    unknown_spans(facts, items);
    let mut not_probed: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for place in &facts.found.places.iocs {
        for probe in place.ioc.iter().flat_map(|ioc| &ioc.not_probed) {
            not_probed.entry(probe).or_default().push(&place.name);
        }
    }
    let more = not_probed.len().saturating_sub(MAX_EACH);
    for (probe, mut iocs) in not_probed.into_iter().take(MAX_EACH) {
        iocs.dedup();
        let (name, reason) = probe.split_once(':').unwrap_or((probe, ""));
        let whose = match iocs.as_slice() {
            [one] => (*one).to_owned(),
            some => format!("{} IOCs", some.len()),
        };
        items.push(shown_at("#iocs", item(format!("{name} not probed"), format!("{whose}:{reason}."))));
    }
    if more > 0 {
        let why = "not in place; the cards of the IOCs list them.";
        items.push(shown_at("#iocs", item(plural(more as u64, "more probe"), why)));
    }
}

/// IOCs of which the log does not say when they were recorded: logs of older recorders.
fn unknown_spans(facts: &Facts, items: &mut Vec<Item>) {
    let mut unknown: Vec<&str> = Vec::new();
    for run in &facts.runs {
        let probed = run.tier().is_none_or(|(tier, ..)| tier != "packet");
        let iocs = run.inventory.context().iocs().filter(|ioc| probed && ioc.linkage != Linkage::Foreign);
        let of = iocs.filter(|ioc| run.inventory.spans().recorded(ioc.id).next().is_none());
        unknown.extend(of.map(|ioc| ioc.name.as_str()));
    }
    unknown.sort_unstable();
    unknown.dedup();
    let whose = match unknown.as_slice() {
        [] => return,
        some if some.len() <= MAX_EACH => some.join(", "),
        some => format!("{} IOCs", some.len()),
    };
    items.push(item("Gaps", format!("{whose}: the log does not say from when to when they were recorded.")));
}

fn puts(facts: &Facts, items: &mut Vec<Item>) {
    let puts = &facts.found.puts.all;
    let unknown = puts.iter().filter(|put| put.flags & UNKNOWN != 0).count();
    let wire = puts.iter().filter(|put| put.flags & UNKNOWN != 0 && put.flags & WIRE_ONLY != 0).count();
    if unknown > 0 {
        let what = format!("{}, outcome unknown", plural(unknown as u64, "put"));
        let why = match wire {
            0 => "they may have been refused, or have had no effect.".to_owned(),
            wire if wire == unknown => {
                "seen on the network only: the value before is not known either.".to_owned()
            }
            wire => format!("{wire} of them seen on the network only: no old value."),
        };
        let link = Some(("#kind=unknown&at=puts".to_owned(), "list"));
        items.push(Item { link, ..item(what, why) });
    }
    let late = facts.found.alarms.late;
    if late > 0 {
        let what = format!("Order of {}", plural(late, "alarm transition"));
        items.push(item(what, "records completed out of the order in which they began."));
    }
}
