//! Encoding 2 of a body: events by columns. docs/format.md has the bytes.
//!
//! What a column holds is alike, so it packs better than an event at a time would; what is as
//! [`predict`](super::predict) tells costs nothing or a zero.

use super::batch::Batch;
use super::predict::{Hit, Numbers, Order, Step, Told, WHOLE};
use super::template::{append, take_postcard, Number, Rest, Template};
use super::varint;
use crate::event::Event;
use crate::format::BlockHeader;

/// Columns of a body, in this order.
pub(super) const COLUMNS: usize = 17;
/// Facts that are templates.
const TEMPLATES: usize = 0;
/// The template of each shape.
const SHAPE_TEMPLATES: usize = 1;
/// The record of each shape.
const SHAPE_RECORDS: usize = 2;
/// The shape of each event.
const SHAPES: usize = 3;
/// Times of Process hits, without their low bytes, and of all other events: what lies before a record
/// is processed is of another length than the processing itself.
const PROCESS_TIMES: usize = 4;
const OTHER_TIMES: usize = 5;
/// How each number is told.
const NUMBERS: usize = 6;
/// Whole facts, and values that are no numbers.
const FACTS: usize = 7;
/// The low bytes of all times.
const LOW_TIMES: usize = 8;
/// The bytes of numbers' differences: the highest in the first of eight columns.
const DIFFERENCES: usize = 9;

/// How a number is told: 0 to 2 by the numbers before, from here on by a difference.
const DIFFERENCE: u8 = 3;

/// The writer of columns. Keeps its memory for the next block.
#[derive(Debug, Default)]
pub(super) struct Columns {
    columns: [Vec<u8>; COLUMNS],
    order: Order,
    template_order: Order,
    numbers: Numbers,
}

/// Whose templates are: of nobody in particular, but [`Order`] wants to know.
const TEMPLATES_OWNER: super::template::Owner = super::template::Owner::Thread(0);

impl Columns {
    /// The columns of a batch that is arranged. `None` if it is not whole, which can't be.
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

    /// Templates and shapes.
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
            match self.numbers.past(hit, number).tell(number, value) {
                Told::Last => self.column(NUMBERS).push(0),
                Told::Onward => self.column(NUMBERS).push(1),
                Told::Older => self.column(NUMBERS).push(2),
                Told::Difference(difference) => self.put_difference(varint::zigzag(difference as i64)),
            }
        }
        self.numbers.came(hit, numbers, values);
    }

    /// A difference that is not zero: where its first and last bytes that are not zero stand, and the bytes
    /// from the one to the other.
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

    /// Bytes that it holds.
    pub fn memory(&self) -> usize {
        let columns: usize = self.columns.iter().map(Vec::capacity).sum();
        columns + self.order.memory() + self.template_order.memory() + self.numbers.memory()
    }
}

/// The column of the byte of a difference that counts 256^place.
fn plane(place: u8) -> usize {
    DIFFERENCES + 7 - usize::from(place & 7)
}

/// The reader of columns. Keeps its memory for the next block.
#[derive(Debug, Default)]
pub(super) struct Reader {
    order: Order,
    template_order: Order,
    numbers: Numbers,
    templates: Vec<Template>,
    shapes: Vec<(u32, u32)>,
}

/// What is left of a body's columns.
struct Left<'a>([&'a [u8]; COLUMNS]);

impl<'a> Left<'a> {
    fn of(mut body: &'a [u8]) -> Option<Self> {
        let mut lengths = [0; COLUMNS];
        for length in &mut lengths {
            *length = usize::try_from(varint::take(&mut body)?).ok()?;
        }
        let mut columns = [body; COLUMNS];
        for (column, length) in columns.iter_mut().zip(lengths) {
            (*column, body) = body.split_at_checked(length)?;
        }
        body.is_empty().then_some(Left(columns))
    }

    fn column(&mut self, column: usize) -> &mut &'a [u8] {
        &mut self.0[column]
    }

    fn number(&mut self, column: usize) -> Option<u64> {
        varint::take(self.column(column))
    }

    fn byte(&mut self, column: usize) -> Option<u8> {
        self.column(column).split_off_first().copied()
    }

    fn is_empty(&self) -> bool {
        self.0.iter().all(|column| column.is_empty())
    }
}

impl Reader {
    /// The events of an unpacked body; `None` if there is anything in it that a writer would not have written.
    pub fn read(&mut self, header: &BlockHeader, body: &[u8]) -> Option<Vec<Event>> {
        let mut left = Left::of(body)?;
        self.define(&mut left)?;
        let mut time = header.first;
        // Each event has a byte in the column of low bytes.
        let mut events = Vec::with_capacity((header.count as usize).min(left.column(LOW_TIMES).len()));
        for _ in 0..header.count {
            let shape = self.order.shape(Step::of(left.number(SHAPES)?)?)?;
            let first = self.order.came(shape);
            let (process, fact) = if shape == WHOLE {
                (false, take_postcard(left.column(FACTS))?)
            } else {
                let (template, record) = *self.shapes.get(shape as usize - 1)?;
                let about = *self.templates.get(template as usize)?;
                let hit = Hit { shape, template, first };
                let numbers = Self::numbers(&mut self.numbers, hit, about.numbers(), &mut left)?;
                let fact = about.fact(Rest { record, numbers }, left.column(FACTS))?;
                (matches!(about, Template::Process { .. }), fact)
            };
            let high = left.number(if process { PROCESS_TIMES } else { OTHER_TIMES })?;
            let passed = high.checked_mul(1 << 8)? | u64::from(left.byte(LOW_TIMES)?);
            time = time.wrapping_add(passed);
            events.push(Event { time, fact });
        }
        left.is_empty().then_some(events)
    }

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

    fn numbers(past: &mut Numbers, hit: Hit, numbers: [Number; 2], left: &mut Left) -> Option<[u64; 2]> {
        let mut values = [0, 0];
        for (number, value) in numbers.into_iter().zip(&mut values) {
            if !number.is_there() {
                continue;
            }
            let told = match left.byte(NUMBERS)? {
                0 => Told::Last,
                1 => Told::Onward,
                2 => Told::Older,
                how => Told::Difference(varint::unzigzag(Self::difference(how - DIFFERENCE, left)?) as u64),
            };
            *value = past.past(hit, number).value(number, told)?;
        }
        past.came(hit, numbers, values);
        Some(values)
    }

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
