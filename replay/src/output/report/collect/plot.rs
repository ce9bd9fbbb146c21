//! A record's value over time, in a bounded number of points.
//!
//! As long as there is room, each change is a point. Then time is divided into spans of equal width, and of each only
//! the first, lowest, highest and last value remain, and the first that can't be drawn: a plot of them looks as one of all
//! values would.

/// A value at a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Wall-clock time, nanoseconds since 1970 UTC.
    pub time: i64,
    /// The value; NaN where it is not a number.
    pub value: f64,
}

/// The value of one record.
#[derive(Clone, Debug)]
pub struct Plot {
    points: Vec<Point>,
    most: usize,
    /// log2 of the width of a span in nanoseconds; 0 as long as each change is kept.
    shift: u32,
    /// Number of values that were seen.
    seen: u64,
    /// The last point: those of many records are far away in memory.
    last: Option<Point>,
}

impl Plot {
    /// A plot of at most so many points.
    pub fn new(most: usize) -> Self {
        Plot { points: Vec::new(), most: most.max(8), shift: 0, seen: 0, last: None }
    }

    /// Allows more points; only before any have been joined.
    pub fn allow(&mut self, most: usize) {
        self.most = self.most.max(most);
    }

    /// Whether the next change needs more room than there is, and so many points are not allowed yet.
    pub fn is_full(&self, most: usize) -> bool {
        self.shift == 0 && self.most < most && self.points.len() >= self.most
    }

    /// Takes a value.
    pub fn add(&mut self, time: i64, value: f64) {
        self.seen += 1;
        let point = Point { time, value };
        match self.last {
            Some(last) if time < last.time => {
                let place = self.points.partition_point(|other| other.time <= time);
                self.points.insert(place, point);
            }
            Some(last) if last.value == value || (last.value.is_nan() && value.is_nan()) => return,
            _ => {
                if self.points.len() == self.points.capacity() {
                    // never twice as much as will be needed
                    let room = (self.points.len() * 2).clamp(4, self.most + self.most / 2);
                    self.points.reserve_exact(room.saturating_sub(self.points.len()).max(1));
                }
                self.points.push(point);
                self.last = Some(point);
            }
        }
        // Spans have up to five points each; reducing at twice the number keeps the work per value constant.
        if self.points.len() >= self.most + self.most / 2
            || (self.shift == 0 && self.points.len() > self.most)
        {
            self.reduce();
        }
    }

    /// Makes spans so wide that the points fit, and leave room for others.
    fn reduce(&mut self) {
        self.shift = self.shift.max(10);
        let mut kept = Vec::with_capacity(self.points.len());
        loop {
            reduced(&self.points, self.shift, &mut kept);
            if kept.len() <= self.most * 3 / 4 || self.shift >= 62 {
                break;
            }
            self.shift += 1;
        }
        self.points.clear();
        self.points.extend_from_slice(&kept);
        self.last = self.points.last().copied();
    }

    /// The points in order of time, and whether some were left out.
    pub fn finish(mut self) -> (Vec<Point>, bool) {
        if self.points.len() > self.most {
            self.reduce();
        }
        (self.points, self.shift > 0)
    }

    /// Number of values that were seen, equal ones included.
    pub fn seen(&self) -> u64 {
        self.seen
    }

    /// Whether it is a line: it has more than one point.
    pub fn is_line(&self) -> bool {
        self.points.len() > 1
    }
}

/// The first, lowest, highest and last value of each span, and the first that is not finite, in order of time.
fn reduced(points: &[Point], shift: u32, kept: &mut Vec<Point>) {
    kept.clear();
    for span in points.chunk_by(|a, b| a.time >> shift == b.time >> shift) {
        let by_value = |a: &&Point, b: &&Point| a.value.total_cmp(&b.value);
        let (Some(first), Some(last)) = (span.first(), span.last()) else { continue };
        // NaN would be the lowest or the highest
        let finite = || span.iter().filter(|point| point.value.is_finite());
        let lowest = finite().min_by(by_value).unwrap_or(first);
        let highest = finite().max_by(by_value).unwrap_or(first);
        let hole = span.iter().find(|point| !point.value.is_finite()).unwrap_or(first);
        let mut chosen = [*first, *lowest, *highest, *hole, *last];
        chosen.sort_by_key(|point| point.time);
        let mut before: Option<Point> = None;
        for point in chosen {
            let same = |other: Point| other.time == point.time && other.value.total_cmp(&point.value).is_eq();
            if !before.is_some_and(same) {
                kept.push(point);
                before = Some(point);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_values_are_kept_as_they_are() {
        let mut plot = Plot::new(100);
        for (time, value) in [(1, 1.0), (2, 1.0), (3, 2.0), (5, 4.0), (4, 3.0)] {
            plot.add(time, value);
        }
        let (points, thinned) = plot.clone().finish();
        assert_eq!(points.iter().map(|point| point.value).collect::<Vec<_>>(), [1.0, 2.0, 3.0, 4.0]);
        assert_eq!((thinned, plot.seen()), (false, 5));
    }

    #[test]
    fn of_many_the_extremes_remain() {
        let mut plot = Plot::new(200);
        for number in 0..100_000_i64 {
            let spike = if number == 54_321 { 1e9 } else { 0.0 };
            plot.add(number * 1_000_000, (number % 17) as f64 + spike);
        }
        let (points, thinned) = plot.clone().finish();
        assert!(thinned && points.len() <= 200, "{}", points.len());
        assert!(points.iter().any(|point| point.value > 1e8 && point.time == 54_321_000_000));
        assert!(points.is_sorted_by_key(|point| point.time));
        assert_eq!((points[0].time, plot.seen()), (0, 100_000));
    }

    /// Whatever the sign of a NaN, which is that of what the processor computed it from.
    #[test]
    fn extremes_remain_beside_what_can_not_be_drawn() {
        let mut plot = Plot::new(200);
        for number in 0..100_000_i64 {
            plot.add(
                number * 1_000_000,
                match number {
                    54_321 => 1e9,
                    54_323 => -1e9,
                    54_320 | 54_324 => f64::NAN,
                    54_322 => f64::NAN.copysign(-1.0),
                    54_325 => f64::INFINITY,
                    _ => (number % 17) as f64,
                },
            );
        }
        let (points, thinned) = plot.finish();
        assert!(thinned && points.len() <= 200, "{}", points.len());
        let found = |value: f64| points.iter().any(|point| point.value == value);
        assert!(found(1e9) && found(-1e9) && points.iter().any(|point| !point.value.is_finite()));
    }

    #[test]
    fn values_that_are_no_numbers_do_no_harm() {
        let mut plot = Plot::new(8);
        for number in 0..1000 {
            plot.add(i64::MAX - number, if number % 2 == 0 { f64::NAN } else { f64::INFINITY });
        }
        assert!(plot.finish().0.len() <= 8 + 4);
    }
}
