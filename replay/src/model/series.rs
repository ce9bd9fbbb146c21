//! Values of one PV for drawing: a bounded number of cells, each a span of time with its lowest and highest value.
//!
//! A cell is one value as long as there are few; beyond `MAX_CELLS` neighbours are joined, so that any number of values
//! takes the same memory, and no extreme and no state is lost. Values hold until the next one: steps, not slopes. After
//! something went unseen the value is not known until the next one is seen. What can't be drawn - texts, arrays, NaN,
//! infinity - leaves a hole: the value before it is over.

use super::history::ValueLine;
use super::properties;
use super::unseen::Kind;
use iocrec_log::event::{Properties, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// Cells of a series: more than a screen has columns, few enough for a hundred series.
const MAX_CELLS: usize = 16_384;
/// Gaps of a series; beyond it they are joined. A bound for hostile logs.
const MAX_GAPS: usize = 1000;
/// States of a series that have a name; likewise. Records have 16, menus some dozens.
const MAX_STATES: usize = 64;

/// Values in a span of time. Times are nanoseconds since 1970 UTC.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cell {
    /// Time of the first value.
    pub from: i64,
    /// Time of the last.
    pub to: i64,
    /// The first value; not finite if it can't be drawn.
    pub first: f64,
    /// The last value, which holds from then on; likewise.
    pub last: f64,
    /// The lowest that can be drawn; NaN if none can.
    pub low: f64,
    /// The highest; likewise.
    pub high: f64,
    /// Whether there are values that can't be drawn.
    pub holes: bool,
    /// The states, a bit each, as far as they have numbers from 0 to 63.
    pub states: u64,
    /// The worst alarm severity; `None` if none is known.
    pub severity: Option<u16>,
    /// The alarm severity of the last value.
    pub last_severity: Option<u16>,
}

/// The bit of a state.
fn bit(state: f64) -> u64 {
    match state {
        // checked: a number from 0 to 63
        _ if (0.0..64.0).contains(&state) && state.fract() == 0.0 => 1 << state as u32,
        _ => 0,
    }
}

impl Cell {
    /// A cell of one value.
    fn of(time: i64, value: f64, severity: Option<u16>) -> Cell {
        let drawn = if value.is_finite() { value } else { f64::NAN };
        let holes = !value.is_finite();
        let (from, to, last_severity) = (time, time, severity);
        let (first, last, low, high, states) = (value, value, drawn, drawn, bit(value));
        Cell { from, to, first, last, low, high, holes, states, severity, last_severity }
    }

    /// Whether the state is one of its values.
    pub fn has(&self, state: i64) -> bool {
        let number = state as f64;
        self.first == number || self.last == number || self.states & bit(number) != 0
    }

    fn join(&mut self, next: &Cell) {
        self.to = next.to;
        self.last = next.last;
        self.holes |= next.holes;
        self.states |= next.states;
        self.low = self.low.min(next.low);
        self.high = self.high.max(next.high);
        self.severity = self.severity.max(next.severity);
        self.last_severity = next.last_severity;
    }
}

/// A span of time in which the value is not known: from when something went unseen to the next value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// Its start.
    pub from: i64,
    /// Its end; `None` if no value follows.
    pub to: Option<i64>,
    /// Whether the IOC had ended.
    pub ended: bool,
}

/// The values of a PV over time.
#[derive(Debug, Default)]
pub struct Series {
    /// Name of the PV.
    pub pv: String,
    /// Its host; empty if unknown.
    pub host: String,
    /// Its IOC; empty if unknown.
    pub ioc: String,
    /// Whether there is another one of this name and IOC, on another host.
    pub is_named_twice: bool,
    /// Its properties, if known.
    pub properties: Option<Rc<Properties>>,
    /// Names of states by number; empty for a number.
    pub states: BTreeMap<i64, String>,
    /// The cells, in order of time.
    pub cells: Vec<Cell>,
    /// The gaps, in order of time.
    pub gaps: Vec<Gap>,
    /// Number of values.
    pub count: u64,
    /// Values joined into one cell.
    pub joined: u64,
    /// Values that can't be drawn: texts, arrays.
    pub not_drawn: u64,
    /// Values that are NaN or infinite.
    pub not_finite: u64,
    /// States that have no name.
    unnamed: BTreeSet<i64>,
    in_cell: u64,
}

/// A value as a number.
pub fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Int(number) => Some(*number as f64),
        Value::UInt(number) => Some(*number as f64),
        Value::Float(number) => Some(f64::from(*number)),
        Value::Double(number) => Some(*number),
        Value::Unknown | Value::Text(_) | Value::Array(_) => None,
    }
}

impl Series {
    /// A series of the PV of this line.
    pub fn of(line: &ValueLine) -> Series {
        let properties = line.properties().filter(|_| &*line.field == "VAL");
        let (host, ioc) = (line.host.to_string(), line.ioc.to_string());
        Series { pv: line.pv(), host, ioc, properties, joined: 1, ..Series::default() }
    }

    /// A series of something that is no PV of an IOC.
    pub fn named(name: String, units: &str, host: &str, ioc: &str) -> Series {
        let units = Properties { units: units.to_owned(), ..properties::none(0) };
        let (host, ioc) = (host.to_owned(), ioc.to_owned());
        Series { pv: name, host, ioc, properties: Some(Rc::new(units)), joined: 1, ..Series::default() }
    }

    /// Takes the next value.
    pub fn add(&mut self, line: &ValueLine) {
        self.count += 1;
        if self.properties.is_none() && &*line.field == "VAL" {
            self.properties = line.properties();
        }
        let value = match (&line.value, number(&line.value)) {
            (Value::Unknown, _) => return self.unseen(line.time, Kind::Lost),
            (_, None) => {
                self.not_drawn += 1;
                if self.cells.is_empty() {
                    return; // there may be nothing to draw at all
                }
                f64::NAN
            }
            (_, Some(value)) => {
                self.not_finite += u64::from(!value.is_finite());
                value
            }
        };
        match (&line.text, &line.value) {
            (Some(text), Value::Int(state)) if self.states.len() < MAX_STATES => {
                _ = self.states.entry(*state).or_insert_with(|| text.clone());
            }
            (None, Value::Int(state)) if self.unnamed.len() < MAX_STATES => _ = self.unnamed.insert(*state),
            _ => {}
        }
        let before = self.cells.last().and_then(|cell| cell.last_severity);
        // a put that makes no record process leaves the alarm as it was
        let severity = line.alarm.map(|(severity, _)| severity).or(before);
        self.push(line.time, value, severity);
    }

    /// Takes the next number, which is no PV's.
    pub fn number(&mut self, time: i64, value: f64) {
        self.count += 1;
        self.push(time, value, None);
    }

    fn push(&mut self, time: i64, value: f64, severity: Option<u16>) {
        if let Some(gap) = self.gaps.last_mut().filter(|gap| gap.to.is_none()) {
            gap.to = Some(time.max(gap.from));
            self.in_cell = self.joined; // a cell has no gap in it
        }
        let cell = Cell::of(time, value, severity);
        match self.cells.last_mut() {
            Some(open) if self.in_cell < self.joined => open.join(&cell),
            _ => {
                self.cells.push(cell);
                self.in_cell = 0;
            }
        }
        self.in_cell += 1;
        if self.cells.len() >= MAX_CELLS {
            self.halve();
        }
    }

    /// Something went unseen since this time.
    pub fn unseen(&mut self, since: i64, kind: Kind) {
        let ended = kind == Kind::Ended;
        let full = self.gaps.len() >= MAX_GAPS;
        match self.gaps.last_mut() {
            Some(open) if open.to.is_none() => open.ended |= ended,
            Some(last) if full => (last.to, last.ended) = (None, ended),
            _ => self.gaps.push(Gap { from: since, to: None, ended }),
        }
    }

    /// Joins pairs of neighbours that no gap separates.
    fn halve(&mut self) {
        let mut joined: Vec<Cell> = Vec::with_capacity(self.cells.len() / 2 + 1);
        let mut gaps = self.gaps.iter().filter_map(|gap| gap.to).peekable();
        let mut alone = true;
        for cell in self.cells.drain(..) {
            let mut after_gap = false;
            while gaps.next_if(|to| *to <= cell.from).is_some() {
                after_gap = true;
            }
            match joined.last_mut() {
                Some(open) if alone && !after_gap => {
                    open.join(&cell);
                    alone = false;
                }
                _ => {
                    joined.push(cell);
                    alone = true;
                }
            }
        }
        self.cells = joined;
        self.joined = self.joined.saturating_mul(2);
        self.in_cell = self.joined;
    }

    /// The time of the first and of the last value.
    pub fn span(&self) -> Option<(i64, i64)> {
        Some((self.cells.first()?.from, self.cells.last()?.to))
    }

    /// The lowest and the highest finite value.
    pub fn range(&self) -> Option<(f64, f64)> {
        let finite =
            self.cells.iter().flat_map(|cell| [cell.low, cell.high]).filter(|value| value.is_finite());
        finite.fold(None, |range, value| match range {
            None => Some((value, value)),
            Some((low, high)) => Some((value.min(low), value.max(high))),
        })
    }

    /// Whether it is drawn as states and not as numbers.
    pub fn is_states(&self) -> bool {
        !self.states.is_empty()
    }

    /// The states that it had, each with its name, or with its number if it has none; the highest first.
    pub fn lanes(&self) -> Vec<(i64, String)> {
        let mut lanes = self.states.clone();
        for state in &self.unnamed {
            lanes.entry(*state).or_insert_with(|| state.to_string());
        }
        lanes.into_iter().rev().collect()
    }

    /// The time until which the last value of a cell is known: the next cell, or a gap before it, or `end`.
    pub fn holds_until(&self, number: usize, end: i64) -> i64 {
        let Some(cell) = self.cells.get(number) else { return end };
        let next = self.cells.get(number + 1).map_or(end, |next| next.from);
        let after = self.gaps.partition_point(|gap| gap.to.is_some_and(|to| to <= cell.to));
        let gap = self.gaps.get(after).map_or(next, |gap| gap.from.max(cell.to));
        next.min(gap).max(cell.to)
    }
}

/// What a column of a drawing shows.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Column {
    /// The lowest and highest value in it; `None` if none is known.
    pub range: Option<(f64, f64)>,
    /// The worst severity in it, if one is known.
    pub severity: Option<u16>,
    /// Whether the value is not known in a part of it.
    pub gap: bool,
    /// Whether it has a value that can't be drawn.
    pub holes: bool,
    /// The states in it, a bit each; of those from 0 to 63.
    states: u64,
}

impl Column {
    /// Whether a state was there. Of states beyond 63 this is known only if there was no other one.
    pub fn has(&self, state: i64) -> bool {
        let number = state as f64;
        self.states & bit(number) != 0 || bit(number) == 0 && self.range == Some((number, number))
    }
}

/// Divides the time from `from` to `to` into `count` columns.
pub fn columns(series: &Series, from: i64, to: i64, count: usize) -> Vec<Column> {
    let mut columns = vec![Column::default(); count];
    let width = (to.saturating_sub(from)).max(1) as f64 / count.max(1) as f64;
    let column = |time: i64| (time.saturating_sub(from) as f64 / width).floor();
    let mut mark = |begin: i64, end: i64, change: &mut dyn FnMut(&mut Column)| {
        if end < from || begin > to {
            return;
        }
        // `as` saturates: times before the first column are in the first
        let (first, last) = (column(begin) as usize, column(end.min(to)) as usize);
        let first = first.min(count.saturating_sub(1));
        columns.iter_mut().skip(first).take(last.max(first) - first + 1).for_each(change);
    };
    for (number, cell) in series.cells.iter().enumerate() {
        let until = series.holds_until(number, to);
        let mut add = |low: f64, high: f64, begin: i64, end: i64, change: &dyn Fn(&mut Column)| {
            mark(begin, end, &mut |column| {
                if low.is_finite() && high.is_finite() {
                    let (least, most) = column.range.unwrap_or((low, high));
                    column.range = Some((least.min(low), most.max(high)));
                }
                change(column);
            });
        };
        add(cell.low, cell.high, cell.from, cell.to, &|column| {
            column.holes |= cell.holes;
            column.states |= cell.states;
            column.severity = column.severity.max(cell.severity);
        });
        add(cell.last, cell.last, cell.to, until, &|column| {
            column.holes |= !cell.last.is_finite();
            column.states |= bit(cell.last);
            column.severity = column.severity.max(cell.last_severity);
        });
        // the step from the value before, if that was known up to this one
        if let Some(before) = number.checked_sub(1).and_then(|before| series.cells.get(before)) {
            if series.holds_until(number - 1, to) == cell.from
                && before.last.is_finite()
                && cell.first.is_finite()
            {
                let (low, high) = (before.last.min(cell.first), before.last.max(cell.first));
                add(low, high, cell.from, cell.from, &|_| {});
            }
        }
    }
    for gap in &series.gaps {
        mark(gap.from, gap.to.unwrap_or(to), &mut |column| column.gap = true);
    }
    columns
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(values: &[(i64, f64)]) -> Series {
        let mut series = Series { joined: 1, ..Series::default() };
        values.iter().for_each(|(time, value)| series.add(&ValueLine::of_number(*time, *value)));
        series
    }

    #[test]
    fn steps_hold_until_the_next_value() {
        let drawn = columns(&series(&[(0, 1.0), (50, 3.0)]), 0, 100, 4);
        let ranges: Vec<_> = drawn.iter().map(|column| column.range).collect();
        assert_eq!(ranges, [Some((1.0, 1.0)), Some((1.0, 1.0)), Some((1.0, 3.0)), Some((3.0, 3.0))]);
        assert!(drawn.iter().all(|column| !column.gap));
    }

    #[test]
    fn nothing_is_drawn_where_nothing_is_known() {
        let mut series = series(&[(0, 1.0)]);
        series.unseen(30, Kind::Lost);
        series.add(&ValueLine::of_number(60, 2.0));
        let drawn = columns(&series, 0, 100, 10);
        let known: String = drawn.iter().map(|c| if c.range.is_some() { 'x' } else { ' ' }).collect();
        let gaps: String = drawn.iter().map(|c| if c.gap { '?' } else { ' ' }).collect();
        assert_eq!((known.as_str(), gaps.as_str()), ("xxxx  xxxx", "   ????   "));
        assert_eq!(drawn[6].range, Some((2.0, 2.0)), "no step from the value before the gap");
    }

    #[test]
    fn no_extreme_is_lost_however_many_values() {
        let count = 200_000;
        let many: Vec<(i64, f64)> =
            (0..count).map(|n| (n, if n == 77_777 { 1e6 } else { (n % 7) as f64 })).collect();
        let series = series(&many);
        assert!(series.cells.len() < MAX_CELLS && series.joined > 1);
        assert_eq!(series.range(), Some((0.0, 1e6)));
        let drawn = columns(&series, 0, count, 100);
        let peaks: Vec<usize> =
            (0..100).filter(|n| drawn[*n].range.is_some_and(|(_, high)| high == 1e6)).collect();
        assert_eq!(peaks, [38], "77,777 of 200,000");
    }

    #[test]
    fn a_cell_never_spans_a_gap() {
        let mut series = series(&(0..40_000).map(|n| (n, 1.0)).collect::<Vec<_>>());
        series.unseen(40_000, Kind::Unrecorded);
        (50_000..90_000).for_each(|n| series.add(&ValueLine::of_number(n, 2.0)));
        assert!(series.cells.iter().all(|cell| cell.to < 40_001 || cell.from >= 50_000));
        assert_eq!(series.gaps, [Gap { from: 40_000, to: Some(50_000), ended: false }]);
    }

    #[test]
    fn what_cannot_be_drawn_ends_the_value_before_and_takes_no_more_memory() {
        let values = [1.0, f64::NAN, 2.0, f64::INFINITY];
        let drawn = columns(&series(&[(0, 1.0), (25, f64::NAN), (50, 2.0), (75, f64::INFINITY)]), 0, 100, 8);
        let text: String = drawn.iter().map(|c| if c.range.is_some() { 'x' } else { ' ' }).collect();
        // a column in which a value ends has it, too
        assert_eq!(text, "xxx xxx ");
        assert!(drawn.iter().all(|column| !column.gap) && drawn[3].holes && drawn[7].holes);
        for count in [1, 4] {
            let values = values.iter().rev().take(count);
            let many: Vec<(i64, f64)> = (0..).zip(values.cycle().copied()).take(100_000).collect();
            let series = series(&many);
            assert!(series.cells.len() < MAX_CELLS, "{}", series.cells.len());
            assert_eq!(series.range(), (count == 4).then_some((1.0, 2.0)));
        }
    }

    #[test]
    fn a_state_between_two_others_was_not_there() {
        let drawn = columns(&series(&[(0, 0.0), (50, 3.0), (55, 64.0)]), 0, 100, 2);
        let has = |column: &Column| (0..4).filter(|state| column.has(*state)).collect::<Vec<_>>();
        assert_eq!((has(&drawn[0]), has(&drawn[1])), (vec![0], vec![0, 3]));
        assert!(!drawn[1].has(64) && !drawn[1].has(63), "there are others");
    }
}
