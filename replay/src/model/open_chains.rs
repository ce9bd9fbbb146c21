//! The chains that are still open.
//!
//! A chain is given out when nothing waits for it any more: no frame of a stack that may still call something, no
//! record that has yet to complete, no packet without its answer. Chains can be joined; references to the joined chain
//! stay valid. Chains that have been given out are gone: a reference to them finds nothing, and a span that would have
//! been added there becomes a root.
//!
//! Memory is bounded: the oldest chain is given out unfinished when it is older than [`LIMIT`], or when all chains
//! together have more than `MAX_SPANS` spans.

use super::chain::{Chain, PutSpan, Span, SpanKind};
use super::link_names::name_links;
use super::run::Run;
use super::spans::Spans;
use super::starts::Starts;
use crate::time::SECOND;
use iocrec_log::event::{Dbf, Value};
use slotmap::{new_key_type, SlotMap};
use std::rc::Rc;

/// Longest wait for the end of a chain. Servers answer a stuck put with callback after 60 s.
pub const LIMIT: u64 = 65 * SECOND;
/// Limit of the spans held, a chain itself counted as one: 10 MB, but for puts, which take up to 17 MB. Those are 17,000
/// puts with all they do, or 28,000 messages that wait for their hits: more than a server's sockets hold. Chains that are
/// given out because of it are counted.
const MAX_SPANS: usize = 84_000;
/// Limit of the moves followed to the chain that one was joined to. Later chains are joined to earlier ones, so there
/// are never many.
const MAX_MOVES: usize = 64;

new_key_type! {
    /// An open chain.
    pub struct ChainKey;
}

/// A span in an open chain.
#[derive(Clone, Copy, Debug)]
pub struct SpanRef {
    /// The chain.
    pub chain: ChainKey,
    /// The span's number in it: there are never more than `MAX_SPANS` by far. Very many of these are held.
    pub span: u32,
}

impl SpanRef {
    /// The span's number in its chain, as an index.
    pub fn place(self) -> usize {
        self.span as usize
    }
}

/// The number of a span, of its place in a chain.
pub fn span_number(place: usize) -> u32 {
    u32::try_from(place).unwrap_or(u32::MAX)
}

enum Slot {
    OpenChain(OpenChain),
    /// Joined to another chain: its root is span `root` there, its span n (from 1) is `offset + n`.
    Moved {
        to: ChainKey,
        root: u32,
        offset: u32,
        /// The next of the chains that have been joined to the same one.
        next: Option<ChainKey>,
    },
}

#[derive(Default)]
struct OpenChain {
    /// See [`Chain::serial`].
    serial: u64,
    spans: Spans,
    /// Weight of the spans when they were added.
    weight: u32,
    /// Number of reasons to wait.
    waits: u32,
    /// Earliest time to give it out.
    not_before: u64,
    /// Whether it is in [`OpenChains::ready`].
    ready: bool,
    /// The latest of the chains that have been joined to this one.
    joined: Option<ChainKey>,
}

/// The open chains of a run.
pub struct OpenChains {
    run: Rc<Run>,
    slots: SlotMap<ChainKey, Slot>,
    /// Start times of all open chains.
    starts: Starts,
    /// Chains that may have nothing left to wait for.
    ready: Vec<ChainKey>,
    /// Weight of all chains.
    weight: usize,
    /// Number of chains begun.
    begun: u64,
    /// Number of chains given out because there were too many.
    early: u64,
}

impl OpenChains {
    /// Starts with no chains.
    pub fn new(run: Rc<Run>) -> Self {
        OpenChains {
            run,
            slots: SlotMap::with_key(),
            starts: Starts::default(),
            ready: Vec::new(),
            weight: 0,
            begun: 0,
            early: 0,
        }
    }

    /// Begins a chain.
    pub fn begin(&mut self, mut span: Span) -> SpanRef {
        span.parent = None;
        let (start, weight) = (span.start, 1 + span.weight());
        let (serial, spans) = (self.begun, Spans::of(span));
        self.begun += 1;
        let open_chain =
            OpenChain { serial, spans, weight: small(weight), ready: true, ..OpenChain::default() };
        let chain = self.slots.insert(Slot::OpenChain(open_chain));
        self.insert_start(start, chain);
        self.ready.push(chain);
        self.weight += weight;
        SpanRef { chain, span: 0 }
    }

    /// Number of chains begun.
    pub fn begun(&self) -> u64 {
        self.begun
    }

    /// The number of the chain that begins now, if it is not one of these because nothing waits for it.
    pub fn next_serial(&mut self) -> u64 {
        self.begun += 1;
        self.begun - 1
    }

    /// The spans of a chain that has this many reasons to wait and nothing else that could delay or change it.
    pub fn settled(&self, chain: ChainKey, waits: usize) -> Option<&[Span]> {
        let Slot::OpenChain(chain) = self.slots.get(chain)? else { return None };
        let alone = chain.joined.is_none() && chain.not_before == 0;
        (alone && chain.waits as usize == waits).then_some(&*chain.spans)
    }

    /// Adds a span under `parent`, or begins a new chain if that is gone.
    pub fn add(&mut self, parent: SpanRef, mut span: Span) -> SpanRef {
        let Some(at) = self.resolve(parent) else { return self.begin(span) };
        let Some(Slot::OpenChain(open_chain)) = self.slots.get_mut(at.chain) else { return self.begin(span) };
        span.parent = Some(at.place());
        let weight = span.weight();
        open_chain.spans.push(span);
        open_chain.weight = open_chain.weight.saturating_add(small(weight));
        self.weight += weight;
        SpanRef { chain: at.chain, span: span_number(open_chain.spans.len() - 1) }
    }

    /// The current place of a span; `None` if it has been given out.
    pub fn resolve(&self, mut at: SpanRef) -> Option<SpanRef> {
        for _ in 0..MAX_MOVES {
            match self.slots.get(at.chain)? {
                Slot::OpenChain(_) => return Some(at),
                Slot::Moved { to, root, offset, .. } => {
                    at = SpanRef {
                        chain: *to,
                        span: if at.span == 0 { *root } else { offset.saturating_add(at.span) },
                    };
                }
            }
        }
        None
    }

    /// The span, unless it has been given out.
    pub fn span(&self, at: SpanRef) -> Option<&Span> {
        let at = self.resolve(at)?;
        match self.slots.get(at.chain)? {
            Slot::OpenChain(open_chain) => open_chain.spans.get(at.place()),
            Slot::Moved { .. } => None,
        }
    }

    /// The span, unless it has been given out.
    pub fn span_mut(&mut self, at: SpanRef) -> Option<&mut Span> {
        let at = self.resolve(at)?;
        self.open_chain(at.chain)?.spans.get_mut(at.place())
    }

    /// The put, unless it has been given out or the span is not a put.
    pub fn put_mut(&mut self, at: SpanRef) -> Option<&mut PutSpan> {
        match &mut self.span_mut(at)?.kind {
            SpanKind::Put(put) => Some(put),
            _ => None,
        }
    }

    /// The put, unless it has been given out or the span is not a put.
    pub fn put(&self, at: SpanRef) -> Option<&PutSpan> {
        match &self.span(at)?.kind {
            SpanKind::Put(put) => Some(put),
            _ => None,
        }
    }

    /// Updates the weight of a span that holds more than when it was begun or added.
    pub fn weigh_again(&mut self, at: SpanRef) {
        let Some(more) = self.span(at).map(|span| span.weight() - 1).filter(|more| *more > 0) else { return };
        if let Some(open_chain) = self.resolve(at).and_then(|at| self.open_chain(at.chain)) {
            open_chain.weight = open_chain.weight.saturating_add(small(more));
            self.weight += more;
        }
    }

    /// Adds a reason not to give out the span's chain yet. Take it back with [`OpenChains::release`].
    pub fn hold(&mut self, at: SpanRef) {
        if let Some(open_chain) = self.resolve(at).and_then(|at| self.open_chain(at.chain)) {
            open_chain.waits += 1;
        }
    }

    /// Takes back a reason to wait.
    pub fn release(&mut self, at: SpanRef) {
        let Some(at) = self.resolve(at) else { return };
        let Some(open_chain) = self.open_chain(at.chain) else { return };
        open_chain.waits = open_chain.waits.saturating_sub(1);
        if open_chain.waits == 0 && !std::mem::replace(&mut open_chain.ready, true) {
            self.ready.push(at.chain);
        }
    }

    /// Keeps the span's chain until `time` at least.
    pub fn hold_until(&mut self, at: SpanRef, time: u64) {
        if let Some(open_chain) = self.resolve(at).and_then(|at| self.open_chain(at.chain)) {
            open_chain.not_before = open_chain.not_before.max(time);
        }
    }

    /// Makes the chain of `from`, which must be a root, a branch under `onto`.
    pub fn attach(&mut self, from: SpanRef, onto: SpanRef) {
        self.take_in(from, onto, false);
    }

    /// Joins the chain of `hit`, a put seen inside the IOC, to that of `packet`, the same put seen on
    /// the network: the two roots become one.
    pub fn merge(&mut self, hit: SpanRef, packet: SpanRef) {
        self.take_in(hit, packet, true);
    }

    fn take_in(&mut self, from: SpanRef, onto: SpanRef, merge: bool) {
        let (Some(from), Some(onto)) = (self.resolve(from), self.resolve(onto)) else { return };
        if from.span != 0 || from.chain == onto.chain {
            return;
        }
        let Some(Slot::OpenChain(taken)) = self.slots.get_mut(from.chain) else { return };
        let taken = std::mem::take(taken);
        if let Some(start) = taken.spans.first().map(|root| root.start) {
            self.starts.remove(start, from.chain);
        }
        let Some(into) = self.open_chain(onto.chain) else { return };
        into.waits += taken.waits;
        into.weight = into.weight.saturating_add(taken.weight);
        into.not_before = into.not_before.max(taken.not_before);
        let before = into.joined.replace(from.chain);
        // Its span n (from 1) will be `offset + n`.
        let offset = into.spans.len() - usize::from(merge);
        let root = if merge { onto.place() } else { offset };
        let began = into.spans.first().map(|root| root.start);
        for (number, mut span) in taken.spans.take().into_iter().enumerate() {
            if number == 0 && merge {
                if let Some(packet) = into.spans.get_mut(onto.place()) {
                    unite(packet, span);
                }
                continue;
            }
            span.parent = match span.parent {
                None => Some(onto.place()),
                Some(0) => Some(root),
                Some(parent) => Some(offset + parent),
            };
            into.spans.push(span);
        }
        let begins = into.spans.first().map(|root| root.start);
        if let (Some(began), Some(begins)) = (began, begins) {
            if began != begins {
                self.starts.remove(began, onto.chain);
                self.insert_start(begins, onto.chain);
            }
        }
        if let Some(slot) = self.slots.get_mut(from.chain) {
            let (root, offset) = (span_number(root), span_number(offset));
            *slot = Slot::Moved { to: onto.chain, root, offset, next: taken.joined };
        }
        // Those that had been joined to it come next, then those that this one had.
        let mut last = from.chain;
        while let Some(Slot::Moved { next, .. }) = self.slots.get_mut(last) {
            match next {
                Some(next) => last = *next,
                None => {
                    *next = before;
                    break;
                }
            }
        }
    }

    /// Gives out chains that nothing waits for any more, and the oldest if they are too old or too many.
    pub fn take_finished(&mut self, now: u64, out: &mut Vec<Chain>) {
        let mut waiting = Vec::new();
        for chain in std::mem::take(&mut self.ready) {
            let Some(open_chain) = self.open_chain(chain) else { continue };
            open_chain.ready = open_chain.waits == 0;
            if open_chain.ready && open_chain.not_before <= now {
                self.take(chain, false, out);
            } else if open_chain.ready {
                waiting.push(chain);
            }
        }
        self.ready = waiting;
        while let Some((start, chain)) = self.first() {
            let is_old = start.saturating_add(LIMIT) <= now;
            if !is_old && self.weight <= MAX_SPANS {
                break;
            }
            self.early += u64::from(!is_old);
            self.take(chain, true, out);
        }
    }

    /// Gives out all chains.
    pub fn clear(&mut self, out: &mut Vec<Chain>) {
        while let Some((_, chain)) = self.first() {
            let open =
                matches!(self.slots.get(chain), Some(Slot::OpenChain(open_chain)) if open_chain.waits > 0);
            self.take(chain, open, out);
        }
        self.ready.clear();
    }

    /// Number of chains that were given out before their time, since there were too many.
    pub fn early(&self) -> u64 {
        self.early
    }

    /// Start of the oldest open chain.
    pub fn oldest(&mut self) -> Option<u64> {
        self.first().map(|(start, _)| start)
    }

    fn first(&mut self) -> Option<(u64, ChainKey)> {
        self.starts.first(|start| begins(&self.slots, start))
    }

    fn insert_start(&mut self, start: u64, chain: ChainKey) {
        self.starts.insert(start, chain, |start| begins(&self.slots, start));
    }

    fn open_chain(&mut self, chain: ChainKey) -> Option<&mut OpenChain> {
        match self.slots.get_mut(chain)? {
            Slot::OpenChain(open_chain) => Some(open_chain),
            Slot::Moved { .. } => None,
        }
    }

    fn take(&mut self, chain: ChainKey, open: bool, out: &mut Vec<Chain>) {
        let Some(Slot::OpenChain(open_chain)) = self.slots.remove(chain) else { return };
        let mut joined = open_chain.joined;
        while let Some(Slot::Moved { next, .. }) = joined.and_then(|joined| self.slots.remove(joined)) {
            joined = next;
        }
        if let Some(root) = open_chain.spans.first() {
            self.starts.remove(root.start, chain);
        }
        self.weight = self.weight.saturating_sub(open_chain.weight as usize);
        let mut spans = open_chain.spans;
        end_puts(&mut spans);
        name_links(&self.run, &mut spans);
        out.push(Chain { run: Rc::clone(&self.run), spans, open, serial: open_chain.serial });
    }
}

/// A weight as chains hold it: every slot has the size of the largest.
fn small(weight: usize) -> u32 {
    u32::try_from(weight).unwrap_or(u32::MAX)
}

/// Whether the chain is open and begins at that time.
fn begins(slots: &SlotMap<ChainKey, Slot>, (start, chain): (u64, ChainKey)) -> bool {
    match slots.get(chain) {
        Some(Slot::OpenChain(open_chain)) => open_chain.spans.first().is_some_and(|root| root.start == start),
        _ => false,
    }
}

/// Unites the two sides of a put in one span.
fn unite(packet: &mut Span, hit: Span) {
    packet.thread = hit.thread;
    packet.start = packet.start.min(hit.start);
    packet.end = packet.end.max(hit.end);
    let (SpanKind::Put(packet), SpanKind::Put(hit)) = (&mut packet.kind, hit.kind) else { return };
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
    let sent = packet.packet.as_mut().filter(|sent| sent.is_part && hit.requested != Value::Unknown);
    let is_part = sent.is_some_and(|sent| std::mem::take(&mut sent.is_part));
    if packet.requested == Value::Unknown || is_part {
        packet.requested = hit.requested;
        if packet.dbf == Dbf::NoAccess {
            (packet.dbf, packet.count) = (hit.dbf, hit.count);
        }
    }
}

/// Sets the ends of puts. The end of a put is not recorded: a put ends with the last thing that it did in its thread,
/// or with the server's answer.
fn end_puts(spans: &mut [Span]) {
    for number in (0..spans.len()).rev() {
        let Some(span) = spans.get_mut(number) else { continue };
        let answered = span.packet().and_then(|packet| packet.answer.as_ref()).map(|answer| answer.time);
        span.end = span.end.max(answered.unwrap_or_default());
        let (parent, end) = (span.parent, span.end);
        if let Some(parent) = parent.and_then(|parent| spans.get_mut(parent)) {
            if matches!(parent.kind, SpanKind::Put(_)) {
                parent.end = parent.end.max(end);
            }
        }
    }
}
