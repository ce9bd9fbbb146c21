//! The chains of all runs: in the order of time, and joined across CA links.
//!
//! A record's CA link that writes makes a put in the target's IOC, be it the same, another on the
//! host, or on another host. Nothing in Channel Access says that the two belong together, so they
//! are joined only if nothing else fits: the same PV, a value that can have become the other, in
//! order and within [`LINK_WAIT`]. A chain is given out when all puts that its links can have made
//! are known; until then it is held, so memory is bounded by how much happens in that time.

use super::caller::{self, Role};
use super::pv::{link_target, Pv};
use super::run;
use super::span::{LinkSpan, PutSpan, Span, Tree, What};
use super::value;
use iocrec_log::event::CircuitId;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;

const SECOND: i64 = crate::time::SECOND as i64;
/// How long a link's put may take to get to its target.
const LINK_WAIT: i64 = SECOND;
/// By how much the clocks of two hosts may differ. NTP on a control network keeps to milliseconds.
const HOST_SKEW: i64 = SECOND / 10;
/// By how much times of one host may be out of order: hits and packets are timed in different places
/// of the kernel.
const OWN_SKEW: i64 = SECOND / 1000;
/// Links that are followed one after the other: IOCs can write to each other in circles for ever.
const MAX_DEPTH: usize = 8;

/// Place of a chain in the order of time: wall clock, and a number for equal times.
type Key = (i64, u64);
/// Record and field.
type Target = (String, String);

/// A put through a link, not joined yet.
struct Sent {
    time: i64,
    /// Whose link: run (as an address, only compared), record.
    source: (usize, u32),
}

/// Holds chains until they can be given out.
#[derive(Default)]
pub struct Order {
    trees: BTreeMap<Key, Tree>,
    count: u64,
    /// Puts that can have been made by a link: the roots of chains that are held.
    puts: HashMap<Target, Vec<Key>>,
    /// Links' puts in all chains that are held or were given out less than [`LINK_WAIT`] ago.
    sent: HashMap<Target, Vec<Sent>>,
    /// When `sent` was last cleared of what is too old.
    cleared: i64,
    /// Circuits that belong to an IOC's links, by what was learned: run and circuit.
    link_circuits: HashSet<(usize, CircuitId)>,
}

impl Order {
    /// A chain that has ended.
    pub fn insert(&mut self, tree: Tree) {
        let Some(root) = tree.root() else { return };
        let key = (tree.run.wall(root.start), self.count);
        self.count += 1;
        if let Some(target) = put_target(&tree) {
            self.puts.entry(target).or_default().push(key);
        }
        for span in &tree.spans {
            if let What::Link(link) = &span.what {
                let time = tree.run.wall(span.start);
                let source = (address(&tree), link.record.unwrap_or(u32::MAX));
                self.sent.entry(link_key(link)).or_default().push(Sent { time, source });
            }
        }
        self.trees.insert(key, tree);
    }

    /// Gives the chains that began before `until`, of which no more will come, to `sink`.
    pub fn release<E>(&mut self, until: i64, sink: &mut impl FnMut(Tree) -> Result<(), E>) -> Result<(), E> {
        while let Some((&key, tree)) = self.trees.first_key_value() {
            if key.0 >= until || waits_until(tree, 0) >= until {
                break;
            }
            let Some(mut tree) = self.take(key) else { break };
            self.resolve(&mut tree, 0);
            // What a link led to may have links of its own.
            if waits_until(&tree, 0) >= until {
                self.trees.insert(key, tree);
                break;
            }
            sink(tree)?;
        }
        if until.saturating_sub(LINK_WAIT) > self.cleared {
            self.cleared = until;
            let oldest = self.trees.first_key_value().map_or(until, |(key, _)| key.0.min(until));
            let keep = oldest.saturating_sub(2 * LINK_WAIT);
            self.sent.retain(|_, sent| {
                sent.retain(|one| one.time > keep);
                !sent.is_empty()
            });
        }
        Ok(())
    }

    fn take(&mut self, key: Key) -> Option<Tree> {
        let tree = self.trees.remove(&key)?;
        if let Some(target) = put_target(&tree) {
            if let Some(keys) = self.puts.get_mut(&target) {
                keys.retain(|own| *own != key);
                if keys.is_empty() {
                    self.puts.remove(&target);
                }
            }
        }
        Some(tree)
    }

    /// Looks for what the chain's links have led to.
    fn resolve(&mut self, tree: &mut Tree, depth: usize) {
        let (run, own) = (Rc::clone(&tree.run), address(tree));
        for span in &mut tree.spans {
            let time = run.wall(span.start);
            let What::Link(link) = &mut span.what else { continue };
            if !link.resolved && depth < MAX_DEPTH {
                link.target = self.target(own, time, link).and_then(|key| self.take(key)).map(Box::new);
            }
            link.resolved = true;
            if let Some(target) = &mut link.target {
                self.resolve(target, depth + 1);
            }
        }
    }

    /// The put that the link made, if only one can be it.
    fn target(&mut self, own: usize, time: i64, link: &LinkSpan) -> Option<Key> {
        let target = link_key(link);
        let mine = (own, link.record.unwrap_or(u32::MAX));
        let mut found: Vec<(Key, Option<(usize, CircuitId)>)> = Vec::new();
        for key in self.puts.get(&target)? {
            let tree = self.trees.get(key)?;
            let skew = if address(tree) == own { OWN_SKEW } else { HOST_SKEW };
            if key.0 < time - skew || key.0 > time + LINK_WAIT {
                continue;
            }
            let Some(Span { what: What::Put(put), .. }) = tree.root() else { continue };
            if value::same_through_link(&link.value, &put.requested) == Some(false) {
                continue;
            }
            // A later put of the same link explains it better; one of another record makes it doubtful.
            let rival = self.sent.get(&target).is_some_and(|sent| {
                sent.iter().any(|one| {
                    let before = one.time <= key.0 + skew && one.time > key.0 - LINK_WAIT;
                    before && if one.source == mine { one.time > time && one.time <= key.0 } else { true }
                })
            });
            if !rival {
                let circuit = put.packet.as_ref().map(|packet| (address(tree), packet.circuit));
                found.push((*key, circuit));
            }
        }
        let known = |circuit: &Option<(usize, CircuitId)>| {
            circuit.is_none_or(|circuit| self.link_circuits.contains(&circuit))
        };
        if found.iter().any(|(_, circuit)| known(circuit)) {
            found.retain(|(_, circuit)| known(circuit));
        }
        let (first, circuit) = *found.iter().min_by_key(|(key, _)| *key)?;
        if found.iter().any(|(_, other)| *other != circuit) {
            return None;
        }
        self.link_circuits.extend(circuit);
        Some(first)
    }
}

/// Wall-clock time until which puts may come that the chain's links have made.
fn waits_until(tree: &Tree, depth: usize) -> i64 {
    let links = tree.spans.iter().filter_map(|span| match &span.what {
        What::Link(link) => Some((span.start, link)),
        _ => None,
    });
    links
        .map(|(start, link)| match &link.target {
            Some(target) if depth < MAX_DEPTH => waits_until(target, depth + 1),
            _ if link.resolved => i64::MIN,
            _ => tree.run.wall(start).saturating_add(LINK_WAIT),
        })
        .max()
        .unwrap_or(i64::MIN)
}

/// Tells runs apart.
fn address(tree: &Tree) -> usize {
    Rc::as_ptr(&tree.run) as usize
}

fn link_key(link: &LinkSpan) -> Target {
    let pv = Pv::new(link_target(&link.pv));
    (pv.record.to_owned(), pv.field.to_owned())
}

/// What a chain's root writes to, if a CA link can have made it.
fn put_target(tree: &Tree) -> Option<Target> {
    let Some(Span { what: What::Put(put), thread, .. }) = tree.root() else { return None };
    let context = tree.run.context();
    let PutSpan { packet, record, field, .. } = put;
    match (packet, record) {
        (Some(packet), _)
            if context.channel(packet.channel).is_some_and(|channel| !channel.pv.is_empty()) =>
        {
            let pv = Pv::new(&context.channel(packet.channel)?.pv);
            Some((pv.record.to_owned(), pv.field.to_owned()))
        }
        (packet, Some(record)) => {
            let served = packet.is_some() || caller::role(&context, (*thread)?) == Role::CaLink;
            let field = run::field_name(&context, *field)?;
            served.then(|| (run::record_name(&context, *record), field.to_owned()))
        }
        _ => None,
    }
}
