//! Encoding 2 of a body: events by columns. docs/format.md documents the bytes.
//!
//! The contents of a column are similar, so they compress better than whole events; a correct
//! [prediction](super::predict) costs nothing or a zero.
//!
//! What reads is `#[inline]`, here and in what it calls, so that it is compiled with the program that reads, which is
//! optimised for speed: twice as fast. The recorder, which is optimised for size, does not read.

use super::batch::Batch;
use super::layout::*;
use super::predict::{Coded, Hit, Order, Pasts, Step, WHOLE};
use super::template::{append, take_postcard, Number, Rest, Small, Template};
use super::{spare, varint, Glance, LeftOut, Shapes, Unpacked, Wanted};
use crate::event::{Event, Fact};
use crate::format::BlockHeader;

/// The lowest code of a difference. Codes 0 to 2 refer to earlier numbers.
const DIFFERENCE: u8 = 3;

/// Writes columns. Keeps its memory for the next block.
#[derive(Debug, Default)]
pub(super) struct Columns {
    columns: [Vec<u8>; COLUMNS],
    order: Order,
    template_order: Order,
    numbers: Pasts,
}

/// The owner of all templates, because [`Order`] needs one.
const TEMPLATES_OWNER: super::template::Owner = super::template::Owner::Thread(0);

impl Columns {
    /// The columns of an arranged batch. `None` if the batch contradicts itself, which can't happen.
    pub fn fill(&mut self, batch: &Batch) -> Option<&[Vec<u8>; COLUMNS]> {
        self.columns.iter_mut().for_each(Vec::clear);
        self.define(batch)?;
        let mut time = batch.first().unwrap_or(0);
        for entry in &batch.entries {
            let (values, bytes) = batch.rest(entry);
            self.put(SHAPES, self.order.step(entry.shape).code());
            let first = self.order.came(entry.shape);
            let mut process = false;
            if entry.shape != WHOLE {
                let (template, _) = *batch.shapes.get(entry.shape as usize - 1)?;
                let about = batch.templates.get(template as usize)?;
                process = matches!(about, Template::Process { .. });
                self.put_numbers(Hit { shape: entry.shape, template, first }, about.numbers(), values);
            }
            self.column(FACTS).extend_from_slice(bytes);
            let passed = entry.time.wrapping_sub(time);
            time = entry.time;
            self.column(LOW_TIMES).push(passed as u8);
            self.put(if process { PROCESS_TIMES } else { OTHER_TIMES }, passed >> 8);
        }
        Some(&self.columns)
    }

    /// Writes templates and shapes.
    fn define(&mut self, batch: &Batch) -> Option<()> {
        let mut sp = 0;
        for template in &batch.templates {
            let skeleton = template.skeleton(&mut sp)?;
            append(&skeleton, self.column(TEMPLATES));
        }
        self.template_order.begin();
        batch.templates.iter().for_each(|_| self.template_order.add(TEMPLATES_OWNER));
        self.order.begin();
        let mut before = 0;
        for &(template, record) in &batch.shapes {
            self.put(SHAPE_TEMPLATES, self.template_order.step(template + 1).code());
            self.template_order.came(template + 1);
            self.put(SHAPE_RECORDS, varint::zigzag(i64::from(record) - i64::from(before)));
            before = record;
            self.order.add(batch.templates.get(template as usize)?.owner());
        }
        self.numbers.begin(batch.shapes.len() + 1, batch.templates.len());
        Some(())
    }

    fn put_numbers(&mut self, hit: Hit, numbers: [Number; 2], values: [u64; 2]) {
        for (number, value) in numbers.into_iter().zip(values) {
            if !number.is_there() {
                continue;
            }
            match self.numbers.past(hit, number).code(number, value) {
                Coded::Last => self.column(NUMBERS).push(0),
                Coded::Onward => self.column(NUMBERS).push(1),
                Coded::Older => self.column(NUMBERS).push(2),
                Coded::Difference(difference) => self.put_difference(varint::zigzag(difference as i64)),
            }
        }
        self.numbers.came(hit, numbers, values);
    }

    /// Writes a nonzero difference: the positions of its first and last nonzero bytes, and the bytes from one to the
    /// other.
    fn put_difference(&mut self, difference: u64) {
        let length = (71 - difference.leading_zeros()) as u8 / 8;
        let zeros = (difference.trailing_zeros() / 8) as u8;
        self.column(NUMBERS).push(DIFFERENCE + 8 * (length - 1) + zeros);
        for place in zeros..length {
            self.column(plane(place)).push((difference >> (8 * place)) as u8);
        }
    }

    fn put(&mut self, column: usize, number: u64) {
        varint::put(self.column(column), number);
    }

    fn column(&mut self, column: usize) -> &mut Vec<u8> {
        &mut self.columns[column]
    }

    /// Its memory, bytes.
    pub fn memory(&self) -> usize {
        let columns: usize = self.columns.iter().map(Vec::capacity).sum();
        columns + self.order.memory() + self.template_order.memory() + self.numbers.memory()
    }
}

/// Reads columns. Keeps its memory for the next block.
#[derive(Debug, Default)]
pub(super) struct Reader {
    order: Order,
    template_order: Order,
    numbers: Pasts,
    templates: Vec<Template>,
    shapes: Vec<(u32, u32)>,
    /// For each shape, what to do with its events.
    plans: Vec<Plan>,
    /// For each template, the wanted shapes that are yet to come: the first event of each refers to the last one of the
    /// template.
    awaited: Vec<u32>,
}

/// How the events of a shape are read.
#[derive(Clone, Copy, Debug)]
struct Plan {
    template: u32,
    record: u32,
    numbers: [Number; 2],
    /// How many of them there are.
    count: u8,
    /// Number of the kind of facts.
    kind: u16,
    has_bytes: bool,
    does: Does,
    process: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Does {
    /// They are wanted.
    Give,
    /// Only their numbers matter, until the first events of other shapes that refer to them have come.
    Follow,
    /// Nothing refers to them.
    Skip,
}

/// Numbers that are passed over. The bytes of their differences are taken off the columns together: one by one, they took
/// longer than all else of an event that nobody wants.
#[derive(Default)]
struct Passed {
    /// Bytes to be taken off each plane, eight bits for each.
    bytes: u64,
    /// Numbers since these were last taken off.
    numbers: u8,
}

/// For each encoding of a number, one for each plane that it has a byte in, as [`Passed::bytes`] has them.
static PLANES: [u64; 256] = {
    let (mut planes, mut how) = ([0_u64; 256], 0_usize);
    while how < 256 {
        planes[how] = match how.checked_sub(DIFFERENCE as usize) {
            None => 0,
            Some(how) => {
                let (length, mut place, mut bytes) = (how / 8 + 1, how % 8, 0_u64);
                while length <= 8 && place < length {
                    bytes |= 1_u64 << (8 * place);
                    place += 1;
                }
                if bytes == 0 {
                    NO_NUMBER
                } else {
                    bytes
                }
            }
        };
        how += 1;
    }
    planes
};

/// No number is encoded so.
const NO_NUMBER: u64 = u64::MAX;

impl Passed {
    /// Passes over a number; `None` if there is none that is encoded so.
    #[inline]
    fn pass(&mut self, left: &mut Left) -> Option<()> {
        let bytes = PLANES[usize::from(left.byte(NUMBERS)?)];
        if bytes == NO_NUMBER {
            return None;
        }
        self.bytes += bytes;
        self.numbers += 1;
        if self.numbers == u8::MAX {
            return self.take_off(left);
        }
        Some(())
    }

    /// Takes the bytes off; `None` if there are not as many.
    #[inline]
    fn take_off(&mut self, left: &mut Left) -> Option<()> {
        if self.numbers == 0 {
            return Some(());
        }
        for (place, count) in (0..).zip(self.bytes.to_le_bytes()) {
            let column = left.column(plane(place));
            (_, *column) = (*column).split_at_checked(usize::from(count))?;
        }
        *self = Passed::default();
        Some(())
    }
}

/// The lengths of a body's columns, and what follows them.
#[inline]
fn lengths(mut body: &[u8]) -> Option<(&[u8], [usize; COLUMNS])> {
    let mut lengths = [0; COLUMNS];
    for length in &mut lengths {
        *length = usize::try_from(varint::take(&mut body)?).ok()?;
    }
    Some((body, lengths))
}

/// The unread rest of a body's columns.
struct Left<'a>([&'a [u8]; COLUMNS]);

impl<'a> Left<'a> {
    #[inline]
    fn of(body: &'a [u8]) -> Option<Self> {
        let (mut body, lengths) = lengths(body)?;
        let mut columns = [body; COLUMNS];
        for (column, length) in columns.iter_mut().zip(lengths) {
            (*column, body) = body.split_at_checked(length)?;
        }
        body.is_empty().then_some(Left(columns))
    }

    #[inline]
    fn column(&mut self, column: usize) -> &mut &'a [u8] {
        &mut self.0[column]
    }

    #[inline]
    fn number(&mut self, column: usize) -> Option<u64> {
        varint::take(self.column(column))
    }

    #[inline]
    fn byte(&mut self, column: usize) -> Option<u8> {
        self.column(column).split_off_first().copied()
    }

    #[inline]
    fn is_empty(&self) -> bool {
        self.0.iter().all(|column| column.is_empty())
    }
}

impl Reader {
    /// The events of an unpacked body; `None` if it holds anything that a writer would not have written. With `wanted`,
    /// leaves out hits that it does not want, and counts them.
    #[inline]
    pub fn read(&mut self, header: &BlockHeader, body: &[u8], wanted: Option<&Wanted>) -> Option<Unpacked> {
        let mut left = Left::of(body)?;
        self.define(&mut left)?;
        self.plan(wanted)?;
        let mut time = header.first;
        let mut left_out = [0_u32; Fact::KINDS.len()];
        let mut span: Option<(u64, u64)> = None;
        // Each event has a byte in the column of low bytes.
        let lows = std::mem::take(left.column(LOW_TIMES));
        if lows.len() != header.count as usize {
            return None;
        }
        let mut steps = std::mem::take(left.column(SHAPES));
        let mut events = spare::take(lows.len());
        let (mut others, mut in_order, mut passed) = (Vec::new(), true, Passed::default());
        for low in lows {
            let (shape, first) = self.order.next(varint::take(&mut steps)?)?;
            let plan = match shape {
                WHOLE => None,
                _ => Some(self.plans.get(shape as usize - 1)?),
            };
            let process = plan.is_some_and(|plan| plan.process);
            let high = left.number(if process { PROCESS_TIMES } else { OTHER_TIMES })?;
            let before = time;
            time = time.wrapping_add(high.checked_mul(1 << 8)? | u64::from(*low));
            in_order &= before <= time;
            let Some(plan) = plan else {
                others.push(events.len() as u32);
                events.push(Event { time, fact: take_postcard(left.column(FACTS))? });
                continue;
            };
            let &Plan { template, record, .. } = plan;
            let matters = match plan.does {
                Does::Give => {
                    if first {
                        let awaited = self.awaited.get_mut(template as usize)?;
                        *awaited = awaited.saturating_sub(1);
                    }
                    true
                }
                Does::Follow => self.awaited.get(template as usize).is_some_and(|awaited| *awaited > 0),
                Does::Skip => false,
            };
            if matters {
                passed.take_off(&mut left)?;
                let hit = Hit { shape, template, first };
                let numbers = Self::numbers(&mut self.numbers, hit, plan, &mut left)?;
                if plan.does == Does::Give {
                    let about = self.templates.get(template as usize)?;
                    let rest = Rest { record, numbers };
                    match about.small(rest) {
                        // In its place at once, because a fact is large.
                        Some(Small::Process(hit)) => events.push(Event { time, fact: Fact::Process(hit) }),
                        Some(Small::Complete(hit)) => events.push(Event { time, fact: Fact::Complete(hit) }),
                        None => {
                            others.push(events.len() as u32);
                            let fact = about.fact(rest, left.column(FACTS))?;
                            events.push(Event { time, fact });
                        }
                    }
                    continue;
                }
            } else {
                for _ in 0..plan.count {
                    passed.pass(&mut left)?;
                }
            }
            // Its values that are not numbers are passed over, too.
            if plan.has_bytes {
                let about = self.templates.get(template as usize)?;
                about.fact(Rest { record, numbers: [0, 0] }, left.column(FACTS))?;
            }
            if let Some(count) = left_out.get_mut(usize::from(plan.kind)) {
                *count += 1;
            }
            let (earliest, latest) = span.unwrap_or((time, time));
            span = Some((earliest.min(time), latest.max(time)));
        }
        passed.take_off(&mut left)?;
        let counts = (0..).zip(left_out).filter(|(_, count)| *count > 0).collect();
        let read = steps.is_empty() && left.is_empty();
        let glance = Some(Glance { others, in_order });
        let events = spare::fit(events);
        read.then_some(Unpacked { events, glance, left_out: LeftOut { counts, span } })
    }

    /// The shapes of a body's hits, in order; `None` if it holds anything in these columns that a writer would not have
    /// written. Looks at no other column: `body` may end [after these](Reader::shapes_end).
    #[inline]
    pub fn shapes(&mut self, header: &BlockHeader, body: &[u8]) -> Option<Shapes> {
        let (mut columns, lengths) = lengths(body)?;
        let mut left = Left([&[]; COLUMNS]);
        for (place, length) in lengths.into_iter().enumerate().take(SHAPES + 1) {
            (*left.column(place), columns) = columns.split_at_checked(length)?;
        }
        // Each event has a byte in the column of low bytes.
        if lengths[LOW_TIMES] != header.count as usize {
            return None;
        }
        self.define(&mut left)?;
        let shape = |&(template, record): &(u32, u32)| {
            self.templates.get(template as usize).map(|template| template.shape(record))
        };
        let shapes = self.shapes.iter().map(shape).collect::<Option<_>>()?;
        let mut steps = std::mem::take(left.column(SHAPES));
        // Each has at least a byte.
        let mut order = Vec::with_capacity((header.count as usize).min(steps.len()));
        for _ in 0..header.count {
            let (shape, _) = self.order.next(varint::take(&mut steps)?)?;
            order.extend(shape.checked_sub(1)); // others are whole facts
        }
        steps.is_empty().then_some(Shapes { shapes, order })
    }

    /// The end of the columns that [`Reader::shapes`] looks at, by the beginning of a body; `None` if it is too short.
    #[inline]
    pub fn shapes_end(begin: &[u8]) -> Option<usize> {
        let (rest, lengths) = lengths(begin)?;
        let columns = lengths.into_iter().take(SHAPES + 1).try_fold(0_usize, usize::checked_add)?;
        columns.checked_add(begin.len() - rest.len())
    }

    /// Decides how the events of each shape are read.
    #[inline]
    fn plan(&mut self, wanted: Option<&Wanted>) -> Option<()> {
        self.plans.clear();
        // A wanted shape takes over numbers of its template when it first comes.
        self.awaited.clear();
        self.awaited.resize(self.templates.len(), 0);
        for &(template, record) in &self.shapes {
            let about = self.templates.get(template as usize)?;
            let gives = wanted.is_none_or(|wanted| wanted(&about.shape(record)));
            let numbers = about.numbers();
            let awaited = self.awaited.get_mut(template as usize)?;
            if numbers.contains(&Number::Request) {
                *awaited = u32::MAX; // they are compared with those of all other shapes, at any time
            } else if gives {
                *awaited = awaited.saturating_add(1);
            }
            let does = if gives { Does::Give } else { Does::Skip };
            let process = matches!(about, Template::Process { .. });
            let count = numbers.iter().filter(|number| number.is_there()).count() as u8;
            let (kind, has_bytes) = (about.number(), about.has_bytes());
            self.plans.push(Plan { template, record, numbers, count, kind, has_bytes, does, process });
        }
        for plan in &mut self.plans {
            if plan.does == Does::Skip && self.awaited.get(plan.template as usize) != Some(&0) {
                plan.does = Does::Follow;
            }
        }
        Some(())
    }

    #[inline]
    fn define(&mut self, left: &mut Left) -> Option<()> {
        self.templates.clear();
        let mut sp = 0;
        self.template_order.begin();
        while !left.column(TEMPLATES).is_empty() {
            let skeleton = take_postcard(left.column(TEMPLATES))?;
            self.templates.push(Template::of_skeleton(&skeleton, &mut sp)?);
            self.template_order.add(TEMPLATES_OWNER);
        }
        self.shapes.clear();
        self.order.begin();
        let mut record = 0_i64;
        while !left.column(SHAPE_TEMPLATES).is_empty() {
            let template = self.template_order.shape(Step::of(left.number(SHAPE_TEMPLATES)?)?)?;
            self.template_order.came(template);
            let template = template.checked_sub(1)?;
            record = record.checked_add(varint::unzigzag(left.number(SHAPE_RECORDS)?))?;
            self.shapes.push((template, u32::try_from(record).ok()?));
            self.order.add(self.templates.get(template as usize)?.owner());
        }
        self.numbers.begin(self.shapes.len() + 1, self.templates.len());
        Some(())
    }

    #[inline]
    fn numbers(past: &mut Pasts, hit: Hit, plan: &Plan, left: &mut Left) -> Option<[u64; 2]> {
        match (plan.count, plan.numbers) {
            (0, _) => Some([0, 0]),
            (1, [number @ Number::First { .. }, _]) => {
                let coded = Self::coded(left)?;
                Some([past.only(hit, number, coded)?, 0])
            }
            (_, numbers) => {
                let mut values = [0, 0];
                for (number, value) in numbers.into_iter().zip(&mut values) {
                    if number.is_there() {
                        let coded = Self::coded(left)?;
                        *value = past.past(hit, number).value(number, coded)?;
                    }
                }
                past.came(hit, numbers, values);
                Some(values)
            }
        }
    }

    #[inline]
    fn coded(left: &mut Left) -> Option<Coded> {
        Some(match left.byte(NUMBERS)? {
            0 => Coded::Last,
            1 => Coded::Onward,
            2 => Coded::Older,
            how => Coded::Difference(varint::unzigzag(Self::difference(how - DIFFERENCE, left)?) as u64),
        })
    }

    #[inline]
    fn difference(how: u8, left: &mut Left) -> Option<u64> {
        let (length, zeros) = (how / 8 + 1, how % 8);
        if length > 8 || zeros >= length {
            return None;
        }
        let mut difference = 0;
        for place in zeros..length {
            difference |= u64::from(left.byte(plane(place))?) << (8 * place);
        }
        Some(difference)
    }
}
