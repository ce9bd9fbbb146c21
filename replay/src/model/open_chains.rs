//! The trees that are still growing.
//!
//! A tree is given out when nothing waits for it any more: no frame of a stack that may still call
//! something, no record that has yet to complete, no packet without its answer. Trees can be joined
//! to one another; references to the one that was taken in stay good. Trees that have been given out
//! are gone: a reference to them finds nothing, and what would have grown there becomes a root.
//!
//! Memory is bounded: the oldest tree goes, as it is, when it is older than [`LIMIT`] or when all
//! trees together have more than [`MAX_SPANS`] spans.

use super::chain::{PutSpan, Span, Tree, What};
use super::run::Run;
use crate::time::SECOND;
use iocrec_log::event::Value;
use slotmap::{new_key_type, SlotMap};
use std::collections::BTreeSet;
use std::rc::Rc;

/// How long a tree is waited for. Servers answer a put with callback that is stuck after 60 s.
pub const LIMIT: u64 = 65 * SECOND;
/// How many spans are held at most, a tree itself counted as one, about 40 MB.
const MAX_SPANS: usize = 200_000;
/// How many times a tree is followed from where it was joined to. Joins go from the later to the
/// earlier, so there are never many.
const MAX_MOVES: usize = 64;

new_key_type! {
    /// A growing tree.
    pub struct TreeKey;
}

/// A span in a growing tree.
#[derive(Clone, Copy, Debug)]
pub struct At {
    /// The tree.
    pub tree: TreeKey,
    /// The span's number in it.
    pub span: usize,
}

enum Slot {
    Growing(Growing),
    /// Joined to another tree: its root is there span `root`, its span n (from 1) is `offset + n`.
    Moved {
        to: TreeKey,
        root: usize,
        offset: usize,
    },
}

#[derive(Default)]
struct Growing {
    /// See [`Tree::serial`].
    serial: u64,
    spans: Vec<Span>,
    /// What the spans took when they came to be.
    weight: usize,
    /// How many reasons there are to wait.
    waits: u32,
    /// Not to be given out before this time.
    not_before: u64,
    /// Is it in [`Forest::ripe`]?
    ripe: bool,
    /// Trees that have been joined to this one.
    joined: Vec<TreeKey>,
}

/// The growing trees of a run.
pub struct Forest {
    run: Rc<Run>,
    slots: SlotMap<TreeKey, Slot>,
    /// Start times of all growing trees.
    starts: BTreeSet<(u64, TreeKey)>,
    /// Trees that nothing waits for, perhaps.
    ripe: Vec<TreeKey>,
    /// Weight of all trees.
    weight: usize,
    /// Trees that have been planted.
    planted: u64,
}

impl Forest {
    /// Nothing grows yet.
    pub fn new(run: Rc<Run>) -> Self {
        Forest {
            run,
            slots: SlotMap::with_key(),
            starts: BTreeSet::new(),
            ripe: Vec::new(),
            weight: 0,
            planted: 0,
        }
    }

    /// A new tree.
    pub fn plant(&mut self, mut span: Span) -> At {
        span.parent = None;
        let (start, weight) = (span.start, 1 + span.weight());
        let (serial, spans) = (self.planted, vec![span]);
        self.planted += 1;
        let growing = Growing { serial, spans, weight, ripe: true, ..Growing::default() };
        let tree = self.slots.insert(Slot::Growing(growing));
        self.starts.insert((start, tree));
        self.ripe.push(tree);
        self.weight += weight;
        At { tree, span: 0 }
    }

    /// A new span under `parent`, or a new tree if that is gone.
    pub fn add(&mut self, parent: At, mut span: Span) -> At {
        let Some(at) = self.resolve(parent) else { return self.plant(span) };
        let Some(Slot::Growing(growing)) = self.slots.get_mut(at.tree) else { return self.plant(span) };
        span.parent = Some(at.span);
        let weight = span.weight();
        growing.spans.push(span);
        growing.weight += weight;
        self.weight += weight;
        At { tree: at.tree, span: growing.spans.len() - 1 }
    }

    /// Where a span is now; `None` if it has been given out.
    pub fn resolve(&self, mut at: At) -> Option<At> {
        for _ in 0..MAX_MOVES {
            match self.slots.get(at.tree)? {
                Slot::Growing(_) => return Some(at),
                Slot::Moved { to, root, offset } => {
                    at = At { tree: *to, span: if at.span == 0 { *root } else { offset + at.span } };
                }
            }
        }
        None
    }

    /// The span, unless it has been given out.
    pub fn span(&self, at: At) -> Option<&Span> {
        let at = self.resolve(at)?;
        match self.slots.get(at.tree)? {
            Slot::Growing(growing) => growing.spans.get(at.span),
            Slot::Moved { .. } => None,
        }
    }

    /// The span, unless it has been given out.
    pub fn span_mut(&mut self, at: At) -> Option<&mut Span> {
        let at = self.resolve(at)?;
        self.growing(at.tree)?.spans.get_mut(at.span)
    }

    /// The put, unless it has been given out or is none.
    pub fn put_mut(&mut self, at: At) -> Option<&mut PutSpan> {
        match &mut self.span_mut(at)?.what {
            What::Put(put) => Some(put),
            _ => None,
        }
    }

    /// The put, unless it has been given out or is none.
    pub fn put(&self, at: At) -> Option<&PutSpan> {
        match &self.span(at)?.what {
            What::Put(put) => Some(put),
            _ => None,
        }
    }

    /// A span has come to know more than it did when it was planted or added.
    pub fn weigh_again(&mut self, at: At) {
        let Some(more) = self.span(at).map(|span| span.weight() - 1).filter(|more| *more > 0) else { return };
        if let Some(growing) = self.resolve(at).and_then(|at| self.growing(at.tree)) {
            growing.weight += more;
            self.weight += more;
        }
    }

    /// A reason to wait with giving out the span's tree. To be taken back with [`Forest::release`].
    pub fn hold(&mut self, at: At) {
        if let Some(growing) = self.resolve(at).and_then(|at| self.growing(at.tree)) {
            growing.waits += 1;
        }
    }

    /// Takes a reason back.
    pub fn release(&mut self, at: At) {
        let Some(at) = self.resolve(at) else { return };
        let Some(growing) = self.growing(at.tree) else { return };
        growing.waits = growing.waits.saturating_sub(1);
        if growing.waits == 0 && !std::mem::replace(&mut growing.ripe, true) {
            self.ripe.push(at.tree);
        }
    }

    /// Waits with giving out the span's tree until `time` at least.
    pub fn hold_until(&mut self, at: At, time: u64) {
        if let Some(growing) = self.resolve(at).and_then(|at| self.growing(at.tree)) {
            growing.not_before = growing.not_before.max(time);
        }
    }

    /// Makes the tree of `from`, which must be a root, a branch under `onto`.
    pub fn graft(&mut self, from: At, onto: At) {
        self.take_in(from, onto, false);
    }

    /// Joins the tree of `hit`, a put seen inside the IOC, to that of `packet`, the same put seen on
    /// the network: the two roots become one.
    pub fn merge(&mut self, hit: At, packet: At) {
        self.take_in(hit, packet, true);
    }

    fn take_in(&mut self, from: At, onto: At, merge: bool) {
        let (Some(from), Some(onto)) = (self.resolve(from), self.resolve(onto)) else { return };
        if from.span != 0 || from.tree == onto.tree {
            return;
        }
        let Some(Slot::Growing(taken)) = self.slots.get_mut(from.tree) else { return };
        let taken = std::mem::take(taken);
        if let Some(start) = taken.spans.first().map(|root| root.start) {
            self.starts.remove(&(start, from.tree));
        }
        let Some(into) = self.growing(onto.tree) else { return };
        into.waits += taken.waits;
        into.weight += taken.weight;
        into.not_before = into.not_before.max(taken.not_before);
        into.joined.push(from.tree);
        into.joined.extend(taken.joined);
        // Its span n (from 1) will be `offset + n`.
        let offset = into.spans.len() - usize::from(merge);
        let root = if merge { onto.span } else { offset };
        let began = into.spans.first().map(|root| root.start);
        for (number, mut span) in taken.spans.into_iter().enumerate() {
            if number == 0 && merge {
                if let Some(packet) = into.spans.get_mut(onto.span) {
                    unite(packet, span);
                }
                continue;
            }
            span.parent = match span.parent {
                None => Some(onto.span),
                Some(0) => Some(root),
                Some(parent) => Some(offset + parent),
            };
            into.spans.push(span);
        }
        let begins = into.spans.first().map(|root| root.start);
        if let (Some(began), Some(begins)) = (began, begins) {
            self.starts.remove(&(began, onto.tree));
            self.starts.insert((begins, onto.tree));
        }
        if let Some(slot) = self.slots.get_mut(from.tree) {
            *slot = Slot::Moved { to: onto.tree, root, offset };
        }
    }

    /// Gives out what nothing waits for any more, and the oldest if they are too old or too many.
    pub fn harvest(&mut self, now: u64, out: &mut Vec<Tree>) {
        let mut waiting = Vec::new();
        for tree in std::mem::take(&mut self.ripe) {
            let Some(growing) = self.growing(tree) else { continue };
            growing.ripe = growing.waits == 0;
            if growing.ripe && growing.not_before <= now {
                self.take(tree, false, out);
            } else if growing.ripe {
                waiting.push(tree);
            }
        }
        self.ripe = waiting;
        while let Some(&(start, tree)) = self.starts.first() {
            if start.saturating_add(LIMIT) > now && self.weight <= MAX_SPANS {
                break;
            }
            self.take(tree, true, out);
        }
    }

    /// Gives out everything.
    pub fn clear(&mut self, out: &mut Vec<Tree>) {
        while let Some(&(_, tree)) = self.starts.first() {
            let open = matches!(self.slots.get(tree), Some(Slot::Growing(growing)) if growing.waits > 0);
            self.take(tree, open, out);
        }
        self.ripe.clear();
    }

    /// When the oldest growing tree began.
    pub fn oldest(&self) -> Option<u64> {
        self.starts.first().map(|(start, _)| *start)
    }

    fn growing(&mut self, tree: TreeKey) -> Option<&mut Growing> {
        match self.slots.get_mut(tree)? {
            Slot::Growing(growing) => Some(growing),
            Slot::Moved { .. } => None,
        }
    }

    fn take(&mut self, tree: TreeKey, open: bool, out: &mut Vec<Tree>) {
        let Some(Slot::Growing(growing)) = self.slots.remove(tree) else { return };
        for joined in growing.joined {
            self.slots.remove(joined);
        }
        if let Some(root) = growing.spans.first() {
            self.starts.remove(&(root.start, tree));
        }
        self.weight = self.weight.saturating_sub(growing.weight);
        let mut spans = growing.spans;
        end_puts(&mut spans);
        out.push(Tree { run: Rc::clone(&self.run), spans, open, serial: growing.serial });
    }
}

/// Makes one span of a put's two sides.
fn unite(packet: &mut Span, hit: Span) {
    packet.thread = hit.thread;
    packet.start = packet.start.min(hit.start);
    packet.end = packet.end.max(hit.end);
    let (What::Put(packet), What::Put(hit)) = (&mut packet.what, hit.what) else { return };
    packet.kind = hit.kind;
    packet.site = hit.site;
    packet.record = hit.record;
    packet.field = hit.field;
    packet.old = hit.old;
    packet.wrote = hit.wrote;
    packet.after = hit.after;
    packet.written = hit.written;
    packet.only_processes = hit.only_processes;
    // The wire may have been cut shorter than memory, or the type may be one that was not decoded.
    if packet.requested == Value::Unknown {
        packet.requested = hit.requested;
    }
}

/// A put has no end of its own to be seen: it ends with the last that it did in its thread, or with
/// the server's answer.
fn end_puts(spans: &mut [Span]) {
    for number in (0..spans.len()).rev() {
        let Some(span) = spans.get_mut(number) else { continue };
        if let What::Put(PutSpan { packet: Some(packet), .. }) = &span.what {
            if let Some(answer) = &packet.answer {
                span.end = span.end.max(answer.time);
            }
        }
        let (parent, end) = (span.parent, span.end);
        if let Some(parent) = parent.and_then(|parent| spans.get_mut(parent)) {
            if matches!(parent.what, What::Put(_)) {
                parent.end = parent.end.max(end);
            }
        }
    }
}
