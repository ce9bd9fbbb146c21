//! What is known of a record: how often it processed, its value over time, its alarms.

use super::counts::Counts;
use super::plot::Plot;
use crate::output::report::strings::{Strings, Text};
use iocrec_log::context::Context;
use iocrec_log::event::RecordId;
use std::mem::size_of;

/// Bins of the first records and of those after them: 4 MB for the former, 3 MB for the latter. Of others only the total
/// is kept.
const FIRST: (usize, usize) = (1000, 1024);
const MORE: (usize, usize) = (12_000, 64);
/// Points of a plot until it proves to need more, and records that have one at all: 15 MB.
const FEW_POINTS: usize = 96;
const PLOTS: usize = 10_000;
/// Length of the window in which a record's peak rate is counted.
const WINDOW: i64 = 250_000_000;
/// Begun processings in a window from which on a record is fast: 1000 a second.
pub const FAST: u32 = 250;
/// Alarm transitions of one record that are kept, besides the latest.
pub const MAX_TRANSITIONS: u32 = 100;

/// A record's highest rate.
#[derive(Clone, Debug, Default)]
pub struct Peak {
    window: i64,
    count: u32,
    /// The most in one window.
    pub most: u32,
    /// Begin of that window.
    pub at: i64,
    /// When it became fast for the first time, and how.
    pub fast: Option<Box<Fast>>,
}

/// How a record came to be processed fast.
#[derive(Clone, Debug)]
pub struct Fast {
    /// Begin of the first window in which it was fast.
    pub since: i64,
    /// The record at the root of its chain.
    pub root: u32,
    /// Name of the PV whose change makes the root process: the source of its only CP link.
    pub source: Option<String>,
    /// What began the chain, as [`Trigger::name`](crate::model::chain::Trigger::name) says.
    pub trigger: &'static str,
}

impl Peak {
    /// Counts one. Returns whether the record has just become fast for the first time.
    pub fn add(&mut self, wall: i64) -> bool {
        let window = wall.div_euclid(WINDOW);
        if window != self.window {
            self.window = window;
            self.count = 0;
        }
        self.count += 1;
        if self.count > self.most {
            self.most = self.count;
            self.at = window.saturating_mul(WINDOW);
        }
        self.count == FAST && self.fast.is_none()
    }

    /// The highest rate, a second.
    pub fn rate(&self) -> u64 {
        u64::from(self.most) * 4
    }

    /// Begin of the window that is being counted.
    pub fn window(&self) -> i64 {
        self.window.saturating_mul(WINDOW)
    }
}

/// Severity and status of an alarm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alarm {
    /// Severity.
    pub severity: u16,
    /// Status.
    pub status: u16,
}

/// The end of a processing that may have changed the alarm.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Wall-clock time.
    pub time: i64,
    /// The alarm.
    pub alarm: Alarm,
    /// The value.
    pub value: Text,
    /// Number of its cause.
    pub cause: u32,
    /// Number of the chain.
    pub chain: u64,
}

/// What is asked of a record whenever it processes, apart from the rest of it: thousands of records are a lot of memory to
/// pass through.
#[derive(Clone, Debug, Default)]
pub struct Lately {
    /// Highest rate.
    pub peak: Peak,
    /// The alarm that it was last seen in, if that is applied and nothing is held: an equal one is no news.
    pub alarm: Option<Alarm>,
    /// Number of its IOC.
    pub ioc: u32,
    /// Whether its value means anything.
    pub has_value: bool,
}

/// A record.
pub struct RecordInfo {
    /// Name.
    pub name: Text,
    /// Type.
    pub rtype: Text,
    /// Number of its IOC.
    pub ioc: u32,
    /// Units; empty if they are not known.
    pub units: Text,
    /// Texts of its states.
    pub states: Box<[Text]>,
    /// Begun processings.
    pub processed: Counts,
    /// Sum of the times that they took, nanoseconds.
    pub busy: u64,
    /// The longest, nanoseconds.
    pub longest: u64,
    /// Its value, if that is a number. Boxed: most of very many records have none.
    pub plot: Option<Box<Plot>>,
    /// Puts from outside.
    pub puts: u64,
    /// The alarm that it was last seen in.
    pub alarm: Option<Alarm>,
    /// An alarm that was seen and not applied yet: one that is older may come.
    pub held: Option<Box<Seen>>,
    /// Number of alarm transitions.
    pub transitions: u32,
    /// Place of its latest transition.
    pub latest: Option<u32>,
}

// There may be a hundred thousand.
const _: () = assert!(size_of::<RecordInfo>() <= 120);

impl RecordInfo {
    /// Calls `take` with the number of each text.
    pub fn each_text(&mut self, take: &mut impl FnMut(&mut Text)) {
        [&mut self.name, &mut self.rtype, &mut self.units].into_iter().for_each(&mut *take);
        self.states.iter_mut().for_each(&mut *take);
        self.held.iter_mut().for_each(|held| take(&mut held.value));
    }

    /// A record that is seen for the first time; `number` is how many were before.
    pub fn new(
        context: &Context,
        id: RecordId,
        name: &str,
        ioc: u32,
        number: usize,
        strings: &mut Strings,
    ) -> Self {
        let bins =
            [FIRST, MORE].into_iter().find(|(records, _)| number < *records).map_or(0, |(_, bins)| bins);
        let states = context.enum_strings(id).iter().take(16).map(|state| strings.add(state)).collect();
        RecordInfo {
            name: strings.add(name),
            rtype: strings.add(context.record(id).map_or("", |record| record.rtype)),
            ioc,
            units: 0,
            states,
            processed: Counts::new(bins),
            busy: 0,
            longest: 0,
            plot: (number < PLOTS).then(|| Box::new(Plot::new(FEW_POINTS))),
            puts: 0,
            alarm: None,
            held: None,
            transitions: 0,
            latest: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peak_is_that_of_one_window() {
        let mut peak = Peak::default();
        let mut became = 0;
        for number in 0..1000 {
            // 1000 in 250 ms, then 1 a second
            became += usize::from(peak.add(number * 250_000));
        }
        for second in 1..10 {
            became += usize::from(peak.add(second * 1_000_000_000));
        }
        assert_eq!((peak.rate(), peak.at, became), (4000, 0, 1));
    }
}
