//! The verdict: one sentence on what ended, and what was recorded in the minute before.
//!
//! The rules:
//!
//! 1. It is about the worst end of an IOC: killed by a signal, then an exit status other than 0, then an end of which
//!    nothing is known, then exit status 0; of equal ones the first. Without an end it is about the loss that lasted
//!    longest; without a loss about the first record that went into the worst alarm; else it says that nothing ended.
//! 2. It counts puts from outside in the minute before that, and those who made them: users as clients claim them; the
//!    IOC shell and the CA links of another IOC count as one each. If nothing ended, was lost or went
//!    into alarm: in the whole log.
//! 3. It counts the records that went MAJOR or INVALID in that minute. A record that was in alarm when it was first seen
//!    did not go there.
//! 4. It names the record that CP links or events processed most often within 250 ms of that minute, if that was 1000
//!    times a second or more. It says "loop" only if each CP link on the way is known, and the way leads back.
//! 5. Where something is missing in that minute, counts are "at least". That nothing ended, or was lost, is said only where
//!    nothing is missing in which it may have been.
//!
//! Of a page that is limited to some PVs, users or clients (see [`super::limits`]), it counts these, and says so.
//!
//! It names no causes: what happened before need not be the reason.

use super::clock::{count, length, lost, plural};
use super::facts::Facts;
use crate::model::enum_strings::{severity_name, status_name};
use crate::reading::ended_unseen::UNSEEN;
use std::collections::HashSet;

/// A part of the sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Its words.
    pub text: String,
    /// Whether it is what matters.
    pub strong: bool,
    /// The link that shows what it is about.
    pub link: Option<String>,
}

const MINUTE: i64 = 60_000_000_000;

fn plain(text: impl Into<String>) -> Part {
    Part { text: text.into(), strong: false, link: None }
}

fn strong(text: impl Into<String>, link: Option<String>) -> Part {
    Part { text: text.into(), strong: true, link }
}

/// The verdict on these facts.
pub fn verdict(facts: &Facts) -> Vec<Part> {
    if facts.is_empty {
        return vec![strong("Nothing was recorded of what was asked for.".to_owned(), None)];
    }
    let (subject, at) = subject(facts);
    let from = at.map_or(facts.span.0, |at| at.saturating_sub(MINUTE).max(facts.span.0));
    let to = at.unwrap_or(facts.span.1);
    let mut parts = vec![subject];
    let recorded = to.saturating_sub(from);
    parts.push(plain(match at {
        Some(_) if recorded >= MINUTE => " In the minute before: ".to_owned(),
        Some(_) if recorded <= 0 && facts.is_cut => " Nothing before that was asked for.".to_owned(),
        Some(_) if recorded <= 0 => " Nothing before that is recorded.".to_owned(),
        Some(_) if facts.is_cut => {
            format!(" In the {} before, as far back as was asked for: ", length(recorded))
        }
        Some(_) => format!(" In the {} before, as far back as the log goes: ", length(recorded)),
        None => format!(" In these {}: ", length(recorded)),
    }));
    if at.is_some() && recorded <= 0 {
        return parts;
    }
    let mut said = vec![puts(facts, from, to)];
    said.extend(alarms(facts, from, to));
    said.extend(fastest(facts, from, to));
    let last = said.len().saturating_sub(1);
    for (place, part) in said.into_iter().enumerate() {
        match place {
            0 => {}
            place if place == last => parts.push(plain(if last > 1 { ", and " } else { " and " })),
            _ => parts.push(plain(", ")),
        }
        parts.extend(part);
    }
    parts.push(plain("."));
    parts
}

/// What it is about, and when that was.
fn subject(facts: &Facts) -> (Part, Option<i64>) {
    let clock = &facts.clock;
    let around = |at: i64| {
        Some(clock.link(at.saturating_sub(5_000_000_000).max(facts.span.0), at.saturating_add(2_000_000_000)))
    };
    if let Some(end) = facts.ends.iter().min_by_key(|end| (u8::MAX - end.rank(), end.time)) {
        let (ioc, time) = (facts.ioc(end.ioc), clock.time(end.time, 0));
        let text = match end.how.as_str() {
            UNSEEN => format!("{ioc} ended at {time} or before, {UNSEEN}."),
            _ => format!("{ioc} {} at {time}.", end.words()),
        };
        return (strong(text, around(end.time)), Some(end.time));
    }
    let none = if facts.may_hide_ends() { "No IOC was seen to end" } else { "No IOC ended" };
    if let Some(loss) = facts.losses.iter().max_by_key(|loss| (loss.to.saturating_sub(loss.from), loss.count))
    {
        let span = clock.span(loss.from, loss.to);
        let were = if loss.count == 1 { "was" } else { "were" };
        let text = format!("{none}; {} {were} lost in {span}.", lost(loss.count, loss.what));
        return (strong(text, Some(clock.link(loss.from, loss.to))), Some(loss.from));
    }
    let worst = [3, 2, 1].into_iter().find_map(|severity| facts.went(severity).next());
    if let Some(alarm) = worst {
        let severity = severity_name(alarm.to.severity);
        let status = status_name(alarm.to.status);
        let text = format!(
            "{none}; {} went {severity} {status} at {}.",
            facts.record(alarm.record),
            clock.time(alarm.time, 3)
        );
        return (strong(text, around(alarm.time)), Some(alarm.time));
    }
    let lost = if facts.has_gap() { "not all was recorded" } else { "nothing is known to be lost" };
    let of = facts.limits.of_records();
    (strong(format!("{none}, {lost}, and no record{of} was seen to go into alarm."), None), None)
}

fn at_least(facts: &Facts, from: i64, to: i64) -> &'static str {
    if facts.is_incomplete(from, to) {
        "at least "
    } else {
        ""
    }
}

fn puts(facts: &Facts, from: i64, to: i64) -> Vec<Part> {
    let puts = facts.found.puts.all.iter().filter(|put| (from..=to).contains(&put.time));
    let (mut number, mut writers) = (0, HashSet::new());
    for put in puts {
        number += 1;
        writers.insert(put.writer);
    }
    // Of long logs the page lists only some puts.
    let left_out = facts.found.puts.total > facts.found.puts.all.len() as u64;
    let at_least = if left_out { "at least " } else { at_least(facts, from, to) };
    let link = Some(facts.clock.link(from, to));
    let of = facts.limits.of_puts();
    if number == 0 {
        let seen = if at_least.is_empty() { "" } else { " seen" };
        return vec![plain(format!("no puts from outside{of}{seen}"))];
    }
    let by = plural(writers.len() as u64, "writer");
    vec![plain(at_least), strong(format!("{}{of} by {by}", plural(number, "put")), link)]
}

fn alarms(facts: &Facts, from: i64, to: i64) -> Option<Vec<Part>> {
    let number = |severity: u16| {
        let went = facts.went(severity).filter(|found| found.to.severity == severity);
        let records = went.filter(|found| (from..=to).contains(&found.time)).map(|found| found.record);
        records.collect::<HashSet<_>>().len() as u64
    };
    let of = facts.limits.of_records();
    let text = match (number(2), number(3)) {
        (0, 0) => return None,
        (major, 0) => format!("{}{of} went MAJOR", plural(major, "record")),
        (0, invalid) => format!("{}{of} went INVALID", plural(invalid, "record")),
        (major, invalid) => format!("{}{of} went MAJOR, {} INVALID", plural(major, "record"), count(invalid)),
    };
    let link = facts.clock.link(from, to) + "&at=alarms";
    Some(vec![plain(at_least(facts, from, to)), strong(text, Some(link))])
}

fn fastest(facts: &Facts, from: i64, to: i64) -> Option<Vec<Part>> {
    let fastest = facts.fastest(from, to)?;
    let by = match (fastest.trigger, fastest.closed) {
        ("CP", true) => "a CP loop processed ",
        ("CP", false) => "CP links processed ",
        _ => "an event processed ",
    };
    let text = format!("{} up to {} times a second", facts.record(fastest.record), count(fastest.rate));
    let second = 1_000_000_000;
    let link = facts.clock.link(fastest.since.saturating_sub(second), fastest.at.saturating_add(2 * second));
    Some(vec![plain(by), strong(text, Some(link + "&at=top"))])
}
