//! Links as they were seen: which record made which other process, how often; and the loops among them.
//!
//! A loop feeds itself if its records make each other process around a circle. [`loops`] finds the circles: the largest
//! sets of records in which every record leads to every other one by links that were seen, or a record that leads to
//! itself. A put after which its record did not process fed nothing: it found the record active, or only wrote a value. So
//! a circle of database links, which EPICS stops after one turn, is none; but if the record was active for its device, and
//! processed once more for the put when that was done, it is fed. That a circle exists does not mean that it never rests: the count says how often its records
//! processed because of each other.
//!
//! Nothing shows for which of its CP links a record with several was processed. It was the one whose source changed since
//! it was last processed for one, if only one did; if several did, that the record is fed by the last of them is counted as
//! a perhaps.
//!
//! A bo with HIGH processes once more, by the callback that it asked for, to return to zero: that ends there. A record
//! that is processed by its own callback feeds itself only if it asks for another one then.

use super::base_types::{has_processed, is_sequence};
use super::chain::{Chain, Outcome, ProcessSpan, PutSpan, Span, SpanKind, Trigger};
use super::naming::{Name, Naming};
use super::numbered::Keyed;
use super::run::record_name;
use super::{origins, outcome, value};
use crate::filter::Filter;
use epics::pv::{link_target, Pv};
use iocrec_log::event::{ScanListId, ThreadId, Value};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::hash::{Hash, Hasher};
use std::rc::Rc;

/// Links that are remembered; a bound for hostile logs.
const MAX_LINKS: usize = 200_000;
/// Wordings of causes that are remembered: threads and lists are few.
const MAX_LABELS: usize = 10_000;

/// The kind of a link: as [`Trigger::name`] has it, or `CA`.
pub type Kind = &'static str;

/// A link that was seen: the numbers of two records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Link {
    /// The record that it comes from.
    pub from: usize,
    /// The record that it leads to.
    pub to: usize,
    /// Its kind.
    pub kind: Kind,
}

/// Without the kind: two records are rarely linked in several ways, and it is hashed for every span.
impl Hash for Link {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.from, self.to).hash(state);
    }
}

/// What the wording of a chain's cause depends on: run, its definitions, trigger, thread, list, whether for a link.
type RootKey = (usize, u64, &'static str, Option<ThreadId>, Option<ScanListId>, bool);

/// A record that CP links follow.
#[derive(Default)]
struct Source {
    /// Its value and alarm, once seen.
    held: Option<(Value, (u16, u16))>,
    /// Wall-clock time of its last change.
    changed: i64,
}

/// Links, and how often they were followed.
#[derive(Default)]
pub struct LinksSeen {
    /// By link.
    pub links: Keyed<Link, u64>,
    /// How often each record processed by its own callback, and did not ask for it in such processing.
    once_more: Keyed<usize, u64>,
    /// Puts of links that made nothing process.
    idle: Keyed<Link, u64>,
    /// How often a record with several CP links processed for one of them, and several of their sources had changed: by the
    /// link whose source had changed last.
    perhaps: Keyed<Link, u64>,
    /// The sources of such links: what each held last, and when it last changed.
    sources_of_several: Keyed<usize, Source>,
    /// When records with several were last processed for one.
    last_of_several: Keyed<usize, i64>,
    /// How often each record processed, by number.
    pub processed: Vec<u64>,
    /// Causes of chains: the number of the kind of cause, and the record.
    roots: Keyed<(u32, u32), u64>,
    /// Whether nobody asks for them.
    without_roots: bool,
    /// Kinds of causes, and their numbers by name and by what is known before they are worded.
    labels: Vec<String>,
    label_numbers: Keyed<String, usize>,
    known_labels: Keyed<RootKey, usize>,
    /// Links that were left out because there are too many.
    pub left_out: u64,
    /// The records that CP links name, by name and the record with the link.
    sources: HashMap<(String, usize), usize>,
}

impl LinksSeen {
    /// Notes no causes of chains: who looks for loops alone needs none.
    pub fn without_roots(self) -> Self {
        LinksSeen { without_roots: true, ..self }
    }

    /// Takes a chain, and those that its CA links led to.
    pub fn take(&mut self, chain: &Chain, filter: &Filter, naming: &mut Naming) {
        self.walk(chain, false, filter, naming);
    }

    /// `by_link`: a CA link is the cause of the chain.
    fn walk(&mut self, chain: &Chain, by_link: bool, filter: &Filter, naming: &mut Naming) {
        let mut feeding: Option<HashSet<usize>> = None;
        for (number, span) in chain.spans.iter().enumerate() {
            match &span.kind {
                SpanKind::Process(process) => {
                    if !has_processed(&chain.run.context(), process) {
                        continue;
                    }
                    let to = naming.of(chain, span, process.record);
                    self.has_processed(to);
                    self.has_changed(chain, span, process, to);
                    match source(chain, span, naming) {
                        // The put has counted the link.
                        Some(_) if is_written(process) && is_by_put(chain, span) => {}
                        Some((from, put)) if from != to || !put => {
                            let link = Link { from, to, kind: process.trigger.name() };
                            let is_added = self.add(link, filter, naming);
                            if is_added && from == to && is_once_more(chain, span) {
                                *self.once_more.entry(to).or_default() += 1;
                            }
                        }
                        _ if number == 0 && !by_link => self.add_root(chain, span, to, filter, naming),
                        _ => {}
                    }
                }
                // a record that has it process to read from it
                SpanKind::Put(put) if put.only_processes && span.parent.is_some() => {}
                SpanKind::Put(put) => {
                    let Some(to) = put.record.map(|record| naming.of(chain, span, record)) else { continue };
                    if let Some(source) = self.sources_of_several.get_mut(&to).filter(|_| put.wrote) {
                        source.changed = source.changed.max(chain.run.wall(put.written.unwrap_or(span.end)));
                    }
                    if let Some((from, _)) = source(chain, span, naming) {
                        let kind = written_by(chain, span).name();
                        // processing for another reason has a link of its own
                        let fed = feeding.get_or_insert_with(|| by_puts(chain)).contains(&number);
                        self.add_put(Link { from, to, kind }, fed, filter, naming);
                    } else if number == 0 && !by_link && reached(chain, put) {
                        self.add_root(chain, span, to, filter, naming);
                    }
                }
                SpanKind::Link(link) => {
                    let Some(record) = link.record else { continue };
                    let from = naming.of(chain, span, record);
                    match &link.target {
                        Some(target) => {
                            let to = target.root().and_then(|root| match &root.kind {
                                SpanKind::Put(put) => Some(naming.of(target, root, put.record?)),
                                _ => None,
                            });
                            match to {
                                Some(to) => {
                                    let fed = is_fed(target);
                                    self.add_put(Link { from, to, kind: "CA" }, fed, filter, naming);
                                }
                                None => self.add_unrecorded(from, &link.pv, filter, naming),
                            }
                            self.walk(target, true, filter, naming);
                        }
                        None => self.add_unrecorded(from, &link.pv, filter, naming),
                    }
                }
            }
        }
    }

    /// Adds the put of a link, and whether it made its record process.
    fn add_put(&mut self, link: Link, fed: bool, filter: &Filter, naming: &Naming) {
        if self.add(link, filter, naming) && !fed {
            *self.idle.entry(link).or_default() += 1;
        }
    }

    /// Adds a CA link to a PV that was not recorded.
    fn add_unrecorded(&mut self, from: usize, link: &str, filter: &Filter, naming: &mut Naming) {
        let record = Pv::new(link_target(link)).record;
        let to = naming.number(Name { record: record.into(), ..Name::default() });
        self.add(Link { from, to, kind: "CA" }, filter, naming);
    }

    /// Adds a link; whether it is counted.
    fn add(&mut self, link: Link, filter: &Filter, naming: &Naming) -> bool {
        if let Some(count) = self.links.get_mut(&link) {
            *count += 1;
            return true;
        }
        if self.links.len() >= MAX_LINKS {
            self.left_out += 1;
            return false;
        }
        let wanted = self.wants(&link, filter, naming);
        if wanted {
            self.links.insert(link, 1);
        }
        wanted
    }

    fn wants(&self, link: &Link, filter: &Filter, naming: &Naming) -> bool {
        let wanted = |number| {
            let name = naming.named(number);
            filter.field(name.record, "VAL") && filter.place(name.host, name.ioc)
        };
        wanted(link.from) || wanted(link.to)
    }

    /// Adds the cause of a chain that no record caused.
    fn add_root(&mut self, chain: &Chain, span: &Span, to: usize, filter: &Filter, naming: &mut Naming) {
        if let SpanKind::Process(process) = &span.kind {
            if process.for_link && self.add_cp_link(chain, (span, process), to, filter, naming) {
                return;
            }
        }
        if self.without_roots {
            return;
        }
        let name = naming.named(to);
        if filter.field(name.record, "VAL") && filter.place(name.host, name.ioc) {
            let (label, to) = (self.label(chain, span) as u32, to as u32);
            if let Some(count) = self.roots.get_mut(&(label, to)) {
                *count += 1;
            } else if self.roots.len() < MAX_LINKS {
                self.roots.insert((label, to), 1);
            }
        }
    }

    /// Adds a CP link for which a record was processed. Returns whether it is known which one that was.
    fn add_cp_link(
        &mut self,
        chain: &Chain,
        (span, process): (&Span, &ProcessSpan),
        to: usize,
        filter: &Filter,
        naming: &mut Naming,
    ) -> bool {
        let links = chain.run.cp_links(span.start, process.record);
        let mut sources: Vec<usize> = links
            .iter()
            .map(|(_, source)| self.source_of_link((chain, process), source, to, naming))
            .collect();
        sources.sort_unstable();
        sources.dedup();
        if let [from] = sources.as_slice() {
            self.add(Link { from: *from, to, kind: "CP" }, filter, naming);
            return true;
        }
        let (begin, prompt) = (chain.run.wall(span.start), origins::prompt(span.start, process));
        let mut recent = Vec::new();
        for from in sources {
            if self.sources_of_several.len() < MAX_LINKS || self.sources_of_several.contains_key(&from) {
                let source = self.sources_of_several.entry(from).or_default();
                if source.changed >= begin.saturating_sub(prompt) {
                    recent.push((source.changed, from));
                }
            }
        }
        // what changed before it was last processed for a link was mostly served by that
        let last = self.last_of_several.get(&to).copied().unwrap_or(i64::MIN);
        if self.last_of_several.len() < MAX_LINKS || self.last_of_several.contains_key(&to) {
            self.last_of_several.insert(to, begin);
        }
        if recent.iter().any(|(changed, _)| *changed > last) {
            recent.retain(|(changed, _)| *changed > last);
        }
        match recent.as_slice() {
            [] => false,
            [(_, from)] => {
                self.add(Link { from: *from, to, kind: "CP" }, filter, naming);
                true
            }
            several => {
                let last = several.iter().max().map(|(_, from)| Link { from: *from, to, kind: "CP" });
                if let Some(link) = last.filter(|link| self.wants(link, filter, naming)) {
                    if self.perhaps.len() < MAX_LINKS || self.perhaps.contains_key(&link) {
                        *self.perhaps.entry(link).or_default() += 1;
                    }
                }
                false
            }
        }
    }

    /// Notes a change of a record that CP links of a record with several follow.
    fn has_changed(&mut self, chain: &Chain, span: &Span, process: &ProcessSpan, record: usize) {
        if self.sources_of_several.is_empty() {
            return;
        }
        let Some(source) = self.sources_of_several.get_mut(&record) else { return };
        let Outcome::Completed(done) = &process.outcome else { return };
        let held = (done.value.clone(), (done.severity, done.status));
        let is_same = source
            .held
            .as_ref()
            .is_some_and(|before| before.1 == held.1 && value::same(&before.0, &held.0) == Some(true));
        source.held = Some(held);
        if !is_same {
            source.changed = source.changed.max(chain.run.wall(span.end));
        }
    }

    fn has_processed(&mut self, record: usize) {
        if self.processed.len() <= record {
            self.processed.resize(record + 1, 0);
        }
        if let Some(count) = self.processed.get_mut(record) {
            *count += 1;
        }
    }

    /// Causes of chains and how often they were: the kind of cause, and the record.
    pub fn roots(&self) -> BTreeMap<(&str, usize), u64> {
        let label = |number: usize| self.labels.get(number).map_or("", String::as_str);
        let roots = self.roots.iter();
        roots.map(|((number, record), count)| ((label(*number as usize), *record as usize), *count)).collect()
    }

    /// The number of the kind of a chain's cause.
    fn label(&mut self, chain: &Chain, root: &Span) -> usize {
        let key = match &root.kind {
            SpanKind::Process(of) => {
                let run = Rc::as_ptr(&chain.run) as usize;
                // Definitions that change while a run is read change its wording.
                Some((run, chain.run.meanings(), of.trigger.name(), root.thread, of.list, of.for_link))
            }
            SpanKind::Put(_) | SpanKind::Link(_) => None,
        };
        if let Some(number) = key.and_then(|key| self.known_labels.get(&key)) {
            return *number;
        }
        let label = root_label(chain, root);
        let number = match self.label_numbers.get(&label) {
            Some(number) => *number,
            None if self.labels.len() >= MAX_LINKS => return self.labels.len(),
            None => {
                self.label_numbers.insert(label.clone(), self.labels.len());
                self.labels.push(label);
                self.labels.len() - 1
            }
        };
        if self.known_labels.len() >= MAX_LABELS {
            self.known_labels.clear();
        }
        self.known_labels.extend(key.map(|key| (key, number)));
        number
    }

    /// The record that a CP link of a record of a chain names: one of the same IOC if it has one of that name, else of any.
    fn source_of_link(
        &mut self,
        (chain, process): (&Chain, &ProcessSpan),
        source: &str,
        to: usize,
        naming: &mut Naming,
    ) -> usize {
        if let Some(number) = self.sources.get(&(source.to_owned(), to)) {
            return *number;
        }
        let record = Pv::new(source).record;
        let context = chain.run.context();
        let ioc = context.record(process.record).map(|record| record.ioc);
        // one that was not seen to process yet has no number
        let named = context.records().find(|other| Some(other.ioc) == ioc && other.name == record);
        let named = named.or_else(|| context.by_alias(ioc?, record)).map(|record| record.name.into());
        let number = match named {
            Some(record) => naming.number(Name { record, ..naming.name(to) }),
            None => {
                let found = naming.only(record);
                found.unwrap_or_else(|| naming.number(Name { record: record.into(), ..Name::default() }))
            }
        };
        if self.sources.len() < MAX_LINKS {
            self.sources.insert((source.to_owned(), to), number);
        }
        number
    }
}

impl LinksSeen {
    /// How often a link made its record process, apart from processing that ended what the record had begun itself.
    fn feeding(&self, link: &Link) -> u64 {
        let own = link.from == link.to && link.kind == Trigger::Callback.name();
        let ended = self.once_more.get(&link.to).copied().filter(|_| own).unwrap_or(0);
        let idle = self.idle.get(link).copied().unwrap_or(0);
        self.links.get(link).copied().unwrap_or(0).saturating_sub(ended).saturating_sub(idle)
    }
}

/// Whether a record's own callback processes it, which it had asked for in processing that was not caused so.
fn is_once_more(chain: &Chain, span: &Span) -> bool {
    let own = |span: &Span| match &span.kind {
        SpanKind::Process(process) => Some((process.record, process.trigger == Trigger::Callback)),
        _ => None,
    };
    let asked = span.parent.and_then(|parent| own(chain.spans.get(parent)?));
    own(span).zip(asked).is_some_and(|((record, called), (of, again))| called && record == of && !again)
}

/// The link by which a record makes a put.
fn written_by(chain: &Chain, put: &Span) -> Trigger {
    let mut above = put.parent.and_then(|parent| chain.spans.get(parent));
    while let Some(span) = above {
        if let SpanKind::Process(process) = &span.kind {
            let context = chain.run.context();
            let is_sequence = context.record(process.record).is_some_and(|of| is_sequence(of.rtype));
            return if is_sequence { Trigger::Fanout } else { Trigger::Out };
        }
        above = span.parent.and_then(|parent| chain.spans.get(parent));
    }
    Trigger::Out
}

/// Whether a link that writes made a record process, if a put did.
fn is_written(process: &ProcessSpan) -> bool {
    matches!(process.trigger, Trigger::Out | Trigger::Fanout)
}

/// The puts of a chain that made their records process, as links do.
fn by_puts(chain: &Chain) -> HashSet<usize> {
    let by_put = |span: &Span| match &span.kind {
        SpanKind::Process(process) if is_written(process) && has_processed(&chain.run.context(), process) => {
            span.parent
        }
        _ => None,
    };
    chain.spans.iter().filter_map(by_put).collect()
}

/// Whether the put at the root of a chain made its record process.
fn is_fed(chain: &Chain) -> bool {
    let is_begun = |span: &Span| matches!(&span.kind, SpanKind::Process(process) if has_processed(&chain.run.context(), process));
    chain.spans.iter().any(|span| span.parent == Some(0) && is_begun(span))
}

/// Whether a put to a known record made a span.
fn is_by_put(chain: &Chain, span: &Span) -> bool {
    let parent = span.parent.and_then(|parent| chain.spans.get(parent));
    parent.is_some_and(|parent| matches!(&parent.kind, SpanKind::Put(put) if put.record.is_some()))
}

/// The record whose processing led to a span, and whether through a put.
fn source(chain: &Chain, span: &Span, naming: &mut Naming) -> Option<(usize, bool)> {
    let mut parent = chain.spans.get(span.parent?)?;
    let mut put = false;
    loop {
        match &parent.kind {
            SpanKind::Process(process) => return Some((naming.of(chain, parent, process.record), put)),
            // The put of a link: its target processes because of the link's record.
            SpanKind::Put(_) | SpanKind::Link(_) => {
                put = true;
                parent = chain.spans.get(parent.parent?)?;
            }
        }
    }
}

/// The kind of cause of a chain, without its details.
pub fn root_label(chain: &Chain, root: &Span) -> String {
    let context = chain.run.context();
    match &root.kind {
        SpanKind::Put(_) => "put".to_owned(),
        SpanKind::Link(link) => {
            let of = link.record.map(|record| record_name(&context, record)).unwrap_or_default();
            format!("CA link of {of}")
        }
        SpanKind::Process(process) => {
            let thread = root.thread.and_then(|thread| context.thread(thread));
            let period = thread.and_then(|thread| super::caller::scan_period(&thread.name));
            let list = process.list.and_then(|list| context.scan_list(list)).map(|list| list.name.clone());
            let name = period.or(list.filter(|name| !name.is_empty()));
            match (process.trigger, name) {
                (Trigger::Scan, Some(name)) => format!("scan {name}"),
                (Trigger::Event, Some(name)) => format!("event {name}"),
                (Trigger::CpLink | Trigger::Once, _) if process.for_link => "CP link".to_owned(),
                (trigger, _) => trigger.name().to_owned(),
            }
        }
    }
}

/// Records that make each other process around a circle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loop {
    /// Their numbers.
    pub records: BTreeSet<usize>,
    /// How often they processed because of each other.
    pub count: u64,
    /// How often they processed in all.
    pub processed: u64,
    /// Puts of links among them that made nothing process.
    pub idle: u64,
    /// How often, of `count`, another CP link of the record may have been the reason.
    pub perhaps: u64,
}

/// The circles among the links, those that turn most first.
pub fn loops(seen: &LinksSeen) -> Vec<Loop> {
    let mut next: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    let mut links: Vec<&Link> = seen.links.keys().collect();
    links.retain(|link| seen.feeding(link) > 0);
    links.extend(seen.perhaps.keys());
    links.sort();
    links.dedup();
    for link in links {
        next.entry(link.from).or_default().push(link.to);
        next.entry(link.to).or_default();
    }
    let mut loops: Vec<Loop> = components(&next)
        .into_iter()
        .filter_map(|records| {
            let inside = |link: &Link| records.contains(&link.from) && records.contains(&link.to);
            let count: u64 =
                seen.links.keys().filter(|link| inside(link)).map(|link| seen.feeding(link)).sum();
            let idle = seen.idle.iter().filter(|(link, _)| inside(link)).map(|(_, count)| count).sum();
            let perhaps = seen.perhaps.iter().filter(|(link, _)| inside(link)).map(|(_, count)| count).sum();
            let processed = records.iter().filter_map(|record| seen.processed.get(*record)).sum();
            let count = count.saturating_add(perhaps);
            (count > 0).then_some(Loop { records, count, processed, idle, perhaps })
        })
        .collect();
    loops.sort_by_key(|found| (std::cmp::Reverse(found.count), found.records.first().copied()));
    loops
}

/// The strongly connected components that hold a circle (Tarjan's algorithm, without recursion: a chain of links can be
/// as long as a log).
fn components(next: &BTreeMap<usize, Vec<usize>>) -> Vec<BTreeSet<usize>> {
    #[derive(Clone, Copy, Default)]
    struct Visit {
        order: usize,
        low: usize,
        open: bool,
    }
    let mut visits: HashMap<usize, Visit> = HashMap::new();
    let (mut open, mut found): (Vec<usize>, Vec<BTreeSet<usize>>) = (Vec::new(), Vec::new());
    for start in next.keys() {
        if visits.contains_key(start) {
            continue;
        }
        let mut path: Vec<(usize, usize)> = vec![(*start, 0)];
        while let Some((node, edge)) = path.pop() {
            let order = visits.len();
            let visit = visits.entry(node).or_insert_with(|| {
                open.push(node);
                Visit { order, low: order, open: true }
            });
            let mut low = visit.low;
            let targets = next.get(&node).map_or(&[][..], Vec::as_slice);
            if let Some(to) = targets.get(edge) {
                path.push((node, edge + 1));
                match visits.get(to) {
                    None => path.push((*to, 0)),
                    Some(Visit { order, open: true, .. }) => {
                        low = low.min(*order);
                        visits.entry(node).and_modify(|visit| visit.low = low);
                    }
                    Some(_) => {}
                }
                continue;
            }
            let own = visits.get(&node).copied().unwrap_or_default();
            if own.low == own.order {
                let mut component = BTreeSet::new();
                while let Some(last) = open.pop() {
                    visits.entry(last).and_modify(|visit| visit.open = false);
                    component.insert(last);
                    if last == node {
                        break;
                    }
                }
                if component.len() > 1 || targets.contains(&node) {
                    found.push(component);
                }
            }
            if let Some((parent, _)) = path.last() {
                visits.entry(*parent).and_modify(|visit| visit.low = visit.low.min(own.low));
            }
        }
    }
    found
}

/// Whether the put at the root of a chain got to its record: not one that was refused, and not an acknowledgement.
fn reached(chain: &Chain, put: &PutSpan) -> bool {
    let context = chain.run.context();
    let status = outcome::of(chain, &context, 0, put).status;
    (status == "ok" || status == "unknown") && !outcome::acknowledges(&context, put)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(links: &[(usize, usize)]) -> Vec<Vec<usize>> {
        let mut seen = LinksSeen::default();
        for (from, to) in links {
            *seen.links.entry(Link { from: *from, to: *to, kind: "CP" }).or_default() += 1;
        }
        loops(&seen).into_iter().map(|found| found.records.into_iter().collect()).collect()
    }

    #[test]
    fn circles_are_found_and_nothing_else() {
        assert!(of(&[(1, 2), (2, 3), (1, 3)]).is_empty());
        assert_eq!(of(&[(1, 2), (2, 3), (3, 1), (3, 4), (4, 5)]), [[1, 2, 3]]);
        assert_eq!(of(&[(7, 7), (7, 8)]), [[7]]);
        let mut two = of(&[(1, 2), (2, 1), (2, 3), (3, 4), (4, 3)]);
        two.sort();
        assert_eq!(two, [[1, 2], [3, 4]]);
        assert_eq!(of(&[(1, 2), (2, 3), (3, 2), (3, 1)]), [[1, 2, 3]]);
    }

    #[test]
    fn puts_that_make_nothing_process_close_no_circle() {
        let (out, back) = (Link { from: 1, to: 2, kind: "OUT" }, Link { from: 2, to: 1, kind: "OUT" });
        let with = |followed: u64, idle: u64| {
            let mut seen = LinksSeen::default();
            seen.links.insert(out, 10);
            seen.links.insert(back, followed);
            seen.idle.insert(back, idle);
            loops(&seen).iter().map(|found| (found.count, found.idle)).collect::<Vec<_>>()
        };
        assert!(with(10, 10).is_empty(), "each turn ends at the record that began it");
        assert_eq!(with(10, 7), [(13, 7)]);
    }

    #[test]
    fn a_record_that_its_own_callback_processes_once_feeds_nothing() {
        let own = Link { from: 1, to: 1, kind: Trigger::Callback.name() };
        let with = |followed: u64, once_more: u64| {
            let mut seen = LinksSeen::default();
            seen.links.insert(own, followed);
            seen.once_more.insert(1, once_more);
            loops(&seen).iter().map(|found| found.count).collect::<Vec<_>>()
        };
        assert!(with(3, 3).is_empty(), "a bo with HIGH, three times");
        assert_eq!(with(9, 1), [8], "it asks for its callback again and again");
    }

    #[test]
    fn a_long_chain_of_links_needs_no_stack() {
        let mut links: Vec<(usize, usize)> = (0..100_000).map(|number| (number, number + 1)).collect();
        assert!(of(&links).is_empty());
        links.push((100_000, 0));
        assert_eq!(of(&links)[0].len(), 100_001);
    }
}
