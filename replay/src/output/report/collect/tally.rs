//! What records did, until it is counted.
//!
//! Each processing goes into a record's counts and its plot, which are far away in memory: there are thousands of
//! records, each with thousands of bytes. So some ten thousand processings are kept as they come, and then counted
//! record by record.
//!
//! Promise: counts and plots are the same as if each had been counted at once.

use super::places::Places;
use super::records::RecordInfo;
use super::POINTS;

/// Processings that are kept: 1 MB. In a scan of thousands of records several of each.
const KEPT: usize = 32_768;
/// Records whose plots may have all the points that the page draws: 9 MB.
const FULL_PLOTS: usize = 400;

/// What a record did.
#[derive(Clone, Copy)]
pub struct Processed {
    /// When it began, or was read.
    wall: i64,
    /// How long it took; [`OPEN`] if no end was seen, [`READ`] if the recorder has read it.
    took: u64,
    /// Its value then.
    value: Option<f64>,
}

/// See [`Processed::took`]. No time is that long.
const OPEN: u64 = u64::MAX;
const READ: u64 = u64::MAX - 1;

impl Processed {
    /// It began to process.
    pub fn begun(wall: i64) -> Self {
        Processed { wall, took: OPEN, value: None }
    }

    /// It completed after so many nanoseconds, with this value if that is a number.
    pub fn completed(&mut self, took: u64, value: Option<f64>) {
        (self.took, self.value) = (took.min(READ - 1), value);
    }

    /// The recorder has read this value.
    pub fn read(wall: i64, value: f64) -> Self {
        Processed { wall, took: READ, value: Some(value) }
    }
}

/// Processings that are not counted yet.
#[derive(Default)]
pub struct Tally {
    /// In the order in which they came.
    all: Vec<Processed>,
    /// The record of each.
    of: Vec<u32>,
    /// For counting, used again: their places by record, and where those of each record end.
    places: Vec<u32>,
    ends: Vec<u32>,
    /// Records whose plots may have all points.
    full_plots: usize,
    /// Plots that need more room than they have.
    full: Vec<Full>,
}

/// A plot that needed more room.
struct Full {
    /// The processing from which on it does.
    first: u32,
    record: u32,
    /// Its processings from there on, in [`Tally::places`].
    rest: std::ops::Range<usize>,
}

impl Tally {
    /// Takes what a record did.
    #[inline]
    pub fn add(&mut self, record: u32, processed: Processed, places: &mut Places) {
        self.all.push(processed);
        self.of.push(record);
        if self.all.len() >= KEPT {
            self.count(places);
        }
    }

    /// Counts everything.
    pub fn count(&mut self, places: &mut Places) {
        self.by_record(places.records.len());
        let mut begin = 0;
        for (number, (record, end)) in (0..).zip(places.records.iter_mut().zip(&self.ends)) {
            let end = *end as usize;
            let mut rest = begin..end;
            begin = end;
            if rest.is_empty() {
                continue;
            }
            let may_fill = self.full_plots < FULL_PLOTS;
            if let Some(first) = take(record, &self.all, &self.places, &mut rest, may_fill) {
                self.full.push(Full { first, record: number, rest });
            }
        }
        // The first that needs more room gets it.
        self.full.sort_by_key(|full| full.first);
        for Full { record, mut rest, .. } in self.full.drain(..) {
            let Some(record) = usize::try_from(record).ok().and_then(|place| places.records.get_mut(place))
            else {
                continue;
            };
            if self.full_plots < FULL_PLOTS {
                self.full_plots += 1;
                record.plot.iter_mut().for_each(|plot| plot.allow(POINTS));
            }
            take(record, &self.all, &self.places, &mut rest, false);
        }
        self.all.clear();
        self.of.clear();
    }

    /// Sorts the places of all by record.
    fn by_record(&mut self, records: usize) {
        self.ends.clear();
        self.ends.resize(records, 0);
        for record in &self.of {
            if let Some(count) = self.ends.get_mut(*record as usize) {
                *count += 1;
            }
        }
        let mut before = 0;
        for count in &mut self.ends {
            // where its own begin; once they are placed, where they end
            before += std::mem::replace(count, before);
        }
        self.places.clear();
        self.places.resize(self.of.len(), 0);
        for (place, record) in (0..).zip(&self.of) {
            let Some(next) = self.ends.get_mut(*record as usize) else { continue };
            if let Some(slot) = self.places.get_mut(*next as usize) {
                *slot = place;
            }
            *next += 1;
        }
    }
}

/// Counts what one record did: those of `all` whose `places` are in `rest`. If its plot needs more room and there may be
/// some (`may_fill`), stops there, leaves the others in `rest`, and returns the place of the next.
fn take(
    record: &mut RecordInfo,
    all: &[Processed],
    places: &[u32],
    rest: &mut std::ops::Range<usize>,
    may_fill: bool,
) -> Option<u32> {
    for at in rest.clone() {
        let place = *places.get(at)?;
        let Processed { wall, took, value } = *all.get(place as usize)?;
        if took == READ {
            record.plot.iter_mut().zip(value).for_each(|(plot, value)| plot.add(wall, value));
            continue;
        }
        if may_fill && value.is_some() && record.plot.as_ref().is_some_and(|plot| plot.is_full(POINTS)) {
            rest.start = at;
            return Some(place);
        }
        record.processed.add(wall);
        if took == OPEN {
            continue;
        }
        record.busy = record.busy.saturating_add(took);
        record.longest = record.longest.max(took);
        if let Some((plot, value)) = record.plot.as_mut().zip(value) {
            plot.add(wall.saturating_add_unsigned(took), value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::report::strings::Strings;
    use iocrec_log::context::Context;

    fn records(count: u32) -> Places {
        let mut places = Places::default();
        for number in 0..count {
            let name = format!("R{number}");
            let record =
                RecordInfo::new(&Context::default(), 1, &name, 0, number as usize, &mut Strings::default());
            places.records.push(record);
        }
        places
    }

    /// Counts, bins, values, and points.
    type Shown = ([u64; 4], Vec<u32>, Vec<(i64, f64)>);

    /// What is shown of a record.
    fn shown(record: &mut RecordInfo) -> Shown {
        let plot = record.plot.clone().unwrap();
        let seen = plot.seen();
        let points = plot.finish().0.into_iter().map(|point| (point.time, point.value)).collect();
        let processed = &mut record.processed;
        ([processed.total(), record.busy, record.longest, seen], processed.bins(), points)
    }

    /// However many are kept before they are counted, the result is the same.
    #[test]
    fn later_is_as_good_as_at_once() {
        const RECORDS: u32 = 500;
        let (mut kept, mut at_once) = (records(RECORDS), records(RECORDS));
        let (mut all, mut one) = (Tally::default(), Tally::default());
        let mut state = 1_u64;
        for turn in 0..200_000_i64 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let (record, what) = ((state >> 33) as u32 % RECORDS, state >> 60);
            // some processings are taken late, some values are as before
            let wall = turn * 1_000_000 - if what == 3 { 40_000_000 } else { 0 };
            let value = (what > 4).then_some((state >> 50) as f64);
            let processed = match what {
                0 => Processed::begun(wall),
                1 => Processed::read(wall, 7.0),
                _ => {
                    let mut processed = Processed::begun(wall);
                    processed.completed(state >> 44, value);
                    processed
                }
            };
            all.add(record, processed, &mut kept);
            one.add(record, processed, &mut at_once);
            one.count(&mut at_once);
        }
        all.count(&mut kept);
        assert_eq!(
            (all.full_plots, one.full_plots),
            (FULL_PLOTS, FULL_PLOTS),
            "not all records have all points"
        );
        for (kept, at_once) in kept.records.iter_mut().zip(&mut at_once.records) {
            assert_eq!(shown(kept), shown(at_once));
        }
    }

    #[test]
    fn what_has_no_record_is_left_out() {
        let mut places = records(1);
        let mut tally = Tally::default();
        tally.add(super::super::places::NONE, Processed::begun(5), &mut places);
        tally.add(0, Processed::begun(5), &mut places);
        tally.count(&mut places);
        assert_eq!(places.records[0].processed.total(), 1);
    }
}
