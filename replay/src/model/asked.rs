//! The puts that an IOC's threads asked libca for: which thread makes a put that is seen on a circuit.
//!
//! A thread is named only by a put to the same channel just before. Where the log does not hold what channel it was, any
//! put just before may be it. What hits lost, or memory had no room for, leaves unknown who asked.

use crate::time::SECOND;
use iocrec_log::event::IocId;
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

/// IOCs whose puts as clients are remembered; a bound for hostile logs.
const MAX_IOCS: usize = 1000;
/// Spells of one IOC that are remembered.
const MAX_SPELLS: usize = 10_000;
/// Time for which they are: longer than a put can wait for its outcome before it is given out.
const KEEP: i64 = 120 * SECOND as i64;
/// Time after which a put that libca was asked for is on the network: it sends when it is told to flush, which programs do at
/// once, or when it has nothing else to do.
const FLUSH: i64 = SECOND as i64;
/// Puts of a thread to a channel that follow each other within this are one spell.
const SPELL: i64 = FLUSH / 20;
/// Disorder among the times of hits and packets.
const SKEW: i64 = SECOND as i64 / 1000;
/// Spans of lost hits that are remembered of a run.
const MAX_LOSSES: usize = 1000;

/// A channel as libca knows it: its number, and its PV; no PV if that could not be read.
pub type Channel<'a> = (u32, &'a str);

/// Puts of one thread to one channel that followed each other, between wall-clock times.
#[derive(Debug)]
struct Spell {
    first: i64,
    last: i64,
    thread: Rc<str>,
    /// Whether the sequencer's code asked for all of them.
    by_sequencer: bool,
    /// Whether puts are missing: chains were sampled.
    is_sampled: bool,
}

/// A put as libca is asked for it.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    /// Wall-clock time.
    pub time: i64,
    /// The thread's name.
    pub thread: &'a str,
    /// Where to, if the log holds that.
    pub channel: Option<Channel<'a>>,
    /// Whether the sequencer's code asked.
    pub by_sequencer: bool,
    /// Whether other puts may have been left out, since chains were sampled.
    pub is_sampled: bool,
}

/// The threads that may have made a put.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Threads {
    /// Their names, in alphabetical order.
    pub names: Vec<String>,
    /// Whether all of them are the sequencer's.
    pub by_sequencer: bool,
    /// Whether others may have made it, too.
    pub may_be_others: bool,
}

/// Puts of one IOC, by channel; `None`: the log does not hold which.
#[derive(Debug, Default)]
struct OfIoc {
    by_channel: HashMap<Option<(u32, Rc<str>)>, VecDeque<Spell>>,
    count: usize,
    /// What was before this is forgotten.
    forgotten: Option<i64>,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Asked {
    by_ioc: HashMap<(usize, IocId), OfIoc>,
    losses: HashMap<usize, VecDeque<(i64, i64)>>,
    /// Times of which the log of a run may lack more.
    missing: HashMap<usize, VecDeque<(i64, i64)>>,
}

/// Notes a time; forgets the oldest where there are too many.
fn note_time(all: &mut VecDeque<(i64, i64)>, time: (i64, i64)) {
    if all.len() >= MAX_LOSSES {
        all.pop_front();
    }
    all.push_back(time);
}

impl Asked {
    /// Notes one. Times of an IOC rise.
    pub fn note(&mut self, run: usize, ioc: IocId, ask: &Ask<'_>) {
        let Ask { time, thread, channel, by_sequencer, is_sampled } = *ask;
        if self.by_ioc.len() >= MAX_IOCS && !self.by_ioc.contains_key(&(run, ioc)) {
            return;
        }
        let of = self.by_ioc.entry((run, ioc)).or_default();
        if of.count >= MAX_SPELLS {
            of.make_room(time);
        }
        let key = channel.map(|(cid, pv)| (cid, Rc::from(pv)));
        let spells = of.by_channel.entry(key).or_default();
        match spells.back_mut() {
            Some(last) if *last.thread == *thread && time.saturating_sub(last.last) <= SPELL => {
                last.last = last.last.max(time);
                last.is_sampled |= is_sampled;
                last.by_sequencer &= by_sequencer;
            }
            last => {
                // most come from the same thread: its name is held once
                let name = last.filter(|last| *last.thread == *thread).map(|last| Rc::clone(&last.thread));
                let thread = name.unwrap_or_else(|| thread.into());
                spells.push_back(Spell { first: time, last: time, thread, by_sequencer, is_sampled });
                of.count += 1;
            }
        }
    }

    /// Notes that hits of a run were lost between two wall-clock times.
    pub fn lost(&mut self, run: usize, since: i64, until: i64) {
        note_time(self.losses.entry(run).or_default(), (since, until));
    }

    /// Notes that a run's log may lack what was between two wall-clock times: it could not be stored, or not be read.
    pub fn lacks(&mut self, run: usize, since: i64, until: i64) {
        note_time(self.missing.entry(run).or_default(), (since, until));
    }

    /// Whether hits of any run were lost, or may be missing, between two wall-clock times.
    pub fn has_lost(&self, since: i64, until: i64) -> bool {
        let all = self.losses.values().chain(self.missing.values());
        all.flatten().any(|(from, to)| *from <= until && *to >= since)
    }

    /// The threads that asked for a put to this channel in the second before it was seen at a wall-clock time. `None` if
    /// none is known, or one that is not known may have.
    pub fn threads(
        &self,
        run: usize,
        ioc: IocId,
        time: i64,
        (cid, pv): (Option<u32>, &str),
    ) -> Option<Threads> {
        let of = self.by_ioc.get(&(run, ioc))?;
        let (begin, end) = (time.saturating_sub(FLUSH), time.saturating_add(SKEW));
        let is_lost = |(since, until): &(i64, i64)| *since <= end && *until >= begin;
        if of.forgotten.is_some_and(|forgotten| begin < forgotten)
            || self.losses.get(&run).is_some_and(|all| all.iter().any(is_lost))
        {
            return None;
        }
        let may_be = |key: &Option<(u32, Rc<str>)>| match key {
            None => true,
            Some((own, name)) => {
                let same_name = name.is_empty() || pv.is_empty() || **name == *pv;
                same_name && cid.map_or(!name.is_empty() && !pv.is_empty(), |cid| cid == *own)
            }
        };
        let spells = of.by_channel.iter().filter(|(key, _)| may_be(key)).flat_map(|(_, spells)| {
            spells.iter().rev().skip_while(|spell| spell.first > end).take_while(|spell| spell.last >= begin)
        });
        let (mut by_sequencer, mut may_be_others) = (true, false);
        let mut names: Vec<String> = spells
            .map(|spell| {
                may_be_others |= spell.is_sampled;
                by_sequencer &= spell.by_sequencer;
                spell.thread.to_string()
            })
            .collect();
        names.sort_unstable();
        names.dedup();
        (!names.is_empty()).then_some(Threads { names, by_sequencer, may_be_others })
    }
}

impl OfIoc {
    /// Forgets what is old, or everything.
    fn make_room(&mut self, now: i64) {
        let old = now.saturating_sub(KEEP);
        self.by_channel.retain(|_, spells| {
            spells.retain(|spell| spell.last >= old);
            !spells.is_empty()
        });
        self.count = self.by_channel.values().map(VecDeque::len).sum();
        self.forgotten = Some(self.forgotten.unwrap_or(i64::MIN).max(old));
        if self.count > MAX_SPELLS / 2 {
            (self.by_channel, self.count) = (HashMap::new(), 0);
            self.forgotten = Some(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANY: (Option<u32>, &str) = (Some(1), "A");

    fn ask(asked: &mut Asked, ioc: IocId, time: i64, thread: &str, channel: Option<Channel<'_>>) {
        asked.note(0, ioc, &Ask { time, thread, channel, by_sequencer: thread == "seq", is_sampled: false });
    }

    fn names(asked: &Asked, time: i64, channel: (Option<u32>, &str)) -> Option<Vec<String>> {
        asked.threads(0, 1, time, channel).map(|found| found.names)
    }

    #[test]
    fn threads_that_asked_just_before() {
        let mut asked = Asked::default();
        assert_eq!(names(&asked, 5, ANY), None);
        ask(&mut asked, 1, 1_000, "dbCaLink", None);
        ask(&mut asked, 1, FLUSH, "sncRamp", None);
        ask(&mut asked, 2, FLUSH, "other", None);
        let at = |time| names(&asked, time, ANY);
        assert_eq!(at(FLUSH + 500).unwrap(), ["dbCaLink", "sncRamp"], "which is not known");
        assert_eq!(at(FLUSH + 1_001).unwrap(), ["sncRamp"]);
        assert_eq!(at(3 * FLUSH), None);
        assert_eq!(asked.threads(1, 1, FLUSH, ANY), None, "another log");
    }

    #[test]
    fn the_channel_decides() {
        let mut asked = Asked::default();
        for (thread, channel) in
            [("ramp", (1, "A")), ("dbCaLink", (2, "B")), ("twice", (3, "A")), ("unread", (4, ""))]
        {
            ask(&mut asked, 1, 1000, thread, Some(channel));
        }
        let who = |cid, pv| names(&asked, 1500, (cid, pv));
        assert_eq!(who(Some(1), "A").unwrap(), ["ramp"]);
        assert_eq!(who(Some(2), "B").unwrap(), ["dbCaLink"]);
        assert_eq!(who(Some(1), "B"), None, "another context of libca counts from 1, too");
        assert_eq!(who(None, "A").unwrap(), ["ramp", "twice"], "its number is not known");
        assert_eq!(who(Some(4), "C").unwrap(), ["unread"]);
        assert_eq!((who(None, "C"), who(Some(9), "A")), (None, None));
    }

    #[test]
    fn the_sequencer_is_known_by_its_code() {
        let mut asked = Asked::default();
        ask(&mut asked, 1, 1000, "seq", Some((1, "A")));
        assert!(asked.threads(0, 1, 1000, ANY).unwrap().by_sequencer);
        ask(&mut asked, 1, 1000, "dbCaLink", Some((1, "A")));
        assert!(!asked.threads(0, 1, 1000, ANY).unwrap().by_sequencer);
    }

    #[test]
    fn what_is_lost_or_forgotten_is_unknown() {
        let mut asked = Asked::default();
        ask(&mut asked, 1, 10 * FLUSH, "ramp", Some((1, "A")));
        asked.lost(0, 9 * FLUSH, 10 * FLUSH - 5);
        assert_eq!(names(&asked, 10 * FLUSH, ANY), None, "another may have asked");
        assert_eq!(names(&asked, 11 * FLUSH, ANY).unwrap(), ["ramp"]);
        assert!(asked.has_lost(8 * FLUSH, 9 * FLUSH) && !asked.has_lost(10 * FLUSH, 11 * FLUSH));
        asked.lacks(0, 12 * FLUSH, 13 * FLUSH);
        assert!(asked.has_lost(13 * FLUSH, 14 * FLUSH) && !asked.has_lost(14 * FLUSH, 15 * FLUSH));
        for at in 0..3 * MAX_SPELLS as i64 {
            ask(&mut asked, 1, 20 * FLUSH + 2 * SPELL * at, "ramp", Some((1, "A")));
        }
        let last = 20 * FLUSH + 2 * SPELL * (3 * MAX_SPELLS as i64 - 1);
        assert_eq!(names(&asked, last, ANY).unwrap(), ["ramp"]);
        assert_eq!(names(&asked, 21 * FLUSH, ANY), None);
        assert!(asked.by_ioc[&(0, 1)].count <= MAX_SPELLS);
        let channel = Some((1, "A"));
        let sampled = Ask { time: last, thread: "other", channel, by_sequencer: false, is_sampled: true };
        asked.note(0, 1, &sampled);
        let found = asked.threads(0, 1, last, ANY).unwrap();
        assert_eq!((found.names.len(), found.may_be_others), (2, true));
        // as many as come are one spell
        let mut fast = Asked::default();
        (0..200_000).for_each(|time| ask(&mut fast, 1, time * 10_000, "fast", Some((1, "A"))));
        assert_eq!(fast.by_ioc[&(0, 1)].count, 1);
        // as many channels as come are bounded
        (0..50_000).for_each(|cid| ask(&mut fast, 1, 50 * FLUSH, "fast", Some((cid, "A"))));
        assert!(fast.by_ioc[&(0, 1)].count <= MAX_SPELLS);
    }
}
