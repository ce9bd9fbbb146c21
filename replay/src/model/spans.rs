//! The spans of a chain, in memory that is used again.
//!
//! A log of scanning has some chain every few events, and each lives for a moment. Giving its memory back and asking for
//! it anew took a tenth of the time of reading, with musl's allocator a quarter. So ended chains leave some of it for those
//! that follow: at most 15 MB for each thread that reads, and no more than was held at a time. Room grows with the chain,
//! since a flood of puts holds tens of thousands of two spans, and links that feed themselves as many of three.

use super::chain::Span;
use std::cell::RefCell;
use std::ops::{Deref, DerefMut};

/// Vectors of each kind that are kept.
const KEPT: usize = 1024;
/// Those with room for [`SEVERAL`]: a log of scanning holds some 2,300 chains of four spans at a time.
const KEPT_SEVERAL: usize = 4096;
/// Room of the larger ones: most chains have fewer spans. Larger vectors are not kept.
const TWO: usize = 2;
const THREE: usize = 3;
const SEVERAL: usize = 4;
const MOST: usize = 16;

/// Vectors with room for one span, for two, for three, and for several.
#[derive(Default)]
struct Pool {
    single: Vec<Vec<Span>>,
    two: Vec<Vec<Span>>,
    three: Vec<Vec<Span>>,
    several: Vec<Vec<Span>>,
}

impl Pool {
    /// Those with this room or, if it is large, about so much.
    fn of(&mut self, room: usize) -> &mut Vec<Vec<Span>> {
        match room {
            ..TWO => &mut self.single,
            TWO => &mut self.two,
            THREE => &mut self.three,
            _ => &mut self.several,
        }
    }
}

thread_local! {
    static POOL: RefCell<Pool> = RefCell::default();
}

/// A vector of spans.
#[derive(Default)]
pub struct Spans(Vec<Span>);

impl Spans {
    /// The spans of a chain that begins with this one.
    pub fn of(root: Span) -> Self {
        let kept = POOL.try_with(|pool| pool.borrow_mut().of(1).pop()).ok().flatten();
        let mut spans = kept.unwrap_or_else(|| Vec::with_capacity(1));
        spans.push(root);
        Spans(spans)
    }

    /// No spans yet, with room for this many.
    pub fn with_room(count: usize) -> Self {
        let pooled = |pool: &RefCell<Pool>| match count {
            0..=1 => pool.borrow_mut().single.pop(),
            2..=SEVERAL => pool.borrow_mut().several.pop(),
            _ => None,
        };
        let kept = POOL.try_with(pooled).ok().flatten();
        Spans(kept.unwrap_or_else(|| Vec::with_capacity(if count > 1 { count.max(SEVERAL) } else { 1 })))
    }

    /// Adds a span.
    pub fn push(&mut self, span: Span) {
        if self.0.len() == self.0.capacity() && self.0.capacity() < SEVERAL {
            let room = (self.0.capacity() + 1).max(TWO);
            let kept = POOL.try_with(|pool| pool.borrow_mut().of(room).pop()).ok().flatten();
            let mut larger = kept.unwrap_or_else(|| Vec::with_capacity(room));
            larger.append(&mut self.0);
            drop(std::mem::replace(self, Spans(larger)));
        }
        self.0.push(span);
    }

    /// Takes the spans out.
    pub fn take(mut self) -> Vec<Span> {
        std::mem::take(&mut self.0)
    }
}

impl Drop for Spans {
    fn drop(&mut self) {
        let mut spans = std::mem::take(&mut self.0);
        if !(1..=MOST).contains(&spans.capacity()) {
            return;
        }
        // Chains that it holds are dropped before the pool is borrowed.
        spans.clear();
        let _ = POOL.try_with(|pool| {
            let mut pool = pool.borrow_mut();
            let most = if spans.capacity() == SEVERAL { KEPT_SEVERAL } else { KEPT };
            let kept = pool.of(spans.capacity());
            if kept.len() < most {
                kept.push(spans);
            }
        });
    }
}

impl Deref for Spans {
    type Target = [Span];

    fn deref(&self) -> &[Span] {
        &self.0
    }
}

impl DerefMut for Spans {
    fn deref_mut(&mut self) -> &mut [Span] {
        &mut self.0
    }
}

impl<'a> IntoIterator for &'a Spans {
    type Item = &'a Span;
    type IntoIter = std::slice::Iter<'a, Span>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl<'a> IntoIterator for &'a mut Spans {
    type Item = &'a mut Span;
    type IntoIter = std::slice::IterMut<'a, Span>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter_mut()
    }
}

impl FromIterator<Span> for Spans {
    fn from_iter<I: IntoIterator<Item = Span>>(spans: I) -> Self {
        Spans(spans.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::chain::{LinkSpan, SpanKind};
    use iocrec_log::event::Value;

    fn span() -> Span {
        let link =
            LinkSpan { record: None, pv: "".into(), value: Value::Unknown, resolved: true, target: None };
        Span { parent: None, thread: None, start: 0, end: 0, kind: SpanKind::Link(Box::new(link)) }
    }

    /// Tens of thousands of them are held at a time.
    #[test]
    fn small_chains_have_no_room_to_spare() {
        // the second time in memory that is used again
        for count in (1..=SEVERAL).chain(1..=SEVERAL) {
            let mut spans = Spans::of(span());
            (1..count).for_each(|_| spans.push(span()));
            assert_eq!((spans.len(), spans.0.capacity()), (count, count));
        }
    }
}
