//! A record's value over time, in a bounded number of points.
//!
//! As long as there is room, each change is a point. Then time is divided into spans of equal width, and of each only
//! the first, lowest, highest and last value remain, and the first that can't be drawn: a plot of them looks as one of all
//! values would.

/// log2 of the width of the narrowest span, nanoseconds, and of the widest.
const NARROWEST: u32 = 10;
const WIDEST: u32 = 62;

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
    /// Number of points at the beginning that are what remains of spans of this width.
    joined: usize,
    /// Number of values that were seen.
    seen: u64,
    /// The last point: those of many records are far away in memory.
    last: Option<Point>,
}

impl Plot {
    /// A plot of at most so many points.
    pub fn new(most: usize) -> Self {
        Plot { points: Vec::new(), most: most.max(8), shift: 0, joined: 0, seen: 0, last: None }
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
                self.joined = self.joined.min(place);
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
        let most = self.most * 3 / 4;
        let mut kept = Vec::with_capacity(self.points.len());
        let mut begin = self.untouched();
        if begin == 0 {
            self.shift = least_shift(&self.points, self.shift.max(NARROWEST), most);
        }
        loop {
            kept.clear();
            reduced(self.points.get(begin..).unwrap_or_default(), self.shift, &mut kept);
            self.points.truncate(begin);
            self.points.extend_from_slice(&kept);
            if self.points.len() <= most || self.shift >= WIDEST {
                break;
            }
            // what remains of two spans is what remains of what remains of each
            begin = 0;
            self.shift = least_shift(&self.points, self.shift + 1, most);
        }
        self.joined = self.points.len();
        self.last = self.points.last().copied();
    }

    /// The number of points at the beginning that stay as they are if spans become no wider: all but those of the last span,
    /// to which others may have come.
    fn untouched(&self) -> usize {
        let joined = self.points.get(..self.joined).unwrap_or_default();
        let of = |point: &Point| point.time >> self.shift;
        joined.last().map_or(0, |last| joined.partition_point(|point| of(point) < of(last)))
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

/// The least log2 of the width of spans, from this one on, of which there are at most so many: of each remains a point at
/// least.
fn least_shift(points: &[Point], from: u32, most: usize) -> u32 {
    // two times are in one span if they differ in lower digits only
    let mut differ = [0_usize; 65];
    for (a, b) in points.iter().zip(points.iter().skip(1)) {
        let digits = 64 - ((a.time ^ b.time) as u64).leading_zeros();
        if let Some(count) = differ.get_mut(digits as usize) {
            *count += 1;
        }
    }
    let spans = |shift: u32| 1 + differ.iter().skip(shift as usize + 1).sum::<usize>();
    (from..WIDEST).find(|shift| spans(*shift) <= most).unwrap_or(WIDEST)
}

/// Appends the first, lowest, highest and last value of each span, and the first that is not finite, in order of time.
fn reduced(points: &[Point], shift: u32, kept: &mut Vec<Point>) {
    for span in points.chunk_by(|a, b| a.time >> shift == b.time >> shift) {
        let (first, last) = match span {
            [] => continue,
            [only] => {
                kept.push(*only);
                continue;
            }
            [first, .., last] => (first, last),
        };
        // NaN would be the lowest or the highest
        let (mut extremes, mut hole): (Option<(&Point, &Point)>, _) = (None, None);
        for point in span {
            if !point.value.is_finite() {
                hole = hole.or(Some(point));
                continue;
            }
            let (lowest, highest) = extremes.unwrap_or((point, point));
            let is_lower = point.value.total_cmp(&lowest.value).is_lt();
            let is_higher = point.value.total_cmp(&highest.value).is_ge();
            extremes = Some((if is_lower { point } else { lowest }, if is_higher { point } else { highest }));
        }
        let (lowest, highest) = extremes.unwrap_or((first, first));
        let mut chosen = [*first, *lowest, *highest, *hole.unwrap_or(first), *last];
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

    /// What remains if all points are joined anew each time, with spans of each width from the last one on.
    fn remain(points: &[Point], shift: &mut u32, most: usize) -> Vec<Point> {
        *shift = (*shift).max(NARROWEST);
        loop {
            let mut kept = Vec::new();
            for span in points.chunk_by(|a, b| a.time >> *shift == b.time >> *shift) {
                let finite = || span.iter().filter(|point| point.value.is_finite());
                let by_value = |a: &&Point, b: &&Point| a.value.total_cmp(&b.value);
                let (first, last) = (&span[0], &span[span.len() - 1]);
                let lowest = finite().min_by(by_value).unwrap_or(first);
                let highest = finite().max_by(by_value).unwrap_or(first);
                let hole = span.iter().find(|point| !point.value.is_finite()).unwrap_or(first);
                let mut chosen = [*first, *lowest, *highest, *hole, *last];
                chosen.sort_by_key(|point| point.time);
                let mut chosen: Vec<Point> = chosen.into();
                chosen.dedup_by_key(|point| (point.time, point.value.to_bits()));
                kept.extend(chosen);
            }
            if kept.len() <= most || *shift >= WIDEST {
                return kept;
            }
            *shift += 1;
        }
    }

    /// Spans to which nothing has come are not looked at again, and widths that can't do are not tried.
    #[test]
    fn the_same_remains_as_if_all_were_joined_anew() {
        let mut state = 1_u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        for turn in 0..60 {
            let most = [8, 30, 96][turn % 3];
            let pace = [1, 3_000, 100_000_000][turn / 3 % 3];
            let (mut plot, mut points, mut shift) = (Plot::new(most), Vec::<Point>::new(), 0);
            let mut now = if turn % 2 == 0 { -500_000_000 } else { 1_790_000_000_000_000_000_i64 };
            for _ in 0..2000 {
                now += random(pace) as i64 * if random(200) == 0 { 1000 } else { 1 };
                let late = if random(20) == 0 { random(pace * 60) as i64 } else { 0 };
                let value = match random(30) {
                    0 => f64::NAN,
                    1 => f64::NEG_INFINITY,
                    2 => -0.0,
                    number => (number % 7) as f64,
                };
                let point = Point { time: now - late, value };
                plot.add(point.time, point.value);
                match points.last().copied() {
                    Some(last) if point.time < last.time => {
                        points.insert(points.partition_point(|other| other.time <= point.time), point);
                    }
                    Some(last) if last.value == value || last.value.is_nan() && value.is_nan() => continue,
                    _ => points.push(point),
                }
                if points.len() >= most + most / 2 || shift == 0 && points.len() > most {
                    points = remain(&points, &mut shift, most * 3 / 4);
                }
                let bits = |points: &[Point]| {
                    points.iter().map(|point| (point.time, point.value.to_bits())).collect::<Vec<_>>()
                };
                assert_eq!((bits(&plot.points), plot.shift), (bits(&points), shift), "turn {turn}");
            }
            assert!(shift > 0);
        }
    }

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
