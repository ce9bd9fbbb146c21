//! Predicts the next shapes and numbers from earlier ones in the same block. Writer and reader make the same
//! predictions, so a correct prediction need not be stored.

use super::template::{Number, Owner};
use std::collections::BTreeMap;

/// The shape of a fact that is stored whole. Every block has it; other shapes are numbered from 1.
pub(super) const WHOLE: u32 = 0;
/// No shape, no owner.
const NONE: u32 = u32::MAX;
/// Number of threads (or circuits) that are followed at a time: the number that hit at once on a usual box, which has
/// two to four CPUs.
const FOLLOWED: usize = 4;

/// A shape and its predicted successor.
#[derive(Clone, Debug)]
struct Shape {
    owner: u32,
    /// The shape that last came after it.
    next: u32,
    seen: bool,
}

/// The order of shapes: in a thread, each is mostly followed by the same shape as the last time.
#[derive(Debug, Default)]
pub(super) struct Order {
    shapes: Vec<Shape>,
    /// The last shape of each owner.
    last: Vec<u32>,
    owners: BTreeMap<Owner, u32>,
    /// The owners that came last, the latest first.
    recent: [u32; FOLLOWED],
    /// The lowest number not yet seen, or one below it.
    fresh: u32,
}

/// The encoding of a shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The one that followed the last time in the latest thread (rank 0), or in the thread before it ...
    Next(usize),
    /// The lowest number not seen before.
    Fresh,
    /// By its number.
    Number(u32),
}

impl Step {
    /// The step as a number: 0 and 2 to 4 for `Next`, 1 for `Fresh`, 5 and more for numbers.
    pub fn code(self) -> u64 {
        match self {
            Step::Next(0) => 0,
            Step::Fresh => 1,
            Step::Next(rank) => rank as u64 + 1,
            Step::Number(shape) => u64::from(shape) + FOLLOWED as u64 + 1,
        }
    }

    #[inline]
    pub fn of(code: u64) -> Option<Step> {
        Some(match code {
            0 => Step::Next(0),
            1 => Step::Fresh,
            _ => match usize::try_from(code - 1).ok().filter(|rank| *rank < FOLLOWED) {
                Some(rank) => Step::Next(rank),
                None => Step::Number(u32::try_from(code - FOLLOWED as u64 - 1).ok()?),
            },
        })
    }
}

impl Order {
    /// Forgets everything but one shape: [`WHOLE`], which has an owner of its own.
    #[inline]
    pub fn begin(&mut self) {
        self.shapes.clear();
        self.owners.clear();
        self.last.clear();
        self.last.push(NONE);
        self.shapes.push(Shape { owner: 0, next: NONE, seen: true });
        self.recent = [NONE; FOLLOWED];
        self.fresh = 1;
    }

    /// Assigns the next number to a shape of this owner.
    #[inline]
    pub fn add(&mut self, owner: Owner) {
        let new = self.last.len() as u32;
        let owner = *self.owners.entry(owner).or_insert(new);
        if owner == new {
            self.last.push(NONE);
        }
        self.shapes.push(Shape { owner, next: NONE, seen: false });
    }

    #[inline]
    fn predicted(&self, rank: usize) -> Option<u32> {
        let owner = *self.recent.get(rank)?;
        let last = *self.last.get(owner as usize)?;
        let next = self.shapes.get(last as usize)?.next;
        (next != NONE).then_some(next)
    }

    /// The encoding of `shape` as the next one.
    pub fn step(&self, shape: u32) -> Step {
        for rank in 0..FOLLOWED {
            if self.predicted(rank) == Some(shape) {
                return Step::Next(rank);
            }
        }
        if shape == self.fresh {
            Step::Fresh
        } else {
            Step::Number(shape)
        }
    }

    /// The next shape; `None` if there is no such shape.
    #[inline]
    pub fn shape(&self, step: Step) -> Option<u32> {
        let shape = match step {
            Step::Next(rank) => self.predicted(rank)?,
            Step::Fresh => self.fresh,
            Step::Number(shape) => shape,
        };
        ((shape as usize) < self.shapes.len()).then_some(shape)
    }

    /// The next shape by its code ([`Step::code`]), and whether it comes for the first time; `None` if there is no such
    /// shape. Notes that it came.
    #[inline]
    pub fn next(&mut self, code: u64) -> Option<(u32, bool)> {
        if code == 0 {
            // Nearly always: it came before, in the latest thread, after the same shape. Only the thread's last changes.
            let shape = self.predicted(0)?;
            let [latest, ..] = self.recent;
            *self.last.get_mut(latest as usize)? = shape;
            return Some((shape, false));
        }
        let shape = self.shape(Step::of(code)?)?;
        Some((shape, self.came(shape)))
    }

    /// Notes that `shape` came. Returns whether it came for the first time.
    #[inline]
    pub fn came(&mut self, shape: u32) -> bool {
        let Some(this) = self.shapes.get_mut(shape as usize) else { return false };
        let first = !std::mem::replace(&mut this.seen, true);
        let owner = this.owner;
        while self.shapes.get(self.fresh as usize).is_some_and(|shape| shape.seen) {
            self.fresh += 1;
        }
        if let Some(last) = self.last.get_mut(owner as usize) {
            let before = std::mem::replace(last, shape);
            if let Some(before) = self.shapes.get_mut(before as usize) {
                before.next = shape;
            }
        }
        let [latest, ..] = self.recent;
        if latest != owner {
            let place = self.recent.iter().position(|recent| *recent == owner).unwrap_or(FOLLOWED - 1);
            if let Some(upto) = self.recent.get_mut(..=place) {
                upto.rotate_right(1);
            }
            if let Some(first) = self.recent.first_mut() {
                *first = owner;
            }
        }
        first
    }

    /// Its memory without the few owners, bytes.
    pub fn memory(&self) -> usize {
        self.shapes.capacity() * size_of::<Shape>() + self.last.capacity() * size_of::<u32>()
    }
}

/// The last two numbers of a sequence.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Past {
    last: u64,
    older: u64,
}

/// The encoding of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Coded {
    /// It equals the last one.
    Last,
    /// It continues the step from the one before the last to the last.
    Onward,
    /// It equals the one before the last.
    Older,
    /// By its difference from the last one.
    Difference(u64),
}

impl Past {
    #[inline]
    fn onward(self, number: Number) -> Option<u64> {
        if !number.is_double() {
            return Some(self.last.wrapping_add(self.last.wrapping_sub(self.older)));
        }
        let (last, older) = (f64::from_bits(self.last), f64::from_bits(self.older));
        let onward = last + (last - older);
        // The bits of a NaN depend on the machine.
        (!onward.is_nan()).then(|| onward.to_bits())
    }

    /// The encoding of `value`.
    pub fn code(self, number: Number, value: u64) -> Coded {
        if value == self.last {
            Coded::Last
        } else if self.onward(number) == Some(value) {
            Coded::Onward
        } else if value == self.older {
            Coded::Older
        } else {
            Coded::Difference(value.wrapping_sub(self.last))
        }
    }

    /// The value with this encoding; `None` if no value has it.
    #[inline]
    pub fn value(self, number: Number, coded: Coded) -> Option<u64> {
        Some(match coded {
            Coded::Last => self.last,
            Coded::Onward => self.onward(number)?,
            Coded::Older => self.older,
            Coded::Difference(difference) => self.last.wrapping_add(difference),
        })
    }

    #[inline]
    fn add(&mut self, value: u64) {
        *self = Past { last: value, older: self.last };
    }
}

/// A hit: the numbers of its shape and template, and whether the shape comes for the first time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hit {
    pub shape: u32,
    pub template: u32,
    pub first: bool,
}

/// Past numbers of hits. A hit is compared with the last hit of the same shape or, if it is the first of its shape,
/// with the last hit with the same template.
#[derive(Debug, Default)]
pub(super) struct Pasts {
    shapes: Vec<[Past; 2]>,
    templates: Vec<[Past; 2]>,
    requests: Past,
}

impl Pasts {
    /// Forgets everything, and makes room for these numbers of shapes, [`WHOLE`] included, and templates.
    #[inline]
    pub fn begin(&mut self, shapes: usize, templates: usize) {
        self.shapes.clear();
        self.shapes.resize(shapes, Default::default());
        self.templates.clear();
        self.templates.resize(templates, Default::default());
        self.requests = Past::default();
    }

    #[inline]
    fn own(&self, hit: Hit) -> [Past; 2] {
        let own = if hit.first {
            self.templates.get(hit.template as usize)
        } else {
            self.shapes.get(hit.shape as usize)
        };
        own.copied().unwrap_or_default()
    }

    /// The past with which a number of a hit is compared.
    #[inline]
    pub fn past(&self, hit: Hit, number: Number) -> Past {
        let [first, second] = self.own(hit);
        match number {
            Number::None => Past::default(),
            Number::First { .. } => first,
            Number::Second { .. } => second,
            Number::Before { .. } => Past { last: first.last, older: second.last },
            Number::Request => self.requests,
        }
    }

    /// Notes the values of a hit.
    #[inline]
    pub fn came(&mut self, hit: Hit, numbers: [Number; 2], values: [u64; 2]) {
        let mut own = self.own(hit);
        for ((past, number), value) in own.iter_mut().zip(numbers).zip(values) {
            match number {
                Number::None => {}
                Number::Request => self.requests.add(value),
                _ => past.add(value),
            }
        }
        self.keep(hit, own);
    }

    /// The number of a hit with only one number, [`Number::First`], with this encoding; `None` if no number has it. Notes
    /// that it came.
    #[inline]
    pub fn only(&mut self, hit: Hit, number: Number, coded: Coded) -> Option<u64> {
        let mut own = self.own(hit);
        let [first, _] = &mut own;
        let value = first.value(number, coded)?;
        first.add(value);
        self.keep(hit, own);
        Some(value)
    }

    #[inline]
    fn keep(&mut self, hit: Hit, own: [Past; 2]) {
        if let Some(shape) = self.shapes.get_mut(hit.shape as usize) {
            *shape = own;
        }
        if let Some(template) = self.templates.get_mut(hit.template as usize) {
            *template = own;
        }
    }

    /// Its memory, bytes.
    pub fn memory(&self) -> usize {
        (self.shapes.capacity() + self.templates.capacity()) * size_of::<[Past; 2]>()
    }
}
