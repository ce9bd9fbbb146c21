//! Key moments: at most eight, in order of time.
//!
//! The rules, in the order in which moments are chosen until there are eight:
//!
//! 1. The two worst ends of IOCs, and the two longest hangs of threads.
//! 2. The first record that went MAJOR or INVALID, and if its chain began with a put, that put.
//! 3. The first denied put.
//! 4. The first mark, and the begin of fast processing by CP links or events (see the verdict).
//! 5. The first connection with a device that ended, but was not closed by the IOC, or did not come about; and the client that
//!    did not keep up for longest. Connections that ended with their IOC don't count.
//! 6. The first put that wrote another value than was asked for.
//! 7. The first MAJOR or INVALID of the next chains, each with its put if there is one, at least 100 ms after the one
//!    before.
//! 8. The next denied puts, other marks, the first such end of each other device, other ends, the connection that had to send most
//!    segments again, if they were 100 or more, and the alarms that follow others within 100 ms.
//!
//! A record counts only when it goes MAJOR or INVALID for the first time. What stands beside a moment says from where
//! it came as far as one chain knows it: two moments that stand below each other need have nothing to do with each other.

use super::clock::count;
use super::collect::alarms::Transition;
use super::collect::causes::Cause;
use super::collect::puts::{
    Put, ACKNOWLEDGES, DENIED, INEXACT, NEW_KNOWN, NOT_WRITTEN, OLD_KNOWN, OTHERWISE,
};
use super::facts::{Facts, IocEnd};
use crate::answers::clients::{ClientLine, Slow};
use crate::answers::hangs::Hang;
use crate::answers::network::{Kind, NetLine};
use crate::model::enum_strings::{severity_name, status_name};
use crate::output::clients::slow_words;
use crate::output::net::of_device;
use std::collections::{BTreeMap, HashSet};

/// Moments that are shown.
const MOST: usize = 8;
/// Segments sent again that make a moment: lines that lose some packets have fewer.
const MANY_SEGMENTS: u64 = 100;
/// Alarms that follow another sooner than this are often its consequences.
const APART: i64 = 100_000_000;
/// Time before and after a moment that its link shows.
pub(super) const AROUND: i64 = 2_000_000_000;

/// A key moment.
#[derive(Clone, Debug)]
pub struct Moment {
    /// Wall-clock time.
    pub time: i64,
    /// The time as text.
    pub at: String,
    /// Its kind: `end`, `stuck`, `put`, `denied`, `major`, `invalid`, `mark`, `device`, `slow` or `fast`.
    pub kind: &'static str,
    /// The sign of its kind.
    pub sign: &'static str,
    /// Record, PV or IOC.
    pub name: String,
    /// The value before, where it is a put and that is known.
    pub old: String,
    /// The value afterwards, or the rest in words.
    pub text: String,
    /// What was asked for, if that is another value.
    pub asked: String,
    /// From where it came.
    pub aside: String,
    /// The link that shows it.
    pub link: String,
    /// Number of its chain; 0 if it has none.
    pub chain: u64,
}

/// The key moments of these facts.
pub fn moments(facts: &Facts) -> Vec<Moment> {
    let mut chosen: BTreeMap<(i64, u8, String), Moment> = BTreeMap::new();
    let mut add = |found: Vec<Moment>| {
        let new = |moment: &Moment| !chosen.contains_key(&key(moment));
        let count = found.iter().filter(|moment| new(moment)).count();
        if chosen.len() + count <= MOST {
            chosen.extend(found.into_iter().map(|moment| (key(&moment), moment)));
        }
    };
    let mut ends: Vec<&IocEnd> = facts.ends.iter().collect();
    ends.sort_by_key(|end| (u8::MAX - end.rank(), end.time));
    ends.iter().take(2).for_each(|found| add(vec![end(facts, found)]));
    facts.hangs.iter().take(2).for_each(|found| add(vec![stuck(facts, found)]));
    let (apart, close) = first_alarms(facts);
    apart.iter().take(1).for_each(|found| add(with_put(facts, found)));
    let mut denied = first_of_each(facts, DENIED);
    let first = denied.next();
    first.into_iter().for_each(|found| add(vec![put(facts, found)]));
    facts.marks.iter().take(1).for_each(|found| add(vec![mark(facts, found)]));
    fast(facts).into_iter().for_each(|found| add(vec![found]));
    let devices = first_of_each_device(facts);
    devices.iter().take(1).for_each(|found| add(vec![device(facts, found)]));
    facts.slow.iter().take(1).for_each(|(client, found)| add(vec![slow(facts, client, found)]));
    let otherwise = first_of_each(facts, OTHERWISE).find(|put| put.flags & INEXACT == 0);
    otherwise.into_iter().for_each(|found| add(vec![put(facts, found)]));
    apart.iter().skip(1).take(3).for_each(|found| add(with_put(facts, found)));
    denied.take(1).for_each(|found| add(vec![put(facts, found)]));
    facts.marks.iter().skip(1).for_each(|found| add(vec![mark(facts, found)]));
    devices.iter().skip(1).for_each(|found| add(vec![device(facts, found)]));
    apart.iter().skip(4).for_each(|found| add(with_put(facts, found)));
    ends.iter().skip(2).for_each(|found| add(vec![end(facts, found)]));
    let again = facts.devices.iter().filter(|line| line.kind == Kind::Retransmissions);
    let most = again.filter(|line| line.count >= MANY_SEGMENTS).max_by_key(|line| line.count);
    most.into_iter().for_each(|found| add(vec![device(facts, found)]));
    close.iter().for_each(|found| add(with_put(facts, found)));
    chosen.into_values().collect()
}

/// Moments in order of time; of those at the same time, puts come before alarms.
fn key(moment: &Moment) -> (i64, u8, String) {
    (
        moment.time,
        u8::from(!matches!(moment.kind, "put" | "denied")),
        format!(
            "{}\0{}",
            moment.name,
            if matches!(moment.kind, "device" | "slow") { &moment.text } else { "" }
        ),
    )
}

fn blank(facts: &Facts, time: i64, kind: &'static str, sign: &'static str) -> Moment {
    let clock = &facts.clock;
    let [name, old, text, asked, aside] = [const { String::new() }; 5];
    Moment {
        time,
        at: clock.time(time, 3),
        kind,
        sign,
        name,
        old,
        text,
        asked,
        aside,
        link: clock.link(time.saturating_sub(AROUND), time.saturating_add(AROUND)),
        chain: 0,
    }
}

fn end(facts: &Facts, end: &IocEnd) -> Moment {
    let place = usize::try_from(end.ioc).ok().and_then(|ioc| facts.found.places.iocs.get(ioc));
    let pid = place.and_then(|place| place.ioc.as_ref()).map(|ioc| format!("pid {}", ioc.pid));
    Moment {
        // the recorder looks once in a while
        at: facts.clock.time(end.time, 0),
        name: facts.ioc(end.ioc).to_owned(),
        text: end.words(),
        aside: pid.unwrap_or_default(),
        ..blank(facts, end.time, "end", "✕")
    }
}

fn mark(facts: &Facts, (time, text): &(i64, String)) -> Moment {
    Moment { text: format!("“{text}”"), aside: "mark".to_owned(), ..blank(facts, *time, "mark", "⚑") }
}

fn put(facts: &Facts, put: &Put) -> Moment {
    let strings = &facts.found.strings;
    let text = |text: u32| strings.get(text).to_owned();
    let denied = put.flags & DENIED != 0;
    let (kind, sign) = if denied { ("denied", "⊘") } else { ("put", "✎") };
    let writer = usize::try_from(put.writer).ok().and_then(|writer| facts.found.puts.writers.get(writer));
    let known = put.flags & NEW_KNOWN != 0;
    Moment {
        name: text(put.pv),
        old: if put.flags & OLD_KNOWN != 0 && known { text(put.old) } else { String::new() },
        text: match (put.flags & NOT_WRITTEN != 0, put.flags & ACKNOWLEDGES != 0, known) {
            (_, true, _) => text(put.new),
            (false, _, true) if put.flags & INEXACT != 0 => format!("{} (perhaps another's)", text(put.new)),
            (false, _, true) => text(put.new),
            // what was asked for
            _ => format!("← {}", text(if put.asked == 0 { put.new } else { put.asked })),
        },
        asked: if denied { String::new() } else { text(put.asked) },
        aside: writer.map_or(String::new(), |(name, _)| text(*name)),
        chain: put.chain,
        ..blank(facts, put.time, kind, sign)
    }
}

/// The first put of each writer to each PV that has this flag.
fn first_of_each(facts: &Facts, flag: u16) -> impl Iterator<Item = &Put> {
    let mut seen = HashSet::new();
    let is = move |put: &&Put| put.flags & flag != 0 && seen.insert((put.writer, put.pv));
    facts.found.puts.all.iter().filter(is)
}

/// The first transition of each chain in which a record went MAJOR or INVALID for the first time: those at least
/// [`APART`] after the one before, and the others.
fn first_alarms(facts: &Facts) -> (Vec<&Transition>, Vec<&Transition>) {
    let (mut records, mut chains) = (HashSet::new(), HashSet::new());
    let mut last: Option<i64> = None;
    let first = facts.went(2).filter(|found| records.insert(found.record) && chains.insert(found.chain));
    first.partition(|found| {
        let is_apart = last.is_none_or(|last| found.time.saturating_sub(last) >= APART);
        last = Some(found.time);
        is_apart
    })
}

/// A record went into alarm; with the put that its chain began with.
fn with_put(facts: &Facts, alarm: &Transition) -> Vec<Moment> {
    let root = facts.found.puts.all.iter().find(|put| put.chain == alarm.chain);
    let begins = |cause: Cause| cause.kind == "put" && cause.through == 0;
    let root = root.filter(|_| facts.found.causes.get(alarm.cause).is_some_and(begins));
    let strings = &facts.found.strings;
    let aside = match (root, facts.found.causes.get(alarm.cause)) {
        (Some(put), _) => {
            let later = alarm.time.saturating_sub(put.time);
            format!("same chain, +{:.1} ms", later as f64 / 1e6)
        }
        (None, Some(cause)) if cause.through != 0 => {
            let (kind, what) = (cause.kind, strings.get(cause.what));
            format!("{kind} {what}, by CP link of {}", strings.get(cause.through))
        }
        (None, Some(cause)) => match strings.get(cause.what) {
            "" => cause.kind.to_owned(),
            what => match what.split_once(" from ") {
                Some((_, source)) if cause.kind == "CP link" => format!("CP link from {source}"),
                _ => format!("{} {what}", cause.kind),
            },
        },
        (None, None) => String::new(),
    };
    let (kind, sign) = if alarm.to.severity == 3 { ("invalid", "◆") } else { ("major", "■") };
    let value = strings.get(alarm.value);
    let moment = Moment {
        name: facts.record(alarm.record).to_owned(),
        text: format!(
            "{} {}{}{value}",
            severity_name(alarm.to.severity),
            status_name(alarm.to.status),
            if value.is_empty() { "" } else { ", " }
        ),
        aside,
        chain: alarm.chain,
        ..blank(facts, alarm.time, kind, sign)
    };
    root.map(|root| put(facts, root)).into_iter().chain([moment]).collect()
}

/// The first end of a connection with each device of an IOC that the IOC did not close itself, or that did not come about.
fn first_of_each_device(facts: &Facts) -> Vec<&NetLine> {
    let mut seen = HashSet::new();
    let is_end = |line: &&NetLine| {
        matches!(line.kind, Kind::DeviceDisconnected | Kind::DeviceUnreachable) && line.by != "ioc"
    };
    let ends = facts.devices.iter().filter(is_end);
    ends.filter(|line| seen.insert((&line.host, &line.ioc, &line.servers))).collect()
}

/// A connection with a device. The recorder looks at intervals, so its time is known to a second.
fn device(facts: &Facts, line: &NetLine) -> Moment {
    let device = line.servers.join(", ");
    let what = of_device(line, &|time| facts.clock.time(time, 0));
    Moment {
        at: facts.clock.time(line.since, 0),
        name: line.ioc.clone(),
        text: match line.kind {
            Kind::Retransmissions => format!("to {device}: {what}"),
            _ => format!("device {device}: {what}"),
        },
        ..blank(facts, line.since, "device", "\u{21af}")
    }
}

/// A client that did not keep up.
fn slow(facts: &Facts, client: &ClientLine, slow: &Slow) -> Moment {
    let user = [&client.user, &client.client_host].map(|text| if text.is_empty() { "?" } else { text });
    Moment {
        at: facts.clock.time(slow.since, 0),
        name: client.ioc.clone(),
        text: format!("client {} {}", client.client, slow_words(slow, &|time| facts.clock.time(time, 0))),
        aside: user.join("@"),
        ..blank(facts, slow.since, "slow", "\u{29d7}")
    }
}

/// A thread that stood still.
fn stuck(facts: &Facts, hang: &Hang) -> Moment {
    let (name, text) = (hang.ioc.clone(), hang.text.clone());
    Moment { name, text, ..blank(facts, hang.time, "stuck", "\u{29d6}") }
}

/// The begin of fast processing by CP links or events.
fn fast(facts: &Facts) -> Option<Moment> {
    let fastest = facts.fastest(facts.span.0, facts.span.1)?;
    let what = match (fastest.trigger, fastest.closed, fastest.perhaps_before) {
        ("CP", true, false) => "CP loop begins",
        ("CP", true, true) => "CP loop, perhaps begun before",
        ("CP", false, false) => "processed fast by CP links from here on",
        ("CP", false, true) => "processed fast by CP links, perhaps before, too",
        (_, _, false) => "processed fast by an event from here on",
        (_, _, true) => "processed fast by an event, perhaps before, too",
    };
    Some(Moment {
        // counted in steps of 250 ms
        at: facts.clock.time(fastest.since, 1),
        name: facts.record(fastest.record).to_owned(),
        text: what.to_owned(),
        aside: format!("up to {}/s", count(fastest.rate)),
        ..blank(facts, fastest.since, "fast", "↻")
    })
}
