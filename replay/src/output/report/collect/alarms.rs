//! Alarm transitions: when a record went from one severity to another, and why.
//!
//! A record's processing completes in the order in which it began, unless it is asynchronous: then a later chain may
//! hold the earlier completion. So one is held back until the next has come, and the earlier of the two is applied.

use super::records::{Alarm, RecordInfo, Seen, MAX_TRANSITIONS};
use crate::output::report::strings::Text;

/// Transitions held; the page shows 5000, those of the most severe alarms first.
const MAX_HELD: usize = 50_000;

/// A record's alarm changed.
#[derive(Clone, Debug)]
pub struct Transition {
    /// Wall-clock time.
    pub time: i64,
    /// The record.
    pub record: u32,
    /// The severity before; `None` if the record was not seen before.
    pub from: Option<u16>,
    /// The alarm now.
    pub to: Alarm,
    /// The value.
    pub value: Text,
    /// Number of its cause.
    pub cause: u32,
    /// Number of the chain.
    pub chain: u64,
    /// Whether transitions of this record before it are left out.
    pub after_gap: bool,
}

impl Transition {
    /// Whether the recorder found the record so: since when it is, and why, is not known.
    pub fn is_found(&self) -> bool {
        self.chain == 0
    }
}

/// All transitions.
#[derive(Default)]
pub struct Alarms {
    /// In order of time, once sorted.
    pub all: Vec<Transition>,
    /// Number in the log.
    pub total: u64,
    /// Completions that came too late to be put in order.
    pub late: u64,
}

impl Alarms {
    /// A record has completed with an alarm. Returns the severity if that is worse than before.
    pub fn see(&mut self, number: u32, record: &mut RecordInfo, seen: Seen) -> u16 {
        let before = record.held.as_ref().map(|held| held.alarm).or(record.alarm);
        let worse = before.is_none_or(|before| seen.alarm.severity > before.severity);
        let severity = if worse { seen.alarm.severity } else { 0 };
        match record.held.take() {
            Some(held) if held.time <= seen.time => {
                self.apply(number, record, *held);
                if record.alarm != Some(seen.alarm) {
                    record.held = Some(Box::new(seen));
                }
            }
            Some(held) => {
                self.apply(number, record, seen);
                record.held = Some(held);
            }
            None => record.held = Some(Box::new(seen)),
        }
        severity
    }

    /// Applies what is held back.
    pub fn settle(&mut self, number: u32, record: &mut RecordInfo) {
        if let Some(held) = record.held.take() {
            self.apply(number, record, *held);
        }
    }

    fn apply(&mut self, number: u32, record: &mut RecordInfo, seen: Seen) {
        let before = record.alarm.replace(seen.alarm);
        if before == Some(seen.alarm) {
            return;
        }
        // Another status of no alarm is no transition.
        let quiet = seen.alarm.severity == 0 && before.is_none_or(|before| before.severity == 0);
        if quiet {
            return;
        }
        self.total += 1;
        record.transitions += 1;
        if self.latest(record).is_some_and(|last| last.time > seen.time) {
            self.late += 1;
        }
        let mut transition = Transition {
            time: seen.time,
            record: number,
            from: before.map(|before| before.severity),
            to: seen.alarm,
            value: seen.value,
            cause: seen.cause,
            chain: seen.chain,
            after_gap: false,
        };
        let full = record.transitions > MAX_TRANSITIONS || self.all.len() >= MAX_HELD;
        let has_room = self.all.len() < MAX_HELD;
        let latest = record.latest.and_then(|latest| self.all.get_mut(latest as usize));
        match latest.filter(|_| full) {
            // Of a record whose alarm flaps the latest stays, so that its last state is right.
            Some(latest) if record.transitions > MAX_TRANSITIONS + 1 || !has_room => {
                transition.after_gap = true;
                *latest = transition;
            }
            _ if has_room => {
                record.latest = u32::try_from(self.all.len()).ok();
                self.all.push(transition);
            }
            _ => {}
        }
    }

    /// A record's latest transition.
    fn latest(&self, record: &RecordInfo) -> Option<&Transition> {
        self.all.get(record.latest? as usize)
    }

    /// Puts all in order of time.
    pub fn sort(&mut self) {
        self.all.sort_by_key(|transition| transition.time);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::report::strings::Strings;
    use iocrec_log::context::Context;

    fn run(alarms: &[(i64, u16)]) -> Vec<(i64, Option<u16>, u16)> {
        let mut all = Alarms::default();
        let mut record = RecordInfo::new(&Context::default(), 1, "A", 0, 0, &mut Strings::default());
        for (time, severity) in alarms {
            let alarm = Alarm { severity: *severity, status: *severity };
            let seen = Seen { time: *time, alarm, value: 0, cause: 0, chain: 0 };
            all.see(0, &mut record, seen);
        }
        all.settle(0, &mut record);
        all.sort();
        all.all.iter().map(|found| (found.time, found.from, found.to.severity)).collect()
    }

    #[test]
    fn only_changes_count() {
        let found = run(&[(1, 0), (2, 2), (3, 2), (4, 1), (5, 0), (6, 0)]);
        assert_eq!(found, [(2, Some(0), 2), (4, Some(2), 1), (5, Some(1), 0)]);
    }

    #[test]
    fn the_state_before_the_log_is_not_known() {
        assert_eq!(run(&[(1, 2), (2, 0)]), [(1, None, 2), (2, Some(2), 0)]);
        assert_eq!(run(&[(1, 0)]), []);
    }

    #[test]
    fn a_completion_that_comes_late_finds_its_place() {
        assert_eq!(run(&[(1, 0), (9, 2), (5, 0), (10, 0)]), [(9, Some(0), 2), (10, Some(2), 0)]);
    }

    #[test]
    fn a_flapping_record_keeps_its_first_transitions_and_its_last() {
        let many: Vec<(i64, u16)> = (0..10_001).map(|time| (time, (time % 2) as u16)).collect();
        let found = run(&many);
        assert_eq!(found.len(), MAX_TRANSITIONS as usize + 1);
        assert_eq!(found.last(), Some(&(10_000, Some(1), 0)));
    }
}
