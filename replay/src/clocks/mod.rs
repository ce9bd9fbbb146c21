//! How the clocks of recorded hosts differ, as far as their logs show, and how they are set right.
//!
//! Each host's times are by its own clock. Where the recorders of two hosts saw messages of the same circuit, the
//! difference of their clocks is known within bounds ([`bounds`]); through a third host it is known within the sum of
//! these. Else it is unknown. Nothing is moved unless it is asked for ([`Offset`]): times are what the machines showed.

pub mod bounds;
mod offset;
mod seen;
pub mod wording;

pub use self::offset::{Offset, Offsets};

use self::bounds::{Bounds, Difference};
use crate::pattern::Pattern;
use crate::reading::runs::host;
use crate::time::SECOND;
use iocrec_log::reader::SegmentFile;
use seen::{HostRun, Seen};
use std::collections::{BTreeMap, BTreeSet};

/// Differences that are worth a word, nanoseconds: what happens on two hosts within that time may seem to come in another
/// order. NTP on a control network keeps to less.
pub const NOTABLE: i64 = 10_000_000;
/// Largest difference between the clocks of two hosts that are joined, nanoseconds.
pub const MAX_DIFFERENCE: i64 = 60 * SECOND as i64;
/// Hosts that are compared; a bound for hostile logs.
const MAX_HOSTS: usize = 2000;

/// What is known of a host's clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Relative {
    /// The host whose clock it is compared with.
    pub of: String,
    /// How far it is ahead of that, nanoseconds.
    pub bounds: Bounds,
    /// The difference has changed by at least this while it was recorded, nanoseconds.
    pub changed: i64,
    /// The hosts on the way, if the two share no circuit.
    pub through: Vec<String>,
    /// Number of messages that were compared, at the least on each stretch of the way.
    pub messages: u64,
}

/// A host's clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostClock {
    /// The host.
    pub host: String,
    /// `None`: no circuit joins it to another host, or it is the one that others are compared with.
    pub relative: Option<Relative>,
    /// Whether others are compared with it.
    pub is_reference: bool,
}

impl HostClock {
    /// Whether it may differ notably from what it is compared with.
    pub fn is_notable(&self) -> bool {
        self.relative.as_ref().is_some_and(|relative| {
            let Bounds { least, most } = relative.bounds;
            least > NOTABLE
                || most < -NOTABLE
                || relative.changed > NOTABLE
                || relative.bounds.width() > 2 * NOTABLE
        })
    }
}

/// Hosts whose clocks can't be compared with that of the host that most others are compared with.
pub fn apart(clocks: &[HostClock]) -> Vec<&HostClock> {
    let is_of =
        |clock: &HostClock, host: &str| clock.relative.as_ref().is_some_and(|relative| relative.of == host);
    let joined = |host: &str| clocks.iter().filter(|clock| is_of(clock, host)).count();
    let references = clocks.iter().filter(|clock| clock.is_reference);
    match references.max_by_key(|clock| joined(&clock.host)) {
        None => clocks.iter().collect(),
        Some(first) => {
            let is_apart = |clock: &&HostClock| clock.host != first.host && !is_of(clock, &first.host);
            clocks.iter().filter(is_apart).collect()
        }
    }
}

/// Names of hosts by run; empty where unknown.
pub fn names(runs: &[Vec<SegmentFile>]) -> Vec<String> {
    runs.iter().map(|files| host(files).map(|host| host.name).unwrap_or_default()).collect()
}

/// The clocks of all named hosts, in the order of their names. `since`, `until`: only segments that may hold something of
/// that time (wall clock) are read. `fixed`: hosts whose clocks are taken for right, which others are compared with.
pub fn compare(
    runs: &[Vec<SegmentFile>],
    names: &[String],
    (since, until): (i64, i64),
    only: Option<&Pattern>,
    fixed: &BTreeSet<String>,
) -> Vec<HostClock> {
    let wanted = |name: &&String| !name.is_empty() && only.is_none_or(|only| only.matches(name));
    let hosts: Vec<&String> =
        names.iter().filter(wanted).collect::<BTreeSet<_>>().into_iter().take(MAX_HOSTS).collect();
    let number = |name: &String| hosts.binary_search(&name).ok();
    let chosen: Vec<HostRun> = runs
        .iter()
        .zip(names)
        .filter_map(|(files, name)| Some((number(name)?, within(files, since, until))))
        .collect();
    let differences: BTreeMap<(usize, usize), Difference> = match hosts.len() {
        0 | 1 => BTreeMap::new(),
        _ => {
            let between = Seen::read(&chosen).between();
            between.into_iter().filter_map(|(pair, all)| Some((pair, all.difference()?))).collect()
        }
    };
    let fixed: BTreeSet<usize> = fixed.iter().filter_map(number).collect();
    let ways = Ways::find(hosts.len(), &differences, &fixed);
    let name = |number: usize| hosts.get(number).map(|name| (*name).clone()).unwrap_or_default();
    hosts
        .iter()
        .enumerate()
        .map(|(number, host)| HostClock {
            host: (*host).clone(),
            relative: ways.relative(number, &name),
            is_reference: ways.is_reference(number),
        })
        .collect()
}

/// The segments of a run that may hold something of a time.
fn within(files: &[SegmentFile], since: i64, until: i64) -> &[SegmentFile] {
    let begins = |file: &SegmentFile| file.header.map_or(i64::MIN, |header| header.created_wall);
    let margin = 600 * SECOND as i64;
    let after = files.partition_point(|file| begins(file) <= until.saturating_add(margin));
    let before = files.partition_point(|file| begins(file) <= since.saturating_sub(margin));
    files.get(before.saturating_sub(1)..after).unwrap_or(files)
}

/// The best way from each host to the one that it is compared with.
struct Ways {
    /// By host: the sum of differences along the way, and the host before it on the way.
    best: Vec<Option<(Difference, Option<usize>)>>,
    /// Hosts that others are compared with.
    references: BTreeSet<usize>,
}

impl Ways {
    fn find(
        hosts: usize,
        differences: &BTreeMap<(usize, usize), Difference>,
        fixed: &BTreeSet<usize>,
    ) -> Ways {
        let mut near: Vec<Vec<(usize, Difference)>> = vec![Vec::new(); hosts];
        for (&(one, other), difference) in differences {
            let back = Difference { bounds: difference.bounds.reversed(), ..*difference };
            near.get_mut(one).into_iter().for_each(|near| near.push((other, *difference)));
            near.get_mut(other).into_iter().for_each(|near| near.push((one, back)));
        }
        let mut ways = Ways { best: vec![None; hosts], references: BTreeSet::new() };
        fixed.iter().for_each(|host| ways.begin(*host));
        ways.spread(&near);
        // then from the host with most neighbours among those that are left; alone, a host is compared with none
        let mut left: Vec<usize> = (0..hosts).collect();
        left.sort_by_key(|host| (std::cmp::Reverse(near.get(*host).map_or(0, Vec::len)), *host));
        for host in left {
            let joined = near.get(host).is_some_and(|near| !near.is_empty());
            if joined && ways.best.get(host).is_some_and(Option::is_none) {
                ways.begin(host);
                ways.spread(&near);
            }
        }
        ways
    }

    fn begin(&mut self, host: usize) {
        let none = Difference { bounds: Bounds::NONE, changed: 0, messages: u64::MAX };
        self.best.get_mut(host).into_iter().for_each(|best| *best = Some((none, None)));
        self.references.insert(host);
    }

    /// From the hosts that are known to all that they are joined with, always by the narrowest bounds.
    fn spread(&mut self, near: &[Vec<(usize, Difference)>]) {
        let mut done: BTreeSet<usize> = BTreeSet::new();
        loop {
            let known = self.best.iter().enumerate().filter(|(host, _)| !done.contains(host));
            let next = known.filter_map(|(host, best)| Some((best.as_ref()?.0.bounds.width(), host))).min();
            let Some((_, host)) = next else { return };
            done.insert(host);
            let Some((so_far, _)) = self.best.get(host).copied().flatten() else { return };
            for (other, difference) in near.get(host).into_iter().flatten() {
                // sums of absurd differences are cut, and seem narrow then: the way back must not be better
                if done.contains(other) {
                    continue;
                }
                let sum = Difference {
                    bounds: so_far.bounds.and(difference.bounds),
                    changed: so_far.changed.max(difference.changed),
                    messages: so_far.messages.min(difference.messages),
                };
                let Some(best) = self.best.get_mut(*other) else { continue };
                if best.as_ref().is_none_or(|(known, _)| sum.bounds.width() < known.bounds.width()) {
                    *best = Some((sum, Some(host)));
                }
            }
        }
    }

    fn is_reference(&self, host: usize) -> bool {
        self.references.contains(&host)
    }

    fn relative(&self, host: usize, name: &dyn Fn(usize) -> String) -> Option<Relative> {
        let (difference, mut before) = self.best.get(host).copied().flatten()?;
        let mut way = Vec::new();
        while let Some(host) = before {
            way.push(host);
            before = self.best.get(host).copied().flatten().and_then(|(_, before)| before);
        }
        let of = way.pop()?;
        Some(Relative {
            of: name(of),
            bounds: difference.bounds,
            changed: difference.changed,
            through: way.into_iter().map(name).collect(),
            messages: difference.messages,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn difference(least: i64, most: i64) -> Difference {
        Difference { bounds: Bounds { least, most }, changed: 0, messages: 5 }
    }

    fn found(
        hosts: usize,
        of: &[((usize, usize), Difference)],
        fixed: &[usize],
    ) -> Vec<Option<(String, Bounds)>> {
        let ways = Ways::find(hosts, &of.iter().copied().collect(), &fixed.iter().copied().collect());
        let name = |number: usize| number.to_string();
        let relative = |host| ways.relative(host, &name).map(|found| (found.of, found.bounds));
        (0..hosts).map(relative).collect()
    }

    #[test]
    fn through_a_third_host_bounds_add_up() {
        let joined = [((0, 1), difference(100, 110)), ((1, 2), difference(-40, -20))];
        let of_one = |least, most| Some(("1".to_owned(), Bounds { least, most }));
        assert_eq!(
            found(3, &joined, &[]),
            [of_one(-110, -100), None, of_one(-40, -20)],
            "1 has most neighbours"
        );
        let of_zero = |least, most| Some(("0".to_owned(), Bounds { least, most }));
        assert_eq!(found(3, &joined, &[0]), [None, of_zero(100, 110), of_zero(60, 90)]);
        // a wider direct way is not taken
        let wide = [joined[0], joined[1], ((0, 2), difference(0, 900))];
        assert_eq!(found(3, &wide, &[0])[2], of_zero(60, 90));
    }

    /// Sums that no number holds have seemed narrower than what led there, and the way went round in a circle.
    #[test]
    fn absurd_clocks_lead_nowhere_in_a_circle() {
        const Y: i64 = 1_000_000_000_000_000_000;
        let (one, other) = (difference(-9 * Y, -8 * Y), difference(-9 * Y - Y / 10, -9 * Y - Y / 20));
        let all = found(3, &[((0, 1), one), ((1, 2), other)], &[0]);
        assert_eq!(all[1], Some(("0".to_owned(), Bounds { least: -9 * Y, most: -8 * Y })));
        assert_eq!(all[2].as_ref().map(|(of, _)| of.as_str()), Some("0"));
    }

    #[test]
    fn hosts_that_nothing_joins() {
        let joined = [((0, 1), difference(1, 2)), ((3, 4), difference(5, 6))];
        let all = found(6, &joined, &[]);
        let of: Vec<Option<&str>> = all.iter().map(|of| of.as_ref().map(|(of, _)| of.as_str())).collect();
        assert_eq!(of, [None, Some("0"), None, None, Some("3"), None]);
    }

    #[test]
    fn nearest_of_several_fixed_hosts() {
        let joined = [((0, 1), difference(10, 30)), ((1, 2), difference(-3, -2))];
        let all = found(3, &joined, &[0, 2]);
        assert_eq!(all[1], Some(("2".to_owned(), Bounds { least: 2, most: 3 })));
        assert_eq!((&all[0], &all[2]), (&None, &None));
    }
}
