//! Enum strings that records had before: a put to ONST or its like changes them, and values that are older had the names
//! of their own time. Where device support changes them, the log tells when they were last as they had been, and when the
//! others were first read; between the two they are not known.

use crate::event::RecordId;
use std::collections::HashMap;

/// Changes that are remembered of a record, and the records; bounds for hostile logs. Names of states are set once, if
/// ever.
const MAX_CHANGES: usize = 16;
const MAX_RECORDS: usize = 4096;

/// A change is read this long after the put that made it, at most: the recorder reads twice, after 20 ms and after 1 s,
/// and may be held up. Nanoseconds.
const READ_LATE: u64 = 2_000_000_000;
/// A reading may have found what was put this long after its time, which is that of the round of the recorder that it
/// belongs to.
const ROUND: u64 = 1_000_000_000;

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Renamed(HashMap<RecordId, Vec<Before>>);

/// The enum strings that a record had until a monotonic time.
#[derive(Clone, Debug)]
struct Before {
    until: u64,
    /// When others were read.
    read: u64,
    /// Whether `until` is the time of the put that changed them.
    is_exact: bool,
    strings: Box<[Box<str>]>,
}

impl Renamed {
    /// Takes the strings that a record had before others were read, or before it was not known what they are.
    pub fn note(&mut self, record: RecordId, read: u64, strings: &[Box<str>], is_lost: bool) {
        if self.0.len() >= MAX_RECORDS && !self.0.contains_key(&record) {
            return;
        }
        let changes = self.0.entry(record).or_default();
        let was_lost = is_unknown(strings);
        let strings = if was_lost { Box::default() } else { strings.into() };
        // no put made that change
        changes.push(Before { until: read, read, is_exact: is_lost || was_lost, strings });
        limit(changes);
    }

    /// A put at this time changed the strings. What they were between two puts that came before the same reading is not
    /// known.
    pub fn made_at(&mut self, record: RecordId, time: u64) {
        let Some(changes) = self.0.get_mut(&record) else { return };
        let soon = time..=time.saturating_add(READ_LATE);
        let own = changes.iter().position(|change| !change.is_exact && soon.contains(&change.read));
        let around = time.saturating_sub(ROUND)..=time.saturating_add(READ_LATE);
        let last = own
            .or_else(|| changes.iter().rposition(|change| change.is_exact && around.contains(&change.read)));
        let Some((place, change)) = last.and_then(|place| Some((place, changes.get_mut(place)?))) else {
            return;
        };
        if !change.is_exact {
            (change.until, change.is_exact) = (time, true);
        } else if change.strings.is_empty() {
            change.until = change.until.max(time);
        } else if change.until < time {
            let unknown = Before { until: time, read: change.read, is_exact: true, strings: Box::default() };
            changes.insert(place + 1, unknown);
            limit(changes);
        }
    }

    /// The strings at a time, if they were others than now; empty if they are not known any more.
    pub fn at(&self, record: RecordId, time: u64) -> Option<&[Box<str>]> {
        let before = self.0.get(&record)?.iter().find(|before| time < before.until)?;
        Some(&before.strings)
    }

    /// Forgets all records but these.
    pub fn keep(&mut self, is_kept: impl Fn(RecordId) -> bool) {
        self.0.retain(|record, _| is_kept(*record));
    }
}

/// Whether enum strings stand for those that are not known any more ([`crate::event::EnumStrings`]).
pub(super) fn is_unknown<Text: AsRef<str>>(strings: &[Text]) -> bool {
    matches!(strings, [only] if only.as_ref().is_empty())
}

/// Forgets the oldest change of too many.
fn limit(changes: &mut Vec<Before>) {
    if changes.len() > MAX_CHANGES {
        changes.remove(0);
        if let Some(first) = changes.first_mut() {
            first.strings = Box::default(); // it would stand for those that are forgotten, too
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strings(name: &str) -> [Box<str>; 1] {
        [name.into()]
    }

    #[test]
    fn each_time_has_its_names() {
        let mut renamed = Renamed::default();
        renamed.note(1, 1_020, &strings("first"), false);
        renamed.note(1, 2_020, &strings("second"), false);
        assert_eq!(renamed.at(1, 1_010), Some(&strings("first")[..]));
        renamed.made_at(1, 1_000);
        assert_eq!(renamed.at(1, 999), Some(&strings("first")[..]));
        assert_eq!(
            renamed.at(1, 1_000),
            Some(&strings("second")[..]),
            "from the put on, not from the reading"
        );
        assert_eq!(renamed.at(1, 2_020), None, "those of now");
        assert_eq!(renamed.at(2, 0), None);
        renamed.keep(|record| record != 1);
        assert_eq!(renamed.at(1, 0), None);
    }

    #[test]
    fn between_two_puts_before_one_reading_nothing_is_known() {
        let mut renamed = Renamed::default();
        renamed.note(1, 1_020, &strings("first"), false);
        [1_000, 1_005, 1_010].into_iter().for_each(|time| renamed.made_at(1, time));
        assert_eq!(renamed.at(1, 999), Some(&strings("first")[..]));
        assert_eq!(renamed.at(1, 1_000), Some(&[][..]));
        assert_eq!(renamed.at(1, 1_009), Some(&[][..]));
        assert_eq!(renamed.at(1, 1_010), None, "those that were read");
        // a reading that was made after its time
        renamed.note(3, 1_000, &strings("first"), false);
        [990, 1_001].into_iter().for_each(|time| renamed.made_at(3, time));
        assert_eq!(renamed.at(3, 989), Some(&strings("first")[..]));
        assert_eq!((renamed.at(3, 1_000), renamed.at(3, 1_001)), (Some(&[][..]), None));
        // each with its own reading
        renamed.note(4, 1_020, &strings("first"), false);
        renamed.note(4, 1_050, &strings("second"), false);
        [1_000, 1_030].into_iter().for_each(|time| renamed.made_at(4, time));
        assert_eq!(renamed.at(4, 1_029), Some(&strings("second")[..]));
        assert_eq!(renamed.at(4, 1_030), None);
        renamed.note(1, 9_000_000_000, &strings("second"), false);
        renamed.made_at(1, 2_000);
        assert_eq!(
            renamed.at(1, 8_999_999_999),
            Some(&strings("second")[..]),
            "read long after: no put was seen"
        );
    }

    /// Device support has changed the strings between two readings. Puts seen around that tell nothing of it.
    #[test]
    fn what_was_changed_without_a_put_is_not_known_between_two_readings() {
        for puts in [&[][..], &[1_500], &[900, 1_500, 1_999], &[2_001]] {
            let mut renamed = Renamed::default();
            renamed.note(1, 1_000, &strings("first"), true);
            renamed.note(1, 2_000, &strings(""), false);
            puts.iter().for_each(|&time| renamed.made_at(1, time));
            assert_eq!(renamed.at(1, 999), Some(&strings("first")[..]), "{puts:?}");
            assert_eq!(renamed.at(1, 1_000), Some(&[][..]), "{puts:?}");
            assert_eq!(renamed.at(1, 1_999), Some(&[][..]), "{puts:?}");
            assert_eq!(renamed.at(1, 2_001), None, "those of now: {puts:?}");
        }
    }

    #[test]
    fn what_is_forgotten_is_not_known() {
        let mut renamed = Renamed::default();
        (1..=20).for_each(|time| renamed.note(1, time, &strings(&time.to_string()), false));
        assert_eq!(renamed.at(1, 0), Some(&[][..]));
        assert_eq!(renamed.at(1, 4), Some(&[][..]));
        assert_eq!(renamed.at(1, 5), Some(&strings("6")[..]));
        assert_eq!(renamed.at(1, 19), Some(&strings("20")[..]));
    }
}
