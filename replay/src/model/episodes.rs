//! Which records of scan threads can matter to each other.
//!
//! A scan thread works through a list of records. Whatever it does from one record of the list to the next is an
//! episode: nothing on its stack is older, and nothing of it remains ([`Engine`](super::engine::Engine) empties the stack
//! where a scan begins). So records that are never in one episode do not meet in such a thread, and their hits can be read
//! without those of the others. This pass over a run puts records into one group that were in one episode, or that a
//! thread of another kind touched; a record of which nothing is known is alone.
//!
//! Only the order of the hits' shapes is unpacked, which is a fraction of the work. Where blocks overlap in time, their
//! events are read and put in order.

use super::caller::{self, Caller};
use super::numbered::{Dense, Numbered};
use crate::reading::scan::{Blocks, Part, Scan};
use iocrec_log::context::Context;
use iocrec_log::event::{CallSiteId, Event, Fact, IocId, PutKind, RecordId, ThreadId};
use iocrec_log::reader::{About, Block, Choice, Segment, SegmentFile, Shapes};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

/// Events of overlapping blocks that wait to be put in order, about 18 MB. With more, nothing is told.
const MAX_WAITING: usize = 500_000;

/// Groups of records.
#[derive(Default)]
pub struct Groups {
    /// The place of each record in the lists, by its number.
    places: Dense<u32>,
    records: Vec<RecordId>,
    /// For each record, one that is nearer to the first of its group; itself for that one.
    above: Vec<u32>,
}

impl Groups {
    /// The group of a record, as the place of one of its records.
    pub fn of(&mut self, record: RecordId) -> u32 {
        let place = self.place(record);
        self.find(place)
    }

    /// Puts two records into one group.
    pub fn unite(&mut self, one: RecordId, other: RecordId) {
        let (one, other) = (self.place(one), self.place(other));
        self.join(one, other);
    }

    /// All records that are in one of these groups.
    pub fn members(&mut self, groups: &HashSet<u32>) -> HashSet<RecordId> {
        let all = self.records.clone();
        all.into_iter().filter(|record| groups.contains(&self.of(*record))).collect()
    }

    fn place(&mut self, record: RecordId) -> u32 {
        if let Some(place) = self.places.get(record) {
            return *place; // mostly: each block has each record of a scan
        }
        let place = self.above.len() as u32;
        self.places.insert(record, place);
        self.records.push(record);
        self.above.push(place);
        place
    }

    fn find(&mut self, mut place: u32) -> u32 {
        loop {
            let Some(above) = self.above.get(place as usize).copied().filter(|above| *above != place) else {
                return place;
            };
            let further = self.above.get(above as usize).copied().unwrap_or(above);
            if let Some(of) = self.above.get_mut(place as usize) {
                *of = further;
            }
            place = above;
        }
    }

    fn join(&mut self, one: u32, other: u32) {
        if self.above.get(one as usize) == self.above.get(other as usize) {
            return; // mostly: they have been in one episode before
        }
        let (one, other) = (self.find(one), self.find(other));
        if let Some(above) = self.above.get_mut(other as usize) {
            *above = one;
        }
    }
}

/// A hit in a scan thread.
#[derive(Clone, Copy)]
struct Hit {
    /// Index of the thread.
    thread: u32,
    /// Place of its record.
    record: u32,
    /// Whether an episode begins with it.
    begins: bool,
}

/// One pass over a run.
struct Pass<'a> {
    groups: &'a mut Groups,
    /// The threads, by number, with their indices.
    threads: Numbered<ThreadId, u32>,
    /// Callers with which episodes begin, by what all of their definitions say.
    sites: &'a HashSet<CallSiteId>,
    /// Those of them that are defined by now, and their IOCs.
    defined: Numbered<CallSiteId, IocId>,
    /// Threads with hits that have no record, or that begin elsewhere than in a scan: their episodes tell nothing.
    unfit: HashSet<ThreadId>,
    /// For each thread, a record of the present episode.
    present: Vec<Option<u32>>,
    /// Events of blocks that overlap, by time; of equal times, the first one read comes first.
    waiting: BTreeMap<(u64, u64), Hit>,
    /// Number of events that have waited.
    waited: u64,
    /// How far blocks that overlap with others are settled once they have been read.
    overlaps: HashMap<(u64, u64, u64), u64>,
}

/// Groups the records that were in one episode of these threads. Returns the threads of which this can't be told, so that
/// all of their records belong together; `None` if nothing can be told. `sites`: the callers with which episodes begin.
pub fn group(
    files: &[SegmentFile],
    blocks: Blocks,
    threads: &HashSet<ThreadId>,
    sites: &HashSet<CallSiteId>,
    groups: &mut Groups,
) -> Option<HashSet<ThreadId>> {
    let overlaps = overlaps(files)?;
    let among: HashSet<ThreadId> = threads.clone();
    let overlapping: HashSet<_> = overlaps.keys().copied().collect();
    let choose = move |about: &About| {
        let listed = about.contents.as_ref().and_then(|contents| contents.threads.as_ref());
        let touched = listed.is_none_or(|listed| listed.iter().any(|of| among.contains(&of.thread)));
        if about.defines || overlapping.contains(&key(about)) && touched {
            Choice::Read
        } else if touched {
            Choice::Shapes
        } else {
            Choice::Pass
        }
    };
    let mut pass = Pass {
        groups,
        threads: (0..).zip(threads).map(|(index, thread)| (*thread, index)).collect(),
        sites,
        defined: Numbered::default(),
        unfit: HashSet::new(),
        present: vec![None; threads.len()],
        waiting: BTreeMap::new(),
        waited: 0,
        overlaps,
    };
    for part in Scan::new(files, blocks).choosing(Arc::new(choose)) {
        let Part::Block(block) = part else { continue };
        pass.take(block)?;
    }
    pass.settle(u64::MAX);
    Some(pass.unfit)
}

/// What tells a block from others: its times and its offset. Where two have the same, both are read.
fn key(about: &About) -> (u64, u64, u64) {
    (about.first, about.last, about.offset)
}

/// The blocks with hits that overlap with others in time, and for each the time before which nothing comes after it.
/// `None` if something in the segments can't be read.
fn overlaps(files: &[SegmentFile]) -> Option<HashMap<(u64, u64, u64), u64>> {
    let mut all = Vec::new();
    for file in files {
        let mut segment = Segment::open(&file.path).ok()?;
        while let Some(about) = segment.next_about() {
            // what is damaged has no hits here, and none when it is read
            let Ok(about) = about else { continue };
            let hits = |about: &About| {
                about.classes.is_none_or(|classes| classes.processing() || classes.puts() || classes.others())
            };
            if !about.keyframe && (hits(&about) || about.contents.is_none()) {
                all.push(about);
            }
        }
    }
    let mut found = HashMap::new();
    let mut settled = u64::MAX;
    let mut after = Vec::with_capacity(all.len());
    for about in all.iter().rev() {
        after.push(settled);
        settled = settled.min(about.first);
    }
    let mut latest = None;
    for (about, settled) in all.iter().zip(after.into_iter().rev()) {
        let before = latest.is_some_and(|latest| about.first <= latest);
        if before || about.last >= settled {
            let of = found.entry(key(about)).or_insert(settled);
            *of = settled.min(*of);
        }
        latest = latest.max(Some(about.last));
    }
    Some(found)
}

impl Pass<'_> {
    /// Takes a block. `None` if too much waits.
    fn take(&mut self, block: Block) -> Option<()> {
        let Some(about) = &block.about else { return Some(()) };
        for event in &block.events {
            match &event.fact {
                Fact::CallSite(site) if self.sites.contains(&site.id) => {
                    self.defined.insert(site.id, site.ioc);
                }
                Fact::IocEnd(end) => self.defined.retain(|_, ioc| *ioc != end.ioc),
                _ => {}
            }
        }
        if let Some(shapes) = &block.shapes {
            self.settle(u64::MAX); // it overlaps with none of them
            self.shapes(shapes);
            return Some(());
        }
        let overlap = self.overlaps.get(&key(about)).copied();
        if overlap.is_none() {
            self.settle(u64::MAX);
        }
        for event in &block.events {
            let Some(hit) = self.hit(event) else { continue };
            if overlap.is_none() {
                self.follow(hit);
            } else {
                self.waited += 1;
                self.waiting.insert((event.time, self.waited), hit);
            }
        }
        self.settle(overlap.unwrap_or_default());
        (self.waiting.len() <= MAX_WAITING).then_some(())
    }

    /// Takes the waiting events that are earlier than this.
    fn settle(&mut self, before: u64) {
        while let Some(first) = self.waiting.first_entry().filter(|first| first.key().0 < before) {
            let hit = first.remove();
            self.follow(hit);
        }
    }

    #[inline]
    fn follow(&mut self, hit: Hit) {
        let Some(present) = self.present.get_mut(hit.thread as usize) else { return };
        match *present {
            Some(record) if !hit.begins => {
                if record != hit.record {
                    self.groups.join(record, hit.record);
                }
            }
            _ => *present = Some(hit.record),
        }
    }

    fn shapes(&mut self, shapes: &Shapes) {
        let mut hits = Vec::with_capacity(shapes.shapes.len());
        for shape in &shapes.shapes {
            let put = shape.put.map(|(kind, _)| kind);
            hits.push(shape.thread.and_then(|thread| {
                let process = shape.kind == PROCESS;
                self.known(thread, shape.record, shape.site.filter(|_| process), put)
            }));
        }
        for shape in &shapes.order {
            if let Some(Some(hit)) = hits.get(*shape as usize) {
                self.follow(*hit);
            }
        }
    }

    fn hit(&mut self, event: &Event) -> Option<Hit> {
        match &event.fact {
            Fact::Process(hit) => self.known(hit.thread, Some(hit.record), Some(hit.site), None),
            Fact::Complete(hit) => self.known(hit.thread, Some(hit.record), None, None),
            Fact::Put(hit) => self.known(hit.thread, Some(hit.record), None, Some(hit.kind)),
            Fact::Cause(hit) => self.known(hit.thread, hit.record, None, None),
            Fact::CaLinkPut(hit) => self.known(hit.thread, None, None, None),
            _ => None,
        }
    }

    /// A hit, if it is in one of the threads. `caller`: that of `dbProcess`.
    fn known(
        &mut self,
        thread: ThreadId,
        record: Option<RecordId>,
        caller: Option<CallSiteId>,
        put: Option<PutKind>,
    ) -> Option<Hit> {
        let index = *self.threads.get(&thread)?;
        let Some(record) = record.filter(|_| put.is_none_or(|put| put == PutKind::Put)) else {
            self.unfit.insert(thread);
            return None;
        };
        let begins = caller.is_some_and(|caller| self.defined.contains_key(&caller));
        Some(Hit { thread: index, record: self.groups.place(record), begins })
    }
}

/// The number of [`Fact::Process`].
const PROCESS: u16 = 17;

/// Whether a scan begins with a call of `dbProcess` from here, so that nothing on the thread's stack is older.
pub fn begins(context: &Context, site: CallSiteId) -> bool {
    matches!(caller::caller(context, site), Caller::ScanList | Caller::Root(_))
}
