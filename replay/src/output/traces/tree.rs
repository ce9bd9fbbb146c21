//! The spans of a chain under their parents.

use crate::model::chain::Chain;

/// The children of each span, in order of time. Its memory serves one chain after the other.
#[derive(Default)]
pub struct Tree {
    /// For each span, the end of its children in `all`; they begin where those of the span before end.
    ends: Vec<usize>,
    all: Vec<usize>,
}

impl Tree {
    /// Takes the spans of a chain in place of those before.
    pub fn fill(&mut self, chain: &Chain) {
        let spans = &chain.spans;
        let parents = || spans.iter().map(|span| span.parent);
        self.ends.clear();
        self.ends.resize(spans.len(), 0);
        for parent in parents().flatten() {
            if let Some(count) = self.ends.get_mut(parent) {
                *count += 1;
            }
        }
        // From here each is where the next child of the span goes: at last the end of its children.
        let mut all = 0;
        for end in &mut self.ends {
            (*end, all) = (all, all + *end);
        }
        self.all.clear();
        self.all.resize(all, 0);
        for (number, parent) in parents().enumerate() {
            let Some(end) = parent.and_then(|parent| self.ends.get_mut(parent)) else { continue };
            if let Some(place) = self.all.get_mut(*end) {
                *place = number;
            }
            *end += 1;
        }
        let start = |child: &usize| spans.get(*child).map(|span| span.start);
        if self.all.is_sorted_by_key(start) {
            return;
        }
        let mut from = 0;
        for end in &self.ends {
            if let Some(children) = self.all.get_mut(from..*end) {
                children.sort_by_key(start);
            }
            from = *end;
        }
    }

    /// The children of a span.
    pub fn children(&self, number: usize) -> &[usize] {
        let from = number.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or(0);
        self.ends.get(number).and_then(|end| self.all.get(from..*end)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::chain::{LinkSpan, Span, SpanKind};
    use crate::model::run::Run;
    use iocrec_log::event::Value;
    use std::rc::Rc;

    /// A chain of spans with these parents and starts.
    fn chain(spans: impl Iterator<Item = (Option<usize>, u64)>) -> Chain {
        let link =
            || LinkSpan { record: None, pv: "".into(), value: Value::Unknown, resolved: true, target: None };
        let span = |(parent, start)| {
            let kind = SpanKind::Link(Box::new(link()));
            Span { parent, thread: None, start, end: start, kind }
        };
        Chain { run: Rc::new(Run::default()), spans: spans.map(span).collect(), open: false, serial: 0 }
    }

    #[test]
    fn the_same_children_one_chain_after_the_other() {
        let mut state = 1_u64;
        let mut random = |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % below
        };
        let mut tree = Tree::default();
        for _ in 0..200 {
            let length = 1 + random(20);
            let parent = |number: usize, random: usize| (number > 0).then(|| random % number);
            let chain = chain((0..length).map(|number| (parent(number, random(100)), random(9) as u64)));
            tree.fill(&chain);
            let children: Vec<&[usize]> = (0..length).map(|number| tree.children(number)).collect();
            assert_eq!(children, chain.children());
        }
    }
}
