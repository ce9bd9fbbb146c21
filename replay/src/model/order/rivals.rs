//! Which other puts of links can have become a put that a link can have made.
//!
//! A record that feeds itself through a link has thousands of puts under way at a time, so this is asked of hundreds of
//! puts for each put of the link. The puts come in order of time, hence what was found for one is the beginning for the
//! next: no put is looked for again from the start.

use super::sent::{Since, Track};
use super::{LinkOf, Senders, LINK_WAIT, MAX_SENDERS, MAX_UNDER_WAY, OWN_SKEW};
use crate::model::small_value::SmallValue;
use crate::model::value;
use iocrec_log::event::Value;

/// Whether another put of a link can have become a put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rival {
    /// None can.
    None,
    /// One can.
    Some,
    /// One can, and the same holds for every later put that this link can have made, if all clocks agree.
    SomeForAllLater,
}

/// The puts of another link to the same target.
struct Other<'a> {
    run: usize,
    sent: &'a Track,
    /// A time, and that of the first put from then on, once looked for.
    first: Option<(i64, Option<i64>)>,
}

impl Other<'_> {
    /// The first put at this time or later.
    fn first(&mut self, from: i64) -> Option<i64> {
        match self.first {
            Some((looked, first)) if looked <= from && first.is_none_or(|first| first >= from) => first,
            _ => {
                let first = self.sent.since(from).next().map(|sent| sent.time);
                self.first = Some((from, first));
                first
            }
        }
    }
}

/// The links' puts to a target beside one of them.
pub(super) struct Rivals<'a> {
    mine: LinkOf,
    time: i64,
    value: &'a Value,
    /// Those of other links; `None` if there are too many links to distinguish.
    others: Option<Vec<Other<'a>>>,
    /// Later ones of the same link, as far as they were looked at: times and values.
    own: Vec<(i64, &'a SmallValue)>,
    rest: Option<Since<'a>>,
    /// The first of `own` with the very same value: what is no other value than this one's is none than that one's.
    again: Option<i64>,
}

impl<'a> Rivals<'a> {
    /// Beside the put of `value` by the link `mine` at `time`.
    pub(super) fn new(senders: &'a Senders, mine: LinkOf, time: i64, value: &'a Value) -> Self {
        let others = (senders.len() <= MAX_SENDERS).then(|| {
            let own = senders.get(&mine);
            let is_other = |of: &LinkOf, sent: &Track| {
                *of != mine && (of.0 == mine.0 || !own.is_some_and(|own| own.is_twin(sent)))
            };
            let others = senders.iter().filter(|(of, sent)| is_other(of, sent));
            others.map(|(of, sent)| Other { run: of.0, sent, first: None }).collect()
        });
        let rest = senders.get(&mine).map(|sent| sent.since(time.saturating_add(1)));
        Rivals { mine, time, value, others, own: Vec::new(), rest, again: None }
    }

    /// Whether one of them can have become the put `requested`, which this link can have made. `put`: the time of that put by
    /// the clock of a run. A put of another link makes it doubtful; a later one of the same link explains it better if it
    /// sent the same value.
    pub(super) fn of(&mut self, put: &dyn Fn(usize) -> i64, skew: i64, requested: &Value) -> Rival {
        let Some(others) = &mut self.others else { return Rival::SomeForAllLater };
        let mut found = Rival::None;
        for other in others {
            let at = put(other.run);
            let (from, until) = (at.saturating_sub(LINK_WAIT), at.saturating_add(skew));
            if other.first(from).is_none_or(|first| first > until) {
                continue;
            }
            // one that was made after this one can have become whatever came still later and not too late for this one
            let since = other.sent.since(self.time).next();
            if since.is_some_and(|first| first.time <= at.saturating_add(skew.min(OWN_SKEW))) {
                return Rival::SomeForAllLater;
            }
            found = Rival::Some;
        }
        if found != Rival::None {
            return found;
        }
        let until = put(self.mine.0).max(self.time.saturating_add(1));
        self.look(until);
        let before = self.own.partition_point(|(time, _)| *time <= until);
        if before > MAX_UNDER_WAY || self.again.is_some_and(|again| again <= until) {
            return Rival::SomeForAllLater;
        }
        let mut before = self.own.iter().take(before);
        match before
            .any(|(_, sent)| sent.with(|sent| value::same_through_link(sent, requested) != Some(false)))
        {
            true => Rival::Some,
            false => Rival::None,
        }
    }

    /// Looks at the later puts of the link up to a time, or to the first that decides about all.
    fn look(&mut self, until: i64) {
        let Some(rest) = &mut self.rest else { return };
        let is_before = |(time, _): &(i64, _)| *time <= until;
        while self.again.is_none() && self.own.len() <= MAX_UNDER_WAY && self.own.last().is_none_or(is_before)
        {
            let Some(sent) = rest.next() else { return self.rest = None };
            self.own.push((sent.time, &sent.value));
            if sent.value.with(|value| value == self.value) {
                self.again = Some(sent.time);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::order::sent::Sent;

    const MINE: LinkOf = (1, 1);

    fn senders(all: &[(LinkOf, i64, Value)]) -> Senders {
        let mut senders = Senders::new();
        for (number, (of, time, value)) in all.iter().enumerate() {
            let sent = Sent { time: *time, chain: (*time, 0, number as u64), value: value.clone().into() };
            senders.entry(*of).or_default().insert(sent);
        }
        senders
    }

    /// What it is about, with everything looked for anew.
    fn has_rival(senders: &Senders, time: i64, put: i64, skew: i64, requested: &Value) -> bool {
        let times = |of: &Track| of.since(i64::MIN).map(|sent| sent.time).collect::<Vec<_>>();
        let mut others = senders.iter().filter(|(of, _)| **of != MINE).flat_map(|(_, sent)| times(sent));
        let own = senders.get(&MINE).into_iter().flat_map(|sent| sent.since(i64::MIN));
        let later: Vec<_> = own.filter(|sent| sent.time > time && sent.time <= put.max(time + 1)).collect();
        let is_same = |sent: &Sent| value::same_through_link(&sent.value.value(), requested) != Some(false);
        senders.len() > MAX_SENDERS
            || others.any(|at| (put - LINK_WAIT..=put + skew).contains(&at))
            || later.len() > MAX_UNDER_WAY
            || later.iter().any(|sent| is_same(sent))
    }

    #[test]
    fn as_if_each_was_looked_for_anew() {
        let mut state = 1_u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        let mut seen = [0; 3];
        for turn in 0..2000 {
            let (links, values) = ([1, 1, 2, 4, 18][turn % 5], [1, 2, 5, 1000][turn / 5 % 4]);
            // from a flood to a few in the longest time that counts
            let span = [2_000_000, 400_000_000, 3_000_000_000][turn / 20 % 3];
            let value = |random: &mut dyn FnMut(u64) -> u64| match random(values + 1) {
                0 if values > 1 => Value::Unknown,
                number if number % 2 == 0 => Value::Double(number as f64 / 2.0),
                number => Value::Int(number as i64 / 2),
            };
            let all: Vec<_> = (0..random(600))
                .map(|_| ((1, 1 + random(links) as u32), random(span) as i64, value(&mut random)))
                .collect();
            let (senders, time, given) = (senders(&all), random(span) as i64, value(&mut random));
            let mut puts: Vec<_> = (0..100)
                .map(|_| (time - OWN_SKEW + random(span.min(1_000_000_000)) as i64, value(&mut random)))
                .filter(|(_, requested)| value::same_through_link(&given, requested) != Some(false))
                .collect();
            puts.sort_by_key(|(at, _)| *at);
            let (mut rivals, mut for_all) = (Rivals::new(&senders, MINE, time, &given), false);
            for (at, requested) in &puts {
                let expected = has_rival(&senders, time, *at, OWN_SKEW, requested);
                let found = rivals.of(&|_| *at, OWN_SKEW, requested);
                assert_eq!(found != Rival::None, expected, "turn {turn}, put at {at}");
                assert!(!for_all || expected, "turn {turn}, put at {at}: it was said of all later ones");
                for_all |= found == Rival::SomeForAllLater;
                seen[found as usize] += 1;
            }
        }
        assert!(seen.iter().all(|count| *count > 1000), "{seen:?}");
    }

    /// A record that feeds itself writes the same again and again: the second of its puts decides about all others, and
    /// takes as much work however many there are.
    #[test]
    fn the_work_does_not_rise_with_the_puts_under_way() {
        for count in [10, 1000, 100_000] {
            let all: Vec<_> = (0..count).map(|n| (MINE, n * 10_000, Value::Int(0))).collect();
            let senders = senders(&all);
            let mut rivals = Rivals::new(&senders, MINE, 0, &Value::Int(0));
            let put = |n: i64| n * 10_000 + 5000;
            assert_eq!(rivals.of(&|_| put(0), OWN_SKEW, &Value::Int(0)), Rival::None);
            assert_eq!(rivals.of(&|_| put(1), OWN_SKEW, &Value::Int(0)), Rival::SomeForAllLater);
            // one that lags behind them all, too
            assert_eq!(rivals.of(&|_| put(count), OWN_SKEW, &Value::Int(0)), Rival::SomeForAllLater);
            assert_eq!(rivals.own.len(), 1, "of {count}");
        }
    }
}
